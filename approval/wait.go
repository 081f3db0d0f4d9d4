package approval

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"time"

	"countersign/approval/message"
)

// WaitOptions bound a waiting check.
type WaitOptions struct {
	For time.Duration
	// Request is the one that an earlier answer to this very call named, and that it goes on waiting for: no other is
	// made, however that one ended meanwhile. "": the one that the call makes or joins.
	Request string
	// Still is asked right before an approval is used: an error (the token was revoked meanwhile) is
	// returned instead, and the approval stays unused. nil: nothing to ask.
	Still func() error
	// Stop, once closed, ends the wait as if its time were up. nil: nothing does.
	Stop <-chan struct{}
}

// CheckWait is [Gate.Check] that, when the call must wait for a person, holds up to w.For until the
// request that this call made or joined ends; it never makes another. Where a person put other args in its place and
// the caller accepts edits, it holds until the request of those ends. An approval is used for the
// caller; if another caller was faster the outcome is denied with reason code already_used. When time
// is up the outcome is pending, in the words of the first answer. A w.Request that the agent did not ask for is
// [CodeNotFound], one of another call [CodeInvalidParameter].
func (g *Gate) CheckWait(ctx context.Context, c Call, o WaitOptions) (Answer, error) {
	a, err := newWaiter(ctx, g).waitsFor(&c, o.Request)
	if err == nil {
		a, err = g.Wait(ctx, &c, a, o)
	}
	return *a, err
}

// waiter is a caller who waits for a person, and what comes of it.
type waiter struct {
	*Gate
	ctx context.Context
}

func newWaiter(ctx context.Context, g *Gate) waiter { return waiter{g, ctx} }

// waitsFor answers a call that goes on waiting for the request with that id, as a call that joins it is answered.
func (w waiter) waitsFor(c *Call, id string) (*Answer, error) {
	if id == "" {
		a, err := w.Check(w.ctx, *c)
		return &a, err
	}
	if err := c.Validate(); err != nil {
		return new(Answer), err
	}
	r, err := w.Request(w.ctx, Actor{Kind: Agent, Name: c.Agent}, id)
	if err != nil {
		return new(Answer), err
	}
	is, err := w.isOf(c, r)
	if err == nil && !is {
		err = Errorf(CodeInvalidParameter, "Request %s belongs to another call.", r.ID)
	}
	if err != nil {
		return new(Answer), err
	}
	return &Answer{Kind: AnswerPending, Message: message.Pending(r.ID), Risk: r.Risk, Rule: r.Rule,
		ReasonCode: r.ReasonCode, Request: &r}, nil
}

// isOf reports whether r is the request of the call, or one with other args that a person put in its place. Under the
// policy of now the call may have another key than when it asked: then it is told by the very args.
func (w waiter) isOf(c *Call, r Request) (bool, error) {
	key := w.judge(w.ctx, w.Policy(), *c).key
	for {
		of := r.Key()
		if of.ArgsHash == key.ArgsHash || bytes.Equal(r.Args, c.Args.Canonical()) {
			of.ArgsHash = key.ArgsHash
			return of == key, nil
		}
		if !c.AcceptsEdits || r.Replaces == "" {
			return false, nil
		}
		before, err := w.read(r.Replaces)
		if err != nil {
			return false, err
		}
		r = *before
	}
}

// Wait is the second half of [Gate.CheckWait]: for a caller who was answered first already, and holds on
// now until the request of that answer ends. What waits for nobody is returned as it is.
// Thousands may wait, each with a stack that has twice the room of what lies there. So what is large is handed on by
// address here, and what comes of a wait is apart from it.
func (g *Gate) Wait(ctx context.Context, c *Call, first *Answer, o WaitOptions) (*Answer, error) {
	if first.Kind != AnswerPending || first.Request == nil || o.For <= 0 {
		return first, nil
	}
	over, stop := after(o.For)
	defer stop()
	ends := waitEnds{over: over, stop: o.Stop}
	if !c.AcceptsEdits { // else another request may be the one that is approved
		wake, cancel := g.broker.Approved(first.Request.ID)
		defer cancel()
		ends.approved = wake
	}
	w := newWaiter(ctx, g)
	for a := first; ; {
		r, approved, err := w.await(a.Request.ID, &ends)
		switch {
		case err != nil:
			return new(Answer), err
		case approved:
			ends.approved = nil // if something else became of it, or it could not be stored, it is looked at
			if out, err := w.useApproved(c, a.Request.ID, o.Still); out != nil || err != nil {
				return out, err
			}
		default:
			out, err := w.answerWaited(c, a, o.Still, r)
			if err != nil || out.Kind != AnswerPending || out.Request.ID == a.Request.ID {
				return out, err
			}
			a = out // other args wait for a person in its place
		}
	}
}

// after returns a channel that is closed once d is over; stop gives up what it takes.
func after(d time.Duration) (over <-chan struct{}, stop func()) {
	done := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(done) })
	return done, func() { timer.Stop() }
}

// answerWaited answers a caller whose wait is over.
func (w waiter) answerWaited(c *Call, first *Answer, still func() error, r *Request) (*Answer, error) {
	out, told := *first, r.ByWall(w.store)
	var err error
	switch {
	case r.Status == Approved && r.Live():
		out, err = w.useApproval(c, still, r)
	case r.Status == Pending:
		out.Request = &told
	case r.EndCode == EndEdited:
		out, err = w.followEdit(*c, r, still)
	case r.isOfGrant():
		out, err = w.waitedGranted(c, r, still)
	default:
		out = Ended(told)
	}
	return &out, err
}

// useApproval lets a caller who waited through with an approval: their own, or one of other args in its place.
func (w waiter) useApproval(c *Call, still func() error, r *Request) (Answer, error) {
	if !c.AcceptsEdits {
		return w.use(*c, r.ID, still)
	}
	was, err := w.editedOf(c, r)
	switch {
	case err != nil:
		return Answer{}, err
	case was != nil:
		return w.followEdit(*c, was, still)
	}
	return w.use(*c, r.ID, still)
}

// editedOf returns the request of a call in whose place r was approved, nil where r is the call's own.
func (w waiter) editedOf(c *Call, r *Request) (*Request, error) {
	key := w.judge(w.ctx, w.Policy(), *c).key
	if key == r.Key() {
		return nil, nil
	}
	for r.Replaces != "" {
		var err error
		if r, err = w.read(r.Replaces); err != nil {
			return nil, err
		}
		if r.Key() == key {
			return r, nil
		}
	}
	return nil, nil
}

// followEdit answers a caller who waited for a request that a person ended with an edit, or for the one in its place.
func (w waiter) followEdit(c Call, r *Request, still func() error) (Answer, error) {
	out, err := w.asJudged(c, "", still, func(w *Work, j judged) (Answer, error) {
		if err := checkAgent(w.g.dir, c.Agent); err != nil {
			return Answer{}, err
		}
		out := Answer{Risk: j.verdict.Risk, Rule: j.verdict.Rule, ReasonCode: j.verdict.ReasonCode}
		return w.edits().afterEdit(&j, r, out)
	})
	if err == nil && out.Kind == "" {
		return w.endedEdit(&c, r)
	}
	return out.byWall(w.store), err
}

// endedEdit tells a caller how it ended who waited for a request that was edited, of which nothing can be used any
// more: who would have run the new args, how those ended.
func (w waiter) endedEdit(c *Call, r *Request) (Answer, error) {
	for c.AcceptsEdits && r.EndCode == EndEdited {
		var err error
		if r, err = w.read(r.ReplacedBy); err != nil {
			return Answer{}, err
		}
	}
	return Ended(r.ByWall(w.store)), nil
}

// Ended tells a caller who waited for r how it ended; the outcome is pending if it has not, or is approved
// and may still be used.
func Ended(r Request) Answer {
	o := Answer{Risk: r.Risk, Rule: r.Rule, ReasonCode: cmp.Or(r.EndCode, r.ReasonCode), EndCode: r.EndCode, Request: &r,
		Message: r.FeedMessage()}
	switch {
	case r.Status == Denied:
		o.Kind, o.Message = AnswerDenied, message.Denied(r.WhoEnded(), r.ResolveReason)
	case r.Status == Expired:
		o.Kind = AnswerExpired
	case r.Status == Cancelled:
		o.Kind = AnswerCancelled
	case !r.LapsedAt.IsZero():
		o.Kind = AnswerLapsed
	case !r.ConsumedAt.IsZero():
		o.Kind, o.ReasonCode, o.Message = AnswerDenied, string(CodeAlreadyUsed),
			message.AlreadyUsed(r.WhoEnded(), FormatTime(r.ResolvedAt), FormatTime(r.ConsumedAt))
	default:
		o.Kind, o.Message = AnswerPending, message.Pending(r.ID)
	}
	return o
}

// use lets a caller who waited for an approval through, once: the caller, its token and the policy in
// force are looked at again first.
func (w waiter) use(c Call, id string, still func() error) (Answer, error) {
	return w.asJudged(c, id, still, func(w *Work, j judged) (Answer, error) { return w.useOnce(j, id) })
}

// useApproved is use right after the approval, or with the next commit after it, for who has not looked at the request
// since. nil: it is not approved, or not any more, or the store has no word on it: how it stands is to be read.
func (w waiter) useApproved(c *Call, id string, still func() error) (*Answer, error) {
	out, err := w.asJudged(*c, id, still, func(w *Work, j judged) (Answer, error) {
		out, _, err := w.tryUse(j, id)
		return out, err
	})
	if err == nil && out.Kind == "" || CodeOf(err) == CodeStoreUnavailable {
		return nil, nil
	}
	return &out, err
}

// asJudged runs fn in a write transaction with the call as the policy in force judges it, anew where that is replaced
// meanwhile. id is of the request that fn looks at, "" for none in particular. still is asked right before, where it is
// not nil: its error is returned instead.
func (w waiter) asJudged(c Call, id string, still func() error,
	fn func(w *Work, j judged) (Answer, error)) (Answer, error) {
	release, err := takeTurn(w.ctx, w.budgets, c)
	if err != nil {
		return Answer{}, err
	}
	defer release()
	for {
		in := w.policy.Load()
		j := w.judge(w.ctx, *in, c)
		if still != nil {
			if err := still(); err != nil {
				return Answer{}, err
			}
		}
		out, err := update(w.ctx, w.Gate, OfCallFor(j.key, id), func(w *Work) (Answer, error) {
			if w.g.policy.Load() != in {
				return Answer{}, errPolicyChanged
			}
			return fn(w, j)
		})
		if !errors.Is(err, errPolicyChanged) {
			return out, err
		}
	}
}

// lookAtClock is how often those who wait compare the clock with their deadline: a sleeping
// machine or a set clock must not let a timer outlive it.
const lookAtClock = time.Second

// waitEnds are what ends a wait before its request does.
type waitEnds struct {
	over, stop <-chan struct{} // closed then; nil: never
	approved   <-chan struct{} // delivers when the request is approved, or about to be; nil: it is read once it is
}

// await returns the request once it is no longer pending, or as it stands when the wait ends before that. Where ends
// says so, approved means that it was approved since it was read, or is about to be. Meanwhile it holds nothing of the
// request, which may be large.
func (w waiter) await(id string, ends *waitEnds) (r *Request, approved bool, err error) {
	wake, cancel := w.broker.Request(id)
	defer cancel()
	clock := time.NewTimer(0)
	defer clock.Stop()
	last := false
	for {
		r, err := w.read(id)
		if err != nil || r.Status != Pending || last {
			return r, false, err
		}
		due := r.ExpiresAt
		for waiting := true; waiting; {
			clock.Reset(min(lookAtClock, max(due.Sub(w.clock()), time.Millisecond)))
			select {
			case <-ends.approved:
				return nil, true, nil
			case <-wake: // of an approval too, which comes first
				select {
				case <-ends.approved:
					return nil, true, nil
				default:
					waiting = false
				}
			case <-clock.C:
				waiting = w.clock().Before(due)
			case <-ends.over:
				last, waiting = true, false
			case <-ends.stop:
				last, waiting = true, false
			case <-w.ctx.Done():
				return new(Request), false, w.ctx.Err()
			}
		}
	}
}

// read returns one request; if it is due it is ended first, through the writer.
func (w waiter) read(id string) (*Request, error) {
	type found struct {
		r   *Request
		due bool
	}
	f, err := Look(w.ctx, w.Gate, func(w *Work) (found, error) {
		w.tx.Ahead(func() {
			_, _ = w.tx.Request(id)
			_, _ = w.tx.Epoch("")
		})
		r, err := w.tx.Request(id)
		if err != nil {
			return found{r: &r}, err
		}
		over, err := w.Over(&r)
		return found{&r, over}, err
	})
	switch {
	case err != nil:
		return new(Request), err
	case !f.due:
		return f.r, nil
	}
	r, err := update(w.ctx, w.Gate, OfID(id), func(w *Work) (Request, error) { return w.Request(id) })
	return &r, err
}

// viewSteps is how many steps of what is due a read ends first. More has piled up only while the gate was down, and
// [Gate.Run] is at work on it.
const viewSteps = 16

// LookSettled is [Look] with nothing due left: if something is, it is ended first.
func LookSettled[T any](ctx context.Context, g *Gate, fn func(w *Work) (T, error)) (T, error) {
	type found struct {
		is  T
		due bool
	}
	for step := 0; ; step++ {
		f, err := Look(ctx, g, func(w *Work) (f found, err error) {
			hs, err := w.tx.Due(1)
			if err != nil {
				return f, err
			}
			if f.due = len(hs) > 0 && step < viewSteps; !f.due {
				f.is, err = fn(w)
			}
			return f, err
		})
		if err == nil && f.due {
			_, err = update(ctx, g, WholeStore(), func(w *Work) (struct{}, error) { // what is due is anybody's
				_, err := w.endSome()
				return struct{}{}, err
			})
		}
		if err != nil || !f.due {
			return f.is, err
		}
	}
}

// Request returns one request. An agent sees its own, a person any; else [CodeNotFound].
func (g *Gate) Request(ctx context.Context, who Actor, id string) (Request, error) {
	r, err := newWaiter(ctx, g).read(id)
	return visibleTo(who, r.ByWall(g.store), err)
}

// RequestHead is [Gate.Request] that reads the narrow part alone, and what came of it: what is large is not copied, and
// so it may be asked where no budget bounds how often.
func (g *Gate) RequestHead(ctx context.Context, who Actor, id string) (Head, error) {
	type found struct {
		Head
		due bool
	}
	f, err := Look(ctx, g, func(w *Work) (f found, err error) {
		if f.Head, err = w.tx.Head(id); err != nil {
			return f, err
		}
		if !f.ConsumedAt.IsZero() {
			f.DispatchedAt, f.RunResult, err = w.tx.Dispatched(id)
		}
		if err == nil {
			f.due, err = w.Over(&f.Request)
		}
		return f, err
	})
	h := f.Head
	if err == nil && f.due {
		h, err = update(ctx, g, OfID(id), func(w *Work) (Head, error) { return w.Head(id) })
	}
	h.Request, err = visibleTo(who, h.Request.ByWall(g.store), err)
	return h, err
}

// WaitRequest is [Gate.Request] that holds up to d until the request is no longer pending. It uses
// nothing up.
func (g *Gate) WaitRequest(ctx context.Context, who Actor, id string, d time.Duration) (Request, error) {
	r, err := g.Request(ctx, who, id)
	if err != nil || d <= 0 || r.Status != Pending {
		return r, err
	}
	over, stop := after(d)
	defer stop()
	ended, _, err := newWaiter(ctx, g).await(id, &waitEnds{over: over})
	return visibleTo(who, ended.ByWall(g.store), err)
}

func visibleTo(who Actor, r Request, err error) (Request, error) {
	if err == nil && who.Kind != Human && (who.Kind != Agent || who.Name != r.Agent) {
		err = ErrNotFound
	}
	if errors.Is(err, ErrNotFound) {
		return Request{}, Errorf(CodeNotFound, noSuchRequest)
	}
	if who.Kind == Agent && r.Status == Pending { // it is told at the end
		r.Votes = nil
	}
	return r, err
}

// ListBytes is about how many bytes of rows one list brings, the row with which it is reached included; the next
// page brings the others.
const ListBytes = 4 << 20

// maxFeed is how many endings one look at the feed brings; acknowledging them brings the next.
const maxFeed = 200

// Resolved returns the agent's endings that it has not acknowledged, oldest first, at most 200 and
// [ListBytes] of them; session other than "" narrows them to what that session asked for. With nothing there it holds
// up to wait for the first to come.
func (g *Gate) Resolved(ctx context.Context, agent, session string, wait time.Duration) (rs []Request, err error) {
	err = g.TellResolved(ctx, agent, session, wait, func(some []Request) error {
		rs = some
		return nil
	})
	return rs, err
}

// TellResolved is [Gate.Resolved] for who answers with the endings: tell is called once with them, on the agent's
// turn, so that no more than a few of its lists are in memory at a time. See [Gate.Turn].
func (g *Gate) TellResolved(ctx context.Context, agent, session string, wait time.Duration,
	tell func([]Request) error) error {
	var wake <-chan struct{}
	var over <-chan time.Time
	if wait > 0 {
		w, cancel := g.broker.Agent(agent)
		defer cancel()
		timer := time.NewTimer(wait)
		defer timer.Stop()
		wake, over = w, timer.C
	}
	for {
		release, err := g.Turn(ctx, Actor{Kind: Agent, Name: agent})
		if err != nil {
			return err
		}
		rs, err := LookSettled(ctx, g, func(w *Work) ([]Request, error) {
			return w.tx.Feed(agent, session, maxFeed, ListBytes)
		})
		if err == nil && (len(rs) > 0 || wait <= 0) {
			err = tell(allByWall(rs, g.store))
			release()
			return err
		}
		if release(); err != nil {
			return err
		}
		select {
		case <-wake: // Run ends what is due at its moment, so the wake comes for deadlines too
		case <-over:
			wait = 0
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Acked tells what [Gate.Ack] did with each id.
type Acked struct {
	Acked       []string
	NotResolved []string
	NotFound    []string
}

// MaxAck is how many ids [Gate.Ack] takes: several looks at the feed.
const MaxAck = 1000

// A write transaction does so much of a longer task and leaves the rest to the next one, so that what others
// want of the store comes in between: so many requests, and so many bytes of rows that are stored again.
const (
	stepRequests = 64
	stepBytes    = 4 << 20
	stepRows     = 500 // small ones, that only go
)

// Ack takes endings out of the agent's feed, in steps that others' work can come between. It is idempotent, and
// an id counts once however often it is there; more than [MaxAck] are refused with [CodeInvalidParameter].
func (g *Gate) Ack(ctx context.Context, agent string, ids []string) (Acked, error) {
	if len(ids) > MaxAck {
		return Acked{}, Errorf(CodeInvalidParameter, "At most %d ids are taken at once.", MaxAck)
	}
	var left []string
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		if !seen[id] {
			seen[id], left = true, append(left, id)
		}
	}
	var all Acked
	for len(left) > 0 {
		some, err := update(ctx, g, OfAgent(agent), func(w *Work) (Acked, error) { return w.ackSome(agent, left) })
		if err != nil {
			return all, err
		}
		all.Acked = append(all.Acked, some.Acked...)
		all.NotResolved = append(all.NotResolved, some.NotResolved...)
		all.NotFound = append(all.NotFound, some.NotFound...)
		left = left[len(some.Acked)+len(some.NotResolved)+len(some.NotFound):]
	}
	return all, nil
}

// ackSome takes as many of ids, from the first, as one transaction should.
func (w *Work) ackSome(agent string, ids []string) (a Acked, err error) {
	wide := 0
	for _, id := range ids[:min(len(ids), stepRequests)] {
		h, err := w.tx.Glance().Head(id) // it may be another's, and stays that
		if errors.Is(err, ErrNotFound) || err == nil && h.Agent != agent {
			a.NotFound = append(a.NotFound, id)
			continue
		}
		if err != nil {
			return a, err
		}
		if wide >= stepBytes {
			return a, nil
		}
		wide += h.Wide
		if h, err = w.settleHead(h); err != nil {
			return a, err
		}
		if h.Status == Pending {
			a.NotResolved = append(a.NotResolved, id)
			continue
		}
		a.Acked = append(a.Acked, id)
		ok, err := w.tx.Ack(agent, id)
		if err != nil {
			return a, err
		}
		if ok {
			e := requestEvent(h.Request, EventApprovalAcked)
			e.Actor = Actor{Kind: Agent, Name: agent}.String()
			if err := w.audit(e); err != nil {
				return a, err
			}
		}
	}
	return a, nil
}

// Run keeps deadlines to the moment: it ends what is due when it is due, so that whoever waits is told
// then. It returns when ctx ends. Without it, nothing is ever allowed that should not be; endings are
// only told later.
func (g *Gate) Run(ctx context.Context) {
	due, cancel := g.broker.Deadlines()
	defer cancel()
	frozen, cancelFrozen := g.broker.Freezes()
	defer cancelFrozen()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var next time.Time // zero: none
	look, sweep := true, true
	for {
		if sweep {
			_, err := g.EndFrozen(ctx)
			if sweep = err != nil && ctx.Err() == nil; sweep {
				g.log.ErrorContext(ctx, "not all requests that a freeze ends could be ended; trying again in a second",
					"error", err)
			}
		}
		if look {
			due.WaitFor(time.Time{})
			t, err := newUpkeep(ctx, g).endDue()
			if err != nil && ctx.Err() == nil {
				g.log.ErrorContext(ctx, "requests past their deadline could not be ended; trying again in a second", "error", err)
			}
			if look, next = err != nil, t; look {
				next = g.clock().Add(lookAtClock)
			}
		}
		if sweep && next.IsZero() {
			next = g.clock().Add(lookAtClock)
		}
		wait := lookAtClock
		due.WaitFor(next)
		if next.IsZero() {
			timer.Stop()
		} else {
			wait = min(wait, max(next.Sub(g.clock()), time.Millisecond))
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
			return
		case t := <-due.Earlier():
			if next.IsZero() || t.Before(next) {
				next = t
			}
		case <-frozen:
			sweep = true
		case <-timer.C:
			look = look || !g.clock().Before(next)
		}
	}
}

func (w upkeep) endDue() (next time.Time, err error) {
	if _, err := w.Expire(w.ctx); err != nil {
		return time.Time{}, err
	}
	return View(w.ctx, w.store, Tx.NextDeadline)
}
