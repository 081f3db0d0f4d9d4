package sqlite

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"countersign/approval"
	"countersign/internal/uptime"
)

// slewDivisor is the part of its speed that the store's time loses while it is ahead of the machine's clock: in 100
// seconds it comes a second closer. Whatever lasts a quarter of an hour lasts nine seconds longer then.
const slewDivisor = 100

// stepThreshold is how far the machine's clock may be from where it should be by the time that has passed, before
// that is taken for a change of the clock and not for its being kept right in small steps.
const stepThreshold = time.Second

// clock gives out the store's time. It is the machine's while that goes on. When the machine's is set back,
// the store's goes on by the time that passes, a hundredth slower, until the two meet.
//
// When the machine's jumps ahead of the time that has passed, the store's goes on as before for [approval.HoldFor]:
// where the jump is taken back meanwhile, it ends nothing. All that follows reckons with the machine's clock less what
// is held. That needs a count of the time that passes in which the machine's sleep is; where there is none the jump is
// taken over at once.
//
// Of the last such difference it remembers since when it was there, so that times can be told in either
// clock: those of before the jump ahead stand as they are.
type clock struct {
	wall    func() time.Time
	elapsed func(wall time.Time) time.Duration
	sleeps  bool   // elapsed has the machine's sleep in it
	boot    string // which start of the machine elapsed counts from; "": not known
	log     *slog.Logger

	mu        sync.Mutex
	at        time.Duration // what was given out last, all of these since 1970
	machine   time.Duration // the machine's clock, as it was read last, less what was held
	elapsedAt time.Duration // elapsed then

	from        time.Duration // the store's time goes on from here
	fromElapsed time.Duration // elapsed then

	held      time.Duration // how far the machine's clock has jumped ahead, while that is not taken over; 0: it has not
	heldSince time.Duration // elapsed then
	accepted  time.Duration // how far ahead of the machine's clock the store was when an admin said that this is right

	// the store's time from which it was slower than a clock set back; 0: that never was, or was a mistake
	setBack time.Duration
	by      time.Duration // how far it was ahead then
	jumped  time.Duration // the store's time after the last jump ahead of before; 0: none was seen
	unsaved bool          // one of these has changed since [DB.KeepTime] last saw to it that they are kept
}

// clockState is what is kept of a clock.
type clockState struct {
	at, ahead, setBack, by, jumped, accepted time.Duration

	boot    string        // which start of the machine this is of; "": not known
	elapsed time.Duration // then
}

func sinceEpoch(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return time.Duration(t.UnixMilli()) * time.Millisecond
}

func fromEpoch(d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(d / time.Millisecond)).UTC()
}

// newClock takes the time up where it was left. What passed while the store was closed is counted as ever unless the
// machine was started anew. Then it is taken from its clock: if that was set back meanwhile, less seems to have passed.
func newClock(wall func() time.Time, elapsed func() time.Duration, boot string, log *slog.Logger, s clockState) *clock {
	c := &clock{wall: wall, sleeps: true, boot: boot, log: log, setBack: s.setBack, by: s.by, jumped: s.jumped,
		accepted: s.accepted}
	if elapsed != nil {
		c.elapsed = func(time.Time) time.Duration { return elapsed() }
	} else {
		c.elapsed, c.sleeps, c.boot = measureElapsed(wall())
	}
	now := wall()
	if when := c.elapsed(now); c.boot != "" && c.boot == s.boot && when >= s.elapsed {
		c.at, c.machine, c.elapsedAt, c.from, c.fromElapsed = s.at, s.at-s.ahead, s.elapsed, s.at, s.elapsed
		if s.ahead >= stepThreshold {
			c.warn(s.ahead)
		}
		c.read()
		return c
	}
	c.machine, c.elapsedAt = time.Duration(now.UnixNano()), c.elapsed(now)
	c.from, c.fromElapsed = s.at, c.elapsedAt
	if s.ahead > 0 {
		passed := max(0, c.machine-(s.at-s.ahead))
		c.from += passed - passed/slewDivisor
	}
	c.from = max(c.from, c.machine)
	c.at = c.from
	c.compare(false)
	ahead := c.at - c.machine
	c.stillAccepted(s.ahead - ahead)
	if ahead >= stepThreshold {
		c.warn(ahead)
	}
	return c
}

// measureElapsed measures the time that passes: where the machine's clock is the real one, by the machine's
// count since it was started, which cannot be set; else, in a test, by that clock's going on. sleeps says that the
// machine's sleep is in it.
func measureElapsed(first time.Time) (elapsed func(time.Time) time.Duration, sleeps bool, boot string) {
	if first != first.Round(0) { // it has a monotonic reading
		if _, ok := uptime.SinceBoot(); ok {
			return countMachine(func() time.Duration { now, _ := uptime.SinceBoot(); return now }), true, uptime.BootID()
		}
		start := time.Now()
		return func(time.Time) time.Duration { return time.Since(start) }, false, ""
	}
	last, total := first, time.Duration(0)
	return func(t time.Time) time.Duration {
		total += max(0, t.Sub(last))
		last = t
		return total
	}, true, ""
}

// trustFor is for how long the process's own count is taken for the machine's, which costs a system call.
const trustFor = 20 * time.Millisecond

// countMachine returns what reads the machine's count. It is read again as soon as the process's own, which stands
// still while the machine sleeps, and the clock do not agree on what has passed.
func countMachine(machine func() time.Duration) func(time.Time) time.Duration {
	var then, clock time.Time // when it was read, by the process's own count, and by the clock
	var count time.Duration
	return func(wall time.Time) time.Duration {
		now := time.Now()
		passed := now.Sub(then)
		if off := wall.Round(0).Sub(clock) - passed; passed > trustFor || off.Abs() > time.Millisecond {
			then, clock, count = now, wall.Round(0), machine()
			return count
		}
		return count + passed
	}
}

// now gives out the time: never before one that was given out, and later as soon as time has passed.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.UnixMilli(int64(c.read() / time.Millisecond)).UTC()
}

func (c *clock) read() time.Duration {
	wall := c.wall()
	when := max(c.elapsed(wall), c.elapsedAt)
	seen := c.hold(time.Duration(wall.UnixNano()), when)
	off := seen - (c.machine + when - c.elapsedAt) // how far it is from where it should be
	was := c.at - c.machine
	c.machine, c.elapsedAt = seen, when

	passed := when - c.fromElapsed
	if slow := c.from + passed - passed/slewDivisor; seen < slow {
		c.at = max(c.at, slow)
		c.stillAccepted(off)
		if c.compare(off < -stepThreshold) {
			c.warn(c.at - seen)
		}
		return c.at
	}
	c.at, c.from, c.fromElapsed = seen, seen, when
	c.stillAccepted(off)
	switch {
	case was >= stepThreshold:
		c.unsaved = true
		c.log.Info("the machine's clock has caught up with the store's time")
	case off > stepThreshold:
		c.jumped, c.unsaved = seen, true
	}
	c.compare(false)
	return c.at
}

// hold returns the machine's clock less what it has jumped ahead, while that is not taken over.
func (c *clock) hold(machine, when time.Duration) time.Duration {
	if !c.sleeps {
		return machine
	}
	passed := when - c.fromElapsed
	lead := machine - max(c.from+passed-passed/slewDivisor, c.machine+when-c.elapsedAt)
	switch {
	case lead <= stepThreshold:
		if c.held > 0 {
			c.log.Info("the jump of the machine's clock was taken back; it has ended nothing")
		}
		c.held = 0
	case c.held == 0 || (lead-c.held).Abs() > stepThreshold:
		c.held, c.heldSince = lead, when
		c.log.Warn("the machine's clock has jumped ahead; the store's time goes on as before until it has stood for a while",
			"by", lead.Round(time.Second), "for", approval.HoldFor, "do", "if the clock is wrong, set it right by then; if it "+
				"is right and you do not want to wait: countersign clock accept")
	case when-c.heldSince >= approval.HoldFor:
		c.log.Warn("the machine's clock has stood where it jumped to, and is taken to be right: what is past its time by it "+
			"ends", "by", lead.Round(time.Second))
		c.held = 0
	}
	return machine - c.held
}

// compare sees to it that what is remembered of the clock's having been set back fits what it shows. again
// says that it was set back just now. It reports whether that is news.
func (c *clock) compare(again bool) bool {
	ahead, told := c.at-c.machine, c.at-c.toWall(c.at)
	switch off := ahead - told; {
	case off.Abs() <= stepThreshold:
		return false
	case ahead < stepThreshold: // it had been set back wrongly, and was set right
		c.setBack, c.by, c.unsaved = 0, 0, true
		return false
	case again || told < stepThreshold:
		c.setBack, c.by, c.unsaved = c.from, ahead+(c.at-c.from)/(slewDivisor-1), true
		return true
	default:
		c.by, c.unsaved = c.by+off, true
		return false
	}
}

// stillAccepted forgets what an admin said of the clock where that is about another difference: once the store's time
// and the clock have met, and where the clock was set back anew, as off says.
func (c *clock) stillAccepted(off time.Duration) {
	if c.accepted > 0 && (c.at-c.machine < stepThreshold || off < -stepThreshold) {
		c.accepted, c.unsaved = 0, true
	}
}

func (c *clock) warn(ahead time.Duration) {
	c.log.Warn("the machine's clock is behind the store's time, which never goes back; store time runs a hundredth "+
		"slower until they meet",
		"ahead", ahead.Round(time.Second), "do", "see that the machine's clock is right and kept so, as by NTP")
}

// state is what is to be kept.
func (c *clock) state() clockState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return clockState{at: c.at, ahead: max(0, c.at-c.machine), setBack: c.setBack, by: c.by, jumped: c.jumped,
		accepted: c.accepted, boot: c.boot, elapsed: c.elapsedAt}
}

// toWall tells a time of the store's in the machine's clock.
func (c *clock) toWall(at time.Duration) time.Duration {
	switch {
	case c.setBack == 0:
		return at
	case at < c.jumped: // what the jump skipped was never there
		return min(at, c.jumped-c.by)
	case at < c.setBack:
		return at - c.by
	}
	return at - max(0, c.by-(at-c.setBack)/(slewDivisor-1))
}

// fromWall is the other way round, for a time that is told to us. A jump in between is skipped.
func (c *clock) fromWall(t time.Duration) time.Duration {
	ahead := max(0, c.at-c.machine)
	switch begun := c.setBack - c.by; {
	case c.setBack == 0:
		return t + ahead // less than a second, or nothing
	case t >= begun:
		passed := t - begun
		return max(c.setBack+passed-passed/slewDivisor, t+min(ahead, stepThreshold))
	case t+c.by >= c.jumped:
		return t + c.by
	}
	return min(t, c.jumped)
}

// ToWall tells a time of the store's as the machine's clock shows it: to people, and to programs that compare
// it with their own. The two differ after the machine's clock was set back.
func (d *DB) ToWall(t time.Time) time.Time {
	c := d.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.IsZero() || c.setBack == 0 {
		return t
	}
	return fromEpoch(c.toWall(time.Duration(t.UnixNano())))
}

// FromWall tells a time by the machine's clock, or by that of a platform, in the store's.
func (d *DB) FromWall(t time.Time) time.Time {
	c := d.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.IsZero() {
		return t
	}
	c.read()
	return time.Unix(0, int64(c.fromWall(time.Duration(t.UnixNano())))).UTC()
}

// KeepTime looks at the machine's clock, and has what it shows kept if the clock was set meanwhile. Called every
// few seconds it notices such a change also while nothing else happens.
func (d *DB) KeepTime(ctx context.Context) error {
	c := d.clock
	c.mu.Lock()
	c.read()
	unsaved := c.unsaved
	c.unsaved = false
	c.mu.Unlock()
	if !unsaved {
		return nil
	}
	err := d.Update(ctx, approval.WholeStore(), func(x approval.Tx) error {
		t := x.(*tx)
		t.w.changes = true
		return t.MayWrite()
	})
	if err != nil {
		c.mu.Lock()
		c.unsaved = true
		c.mu.Unlock()
	}
	return err
}

// Clock is how the store's time and the machine's clock stand to each other.
type Clock struct {
	Ahead    time.Duration // how far the store's time is ahead: less than a second, unless the clock was set back
	Accepted bool          // an admin has said that the clock is right all the same
	Lead     time.Duration // how far the clock has jumped ahead, while the store's time does not follow; 0: it has not
	For      time.Duration // until it does
}

// Clock looks at the machine's clock.
func (d *DB) Clock() Clock {
	c := d.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.read()
	s := Clock{Ahead: at - c.machine, Lead: c.held}
	s.Accepted = c.accepted > 0 && s.Ahead <= c.accepted+stepThreshold
	if c.held > 0 {
		s.For = max(0, approval.HoldFor-(c.elapsedAt-c.heldSince))
	}
	return s
}

// Off is how far the machine's clock is from the store's time: above 0 while a jump ahead is not taken over, below
// where it was set back; 0 where that was accepted.
func (d *DB) Off() time.Duration {
	c := d.Clock()
	if c.Accepted {
		return c.Lead
	}
	return c.Lead - c.Ahead
}

// AcceptClock takes the machine's clock to be right: the store's time follows a jump ahead at once, and where it is
// ahead of the clock that is no trouble any more. That does not set it back; it comes closer as before.
func (d *DB) AcceptClock(ctx context.Context) error {
	c := d.clock
	c.mu.Lock()
	c.read()
	c.heldSince -= approval.HoldFor
	c.accepted, c.unsaved = max(0, c.read()-c.machine), true
	c.mu.Unlock()
	return d.KeepTime(ctx)
}
