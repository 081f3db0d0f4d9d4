package slack

import (
	"cmp"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// Slack looks at our certificate with a GET or a POST, neither of which it signs: it is answered, and nothing is done.
// That is no way around signatures: whatever else comes unsigned is refused, and of what is long nothing is read.
func TestSlacksLookAtTheCertificateIsAnswered(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	press := url.QueryEscape(`{"type":"block_actions","team":{"id":"T0TEAM0001"},"user":{"id":"U02HANA"},` +
		`"trigger_id":"1.2",` +
		`"actions":[{"action_id":"approve","value":"` + request + `"}]}`)
	for _, c := range []struct {
		name, method, target, kind, body string
		header                           http.Header
		want                             int
		unread                           bool
	}{
		{name: "GET", method: http.MethodGet, target: "?ssl_check=1&token=x", want: 200},
		{name: "POST, not signed", kind: form, body: "ssl_check=1&token=x", want: 200},
		{name: "POST, its charset told", kind: form + "; charset=utf-8", body: "ssl_check=1&token=x", want: 200},
		{name: "another value", method: http.MethodGet, target: "?ssl_check=0", want: 405},
		{name: "another value, POST", kind: form, body: "ssl_check=0&token=x", want: 401},
		{name: "true", kind: form, body: "ssl_check=true&token=x", want: 401},
		{name: "with a command", kind: form, body: "ssl_check=1&command=%2Fc&text=approve&user_id=U02HANA&team_id=T0TEAM0001",
			want: 401},
		{name: "with an empty command", kind: form, body: "ssl_check=1&command=", want: 401},
		{name: "with a press", kind: form, body: "ssl_check=1&payload=" + press, want: 401},
		{name: "with a press in other letters", kind: form, body: "ssl_check=1&Payload=%7B%7D", want: 401},
		{name: "said twice", kind: form, body: "ssl_check=1&ssl_check=0", want: 401},
		{name: "a press alone", kind: form, body: "payload=" + press, want: 401},
		{name: "in the query of a POST", target: "?ssl_check=1", kind: form, body: "text=x", want: 401},
		{name: "JSON", kind: "application/json", body: `{"ssl_check":1}`, want: 401, unread: true},
		{name: "long", kind: form, body: "ssl_check=1&token=" + strings.Repeat("x", maxSSLCheck), want: 401, unread: true},
		{name: "with a time, and no signature", kind: form, body: "ssl_check=1", header: http.Header{headerStamp: {"1"}},
			want: 401, unread: true},
		{name: "with a signature that is none", kind: form, body: "ssl_check=1", header: http.Header{headerSignature: {"x"}},
			want: 401, unread: true},
		{name: "any GET", method: http.MethodGet, want: 405},
		{name: "DELETE", method: http.MethodDelete, target: "?ssl_check=1", want: 405},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			body := strings.NewReader(c.body)
			r, w := httptest.NewRequest(cmp.Or(c.method, http.MethodPost), "/webhook/slack"+c.target, body),
				httptest.NewRecorder()
			maps.Copy(r.Header, c.header)
			r.Header.Set("Content-Type", c.kind)
			if f.slack.ServeHTTP(w, r); w.Code != c.want || w.Code == 200 && w.Body.Len() > 0 {
				t.Errorf("answered with %d %s, want %d", w.Code, w.Body, c.want)
			}
			if c.unread && body.Len() != len(c.body) {
				t.Errorf("%d bytes were read", len(c.body)-body.Len())
			}
			f.WantNothing()
		})
	}
	t.Run("a length that is not told", func(t *testing.T) {
		f := newFixture(t)
		r, w := httptest.NewRequest(http.MethodPost, "/webhook/slack", strings.NewReader("ssl_check=1")),
			httptest.NewRecorder()
		r.ContentLength = -1
		r.Header.Set("Content-Type", form)
		if f.slack.ServeHTTP(w, r); w.Code != 401 {
			t.Errorf("answered with %d", w.Code)
		}
	})
	f := newFixture(t)
	if w := f.postSlack(form, "ssl_check=1&token=x", nil); w.Code != 200 {
		t.Errorf("a signed one is answered with %d", w.Code)
	}
	f.WantNothing()
}
