package app_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"countersign/client"
)

// What is over loses its arguments after the time that the configuration says, and is gone after the other; what waits
// stays. A repeated call is asked about anew.
func TestWhatWasKeptLongEnoughIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, replacing("policy:\n", `retention: {args: 1d, requests: 3d, audit: 3d}
heartbeat:
  - {name: prune, schedule: "@every 1s"}
policy:
`))
	m := w.onMachine()
	id := w.expect(transfer(2000), client.AnswerPending).ApprovalID
	if _, err := w.hana.Decide(w.ctx, id, client.Approve, ""); err != nil {
		t.Fatal(err)
	}
	w.expect(transfer(2000), client.AnswerApproved)
	before := w.status(id)
	m.pass(25 * time.Hour)
	w.eventually("the arguments are gone", func() bool { return !w.status(id).ArgsRemovedAt.IsZero() })
	if r := w.status(id); r.ArgsBytes != len(before.Args) || len(r.Args) > 0 && string(r.Args) != "null" ||
		r.ArgsHash != before.ArgsHash || r.ResolvedBy != "hana" || !strings.Contains(r.Message, "transfer_credits(…)") {
		t.Errorf("%+v", r)
	}
	w.eventually("what goes within a day is told", func() bool {
		return strings.Contains(w.get("/metrics"), "\ncountersign_retention_due{what=\"requests\"} 0\n")
	})
	cookie := w.signIn(w.hana)
	if got := w.browse(w.url("/status"), cookie, nil); !strings.Contains(got, "Within a day, 0 requests lose their arg") {
		t.Errorf("/status says %s", got)
	}
	pages := func() {
		t.Helper()
		for _, page := range []string{"/", "/history", "/history?tool=transfer_credits", "/notifications", "/audit", "/stats",
			"/grants", "/policy", "/status"} {
			w.browse(w.url(page), cookie, nil)
		}
	}
	pages()
	if got := w.browse(w.url("/r/"+id), cookie, nil); !strings.Contains(got, "The arguments (34 bytes) were removed ") ||
		!strings.Contains(got, before.ArgsHash) || strings.Contains(got, "null") {
		t.Errorf("its page says %s", got)
	}
	again := w.expect(transfer(2000), client.AnswerPending).ApprovalID
	m.pass(2 * time.Hour)
	w.eventually("nobody has decided the other in time", func() bool { return w.status(again).Status == "expired" })
	m.pass(48 * time.Hour)
	w.eventually("the request is gone", func() bool {
		_, err := w.hana.Approval(w.ctx, id)
		e, ok := errors.AsType[*client.Error](err)
		return ok && e.Status == 404
	})
	if r := w.status(again); !r.ArgsRemovedAt.IsZero() {
		t.Error("a request that its agent does not know the end of has lost its arguments")
	}
	pages()
	stats, err := w.hana.Stats(w.ctx, client.StatsQuery{})
	if err != nil || stats.KnownSince.IsZero() || !stats.CallsKnownSince.After(stats.KnownSince.Time) {
		t.Errorf("all is known since %s, all calls since %s, %v", stats.KnownSince, stats.CallsKnownSince, err)
	}
	page, err := w.hana.Notifications(w.ctx, client.NotificationQuery{})
	if err != nil || len(page.Heartbeat) != 1 || page.Heartbeat[0].Entry != "prune" {
		t.Fatalf("%+v, %v", page.Heartbeat, err)
	}
	m.pass(48 * time.Hour)
	w.eventually("the audit log is without its beginning, and says so", func() bool {
		used, err := w.hana.Audit(w.ctx, client.AuditQuery{EventType: "approval_consumed"})
		said, saidErr := w.hana.Audit(w.ctx, client.AuditQuery{EventType: "audit_pruned"})
		return err == nil && saidErr == nil && len(used.Items) == 0 && len(said.Items) > 0
	})
	cookie = w.signIn(w.hana)
	pages()
	w.eventually("the log says it", func() bool { return strings.Contains(w.log.String(), "Retention: ") })
}

// What an admin erases is gone from the pages, which say who did that.
func TestWhatIsErasedIsOnNoPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.expect(transfer(2000), client.AnswerPending).ApprovalID
	w.lineCard("transfer_credits", 1)
	if _, err := w.hana.Decide(w.ctx, id, client.Deny, "too much"); err != nil {
		t.Fatal(err)
	}
	w.eventually("nothing is to be sent any more", func() bool {
		e, err := w.hana.EraseRequest(w.ctx, id)
		return err == nil && e == client.Erased{Requests: 1}
	})
	cookie := w.signIn(w.hana)
	for _, page := range []string{"/r/" + id, "/history", "/audit", "/notifications", "/stats"} {
		got := w.browse(w.url(page), cookie, nil)
		if strings.Contains(got, "0xAbC") && page != "/audit" { // which has what it had
			t.Errorf("%s has an argument: %s", page, got)
		}
	}
	got := w.browse(w.url("/r/"+id), cookie, nil)
	for _, part := range []string{"The arguments (34 bytes) were removed ", "Arguments and texts erased", "too much"} {
		if !strings.Contains(got, part) {
			t.Errorf("its page lacks %q: %s", part, got)
		}
	}
	for range 2 { // and the denial is remembered
		if a := w.expect(transfer(2000), client.AnswerDenied); a.ApprovalID != id {
			t.Errorf("its agent is told of %+v", a)
		}
	}
}
