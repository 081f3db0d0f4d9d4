package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"countersign/client"
)

var wire = client.Call{Tool: "wire", Args: json.RawMessage(`{"cents":2000}`), AcceptsEdits: true}

func TestAVoteThatIsNotTheLastSaysHowFarItIs(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	id := w.ask(wire)
	d, err := w.hana.Decide(ctx, client.ShortID(id), client.Approve, "ok")
	w.must(err)
	if have, need := client.Progress(d.Votes, d.Needs); d.ID != id || d.Status != "pending" || have != 1 || need != 2 {
		t.Errorf("%+v", d)
	}
	_, err = w.hana.Decide(ctx, id, client.Approve, "")
	if client.CodeOf(err) != "already_voted" {
		t.Errorf("got %v", err)
	}
	r, err := w.bot.Approval(ctx, id)
	w.must(err)
	if len(r.Votes) != 0 { // an agent is told at the end
		t.Errorf("the agent sees %+v", r.Votes)
	}
	r, err = w.hana.Approval(ctx, id)
	w.must(err)
	if len(r.Votes) != 1 || r.Votes[0].Person != "hana" || r.Votes[0].Decision != client.Approve ||
		r.Votes[0].Via != "cli" || r.Needs[0].Count != 2 {
		t.Errorf("%+v", r)
	}
	d, err = w.ken.Decide(ctx, id, client.Approve, "")
	w.must(err)
	if d.Status != "approved" || d.ApprovedBy != "hana and ken" {
		t.Errorf("%+v", d)
	}
}

func TestWhatIsToBeConfirmedIsSaidTwice(t *testing.T) {
	w := newWorld(t)
	id := w.ask(client.Call{Tool: "close_books"})
	_, err := w.hana.Decide(t.Context(), id, client.Approve, "")
	if client.CodeOf(err) != "confirm_required" {
		t.Errorf("got %v", err)
	}
	_, err = w.hana.Decide(t.Context(), id, client.Approve, "", client.Confirmed())
	w.must(err)
}

func TestSeveralDecisionsHaveAResultEach(t *testing.T) {
	w := newWorld(t)
	one, two := w.ask(call(1)), w.ask(call(2))
	_, err := w.hana.Decide(t.Context(), two, client.Deny, "no")
	w.must(err)
	rs, err := w.hana.DecideMany(t.Context(), []string{one, two, "ZZZZZZ"}, client.Approve, "fine")
	w.must(err)
	if len(rs) != 3 || rs[0].Err != nil || rs[0].Status != "approved" || rs[0].Reason != "fine" {
		t.Fatalf("%+v", rs)
	}
	if e := rs[1].Err; !errors.Is(e, &client.Error{Code: "already_resolved"}) || e.Status != 409 || e.Detail == "" ||
		rs[1].ID != two {
		t.Errorf("%+v", rs[1])
	}
	if rs[2].Err.Code != "not_found" {
		t.Errorf("%+v", rs[2])
	}
}

func TestWhoAcceptsEditsRunsWhatWasApprovedInstead(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	c := call(1)
	c.AcceptsEdits = true
	first, err := w.bot.Call(ctx, c)
	w.must(err)
	d, err := w.hana.Decide(ctx, first.ApprovalID, client.Approve, "less", client.WithArgs(json.RawMessage(`{"n":0}`)))
	w.must(err)
	if d.Status != "approved" || d.Replaces != first.ApprovalID || d.ID == first.ApprovalID {
		t.Errorf("%+v", d)
	}
	a, err := w.bot.Await(ctx, c, first, time.Minute)
	w.must(err)
	if !a.MayRun() || string(a.Args) != `{"n":0}` || a.Replaces != first.ApprovalID || a.ApprovalID != d.ID {
		t.Errorf("%+v", a)
	}
	// Who does not is told what to ask for.
	id := w.ask(call(2))
	_, err = w.hana.Decide(ctx, id, client.Approve, "", client.WithArgs(json.RawMessage(`{"n":0}`)))
	w.must(err)
	b, err := w.bot.Call(ctx, call(2))
	w.must(err)
	if b.Kind != client.AnswerDenied || b.ReasonCode != "edited" || !strings.HasPrefix(b.Message, "Not as asked.") {
		t.Errorf("%+v", b)
	}
	was, err := w.bot.Approval(ctx, id)
	w.must(err)
	if was.ReplacedBy == "" || was.ReasonCode != "edited" {
		t.Errorf("%+v", was)
	}
}

func TestMoreTimeIsGivenAndTold(t *testing.T) {
	w := newWorld(t)
	id := w.ask(call(1))
	next, stop := pull(t, w.hana.Events(t.Context(), "0"))
	defer stop()
	next()
	r, err := w.hana.Extend(t.Context(), id)
	w.must(err)
	if left := time.Until(r.ExpiresAt.Time); left < 119*time.Minute {
		t.Errorf("%s are left", left)
	}
	if e := next(); e.Type != client.EventExtended || e.Approval.ID != id ||
		!e.Approval.ExpiresAt.Equal(r.ExpiresAt.Time) {
		t.Errorf("%+v", e)
	}
	_, err = w.hana.Decide(t.Context(), w.ask(wire), client.Approve, "")
	w.must(err)
	if e := next(); e.Type != client.EventRequested {
		t.Errorf("%+v", e)
	}
	if e := next(); e.Type != client.EventVoted || e.Approval.Status != "pending" {
		t.Errorf("%+v", e)
	}
}

func TestAFreezeIsMadeListedAndLifted(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	f, err := w.ken.Freeze(ctx, "bot", "a leak")
	w.must(err)
	if f.Agent != "bot" || !f.Frozen || f.FrozenBy != "ken" || f.Reason != "a leak" || f.FrozenAt.IsZero() {
		t.Errorf("%+v", f)
	}
	a, err := w.bot.Call(ctx, client.Call{Tool: "read_file"})
	w.must(err)
	if a.MayRun() || a.ReasonCode != "frozen" {
		t.Errorf("%+v", a)
	}
	if fs, err := w.hana.Frozen(ctx); err != nil || len(fs) != 1 || fs[0] != f {
		t.Errorf("%+v, %v", fs, err)
	}
	if _, err := w.ken.Unfreeze(ctx, "bot"); client.CodeOf(err) != "not_admin" {
		t.Errorf("got %v", err)
	}
	f, err = w.hana.Unfreeze(ctx, "bot")
	w.must(err)
	if f.Frozen {
		t.Errorf("%+v", f)
	}
	f, err = w.hana.Freeze(ctx, "", "")
	w.must(err)
	if f.Agent != "" {
		t.Errorf("%+v", f)
	}
	_, err = w.hana.Unfreeze(ctx, "")
	w.must(err)
}

func TestADelegationIsMadeListedAndEnded(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	until := client.Time{Time: time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)}
	d, err := w.hana.Delegate(ctx, client.Delegation{To: "ken", Until: until, Rule: "asks"})
	w.must(err)
	if d.For != "hana" || d.To != "ken" || !d.Until.Equal(until.Time) || d.Rule != "asks" || d.CreatedBy != "hana" ||
		d.From.IsZero() {
		t.Errorf("%+v", d)
	}
	if ds, err := w.ken.Delegations(ctx); err != nil || len(ds) != 1 || ds[0].ID != d.ID {
		t.Errorf("%+v, %v", ds, err)
	}
	d, err = w.ken.EndDelegation(ctx, d.ID)
	w.must(err)
	if d.EndedBy != "ken" {
		t.Errorf("%+v", d)
	}
}

func TestTheAuditLogIsNarrowedAndExported(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	id := w.ask(transfer)
	_, err := w.hana.Decide(ctx, id, client.Deny, "no")
	w.must(err)
	for _, q := range []client.AuditQuery{{Actor: "hana"}, {ApprovalID: id, EventType: "hitl_decision"},
		{SessionID: "s1", Decision: "deny"}} {
		if page, err := w.hana.Audit(ctx, q); err != nil || len(page.Items) != 1 ||
			page.Items[0].EventType != "hitl_decision" {
			t.Errorf("%+v: %+v, %v", q, page.Items, err)
		}
	}
	page, err := w.hana.Audit(ctx, client.AuditQuery{CorrelationID: "nobody's"})
	if err != nil || len(page.Items) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
	var out bytes.Buffer
	w.must(w.hana.ExportAudit(ctx, client.AuditQuery{Actor: "hana"}, client.NDJSON, &out))
	var e client.AuditEvent
	if err := json.Unmarshal(out.Bytes(), &e); err != nil || e.ApprovalID != id {
		t.Errorf("%s: %v", out.Bytes(), err)
	}
	out.Reset()
	w.must(w.hana.ExportAudit(ctx, client.AuditQuery{Actor: "hana"}, client.CSV, &out))
	if !strings.HasPrefix(out.String(), "id,seq,at,") || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%s", out.String())
	}
	if err := w.ken.ExportAudit(ctx, client.AuditQuery{}, client.CSV, &out); client.CodeOf(err) != "not_admin" {
		t.Errorf("got %v", err)
	}
	if err := w.hana.ExportAudit(ctx, client.AuditQuery{Limit: 1}, client.CSV, &out); err == nil {
		t.Error("a limit is taken")
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := w.hana.ExportAudit(gone, client.AuditQuery{}, client.CSV, &out); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
