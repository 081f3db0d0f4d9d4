package gateway_test

import (
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/mcp"
	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

// removable is a world whose agents can be taken out of the configuration.
func removable(gone *atomic.Bool) around {
	return around{who: func(n *names) { n.agents = func(string) bool { return !gone.Load() } }}
}

// A task of an agent that was removed meanwhile does not run when it is approved: neither the one that waits, nor
// the one that a restart took up.
func TestRule1_RemovedAgentsTaskDoesNotRun(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"that waits": false, "of before a restart": true} {
		for how, cancelled := range map[string]bool{"approved": false, "cancelled": true} {
			var gone atomic.Bool
			up := newFake(mcp.Legacy, running, "tool")
			s := up.over(t, "http")
			w := newWorldIn(t, quarantineAll, gateway.Options{Servers: []gateway.ServerConfig{s}}, removable(&gone))
			id := join(t, w, mcp.Modern, withTasks).begin("tool", `{}`)
			if restart {
				w.restart(t, gateway.Options{Servers: []gateway.ServerConfig{s}})
			}
			gone.Store(true)
			c := join(t, w, mcp.Modern, withTasks)
			if cancelled {
				if _, err := w.gate.CancelRemoved(t.Context()); err != nil {
					t.Fatal(err)
				}
				contains(t, name, c.becomes(id, "completed"), "cancelled by system:policy")
			} else { // in the moment before
				w.answer(id, true, "")
				contains(t, name, c.becomes(id, "completed"), "not in the gate's configuration")
			}
			if r := w.request(id); up.count() != 0 || !r.ConsumedAt.IsZero() {
				t.Errorf("a task %s, %s: ran %d times, used at %s", name, how, up.count(), r.ConsumedAt)
			}
		}
	}
}

// A call that is held for a removed agent does not run, and what the policy allows does not either.
func TestRule1_RemovedAgentsHeldCallDoesNotRun(t *testing.T) {
	t.Parallel()
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		var gone atomic.Bool
		up := newFake(era, running, "tool", "free")
		w := newWorldIn(t, quarantineAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")},
			Hold: time.Minute}, removable(&gone))
		c := join(t, w, era, `{}`)
		want(t, "before", say(c.callTool("free", `{}`)), "ran")
		answer := make(chan string, 1)
		go func() { answer <- say(c.callTool("tool", `{}`)) }()
		w.pending(1)
		gone.Store(true)
		r := w.resolve(t, true)
		contains(t, "the held call", testkit.Receive(t, "the answer", answer), "not in the gate's configuration")
		contains(t, "what is allowed", say(c.callTool("free", `{}`)), "not in the gate's configuration")
		if r := w.request(r.ID); up.count() != 1 || !r.ConsumedAt.IsZero() {
			t.Errorf("ran %d times, used at %s", up.count(), r.ConsumedAt)
		}
	}
}
