package emulator_test

import (
	"encoding/base64"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/internal/emulator"
)

const webhookEvent = `{"type":"request.created","timestamp":"2026-11-21T10:40:00.000Z","data":{"id":"01"}}`

// deliver sends a webhook to hana's program; header entries override the proper ones, an empty value leaves one out.
func (w *world) deliver(id, body string, header map[string]string) result {
	w.t.Helper()
	timestamp := strconv.FormatInt(w.clock.Now().Unix(), 10)
	if given := header["webhook-timestamp"]; given != "" {
		timestamp = given
	}
	signature, err := emulator.SignWebhook(w.Config().WebhookSecret, id, timestamp, []byte(body))
	if err != nil {
		w.t.Fatal(err)
	}
	h := map[string]string{"Content-Type": "application/json", "webhook-id": id, "webhook-timestamp": timestamp,
		"webhook-signature": signature}
	for k, v := range header {
		h[k] = v
	}
	r, err := w.do("POST", w.Webhooks.URL("hana"), h, []byte(body))
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func TestWebhooksAreSignedAsTheSpecificationSays(t *testing.T) {
	t.Parallel()
	// The example of the specification's own libraries.
	got, err := emulator.SignWebhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek",
		"1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; err != nil || got != want {
		t.Errorf("got %s %v, want %s", got, err, want)
	}
	for _, secret := range []string{"", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_!", "whsec_" +
		base64.StdEncoding.EncodeToString(make([]byte, 23)), "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		if _, err := emulator.SignWebhook(secret, "a", "1", nil); err == nil {
			t.Errorf("the secret %q was taken", secret)
		}
	}
	if _, err := emulator.New(emulator.Config{WebhookSecret: "secret"}); err == nil {
		t.Error("an Emulator was made with a secret that is none")
	}
}

func TestWebhooksAreReceived(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *emulator.Config) { c.People = append(c.People, emulator.Person{Name: "mei lin"}) })
	if r := w.deliver("msg_1", webhookEvent, nil); r.status != 204 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	w.clock.Advance(time.Second)
	if r := w.deliver("msg_1", webhookEvent, nil); r.status != 204 {
		t.Errorf("again: %d %s", r.status, r.body)
	}
	got, err := w.Webhooks.Wait(w.ctx(), "hana", 2)
	if err != nil {
		t.Fatal(err)
	}
	first, again := got[0], got[1]
	if first.ID != "msg_1" || first.Type != "request.created" || string(first.Body) != webhookEvent ||
		first.Person != "hana" || first.Again ||
		!first.Sent.Equal(w.clock.Now().Add(-time.Second)) {
		t.Errorf("first: %+v", first)
	}
	if !again.Again || !again.Sent.Equal(w.clock.Now()) {
		t.Errorf("again: %+v", again)
	}
	if got := w.Webhooks.Received("ben"); got != nil {
		t.Errorf("ben got %+v", got)
	}
	if v := w.Violations(); len(v) != 0 {
		t.Errorf("violations: %v", v)
	}
	if url := w.Webhooks.URL("mei lin"); url != w.URL()+"/webhook/mei%20lin" || w.Webhooks.URL("nobody") != "" {
		t.Errorf("address: %s", url)
	}
	if calls := w.Calls(emulator.Webhook); len(calls) != 2 || calls[0].Platform != "webhook" || !calls[0].Authorized ||
		calls[0].Status != 204 {
		t.Errorf("calls: %+v", calls)
	}
	w.Reset()
	if got := w.Webhooks.Received("hana"); got != nil {
		t.Errorf("after a reset: %+v", got)
	}
}

func TestWebhooksAreRefused(t *testing.T) {
	t.Parallel()
	w := start(t)
	at := func(d time.Duration) string { return strconv.FormatInt(w.clock.Now().Add(d).Unix(), 10) }
	proper := func(body string) string {
		signature, err := emulator.SignWebhook(w.Config().WebhookSecret, "msg_1", at(0), []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return signature
	}
	for _, c := range []struct {
		name   string
		body   string
		header map[string]string
		status int
	}{
		{"another secret's signature beside it", webhookEvent, map[string]string{"webhook-signature": "v1,AAAA v1a,BBBB " +
			proper(webhookEvent)}, 204},
		{"five minutes old", webhookEvent, map[string]string{"webhook-timestamp": at(-5 * time.Minute)}, 204},
		{"older", webhookEvent, map[string]string{"webhook-timestamp": at(-5*time.Minute - time.Second)}, 401},
		{"from the future", webhookEvent, map[string]string{"webhook-timestamp": at(5*time.Minute + time.Second)}, 401},
		{"a timestamp in words", webhookEvent, map[string]string{"webhook-timestamp": "now"}, 401},
		{"another signature", webhookEvent, map[string]string{"webhook-signature": "v1,AAAA"}, 401},
		{"another version's signature", webhookEvent,
			map[string]string{"webhook-signature": strings.Replace(proper(webhookEvent), "v1,", "v2,", 1)}, 401},
		{"another body", strings.Replace(webhookEvent, "01", "02", 1),
			map[string]string{"webhook-signature": proper(webhookEvent)}, 401},
		{"another id", webhookEvent, map[string]string{"webhook-id": "msg_2"}, 401},
		{"an id with a full stop", webhookEvent, map[string]string{"webhook-id": "msg.1"}, 401},
		{"no id", webhookEvent, map[string]string{"webhook-id": ""}, 401},
		{"no signature", webhookEvent, map[string]string{"webhook-signature": ""}, 401},
		{"no JSON", "hello", nil, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(w.Webhooks.Received("hana"))
			r := w.deliver("msg_1", c.body, c.header)
			if r.status != c.status {
				t.Errorf("%d %s, want %d", r.status, r.body, c.status)
			}
			if taken := len(w.Webhooks.Received("hana")) > before; taken != (c.status == 204) {
				t.Errorf("taken: %v", taken)
			}
		})
	}
	violations := len(w.Violations())
	if violations == 0 {
		t.Error("what was refused was not noted")
	}
	if r := w.deliver("msg_3", `{"kind":"request.created"}`,
		map[string]string{"Content-Type": "text/plain"}); r.status != 204 || len(w.Violations()) != violations+2 {
		t.Errorf("%d, %v: want it taken and two things noted", r.status, w.Violations()[violations:])
	}
	if r, err := w.do("GET", w.Webhooks.URL("hana"), nil, nil); err != nil || r.status != 405 {
		t.Errorf("GET: %d %v", r.status, err)
	}
	if r, err := w.do("POST", w.URL()+"/webhook/nobody", nil, nil); err != nil || r.status != 404 {
		t.Errorf("nobody: %d %v", r.status, err)
	}
}

func TestWebhooksFail(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.Fail(emulator.Webhook, 1, emulator.Answer(503, map[string]string{"Retry-After": "7"}, ""))
	if r := w.deliver("msg_1", webhookEvent, nil); r.status != 503 || r.header.Get("Retry-After") != "7" ||
		len(w.Webhooks.Received("hana")) != 0 {
		t.Errorf("%d %v", r.status, r.header)
	}
	w.Fail(emulator.Webhook, 1, emulator.Answer(410, nil, "gone"))
	if r := w.deliver("msg_1", webhookEvent, nil); r.status != 410 {
		t.Errorf("%d", r.status)
	}
	lost := emulator.Answer(500, nil, "")
	lost.Processed = true
	w.Fail(emulator.Webhook, 1, lost)
	if r := w.deliver("msg_1", webhookEvent, nil); r.status != 500 || len(w.Webhooks.Received("hana")) != 1 {
		t.Errorf("%d, %d received: want it taken although the answer says no", r.status, len(w.Webhooks.Received("hana")))
	}
	if r := w.deliver("msg_1", webhookEvent, nil); r.status != 204 {
		t.Errorf("after the failures: %d", r.status)
	}
}
