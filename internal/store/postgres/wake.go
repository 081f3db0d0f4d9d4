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

// readNews passes on to onNews what was numbered since it did so last.
func (w *wakes) readNews(ctx context.Context) error {
	d := w.db
	if d.onNews == nil {
		return nil
	}
	for more := true; more; {
		within, cancel := context.WithTimeout(ctx, patience)
		was := w.seen
		events, err := w.readEvents(within)
		var deadline time.Time
		if err == nil && len(events) > 0 {
			deadline, err = approval.View(within, d, approval.Tx.NextDeadline)
		}
		cancel()
		if err != nil {
			w.seen = was // they are read again
			return err
		}
		if more = len(events) == newsAtOnce; len(events) == 0 {
			continue
		}
		if !deadline.IsZero() {
			deadline = deadline.Add(leeway)
		}
		d.onNews(approval.Commit{Events: events, Deadline: deadline})
	}
	return nil
}

const (
	// newsAtOnce is how many events are read at once.
	newsAtOnce = 1000
	// leeway is by how much later a program sees to a deadline that another may have made: that one is to come first.
	leeway = 250 * time.Millisecond
)

// readEvents returns the events after the last one that it has returned, but for allowed calls. Where the database may
// have lost some, and given their numbers to others, it begins so far before that these are among them.
func (w *wakes) readEvents(ctx context.Context) (events []approval.Event, err error) {
	now, err := w.look(ctx)
	if err != nil || now == w.seen {
		return nil, err
	}
	if now.lineage != w.seen.lineage || now.seq < w.seen.seq {
		w.seen.seq = min(w.seen.seq, now.seq) - newsAtOnce
	}
	rows, err := w.db.pool.Query(ctx, `SELECT seq, event_type, coalesce(approval_id, ''), coalesce(agent, ''),
  coalesce(decision, '') FROM audit_events WHERE seq > $1 AND event_type <> 'call_allowed' ORDER BY seq LIMIT $2`,
		w.seen.seq, newsAtOnce)
	if err != nil {
		return nil, err
	}
	events, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (e approval.Event, err error) {
		err = r.Scan(&e.Seq, &e.Type, &e.ApprovalID, &e.Agent, &e.Decision)
		e.Agent = decode(e.Agent)
		return e, err
	})
	if err != nil {
		return nil, err
	}
	if n := len(events); n == newsAtOnce {
		now.seq = events[n-1].Seq
	} else if n > 0 {
		now.seq = max(now.seq, events[n-1].Seq)
	}
	w.seen = now
	return events, nil
}
