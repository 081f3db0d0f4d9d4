package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/store/sqlite/sqlite3"
)

// refused checks that a store cannot be opened and that the error says so in these words.
func refused(t *testing.T, path string, words ...string) {
	t.Helper()
	d, err := Open(t.Context(), Options{Path: path, BusyTimeout: 50 * time.Millisecond})
	if err == nil {
		d.Close()
		t.Fatalf("%s was opened", path)
	}
	if approval.CodeOf(err) != approval.CodeStoreUnavailable {
		t.Errorf("%s: code %s of %v", path, approval.CodeOf(err), err)
	}
	e, _ := errors.AsType[*approval.Error](err)
	for _, w := range append(words, path) {
		if e == nil || !strings.Contains(e.Message, w) {
			t.Errorf("%v\ndoes not say %q", err, w)
		}
	}
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	t.Run("no path", func(t *testing.T) {
		for _, p := range []string{"", ":memory:"} {
			if _, err := Open(t.Context(), Options{Path: p}); approval.CodeOf(err) != approval.CodeStoreUnavailable {
				t.Errorf("path %q: %v", p, err)
			}
		}
	})
	t.Run("no folder", func(t *testing.T) { refused(t, filepath.Join(dir, "none", "store.db"), "folder does not exist") })
	t.Run("a folder", func(t *testing.T) {
		p := filepath.Join(dir, "folder")
		if err := os.Mkdir(p, 0o700); err != nil {
			t.Fatal(err)
		}
		refused(t, p, "cannot be opened")
	})
	t.Run("not a database", func(t *testing.T) {
		p := filepath.Join(dir, "text.db")
		text := []byte(strings.Repeat("this is no database ", 100))
		if err := os.WriteFile(p, text, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, p, "not a database")
		if got, _ := os.ReadFile(p); string(got) != string(text) {
			t.Error("the file was changed")
		}
	})
	t.Run("damaged", func(t *testing.T) {
		p := filepath.Join(dir, "damaged.db")
		if err := open(t, Options{Path: p}).Close(); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(p, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt(make([]byte, 8000), 100); err != nil {
			t.Fatal(err)
		}
		refused(t, p, "damaged")
	})
	t.Run("another program's", func(t *testing.T) {
		p := filepath.Join(dir, "other.db")
		execute(t, p, `CREATE TABLE songs (title TEXT)`)
		before, _ := os.ReadFile(p)
		refused(t, p, "another program")
		if after, _ := os.ReadFile(p); string(after) != string(before) {
			t.Error("the file was changed")
		}
	})
	t.Run("newer", func(t *testing.T) {
		p := filepath.Join(dir, "newer.db")
		if err := open(t, Options{Path: p}).Close(); err != nil {
			t.Fatal(err)
		}
		execute(t, p, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)`)
		before, _ := os.ReadFile(p)
		refused(t, p, "newer version", "99")
		if after, _ := os.ReadFile(p); string(after) != string(before) {
			t.Error("the file was changed")
		}
	})
	t.Run("locked", func(t *testing.T) {
		p := filepath.Join(dir, "locked.db")
		db, err := sql.Open("sqlite", p)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(1)
		for _, stmt := range []string{"CREATE TABLE x (y)", "BEGIN EXCLUSIVE"} {
			if _, err := db.Exec(stmt); err != nil {
				t.Fatal(err)
			}
		}
		refused(t, p, "locked by another process")
	})
	t.Run("under a file", func(t *testing.T) {
		p := filepath.Join(dir, "file")
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, filepath.Join(p, "store.db"), "cannot be opened")
	})
}

func execute(t *testing.T, path, stmt string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(stmt); err != nil {
		t.Fatal(err)
	}
}

func TestPathIsTakenAsItIs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file:a b?mode=ro&x#y%41.db")
	d := open(t, Options{Path: path})
	update(t, d, func(tx approval.Tx) error { return second(create(tx, "bot", "pay")) })
	checkWhole(t, d)
	for _, name := range files(t, dir) {
		if !strings.HasPrefix(name, filepath.Base(path)) {
			t.Errorf("the store has made %q", name)
		}
	}
}

func TestOneProcessOwnsAStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	// A lock file that somebody left behind is no obstacle.
	if err := os.WriteFile(path+".lock", []byte("process 1 on another host, long gone, with a long name\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	d := open(t, Options{Path: path})
	host, _ := os.Hostname()
	refused(t, path, "in use", fmt.Sprintf("process %d on %s;", os.Getpid(), host))
	update(t, d, func(tx approval.Tx) error { return second(create(tx, "bot", "pay")) }) // the owner is not disturbed
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(checkWhole(t, open(t, Options{Path: path}))); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// While another process holds the lock, callers get out when their contexts end, though the writer goes
// on trying, and afterwards the store goes on.
func TestLockedByAnother(t *testing.T) {
	d := open(t, Options{BusyTimeout: 24 * time.Hour})
	other := hold(t, d.path)
	for i := range 3 { // the first is in the writer's hands, the others in its queue
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		err := d.Update(ctx, approval.WholeStore(), func(approval.Tx) error { t.Error("ran"); return nil })
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || approval.CodeOf(err) != approval.CodeStoreUnavailable {
			t.Errorf("caller %d: %v", i, err)
		}
	}
	view(t, d, func(tx approval.Tx) error { _, err := tx.Requests(approval.RequestQuery{}); return err })
	if err := other.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	update(t, d, func(tx approval.Tx) error { return second(create(tx, "bot", "pay")) })
}

func TestLockedByAnotherForTooLong(t *testing.T) {
	d := open(t, Options{BusyTimeout: 10 * time.Millisecond})
	other := hold(t, d.path)
	err := d.Update(t.Context(), approval.WholeStore(), func(approval.Tx) error { t.Error("ran"); return nil })
	if e, _ := errors.AsType[*approval.Error](err); e == nil || e.Code != approval.CodeStoreUnavailable ||
		!strings.Contains(e.Message, "locked by another process") {
		t.Errorf("got %v", err)
	}
	if err := other.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	update(t, d, func(tx approval.Tx) error { return second(create(tx, "bot", "pay")) })
}

// hold locks the database as another process would.
func hold(t *testing.T, path string) *sqlite3.Conn {
	t.Helper()
	c, err := sqlite3.Open(path, sqlite3.Options{BusyTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return c
}

func big(tx approval.Tx, tool string) error {
	now := tx.Now()
	return tx.InsertRequest(approval.Request{
		ID: tx.NewID(), Agent: "big", Tool: tool, Args: make([]byte, 1<<20), ArgsHash: strings.Repeat("b", 64),
		Risk:   approval.RiskLow,
		Status: approval.Pending, RequestedAt: now, ExpiresAt: now,
	})
}

// SQLite ends the whole transaction when the disk is full in the midst of a statement. Nobody of the
// group may be told that they are stored then, and everybody gets another try.
func TestTransactionLostInAGroup(t *testing.T) {
	runs := map[string]int{}
	d := open(t, Options{})
	end := func(tx approval.Tx) error { return tx.(interface{ rollbackForTest() error }).rollbackForTest() }
	errs := grouped(t, d,
		func(tx approval.Tx) error { runs["a"]++; return second(create(tx, "bot", "a")) },
		func(tx approval.Tx) error {
			runs["b"]++
			if _, err := create(tx, "bot", "b"); err != nil {
				return err
			}
			if runs["b"] == 1 {
				return end(tx)
			}
			return nil
		},
		func(tx approval.Tx) error { runs["c"]++; return second(create(tx, "bot", "c")) })
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if n := len(checkWhole(t, d)); n != 3 {
		t.Errorf("%d requests stored, want 3", n)
	}
	if runs["a"] != 2 || runs["b"] != 2 || runs["c"] != 1 {
		t.Errorf("runs: %v", runs)
	}
}

// rollbackForTest does what SQLite does by itself when it must.
func (t *tx) rollbackForTest() error { return t.c.Exec("ROLLBACK") }

func TestDiskFull(t *testing.T) {
	d := open(t, Options{pragmas: []string{"max_page_count = 200"}})
	errs := grouped(t, d,
		func(tx approval.Tx) error { return second(create(tx, "bot", "before")) },
		func(tx approval.Tx) error { return big(tx, "too big") },
		func(tx approval.Tx) error { return second(create(tx, "bot", "after")) })
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("neighbours of one that is too big: %v", errs)
	}
	if e, _ := errors.AsType[*approval.Error](errs[1]); e == nil || e.Code != approval.CodeStoreUnavailable ||
		!strings.Contains(e.Message, "full") {
		t.Errorf("one that is too big: %v", errs[1])
	}
	// Until nothing fits any more; who is told so is not stored, who is not told so is.
	stored := 2
	for i := range 1000 {
		if err := d.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
			return second(create(tx, "bot", fmt.Sprint(i)))
		}); err != nil {
			if approval.CodeOf(err) != approval.CodeStoreUnavailable {
				t.Fatal(err)
			}
			break
		}
		stored++
	}
	if n := len(checkWhole(t, d)); n != stored || stored > 900 {
		t.Errorf("%d stored, %d were told so", n, stored)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, Options{Path: d.path}) // there is room again
	update(t, d, func(tx approval.Tx) error { return second(create(tx, "bot", "more")) })
	if n := len(checkWhole(t, d)); n != stored+1 {
		t.Errorf("%d stored, want %d", n, stored+1)
	}
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	d := open(t, Options{Path: path})
	update(t, d, func(tx approval.Tx) error { return second(create(tx, "bot", "pay")) })
	names := files(t, dir)
	if len(names) != 6 {
		t.Errorf("files: %v, want the database, its log, its index, the event log, the mark and the lock", names)
	}
	for _, name := range names {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s has mode %o, want 600", name, got)
		}
	}
}

// This is why the writer's statements run on its own account: SQLite rolls back everything, whatever the
// savepoint, when a statement that writes is interrupted.
func TestCancelledStatementEndsTheTransaction(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	exec := func(ctx context.Context, stmt string) error {
		_, err := c.ExecContext(ctx, stmt)
		return err
	}
	for _, stmt := range []string{`CREATE TABLE t (x)`, `BEGIN IMMEDIATE`, `SAVEPOINT a`,
		`INSERT INTO t VALUES ('neighbour')`, `RELEASE a`, `SAVEPOINT b`} {
		if err := exec(t.Context(), stmt); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err = exec(ctx, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) INSERT INTO t SELECT i FROM n`)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the statement that was cancelled: %v", err)
	}
	if err := exec(t.Context(), `ROLLBACK TO b`); err == nil || !strings.Contains(err.Error(), "no such savepoint") {
		t.Errorf("ROLLBACK TO after the cancellation: %v; want no such savepoint", err)
	}
	var n int
	if err := c.QueryRowContext(t.Context(), `SELECT count(*) FROM t`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows (%v): the neighbour's row is still there, so the writer could run statements on a caller's context",
			n, err)
	}
}
