// Package channelstest holds what every channel is tested with: the cards that each must draw, hostile
// ones without end, and a check that nothing secret gets out.
package channelstest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/legible"
	"countersign/approval/summary"
	"countersign/channels"
)

// Noon is when the requests of [Cases] were made: 2026-11-21 12:00 in Tokyo.
var Noon = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// Secret is a value that the args of some cases hold and no card may show.
const Secret = "not-a-real-secret-but-hidden"

// Maker makes the cards of the cases.
func Maker() channels.Maker {
	return channels.Maker{
		Zone: time.FixedZone("JST", 9*60*60),
		Link: func(id string) string { return "https://gate.example.com/r/" + id },
		Describe: func(server, tool string) (words, digest string, ok bool) {
			return ServerWords, ToolDigest, server == "files" && tool == "write_file"
		},
	}
}

// ToolDigest is of the one tool that a server describes to the cases, and ServerWords is what it says of it.
var (
	ToolDigest  = strings.Repeat("7b", 32)
	ServerWords = "Write a file.\nThe folder must be there; a file that is there is replaced.\u202e <!channel> " +
		strings.Repeat("It is written at once. ", 12)
)

// Case is one card.
type Case struct {
	Name     string
	Delivery channels.Delivery
}

// Card makes the case's card.
func (c Case) Card() channels.Card { return Maker().Card(c.Delivery) }

// ID returns the n-th request id of the cases.
func ID(n int) string { return fmt.Sprintf("01KAFHZX3T9W8Y7B6A5D4C%04d", n) }

// IDs are those of several requests.
func IDs(ns ...int) []string {
	ids := make([]string, len(ns))
	for i, n := range ns {
		ids[i] = ID(n)
	}
	return ids
}

// BatchID is the id of the cases' batches.
const BatchID = "01KAFHZX3T9W8Y7B6A5D4CBATC"

// Request is a plain pending request with these args.
func Request(raw string) approval.Request {
	a, err := args.Parse([]byte(raw))
	if err != nil {
		panic(err)
	}
	return approval.Request{
		ID: ID(1), Agent: "treasury-bot", Tool: "transfer_credits",
		Args: a.Canonical(), ArgsHash: a.Hash(), Risk: approval.RiskHigh,
		HumanMessage: "Transfer exceeds the confirmation threshold ($10)", ReasonCode: "over_threshold",
		Status: approval.Pending, RequestedAt: Noon, ExpiresAt: Noon.Add(time.Hour),
	}
}

func delivery(kind approval.NotificationKind, rs ...approval.Request) channels.Delivery {
	d := channels.Delivery{Notification: approval.Notification{ID: "01KAFHZX3T9W8Y7B6A5D4CN0T1", Kind: kind,
		Status: approval.Queued, CreatedAt: Noon}, Requests: rs}
	switch kind {
	case approval.KindReminder:
		d.Notification.CreatedAt = Noon.Add(32 * time.Minute)
	case approval.KindEdit:
		d.Notification.CreatedAt = Noon.Add(6 * time.Minute)
	}
	if len(rs) > 0 {
		d.Notification.ApprovalID = rs[0].ID
	}
	if len(rs) > 1 {
		d.Notification.BatchID = BatchID
	}
	return d
}

// Reply is a reply that brings the cards of rs.
func Reply(text string, rs ...approval.Request) channels.Delivery {
	d := delivery(approval.KindReply, rs...)
	d.Notification.BatchID, d.Notification.Text = "", text
	for _, r := range rs {
		d.Notification.Cards = append(d.Notification.Cards, r.ID)
	}
	return d
}

// Asking is a reply that asks why.
func Asking(note approval.Note, text string) channels.Delivery {
	d := Reply(text)
	d.Notification.ApprovalID, d.Notification.Note = ID(1), note
	return d
}

// Diff is a preview that is a unified diff.
const Diff = `--- a/gate.conf
+++ b/gate.conf
@@ -1,5 +1,6 @@
 [gate]
-listen = 127.0.0.1:8787
+listen = 0.0.0.0:8787
+public = true
 store = sqlite:gate.db
 
 # ` + "\u202e" + `the end
\ No newline at end of file
`

// LongDiff is one that no card has room for.
func LongDiff() string {
	var b strings.Builder
	b.WriteString("diff --git a/words.txt b/words.txt\nindex 1d2c3b4..5a6f7e8 100644\n--- a/words.txt\n+++ " +
		"b/words.txt\n@@ -1,400 +1,400 @@\n")
	for i := range 400 {
		fmt.Fprintf(&b, "-old word %d\n+new word %d%s\n", i, i, strings.Repeat(" and so on", i%40))
	}
	return b.String()
}

const transfer = `{"amount_cents":2000,"to_address":"0xAbC0000000000000000000000000000000000123"}`

func ended(status approval.Status, by, reason string) approval.Request {
	r := Request(transfer)
	r.Status, r.ResolvedAt, r.ResolvedBy, r.ResolveReason = status, Noon.Add(5*time.Minute), by, reason
	if status == approval.Approved {
		r.UseBy = Noon.Add(20 * time.Minute)
	}
	return r
}

// sent is the last use of a call that was sent on, and what came of it.
func sent(ran approval.RunResult) *approval.Use {
	at := Noon.Add(-59 * time.Minute)
	return &approval.Use{RequestID: ID(9), ApprovedBy: "hana", ApprovedAt: Noon.Add(-time.Hour), ConsumedAt: at,
		DispatchedAt: at, RunResult: ran}
}

// twoStages takes two people of finance, and then one of security.
var twoStages = approval.Need{Stages: []approval.Stage{{Group: "finance", Count: 2}, {Group: "security", Count: 1}}}

// vote is an approval, some minutes after [Noon].
func vote(stage, minutes int, person, standingInFor string) approval.Vote {
	return approval.Vote{Stage: stage, Person: person, For: standingInFor, Approve: true,
		At: Noon.Add(time.Duration(minutes) * time.Minute), Via: approval.ViaAPI}
}

// voted is a request with a need of two stages, and votes on it.
func voted(stage int, votes ...approval.Vote) approval.Request {
	r := Request(transfer)
	r.Need, r.Stage, r.Votes = &twoStages, stage, votes
	return r
}

// Once is a reply that asks once more before something is done about r.
func Once(note approval.Note, text string, r approval.Request) channels.Delivery {
	d := delivery(approval.KindReply, r)
	d.Notification.Text, d.Notification.Note = text, note
	return d
}

// linked is a reply with an address.
func linked(text string) channels.Delivery {
	d := Reply(text)
	d.Notification.Note = approval.LinkNote("https://slack.com/app_redirect?app=A0APPROVE1&team=T0TEAM0001")
	return d
}

// edit makes r a call that writes a file, with a picture of what changes.
func edit(r *approval.Request, diff string) {
	a, _ := args.Parse([]byte(`{"path":"/etc/gate.conf","mode":"0644"}`))
	r.Tool, r.Args, r.ArgsHash, r.Preview = "edit_file", a.Canonical(), a.Hash(), diff
	r.HumanMessage, r.ReasonCode = "Writes to “/etc/gate.conf”", "approval_required"
}

// Written is what the cases write, and WrittenDiff a diff that shows a part of it.
const (
	Written = "[gate]\nlisten = 0.0.0.0:8787\npublic = true\nstore = sqlite:gate.db\n\n# what follows is for " +
		"people\n[people]\nhana = approver\nken = reader\n\n# the end\n"
	WrittenDiff = "--- a/gate.conf\n+++ b/gate.conf\n@@ -1,5 +1,6 @@ anything\n [gate]\n-listen = 127.0.0.1:8787\n" +
		"+listen = 0.0.0.0:8787\n+public = true\n store = sqlite:gate.db\n \n # what follows is for people\n"
)

// WholeDiff is a diff of a new file.
func WholeDiff(content string) string {
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	return fmt.Sprintf("--- /dev/null\n+++ gate.conf\n@@ -0,0 +1,%d @@\n+%s\n", len(lines), strings.Join(lines, "\n+"))
}

// Write is a call that writes a file, with a diff.
func Write(content, diff string) approval.Request {
	raw, err := json.Marshal(map[string]string{"path": "/etc/gate.conf", "content": content})
	if err != nil {
		panic(err)
	}
	r := Request(string(raw))
	r.Server, r.Tool, r.Preview, r.Rationale = "files", "write_file", diff, "The gate must be reached from outside."
	r.HumanMessage, r.ReasonCode = "Writes to “/etc/gate.conf”", "approval_required"
	r.ToolDigest, r.ToolSeen = ToolDigest, true
	return r
}

// Worded has a request say what its rule says of it, in two languages.
func Worded(r *approval.Request) {
	r.Sentences = &summary.Sentences{
		Summary: summary.Wording{"": "Pay $20.00 to “Acme Ltd.” from treasury",
			"en": "Pay $20.00 to “Acme Ltd.” from treasury", "ja": "treasury から “Acme Ltd.” へ $20.00 を送金"},
		Message: summary.Wording{"": r.HumanMessage, "en": r.HumanMessage, "ja": "送金額が確認の上限（$10）を超えています"},
	}
}

// wordedBatch is a batch of which one call has a sentence of its rule's.
func wordedBatch() []approval.Request {
	rs := Batch(3)
	rs[1].Sentences = &summary.Sentences{Summary: summary.Wording{"": "Delete “/srv/reports/2.csv”",
		"en": "Delete “/srv/reports/2.csv”", "ja": "“/srv/reports/2.csv” を削除"}}
	return rs
}

// Batch is n different requests of one batch call.
func Batch(n int) []approval.Request {
	var rs []approval.Request
	risks := []approval.Risk{approval.RiskMedium, approval.RiskHigh, approval.RiskCritical, approval.RiskLow}
	for i := range n {
		r := Request(fmt.Sprintf(`{"path":"/srv/reports/%d.csv","recursive":%t}`, i+1, i%2 == 0))
		r.ID, r.Server, r.Tool, r.Risk, r.BatchID = ID(i+1), "files", "delete_file", risks[i%len(risks)], BatchID
		r.SessionID, r.HumanMessage = "sess-42", "Deleting files needs a person's yes"
		rs = append(rs, r)
	}
	return rs
}

// OnACard is a delivery of a card with these items, of which what came after a version is shown.
func OnACard(kind approval.NotificationKind, after int, versions []int, rs ...approval.Request) channels.Delivery {
	d := delivery(kind, rs...)
	d.Card = &approval.Card{ID: BatchID, Agent: rs[0].Agent, Risk: approval.RiskHigh}
	for n, r := range rs {
		d.Card.Items = append(d.Card.Items, approval.CardItem{ID: r.ID, Version: versions[n]})
	}
	d.Notification.BatchID, d.Notification.After = BatchID, after
	return onlyShown(d)
}

// onlyShown has a delivery bring no requests but those that its card shows, in the order in which it shows them: by the
// version they came with, and of one version the most dangerous first.
func onlyShown(d channels.Delivery) channels.Delivery {
	shown := d.Card.Upto(d.Notification.After, d.Card.Version())
	d.Requests = slices.DeleteFunc(d.Requests, func(r approval.Request) bool { return !slices.Contains(shown, r.ID) })
	version := func(id string) int {
		return d.Card.Items[slices.IndexFunc(d.Card.Items, func(i approval.CardItem) bool { return i.ID == id })].Version
	}
	slices.SortStableFunc(d.Requests, func(a, b approval.Request) int {
		return cmp.Or(version(a.ID)-version(b.ID), b.Risk.Rank()-a.Risk.Rank())
	})
	return d
}

// Waiting is a reminder of several requests.
func Waiting(kind approval.NotificationKind, rs ...approval.Request) channels.Delivery {
	d := Reply("", rs...)
	d.Notification.Kind, d.Notification.ApprovalID = kind, ""
	return d
}

// Grantable is a delivery whose requests may answer the same call again.
func Grantable(d channels.Delivery) channels.Delivery {
	for _, r := range d.Requests {
		d.Grantable = append(d.Grantable, r.ID)
	}
	return d
}

// said is what was said two minutes before [Noon].
func said(approve bool, reason, callArgs string) *approval.Said {
	a, err := args.Parse([]byte(callArgs))
	if err != nil {
		panic(err)
	}
	return &approval.Said{RequestID: ID(9), Approved: approve, By: "hana", At: Noon.Add(-2 * time.Minute), Reason: reason,
		Args: a.Canonical()}
}

func many(keys int) string {
	m := map[string]any{}
	for i := range keys {
		m[fmt.Sprintf("option_%03d", i)] = strings.Repeat("v", i%7) + fmt.Sprint(i)
	}
	b, _ := json.Marshal(m)
	return string(b)
}

// Hostile are args that try everything: markup, mentions, links, fences, control, bidirectional and
// zero-width characters, values that look like rows.
const Hostile = `{
	"markup": "*bold* _it_ ~no~ ` + "`code`" + ` :boom: <!channel> <@U02HANA> <https://evil.example|click> & {name}",
	"fence": "` + "```" + `\nto_address: 0xSAFE\n` + "```" + `",
	"bidi": "safe\u202egnp.exe\u2066\u200b\u2060\ufeff",
	"control": "a\u0000b\u0007c\u001b[2Jd\u0085e\u2028f",
	"looks": "x\namount_cents: 1\nto_address: 0xFRIEND",
	"number_as_text": "2000", "null_as_text": "null", "empty": "", "spaces": "  padded  ",
	"› forged": "› nested", "a\nb": "key with a line break", "": "empty key",
	"object_as_text": "{\"a\":1}", "tail": "rm -rf /tmp/x\n\n\n\n",
	"emoji": "👩‍👩‍👧‍👦🏳️‍🌈👍🏽", "zalgo": "Z̸̡̛͍̪̹̼̠̜͉̪̦̣̆̈́a"
}`

// Cases are the cards that every channel must draw.
func Cases() []Case { //nolint:funlen // a table
	request := func(change func(r *approval.Request)) channels.Delivery {
		r := Request(transfer)
		change(&r)
		return delivery(approval.KindRequest, r)
	}
	with := func(callArgs string) channels.Delivery { return delivery(approval.KindRequest, Request(callArgs)) }
	used := ended(approval.Approved, "hana", "")
	used.ConsumedAt = Noon.Add(6 * time.Minute)
	lapsed := ended(approval.Approved, "hana", "checked with finance")
	lapsed.LapsedAt = lapsed.UseBy
	some := Batch(3)
	some[1].Status, some[1].ResolvedAt, some[1].ResolvedBy, some[1].ResolveReason = approval.Denied, Noon.Add(time.Minute),
		"hana", "keep that one"
	over := Batch(2)
	for i := range over {
		over[i].Status, over[i].ResolvedAt, over[i].ResolvedBy = approval.Expired, over[i].ExpiresAt, "system:timeout"
	}
	hana, ken, mei := vote(1, 1, "hana", ""), vote(1, 3, "ken", "yuki"), vote(2, 5, "mei", "")
	complete := ended(approval.Approved, "mei", "")
	complete.Need, complete.Votes, complete.Who = &twoStages, []approval.Vote{hana, ken, mei}, "hana, ken for yuki and mei"
	edited := ended(approval.Denied, "hana", "the amount was too high")
	edited.EndCode, edited.ReplacedBy = approval.EndEdited, ID(2)
	replacing := Request(`{"amount_cents":1500,"to_address":"0xAbC0000000000000000000000000000000000123"}`)
	replacing.ID, replacing.Replaces = ID(2), ID(1)
	frozen := ended(approval.Cancelled, "hana", "it pays the wrong people")
	frozen.EndCode = approval.EndFrozen
	extended := voted(0, hana)
	extended.ExtendedAt = Noon.Add(time.Minute)
	granted := ended(approval.Approved, "hana", "")
	granted.SessionID = "sess-42"
	deciding := Batch(3)
	deciding[0].Status, deciding[0].ResolvedAt, deciding[0].ResolvedBy = approval.Approved, Noon.Add(time.Minute), "hana"
	deciding[0].UseBy = Noon.Add(16 * time.Minute)
	stepUpSome := Batch(3)
	stepUpSome[1].Need = &approval.Need{StepUp: true}
	deep := strings.Repeat(`{"level":`, 50) + "1" + strings.Repeat("}", 50)
	huge, _ := json.Marshal(map[string]string{"path": "/etc/hosts",
		"content": strings.Repeat("All work and no play. ", 60_000/22)})
	return []Case{
		{"request", delivery(approval.KindRequest, Request(transfer))},
		{"summary", request(Worded)},
		{"summary_batch", delivery(approval.KindRequest, wordedBatch()...)},
		{"reminder", delivery(approval.KindReminder, Request(transfer))},
		{"critical_reason", request(func(r *approval.Request) {
			r.Risk, r.RequireReason, r.Server, r.SessionID, r.Scope = approval.RiskCritical, true, "bank", "sess-42",
				"/home/agent/books"
			r.Rationale = "The invoice is due today.\nI have checked the address twice."
			r.Preview = "- balance 5000\n+ balance 3000"
		})},
		{"step_up", request(func(r *approval.Request) {
			r.Risk, r.RequireReason, r.Need = approval.RiskCritical, true, &approval.Need{StepUp: true}
		})},
		{"step_up_some", delivery(approval.KindRequest, stepUpSome...)},
		{"batch_3", delivery(approval.KindRequest, Batch(3)...)},
		{"batch_20", delivery(approval.KindRequest, Batch(20)...)},
		{"hostile", with(Hostile)},
		{"huge", with(string(huge))},
		{"many_keys", with(many(300))},
		{"deep", with(deep)},
		{"nested", with(`{"to":{"name":"Ada","accounts":[{"iban":"XX00","share":0.50},{"iban":"XX01","share":0.5}]},"tags":["a","b"],"argv":["git","push","--force"]}`)}, //nolint:lll // one literal
		{"no_args", with(`{}`)},
		{"secrets", with(`{"password":"` + Secret + `","headers":{"Authorization":"Bearer ` + Secret +
			`"},"url":"https://user:` + Secret + `@example.com/"}`)},
		{"previous", request(func(r *approval.Request) {
			r.Previous = &approval.Use{RequestID: ID(9), ApprovedBy: "hana", ApprovedAt: Noon.Add(-time.Hour),
				ConsumedAt: Noon.Add(-59 * time.Minute)}
		})},
		{"previous_sent", request(func(r *approval.Request) { r.Previous = sent("") })},
		{"previous_succeeded", request(func(r *approval.Request) { r.Previous = sent(approval.RunSucceeded) })},
		{"previous_failed", request(func(r *approval.Request) { r.Previous = sent(approval.RunFailed) })},
		{"ignored", request(func(r *approval.Request) {
			a, _ := args.Parse([]byte(`{"path":"/etc/hosts","description":"Add a host","content":"127.0.0.1 gate"}`))
			r.Args, r.IgnoredArgs, r.ArgsHash = a.Canonical(), []string{"description"}, a.Hash("description")
		})},
		{"numbers", with(`{"amount_cents":1234567,"fee_cents":-5,"price_minor":990,"currency":"EUR","rows":40000,"ratio":0.333333,"big":123456789012345678901234567890,"exp":1e21,"as_text":"40000","like_ours":"2000  = 99.00","dry_run":false,"limit":null}`)}, //nolint:lll // one literal
		{"diff", request(func(r *approval.Request) { edit(r, Diff) })},
		{"diff_long", request(func(r *approval.Request) { edit(r, LongDiff()) })},
		{"write_new", delivery(approval.KindRequest, Write(Written, WholeDiff(Written)))},
		{"write", delivery(approval.KindRequest, Write(Written, WrittenDiff))},
		{"write_unlike", delivery(approval.KindRequest, Write(strings.Replace(Written, "0.0.0.0", "[::]", 1), WrittenDiff))},
		{"write_read", delivery(approval.KindRequest, func() approval.Request {
			r := Write(Written, WrittenDiff)
			r.PreviewFrom = "read_text_file"
			return r
		}())},
		{"diff_read", request(func(r *approval.Request) {
			edit(r, Diff)
			r.PreviewFrom = "read_text_file"
		})},
		{"unreached", func() channels.Delivery {
			d := delivery(approval.KindRequest, Request(transfer))
			d.Notification.Note = approval.NoteUnreached
			return d
		}()},
		{"need_first_vote", delivery(approval.KindEdit, voted(0, hana))},
		{"need_second_stage", delivery(approval.KindEdit, voted(1, hana, vote(1, 3, "ken", "")))},
		{"need_delegated", delivery(approval.KindEdit, voted(1, hana, ken))},
		{"need_asked", delivery(approval.KindRequest, voted(0))},
		{"need_extended", delivery(approval.KindEdit, extended)},
		{"replaces", delivery(approval.KindRequest, replacing)},
		{"outcome_needed", delivery(approval.KindEdit, complete)},
		{"outcome_edited", delivery(approval.KindEdit, edited)},
		{"outcome_frozen", delivery(approval.KindEdit, frozen)},
		{"outcome_approved", delivery(approval.KindEdit, ended(approval.Approved, "hana", "checked with finance"))},
		{"outcome_used", delivery(approval.KindEdit, used)},
		{"outcome_lapsed", delivery(approval.KindEdit, lapsed)},
		{"outcome_denied", delivery(approval.KindEdit, ended(approval.Denied, "hana", "wrong account <!channel>"))},
		{"outcome_expired", delivery(approval.KindEdit, ended(approval.Expired, "system:timeout", ""))},
		{"outcome_cancelled", delivery(approval.KindEdit, ended(approval.Cancelled, "agent:treasury-bot", ""))},
		{"outcome_batch_some", delivery(approval.KindEdit, some...)},
		{"outcome_batch_over", delivery(approval.KindEdit, over...)},
		{"reply", Reply("Already approved by hana at 2026-11-21T03:05:00.000Z.")},
		{"reply_card", Reply("This request is waiting. Use its buttons to decide.", Request(transfer))},
		{"reply_ask", Asking(approval.NoteReason, "Denied: transfer_credits.")},
		{"reply_ask_deny", Asking(approval.NoteDeny,
			"This request needs a reason, so nothing is decided yet. Type your reason now, or type: deny "+ID(1)+
				" followed by your reason.")},
		{"reply_ask_approve", Asking(approval.NoteApprove, "This request needs a reason. Type: approve "+ID(1)+
			" followed by your reason.")},
		{"reply_confirm", Once(approval.ConfirmNote(""), "treasury-bot asks to run transfer_credits. Approve it?",
			Request(transfer))},
		{"reply_freeze", Once(approval.NoteFreeze, "Freeze treasury-bot? Every call of it is denied and what waits ends, "+
			"until an admin lifts it.", Request(transfer))},
		{"reply_link", linked("3 requests are waiting. I've sent them to you as direct messages.")},
		{"reply_more", Once(approval.NoteMore, "Your approval counts: 1 of 3.", voted(0, hana))},
		{"card_alone", OnACard(approval.KindRequest, 0, []int{1}, Request(transfer))},
		{"card_first", OnACard(approval.KindRequest, 0, []int{1, 1, 1}, Batch(3)...)},
		{"card_joined", OnACard(approval.KindEdit, 0, []int{1, 1, 2}, Batch(3)...)},
		{"card_rest", OnACard(approval.KindRequest, 1, []int{1, 2, 3}, Batch(3)...)},
		{"card_rest_alone", OnACard(approval.KindRequest, 2, []int{1, 2, 3}, Batch(3)...)},
		{"card_decided", Grantable(OnACard(approval.KindEdit, 0, []int{1, 1, 2}, deciding...))},
		{"said_denied", request(func(r *approval.Request) {
			r.Before = said(false, "wrong account", strings.Replace(transfer, "123\"", "122\"", 1))
		})},
		{"said_approved", request(func(r *approval.Request) { r.Before = said(true, "", transfer) })},
		{"waiting", Waiting(approval.KindReminder, Batch(3)...)},
		{"waiting_some", Waiting(approval.KindEdit, some...)},
		{"outcome_grant", Grantable(delivery(approval.KindEdit, granted))},
		{"reply_grant", Grantable(Once(approval.NoteMore, "Approved: transfer_credits. The agent may run it once.",
			granted))},
		{"reply_cards", Reply("3 requests are waiting. Use their buttons to decide.", Batch(3)...)},
	}
}

// Seeds add what a fuzz test of a channel starts from.
func Seeds(add func(values ...any)) {
	for i, callArgs := range []string{`{}`, Hostile, many(300), `{"k0":[{"a":[[["deep"]]]}],"K0":1}`, "not JSON",
		"{\"k0\":\"" + strings.Repeat("\\u202e", 5000) + "\"}",
		`{"password":"` + Secret + `"}`} {
		for n, words := range []string{"", "plain words", strings.Repeat("<&>", 2000), "👩‍👩‍👧‍👦\u202e\n\n\n{id}"} {
			add([]byte(callArgs), words, uint8(i*n), uint8(i*37+n*16))
		}
	}
}

// AnyDelivery draws a delivery with args, texts and states that nobody would send with good intent.
func AnyDelivery(t *rapid.T) channels.Delivery {
	kind := rapid.SampledFrom([]approval.NotificationKind{approval.KindRequest, approval.KindReminder, approval.KindReply,
		approval.KindEdit}).Draw(t, "kind")
	n := rapid.OneOf(rapid.Just(1), rapid.IntRange(2, 20)).Draw(t, "requests")
	if kind == approval.KindReply {
		n = rapid.IntRange(0, 5).Draw(t, "cards")
	}
	var rs []approval.Request
	for i := range n {
		r := anyRequest(t, n)
		r.ID = ID(i)
		rs = append(rs, r)
	}
	d := delivery(kind, rs...)
	if kind == approval.KindReply {
		d = Reply(anyText(30_000).Draw(t, "text"), rs...)
	}
	d.Notification.Note = rapid.SampledFrom([]approval.Note{"", "", approval.NoteReason, approval.NoteDeny,
		approval.NoteApprove, approval.NoteUnreached, approval.NoteMore, approval.NoteFreeze,
		approval.ConfirmNote(""), approval.LinkNote("https://slack.com/app_redirect?app=A0APPROVE1")}).Draw(t, "note")
	if rapid.Bool().Draw(t, "grantable") {
		d = Grantable(d)
	}
	if len(rs) > 1 && kind != approval.KindReply {
		switch rapid.IntRange(0, 2).Draw(t, "on a card") {
		case 1:
			d = cut(t, d)
		case 2:
			d.Notification.ApprovalID, d.Notification.BatchID, d.Requests = "", "", rs[:min(len(rs), 10)]
			for _, r := range d.Requests {
				d.Notification.Cards = append(d.Notification.Cards, r.ID)
			}
		}
	}
	d.Notification.CreatedAt = Noon.Add(time.Duration(rapid.IntRange(-1, 62).Draw(t, "minutes")) * time.Minute)
	return d
}

// cut has a delivery show a part of a card.
func cut(t *rapid.T, d channels.Delivery) channels.Delivery {
	d.Card = &approval.Card{ID: BatchID}
	version := 1
	for _, r := range d.Requests {
		d.Card.Items = append(d.Card.Items, approval.CardItem{ID: r.ID, Version: version})
		version += rapid.IntRange(0, 1).Draw(t, "later")
	}
	d.Notification.After = rapid.IntRange(0, d.Card.Version()-1).Draw(t, "after")
	return onlyShown(d)
}

func anyRequest(t *rapid.T, among int) approval.Request {
	callArgs := anyArgs(t, among)
	r := Request(callArgs)
	r.Tool = rapid.StringMatching(`[A-Za-z0-9_.:-]{1,128}`).Draw(t, "tool")
	r.Server = rapid.StringMatching(`([A-Za-z0-9_.:-]{1,128})?`).Draw(t, "server")
	r.Agent = rapid.StringMatching(`[A-Za-z0-9_.:-]{1,128}`).Draw(t, "agent")
	r.Scope = anyText(approval.MaxScope).Draw(t, "scope")
	r.SessionID = anyText(approval.MaxSessionID).Draw(t, "session")
	r.Rationale = anyText(4000).Draw(t, "rationale")
	r.Preview = rapid.OneOf(anyText(4000), anyDiff()).Draw(t, "preview")
	if rapid.IntRange(0, 3).Draw(t, "write") == 0 {
		content := strings.ToValidUTF8(anyText(4000).Draw(t, "written")+"\n\n"+anyText(400).Draw(t, "more"), "")
		w := Write(content, WholeDiff(content))
		r.Args, r.ArgsHash, r.Preview = w.Args, w.ArgsHash, w.Preview
	}
	if rapid.IntRange(0, 3).Draw(t, "described") == 0 {
		r.Server, r.Tool, r.ToolDigest = "files", "write_file", ToolDigest
	}
	r.PreviewFrom = rapid.SampledFrom([]string{"", "read", strings.Repeat("r", 128)}).Draw(t, "read with")
	r.HumanMessage = anyText(2000).Draw(t, "message")
	r.Risk = rapid.SampledFrom([]approval.Risk{approval.RiskLow, approval.RiskMedium, approval.RiskHigh,
		approval.RiskCritical, "odd"}).Draw(t, "risk")
	if rapid.Bool().Draw(t, "needs") {
		r.Need = &approval.Need{}
		for range rapid.IntRange(0, 4).Draw(t, "stages") {
			r.Need.Stages = append(r.Need.Stages, approval.Stage{Group: anyText(100).Draw(t, "group"),
				Count: rapid.IntRange(1, 9).Draw(t, "count")})
		}
		r.Stage = rapid.IntRange(0, max(0, len(r.Need.Stages)-1)).Draw(t, "open stage")
		for range rapid.IntRange(0, 9).Draw(t, "votes") {
			r.Votes = append(r.Votes, approval.Vote{Stage: 1, Person: anyText(64).Draw(t, "voter"),
				For: anyText(64).Draw(t, "for"), Approve: true, At: Noon})
		}
	}
	r.RequireReason = rapid.Bool().Draw(t, "reason required")
	if rapid.Bool().Draw(t, "previous") {
		r.Previous = &approval.Use{ApprovedBy: anyText(200).Draw(t, "who"), ApprovedAt: Noon, ConsumedAt: Noon}
		if rapid.Bool().Draw(t, "sent") {
			r.Previous.DispatchedAt = Noon
			r.Previous.RunResult = rapid.SampledFrom([]approval.RunResult{"", approval.RunSucceeded, approval.RunFailed,
				approval.RunUnknown}).Draw(t, "ran")
		}
	}
	if rapid.Bool().Draw(t, "before") {
		r.Before = &approval.Said{By: anyText(100).Draw(t, "by before"), Reason: anyText(4000).Draw(t, "reason before"),
			At: Noon.Add(-time.Hour), Args: r.Args, Approved: rapid.Bool().Draw(t, "approved before")}
		if a, err := args.Parse([]byte(anyArgs(t, among))); err == nil {
			r.Before.Args = a.Canonical()
		}
	}
	if rapid.Bool().Draw(t, "ignored") {
		r.IgnoredArgs = []string{"k0", "k1", "k2"}
	}
	r.Status = rapid.SampledFrom([]approval.Status{approval.Pending, approval.Pending, approval.Approved, approval.Denied,
		approval.Expired, approval.Cancelled}).Draw(t, "status")
	if r.Status != approval.Pending {
		r.ResolvedAt, r.UseBy = Noon, Noon
		r.ResolvedBy, r.ResolveReason = anyText(200).Draw(t, "by"), anyText(approval.MaxReason).Draw(t, "why")
	}
	return r
}

// Fuzzed makes a delivery out of what a fuzzer draws: args as they are where they are args, else as a
// text among them.
func Fuzzed(raw []byte, words string, requests, flags uint8) channels.Delivery {
	a, err := args.Parse(raw)
	if err != nil {
		b, err := json.Marshal(map[string]string{"k0": string(raw), "k1": words})
		if err != nil {
			panic(err)
		}
		if a, err = args.Parse(b); err != nil {
			panic(err)
		}
	}
	var rs []approval.Request
	for i := range 1 + int(requests)%20 {
		r := Request("{}")
		r.ID, r.Args, r.ArgsHash = ID(i), a.Canonical(), a.Hash()
		r.HumanMessage, r.Rationale, r.Preview, r.SessionID, r.Scope = words, words, words, words, words
		r.RequireReason = flags&1 != 0
		if flags&2 != 0 {
			r.IgnoredArgs = []string{"k0"}
		}
		if flags&4 != 0 {
			r.Previous = &approval.Use{ApprovedBy: words}
		}
		if flags&8 != 0 && i%2 == 0 {
			r.Status, r.ResolvedBy, r.ResolveReason = approval.Denied, words, words
		}
		rs = append(rs, r)
	}
	if flags&64 != 0 {
		for i := range rs {
			rs[i].Preview = "@@ -1 +1 @@\n+" + strings.ReplaceAll(words, "\n", "\n-")
		}
	}
	kind := []approval.NotificationKind{approval.KindRequest, approval.KindReminder, approval.KindEdit,
		approval.KindReply}[flags>>4&3]
	d := delivery(kind, rs...)
	if kind == approval.KindReply {
		d = Reply(words, rs[:min(len(rs), 5)]...)
	}
	if flags&128 != 0 {
		d.Notification.Note = []approval.Note{approval.NoteReason, approval.NoteDeny, approval.NoteApprove,
			approval.NoteUnreached}[flags&3]
	}
	return d
}

// nasty are pieces that make trouble where they are not escaped, counted or made visible.
var nasty = []string{"<", ">", "&", "\"", "\\", "\n", "\n\n\n", "\t", "\x00", "\u202e", "\u200b", "\ufeff", "⟨", "⟩",
	"👩‍👩‍👧‍👦", "🏳️‍🌈", "é", "e\u0301\u0301",
	"承認", "ปฏิเสธ", "<!channel>", "```", "*", "{id}", " … (+3 characters) … ", "a", "word ", strings.Repeat("x", 300),
	strings.Repeat("<", 500), strings.Repeat("界", 700)}

func anyText(most int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		n := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, 60)).Draw(t, "pieces")
		var b strings.Builder
		for range n {
			p := rapid.OneOf(rapid.SampledFrom(nasty), rapid.StringN(0, 5, -1)).Draw(t, "piece")
			if b.Len()+len(p) > most {
				break
			}
			b.WriteString(p)
		}
		return b.String()
	})
}

// anyDiff is a unified diff, or nearly one.
func anyDiff() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		sign := rapid.SampledFrom([]string{"+", "-", " ", "+", "-", " ", "--- ", "+++ ", "@@ -1,9 +1,9 @@ ", "\\ ", "",
			"odd"})
		lines := []string{"--- a", "+++ b", "@@ -1,3 +1,3 @@"}
		for range rapid.OneOf(rapid.IntRange(1, 8), rapid.IntRange(1, 300)).Draw(t, "lines") {
			lines = append(lines, sign.Draw(t, "sign")+strings.ReplaceAll(anyText(300).Draw(t, "text of a line"), "\n", "\n "))
		}
		if rapid.IntRange(0, 3).Draw(t, "no header") == 0 {
			lines = lines[2:]
		}
		return strings.Join(lines, "\n")
	})
}

func anyArgs(t *rapid.T, among int) string {
	sizes := []int{0, 1, 3, 10, 40, 300}
	if among > 1 {
		sizes = sizes[:4]
	}
	size := rapid.SampledFrom(sizes).Draw(t, "keys")
	m := map[string]any{}
	for i := range size {
		key := fmt.Sprintf("k%d", i)
		if rapid.IntRange(0, 9).Draw(t, "odd key") == 0 {
			key += anyText(400).Draw(t, "key")
		}
		m[key] = anyValue(t, 0)
	}
	if rapid.IntRange(0, 9).Draw(t, "huge") == 0 {
		of := rapid.SampledFrom(nasty).Draw(t, "of")
		m["huge"] = strings.Repeat(of, 60_000/len(of))
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func anyValue(t *rapid.T, depth int) any {
	most := 7
	if depth > 5 {
		most = 3
	}
	switch rapid.IntRange(0, most).Draw(t, "value") {
	case 0:
		return anyText(2000).Draw(t, "string")
	case 1:
		return rapid.SampledFrom([]any{true, false, nil, "", "null", "12", json.Number("1e400"),
			json.Number("-0.00")}).Draw(t, "literal")
	case 2:
		return json.Number(rapid.StringMatching(`-?[1-9][0-9]{0,30}(\.[0-9]{1,5})?`).Draw(t, "number"))
	case 3:
		return rapid.StringMatching(`[a-z0-9 /_.-]{0,40}`).Draw(t, "plain")
	case 4, 5:
		m := map[string]any{}
		for i := range rapid.IntRange(0, 4).Draw(t, "members") {
			m[fmt.Sprintf("m%d", i)] = anyValue(t, depth+1)
		}
		return m
	default:
		list := []any{}
		for range rapid.IntRange(0, 5).Draw(t, "elements") {
			list = append(list, anyValue(t, depth+1))
		}
		return list
	}
}

// hidden remembers of which characters [Hidden] has found out whether they are seen: there are few, in long texts.
var hidden = map[rune]bool{}

// Hidden returns the first character in s that nobody would see on a screen, ok false where there is
// none. Line breaks and tabs are seen.
func Hidden(s string) (r rune, ok bool) {
	for _, r := range s {
		if r == '⟨' || r == '⟩' || r == '\n' || r == '\t' {
			continue
		}
		hides, known := hidden[r]
		if !known {
			hides = legible.Lines("☂"+string(r)) != "☂"+string(r) && r != '\u200d' && r != '\ufe0f'
			hidden[r] = hides
		}
		if hides {
			return r, true
		}
	}
	return 0, false
}

// Overdue returns a context whose deadline passes when pass is called: a platform that has the request calls it, so
// that no machine is too slow to have sent it in time.
func Overdue(parent context.Context) (ctx context.Context, pass func()) {
	o := &overdue{Context: parent, passed: make(chan struct{})}
	return o, sync.OnceFunc(func() { close(o.passed) })
}

type overdue struct {
	context.Context
	passed chan struct{}
}

func (o *overdue) Done() <-chan struct{} { return o.passed }

func (o *overdue) Err() error {
	select {
	case <-o.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// LockScreen reports what a lock screen lacks of a card that shows requests, or asks about one: its risk at the
// beginning, and what will happen by the first few. "": nothing.
func LockScreen(c channels.Card, said string) (lacks string) {
	risk, sentences := "", []string(nil)
	switch {
	case c.Lock != "":
		risk, _, _ = strings.Cut(c.Lock, ":")
	case len(c.Items) == 0:
		return ""
	case len(c.Items) == 1:
		risk = c.Say(channels.RiskText(c.Items[0].Risk))
	default:
		risk = c.Risks()
	}
	for _, i := range c.Items[:min(len(c.Items), 5)] {
		sentences = append(sentences, channels.CutEnd(i.Summary, 60, legible.UTF16Len))
	}
	at := strings.Index(said, risk)
	if at < 0 || at > len("ความเสี่ยง ") {
		return risk
	}
	for _, s := range sentences {
		if !strings.Contains(said[at:], strings.TrimSuffix(s, "…")) {
			return s
		}
	}
	return ""
}
