package client_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"countersign/client"
)

var pay = client.Call{Tool: "pay", Args: json.RawMessage(`{"cents":2000}`), SessionID: "s1"}

// granted has bot's call approved for longer, and uses the approval.
func (w *world) granted(c client.Call, t client.GrantTerms) client.Grant {
	w.t.Helper()
	d, err := w.hana.Decide(w.t.Context(), w.ask(c), client.Approve, "fine", client.GrantFor(t))
	w.must(err)
	if d.Grant == nil {
		w.t.Fatalf("%+v", d)
	}
	if a, err := w.bot.Call(w.t.Context(), c); err != nil || a.Kind != client.AnswerApproved || a.GrantID != "" {
		w.t.Fatalf("the approved call itself: %+v, %v", a, err)
	}
	return *d.Grant
}

func TestAGrantIsMadeUsedListedAndRevoked(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	g := w.granted(pay, client.GrantTerms{For: 90 * time.Minute, Uses: 2, Session: true})
	if g.Decision != client.Approve || g.Agent != "bot" || g.Target() != "pay" || string(g.Args) != `{"cents":2000}` ||
		g.SessionID != "s1" || g.Uses != 2 ||
		g.MadeBy != "hana" || g.Who != "hana" || g.Via != "cli" || g.Reason != "fine" ||
		g.ExpiresAt.Sub(g.MadeAt.Time) != 90*time.Minute || g.RiskLevel != "medium" {
		t.Errorf("%+v", g)
	}
	if want := map[string]client.Vary{"cents": {AtMost: "5000", Total: "9000"}}; !reflect.DeepEqual(g.Vary, want) {
		t.Errorf("vary is %v", g.Vary)
	}
	c := pay
	c.Dispatch, c.Args = true, json.RawMessage(`{"cents":2500.5}`)
	a, err := w.bot.Ask(ctx, c, time.Minute) // which need not wait
	w.must(err)
	if a.Kind != client.AnswerAllow || !a.MayRun() || a.ReasonCode != "granted" || a.GrantID != g.ID || a.RunID == "" ||
		a.ReportID() != a.RunID || a.ResolvedBy != "hana" {
		t.Errorf("%+v", a)
	}
	r, err := w.bot.Report(ctx, a.ReportID(), client.RunSucceeded)
	w.must(err)
	if r.ID != a.RunID || r.RunResult != client.RunSucceeded || r.DispatchedAt.IsZero() {
		t.Errorf("%+v", r)
	}
	if _, err := w.bot.Report(ctx, a.ReportID(), client.RunFailed); client.CodeOf(err) != "already_resolved" {
		t.Errorf("got %v", err)
	}
	if a, err := w.bot.Call(ctx, pay); err != nil || a.GrantID != g.ID || a.ReportID() != "" {
		t.Errorf("without dispatch: %+v, %v", a, err)
	}

	page, err := w.ken.Grants(ctx, client.GrantQuery{Agent: "bot", Limit: 10})
	w.must(err)
	if len(page.Items) != 0 || page.Next != "" {
		t.Errorf("after its last use: %+v", page)
	}
	page, err = w.bot.Grants(ctx, client.GrantQuery{All: true})
	w.must(err)
	if len(page.Items) != 1 || page.Items[0].ID != g.ID || page.Items[0].EndCode != "used_up" ||
		page.Items[0].Spent["cents"] != "4500.5" {
		t.Errorf("%+v", page)
	}

	g = w.granted(pay, client.GrantTerms{For: time.Hour})
	if got, err := w.ken.Grant(ctx, client.ShortID(g.ID)); err != nil || got.ID != g.ID || got.SessionID != "" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := w.ken.Revoke(ctx, g.ID); client.CodeOf(err) != "not_admin" {
		t.Errorf("got %v", err)
	}
	g, err = w.hana.Revoke(ctx, client.ShortID(g.ID))
	w.must(err)
	if g.EndedBy != "hana" || g.EndCode != "revoked" || g.EndedAt.IsZero() {
		t.Errorf("%+v", g)
	}
}

func TestWhoWaitsForWhatAGrantCoversByThenRunsIt(t *testing.T) {
	w := newWorld(t)
	c := pay
	c.Args = json.RawMessage(`{"cents":300}`)
	first, err := w.bot.Call(t.Context(), c)
	w.must(err)
	g := w.granted(pay, client.GrantTerms{Uses: 2})
	if a, err := w.bot.Call(t.Context(), c); err != nil || a.GrantID != g.ID {
		t.Fatalf("%+v, %v", a, err)
	}
	r, err := w.bot.Approval(t.Context(), first.ApprovalID)
	w.must(err)
	if !r.Granted() || r.Ended() != client.AnswerCancelled {
		t.Errorf("the request: %+v", r)
	}
	a, err := w.bot.Await(t.Context(), c, first, time.Minute)
	w.must(err)
	if a.Kind != client.AnswerAllow || a.GrantID != g.ID {
		t.Errorf("%+v", a)
	}
}

func TestADecisionThatMayNotBeGivenForLongerIsNone(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	_, err := w.hana.Decide(t.Context(), id, client.Approve, "", client.GrantFor(client.GrantTerms{For: time.Hour}))
	if !errors.Is(err, &client.Error{Code: "grant_refused"}) {
		t.Errorf("got %v", err)
	}
	rs, err := w.hana.DecideMany(t.Context(), []string{id}, client.Approve, "",
		client.GrantFor(client.GrantTerms{Uses: 3}))
	w.must(err)
	if len(rs) != 1 || rs[0].Err == nil || rs[0].Err.Code != "grant_refused" {
		t.Errorf("%+v", rs)
	}
	if r, err := w.hana.Approval(t.Context(), id); err != nil || r.Status != "pending" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestAStandingDenialIsMadeAndLifted(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	id := w.ask(transfer)
	rs, err := w.ken.DecideMany(ctx, []string{id}, client.Deny, "no", client.GrantFor(client.GrantTerms{For: time.Hour}))
	w.must(err)
	g := rs[0].Grant
	if g == nil || g.Decision != client.Deny || g.RequestID != id {
		t.Fatalf("%+v", rs)
	}
	a, err := w.bot.Call(ctx, transfer)
	w.must(err)
	if a.Kind != client.AnswerDenied || a.GrantID != g.ID || a.ResolvedBy != "ken" || a.ReportID() != "" {
		t.Errorf("%+v", a)
	}
	l, err := w.ken.Lift(ctx, client.ShortID(g.ID))
	w.must(err)
	if l.ID != g.ID {
		t.Errorf("%+v", l)
	}
	if _, err := w.hana.Lift(ctx, id); client.CodeOf(err) != "already_resolved" {
		t.Errorf("got %v", err)
	}
	next, err := w.hana.Approval(ctx, w.ask(transfer))
	w.must(err)
	if b := next.Before; b == nil || b.RequestID != id || b.Approved || b.By != "ken" || b.Reason != "no" ||
		b.At.IsZero() {
		t.Errorf("%+v", b)
	}
}

func TestEventsTellOfGrants(t *testing.T) {
	w := newWorld(t)
	id := w.ask(pay)
	next, stop := pull(t, w.hana.Events(t.Context(), "0"))
	defer stop()
	d, err := w.hana.Decide(t.Context(), id, client.Approve, "", client.GrantFor(client.GrantTerms{For: time.Hour}))
	w.must(err)
	for range 2 {
		_, err := w.bot.Call(t.Context(), pay)
		w.must(err)
	}
	_, err = w.hana.Revoke(t.Context(), d.Grant.ID)
	w.must(err)
	var got []string
	for len(got) < 3 {
		e := next()
		if e.Grant == nil {
			continue
		}
		if e.Grant.ID != d.Grant.ID || e.Approval != nil {
			t.Errorf("%+v", e)
		}
		got = append(got, e.Type)
	}
	if want := []string{client.EventGranted, client.EventGrantUsed, client.EventGrantEnded}; !reflect.DeepEqual(got,
		want) {
		t.Errorf("got %v", got)
	}
}

func TestACallSaysWhoWaitsAndWhatItsToolIs(t *testing.T) {
	yes, no := true, false
	b, err := json.Marshal(client.Call{Tool: "x", Waits: true, Annotations: &client.Annotations{ReadOnly: &yes,
		OpenWorld: &no}})
	if want := `{"tool":"x","waits":true,"annotations":{"readOnly":true,"openWorld":false}}`; err != nil ||
		string(b) != want {
		t.Errorf("got %s, %v", b, err)
	}
}
