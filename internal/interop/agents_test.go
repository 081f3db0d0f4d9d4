//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"countersign/internal/testkit"
)

// The coding agents, as released, are driven by a model that follows a script. All of them run a shell command
// through the installed hook, as their users would have it.

// codingAgent is one of them.
type codingAgent struct {
	name string // as install calls it
	// command runs one turn: the first of a session, or one more of the latest.
	command func(t *testing.T, more bool) []string
	env     func(url, home string) []string
	// prepare writes what the agent wants in its home before it starts.
	prepare func(t *testing.T, home string)
	shell   func(model *scriptedModel, command string) call
	// day is what it does all day, with its own tools where it has some: it reads a.txt, searches, and keeps a list. edit
	// writes b.txt.
	day  func(model *scriptedModel, dir string) []call
	edit func(model *scriptedModel, dir string) call
}

// call is a call of a tool that the model makes.
type call struct {
	name string
	args map[string]any
}

var codingAgents = []codingAgent{
	{
		name: "claude-code",
		command: func(t *testing.T, more bool) []string {
			c := []string{platformProgram(t, "@anthropic-ai/claude-code-%s/claude"), "-p", "go", "--output-format", "json",
				"--allowedTools", "Bash"}
			if more {
				c = append(c, "--continue")
			}
			return c
		},
		env: func(url, _ string) []string {
			return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=x", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
				"DISABLE_AUTOUPDATER=1"}
		},
		shell: func(_ *scriptedModel, command string) call {
			return call{"Bash", map[string]any{"command": command, "description": "does it"}}
		},
		day: func(m *scriptedModel, dir string) []call {
			calls := []call{
				{"Read", map[string]any{"file_path": filepath.Join(dir, "a.txt")}},
				{"Bash", map[string]any{"command": "grep -n needle a.txt && ls -la 2>/dev/null | head -5", "description": "looks"}},
			}
			if m.offered("Grep") {
				calls = append(calls, call{"Grep", map[string]any{"pattern": "needle"}})
			}
			if m.offered("TodoWrite") {
				calls = append(calls,
					call{"TodoWrite", map[string]any{"todos": []any{map[string]any{"content": "look", "status": "pending",
						"activeForm": "looking"}}}})
			}
			return calls
		},
		edit: func(_ *scriptedModel, dir string) call {
			return call{"Write", map[string]any{"file_path": filepath.Join(dir, "b.txt"), "content": "b"}}
		},
	},
	{
		name: "codex",
		command: func(t *testing.T, more bool) []string {
			c := []string{platformProgram(t, "@openai/codex-%s/vendor/"+codexTriple()+"/bin/codex"), "exec", "--json",
				"--skip-git-repo-check",
				"--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"}
			if more {
				c = append(c, "resume", "--last")
			}
			return append(c, "go")
		},
		env: func(_, home string) []string { return []string{"CODEX_HOME=" + filepath.Join(home, ".codex")} },
		shell: func(m *scriptedModel, command string) call {
			if m.offered("exec_command") {
				return call{"exec_command", map[string]any{"cmd": command}}
			}
			return call{"shell_command", map[string]any{"command": command}}
		},
		day: func(m *scriptedModel, _ string) []call {
			calls := []call{m.agent.shell(m, "sed -n '1,200p' a.txt"), m.agent.shell(m, "grep -rn needle . | head -5")}
			if m.offered("update_plan") {
				calls = append(calls,
					call{"update_plan", map[string]any{"plan": []any{map[string]any{"step": "look", "status": "in_progress"}}}})
			}
			return calls
		},
		edit: func(m *scriptedModel, _ string) call { return m.agent.shell(m, "echo b > b.txt") },
	},
	{
		name: "gemini",
		command: func(t *testing.T, more bool) []string {
			c := []string{node(t), filepath.Join(tools(t), "node_modules/@google/gemini-cli/bundle/gemini.js"), "--yolo", "-m",
				"gemini-2.5-flash"}
			if more {
				c = append(c, "--resume", "latest")
			}
			return append(c, "-p", "go")
		},
		env: func(url, _ string) []string {
			return []string{"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=x", "GEMINI_CLI_TRUST_WORKSPACE=true",
				geminiStartsOnce + "true"}
		},
		prepare: func(t *testing.T, home string) {
			write(t, filepath.Join(home, ".gemini/settings.json"),
				`{"security":{"auth":{"selectedType":"gemini-api-key"}},"general":{"enableAutoUpdate":false}}`)
		},
		shell: func(_ *scriptedModel, command string) call {
			return call{"run_shell_command", map[string]any{"command": command, "description": "does it"}}
		},
		day: func(*scriptedModel, string) []call {
			return []call{
				{"read_file", map[string]any{"file_path": "a.txt"}},
				{"grep_search", map[string]any{"pattern": "needle"}},
				{"run_shell_command", map[string]any{"command": "cat a.txt | grep -c needle", "description": "counts"}},
			}
		},
		edit: func(_ *scriptedModel, dir string) call {
			return call{"write_file", map[string]any{"file_path": filepath.Join(dir, "b.txt"), "content": "b"}}
		},
	},
}

// geminiStartsOnce saves Gemini the start of itself in a second process, with more memory, which takes half of a turn.
const geminiStartsOnce = "GEMINI_CLI_NO_RELAUNCH="

func codexTriple() string {
	if runtime.GOARCH == "arm64" {
		return "aarch64-unknown-linux-musl"
	}
	return "x86_64-unknown-linux-musl"
}

// platformProgram is the path of a program that npm keeps by platform.
func platformProgram(t *testing.T, path string) string {
	platform := "linux-" + map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	return filepath.Join(tools(t), "node_modules", fmt.Sprintf(path, platform))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// scriptedModel answers each turn with the calls of its script, one after another, and then with a word. It
// speaks what the three agents speak, by path.
type scriptedModel struct {
	url   string
	agent codingAgent

	mu       sync.Mutex
	commands []string                    // the script,
	calls    func(*scriptedModel) []call // or another one
	requests []string                    // what the agent sent
	before   int                         // results of calls that the conversation had when this turn began
	together int                         // how many calls Claude's model makes in one message; 0: one
}

func scripted(t *testing.T, agent codingAgent, commands ...string) *scriptedModel {
	m := &scriptedModel{agent: agent, commands: commands}
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	m.url = s.URL
	return m
}

// offered reports whether the agent has offered a tool of that name.
func (m *scriptedModel) offered(tool string) bool {
	return strings.Contains(m.requests[len(m.requests)-1], `"name":"`+tool+`"`)
}

// read is all that the model was told.
func (m *scriptedModel) read() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.requests, "\n")
}

// results matches a tool's result in a conversation, however the agent writes it.
var results = regexp.MustCompile(
	`"type":"tool_result"|"type":"(?:function|custom_tool)_call_output"|"functionResponse":`)

func (m *scriptedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case strings.HasSuffix(r.URL.Path, "/v1/messages"), strings.HasSuffix(r.URL.Path, "/responses"),
		strings.Contains(r.URL.Path, "enerateContent"):
	case strings.HasSuffix(r.URL.Path, "/models"):
		fmt.Fprint(w, `{"object":"list","data":[],"models":[]}`)
		return
	default:
		fmt.Fprint(w, `{"input_tokens":1,"totalTokens":1}`)
		return
	}
	m.requests = append(m.requests, string(body))
	var next []call
	n := len(results.FindAll(body, -1))
	if len(m.requests) == 1 {
		m.before = n
	}
	if n -= m.before; n >= 0 && strings.Contains(string(body), `"tools"`) {
		script := m.script()
		next = script[min(n, len(script)):min(n+max(m.together, 1), len(script))]
	}
	var first *call
	if len(next) > 0 {
		first = &next[0]
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/v1/messages"):
		m.claude(w, next, len(m.requests))
	case strings.HasSuffix(r.URL.Path, "/responses"):
		m.codex(w, first, len(m.requests))
	case strings.Contains(r.URL.Path, "stream"):
		m.geminiStream(w, first)
	default:
		m.gemini(w, first)
	}
}

// plays has the model call what calls returns.
func (m *scriptedModel) plays(calls func(*scriptedModel) []call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = calls
}

// script is all that the model calls.
func (m *scriptedModel) script() (calls []call) {
	if m.calls != nil {
		return m.calls(m)
	}
	for _, command := range m.commands {
		calls = append(calls, m.agent.shell(m, command))
	}
	return calls
}

type object map[string]any

func event(w io.Writer, name string, o object) {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	if name != "" {
		fmt.Fprintf(w, "event: %s\n", name)
	}
	fmt.Fprintf(w, "data: %s\n\n", b)
}

func (m *scriptedModel) claude(w http.ResponseWriter, next []call, n int) {
	w.Header().Set("Content-Type", "text/event-stream")
	message := object{"id": fmt.Sprint("msg_", n), "type": "message", "role": "assistant", "model": "scripted",
		"content": []any{}, "stop_reason": nil, "usage": object{"input_tokens": 1, "output_tokens": 1}}
	event(w, "message_start", object{"type": "message_start", "message": message})
	block := func(i int, block, delta object) {
		event(w, "content_block_start", object{"type": "content_block_start", "index": i, "content_block": block})
		event(w, "content_block_delta", object{"type": "content_block_delta", "index": i, "delta": delta})
		event(w, "content_block_stop", object{"type": "content_block_stop", "index": i})
	}
	stop := "tool_use"
	if len(next) == 0 {
		stop = "end_turn"
		block(0, object{"type": "text", "text": ""}, object{"type": "text_delta", "text": "done"})
	}
	for i, c := range next {
		args, _ := json.Marshal(c.args)
		block(i, object{"type": "tool_use", "id": fmt.Sprintf("toolu_%d_%d", n, i), "name": c.name, "input": object{}},
			object{"type": "input_json_delta", "partial_json": string(args)})
	}
	event(w, "message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop},
		"usage": object{"output_tokens": 1}})
	event(w, "message_stop", object{"type": "message_stop"})
}

func (m *scriptedModel) codex(w http.ResponseWriter, next *call, n int) {
	w.Header().Set("Content-Type", "text/event-stream")
	id := fmt.Sprint("resp_", n)
	event(w, "response.created", object{"type": "response.created", "response": object{"id": id}})
	item := object{"type": "message", "role": "assistant", "id": fmt.Sprint("m_", n),
		"content": []any{object{"type": "output_text", "text": "done"}}}
	if next != nil {
		args, _ := json.Marshal(next.args)
		item = object{"type": "function_call", "id": fmt.Sprint("fc_", n), "call_id": fmt.Sprint("call_", n),
			"name": next.name, "arguments": string(args)}
	}
	event(w, "response.output_item.done", object{"type": "response.output_item.done", "output_index": 0, "item": item})
	event(w, "response.completed", object{"type": "response.completed", "response": object{"id": id,
		"usage": object{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}})
}

func (m *scriptedModel) gemini(w http.ResponseWriter, next *call) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(geminiAnswer(next))
}

func (m *scriptedModel) geminiStream(w http.ResponseWriter, next *call) {
	w.Header().Set("Content-Type", "text/event-stream")
	event(w, "", geminiAnswer(next))
}

func geminiAnswer(next *call) object {
	part := object{"text": "done"}
	if next != nil {
		part = object{"functionCall": object{"name": next.name, "args": next.args}}
	}
	candidate := object{"content": object{"role": "model", "parts": []any{part}}, "finishReason": "STOP", "index": 0}
	return object{"candidates": []any{candidate},
		"usageMetadata": object{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}
}

// desk is where a coding agent works: its home, its folder, and the gate.
type desk struct {
	agent     codingAgent
	g         *gate
	home, dir string
	turns     int
	together  int // calls that the model makes in one message, of Claude's
}

// sitDown installs the hook as a user would, for a gate that lets ls run, forbids what is called forbidden, and
// asks about every other command.
func sitDown(t *testing.T, agent codingAgent, install ...string) *desk {
	t.Helper()
	return sitDownUnder(t, agent, `policy:
  rules:
    - {tools: [Bash, run_shell_command], when: args.command.startsWith("ls"), action: allow, risk: low}
    - {tools: [Bash, run_shell_command], when: args.command.contains("forbidden"), action: deny, reason_code: never, message: Never that.}
`, install...)
}

// sitDownUnder installs the hook for a gate with a policy.
func sitDownUnder(t *testing.T, agent codingAgent, policy string, install ...string) *desk {
	t.Helper()
	d := &desk{agent: agent, home: t.TempDir(), dir: t.TempDir(), g: serve(t, policy)}
	if agent.prepare != nil {
		agent.prepare(t, d.home)
	}
	e := run(t, d.dir, d.environ(""), append([]string{program, "install", agent.name, "--yes", "--config",
		filepath.Join(d.g.dir, "countersign.yaml"), "--server", d.g.url}, install...)...)
	if e.code != 0 {
		t.Fatalf("install: %s", e)
	}
	return d
}

func (d *desk) environ(url string, more ...string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.home, quickExit, compiled(), "COUNTERSIGN_TOKEN=" +
		agentToken,
		"TERM=dumb", "NO_COLOR=1"}
	return append(append(env, d.agent.env(url, d.home)...), more...)
}

// turn has the agent run one more turn of its session with a model that wants these commands, and returns what
// the model was told.
func (d *desk) turn(t *testing.T, env []string, commands ...string) string {
	t.Helper()
	m := scripted(t, d.agent, commands...)
	m.mu.Lock()
	m.together = d.together
	m.mu.Unlock()
	return d.play(t, env, m)
}

// play has the agent run one more turn with a model, and returns what the model was told.
func (d *desk) play(t *testing.T, env []string, m *scriptedModel) string {
	t.Helper()
	if d.agent.name == "codex" {
		write(t, filepath.Join(d.home, ".codex/config.toml"), `model = "scripted"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "`+m.url+`/v1"
wire_api = "responses"
`)
	}
	e := runFor(t, 5*patience, d.dir, d.environ(m.url, env...), d.agent.command(t, d.turns > 0)...)
	d.turns++
	if e.code == -1 {
		t.Fatalf("%s did not end: %s", d.agent.name, e)
	}
	t.Logf("%s: %s", d.agent.name, e)
	return m.read()
}

// decide has hana decide the request that the agent's turn is going to make.
func (d *desk) decide(t *testing.T, decision string) (decided chan struct{}) {
	decided = make(chan struct{})
	go func() {
		defer close(decided)
		if id := d.waitFor(t); id != "" {
			d.g.hana(t, decision, id, "--reason", "not on a Friday")
		}
	}()
	return decided
}

// waitFor waits for the request that the agent's turn is going to make and returns its id; "" where none comes.
func (d *desk) waitFor(t *testing.T) string {
	t.Helper()
	return d.g.asked(t.Context(), t, func(string) bool { return true })
}

// holds is what a file in the agent's folder has, "" where it is not there.
func (d *desk) holds(name string) string {
	b, _ := os.ReadFile(filepath.Join(d.dir, name))
	return string(b)
}

// waiting is the id of the one request that waits, "" where there is none.
func (d *desk) waiting(t *testing.T) string {
	return regexp.MustCompile(`\b[0-9A-Z]{26}\b`).FindString(d.g.hana(t, "pending"))
}

// Coding agents as released, with the hook that install writes: what policy allows runs, what it denies does not,
// a call that waits is not run, the news of its approval reaches the model in the next turn, and the identical
// call then runs once.
func TestCodingAgentsAskAndGoOn(t *testing.T) {
	t.Parallel()
	for _, agent := range codingAgents {
		t.Run(agent.name, func(t *testing.T) {
			t.Parallel()
			d := sitDown(t, agent, "--wait", "0s")
			const ask = `echo "a > b" >> asked.txt`
			read := d.turn(t, nil, "ls > listed.txt", "echo x >> forbidden.txt", ask)
			if d.holds("listed.txt") == "" || d.holds("forbidden.txt") != "" || d.holds("asked.txt") != "" {
				t.Errorf("listed.txt holds %q, forbidden.txt %q, asked.txt %q", d.holds("listed.txt"), d.holds("forbidden.txt"),
					d.holds("asked.txt"))
			}
			for _, want := range []string{"Policy denied: never", "Never that.", "Approval requested (id: "} {
				if !strings.Contains(read, want) {
					t.Errorf("the model did not read %q", want)
				}
			}
			d.g.hana(t, "approve", d.waiting(t))
			read = d.turn(t, nil, ask, ask)
			if got := d.holds("asked.txt"); got != "a > b\n" {
				t.Errorf("what was approved once and called twice wrote %q", got)
			}
			news := regexp.MustCompile(`\[APPROVAL APPROVED\][^\n]*?approved by hana`).FindString(read)
			if news == "" || strings.Contains(news, "&gt;") || strings.Contains(news, "&amp;") {
				t.Errorf("the news was %q", news)
			}
		})
	}
}

// A call that the hook holds runs as soon as it is approved, and does not run where it is denied: the model is
// told by whom, and why.
func TestCodingAgentsAreHeldForADecision(t *testing.T) {
	t.Parallel()
	for _, agent := range codingAgents {
		for _, decision := range []string{"approve", "deny"} {
			t.Run(agent.name+"/"+decision, func(t *testing.T) {
				t.Parallel()
				d := sitDown(t, agent, "--timeout", "4m")
				decided := d.decide(t, decision)
				read := d.turn(t, nil, "echo once >> held.txt")
				testkit.Receive(t, "the decision", decided)
				want := map[string]string{"approve": "once\n", "deny": ""}[decision]
				if got := d.holds("held.txt"); got != want {
					t.Errorf("held.txt holds %q, want %q", got, want)
				}
				if told := strings.Contains(read, "denied by hana: not on a Friday"); told != (decision == "deny") {
					t.Errorf("the model was told of a denial: %t", told)
				}
			})
		}
	}
}

// The calls of one turn come to people on one card, whether the model makes them in one message or one after another:
// both agents say which turn it is. Decided together, each runs when it is made again.
func TestCallsOfACodingAgentsTurnAreOneCard(t *testing.T) {
	t.Parallel()
	for _, agent := range codingAgents {
		for _, together := range []int{1, 2} {
			if agent.name == "gemini" || agent.name == "codex" &&
				together > 1 { // which says nothing of turns; the script does not
				continue
			}
			t.Run(fmt.Sprintf("%s, %d in a message", agent.name, together), func(t *testing.T) {
				t.Parallel()
				d := sitDown(t, agent, "--wait", "0s")
				d.together = together
				commands := []string{"echo one >> one.txt", "echo two >> two.txt"}
				d.turn(t, nil, commands...)
				var page struct {
					Approvals []struct {
						ID      string `json:"id"`
						BatchID string `json:"batch_id"`
					} `json:"approvals"`
				}
				if err := json.Unmarshal([]byte(d.g.hana(t, "pending", "--json")), &page); err != nil {
					t.Fatal(err)
				}
				rs := page.Approvals
				if len(rs) != 2 || rs[0].BatchID == "" || rs[0].BatchID != rs[1].BatchID {
					t.Fatalf("what waits: %+v", rs)
				}
				d.g.hana(t, "approve", rs[0].ID, rs[1].ID)
				d.turn(t, nil, commands...)
				if one, two := d.holds("one.txt"), d.holds("two.txt"); one != "one\n" || two != "two\n" {
					t.Errorf("the files hold %q and %q", one, two)
				}
			})
		}
	}
}

// What a person approved in place of what was asked for runs instead of it, and the model is told so.
func TestCodingAgentsRunWhatWasApprovedInstead(t *testing.T) {
	t.Parallel()
	for _, agent := range codingAgents {
		t.Run(agent.name, func(t *testing.T) {
			t.Parallel()
			d := sitDown(t, agent, "--timeout", "4m")
			done := make(chan struct{})
			go func() {
				defer close(done)
				id := d.waitFor(t)
				if id == "" {
					return
				}
				var asked struct {
					Args json.RawMessage `json:"args"`
				}
				if err := json.Unmarshal([]byte(d.g.hana(t, "show", id, "--json")), &asked); err != nil {
					t.Error(err)
					return
				}
				edited := strings.Replace(string(asked.Args), "echo all", "echo half", 1)
				d.g.hana(t, "approve", id, "--args", edited, "--reason", "half of it will do")
			}()
			read := d.turn(t, nil, "echo all >> held.txt")
			testkit.Receive(t, "the decision", done)
			if got := d.holds("held.txt"); got != "half\n" {
				t.Errorf("held.txt holds %q", got)
			}
			told := []string{"hana changed the arguments and approved these", "half of it will do"}
			if agent.name == "gemini" { // which says so itself, and passes on nothing of ours
				told = []string{"modified by a hook"}
			}
			for _, want := range told {
				if !strings.Contains(read, want) {
					t.Errorf("the model did not read %q", want)
				}
			}
		})
	}
}

// While the gate is down nothing runs that would have to be asked about, and the model reads why.
func TestCodingAgentsAreBlockedWhileTheGateIsDown(t *testing.T) {
	t.Parallel()
	for _, agent := range codingAgents {
		t.Run(agent.name, func(t *testing.T) {
			t.Parallel()
			d := sitDown(t, agent, "--server", "http://"+port(t))
			read := d.turn(t, nil, "ls > listed.txt")
			if d.holds("listed.txt") != "" || !strings.Contains(read, "The gate could not be asked, so the call was not run") {
				t.Errorf("listed.txt holds %q; the model read a reason: %t", d.holds("listed.txt"), strings.Contains(read,
					"could not be asked"))
			}
		})
	}
}

// Under the preset that install offers, what an agent does all day asks nobody and reaches the model; the first edit
// is asked about, and not made.
func TestCodingAgentsReadUnderThePresetWithoutAsking(t *testing.T) {
	t.Parallel()
	for _, agent := range codingAgents {
		t.Run(agent.name, func(t *testing.T) {
			t.Parallel()
			d := sitDownUnder(t, agent, "policy:\n  use_within: 15m\n", "--preset", "--wait", "0s")
			write(t, filepath.Join(d.dir, "a.txt"), "hay\nneedle in a.txt\n")
			m := scripted(t, agent)
			m.plays(func(m *scriptedModel) []call { return agent.day(m, d.dir) })
			read := d.play(t, nil, m)
			if id := d.waiting(t); id != "" {
				t.Errorf("somebody is asked: %s", d.g.hana(t, "show", id))
			}
			if !strings.Contains(read, "needle in a.txt") || strings.Contains(read, "Approval requested") {
				t.Error("the model did not read the file")
			}
			if got := d.g.hana(t, "audit", "query", "--event-type=call_allowed", "--json"); strings.Count(got,
				`"preset/coding-agent: `) < 2 {
				t.Errorf("the preset allowed nothing:\n%s", got)
			}
			m = scripted(t, agent)
			m.plays(func(m *scriptedModel) []call { return []call{agent.edit(m, d.dir)} })
			read = d.play(t, nil, m)
			asked := regexp.MustCompile(`Approval (requested|pending) \(id: `).MatchString(
				read) // a model with few ids may call twice
			if d.waiting(t) == "" || d.holds("b.txt") != "" || !asked {
				t.Errorf("the edit was not asked about: b.txt holds %q", d.holds("b.txt"))
			}
		})
	}
}

// What docs/gemini.md says of Gemini CLI where the hook has no say.
func TestGeminiAsDescribed(t *testing.T) {
	t.Parallel()
	gemini := codingAgents[2]
	t.Run("a missing program blocks", func(t *testing.T) {
		t.Parallel()
		d := sitDown(t, gemini)
		settings := filepath.Join(d.home, ".gemini/settings.json")
		write(t, settings, strings.ReplaceAll(fileText(t, settings), program, program+"-gone"))
		d.turn(t, nil, "ls > listed.txt")
		if got := d.holds("listed.txt"); got != "" {
			t.Errorf("listed.txt holds %q", got)
		}
	})
	t.Run("a token that was taken out of the environment blocks and says so", func(t *testing.T) {
		t.Parallel()
		d := sitDown(t, gemini)
		read := d.turn(t, []string{"GITHUB_SHA=0123"}, "ls > listed.txt")
		if d.holds("listed.txt") != "" || !strings.Contains(read, "environmentVariableRedaction.allowed") {
			t.Errorf("listed.txt holds %q; the model read of the setting: %t", d.holds("listed.txt"), strings.Contains(read,
				"environmentVariableRedaction"))
		}
	})
	t.Run("its own policy comes after, and the approval is used", func(t *testing.T) {
		t.Parallel()
		d := sitDown(t, gemini, "--timeout", "4m")
		write(t, filepath.Join(d.home, ".gemini/policies/own.toml"),
			"[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"echo\"\ndecision = \"deny\"\npriority = 999\n")
		decided := d.decide(t, "approve")
		d.turn(t, []string{geminiStartsOnce}, "echo once >> held.txt") // in its second process, as it comes
		testkit.Receive(t, "the decision", decided)
		if got := d.holds("held.txt"); got != "" {
			t.Errorf("held.txt holds %q", got)
		}
		if got := d.g.hana(t, "audit", "query", "--event-type=approval_consumed"); !strings.Contains(got,
			"run_shell_command") {
			t.Errorf("no approval was used:\n%s", got)
		}
	})
	t.Run("hooks that are switched off ask nobody", func(t *testing.T) {
		t.Parallel()
		d := sitDown(t, gemini)
		settings := filepath.Join(d.home, ".gemini/settings.json")
		write(t, settings, strings.Replace(fileText(t, settings), "{", `{"hooksConfig":{"disabled":["countersign"]},`, 1))
		d.turn(t, nil, "echo x > forbidden.txt")
		if got := d.holds("forbidden.txt"); got != "x\n" {
			t.Errorf("forbidden.txt holds %q: docs/gemini.md says that the call runs", got)
		}
	})
}

func fileText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
