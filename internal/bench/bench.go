package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"
)

// The scenarios, in the order in which they are measured.
const (
	Quarantined = "quarantined" // calls that a person is asked about
	Allowed     = "allowed"     // calls that run at once
	Decided     = "decided"     // approvals by a person
	Gateway     = "gateway"     // allowed calls over MCP
	Chat        = "chat"        // from the call to the card, and from the press to the agent that waits
)

// Scenarios are all of them.
var Scenarios = []string{Quarantined, Allowed, Decided, Gateway, Chat}

// Options say what is measured. Zero is the default.
type Options struct {
	// Program is the path of the gate's, of which one is started.
	Program string
	// Dir is a folder on the disk that is to be measured; "": the one for temporary files. What is written there is
	// removed at the end.
	Dir string
	// Store is a PostgreSQL database on which the gate that is started keeps its rows; "": it has a file in Dir.
	Store   string
	Gates   int           // how many are started on it; default 1
	Agents  int           // whose calls they are, in turns; default 1
	Delay   time.Duration // by how much later what they and the database say to each other arrives
	Given   *Given        // nil: a gate is started
	Only    []string      // of Scenarios; none: all that can be measured
	Rounds  int           // default 5
	Round   time.Duration
	Calls   int // at most in a round of a figure; default 5000
	Callers int // at once, where there are many; default 64
	Log     io.Writer
}

// ErrFailed is returned beside a report in which something failed.
var ErrFailed = errors.New("not all calls were answered as they must be")

// run is one.
type run struct {
	o       Options
	w       *world
	dir     string
	serial  serial
	figures []*figure
	undo    []func() error
	made    map[string]int64 // what the gate's record must hold, by the type of event
	yards   yards

	notTakenBack int // requests at a gate that is not ours
}

// figure is one line of the report while it is taken.
type figure struct {
	key, name string
	ceiling   bool
	series
	ratios []*ratio
	check  string // the type of the event that each of it leaves
}

// ratio is what a figure comes to beside another, round by round.
type ratio struct {
	of     quantity
	to     *figure
	rounds []float64
}

// quantity is what of two figures is set beside each other.
type quantity string

const (
	ofRate  quantity = "rate"  // calls a second, as a part of the other's
	ofOver  quantity = "over"  // how much longer the median takes, in seconds
	ofAdded quantity = "added" // what is over a third figure, as a multiple of what the other is over it
	ofCPU   quantity = "cpu"   // processor time, as a multiple of the other's
	ofTrips quantity = "trips" // the median, in the other's
)

// Run puts load on a gate and reports what came of it. Beside [ErrFailed] there is a report.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	o.fill()
	r := &run{o: o, serial: serial{run: rand.Text()[:10]}, made: map[string]int64{}}
	if r.dir, err = os.MkdirTemp(o.Dir, "countersign-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	if o.Given != nil {
		r.w, err = newGiven(ctx, *o.Given)
	} else {
		r.w, err = own(ctx, o, r.dir)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.w.close()) }()
	defer func() {
		for _, undo := range slices.Backward(r.undo) {
			err = errors.Join(err, undo())
		}
	}()
	if err := r.measure(ctx); err != nil {
		return nil, err
	}
	report := r.report()
	if r.w.isOurs() {
		if err := r.onRecord(ctx); err != nil {
			report.Problems = append(report.Problems, err.Error())
		}
	}
	if len(report.Problems) > 0 {
		return report, ErrFailed
	}
	return report, nil
}

func (o *Options) fill() {
	if o.Rounds <= 0 {
		o.Rounds = 5
	}
	if o.Round <= 0 {
		o.Round = 400 * time.Millisecond
	}
	if o.Calls <= 0 {
		o.Calls = 5000
	}
	if o.Gates <= 0 {
		o.Gates = 1
	}
	if o.Agents <= 0 {
		o.Agents = 1
	}
	if o.Callers <= 0 {
		o.Callers = 64
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
}

// step is one figure's part of a round.
type step func(ctx context.Context) error

// wants reports whether a scenario is to be measured, as far as the gate has what it takes.
func (r *run) wants(scenario string) bool {
	if len(r.o.Only) > 0 && !slices.Contains(r.o.Only, scenario) {
		return false
	}
	switch scenario {
	case Quarantined:
		return r.w.askTool != ""
	case Allowed:
		return r.w.allowTool != ""
	case Decided:
		return r.w.askTool != "" && r.w.person != ""
	case Gateway:
		return r.w.mcpCall != ""
	}
	return r.w.phone != nil
}

// measure takes all figures, in turns.
func (r *run) measure(ctx context.Context) error {
	ceilings, err := r.ceilings(ctx)
	if err != nil {
		return err
	}
	steps := slices.Clone(ceilings)
	for _, s := range []struct {
		name  string
		steps func(context.Context) ([]step, error)
	}{
		{Quarantined, r.stepsQuarantined}, {Allowed, r.stepsAllowed}, {Decided, r.stepsDecided}, {Gateway, r.gateway},
		{Chat, r.people},
	} {
		if !r.wants(s.name) {
			continue
		}
		more, err := s.steps(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		steps = append(steps, more...)
	}
	if len(steps) == len(ceilings) {
		return errors.New("of what is to be measured, nothing can be at this gate")
	}
	for n := range r.o.Rounds + 1 {
		if n == 0 {
			fmt.Fprintln(r.o.Log, "warming up")
		} else {
			fmt.Fprintf(r.o.Log, "round %d of %d\n", n, r.o.Rounds)
		}
		for _, s := range steps {
			if err := s(ctx); err != nil {
				return err
			}
		}
		if n == 0 {
			r.forget()
		}
	}
	return nil
}

// forget drops what the first round has come to, which has opened the connections; what failed stays.
func (r *run) forget() {
	for _, f := range r.figures {
		f.series = series{callers: f.callers, failed: f.failed, first: f.first}
		f.ratios = nil
	}
}

// figure adds one to the report.
func (r *run) figure(key, name string) *figure {
	f := &figure{key: key, name: name}
	r.figures = append(r.figures, f)
	return f
}

func (r *run) ceiling(key, name string) *figure {
	f := r.figure(key, name)
	f.ceiling = true
	return f
}

// take measures a figure for a round, unless too much of it has failed already.
func (r *run) take(ctx context.Context, f *figure, callers int, pids []int, do operation) error {
	if f.failed >= tooMany {
		return nil
	}
	err := f.measure(ctx, load{callers: callers, count: int64(r.o.Calls), within: r.o.Round}, pids, do)
	if f.check != "" {
		r.made[f.check] += f.last().n
	}
	return err
}

// compare keeps what a figure comes to beside another in this round. What was not measured comes to nothing.
func (f *figure) compare(of quantity, to *figure, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) || f.last().n == 0 || to.last().n == 0 {
		return
	}
	i := slices.IndexFunc(f.ratios, func(r *ratio) bool { return r.of == of && r.to == to })
	if i < 0 {
		i = len(f.ratios)
		f.ratios = append(f.ratios, &ratio{of: of, to: to})
	}
	f.ratios[i].rounds = append(f.ratios[i].rounds, value)
}

// rateOf compares how much was done in a second.
func (f *figure) rateOf(to *figure) { f.compare(ofRate, to, f.last().rate/to.last().rate) }

// tripsOf compares how long the median takes, where the other was measured.
func (f *figure) tripsOf(to *figure) {
	if to != nil {
		f.compare(ofTrips, to, float64(f.last().p50)/float64(to.last().p50))
	}
}

// over compares how long the median takes.
func (f *figure) over(to *figure) { f.compare(ofOver, to, (f.last().p50 - to.last().p50).Seconds()) }

// addedOf compares what both add to a third.
func (f *figure) addedOf(to, base *figure) {
	f.compare(ofAdded, to, float64(f.last().p50-base.last().p50)/float64(to.last().p50-base.last().p50))
}

// cpuOf compares the processor time of a call.
func (f *figure) cpuOf(to *figure) {
	if mine, other := f.last().cpu, to.last().cpu; mine > 0 && other > 0 {
		f.compare(ofCPU, to, float64(mine)/float64(other))
	}
}
