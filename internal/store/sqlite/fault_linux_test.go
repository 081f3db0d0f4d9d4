package sqlite

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"countersign/approval"
	"countersign/internal/testkit"
)

func TestReadOnlyFolder(t *testing.T) {
	dir := t.TempDir()
	for p := dir; p != filepath.Dir(os.TempDir()) && strings.HasPrefix(p, os.TempDir()) &&
		p != os.TempDir(); p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ro := filepath.Join(dir, "ro")
	if err := os.Mkdir(ro, 0o555); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Geteuid() == 0 { // root may write anywhere: be nobody, as far as files go, in this thread
			runtime.LockOSThread() // it ends with the goroutine
			if err := unix.Setfsuid(65534); err != nil {
				t.Error(err)
				return
			}
		}
		d, err := Open(t.Context(), Options{Path: filepath.Join(ro, "store.db")})
		if err == nil {
			d.Close()
			t.Error("a store in a read-only folder was opened")
			return
		}
		if e, _ := errors.AsType[*approval.Error](err); e == nil || e.Code != approval.CodeStoreUnavailable ||
			!strings.Contains(e.Message, "write access") {
			t.Errorf("read-only folder: %v", err)
		}
	}()
	testkit.Receive(t, "the folder's tries", done)
	if names := files(t, ro); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
}

// When a write to the disk fails, the group is not stored, the next connection sees only what was
// committed before, and the store goes on when the disk does.
func TestWriteFails(t *testing.T) {
	if !testkit.InOwnProcess(t) {
		return
	}
	signal.Ignore(unix.SIGXFSZ)
	var full unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	d := open(t, Options{})
	update(t, d, func(tx approval.Tx) error { return second(create(tx, "bot", "first")) })
	info, err := os.Stat(d.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	set := func(size uint64) {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: full.Max}); err != nil {
			t.Fatal(err)
		}
	}
	set(uint64(info.Size()) + 6000) // a page more and a half
	errs := grouped(t, d,
		func(tx approval.Tx) error { return second(create(tx, "bot", "a")) },
		func(tx approval.Tx) error { return second(create(tx, "bot", "b")) },
		func(approval.Tx) error { return errors.New("its own") })
	set(full.Cur)
	for i, err := range errs[:2] {
		if e, _ := errors.AsType[*approval.Error](err); e == nil || e.Code != approval.CodeStoreUnavailable ||
			!strings.Contains(e.Message, "disk") {
			t.Errorf("function %d of a group that could not be written: %v", i, err)
		}
	}
	if errs[2] == nil || errs[2].Error() != "its own" {
		t.Errorf("the function that failed by itself: %v", errs[2])
	}
	if n := len(checkWhole(t, d)); n != 1 {
		t.Errorf("%d requests stored, want 1", n)
	}
	update(t, d, func(tx approval.Tx) error { return second(create(tx, "bot", "a")) })
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(checkWhole(t, open(t, Options{Path: d.path}))); n != 2 {
		t.Errorf("%d requests stored, want 2", n)
	}
}

// Whether the store answers is found out by a write: on a full disk all else works.
func TestTheProbeSeesAFullDisk(t *testing.T) {
	if !testkit.InOwnProcess(t) {
		return
	}
	signal.Ignore(unix.SIGXFSZ)
	var full unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	d := open(t, Options{})
	update(t, d, oneEvent)
	info, err := os.Stat(d.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(info.Size()) + 100, Max: full.Max}); err != nil {
		t.Fatal(err)
	}
	failed, pinged := d.Update(t.Context(), approval.WholeStore(), oneEvent), d.Ping(t.Context())
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	if d.RecordAllowed(approval.AllowedCall{}, allowedCall("a")) {
		t.Error("an event was taken after a commit that failed")
	}
	for name, err := range map[string]error{"an update": failed, "the probe": pinged} {
		if e, _ := errors.AsType[*approval.Error](err); e == nil || e.Code != approval.CodeStoreUnavailable ||
			!strings.Contains(e.Message, "disk") {
			t.Errorf("%s on a full disk: %v", name, err)
		}
	}
	if err := d.Ping(t.Context()); err != nil {
		t.Errorf("once there is room: %v", err)
	}
	logged(t, d, "a")
}

// A disk without room for the copy leaves the tables as they were, and nothing behind.
func TestNoRoomForTheCopy(t *testing.T) {
	if !testkit.InOwnProcess(t) {
		return
	}
	signal.Ignore(unix.SIGXFSZ)
	path, before := oldStore(t), oldStore(t)
	var full unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	set := func(size uint64) {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: full.Max}); err != nil {
			t.Fatal(err)
		}
	}
	set(100_000) // of the 180 KiB that it takes
	d, err := Open(t.Context(), Options{Path: path, Now: oldNow})
	set(full.Cur)
	if err == nil {
		d.Close()
		t.Fatal("the store was opened without a copy")
	}
	if !strings.Contains(err.Error(), "could not be copied") || !strings.Contains(err.Error(), "disk") {
		t.Errorf("no room for the copy: %v", err)
	}
	if v := versionOf(t, path); v != 7 {
		t.Errorf("the store has version %d", v)
	}
	sameRows(t, before, path)
	if copies := copiesOf(t, path); len(copies) != 0 {
		t.Errorf("left behind: %q", copies)
	}
	open(t, Options{Path: path, Now: oldNow})
	if copies := copiesOf(t, path); len(copies) != 1 {
		t.Errorf("copies once there is room: %q", copies)
	}
}
