package broker_test

import (
	"slices"
	"testing"
	"time"

	"countersign/approval/broker"
	"countersign/internal/testkit"
)

// none are no events.
var none = slices.Values([]broker.Event[string]{})

// Whoever waits for the earliest deadline is woken by an earlier one alone, and by every one while nothing is waited
// for: what was read before a commit does not know of it.
func TestRule6_OnlyAnEarlierDeadlineWakes(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for _, tt := range []struct {
		name      string
		waits     []int // one after the other; 0: for nothing
		committed []int
		want      int // 0: nobody is woken
	}{
		{"a later one", []int{10}, []int{11, 10}, 0},
		{"an earlier one", []int{10}, []int{11, 9, 10}, 9},
		{"the earliest of several", []int{10}, []int{9, 7, 8}, 7},
		{"nothing is waited for", []int{0}, []int{11, 12}, 11},
		{"what was waited for has come", []int{10, 0}, []int{11}, 11},
		{"what is waited for is later now", []int{10, 20}, []int{11}, 11},
	} {
		b := broker.New[string]()
		d, cancel := b.Deadlines()
		for _, s := range tt.waits {
			next := time.Time{}
			if s > 0 {
				next = at(s)
			}
			d.WaitFor(next)
		}
		for _, s := range tt.committed {
			b.Publish(none, nil, at(s))
		}
		got := time.Time{}
		select {
		case got = <-d.Earlier():
		default:
		}
		if want := at(tt.want); tt.want == 0 && !got.IsZero() || tt.want != 0 && !got.Equal(want) {
			t.Errorf("%s: woken by %v, want %d", tt.name, got, tt.want)
		}
		cancel()
	}
}

// A deadline that was committed while the earliest one was looked for is not lost when that is found.
func TestRule6_ADeadlineThatComesMeanwhileIsKept(t *testing.T) {
	b := broker.New[string]()
	d, cancel := b.Deadlines()
	defer cancel()
	d.WaitFor(time.Unix(10, 0))
	d.WaitFor(time.Time{}) // it has come: the next one is looked for
	b.Publish(none, nil, time.Unix(15, 0))
	d.WaitFor(time.Unix(20, 0)) // found before that commit
	b.Publish(none, nil, time.Unix(16, 0))
	if got := testkit.Receive(t, "the earlier deadline", d.Earlier()); !got.Equal(time.Unix(15, 0)) {
		t.Errorf("woken by %v", got)
	}
}
