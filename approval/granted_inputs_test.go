package approval_test

import (
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
)

// What the server of a call that a grant let through is told meanwhile is in the audit log before, secrets masked,
// while the call is under way and its agent may run anything.
func TestRule11_WhatTheServerOfAGrantedCallIsToldIsOnRecord(t *testing.T) {
	w := grantWorld(t)
	call := transfer
	call.Dispatch = true
	g := w.granted(call, approval.GrantWish{For: time.Hour})
	o := w.expect(call, approval.AnswerAllow)
	bot := approval.Actor{Kind: approval.Agent, Name: call.Agent}
	in := approval.Input{Method: "elicitation/create", Message: "Sure?",
		Answer: `{"content":{"sure":true,"password":"hunter2-and-more"}}`}
	add := func(who approval.Actor, id string) approval.Code {
		return approval.CodeOf(w.gate.AddInput(w.ctx, who, id, in))
	}
	if code := add(bot, o.RunID); code != "" {
		t.Fatal(code)
	}
	es, err := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Type: approval.EventCallInput})
	if err != nil || len(es) != 1 {
		t.Fatalf("%d events, %v", len(es), err)
	}
	data := string(es[0].Data)
	if es[0].Actor != "agent:"+call.Agent || es[0].ApprovalID != g.RequestID || !strings.Contains(data, o.RunID) ||
		!strings.Contains(data, `\"sure\":true`) || strings.Contains(data, "hunter2") {
		t.Errorf("on record: %+v, %s", es[0], data)
	}
	if code := add(approval.Actor{Kind: approval.Agent, Name: "another"}, o.RunID); code != approval.CodeNotFound {
		t.Errorf("another agent: %s", code)
	}
	if code := add(hana, o.RunID); code != approval.CodeNotFound {
		t.Errorf("a person: %s", code)
	}
	if code := add(bot, g.ID); code != approval.CodeNotFound {
		t.Errorf("what is no use: %s", code)
	}
	second := w.expect(call, approval.AnswerAllow).RunID
	if _, err := w.gate.Report(w.ctx, bot, o.RunID, approval.RunSucceeded); err != nil {
		t.Fatal(err)
	}
	if code := add(bot, o.RunID); code != approval.CodeInvalidParameter {
		t.Errorf("after the end: %s", code)
	}
	if _, err := w.gate.Freeze(w.ctx, call.Agent, hana, approval.ViaAPI, "odd"); err != nil {
		t.Fatal(err)
	}
	if code := add(bot, second); code != approval.CodePolicyDenied {
		t.Errorf("while frozen: %s", code)
	}
}
