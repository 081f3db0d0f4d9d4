package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/internal/mcp"
	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

// What the server of an approved call is told at the agent's side, which no approver saw, is on the request and in the
// audit log before the server has it, whichever way it is told; secrets are masked there, and it is told them.
func TestRule11_WhatAServerIsToldAfterTheApprovalIsOnRecord(t *testing.T) {
	t.Parallel()
	answer := func(what string) string {
		return `{"action":"accept","content":{"text":"` + what + `","password":"hunter2-and-more"}}`
	}
	for name, server := range eras {
		for _, client := range []string{"legacy", "modern", "task"} {
			call, args := asking, `{"ask":["m1","m2"]}`
			if server == mcp.Modern {
				call, args = requiring, `{"rounds":2}`
			}
			up := newFake(server, call, "tool")
			w := newWorld(t, quarantineAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}})
			var got string
			switch client {
			case "legacy":
				c := join(t, w, mcp.Legacy, `{"elicitation":{}}`, func(c *peer) {
					c.answer = func(m mcp.Message) string {
						p, _ := mcp.ReadObject(m.Params)
						return answer("from " + p.Text("message"))
					}
				})
				c.callTool("tool", args)
				w.resolve(t, true)
				got = say(c.callTool("tool", args))
			case "modern":
				c := join(t, w, mcp.Modern, `{"elicitation":{}}`)
				c.callTool("tool", args)
				w.resolve(t, true)
				m, n := c.rounds("tool", args, func(q mcp.Member) string {
					return answer("from " + mcp.Text(member(q.Value, "params", "message")))
				})
				if n != 2 {
					t.Errorf("asked %d times", n)
				}
				got = say(m)
			default:
				c := join(t, w, mcp.Modern, askableTasks)
				id := c.begin("tool", args)
				w.resolve(t, true)
				for i := range 2 {
					var q mcp.Object
					question := fmt.Sprintf("input-%d", i+1)
					testkit.Eventually(t, question, func() bool {
						q, _ = mcp.ReadObject(member(c.task("tasks/get", id).Result, "inputRequests"))
						return q.Get(question) != nil
					})
					c.task("tasks/update", id, `"inputResponses":{"`+question+`":`+
						answer("from "+mcp.Text(member(q.Get(question), "params", "message")))+`}`)
				}
				got = c.becomes(id, "completed")
			}
			what := "a " + client + " client of a " + name + " server"
			contains(t, what+": the server", got, "hunter2-and-more")
			r := w.newest(t)
			if len(r.Inputs) != 2 {
				t.Fatalf("%s: got %+v", what, r.Inputs)
			}
			for _, in := range r.Inputs {
				if !strings.Contains(in.Answer, `"text":"from m`) || strings.Contains(in.Answer, "hunter2") || in.Method == "" ||
					in.At.IsZero() {
					t.Errorf("%s: got %+v", what, in)
				}
			}
			es := w.audited(approval.EventCallInput)
			if len(es) != 2 || es[0].ApprovalID != r.ID || es[0].Actor != "agent:bot" || !strings.Contains(string(es[0].Data),
				"from m") || strings.Contains(string(es[0].Data), "hunter2") {
				t.Errorf("%s: in the audit log: %+v", what, es)
			}
		}
	}
}

// More than is kept is not passed on; what is long is cut, and what gives nothing is not on record.
func TestRule11_WhatIsNotOnRecordIsNotTold(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, asking, "tool")
	w := newWorld(t, quarantineAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}})
	asked := 0
	c := join(t, w, mcp.Legacy, `{"elicitation":{}}`, func(c *peer) {
		c.answer = func(mcp.Message) string {
			if asked++; asked == 1 {
				return `{"action":"decline"}`
			}
			return `{"action":"accept","content":{"text":"` + strings.Repeat("long ", 1000) + `"}}`
		}
	})
	args := `{"ask":[` + strings.Repeat(`"m",`, 19) + `"m"]}`
	c.callTool("tool", args)
	w.resolve(t, true)
	got := say(c.callTool("tool", args))
	if n := strings.Count(got, `"accept"`); n != approval.MaxInputs {
		t.Errorf("the server was given %d answers", n)
	}
	r := w.newest(t)
	if len(r.Inputs) != approval.MaxInputs || len(r.Inputs[0].Answer) > 700 {
		t.Errorf("%d on record, the first with %d bytes", len(r.Inputs), len(r.Inputs[0].Answer))
	}
	if err := w.gate.AddInput(t.Context(), approval.Actor{Kind: approval.Agent, Name: "bot"}, r.ID,
		approval.Input{Method: "x", Answer: "{}"}); approval.CodeOf(err) != approval.CodeInvalidParameter {
		t.Errorf("after the end: %v", err)
	}
	if err := w.gate.AddInput(t.Context(), approval.Actor{Kind: approval.Agent, Name: "other"}, r.ID,
		approval.Input{Method: "x", Answer: "{}"}); approval.CodeOf(err) != approval.CodeNotFound {
		t.Errorf("by another agent: %v", err)
	}
}
