package approval_test

import (
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/message"
)

func TestRule5_WhoComesTooLateIsToldHowItEnded(t *testing.T) {
	at, used := start, start.Add(time.Minute)
	ended := func(s approval.Status, by string, via approval.Via, reason string) approval.Request {
		return approval.Request{Status: s, ResolvedAt: at, ResolvedBy: by, ResolvedVia: via, ResolveReason: reason}
	}
	lapsed, consumed := ended(approval.Approved, "hana", "line", ""), ended(approval.Approved, "hana", "line", "")
	lapsed.LapsedAt, consumed.ConsumedAt = used, used
	frozen, edited := ended(approval.Cancelled, "ken", "line", "it pays twice"), ended(approval.Denied, "hana", "api", "")
	frozen.EndCode, edited.EndCode = approval.EndFrozen, approval.EndEdited
	several := ended(approval.Approved, "hana", "line", "")
	several.Who = "ken and hana"
	for name, test := range map[string]struct {
		r    approval.Request
		who  approval.Actor
		want message.Late
	}{
		"pending": {approval.Request{Status: approval.Pending}, hana, message.Late{}},
		"expired": {ended(approval.Expired, "system:timeout", approval.ViaSystem, ""), hana,
			message.Late{How: message.LateExpired}},
		"approved by another": {ended(approval.Approved, "hana", "line", ""), ken, message.Late{How: message.LateApproved,
			By: "hana", At: at}},
		"approved by them": {ended(approval.Approved, "hana", "line", ""), hana, message.Late{How: message.LateApproved,
			Own: true, By: "hana", At: at}},
		"approved, asks an agent of the name": {ended(approval.Approved, "hana", "line", ""),
			approval.Actor{Kind: approval.Agent, Name: "hana"},
			message.Late{How: message.LateApproved, By: "hana", At: at}},
		"denied by another": {ended(approval.Denied, "hana", "slack", "no"), ken, message.Late{How: message.LateDenied,
			By: "hana", At: at}},
		"denied by them": {ended(approval.Denied, "hana", "slack", "no"), hana, message.Late{How: message.LateDenied,
			Own: true, By: "hana", At: at}},
		"lapsed": {lapsed, hana, message.Late{How: message.LateLapsed, By: "hana", At: at}},
		"used":   {consumed, hana, message.Late{How: message.LateAfterUse, By: "hana", At: used}},
		"frozen": {frozen, hana, message.Late{How: message.LateFrozen, By: "ken", At: at,
			Why: "it pays twice"}},
		"edited by another":   {edited, ken, message.Late{How: message.LateEdited, By: "hana", At: at}},
		"edited by them":      {edited, hana, message.Late{How: message.LateEdited, Own: true, By: "hana", At: at}},
		"approved by several": {several, hana, message.Late{How: message.LateApproved, By: "ken and hana", At: at}},
		"cancelled by them": {ended(approval.Cancelled, "hana", approval.ViaAPI, ""), hana,
			message.Late{How: message.LateCancelled, By: "hana", At: at}},
		"cancelled by the agent": {ended(approval.Cancelled, "agent:bot", approval.ViaAPI, ""), hana,
			message.Late{How: message.LateCancelled, By: "agent:bot", At: at}},
		"cancelled by the policy": {ended(approval.Cancelled, "system:policy", approval.ViaSystem, "policy_changed"), hana,
			message.Late{How: message.LateAfterPolicy, By: "system:policy", At: at}},
		"cancelled for the tool": {ended(approval.Cancelled, "system:policy", approval.ViaSystem, "tool_changed"), hana,
			message.Late{How: message.LateAfterTool, By: "system:policy", At: at}},
		"cancelled for the agent": {ended(approval.Cancelled, "system:policy", approval.ViaSystem, "agent_removed"), hana,
			message.Late{How: message.LateCancelled, By: "system:policy", At: at}},
		"cancelled by a person who says policy_changed": {ended(approval.Cancelled, "ken", approval.ViaAPI, "policy_changed"),
			hana,
			message.Late{How: message.LateCancelled, By: "ken", At: at}},
	} {
		if got := approval.LateFor(test.r, test.who); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}
