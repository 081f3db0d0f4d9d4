package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"countersign/approval"
	"countersign/channels/outbox"
	"countersign/heartbeat"
	"countersign/internal/budget"
	"countersign/internal/config"
	"countersign/internal/secret"
	"countersign/internal/store/postgres"
)

// openServer opens the database that the configuration names.
func openServer(ctx context.Context, a *App, broker *approval.Broker) (database, error) {
	cfg := a.o.Config
	d, err := postgres.Open(ctx, postgres.Options{URL: cfg.StoreURL.Reveal(), Logger: a.logger("store"),
		Program: a.o.Version, Lossless: cfg.Replicas.Lossless(), Restored: a.endAfterFailover, Arrived: a.endAfterMove,
		OnCommit: a.committed(broker), BeforeCommit: broker.BeforeCommit, OnNews: broker.Publish,
		Failpoint: a.o.Failpoint})
	if err != nil {
		return nil, err
	}
	return server{d, cfg.Replicas, &runs{d: d, last: map[string]heartbeat.Run{}}}, nil
}

// endAfterFailover ends what was open in a database that may lack what was committed last, and tells the admins.
func (a *App) endAfterFailover(ctx context.Context, tx approval.Tx) error {
	if err := a.gate.In(ctx, tx).Freezes().FailedOver(); err != nil {
		return err
	}
	if err := a.signIn.EndAfterFailover(ctx, tx); err != nil {
		return err
	}
	return a.chat.FailedOver(tx)
}

// endAfterMove ends what was open in the file that the rows of a database came from. Who has moved it knows.
func (a *App) endAfterMove(ctx context.Context, tx approval.Tx) error {
	if err := a.gate.In(ctx, tx).Freezes().Restored(); err != nil {
		return err
	}
	return a.signIn.EndAfterFailover(ctx, tx)
}

// ownTx is the store's own transaction. Tests stand before it.
var ownTx = func(tx approval.Tx) approval.Tx { return tx }

// server is a store that several programs share.
type server struct {
	*postgres.DB
	cfg config.Replicas
	ran *runs
}

func (s server) Ping(ctx context.Context) error {
	return s.Update(ctx, approval.OfNothing(), func(approval.Tx) error { return nil })
}

// Problems says what is wrong with the clocks: the database's counts.
func (s server) Problems() (ps []string) {
	if off := s.Skew(); off.Abs() >= maxSkew {
		which := "ahead of"
		if off > 0 {
			which = "behind"
		}
		ps = append(ps, fmt.Sprintf("this machine's clock is %v %s the database's, which counts: see that both are right",
			off.Abs().Round(time.Second), which))
	}
	switch off := s.Off(); {
	case off > 0:
		ps = append(ps, hasJumped("the database's", off, s.FollowsIn()))
	case off < 0:
		ps = append(ps, isBehind("the database's", -off))
	}
	return ps
}

// maxSkew is how far the clocks of this machine and of the database may be apart.
const maxSkew = 2 * time.Second

// Ahead is 0: the store's time is that of the database.
func (server) Ahead() time.Duration { return 0 }

// WasRestored is false: a database that was restored is noticed while the program runs, too. See endAfterFailover.
func (server) WasRestored() bool                    { return false }
func (server) AcceptRestored(context.Context) error { return nil }

// Shrink has nothing to do: PostgreSQL's own vacuum does that.
func (server) Shrink(context.Context) error { return nil }

func (s server) size(ctx context.Context) int64 {
	n, err := s.Size(ctx)
	if err != nil {
		return 0
	}
	return n
}

func (s server) hasOthers(ctx context.Context) bool {
	there, err := s.Programs(ctx)
	return err == nil && len(there) > 1
}

func (s server) programs(ctx context.Context) string {
	there, err := s.Programs(ctx)
	if err != nil {
		return ""
	}
	var tell []string
	for _, p := range there {
		tell = append(tell, strings.TrimSpace(p.Version+" "+p.Address))
	}
	return strings.Join(tell, ", ")
}

func (server) others() time.Duration    { return time.Second }
func (s server) runs() heartbeat.Record { return s.ran }

func (s server) configure(ctx context.Context, digest string) (isNew bool, err error) {
	return s.Configure(ctx, digest)
}

func (s server) isBehind(ctx context.Context) (bool, error) { return s.IsBehind(ctx) }

func (s server) holds() outbox.Holds { return holds{s.DB} }

// holds are those of a database.
type holds struct{ d *postgres.DB }

func (s holds) PutHold(ctx context.Context, h outbox.Hold) error {
	return s.d.PutHold(ctx, h.Channel, h.Kind, h.Until)
}

func (s holds) ReadHolds(ctx context.Context) (hs []outbox.Hold, err error) {
	err = s.d.ReadHolds(ctx, func(channel, kind string, until time.Time) {
		hs = append(hs, outbox.Hold{Channel: channel, Kind: kind, Until: until})
	})
	return hs, err
}

func (s server) budgetRows() budget.RowsOf {
	return func(tx approval.Tx) budget.Rows { return s.Budgets(ownTx(tx)) }
}

func (s server) takeOnce(ctx context.Context, key string, hold time.Duration) (bool, error) {
	return s.TakeOnce(ctx, key, hold)
}

func (s server) keys(use string) secret.Keys { return secret.DeriveKeys(s.cfg.Secret, use) }

func (s server) keep(ctx context.Context, log *slog.Logger) {
	if err := s.ran.read(ctx); err != nil && ctx.Err() == nil {
		log.WarnContext(ctx, "what the heartbeat did could not be read; trying again", "error", err)
	}
}

// runs are the heartbeat's, by all programs on the database.
type runs struct {
	d    *postgres.DB
	mu   sync.Mutex
	last map[string]heartbeat.Run
}

// run is a [heartbeat.Run] as it is kept.
type run struct {
	At     time.Time
	Took   time.Duration
	Counts heartbeat.Counts
	Failed string
}

func (r *runs) Claim(ctx context.Context, entry string, slot time.Time) (bool, error) {
	return r.d.ClaimBeat(ctx, entry, slot)
}

func (r *runs) Put(ctx context.Context, ran heartbeat.Run) error {
	kept := run{At: ran.At, Took: ran.Took, Counts: ran.Counts}
	if ran.Err != nil {
		kept.Failed = ran.Err.Error()
	}
	text, err := json.Marshal(kept)
	if err == nil {
		err = r.d.PutBeat(ctx, ran.Entry, string(text))
	}
	if err == nil {
		err = r.read(ctx)
	}
	return err
}

func (r *runs) Last(entry string) (heartbeat.Run, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.last[entry]
	return last, ok
}

// read has Last know of what others have kept.
func (r *runs) read(ctx context.Context) error {
	kept, err := r.d.ReadBeats(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for entry, text := range kept {
		var is run
		if err := json.Unmarshal([]byte(text), &is); err != nil {
			return err
		}
		last := heartbeat.Run{Entry: entry, At: is.At, Took: is.Took, Counts: is.Counts}
		if is.Failed != "" {
			last.Err = errors.New(is.Failed)
		}
		r.last[entry] = last
	}
	return nil
}
