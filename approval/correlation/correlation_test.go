package correlation_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"countersign/approval/correlation"
)

// Nobody's own id can be taken for one that the gate made of a platform's event, or for an actor.
func TestRule11_ACallersCorrelationIDIsNoPlatforms(t *testing.T) {
	for _, id := range []string{"turn-7", "my id 7", "toolu_01ABC", "Root=1-67891233-abcdef012345678912345678",
		"3f2504e0-4f89-11d3-9a0c-0305e82c3301", strings.Repeat("x", 128)} {
		if got := correlation.Theirs(id); got != id {
			t.Errorf("%q became %q", id, got)
		}
	}
	for _, id := range []string{"", "  ", "line:01KAFJ0Q8R6ZC4V1M2N3P4Q5R6", "Slack:Ev7", "webhook:ABC", "web:x", "cli:x",
		"hook:x", "system:policy", "agent:bot", " line:x", "a line:x", ":", "x\ny", "x\x00", "x\x7f",
		"ü", "\u202ex", "\u200bx", "line\uff1ax", "\xff", strings.Repeat("x", 129)} {
		if got := correlation.Theirs(id); got != "" {
			t.Errorf("%q is taken as %q", id, got)
		}
	}
}

// Ids that the gate makes grow with time, so that an index of them does: at random, each would have a page of its own.
func TestCorrelationsGrowWithTime(t *testing.T) {
	at := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	last := ""
	for i := range 100 {
		a, b := correlation.New(at.Add(time.Duration(i)*time.Millisecond)),
			correlation.New(at.Add(time.Duration(i)*time.Millisecond))
		if a <= last || b <= last || a == b || correlation.Theirs(a) != a {
			t.Fatalf("%s and %s follow %s", a, b, last)
		}
		last = max(a, b)
	}
}

// An event carries the trace that it was done in, whatever it holds beside, and none where it has no cause.
func TestEventsCarryTheirTrace(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	traced := correlation.WithTrace(t.Context(), parent)
	for held, want := range map[string]string{
		"":         `{"traceparent":"` + parent + `"}`,
		"{}":       `{"traceparent":"` + parent + `"}`,
		`{"a":{}}`: `{"a":{},"traceparent":"` + parent + `"}`,
	} {
		if got := string(correlation.Stamp(correlation.With(traced, "turn-7"), []byte(held))); got != want {
			t.Errorf("%s became %s, want %s", held, got, want)
		}
		for _, ctx := range []context.Context{t.Context(), correlation.With(t.Context(), "turn-7"),
			correlation.With(traced, "")} {
			if got := string(correlation.Stamp(ctx, []byte(held))); got != held {
				t.Errorf("%s became %s without a trace", held, got)
			}
		}
	}
	if id := correlation.Of(correlation.WithTrace(correlation.With(t.Context(), "turn-7"), parent)); id != "turn-7" {
		t.Errorf("the id became %q", id)
	}
}

// A call without a trace pays nothing for those that have one.
func TestWithoutATraceNothingIsAllocated(t *testing.T) {
	ctx, data := correlation.With(t.Context(), "turn-7"), []byte(`{"a":1}`)
	if n := testing.AllocsPerRun(100, func() { data = correlation.Stamp(ctx, data) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
