package hooks

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/redact"
	"countersign/client"
	"countersign/internal/lists"
	"countersign/internal/store/sqlite"
	"countersign/internal/store/storetest"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

// Every agent runs the arguments that its hook gives it in place of the model's.
func TestAnEditedCallRunsWithWhatWasApproved(t *testing.T) {
	const edited = `{"command":"ls -l"}`
	note := "hana changed the arguments and approved these: " + edited + ". Reason: shorter."
	for agent, test := range map[Agent]struct{ tool, want string }{
		ClaudeCode: {"Bash", edited},
		Codex:      {"Bash", edited},
		Gemini:     {"run_shell_command", `{"description":"look","command":"ls -l"}`},
	} {
		g := &fakeGate{answer: client.Answer{Kind: client.AnswerApproved, Message: approvedMessage + " " + note,
			Note: note, Args: []byte(edited)}}
		o := decode(t, reply(t, Hook{Asker: g}, event(t, agent, test.tool, `{"command":"ls","description":"look"}`)).Output)
		if !g.asked[0].AcceptsEdits {
			t.Errorf("%s: edits are not accepted", agent)
		}
		runs, why := string(o.Specific.Input), o.Specific.Reason
		if agent == Gemini {
			runs, why = string(o.Specific.Args), o.Reason
		}
		if runs != test.want || !strings.HasSuffix(why, note) {
			t.Errorf("%s: runs %s, because of %q", agent, runs, why)
		}
		if agent != Gemini && o.Specific.Context != note { // Gemini CLI tells its model by itself
			t.Errorf("%s: the model is told %q", agent, o.Specific.Context)
		}
	}
}

// What was deferred is resumed as it was.
func TestACallThatMayBeDeferredAcceptsNoEdits(t *testing.T) {
	g := &fakeGate{answer: approved}
	reply(t, Hook{Asker: g, Defer: true}, event(t, ClaudeCode, "Bash", `{"command":"ls"}`))
	if g.asked[0].AcceptsEdits {
		t.Error("edits are accepted")
	}
}

func TestWhatSaysByItselfWhatToDoIsToldAsItIs(t *testing.T) {
	for _, test := range []struct {
		answer client.Answer
		want   string
	}{
		{client.Answer{Kind: client.AnswerDenied, ReasonCode: "frozen", EndCode: "frozen",
			Message: "Frozen by hana: odd calls. Nothing runs until a person lifts it; do not retry."}, ""},
		{client.Answer{Kind: client.AnswerDenied, ReasonCode: "edited", EndCode: "edited",
			Message: `Not as asked. hana approved these arguments instead: {"a":1}. Call again with exactly them.`}, ""},
		{client.Answer{Kind: client.AnswerCancelled, ReasonCode: "frozen", EndCode: "frozen",
			Message: "[APPROVAL CANCELLED] Bash({}): cancelled by hana at 2026-11-23T05:00:00.000Z. Do not retry."},
			" The call was not run."},
		{client.Answer{Kind: client.AnswerDenied, ReasonCode: "frozen",
			Message: "Policy denied: frozen — Frozen by nobody."}, // a rule's own code
			" " + afterDenied},
	} {
		for agent := range events {
			g := &fakeGate{answer: test.answer}
			o := decode(t, reply(t, Hook{Asker: g}, event(t, agent, "Bash", `{"command":"ls"}`)).Output)
			got := o.Specific.Reason
			if agent == Gemini {
				got = o.Reason
			}
			if got != test.answer.Message+test.want {
				t.Errorf("%s: %q", agent, got)
			}
		}
	}
}

// two is a policy that wants two people for everything.
type two struct{ asking }

func (p two) Evaluate(ctx context.Context, c approval.Call) approval.Verdict {
	v := p.asking.Evaluate(ctx, c)
	v.Need = &approval.Need{Stages: []approval.Stage{{Group: "finance", Count: 2}}}
	return v
}

// finance is two people in a group, each of whom can be removed.
type finance struct {
	mu   sync.Mutex
	gone string
}

func colleague(name string) approval.Actor {
	return approval.Actor{Kind: approval.Human, Name: name, Approver: true, Groups: []string{"finance"}}
}

func (*finance) Asks(string) approval.Asks { return approval.Asks{} }

func (f *finance) Person(name string) (approval.Actor, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return colleague(name), (name == "hana" || name == "ken") && name != f.gone
}

func (*finance) HasAgent(string) bool                     { return true }
func (*finance) People() []approval.Actor                 { return nil }
func (*finance) Notified() []string                       { return nil }
func (*finance) Owner(string) string                      { return "" }
func (*finance) AtKeyboard(string) (approval.Actor, bool) { return approval.Actor{}, false }

func (f *finance) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = name
}

// office is a gate where two of finance must say yes, and the hook of one agent.
func office(t *testing.T, wait time.Duration) (*approval.Gate, *finance, Hook) {
	t.Helper()
	return officeUnder(t, two{}, wait)
}

func officeUnder(t *testing.T, policy approval.Policy, wait time.Duration) (*approval.Gate, *finance, Hook) {
	t.Helper()
	broker := approval.NewBroker()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: schematest.NewFile(t), OnCommit: broker.Publish})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	people := &finance{}
	gate := approval.NewGate(approval.Options{Store: storetest.ScopedIn(t, db), Broker: broker, Policy: policy,
		Masker: redact.New(), Directory: people})
	return gate, people, Hook{Asker: Gate{Gate: gate, Agent: "coder"}, Wait: wait}
}

// vote has somebody approve the request that is pending, with other args where raw says so.
func vote(t *testing.T, gate *approval.Gate, name, raw string) approval.Request {
	t.Helper()
	var rs []approval.Request
	testkit.Eventually(t, "a request is pending", func() (is bool) {
		var err error
		rs, err = lists.ListRequests(t.Context(), gate, approval.RequestQuery{Status: approval.Pending, Limit: 2})
		return err == nil && len(rs) == 1
	})
	d := approval.Decision{RequestID: rs[0].ID, Approve: true, By: colleague(name), Via: approval.ViaAPI}
	if raw != "" {
		a, err := args.Parse([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		d.Args = &a
	}
	r, err := gate.Decide(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRule1_TwoPeopleAreTwoPeopleForAHook(t *testing.T) {
	ls := event(t, ClaudeCode, "Bash", `{"command":"ls"}`)
	for _, edited := range []string{"", `{"command":"ls -l"}`} {
		gate, _, h := office(t, time.Minute)
		answer := make(chan output, 1)
		go func() { answer <- decode(t, reply(t, h, ls).Output) }()
		if r := vote(t, gate, "hana", edited); r.Status != approval.Pending {
			t.Fatalf("after one vote it is %s", r.Status)
		}
		quick := h
		quick.Wait = 0
		if o := decode(t, reply(t, quick, ls).Output); o.Specific.Decision != "deny" {
			t.Errorf("after one vote: %+v", o.Specific)
		}
		vote(t, gate, "ken", "")
		runs := edited
		if edited == "" {
			runs = `{"command":"ls"}`
		}
		if o := testkit.Receive(t, "the answer", answer); o.Specific.Decision != "allow" || string(o.Specific.Input) != runs {
			t.Errorf("after two: %+v", o.Specific)
		}
		if o := decode(t, reply(t, quick, ls).Output); o.Specific.Decision != "deny" {
			t.Errorf("once more: %+v", o.Specific)
		}
	}
}

// timeless is a policy that asks about everything, and takes commands with other time-outs for the same.
type timeless struct{ asking }

func (p timeless) Evaluate(ctx context.Context, c approval.Call) approval.Verdict {
	v := p.asking.Evaluate(ctx, c)
	v.IgnoreArgs = []string{"timeout", "timeout_ms"}
	return v
}

// The hook leaves a time-out with the arguments, so that people see it: another one joins where the rule ignores it,
// and the agent is given the one that was shown. The comment, which runs nothing, stays the model's newest.
func TestRule3_ATimeoutJoinsAndTheOneThatWasShownRuns(t *testing.T) {
	for _, c := range []struct {
		agent             Agent
		tool              string
		first, then, runs string
	}{
		{ClaudeCode, "Bash", `{"command":"make","timeout":120000,"description":"builds"}`,
			`{"timeout":5,"command":"make","description":"builds it"}`,
			`{"command":"make","timeout":120000}`},
		{Codex, "Bash", `{"command":"make","timeout_ms":120000}`, `{"command":"make"}`,
			`{"command":"make","timeout_ms":120000}`},
		{Codex, "Bash", `{"command":"make"}`, `{"command":"make","timeout_ms":9}`, `{"command":"make"}`},
		{Gemini, "run_shell_command", `{"command":"make","timeout":120000,"description":"builds"}`,
			`{"command":"make","timeout":5,"description":"builds it"}`,
			`{"description":"builds it","command":"make","timeout":120000}`},
	} {
		gate, _, h := officeUnder(t, timeless{}, 0)
		reply(t, h, event(t, c.agent, c.tool, c.first))
		reply(t, h, event(t, c.agent, c.tool, c.then))
		if shown := vote(t, gate, "hana", "").Args; strings.Contains(c.first, "timeout") != strings.Contains(string(shown),
			"timeout") {
			t.Errorf("%s: people saw %s", c.agent, shown)
		}
		o := decode(t, reply(t, h, event(t, c.agent, c.tool, c.then)).Output)
		if o.Decision+o.Specific.Decision != "allow" || string(o.Specific.Input)+string(o.Specific.Args) != c.runs {
			t.Errorf("%s: %+v, want that %s runs", c.agent, o, c.runs)
		}
		if o := decode(t, reply(t, h, event(t, c.agent, c.tool, c.first)).Output); o.Decision+o.Specific.Decision != "deny" {
			t.Errorf("%s, once more: %+v", c.agent, o)
		}
	}
}

func TestRule4_AnApprovalThatFallsShortRunsNothing(t *testing.T) {
	gate, people, h := office(t, 0)
	ls := event(t, ClaudeCode, "Bash", `{"command":"ls"}`)
	reply(t, h, ls)
	vote(t, gate, "hana", "")
	if r := vote(t, gate, "ken", ""); r.Status != approval.Approved {
		t.Fatalf("after two votes it is %s", r.Status)
	}
	people.remove("ken")
	if o := decode(t, reply(t, h, ls).Output); o.Specific.Decision != "deny" || !strings.Contains(o.Specific.Reason,
		"Approval requested") {
		t.Errorf("got %+v", o.Specific)
	}
}

func TestAFreezeIsToldToAHook(t *testing.T) {
	gate, _, h := office(t, time.Minute)
	ran := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() { gate.Run(ctx); close(ran) }()
	defer func() { stop(); testkit.Receive(t, "the end of Run", ran) }()
	ls := event(t, ClaudeCode, "Bash", `{"command":"ls"}`)
	answer := make(chan output, 1)
	go func() { answer <- decode(t, reply(t, h, ls).Output) }()
	vote(t, gate, "hana", "")
	if _, err := gate.Freeze(t.Context(), "coder", colleague("ken"), approval.ViaAPI, "odd calls"); err != nil {
		t.Fatal(err)
	}
	o := testkit.Receive(t, "the answer", answer)
	if o.Specific.Decision != "deny" || !strings.HasSuffix(o.Specific.Reason, "Do not retry. The call was not run.") {
		t.Errorf("held: %+v", o.Specific)
	}
	const frozen = "Frozen by ken: odd calls. Nothing runs until a person lifts it; do not retry."
	if o := decode(t, reply(t, h, ls).Output); o.Specific.Decision != "deny" || o.Specific.Reason != frozen {
		t.Errorf("then: %+v", o.Specific)
	}
}
