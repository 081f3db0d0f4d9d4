package approval_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"countersign/approval"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/chat"
	"countersign/internal/locale"
	"countersign/internal/locale/phrases"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

// pressesDeny denies a request with a button of a chat where the reason is typed.
func (w *world) pressesDeny(id string) {
	w.t.Helper()
	w.tap(chat.Interaction{By: hana, Intent: chat.IntentDeny, RequestID: id, AsksWhy: true})
	w.send()
}

// cardsSent is how many cards were sent to an address.
func (w *world) cardsSent(channel, to string) int {
	w.t.Helper()
	w.send()
	n := 0
	for _, x := range w.notifications(approval.NotificationQuery{Channel: channel, Recipient: to}) {
		if x.Kind == approval.KindRequest && !x.SentAt.IsZero() {
			n++
		}
	}
	return n
}

func TestTheNextCardWaitsWhileTheReasonMayBeTyped(t *testing.T) {
	risky := func(c approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		switch c.Tool {
		case "wipe":
			v = quarantine(approval.RiskCritical)
		case "soon":
			v.Timeout = 40 * time.Second
		}
		return v
	}
	next := call(`{"amount_cents":7}`)
	wipe, soon := next, next
	wipe.Tool, soon.Tool = "wipe", "soon"
	says := func(text string) func(w *world, id string) {
		return func(w *world, _ string) {
			words := chat.ParseWords(text, false)
			w.tap(chat.Interaction{By: hana, Intent: words.Intent, RequestID: words.ID, Typed: words.Typed,
				Reason: words.Reason, Text: text, AsksWhy: true})
		}
	}
	later := func(d time.Duration) func(*world, string) { return func(w *world, _ string) { w.clock.advance(d) } }
	var path string
	again := func(w *world) {
		w.db.Close()
		w.open(path, rules{risky, terms})
	}
	for name, c := range map[string]struct {
		next       approval.Call
		then       func(w *world, id string)
		held, sent int // cards in LINE before and after then, beside the one that was denied
	}{
		"held":                      {next, later(19 * time.Second), 0, 0},
		"20 s are over":             {next, later(20 * time.Second), 0, 1},
		"the reason came":           {next, says("wrong account"), 0, 1},
		"something else was asked":  {next, says("status"), 0, 1},
		"the keyboard's beginning":  {next, says("reason:"), 0, 0},
		"critical":                  {wipe, later(0), 1, 1},
		"a quarter of its time":     {soon, later(10 * time.Second), 0, 1},
		"no more than that":         {soon, later(9 * time.Second), 0, 0},
		"the gate was started anew": {next, func(w *world, _ string) { again(w) }, 0, 0},
		"started anew, and the reason": {next, func(w *world, id string) {
			again(w)
			says("wrong account")(w, id)
		}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			path = schematest.NewFile(t)
			w := &world{t: t, ctx: t.Context(), clock: &clock{now: start}, log: &testkit.Buffer{}}
			w.open(path, rules{risky, terms})
			id := w.check(transfer).Request.ID
			w.send()
			w.pressesDeny(id)
			w.check(c.next)
			if got := w.cardsSent("line", "U1") - 1; got != c.held {
				t.Errorf("after the denial %d cards came, want %d", got, c.held)
			}
			if got := w.cardsSent("slack", "C1") - 1; got != 1 {
				t.Errorf("in Slack %d cards came", got)
			}
			c.then(w, id)
			if got := w.cardsSent("line", "U1") - 1; got != c.sent {
				t.Errorf("then %d cards came, want %d", got, c.sent)
			}
			if r := w.request(id); r.Status != approval.Denied {
				t.Errorf("the denial waits: %s", r.Status)
			}
			w.clock.advance(time.Minute)
			if c.next.Tool != "soon" && w.cardsSent("line", "U1") != 2 {
				t.Errorf("a card is lost")
			}
		})
	}
}

func TestNobodyElsesCardWaitsForATypedReason(t *testing.T) {
	w := newWorld(t)
	w.wire(approval.Options{Store: w.store, Broker: approval.NewBroker(), Policy: rules{asks, terms}, Logger: w.logger()},
		outboxtest.Routing{Cards: []approval.Route{{{Channel: "line", To: "U1"}}, {{Channel: "line", To: "U2"}}}})
	id := w.check(transfer).Request.ID
	w.send()
	w.pressesDeny(id)
	w.check(call(`{"amount_cents":7}`))
	if mine, others := w.cardsSent("line", "U1"), w.cardsSent("line", "U2"); mine != 1 || others != 2 {
		t.Errorf("of two cards each, %d came to who is typing and %d to somebody else", mine, others)
	}
}

// What waits for the keyboard goes on to wait for whatever else it waits for, and what was not held back is left alone.
func TestAReasonSendsNothingThatIsNotDue(t *testing.T) {
	w := newWorld(t)
	hours := func(a approval.Address, at time.Time) time.Time {
		if a.To == "U1" && at.Before(start.Add(15*time.Second)) && at.After(start) {
			return start.Add(15 * time.Second)
		}
		return time.Time{}
	}
	w.wire(approval.Options{Store: w.store, Broker: approval.NewBroker(), Policy: rules{asks, terms}, Logger: w.logger()},
		outboxtest.Routing{Cards: []approval.Route{{{Channel: "line", To: "U1"}}}, Hours: hours})
	id := w.check(transfer).Request.ID
	w.send()
	w.clock.advance(time.Second)
	w.pressesDeny(id)
	w.check(call(`{"amount_cents":7}`)) // due in 14 s
	w.tap(chat.Interaction{By: hana, Intent: chat.IntentOther, Text: "wrong account", AsksWhy: true})
	if got := w.cardsSent("line", "U1"); got != 1 {
		t.Errorf("in quiet hours %d cards came", got-1)
	}
	w.clock.advance(14 * time.Second)
	if got := w.cardsSent("line", "U1"); got != 2 {
		t.Errorf("after the quiet hours %d cards came", got-1)
	}
}

func TestTheHeartbeatLeavesAlonePeopleWhoType(t *testing.T) {
	w := newWorld(t)
	other := w.check(call(`{"amount_cents":7}`)).Request.ID
	id := w.check(transfer).Request.ID
	w.send()
	w.clock.advance(10 * time.Minute)
	w.pressesDeny(id)
	if n, err := w.outbox.Remind(w.ctx, 5*time.Minute, 3); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	reminded := func() (n int) {
		w.send()
		for _, x := range w.notifications(approval.NotificationQuery{Channel: "line", Kind: approval.KindReminder}) {
			if x.ApprovalID == other && !x.SentAt.IsZero() {
				n++
			}
		}
		return n
	}
	if n := reminded(); n != 0 {
		t.Errorf("a reminder came while the reason may be typed")
	}
	w.clock.advance(20 * time.Second)
	if n := reminded(); n != 1 {
		t.Errorf("%d reminders came afterwards", n)
	}
}

func TestALateReasonIsToldWhatBecomesOfIt(t *testing.T) {
	approved, denied := chat.IntentApprove, chat.IntentDeny
	for name, c := range map[string]struct {
		by     approval.Actor // who ended it
		how    chat.Intent
		reason string
		want   string
	}{
		"approved by another": {ken, approved, "", "{call}: Already approved by ken (2026-01-10T12:00:00.000Z). " +
			"The agent did not get your reason."},
		"denied by another": {ken, denied, "", "{call}: Already denied by ken (2026-01-10T12:00:00.000Z). " +
			"The agent did not get your reason."},
		"expired": {want: "{call}: This approval request has expired. The agent did not get your reason."},
		"denied, with a reason": {hana, denied, "too much",
			"You already denied transfer_credits and said why. That reason stays."},
		"denied": {hana, denied, "", "Thanks, the agent now has your reason. transfer_credits stays denied."},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.check(transfer).Request.ID
			if c.how == "" {
				w.clock.advance(time.Hour)
			} else {
				w.mustDecide(id, c.how == approved, c.by, c.reason)
			}
			words := chat.ParseWords("deny "+id[20:]+"： wrong account", false)
			out := w.tap(chat.Interaction{By: hana, Intent: words.Intent, Typed: words.Typed, Reason: words.Reason,
				Text: "deny " + id[20:] + "： wrong account", AsksWhy: true})
			want := strings.NewReplacer("2026-01-10T12:00:00.000Z", approval.FormatTime(start), "{call}",
				theCall(id)).Replace(c.want)
			if out.Text != want {
				t.Errorf("told %q, want %q", out.Text, want)
			}
		})
	}
}

// What the keyboard began, sent as it was, asks once more, and is no reason.
func TestABegunReasonIsNone(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.pressesDeny(id)
	text := "deny " + id[20:] + ": "
	words := chat.ParseWords(text, false)
	w.tap(chat.Interaction{By: hana, Intent: words.Intent, Typed: words.Typed, Reason: words.Reason, Text: text,
		AsksWhy: true})
	if n := w.lastReply(); n.Note != approval.NoteReason || w.request(id).ResolveReason != "" {
		t.Errorf("answered %q (%s), the reason is %q", n.Text, n.Note, w.request(id).ResolveReason)
	}
}

// A reason that names no request is the reason of none, whatever was denied last.
func TestAReasonForARequestThatThereIsNotIsNoOthers(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.pressesDeny(id)
	text := "deny 2Z2Z2Z: wrong account"
	words := chat.ParseWords(text, false)
	out := w.tap(chat.Interaction{By: hana, Intent: words.Intent, Typed: words.Typed, Reason: words.Reason, Text: text,
		AsksWhy: true})
	if out.Text != "No such request." || w.request(id).ResolveReason != "" {
		t.Errorf("told %q, the reason is %q", out.Text, w.request(id).ResolveReason)
	}
}

// sentences answers in the language of whoever is answered.
type sentences struct{ english }

func (sentences) Say(to approval.Actor, p phrases.Phrase, with ...any) string {
	words := make([]string, len(with))
	for i, v := range with {
		words[i] = fmt.Sprint(v)
	}
	return locale.Get(to.Locale).Say(string(p), words...)
}

func TestTheAnswerIsInTheLanguageTyped(t *testing.T) {
	w := newWorld(t)
	w.chat = chat.New(chat.Options{Store: w.store, Gate: w.gate, Audit: approval.NewAuditLog(nil), Outbox: w.outbox,
		Readers: sentences{}})
	id := w.check(transfer).Request.ID[20:]
	for _, words := range []struct{ tag, typed string }{
		{"ja", "はい|保留中|解除|委任|委任一覧|委任終了 ID|継続承認|継続終了 ID|却下解除 ID|ログ|ステータス|ヘルプ|承認 ID まだ|却下 2Z2Z2Z|こんにちは|理由：です"},
		{"th", "ใช่|รออนุมัติ|ต่อเวลา|ระงับ|เลิกระงับ|มอบหมาย|รายการมอบหมาย|เลิกมอบหมาย ID|อนุมัติต่อเนื่อง|เพิกถอน ID|เลิกปฏิเสธ ID|บันทึก|สถานะ|ช่วยเหลือ|อนุมัติ ID ยัง|ปฏิเสธ 2Z2Z2Z|สวัสดี"},
		{"zh-TW", "是的|待處理|延期|委派|委託清單|結束委託 ID|持續核准|撤銷 ID|解除拒絕 ID|紀錄|狀況|說明|核准 ID 還沒|拒絕 2Z2Z2Z"},
		{"", "yes|pending|extend|freeze|unfreeze|delegate|delegations|undelegate ID|grants|revoke ID|log|status|help|approve ID not yet|deny 2Z2Z2Z|hello|ok|同意|許可|凍結|解凍|延長|你好"},
	} {
		for typed := range strings.SplitSeq(words.typed, "|") {
			typed = strings.ReplaceAll(typed, "ID", id)
			for _, reads := range []string{"", "ja", "th", "zh-TW"} {
				by := hana
				by.Locale = reads
				p := chat.ParseWords(typed, false)
				w.tap(chat.Interaction{By: by, Intent: p.Intent, Typed: p.Typed, RequestID: p.ID, Reason: p.Reason, Name: p.Name,
					Text: typed, AsksWhy: true})
				n := w.lastReply()
				if n.Language != words.tag || n.Text == "" {
					t.Errorf("%q of who reads %q is answered in %q: %q", typed, reads, n.Language, n.Text)
				}
				tag := cmp.Or(words.tag, reads)
				if got := chat.Language(n.Text); tag == "ja" && got != "ja" || tag == "th" && got != "th" || tag == "" &&
					got != "" ||
					tag == "zh-TW" && (got == "ja" || got == "th" || strings.IndexFunc(n.Text, isHan) < 0) {
					t.Errorf("%q of who reads %q is answered %q", typed, reads, n.Text)
				}
			}
		}
	}
}

func isHan(r rune) bool { return unicode.Is(unicode.Han, r) }
