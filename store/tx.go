package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"countersign/approval"
)

// tx is one run of one function: in the writer's transaction, or in a View.
type tx struct {
	db     *DB
	c      *conn
	w      *writer         // nil in a View
	ctx    context.Context // of a View, nil in the writer
	at     time.Time
	pinned bool  // a View has read, so that its moment is settled
	guard  bool  // the function is to have a savepoint
	wrote  bool  // it has begun to write, behind its savepoint if it has one
	broken error // makes the function fail whatever it returns
	over   bool
}

var _ approval.Tx = (*tx)(nil)

var errOver = errors.New("store: transaction used after its function returned")

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

// ready says whether the function may go on to read.
func (t *tx) ready() error {
	if t.over {
		return errOver
	}
	if t.ctx != nil && t.ctx.Err() != nil {
		return gaveUp(t.ctx)
	}
	t.pinned = true
	return t.broken
}

// write says whether the function may go on to write, before the first time behind a savepoint if it
// is to have one.
func (t *tx) write() error {
	switch {
	case t.over:
		return errOver
	case t.w == nil:
		return approval.ErrReadOnly
	case t.broken != nil:
		return t.broken
	case !t.wrote && t.guard:
		if _, err := t.c.stmt(savepoint).exec(); err != nil {
			return t.fail(err)
		}
	}
	t.wrote = true
	return nil
}

// changed is the end of a statement that writes.
func (t *tx) changed(s *stmt) (bool, error) {
	n, err := s.exec()
	if err != nil {
		return false, t.fail(err)
	}
	if n > 0 {
		t.w.changes = true
	}
	return n > 0, nil
}

var pin = define(`SELECT one FROM store_state`)

// Now settles the moment of a View before it looks at the clock: what the View reads is not of later.
func (t *tx) Now() time.Time {
	if t.at.IsZero() {
		if !t.pinned && t.ready() == nil {
			s := t.c.stmt(pin)
			s.next()
			_, err := s.done()
			_ = t.fail(err) // makes the function fail when it returns
		}
		t.at = t.db.Now()
	}
	return t.at
}

func (t *tx) NewID() string {
	if t.w == nil || t.over {
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

var insertRequest = define(`INSERT INTO approval_requests (` + requestColumns + `)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36)
  ON CONFLICT (agent, scope, server, tool_name, args_hash)
    WHERE status = 'pending' OR status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL DO NOTHING`)

func (t *tx) InsertRequest(r approval.Request) error {
	if err := t.write(); err != nil {
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
	s := t.c.stmt(insertRequest)
	s.str(r.ID).str(r.Agent).str(r.Scope).str(r.Server).str(r.Tool).str(r.ArgsHash).str(string(r.Status)).str(string(r.Risk))
	s.time(r.RequestedAt).time(r.ExpiresAt)
	s.time(r.ResolvedAt).opt(r.ResolvedBy).opt(string(r.ResolvedVia))
	if r.ResolvedSeq == 0 {
		s.null()
	} else {
		s.int(r.ResolvedSeq)
	}
	s.time(r.UseBy).time(r.ConsumedAt).time(r.LapsedAt).time(r.AckedAt)
	s.opt(r.TurnID).opt(r.SessionID).opt(r.BatchID).opt(r.Rule).str(r.ReasonCode).bool(r.RequireReason).json(ignored).json(previous)
	s.str(r.HumanMessage).opt(r.ResolveReason).bytes(r.Args).opt(r.Rationale).opt(r.Preview)
	s.opt(r.ToolDigest).bool(r.Task).time(r.DispatchedAt).opt(string(r.RunResult)).bool(r.ToolSeen)
	ok, err := t.changed(s)
	if err != nil {
		return err
	}
	if !ok {
		return approval.ErrLiveExists
	}
	t.w.seq = max(t.w.seq, r.ResolvedSeq)
	t.w.deadline(r.Deadline())
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
func scanJSON[T any](s *stmt, v *T) {
	b := s.view()
	if b == nil || s.err != nil {
		return
	}
	if err := json.Unmarshal(b, v); err != nil {
		s.err = fmt.Errorf("store: stored JSON: %w", err)
	}
}

func scanRequest(s *stmt) (r approval.Request) {
	r.ID, r.Agent, r.Scope, r.Server, r.Tool, r.ArgsHash = s.getString(), s.getString(), s.getString(), s.getString(), s.getString(), s.getString()
	r.Status, r.Risk = approval.Status(s.getString()), approval.Risk(s.getString())
	r.RequestedAt, r.ExpiresAt = s.getTime(), s.getTime()
	r.ResolvedAt, r.ResolvedBy, r.ResolvedVia, r.ResolvedSeq = s.getTime(), s.getString(), approval.Via(s.getString()), s.getInt()
	r.UseBy, r.ConsumedAt, r.LapsedAt, r.AckedAt = s.getTime(), s.getTime(), s.getTime(), s.getTime()
	r.TurnID, r.SessionID, r.BatchID, r.Rule, r.ReasonCode = s.getString(), s.getString(), s.getString(), s.getString(), s.getString()
	r.RequireReason = s.getBool()
	scanJSON(s, &r.IgnoredArgs)
	scanJSON(s, &r.Previous)
	r.HumanMessage, r.ResolveReason, r.Args, r.Rationale, r.Preview = s.getString(), s.getString(), s.getBytes(), s.getString(), s.getString()
	r.ToolDigest, r.Task, r.DispatchedAt, r.RunResult, r.ToolSeen = s.getString(), s.getBool(), s.getTime(), approval.RunResult(s.getString()), s.getBool()
	scanJSON(s, &r.Inputs)
	return r
}

func scanHead(s *stmt) (h approval.Head) {
	h.Request = scanRequest(s)
	h.Wide = int(s.getInt())
	return h
}

// all reads every row of s, at most limit of them if that is positive.
func all[T any](t *tx, s *stmt, limit int, scan func(*stmt) T) ([]T, error) {
	var rows []T
	for (limit <= 0 || len(rows) < limit) && s.next() {
		rows = append(rows, scan(s))
	}
	_, err := s.done()
	if err != nil {
		return nil, t.fail(err)
	}
	return rows, nil
}

// some is all that stops after the row with which the rows' sizes are bytes, if that is positive. It looks at the
// sizes while it reads: what is beyond is never in memory.
func some[T interface{ Size() int }](t *tx, s *stmt, limit, bytes int, scan func(*stmt) T) ([]T, error) {
	var rows []T
	size := 0
	for (limit <= 0 || len(rows) < limit) && (bytes <= 0 || size < bytes) && s.next() {
		row := scan(s)
		rows = append(rows, row)
		size += row.Size()
	}
	_, err := s.done()
	if err != nil {
		return nil, t.fail(err)
	}
	return rows, nil
}

// one reads the row of s, or returns ErrNotFound.
func one[T any](t *tx, s *stmt, scan func(*stmt) T) (row T, err error) {
	rows, err := all(t, s, 1, scan)
	if err != nil {
		return row, err
	}
	if len(rows) == 0 {
		return row, approval.ErrNotFound
	}
	return rows[0], nil
}

var (
	selectRequest = define(`SELECT ` + selectColumns + ` FROM approval_requests WHERE id = $1`)
	selectLive    = define(`SELECT ` + selectColumns + ` FROM approval_requests
  WHERE agent = $1 AND scope = $2 AND server = $3 AND tool_name = $4 AND args_hash = $5 AND ` + isLive)
	selectHead       = define(`SELECT ` + headColumns + ` FROM approval_requests WHERE id = $1`)
	selectBatch      = define(`SELECT ` + selectColumns + ` FROM approval_requests WHERE batch_id = $1 ORDER BY id`)
	selectBatchHeads = define(`SELECT ` + headColumns + ` FROM approval_requests WHERE batch_id = $1 ORDER BY id`)
	selectExpired    = define(`SELECT ` + headColumns + ` FROM approval_requests
  WHERE status = 'pending' AND expires_at <= $1 ORDER BY expires_at`)
	selectUnused = define(`SELECT ` + headColumns + ` FROM approval_requests
  WHERE status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL AND use_by <= $1 ORDER BY use_by`)
	nextExpiry = define(`SELECT min(expires_at) FROM approval_requests WHERE status = 'pending'`)
	nextUseBy  = define(`SELECT min(use_by) FROM approval_requests
  WHERE status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL`)
	countPending   = define(`SELECT count(*) FROM approval_requests WHERE status = 'pending'`)
	countPendingOf = define(`SELECT count(*) FROM approval_requests WHERE agent = $1 AND ` + isLive + ` AND status = 'pending'`)
)

func (t *tx) Request(id string) (approval.Request, error) {
	if err := t.ready(); err != nil {
		return approval.Request{}, err
	}
	return one(t, t.c.stmt(selectRequest).str(id), scanRequest)
}

func (t *tx) Head(id string) (approval.Head, error) {
	if err := t.ready(); err != nil {
		return approval.Head{}, err
	}
	return one(t, t.c.stmt(selectHead).str(id), scanHead)
}

func (t *tx) Live(k approval.Key) (approval.Request, error) {
	if err := t.ready(); err != nil {
		return approval.Request{}, err
	}
	return one(t, t.c.stmt(selectLive).key(k), scanRequest)
}

// key binds the five columns of a key.
func (s *stmt) key(k approval.Key) *stmt {
	return s.str(k.Agent).str(k.Scope).str(k.Server).str(k.Tool).str(k.ArgsHash)
}

func (t *tx) Batch(batchID string) ([]approval.Request, error) {
	if err := t.ready(); err != nil {
		return nil, err
	}
	return all(t, t.c.stmt(selectBatch).str(batchID), 0, scanRequest)
}

func (t *tx) BatchHeads(batchID string) ([]approval.Head, error) {
	if err := t.ready(); err != nil {
		return nil, err
	}
	return all(t, t.c.stmt(selectBatchHeads).str(batchID), 0, scanHead)
}

func (t *tx) Due(limit int) ([]approval.Head, error) {
	now := t.Now()
	if err := t.ready(); err != nil {
		return nil, err
	}
	pending, err := all(t, t.c.stmt(selectExpired).time(now), limit, scanHead)
	if err != nil {
		return nil, err
	}
	unused, err := all(t, t.c.stmt(selectUnused).time(now), limit, scanHead)
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
	if err := t.ready(); err != nil {
		return time.Time{}, err
	}
	expiry, err := one(t, t.c.stmt(nextExpiry), (*stmt).getTime)
	if err != nil {
		return time.Time{}, err
	}
	useBy, err := one(t, t.c.stmt(nextUseBy), (*stmt).getTime)
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
	if err := t.ready(); err != nil {
		return 0, err
	}
	s := t.c.stmt(countPending)
	if agent != "" {
		s = t.c.stmt(countPendingOf).str(agent)
	}
	n, err := one(t, s, (*stmt).getInt)
	return int(n), err
}

var (
	resolve = define(`UPDATE approval_requests
  SET status = $1, resolved_at = $2, resolved_by = $3, resolved_via = $4, resolve_reason = $5, resolved_seq = $6, use_by = $7, acked_at = NULL
  WHERE id = $8 AND status = 'pending' AND expires_at > $2`)
	expire = define(`UPDATE approval_requests
  SET status = $1, resolved_at = $2, resolved_by = $3, resolved_via = $4, resolve_reason = $5, resolved_seq = $6, use_by = $7, acked_at = NULL
  WHERE id = $8 AND status = 'pending' AND expires_at <= $2`)
	cancel = define(`UPDATE approval_requests
  SET status = $1, resolved_at = $2, resolved_by = $3, resolved_via = $4, resolve_reason = $5, resolved_seq = $6, use_by = $7, acked_at = NULL
  WHERE id = $8 AND ` + isLive)
	consume = define(`UPDATE approval_requests SET consumed_at = $1, acked_at = $1
  WHERE id = $2 AND status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL AND use_by > $1`)
	consumeDispatched = define(`UPDATE approval_requests SET consumed_at = $1, acked_at = $1, dispatched_at = $1
  WHERE id = $2 AND status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL AND use_by > $1`)
	lapse = define(`UPDATE approval_requests SET lapsed_at = use_by, resolved_seq = $1, acked_at = NULL
  WHERE id = $2 AND status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL AND use_by <= $3`)
	ack = define(`UPDATE approval_requests SET acked_at = $1
  WHERE id = $2 AND agent = $3 AND resolved_seq IS NOT NULL AND acked_at IS NULL`)
	addSession = define(`INSERT INTO request_sessions (request, session_id, first_asked) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`)
	selectFeed = define(`SELECT ` + selectColumns + ` FROM approval_requests
  WHERE agent = $1 AND resolved_seq IS NOT NULL AND acked_at IS NULL ORDER BY resolved_seq`)
	selectSessionFeed = define(`SELECT ` + selectColumns + ` FROM approval_requests
  WHERE agent = $1 AND resolved_seq IS NOT NULL AND acked_at IS NULL
    AND EXISTS (SELECT 1 FROM request_sessions s WHERE s.request = approval_requests.id AND s.session_id = $2)
  ORDER BY resolved_seq`)
)

func (t *tx) Resolve(r approval.Resolution) (bool, error) {
	if err := t.write(); err != nil {
		return false, err
	}
	var q *query
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
	s := t.c.stmt(q).str(string(r.Status)).time(r.At).str(r.By).str(string(r.Via)).opt(r.Reason).int(t.w.seq + 1).time(useBy).str(r.ID)
	ok, err := t.changed(s)
	if ok {
		t.w.seq++
		t.w.deadline(useBy)
	}
	return ok, err
}

func (t *tx) Consume(id string, dispatched bool) (bool, error) {
	if err := t.write(); err != nil {
		return false, err
	}
	q := consume
	if dispatched {
		q = consumeDispatched
	}
	return t.changed(t.c.stmt(q).time(t.at).str(id))
}

func (t *tx) Lapse(id string) (bool, error) {
	if err := t.write(); err != nil {
		return false, err
	}
	ok, err := t.changed(t.c.stmt(lapse).int(t.w.seq + 1).str(id).time(t.at))
	if ok {
		t.w.seq++
	}
	return ok, err
}

var addReason = define(`UPDATE approval_requests SET resolve_reason = $1, resolved_seq = $2, acked_at = NULL
  WHERE id = $3 AND status = 'denied' AND resolved_by = $4 AND resolve_reason IS NULL`)

func (t *tx) AddReason(id, by, reason string) (bool, error) {
	if err := t.write(); err != nil {
		return false, err
	}
	ok, err := t.changed(t.c.stmt(addReason).str(reason).int(t.w.seq + 1).str(id).str(by))
	if ok {
		t.w.seq++
	}
	return ok, err
}

func (t *tx) AddSession(id, session string) error {
	if err := t.write(); err != nil {
		return err
	}
	_, err := t.changed(t.c.stmt(addSession).str(id).str(session).time(t.at))
	return err
}

func (t *tx) Feed(agent, session string, limit, bytes int) ([]approval.Request, error) {
	if err := t.ready(); err != nil {
		return nil, err
	}
	if session != "" {
		return some(t, t.c.stmt(selectSessionFeed).str(agent).str(session), limit, bytes, scanRequest)
	}
	return some(t, t.c.stmt(selectFeed).str(agent), limit, bytes, scanRequest)
}

func (t *tx) Ack(agent, id string) (bool, error) {
	if err := t.write(); err != nil {
		return false, err
	}
	return t.changed(t.c.stmt(ack).time(t.at).str(id).str(agent))
}

var (
	selectRecent = define(`SELECT denied_id, denied_at, last_use FROM recent_endings
  WHERE agent = $1 AND scope = $2 AND server = $3 AND tool_name = $4 AND args_hash = $5`)
	putRecent = define(`INSERT INTO recent_endings (agent, scope, server, tool_name, args_hash, denied_id, denied_at, last_use, newest)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
  ON CONFLICT (agent, scope, server, tool_name, args_hash) DO UPDATE
    SET denied_id = excluded.denied_id, denied_at = excluded.denied_at, last_use = excluded.last_use, newest = excluded.newest`)
	deleteRecent = define(`DELETE FROM recent_endings WHERE agent = $1 AND scope = $2 AND server = $3 AND tool_name = $4 AND args_hash = $5`)
)

func (t *tx) Recent(k approval.Key) (approval.Recent, error) {
	if err := t.ready(); err != nil {
		return approval.Recent{}, err
	}
	r, err := one(t, t.c.stmt(selectRecent).key(k), func(s *stmt) (r approval.Recent) {
		r.DeniedID, r.DeniedAt = s.getString(), s.getTime()
		scanJSON(s, &r.Use)
		return r
	})
	if errors.Is(err, approval.ErrNotFound) {
		return approval.Recent{}, nil
	}
	return r, err
}

func (t *tx) PutRecent(k approval.Key, r approval.Recent) error {
	if err := t.write(); err != nil {
		return err
	}
	if r == (approval.Recent{}) {
		_, err := t.changed(t.c.stmt(deleteRecent).key(k))
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
	_, err = t.changed(t.c.stmt(putRecent).key(k).opt(r.DeniedID).time(r.DeniedAt).json(use).time(newest))
	return err
}

const eventColumns = `seq, id, at, event_type, correlation_id, actor, approval_id, agent, tool, risk_level, decision, reason, data`

var (
	appendEvent = define(`INSERT INTO audit_events (` + eventColumns + `)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`)
	seqRange   = define(`SELECT (SELECT min(seq) FROM audit_events), (SELECT max(seq) FROM audit_events)`)
	firstSight = define(`INSERT INTO webhook_events (id, seen_at) VALUES ($1, $2) ON CONFLICT DO NOTHING`)
	pruneSeen  = define(`DELETE FROM webhook_events WHERE id IN (SELECT id FROM webhook_events WHERE seen_at < $1 LIMIT $2)`)
	pruneEnded = define(`DELETE FROM recent_endings WHERE (agent, scope, server, tool_name, args_hash) IN
  (SELECT agent, scope, server, tool_name, args_hash FROM recent_endings WHERE newest < $1 LIMIT $2)`)
)

func (t *tx) Append(e approval.Event) (approval.Event, error) {
	if err := t.write(); err != nil {
		return approval.Event{}, err
	}
	e.ID, e.Seq, e.At = t.NewID(), t.w.seq+1, t.at
	s := t.c.stmt(appendEvent).int(e.Seq).str(e.ID).time(e.At).str(string(e.Type)).opt(e.CorrelationID).opt(e.Actor).opt(e.ApprovalID)
	s.opt(e.Agent).opt(e.Tool).opt(string(e.Risk)).opt(e.Decision).opt(e.Reason).json(e.Data)
	if _, err := t.changed(s); err != nil {
		return approval.Event{}, err
	}
	t.w.seq++
	if t.w.onCommit != nil {
		t.w.told.Events = append(t.w.told.Events, e)
	}
	return e, nil
}

func scanEvent(s *stmt) (e approval.Event) {
	e.Seq, e.ID, e.At, e.Type = s.getInt(), s.getString(), s.getTime(), approval.EventType(s.getString())
	e.CorrelationID, e.Actor, e.ApprovalID, e.Agent, e.Tool = s.getString(), s.getString(), s.getString(), s.getString(), s.getString()
	e.Risk, e.Decision, e.Reason, e.Data = approval.Risk(s.getString()), s.getString(), s.getString(), s.getBytes()
	return e
}

func (t *tx) SeqRange() (oldest, newest int64, err error) {
	if err := t.ready(); err != nil {
		return 0, 0, err
	}
	r, err := one(t, t.c.stmt(seqRange), func(s *stmt) [2]int64 { return [2]int64{s.getInt(), s.getInt()} })
	return r[0], r[1], err
}

func (t *tx) FirstSight(eventID string) (bool, error) {
	if err := t.write(); err != nil {
		return false, err
	}
	return t.changed(t.c.stmt(firstSight).str(eventID).time(t.at))
}

func (t *tx) Prune(events, endings time.Time, limit int) (int, error) {
	if err := t.write(); err != nil {
		return 0, err
	}
	seen, err := t.c.stmt(pruneSeen).time(events).int(int64(limit)).exec()
	if err != nil {
		return 0, t.fail(err)
	}
	ended, err := t.c.stmt(pruneEnded).time(endings).int(int64(limit)).exec()
	if err != nil {
		return 0, t.fail(err)
	}
	t.w.changes = t.w.changes || seen+ended > 0
	return seen + ended, nil
}

// deadline notes that a request will be due then.
func (w *writer) deadline(at time.Time) { w.told.Deadline = earliest(w.told.Deadline, at) }
