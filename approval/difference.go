package approval

import (
	"context"
	"errors"
	"sync"
	"time"
)

// DiffTerms say how people are shown what a call would change in a file: what it would write there, beside what the
// tool's own server reads there now.
type DiffTerms struct {
	Path    string `json:"path"`    // the call's arg that names the file; a dotted path to it, as the following are
	Content string `json:"content"` // the one with all of the new text
	Read    string `json:"read"`    // the tool that reads a file
	// ReadArgs are its args, by their names: each is an arg of the call.
	ReadArgs map[string]string `json:"read_args"`
}

// Differ finds what a call would change, for whoever sends calls on.
type Differ interface {
	// Difference returns the difference and the tool that the present text was read with; "" where there is none to
	// show. It is asked before the request of the call is made, outside of transactions, and returns when ctx ends.
	Difference(ctx context.Context, d DiffTerms) (diff, readWith string)
}

// compareWithin is how long an ask waits for the difference that people are to be shown with it.
const compareWithin = 2 * time.Second

// errUncompared rolls back a request that people are to be shown a difference with: it is looked for first.
var errUncompared = errors.New("approval: the difference is not known yet")

// isUncompared reports whether a difference is to be looked for before people are asked.
func (j *judged) isUncompared() bool {
	return j.verdict.Diff != nil && j.call.Differ != nil && j.call.Preview == ""
}

// comparisons have one of several equal calls look for the difference: they make one request, and its file is read
// once.
type comparisons struct {
	mu       sync.Mutex
	underWay map[Key]chan struct{} // each is closed when the call that looks is answered
}

// comparison is one call's part in them. The zero value has none.
type comparison struct {
	ctx    context.Context // ends when people wait no longer
	cancel context.CancelFunc
	key    Key
	ended  chan struct{} // nil: others look
}

// compare returns the call with its difference. Where an equal call looks already it returns it as it is, once that
// one is answered: there is a request to join then. Without a [Differ] people are asked whatever was found.
func (s *comparison) compare(ctx context.Context, g *Gate, j *judged) Call {
	if s.ctx == nil {
		s.ctx, s.cancel = context.WithTimeout(ctx, compareWithin)
	}
	c := j.call
	if other := g.comparisons.begin(s, j.key); other != nil {
		select {
		case <-other:
		case <-s.ctx.Done():
			c.Differ = nil
		}
		return c
	}
	c.Differ = nil
	if diff, readWith := j.call.Differ.Difference(s.ctx, *j.verdict.Diff); len(diff) <= MaxPreview && diff != "" {
		c.Preview, c.PreviewFrom = diff, readWith
	}
	return c
}

// begin makes s the one that looks for a key, or returns what is closed when the one that does is answered.
func (cs *comparisons) begin(s *comparison, k Key) (other <-chan struct{}) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if other := cs.underWay[k]; other != nil {
		return other
	}
	if cs.underWay == nil {
		cs.underWay = map[Key]chan struct{}{}
	}
	s.key, s.ended = k, make(chan struct{})
	cs.underWay[k] = s.ended
	return nil
}

// end lets those go on who wait for s.
func (cs *comparisons) end(s *comparison) {
	if s.cancel != nil {
		s.cancel()
	}
	if s.ended == nil {
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.underWay, s.key)
	close(s.ended)
}
