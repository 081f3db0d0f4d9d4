package approval_test

import (
	"slices"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/chat"
)

func (w *world) batch(calls ...approval.Call) []string {
	w.t.Helper()
	outs, err := w.gate.CheckBatch(w.ctx, calls)
	if err != nil {
		w.t.Fatal(err)
	}
	var ids []string
	for _, o := range outs {
		ids = append(ids, o.Request.ID)
	}
	return ids
}

func TestABatchThatFillsACardLosesNothing(t *testing.T) {
	w := grouped(t, approval.Asks{})
	var first []approval.Call
	for i := range approval.MaxCard - 1 {
		first = append(first, inTurn("a", i))
	}
	w.batch(first...)
	ids := w.batch(inTurn("a", 100), inTurn("a", 101))
	for _, id := range ids {
		if !slices.Contains(w.card(id).Upto(0, 1), id) {
			t.Errorf("%s is on no card", id)
		}
	}
}

func TestABatchOfSeveralSessionsIsOneCard(t *testing.T) {
	w := grouped(t, approval.Asks{Group: approval.GroupCall})
	a, b := inTurn("a", 1), inTurn("b", 2)
	b.SessionID = "other"
	ids := w.batch(a, b)
	if got := w.card(ids[0]).Upto(0, 1); !slices.Equal(got, ids) {
		t.Errorf("the card has %v, want %v", got, ids)
	}
	w.wantShown(w.send(), "line request 0-1", "slack request 0-1")
}

// begin begins to send what is due.
func (w *world) begin() []approval.Notification {
	w.t.Helper()
	ds, _, err := w.ready(100)
	if err != nil {
		w.t.Fatal(err)
	}
	var tries []outbox.Attempt
	for _, d := range ds {
		tries = append(tries, outbox.Attempt{Notification: d.Notification, Body: []byte("card"), Seen: d.Seen(),
			Lease: time.Minute})
	}
	begun, err := outboxtest.Begin(w.ctx, w.outbox, tries...)
	if err != nil {
		w.t.Fatal(err)
	}
	return begun
}

// lasting quarantines for an hour, and what is called short for ten minutes.
func lasting(c approval.Call) approval.Verdict {
	v := quarantine(approval.RiskHigh)
	if c.Tool == "short" {
		v.Timeout = 10 * time.Minute
	}
	return v
}

// sentBefore are the requests of which a card was sent before d was over.
func (w *world) sentBefore(d time.Duration) (ids []string) {
	w.t.Helper()
	for range int(d / time.Minute) {
		ds, _, err := w.ready(100)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, d := range ds {
			for _, r := range d.Requests {
				ids = append(ids, r.ID)
			}
		}
		w.send()
		w.clock.advance(time.Minute)
	}
	return ids
}

func TestWhatJoinsACardThatWaitsIsShownBeforeItExpires(t *testing.T) {
	onlyLine := func(r *outboxtest.Routing) {
		r.Cards = []approval.Route{{{Channel: "line", To: "U1"}}}
	}
	quiet := func(r *outboxtest.Routing) {
		onlyLine(r)
		r.Hours = func(_ approval.Address, at time.Time) time.Time {
			if morning := start.Add(30 * time.Minute); at.Before(morning) {
				return morning
			}
			return time.Time{}
		}
	}
	t.Run("for the end of quiet hours", func(t *testing.T) {
		w := grouped(t, approval.Asks{}, quiet)
		w.policy2(lasting)
		w.asked(inTurn("a", 1))
		id := w.asked(inTurn("a", 2, "short"))[0]
		if !slices.Contains(w.sentBefore(10*time.Minute), id) {
			t.Error("it expires before anybody sees it")
		}
	})
	t.Run("for earlier cards", func(t *testing.T) {
		w := grouped(t, approval.Asks{CardsAtOnce: 1}, onlyLine)
		w.policy2(lasting)
		w.asked(inTurn("a", 1), inTurn("b", 2))
		id := w.asked(inTurn("b", 3, "short"))[0]
		if !slices.Contains(w.sentBefore(10*time.Minute), id) {
			t.Error("it expires before anybody sees it")
		}
	})
	t.Run("for earlier cards, in one batch", func(t *testing.T) {
		w := grouped(t, approval.Asks{CardsAtOnce: 1}, onlyLine)
		w.policy2(lasting)
		w.asked(inTurn("a", 1))
		id := w.batch(inTurn("b", 2), inTurn("b", 3, "short"))[1]
		if !slices.Contains(w.sentBefore(10*time.Minute), id) {
			t.Error("it expires before anybody sees it")
		}
	})
}

func TestACardThatComesUpInQuietHoursIsShownBeforeItExpires(t *testing.T) {
	w := grouped(t, approval.Asks{CardsAtOnce: 1}, func(r *outboxtest.Routing) {
		r.Cards = []approval.Route{{{Channel: "line", To: "U1"}}}
		r.Hours = func(_ approval.Address, at time.Time) time.Time {
			if morning := start.Add(30 * time.Minute); at.Before(morning) {
				return morning
			}
			return time.Time{}
		}
	})
	w.policy2(lasting)
	first := w.asked(inTurn("a", 1))[0]
	w.batch(inTurn("b", 2), inTurn("b", 3, "short"))
	w.mustDecide(first, true, hana, "")
	w.clock.advance(time.Second)
	if ns := w.send(); len(ns) != 1 || !ns[0].Silent {
		t.Errorf("came up: %q", shown(ns))
	}
}

// escalates knows how the team, which is hana, and the leads, who are ken, are reached.
type escalates struct{ outboxtest.Routing }

var (
	teamRoute  = approval.Route{{Channel: "line", To: "U1"}}
	adminRoute = approval.Route{{Channel: "line", To: "U3"}}
	leadsRoute = approval.Route{{Channel: "line", To: "U2"}}
)

func (e escalates) Routes(to approval.Audience) []approval.Route { return e.RoutesOf(to.People) }

func (escalates) RoutesOf(people []approval.Actor) (routes []approval.Route) {
	for _, p := range people {
		routes = append(routes, map[string]approval.Route{"hana": teamRoute, "ken": leadsRoute}[p.Name])
	}
	return routes
}

// escalating is a world whose requests come to the team and, after 50 minutes, to the leads too; to these alone where
// the tool is called leads.
func escalating(t *testing.T) *world {
	t.Helper()
	w := grouped(t, approval.Asks{})
	w.outbox = outbox.New(outbox.Options{Store: w.store, Audit: approval.NewAuditLog(nil),
		Routing: escalates{outboxtest.Routing{AdminRoutes: []approval.Route{adminRoute}}}, Logger: w.logger()})
	w.gate = approval.NewGate(approval.Options{Store: w.store, Broker: approval.NewBroker(), Now: w.clock.Now,
		Logger: w.logger(),
		Policy: rules{func(c approval.Call) approval.Verdict {
			v := quarantine(approval.RiskHigh)
			v.Need = &approval.Need{Stages: []approval.Stage{{Approvers: []string{"ken"}, Count: 1}}}
			if c.Tool != "leads" {
				v.Need.Stages[0].Approvers = []string{"hana"}
				v.Need.Escalate = []approval.Escalation{{After: 50 * time.Minute, To: []string{"ken"}}}
			}
			return v
		}, turnTerms}, Notifier: w.outbox,
		Directory: names{people: everybody, all: func() []approval.Actor { return []approval.Actor{hana, ken} }}})
	return w
}

func TestWhatJoinsComesAtOnceToWhomOthersComeLater(t *testing.T) {
	w := escalating(t)
	w.asked(inTurn("a", 1))
	w.clock.advance(time.Second)
	w.send()
	w.asked(inTurn("a", 2, "leads"))
	w.clock.advance(2 * time.Minute)
	if ns := w.send(); !slices.ContainsFunc(ns, func(n approval.Notification) bool { return n.Recipient == "U2" }) {
		t.Errorf("the leads are not asked: %q", shown(ns))
	}
}

// Who is asked about the rest of a card need not be who is asked about this.
func TestWhatNobodyWhoIsAskedReceivesComesToAdmins(t *testing.T) {
	for name, ask := range map[string]func(w *world){
		"joined": func(w *world) {
			w.asked(inTurn("a", 1))
			w.clock.advance(time.Second)
			w.send()
			w.asked(inTurn("a", 2, "leads"))
		},
		"in one batch": func(w *world) { w.batch(inTurn("a", 1), inTurn("a", 2, "leads")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := escalating(t)
			_, err := approval.Update(w.ctx, w.store, approval.WholeStore(), func(tx approval.Tx) (bool, error) {
				return tx.SetDead(leadsRoute[0], true, tx.Now())
			})
			if err != nil {
				t.Fatal(err)
			}
			ask(w)
			w.clock.advance(2 * time.Minute)
			if ns := w.send(); !slices.ContainsFunc(ns, func(n approval.Notification) bool { return n.Recipient == "U3" }) {
				t.Errorf("no admin hears of it: %q", shown(ns))
			}
		})
	}
}

func TestACardThatFailsGoesOnForEveryRequestThatItShows(t *testing.T) {
	for name, fail := range map[string]func(w *world, n approval.Notification) error{
		"failed": func(w *world, n approval.Notification) error {
			return w.outbox.NotSent(w.ctx, n, outbox.Failure{Final: true, Reason: "bad_request"})
		},
		"blocked": func(w *world, n approval.Notification) error {
			return w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
				_, err := w.outbox.MarkUnreachable(w.ctx, tx, hana, n.Address(), tx.Now())
				return err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := escalating(t)
			w.batch(inTurn("a", 1), inTurn("a", 2, "leads"))
			w.clock.advance(time.Second)
			for _, n := range w.begin() {
				if n.Recipient != "U2" {
					continue
				}
				if err := fail(w, n); err != nil {
					t.Fatal(err)
				}
			}
			if ns := w.notifications(approval.NotificationQuery{Recipient: "U3"}); len(ns) != 1 {
				t.Errorf("%d cards for an admin", len(ns))
			}
		})
	}
}

func TestEscalationToComeHoldsNoReminder(t *testing.T) {
	w := escalating(t)
	w.asked(inTurn("a", 1))
	w.clock.advance(time.Second)
	w.send()
	w.clock.advance(15 * time.Minute)
	if n, err := w.outbox.Remind(w.ctx, 15*time.Minute, 3); err != nil || n != 1 {
		t.Errorf("reminded of %d, %v", n, err)
	}
}

func TestApproveAllCoversNothingThatNobodyWasShown(t *testing.T) {
	w, ids, card := together(t, byTool)
	w.tap(all(chat.IntentApprove, card, chat.MaxVersion, 0))
	if got, want := w.statuses(ids), "approved approved pending"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What was drawn before an attempt was taken back does not go out as if it showed what has joined since.
func TestRule6_ADrawingFromBeforeAnAttemptTakenBackIsNotSent(t *testing.T) {
	w := grouped(t, approval.Asks{})
	w.batch(inTurn("a", 1), inTurn("a", 2))
	w.clock.advance(time.Minute / 2)
	ns, _, err := w.outbox.Ready(w.ctx, nil, 100)
	if err != nil || len(ns) == 0 {
		t.Fatal(ns, err)
	}
	var old []outbox.Attempt
	for _, n := range ns {
		d, err := w.outbox.Load(w.ctx, n.ID)
		if err != nil {
			t.Fatal(err)
		}
		old = append(old, outbox.Attempt{Notification: d.Notification, Body: []byte("two"), Seen: d.Seen(),
			Lease: time.Minute})
	}
	begun, err := outboxtest.Begin(w.ctx, w.outbox, old...)
	if err != nil || len(begun) != len(old) {
		t.Fatal(begun, err)
	}
	w.asked(inTurn("a", 3))
	for _, n := range begun {
		if err := w.outbox.NotSent(w.ctx, n, outbox.Failure{Reason: "paused", RetryAt: w.store.Now(),
			Unbegun: true}); err != nil {
			t.Fatal(err)
		}
	}
	if begun, err = outboxtest.Begin(w.ctx, w.outbox, old...); err != nil || len(begun) > 0 {
		t.Errorf("%d were begun as they were drawn before the third joined, %v", len(begun), err)
	}
}
