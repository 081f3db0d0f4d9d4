package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"countersign/internal/testkit"
)

// What the agent's variable names is the trace that its commands ask in.
func TestCommandsAskInTheAgentsTrace(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	asked := make(chan string, 1)
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/proof" {
			proves(w, r)
			return
		}
		asked <- r.Header.Get("Traceparent")
		_, _ = io.WriteString(w, `{"decision":"allow","message":"Allowed.","risk_level":"low"}`)
	}))
	t.Cleanup(gate.Close)
	env := map[string]string{"COUNTERSIGN_SERVER": gate.URL, "COUNTERSIGN_TOKEN": "agent-token-0123456789", "TRACEPARENT": parent}
	var out strings.Builder
	code := run(t.Context(), []string{"call", "--tool", "read_file"}, strings.NewReader(""), &out, &out,
		func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if got := testkit.Receive(t, "a call", asked); got != parent {
		t.Errorf("the gate was asked in %q, want %q; %d: %s", got, parent, code, &out)
	}
}
