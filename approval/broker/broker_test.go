package broker_test

import (
	"slices"
	"testing"
	"time"

	"countersign/approval/broker"
)

func woken(wake <-chan struct{}) bool {
	select {
	case <-wake:
		return true
	default:
		return false
	}
}

func publish(b *broker.Broker[string], events ...broker.Event[string]) {
	b.Publish(slices.Values(events), nil, time.Time{})
}

func TestBrokerWakesOnTheEventsOfSomeTypes(t *testing.T) {
	b := broker.New[string]()
	bots, cancel := b.Events("bot", "decision", "frozen")
	all, cancelAll := b.Events("", "decision")
	defer cancelAll()
	for _, tt := range []struct {
		event             broker.Event[string]
		wantBots, wantAll bool
	}{
		{broker.Event[string]{Seq: 1, Type: "decision", Agent: "bot"}, true, true},
		{broker.Event[string]{Seq: 2, Type: "decision", Agent: "other"}, false, true},
		{broker.Event[string]{Seq: 3, Type: "frozen", Agent: "bot"}, true, false},
		{broker.Event[string]{Seq: 4, Type: "allowed", Agent: "bot"}, false, false},
	} {
		publish(b, tt.event)
		if gotBots, gotAll := woken(bots), woken(all); gotBots != tt.wantBots || gotAll != tt.wantAll {
			t.Errorf("%v: bot's %t, all %t", tt.event, gotBots, gotAll)
		}
	}
	cancel()
	publish(b, broker.Event[string]{Seq: 5, Type: "decision", Agent: "bot"})
	if woken(bots) {
		t.Error("it was cancelled, and woke")
	}
}

func TestBrokerSaysWhatCameSince(t *testing.T) {
	b := broker.New[string]()
	if b.Newest() != 0 || b.Since(0, "decision") {
		t.Error("something came before the first event")
	}
	if !b.Since(7, "decision") {
		t.Error("what came since an event of an earlier broker is not known")
	}
	publish(b, broker.Event[string]{Seq: 8, Type: "decision"}, broker.Event[string]{Seq: 9, Type: "frozen"})
	if b.Newest() != 9 || !b.Since(7, "decision") || b.Since(8, "decision") ||
		!b.Since(8, "decision", "frozen") {
		t.Error("it does not know what came since")
	}
}
