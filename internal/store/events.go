package store

import (
	"countersign/approval"
	"errors"
	"time"
)

// InsertEvent stores an event to which its engine has given Seq, ID and At.
func (t events) InsertEvent(e *approval.Event) error {
	s := t.write(appendEvent)
	if s.err != nil {
		return s.err
	}
	row := &t.Room().event
	*row = *e
	err := eventColumns.bind(s, row).put()
	*row = approval.Event{}
	return err
}

func (t events) SeqRange() (oldest, newest int64, err error) {
	if err := t.GatherEvents(); err != nil {
		return 0, 0, err
	}
	r, err := one(t.read(seqRange), func(s Scanner, r *[2]int64) {
		r[0], r[1] = s.ColumnInt(), s.ColumnInt()
	})
	if err == nil {
		err = t.SyncTo(r[1])
	}
	return r[0], r[1], err
}

// What the indexes have in their conditions.
const (
	isTold = `event_type <> 'call_allowed' AND event_type <> 'call_denied' AND event_type <> 'notification_sent'` +
		` AND event_type <> 'notification_retrying' AND event_type <> 'notification_failed'`
	isSeldom = `event_type <> 'call_allowed' AND event_type <> 'approval_requested' AND event_type <> 'notification_sent'`
)

// eventsAlong is [requestsAlong] for events: without an index of their own they are listed along their seq.
func eventsAlong(q *approval.EventQuery) along {
	switch t := q.Type; {
	case q.Decision != "" && q.Decision != "allow" && q.Decision != "approve":
		return along{"audit_events_decision", "decision <> 'allow' AND decision <> 'approve' AND decision = ?",
			[]any{q.Decision}}
	case t != "" && t != approval.EventCallAllowed && t != approval.EventApprovalRequested &&
		t != approval.EventNotificationSent:
		return along{"audit_events_type", isSeldom + " AND event_type = ?", []any{string(t)}}
	case q.Told && q.Agent != "":
		return along{"audit_events_agent", isTold + " AND agent = ?", []any{q.Agent}}
	}
	return along{index: byKey}
}

// seqs narrows to seqs from one on, and before another, if that is not 0.
func (l *list) seqs(from, to int64) {
	l.where("seq >= ?", from)
	if to != 0 {
		l.where("seq < ?", to)
	}
}

func (t events) Events(q approval.EventQuery) ([]approval.Event, error) {
	if err := t.GatherEvents(); err != nil {
		return nil, err
	}
	from, to, err := t.seqsOf(q)
	if err != nil {
		return nil, err
	}
	if t.Disorder() == 0 { // the seqs say it
		q.Since, q.Until = time.Time{}, time.Time{}
	}
	l := eventList(eventColumns.names(), q, from, to)
	es, err := page(t.list(l), q.Limit, q.Bytes, eventColumns.scan)
	if err == nil && len(es) > 0 {
		err = t.SyncTo(max(es[0].Seq, es[len(es)-1].Seq))
	}
	return es, err
}

func eventList(columns string, q approval.EventQuery, from, to int64) *list {
	l := newListAlong(columns, "audit_events", eventsAlong(&q))
	l.seqs(from, to)
	l.whereBetween("at", q.Since, q.Until)
	l.equal("event_type", string(q.Type))
	l.equal("decision", q.Decision)
	l.equal("risk_level", string(q.Risk))
	l.equal("tool", q.Tool)
	l.equal("agent", q.Agent)
	l.equal("actor", q.Actor)
	l.equal("approval_id", q.ApprovalID)
	l.equal("correlation_id", q.CorrelationID)
	if q.SessionID != "" {
		l.where(`(approval_id IS NOT NULL`+
			` AND (EXISTS (SELECT 1 FROM approval_requests AS r WHERE r.id = approval_id AND r.session_id = ?)`+
			` OR EXISTS (SELECT 1 FROM request_sessions AS s WHERE s.request = approval_id AND s.session_id = ?))`+
			` OR (event_type = 'call_allowed' OR event_type = 'call_denied') AND data ->> '$.session_id' = ?)`,
			q.SessionID, q.SessionID, q.SessionID)
	}
	if q.Told {
		l.where(isTold)
	}
	l.add(" ORDER BY seq")
	if !q.Ascending {
		l.add(" DESC")
	}
	return l
}

func (t events) EventReach(q approval.EventQuery, look int) (int64, error) {
	if err := t.GatherEvents(); err != nil {
		return 0, err
	}
	if look <= 0 {
		return 0, t.MayRead()
	}
	from, to, err := t.seqsOf(q)
	if err != nil {
		return 0, err
	}
	if eventsAlong(&q).index == byKey {
		return t.seqReach(from, to, int64(look))
	}
	l := eventReach(q, from, to)
	l.add(" LIMIT 1 OFFSET ?", int64(look-1))
	seq, err := one(t.list(l), scanInt)
	if errors.Is(err, approval.ErrNotFound) {
		return 0, nil
	}
	if err == nil {
		err = t.SyncTo(seq)
	}
	return seq, err
}

// seqReach is the reach among all events. Where some are missing between from and to it has fewer rows.
func (t events) seqReach(from, to, look int64) (int64, error) {
	oldest, newest, err := t.SeqRange()
	if err != nil {
		return 0, err
	}
	if to == 0 || to > newest {
		to = newest + 1
	}
	if reach := to - look; reach >= max(from, oldest, 1) {
		return reach, nil
	}
	return 0, nil
}

// eventReach lists the seqs among which a query selects, along an index.
func eventReach(q approval.EventQuery, from, to int64) *list {
	l := newListAlong("seq", "audit_events", eventsAlong(&q))
	l.seqs(from, to)
	l.add(" ORDER BY seq DESC")
	return l
}

// seqsOf returns between which seqs the events of a query lie: to is exclusive, 0: the end. No index finds those of a
// request, an actor, a cause or a session: it would cost every append more than such a question is worth. They are
// looked for one by one, those of a request from when it was made.
func (t events) seqsOf(q approval.EventQuery) (from, to int64, err error) {
	from, to = q.AfterSeq+1, q.Before
	since := ceil(q.Since)
	if q.ApprovalID != "" {
		r, err := requests(t).Head(q.ApprovalID)
		if err != nil && !errors.Is(err, approval.ErrNotFound) {
			return 0, 0, err
		}
		if r.RequestedAt.After(since) {
			since = r.RequestedAt
		}
	}
	if !since.IsZero() {
		seq, err := t.firstSince(since)
		if err != nil {
			return 0, 0, err
		}
		from = max(from, seq)
	}
	if !q.Until.IsZero() {
		seq, err := t.firstAfter(ceil(q.Until))
		if err != nil {
			return 0, 0, err
		}
		if to == 0 || seq < to {
			to = seq
		}
	}
	return from, to, nil
}

// firstSince returns the first seq of an event at or after a time, and firstAfter the first one after all that are
// before it. Where times are in disorder, those about the time are looked at.
func (t events) firstSince(at time.Time) (int64, error) {
	near, err := t.firstAt(at.Add(-t.Disorder()))
	if err != nil || t.Disorder() == 0 {
		return near, err
	}
	l := newList("SELECT seq FROM audit_events")
	l.where("seq >= ?", near)
	l.where("at >= ?", at)
	l.add(" ORDER BY seq")
	seq, err := one(t.list(l), scanInt)
	if errors.Is(err, approval.ErrNotFound) {
		return t.firstAt(at)
	}
	return seq, err
}

func (t events) firstAfter(at time.Time) (int64, error) {
	near, err := t.firstAt(at.Add(t.Disorder()))
	if err != nil || t.Disorder() == 0 {
		return near, err
	}
	l := newList("SELECT seq FROM audit_events")
	l.where("seq < ?", near)
	l.where("at < ?", at)
	l.add(" ORDER BY seq DESC")
	seq, err := one(t.list(l), scanInt)
	if errors.Is(err, approval.ErrNotFound) {
		return t.firstAt(at)
	}
	return seq + 1, err
}

// ceil rounds up to the milliseconds that are stored.
func ceil(t time.Time) time.Time {
	if ms := t.Truncate(time.Millisecond); ms.Before(t) {
		return ms.Add(time.Millisecond)
	}
	return t
}

// firstAt returns the seq of the first event at or after a time, one more than the newest if there is
// none. Both grow together, but for [Engine.Disorder], so it is found by bisection and no index on the time is needed.
func (t events) firstAt(at time.Time) (int64, error) {
	oldest, newest, err := t.SeqRange()
	if err != nil {
		return 0, err
	}
	type row struct {
		seq int64
		at  time.Time
	}
	if newest == 0 {
		return 1, nil
	}
	lo, hi := oldest, newest+1 // the answer lies in [lo, hi]
	for lo < hi {
		mid := lo + (hi-lo)/2
		r, err := one(t.read(eventTime).number(mid), func(s Scanner, r *row) {
			r.seq, r.at = s.ColumnInt(), s.ColumnTime()
		})
		if err != nil {
			return 0, err
		}
		if r.at.Before(at) {
			lo = r.seq + 1
		} else {
			hi = mid
		}
	}
	return lo, nil
}
