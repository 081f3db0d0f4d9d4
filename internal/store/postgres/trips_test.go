//go:build postgres

package postgres

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"countersign/approval"
	"countersign/internal/store"
)

// trips counts how often a store's transactions have waited for the database.
type trips struct {
	sent
	n atomic.Int32
}

func (r *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if !slices.ContainsFunc(data.Batch.QueuedQueries, func(q *pgx.QueuedQuery) bool { return q.SQL == numberEvents }) {
		r.n.Add(1)
	}
	return ctx
}

// A transaction begins in one round trip, and what it writes goes with the commit, or with what it asks next.
func TestRoundTrips(t *testing.T) {
	counted := &trips{}
	d := open(t, Options{tracer: counted})
	var id string
	insert := func(tx approval.Tx) error {
		now := tx.Now()
		id = tx.NewID()
		return tx.InsertRequest(approval.Request{ID: id, Agent: "bot", Tool: "pay", Args: []byte(`{}`), ArgsHash: id + id +
			"000000000000", Risk: approval.RiskHigh, Status: approval.Pending, RequestedAt: now, ExpiresAt: now})
	}
	tell := func(tx approval.Tx) error {
		_, err := tx.Append(approval.Event{Type: approval.EventDecision, Agent: "bot"})
		return err
	}
	ask := func(tx approval.Tx) error {
		_, err := tx.Head(id)
		return err
	}
	update := func(fns ...func(tx approval.Tx) error) {
		t.Helper()
		if err := d.Update(t.Context(), approval.OfAgent("bot"), func(tx approval.Tx) error {
			for _, fn := range fns {
				if err := fn(tx); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	update(insert, tell, ask) // a connection learns each statement once
	for _, test := range []struct {
		name string
		fns  []func(tx approval.Tx) error
		want int32
	}{
		{"nothing", nil, 2},
		{"what only writes", []func(tx approval.Tx) error{tell, tell, tell}, 2},
		{"a request, which may be there", []func(tx approval.Tx) error{insert, tell, tell}, 3},
		{"a question after what was written", []func(tx approval.Tx) error{tell, ask, tell}, 3},
	} {
		before := counted.n.Load()
		update(test.fns...)
		if n := counted.n.Load() - before; n != test.want {
			t.Errorf("%s: %d round trips, want %d", test.name, n, test.want)
		}
	}
}

// What is read ahead comes in one round trip, is as it is once something was written, and writes nothing.
func TestReadAhead(t *testing.T) {
	counted := &trips{}
	m := join(t, Options{tracer: counted})
	ctx := t.Context()
	id := m.check(t, callOf(t, "bot", "send", `{"a":1}`), approval.AnswerPending).ID
	ahead := func(tx approval.Tx) {
		tx.Ahead(func() {
			_, _ = tx.Head(id)
			_, _ = tx.Card(id)
			_, _ = tx.BatchHeads(id)
			if _, err := tx.FirstSight("event"); !errors.Is(err, approval.ErrReadOnly) {
				t.Errorf("a write is answered with %v", err)
			}
		})
	}
	read := func(tx approval.Tx, want approval.Status) {
		t.Helper()
		h, err := tx.Head(id)
		_, none := tx.Card(id)
		if hs, unlisted := tx.BatchHeads(id); errors.Join(err, unlisted) != nil || h.Status != want || len(hs) > 0 ||
			!errors.Is(none, approval.ErrNotFound) {
			t.Errorf("%s, want %s; %v, %v", h.Status, want, err, none)
		}
	}
	for range 2 { // a connection learns each statement once
		counted.n.Store(0)
		if err := m.View(ctx, func(tx approval.Tx) error {
			ahead(tx)
			read(tx, approval.Pending)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n := counted.n.Load(); n != 1 {
		t.Errorf("%d round trips to look at three things, want 1", n)
	}
	for range 2 {
		counted.n.Store(0)
		if err := m.Update(ctx, approval.OfCallFor(approval.Key{Agent: "bot", Tool: "send"}, id),
			func(tx approval.Tx) error {
				_, err := tx.Request(id)
				return err
			}); err != nil {
			t.Fatal(err)
		}
	}
	if n := counted.n.Load(); n != 2 {
		t.Errorf("%d round trips for the call and the request that it is answered by, want 2", n)
	}
	if err := m.Update(ctx, approval.OfAgent("bot"), func(tx approval.Tx) error {
		ahead(tx)
		if _, err := tx.Resolve(approval.Resolution{ID: id, Status: approval.Denied, At: tx.Now(), By: "human:hana",
			Via: approval.ViaAPI}); err != nil {
			return err
		}
		read(tx, approval.Denied)
		ahead(tx)
		read(tx, approval.Denied)
		fresh, err := tx.FirstSight("event")
		if !fresh {
			t.Error("it was seen")
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// What was prefetched of a table is stale once that is written, however the statement is laid out.
func TestTheTableOfAStatementIsKnown(t *testing.T) {
	name, writes := regexp.MustCompile(`^[a-z_]+$`), 0
	for _, sql := range store.Queries() {
		if verb := strings.Fields(sql)[0]; verb == "SELECT" || verb == "WITH" {
			continue
		}
		writes++
		for _, sql := range []string{sql, orFail(sql)} {
			if table := tableOf(sql); !name.MatchString(table) {
				t.Errorf("%q is of the table %q", sql, table)
			}
		}
	}
	if writes < 50 {
		t.Errorf("%d statements write", writes)
	}
}
