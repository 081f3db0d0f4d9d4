package rest

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/internal/lists"
	"countersign/internal/testkit"
)

func mustURL(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}

// names returns the sorted names of an object.
func names(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

func TestACallIsAnsweredInTheWordsOfTheDesign(t *testing.T) {
	w := newWorld(t)
	always := []string{"decision", "message", "reason_code", "risk_level", "rule"}
	expect := func(r reply, decision, message string, more ...string) {
		t.Helper()
		if r.str("decision") != decision || r.str("message") != message {
			t.Errorf("got %s, want decision %q and message %q", r.body, decision, message)
		}
		want := slices.Sorted(slices.Values(append(more, always...)))
		if got := names(r.object()); !slices.Equal(got, want) {
			t.Errorf("%s: got members %v, want %v", decision, got, want)
		}
	}
	expect(w.do(botToken, "POST", "/v1/calls", `{"tool":"read_file","args":{"path":"a"}}`).is(200), "allow",
		"Allowed by policy.")
	expect(w.do(botToken, "POST", "/v1/calls", `{"tool":"drop_table"}`).is(200), "denied",
		"Policy denied: forbidden — Nobody drops tables.")

	r := w.do(botToken, "POST", "/v1/calls", transfer).is(202)
	id := r.str("approval_id")
	expect(r, "pending", "⏳ Approval requested (id: "+id+"). A person must confirm this.", "approval_id", "expires_at")
	if got := r.str("expires_at"); got != "2026-11-21T11:00:00.000Z" {
		t.Errorf("expires_at is %s", got)
	}
	r = w.do(botToken, "POST", "/v1/calls", transfer).is(202)
	expect(r, "pending", "⏳ Approval pending (id: "+id+"). Waiting for human confirmation.", "approval_id", "expires_at")
	if r.str("approval_id") != id {
		t.Error("asking again did not join the request")
	}

	w.decide(hanaToken, id, "approve", "fine").is(200)
	r = w.do(botToken, "POST", "/v1/calls", transfer).is(200)
	expect(r, "approved", "Approved by hana at 2026-11-21T10:00:00.000Z. Run it now; this approval is used.",
		"approval_id", "resolved_by", "resolve_reason", "args")

	second := w.ask(transfer)
	if second == id {
		t.Error("a used approval was joined")
	}
	w.decide(kenToken, second, "deny", "too much").is(200)
	r = w.do(botToken, "POST", "/v1/calls", transfer).is(200)
	expect(r, "denied",
		"Approval denied by ken: too much. The call was not executed; do not repeat it, try a different approach.",
		"approval_id", "resolved_by", "resolve_reason")
}

func TestABatchIsAnsweredInOrder(t *testing.T) {
	w := newWorld(t)
	r := w.do(botToken, "POST", "/v1/calls/batch", `{"calls":[{"tool":"read_file"},`+transfer+`,{"tool":"drop_table"},`+
		transfer+`]}`).is(200)
	var got []string
	for _, a := range r.list("results") {
		got = append(got, a["decision"].(string))
	}
	if want := []string{"allow", "pending", "denied", "pending"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if rs := r.list("results"); rs[1]["approval_id"] != rs[3]["approval_id"] {
		t.Error("equal calls of one batch made two requests")
	}
}

func TestABatchHasOneToTwentyCallsAndRefusesAllForOne(t *testing.T) {
	w := newWorld(t)
	many := func(n int) string {
		return `{"calls":[` + strings.Join(slices.Repeat([]string{transfer}, n), ",") + `]}`
	}
	w.do(botToken, "POST", "/v1/calls/batch", many(20)).is(200)
	w.do(botToken, "POST", "/v1/calls/batch", many(21)).is(400, "invalid_parameter")
	w.do(botToken, "POST", "/v1/calls/batch", many(0)).is(400, "invalid_parameter")
	for body, code := range map[string]approval.Code{
		`{"calls":[{"tool":"read_file"},{"tool":"no such"}]}`:                 "invalid_tool",
		`{"calls":[{"tool":"read_file"},{"tool":"x","args":{"a":1,"a":2}}]}`:  "invalid_args",
		`{"calls":[{"tool":"read_file"},{"tool":"x","bogus":1}]}`:             "unknown_field",
		`{"calls":[{"tool":"read_file"},3]}`:                                  "invalid_json",
		`{"calls":[{"tool":"read_file"},{"tool":"x","tool":"y"}]}`:            "invalid_json",
		`{"calls":[{"tool":"read_file"},{"tool":"x","scope":5}]}`:             "invalid_parameter",
		`{"calls":[{"tool":"read_file"},{"tool":"drop_table","server":"!"}]}`: "invalid_tool",
	} {
		r := w.do(botToken, "POST", "/v1/calls/batch", body).is(400, code)
		if !strings.Contains(r.str("detail"), "calls[1]") {
			t.Errorf("%s: the detail does not say which call: %s", body, r.str("detail"))
		}
	}
	if n := len(w.do(hanaToken, "GET", "/v1/audit?event_type=call_allowed", "").is(200).list("events")); n != 0 {
		t.Errorf("%d calls of refused batches were let through", n)
	}
}

// What the approver sees and what is hashed is what was sent: numbers as written, nothing masked.
func TestArgsComeBackExactly(t *testing.T) {
	w := newWorld(t)
	exact := `{"a":1.10,"big":12345678901234567890,"exp":1E400,"html":"<b>&</b>","password":"hunter2hunter2","u":"a` +
		"\u202e" + `b","z":[]}`
	id := w.ask(`{"tool":"transfer","args": ` + exact + ` }`)
	r := w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200)
	if !strings.Contains(string(r.body), `"args":`+exact+`,`) {
		t.Errorf("got %s", r.body)
	}
}

// parallel starts a request and returns how to get its answer.
func (w *world) parallel(token, method, path, body string) func() reply {
	c := make(chan reply, 1)
	go func() { c <- w.send(w.t.Context(), token, method, path, body) }()
	return func() reply {
		w.t.Helper()
		return testkit.Receive(w.t, "an answer to "+method+" "+path, c)
	}
}

// pendingID waits for the one pending request.
func (w *world) pendingID() (id string) {
	w.t.Helper()
	w.eventually("a request", func() bool {
		rs, err := lists.ListRequests(context.Background(), w.gate, approval.RequestQuery{Status: approval.Pending, Limit: 1})
		if err == nil && len(rs) == 1 {
			id = rs[0].ID
		}
		return id != ""
	})
	return id
}

func TestAWaitingCallIsToldHowItEnded(t *testing.T) {
	t.Parallel() // it waits
	for _, tt := range []struct {
		name     string
		end      func(w *world, id string)
		decision string
	}{
		{"approved", func(w *world, id string) { w.decide(hanaToken, id, "approve", "").is(200) }, "approved"},
		{"denied", func(w *world, id string) { w.decide(hanaToken, id, "deny", "no").is(200) }, "denied"},
		{"expired", func(w *world, _ string) { w.clock.Advance(time.Hour) }, "expired"},
		{"cancelled", func(w *world, id string) { w.do(botToken, "POST", "/v1/approvals/"+id+"/cancel", "").is(200) },
			"cancelled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			get := w.parallel(botToken, "POST", "/v1/calls?wait=60s", transfer)
			tt.end(w, w.pendingID())
			r := get().is(200)
			if r.str("decision") != tt.decision {
				t.Errorf("got %s", r.body)
			}
			if n := len(w.do(hanaToken, "GET", "/v1/approvals", "").is(200).list("approvals")); n != 1 {
				t.Errorf("%d requests were made", n)
			}
		})
	}
}

func TestAWaitEndsInTheWordsOfTheFirstAnswer(t *testing.T) {
	t.Parallel() // it waits
	w := newWorld(t)
	r := w.do(botToken, "POST", "/v1/calls?wait=1", transfer).is(202)
	if !strings.Contains(r.str("message"), "Approval requested") {
		t.Errorf("who made the request is told %q", r.str("message"))
	}
	r = w.do(botToken, "POST", "/v1/calls?wait=20ms", transfer).is(202)
	if !strings.Contains(r.str("message"), "Approval pending") {
		t.Errorf("who joined it is told %q", r.str("message"))
	}
}

func TestOfManyWhoWaitOneIsLetThrough(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	var gets []func() reply
	for range 8 {
		gets = append(gets, w.parallel(botToken, "POST", "/v1/calls?wait=2s", transfer))
	}
	w.eventually("all are there", func() bool { return w.active.Load() == 8 })
	w.decide(hanaToken, id, "approve", "").is(200)
	count := map[string]int{}
	for _, get := range gets {
		// Who comes only after the approval was used asks anew and is told so.
		r := get()
		count[r.str("decision")+" "+r.str("reason_code")]++
	}
	if count["approved approval_required"] != 1 || count["denied already_used"]+count["pending approval_required"] != 7 {
		t.Errorf("got %v", count)
	}
}

func TestAClientThatIsGoneConsumesNothing(t *testing.T) {
	w := newWorld(t)
	for range 20 {
		id := w.ask(transfer)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.send(ctx, botToken, "POST", "/v1/calls?wait=60s", transfer)
		}()
		w.eventually("it waits", func() bool { return w.active.Load() == 1 })
		cancel()
		testkit.Receive(t, "the call's end", done)
		w.idle()
		w.decide(hanaToken, id, "approve", "").is(200)
		if r := w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200); r.at("consumed_at") != nil {
			t.Fatalf("the approval was used: %s", r.body)
		}
		w.do(botToken, "POST", "/v1/calls", transfer).is(200)
	}
}

func TestATokenWithdrawnWhileWaitingUsesNothingUp(t *testing.T) {
	w := newWorld(t)
	get := w.parallel(botToken, "POST", "/v1/calls?wait=60s", transfer)
	id := w.pendingID()
	w.dir.Replace(agentsConfigured[1:], peopleConfigured)
	w.decide(hanaToken, id, "approve", "").is(200)
	get().is(401, "unauthorized")
	if r := w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200); r.at("consumed_at") != nil {
		t.Error("the approval was used")
	}
}

func TestWhenTheServerStopsWhoWaitsIsAnsweredAsIfTimeWereUp(t *testing.T) {
	w := newWorld(t)
	call := w.parallel(botToken, "POST", "/v1/calls?wait=60s", transfer)
	id := w.pendingID()
	one := w.parallel(hanaToken, "GET", "/v1/approvals/"+id+"?wait=60s", "")
	feed := w.parallel(botToken, "GET", "/v1/approvals/resolved?wait=60s", "")
	w.eventually("all wait", func() bool { return w.active.Load() == 3 })
	begin := time.Now()
	w.stop()
	if r := call().is(202); !strings.Contains(r.str("message"), "Approval requested") {
		t.Errorf("%s", r.body)
	}
	if r := one().is(200); r.str("status") != "pending" {
		t.Errorf("%s", r.body)
	}
	if r := feed().is(200); len(r.list("approvals")) != 0 {
		t.Errorf("%s", r.body)
	}
	if d := time.Since(begin); d > 45*time.Second { // their own time was not up
		t.Errorf("it took %v", d)
	}
}

// A server's own time-outs are for clients that dawdle, not for those who were asked to wait.
func TestAWaitOutlastsTheServersTimeouts(t *testing.T) {
	t.Parallel() // it waits
	w := newWorld(t)
	id := w.ask(transfer)
	w.srv.Close()
	w.srv = newSlowServer(w)
	feed := w.parallel(botToken, "GET", "/v1/approvals/resolved?wait=2s", "")
	one := w.parallel(botToken, "GET", "/v1/approvals/"+id+"?wait=2s", "")
	call := w.parallel(botToken, "POST", "/v1/calls?wait=2s", transfer)
	feed().is(200)
	one().is(200)
	call().is(202)
}

// deadlines notes the deadline for writing that a connection is left with.
type deadlines struct {
	net.Listener
	last *atomic.Int64
}

type deadlineConn struct {
	net.Conn
	last *atomic.Int64
}

func (d deadlines) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	return deadlineConn{c, d.last}, err
}

func (c deadlineConn) SetWriteDeadline(t time.Time) error {
	c.last.Store(0)
	if !t.IsZero() {
		c.last.Store(t.UnixNano())
	}
	return c.Conn.SetWriteDeadline(t)
}

func TestAWaitLeavesNoDeadlineToTheNextRequest(t *testing.T) {
	w := newWorld(t)
	w.srv.Close()
	var last atomic.Int64
	w.srv = httptest.NewUnstartedServer(w.rest)
	w.srv.Listener = deadlines{w.srv.Listener, &last}
	w.srv.Start()
	w.do(botToken, "POST", "/v1/calls?wait=20ms", transfer).is(202)
	if got := last.Load(); got != 0 {
		t.Errorf("the connection was left with a deadline %v from now", time.Until(time.Unix(0, got)))
	}
}

func TestACallIsMadeOnceHoweverManyAsk(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	ids := make([]string, 32)
	for i := range ids {
		wg.Go(func() { ids[i] = w.send(t.Context(), botToken, "POST", "/v1/calls", transfer).str("approval_id") })
	}
	testkit.Wait(t, "all calls", wg.Wait)
	if n := len(slices.Compact(slices.Sorted(slices.Values(ids)))); n != 1 || ids[0] == "" {
		t.Errorf("%d requests were made: %v", n, ids)
	}
}

func TestALimitOnPendingRequestsIsToldWithATimeToComeBack(t *testing.T) {
	w := newWorld(t)
	limited := terms
	limited.MaxPending = 1
	if err := w.gate.SetPolicy(t.Context(), rules{byName, limited}, nil); err != nil {
		t.Fatal(err)
	}
	w.ask(asked(1))
	r := w.do(botToken, "POST", "/v1/calls", asked(2)).is(429, "too_many_pending")
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	w.do(otherToken, "POST", "/v1/calls", asked(2)).is(202)
}

func TestTheFeedBringsEndingsUntilTheyAreAcknowledged(t *testing.T) {
	w := newWorld(t)
	if r := w.do(botToken, "GET", "/v1/approvals/resolved", "").is(200); len(r.list("approvals")) != 0 ||
		len(r.object()) != 1 {
		t.Errorf("an empty feed is %s", r.body)
	}
	denied, approved, pending := w.ask(asked(1)), w.ask(transfer), w.ask(asked(3))
	w.decide(hanaToken, denied, "deny", "").is(200)
	w.clock.Advance(time.Second)
	w.decide(hanaToken, approved, "approve", "").is(200)

	feed := w.do(botToken, "GET", "/v1/approvals/resolved", "").is(200).list("approvals")
	if len(feed) != 2 || feed[0]["id"] != denied || feed[1]["id"] != approved {
		t.Fatalf("got %v", feed)
	}
	if got, want := feed[0]["message"],
		`[APPROVAL DENIED] transfer({"cents":1}): denied by hana at 2026-11-21T10:00:00.000Z: no reason given`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	narrow := w.do(botToken, "GET", "/v1/approvals/resolved?session_id=s1", "").is(200).list("approvals")
	if len(narrow) != 1 || narrow[0]["id"] != approved {
		t.Errorf("session s1 gets %v", narrow)
	}
	if other := w.do(otherToken, "GET", "/v1/approvals/resolved", "").is(200).list("approvals"); len(other) != 0 {
		t.Errorf("another agent gets %v", other)
	}

	ack := fmt.Sprintf(`{"ids":["%s","%s","%s","01ARZ3NDEKTSV4RRFFQ69G5FAV","junk","%s"]}`, denied, approved, pending,
		denied)
	for range 2 {
		r := w.do(botToken, "POST", "/v1/approvals/ack", ack).is(200)
		if got, want := fmt.Sprint(r.at("acked"), r.at("not_resolved"), r.at("not_found")),
			fmt.Sprintf("[%s %s] [%s] [01ARZ3NDEKTSV4RRFFQ69G5FAV junk]", denied, approved, pending); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if r := w.do(otherToken, "POST", "/v1/approvals/ack", ack).is(200); len(r.at("not_found").([]any)) != 5 {
		t.Errorf("another agent's ack: %s", r.body)
	}
	if r := w.do(botToken, "POST", "/v1/approvals/ack",
		`{"ids":[]}`).is(200); string(r.body) != `{"acked":[],"not_resolved":[],"not_found":[]}` {
		t.Errorf("got %s", r.body)
	}
	if r := w.do(botToken, "GET", "/v1/approvals/resolved", "").is(200); len(r.list("approvals")) != 0 {
		t.Errorf("after the ack: %s", r.body)
	}

	w.clock.Advance(15 * time.Minute)
	feed = w.do(botToken, "GET", "/v1/approvals/resolved", "").is(200).list("approvals")
	if len(feed) != 1 || feed[0]["id"] != approved || feed[0]["lapsed_at"] != "2026-11-21T10:15:01.000Z" {
		t.Errorf("a lapse did not come back into the feed: %v", feed)
	}
}

func TestTheFeedIsHeldUntilSomethingEnds(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	get := w.parallel(botToken, "GET", "/v1/approvals/resolved?wait=60", "")
	w.eventually("it waits", func() bool { return w.active.Load() == 1 })
	w.decide(hanaToken, id, "approve", "").is(200)
	if got := get().is(200).list("approvals"); len(got) != 1 || got[0]["id"] != id {
		t.Errorf("got %v", got)
	}
	w.do(botToken, "POST", "/v1/calls", transfer).is(200) // consuming acknowledges
	if got := w.do(botToken, "GET", "/v1/approvals/resolved?wait=20ms",
		"").is(200); string(got.body) != `{"approvals":[]}` {
		t.Errorf("time up: %s", got.body)
	}
}

func TestAGetNeverConsumes(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	w.decide(hanaToken, id, "approve", "").is(200)
	for range 3 {
		w.do(botToken, "GET", "/v1/approvals/"+id+"?wait=1s", "").is(200)
		w.do(botToken, "GET", "/v1/approvals/resolved?wait=1s", "").is(200)
	}
	if r := w.do(botToken, "POST", "/v1/calls", transfer).is(200); r.str("decision") != "approved" {
		t.Errorf("got %s", r.body)
	}
}

func TestARequestIsHeldUntilItEnds(t *testing.T) {
	for _, token := range []string{botToken, hanaToken} {
		w := newWorld(t)
		id := w.ask(transfer)
		get := w.parallel(token, "GET", "/v1/approvals/"+id+"?wait=60s", "")
		w.eventually("it waits", func() bool { return w.active.Load() == 1 })
		w.decide(kenToken, id, "deny", "no").is(200)
		if r := get().is(200); r.str("status") != "denied" || r.str("resolved_by") != "ken" {
			t.Errorf("got %s", r.body)
		}
	}
}

func TestARequestHasTheMembersOfTheDesign(t *testing.T) {
	w := newWorld(t)
	id := w.ask(`{"tool":"transfer","server":"bank","args":{"cents":2000},"scope":"/srv","turn_id":"t1","session_id":"s1","rationale":"rent","preview":"-20.00"}`)
	r := w.do(botToken, "GET", "/v1/approvals/"+id, "").is(200)
	want := strings.Fields(
		`agent args args_hash batch_id before consumed_at dispatched_at expires_at human_message id lapsed_at message needs outcome
		policy_digest preview previous rationale reason_code replaced_by replaces requested_at resolve_reason resolved_at
		resolved_by resolved_via risk_level rule scope server session_id status step_up summary task tool turn_id use_by version votes`)
	if got := names(r.object()); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	for name, value := range map[string]any{
		"status": "pending", "agent": "bot", "scope": "/srv", "server": "bank", "tool": "transfer", "risk_level": "high",
		"rule":        "asks",
		"reason_code": "approval_required", "human_message": "A person must confirm this.", "rationale": "rent",
		"preview": "-20.00", "turn_id": "t1",
		"session_id": "s1", "requested_at": "2026-11-21T10:00:00.000Z", "expires_at": "2026-11-21T11:00:00.000Z",
		"resolved_at": nil, "resolved_by": nil,
		"resolved_via": nil, "resolve_reason": nil, "use_by": nil, "consumed_at": nil, "lapsed_at": nil, "message": nil,
		"dispatched_at": nil, "outcome": nil, "task": false, "previous": nil, "batch_id": nil, "replaces": nil,
		"replaced_by": nil,
	} {
		if got := r.at(name); got != value {
			t.Errorf("%s: got %v, want %v", name, got, value)
		}
	}
	w.decide(hanaToken, id, "approve", "ok").is(200)
	r = w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200)
	for name, value := range map[string]any{
		"status": "approved", "resolved_at": "2026-11-21T10:00:00.000Z", "resolved_by": "hana", "resolved_via": "api",
		"resolve_reason": "ok",
		"use_by":         "2026-11-21T10:15:00.000Z",
		"message":        `[APPROVAL APPROVED] bank/transfer({"cents":2000}): approved by hana at 2026-11-21T10:00:00.000Z`,
	} {
		if got := r.at(name); got != value {
			t.Errorf("%s: got %v, want %v", name, got, value)
		}
	}
}

// A call that is let through with dispatch is sent on by whoever asked, who says what came of it; the next
// request for the same call tells of it.
func TestAnOutcomeIsReportedOnceAndToldWithTheNextRequest(t *testing.T) {
	w := newWorld(t)
	const call = `{"tool":"transfer","args":{"n":1},"tool_digest":"` +
		"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff" + `","dispatch":true,"task":true}`
	id := w.ask(call)
	path := "/v1/approvals/" + id
	report := func(token, outcome string) reply {
		return w.do(token, "POST", path+"/outcome", `{"outcome":"`+outcome+`"}`)
	}
	report(botToken, "succeeded").is(400, "invalid_parameter")
	w.decide(hanaToken, id, "approve", "").is(200)
	report(botToken, "succeeded").is(400, "invalid_parameter")
	w.clock.Advance(time.Second)
	if r := w.do(botToken, "POST", "/v1/calls", call).is(200); r.str("decision") != "approved" {
		t.Fatalf("%s", r.body)
	}
	if r := w.do(botToken, "GET", path, "").is(200); r.str("dispatched_at") != "2026-11-21T10:00:01.000Z" ||
		r.at("outcome") != nil || r.at("task") != true {
		t.Errorf("%s", r.body)
	}
	report(otherToken, "succeeded").is(404, "not_found")
	report(hanaToken, "succeeded").is(403, "agents_only")
	for range 2 {
		if r := report(botToken, "unknown").is(200); r.str("outcome") != "unknown" || r.str("id") != id {
			t.Errorf("%s", r.body)
		}
	}
	next := w.ask(call)
	for name, value := range map[string]any{
		"approval_id": id, "approved_by": "hana", "approved_at": "2026-11-21T10:00:00.000Z",
		"consumed_at":   "2026-11-21T10:00:01.000Z",
		"dispatched_at": "2026-11-21T10:00:01.000Z", "outcome": "unknown",
	} {
		if got := w.do(hanaToken, "GET", "/v1/approvals/"+next, "").is(200).at("previous", name); got != value {
			t.Errorf("the use before: %s is %v, want %v", name, got, value)
		}
	}
	report(botToken, "failed").is(200)
	if r := report(botToken, "succeeded").is(409, "already_resolved"); r.str("approval", "outcome") != "failed" {
		t.Errorf("%s", r.body)
	}
	if es := w.do(hanaToken, "GET", "/v1/audit?event_type=call_outcome", "").is(200).list("events"); len(es) != 2 ||
		es[0]["reason"] != "failed" || es[1]["reason"] != "unknown" {
		t.Errorf("on record: %v", es)
	}
}

func TestACallOfAnotherMethodIsJudgedAsOne(t *testing.T) {
	w := newWorld(t)
	for call, want := range map[string]approval.Call{
		`{"tool":"resources:read","server":"files","method":"resources/read"}`: {Agent: "bot", Server: "files",
			Tool: "resources:read", Method: "resources/read"},
		`{"tool":"read_file","method":"tools/call","dispatch":true}`: {Agent: "bot", Tool: "read_file", Dispatch: true},
		`{"tool":"read_file","task":true,"dispatch":false}`:          {Agent: "bot", Tool: "read_file", Task: true},
	} {
		c, err := readCall([]byte(call), "bot")
		c.Args = args.Args{}
		if err != nil || !reflect.DeepEqual(c, want) {
			t.Errorf("%s: got %+v, %v; want %+v", call, c, err, want)
		}
	}
	w.do(botToken, "POST", "/v1/calls", `{"tool":"resources:read","server":"files","method":"resources/read"}`).is(202)
	w.do(botToken, "POST", "/v1/calls/batch",
		`{"calls":[{"tool":"prompts:get","method":"prompts/get","dispatch":true},{"tool":"x","dispatch":"no"}]}`).is(400,
		"invalid_parameter")
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	w := newWorld(t)
	for _, r := range []reply{
		w.do(botToken, "POST", "/v1/calls", transfer, "X-Correlation-Id", "my id 7"),
		w.do("", "GET", "/v1/calls", "", "X-Correlation-Id", "my id 7"),
		w.do(hanaToken, "GET", "/nowhere", "", "X-Correlation-Id", "my id 7"),
	} {
		if got := r.header.Get("X-Correlation-Id"); got != "my id 7" {
			t.Errorf("%s: X-Correlation-Id is %q", r.what, got)
		}
		if r.header.Get("X-Content-Type-Options") != "nosniff" || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", r.what, r.header)
		}
	}
	es := w.do(hanaToken, "GET", "/v1/audit", "").is(200).list("events")
	if es[0]["correlation_id"] != "my id 7" {
		t.Errorf("the audit event has correlation id %v", es[0]["correlation_id"])
	}
	for _, bad := range []string{strings.Repeat("x", 129), "ümlaut", "tab\there", "line:01KAFJ0Q8R6ZC4V1M2N3P4Q5R6",
		"LINE:01KAFJ0Q8R6ZC4V1M2N3P4Q5R6", "slack:8123.1234.0a1b:0", "webhook:x", "web:x", "cli:x", "hook:x",
		"system:timeout", "agent:bot", " line:x", "\u202eline\u202c", "line\u200b:x", "x line:x", "ｌｉｎｅ：x"} {
		if got := w.do(botToken, "POST", "/v1/calls", transfer, "X-Correlation-Id",
			bad).header.Get("X-Correlation-Id"); got == bad || len(got) < 16 {
			t.Errorf("%q was answered with %q", bad, got)
		}
	}
}
