package sqlite

import (
	"bytes"
	"database/sql"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"countersign/approval"
	"countersign/schema"
	"countersign/schema/schematest"
)

// closed makes a store of so many requests and closes it.
func closed(t *testing.T, requests int) (path string) {
	t.Helper()
	path = schematest.NewFile(t)
	d, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for i := range requests {
		update(t, d, func(tx approval.Tx) error { return second(create(tx, "bot", string(rune('a'+i)))) })
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// backedUp makes a backup of a store.
func backedUp(t *testing.T, path string) (to string) {
	t.Helper()
	to = filepath.Join(t.TempDir(), "backup.db")
	if _, err := Backup(t.Context(), path, to); err != nil {
		t.Fatal(err)
	}
	return to
}

// prepared opens a copy to be restored.
func prepared(t *testing.T, path, from string) *Restoration {
	t.Helper()
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := PrepareRestore(t.Context(), path, f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// restore puts a copy in the place of a store.
func restore(t *testing.T, path, from string) (kept string) {
	t.Helper()
	r := prepared(t, path, from)
	kept, err := r.Put(oldNow())
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return kept
}

// allFiles are the contents of a store's folder by name.
func allFiles(t *testing.T, path string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range files(t, filepath.Dir(path)) {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(b)
	}
	return all
}

// The copy is in the store's place, the store beside it, and the next start takes it for restored.
func TestRule4_ARestoredCopyIsTakenForOne(t *testing.T) {
	path := closed(t, 2)
	copied := backedUp(t, path)
	startOnce(t, path, 1, false)
	recorded := path + eventLogSuffix
	if err := os.WriteFile(recorded, []byte("records"), 0o600); err != nil {
		t.Fatal(err)
	}
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kept := restore(t, path, copied)
	if want := path + ".before-restore-20261123T050000Z"; kept != want {
		t.Errorf("the old store is at %s, want %s", kept, want)
	}
	if is, err := os.ReadFile(kept); err != nil || !bytes.Equal(is, was) {
		t.Errorf("the old store is not as it was: %v", err)
	}
	if is, err := os.ReadFile(kept + eventLogSuffix); err != nil || string(is) != "records" {
		t.Errorf("its event log: %q, %v", is, err)
	}
	if names := files(t, filepath.Dir(path)); slices.ContainsFunc(names, func(name string) bool {
		return strings.HasPrefix(name, partPrefix)
	}) {
		t.Errorf("the folder has %q", names)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the restored store: %v, %v", info, err)
	}
	for range 2 {
		if restored, _ := startOnce(t, path, 1, false); !restored {
			t.Error("it is not taken for a restored one")
		}
	}
	startOnce(t, path, 0, true)
	if restored, _ := startOnce(t, path, 0, false); restored {
		t.Error("it stays a restored one")
	}
	if again := restore(t, path, copied); again != path+".before-restore-20261123T050001Z" {
		t.Errorf("another restore within the second keeps it at %s", again)
	}
}

// A copy that is not made by the program, or was made where there is no store, counts as restored as well.
func TestRule4_ARestoreElsewhereIsOneWhateverTheMarkSays(t *testing.T) {
	path := closed(t, 1)
	byHand := filepath.Join(t.TempDir(), "by-hand.db")
	readFiles(t, path, "").write(t, strings.TrimSuffix(byHand, ""))
	elsewhere := filepath.Join(t.TempDir(), "store.db")
	if kept := restore(t, elsewhere, byHand); kept != "" {
		t.Errorf("nothing was there, and is kept as %s", kept)
	}
	if restored, _ := startOnce(t, elsewhere, 0, false); !restored {
		t.Error("a copy made by hand is not taken for a restored store")
	}
	kept := restore(t, path, byHand) // the mark says that this is the newest
	if restored, _ := startOnce(t, path, 0, false); !restored || kept == "" {
		t.Error("the same file in its own place is not taken for a restored store")
	}
}

func TestRule4_AFolderThatWasPutBackIsMarked(t *testing.T) {
	path := closed(t, 3)
	about, err := MarkRestored(t.Context(), path)
	if err != nil || about.Requests != 3 || about.Events != 3 || about.At.IsZero() {
		t.Errorf("%+v, %v", about, err)
	}
	if restored, _ := startOnce(t, path, 0, false); !restored {
		t.Error("it is not taken for a restored one")
	}
	old := oldStore(t)
	if _, err := MarkRestored(t.Context(), old); err != nil {
		t.Errorf("an older program's: %v", err)
	}
	if restored, _ := startOnce(t, old, 0, false); !restored {
		t.Error("an older program's is not taken for a restored one")
	}
	d := open(t, Options{})
	if _, err := MarkRestored(t.Context(), d.path); err == nil || !strings.Contains(err.Error(), "is in use by") {
		t.Errorf("while a gate runs: %v", err)
	}
	if _, err := MarkRestored(t.Context(), filepath.Join(t.TempDir(), "none.db")); err == nil {
		t.Error("a store that is not there was marked")
	}
}

// damage changes the rows of a copy against its constraints.
func damage(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	off := []string{`PRAGMA ignore_check_constraints = ON`, `PRAGMA foreign_keys = OFF`}
	for _, s := range append(off, statements...) {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRule4_ACopyThatIsNotWholeIsNotRestored(t *testing.T) {
	path := closed(t, 2)
	startOnce(t, path, 0, false)
	was := allFiles(t, path)
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	damage(t, foreign, `CREATE TABLE theirs (a)`)
	for name, test := range map[string]struct {
		spoil func(t *testing.T, copied string)
		want  string
	}{
		"a page": {func(t *testing.T, copied string) {
			b, err := os.ReadFile(copied)
			if err != nil {
				t.Fatal(err)
			}
			copy(b[len(b)-4096:], bytes.Repeat([]byte{0xa5}, 4096))
			if err := os.WriteFile(copied, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not whole"},
		"its end": {func(t *testing.T, copied string) {
			if err := os.Truncate(copied, 8192); err != nil {
				t.Fatal(err)
			}
		}, "the database is damaged"},
		"a state that there is not": {func(t *testing.T, copied string) {
			damage(t, copied, `UPDATE approval_requests SET status = 'approved'`)
		}, "CHECK constraint failed in approval_requests"},
		"a row without its request": {func(t *testing.T, copied string) {
			damage(t, copied, `INSERT INTO request_sessions VALUES ('none', 's', '2026-11-23T04:42:00.000Z')`)
		}, "a row of request_sessions belongs to one of approval_requests that is not there"},
		"the state": {func(t *testing.T, copied string) { damage(t, copied, `DELETE FROM store_state`) },
			"does not say how far"},
		"a newer program": {func(t *testing.T, copied string) {
			damage(t, copied, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)`)
		}, "newer version of the program"},
		"another program": {func(t *testing.T, copied string) {
			readFiles(t, foreign, "").write(t, copied)
		}, "database of another program"},
		"text": {func(t *testing.T, copied string) {
			if err := os.WriteFile(copied, []byte("SQL text, and no database"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "it is no database"},
	} {
		copied := backedUp(t, path)
		test.spoil(t, copied)
		f, err := os.Open(copied)
		if err != nil {
			t.Fatal(err)
		}
		_, err = PrepareRestore(t.Context(), path, f)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "Nothing was restored") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := PrepareRestore(t.Context(), path, iotest.ErrReader(errors.New("the tape is torn")))
	if err == nil || !strings.Contains(err.Error(), "torn") {
		t.Errorf("a copy that cannot be read: %v", err)
	}
	is := allFiles(t, path)
	delete(is, filepath.Base(path)+lockSuffix) // says who had it last
	delete(was, filepath.Base(path)+lockSuffix)
	if !maps.Equal(is, was) {
		t.Errorf("the folder has changed: %q, was %q", slices.Sorted(maps.Keys(is)), slices.Sorted(maps.Keys(was)))
	}
}

// A backup that would not be restored is none.
func TestADamagedStoreIsNotBackedUp(t *testing.T) {
	path, out := closed(t, 1), t.TempDir()
	damage(t, path, `UPDATE approval_requests SET status = 'approved'`)
	_, err := Backup(t.Context(), path, filepath.Join(out, "backup.db"))
	if err == nil || !strings.Contains(err.Error(), "No backup was made: the copy is not whole: CHECK constraint failed") {
		t.Errorf("%v", err)
	}
	if names := files(t, out); len(names) > 0 {
		t.Errorf("it left %q", names)
	}
}

func TestNothingIsRestoredWhileAGateRuns(t *testing.T) {
	d := open(t, Options{})
	_, err := PrepareRestore(t.Context(), d.path, strings.NewReader(""))
	if err == nil || !strings.Contains(err.Error(), "is in use by process") {
		t.Errorf("%v", err)
	}
	fresh := filepath.Join(t.TempDir(), "store.db")
	if _, err := PrepareRestore(t.Context(), fresh, strings.NewReader("")); err == nil {
		t.Error("nothing was restored")
	}
	if names := files(t, filepath.Dir(fresh)); len(names) > 0 {
		t.Errorf("a restore that failed left %q", names)
	}
}

// A copy of an older program is brought up to date before it takes the store's place.
func TestACopyOfAnOlderProgramIsRestored(t *testing.T) {
	path := closed(t, 1)
	restore(t, path, oldStore(t))
	if v := versionOf(t, path); v != schema.Version() {
		t.Errorf("its tables have version %d", v)
	}
	if got := pragma(t, path, "auto_vacuum"); got != incremental {
		t.Errorf("auto_vacuum is %d", got)
	}
	if restored, _ := startOnce(t, path, 0, false); !restored {
		t.Error("it is not taken for a restored one")
	}
}

// What is made of a store that does not shrink does.
func TestABackupOfAFileThatDoesNotShrinkDoes(t *testing.T) {
	path := rigid(t)
	startOnce(t, path, 1, false)
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := backedUp(t, path)
	if got := pragma(t, copied, "auto_vacuum"); got != incremental {
		t.Errorf("auto_vacuum of the copy is %d", got)
	}
	if is, err := os.ReadFile(path); err != nil || !bytes.Equal(is, was) {
		t.Errorf("the store was changed by its backup: %v", err)
	}
}

// As any step of a restore was the last before a death, also where the mark is behind what was answered, as a loss of
// power leaves it.
func TestRule4_ADeathWhileAStoreIsRestoredLetsNothingLiveAgain(t *testing.T) {
	path := closed(t, 1)
	copied := backedUp(t, path)
	startOnce(t, path, 2, false)
	behind, err := os.ReadFile(path + markSuffix)
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, Options{Path: path})
	update(t, d, oneEvent)
	logged(t, d, "a")
	dead := dies(t, d)
	if err := os.WriteFile(dead+markSuffix, behind, 0o600); err != nil {
		t.Fatal(err)
	}
	var died []string
	t.Cleanup(func() { rename = os.Rename })
	rename = func(from, to string) error {
		err := os.Rename(from, to)
		at := filepath.Join(t.TempDir(), "store.db")
		readFiles(t, dead, "", "-wal", eventLogSuffix, markSuffix).write(t, at)
		died = append(died, at)
		return err
	}
	restore(t, dead, copied)
	if len(died) < 4 { // its mark, its log, its event log, and the copy
		t.Fatalf("%d files got other names", len(died))
	}
	for i, at := range died {
		if restored, _ := startOnce(t, at, 0, false); !restored {
			t.Errorf("killed after step %d of %d: the store is taken for the newest", i+1, len(died))
		}
	}
}

// A restore that died before it was done has left the store a second name: what is kept is not to change with it.
func TestAKeptStoreIsNotTheOneInUse(t *testing.T) {
	path := closed(t, 1)
	twin := path + ".before-restore-20261123T050000Z"
	if err := os.Link(path, twin); err != nil {
		t.Fatal(err)
	}
	startOnce(t, path, 1, false)
	if _, err := os.Lstat(twin); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the second name after a start: %v", err)
	}
	if err := os.Link(path, twin); err != nil {
		t.Fatal(err)
	}
	r := prepared(t, path, backedUp(t, path))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(twin); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the second name after a restore was prepared: %v", err)
	}
	other := path + ".before-restore-20261123T050001Z"
	readFiles(t, path, "").write(t, other)
	startOnce(t, path, 1, false)
	if _, err := os.Lstat(other); err != nil {
		t.Errorf("a kept store is gone: %v", err)
	}
}

// As many restores as there may be within one second each keep what was there.
func TestEachRestoreKeepsWhatWasThere(t *testing.T) {
	path := closed(t, 1)
	copied, kept := backedUp(t, path), map[string]bool{}
	for range 8 {
		kept[restore(t, path, copied)] = true
	}
	for name := range kept {
		if _, ok := rowsOf(t, name, "pragma_integrity_check"); !slices.Equal(ok, []string{"'ok'"}) {
			t.Errorf("%s: %q", name, ok)
		}
	}
	if len(kept) != 8 {
		t.Errorf("%d names for 8 stores", len(kept))
	}
}

// An operator has put a backup in its place by hand and left the old log: neither a backup nor a restore that is not
// gone through with mixes the two, and after one that is they do not lie beside each other.
func TestRule4_ALogOfAnotherStoreIsMixedWithNone(t *testing.T) {
	path := closed(t, 1)
	copied := backedUp(t, path)
	old := oldStore(t)
	withLog(t, old)
	readFiles(t, copied, "").write(t, path)
	readFiles(t, old, "-wal").write(t, path)
	was := readFiles(t, path, "", "-wal")
	if _, err := Backup(t.Context(), path, filepath.Join(t.TempDir(), "b.db")); err == nil ||
		!strings.Contains(err.Error(), "is of the database that was here before") {
		t.Errorf("a backup: %v", err)
	}
	if _, err := CountRows(t.Context(), path); err == nil {
		t.Error("rows are counted")
	}
	r := prepared(t, path, copied)
	if _, err := r.FindLoss(t.Context()); err == nil {
		t.Error("what is lost is told")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(was, readFiles(t, path, "", "-wal")); diff != "" {
		t.Errorf("the files have changed: %s", diff)
	}
	kept := restore(t, path, copied)
	if diff := cmp.Diff(fileSet{"": was[""], ".other-wal": was["-wal"]}, readFiles(t, kept, "", "-wal",
		".other-wal")); diff != "" {
		t.Errorf("what is kept has changed: %s", diff)
	}
}

// Where the database alone was lost, what lies beside is not taken for the copy's.
func TestARestoreLeavesNoLogOfWhatWasLost(t *testing.T) {
	path := closed(t, 1)
	copied := backedUp(t, path)
	old := oldStore(t)
	withLog(t, old)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	readFiles(t, old, "-wal").write(t, path)
	kept := restore(t, path, copied)
	if _, err := os.Stat(kept + "-wal"); err != nil {
		t.Errorf("the log is kept nowhere: %v", err)
	}
	if restored, _ := startOnce(t, path, 0, false); !restored {
		t.Error("it is not taken for a restored one")
	}
}

// What cannot be put in the place leaves the store as it was.
func TestARestoreThatFailsAtLastPutsTheStoreBack(t *testing.T) {
	path := closed(t, 1)
	copied := backedUp(t, path)
	startOnce(t, path, 1, false)
	if err := os.WriteFile(path+eventLogSuffix, []byte("records"), 0o600); err != nil {
		t.Fatal(err)
	}
	was := allFiles(t, path)
	r := prepared(t, path, copied)
	if err := os.Remove(r.part.Name()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Put(time.Now()); err == nil {
		t.Error("a copy that is gone was put in its place")
	}
	if err := r.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	is := allFiles(t, path)
	delete(is, filepath.Base(path)+lockSuffix)
	delete(was, filepath.Base(path)+lockSuffix)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(was)), slices.Sorted(maps.Keys(is))); diff != "" || !maps.Equal(is, was) {
		t.Errorf("the folder has changed (-was +is):\n%s", diff)
	}
}

func TestWhatARestoreLosesIsTold(t *testing.T) {
	path := closed(t, 1)
	change := func(fn func(tx approval.Tx) error) {
		d, err := Open(t.Context(), Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		update(t, d, fn)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	frozen := func(agent string, frozen bool) func(tx approval.Tx) error {
		return func(tx approval.Tx) error {
			return tx.PutEpoch(approval.Epoch{Agent: agent, ID: tx.NewID(), Frozen: frozen, FrozenAt: tx.Now(),
				FrozenBy: "human:hana", Reason: "odd", Via: approval.ViaCLI})
		}
	}
	change(frozen("before", true))
	change(frozen("both", true))
	copied := backedUp(t, path)
	change(frozen("before", false))
	change(frozen("since", true))
	change(func(tx approval.Tx) error {
		for _, e := range []approval.Event{
			{Type: approval.EventApprovalRequested}, {Type: approval.EventDecision, Decision: "approve"},
			{Type: approval.EventDecision, Decision: "timeout"}, {Type: approval.EventDecision, Decision: "deny"},
			{Type: approval.EventApprovalConsumed}, {Type: approval.EventGrantUsed},
			{Type: approval.EventErased, ApprovalID: "01J"}, {Type: approval.EventPasskeyRemoved},
			{Type: approval.EventDelegationEnded}, {Type: approval.EventCallAllowed},
		} {
			if _, err := tx.Append(e); err != nil {
				return err
			}
		}
		return nil
	})
	want := &Loss{Requests: 1, Decisions: 2, Uses: 2, Events: 10, Frozen: []Freeze{{"since", "human:hana", "odd"}},
		Unfrozen: []Freeze{{"before", "human:hana", "odd"}}, Erased: []string{"01J"}, Passkeys: 1, Delegations: 1}
	for name, prepare := range map[string]func(){
		"the same store": func() {},
		"restored since": func() { damage(t, path, `UPDATE store_state SET life = 'another'`) },
	} {
		prepare()
		r := prepared(t, path, copied)
		is, err := r.FindLoss(t.Context())
		if err != nil || is.Since != r.Copy.At || r.Copy.Requests != 1 {
			t.Errorf("%s: %+v of %+v, %v", name, is, r.Copy, err)
		}
		if diff := cmp.Diff(want, is, cmpopts.IgnoreFields(Loss{}, "Since")); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(path, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	r := prepared(t, path, copied)
	if _, err := r.FindLoss(t.Context()); err == nil {
		t.Error("a store that cannot be read tells what is lost")
	}
	if _, err := r.Put(time.Now()); err != nil {
		t.Errorf("a store that cannot be read keeps a copy from its place: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
