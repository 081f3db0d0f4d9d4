package stdioproxy

import (
	"fmt"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/api"
	"countersign/internal/lists"
)

// oneCard is a policy with the calls of a turn on one card.
type oneCard struct{ approval.Policy }

func (p oneCard) Terms() approval.Terms {
	t := p.Policy.Terms()
	t.Group, t.GroupWithin = approval.GroupTurn, time.Minute
	return t
}

// Calls that a client makes at once are on one card of its wrapper, whose other sessions have theirs, and one decision
// of all of them answers each.
func TestHeldCallsOfOneTurnAreOneCard(t *testing.T) {
	t.Parallel()
	const n = 5
	for _, modern := range []bool{false, true} {
		w := newWorld(t, quarantines)
		if err := w.gate.SetPolicy(t.Context(), oneCard{compile(t, quarantines)}, nil); err != nil {
			t.Fatal(err)
		}
		x := w.wrap()
		x.modern = modern
		x.hello()
		var answers []<-chan line
		for i := range n {
			answers = append(answers, x.call("echo", fmt.Sprintf(`{"n":%d}`, i)))
		}
		var ids []string
		card := ""
		for _, r := range w.pending(n) {
			if card == "" {
				card = r.BatchID
			}
			if ids = append(ids, r.ID); r.BatchID == "" || r.BatchID != card || r.SessionID == "" {
				t.Errorf("%s of the session %q is on the card %q, want %q", r.ID, r.SessionID, r.BatchID, card)
			}
		}
		y := wrapWith(t, x.log, Options{Gate: w.remote(), Command: x.commandLine(t)})
		y.hello()
		y.call("echo", `{"n":"another's"}`)
		if other := w.pending(n + 1)[n]; other.BatchID == card {
			t.Error("another wrapper's call is on the card")
		}
		if _, err := w.gate.DecideMany(t.Context(), ids, approval.Decision{Approve: true, By: hana,
			Via: approval.ViaCLI}); err != nil {
			t.Fatal(err)
		}
		for i, a := range answers {
			want(t, "the answer", x.wait(a).text(), fmt.Sprintf(`{"n":%d}`, i))
		}
		for _, id := range ids {
			if r := w.request(id); r.RunResult != approval.RunSucceeded {
				t.Errorf("the outcome of %s is %q", id, r.RunResult)
			}
		}
	}
}

// An approval that is given for longer lets the same call through a wrapper without asking, and what came of it, and
// what its server was told meanwhile, is on record.
func TestAGrantedCallRunsThroughTheWrapper(t *testing.T) {
	t.Parallel()
	const rules = `{policy: {rules: [{tools: ["elicitation:create", "*/elicitation:create"], action: allow},
		{tools: ["*"], risk: medium, action: quarantine, allow_skip: true}]}}`
	w := newWorld(t, rules)
	x := w.wrap()
	x.caps = `{"elicitation":{"form":{}}}`
	x.answer = func(string) string { return `{"action":"accept","content":{"which":"that"}}` }
	x.hello()
	for _, tool := range []string{"echo", "ask", "die"} {
		first := x.call(tool, `{}`)
		if _, err := w.gate.Decide(t.Context(), approval.Decision{RequestID: w.pending(1)[0].ID, Approve: true, By: hana,
			Via: approval.ViaCLI, Grant: &approval.GrantWish{For: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		x.wait(first)
		if tool != "die" {
			contains(t, tool, x.called(tool, `{}`), map[string]string{"echo": `{}`, "ask": `"which":"that"`}[tool])
		}
	}
	w.pending(0)
	used, err := lists.ListEvents(t.Context(), w.gate, approval.EventQuery{Type: approval.EventGrantUsed})
	if err != nil || len(used) != 2 {
		t.Fatalf("%d uses, %v", len(used), err)
	}
	ran, err := lists.ListEvents(t.Context(), w.gate, approval.EventQuery{Type: approval.EventCallOutcome})
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]int{}
	for _, e := range ran {
		outcomes[e.Reason]++
	}
	if outcomes["succeeded"] != 4 || outcomes["unknown"] != 1 {
		t.Errorf("the outcomes are %v", outcomes)
	}
	told, err := lists.ListEvents(t.Context(), w.gate, approval.EventQuery{Type: approval.EventCallInput})
	if err != nil || len(told) != 2 { // of the approved call, and of the granted one
		t.Errorf("%d answers are on record, %v", len(told), err)
	}
}

// The gate learns over the API what it learns in one process: what a server says of its tools, and that the agent
// waits.
func TestAWrapperTellsTheGateWhatItKnows(t *testing.T) {
	t.Parallel()
	yes := true
	c := approval.Call{Tool: "t", Args: mustArgs(t, `{}`), Waits: true, Annotations: &approval.Annotations{ReadOnly: &yes}}
	if got := api.FromCall(c); !got.Waits || got.Annotations == nil || !*got.Annotations.ReadOnly ||
		got.Annotations.Destructive != nil {
		t.Errorf("asked for: %+v", got)
	}
	if got := api.FromCall(approval.Call{Args: mustArgs(t, `{}`)}); got.Waits || got.Annotations != nil {
		t.Errorf("asked for: %+v", got)
	}
}
