package budget

import (
	"time"

	"countersign/approval"
)

// Used is what an agent has used of requests and pushes: of each, when all of it is free again, in nanoseconds since
// 1970 of the store's time.
type Used struct {
	Requests, Pushes, Out int64  // Out: of pushes that go out
	RequestRate, PushRate string // the rates that were in force then
}

// Rows are where a transaction keeps what agents have used. What fails in them makes the transaction fail.
type Rows interface {
	Used(agent string) Used // the zero Used: nothing
	PutUsed(agent string, u Used)
}

// RowsOf are the rows of a transaction.
type RowsOf func(tx approval.Tx) Rows

// spending is what an agent uses in one transaction.
type spending struct {
	requests, pushes, out *bucket
	now                   time.Duration // by the clock of these
	keep                  func()
}

// spending returns what an agent has used, to use more in a transaction.
func (a *Account) spending(tx approval.Tx, l *Limits) spending {
	if a.r.o.Rows == nil {
		return spending{&a.buckets[index(Requests)], &a.buckets[index(Pushes)], &a.out, a.r.now(), func() {}}
	}
	rows := a.r.o.Rows(tx)
	u, now := rows.Used(a.who.Name), time.Duration(tx.Now().UnixNano())
	s := spending{new(bucket), new(bucket), new(bucket), now, nil}
	requests, pushes := l.rate(Requests), l.rate(Pushes)
	s.requests.free.Store(convert(u.Requests, now, u.RequestRate, requests))
	s.pushes.free.Store(convert(u.Pushes, now, u.PushRate, pushes))
	s.out.free.Store(convert(u.Out, now, u.PushRate, pushes))
	s.keep = func() {
		next := u
		if requests.Count > 0 { // else nothing was used of it here, and another program may have a rate for it
			next.Requests, next.RequestRate = s.requests.free.Load(), requests.String()
		}
		if pushes.Count > 0 {
			next.Pushes, next.Out, next.PushRate = s.pushes.free.Load(), s.out.free.Load(), pushes.String()
		}
		if next != u {
			rows.PutUsed(a.who.Name, next)
		}
	}
	return s
}

// convert returns when as much is free again as at free, where another rate is in force than then.
func convert(free int64, now time.Duration, rate string, to allowance) int64 {
	if rate == to.String() {
		return free
	}
	was, err := ParseRate(rate)
	if err != nil || was.Count == 0 || to.Count == 0 { // nothing was owed, or nothing is
		return 0
	}
	owed := float64(max(time.Duration(free)-now, 0)) / float64(was.Per) * float64(was.Count)
	return int64(now + time.Duration(min(owed/float64(to.Count)*float64(to.Per), float64(to.window()+mostQueued))))
}

// Take implements [approval.Budgets].
func (r *Registry) Take(tx approval.Tx, agent string, requests, pushes int) error {
	a := r.Agent(agent)
	if a == nil {
		return nil
	}
	l := a.limits.Load()
	s, of, out := a.spending(tx, l), l.rate(Requests), l.rate(Pushes)
	if wait, ok := s.requests.take(of, s.now, int64(requests)); !ok {
		return a.refuse(Requests, of.words(Requests), of.of(Requests), wait)
	}
	wait, ok := s.pushes.take(out, s.now, int64(pushes))
	if ok { // these go out at once
		if wait, ok = s.out.take(out, s.now, int64(pushes)); !ok {
			s.pushes.give(out, int64(pushes))
		}
	}
	if !ok {
		s.requests.give(of, int64(requests))
		return a.refuse(Pushes, out.words(Pushes), out.of(Pushes), wait)
	}
	s.keep()
	return nil
}

// Push implements [approval.Budgets].
func (r *Registry) Push(tx approval.Tx, agent string, n approval.Pushes) (wait time.Duration) {
	a := r.Agent(agent)
	if a == nil {
		return 0
	}
	l := a.limits.Load()
	s, of := a.spending(tx, l), l.rate(Pushes)
	asked := s.pushes.queue(of, s.now, int64(n.Asked))
	if wait = max(asked, s.out.queue(of, s.now, int64(n.Out))); wait > 0 {
		_ = a.refuse(Pushes, of.words(Pushes), of.of(Pushes), wait) // it is told, and nothing is refused
	}
	s.keep()
	return wait
}

// Fit implements [approval.Budgets].
func (r *Registry) Fit(tx approval.Tx, agent string) {
	a := r.Agent(agent)
	if a == nil {
		return
	}
	l := a.limits.Load()
	s := a.spending(tx, l)
	s.requests.fit(l.rate(Requests), s.now)
	s.pushes.fit(l.rate(Pushes), s.now)
	s.out.fit(l.rate(Pushes), s.now)
	s.keep()
}

// Give implements [approval.Budgets].
func (r *Registry) Give(tx approval.Tx, agent string, requests int, pushes approval.Pushes) {
	a := r.Agent(agent)
	if a == nil || tx == nil && r.o.Rows != nil { // the rows went with the transaction
		return
	}
	l := a.limits.Load()
	s, of := a.spending(tx, l), l.rate(Pushes)
	s.requests.give(l.rate(Requests), int64(requests))
	s.pushes.give(of, int64(pushes.Asked))
	s.out.give(of, int64(pushes.Out))
	s.keep()
}
