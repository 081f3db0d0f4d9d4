package openid

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	defaultTimeout = 10 * time.Second
	maxAnswer      = 1 << 20 // bytes
	maxRedirects   = 3
)

var (
	errTooLong  = errors.New("an answer of more than 1 MiB")
	errRedirect = errors.New("a redirect to somewhere else")
)

// newClient returns a client for requests to a provider. A provider may redirect what is fetched to another path of its
// own; a request that carries a code or a secret goes where it was sent and nowhere else.
func newClient(timeout time.Duration) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = 64 << 10
	t.MaxIdleConns, t.IdleConnTimeout = 4, 30*time.Second
	return &http.Client{Transport: bounded{t}, Timeout: timeout, CheckRedirect: stays}
}

func stays(next *http.Request, via []*http.Request) error {
	first := via[0]
	if first.Method != http.MethodGet || first.Header.Get("Authorization") != "" || len(via) > maxRedirects ||
		next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host {
		return errRedirect
	}
	return nil
}

// bounded is a transport whose answers are read whole, and fail where they are too long. What is fetched and is not
// there is a failure too, so that no error repeats the page that came in its place.
type bounded struct{ *http.Transport }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if r.Method == http.MethodGet && res.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("status %d", res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxAnswer {
		return nil, errTooLong
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}
