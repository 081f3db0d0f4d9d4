package sqlite3

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	insertRow Query = iota
	selectRow
	selectAll
	noSuchTable
)

var queries = []string{
	insertRow:   `INSERT INTO t (id, a, b, c, d) VALUES ($1, $2, $3, $4, $5)`,
	selectRow:   `SELECT a, b, c, d FROM t WHERE id = $1`,
	selectAll:   `SELECT id FROM t ORDER BY id`,
	noSuchTable: `SELECT 1 FROM nowhere`,
}

// connect opens an empty database with one table.
func connect(t *testing.T) *Conn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := reopen(t, path)
	if err := c.Exec(`CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c, d)`); err != nil {
		t.Fatal(err)
	}
	return c
}

func reopen(t *testing.T, path string) *Conn {
	t.Helper()
	c, err := Open(path, Options{Pragmas: []string{"journal_mode = WAL"}, Queries: queries})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

type blob []byte

// bind binds values of the types that there are.
func bind(s *Stmt, values ...any) *Stmt {
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			s.BindNull()
		case string:
			s.BindText(v)
		case []byte:
			s.BindTextBytes(v)
		case blob:
			s.BindBlob(v)
		case int:
			s.BindInt(int64(v))
		case int64:
			s.BindInt(v)
		case time.Time:
			s.BindTime(v)
		}
	}
	return s
}

// What is bound is read again, whatever was bound in the same place before.
func TestValuesAreKept(t *testing.T) {
	c := connect(t)
	at := time.Date(2026, 11, 21, 12, 30, 0, 7_000_000, time.UTC)
	long := strings.Repeat("日本", bufferSize)
	for i, row := range []struct {
		bind []any
		want string // the columns' types, by SQLite, and what is read of them
		read func(s *Stmt) string
	}{
		{
			[]any{"é\x00x", "", nil, "y"},
			`text text null text: "é\x00x" "" "" "y"`,
			func(s *Stmt) string {
				return fmt.Sprintf("%q %q %q %q", s.ColumnText(), s.ColumnText(), s.ColumnText(), s.ColumnText())
			},
		},
		{
			[]any{[]byte(nil), nil, blob(nil), blob{0, 255}},
			`text null blob blob: [] [] [] [0 255]`,
			func(s *Stmt) string {
				return fmt.Sprint(s.ColumnBytes(), s.ColumnBytes(), s.ColumnBytes(), s.ColumnBytes())
			},
		},
		{
			[]any{int64(-1 << 63), nil, 7, 0},
			`integer null integer integer: -9223372036854775808 0 7 0`,
			func(s *Stmt) string { return fmt.Sprint(s.ColumnInt(), s.ColumnInt(), s.ColumnInt(), s.ColumnInt()) },
		},
		{
			[]any{1, 0, at, time.Time{}},
			`integer integer text null: 1 0 ` + at.String() + ` 0001-01-01 00:00:00 +0000 UTC`,
			func(s *Stmt) string {
				return fmt.Sprint(s.ColumnInt(), s.ColumnInt(), s.ColumnTime(), s.ColumnTime())
			},
		},
		{
			[]any{long, []byte(long), "x", nil},
			`text text text null: true true x 0`,
			func(s *Stmt) string {
				return fmt.Sprintf("%v %v %s %d", s.ColumnText() == long, s.ColumnText() == long, s.ColumnText(), s.ColumnInt())
			},
		},
	} {
		if n, err := bind(bind(c.Stmt(insertRow), i), row.bind...).Exec(); err != nil || n != 1 {
			t.Fatalf("row %d: %d changed, %v", i, n, err)
		}
		types := c.PrepareCached(
			`SELECT typeof(a) || ' ' || typeof(b) || ' ' || typeof(c) || ' ' || typeof(d) FROM t WHERE id = $1`)
		bind(types, i).Step()
		got := types.ColumnText()
		if _, err := types.Finish(); err != nil {
			t.Fatal(err)
		}
		s := bind(c.Stmt(selectRow), i)
		if !s.Step() {
			t.Fatalf("row %d is not there: %v", i, s.Err())
		}
		if got += ": " + row.read(s); got != row.want {
			t.Errorf("row %d:\n got %s\nwant %s", i, got, row.want)
		}
		if _, err := s.Finish(); err != nil {
			t.Error(err)
		}
	}
	if got := c.Texts(); len(got) != 1 {
		t.Errorf("statements made up at run time: %q, want one", got)
	}
}

// An execution's first error is returned at its end, and the next execution begins without it.
func TestTheFirstErrorSticks(t *testing.T) {
	c := connect(t)
	boom := errors.New("boom")
	s := bind(c.Stmt(insertRow), 1)
	s.Fail(boom)
	s.Fail(errors.New("later"))
	if _, err := bind(s, "x", time.Now(), nil, 1).Exec(); err != boom {
		t.Errorf("got %v, want boom", err)
	}
	year := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := bind(c.Stmt(insertRow), 1, year).Exec(); err == nil {
		t.Error("a year of five digits was stored")
	}
	bind(c.Stmt(insertRow), 99) // is never run
	for i := range 2 {
		if n, err := bind(c.Stmt(insertRow), i, "not a time", nil, nil, nil).Exec(); n != 1 || err != nil {
			t.Fatalf("after an error: %d, %v", n, err)
		}
	}
	s = bind(c.Stmt(selectRow), 1)
	s.Step()
	if got := s.ColumnTime(); !got.IsZero() || s.Err() == nil {
		t.Errorf("a text that is no time was read as %v, %v", got, s.Err())
	}
	if _, err := s.Finish(); err == nil {
		t.Error("Finish has lost the error")
	}
	var ids []int64
	s = c.Stmt(selectAll)
	for s.Step() {
		ids = append(ids, s.ColumnInt())
	}
	if _, err := s.Finish(); err != nil || !slices.Equal(ids, []int64{0, 1}) {
		t.Errorf("rows %v, %v", ids, err)
	}
}

func TestErrorsHaveTheirCode(t *testing.T) {
	c := connect(t)
	code := func(err error) Code {
		e, _ := errors.AsType[*Error](err)
		if e == nil {
			return -1
		}
		return e.Code
	}
	if _, err := c.Stmt(noSuchTable).Exec(); code(err) != 1 || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a statement that cannot be prepared: %v", err)
	}
	insert := func() error {
		_, err := bind(c.Stmt(insertRow), 1, nil, nil, nil, nil).Exec()
		return err
	}
	if err := insert(); err != nil {
		t.Fatal(err)
	}
	const constraint = 19
	if err := insert(); code(err) == constraint || code(err).Primary() != constraint {
		t.Errorf("a second row of an id: %v, want an extended code", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none.db"), Options{}); code(err).Primary() != CodeCantOpen {
		t.Errorf("a file that is not there: %v", err)
	}
	if got := FromDriver(context.Canceled); got != context.Canceled {
		t.Errorf("an error that is not the driver's became %v", got)
	}
}

func TestInterrupt(t *testing.T) {
	c := connect(t)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for { // one that comes before the statement has begun is forgotten
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
				c.Interrupt()
			}
		}
	}()
	err := c.Exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0`)
	close(ended)
	testkit.Receive(t, "the end of the interrupts", done)
	if e, _ := errors.AsType[*Error](err); e == nil || e.Code.Primary() != CodeInterrupt {
		t.Errorf("an endless read ended with %v", err)
	}
	if _, err := c.Stmt(selectAll).Exec(); err != nil {
		t.Errorf("the connection does not work any more: %v", err)
	}
}

func TestInTransaction(t *testing.T) {
	c := connect(t)
	for _, step := range []struct {
		sql  string
		want bool
	}{{"BEGIN", true}, {"COMMIT", false}, {"BEGIN IMMEDIATE", true}, {"ROLLBACK", false}} {
		if err := c.Exec(step.sql); err != nil || c.InTransaction() != step.want {
			t.Errorf("after %s: %v, %v", step.sql, c.InTransaction(), err)
		}
	}
}

// A connection keeps as many statements made up at run time as it may, and no more.
func TestCachedStatementsAreBounded(t *testing.T) {
	c := connect(t)
	for i := range 2*maxCached + 1 {
		s := c.PrepareCached(fmt.Sprintf("SELECT %d", i))
		if !s.Step() || s.ColumnInt() != int64(i) {
			t.Fatalf("statement %d: %v", i, s.Err())
		}
		if _, err := s.Finish(); err != nil {
			t.Fatal(err)
		}
		if n := len(c.Texts()); n > maxCached {
			t.Fatalf("%d statements are kept, at most %d may be", n, maxCached)
		}
	}
}

func TestCloseTwice(t *testing.T) {
	c := connect(t)
	if _, err := c.Stmt(selectAll).Exec(); err != nil {
		t.Fatal(err)
	}
	var none *Conn
	if err := errors.Join(c.Close(), c.Close(), none.Close()); err != nil {
		t.Error(err)
	}
}
