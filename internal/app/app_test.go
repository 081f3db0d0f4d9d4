package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/emulator"
	"countersign/internal/testkit"
)

func TestACallATapInLINEAndBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.expect(client.Call{Tool: "read_ledger"}, client.AnswerAllow)
	if a := w.expect(client.Call{Tool: "format_disk"},
		client.AnswerDenied); a.Message != "Policy denied: forbidden — Never." {
		t.Errorf("message %q", a.Message)
	}
	first := w.expect(transfer(2000), client.AnswerPending)
	if want := "⏳ Approval requested (id: " + first.ApprovalID +
		"). Transfer exceeds the confirmation threshold ($10)"; first.Message != want || first.RiskLevel != "high" ||
		first.ReasonCode != "over_threshold" {
		t.Errorf("%+v", first)
	}
	card := w.lineCard(first.ApprovalID, 1)
	for _, want := range []string{"transfer_credits", "2000", "0xAbC", "Transfer exceeds the confirmation threshold",
		first.ApprovalID, "Approve", "Deny", "bot"} {
		if !strings.Contains(string(card.JSON), want) {
			t.Errorf("the card does not show %q", want)
		}
	}
	if again := w.expect(transfer(2000), client.AnswerPending); again.ApprovalID != first.ApprovalID {
		t.Errorf("asking again made %s", again.ApprovalID)
	}
	w.tapLINE("hana", first.ApprovalID, "approve")
	w.told("Approved: “Run transfer_credits: ")

	news, err := w.bot.Resolved(w.ctx, "s1", 10*time.Second)
	if err != nil || len(news) != 1 || !strings.HasPrefix(news[0].Message,
		`[APPROVAL APPROVED] transfer_credits({"amount_cents":2000,"to":"0xAbC"}): approved by hana at `) {
		t.Fatalf("feed %+v, %v", news, err)
	}
	used := w.expect(transfer(2000), client.AnswerApproved)
	if used.ResolvedBy != "hana" || !strings.HasSuffix(used.Message, "Run it now; this approval is used.") {
		t.Errorf("%+v", used)
	}
	if next := w.expect(transfer(2000), client.AnswerPending); next.ApprovalID == first.ApprovalID {
		t.Error("the approval was good for two calls")
	}
	w.tapLINE("hana", first.ApprovalID, "approve") // an old card's button stays tappable
	w.told("Approved by hana and already used (")
}

func TestASlackCardIsEditedWhenItIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.expect(transfer(3000), client.AnswerPending).ApprovalID
	w.slackCard(id)
	w.denySlack("ken", id, "")
	var card emulator.SlackMessage
	if err := w.chat.WaitFor(w.ctx, func() bool { card = w.slackCard(id); return len(card.Edits) > 0 }); err != nil {
		t.Fatal("never edited")
	}
	if s := string(card.Blocks); strings.Contains(s, `"actions"`) || !strings.Contains(s, "ken") ||
		!strings.Contains(strings.ToLower(s), "denied") {
		t.Errorf("edited to %s", s)
	}
	if err := w.chat.WaitFor(w.ctx, func() bool { return len(w.chat.Slack.Responses()) > 0 }); err != nil {
		t.Fatal("the tapper was not answered")
	}
	if r := w.chat.Slack.Responses()[0]; !strings.Contains(string(r.Body), "Denied: “Run transfer_credits: ") ||
		r.User != "U03KEN" {
		t.Errorf("answered %s to %s", r.Body, r.User)
	}
	a := w.expect(transfer(3000), client.AnswerDenied)
	if a.Message != "Approval denied by ken: no reason given. The call was not executed; do not repeat it, try a different approach." {
		t.Errorf("message %q", a.Message)
	}
}

func TestAnExpiryWakesTheWaiterAndEditsTheCard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	call := client.Call{Tool: "short_lived"}
	a, err := w.bot.CallWait(w.ctx, call, 20*time.Second)
	if err != nil || a.Kind != client.AnswerExpired ||
		a.Message != "[APPROVAL EXPIRED] short_lived({}): Timed out after 1 second with no response. Ask again if it is still needed." {
		t.Fatalf("%+v, %v", a, err)
	}
	if r := w.status(a.ApprovalID); !r.ResolvedAt.Equal(r.ExpiresAt.Time) || r.ResolvedBy != "system:timeout" {
		t.Errorf("%+v", r)
	}
	// The card may or may not have been sent before the second was over; if it was, it is edited.
	w.eventually("no card with buttons", func() bool {
		for _, m := range w.chat.Slack.Messages("C0APPROVALS") {
			if strings.Contains(string(m.Blocks), a.ApprovalID) && strings.Contains(string(m.Blocks), `"actions"`) {
				return false
			}
		}
		return true
	})
}

func TestAWaitingCallIsAnsweredByTheTap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := make(chan client.Answer, 1)
	go func() {
		a, err := w.bot.CallWait(w.ctx, transfer(2100), 30*time.Second)
		if err != nil {
			t.Error(err)
		}
		got <- a
	}()
	card := w.slackCard("2100")
	id := card.Blocks
	var approvalID string
	w.eventually("the request", func() bool {
		p, err := w.hana.Approvals(w.ctx, client.ApprovalQuery{Status: "pending"})
		if err == nil && len(p.Items) == 1 {
			approvalID = p.Items[0].ID
		}
		return approvalID != ""
	})
	if !strings.Contains(string(id), approvalID) {
		t.Errorf("the card does not name %s", approvalID)
	}
	w.tapSlack("hana", approvalID, "approve")
	if a := testkit.Receive(t, "the answer", got); a.Kind != client.AnswerApproved {
		t.Errorf("%+v", a)
	}
}

func TestRule8_OutsidersForgersAndReplayersDecideNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.expect(transfer(2200), client.AnswerPending).ApprovalID
	w.lineCard(id, 1)
	w.slackCard(id)
	post := func(p emulator.LINEPost) int {
		t.Helper()
		d, err := w.chat.LINE.Post(w.ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		return d.Status
	}
	event := func(person string) emulator.Object {
		t.Helper()
		e, err := w.chat.LINE.PostbackEvent(person, "action=approve&id="+id)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	if s := post(emulator.LINEPost{Events: []emulator.Object{event("hana")},
		Secret: "not the channel's secret"}); s != 401 {
		t.Errorf("forged: %d", s)
	}
	if s := post(emulator.LINEPost{Events: []emulator.Object{event(emulator.StrangerName)}}); s != 200 {
		t.Errorf("stranger: %d", s)
	}
	if err := w.chat.WaitFor(w.ctx, func() bool {
		for _, m := range w.chat.LINE.Chat(emulator.StrangerName) {
			if strings.Contains(m.Text, "You're not an approver here.") {
				return true
			}
		}
		return false
	}); err != nil {
		t.Error("the stranger was not told")
	}
	post(emulator.LINEPost{Events: []emulator.Object{event("hana")}, Destination: strangerID})
	post(emulator.LINEPost{Events: []emulator.Object{event("hana").With("mode", "standby")}})
	post(emulator.LINEPost{Events: []emulator.Object{event("hana").With("timestamp",
		emulator.LINETime(time.Now().Add(-25*time.Hour)))}})
	post(emulator.LINEPost{Events: []emulator.Object{event("hana").With("timestamp",
		emulator.LINETime(time.Now().Add(-time.Minute)))}})
	post(emulator.LINEPost{Events: []emulator.Object{event("hana").With("source.type", "group")}})

	slack := func(p emulator.SlackPost, want int) {
		t.Helper()
		d, err := w.chat.Slack.Post(w.ctx, p)
		if err != nil || d.Status != want {
			t.Errorf("%v, %d, want %d", err, d.Status, want)
		}
	}
	press := func(person string) emulator.Object {
		t.Helper()
		card := w.slackCard(id)
		p, err := w.chat.Slack.BlockActions(person, card.Channel, card.TS, "approve", id)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	slack(emulator.SlackPost{Payload: press("hana"), Timestamp: time.Now().Add(-6 * time.Minute)}, 401)
	slack(emulator.SlackPost{Payload: press("hana"), Secret: "not the signing secret"}, 401)
	slack(emulator.SlackPost{Payload: press("hana").With("team.id", "T0OTHER")}, 200)
	slack(emulator.SlackPost{Payload: press(emulator.StrangerName)}, 200)
	slack(emulator.SlackPost{Payload: press("hana").With("user.team_id", "T0OTHER")}, 200)

	if r := w.status(id); r.Status != "pending" {
		t.Fatalf("after all of that it is %s by %s", r.Status, r.ResolvedBy)
	}
	if _, err := w.bot.Decide(w.ctx, id, client.Approve, ""); client.CodeOf(err) != "people_only" {
		t.Errorf("the agent's own decision: %v", err)
	}
	refused := map[string]int{}
	for _, e := range append(w.audit("webhook_refused"), w.audit("decision_refused")...) {
		refused[e.EventType+" "+e.Actor+" "+e.Reason]++
	}
	for _, want := range []string{"decision_refused line:" + strangerID + " not_an_approver",
		"webhook_refused line: wrong_destination", "webhook_refused hana not_active",
		"webhook_refused hana too_old", "webhook_refused hana older_than_request", "webhook_refused line: not_one_to_one",
		"webhook_refused slack:T0TEAM/U02HANA wrong_workspace", "decision_refused slack:T0TEAM/U0STRANGER not_an_approver",
		"decision_refused slack:T0OTHER/U02HANA not_an_approver"} {
		if refused[want] != 1 {
			t.Errorf("%d × %q on record: %v", refused[want], want, refused)
		}
	}

	d := w.tapLINE("hana", id, "deny")
	if again, err := w.chat.Resend(w.ctx, d); err != nil || again.Status != 200 {
		t.Errorf("replay: %v %d", err, again.Status)
	}
	if n := len(w.audit("hitl_decision")); n != 1 {
		t.Errorf("%d decisions", n)
	}
}

func TestTypedWordsInLINE(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.expect(transfer(2300), client.AnswerPending).ApprovalID
	b := w.expect(transfer(2301), client.AnswerPending).ApprovalID
	card := w.lineCard(a, 1)
	w.lineCard(b, 1)
	say := func(text, quoted string) {
		t.Helper()
		w.ok(w.chat.LINE.Type(w.ctx, "hana", text, quoted))
	}
	say("yes", "")
	w.told("2 requests are waiting. Use their buttons to decide.")
	w.lineCard(a, 2) // the cards came in the reply
	say("no", "")
	w.told("2 requests are waiting, so nothing was denied.")
	say("Approve", card.ID)
	w.told("Approved: “Run transfer_credits: ")
	if r := w.status(a); r.Status != "approved" {
		t.Errorf("%s", r.Status)
	}
	say("deny "+strings.ToLower(b)+" wrong account, Ken", "")
	w.told("Denied: “Run transfer_credits: ")
	if r := w.status(b); r.Status != "denied" || r.ResolveReason != "wrong account, Ken" || r.ResolvedVia != "line" {
		t.Errorf("%+v", r)
	}
	c := w.expect(client.Call{Tool: "close_books"}, client.AnswerPending).ApprovalID
	w.lineCard(c, 1)
	w.tapLINE("hana", c, "approve")
	w.told("close_books: why? Your next message here, within a minute, is the reason")
	w.eventually("the question's receipt", func() bool { // nobody answers it faster than that
		page, err := w.hana.Notifications(w.ctx, client.NotificationQuery{Status: "queued"})
		return err == nil && len(page.Items) == 0
	})
	say("all in", "")
	w.told("Approved: “Run close_books” (bot, ")
	if r := w.status(c); r.Status != "approved" || r.ResolveReason != "all in" {
		t.Errorf("%+v", r)
	}
}

func TestTypedWordsInSlack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.expect(transfer(2400), client.AnswerPending).ApprovalID
	w.slackCard(id)
	w.ok(w.chat.Slack.Type(w.ctx, "hana", "yes", ""))
	dm := w.chat.Slack.DM("hana")
	var card emulator.SlackMessage
	if err := w.chat.WaitFor(w.ctx, func() bool {
		for _, m := range w.chat.Slack.Messages(dm) {
			if strings.Contains(string(m.Blocks), id) {
				card = m
				return true
			}
		}
		return false
	}); err != nil {
		t.Fatal("no card in the direct messages")
	}
	w.eventually("the card's receipt", func() bool { // nobody quotes it faster than that
		for _, n := range w.notifications(client.NotificationQuery{ApprovalID: id, Channel: "slack"}) {
			if n.Kind == "reply" && n.Status == "sent" {
				return true
			}
		}
		return false
	})
	w.ok(w.chat.Slack.Type(w.ctx, "hana", "deny: not today", card.TS))
	w.eventually("the denial", func() bool { return w.status(id).Status == "denied" })
	if r := w.status(id); r.ResolveReason != "not today" {
		t.Errorf("%+v", r)
	}
	for _, channel := range []string{"C0APPROVALS", dm} {
		if err := w.chat.WaitFor(w.ctx, func() bool {
			for _, m := range w.chat.Slack.Messages(channel) {
				if strings.Contains(string(m.Blocks), id) && strings.Contains(string(m.Blocks), `"actions"`) {
					return false
				}
			}
			return true
		}); err != nil {
			t.Errorf("a card in %s still has buttons", channel)
		}
	}
}

func TestABatchIsOneCard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answers, err := w.bot.CallBatch(w.ctx, []client.Call{transfer(2500), {Tool: "read_ledger"}, transfer(2501)})
	if err != nil {
		t.Fatal(err)
	}
	if answers[0].Kind != client.AnswerPending || answers[1].Kind != client.AnswerAllow ||
		answers[2].Kind != client.AnswerPending {
		t.Fatalf("%+v", answers)
	}
	card := w.slackCard(answers[0].ApprovalID)
	if !strings.Contains(string(card.Blocks), answers[2].ApprovalID) {
		t.Error("the second call is not on the card")
	}
	line := w.lineCard(answers[0].ApprovalID, 1)
	if !strings.Contains(string(line.JSON), answers[2].ApprovalID) {
		t.Error("the second call is not on the LINE card")
	}
	if n := len(w.notifications(client.NotificationQuery{})); n != 2 {
		t.Errorf("%d notifications for two recipients", n)
	}
	w.denySlack("ken", answers[0].ApprovalID, "not this one")
	batch, err := w.hana.Approval(w.ctx, answers[2].ApprovalID)
	if err != nil || batch.Status != "pending" {
		t.Fatalf("%+v, %v", batch, err)
	}
	w.tapLINE("hana", answers[2].ApprovalID, "approve")
	w.eventually("both decided on the Slack card", func() bool {
		return !strings.Contains(string(w.slackCard(answers[0].ApprovalID).Blocks), `"actions"`)
	})
}

func TestTheOutboxKeepsItsPromises(t *testing.T) {
	t.Parallel()
	line := func(w *world, id string) client.Notification {
		for _, n := range w.notifications(client.NotificationQuery{ApprovalID: id, Channel: "line"}) {
			if n.Kind == "request" {
				return n
			}
		}
		return client.Notification{}
	}
	cards := func(w *world, id string) int {
		n := 0
		for _, m := range w.chat.LINE.Chat("hana") {
			if strings.Contains(string(m.JSON), id) {
				n++
			}
		}
		return n
	}
	for _, tt := range []struct {
		name   string
		fault  emulator.Fault
		times  int
		status string
		reason string
		cards  int
	}{
		{"500 is tried again", emulator.ServerError(), 1, "sent", "", 1},
		{"a lost answer is tried again with the same key and shown once", emulator.LostResponse(), 1, "sent", "", 1},
		{"a refused connection is tried again", emulator.ConnectionClosed(), 2, "sent", "", 1},
		{"garbage is an unknown outcome", emulator.Garbage(), 1, "sent", "", 1},
		{"the monthly limit is final", emulator.MonthlyLimit(), 1, "failed", "monthly_limit", 0},
		{"enough is enough", emulator.ServerError(), 4, "failed", "unavailable", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.chat.Fail(emulator.LINEPush, tt.times, tt.fault)
			id := w.expect(transfer(2600), client.AnswerPending).ApprovalID
			w.eventually("the row is "+tt.status, func() bool { return line(w, id).Status == tt.status })
			n := line(w, id)
			if !strings.HasPrefix(n.Error, tt.reason) || cards(w, id) != tt.cards {
				t.Errorf("error %q, %d cards", n.Error, cards(w, id))
			}
			bodies, keys := map[string]bool{}, map[string]bool{}
			for _, c := range w.chat.Calls(emulator.LINEPush) {
				if strings.Contains(string(c.Body), id) {
					bodies[string(c.Body)], keys[c.Header.Get("X-Line-Retry-Key")] = true, true
				}
			}
			if len(keys) != 1 || len(bodies) != 1 {
				t.Errorf("%d keys, %d bodies", len(keys), len(bodies))
			}
			if tt.status == "failed" {
				again, err := w.hana.RetryNotification(w.ctx, n.ID)
				if err != nil || again.ID != n.ID {
					t.Fatalf("%+v, %v", again, err)
				}
				w.lineCard(id, 1)
			}
		})
	}
}

func TestADeadTokenPausesTheChannelUntilAReload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env["LINE_TOKEN"] = "test-line-token-that-is-wrong"
	if err := w.app.Reload(w.ctx); err != nil {
		t.Fatal(err)
	}
	a := w.expect(transfer(2700), client.AnswerPending).ApprovalID
	b := w.expect(transfer(2701), client.AnswerPending).ApprovalID
	w.eventually("a problem in /readyz", func() bool {
		return strings.Contains(w.get("/readyz"), "channel line is paused")
	})
	w.slackCard(b) // the other channel goes on
	for _, id := range []string{a, b} {
		for _, n := range w.notifications(client.NotificationQuery{ApprovalID: id, Channel: "line"}) {
			if n.Attempt > 1 || n.Status == "failed" {
				t.Errorf("the pause cost attempts: %+v", n)
			}
		}
	}
	w.env["LINE_TOKEN"] = secrets["LINE_TOKEN"]
	if err := w.app.Reload(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.lineCard(a, 1)
	w.lineCard(b, 1)
}

func TestRule7_ARestartGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pending := w.expect(transfer(2800), client.AnswerPending).ApprovalID
	w.lineCard(pending, 1)
	w.chat.Fail(emulator.LINEPush, -1, emulator.ServerError())
	unsent := w.expect(transfer(2801), client.AnswerPending).ApprovalID
	w.eventually("a try", func() bool {
		ns := w.notifications(client.NotificationQuery{ApprovalID: unsent, Channel: "line"})
		return len(ns) == 1 && ns[0].Status == "retrying"
	})
	w.stop()
	w.chat.Reset()
	w.chat.SetWebhooks("", "")
	w.start()
	w.lineCard(unsent, 1)
	if r := w.status(pending); r.Status != "pending" {
		t.Errorf("%s", r.Status)
	}
	if _, err := w.hana.Decide(w.ctx, pending, client.Approve, ""); err != nil {
		t.Fatal(err)
	}
	w.expect(transfer(2800), client.AnswerApproved)
}

func TestStopLetsThoseWhoWaitGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	done := make(chan client.Answer, 1)
	go func() {
		a, err := w.bot.CallWait(w.ctx, transfer(2900), 50*time.Second)
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	w.slackCard("2900")
	start := time.Now()
	w.stop()
	if a := testkit.Receive(t, "the answer", done); a.Kind != client.AnswerPending {
		t.Errorf("%+v", a)
	}
	if took := time.Since(start); took > 40*time.Second { // its own time was not up
		t.Errorf("stopping took %v", took)
	}
}

func TestAConfigurationThatChangesDuringTheStartIsReloaded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stop()
	w.loaded = func() { w.write(replacing("use_within: 15m", "use_within: 5m")(w.read())) }
	w.start()
	w.eventually("the reload", func() bool { return strings.Contains(w.log.String(), "was reloaded and is in force") })
}

func TestReloadIsWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(w.path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(configText, "risk: high", "risk: hihg", 1))
	w.eventually("a failed reload on record", func() bool { return len(w.audit("policy_reload_failed")) == 1 })
	if said := w.log.String(); strings.Count(said, "the running one stays in force") != 1 ||
		strings.Count(said, "hihg") != 1 {
		t.Errorf("it was not said loudly, once: %s", said)
	}
	w.expect(transfer(3000), client.AnswerPending)
	write(strings.Replace(configText, `tools: [format_disk], risk: critical, action: deny`,
		`tools: [format_disk], risk: critical, action: quarantine`, 1))
	w.eventually("a reload on record", func() bool { return len(w.audit("policy_reloaded")) == 1 })
	w.eventually("it is in force", func() bool { return strings.Contains(w.log.String(), "reloaded and is in force") })
	w.expect(client.Call{Tool: "format_disk"}, client.AnswerPending)
	if e := w.audit("policy_reloaded")[0]; !strings.Contains(string(e.Data), "no disks") {
		t.Errorf("the audit does not say what was loosened: %s", e.Data)
	}
}

func TestAReloadMasksAnewInTheAuditLogToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	read := func(iban string) string {
		w.expect(client.Call{Tool: "read_file", Args: json.RawMessage(`{"iban":"` + iban + `"}`)}, client.AnswerAllow)
		return string(w.audit("call_allowed")[0].Data)
	}
	if got := read("DE02120300000000202051"); !strings.Contains(got, "DE0212") {
		t.Errorf("masked before: %s", got)
	}
	if err := os.WriteFile(w.path, []byte(configText+"mask: {keys: [iban]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.eventually("a reload on record", func() bool { return len(w.audit("policy_reloaded")) == 1 })
	w.eventually("the new names are masked", func() bool {
		return !strings.Contains(read("DE02500105170137075030"), "DE0250")
	})
}

func TestRule7_AWebhookThatCannotBeStoredIs503AndComesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.expect(transfer(3100), client.AnswerPending).ApprovalID
	w.lineCard(id, 1)
	unlock := lockFile(t, w.env["STORE"])
	d, err := w.chat.LINE.Tap(w.ctx, "hana", "", "action=approve&id="+id)
	if err != nil || d.Status != http.StatusServiceUnavailable {
		t.Errorf("while the store is locked: %v, %d", err, d.Status)
	}
	if got := w.get("/readyz"); !strings.Contains(got, "does not answer") {
		t.Errorf("readiness while nothing can be written: %s", got)
	}
	unlock()
	if r := w.status(id); r.Status != "pending" {
		t.Fatalf("the refused tap decided: %s", r.Status)
	}
	again, err := w.chat.Resend(w.ctx, d)
	if err != nil || again.Status != 200 {
		t.Fatalf("%v, %d", err, again.Status)
	}
	if r := w.status(id); r.Status != "approved" {
		t.Errorf("the tap that came again: %s", r.Status)
	}
}

func TestOperations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := w.get("/healthz"); got != "ok\n" {
		t.Errorf("healthz %q", got)
	}
	var ready struct {
		Status   string
		Problems []string
	}
	if err := json.Unmarshal([]byte(w.get("/readyz")), &ready); err != nil || ready.Status != "ready" ||
		len(ready.Problems) != 0 {
		t.Errorf("%+v, %v", ready, err)
	}
	id := w.expect(transfer(3200), client.AnswerPending).ApprovalID
	w.lineCard(id, 1)
	w.tapLINE("hana", id, "approve")
	w.eventually("the counts", func() bool {
		m := w.get("/metrics")
		for _, want := range []string{`countersign_events_total{decision="approve",type="hitl_decision"} 1`,
			"countersign_requests_pending 0",
			`countersign_webhook_events_total{channel="line",result="decided"} 1`,
			`countersign_notification_tries_total{channel="line",kind="request",reason="",result="sent"} 1`,
			"countersign_build_info"} {
			if !strings.Contains(m, want) {
				return false
			}
		}
		return true
	})
}

func TestNoPathIsRedirected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer c.CloseIdleConnections()
	for _, path := range []string{"//v1/calls", "/v1/./calls", "/v1/../v1/calls", "/healthz/", "//healthz"} {
		res, err := c.Post(w.url(path), "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode < 400 || res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", path, res.StatusCode, res.Header.Get("Content-Type"))
		}
	}
}

func TestRule10_AGateThatReachesNobodySaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stop()
	cut := strings.Index(configText, "channels:")
	end := strings.Index(configText, "notifications:")
	if err := os.WriteFile(w.path, []byte(configText[:cut]+configText[end:]), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	res, err := http.Get(w.url("/readyz"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if got := w.get("/readyz"); res.StatusCode != 200 || !strings.Contains(got, "no channel has a recipient") {
		t.Errorf("%d %s", res.StatusCode, got)
	}
	if got := w.get("/webhook/line"); !strings.Contains(got, "not configured") {
		t.Errorf("a webhook of no channel: %s", got)
	}
}

func TestStopIsIdempotentAndMayComeFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stop()
	w.stop()
	if err := w.app.Start(); err == nil {
		t.Error("started after it was stopped")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.app.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// From the platform to the row: only the word and the id, or the quote, approves; whatever else begins with a yes
// brings the card.
func TestTypedWordsThatSayMoreApproveNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.expect(transfer(2310), client.AnswerPending).ApprovalID
	card := w.lineCard(id, 1)
	for i, text := range []string{"approve " + id + ": lol no way", "同意 " + id + " 才怪", "承認 " + id + " しない", "อนุมัติ " +
		id + " ไหม", "approve " + id + " checked with Ken", "approve " + id + "?"} {
		w.ok(w.chat.LINE.Type(w.ctx, "hana", text, ""))
		w.told("Nothing was decided: an approval is the word and the id, and nothing else")
		w.lineCard(id, 2+i) // it came in the reply
		if r := w.status(id); r.Status != "pending" {
			t.Fatalf("%q: %s", text, r.Status)
		}
	}
	w.ok(w.chat.LINE.Type(w.ctx, "hana", "approve: lol no way", card.ID))
	w.told("Nothing was decided: an approval is the word and the id, and nothing else")
	w.ok(w.chat.LINE.Type(w.ctx, "hana", "proceed "+id+".", ""))
	w.told("Approved: “Run transfer_credits: ")
	other := w.expect(transfer(2311), client.AnswerPending).ApprovalID
	w.lineCard(other, 1)
	w.ok(w.chat.LINE.Type(w.ctx, "hana", "cancel", ""))
	w.told("Denied: “Run transfer_credits: ")
}
