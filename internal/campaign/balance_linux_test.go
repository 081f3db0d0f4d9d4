package campaign_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
)

// balance makes a load balancer, and returns its URL: each request goes to where at says then, once.
func balance(w *world, at func() string) string {
	s := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, r.Method, at()+r.URL.RequestURI(), bytes.NewReader(body))
		if err != nil {
			panic(err)
		}
		req.Header = r.Header.Clone()
		res, err := w.http.Do(req)
		if err != nil {
			panic(http.ErrAbortHandler) // nobody knows what became of it
		}
		defer res.Body.Close()
		maps.Copy(to.Header(), res.Header)
		to.WriteHeader(res.StatusCode)
		if _, err := io.Copy(to, res.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
	}))
	w.t.Cleanup(s.Close)
	return s.URL
}
