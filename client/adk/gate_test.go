package adk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/agenttool"
	"google.golang.org/adk/v2/tool/functiontool"

	"countersign/client"
	"countersign/client/adk"
	"countersign/internal/testkit"
)

func TestACallRunsOnlyOnAYes(t *testing.T) {
	w := newWorld(t, adk.Options{})
	w.holds(w.turn(says("", call("read_ledger", nil)), says("ok")), "hears read_ledger: map[done:true]")
	w.ran("read_ledger <nil>")
	w.holds(w.turn(says("", call("format_disk", nil)), says("ok")),
		"hears format_disk: map[message:Policy denied: forbidden — Never. status:denied]")
	w.ran()
	out := w.turn(func(*model.LLMRequest) []*model.LLMResponse {
		r := response("The rent is due.", transfer(2000))
		r.Content.Parts = append([]*genai.Part{{Text: "What do they want to hear?", Thought: true}}, r.Content.Parts...)
		return []*model.LLMResponse{r}
	}, says("ok"))
	p := w.pending()
	if len(p) != 1 {
		t.Fatalf("%d requests, want 1", len(p))
	}
	w.holds(out, "hears transfer: map[approval_id:"+p[0].ID+" message:⏳ Approval requested (id: "+p[0].ID+
		"). Money leaves the house. status:approval_pending]")
	if p[0].Scope != "treasury/mia" || p[0].SessionID != "s1" || p[0].TurnID == "" ||
		p[0].Rationale != "The rent is due." || string(p[0].Args) != `{"cents":2000,"to":"acme"}` {
		t.Errorf("the request: %+v", p[0])
	}
	w.holds(w.turn(says("", transfer(2000)), says("ok")), "⏳ Approval pending (id: "+p[0].ID+")")
	w.ran()
	w.decide(p[0].ID, client.Approve, "")
	w.holds(w.turn(says("", transfer(2001)), says("ok")), "status:approval_pending")
	w.ran()
	w.holds(w.turn(says("", transfer(2000)), says("ok")), "hears transfer: map[done:true]")
	w.ran("transfer 2000")
	w.holds(w.turn(says("", transfer(2000)), says("ok")), "status:approval_pending")
	w.ran()
}

func TestADenialIsToldInTheGatesWords(t *testing.T) {
	w := newWorld(t, adk.Options{})
	w.turn(says("", transfer(1)), says("ok"))
	w.decide(w.pending()[0].ID, client.Deny, "not this month")
	out := w.turn(says("", transfer(1)), says("ok"))
	w.holds(out, "message:Approval denied by hana: not this month. The call was not executed; do not repeat it, try a different approach. status:denied]")
	w.ran()
}

func TestWhatAGrantCoversRunsAndWhatADenialStandsForDoesNot(t *testing.T) {
	w := newWorld(t, adk.Options{})
	pay := func(cents int) *genai.FunctionCall { return call("pay", map[string]any{"cents": cents}) }
	decide := func(v client.Verdict) {
		t.Helper()
		if _, err := w.hana.Decide(w.ctx, w.pending()[0].ID, v, "no",
			client.GrantFor(client.GrantTerms{Uses: 2, Session: true})); err != nil {
			t.Fatal(err)
		}
	}
	w.turn(says("", pay(5)), says("ok"))
	decide(client.Approve)
	w.turn(says("", pay(5)), says("", pay(5)), says("ok")) // the approved one, and one more
	w.ran("pay 5", "pay 5")
	w.holds(w.turn(says("", pay(5), pay(6)), says("ok")), "hears pay: map[done:true]", "status:approval_pending")
	w.ran("pay 5")
	w.turn(says("", pay(5)), says("ok")) // both uses are gone
	w.ran()
	if p := w.pending(); len(p) != 2 {
		t.Fatalf("%d requests, want 2", len(p))
	}
	decide(client.Deny)
	w.holds(w.turn(says("", pay(6)), says("ok")), "Approval denied by hana: no.", "status:denied")
	w.ran()
}

func TestWhatAPersonChangedRunsAndTheModelIsToldSo(t *testing.T) {
	w := newWorld(t, adk.Options{})
	w.turn(says("", transfer(2000)), says("ok"))
	id := w.pending()[0].ID
	changed := client.WithArgs(json.RawMessage(`{"cents":1500}`))
	if _, err := w.hana.Decide(w.ctx, id, client.Approve, "half of it will do", changed); err != nil {
		t.Fatal(err)
	}
	out := w.turn(says("", transfer(2000)), says("ok"))
	w.holds(out, "hears transfer: map[done:true]")
	w.ran("transfer 1500")
	const told = `transfer ran with other arguments than you gave. hana changed the arguments and approved these: {"cents":1500}. Reason: half of it will do.`
	if last := w.model.requests[len(w.model.requests)-1]; !strings.Contains(last, told) {
		t.Errorf("the model is not told: %s", last)
	}
	w.turn(says("hello"))
	if last := w.model.requests[len(w.model.requests)-1]; strings.Contains(last, told) {
		t.Errorf("the model is told in the next turn: %s", last)
	}
}

func TestAChangedNumberThatTheADKWouldRoundDoesNotRun(t *testing.T) {
	w := newWorld(t, adk.Options{})
	w.turn(says("", transfer(2000)), says("ok"))
	changed := client.WithArgs(json.RawMessage(`{"cents":9007199254740993}`))
	if _, err := w.hana.Decide(w.ctx, w.pending()[0].ID, client.Approve, "", changed); err != nil {
		t.Fatal(err)
	}
	w.holds(w.turn(says("", transfer(2000)), says("ok")), "would round on its way to the tool", "status:gate_unavailable")
	w.ran()
}

// However a number is written that whoever approved has put there: the tool gets that one, or does not run.
func TestRule3_ANumberIsHandedOnAsItWasApprovedOrNotAtAll(t *testing.T) {
	w := newWorld(t, adk.Options{})
	for number, runs := range map[string]string{
		"1500.0": "transfer 1500", "1.5e3": "transfer 1500", "15.50": "transfer 15.5", "0.1": "transfer 0.1",
		"-0.0": "transfer -0",
		"1e21": "transfer 1e+21", "9007199254740992.0": "transfer 9.007199254740992e+15",
		"9007199254740993.0": "", "9.007199254740993e15": "", "0.1234567890123456789": "", "1e400": "", "1e-400": "",
		"1e23": "", // which no float64 is
	} {
		w.turn(says("", transfer(2000)), says("ok"))
		changed := client.WithArgs(json.RawMessage(`{"cents":` + number + `}`))
		if _, err := w.hana.Decide(w.ctx, w.pending()[0].ID, client.Approve, "", changed); err != nil {
			t.Fatal(number, err)
		}
		out := w.turn(says("", transfer(2000)), says("ok"))
		if runs == "" {
			w.holds(out, "would round on its way to the tool")
			w.ran()
			continue
		}
		w.ran(runs)
	}
}

func TestAFrozenAgentRunsNothing(t *testing.T) {
	w := newWorld(t, adk.Options{})
	if _, err := w.hana.Freeze(w.ctx, "bot", "a leak"); err != nil {
		t.Fatal(err)
	}
	out := w.turn(says("", call("read_ledger", nil)), says("ok"))
	w.holds(out, "Frozen by hana: a leak. Nothing runs until a person lifts it; do not retry.", "status:frozen")
	w.ran()
}

func TestSeveralCallsOfOneTurnAreOneCardAndAnsweredInOrder(t *testing.T) {
	w := newWorld(t, adk.Options{})
	turn := says("All three.", transfer(1), call("read_ledger", nil), transfer(2))
	out := w.turn(turn, says("ok"))
	w.holds(out, "hears transfer: map[approval_id:", "Approval requested", "hears read_ledger: map[done:true]",
		"hears transfer: map[approval_id:", "Approval requested")
	w.ran("read_ledger <nil>")
	p := w.pending()
	if len(p) != 2 || p[0].Rationale != "All three." {
		t.Fatalf("requests: %+v", p)
	}
	if c := testkit.Receive(t, "the card", w.cards); c.Type != "approval.requested" || len(c.Data.Requests) != 2 ||
		c.Data.Requests[0].ID != p[0].ID || c.Data.Requests[1].ID != p[1].ID {
		t.Errorf("the card: %+v, want one of both", c)
	}
	w.decide(p[0].ID, client.Approve, "")
	w.decide(p[1].ID, client.Deny, "no")
	out = w.turn(turn, says("ok"))
	w.holds(out, "hears transfer: map[done:true]", "hears read_ledger: map[done:true]", "hears transfer: map[",
		"Approval denied by hana: no.")
	w.ran("read_ledger <nil>", "transfer 1")
}

func TestMoreCallsThanABatchTakesAreAllAnswered(t *testing.T) {
	w := newWorld(t, adk.Options{})
	var calls []*genai.FunctionCall
	for i := range 45 {
		calls = append(calls, transfer(i))
	}
	out := w.turn(says("", calls...), says("ok"))
	if n := strings.Count(out, "status:approval_pending"); n != 45 {
		t.Errorf("%d of 45 are pending:\n%s", n, out)
	}
	var cards []int
	for range 3 {
		cards = append(cards, len(testkit.Receive(t, "a card", w.cards).Data.Requests))
	}
	slices.Sort(cards) // they are sent side by side
	if want := []int{5, 20, 20}; !slices.Equal(cards, want) {
		t.Errorf("cards of %v requests, want %v", cards, want)
	}
}

func TestCallsOfOneTurnWaitTogether(t *testing.T) {
	w := newWorld(t, adk.Options{Wait: time.Hour}) // more than the gate grants
	done := make(chan string)
	go func() { done <- w.turn(says("", transfer(1), transfer(2)), says("ok")) }()
	var p []client.Approval
	testkit.Eventually(t, "both requests", func() bool { p = w.pending(); return len(p) == 2 })
	w.decide(p[0].ID, client.Deny, "no")
	w.decide(p[1].ID, client.Approve, "")
	w.holds(testkit.Receive(t, "the turn's end", done), "Approval denied by hana: no.", "hears transfer: map[done:true]")
	w.ran("transfer 2")
	if strings.Contains(w.model.requests[1], "[APPROVAL") {
		t.Errorf("told a second time, by the feed:\n%s", w.model.requests[1])
	}
}

func TestAWaitThatIsOverSaysWhatWasBegun(t *testing.T) {
	w := newWorld(t, adk.Options{Wait: time.Second})
	w.holds(w.turn(says("", transfer(1), transfer(2)), says("ok")), "Approval requested", "Approval requested")
	w.ran()
}

func TestWithoutAnAnswerNothingRuns(t *testing.T) {
	w := newWorld(t, adk.Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/empty/v1/calls", "/empty/v1/calls/batch":
			fmt.Fprint(w, `{}`)
		case "/new/v1/calls":
			fmt.Fprint(w, `{"decision":"perhaps","message":"Who knows."}`)
		case "/short/v1/calls/batch":
			fmt.Fprint(w, `{"results":[{"decision":"allow"}]}`)
		case "/short/v1/calls":
			http.Error(w, "no", http.StatusServiceUnavailable)
		default:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"code":"too_many_pending","detail":"Three requests are open already.","status":429}`)
		}
	}))
	defer odd.Close()
	for _, c := range []struct{ name, url, token, want string }{
		{"nobody there", "http://" + l.Addr().String(), env["AGENT_TOKEN"], "status:gate_unavailable"},
		{"a token it does not know", "http://" + w.addr, "test-agent-token-wrong", "code:unauthorized"},
		{"a person's token", "http://" + w.addr, env["HANA_TOKEN"], "code:agents_only"},
		{"a limit", odd.URL, env["AGENT_TOKEN"], "Three requests are open already.). The call was not run. status:refused"},
		{"an answer without a word", odd.URL + "/empty", env["AGENT_TOKEN"], "status:]"},
		{"a word that is not known", odd.URL + "/new", env["AGENT_TOKEN"], "message:Who knows. status:perhaps"},
		{"fewer answers than calls", odd.URL + "/short", env["AGENT_TOKEN"], "status:gate_unavailable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bot, err := client.New(c.url, c.token)
			if err != nil {
				t.Fatal(err)
			}
			defer bot.Close()
			r := w.start(adk.New(bot, adk.Options{Wait: time.Second}))
			for _, calls := range [][]*genai.FunctionCall{{call("read_ledger", nil)}, {call("read_ledger", nil), transfer(1)}} {
				out, err := w.turnOf(r, "mia", agent.StreamingModeNone, says("", calls...), says("Then not."))
				if err != nil {
					t.Errorf("the run ended: %v", err)
				}
				for range calls {
					w.holds(out, c.want)
				}
				if strings.Contains(out, c.token) {
					t.Errorf("the token is told: %s", out)
				}
			}
			w.ran()
		})
	}
}

func TestArgsThatAreNotJSONAreNotRun(t *testing.T) {
	w := newWorld(t, adk.Options{})
	args := map[string]any{"cents": math.Inf(1)}
	w.holds(w.turn(says("", call("read_ledger", args)), says("ok")), "the args are not JSON")
	w.holds(w.turn(says("", call("read_ledger", args), call("read_ledger", nil)), says("ok")), "the args are not JSON",
		"done:true")
	w.ran("read_ledger <nil>")
}

func TestAnswersToOtherArgsAreNotUsed(t *testing.T) {
	// A callback changes the args after the gate was asked about all calls, and before the tools run.
	p, err := plugin.New(plugin.Config{Name: "rewriter", BeforeToolCallback: func(_ agent.Context, _ tool.Tool,
		args map[string]any) (map[string]any, error) {
		if args["cents"] == 1 {
			args["cents"] = 1_000_000
		}
		return nil, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, adk.Options{}, p)
	w.approve(transfer(1))
	w.holds(w.turn(says("", transfer(1), call("read_ledger", nil)), says("ok")), "hears transfer: map[approval_id:",
		"status:approval_pending")
	w.ran("read_ledger <nil>")
	if p := w.pending(); len(p) != 1 || string(p[0].Args) != `{"cents":1000000,"to":"acme"}` {
		t.Errorf("requests %+v, want one for what would run", p)
	}
}

// approve has the call approved beforehand.
func (w *world) approve(c *genai.FunctionCall) {
	w.t.Helper()
	args, err := json.Marshal(c.Args)
	if err != nil {
		w.t.Fatal(err)
	}
	a, err := w.bot.Call(w.ctx, client.Call{Tool: c.Name, Args: args, Scope: "treasury/mia", SessionID: "s1"})
	if err != nil || a.Kind != client.AnswerPending {
		w.t.Fatalf("%+v, %v", a, err)
	}
	w.decide(a.ApprovalID, client.Approve, "")
}

// What a rule ignores may be other when the approval is used: the tool runs with what people were shown.
func TestRule3_IgnoredArgsRunAsTheyWereApproved(t *testing.T) {
	pay := func(cents int, note any) *genai.FunctionCall {
		args := map[string]any{"cents": float64(cents)}
		if note != nil {
			args["note"] = note
		}
		return call("pay", args)
	}
	w := newWorld(t, adk.Options{})
	for _, later := range []any{"to mallory", nil, map[string]any{"to": "mallory"}} {
		w.approve(pay(5, "to acme"))
		w.turn(says("", pay(5, later)), says("ok"))
		w.ran("pay 5 to acme")
	}
	w.approve(pay(6, nil))
	w.turn(says("", pay(6, "to mallory")), says("ok"))
	w.ran("pay 6")
	// Of several calls in one response, which are asked about before.
	w.approve(pay(7, "to acme"))
	w.turn(says("", pay(7, "to mallory"), call("read_ledger", nil)), says("ok"))
	w.ran("pay 7 to acme", "read_ledger <nil>")
}

// A number that the ADK cannot hand on as people were shown it does not run, not even where it looks the same once it
// is rounded. What the ADK itself wrote runs.
func TestRule3_AnIgnoredNumberThatTheADKWouldRoundDoesNotRun(t *testing.T) {
	w := newWorld(t, adk.Options{})
	pay := func(cents, note any) *genai.FunctionCall {
		return call("pay", map[string]any{"cents": cents, "note": note})
	}
	for _, later := range []any{"to acme", float64(1 << 53)} {
		w.approve(pay(5, json.Number("9007199254740993")))
		w.holds(w.turn(says("", pay(5, later)), says("ok")), "would round on its way to the tool", "status:gate_unavailable")
		w.ran()
	}
	w.approve(pay(5, float64(1<<53)))
	w.turn(says("", pay(5, "to acme")), says("ok"))
	w.ran("pay 5 9.007199254740992e+15")
	w.approve(pay(5, float64(1<<63))) // written as …6000, which is another number
	w.turn(says("", pay(5, float64(1<<63))), says("ok"))
	w.ran("pay 5 9.223372036854776e+18")
}

func TestUsersDoNotShareApprovalsNorAreToldOfEachOthers(t *testing.T) {
	w := newWorld(t, adk.Options{})
	w.approve(transfer(1))
	out, err := w.turnOf(w.runner, "noa", agent.StreamingModeNone, says("", transfer(1)), says("ok"))
	if err != nil {
		t.Fatal(err)
	}
	w.holds(out, "status:approval_pending")
	w.ran()
	for _, r := range w.model.requests {
		if strings.Contains(r, "[APPROVAL") {
			t.Errorf("noa's model is told of mia's request:\n%s", r)
		}
	}
}

func TestTheScopeCanBeShared(t *testing.T) {
	w := newWorld(t, adk.Options{Server: "bank", Scope: func(agent.ReadonlyContext) string { return "" }})
	w.turn(says("", transfer(1)), says("ok"))
	p := w.pending()[0]
	if p.Server != "bank" || p.Scope != "" {
		t.Errorf("%+v", p)
	}
	w.decide(p.ID, client.Approve, "")
	if _, err := w.turnOf(w.runner, "noa", agent.StreamingModeNone, says("", transfer(1)), says("ok")); err != nil {
		t.Fatal(err)
	}
	w.ran("transfer 1")
}

func TestEndingsAreToldUntilTheRunEndsOrTheyAreUsed(t *testing.T) {
	w := newWorld(t, adk.Options{})
	w.turn(says("", transfer(1), transfer(2)), says("ok"))
	p := w.pending()
	w.decide(p[0].ID, client.Approve, "")
	w.decide(p[1].ID, client.Deny, "no")
	w.turn(says("", call("read_ledger", nil)), says("", transfer(1)), says("done"))
	w.ran("read_ledger <nil>", "transfer 1")
	const approved, denied = "[APPROVAL APPROVED] transfer", "[APPROVAL DENIED] transfer"
	for i, want := range [][]bool{{true, true}, {true, true}, {false, true}} {
		got := []bool{strings.Contains(w.model.requests[i], approved), strings.Contains(w.model.requests[i], denied)}
		if !slices.Equal(got, want) {
			t.Errorf("request %d tells of the approved and the denied one: %v, want %v\n%s", i+1, got, want, w.model.requests[i])
		}
	}
	w.holds(w.model.requests[0], "user says go on", "user says How earlier approval requests", denied)
	w.turn(says("nothing new"))
	if strings.Contains(w.model.requests[0], "[APPROVAL") {
		t.Errorf("told again: %s", w.model.requests[0])
	}
	w.ran()
}

func TestAnEndingIsAcknowledgedOnlyWhenTheModelAnswered(t *testing.T) {
	w := newWorld(t, adk.Options{})
	w.turn(says("", transfer(1)), says("ok"))
	w.decide(w.pending()[0].ID, client.Deny, "no")
	if _, err := w.turnOf(w.runner, "mia", agent.StreamingModeNone); err == nil {
		t.Fatal("the model failed, and the run did not")
	}
	if _, err := w.turnOf(w.runner, "mia", agent.StreamingModeNone, func(*model.LLMRequest) []*model.LLMResponse {
		return []*model.LLMResponse{{ErrorCode: "SAFETY", ErrorMessage: "no answer"}}
	}); err != nil {
		t.Fatal(err)
	}
	w.turn(says("I see."))
	w.holds(w.model.requests[0], "[APPROVAL DENIED] transfer")
	if left, err := w.bot.Resolved(w.ctx, "", 0); err != nil || len(left) != 0 {
		t.Errorf("%v, the feed still has %+v", err, left)
	}
}

func TestAToolThatIsNotOfferedIsNotAskedAbout(t *testing.T) {
	w := newWorld(t, adk.Options{})
	w.turn(says("", call("launch", nil), transfer(1), transfer(2)), says("ok"))
	for _, p := range w.pending() {
		if p.Tool != "transfer" {
			t.Errorf("people are asked about %s", p.Tool)
		}
	}
}

func TestAPartialResponseIsNotAskedAbout(t *testing.T) {
	w := newWorld(t, adk.Options{})
	partial := response("", transfer(1), transfer(2))
	partial.Partial = true
	_, err := w.turnOf(w.runner, "mia", agent.StreamingModeSSE, func(*model.LLMRequest) []*model.LLMResponse {
		return []*model.LLMResponse{partial, response("", transfer(3), call("read_ledger", nil))}
	}, says("ok"))
	if err != nil {
		t.Fatal(err)
	}
	if p := w.pending(); len(p) != 1 || string(p[0].Args) != `{"cents":3,"to":"acme"}` {
		t.Errorf("%+v", p)
	}
	w.ran("read_ledger <nil>")
}

func TestAStreamingToolStopsTheRun(t *testing.T) {
	w := newWorld(t, adk.Options{})
	streams, err := functiontool.NewStreaming(functiontool.Config{Name: "read_tape"},
		func(agent.Context, anything) iter.Seq2[string, error] {
			return func(func(string, error) bool) { t.Error("it ran, and nobody was asked") }
		})
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.gate.Plugin()
	if err != nil {
		t.Fatal(err)
	}
	r := w.run([]*plugin.Plugin{p}, llmagent.Config{Name: "treasurer", Model: w.model, Tools: []tool.Tool{streams}})
	_, err = w.turnOf(r, "mia", agent.StreamingModeNone, says("", call("read_tape", nil)), says("ok"))
	if err == nil || !strings.Contains(err.Error(), "read_tape streams its result") {
		t.Errorf("got %v", err)
	}
	w.model.lines = nil
}

func TestAnAgentThatRunsAsAToolIsGuardedByItself(t *testing.T) {
	w := newWorld(t, adk.Options{Scope: func(agent.ReadonlyContext) string { return "" }})
	cfg := llmagent.Config{Name: "read_helper", Model: w.model, Tools: w.shop.tools()}
	w.gate.Guard(&cfg)
	helper, err := llmagent.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.gate.Plugin()
	if err != nil {
		t.Fatal(err)
	}
	r := w.run([]*plugin.Plugin{p}, llmagent.Config{Name: "treasurer", Model: w.model,
		Tools: []tool.Tool{agenttool.New(helper, nil)}})
	if _, err = w.turnOf(r, "mia", agent.StreamingModeNone,
		says("", call("read_helper", map[string]any{"request": "pay"})),
		says("", transfer(1), call("read_ledger", nil)), says("asked"), says("ok")); err != nil {
		t.Fatal(err)
	}
	w.ran("read_ledger <nil>")
	if p := w.pending(); len(p) != 1 || p[0].Tool != "transfer" {
		t.Errorf("%+v", p)
	}
}

func TestACallWhoseRunIsCancelledDoesNotRun(t *testing.T) {
	w := newWorld(t, adk.Options{Wait: time.Minute})
	ctx, cancel := context.WithCancel(w.ctx)
	w.model.lines = append(w.model.lines, says("", transfer(1)), says("ok"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range w.runner.Run(ctx, "mia", "s1", genai.NewContentFromText("go on", genai.RoleUser), agent.RunConfig{}) {
		}
	}()
	var p []client.Approval
	testkit.Eventually(t, "the request", func() bool { p = w.pending(); return len(p) > 0 })
	cancel()
	testkit.Receive(t, "the run's end", done)
	w.decide(p[0].ID, client.Approve, "")
	w.ran()
	if a, err := w.bot.Approval(w.ctx, p[0].ID); err != nil || !a.ConsumedAt.IsZero() {
		t.Errorf("%v, the approval was used by nobody: %+v", err, a)
	}
}

func TestAGateForgetsRunsThatEnd(t *testing.T) {
	w := newWorld(t, adk.Options{})
	w.turn(says("", transfer(1), transfer(2)), says("ok"))
	if _, err := w.turnOf(w.runner, "mia", agent.StreamingModeNone); err == nil {
		t.Fatal("the model failed, and the run did not")
	}
	if n := w.gate.Remembered(); n != 0 {
		t.Errorf("%d are remembered", n)
	}
}
