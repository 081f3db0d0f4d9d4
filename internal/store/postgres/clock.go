package postgres

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

	"countersign/approval"
	"countersign/internal/ratelimitedlog"
)

// The store's time is the database's clock, and never goes back: after that was set back (by hand, or because another
// server has taken over) it is ahead by what store_state says, and goes a hundredth slower until the two meet. Each
// program writes every second how far the time has come, so that the next one to look notices.
//
// After the database's clock has jumped ahead of the time that has passed, by the count of a program that has looked
// before and after, the store's goes on as before for [approval.HoldFor]: ahead is below 0 then. A jump that is taken
// back meanwhile ends nothing.
//
// Where a count leaves out the machine's sleep, as outside of Linux, a jump cannot be told from it. Then the store's
// time is ahead by less after one, and follows the clock beyond that.

const (
	// tick is how often the time is written.
	tick = time.Second
	// slewDivisor is what part of the time that passes the store's time is slower by while it is ahead.
	slewDivisor = 100
	// stepThreshold is how far the clock must be off before that counts as having been set.
	stepThreshold = time.Second
)

// clock is the store's time, as far as this program knows it.
type clock struct {
	sql         string               // the database's clock
	now         func() time.Time     // this machine's own, of which only what passes is looked at
	count       func() time.Duration // the time that passes
	countsSleep bool                 // this machine's sleep is counted too
	ended       chan struct{}
	done        sync.WaitGroup
	db          *DB

	mu    sync.Mutex
	last  time.Time // given out
	known time.Time // the store's time that was read last, and
	when  time.Time // when that was, by this machine's own count
	state clockState
	skew  time.Duration // of the database's clock and this machine's

	failed  ratelimitedlog.Counter
	keeping sync.Mutex // held while the rest is looked at
	seen    look
}

// clockState is what store_state says of the time.
type clockState struct {
	at       time.Time
	ahead    time.Duration // of the database's clock; below 0: that has jumped ahead, and is not followed yet
	held     time.Time     // the store's time when it jumped; zero: it is followed
	setBack  time.Time     // zero: it never was
	by       time.Duration
	accepted time.Duration
}

// read is the statement that a transaction has its time from, and more: its number, the id that its own are after, and
// the lineages of the store and of the database. What the clock shows beyond what was written last was not looked at
// yet: it may have been set.
func (c *clock) read(t *tx, more string) queued {
	sql := "SELECT " + c.nowSQL() + ", " + more + " FROM store_state"
	return queued{sql: sql, take: func(r pgx.BatchResults) (err error) {
		var now time.Time
		var floor string
		if err := r.QueryRow().Scan(&now, &t.xid, &floor, &t.was, &t.lineage, &t.shut); err != nil {
			return err
		}
		if t.at = c.give(now, true); floor != "" {
			t.floor, err = ulid.ParseStrict(floor)
		}
		return err
	}}
}

// aheadBy is by how much the store's time is ahead of the database's clock, below 0: behind.
const aheadBy = "(ahead_ms - held_ms) * interval '1 millisecond'"

// nowSQL is the time of a statement that looks at store_state.
func (c *clock) nowSQL() string {
	return "least(greatest(at, " + c.sql + " + " + aheadBy + "), at + interval '10 seconds')"
}

// give gives out a time: none is before another. exact says that it was just read.
func (c *clock) give(now time.Time, exact bool) time.Time { //nolint:revive // flag-parameter: it says what now is
	now = now.UTC().Truncate(time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	if exact {
		c.known, c.when = now, c.now()
	}
	if now.After(c.last) {
		c.last = now
	}
	return c.last
}

// Now is the store's time: what a transaction that began now would have for its own, as far as this program knows.
func (d *DB) Now() time.Time {
	c := &d.clock
	c.mu.Lock()
	now := c.known.Add(c.now().Sub(c.when))
	c.mu.Unlock()
	return c.give(now, false)
}

// Skew is how far the database's clock is ahead of this machine's, as they were looked at last.
func (d *DB) Skew() time.Duration {
	c := &d.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew
}

func (c *clock) start(ctx context.Context, d *DB) error {
	c.db, c.ended = d, make(chan struct{})
	if err := c.keep(ctx, nil); err != nil {
		return err
	}
	c.done.Go(c.loop)
	return nil
}

func (c *clock) stop() {
	close(c.ended)
	c.done.Wait()
}

func (c *clock) loop() {
	every := time.NewTicker(tick)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-c.ended:
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := c.keep(ctx, nil); err != nil {
			c.db.warn(ctx, &c.failed, "the store's time could not be written", err)
		}
		cancel()
	}
}

// stateColumns are what [clockState] is of.
const stateColumns = `at, ahead_ms, set_back_at, set_back_ms, accepted_ms, held_ms, held_since`

// keep writes how far the time has come, with what change makes of it; nil: unless another program has just done so.
func (c *clock) keep(ctx context.Context, change func(s *clockState)) error {
	c.keeping.Lock()
	defer c.keeping.Unlock()
	for {
		look := look{since: c.count()}
		was, err := scanState(c.db.pool.QueryRow(ctx, "SELECT "+stateColumns+", "+c.sql+" FROM store_state"), &look.clock)
		if err != nil {
			return err
		}
		next := was.next(look.clock, c.jump(look.clock, was))
		switch {
		case change != nil:
			change(&next)
		case next.at.After(was.at) && next.at.Sub(was.at) < tick/2 && (next.ahead-was.ahead).Abs() < stepThreshold &&
			next.held.Equal(was.held):
			c.seen = look
			c.take(was, was, next.at)
			return nil
		}
		tag, err := c.db.pool.Exec(ctx, `UPDATE store_state SET (`+stateColumns+`) = ($1, $2, $3, $4, $5, $6, $7)
  WHERE at = $8 AND ahead_ms - held_ms = $9 AND accepted_ms = $10`, next.at, max(0, next.ahead).Milliseconds(),
			nullTime(next.setBack), next.by.Milliseconds(), next.accepted.Milliseconds(), max(0, -next.ahead).Milliseconds(),
			nullTime(next.held), was.at, was.ahead.Milliseconds(), was.accepted.Milliseconds())
		if err != nil {
			return err
		}
		if tag.RowsAffected() > 0 {
			c.seen = look
			c.take(next, was, next.at)
			return nil
		}
	}
}

func scanState(r pgx.Row, clock *time.Time) (s clockState, err error) {
	var setBack, heldSince *time.Time
	var ahead, by, accepted, held int64
	if err := r.Scan(&s.at, &ahead, &setBack, &by, &accepted, &held, &heldSince, clock); err != nil {
		return s, err
	}
	if setBack != nil {
		s.setBack = setBack.UTC()
	}
	if heldSince != nil {
		s.held = heldSince.UTC()
	}
	s.at = s.at.UTC()
	s.ahead, s.by, s.accepted = time.Duration(ahead-held)*time.Millisecond, time.Duration(by)*time.Millisecond,
		time.Duration(accepted)*time.Millisecond
	return s, nil
}

func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// look is what the database's clock has shown, and when that was asked, by this machine's count.
type look struct {
	clock time.Time
	since time.Duration
}

// jump is by how much the database's clock was set ahead since the last look, at least: the answers of both took time.
func (c *clock) jump(clock time.Time, was clockState) time.Duration {
	c.mu.Lock()
	c.skew = clock.Sub(c.now().Round(0)) // by what both show
	c.mu.Unlock()
	if c.seen.clock.IsZero() {
		return 0
	}
	jump := clock.Sub(c.seen.clock) - (c.count() - c.seen.since)
	if !c.countsSleep {
		jump = min(jump, was.ahead)
	}
	return max(0, jump)
}

// next is the state when the database's clock shows a time, and was set ahead by a jump: that the store's time was
// ahead before is over by so much, and beyond that it is held. Another program may have written of the jump before:
// then the store's time has not gone on by as much.
func (s clockState) next(clock time.Time, jump time.Duration) clockState {
	clock = clock.UTC().Truncate(time.Millisecond)
	if jump = min(jump.Truncate(time.Millisecond), clock.Add(s.ahead).Sub(s.at)); jump >= stepThreshold {
		if s.ahead -= jump; s.ahead > -stepThreshold {
			s.ahead = max(0, s.ahead)
		} else {
			s.held = s.at
		}
	}
	passed := clock.Add(s.ahead).Sub(s.at)
	if passed < 0 { // the clock was set back
		s.ahead -= passed
		switch {
		case s.ahead >= stepThreshold && -passed >= stepThreshold:
			s.setBack, s.by, s.accepted = s.at, s.ahead, 0
		case s.ahead <= -stepThreshold && -passed >= stepThreshold: // by a part of its jump
			s.held = s.at
		}
	}
	if s.ahead > -stepThreshold || clock.Add(s.ahead).Sub(s.held) >= approval.HoldFor {
		s.held = time.Time{}
		s.ahead = max(0, s.ahead)
	}
	if passed < 0 {
		return s
	}
	if s.ahead > 0 {
		s.ahead = max(0, s.ahead-passed/slewDivisor).Truncate(time.Millisecond)
	}
	if s.ahead < stepThreshold {
		s.accepted = 0
	}
	if now := clock.Add(s.ahead); now.After(s.at) {
		s.at = now
	}
	return s
}

// take takes in what was written, and what the time was found to be, and tells an operator of what is new.
func (c *clock) take(s, was clockState, now time.Time) {
	c.give(s.at, false)
	c.mu.Lock()
	c.state, c.known, c.when = s, now, c.now()
	c.mu.Unlock()
	switch {
	case !s.setBack.Equal(was.setBack):
		c.db.log.Warn("the database's clock is behind the store's time, which never goes back; store time runs a hundredth "+
			"slower until they meet", slog.Duration("ahead", s.ahead.Round(time.Second)),
			slog.String("do", "see that the clock of the database's machine is right and kept so, as by NTP"))
	case !s.held.Equal(was.held) && !s.held.IsZero():
		c.db.log.Warn("the database's clock has jumped ahead; the store's time goes on as before until it has stood for a "+
			"while", slog.Duration("by", -s.ahead.Round(time.Second)), slog.Duration("for", approval.HoldFor),
			slog.String("do", "if the clock is wrong, set it right by then; if it is right and you do not want to wait: "+
				"countersign clock accept"))
	case !was.held.IsZero() && s.held.IsZero() && s.at.Sub(was.at) > -was.ahead/2:
		c.db.log.Warn("the database's clock has stood where it jumped to, or was accepted, and is taken to be right: what "+
			"is past its time by it ends", slog.Duration("by", -was.ahead.Round(time.Second)))
	case !was.held.IsZero() && s.held.IsZero():
		c.db.log.Info("the jump of the database's clock was taken back; it has ended nothing")
	case was.ahead >= stepThreshold && s.ahead < stepThreshold:
		c.db.log.Info("the database's clock has caught up with the store's time")
	}
}

// knownClock is the state as far as this program knows.
func (d *DB) knownClock() clockState {
	d.clock.mu.Lock()
	defer d.clock.mu.Unlock()
	return d.clock.state
}

// ToWall tells a time of the store's as the database's clock shows it. The two differ after that was set back.
func (d *DB) ToWall(t time.Time) time.Time {
	s := d.knownClock()
	if t.IsZero() || s.setBack.IsZero() {
		return t
	}
	since := t.Sub(s.setBack)
	if since < 0 {
		return t.Add(-s.by)
	}
	return t.Add(-max(0, s.by-since/(slewDivisor-1)))
}

// FromWall tells a time by the database's clock, or by that of a platform, in the store's.
func (d *DB) FromWall(t time.Time) time.Time {
	s := d.knownClock()
	if t.IsZero() {
		return t
	}
	if s.setBack.IsZero() {
		return t.Add(max(0, s.ahead))
	}
	passed := t.Sub(s.setBack.Add(-s.by))
	if passed < 0 {
		return t.Add(s.by)
	}
	slewed := s.setBack.Add(passed - passed/slewDivisor)
	if met := t.Add(min(max(0, s.ahead), stepThreshold)); met.After(slewed) {
		return met
	}
	return slewed
}

// Off is as [approval.Clock] has it, of the database's clock.
func (d *DB) Off() time.Duration {
	s := d.knownClock()
	if s.ahead <= -stepThreshold {
		return -s.ahead
	}
	if s.ahead < stepThreshold || s.accepted > 0 && s.ahead <= s.accepted+stepThreshold {
		return 0
	}
	return -s.ahead
}

// FollowsIn is how long the store's time does not follow a jump ahead yet, as far as this program knows.
func (d *DB) FollowsIn() time.Duration {
	s := d.knownClock()
	if s.held.IsZero() {
		return 0
	}
	return max(0, approval.HoldFor-d.Now().Sub(s.held))
}

// AcceptClock takes the database's clock to be right: the store's time follows a jump ahead at once, and that it is
// ahead of the clock is no trouble any more.
func (d *DB) AcceptClock(ctx context.Context) error {
	return fault(d.clock.keep(ctx, func(s *clockState) {
		if s.ahead < 0 {
			s.at, s.ahead, s.held = s.at.Add(-s.ahead), 0, time.Time{}
		}
		s.accepted = s.ahead
	}))
}
