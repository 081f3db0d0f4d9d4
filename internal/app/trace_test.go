package app_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/client"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

// traceVar names a file with the calls of real runs: lines of JSON like those of testdata/trace.ndjson.
const traceVar = "COUNTERSIGN_TRACE"

// traceCall is one call that an agent made.
type traceCall struct {
	Run     string          `json:"run"`
	Turn    int             `json:"turn"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
	Changes bool            `json:"changes"` // a person is asked about it
	Wanted  bool            `json:"wanted"`  // and says yes
}

// key is what the gate tells calls of one run apart by.
func (c traceCall) key(t testing.TB) string {
	t.Helper()
	a, err := args.Parse(c.Args)
	if err != nil {
		t.Fatal(err)
	}
	return c.Tool + " " + string(a.Canonical())
}

// readTrace returns the runs of a trace, each with its turns.
func readTrace(t testing.TB, path string) (runs [][][]traceCall) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var last traceCall
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return runs
		}
		var c traceCall
		if err == nil {
			err = json.Unmarshal(line, &c)
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(runs) == 0 || c.Run != last.Run {
			runs, last.Turn = append(runs, nil), c.Turn-1
		}
		run := &runs[len(runs)-1]
		if c.Turn != last.Turn {
			*run = append(*run, nil)
		}
		turn := &(*run)[len(*run)-1]
		*turn, last = append(*turn, c), c
	}
}

// replay is one replay of a trace: hana decides what comes to the channel in Slack.
type replay struct {
	*world
	clock *testkit.Clock
	group string
	ask   func(c traceCall) (kind client.AnswerKind, id string) // for one of the run that is under way

	asked, pushes, decisions int
	waiting                  map[string]bool // what hana will say of each pending request
	said                     map[string]int  // how often hana has said yes to a call
	seen                     map[string]bool // messages that brought something to decide
}

const desk = `
listen: 127.0.0.1:0
store: sqlite:${STORE}
limits: none
agents: [{name: bot, token: "${AGENT_TOKEN}"}]
people: [{name: hana, roles: [approver, admin], slack: U02HANA, token: "${HANA_TOKEN}"}]
channels:
  slack: {bot_token: "${SLACK_TOKEN}", signing_secret: "${SLACK_SECRET}", channel: C0APPROVALS, api_url: "${SLACK_API}"}
mcp: {hold: %s, servers: [{name: desk, url: "${DESK}", prefix: ""}]}
policy:
  group: %s
  group_within: 20ms
  rules:
    - {name: changes, tools: [%s], risk: medium}
    - {name: reading, tools: ["*"], risk: low, action: allow}
`

// newReplay starts the program with a policy that asks about what the trace's calls change.
func newReplay(t *testing.T, runs [][][]traceCall, group string, server *deskServer) *replay {
	t.Helper()
	var changing []string
	for _, c := range slices.Concat(slices.Concat(runs...)...) {
		if c.Changes && !slices.Contains(changing, c.Tool) {
			changing = append(changing, c.Tool)
		}
	}
	clock := testkit.NewClock(time.Now())
	w := newDesk(t, clock, fmt.Sprintf(desk, "0s", group, strings.Join(changing, ", ")), server)
	return &replay{world: w, clock: clock, group: group, waiting: map[string]bool{}, said: map[string]int{},
		seen: map[string]bool{}}
}

// newDesk starts the program on a clock, with Slack and an MCP server.
func newDesk(t *testing.T, clock *testkit.Clock, text string, server *deskServer) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, dir: t.TempDir(), chat: newChat(t, clock.Now), log: &testkit.Buffer{},
		env: map[string]string{},
		now: clock.Now, elapsed: clock.Elapsed}
	for k, v := range secrets {
		w.env[k] = v
	}
	w.env["STORE"], w.env["SLACK_API"], w.env["DESK"] = filepath.Join(w.dir, "gate.db"), w.chat.Slack.URL(), server.url
	schematest.WriteFile(t, filepath.Join(w.dir, "gate.db"))
	w.path = filepath.Join(w.dir, "countersign.yaml")
	if err := os.WriteFile(w.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", w.log)
		}
		if v := w.chat.Violations(); len(v) != 0 {
			t.Errorf("the platform's rules were broken: %v", v)
		}
	})
	return w
}

// pass lets time pass on the replay's clock.
func (r *replay) pass(d time.Duration) { r.clock.Advance(d) }

// make makes the calls of one turn.
func (r *replay) make(calls []traceCall) {
	r.t.Helper()
	for _, c := range calls {
		kind, id := r.ask(c)
		switch {
		case !c.Changes && kind != client.AnswerAllow:
			r.t.Fatalf("%s of %s is %s", c.Tool, c.Run, kind)
		case c.Changes:
			r.asked++
			if kind == client.AnswerPending {
				r.waiting[id] = r.waiting[id] || c.Wanted
			}
			r.mayHaveRun(c, kind)
		}
	}
}

// mayHaveRun holds that a call which was let through is one that hana said yes to, once for each time.
func (r *replay) mayHaveRun(c traceCall, kind client.AnswerKind) {
	r.t.Helper()
	if kind != client.AnswerAllow && kind != client.AnswerApproved {
		return
	}
	if r.said[c.key(r.t)]--; r.said[c.key(r.t)] < 0 {
		r.t.Errorf("%s of %s, turn %d, ran and nobody had approved it", c.Tool, c.Run, c.Turn)
	}
}

// decide has hana decide all that waits, by the buttons of its cards, and the agent make the calls again that she
// approved.
func (r *replay) decide(calls []traceCall) {
	r.t.Helper()
	if len(r.waiting) == 0 {
		return
	}
	r.pass(time.Second) // the cards have left
	if err := r.chat.WaitFor(r.ctx, func() bool {
		shown := r.cards()
		for id := range r.waiting {
			if !slices.ContainsFunc(shown, func(c card) bool { return c.shows(id) }) {
				return false
			}
		}
		return true
	}); err != nil {
		r.t.Fatalf("not all of %d requests came to hana", len(r.waiting))
	}
	for _, c := range r.cards() {
		if !r.seen[c.ts] {
			r.seen[c.ts] = true
			r.pushes++
		}
		r.press(c)
	}
	if len(r.waiting) > 0 {
		r.t.Fatalf("no card has buttons for %v", r.waiting)
	}
	for _, c := range calls {
		if c.Changes && r.said[c.key(r.t)] > 0 {
			kind, _ := r.ask(c)
			if kind != client.AnswerApproved {
				r.t.Fatalf("%s of %s was approved, and is %s", c.Tool, c.Run, kind)
			}
			r.mayHaveRun(c, kind)
		}
	}
}

// press has hana decide what stands on a card: what fewer of it are one by one, and the rest together where there are
// buttons for that.
func (r *replay) press(c card) {
	r.t.Helper()
	said := map[bool][]string{}
	for _, id := range c.items {
		if yes, ok := r.waiting[id]; ok {
			said[yes] = append(said[yes], id)
		}
	}
	most := len(said[true]) >= len(said[false])
	for _, id := range said[!most] {
		r.say(c, !most, id, id)
	}
	switch rest := said[most]; {
	case len(rest) > 1 && c.all != "":
		r.say(c, most, c.all, rest...)
	default:
		for _, id := range rest {
			r.say(c, most, id, id)
		}
	}
}

// say has hana press one button, which decides some requests.
func (r *replay) say(c card, yes bool, value string, ids ...string) { //nolint:revive // hana's word
	r.t.Helper()
	verb, want := "deny", "denied"
	if yes {
		verb, want = "approve", "approved"
	}
	r.ok(r.chat.Slack.Tap(r.ctx, "hana", "C0APPROVALS", c.ts, verb, value))
	if !yes { // the dialog asks why
		r.eventually("the dialog", func() bool { _, open := r.chat.Slack.Views.Top("hana"); return open })
		r.ok(r.chat.Slack.Views.Submit(r.ctx, "hana", "", typedReason("not now")))
	}
	r.decisions++
	for _, id := range ids {
		a := r.status(id)
		if a.Status != want {
			r.t.Fatalf("%s is %s after %s", id, a.Status, verb)
		}
		if yes {
			r.said[traceCall{Tool: a.Tool, Args: a.Args}.key(r.t)]++
		}
		delete(r.waiting, id)
	}
}

// card is a message with something to decide.
type card struct {
	ts    string
	items []string // requests that have buttons of their own
	all   string   // what the buttons for all of them say; "": there are none
}

func (c card) shows(id string) bool { return slices.Contains(c.items, id) }

// cards are the messages with buttons that hana sees, oldest first.
func (r *replay) cards() (cs []card) {
	for _, m := range r.chat.Slack.Messages("C0APPROVALS") {
		var blocks []struct {
			Elements []struct {
				ActionID string `json:"action_id"`
				Value    string `json:"value"`
			} `json:"elements"`
		}
		if !m.FromBot || m.Ephemeral != "" || json.Unmarshal(m.Blocks, &blocks) != nil {
			continue
		}
		c := card{ts: m.TS}
		for _, b := range blocks {
			for _, e := range b.Elements {
				if e.ActionID != "approve" {
					continue
				}
				if _, ok := r.waiting[e.Value]; ok {
					c.items = append(c.items, e.Value)
				} else {
					c.all = e.Value
				}
			}
		}
		if len(c.items) > 0 {
			cs = append(cs, c)
		}
	}
	return cs
}

// overAPI asks about a run's calls over /v1.
func (r *replay) overAPI(*deskServer) func(traceCall) (client.AnswerKind, string) {
	return func(c traceCall) (client.AnswerKind, string) {
		a := r.call(client.Call{Server: "desk", Tool: c.Tool, Args: c.Args, SessionID: c.Run, TurnID: fmt.Sprint(c.Turn)})
		return a.Kind, a.ApprovalID
	}
}

// throughGateway makes a run's calls through the gateway. What ran is what the server says.
func (r *replay) throughGateway(s *deskServer) func(traceCall) (client.AnswerKind, string) {
	session := newMCPSession(r.t, r.url("/mcp"), secrets["AGENT_TOKEN"])
	return func(c traceCall) (client.AnswerKind, string) {
		ran := s.count()
		kind, id := session.call(c.Tool, c.Args)
		if s.count() != ran {
			if last := s.last(); last.key(r.t) != c.key(r.t) {
				r.t.Errorf("%s ran, asked was %s", last.key(r.t), c.key(r.t))
			}
			if kind = client.AnswerAllow; c.Changes {
				kind = client.AnswerApproved
			}
		} else if kind == client.AnswerAllow {
			r.t.Errorf("%s did not run", c.Tool)
		}
		return kind, id
	}
}

// run replays the runs of a trace. Hana decides after each turn, or where the calls of a run share a card after each
// run. Runs are so far apart that none remembers another.
func (r *replay) run(runs [][][]traceCall, way func(*replay, *deskServer) func(traceCall) (client.AnswerKind, string),
	server *deskServer) {
	r.t.Helper()
	for _, run := range runs {
		r.ask = way(r, server)
		for _, turn := range run {
			r.make(turn)
			if r.group != "run" {
				r.decide(turn)
			}
			r.pass(20 * time.Second)
		}
		if r.group == "run" {
			r.decide(slices.Concat(run...))
		}
		r.pass(time.Hour)
	}
	for call, n := range r.said {
		if n > 0 {
			r.t.Errorf("%s was approved %d times more than it ran", call, n)
		}
	}
}

// per100 is n for 100 of the calls about which a person was to be asked.
func (r *replay) per100(n int) float64 { return 100 * float64(n) / float64(r.asked) }

// How often people are asked: a trace replayed with each way of putting calls on cards, over both ways in. Calls and
// turns are decided after each turn, runs after each run.
func TestATraceComesToPeopleOnFewCards(t *testing.T) {
	t.Parallel()
	path, own := os.Getenv(traceVar), false
	if path == "" {
		path, own = filepath.Join("testdata", "trace.ndjson"), true
	}
	runs := readTrace(t, path)
	most := map[string]float64{"call": 100, "turn": 76, "run": 55}
	exact := map[string][2]int{"call": {20, 20}, "turn": {12, 14}, "run": {5, 11}} // pushes, decisions
	var table strings.Builder
	fmt.Fprintf(&table, "%-8s %-5s %6s %7s %10s %12s %15s\n", "way in", "group", "asked", "pushes", "decisions",
		"pushes/100", "decisions/100")
	for _, way := range []struct {
		name string
		asks func(*replay, *deskServer) func(traceCall) (client.AnswerKind, string)
	}{{"/v1", (*replay).overAPI}, {"gateway", (*replay).throughGateway}} {
		for _, group := range []string{"call", "turn", "run"} {
			t.Run(strings.Trim(way.name, "/")+" "+group, func(t *testing.T) {
				server := newDeskServer(t, runs)
				r := newReplay(t, runs, group, server)
				r.run(runs, way.asks, server)
				fmt.Fprintf(&table, "%-8s %-5s %6d %7d %10d %12.1f %15.1f\n", way.name, group, r.asked, r.pushes, r.decisions,
					r.per100(r.pushes),
					r.per100(r.decisions))
				if got := [2]int{r.pushes, r.decisions}; own && got != exact[group] {
					t.Errorf("%d pushes and %d decisions, want %v", r.pushes, r.decisions, exact[group])
				}
				if got := r.per100(r.pushes); !own && got > most[group] {
					t.Errorf("%.1f pushes per 100 calls, want at most %.0f", got, most[group])
				}
			})
		}
	}
	t.Logf("%s:\n%s", filepath.Base(path), &table)
}

// deskServer is an MCP server with the tools of a trace. It keeps what it ran.
type deskServer struct {
	url string
	mu  sync.Mutex
	ran []traceCall
}

func (s *deskServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ran)
}

func (s *deskServer) last() traceCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ran[len(s.ran)-1]
}

func newDeskServer(t *testing.T, runs [][][]traceCall) *deskServer {
	t.Helper()
	s := &deskServer{}
	var tools []string
	for _, c := range slices.Concat(slices.Concat(runs...)...) {
		if tool := `{"name":"` + c.Tool + `","inputSchema":{"type":"object"}}`; !slices.Contains(tools, tool) {
			tools = append(tools, tool)
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"params"`
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		answer := `"error":{"code":-32601,"message":"no"}`
		switch m.Method {
		case "initialize":
			answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"desk","version":"1"}}`
		case "tools/list":
			answer = `"result":{"tools":[` + strings.Join(tools, ",") + `]}`
		case "tools/call":
			s.mu.Lock()
			s.ran = append(s.ran, traceCall{Tool: m.Params.Name, Args: m.Params.Arguments})
			s.mu.Unlock()
			answer = `"result":{"content":[]}`
		case "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)
	}))
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

// mcpSession is an MCP client's session of the old era.
type mcpSession struct {
	t          testing.TB
	url, token string
	id         string       // the session's, from the first response
	last       atomic.Int64 // id of a request
}

func newMCPSession(t testing.TB, url, token string) *mcpSession {
	t.Helper()
	s := &mcpSession{t: t, url: url, token: token}
	s.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s
}

// post sends a message and returns the response to it, "" for none.
func (s *mcpSession) post(body string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+s.token)
	if s.id != "" {
		req.Header.Set("Mcp-Session-Id", s.id)
		req.Header.Set("MCP-Protocol-Version", "2025-11-25")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode/100 != 2 {
		s.t.Fatalf("%v, %d: %s", err, res.StatusCode, b)
	}
	if s.id == "" {
		s.id = res.Header.Get("Mcp-Session-Id")
	}
	for line := range bytes.Lines(b) { // the response is the last event of a stream
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			b = data
		}
	}
	return string(b)
}

// call calls a tool, and returns what the gate said of it and the request; allow where the tool answered.
func (s *mcpSession) call(tool string, arguments json.RawMessage) (client.AnswerKind, string) {
	s.t.Helper()
	body := s.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`,
		s.last.Add(1), tool, arguments))
	var m struct {
		Result *struct {
			Meta struct {
				Decision string `json:"countersign/decision"`
				ID       string `json:"countersign/approval_id"`
			} `json:"_meta"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil || m.Result == nil {
		s.t.Fatalf("%s: %v, %s", tool, err, body)
	}
	return client.AnswerKind(cmp.Or(m.Result.Meta.Decision, string(approval.AnswerAllow))), m.Result.Meta.ID
}
