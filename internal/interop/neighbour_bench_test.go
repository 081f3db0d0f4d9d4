//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/testkit"
)

var benchLoudLimits = flag.String("loud-limits", "",
	"benchmarks: the noisy agent's limits, such as none or {requests: 0}; empty: the defaults")

const (
	loudToken  = "agent-token-of-the-loud-one"
	lineSecret = "test-line-channel-secret"
	lineToken  = "test-line-access-token"
	lineBot    = "U0123456789abcdef0123456789abcdef"
	hanaLINE   = "U4af4980629d1e4b8c9a2c1b2d3e4f5a6"
	// loudEnv and noiseEnv tell the process that makes the noise where to and which.
	loudEnv, noiseEnv = "COUNTERSIGN_INTEROP_LOUD", "COUNTERSIGN_INTEROP_NOISE"
)

func init() { fakes["noise"], fakes["sink"] = noise, sink }

// sink takes what it is sent and refuses it after a moment, as the gate does with what is over a budget: noise that
// goes there costs this machine about the same, and the gate nothing.
func sink() {
	refuse := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(100 * time.Millisecond)          // real: the moment; a benchmark measures
		w.Header().Set("Mcp-Session-Id", "refused") // so that it is sent what belongs into one
		w.WriteHeader(http.StatusTooManyRequests)
	}
	log.Fatal(http.ListenAndServe(os.Getenv(echoEnv), http.HandlerFunc(refuse)))
}

// requester sends requests with one token.
type requester struct {
	http       *http.Client
	url, token string
	session    string
}

func newRequester(url, token string) *requester {
	return &requester{url: url, token: token, http: &http.Client{Timeout: patience,
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}}}
}

func (r *requester) do(method, path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequest(method, r.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Authorization": {"Bearer " + r.token}}
	if r.session != "" && path == "/mcp" {
		req.Header["Mcp-Session-Id"] = []string{r.session}
	}
	res, err := r.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	if id := res.Header.Get("Mcp-Session-Id"); id != "" && path == "/mcp" {
		r.session = id
	}
	got, err := io.ReadAll(res.Body)
	return res.StatusCode, got, err
}

// connect opens an MCP session.
func (r *requester) connect() error {
	for _, body := range []string{hello, `{"jsonrpc":"2.0","method":"notifications/initialized"}`} {
		if status, got, err := r.do("POST", "/mcp", []byte(body)); err != nil || status >= 300 {
			return fmt.Errorf("connect: %d %s %v", status, got, err)
		}
	}
	return nil
}

// loudWorkers is how many of each kind make noise at once.
const loudWorkers = 8

// noises are what the loud agent does, each again and again, with no regard to what it is answered. n never comes
// twice.
var noises = map[string]func(r *requester, n int64){
	"asks": func(r *requester, n int64) {
		_, _, _ = r.do("POST", "/v1/calls", fmt.Appendf(nil, `{"tool":"transfer","args":{"n":%d}}`, n))
	},
	"asks and cancels": func(r *requester, n int64) {
		_, got, _ := r.do("POST", "/v1/calls", fmt.Appendf(nil, `{"tool":"transfer","args":{"n":%d}}`, n))
		var a struct {
			ID string `json:"approval_id"`
		}
		if json.Unmarshal(got, &a) == nil && a.ID != "" {
			_, _, _ = r.do("POST", "/v1/approvals/"+a.ID+"/cancel", nil)
		}
	},
	"allowed calls": func(r *requester, n int64) {
		_, _, _ = r.do("POST", "/v1/calls", fmt.Appendf(nil, `{"tool":"read","args":{"n":%d}}`, n))
	},
	"reads": func(r *requester, _ int64) {
		_, _, _ = r.do("GET", "/v1/approvals/resolved?limit=200", nil)
	},
	"streams": func(r *requester, _ int64) {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", r.url+"/v1/events", nil)
		req.Header.Set("Authorization", "Bearer "+r.token)
		req.Header.Set("Last-Event-ID", "1")
		if res, err := r.http.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	},
	"acks": func(r *requester, _ int64) {
		_, _, _ = r.do("POST", "/v1/approvals/ack", []byte(`{"ids":["01K9ZQ3V5T8M2N4P6R7S9W1X3Y"`+
			strings.Repeat(`,"01K9ZQ3V5T8M2N4P6R7S9W1X3Y"`, 34_000)+`]}`))
	},
	"1 MiB of args": func(r *requester, n int64) {
		tool := [...]string{"read", "transfer"}[n%2]
		_, _, _ = r.do("POST", "/v1/calls", fmt.Appendf(nil, `{"tool":%q,"args":{"n":%d,"text":%s}}`, tool, n, loudText))
	},
	"1 MiB over MCP": func(r *requester, n int64) {
		if r.session == "" {
			if _ = r.connect(); r.session == "" {
				return
			}
		}
		tool := [...]string{"echo", "unheard_of"}[n%2]
		_, _, _ = r.do("POST", "/mcp",
			fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":%s}}}`, n,
				tool, loudText))
	},
	"1 MiB to the hook": func(r *requester, n int64) {
		_, _, _ = r.do("POST", "/hooks/claude-code",
			fmt.Appendf(nil, `{"session_id":"s","hook_event_name":"PreToolUse","cwd":"/w","tool_name":"Bash","tool_input":{"command":"echo %d %s}}`, n, loudText[1:]))
	},
}

// loudText is a JSON string of nearly 1 MiB: made once, since whoever makes noise must not be slow at it.
var loudText = `"` + strings.Repeat("lorem ipsum ", (1<<20-4096)/len("lorem ipsum ")) + `"`

// noise makes one kind of noise, or every kind, until it is killed. It gives way to whoever wants the processor: it
// stands for an agent on another machine.
func noise() {
	giveWay()
	runtime.GOMAXPROCS(2)
	var n atomic.Int64
	n.Store(time.Now().UnixNano())
	var wg sync.WaitGroup
	for name, once := range noises {
		if which := os.Getenv(noiseEnv); which != name && which != "all" {
			continue
		}
		for range loudWorkers {
			r := newRequester(os.Getenv(loudEnv), loudToken)
			wg.Go(func() {
				for {
					once(r, n.Add(1))
				}
			})
		}
	}
	wg.Wait() // real: it is noisy until it is killed
}

// line is a LINE that takes everything at once, and keeps nothing.
func line(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Line-Request-Id", "r")
	_, _ = io.Copy(io.Discard, r.Body)
	switch {
	case strings.HasSuffix(r.URL.Path, "/bot/info"):
		_, _ = io.WriteString(w, `{"userId":"`+lineBot+
			`","basicId":"@gate","displayName":"gate","chatMode":"bot","markAsReadMode":"auto"}`)
	case strings.HasSuffix(r.URL.Path, "/quota"):
		_, _ = io.WriteString(w, `{"type":"none"}`)
	case strings.HasSuffix(r.URL.Path, "/consumption"):
		_, _ = io.WriteString(w, `{"totalUsage":0}`)
	default:
		_, _ = io.WriteString(w, `{"sentMessages":[{"id":"461230966842064897","quoteToken":"q"}]}`)
	}
}

// press is the person's press of Approve, as LINE delivers it.
func (q *quiet) press(id string) error {
	at := time.Now()
	body := fmt.Appendf(nil,
		`{"destination":%q,"events":[{"type":"postback","mode":"active","timestamp":%d,"source":{"type":"user","userId":%q},`+
			`"webhookEventId":"e%d","deliveryContext":{"isRedelivery":false},"replyToken":"t%[4]d","postback":{"data":"action=approve&id=%s"}}]}`,
		lineBot, at.UnixMilli(), hanaLINE, at.UnixNano(), id)
	mac := hmac.New(sha256.New, []byte(lineSecret))
	mac.Write(body)
	req, err := http.NewRequest("POST", q.r.url+"/webhook/line", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = http.Header{"Content-Type": {"application/json"},
		"X-Line-Signature": {base64.StdEncoding.EncodeToString(mac.Sum(nil))}}
	res, err := q.r.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 {
		return fmt.Errorf("%d %s %v", res.StatusCode, got, err)
	}
	return nil
}

// quiet is the other agent, and the person who answers it.
type quiet struct {
	b    *testing.B
	r    *requester
	n    int
	mu   sync.Mutex
	took map[string][]time.Duration
}

func (q *quiet) time(what string, do func() error) {
	begin := time.Now()
	err := do()
	took := time.Since(begin)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.took[what] = append(q.took[what], took)
	if err != nil && !q.b.Failed() {
		q.b.Errorf("%s, after %v: %v", what, took, err)
	}
}

func (q *quiet) expect(method, path, body string, want int, holds string) ([]byte, error) {
	status, got, err := q.r.do(method, path, []byte(body))
	if err == nil && (status != want || !strings.Contains(string(got), holds)) {
		err = fmt.Errorf("%d %.300s", status, got)
	}
	return got, err
}

// once is what the quiet agent does again and again: a call that is allowed, one over MCP, one that waits, its feed;
// the person's press; and the call once more, which now runs.
func (q *quiet) once() {
	q.n++
	ask := fmt.Sprintf(`{"tool":"transfer","args":{"n":%d}}`, q.n)
	q.time("call", func() error {
		_, err := q.expect("POST", "/v1/calls", fmt.Sprintf(`{"tool":"read","args":{"n":%d}}`, q.n), 200, `"allow"`)
		return err
	})
	q.time("call", func() error {
		_, err := q.expect("POST", "/mcp",
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"quiet"}}}`,
				q.n), 200, "quiet")
		return err
	})
	var asked struct {
		ID string `json:"approval_id"`
	}
	q.time("call", func() error {
		got, err := q.expect("POST", "/v1/calls", ask, 202, `"pending"`)
		if err == nil {
			err = json.Unmarshal(got, &asked)
		}
		return err
	})
	q.time("press", func() error { return q.press(asked.ID) })
	q.time("call", func() error {
		_, err := q.expect("GET", "/v1/approvals/resolved", "", 200, asked.ID)
		return err
	})
	q.time("call", func() error {
		_, err := q.expect("POST", "/v1/calls", ask, 200, `"approved"`)
		return err
	})
}

// round has the quiet agent at work for a while, and returns how long each of its calls and each press took.
func (q *quiet) round() map[string][]time.Duration {
	q.took = map[string][]time.Duration{}
	for end := time.Now().Add(*benchRound); time.Now().Before(end); time.Sleep(5 * time.Millisecond) { // real: its pace
		q.once()
	}
	return q.took
}

// memory returns what a process holds at most since it was asked last, in bytes.
func memory(b *testing.B, pid int) int {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	peak := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			peak, _ = strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
		}
	}
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
	return peak << 10
}

// BenchmarkNeighbour is what one agent's noise, of each kind and of every kind at once, does to another agent's calls
// and to a person's presses: how many times longer the slowest in a hundred takes than without the noise, and than with
// the same noise made at another program on this machine, which has its two cores to share with those who make it; the
// slowest of all; and what memory the gate takes for it at most. The rounds take turns.
func BenchmarkNeighbour(b *testing.B) {
	platform := httptest.NewServer(http.HandlerFunc(line))
	b.Cleanup(platform.Close)
	at := port(b)
	start(b, b.TempDir(), environ(b, fakeEnv+"=echo", echoEnv+"="+at), os.Args[0])
	server := listening(b, "http://"+at+"/mcp")
	other := port(b)
	start(b, b.TempDir(), environ(b, fakeEnv+"=sink", echoEnv+"="+other), os.Args[0])
	loud := "{name: loud, token: " + loudToken + "}"
	if *benchLoudLimits != "" {
		loud = "{name: loud, token: " + loudToken + ", limits: " + *benchLoudLimits + "}"
	}
	g := serveTo(b, `agents: [`+loud+`, {name: quiet, token: `+agentToken+`, limits: {requests: 0, pushes: 0}}]
people: [{name: hana, roles: [approver, admin], token: `+personToken+`, line: `+hanaLINE+`}]
`, `channels:
  line: {channel_secret: `+lineSecret+`, channel_access_token: `+lineToken+`, notify: [hana], api_url: "`+platform.URL+`"}
policy:
  rules:
    - {tools: [read, up/echo], risk: low, action: allow}
mcp:
  hold: 1s
  servers: [{name: up, url: "`+server+`", prefix: ""}]
`)
	q := &quiet{b: b, r: newRequester(g.url, agentToken)}
	testkit.Eventually(b, "LINE knows the gate", func() bool {
		_, got, err := q.r.do("GET", "/readyz", nil)
		return err == nil && !strings.Contains(string(got), "has not said")
	})
	if err := q.r.connect(); err != nil {
		b.Fatal(err)
	}
	q.round()
	kinds := []string{"all"}
	for name := range noises {
		kinds = append(kinds, name)
	}
	slices.Sort(kinds[1:])
	for _, kind := range kinds {
		b.Run(strings.ReplaceAll(kind, " ", "_"), func(b *testing.B) {
			q.b = b
			for b.Loop() {
				var alone, elsewhere, beside, most [2][]time.Duration // of calls and presses
				var times, gateTimes [2][]float64
				peak := 0
				noisy := func(url string) map[string][]time.Duration {
					cmd, _ := start(b, b.TempDir(), environ(b, fakeEnv+"=noise", noiseEnv+"="+kind, loudEnv+"="+url), os.Args[0])
					time.Sleep(500 * time.Millisecond) // real: the noise begins
					took := q.round()
					_ = cmd.Process.Kill()
					time.Sleep(500 * time.Millisecond) // real: what was in hand is done
					return took
				}
				for range *benchRounds {
					without, there := q.round(), noisy("http://"+other)
					memory(b, g.pid)
					with := noisy(g.url)
					peak = max(peak, memory(b, g.pid))
					for i, what := range []string{"call", "press"} {
						p99 := func(took map[string][]time.Duration) time.Duration {
							slices.Sort(took[what])
							return took[what][len(took[what])*99/100]
						}
						a, e, c := p99(without), p99(there), p99(with)
						alone[i], elsewhere[i], beside[i] = append(alone[i], a), append(elsewhere[i], e), append(beside[i], c)
						times[i], gateTimes[i] = append(times[i], float64(c)/float64(a)), append(gateTimes[i], float64(c)/float64(e))
						most[i] = append(most[i], slices.Max(with[what]))
					}
				}
				for i, what := range []string{"call", "press"} {
					ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
					b.ReportMetric(ms(median(alone[i])), what+"-p99-alone-ms")
					b.ReportMetric(ms(median(elsewhere[i])), what+"-p99-elsewhere-ms")
					b.ReportMetric(ms(median(beside[i])), what+"-p99-ms")
					b.ReportMetric(median(times[i]), what+"-p99-times")
					b.ReportMetric(median(gateTimes[i]), what+"-p99-times-elsewhere")
					b.ReportMetric(ms(slices.Max(most[i])), what+"-max-ms")
				}
				b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
			}
		})
	}
}
