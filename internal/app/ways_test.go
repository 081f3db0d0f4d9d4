package app_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/emulator"
)

// committee has hana and ken in finance, ken in security, hana own the agent, and the rule of transfers have some keys.
func committee(keys string) func(text string) string {
	return func(text string) string {
		text = replacing("slack: U02HANA,", "slack: U02HANA, groups: [finance],")(text)
		text = replacing("slack: U03KEN,", "slack: U03KEN, groups: [finance, security],")(text)
		text = replacing(`name: bot, token`, `name: bot, owner: hana, token`)(text)
		return replacing("    - name: transfers\n", "    - name: transfers\n"+keys)(text)
	}
}

// postback is a button of hana's in LINE, whether or not it is there.
func (w *world) postback(data string) {
	w.t.Helper()
	event, err := w.chat.LINE.PostbackEvent("hana", data)
	if err != nil {
		w.t.Fatal(err)
	}
	w.ok(w.chat.LINE.Post(w.ctx, emulator.LINEPost{Events: []emulator.Object{event}}))
}

// Rule 1, and deciding §1: what a rule asks for holds on every way in on which a person can decide.
func TestRule1_ANeedHoldsOnEveryWayIn(t *testing.T) {
	t.Parallel()
	hanaSays := map[string]func(w *world, id, batch string){
		"a press in LINE":     func(w *world, id, _ string) { w.postback("action=approve&id=" + id) },
		"approve all in LINE": func(w *world, _, batch string) { w.postback("action=approve&id=" + batch) },
		"a press in Slack": func(w *world, id, _ string) {
			w.slackCard(id)
			w.tapSlack("hana", id, "approve")
		},
		"typed in LINE": func(w *world, id, _ string) { w.ok(w.chat.LINE.Type(w.ctx, "hana", "approve "+id, "")) },
		"a short id in LINE": func(w *world, id, _ string) {
			w.ok(w.chat.LINE.Type(w.ctx, "hana", "approve "+id[20:], ""))
		},
		"typed in Slack": func(w *world, id, _ string) { w.ok(w.chat.Slack.Type(w.ctx, "hana", "approve "+id, "")) },
		"over the API":   func(w *world, id, _ string) { _, _ = w.hana.Decide(w.ctx, id, client.Approve, "") },
		"many at once, the API": func(w *world, id, _ string) {
			_, _ = w.hana.DecideMany(w.ctx, []string{id}, client.Approve, "")
		},
		"a short id, the API": func(w *world, id, _ string) { _, _ = w.hana.Decide(w.ctx, id[18:], client.Approve, "") },
	}
	for _, need := range []struct {
		name, keys string
		votes      int  // that hana's word is
		kenIsLast  bool // ken's word then approves it
	}{
		{"two people", "      approvals: [{group: finance, count: 2}]\n", 1, true},
		{"another stage first", "      approvals: [{group: security}, {approvers: [hana]}]\n", 0, false},
		{"separate duties", "      approvals: [{group: finance}]\n      separate_duties: true\n", 0, true},
		{"others by name", "      approvers: [ken]\n", 0, true},
		{"confirm", "      approvers: [hana]\n      confirm: true\n", 0, false},
	} {
		t.Run(need.name, func(t *testing.T) {
			w := newWorld(t, committee(need.keys))
			cents := 5000
			for way, say := range hanaSays {
				cents += 2
				both, err := w.bot.CallBatch(w.ctx, []client.Call{transfer(cents), transfer(cents + 1)})
				if err != nil {
					t.Fatal(err)
				}
				id := both[0].ApprovalID
				batch := w.status(id).BatchID
				say(w, id, batch)
				say(w, id, batch) // once more does not help
				r := w.status(id)
				if r.Status != "pending" || len(r.Votes) != need.votes {
					t.Errorf("%s: %s with %d votes", way, r.Status, len(r.Votes))
					continue
				}
				if a := w.call(transfer(cents)); a.Kind != client.AnswerPending {
					t.Errorf("%s: the call is %s", way, a.Kind)
				}
				if !need.kenIsLast {
					continue
				}
				w.slackCard(id)
				w.tapSlack("ken", id, "approve")
				if a := w.call(transfer(cents)); a.Kind != client.AnswerApproved {
					t.Errorf("%s, and then ken: the call is %s: %s", way, a.Kind, a.Message)
				}
			}
		})
	}
}

// Cards go to whoever is asked, when they are asked: a stage's people when it opens, others when time has passed.
func TestCardsGoToWhoIsAskedNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, committee("      approvals: [{group: security}, {approvers: [hana]}]\n"))
	id := w.expect(transfer(4000), client.AnswerPending).ApprovalID
	to := func() map[string]int {
		n := map[string]int{}
		for _, x := range w.notifications(client.NotificationQuery{ApprovalID: id}) {
			if x.Kind == "request" {
				n[x.Recipient]++
			}
		}
		return n
	}
	if got := to(); got[hanaLINE] != 0 || got["U03KEN"] != 1 || got["C0APPROVALS"] != 1 {
		t.Fatalf("asked first: %v", got)
	}
	w.slackCard(id)
	w.tapSlack("ken", id, "approve")
	if got := to(); got[hanaLINE] != 1 || got["U03KEN"] != 1 || got["C0APPROVALS"] != 1 {
		t.Fatalf("asked next: %v", got)
	}
	w.tapLINE("hana", id, "approve")
	if r := w.status(id); r.Status != "approved" || len(r.Votes) != 2 {
		t.Fatalf("%s with %+v", r.Status, r.Votes)
	}
	w.eventually("the card names both", func() bool { return len(w.slackCard("ken and hana").Blocks) > 0 })
}

// Whom escalation adds gets the card when their time has come, and none where it was decided before.
func TestEscalationSendsTheCardLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, committee("      approvers: [ken]\n      escalate: [{after: 10m, to: [hana]}]\n"))
	a := w.expect(transfer(4000), client.AnswerPending)
	later := func() client.Notification {
		for _, n := range w.notifications(client.NotificationQuery{ApprovalID: a.ApprovalID}) {
			if n.Recipient == hanaLINE && n.Kind == "request" {
				return n
			}
		}
		t.Fatal("hana's card is not there")
		return client.Notification{}
	}
	at := w.status(a.ApprovalID).RequestedAt.Add(10 * time.Minute)
	if n := later(); n.Status != "queued" || !n.NextAttemptAt.Equal(at) {
		t.Errorf("%s, due at %s, want %s", n.Status, n.NextAttemptAt, at)
	}
	w.slackCard(a.ApprovalID)
	w.tapSlack("ken", a.ApprovalID, "approve")
	if n := later(); n.Status != "skipped" || n.Attempt != 0 {
		t.Errorf("%s after %d tries", n.Status, n.Attempt)
	}
}

// Who stands in for somebody who is notified gets the card too.
func TestAStandInGetsTheCard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, committee("      approvers: [hana]\n"))
	if _, err := w.hana.Delegate(w.ctx, client.Delegation{To: "ken",
		Until: client.Time{Time: time.Now().Add(time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	id := w.expect(transfer(4000), client.AnswerPending).ApprovalID
	to := map[string]bool{}
	for _, n := range w.notifications(client.NotificationQuery{ApprovalID: id}) {
		to[n.Recipient] = true
	}
	if !to[hanaLINE] || !to["U03KEN"] {
		t.Errorf("cards went to %v", to)
	}
	w.slackCard(id)
	w.tapSlack("ken", id, "approve")
	if a := w.call(transfer(4000)); !strings.HasPrefix(a.Message, "Approved by ken for hana at ") {
		t.Error(a.Message)
	}
}

// A card of several requests comes to each person once, however many of them ask that person.
func TestOneCardForEachPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t, committee("      approvers: [hana]\n"))
	both, err := w.bot.CallBatch(w.ctx, []client.Call{{Tool: "close_books"}, transfer(4000)})
	if err != nil {
		t.Fatal(err)
	}
	var to []string
	for _, n := range w.notifications(client.NotificationQuery{ApprovalID: both[1].ApprovalID}) {
		to = append(to, n.Recipient)
	}
	slices.Sort(to)
	if want := []string{"C0APPROVALS", hanaLINE}; !slices.Equal(to, want) {
		t.Errorf("cards went to %v, want %v", to, want)
	}
}
