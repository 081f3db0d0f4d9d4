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

// Most of what a function will ask is known from what its transaction is about: it is asked with the lock, and its
// answer kept until something is written that could change it. What the function then expects to change a row is not
// waited for either: the statement ends the transaction where it changes none, and the function runs again.

// ahead is what was asked ahead, and its answer.
type ahead struct {
	sql      string
	args     []any
	again    bool // where the answer is out of date it is asked anew with whatever is sent next
	outdated bool

	fields []pgconn.FieldDescription
	rows   [][][]byte
}

// heldAhead is how many waiting notifications are looked at when a request ends.
const heldAhead = 64

// askAhead queues what the function is likely to ask.
func (t *tx) askAhead() {
	kind, id := t.about.Of()
	_, agent := t.of.Of()
	if agent == "" {
		return
	}
	t.ahead = true
	defer func() { t.ahead = false }()
	// What is not there yet is no error: there is no row so far, and nothing was sent.
	if k := t.about.Call(); k != (approval.Key{}) {
		if k.Server != "" {
			_, _ = t.Pin("", k.Server, k.Tool)
		}
		_, _ = t.GrantsFor(k.Agent, k.Scope, k.Server, k.Tool)
		_, _ = t.Live(k)
		_, _ = t.Recent(k)
		_, _ = t.CountPending(k.Agent)
		_, _ = t.LastSaid(k.Agent, k.Server, k.Tool)
	} else if kind == approval.ScopeID {
		_, _ = t.Request(id)
		t.asked[len(t.asked)-1].again = true // it is returned as it stands then
		_, _ = t.Notifications(approval.NotificationQuery{ApprovalID: id, Narrow: true})
		_, _ = t.HeldFor(agent, heldAhead)
	} else {
		return
	}
	_, _ = t.Epoch(agent)
	_, _ = t.Epoch("")
}

// ask queues what is asked ahead.
func (t *tx) ask(sql string, args []any) *ahead {
	a := &ahead{sql: sql, args: args}
	t.asked = append(t.asked, a)
	t.queued = append(t.queued, queued{sql: sql, args: args, take: a.take})
	return a
}

// take keeps the answer.
func (a *ahead) take(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	a.rows, a.outdated = nil, false
	for rows.Next() {
		row := slices.Clone(rows.RawValues())
		for i, v := range row {
			row[i] = slices.Clone(v)
		}
		a.rows = append(a.rows, row)
	}
	a.fields = slices.Clone(rows.FieldDescriptions())
	return rows.Err()
}

// answerTo returns the answer to what was asked ahead, nil where it was not.
func (t *tx) answerTo(sql string, args []any) (*ahead, error) {
	i := slices.IndexFunc(t.asked, func(a *ahead) bool { return a.sql == sql && slices.EqualFunc(a.args, args, isSame) })
	if i < 0 {
		return nil, nil
	}
	a := t.asked[i]
	if !a.outdated {
		return a, nil
	}
	if t.askAgain(); !a.again {
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

// askAgain queues what is worth asking anew, since something is sent anyway.
func (t *tx) askAgain() {
	for _, a := range t.asked {
		if a.again && a.outdated {
			t.queued = append(t.queued, queued{sql: a.sql, args: a.args, take: a.take})
		}
	}
}

// outdate is called when something is written, or is queued to be.
func (t *tx) outdate(sql string) {
	if t.asked == nil {
		return
	}
	table := tableOf(sql)
	for _, a := range t.asked {
		a.outdated = a.outdated || strings.Contains(a.sql, "FROM "+table) || strings.Contains(a.sql, "JOIN "+table)
	}
}

// tableOf is the name of the table that a statement writes, "" where it does not begin with it.
func tableOf(sql string) string {
	sql = strings.TrimPrefix(sql, expected)
	for _, verb := range []string{"INSERT INTO ", "UPDATE ", "DELETE FROM "} {
		if rest, ok := strings.CutPrefix(sql, verb); ok {
			name, _, _ := strings.Cut(rest, " ")
			return name
		}
	}
	return ""
}

// What a statement begins and ends with that fails where it changes no row.
const (
	expected       = "WITH changed AS ("
	orElse         = " RETURNING 1) SELECT 1 / count(*) FROM changed"
	codeZeroDivide = "22012"
)

var expectations sync.Map

// expecting is a statement that changes a row or fails.
func expecting(sql string) string {
	if s, ok := expectations.Load(sql); ok {
		return s.(string)
	}
	s := expected + sql + orElse
	expectations.Store(sql, s)
	return s
}

// isSurprise reports whether err means that what was expected was not so.
func isSurprise(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == codeZeroDivide
}
