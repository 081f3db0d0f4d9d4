package campaign_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"time"

	"countersign/internal/campaign"
)

// agent is one agent with what it does, all of it drawn from its own source.
type agent struct {
	*world
	ctx     context.Context
	r       *rand.Rand
	name    string
	waiting []known // calls that it was told to come back with
	session string  // of MCP
	last    int
	starts  bool // its client starts a server of its own
	wrapper *wrapper
}

// tools are what agents call over /v1, the more often the more often they stand here.
var tools = []string{"read", "read", "erase", "pay", "pay", "pay", "spend", "spend", "spend", "move", "move", "wire",
	"wire", "wire", "ship", "ship", "brief", "close", "open", "note", "note", "odd"}

// pause is how long whoever it is thinks.
func (w *world) pause(r *rand.Rand, most time.Duration) {
	time.Sleep(time.Duration(r.Int64N(int64(most)))) // real: agents and people take their time
}

func (a *agent) act() {
	type action struct {
		op    string
		often int
		do    func()
	}
	actions := []action{
		{"", 10, func() { a.call("rest", "") }},
		{"wait", 4, func() { a.call("wait", fmt.Sprintf("?wait=%ds", 1+a.r.IntN(2))) }},
		{"batch", 2, a.batch},
		{"hook", 3, a.hook},
		{"mcp", 6, a.mcp},
		{"stdio", 8, a.stdio},
		{"feed", 2, a.feed},
		{"cancel", 1, a.cancel},
		{"strangers", 2, a.meddle},
		{"", 1, func() { a.read(a.name) }},
	}
	n := a.r.IntN(39)
	for _, x := range actions {
		if n -= x.often; n < 0 {
			if x.op == "" || a.plan.has(x.op) {
				x.do()
			}
			return
		}
	}
}

// draw makes up a call, or takes one up that waits.
func (a *agent) draw(from []string) known {
	if len(a.waiting) > 0 && a.r.IntN(5) < 3 {
		if k := a.waiting[a.r.IntN(len(a.waiting))]; slices.Contains(from, k.tool) {
			if k.tool == "note" { // what the rule ignores is written anew each time
				k.args = memos.ReplaceAllString(k.args, fmt.Sprintf(`"m%d"`, a.r.IntN(3)))
			}
			return k
		}
	}
	if k, ok := a.pickGranted(a.r, a.name); ok && a.r.IntN(2) == 0 && slices.Contains(from, k.tool) {
		if k.tool == "spend" || a.r.IntN(4) == 0 {
			k.args = a.vary(k.args)
		}
		return k
	}
	k := known{agent: a.name, tool: from[a.r.IntN(len(from))]}
	n := a.calls.Add(1)/24*4 + int64(a.r.IntN(4))
	switch k.tool {
	case "note":
		k.args = fmt.Sprintf(`{"memo":"m%d","n":%d}`, a.r.IntN(3), n)
	case "spend":
		k.args = fmt.Sprintf(`{"amount":%d,"n":%d}`, 10*a.r.IntN(7), n/2)
	case "look", "put":
		k.args = fmt.Sprintf(`{"by":%q,"n":%d}`, a.name, n)
	case "read":
		if a.r.IntN(3) == 0 {
			k.args = fmt.Sprintf(`{"N":1,"n":%d}`, n)
			break
		}
		fallthrough
	default:
		k.args = fmt.Sprintf(`{"n":%d}`, n)
	}
	return k
}

// memos are what the rule of notes ignores.
var memos = regexp.MustCompile(`"m\d"`)

// digits are the numbers in arguments.
var digits = regexp.MustCompile(`:\d+`)

// vary makes other arguments of some: an amount that may do or not, or another number.
func (a *agent) vary(args string) string {
	first := true
	return digits.ReplaceAllStringFunc(args, func(n string) string {
		if !first {
			return n
		}
		first = false
		return fmt.Sprintf(":%d", 10*a.r.IntN(8))
	})
}

// remember keeps a call that is to be made again, and forgets one that was answered for good.
func (a *agent) remember(k known, o *campaign.Op) {
	for i, w := range a.waiting {
		if w.tool == k.tool && w.args == k.args {
			a.waiting = append(a.waiting[:i], a.waiting[i+1:]...)
			break
		}
	}
	if !o.Answered || o.Answer.Word == "pending" {
		a.waiting = append(a.waiting, k)
	}
	if len(a.waiting) > 10 {
		a.waiting = a.waiting[1:]
	}
	if k.id = o.Answer.ID; o.Answer.Word == "pending" {
		a.learn(&k)
	}
}

func (a *agent) op(way string, k known) *campaign.Op {
	return &campaign.Op{Kind: campaign.Call, Way: way, Who: a.name, Agent: a.name, Tool: k.tool, Args: k.args}
}

// told reads the answer to a call. An agent that has said that it accepts edits runs what it is told to, and any other
// what it has asked for.
func (a *agent) told(o *campaign.Op, asked map[string]any, body []byte) {
	if err := json.Unmarshal(body, &o.Answer); err != nil {
		a.t.Errorf("an answer that is none: %s", body)
	}
	if asked["accepts_edits"] == nil || len(o.Answer.Args) == 0 {
		o.Answer.Args = json.RawMessage(o.Args)
	}
}

func (a *agent) callBody(k known) map[string]any {
	body := map[string]any{"tool": k.tool, "args": json.RawMessage(k.args)}
	if k.tool == "pay" && a.plan.has("report") && a.r.IntN(3) == 0 {
		body["dispatch"] = true
	}
	if k.tool == "pay" || k.tool == "note" && a.r.IntN(2) == 0 {
		body["accepts_edits"] = true
	}
	if a.r.IntN(2) == 0 {
		body["session_id"], body["turn_id"] = "s-"+a.name, fmt.Sprint("t", a.calls.Load()/20)
	}
	return body
}

// call asks about a call over /v1.
func (a *agent) call(way, query string) { a.askAbout(a.draw(tools), way, query) }

// askAbout asks about a call, and reports what came of it where that was asked for. One that a grant lets through is
// made again, mostly.
func (a *agent) askAbout(k known, way, query string) {
	o := a.op(way, k)
	body := a.callBody(k)
	text := a.ask(a.ctx, o, a.name, http.MethodPost, "/v1/calls"+query, body)
	if text != nil {
		a.told(o, body, text)
	}
	a.note(o)
	a.remember(k, o)
	if id := o.Answer.ID; body["dispatch"] != nil && o.Answer.Word == "approved" {
		report := &campaign.Op{Kind: "report", Way: "rest", Who: a.name, ID: id}
		outcome := []string{"succeeded", "succeeded", "failed", "unknown"}[a.r.IntN(4)]
		a.ask(a.ctx, report, a.name, http.MethodPost, "/v1/approvals/"+id+"/outcome", map[string]string{"outcome": outcome})
		a.note(report)
	}
	if o.Answer.Grant != "" && a.r.IntN(4) > 0 {
		if k.tool == "spend" {
			k.args = a.vary(k.args)
		}
		a.askAbout(k, "rest", "")
	}
}

func (a *agent) batch() {
	var ks []known
	var bodies []map[string]any
	for range 2 + a.r.IntN(3) {
		k := a.draw(tools)
		ks, bodies = append(ks, k), append(bodies, a.callBody(k))
	}
	var whole campaign.Op
	text := a.ask(a.ctx, &whole, a.name, http.MethodPost, "/v1/calls/batch", map[string]any{"calls": bodies})
	var results struct{ Results []json.RawMessage }
	if text != nil && (json.Unmarshal(text, &results) != nil || len(results.Results) != len(ks)) {
		a.t.Errorf("an answer to a batch that is none: %s", text)
	}
	for i, k := range ks {
		o := a.op("batch", k)
		o.Start, o.Answered, o.Status, o.Code, o.Fault = whole.Start, whole.Answered, whole.Status, whole.Code, whole.Fault
		if text != nil {
			a.told(o, bodies[i], results.Results[i])
		}
		a.note(o)
		a.remember(k, o)
	}
}

// hook asks as a coding agent's hook does. It runs what it is allowed to, and says nothing of which request that was.
func (a *agent) hook() {
	k := a.draw([]string{"pay", "move", "note", "spend"})
	o := a.op("hook", k)
	o.Scope = "/srv"
	body := fmt.Sprintf(`{"session_id":"h-%s","cwd":"/srv","hook_event_name":"PreToolUse","tool_name":%q,"tool_input":%s}`,
		a.name, k.tool, k.args)
	text := a.ask(a.ctx, o, a.name, http.MethodPost, "/hooks/claude-code?wait=1s", body)
	var answer struct {
		Output struct {
			Decision string          `json:"permissionDecision"`
			Input    json.RawMessage `json:"updatedInput"`
		} `json:"hookSpecificOutput"`
	}
	if text != nil && json.Unmarshal(text, &answer) == nil && answer.Output.Decision == "allow" {
		o.Answer.Word = "ran"
		runs := cmp.Or(string(answer.Output.Input), k.args)
		run := &campaign.Op{Kind: campaign.Run, Way: "hook", Who: a.name, Agent: a.name, Tool: k.tool, Args: runs,
			Start: time.Since(a.began), Answered: true, Status: 200}
		defer a.note(run)
	}
	a.note(o)
}

// mcp calls a tool through the gateway, in a session that is opened where there is none.
func (a *agent) mcp() {
	k := a.draw([]string{"look", "put", "put"})
	if k.tool != "look" && k.tool != "put" {
		return
	}
	if a.session == "" {
		a.post(&campaign.Op{}, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
		a.post(&campaign.Op{}, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	o := a.op("mcp", k)
	o.Server = "desk"
	a.last++
	text := a.post(o, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`,
		a.last, k.tool, k.args))
	if !a.readResult(o, text) {
		a.session = ""
	}
	a.note(o)
	a.remember(k, o)
}

// readResult reads what a call of a tool was answered, and reports whether it is a result.
func (a *agent) readResult(o *campaign.Op, text []byte) bool {
	var m struct {
		Result *struct {
			Meta struct {
				Decision string `json:"countersign/decision"`
				ID       string `json:"countersign/approval_id"`
			} `json:"_meta"`
			IsError bool            `json:"isError"`
			Content json.RawMessage `json:"content"`
		} `json:"result"`
	}
	switch {
	case json.Unmarshal(text, &m) != nil || m.Result == nil:
		o.Answered, o.Fault = false, cmp.Or(o.Fault, string(text))
		return false
	case m.Result.Meta.Decision != "":
		o.Answer.Word, o.Answer.ID = m.Result.Meta.Decision, m.Result.Meta.ID
		if o.Answer.Word == "denied" && !bytes.Contains(m.Result.Content, []byte("denied by")) {
			o.Answer.ID = "" // another call has used the approval: it says nothing of how the request ended
		}
	case !m.Result.IsError:
		o.Answer.Word = "ran"
	}
	return true
}

// post sends a message of MCP and returns the response.
func (a *agent) post(o *campaign.Op, body string) []byte {
	ctx, cancel := context.WithTimeout(a.ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url()+"/mcp", bytes.NewReader([]byte(body)))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+token(a.name))
	if a.session != "" {
		req.Header.Set("Mcp-Session-Id", a.session)
		req.Header.Set("MCP-Protocol-Version", "2025-11-25")
	}
	res, text := a.do(o, req)
	if res == nil {
		return nil
	}
	if s := res.Header.Get("Mcp-Session-Id"); s != "" {
		a.session = s
	}
	for line := range bytes.Lines(text) { // the response is the last event of a stream
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			text = data
		}
	}
	return text
}

// feed reads the endings that the agent has not taken note of, and takes note of some.
func (a *agent) feed() {
	var all struct{ Approvals []campaign.Request }
	o := &campaign.Op{Kind: campaign.Read, Way: "feed", Who: a.name}
	text := a.ask(a.ctx, o, a.name, http.MethodGet, "/v1/approvals/resolved", nil)
	if text == nil || json.Unmarshal(text, &all) != nil {
		return
	}
	for i, r := range all.Approvals {
		seen := *o
		seen.ID = r.ID
		seen.Answer = stateAnswer(&r)
		a.note(&seen)
		if i < 5 && a.r.IntN(2) == 0 {
			ack := &campaign.Op{Kind: campaign.Ack, Way: "rest", Who: a.name, ID: r.ID}
			a.ask(a.ctx, ack, a.name, http.MethodPost, "/v1/approvals/ack", map[string]any{"ids": []string{r.ID}})
			a.note(ack)
		}
	}
}

func stateAnswer(r *campaign.Request) campaign.Answer {
	return campaign.Answer{Status: r.Status, Used: !r.ConsumedAt.IsZero(), Lapsed: !r.LapsedAt.IsZero()}
}

// pick takes one of the requests that somebody has heard of, mostly one of the newest.
func (w *world) pick(r *rand.Rand) *known {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.board) == 0 {
		return nil
	}
	var k *known
	for range 1 + r.IntN(10) { // most look again for one that has not ended
		k = w.board[len(w.board)-min(len(w.board), 1+r.IntN(1+r.IntN(30)))]
		if !k.over {
			break
		}
	}
	return k
}

// isOver reports whether a request has ended, as somebody was told.
func (w *world) isOver(k *known) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return k.over
}

// cancel takes a request back, its own or, if it comes to that, another's.
func (a *agent) cancel() {
	k := a.pick(a.r)
	if k == nil || k.agent != a.name && !a.plan.has("strangers") {
		return
	}
	a.take(k, a.name)
}

func (w *world) take(k *known, who string) {
	o := &campaign.Op{Kind: campaign.Cancel, Way: "rest", Who: who, ID: k.id}
	text := w.ask(context.Background(), o, who, http.MethodPost, "/v1/approvals/"+k.id+"/cancel", map[string]any{})
	if text != nil {
		w.readState(o, text)
	}
	w.note(o)
}

func (w *world) readState(o *campaign.Op, text []byte) {
	var r campaign.Request
	if err := json.Unmarshal(text, &r); err != nil {
		w.t.Errorf("a request that is none: %s", text)
	}
	o.Answer = stateAnswer(&r)
}

// read looks at a request.
func (w *world) readAs(k *known, who string) {
	o := &campaign.Op{Kind: campaign.Read, Way: "rest", Who: who, ID: k.id}
	if text := w.ask(context.Background(), o, who, http.MethodGet, "/v1/approvals/"+k.id, nil); text != nil {
		w.readState(o, text)
	}
	w.note(o)
}

func (a *agent) read(who string) {
	if k := a.pick(a.r); k != nil {
		a.readAs(k, who)
	}
}

// meddle does what an agent may not: it decides, and reads and takes back what is another's.
func (a *agent) meddle() {
	k := a.pick(a.r)
	if k == nil {
		return
	}
	switch a.r.IntN(3) {
	case 0:
		a.take(k, a.name)
	case 1:
		a.readAs(k, a.name)
	default:
		a.decide(k, a.name, decision{approve: true, reason: "I say so", confirmed: true})
	}
}
