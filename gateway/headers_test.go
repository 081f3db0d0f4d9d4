package gateway_test

import (
	"testing"

	"countersign/gateway"
)

// The server refuses a call whose headers do not mirror its arguments: what is approved and sent must be
// mirrored too, encoded once, whatever the client itself sent.
func TestArgumentsAreMirroredAsTheServersSchemaAsks(t *testing.T) {
	up := newScripted(t, true)
	up.lists["tools/list"] = []string{`{"name":"query","description":"asks","inputSchema":{"type":"object","properties":{
		"tenant":{"type":"string","x-mcp-header":"Tenant"},"n":{"type":"integer","x-mcp-header":"Count"}}}}`}
	up.when("tools/call", func(x *turn) { x.result(`{"content":[]}`) })
	w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.Server{up.server("db", "db")}})
	c := w.client(false)
	if a := c.call("db__query", `{"tenant":"日本","n":7}`); a.isError() {
		t.Fatal(a.text())
	}
	got := up.await("tools/call", 1)[0].header
	for name, want := range map[string]string{"Mcp-Name": "query", "Mcp-Param-Tenant": "=?base64?5pel5pys?=", "Mcp-Param-Count": "7"} {
		if v := got.Get(name); v != want {
			t.Errorf("%s: got %q, want %q", name, v, want)
		}
	}
}
