package hooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/client"
)

// comments name, of an agent's own tools, the argument that is the model's comment on the call, written anew
// on every try: it is shown, and is no part of what is approved. No tool acts on them: the instruction of Gemini's
// replace is none, since with it a model looks for what to replace where the text is not found.
var comments = map[Agent]map[string]string{
	ClaudeCode: {"Bash": "description", "PowerShell": "description"},
	Codex:      {"Bash": "description"},
	Gemini:     {"run_shell_command": "description"},
}

// comment is the name of the argument that is a comment on this call, "" where the tool has none.
func (e Event) comment() string {
	if e.Server != "" {
		return ""
	}
	return comments[e.Agent][e.Tool]
}

// Call returns what to ask of the gate. read looks at the files that an edit changes; nil does not look.
func (e Event) Call(read Read) (client.Call, error) {
	c := client.Call{Server: e.Server, Tool: e.Tool, Args: e.Input, Scope: e.CWD, SessionID: e.SessionID, TurnID: e.TurnID}
	var err error
	if c.Args, _, c.Rationale, err = e.split(); err != nil {
		return c, err
	}
	if e.Server == "" {
		c.Preview = e.preview(read)
	}
	fit(&c)
	return c, nil
}

// split takes the model's comment out of the arguments: it returns them without it, every other byte of names
// and values as it was written, then the comment's member as it was written, nil if there is none, and its
// words if it is text.
func (e Event) split() (rest json.RawMessage, comment *member, words string, err error) {
	of := e.comment()
	if of == "" {
		return e.Input, nil, "", nil
	}
	ms, err := readMembers(e.Input)
	if err != nil {
		return nil, nil, "", fmt.Errorf("tool_input: %w", err)
	}
	kept := append(make([]byte, 0, len(e.Input)), '{')
	for _, m := range ms {
		var name string
		if json.Unmarshal(m.name, &name) == nil && name == of {
			comment = &m
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
	return append(kept, '}'), comment, words, nil
}

// replacement is what the call's input is to be replaced with so that it runs with the approved arguments:
// nil where that is what the agent is about to run. The model's comment stays with the call.
func (e Event) replacement(approved json.RawMessage) (json.RawMessage, error) {
	sent, comment, _, err := e.split()
	if err != nil {
		return nil, err
	}
	is, err := args.Parse(sent)
	if err != nil {
		return nil, err
	}
	was, err := args.Parse(approved)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(is.Canonical(), was.Canonical()) {
		return nil, nil
	}
	if comment == nil || was.Has(e.comment()) {
		return approved, nil
	}
	ms, err := readMembers(approved)
	if err != nil {
		return nil, err
	}
	whole := append(append(append([]byte("{"), comment.name...), ':'), comment.value...)
	for _, m := range ms {
		whole = append(append(append(append(whole, ','), m.name...), ':'), m.value...)
	}
	return append(whole, '}'), nil
}

// fit keeps what is said beside the args within the gate's limits: it must not be what stops a call.
func fit(c *client.Call) {
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
		c.Preview = "The difference is not shown: with the arguments it is longer than the gate takes."
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

// goesThrough reports whether the call goes through a gateway of exactly that name, which asks by itself. Where the
// event does not tell the server's name, it could end at any two underscores: what allows more than one
// reading is asked about. So is a name with an underscore, for which agents put _ in the place of other characters:
// g_w may be the name of g.w, which is another server.
func (e Event) goesThrough(gateways []string) bool {
	for _, name := range gateways {
		if name == "" {
			continue
		}
		if e.named == name {
			return true
		}
		tool, fits := strings.CutPrefix(e.joined, name+"__")
		if fits && !strings.Contains(name, "_") && tool != "" && tool[0] != '_' && !strings.Contains(tool, "__") {
			return true
		}
	}
	return false
}
