package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/approval"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/lists"
	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

const (
	askAll  = `{policy: {rules: [{name: ask, tools: ["*"], risk: medium, action: quarantine, message: "Careful with this."}]}}`
	denyAll = `{policy: {rules: [{name: never, tools: ["*"], risk: high, action: deny, reason_code: frozen, message: "Nothing runs today."}]}}`
	long    = time.Minute           // to be held, for what is decided meanwhile
	brief   = 30 * time.Millisecond // for what is not
)

// pending waits until n requests are pending, and returns them, oldest first.
func (w *world) pending(n int) []approval.Request {
	w.t.Helper()
	var rs []approval.Request
	testkit.Eventually(w.t, fmt.Sprintf("%d pending requests", n), func() bool {
		var err error
		if rs, err = lists.ListRequests(context.Background(), w.gate,
			approval.RequestQuery{Status: approval.Pending}); err != nil {
			w.t.Fatal(err)
		}
		return len(rs) == n
	})
	slices.Reverse(rs)
	return rs
}

func (w *world) all() []approval.Request {
	w.t.Helper()
	rs, err := lists.ListRequests(context.Background(), w.gate, approval.RequestQuery{})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Reverse(rs)
	return rs
}

func (w *world) answer(id string, approve bool, reason string) {
	w.t.Helper()
	if _, err := w.gate.Decide(context.Background(), approval.Decision{RequestID: id, Approve: approve, By: person,
		Via: approval.ViaCLI, Reason: reason}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) request(id string) approval.Request {
	w.t.Helper()
	r, err := w.gate.Request(context.Background(), person, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// ran waits until the outcome of a call is on record.
func (w *world) ran(id string) approval.RunResult {
	w.t.Helper()
	var ran approval.RunResult
	testkit.Eventually(w.t, "an outcome of "+id, func() bool { ran = w.request(id).RunResult; return ran != "" })
	return ran
}

func (w *world) audited(kind approval.EventType) []approval.Event {
	w.t.Helper()
	es, err := lists.ListEvents(context.Background(), w.gate, approval.EventQuery{Type: kind})
	if err != nil {
		w.t.Fatal(err)
	}
	return es
}

func (w *world) policy(rules string) {
	w.t.Helper()
	if err := w.gate.SetPolicy(context.Background(), compile(w.t, rules), nil); err != nil {
		w.t.Fatal(err)
	}
}

// one is a world with one server of unchanged names.
func one(t *testing.T, rules string, hold time.Duration, s *scripted, in around) *world {
	return newWorldIn(t, rules, gateway.Options{Hold: hold, Servers: []gateway.ServerConfig{s.server("up", "")}}, in)
}

// wantText wants a result with this text, wantErrorText one that is an error.
func wantText(t *testing.T, a answer, want string) {
	t.Helper()
	if got := a.text(); got != want || a.isError() {
		t.Errorf("got  %q, isError %t\nwant %q, isError false\nin %s", got, a.isError(), want, a.raw)
	}
}

func wantErrorText(t *testing.T, a answer, want string) {
	t.Helper()
	if got := a.text(); got != want || !a.isError() {
		t.Errorf("got  %q, isError %t\nwant %q, isError true\nin %s", got, a.isError(), want, a.raw)
	}
}

func wantCalls(t *testing.T, s *scripted, n int) []said {
	t.Helper()
	got := s.calls("tools/call")
	if len(got) != n {
		t.Errorf("the server was called %d times, want %d", len(got), n)
	}
	return got
}

const oddArgs = `{ "z" : 12345678901234567890, "a":1.10,"e":"\u00e9\/x",  "n":{"b":1E2,"a":[ 1 ]} }`

func TestRule3_ArgumentsAndResultsPassAsWritten(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		const result = `{"content":[ {"type":"text","text":"\u00e9","x":1,"x":2} ],"structuredContent":{"n":9007199254740993,"d":1.10},"isError":false}`
		s := newScripted(t, modern, "t")
		s.when("tools/call", func(x *turn) { x.result(result) })
		w := one(t, allowAll, 0, s, around{})
		c := w.client(modern)
		for range 2 { // the first of a tool is decided in another way than those after it
			if a := c.call("t", oddArgs); string(a.Result) != result {
				t.Errorf("got  %s\nwant %s", a.Result, result)
			}
		}
		for _, m := range wantCalls(t, s, 2) {
			if got := m.member("arguments"); got != oddArgs {
				t.Errorf("sent arguments %s, want %s", got, oddArgs)
			}
		}
		if n := len(w.audited(approval.EventCallAllowed)); n != 2 {
			t.Errorf("%d calls are on record, want 2", n)
		}
	})
}

func TestErrorsOfServersPass(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		s.when("tools/call", func(x *turn) {
			x.finish(`"error":{"code":-32050,"message":"<\u00e9>","data":{"n":12345678901234567890,"d":1.10}}`)
		})
		w := one(t, allowAll, 0, s, around{})
		if a := w.client(modern).call("t", `{}`); a.Error == nil || a.Error.Code != -32050 || a.Error.Message != "<é>" ||
			string(a.Error.Data) != `{"n":12345678901234567890,"d":1.10}` {
			t.Errorf("got %s", a.raw)
		}
	})
}

func TestRule1_WhatPolicyDeniesIsNotForwarded(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		w := one(t, denyAll, long, s, around{})
		a := w.client(modern).call("t", `{}`)
		wantErrorText(t, a, "Policy denied: frozen — Nothing runs today.")
		if got := a.texts(); len(got) != 2 || !strings.Contains(got[1], "was not run. Do not repeat it") {
			t.Errorf("the model is told %q", got)
		}
		wantCalls(t, s, 0)
	})
}

func TestRule3_WhatWasApprovedIsWhatIsSent(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		w := one(t, askAll, long, s, around{})
		_, done := w.client(modern).start(t.Context(), "tools/call", `{"name":"t","arguments":`+oddArgs+`}`)
		r := w.pending(1)[0]
		w.answer(r.ID, true, "")
		wantText(t, finish(t, done), "done")
		const want = `{"a":1.10,"e":"é/x","n":{"a":[1],"b":1E2},"z":12345678901234567890}`
		if got := wantCalls(t, s, 1)[0].member("arguments"); got != want || got != string(r.Args) {
			t.Errorf("sent %s\nstored %s\nwant %s", got, r.Args, want)
		}
		r = w.request(r.ID)
		if r.ConsumedAt.IsZero() || r.DispatchedAt.IsZero() || r.RunResult != approval.RunSucceeded {
			t.Errorf("consumed %v, dispatched %v, outcome %q", r.ConsumedAt, r.DispatchedAt, r.RunResult)
		}
	})
}

// Words that ignore_args leaves out of the hash were on the card too: those of the first try are sent.
func TestRule3_IgnoredArgumentsAreSentAsTheyWereShown(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, "t")
	w := one(t, `{policy: {rules: [{tools: [t], risk: medium, action: quarantine, ignore_args: [why]}]}}`, brief, s,
		around{})
	c := w.client(false)
	w.answer(c.call("t", `{"n":1,"why":"first"}`).id(), true, "")
	wantText(t, c.call("t", `{"why":"second","n":1}`), "done")
	if got := wantCalls(t, s, 1)[0].member("arguments"); got != `{"n":1,"why":"first"}` {
		t.Errorf("sent %s", got)
	}
}

func TestRule2_TheIdenticalCallAttaches(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		w := one(t, askAll, brief, s, around{cards: outboxtest.To("line", "hana")})
		c := w.client(modern)
		first := c.call("t", `{"b":1,"a":[2]}`)
		id := first.id()
		wantText(t, first, "⏳ Approval requested (id: "+id+"). Careful with this.")
		again := c.call("t", `{ "a": [2], "b": 1 }`)
		wantText(t, again, "⏳ Approval pending (id: "+id+"). Waiting for human confirmation.")
		for _, a := range []answer{first, again} {
			if got := a.texts(); len(got) != 2 || !strings.Contains(got[1], "has not run") || !strings.Contains(got[1],
				"same arguments") {
				t.Errorf("the model is told %q", got)
			}
		}
		var wg sync.WaitGroup
		for range 8 { // of other sessions, all at once
			wg.Go(func() {
				if got := w.client(modern).call("t", `{"b":1,"a":[2]}`).id(); got != id {
					t.Errorf("joined %q, want %q", got, id)
				}
			})
		}
		testkit.Wait(t, "all who join", wg.Wait)
		cards, err := w.outbox.Notifications(t.Context(), approval.NotificationQuery{})
		if err != nil || len(cards) != 1 || len(w.all()) != 1 {
			t.Errorf("%d cards for %d requests (%v), want one of each", len(cards), len(w.all()), err)
		}
		wantCalls(t, s, 0)
	})
}

func TestRule4_AnApprovalIsUsedOnceAndTheNextCallAsksAnew(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		w := one(t, askAll, brief, s, around{})
		c := w.client(modern)
		id := c.call("t", `{"n":1}`).id()
		w.answer(id, true, "")
		wantText(t, c.call("t", `{"n":1}`), "done")
		anew := c.call("t", `{"n":1}`)
		if anew.id() == id || !strings.HasPrefix(anew.text(), "⏳ Approval requested") {
			t.Errorf("the second identical call got %s", anew.raw)
		}
		wantCalls(t, s, 1)
		if p := w.request(anew.id()).Previous; p == nil || p.RequestID != id || p.RunResult != approval.RunSucceeded ||
			p.ApprovedBy != "hana" {
			t.Errorf("the next card says of the last use: %+v", p)
		}
	})
}

func TestRule4_OfManyWhoWaitOneRuns(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		w := one(t, askAll, long, s, around{})
		var all []<-chan answer
		waiting := make(chan said, 99)
		for range 6 {
			c, done := w.client(modern), make(chan answer, 1)
			_, body := c.message("tools/call", `{"_meta":{"progressToken":1},"name":"t","arguments":{}}`)
			go func() { done <- c.raw(t.Context(), body, func(m said) { waiting <- m }) }()
			all = append(all, done)
		}
		for range all {
			testkit.Receive(t, "progress", waiting)
		}
		r := w.pending(1)[0]
		w.answer(r.ID, true, "")
		n := 0
		for _, done := range all {
			a := finish(t, done)
			switch {
			case a.text() == "done":
				n++
			case strings.HasPrefix(a.text(), "Not run: the approval by hana") && a.isError():
			default:
				t.Errorf("got %s", a.raw)
			}
		}
		if n != 1 {
			t.Errorf("%d calls ran, want 1", n)
		}
		wantCalls(t, s, 1)
	})
}

func TestRule9_EndingsAreToldApart(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		for _, c := range []struct {
			name string
			end  func(w *world, k *clock, id string)
			want string
		}{
			{"denied", func(w *world, _ *clock, id string) { w.answer(id, false, "too much") },
				`^Approval denied by hana: too much. The call was not executed; do not repeat it, try a different approach.$`},
			{"denied without a reason", func(w *world, _ *clock, id string) { w.answer(id, false, "") },
				`^Approval denied by hana: no reason given. `},
			{"expired", func(_ *world, k *clock, _ string) { k.advance(2 * time.Hour) },
				`^[APPROVAL EXPIRED] up/t({"n":1}): Timed out after 60 minutes with no response. Ask again if it is still needed.$`},
			{"cancelled", func(w *world, _ *clock, id string) {
				if _, err := w.gate.Cancel(context.Background(), approval.Cancellation{RequestID: id, By: person,
					Via: approval.ViaCLI}); err != nil {
					w.t.Error(err)
				}
			}, `^[APPROVAL CANCELLED] up/t({"n":1}): cancelled by hana at `},
		} {
			t.Run(c.name, func(t *testing.T) {
				k := new(clock)
				s := newScripted(t, modern, "t")
				w := one(t, askAll, long, s, around{now: k.now})
				_, done := w.client(modern).start(t.Context(), "tools/call", `{"name":"t","arguments":{"n":1}}`)
				c.end(w, k, w.pending(1)[0].ID)
				a := finish(t, done)
				got := "^" + a.text() + "$"
				if !strings.HasPrefix(got, strings.TrimSuffix(c.want, "$")) || strings.HasSuffix(c.want, "$") && got != c.want ||
					!a.isError() {
					t.Errorf("got %s\nwant %s", a.raw, c.want)
				}
				if next := strings.Join(a.texts(), " "); !strings.Contains(next, "The call was not ") {
					t.Errorf("the model is not told what to do next: %s", a.raw)
				}
				wantCalls(t, s, 0)
			})
		}
	})
}

func TestRule9_AnUnusedApprovalLapsesAndIsAskedForAnew(t *testing.T) {
	t.Parallel()
	k := new(clock)
	s := newScripted(t, false, "t")
	w := one(t, askAll, brief, s, around{now: k.now})
	c := w.client(false)
	id := c.call("t", `{}`).id()
	w.answer(id, true, "")
	k.advance(20 * time.Minute)
	if a := c.call("t", `{}`); a.id() == id || !strings.HasPrefix(a.text(), "⏳ Approval requested") {
		t.Errorf("got %s", a.raw)
	}
	wantCalls(t, s, 0)
	feed := c.call("countersign__resolved", `{}`)
	if !strings.HasPrefix(feed.text(), "[APPROVAL LAPSED] up/t({}): approved by hana at ") ||
		!strings.Contains(feed.text(), "but not used within 15 minutes. Ask again if it is still needed.") {
		t.Errorf("the feed says %q", feed.text())
	}
}

func TestADenialAnswersTheSameCallForAWhile(t *testing.T) {
	t.Parallel()
	k := new(clock)
	s := newScripted(t, false, "t")
	w := one(t, askAll, brief, s, around{now: k.now})
	c := w.client(false)
	id := c.call("t", `{}`).id()
	w.answer(id, false, "not today")
	a := c.call("t", `{}`)
	wantErrorText(t, a,
		"Approval denied by hana: not today. The call was not executed; do not repeat it, try a different approach.")
	if a.id() != id {
		t.Errorf("it names %q, want %q", a.id(), id)
	}
	k.advance(11 * time.Minute)
	if a := c.call("t", `{}`); !strings.HasPrefix(a.text(), "⏳ Approval requested") {
		t.Errorf("after remember_denial: %s", a.raw)
	}
	wantCalls(t, s, 0)
}

// Clients hold a result to the schema that the tool declares, unless it is an error.
func TestPendingIsAnErrorWhereTheToolHasAnOutputSchema(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		s.set(func() {
			s.lists["tools/list"] = []string{tool("t",
				`"outputSchema":{"type":"object","required":["n"],"properties":{"n":{"type":"number"}}}`)}
		})
		w := one(t, askAll, brief, s, around{})
		a := w.client(modern).call("t", `{}`)
		wantErrorText(t, a, "⏳ Approval requested (id: "+a.id()+"). Careful with this.")
	})
}

const askCritical = `{policy: {rules: [{name: ask, tools: ["*"], risk: critical, action: quarantine, message: "Very careful."}]}}`

func TestRule4_ThePolicyInForceIsAppliedToAnApproval(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		t.Run("deny wins", func(t *testing.T) {
			s := newScripted(t, modern, "t")
			w := one(t, askAll, brief, s, around{})
			c := w.client(modern)
			w.answer(c.call("t", `{}`).id(), true, "")
			w.policy(denyAll)
			wantErrorText(t, c.call("t", `{}`), "Policy denied: frozen — Nothing runs today.")
			wantCalls(t, s, 0)
		})
		t.Run("a higher risk asks anew", func(t *testing.T) {
			s := newScripted(t, modern, "t")
			w := one(t, askAll, brief, s, around{})
			c := w.client(modern)
			id := c.call("t", `{}`).id()
			w.answer(id, true, "")
			w.policy(askCritical)
			a := c.call("t", `{}`)
			if r := w.request(id); a.id() == id || r.Status != approval.Cancelled || r.ResolveReason != "policy_changed" {
				t.Errorf("got %s; the old request is %s (%s)", a.raw, r.Status, r.ResolveReason)
			}
			wantCalls(t, s, 0)
		})
		for name, rules := range map[string]string{"denied while held": denyAll, "a higher risk while held": askCritical} {
			t.Run(name, func(t *testing.T) {
				s := newScripted(t, modern, "t")
				w := one(t, askAll, long, s, around{})
				_, done := w.client(modern).start(t.Context(), "tools/call", `{"name":"t","arguments":{}}`)
				r := w.pending(1)[0]
				w.policy(rules)
				w.answer(r.ID, true, "seen") // a critical one takes a reason, from then on
				a := finish(t, done)
				want := "[APPROVAL CANCELLED] up/t({}): cancelled by system:policy at "
				if rules == denyAll {
					want = "Policy denied: frozen — "
				}
				if !strings.HasPrefix(a.text(), want) || !a.isError() {
					t.Errorf("got %s, want %s", a.raw, want)
				}
				wantCalls(t, s, 0)
			})
		}
	})
}

func TestRule3_AmbiguousArgumentsAreNeverAllowedByRule(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		w := one(t, allowAll, brief, s, around{})
		c := w.client(modern)
		a := c.call("t", `{"path":"/a","Path":"/b"}`)
		if r := w.request(a.id()); r.ReasonCode != "ambiguous_args" || a.isError() {
			t.Errorf("got %s, reason %s", a.raw, r.ReasonCode)
		}
		for name, args := range map[string]string{"twice": `{"a":1,"a":2}`, "twice, escaped": `{"a":1,"\u0061":2}`,
			"twice below": `{"x":{"a":1,"a":2}}`, "half a pair": `{"a":"\ud800"}`,
			"no object": `[1]`, "too deep": strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65)} {
			a := c.call("t", args)
			if a.Error == nil || a.Error.Code != -32602 || !strings.Contains(a.Error.Message, "The call was not run.") {
				t.Errorf("%s: got %s", name, a.raw)
			}
		}
		wantCalls(t, s, 0)
	})
}

// progressOf reads what a client was told of its request's progress.
func progressOf(t *testing.T, notes []said) (values []float64, messages []string) {
	t.Helper()
	for _, m := range notes {
		if m.Method != "notifications/progress" {
			continue
		}
		if got := m.member("progressToken"); got != `"mine"` {
			t.Errorf("progress bears the token %s", got)
		}
		var f float64
		if err := json.Unmarshal([]byte(m.member("progress")), &f); err != nil {
			t.Error(err)
		}
		values, messages = append(values, f), append(messages, m.member("message"))
	}
	return values, messages
}

func TestProgressRisesWhileHeldAndWhileTheServerWorks(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		s.when("tools/call", func(x *turn) {
			token := "null"
			var meta map[string]json.RawMessage
			if json.Unmarshal([]byte(x.member("_meta")), &meta) == nil {
				token = string(meta["progressToken"])
			}
			for _, at := range []string{"0", "0.5", "2"} {
				x.notify("notifications/progress", `{"progressToken":`+token+`,"progress":`+at+`,"total":2,"message":"at work"}`)
			}
			x.notify("notifications/progress", `{"progressToken":"somebody else's","progress":9}`)
			x.result(`{"content":[]}`)
		})
		w := one(t, askAll, long, s, around{})
		_, done := w.client(modern).start(t.Context(), "tools/call",
			`{"_meta":{"progressToken":"mine"},"name":"t","arguments":{}}`)
		w.answer(w.pending(1)[0].ID, true, "")
		values, messages := progressOf(t, finish(t, done).notes)
		if len(values) < 4 || !strings.HasPrefix(messages[0], `"Waiting for a person to approve up/t (id: `) ||
			messages[len(messages)-1] != `"at work"` {
			t.Fatalf("progress %v %q", values, messages)
		}
		for i := 1; i < len(values); i++ {
			if values[i] <= values[i-1] {
				t.Errorf("progress does not rise: %v", values)
			}
		}
		if token := wantCalls(t, s, 1)[0].member("_meta"); strings.Contains(token, "mine") {
			t.Errorf("the server was given the client's own token: %s", token)
		}
	})
}

func TestRule4_AClientThatIsGoneUsesNothing(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		for _, way := range []string{"connection lost", "cancelled"} {
			if modern && way == "cancelled" {
				continue // closing the stream is how a modern client cancels
			}
			t.Run(way, func(t *testing.T) {
				s := newScripted(t, modern, "t")
				over := make(chan struct{}, 9)
				w := newWorld(t, askAll, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{s.server("up", "")},
					Called: func(string, string, string, time.Duration) { over <- struct{}{} }})
				c := w.client(modern)
				ctx, hangUp := context.WithCancel(t.Context())
				defer hangUp()
				n, done := c.start(ctx, "tools/call", `{"name":"t","arguments":{}}`)
				r := w.pending(1)[0]
				if way == "cancelled" {
					c.tell("notifications/cancelled", fmt.Sprintf(`{"requestId":%d}`, n))
				} else {
					hangUp()
				}
				testkit.Receive(t, "the call's end", done)
				testkit.Receive(t, "the call is reported", over)
				w.answer(r.ID, true, "")
				wantCalls(t, s, 0)
				if r = w.request(r.ID); !r.ConsumedAt.IsZero() {
					t.Fatal("the approval was used for nobody")
				}
				wantText(t, c.call("t", `{}`), "done") // it is still there
				wantCalls(t, s, 1)
			})
		}
	})
}

func TestRule4_ARevokedTokenUsesNothing(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		var revoked atomic.Bool
		s := newScripted(t, modern, "t")
		w := one(t, askAll, long, s, around{still: func(string) error {
			if revoked.Load() {
				return approval.Errorf(approval.CodeUnauthorized, "The token is not valid any more.")
			}
			return nil
		}})
		_, done := w.client(modern).start(t.Context(), "tools/call", `{"name":"t","arguments":{}}`)
		r := w.pending(1)[0]
		revoked.Store(true)
		w.answer(r.ID, true, "")
		wantErrorText(t, finish(t, done), "The token is not valid any more. The call was not run, and no approval was used.")
		if r = w.request(r.ID); !r.ConsumedAt.IsZero() {
			t.Error("the approval was used")
		}
		wantCalls(t, s, 0)
	})
}

func TestAHeldCallIsAnsweredAsPendingWhenTheProgramStops(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		stop, cancel := context.WithCancel(context.Background())
		defer cancel()
		s := newScripted(t, modern, "t")
		w := one(t, askAll, long, s, around{stop: stop})
		_, done := w.client(modern).start(t.Context(), "tools/call", `{"name":"t","arguments":{}}`)
		r := w.pending(1)[0]
		cancel()
		wantText(t, finish(t, done), "⏳ Approval requested (id: "+r.ID+"). Careful with this.")
	})
}

func TestCancellingARunningCallTellsTheServer(t *testing.T) {
	t.Parallel()
	for _, rules := range []string{allowAll, askAll} {
		t.Run(map[string]string{allowAll: "allowed", askAll: "approved"}[rules], func(t *testing.T) {
			eachEra(t, func(t *testing.T, modern bool) {
				s := newScripted(t, modern, "t")
				told := make(chan struct{})
				s.when("tools/call", func(x *turn) { x.gone(); close(told) })
				w := one(t, rules, long, s, around{})
				c := w.client(modern)
				ctx, hangUp := context.WithCancel(t.Context())
				defer hangUp()
				n, done := c.start(ctx, "tools/call", `{"name":"t","arguments":{}}`)
				id := ""
				if rules == askAll {
					id = w.pending(1)[0].ID
					w.answer(id, true, "")
				}
				sent := s.await("tools/call", 1)[0]
				if modern {
					hangUp()
				} else {
					c.tell("notifications/cancelled", fmt.Sprintf(`{"requestId":%d}`, n))
					if got := s.await("notifications/cancelled", 1)[0].member("requestId"); got != string(sent.ID) {
						t.Errorf("the server was told to cancel %s, want %s", got, sent.ID)
					}
				}
				testkit.Receive(t, "the server hears of it", told)
				testkit.Receive(t, "the call's end", done)
				if id != "" {
					if got := w.ran(id); got != approval.RunUnknown {
						t.Errorf("the outcome is %s, want unknown", got)
					}
				}
			})
		})
	}
}

// The outcome of an approved call is wanted even if the connection to the client is lost.
func TestAnApprovedCallGoesOnWhenTheConnectionOfItsClientIsLost(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, "t")
	goOn, letGo := testkit.Latch()
	defer letGo()
	s.when("tools/call", func(x *turn) { <-goOn; x.result(`{"content":[]}`) })
	w := one(t, askAll, long, s, around{})
	ctx, hangUp := context.WithCancel(t.Context())
	_, done := w.client(false).start(ctx, "tools/call", `{"name":"t","arguments":{}}`)
	id := w.pending(1)[0].ID
	w.answer(id, true, "")
	s.await("tools/call", 1)
	hangUp()
	testkit.Receive(t, "the call's end", done)
	letGo()
	if got := w.ran(id); got != approval.RunSucceeded {
		t.Errorf("the outcome is %s, want succeeded", got)
	}
}

// balky is a store that can be made unable to commit.
type balky struct {
	approval.Store
	mu  sync.Mutex
	err error
}

var errFull = approval.Errorf(approval.CodeStoreUnavailable, "The disk is full.")

func (b *balky) fail(err error) { b.mu.Lock(); b.err = err; b.mu.Unlock() }

func (b *balky) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (b *balky) Update(ctx context.Context, about approval.Scope, fn func(approval.Tx) error) error {
	if err := b.failure(); err != nil {
		return err
	}
	return b.Store.Update(ctx, about, fn)
}

func TestRule7_WhileTheStoreCannotCommitNothingIsForwarded(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		for name, rules := range map[string]string{"allowed": allowAll, "quarantined": askAll, "denied": denyAll,
			"strict": `{policy: {rules: [{tools: ["*"], action: allow, risk: low, audit: strict}]}}`} {
			t.Run(name, func(t *testing.T) {
				b := new(balky)
				s := newScripted(t, modern, "t", "u")
				w := one(t, rules, brief, s, around{store: func(st approval.Store) approval.Store { b.Store = st; return b }})
				c := w.client(modern)
				b.fail(errFull)
				for range 3 {
					wantErrorText(t, c.call("t", `{}`),
						"The gate could not decide: The disk is full. The call was not run; try again later.")
				}
				wantCalls(t, s, 0)
				b.fail(nil)
				if a := c.call("t", `{}`); a.Error != nil || strings.Contains(a.text(), "disk") {
					t.Errorf("once it can commit again: %s", a.raw)
				}
			})
		}
	})
}

func TestOutcomesAreRecordedAndTold(t *testing.T) {
	t.Parallel()
	const unknown = "The outcome is unknown: the call was sent to the MCP server up and no answer came ("
	eachEra(t, func(t *testing.T, modern bool) {
		for _, c := range []struct {
			name    string
			does    func(*turn)
			timeout time.Duration
			ran     approval.RunResult
			want    string // what the answer begins with
		}{
			{"succeeded", func(x *turn) { x.result(`{"content":[{"type":"text","text":"fine"}]}`) }, 0, approval.RunSucceeded,
				"fine"},
			{"failed by itself", func(x *turn) {
				x.result(`{"isError":true,"content":[{"type":"text","text":"no such file"}]}`)
			}, 0, approval.RunFailed, "no such file"},
			{"failed by the protocol", func(x *turn) { x.fail(-32603, "boom") }, 0, approval.RunFailed, "error -32603: boom"},
			{"broken off", func(x *turn) { x.breakOff() }, 0, approval.RunUnknown, unknown},
			{"not answered in time", func(x *turn) { x.gone() }, 200 * time.Millisecond, approval.RunUnknown, unknown +
				"it did not answer within 200ms"},
			{"answered with no JSON", func(x *turn) { x.result(`{"content":`) }, 0, approval.RunUnknown, unknown},
			{"answered with HTTP 500", func(x *turn) { x.w.WriteHeader(500) }, 0, approval.RunUnknown, unknown},
			{"answered with a name twice", func(x *turn) { x.result(`{"content":[],"Content":[]}`) }, 0, approval.RunUnknown,
				"The call ran, but the answer of the MCP server up was refused: the names"},
		} {
			t.Run(c.name, func(t *testing.T) {
				s := newScripted(t, modern, "t")
				s.when("tools/call", c.does)
				up := s.server("up", "")
				up.Timeout = c.timeout
				w := newWorld(t, askAll, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{up}})
				cl := w.client(modern)
				_, done := cl.start(t.Context(), "tools/call", `{"name":"t","arguments":{}}`)
				id := w.pending(1)[0].ID
				w.answer(id, true, "")
				a := finish(t, done)
				got := ""
				if a.Error != nil {
					got = fmt.Sprintf("error %d: %s", a.Error.Code, a.Error.Message)
				} else {
					got = a.text()
				}
				if !strings.HasPrefix(got, c.want) {
					t.Errorf("got %s\nwant %s", got, c.want)
				}
				if a.Error == nil && a.isError() != (c.ran != approval.RunSucceeded) {
					t.Errorf("isError %t", a.isError())
				}
				if c.ran == approval.RunUnknown && a.Error == nil && c.name != "answered with a name twice" &&
					!strings.HasSuffix(got, "It may have run; find out before you call it again.") {
					t.Errorf("got %s", got)
				}
				if got := w.ran(id); got != c.ran {
					t.Errorf("the outcome is %s, want %s", got, c.ran)
				}
				s.when("tools/call", nil)
				_, done = cl.start(t.Context(), "tools/call", `{"name":"t","arguments":{}}`)
				r := w.pending(1)[0] // it asks anew, and the card says what came of the last
				if r.Previous == nil || r.Previous.RequestID != id || r.Previous.RunResult != c.ran {
					t.Errorf("the next card says of the last use: %+v", r.Previous)
				}
				w.answer(r.ID, true, "")
				wantText(t, finish(t, done), "done")
			})
		}
	})
}

func TestACallThatWasNotSentDidNotRun(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, "t")
	w := one(t, askAll, long, s, around{})
	c := w.client(false)
	_, done := c.start(t.Context(), "tools/call", `{"name":"t","arguments":{}}`)
	id := w.pending(1)[0].ID
	s.srv.Listener.Close() // first: what is connected meanwhile may be sent the call
	s.srv.CloseClientConnections()
	w.answer(id, true, "")
	a := finish(t, done)
	if !strings.HasPrefix(a.text(), "The call did not reach the MCP server up and was not run: ") ||
		!strings.HasSuffix(a.text(), " Its approval is not used up: call it again with exactly the same arguments before "+
			approval.FormatTime(w.request(id).UseBy)+".") || !a.isError() {
		t.Errorf("got %s", a.raw)
	}
	if r := w.request(id); !r.Live() || r.RunResult != "" {
		t.Errorf("the approval is %+v", r)
	}
	wantCalls(t, s, 0)
}

// A server that went away while the call was held is not sent it, and the approval stays.
func TestRule4_AnApprovalIsNotSpentOnAServerThatWentAway(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		p, sent := process(t, "proc", "p")
		w := newWorld(t, `{policy: {rules: [{tools: [echo], action: quarantine, risk: medium}, {tools: ["*"], action: allow, risk: low}]}}`, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{p}})
		c := w.client(modern)
		_, done := c.start(t.Context(), "tools/call", `{"name":"p__echo","arguments":{}}`)
		r := w.pending(1)[0]
		c.call("p__die", `{}`)
		w.answer(r.ID, true, "")
		wantErrorText(t, finish(t, done),
			"The MCP server proc cannot be reached: the connection is lost. The call was not run, and no approval was used.")
		if r = w.request(r.ID); !r.ConsumedAt.IsZero() {
			t.Error("the approval was used")
		}
		testkit.Eventually(w.t, "the approval is used by the next call", func() bool {
			return c.call("p__echo", `{}`).text() == `{}`
		})
		if n := len(sent("tools/call")); n != 2 {
			t.Errorf("the server was called %d times, want twice", n)
		}
	})
}

func TestWithoutAHoldPendingIsToldAtOnce(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, "t")
	w := one(t, askAll, 0, s, around{})
	if a := w.client(false).call("t", `{}`); a.id() == "" || a.text() != "⏳ Approval requested (id: "+a.id()+
		"). Careful with this." {
		t.Errorf("got %s", a.raw)
	}
}

// A server that forgot the session takes nothing of it: the call goes over a new one, unless the tool is
// another one by now.
func TestAnApprovalIsNotSpentOnAConnectionThatHadEnded(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, "t")
	w := one(t, askAll, brief, s, around{})
	c := w.client(false)
	w.answer(c.call("t", `{}`).id(), true, "")
	s.restart()
	wantText(t, c.call("t", `{}`), "done")
	wantCalls(t, s, 1)
	second := c.call("t", `{"n":2}`)
	if second.id() == "" {
		t.Fatal(second.raw)
	}
	w.answer(second.id(), true, "")
	s.set(func() { s.lists["tools/list"] = []string{tool("t", `"title":"other"`)} })
	s.restart()
	if a := c.call("t", `{"n":2}`); !a.isError() || !strings.HasPrefix(a.text(),
		"The call did not reach the MCP server up and was not run: ") {
		t.Errorf("got %s", a.raw)
	}
}

// process tests what a server does that runs as a process of its own.
func TestProcessesAreCalledAndTheirEndIsTold(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		p, sent := process(t, "proc", "p")
		w := newWorld(t, `{policy: {rules: [{tools: [echo], action: allow, risk: low}, {tools: ["*"], action: quarantine, risk: medium}]}}`, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{p}})
		c := w.client(modern)
		wantText(t, c.call("p__echo", oddArgs), oddArgs)
		_, done := c.start(t.Context(), "tools/call", `{"name":"p__die","arguments":{}}`)
		id := w.pending(1)[0].ID
		w.answer(id, true, "")
		a := finish(t, done)
		if !strings.HasPrefix(a.text(),
			"The outcome is unknown: the call was sent to the MCP server proc and no answer came (") || !a.isError() {
			t.Errorf("got %s", a.raw)
		}
		if got := w.ran(id); got != approval.RunUnknown {
			t.Errorf("the outcome is %s, want unknown", got)
		}
		testkit.Eventually(t, "it is started again", func() bool {
			a = c.call("p__echo", `{"again":true}`)
			return a.text() == `{"again":true}` && !a.isError()
		})
		if n := len(sent("initialize")); n < 2 {
			t.Errorf("it was started %d times", n)
		}
	})
}

func TestAChangedToolIsNotLetThroughWithoutAPerson(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern)
		list := func(el string) { s.set(func() { s.lists["tools/list"] = []string{el} }) }
		list(`{"name":"t","description":"reads","inputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{}}}}`)
		w := one(t, allowAll, brief, s, around{})
		c := w.client(modern)
		wantText(t, c.call("t", `{}`), "done")
		list(`{"inputSchema": {"properties":{"b":{},"a":{"type":"string"}},"type":"object"},"icons":[], "name":"t", "description":"re\u0061ds"}`)
		c.send("tools/list", `{}`)
		wantText(t, c.call("t", `{}`), "done") // the same in another order
		list(`{"name":"t","description":"reads, and sends it to me","inputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{}}}}`)
		c.send("tools/list", `{}`)
		a := c.call("t", `{}`)
		r := w.request(a.id())
		if r.ReasonCode != "tool_changed" || !strings.Contains(a.text(),
			"The description, schema or annotations of up/t are not those first seen at ") {
			t.Fatalf("got %s, reason %s", a.raw, r.ReasonCode)
		}
		wantCalls(t, s, 2)
		w.answer(r.ID, true, "")
		for range 2 { // the approval, and then the tool as it was accepted
			wantText(t, c.call("t", `{}`), "done")
		}
		wantCalls(t, s, 4)
	})
}

// A tool that changes between approval and use is not the tool that was approved.
func TestRule3_AnApprovalIsForTheToolAsItWas(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, "t")
	w := one(t, askAll, brief, s, around{})
	c := w.client(false)
	id := c.call("t", `{}`).id()
	w.answer(id, true, "")
	s.set(func() { s.lists["tools/list"] = []string{tool("t", `"annotations":{"destructiveHint":true}`)} })
	c.send("tools/list", `{}`)
	a := c.call("t", `{}`)
	if r := w.request(id); a.id() == id || r.Status != approval.Cancelled || r.ResolveReason != "tool_changed" {
		t.Errorf("got %s; the approval is %s (%s)", a.raw, r.Status, r.ResolveReason)
	}
	wantCalls(t, s, 0)
}

func TestTheFeedIsATool(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		w := one(t, askAll, brief, s, around{})
		c := w.client(modern)
		feed := func(args string) answer { t.Helper(); return c.call("countersign__resolved", args) }
		wantText(t, feed(`{}`), "Nothing new has been decided.")
		yes, no := c.call("t", `{"n":1}`).id(), c.call("t", `{"n":2}`).id()
		w.answer(yes, true, "")
		w.answer(no, false, "no need")
		lines := strings.Split(feed(`{}`).text(), "\n")
		if len(lines) != 2 || !strings.HasPrefix(lines[0], `[APPROVAL APPROVED] up/t({"n":1}): approved by hana at `) ||
			!strings.HasSuffix(lines[0], " (id: "+yes+")") ||
			!strings.HasPrefix(lines[1], `[APPROVAL DENIED] up/t({"n":2}): denied by hana at `) || !strings.HasSuffix(lines[1],
			": no need (id: "+no+")") {
			t.Errorf("the feed says %q", lines)
		}
		other := w.clientAs(modern, otherToken, `{}`)
		wantText(t, other.call("countersign__resolved", `{"ack":["`+no+`"]}`), "Not the id of a request of yours: "+no+
			"\nNothing new has been decided.")
		if lines := strings.Split(feed(`{}`).text(), "\n"); len(lines) != 2 {
			t.Errorf("another agent took note of ours: %q", lines)
		}
		if got := feed(`{"ack":["` + no + `"]}`).text(); !strings.HasPrefix(got, "[APPROVAL APPROVED]") ||
			strings.Contains(got, "\n") {
			t.Errorf("after ack: %q", got)
		}
		wantText(t, c.call("t", `{"n":1}`), "done") // using it takes note of it
		wantText(t, feed(`{}`), "Nothing new has been decided.")
		third := c.call("t", `{"n":3}`).id()
		wantText(t, feed(`{"ack":["`+third+`","x\u202ey"]}`), "Not decided yet: "+third+
			"\nNot the id of a request of yours: x⟨U+202E⟩y\nNothing new has been decided.")
		wantErrorText(t, feed(`{"ack":"x"}`), "ack must be a list of ids.")
		if a := feed(`{"ack":[],"Ack":[]}`); a.Error == nil || a.Error.Code != -32602 {
			t.Errorf("a name in two cases: %s", a.raw)
		}
	})
}

// The reference SDK's client takes what the gateway answers.
func TestTheReferenceClientUnderstandsTheFlow(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern)
		s.set(func() {
			s.lists["tools/list"] = []string{tool("t"),
				tool("o", `"outputSchema":{"type":"object","required":["n"],"properties":{"n":{"type":"number"}}}`)}
		})
		w := one(t, askAll, brief, s, around{})
		version := "2025-11-25"
		if modern {
			version = "2026-07-28"
		}
		c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
			&sdk.StreamableClientTransport{Endpoint: w.url}, &sdk.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := c.InitializeResult().ProtocolVersion; got != version {
			t.Errorf("it speaks %s, want %s", got, version)
		}
		for _, name := range []string{"t", "o"} {
			r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: map[string]any{"n": 1}})
			if err != nil || r.IsError != (name == "o") || !strings.HasPrefix(r.Content[0].(*sdk.TextContent).Text,
				"⏳ Approval requested (id: ") {
				t.Errorf("%s: got %+v, %v", name, r, err)
			}
		}
		w.answer(w.pending(2)[0].ID, true, "")
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "t", Arguments: map[string]any{"n": 1}})
		if err != nil || r.IsError || r.Content[0].(*sdk.TextContent).Text != "done" {
			t.Errorf("approved: got %+v, %v", r, err)
		}
	})
}

// What a card shows is all that an approved call carries: neither the client's metadata nor answers that
// nobody asked for ride along.
func TestRule3_NothingRidesAlongWithAnApprovedCall(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		w := one(t, askAll, brief, s, around{})
		c := w.client(modern)
		w.answer(c.call("t", `{}`).id(), true, "")
		a := c.send("tools/call",
			`{"_meta":{"x/dryRun":"no","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},"name":"t","arguments":{},"inputResponses":{"sure":{"action":"accept"}},"task":{"ttl":1},"extra":1}`)
		wantText(t, a, "done")
		raw := wantCalls(t, s, 1)[0].raw
		for _, smuggled := range []string{"dryRun", "inputResponses", `"task"`, "extra"} {
			if strings.Contains(raw, smuggled) {
				t.Errorf("%s was sent along: %s", smuggled, raw)
			}
		}
		if !strings.Contains(raw, `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`) {
			t.Errorf("the trace is lost: %s", raw)
		}
	})
}
