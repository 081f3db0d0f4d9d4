package store

import (
	"countersign/approval"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

func (t requests) InsertRequest(r approval.Request) error {
	s := t.write(insertRequest)
	if s.err != nil {
		return s.err
	}
	row := &t.Room().request
	*row = r
	ok, err := newRequestColumns.bind(s, row).expect()
	*row = approval.Request{}
	if err != nil {
		return err
	}
	if !ok {
		return approval.ErrLiveExists
	}
	t.TakeEnding(r.ResolvedSeq)
	t.NoteID(r.ID)
	t.noteDeadline(r.Deadline())
	return nil
}

func (t requests) Request(id string) (approval.Request, error) {
	return t.withVotes(one(t.read(selectRequest).text(id), requestColumns.scan))
}

func (t requests) Head(id string) (approval.Head, error) {
	return one(t.read(selectHead).text(id), scanHead)
}

func (t requests) Live(k approval.Key) (approval.Request, error) {
	return t.withVotes(one(bindKey(t.read(selectLive), k), requestColumns.scan))
}

func (t requests) Batch(batchID string) ([]approval.Request, error) {
	return t.withAllVotes(all(t.read(selectBatch).text(batchID), 0, requestColumns.scan))
}

func (t requests) BatchHeads(batchID string) ([]approval.Head, error) {
	return all(t.read(selectBatchHeads).text(batchID), 0, scanHead)
}

func (t requests) Requests(q approval.RequestQuery) ([]approval.Request, error) {
	s := t.list(requestList(requestColumns.names(), q))
	return t.withAllVotes(page(s, q.Limit, q.Bytes, requestColumns.scan))
}

func (t requests) Heads(q approval.RequestQuery) ([]approval.Head, error) {
	columns, scan := headList, scanHead
	if q.Figures {
		columns, scan = figureColumns.names(), func(s Scanner, h *approval.Head) { figureColumns.scan(s, &h.Request) }
	}
	return page(t.list(requestList(columns, q)), q.Limit, q.Bytes, scan)
}

// requestsAlong is the index along which requests are listed, with the condition by which it has them. Of what a query
// selects by, that is where few rows are left to be looked at; without one they are listed along all ids.
func requestsAlong(q *approval.RequestQuery) along {
	switch {
	case q.CorrelationID != "":
		return along{"approval_requests_correlation", "correlation_id = ?", []any{q.CorrelationID}}
	case q.Status == approval.Pending:
		return along{"approval_requests_pending", "status = 'pending'", nil}
	case q.Status == approval.Denied, q.Status == approval.Expired, q.Status == approval.Cancelled:
		return along{"approval_requests_ended", "status <> 'approved' AND status <> 'pending' AND status = ?",
			[]any{string(q.Status)}}
	}
	return along{index: "sqlite_autoindex_approval_requests_1"} // of the ids
}

func requestList(columns string, q approval.RequestQuery) *list {
	l := newListAlong(columns, "approval_requests", requestsAlong(&q))
	l.equal("status", string(q.Status))
	l.narrow(q)
	l.add(" ORDER BY id DESC")
	return l
}

// narrow adds what a query selects by, but for the status.
func (l *list) narrow(q approval.RequestQuery) {
	if server, tool, ok := strings.Cut(q.Tool, "/"); ok {
		l.where("server = ? AND tool_name = ?", server, tool)
	} else {
		l.equal("tool_name", q.Tool)
	}
	l.equal("agent", q.Agent)
	l.equal("risk_level", string(q.Risk))
	l.equal("correlation_id", q.CorrelationID)
	if q.Person != "" {
		l.where(`(resolved_by = ? OR EXISTS (SELECT 1 FROM approval_votes AS v`+
			` WHERE v.request = approval_requests.id AND v.person = ?))`, q.Person, q.Person)
	}
	if q.Text != "" {
		like := "%" + escapeLike.Replace(q.Text) + "%"
		l.where(`(tool_name LIKE ? ESCAPE '\' OR rule LIKE ? ESCAPE '\' OR human_message LIKE ? ESCAPE '\'`+
			` OR resolve_reason LIKE ? ESCAPE '\')`, like, like, like, like)
	}
	l.whereBetween("requested_at", q.Since, q.Until)
	l.ids(q.From, q.After, q.Since, q.Until)
}

// escapeLike makes a text one that LIKE finds as it is.
var escapeLike = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

func (t requests) RequestReach(q approval.RequestQuery, look int) (string, error) {
	return t.reach(requestReach(q), look)
}

// requestReach lists the ids among which a query selects.
func requestReach(q approval.RequestQuery) *list {
	l := newListAlong("id", "approval_requests", requestsAlong(&q))
	l.ids("", q.After, q.Since, q.Until)
	l.add(" ORDER BY id DESC")
	return l
}

// reach returns the id of the last of the first so many rows that a list selects, "" where there are fewer.
func (t *access) reach(l *list, look int) (string, error) {
	if look <= 0 {
		return "", t.MayRead()
	}
	l.add(" LIMIT 1 OFFSET ?", int64(look-1))
	id, err := one(t.list(l), scanText)
	if errors.Is(err, approval.ErrNotFound) {
		return "", nil
	}
	return id, err
}

func (t requests) EndingIn(suffix, since string, limit int) ([]string, error) {
	if suffix == "" {
		return nil, t.MayRead()
	}
	return all(t.read(selectEnding).text(since).text(suffix), limit, scanText)
}

func (t requests) Due(limit int) ([]approval.Head, error) {
	now := t.Now()
	pending, err := all(t.read(selectExpired).time(now), limit, scanHead)
	if err != nil {
		return nil, err
	}
	unused, err := all(t.read(selectUnused).time(now), limit, scanHead)
	if err != nil {
		return nil, err
	}
	due := append(pending, unused...)
	slices.SortStableFunc(due, func(a, b approval.Head) int { return a.Deadline().Compare(b.Deadline()) })
	if limit > 0 && len(due) > limit {
		due = due[:limit]
	}
	return due, nil
}

func (t requests) NextDeadline() (time.Time, error) {
	expiry, err := one(t.read(nextExpiry), scanTime)
	if err != nil {
		return time.Time{}, err
	}
	useBy, err := one(t.read(nextUseBy), scanTime)
	if err != nil {
		return time.Time{}, err
	}
	return earliest(expiry, useBy), nil
}

// earliest returns the earlier of two times, of which the zero time is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (t requests) CountPending(agent string) (int, error) {
	s := t.read(countPending)
	if agent != "" {
		s = t.read(countPendingOf).text(agent)
	}
	n, err := one(s, scanInt)
	return int(n), err
}

func (t requests) Resolve(r approval.Resolution) (bool, error) {
	var q Query
	useBy := time.Time{}
	switch r.Status {
	case approval.Approved:
		q, useBy = resolve, r.UseBy
	case approval.Denied:
		q = resolve
	case approval.Expired:
		q = expire
	case approval.Cancelled:
		q = cancel
	default:
		return false, fmt.Errorf("store: a request cannot be resolved as %q", r.Status)
	}
	seq := t.NextEnding()
	ok, err := t.write(q).text(string(r.Status)).time(r.At).text(r.By).text(string(r.Via)).
		optText(r.Reason).number(seq).time(useBy).
		optText(r.Who).optText(r.Code).optText(r.ReplacedBy).text(r.ID).end(seq)
	if ok {
		t.noteDeadline(useBy)
	}
	return ok, err
}

//nolint:revive // flag-parameter: dispatched is a fact to store
func (t requests) Consume(id string, dispatched bool, runner string) (bool, error) {
	if dispatched {
		return t.write(consumeDispatched).time(t.Now()).optText(runner).text(id).expect()
	}
	return t.write(consume).time(t.Now()).text(id).expect()
}

func (t requests) Return(r approval.Request) (bool, error) {
	seq := t.NextEnding()
	ok, err := t.write(giveBack).number(seq).text(r.ID).time(r.DispatchedAt).number(int64(r.Returned)).time(t.Now()).
		end(seq)
	if ok {
		t.noteDeadline(r.UseBy)
	}
	return ok, err
}

func (t requests) Lapse(id string) (bool, error) {
	seq := t.NextEnding()
	return t.write(lapse).number(seq).text(id).time(t.Now()).end(seq)
}

func (t requests) AddReason(id, by, reason string) (bool, error) {
	seq := t.NextEnding()
	return t.write(addReason).text(reason).number(seq).text(id).text(by).end(seq)
}

func (t requests) AddSession(id, session string) error {
	return t.write(addSession).text(id).text(session).time(t.Now()).put()
}

func (t requests) Feed(agent, session string, limit, bytes int) ([]approval.Request, error) {
	s := t.read(selectFeed).text(agent)
	if session != "" {
		s = t.read(selectSessionFeed).text(agent).text(session)
	}
	return t.withAllVotes(page(s, limit, bytes, requestColumns.scan))
}

func (t requests) Ack(agent, id string) (bool, error) {
	return t.write(ack).time(t.Now()).text(id).text(agent).change()
}
