package postgres

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"countersign/approval"
)

// Another server may have taken over that had not got all that was committed, or the database may be one that was
// restored from a dump: then what is approved in it may have been used, and what waits may have been decided. So each
// transaction that writes looks, behind its lock, whether the database is of the lineage that the store was last of.
// Where it is not, whoever notices first ends all that was open, and notes the new lineage, in one transaction about
// the whole store.

// A lineage is that of the table, in its database; of the cluster, after a slash; and, after a bar, t and the timeline,
// which a standby begins anew when it is promoted. What pg_control says of it follows only with the next checkpoint. A
// part that the database does not tell to this user is left empty; for the timeline stands s and when the server was
// started, which may have been another one before.
const (
	tableIs    = `(SELECT oid FROM pg_database WHERE datname = current_database()) || '.' || 'store_state'::regclass::oid`
	clusterIs  = `(SELECT system_identifier::text FROM pg_control_system())`
	timelineIs = `'t' || left(pg_walfile_name(pg_current_wal_lsn()), 8)`
	startedIs  = `'s' || extract(epoch FROM pg_postmaster_start_time())`
)

// isOther reports whether a lineage is another one than the store was of. What only one of two users is told is no
// difference.
func isOther(was, is string, lossless bool) bool {
	was, wasLine, _ := strings.Cut(was, "|")
	is, line, _ := strings.Cut(is, "|")
	wasTable, wasCluster, _ := strings.Cut(was, "/")
	table, cluster, _ := strings.Cut(is, "/")
	return table != wasTable || cluster != wasCluster && cluster != "" && wasCluster != "" ||
		!lossless && line != wasLine && line != "" && wasLine != "" && line[0] == wasLine[0]
}

// errMoved ends a transaction whose database is of another lineage than the store was.
var errMoved = unavailable("The store's database is another one each time; see that its address leads to one server "+
	"alone.", nil)

// findLineage finds out how the database tells its lineage, and notes it in a store that has none yet.
func (d *DB) findLineage(ctx context.Context) error {
	hasCluster, err := d.tells(ctx, clusterIs)
	if err != nil {
		return err
	}
	hasTimeline, err := d.tells(ctx, timelineIs)
	if err != nil {
		return err
	}
	d.lineage = tableIs + ` || '/' || `
	if hasCluster {
		d.lineage += clusterIs + ` || `
	}
	if d.lineage += `'|' || `; hasTimeline {
		d.lineage += timelineIs
	} else {
		d.lineage += startedIs
	}
	if !hasTimeline && !d.lossless {
		d.log.WarnContext(ctx, "the store's database does not tell whether another server has taken over: each time it "+
			"starts, all that waits is cancelled, and so are approvals not used yet",
			slog.String("do", "where no server can take over that lacks what was committed, set replicas.failover: lossless"))
	}
	_, err = d.pool.Exec(ctx, `UPDATE store_state SET lineage = `+d.lineage+` WHERE lineage IS NULL`)
	return err
}

// tells reports whether the database answers an expression: whoever runs it for others may not let it.
func (d *DB) tells(ctx context.Context, sql string) (bool, error) {
	var answer string
	err := d.pool.QueryRow(ctx, "SELECT "+sql).Scan(&answer)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok &&
		(e.Code == codePrivilege || e.Code == codeNoFunction || e.Code == codeNotSupported) {
		return false, nil
	}
	return err == nil, err
}

// restored is the lineage of a store that is said to be restored: of none.
const restored = "restored"

// MarkRestored has whichever program writes next to the database at a URL take it for one that was restored: what was
// put back is not always of another lineage. Programs may run. It returns the database's name, without secrets.
func MarkRestored(ctx context.Context, url string) (name string, err error) {
	config, err := parse(url)
	if err != nil {
		return "", err
	}
	name = nameOf(config.ConnConfig)
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return name, fault(err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, everything); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE store_state SET lineage = $1`, restored)
		if err == nil && tag.RowsAffected() != 1 {
			err = errors.New("store_state is empty")
		}
		return err
	})
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == codeNoTable {
		return name, unavailable("There is no store in "+name+".", err)
	}
	return name, fault(err)
}

// endRestored ends what was open in a database of another lineage, and notes that.
func (d *DB) endRestored(ctx context.Context) error {
	ended, came := false, false
	r := run{db: d, about: approval.WholeStore(), of: approval.WholeStore(), follows: true}
	r.fn = func(begun approval.Tx) error {
		t := begun.(*tx)
		end := d.restored
		if came = t.was == moved; came {
			end = d.arrived
		}
		if ended = isOther(t.was, t.lineage, d.lossless); ended && end != nil { // no program was quicker
			if err := end(ctx, t); err != nil {
				return err
			}
		}
		t.queue(`UPDATE store_state SET lineage = $1`, t.lineage)
		return nil
	}
	err := r.attempt(ctx)
	switch {
	case err == nil && came:
		d.log.WarnContext(ctx, "the store's rows were brought from a file; all that waits, and approvals not used yet, are "+
			"cancelled, because they may have been used there since; everybody must sign in again")
	case err == nil && ended:
		d.log.WarnContext(ctx, "another server has taken over the store's database, or it was restored, and may lack what "+
			"was committed last; all that waits, and approvals not used yet, are cancelled, because they may have been used "+
			"since")
	}
	return err
}
