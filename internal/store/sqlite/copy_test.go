package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"modernc.org/sqlite"

	"countersign/approval"
	"countersign/internal/testkit"
	"countersign/schema"
)

// copiesOf returns the copies beside a store, the newest last where they are of one version.
func copiesOf(t *testing.T, path string) (copies []string) {
	t.Helper()
	for _, name := range files(t, filepath.Dir(path)) {
		if strings.HasPrefix(name, filepath.Base(path)+".before-") {
			copies = append(copies, filepath.Join(filepath.Dir(path), name))
		}
	}
	return copies
}

// versionOf returns the version of the tables in a file.
func versionOf(t *testing.T, path string) int64 {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	have, err := schema.Have(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return have
}

// sameRows checks that two files hold the same rows of everything that people and agents have made.
func sameRows(t *testing.T, a, b string) {
	t.Helper()
	for _, table := range []string{
		"approval_requests", "request_sessions", "approval_notifications", "audit_events", "recent_endings", "store_state",
	} {
		columns, was := rowsOf(t, a, table)
		if _, is := rowsOf(t, b, table, columns...); !slices.Equal(is, was) {
			t.Errorf("%s of %s: got\n%s\nwant\n%s", table, b, strings.Join(is, "\n"), strings.Join(was, "\n"))
		}
	}
}

// withLog leaves what somebody has written since in the write-ahead log only, as after a kill.
func withLog(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=journal_mode(WAL)&_pragma=wal_autocheckpoint(0)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`INSERT INTO webhook_events VALUES ('only in the log', '2026-11-23T04:42:00.000Z')`); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + "-wal")
	if err != nil || len(log) == 0 {
		t.Fatalf("the log has %d bytes, %v", len(log), err)
	}
	main, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	killed := path + ".killed"
	for name, content := range map[string][]byte{killed: main, killed + "-wal": log} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil { // which empties the log
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		if err := os.Rename(killed+suffix, path+suffix); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAStoreIsCopiedBeforeItsTablesAreChanged(t *testing.T) {
	path, before := oldStore(t), oldStore(t)
	withLog(t, path)
	log := &testkit.Buffer{}
	d := open(t, Options{Path: path, Now: oldNow, Logger: log.Logger()})
	want := fmt.Sprintf("%s.before-v%d-20261123T050000Z", path, schema.Version())
	if copies := copiesOf(t, path); !slices.Equal(copies, []string{want}) {
		t.Fatalf("copies: %q, want %q", copies, want)
	}
	if v := versionOf(t, want); v != 7 {
		t.Errorf("the copy has version %d", v)
	}
	sameRows(t, before, want)
	if _, rows := rowsOf(t, want, "webhook_events"); len(rows) != 1 {
		t.Errorf("what was in the write-ahead log: %q", rows)
	}
	if _, ok := rowsOf(t, want, "pragma_integrity_check"); !slices.Equal(ok, []string{"'ok'"}) {
		t.Errorf("the copy: %q", ok)
	}
	if info, err := os.Stat(want); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy's mode: %v, %v", info.Mode(), err)
	}
	if !strings.Contains(log.String(), "copy="+want) {
		t.Errorf("the log does not say where the copy is:\n%s", log)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, Options{Path: path, Now: oldNow}) // there is nothing to change any more
	if copies := copiesOf(t, path); len(copies) != 1 {
		t.Errorf("copies after another start: %q", copies)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestANewStoreIsNotCopied(t *testing.T) {
	d := open(t, Options{})
	if copies := copiesOf(t, d.path); len(copies) != 0 {
		t.Errorf("copies: %q", copies)
	}
}

func TestTheNewestCopiesAreKept(t *testing.T) {
	path := oldStore(t)
	for _, name := range []string{
		".before-v9-20250101T000000Z", ".before-v7-20260101T000000Z", ".before-v10-20260601T000000Z", // by their time
		".before-v8-mine", ".before-v8-20260101T000000Z.gz", ".before", // somebody else's
	} {
		if err := os.WriteFile(path+name, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open(t, Options{Path: path, Now: oldNow})
	var left []string
	for _, c := range copiesOf(t, path) {
		left = append(left, strings.TrimPrefix(c, path))
	}
	want := []string{
		".before-v10-20260601T000000Z", ".before-v7-20260101T000000Z", ".before-v8-20260101T000000Z.gz",
		".before-v8-mine", fmt.Sprintf(".before-v%d-20261123T050000Z", schema.Version()),
	}
	slices.Sort(want)
	if slices.Sort(left); !slices.Equal(left, want) {
		t.Errorf("left: %q, want %q", left, want)
	}
}

// A file that cannot be made stands in the way of the copy: the tables stay as they were.
func TestNoCopyNoChange(t *testing.T) {
	path, before := oldStore(t), oldStore(t)
	copied := ""
	for i := range copyNames {
		copied = fmt.Sprintf("%s.before-v%d-20261123T05000%dZ", path, schema.Version(), i)
		if err := os.MkdirAll(filepath.Join(copied, "in the way"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(t.Context(), Options{Path: path, Now: oldNow})
	if err == nil {
		d.Close()
		t.Fatal("the store was opened")
	}
	for _, want := range []string{path, "copied", "as they were", "start again"} {
		if approval.CodeOf(err) != approval.CodeStoreUnavailable || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
	if v := versionOf(t, path); v != 7 {
		t.Errorf("the store has version %d", v)
	}
	sameRows(t, before, path)
	for _, name := range files(t, filepath.Dir(path)) {
		if strings.Contains(name, partPrefix) {
			t.Errorf("left behind: %s", name)
		}
	}
	if err := os.RemoveAll(copied); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Path: path, Now: oldNow})
}

// upgrading makes this process the child of [TestKilledWhileUpgrading] if it was started as that: it opens a store and
// is gone at the named point, or at a commit.
func upgrading() bool {
	path, point := os.Getenv("COUNTERSIGN_UPGRADE_STORE"), os.Getenv("COUNTERSIGN_UPGRADE_POINT")
	if path == "" {
		return false
	}
	die := func(name string) {
		if name == point {
			kill()
		}
	}
	var commits atomic.Int32
	sqlite.RegisterConnectionHook(func(c sqlite.ExecQuerierContext, _ string) error {
		c.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 {
			die(fmt.Sprint("commit ", commits.Add(1)))
			return 0
		})
		return nil
	})
	d, err := Open(context.Background(), Options{Path: path, Now: oldNow, Failpoint: die})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if err := d.Close(); err != nil {
		fmt.Println(err)
	}
	return true
}

// Wherever the process ends while a store is brought up to date, the store is as it was or as it is to be, and so is
// its copy; the next start goes on.
func TestKilledWhileUpgrading(t *testing.T) {
	before := oldStore(t)
	points, apart := []string{"copied"}, 7 // each commit is a child process and three stores
	if testkit.Nightly() {
		apart = 1
	}
	for i := 0; i < len(points); i++ {
		path, point := oldStore(t), points[i]
		cmd := testkit.Command(t, os.Args[0])
		cmd.Env = append(os.Environ(), "COUNTERSIGN_UPGRADE_STORE="+path, "COUNTERSIGN_UPGRADE_POINT="+point)
		out, err := cmd.CombinedOutput()
		if killed := err != nil && strings.Contains(err.Error(), "killed"); !killed {
			if err != nil || i < 2 {
				t.Fatalf("%s: the child was not killed: %v, %s", point, err, out)
			}
			break // there was no such commit any more
		}
		version := versionOf(t, path)
		if point == "copied" && version != 7 || version < 7 || version > schema.Version() {
			t.Errorf("%s: the store has version %d", point, version)
		}
		sameRows(t, before, path)
		for _, c := range copiesOf(t, path) {
			sameRows(t, before, c)
		}
		t.Logf("killed at %s: version %d, %d copies", point, version, len(copiesOf(t, path)))
		d := open(t, Options{Path: path, Now: oldNow})
		update(t, d, func(tx approval.Tx) error { return second(tx.Consume(oldApproved, false, "")) })
		view(t, d, func(tx approval.Tx) error {
			rs, err := tx.Requests(approval.RequestQuery{})
			if len(rs) != 9 {
				t.Errorf("%s: %d requests after the next start", point, len(rs))
			}
			return err
		})
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		for _, name := range files(t, filepath.Dir(path)) {
			if strings.Contains(name, partPrefix) {
				t.Errorf("%s: left behind: %s", point, name)
			}
		}
		points = append(points, fmt.Sprint("commit ", i*apart+1))
	}
}
