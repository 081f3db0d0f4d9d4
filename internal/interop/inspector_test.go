//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"countersign/internal/testkit"
)

// inspector is the Inspector's command line, pointed at something.
type inspector struct {
	env    []string
	target []string // before the other arguments
	dir    string
}

// inspect has an Inspector that talks to a gate over HTTP as the agent.
func inspect(t *testing.T, g *gate, more ...string) inspector {
	return inspector{
		env: environ(t), dir: t.TempDir(),
		target: append([]string{g.url + "/mcp", "--transport", "http", "--header", "Authorization: Bearer " + agentToken},
			more...),
	}
}

func (in inspector) run(t *testing.T, args ...string) ended {
	t.Helper()
	command := append([]string{node(t), script(t, "inspector/clients/launcher/build/index.js"), "--cli"}, in.target...)
	return run(t, in.dir, in.env, append(append(command, "--format", "json", "-q"), args...)...)
}

// call calls a tool with args, which are JSON.
func (in inspector) call(t *testing.T, tool, args string) ended {
	t.Helper()
	return in.run(t, "--method", "tools/call", "--tool-name", tool, "--tool-args-json", args)
}

// names are those of what a method lists.
func (in inspector) names(t *testing.T, list string) []string {
	t.Helper()
	e := in.run(t, "--method", list+"/list")
	var got struct {
		Result map[string]json.RawMessage
	}
	var items []struct{ Name string }
	if err := json.Unmarshal([]byte(e.out), &got); err != nil || json.Unmarshal(got.Result[list], &items) != nil {
		t.Fatalf("%s/list: %v %s", list, err, e)
	}
	var names []string
	for _, i := range items {
		names = append(names, i.Name)
	}
	return names
}

// want fails unless e ended with the code and wrote all the texts on stdout.
func want(t *testing.T, what string, e ended, code int, texts ...string) {
	t.Helper()
	ok := e.code == code
	for _, s := range texts {
		ok = ok && strings.Contains(e.out, s)
	}
	if !ok {
		t.Errorf("%s: got %s\nwant exit code %d and %q", what, e, code, texts)
	}
}

var requested = regexp.MustCompile(`⏳ Approval (?:requested|pending) \(id: (\w+)\)`)

// pendingID is the request that an answer speaks of.
func pendingID(t *testing.T, e ended) string {
	t.Helper()
	m := requested.FindStringSubmatch(e.out)
	if m == nil {
		t.Fatalf("no pending request in %s", e)
	}
	return m[1]
}

// folder is a temporary one with a short path, as the filesystem server and a socket need it.
func folder(t *testing.T) string {
	dir, err := os.MkdirTemp("", "interop")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// holds fails unless the file holds the text; "" stands for a file that is not there.
func holds(t *testing.T, when, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s %s holds %q, want %q", when, filepath.Base(path), got, want)
	}
}

// TestInspector is a person with the Inspector, and three servers behind one gate.
func TestInspector(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	file := filepath.Join(dir, "a.txt")
	path := strconv.Quote(file)
	g := serve(t, `policy:
  rules: [{tools: ["ref/*"], risk: low, action: allow}]
mcp:
  hold: 0
  servers:
    - {name: files, command: `+flow(filesystem(t, dir))+`, tools: [read_text_file, write_file, edit_file], require_approval: [write_file, edit_file]}
    - {name: all, command: `+flow(everything(t))+`, require_approval: [get-sum]}
    - {name: ref, url: "`+reference(t, false)+`", prefix: ""}
`)
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			in := inspect(t, g, "--protocol-era", era)
			got := in.names(t, "tools")
			for _, name := range []string{"files__read_text_file", "files__write_file", "all__echo", "all__get-sum",
				"test_simple_text", "countersign__resolved"} {
				if !slices.Contains(got, name) {
					t.Errorf("no tool %s in %q", name, got)
				}
			}
			if slices.Contains(got, "files__move_file") {
				t.Errorf("move_file is offered, which the configuration leaves out")
			}
			if got := in.names(t, "prompts"); !slices.Contains(got, "all__simple-prompt") ||
				!slices.Contains(got, "test_simple_prompt") {
				t.Errorf("got prompts %q, want those of both servers", got)
			}
			if got := in.names(t, "resources"); !slices.Contains(got, "features.md") || len(got) < 8 {
				t.Errorf("got resources %q, want those of both servers", got)
			}
			want(t, "a prompt", in.run(t, "--method", "prompts/get", "--prompt-name", "all__args-prompt", "--prompt-args",
				"city=Kyoto"), 0, "weather in Kyoto?")
			want(t, "a resource", in.run(t, "--method", "resources/read", "--uri",
				"demo://resource/static/document/features.md"), 0, "Everything Server - Features")
			want(t, "another's resource", in.run(t, "--method", "resources/read", "--uri", "test://static-text"), 0,
				`"uri":"test://static-text"`)

			put(t, file, "the first line")
			want(t, "read_text_file", in.call(t, "files__read_text_file", `{"path":`+path+`}`), 0, "the first line")
			want(t, "echo", in.call(t, "all__echo", `{"message":"from afar"}`), 0, "Echo: from afar")
			want(t, "without a prefix", in.call(t, "test_simple_text", `{}`), 0, "simple text")
			want(t, "a tool that fails", in.call(t, "test_error_handling", `{}`), 5, `"isError":true`)
		})
	}

	in := inspect(t, g)
	t.Run("approved", func(t *testing.T) {
		put(t, file, "before")
		args := `{"path":` + path + `,"content":"after"}`
		asked := in.call(t, "files__write_file", args)
		want(t, "asked", asked, 5, "⏳ Approval requested", "The call has not run.") // 5, as it declares an output schema
		again := in.call(t, "files__write_file", args)
		want(t, "asked again", again, 5, "⏳ Approval pending")
		id := pendingID(t, asked)
		if other := pendingID(t, again); other != id {
			t.Errorf("the same call made the request %s, want %s", other, id)
		}
		holds(t, "before the approval", file, "before")
		g.hana(t, "approve", id)
		holds(t, "before the call is made again", file, "before")
		want(t, "approved", in.call(t, "files__write_file", args), 0, "Successfully wrote")
		holds(t, "after it", file, "after")

		put(t, file, "since")
		anew := in.call(t, "files__write_file", args)
		want(t, "used up", anew, 5, "⏳ Approval requested")
		if other := pendingID(t, anew); other == id {
			t.Errorf("an approval that was used is asked for under its old id %s", id)
		}
		holds(t, "after a second call", file, "since")
		g.hana(t, "cancel", pendingID(t, anew))
	})
	t.Run("pending without an output schema", func(t *testing.T) {
		asked := in.call(t, "all__get-sum", `{"a":2,"b":6}`)
		want(t, "asked", asked, 0, "⏳ Approval requested")
		g.hana(t, "approve", pendingID(t, asked))
		want(t, "approved", in.call(t, "all__get-sum", `{"a":2,"b":6}`), 0, "is 8")
	})
	t.Run("denied", func(t *testing.T) {
		put(t, file, "as it was")
		args := `{"path":` + path + `,"content":"never"}`
		g.hana(t, "deny", pendingID(t, in.call(t, "files__write_file", args)), "--reason", "wrong folder")
		e := in.call(t, "files__write_file", args)
		want(t, "denied", e, 5, "hana", "wrong folder", `"isError":true`)
		if !strings.Contains(e.errout, "tool_is_error") {
			t.Errorf("denied: got stderr %q, want tool_is_error", e.errout)
		}
		holds(t, "after the denial", file, "as it was")
	})
	t.Run("one of many", func(t *testing.T) {
		put(t, file, "n")
		args := `{"path":` + path + `,"edits":[{"oldText":"n","newText":"nn"}]}`
		g.hana(t, "approve", pendingID(t, in.call(t, "files__edit_file", args)))
		in.run(t, "--method", "tools/call", "--tool-name", "files__edit_file", "--tool-args-json", args, "--load",
			"--load-requests", "40", "--load-concurrency", "10")
		holds(t, "after 40 calls of one approved edit", file, "nn")
	})

	// A modern Inspector declares the tasks extension: the gate runs the call itself, once it is approved.
	modern := inspect(t, g, "--protocol-era", "modern")
	t.Run("approved as a task", func(t *testing.T) {
		put(t, file, "before")
		id, end := g.task(t, modern, "files__write_file", `{"path":`+path+`,"content":"after"}`)
		holds(t, "before the approval", file, "before")
		g.hana(t, "approve", id)
		want(t, "approved", end(), 0, "Successfully wrote")
		holds(t, "after it", file, "after")
	})
	t.Run("denied as a task", func(t *testing.T) {
		put(t, file, "as it was")
		id, end := g.task(t, modern, "files__write_file", `{"path":`+path+`,"content":"not this either"}`)
		g.hana(t, "deny", id, "--reason", "wrong folder")
		want(t, "denied", end(), 5, "hana", "wrong folder")
		holds(t, "after the denial", file, "as it was")
	})
}

// task makes a call in the background, and returns the request that it made and what waits for its end.
func (g *gate) task(t *testing.T, in inspector, tool, args string) (id string, end func() ended) {
	t.Helper()
	done := make(chan ended, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		done <- in.call(t, tool, args)
		cancel() // one that did not wait
	}()
	id = g.asked(ctx, t, func(asked string) bool { return tool == asked || strings.HasSuffix(tool, "__"+asked) })
	end = func() ended { return testkit.Receive(t, "the end of "+tool, done) }
	if id == "" {
		t.Fatalf("%s did not wait: %s", tool, end())
	}
	return id, end
}

// TestWrapperInspector is the Inspector with the wrapper as its server, and a gate of one's own that the wrapper
// starts and that is reached by its socket.
func TestWrapperInspector(t *testing.T) {
	t.Parallel()
	home := folder(t)
	dir := filepath.Join(home, "data")
	config := filepath.Join(home, ".config/countersign")
	for _, d := range []string{dir, config} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(config, "countersign.yaml"), `listen: 127.0.0.1:0
`+people+`policy:
  rules:
    - {tools: ["files/read_*"], risk: low, action: allow}
    - {tools: ["files/move_file"], risk: low, action: deny, message: "Nothing is moved here."}
    - {tools: ["*"], risk: high}
`)
	env := environ(t, "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"), "XDG_CACHE_HOME="+
		filepath.Join(home, ".cache"),
		"XDG_RUNTIME_DIR=", "COUNTERSIGN_CONFIG=", "COUNTERSIGN_SOCKET=")
	t.Cleanup(func() {
		b, err := os.ReadFile(filepath.Join(config, "countersign.db.lock"))
		if err != nil {
			t.Errorf("no gate of one's own was started: %v", err)
			return
		}
		pid := 0
		if _, err := fmt.Sscanf(string(b), "process %d", &pid); err != nil {
			t.Fatalf("the lock holds %q: %v", b, err)
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Errorf("the gate %d is not running: %v", pid, err)
		}
		testkit.Eventually(t, "the gate stops", func() bool { return syscall.Kill(pid, 0) != nil })
		if log, err := os.ReadFile(filepath.Join(home, ".cache/countersign/serve.log")); err != nil || t.Failed() ||
			strings.Contains(string(log), "DATA RACE") {
			t.Errorf("the gate's log: %v\n%s", err, log)
		}
	})
	g := &gate{dir: home, env: env}
	// A configuration, because the Inspector takes what follows -- for its own.
	servers := filepath.Join(home, "mcp.json")
	command := append([]string{program, "mcp", "--name", "files", "--hold", "0", "--"}, filesystem(t, dir)...)
	put(t, servers, `{"mcpServers":{"files":{"type":"stdio","command":`+strconv.Quote(command[0])+`,"args":`+
		flow(command[1:])+`}}}`)
	inspect := func(era string) inspector {
		return inspector{env: env, dir: home, target: []string{"--config", servers, "--server", "files", "--protocol-era",
			era}}
	}
	file := filepath.Join(dir, "a.txt")
	path := strconv.Quote(file)

	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			put(t, file, "the first line")
			in := inspect(era)
			if got := in.names(t, "tools"); !slices.Contains(got, "write_file") || !slices.Contains(got, "read_text_file") {
				t.Errorf("got tools %q, want the server's own names", got)
			}
			want(t, "allowed", in.call(t, "read_text_file", `{"path":`+path+`}`), 0, "the first line")
			want(t, "denied by a rule", in.call(t, "move_file", `{"source":`+path+`,"destination":`+strconv.Quote(file+"x")+`}`),
				5, "Nothing is moved here.")
		})
	}
	in := inspect("legacy")
	t.Run("approved, then denied", func(t *testing.T) {
		put(t, file, "before")
		args := `{"path":` + path + `,"content":"after"}`
		asked := in.call(t, "write_file", args)
		want(t, "asked", asked, 5, "⏳ Approval requested")
		holds(t, "before the approval", file, "before")
		g.hana(t, "approve", pendingID(t, asked))
		want(t, "approved", in.call(t, "write_file", args), 0, "Successfully wrote")
		holds(t, "after it", file, "after")
		put(t, file, "since")
		anew := in.call(t, "write_file", args)
		want(t, "used up", anew, 5, "⏳ Approval requested")
		g.hana(t, "deny", pendingID(t, anew), "--reason", "once is enough")
		want(t, "denied", in.call(t, "write_file", args), 5, "hana", "once is enough")
		holds(t, "after the denial", file, "since")
	})
	t.Run("approved as a task", func(t *testing.T) {
		put(t, file, "before")
		id, end := g.task(t, inspect("modern"), "write_file", `{"path":`+path+`,"content":"by a task"}`)
		holds(t, "before the approval", file, "before")
		g.hana(t, "approve", id)
		want(t, "approved", end(), 0, "Successfully wrote")
		holds(t, "after it", file, "by a task")
	})
	t.Run("many wrappers", func(t *testing.T) {
		put(t, file, "n")
		args := `{"path":` + path + `,"edits":[{"oldText":"n","newText":"nn"}]}`
		g.hana(t, "approve", pendingID(t, in.call(t, "edit_file", args)))
		var wg sync.WaitGroup
		codes := make([]int, 4)
		for i := range codes {
			wg.Go(func() { codes[i] = in.call(t, "edit_file", args).code })
		}
		wg.Wait() // real: programs, each of which has its time
		slices.Sort(codes)
		if !slices.Equal(codes, []int{0, 5, 5, 5}) {
			t.Errorf("four wrappers with one approved call: got exit codes %v, want one 0", codes)
		}
		holds(t, "after it", file, "nn")
	})
}
