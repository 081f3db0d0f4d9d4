package webhook_test

import (
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"countersign/webhook"
	"countersign/webhook/webhooktest"
)

// pager is the way in of a platform that signs with a secret word.
type pager struct {
	*webhooktest.World
	webhook.Inbound
	body []byte // of what was verified last
}

func newPager(t *testing.T) *pager {
	w := webhooktest.New(t, nil)
	return &pager{World: w, Inbound: webhook.NewInbound("pager", w.Options())}
}

const signature = "X-Pager-Signature"

func (p *pager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	formed := func(h http.Header) bool { return len(h[signature]) == 1 }
	signed := func(h http.Header, _ []byte) bool {
		return subtle.ConstantTimeCompare([]byte(h.Get(signature)), []byte("word")) == 1
	}
	if body, ok := p.Verify(w, r, formed, signed, "application/json"); ok {
		p.body = body
		webhook.Answer{Stored: true}.Write(w)
	}
}

// post posts a body with a word for its signature.
func (p *pager) post(body io.Reader, word string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/webhook/pager", body)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	if word != "" {
		r.Header.Set(signature, word)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func TestBodiesAreBounded(t *testing.T) {
	p := newPager(t)
	p.WantStatus(p.post(strings.NewReader(strings.Repeat("x", webhook.MaxBody)), "word"), 200)
	if len(p.body) != webhook.MaxBody {
		t.Errorf("%d bytes were taken", len(p.body))
	}
	p.WantStatus(p.post(strings.NewReader(strings.Repeat("x", webhook.MaxBody+1)), "word"), 413)
	untold := io.MultiReader(strings.NewReader(strings.Repeat("x", webhook.MaxBody+1))) // how long it is
	p.WantStatus(p.post(untold, "word"), 413)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/webhook/pager?action=approve", nil))
	p.WantStatus(w, 405)
}

type crowded struct{ error }

func (crowded) RetryAfter() time.Duration { return 3 * time.Second }

// What a body's reader says of itself is what its sender is told.
func TestABodyThatDoesNotCome(t *testing.T) {
	for _, tt := range []struct {
		err        error
		status     int
		count      string
		retryAfter string
	}{
		{crowded{errors.New("busy")}, 503, "busy", "3"},
		{os.ErrDeadlineExceeded, 408, "slow", ""},
		{io.ErrUnexpectedEOF, 400, "", ""},
	} {
		p := newPager(t)
		w := p.post(io.MultiReader(strings.NewReader("{"), failing{tt.err}), "word")
		p.WantStatus(w, tt.status)
		if got := w.Header().Get("Retry-After"); got != tt.retryAfter || tt.count != "" && p.Counts[tt.count] != 1 {
			t.Errorf("%v: Retry-After %q, counted %v", tt.err, got, p.Counts)
		}
	}
}

type failing struct{ err error }

func (r failing) Read([]byte) (int, error) { return 0, r.err }

// Somebody is known when their signature holds, and not before; of who has none that could be one nothing is read.
func TestRule12_ASenderIsKnownByTheSignature(t *testing.T) {
	p := newPager(t)
	known := 0
	p.Inbound.Signed = func(*http.Request) { known++ }
	p.WantStatus(p.post(webhooktest.Never{T: t}, ""), 401)
	p.WantStatus(p.post(strings.NewReader("{}"), "guess"), 401)
	if known != 0 || p.Counts["unsigned"] != 2 || p.body != nil {
		t.Errorf("%d strangers are known, counted %v, %q was taken", known, p.Counts, p.body)
	}
	p.WantStatus(p.post(strings.NewReader("{}"), "word"), 200)
	if known != 1 || string(p.body) != "{}" {
		t.Errorf("%d are known, %q was taken", known, p.body)
	}
}
