package approval_test

import (
	"slices"
	"sync"
	"testing"

	"countersign/approval"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/auth"
	"countersign/internal/lists"
	"countersign/internal/testkit"
)

// atKeyboard makes a gate where ken sits at bot's keyboard and low and high may be decided there.
func atKeyboard(t *testing.T) (*world, *auth.Directory) {
	w := newWorld(t)
	people := auth.NewDirectory(nil, []auth.Person{{Name: "hana", Approver: true, Admin: true},
		{Name: "ken", Approver: true}})
	with := terms
	with.Elicitation = []approval.Risk{approval.RiskLow, approval.RiskHigh}
	w.wire(approval.Options{Store: w.store, Broker: w.gate.Broker(), Policy: rules{asks, with}, Now: w.clock.Now,
		Directory: names{people: people.ByName, keyboard: func(agent string) (approval.Actor, bool) {
			if agent != "bot" {
				return approval.Actor{}, false
			}
			return people.ByName("ken")
		}}}, outboxtest.Routing{})
	return w, people
}

func TestKeyboardDecidesWhereItMay(t *testing.T) {
	w, _ := atKeyboard(t)
	for _, approve := range []bool{true, false} {
		c := call(map[bool]string{true: `{"n":1}`, false: `{"n":2}`}[approve])
		id := w.expect(c, approval.AnswerPending).Request.ID
		r, err := w.gate.DecideAtKeyboard(w.ctx, "bot", approval.Decision{RequestID: id, Approve: approve, Reason: "looked"})
		want := map[bool]approval.Status{true: approval.Approved, false: approval.Denied}[approve]
		if err != nil || r.Status != want || r.ResolvedBy != "ken" || r.ResolvedVia != approval.ViaTerminal ||
			r.ResolveReason != "looked" {
			t.Errorf("got %+v, %v", r, err)
		}
		_, err = w.gate.DecideAtKeyboard(w.ctx, "bot", approval.Decision{RequestID: id, Approve: approve})
		wantCode(t, err, approval.CodeAlreadyResolved)
	}
	_, err := w.gate.DecideAtKeyboard(w.ctx, "bot", approval.Decision{RequestID: "01ARZ3NDEKTSV4RRFFQ69G5FAV",
		Approve: true})
	wantCode(t, err, approval.CodeNotFound)
}

func TestKeyboardDecidesNothingElse(t *testing.T) {
	for _, c := range []struct {
		name  string
		risk  approval.Risk
		owner string
		agent string
		spoil func(w *world, people *auth.Directory)
		actor string
	}{
		{"a level that is not decided there", approval.RiskCritical, "bot", "bot", nil, "agent:bot"},
		{"another agent's request", approval.RiskHigh, "other", "bot", nil, "agent:bot"},
		{"an agent without a keyboard", approval.RiskHigh, "other", "other", nil, "agent:other"},
		{"an agent without a keyboard, of the one that has", approval.RiskHigh, "bot", "other", nil, "agent:other"},
		{"no agent", approval.RiskHigh, "bot", "", nil, "agent:"},
		{"the person was removed", approval.RiskHigh, "bot", "bot", func(_ *world, p *auth.Directory) { p.Replace(nil, nil) },
			"agent:bot"},
		{"the person may not decide any more", approval.RiskHigh, "bot", "bot", func(_ *world, p *auth.Directory) {
			p.Replace(nil, []auth.Person{{Name: "ken", Admin: true}})
		}, "agent:bot"},
		{"the policy was reloaded", approval.RiskHigh, "bot", "bot", func(w *world, _ *auth.Directory) {
			with := terms
			with.Elicitation = []approval.Risk{approval.RiskLow}
			if err := w.gate.SetPolicy(w.ctx, rules{asks, with}, nil); err != nil {
				w.t.Fatal(err)
			}
		}, "agent:bot"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, people := atKeyboard(t)
			asked := transfer
			asked.Agent = c.owner
			with := terms
			with.Elicitation = []approval.Risk{approval.RiskLow, approval.RiskHigh}
			if err := w.gate.SetPolicy(w.ctx, rules{func(approval.Call) approval.Verdict { return quarantine(c.risk) }, with},
				nil); err != nil {
				t.Fatal(err)
			}
			id := w.expect(asked, approval.AnswerPending).Request.ID
			if c.spoil != nil {
				c.spoil(w, people)
			}
			for _, approve := range []bool{true, false} {
				r, err := w.gate.DecideAtKeyboard(w.ctx, c.agent, approval.Decision{RequestID: id, Approve: approve, Reason: "x"})
				wantCode(t, err, approval.CodeNotAnApprover)
				if r.ID != "" {
					t.Errorf("told of %+v", r)
				}
			}
			if r := w.request(id); r.Status != approval.Pending {
				t.Errorf("decided: %+v", r)
			}
			if who, ok := w.gate.Keyboard(c.agent, w.request(id)); ok {
				t.Errorf("may be decided at the keyboard by %s", who)
			}
			es, err := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Type: approval.EventDecisionRefused})
			if err != nil || len(es) != 2 || es[0].Actor != c.actor || es[0].Reason != "not_an_approver" {
				t.Errorf("audited %+v, %v", es, err)
			}
		})
	}
}

func TestKeyboardThatNobodyKnows(t *testing.T) {
	w := newWorld(t)
	with := terms
	with.Elicitation = []approval.Risk{approval.RiskHigh}
	for name, keyboard := range map[string]func(string) (approval.Actor, bool){
		"none":       nil,
		"an agent":   func(string) (approval.Actor, bool) { return bot, true },
		"a stranger": func(string) (approval.Actor, bool) { s := stranger; s.Approver = true; return s, true },
		"an admin":   func(string) (approval.Actor, bool) { return root, true },
		"not known":  func(string) (approval.Actor, bool) { return ken, false },
	} {
		w.wire(approval.Options{Store: w.store, Broker: w.gate.Broker(), Policy: rules{asks, with}, Now: w.clock.Now,
			Directory: names{people: everybody, keyboard: keyboard}}, outboxtest.Routing{})
		id := w.expect(transfer, approval.AnswerPending).Request.ID
		_, err := w.gate.DecideAtKeyboard(w.ctx, "bot", approval.Decision{RequestID: id, Approve: true})
		if approval.CodeOf(err) != approval.CodeNotAnApprover || w.request(id).Status != approval.Pending {
			t.Errorf("%s: %v", name, err)
		}
		if who, ok := w.gate.Keyboard("bot", w.request(id)); ok {
			t.Errorf("%s: may be decided at the keyboard by %s", name, who)
		}
	}
}

func TestKeyboardAndPhoneRace(t *testing.T) {
	w, _ := atKeyboard(t)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	var wg sync.WaitGroup
	var mu sync.Mutex
	var won []string
	for i := range 32 {
		wg.Go(func() {
			var err error
			who := "hana"
			if i%2 == 0 {
				who = "ken"
				_, err = w.gate.DecideAtKeyboard(w.ctx, "bot", approval.Decision{RequestID: id, Approve: i%4 == 0})
			} else {
				_, err = w.decide(id, i%4 == 1, hana, "")
			}
			if err == nil {
				mu.Lock()
				won = append(won, who)
				mu.Unlock()
			} else if approval.CodeOf(err) != approval.CodeAlreadyResolved {
				t.Error(err)
			}
		})
	}
	testkit.Wait(t, "both answers", wg.Wait)
	if r := w.request(id); !slices.Equal(won, []string{r.ResolvedBy}) || w.count("hitl_decision") != 1 {
		t.Errorf("%q won, stored as by %s", won, r.ResolvedBy)
	}
}
