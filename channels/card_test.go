package channels_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/channels"
	"countersign/channels/channelstest"
	"countersign/internal/chat"
	"countersign/internal/locale"
	"countersign/internal/testkit"
)

func card(kind approval.NotificationKind, rs ...approval.Request) channels.Card {
	return channelstest.Maker().Card(channels.Delivery{Notification: approval.Notification{Kind: kind}, Requests: rs})
}

func TestCardOfARequest(t *testing.T) {
	r := channelstest.Request(`{"amount_cents":2000}`)
	r.Server, r.SessionID, r.Scope, r.Rationale = "bank", "sess-42", "/home/agent", "due\ntoday"
	got := card(approval.KindRequest, r)
	want := channels.Item{
		ID: r.ID, Short: "4C0001", Tool: "bank/transfer_credits", Risk: approval.RiskHigh, State: channels.StatePending,
		Summary: "Run bank/transfer_credits: amount_cents 2000 = 20.00", Title: "Approval required",
		Why: "Transfer exceeds the confirmation threshold ($10)",
		Facts: []channels.Fact{{Label: "Asked by", Value: "treasury-bot"}, {Label: "Session, in the agent's words",
			Value: "sess-42"}, {Label: "Scope, in the agent's words", Value: "/home/agent"}},
		Rows: []channels.Row{{Key: "amount_cents", Value: "2000", Gloss: "= 20.00"}}, Total: 1,
		Rationale: "due\ntoday", Deadline: r.ExpiresAt, DeadlineAt: "21 Nov 2026 13:00", Hash: r.ArgsHash[:8],
		Link: "https://gate.example.com/r/" + r.ID,
		More: channels.More{ID: r.ID, Extend: "+1 hour", Freeze: "Freeze treasury-bot…"},
	}
	if d := cmp.Diff([]channels.Item{want}, got.Items); d != "" {
		t.Errorf("items (-want +got):\n%s", d)
	}
	if got.Text != "Approval required" || card(approval.KindReminder, r).Text != "Reminder: still waiting for approval" {
		t.Errorf("titles %q, %q", got.Text, card(approval.KindReminder, r).Text)
	}
}

// Each ending has words of its own, and says who, when and why.
func TestEndingsAreToldApart(t *testing.T) {
	seen := map[string]string{}
	for _, c := range channelstest.Cases() {
		if !strings.HasPrefix(c.Name, "outcome_") || strings.Contains(c.Name, "batch") {
			continue
		}
		i := c.Card().Items[0]
		if other, ok := seen[i.Title+i.Sentence]; ok {
			t.Errorf("%s and %s are told in the same words", c.Name, other)
		}
		seen[i.Title+i.Sentence] = c.Name
		if i.Pending() || i.Sentence == "" {
			t.Errorf("%s: pending %t, sentence %q", c.Name, i.Pending(), i.Sentence)
		}
	}
	for name, want := range map[string]string{
		"outcome_approved":  "Approved by hana today 12:05. The agent may run it once, until today 12:20. Reason: checked with finance",
		"outcome_used":      "Approved by hana today 12:05. Used today 12:06.",
		"outcome_denied":    "Denied by hana today 12:05. Reason: wrong account <!channel>",
		"outcome_expired":   "Nobody answered by today 13:00. The call was not run.",
		"outcome_cancelled": "Cancelled by agent:treasury-bot today 12:05.",
	} {
		for _, c := range channelstest.Cases() {
			if got := c.Card().Items; c.Name == name && got[0].Sentence != want {
				t.Errorf("%s: %q, want %q", name, got[0].Sentence, want)
			}
		}
	}
}

func TestBatchTitles(t *testing.T) {
	rs := channelstest.Batch(3)
	if got := card(approval.KindRequest, rs...).Text; got != "3 approvals required" {
		t.Errorf("title %q", got)
	}
	if got := card(approval.KindReminder, rs...).Text; got != "Reminder: 3 calls are still waiting for approval" {
		t.Errorf("title %q", got)
	}
	rs[0].Status = approval.Denied
	if got := card(approval.KindEdit, rs...).Text; got != "2 of 3 calls are still waiting for approval" {
		t.Errorf("title %q", got)
	}
	rs[1].Status, rs[2].Status = approval.Expired, approval.Approved
	if got := card(approval.KindEdit, rs...).Text; got != "All 3 calls are decided" {
		t.Errorf("title %q", got)
	}
}

func TestZones(t *testing.T) {
	r := channelstest.Request(`{}`)
	for zone, want := range map[*time.Location]string{
		nil:                                  "today 04:00 UTC",
		time.FixedZone("CET", 3600):          "today 05:00",
		time.FixedZone("-03", -3*3600):       "today 01:00",
		time.FixedZone("+0530", 5*3600+1800): "today 09:30",
	} {
		m := channels.Maker{Zone: zone, Now: channelstest.Noon}
		if got := m.Card(channels.Delivery{Requests: []approval.Request{r}}).Items[0].DeadlineAt; got != want {
			t.Errorf("deadline %q, want %q", got, want)
		}
	}
}

// A reply's sentence about a request is not a card of it.
func TestReplyBringsOnlyItsCards(t *testing.T) {
	r := channelstest.Request(`{}`)
	d := channels.Delivery{Notification: approval.Notification{Kind: approval.KindReply, Text: "Denied: transfer_credits.",
		ApprovalID: r.ID}, Requests: []approval.Request{r}}
	if got := channelstest.Maker().Card(d); len(got.Items) != 0 || got.Text != "Denied: transfer_credits." {
		t.Errorf("card %+v", got)
	}
	if got := channelstest.Maker().Card(channelstest.Reply("One waits.", r)); len(got.Items) != 1 {
		t.Errorf("card %+v", got)
	}
}

func TestNotices(t *testing.T) {
	for _, c := range channelstest.Cases() {
		want := map[string]string{
			"secrets":  "🔒 3 values are masked as secret",
			"previous": "⚠ This same call was last approved by hana today 11:00 and used today 11:01.",
			"previous_sent": "⚠ CAREFUL: this same call was approved by hana today 11:00 and sent today 11:01, " +
				"but its outcome is unknown. It may have run. If you approve, it may run twice.",
			"previous_succeeded": "⚠ This same call was last approved by hana today 11:00, sent today 11:01, and it succeeded.",
			"previous_failed":    "⚠ This same call was last approved by hana today 11:00, sent today 11:01, and it failed.",
			"critical_reason":    "✍ A reason is required: tap Approve, then say why.",
		}[c.Name]
		if want == "" {
			continue
		}
		got := c.Card().Items[0].Notices
		if len(got) != 1 || got[0].Text != want || got[0].Short == "" {
			t.Errorf("%s: notices %+v, want %q", c.Name, got, want)
		}
	}
}

// Whatever is not known to have ended is told as a call that may have run, in the whole form and in the short one.
func TestPreviousMayHaveRun(t *testing.T) {
	at := channelstest.Noon
	for _, c := range []struct {
		ran  approval.RunResult
		text channels.Text
	}{
		{"", channels.TextPreviousSent}, {approval.RunUnknown, channels.TextPreviousSent}, {"odd", channels.TextPreviousSent},
		{approval.RunSucceeded, channels.TextPreviousRan}, {approval.RunFailed, channels.TextPreviousFell},
	} {
		r := channelstest.Request(`{}`)
		r.Previous = &approval.Use{ApprovedBy: "hana", ApprovedAt: at, ConsumedAt: at, DispatchedAt: at, RunResult: c.ran}
		m := channelstest.Maker()
		when := m.Words.When(at, locale.Reader{Zone: m.Zone})
		want := []channels.Notice{{
			Text:  m.Words.Say(string(c.text), "who", "hana", "approved", when, "used", when),
			Short: m.Words.Say(string(c.text)+"_short", "who", "hana", "approved", when, "used", when),
			First: c.text == channels.TextPreviousSent,
		}}
		if got := card(approval.KindRequest, r).Items[0].Notices; !slices.Equal(got, want) {
			t.Errorf("outcome %+v: got %+v, want %+v", c.ran, got, want)
		}
	}
}

func TestIgnoredArgs(t *testing.T) {
	r := channelstest.Request(`{"a":1,"note":{"x":1,"y":2},"z":3}`)
	r.IgnoredArgs = []string{"note"}
	i := card(approval.KindRequest, r).Items[0]
	want := []channels.Row{{Key: "a", Value: "1"}, {Key: "z", Value: "3"}, {Key: "note", Open: true, Ignored: true},
		{Depth: 1, Key: "x", Value: "1", Ignored: true}, {Depth: 1, Key: "y", Value: "2", Ignored: true}}
	if d := cmp.Diff(want, i.Rows); d != "" || i.Total != 4 {
		t.Errorf("%d rows (-want +got):\n%s", i.Total, d)
	}
	// With keys that differ only in case nothing is left out of the hash, so nothing may be said to be.
	r = channelstest.Request(`{"Note":1,"note":2}`)
	r.IgnoredArgs = []string{"note"}
	for _, row := range card(approval.KindRequest, r).Items[0].Rows {
		if row.Ignored {
			t.Errorf("ambiguous args: %+v is said to be no part of the approval", row)
		}
	}
}

func TestRows(t *testing.T) {
	for args, want := range map[string][]channels.Row{
		`{}`:                    {},
		`{"a":"x"}`:             {{Key: "a", Value: "x"}},
		`{"a":1.50}`:            {{Key: "a", Value: "1.50"}},
		`{"a":1e400}`:           {{Key: "a", Value: "1e400"}},
		`{"a":"1.50"}`:          {{Key: "a", Value: `"1.50"`}},
		`{"a":"0xAbC"}`:         {{Key: "a", Value: "0xAbC"}},
		`{"a":"true"}`:          {{Key: "a", Value: `"true"`}},
		`{"a":null}`:            {{Key: "a", Value: "null"}},
		`{"a":""}`:              {{Key: "a", Value: `""`}},
		`{"a":" x"}`:            {{Key: "a", Value: `" x"`}},
		`{"a":"[1]"}`:           {{Key: "a", Value: `"[1]"`}},
		`{"a":"20000  = 1"}`:    {{Key: "a", Value: `"20000  = 1"`}},
		`{"a_cents":"2000"}`:    {{Key: "a_cents", Value: `"2000"`}},
		`{"a":{"b_cents":7}}`:   {{Key: "a", Open: true}, {Depth: 1, Key: "b_cents", Value: "7", Gloss: "= 0.07"}},
		`{"a_cents":[[70000]]}`: {{Key: "a_cents", Open: true}, {Depth: 1, Key: "[0]", Value: "[70000]"}},
		`{"a":[1,"b",{}]}`: {{Key: "a", Open: true}, {Depth: 1, Key: "[0]", Value: "1"}, {Depth: 1, Key: "[1]",
			Value: "b"}, {Depth: 1, Key: "[2]", Value: "{}"}},
		`{"a":[1,"b"]}`:      {{Key: "a", Value: `[1,"b"]`}},
		`{"a":{}}`:           {{Key: "a", Value: "{}"}},
		`{"a":"x\ny"}`:       {{Key: "a", Value: "x\ny", Lines: true}},
		`{"a":"x\n"}`:        {{Key: "a", Value: "x⟨U+000A⟩", Lines: true}},
		`{"a":"x\n\n\n\ny"}`: {{Key: "a", Value: "x\n\n⟨U+000A⟩⟨U+000A⟩y", Lines: true}},
		`{"a":"⟨U+000A⟩"}`:   {{Key: "a", Value: "⟨U+27E8⟩U+000A⟩"}},
		`{"a b":1,"":2}`:     {{Key: `""`, Value: "2"}, {Key: `"a b"`, Value: "1"}},
		`{"a":{"b":{"c":{"d":1}}}}`: {{Key: "a", Open: true}, {Depth: 1, Key: "b", Open: true},
			{Depth: 2, Key: "c", Value: `{"d":1}`}},
	} {
		got := card(approval.KindRequest, channelstest.Request(args)).Items[0].Rows
		if d := cmp.Diff(want, slices.Clip(append([]channels.Row{}, got...))); d != "" {
			t.Errorf("%s (-want +got):\n%s", args, d)
		}
	}
}

// An object is read for its currency once, however many amounts it has: for each of them anew it would
// take longer than the tests may.
func TestManyAmountsOfOneObject(t *testing.T) {
	var args strings.Builder
	args.WriteString("{")
	n := testkit.Rounds(20_000, 100_000)
	for i := range n {
		fmt.Fprintf(&args, `"a%d_minor":990,`, i)
	}
	args.WriteString(`"currency":"USD"}`)
	i := card(approval.KindRequest, channelstest.Request(args.String())).Items[0]
	if i.Total != n+1 || i.Rows[0].Gloss != "= 9.90" {
		t.Errorf("%d values, %+v", i.Total, i.Rows[0])
	}
}

// A number is read out only where the reading is exact, and of a string nothing is said.
func TestGlosses(t *testing.T) {
	for args, want := range map[string]string{
		`{"a":9999}`:                                          "",
		`{"a":10000}`:                                         "= 10,000",
		`{"a":-1234567}`:                                      "= -1,234,567",
		`{"a":123456789012345678901234567890}`:                "= 123,456,789,012,345,678,901,234,567,890",
		`{"a":1234567890123456789012345678901}`:               "",
		`{"a":12345.6}`:                                       "",
		`{"a":1e5}`:                                           "",
		`{"a":-0}`:                                            "",
		`{"a":"1234567"}`:                                     "",
		`{"amount_cents":0}`:                                  "= 0.00",
		`{"amount_cents":5}`:                                  "= 0.05",
		`{"amount_cents":-99}`:                                "= -0.99",
		`{"amount_cents":2000}`:                               "= 20.00",
		`{"amountCents":123456789}`:                           "= 1,234,567.89",
		`{"cents":100}`:                                       "= 1.00",
		`{"CENTS":100}`:                                       "= 1.00",
		`{"amount_cents":20.5}`:                               "",
		`{"amount_cents":2e3}`:                                "",
		`{"amount_cents":-0}`:                                 "",
		`{"amount_cents":"2000"}`:                             "",
		`{"percents":2000}`:                                   "",
		`{"a_cents":2000,"currency":"eur"}`:                   "= 20.00",
		`{"a_cents":2000,"currency":"JPY"}`:                   "",
		`{"a_cents":20000,"currency":"KWD"}`:                  "= 20,000",
		`{"a_cents":2000,"currency":null}`:                    "= 20.00",
		`{"a_cents":2000,"currency":["JPY"]}`:                 "",
		`{"a_cents":2,"currency":"USD","Currency":"JPY"}`:     "",
		`{"a_minor":2,"currency":"USD","Currency":"JPY"}`:     "",
		`{"a_cents":2000,"currency_code":"JPY"}`:              "",
		`{"a_minor":2000,"currencyCode":"USD"}`:               "= 20.00",
		`{"a_minor":2,"currencyCode":"USD","currency":"JPY"}`: "",
		`{"a_minor":2,"currency":"USD","Currency":"usd"}`:     "= 0.02",
		`{"cents_off":2000}`:                                  "",
		`{"a_minor":990}`:                                     "",
		`{"a_minor":990,"currency":"usd"}`:                    "= 9.90",
		`{"a_minor":990,"currency":"JPY"}`:                    "",
		`{"a_minor":990,"currency":["USD"]}`:                  "",
		`{"a_minor":99000,"currency":"KWD"}`:                  "= 99,000",
		`{"a":{"price_minor":1},"currency":"USD"}`:            "",
		`{"a_minor":1,"x":{"currency":"USD"}}`:                "",
		`{"a_minor":1,"currency":"\u0055SD"}`:                 "= 0.01",
		`{"a_cents":900719925474099312345678901234}`:          "= 9,007,199,254,740,993,123,456,789,012.34",
		`{"token_cents":2000}`:                                "",
		`{"a_cents":9007199254740993123456789012345}`:         "",
	} {
		got := ""
		for _, row := range card(approval.KindRequest, channelstest.Request(args)).Items[0].Rows {
			got += row.Gloss
		}
		if got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// A preview is a diff only where every line of it can be one's.
func TestDiff(t *testing.T) {
	kinds := func(preview string) string {
		r := channelstest.Request(`{}`)
		r.Preview = preview
		i, s := card(approval.KindRequest, r).Items[0], ""
		for _, l := range i.Diff {
			s += map[channels.DiffKind]string{channels.DiffHeader: "h", channels.DiffHunk: "@", channels.DiffContext: ".",
				channels.DiffAdded: "+", channels.DiffRemoved: "-", channels.DiffRemark: `\`}[l.Kind]
		}
		if (i.Preview == "") != (preview == "") {
			t.Errorf("%q is shown as no text too", preview)
		}
		return s
	}
	for preview, want := range map[string]string{
		"":                         "",
		"- balance 5\n+ balance 3": "",
		"@@ not a change @@":       "",
		channelstest.Diff:          "hh@.-++...\\",
		"@@ -1 +1 @@\n-a\n+b":      "@-+",
		"@@ func main() {\n-a\n+b": "@-+",
		"--- a\n+++ b\n-x\n+y":     "hh-+",
		"--- a\n+++ b\n@@ -1,2 +1,2 @@\n a\n--- x\n+++ y":                    "hh@.-+", // the hunk still has a line to remove
		"--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n--- c\n+++ d\n@@ -0,0 +1 @@\n+e": "hh@-+hh@+",
		"diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/y b/y\nnew file mode 100644\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+e": "hhhh@-+hhhh@+",
		"Here is the change:\n@@ -1 +1 @@\n-a\n+b":        "",
		"@@ -1 +1 @@\n-a\n+b\nThe amount stays the same.": "",
		"@@ -1,3 +1,3 @@\n a\n\n-b\n+c":                   "@..-+",
		"+a\n@@ -1 +1 @@\n+b":                             "",
		"@@ -1 +1 @@\r\n-a\r\n+b\r":                       "@-+",
	} {
		if got := kinds(preview); got != want {
			t.Errorf("%q: %q, want %q", preview, got, want)
		}
	}
	r := channelstest.Request(`{}`)
	r.Preview = "@@ -1,2 +1,2 @@\n-password: " + channelstest.Secret + "\n+\u202e\tx\n  ⟨\n"
	got := card(approval.KindRequest, r).Items[0].Diff
	if len(got) != 4 || strings.Contains(got[1].Text, channelstest.Secret) || got[2].Text != "+⟨U+202E⟩\tx" ||
		got[3].Text != "  ⟨U+27E8⟩" {
		t.Errorf("%+v", got)
	}
	if s := channels.DiffCount(got); s != "+1 −1" {
		t.Errorf("counted %s", s)
	}
}

// Too long a diff loses whole lines from the middle, and says how many.
func TestFitDiff(t *testing.T) {
	r := channelstest.Request(`{}`)
	r.Preview = channelstest.LongDiff()
	c := card(approval.KindRequest, r)
	all, cost := c.Items[0].Diff, func(l channels.DiffLine) int { return len(l.Text) + 5 }
	for _, budget := range []int{-1, 0, 10, 60, 500, 5000, 1 << 20} {
		got, used, cut := c.FitDiff(all, 100, budget, legible.UTF16Len, cost), 0, 0
		for n, l := range got {
			used += cost(l)
			if legible.UTF16Len(l.Text) > 100 {
				t.Errorf("a line of %d", legible.UTF16Len(l.Text))
			}
			if l.Kind == channels.DiffCut {
				cut++
				if want := fmt.Sprintf("⋯ %d lines left out ⋯", len(all)-len(got)+1); l.Text != want || n != (len(got)-1)/2 &&
					len(got) < 10 {
					t.Errorf("budget %d: %q, want %q", budget, l.Text, want)
				}
			}
		}
		if used > max(budget, 0) || cut > 1 || budget > 60 && (len(got) == 0 || got[0] != all[0] ||
			got[len(got)-1].Kind != channels.DiffAdded) || (cut == 0) != (len(got) == len(all) || got == nil) {
			t.Errorf("budget %d: %d lines take %d, %d cuts", budget, len(got), used, cut)
		}
	}
	if got := c.FitDiff(all, 1000, 1<<20, legible.UTF16Len, cost); !slices.Equal(got, all) {
		t.Error("a diff that fits is changed")
	}
}

// A card counts from when it was made, so that a later try sends the same bytes.
func TestDeadlineInWords(t *testing.T) {
	r := channelstest.Request(`{}`)
	for before, want := range map[time.Duration]string{time.Hour: "in 1 h", 28 * time.Minute: "in 28 min", 0: "",
		-time.Minute: ""} {
		d := channels.Delivery{Notification: approval.Notification{Kind: approval.KindRequest,
			CreatedAt: r.ExpiresAt.Add(-before)}, Requests: []approval.Request{r}}
		if got := channelstest.Maker().Card(d).Items[0].DeadlineIn; got != want {
			t.Errorf("%s before: %q, want %q", before, got, want)
		}
	}
	r.Status = approval.Denied
	d := channels.Delivery{Notification: approval.Notification{CreatedAt: channelstest.Noon},
		Requests: []approval.Request{r}}
	if got := channelstest.Maker().Card(d).Items[0]; got.DeadlineIn != "" || got.DeadlineAt != "" {
		t.Errorf("a denied request still waits: %+v", got)
	}
}

// A reply that asks why keeps its own text, in each language.
func TestAsking(t *testing.T) {
	for _, tag := range locale.Tags() {
		m := channelstest.Maker()
		m.Words = locale.Get(tag)
		for _, note := range []approval.Note{approval.NoteReason, approval.NoteDeny} {
			c := m.Card(channelstest.Asking(note, "Denied: x."))
			if c.Text != "Denied: x." || (c.Ask != "") != (note == approval.NoteReason) || len(c.Suggest) != 3 ||
				slices.Contains(c.Suggest, "") {
				t.Errorf("%s, %s: %+v", tag, note, c)
			}
			for _, s := range c.Suggest {
				if uniseg.GraphemeClusterCount(s) > 20 {
					t.Errorf("%s: %q is too long for a button", tag, s)
				}
			}
		}
		for _, note := range []approval.Note{"", approval.NoteApprove, approval.NoteUnreached} {
			if c := m.Card(channelstest.Asking(note, "Done.")); c.Ask != "" || c.Suggest != nil || c.Text != "Done." {
				t.Errorf("%s, %q: %+v", tag, note, c)
			}
		}
	}
}

// What a card begins to type, and what it offers to say, is understood when it comes back.
func TestWhatACardSaysIsUnderstood(t *testing.T) {
	for _, tag := range locale.Tags() {
		m := channelstest.Maker()
		m.Words = locale.Get(tag)
		about, all := channelstest.Asking(approval.NoteReason, "Denied: x."), channelstest.Asking(approval.NoteDeny, "Why?")
		all.Notification.BatchID, all.Notification.Shown, all.Notification.After = channelstest.BatchID, 3, 1
		one, card := m.Card(about), m.Card(all)
		for _, s := range append(one.Suggest, "wrong account") {
			got := chat.ParseWords(one.Answer+s, false)
			if got.Intent != chat.IntentDeny || !strings.HasSuffix(channelstest.ID(1), got.Typed) || got.Typed == "" ||
				got.Reason != s {
				t.Errorf("%s: %q is understood as %+v", tag, one.Answer+s, got)
			}
			got = chat.ParseWords(card.Answer+s, false)
			if got.Intent != chat.IntentDeny || got.ID != channelstest.BatchID ||
				got.Shows != (chat.Shows{Version: 3, After: 1}) || got.Reason != s {
				t.Errorf("%s: %q is understood as %+v", tag, card.Answer+s, got)
			}
		}
		prefix := one.Say(channels.TextReasonPrefix)
		for _, s := range append(one.Suggest, "wrong account", "deny is not enough") {
			if got := chat.ParseWords(prefix+s, false); got.Intent != chat.IntentReason || got.Reason != s {
				t.Errorf("%s: %q is understood as %+v", tag, prefix+s, got)
			}
		}
		if got := chat.ParseWords(strings.TrimSpace(prefix), false); got.Reason != "" {
			t.Errorf("%s: a reason that was only begun is %+v", tag, got)
		}
	}
}

// Who is told because nobody else could be is told so, once.
func TestUnreached(t *testing.T) {
	d := channels.Delivery{Notification: approval.Notification{Kind: approval.KindRequest, BatchID: channelstest.BatchID,
		Note: approval.NoteUnreached}, Requests: channelstest.Batch(2)}
	items := channelstest.Maker().Card(d).Items
	want := []channels.Notice{{Text: "⚠ Nobody else could be reached, so this comes to you as an admin.",
		Short: "⚠ Nobody else could be reached, so this comes to you as an admin."}}
	if !slices.Equal(items[0].Notices, want) || len(items[1].Notices) > 0 {
		t.Errorf("notices %+v, %+v", items[0].Notices, items[1].Notices)
	}
}

// What is shown is what is hashed: different args give different rows.
func TestRowsTellArgsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"a", "1", " ", "= 1", "\n", "\t", `"`, "[", "{", "⟨", "U+000A", "⟩", "\u202e",
			"null", ".", "\u200b", "0"})
		text := rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(piece, 0, 4).Draw(t, "pieces"), "")
		})
		value := func() string {
			quoted := func() string {
				b := new(strings.Builder)
				b.WriteByte('"')
				for _, r := range text.Draw(t, "text") {
					switch r {
					case '"':
						b.WriteString(`\"`)
					case '\n':
						b.WriteString(`\n`)
					case '\t':
						b.WriteString(`\t`)
					default:
						b.WriteRune(r)
					}
				}
				b.WriteByte('"')
				return b.String()
			}
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				return rapid.SampledFrom([]string{"1", "1.0", "null", "true", "[]", "{}", "[1]", `[""]`, "[null]"}).Draw(t,
					"literal")
			case 1:
				return "[" + quoted() + "," + quoted() + "]"
			case 2:
				return `{"k":` + quoted() + "}"
			default:
				return quoted()
			}
		}
		x, y := channelstest.Request(`{"v":`+value()+`}`), channelstest.Request(`{"v":`+value()+`}`)
		rows := func(r approval.Request) []channels.Row { return card(approval.KindRequest, r).Items[0].Rows }
		if same := cmp.Equal(rows(x), rows(y)); same != (x.ArgsHash == y.ArgsHash) {
			t.Errorf("%s and %s: rows the same %t, hashes the same %t", x.Args, y.Args, same, x.ArgsHash == y.ArgsHash)
		}
	})
}

// Nobody should approve what they were not shown.
func TestFallbackHasNoButtons(t *testing.T) {
	for _, c := range channelstest.Cases() {
		f := channelstest.Maker().Fallback(c.Delivery)
		if len(f.Items) != 0 || f.Text == "" || f.Kind != approval.KindReply {
			t.Errorf("%s: fallback %+v", c.Name, f)
		}
		if len(c.Card().Items) > 0 && (!strings.Contains(f.Text, c.Delivery.Requests[0].ID) || !strings.Contains(f.Text,
			"countersign show")) {
			t.Errorf("%s: the fallback does not say where to read it: %q", c.Name, f.Text)
		}
	}
}

func TestFitRows(t *testing.T) {
	unit := func(s string) int { return len(s) }
	cost := func(r channels.Row) int { return len(r.Key) + len(r.Value) + 10 }
	long := strings.Repeat("x", 5000)
	rows := []channels.Row{{Key: "a", Value: "1"}, {Key: "b", Value: long}, {Key: "c", Open: true},
		{Depth: 1, Key: "d", Value: "2"}}
	for _, tt := range []struct {
		budget    int
		shown     int
		shortened bool
	}{
		{10_000, 3, false}, {5046, 3, false}, {5045, 3, true}, {300, 3, true}, {100, 3, true}, {60, 2, true}, {12, 1, false},
		{11, 0, false}, {0, 0, false}, {-5, 0, false},
	} {
		f := channels.FitRows(rows, 3, tt.budget, 8000, unit, cost)
		used := 0
		for _, r := range f.Rows {
			used += cost(r)
		}
		if f.Shown != tt.shown || f.Shortened != tt.shortened || f.Total != 3 || used > max(tt.budget, 0) ||
			f.All() != (tt.shown == 3) {
			t.Errorf("budget %d: shown %d, shortened %t, used %d; want %d, %t", tt.budget, f.Shown, f.Shortened, used, tt.shown,
				tt.shortened)
		}
	}
	if f := channels.FitRows(rows, 3, 10_000, 2000, unit, cost); len(f.Rows[1].Value) > 2000 ||
		!strings.Contains(f.Rows[1].Value, "characters") {
		t.Errorf("a value of %d is shown where 2000 is most", len(f.Rows[1].Value))
	}
}

// The gate's own words for why somebody is asked are in the reader's language; a rule's words are as they are.
// A value is shown whole where there is room for it, and else only so much that the buttons are near.
func TestWhatIsCutIsCutShort(t *testing.T) {
	fit := func(n int) channels.Fitted {
		return channels.FitRows([]channels.Row{{Key: "a", Value: strings.Repeat("x", n)}, {Key: "b", Value: "short"}}, 2,
			9000, 3000,
			legible.UTF16Len, func(r channels.Row) int { return len(r.Value) })
	}
	if f := fit(3000); f.Shortened || len(f.Rows[0].Value) != 3000 {
		t.Errorf("%d of 3000 characters", len(f.Rows[0].Value))
	}
	if f := fit(3001); !f.Shortened || f.Shown != 2 || legible.UTF16Len(f.Rows[0].Value) > 600 ||
		f.Rows[1].Value != "short" {
		t.Errorf("%d of 3001 characters, %+v", len(f.Rows[0].Value), f.Rows[1])
	}
}

func TestWhyIsInTheReadersLanguage(t *testing.T) {
	m := channelstest.Maker()
	m.Words = locale.Get("ja")
	r := approval.Request{ID: channelstest.ID(1), Tool: "pay", Server: "bank", Args: []byte(`{}`),
		ArgsHash: "0123456789abcdef"}
	for message, want := range map[string]string{
		"bank/pay needs a person's approval.":                         "bank/pay には人の承認が必要です。",
		"No rule covers bank/pay, so a person must approve it.":       "bank/pay に当てはまるルールがないため、人の承認が必要です。",
		"No rule covers somewhere else, so a person must approve it.": "No rule covers somewhere else, so a person must approve it.",
		"The description, schema or annotations of bank/pay are not those first seen at 2026-11-20T02:00:00.000Z; approving " +
			"accepts the tool as it is now.": "bank/pay が変更されています。説明・スキーマ・注釈が、最初に確認したとき（11月20日 11:00）と異なります。" +
			"承認すると、現在のツールを受け入れます。",
		"The description, schema or annotations of bank/pay are not those accepted by hana at 2026-11-21T02:00:00.000Z; " +
			"approving accepts the tool as it is now.": "bank/pay が変更されています。説明・スキーマ・注釈が、hana が受け入れたとき（今日 11:00）と" +
			"異なります。承認すると、現在のツールを受け入れます。",
	} {
		r.HumanMessage = message
		d := channels.Delivery{Requests: []approval.Request{r}}
		d.Notification.CreatedAt = channelstest.Noon
		if got := m.Card(d).Items[0].Why; got != want {
			t.Errorf("%q is told as %q, want %q", message, got, want)
		}
	}
}

func TestACardShowsWhatItIsNarrowedToInTheOrderInWhichItCame(t *testing.T) {
	alike := func() []approval.Request {
		rs := channelstest.Batch(4)
		for n := range rs {
			rs[n].Risk = approval.RiskHigh
		}
		return rs
	}
	d := channelstest.OnACard(approval.KindRequest, 0, []int{1, 2, 2, 3}, alike()...)
	for after, want := range [][]int{{1, 2, 3, 4}, {2, 3, 4}, {4}} {
		d.Notification.After = after
		d.Requests = alike()
		slices.Reverse(d.Requests)
		c := channelstest.Maker().Card(d)
		if ids, wanted := idsOf(c), channelstest.IDs(want...); !slices.Equal(ids, wanted) || c.Shows.Version != 3 ||
			c.Shows.After != after {
			t.Errorf("after %d: %v, %+v; want %v", after, ids, c.Shows, wanted)
		}
		if together := c.Together(); together != (len(want) > 1) {
			t.Errorf("%d requests that can be decided together: %t", len(want), together)
		}
	}
}

func idsOf(c channels.Card) []string {
	var ids []string
	for _, i := range c.Items {
		ids = append(ids, i.ID)
	}
	return ids
}

// Whoever swipes through a card of twenty has seen the one that matters; and what joins moves nothing that was there.
func TestRule3_ACardShowsWhatIsMostDangerousFirst(t *testing.T) {
	rs := channelstest.Batch(5)
	for n, risk := range []approval.Risk{approval.RiskLow, approval.RiskMedium, approval.RiskHigh, approval.RiskLow,
		approval.RiskHigh} {
		rs[n].Risk = risk
	}
	d := channelstest.OnACard(approval.KindRequest, 0, []int{1, 1, 1, 2, 2}, rs...)
	d.Requests = slices.Clone(rs)
	if ids, want := idsOf(channelstest.Maker().Card(d)), channelstest.IDs(3, 2, 1, 5, 4); !slices.Equal(ids, want) {
		t.Errorf("it shows %v, want %v", ids, want)
	}
}

func TestWhatWasSaidBefore(t *testing.T) {
	const now = `{"amount":2000,"memo":"October","to":"acme-2"}`
	long := strings.Repeat("the quick brown fox ", 20)
	for _, x := range []struct{ before, now, want string }{
		{`{"amount":2000,"memo":"October","to":"acme"}`, now, "to acme → acme-2"},
		{now, now, "the same arguments"},
		{`{"amount":1999,"memo":"October","to":"acme-2"}`, now, "amount 1999 → 2000"},
		{`{"amount":"2000","memo":"October","to":"acme-2"}`, now, `amount "2000" → 2000`},
		{`{"amount":2000,"to":"acme-2"}`, now, "memo – → October"},
		{`{"amount":2000,"cc":"x","memo":"October","to":"acme-2"}`, now, "cc x → –"},
		{`{}`, `{"a":1,"b":2,"c":3,"d":4,"e":5}`, "a – → 1, b – → 2, c – → 3 (+2)"},
		{`{"to":"acme"}`, `{"to":"acme, amount 5 → 2000"}`, `to acme → "acme, amount 5 → 2000"`},
		{`{"to":"a\u202eb"}`, `{"to":"b"}`, `to "a⟨U+202E⟩b" → b`},
		{`{"text":"` + long + `a"}`, `{"text":"` + long + `b"}`, `text …brown fox a" → …brown fox b"`},
		{`{"password":"hunter2hunter2"}`, `{"password":"hunter2hunter2"}`, "the same arguments"},
		{`{"k":{"deep":1}}`, `{"k":{"deep":2}}`, `k {"deep":1} → {"deep":2}`},
	} {
		r := channelstest.Request(x.now)
		r.Before = &approval.Said{By: "hana", At: channelstest.Noon.Add(-2 * time.Minute), Reason: "wrong account",
			Args: []byte(x.before)}
		c := channelstest.Maker().Card(channels.Delivery{Notification: approval.Notification{Kind: approval.KindRequest,
			CreatedAt: channelstest.Noon}, Requests: []approval.Request{r}})
		want := `⚠ Last call of this tool: denied by hana 2 min ago: "wrong account". Now: ` + x.want
		if got := c.Items[0].Notices[len(c.Items[0].Notices)-1].Text; got != want && c.Items[0].Notices[0].Text != want {
			t.Errorf("%s, then %s:\n%s\nwant\n%s", x.before, x.now, got, want)
		}
	}
}

func TestWhatWasSaidBeforeTellsNoSecret(t *testing.T) {
	r := channelstest.Request(`{"password":"` + channelstest.Secret + `","to":"acme"}`)
	r.Before = &approval.Said{By: "hana", At: channelstest.Noon.Add(-time.Hour), Approved: true,
		Args:   []byte(`{"password":"` + channelstest.Secret + `2","to":"acme"}`),
		Reason: "as agreed, password=" + channelstest.Secret}
	c := channelstest.Maker().Card(channels.Delivery{Notification: approval.Notification{Kind: approval.KindRequest,
		CreatedAt: channelstest.Noon}, Requests: []approval.Request{r}})
	for _, n := range c.Items[0].Notices {
		if strings.Contains(n.Text+n.Short, channelstest.Secret) {
			t.Errorf("it says %q", n.Text)
		}
	}
}

func TestIgnoredArgsAreNoDifference(t *testing.T) {
	r := channelstest.Request(`{"description":"second try","path":"/etc/hosts"}`)
	r.IgnoredArgs = []string{"description"}
	r.Before = &approval.Said{By: "hana", At: channelstest.Noon.Add(-time.Hour), Approved: true,
		Args: []byte(`{"description":"first","path":"/etc/hosts"}`)}
	c := channelstest.Maker().Card(channels.Delivery{Notification: approval.Notification{Kind: approval.KindRequest,
		CreatedAt: channelstest.Noon}, Requests: []approval.Request{r}})
	if got, want := c.Items[0].Notices[0].Text,
		"Last call of this tool: approved by hana 1 h ago. Now: the same arguments"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A card says what its button for all leaves out, by the kind that the button's answer names, and only where it leaves
// out something that waits.
func TestACardSaysWhatApproveAllLeavesOut(t *testing.T) {
	rs := channelstest.Batch(5)
	for i := range rs {
		rs[i].Risk, rs[i].Need = approval.RiskHigh, nil
	}
	card := func() channels.Card {
		return channelstest.Maker().Card(channelstest.OnACard(approval.KindRequest, 0, []int{1, 1, 1, 1, 1}, rs...))
	}
	if got := card().LeftOut(); got != "" {
		t.Errorf("nothing is left out, but %q", got)
	}
	rs[0].Risk, rs[0].Need = approval.RiskCritical, &approval.Need{StepUp: true}
	rs[1].Need = &approval.Need{StepUp: true, Confirm: true}
	rs[2].Need = &approval.Need{Confirm: true}
	rs[3].Risk, rs[3].Status, rs[3].ResolvedBy = approval.RiskCritical, approval.Denied, "hana"
	const want = "⚠ “Approve all” leaves these out: 1 critical, 1 with a passkey, 1 with a second yes. Approve them one at a time. “Deny all” denies them too."
	if got := card().LeftOut(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// That characters are shown by their code points is said where an arg has some that nobody would see, and nowhere else.
func TestACardSaysThatInvisibleCharactersAreShown(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"to":"a\u202eb"}`: true, `{"to":"a\u200bb"}`: true, `{"to":"a\u0007b"}`: true, `{"a\u2066":1}`: true,
		`{"deep":{"er":["\ufeff"]}}`: true, `{"text":"a\n\u202eb\n"}`: true, `{"ignored":"\u202e"}`: true,
		`{"to":"acme"}`: false, `{"text":"a\n\tb\n"}`: false, `{"text":"a\tb"}`: false, `{"text":"a\r\nb\r\n"}`: false,
		`{"to":"⟨U+202E⟩"}`: false, `{"to":"日本 ไทย 👩‍👩‍👧"}`: false,
	} {
		r := channelstest.Request(raw)
		if strings.Contains(raw, "ignored") {
			r.IgnoredArgs = []string{"ignored"}
		}
		said := 0
		for _, n := range card(approval.KindRequest, r).Items[0].Notices {
			if n.Text == "⚠ Invisible characters are shown as ⟨U+…⟩." {
				said++
			}
		}
		if said > 1 || (said == 1) != want {
			t.Errorf("%s: said %d times", raw, said)
		}
	}
}

// Of arguments that were removed nothing is made up: their size is told, and when they went.
func TestRemovedArgsAreToldOf(t *testing.T) {
	r := channelstest.Request(`{}`)
	r.Args, r.ArgsRemovedAt, r.ArgsBytes = []byte(`null`), r.RequestedAt.Add(90*24*time.Hour), 1234
	i := channelstest.Maker().Whole(r, r.RequestedAt)
	if len(i.Rows) > 0 || i.Total != 0 || len(i.Notices) != 1 ||
		!strings.Contains(i.Notices[0].Text, "The arguments (1234 bytes) were removed ") {
		t.Errorf("%+v, %d, %+v", i.Rows, i.Total, i.Notices)
	}
}
