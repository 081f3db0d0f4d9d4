//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"countersign/internal/testkit"
)

// program is the countersign that is tested, and bench what loads it. Under the race detector they are built with it,
// too.
var program, bench string

// fakeEnv makes this test binary into one of its fakes.
const fakeEnv = "COUNTERSIGN_INTEROP_FAKE"

func TestMain(m *testing.M) {
	if name := os.Getenv(fakeEnv); name != "" {
		fakes[name]()
		return
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "interop")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		program, bench = filepath.Join(dir, "countersign"), filepath.Join(dir, "bench")
		build := exec.Command("go", "build", "-o", dir, // real: a build
			"countersign/cmd/countersign", "countersign/internal/bench")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// patience is how long anything may take before the test that waits for it fails.
const patience = time.Minute

// Tokens of the gates in these tests.
const (
	agentToken  = "agent-token-0123456789"
	personToken = "person-token-0123456789"
)

// people are the agent and the person of every configuration here.
const people = `limits: none
agents: [{name: bot, token: ` + agentToken + `}]
people: [{name: hana, roles: [approver, admin], token: ` + personToken + `}]
`

// tools is the folder with the programs that we are tried with.
func tools(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("COUNTERSIGN_INTEROP")
	if dir == "" {
		t.Fatal(`COUNTERSIGN_INTEROP names no folder: copy .ci/interop into one, run "npm ci --ignore-scripts" there, and have "go install github.com/modelcontextprotocol/go-sdk/conformance/everything-server@v1.8.0" put its program into the folder's bin (CONTRIBUTING.md)`)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"node_modules/.bin/node", "bin/everything-server"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
			t.Fatalf("COUNTERSIGN_INTEROP is not complete (CONTRIBUTING.md says how it is made): %v", err)
		}
	}
	return dir
}

// script is the path of a program in Node.
func script(t testing.TB, path string) string {
	return filepath.Join(tools(t), "node_modules/@modelcontextprotocol", path)
}

func node(t testing.TB) string { return filepath.Join(tools(t), "node_modules/.bin/node") }

// Servers for mcp.servers[].command, or to stand behind the wrapper.
func filesystem(t testing.TB, dir string) []string {
	return []string{node(t), script(t, "server-filesystem/dist/index.js"), dir}
}

func everything(t testing.TB) []string {
	return []string{node(t), script(t, "server-everything/dist/index.js"), "stdio"}
}

// fake is a command that runs one of the fakes; env goes with it.
func fake(name string) (command []string, env string) {
	return []string{os.Args[0]}, fakeEnv + ": " + name
}

// flow writes a list as YAML, and as JSON.
func flow(list []string) string {
	b, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// output is what a process has written; safe for concurrent use.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start runs a program until the test ends.
func start(t testing.TB, dir string, env []string, command ...string) (*exec.Cmd, *output) {
	t.Helper()
	out := &output{}
	cmd := exec.Command(command[0], command[1:]...) // real: until the test ends
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, out, out
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		late.Stop()
		if command[0] == program && err != nil {
			t.Errorf("the gate ended with %v:\n%s", err, out)
		}
		if t.Failed() {
			t.Logf("%s wrote:\n%s", filepath.Base(command[0]), out)
		}
	})
	return cmd, out
}

// gate is a running countersign serve, or one's own, which has no URL.
type gate struct {
	url string
	dir string
	env []string
	pid int
	out *output
}

var address = regexp.MustCompile(`msg=serving address=(\S+)`)

// serve starts the gate with the servers in the configuration, and returns when all of them are up.
func serve(t testing.TB, config string) *gate {
	t.Helper()
	return serveTo(t, people, config)
}

// serveTo starts it for other agents and people.
func serveTo(t testing.TB, people, config string) *gate {
	t.Helper()
	g := &gate{dir: t.TempDir(), env: environ(t)}
	path := filepath.Join(g.dir, "countersign.yaml")
	if err := os.WriteFile(path, []byte("listen: 127.0.0.1:0\n"+people+config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, out := start(t, g.dir, g.env, program, "serve", "--config", path)
	g.pid, g.out = cmd.Process.Pid, out
	testkit.Eventually(t, "the gate says where it serves", func() bool {
		if strings.Contains(out.String(), "\ncountersign: ") {
			t.Fatalf("the gate did not start:\n%s", out)
		}
		m := address.FindStringSubmatch(out.String())
		if m != nil {
			g.url = "http://" + m[1]
		}
		return m != nil
	})
	up := strings.Count(config, "name: ") // each server has one
	testkit.Eventually(t, "the servers are up", func() bool {
		return strings.Count(out.String(), `msg="connected to an MCP server"`) == up
	})
	return g
}

// quickExit has a program under the race detector end without waiting a second for races.
const quickExit = "GORACE=atexit_sleep_ms=0"

// compiled has programs in Node keep what they compile: each is started again and again.
func compiled() string { return "NODE_COMPILE_CACHE=" + filepath.Join(filepath.Dir(program), "node") }

// environ is what programs get of the environment: nothing of a real gate, and no way for npm to the network.
func environ(t testing.TB, more ...string) []string {
	path := os.Getenv("PATH")
	if dir := os.Getenv("COUNTERSIGN_INTEROP"); dir != "" {
		path = filepath.Dir(node(t)) + string(os.PathListSeparator) + path
	}
	return append([]string{"PATH=" + path, "HOME=" + t.TempDir(), "npm_config_offline=true", quickExit, compiled()},
		more...)
}

// ended is how a program ended.
type ended struct {
	code        int
	out, errout string
}

func (e ended) String() string {
	return fmt.Sprintf("exit code %d\nstdout: %s\nstderr: %s", e.code, e.out, e.errout)
}

// run runs a program to its end. One that could not be run, or did not end in time, has the code -1.
func run(t testing.TB, dir string, env []string, command ...string) ended {
	return runFor(t, patience, dir, env, command...)
}

func runFor(t testing.TB, bound time.Duration, dir string, env []string, command ...string) ended {
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	var out, errout bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &out, &errout
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); cmd.ProcessState == nil || ctx.Err() != nil {
		fmt.Fprintf(&errout, "\n%q: %v, %v", command, err, ctx.Err())
		return ended{-1, out.String(), errout.String()}
	}
	return ended{cmd.ProcessState.ExitCode(), out.String(), errout.String()}
}

// hana runs the command line as the person.
func (g *gate) hana(t testing.TB, args ...string) string {
	t.Helper()
	e := run(t, g.dir, g.asHana(), append([]string{program}, args...)...)
	if e.code != 0 {
		t.Fatalf("countersign %q: %s", args, e)
	}
	return e.out
}

func (g *gate) asHana() []string {
	return slices.Concat(g.env, []string{"COUNTERSIGN_SERVER=" + g.url, "COUNTERSIGN_TOKEN=" + personToken})
}

// asked waits for a request of a tool and returns its id, or "" where none came before the context ended. The person's
// command line follows what comes: one that asks again and again takes the processor from whoever is to ask.
func (g *gate) asked(ctx context.Context, t testing.TB, ok func(tool string) bool) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 5*patience)
	cmd := exec.CommandContext(ctx, program, "pending", "--follow", "--json")
	var errout output
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.WaitDelay = g.dir, g.asHana(), &errout, 10*time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		t.Error(err)
		return ""
	}
	defer func() {
		cancel()
		_ = cmd.Wait()
	}()
	var r struct{ ID, Tool string }
	for lines := json.NewDecoder(out); lines.Decode(&r) == nil; {
		if ok(r.Tool) {
			return r.ID
		}
	}
	t.Errorf("no request waits: %s", &errout)
	return ""
}

// port is one that nothing listens on.
func port(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// listening waits until something answers HTTP there.
func listening(t testing.TB, url string) string {
	t.Helper()
	testkit.Eventually(t, url+" answers", func() bool {
		res, err := http.Get(url)
		if err != nil {
			return false
		}
		res.Body.Close()
		return true
	})
	return url
}

// reference starts the SDK's own server, of one era or of both, and returns where it is.
func reference(t testing.TB, stateless bool) string {
	at := port(t)
	start(t, t.TempDir(), environ(t), filepath.Join(tools(t), "bin/everything-server"), "-http", at,
		fmt.Sprintf("-stateless=%t", stateless))
	return listening(t, "http://"+at+"/mcp")
}
