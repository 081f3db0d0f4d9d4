package client

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A request names the trace that it is made in, and nothing that cannot be one.
func TestRequestsNameTheirTrace(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for given, want := range map[string]string{
		parent: parent, strings.Replace(parent, "00-", "01-", 1) + "-more": "01" + parent[2:] + "-more",
		"": "", parent + "\r\nX-Evil: 1": "", parent + " ": "", strings.ToUpper(parent): "", strings.Repeat("0", 55): "",
		parent + "-" + strings.Repeat("x", 65): "",
	} {
		got := make(chan http.Header, 1)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got <- r.Header
			_, _ = w.Write([]byte(`{}`))
		}))
		c, err := New(s.URL, "test-token")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Call(WithTraceparent(t.Context(), given), Call{Tool: "x"}); err != nil {
			t.Fatal(err)
		}
		if h := (<-got).Get("Traceparent"); h != want { // real: the request was answered
			t.Errorf("%q was sent as %q, want %q", given, h, want)
		}
		c.Close()
		s.Close()
	}
}
