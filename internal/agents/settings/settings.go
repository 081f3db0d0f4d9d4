package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"
)

// The agents whose settings are known, and the scopes of settings.
const (
	ClaudeCode = "claude-code"
	Codex      = "codex"
	Gemini     = "gemini"

	User    = "user"    // for all that this user does
	Project = "project" // for every user of a folder
	Local   = "local"   // for this user in a folder; Claude Code's only
)

// Place returns where an agent keeps its settings. env is os.LookupEnv, folder the working directory, home
// the user's.
func Place(agent, scope string, env func(string) (string, bool), home, folder string) (string, error) {
	under := func(variable, name string) string {
		if dir, ok := env(variable); ok && dir != "" && variable != "" {
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(folder, dir)
			}
			return dir
		}
		return filepath.Join(home, name)
	}
	switch agent + " " + scope {
	case "claude-code user":
		return filepath.Join(under("CLAUDE_CONFIG_DIR", ".claude"), "settings.json"), nil
	case "claude-code project":
		return filepath.Join(folder, ".claude", "settings.json"), nil
	case "claude-code local":
		return filepath.Join(folder, ".claude", "settings.local.json"), nil
	case "codex user":
		return filepath.Join(under("CODEX_HOME", ".codex"), "hooks.json"), nil
	case "codex project":
		return filepath.Join(repository(folder), ".codex", "hooks.json"), nil
	case "gemini user":
		return filepath.Join(under("", ".gemini"), "settings.json"), nil
	case "gemini project":
		return filepath.Join(folder, ".gemini", "settings.json"), nil
	}
	return "", fmt.Errorf("%s has no settings of the scope %s", agent, scope)
}

// Settings are the entries that belong into an agent's settings.
type Settings struct {
	Agent   string
	Command []string      // the program and its arguments, for an agent that runs it; or
	URL     string        // where the agent posts its events; Claude Code's only
	Begin   []string      // Command for the beginning of sessions and turns, which nothing waits for
	Timeout time.Duration // after which the agent gives up on a call's hook
}

// Gate is the address of the gate that the hooks ask.
func (s Settings) Gate() string {
	if i := slices.Index(s.Begin, "--server"); s.URL == "" && i >= 0 && i+1 < len(s.Begin) {
		return s.Begin[i+1]
	}
	return s.URL
}

// beginTimeout is after how long an agent gives up on a hook that only tells what was decided.
const beginTimeout = 10 * time.Second

// hook is one entry, for all agents.
type hook struct {
	Type      string            `json:"type"`
	Name      string            `json:"name,omitempty"`
	Command   string            `json:"command,omitempty"`
	URL       string            `json:"url,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Variables []string          `json:"allowedEnvVars,omitempty"`
	Timeout   int64             `json:"timeout"`
	OnFailure string            `json:"onFailure,omitempty"`
}

type entry struct {
	event string
	hook  hook
}

// entries are what is to be there, event by event.
func (s Settings) entries() []entry {
	ask, begin := hook{Type: "command", Command: shell(s.Command)}, hook{Type: "command", Command: shell(s.Begin)}
	unit := time.Second
	switch s.Agent {
	case ClaudeCode:
		// Without it a hook that fails in a way that is no answer lets the call run.
		ask.OnFailure = "block"
		if s.URL != "" {
			ask.Type, ask.Command, ask.URL = "http", "", s.URL
			ask.Headers, ask.Variables = map[string]string{"Authorization": "Bearer $COUNTERSIGN_TOKEN"},
				[]string{"COUNTERSIGN_TOKEN"}
			begin = ask
			begin.OnFailure = ""
		}
	case Gemini:
		unit = time.Millisecond
		ask.Name, begin.Name = hookName, hookName
	}
	ask.Timeout, begin.Timeout = int64(s.Timeout/unit), int64(beginTimeout/unit)
	switch {
	case s.Agent == Gemini:
		return []entry{{"BeforeTool", ask}, {"BeforeAgent", begin}, {"SessionStart", begin}}
	case s.URL != "": // the beginning of a session takes no hook of type http
		return []entry{{"PreToolUse", ask}, {"UserPromptSubmit", begin}}
	}
	return []entry{{"PreToolUse", ask}, {"UserPromptSubmit", begin}, {"SessionStart", begin}}
}

// shell writes a command as a shell reads it.
func shell(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if w == "" || strings.Trim(w, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:=@%+,") != "" {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		quoted[i] = w
	}
	return strings.Join(quoted, " ")
}

// words reads a command that [shell] wrote, or one that a person wrote much like it.
func words(command string) []string {
	var ws []string
	var w strings.Builder
	in, quote := false, rune(0)
	for _, r := range strings.ReplaceAll(command, `'\''`, "\x00") {
		switch {
		case r == 0:
			w.WriteByte('\'')
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, in = r, true
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			if in {
				ws = append(ws, w.String())
				w.Reset()
			}
			in = false
		default:
			w.WriteRune(r)
			in = true
		}
	}
	if in {
		ws = append(ws, w.String())
	}
	return ws
}

// ours reports whether an entry asks this program for this agent, wherever and however it is called.
func (s Settings) ours(v hujson.Value) bool {
	var h hook
	if s.decode(v, &h) != nil {
		return false
	}
	if h.Type == "http" {
		u, err := url.Parse(h.URL)
		return err == nil && strings.HasSuffix(u.Path, "/hooks/"+s.Agent)
	}
	ws := words(h.Command)
	if len(ws) < 3 || ws[1] != "hook" || ws[2] != s.Agent {
		return false
	}
	name := strings.TrimSuffix(path.Base(strings.ReplaceAll(ws[0], `\`, "/")), ".exe")
	return strings.HasPrefix(name, "countersign") || len(s.Command) > 0 && ws[0] == s.Command[0]
}

func (Settings) decode(v hujson.Value, into any) error {
	v = v.Clone()
	v.Standardize()
	return json.Unmarshal(v.Pack(), into)
}

// Add returns the settings with our entries in them, as of now: what is there of an older version is
// brought up to date where it stands. Settings that have all of it come back as they are.
func (s Settings) Add(old []byte) ([]byte, error) { return s.edit(old, s.entries()) }

// Remove returns the settings without our entries, and without what only held them.
func (s Settings) Remove(old []byte) ([]byte, error) { return s.edit(old, nil) }

// bom is what some editors put before the text of a file. It stays.
var bom = []byte("\ufeff")

func (s Settings) edit(old []byte, want []entry) ([]byte, error) {
	text, marked := bytes.CutPrefix(old, bom)
	if len(bytes.TrimSpace(text)) == 0 {
		if len(want) == 0 {
			return old, nil
		}
		text = []byte("{}\n")
	}
	doc, err := hujson.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %s", strings.TrimPrefix(err.Error(), "hujson: "))
	}
	root, ok := doc.Value.(*hujson.Object)
	if !ok {
		return nil, errors.New("it is not a JSON object")
	}
	st := styleOf(root, text)
	all, err := child(root, "hooks")
	if err != nil {
		return nil, err
	}
	changed := false
	if all != nil {
		if changed, err = s.update(all, &want, st); err != nil {
			return nil, err
		}
	}
	switch {
	case len(want) > 0:
		if all == nil {
			all = &hujson.Object{}
			appendMember(root, "hooks", hujson.Value{Value: all}, st, 1)
		}
		for _, e := range want {
			if err := place(all, e, st); err != nil {
				return nil, err
			}
		}
		changed = true
	case changed && all != nil && len(all.Members) == 0 && !hasComment(all.AfterExtra):
		removeMember(root, slices.IndexFunc(root.Members, func(m hujson.ObjectMember) bool { return nameOf(m) == "hooks" }))
	}
	if !changed {
		return old, nil
	}
	if marked {
		return append(slices.Clone(bom), doc.Pack()...), nil
	}
	return doc.Pack(), nil
}

// update brings what is ours up to date or takes it out, and leaves in want what was not there.
func (s Settings) update(all *hujson.Object, want *[]entry, st style) (changed bool, err error) {
	for i := 0; i < len(all.Members); i++ {
		event := nameOf(all.Members[i])
		groups, ok := all.Members[i].Value.Value.(*hujson.Array)
		if !ok {
			return false, fmt.Errorf("hooks.%s is not a list", event)
		}
		touched := false
		for j := 0; j < len(groups.Elements); j++ {
			group, ok := groups.Elements[j].Value.(*hujson.Object)
			if !ok {
				return false, fmt.Errorf("hooks.%s[%d] is not an object", event, j)
			}
			hooks, err := list(group, "hooks")
			if err != nil {
				return false, fmt.Errorf("hooks.%s[%d]: %w", event, j, err)
			}
			if hooks == nil {
				continue
			}
			had := len(hooks.Elements)
			for k := 0; k < len(hooks.Elements); k++ {
				if !s.ours(hooks.Elements[k]) {
					continue
				}
				at := slices.IndexFunc(*want, func(e entry) bool { return e.event == event })
				if at < 0 { // taken out, there twice, or of a version that had more
					removeElement(hooks, k)
					k--
					touched = true
					continue
				}
				same, err := s.replace(&hooks.Elements[k], (*want)[at].hook, st)
				if err != nil {
					return false, err
				}
				changed = changed || !same
				*want = slices.Delete(slices.Clone(*want), at, at+1)
			}
			if had > 0 && len(hooks.Elements) == 0 && !hasComment(hooks.AfterExtra) {
				removeElement(groups, j)
				j--
			}
		}
		if touched {
			changed = true
			if len(groups.Elements) == 0 && !hasComment(groups.AfterExtra) {
				removeMember(all, i)
				i--
			}
		}
	}
	return changed, nil
}

// replace puts a hook where an older form of it is, unless they mean the same.
func (s Settings) replace(v *hujson.Value, h hook, st style) (same bool, err error) {
	var was, is any
	if err := s.decode(*v, &was); err != nil {
		return false, err
	}
	text := encode(h, "", "")
	if err := json.Unmarshal(text, &is); err != nil {
		return false, err
	}
	if reflect.DeepEqual(was, is) {
		return true, nil
	}
	indent := "" // the lines are as deep as the old one's
	if i := bytes.LastIndexByte(v.BeforeExtra, '\n'); i >= 0 {
		indent = string(v.BeforeExtra[i+1:])
	}
	n, err := hujson.Parse(st.lines(encode(h, indent, st.unit)))
	if err != nil {
		return false, err
	}
	v.Value = n.Value
	return false, nil
}

// place puts an entry at the end of its event's list, in a group of its own.
func place(all *hujson.Object, e entry, st style) error {
	at := slices.IndexFunc(all.Members, func(m hujson.ObjectMember) bool { return nameOf(m) == e.event })
	if at < 0 {
		appendMember(all, e.event, hujson.Value{Value: &hujson.Array{}}, st, 2)
		at = len(all.Members) - 1
	}
	groups, ok := all.Members[at].Value.Value.(*hujson.Array)
	if !ok {
		return fmt.Errorf("hooks.%s is not a list", e.event)
	}
	group, err := hujson.Parse(st.lines(encode(map[string][]hook{"hooks": {e.hook}}, strings.Repeat(st.unit, 3), st.unit)))
	if err != nil {
		return err
	}
	appendElement(groups, hujson.Value{Value: group.Value}, st, 3)
	return nil
}

func encode(v any, prefix, indent string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(prefix, indent)
	if err := e.Encode(v); err != nil {
		panic("install: " + err.Error()) // of our own types, which can be encoded
	}
	return bytes.TrimSpace(b.Bytes())
}
