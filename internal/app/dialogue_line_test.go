package app_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/emulator"
)

var (
	payment = client.Call{Tool: "transfer_credits", Args: json.RawMessage(`{"amount_cents":2000,"to":"0xAbC"}`)}
	closing = client.Call{Tool: "close_books", Args: json.RawMessage(`{"month":"2026-10"}`)}
)

var (
	wiping = client.Call{Tool: "wipe_disk", Args: json.RawMessage(`{"disk":"/dev/sdb","password":"hunter2hunter2"}`)}
	payout = client.Call{Tool: "pay_out", Args: json.RawMessage(`{"amount_cents":500000,"to":"acme"}`)}
)

var (
	reopening = client.Call{Tool: "reopen_books", Args: json.RawMessage(`{"month":"2026-10"}`)}
	mail      = client.Call{Tool: "send_mail", Args: json.RawMessage(`{"subject":"October","to":"auditors@example.com"}`)}
)

// In LINE.

func (d *dialogue) tapsLINE(person, id, verb string) emulator.Delivery {
	d.t.Helper()
	d.act(person, "taps "+verb)
	got := d.ok(d.chat.LINE.Tap(d.ctx, person, "", "action="+verb+"&id="+id))
	if got.FillIn != "" {
		d.tell("  LINE", "opens the keyboard with \""+got.FillIn+"\"")
	}
	return got
}

func (d *dialogue) typesLINE(person, text, quoted string) {
	d.t.Helper()
	what := "types: " + text
	if quoted != "" {
		what = "types, quoting the card: " + text
		d.receipted()
	}
	d.act(person, what)
	d.ok(d.chat.LINE.Type(d.ctx, person, text, quoted))
}

func TestDialogueLINEDenyThenTheReason(t *testing.T) {
	t.Parallel()
	d := startDialogue(t, "A denial in LINE asks why, and the next text reaches the agent word for word.", peopleLINE,
		channelsLINE)
	id := d.calls(payment)
	d.line("hana", 1)
	d.tapsLINE("hana", id, "deny")
	d.line("hana", 2)
	d.hearsBack(1)
	d.act("hana", "types on: wrong account; ask Ken for “the new one” 🙏")
	d.ok(d.chat.LINE.Complete(d.ctx, "hana", "wrong account; ask Ken for “the new one” 🙏"))
	d.line("hana", 1)
	d.hearsBack(1)
	d.typesLINE("hana", "and another thing", "")
	d.line("hana", 1)
	d.tapsLINE("hana", id, "approve")
	d.line("hana", 1)
	d.calls(payment)
	d.done("line_deny_then_reason")
}

func TestDialogueLINEDenyWithAReasonRequired(t *testing.T) {
	t.Parallel()
	d := startDialogue(t, "Where a reason is required nothing is decided in LINE without one.", peopleLINE, channelsLINE)
	id := d.calls(closing)
	d.line("hana", 1)
	d.tapsLINE("hana", id, "deny")
	d.line("hana", 1)
	if s := d.status(id).Status; s != "pending" {
		t.Errorf("denied without a reason: %s", s)
	}
	d.typesLINE("hana", "reason: ", "")
	d.line("hana", 1)
	d.typesLINE("hana", "the invoices of October are not all in", "")
	d.line("hana", 1)
	d.hearsBack(1)
	d.done("line_deny_reason_required")
}

func TestDialogueLINESuggestedReason(t *testing.T) {
	t.Parallel()
	d := startDialogue(t, "A reason that is suggested is one tap.", peopleLINE, channelsLINE)
	id := d.calls(payment)
	d.line("hana", 1)
	d.tapsLINE("hana", id, "deny")
	d.line("hana", 2)
	d.act("hana", "taps (Wrong target)")
	d.ok(d.chat.LINE.Tap(d.ctx, "hana", "", "Wrong target"))
	d.line("hana", 1)
	d.hearsBack(1)
	d.done("line_suggested_reason")
}

func TestDialogueLINEByQuoting(t *testing.T) {
	t.Parallel()
	d := startDialogue(t, "Words that quote a card are about its request, however many wait.", peopleLINE, channelsLINE)
	d.calls(payment)
	first := d.line("hana", 1)[0]
	d.calls(closing)
	second := d.line("hana", 1)[0]
	d.typesLINE("hana", "no", "")
	d.line("hana", 3)
	d.typesLINE("hana", "deny: wrong account", first.ID)
	d.line("hana", 1)
	d.typesLINE("hana", "deny", second.ID)
	d.line("hana", 1)
	d.typesLINE("hana", "not before the auditors are gone", second.ID)
	d.line("hana", 1)
	d.hearsBack(2)
	d.done("line_by_quoting")
}

func TestDialogueLINEExplicit(t *testing.T) {
	t.Parallel()
	d := startDialogue(t, "An id says which request is meant; a denial without a reason is given one by denying again.",
		peopleLINE, channelsLINE)
	id := d.calls(payment)
	d.line("hana", 1)
	d.typesLINE("hana", "deny "+id, "")
	d.line("hana", 2)
	d.typesLINE("hana", "deny "+strings.ToLower(id)+" wrong account", "")
	d.line("hana", 1)
	d.hearsBack(1)
	d.typesLINE("hana", "deny "+id+" another reason", "")
	d.line("hana", 1)
	next := d.calls(closing)
	d.line("hana", 1)
	d.typesLINE("hana", "deny "+next+" too early", "")
	d.line("hana", 1)
	d.hearsBack(1)
	d.done("line_explicit")
}

func TestDialogueLINEApproveWithAReasonRequired(t *testing.T) {
	t.Parallel()
	d := startDialogue(t, "An approval that needs a reason: the gate asks for it, and only the next message is it.",
		peopleLINE, channelsLINE)
	id := d.calls(closing)
	card := d.line("hana", 1)[0]
	d.tapsLINE("hana", id, "approve")
	d.line("hana", 1)
	d.typesLINE("hana", "approve: the auditors signed", card.ID)
	d.line("hana", 2)
	d.typesLINE("hana", "approve "+id, "")
	d.line("hana", 1)
	d.typesLINE("hana", "back", "")
	d.line("hana", 1)
	d.typesLINE("hana", "the auditors signed", "")
	d.line("hana", 1)
	d.typesLINE("hana", "approve "+id, "")
	d.line("hana", 1)
	d.receipted()
	d.typesLINE("hana", "the auditors signed", "")
	d.line("hana", 1)
	d.hearsBack(1)
	d.calls(closing)
	d.done("line_approve_reason_required")
}

// answersLINE presses a button of the newest question in LINE.
func (d *dialogue) answersLINE(person, label string) {
	d.t.Helper()
	d.act(person, "taps "+label)
	d.ok(d.chat.LINE.Tap(d.ctx, person, "", label))
}

func TestDialogueLINEConfirm(t *testing.T) {
	t.Parallel()
	d := startDialogue(t, "A rule with confirm asks once more in LINE; Back does nothing, and neither does a second yes.",
		peopleLINE, channelsLINE)
	id := d.calls(wiping)
	d.line("hana", 1)
	d.tapsLINE("hana", id, "approve")
	d.line("hana", 1)
	d.answersLINE("hana", "Back")
	d.line("hana", 1)
	d.answersLINE("hana", "Yes, approve")
	d.line("hana", 1)
	d.typesLINE("hana", "approve "+id[20:], "")
	d.line("hana", 1)
	d.later(3*time.Minute, "three minutes go by")
	d.answersLINE("hana", "Yes, approve")
	d.line("hana", 1)
	d.tapsLINE("hana", id, "approve")
	d.line("hana", 1)
	d.answersLINE("hana", "Yes, approve")
	d.line("hana", 1)
	d.answersLINE("hana", "Freeze bot…")
	d.line("hana", 1)
	d.answersLINE("hana", "Yes, freeze")
	d.line("hana", 1)
	d.act("agent", "calls again")
	d.tell("  gate", d.call(wiping).Message)
	d.typesLINE("hana", "unfreeze bot", "")
	d.line("hana", 1)
	d.done("line_confirm")
}

func TestDialogueLINETooLate(t *testing.T) {
	t.Parallel()
	d := startDialogue(t, "Cards in LINE keep their buttons: a tap on an old one is told how it ended.", peopleLINE,
		channelsLINE)
	id := d.calls(payment)
	d.line("hana", 1)
	d.later(31*time.Minute, "half an hour passes")
	d.tapsLINE("hana", id, "approve")
	d.line("hana", 1)
	d.hearsBack(1)
	d.done("line_too_late")
}

func TestDialogueLINEFollow(t *testing.T) {
	t.Parallel()
	d := startDialogue(t,
		"Whoever adds the bot is greeted and told the id for the configuration; whoever blocks it is not written to.",
		peopleLINE, channelsLINE)
	d.act("noi", "adds the bot")
	d.ok(d.chat.LINE.Follow(d.ctx, "noi"))
	d.line("noi", 1)
	d.act("noi", "types: help")
	d.ok(d.chat.LINE.Type(d.ctx, "noi", "help", ""))
	d.line("noi", 1)
	d.act("noi", "types: nice weather today")
	d.ok(d.chat.LINE.Type(d.ctx, "noi", "nice weather today", ""))
	d.line("noi", 1)
	d.act("noi", "types: pending")
	d.ok(d.chat.LINE.Type(d.ctx, "noi", "pending", ""))
	d.line("noi", 1)
	d.calls(payment)
	d.line("hana", 1)
	d.act("hana", "blocks the bot")
	d.ok(d.chat.LINE.Unfollow(d.ctx, "hana"))
	d.calls(closing)
	d.act("hana", "adds the bot again")
	d.ok(d.chat.LINE.Follow(d.ctx, "hana"))
	d.line("hana", 1)
	d.typesLINE("hana", "pending", "")
	d.line("hana", 3)
	d.done("line_follow")
}

// commands types every command in one language.
func commands(t *testing.T, locale, zone string, pending, show, log, status, help, deny, reason string) {
	people := strings.Replace(peopleLINE, "token:", "locale: "+locale+", time_zone: "+zone+", token:", 1)
	d := startDialogue(t, "What can be typed in LINE, in the language "+locale+".", people, channelsLINE)
	d.typesLINE("hana", pending, "")
	d.line("hana", 1)
	id := d.calls(payment)
	d.line("hana", 1)
	d.typesLINE("hana", pending, "")
	card := d.line("hana", 2)[1]
	d.typesLINE("hana", show+" "+id, "")
	d.line("hana", 1)
	d.typesLINE("hana", show, card.ID)
	d.line("hana", 1)
	d.typesLINE("hana", status, "")
	d.line("hana", 1)
	d.settled()
	d.typesLINE("hana", log, "")
	d.line("hana", 1)
	d.typesLINE("hana", help, "")
	d.line("hana", 1)
	d.typesLINE("hana", "こんにちは hello", "")
	d.line("hana", 1)
	d.typesLINE("hana", deny+" "+id+" "+reason, "")
	d.line("hana", 1)
	d.hearsBack(1)
	d.done("line_commands_" + locale)
}

func TestDialogueCommandsInEnglish(t *testing.T) {
	t.Parallel()
	commands(t, "en", "UTC", "pending", "show", "log", "status", "help", "deny", "wrong account")
}

func TestDialogueCommandsInJapanese(t *testing.T) {
	t.Parallel()
	commands(t, "ja", "Asia/Tokyo", "保留中", "詳細", "ログ", "状況", "ヘルプ", "却下", "口座が違います")
}

func TestDialogueCommandsInThai(t *testing.T) {
	t.Parallel()
	commands(t, "th", "Asia/Bangkok", "รออนุมัติ", "แสดง", "บันทึก", "สถานะ", "ช่วยเหลือ", "ปฏิเสธ", "ผิดบัญชี")
}

func TestDialogueCommandsInChinese(t *testing.T) {
	t.Parallel()
	commands(t, "zh-TW", "Asia/Taipei", "待審", "顯示", "記錄", "狀態", "說明", "拒絕", "帳號不對")
}

// allOf is what the button for all of a card names.
func allOf(t *testing.T, card emulator.LINEMessage) string {
	t.Helper()
	_, after, ok := strings.Cut(string(card.JSON), "action=approve")
	if !ok {
		t.Fatal("the card has no Approve")
	}
	data, err := strconv.Unquote("\"" + after[:strings.IndexByte(after, '"')] + "\"")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(data, "&id=")
}

func TestDialogueLINETurn(t *testing.T) {
	t.Parallel()
	d := startDialogue(t,
		"The calls of a turn come on one card. What joined a card that cannot be edited comes with the answer to whoever decides all of it.", peopleLINE, channelsLINE)
	d.turn("1", cents("1"), cents("2"))
	d.later(moment, "a moment passes")
	card := d.line("hana", 2)[0] // and the calls one by one
	last := d.turn("1", cents("3"))[0]
	d.tapsLINE("hana", allOf(t, card), "approve")
	d.line("hana", 2)
	d.hearsBack(2)
	d.tapsLINE("hana", last, "deny")
	d.line("hana", 2)
	d.hearsBack(1)
	d.turn("2", cents("4"), reopening)
	d.later(moment, "a moment passes, in which hana may be typing why")
	d.later(20*time.Second, "20 seconds pass")
	card = d.line("hana", 2)[0] // and the calls one by one
	d.turn("2", cents("5"))
	d.tapsLINE("hana", allOf(t, card), "deny")
	d.line("hana", 1)
	d.typesLINE("hana", "not this month", "")
	d.line("hana", 2)
	d.hearsBack(2)
	d.done("line_turn")
}

func TestDialogueLINEGrant(t *testing.T) {
	t.Parallel()
	d := startDialogue(t, "The answer to an approval offers not to ask about the same call again for a while.", peopleLINE,
		channelsLINE)
	id := d.turn("1", mail)[0]
	d.later(moment, "a moment passes")
	d.line("hana", 1)
	d.tapsLINE("hana", id, "approve")
	d.line("hana", 1)
	d.act("hana", "taps (10 more uses)")
	d.ok(d.chat.LINE.Tap(d.ctx, "hana", "", "action=grant&id="+id+"&for=10"))
	d.line("hana", 1)
	d.turn("1", mail, mail)
	d.typesLINE("hana", "grants", "")
	short := shortIn(t, d.line("hana", 1)[0].Text)
	d.typesLINE("hana", "revoke "+short, "")
	d.line("hana", 1)
	d.typesLINE("hana", "grants", "")
	d.line("hana", 1)
	denied := d.turn("2", mail)[0]
	d.later(moment, "a moment passes")
	again := d.line("hana", 1)[0]
	d.settled()
	d.typesLINE("hana", "deny: not twice", again.ID)
	d.line("hana", 1)
	d.turn("3", mail)
	d.typesLINE("hana", "lift "+id, "")
	d.line("hana", 1)
	d.typesLINE("hana", "lift "+denied, "")
	d.line("hana", 1)
	d.turn("4", mail)
	d.later(moment, "a moment passes")
	d.line("hana", 1)
	d.done("line_grant")
}
