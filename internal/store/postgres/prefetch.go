package postgres

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"countersign/approval"
)

// What a transaction is about says which rows its function will most likely read. They are fetched with the lock, in
// the same round trip, and are valid until a statement writes to a table that they are from. A statement of which the
// function expects that it changes a row is not waited for either: where it changes none, it fails and so undoes the
// transaction, and the function runs again and waits for what it expects.

// prefetched is a statement that reads, and its rows.
type prefetched struct {
	sql       string
	args      []any
	refetched bool // as soon as something is sent, once it is stale
	stale     bool // a table that it reads was written

	fields []pgconn.FieldDescription
	rows   [][][]byte
}

// mostHeld is how many waiting notifications the outbox reads when a request ends.
const mostHeld = 64

// prefetch queues the statements of the rows that the function will most likely read.
func (t *tx) prefetch() {
	kind, id := t.about.Of()
	_, agent := t.of.Of()
	if agent == "" {
		return
	}
	t.prefetching = true
	defer func() { t.prefetching = false }()
	// What is not there yet is no error: there is no row so far, and nothing was sent.
	switch k := t.about.Call(); {
	case k != (approval.Key{}):
		t.prefetchCall(k)
	case kind == approval.ScopeID:
		_, _ = t.Request(id)
		_, _ = t.Votes(id)
		for _, p := range t.prefetched {
			p.refetched = true // it is returned as it stands then
		}
		_, _ = t.Notifications(approval.NotificationQuery{ApprovalID: id, Narrow: true})
		_, _ = t.HeldFor(agent, mostHeld)
	case kind == approval.ScopeNotification:
		_, _ = t.Notification(id)
		t.prefetchHeadOf(id)
		return
	default:
		return
	}
	_, _ = t.Delegations()
	_ = t.Used(agent)
	_, _ = t.Epoch(agent)
	_, _ = t.Epoch("")
}

// prefetchCall queues what a call is answered by.
func (t *tx) prefetchCall(k approval.Key) {
	if k.Server != "" {
		_, _ = t.Pin("", k.Server, k.Tool)
	}
	_, _ = t.GrantsFor(k.Agent, k.Scope, k.Server, k.Tool)
	_, _ = t.Live(k)
	_, _ = t.Recent(k)
	_, _ = t.CountPending(k.Agent)
	_, _ = t.LastSaid(k.Agent, k.Server, k.Tool)
	if r := t.about.Request(); r != "" {
		_, _ = t.Request(r)
	}
}

// prefetchHeadOf queues the narrow part of the request that a notification is about. Which that is, its row says.
func (t *tx) prefetchHeadOf(notification string) {
	_, _ = t.Head(notification)
	head, q := t.prefetched[len(t.prefetched)-1], &t.queued[len(t.queued)-1]
	q.sql = strings.Replace(q.sql, "WHERE id = $1",
		"WHERE id = (SELECT approval_id FROM approval_notifications WHERE id = $1)", 1)
	q.take = func(results pgx.BatchResults) error {
		err := head.take(results)
		if len(head.rows) > 0 {
			head.args = append([]any{string(head.rows[0][0])}, head.args[1:]...) // what [tx.Head] will ask by
		}
		return err
	}
}

// Ahead implements [approval.Tx].
func (t *tx) Ahead(read func()) {
	if t.prefetching || t.MayRead() != nil {
		return
	}
	before := len(t.queued)
	t.prefetching = true
	read()
	if t.prefetching = false; len(t.queued) > before {
		t.refetch()
		_ = t.Fail(t.flush()) // makes the function fail
	}
}

// queuePrefetch queues a statement whose rows are kept, unless they are there.
func (t *tx) queuePrefetch(sql string, args []any) *prefetched {
	if a := t.lookUp(sql, args); a != nil {
		if a.stale {
			t.queued = append(t.queued, queued{sql: sql, args: args, take: a.take})
		}
		return a
	}
	a := &prefetched{sql: sql, args: args}
	t.prefetched = append(t.prefetched, a)
	t.queued = append(t.queued, queued{sql: sql, args: args, take: a.take})
	return a
}

// take keeps the rows.
func (p *prefetched) take(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	p.rows, p.stale = nil, false
	for rows.Next() {
		row := slices.Clone(rows.RawValues())
		for i, v := range row {
			row[i] = slices.Clone(v)
		}
		p.rows = append(p.rows, row)
	}
	p.fields = slices.Clone(rows.FieldDescriptions())
	return rows.Err()
}

// lookUp returns what was prefetched by a statement, nil where it was not.
func (t *tx) lookUp(sql string, args []any) *prefetched {
	i := slices.IndexFunc(t.prefetched, func(a *prefetched) bool {
		return a.sql == sql && slices.EqualFunc(a.args, args, isSame)
	})
	if i < 0 {
		return nil
	}
	return t.prefetched[i]
}

// findPrefetched returns the rows of a statement as they are now, if it was prefetched; else nil.
func (t *tx) findPrefetched(sql string, args []any) (*prefetched, error) {
	a := t.lookUp(sql, args)
	if a == nil || !a.stale {
		return a, nil
	}
	if t.refetch(); !a.refetched {
		t.queued = append(t.queued, queued{sql: sql, args: args, take: a.take})
	}
	return a, t.flush()
}

func isSame(a, b any) bool {
	if _, ok := a.([]byte); ok {
		return false
	}
	return a == b
}

// refetch queues the statements that are fetched again along with whatever is sent.
func (t *tx) refetch() {
	for _, a := range t.prefetched {
		if a.refetched && a.stale {
			t.queued = append(t.queued, queued{sql: a.sql, args: a.args, take: a.take})
		}
	}
}

// invalidate is called when a statement that writes was run, or queued.
func (t *tx) invalidate(sql string) {
	if t.prefetched == nil {
		return
	}
	table := tableOf(sql)
	for _, a := range t.prefetched {
		a.stale = a.stale || strings.Contains(a.sql, "FROM "+table) || strings.Contains(a.sql, "JOIN "+table)
	}
}

// tableOf is the name of the table that a statement writes, "" where it does not begin with it.
func tableOf(sql string) string {
	sql = strings.TrimPrefix(sql, expected)
	for _, verb := range []string{"INSERT INTO ", "UPDATE ", "DELETE FROM "} {
		if rest, ok := strings.CutPrefix(sql, verb); ok {
			return strings.Fields(rest)[0]
		}
	}
	return ""
}

// A statement that stands between these divides by zero where it changes no row.
const (
	expected       = "WITH changed AS ("
	orElse         = " RETURNING 1) SELECT 1 / count(*) FROM changed"
	codeZeroDivide = "22012"
)

// failing has the texts that orFail has returned.
var failing sync.Map

// orFail is a statement that fails where it changes no row.
func orFail(sql string) string {
	if s, ok := failing.Load(sql); ok {
		return s.(string)
	}
	s := expected + sql + orElse
	failing.Store(sql, s)
	return s
}

// isUnmet reports whether err means that what was expected was not so.
func isUnmet(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == codeZeroDivide
}
