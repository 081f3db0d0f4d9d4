package approval_test

import (
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
)

// placed is a policy of rules without names: each is called by its place, and is what its digest names.
type placed struct {
	rules
	digests map[string]string
}

func (p placed) RuleDigests() map[string]string { return p.digests }

// inOrder puts rules into force that each ask finance about a tool of the rule's name, which stands before a colon in
// what the rule says.
func (w *council) inOrder(said ...string) {
	w.t.Helper()
	digests := map[string]string{}
	for i, s := range said {
		digests["rule "+string(rune('1'+i))] = s
	}
	p := placed{rules{func(c approval.Call) approval.Verdict {
		v := quarantine(approval.RiskCritical)
		v.Need = financeTwice
		for name, digest := range digests {
			if len(digest) >= len(c.Tool) && digest[:len(c.Tool)] == c.Tool {
				v.Rule, v.RuleDigest = name, digest
			}
		}
		return v
	}, terms}, digests}
	if err := w.gate.SetPolicy(w.ctx, p, nil); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.gate.Recheck(w.ctx); err != nil {
		w.t.Fatal(err)
	}
}

func callOfTool(tool string) approval.Call {
	c := transfer
	c.Tool = tool
	return c
}

func (w *council) delegateRule(rule string) (approval.Delegation, error) {
	hana, _ := w.person("hana")
	return w.gate.Delegate(w.ctx, approval.Delegation{Delegator: "hana", Delegate: "joe", Rule: rule,
		Until: w.clock.Now().Add(time.Hour)}, hana, approval.ViaAPI)
}

//nolint:revive // a row of what it is to be
func (w *council) holds(want string, holds bool) {
	w.t.Helper()
	ds, err := lists.ListDelegations(w.ctx, w.gate)
	if err != nil || len(ds) != 1 {
		w.t.Fatal(ds, err)
	}
	if name, ok := ds[0].RuleNow(w.gate.Policy()); name != want || ok != holds {
		w.t.Errorf("the rule is %q, %v; want %q, %v", name, ok, want, holds)
	}
}

// A delegation for a rule that is called by its place is for that rule, wherever it stands after a reload, and for none
// that has come to stand there.
func TestRule1_ADelegationIsForARuleAndNotForAPlace(t *testing.T) {
	w := newCouncil(t, nil, fHana, fKen, nobodys)
	w.inOrder("pay:1", "wire:1")
	if _, err := w.delegateRule("rule 3"); approval.CodeOf(err) != approval.CodeInvalidParameter {
		t.Errorf("for a rule that there is not: %v", err)
	}
	if _, err := w.delegateRule("rule 1"); err != nil {
		t.Fatal(err)
	}
	w.holds("rule 1", true)
	wire := w.expect(callOfTool("wire"), approval.AnswerPending).Request.ID
	w.refused(wire, "joe", approval.CodeNotAnApprover)

	w.inOrder("wire:1", "pay:1")
	w.holds("rule 2", true)
	w.refused(wire, "joe", approval.CodeNotAnApprover)
	w.approve(w.expect(callOfTool("pay"), approval.AnswerPending).Request.ID, "joe")
}

// A delegation for a rule that was changed or removed covers nothing, and votes that were given by it count no more:
// not for what is pending, nor at the use of what was approved.
func TestRule1_ADelegationForARuleThatChangedCoversNothing(t *testing.T) {
	for _, then := range [][]string{{"pay:2"}, {"wire:1"}, {"wire:1", "pay:2"}} {
		w := newCouncil(t, nil, fHana, fKen, nobodys)
		w.inOrder("pay:1")
		if _, err := w.delegateRule("rule 1"); err != nil {
			t.Fatal(err)
		}
		pending := w.expect(callOfTool("pay"), approval.AnswerPending).Request.ID
		w.approve(pending, "joe")
		other := callOfTool("pay")
		other.Scope = "/other"
		approved := w.expect(other, approval.AnswerPending).Request.ID
		w.approve(approved, "joe")
		w.approve(approved, "ken")
		w.status(approved, approval.Approved)

		w.inOrder(then...)
		w.holds("rule 1", false)
		w.approve(pending, "ken")
		w.status(pending, approval.Pending) // one of two
		if a := w.expect(other, approval.AnswerPending); a.Request.ID == approved {
			t.Error("the vote for a rule that is another now counts at the use")
		}
	}
}
