package emulator_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/internal/emulator"
	"countersign/internal/testkit"
)

func TestFailuresHappenAsOftenAsTold(t *testing.T) {
	t.Parallel()
	w := start(t)
	f := w.Fail(emulator.LINEPush, 2, emulator.RateLimited(7*time.Second))
	w.Fail(emulator.LINEPush, 1, emulator.MonthlyLimit())
	var got []int
	for range 4 {
		r := w.push(text1, nil)
		got = append(got, r.status)
		if len(got) <= 2 && r.header.Get("Retry-After") != "7" {
			t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
		}
		if len(got) == 3 && r.json(t)["message"] != "You have reached your monthly limit." {
			t.Errorf("third: %s", r.body)
		}
	}
	if got[0] != 429 || got[1] != 429 || got[2] != 429 || got[3] != 200 || f.Used() != 2 || len(w.LINE.Chat("hana")) != 1 {
		t.Errorf("statuses %v, used %d, %d messages", got, f.Used(), len(w.LINE.Chat("hana")))
	}
	all := w.Fail(emulator.AnySlack, -1, emulator.SlackError("fatal_error"))
	for range 3 {
		if r := w.slack("auth.test", url.Values{}); r["error"] != "fatal_error" {
			t.Errorf("got %v", r)
		}
	}
	all.Cancel()
	if r := w.slack("auth.test", url.Values{}); r["ok"] != true {
		t.Errorf("after Cancel: %v", r)
	}
}

func TestFailuresByKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		fault     emulator.Fault
		status    int // 0: the connection is cut
		body      string
		delivered bool
	}{
		{"server error", emulator.ServerError(), 500, "<html>", false},
		{"unauthorized", emulator.Unauthorized(), 401, "Authentication failed", false},
		{"empty object", emulator.EmptyObject(), 200, "{}", false},
		{"any answer", emulator.Answer(418, map[string]string{"X-Tea": "green"}, "teapot"), 418, "teapot", false},
		{"garbage", emulator.Garbage(), 200, "sentMess", true},
		{"connection closed", emulator.ConnectionClosed(), 0, "", false},
		{"lost response", emulator.LostResponse(), 0, "", true},
		{"slow", emulator.Slow(5 * time.Millisecond), 200, "sentMessages", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t)
			w.Fail(emulator.LINEPush, 1, c.fault)
			r, err := w.do("POST", w.LINE.URL()+"/v2/bot/message/push", map[string]string{
				"Authorization": "Bearer " + w.Config().LINE.ChannelAccessToken, "Content-Type": "application/json",
				"X-Line-Retry-Key": "123e4567-e89b-12d3-a456-426614174000",
			}, []byte(`{"to":"`+hanaLINE+`","messages":[`+text1+`]}`))
			if (err != nil) != (c.status == 0) || r.status != c.status || !strings.Contains(string(r.body), c.body) {
				t.Errorf("got %d %q %v", r.status, r.body, err)
			}
			if got := len(w.LINE.Chat("hana")) == 1; got != c.delivered {
				t.Errorf("delivered: %v, want %v", got, c.delivered)
			}
			calls, err := w.WaitCalls(w.ctx(), emulator.LINEPush, 1)
			if err != nil || calls[0].Status != c.status || calls[0].Processed != c.delivered || calls[0].Fault == "" {
				t.Errorf("call: %+v %v", calls, err)
			}
			// Whatever happened, the same key and bytes end with exactly one message.
			again := w.push(text1, map[string]string{"X-Line-Retry-Key": "123e4567-e89b-12d3-a456-426614174000"})
			if want := map[bool]int{true: 409, false: 200}[c.delivered]; again.status != want || len(w.LINE.Chat("hana")) != 1 {
				t.Errorf("again: %d, want %d; %d messages", again.status, want, len(w.LINE.Chat("hana")))
			}
		})
	}
}

// pushWith pushes with a context of its own.
func pushWith(ctx context.Context, w *world) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.LINE.URL()+"/v2/bot/message/push",
		strings.NewReader(`{"to":"`+hanaLINE+`","messages":[`+text1+`]}`))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+w.Config().LINE.ChannelAccessToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := w.client.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func TestHoldsStopCallsUntilReleased(t *testing.T) {
	t.Parallel()
	w := start(t)
	before, after := w.Hold(emulator.LINEPush), w.HoldAnswer(emulator.LINEPush)
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() { w.push(text1, nil) })
	}
	if err := before.Wait(w.ctx(), 3); err != nil {
		t.Fatal(err)
	}
	if n := len(w.LINE.Chat("hana")); n != 0 {
		t.Errorf("%d messages while held", n)
	}
	before.Release()
	before.Release()
	if err := after.Wait(w.ctx(), 3); err != nil {
		t.Fatal(err)
	}
	if n := len(w.LINE.Chat("hana")); n != 3 {
		t.Errorf("%d messages, want 3 that are carried out and not answered", n)
	}
	after.Release()
	testkit.Wait(t, "the held calls", calls.Wait)
}

func TestAHeldCallIsCarriedOutAfterItsCallerLeft(t *testing.T) {
	t.Parallel()
	w := start(t)
	h := w.Hold(emulator.LINEPush)
	ctx, cancel := context.WithCancel(w.ctx())
	done := make(chan error, 1)
	go func() { done <- pushWith(ctx, w) }()
	if err := h.Wait(w.ctx(), 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := testkit.Receive(t, "the end of it", done); err == nil {
		t.Fatal("the caller was answered")
	}
	h.Release()
	if _, err := w.LINE.Wait(w.ctx(), "hana", 1); err != nil {
		t.Error(err)
	}
}

func TestWaitForEndsWithItsContextAndWithTheSandbox(t *testing.T) {
	t.Parallel()
	w := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.WaitFor(ctx, func() bool { return false }); err == nil {
		t.Error("waited for ever")
	}
	done := make(chan error, 1)
	go func() { done <- w.WaitFor(w.ctx(), func() bool { return false }) }()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "the end of it", done); err == nil {
		t.Error("Close left a waiter")
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Start("127.0.0.1:0"); err == nil {
		t.Error("started after Close")
	}
}

func TestCloseReleasesWhatIsHeld(t *testing.T) {
	t.Parallel()
	w := start(t)
	h := w.Hold(emulator.AnyLINE)
	done := make(chan struct{})
	go func() { defer close(done); _ = pushWith(w.ctx(), w) }()
	if err := h.Wait(w.ctx(), 1); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "the end of it", done)
}

func TestCallsAreRecordedWithoutTokens(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(text1, map[string]string{"X-Line-Retry-Key": "123e4567-e89b-12d3-a456-426614174000"})
	w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"}})
	w.line("GET", "/v2/bot/info", "", map[string]string{"Authorization": "Bearer wrong"})
	calls := w.Calls()
	if len(calls) != 3 || calls[0].Seq != 1 || calls[0].Endpoint != emulator.LINEPush ||
		calls[1].Endpoint != emulator.SlackPostMessage {
		t.Fatalf("calls: %+v", calls)
	}
	if calls[0].Header.Get("X-Line-Retry-Key") == "" || calls[0].Header.Get("Authorization") != "" ||
		!strings.Contains(string(calls[0].Answer), "sentMessages") {
		t.Errorf("call: %+v", calls[0])
	}
	if body := string(calls[1].Body); strings.Contains(body, "xoxb") || !strings.Contains(body, "channel=C0APPROVALS") {
		t.Errorf("body: %s", body)
	}
	if !calls[0].Authorized || !calls[1].Authorized || calls[2].Authorized || calls[2].Status != 401 {
		t.Errorf("calls: %+v", calls)
	}
	if n := len(w.Calls(emulator.AnyLINE)); n != 2 {
		t.Errorf("%d LINE calls, want 2", n)
	}
	w.Reset()
	if len(w.Calls())+len(w.LINE.Chat("hana")) != 0 {
		t.Error("Reset left something")
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]emulator.Config{
		"two with one id":    {People: []emulator.Person{{Name: "a", Slack: "U1"}, {Name: "b", Slack: "U1"}}},
		"no name":            {People: []emulator.Person{{Slack: "U1"}}},
		"LINE id":            {People: []emulator.Person{{Name: "a", LINE: "hana"}}},
		"two equal channels": {Slack: emulator.SlackConfig{Channels: []emulator.Channel{{ID: "C1"}, {ID: "C1"}}}},
	} {
		if _, err := emulator.New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s, err := emulator.New(emulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if p := s.People(); len(p) != 1 || !p[0].Stranger || p[0].Name != emulator.StrangerName {
		t.Errorf("people: %+v", p)
	}
	if _, err := s.LINE.Type(t.Context(), emulator.StrangerName, "hello", ""); err == nil || !strings.Contains(err.Error(),
		"SetWebhooks") {
		t.Errorf("without a webhook: %v", err)
	}
}

// TestManyAtOnce gives the race detector something to look at.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				w.push(lineCard, nil)
				w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"}, "blocks": {slackCard}})
				if _, err := w.LINE.Tap(w.ctx(), "hana", "", "Approve"); err != nil {
					t.Error(err)
				}
				if _, err := w.Slack.Tap(w.ctx(), "hana", "approvals", "", "approve", ""); err != nil {
					t.Error(err)
				}
				w.Page.Log("agent", "line")
				w.Calls()
				w.Violations()
			}
		})
	}
	testkit.Wait(t, "all of them", all.Wait)
	if v := w.Violations(); len(v) != 0 {
		t.Errorf("violations: %v", v)
	}
	if n := len(w.hooked()); n != 80 {
		t.Errorf("%d webhooks, want 80", n)
	}
}
