package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/internal/mcp"
	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

const (
	twoRules = `{policy: {rules: [{tools: ["*"], action: quarantine, risk: high, approvals: [{group: finance, count: 2}]}],
		levels: {high: {elicitation: true}}}}`
	less = `{"cents":9007199254740993}`
	more = `{"cents":9007199254740995}`
)

// council is who decides where two are needed. Each can be removed.
type council struct {
	mu   sync.Mutex
	gone map[string]bool
}

func (c *council) person(name string) (approval.Actor, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	who := approval.Actor{Kind: approval.Human, Name: name, Approver: true, Admin: name == "hana",
		Groups: []string{"finance"}}
	return who, (name == "hana" || name == "ken") && !c.gone[name]
}

func (c *council) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = map[string]bool{name: true}
}

// around is a world where the council decides, and hana sits at bot's keyboard.
func (c *council) around(in around) around {
	in.who = func(n *names) {
		n.people = c.person
		n.keyboard = func(string) (approval.Actor, bool) { return c.person("hana") }
	}
	return in
}

// votes has somebody approve a request.
func (w *world) votes(id, name string) {
	w.t.Helper()
	if _, err := w.gate.Decide(context.Background(), approval.Decision{RequestID: id, Approve: true, By: approval.Actor{
		Kind: approval.Human, Name: name, Approver: true, Groups: []string{"finance"}}, Via: approval.ViaAPI}); err != nil {
		w.t.Fatal(err)
	}
}

// edit approves other arguments than those of the request that is pending.
func (w *world) edit(raw string) approval.Request {
	w.t.Helper()
	id := w.pending(1)[0].ID
	a, err := args.Parse([]byte(raw))
	if err != nil {
		w.t.Fatal(err)
	}
	by := person
	by.Groups = []string{"finance"}
	r, err := w.gate.Decide(context.Background(), approval.Decision{RequestID: id, Approve: true, By: by,
		Via: approval.ViaAPI, Args: &a, Reason: "too much."})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// noted is the text that is put before a result.
func noted(who string) string {
	return who + " changed the arguments and approved these: " + less + ". Reason: too much."
}

func TestWhatWasEditedIsWhatRunsAndTheModelIsTold(t *testing.T) {
	t.Parallel()
	block := `{"type":"text","text":` + string(mcp.Quote(noted("hana"))) + `}`
	for name, down := range eras {
		for _, test := range []struct{ result, want string }{
			{`{"content":[{"type":"text","text":"done"}]}`, `{"content":[` + block + `,{"type":"text","text":"done"}]}`},
			{`{"structuredContent":{"n":1.0},"content":[ {"type":"text","text":"]"} ],"isError":true}`,
				`{"structuredContent":{"n":1.0},"content":[` + block + `,{"type":"text","text":"]"}],"isError":true}`},
			{`{"content":[]}`, `{"content":[` + block + `]}`},
		} {
			up := newFake(mcp.Legacy, func(*fakeCall) string { return test.result }, "tool")
			w := newWorld(t, askAll, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{up.over(t, "http")}})
			c := join(t, w, down, `{}`)
			answer := make(chan mcp.Message)
			go func() { answer <- c.callTool("tool", more) }()
			next := w.edit(less)
			got, wanted := string(testkit.Receive(t, "the answer", answer).Result), test.want
			if down == mcp.Modern {
				wanted = `{"resultType":"complete",` + wanted[1:]
			}
			want(t, name, got, wanted)
			want(t, name+", sent", string(up.nth(0).Get("arguments")), less)
			if ran := w.ran(next.ID); (ran == approval.RunFailed) != strings.Contains(test.result, "isError") {
				t.Errorf("%s: the outcome on record is %s", name, ran)
			}
			contains(t, name+", once more", func() string {
				go func() { answer <- c.callTool("tool", more) }()
				w.answer(w.pending(1)[0].ID, false, "enough")
				return say(testkit.Receive(t, "the answer", answer))
			}(), "failed: Approval denied by hana: enough.")
		}
	}
}

func TestAnErrorOfTheServerStaysAsItIsAfterAnEdit(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Modern, func(*fakeCall) string { return "error -32000" }, "tool")
	w := newWorld(t, askAll, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{up.over(t, "http")}})
	c := join(t, w, mcp.Modern, `{}`)
	answer := make(chan mcp.Message)
	go func() { answer <- c.callTool("tool", more) }()
	w.edit(less)
	want(t, "the answer", say(testkit.Receive(t, "the answer", answer)), "error -32000: no")
}

func TestAnEditThatCameAfterTheHoldRunsWithTheIdenticalCall(t *testing.T) {
	t.Parallel()
	for name, down := range eras {
		up := newFake(mcp.Legacy, running, "tool")
		w := newWorld(t, askAll, gateway.Options{Hold: brief, Servers: []gateway.ServerConfig{up.over(t, "http")}})
		c := join(t, w, down, `{}`)
		contains(t, name, say(c.callTool("tool", more)), "Approval requested")
		w.edit(less)
		want(t, name, say(c.callTool("tool", more)), noted("hana")+"\nran")
		want(t, name+", sent", string(up.nth(0).Get("arguments")), less)
		contains(t, name+", once more", say(c.callTool("tool", more)), "Approval requested")
		if up.count() != 1 {
			t.Errorf("%s: ran %d times", name, up.count())
		}
	}
}

// Who waits for a call goes on waiting for the request that takes its place.
func TestAnEditThatOthersMustJoinIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, down := range eras {
		up := newFake(mcp.Legacy, running, "tool")
		w := newWorldIn(t, twoRules, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{up.over(t, "http")}},
			(&council{}).around(around{}))
		c := join(t, w, down, `{}`)
		answer := make(chan mcp.Message, 1)
		go func() { answer <- c.callTool("tool", more) }()
		next := w.edit(less)
		if next.Status != approval.Pending || up.count() != 0 {
			t.Fatalf("%s: it is %s after one vote, and ran %d times", name, next.Status, up.count())
		}
		w.votes(next.ID, "ken")
		want(t, name, say(testkit.Receive(t, "the answer", answer)),
			noted("hana and ken")[:len(noted("hana and ken"))-len(" Reason: too much.")]+"\nran")
		want(t, name+", sent", string(up.nth(0).Get("arguments")), less)
	}
}

// What continues a call continues it with the arguments that were approved.
func TestACallThatWasEditedIsContinuedAsItWasApproved(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Modern, requiring, "in")
	w := newWorld(t, askAll, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{up.over(t, "http")}})
	c := join(t, w, mcp.Modern, `{"elicitation":{}}`)
	answer := make(chan mcp.Message)
	go func() { answer <- c.callTool("in", `{"rounds":5}`) }()
	next := w.edit(`{"rounds":1}`)
	asks := testkit.Receive(t, "the answer", answer)
	wanted, state := inputs(asks)
	if len(wanted) != 1 || strings.Contains(string(asks.Result), "changed the arguments") {
		t.Fatalf("got %s", asks.Result)
	}
	m := c.callTool("in", `{"rounds":5}`, `"inputResponses":{"a":{"action":"decline"}}`, `"requestState":`+state)
	want(t, "the end", say(m), `hana changed the arguments and approved these: {"rounds":1}. Reason: too much.`+"\n"+
		`round 1 {"a":{"action":"decline"}}`)
	want(t, "sent", string(up.nth(1).Get("arguments")), `{"rounds":1}`)
	if ran := w.ran(next.ID); ran != approval.RunSucceeded {
		t.Errorf("the outcome is %s", ran)
	}
}

// A result of another method has no place for what must be said: its caller is told to ask for what was approved.
func TestOtherMethodsAreToldWhatWasApprovedInstead(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, running, "tool")
	up.caps = `{"tools":{},"resources":{}}`
	w := newWorld(t, `{policy: {rules: [{method: resources/read, action: quarantine, risk: high}]}}`,
		gateway.Options{Hold: long, Servers: []gateway.ServerConfig{up.over(t, "http")}})
	c := join(t, w, mcp.Legacy, `{}`)
	answer := make(chan mcp.Message)
	go func() { answer <- c.do(t.Context(), "resources/read", `{"uri":"test://a"}`) }()
	w.edit(`{"uri":"test://b"}`)
	contains(t, "the answer", say(testkit.Receive(t, "the answer", answer)),
		`Not as asked. hana approved these arguments instead: {"uri":"test://b"}. Call again with exactly them.`)
	if up.got("resources/read") != 0 {
		t.Error("it was read")
	}
}

func TestATaskFollowsAnEdit(t *testing.T) {
	t.Parallel()
	w, up := taskWorld(t, mcp.Legacy, running, around{})
	c := join(t, w, mcp.Modern, withTasks)
	id := c.begin("tool", more)
	w.edit(less)
	want(t, "the task", c.becomes(id, "completed"), "completed: "+noted("hana")+"\nran")
	want(t, "sent", string(up.nth(0).Get("arguments")), less)
}

func TestATaskWhoseEditWaitsForOthersIsOneTask(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, running, "tool")
	o := gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}}
	w := newWorldIn(t, twoRules, o, (&council{}).around(around{}))
	c := join(t, w, mcp.Modern, withTasks)
	id, cancelled := c.begin("tool", more), ""
	next := w.edit(less)
	want(t, "the identical call", c.begin("tool", more), id)
	want(t, "meanwhile", c.status(id), "working")
	w.restart(t, o)
	c = join(t, w, mcp.Modern, withTasks)
	want(t, "after a restart", c.status(id), "working")
	w.votes(next.ID, "ken")
	contains(t, "the task", c.becomes(id, "completed"), "hana and ken changed the arguments")
	want(t, "sent", string(up.nth(0).Get("arguments")), less)
	if up.count() != 1 {
		t.Errorf("ran %d times", up.count())
	}

	cancelled = c.begin("tool", `{"other":1}`)
	next = w.edit(`{"other":2}`)
	c.task("tasks/cancel", cancelled)
	want(t, "cancelled", c.becomes(cancelled, "cancelled"), "cancelled")
	if r := w.request(next.ID); r.Status != approval.Cancelled {
		t.Errorf("what it waited for is %s", r.Status)
	}
}

// freeze freezes bot.
func (w *world) freeze() {
	w.t.Helper()
	if _, err := w.gate.Freeze(context.Background(), "bot", person, approval.ViaAPI, "odd calls"); err != nil {
		w.t.Fatal(err)
	}
}

const frozen = "Frozen by hana: odd calls. Nothing runs until a person lifts it; do not retry."

func TestAFreezeIsToldAsItIsAndEndsWhatIsHeld(t *testing.T) {
	t.Parallel()
	for rules, policy := range map[string]string{"asks": askAll, "allows": allowAll,
		"observes": `{policy: {mode: observe, rules: [{tools: ["*"], action: deny, risk: high}]}}`} {
		for name, down := range eras {
			up := newFake(mcp.Legacy, running, "tool")
			w := newWorld(t, policy, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{up.over(t, "http")}})
			c, other := join(t, w, down, `{}`), join(t, w, down, `{}`, as(otherToken))
			answer := make(chan mcp.Message)
			ran := 0
			if rules == "asks" {
				go func() { answer <- c.callTool("tool", `{}`) }()
				w.pending(1)
			} else {
				want(t, name, say(c.callTool("tool", `{}`)), "ran")
				ran++
			}
			w.freeze()
			if rules == "asks" {
				got := say(testkit.Receive(t, "the answer", answer))
				contains(t, name+", held", got, "[APPROVAL CANCELLED]")
				contains(t, name+", held", got, "Do not retry.\nThe call was not run.")
			}
			want(t, rules+", "+name, say(c.callTool("tool", `{}`)), "failed: "+frozen)
			if rules == "allows" {
				want(t, name+", another agent", say(other.callTool("tool", `{}`)), "ran")
				ran++
			}
			if up.count() != ran {
				t.Errorf("%s, %s: ran %d times, want %d", rules, name, up.count(), ran)
			}
		}
	}
}

func TestAFreezeEndsATaskAsFailed(t *testing.T) {
	t.Parallel()
	w, up := taskWorld(t, mcp.Legacy, running, around{})
	o := gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}}
	c := join(t, w, mcp.Modern, withTasks)
	id := c.begin("tool", `{}`)
	w.freeze()
	want(t, "the task", c.becomes(id, "failed"), fmt.Sprintf("failed: error %d", mcp.CodeDenied))
	e := mcp.ReadError(member(c.task("tasks/get", id).Result, "error"))
	contains(t, "the task's error", e.Message, "Do not retry.")
	want(t, "another", say(c.callTool("tool", `{"n":2}`)), "failed: "+frozen)
	w.restart(t, o)
	c = join(t, w, mcp.Modern, withTasks)
	want(t, "after a restart", c.status(id), fmt.Sprintf("failed: error %d", mcp.CodeDenied))
}

// What a call was let through for does not go on while its agent is frozen: its server is given nothing more.
func TestAFreezeEndsWhatIsContinued(t *testing.T) {
	t.Parallel()
	const accepts = `{"action":"accept","content":{"text":"me"}}`
	up := newFake(mcp.Modern, requiring, "in")
	w := newWorld(t, askAll, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{up.over(t, "http")}})
	c := join(t, w, mcp.Modern, `{"elicitation":{}}`)
	answer := make(chan mcp.Message)
	go func() { answer <- c.callTool("in", `{"rounds":1}`) }()
	id := w.pending(1)[0].ID
	w.answer(id, true, "")
	_, state := inputs(testkit.Receive(t, "the answer", answer))
	w.freeze()
	m := c.callTool("in", `{"rounds":1}`, `"inputResponses":{"a":`+accepts+`}`, `"requestState":`+state)
	want(t, "modern", say(m), "failed: "+frozen)
	if r := w.request(id); up.count() != 1 || r.RunResult != approval.RunUnknown || len(r.Inputs) != 0 {
		t.Errorf("modern: called %d times, outcome %q, given %v", up.count(), r.RunResult, r.Inputs)
	}

	up = newFake(mcp.Legacy, asking, "tool")
	w = newWorld(t, askAll, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{up.over(t, "http")}})
	c = join(t, w, mcp.Legacy, `{"elicitation":{}}`, func(c *peer) {
		c.answer = func(mcp.Message) string { w.freeze(); return accepts }
	})
	go func() { answer <- c.callTool("tool", `{"ask":["m"]}`) }()
	w.answer(w.pending(1)[0].ID, true, "")
	want(t, "legacy", say(testkit.Receive(t, "the answer", answer)), `{"action":"cancel"}`)
}

// One of two votes, at whichever way in, lets nothing through; the second does, once; and an approval that falls short
// before it is used lets nothing through any more.
func TestRule1_TwoPeopleAreTwoPeopleAtEveryWayIn(t *testing.T) {
	t.Parallel()
	ways := map[string]func(t *testing.T, w *world) (call func() string){
		"held": func(t *testing.T, w *world) func() string {
			c := join(t, w, mcp.Legacy, `{}`)
			return func() string { return say(c.callTool("tool", `{}`)) }
		},
		"held, modern": func(t *testing.T, w *world) func() string {
			c := join(t, w, mcp.Modern, `{}`)
			return func() string { return say(c.callTool("tool", `{}`)) }
		},
		"keyboard": func(t *testing.T, w *world) func() string {
			call, _ := typing(t, w, mcp.Legacy, `{"action":"accept","content":{"decision":"approve"}}`)
			return func() string { return call("tool", `{}`) }
		},
		"keyboard, modern": func(t *testing.T, w *world) func() string {
			call, _ := typing(t, w, mcp.Modern, `{"action":"accept","content":{"decision":"approve"}}`)
			return func() string { return call("tool", `{}`) }
		},
		"task": func(t *testing.T, w *world) func() string {
			c := join(t, w, mcp.Modern, withTasks)
			return func() string {
				id := c.begin("tool", `{}`)
				testkit.Eventually(t, "the task has ended", func() bool { return c.status(id) != "working" })
				return strings.TrimPrefix(c.status(id), "completed: ")
			}
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			up := newFake(mcp.Legacy, running, "tool")
			w := newWorldIn(t, twoRules, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{up.over(t, "http")}},
				(&council{}).around(around{}))
			call, answer := way(t, w), make(chan string, 1)
			go func() { answer <- call() }()
			id := w.pending(1)[0].ID
			if strings.HasPrefix(name, "keyboard") {
				testkit.Eventually(t, "the keyboard's vote counts", func() bool { return len(w.request(id).Votes) == 1 })
			} else {
				w.votes(id, "hana")
			}
			if r := w.request(id); r.Status != approval.Pending || up.count() != 0 {
				t.Fatalf("after one vote it is %s, and ran %d times", r.Status, up.count())
			}
			w.votes(id, "ken")
			want(t, "after two", testkit.Receive(t, "the answer", answer), "ran")
			if r := w.request(id); up.count() != 1 || r.ConsumedAt.IsZero() {
				t.Errorf("ran %d times", up.count())
			}
		})
	}
}

func TestRule4_AnApprovalThatFallsShortIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, down := range eras {
		up, people := newFake(mcp.Legacy, running, "tool"), &council{}
		w := newWorldIn(t, twoRules, gateway.Options{Hold: brief, Servers: []gateway.ServerConfig{up.over(t, "http")}},
			people.around(around{}))
		c := join(t, w, down, `{}`)
		contains(t, name, say(c.callTool("tool", `{}`)), "Approval requested")
		id := w.pending(1)[0].ID
		w.votes(id, "hana")
		w.votes(id, "ken")
		people.remove("ken")
		contains(t, name, say(c.callTool("tool", `{}`)), "Approval requested")
		if r := w.request(id); r.Status != approval.Cancelled || r.ResolveReason != "policy_changed" || up.count() != 0 {
			t.Errorf("%s: it is %s (%s), and ran %d times", name, r.Status, r.ResolveReason, up.count())
		}
	}
}

func TestTheKeyboardIsToldWhatItsVoteCameTo(t *testing.T) {
	t.Parallel()
	const confirm = `{policy: {rules: [{tools: ["*"], action: quarantine, risk: high, confirm: true}], levels: {high: {elicitation: true}}}}`
	const separate = `{policy: {rules: [{tools: ["*"], action: quarantine, risk: high, separate_duties: true}], levels: {high: {elicitation: true}}}}`
	for _, test := range []struct{ what, rules, content, want string }{
		{"one of two", twoRules, `{"decision":"approve"}`, "The approval given at the keyboard counts: 1 of 2."},
		{"not confirmed", confirm, `{"decision":"approve"}`,
			"The answer at the keyboard decided nothing. Approving lets bot run up/tool once. Approve it once more to confirm."},
		{"confirmed in no way", confirm, `{"decision":"approve","confirmed":"true"}`,
			"The answer at the keyboard decided nothing."},
		{"the agent's owner", separate, `{"decision":"approve"}`,
			"The answer at the keyboard decided nothing. You may not decide this request."},
	} {
		for name, down := range eras {
			in := (&council{}).around(around{})
			who := in.who
			in.who = func(n *names) { who(n); n.owner = "hana" }
			up := newFake(mcp.Legacy, running, "tool")
			w := newWorldIn(t, test.rules, gateway.Options{Hold: time.Second,
				Servers: []gateway.ServerConfig{up.over(t, "http")}}, in)
			call, asked := typing(t, w, down, `{"action":"accept","content":`+test.content+`}`)
			contains(t, test.what+", "+name, call("tool", `{}`), test.want)
			if r := w.newest(t); r.Status != approval.Pending || up.count() != 0 || asked() != 1 {
				t.Errorf("%s, %s: it is %s, ran %d times, asked %d times", test.what, name, r.Status, up.count(), asked())
			}
		}
	}
	for name, down := range eras {
		up := newFake(mcp.Legacy, running, "tool")
		w := newWorldIn(t, confirm, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{up.over(t, "http")}},
			(&council{}).around(around{}))
		call, _ := typing(t, w, down, `{"action":"accept","content":{"decision":"approve","confirmed":true}}`)
		want(t, "confirmed, "+name, call("tool", `{}`), "ran")
	}
}

// The person at the keyboard sees at once what a vote came to, with the progress of the call that is held.
func TestProgressTellsWhatAVoteAtTheKeyboardCameTo(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, running, "tool")
	w := newWorldIn(t, twoRules, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{up.over(t, "http")}},
		(&council{}).around(around{}))
	heard := make(chan string, 16)
	c := join(t, w, mcp.Legacy, `{"elicitation":{}}`, func(c *peer) {
		c.answer = func(mcp.Message) string { return `{"action":"accept","content":{"decision":"approve"}}` }
		c.heard = func(m mcp.Message) { heard <- mcp.Text(member(m.Params, "message")) }
	})
	answer := make(chan mcp.Message, 1)
	go func() { answer <- c.callTool("tool", `{}`, `"_meta":{"progressToken":"p"}`) }()
	for text := ""; !strings.HasPrefix(text, "The approval given at the keyboard counts: 1 of 2."); {
		text = testkit.Receive(t, "progress", heard)
	}
	w.votes(w.pending(1)[0].ID, "ken")
	want(t, "the answer", say(testkit.Receive(t, "the answer", answer)), "ran")
}

func TestTheGatewayKnowsWhatItsToolsTake(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Modern, running, "tool")
	w := newWorld(t, askAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}})
	for _, test := range []struct{ server, tool, args, want string }{
		{"up", "tool", `{"any":1}`, ""},
		{"up", "tool", `[]`, "The tool does not take these args: args must be of type object."},
		{"up", "none", `[]`, ""},
		{"none", "tool", `[]`, ""},
	} {
		want(t, test.server+"/"+test.tool+test.args, w.gw.CheckArgs(t.Context(), test.server, test.tool, []byte(test.args)),
			test.want)
	}
}
