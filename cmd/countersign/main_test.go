package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	canonical "countersign/approval/args"
	"countersign/client"
	"countersign/internal/auth"
	"countersign/internal/testkit"
)

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"countersign": main, "mcp-server": mcpServer})
}

// leakChecked fails a run that leaves goroutines behind.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// TestScripts runs the command line against a stand-in for the gate that speaks its JSON. What the
// stand-in was asked is in requests.log of the script's folder.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			f := &fakeGate{log: filepath.Join(e.WorkDir, "requests.log")}
			server := httptest.NewServer(f)
			e.Defer(server.Close)
			e.Setenv("COUNTERSIGN_SERVER", server.URL)
			e.Setenv("COUNTERSIGN_TOKEN", "hana-token-0123456789")
			e.Setenv("AGENT_TOKEN", "agent-token-0123456789")
			e.Setenv("TREASURY_TOKEN", "treasury-token-0123456789")
			e.Setenv("PORT", freePort(t))
			e.Setenv("HOOKS_PORT", freePort(t))
			if err := platforms(e); err != nil {
				return err
			}
			quickly(e)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode":   exitCode,
			"here":       here,
			"eventually": eventually,
			"await":      await,
			"save-id":    saveID,
			"short-id":   shortID,
			"sighup":     sighup,
			"hang":       hang,
			"rehearse":   rehearse,
			"tapping":    tapping,
			"waiting":    waiting,
			"terminate":  terminate,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// quickly has programs begin and end at once: under the race detector each exit waits a second, and collecting garbage
// is an eighth of a start.
func quickly(e *testscript.Env) {
	e.Setenv("GORACE", "atexit_sleep_ms=0")
	e.Setenv("GOGC", "400")
}

// exitCode runs countersign and checks its exit code: exitcode 3 call --tool x. The output is for
// stdout and stderr as after exec.
func exitCode(ts *testscript.TestScript, neg bool, args []string) { //nolint:revive // the signature is testscript's
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode CODE ARG...")
	}
	err := ts.Exec("countersign", args[1:]...)
	got := "0"
	if e, ok := err.(interface{ ExitCode() int }); ok {
		got = fmt.Sprint(e.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// here is exitcode in the process of the test, which saves a program's start. It is for what reads no input, names no
// file of the script's folder, and is told by the script which gate it asks: here 3 call --tool x.
func here(ts *testscript.TestScript, neg bool, args []string) { //nolint:revive // the signature is testscript's
	if neg || len(args) < 2 || ts.Getenv("COUNTERSIGN_SERVER") == "" || ts.Getenv("COUNTERSIGN_TOKEN") == "" {
		ts.Fatalf("usage: here CODE ARG..., with COUNTERSIGN_SERVER and COUNTERSIGN_TOKEN: no login of this process is used")
	}
	got := run(context.Background(), args[1:], strings.NewReader(""), ts.Stdout(), ts.Stderr(), environ(ts))
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// environ is the environment of a script.
func environ(ts *testscript.TestScript) func(string) (string, bool) {
	return func(name string) (string, bool) { v := ts.Getenv(name); return v, v != "" }
}

// eventually is exitcode for what takes a moment to come true.
func eventually(ts *testscript.TestScript, _ bool, args []string) {
	testkit.Eventually(ts, strings.Join(args, " "), func() bool {
		err := ts.Exec("countersign", args[1:]...)
		e, ended := err.(interface{ ExitCode() int })
		return err == nil && args[0] == "0" || ended && fmt.Sprint(e.ExitCode()) == args[0]
	})
}

// saveID keeps the first request's id of the list that was printed last: save-id NAME.
func saveID(ts *testscript.TestScript, neg bool, args []string) { //nolint:revive // the signature is testscript's
	id := regexp.MustCompile(`(?m)^[0-9A-HJKMNP-TV-Z]{26}|[0-9A-HJKMNP-TV-Z]{26}$`).FindString(ts.ReadFile("stdout"))
	if neg || len(args) != 1 || id == "" {
		ts.Fatalf("no id was printed")
	}
	ts.Setenv(args[0], id)
}

// shortID keeps the last characters of an id: short-id NAME ID.
func shortID(ts *testscript.TestScript, neg bool, args []string) { //nolint:revive // the signature is testscript's
	if neg || len(args) != 2 {
		ts.Fatalf("usage: short-id NAME ID")
	}
	ts.Setenv(args[0], strings.ToLower(client.ShortID(args[1])))
}

// sighup asks what runs in the background to read its configuration again.
func sighup(ts *testscript.TestScript, _ bool, _ []string) {
	for _, c := range ts.BackgroundCmds() {
		ts.Check(c.Process.Signal(syscall.SIGHUP))
	}
}

// hang begins a request to the gate and does not finish it. The gate has begun with it, too, once it asks for the rest.
func hang(ts *testscript.TestScript, _ bool, _ []string) {
	c, err := net.Dial("tcp", "127.0.0.1:"+ts.Getenv("PORT"))
	ts.Check(err)
	ts.Defer(func() { c.Close() })
	_, err = fmt.Fprintf(c, "POST /v1/calls HTTP/1.1\r\nHost: gate\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", ts.Getenv("AGENT_TOKEN"))
	ts.Check(err)
	ts.Check(c.SetReadDeadline(time.Now().Add(testkit.Patience)))
	said, err := bufio.NewReader(c).ReadString('\n')
	ts.Check(err)
	if !strings.HasPrefix(said, "HTTP/1.1 100 ") {
		ts.Fatalf("the gate says %q", said)
	}
}

// await waits until something listens on the port of the environment, or on the socket that is named; ! await, until
// nothing does any more.
func await(ts *testscript.TestScript, neg bool, args []string) {
	network, address := "tcp", "127.0.0.1:"+ts.Getenv("PORT")
	if len(args) == 1 {
		network, address = "unix", args[0]
	}
	testkit.Eventually(ts, fmt.Sprintf("something listens on %s: %t", address, !neg), func() bool {
		c, err := net.Dial(network, address)
		if err == nil {
			c.Close()
		}
		return (err == nil) != neg
	})
}

func freePort(t *testing.T) string {
	for range 1000 {
		port := strconv.Itoa(firstPort + int((portsGiven.Add(1)+portsFrom)%portsKept))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// The ports that are given are below those that systems choose by themselves: no listener or connection beside the test
// takes one between its being given and its being used. None is given twice.
const firstPort, portsKept = 20_000, 10_000

var (
	portsFrom  = rand.Int64N(portsKept)
	portsGiven atomic.Int64
)

// fakeGate answers as the gate would, by what it is asked for: the tool of a call, the id of a request.
type fakeGate struct {
	log string

	mu sync.Mutex
}

const (
	pendingID = "01K9ZQ3V5T8M2N4P6R7S9W1X3Y"
	doneID    = "01K9ZQ3V5T8M2N4P6R7S9W1X40"
)

// proves proves that the gate knows a token.
func proves(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	who := auth.NewDirectory(nil, []auth.Person{{Name: "hana", Token: "hana-token-0123456789"},
		{Name: "a", Token: "hana-token"},
		{Name: "b", Token: "hana-no-record"}, {Name: "c", Token: "hana-no-secrets"}, {Name: "d", Token: "hana-no-admin"},
		{Name: "f", Token: "hana-no-rule"}, {Name: "g", Token: "hana-no-past"},
		{Name: "bot", Token: "agent-token-0123456789"}, {Name: "e", Token: "agent-token"}})
	if proof, ok := who.TokenProof(q.Get("token"), q.Get("nonce"), q.Get("address")); ok {
		answer(w, 200, map[string]any{"proof": proof})
		return
	}
	problem(w, 401, "unknown_token", "The token is not known.")
}

func (f *fakeGate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path == "/v1/proof" {
		proves(w, r)
		return
	}
	f.record(r, body)
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	agent, person := strings.HasPrefix(token, "agent-"), strings.HasPrefix(token, "hana-")
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	switch {
	case !agent && !person:
		problem(w, 401, "unauthorized", "The token is not known.")
	case path == "calls" && person:
		problem(w, 403, "agents_only", "Only agents may ask for calls.")
	case path == "calls":
		f.call(w, r.URL.Query().Get("approval_id"), body)
	case path == "approvals" && agent:
		problem(w, 403, "people_only", "Only people may list requests.")
	case path == "approvals" && strings.HasPrefix(token, "hana-no-"):
		recordedRequests(w, token)
	case path == "approvals":
		f.approvals(w, r)
	case path == "approvals/decide":
		decideMany(w, body)
	case path == "sign-in-links" && agent:
		problem(w, 403, "people_only", "Only people may do this.")
	case path == "sign-in-links":
		answer(w, 200, map[string]any{"id": pendingID, "url": "https://gate.example.com/signin/link?t=aaaa",
			"expires_at": "2026-11-21T09:40:00.000Z"})
	case path == "clock/accept":
		off := map[string]any{"off_ms": 3_600_000}
		if token == "hana-no-admin" {
			off["off_ms"] = -3_600_000
		}
		answer(w, 200, off)
	case path == "erase" && strings.Contains(string(body), `"after"`):
		answer(w, 200, map[string]any{"requests": 2, "kept": 0})
	case path == "erase" && strings.Contains(string(body), `"agent"`):
		answer(w, 200, map[string]any{"requests": 1000, "kept": 24, "next": pendingID})
	case path == "erase":
		answer(w, 200, map[string]any{"requests": 1, "kept": 0})
	case path == "freeze" || strings.HasPrefix(path, "delegations"):
		switches(w, r, body)
	case path == "audit" && r.URL.Query().Get("format") == "ndjson" && token == "hana-no-admin":
		problem(w, 403, "not_admin", "Only an admin may do this.")
	case path == "audit" && r.URL.Query().Get("event_type") == "grant_used":
		w.Header().Set("Content-Type", "application/x-ndjson")
	case path == "audit" && strings.HasPrefix(r.URL.Query().Get("event_type"), "call_"):
		recordedCalls(w, r.URL.Query().Get("event_type"))
	case path == "audit" && r.URL.Query().Has("format"):
		export(w, r.URL.Query().Get("format"))
	case path == "grants" || strings.HasPrefix(path, "grants/"):
		grants(w, r)
	case strings.HasPrefix(path, "approvals/"):
		id, verb, _ := strings.Cut(strings.TrimPrefix(path, "approvals/"), "/")
		f.approval(w, id, verb, body)
	case path == "notifications":
		f.notifications(w, r)
	case path == "notifications/"+doneID+"/retry":
		problem(w, 409, "not_failed", "Only a failed notification can be sent again; this one is sent.")
	case strings.HasSuffix(path, "/retry"):
		answer(w, 202, notification(pendingID, "queued"))
	case path == "audit":
		answer(w, 200, map[string]any{"events": []any{map[string]any{
			"id": doneID, "seq": 17, "at": "2026-11-21T09:30:00.000Z", "event_type": "hitl_decision", "actor": "hana",
			"approval_id": doneID,
			"agent":       "treasury-bot", "tool": "bank/transfer_credits", "risk_level": "high", "decision": "deny",
			"reason": "wrong\x1b[2Jaccount", "data": nil,
		}}, "next": nil})
	case path == "stats":
		stats(w, r)
	case path == "policies/0123abcd":
		answer(w, 200, map[string]any{"digest": strings.Repeat("0123abcd", 8),
			"text": "policy:\n  mode: enforce # \x1b[2J\n"})
	case path == "events":
		f.events(w, r)
	default:
		problem(w, 404, "not_found", "There is nothing here.")
	}
}

func (f *fakeGate) record(r *http.Request, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	log, err := os.OpenFile(f.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer log.Close()
	fmt.Fprintf(log, "%s %s %s %s\n", r.Method, r.URL.RequestURI(), r.Header.Get("X-Countersign-Client"),
		bytes.TrimSpace(body))
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func problem(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	if status == 429 {
		w.Header().Set("Retry-After", "30")
	}
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"type": "urn:countersign:problem:" + code, "title": code, "status": status,
		"code": code, "detail": detail})
}

func (f *fakeGate) call(w http.ResponseWriter, waitsFor string, body []byte) {
	var c struct{ Server, Tool string }
	if err := json.Unmarshal(body, &c); err != nil {
		problem(w, 400, "invalid_json", "This is not JSON.")
		return
	}
	again := waitsFor == pendingID
	say := func(status int, decision, message string) {
		answer(w, status, map[string]any{"decision": decision, "message": message, "risk_level": "high", "rule": "a rule",
			"reason_code": "approval_required", "approval_id": pendingID})
	}
	ask := func() { say(202, "pending", "⏳ Approval requested (id: "+pendingID+"). A person must say yes.") }
	switch c.Tool {
	case "allowed":
		say(200, "allow", "Allowed by policy.")
	case "approved":
		say(200, "approved", "Approved by hana at 2026-11-21T09:30:00.000Z. Run it now; this approval is used.")
	case "edited":
		answer(w, 200, map[string]any{"decision": "approved", "message": "Approved by hana.", "risk_level": "high",
			"rule": "", "reason_code": "approval_required",
			"approval_id": doneID, "replaces": pendingID, "args": map[string]any{"amount_cents": 1}})
	case "forbidden":
		say(200, "denied", "Policy denied: forbidden — Not here.\x1b[31m")
	case "approved_later":
		if again {
			say(200, "approved", "Approved by hana at 2026-11-21T09:30:00.000Z. Run it now; this approval is used.")
		} else {
			ask()
		}
	case "denied_later":
		if again {
			say(200, "denied",
				"Approval denied by hana: no. The call was not executed; do not repeat it, try a different approach.")
		} else {
			ask()
		}
	case "expires_later", "cancelled_later", "lapsed_later":
		if again {
			end := map[string]string{"expires_later": "expired", "cancelled_later": "cancelled",
				"lapsed_later": "lapsed"}[c.Tool]
			say(200, end, "[APPROVAL "+strings.ToUpper(end)+"] it is over")
		} else {
			ask()
		}
	case "used_by_another":
		if again {
			say(200, "denied", "Another caller used this approval.")
		} else {
			ask()
		}
	case "expired", "cancelled", "lapsed":
		say(200, c.Tool, "[APPROVAL "+strings.ToUpper(c.Tool)+"] it is over")
	case "new_word":
		say(200, "perhaps", "A word of a later version.")
	case "too_many":
		problem(w, 429, "too_many_pending", "20 requests of this agent wait already.")
	case "over_budget":
		problem(w, 429, "rate_limited",
			"Over the budget of calls: agent:bot may have 5 calls per minute. Try again in 30s; whoever runs Countersign can raise limits.agent.calls, or the agent's own limits.")
	case "no_store":
		problem(w, 503, "store_unavailable", "The store cannot be written to.")
	case "garbage":
		w.WriteHeader(502)
		io.WriteString(w, "<html>bad gateway</html>")
	case "invalid":
		problem(w, 400, "invalid_args", "args has the key a twice.")
	default: // pending, and ended while it is waited for
		ask()
	}
}

func stats(w http.ResponseWriter, r *http.Request) {
	figures := func(name string, asked, granted int) map[string]any {
		return map[string]any{"name": name, "asked": asked, "approved": asked, "denied": 0, "expired": 0, "cancelled": 0,
			"pending": 0, "granted": granted,
			"quarantined": asked + granted, "pushes": asked / 2, "pushes_per_100": 47.6, "decisions": asked / 4,
			"decisions_per_100": 23.8, "decide_p50_ms": 1500, "decide_p90_ms": 90000}
	}
	out := map[string]any{"since": "2026-10-21T09:30:00.000Z", "until": "2026-11-21T09:30:00.000Z", "next": nil,
		"total": figures("", 40, 2), "by_tool": []any{figures("write\x1b[2J", 40, 2)},
		"by_rule": []any{figures("", 40, 2)}, "by_agent": []any{figures("bot", 40, 2)},
		"by_person": []any{figures("hana", 40, 0)}}
	if r.Header.Get("Authorization") == "Bearer hana-no-past" {
		out["known_since"], out["calls_known_since"] = "2026-11-01T09:30:00.000Z", "2026-11-11T09:30:00.000Z"
	}
	if r.URL.Query().Get("agent") == "nobody" {
		out["total"] = figures("", 0, 0)
	}
	answer(w, 200, out)
}

// recordedCalls are calls that rules decided: one whose args are whole, and one of which they are cut.
func recordedCalls(w http.ResponseWriter, kind string) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	line := func(tool, raw, hash string) {
		json.NewEncoder(w).Encode(map[string]any{"id": doneID, "seq": 1, "at": time.Now(), "event_type": kind, "agent": "bot",
			"tool": tool, "risk_level": "low",
			"data": map[string]any{"args": raw, "args_hash": hash, "rule": "a rule", "reason_code": "allowed"}})
	}
	whole, err := canonical.Parse([]byte(`{"path":"/srv/reports/a"}`))
	if err != nil {
		panic(err)
	}
	line("read_file", string(whole.Canonical()), whole.Hash())
	line("read_file", `{"path":"/srv/repor… (+9)`, whole.Hash())
}

// recordedRequests are what people decided: some writing below a folder, and a payment, which one of them denied.
func recordedRequests(w http.ResponseWriter, token string) {
	var all []any
	add := func(n int, tool, status, reason, raw string) {
		all = append(all, request(fmt.Sprintf("01K9ZQ3V5T8M2N4P6R7S9W1X%02d", n), status, map[string]any{"tool": tool,
			"server": "", "agent": "bot", "rule": "asks",
			"risk_level": "medium", "args": json.RawMessage(raw), "requested_at": time.Now().Add(-time.Hour * time.Duration(n)),
			"resolved_by": "hana", "resolved_via": "web", "resolve_reason": reason,
			"needs": []any{map[string]any{"count": 1}}}))
	}
	switch token {
	case "hana-no-record":
	case "hana-no-rule":
		for n, agent := range []string{"coder", "bot"} {
			all = append(all, request(fmt.Sprintf("01K9ZQ3V5T8M2N4P6R7S9W1X%02d", n), "pending",
				map[string]any{"tool": "NewTool", "server": "", "agent": agent, "rule": "",
					"reason_code": "unknown_tool", "risk_level": "high", "args": json.RawMessage(`{}`),
					"requested_at": time.Now().Add(-time.Hour)}))
		}
	default:
		for n := range 6 {
			add(n, "write_file", "approved", "", fmt.Sprintf(`{"path":"/srv/reports/%d.md","content":"text %d"}`, n, n))
		}
		add(10, "pay", "denied", "wrong\x1b[2Jaccount", `{"to":"acme","cents":5}`)
		add(11, "pay", "approved", "", `{"to":"initech","cents":5}`)
	}
	answer(w, 200, map[string]any{"approvals": all, "next": nil})
}

// approvals has one page of two, and then one more.
func (f *fakeGate) approvals(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Query().Get("agent") == "nobody":
		answer(w, 200, map[string]any{"approvals": []any{}, "next": nil})
	case r.URL.Query().Get("after") == "":
		answer(w, 200, map[string]any{"approvals": []any{request(pendingID, "pending", nil)}, "next": "more"})
	default:
		answer(w, 200, map[string]any{"approvals": []any{request(doneID, "pending", map[string]any{"previous": previous("unknown")})}, "next": nil})
	}
}

func request(id, status string, more map[string]any) map[string]any {
	m := map[string]any{
		"id": id, "status": status, "agent": "treasury-bot", "scope": "/srv/books", "server": "bank",
		"tool": "transfer_credits",
		"args": json.RawMessage(`{"amount_cents":12345678901234567890,"note":"to ` + "\u202e" +
			`gnp.exe and \u0007 \u001b[2J","to":{"iban":"DE00 0000"}}`),
		"args_hash": strings.Repeat("ab", 32), "risk_level": "high", "rule": "big transfers", "reason_code": "over_threshold",
		"summary": "Pay $20.00\x1b[2J to acme", "human_message": "Transfer exceeds the threshold",
		"rationale": "the invoice\x1b]0;owned\x07 is due", "preview": "- 1\n+ 2", "turn_id": "t1", "session_id": "s1",
		"requested_at": "2026-11-21T09:00:00.000Z", "expires_at": time.Now().Add(28 * time.Minute).UTC().Format(time.RFC3339),
		"resolved_at": nil, "resolved_by": nil,
		"resolved_via": nil, "resolve_reason": nil, "use_by": nil, "consumed_at": nil, "lapsed_at": nil, "message": nil,
		"policy_digest": strings.Repeat("0123abcd", 8),
	}
	for k, v := range more {
		m[k] = v
	}
	return m
}

// previous is the last use of the same call and what came of it; "kept": its agent ran it itself.
func previous(outcome any) map[string]any {
	u := map[string]any{"approval_id": doneID, "approved_by": "ken", "approved_at": "2026-11-21T08:00:00.000Z",
		"consumed_at":   "2026-11-21T08:01:00.000Z",
		"dispatched_at": "2026-11-21T08:01:00.000Z", "outcome": outcome}
	if outcome == "kept" {
		u["dispatched_at"], u["outcome"] = nil, nil
	}
	return u
}

func (f *fakeGate) approval(w http.ResponseWriter, id, verb string, body []byte) {
	const at = "2026-11-21T09:30:00.000Z"
	var b struct {
		Decision, Reason string
		Confirmed        bool
		Args             json.RawMessage
		Grant            map[string]any
	}
	json.Unmarshal(body, &b)
	switch {
	case b.Grant != nil:
		longer(w, id, b.Decision, b.Grant)
	case verb == "denial" && id == doneID:
		problem(w, 409, "already_resolved", "That denial is forgotten already.")
	case verb == "denial":
		answer(w, 200, map[string]any{"id": pendingID, "lifted": true})
	case id == "SAID":
		answer(w, 200, request(pendingID, "pending", map[string]any{"before": map[string]any{"request_id": doneID,
			"approved": false, "by": "ken",
			"at": time.Now().Add(-2 * time.Minute).UTC().Format(time.RFC3339), "reason": "wrong\x1b[2J account"}}))
	case id == doneID && verb == "decide":
		problem(w, 409, "already_resolved", "Already denied by ken at 2026-11-21T09:30:00.000Z.")
	case id == "EXPIRED" && verb == "decide":
		problem(w, 410, "expired", "This approval request has expired.")
	case id == "NOTYOURS" && verb == "decide":
		problem(w, 403, "not_an_approver", "You may not decide this request.")
	case id == "SECRETARY" && verb == "decide" && b.Reason == "":
		problem(w, 422, "reason_required", "This request needs a reason.")
	case verb == "decide" && f.special(w, id, b.Confirmed, string(b.Args)):
	case verb == "extend":
		answer(w, 200, request(id, "pending", nil))
	case id == "VOTED":
		answer(w, 200, request(pendingID, "pending", map[string]any{"votes": votes, "needs": needs, "replaces": doneID}))
	case strings.HasPrefix(id, "AFTER-"):
		var outcome any
		if word := strings.ToLower(strings.TrimPrefix(id, "AFTER-")); word != "nothing" {
			outcome = word
		}
		answer(w, 200, request(id, "pending", map[string]any{"previous": previous(outcome)}))
	case id != pendingID && id != doneID && id != "SECRETARY":
		problem(w, 404, "not_found", "No such request.")
	case verb == "decide" && b.Decision == "approve":
		answer(w, 200, map[string]any{"id": id, "status": "approved", "approved_by": "hana", "approved_at": at,
			"reason": b.Reason})
	case verb == "decide":
		answer(w, 200, map[string]any{"id": id, "status": "denied", "denied_by": "hana", "denied_at": at, "reason": b.Reason})
	case verb == "cancel" && id == doneID:
		problem(w, 409, "already_resolved", "Already denied by ken at 2026-11-21T09:30:00.000Z.")
	case verb == "cancel":
		answer(w, 200, request(id, "cancelled", map[string]any{"resolved_by": "hana", "resolved_at": at}))
	case id == doneID:
		answer(w, 200, request(id, "denied", map[string]any{"resolved_by": "ken", "resolved_at": at, "resolved_via": "line",
			"resolve_reason": "no", "message": "[APPROVAL DENIED] …: denied by ken"}))
	default:
		answer(w, 200, request(id, "pending", nil))
	}
}

var (
	needs = []any{map[string]any{"group": "finance", "count": 2}, map[string]any{"approvers": []string{"mei", "security"},
		"count": 1}}
	votes = []any{map[string]any{"stage": 1, "person": "ken", "for": "hana", "decision": "approve", "reason": "agreed",
		"at": "2026-11-21T09:20:00.000Z", "via": "line"}}
)

// special answers a decision that does not simply stand.
func (f *fakeGate) special(w http.ResponseWriter, id string, confirmed bool, args string) bool {
	switch {
	case id == "VOTED":
		answer(w, 200, map[string]any{"id": pendingID, "status": "pending", "votes": votes, "needs": needs})
	case id == "CONFIRM" && !confirmed:
		problem(w, 422, "confirm_required", "transfer_credits will move $20.00 to acme.")
	case id == "CONFIRM":
		answer(w, 200, map[string]any{"id": pendingID, "status": "approved", "approved_by": "hana", "reason": nil})
	case id == "AGAIN":
		problem(w, 409, "already_voted", "You already approved this.")
	case id == "LATER":
		problem(w, 403, "not_your_stage", "Finance is asked first.")
	case id == "1X3Y":
		problem(w, 409, "ambiguous_id", "1X3Y could be 9W1X3Y or 7W1X3Y.")
	case args != "" && id == pendingID:
		answer(w, 200, map[string]any{"id": doneID, "status": "approved", "approved_by": "hana", "reason": nil,
			"replaces": pendingID})
	default:
		return false
	}
	return true
}

func decideMany(w http.ResponseWriter, body []byte) {
	var b struct{ IDs []string }
	json.Unmarshal(body, &b)
	results := []any{}
	for _, id := range b.IDs {
		refused := func(status int, code, detail string) {
			results = append(results, map[string]any{"id": id, "error": map[string]any{"type": "urn:countersign:problem:" + code,
				"title": code, "status": status,
				"detail": detail, "code": code}})
		}
		switch id {
		case "VOTED":
			results = append(results, map[string]any{"id": pendingID, "status": "pending", "votes": votes, "needs": needs})
		case "EXPIRED":
			refused(410, "expired", "This approval request has expired.")
		case "CONFIRM":
			refused(422, "confirm_required", "transfer_credits will move $20.00 to acme.")
		default:
			results = append(results, map[string]any{"id": id, "status": "approved", "approved_by": "hana", "reason": nil})
		}
	}
	answer(w, 200, map[string]any{"results": results})
}

// switches answers about freezes and delegations.
func switches(w http.ResponseWriter, r *http.Request, body []byte) {
	var b struct{ Agent, Reason, To, Until, From, Rule, For string }
	json.Unmarshal(body, &b)
	frozen := map[string]any{"agent": nil, "frozen": true, "frozen_at": "2026-11-21T09:30:00.000Z", "frozen_by": "hana",
		"via": "cli", "reason": "a\x1b[2Jleak"}
	delegation := map[string]any{"id": pendingID, "for": "hana", "to": "ken", "from": "2026-11-21T09:30:00.000Z",
		"until": "2026-12-01T00:00:00.000Z", "rule": nil}
	switch r.Method + " " + strings.TrimPrefix(r.URL.Path, "/v1/") {
	case "POST freeze":
		if b.Agent != "" {
			frozen["agent"] = b.Agent
		}
		answer(w, 200, frozen)
	case "GET freeze":
		answer(w, 200, map[string]any{"frozen": []any{frozen}})
	case "DELETE freeze":
		if r.URL.Query().Get("agent") == "other-bot" {
			problem(w, 404, "not_found", "other-bot is not frozen.")
			return
		}
		answer(w, 200, frozen)
	case "GET delegations":
		answer(w, 200, map[string]any{"delegations": []any{delegation}})
	default:
		answer(w, 200, delegation)
	}
}

// export sends a part of the audit log, and for ndjson breaks off.
func export(w http.ResponseWriter, format string) {
	w.Header().Set("Content-Type", "text/csv")
	io.WriteString(w, "id,seq,at\n1,2,3\n")
	if format == "ndjson" {
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

func notification(id, status string) map[string]any {
	return map[string]any{
		"id": id, "approval_id": pendingID, "channel": "line", "recipient": "U4af4980629d1e4b8c9a2c1b2d3e4f5a6",
		"kind": "request", "status": status,
		"attempt": 4, "message_id": nil, "http_status": 429, "error": "rate_limited: too many \x1b[31mrequests",
		"next_attempt_at": nil,
		"sent_at":         nil, "created_at": "2026-11-21T09:00:00.000Z", "updated_at": "2026-11-21T09:00:00.000Z",
	}
}

func (f *fakeGate) notifications(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("status") == "sent" {
		answer(w, 200, map[string]any{"notifications": []any{}, "next": nil,
			"heartbeat": []any{map[string]any{"entry": "check_pending_approvals", "at": nil}}})
		return
	}
	answer(w, 200, map[string]any{"notifications": []any{notification(pendingID, "failed")}, "next": nil,
		"quotas": []any{map[string]any{"channel": "line", "used": 7, "limit": nil, "at": "2026-11-21T09:00:00.000Z"}},
		"heartbeat": []any{
			map[string]any{"entry": "check_pending_approvals", "at": "2026-11-21T09:05:00.000Z", "result": "ok",
				"counts": map[string]int{"pending": 3, "expired": 1, "re_notified": 2, "retried": 0, "unknown": 0}},
			map[string]any{"entry": "other", "at": "2026-11-21T09:05:00.000Z", "result": "failed"},
		}})
}

// events sends two changes and then refuses, so that whoever follows comes to an end.
func (f *fakeGate) events(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Last-Event-ID") == "19" {
		problem(w, 403, "not_admin", "Only admins may watch notifications.")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Header.Get("Last-Event-ID") == "none" { // which is no place
		io.WriteString(w, "id: 17\nevent: reset\ndata: {}\n\n")
	}
	for i, status := range []string{"queued", "sent"} {
		data, _ := json.Marshal(notification(pendingID, status))
		fmt.Fprintf(w, ": keep\n\nid: %d\nevent: notification.changed\ndata: %s\n\n", 18+i, data)
	}
}
