package app_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"countersign/client"
)

// An agent asks without end, on the whole program: every request is made, people's phones stay quiet after its budget
// of pushes, the admin is told once, and another agent and the people notice nothing.
func TestRule12_OfAnAgentOverItsBudgetOfPushesCardsWaitAndAdminsAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, replacing("limits: none", "limits: {agent: {pushes: 40/h}, person: {calls: 0}}"))
	last := ""
	for i := range 40 {
		a, err := w.bot.Call(w.ctx, transfer(2000+i))
		last = a.ApprovalID
		if err != nil || a.Kind != client.AnswerPending {
			t.Fatalf("call %d: %v, %v; want it pending", i, a.Kind, err)
		}
	}
	w.told("agent:bot is over its limit (pushes: 40/h)")
	if es := w.audit("rate_limited"); len(es) != 1 || es[0].Actor != "agent:bot" || es[0].Reason != "pushes" {
		t.Errorf("on record: %+v", es)
	}
	if m := w.get("/metrics"); !strings.Contains(m,
		`countersign_limited_total{budget="pushes",kind="agent",principal="bot"} `) {
		t.Error("the metrics do not say it")
	}
	other := w.client("OTHER_TOKEN")
	if a, err := other.Call(w.ctx, transfer(9000)); err != nil || a.Kind != client.AnswerPending {
		t.Errorf("another agent: %v, %v", a.Kind, err)
	}
	// A reload raises it, and what waits goes out.
	text, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.path, []byte(replacing("pushes: 40/h", "pushes: 6000/m")(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	w.lineCard(last, 1)
}

// Those who come without a token are one agent together, over TCP and over the socket.
func TestRule12_WhoHasNoTokenHasTheBudgetOfOneAgent(t *testing.T) {
	t.Parallel()
	path, socket := withSocket(t)
	w := newWorld(t, socket, replacing("limits: none", "limits: {agent: {calls: 12/h}, person: {calls: 0}}"))
	event := `{"session_id":"s","cwd":"/srv","hook_event_name":"PreToolUse","tool_name":"read_ledger","tool_input":{},"tool_use_id":"t"}`
	mcp := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	const call = `{"tool":"read_ledger","args":{}}`
	for range 3 {
		if status, body := w.over(path, "", "POST", "/v1/calls", call); status != 200 {
			t.Fatalf("got %d %s", status, body)
		}
	}
	for _, door := range []struct{ path, body, refused string }{
		{"/v1/calls", call, `"code":"rate_limited"`}, {"/hooks/claude-code", event, `"permissionDecision":"deny"`},
		{"/mcp", mcp, `"error"`},
	} {
		if _, body := w.over(path, "", "POST", door.path, door.body); !strings.Contains(body,
			"the budget of calls: agent:local may have 12 calls per hour") || !strings.Contains(body, door.refused) {
			t.Errorf("%s: got %s", door.path, body)
		}
	}
	w.expect(client.Call{Tool: "read_ledger", Args: json.RawMessage(`{}`)}, client.AnswerAllow)
}
