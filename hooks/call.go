package hooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"countersign/approval"
)

// Call is what the gate is asked.
type Call struct {
	Server    string
	Tool      string
	Args      json.RawMessage // what an approval covers
	Scope     string          // the working directory
	SessionID string
	TurnID    string
	Rationale string // the agent's own words
	Preview   string // what an edit changes
}

// shells are the tools that run a command line. Their description is the model's comment on the command,
// written anew on every try: it is shown, and is no part of what is approved.
var shells = map[Agent][]string{
	ClaudeCode: {"Bash", "PowerShell"},
	Codex:      {"Bash"},
	Gemini:     {"run_shell_command"},
}

const aside = "description"

// Call returns what to ask of the gate. read looks at the files that an edit changes; nil does not look.
func (e Event) Call(read Read) (Call, error) {
	c := Call{Server: e.Server, Tool: e.Tool, Args: e.Input, Scope: e.CWD, SessionID: e.SessionID, TurnID: e.TurnID}
	if e.isShell() {
		ms, err := readMembers(e.Input)
		if err != nil {
			return c, fmt.Errorf("tool_input: %w", err)
		}
		c.Args, c.Rationale = withoutAside(ms)
	}
	if e.Server == "" {
		c.Preview = e.preview(read)
	}
	c.fit()
	return c, nil
}

func (e Event) isShell() bool {
	if e.Server != "" {
		return false
	}
	for _, name := range shells[e.Agent] {
		if e.Tool == name {
			return true
		}
	}
	return false
}

// withoutAside returns the object without its description, every other byte of names and values as it was
// written, and the description if it is text.
func withoutAside(ms []member) (json.RawMessage, string) {
	words := ""
	kept := []byte("{")
	for _, m := range ms {
		var name string
		if json.Unmarshal(m.name, &name) == nil && name == aside {
			if m.value.Kind() == '"' {
				_ = json.Unmarshal(m.value, &words) // it was read as JSON before
			}
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(append(append(kept, m.name...), ':'), m.value...)
	}
	return append(kept, '}'), words
}

// fit keeps what is said beside the args within the gate's limits: it must not be what stops a call.
func (c *Call) fit() {
	if len(c.Rationale) > approval.MaxRationale {
		const mark = 32
		cut := c.Rationale[:approval.MaxRationale-mark]
		for !utf8.ValidString(cut) {
			cut = cut[:len(cut)-1]
		}
		c.Rationale = fmt.Sprintf("%s… (+%d)", cut, utf8.RuneCountInString(c.Rationale[len(cut):]))
	}
	const rest = 64 << 10 // the other members, and room for escapes in them
	if len(c.Args)+quotedLen(c.Preview)+rest > MaxInput {
		c.Preview = "The difference is not shown: together with the arguments it is more than the gate takes."
	}
}

// quotedLen is how long s is in JSON.
func quotedLen(s string) int {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil {
		return 6 * len(s)
	}
	return b.Len()
}

// left reports whether the call goes through a gateway of exactly that name, which asks by itself. Where the
// event does not tell the server's name, it could end at any two underscores: what allows more than one
// reading is asked about.
func (e Event) left(gateways []string) bool {
	for _, name := range gateways {
		if name == "" {
			continue
		}
		if e.named == name {
			return true
		}
		tool, fits := strings.CutPrefix(e.joined, name+"__")
		if fits && tool != "" && tool[0] != '_' && !strings.Contains(tool, "__") {
			return true
		}
	}
	return false
}

// clip keeps text within limit bytes, in whole lines, and says how many are missing.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = 64
	kept := text[:limit-mark]
	if i := strings.LastIndexByte(kept, '\n'); i > 0 {
		kept = kept[:i+1]
		rest := text[len(kept):]
		n := strings.Count(rest, "\n")
		if !strings.HasSuffix(rest, "\n") {
			n++
		}
		return fmt.Sprintf("%s… (+%d lines)", kept, n)
	}
	for !utf8.ValidString(kept) {
		kept = kept[:len(kept)-1]
	}
	return fmt.Sprintf("%s… (+%d bytes)", kept, len(text)-len(kept))
}
