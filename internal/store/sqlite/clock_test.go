package sqlite

import (
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/internal/testkit"
)

// machine has a clock that can be set, and a count of the time that passes, which cannot.
type machine struct {
	wall    time.Time
	elapsed time.Duration
	boot    string
}

func newMachine() *machine {
	return &machine{wall: time.Date(2028, 2, 28, 22, 0, 0, 0, time.UTC), elapsed: time.Hour, boot: "first"}
}

func (m *machine) now() time.Time       { return m.wall }
func (m *machine) count() time.Duration { return m.elapsed }
func (m *machine) set(by time.Duration) { m.wall = m.wall.Add(by) }
func (m *machine) pass(d time.Duration) { m.wall, m.elapsed = m.wall.Add(d), m.elapsed+d }
func (m *machine) start(s clockState) *clock {
	return newClock(m.now, m.count, m.boot, slog.New(slog.DiscardHandler), s)
}

func (c *clock) ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read() - c.machine
}

// However the machine's clock is set, also over restarts: the store's time never goes back, is never behind it but for
// the first minutes after a jump ahead, of the time that passes it misses a hundredth at most, and once the clock is
// left alone the two meet.
func TestRule6_StoreTimeGoesOnWhateverTheClockShows(t *testing.T) {
	span := func(most time.Duration) *rapid.Generator[time.Duration] {
		return rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second,
				time.Minute, most}).Draw(t, "scale"))).Draw(t, "span"))
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		m.pass(span(time.Minute).Draw(t, "fraction"))
		c := m.start(clockState{at: sinceEpoch(m.wall)})
		last := c.now()
		kept, keptWall, wasSet := c.state(), m.wall, false
		// what must have passed at least for whoever waits
		look := func(least time.Time) {
			now := c.now()
			switch {
			case now.Before(last):
				t.Fatalf("goes back: %v after %v", now, last)
			case now.Before(least.Truncate(time.Millisecond)):
				t.Fatalf("too slow: %v, want at least %v", now, least)
			case now.Before(m.wall.Add(-c.held).Truncate(time.Millisecond)):
				t.Fatalf("behind the machine's clock: %v, %v, with %v held", now, m.wall, c.held)
			case c.held > 0 && m.elapsed-c.heldSince >= approval.HoldFor:
				t.Fatalf("a jump of %v is held for %v", c.held, m.elapsed-c.heldSince)
			case c.held > 0 && c.held <= stepThreshold:
				t.Fatalf("%v is no jump", c.held)
			}
			if off := c.ahead() - (now.Sub(time.UnixMilli(m.wall.Add(-c.held).UnixMilli()))); off.Abs() > 2*time.Millisecond {
				t.Fatalf("ahead by %v, said %v", now.Sub(m.wall), c.ahead())
			}
			last = now
		}
		longer := func(at time.Time, d time.Duration) time.Time { return at.Add(d - d/slewDivisor - time.Millisecond) }
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) {
				d := span(100*time.Hour).Draw(t, "passes")
				m.pass(d)
				look(longer(last, d))
			},
			"the clock is set": func(t *rapid.T) {
				d := span(1000*time.Hour).Draw(t, "by")
				if rapid.Bool().Draw(t, "back") {
					d = -d
				}
				m.set(d)
				wasSet = true
				if rapid.Bool().Draw(t, "seen at once") {
					look(last)
				}
			},
			"a commit": func(*rapid.T) { look(last); kept, keptWall, wasSet = c.state(), m.wall, false },
			"a restart": func(t *rapid.T) {
				crash := rapid.Bool().Draw(t, "crash")
				if !crash {
					c.now()
					kept, keptWall, wasSet = c.state(), m.wall, false
				}
				down := span(100*time.Hour).Draw(t, "down")
				m.pass(down)
				if rapid.IntRange(0, 3).Draw(t, "set meanwhile") == 0 {
					m.set(span(200*time.Hour).Draw(t, "by") - 100*time.Hour)
					wasSet = true
				}
				if !rapid.Bool().Draw(t, "the same boot") {
					m.elapsed, m.boot = span(time.Hour).Draw(t, "since boot"), m.boot+"'"
				}
				c = m.start(kept)
				last = fromEpoch(kept.at) // what was given out later and not committed was told to nobody
				var least time.Time
				switch {
				case kept.boot == m.boot:
					least = longer(last, m.elapsed-kept.elapsed)
				case !wasSet:
					least = longer(last, m.wall.Sub(keptWall))
				default:
					least = longer(last, max(0, m.wall.Sub(last.Add(-kept.ahead))))
				}
				look(least)
			},
			"": func(t *rapid.T) {
				at := fromEpoch(sinceEpoch(last) - span(2000*time.Hour).Draw(t, "ago"))
				later := at.Add(span(2000*time.Hour).Draw(t, "apart"))
				told, toldLater := c.toWall(sinceEpoch(at)), c.toWall(sinceEpoch(later))
				if told > toldLater || told > sinceEpoch(at) {
					t.Fatalf("%v is told as %v, %v as %v: %v", at, fromEpoch(told), later, fromEpoch(toldLater), c.state())
				}
				if a, b := c.fromWall(sinceEpoch(at)), c.fromWall(sinceEpoch(later)); a > b || a < sinceEpoch(at) &&
					a < c.jumped-c.by {
					t.Fatalf("%v comes to %v, %v to %v: %v", at, fromEpoch(a), later, fromEpoch(b), c.state())
				}
				if off := c.toWall(c.at) - c.machine; off.Abs() > stepThreshold+time.Millisecond {
					t.Fatalf("the time now is told wrong by %v: %v", off, c.state())
				}
			},
		})
		for range 3 {
			m.pass(slewDivisor*c.ahead() + approval.HoldFor)
			look(last)
		}
		if ahead := c.ahead(); ahead != 0 || c.held != 0 {
			t.Fatalf("still ahead by %v: %v", ahead, c.state())
		}
	})
}

// What was jumped ahead and set right is kept, and told in the right clock, over a restart too.
func TestRule6_TheDifferenceIsKept(t *testing.T) {
	m := newMachine()
	path := filepath.Join(t.TempDir(), "x.db")
	o := Options{Path: path, Now: m.now, Elapsed: m.count, Boot: m.boot}
	d := open(t, o)
	tick := func(by time.Duration) time.Time { m.pass(by); return d.Now() }
	before, beforeWall := tick(time.Minute), m.wall
	m.pass(time.Minute)
	m.set(23 * time.Hour)
	d.Now()
	m.pass(approval.HoldFor)
	wrong, wrongWall := d.Now(), m.wall
	m.pass(time.Minute)
	m.set(-23 * time.Hour)
	right, rightWall := d.Now(), m.wall
	later, laterWall := tick(100*time.Second), m.wall
	if !wrong.Equal(wrongWall) || later.Sub(right).Round(time.Second) != 99*time.Second {
		t.Errorf("%v by %v; then %v after %v", wrong, wrongWall, later, right)
	}
	if err := d.KeepTime(t.Context()); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		for _, c := range []struct{ store, wall time.Time }{{before, beforeWall}, {wrong, wrongWall.Add(-23 * time.Hour)},
			{right, rightWall}, {later, laterWall}} {
			if got := d.ToWall(c.store); got.Sub(c.wall).Abs() > 20*time.Millisecond {
				t.Errorf("%s: %v is told as %v, want %v", when, c.store, got, c.wall)
			}
			if got := d.FromWall(c.wall); got.Sub(c.store).Abs() > 20*time.Millisecond {
				t.Errorf("%s: %v by the clock comes to %v, want %v", when, c.wall, got, c.store)
			}
		}
	}
	check("running")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	m.pass(1000 * time.Second)
	m.elapsed, o.Boot = 0, "second"
	d = open(t, o)
	if got := d.Now().Sub(later).Round(time.Second); got != 990*time.Second {
		t.Errorf("%v after a restart 1000 s later", got)
	}
	check("after a restart")
	if got := d.Clock().Ahead.Round(time.Second); got != 23*time.Hour-12*time.Second {
		t.Errorf("ahead by %v", got)
	}
	m.pass(100 * 24 * time.Hour)
	if got := d.Clock().Ahead; got != 0 {
		t.Errorf("still ahead by %v after 100 days", got)
	}
	check("once they have met")
}

// After a jump ahead that was set right, every moment is told as it was, and what a platform says of it comes to
// the store's time of that moment, whenever that is asked: also after restarts, and once the two have met.
func TestRule6_MomentsAreToldAsTheyWere(t *testing.T) {
	const look = 5 * time.Second // how often the gate looks at the clock
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		c := m.start(clockState{at: sinceEpoch(m.wall)})
		far := time.Duration(rapid.Int64Range(2, 2000*3600).Draw(t, "jump")) * time.Second
		wrong := time.Duration(0)
		type moment struct{ store, was time.Time }
		var moments []moment
		phase := func(name string) {
			for range rapid.IntRange(1, 60).Draw(t, name) {
				m.pass(time.Duration(rapid.Int64Range(100, look.Milliseconds()).Draw(t, "look")) * time.Millisecond)
				moments = append(moments, moment{c.now(), m.wall.Add(-wrong)})
			}
		}
		phase("before")
		m.set(far)
		c.now()
		m.pass(approval.HoldFor)
		wrong = far
		phase("wrong")
		m.set(-far)
		wrong = 0
		phase("right")
		check := func(when string) {
			for i, at := range moments {
				if got := fromEpoch(c.toWall(sinceEpoch(at.store))); got.Sub(at.was).Abs() > 60*time.Millisecond {
					t.Fatalf("%s, moment %d: %v is told as %v, was %v: %+v", when, i, at.store, got, at.was, c.state())
				}
				if got := fromEpoch(c.fromWall(sinceEpoch(at.was))); got.Sub(at.store).Abs() > 60*time.Millisecond {
					t.Fatalf("%s, moment %d: %v comes to %v, was %v: %+v", when, i, at.was, got, at.store, c.state())
				}
			}
		}
		check("at once")
		for range rapid.IntRange(0, 3).Draw(t, "later") {
			m.pass(time.Duration(rapid.Int64Range(0, int64(60*far)).Draw(t, "passes")))
			moments = append(moments, moment{c.now(), m.wall})
			check("later")
			if rapid.Bool().Draw(t, "restart") {
				m.pass(time.Duration(rapid.Int64Range(0, int64(10*time.Hour)).Draw(t, "down")))
				if rapid.Bool().Draw(t, "another boot") {
					m.elapsed, m.boot = 0, m.boot+"'"
				}
				c = m.start(c.state())
				check("after a restart")
			}
		}
	})
}

// A clock that was set back by mistake and set right leaves nothing behind.
func TestRule6_ASettingBackThatWasWrong(t *testing.T) {
	m := newMachine()
	d := open(t, Options{Path: filepath.Join(t.TempDir(), "x.db"), Now: m.now, Elapsed: m.count})
	m.pass(time.Minute)
	first, wall := d.Now(), m.wall
	m.set(-2 * time.Hour)
	m.pass(100 * time.Second)
	if got := d.Now().Sub(first).Round(time.Second); got != 99*time.Second {
		t.Errorf("%v after 100 s", got)
	}
	if got := d.ToWall(d.Now()).Sub(m.wall); got.Abs() > time.Second {
		t.Errorf("now is told wrong by %v", got)
	}
	m.set(2 * time.Hour)
	if now := d.Now(); !now.Equal(m.wall) || !d.ToWall(first).Equal(wall) || d.Clock().Ahead != 0 {
		t.Errorf("%v by %v; %v is told as %v", now, m.wall, first, d.ToWall(first))
	}
}

// A jump ahead that is taken back within minutes ends nothing, and leaves nothing behind; nor does a restart meanwhile.
func TestRule6_AJumpAheadThatIsTakenBack(t *testing.T) {
	for _, jump := range []time.Duration{2 * time.Second, 400 * 24 * time.Hour} {
		m := newMachine()
		o := Options{Path: filepath.Join(t.TempDir(), "x.db"), Now: m.now, Elapsed: m.count, Boot: m.boot}
		d := open(t, o)
		m.pass(time.Minute)
		first := d.Now()
		recordOne(t, d, "before")
		m.set(jump)
		for range 4 {
			if got := d.Now().Sub(first); got.Abs() > 4*time.Minute {
				t.Errorf("%v: %v later by the store's time", jump, got)
			}
			if c := d.Clock(); c.Lead != jump || c.For <= 0 || c.For > approval.HoldFor || c.Ahead != 0 {
				t.Errorf("%v: %+v", jump, c)
			}
			m.pass(time.Minute)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		m.pass(2 * time.Minute)
		d = open(t, o)
		if c := d.Clock(); c.Lead != jump || c.For != approval.HoldFor {
			t.Errorf("%v, after a restart: %+v", jump, c)
		}
		m.set(-jump)
		if got := d.Now(); !got.Equal(m.wall) || d.Clock() != (Clock{}) || !d.ToWall(got).Equal(got) {
			t.Errorf("%v, taken back: %v, want %v; %+v", jump, got, m.wall, d.Clock())
		}
	}
}

// One that stands is taken over, at once where an admin says so.
func TestRule6_AJumpAheadThatStands(t *testing.T) {
	m := newMachine()
	d := open(t, Options{Path: filepath.Join(t.TempDir(), "x.db"), Now: m.now, Elapsed: m.count})
	m.set(time.Hour)
	d.Now()
	m.pass(approval.HoldFor - time.Second)
	if c := d.Clock(); c.Lead != time.Hour || c.For != time.Second {
		t.Errorf("%+v", c)
	}
	m.set(time.Hour) // another one begins anew
	if c := d.Clock(); c.Lead != 2*time.Hour || c.For != approval.HoldFor {
		t.Errorf("%+v", c)
	}
	m.pass(approval.HoldFor)
	if got := d.Now(); !got.Equal(m.wall) || d.Clock() != (Clock{}) {
		t.Errorf("%v, want %v; %+v", got, m.wall, d.Clock())
	}
	m.set(time.Hour)
	if err := d.AcceptClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.Now(); !got.Equal(m.wall) || d.Clock() != (Clock{}) {
		t.Errorf("accepted: %v, want %v; %+v", got, m.wall, d.Clock())
	}
}

// That a clock that was set back is right is kept, until it is set back further.
func TestRule6_AClockThatWasSetBackIsAccepted(t *testing.T) {
	m := newMachine()
	o := Options{Path: filepath.Join(t.TempDir(), "x.db"), Now: m.now, Elapsed: m.count, Boot: m.boot}
	d := open(t, o)
	m.pass(time.Hour)
	before := d.Now()
	m.set(-30 * time.Minute)
	if c := d.Clock(); c.Accepted || c.Ahead != 30*time.Minute {
		t.Errorf("%+v", c)
	}
	if err := d.AcceptClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	m.pass(time.Minute)
	d = open(t, o)
	if c := d.Clock(); !c.Accepted || c.Ahead < 29*time.Minute || d.Now().Before(before) {
		t.Errorf("after a restart: %+v, %v after %v", c, d.Now(), before)
	}
	m.set(-time.Minute)
	if c := d.Clock(); c.Accepted || c.Ahead < 30*time.Minute {
		t.Errorf("set back further: %+v", c)
	}
}

// The machine's own count goes on while its clock stands, as tests set it.
func TestTheMachinesOwnCount(t *testing.T) {
	fixed := time.Now()
	d := open(t, Options{Path: filepath.Join(t.TempDir(), "x.db"), Now: func() time.Time { return fixed }})
	first := d.Now()
	testkit.Eventually(t, "the store's time goes on", func() bool { return d.Now().After(first) })
}

// The machine's count is read only now and then, and at once where the clock says that it went on otherwise.
func TestTheMachinesCountIsReadAgainWhereTheClockDoesNotAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads, slept := 0, time.Duration(0)
		began := time.Now()
		count := countMachine(func() time.Duration { reads++; return time.Since(began) + slept })
		want := func(what string, read int) {
			t.Helper()
			before := reads
			if got, want := count(time.Now().Add(slept)), time.Since(began)+slept; got != want || reads != before+read {
				t.Errorf("%s: %v with %d reads, want %v with %d", what, got, reads-before, want, read)
			}
		}
		want("first", 1)
		for range 4 {
			time.Sleep(trustFor / 4)
			want("soon after", 0)
		}
		time.Sleep(time.Millisecond)
		want("later", 1)
		slept += time.Hour
		want("after a sleep", 1)
		want("right after that", 0)
	})
}

// What an admin has said of the clock holds until the two meet, and no longer: a clock that is set back after that is
// trouble again.
func TestRule6_AnAcceptedClockIsAcceptedOnce(t *testing.T) {
	for _, restart := range []bool{false, true} {
		m := newMachine()
		o := Options{Path: filepath.Join(t.TempDir(), "x.db"), Now: m.now, Elapsed: m.count, Boot: m.boot}
		d := open(t, o)
		d.Now()
		setBack := func(by time.Duration) Clock {
			m.set(-by)
			d.Now()
			m.pass(time.Second)
			return d.Clock()
		}
		if c := setBack(20 * time.Second); c.Accepted {
			t.Errorf("restart %t: %+v before an admin has said so", restart, c)
		}
		if err := d.AcceptClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c := d.Clock(); !c.Accepted {
			t.Errorf("restart %t: %+v once an admin has said so", restart, c)
		}
		if restart {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			m.pass(time.Hour)
			m.elapsed, o.Boot = 0, "second"
			d = open(t, o)
		}
		for range 2 * slewDivisor * 20 / 5 { // the gate looks at it every few seconds
			m.pass(5 * time.Second)
			if err := d.KeepTime(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if c := d.Clock(); c.Ahead != 0 {
			t.Errorf("restart %t: %+v, want that they have met", restart, c)
		}
		if c := setBack(10 * time.Second); c.Accepted {
			t.Errorf("restart %t: %+v, of which no admin has said anything", restart, c)
		}
		if err := d.AcceptClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c := setBack(5 * time.Second); c.Accepted {
			t.Errorf("restart %t: %+v, set back anew while the two had not met", restart, c)
		}
	}
}
