package approval

import (
	"context"
	"errors"
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

// CheckWriteBehind is [Gate.Check] for a caller who sends an allowed call on itself. Such a call's record is
// written while the call is on its way: the outcome comes at once with Committed set, and the caller
// must not pass on the call's answer before that has returned nil. The record is written whether or not
// anybody waits for it.
//
// Where that is not safe the record is written first, as by Check: for a rule with a strict audit, a tool
// that is not known yet or has changed, an agent that is frozen, too many records under way or none of them
// arriving, and above all after a commit has failed, until one succeeds: while the store cannot commit, nothing is
// allowed.
func (g *Gate) CheckWriteBehind(ctx context.Context, c Call) (Answer, error) {
	if err := c.Validate(); err != nil {
		return Answer{}, err
	}
	if err := g.known(c.Agent); err != nil {
		return Answer{}, err
	}
	release, err := g.turn(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	frozen, err := g.isFrozen(ctx, c.Agent)
	if err != nil {
		release()
		return Answer{}, err
	}
	p := g.Policy()
	v := p.Evaluate(ctx, c)
	release()
	if c.ReadFor != "" && (v.Observe || v.Action != Allow) {
		return Answer{Kind: AnswerDenied, Message: policyDeniedMessage(v), Risk: v.Risk, Rule: v.Rule,
			ReasonCode: v.ReasonCode}, nil
	}
	if (v.Observe || v.Action == Allow) && !v.Strict && !frozen && ctx.Err() == nil && g.toolIsKnown(c, p) &&
		g.writeBehind.begin(g.passing()) {
		return Answer{Kind: AnswerAllow, Message: allowedMessage, Risk: v.Risk, Rule: v.Rule, ReasonCode: v.ReasonCode,
			Committed: g.record(ctx, c, v)}, nil
	}
	out, err := g.Check(ctx, c)
	if err == nil && out.Kind == AnswerAllow {
		g.writeBehind.succeed()
	}
	return out, err
}

// toolIsKnown reports whether the call's tool raises no question that only a transaction can answer.
func (g *Gate) toolIsKnown(c Call, p Policy) bool {
	if c.ToolDigest == "" {
		return true
	}
	pin, ok := g.pins.get(c.pinOwner(), c.Server, c.Tool)
	return ok && pin.Digest == c.ToolDigest && (pin.AcceptedBy == "" || !pin.justAccepted(g.clock(), p.Terms()))
}

// record is the record of an allowed call on its way to the store.
type record struct {
	ctx     context.Context // for its correlation id
	call    Call
	verdict Verdict
	done    chan struct{} // closed when failure is set
	failure error

	taken, awaited bool // it is in a group; its caller waits for it. Both belong to writeBehind.
}

// record has the record of an allowed call written in the background, and returns what waits for it. The
// caller has begun with g.writeBehind.
func (g *Gate) record(ctx context.Context, c Call, v Verdict) func(context.Context) error {
	r := &record{ctx: context.WithoutCancel(ctx), call: c, verdict: v, done: make(chan struct{})}
	if g.writeBehind.queue(r) {
		g.beginWriting()
	}
	return func(ctx context.Context) error {
		select {
		case <-r.done:
			return r.failure
		default:
		}
		g.writeBehind.await(r)
		select {
		case <-r.done:
			return r.failure
		case <-ctx.Done():
			return &Error{Code: CodeStoreUnavailable, Message: "The call's record is not written yet.", Err: ctx.Err()}
		}
	}
}

// A commit costs nearly the same for one record as for ten, so that those of calls that are under way together are
// written together.
const (
	// groupPace is how far apart groups of records are while nobody waits for one.
	groupPace = 10 * time.Millisecond
	// joinWithin is for how long a record that somebody waits for lets those of other calls join it, whose callers do
	// not wait yet.
	joinWithin = time.Millisecond
	// aloneAfter is how long after two calls were under way at once the next is taken to be alone.
	aloneAfter = 20 * time.Millisecond
)

// beginWriting has what waits written. Where nothing is to join it, the store is given it at once: a goroutine in
// between costs as much as the record.
func (g *Gate) beginWriting() {
	rs := g.writeBehind.takeNow()
	if rs == nil || !g.recordSoon(rs) {
		go g.writeRecords(rs)
	}
}

// recordSoon gives the records to the store, and reports false where it does not take them.
func (g *Gate) recordSoon(rs []*record) bool {
	s, ok := g.store.(SoonRecorder)
	return ok && s.RecordSoon(func(tx Tx) error {
		for _, r := range rs {
			if err := g.audit(r.ctx, tx, g.recordEvent(r)); err != nil {
				return err
			}
		}
		return nil
	}, func(err error) {
		if err != nil {
			go g.writeRecords(rs) // once more, with the patience that the store's writer must not have
			return
		}
		if g.written(rs, make([]error, len(rs))) {
			go g.writeRecords(nil)
		}
	})
}

// writeRecords writes records in groups, of which rs is the first, until there are none.
func (g *Gate) writeRecords(rs []*record) {
	if rs == nil {
		rs = g.writeBehind.take()
	}
	for rs != nil && g.written(rs, g.writeGroup(rs)) {
		rs = g.writeBehind.take()
	}
}

// written tells those who wait what has become of their records. It reports whether others wait to be written, by
// whoever has written these.
func (g *Gate) written(rs []*record, failures []error) bool {
	for i, r := range rs {
		r.failure = failures[i]
		close(r.done)
	}
	return g.writeBehind.end(g.passing(), failures)
}

// recordEvent is the audit event of an allowed call.
func (g *Gate) recordEvent(r *record) Event {
	j := judged{call: r.call, verdict: r.verdict, key: Key{r.call.Agent, r.call.Scope, r.call.Server, r.call.Tool,
		r.call.Args.Hash(r.verdict.IgnoreArgs...)}}
	j.data = g.callData(j)
	return j.event(EventCallAllowed, string(Allow), r.verdict.ReasonCode)
}

// writeGroup writes the records in one transaction, or each by itself if they do not go together.
func (g *Gate) writeGroup(rs []*record) []error {
	failures := make([]error, len(rs))
	es := make([]Event, len(rs))
	for i, r := range rs {
		es[i] = g.recordEvent(r)
	}
	err := g.appendAll(rs, es)
	for i := range rs {
		failures[i] = err
		if err != nil && len(rs) > 1 && CodeOf(err) != CodeStoreUnavailable {
			failures[i] = g.appendAll(rs[i:i+1], es[i:i+1])
		}
		if failures[i] != nil {
			g.log.ErrorContext(rs[i].ctx, "an allowed call was sent to its server, but could not be put on record",
				"agent", es[i].Agent,
				"tool", es[i].Tool, "error", failures[i])
		}
	}
	return failures
}

// appendAll appends the records' events, again and again while the store is unavailable, but not for ever.
func (g *Gate) appendAll(rs []*record, es []Event) error {
	began, pause := time.Now(), firstPause
	for {
		err := g.store.Record(rs[0].ctx, func(tx Tx) error {
			for i, r := range rs {
				if err := g.audit(r.ctx, tx, es[i]); err != nil {
					return err
				}
			}
			return nil
		})
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
	together time.Time // when there was last more than one
	failed   bool      // the last commit that we know of
	idle     []chan struct{}

	waiting   []*record
	writing   bool          // somebody writes what waits
	awaited   int           // of what waits, how many have a caller who waits
	since     time.Time     // when the first of these began to
	last      time.Time     // when a group was taken last
	gathering *time.Timer   // of who writes, while it lets records gather; nil: it does not
	early     chan struct{} // ends that
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
	if len(a.waiting) == maxGroup {
		a.wake()
	}
	return first
}

// await says that the record's caller waits for it.
func (a *writeBehind) await(r *record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.taken || r.awaited {
		return
	}
	r.awaited = true
	if a.awaited++; a.awaited == 1 {
		a.since = time.Now()
	}
	switch {
	case a.gathering == nil:
	case a.awaited == len(a.waiting):
		a.wake()
	case a.awaited == 1:
		a.gathering.Reset(joinWithin)
	}
}

// wake ends the gathering, if there is one.
func (a *writeBehind) wake() {
	if a.gathering != nil {
		a.gathering = nil
		a.early <- struct{}{}
	}
}

// pause is for how long more records may gather: not at all where everybody waits who has one, or where calls come one
// by one and the record is best written while its call is under way.
func (a *writeBehind) pause(now time.Time) time.Duration {
	switch {
	case a.awaited == len(a.waiting) || len(a.waiting) >= maxGroup || now.Sub(a.together) > aloneAfter:
		return 0
	case a.awaited > 0:
		return joinWithin - now.Sub(a.since)
	}
	return groupPace - now.Sub(a.last)
}

// take returns the records to be written next, of which there are some. It lets more gather for a moment first.
func (a *writeBehind) take() []*record {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d := a.pause(time.Now()); d > 0 {
		a.gather(d)
	}
	return a.next()
}

// takeNow is take where none are to gather, else nil.
func (a *writeBehind) takeNow() []*record {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pause(time.Now()) > 0 {
		return nil
	}
	return a.next()
}

// next takes the records of the next group; a.mu is held.
func (a *writeBehind) next() []*record {
	n := min(len(a.waiting), maxGroup)
	rs := a.waiting[:n:n]
	if a.waiting = a.waiting[n:]; len(a.waiting) == 0 {
		a.waiting = nil
	}
	for _, r := range rs {
		if r.taken = true; r.awaited {
			a.awaited--
		}
	}
	a.last = time.Now()
	return rs
}

// gather waits for d, or until it is woken; a.mu is held before and after, and not meanwhile.
func (a *writeBehind) gather(d time.Duration) {
	if a.early == nil {
		a.early = make(chan struct{}, 1)
	}
	timer := time.NewTimer(d)
	a.gathering = timer
	a.mu.Unlock()
	select {
	case <-a.early:
	case <-timer.C:
	}
	timer.Stop()
	a.mu.Lock()
	if a.gathering == nil { // it was woken, if only just after the time was over
		select {
		case <-a.early:
		default:
		}
	}
	a.gathering = nil
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
	if a.underWay++; a.underWay > 1 {
		a.together = time.Now()
	}
	return true
}

// end counts what has become of a group. It reports whether more wait to be written; if not, nobody writes any more.
func (a *writeBehind) end(now time.Time, failures []error) (more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.underWay -= len(failures)
	for _, failure := range failures {
		if a.failed = failure != nil; !a.failed {
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
}

func (a *writeBehind) succeed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = false
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
func (s *NotedStore) Update(ctx context.Context, fn func(Tx) error) error {
	return s.noted(ctx, s.Store.Update(ctx, fn))
}

// Record is [Store.Record].
func (s *NotedStore) Record(ctx context.Context, fn func(Tx) error) error {
	return s.noted(ctx, s.Store.Record(ctx, fn))
}

// RecordSoon is that of the store behind it, if it is a [SoonRecorder].
func (s *NotedStore) RecordSoon(fn func(Tx) error, done func(error)) bool {
	soon, ok := s.Store.(SoonRecorder)
	return ok && soon.RecordSoon(fn, func(err error) { done(s.noted(context.Background(), err)) })
}

func (s *NotedStore) noted(ctx context.Context, err error) error {
	if failed := s.failed.Load(); failed != nil && CodeOf(err) == CodeStoreUnavailable && ctx.Err() == nil {
		(*failed)()
	}
	return err
}
