package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"countersign/approval"
	"countersign/store/sqlite3"
)

// tx is one run of one function: in the writer's transaction, or in a View.
type tx struct {
	db      *DB
	c       *sqlite3.Conn
	w       *writer         // nil in a View
	ctx     context.Context // of a View, nil in the writer
	at      time.Time
	settled bool  // a View has read, so that its moment is settled
	guard   bool  // the function is to have a savepoint
	wrote   bool  // it has begun to write, behind its savepoint if it has one
	broken  error // makes the function fail whatever it returns
	ended   bool
}

var _ approval.Tx = (*tx)(nil)

var errEnded = errors.New("store: transaction used after its function returned")

// fail turns an error of a statement into one for the function, and remembers it if nothing that the
// function does after it can be trusted.
func (t *tx) fail(err error) error {
	if err == nil {
		return nil
	}
	if broken(err) && t.broken == nil {
		t.broken = fault(err)
	}
	return fault(err)
}

// readable says whether the function may go on to read.
func (t *tx) readable() error {
	if t.ended {
		return errEnded
	}
	if t.ctx != nil && t.ctx.Err() != nil {
		return notStarted(t.ctx)
	}
	t.settled = true
	return t.broken
}

// writable says whether the function may go on to write, before the first time behind a savepoint if it
// is to have one.
func (t *tx) writable() error {
	switch {
	case t.ended:
		return errEnded
	case t.w == nil:
		return approval.ErrReadOnly
	case t.broken != nil:
		return t.broken
	case !t.wrote && t.guard:
		if _, err := t.c.Stmt(savepoint).Exec(); err != nil {
			return t.fail(err)
		}
	}
	t.wrote = true
	return nil
}

// changed is the end of a statement that writes.
func (t *tx) changed(s *sqlite3.Stmt) (bool, error) {
	n, err := s.Exec()
	if err != nil {
		return false, t.fail(err)
	}
	if n > 0 {
		t.w.changes = true
	}
	return n > 0, nil
}

// Now settles the moment of a View before it looks at the clock: what the View reads is not of later.
func (t *tx) Now() time.Time {
	if t.at.IsZero() {
		if !t.settled && t.readable() == nil {
			s := t.c.Stmt(readNothing)
			s.Step()
			_, err := s.Finish()
			_ = t.fail(err) // makes the function fail when it returns
		}
		t.at = t.db.Now()
	}
	return t.at
}

func (t *tx) NewID() string {
	if t.w == nil || t.ended {
		return ""
	}
	t.w.lastID = nextID(t.w.lastID, t.at)
	return t.w.lastID.String()
}

const requestColumns = `id, agent, scope, server, tool_name, args_hash, status, risk_level, requested_at, expires_at,
  resolved_at, resolved_by, resolved_via, resolved_seq, use_by, consumed_at, lapsed_at, acked_at,
  turn_id, session_id, batch_id, rule, policy_reason, require_reason, ignored_args, previous_use,
  human_message, resolve_reason, tool_args, rationale, preview, tool_digest, task, dispatched_at, outcome, tool_seen`

// selectColumns are requestColumns and what no new request has.
const selectColumns = requestColumns + `, inputs`

// headColumns are the same in number and order, without those that may be large and those stored behind them:
// to read these, SQLite would go through every page of a large row.
const headColumns = `id, agent, scope, server, tool_name, args_hash, status, risk_level, requested_at, expires_at,
  resolved_at, resolved_by, resolved_via, resolved_seq, use_by, consumed_at, lapsed_at, acked_at,
  turn_id, session_id, batch_id, rule, policy_reason, require_reason, ignored_args, previous_use,
  human_message, resolve_reason, NULL, NULL, NULL, NULL, 0, NULL, NULL, 0, NULL,
  octet_length(tool_args) + coalesce(octet_length(rationale), 0) + coalesce(octet_length(preview), 0)`

const isLive = `(status = 'pending' OR status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL)`

func (t *tx) InsertRequest(r approval.Request) error {
	if err := t.writable(); err != nil {
		return err
	}
	ignored, err := encode(r.IgnoredArgs, len(r.IgnoredArgs) > 0)
	if err != nil {
		return err
	}
	previous, err := encode(r.Previous, r.Previous != nil)
	if err != nil {
		return err
	}
	s := t.c.Stmt(insertRequest)
	s.BindText(r.ID).BindText(r.Agent).BindText(r.Scope).BindText(r.Server).BindText(r.Tool).BindText(r.ArgsHash).BindText(string(r.Status)).BindText(string(r.Risk))
	s.BindTime(r.RequestedAt).BindTime(r.ExpiresAt)
	s.BindTime(r.ResolvedAt).BindOptText(r.ResolvedBy).BindOptText(string(r.ResolvedVia))
	s.BindOptInt(r.ResolvedSeq)
	s.BindTime(r.UseBy).BindTime(r.ConsumedAt).BindTime(r.LapsedAt).BindTime(r.AckedAt)
	s.BindOptText(r.TurnID).BindOptText(r.SessionID).BindOptText(r.BatchID).BindOptText(r.Rule).BindText(r.ReasonCode).BindBool(r.RequireReason).BindOptTextBytes(ignored).BindOptTextBytes(previous)
	s.BindText(r.HumanMessage).BindOptText(r.ResolveReason).BindTextBytes(r.Args).BindOptText(r.Rationale).BindOptText(r.Preview)
	s.BindOptText(r.ToolDigest).BindBool(r.Task).BindTime(r.DispatchedAt).BindOptText(string(r.RunResult)).BindBool(r.ToolSeen)
	ok, err := t.changed(s)
	if err != nil {
		return err
	}
	if !ok {
		return approval.ErrLiveExists
	}
	t.w.seq = max(t.w.seq, r.ResolvedSeq)
	t.w.noteDeadline(r.Deadline())
	if r.SessionID != "" {
		return t.AddSession(r.ID, r.SessionID)
	}
	return nil
}

// encode returns v as JSON, nil unless there is something.
func encode(v any, something bool) ([]byte, error) {
	if !something {
		return nil, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return b, nil
}

// scanJSON reads a column that encode has written; NULL leaves *v as it is.
func scanJSON[T any](s *sqlite3.Stmt, v *T) {
	b := s.ColumnView()
	if b == nil || s.Err() != nil {
		return
	}
	if err := json.Unmarshal(b, v); err != nil {
		s.Fail(fmt.Errorf("store: stored JSON: %w", err))
	}
}

func scanRequest(s *sqlite3.Stmt) (r approval.Request) {
	r.ID, r.Agent, r.Scope, r.Server, r.Tool, r.ArgsHash = s.ColumnText(), s.ColumnText(), s.ColumnText(), s.ColumnText(), s.ColumnText(), s.ColumnText()
	r.Status, r.Risk = approval.Status(s.ColumnText()), approval.Risk(s.ColumnText())
	r.RequestedAt, r.ExpiresAt = s.ColumnTime(), s.ColumnTime()
	r.ResolvedAt, r.ResolvedBy, r.ResolvedVia, r.ResolvedSeq = s.ColumnTime(), s.ColumnText(), approval.Via(s.ColumnText()), s.ColumnInt()
	r.UseBy, r.ConsumedAt, r.LapsedAt, r.AckedAt = s.ColumnTime(), s.ColumnTime(), s.ColumnTime(), s.ColumnTime()
	r.TurnID, r.SessionID, r.BatchID, r.Rule, r.ReasonCode = s.ColumnText(), s.ColumnText(), s.ColumnText(), s.ColumnText(), s.ColumnText()
	r.RequireReason = s.ColumnBool()
	scanJSON(s, &r.IgnoredArgs)
	scanJSON(s, &r.Previous)
	r.HumanMessage, r.ResolveReason, r.Args, r.Rationale, r.Preview = s.ColumnText(), s.ColumnText(), s.ColumnBytes(), s.ColumnText(), s.ColumnText()
	r.ToolDigest, r.Task, r.DispatchedAt, r.RunResult, r.ToolSeen = s.ColumnText(), s.ColumnBool(), s.ColumnTime(), approval.RunResult(s.ColumnText()), s.ColumnBool()
	scanJSON(s, &r.Inputs)
	return r
}

func scanHead(s *sqlite3.Stmt) (h approval.Head) {
	h.Request = scanRequest(s)
	h.Wide = int(s.ColumnInt())
	return h
}

// all reads every row of s, at most limit of them if that is positive.
func all[T any](t *tx, s *sqlite3.Stmt, limit int, scan func(*sqlite3.Stmt) T) ([]T, error) {
	var rows []T
	for (limit <= 0 || len(rows) < limit) && s.Step() {
		rows = append(rows, scan(s))
	}
	_, err := s.Finish()
	if err != nil {
		return nil, t.fail(err)
	}
	return rows, nil
}

// page is all that stops after the row with which the rows' sizes are bytes, if that is positive. It looks at the
// sizes while it reads: what is beyond is never in memory.
func page[T interface{ Size() int }](t *tx, s *sqlite3.Stmt, limit, bytes int, scan func(*sqlite3.Stmt) T) ([]T, error) {
	var rows []T
	size := 0
	for (limit <= 0 || len(rows) < limit) && (bytes <= 0 || size < bytes) && s.Step() {
		row := scan(s)
		rows = append(rows, row)
		size += row.Size()
	}
	_, err := s.Finish()
	if err != nil {
		return nil, t.fail(err)
	}
	return rows, nil
}

// one reads the row of s, or returns ErrNotFound.
func one[T any](t *tx, s *sqlite3.Stmt, scan func(*sqlite3.Stmt) T) (row T, err error) {
	rows, err := all(t, s, 1, scan)
	if err != nil {
		return row, err
	}
	if len(rows) == 0 {
		return row, approval.ErrNotFound
	}
	return rows[0], nil
}

func (t *tx) Request(id string) (approval.Request, error) {
	if err := t.readable(); err != nil {
		return approval.Request{}, err
	}
	return one(t, t.c.Stmt(selectRequest).BindText(id), scanRequest)
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
	return one(t, bindKey(t.c.Stmt(selectLive), k), scanRequest)
}

// bindKey binds the five columns of a key.
func bindKey(s *sqlite3.Stmt, k approval.Key) *sqlite3.Stmt {
	return s.BindText(k.Agent).BindText(k.Scope).BindText(k.Server).BindText(k.Tool).BindText(k.ArgsHash)
}

func (t *tx) Batch(batchID string) ([]approval.Request, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectBatch).BindText(batchID), 0, scanRequest)
}

func (t *tx) BatchHeads(batchID string) ([]approval.Head, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectBatchHeads).BindText(batchID), 0, scanHead)
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
	expiry, err := one(t, t.c.Stmt(nextExpiry), (*sqlite3.Stmt).ColumnTime)
	if err != nil {
		return time.Time{}, err
	}
	useBy, err := one(t, t.c.Stmt(nextUseBy), (*sqlite3.Stmt).ColumnTime)
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
	n, err := one(t, s, (*sqlite3.Stmt).ColumnInt)
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
	s := t.c.Stmt(q).BindText(string(r.Status)).BindTime(r.At).BindText(r.By).BindText(string(r.Via)).BindOptText(r.Reason).BindInt(t.w.seq + 1).BindTime(useBy).BindText(r.ID)
	ok, err := t.changed(s)
	if ok {
		t.w.seq++
		t.w.noteDeadline(useBy)
	}
	return ok, err
}

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

func (t *tx) Lapse(id string) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	ok, err := t.changed(t.c.Stmt(lapse).BindInt(t.w.seq + 1).BindText(id).BindTime(t.at))
	if ok {
		t.w.seq++
	}
	return ok, err
}

func (t *tx) AddReason(id, by, reason string) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	ok, err := t.changed(t.c.Stmt(addReason).BindText(reason).BindInt(t.w.seq + 1).BindText(id).BindText(by))
	if ok {
		t.w.seq++
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
	if session != "" {
		return page(t, t.c.Stmt(selectSessionFeed).BindText(agent).BindText(session), limit, bytes, scanRequest)
	}
	return page(t, t.c.Stmt(selectFeed).BindText(agent), limit, bytes, scanRequest)
}

func (t *tx) Ack(agent, id string) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	return t.changed(t.c.Stmt(ack).BindTime(t.at).BindText(id).BindText(agent))
}

func (t *tx) Recent(k approval.Key) (approval.Recent, error) {
	if err := t.readable(); err != nil {
		return approval.Recent{}, err
	}
	r, err := one(t, bindKey(t.c.Stmt(selectRecent), k), func(s *sqlite3.Stmt) (r approval.Recent) {
		r.DeniedID, r.DeniedAt = s.ColumnText(), s.ColumnTime()
		scanJSON(s, &r.Use)
		return r
	})
	if errors.Is(err, approval.ErrNotFound) {
		return approval.Recent{}, nil
	}
	return r, err
}

func (t *tx) PutRecent(k approval.Key, r approval.Recent) error {
	if err := t.writable(); err != nil {
		return err
	}
	if r == (approval.Recent{}) {
		_, err := t.changed(bindKey(t.c.Stmt(deleteRecent), k))
		return err
	}
	use, err := encode(r.Use, r.Use != nil)
	if err != nil {
		return err
	}
	newest := r.DeniedAt
	if r.Use != nil && r.Use.ConsumedAt.After(newest) {
		newest = r.Use.ConsumedAt
	}
	_, err = t.changed(bindKey(t.c.Stmt(putRecent), k).BindOptText(r.DeniedID).BindTime(r.DeniedAt).BindOptTextBytes(use).BindTime(newest))
	return err
}

const eventColumns = `seq, id, at, event_type, correlation_id, actor, approval_id, agent, tool, risk_level, decision, reason, data`

func (t *tx) Append(e approval.Event) (approval.Event, error) {
	if err := t.writable(); err != nil {
		return approval.Event{}, err
	}
	e.ID, e.Seq, e.At = t.NewID(), t.w.seq+1, t.at
	s := t.c.Stmt(appendEvent).BindInt(e.Seq).BindText(e.ID).BindTime(e.At).BindText(string(e.Type)).BindOptText(e.CorrelationID).BindOptText(e.Actor).BindOptText(e.ApprovalID)
	s.BindOptText(e.Agent).BindOptText(e.Tool).BindOptText(string(e.Risk)).BindOptText(e.Decision).BindOptText(e.Reason).BindOptTextBytes(e.Data)
	if _, err := t.changed(s); err != nil {
		return approval.Event{}, err
	}
	t.w.seq++
	if t.w.onCommit != nil {
		t.w.summary.Events = append(t.w.summary.Events, e)
	}
	return e, nil
}

func scanEvent(s *sqlite3.Stmt) (e approval.Event) {
	e.Seq, e.ID, e.At, e.Type = s.ColumnInt(), s.ColumnText(), s.ColumnTime(), approval.EventType(s.ColumnText())
	e.CorrelationID, e.Actor, e.ApprovalID, e.Agent, e.Tool = s.ColumnText(), s.ColumnText(), s.ColumnText(), s.ColumnText(), s.ColumnText()
	e.Risk, e.Decision, e.Reason, e.Data = approval.Risk(s.ColumnText()), s.ColumnText(), s.ColumnText(), s.ColumnBytes()
	return e
}

func (t *tx) SeqRange() (oldest, newest int64, err error) {
	if err := t.readable(); err != nil {
		return 0, 0, err
	}
	r, err := one(t, t.c.Stmt(seqRange), func(s *sqlite3.Stmt) [2]int64 { return [2]int64{s.ColumnInt(), s.ColumnInt()} })
	return r[0], r[1], err
}

func (t *tx) FirstSight(eventID string) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	return t.changed(t.c.Stmt(firstSight).BindText(eventID).BindTime(t.at))
}

func (t *tx) Prune(events, endings time.Time, limit int) (int, error) {
	if err := t.writable(); err != nil {
		return 0, err
	}
	seen, err := t.c.Stmt(pruneSeen).BindTime(events).BindInt(int64(limit)).Exec()
	if err != nil {
		return 0, t.fail(err)
	}
	ended, err := t.c.Stmt(pruneEnded).BindTime(endings).BindInt(int64(limit)).Exec()
	if err != nil {
		return 0, t.fail(err)
	}
	t.w.changes = t.w.changes || seen+ended > 0
	return seen + ended, nil
}

// noteDeadline notes that a request will be due then.
func (w *writer) noteDeadline(at time.Time) { w.summary.Deadline = earliest(w.summary.Deadline, at) }
