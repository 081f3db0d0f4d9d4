package hooks

import (
	"context"
	"countersign/client"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"
)

// fakeGate answers every call alike, and remembers what it was asked.
type fakeGate struct {
	answer  client.Answer
	err     error
	endings []client.Approval

	asked []client.Call
	wait  time.Duration
	acked []string
}

func (g *fakeGate) Ask(_ context.Context, c client.Call, wait time.Duration) (client.Answer, error) {
	g.asked, g.wait = append(g.asked, c), wait
	a := g.answer
	if a.Kind == client.AnswerApproved && a.Args == nil {
		a.Args = c.Args
	}
	return a, g.err
}

func (g *fakeGate) Resolved(context.Context, string, time.Duration) ([]client.Approval, error) {
	return g.endings, g.err
}

func (g *fakeGate) Ack(_ context.Context, ids ...string) (client.Acked, error) {
	g.acked = append(g.acked, ids...)
	return client.Acked{Acked: ids}, g.err
}

// events are what the agents send, as they were seen.
var events = map[Agent]string{
	ClaudeCode: `{"session_id":"7494b2f4","transcript_path":"/home/u/.claude/projects/p/7494b2f4.jsonl","cwd":"/srv/app","prompt_id":"4a1c0fbd","permission_mode":"default",
		"effort":{"level":"medium"},"hook_event_name":"PreToolUse","tool_name":"TOOL","tool_input":INPUT,"tool_use_id":"toolu_1"}`,
	Codex: `{"session_id":"019a","turn_id":"7","transcript_path":null,"cwd":"/srv/app","hook_event_name":"PreToolUse","model":"gpt","permission_mode":"default",
		"tool_name":"TOOL","tool_input":INPUT,"tool_use_id":"call_1"}`,
	Gemini: `{"session_id":"g1","transcript_path":"/tmp/t.json","cwd":"/srv/app","hook_event_name":"BeforeTool","timestamp":"2026-11-21T09:30:00Z","tool_name":"TOOL","tool_input":INPUT}`,
}

func event(t *testing.T, agent Agent, tool, input string) Event {
	t.Helper()
	e, err := Parse(agent, []byte(strings.NewReplacer("TOOL", tool, "INPUT", input).Replace(events[agent])))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// disk is a Read of files that are only there for the test.
func disk(files map[string]string) Read {
	return func(path string) (File, error) {
		switch text, ok := files[path]; {
		case !ok:
			return File{}, fs.ErrNotExist
		case text == "(long)":
			return File{}, errTooLong
		case text == "(closed)":
			return File{}, errors.New("permission denied")
		default:
			return File{Data: []byte(text)}, nil
		}
	}
}

func call(t *testing.T, e Event, read Read) client.Call {
	t.Helper()
	c, err := e.Call(read)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// output is what an answer says, for those agents that have it.
type output struct {
	Decision string `json:"decision"`
	Reason   string `json:"reason"`
	Specific struct {
		Event    string          `json:"hookEventName"`
		Decision string          `json:"permissionDecision"`
		Reason   string          `json:"permissionDecisionReason"`
		Input    json.RawMessage `json:"updatedInput"`
		Args     json.RawMessage `json:"tool_input"`
		Context  string          `json:"additionalContext"`
	} `json:"hookSpecificOutput"`
	System string `json:"systemMessage"`
}

func decode(t *testing.T, b []byte) (o output) {
	t.Helper()
	if err := json.Unmarshal(b, &o); err != nil {
		t.Fatalf("%q is not JSON: %v", b, err)
	}
	return o
}

const approvedMessage = "Approved by hana at 2026-11-21T09:30:00.000Z. Run it now; this approval is used."

var approved = client.Answer{Kind: client.AnswerApproved, Message: approvedMessage}
