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
	b.Publish(approval.Commit{Events: []approval.Event{{Type: approval.EventDecision, ApprovalID: "a",
		Decision: "approve"}}})
	if woken(approved) {
		t.Error("it was cancelled, and woke")
	}
}
