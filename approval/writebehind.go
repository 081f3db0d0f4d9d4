package approval

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxWriteBehind is how many records of allowed calls may be under way at a time.
	maxWriteBehind = 1024
	// writeBehindStall is how long they may be under way with none arriving before no more are let ahead.
	writeBehindStall = 500 * time.Millisecond
	// recordFor is for how long a record is tried before it is given up.
	recordFor = 10 * time.Second
	// Between the tries of a record.
	firstPause, lastPause = 25 * time.Millisecond, 400 * time.Millisecond
)

// CheckWriteBehind is [Gate.Check] for a caller who sends an allowed call on itself. Where the store can take such a
// call's record without a transaction of its own ([EventRecorder]) it is on record by then. Else it is written while
// the call is on its way: the outcome comes at once with Committed set, and the caller must not pass on the call's
// answer before that has returned nil. The record is written whether or not anybody waits for it.
//
// Where that is not safe the record is written first, as by Check: for a rule with a strict audit, a tool
// that is not known yet or has changed, an agent that is frozen, too many records under way or none of them
// arriving, and above all after a commit has failed, until one succeeds: while the store cannot commit, nothing is
// allowed.
func (g *Gate) CheckWriteBehind(ctx context.Context, c Call) (Answer, error) {
	return g.checkOne(ctx, c, recordWriteBehind)
}

// recording is how an allowed call is put on record that needs no transaction.
type recording int

const (
	recordFirst       recording = iota // before it is answered
	recordWriteBehind                  // or else while it is on its way
)

// atOnce answers a call without a transaction, if it is one that the policy allows and that can be put on record so; ok
// is false for any other. in is the policy that has judged it.
func (g *Gate) atOnce(ctx context.Context, in *Policy, j *judged, how recording) (out Answer, ok bool, err error) {
	v := &j.verdict
	allows := v.Observe || v.Action == Allow
	if j.call.ReadFor != "" && (v.Observe || !allows) {
		return Answer{Kind: AnswerDenied, Message: policyDeniedMessage(*v), Risk: v.Risk, Rule: v.Rule,
			ReasonCode: v.ReasonCode}, true, g.known(j.call.Agent)
	}
	if !allows || v.Strict || ctx.Err() != nil || !g.toolIsKnown(j.call, *in) {
		return Answer{}, false, nil
	}
	if err := g.known(j.call.Agent); err != nil {
		return Answer{}, false, err
	}
	changes := g.freezes.count()
	if frozen, err := g.isFrozen(ctx, j.call.Agent); err != nil || frozen {
		return Answer{}, false, err
	}
	if g.policy.Load() != in {
		return Answer{}, false, nil
	}
	out = Answer{Kind: AnswerAllow, Message: allowedMessage, Risk: v.Risk, Rule: v.Rule, ReasonCode: v.ReasonCode}
	e := g.records.prepared(ctx, j.event(EventCallAllowed, string(Allow), v.ReasonCode))
	ok = g.freezes.unchanged(changes, func() bool { // else a transaction tells whether the agent is frozen
		switch {
		case g.recordNow(e):
		case how == recordWriteBehind && g.writeBehind.begin(g.passing()):
			out.Committed = g.record(&record{ctx: context.WithoutCancel(ctx), event: e})
		default:
			return false
		}
		return true
	})
	if !ok {
		return Answer{}, false, nil
	}
	return out, true, nil
}

// toolIsKnown reports whether the call's tool raises no question that only a transaction can answer.
func (g *Gate) toolIsKnown(c Call, p Policy) bool {
	if c.ToolDigest == "" {
		return true
	}
	pin, ok := g.pins.get(c.pinOwner(), c.Server, c.Tool)
	return ok && pin.holds(c.ToolDigest) && (pin.AcceptedBy == "" || !pin.justAccepted(g.clock(), p.Terms()))
}

// record is the record of an allowed call on its way to the store.
type record struct {
	ctx      context.Context // for the log
	event    Event           // as it is written
	appended Event           // as it was appended last, in a transaction that may have been lost; for transactions alone
	done     chan struct{}   // closed when failure is set
	failure  error
}

// put appends the record's event, unless it is there: a freeze that came meanwhile puts it before its own. Whether it
// is there cannot be found out while records alone are written.
func (r *record) put(tx Tx) (err error) {
	if r.appended.Seq > 0 {
		es, err := tx.Glance().Events(EventQuery{AfterSeq: r.appended.Seq - 1, Ascending: true, Limit: 1})
		if err != nil || len(es) == 1 && es[0].ID == r.appended.ID {
			return err
		}
	}
	r.appended, err = tx.Append(r.event)
	return err
}

// recordNow puts an event where the death of the process cannot reach it, without a transaction, and reports false
// where that cannot be or is not safe.
func (g *Gate) recordNow(e Event) bool {
	s, ok := g.store.(EventRecorder)
	return ok && g.writeBehind.keepsUp() && s.RecordEvent(e)
}

// record has the record of an allowed call written in the background, and returns what waits for it. The
// caller has begun with g.writeBehind.
func (g *Gate) record(r *record) func(context.Context) error {
	r.done = make(chan struct{})
	if g.writeBehind.queue(r) {
		go g.writeRecords()
	}
	return func(ctx context.Context) error {
		select {
		case <-r.done:
			return r.failure
		case <-ctx.Done():
			return &Error{Code: CodeStoreUnavailable, Message: "The call's record is not written yet.", Err: ctx.Err()}
		}
	}
}

// writeRecords writes what waits, in groups, until nothing does.
func (g *Gate) writeRecords() {
	for g.written(g.writeBehind.take()) {
	}
}

// written writes records and tells those who wait what has become of them. It reports whether others wait meanwhile.
func (g *Gate) written(rs []*record) (more bool) {
	failures := g.writeGroup(rs)
	for i, r := range rs {
		r.failure = failures[i]
		close(r.done)
	}
	return g.writeBehind.end(g.passing(), failures)
}

// writeGroup writes the records in one transaction, or each by itself if they do not go together.
func (g *Gate) writeGroup(rs []*record) []error {
	failures := make([]error, len(rs))
	err := g.appendAll(rs)
	for i := range rs {
		failures[i] = err
		if err != nil && len(rs) > 1 && CodeOf(err) != CodeStoreUnavailable {
			failures[i] = g.appendAll(rs[i : i+1])
		}
		if failures[i] != nil {
			g.log.ErrorContext(rs[i].ctx, "an allowed call was sent to its server, but could not be put on record",
				"agent", rs[i].event.Agent, "tool", rs[i].event.Tool, "error", failures[i])
		}
	}
	return failures
}

// appendAll appends the records' events, again and again while the store is unavailable, but not for ever.
func (g *Gate) appendAll(rs []*record) error {
	began, pause := time.Now(), firstPause
	write := g.store.Record
	for {
		err := write(rs[0].ctx, func(tx Tx) error {
			for _, r := range rs {
				if err := r.put(tx); err != nil {
					return err
				}
			}
			return nil
		})
		if errors.Is(err, ErrRecordOnly) { // some may be there
			write = func(ctx context.Context, fn func(Tx) error) error { return g.store.Update(ctx, OfNothing(), fn) }
			continue
		}
		if CodeOf(err) != CodeStoreUnavailable || errors.Is(err, ErrClosed) || time.Since(began) >= recordFor {
			return err
		}
		time.Sleep(pause)
		pause = min(2*pause, lastPause)
	}
}

// Flush waits until no record of an allowed call is under way. Before the store is closed, once no more
// calls come in, it sees to it that none is lost.
func (g *Gate) Flush(ctx context.Context) error {
	select {
	case <-g.writeBehind.whenIdle():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writeBehind counts the records of allowed calls that are under way, and knows whether the store keeps up.
type writeBehind struct {
	mu       sync.Mutex
	underWay int
	moved    time.Time // when one arrived last, or the first of these began
	failed   bool      // the last commit that we know of
	failings int       // how many did
	idle     []chan struct{}

	waiting []*record
	group   []*record // that are being written
	writing bool      // somebody writes what waits
}

// maxGroup is how many records go into one transaction.
const maxGroup = 128

// queue adds a record to those that wait; it reports whether the caller must see to it that they are written.
func (a *writeBehind) queue(r *record) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, r)
	first := !a.writing
	a.writing = true
	return first
}

// take returns the records of the next group, of which there are some.
func (a *writeBehind) take() []*record {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.waiting), maxGroup)
	rs := a.waiting[:n:n]
	a.group = rs
	if a.waiting = a.waiting[n:]; len(a.waiting) == 0 {
		a.waiting = nil
	}
	return rs
}

// unfinished returns the records of an agent that may not be written yet, those of all for "".
func (a *writeBehind) unfinished(agent string) (rs []*record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range slices.Concat(a.group, a.waiting) {
		if agent == "" || r.event.Agent == agent {
			rs = append(rs, r)
		}
	}
	return rs
}

// keepsUp reports whether the store commits, as far as is known.
func (a *writeBehind) keepsUp() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.failed
}

// begin reports whether one more may be under way, and counts it.
func (a *writeBehind) begin(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed || a.underWay >= maxWriteBehind || a.underWay > 0 && now.Sub(a.moved) > writeBehindStall {
		return false
	}
	if a.underWay == 0 {
		a.moved = now
	}
	a.underWay++
	return true
}

// end counts what has become of a group. It reports whether more wait to be written; if not, nobody writes any more.
func (a *writeBehind) end(now time.Time, failures []error) (more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.underWay -= len(failures)
	a.group = nil
	for _, failure := range failures {
		if a.failed = failure != nil; a.failed {
			a.failings++
		} else {
			a.moved = now
		}
	}
	if a.underWay == 0 {
		for _, ch := range a.idle {
			close(ch)
		}
		a.idle = nil
	}
	a.writing = len(a.waiting) > 0
	return a.writing
}

func (a *writeBehind) fail() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = true
	a.failings++
}

// failures returns how many commits have failed.
func (a *writeBehind) failures() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failings
}

// succeed is told of a commit that was begun when there had been so many failures: of a later one it says nothing.
func (a *writeBehind) succeed(failures int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failings == failures {
		a.failed = false
	}
}

func (a *writeBehind) whenIdle() <-chan struct{} {
	ch := make(chan struct{})
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.underWay == 0 {
		close(ch)
	} else {
		a.idle = append(a.idle, ch)
	}
	return ch
}

// NotedStore is a store that says when it could not commit, whoever wrote: from then on no record is written behind
// its call. Whatever writes beside the gate writes through the same one. That a store could commit is not said: an
// update that wrote nothing shows nothing.
type NotedStore struct {
	Store
	failed atomic.Pointer[func()] // of the gate, once there is one
}

// NoteFailures returns s as a store whose failures its gate learns of.
func NoteFailures(s Store) *NotedStore { return &NotedStore{Store: s} }

// Update is [Store.Update].
func (s *NotedStore) Update(ctx context.Context, about Scope, fn func(Tx) error) error {
	return s.noted(ctx, s.Store.Update(ctx, about, fn))
}

// Record is [Store.Record].
func (s *NotedStore) Record(ctx context.Context, fn func(Tx) error) error {
	return s.noted(ctx, s.Store.Record(ctx, fn))
}

// RecordEvent is that of the store behind it, if it is an [EventRecorder].
func (s *NotedStore) RecordEvent(e Event) bool {
	r, ok := s.Store.(EventRecorder)
	return ok && r.RecordEvent(e)
}

func (s *NotedStore) noted(ctx context.Context, err error) error {
	if failed := s.failed.Load(); failed != nil && CodeOf(err) == CodeStoreUnavailable && ctx.Err() == nil {
		(*failed)()
	}
	return err
}
