package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Agent is a coding agent whose hooks are spoken.
type Agent string

const (
	ClaudeCode Agent = "claude-code"
	Codex      Agent = "codex"
	Gemini     Agent = "gemini"
)

// Kind is what an event asks for.
type Kind int

const (
	BeforeTool Kind = iota + 1 // whether a call may run
	Beginning                  // what was decided since: a session or a turn begins
)

// kinds are the events that each agent has for us.
var kinds = map[Agent]map[string]Kind{
	ClaudeCode: {"PreToolUse": BeforeTool, "UserPromptSubmit": Beginning, "SessionStart": Beginning},
	Codex:      {"PreToolUse": BeforeTool, "UserPromptSubmit": Beginning, "SessionStart": Beginning},
	Gemini:     {"BeforeTool": BeforeTool, "BeforeAgent": Beginning, "SessionStart": Beginning},
}

// MaxInput is how long an event may be, in bytes: what the gate takes as one call, too.
const MaxInput = 1 << 20

// Event is what an agent tells its hook.
type Event struct {
	Agent     Agent
	Name      string // the agent's own name of it
	Kind      Kind
	SessionID string
	TurnID    string // Claude's prompt_id, Codex' turn_id; "" where the agent has none
	CWD       string
	Source    string // of a session's beginning: startup, resume, …

	// Of a call.
	ToolUseID string
	Server    string // the MCP server that has the tool, "" for the agent's own
	Tool      string
	Input     json.RawMessage // the bytes of tool_input

	named  string // the server's name, where the event tells it
	joined string // where it does not: server__tool, of which only the agent knows where the server's name ends
}

// Parse reads an event. Members that are not known are ignored; what is missing, of the wrong type or
// there twice is an error, whose text is safe to show and quotes no value.
func Parse(agent Agent, input []byte) (Event, error) {
	e := Event{Agent: agent}
	f, err := readObject(input)
	if err != nil {
		return e, fmt.Errorf("what the agent sent is not an event: %w", err)
	}
	for _, m := range []struct {
		name string
		to   *string
	}{
		{"hook_event_name", &e.Name}, {"session_id", &e.SessionID}, {"turn_id", &e.TurnID}, {"prompt_id", &e.TurnID},
		{"cwd", &e.CWD}, {"source", &e.Source}, {"tool_use_id", &e.ToolUseID}, {"tool_name", &e.Tool},
	} {
		if m.name == "source" && !f.is(m.name, '"') {
			continue // other agents' versions may have an object there, and we only ask for one word
		}
		if s, err := f.text(m.name); err != nil {
			return e, fmt.Errorf("what the agent sent is not an event: %w", err)
		} else if s != "" {
			*m.to = s
		}
	}
	e.Kind = kinds[agent][e.Name]
	switch {
	case e.Name == "":
		return e, errors.New("what the agent sent has no hook_event_name")
	case e.Kind == 0:
		return e, fmt.Errorf("this hook does not answer the event %q of %s", shorten(e.Name, 40), agent)
	case e.Kind == Beginning:
		e.Tool = ""
		return e, nil
	case e.Tool == "":
		return e, errors.New("what the agent sent has no tool_name")
	case e.CWD == "":
		return e, errors.New("what the agent sent has no cwd")
	case !f.is("tool_input", '{'):
		return e, errors.New("what the agent sent has no tool_input that is an object")
	}
	e.Input = json.RawMessage(f["tool_input"])
	if agent == Gemini {
		prefixed := strings.HasPrefix(e.Tool, geminiPrefix)
		if e.Server, e.Tool, err = geminiTool(e.Tool, f); prefixed {
			e.named = e.Server
		}
	} else {
		err = e.splitTool(f)
	}
	return e, err
}

// splitTool reads mcp__server__tool. Where the event names the server, that name says where it ends, and
// one that does not fit leaves the tool's name in one piece. So does one that could end in two places: a
// rule that allows tools of my must not meet those of my__srv.
func (e *Event) splitTool(f object) error {
	rest, isMCP := strings.CutPrefix(e.Tool, "mcp__")
	if !isMCP {
		return nil
	}
	if v := f["mcp_server"]; len(v) > 0 && v.Kind() != 'n' {
		name, err := serverName(v)
		if err != nil {
			return fmt.Errorf("mcp_server: %w", err)
		}
		if tool, fits := strings.CutPrefix(rest, plain(name)+"__"); fits && name != "" && tool != "" {
			e.Server, e.Tool, e.named = plain(name), tool, name
		}
		return nil
	}
	if server, tool, found := strings.Cut(rest, "__"); found && server != "" && tool != "" {
		e.joined = rest
		if !strings.Contains(tool, "__") && tool[0] != '_' {
			e.Server, e.Tool = server, tool
		}
	}
	return nil
}

// serverName is the name in an event's mcp_server, "" for what is no object.
func serverName(v jsontext.Value) (string, error) {
	if v.Kind() != '{' {
		return "", nil
	}
	server, err := readObject(v)
	if err != nil {
		return "", err
	}
	return server.text("name")
}

// geminiPrefix is what Gemini CLI writes before the name of a server's tool.
const geminiPrefix = "mcp_"

// geminiTool reads mcp_server_tool. One underscore does not tell where the server's name ends, so the
// names are taken from mcp_context, where it has them and they fit; else the name stays in one piece. Versions that
// write no mcp_ before a server's tool have mcp_context too, and for an own tool there is none.
func geminiTool(name string, f object) (server, tool string, err error) {
	if !f.is("mcp_context", '{') {
		return "", name, nil
	}
	c, err := readObject(f["mcp_context"])
	if err != nil {
		return "", "", fmt.Errorf("mcp_context: %w", err)
	}
	if server, err = c.text("server_name"); err != nil {
		return "", "", fmt.Errorf("mcp_context: %w", err)
	}
	rest, prefixed := strings.CutPrefix(name, geminiPrefix)
	if !prefixed {
		if bare, ok := strings.CutPrefix(name, plain(server)+"__"); ok && server != "" && bare != "" {
			name = bare
		}
		return server, name, nil
	}
	for _, between := range []string{"_", "__"} {
		if tool, ok := strings.CutPrefix(strings.TrimPrefix(rest, "_"), plain(server)+between); ok && server != "" &&
			tool != "" && tool[0] != '_' {
			return server, tool, nil
		}
	}
	return "", name, nil
}

// plain is a server's name as agents write it into a tool's name.
func plain(server string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, server)
}

// object is a JSON object's members by their exact names, as the bytes that were sent.
type object map[string]jsontext.Value

// member is one member as it was written.
type member struct{ name, value jsontext.Value }

// readMembers reads exactly one object, in order. Names that are there twice, at any depth, and text that
// is not UTF-8 are refused: another reader could read another value. The members refer to raw.
func readMembers(raw []byte) ([]member, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New("there is nothing")
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(raw)) // which it reads in place
	if d.PeekKind() != '{' {
		if _, err := d.ReadValue(); err != nil {
			return nil, notJSON(err)
		}
		return nil, errors.New("it is not a JSON object")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, notJSON(err)
	}
	var ms []member
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return nil, notJSON(err)
		}
		m := member{name: name.Clone()}
		value, err := d.ReadValue()
		if err != nil {
			return nil, notJSON(err)
		}
		// The decoder's own value lives only until it reads on; what it stands for in raw stays.
		end := int(d.InputOffset())
		m.value = raw[end-len(value) : end : end]
		ms = append(ms, m)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, notJSON(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return ms, nil
}

// notJSON says what is wrong without a word of what was sent.
func notJSON(err error) error {
	var s *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return errors.New("an object has a name twice")
	case errors.As(err, &s):
		return fmt.Errorf("it is not JSON, from byte %d on", s.ByteOffset)
	}
	return errors.New("it is not JSON")
}

func readObject(raw []byte) (object, error) {
	ms, err := readMembers(raw)
	if err != nil {
		return nil, err
	}
	f := object{}
	for _, m := range ms {
		name, err := jsontext.AppendUnquote(nil, m.name)
		if err != nil {
			return nil, errors.New("it is not JSON")
		}
		f[string(name)] = m.value
	}
	return f, nil
}

// is reports whether the member is there and of a kind.
func (f object) is(name string, kind jsontext.Kind) bool {
	return len(f[name]) > 0 && f[name].Kind() == kind
}

// text returns a text member, "" where it is absent or null.
func (f object) text(name string) (string, error) {
	v := f[name]
	if len(v) == 0 || v.Kind() == 'n' {
		return "", nil
	}
	if v.Kind() != '"' {
		return "", fmt.Errorf("%s is not text", name)
	}
	s, err := jsontext.AppendUnquote(nil, v)
	return string(s), err
}

// requireText returns a text member that must be there.
func (f object) requireText(name string) (string, bool) {
	if !f.is(name, '"') {
		return "", false
	}
	s, err := f.text(name)
	return s, err == nil
}

func (f object) isTrue(name string) bool { return f.is(name, 't') }

// shorten cuts s to limit characters and says how many are missing.
func shorten(s string, limit int) string {
	n := 0
	for i := range s {
		if n == limit {
			return fmt.Sprintf("%s… (+%d)", s[:i], len([]rune(s[i:])))
		}
		n++
	}
	return s
}
