package standardwebhooks

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/channelstest"
	"countersign/internal/testkit"
)

const (
	retryKey = "123e4567-e89b-12d3-a456-426614174000"
	// hidden are the parts of an address that may hold a secret.
	hidden = "/private-path-part?key=private-query-part"
)

// receiver is a server that answers as each test says and keeps what it was sent.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	sent []delivery
}

type delivery struct {
	method, uri string
	header      http.Header
	body        []byte
	user        string
}

func receive(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	p := new(receiver)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		user, _, _ := r.BasicAuth()
		p.mu.Lock()
		p.sent = append(p.sent, delivery{r.Method, r.RequestURI, r.Header.Clone(), body, user})
		p.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *receiver) deliveries() []delivery {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sent)
}

// address is where the receiver is, with every part that may hold a secret.
func (p *receiver) address() string {
	return strings.Replace(p.URL, "http://", "http://private-user:private-word@", 1) + hidden
}

func status(s int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(s) }
}

func message(t *testing.T, to string) channels.Message {
	t.Helper()
	body, err := newChannel(t).Render(card(channelstest.Cases()[0].Delivery))
	if err != nil {
		t.Fatal(err)
	}
	return channels.Message{Kind: approval.KindRequest, To: to, Body: body, RetryKey: retryKey, Attempt: 1}
}

func TestDelivery(t *testing.T) {
	p := receive(t, status(200))
	m := message(t, p.address())
	got, err := newChannel(t).Send(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if got.MessageID != retryKey || got.HTTPStatus != 200 || string(got.Data) != `{"webhook_id":"`+retryKey+`"}` {
		t.Errorf("receipt %+v %s", got, got.Data)
	}
	ds := p.deliveries()
	if len(ds) != 1 {
		t.Fatalf("%d deliveries", len(ds))
	}
	d := ds[0]
	if d.method != "POST" || d.uri != hidden || d.user != "private-user" || string(d.body) != string(m.Body) {
		t.Errorf("delivered %s %s by %s: %s", d.method, d.uri, d.user, d.body)
	}
	for name, want := range map[string]string{"Content-Type": "application/json", "Webhook-Id": retryKey,
		"User-Agent": "countersign"} {
		if got := d.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	checker, err := standard.NewWebhook(testSecret.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	if err := checker.Verify(d.body, d.header); err != nil {
		t.Errorf("a receiver with the standard's own library: %v", err)
	}
	if err := checker.Verify(append(d.body, ' '), d.header); err == nil {
		t.Error("another body has the same signature")
	}
}

// While a secret is replaced there is a signature by each, the newest first; they are computed here
// from the standard's text.
func TestEverySecretSigns(t *testing.T) {
	p := receive(t, status(200))
	ch := newChannel(t, testSecret, oldSecret)
	at := time.Unix(1795257600, 999_000_000)
	ch.now = func() time.Time { return at }
	m := message(t, p.URL)
	if _, err := ch.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, key := range []string{"test-only-signing-secret-no-1", "test-only-signing-secret-no-2"} {
		h := hmac.New(sha256.New, []byte(key))
		io.WriteString(h, retryKey+".1795257600."+string(m.Body))
		want = append(want, "v1,"+base64.StdEncoding.EncodeToString(h.Sum(nil)))
	}
	h := p.deliveries()[0].header
	if got := h.Get("Webhook-Signature"); got != strings.Join(want, " ") {
		t.Errorf("signatures %q, want %q", got, want)
	}
	if got := h.Get("Webhook-Timestamp"); got != "1795257600" {
		t.Errorf("timestamp %q", got)
	}
	// A later try is the same delivery, made later.
	at, m.Attempt = at.Add(time.Minute), 2
	if _, err := ch.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	again := p.deliveries()[1]
	if again.header.Get("Webhook-Id") != retryKey || again.header.Get("Webhook-Timestamp") != "1795257660" ||
		again.header.Get("Webhook-Signature") == h.Get("Webhook-Signature") || string(again.body) != string(m.Body) {
		t.Errorf("the second try has %v", again.header)
	}
}

func TestAnOutcomeIsADeliveryOfItsOwn(t *testing.T) {
	p := receive(t, status(204))
	ch := newChannel(t)
	for _, target := range []string{`{"webhook_id":"x"}`, ``, `[`} {
		m := message(t, p.URL)
		m.Kind, m.Target = approval.KindEdit, []byte(target)
		if r, err := ch.Edit(t.Context(), m); err != nil || r.HTTPStatus != 204 || len(r.Data) == 0 {
			t.Errorf("target %s: receipt %+v, error %v", target, r, err)
		}
	}
}

func TestErrorClasses(t *testing.T) {
	for _, tt := range []struct {
		status int
		header string // Retry-After
		want   channels.PushError
	}{
		{400, "", channels.PushError{Reason: "bad_request", Final: true}},
		{401, "", channels.PushError{Reason: "forbidden", Final: true}},
		{403, "", channels.PushError{Reason: "forbidden", Final: true}},
		{404, "", channels.PushError{Reason: "bad_recipient", Final: true}},
		{405, "", channels.PushError{Reason: "bad_recipient", Final: true}},
		{409, "", channels.PushError{Reason: "bad_request", Final: true}},
		{410, "7", channels.PushError{Reason: "gone", Final: true}},
		{413, "", channels.PushError{Reason: "bad_request", Final: true}},
		{422, "", channels.PushError{Reason: "bad_request", Final: true}},
		{408, "", channels.PushError{Reason: "timeout", Unknown: true}},
		{425, "", channels.PushError{Reason: "unavailable"}},
		{429, "", channels.PushError{Reason: "rate_limited"}},
		{429, "7", channels.PushError{Reason: "rate_limited", RetryAfter: 7 * time.Second}},
		{429, "soon", channels.PushError{Reason: "rate_limited"}},
		{500, "", channels.PushError{Reason: "unavailable", Unknown: true}},
		{502, "", channels.PushError{Reason: "unavailable", Unknown: true}},
		{503, "120", channels.PushError{Reason: "unavailable", Unknown: true, RetryAfter: 2 * time.Minute}},
		{599, "", channels.PushError{Reason: "unavailable", Unknown: true}},
		{301, "", channels.PushError{Reason: "unavailable"}},
		{302, "", channels.PushError{Reason: "unavailable"}},
		{307, "", channels.PushError{Reason: "unavailable"}},
		{308, "", channels.PushError{Reason: "unavailable"}},
		{304, "", channels.PushError{Reason: "unavailable"}},
	} {
		t.Run(strconv.Itoa(tt.status)+tt.header, func(t *testing.T) {
			var p *receiver
			p = receive(t, func(w http.ResponseWriter, r *http.Request) {
				if tt.header != "" {
					w.Header().Set("Retry-After", tt.header)
				}
				w.Header().Set("Location", p.URL+"/elsewhere")
				w.WriteHeader(tt.status)
				fmt.Fprintf(w, "you called %s with %s", r.URL, r.Header)
			})
			_, err := newChannel(t).Send(t.Context(), message(t, p.address()))
			checkError(t, err, tt.want, tt.status)
			if e := channels.AsPushError(err); !e.Alone || !strings.Contains(e.Detail(), p.URL) {
				t.Errorf("error %+v, want one that names %s and concerns nobody else", e, p.URL)
			}
			if n := len(p.deliveries()); n != 1 {
				t.Errorf("%d requests, want 1: no redirect is followed", n)
			}
		})
	}
}

func TestSuccess(t *testing.T) {
	for _, s := range []int{200, 201, 202, 204, 206, 299} {
		p := receive(t, status(s))
		if r, err := newChannel(t).Send(t.Context(), message(t, p.URL)); err != nil || r.HTTPStatus != s {
			t.Errorf("%d: receipt %+v, error %v", s, r, err)
		}
	}
	// What a receiver says beside its status is not read, however long it goes on.
	release, letGo := testkit.Latch()
	defer letGo()
	p := receive(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.Write(make([]byte, 4<<20))
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	if r, err := newChannel(t).Send(t.Context(), message(t, p.URL)); err != nil || r.HTTPStatus != 200 {
		t.Errorf("an answer without end: receipt %+v, error %v", r, err)
	}
	letGo()
}

func checkError(t *testing.T, err error, want channels.PushError, status int) {
	t.Helper()
	got, ok := err.(*channels.PushError)
	if !ok {
		t.Fatalf("error %T %v, want a *PushError", err, err)
	}
	if got.Reason != want.Reason || got.Final != want.Final || got.Unknown != want.Unknown || got.ChannelDown ||
		got.RetryAfter != want.RetryAfter || got.HTTPStatus != status {
		t.Errorf("error %+v, want %+v with status %d", *got, want, status)
	}
	for _, s := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", errors.Unwrap(err)),
		got.Detail()} {
		for _, secret := range []string{"private-", testSecret.Reveal(), "transfer_credits", "v1,"} {
			if strings.Contains(s, secret) {
				t.Errorf("an error tells %q: %s", secret, s)
			}
		}
	}
}

func TestNoAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	raw := func(say string) string { // a server that is no web server
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Read(make([]byte, 64<<10))
				io.WriteString(c, say)
				c.Close()
			}
		}()
		t.Cleanup(func() { l.Close(); testkit.Receive(t, "the end of the server", done) })
		return l.Addr().String()
	}
	private := "://private-user:private-word@"
	untrusted := httptest.NewUnstartedServer(status(200))
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	for _, tt := range []struct {
		name, to, say string
		want          channels.PushError
	}{
		{"nobody listens", "http" + private + nobody, "refuses the connection", channels.PushError{Reason: "unavailable"}},
		{"no such name", "https" + private + "nobody.invalid", "is a name that is not known",
			channels.PushError{Reason: "unavailable"}},
		{"a stranger's certificate", strings.Replace(untrusted.URL, "://", private, 1), "certificate",
			channels.PushError{Reason: "unavailable"}},
		{"HTTP without TLS", "https" + private + raw("HTTP/1.1 400 private-echo\r\n\r\n"), "no usable answer",
			channels.PushError{Reason: "unavailable"}},
		{"no TLS", "https" + private + raw("private-banner\r\n\r\n"), "does not speak TLS",
			channels.PushError{Reason: "unavailable"}},
		{"no HTTP", "http" + private + raw("private-banner\r\n\r\n"), "no usable answer",
			channels.PushError{Reason: "unavailable", Unknown: true}},
		{"the answer is lost", "http" + private + raw(""), "no usable answer", channels.PushError{Reason: "unavailable",
			Unknown: true}},
		{"a header without end", "http" + private + raw("HTTP/1.1 200 OK\r\nX-Pad: "+strings.Repeat("x", 1<<20)+"\r\n\r\n"),
			"no usable answer", channels.PushError{Reason: "unavailable", Unknown: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := newChannel(t).Send(t.Context(), message(t, tt.to+hidden))
			checkError(t, err, tt.want, 0)
			if e := channels.AsPushError(err); !strings.Contains(e.Detail(), tt.say) {
				t.Errorf("error %v, want one that says %q", err, tt.say)
			}
		})
	}
}

func TestNoAnswerInTime(t *testing.T) {
	release, letGo := testkit.Latch()
	defer letGo()
	ctx, pass := channelstest.Overdue(t.Context())
	p := receive(t, func(http.ResponseWriter, *http.Request) { pass(); <-release })
	ch := newChannel(t)
	_, err := ch.Send(ctx, message(t, p.address()))
	checkError(t, err, channels.PushError{Reason: "timeout", Unknown: true}, 0)
	ch.timeout = time.Nanosecond // of its own: over before anything is written
	_, err = ch.Send(t.Context(), message(t, p.address()))
	checkError(t, err, channels.PushError{Reason: "timeout"}, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = ch.Send(ctx, message(t, p.address()))
	checkError(t, err, channels.PushError{Reason: "unavailable"}, 0)
	letGo()
}

func TestBadInput(t *testing.T) {
	p := receive(t, status(200))
	for name, change := range map[string]func(*channels.Message){
		"no address":        func(m *channels.Message) { m.To = "" },
		"no scheme":         func(m *channels.Message) { m.To = "hooks.example.com/private-path" },
		"a LINE id":         func(m *channels.Message) { m.To = "U4af4980629d1e4b8c9a2c1b2d3e4f5a6" },
		"http to elsewhere": func(m *channels.Message) { m.To = "http://hooks.example.com/private-path" },
		"another scheme":    func(m *channels.Message) { m.To = "file:///private-path" },
		"no key":            func(m *channels.Message) { m.RetryKey = "" },
		"no body":           func(m *channels.Message) { m.Body = nil },
		"half a body":       func(m *channels.Message) { m.Body = channels.Body(`{"type":`) },
	} {
		m := message(t, p.URL)
		change(&m)
		_, err := newChannel(t).Send(t.Context(), m)
		if e := channels.AsPushError(err); err == nil || !e.Final || e.Reason != "bad_recipient" &&
			e.Reason != "bad_request" || strings.Contains(err.Error(), "private") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if n := len(p.deliveries()); n != 0 {
		t.Errorf("%d deliveries", n)
	}
}

func TestConcurrentUse(t *testing.T) {
	p := receive(t, status(202))
	ch := newChannel(t)
	m := message(t, p.URL)
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			if _, err := ch.Send(t.Context(), m); err != nil {
				t.Error(err)
			}
		})
	}
	testkit.Wait(t, "all sends", wg.Wait)
	if n := len(p.deliveries()); n != 40 {
		t.Errorf("%d deliveries", n)
	}
}
