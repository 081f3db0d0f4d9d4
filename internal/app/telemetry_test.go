package app_test

import (
	"bufio"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/telemetry/telemetrytest"
	"countersign/internal/testkit"
)

// An agent's own span: the gate's are below it.
const (
	agentTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	agentSpan   = "00f067aa0ba902b7"
	traceparent = "00-" + agentTrace + "-" + agentSpan + "-01"
	laterTrace  = "0af7651916cd43dd8448eb211c80319c"
	laterSpan   = "b7ad6b7169203331"
)

// What nobody but the gate and its people may read.
const (
	markedArgs   = "MARK-of-arguments"
	markedReason = "MARK-of-a-reason"
	markedWords  = "MARK-of-rationale"
)

func tracing(c *telemetrytest.Collector) func(string) string {
	return replacing("limits: none\n", "limits: none\ntelemetry: {otlp: \""+c.URL+"\"}\n")
}

// ask makes the call whose life the tests follow, in a trace.
func (w *world) ask(parent string, want client.AnswerKind) client.Answer {
	w.t.Helper()
	a, err := w.bot.Call(client.WithTraceparent(w.ctx, parent), client.Call{Tool: "transfer_credits",
		Args: json.RawMessage(`{"amount_cents":2000,"note":"` + markedArgs + `"}`), Rationale: markedWords})
	if err != nil || a.Kind != want {
		w.t.Fatalf("%s, %v, want %s", a.Kind, err, want)
	}
	return a
}

// live leads a call from its question to its use. between is called while people are asked.
func (w *world) live(between func()) (id string) {
	w.t.Helper()
	id = w.ask(traceparent, client.AnswerPending).ApprovalID
	w.lineCard(id, 1)
	between()
	w.tapLINE("hana", id, "approve")
	w.ask("00-"+laterTrace+"-"+laterSpan+"-01", client.AnswerApproved)
	return id
}

// checkLife checks that a call's life is one trace, below the agent's span.
func checkLife(t *testing.T, c *telemetrytest.Collector, id string) {
	t.Helper()
	doors := c.Named("POST /v1/calls")
	if len(doors) != 2 {
		t.Fatalf("%d calls have spans, want 2: %+v", len(doors), c.Spans())
	}
	first, second := doors[0], doors[1]
	if first.Trace != agentTrace || first.Parent != agentSpan || !first.Server {
		t.Errorf("the call is not below the agent's span: %+v", first)
	}
	if second.Trace != laterTrace || second.Parent != laterSpan {
		t.Errorf("the second call is not below its own agent's span: %+v", second)
	}
	asked := c.Only("approval transfer_credits")
	if asked.Parent != first.ID || asked.Trace != agentTrace || asked.Attributes["countersign.decision"] != "approve" {
		t.Errorf("the request is not below its call: %+v", asked)
	}
	pushed, pressed, used := c.Named("push"), c.Only("press"), c.Only("use")
	if len(pushed) == 0 {
		t.Error("no card has a span")
	}
	for _, s := range append(pushed, pressed, used) {
		if s.Trace != agentTrace || s.Parent != asked.ID || s.Attributes["countersign.request.id"] != id ||
			s.Attributes["gen_ai.tool.name"] != "transfer_credits" {
			t.Errorf("%s is not below its request: %+v", s.Name, s)
		}
	}
	if pressed.Attributes["countersign.via"] != "line" || pressed.Attributes["countersign.decision"] != "approve" {
		t.Errorf("the press: %v", pressed.Attributes)
	}
	if !slices.Equal(used.Links, []string{second.ID}) {
		t.Errorf("the use is linked with %v, want the call that used it, %s", used.Links, second.ID)
	}
	for _, s := range []telemetrytest.Span{first, second} {
		if s.Attributes["countersign.request.id"] != id || s.Attributes["gen_ai.tool.name"] != "transfer_credits" {
			t.Errorf("the call: %v", s.Attributes)
		}
	}
	if a, b := first.Attributes["countersign.answer"], second.Attributes["countersign.answer"]; a != "pending" ||
		b != "approved" {
		t.Errorf("the calls were answered %s and %s", a, b)
	}
}

func TestALifeIsOneTrace(t *testing.T) {
	t.Parallel()
	c := telemetrytest.New(t)
	w := newWorld(t, tracing(c))
	id := w.live(func() {})
	if es := w.audit("approval_requested"); len(es) != 1 || !strings.Contains(string(es[0].Data), agentTrace) {
		t.Errorf("the audit log does not name the trace: %s", es[0].Data)
	}
	w.stop()
	checkLife(t, c, id)
}

// What a request's spans are below is on record: a restart loses nothing of it.
func TestALifeIsOneTraceAcrossARestart(t *testing.T) {
	t.Parallel()
	c := telemetrytest.New(t)
	w := newWorld(t, tracing(c))
	id := w.live(func() { w.stop(); w.start() })
	w.stop()
	checkLife(t, c, id)
}

// A person who approves other arguments makes a request without a call: it is in the trace of the one that it replaces.
func TestAnEditIsInTheTraceOfWhatItReplaces(t *testing.T) {
	t.Parallel()
	for flags, sampled := range map[string]bool{"01": true, "00": false} {
		c := telemetrytest.New(t)
		w := newWorld(t, tracing(c))
		first := w.ask("00-"+agentTrace+"-"+agentSpan+"-"+flags, client.AnswerPending).ApprovalID
		w.stop()
		w.start()
		d, err := w.hana.Decide(w.ctx, first, client.Approve, "", client.WithArgs(json.RawMessage(`{"amount_cents":1}`)))
		if err != nil || d.Replaces != first {
			t.Fatalf("%+v, %v", d, err)
		}
		w.stop()
		var old, edited telemetrytest.Span
		for _, s := range c.Named("approval transfer_credits") {
			if s.Attributes["countersign.request.id"] == first {
				old = s
			} else {
				edited = s
			}
		}
		if !sampled {
			if spans := c.Spans(); len(spans) != 0 {
				t.Errorf("spans were sent: %+v", spans)
			}
			continue
		}
		if old.Trace != agentTrace || edited.Trace != agentTrace || edited.Parent != old.ID ||
			edited.Attributes["countersign.request.id"] != d.ID {
			t.Errorf("the edit is not below what it replaces: %+v", c.Spans())
		}
	}
}

func TestATraceIsTheRequestsOwnWhereTheAgentHasNone(t *testing.T) {
	t.Parallel()
	for _, hostile := range []string{"", "00-" + strings.Repeat("0", 32) + "-" + agentSpan + "-01",
		"00-" + agentTrace + "-" + agentSpan, "ff-" + agentTrace + "-" + agentSpan + "-01", strings.Repeat("9", 4000),
		"00-" + strings.ToUpper(agentTrace) + "-" + agentSpan + "-01", `00-"}{"x":"` + agentTrace, "\t\x7f"} {
		c := telemetrytest.New(t)
		w := newWorld(t, tracing(c))
		r, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.url("/v1/calls"),
			strings.NewReader(`{"tool":"transfer_credits","args":{"amount_cents":2000}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+secrets["AGENT_TOKEN"])
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Traceparent", strings.TrimRight(hostile, "\x7f"))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		http.DefaultClient.CloseIdleConnections()
		if answer.StatusCode != http.StatusAccepted {
			t.Errorf("%q: answered %d", hostile, answer.StatusCode)
		}
		id := w.audit("approval_requested")[0].ApprovalID
		w.tapLINE("hana", id, "deny")
		w.stop()
		door, asked, pressed := c.Only("POST /v1/calls"), c.Only("approval transfer_credits"), c.Only("press")
		if door.Parent != "" || door.Trace == agentTrace || asked.Parent != door.ID || asked.Trace != door.Trace ||
			pressed.Parent != asked.ID {
			t.Errorf("%q: %+v", hostile, c.Spans())
		}
	}
}

// A trace that its agent does not sample is not sampled here, all its life.
func TestWhatTheAgentDoesNotSampleIsNotSent(t *testing.T) {
	t.Parallel()
	c := telemetrytest.New(t)
	w := newWorld(t, tracing(c))
	id := w.ask("00-"+agentTrace+"-"+agentSpan+"-00", client.AnswerPending).ApprovalID
	w.tapLINE("hana", id, "deny")
	w.stop()
	if spans := c.Spans(); len(spans) != 0 {
		t.Errorf("spans were sent: %+v", spans)
	}
}

// What agents and people say stays here, whatever becomes of the call.
func TestNothingThatAnyoneSaysIsExported(t *testing.T) {
	t.Parallel()
	c := telemetrytest.New(t)
	w := newWorld(t, tracing(c))
	id := w.live(func() {})
	second := w.expect(client.Call{Tool: "close_books", Args: json.RawMessage(`{"x":"` + markedArgs + `"}`),
		Rationale: markedWords, Preview: markedWords, SessionID: markedWords}, client.AnswerPending).ApprovalID
	if _, err := w.hana.Decide(w.ctx, second, client.Deny, markedReason); err != nil {
		t.Fatal(err)
	}
	third := w.expect(transfer(3000), client.AnswerPending).ApprovalID
	if _, err := w.bot.Cancel(w.ctx, third, markedReason); err != nil {
		t.Fatal(err)
	}
	w.expect(client.Call{Tool: "read_file", Args: json.RawMessage(`{"x":"` + markedArgs + `"}`)}, client.AnswerAllow)
	w.stop()
	if !c.Holds(id) || !c.Holds(second) || !c.Holds(third) {
		t.Fatal("not all was sent")
	}
	words := []string{markedArgs, markedReason, markedWords, "amount_cents", "hana", hanaLINE, "0xAbC"}
	for _, said := range append(words, slices.Collect(maps.Values(secrets))...) {
		if c.Holds(said) {
			t.Errorf("%q was sent", said)
		}
	}
}

// A collector that hangs keeps nobody waiting: all of a life goes by while it holds what it was sent, and the program
// stops.
func TestACollectorThatHangsDelaysNobody(t *testing.T) {
	t.Parallel()
	c := telemetrytest.NewHanging(t)
	w := newWorld(t, tracing(c))
	w.live(func() { w.eventually("an export that hangs", func() bool { return c.Asked() > 0 }) })
	for cents := range 50 {
		w.expect(transfer(10_000+cents), client.AnswerPending)
	}
	w.stop()
	if len(c.Spans()) != 0 {
		t.Error("the collector did not hang")
	}
	if !strings.Contains(w.log.String(), "could not be sent to the OpenTelemetry collector") &&
		!strings.Contains(w.log.String(), "does not take what the gate sends") {
		t.Error("the log does not say that the collector hangs")
	}
}

func TestACollectorThatRefusesIsLogged(t *testing.T) {
	t.Parallel()
	c := telemetrytest.New(t)
	c.Refuse = http.StatusUnauthorized
	w := newWorld(t, tracing(c))
	w.live(func() {
		w.eventually("a refused export is counted", func() bool {
			return strings.Contains(w.get("/metrics"), `countersign_telemetry_exports_total{result="failed",signal="traces"}`)
		})
	})
	w.stop()
	if !strings.Contains(w.log.String(), "the OpenTelemetry collector does not take what the gate sends") {
		t.Error("the log does not say that the collector refuses")
	}
}

// The metrics that are sent are those of /metrics, under the same names.
func TestMetricsHaveTheirNames(t *testing.T) {
	t.Parallel()
	c := telemetrytest.New(t)
	w := newWorld(t, tracing(c))
	w.live(func() {})
	shown := map[string]bool{}
	for lines := bufio.NewScanner(strings.NewReader(w.get("/metrics"))); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "# TYPE "); ok {
			name, _, _ = strings.Cut(name, " ")
			shown[name] = true
		}
	}
	w.stop()
	sent := c.Metrics()
	// These have no value before the first export, and the first run, which may come in between.
	for _, name := range []string{"countersign_telemetry_exports_total", "countersign_heartbeat_runs_total"} {
		delete(sent, name)
		delete(shown, name)
	}
	if len(shown) < 40 || !maps.Equal(sent, shown) {
		t.Errorf("%d are shown, %d sent; shown alone %v, sent alone %v", len(shown), len(sent), lacking(shown, sent),
			lacking(sent, shown))
	}
}

func lacking(a, b map[string]bool) (names []string) {
	for name := range a {
		if !b[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// A call over MCP is in the trace that its metadata names, with the names of the conventions, until it has run.
func TestACallOverMCPIsInItsTrace(t *testing.T) {
	t.Parallel()
	server := newDeskServer(t, [][][]traceCall{{{{Tool: "transfer_credits"}}}})
	c := telemetrytest.New(t)
	w := newWorld(t, tracing(c), replacing("policy:\n",
		"mcp: {hold: 1m, servers: [{name: desk, url: \""+server.url+"\", prefix: \"\"}]}\npolicy:\n"))
	session := newMCPSession(t, w.url("/mcp"), secrets["AGENT_TOKEN"])
	answered := make(chan string, 1)
	go func() {
		answered <- session.post(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"transfer_credits",` +
			`"arguments":{"amount_cents":2000,"note":"` + markedArgs + `"},"_meta":{"traceparent":"` + traceparent +
			`","claudecode/toolUseId":"toolu_01ABC"}}}`)
	}()
	var id string
	w.eventually("the call waits", func() bool {
		rs, err := w.hana.Approvals(w.ctx, client.ApprovalQuery{Status: "pending"})
		if err == nil && len(rs.Items) == 1 {
			id = rs.Items[0].ID
		}
		return id != ""
	})
	w.tapLINE("hana", id, "approve")
	if body := testkit.Receive(t, "the answer", answered); strings.Contains(body, "isError\":true") {
		t.Error(body)
	}
	w.stop()
	door, asked := c.Only("tools/call transfer_credits"), c.Only("approval transfer_credits")
	if door.Trace != agentTrace || door.Parent != agentSpan || !door.Server || door.Failed {
		t.Errorf("the call: %+v", door)
	}
	for key, want := range map[string]string{"mcp.method.name": "tools/call", "gen_ai.tool.name": "transfer_credits",
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "toolu_01ABC", "countersign.server": "desk",
		"countersign.answer": "approved", "countersign.request.id": id} {
		if got := door.Attributes[key]; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if door.Attributes["mcp.session.id"] == "" {
		t.Error("the call has no session")
	}
	ran := c.Only("execute_tool transfer_credits")
	for _, s := range []telemetrytest.Span{c.Only("press"), c.Only("use"), ran} {
		if s.Trace != agentTrace || s.Parent != asked.ID || asked.Parent != door.ID || len(s.Links) != 0 {
			t.Errorf("%s: %+v", s.Name, s)
		}
	}
	if ran.Failed || ran.End.Before(ran.Start) {
		t.Errorf("the call that ran: %+v", ran)
	}
	if c.Holds(markedArgs) {
		t.Error("arguments were sent")
	}
}

func TestAHookIsInItsTrace(t *testing.T) {
	t.Parallel()
	c := telemetrytest.New(t)
	w := newWorld(t, tracing(c))
	r, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.url("/hooks/claude-code"), strings.NewReader(
		`{"session_id":"h1","cwd":"/srv","hook_event_name":"PreToolUse","tool_name":"read_file","tool_input":{"a":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secrets["AGENT_TOKEN"])
	r.Header.Set("Traceparent", traceparent)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	es := w.audit("call_allowed")
	if len(es) != 1 || !strings.Contains(string(es[0].Data), agentTrace) {
		t.Errorf("the audit log does not name the trace: %v", es)
	}
	w.stop()
	door := c.Only("POST /hooks/claude-code")
	if door.Trace != agentTrace || door.Parent != agentSpan || door.Attributes["gen_ai.tool.name"] != "read_file" ||
		door.Attributes["countersign.answer"] != "allow" {
		t.Errorf("the hook's call: %+v", door)
	}
}

// Nothing is sent, built or put on record where the configuration does not say so.
func TestNothingIsSentUnlessItIsConfigured(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.live(func() {})
	if w.app.HasTelemetry() {
		t.Error("there is telemetry")
	}
	for _, e := range w.audit("") {
		if strings.Contains(string(e.Data), "traceparent") {
			t.Errorf("a trace is on record: %s", e.Data)
		}
	}
	if strings.Contains(w.get("/metrics"), "telemetry") {
		t.Error("there are metrics of telemetry")
	}
}
