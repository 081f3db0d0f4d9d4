package approval_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/chat"
)

// The people of the tests about who decides: three of finance, of whom hana is an admin, and one of security.
var staff = []approval.Actor{
	{Kind: approval.Human, Name: "hana", Approver: true, Admin: true, Groups: []string{"finance"}},
	{Kind: approval.Human, Name: "ken", Approver: true, Groups: []string{"finance"}},
	{Kind: approval.Human, Name: "mei", Approver: true, Groups: []string{"security"}},
	{Kind: approval.Human, Name: "yuki", Approver: true, Groups: []string{"finance"}},
	{Kind: approval.Human, Name: "rin"},
}

var mei, yuki, rin = staff[2], staff[3], staff[4]

// asking is a world whose policy asks for a need.
func asking(t *testing.T, need approval.Need) *world {
	t.Helper()
	w := newWorld(t)
	person := func(name string) (approval.Actor, bool) {
		for _, a := range staff {
			if a.Name == name {
				return a, true
			}
		}
		return approval.Actor{}, false
	}
	w.wire(approval.Options{Store: w.store, Policy: rules{func(approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		v.Need = &need
		return v
	}, terms}, Logger: w.logger(), Directory: names{people: person, all: func() []approval.Actor { return staff },
		agents: func(name string) bool { return name == "bot" }}},
		outboxtest.Routing{Cards: []approval.Route{{{Channel: "line", To: "U1"}}},
			AdminRoutes: []approval.Route{{{Channel: "line", To: "Uadmin"}}}})
	return w
}

var twoStages = approval.Need{Stages: []approval.Stage{{Group: "finance", Count: 2}, {Group: "security", Count: 1}}}

func press(by approval.Actor, intent chat.Intent, id string) chat.Interaction {
	return chat.Interaction{By: by, Intent: intent, RequestID: id, From: "U" + by.Name, AsksWhy: true}
}

// inWords is what webhook makes of typed words.
func inWords(by approval.Actor, text string) chat.Interaction {
	m := chat.ParseWords(text, false)
	return chat.Interaction{By: by, Intent: m.Intent, RequestID: m.ID, Typed: m.Typed, Name: m.Name, Reason: m.Reason,
		Text: text,
		From: "U" + by.Name, AsksWhy: true}
}

func TestAPressIsAnsweredByHowFarItBringsTheRequest(t *testing.T) {
	w := asking(t, twoStages)
	id := w.check(transfer).Request.ID
	for _, step := range []struct {
		by     approval.Actor
		intent chat.Intent
		text   string
		code   approval.Code
	}{
		{mei, chat.IntentApprove, theCall(id) +
			": It's not your turn yet: this is waiting for 2 of finance, then 1 of security.", approval.CodeNotYourStage},
		{hana, chat.IntentApprove, "Your approval of " + theCall(id) +
			" counts: 1 of 3. Waiting for 1 of finance, then 1 of security.", ""},
		{hana, chat.IntentApprove, theCall(id) + ": You already approved this (2026-11-21T10:00:00.000Z).",
			approval.CodeAlreadyVoted},
		{mei, chat.IntentApprove, theCall(id) +
			": It's not your turn yet: this is waiting for 1 of finance, then 1 of security.", approval.CodeNotYourStage},
		{ken, chat.IntentApprove, "Your approval of " + theCall(id) +
			" counts: 2 of 3. Waiting for 1 of security.", ""},
		{yuki, chat.IntentApprove, theCall(id) + ": It's not your turn yet: this is waiting for 1 of security.",
			approval.CodeNotYourStage},
		{mei, chat.IntentApprove, "Approved: " + theCall(id) + ". The agent may run it once.", ""},
		{yuki, chat.IntentApprove, theCall(id) + ": Already approved by hana, ken and mei (2026-11-21T10:00:00.000Z).",
			approval.CodeAlreadyResolved},
	} {
		if out := w.tap(press(step.by, step.intent, id)); out.Text != step.text || out.Code != step.code {
			t.Errorf("%s is told %q (%s), want %q (%s)", step.by.Name, out.Text, out.Code, step.text, step.code)
		}
	}
}

func TestWhoWasVotedForIsToldByWhom(t *testing.T) {
	w := asking(t, twoStages)
	id := w.check(transfer).Request.ID
	if out := w.tap(inWords(yuki, "delegate mei 3d")); !strings.HasPrefix(out.Text,
		"mei stands in for you until 2026-11-24T10:00:00.000Z.") {
		t.Fatalf("delegating is answered %q", out.Text)
	}
	if out := w.tap(press(mei, chat.IntentApprove, id)); out.Text != "Your approval of "+theCall(id)+
		" counts: 1 of 3. Waiting for 1 of finance, then 1 of security." {
		t.Errorf("who stands in is told %q", out.Text)
	}
	if out := w.tap(press(yuki, chat.IntentApprove, id)); out.Text != theCall(id)+
		": mei already approved for you (2026-11-21T10:00:00.000Z)." || out.Code != approval.CodeAlreadyVoted {
		t.Errorf("who is stood in for is told %q (%s)", out.Text, out.Code)
	}
}

// An offer under an answer is declined by whoever it was made to.
func TestAnOfferUnderAnAnswerIsDeclined(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.tap(press(hana, chat.IntentApprove, id))
	n := w.lastReply()
	if n.Note != approval.NoteMore {
		t.Fatalf("an approval is answered with %+v", n)
	}
	if out := w.tap(press(ken, chat.IntentBack, n.ID)); strings.HasPrefix(out.Text, "Nothing was done.") {
		t.Errorf("another's offer: %q", out.Text)
	}
	if out := w.tap(press(hana, chat.IntentBack, n.ID)); out.Text != "Nothing was done." ||
		w.request(id).Status != approval.Approved {
		t.Errorf("declined: %q, %s", out.Text, w.request(id).Status)
	}
}

func TestRule5_AnApprovalThatIsAskedOnceMoreIsGivenOnce(t *testing.T) {
	w := asking(t, approval.Need{Confirm: true})
	id := w.check(transfer).Request.ID
	ask := func() approval.Notification {
		out := w.tap(press(ken, chat.IntentApprove, id))
		n := w.lastReply()
		if _, confirms := n.Note.Confirms(); out.Text != "bot asks to run transfer_credits. Approve it?" || !confirms ||
			n.ApprovalID != id {
			t.Fatalf("a first approval is answered %+v with %+v", out, n)
		}
		return n
	}
	status := func() approval.Status { return w.request(id).Status }
	yes := func(by approval.Actor, n approval.Notification) chat.InteractionResult {
		return w.tap(press(by, chat.IntentConfirm, n.ID))
	}
	const again = "That question was already answered, or is more than two minutes old, so nothing was done. Start again from the card."

	n := ask()
	if out := yes(hana, n); out.Text != again || status() != approval.Pending {
		t.Errorf("another's question: %q, %s", out.Text, status())
	}
	if out := w.tap(press(ken, chat.IntentBack, n.ID)); out.Text != "Nothing was done." || status() != approval.Pending {
		t.Errorf("back: %q, %s", out.Text, status())
	}
	if out := yes(ken, n); out.Text != again || status() != approval.Pending {
		t.Errorf("yes after back: %q, %s", out.Text, status())
	}
	n = ask()
	w.clock.advance(2*time.Minute + time.Second)
	if out := yes(ken, n); out.Text != again || status() != approval.Pending {
		t.Errorf("yes after two minutes: %q, %s", out.Text, status())
	}
	n = ask()
	if out := yes(ken, n); out.Text != "Approved: "+theCall(id)+". The agent may run it once." ||
		status() != approval.Approved {
		t.Errorf("yes: %q, %s", out.Text, status())
	}
	if out := yes(ken, n); out.Text != again {
		t.Errorf("yes once more: %q", out.Text)
	}
	if out := w.tap(press(ken, chat.IntentConfirm, id)); out.Text != again {
		t.Errorf("yes to a request: %q", out.Text)
	}
}

func TestTypedApprovalsAreAskedOnceMoreWithTheirReason(t *testing.T) {
	w := asking(t, approval.Need{Confirm: true})
	w.policy(func(approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		v.Need, v.RequireReason = &approval.Need{Confirm: true}, true
		return v
	})
	id := w.check(transfer).Request.ID
	w.tap(inWords(ken, "approve "+id))
	w.send()
	why := inWords(ken, "checked with finance")
	why.At = w.clock.Now()
	if out := w.tap(why); out.Text != "bot asks to run transfer_credits. Approve it?" {
		t.Fatalf("answered %q", out.Text)
	}
	if out := w.tap(press(ken, chat.IntentConfirm, w.lastReply().ID)); len(out.Decided) != 1 ||
		out.Decided[0].ResolveReason != "checked with finance" {
		t.Errorf("confirmed %+v", out)
	}
}

// A dialog for the reason closes, and the question comes to whoever filled it in.
func TestADialogsApprovalIsAskedOnceMore(t *testing.T) {
	w := asking(t, approval.Need{Confirm: true})
	id := w.check(transfer).Request.ID
	submitted := press(ken, chat.IntentApprove, id)
	submitted.Channel, submitted.Told, submitted.AsksWhy, submitted.Reason = "slack", true, false, "checked"
	out := w.tap(submitted)
	n := w.lastReply()
	if reason, confirms := n.Note.Confirms(); out.Code != "" || !confirms || reason != "checked" || n.Channel != "slack" {
		t.Errorf("answered %+v with %+v", out, n)
	}
}

func TestApproveAllLeavesOutWhatIsAskedOnceMore(t *testing.T) {
	w := asking(t, approval.Need{})
	w.policy(func(c approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		v.Need = &approval.Need{Confirm: c.Tool == "wipe"}
		return v
	})
	wipe := call(`{}`)
	wipe.Tool = "wipe"
	outs, err := w.gate.CheckBatch(w.ctx, []approval.Call{transfer, wipe})
	if err != nil {
		t.Fatal(err)
	}
	out := w.tap(press(ken, chat.IntentApprove, outs[0].Request.BatchID))
	want := "Approved: " + theCall(outs[0].Request.ID) + ". The agent may run it once.\n" +
		"Left out: 1 of 2. Decide them one by one: wipe (needs a second yes)."
	if out.Text != want || len(out.Decided) != 1 || w.request(outs[1].Request.ID).Status != approval.Pending {
		t.Errorf("got %q, %d decided", out.Text, len(out.Decided))
	}
}

func TestTypedShortIDsDecideOnlyWhatTheyName(t *testing.T) {
	w := asking(t, approval.Need{})
	id := w.check(transfer).Request.ID
	short := id[20:]
	if !strings.ContainsAny(short, "0123456789") {
		short = id[18:]
	}
	if out := w.tap(inWords(ken, "approve "+id[22:])); len(out.Decided) != 0 || w.request(id).Status != approval.Pending {
		t.Errorf("four letters approved: %+v", out)
	}
	if out := w.tap(inWords(ken, "approve 7ZZZZ7")); out.Text != "No such request." {
		t.Errorf("no id: %q", out.Text)
	}
	if out := w.tap(inWords(ken, "ok thanks")); !strings.HasPrefix(out.Text, "Nothing was decided") {
		t.Errorf("an ordinary word: %q", out.Text)
	}
	if out := w.tap(inWords(rin, "approve "+short)); out.Text != cannotDecide(rin) {
		t.Errorf("no approver: %q", out.Text)
	}
	if out := w.tap(inWords(ken, "show "+id[22:])); w.lastReply().ApprovalID != id {
		t.Errorf("show: %+v", out)
	}
	if out := w.tap(inWords(ken, "approve "+strings.ToLower(short))); len(out.Decided) != 1 || out.Decided[0].ID != id {
		t.Errorf("%s: %+v", short, out)
	}
}

func TestOneHourMoreIsGivenOnce(t *testing.T) {
	w := asking(t, twoStages)
	id := w.check(transfer).Request.ID
	for _, step := range []struct {
		by   approval.Actor
		text string
	}{
		{rin, "You can't give this request more time."},
		{mei, "You can't give this request more time."},
		{ken, "One more hour: " + theCall(id) + " can be decided until 2026-11-21T12:00:00.000Z."},
		{yuki, theCall(id) + ": This request has already been given one more hour. That works only once."},
	} {
		if out := w.tap(press(step.by, chat.IntentExtend, id)); out.Text != step.text {
			t.Errorf("%s is told %q, want %q", step.by.Name, out.Text, step.text)
		}
	}
	w.clock.advance(3 * time.Hour)
	if out := w.tap(inWords(ken, "extend "+id)); out.Text != theCall(id)+": This approval request has expired." {
		t.Errorf("after the end: %q", out.Text)
	}
}

func TestAFreezeIsTypedOrPressedTwice(t *testing.T) {
	w := asking(t, approval.Need{})
	id := w.check(transfer).Request.ID
	told := func(to string) (texts []string) {
		for _, n := range w.notifications(approval.NotificationQuery{Recipient: to}) {
			if n.Kind == approval.KindReply {
				texts = append(texts, n.Text)
			}
		}
		return texts
	}
	for _, step := range []struct {
		do   chat.Interaction
		text string
	}{
		{inWords(ken, "freeze"),
			"Nothing was frozen. Type: freeze <agent> <reason>, or for every agent: freeze all <reason>. Agents: bot"},
		{inWords(ken, "freeze everybody now"),
			"Nothing was frozen. Type: freeze <agent> <reason>, or for every agent: freeze all <reason>. Agents: bot"},
		{inWords(rin, "freeze bot"), "Only approvers and admins can freeze an agent."},
		{press(rin, chat.IntentFreeze, id), "Only approvers and admins can freeze an agent."},
		{press(ken, chat.IntentFreeze, id),
			"Freeze bot? Waiting requests are cancelled, and every call is denied until an admin lifts the freeze."},
	} {
		if out := w.tap(step.do); out.Text != step.text || w.request(id).Status != approval.Pending {
			t.Errorf("%+v is told %q, want %q", step.do, out.Text, step.text)
		}
	}
	if out := w.tap(press(ken, chat.IntentConfirm,
		w.lastReply().ID)); out.Text != "Frozen: bot. Its calls are denied until an admin types: unfreeze bot" {
		t.Errorf("the freeze is answered %q", out.Text)
	}
	if o := w.expect(call(`{"n":2}`),
		approval.AnswerDenied); o.Message != "Frozen by ken: no reason given. Nothing runs until a person lifts it; do not retry." {
		t.Errorf("the agent is told %q", o.Message)
	}
	if out := w.tap(press(hana, chat.IntentApprove, id)); out.Text != theCall(id)+
		": Cancelled (2026-11-21T10:00:00.000Z): ken froze the agent. Reason: no reason given" {
		t.Errorf("a late press is told %q", out.Text)
	}
	if got := told("Uadmin"); len(got) != 1 ||
		got[0] != "ken froze bot: no reason given. Calls are denied until an admin lifts the freeze." {
		t.Errorf("admins are told %q", got)
	}
	for _, step := range []struct {
		do   chat.Interaction
		text string
	}{
		{inWords(ken, "unfreeze bot"), "Only admins can lift a freeze."},
		{inWords(hana, "unfreeze"), "Nothing was lifted. Type: unfreeze <agent>. Frozen now: bot"},
		{inWords(hana, "unfreeze bot"), "Freeze lifted: bot can ask again. Requests that the freeze ended stay ended."},
		{inWords(hana, "unfreeze bot"), "Nothing is frozen."},
		{inWords(hana, "freeze all it all looks wrong"),
			"All agents are frozen. Their calls are denied until an admin types: unfreeze"},
		{inWords(hana, "unfreeze"), "The freeze of all agents is lifted. Requests that it ended stay ended."},
	} {
		if out := w.tap(step.do); out.Text != step.text {
			t.Errorf("%q is told %q, want %q", step.do.Text, out.Text, step.text)
		}
	}
	if got := told("Uadmin"); len(got) != 4 || got[1] != "hana lifted the freeze of bot." ||
		got[2] != "hana froze all agents: it all looks wrong. Calls are denied until an admin lifts the freeze." {
		t.Errorf("admins are told %q", got)
	}
}

func TestDelegationsAreTypedListedAndEnded(t *testing.T) {
	w := asking(t, approval.Need{})
	for _, step := range []struct {
		by         approval.Actor
		text, want string
	}{
		{ken, "delegations", "Nobody is standing in for anyone."},
		{ken, "delegate yuki",
			"Nothing was delegated. Type: delegate <person> 3d, or: delegate <person> until 2026-12-01. It lasts at most 30 days."},
		{ken, "delegate yuki 31d",
			"Nothing was delegated. Type: delegate <person> 3d, or: delegate <person> until 2026-12-01. It lasts at most 30 days."},
		{ken, "delegate rin 3d", "Nothing was delegated: both of you must be approvers, and you can't delegate to yourself."},
		{rin, "delegate ken 3d", "Nothing was delegated: both of you must be approvers, and you can't delegate to yourself."},
		{ken, "undelegate 4c0001",
			"Nothing was ended: that id fits no delegation, or more than one. Type \"delegations\" to see them."},
	} {
		if out := w.tap(inWords(step.by, step.text)); out.Text != step.want {
			t.Errorf("%q is answered %q, want %q", step.text, out.Text, step.want)
		}
	}
	out := w.tap(inWords(ken, "delegate yuki until 2026-12-01"))
	_, short, _ := strings.Cut(out.Text, "undelegate ")
	if want := fmt.Sprintf("yuki stands in for you until 2026-12-01T00:00:00.000Z. To end it, type: undelegate %s",
		short); out.Text != want || len(short) != 6 {
		t.Fatalf("answered %q, want %q", out.Text, want)
	}
	list := "Who stands in for whom:\n" + short +
		": yuki for ken, from 2026-11-21T10:00:00.000Z until 2026-12-01T00:00:00.000Z"
	if out := w.tap(inWords(mei, "delegations")); out.Text != list {
		t.Errorf("listed %q, want %q", out.Text, list)
	}
	if out := w.tap(inWords(mei, "undelegate "+short)); out.Code != approval.CodeNotFound {
		t.Errorf("somebody else ends it: %q", out.Text)
	}
	if out := w.tap(inWords(yuki, "end delegation "+short)); out.Text != "Ended: yuki no longer stands in for ken." {
		t.Errorf("ended: %q", out.Text)
	}
}

func TestPendingListsWhatOneMayVoteOn(t *testing.T) {
	w := asking(t, twoStages)
	id := w.check(transfer).Request.ID
	if out := w.tap(inWords(mei, "pending")); out.Text != "Nothing is waiting for you. Waiting for other people: 1." ||
		len(w.lastReply().Cards) != 0 {
		t.Errorf("mei is told %q", out.Text)
	}
	if out := w.tap(inWords(ken, "pending")); out.Text != "This request is waiting. Use its buttons to decide." ||
		len(w.lastReply().Cards) != 1 {
		t.Errorf("ken is told %q", out.Text)
	}
	if theirs, err := w.gate.MayVote(w.ctx, id, mei); theirs || err != nil {
		t.Errorf("mei may vote: %t, %v", theirs, err)
	}
	if out := w.tap(inWords(mei, "no")); len(out.Decided) != 0 || w.request(id).Status != approval.Pending {
		t.Errorf("a bare no of somebody else's turn: %+v", out)
	}
	w.tap(press(hana, chat.IntentApprove, id))
	w.tap(press(ken, chat.IntentApprove, id))
	w.policy(func(approval.Call) approval.Verdict { return quarantine(approval.RiskHigh) })
	w.check(call(`{"n":3}`))
	if out := w.tap(inWords(ken,
		"yes")); out.Text != "This request is waiting. Use its buttons to decide. Waiting for other people: 1." {
		t.Errorf("ken is told %q", out.Text)
	}
	if out := w.tap(inWords(mei, "yes")); out.Text != "2 requests are waiting. Use their buttons to decide." {
		t.Errorf("mei is told %q", out.Text)
	}
}

func TestAdminsAreToldOfANeedThatNobodyIsLeftFor(t *testing.T) {
	w := asking(t, twoStages)
	r := w.check(transfer).Request
	if err := w.chat.NeedUnmet(w.ctx, *r); err != nil {
		t.Fatal(err)
	}
	n := w.lastReply()
	want := "Nobody is left who can approve bot's transfer_credits (request " + r.ID[20:] +
		"): it is waiting for 2 of finance, then 1 of security."
	if n.Recipient != "Uadmin" || !strings.HasPrefix(n.Text, want) {
		t.Errorf("%s is told %q, want %q", n.Recipient, n.Text, want)
	}
}

func TestPeopleAreToldOfTheirPasskeys(t *testing.T) {
	w := asking(t, approval.Need{})
	for want, tell := range map[string]func(tx approval.Tx) error{
		"🔑 A passkey was added for you: phone. It can sign in and approve as you. If this was not you, remove it on the “Passkeys” page and tell an admin.": func(tx approval.Tx) error {
			return w.chat.PasskeyAdded(tx, "ken", "phone")
		},
		"🔑 One of your passkeys was removed: phone. If this was not you, tell an admin.": func(tx approval.Tx) error {
			return w.chat.PasskeyRemoved(tx, "ken", "phone")
		},
		"⚠ Your passkey phone is blocked: somebody may have a copy of it. Remove it on the “Passkeys” page, and tell an admin.": func(tx approval.Tx) error {
			return w.chat.PasskeyBlocked(tx, "ken", "phone")
		},
	} {
		if err := w.store.Update(w.ctx, approval.WholeStore(), tell); err != nil {
			t.Fatal(err)
		}
		if n := w.lastReply(); n.Text != want || n.Recipient != "Uken" {
			t.Errorf("%s is told %q, want %q", n.Recipient, n.Text, want)
		}
	}
}
