package hooks

import (
	"bytes"
	"context"
	"strings"
	"time"

	"countersign/approval/args"
	"countersign/client"
)

// Hook answers one agent's events.
type Hook struct {
	Asker client.Asker
	// Wait is how long a call is held for a person's decision; it must end before the agent gives up.
	Wait time.Duration
	// Defer has Claude Code stop where a call is pending: resumed, it asks again about the same call.
	Defer bool
	// Gateways are the MCP servers, by exactly the agent's names, that are behind a gateway of ours: their
	// calls are asked about there, and get no opinion here. Where the event does not name the server
	// (Codex), a call counts only if NAME has no underscore, which may stand for another character, and what follows
	// mcp__NAME__ has no two of them.
	Gateways []string
	// Read looks at the files that an edit changes; nil does not look.
	Read Read

	turn func(size int) (release func(), err error) // as Handler.Turn; nil: nothing waits
}

// begins waits until work on so many bytes may begin.
func (h Hook) begins(size int) (release func(), err error) {
	if h.turn == nil {
		return func() {}, nil
	}
	return h.turn(size)
}

// Reply is what to tell the agent.
type Reply struct {
	Output []byte   // JSON, whole; nothing where there is no opinion
	Told   []string // the endings that Output tells of, to be acknowledged once it was written
}

// Answer answers an event. An error means that the agent must be told no, in whatever way it takes for one;
// for an event of the kind [Beginning] it only means that nothing could be told.
func (h Hook) Answer(ctx context.Context, e Event) (Reply, error) {
	if e.Kind == Beginning {
		return h.begin(ctx, e)
	}
	if e.goesThrough(h.Gateways) {
		return Reply{}, nil
	}
	release, err := h.begins(len(e.Input))
	if err != nil {
		return Reply{}, err
	}
	c, err := e.Call(h.Read)
	release()
	if err != nil {
		return Reply{}, err
	}
	// All three agents run updatedInput, or tool_input, in place of what the model sent. A call that was deferred is
	// resumed as it was.
	c.AcceptsEdits = !h.Defer
	if h.Defer && e.Agent == ClaudeCode {
		ended, err := h.readEnding(ctx, c)
		if err != nil {
			return Reply{}, err
		}
		if ended != nil {
			out, err := e.deny(reason(client.Answer{Kind: ended.Ended(), Message: ended.Message,
				ReasonCode: ended.ReasonCode, EndCode: ended.EndCode}))
			return Reply{Output: out, Told: []string{ended.ID}}, err
		}
	}
	a, err := h.Asker.Ask(ctx, c, h.Wait)
	if err != nil {
		return Reply{}, err
	}
	out, err := e.say(a, h.Defer)
	return Reply{Output: out}, err
}

// readEnding returns how the request of a deferred call ended, nil if it did not or was approved. Asking
// without this look would begin a new request where no person answered the old one.
func (h Hook) readEnding(ctx context.Context, c client.Call) (*client.Approval, error) {
	endings, err := h.Asker.Resolved(ctx, c.SessionID, 0)
	if err != nil {
		return nil, err
	}
	wanted, err := args.Parse(c.Args)
	if err != nil {
		return nil, err
	}
	for _, e := range endings {
		if e.Ended() == client.AnswerApproved || e.Tool != c.Tool || e.Server != c.Server || e.Scope != c.Scope {
			continue
		}
		if was, err := args.Parse(e.Args); err == nil && bytes.Equal(was.Canonical(), wanted.Canonical()) {
			return &e, nil
		}
	}
	return nil, nil
}

// maxTold is how much is told at once, in bytes: agents cut what is longer. The rest comes next time.
const maxTold = 8 << 10

// begin tells what was decided since.
func (h Hook) begin(ctx context.Context, e Event) (Reply, error) {
	if h.Defer && e.Source == "resume" {
		return Reply{}, nil // the deferred call is about to ask, and gets its ending itself
	}
	endings, err := h.Asker.Resolved(ctx, e.SessionID, 0)
	if err != nil || len(endings) == 0 {
		return Reply{}, err
	}
	var r Reply
	lines, size, approved := []string{"Answers to calls that waited for a person:"}, 0, false
	for _, ending := range endings {
		if size += len(ending.Message); size > maxTold && len(r.Told) > 0 {
			break
		}
		lines = append(lines, ending.Message)
		r.Told = append(r.Told, ending.ID)
		approved = approved || ending.Ended() == client.AnswerApproved
	}
	if approved {
		lines = append(lines, "To run a call that was approved, make the identical call again; each approval is used once.")
	}
	r.Output, err = e.tell(strings.Join(lines, "\n"))
	return r, err
}
