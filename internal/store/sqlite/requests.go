package sqlite

import (
	"countersign/approval"
	"countersign/internal/store/sqlite/sqlite3"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

func (t *tx) InsertRequest(r approval.Request) error {
	if err := t.writable(); err != nil {
		return err
	}
	row := &t.w.rows.request
	*row = r
	ok, err := t.changed(newRequestColumns.bind(t.c.Stmt(insertRequest), row))
	*row = approval.Request{}
	if err != nil {
		return err
	}
	if !ok {
		return approval.ErrLiveExists
	}
	t.w.endings = max(t.w.endings, r.ResolvedSeq)
	t.w.onRows.id = max(t.w.onRows.id, r.ID)
	t.w.noteDeadline(r.Deadline())
	return nil
}

func (t *tx) Request(id string) (approval.Request, error) {
	if err := t.readable(); err != nil {
		return approval.Request{}, err
	}
	return t.voted(one(t, t.c.Stmt(selectRequest).BindText(id), requestColumns.scan))
}

func (t *tx) Head(id string) (approval.Head, error) {
	if err := t.readable(); err != nil {
		return approval.Head{}, err
	}
	return one(t, t.c.Stmt(selectHead).BindText(id), scanHead)
}

func (t *tx) Live(k approval.Key) (approval.Request, error) {
	if err := t.readable(); err != nil {
		return approval.Request{}, err
	}
	return t.voted(one(t, bindKey(t.c.Stmt(selectLive), k), requestColumns.scan))
}

func (t *tx) Batch(batchID string) ([]approval.Request, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return t.allVoted(all(t, t.c.Stmt(selectBatch).BindText(batchID), 0, requestColumns.scan))
}

func (t *tx) BatchHeads(batchID string) ([]approval.Head, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectBatchHeads).BindText(batchID), 0, scanHead)
}

func (t *tx) Requests(q approval.RequestQuery) ([]approval.Request, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	s := requestList(requestColumns.names(), q).bind(t.c)
	return t.allVoted(page(t, s, q.Limit, q.Bytes, requestColumns.scan))
}

func (t *tx) Heads(q approval.RequestQuery) ([]approval.Head, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	columns, scan := headList, scanHead
	if q.Figures {
		columns, scan = figureColumns.names(), func(s *sqlite3.Stmt, h *approval.Head) { figureColumns.scan(s, &h.Request) }
	}
	return page(t, requestList(columns, q).bind(t.c), q.Limit, q.Bytes, scan)
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
	l.within("requested_at", q.Since, q.Until)
	l.ids(q.From, q.After, q.Since, q.Until)
}

// escapeLike makes a text one that LIKE finds as it is.
var escapeLike = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

func (t *tx) RequestReach(q approval.RequestQuery, look int) (string, error) {
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
func (t *tx) reach(l *list, look int) (string, error) {
	if err := t.readable(); err != nil || look <= 0 {
		return "", err
	}
	l.add(" LIMIT 1 OFFSET ?", int64(look-1))
	id, err := one(t, l.bind(t.c), scanText)
	if errors.Is(err, approval.ErrNotFound) {
		return "", nil
	}
	return id, err
}

func (t *tx) EndingIn(suffix, since string, limit int) ([]string, error) {
	if err := t.readable(); err != nil || suffix == "" {
		return nil, err
	}
	return all(t, t.c.Stmt(selectEnding).BindText(since).BindText(suffix), limit, scanText)
}

func (t *tx) Due(limit int) ([]approval.Head, error) {
	now := t.Now()
	if err := t.readable(); err != nil {
		return nil, err
	}
	pending, err := all(t, t.c.Stmt(selectExpired).BindTime(now), limit, scanHead)
	if err != nil {
		return nil, err
	}
	unused, err := all(t, t.c.Stmt(selectUnused).BindTime(now), limit, scanHead)
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

func (t *tx) NextDeadline() (time.Time, error) {
	if err := t.readable(); err != nil {
		return time.Time{}, err
	}
	expiry, err := one(t, t.c.Stmt(nextExpiry), scanTime)
	if err != nil {
		return time.Time{}, err
	}
	useBy, err := one(t, t.c.Stmt(nextUseBy), scanTime)
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

func (t *tx) CountPending(agent string) (int, error) {
	if err := t.readable(); err != nil {
		return 0, err
	}
	s := t.c.Stmt(countPending)
	if agent != "" {
		s = t.c.Stmt(countPendingOf).BindText(agent)
	}
	n, err := one(t, s, scanInt)
	return int(n), err
}

func (t *tx) Resolve(r approval.Resolution) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	var q sqlite3.Query
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
	s := t.c.Stmt(q).BindText(string(r.Status)).BindTime(r.At).BindText(r.By).BindText(string(r.Via)).
		BindOptText(r.Reason).BindInt(t.w.endings + 1).BindTime(useBy).
		BindOptText(r.Who).BindOptText(r.Code).BindOptText(r.ReplacedBy).BindText(r.ID)
	ok, err := t.changed(s)
	if ok {
		t.w.endings++
		t.w.noteDeadline(useBy)
	}
	return ok, err
}

//nolint:revive // flag-parameter: dispatched is a fact to store
func (t *tx) Consume(id string, dispatched bool) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	q := consume
	if dispatched {
		q = consumeDispatched
	}
	return t.changed(t.c.Stmt(q).BindTime(t.at).BindText(id))
}

func (t *tx) Return(r approval.Request) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	ok, err := t.changed(t.c.Stmt(giveBack).BindInt(t.w.endings + 1).BindText(r.ID).BindTime(r.DispatchedAt).
		BindInt(int64(r.Returned)).BindTime(t.at))
	if ok {
		t.w.endings++
		t.w.noteDeadline(r.UseBy)
	}
	return ok, err
}

func (t *tx) Lapse(id string) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	ok, err := t.changed(t.c.Stmt(lapse).BindInt(t.w.endings + 1).BindText(id).BindTime(t.at))
	if ok {
		t.w.endings++
	}
	return ok, err
}

func (t *tx) AddReason(id, by, reason string) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	ok, err := t.changed(t.c.Stmt(addReason).BindText(reason).BindInt(t.w.endings + 1).BindText(id).BindText(by))
	if ok {
		t.w.endings++
	}
	return ok, err
}

func (t *tx) AddSession(id, session string) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(t.c.Stmt(addSession).BindText(id).BindText(session).BindTime(t.at))
	return err
}

func (t *tx) Feed(agent, session string, limit, bytes int) ([]approval.Request, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	var s *sqlite3.Stmt
	if session != "" {
		s = t.c.Stmt(selectSessionFeed).BindText(agent).BindText(session)
	} else {
		s = t.c.Stmt(selectFeed).BindText(agent)
	}
	return t.allVoted(page(t, s, limit, bytes, requestColumns.scan))
}

func (t *tx) Ack(agent, id string) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	return t.changed(t.c.Stmt(ack).BindTime(t.at).BindText(id).BindText(agent))
}

// noteDeadline notes that a request will be due then.
func (w *writer) noteDeadline(at time.Time) { w.summary.Deadline = earliest(w.summary.Deadline, at) }
