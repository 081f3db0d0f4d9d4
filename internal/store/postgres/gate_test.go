//go:build postgres

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/channels"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/budget"
	"countersign/internal/chat"
	"countersign/internal/locale/phrases"
	"countersign/internal/store/sqlite"
	"countersign/schema/schematest"
)

var hana = approval.Actor{Kind: approval.Human, Name: "hana", Approver: true, Admin: true}

// rules is a policy: a tool called pay asks two people, and all others one.
type rules struct{ maxPending int }

func (rules) Evaluate(_ context.Context, c approval.Call) approval.Verdict {
	v := approval.Verdict{Action: approval.Quarantine, Risk: approval.RiskMedium, Rule: "asks", RuleDigest: "asks-1",
		ReasonCode: "approval_required", Message: "A person must confirm this.", Timeout: time.Hour,
		Grants: &approval.GrantTerms{}}
	if c.Tool == "pay" {
		v.Need = &approval.Need{Stages: []approval.Stage{{Count: 2}}}
	}
	return v
}
func (rules) Digest() string                 { return "" }
func (rules) Source() string                 { return "" }
func (rules) RuleDigests() map[string]string { return map[string]string{"asks": "asks-1"} }
func (r rules) Terms() approval.Terms {
	return approval.Terms{UseWithin: 15 * time.Minute, RememberDenial: 10 * time.Minute, MaxPending: r.maxPending}
}

// gateOn returns a gate over a store, whose cards go to one address that can be edited.
func gateOn(s approval.Store) (*approval.Gate, *outbox.Outbox) { return boundedGateOn(s, nil, 3) }

// boundedGateOn is gateOn with budgets, and so many requests of an agent that may be pending.
func boundedGateOn(s approval.Store, bounds approval.Budgets, maxPending int) (*approval.Gate, *outbox.Outbox) {
	audit := approval.NewAuditLog(nil)
	to := outboxtest.To("slack", "C1")
	to.Edits = []string{"slack"}
	o := outbox.New(outbox.Options{Store: s, Audit: audit, Routing: to, Budgets: bounds})
	return approval.NewGate(approval.Options{Store: s, Broker: approval.NewBroker(), Policy: rules{maxPending},
		Audit: audit, Notifier: o, Budgets: bounds}), o
}

func callOf(t testing.TB, agent, tool, json string) approval.Call {
	t.Helper()
	a, err := args.Parse([]byte(json))
	if err != nil {
		t.Fatal(err)
	}
	return approval.Call{Agent: agent, Server: "bank", Tool: tool, Args: a, ToolDigest: strings.Repeat("a", 64),
		ToolSeen: true}
}

// hanas is a directory in which hana is told of everything.
type hanas struct{}

func (hanas) Person(name string) (approval.Actor, bool) { return hana, name == hana.Name }
func (hanas) HasAgent(string) bool                      { return true }
func (hanas) People() []approval.Actor                  { return []approval.Actor{hana} }
func (hanas) Notified() []string                        { return []string{hana.Name} }
func (hanas) Owner(string) string                       { return "" }
func (hanas) Asks(string) approval.Asks                 { return approval.Asks{} }
func (hanas) AtKeyboard(string) (approval.Actor, bool)  { return approval.Actor{}, false }

// english says all in English, and knows nobody.
type english struct{}

func (english) Say(_ approval.Actor, p phrases.Phrase, of ...any) string { return p.Say(of...) }
func (english) NameOf(approval.Address) string                           { return "" }
func (english) Agents() []string                                         { return nil }
func (english) RouteOf(string) approval.Route                            { return nil }
func (english) Status(approval.Actor) []string                           { return nil }

// What agents and people wait for takes two or three round trips, whatever is looked at for it.
func TestRoundTripsOfTheGate(t *testing.T) {
	counted := &trips{}
	d := open(t, Options{tracer: counted})
	to := outboxtest.To("slack", "C1")
	to.Edits, to.Cards = []string{"slack"}, append(to.Cards, approval.Route{{Channel: "slack", To: "C2"}})
	audit, budgets := approval.NewAuditLog(nil), budgetsOn(d, budget.DefaultAgent)
	o := outbox.New(outbox.Options{Store: d, Audit: audit, Routing: to, Budgets: budgets})
	g := approval.NewGate(approval.Options{Store: d, Broker: approval.NewBroker(), Policy: rules{3}, Audit: audit,
		Notifier: o, Budgets: budgets, Directory: hanas{}})
	ctx, c := t.Context(), callOf(t, "bot", "send", `{"a":1}`)
	c.Dispatch = true
	var out approval.Answer
	check := func(want approval.AnswerKind) func() error {
		return func() (err error) {
			if out, err = g.Check(ctx, c); err == nil && out.Kind != want {
				err = fmt.Errorf("%s", out.Kind)
			}
			return err
		}
	}
	decide := func(approve bool) func() error {
		return func() error {
			d := approval.Decision{RequestID: out.Request.ID, Approve: approve, By: hana, Via: approval.ViaAPI}
			_, err := g.Decide(ctx, d)
			return err
		}
	}
	pressing, pressed := chat.New(chat.Options{Store: d, Gate: g, Audit: audit, Outbox: o, Readers: english{}}), 0
	press := func() error {
		pressed++
		res, err := pressing.Interact(ctx, chat.Interaction{EventID: fmt.Sprint("press ", pressed), Channel: "slack",
			By: hana, From: "C1", Intent: chat.IntentApprove, RequestID: out.Request.ID})
		if err == nil && len(res.Decided) != 1 {
			err = errors.New(res.Text)
		}
		return err
	}
	look := func() error {
		_, err := g.Request(ctx, hana, out.Request.ID)
		return err
	}
	var sending []channels.Delivery
	load := func() error {
		ns, err := o.Notifications(ctx, approval.NotificationQuery{ApprovalID: out.Request.ID})
		if err != nil {
			return err
		}
		counted.n.Store(0)
		sending = nil
		for _, n := range ns {
			_, whole, _, err := o.LoadReady(ctx, n.ID)
			if err != nil {
				return err
			}
			sending = append(sending, *whole)
		}
		return nil
	}
	begin := func() error {
		for i, d := range sending {
			n, begun, err := o.Begin(ctx, outbox.Attempt{Notification: d.Notification, Body: []byte("{}"),
				Lease: time.Minute})
			if err != nil || !begun {
				return fmt.Errorf("begun: %v, %w", begun, err)
			}
			sending[i].Notification = n
		}
		return nil
	}
	sent := func() (err error) {
		for _, d := range sending {
			err = errors.Join(err, o.Sent(ctx, d.Notification, channels.Receipt{MessageID: "m1"}))
		}
		return err
	}
	report := func() error {
		_, err := g.Report(ctx, approval.Actor{Kind: approval.Agent, Name: "bot"}, out.Request.ID, approval.RunSucceeded)
		return err
	}
	for round := range 2 { // a connection learns each statement once, and a tool is seen once
		for _, step := range []struct {
			name string
			do   func() error
			most int32
		}{
			{"a call that is asked about", check(approval.AnswerPending), 3},
			{"the same once more", check(approval.AnswerPending), 2},
			{"an approval before the cards were sent", decide(true), 3},
			{"the use of it", check(approval.AnswerApproved), 2},
			{"one more", check(approval.AnswerPending), 4},
			{"its two cards are read", load, 2 * 3},
			{"their sending begins", begin, 2 * 3},
			{"they were sent", sent, 2 * 2},
			{"a press", press, 4},
			{"the use of what was pressed", check(approval.AnswerApproved), 2},
			{"what came of it", report, 3},
			{"a call that was let through before", check(approval.AnswerPending), 3},
			{"its two cards are read", load, 2 * 3},
			{"their sending begins", begin, 2 * 3},
			{"they were sent", sent, 2 * 2},
			{"a denial of which the card tells", decide(false), 3},
			{"a call that was denied", check(approval.AnswerDenied), 3},
			{"how it stands", look, 2},
			{"a call that two are asked about", func() error {
				c.Tool = "pay"
				return check(approval.AnswerPending)()
			}, 3},
			{"the first one's vote", decide(true), 3},
		} {
			counted.n.Store(0)
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if n := counted.n.Load(); round > 0 && n > step.most {
				t.Errorf("%s: %d round trips, want at most %d", step.name, n, step.most)
			}
		}
		c = callOf(t, "bot", "send", `{"a":2}`)
		c.Dispatch = true
	}
}

// What was expected to change a row and did not, since somebody wrote behind the locks, is told to the function: it
// runs again, and nothing of its first run stays.
func TestWhatIsExpectedIsSeenTo(t *testing.T) {
	for _, fails := range []bool{false, true} {
		d := open(t, Options{})
		g, _ := gateOn(d)
		ctx, c := t.Context(), callOf(t, "bot", "send", `{"a":1}`)
		out, err := g.Check(ctx, c)
		if err == nil {
			_, err = g.Decide(ctx, approval.Decision{RequestID: out.Request.ID, Approve: true, By: hana, Via: approval.ViaAPI})
		}
		if err != nil {
			t.Fatal(err)
		}
		own := errors.New("own")
		var told []bool
		err = d.Update(ctx, approval.OfID(out.Request.ID), func(tx approval.Tx) error {
			r, err := tx.Request(out.Request.ID)
			if err != nil {
				return err
			}
			if len(told) == 0 {
				if _, err := d.pool.Exec(ctx, `UPDATE approval_requests SET consumed_at = requested_at, acked_at = requested_at
  WHERE id = $1`, r.ID); err != nil {
					return err
				}
			}
			ok, err := tx.Consume(r.ID, false, "")
			if told = append(told, ok); err != nil {
				return err
			}
			if _, err := tx.Append(approval.Event{Type: approval.EventApprovalConsumed, Agent: "bot"}); err != nil {
				return err
			}
			if fails && ok {
				return own
			}
			return nil
		})
		if err != nil || !slices.Equal(told, []bool{true, false}) {
			t.Errorf("%v, told %v, want true and then false", err, told)
		}
		if err := d.View(ctx, func(tx approval.Tx) error {
			es, err := tx.Events(approval.EventQuery{Type: approval.EventApprovalConsumed})
			if len(es) != 1 {
				t.Errorf("%d events, want one", len(es))
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}

// What a transaction has written it sees, also where that was prefetched, and in a run that waits for what it expects.
func TestWhatWasWrittenIsSeen(t *testing.T) {
	m := join(t, Options{})
	ctx := t.Context()
	id := m.check(t, callOf(t, "bot", "send", `{"a":1}`), approval.AnswerPending).ID
	told, err := m.gate.Extend(ctx, id, hana, approval.ViaAPI)
	if err != nil {
		t.Fatal(err)
	}
	if is, err := m.gate.Request(ctx, hana, id); err != nil || !told.ExpiresAt.Equal(is.ExpiresAt) ||
		told.ExtendedAt.IsZero() {
		t.Errorf("told %s, extended %s; it is %s, %v", told.ExpiresAt, told.ExtendedAt, is.ExpiresAt, err)
	}
	runs := 0
	if err := m.Update(ctx, approval.OfID(id), func(tx approval.Tx) error {
		runs++
		if _, err := tx.Request(id); err != nil {
			return err
		}
		if _, err := tx.Consume(id, false, ""); err != nil { // it is pending: the first run comes to nothing
			return err
		}
		ok, err := tx.Resolve(approval.Resolution{ID: id, Status: approval.Denied, At: tx.Now(), By: "human:hana",
			Via: approval.ViaAPI})
		if err != nil {
			return err
		}
		r, err := tx.Request(id)
		if err == nil && (!ok || r.Status != approval.Denied) {
			t.Errorf("run %d: resolved %v, and then it is read as %s", runs, ok, r.Status)
		}
		return err
	}); err != nil || runs != 2 {
		t.Error(err, runs)
	}
}

// play has a gate do the same as another, by what is drawn, and returns what was answered and what is kept.
func play(t *testing.T, s approval.Store, seed uint64) (said []string) {
	t.Helper()
	g, o := gateOn(s)
	ctx, draw := t.Context(), rand.New(rand.NewPCG(seed, 1))
	var ids []string
	names := map[string]string{}
	name := func(id string) string {
		if id != "" && names[id] == "" {
			names[id] = fmt.Sprint("r", len(names))
		}
		return names[id]
	}
	say := func(what string, err error, more ...any) {
		code := ""
		if e, ok := errors.AsType[*approval.Error](err); ok {
			code = string(e.Code)
		} else if err != nil {
			code = err.Error()
		}
		said = append(said, what+" "+code+" "+fmt.Sprint(more...))
	}
	answer := func(out approval.Answer) string {
		text := fmt.Sprint(out.Kind, " ", out.ReasonCode, " ", out.EndCode, " ", out.Created, " ", out.Grant != nil)
		if r := out.Request; r != nil {
			ids = append(ids, r.ID)
			text += fmt.Sprint(" ", name(r.ID), " ", r.Status, " ", r.Previous != nil, " ", len(r.Votes), " ", r.Before != nil)
		}
		if out.RunID != "" && out.Grant != nil {
			ids = append(ids, out.RunID)
		}
		return text
	}
	pick := func() string {
		if len(ids) == 0 {
			return "none"
		}
		return ids[max(0, len(ids)-1-draw.IntN(8))]
	}
	people := []approval.Actor{hana, {Kind: approval.Human, Name: "ken", Approver: true},
		{Kind: approval.Human, Name: "root", Admin: true}}
	for range 250 {
		who := people[draw.IntN(len(people))]
		agent := []string{"bot", "robot"}[draw.IntN(2)]
		call := func() approval.Call {
			c := callOf(t, agent, []string{"send", "send", "pay"}[draw.IntN(3)], fmt.Sprintf(`{"a":%d}`, draw.IntN(2)))
			c.Dispatch, c.AcceptsEdits = draw.IntN(2) == 0, draw.IntN(2) == 0
			c.SessionID = []string{"", "s1", "s2"}[draw.IntN(3)]
			if draw.IntN(20) == 0 {
				c.ToolDigest = strings.Repeat("b", 64)
			}
			return c
		}
		switch n := draw.IntN(20); n {
		case 0, 1, 2, 3, 4, 5, 6:
			out, err := g.Check(ctx, call())
			say("check", err, answer(out))
		case 7:
			cs := []approval.Call{call(), call()}
			cs[1].Agent = cs[0].Agent
			outs, err := g.CheckBatch(ctx, cs)
			for _, out := range outs {
				say("batch", err, answer(out))
			}
		case 8, 9, 10, 11, 12:
			d := approval.Decision{RequestID: pick(), Approve: n < 11, By: who, Via: approval.ViaAPI}
			if n == 10 {
				d.Grant = &approval.GrantWish{For: time.Hour}
			}
			r, err := g.Decide(ctx, d)
			say("decide", err, r.Status, len(r.Votes))
		case 13:
			r, err := g.Cancel(ctx, approval.Cancellation{RequestID: pick(), By: who, Via: approval.ViaAPI})
			say("cancel", err, r.Status)
		case 14:
			r, err := g.Report(ctx, approval.Actor{Kind: approval.Agent, Name: agent}, pick(),
				[]approval.RunResult{approval.RunSucceeded, approval.RunFailed, approval.RunUnknown}[draw.IntN(3)])
			say("report", err, r.RunResult)
		case 15:
			acked, err := g.Ack(ctx, agent, []string{pick(), pick()})
			say("ack", err, len(acked.Acked), len(acked.NotFound))
		case 16:
			if who.Name == "ken" || draw.IntN(2) == 0 {
				_, err := g.Unfreeze(ctx, agent, hana, approval.ViaAPI)
				say("unfreeze", err)
				break
			}
			_, err := g.Freeze(ctx, agent, who, approval.ViaAPI, "")
			say("freeze", err)
			n, ending := g.EndFrozen(ctx)
			say("ended", ending, n)
			_, err = g.Unfreeze(ctx, agent, hana, approval.ViaAPI)
			say("unfreeze", err)
		case 17:
			rs, err := g.Resolved(ctx, agent, "", 0)
			var of []string
			for _, r := range rs {
				of = append(of, name(r.ID))
			}
			slices.Sort(of) // what one freeze has ended is in no order
			say("feed", err, of)
		case 18:
			a, err := args.Parse([]byte(`{"a":7}`))
			if err != nil {
				t.Fatal(err)
			}
			r, err := g.Decide(ctx, approval.Decision{RequestID: pick(), Approve: true, By: who, Via: approval.ViaAPI, Args: &a})
			say("edit", err, r.Status)
			if r.ID != "" {
				ids = append(ids, r.ID)
			}
		case 19:
			r, err := g.Extend(ctx, pick(), who, approval.ViaAPI)
			say("extend", err, r.Status, r.ExpiresAt.Sub(r.RequestedAt).Round(time.Minute), r.ExtendedAt.IsZero())
		}
	}
	if err := s.View(ctx, func(tx approval.Tx) error {
		rs, err := tx.Requests(approval.RequestQuery{})
		for _, r := range rs {
			said = append(said, fmt.Sprint(name(r.ID), " ", r.Agent, r.Tool, string(r.Args), " ", r.Status, " ", r.ResolvedBy,
				" ", r.EndCode, " ", r.RunResult, " ", !r.ConsumedAt.IsZero(), !r.AckedAt.IsZero(), !r.DispatchedAt.IsZero()))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	ns, err := o.Notifications(ctx, approval.NotificationQuery{})
	if err != nil {
		t.Error(err)
	}
	var told []string
	for _, n := range ns {
		told = append(told, fmt.Sprint(name(n.ApprovalID), " ", n.Kind, n.Status, n.Change))
	}
	slices.Sort(told)
	said = append(said, told...)
	if err := s.View(ctx, func(tx approval.Tx) error {
		es, err := tx.Events(approval.EventQuery{Ascending: true})
		var of []string
		for i, e := range es {
			if e.Seq != int64(i)+es[0].Seq {
				t.Errorf("event %d has the seq %d, and the first %d", i, e.Seq, es[0].Seq)
			}
			of = append(of, fmt.Sprint(e.Type, " ", name(e.ApprovalID), " ", e.Agent, e.Actor, e.Decision))
		}
		slices.Sort(of)
		said = append(said, of...)
		return err
	}); err != nil {
		t.Error(err)
	}
	return said
}

// Whatever agents and people do, one after another, a gate answers on PostgreSQL as it does on SQLite, and has the same
// to show for it.
func TestGateAnswersAsOnSQLite(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		lite, err := sqlite.Open(t.Context(), sqlite.Options{Path: schematest.NewFile(t)})
		if err != nil {
			t.Fatal(err)
		}
		want := play(t, lite, seed)
		if err := lite.Close(); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, play(t, open(t, Options{}), seed)); diff != "" {
			t.Fatalf("seed %d (-SQLite +PostgreSQL):\n%s", seed, diff)
		}
	}
}
