package app_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"countersign/client"
	"countersign/internal/backup"
	"countersign/internal/store/sqlite"
)

// withBackups has the program make a backup each hour, and look each second whether one is due.
func withBackups(dir, more string) func(string) string {
	return replacing("policy:\n", fmt.Sprintf(`backup: {dir: %s, every: 1h, keep: 2%s}
heartbeat:
  - {name: backup, schedule: "@every 1s"}
policy:
`, dir, more))
}

// newestOf waits for a backup that is not of before a time.
func (w *world) newestOf(dir string, since time.Time) (b backup.Backup) {
	w.t.Helper()
	w.eventually("a backup is made", func() bool {
		all, err := backup.List(dir)
		if err != nil || len(all) == 0 || all[0].At.Before(since) {
			return false
		}
		b = all[0]
		return true
	})
	return b
}

// restore puts a backup in the place of the store at path, as the command does.
func (w *world) restore(path string, b backup.Backup, ids ...age.Identity) (lost *sqlite.Loss) {
	w.t.Helper()
	from, err := backup.Open(w.ctx, b.Path, ids...)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := sqlite.PrepareRestore(w.ctx, path, from)
	if err := errors.Join(err, from.Close()); err != nil {
		w.t.Fatal(err)
	}
	lost, err = r.FindLoss(w.ctx)
	if err != nil {
		w.t.Error(err)
	}
	_, err = r.Put(time.Now())
	if err := errors.Join(err, r.Close()); err != nil {
		w.t.Fatal(err)
	}
	return lost
}

// The drill: a disk is lost, and the newest backup is restored, in its place and on another machine. What was approved
// in it and used since is asked about anew, whatever lies beside it; what waited has ended.
func TestRule4_TheRestoreDrill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, withBackups(dir, `, recipients: [`+id.Recipient().String()+`]`))
	m := w.onMachine()
	w.newestOf(dir, time.Time{})
	due := m.now().Add(2 * time.Minute).Truncate(time.Hour).Add(time.Hour)
	m.pass(due.Sub(m.now()) - 2*time.Minute)
	approved := w.expect(transfer(2000), client.AnswerPending).ApprovalID
	if _, err := w.hana.Decide(w.ctx, approved, client.Approve, ""); err != nil {
		t.Fatal(err)
	}
	waits := w.expect(transfer(3000), client.AnswerPending).ApprovalID
	m.pass(2 * time.Minute)
	newest := w.newestOf(dir, due)
	w.expect(transfer(2000), client.AnswerApproved) // it runs, and the backup does not know
	if _, err := w.hana.Freeze(w.ctx, "other", "odd"); err != nil {
		t.Fatal(err)
	}
	cookie := w.signIn(w.hana)
	if got := w.browse(w.url("/status"), cookie, nil); !strings.Contains(got, "Last backup") ||
		!strings.Contains(got, "MiB") {
		t.Errorf("/status says %s", got)
	}
	if got := w.get("/metrics"); !strings.Contains(got, fmt.Sprintf(
		"countersign_backup_last_success_timestamp_seconds %g\n", float64(newest.At.Unix()))) {
		t.Errorf("the metric of a backup of %d is missing in %s", newest.At.Unix(), got)
	}
	w.stop()
	if all, err := backup.List(dir); err != nil || len(all) != 2 || all[0] != newest {
		t.Errorf("there are %+v, %v", all, err)
	}

	store := filepath.Join(w.dir, "gate.db")
	for name, at := range map[string]string{"in its place": store, "elsewhere": filepath.Join(t.TempDir(), "gate.db")} {
		lost := w.restore(at, newest, id)
		if at == store && (lost == nil || lost.Uses != 1 || len(lost.Frozen) != 1 || lost.Frozen[0].Agent != "other" ||
			lost.Requests+lost.Decisions+len(lost.Unfrozen) > 0) {
			t.Errorf("lost: %+v", lost)
		}
		w.env["STORE"] = at
		w.start()
		if again := w.expect(transfer(2000), client.AnswerPending).ApprovalID; again == approved {
			t.Errorf("%s: the approval lives", name)
		}
		for _, id := range []string{approved, waits} {
			if got := w.status(id); got.Status != "cancelled" || got.EndCode != "restored" {
				t.Errorf("%s: %s is %s, %s", name, id, got.Status, got.EndCode)
			}
		}
		if got := w.log.String(); !strings.Contains(got, "the store goes on from where it was left") {
			t.Errorf("%s: the log does not say of when the store is", name)
		}
		w.stop()
	}
}

// A backup that cannot be made is told to the admins once, and named until one is made; callers notice nothing.
func TestABackupThatFailsIsTold(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "backups")
	w := newWorld(t, withBackups(dir, ""))
	m := w.onMachine()
	const problem = "no backup of the store could be made since"
	w.eventually("/readyz names it", func() bool { return strings.Contains(w.get("/readyz"), problem) })
	if got := w.get("/readyz"); !strings.Contains(got, `"status":"ready"`) || !strings.Contains(got, dir) {
		t.Errorf("/readyz says %s", got)
	}
	w.lineCard("No backup of the gate's store could be made.", 1)
	if got := w.browse(w.url("/status"), w.signIn(w.hana), nil); !strings.Contains(got, "None could be made since") {
		t.Errorf("/status says %s", got)
	}
	m.pass(2 * time.Hour) // it fails again
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	m.pass(2 * time.Hour)
	w.newestOf(dir, time.Time{})
	w.eventually("/readyz names it no more", func() bool { return !strings.Contains(w.get("/readyz"), problem) })
	w.lineCard("No backup of the gate's store could be made.", 1)
}

// What a copy needs beside the store for a while is not taken from the room for decisions.
func TestABackupDoesNotFillTheDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWorld(t, withBackups(dir, ""))
	w.stop()
	w.free.Store(1 << 30) // a byte less, and the disk is full
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries { // made before
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	w.eventually("/readyz names it", func() bool {
		return strings.Contains(w.get("/readyz"), "on the store's disk for a while, which has 1024 MiB (1 %) left")
	})
	if all, err := backup.List(dir); err != nil || len(all) > 0 {
		t.Errorf("made: %v, %v", all, err)
	}
}
