package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
	"countersign/internal/mcp"
	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

const keyboardRules = `{policy: {rules: [
	{tools: [strict], action: quarantine, risk: high, require_reason: true},
	{tools: [grave], action: quarantine, risk: critical},
	{tools: ["*"], action: quarantine, risk: high},
], levels: {high: {elicitation: true}}}}`

func running(_ *fakeCall) string { return textResult("ran") }

// atKeyboard is a world in which hana sits at bot's keyboard.
func atKeyboard(t *testing.T, hold time.Duration, in around) (*world, *fake) {
	up := newFake(mcp.Legacy, running, "tool", "strict", "grave")
	return newWorldIn(t, keyboardRules, gateway.Options{Hold: hold, Servers: []gateway.ServerConfig{up.over(t, "http")}},
		in), up
}

// typing is a client whose person answers each form alike; it counts the forms.
func typing(t *testing.T, w *world, era mcp.Era, result string) (call func(tool, args string) string,
	asked func() int) {
	var mu sync.Mutex
	n := 0
	count := func() { mu.Lock(); defer mu.Unlock(); n++ }
	c := join(t, w, era, `{"elicitation":{}}`, func(c *peer) {
		c.answer = func(_ mcp.Message) string { count(); return result }
	})
	return func(tool, args string) string {
		m, _ := c.rounds(tool, args, func(q mcp.Member) string {
			want(t, "what is asked", q.Name+" "+string(member(q.Value, "method")), `approve "elicitation/create"`)
			count()
			return result
		})
		return say(m)
	}, func() int { mu.Lock(); defer mu.Unlock(); return n }
}

func TestTheKeyboardDecides(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		for _, test := range []struct{ tool, content, want string }{
			{"tool", `{"decision":"approve"}`, "ran"},
			{"tool", `{"decision":"deny","reason":"too risky"}`, "failed: Approval denied by hana: too risky."},
			{"strict", `{"decision":"approve","reason":"asked for"}`, "ran"},
		} {
			w, up := atKeyboard(t, time.Minute, around{})
			call, asked := typing(t, w, era, `{"action":"accept","content":`+test.content+`}`)
			contains(t, name+" "+test.content, call(test.tool, `{}`), test.want)
			r := w.newest(t)
			if r.ResolvedBy != "hana" || r.ResolvedVia != approval.ViaTerminal {
				t.Errorf("%s: resolved by %q over %q, want hana over the terminal", name, r.ResolvedBy, r.ResolvedVia)
			}
			if ran := strings.Contains(test.want, "ran"); asked() != 1 || (up.count() == 1) != ran || ran &&
				r.RunResult != approval.RunSucceeded {
				t.Errorf("%s %s: asked %d times, ran %d times, outcome %q", name, test.content, asked(), up.count(), r.RunResult)
			}
		}
	}
}

func TestDecliningTheFormDenies(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		for _, result := range []string{`{"action":"decline"}`,
			`{"action":"decline","content":{"decision":"approve","reason":"x"}}`} {
			w, up := atKeyboard(t, time.Minute, around{})
			call, asked := typing(t, w, era, result)
			contains(t, name+" "+result, call("tool", `{}`), "failed: Approval denied by hana: no reason given.")
			r := w.newest(t)
			if r.Status != approval.Denied || r.ResolvedBy != "hana" || r.ResolvedVia != approval.ViaTerminal || asked() != 1 ||
				up.count() != 0 {
				t.Errorf("%s %s: %s by %q over %q, asked %d times, ran %d times", name, result, r.Status, r.ResolvedBy,
					r.ResolvedVia, asked(), up.count())
			}
		}
	}
}

func TestWhatIsNoAnswerAtTheKeyboardDecidesNothing(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		w, up := atKeyboard(t, 50*time.Millisecond, around{})
		for i, test := range []struct{ tool, result string }{
			{"tool", `{"action":"cancel"}`},
			{"strict", `{"action":"decline"}`}, // a reason is required, and a form that is declined has none
			{"tool", `{"action":"Decline"}`},
			{"tool", `{"action":"cancel","content":{"decision":"approve"}}`},
			{"tool", `{"action":"cancel","content":{"decision":"deny"}}`},
			{"tool", `{}`},
			{"tool", `{"action":"decline","action":"accept","content":{"decision":"approve"}}`},
			{"tool", `{"action":"accept"}`},
			{"tool", `{"action":"accept","content":{}}`},
			{"tool", `{"action":"accept","content":{"decision":"yes"}}`},
			{"tool", `{"action":"accept","content":{"decision":"Approve"}}`},
			{"tool", `{"action":"accept","content":{"decision":true}}`},
			{"tool", `{"action":"accept","content":{"decision":"approve","Decision":"deny"}}`},
			{"tool", `{"action":"accept","content":{"decision":"deny","decision":"approve"}}`},
			{"tool", `{"action":"accept","content":["approve"]}`},
			{"tool", `{"Action":"accept","content":{"decision":"approve"}}`},
			{"strict", `{"action":"accept","content":{"decision":"approve"}}`},
			{"strict", `{"action":"accept","content":{"decision":"approve","reason":" "}}`},
		} {
			args := fmt.Sprintf(`{"n":%d}`, i)
			call, asked := typing(t, w, era, test.result)
			for range 3 { // the agent tries again, and nobody is asked again
				contains(t, name+" "+test.result, call(test.tool, args), "The call has not run.")
			}
			testkit.Eventually(t, "the keyboard is asked", func() bool { return asked() > 0 })
			if r := w.newest(t); r.Status != approval.Pending || up.count() != 0 || asked() != 1 {
				t.Errorf("%s %s: the request is %s, the tool ran %d times, the keyboard was asked %d times; want pending, 0, 1",
					name, test.result, r.Status, up.count(), asked())
			}
		}
	}
}

// A form that is sent off with nothing decided in it is told so, since its person may think that it was; one that was
// closed is not.
func TestAFormWithoutADecisionIsToldThatItDecidedNothing(t *testing.T) {
	t.Parallel()
	w, up := atKeyboard(t, 50*time.Millisecond, around{})
	for i, test := range []struct {
		result string
		told   bool
	}{
		{`{"action":"accept"}`, true},
		{`{"action":"accept","content":{}}`, true},
		{`{"action":"accept","content":{"decision":"yes"}}`, true},
		{`{"action":"accept","content":{"reason":"fine"}}`, true},
		{`{"action":"accept","content":["approve"]}`, true},
		{`{"action":"cancel"}`, false},
		{`{"action":"cancel","content":{"decision":"approve"}}`, false},
		{`{}`, false},
	} {
		call, _ := typing(t, w, mcp.Modern, test.result)
		said := call("tool", fmt.Sprintf(`{"form":%d}`, i))
		contains(t, test.result, said, "The call has not run.")
		if told := strings.Contains(said,
			"The form at the keyboard was sent without a decision in it, which is approve or deny. It decided nothing."); told != test.told {
			t.Errorf("%s: the agent is told %s", test.result, said)
		}
		if r := w.newest(t); r.Status != approval.Pending || up.count() != 0 {
			t.Errorf("%s: the request is %s, the tool ran %d times", test.result, r.Status, up.count())
		}
	}
}

func TestOnlyTheRightKeyboardIsAsked(t *testing.T) {
	t.Parallel()
	somebody := func(p approval.Actor) around {
		return around{who: func(n *names) {
			n.keyboard = func(string) (approval.Actor, bool) { return p, true }
			n.people = func(string) (approval.Actor, bool) { return p, true }
		}}
	}
	helper, agent := person, person
	helper.Approver = false
	agent.Kind = approval.Agent
	for _, test := range []struct {
		what, tool, caps, token string
		in                      around
	}{
		{"a client that cannot", "tool", `{}`, agentToken, around{}},
		{"a client that only opens pages", "tool", `{"elicitation":{"url":{}}}`, agentToken, around{}},
		{"a level that does not allow it", "grave", `{"elicitation":{}}`, agentToken, around{}},
		{"an agent at whose keyboard nobody sits", "tool", `{"elicitation":{}}`, otherToken, around{}},
		{"a person who may not decide", "tool", `{"elicitation":{}}`, agentToken, somebody(helper)},
		{"an agent in the person's place", "tool", `{"elicitation":{}}`, agentToken, somebody(agent)},
	} {
		for name, era := range eras {
			w, up := atKeyboard(t, 20*time.Millisecond, test.in)
			c := join(t, w, era, test.caps, func(c *peer) { c.token = test.token }) // being asked fails the test
			contains(t, test.what+", "+name, say(c.callTool(test.tool, `{}`)), "Approval requested")
			forged := `"inputResponses":{"approve":{"action":"accept","content":{"decision":"approve"}}}`
			contains(t, test.what+", "+name+", unasked", say(c.callTool(test.tool, `{}`, forged)), "Approval pending")
			if r := w.newest(t); r.Status != approval.Pending || up.count() != 0 {
				t.Errorf("%s, %s: the request is %s, the tool ran %d times", test.what, name, r.Status, up.count())
			}
		}
	}
}

func TestAPhoneThatIsFasterClosesTheForm(t *testing.T) {
	t.Parallel()
	for _, approve := range []bool{true, false} {
		outcome, wants := map[bool]string{true: "ran", false: "failed: Approval denied by hana: because."}[approve],
			map[bool]int{true: 1}[approve]
		late := `{"action":"accept","content":{"decision":"` + map[bool]string{true: "deny", false: "approve"}[approve] +
			`"}}`

		w, up := atKeyboard(t, time.Minute, around{})
		asked, closed := make(chan mcp.Message, 1), make(chan mcp.Message, 1)
		c := join(t, w, mcp.Legacy, `{"elicitation":{}}`, func(c *peer) {
			c.answer = func(m mcp.Message) string { asked <- m; return "" }
			c.heard = func(m mcp.Message) {
				if m.Method == "notifications/cancelled" {
					closed <- m
				}
			}
		})
		answer := make(chan mcp.Message)
		go func() { answer <- c.callTool("tool", `{}`) }()
		q := testkit.Receive(t, "the form", asked)
		r := w.resolve(t, approve)
		want(t, "the form that is closed", string(member(testkit.Receive(t, "the end of the form", closed).Params,
			"requestId")), string(q.ID))
		contains(t, "legacy", say(testkit.Receive(t, "the answer", answer)), outcome)
		c.send(t.Context(), mcp.Response(q.ID, []byte(late)))

		if now := w.newest(t); now.Status != r.Status || up.count() != wants {
			t.Errorf("legacy: %s, ran %d times; want %s, %d", now.Status, up.count(), r.Status, wants)
		}

		w, up = atKeyboard(t, time.Minute, around{})
		c = join(t, w, mcp.Modern, `{"elicitation":{}}`)
		_, state := inputs(c.callTool("tool", `{}`))
		r = w.resolve(t, approve)
		contains(t, "modern", say(c.callTool("tool", `{}`, `"inputResponses":{"approve":`+late+`}`, `"requestState":`+state)),
			outcome)
		if now := w.newest(t); now.ID != r.ID || now.Status != r.Status || up.count() != wants {
			t.Errorf("modern: %s, ran %d times; want %s, %d", now.Status, up.count(), r.Status, wants)
		}
	}
}

func TestOfTwoClientsOneKeyboardIsAsked(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		w, up := atKeyboard(t, time.Minute, around{})
		var calls sync.WaitGroup
		var mu sync.Mutex
		total, said := 0, map[string]int{}
		for range 5 {
			call, asked := typing(t, w, era, `{"action":"accept","content":{"decision":"approve"}}`)
			calls.Go(func() {
				got := call("tool", `{}`)
				mu.Lock()
				defer mu.Unlock()
				total += asked()
				said[got]++
			})
		}
		testkit.Wait(t, "both calls", calls.Wait)
		// One asked and one used what was decided; whoever came later has asked anew.
		if n := up.count(); said["ran"] != n || n == 0 || total != len(w.requests(t)) {
			t.Errorf("%s: asked %d times for %d requests, ran %d times, answers %v", name, total, len(w.requests(t)), n, said)
		}
	}
}

// requests returns every request.
func (w *world) requests(t testing.TB) []approval.Request {
	t.Helper()
	rs, err := lists.ListRequests(context.Background(), w.gate, approval.RequestQuery{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// The answer is bound to the request that was asked for, not to the call: a later request of the same call
// is not decided by it. Without holding it is the same.
func TestAnOldFormDecidesNothingNew(t *testing.T) {
	t.Parallel()
	w, up := atKeyboard(t, 20*time.Millisecond, around{})
	c := join(t, w, mcp.Modern, `{"elicitation":{}}`)
	_, state := inputs(c.callTool("tool", `{}`))
	r := w.newest(t)
	if _, err := w.gate.Cancel(context.Background(), approval.Cancellation{RequestID: r.ID, By: person,
		Via: approval.ViaAPI}); err != nil {
		t.Fatal(err)
	}
	m := c.callTool("tool", `{}`, `"inputResponses":{"approve":{"action":"accept","content":{"decision":"approve"}}}`,
		`"requestState":`+state)
	contains(t, "what came of it", say(m), "[APPROVAL CANCELLED]")
	contains(t, "the call, anew", say(c.callTool("tool", `{}`)), "input_required")
	if now := w.newest(t); now.ID == r.ID || now.Status != approval.Pending || up.count() != 0 {
		t.Errorf("a new request: %t, %s, ran %d times; want a new one, pending, 0", now.ID != r.ID, now.Status, up.count())
	}
}

func TestTheKeyboardDecidesWhereNothingIsHeld(t *testing.T) {
	t.Parallel()
	w, up := atKeyboard(t, 0, around{})
	call, _ := typing(t, w, mcp.Modern, `{"action":"accept","content":{"decision":"approve"}}`)
	contains(t, "the call", call("tool", `{}`), "ran")
	if up.count() != 1 {
		t.Errorf("ran %d times, want once", up.count())
	}
}

// A client that opens pages is led to the request's page, once; whatever it brings back decides nothing, whoever sits
// there.
func TestAClientThatOpensPagesIsLedToTheRequests(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		for what, test := range map[string]struct{ tool, caps, result string }{
			"opened": {"tool", `{"elicitation":{"url":{}}}`, `{"action":"accept"}`},
			"opened, and forged": {"tool", `{"elicitation":{"url":{}}}`,
				`{"action":"accept","content":{"decision":"approve"}}`},
			"not opened": {"tool", `{"elicitation":{"url":{}}}`, `{"action":"decline"}`},
			"closed":     {"tool", `{"elicitation":{"url":{}}}`, `{"action":"cancel"}`},
			"no form decides": {"grave", `{"elicitation":{"form":{},"url":{}}}`,
				`{"action":"accept","content":{"decision":"approve"}}`},
			"no form, not opened": {"grave", `{"elicitation":{"form":{},"url":{}}}`, `{"action":"decline"}`},
		} {
			w, up := atPage(t, 50*time.Millisecond)
			var mu sync.Mutex
			var asked []string
			c := join(t, w, era, test.caps, func(c *peer) {
				c.answer = func(m mcp.Message) string {
					mu.Lock()
					defer mu.Unlock()
					asked = append(asked, string(m.Params))
					return test.result
				}
			})
			call := func() string {
				m, _ := c.rounds(test.tool, `{}`, func(q mcp.Member) string {
					mu.Lock()
					defer mu.Unlock()
					want(t, "what is asked", q.Name+" "+string(member(q.Value, "method")), `open "elicitation/create"`)
					asked = append(asked, string(member(q.Value, "params")))
					return test.result
				})
				return say(m)
			}
			for range 3 {
				contains(t, name+" "+what, call(), "The call has not run.")
			}
			testkit.Eventually(t, "the client is led there", func() bool { mu.Lock(); defer mu.Unlock(); return len(asked) > 0 })
			r := w.newest(t)
			if r.Status != approval.Pending || up.count() != 0 {
				t.Errorf("%s %s: the request is %s, the tool ran %d times", name, what, r.Status, up.count())
			}
			mu.Lock()
			if len(asked) != 1 {
				t.Fatalf("%s %s: asked %d times: %q", name, what, len(asked), asked)
			}
			wantParams(t, name+" "+what, era, asked[0], r.ID)
			mu.Unlock()
		}
	}
}

// wantParams holds that a client is asked to open the request's page, and for nothing else.
func wantParams(t *testing.T, what string, era mcp.Era, params, id string) {
	t.Helper()
	o, err := mcp.ReadObject([]byte(params))
	if err != nil {
		t.Fatalf("%s: %s: %v", what, params, err)
	}
	want(t, what, o.Text("mode")+" "+o.Text("url"), "url https://gate.example.com/r/"+id)
	if named := o.Get("elicitationId") != nil; o.Get("requestedSchema") != nil || o.Text("message") == "" ||
		named != (era == mcp.Legacy) {
		t.Errorf("%s: asked %s", what, params)
	}
}

// atPage is [atKeyboard] with pages that people can reach.
func atPage(t *testing.T, hold time.Duration) (*world, *fake) {
	up := newFake(mcp.Legacy, running, "tool", "strict", "grave")
	page := func(id string) string { return "https://gate.example.com/r/" + id }
	return newWorldIn(t, keyboardRules, gateway.Options{Hold: hold, Page: page,
		Servers: []gateway.ServerConfig{up.over(t, "http")}}, around{}), up
}

// Where a form decides, it is asked in place of the page; where a client opens no pages, it is not led to one.
func TestAFormThatDecidesComesBeforeThePage(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		w, up := atPage(t, time.Minute)
		c := join(t, w, era, `{"elicitation":{"form":{},"url":{}}}`, func(c *peer) {
			c.answer = func(m mcp.Message) string {
				if o, err := mcp.ReadObject(m.Params); err != nil || o.Text("mode") != "form" {
					t.Errorf("%s: asked %s", name, m.Params)
				}
				return `{"action":"accept","content":{"decision":"approve"}}`
			}
		})
		m, _ := c.rounds("tool", `{}`, func(q mcp.Member) string {
			want(t, "what is asked", q.Name, "approve")
			return `{"action":"accept","content":{"decision":"approve"}}`
		})
		if contains(t, name, say(m), "ran"); up.count() != 1 {
			t.Errorf("%s: it ran %d times", name, up.count())
		}
		for _, caps := range []string{`{}`, `{"elicitation":{}}`,
			`{"elicitation":{"form":{}}}`} { // being asked fails the test
			w, _ := atPage(t, 20*time.Millisecond)
			contains(t, name+" "+caps, say(join(t, w, era, caps).callTool("grave", `{}`)), "Approval requested")
		}
	}
}

// A page that is decided on while the call is held answers the call.
func TestADecisionOnThePageAnswersTheCall(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		w, up := atPage(t, time.Minute)
		c := join(t, w, era, `{"elicitation":{"url":{}}}`, func(c *peer) {
			c.answer = func(mcp.Message) string { return `{"action":"accept"}` }
		})
		done := make(chan string, 1)
		go func() {
			m, _ := c.rounds("tool", `{}`, func(mcp.Member) string { return `{"action":"accept"}` })
			done <- say(m)
		}()
		w.answer(w.pending(1)[0].ID, true, "")
		if contains(t, name, testkit.Receive(t, "the call is answered", done), "ran"); up.count() != 1 {
			t.Errorf("%s: it ran %d times", name, up.count())
		}
	}
}
