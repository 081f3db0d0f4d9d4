package approval_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/testkit"
)

// looker is a differ that is told what it finds.
type looker struct {
	mu    sync.Mutex
	asked int
	find  func(context.Context) string
}

func (l *looker) Difference(ctx context.Context, d approval.DiffTerms) (string, string) {
	l.mu.Lock()
	l.asked++
	l.mu.Unlock()
	return l.find(ctx), d.Read
}

func (l *looker) times() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// compares quarantines all calls with a difference.
func compares(approval.Call) approval.Verdict {
	return approval.Verdict{Action: approval.Quarantine, Risk: approval.RiskHigh, Rule: "writes", Timeout: time.Hour,
		ReasonCode: "approval_required", Message: "Writes.", Diff: &approval.DiffTerms{Read: "read"}}
}

func finds(s string) *looker { return &looker{find: func(context.Context) string { return s }} }

func TestADifferenceIsLookedForOnlyWherePeopleAreAsked(t *testing.T) {
	w := newWorld(t)
	w.policy(compares)
	l := finds("-a\n+b\n")
	c := call(`{"n":1}`)
	c.Differ = l
	out := w.expect(c, approval.AnswerPending)
	if r := w.request(out.Request.ID); r.Preview != "-a\n+b\n" || r.PreviewFrom != "read" || l.times() != 1 {
		t.Fatalf("looked %d times, and has %q by %q", l.times(), r.Preview, r.PreviewFrom)
	}
	w.expect(c, approval.AnswerPending) // joins
	w.mustDecide(out.Request.ID, false, hana, "no")
	w.expect(c, approval.AnswerDenied) // remembered
	if l.times() != 1 {
		t.Errorf("looked %d times", l.times())
	}

	own := call(`{"n":2}`)
	own.Differ, own.Preview = l, "the agent's"
	if r := w.expect(own, approval.AnswerPending).Request; r.Preview != "the agent's" || r.PreviewFrom != "" ||
		l.times() != 1 {
		t.Errorf("looked %d times, and has %q by %q", l.times(), r.Preview, r.PreviewFrom)
	}
	for name, action := range map[string]approval.Action{"allowed": approval.Allow, "denied": approval.Deny} {
		w.policy(func(c approval.Call) approval.Verdict {
			v := compares(c)
			v.Action = action
			return v
		})
		next := call(`{"n":3}`)
		next.Differ = l
		if w.check(next); l.times() != 1 {
			t.Errorf("%s: looked", name)
		}
	}
}

// What is refused before anybody is asked is not looked at either.
func TestARequestThatIsOneTooManyIsNotLookedAt(t *testing.T) {
	w := newWorld(t)
	w.policy(compares)
	w.expect(call(`{"n":1}`), approval.AnswerPending)
	limited := terms
	limited.MaxPending = 1
	if err := w.gate.SetPolicy(w.ctx, rules{compares, limited}, nil); err != nil {
		t.Fatal(err)
	}
	l := finds("-a\n+b\n")
	c := call(`{"n":2}`)
	c.Differ = l
	if _, err := w.gate.Check(t.Context(), c); approval.CodeOf(err) != approval.CodeTooManyPending || l.times() != 0 {
		t.Errorf("looked %d times: %v", l.times(), err)
	}
}

func TestWhatADifferFindsIsBounded(t *testing.T) {
	for name, found := range map[string]string{"nothing": "", "too much": strings.Repeat("a", approval.MaxPreview+1)} {
		w := newWorld(t)
		w.policy(compares)
		c := call(`{"n":1}`)
		c.Differ = finds(found)
		if r := w.expect(c, approval.AnswerPending).Request; r.Preview != "" || r.PreviewFrom != "" {
			t.Errorf("%s: has %d bytes by %q", name, len(r.Preview), r.PreviewFrom)
		}
	}
}

// An equal call that comes meanwhile waits no longer than the one that looks, and people are asked all the same.
func TestADifferThatHangsHoldsUpNobodyForLong(t *testing.T) {
	w := newWorld(t)
	w.policy(compares)
	l := &looker{find: func(ctx context.Context) string { <-ctx.Done(); return "" }}
	begin := time.Now()
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() {
			c := call(`{"n":1}`)
			c.Differ = l
			if out, err := w.gate.Check(context.Background(), c); err != nil || out.Kind != approval.AnswerPending {
				t.Errorf("got %q, %v", out.Kind, err)
			}
		})
	}
	testkit.Wait(t, "all calls", calls.Wait)
	if took := time.Since(begin); took > testkit.Patience || l.times() != 1 {
		t.Errorf("looked %d times, and took %s", l.times(), took)
	}
}

func TestWhatTheGateReadsIsAllowedByThePolicyOrNotAtAll(t *testing.T) {
	for name, test := range map[string]struct {
		verdict approval.Verdict
		want    approval.AnswerKind
	}{
		"allowed":     {approval.Verdict{Action: approval.Allow}, approval.AnswerAllow},
		"strictly":    {approval.Verdict{Action: approval.Allow, Strict: true}, approval.AnswerAllow},
		"asked about": {approval.Verdict{Action: approval.Quarantine, Timeout: time.Hour}, approval.AnswerDenied},
		"observed":    {approval.Verdict{Action: approval.Quarantine, Observe: true}, approval.AnswerDenied},
		"forbidden":   {approval.Verdict{Action: approval.Deny}, approval.AnswerDenied},
	} {
		w := newWorld(t)
		w.policy(func(approval.Call) approval.Verdict { return test.verdict })
		c := call(`{"path":"/a"}`)
		c.ReadFor = "files/write"
		out, err := w.gate.Check(t.Context(), c)
		if err != nil || out.Kind != test.want || out.Request != nil {
			t.Errorf("%s: got %q, %v", name, out.Kind, err)
		}
		if n := w.count("call_allowed"); n != map[bool]int{true: 1}[test.want == approval.AnswerAllow] ||
			w.count("call_denied")+w.count("approval_requested") != 0 {
			t.Errorf("%s: the record has %q", name, w.trail())
		}
	}
}
