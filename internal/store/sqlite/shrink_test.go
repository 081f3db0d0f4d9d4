package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

// pragma reads a pragma that is a number from a file.
func pragma(t testing.TB, path, name string) (n int64) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("PRAGMA " + name).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// rigid writes the file of a store that does not shrink, as earlier programs made them.
func rigid(t testing.TB) (path string) {
	t.Helper()
	path = schematest.NewFile(t)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, text := range []string{"PRAGMA auto_vacuum = NONE", "VACUUM"} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// fillAndEmpty leaves a store with few requests and much room: of so many, one in ten stays. It returns those.
func fillAndEmpty(t testing.TB, d *DB, requests int) (kept []string) {
	t.Helper()
	var gone []string
	args := []byte(`{"text":"` + strings.Repeat("x", 6000) + `"}`)
	for len(kept)+len(gone) < requests {
		update(t, d, func(tx approval.Tx) error {
			for i := range 100 {
				now := tx.Now()
				r := approval.Request{ID: tx.NewID(), Agent: "bot", Tool: fmt.Sprint("tool ", len(kept)+len(gone)), Args: args,
					ArgsHash: strings.Repeat("b", 64), Risk: approval.RiskHigh, ReasonCode: "approval_required",
					Status: approval.Denied, RequestedAt: now, ExpiresAt: now.Add(time.Hour), ResolvedAt: now, ResolvedBy: "hana",
					ResolvedVia: approval.ViaWeb, ResolvedSeq: int64(len(kept) + len(gone) + 1), AckedAt: now}
				n := approval.Notification{ID: tx.NewID(), ApprovalID: r.ID, Channel: "line", Recipient: "U1",
					Kind: approval.KindRequest, Status: approval.Sent, CreatedAt: now, UpdatedAt: now}
				_, err := tx.Append(approval.Event{Type: approval.EventApprovalRequested, ApprovalID: r.ID, Agent: "bot"})
				if err := errors.Join(err, tx.InsertRequest(r), tx.InsertNotification(n)); err != nil {
					return err
				}
				if i%10 == 0 {
					kept = append(kept, r.ID)
				} else {
					gone = append(gone, r.ID)
				}
			}
			return nil
		})
	}
	for some := range slices.Chunk(gone, 100) {
		update(t, d, func(tx approval.Tx) error {
			for _, id := range some {
				if ok, err := tx.RemoveRequest(id); !ok || err != nil {
					return fmt.Errorf("%s is removed: %v, %w", id, ok, err)
				}
			}
			return nil
		})
	}
	return kept
}

func sizeOf(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// A file gives back what was removed while others write, and keeps some room for them.
func TestAStoreShrinksWhileOthersWrite(t *testing.T) {
	d := open(t, Options{})
	fillAndEmpty(t, d, 4000)
	if _, err := d.checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := sizeOf(t, d.path)
	stop, letGo := testkit.Latch()
	defer letGo()
	var writers sync.WaitGroup
	var written atomic.Int64
	for range 4 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := d.Update(t.Context(), approval.WholeStore(), oneEvent); err != nil {
					t.Error(err)
					return
				}
				written.Add(1)
			}
		})
	}
	if err := d.Shrink(t.Context()); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "the file is shorter, while the store is written to", func() bool {
		return sizeOf(t, d.path) < before/2
	})
	letGo()
	testkit.Wait(t, "the writers", writers.Wait)
	after, _, err := d.readRoom(t.Context())
	if err != nil || after.free < slackPages/2 || after.free > slackPages {
		t.Errorf("%+v, %v", after, err)
	}
	t.Logf("%d of %d bytes, with %+v, while %d events were written", sizeOf(t, d.path), before, after, written.Load())
}

// What is free and may be needed soon stays.
func TestSomeRoomStaysFree(t *testing.T) {
	for _, r := range []struct {
		room
		want int64
	}{
		{room{5000, 900}, -100}, {room{5000, 1000}, 0}, {room{5000, 1200}, 200}, {room{20_000, 1100}, 100},
		{room{100_000, 5000}, 0}, {room{100_000, 60_000}, 55_000},
	} {
		if got := r.spare(); got != r.want {
			t.Errorf("%+v: %d, want %d", r.room, got, r.want)
		}
	}
}

// The file of a store that was not made to shrink stays as it is.
func TestAFileThatCannotShrinkIsLeftAlone(t *testing.T) {
	path := rigid(t)
	d := open(t, Options{Path: path})
	fillAndEmpty(t, d, 1500)
	before, shrinks, err := d.readRoom(t.Context())
	if err != nil || shrinks || before.spare() <= 0 {
		t.Fatalf("%+v, %v, %v", before, shrinks, err)
	}
	if err := d.Shrink(t.Context()); err != nil {
		t.Error(err)
	}
	if after, _, err := d.readRoom(t.Context()); err != nil || after != before {
		t.Errorf("%+v, %v, before %+v", after, err, before)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Path: path}) // its tables are as they must be
	if got := pragma(t, path, "auto_vacuum"); got != 0 {
		t.Errorf("auto_vacuum is %d after another start", got)
	}
}

// While something reads how things were, nothing is gained by writing: the next run goes on.
func TestShrinkingEndsWhereTheLogCannotBeMoved(t *testing.T) {
	d := open(t, Options{})
	fillAndEmpty(t, d, 12_000)
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
	err := d.Shrink(t.Context())
	left, _, readErr := d.readRoom(t.Context())
	if err := errors.Join(err, readErr); err != nil || left.spare() <= 0 {
		t.Errorf("beside a reader: %+v, %v", left, err)
	}
	if got := sizeOf(t, d.path+"-wal"); got > 64<<20 {
		t.Errorf("the log has %d bytes", got)
	}
	letGo()
	testkit.Wait(t, "the reader's end", reader.Wait)
	if err := d.Shrink(t.Context()); err != nil {
		t.Error(err)
	}
	if left, _, err := d.readRoom(t.Context()); err != nil || left.spare() > 0 {
		t.Errorf("after it: %+v, %v", left, err)
	}
}

// Copies of a store can shrink as it does, and so can what came from a database of another kind.
func TestWhatIsMadeOfAStoreShrinks(t *testing.T) {
	d := open(t, Options{})
	update(t, d, oneEvent)
	backup, moved := filepath.Join(t.TempDir(), "backup.db"), filepath.Join(t.TempDir(), "moved.db")
	if _, err := Backup(t.Context(), d.path, backup); err != nil {
		t.Fatal(err)
	}
	a, err := Arrive(t.Context(), moved)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh.db")
	open(t, Options{Path: fresh})
	for _, path := range []string{d.path, backup, fresh} {
		if got := pragma(t, path, "auto_vacuum"); got != incremental {
			t.Errorf("%s: auto_vacuum is %d", path, got)
		}
	}
}

// shrinking makes this process the child of [TestKilledWhileShrinking] if it was started as that.
func shrinking() bool {
	path := os.Getenv("COUNTERSIGN_SHRINK_STORE")
	if path == "" {
		return false
	}
	var point string
	var after int32
	if _, err := fmt.Sscan(os.Getenv("COUNTERSIGN_SHRINK_POINT"), &point, &after); err != nil {
		fmt.Println(err)
		return true
	}
	var passed atomic.Int32
	d, err := Open(context.Background(), Options{Path: path, Failpoint: func(name string) {
		if name == point && passed.Add(1) == after {
			kill()
		}
	}})
	if err != nil {
		fmt.Println("open:", err)
		return true
	}
	go func() {
		for k := range 100_000 {
			var id string
			if err := d.Update(context.Background(), approval.WholeStore(), func(tx approval.Tx) (err error) {
				id, err = create(tx, "bot", fmt.Sprintf("%s %d %d", point, after, k))
				return err
			}); err != nil {
				fmt.Println("update:", err)
				return
			}
			fmt.Println("stored", id)
		}
	}()
	for {
		if err := d.Shrink(context.Background()); err != nil {
			fmt.Println("shrink:", err)
			return true
		}
	}
}

// Wherever the process ends while the file is made smaller, nothing is lost that was answered or was there, and the
// file is sound.
func TestKilledWhileShrinking(t *testing.T) {
	path := schematest.NewFile(t)
	d := open(t, Options{Path: path})
	want := map[string]bool{}
	for _, id := range fillAndEmpty(t, d, 4000) {
		want[id] = true
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	before := sizeOf(t, path)
	for i, point := range []string{"before-commit 3", "after-commit 20", "before-commit 70", "after-commit 111"} {
		cmd := testkit.Command(t, os.Args[0])
		cmd.Env = append(os.Environ(), "COUNTERSIGN_SHRINK_STORE="+path, "COUNTERSIGN_SHRINK_POINT="+point)
		out, err := cmd.Output()
		if err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("%s: the child was not killed: %v, %s", point, err, out)
		}
		for line := range strings.Lines(string(out)) {
			var id string
			if n, _ := fmt.Sscanf(line, "stored %s", &id); n == 1 {
				want[id] = true
			} else if strings.HasSuffix(line, "\n") {
				t.Errorf("%s: the child says %q", point, line)
			}
		}
		d := open(t, Options{Path: path})
		checkSound(t, d)
		left, _, err := d.readRoom(t.Context())
		if err != nil {
			t.Error(err)
		}
		t.Logf("killed at %s: %+v", point, left)
		view(t, d, func(tx approval.Tx) error {
			for id := range want {
				if _, err := tx.Request(id); err != nil {
					t.Errorf("%s: request %s: %v", point, id, err)
				}
			}
			return nil
		})
		if i == 3 {
			if err := d.Shrink(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if after := sizeOf(t, path); after > before/2 {
		t.Errorf("the file has %d bytes, and had %d", after, before)
	}
}
