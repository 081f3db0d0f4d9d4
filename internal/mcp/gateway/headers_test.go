package gateway_test

import (
	"testing"

	"countersign/internal/mcp/gateway"
)

// The server refuses a call whose headers do not mirror its arguments: what is approved and sent must be
// mirrored too, encoded once, whatever the client itself sent.
func TestArgumentsAreMirroredAsTheServersSchemaAsks(t *testing.T) {
	t.Parallel()
	up := newScripted(t, true)
	up.lists["tools/list"] = []string{`{"name":"query","description":"asks","inputSchema":{"type":"object","properties":{
		"tenant":{"type":"string","x-mcp-header":"Tenant"},"n":{"type":"integer","x-mcp-header":"Count"}}}}`}
	up.when("tools/call", func(x *turn) { x.result(`{"content":[]}`) })
	w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.server("db", "db")}})
	c := w.client(false)
	if a := c.call("db__query", `{"tenant":"日本","n":7}`); a.isError() {
		t.Fatal(a.text())
	}
	got := up.await("tools/call", 1)[0].header
	for name, want := range map[string]string{"Mcp-Name": "query", "Mcp-Param-Tenant": "=?base64?5pel5pys?=",
		"Mcp-Param-Count": "7"} {
		if v := got.Get(name); v != want {
			t.Errorf("%s: got %q, want %q", name, v, want)
		}
	}
}

// A modern client must be told of what kind a result is, and legacy servers do not say.
func TestResultsOfLegacyServersHaveAKindForModernClients(t *testing.T) {
	t.Parallel()
	up := newScripted(t, false, "t")
	for result, want := range map[string]string{
		`{ "content":[], "n":1.10}`:              `{"resultType":"complete", "content":[], "n":1.10}`,
		`{}`:                                     `{"resultType":"complete"}`,
		`{"resultType":"complete","content":[]}`: `{"resultType":"complete","content":[]}`,
	} {
		up.when("tools/call", func(x *turn) { x.result(result) })
		w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.server("up", "")}})
		if got := string(w.client(true).call("t", `null`).Result); got != want {
			t.Errorf("modern: got %s, want %s", got, want)
		}
		if got := string(w.client(false).call("t", `{}`).Result); got != result {
			t.Errorf("legacy: got %s, want %s", got, result)
		}
	}
	for _, c := range up.calls("tools/call") {
		if got := c.member("arguments"); got != "{}" {
			t.Errorf("arguments null were sent as %s, want {}", got)
		}
	}
}
