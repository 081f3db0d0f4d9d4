package slack

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"countersign/approval"
	"countersign/channels/channelstest"
	"countersign/internal/chat"
	"countersign/internal/testkit"
	"countersign/webhook"
)

// pending is the one request that is asked about.
func pending() approval.Request {
	r := channelstest.Request(transfer)
	r.ID, r.ExpiresAt = request, now.Add(time.Hour)
	return r
}

func (f *fixture) slackDeny() *httptest.ResponseRecorder {
	return f.slackButton(func(p map[string]any) {
		p["actions"] = []any{map[string]any{"type": "button", "action_id": "deny", "value": request}}
		p["container"] = map[string]any{"type": "message", "channel_id": "C0APPROVALS", "message_ts": "1795257600.000100"}
	})
}

func TestDenyOpensADialogAndDecidesNothing(t *testing.T) {
	f := newFixture(t)
	f.Chat.Asked = chat.Asked{Open: []approval.Request{pending()}}
	f.api.opens = func(ctx context.Context, trigger string) error {
		if end, ok := ctx.Deadline(); !ok || time.Until(end) > openWithin || trigger != "8123.1234.0a1b" {
			t.Errorf("opened with trigger %s until %v", trigger, end)
		}
		return nil
	}
	w := f.slackDeny()
	f.WantStatus(w, 200)
	f.WantInteractions(0)
	if w.Body.Len() != 0 || len(f.Chat.Asks) != 1 || len(f.api.opened) != 1 || f.Counts["asked"] != 1 {
		t.Fatalf("answered %q, %d asks, %d dialogs, counts %v", w.Body, len(f.Chat.Asks), len(f.api.opened), f.Counts)
	}
	if got := f.Chat.Asks[0]; got.EventID != "slack:8123.1234.0a1b:0" || got.Channel != "slack" || got.By.Name != "hana" ||
		got.Intent != chat.IntentDeny || got.RequestID != request {
		t.Errorf("asked %+v", got)
	}
	got, err := ParseSubmission(submitted(t, f.api.opened[0], "why"))
	want := Meta{ID: request, Channel: "C0APPROVALS", TS: "1795257600.000100",
		ResponseURL: "https://hooks.slack.com/actions/T0TEAM0001/8123/abc"}
	if err != nil || got.Intent != chat.IntentDeny || got.Meta != want {
		t.Errorf("the dialog asks %+v, %v", got, err)
	}
}

func TestWhatNeedsNoDialogIsDecidedAtOnce(t *testing.T) {
	f := newFixture(t)
	f.Chat.Asked = chat.Asked{InteractionResult: chat.InteractionResult{Decided: []approval.Request{{ID: request,
		Status: approval.Approved}}}}
	f.WantStatus(f.slackButton(nil), 200)
	f.WantInteractions(0)
	if len(f.Chat.Asks) != 1 || len(f.api.opened) != 0 || f.Counts["decided"] != 1 {
		t.Errorf("%d asks, %d dialogs, counts %v", len(f.Chat.Asks), len(f.api.opened), f.Counts)
	}
	f.Chat.Asked = chat.Asked{InteractionResult: chat.InteractionResult{Decided: []approval.Request{{ID: "other"}}},
		Open: []approval.Request{pending()}}
	f.slackButton(nil) // Approve all, of which one needs a reason
	if len(f.api.opened) != 1 || f.Counts["decided"] != 2 || f.Counts["asked"] != 1 {
		t.Errorf("%s, counts %v", f.api.opened, f.Counts)
	}
}

func TestDenyIsPlainWhereNoDialogOpens(t *testing.T) {
	f := newFixture(t)
	f.Chat.Asked = chat.Asked{Open: []approval.Request{pending()}}
	f.api.opens = func(context.Context, string) error { return errors.New("trigger_expired") }
	f.WantStatus(f.slackDeny(), 200)
	f.WantInteractions(1)
	got := f.Chat.Interactions[0]
	if got.EventID != "slack:8123.1234.0a1b:0:plain" || got.Intent != chat.IntentDeny || got.RequestID != request ||
		got.Reason != "" || got.Told {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(f.Log.String(), "trigger_expired") {
		t.Errorf("log: %s", f.Log.String())
	}
	f.Chat.Err = errors.New("disk full")
	f.WantStatus(f.slackDeny(), 503)
}

func TestRule5_AReplayedDenyOpensNothingAndDeniesNothing(t *testing.T) {
	f := newFixture(t)
	f.Chat.Asked = chat.Asked{InteractionResult: chat.InteractionResult{Duplicate: true}}
	f.api.opens = func(context.Context, string) error { return errors.New("exchanged_trigger_id") }
	f.WantStatus(f.slackDeny(), 200)
	f.WantInteractions(0)
	if len(f.api.opened) != 0 || f.Counts["duplicate"] != 1 {
		t.Errorf("%d dialogs, counts %v", len(f.api.opened), f.Counts)
	}
}

func TestNoDialogForWhatCouldNotBeStored(t *testing.T) {
	f := newFixture(t)
	f.Chat.Err = errors.New("disk full")
	f.Chat.Asked = chat.Asked{Open: []approval.Request{pending()}} // what a transaction found that was not kept
	f.WantStatus(f.slackDeny(), 503)
	f.WantInteractions(0)
	if len(f.api.opened) != 0 {
		t.Error("a dialog was opened")
	}
}

// A dialog that hangs must leave time to decide without it, within Slack's three seconds.
func TestADialogThatHangsLeavesTimeToDeny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Chat.Asked = chat.Asked{Open: []approval.Request{pending()}}
		f.api.opens = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
		start := time.Now()
		f.Chat.OnInteract = func(ctx context.Context) {
			if took := time.Since(start); took != openWithin || ctx.Err() != nil {
				t.Errorf("denied after %v, %v", took, ctx.Err())
			}
		}
		f.WantStatus(f.slackDeny(), 200)
		f.WantInteractions(1)

		f.Chat.OnAsk = func() { time.Sleep(webhook.CommitWithin - time.Millisecond) } // the store is slow
		start = time.Now()
		f.Chat.OnInteract = func(ctx context.Context) {
			if end, _ := ctx.Deadline(); ctx.Err() != nil || time.Until(end) != keptBack || end.Sub(start) != answerWithin {
				t.Errorf("%v left to deny, %v", time.Until(end), ctx.Err())
			}
		}
		f.WantStatus(f.slackDeny(), 200)
		f.WantInteractions(2)
	})
}

// submit sends the submission of a dialog; change edits the payload first.
func (f *fixture) submit(view string, change func(p map[string]any)) *httptest.ResponseRecorder {
	p := map[string]any{
		"type": "view_submission", "api_app_id": "A0APPROVE1", "team": map[string]any{"id": "T0TEAM0001"},
		"user": map[string]any{"id": "U02HANA", "team_id": "T0TEAM0001"}, "trigger_id": "8200.1",
		"view": json.RawMessage(view),
	}
	if change != nil {
		change(p)
	}
	b, _ := json.Marshal(p)
	return f.postSlack(formType, "payload="+url.QueryEscape(string(b)), nil)
}

// denial is the view of a dialog that was filled in; typed is the reason.
func denial(t tester, typed string) string {
	return deniedFrom(t, "C0APPROVALS", typed)
}

// deniedFrom is the same of a dialog that was opened from a channel, or with "" from the Home tab.
func deniedFrom(t tester, channel, typed string) string {
	t.Helper()
	v, err := raw(ReasonDialog(seenBy("en", "", pending()), chat.IntentDeny,
		Meta{ID: request, Channel: channel, ResponseURL: "https://hooks.slack.com/actions/1"}))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(submitted(t, v, typed))
}

func TestASubmissionIsATapOfItsOwn(t *testing.T) {
	f := newFixture(t)
	f.Chat.Result = chat.InteractionResult{Decided: []approval.Request{{ID: request, Status: approval.Denied}}}
	w := f.submit(denial(t, "wrong account"), nil)
	f.WantStatus(w, 200)
	f.WantInteractions(1)
	if w.Body.Len() != 0 {
		t.Errorf("the dialog is not closed: %q", w.Body)
	}
	got := f.Chat.Interactions[0]
	id := got.EventID
	if got.EventID = ""; !reflect.DeepEqual(got,
		chat.Interaction{Channel: "slack", By: approval.Actor{Kind: approval.Human, Name: "hana", Approver: true},
			From:    "U02HANA",
			ReplyTo: "https://hooks.slack.com/actions/1", Intent: chat.IntentDeny, RequestID: request, Reason: "wrong account",
			Told: true}) {
		t.Errorf("%+v", got)
	}
	f.submit(denial(t, "wrong account"), nil)
	f.submit(denial(t, "another reason"), nil) // the dialog stayed open and was filled in again
	if again, next := f.Chat.Interactions[1].EventID,
		f.Chat.Interactions[2].EventID; !strings.HasPrefix(id, "slack:view:V0VIEW0001:") || again != id || next == id {
		t.Errorf("event ids %q, %q, %q", id, again, next)
	}
	f.Chat.Result = chat.InteractionResult{Duplicate: true}
	if w := f.submit(denial(t, "wrong account"), nil); w.Code != 200 || w.Body.Len() != 0 {
		t.Errorf("a replay is answered %d %q", w.Code, w.Body)
	}
	f.Chat.Err = errors.New("disk full")
	f.WantStatus(f.submit(denial(t, "wrong account"), nil), 503)
}

func TestADialogThatDecidesNothingSaysWhy(t *testing.T) {
	for _, tt := range []struct {
		out    chat.InteractionResult
		action string
		says   []string
	}{
		{chat.InteractionResult{Code: approval.CodeReasonRequired}, "errors", []string{`"reason":"A reason is required`}},
		{chat.InteractionResult{Code: approval.CodeInvalidParameter}, "errors", []string{`"reason":"The reason is too long`}},
		{chat.InteractionResult{Code: approval.CodeAlreadyResolved, Text: "Already denied by ken."}, "update",
			[]string{"Too late", "Already denied by ken."}},
		{chat.InteractionResult{Code: approval.CodeExpired, Text: "Expired."}, "update", []string{"Too late", "Expired."}},
		{chat.InteractionResult{Code: approval.CodeNotAnApprover, Text: "No."}, "update", []string{"Not decided", "No."}},
	} {
		f := newFixture(t)
		f.Chat.Result = tt.out
		w := f.submit(denial(t, ""), nil)
		body := w.Body.String()
		missing := func(s string) bool { return !strings.Contains(body, s) }
		if w.Code != 200 || !strings.HasPrefix(body, `{"response_action":"`+tt.action+`"`) ||
			slices.ContainsFunc(tt.says, missing) ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: answered %d %s %s", tt.out.Code, w.Code, w.Header().Get("Content-Type"), body)
		}
	}
}

func TestSubmissionsThatDoNotCount(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		sub          string
		change       func(p map[string]any)
	}{
		{"another team", "slack:T0TEAM0001/U02HANA wrong_workspace", denial(t, "x"),
			func(p map[string]any) { p["team"] = map[string]any{"id": "T0OTHER"} }},
		{"another app", "slack:T0TEAM0001/U02HANA wrong_workspace", denial(t, "x"),
			func(p map[string]any) { p["api_app_id"] = "A0OTHER" }},
		{"no view", "hana no_event_id", denial(t, "x"), func(p map[string]any) { delete(p, "view") }},
		{"nobody", "slack:T0TEAM0001/ no_event_id", denial(t, "x"), func(p map[string]any) { p["user"] = map[string]any{} }},
		{"not our dialog", "hana unknown_dialog", denial(t, "x"),
			func(p map[string]any) { p["view"] = map[string]any{"id": "V1"} }},
		{"no decision", "hana unknown_dialog",
			strings.Replace(denial(t, "x"), `"callback_id":"deny"`, `"callback_id":"log"`, 1), nil},
		{"no request", "hana unknown_dialog", strings.ReplaceAll(denial(t, "x"), request, "1"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			w := f.submit(tt.sub, tt.change)
			f.WantStatus(w, 200)
			f.WantNothing()
			if len(f.Chat.Refusals) != 1 || f.Chat.Refusals[0] != tt.reason || w.Body.Len() != 0 {
				t.Errorf("audited %q, want %q; answered %q", f.Chat.Refusals, tt.reason, w.Body)
			}
		})
	}
	t.Run("a dialog that was closed", func(t *testing.T) {
		f := newFixture(t)
		f.WantStatus(f.submit(denial(t, "x"), func(p map[string]any) { p["type"] = "view_closed" }), 200)
		f.WantNothing()
	})
	t.Run("a stranger's is refused by the gate", func(t *testing.T) {
		f := newFixture(t)
		f.submit(denial(t, "x"), func(p map[string]any) { p["user"] = map[string]any{"id": "U9", "team_id": "T0TEAM0001"} })
		f.WantInteractions(1)
		if by := f.Chat.Interactions[0].By; by.Kind != approval.Stranger || by.Name != "slack:T0TEAM0001/U9" {
			t.Errorf("%+v", by)
		}
	})
}

func homeOpened(tab string) string {
	return `{"type":"event_callback","team_id":"T0TEAM0001","api_app_id":"A0APPROVE1","event_id":"Ev1",` +
		`"event":{"type":"app_home_opened","user":"U02HANA","channel":"D1","tab":"` +
		tab + `"}}`
}

func TestHomeIsShownWhenItIsOpenedAndAfterItsButtons(t *testing.T) {
	f := newFixture(t)
	f.waiting.requests = []approval.Request{pending()}
	want := func(what string) {
		t.Helper()
		got := testkit.Receive(t, what, f.api.homes)
		if got.user != "U02HANA" || !strings.Contains(got.view, "You're hana.") || !strings.Contains(got.view, request) {
			t.Errorf("%s: shown to %q: %s", what, got.user, got.view)
		}
	}
	f.WantStatus(f.postSlack("application/json", homeOpened("home"), nil), 200)
	want("opened")
	f.postSlack("application/json", homeOpened("messages"), nil)

	onHome := func(p map[string]any) {
		p["container"] = map[string]any{"type": "view", "view_id": "V1"}
		delete(p, "response_url")
	}
	f.Chat.Asked = chat.Asked{InteractionResult: chat.InteractionResult{Decided: []approval.Request{{ID: request}}}}
	f.slackButton(onHome)
	want("decided")
	f.Chat.Asked = chat.Asked{Open: []approval.Request{pending()}}
	f.slackButton(onHome)
	if len(f.api.opened) != 1 || strings.Contains(string(f.api.opened[0]), "channel") {
		t.Errorf("%s", f.api.opened)
	}
	f.submit(deniedFrom(t, "", "why"), nil)
	want("submitted")
	f.submit(denial(t, "why"), nil) // of a card
	f.slack.Close()
	if len(f.api.homes) != 0 {
		t.Errorf("shown %d times too often", len(f.api.homes))
	}
	f.WantStatus(f.postSlack("application/json", homeOpened("home"), nil), 200) // after the end: nothing
}

func TestAFaultCostsOneHome(t *testing.T) {
	f := newFixture(t)
	f.waiting.err = func() error { panic("boom") }
	f.slack.showHome("U02HANA", approval.Actor{Kind: approval.Human, Name: "hana"})
	f.slack.showHome("U03KEN", approval.Actor{Kind: approval.Stranger})
	if got := testkit.Receive(t, "ken's Home tab", f.api.homes); got.user != "U03KEN" {
		t.Errorf("shown to %s", got.user)
	}
	f.slack.Close()
	if !strings.Contains(f.Log.String(), "boom") {
		t.Errorf("not said: %s", f.Log.String())
	}
}
