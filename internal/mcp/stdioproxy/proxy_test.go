package stdioproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/testkit"
)

// bare starts a server without a wrapper.
func bare(t testing.TB, habits ...string) *peer {
	t.Helper()
	command, _ := command(t, habits...)
	cmd := testkit.Command(t, command[0], command[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, in, out)
	t.Cleanup(func() {
		in.Close()
		testkit.Receive(t, "the end of what it writes", p.over)
		_ = cmd.Wait()
	})
	return p
}

// member is what an object has under a path of names, as written.
func member(t testing.TB, v json.RawMessage, path ...string) json.RawMessage {
	t.Helper()
	for _, name := range path {
		var o map[string]json.RawMessage
		if err := json.Unmarshal(v, &o); err != nil {
			t.Fatalf("%v: %s", err, v)
		}
		v = o[name]
	}
	return v
}

func TestAServerIsOfferedAsItIs(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"legacy", "modern"} {
		for _, of := range []string{"legacy", "modern"} {
			t.Run(era+" client, "+of+" server", func(t *testing.T) {
				t.Parallel()
				b := bare(t, of)
				b.modern = of == "modern"
				b.hello()
				x := newWorld(t, allowAll).wrap(of)
				x.modern = era == "modern"
				hello := x.hello()
				who := []string{"serverInfo"}
				if x.modern {
					who = []string{"_meta", "io.modelcontextprotocol/serverInfo"}
				}
				want(t, "who the server is", string(member(t, hello.Result, who...)), theInfo)
				contains(t, "the instructions", string(member(t, hello.Result, "instructions")), theHint,
					"need a person's approval")

				var mine, theirs []json.RawMessage
				for l, to := range map[*peer]*[]json.RawMessage{x.peer: &mine, b: &theirs} {
					if err := json.Unmarshal(member(t, l.do("tools/list", "{}").Result, "tools"), to); err != nil {
						t.Fatal(err)
					}
				}
				if len(mine) != len(theirs)+1 || !bytes.Contains(mine[len(theirs)], []byte(`"countersign__resolved"`)) {
					t.Fatalf("got %d tools, the last %s, want %d and our own", len(mine), mine[len(mine)-1], len(theirs))
				}
				for i := range theirs {
					want(t, "a tool", string(mine[i]), string(theirs[i]))
				}
				arguments := `{"n":12345678901234567890,"x":1.10,"s":"<\u2028>"}`
				got, bareGot := x.wait(x.call("echo", arguments)), b.wait(b.call("echo", arguments))
				contains(t, "the result", string(got.Result), `"structuredContent":{"n":1.10}`)
				if era == of {
					want(t, "the result", string(got.Result), string(bareGot.Result))
				}
				want(t, "an unknown tool", x.called("nothing", "{}"), "error -32602: Unknown tool: nothing")
			})
		}
	}
}

func TestACallWaitsForItsPersonThroughTheWrapper(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quarantines)
	x := w.wrap()
	x.hello()
	answer := x.call("echo", `{"n":1}`)
	r := w.pending(1)[0]
	want(t, "what is asked", fmt.Sprint(r.Server, "/", r.Tool, " ", string(r.Args)), `fake/echo {"n":1}`)
	if r.ToolDigest == "" || !strings.HasPrefix(r.Scope, "/home/ken/project (command ") || r.Agent != "bot" {
		t.Errorf("got digest %q, scope %q, agent %q", r.ToolDigest, r.Scope, r.Agent)
	}
	w.decide(r.ID, true, "")
	want(t, "approved", x.wait(answer).text(), `{"n":1}`)
	if now := w.request(r.ID); now.RunResult != approval.RunSucceeded {
		t.Errorf("the outcome is %q", now.RunResult)
	}

	answer = x.call("echo", `{"n":2}`)
	w.decide(w.pending(1)[0].ID, false, "not that one")
	contains(t, "denied", x.wait(answer).text(), "failed: Approval denied by hana: not that one.")
	contains(t, "the feed", x.called("countersign__resolved", "{}"), "[APPROVAL DENIED] fake/echo", "(id: ")
	if n := len(x.events("call ")); n != 1 {
		t.Errorf("the server was called %d times, want once", n)
	}
}

func TestAServerThatCannotBeHadIsToldClearly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		command []string
		says    []string
	}{
		{"missing", []string{"/no/such/program"},
			[]string{"The MCP server fake cannot be reached: the command does not start: ", "/no/such/program",
				"Nothing was run."}},
		{"exits", nil, []string{"The MCP server fake cannot be reached: ", "exit status 3",
			"it last wrote: cannot find my database", "Nothing was run."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, allowAll)
			c, log := command(t, "exits")
			if tt.command != nil {
				c = tt.command
			}
			x := wrapWith(t, log, Options{Gate: w.remote(), Command: c})
			for range 2 { // a client may try once more
				contains(t, "initialize", x.hello().text(), append(tt.says, "error ")...)
			}
			x.modern = true
			contains(t, "a call", x.called("echo", "{}"), tt.says[0], "The call was not run, and nobody was asked.")
			if w.asked.Load() != 0 {
				t.Error("the gate was asked")
			}
		})
	}
}

func TestAServerThatDiesLeavesTheOutcomeUnknownAndIsStartedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quarantines)
	x := w.wrap()
	x.hello()
	if l := x.do("logging/setLevel", `{"level":"warning"}`); l.Error != nil {
		t.Fatal(l.text())
	}
	answer := x.call("die", "{}")
	first := w.pending(1)[0]
	w.decide(first.ID, true, "")
	contains(t, "the call", x.wait(answer).text(),
		"failed: The outcome is unknown: the call was sent to the MCP server fake and no answer came (the server's process ended: exit status 7).")
	if r := w.request(first.ID); r.RunResult != approval.RunUnknown {
		t.Errorf("the outcome is %q", r.RunResult)
	}
	x.call("die", "{}")
	if again := w.pending(1)[0]; again.Previous == nil || again.Previous.RunResult != approval.RunUnknown {
		t.Errorf("the next card does not say that the first may have run: %+v", again.Previous)
	}
	w.policy(`{policy: {rules: [{tools: ["*/echo"], risk: low, action: allow}]}}`)
	want(t, "another call", x.called("echo", `{"n":2}`), `{"n":2}`)
	if n := len(x.events("start ")); n != 2 {
		t.Errorf("the server was started %d times, want 2", n)
	}
	testkit.Eventually(t, "it is told again what is wanted", func() bool { return len(x.events("level")) == 2 })
	testkit.Eventually(t, "the client is told that the lists may have changed", func() bool {
		return x.saw("notifications/tools/list_changed") == 1
	})
}

func TestAServerWithBadHabitsWorks(t *testing.T) {
	t.Parallel()
	for _, habit := range []string{"junk", "loud", "slow=1500ms", "deaf"} {
		t.Run(habit, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, allowAll)
			x := w.wrap(habit)
			x.hello()
			want(t, "a call", x.called("echo", `{"n":1}`), `{"n":1}`)
			if n := len(x.events("start ")); n != 1 {
				t.Errorf("the server was started %d times", n)
			}
			if habit == "loud" {
				testkit.Eventually(t, "all that it says is passed on", func() bool {
					x.said.mu.Lock()
					defer x.said.mu.Unlock()
					return x.said.n >= 5000
				})
			}
			x.in.Close()
			if err := testkit.Receive(t, "the wrapper's end", x.ended); err != nil {
				t.Errorf("got %v", err)
			}
			over(t, x.events("start ")...)
		})
	}
}

// ended is whether no process has the number.
func ended(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	defer p.Release()
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// over waits until no process with the number is there, or is more than a body.
func over(t testing.TB, pids ...string) {
	t.Helper()
	for _, pid := range pids {
		testkit.Eventually(t, "the end of process "+pid, func() bool {
			state, err := os.ReadFile("/proc/" + pid + "/stat")
			if err != nil {
				var n int
				fmt.Sscan(pid, &n)
				return !os.IsNotExist(err) || ended(n)
			}
			_, after, _ := strings.Cut(string(state), ") ")
			return strings.HasPrefix(after, "Z")
		})
	}
}

func TestTheServerAndWhatItStartedEndWithTheWrapper(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"the client closes its end", "a signal"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			x := newWorld(t, allowAll).wrap("child", "deaf")
			x.hello()
			testkit.Eventually(t, "both run", func() bool { return len(x.events("start ")) == 2 })
			if how == "a signal" {
				x.stop()
			} else {
				x.in.Close()
			}
			testkit.Receive(t, "the wrapper's end", x.ended)
			over(t, x.events("start ")...)
		})
	}
}

func TestAClientThatGoesLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quarantines)
	x := w.wrap()
	x.hello()
	x.call("echo", `{"held":true}`)
	held := w.pending(1)[0]
	x.call("hang", "{}")
	sent := w.pending(2)[1]
	w.decide(sent.ID, true, "")
	testkit.Eventually(t, "the call is under way", func() bool { return len(x.events("call hang")) == 1 })
	x.in.Close()
	if err := testkit.Receive(t, "the wrapper's end", x.ended); err != nil {
		t.Errorf("got %v", err)
	}
	if r := w.request(sent.ID); r.RunResult != approval.RunUnknown {
		t.Errorf("the call that was under way: the outcome is %q", r.RunResult)
	}
	if r := w.request(held.ID); r.Status != approval.Pending {
		t.Errorf("the held call: %s", r.Status)
	}
	w.decide(held.ID, true, "")

	// The identical call of the next wrapper around the same command uses the approval.
	y := wrapWith(t, x.log, Options{Gate: w.remote(), Command: x.commandLine(t)})
	y.hello()
	want(t, "the identical call", y.called("echo", `{"held":true}`), `{"held":true}`)
	if r := w.request(held.ID); r.RunResult != approval.RunSucceeded {
		t.Errorf("the outcome is %q", r.RunResult)
	}
}

func (x *wrapped) commandLine(t testing.TB) []string {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{exe, "mcp-server", x.log}
}

func TestServersOfOneNameShareNoApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quarantines)
	x, y := w.wrap(), w.wrap("other")
	x.hello()
	y.hello()
	answer := x.call("echo", `{"n":1}`)
	r := w.pending(1)[0]
	w.decide(r.ID, true, "")
	want(t, "the one", x.wait(answer).text(), `{"n":1}`)
	answer = x.call("echo", `{"n":1}`)
	w.decide(w.pending(1)[0].ID, false, "no")
	x.wait(answer)
	y.call("echo", `{"n":1}`)
	other := w.pending(1)[0]
	if other.Scope == r.Scope || other.Server != r.Server {
		t.Errorf("got the scopes %q and %q", r.Scope, other.Scope)
	}
}

func TestAServerAsksItsClientThroughTheWrapper(t *testing.T) {
	t.Parallel()
	w := newWorld(t, allowAll)
	x := w.wrap()
	x.caps = `{"elicitation":{"form":{}},"sampling":{},"roots":{"listChanged":true}}`
	answers := map[string]string{
		"elicitation/create":     `{"action":"accept","content":{"which":"that"}}`,
		"sampling/createMessage": `{"role":"assistant","content":{"type":"text","text":"ho"},"model":"m"}`,
		"roots/list":             `{"roots":[{"uri":"file:///data"}]}`,
	}
	x.answer = func(method string) string { return answers[method] }
	x.hello()
	if got := x.events("initialize"); len(got) != 1 || got[0] != x.caps {
		t.Errorf("the server was told %q", got)
	}
	want(t, "elicitation", x.called("ask", "{}"), answers["elicitation/create"])
	want(t, "sampling", x.called("sample", "{}"), answers["sampling/createMessage"])
	// As it is when the server starts, outside of any request.
	want(t, "roots", x.called("roots", "{}"), answers["roots/list"])
	want(t, "a change", x.called("change", "{}"), "changed")
	testkit.Eventually(t, "the change is told", func() bool { return x.saw("notifications/tools/list_changed") == 1 })

	// Two calls at once: the server cannot say for which it asks, and both are this client's.
	one, two := x.call("ask", "{}"), x.call("sample", "{}")
	want(t, "one", x.wait(one).text(), answers["elicitation/create"])
	want(t, "two", x.wait(two).text(), answers["sampling/createMessage"])

	// Who cannot is not asked.
	y := w.wrap()
	y.answer = x.answer
	y.hello()
	want(t, "elicitation", y.called("ask", "{}"), `{"action":"cancel"}`)
	if y.saw("elicitation/create")+y.saw("roots/list") != 0 {
		t.Error("a client that cannot be asked was")
	}
}

func TestAClientIsNotAskedBeforeItIsReady(t *testing.T) {
	t.Parallel()
	x := newWorld(t, allowAll).wrap()
	x.answer = func(string) string { return `{"roots":[]}` }
	x.do("initialize", `{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"peer","version":"1"}}`)
	x.do("tools/list", "{}")
	if x.saw("roots/list") != 0 {
		t.Error("it was asked")
	}
	x.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	testkit.Eventually(t, "it is asked", func() bool { return x.saw("roots/list") == 1 })
	want(t, "roots", x.called("roots", "{}"), `{"roots":[]}`)
}

func TestAClientThatTurnsToInitializeHasOneServer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, first, then string
		starts            int
		slow              bool
	}{
		{"the same abilities", `{"elicitation":{"form":{}},"extensions":{"x/y":{}}}`, `{"elicitation":{"form":{}}}`, 1,
			false},
		{"while it starts", `{}`, `{}`, 1, true},
		{"more abilities", `{}`, `{"elicitation":{"form":{}}}`, 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			habits := []string{}
			if tt.slow {
				habits = append(habits, "slow=700ms")
			}
			x := newWorld(t, allowAll).wrap(habits...)
			x.answer = func(string) string { return `{"action":"decline"}` }
			x.modern, x.caps = true, tt.first
			first := x.start("server/discover", "{}")
			if tt.slow { // the client gives up
				testkit.Eventually(t, "the server is starting", func() bool { return len(x.events("start ")) == 1 })
				x.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			} else if l := x.wait(first); l.Error != nil {
				t.Fatal(l.text())
			}
			x.modern, x.caps = false, tt.then
			if l := x.hello(); l.Error != nil {
				t.Fatal(l.text())
			}
			want(t, "a call", x.called("echo", `{"n":1}`), `{"n":1}`)
			asked := `{"action":"cancel"}`
			if tt.then != "{}" {
				asked = `{"action":"decline"}`
			}
			want(t, "elicitation", x.called("ask", `{}`), asked)
			x.called("change", "{}")
			testkit.Eventually(t, "a change is told", func() bool { return x.saw("notifications/tools/list_changed") == 1 })
			if n := len(x.events("start ")); n != tt.starts {
				t.Errorf("the server was started %d times, want %d", n, tt.starts)
			}
			if n := len(x.events("end ")); n != tt.starts-1 {
				t.Errorf("%d of them have ended cleanly, want %d", n, tt.starts-1)
			}
		})
	}
}

func TestTasksRunThroughTheWrapper(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quarantines)
	x := w.wrap()
	x.modern, x.caps = true, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	x.hello()
	l := x.wait(x.call("echo", `{"n":1}`))
	var task struct{ ResultType, TaskID, Status string }
	_ = json.Unmarshal(l.Result, &task)
	if task.ResultType != "task" || task.TaskID == "" || task.Status != "working" {
		t.Fatalf("got %s", l.Result)
	}
	get := func() json.RawMessage { return x.do("tasks/get", `{"taskId":"`+task.TaskID+`"}`).Result }
	contains(t, "while it waits", string(get()), `"status":"working"`)
	w.decide(task.TaskID, true, "")
	testkit.Eventually(t, "it completes", func() bool { return bytes.Contains(get(), []byte(`"status":"completed"`)) })
	contains(t, "the result", string(get()), `"text":"{\"n\":1}"`, `"structuredContent":{"n":1.10}`)
	if r := w.request(task.TaskID); r.RunResult != approval.RunSucceeded {
		t.Errorf("the outcome is %q", r.RunResult)
	}
}

func TestACallThatIsHeldSurvivesItsGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quarantines)
	x := w.wrap()
	x.hello()
	held := make(chan struct{}, 100)
	w.interfere(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("wait") {
			held <- struct{}{}
		}
		return false
	})
	answer := x.call("echo", `{"n":1}`)
	r := w.pending(1)[0]
	testkit.Receive(t, "the call is held", held)
	w.interfere(gone)
	w.breakOff()
	testkit.Eventually(t, "the gate waits for nobody", func() bool { return w.inflight.Load() == 0 })
	w.decide(r.ID, true, "")
	before := w.asked.Load()
	testkit.Eventually(t, "it is tried again, and again", func() bool { return w.asked.Load() >= before+2 })
	w.interfere(nil)
	want(t, "the call", x.wait(answer).text(), `{"n":1}`)

	// A gate that stays away leaves the call pending, and says so when it is made again.
	y := wrapWith(t, x.log, Options{Gate: w.remote(), Command: x.commandLine(t), Hold: 2 * time.Second})
	y.hello()
	answer = y.call("echo", `{"n":2}`)
	w.pending(1)
	w.interfere(gone)
	contains(t, "the call", y.wait(answer).text(), "Approval requested", "The call has not run.")
	contains(t, "the identical call", y.called("echo", `{"n":2}`),
		"failed: The gate could not decide: The gate cannot be reached: no answer from ", "The call was not run")
	w.interfere(nil)
	answer = y.call("echo", `{"n":2}`)
	w.decide(w.pending(1)[0].ID, true, "")
	want(t, "when it is back", y.wait(answer).text(), `{"n":2}`)
	if n := len(y.events("call ")); n != 2 {
		t.Errorf("the server was called %d times, want 2", n)
	}
}

func TestWithoutAGateEachCallIsAnsweredWithWhatToDo(t *testing.T) {
	t.Parallel()
	for name, fault := range faults {
		if name == "no request" || name == "redirect" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, allowAll)
			x := w.wrap()
			x.hello()
			w.interfere(fault.with)
			got := x.called("echo", "{}")
			contains(t, "the call", strings.ToLower(got), strings.ToLower(strings.TrimSuffix(fault.says, ": ")))
			if len(x.events("call ")) != 0 {
				t.Error("it ran")
			}
			if strings.Contains(got, "try again later") && fault.code == approval.CodeUnauthorized {
				t.Errorf("got %s, which trying again does not help", got)
			}
		})
	}
}
