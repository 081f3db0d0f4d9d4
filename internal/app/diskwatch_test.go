package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/internal/disk"
)

// watched is a disk of 100 GiB that is as full as a test says, by MiB, with what a watch of it says.
type watched struct {
	*diskWatch
	t     *testing.T
	mib   int64
	gives bool // the reserve's room, where it is given up
	said  []string
	fails error
	at    time.Time
}

func watchDisk(t *testing.T) *watched {
	w := &watched{t: t, mib: 50 << 10, at: time.Unix(1_000_000, 0), gives: true}
	w.diskWatch = newDiskWatch(filepath.Join(t.TempDir(), "gate.db"), func(string) (disk.Space, error) {
		free := w.mib << 20
		if w.gives && !w.reserve.file.IsThere() {
			free += reserveBytes
		}
		return disk.Space{Free: free, All: 100 << 30}, nil
	}, slog.New(slog.DiscardHandler))
	says := func(level string) func(context.Context, int64, int) error {
		return func(_ context.Context, free int64, percent int) error {
			if w.fails == nil {
				w.said = append(w.said, fmt.Sprintf("%s: %d MiB, %d %%", level, free>>20, percent))
			}
			return w.fails
		}
	}
	w.tell = map[disk.Level]func(context.Context, int64, int) error{disk.Low: says("low"), disk.Full: says("full")}
	return w
}

// after is a look at the disk with so much free beside the reserve, so much later; the problem that it has is returned.
func (w *watched) after(d time.Duration, mib int64) string {
	w.mib, w.at = mib, w.at.Add(d)
	w.look(w.t.Context(), w.at)
	return strings.Join(w.problems(), "\n")
}

// Room is kept on the disk by a file, and given to decisions when there is no other; the gate says of the disk what it
// would be with the file, so nothing new is asked until there is room for that as well.
func TestTheReserveIsGivenUpOnAFullDisk(t *testing.T) {
	w := watchDisk(t)
	if said := w.after(0, 50<<10); said != "" || !w.reserve.file.IsThere() {
		t.Errorf("at first: %q; it is there: %v", said, w.reserve.file.IsThere())
	}
	if said := w.after(time.Second, 16); !w.reserve.file.IsThere() || strings.Contains(said, "reserve") {
		t.Errorf("with 16 MiB left: %q; it is there: %v", said, w.reserve.file.IsThere())
	}
	const full = " MiB (0 %) left, and new requests are refused: make room on it; once it is full, nothing can be " +
		"decided either"
	for _, mib := range []int64{15, 16, 99, 1023} {
		if said := w.after(time.Second, mib); w.reserve.file.IsThere() ||
			!strings.Contains(said, fmt.Sprint(mib, full, "; the reserve of 64 MiB was given up for decisions")) {
			t.Errorf("with %d MiB left: %q; it is there: %v", mib, said, w.reserve.file.IsThere())
		}
		if err := w.checkSpace(1); err == nil {
			t.Errorf("with %d MiB left a request is taken", mib)
		}
	}
	if said := w.after(time.Second, 1024); !w.reserve.file.IsThere() || strings.Contains(said, "reserve") {
		t.Errorf("with 1 GiB left: %q; it is there: %v", said, w.reserve.file.IsThere())
	}
}

// Where a disk gives no room back, as with snapshots, the gate says so, until it has.
func TestAReserveThatGivesNoRoomIsTold(t *testing.T) {
	const useless = "was given up and gave no room: look for snapshots of the disk, or a quota"
	w := watchDisk(t)
	w.gives = false
	w.after(0, 50<<10)
	if said := w.after(time.Second, 15); w.reserve.file.IsThere() || !strings.Contains(said, useless) {
		t.Errorf("%q; it is there: %v", said, w.reserve.file.IsThere())
	}
	if said := w.after(time.Second, 14); !strings.Contains(said, useless) {
		t.Error(said)
	}
	w.gives = true // some do it later
	if said := w.after(time.Second, 14); strings.Contains(said, useless) || !strings.Contains(said, "for decisions") {
		t.Error(said)
	}
}

// A write that finds no room has the reserve given up, whatever the disk says; it is not made anew at once, to be given
// up by the next write.
func TestAWriteThatFindsNoRoomGetsTheReserve(t *testing.T) {
	w := watchDisk(t)
	w.giveUpReserve() // there is none yet
	w.after(0, 50<<10)
	for range reserveRest {
		w.after(time.Second, 50<<10)
	}
	if !w.reserve.file.IsThere() {
		t.Fatal("it is not made")
	}
	w.giveUpReserve()
	for range reserveRest {
		if w.after(time.Second, 50<<10); w.reserve.file.IsThere() {
			t.Fatal("it is made anew at once")
		}
	}
	if w.after(time.Second, 50<<10); !w.reserve.file.IsThere() {
		t.Error("it is not made anew")
	}
}

// A gate that starts on a full disk gets the reserve as well, and one on a disk that has never had room for it asks as
// before.
func TestTheReserveAtTheStart(t *testing.T) {
	w := watchDisk(t)
	w.gives = false
	w.mib = 512 // of 100 GiB: the disk is full for new requests, and there is no reserve yet
	w.makeRoom()
	if said := w.after(0, 1080); w.reserve.file.IsThere() || strings.Contains(said, "new requests") {
		t.Errorf("with little room: %q; it is there: %v", said, w.reserve.file.IsThere())
	}
	w.after(time.Second, 50<<10)
	again := watchDisk(t)
	again.reserve.file = w.reserve.file
	again.mib = 16
	again.makeRoom()
	if !again.reserve.file.IsThere() {
		t.Error("it is given up with 16 MiB left")
	}
	again.mib = 3
	again.makeRoom()
	if again.reserve.file.IsThere() {
		t.Error("it is not given up on a full disk")
	}
}

// The reserve lies on the disk of the store, and not on that of a link to it.
func TestTheReserveIsWhereTheStoreIs(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link.db")
	path := filepath.Join(dir, "gate.db")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	looked := ""
	d := newDiskWatch(link, func(at string) (disk.Space, error) {
		looked = at
		return disk.Space{Free: 50 << 30, All: 100 << 30}, nil
	}, slog.New(slog.DiscardHandler))
	d.look(t.Context(), time.Unix(1_000_000, 0))
	is, err := filepath.EvalSymlinks(dir)
	if err != nil || looked != is || d.reserve.file.Path != filepath.Join(is, "gate.db.reserve") {
		t.Errorf("looked at %s, and the reserve is %s; %v", looked, d.reserve.file.Path, err)
	}
}

// A gate without a file, or on a disk of which nothing is known, keeps nothing on it.
func TestNoReserveOnADiskThatIsNotKnown(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, w := range map[string]*diskWatch{
		"no file": newDiskWatch("", func(string) (disk.Space, error) { return disk.Space{Free: 1 << 40, All: 1 << 40}, nil },
			slog.New(slog.DiscardHandler)),
		"an error": newDiskWatch("gate.db", func(string) (disk.Space, error) { return disk.Space{}, errors.New("none") },
			slog.New(slog.DiscardHandler)),
		"no sizes": newDiskWatch("gate.db", func(string) (disk.Space, error) { return disk.Space{}, nil },
			slog.New(slog.DiscardHandler)),
	} {
		w.look(t.Context(), time.Unix(1_000_000, 0))
		w.giveUpReserve()
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || w.problems() != nil || w.checkSpace(1<<30) != nil {
			t.Errorf("%s: %v, %v, %v", name, left, w.problems(), err)
		}
	}
}

// The admins are told of each level of a shortage once, and once more a day later if it was better meanwhile.
func TestTheAdminsAreToldOfEachLevelOnce(t *testing.T) {
	w := watchDisk(t)
	const roomy, low, full = 50 << 10, 4 << 10, 512
	w.after(0, roomy)
	w.after(time.Minute, low)
	w.after(time.Minute, low)
	w.after(time.Minute, full)
	w.after(time.Minute, low)
	w.after(time.Minute, full)
	w.after(time.Minute, roomy)
	w.after(time.Minute, low)
	w.after(48*time.Hour, low) // it was better meanwhile
	w.after(48*time.Hour, low) // it was not
	w.after(time.Minute, roomy)
	w.fails = errors.New("the store is busy")
	w.after(time.Hour, full)
	w.fails = nil
	w.after(time.Second, full) // tried again after a minute
	w.after(time.Minute, full)
	w.after(time.Minute, full)
	want := []string{"low: 4096 MiB, 4 %", "full: 512 MiB, 0 %", "low: 4096 MiB, 4 %", "full: 512 MiB, 0 %"}
	if !slices.Equal(w.said, want) {
		t.Errorf("%q, want %q", w.said, want)
	}
}
