package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/testkit"
	"countersign/internal/testkit/powercut"
	"countersign/schema/schematest"
)

// disk sees what SQLite syncs: what it has not synced is gone when the power is.
type disk struct{ *powercut.Disk }

// watchDisk has all stores that are opened in the test seen by a disk.
func watchDisk(t *testing.T) disk {
	t.Helper()
	d, end, err := powercut.Watch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return disk{d}
}

// cut returns a folder with what is left of the store at path when the power goes: of its log what was synced, and of
// the rest so many bytes as more says.
func (k disk) cut(t *testing.T, path string, more int) string {
	t.Helper()
	dir := t.TempDir()
	if err := k.Cut(path, filepath.Join(dir, "store.db"), more, func() {}); err != nil {
		t.Fatal(err)
	}
	if mark, err := os.ReadFile(path + markSuffix); err == nil {
		if err := os.WriteFile(filepath.Join(dir, "store.db"+markSuffix), mark, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "store.db")
}

// writeOne has something put on record that a loss of power may not take.
func writeOne(t *testing.T, d *DB, tool string) {
	t.Helper()
	update(t, d, func(tx approval.Tx) error {
		_, err := tx.Append(approval.Event{Type: approval.EventDecision, Agent: "bot", Tool: tool})
		return err
	})
}

// toolsOf are the tools of the events in the store.
func toolsOf(t *testing.T, d *DB) (tools string, newest int64) {
	t.Helper()
	view(t, d, func(tx approval.Tx) error {
		es, err := tx.Events(approval.EventQuery{Ascending: true})
		for _, e := range es {
			tools += " " + e.Tool
			newest = e.Seq
		}
		return err
	})
	return strings.TrimSpace(tools), newest
}

// A loss of power takes what was recorded since the last sync, and nothing else.
func TestALossOfPowerTakesOnlyWhatWasRecordedLast(t *testing.T) {
	k := watchDisk(t)
	path := schematest.NewFile(t)
	d := open(t, at(path, 1))
	left := func(more int) (string, int64) {
		t.Helper()
		after := open(t, at(k.cut(t, path, more), 2))
		if after.WasRestored() {
			t.Error("a loss of power is taken for a backup that was restored")
		}
		return toolsOf(t, after)
	}
	writeOne(t, d, "asked")
	recordOne(t, d, "lost")
	if err := d.Mark(); err != nil {
		t.Fatal(err)
	}
	if tools, _ := left(0); tools != "asked" {
		t.Errorf("what was recorded was synced at once: %q is left", tools)
	}
	if tools, _ := left(1 << 20); tools != "asked lost" {
		t.Errorf("what the disk had by itself is gone: %q is left", tools)
	}
	writeOne(t, d, "later")
	if tools, _ := left(0); tools != "asked lost later" {
		t.Errorf("an update does not sync what was recorded before it: %q is left", tools)
	}
	recordOne(t, d, "read")
	if tools, _ := toolsOf(t, d); tools != "asked lost later read" {
		t.Errorf("read: %q", tools)
	}
	if tools, _ := left(0); tools != "asked lost later read" {
		t.Errorf("what was read is lost: %q is left", tools)
	}
	recordOne(t, d, "alone")
	testkit.Eventually(t, "the record is synced", func() bool {
		tools, _ := left(0)
		return strings.HasSuffix(tools, "alone")
	})
	recordOne(t, d, "last")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if tools, _ := left(0); !strings.HasSuffix(tools, "last") {
		t.Errorf("a store that was closed has lost something: %q is left", tools)
	}
}

// No seq is given out twice, whatever was lost.
func TestNoSeqIsGivenTwiceAfterALossOfPower(t *testing.T) {
	k := watchDisk(t)
	path := schematest.NewFile(t)
	d := open(t, at(path, 1))
	recordOne(t, d, "a")
	_, given := toolsOf(t, d)
	for range 10 {
		recordOne(t, d, "lost")
		given++
	}
	same := open(t, at(k.cut(t, path, 1<<20), 1)) // the process was killed, and the machine goes on
	recordOne(t, same, "b")
	if _, newest := toolsOf(t, same); newest != given+1 {
		t.Errorf("after a kill seq goes on with %d, not with %d", newest, given+1)
	}
	other := open(t, at(k.cut(t, path, 0), 2))
	recordOne(t, other, "b")
	if _, newest := toolsOf(t, other); newest <= given {
		t.Errorf("seq %d was given before", newest)
	}
}

// A group of records does not save where seq, ids and time stand: its rows say it, also to who takes up after a kill,
// and also while the clock is not right.
func TestAfterAKillRecordsSayWhereTheStoreStood(t *testing.T) {
	k := watchDisk(t)
	path := schematest.NewFile(t)
	m := newMachine()
	o := Options{Path: path, Boot: "one", Now: m.now, Elapsed: m.count}
	d := open(t, o)
	saved := func() int64 {
		t.Helper()
		return stateOf(t, d).seq
	}
	killed := func() {
		t.Helper()
		last := lastOf(t, d)
		then := o
		then.Path = k.cut(t, path, 1<<20)
		after := open(t, then)
		ahead := d.Clock().Ahead - after.Clock().Ahead
		recordOne(t, after, "next")
		next := lastOf(t, after)
		if next.Seq != last.Seq+1 || next.ID <= last.ID || next.At.Before(last.At) || ahead.Abs() > 2*evenly {
			t.Errorf("after %d, %s, %s it goes on with %d, %s, %s, and is off by %s", last.Seq, last.ID, last.At, next.Seq,
				next.ID,
				next.At, ahead)
		}
	}
	began := time.Now()
	recordOne(t, d, "first")
	at := saved()
	for range 50 {
		m.pass(3 * time.Millisecond)
		recordOne(t, d, "a")
	}
	if saved() != at && time.Since(began) < syncWithin { // the sync saves it, too
		t.Error("records save the state one by one")
	}
	killed()
	m.set(-time.Minute)
	m.pass(time.Millisecond)
	recordOne(t, d, "set back")
	if saved() == at {
		t.Error("that the clock was set back is not saved")
	}
	for range 50 {
		m.pass(3 * time.Millisecond)
		recordOne(t, d, "b")
	}
	killed()
	m.set(time.Hour)
	recordOne(t, d, "set forward")
	killed()
}

// Nor does any other group whose newest rows say all of it. One that gave out something which no row has saves it: an
// id, a seq, or a time.
func TestAfterAKillRowsSayWhereTheStoreStood(t *testing.T) {
	k := watchDisk(t)
	path := schematest.NewFile(t)
	m := newMachine()
	o := Options{Path: path, Boot: "one", Now: m.now, Elapsed: m.count}
	d := open(t, o)
	event := func(tx approval.Tx) (id string, err error) {
		e, err := tx.Append(approval.Event{Type: approval.EventPolicyReloaded})
		return e.ID, err
	}
	made := func(tx approval.Tx) (request, notification string, err error) {
		r := approval.Request{ID: tx.NewID(), Agent: "bot", Tool: "t", Args: []byte(`{}`), ArgsHash: strings.Repeat("a", 64),
			Risk: approval.RiskHigh, ReasonCode: "approval_required", Status: approval.Pending, RequestedAt: tx.Now(),
			ExpiresAt: tx.Now().Add(time.Hour)}
		r.Scope = r.ID
		n := approval.Notification{ID: tx.NewID(), ApprovalID: r.ID, Channel: "line", Recipient: "U1",
			Kind:   approval.KindRequest,
			Status: approval.Queued, NextAttemptAt: tx.Now(), CreatedAt: tx.Now(), UpdatedAt: tx.Now()}
		return r.ID, n.ID, errors.Join(tx.InsertRequest(r), tx.InsertNotification(n))
	}
	for _, tt := range []struct {
		name  string
		fn    func(tx approval.Tx) (id string, err error) // returns the last id that it was given
		saves bool
	}{
		{"the first after the start", event, true},
		{"an event", event, false},
		{"a request and its event", func(tx approval.Tx) (string, error) {
			if _, _, err := made(tx); err != nil {
				return "", err
			}
			return event(tx)
		}, false},
		{"an event, and a request after it", func(tx approval.Tx) (string, error) {
			if _, err := event(tx); err != nil {
				return "", err
			}
			_, last, err := made(tx)
			return last, err
		}, false},
		{"an id that is on no row", func(tx approval.Tx) (string, error) {
			_, err := event(tx)
			return tx.NewID(), err
		}, true},
		{"a request without an event", func(tx approval.Tx) (string, error) {
			_, last, err := made(tx)
			return last, err
		}, true},
		{"a seq without an event", func(tx approval.Tx) (string, error) {
			id, _, err := made(tx)
			if err != nil {
				return "", err
			}
			last, err := event(tx)
			if err != nil {
				return "", err
			}
			_, err = tx.Resolve(approval.Resolution{ID: id, Status: approval.Denied, At: tx.Now(), By: "hana",
				Via: approval.ViaAPI})
			return last, err
		}, true},
		{"a row that has none of it", func(tx approval.Tx) (string, error) {
			return "", tx.PutPin(approval.ToolPin{Server: "s", Tool: "t", Digest: strings.Repeat("0", 64), SeenAt: tx.Now()})
		}, true},
		{"an event again", event, false},
	} {
		m.pass(3 * time.Millisecond)
		before := stateOf(t, d)
		var last string
		var at time.Time
		if err := d.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) (err error) {
			last, err = tt.fn(tx)
			at = tx.Now()
			return err
		}); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if saved := !reflect.DeepEqual(stateOf(t, d), before); saved != tt.saves {
			t.Errorf("%s: the state was saved: %t", tt.name, saved)
		}
		seq := d.seq.Load()
		then := o
		then.Path = k.cut(t, path, 1<<20)
		after := open(t, then)
		update(t, after, func(tx approval.Tx) error {
			if now := tx.Now(); now.Before(at) {
				t.Errorf("%s: time goes on with %s after %s", tt.name, now, at)
			}
			e, err := tx.Append(approval.Event{Type: approval.EventPolicyReloaded})
			if e.Seq != seq+1 || e.ID <= last {
				t.Errorf("%s: after %d, %s it goes on with %d, %s", tt.name, seq, last, e.Seq, e.ID)
			}
			return err
		})
	}
}

func stateOf(t *testing.T, d *DB) (kept storedState) {
	t.Helper()
	c, err := d.openReader()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := c.Stmt(loadState)
	s.Step()
	kept = scanState(s)
	if _, err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	return kept
}

// lastOf is the newest event, read beside the store: a View would have it synced.
func lastOf(t *testing.T, d *DB) (e approval.Event) {
	t.Helper()
	c, err := d.openReader()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := c.Prepare(`SELECT seq, id, at FROM audit_events ORDER BY seq DESC LIMIT 1`)
	defer s.Finalize()
	s.Step()
	e.Seq, e.ID, e.At = s.ColumnInt(), s.ColumnText(), s.ColumnTime()
	if _, err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	return e
}

// However much of the log the disk has taken by itself: what was promised is there, and of the rest the beginning.
func TestALogThatIsTornIsReadToItsLastWholeCommit(t *testing.T) {
	k := watchDisk(t)
	path := schematest.NewFile(t)
	d := open(t, at(path, 1))
	writeOne(t, d, "asked")
	want := []string{"asked"}
	for i := range 40 {
		recordOne(t, d, fmt.Sprint("r", i))
		want = append(want, fmt.Sprint("r", i))
	}
	for range 20 {
		more := rand.N(200_000)
		tools, _ := toolsOf(t, open(t, at(k.cut(t, path, more), 2)))
		if got := strings.Fields(tools); len(got) < 1 || strings.Join(want[:len(got)], " ") != tools {
			t.Fatalf("with %d bytes more: %q", more, tools)
		}
	}
}

// What could not be synced is said, and until it could be nothing is committed without a sync.
func TestAfterAFailedSyncNothingGoesUnsynced(t *testing.T) {
	k := watchDisk(t)
	path := schematest.NewFile(t)
	d := open(t, at(path, 1))
	recordOne(t, d, "a")
	d.writer.syncFailed = true // as a failed commit leaves it; the writer is idle
	recordOne(t, d, "b")
	if tools, _ := toolsOf(t, open(t, at(k.cut(t, path, 0), 2))); tools != "a b" {
		t.Errorf("left: %q", tools)
	}
	recordOne(t, d, "c")
	if tools, _ := toolsOf(t, open(t, at(k.cut(t, path, 0), 2))); tools != "a b" {
		t.Errorf("left once it could be synced: %q", tools)
	}
}
