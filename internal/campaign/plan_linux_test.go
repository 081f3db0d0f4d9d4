package campaign_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const contSignal, stopSignal = unix.SIGCONT, unix.SIGSTOP

// flavour is where the gate keeps what it knows, and how many programs do so together.
type flavour struct {
	programs int
	faults   []string                    // the kinds that there are
	open     func(t testing.TB) database // nil: in a file
}

// database is a server's, which programs share.
type database interface {
	// reach is the URL at which the nth program reaches it.
	reach(n int) string
	// setClock has its clock be off by so much.
	setClock(t testing.TB, off time.Duration)
	// fault does one thing to it, or to the way there from a program, and mends it again.
	fault(w *world, r *rand.Rand, kind string, p *program)
}

var onFile = flavour{programs: 1, faults: allFaults}

// plan is what one round does. All that is drawn in it comes from its seed.
type plan struct {
	seed   uint64
	on     flavour
	inside bool   // the program, or the first of them, runs in this process
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

// isAlone reports whether all that there is of the gate runs in this process.
func (p plan) isAlone() bool { return p.inside && p.on.programs == 1 }

func (p plan) has(op string) bool { return slices.Contains(p.ops, op) }

func (p plan) without(kind string) plan {
	drop := func(all []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(k string) bool { return k == kind })
	}
	p.ops, p.faults = drop(p.ops), drop(p.faults)
	return p
}

// allOps are the kinds of operations that a round can do without.
var allOps = []string{"batch", "wait", "hook", "mcp", "stdio", "feed", "report", "cancel", "extend", "line", "slack",
	"typed", "page", "edit", "grant", "revoke", "delegate", "freeze", "strangers", "many"}

// allFaults are the kinds of faults that a gate with a file has.
var allFaults = []string{"kill", "die", "stop", "full", "power", "sync", "slow", "restart", "platforms", "webhooks",
	"clock", "reload", "servers"}

// ofProcess are the faults that need a process of its own; ofProgram are those of one program among others.
var (
	ofProcess = []string{"kill", "die", "stop", "full", "power", "sync"}
	ofProgram = append([]string{"slow", "restart", "skew", "cut", "stall"}, ofProcess...)
)

func isOfProcess(kind string) bool { return slices.Contains(ofProcess, kind) }

// newPlan draws a round. One in five has no faults, so that what only a calm history shows is looked at too.
func newPlan(on flavour, seed uint64, n int, length time.Duration) plan {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	p := plan{seed: r.Uint64(), on: on, inside: n%2 == 1, group: []string{"call", "turn"}[r.IntN(2)], length: length,
		ops: slices.Clone(allOps)}
	if r.IntN(5) == 0 {
		return p
	}
	for _, f := range on.faults {
		often := 2
		if f == "clock" {
			often = 5
		}
		if r.IntN(often) == 0 && !(p.isAlone() && isOfProcess(f)) {
			p.faults = append(p.faults, f)
		}
	}
	return p
}
