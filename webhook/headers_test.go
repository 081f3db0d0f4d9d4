package webhook

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// never is a body that must not be read.
type never struct{ t *testing.T }

func (n never) Read([]byte) (int, error) {
	n.t.Error("the body was read")
	return 0, io.ErrUnexpectedEOF
}

// Rule 2.12: who sends is a stranger until their signature holds, and what the headers say decides whether
// anything of theirs is read.
func TestRule12_HeadersAreJudgedBeforeTheBody(t *testing.T) {
	stamp := strconv.FormatInt(now.Unix(), 10)
	at := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).Unix(), 10) }
	line := http.Header{"X-Line-Signature": {signLINE(signingSecret, nil)}, "Content-Type": {"application/json"}}
	slack := http.Header{"X-Slack-Signature": {SlackSignature(signingSecret, stamp, nil)}, "X-Slack-Request-Timestamp": {stamp}, "Content-Type": {formType}}
	for _, tt := range []struct {
		name, channel string
		header        http.Header
		set           http.Header // nil values: the header is taken away
		length        int64
		status        int
		count         string
	}{
		{"no signature", "line", line, http.Header{"X-Line-Signature": nil}, 9, 401, "unsigned"},
		{"an empty signature", "line", line, http.Header{"X-Line-Signature": {""}}, 9, 401, "unsigned"},
		{"no base64", "line", line, http.Header{"X-Line-Signature": {strings.Repeat("*", 44)}}, 9, 401, "unsigned"},
		{"too short", "line", line, http.Header{"X-Line-Signature": {"AAAA"}}, 9, 401, "unsigned"},
		{"two signatures", "line", line, http.Header{"X-Line-Signature": {line.Get("X-Line-Signature"), "AAAA"}}, 9, 401, "unsigned"},
		{"another kind of body", "line", line, http.Header{"Content-Type": {"text/plain"}}, 9, 415, "unsupported"},
		{"a form", "line", line, http.Header{"Content-Type": {formType}}, 9, 415, "unsupported"},
		{"no kind of body", "line", line, http.Header{"Content-Type": nil}, 9, 415, "unsupported"},
		{"a compressed body", "line", line, http.Header{"Content-Encoding": {"gzip"}}, 9, 415, "unsupported"},
		{"a long body", "line", line, nil, maxBody + 1, 413, "too_large"},
		{"no signature", "slack", slack, http.Header{"X-Slack-Signature": nil}, 9, 401, "unsigned"},
		{"another version", "slack", slack, http.Header{"X-Slack-Signature": {"v1=" + strings.Repeat("0", 64)}}, 9, 401, "unsigned"},
		{"no hex", "slack", slack, http.Header{"X-Slack-Signature": {"v0=" + strings.Repeat("g", 64)}}, 9, 401, "unsigned"},
		{"too short", "slack", slack, http.Header{"X-Slack-Signature": {"v0=00"}}, 9, 401, "unsigned"},
		{"no time", "slack", slack, http.Header{"X-Slack-Request-Timestamp": nil}, 9, 401, "unsigned"},
		{"two times", "slack", slack, http.Header{"X-Slack-Request-Timestamp": {stamp, stamp}}, 9, 401, "unsigned"},
		{"a time that is none", "slack", slack, http.Header{"X-Slack-Request-Timestamp": {"now"}}, 9, 401, "unsigned"},
		{"too old", "slack", slack, http.Header{"X-Slack-Request-Timestamp": {at(-5*time.Minute - time.Second)}}, 9, 401, "unsigned"},
		{"of the future", "slack", slack, http.Header{"X-Slack-Request-Timestamp": {at(5*time.Minute + time.Second)}}, 9, 401, "unsigned"},
		{"another kind of body", "slack", slack, http.Header{"Content-Type": {"multipart/form-data; boundary=x"}}, 9, 415, "unsupported"},
		{"a long body", "slack", slack, nil, maxBody + 1, 413, "too_large"},
		{"unsigned and long", "slack", slack, http.Header{"X-Slack-Signature": nil}, maxBody + 1, 401, "unsigned"},
	} {
		t.Run(tt.channel+": "+tt.name, func(t *testing.T) {
			f := newFixture(t)
			r := httptest.NewRequest(http.MethodPost, "/webhook/"+tt.channel, never{t})
			r.Header, r.ContentLength = tt.header.Clone(), tt.length
			for name, values := range tt.set {
				r.Header[name] = values
			}
			w := httptest.NewRecorder()
			f.handlers()[tt.channel].ServeHTTP(w, r)
			f.wantStatus(w, tt.status)
			if f.counts[tt.count] != 1 || len(f.counts) != 1 || len(f.gate.refused) != 0 {
				t.Errorf("counted %v, audited %q", f.counts, f.gate.refused)
			}
		})
	}
}

func (f *fixture) handlers() map[string]http.Handler {
	return map[string]http.Handler{"line": f.line, "slack": f.slack}
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
		f := newFixture(t)
		r := httptest.NewRequest(http.MethodPost, "/webhook/line", io.MultiReader(strings.NewReader("{"), failing{tt.err}))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Line-Signature", signLINE(signingSecret, nil))
		w := httptest.NewRecorder()
		f.line.ServeHTTP(w, r)
		f.wantStatus(w, tt.status)
		if got := w.Header().Get("Retry-After"); got != tt.retryAfter || tt.count != "" && f.counts[tt.count] != 1 {
			t.Errorf("%v: Retry-After %q, counted %v", tt.err, got, f.counts)
		}
	}
}

type failing struct{ err error }

func (r failing) Read([]byte) (int, error) { return 0, r.err }

// Somebody is known when their signature holds, and not before.
func TestASenderIsKnownByTheSignature(t *testing.T) {
	f := newFixture(t)
	known := 0
	f.o.Signed = func(*http.Request) { known++ }
	f.line = NewLINE(f.o, func() []string { return []string{signingSecret} }, f.botNow)
	f.slackWith(func(*Options) {})
	body := `{"destination":"` + lineBot + `","events":[]}`
	f.postLINE(body, "")
	f.postLINE(body, signLINE("somebody else's secret", []byte(body)))
	f.postSlack("application/json", "{}", func(h http.Header) { h.Set("X-Slack-Signature", "v0="+strings.Repeat("0", 64)) })
	if known != 0 {
		t.Errorf("%d strangers are known", known)
	}
	f.wantStatus(f.postLINE(body, signLINE(signingSecret, []byte(body))), 200)
	f.wantStatus(f.postSlack("application/json", `{"type":"url_verification","challenge":"c"}`, nil), 200)
	if known != 2 {
		t.Errorf("%d are known, want 2", known)
	}
}
