package channels

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"countersign/internal/testkit"
)

func TestPushErrorText(t *testing.T) {
	e := &PushError{Reason: ReasonRateLimited, HTTPStatus: 429, Err: errors.New("slow\ndown\u202e")}
	if got, want := e.Error(), "rate_limited (HTTP 429): slow\ndown\u202e"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if got, want := e.Detail(), "slow⟨U+000A⟩down⟨U+202E⟩"; got != want {
		t.Errorf("detail %q, want %q", got, want)
	}
	if got := AsPushError(fmt.Errorf("x: %w", e)); got != e {
		t.Errorf("AsPushError = %v", got)
	}
	if got := AsPushError(io.EOF); got.Final || !got.Unknown || got.Reason != ReasonUnavailable {
		t.Errorf("a foreign error became %+v", got)
	}
	long := (&PushError{Err: errors.New(strings.Repeat("x", 1000))}).Detail()
	if !strings.HasSuffix(long, "… (+700)") {
		t.Errorf("a long detail ends in %q", long[len(long)-20:])
	}
}

func TestRetryAfter(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "0": 0, "-3": 0, "1.5": 1500 * time.Millisecond, "soon": 0,
		"99999999999": time.Hour, "1e300": time.Hour, "NaN": 0, "Mon, 02 Jan 2006 15:04:05 GMT": 0,
	} {
		if got := RetryAfter(http.Header{"Retry-After": {in}}); got != want {
			t.Errorf("RetryAfter(%q) = %v, want %v", in, got, want)
		}
	}
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	if got := RetryAfter(http.Header{"Retry-After": {in(30 * time.Minute)}}); got < 20*time.Minute ||
		got > 30*time.Minute {
		t.Errorf("RetryAfter(in 30 minutes) = %v", got)
	}
	// A platform's date is compared with the platform's clock.
	for _, off := range []time.Duration{-30 * time.Hour, 0, 500 * 24 * time.Hour} {
		sent := time.Now().Add(off)
		h := http.Header{"Date": {sent.UTC().Format(http.TimeFormat)},
			"Retry-After": {sent.Add(30 * time.Second).UTC().Format(http.TimeFormat)}}
		if got := RetryAfter(h); got != 30*time.Second {
			t.Errorf("RetryAfter(30 s from %v) = %v", sent, got)
		}
	}
}

func TestTransportErrorTellsNoAddress(t *testing.T) {
	_, w := WatchWire(context.Background())
	err := &url.Error{Op: "Post", URL: "https://hooks.slack.com/actions/secret", Err: io.ErrUnexpectedEOF}
	if got := TransportError(err, w); strings.Contains(got.Error(), "actions") || got.Unknown ||
		got.Reason != ReasonUnavailable {
		t.Errorf("got %v, unknown %t", got, got.Unknown)
	}
	if got := TransportError(context.DeadlineExceeded, w); got.Reason != ReasonTimeout {
		t.Errorf("got %v", got)
	}
}

func TestHTTPClient(t *testing.T) {
	away := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) {
		t.Error("followed a redirect")
	}))
	defer away.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, away.URL, http.StatusTemporaryRedirect)
		case "/long":
			for range 40 {
				w.Write(make([]byte, 64<<10))
			}
		}
	}))
	defer s.Close()
	c := NewHTTPClient(testkit.Patience)
	defer c.CloseIdleConnections()
	res, err := c.Post(s.URL+"/redirect", "text/plain", strings.NewReader("token"))
	if err != nil || res.StatusCode != http.StatusTemporaryRedirect {
		t.Errorf("redirect: %v, %v", res, err)
	}
	res, err = c.Get(s.URL + "/long")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(res.Body); err != nil || len(b) != maxAnswer {
		t.Errorf("read %d bytes of a long answer, %v; want %d", len(b), err, maxAnswer)
	}
}

// stopped is the context of a program that stood still: its time is over, which no timer has noticed.
type stopped struct{ context.Context }

func (stopped) Deadline() (time.Time, bool) { return time.Now(), true }

// What should be over by now is not begun.
func TestACallToAPlatformIsNotBegunTooLate(t *testing.T) {
	called := false
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	c := NewHTTPClient(testkit.Patience)
	r, err := http.NewRequestWithContext(stopped{t.Context()}, http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := c.Do(r); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", res, err)
	}
	c.CloseIdleConnections()
	s.Close()
	if called {
		t.Error("it was sent")
	}
}

// An answer that does not come, or does not end, is no longer waited for.
func TestACallToAPlatformEndsInTime(t *testing.T) {
	for _, begun := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{"} {
		synctest.Test(t, func(t *testing.T) {
			c := NewHTTPClient(HTTPTimeout)
			defer c.CloseIdleConnections()
			c.Transport.(*bounded).DialContext = func(context.Context, string, string) (net.Conn, error) {
				here, platform := net.Pipe()
				go func() {
					defer platform.Close()
					if _, err := http.ReadRequest(bufio.NewReader(platform)); err != nil {
						t.Error(err)
					}
					io.WriteString(platform, begun)
					io.Copy(io.Discard, platform) // until it is hung up on
				}()
				return here, nil
			}
			ctx, w := WatchWire(context.Background())
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/", nil)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			_, err = c.Do(r)
			if err == nil {
				t.Fatalf("%q: an answer", begun)
			}
			if e := TransportError(err, w); e.Reason != ReasonTimeout || !e.Unknown || time.Since(start) != HTTPTimeout {
				t.Errorf("%q: %+v after %s, want an unknown timeout", begun, e, time.Since(start))
			}
		})
	}
}
