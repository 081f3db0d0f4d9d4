package adk_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"

	"countersign/client"
	"countersign/client/adk"
	"countersign/internal/testkit"
)

// env is made up out of words, so that nothing here looks like a real secret.
var env = map[string]string{
	"AGENT_TOKEN": "test-agent-token-bot", "HANA_TOKEN": "test-person-token-hana",
	"HOOK_SECRET": "whsec_dGhpcyBpcyBhIHRlc3QncyBzZWNyZXQsIG5vdCBhIHJlYWwgb25l",
}

const configText = `
listen: 127.0.0.1:0
store: sqlite:${STORE}
limits: none
agents: [{name: bot, token: "${AGENT_TOKEN}"}]
people: [{name: hana, roles: [approver, admin], webhook: "${HANA_HOOK}", token: "${HANA_TOKEN}"}]
channels:
  webhook: {signing_secret: "${HOOK_SECRET}", notify: [hana]}
policy:
  rules:
    - {tools: ["read_*"], risk: low, action: allow}
    - {tools: [format_disk], risk: critical, action: deny, reason_code: forbidden, message: Never.}
    - {tools: [transfer], risk: high, message: Money leaves the house.}
    - {tools: [pay], risk: high, ignore_args: [note], allow_skip: true}
`

// program is the countersign that the tests talk to. It is built and run, and not imported: the modules
// that it needs are none of this module's.
var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "countersign")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "countersign")
		build := exec.Command("go", "build", "-o", program, "./cmd/countersign") // real: a build
		build.Dir = "../.."
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			log.Printf("go build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// card is a delivery to hana's webhook.
type card struct {
	Type string
	Data struct {
		Requests []struct{ ID string }
	}
}

var serving = regexp.MustCompile(`serving"? .*address"?[=:]"?(127\.0\.0\.1:\d+)`)

// countersign runs the program on a store of its own; stop ends it. What hana is sent comes on cards.
func countersign(ctx context.Context) (addr string, cards <-chan card, stop func(), err error) {
	dir, err := os.MkdirTemp("", "countersign")
	if err != nil {
		return "", nil, nil, err
	}
	sent := make(chan card, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var c card
		if json.NewDecoder(r.Body).Decode(&c) == nil {
			sent <- c
		}
	}))
	path := filepath.Join(dir, "countersign.yaml")
	serve := exec.CommandContext(ctx, program, "serve", "--config", path)
	serve.Cancel = func() error { return serve.Process.Signal(os.Interrupt) }
	serve.WaitDelay = 20 * time.Second
	stop = func() {
		if serve.Process != nil {
			_ = serve.Process.Signal(os.Interrupt)
			late := time.AfterFunc(testkit.Patience, func() { _ = serve.Process.Kill() })
			_ = serve.Wait()
			late.Stop()
		}
		hook.Close()
		os.RemoveAll(dir)
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	if err := os.WriteFile(path, []byte(configText), 0o600); err != nil {
		return "", nil, nil, err
	}
	serve.Env = append(os.Environ(), "STORE="+filepath.Join(dir, "gate.db"), "HANA_HOOK="+hook.URL)
	for k, v := range env {
		serve.Env = append(serve.Env, k+"="+v)
	}
	said, err := serve.StderrPipe()
	if err != nil {
		return "", nil, nil, err
	}
	if err := serve.Start(); err != nil {
		return "", nil, nil, err
	}
	var lines []string
	for s := bufio.NewScanner(said); s.Scan(); {
		if m := serving.FindStringSubmatch(s.Text()); m != nil {
			go io.Copy(io.Discard, said)
			return m[1], sent, stop, nil
		}
		lines = append(lines, s.Text())
	}
	return "", nil, nil, fmt.Errorf("it does not serve:\n%s", strings.Join(lines, "\n"))
}

// script is a model that says what it was written to say, and keeps what it was asked.
type script struct {
	mu       sync.Mutex
	lines    []func(*model.LLMRequest) []*model.LLMResponse
	requests []string // the contents of each, as text
}

func (s *script) Name() string { return "script" }

func (s *script) GenerateContent(_ context.Context, req *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse,
	error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		s.mu.Lock()
		s.requests = append(s.requests, textOf(req.Contents...))
		if len(s.lines) == 0 {
			s.mu.Unlock()
			yield(nil, errors.New("the script is over"))
			return
		}
		line := s.lines[0]
		s.lines = s.lines[1:]
		s.mu.Unlock()
		for _, r := range line(req) {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// says is one response with the words and the calls.
func says(words string, calls ...*genai.FunctionCall) func(*model.LLMRequest) []*model.LLMResponse {
	return func(*model.LLMRequest) []*model.LLMResponse { return []*model.LLMResponse{response(words, calls...)} }
}

func response(words string, calls ...*genai.FunctionCall) *model.LLMResponse {
	c := &genai.Content{Role: genai.RoleModel}
	if words != "" {
		c.Parts = append(c.Parts, &genai.Part{Text: words})
	}
	for _, call := range calls {
		copied := *call
		copied.Args = maps.Clone(call.Args)
		c.Parts = append(c.Parts, &genai.Part{FunctionCall: &copied})
	}
	return &model.LLMResponse{Content: c}
}

func call(name string, args map[string]any) *genai.FunctionCall {
	return &genai.FunctionCall{Name: name, Args: args}
}

func transfer(cents int) *genai.FunctionCall {
	return call("transfer", map[string]any{"to": "acme", "cents": cents})
}

// textOf writes contents down, a line for each part.
func textOf(contents ...*genai.Content) string {
	var b strings.Builder
	for _, c := range contents {
		for _, p := range c.Parts {
			switch {
			case p.FunctionCall != nil:
				fmt.Fprintf(&b, "%s calls %s(%v)\n", c.Role, p.FunctionCall.Name, p.FunctionCall.Args)
			case p.FunctionResponse != nil:
				fmt.Fprintf(&b, "%s hears %s: %v\n", c.Role, p.FunctionResponse.Name, p.FunctionResponse.Response)
			default:
				fmt.Fprintf(&b, "%s says %s\n", c.Role, p.Text)
			}
		}
	}
	return b.String()
}

// anything is the args of the tools here.
type anything map[string]any

// workshop is tools that write down that they ran.
type workshop struct {
	mu  sync.Mutex
	ran []string
}

func (w *workshop) tool(name string) tool.Tool {
	t, err := functiontool.New(functiontool.Config{Name: name, Description: name},
		func(_ agent.Context, args anything) (map[string]any, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			did := fmt.Sprintf("%s %v", name, args["cents"])
			if note, ok := args["note"]; ok {
				did += fmt.Sprintf(" %v", note)
			}
			w.ran = append(w.ran, did)
			return map[string]any{"done": true}, nil
		})
	if err != nil {
		panic(err) // the tests' own names
	}
	return t
}

func (w *workshop) tools() []tool.Tool {
	return []tool.Tool{w.tool("read_ledger"), w.tool("format_disk"), w.tool("transfer"), w.tool("pay")}
}

// world is an agent behind the gate.
type world struct {
	t         *testing.T
	ctx       context.Context
	addr      string
	cards     <-chan card
	bot, hana *client.Client
	model     *script
	shop      *workshop
	sessions  session.Service
	gate      *adk.Gate
	runner    *runner.Runner
}

func newWorld(t *testing.T, o adk.Options, more ...*plugin.Plugin) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	addr, cards, stop, err := countersign(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	w := &world{t: t, ctx: ctx, addr: addr, cards: cards, model: &script{}, shop: &workshop{},
		sessions: session.InMemoryService()}
	w.bot, w.hana = w.client(env["AGENT_TOKEN"]), w.client(env["HANA_TOKEN"])
	w.gate = adk.New(w.bot, o)
	w.runner = w.start(w.gate, more...)
	return w
}

func (w *world) client(token string) *client.Client {
	w.t.Helper()
	c, err := client.New("http://"+w.addr, token)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

// start puts the agent behind g; plugins of more run before the gate's.
func (w *world) start(g *adk.Gate, more ...*plugin.Plugin) *runner.Runner {
	w.t.Helper()
	p, err := g.Plugin()
	if err != nil {
		w.t.Fatal(err)
	}
	return w.run(append(more, p), llmagent.Config{Name: "treasurer", Model: w.model, Tools: w.shop.tools()})
}

func (w *world) run(plugins []*plugin.Plugin, cfg llmagent.Config) *runner.Runner {
	w.t.Helper()
	a, err := llmagent.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := runner.New(runner.Config{AppName: "treasury", Agent: a, SessionService: w.sessions, AutoCreateSession: true,
		PluginConfig: runner.PluginConfig{Plugins: plugins}})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// turn is one turn of mia's session s1; it returns what happened in it, as text.
func (w *world) turn(lines ...func(*model.LLMRequest) []*model.LLMResponse) string {
	w.t.Helper()
	out, err := w.turnOf(w.runner, "mia", agent.StreamingModeNone, lines...)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) turnOf(r *runner.Runner, user string, mode agent.StreamingMode,
	lines ...func(*model.LLMRequest) []*model.LLMResponse) (string, error) {
	w.t.Helper()
	w.model.mu.Lock()
	w.model.lines, w.model.requests = lines, nil
	w.model.mu.Unlock()
	var out strings.Builder
	for e, err := range r.Run(w.ctx, user, "s1", genai.NewContentFromText("go on", genai.RoleUser),
		agent.RunConfig{StreamingMode: mode}) {
		if err != nil {
			return out.String(), err
		}
		if e.LLMResponse.Content != nil {
			out.WriteString(textOf(e.LLMResponse.Content))
		}
	}
	if n := len(w.model.lines); n != 0 {
		w.t.Errorf("the run ended %d lines before the script", n)
	}
	return out.String(), nil
}

// pending returns hana's open requests, oldest first.
func (w *world) pending() []client.Approval {
	w.t.Helper()
	p, err := w.hana.Approvals(w.ctx, client.ApprovalQuery{Status: "pending"})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Reverse(p.Items)
	return p.Items
}

func (w *world) decide(id string, v client.Verdict, reason string) {
	w.t.Helper()
	if _, err := w.hana.Decide(w.ctx, id, v, reason); err != nil {
		w.t.Fatal(err)
	}
}

// ran holds what ran since it was asked last, in any order: the ADK runs the calls of a turn in parallel.
func (w *world) ran(want ...string) {
	w.t.Helper()
	w.shop.mu.Lock()
	defer w.shop.mu.Unlock()
	got := w.shop.ran
	w.shop.ran = nil
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.t.Errorf("ran %q, want %q", got, want)
	}
}

// hold reports whether text holds each of the parts, in their order.
func (w *world) holds(text string, parts ...string) {
	w.t.Helper()
	rest := text
	for _, p := range parts {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			w.t.Errorf("want %q here:\n%s\nin\n%s", p, rest, text)
			return
		}
		rest = after
	}
}
