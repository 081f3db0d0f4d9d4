package slack

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/internal/chat"
	"countersign/webhook"
)

// fakeDialogs are dialogs whose view is the submission itself.
type fakeDialogs struct {
	opened []question
	opens  func(ctx context.Context, trigger string) error
}

func (d *fakeDialogs) Open(ctx context.Context, trigger string, _ approval.Actor, q question) error {
	d.opened = append(d.opened, q)
	if d.opens != nil {
		return d.opens(ctx, trigger)
	}
	return nil
}

func (d *fakeDialogs) Read(view json.RawMessage) (filled, error) {
	var v struct{ Asked *filled }
	if err := channels.Strictly(view, &v); err != nil || v.Asked == nil {
		return filled{}, errors.New("no dialog of ours")
	}
	return *v.Asked, nil
}

func (d *fakeDialogs) Missing(by approval.Actor, _ filled, code approval.Code) json.RawMessage {
	return json.RawMessage(`{"response_action":"errors","to":"` + by.Name + `","code":"` + string(code) + `"}`)
}

func (d *fakeDialogs) Notice(by approval.Actor, code approval.Code, text string) json.RawMessage {
	return json.RawMessage(`{"response_action":"update","to":"` + by.Name + `","code":"` + string(code) + `","text":"` + text + `"}`)
}

func withDialogs(t *testing.T) (*fixture, *fakeDialogs) {
	f, d := newFixture(t), &fakeDialogs{}
	f.slack.dialogs = d
	return f, d
}

func (f *fixture) slackDeny() *httptest.ResponseRecorder {
	return f.slackButton(func(p map[string]any) {
		p["actions"] = []any{map[string]any{"type": "button", "action_id": "deny", "value": request}}
		p["container"] = map[string]any{"type": "message", "channel_id": "C0APPROVALS", "message_ts": "1795257600.000100"}
	})
}

func TestDenyOpensADialogAndDecidesNothing(t *testing.T) {
	f, d := withDialogs(t)
	f.Chat.Asked = chat.Asked{Open: []approval.Request{{ID: request}}}
	d.opens = func(ctx context.Context, trigger string) error {
		if end, ok := ctx.Deadline(); !ok || time.Until(end) > openWithin || trigger != "8123.1234.0a1b" {
			t.Errorf("opened with trigger %s until %v", trigger, end)
		}
		return nil
	}
	w := f.slackDeny()
	f.WantStatus(w, 200)
	f.WantInteractions(0)
	if w.Body.Len() != 0 || len(f.Chat.Asks) != 1 || len(d.opened) != 1 || f.Counts["asked"] != 1 {
		t.Fatalf("answered %q, %d asks, %d dialogs, counts %v", w.Body, len(f.Chat.Asks), len(d.opened), f.Counts)
	}
	if got := f.Chat.Asks[0]; got.EventID != "slack:8123.1234.0a1b:0" || got.Channel != "slack" || got.By.Name != "hana" || got.Intent != chat.IntentDeny || got.RequestID != request {
		t.Errorf("asked %+v", got)
	}
	q := d.opened[0]
	if q.Intent != chat.IntentDeny || q.RequestID != request || len(q.Open) != 1 || q.Channel != "C0APPROVALS" || q.TS != "1795257600.000100" || !strings.HasPrefix(q.ReplyTo, "https://hooks.slack.com/actions/") {
		t.Errorf("question %+v", q)
	}
}

func TestWhatNeedsNoDialogIsDecidedAtOnce(t *testing.T) {
	f, d := withDialogs(t)
	f.Chat.Asked = chat.Asked{InteractionResult: chat.InteractionResult{Decided: []approval.Request{{ID: request, Status: approval.Approved}}}}
	f.WantStatus(f.slackButton(nil), 200)
	f.WantInteractions(0)
	if len(f.Chat.Asks) != 1 || len(d.opened) != 0 || f.Counts["decided"] != 1 {
		t.Errorf("%d asks, %d dialogs, counts %v", len(f.Chat.Asks), len(d.opened), f.Counts)
	}
	f.Chat.Asked = chat.Asked{InteractionResult: chat.InteractionResult{Decided: []approval.Request{{ID: "other"}}}, Open: []approval.Request{{ID: request}}}
	f.slackButton(nil) // Approve all, of which one needs a reason
	if len(d.opened) != 1 || d.opened[0].Open[0].ID != request || f.Counts["decided"] != 2 || f.Counts["asked"] != 1 {
		t.Errorf("%+v, counts %v", d.opened, f.Counts)
	}
}

func TestDenyIsPlainWhereNoDialogOpens(t *testing.T) {
	f, d := withDialogs(t)
	f.Chat.Asked = chat.Asked{Open: []approval.Request{{ID: request}}}
	d.opens = func(context.Context, string) error { return errors.New("trigger_expired") }
	f.WantStatus(f.slackDeny(), 200)
	f.WantInteractions(1)
	got := f.Chat.Interactions[0]
	if got.EventID != "slack:8123.1234.0a1b:0:plain" || got.Intent != chat.IntentDeny || got.RequestID != request || got.Reason != "" || got.Told {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(f.Log.String(), "trigger_expired") {
		t.Errorf("log: %s", f.Log.String())
	}
	f.Chat.Err = errors.New("disk full")
	f.WantStatus(f.slackDeny(), 503)

	none := newFixture(t) // no dialogs are configured
	none.slackDeny()
	none.WantInteractions(1)
	if got := none.Chat.Interactions[0]; got.EventID != "slack:8123.1234.0a1b:0" || len(none.Chat.Asks) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestRule5_AReplayedDenyOpensNothingAndDeniesNothing(t *testing.T) {
	f, d := withDialogs(t)
	f.Chat.Asked = chat.Asked{InteractionResult: chat.InteractionResult{Duplicate: true}}
	d.opens = func(context.Context, string) error { return errors.New("exchanged_trigger_id") }
	f.WantStatus(f.slackDeny(), 200)
	f.WantInteractions(0)
	if len(d.opened) != 0 || f.Counts["duplicate"] != 1 {
		t.Errorf("%d dialogs, counts %v", len(d.opened), f.Counts)
	}
}

func TestNoDialogForWhatCouldNotBeStored(t *testing.T) {
	f, d := withDialogs(t)
	f.Chat.Err = errors.New("disk full")
	f.Chat.Asked = chat.Asked{Open: []approval.Request{{ID: request}}} // what a transaction found that was not kept
	f.WantStatus(f.slackDeny(), 503)
	f.WantInteractions(0)
	if len(d.opened) != 0 {
		t.Error("a dialog was opened")
	}
}

// A dialog that hangs must leave time to decide without it, within Slack's three seconds.
func TestADialogThatHangsLeavesTimeToDeny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := withDialogs(t)
		f.Chat.Asked = chat.Asked{Open: []approval.Request{{ID: request}}}
		d.opens = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
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
func (f *fixture) submit(s filled, change func(p map[string]any)) *httptest.ResponseRecorder {
	p := map[string]any{
		"type": "view_submission", "api_app_id": "A0APPROVE1", "team": map[string]any{"id": "T0TEAM0001"},
		"user": map[string]any{"id": "U02HANA", "team_id": "T0TEAM0001"}, "trigger_id": "8200.1",
		"view": map[string]any{"id": "V0VIEW0001", "type": "modal", "Asked": s},
	}
	if change != nil {
		change(p)
	}
	b, _ := json.Marshal(p)
	return f.postSlack(formType, "payload="+url.QueryEscape(string(b)), nil)
}

func denial(reason string) filled {
	return filled{Intent: chat.IntentDeny, RequestID: request, ReplyTo: "https://hooks.slack.com/actions/1", Channel: "C0APPROVALS", Reason: reason}
}

func TestASubmissionIsATapOfItsOwn(t *testing.T) {
	f, _ := withDialogs(t)
	f.Chat.Result = chat.InteractionResult{Decided: []approval.Request{{ID: request, Status: approval.Denied}}}
	w := f.submit(denial("wrong account"), nil)
	f.WantStatus(w, 200)
	f.WantInteractions(1)
	if w.Body.Len() != 0 {
		t.Errorf("the dialog is not closed: %q", w.Body)
	}
	got := f.Chat.Interactions[0]
	id := got.EventID
	if got.EventID = ""; !reflect.DeepEqual(got, chat.Interaction{Channel: "slack", By: approval.Actor{Kind: approval.Human, Name: "hana", Approver: true}, From: "U02HANA",
		ReplyTo: "https://hooks.slack.com/actions/1", Intent: chat.IntentDeny, RequestID: request, Reason: "wrong account", Told: true}) {
		t.Errorf("%+v", got)
	}
	f.submit(denial("wrong account"), nil)
	f.submit(denial("another reason"), nil) // the dialog stayed open and was filled in again
	if again, next := f.Chat.Interactions[1].EventID, f.Chat.Interactions[2].EventID; !strings.HasPrefix(id, "slack:view:V0VIEW0001:") || again != id || next == id {
		t.Errorf("event ids %q, %q, %q", id, again, next)
	}
	f.Chat.Result = chat.InteractionResult{Duplicate: true}
	if w := f.submit(denial("wrong account"), nil); w.Code != 200 || w.Body.Len() != 0 {
		t.Errorf("a replay is answered %d %q", w.Code, w.Body)
	}
	f.Chat.Err = errors.New("disk full")
	f.WantStatus(f.submit(denial("wrong account"), nil), 503)
}

func TestADialogThatDecidesNothingSaysWhy(t *testing.T) {
	for _, tt := range []struct {
		out  chat.InteractionResult
		want string
	}{
		{chat.InteractionResult{Code: approval.CodeReasonRequired}, `{"response_action":"errors","to":"hana","code":"reason_required"}`},
		{chat.InteractionResult{Code: approval.CodeInvalidParameter}, `{"response_action":"errors","to":"hana","code":"invalid_parameter"}`},
		{chat.InteractionResult{Code: approval.CodeAlreadyResolved, Text: "Already denied by ken."}, `{"response_action":"update","to":"hana","code":"already_resolved","text":"Already denied by ken."}`},
		{chat.InteractionResult{Code: approval.CodeExpired, Text: "Expired."}, `{"response_action":"update","to":"hana","code":"expired","text":"Expired."}`},
		{chat.InteractionResult{Code: approval.CodeNotAnApprover, Text: "No."}, `{"response_action":"update","to":"hana","code":"not_an_approver","text":"No."}`},
	} {
		f, _ := withDialogs(t)
		f.Chat.Result = tt.out
		w := f.submit(denial(""), nil)
		if w.Code != 200 || w.Body.String() != tt.want || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: answered %d %s %q", tt.out.Code, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
	}
}

func TestSubmissionsThatDoNotCount(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		sub          filled
		change       func(p map[string]any)
	}{
		{"another team", "slack:T0TEAM0001/U02HANA wrong_workspace", denial("x"), func(p map[string]any) { p["team"] = map[string]any{"id": "T0OTHER"} }},
		{"another app", "slack:T0TEAM0001/U02HANA wrong_workspace", denial("x"), func(p map[string]any) { p["api_app_id"] = "A0OTHER" }},
		{"no view", "hana no_event_id", denial("x"), func(p map[string]any) { delete(p, "view") }},
		{"nobody", "slack:T0TEAM0001/ no_event_id", denial("x"), func(p map[string]any) { p["user"] = map[string]any{} }},
		{"not our dialog", "hana unknown_dialog", denial("x"), func(p map[string]any) { p["view"] = map[string]any{"id": "V1"} }},
		{"no decision", "hana unknown_dialog", filled{Intent: chat.IntentLog, RequestID: request}, nil},
		{"no request", "hana unknown_dialog", filled{Intent: chat.IntentDeny, RequestID: "1"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, _ := withDialogs(t)
			w := f.submit(tt.sub, tt.change)
			f.WantStatus(w, 200)
			f.WantInteractions(0)
			if len(f.Chat.Refusals) != 1 || f.Chat.Refusals[0] != tt.reason || w.Body.Len() != 0 {
				t.Errorf("audited %q, want %q; answered %q", f.Chat.Refusals, tt.reason, w.Body)
			}
		})
	}
	t.Run("a dialog that was closed", func(t *testing.T) {
		f, _ := withDialogs(t)
		f.WantStatus(f.submit(denial("x"), func(p map[string]any) { p["type"] = "view_closed" }), 200)
		f.WantInteractions(0)
	})
	t.Run("a stranger's is refused by the gate", func(t *testing.T) {
		f, _ := withDialogs(t)
		f.submit(denial("x"), func(p map[string]any) { p["user"] = map[string]any{"id": "U9", "team_id": "T0TEAM0001"} })
		f.WantInteractions(1)
		if by := f.Chat.Interactions[0].By; by.Kind != approval.Stranger || by.Name != "slack:T0TEAM0001/U9" {
			t.Errorf("%+v", by)
		}
	})
}

func homeOpened(tab string) string {
	return `{"type":"event_callback","team_id":"T0TEAM0001","api_app_id":"A0APPROVE1","event_id":"Ev1","event":{"type":"app_home_opened","user":"U02HANA","channel":"D1","tab":"` + tab + `"}}`
}

func TestHomeIsShownWhenItIsOpenedAndAfterItsButtons(t *testing.T) {
	f, d := withDialogs(t)
	shown := make(chan string, 10)
	f.slack.home = func(ctx context.Context, user string, by approval.Actor) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("not bounded")
		}
		shown <- user + " " + by.Name
	}
	want := func(what string) {
		t.Helper()
		if got := <-shown; got != "U02HANA hana" {
			t.Errorf("%s: shown to %q", what, got)
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
	f.Chat.Asked = chat.Asked{Open: []approval.Request{{ID: request}}}
	f.slackButton(onHome)
	if len(d.opened) != 1 || d.opened[0].Channel != "" {
		t.Errorf("%+v", d.opened)
	}
	s := denial("why")
	s.Channel = ""
	f.submit(s, nil)
	want("submitted")
	f.submit(denial("why"), nil) // of a card
	f.slack.Close()
	if len(shown) != 0 {
		t.Errorf("shown %d times too often", len(shown))
	}
	f.WantStatus(f.postSlack("application/json", homeOpened("home"), nil), 200) // after the end: nothing
}

func TestAFaultCostsOneHome(t *testing.T) {
	f := newFixture(t)
	shown := make(chan string)
	f.slack.home = func(_ context.Context, user string, _ approval.Actor) {
		if user == "U02HANA" {
			panic("boom")
		}
		shown <- user
	}
	f.slack.showHome("U02HANA", approval.Actor{})
	f.slack.showHome("U03KEN", approval.Actor{})
	if user := <-shown; user != "U03KEN" {
		t.Errorf("shown to %s", user)
	}
	f.slack.Close()
	if !strings.Contains(f.Log.String(), "boom") {
		t.Errorf("not said: %s", f.Log.String())
	}
}
