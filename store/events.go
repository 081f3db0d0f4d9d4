package store

import (
	"countersign/approval"
	"countersign/store/sqlite3"
	"time"
)

func (t *tx) Append(e approval.Event) (approval.Event, error) {
	if err := t.writable(); err != nil {
		return approval.Event{}, err
	}
	e.ID, e.Seq, e.At = t.NewID(), t.w.seq+1, t.at
	row := &t.w.rows.event
	*row = e
	_, err := t.changed(eventColumns.bind(t.c.Stmt(appendEvent), row))
	*row = approval.Event{}
	if err != nil {
		return approval.Event{}, err
	}
	t.w.seq++
	if t.w.onCommit != nil {
		t.w.summary.Events = append(t.w.summary.Events, e)
	}
	return e, nil
}

func (t *tx) SeqRange() (oldest, newest int64, err error) {
	if err := t.readable(); err != nil {
		return 0, 0, err
	}
	r, err := one(t, t.c.Stmt(seqRange), func(s *sqlite3.Stmt, r *[2]int64) {
		r[0], r[1] = s.ColumnInt(), s.ColumnInt()
	})
	return r[0], r[1], err
}

func (t *tx) Events(q approval.EventQuery) ([]approval.Event, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	from, to := q.AfterSeq+1, q.Before // to is exclusive, 0: the end
	if !q.Since.IsZero() {
		seq, err := t.firstAt(ceil(q.Since))
		if err != nil {
			return nil, err
		}
		from = max(from, seq)
	}
	if !q.Until.IsZero() {
		seq, err := t.firstAt(ceil(q.Until))
		if err != nil {
			return nil, err
		}
		if to == 0 || seq < to {
			to = seq
		}
	}
	l := newList(`SELECT ` + eventColumns.names() + ` FROM audit_events`)
	l.where("seq >= ?", from)
	if to != 0 {
		l.where("seq < ?", to)
	}
	if q.Type != "" {
		l.where("event_type = ?", string(q.Type))
		switch q.Type {
		case approval.EventCallAllowed, approval.EventApprovalRequested, approval.EventNotificationSent:
		default:
			// as the index has it
			l.where(`event_type <> 'call_allowed' AND event_type <> 'approval_requested' AND event_type <> 'notification_sent'`)
		}
	}
	l.equal("decision", q.Decision)
	l.equal("risk_level", string(q.Risk))
	l.equal("tool", q.Tool)
	l.equal("agent", q.Agent)
	if q.Told {
		// as the index has it
		l.where(`event_type <> 'call_allowed' AND event_type <> 'call_denied' AND event_type <> 'notification_sent'` +
			` AND event_type <> 'notification_retrying' AND event_type <> 'notification_failed'`)
	}
	l.add(" ORDER BY seq")
	if !q.Ascending {
		l.add(" DESC")
	}
	return page(t, l.bind(t.c), q.Limit, q.Bytes, eventColumns.scan)
}

// ceil rounds up to the milliseconds that are stored.
func ceil(t time.Time) time.Time {
	if ms := t.Truncate(time.Millisecond); ms.Before(t) {
		return ms.Add(time.Millisecond)
	}
	return t
}

// firstAt returns the seq of the first event at or after a time, one more than the newest if there is
// none. Both grow together, so it is found by bisection and no index on the time is needed.
func (t *tx) firstAt(at time.Time) (int64, error) {
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
		r, err := one(t, t.c.Stmt(eventTime).BindInt(mid), func(s *sqlite3.Stmt, r *row) {
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
