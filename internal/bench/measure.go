package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// errEnough ends a measurement that has nothing left to do.
var errEnough = errors.New("nothing left to do")

// tooMany failures end a measurement.
const tooMany = 10

// an operation is what is measured: the n-th of a measurement, n from 0. It returns how long it took; 0: as long as
// the call of it.
type operation func(ctx context.Context, n int64) (time.Duration, error)

// stopwatch is what is measured by.
type stopwatch struct{ started time.Time }

func startStopwatch() stopwatch { return stopwatch{time.Now()} }

func (s stopwatch) read() time.Duration { return time.Since(s.started) }

// series is what one figure has come to, round by round.
type series struct {
	callers int
	all     Histogram
	failed  int64
	first   error // of the failures
	rounds  []round
}

// round is one round of a series.
type round struct {
	n    int64
	rate float64 // a second
	p50  time.Duration
	cpu  time.Duration // of the process that is measured, for each call; 0: not known
}

func (s *series) last() round {
	if len(s.rounds) == 0 {
		return round{}
	}
	return s.rounds[len(s.rounds)-1]
}

// load is how much is done in one round.
type load struct {
	callers int
	count   int64
	within  time.Duration
}

// measure has callers do an operation again and again, until it was done often or long enough, and adds what came of
// it to the series. pids are the processes whose processor time is counted. It returns ctx's error alone: an
// operation that fails is counted, and ends the round when too many do.
func (s *series) measure(ctx context.Context, l load, pids []int, do operation) error {
	s.callers = l.callers
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var next, failed atomic.Int64
	var mu sync.Mutex
	var took Histogram
	before := processorTimes(pids)
	watch := startStopwatch()
	var wg sync.WaitGroup
	for range l.callers {
		wg.Go(func() {
			var mine Histogram
			for at := time.Duration(0); at < l.within && ctx.Err() == nil && failed.Load() < tooMany; {
				n := next.Add(1) - 1
				if n >= l.count {
					break
				}
				d, err := do(ctx, n)
				now := watch.read()
				if d == 0 {
					d = now - at
				}
				at = now
				if errors.Is(err, errEnough) {
					break
				}
				if err == nil {
					mine.Add(d)
				} else if ctx.Err() == nil {
					failed.Add(1)
					s.note(&mu, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			took.Merge(&mine)
		})
	}
	wg.Wait()
	r := round{n: took.n, rate: float64(took.n) / watch.read().Seconds(), p50: took.At(0.5)}
	if took.n > 0 {
		r.cpu = (processorTimes(pids) - before) / time.Duration(took.n)
	}
	s.failed += failed.Load()
	s.all.Merge(&took)
	s.rounds = append(s.rounds, r)
	return context.Cause(ctx)
}

// processorTimes is what processes have used so far.
func processorTimes(pids []int) (sum time.Duration) {
	for _, pid := range pids {
		sum += processorTime(pid)
	}
	return sum
}

// add is a round of what was measured beside another figure, one caller at a time.
func (s *series) add(took *Histogram, rate float64) {
	s.callers = 1
	s.all.Merge(took)
	s.rounds = append(s.rounds, round{n: took.n, rate: rate, p50: took.At(0.5)})
}

// note keeps the first failure.
func (s *series) note(mu *sync.Mutex, err error) {
	mu.Lock()
	defer mu.Unlock()
	if s.first == nil {
		s.first = err
	}
}

// until tries something again until it does not fail, at most as long as patience.
func until(ctx context.Context, what string, do func() error) error {
	for watch := startStopwatch(); ; {
		err := do()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if watch.read() > patience {
			return fmt.Errorf("%s: %w", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// patience is how long anything that is started may take until it answers: a machine may be slow.
const patience = time.Minute

// median is the middle one, 0 of none.
func median[T ~int64 | ~float64](l []T) T {
	if len(l) == 0 {
		return 0
	}
	l = slices.Sorted(slices.Values(l))
	return l[len(l)/2]
}
