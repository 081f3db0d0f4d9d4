package webhook

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Slack looks at our certificate with a GET, which it does not sign, or a POST: it is answered, and nothing is done.
func TestSlacksLookAtTheCertificateIsAnswered(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	for _, c := range []struct {
		name, method, target, kind, body string
		want                             int
	}{
		{"GET", http.MethodGet, "/webhook/slack?ssl_check=1&token=x", "", "", 200},
		{"POST, not signed", http.MethodPost, "/webhook/slack", form, "ssl_check=1&token=x", 401},
		{"another value", http.MethodGet, "/webhook/slack?ssl_check=0", "", "", 405},
		{"with a command", http.MethodPost, "/webhook/slack", form, "ssl_check=1&command=%2Fc&text=approve", 401},
		{"with a press", http.MethodPost, "/webhook/slack", form, "ssl_check=1&payload=%7B%7D", 401},
		{"in the query of a POST", http.MethodPost, "/webhook/slack?ssl_check=1", form, "text=x", 401},
		{"any GET", http.MethodGet, "/webhook/slack", "", "", 405},
		{"DELETE", http.MethodDelete, "/webhook/slack?ssl_check=1", "", "", 405},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			r, w := httptest.NewRequest(c.method, c.target, strings.NewReader(c.body)), httptest.NewRecorder()
			r.Header.Set("Content-Type", c.kind)
			if f.slack.ServeHTTP(w, r); w.Code != c.want {
				t.Errorf("answered with %d %s, want %d", w.Code, w.Body, c.want)
			}
			f.wantTaps(0)
		})
	}
	f := newFixture(t)
	if w := f.postSlack(form, "ssl_check=1&token=x", nil); w.Code != 200 {
		t.Errorf("a signed one is answered with %d", w.Code)
	}
	f.wantTaps(0)
}
