package app

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/config"
	"countersign/internal/disk"
	"countersign/internal/retention"
	"countersign/internal/store/sqlite"
	"countersign/internal/testkit"
)

// What came in the last week has its part of the store's size; before a day has passed nothing is told.
func TestHowFastTheStoreGrows(t *testing.T) {
	clock := testkit.NewClock(time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC))
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "gate.db"), Now: clock.Now,
		Elapsed: clock.Elapsed})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const mib = 1 << 20
	perDay := func(mibs int64) int64 {
		t.Helper()
		n, err := readGrowth(t.Context(), db, mibs*mib)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := perDay(1); n != -1 {
		t.Errorf("an empty store grows by %d", n)
	}
	append100 := func() {
		if err := db.Update(t.Context(), approval.OfNothing(), func(tx approval.Tx) error {
			for range 100 {
				if _, err := tx.Append(approval.Event{Type: approval.EventVote, Agent: "bot"}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	append100()
	clock.Advance(23 * time.Hour)
	if n := perDay(1); n != -1 {
		t.Errorf("in its first day a store grows by %d", n)
	}
	clock.Advance(time.Hour)
	if n := perDay(2); n != 2*mib {
		t.Errorf("after a day it grows by %d", n)
	}
	for range 20 {
		append100()
		clock.Advance(24 * time.Hour)
	}
	if n := perDay(21); n < mib*9/10 || n > mib*11/10 { // 100 events a day, of 2100
		t.Errorf("with 1 MiB a day it grows by %d", n)
	}
	clock.Advance(8 * 24 * time.Hour)
	if n := perDay(21); n != 0 {
		t.Errorf("after a week without anything it grows by %d", n)
	}
	if err := db.Update(t.Context(), approval.OfNothing(), func(tx approval.Tx) error {
		_, err := tx.Append(approval.Event{Type: approval.EventAuditPruned})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if n := perDay(21); n != -1 {
		t.Errorf("with a part of its events it grows by %d", n)
	}
}

// An operator is told of a disk that is full within a month.
func TestADiskThatIsFullSoonIsTold(t *testing.T) {
	var l inForce
	l.Store(&live{cfg: &config.Config{}})
	for _, test := range []struct {
		name         string
		free, perDay int64 // MiB
		days         int
		told         string
	}{
		{"soon", 1000, 100, 10, "the store grows by 100 MiB a day, and its disk is full in 10 days unless"},
		{"in a month", 3000, 100, 30, ""},
		{"never", 1 << 40 >> 20, 0, 0, ""},
		{"in ages", 1 << 40, 1, 36500, ""},
		{"not known", 1000, -1, 0, ""},
	} {
		d := newDiskWatch("gate.db", nil, slog.New(slog.DiscardHandler))
		d.space.Store(&disk.Space{Free: test.free << 20, All: 1 << 62})
		g := &growth{disk: d, live: &l}
		if g.fullIn() != 0 || g.problems() != nil {
			t.Errorf("%s: before it is read it is %s, %q", test.name, g.fullIn(), g.problems())
		}
		g.is.Store(&storeSize{bytes: 1 << 30, perDay: test.perDay << 20})
		said := strings.Join(g.problems(), "\n")
		if days := int(g.fullIn().Hours() / 24); days != test.days || (said == "") != (test.told == "") ||
			!strings.HasPrefix(said, test.told) {
			t.Errorf("%s: full in %d days, %q", test.name, days, said)
		}
	}
	d := newDiskWatch("gate.db", nil, slog.New(slog.DiscardHandler))
	d.space.Store(&disk.Space{Free: 1000 << 20, All: 1 << 62})
	g := &growth{disk: d, live: &l}
	g.is.Store(&storeSize{bytes: 1 << 30, perDay: 100 << 20})
	l.Store(&live{cfg: &config.Config{Keep: retention.Keep{Requests: time.Hour}}})
	if g.problems() != nil {
		t.Errorf("where requests are removed it says %q", g.problems())
	}
	l.Store(&live{cfg: &config.Config{}})
	d = newDiskWatch("", nil, slog.New(slog.DiscardHandler))
	g = &growth{disk: d, live: &l}
	g.is.Store(&storeSize{bytes: 1 << 30, perDay: 1 << 30})
	if g.fullIn() != 0 || g.problems() != nil {
		t.Errorf("of a database's disk is told %s, %q", g.fullIn(), g.problems())
	}
}
