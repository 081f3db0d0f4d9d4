package app_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/emulator"
)

var (
	payment = client.Call{Tool: "transfer_credits", Args: json.RawMessage(`{"amount_cents":2000,"to":"0xAbC"}`)}
	closing = client.Call{Tool: "close_books", Args: json.RawMessage(`{"month":"2026-10"}`)}
)

// In LINE.

func (d *dialogue) tapsLINE(person, id, verb string) emulator.Delivery {
	d.t.Helper()
	d.act(person, "taps "+verb)
	got := d.ok(d.chat.TapLINE(d.ctx, person, "", "action="+verb+"&id="+id))
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
	}
	d.act(person, what)
	d.ok(d.chat.TypeLINE(d.ctx, person, text, quoted))
}

func TestDialogueLINEDenyThenTheReason(t *testing.T) {
	d := startDialogue(t, "A denial in LINE asks why, and the next text reaches the agent word for word.", peopleLINE, channelsLINE)
	id := d.calls(payment)
	d.line("hana", 1)
	d.tapsLINE("hana", id, "deny")
	d.line("hana", 2)
	d.hearsBack(1)
	d.act("hana", "types on: wrong account; ask Ken for “the new one” 🙏")
	d.ok(d.chat.CompleteLINE(d.ctx, "hana", "wrong account; ask Ken for “the new one” 🙏"))
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
	d := startDialogue(t, "A reason that is suggested is one tap.", peopleLINE, channelsLINE)
	id := d.calls(payment)
	d.line("hana", 1)
	d.tapsLINE("hana", id, "deny")
	d.line("hana", 2)
	d.act("hana", "taps (Wrong target)")
	d.ok(d.chat.TapLINE(d.ctx, "hana", "", "Wrong target"))
	d.line("hana", 1)
	d.hearsBack(1)
	d.done("line_suggested_reason")
}

func TestDialogueLINEByQuoting(t *testing.T) {
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
	d := startDialogue(t, "An id says which request is meant; a denial without a reason is given one by denying again.", peopleLINE, channelsLINE)
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
	d := startDialogue(t, "An approval that needs a reason: any words do not pass for one.", peopleLINE, channelsLINE)
	id := d.calls(closing)
	card := d.line("hana", 1)[0]
	d.tapsLINE("hana", id, "approve")
	d.line("hana", 1)
	d.typesLINE("hana", "let me think", "")
	d.line("hana", 1)
	d.typesLINE("hana", "approve: the auditors signed", card.ID)
	d.line("hana", 1)
	d.hearsBack(1)
	d.calls(closing)
	d.done("line_approve_reason_required")
}

func TestDialogueLINETooLate(t *testing.T) {
	d := startDialogue(t, "Cards in LINE keep their buttons: a tap on an old one is told how it ended.", peopleLINE, channelsLINE)
	id := d.calls(payment)
	d.line("hana", 1)
	d.later(31*time.Minute, "half an hour passes")
	d.tapsLINE("hana", id, "approve")
	d.line("hana", 1)
	d.hearsBack(1)
	d.done("line_too_late")
}

func TestDialogueLINEFollow(t *testing.T) {
	d := startDialogue(t, "Whoever adds the bot is greeted and told the id for the configuration; whoever blocks it is not written to.", peopleLINE, channelsLINE)
	d.act("noi", "adds the bot")
	d.ok(d.chat.Follow(d.ctx, "noi"))
	d.line("noi", 1)
	d.act("noi", "types: help")
	d.ok(d.chat.TypeLINE(d.ctx, "noi", "help", ""))
	d.line("noi", 1)
	d.act("noi", "types: nice weather today")
	d.ok(d.chat.TypeLINE(d.ctx, "noi", "nice weather today", ""))
	d.act("noi", "types: pending")
	d.ok(d.chat.TypeLINE(d.ctx, "noi", "pending", ""))
	d.line("noi", 1)
	d.calls(payment)
	d.line("hana", 1)
	d.act("hana", "blocks the bot")
	d.ok(d.chat.Unfollow(d.ctx, "hana"))
	d.calls(closing)
	d.act("hana", "adds the bot again")
	d.ok(d.chat.Follow(d.ctx, "hana"))
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
	commands(t, "en", "UTC", "pending", "show", "log", "status", "help", "deny", "wrong account")
}

func TestDialogueCommandsInJapanese(t *testing.T) {
	commands(t, "ja", "Asia/Tokyo", "保留中", "詳細", "ログ", "状況", "ヘルプ", "却下", "口座が違います")
}

func TestDialogueCommandsInThai(t *testing.T) {
	commands(t, "th", "Asia/Bangkok", "รออนุมัติ", "แสดง", "บันทึก", "สถานะ", "ช่วยเหลือ", "ปฏิเสธ", "ผิดบัญชี")
}

func TestDialogueCommandsInChinese(t *testing.T) {
	commands(t, "zh-TW", "Asia/Taipei", "待審", "顯示", "記錄", "狀態", "說明", "拒絕", "帳號不對")
}
