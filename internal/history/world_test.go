package history_test

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/approval"
	"countersign/internal/store/sqlite"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var begin = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// record is a store that is filled by hand.
type record struct {
	*sqlite.DB
	t     testing.TB
	clock *testkit.Clock
}

func newRecord(t testing.TB) *record {
	t.Helper()
	r := &record{t: t, clock: testkit.NewClock(begin)}
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: schematest.NewFile(t), Now: r.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	r.DB = db
	return r
}

func (r *record) update(fn func(tx approval.Tx) error) {
	r.t.Helper()
	if err := r.Update(r.t.Context(), approval.WholeStore(), fn); err != nil {
		r.t.Fatal(err)
	}
}

var asked int

// request stores a pending request, changed by change.
func request(tx approval.Tx, change func(*approval.Request)) (approval.Request, error) {
	asked++
	now := tx.Now()
	r := approval.Request{ID: tx.NewID(), Agent: "bot", Tool: "pay", Args: []byte(`{}`), ArgsHash: fmt.Sprintf("%064x",
		asked),
		Risk: approval.RiskMedium, Rule: "paying", ReasonCode: "approval_required", HumanMessage: "Please look.",
		Status: approval.Pending, RequestedAt: now, ExpiresAt: now.Add(time.Hour)}
	if change != nil {
		change(&r)
	}
	return r, tx.InsertRequest(r)
}

func (r *record) ask(change func(*approval.Request)) (asked approval.Request) {
	r.t.Helper()
	r.update(func(tx approval.Tx) (err error) {
		asked, err = request(tx, change)
		return err
	})
	return asked
}

// ends ends requests in one transaction, as one press does.
func (r *record) ends(status approval.Status, by string, rs ...approval.Request) {
	r.t.Helper()
	r.update(func(tx approval.Tx) error {
		for _, q := range rs {
			e := approval.Resolution{ID: q.ID, Status: status, At: tx.Now(), By: by, Via: approval.ViaWeb}
			switch {
			case status == approval.Approved:
				e.UseBy = tx.Now().Add(time.Hour)
			case by == "system:timeout":
				e.Via = approval.ViaSystem
			}
			if ok, err := tx.Resolve(e); err != nil || !ok {
				return fmt.Errorf("%s of %s: %v, %w", status, q.ID, ok, err)
			}
		}
		return nil
	})
}

// push stores a notification that went out.
func push(tx approval.Tx, of approval.Request, kind approval.NotificationKind, to string) error {
	return tx.InsertNotification(approval.Notification{ID: tx.NewID(), ApprovalID: of.ID, BatchID: of.BatchID,
		Channel:   "line",
		Recipient: to, Kind: kind, Status: approval.Sent, CreatedAt: tx.Now(), UpdatedAt: tx.Now(), SentAt: tx.Now()})
}

func (r *record) push(of approval.Request, kind approval.NotificationKind, to string) {
	r.t.Helper()
	r.update(func(tx approval.Tx) error { return push(tx, of, kind, to) })
}
