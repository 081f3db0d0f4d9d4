package emulator

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Delivery is one webhook as it was posted, and its answer.
type Delivery struct {
	Platform string
	URL      string      // where it was posted; empty when it went over a socket
	Socket   string      // the Socket Mode connection it went over; empty: HTTP
	Header   http.Header // as sent
	Sent     []byte      // as sent; over a socket, the envelope

	Status  int    // 0: no answer; over a socket, 200 is an acknowledgement
	Body    []byte // over a socket, the acknowledgement's payload
	Latency time.Duration

	FillIn   string     // LINE: what the tapped button wrote into the field under the chat
	EventIDs []string   // LINE: webhookEventId of each event; Slack: event_id or trigger_id
	Earlier  []Delivery // the tries before this one, when the platform sent it again
}

// OK reports whether the platform would count it as delivered: a 2xx answer.
func (d Delivery) OK() bool { return d.Status >= 200 && d.Status < 300 }

// maxWebhookAnswer is how much of a webhook's answer is kept.
const maxWebhookAnswer = 1 << 20

// post sends one webhook, once.
func (e *Emulator) post(ctx context.Context, platform, target string, timeout time.Duration, header http.Header,
	body []byte) (Delivery, error) {
	d := Delivery{Platform: platform, URL: target, Header: header, Sent: body}
	if target == "" {
		return d, fmt.Errorf("emulator: %s has no webhook: call SetWebhooks", platform)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return d, fmt.Errorf("emulator: %w", err)
	}
	req.Header = header.Clone()
	latency := measure()
	res, err := e.out.Do(req)
	if err == nil {
		d.Status = res.StatusCode
		d.Body, err = io.ReadAll(io.LimitReader(res.Body, maxWebhookAnswer))
		_ = res.Body.Close()
	}
	d.Latency = latency()
	e.log.DebugContext(ctx, "webhook", "platform", platform, "status", d.Status, "latency", d.Latency, "error", err)
	e.mu.Lock()
	e.bump()
	e.mu.Unlock()
	if err != nil {
		return d, fmt.Errorf("emulator: webhook: %w", err)
	}
	return d, nil
}

// measure starts now and returns what tells how long ago that was. It goes by the machine's clock: how long a program
// takes to answer is real, whatever the platforms' own clock says.
func measure() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// Resend delivers an earlier delivery again, byte for byte and with the same headers: a replay.
func (e *Emulator) Resend(ctx context.Context, d Delivery) (Delivery, error) {
	if d.Socket != "" {
		again, err := e.Slack.Sockets.send(ctx, d.Sent)
		again.EventIDs = d.EventIDs
		return again, err
	}
	timeout := e.cfg.LINE.WebhookTimeout
	if d.Platform == "slack" {
		timeout = e.cfg.Slack.WebhookTimeout
	}
	again, err := e.post(ctx, d.Platform, d.URL, timeout, d.Header, d.Sent)
	again.EventIDs = d.EventIDs
	return again, err
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// same compares secrets in constant time.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
