package approval_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
	"countersign/internal/testkit"
)

// forLonger quarantines everything, of low risk, and lets an approval be given for longer.
func forLonger(approval.Call) approval.Verdict { return longer(approval.GrantTerms{}) }

func longer(t approval.GrantTerms) approval.Verdict {
	v := quarantine(approval.RiskMedium)
	v.Grants, v.RuleDigest = &t, "rule one"
	return v
}

// grantWorld is a world whose approvals can be given for longer.
func grantWorld(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	w.policy(forLonger)
	return w
}

func (w *world) decideFor(id string, approve bool, by approval.Actor, wish approval.GrantWish) (approval.Request,
	error) {
	return w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: approve, By: by, Via: approval.ViaAPI,
		Reason: "Fine.", Grant: &wish})
}

// granted asks for a call, has hana approve it for longer, and uses the approval itself.
func (w *world) granted(c approval.Call, wish approval.GrantWish) approval.Grant {
	w.t.Helper()
	o := w.expect(c, approval.AnswerPending)
	if _, err := w.decideFor(o.Request.ID, true, hana, wish); err != nil {
		w.t.Fatal(err)
	}
	w.expect(c, approval.AnswerApproved)
	return w.grantOf(o.Request.ID)
}

func (w *world) grantOf(request string) approval.Grant {
	w.t.Helper()
	gs, err := lists.ListGrants(w.ctx, w.gate, approval.GrantQuery{RequestID: request, All: true})
	if err != nil || len(gs) == 0 {
		w.t.Fatalf("%d grants of %s, %v", len(gs), request, err)
	}
	return gs[0]
}

func (w *world) grant(id string) approval.Grant {
	w.t.Helper()
	g, err := w.gate.Grant(w.ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

// ended checks that a grant ended so.
func (w *world) ended(id, code, by string) {
	w.t.Helper()
	if g := w.grant(id); g.EndCode != code || g.EndedBy != by || g.EndedAt.IsZero() {
		w.t.Errorf("the grant ended %q by %q at %v, want %q by %q", g.EndCode, g.EndedBy, g.EndedAt, code, by)
	}
}

func TestGrant_TheSameCallWithoutAsking(t *testing.T) {
	w := grantWorld(t)
	g := w.granted(transfer, approval.GrantWish{For: 8 * time.Hour, Uses: 2})
	for i, want := range []string{"1 use left", "0 uses left"} {
		o := w.expect(transfer, approval.AnswerAllow)
		if o.Message != "Allowed: hana approved this for 8 hours ("+want+")." || o.ReasonCode != "granted" ||
			o.Grant == nil || o.Grant.ID != g.ID || o.Grant.Used != i+1 || o.Request != nil || o.RunID != "" {
			t.Errorf("use %d: %+v", i+1, o)
		}
	}
	w.ended(g.ID, "used_up", "system:policy")
	w.expect(transfer, approval.AnswerPending)
	if n := w.count("grant_made:approve"); n != 1 {
		t.Errorf("%d grants on record", n)
	}
	if n := w.count("grant_used:allow:granted"); n != 2 {
		t.Errorf("%d uses on record", n)
	}
}

func TestGrant_SaysForHowLong(t *testing.T) {
	for _, c := range []struct {
		wish approval.GrantWish
		want string
	}{
		{approval.GrantWish{For: 8 * time.Hour, Uses: 3}, "Allowed: hana approved this for 8 hours (2 uses left)."},
		{approval.GrantWish{For: 30 * time.Minute}, "Allowed: hana approved this for 30 minutes."},
		{approval.GrantWish{For: time.Hour}, "Allowed: hana approved this for 1 hour."},
		{approval.GrantWish{For: 90 * time.Second}, "Allowed: hana approved this for 90 seconds."},
		{approval.GrantWish{Uses: 2}, "Allowed: hana approved this for 24 hours (1 use left)."},
		{approval.GrantWish{Session: true}, "Allowed: hana approved this for this session."},
		{approval.GrantWish{Session: true, Uses: 1, For: time.Hour},
			"Allowed: hana approved this for this session (0 uses left)."},
	} {
		w := grantWorld(t)
		call := transfer
		call.SessionID = "s"
		w.granted(call, c.wish)
		if o := w.expect(call, approval.AnswerAllow); o.Message != c.want {
			t.Errorf("got %q, want %q", o.Message, c.want)
		}
	}
}

// Another agent, scope, server, tool, session or other args are asked about.
func TestGrant_CoversNothingElse(t *testing.T) {
	w := grantWorld(t)
	at := transfer
	at.Scope, at.Server, at.SessionID = "/srv", "bank", "one"
	w.granted(at, approval.GrantWish{Session: true})
	for name, change := range map[string]func(*approval.Call){
		"agent":   func(c *approval.Call) { c.Agent = "other" },
		"scope":   func(c *approval.Call) { c.Scope = "/srv/" },
		"server":  func(c *approval.Call) { c.Server = "bank2" },
		"tool":    func(c *approval.Call) { c.Tool = "transfer_credit" },
		"session": func(c *approval.Call) { c.SessionID = "two" },
		"none":    func(c *approval.Call) { c.SessionID = "" },
	} {
		c := at
		if change(&c); w.check(c).Kind != approval.AnswerPending {
			t.Errorf("another %s was not asked about", name)
		}
	}
	w.expect(at, approval.AnswerAllow)
}

func TestGrant_RefusedAndNothingDecided(t *testing.T) {
	two := &approval.Need{Stages: []approval.Stage{{Count: 2}}}
	for _, c := range []struct {
		name   string
		change func(*approval.Verdict)
		wish   approval.GrantWish
		code   approval.Code
	}{
		{"not by this rule", func(v *approval.Verdict) { v.Grants = nil }, approval.GrantWish{Uses: 1},
			approval.CodeGrantRefused},
		{"a critical call", func(v *approval.Verdict) { v.Risk = approval.RiskCritical }, approval.GrantWish{Uses: 1},
			approval.CodeGrantRefused},
		{"two people", func(v *approval.Verdict) { v.Need = two }, approval.GrantWish{Uses: 1}, approval.CodeGrantRefused},
		{"a rule without a name", func(v *approval.Verdict) { v.RuleDigest = "" }, approval.GrantWish{Uses: 1},
			approval.CodeGrantRefused},
		{"nothing wished for", nil, approval.GrantWish{}, approval.CodeInvalidParameter},
		{"too long", nil, approval.GrantWish{For: 24*time.Hour + 1}, approval.CodeGrantRefused},
		{"no time", nil, approval.GrantWish{For: -1}, approval.CodeInvalidParameter},
		{"too many uses", nil, approval.GrantWish{Uses: 10_001}, approval.CodeInvalidParameter},
		{"fewer than none", nil, approval.GrantWish{Uses: -1}, approval.CodeInvalidParameter},
		{"no session", nil, approval.GrantWish{Session: true}, approval.CodeGrantRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := grantWorld(t)
			w.policy(func(call approval.Call) approval.Verdict {
				v := forLonger(call)
				if c.change != nil {
					c.change(&v)
				}
				return v
			})
			o := w.expect(transfer, approval.AnswerPending)
			_, err := w.decideFor(o.Request.ID, true, hana, c.wish)
			wantCode(t, err, c.code)
			if r := w.request(o.Request.ID); r.Status != approval.Pending || len(r.Votes) > 0 {
				t.Errorf("it is %s, with the votes %v", r.Status, r.Votes)
			}
			if w.count("grant_made") != 0 || w.count("decision_refused:approve:"+string(c.code)) != 1 {
				t.Errorf("on record: %s", strings.Join(w.trail(), ", "))
			}
		})
	}
}

// However many ask at once, a grant lets through as many as it has uses.
func TestGrant_FiftyAtOnceWithThreeUsesLeft(t *testing.T) {
	w := grantWorld(t)
	w.granted(transfer, approval.GrantWish{Uses: 3})
	var mu sync.Mutex
	passed := 0
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			o, err := w.gate.Check(w.ctx, transfer)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if o.Kind == approval.AnswerAllow {
				passed++
			} else if o.Kind != approval.AnswerPending {
				t.Errorf("%s: %s", o.Kind, o.Message)
			}
		})
	}
	testkit.Wait(t, "all callers", group.Wait)
	if passed != 3 || w.count("grant_used") != 3 {
		t.Errorf("%d passed, %d are on record", passed, w.count("grant_used"))
	}
}

// A standing denial answers as a remembered one does, for as long as it was made for, and before any grant.
func TestGrant_AStandingDenial(t *testing.T) {
	w := newWorld(t) // whatever the policy says of grants
	o := w.expect(transfer, approval.AnswerPending)
	if _, err := w.decideFor(o.Request.ID, false, ken, approval.GrantWish{For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(time.Hour - time.Millisecond)
	got := w.expect(transfer, approval.AnswerDenied)
	if want := "Approval denied by ken: Fine.. The call was not executed; do not repeat it, try a different approach."; got.Message != want {
		t.Errorf("got %q, want %q", got.Message, want)
	}
	if got.Grant == nil || !got.Grant.Deny || got.Request == nil || got.Request.ID != o.Request.ID {
		t.Errorf("%+v", got)
	}
	w.clock.advance(time.Millisecond)
	w.expect(transfer, approval.AnswerPending)
	w.ended(got.Grant.ID, "expired", "system:timeout")
}

// A call that waits for a person is let through once a grant covers it, and its request ends.
func TestGrant_WhatWaitsIsLetThrough(t *testing.T) {
	w := newWorld(t)
	memo := approval.GrantTerms{Vary: map[string]approval.Vary{"memo": {Any: true}}}
	w.policy(func(approval.Call) approval.Verdict { return longer(memo) })
	first, second := call(`{"to":"a","memo":"1"}`), call(`{"to":"a","memo":"2"}`)
	waiting := w.expect(second, approval.AnswerPending)
	w.granted(first, approval.GrantWish{For: time.Hour})
	if o := w.expect(second, approval.AnswerAllow); o.Message != "Allowed: hana approved this for 1 hour." {
		t.Error(o.Message)
	}
	if r := w.request(waiting.Request.ID); r.Status != approval.Cancelled || r.ResolveReason != "granted" ||
		r.ResolvedBy != "system:policy" {
		t.Errorf("its request: %s by %s, %q", r.Status, r.ResolvedBy, r.ResolveReason)
	}
}
