package hooks

import (
	"context"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/internal/lists"
	"countersign/internal/store/sqlite"
	"countersign/internal/store/storetest"
	"countersign/schema/schematest"
)

// asking is a policy that asks about everything.
type asking struct{}

func (asking) Evaluate(context.Context, approval.Call) approval.Verdict {
	return approval.Verdict{Action: approval.Quarantine, Risk: approval.RiskHigh, ReasonCode: "approval_required",
		Message: "A person must confirm this.", Timeout: time.Hour,
		IgnoreArgs: []string{"note"}}
}

func (asking) Digest() string                 { return "" }
func (asking) Source() string                 { return "" }
func (asking) RuleDigests() map[string]string { return nil }
func (asking) Terms() approval.Terms          { return approval.Terms{UseWithin: 15 * time.Minute} }

func TestTheGateOfTheSameProcess(t *testing.T) {
	broker := approval.NewBroker()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: schematest.NewFile(t), OnCommit: broker.Publish})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	gate := approval.NewGate(approval.Options{Store: storetest.ScopedIn(t, db), Broker: broker, Policy: asking{},
		Masker: redact.New()})
	hana := approval.Actor{Kind: approval.Human, Name: "hana", Approver: true}
	h := Hook{Asker: Gate{Gate: gate, Agent: "coder"}}
	e := event(t, ClaudeCode, "Bash", `{"command":"ls","description":"x"}`)

	o := decode(t, reply(t, h, e).Output)
	if o.Specific.Decision != "deny" || !strings.Contains(o.Specific.Reason, "Approval requested") {
		t.Fatalf("got %+v, want a request", o.Specific)
	}
	rs, err := lists.ListRequests(t.Context(), gate, approval.RequestQuery{Limit: 10})
	if err != nil || len(rs) != 1 {
		t.Fatalf("%d requests, %v; want one", len(rs), err)
	}
	r := rs[0]
	if r.Agent != "coder" || r.Scope != "/srv/app" || r.SessionID != "7494b2f4" || r.TurnID != "4a1c0fbd" ||
		r.Rationale != "x" || string(r.Args) != `{"command":"ls"}` {
		t.Errorf("the request is %+v", r)
	}

	if _, err := gate.Decide(t.Context(), approval.Decision{RequestID: r.ID, By: hana, Approve: true,
		Via: approval.ViaAPI}); err != nil {
		t.Fatal(err)
	}
	h.Wait = time.Minute
	if o := decode(t, reply(t, h, event(t, ClaudeCode, "Bash", `{"command":"ls","description":"other words"}`)).Output); o.Specific.Decision != "allow" || string(o.Specific.Input) != `{"command":"ls"}` {
		t.Errorf("got %+v, want that it runs", o.Specific)
	}

	// What the policy leaves out of account runs as it was shown, too.
	reply(t, Hook{Asker: h.Asker}, event(t, ClaudeCode, "Edit", `{"a":1,"note":"as shown"}`))
	rs, err = lists.ListRequests(t.Context(), gate, approval.RequestQuery{Status: approval.Pending, Limit: 10})
	if err != nil || len(rs) != 1 {
		t.Fatalf("%d requests are pending, %v; want one", len(rs), err)
	}
	if _, err := gate.Decide(t.Context(), approval.Decision{RequestID: rs[0].ID, By: hana, Approve: true,
		Via: approval.ViaAPI}); err != nil {
		t.Fatal(err)
	}
	if o := decode(t, reply(t, h, event(t, ClaudeCode, "Edit", `{"note":"another","a":1}`)).Output); string(
		o.Specific.Input) != `{"a":1,"note":"as shown"}` {
		t.Errorf("got %+v, want what was shown", o.Specific)
	}

	// Endings come in the words of the feed, and go once they are acknowledged.
	h.Wait = 0
	reply(t, h, event(t, ClaudeCode, "Bash", `{"command":"rm"}`))
	rs, err = lists.ListRequests(t.Context(), gate, approval.RequestQuery{Status: approval.Pending, Limit: 10})
	if err != nil || len(rs) != 1 {
		t.Fatalf("%d requests are pending, %v; want one", len(rs), err)
	}
	if _, err := gate.Decide(t.Context(), approval.Decision{RequestID: rs[0].ID, By: hana, Reason: "no",
		Via: approval.ViaAPI}); err != nil {
		t.Fatal(err)
	}
	prompt, err := Parse(ClaudeCode,
		[]byte(`{"session_id":"7494b2f4","hook_event_name":"UserPromptSubmit","cwd":"/srv/app","prompt":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	told := reply(t, h, prompt)
	if !strings.Contains(decode(t, told.Output).Specific.Context, `[APPROVAL DENIED] Bash({"command":"rm"})`) {
		t.Errorf("got %s", told.Output)
	}
	if _, err := h.Asker.Ack(t.Context(), told.Told...); err != nil {
		t.Fatal(err)
	}
	if again := reply(t, h, prompt); strings.Contains(string(again.Output), "DENIED") {
		t.Errorf("an ending that was acknowledged came again: %s", again.Output)
	}
}
