package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

// fileSet is a store's file and those beside it, as they were at some moment.
type fileSet map[string][]byte

func readFiles(t *testing.T, path string, suffixes ...string) fileSet {
	t.Helper()
	set := fileSet{}
	for _, suffix := range suffixes {
		if b, err := os.ReadFile(path + suffix); err == nil {
			set[suffix] = b
		}
	}
	return set
}

func (s fileSet) write(t *testing.T, path string) {
	t.Helper()
	for suffix, b := range s {
		if err := os.WriteFile(path+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// startOnce opens a store, appends events, and returns whether it was taken for a restored one, and what it logged.
func startOnce( //nolint:revive // flag-parameter: whether it is accepted is what the tests are about
	t *testing.T, path string, events int, accept bool,
) (restored bool, log string) {
	t.Helper()
	out := &testkit.Buffer{}
	d, err := Open(t.Context(), Options{Path: path, Logger: out.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	restored = d.WasRestored()
	if accept {
		if err := d.AcceptRestored(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range events {
		update(t, d, oneEvent)
	}
	return restored, out.String()
}

// As seen: after a loss of power the mark was empty, and the gate never started again.
func TestRule4_AMarkThatSaysNothingIsToldAndCountsAsRestored(t *testing.T) {
	for _, text := range []string{"", "much", "7", "0000000000000000003 another life"} {
		path := schematest.NewFile(t)
		startOnce(t, path, 3, false)
		if err := os.WriteFile(path+markSuffix, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if restored, log := startOnce(t, path, 0, true); !restored || !strings.Contains(log, "taken for a backup") {
			t.Errorf("%q: restored %v\n%s", text, restored, log)
		}
		if restored, _ := startOnce(t, path, 1, false); restored {
			t.Errorf("%q: it is no store as any other after that", text)
		}
	}
	path := schematest.NewFile(t)
	startOnce(t, path, 3, false)
	if err := os.Remove(path + markSuffix); err != nil {
		t.Fatal(err)
	}
	if restored, _ := startOnce(t, path, 0, true); !restored {
		t.Error("a store that was moved without its mark is taken for the one that was here")
	}
}

// The first start of this program names the store's life before its mark has it. If it dies in between, the mark of the
// program before is still that of this store.
func TestRule7_AStartThatDiesAfterAnUpgradeEndsNothing(t *testing.T) {
	path := schematest.NewFile(t)
	startOnce(t, path, 3, false)
	if err := os.WriteFile(path+markSuffix, []byte("3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if restored, log := startOnce(t, path, 0, false); restored {
		t.Errorf("it is taken for a backup\n%s", log)
	}
}

// A file that was copied by other means, and one from another gate, is told by the mark.
func TestRule4_AnOlderFileInItsPlaceIsNoticed(t *testing.T) {
	path := schematest.NewFile(t)
	if restored, _ := startOnce(t, path, 3, false); restored {
		t.Error("a new store was restored")
	}
	backup := readFiles(t, path, "")
	for _, events := range []int{3, 0} {
		if restored, _ := startOnce(t, path, events, false); restored {
			t.Error("a store that was not touched was restored")
		}
	}
	backup.write(t, path)
	if restored, _ := startOnce(t, path, 0, true); !restored {
		t.Error("an older file was not noticed")
	}
	if restored, _ := startOnce(t, path, 1, false); restored {
		t.Error("it is noticed after it was accepted")
	}
	other := schematest.NewFile(t)
	startOnce(t, other, 100, false) // and so further than ours
	readFiles(t, other, "").write(t, path)
	if restored, _ := startOnce(t, path, 0, true); !restored {
		t.Error("another gate's file was not noticed")
	}
}

// A start that fails, or is cut off, before all that was open in a restored store has ended does not make it another.
func TestRule4_ARestoredStoreStaysOneUntilThatIsAccepted(t *testing.T) {
	path := schematest.NewFile(t)
	startOnce(t, path, 1, false)
	backup := readFiles(t, path, "")
	startOnce(t, path, 1, false)
	backup.write(t, path)
	for range 2 {
		if restored, _ := startOnce(t, path, 5, false); !restored {
			t.Error("it was forgotten that the store was restored")
		}
	}
	startOnce(t, path, 0, true)
	if restored, _ := startOnce(t, path, 0, false); restored {
		t.Error("it was not accepted")
	}
}

// As seen: a backup, a use, kill -9 within five seconds, and the copy in its place.
func TestRule4_ABackupKnowsThatItIsOne(t *testing.T) {
	path := schematest.NewFile(t)
	d, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	update(t, d, oneEvent)
	to := filepath.Join(t.TempDir(), "backup.db")
	if _, err := Backup(t.Context(), path, to); err != nil {
		t.Fatal(err)
	}
	killed := readFiles(t, path, "", markSuffix, "-wal", eventLogSuffix) // nothing has happened since the backup
	for name, place := range map[string]string{
		"where it was written": to, "a new place": filepath.Join(t.TempDir(), "gate.db"),
		"beside the mark": filepath.Join(t.TempDir(), "gate.db"),
	} {
		if strings.HasPrefix(name, "beside") {
			fileSet{markSuffix: killed[markSuffix]}.write(t, place)
		}
		readFiles(t, to, "").write(t, place)
		if restored, _ := startOnce(t, place, 0, false); !restored {
			t.Errorf("%s: a backup that is started is taken for the store", name)
		}
	}
	// The store itself is none.
	place := filepath.Join(t.TempDir(), "gate.db")
	killed.write(t, place)
	if restored, log := startOnce(t, place, 0, false); restored {
		t.Errorf("a store whose process was killed is taken for a backup:\n%s", log)
	}
}

// What the mark says follows each commit, so that a copy made by other means a moment before a use is told as well.
func TestRule4_TheMarkIsNotBehindWhatWasAnswered(t *testing.T) {
	path := schematest.NewFile(t)
	startOnce(t, path, 1, false)
	backup := readFiles(t, path, "")
	d, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	update(t, d, oneEvent) // the use, and then kill -9
	place := filepath.Join(t.TempDir(), "gate.db")
	readFiles(t, path, markSuffix).write(t, place)
	backup.write(t, place)
	if restored, _ := startOnce(t, place, 0, false); !restored {
		t.Error("the older file is taken for the one whose process was killed")
	}
}

// The write-ahead log of the database that was there is not the copy's.
func TestRule4_ABackupIsNotMixedWithTheLogOfWhatWasThere(t *testing.T) {
	path := schematest.NewFile(t)
	d, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	to := filepath.Join(t.TempDir(), "backup.db")
	if _, err := Backup(t.Context(), path, to); err != nil {
		t.Fatal(err)
	}
	update(t, d, oneEvent)
	place := filepath.Join(t.TempDir(), "gate.db")
	readFiles(t, path, "-wal", markSuffix).write(t, place)
	readFiles(t, to, "").write(t, place)
	if d, err := Open(t.Context(), Options{Path: place}); err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("it was opened: %v", err)
		if err == nil {
			d.Close()
		}
	}
	if err := os.Remove(place + "-wal"); err != nil {
		t.Fatal(err)
	}
	if restored, _ := startOnce(t, place, 0, true); !restored {
		t.Error("it is no backup any more")
	}
}

// A copy of before an upgrade is one as well.
func TestRule4_ACopyOfBeforeAnUpgradeKnowsThatItIsOne(t *testing.T) {
	path := oldStore(t)
	open(t, Options{Path: path, Now: oldNow})
	copies := copiesOf(t, path)
	if len(copies) != 1 {
		t.Fatalf("copies: %q", copies)
	}
	place := filepath.Join(t.TempDir(), "gate.db")
	readFiles(t, copies[0], "").write(t, place)
	d := open(t, Options{Path: place, Now: oldNow})
	if !d.WasRestored() {
		t.Error("it is taken for the store")
	}
}

// A mark that cannot be written is written as soon as it can be.
func TestAMarkThatWasRemovedIsMadeAnew(t *testing.T) {
	d := open(t, Options{})
	update(t, d, oneEvent)
	if err := os.Remove(d.path + markSuffix); err != nil {
		t.Fatal(err)
	}
	update(t, d, oneEvent)
	if err := d.Mark(); err != nil {
		t.Fatal(err)
	}
	update(t, d, oneEvent)
	seq, life, err := d.mark.read()
	if newest := d.seq.Load(); err != nil || seq != newest || life != d.writer.life {
		t.Errorf("it says %d %q, %v, and the newest is %d", seq, life, err, newest)
	}
}

// As seen: a third of the numbers were missing in the audit log, because endings took them.
func TestRule11_TheNumbersOfTheAuditLogHaveNoHoleThatNoEventExplains(t *testing.T) {
	numbers := func(d *DB) (seqs []int64, gaps string) {
		view(t, d, func(tx approval.Tx) error {
			es, err := tx.Events(approval.EventQuery{Ascending: true})
			for _, e := range es {
				if seqs = append(seqs, e.Seq); e.Type == approval.EventAuditGap {
					gaps += e.Reason + " " + string(e.Data)
				}
			}
			return err
		})
		return seqs, gaps
	}
	d := open(t, Options{})
	var ended []int64
	for i := range 3 {
		update(t, d, func(tx approval.Tx) error {
			id, err := create(tx, "bot", strings.Repeat("x", i+1)) // with its event
			if err != nil {
				return err
			}
			_, err = tx.Resolve(approval.Resolution{ID: id, Status: approval.Denied, At: tx.Now(), By: "hana",
				Via: approval.ViaAPI})
			r, err2 := tx.Request(id)
			ended = append(ended, r.ResolvedSeq)
			return errors.Join(err, err2)
		})
	}
	if seqs, gaps := numbers(d); !slices.Equal(seqs, []int64{1, 2, 3}) || gaps != "" {
		t.Errorf("the events have %d, %q", seqs, gaps)
	}
	if !slices.Equal(ended, []int64{1, 2, 3}) {
		t.Errorf("the endings have %d", ended)
	}
	// Of a store of before, what is missing is told, and all that comes later has a later number.
	old := open(t, Options{Path: oldStore(t), Now: oldNow})
	seqs, gaps := numbers(old)
	newest := seqs[len(seqs)-1]
	if want := fmt.Sprintf(`endings_had_numbers {"from_seq":1,"to_seq":%d}`, newest-1); gaps != want {
		t.Errorf("it is told %q, want %q", gaps, want)
	}
	update(t, old, func(tx approval.Tx) error {
		_, err := tx.Resolve(approval.Resolution{ID: oldPending, Status: approval.Denied, At: tx.Now(), By: "hana",
			Via: approval.ViaAPI})
		r, err2 := tx.Request(oldPending)
		if r.ResolvedSeq < newest {
			t.Errorf("an ending has %d, and the last before had up to %d", r.ResolvedSeq, newest-1)
		}
		return errors.Join(err, err2)
	})
}

// A transaction that is undone does not accept a restored store.
func TestAcceptedIsOnlyWhatWasCommitted(t *testing.T) {
	path := schematest.NewFile(t)
	startOnce(t, path, 1, false)
	if err := os.Remove(path + markSuffix); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	d, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.AcceptRestored(ended); err == nil {
		t.Error("it was accepted")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if restored, _ := startOnce(t, path, 0, false); !restored {
		t.Error("it is no restored store any more")
	}
}
