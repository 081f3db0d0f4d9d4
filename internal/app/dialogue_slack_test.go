package app_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/emulator"
	"countersign/internal/testkit"
)

// In Slack.

const approvals = "C0APPROVALS"

// presses presses a button of a card; an empty value means whichever request.
func (d *dialogue) presses(person, action, id string) emulator.Delivery {
	d.t.Helper()
	what := "presses " + action
	if id != "" {
		what += " at " + id
	}
	d.act(person, what)
	return d.ok(d.chat.Slack.Tap(d.ctx, person, approvals, "", action, id))
}

// submits fills in the dialog that somebody sees, and tells what becomes of it.
func (d *dialogue) submits(person, reason string) emulator.Delivery {
	d.t.Helper()
	d.act(person, "submits the dialog with the reason: "+reason)
	got := d.ok(d.chat.Slack.Views.Submit(d.ctx, person, "", typedReason(reason)))
	d.dialog(person)
	return got
}

// again delivers the same thing once more, which must change nothing.
func (d *dialogue) again(got emulator.Delivery) {
	d.t.Helper()
	d.act("Slack", "delivers the same once more")
	if again := d.ok(d.chat.Resend(d.ctx, got)); len(again.Body) != 0 {
		d.t.Errorf("answered %s", again.Body)
	}
}

func (d *dialogue) slashes(person, text string) {
	d.t.Helper()
	d.act(person, "types: /countersign "+text)
	d.ok(d.chat.Slack.Slash(d.ctx, person, approvals, "/countersign", text))
}

func TestDialogueSlackDeny(t *testing.T) {
	t.Parallel()
	d := startDialogue(t,
		"Deny in Slack opens a dialog; the reason reaches the agent word for word. Closing it, or a press that comes twice, decides nothing.", peopleSlack, channelsSlack)
	id := d.calls(payment)
	card := d.slack(approvals, 1)[0]
	d.presses("ken", "deny", "")
	d.dialog("ken")
	d.act("ken", "cancels")
	if _, err := d.chat.Slack.Views.Close(d.ctx, "ken", ""); err != nil {
		t.Fatal(err)
	}
	if s := d.status(id).Status; s != "pending" {
		t.Errorf("cancelling left it %s", s)
	}
	press := d.presses("ken", "deny", "")
	d.again(press)
	d.dialog("ken")
	submitted := d.submits("ken", "wrong account; it is <@U0BOT> & *not* 0xAbC")
	d.slack(approvals, 1)
	d.edit(card)
	d.again(press)
	d.again(submitted)
	d.hearsBack(1)
	d.done("slack_deny")
}

func TestDialogueSlackDenyWithoutAReason(t *testing.T) {
	t.Parallel()
	d := startDialogue(t,
		"The dialog's field may stay empty where no reason is required; where one is, the dialog says so and stays.",
		peopleSlack, channelsSlack)
	d.calls(payment)
	card := d.slack(approvals, 1)[0]
	d.presses("ken", "deny", "")
	d.submits("ken", "")
	d.slack(approvals, 1)
	d.edit(card)
	d.hearsBack(1)
	id := d.calls(closing)
	card = d.slack(approvals, 1)[0]
	d.presses("ken", "deny", "")
	d.dialog("ken")
	d.submits("ken", "  ")
	if s := d.status(id).Status; s != "pending" {
		t.Errorf("denied without a reason: %s", s)
	}
	d.submits("ken", "too early")
	d.slack(approvals, 1)
	d.edit(card)
	d.hearsBack(1)
	d.done("slack_deny_without_reason")
}

func TestDialogueSlackLate(t *testing.T) {
	t.Parallel()
	d := startDialogue(t,
		"Whoever fills in a dialog is judged anew: somebody else may have been faster, or the time be over.", peopleSlack,
		channelsSlack)
	id := d.calls(payment)
	card := d.slack(approvals, 1)[0]
	d.presses("ken", "deny", "")
	d.slashes("hana", "approve "+id)
	d.slack(approvals, 1)
	d.edit(card)
	d.submits("ken", "wrong account")
	d.act("ken", "presses a button of the old card")
	p, err := d.chat.Slack.BlockActions("ken", approvals, card.TS, "deny", id)
	if err != nil {
		t.Fatal(err)
	}
	d.ok(d.chat.Slack.Post(d.ctx, emulator.SlackPost{Payload: p}))
	d.slack(approvals, 1)
	d.calls(closing)
	card = d.slack(approvals, 1)[0]
	d.presses("ken", "approve", "")
	d.dialog("ken")
	d.later(31*time.Minute, "half an hour passes")
	d.submits("ken", "the auditors signed")
	d.edit(card)
	d.hearsBack(2)
	d.done("slack_late")
}

func TestDialogueSlackApprove(t *testing.T) {
	t.Parallel()
	d := startDialogue(t, "Approve decides at once, but asks for the reason where one is required.", peopleSlack,
		channelsSlack)
	d.calls(payment)
	card := d.slack(approvals, 1)[0]
	d.presses("ken", "approve", "")
	d.dialog("ken")
	d.slack(approvals, 1)
	d.edit(card)
	d.calls(closing)
	card = d.slack(approvals, 1)[0]
	d.presses("ken", "approve", "")
	d.dialog("ken")
	d.submits("ken", "the auditors signed")
	d.slack(approvals, 1)
	d.edit(card)
	d.calls(closing)
	d.done("slack_approve")
}

func TestDialogueSlackTwoPeople(t *testing.T) {
	t.Parallel()
	d := startDialogue(t,
		"A call that takes two people waits for both; its card says how far it has come. The menu beside the buttons has one hour more.", peopleSlack, channelsSlack)
	id := d.calls(payout)
	card := d.slack(approvals, 1)[0]
	d.presses("ken", "approve", "")
	d.slack(approvals, 1)
	d.edit(card)
	d.presses("ken", "approve", "")
	d.slack(approvals, 1)
	d.presses("ken", "more", "extend:"+id)
	d.slack(approvals, 1)
	d.edit(card)
	d.presses("hana", "approve", "")
	d.slack(approvals, 1)
	d.edit(card)
	d.hearsBack(1)
	d.calls(payout)
	d.done("slack_two_people")
}

func TestDialogueSlackConfirm(t *testing.T) {
	t.Parallel()
	d := startDialogue(t, "A rule with confirm asks once more in Slack, to whoever pressed alone.", peopleSlack,
		channelsSlack)
	id := d.calls(wiping)
	card := d.slack(approvals, 1)[0]
	d.presses("ken", "approve", "")
	d.slack(approvals, 1)
	d.presses("ken", "confirm", "")
	d.slack(approvals, 1)
	d.edit(card)
	d.calls(wiping)
	if s := d.status(id).Status; s != "approved" {
		t.Errorf("it is %s", s)
	}
	d.done("slack_confirm")
}

func TestDialogueSlackBatch(t *testing.T) {
	t.Parallel()
	d := startDialogue(t,
		"Approve all asks once where one of them needs a reason, and so does Deny all: what is decided together has one reason.", peopleSlack, channelsSlack)
	batch := func(calls ...client.Call) {
		t.Helper()
		d.act("agent", "makes several calls in one turn")
		answers, err := d.bot.CallBatch(d.ctx, calls)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range answers {
			d.tell("  gate", a.Message)
		}
	}
	batch(cents("1"), reopening, cents("2"))
	card := d.slack(approvals, 1)[0]
	all := lastApprove(t, card)
	d.presses("ken", "approve", all)
	d.dialog("ken")
	d.submits("ken", "the auditors signed")
	d.slack(approvals, 1)
	d.edit(card)
	d.hearsBack(3)
	batch(cents("3"), cents("4"))
	card = d.slack(approvals, 1)[0]
	d.presses("ken", "deny", lastApprove(t, card))
	d.dialog("ken")
	d.submits("ken", "not today")
	d.slack(approvals, 1)
	d.edit(card)
	d.hearsBack(2)
	d.done("slack_batch")
}

// cents is a transfer of so many.
func cents(n string) client.Call {
	return client.Call{Tool: "transfer_credits", Args: json.RawMessage(`{"amount_cents":` + n + `}`)}
}

// pressesOld presses a button of a card as it was before it was edited.
func (d *dialogue) pressesOld(person string, card emulator.SlackMessage, action, value string) {
	d.t.Helper()
	d.act(person, "presses "+action+" at "+value+", which an old client still shows")
	p, err := d.chat.Slack.BlockActions(person, approvals, card.TS, action, value)
	if err != nil {
		d.t.Fatal(err)
	}
	d.ok(d.chat.Slack.Post(d.ctx, emulator.SlackPost{Payload: p}))
}

func TestDialogueSlackTurn(t *testing.T) {
	t.Parallel()
	d := startDialogue(t,
		"The calls of a turn come on one card, which is edited as another one joins. Approve all covers what stood on the card that was pressed.", peopleSlack, channelsSlack)
	d.turn("1", cents("1"), cents("2"), wiping)
	d.later(moment, "a moment passes")
	card := d.slack(approvals, 1)[0]
	first := lastApprove(t, card)
	d.turn("1", cents("3"))
	d.edit(card)
	d.pressesOld("ken", card, "approve", first)
	d.slack(approvals, 1)
	d.edit(card)
	d.presses("ken", "approve", "")
	d.slack(approvals, 1)
	d.hearsBack(2)
	d.settled()
	now, _ := d.chat.Slack.Message(approvals, card.TS)
	d.presses("hana", "deny", lastApprove(t, now))
	d.dialog("hana")
	d.submits("hana", "not these")
	d.slack(approvals, 1)
	d.edit(card)
	d.hearsBack(2)
	d.done("slack_turn")
}

func TestDialogueSlackGrant(t *testing.T) {
	t.Parallel()
	d := startDialogue(t,
		"A decided card has a menu by which the same call is not asked about again for a while; whoever made that, or an admin, ends it.", peopleSlack, channelsSlack)
	id := d.turn("1", mail)[0]
	d.later(moment, "a moment passes")
	card := d.slack(approvals, 1)[0]
	d.presses("ken", "approve", "")
	d.slack(approvals, 1)
	d.edit(card)
	d.presses("hana", "grant", "grant:"+id+"&for=8h")
	d.slack(approvals, 1)
	d.presses("ken", "grant", "grant:"+id+"&for=8h")
	d.slack(approvals, 1)
	d.slack(d.chat.Slack.DM("hana"), 1)
	d.turn("1", mail)
	d.turn("2", mail, mail)
	d.slashes("ken", "grants")
	said := d.slack(approvals, 1)[0]
	d.slashes("mai", "grants")
	d.slack(approvals, 1)
	short := shortIn(t, said.Text)
	d.slashes("mai", "revoke "+short)
	d.slack(approvals, 1)
	d.slashes("hana", "revoke "+short)
	d.slack(approvals, 1)
	d.slashes("hana", "revoke "+short)
	d.slack(approvals, 1)
	d.turn("3", mail)
	d.later(moment, "a moment passes")
	d.slack(approvals, 1)
	d.done("slack_grant")
}

// shortIn is the first id in a list.
func shortIn(t *testing.T, list string) string {
	t.Helper()
	_, after, _ := strings.Cut(list, "\n")
	short, _, ok := strings.Cut(after, ":")
	if !ok {
		t.Fatalf("no id in %q", list)
	}
	return short
}

func TestDialogueSlackSaidBefore(t *testing.T) {
	t.Parallel()
	d := startDialogue(t, "A card says what was last decided about the same tool, and what is different now.", peopleSlack,
		channelsSlack)
	d.calls(payment)
	card := d.slack(approvals, 1)[0]
	d.presses("ken", "deny", "")
	d.submits("ken", "wrong account")
	d.slack(approvals, 1)
	d.edit(card)
	d.later(2*time.Minute, "two minutes pass")
	d.calls(client.Call{Tool: payment.Tool, Args: json.RawMessage(`{"amount_cents":2000,"to":"0xAbD"}`)})
	card = d.slack(approvals, 1)[0]
	d.tell("", strings.Join(words([]byte(`{"blocks":`+string(card.Blocks)+`}`)), "\n"))
	d.done("slack_said_before")
}

// lastApprove is what the last Approve on a card names: the batch, where it shows several.
func lastApprove(t *testing.T, card emulator.SlackMessage) string {
	t.Helper()
	var blocks []struct {
		Elements []struct {
			ActionID string `json:"action_id"`
			Value    string
		}
	}
	if err := json.Unmarshal(card.Blocks, &blocks); err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, b := range blocks {
		for _, e := range b.Elements {
			if e.ActionID == "approve" {
				values = append(values, e.Value)
			}
		}
	}
	return values[len(values)-1]
}

func TestDialogueSlackNoDialog(t *testing.T) {
	t.Parallel()
	d := startDialogue(t,
		"Where no dialog can be opened Deny denies without a reason, unless one is required; and a press that comes twice still counts once.", peopleSlack, channelsSlack)
	d.calls(payment)
	card := d.slack(approvals, 1)[0]
	d.chat.Fail(emulator.SlackViewsOpen, 1, emulator.SlackError("expired_trigger_id"))
	press := d.presses("ken", "deny", "")
	d.dialog("ken")
	d.slack(approvals, 1)
	d.edit(card)
	d.again(press)
	d.hearsBack(1)
	id := d.calls(closing)
	d.slack(approvals, 1)
	d.chat.Fail(emulator.SlackViewsOpen, 1, emulator.SlackError("internal_error"))
	press = d.presses("ken", "deny", "")
	d.dialog("ken")
	d.slack(approvals, 1)
	d.again(press)
	d.slashes("ken", "deny "+id+" too early")
	d.slack(approvals, 1)
	d.hearsBack(1)
	d.done("slack_no_dialog")
}

func TestDialogueSlackSlashCommands(t *testing.T) {
	t.Parallel()
	d := startDialogue(t, "What can be typed after /countersign; only whoever typed it sees the answer.", peopleSlack,
		channelsSlack)
	d.slashes("hana", "")
	d.slack(approvals, 1)
	d.slashes("hana", "pending")
	d.slack(approvals, 1)
	id := d.calls(payment)
	card := d.slack(approvals, 1)[0]
	d.slashes("hana", "pending")
	d.slack(approvals, 1)
	listed := d.slack(d.chat.Slack.DM("hana"), 1)[0]
	d.slashes("hana", "show "+id)
	d.slack(approvals, 1)
	d.slashes("hana", "status")
	d.settled()
	d.slack(approvals, 1)
	d.slashes("hana", "log")
	d.slack(approvals, 1)
	d.slashes("ken", "log")
	d.slack(approvals, 1)
	d.slashes("mai", "approve "+id)
	d.slack(approvals, 1)
	d.slashes("noi", "pending")
	d.slack(approvals, 1)
	d.slashes("noi", "help")
	d.slack(approvals, 1)
	d.slashes("noi", "nice weather today")
	d.slack(approvals, 1)
	d.slashes("hana", "deny "+id+" wrong account")
	d.slack(approvals, 1)
	d.edit(card)
	d.edit(listed)
	d.hearsBack(1)
	d.done("slack_slash_commands")
}

func TestDialogueSlackDirectMessagesAndMentions(t *testing.T) {
	t.Parallel()
	d := startDialogue(t,
		"The same words in direct messages, and at the bot's name in a channel, where the answer is theirs alone and cards come as direct messages; in the thread of a card they are about its request.", peopleSlack, channelsSlack)
	id := d.calls(payment)
	card := d.slack(approvals, 1)[0]
	d.act("hana", "mentions the bot in #approvals: status")
	d.ok(d.chat.Slack.Mention(d.ctx, "hana", approvals, "status", ""))
	d.slack(approvals, 1)
	dm := d.chat.Slack.DM("hana")
	d.act("hana", "mentions the bot in #approvals: pending")
	d.ok(d.chat.Slack.Mention(d.ctx, "hana", approvals, "pending", ""))
	d.slack(approvals, 1)
	listed := d.slack(dm, 1)[0]
	d.act("hana", "mentions the bot in #approvals: show "+id)
	d.ok(d.chat.Slack.Mention(d.ctx, "hana", approvals, "show "+id, ""))
	d.slack(dm, 1)
	d.slack(approvals, 1)
	d.act("hana", "types to the bot: show "+id)
	d.ok(d.chat.Slack.Type(d.ctx, "hana", "show "+id, ""))
	d.slack(dm, 1)
	d.act("hana", "mentions the bot in the card's thread: deny: wrong account")
	d.ok(d.chat.Slack.Mention(d.ctx, "hana", approvals, "deny: wrong account", card.TS))
	d.slack(approvals, 1)
	d.edit(card)
	d.edit(listed)
	d.hearsBack(1)
	d.done("slack_messages_and_mentions")
}

func TestDialogueSlackHome(t *testing.T) {
	t.Parallel()
	d := startDialogue(t,
		"The Home tab lists what waits; its buttons decide like a card's, and it is then brought up to date.", peopleSlack,
		channelsSlack)
	opens := func(person string) {
		t.Helper()
		d.act(person, "opens the Home tab")
		d.ok(d.chat.Slack.Views.OpenHome(d.ctx, person))
	}
	has := func(words ...string) func(string) bool {
		return func(text string) bool {
			return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
		}
	}
	opens("hana")
	d.home("hana", has("Nothing"))
	d.calls(payment)
	first := d.slack(approvals, 1)[0]
	d.calls(closing)
	second := d.slack(approvals, 1)[0]
	opens("hana")
	d.home("hana", has("close_books", "transfer_credits"))
	opens("mai")
	d.home("mai", has("mai"))
	opens("noi")
	d.home("noi", has("U0STRANGER"))
	taps := func(action, id string) {
		t.Helper()
		d.act("hana", "presses "+action+" on the Home tab")
		d.ok(d.chat.Slack.Views.TapHome(d.ctx, "hana", action, id))
	}
	taps("approve", lastApprove(t, first))
	dm := d.chat.Slack.DM("hana")
	d.slack(dm, 1)
	d.edit(first)
	d.home("hana", func(s string) bool { return !strings.Contains(s, "transfer_credits") })
	taps("deny", lastApprove(t, second))
	d.submits("hana", "too early")
	d.slack(dm, 1)
	d.edit(second)
	d.home("hana", has("Nothing"))
	d.hearsBack(2)
	d.done("slack_home")
}

func TestDialogueSlackOutsider(t *testing.T) {
	t.Parallel()
	shared := strings.Replace(channelsSlack, "api_url", "allow_shared: true, api_url", 1)
	d := startDialogue(t, "Somebody of another organisation, in a channel that is shared with it, decides nothing.",
		peopleSlack, shared)
	if err := d.chat.Slack.ChangeChannel(approvals, func(c *emulator.Channel) { c.IsExtShared = true }); err != nil {
		t.Fatal(err)
	}
	d.calls(payment)
	d.slack(approvals, 1)
	d.presses("rex", "deny", "")
	d.dialog("rex")
	d.slack(approvals, 1)
	d.presses("rex", "approve", "")
	d.slack(approvals, 1)
	d.done("slack_outsider")
	if n := strings.Count(d.log.String(), "people of another organisation"); n != 1 {
		t.Errorf("warned of %d times", n)
	}
}

func TestDialogueSocketMode(t *testing.T) {
	t.Parallel()
	d := startDialogue(t,
		"Without a public address, over Socket Mode: buttons, dialogs, typed words and the Home tab, and on after Slack closes the connection.", peopleSlack, channelsSocket)
	d.chat.SetWebhooks("", "")
	if _, err := d.chat.Slack.Sockets.Wait(d.ctx, 1); err != nil {
		t.Fatal("no connection")
	}
	over := func(got emulator.Delivery) {
		t.Helper()
		if got.Socket == "" {
			t.Error("it did not go over the socket")
		}
	}
	d.calls(payment)
	card := d.slack(approvals, 1)[0]
	over(d.presses("ken", "deny", ""))
	d.dialog("ken")
	over(d.submits("ken", "wrong account"))
	d.slack(approvals, 1)
	d.edit(card)
	d.hearsBack(1)
	d.act("Slack", "asks for another connection, and closes the first")
	if err := d.chat.Slack.Sockets.Disconnect("", emulator.SocketRefresh); err != nil {
		t.Fatal(err)
	}
	if _, err := d.chat.Slack.Sockets.Wait(d.ctx, 1); err != nil {
		t.Fatal("no other connection")
	}
	id := d.calls(closing)
	card = d.slack(approvals, 1)[0]
	over(d.presses("ken", "approve", ""))
	over(d.submits("ken", " "))
	d.slashes("hana", "deny "+id+" too early")
	d.slack(approvals, 1)
	d.edit(card)
	over(d.submits("ken", "the auditors signed"))
	d.act("hana", "opens the Home tab")
	over(d.ok(d.chat.Slack.Views.OpenHome(d.ctx, "hana")))
	d.home("hana", func(s string) bool { return strings.Contains(s, "Nothing") })
	d.act("hana", "types to the bot: status")
	over(d.ok(d.chat.Slack.Type(d.ctx, "hana", "status", "")))
	d.slack(d.chat.Slack.DM("hana"), 1)
	d.hearsBack(1)
	d.done("slack_socket_mode")
}

// Slack is taken out of the configuration, and put back, while people press buttons over the connection:
// it is closed and opened anew, and what is pressed without it decides nothing.
func TestSocketModeTakenOutAndPutBack(t *testing.T) {
	t.Parallel()
	d := startDialogue(t, "Slack taken out of the configuration and put back.", peopleSlack, channelsSocket)
	d.chat.SetWebhooks("", "")
	with, err := os.ReadFile(d.path)
	if err != nil {
		t.Fatal(err)
	}
	without := strings.Replace(string(with), channelsSocket, "", 1)
	if without == string(with) {
		t.Fatal("Slack is not where it was thought to be")
	}
	sockets := func(n int) {
		t.Helper()
		if open, err := d.chat.Slack.Sockets.Wait(d.ctx, n); err != nil {
			t.Fatalf("%d connections, want %d", len(open), n)
		}
	}
	reload := func(text string) {
		t.Helper()
		if err := os.WriteFile(d.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.app.Reload(d.ctx); err != nil {
			t.Fatal(err)
		}
	}
	sockets(1)
	d.calls(payment)
	d.slack(approvals, 1)
	var pressing sync.WaitGroup
	over := make(chan struct{})
	pressing.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				d.chat.Slack.Tap(d.ctx, "noi", approvals, "", "approve", "")
				d.chat.Slack.Views.OpenHome(d.ctx, "ken")
			}
		}
	})
	for range 3 {
		reload(without)
		sockets(0)
		reload(string(with))
		sockets(1)
	}
	close(over)
	testkit.Wait(t, "all presses", pressing.Wait)
	if n := len(d.audit("hitl_decision")); n != 0 {
		t.Errorf("%d decisions", n)
	}
	d.presses("ken", "approve", "")
	d.eventually("ken's press decides", func() bool { return len(d.audit("hitl_decision")) == 1 })
}
