package campaign_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const contSignal, stopSignal = unix.SIGCONT, unix.SIGSTOP

// plan is what one round does. All that is drawn in it comes from its seed.
type plan struct {
	seed   uint64
	inside bool   // the program runs in this process
	group  string // which calls share a card
	length time.Duration
	ops    []string // kinds of operations
	faults []string // kinds of faults
}

func (p plan) String() string {
	how := "process"
	if p.inside {
		how = "inside"
	}
	return fmt.Sprintf("seed %d, %s, cards by %s, %s of %s with %s", p.seed, how, p.group, p.length,
		strings.Join(p.ops, " "), strings.Join(p.faults, " "))
}

func (p plan) has(op string) bool { return slices.Contains(p.ops, op) }

func (p plan) without(kind string) plan {
	drop := func(all []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(k string) bool { return k == kind })
	}
	p.ops, p.faults = drop(p.ops), drop(p.faults)
	return p
}

// allOps are the kinds of operations that a round can do without.
var allOps = []string{"batch", "wait", "hook", "mcp", "feed", "report", "cancel", "extend", "line", "slack", "typed",
	"edit", "grant", "revoke", "freeze", "strangers", "many"}

// allFaults are the kinds of faults: those of a process come first.
var allFaults = []string{"kill", "die", "stop", "full", "slow", "restart", "platforms", "webhooks", "clock", "reload",
	"servers"}

// ofProcess are the faults that need a process of its own.
var ofProcess = []string{"kill", "die", "stop", "full"}

// newPlan draws a round. One in five has no faults, so that what only a calm history shows is looked at too.
func newPlan(seed uint64, n int, length time.Duration) plan {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	p := plan{seed: r.Uint64(), inside: n%2 == 1, group: []string{"call", "turn"}[r.IntN(2)], length: length,
		ops: slices.Clone(allOps)}
	if r.IntN(5) == 0 {
		return p
	}
	for _, f := range allFaults {
		often := 2
		if f == "clock" {
			often = 5
		}
		if r.IntN(often) == 0 && !(p.inside && slices.Contains(ofProcess, f)) {
			p.faults = append(p.faults, f)
		}
	}
	return p
}
