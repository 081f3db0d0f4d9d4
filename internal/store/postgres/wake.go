package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/approval"
)

// Programs that share a store wake each other: whoever commits what is more than an allowed call notifies the others,
// after the commit and not in it, where PostgreSQL would let one transaction commit at a time
// (https://www.postgresql.org/docs/current/sql-notify.html). A notification says nothing; it may come late, or not at
// all behind a pooler. So all look each second besides, and what has come is read from the numbered events.

const (
	// wakeAtMost is how often the others are woken at most.
	wakeAtMost = 5 * time.Millisecond
	// receivedWithin is how soon a program must receive a notification of its own.
	receivedWithin = 5 * time.Second
	// listenAgain is for how long it is waited until it is listened again.
	listenAgain = time.Second
)

// wakes notify the other programs, and read what they have committed.
type wakes struct {
	db         *DB
	pending    chan struct{} // the others are to be notified
	own        atomic.Uint32 // the process that serves the connection by which this program has notified last
	seen       newest        // up to where events were passed on to onNews
	owes       bool          // onNews was not told yet of a deadline that came with them
	unreceived bool          // notifications do not arrive, which was logged
	done       sync.WaitGroup
	end        context.CancelFunc
}

// newest is the seq that was given out last, and the lineage of the store then: events up to it are there.
type newest struct {
	seq     int64
	lineage string
}

func (w *wakes) look(ctx context.Context) (n newest, err error) {
	err = w.db.pool.QueryRow(ctx, `SELECT seq, coalesce(lineage, '') FROM store_state`).Scan(&n.seq, &n.lineage)
	return n, err
}

// prepare has news begin after all that is there.
func (w *wakes) prepare(ctx context.Context, d *DB) (err error) {
	w.db, w.pending = d, make(chan struct{}, 1)
	w.seen, err = w.look(ctx)
	return err
}

func (w *wakes) start() {
	ctx, end := context.WithCancel(context.Background())
	w.end = end
	w.done.Go(func() { w.notifyOthers(ctx) })
	w.done.Go(func() { w.listen(ctx) })
}

func (w *wakes) stop() {
	w.end()
	w.done.Wait()
}

// note has the others woken, if what was committed is more than allowed calls.
func (w *wakes) note(events []approval.Event) {
	for i := range events {
		if events[i].Type != approval.EventCallAllowed {
			poke(w.pending)
			return
		}
	}
}

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// notifyOthers wakes the others, the first time at once. Where it fails they look for themselves.
func (w *wakes) notifyOthers(ctx context.Context) {
	for {
		select {
		case <-w.pending:
		case <-ctx.Done():
			return
		}
		_ = w.notify(ctx)
		select {
		case <-time.After(wakeAtMost):
		case <-ctx.Done():
		}
	}
}

func (w *wakes) notify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := w.db.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	w.own.Store(conn.Conn().PgConn().PID())
	_, err = conn.Exec(ctx, "NOTIFY countersign")
	return err
}

// listen receives the notifications of others, on a connection of its own.
func (w *wakes) listen(ctx context.Context) {
	for ctx.Err() == nil {
		received, err := w.listenOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case received:
			w.unreceived = false
		case err == nil && !w.unreceived:
			w.unreceived = true
			w.db.log.InfoContext(ctx, "notifications of the store's database do not arrive, as behind a pooler: what "+
				"other programs commit is seen within a second, and not at once")
		}
		select {
		case <-time.After(listenAgain):
		case <-ctx.Done():
		}
	}
}

// listenOnce listens until the connection is lost, or, without an error, until a notification of its own does not
// arrive.
func (w *wakes) listenOnce(ctx context.Context) (received bool, err error) {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	config := w.db.pool.Config().ConnConfig
	config.OnNotification = nil // they are waited for
	c, err := pgx.ConnectConfig(within, config)
	if err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx) // whatever was wrong with it is known
	}()
	if _, err = c.Exec(within, "LISTEN countersign"); err != nil {
		return false, err
	}
	if !w.unreceived {
		w.db.numbering.wake() // for what was notified while nobody listened
	}
	for {
		if err := w.notify(ctx); err != nil { // which is to be received
			return received, err
		}
		within, cancel := context.WithTimeout(ctx, receivedWithin)
		n, err := c.WaitForNotification(within)
		cancel()
		switch {
		case ctx.Err() != nil || err != nil && c.IsClosed():
			return received, err
		case err != nil:
			return received, nil
		}
		for received = true; err == nil; {
			if n.PID != w.own.Load() {
				w.db.numbering.wake()
			}
			within, cancel := context.WithTimeout(ctx, receivedWithin)
			n, err = c.WaitForNotification(within)
			cancel()
		}
		if c.IsClosed() || ctx.Err() != nil {
			return received, err
		}
	}
}

const (
	// newsAtOnce is how many events are read at once.
	newsAtOnce = 1000
	// leeway is by how much later a program sees to a deadline that another may have made: that one is to come first.
	leeway = 250 * time.Millisecond
)

// news is what was read of the numbered events, but for allowed calls: those up to a number.
type news struct {
	events []approval.Event
	upTo   newest
}

const selectNews = `SELECT state.seq, coalesce(state.lineage, ''), coalesce(e.seq, 0), coalesce(e.event_type, ''),
  coalesce(e.approval_id, ''), coalesce(e.agent, ''), coalesce(e.decision, '')
FROM store_state AS state LEFT JOIN (SELECT seq, event_type, approval_id, agent, decision FROM audit_events
  WHERE seq > $1 AND event_type <> 'call_allowed' ORDER BY seq LIMIT $2) AS e ON true ORDER BY e.seq`

// read queues the reading of the events after the last one that was told.
func (w *wakes) read(b *pgx.Batch, into *news) {
	b.Queue(selectNews, w.seen.seq, newsAtOnce).Query(func(rows pgx.Rows) error {
		var e approval.Event
		*into = news{}
		_, err := pgx.ForEachRow(rows, []any{&into.upTo.seq, &into.upTo.lineage, &e.Seq, &e.Type, &e.ApprovalID, &e.Agent,
			&e.Decision}, func() error {
			if e.Seq > 0 {
				e.Agent = decode(e.Agent)
				into.events = append(into.events, e)
			}
			return nil
		})
		return err
	})
}

// tell passes on to onNews what was read, and all that there is after it.
func (w *wakes) tell(ctx context.Context, n *news) error {
	for {
		more := w.see(n)
		if len(n.events) > 0 {
			w.db.onNews(approval.Commit{Events: n.events})
			w.owes = true
		}
		if !more {
			break
		}
		if err := w.readMore(ctx, n); err != nil {
			return err
		}
	}
	if !w.owes {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	deadline, err := approval.View(within, w.db, approval.Tx.NextDeadline)
	if err != nil {
		return err
	}
	if w.owes = false; !deadline.IsZero() {
		w.db.onNews(approval.Commit{Deadline: deadline.Add(leeway)})
	}
	return nil
}

// see takes note of what was read, and reports whether there may be more. Where the database may have lost some events,
// and given their numbers to others, none were read yet that may be these: it is gone back so far that they are among
// those that are read next.
func (w *wakes) see(n *news) (more bool) {
	if n.upTo.lineage != w.seen.lineage || n.upTo.seq < w.seen.seq {
		w.seen = newest{min(w.seen.seq, n.upTo.seq) - newsAtOnce, n.upTo.lineage}
		n.events = nil
		return true
	}
	last := len(n.events) - 1
	if more = len(n.events) == newsAtOnce; more {
		n.upTo.seq = n.events[last].Seq
	} else if last >= 0 {
		n.upTo.seq = max(n.upTo.seq, n.events[last].Seq)
	}
	w.seen = n.upTo
	return more
}

func (w *wakes) readMore(ctx context.Context, n *news) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var b pgx.Batch
	w.read(&b, n)
	return w.db.pool.SendBatch(ctx, &b).Close()
}
