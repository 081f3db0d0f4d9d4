package approval_test

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/approval"
)

// byMethod asks two people about a tool's call, denies some of its args, and lets every call of a method through.
func byMethod(c approval.Call) approval.Verdict {
	v := quarantine(approval.RiskHigh)
	switch {
	case c.Method != "":
		v.Action, v.Risk = approval.Allow, approval.RiskLow
	case string(c.Args.Canonical()) == less:
		v.Action, v.ReasonCode, v.Message = approval.Deny, "forbidden", "No."
	default:
		v.Need = financeTwice
	}
	return v
}

func named(tool, method string) approval.Call {
	c := transfer
	c.Server, c.Tool, c.Method = "files", tool, method
	return c
}

// Whatever a caller names its tool, the call is judged as a tool's: at the vote, at an edit and at the use.
func TestRule3_AToolsNameMakesNoMethodOfIt(t *testing.T) {
	w := newCouncil(t, nil, fHana, fKen, fMei)
	w.policy(byMethod)
	scope := 0
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.OneOf(rapid.SampledFrom([]string{"resources:read", "db:drop", "prompts:get", "tools:call", ":",
			"a:b:c"}),
			rapid.StringMatching(`[A-Za-z0-9_.:-]{1,40}`)).Draw(rt, "tool")
		c := named(name, "")
		scope++
		c.Scope = strconv.Itoa(scope)
		id := w.expect(c, approval.AnswerPending).Request.ID
		_, err := w.edit(id, "hana", less)
		wantCode(t, err, approval.CodePolicyDenied)
		w.approve(id, "hana")
		w.status(id, approval.Pending)
		w.approve(id, "ken")
		w.status(id, approval.Approved)
		w.expect(c, approval.AnswerApproved)
	})
}

// A call of a method and one of a tool that is named so are two calls: no approval, denial or grant of the one is for
// the other.
func TestRule3_AMethodIsNoToolOfItsName(t *testing.T) {
	w := newCouncil(t, nil, fHana, fKen)
	w.policy(func(approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		v.Grants, v.RuleDigest = &approval.GrantTerms{}, "same"
		return v
	})
	tool, method := named("resources:read", ""), named("resources:read", "resources/read")
	id := w.expect(tool, approval.AnswerPending).Request.ID
	other := w.expect(method, approval.AnswerPending).Request
	if other.ID == id || other.Method != "resources/read" {
		t.Fatalf("%+v", other)
	}
	w.approve(id, "hana")
	w.expect(method, approval.AnswerPending)
	w.expect(tool, approval.AnswerApproved)

	id = w.expect(tool, approval.AnswerPending).Request.ID
	hana, _ := w.person("hana")
	d := approval.Decision{RequestID: id, Approve: true, By: hana, Via: approval.ViaAPI,
		Grant: &approval.GrantWish{For: time.Hour}}
	if _, err := w.gate.Decide(w.ctx, d); err != nil {
		t.Fatal(err)
	}
	w.expect(tool, approval.AnswerApproved)
	w.expect(tool, approval.AnswerAllow)
	w.expect(method, approval.AnswerPending)
	if _, err := w.decide(other.ID, false, hana, ""); err != nil {
		t.Fatal(err)
	}
	w.expect(method, approval.AnswerDenied)
	w.expect(tool, approval.AnswerAllow)
}
