package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"countersign/approval"
	"countersign/internal/safefile"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

func oneEvent(tx approval.Tx) error {
	_, err := tx.Append(approval.Event{Type: approval.EventCallAllowed})
	return err
}

// A backup of a store that is being written is what it was at one moment, and a store that can be opened.
func TestABackupIsMadeBesideALiveGate(t *testing.T) {
	d := open(t, Options{})
	for range 3 { // in the write-ahead log
		update(t, d, oneEvent)
	}
	var writing sync.WaitGroup
	stop := make(chan struct{})
	writing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := d.Update(t.Context(), approval.WholeStore(), oneEvent); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	to := filepath.Join(t.TempDir(), "backup.db")
	size, err := Backup(t.Context(), d.path, to)
	close(stop)
	testkit.Wait(t, "the writers", writing.Wait)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(to)
	if err != nil || info.Size() != size || size == 0 || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup is %v, %v; %d bytes were told", info, err, size)
	}
	if _, ok := rowsOf(t, to, "pragma_integrity_check"); !slices.Equal(ok, []string{"'ok'"}) {
		t.Errorf("the backup: %q", ok)
	}
	if _, events := rowsOf(t, to, "audit_events"); len(events) < 3 {
		t.Errorf("the backup has %d events of 3 and more", len(events))
	}
	if names := files(t, filepath.Dir(to)); !slices.Equal(names, []string{"backup.db"}) {
		t.Errorf("beside the backup: %q", names)
	}
	update(t, open(t, Options{Path: to}), oneEvent)
}

func TestABackupOverwritesNothing(t *testing.T) {
	d, dir := open(t, Options{}), t.TempDir()
	taken := filepath.Join(dir, "backup.db")
	if err := os.WriteFile(taken, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Backup(t.Context(), d.path, taken)
	if e, ok := errors.AsType[*approval.Error](err); !ok || !strings.Contains(e.Message, taken+" exists already") {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(taken); err != nil || string(text) != "mine" {
		t.Errorf("it is now %q, %v", text, err)
	}
	if names := files(t, dir); !slices.Equal(names, []string{"backup.db"}) {
		t.Errorf("the folder has %q", names)
	}
	// Somebody takes the name while the backup is written.
	dir = t.TempDir()
	part, to := filepath.Join(dir, "b.part"), filepath.Join(dir, "b")
	for _, path := range []string{part, to} {
		if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := safefile.Name(part, to); !errors.Is(err, os.ErrExist) {
		t.Errorf("a name that was taken: %v", err)
	}
	if text, err := os.ReadFile(to); err != nil || string(text) != to {
		t.Errorf("%s is now %q, %v", to, text, err)
	}
}

func TestABackupThatCannotBeMadeLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	foreign, text, empty := filepath.Join(dir, "foreign.db"), filepath.Join(dir, "text"), filepath.Join(dir, "empty")
	db, err := sql.Open("sqlite", foreign)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE theirs (a)`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{text: strings.Repeat("no database ", 1000), empty: ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	d := open(t, Options{})
	for _, tt := range []struct {
		name, path, to string
		ctx            context.Context
		want           string
	}{
		{"no store", filepath.Join(dir, "none.db"), "b", t.Context(), "There is no store at"},
		{"an empty file", empty, "b", t.Context(), "There is no store at"},
		{"another program's", foreign, "b", t.Context(), "is a database of another program"},
		{"no database", text, "b", t.Context(), "is not a database"},
		{"no folder", d.path, "none/b", t.Context(), "its folder is there"},
		{"given up", d.path, "b", ended, "canceled"},
	} {
		out := t.TempDir()
		_, err := Backup(tt.ctx, tt.path, filepath.Join(out, tt.to))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if names := files(t, out); len(names) > 0 {
			t.Errorf("%s left %q", tt.name, names)
		}
	}
	if names := files(t, dir); slices.Contains(names, "none.db") {
		t.Error("a store was made to be backed up")
	}
}

// What a backup left that was killed goes with the next one, or the next start; what another is writing stays.
func TestWhatAKilledBackupLeftIsRemoved(t *testing.T) {
	d, dir := open(t, Options{}), t.TempDir()
	writing, err := makePart(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer writing.Close()
	leaves := func(dir string) (names []string) {
		for _, name := range []string{partPrefix + "1", partPrefix + "1-journal"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return names
	}
	leaves(dir)
	if _, err := Backup(t.Context(), d.path, filepath.Join(dir, "backup.db")); err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Base(writing.Name()), "backup.db"}
	if names := files(t, dir); !slices.Equal(names, want) {
		t.Errorf("the folder has %q, want %q", names, want)
	}
	path := schematest.NewFile(t)
	names := leaves(filepath.Dir(path))
	open(t, Options{Path: path})
	for _, name := range files(t, filepath.Dir(path)) {
		if slices.Contains(names, name) {
			t.Errorf("the start has left %s", name)
		}
	}
}

// What the log grew to while a reader kept it, as a backup does, is given back soon after.
func TestTheLogShrinksAfterABackup(t *testing.T) {
	d := open(t, Options{})
	large := func(tx approval.Tx) error {
		for range 40 {
			if _, err := tx.Append(approval.Event{Type: approval.EventCallAllowed, Reason: strings.Repeat("x",
				1<<20)}); err != nil {
				return err
			}
		}
		return nil
	}
	size := func() int64 {
		info, err := os.Stat(d.path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	reading := make(chan struct{})
	done, letGo := testkit.Latch()
	defer letGo()
	var reader sync.WaitGroup
	reader.Go(func() {
		view(t, d, func(tx approval.Tx) error {
			_, err := tx.Epochs()
			close(reading)
			<-done
			return err
		})
	})
	testkit.Receive(t, "the reader", reading)
	err := d.Update(t.Context(), approval.WholeStore(), large)
	grown := size()
	letGo()
	testkit.Wait(t, "the reader's end", reader.Wait)
	if err != nil || grown < 32<<20 {
		t.Fatalf("the log has %d bytes, %v", grown, err)
	}
	if _, err := Backup(t.Context(), d.path, filepath.Join(t.TempDir(), "backup.db")); err != nil {
		t.Fatal(err)
	}
	update(t, d, oneEvent)
	if size() > 16<<20 {
		t.Errorf("the log still has %d bytes", size())
	}
}
