package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/internal/mcp/gateway"
)

// refuse answers with a status and a body, as a server does that has not acted on a request.
func refuse(status int, body string, header ...string) func(*turn) {
	return func(x *turn) {
		for i := 0; i+1 < len(header); i += 2 {
			x.w.Header().Set(header[i], header[i+1])
		}
		x.w.Header().Set("Content-Type", "application/json")
		x.w.WriteHeader(status)
		_, _ = io.WriteString(x.w, strings.ReplaceAll(body, `"id":ID`, `"id":`+string(x.ID)))
	}
}

// The forms in which servers say that they have forgotten a session: the call goes over a new one, under the same use.
func TestRule4_ACallOfAForgottenSessionIsSentAgainUnderTheSameUse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
	}{
		{404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`},
		{400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`},
		{400, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Missing session ID"}}`},
	} {
		t.Run(fmt.Sprint(c.status, c.body), func(t *testing.T) {
			s := newScripted(t, false, "t")
			w := one(t, askAll, brief, s, around{})
			cl := w.client(false)
			id := cl.call("t", `{}`).id()
			w.answer(id, true, "")
			forgets := true
			s.when("tools/call", func(x *turn) {
				if forgets {
					forgets = false
					refuse(c.status, c.body)(x)
					return
				}
				x.result(`{"content":[{"type":"text","text":"done"}]}`)
			})
			wantText(t, cl.call("t", `{}`), "done")
			wantCalls(t, s, 2)
			if got := w.ran(id); got != approval.RunSucceeded || len(w.audited(approval.EventApprovalConsumed)) != 1 ||
				len(w.audited(approval.EventApprovalReturned)) != 0 {
				t.Errorf("the outcome is %q", got)
			}
			if a := cl.call("t", `{}`); a.id() == "" || a.id() == id {
				t.Errorf("the approval was used twice: %s", a.raw)
			}
		})
	}
}

// A server that forgets every session is sent the call twice, and the approval is given back.
func TestRule4_ACallIsSentAgainOnce(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, "t")
	w := one(t, askAll, brief, s, around{})
	cl := w.client(false)
	id := cl.call("t", `{}`).id()
	w.answer(id, true, "")
	s.when("tools/call", refuse(404, ""))
	if a := cl.call("t", `{}`); !strings.Contains(a.text(), "was not run") || !strings.Contains(a.text(), "not used up") {
		t.Errorf("got %s", a.raw)
	}
	wantCalls(t, s, 2)
	if e := w.audited(approval.EventApprovalReturned); len(e) != 1 || e[0].Reason != "the session was forgotten" ||
		e[0].ApprovalID != id {
		t.Errorf("on record: %+v", e)
	}
	s.when("tools/call", nil)
	wantText(t, cl.call("t", `{}`), "done")
	if a := cl.call("t", `{}`); a.id() == "" {
		t.Errorf("the approval was used twice: %s", a.raw)
	}
}

// What a server refuses before it acts on it has not run: the approval can be used again, three times, and the model is
// told when to try.
func TestRule4_ARefusedCallGivesItsApprovalBack(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		for _, c := range []struct {
			name string
			does func(*turn)
			want string
		}{
			{"401", refuse(401, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32001,"message":"Unauthorized."}}`,
				"WWW-Authenticate", "Bearer"),
				"HTTP 401 Unauthorized: Unauthorized. The call was not run. Its approval is not used up"},
			{"403", refuse(403, ``), "HTTP 403 Forbidden. The call was not run. Its approval is not used up"},
			{"429", refuse(429, ``),
				"HTTP 429 Too Many Requests. The call was not run. It is called too often now; try again later. Its approval is not used up"},
			{"429 with a time", refuse(429, `{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"slow"}}`, "Retry-After",
				"30"),
				"HTTP 429 Too Many Requests: slow. The call was not run. It asks to be called again in 30 seconds, not before. Its approval is not used up"},
			{"a redirect", refuse(308, ``, "Location", "https://elsewhere.example/mcp?k=v"),
				"a redirect to https://elsewhere.example/mcp, which is not followed; give that address instead. The call was not run. Its approval is not used up"},
		} {
			t.Run(c.name, func(t *testing.T) {
				s := newScripted(t, modern, "t")
				w := one(t, askAll, brief, s, around{})
				cl := w.client(modern)
				id := cl.call("t", `{}`).id()
				w.answer(id, true, "")
				s.when("tools/call", c.does)
				for n := range approval.MaxReturns + 1 {
					a := cl.call("t", `{}`)
					r := w.request(id)
					if back := n < approval.MaxReturns; a.isError() && r.Live() == back &&
						(r.RunResult == approval.RunFailed) != back &&
						strings.HasPrefix(a.text(),
							"The MCP server up refused the call before running it: the server answered with HTTP ") &&
						strings.Contains(a.text(), c.want) == back && strings.Contains(a.text(),
						"used up. Call it again, and people are asked") != back {
						continue
					}
					t.Errorf("try %d: got %s with %+v", n, a.raw, r)
				}
				wantCalls(t, s, approval.MaxReturns+1)
				if a := cl.call("t", `{}`); a.id() == "" || a.id() == id {
					t.Errorf("people are not asked again: %s", a.raw)
				}
			})
		}
	})
}

// What may have run stays used.
func TestRule4_WhatIsInDoubtStaysUsed(t *testing.T) {
	t.Parallel()
	for name, does := range map[string]func(*turn){
		"500": refuse(500, ``), "502": refuse(502, ``), "503": refuse(503, ``, "Retry-After", "1"), "408": refuse(408, ``),
		"409": refuse(409, ``), "303": refuse(303, ``, "Location", "/x"), "302": refuse(302, ``, "Location", "/x"),
		"400 of a tool": refuse(400, `{"detail":"DB session rolled back after step 3"}`),
		"broken off":    (*turn).breakOff,
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, true, "t")
			w := one(t, askAll, brief, s, around{})
			cl := w.client(true)
			id := cl.call("t", `{}`).id()
			w.answer(id, true, "")
			s.when("tools/call", does)
			if a := cl.call("t", `{}`); !strings.HasPrefix(a.text(), "The outcome is unknown") {
				t.Errorf("got %s", a.raw)
			}
			if r := w.request(id); r.Live() || r.RunResult != approval.RunUnknown {
				t.Errorf("the approval is %+v", r)
			}
		})
	}
}

// A server that asked something before it refuses has acted on the call.
func TestRule4_ACallThatBeganIsNotGivenBack(t *testing.T) {
	t.Parallel()
	s := newScripted(t, true, "t")
	w := one(t, askAll, brief, s, around{})
	cl := w.clientAs(true, agentToken, `{"elicitation":{}}`)
	id := cl.call("t", `{}`).id()
	if id == "" {
		id = w.pending(1)[0].ID
	}
	w.answer(id, true, "")
	s.when("tools/call", func(x *turn) {
		if x.member("requestState") == "" {
			x.result(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"s"}`)
			return
		}
		refuse(429, ``)(x)
	})
	a := cl.call("t", `{}`)
	var got struct{ RequestState string }
	if err := json.Unmarshal(a.Result, &got); err != nil || got.RequestState == "" {
		t.Fatalf("got %s, %v", a.raw, err)
	}
	a = cl.send("tools/call",
		fmt.Sprintf(`{"name":"t","arguments":{},"requestState":%q,"inputResponses":{"q":{"action":"accept","content":{}}}}`,
			got.RequestState))
	if !strings.Contains(a.text(), "used up. Call it again, and people are asked again.") || w.request(id).Live() {
		t.Errorf("got %s", a.raw)
	}
}

// A call whose agent was frozen since is not sent again, and its approval not given back.
func TestRule4_AFrozenAgentsCallIsNotSentAgain(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, "t")
	w := one(t, askAll, brief, s, around{})
	cl := w.client(false)
	id := cl.call("t", `{}`).id()
	w.answer(id, true, "")
	s.when("tools/call", func(x *turn) {
		if _, err := w.gate.Freeze(t.Context(), "bot", person, approval.ViaAPI, "stop"); err != nil {
			t.Error(err)
		}
		refuse(404, "")(x)
	})
	if a := cl.call("t", `{}`); !strings.Contains(a.text(), "was not run") || strings.Contains(a.text(), "not used up") {
		t.Errorf("got %s", a.raw)
	}
	wantCalls(t, s, 1)
	if r := w.request(id); r.Live() || r.Returned != 0 {
		t.Errorf("the approval is %+v", r)
	}
}

// A refused call that a grant let through was a use of it; a later one is another.
func TestARefusedCallOfAGrantIsReportedAsFailed(t *testing.T) {
	t.Parallel()
	s := newScripted(t, true, "t")
	s.when("tools/call", refuse(http.StatusTooManyRequests, ``))
	w, g := granted(t, askAll, gateway.Options{Servers: []gateway.ServerConfig{s.server("up", "")}}, around{})
	a := w.client(true).call("t", `{}`)
	if got := g.outcome("use 1"); got != approval.RunFailed || !strings.Contains(a.text(), "The call was not run.") ||
		strings.Contains(a.text(), "approval") {
		t.Errorf("the outcome is %q of %s", got, a.raw)
	}
}
