package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"countersign/internal/ratelimitedlog"
)

// Events are committed into audit_inbox, without a number: a number that a transaction took would be held by it until
// it commits, and all others would wait for it. Whoever needs them numbered moves them to audit_events, one at a time:
// then their order is that of the commits as far as anybody can have seen one, and there are no holes.

// atOnce is how many events are moved by one statement.
const atOnce = 2000

const numberEvents = `WITH moved AS (
    DELETE FROM audit_inbox WHERE seq IN (SELECT seq FROM audit_inbox ORDER BY seq LIMIT $1) RETURNING *),
  state AS (UPDATE store_state SET seq = seq + (SELECT count(*) FROM moved) WHERE EXISTS (SELECT 1 FROM moved)
    RETURNING seq - (SELECT count(*) FROM moved) AS before)
INSERT INTO audit_events (seq, id, at, event_type, correlation_id, actor, approval_id, agent, tool, risk_level,
  decision, reason, data)
SELECT state.before + row_number() OVER (ORDER BY moved.seq), id, at, event_type, correlation_id, actor, approval_id,
  agent, tool, risk_level, decision, reason, data FROM moved, state`

// numbering numbers what this program has committed, soon after it has, and what others have left.
type numbering struct {
	db     *DB
	failed ratelimitedlog.Counter
	kick   chan struct{}
	woken  chan struct{} // another program has committed
	ended  <-chan struct{}
	end    context.CancelFunc
	done   sync.WaitGroup
}

const (
	// soon is for how long events of several commits are gathered.
	soon = 10 * time.Millisecond
	// leftBehind is how often it is looked for what another program has left without a number.
	leftBehind = time.Second
)

func (n *numbering) start(d *DB, look time.Duration) {
	n.db, n.kick, n.woken = d, make(chan struct{}, 1), make(chan struct{}, 1)
	ctx, end := context.WithCancel(context.Background())
	n.end, n.ended = end, ctx.Done()
	n.done.Go(func() { n.loop(ctx, look) })
}

func (n *numbering) stop() {
	n.end()
	n.done.Wait()
}

// note says that events were committed.
func (n *numbering) note() { poke(n.kick) }

// wake has what others have committed looked at now.
func (n *numbering) wake() { poke(n.woken) }

func (n *numbering) loop(ctx context.Context, every time.Duration) {
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		select {
		case <-n.kick:
			select {
			case <-time.After(soon):
			case <-n.ended:
			}
		case <-n.woken:
		case <-look.C:
		case <-n.ended:
			return
		}
		var found *news
		if n.db.onNews != nil {
			found = &news{}
		}
		err := n.gather(ctx, found)
		if err == nil && found != nil {
			err = n.db.wakes.tell(ctx, found)
		}
		if err != nil && ctx.Err() == nil {
			n.db.warn(ctx, &n.failed, "what was committed could not be numbered, or not be told", err)
		}
	}
}

// gather gives a number to all events that were committed before it was called, and reads what is new then, where found
// is not nil. It tries again where a connection was lost: what was numbered stays so.
func (n *numbering) gather(ctx context.Context, found *news) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for try := 1; try <= tries; try++ {
		if err = n.gatherOnce(ctx, found); err == nil || ctx.Err() != nil || !mayRunAgain(err) {
			break
		}
	}
	if err != nil && ctx.Err() != nil {
		return notStarted(ctx)
	}
	return err
}

func (n *numbering) gatherOnce(ctx context.Context, found *news) error {
	conn, err := n.db.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	for moved := int64(atOnce); moved == atOnce; {
		var b pgx.Batch
		b.Queue("BEGIN")
		b.Queue(limits)
		b.Queue(`SELECT pg_advisory_xact_lock($1)`, numbers)
		b.Queue(numberEvents, atOnce)
		b.Queue("COMMIT")
		if found != nil {
			n.db.wakes.read(&b, found)
		}
		b.QueuedQueries[3].Exec(func(tag pgconn.CommandTag) error {
			moved = tag.RowsAffected()
			return nil
		})
		if err := conn.SendBatch(ctx, &b).Close(); err != nil {
			err = lostOn(conn.Conn(), err)
			if ctx.Err() == nil {
				n.db.replace(err)
			}
			return err
		}
	}
	return nil
}

// number is gather within a transaction that writes, its own events among them. Others' numbers wait for its end.
func (t *tx) number() error {
	t.queue(`SELECT pg_advisory_xact_lock($1)`, numbers)
	for {
		results, err := t.send(numberEvents, []any{atOnce})
		if err != nil {
			return err
		}
		tag, err := results.Exec()
		if err = errors.Join(err, results.Close()); err != nil || tag.RowsAffected() < atOnce {
			return err
		}
	}
}
