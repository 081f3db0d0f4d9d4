package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// What the programs on one database do once, together. Nobody leads: a row says who has begun.

// Once takes a key for so long, and reports whether nobody had taken it: of callers in all programs one gets it.
func (d *DB) Once(ctx context.Context, key string, hold time.Duration) (bool, error) {
	tag, err := d.pool.Exec(ctx, `INSERT INTO taken_once (key, until)
  SELECT $1, now.at + $2 * interval '1 millisecond' FROM (SELECT `+d.clock.nowSQL()+` AS at FROM store_state) AS now
  ON CONFLICT (key) DO UPDATE SET until = excluded.until
    WHERE taken_once.until <= excluded.until - $2 * interval '1 millisecond'`, encode(key), hold.Milliseconds())
	return tag.RowsAffected() > 0, fault(err)
}

// ClaimBeat reports whether the caller is to run an entry of the heartbeat that is due at slot: one caller is, and none
// once a later slot was claimed.
func (d *DB) ClaimBeat(ctx context.Context, entry string, slot time.Time) (bool, error) {
	tag, err := d.pool.Exec(ctx, `INSERT INTO beats (entry, slot) VALUES ($1, $2)
  ON CONFLICT (entry) DO UPDATE SET slot = excluded.slot WHERE beats.slot < excluded.slot`, entry, slot)
	return tag.RowsAffected() > 0, fault(err)
}

// PutBeat keeps what the last run of an entry came to.
func (d *DB) PutBeat(ctx context.Context, entry, result string) error {
	_, err := d.pool.Exec(ctx, `UPDATE beats SET result = $2 WHERE entry = $1`, entry, encode(result))
	return fault(err)
}

// Beats returns what the last run of each entry came to, of those that one was kept of.
func (d *DB) Beats(ctx context.Context) (map[string]string, error) {
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
