package approval_test

import (
	"testing"

	"countersign/approval"
)

func woken(wake <-chan struct{}) bool {
	select {
	case <-wake:
		return true
	default:
		return false
	}
}

func TestBrokerWakesOnTheEventsOfSomeTypes(t *testing.T) {
	b := approval.NewBroker()
	bots, cancel := b.Events("bot", approval.EventDecision, approval.EventFrozen)
	all, cancelAll := b.Events("", approval.EventDecision)
	defer cancelAll()
	for _, tt := range []struct {
		event             approval.Event
		wantBots, wantAll bool
	}{
		{approval.Event{Seq: 1, Type: approval.EventDecision, Agent: "bot"}, true, true},
		{approval.Event{Seq: 2, Type: approval.EventDecision, Agent: "other"}, false, true},
		{approval.Event{Seq: 3, Type: approval.EventFrozen, Agent: "bot"}, true, false},
		{approval.Event{Seq: 4, Type: approval.EventCallAllowed, Agent: "bot"}, false, false},
	} {
		b.Publish(approval.Commit{Events: []approval.Event{tt.event}})
		if gotBots, gotAll := woken(bots), woken(all); gotBots != tt.wantBots || gotAll != tt.wantAll {
			t.Errorf("%v: bot's %t, all %t", tt.event, gotBots, gotAll)
		}
	}
	cancel()
	b.Publish(approval.Commit{Events: []approval.Event{{Seq: 5, Type: approval.EventDecision, Agent: "bot"}}})
	if woken(bots) {
		t.Error("it was cancelled, and woke")
	}
}

func TestBrokerSaysWhatCameSince(t *testing.T) {
	b := approval.NewBroker()
	if b.Newest() != 0 || b.Since(0, approval.EventDecision) {
		t.Error("something came before the first event")
	}
	if !b.Since(7, approval.EventDecision) {
		t.Error("what came since an event of an earlier broker is not known")
	}
	b.Publish(approval.Commit{Events: []approval.Event{{Seq: 8, Type: approval.EventDecision}, {Seq: 9, Type: approval.EventFrozen}}})
	if b.Newest() != 9 || !b.Since(7, approval.EventDecision) || b.Since(8, approval.EventDecision) ||
		!b.Since(8, approval.EventDecision, approval.EventFrozen) {
		t.Error("it does not know what came since")
	}
}

func TestBrokerTellsAnApprovalApart(t *testing.T) {
	b := approval.NewBroker()
	approved, cancel := b.Approved("a")
	each, cancelAny := b.Request("a")
	defer cancelAny()
	for _, tt := range []struct {
		event             approval.Event
		wantApproved, all bool
	}{
		{approval.Event{Type: approval.EventVote, ApprovalID: "a", Decision: "approve"}, false, true},
		{approval.Event{Type: approval.EventDecision, ApprovalID: "a", Decision: "deny"}, false, true},
		{approval.Event{Type: approval.EventDecision, ApprovalID: "b", Decision: "approve"}, false, false},
		{approval.Event{Type: approval.EventDecision, ApprovalID: "a", Decision: "approve"}, true, true},
	} {
		b.Publish(approval.Commit{Events: []approval.Event{tt.event}})
		if got, all := woken(approved), woken(each); got != tt.wantApproved || all != tt.all {
			t.Errorf("%v: approved %t, any event %t", tt.event, got, all)
		}
	}
	cancel()
	b.Publish(approval.Commit{Events: []approval.Event{{Type: approval.EventDecision, ApprovalID: "a", Decision: "approve"}}})
	if woken(approved) {
		t.Error("it was cancelled, and woke")
	}
}
