package upstream

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// What a tool says of sessions of its own must not have its call sent again: it may have acted.
func TestRule4_OnlyATransportsWordsSayThatASessionIsForgotten(t *testing.T) {
	t.Parallel()
	id := jsontext.Value(`7`)
	for body, want := range map[string]bool{
		`Bad Request: No valid session ID provided`:                                                       true,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Missing session ID"}}`: true,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Server not initialized."}}`:         true,
		`{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"Missing session ID"}}`:                 false,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"browser session closed"}}`:          false,
		`{"detail":"DB session rolled back after step 3"}`:                                                false,
		`the login session not found, after 3 of 5 were sent`:                                             false,
		``: false,
	} {
		if got := saysSessionLost(400, []byte(body), id); got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
	if !saysSessionLost(404, nil, id) || saysSessionLost(500, []byte("session not found"), id) {
		t.Error("404 says it by itself, 500 never")
	}
}
