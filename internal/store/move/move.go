// Package move takes the rows of a store to a database of another kind: from a file to PostgreSQL, or back.
//
// All of it is one transaction of the database that they go to, which is there whole or not at all. What was open where
// they were may go on to be used there, if an older copy of it is started: so all that is open ends when the first gate
// starts on them where they are now, as after a backup was restored. And where they were no gate starts any more.
package move

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"iter"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"countersign/internal/store"
	"countersign/internal/store/postgres"
	"countersign/internal/store/sqlite"
)

// Table is what was moved of a table.
type Table struct {
	Name string `json:"table"`
	Rows int64  `json:"rows"`
}

// Moved is what a move came to.
type Moved struct {
	Tables []Table `json:"tables"`
	// Audit is the SHA-256 of the audit log, row by row, as it was read from where it was and from where it is now.
	Audit string `json:"audit_sha256,omitempty"`
}

// Rows is how many rows there are in all.
func (m Moved) Rows() (n int64) {
	for _, t := range m.Tables {
		n += t.Rows
	}
	return n
}

// Progress is told how many rows of a table have been moved, of how many, every so often and at its end.
type Progress func(table string, rows, of int64)

// Way is from which store rows are taken to which. One is a file, the other one a PostgreSQL database.
type Way struct {
	file, url string
	toServer  bool
}

// Parse reads two stores as a configuration names them. Its errors quote neither: they may have a password.
func Parse(from, to string) (Way, error) {
	w := Way{toServer: isServer(to)}
	var isFile bool
	if w.url = from; w.toServer {
		w.url, to = to, from
	}
	w.file, isFile = strings.CutPrefix(to, "sqlite:")
	if !isFile || w.file == "" || !isServer(w.url) {
		return Way{}, errors.New("one store is sqlite:FILE, and the other one postgres://user@host/database")
	}
	return w, nil
}

func isServer(at string) bool {
	return strings.HasPrefix(at, "postgres://") || strings.HasPrefix(at, "postgresql://")
}

// ToServer reports whether the rows go to PostgreSQL.
func (w Way) ToServer() bool { return w.toServer }

// Run takes the rows along, and tells of it; nil: nobody. Its errors say what to do, and most are
// [approval.CodeStoreUnavailable]. Then nothing has changed, unless it says otherwise.
func (w Way) Run(ctx context.Context, tell Progress) (Moved, error) {
	if tell == nil {
		tell = func(string, int64, int64) {}
	}
	if w.toServer {
		return toPostgres(ctx, w.file, w.url, tell)
	}
	return toSQLite(ctx, w.url, w.file, tell)
}

// Count returns how many rows there are to be taken along, and changes nothing. It fails where one of the stores cannot
// be reached, or there are rows where these are to go.
func (w Way) Count(ctx context.Context) (Moved, error) {
	var from, to map[string]int64
	var err error
	if w.toServer {
		if from, err = sqlite.CountRows(ctx, w.file); err == nil {
			to, err = postgres.CountRows(ctx, w.url)
		}
	} else if from, err = postgres.CountRows(ctx, w.url); err == nil {
		err = sqlite.CheckFree(w.file)
	}
	if err != nil {
		return Moved{}, err
	}
	var m Moved
	for _, table := range store.MovedTables() {
		if to[table] > 0 {
			return Moved{}, postgres.ErrHasRows(table)
		}
		m.Tables = append(m.Tables, Table{table, from[table]})
	}
	return m, nil
}

// source is where rows are.
type source interface {
	Count(ctx context.Context, table string) (int64, error)
	Rows(ctx context.Context, table string, columns []store.MovedColumn) iter.Seq2[[]any, error]
	State(ctx context.Context) (store.MovedState, error)
	Leave(ctx context.Context, to string) error
}

// target is where they go.
type target interface {
	Count(ctx context.Context, table string) (int64, error)
	Rows(ctx context.Context, table string, columns []store.MovedColumn) iter.Seq2[[]any, error]
	Put(ctx context.Context, table string, columns []store.MovedColumn, rows iter.Seq2[[]any, error]) error
	Arrive(ctx context.Context, s store.MovedState) error
}

func toPostgres(ctx context.Context, path, url string, tell Progress) (_ Moved, err error) {
	from, err := sqlite.Leave(ctx, path)
	if err != nil {
		return Moved{}, err
	}
	defer func() { _ = from.Close() }() // what it has come to is committed by then, or undone
	to, err := postgres.BeginMove(ctx, url)
	if err != nil {
		return Moved{}, err
	}
	defer func() { _ = to.Close() }()
	if err := to.CheckEmpty(ctx); err != nil {
		return Moved{}, err
	}
	return take(ctx, from, to, to, to.Name(), tell)
}

func toSQLite(ctx context.Context, url, path string, tell Progress) (_ Moved, err error) {
	from, err := postgres.BeginMove(ctx, url)
	if err != nil {
		return Moved{}, err
	}
	defer func() { _ = from.Close() }()
	to, err := sqlite.Arrive(ctx, path)
	if err != nil {
		return Moved{}, err
	}
	defer func() { _ = to.Close() }()
	if path, err = filepath.Abs(path); err != nil {
		return Moved{}, err
	}
	return take(ctx, from, to, from, path, tell)
}

// take takes all rows. Of both databases, known tells the columns.
func take(ctx context.Context, from source, to target, known *postgres.Move, name string, tell Progress,
) (Moved, error) {
	state, err := from.State(ctx)
	if err != nil {
		return Moved{}, err
	}
	var m Moved
	for _, table := range store.MovedTables() {
		columns, err := known.Columns(ctx, table)
		if err != nil {
			return Moved{}, err
		}
		t := taking{table: table, columns: columns, digest: sha256.New(), tell: tell}
		if t.of, err = from.Count(ctx, table); err != nil {
			return Moved{}, err
		}
		if err := to.Put(ctx, table, columns, t.watch(from.Rows(ctx, table, columns), &state)); err != nil {
			return Moved{}, err
		}
		if m.Audit, err = t.check(ctx, to); err != nil { // the audit log is the last
			return Moved{}, err
		}
		tell(table, t.n, t.of)
		m.Tables = append(m.Tables, Table{table, t.n})
	}
	if err := ctx.Err(); err != nil {
		return Moved{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin) // both, or neither
	defer cancel()
	if err := to.Arrive(ctx, state); err != nil {
		return Moved{}, fmt.Errorf("whether the rows are in %s is not known; look there before you start a gate: %w", name,
			err)
	}
	if err := from.Leave(ctx, name); err != nil {
		return Moved{}, fmt.Errorf("all rows are in %s, but where they were this could not be noted; start no gate there: %w",
			name, err)
	}
	return m, nil
}

// settleWithin is how long it may take to commit, at the end.
const settleWithin = 5 * time.Minute

// tellEvery is after how many rows of a table it is told how far it is.
const tellEvery = 100_000

// taking is the rows of one table on their way.
type taking struct {
	table   string
	columns []store.MovedColumn
	n, of   int64
	digest  hash.Hash
	tell    Progress
}

// watch counts and digests rows as they pass, and finds the newest id.
func (t *taking) watch(rows iter.Seq2[[]any, error], state *store.MovedState) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		for row, err := range rows {
			if err == nil {
				t.note(row, state)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func (t *taking) note(row []any, state *store.MovedState) {
	t.n++
	if t.n%tellEvery == 0 && t.n < t.of {
		t.tell(t.table, t.n, t.of)
	}
	for i, c := range t.columns {
		if id, ok := row[i].(string); ok && c.Name == "id" && t.table != foreignIDs && id > state.LastID {
			state.LastID = id
		}
	}
	if t.table == store.EventTable {
		addTo(t.digest, row)
	}
}

// foreignIDs is the table whose ids are the platforms'.
const foreignIDs = "webhook_events"

// addTo adds a row to a digest: a line of values, of which a text is quoted as in Go.
func addTo(digest hash.Hash, row []any) {
	var line []byte
	for _, v := range row {
		switch v := v.(type) {
		case string:
			line = strconv.AppendQuote(line, v)
		case time.Time:
			line = strconv.AppendInt(line, v.UnixMilli(), 10)
		default:
			line = fmt.Append(line, v)
		}
		line = append(line, ' ')
	}
	digest.Write(append(line, '\n'))
}

// check sees that a table has as many rows in both, and that the audit log is the same, whose digest it returns.
func (t *taking) check(ctx context.Context, to target) (string, error) {
	is, err := to.Count(ctx, t.table)
	if err != nil {
		return "", err
	}
	if t.of != t.n || is != t.n {
		return "", fmt.Errorf("%s has %d rows, and %d were read and %d written: nothing was moved", t.table, t.of, t.n, is)
	}
	if t.table != store.EventTable {
		return "", nil
	}
	again := sha256.New()
	for row, err := range to.Rows(ctx, t.table, t.columns) {
		if err != nil {
			return "", err
		}
		addTo(again, row)
	}
	sum := hex.EncodeToString(t.digest.Sum(nil))
	if sum != hex.EncodeToString(again.Sum(nil)) {
		return "", errors.New("the audit log is another one than it was: nothing was moved")
	}
	return sum, nil
}
