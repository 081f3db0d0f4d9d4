package history

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"countersign/approval"
)

// stream is one kind of what is counted, of which the newest is read first.
type stream struct {
	// read is the next step. Nothing is left of when it ends, or later; where that is the beginning, nothing at all.
	read  func(tx approval.Tx) (rows []row, ends time.Time, err error)
	ended time.Time // when the last step did
}

// row is one of them.
type row struct {
	at    time.Time
	count func()
}

// read counts step by step, always of the kind of which the newest is left, what nothing newer is left of. So it can
// end between two steps, and has counted all from then on. It returns when that is, and where to go on, if anywhere.
func (s *survey) read(ctx context.Context) (since, next time.Time, err error) {
	streams := []*stream{s.requests(), s.votes(), s.grants(), s.pushes()}
	for _, st := range streams {
		st.ended = s.until
	}
	newest := func() *stream {
		return slices.MaxFunc(streams, func(a, b *stream) int { return a.ended.Compare(b.ended) })
	}
	var held []row
	for st := newest(); st.ended.After(s.since); {
		rows, err := s.step(ctx, st)
		if err != nil {
			return since, next, err
		}
		st = newest()
		border, from := s.border(st.ended)
		held = slices.DeleteFunc(append(held, rows...), func(r row) bool {
			if r.at.Before(from) {
				return false
			}
			r.count()
			return true
		})
		if s.Enough != nil && st.ended.After(s.since) && from.Before(s.until) && s.Enough() {
			return border, border, nil
		}
	}
	for _, r := range held {
		r.count()
	}
	return s.Since, next, nil
}

// border is the first millisecond of the machine's clock, in which times are told, that is not before a time of the
// store's, and when that is by the store's.
func (s *survey) border(at time.Time) (wall, from time.Time) {
	wall = millisecond(s.r.ToWall(at))
	return wall, s.r.FromWall(wall)
}

// step reads one in a transaction of its own.
func (s *survey) step(ctx context.Context, st *stream) (rows []row, err error) {
	err = s.Step(ctx, func(ctx context.Context) error {
		return s.r.View(ctx, func(tx approval.Tx) (err error) {
			rows, st.ended, err = st.read(tx)
			return err
		})
	})
	return rows, err
}

func (s *survey) requests() *stream {
	q := approval.RequestQuery{Since: s.since, After: before(s.until), Limit: s.stepRows, Figures: true}
	return &stream{read: func(tx approval.Tx) (rows []row, ends time.Time, err error) {
		heads, err := tx.Heads(q)
		if err != nil {
			return nil, ends, err
		}
		for i := range heads {
			r := &heads[i].Request
			q.After = r.ID
			if !s.in(r.RequestedAt, r.Agent) {
				continue
			}
			if err := s.countsLater(tx, r); err != nil {
				return nil, ends, err
			}
			rows = append(rows, row{r.RequestedAt, func() { s.request(r) }})
		}
		ends, err = s.ends(len(heads), q.After)
		return rows, ends, err
	}}
}

func (s *survey) pushes() *stream {
	after := before(s.until)
	return &stream{read: func(tx approval.Tx) (rows []row, ends time.Time, err error) {
		pushes, err := tx.Pushes(s.since, after, s.stepRows)
		if err != nil {
			return nil, ends, err
		}
		for i := range pushes {
			p := &pushes[i]
			after = p.ID
			if p.Of.Agent != "" && s.in(p.CreatedAt, p.Of.Agent) {
				rows = append(rows, row{p.CreatedAt, func() { s.push(p) }})
			}
		}
		ends, err = s.ends(len(pushes), after)
		return rows, ends, err
	}}
}

// idAhead is how much later than its row's the time in an id may be, as the store has it.
const idAhead = time.Millisecond

// before is an id that follows those of before a time.
func before(t time.Time) string {
	var id ulid.ULID
	_ = id.SetTime(ulid.Timestamp(t.Add(time.Millisecond + idAhead))) // fails after the year 10889
	return id.String()
}

// ends is when a step of so many rows does of which one with this id was the last. Rows that follow have smaller ids,
// and the time in an id is not before its row's.
func (s *survey) ends(rows int, last string) (time.Time, error) {
	if rows < s.stepRows {
		return s.since, nil
	}
	id, err := ulid.ParseStrict(last)
	if err != nil {
		return time.Time{}, err
	}
	return ulid.Time(id.Time()).UTC().Add(time.Millisecond), nil
}

// votes are those that were not the last: the last is the decision.
func (s *survey) votes() *stream {
	return s.events(approval.EventVote, func(r *approval.Request, e *approval.Event) {
		s.countPress(r, e.Actor, e.At)
	})
}

func (s *survey) grants() *stream {
	return s.events(approval.EventGrantUsed, func(r *approval.Request, e *approval.Event) {
		if e.Decision != "deny" { // a standing denial
			s.of(r, func(c *tally) { c.Granted++ })
		}
	})
}

// events are those of a type, with the requests that they are of.
func (s *survey) events(t approval.EventType, count func(r *approval.Request, e *approval.Event)) *stream {
	q := approval.EventQuery{Type: t, Since: s.since, Until: s.until, Limit: s.stepRows}
	return &stream{read: func(tx approval.Tx) (rows []row, ends time.Time, err error) {
		events, err := tx.Events(q)
		if err != nil {
			return nil, ends, err
		}
		ends = s.since
		for i := range events {
			e := &events[i]
			if q.Before = e.Seq; len(events) == s.stepRows {
				ends = e.At.Add(time.Millisecond) // more of the same instant may follow
			}
			if !s.in(e.At, e.Agent) {
				continue
			}
			r, err := s.lookUp(tx, e.ApprovalID)
			if errors.Is(err, approval.ErrNotFound) { // it was removed since: the audit log stays
				continue
			}
			if err != nil {
				return nil, ends, err
			}
			rows = append(rows, row{e.At, func() { count(r, e) }})
		}
		return rows, ends, nil
	}}
}

// lookUp returns what figures are made of in a request, [approval.ErrNotFound] where it was removed. What is asked for
// again soon is kept.
func (s *survey) lookUp(tx approval.Requests, id string) (*approval.Request, error) {
	if r := s.known[id]; r != nil {
		return r, nil
	}
	heads, err := tx.Heads(approval.RequestQuery{From: id, After: id + "~", Figures: true}) // from it to it
	if err == nil && len(heads) == 0 {
		err = approval.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if len(s.known) >= s.stepRows {
		clear(s.known)
	}
	s.known[id] = &heads[0].Request
	return s.known[id], nil
}
