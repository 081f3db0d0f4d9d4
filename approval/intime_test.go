package approval_test

import (
	"slices"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
)

// lateTry has a try at an address fail, with the next one at a time.
func (w *world) lateTry(a approval.Address, next time.Time) {
	w.t.Helper()
	ready, _, err := w.ready(100)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range ready {
		if d.Notification.Address() != a {
			continue
		}
		begun, err := outboxtest.Begin(w.ctx, w.outbox, outbox.Attempt{Notification: d.Notification, Body: []byte("x"),
			Lease: time.Second})
		if err != nil || len(begun) != 1 {
			w.t.Fatal(err, begun)
		}
		if err := w.outbox.NotSent(w.ctx, begun[0], outbox.Failure{Reason: "unavailable", RetryAt: next}); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	w.t.Fatalf("nothing goes to %v; ready are %d", a, len(ready))
}

// short has every call asked about for 40 seconds.
func short(w *world) (id string, asked time.Time) {
	w.policy(func(approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		v.Timeout = 40 * time.Second
		return v
	})
	return w.check(transfer).Request.ID, w.clock.Now()
}

func TestRule7_APushWhoseNextTryIsTooLateGoesElsewhereInTime(t *testing.T) {
	slack := approval.Address{Channel: "slack", To: "C1"}
	line := approval.Address{Channel: "line", To: "UADMIN"}
	for _, tt := range []struct {
		name   string
		routes []approval.Route
		want   []string
	}{
		{"to the next address", []approval.Route{{slack, {Channel: "slack", To: "C2"}, hanasWays[0]}},
			[]string{"slack C1 request retrying", "line U1 request queued"}},
		{"to admins", []approval.Route{{slack}, {{Channel: "slack", To: "UK"}}}, // the other waits for the same channel
			[]string{"slack C1 request retrying", "slack UK request queued", "line UADMIN request queued unreached"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.ways(tt.routes, []approval.Route{{line}})
			id, asked := short(w)
			w.lateTry(slack, asked.Add(10*time.Second))
			if got := w.sentTo(id); slices.Contains(got, tt.want[len(tt.want)-1]) {
				t.Errorf("with a try to come in time: %q", got)
			}
			w.clock.advance(10 * time.Second)
			w.lateTry(slack, asked.Add(30*time.Second)) // and half of the time is over by then
			if got := w.sentTo(id); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			w.clock.advance(20 * time.Second)
			w.lateTry(slack, asked.Add(40*time.Second)) // a try at the deadline is none
			tt.want[0] = "slack C1 request failed"
			if got := w.sentTo(id); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A channel that sends nothing at present tries nothing: what waits for it goes on all the same.
func TestRule7_WhatWaitsForAPausedChannelGoesElsewhereInTime(t *testing.T) {
	w := newWorld(t)
	w.ways([]approval.Route{{{Channel: "slack", To: "C1"}, hanasWays[0]}}, nil)
	id, _ := short(w)
	row := w.notifications(approval.NotificationQuery{ApprovalID: id})[0].ID
	w.clock.advance(20*time.Second - time.Millisecond)
	for _, want := range [][]string{{"slack C1 request queued"}, {"slack C1 request queued", "line U1 request queued"},
		{"slack C1 request queued", "line U1 request queued"}} {
		done, err := w.outbox.SendOn(w.ctx, []string{row})
		if got := w.sentTo(id); err != nil || !slices.Equal(got, want) || slices.Contains(done, row) != (len(want) == 2) {
			t.Errorf("got %q, done %q, %v; want %q", got, done, err, want)
		}
		w.clock.advance(time.Millisecond)
	}
}
