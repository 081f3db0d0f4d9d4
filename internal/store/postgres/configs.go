package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Programs on one database are given their configurations one after another, by whoever installs them. Each that comes
// into force anywhere is counted up, so that one that was given none yet is told from one that was given another back.

// Configure notes which configuration this program has from now on, and reports whether it is a new one: none of the
// programs had it before. One that starts with an older configuration than others have is behind them; where nobody has
// the newer one any more it was given back, and is new.
func (d *DB) Configure(ctx context.Context, digest string) (isNew bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r := &d.replicas
	r.configuring.Lock()
	defer r.configuring.Unlock()
	gen := r.gen.Load()
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		// One program after another counts: the row is held until the end.
		if _, err := tx.Exec(ctx, `SELECT 1 FROM store_state FOR UPDATE`); err != nil {
			return err
		}
		var newest, same int64
		if err := tx.QueryRow(ctx, `SELECT coalesce(max(gen), 0),
  coalesce(max(gen) FILTER (WHERE digest = $1 AND gen >= $2), 0) FROM configs`, digest, gen).Scan(&newest,
			&same); err != nil {
			return err
		}
		if same > 0 && same < newest && gen == 0 {
			var others bool
			if err := tx.QueryRow(ctx, othersAreAhead, same, r.id, goneAfter.Milliseconds()).Scan(&others); err != nil {
				return err
			}
			if !others {
				same = 0
			}
		}
		if gen, isNew = same, same == 0; isNew {
			gen = newest + 1
			if _, err := tx.Exec(ctx, `INSERT INTO configs (gen, digest) VALUES ($1, $2)`, gen, digest); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `UPDATE replicas SET config_gen = $1 WHERE id = $2`, gen, r.id)
		return err
	})
	if err != nil {
		return false, fault(err)
	}
	r.gen.Store(gen)
	return isNew, nil
}

// othersAreAhead reports whether another program that is there has a newer configuration.
const othersAreAhead = `SELECT EXISTS (SELECT FROM replicas WHERE config_gen > $1 AND id <> $2
  AND seen_at >= (SELECT at FROM store_state) - $3 * interval '1 millisecond')`

// IsBehind reports whether another program has a newer configuration than this one.
func (d *DB) IsBehind(ctx context.Context) (behind bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = d.pool.QueryRow(ctx, othersAreAhead, d.replicas.gen.Load(), d.replicas.id,
		goneAfter.Milliseconds()).Scan(&behind)
	return behind, fault(err)
}
