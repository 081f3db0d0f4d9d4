package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/approval"
	"countersign/internal/lists"
	"countersign/internal/mcp"
	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

// Every call that may run runs once and is answered once, however many there are at the same time.
func TestManySessionsLoseNothingAndRepeatNothing(t *testing.T) {
	t.Parallel()
	const sessions = 64
	calls := testkit.Rounds(20, 50) // 20 are each kind of call, twice denied; more are only more of the same
	rules := `{policy: {rules: [{tools: [free], action: allow}, {tools: [never], action: deny, risk: high}, {tools: ["*"], action: quarantine}]}}`
	var mu sync.Mutex
	ran := map[string]int{}
	up := newFake(mcp.Legacy, func(c *fakeCall) string {
		args := string(c.params.Get("arguments"))
		mu.Lock()
		ran[args]++
		mu.Unlock()
		return textResult(args)
	}, "free", "never", "tool")
	w := newWorld(t, rules, gateway.Options{Hold: time.Minute, Servers: []gateway.ServerConfig{up.over(t, "stdio")}})
	ctx, stop := context.WithCancel(context.Background())
	var deciding sync.WaitGroup
	deciding.Go(func() { // whatever is pending is decided: what ends in 0 is denied
		for ctx.Err() == nil {
			rs, err := lists.ListRequests(ctx, w.gate, approval.RequestQuery{Status: approval.Pending, Limit: 200})
			for _, r := range rs {
				_, _ = w.gate.Decide(ctx, approval.Decision{RequestID: r.ID, Approve: !bytes.HasSuffix(r.Args, []byte(`0"}`)),
					By: person, Via: approval.ViaAPI, Reason: "so"})
			}
			if err != nil || len(rs) == 0 {
				time.Sleep(2 * time.Millisecond) // real: between two looks, until all calls are answered
			}
		}
	})
	var all sync.WaitGroup
	var wrong atomic.Int64
	for s := range sessions {
		c := join(t, w, mcp.Era(s%2), `{"elicitation":{}}`)
		all.Go(func() {
			for i := range calls {
				args := fmt.Sprintf(`{"id":"%d-%d"}`, s, i)
				tool := []string{"free", "tool", "free", "never"}[i%4]
				got, ok := say(c.callTool(tool, args)), false
				switch {
				case tool == "never":
					ok = strings.HasPrefix(got, "failed: Policy denied")
				case tool == "tool" && i%10 == 0:
					ok = strings.HasPrefix(got, "failed: Approval denied by hana: so.")
				default:
					ok = got == args
				}
				if !ok && wrong.Add(1) < 10 {
					t.Errorf("%s %s: got %s", tool, args, got)
				}
			}
		})
	}
	all.Wait() // real: as long as the machine takes for so many calls, each of which is bounded
	stop()
	testkit.Wait(t, "the one who decides", deciding.Wait)
	for s := range sessions {
		for i := range calls {
			args, may := fmt.Sprintf(`{"id":"%d-%d"}`, s, i), 1
			if i%4 == 3 || i%4 == 1 && i%10 == 0 {
				may = 0
			}
			if ran[args] != may {
				t.Errorf("%s ran %d times, want %d", args, ran[args], may)
			}
		}
	}
	for _, r := range w.requests(t) {
		if r.Status == approval.Approved && r.RunResult != approval.RunSucceeded {
			t.Errorf("%s: outcome %q, want succeeded", r.Args, r.RunResult)
		}
	}
}

// memoryUse is what this process takes, in bytes, as JSON: all that the operating system gave it, and what
// of it is in use.
func memoryUse() []byte {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	rss := 0
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		_, _ = fmt.Sscanf(string(b), "%d %d", new(int), &rss)
	}
	b, _ := json.Marshal(map[string]int{"resident": rss * os.Getpagesize(), "in_use": int(m.HeapInuse + m.StackInuse),
		"goroutines": runtime.NumGoroutine()})
	return b
}

// holdersVar makes the test binary the clients of [BenchmarkHeld]: how many calls, over how many sessions,
// of which address.
const holdersVar = "COUNTERSIGN_TEST_HOLDERS"

func init() {
	if v := os.Getenv(holdersVar); v != "" {
		holdCalls(v)
		os.Exit(0)
	}
}

// holdCalls makes its calls, says "held" when they are all under way, and ends with its input.
func holdCalls(v string) {
	var calls, sessions int
	var url, era string
	if _, err := fmt.Sscan(v, &calls, &sessions, &era, &url); err != nil {
		panic(err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	post := func(body, session string) (*http.Response, error) {
		r, err := http.NewRequest("POST", url, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		if era == "modern" {
			r.Header.Set(mcp.HeaderVersion, mcp.VersionModern)
			r.Header.Set(mcp.HeaderMethod, "tools/call")
			r.Header.Set(mcp.HeaderName, "tool")
		} else if session != "" {
			r.Header.Set(mcp.HeaderSession, session)
		}
		return client.Do(r)
	}
	ids := make([]string, sessions)
	for i := range ids {
		if era == "modern" {
			continue
		}
		res, err := post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, "")
		if err != nil {
			panic(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		ids[i] = res.Header.Get(mcp.HeaderSession)
	}
	meta := ""
	if era == "modern" {
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	}
	for i := range calls {
		go func() {
			res, err := post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"tool","arguments":{"path":"/data/report-%d.txt","text":"quarterly figures"}%s}}`, i+1, i, meta), ids[i%sessions])
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			b, _ := io.ReadAll(res.Body)
			fmt.Fprintf(os.Stderr, "answered: %s\n", b)
		}()
		if i%50 == 49 {
			time.Sleep(20 * time.Millisecond) // real: they do not come all at once
		}
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// BenchmarkHeld is the memory of calls that are held for a person: KiB/held is what the whole program grows
// by for each, its clients being another process and its server a third.
func BenchmarkHeld(b *testing.B) {
	const calls = 2000
	for _, test := range []struct {
		name, era string
		sessions  int
	}{{"legacy", "legacy", 10}, {"modern", "modern", 1}} {
		b.Run(test.name, func(b *testing.B) {
			for b.Loop() {
				up := newFake(mcp.Legacy, running, "tool", "free")
				p := startProgram(b, filepath.Join(b.TempDir(), "gate.db"), up.over(b, "http").URL, "10m")
				for range 20 { // what is made once is not counted
					want(b, "a call", say(p.join(mcp.Legacy, `{}`).callTool("free", `{}`)), "ran")
				}
				before := p.memory()
				exe, err := os.Executable()
				if err != nil {
					b.Fatal(err)
				}
				clients := testkit.Command(b, exe)
				clients.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %s http://%s/mcp", holdersVar, calls, test.sessions,
					test.era, p.addr))
				clients.Stderr = os.Stderr
				in, _ := clients.StdinPipe()
				out, _ := clients.StdoutPipe()
				if err := clients.Start(); err != nil {
					b.Fatal(err)
				}
				if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
					b.Fatalf("%q %v", line, err)
				}
				var during memoryOf
				testkit.Eventually(b, "all are held", func() bool {
					time.Sleep(200 * time.Millisecond) // real: each look reads all that are pending
					return string(bytes.TrimSpace(p.get("/pending"))) == fmt.Sprint(calls)
				})
				during = p.memory()
				b.ReportMetric(float64(during.Resident-before.Resident)/1024/calls, "KiB/held")
				b.ReportMetric(float64(during.InUse-before.InUse)/1024/calls, "KiB-in-use/held")
				b.ReportMetric(float64(during.Goroutines-before.Goroutines)/calls, "goroutines/held")
				b.ReportMetric(0, "ns/op")
				in.Close()
				_ = clients.Process.Kill()
				_ = clients.Wait()
				p.kill()
			}
		})
	}
}

type memoryOf struct {
	Resident   int `json:"resident"`
	InUse      int `json:"in_use"`
	Goroutines int `json:"goroutines"`
}

func (p *killable) memory() (m memoryOf) {
	p.t.Helper()
	if err := json.Unmarshal(p.get("/memory"), &m); err != nil {
		p.t.Fatal(err)
	}
	return m
}

// No test leaves anything behind that runs.
func TestMain(m *testing.M) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // a server or gate of a race build would take a second to end
	testkit.AtOnce(4)
	goleak.VerifyTestMain(m)
}
