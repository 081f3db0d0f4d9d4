package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// whetherWithin is for how long it is asked what became of a COMMIT whose answer did not come.
const whetherWithin = 1500 * time.Millisecond

// codeFuture is how PostgreSQL answers for a transaction of which it has not heard yet: what answers has lost it.
const codeFuture = "22023"

// errUnknown says that the database does not tell it.
var errUnknown = errors.New("store: the database does not know the transaction any more")

// outcome asks what became of a transaction, on another connection, until that is certain. A server that has taken over
// since may have given its number to another one.
func (d *DB) outcome(xid, lineage string) (committed bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), whetherWithin)
	defer cancel()
	for {
		var status *string
		var same bool
		err = d.pool.QueryRow(ctx, `SELECT pg_xact_status($1::text::xid8), $2 = `+d.lineage, xid, lineage).
			Scan(&status, &same)
		e, told := errors.AsType[*pgconn.PgError](err)
		switch {
		case told && e.Code == codeFuture:
			return false, nil
		case err == nil && (status == nil || *status == "committed" && !same):
			return false, errUnknown
		case err == nil && *status != "in progress":
			return *status == "committed", nil
		}
		select {
		case <-ctx.Done():
			return false, errors.Join(err, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
