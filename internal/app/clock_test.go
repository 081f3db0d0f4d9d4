package app_test

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/emulator"
	"countersign/internal/testkit"
)

// machine is a machine whose clock is set, and on which more time passes than the test takes.
type machine struct {
	began       time.Time
	set, passed atomic.Int64
}

func (m *machine) now() time.Time {
	return time.Now().Add(time.Duration(m.set.Load() + m.passed.Load()))
}
func (m *machine) elapsed() time.Duration {
	return time.Since(m.began) + time.Duration(m.passed.Load())
}
func (m *machine) setBy(d time.Duration) { m.set.Add(int64(d)) }
func (m *machine) pass(d time.Duration)  { m.passed.Add(int64(d)) }

// onMachine starts the program anew on a machine.
func (w *world) onMachine() *machine {
	w.t.Helper()
	m := &machine{began: time.Now()}
	w.stop()
	w.now, w.elapsed = m.now, m.elapsed
	w.start()
	return m
}

func (w *world) clockAhead() float64 {
	w.t.Helper()
	found := regexp.MustCompile(`(?m)^countersign_store_clock_ahead_seconds (\S+)$`).FindStringSubmatch(w.get("/metrics"))
	if found == nil {
		w.t.Fatal("the metric is not there")
	}
	f, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

const behindStore = "behind the store's time"

// The clock jumped 23 hours ahead and was set right. An approval of 15 minutes, given then with a press in LINE, was
// used 23 hours later.
func TestRule6_AnApprovalIsNotUsedADayAfterAJumpThatWasSetRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.onMachine()
	if got := w.get("/readyz"); strings.Contains(got, behindStore) {
		t.Errorf("before: %s", got)
	}
	m.setBy(23 * time.Hour)
	if got := w.get("/readyz"); !strings.Contains(got, `"status":"ready"`) || !strings.Contains(got,
		"clock has jumped 23h0m0s ahead") ||
		!strings.Contains(got, "countersign clock accept") {
		t.Errorf("readiness after the jump: %s", got)
	}
	if off, err := w.hana.AcceptClock(w.ctx); err != nil || off < 22*time.Hour {
		t.Fatalf("accepted: %v, %v", off, err)
	}
	if got := w.get("/readyz"); strings.Contains(got, "jumped") {
		t.Errorf("readiness once it is accepted: %s", got)
	}
	w.expect(transfer(1100), client.AnswerPending)
	m.setBy(-23 * time.Hour)
	asked := w.expect(transfer(2200), client.AnswerPending)
	id := asked.ApprovalID
	w.lineCard(id, 1)
	if got := w.get("/readyz"); !strings.Contains(got, `"status":"ready"`) || !strings.Contains(got, behindStore) {
		t.Errorf("readiness while the store is ahead: %s", got)
	}
	if got := w.clockAhead(); got < (22*time.Hour).Seconds() || got > (23*time.Hour).Seconds() {
		t.Errorf("the metric says %v", got)
	}
	if !strings.Contains(w.log.String(), behindStore) {
		t.Error("the log says nothing")
	}
	near := func(what string, at client.Time) {
		t.Helper()
		if off := at.Sub(m.now()); off.Abs() > 12*time.Hour {
			t.Errorf("%s is told as %v at %v", what, at, m.now())
		}
	}
	near("the deadline", asked.ExpiresAt)
	w.tapLINE("hana", id, "approve") // LINE's time is the right one
	r := w.status(id)
	if r.Status != "approved" || r.ResolvedBy != "hana" {
		t.Fatalf("after the press: %+v", r)
	}
	near("the request", r.RequestedAt)
	near("the decision", r.ResolvedAt)
	near("its end", r.UseBy)

	w.stop() // a restart changes nothing
	w.start()
	if r := w.status(id); r.Status != "approved" || !r.LapsedAt.IsZero() {
		t.Fatalf("after a restart: %+v", r)
	}
	m.pass(15*time.Minute + 10*time.Second) // and a hundredth
	w.eventually("it lapses", func() bool { return !w.status(id).LapsedAt.IsZero() })
	m.pass(23 * time.Hour)
	if again := w.expect(transfer(2200), client.AnswerPending); again.ApprovalID == id {
		t.Error("the old request lives")
	}
	if off, err := w.hana.AcceptClock(w.ctx); err != nil || off > -20*time.Hour {
		t.Errorf("accepted: %v, %v", off, err)
	}
	if got := w.get("/readyz"); strings.Contains(got, behindStore) {
		t.Errorf("readiness once it is accepted: %s", got)
	}
	m.pass(100 * 24 * time.Hour)
	if got := w.get("/readyz"); strings.Contains(got, behindStore) || w.clockAhead() >= 1 {
		t.Errorf("100 days later: %v, %s", w.clockAhead(), got)
	}
}

// The time in which a press must be stored is measured by what passes, not by a clock that can be set: a press
// that waits too long is answered 503, kept nowhere, and counts when it comes again.
func TestRule7_HowLongAPressMayTakeIsNoClocksMatter(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		w := newWorld(t)
		var armed atomic.Bool
		hold, letGo := testkit.Latch()
		defer letGo()
		w.failpoint = func(name string) {
			if name == "before-begin" && armed.Load() {
				<-hold
			}
		}
		m := w.onMachine()
		id := w.expect(transfer(2200), client.AnswerPending).ApprovalID
		w.lineCard(id, 1)
		before := w.taps()
		armed.Store(true)
		held := make(chan emulator.Delivery, 1)
		go func() {
			d, _ := w.chat.LINE.Tap(w.ctx, "hana", "", "action=approve&id="+id)
			held <- d
		}()
		m.setBy(by) // while it waits
		d := testkit.Receive(t, "the delivery", held)
		armed.Store(false)
		letGo()
		if d.Status != http.StatusServiceUnavailable {
			t.Fatalf("set by %v: a press that could not be stored was answered %d", by, d.Status)
		}
		if r := w.status(id); r.Status != "pending" || w.taps() != before {
			t.Errorf("set by %v: something of it was kept: %+v", by, r)
		}
		if again, err := w.chat.Resend(w.ctx, d); err != nil || again.Status != 200 {
			t.Fatalf("set by %v: %v, %d", by, err, again.Status)
		}
		if r := w.status(id); r.Status != "approved" {
			t.Errorf("set by %v: the press that came again: %+v", by, r)
		}
		w.stop()
	}
}

// taps counts what the audit log has of presses.
func (w *world) taps() int {
	return len(w.audit("hitl_decision")) + len(w.audit("decision_refused")) + len(w.audit("webhook_refused"))
}
