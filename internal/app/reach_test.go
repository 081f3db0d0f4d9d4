package app_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/emulator"
)

// hanaByAll has hana reached on LINE, else in Slack, else at her own address.
func hanaByAll() []func(string) string {
	return []func(string) string{
		replacing(`slack: U02HANA, token: "${HANA_TOKEN}"}`,
			`slack: U02HANA, webhook: "${HANA_HOOK}", channels: [line, slack, webhook], locale: ja, time_zone: Asia/Tokyo, token: "${HANA_TOKEN}"}`),
		replacing(`, notify: [hana], api_url`, `, api_url`),
		replacing(`channel: C0APPROVALS, `, ``),
		replacing("notifications: {", "  webhook: {signing_secret: \"${HOOK_SECRET}\"}\nnotifications: {"),
	}
}

// cards lists where the cards of a request went, oldest first.
func (w *world) cards(id string) string {
	w.t.Helper()
	var s []string
	ns := w.notifications(client.NotificationQuery{ApprovalID: id})
	slices.Reverse(ns)
	for _, n := range ns {
		if n.Kind == "request" || n.Kind == "reminder" {
			s = append(s, n.Channel+":"+n.Status)
		}
	}
	return strings.Join(s, " ")
}

func TestAMonthThatIsSpentMovesCardsToTheNextChannel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hanaByAll()...)
	w.eventually("the quota of the start is known", func() bool { // who reads 200 of 200 does not ask LINE at all
		return !strings.Contains(w.get("/metrics"), "countersign_line_quota_used -1")
	})
	w.chat.LINE.SetQuota(200)
	w.chat.LINE.SetUsage(200)
	first := w.expect(transfer(2000), client.AnswerPending).ApprovalID
	if err := w.chat.WaitFor(w.ctx, func() bool {
		return len(w.chat.Slack.Messages(w.chat.Slack.DM("hana"))) == 1
	}); err != nil {
		t.Fatal("no card in Slack: ", w.cards(first))
	}
	w.eventually("LINE's refusal is on record", func() bool { return strings.Contains(w.cards(first), "line:failed") })
	if s := string(w.chat.Slack.Messages(w.chat.Slack.DM("hana"))[0].Blocks); !strings.Contains(s, "承認") {
		t.Errorf("the card in Slack is not in hana's language: %s", s)
	}
	if err := w.app.Reload(w.ctx); err != nil { // reads the quota again
		t.Fatal(err)
	}
	w.eventually("the quota is known", func() bool { return strings.Contains(w.get("/readyz"), "used up (200 of 200)") })
	second := w.expect(transfer(3000), client.AnswerPending).ApprovalID
	w.eventually("the second card went straight to Slack", func() bool {
		return strings.Contains(w.cards(second), "slack:sent")
	})
	if got := w.cards(second); got != "slack:sent" {
		t.Errorf("the second card went to %s", got)
	}

	if m := w.get("/metrics"); !strings.Contains(m, "countersign_line_quota_used 200") ||
		!strings.Contains(m, "countersign_line_quota_limit 200") {
		t.Error("the metrics do not tell the quota")
	}
	page, err := w.hana.Notifications(w.ctx, client.NotificationQuery{})
	if err != nil || len(page.Quotas) != 1 || page.Quotas[0].Used != 200 || page.Quotas[0].Limit == nil ||
		*page.Quotas[0].Limit != 200 {
		t.Errorf("the log's quota: %+v, %v", page.Quotas, err)
	}
	w.ok(w.chat.LINE.Type(w.ctx, "hana", "status", "")) // a reply costs nothing
	w.told("200")
}

func TestTheQuotaIsWarnedOfAtFourFifths(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.chat.LINE.SetQuota(200)
	for _, tt := range []struct {
		used int
		want bool
	}{{159, false}, {160, true}} {
		w.chat.LINE.SetUsage(tt.used)
		if err := w.app.Reload(w.ctx); err != nil {
			t.Fatal(err)
		}
		w.eventually("the quota was read", func() bool {
			return strings.Contains(w.get("/metrics"), "countersign_line_quota_used "+itoa(tt.used))
		})
		if got := strings.Contains(w.get("/readyz"), "running out ("+itoa(tt.used)+" of 200)"); got != tt.want {
			t.Errorf("%d of 200: warned %t", tt.used, got)
		}
	}
	w.eventually("one warning in the log", func() bool {
		return strings.Count(w.log.String(), "messages are running out") == 1
	})
}

func TestOurOwnMessagesBringTheQuotasWarning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.chat.LINE.SetQuota(10)
	w.chat.LINE.SetUsage(7)
	if err := w.app.Reload(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.eventually("the quota was read", func() bool {
		return strings.Contains(w.get("/metrics"), "countersign_line_quota_used 7")
	})
	w.expect(transfer(2000), client.AnswerPending)
	w.eventually("the eighth message is warned of", func() bool {
		return strings.Contains(w.log.String(), "messages are running out")
	})
}

// What LINE says of one account, while the configuration changes to another, is not that one's.
func TestAQuotaThatComesTooLateIsNotTheNewAccounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.chat.LINE.SetQuota(200)
	w.chat.LINE.SetUsage(200)
	hold := w.chat.HoldAnswer(emulator.LINEConsumption)
	defer hold.Release()
	if err := w.app.Reload(w.ctx); err != nil { // reads the quota
		t.Fatal(err)
	}
	if err := hold.Wait(w.ctx, 1); err != nil {
		t.Fatal(err)
	}
	w.chat.Fail(emulator.LINEQuota, -1, emulator.ServerError())
	w.env["LINE_SECRET"] = "another-channel-secret-0123456789"
	if err := w.app.Reload(w.ctx); err != nil {
		t.Fatal(err)
	}
	hold.Release()
	w.eventually("the new account was asked", func() bool {
		return strings.Contains(w.log.String(), "LINE did not say how many")
	})
	if m := w.get("/metrics"); !strings.Contains(m, "countersign_line_quota_used -1") {
		t.Error("the old account's quota is taken for the new one's")
	}
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

func TestWhoBlocksTheBotIsReachedElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hanaByAll()...)
	id := w.expect(transfer(2000), client.AnswerPending).ApprovalID
	w.eventually("the card is in LINE", func() bool { return w.cards(id) == "line:sent" })
	w.ok(w.chat.LINE.Unfollow(w.ctx, "hana"))
	w.eventually("the card went on to Slack", func() bool { return strings.Contains(w.cards(id), "slack:sent") })
	w.ok(w.chat.LINE.Follow(w.ctx, "hana"))
	w.told("hana")
	next := w.expect(transfer(3000), client.AnswerPending).ApprovalID
	w.eventually("LINE is used again", func() bool { return w.cards(next) == "line:sent" })
}

func TestACardComesToAPersonsOwnAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(hanaByAll()[:2:2], replacing("channels: [line, slack, webhook]", "channels: [webhook]"),
		hanaByAll()[3])...)
	id := w.expect(transfer(2000), client.AnswerPending).ApprovalID
	got, err := w.chat.Webhooks.Wait(w.ctx, "hana", 1)
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Type != "approval.requested" || !strings.Contains(string(got[0].Body), id) {
		t.Errorf("%+v", got[0])
	}
	if _, err := w.hana.Decide(w.ctx, id, client.Deny, "not now"); err != nil {
		t.Fatal(err)
	}
	if got, err = w.chat.Webhooks.Wait(w.ctx, "hana", 2); err != nil {
		t.Fatal(err)
	}
	if got[1].Type != "approval.resolved" || !strings.Contains(string(got[1].Body), "not now") {
		t.Errorf("%s", got[1].Body)
	}
	for _, n := range w.notifications(client.NotificationQuery{}) {
		if n.Channel == "webhook" && n.Recipient != "hana" {
			t.Errorf("the log shows the recipient %q", n.Recipient)
		}
	}
	if strings.Contains(w.log.String(), w.env["HANA_HOOK"]) {
		t.Error("the log shows the address")
	}
}

func TestARequestThatReachesNobodyGoesToAdmins(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		replacing("slack: U03KEN", "slack: U03KEN, channels: [slack]"),
		replacing("notify: [hana]", "notify: []"), replacing("channel: C0APPROVALS, ", ""))
	w.chat.Fail(emulator.SlackPostMessage, 1, emulator.Answer(200, nil, `{"ok":false,"error":"user_not_found"}`))
	id := w.expect(transfer(2000), client.AnswerPending).ApprovalID
	w.eventually("an admin has the card", func() bool { return w.cards(id) == "slack:failed line:sent" })
	if !strings.Contains(w.log.String(), "admins are told instead") {
		t.Error("it was not said loudly")
	}
	w.tapLINE("hana", id, "approve")
	w.expect(transfer(2000), client.AnswerApproved)
}

func TestARefusedTokenMovesNewCardsToTheNextChannel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hanaByAll()...)
	w.chat.Fail(emulator.LINEPush, 1, emulator.Answer(401, map[string]string{"Content-Type": "application/json"},
		`{"message":"Authentication failed."}`))
	first := w.expect(transfer(2000), client.AnswerPending).ApprovalID
	w.eventually("LINE is paused", func() bool { return strings.Contains(w.get("/readyz"), "the channel line is paused") })
	second := w.expect(transfer(3000), client.AnswerPending).ApprovalID
	w.eventually("the second card is in Slack", func() bool { return w.cards(second) == "slack:sent" })
	if got := w.cards(first); got != "line:queued" { // it keeps its place, and its attempts
		t.Errorf("the first card: %s", got)
	}
}
