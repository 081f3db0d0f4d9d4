package approval_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/internal/chat"
	"countersign/internal/lists"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

// reopen is a restart of the gate.
func (w *world) reopen(path string) {
	w.t.Helper()
	if err := w.db.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open(path, rules{asks, terms})
}

// jumps sets the clock ahead, and has that stand until the store's time follows it.
func (w *world) jumps(by time.Duration) {
	w.clock.set(by)
	w.store.Now()
	w.clock.advance(5 * time.Minute)
	w.store.Now()
}

// The clock jumped ahead and was set right, an approval was given, and 23 hours later it was still good.
func TestRule6_AnApprovalLapsesAfterAJumpThatWasSetRight(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := &world{t: t, ctx: t.Context(), clock: &clock{now: start}, log: &testkit.Buffer{}}
		path := schematest.NewFile(t)
		w.open(path, rules{asks, terms})
		w.jumps(23 * time.Hour)
		w.expect(call(`{"n":1}`), approval.AnswerPending) // something is written meanwhile
		w.clock.set(-23 * time.Hour)
		id := w.expect(transfer, approval.AnswerPending).Request.ID
		w.mustDecide(id, true, hana, "")
		if restart {
			w.reopen(path)
		}
		w.clock.advance(15*time.Minute - time.Second)
		if r := w.request(id); !r.Live() || !r.UseBy.After(w.clock.Now()) {
			t.Errorf("restart %v: over after 15 minutes less a second: %+v", restart, r)
		}
		if restart {
			w.reopen(path)
		}
		w.clock.advance(11 * time.Second) // 15 minutes and a hundredth
		r := w.request(id)
		if r.Live() || r.LapsedAt.IsZero() {
			t.Fatalf("restart %v: still good after 15 minutes and 10 seconds: %+v", restart, r)
		}
		if want := "but not used within 15 minutes"; !strings.Contains(r.FeedMessage(), want) {
			t.Errorf("told %q, want %q", r.FeedMessage(), want)
		}
		w.clock.advance(23 * time.Hour)
		if out := w.expect(transfer, approval.AnswerPending); !out.Created {
			t.Errorf("restart %v: used 23 hours later: %+v", restart, out)
		}
	}
}

// What a platform says of the time is compared in the store's time.
func TestRule6_APressWhileTheStoreIsAheadCounts(t *testing.T) {
	w := newWorld(t)
	old := w.expect(call(`{"old":true}`), approval.AnswerPending).Request
	w.clock.advance(time.Minute)
	w.jumps(10 * time.Minute)
	w.expect(call(`{"n":1}`), approval.AnswerPending)
	w.clock.set(-10 * time.Minute)
	w.clock.advance(time.Minute)
	press := func(id string, at time.Time, approve bool) chat.InteractionResult {
		intent := chat.IntentDeny
		if approve {
			intent = chat.IntentApprove
		}
		return w.tap(chat.Interaction{By: hana, Intent: intent, RequestID: id, At: at})
	}
	r := w.expect(transfer, approval.AnswerPending).Request
	if off := r.RequestedAt.Sub(w.clock.Now()); off.Abs() > time.Second {
		t.Errorf("asked for at %v, told as %v", w.clock.Now(), r.RequestedAt)
	}
	if out := press(r.ID, r.RequestedAt.Add(-time.Second), true); !out.Ignored {
		t.Errorf("a press before the request counted: %+v", out)
	}
	w.clock.advance(5 * time.Minute) // it came late
	if out := press(r.ID, r.RequestedAt.Add(time.Second), true); len(out.Decided) != 1 {
		t.Errorf("a press after the request did not count: %+v", out)
	}
	// What was asked for before the jump was not shifted.
	if out := press(old.ID, start.Add(-time.Second), true); !out.Ignored {
		t.Errorf("a press before the old request counted: %+v", out)
	}
	if out := press(old.ID, start.Add(time.Second), false); len(out.Decided) != 1 {
		t.Errorf("a press after the old request did not count: %+v", out)
	}
	if got := w.request(old.ID); !got.RequestedAt.Equal(start) || got.ResolvedAt.Sub(w.clock.Now()).Abs() > time.Second {
		t.Errorf("now it is %v: told as asked for at %v and decided at %v", w.clock.Now(), got.RequestedAt, got.ResolvedAt)
	}
}

// Whoever asks what happened since some time asks by the clock they see.
func TestRule6_TheAuditLogIsToldByTheMachinesClock(t *testing.T) {
	w := newWorld(t)
	w.jumps(time.Hour)
	w.expect(call(`{"n":1}`), approval.AnswerPending)
	w.clock.set(-time.Hour)
	w.clock.advance(time.Minute)
	w.expect(transfer, approval.AnswerPending)
	now := w.clock.Now()
	es, err := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Since: now.Add(-10 * time.Second),
		Until: now.Add(10 * time.Second)})
	if err != nil || len(es) != 1 || es[0].At.Sub(now).Abs() > time.Second {
		t.Errorf("%+v, %v", es, err)
	}
}

// While it is not known whether a jump ahead is right, it ends nothing, and what would be over by it lets nothing
// through.
func TestRule6_AJumpThatIsTakenBackEndsNothing(t *testing.T) {
	w := grantWorld(t)
	waits := w.expect(call(`{"n":1}`), approval.AnswerPending).Request.ID
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.mustDecide(id, true, hana, "")
	w.granted(call(`{"n":2}`), approval.GrantWish{For: time.Hour})
	w.clock.set(400 * 24 * time.Hour)
	for _, c := range []approval.Call{transfer, call(`{"n":2}`)} {
		if _, err := w.gate.Check(w.ctx, c); approval.CodeOf(err) != approval.CodeStoreUnavailable ||
			!strings.Contains(err.Error(), "jumped ahead by 9600h0m0s") || !strings.Contains(err.Error(),
			"countersign clock accept") {
			t.Errorf("%s during the jump: %v", c.Tool, err)
		}
	}
	if r := w.request(waits); r.Status != approval.Pending {
		t.Errorf("waiting during the jump: %+v", r)
	}
	w.clock.advance(time.Minute)
	w.clock.set(-400 * 24 * time.Hour)
	w.expect(transfer, approval.AnswerApproved)
	w.expect(call(`{"n":2}`), approval.AnswerAllow)
	if r := w.request(waits); r.Status != approval.Pending || r.ExpiresAt.Sub(w.clock.Now()) > 24*time.Hour {
		t.Errorf("waiting after the jump: %+v", r)
	}
}

// What would last longer than the jump is used meanwhile.
func TestRule6_AShortJumpHoldsNothingUp(t *testing.T) {
	w := newWorld(t)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.mustDecide(id, true, hana, "")
	w.clock.set(10 * time.Minute)
	w.expect(transfer, approval.AnswerApproved)
}

// An admin who says that the clock is right ends what waits, what is approved and what was given for longer.
func TestRule6_AnAdminAcceptsTheClock(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		w := grantWorld(t)
		w.clock.advance(time.Minute)
		waits := w.expect(call(`{"n":1}`), approval.AnswerPending).Request.ID
		id := w.expect(transfer, approval.AnswerPending).Request.ID
		w.mustDecide(id, true, hana, "")
		g := w.granted(call(`{"n":2}`), approval.GrantWish{For: 24 * time.Hour})
		if _, err := w.gate.AcceptClock(w.ctx, hana, approval.ViaCLI); approval.CodeOf(err) != approval.CodeNotFound {
			t.Errorf("nothing to accept: %v", err)
		}
		w.clock.set(by)
		if _, err := w.gate.AcceptClock(w.ctx, ken, approval.ViaCLI); approval.CodeOf(err) != approval.CodeNotAdmin {
			t.Errorf("by an approver: %v", err)
		}
		if off, err := w.gate.AcceptClock(w.ctx, hana, approval.ViaCLI); err != nil || (off-by).Abs() > time.Second {
			t.Errorf("off by %v, %v", off, err)
		}
		if _, err := w.gate.AcceptClock(w.ctx, hana, approval.ViaCLI); approval.CodeOf(err) != approval.CodeNotFound {
			t.Errorf("accepted twice: %v", err)
		}
		if now := w.store.Now(); by > 0 && !now.Equal(w.clock.Now()) || by < 0 &&
			now.Before(w.clock.Now().Add(-by-time.Second)) {
			t.Errorf("%v: the store's time is %v, the clock's %v", by, now, w.clock.Now())
		}
		for _, id := range []string{waits, id} {
			if r := w.request(id); r.Live() || r.Status != approval.Cancelled || r.EndCode != approval.EndClock {
				t.Errorf("%v: %+v", by, r)
			}
		}
		w.ended(g.ID, approval.EndClock, "system:clock")
		for _, c := range []approval.Call{transfer, call(`{"n":2}`)} {
			if out := w.expect(c, approval.AnswerPending); !out.Created {
				t.Errorf("%v: %s goes on: %+v", by, c.Tool, out)
			}
		}
		if es := w.events(approval.EventClockAccepted); len(es) != 1 || es[0].Actor != "hana" ||
			!strings.Contains(string(es[0].Data), "off_ms") {
			t.Errorf("%v: %+v", by, es)
		}
	}
}

// Who waits is told at once that an admin has accepted the clock: no deadline comes then, and nobody else may meet what
// it has ended.
func TestRule6_WhoWaitsIsToldOfAClockThatIsAccepted(t *testing.T) {
	w := newWorld(t)
	w.clock.advance(time.Minute)
	ctx, stop := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	wg.Go(func() { w.gate.Run(ctx) })
	defer testkit.Wait(t, "the end of Run", wg.Wait)
	defer stop()
	id, done := w.wait(w.ctx, approval.WaitOptions{For: time.Minute})
	w.clock.set(-time.Hour)
	if _, err := w.gate.AcceptClock(w.ctx, hana, approval.ViaCLI); err != nil {
		t.Fatal(err)
	}
	got := testkit.Receive(t, "the answer of who waits for "+id, done)
	if got.err != nil || got.out.Kind != approval.AnswerCancelled || got.out.ReasonCode != approval.EndClock {
		t.Errorf("%+v, %v", got.out, got.err)
	}
}

// emptyStore is the file of a store with its tables and nothing in them: making those takes longest.
func emptyStore(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "empty.db")
	w := &world{t: t, ctx: t.Context(), clock: &clock{now: start}, log: &testkit.Buffer{}}
	w.open(path, rules{asks, terms})
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// No setting of the clock and no restart of the gate makes an approval last longer than use_within and a hundredth.
// (Of a restart of the machine only its clock tells how long it took.)
func TestRule6_NoClockMakesAnApprovalLast(t *testing.T) {
	empty := emptyStore(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: t, ctx: t.Context(), clock: &clock{now: start}, log: &testkit.Buffer{}}
		path := filepath.Join(t.TempDir(), rapid.StringMatching(`[a-z]{12}`).Draw(rt, "name")+".db")
		if err := os.WriteFile(path, empty, 0o600); err != nil {
			rt.Fatal(err)
		}
		w.open(path, rules{asks, terms})
		defer func() { w.db.Close() }()
		set := rapid.Custom(func(rt *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(-100*3600, 100*3600).Draw(rt, "s")) * time.Second
		})
		for range rapid.IntRange(0, 3).Draw(rt, "sets before") {
			w.clock.set(set.Draw(rt, "set"))
			w.store.Now()
			w.clock.advance(time.Duration(rapid.IntRange(1, 600).Draw(rt, "passes")) * time.Second)
		}
		id := w.check(transfer).Request.ID
		w.mustDecide(id, true, hana, "")
		for left := 15*time.Minute + 15*time.Minute/99 + time.Second; left > 0; {
			d := min(left, time.Duration(rapid.IntRange(1, 900).Draw(rt, "passes"))*time.Second)
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				w.clock.set(set.Draw(rt, "set"))
				w.clock.advance(d)
			case 1:
				if err := w.db.Close(); err != nil {
					rt.Fatal(err)
				}
				if rapid.Bool().Draw(rt, "while it does not run") {
					w.clock.set(set.Draw(rt, "set"))
				}
				w.clock.advance(d)
				w.open(path, rules{asks, terms})
			default:
				w.clock.advance(d)
			}
			left -= d
		}
		if out := w.check(transfer); out.Kind == approval.AnswerApproved {
			rt.Fatalf("used %v after 15 minutes and a hundredth: %s", w.clock.Elapsed(), out.Message)
		}
	})
}
