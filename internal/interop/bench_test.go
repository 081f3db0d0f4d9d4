//go:build interop

package interop

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/internal/testkit"
)

// The benchmarks take the server alone and the server behind the gate in turns, a round of each, so that the
// ratio says something even where the machine's speed swings. A run is one op; ns/op says nothing.
var (
	benchRound  = flag.Duration("round", time.Second, "benchmarks: how long a round takes")
	benchRounds = flag.Int("rounds", 5, "benchmarks: how many rounds each figure gets")
)

// caller is a legacy client over HTTP that sends the same call again and again, and costs next to nothing itself.
type caller struct {
	http        *http.Client
	url, id     string
	body, wants string
}

func newCaller(b *testing.B, c *http.Client, url string) *caller {
	l := &caller{http: c, url: url}
	for _, body := range []string{hello, `{"jsonrpc":"2.0","method":"notifications/initialized"}`} {
		if _, err := l.post(body); err != nil {
			b.Fatal(err)
		}
	}
	l.wants = strings.Repeat("lorem ipsum ", 48)
	l.body = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + l.wants +
		`"}}}`
	return l
}

func (c *caller) post(body string) (string, error) {
	r, err := http.NewRequest("POST", c.url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Authorization": {"Bearer " + agentToken}}
	if c.id != "" {
		r.Header["Mcp-Session-Id"] = []string{c.id}
	}
	res, err := c.http.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if id := res.Header.Get("Mcp-Session-Id"); id != "" {
		c.id = id
	}
	got, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", res.Status, got)
	}
	return string(got), err
}

// round has n callers call for a while, and returns how long each call took and how many there were a second.
func round(b *testing.B, url string, n int) (took []time.Duration, rate float64) {
	tr := &http.Transport{MaxIdleConnsPerHost: n, DisableCompression: true}
	defer tr.CloseIdleConnections()
	callers := make([]*caller, n)
	for i := range callers {
		callers[i] = newCaller(b, &http.Client{Transport: tr}, url)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := time.Now()
	for _, c := range callers {
		wg.Go(func() {
			var mine []time.Duration
			for last := begin; last.Sub(begin) < *benchRound; {
				if got, err := c.post(c.body); err != nil || !strings.Contains(got, c.wants) {
					b.Errorf("%s: %v, %.200s", url, err, got)
					return
				}
				now := time.Now()
				mine, last = append(mine, now.Sub(last)), now
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	wg.Wait() // real: a round of a benchmark
	return took, float64(len(took)) / time.Since(begin).Seconds()
}

// cpu is the processor time that a process has used, user and system.
func cpu(b *testing.B, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // from the third on
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func median[T ~int64 | ~float64](l []T) T {
	l = slices.Clone(l)
	slices.Sort(l)
	return l[len(l)/2]
}

// BenchmarkGateway is an allowed call of 600 bytes, which 100 rules are looked at for and whose audit row is
// committed, over streamable HTTP: to the reference SDK's server, and to the same through a gate.
func BenchmarkGateway(b *testing.B) {
	at := port(b)
	start(b, b.TempDir(), environ(b, fakeEnv+"=echo", echoEnv+"="+at), os.Args[0])
	server := listening(b, "http://"+at+"/mcp")
	var rules strings.Builder
	for i := range 100 {
		fmt.Fprintf(&rules, "    - {tools: ['svc%d/delete_*', 'team%d/refund_*'], risk: high}\n", i, i)
	}
	g := serve(b, "policy:\n  rules:\n"+rules.String()+`    - {tools: [up/echo], risk: low, action: allow}
mcp:
  servers: [{name: up, url: "`+server+`", prefix: ""}]
`)
	through := g.url + "/mcp"
	round(b, server, 16)
	round(b, through, 16)
	for b.Loop() {
		var one [2][]time.Duration // the medians at one caller
		var many [2][]float64      // calls a second at 16
		var p99, cost []time.Duration
		var added []time.Duration
		var ratio []float64
		for range *benchRounds {
			for i, url := range []string{server, through} {
				took, _ := round(b, url, 1)
				one[i] = append(one[i], median(took))
			}
			n := len(one[0]) - 1
			added = append(added, one[1][n]-one[0][n])
			for i, url := range []string{server, through} {
				before := cpu(b, g.pid)
				took, rate := round(b, url, 16)
				many[i] = append(many[i], rate)
				if i == 1 {
					cost = append(cost, (cpu(b, g.pid)-before)/time.Duration(len(took)))
					slices.Sort(took)
					p99 = append(p99, took[len(took)*99/100])
				}
			}
			ratio = append(ratio, many[1][n]/many[0][n])
		}
		us := func(l []time.Duration) float64 { return float64(median(l).Nanoseconds()) / 1e3 }
		b.ReportMetric(us(one[0]), "direct-p50-µs")
		b.ReportMetric(us(added), "added-p50-µs")
		b.ReportMetric(median(many[0]), "direct-calls/s")
		b.ReportMetric(median(ratio), "of-direct")
		b.ReportMetric(us(cost), "gate-cpu-µs/call")
		b.ReportMetric(us(p99), "p99-at-16-µs")
	}
}

// BenchmarkWrapperStart is the time from the start of a stdio server to its first answer, alone and behind the
// wrapper, with the gate running.
func BenchmarkWrapperStart(b *testing.B) {
	g := serve(b, "")
	command, _ := fake("echo over stdio")
	env := append(g.env, fakeEnv+"=echo over stdio", "COUNTERSIGN_SERVER="+g.url, "COUNTERSIGN_TOKEN="+agentToken)
	first := func(command []string) time.Duration {
		begin := time.Now()
		cmd := testkit.Command(b, command[0], command[1:]...)
		cmd.Env = env
		in, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		if _, err := io.WriteString(in, hello+"\n"); err != nil {
			b.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || !strings.Contains(line, `"result"`) {
			b.Fatalf("%v: %s", err, line)
		}
		took := time.Since(begin)
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
		return took
	}
	for b.Loop() {
		var alone, added []time.Duration
		for range *benchRounds * 4 {
			alone = append(alone, first(command))
			added = append(added, first(append([]string{program, "mcp", "--"}, command...))-alone[len(alone)-1])
		}
		ms := func(l []time.Duration) float64 { return float64(median(l).Nanoseconds()) / 1e6 }
		b.ReportMetric(ms(alone), "alone-ms")
		b.ReportMetric(ms(added), "added-ms")
	}
}
