package postgres

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

	"countersign/internal/ratelimitedlog"
)

// The store's time is the database's clock, and never goes back: after that was set back (by hand, or because another
// server has taken over) it is ahead by what store_state says, and goes a hundredth slower until the two meet. Each
// program writes every second how far the time has come, so that the next one to look notices.

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
	sql   string           // the database's clock
	now   func() time.Time // this machine's own, of which only what passes is looked at
	ended chan struct{}
	done  sync.WaitGroup
	db    *DB

	mu    sync.Mutex
	last  time.Time // given out
	known time.Time // the store's time that was read last, and
	when  time.Time // when that was, by this machine's own count
	state clockState
	skew  time.Duration // of the database's clock and this machine's

	failed  ratelimitedlog.Counter
	keeping sync.Mutex // held while the rest is looked at
	seen    time.Time  // what the database's clock showed last
	seenAt  time.Time  // and when, by this machine's own count
}

// clockState is what store_state says of the time.
type clockState struct {
	at       time.Time
	ahead    time.Duration // of the database's clock
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

// nowSQL is the time of a statement that looks at store_state.
func (c *clock) nowSQL() string {
	return "least(greatest(at, " + c.sql + " + ahead_ms * interval '1 millisecond'), at + interval '10 seconds')"
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
const stateColumns = `at, ahead_ms, set_back_at, set_back_ms, accepted_ms`

// keep writes how far the time has come, with what change makes of it; nil: unless another program has just done so.
func (c *clock) keep(ctx context.Context, change func(s *clockState)) error {
	c.keeping.Lock()
	defer c.keeping.Unlock()
	for {
		var clock time.Time
		was, err := scanState(c.db.pool.QueryRow(ctx, "SELECT "+stateColumns+", "+c.sql+" FROM store_state"), &clock)
		if err != nil {
			return err
		}
		next := was.next(clock, c.jump(clock))
		switch {
		case change != nil:
			change(&next)
		case next.at.After(was.at) && next.at.Sub(was.at) < tick/2:
			c.take(was, was, next.at)
			return nil
		}
		tag, err := c.db.pool.Exec(ctx, `UPDATE store_state SET (`+stateColumns+`) = ($1, $2, $3, $4, $5)
  WHERE at = $6 AND ahead_ms = $7 AND accepted_ms = $8`, next.at, next.ahead.Milliseconds(), nullTime(next.setBack),
			next.by.Milliseconds(), next.accepted.Milliseconds(), was.at, was.ahead.Milliseconds(), was.accepted.Milliseconds())
		if err != nil {
			return err
		}
		if tag.RowsAffected() > 0 {
			c.take(next, was, next.at)
			return nil
		}
	}
}

func scanState(r pgx.Row, clock *time.Time) (s clockState, err error) {
	var setBack *time.Time
	var ahead, by, accepted int64
	if err := r.Scan(&s.at, &ahead, &setBack, &by, &accepted, clock); err != nil {
		return s, err
	}
	if setBack != nil {
		s.setBack = setBack.UTC()
	}
	s.at = s.at.UTC()
	s.ahead, s.by, s.accepted = time.Duration(ahead)*time.Millisecond, time.Duration(by)*time.Millisecond,
		time.Duration(accepted)*time.Millisecond
	return s, nil
}

func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// jump is by how much the database's clock was set ahead since it was last looked at, by this machine's own count.
func (c *clock) jump(clock time.Time) time.Duration {
	now := c.now()
	was, when := c.seen, c.seenAt
	c.seen, c.seenAt = clock, now
	c.mu.Lock()
	c.skew = clock.Sub(now.Round(0)) // by what both show
	c.mu.Unlock()
	if off := clock.Sub(was) - now.Sub(when); !was.IsZero() && off >= stepThreshold {
		return off
	}
	return 0
}

// next is the state when the database's clock shows a time, and was set ahead by a jump: that the store's time was
// ahead before is over by so much. Another program may have written of the jump before: then it leads back.
func (s clockState) next(clock time.Time, jump time.Duration) clockState {
	clock = clock.UTC().Truncate(time.Millisecond)
	jump = min(jump.Truncate(time.Millisecond), max(0, clock.Add(s.ahead).Sub(s.at)))
	s.ahead -= min(s.ahead, jump)
	passed := clock.Add(s.ahead).Sub(s.at)
	if passed < 0 { // the clock was set back
		s.ahead -= passed
		if -passed >= stepThreshold {
			s.setBack, s.by, s.accepted = s.at, s.ahead, 0
		}
		return s
	}
	if s.ahead = max(0, s.ahead-passed/slewDivisor).Truncate(time.Millisecond); s.ahead < stepThreshold {
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
		return t.Add(s.ahead)
	}
	passed := t.Sub(s.setBack.Add(-s.by))
	if passed < 0 {
		return t.Add(s.by)
	}
	slewed := s.setBack.Add(passed - passed/slewDivisor)
	if met := t.Add(min(s.ahead, stepThreshold)); met.After(slewed) {
		return met
	}
	return slewed
}

// Off is how far the database's clock is behind the store's time, below 0, where it was set back and nobody has said
// that it is right.
func (d *DB) Off() time.Duration {
	s := d.knownClock()
	if s.ahead < stepThreshold || s.accepted > 0 && s.ahead <= s.accepted+stepThreshold {
		return 0
	}
	return -s.ahead
}

// AcceptClock takes the database's clock to be right: that the store's time is ahead of it is no trouble any more.
func (d *DB) AcceptClock(ctx context.Context) error {
	return fault(d.clock.keep(ctx, func(s *clockState) { s.accepted = s.ahead }))
}
