package approval_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/chat"
	"countersign/internal/locale/phrases"
)

// line taps and types as somebody on LINE, where the next text gives the reason.
func (w *world) line(by approval.Actor, t chat.Interaction) chat.InteractionResult {
	w.t.Helper()
	t.By, t.AsksWhy = by, true
	return w.tap(t)
}

func (w *world) types(by approval.Actor, text string) chat.InteractionResult {
	w.t.Helper()
	return w.line(by, chat.Interaction{Intent: chat.IntentOther, Text: text})
}

var needsReason = func(approval.Call) approval.Verdict {
	v := quarantine(approval.RiskCritical)
	v.RequireReason = true
	return v
}

func TestTheNextTextTellsWhy(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.send()
	out := w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: id})
	if n := w.lastReply(); out.Text != "Denied: "+theCall(id)+"." || n.Note != approval.NoteReason || n.ApprovalID != id {
		t.Errorf("out %+v, reply %+v", out, n)
	}
	if _, err := w.gate.Ack(w.ctx, "bot", []string{id}); err != nil || len(w.feed()) != 0 {
		t.Fatal(err, w.feed())
	}
	const why = "Wrong account: 口座が違います  (see {reason})"
	if out = w.types(hana, "  "+why+"\n"); len(out.Explained) != 1 ||
		out.Text != "Thanks, the agent now has your reason. transfer_credits stays denied." {
		t.Errorf("%+v", out)
	}
	feed := w.feed() // it is back, with the words as they were typed
	if len(feed) != 1 || !strings.HasSuffix(feed[0].FeedMessage(), ": "+why) || feed[0].ResolveReason != why {
		t.Errorf("feed %+v", feed)
	}
	if o := w.check(transfer); o.Kind != approval.AnswerDenied || !strings.Contains(o.Message, "denied by hana: "+why+
		". The call") {
		t.Errorf("%+v", o)
	}
	if w.count("decision_reason_added:deny:"+why) != 1 || w.count("hitl_decision") != 1 {
		t.Errorf("trail %q", w.trail())
	}
	edits := w.notifications(approval.NotificationQuery{Kind: approval.KindEdit})
	if len(edits) == 0 {
		t.Error("no card is changed")
	}
	w.send() // the edit without the reason is out by now
	second := w.check(call(`{"n":2}`)).Request.ID
	w.send()
	w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: second})
	w.send()
	w.types(hana, "a duplicate")
	if edits := w.notifications(approval.NotificationQuery{ApprovalID: second, Kind: approval.KindEdit}); len(edits) != 2 {
		t.Errorf("%d edits of a card whose denial got its reason later, want 2", len(edits))
	}
	// The question is answered: what is typed next is no reason any more.
	if out = w.types(hana, "thanks"); len(out.Explained) != 0 || w.request(id).ResolveReason != why {
		t.Errorf("%+v", out)
	}
}

func TestAReasonIsOnlyTakenFromWhoWasAsked(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: id})

	w.line(ken, chat.Interaction{Intent: chat.IntentOther, Text: "not me", From: "U2"})
	w.line(stranger, chat.Interaction{Intent: chat.IntentReason, Reason: "nor me", Text: "reason: nor me", From: "U3"})
	gone := hana
	gone.Approver = false
	w.line(gone, chat.Interaction{Intent: chat.IntentOther, Text: "nor me any more"})
	if r := w.request(id); r.ResolveReason != "" {
		t.Errorf("the reason is %q", r.ResolveReason)
	}
}

func TestAReasonComesInTimeOrNotAtAll(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: id})
	w.clock.advance(10*time.Minute + time.Millisecond)
	w.types(hana, "what is for lunch?")
	if r := w.request(id); r.ResolveReason != "" {
		t.Errorf("the reason is %q", r.ResolveReason)
	}
	// Somebody who asked for something else in between was not answering.
	second := w.check(call(`{"n":2}`)).Request.ID
	w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: second})
	w.line(hana, chat.Interaction{Intent: chat.IntentStatus})
	w.types(hana, "good")
	if r := w.request(second); r.ResolveReason != "" {
		t.Errorf("the reason is %q", r.ResolveReason)
	}
	// A decision with a reason keeps it.
	third := w.check(call(`{"n":3}`)).Request.ID
	w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: third, Reason: "first"})
	w.types(hana, "second")
	if r := w.request(third); r.ResolveReason != "first" {
		t.Errorf("the reason is %q", r.ResolveReason)
	}
}

func TestNothingIsDecidedWithoutTheReasonThatIsRequired(t *testing.T) {
	w := newWorld(t)
	w.policy(needsReason)
	id := w.check(transfer).Request.ID
	out := w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: id})
	if out.Code != approval.CodeReasonRequired || w.request(id).Status != approval.Pending ||
		w.lastReply().Note != approval.NoteDeny {
		t.Fatalf("%+v, %+v", out, w.lastReply())
	}
	if out = w.types(hana, "not today"); len(out.Decided) != 1 || out.Text != "Denied: "+theCall(id)+"." {
		t.Errorf("%+v", out)
	}
	if r := w.request(id); r.Status != approval.Denied || r.ResolveReason != "not today" {
		t.Errorf("%+v", r)
	}

	// An approval takes no stray words for its reason.
	id = w.check(call(`{"n":2}`)).Request.ID
	w.line(hana, chat.Interaction{Intent: chat.IntentApprove, RequestID: id})
	if out = w.types(hana, "ok let me think"); len(out.Decided) != 0 || w.request(id).Status != approval.Pending {
		t.Errorf("%+v", out)
	}
	if out = w.line(hana, chat.Interaction{Intent: chat.IntentApprove, RequestID: id, Reason: "agreed with finance"}); len(
		out.Decided) != 1 {
		t.Errorf("%+v", out)
	}
	if r := w.request(id); r.Status != approval.Approved || r.ResolveReason != "agreed with finance" {
		t.Errorf("%+v", r)
	}
}

func TestATextThatQuotesTheCardTellsWhy(t *testing.T) {
	w := newWorld(t)
	first, second := w.check(transfer).Request.ID, w.check(call(`{"n":2}`)).Request.ID
	w.send()
	w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: first})
	w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: second})
	card := w.notifications(approval.NotificationQuery{ApprovalID: first, Channel: "line", Kind: approval.KindRequest})[0]
	w.line(hana, chat.Interaction{Intent: chat.IntentOther, Text: "the first one", QuotedID: card.MessageID})
	if a, b := w.request(first).ResolveReason, w.request(second).ResolveReason; a != "the first one" || b != "" {
		t.Errorf("reasons %q and %q", a, b)
	}
}

func TestCommands(t *testing.T) {
	w := newWorld(t)
	ids := []string{w.check(transfer).Request.ID, w.check(call(`{"n":2}`)).Request.ID}
	w.send()
	if out := w.line(hana,
		chat.Interaction{Intent: chat.IntentPending}); out.Text != "2 requests are waiting. Use their buttons to decide." {
		t.Errorf("%+v", out)
	}
	if n := w.lastReply(); len(n.Cards) != 2 || !slices.Contains(n.Cards, ids[0]) {
		t.Errorf("cards %v", n.Cards)
	}
	if out := w.line(hana, chat.Interaction{Intent: chat.IntentStatus}); !strings.HasPrefix(out.Text,
		"You're hana. You can approve, deny and read the logs.\nRequests waiting: 2") {
		t.Errorf("%+v", out)
	}
	if out := w.line(hana, chat.Interaction{Intent: chat.IntentLog}); !strings.HasPrefix(out.Text,
		"The newest notifications (4):\n") || !strings.Contains(out.Text, "slack C1 · request · sent · tries 1") {
		t.Errorf("%+v", out)
	}
	if out := w.line(ken, chat.Interaction{Intent: chat.IntentLog}); out.Code != approval.CodeNotAdmin {
		t.Errorf("%+v", out)
	}
	if out := w.line(stranger, chat.Interaction{Intent: chat.IntentHelp, From: "Ustranger"}); !strings.Contains(out.Text,
		"Ustranger") {
		t.Errorf("%+v", out)
	}
	for _, i := range []chat.Intent{chat.IntentPending, chat.IntentShow, chat.IntentStatus, chat.IntentLog} {
		if out := w.line(stranger, chat.Interaction{Intent: i, RequestID: ids[0]}); out.Code != approval.CodeNotAnApprover ||
			out.Text != cannotDecide(stranger) {
			t.Errorf("%s by a stranger: %+v", i, out)
		}
	}
	if w.count("hitl_decision") != 0 {
		t.Errorf("trail %q", w.trail())
	}
}

// All of a request comes in parts, each after the one before has gone out.
func TestShowComesInOrder(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.send()
	w.line(hana, chat.Interaction{Intent: chat.IntentShow, RequestID: id})
	if n := w.lastReply(); n.ReplyTo != "reply-token" {
		t.Errorf("the first part answers at %q", n.ReplyTo)
	}
	out := w.outbox
	for part := 1; part <= 3; part++ {
		ready, _, err := w.ready(10)
		if err != nil || len(ready) != 1 || ready[0].Notification.Part != part || len(ready[0].Requests) != 1 {
			t.Fatalf("part %d: %v, %+v", part, err, ready)
		}
		begun, err := outboxtest.Begin(w.ctx, out, outbox.Attempt{Notification: ready[0].Notification,
			Body: []byte(fmt.Sprint(part)), More: part < 3, Lease: time.Second})
		if err != nil || len(begun) != 1 {
			t.Fatal(err, begun)
		}
		if early, _, _ := w.ready(10); len(early) != 0 {
			t.Errorf("part %d: another is ready before it went out", part)
		}
		if part > 1 && ready[0].Notification.ReplyTo != "" {
			t.Error("a reply token is used twice")
		}
		if err := out.Sent(w.ctx, begun[0], channels.Receipt{MessageID: fmt.Sprint(part)}); err != nil {
			t.Fatal(err)
		}
	}
	if more, _, _ := w.ready(10); len(more) != 0 {
		t.Errorf("%d more", len(more))
	}
	// A part is no card: quoting it decides nothing.
	if w.line(hana, chat.Interaction{Intent: chat.IntentDeny, QuotedID: "2"}); w.request(id).Status != approval.Pending {
		t.Error("decided by quoting a part")
	}
}

// ways opens the gate again with these routes.
func (w *world) ways(routes, admins []approval.Route, spent ...string) {
	w.wire(approval.Options{Store: w.store, Broker: approval.NewBroker(), Policy: w.gate.Policy(), Now: w.clock.Now,
		Logger: w.logger()},
		outboxtest.Routing{Cards: routes, AdminRoutes: admins, Full: spent, Edits: []string{"slack"}})
}

var (
	hanasWays = approval.Route{{Channel: "line", To: "U1"}, {Channel: "slack", To: "UH"}, {Channel: "webhook", To: "hana"}}
	rootsWay  = approval.Route{{Channel: "slack", To: "UROOT"}}
)

// fail has the card to this address fail for good.
func (w *world) fail(a approval.Address, reason string) {
	w.t.Helper()
	out := w.outbox
	ready, _, err := w.ready(100)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range ready {
		if n := d.Notification; n.Channel == a.Channel && n.Recipient == a.To {
			begun, err := outboxtest.Begin(w.ctx, out, outbox.Attempt{Notification: n, Body: []byte("x"), Lease: time.Second})
			if err != nil || len(begun) != 1 {
				w.t.Fatal(err, begun)
			}
			if err := out.NotSent(w.ctx, begun[0], outbox.Failure{Final: true, Reason: reason}); err != nil {
				w.t.Fatal(err)
			}
			return
		}
	}
	w.t.Fatalf("nothing goes to %v; ready are %d", a, len(ready))
}

// sentTo lists where cards of a request went, as "channel to kind status note".
func (w *world) sentTo(id string) []string {
	w.t.Helper()
	var s []string
	for _, n := range w.notifications(approval.NotificationQuery{ApprovalID: id}) {
		if n.Kind != approval.KindReply && n.Kind != approval.KindEdit {
			s = append(s, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", n.Channel, n.Recipient, n.Kind, n.Status, n.Note)))
		}
	}
	return s
}

func TestRule10_ACardGoesOnToTheNextAddress(t *testing.T) {
	w := newWorld(t)
	w.ways([]approval.Route{hanasWays, {{Channel: "slack", To: "C1"}}}, []approval.Route{rootsWay})
	id := w.check(transfer).Request.ID
	w.fail(hanasWays[0], "monthly_limit")
	w.fail(hanasWays[1], "bad_recipient")
	want := []string{"line U1 request failed", "slack C1 request queued", "slack UH request failed",
		"webhook hana request queued"}
	if got := w.sentTo(id); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// Somebody has it: the end of a route is not yet a matter for admins.
	w.fail(hanasWays[2], "gone")
	if got := w.sentTo(id); len(got) != 4 {
		t.Errorf("got %q", got)
	}
	w.fail(approval.Address{Channel: "slack", To: "C1"}, "bad_recipient")
	if got := w.sentTo(id); len(got) != 5 || got[4] != "slack UROOT request queued unreached" {
		t.Errorf("got %q", got)
	}
	if !strings.Contains(w.log.String(), "admins are told instead") {
		t.Errorf("log %s", w.log)
	}
	w.fail(rootsWay[0], "bad_recipient")
	if !strings.Contains(w.log.String(), "nobody could be told of a request") || len(w.sentTo(id)) != 5 {
		t.Errorf("log %s", w.log)
	}
}

// A second failure of the same card is no reason to tell the person a third time.
func TestRule10_WhoHasTheCardIsNotToldAgain(t *testing.T) {
	w := newWorld(t)
	w.ways([]approval.Route{hanasWays}, []approval.Route{rootsWay})
	id := w.check(transfer).Request.ID
	w.fail(hanasWays[0], "monthly_limit")
	w.send()
	if n, err := w.outbox.RetryFailed(w.ctx); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	w.fail(hanasWays[0], "monthly_limit")
	want := []string{"line U1 request failed", "slack UH request sent"}
	if got := w.sentTo(id); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRule10_ASpentChannelIsTakenLast(t *testing.T) {
	w := newWorld(t)
	w.ways([]approval.Route{hanasWays, {{Channel: "line", To: "U2"}}}, nil, "line")
	id := w.check(transfer).Request.ID
	want := []string{"slack UH request queued", "line U2 request queued"}
	if got := w.sentTo(id); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRule10_WhoLeavesIsReachedElsewhere(t *testing.T) {
	w := newWorld(t)
	w.ways([]approval.Route{hanasWays}, []approval.Route{rootsWay})
	id := w.check(transfer).Request.ID
	w.send()
	w.line(hana, chat.Interaction{Intent: chat.IntentUnfollow})
	want := []string{"line U1 request sent", "slack UH request queued"}
	if got := w.sentTo(id); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	w.line(hana, chat.Interaction{Intent: chat.IntentUnfollow}) // once is enough
	if got := w.sentTo(id); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	second := w.check(call(`{"n":2}`)).Request.ID
	if got := w.sentTo(second); !slices.Equal(got, []string{"slack UH request queued"}) {
		t.Errorf("a new card went to %q", got)
	}
	if out := w.line(hana, chat.Interaction{Intent: chat.IntentFollow}); !strings.HasPrefix(out.Text, "Hello hana.") {
		t.Errorf("%+v", out)
	}
	third := w.check(call(`{"n":3}`)).Request.ID
	if got := w.sentTo(third); !slices.Equal(got, []string{"line U1 request queued"}) {
		t.Errorf("a card after the return went to %q", got)
	}
	if w.count("channel_dead") != 1 || w.count("channel_alive") != 1 {
		t.Errorf("trail %q", w.trail())
	}

	// Of somebody who has nothing else, cards go to admins at once.
	w.ways([]approval.Route{{{Channel: "line", To: "U1"}}}, []approval.Route{rootsWay})
	w.line(hana, chat.Interaction{Intent: chat.IntentUnfollow})
	last := w.check(call(`{"n":4}`)).Request.ID
	if got := w.sentTo(last); !slices.Equal(got, []string{"slack UROOT request queued unreached"}) {
		t.Errorf("got %q", got)
	}
	if !strings.Contains(w.log.String(), "admins are told instead") || !strings.Contains(w.log.String(), last) {
		t.Errorf("it was not said: %s", w.log)
	}
}

// However much waits there, all of it goes on.
func TestRule10_WhoLeavesTakesNoCardAlong(t *testing.T) {
	w := newWorld(t)
	w.ways([]approval.Route{hanasWays}, nil)
	const many = 230
	for i := range many {
		w.check(call(fmt.Sprintf(`{"n":%d}`, i)))
	}
	w.line(hana, chat.Interaction{Intent: chat.IntentUnfollow})
	if ns := w.notifications(approval.NotificationQuery{Channel: hanasWays[1].Channel, Recipient: hanasWays[1].To}); len(
		ns) != many {
		t.Errorf("%d of %d cards went on", len(ns), many)
	}
}

// The card of a batch goes on as one card of the batch.
func TestRule10_ABatchGoesOnWhole(t *testing.T) {
	for _, end := range []struct {
		what string
		ends func(w *world)
	}{
		{"a dead end", func(w *world) { w.fail(hanasWays[0], "bad_recipient") }},
		{"somebody who left", func(w *world) { w.line(hana, chat.Interaction{Intent: chat.IntentUnfollow}) }},
	} {
		w := newWorld(t)
		w.ways([]approval.Route{hanasWays}, nil)
		if _, err := w.gate.CheckBatch(w.ctx, []approval.Call{call(`{"n":1}`), call(`{"n":2}`)}); err != nil {
			t.Fatal(err)
		}
		end.ends(w)
		ns := w.notifications(approval.NotificationQuery{Channel: hanasWays[1].Channel, Recipient: hanasWays[1].To})
		if len(ns) != 1 || ns[0].BatchID == "" || ns[0].Kind != approval.KindRequest {
			t.Errorf("%s: %d cards, %+v", end.what, len(ns), ns)
		}
	}
}

// Two routes that meet bring one card there, and the next address of the second is another one.
func TestOneCardForAnAddress(t *testing.T) {
	w := newWorld(t)
	shared := approval.Address{Channel: "slack", To: "C1"}
	w.ways([]approval.Route{{shared}, {shared}, {shared, hanasWays[0]}}, []approval.Route{rootsWay})
	id := w.check(transfer).Request.ID
	if got, want := w.sentTo(id), []string{"slack C1 request queued", "line U1 request queued"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	w.send()
	w.clock.advance(15 * time.Minute)
	if n, err := w.outbox.Remind(w.ctx, 15*time.Minute, 3); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if ns := w.notifications(approval.NotificationQuery{Kind: approval.KindReminder}); len(ns) != 1 ||
		ns[0].Recipient != shared.To {
		t.Errorf("reminders %+v", ns)
	}
}

func TestAReminderGoesWhereTheCardWent(t *testing.T) {
	w := newWorld(t)
	w.ways([]approval.Route{hanasWays}, nil)
	id := w.check(transfer).Request.ID
	w.fail(hanasWays[0], "bad_recipient")
	w.send()
	w.clock.advance(16 * time.Minute)
	if n, err := w.outbox.Remind(w.ctx, 15*time.Minute, 3); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	want := []string{"line U1 request failed", "slack UH request sent", "slack UH reminder queued"}
	if got := w.sentTo(id); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAStrangerWhoFollowsIsToldTheirID(t *testing.T) {
	w := newWorld(t)
	out := w.line(stranger, chat.Interaction{Intent: chat.IntentFollow, From: "Uffffffffffffffffffffffffffffffff"})
	if !strings.Contains(out.Text, "\nUffffffffffffffffffffffffffffffff") || w.lastReply().ReplyTo != "reply-token" {
		t.Errorf("%+v", out)
	}
}

// Events come late and in any order: an address is dead or alive as its latest event says.
func TestALateUnfollowBuriesNobody(t *testing.T) {
	w := newWorld(t)
	dead := func() (is bool) {
		t.Helper()
		err := w.store.View(w.ctx, func(tx approval.Tx) (err error) {
			is, err = tx.Dead(approval.Address{Channel: "line", To: "U1"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	blocked := w.clock.Now()
	w.clock.advance(time.Minute)
	w.line(hana, chat.Interaction{Intent: chat.IntentFollow, At: blocked.Add(10 * time.Second)})
	if w.line(hana, chat.Interaction{Intent: chat.IntentUnfollow, At: blocked}); dead() {
		t.Error("dead because of an unfollow from before they came back")
	}
	if w.line(hana, chat.Interaction{Intent: chat.IntentUnfollow, At: blocked.Add(20 * time.Second)}); !dead() {
		t.Error("not dead after they left")
	}
	if w.line(hana, chat.Interaction{Intent: chat.IntentStatus, At: blocked.Add(15 * time.Second)}); !dead() {
		t.Error("alive because of words from before they left")
	}
	if w.line(hana, chat.Interaction{Intent: chat.IntentStatus, At: blocked.Add(30 * time.Second)}); dead() {
		t.Error("dead though they write to us")
	}
	if w.count("channel_dead") != 1 || w.count("channel_alive") != 1 {
		t.Errorf("trail %q", w.trail())
	}
}

// An edit that was drawn before the reason came does not go out without it.
func TestAnEditShowsTheReasonThatCameMeanwhile(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.send()
	w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: id})
	out := w.outbox
	ready, _, err := w.ready(10)
	if err != nil {
		t.Fatal(err)
	}
	var drawn []outbox.Attempt
	for _, d := range ready {
		if d.Notification.Kind == approval.KindEdit {
			drawn = append(drawn, outbox.Attempt{Notification: d.Notification, Body: []byte("no reason given"), Seen: d.Seen(),
				Lease: time.Second})
		}
	}
	w.types(hana, "wrong account")
	if begun, err := outboxtest.Begin(w.ctx, out, drawn...); err != nil || len(drawn) != 1 || len(begun) != 0 {
		t.Errorf("%d edits were drawn and %d begun, %v", len(drawn), len(begun), err)
	}
	ready, _, err = w.ready(10)
	if err != nil || !slices.ContainsFunc(ready, func(d channels.Delivery) bool {
		return d.Notification.Kind == approval.KindEdit && d.Requests[0].ResolveReason == "wrong account"
	}) {
		t.Errorf("no edit with the reason is to be sent: %v", err)
	}
}

// The parts of a request that is shown whole keep coming: what was asked in between is still what was
// asked last.
func TestPartsDoNotHideTheQuestion(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.send()
	w.line(hana, chat.Interaction{Intent: chat.IntentShow, RequestID: id})
	out := w.outbox
	part := func() {
		t.Helper()
		ready, _, err := w.ready(10)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ready {
			if d.Notification.Part == 0 {
				continue
			}
			begun, err := outboxtest.Begin(w.ctx, out, outbox.Attempt{Notification: d.Notification,
				Body: []byte("{}"), More: true, Lease: time.Second})
			if err != nil || len(begun) != 1 {
				t.Fatal(err, begun)
			}
			if err := out.Sent(w.ctx, begun[0], channels.Receipt{MessageID: "m-" + begun[0].ID}); err != nil {
				t.Fatal(err)
			}
		}
	}
	part()
	w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: id})
	part()
	part()
	if out := w.types(hana, "wrong account"); len(out.Explained) != 1 {
		t.Errorf("%+v", out)
	}
	// To ask for another request to be shown is something else.
	second := w.check(call(`{"n":2}`)).Request.ID
	w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: second})
	w.line(hana, chat.Interaction{Intent: chat.IntentShow, RequestID: id})
	if out := w.types(hana, "I see"); len(out.Explained) != 0 {
		t.Errorf("%+v", out)
	}
}

// The log has a word for whatever a notification can be.
func TestEveryKindAndFateHasAWord(t *testing.T) {
	for _, k := range []approval.NotificationKind{approval.KindRequest, approval.KindReminder, approval.KindEdit,
		approval.KindReply} {
		if phrases.English[phrases.Phrase("told_kind_"+k)] != string(k) {
			t.Errorf("no word for %s", k)
		}
	}
	for _, s := range []approval.NotificationStatus{approval.Queued, approval.Retrying, approval.Sent, approval.Delivered,
		approval.Failed, approval.Skipped} {
		word := string(s)
		if s == approval.Delivered {
			word = "answered" // as the pages say
		}
		if phrases.English[phrases.Phrase("told_fate_"+s)] != word {
			t.Errorf("no word for %s", s)
		}
	}
}
