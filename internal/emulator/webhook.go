package emulator

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// WebhookDelivery is one outbound webhook that somebody's own program received and believed.
type WebhookDelivery struct {
	At     time.Time
	Person string
	ID     string    // webhook-id: the same each time the same event is sent
	Sent   time.Time // webhook-timestamp: of this try
	Type   string    // the body's type
	Body   json.RawMessage
	Again  bool // its id was received before; a careful program acts on it once
}

// Webhooks are the programs of people who have neither platform.
type Webhooks struct {
	e        *Emulator
	received []WebhookDelivery // guarded by the Emulator's lock
}

const (
	webhookTolerance = 5 * time.Minute
	webhookMaxBody   = 1 << 20
	webhookPrefix    = "whsec_"
)

// newWebhookSecret makes a secret as the Standard Webhooks specification wants it.
func newWebhookSecret() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return webhookPrefix + base64.StdEncoding.EncodeToString(key)
}

func webhookKey(secret string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(secret, webhookPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("emulator: a webhook secret is whsec_ and the base64 of 24 to 64 bytes")
	}
	return key, nil
}

// SignWebhook computes one entry of the webhook-signature header. timestamp is the webhook-timestamp header.
func SignWebhook(secret, id, timestamp string, body []byte) (string, error) {
	key, err := webhookKey(secret)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}

// URL is the address of a person's own program, which takes webhooks as the Standard Webhooks specification
// signs them, with the Config's WebhookSecret. What is not signed well is answered 401.
func (wh *Webhooks) URL(person string) string {
	p, err := wh.e.person(person)
	if err != nil {
		return ""
	}
	return wh.e.URL() + "/webhook/" + url.PathEscape(p.Name)
}

// Received returns what a person's program received, in order of arrival.
func (wh *Webhooks) Received(person string) []WebhookDelivery {
	p, err := wh.e.person(person)
	if err != nil {
		return nil
	}
	wh.e.mu.Lock()
	defer wh.e.mu.Unlock()
	var received []WebhookDelivery
	for _, d := range wh.received {
		if d.Person == p.Name {
			received = append(received, d)
		}
	}
	return received
}

// Wait waits until a person's program has received at least n webhooks, and returns them.
func (wh *Webhooks) Wait(ctx context.Context, person string, n int) ([]WebhookDelivery, error) {
	var received []WebhookDelivery
	err := wh.e.WaitFor(ctx, func() bool {
		received = wh.Received(person)
		return len(received) >= n
	})
	return received, err
}

func (wh *Webhooks) serve(w http.ResponseWriter, r *http.Request) {
	wh.e.serve(api{
		platform: "webhook", endpoint: Webhook, bodyLimit: webhookMaxBody,
		authorized: func(r *http.Request, body []byte) bool { return wh.wrong(r.Header, body) == "" },
		tooLarge:   func() answer { return webhookRefusal(http.StatusRequestEntityTooLarge, "too large") },
		act:        wh.receive,
	}, w, r)
}

func webhookRefusal(status int, text string) answer {
	return answer{status, map[string]string{"Content-Type": "text/plain; charset=utf-8"}, []byte(text)}
}

// wrong says what is wrong with a webhook's headers; empty: nothing.
func (wh *Webhooks) wrong(h http.Header, body []byte) string {
	id, timestamp := h.Get("Webhook-Id"), h.Get("Webhook-Timestamp")
	if id == "" || timestamp == "" || h.Get("Webhook-Signature") == "" {
		return "webhook-id, webhook-timestamp and webhook-signature are all required"
	}
	if strings.Contains(id, ".") {
		return "a webhook-id has no full stop: what is signed could be split in two ways"
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return "webhook-timestamp is whole seconds"
	}
	if wh.e.now().Sub(time.Unix(seconds, 0)).Abs() > webhookTolerance {
		return "webhook-timestamp is more than five minutes off"
	}
	want, err := SignWebhook(wh.e.cfg.WebhookSecret, id, timestamp, body)
	if err != nil {
		return err.Error()
	}
	for _, given := range strings.Fields(h.Get("Webhook-Signature")) { // several, while a secret is changed
		if same(given, want) {
			return ""
		}
	}
	return "no signature fits"
}

func (wh *Webhooks) receive(c *Call, r *http.Request, body []byte) answer {
	wh.e.mu.Lock()
	defer wh.e.mu.Unlock()
	p, err := wh.e.person(r.PathValue("person"))
	switch {
	case err != nil:
		return webhookRefusal(http.StatusNotFound, "nobody lives here")
	case r.Method != http.MethodPost:
		return webhookRefusal(http.StatusMethodNotAllowed, "a webhook is a POST")
	}
	if wrong := wh.wrong(r.Header, body); wrong != "" {
		wh.e.violate(c, "signature", wrong)
		return webhookRefusal(http.StatusUnauthorized, wrong)
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		wh.e.violate(c, "content_type", r.Header.Get("Content-Type"))
	}
	event, err := parseObject(body)
	if err != nil {
		wh.e.violate(c, "schema", err.Error())
		return webhookRefusal(http.StatusBadRequest, "a JSON object is expected")
	}
	if at, err := time.Parse(time.RFC3339, str(event["timestamp"])); str(event["type"]) == "" || err != nil ||
		at.IsZero() || event["data"] == nil {
		wh.e.violate(c, "schema", "an event has a type, a timestamp as RFC 3339 has it, and data")
	}
	seconds, _ := strconv.ParseInt(r.Header.Get("Webhook-Timestamp"), 10, 64) // checked before
	d := WebhookDelivery{
		At: wh.e.now(), Person: p.Name, ID: r.Header.Get("Webhook-Id"), Sent: time.Unix(seconds, 0).UTC(),
		Type: str(event["type"]), Body: bytes.Clone(body),
	}
	for _, earlier := range wh.received {
		d.Again = d.Again || earlier.ID == d.ID && earlier.Person == d.Person
	}
	wh.received = append(wh.received, d)
	wh.e.bump()
	return answer{status: http.StatusNoContent}
}
