package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"countersign/approval"
	"countersign/internal/ratelimitedlog"
)

// The codes by which PostgreSQL tells what a caller acts on:
// https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	classConstraint   = "23"
	codeForeignKey    = "23503"
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLockTimeout   = "55P03"
	codeReadOnly      = "25006"
	codeIdle          = "25P03" // idle in a transaction for too long
	codeShutdown      = "57P01" // and a connection that an administrator has ended
	codeCrash         = "57P02"
	codeNoDatabase    = "3D000"
	codeNoFunction    = "42883"
	codeNoTable       = "42P01"
	codeNotSupported  = "0A000"
	codePrivilege     = "42501"
	codePreparedTwice = "42P05"
	codeNotPrepared   = "26000"
)

// remedies says, by the class of a code, what an operator can do about a database that does not work.
var remedies = map[string]string{
	"08": "The store's database cannot be reached; see that it runs and that its address is right, then try again.",
	"28": "The store's database refuses the user or the password; see that the URL has those of a role that may log in.",
	"53": "The store's database is out of disk, memory or connections; free some, or raise its limit, then try again.",
	"57": "The store's database is stopping or has broken the statement off; wait until it runs again, then try again.",
	"58": "The disk of the store's database does not work as it should; look at its log, then try again.",
	"XX": "The store's database is damaged or has a fault of its own; look at its log.",

	codeReadOnly:   "The store's database cannot be written; name the primary, not a standby.",
	codeNoDatabase: "The store's database does not exist; create it, or name another.",
	codePrivilege:  "The store's user may not do what it must; make it the owner of the database's tables.",
	codeIdle:       "The store's database has given up a transaction that stood still; try again.",

	codePreparedTwice: pooled,
	codeNotPrepared:   pooled,

	codeSerialization: heldByOthers,
	codeDeadlock:      heldByOthers,
	codeLockTimeout:   heldByOthers,
}

const pooled = "The store's database is behind a pooler that has each transaction in another session; add " +
	"default_query_exec_mode=exec to the store's URL."

const heldByOthers = "What the store was to change was held by others for too long; nothing was done. Try again."

// fault turns an error of the library into one of ours, and passes every other on as it is. Whatever hinders all work
// is [approval.CodeStoreUnavailable].
func fault(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*approval.Error](err); ok {
		return err
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		for _, code := range []string{e.Code, e.Code[:min(2, len(e.Code))]} {
			if text, ok := remedies[code]; ok {
				return unavailable(text, err)
			}
		}
		if e.Code == codeForeignKey {
			return approval.ErrNotFound
		}
		return fmt.Errorf("store: %w", err)
	}
	switch {
	case isLost(err), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return unavailable(remedies["08"], err)
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable("The store's database did not answer in time; try again.", err)
	}
	return err
}

// lostOn is err, marked if the connection is gone by it; nil: none was held.
func lostOn(c *pgx.Conn, err error) error {
	if err != nil && c != nil && c.IsClosed() {
		return errors.Join(errLost, err)
	}
	return err
}

// isLost reports whether err means that the connection is gone, and not that a statement has failed.
func isLost(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok &&
		(e.Code == codeShutdown || e.Code == codeCrash || e.Code == codeIdle) {
		return true
	}
	return errors.Is(err, errLost)
}

// errLost is what a statement comes to whose connection is gone.
var errLost = errors.New("store: the connection to the database is lost")

// mayRunAgain reports whether the transaction that err has ended came to nothing because of others, and its function is
// to run again.
func mayRunAgain(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok &&
		(e.Code == codeSerialization || e.Code == codeDeadlock || e.Code == codeLockTimeout) {
		return true
	}
	return isLost(err)
}

func unavailable(message string, err error) *approval.Error {
	return &approval.Error{Code: approval.CodeStoreUnavailable, Message: message, Err: err}
}

// notStarted is what a caller gets whose function was not started.
func notStarted(ctx context.Context) error {
	return unavailable("The store was busy for too long; nothing was done.", ctx.Err())
}

func errClosed() error {
	return unavailable("The store is closed.", approval.ErrClosed)
}

// warn logs what failed and is tried again each second, at most once a minute.
func (d *DB) warn(ctx context.Context, failed *ratelimitedlog.Counter, what string, err error) {
	if times, log := failed.Add(d.clock.now()); log {
		d.log.WarnContext(ctx, "what the store does each second failed; trying again", slog.String("what", what),
			slog.Int("times", times), slog.Any("error", err))
	}
}
