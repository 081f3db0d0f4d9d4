package hooks

import (
	"context"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/client"
	"countersign/internal/store/sqlite"
	"countersign/internal/store/storetest"
	"countersign/schema/schematest"
)

const grantedMessage = "Allowed: hana approved this for 8 hours."

// A call that a grant covers is allowed as an approved one is, with the bytes that the model sent.
func TestAGrantedCallIsAllowedAsItWasSent(t *testing.T) {
	const input = `{"description":"look","n":9007199254740993,"command":"ls"}`
	for agent, tool := range map[Agent]string{ClaudeCode: "Bash", Codex: "Bash", Gemini: "run_shell_command"} {
		for _, mayDefer := range []bool{false, true} {
			g := &fakeGate{answer: client.Answer{Kind: client.AnswerAllow, ReasonCode: "granted", Message: grantedMessage}}
			o := decode(t, reply(t, Hook{Asker: g, Defer: mayDefer}, event(t, agent, tool, input)).Output)
			switch {
			case agent == Gemini && (o.Decision != "allow" || o.Reason != grantedMessage || o.Specific.Args != nil):
				t.Errorf("%s: %+v", agent, o)
			case agent != Gemini && (o.Specific.Decision != "allow" || o.Specific.Reason != grantedMessage ||
				string(o.Specific.Input) != input):
				t.Errorf("%s: %+v", agent, o)
			}
		}
	}
	out, err := AnswerPermissionPrompt(client.Answer{Kind: client.AnswerAllow, ReasonCode: "granted",
		Message: grantedMessage},
		client.Call{Args: []byte(input)})
	if err != nil || !strings.Contains(string(out), `"behavior":"allow","updatedInput":`) {
		t.Errorf("a permission prompt: %s, %v", out, err)
	}
}

// What a grant or its like denies is a denial.
func TestAStandingDenialIsADenial(t *testing.T) {
	for agent := range events {
		g := &fakeGate{answer: client.Answer{Kind: client.AnswerDenied, ReasonCode: "granted",
			Message: "Approval denied by hana: no."}}
		o := decode(t, reply(t, Hook{Asker: g}, event(t, agent, "Bash", `{"command":"ls"}`)).Output)
		if o.Specific.Decision != "deny" && o.Decision != "deny" {
			t.Errorf("%s: %+v", agent, o)
		}
	}
}

// noting is asking, and keeps the last call that it judged.
type noting struct {
	asking
	last *approval.Call
}

func (p noting) Evaluate(ctx context.Context, c approval.Call) approval.Verdict {
	*p.last = c
	return p.asking.Evaluate(ctx, c)
}

// The gate in the same process learns which calls belong together and whether the agent waits: those of a turn where
// the agent names it, of a session, and else of the agent in its directory.
func TestTheGateLearnsWhatBelongsTogether(t *testing.T) {
	broker := approval.NewBroker()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: schematest.NewFile(t), OnCommit: broker.Publish})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	var c approval.Call
	gate := approval.NewGate(approval.Options{Store: storetest.ScopedIn(t, db), Broker: broker, Policy: noting{last: &c},
		Masker: redact.New()})
	for _, wait := range []time.Duration{0, time.Millisecond} {
		h := Hook{Asker: Gate{Gate: gate, Agent: "coder"}, Wait: wait}
		for agent, want := range map[Agent]string{ClaudeCode: "7494b2f4 4a1c0fbd", Codex: "019a 7", Gemini: "g1 "} {
			reply(t, h, event(t, agent, "Bash", `{"command":"ls"}`))
			if !c.Grouped || c.Waits != (wait > 0) || c.Scope != "/srv/app" {
				t.Errorf("%s: %+v", agent, c)
			}
			if got := c.SessionID + " " + c.TurnID; got != want {
				t.Errorf("%s: the session and turn are %q, want %q", agent, got, want)
			}
		}
	}
}
