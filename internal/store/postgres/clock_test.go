//go:build postgres

package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/testkit"
	"countersign/internal/uptime"
)

// setClock makes test_clock() the database's clock, so much ahead of the right one.
func setClock(t *testing.T, url string, by time.Duration) {
	t.Helper()
	execute(t, url, fmt.Sprintf(`CREATE OR REPLACE FUNCTION test_clock() RETURNS timestamptz VOLATILE LANGUAGE sql AS
  $$SELECT clock_timestamp() + interval '%d milliseconds'$$`, by.Milliseconds()))
}

// withClock opens a store whose database has its clock set by setClock.
func withClock(t *testing.T, url string) *DB {
	return open(t, Options{URL: url, clock: "test_clock()"})
}

func timeOf(t *testing.T, d *DB) (now time.Time) {
	t.Helper()
	if err := d.Update(t.Context(), approval.OfNothing(), func(tx approval.Tx) error {
		now = tx.Now()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return now
}

func keepTime(t *testing.T, ds ...*DB) {
	t.Helper()
	for _, d := range ds {
		if err := d.clock.keep(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// pass has so much time pass since a test's beginning, for the database, whose clock has jumped, and for the machines
// of programs.
func pass(t *testing.T, url string, by, jumped time.Duration, ds ...*DB) {
	t.Helper()
	for _, d := range ds {
		d.clock.keeping.Lock()
		d.clock.count = func() time.Duration {
			since, _ := uptime.SinceBoot()
			return since + by
		}
	}
	setClock(t, url, jumped+by)
	for _, d := range ds {
		d.clock.keeping.Unlock()
	}
	keepTime(t, ds...)
}

// near reports whether two times are the same but for what the test takes.
func near(a, b time.Time) bool { return a.Sub(b).Abs() < 20*time.Second }

// Rule 2.6: a store's time never goes back, whatever the database's clock is set to, and whichever program looks.
func TestRule6_TheTimeDoesNotGoBackWithTheDatabasesClock(t *testing.T) {
	url := database(t)
	setClock(t, url, 0)
	a, b := withClock(t, url), withClock(t, url)
	begun := timeOf(t, a)
	setClock(t, url, -time.Hour)
	// Another program's may differ by what is not written yet.
	for d, was := range map[*DB]time.Time{a: begun, b: begun.Add(-tick)} {
		if now := timeOf(t, d); now.Before(was) || !near(now, begun) {
			t.Errorf("after the clock was set back it is %v, and was %v", now, begun)
		}
	}
	keepTime(t, a, b)
	now := timeOf(t, b)
	for _, d := range []*DB{a, b} {
		if off := d.Off(); (off + time.Hour).Abs() > time.Minute {
			t.Errorf("the clock is off by %v", off)
		}
		if wall := d.ToWall(now); !near(wall, now.Add(-time.Hour)) || !near(d.FromWall(wall), now) {
			t.Errorf("%v is %v by the clock, and that is %v", now, wall, d.FromWall(wall))
		}
		if wall := d.ToWall(begun); !near(wall, begun.Add(-time.Hour)) {
			t.Errorf("%v, which was before, is %v by the clock", begun, wall)
		}
	}
	if err := a.AcceptClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	keepTime(t, b)
	if a.Off() != 0 || b.Off() != 0 {
		t.Errorf("it was accepted, and is off by %v and %v", a.Off(), b.Off())
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = withClock(t, url) // a program that starts meanwhile
	// It was not told of what the others have given out since the time was written last.
	if later := timeOf(t, b); later.Before(now.Add(-tick)) || !near(later, now) {
		t.Errorf("after a start it is %v, and was %v", later, now)
	}
	setClock(t, url, 0) // set right again: no hour is skipped
	for _, d := range []*DB{a, b} {
		if later := timeOf(t, d); !near(later, now) {
			t.Errorf("after the clock was set right it is %v, and was %v", later, now)
		}
	}
	keepTime(t, a, b)
	for _, d := range []*DB{a, b} {
		if later := timeOf(t, d); later.Before(now.Add(-tick)) || !near(later, now) || d.Off() != 0 {
			t.Errorf("then it is %v, and was %v; it is off by %v", later, now, d.Off())
		}
	}
}

// While the store's time is ahead it goes a hundredth slower than the database's clock.
func TestTheTimeIsWorkedOff(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := clockState{at: at}
	s = s.next(at.Add(-100*time.Second), 0)
	if s.ahead != 100*time.Second || !s.at.Equal(at) || !s.setBack.Equal(at) || s.by != s.ahead {
		t.Fatalf("set back by 100 s: %+v", s)
	}
	for i := range 10_000 {
		was := s
		s = s.next(at.Add(time.Duration(i-99)*time.Second), 0)
		if passed := s.at.Sub(was.at); passed <= 0 || passed > time.Second {
			t.Fatalf("in a second of the clock %v pass", passed)
		}
	}
	if s.ahead > 10*time.Second || s.ahead < 0 {
		t.Errorf("after 10,000 s it is ahead by %v", s.ahead)
	}
}

// A jump ahead is one, however many programs have seen it.
func TestAJumpAheadIsTakenInOnce(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	back := clockState{at: at}.next(at.Add(-time.Hour), 0)
	back.accepted = back.ahead
	first := back.next(at.Add(-50*time.Minute), 10*time.Minute)
	second := first.next(at.Add(-50*time.Minute+700*time.Millisecond), 10*time.Minute)
	for _, s := range []clockState{first, second} {
		if (s.ahead-50*time.Minute).Abs() > time.Second || !s.setBack.Equal(back.setBack) || s.accepted != back.accepted {
			t.Errorf("it was %+v, and is %+v", back, s)
		}
	}
}

// Rule 2.6: a jump of the database's clock that is taken back ends nothing, whichever program has seen it and even
// where that ends; one that stands is followed after [approval.HoldFor], or at once where an admin says so.
func TestRule6_AJumpOfTheDatabasesClockThatIsTakenBackEndsNothing(t *testing.T) {
	const jump = 400 * 24 * time.Hour
	start := func(t *testing.T) (url string, a, b *DB, begun time.Time) {
		url = database(t)
		setClock(t, url, 0)
		a, b = withClock(t, url), withClock(t, url)
		keepTime(t, a, b)
		begun = timeOf(t, a)
		setClock(t, url, jump)
		keepTime(t, a, b, a)
		for _, d := range []*DB{a, b} {
			if now := timeOf(t, d); !near(now, begun) || !near(d.FromWall(now), now) || !near(d.ToWall(now), now) ||
				(d.Off()-jump).Abs() > time.Minute {
				t.Errorf("after the jump it is %v, and was %v; it is off by %v", now, begun, d.Off())
			}
		}
		return url, a, b, begun
	}
	t.Run("it is taken back", func(t *testing.T) {
		url, a, b, begun := start(t)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		c := withClock(t, url) // it has not seen the jump
		setClock(t, url, 0)
		keepTime(t, b, c)
		for _, d := range []*DB{b, c} {
			if now := timeOf(t, d); !near(now, begun) || d.Off() != 0 || d.knownClock().setBack != (time.Time{}) {
				t.Errorf("after the jump was taken back it is %v, and was %v; it is off by %v", now, begun, d.Off())
			}
		}
	})
	t.Run("a part of it is taken back", func(t *testing.T) {
		url, a, b, begun := start(t)
		setClock(t, url, jump/2)
		keepTime(t, a, b)
		if now := timeOf(t, b); !near(now, begun) || (b.Off()-jump/2).Abs() > time.Minute {
			t.Errorf("it is %v, and was %v; it is off by %v", now, begun, b.Off())
		}
	})
	t.Run("it stands", func(t *testing.T) {
		url, a, b, begun := start(t)
		pass(t, url, approval.HoldFor-time.Minute, jump, a, b)
		if left := b.FollowsIn(); (left - time.Minute).Abs() > 20*time.Second {
			t.Errorf("it follows in %v, want a minute", left)
		}
		if now := timeOf(t, b); !near(now, begun.Add(approval.HoldFor-time.Minute)) {
			t.Errorf("before the time is over it is %v, and was %v", now, begun)
		}
		pass(t, url, approval.HoldFor+time.Minute, jump, a, b)
		for _, d := range []*DB{a, b} {
			if now := timeOf(t, d); !near(now, begun.Add(jump+approval.HoldFor+time.Minute)) || d.Off() != 0 {
				t.Errorf("after that it is %v, and was %v; it is off by %v", now, begun, d.Off())
			}
		}
	})
	t.Run("it is accepted", func(t *testing.T) {
		_, a, b, begun := start(t)
		if err := b.AcceptClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		keepTime(t, a)
		for _, d := range []*DB{a, b} {
			if now := timeOf(t, d); !near(now, begun.Add(jump)) || d.Off() != 0 {
				t.Errorf("it is %v, and was %v; it is off by %v", now, begun, d.Off())
			}
		}
	})
}

// What a slow answer hides is no jump; and one that could not be written is not forgotten.
func TestAJumpIsMeasuredAtLeast(t *testing.T) {
	url := database(t)
	setClock(t, url, 0)
	d := withClock(t, url)
	setClock(t, url, time.Hour)
	gone, cancel := context.WithCancel(t.Context())
	d.clock.keeping.Lock()
	count := d.clock.count
	d.clock.count = func() time.Duration { cancel(); return count() } // the time is read, and not written
	d.clock.keeping.Unlock()
	_ = d.clock.keep(gone, nil)
	d.clock.keeping.Lock()
	d.clock.count = count
	d.clock.keeping.Unlock()
	keepTime(t, d)
	if off := d.Off(); (off - time.Hour).Abs() > time.Minute {
		t.Errorf("it is off by %v", off)
	}
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	c := clock{count: func() time.Duration { return 13 * time.Second }, countsSleep: true, now: time.Now,
		seen: look{clock: at.Add(3 * time.Second), since: 0}} // its answer took until 3
	if by := c.jump(at.Add(10*time.Second), clockState{}); by != 0 { // asked at 10, answered at 13
		t.Errorf("there was a jump by %v", by)
	}
}

// What may have been the machine's sleep is no jump to be held for; a clock that was set back, and is set right again,
// skips no time all the same.
func TestRule6_WithoutACountOfSleepNoTimeIsSkippedAndNoneHeld(t *testing.T) {
	url := database(t)
	setClock(t, url, 0)
	d := withClock(t, url)
	d.clock.keeping.Lock()
	begun := time.Now()
	d.clock.count, d.clock.countsSleep = func() time.Duration { return time.Since(begun) }, false
	d.clock.seen = look{}
	d.clock.keeping.Unlock()
	keepTime(t, d)
	at := timeOf(t, d)
	setClock(t, url, -time.Hour)
	keepTime(t, d)
	setClock(t, url, 0)
	keepTime(t, d)
	if now := timeOf(t, d); !near(now, at) || d.Off() != 0 {
		t.Errorf("after the clock was set back and right again it is %v, and was %v; it is off by %v", now, at, d.Off())
	}
	setClock(t, url, time.Hour)
	keepTime(t, d)
	if now := timeOf(t, d); !near(now, at.Add(time.Hour)) || d.FollowsIn() != 0 || d.Off() != 0 {
		t.Errorf("after a jump it is %v, and was %v; it is held for %v, and off by %v", now, at, d.FollowsIn(), d.Off())
	}
}

// Between two transactions, the time that a program tells goes by the database's clock, and not by its machine's.
func TestTheTimeOfAProgramThatRestsIsTheDatabases(t *testing.T) {
	url := database(t)
	setClock(t, url, 0)
	d := withClock(t, url)
	begun := timeOf(t, d)
	d.clock.keeping.Lock()
	d.clock.mu.Lock()
	machine := testkit.NewClock(time.Now())
	d.clock.now, d.clock.when = machine.Now, machine.Now()
	d.clock.mu.Unlock()
	d.clock.count = machine.Elapsed
	d.clock.seen.since = machine.Elapsed()
	d.clock.keeping.Unlock()
	for range 100 {
		machine.Advance(time.Second) // of which next to nothing passes for the database
		keepTime(t, d)
	}
	if now := d.Now(); !near(now, begun) {
		t.Errorf("it is %v, and was %v", now, begun)
	}
}
