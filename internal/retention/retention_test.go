package retention_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/approval"
	"countersign/internal/retention"
	"countersign/internal/store/sqlite"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * time.Hour

// world is a store in which a request is denied, acknowledged and told of each day.
type world struct {
	*sqlite.DB
	path  string
	t     *testing.T
	clock *testkit.Clock
	ids   []string // of the requests
	sent  []string // of what was sent about them
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, path: schematest.NewFile(t), clock: testkit.NewClock(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))}
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: w.path, Now: w.clock.Now,
		Elapsed: w.clock.Elapsed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	w.DB = db
	return w
}

func (w *world) update(fn func(tx approval.Tx) error) {
	w.t.Helper()
	if err := w.Update(w.t.Context(), approval.WholeStore(), fn); err != nil {
		w.t.Fatal(err)
	}
}

// deny makes so many denied requests, a day passes after each.
func (w *world) deny(n int, change func(*approval.Request)) {
	w.t.Helper()
	for range n {
		w.update(func(tx approval.Tx) error {
			now := tx.Now()
			r := approval.Request{ID: tx.NewID(), Agent: "bot", Tool: "pay", Args: []byte(`{"a":1}`),
				ArgsHash: fmt.Sprintf("%064d", len(w.ids)), Risk: approval.RiskHigh, ReasonCode: "approval_required",
				Status: approval.Denied, RequestedAt: now, ExpiresAt: now.Add(time.Hour), ResolvedAt: now, ResolvedBy: "hana",
				ResolvedVia: approval.ViaWeb, ResolvedSeq: int64(len(w.ids) + 1), AckedAt: now}
			if change != nil {
				change(&r)
			}
			sent := approval.Notification{ID: tx.NewID(), ApprovalID: r.ID, Channel: "line", Recipient: "U1",
				Kind: approval.KindRequest, Status: approval.Sent, CreatedAt: now, UpdatedAt: now, Body: []byte("a is 1")}
			w.ids, w.sent = append(w.ids, r.ID), append(w.sent, sent.ID)
			return errors.Join(tx.InsertRequest(r), tx.InsertNotification(sent))
		})
		w.clock.Advance(day)
	}
}

// left says of each request and what was sent what is left: "" it is gone, "-" it has lost what it said, "+" all.
func (w *world) left() (requests, sent string) {
	w.t.Helper()
	if err := w.View(w.t.Context(), func(tx approval.Tx) error {
		for i := range w.ids {
			r, err := tx.Request(w.ids[i])
			requests += mark(err, !r.ArgsRemovedAt.IsZero())
			n, err := tx.Notification(w.sent[i])
			sent += mark(err, n.Body == nil)
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return requests, sent
}

func mark(err error, emptied bool) string {
	switch {
	case err != nil:
		return "."
	case emptied:
		return "-"
	}
	return "+"
}

func (w *world) is(requests, sent string) {
	w.t.Helper()
	if r, s := w.left(); r != requests || s != sent {
		w.t.Errorf("left are %s and %s, want %s and %s", r, s, requests, sent)
	}
}

func TestWhatIsOldIsRemoved(t *testing.T) {
	w := newWorld(t)
	p := retention.New(w)
	prune := func(keep retention.Keep, want retention.Removed) {
		t.Helper()
		got, err := p.Prune(t.Context(), keep)
		if err != nil || got != want {
			t.Errorf("removed %+v, %v, want %+v", got, err, want)
		}
	}
	w.deny(6, nil)
	prune(retention.Keep{}, retention.Removed{})
	w.is("++++++", "++++++")
	keep := retention.Keep{Args: 2 * day, Notifications: 4 * day, Requests: 5 * day}
	prune(keep, retention.Removed{Args: 4, Notifications: 2, Requests: 1})
	w.is(".---++", "..--++")
	prune(keep, retention.Removed{})
	w.clock.Advance(day)
	prune(keep, retention.Removed{Args: 1, Notifications: 1, Requests: 1})
	w.is("..---+", "...--+")
	w.clock.Advance(10 * day)
	prune(keep, retention.Removed{Args: 1, Notifications: 3, Requests: 4})
	w.is("......", "......")
}

// What was in the way is looked at again, if not at once.
func TestWhatWasInTheWayGoesLater(t *testing.T) {
	w := newWorld(t)
	p := retention.New(w)
	w.deny(1, func(r *approval.Request) { r.AckedAt = time.Time{} })
	w.deny(1, nil)
	w.clock.Advance(10 * day)
	keep := retention.Keep{Requests: day}
	if _, err := p.Prune(t.Context(), keep); err != nil {
		t.Fatal(err)
	}
	w.is("+.", "+.")
	w.update(func(tx approval.Tx) error {
		_, err := tx.Ack("bot", w.ids[0])
		return err
	})
	runs := 0
	for ; runs < 30; runs++ {
		r, err := p.Prune(t.Context(), keep)
		if err != nil {
			t.Fatal(err)
		}
		if r.Requests > 0 {
			break
		}
	}
	w.is("..", "..")
	if runs >= 24 {
		t.Errorf("it went after %d runs", runs)
	}
}

// More than fits into one transaction goes in several, and a run that is cut off is gone on with.
func TestManyGoInSeveralTransactions(t *testing.T) {
	w := newWorld(t)
	const many = 1050
	for len(w.ids) < many {
		w.update(func(tx approval.Tx) error {
			now := tx.Now()
			for range 50 {
				r := approval.Request{ID: tx.NewID(), Agent: "bot", Tool: "pay", Args: []byte(`{}`),
					ArgsHash: fmt.Sprintf("%064d", len(w.ids)), Risk: approval.RiskHigh, ReasonCode: "approval_required",
					Status: approval.Denied, RequestedAt: now, ExpiresAt: now, ResolvedAt: now, ResolvedBy: "hana",
					ResolvedVia: approval.ViaWeb, ResolvedSeq: 1, AckedAt: now}
				w.ids = append(w.ids, r.ID)
				if err := tx.InsertRequest(r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	w.clock.Advance(10 * day)
	ctx, cancel := context.WithCancel(t.Context())
	commits := 0
	p := retention.New(counted{w.DB, func() {
		if commits++; commits == 3 {
			cancel()
		}
	}})
	first, err := p.Prune(ctx, retention.Keep{Requests: day})
	if !errors.Is(err, context.Canceled) || first.Requests != 3*20 {
		t.Errorf("removed %+v, %v", first, err)
	}
	rest, err := p.Prune(t.Context(), retention.Keep{Requests: day})
	if err != nil || first.Requests+rest.Requests != many {
		t.Errorf("removed %+v and %+v, %v", first, rest, err)
	}
}

// What the store has free in the end it gives back to the disk, while others write.
func TestTheFileShrinksAfterARun(t *testing.T) {
	w := newWorld(t)
	args := []byte(`{"text":"` + strings.Repeat("x", 8000) + `"}`)
	w.deny(1500, func(r *approval.Request) { r.Args = args })
	w.clock.Advance(10 * day)
	size := func() int64 {
		info, err := os.Stat(w.path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	stop, letGo := testkit.Latch()
	defer letGo()
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := w.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
				_, err := tx.Append(approval.Event{Type: approval.EventCallAllowed, Agent: "bot", Tool: "read"})
				return err
			}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	r, err := retention.New(w).Prune(t.Context(), retention.Keep{Requests: day})
	if err != nil || r.Requests != 1500 {
		t.Errorf("removed %+v, %v", r, err)
	}
	testkit.Eventually(t, "the file is smaller while the store is written to", func() bool { return size() < before*2/3 })
	letGo()
	testkit.Wait(t, "the writer", writer.Wait)
}

// A row that cannot be removed is named, and keeps no other; the store that does not work ends the run.
func TestWhatCannotBeRemovedKeepsNothingElse(t *testing.T) {
	w := newWorld(t)
	w.deny(45, nil)
	w.clock.Advance(10 * day)
	broken := errors.New("broken")
	p := retention.New(failing{w.DB, w.ids[21], broken})
	r, err := p.Prune(t.Context(), retention.Keep{Requests: day, Notifications: day})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "request "+w.ids[21]+": broken") ||
		r != (retention.Removed{Requests: 44, Notifications: 45}) {
		t.Errorf("removed %+v, %v", r, err)
	}
	w = newWorld(t)
	w.deny(45, nil)
	w.clock.Advance(10 * day)
	p = retention.New(failing{w.DB, w.ids[21], approval.Errorf(approval.CodeStoreUnavailable, "full")})
	r, err = p.Prune(t.Context(), retention.Keep{Requests: day})
	if approval.CodeOf(err) != approval.CodeStoreUnavailable || r.Requests != 20 {
		t.Errorf("removed %+v, %v", r, err)
	}
	w.is(strings.Repeat(".", 20)+strings.Repeat("+", 25), strings.Repeat(".", 20)+strings.Repeat("+", 25))
}

// failing is a store that cannot remove a request.
type failing struct {
	retention.Store
	id  string
	err error
}

func (f failing) Update(ctx context.Context, about approval.Scope, fn func(tx approval.Tx) error) error {
	return f.Store.Update(ctx, about, func(tx approval.Tx) error { return fn(failingTx{tx, f}) })
}

type failingTx struct {
	approval.Tx
	f failing
}

func (t failingTx) RemoveRequest(id string) (bool, error) {
	if id == t.f.id {
		return false, t.f.err
	}
	return t.Tx.RemoveRequest(id)
}

// counted tells of each update.
type counted struct {
	retention.Store
	then func()
}

func (c counted) Update(ctx context.Context, about approval.Scope, fn func(tx approval.Tx) error) error {
	defer c.then()
	return c.Store.Update(ctx, about, fn)
}

// What will be old enough tomorrow is counted, and nothing of it removed.
func TestWhatIsDueWithinADayIsCounted(t *testing.T) {
	w := newWorld(t)
	p := retention.New(w)
	if p.Due() != nil {
		t.Errorf("before any run: %+v", p.Due())
	}
	w.deny(6, nil) // the oldest is six days old, the newest one
	keep := retention.Keep{Args: 3*day + 12*time.Hour, Notifications: 4*day + 12*time.Hour, Requests: 5*day + 12*time.Hour}
	went := retention.Removed{Args: 3, Notifications: 2, Requests: 1}
	if r, err := p.Prune(t.Context(), keep); err != nil || r != went {
		t.Fatalf("%+v, %v", r, err)
	}
	if due := p.Due(); due == nil || *due != (retention.Removed{Args: 1, Notifications: 1, Requests: 1}) {
		t.Errorf("due are %+v", due)
	}
	_, err := p.Prune(t.Context(), retention.Keep{Requests: 100 * day})
	if err != nil || *p.Due() != (retention.Removed{}) {
		t.Errorf("due are %+v, %v", p.Due(), err)
	}
}
