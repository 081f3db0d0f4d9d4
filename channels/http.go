package channels

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"countersign/internal/secret"
)

// HTTPTimeout is how long one call to a platform may take, from dialling to the last byte.
const HTTPTimeout = 10 * time.Second

// maxAnswer is how much of a platform's answer is read.
const maxAnswer = 1 << 20

// NewHTTPClient returns a client for calls to a platform: with a time-out, and without redirects, which
// would take a token to the host that the answer names. Answers are read whole, and no further than 1 MiB, so
// that a caller who does not close one leaks nothing. Its CloseIdleConnections must be called when it is
// no longer used.
func NewHTTPClient(timeout time.Duration) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 32
	t.MaxResponseHeaderBytes = 64 << 10
	t.IdleConnTimeout = 90 * time.Second
	return &http.Client{
		Transport:     &bounded{t, timeout},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded is a transport whose calls end in time, with the answer in hand.
type bounded struct {
	*http.Transport
	timeout time.Duration
}

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if until, ok := r.Context().Deadline(); ok && !time.Now().Before(until) {
		return nil, context.DeadlineExceeded // this program stood still, and its timers have not noticed yet
	}
	ctx, cancel := context.WithTimeout(r.Context(), b.timeout)
	defer cancel()
	res, err := b.Transport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// Wire tells whether a request left this machine.
type Wire struct{ wrote atomic.Bool }

// WatchWire returns a context whose HTTP requests are watched. Where none was written, an error means
// that the platform knows nothing of the message; otherwise its outcome is unknown.
func WatchWire(ctx context.Context) (context.Context, *Wire) {
	w := new(Wire)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { w.wrote.Store(true) }}), w
}

// Wrote reports whether a request was written.
func (w *Wire) Wrote() bool { return w.wrote.Load() }

// TransportError is the PushError of a call that got no answer. The text of err goes into it without
// the address that was called, which can be a secret.
func TransportError(err error, w *Wire) *PushError {
	e := &PushError{Reason: ReasonUnavailable, Unknown: w.Wrote(), Err: err}
	if u, ok := errors.AsType[*url.Error](err); ok {
		e.Err = u.Err
		if u.Timeout() {
			e.Reason = ReasonTimeout
		}
	}
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		e.Reason = ReasonTimeout
	}
	return e
}

// maxRetryAfter bounds what a platform can wish for, in case it wishes nonsense.
const maxRetryAfter = time.Hour

// RetryAfter reads a Retry-After header, in seconds or as a date; 0 where there is none that can be read.
func RetryAfter(h http.Header) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseFloat(v, 64); err == nil {
		if n > 0 {
			return min(time.Duration(min(n, maxRetryAfter.Seconds())*float64(time.Second)), maxRetryAfter)
		}
		return 0
	}
	if t, err := http.ParseTime(v); err == nil {
		now := time.Now()
		if sent, err := http.ParseTime(h.Get("Date")); err == nil {
			now = sent // the platform's date is compared with the platform's clock
		}
		return min(max(t.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// Redact returns s without the secrets, should a platform repeat them in what it says.
func Redact(s string, secrets ...secret.Value) string {
	for _, one := range secrets {
		if one != "" {
			s = strings.ReplaceAll(s, one.Reveal(), secret.Hidden)
		}
	}
	return s
}
