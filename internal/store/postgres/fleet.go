package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

	"countersign/internal/ratelimitedlog"
	"countersign/internal/store"
)

// What the programs on one database do once, together. Nobody leads: a row says who has begun.

// replicas are the programs that are there, of which this is one: each writes every second that it is.
type replicas struct {
	db      *DB
	id      string // of this program, since its start
	program string // its version
	ended   chan struct{}
	done    sync.WaitGroup

	configuring sync.Mutex
	gen         atomic.Int64 // of its configuration, 0: none was noted yet

	failed  ratelimitedlog.Counter
	address atomic.Value // a string: see AppearAt

	mu      sync.Mutex
	missing map[string]time.Time // programs that seem to be gone, and since when, by this machine's own count
	goneFor time.Duration        // how long one must seem so
	// When this program has said last that it is there, by the store's time and by this machine's count; and since when
	// it could each second.
	said, saidAt, steady time.Time
}

// note takes in that this program has said that it is there.
func (r *replicas) note(said time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.db.clock.now()
	passed := now.Sub(r.saidAt)
	if r.saidAt.IsZero() || passed > 3*tick || said.Sub(r.said) > passed+3*tick {
		r.steady = now // others could not say so either, or the time has jumped
	}
	r.said, r.saidAt = said, now
}

// isSteady reports whether programs that are there could say so for as long as one must seem gone.
func (r *replicas) isSteady() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.db.clock.now()
	return now.Sub(r.saidAt) <= 3*tick && now.Sub(r.steady) >= r.goneFor
}

const (
	// goneAfter is how long a program has not said that it is there, before it seems to be gone: it may stand still for a
	// while, or have no connection.
	goneAfter = 30 * time.Second
	// awayAfter is the same for what another can go on with without harm if it comes back.
	awayAfter = 15 * time.Second
	// defaultGoneFor is how long one must seem so. After the database was away, or its clock was set, all do for a
	// moment.
	defaultGoneFor = patience + 2*tick
)

func (r *replicas) start(ctx context.Context, d *DB, program string) error {
	r.db, r.id, r.ended = d, store.NextID(ulid.ULID{}, d.Now()).String(), make(chan struct{})
	r.program = encode(program)
	r.address.Store("")
	r.goneFor = defaultGoneFor
	if err := r.appear(ctx); err != nil {
		return err
	}
	r.done.Go(r.loop)
	return nil
}

func (r *replicas) loop() {
	every := time.NewTicker(tick)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-r.ended:
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := r.appear(ctx); err != nil {
			r.db.warn(ctx, &r.failed, "other programs on the store could not be told that this one is there", err)
		}
		cancel()
	}
}

// appear writes that this program is there, and forgets what nobody needs any more.
func (r *replicas) appear(ctx context.Context) error {
	var said time.Time
	err := r.db.pool.QueryRow(ctx, `INSERT INTO replicas (id, config_gen, address, program, seen_at)
  SELECT $1, $2, $3, $4, at FROM store_state ON CONFLICT (id)
  DO UPDATE SET (address, seen_at) = (excluded.address, excluded.seen_at) RETURNING seen_at`, r.id, r.gen.Load(),
		r.address.Load(), r.program).Scan(&said)
	if err == nil {
		r.note(said)
	}
	if err == nil && r.isSteady() { // not in one transaction: two would wait for each other
		_, err = r.db.pool.Exec(ctx, `DELETE FROM replicas
  WHERE seen_at < (SELECT at FROM store_state) - $1 * interval '1 millisecond'`, goneAfter.Milliseconds())
	}
	if err == nil {
		_, err = r.db.pool.Exec(ctx, `DELETE FROM taken_once WHERE until < (SELECT at FROM store_state)`)
	}
	return err
}

// stop says that this program is gone.
func (r *replicas) stop() {
	close(r.ended)
	r.done.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = r.db.pool.Exec(ctx, `DELETE FROM replicas WHERE id = $1`, r.id) // else it is noticed
}

// AppearAt has others know at which URL they reach this program.
func (d *DB) AppearAt(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d.replicas.address.Store(url)
	return fault(d.replicas.appear(ctx))
}

// Replica is the id of this program among those on the database, another one with each start.
func (d *DB) Replica() string { return d.replicas.id }

// Program is one that is there.
type Program struct {
	Version string
	Address string // where others reach it, "" until it has said that
}

// Programs are those that are there, by their addresses.
func (d *DB) Programs(ctx context.Context) ([]Program, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows, err := d.pool.Query(ctx, `SELECT program, address FROM replicas
  WHERE `+seenWithin+`$1 * interval '1 millisecond' ORDER BY address, id`, awayAfter.Milliseconds())
	if err != nil {
		return nil, fault(err)
	}
	var all []Program
	var p Program
	_, err = pgx.ForEachRow(rows, []any{&p.Version, &p.Address}, func() error {
		all = append(all, Program{decode(p.Version), p.Address})
		return nil
	})
	return all, fault(err)
}

// FindGone returns the programs that are gone and have sent calls on of which nobody has said what came of them: those
// that have not been there since some earlier call. It is to be called every few seconds.
func (d *DB) FindGone(ctx context.Context) ([]string, error) {
	missing, err := d.collect(ctx, `SELECT runner FROM approval_requests
    WHERE dispatched_at IS NOT NULL AND outcome IS NULL AND runner <> $2
  UNION SELECT runner FROM grant_uses WHERE dispatched_at IS NOT NULL AND outcome IS NULL AND runner <> $2
  EXCEPT SELECT id FROM replicas WHERE `+seenWithin+`$1 * interval '1 millisecond'`, goneAfter.Milliseconds(),
		d.replicas.id)
	r, now := &d.replicas, d.clock.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.missing
	r.missing = map[string]time.Time{}
	var gone []string
	for _, id := range missing { // none after an error: it is not known who was there meanwhile
		since, known := was[id]
		if !known {
			since = now
		} else if now.Sub(since) >= r.goneFor {
			gone = append(gone, id)
		}
		r.missing[id] = since
	}
	return gone, err
}

const seenWithin = `seen_at >= (SELECT at FROM store_state) - `

// TakeTasks makes this program the one that is to run the tasks of the gate's own servers that wait and whose programs
// are gone, and reports whether there were any. Of several programs that ask, one takes each.
func (d *DB) TakeTasks(ctx context.Context, servers []string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	away := awayAfter
	if !d.replicas.isSteady() { // then those that have stopped
		away = 100 * 365 * 24 * time.Hour
	}
	// Both look whether it waits: of a row that another has changed meanwhile, only the outer one looks again.
	tag, err := d.pool.Exec(ctx, `UPDATE approval_requests AS r SET runner = $2 FROM (
    SELECT id AS of, coalesce(runner, '') AS was FROM approval_requests
    WHERE `+store.LiveTask+` AND tool_seen = 1 AND server = ANY($3) AND coalesce(runner, '') <> $2) AS waiting
  WHERE r.id = waiting.of AND `+store.LiveTask+` AND coalesce(r.runner, '') = waiting.was AND waiting.was NOT IN (
    SELECT id FROM replicas WHERE `+seenWithin+`$1 * interval '1 millisecond')
    AND EXISTS (SELECT 1 FROM store_state WHERE `+isOpen+`)`, away.Milliseconds(), d.replicas.id,
		servers)
	return tag.RowsAffected() > 0, fault(err)
}

// collect returns a column of texts.
func (d *DB) collect(ctx context.Context, sql string, args ...any) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows, err := d.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fault(err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return texts, fault(err)
}

// AddressOf returns where a program takes what others pass on to it, "" if it is not there, or nowhere. Where it has
// not said that it is there, and may not have been able to, that is an error.
func (d *DB) AddressOf(ctx context.Context, replica string) (string, error) {
	if _, err := ulid.ParseStrict(replica); err != nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var at string
	var seen bool
	err := d.pool.QueryRow(ctx, `SELECT address, `+seenWithin+`$2 * interval '1 millisecond' FROM replicas WHERE id = $1`,
		replica, awayAfter.Milliseconds()).Scan(&at, &seen)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", nil
	case err == nil && !seen && !d.replicas.isSteady():
		return "", errUnsteady
	case err == nil && !seen:
		return "", nil
	}
	return at, fault(err)
}

var errUnsteady = unavailable("It is not known yet which programs on the store's database are there.", nil)

// TakeOnce takes a key for so long, and reports whether nobody had taken it: of callers in all programs one gets it.
func (d *DB) TakeOnce(ctx context.Context, key string, hold time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tag, err := d.pool.Exec(ctx, `INSERT INTO taken_once (key, until)
  SELECT $1, now.at + $2 * interval '1 millisecond' FROM (SELECT `+d.clock.nowSQL()+` AS at FROM store_state) AS now
  ON CONFLICT (key) DO UPDATE SET until = excluded.until
    WHERE taken_once.until <= excluded.until - $2 * interval '1 millisecond'`, encode(key), hold.Milliseconds())
	return tag.RowsAffected() > 0, fault(err)
}

// PutHold keeps until when nothing of a kind is sent to a channel; what was kept for longer stays.
func (d *DB) PutHold(ctx context.Context, channel, kind string, until time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := d.pool.Exec(ctx, `INSERT INTO channel_state (channel, kind, held_until) VALUES ($1, $2, $3)
  ON CONFLICT (channel, kind) DO UPDATE SET held_until = greatest(channel_state.held_until, excluded.held_until)`,
		channel, kind, until)
	return fault(err)
}

// ReadHolds calls fn with each of these times that is to come.
func (d *DB) ReadHolds(ctx context.Context, fn func(channel, kind string, until time.Time)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows, err := d.pool.Query(ctx, `SELECT channel, kind, held_until FROM channel_state
  WHERE held_until > (SELECT at FROM store_state)`)
	if err != nil {
		return fault(err)
	}
	var channel, kind string
	var until time.Time
	_, err = pgx.ForEachRow(rows, []any{&channel, &kind, &until}, func() error {
		fn(channel, kind, until)
		return nil
	})
	return fault(err)
}

// ClaimBeat reports whether the caller is to run an entry of the heartbeat that is due at slot: one caller is, and none
// once a later slot was claimed.
func (d *DB) ClaimBeat(ctx context.Context, entry string, slot time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tag, err := d.pool.Exec(ctx, `INSERT INTO beats (entry, slot)
    SELECT $1, $2::timestamptz FROM store_state WHERE `+isOpen+`
  ON CONFLICT (entry) DO UPDATE SET slot = excluded.slot WHERE beats.slot < excluded.slot`, entry, slot)
	return tag.RowsAffected() > 0, fault(err)
}

// PutBeat keeps what the last run of an entry came to.
func (d *DB) PutBeat(ctx context.Context, entry, result string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := d.pool.Exec(ctx, `UPDATE beats SET result = $2 WHERE entry = $1`, entry, encode(result))
	return fault(err)
}

// ReadBeats returns what the last run of each entry came to, of those that one was kept of.
func (d *DB) ReadBeats(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows, err := d.pool.Query(ctx, `SELECT entry, result FROM beats WHERE result IS NOT NULL`)
	if err != nil {
		return nil, fault(err)
	}
	results := map[string]string{}
	var entry, result string
	_, err = pgx.ForEachRow(rows, []any{&entry, &result}, func() error {
		results[entry] = decode(result)
		return nil
	})
	return results, fault(err)
}

// Size is how many bytes the database takes on its server.
func (d *DB) Size(ctx context.Context) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = d.pool.QueryRow(ctx, `SELECT pg_database_size(current_database())`).Scan(&n)
	return n, fault(err)
}
