package gateway_test

import (
	"io"
	"strings"
	"testing"
)

// The calls of a batch are judged one by one: none is let through with another, and an approval is used by one of two
// that are alike.
func TestRule4_ABatchUsesAnApprovalOnce(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, "t", "free", "never")
	w := one(t, `{policy: {rules: [{tools: [free], risk: low, action: allow}, {tools: [never], risk: high, action: deny}, {tools: [t], risk: high, action: quarantine}]}}`,
		brief, s, around{})
	c := w.client(false)
	c.session = ""
	a := c.send("initialize",
		`{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"wire","version":"1"}}`)
	if c.session = a.header.Get("Mcp-Session-Id"); c.session == "" {
		t.Fatalf("no session: %s", a.raw)
	}
	batch := func(messages ...string) string {
		t.Helper()
		resp, err := c.post(t.Context(), "["+strings.Join(messages, ",")+"]")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s %s, %v", resp.Status, b, err)
		}
		return string(b)
	}
	call := func(id, tool string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"n":1}}}`
	}
	got := batch(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, call("1", "free"), call("2", "never"),
		call("3", "t"))
	contains(t, "what is allowed", got, `"done"`)
	contains(t, "what is denied", got, "Policy denied: ")
	contains(t, "what is asked about", got, "Approval requested (id: ")
	if n := len(s.calls("tools/call")); n != 1 {
		t.Errorf("%d calls reached the server, want the allowed one", n)
	}
	all := w.all()
	if len(all) != 1 {
		t.Fatalf("%d requests", len(all))
	}
	w.answer(all[0].ID, true, "")
	got = batch(call("4", "t"), call("5", "t"))
	if n := len(s.calls("tools/call")); n != 2 || strings.Count(got, `"done"`) != 1 {
		t.Errorf("%d calls reached the server, want 2; the answers are %s", n, got)
	}
}
