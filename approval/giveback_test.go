package approval_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

// use has a call approved, and returns the answer that lets it through.
func (w *world) use(c approval.Call) approval.Answer {
	w.t.Helper()
	w.mustDecide(w.expect(c, approval.AnswerPending).Request.ID, true, hana, "")
	return w.expect(c, approval.AnswerApproved)
}

// giveBack reports whether the use of an approval was taken back.
func (w *world) giveBack(a approval.Answer) bool {
	w.t.Helper()
	r, ok, err := w.gate.GiveBack(w.ctx, a, "refused with HTTP 429")
	if err != nil {
		w.t.Fatal(err)
	}
	if ok != (r.Live() && r.Status == approval.Approved) && ok {
		w.t.Errorf("given back, and %+v", r)
	}
	return ok
}

// A call that provably did not run has not used its approval: it is used by the next one, once, with all on record.
func TestRule4_AnApprovalThatIsGivenBackIsUsedOnce(t *testing.T) {
	w := newWorld(t)
	a := w.use(sent)
	id := a.Request.ID
	w.clock.advance(time.Minute)
	if !w.giveBack(a) || w.giveBack(a) {
		t.Error("it is given back once for each use")
	}
	r := w.request(id)
	if !r.Live() || !r.DispatchedAt.IsZero() || r.Returned != 1 || !r.UseBy.Equal(a.Request.UseBy) || r.RunResult != "" {
		t.Errorf("given back: %+v", r)
	}
	if fed := w.feed(); len(fed) != 1 || fed[0].ID != id {
		t.Errorf("the agent's feed: %+v", fed)
	}
	var es []approval.Event
	if err := w.store.View(w.ctx, func(tx approval.Tx) (err error) {
		es, err = tx.Events(approval.EventQuery{Type: approval.EventApprovalReturned})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(es) != 1 || es[0].ApprovalID != id || es[0].Actor != "system:gateway" ||
		es[0].Reason != "refused with HTTP 429" ||
		!strings.Contains(string(es[0].Data), `"returned":1`) {
		t.Errorf("on record: %+v", es)
	}
	again := w.expect(sent, approval.AnswerApproved)
	if again.Request.ID != id {
		t.Errorf("the call was let through by %s", again.Request.ID)
	}
	if w.giveBack(a) {
		t.Error("the first use was taken back, while the second runs")
	}
	if err := w.report(id, approval.RunSucceeded); err != nil {
		t.Fatal(err)
	}
	if w.giveBack(again) {
		t.Error("what ran is given back")
	}
	w.expect(sent, approval.AnswerPending)
}

// What may have run, what is over and what was decided anew stays used.
func (w *world) cancels(id string, by approval.Actor) {
	w.t.Helper()
	if _, err := w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: id, By: by, Via: approval.ViaAPI}); err != nil {
		w.t.Error(err)
	}
}

func TestRule4_WhatStaysUsed(t *testing.T) {
	other := call(`{"amount_cents":1}`)
	other.Dispatch = true
	for name, f := range map[string]func(w *world, a approval.Answer) approval.Answer{
		"an answer of nobody": func(_ *world, a approval.Answer) approval.Answer {
			return approval.Answer{Kind: a.Kind, Request: a.Request, RunID: a.RunID}
		},
		"another approval's": func(w *world, a approval.Answer) approval.Answer {
			b := *a.Request
			w.use(other)
			b.ID = w.use(sent).Request.ID
			a.Request = &b
			return a
		},
		"its outcome is known": func(w *world, a approval.Answer) approval.Answer {
			_ = w.report(a.Request.ID, approval.RunFailed)
			return a
		},
		"nobody knows": func(w *world, a approval.Answer) approval.Answer { _, _ = w.gate.Orphaned(w.ctx, ""); return a },
		"the server was told": func(w *world, a approval.Answer) approval.Answer {
			_ = w.gate.AddInput(w.ctx, bot, a.Request.ID, approval.Input{Method: "m", Answer: "{}"})
			return a
		},
		"time is up": func(w *world, a approval.Answer) approval.Answer {
			w.clock.advance(a.Request.UseBy.Sub(start))
			return a
		},
		"asked for anew": func(w *world, a approval.Answer) approval.Answer {
			w.expect(sent, approval.AnswerPending)
			return a
		},
		"approved anew": func(w *world, a approval.Answer) approval.Answer {
			w.mustDecide(w.expect(sent, approval.AnswerPending).Request.ID, true, hana, "")
			return a
		},
		"used anew": func(w *world, a approval.Answer) approval.Answer { w.use(sent); return a },
		"denied since": func(w *world, a approval.Answer) approval.Answer {
			w.mustDecide(w.expect(sent, approval.AnswerPending).Request.ID, false, hana, "no")
			return a
		},
		"its approver would take it back": func(w *world, a approval.Answer) approval.Answer {
			_, err := w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: a.Request.ID, By: hana, Via: approval.ViaAPI})
			if approval.CodeOf(err) != approval.CodeAlreadyResolved {
				w.t.Errorf("told %v", err)
			}
			return a
		},
		"approved anew, and taken back": func(w *world, a approval.Answer) approval.Answer {
			id := w.expect(sent, approval.AnswerPending).Request.ID
			w.mustDecide(id, true, hana, "")
			w.cancels(id, hana)
			return a
		},
		"denied, asked anew and cancelled since": func(w *world, a approval.Answer) approval.Answer {
			w.mustDecide(w.expect(sent, approval.AnswerPending).Request.ID, false, hana, "no")
			w.clock.advance(11 * time.Minute) // the denial is not remembered any more
			w.cancels(w.expect(sent, approval.AnswerPending).Request.ID, bot)
			return a
		},
		"frozen": func(w *world, a approval.Answer) approval.Answer { w.freeze("bot", hana, "stop"); return a },
		"frozen for a while": func(w *world, a approval.Answer) approval.Answer {
			w.freeze("", hana, "stop")
			if _, err := w.gate.Unfreeze(w.ctx, "", root, approval.ViaAPI); err != nil {
				w.t.Fatal(err)
			}
			return a
		},
		"three times": func(w *world, a approval.Answer) approval.Answer {
			for range approval.MaxReturns {
				if !w.giveBack(a) {
					w.t.Error("it is given back three times")
				}
				a = w.expect(sent, approval.AnswerApproved)
			}
			return a
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.use(sent)
			if w.giveBack(f(w, a)) {
				t.Error("it was given back")
			}
			if r := w.request(a.Request.ID); r.ConsumedAt.IsZero() || r.Live() {
				t.Errorf("the approval is %+v", r)
			}
		})
	}
	w := newWorld(t)
	w.mustDecide(w.expect(transfer, approval.AnswerPending).Request.ID, true, hana, "")
	if w.giveBack(w.expect(transfer, approval.AnswerApproved)) {
		t.Error("a call that its agent runs itself was given back")
	}
}

// An agent cannot say that a call did not run: only the answer that let it through does, to who holds it.
func TestRule8_AnAgentsWordGivesNothingBack(t *testing.T) {
	w := newWorld(t)
	id := w.dispatch(sent)
	for _, ran := range []approval.RunResult{"returned", "not_run", ""} {
		wantCode(t, w.report(id, ran), approval.CodeInvalidParameter)
	}
	if err := w.report(id, approval.RunFailed); err != nil {
		t.Error(err)
	}
	if w.request(id).Live() {
		t.Error("a failed call has given its approval back")
	}
}

// What is given back is an approval like any other: it lapses at its time, can be taken back, and the policy in force
// is applied to it.
func TestRule4_WhatIsGivenBackCanEnd(t *testing.T) {
	w := newWorld(t)
	a := w.use(sent)
	w.giveBack(a)
	w.clock.advance(a.Request.UseBy.Sub(start))
	w.expect(sent, approval.AnswerPending)
	if r := w.request(a.Request.ID); r.LapsedAt.IsZero() {
		t.Errorf("it has not lapsed: %+v", r)
	}
	w = newWorld(t)
	a = w.use(sent)
	w.giveBack(a)
	if _, err := w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: a.Request.ID, By: hana,
		Via: approval.ViaAPI}); err != nil {
		t.Error(err)
	}
	w.expect(sent, approval.AnswerPending)
	w = newWorld(t)
	a = w.use(sent)
	w.giveBack(a)
	w.policy(func(approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		v.Action = approval.Deny
		return v
	})
	w.expect(sent, approval.AnswerDenied)
}

// The card of the next request tells of the last call that ran, and not of one that did not.
func TestRule4_TheNextCardTellsOfWhatRan(t *testing.T) {
	w := newWorld(t)
	first := w.use(sent)
	if err := w.report(first.Request.ID, approval.RunSucceeded); err != nil {
		t.Fatal(err)
	}
	second := w.use(sent)
	w.giveBack(second)
	w.clock.advance(second.Request.UseBy.Sub(start))
	r := w.expect(sent, approval.AnswerPending).Request
	if r.Previous == nil || r.Previous.RequestID != first.Request.ID || r.Previous.RunResult != approval.RunSucceeded {
		t.Errorf("its card tells of %+v", r.Previous)
	}
}

// Whatever races: of each use one call runs, and one that was given back is used by one.
func TestRule4_RaceForWhatIsGivenBack(t *testing.T) {
	for name, other := range map[string]func(w *world, id string){
		"callers": func(*world, string) {},
		"a cancel": func(w *world, id string) {
			_, _ = w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: id, By: hana, Via: approval.ViaAPI})
		},
		"a freeze": func(w *world, _ string) { _, _ = w.gate.Freeze(w.ctx, "bot", hana, approval.ViaAPI, "stop") },
		"its time": func(w *world, _ string) { w.clock.advance(terms.UseWithin); _, _ = w.gate.Expire(w.ctx) },
		"a denial": func(w *world, _ string) {
			if o, err := w.gate.Check(w.ctx, sent); err == nil && o.Kind == approval.AnswerPending {
				_, _ = w.decide(o.Request.ID, false, hana, "no")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.use(sent)
			var back, through atomic.Int32
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					if _, ok, err := w.gate.GiveBack(w.ctx, a, "not sent"); err != nil {
						t.Error(err)
					} else if ok {
						back.Add(1)
					}
				})
				wg.Go(func() {
					o, err := w.gate.Check(w.ctx, sent)
					if err != nil {
						t.Error(err)
					} else if o.Kind == approval.AnswerApproved {
						through.Add(1)
					}
				})
			}
			wg.Go(func() { other(w, a.Request.ID) })
			testkit.Wait(t, "all of them", wg.Wait)
			if back.Load() > 1 || through.Load() > back.Load() {
				t.Errorf("given back %d times and let %d calls through", back.Load(), through.Load())
			}
			live := 0
			rs, err := lists.ListRequests(w.ctx, w.gate, approval.RequestQuery{})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rs {
				if r.Live() {
					live++
				}
			}
			if live > 1 {
				t.Errorf("%d live requests of one key", live)
			}
		})
	}
}

// killedReturns names the store to the test's own process, which is killed.
const killedReturns = "COUNTERSIGN_KILLED_RETURN_STORE"

// After kill -9 a call is let through by what was given back before, and by nothing else.
func TestRule4_KilledWhileItIsGivenBack(t *testing.T) {
	w := &world{t: t, ctx: t.Context(), clock: &clock{now: start}, log: &testkit.Buffer{}}
	nth := func(n int) approval.Call {
		c := call(fmt.Sprintf(`{"amount_cents":%d}`, n))
		c.Dispatch = true
		return c
	}
	if path := os.Getenv(killedReturns); path != "" {
		w.open(path, rules{asks, terms})
		for n := 0; ; n++ {
			a := w.use(nth(n))
			fmt.Println("used", n)
			w.giveBack(a)
			fmt.Println("returned", n)
		}
	}
	path := schematest.NewFile(t)
	cmd := testkit.Command(t, os.Args[0], "-test.run=^TestRule4_KilledWhileItIsGivenBack$")
	cmd.Env = append(os.Environ(), killedReturns+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	used, returned := 0, 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch word, _, _ := strings.Cut(lines.Text(), " "); word {
		case "used":
			if used++; used == 20 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		case "returned":
			returned++
		}
	}
	if err := cmd.Wait(); err == nil || used < 20 {
		t.Fatalf("the child used %d and ended with %v", used, err)
	}
	w.open(path, rules{asks, terms})
	if _, err := w.gate.Orphaned(w.ctx, ""); err != nil {
		t.Fatal(err)
	}
	for n := range returned {
		w.expect(nth(n), approval.AnswerApproved)
		w.expect(nth(n), approval.AnswerPending)
	}
	if n := w.count("approval_returned"); n < returned {
		t.Errorf("%d on record, %d told", n, returned)
	}
}
