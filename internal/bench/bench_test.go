package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/secret"
)

// TestMain makes this binary into one of the parts that a run starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == partCommand {
		exit(part(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// standIn is a gate that answers what a run expects, and counts what it is asked.
type standIn struct {
	mu    sync.Mutex
	asked map[string]int
	ids   atomic.Int64
	fails func(what string) bool
}

func (g *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	what, status, answer := "readyz", http.StatusOK, `{"status":"ready","problems":[]}`
	switch {
	case r.URL.Path == "/v1/calls" && bytes.Contains(body, []byte(`"tool":"read"`)):
		what, answer = "allowed", `{"decision":"allow"}`
	case r.URL.Path == "/v1/calls":
		what, status = "asked", http.StatusAccepted
		answer = fmt.Sprintf(`{"decision":"pending","approval_id":"id-%d"}`, g.ids.Add(1))
	case strings.HasSuffix(r.URL.Path, "/decide"):
		what, answer = "decided", `{"status":"approved"}`
	case strings.HasSuffix(r.URL.Path, "/cancel"):
		what, answer = "cancelled", `{"status":"cancelled"}`
	case r.URL.Path == mcpPath && bytes.Contains(body, []byte("tools/call")):
		what, answer = "called", `{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`
	case r.URL.Path == mcpPath:
		r.Body = io.NopCloser(bytes.NewReader(body))
		echoMCP(w, r)
		return
	}
	g.mu.Lock()
	g.asked[what]++
	g.mu.Unlock()
	if g.fails != nil && g.fails(what) {
		status, answer = http.StatusInternalServerError, `{"title":"it is broken"}`
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, answer)
}

// against runs a bench against the stand-in: each figure is counted and not timed.
func against(t *testing.T, g *standIn, change func(*Options)) (*Report, error) {
	t.Helper()
	g.asked = map[string]int{}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	o := Options{Dir: t.TempDir(), Rounds: 2, Round: time.Minute, Calls: 7, Callers: 3,
		Given: &Given{URL: server.URL, Agent: "agent-token-0123456789", Person: "person-token-0123456789",
			AskTool: "transfer", AllowTool: "read", MCPTool: "echo"}}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	report, err := Run(ctx, o)
	left, _ := os.ReadDir(o.Dir)
	if len(left) > 0 {
		t.Errorf("%s is left", left[0].Name())
	}
	return report, err
}

// counted is how many calls each figure of the gate has.
func counted(r *Report) map[string]int64 {
	found := map[string]int64{}
	for _, f := range r.Figures {
		if !f.Ceiling {
			found[f.Key] = f.Calls
		}
	}
	return found
}

func TestEachFigureCountsWhatTheGateWasAsked(t *testing.T) {
	g := &standIn{}
	r, err := against(t, g, nil)
	if err != nil {
		t.Fatal(err, r)
	}
	const calls, rounds = 7, 3 // and one to warm up
	want := map[string]int{"readyz": 1, "asked": 3 * calls * rounds, "allowed": 2 * calls * rounds,
		"decided":   calls * rounds,
		"cancelled": 3 * calls * rounds, "called": 2 * calls * rounds}
	if !maps.Equal(g.asked, want) {
		t.Errorf("the gate was asked %v, want %v", g.asked, want)
	}
	figures := map[string]int64{"quarantined": 14, "quarantined_one": 14, "allowed": 14, "allowed_one": 14,
		"decided": 14, "gateway": 14,
		"gateway_one": 14}
	if got := counted(r); !maps.Equal(got, figures) {
		t.Errorf("figures %v, want %v", got, figures)
	}
	for _, f := range r.Figures {
		var inBars int64
		for _, b := range f.Bars {
			inBars += b.Count
		}
		if inBars != f.Calls || f.Calls != 14 || f.Rate <= 0 || f.P50 > f.P99 || f.P99 > f.Max {
			t.Errorf("%s is not whole: %+v", f.Key, f)
		}
	}
	var text strings.Builder
	r.Print(&text)
	for _, want := range []string{"of the group log", "of append and sync", "of echo of JSON", "of a gateway's floor",
		"over the MCP server", "quarantined, 3 at once"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, &text)
		}
	}
}

func TestOfAGivenGateOnlyWhatIsNamedIsAsked(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Given)
		want   []string
	}{
		"nobody decides":  {func(g *Given) { g.Person = "" }, []string{"allowed", "asked", "called", "cancelled", "readyz"}},
		"nobody is asked": {func(g *Given) { g.AskTool = "" }, []string{"allowed", "called", "readyz"}},
		"only allowed":    {func(g *Given) { g.AskTool, g.MCPTool = "", "" }, []string{"allowed", "readyz"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := &standIn{}
			if _, err := against(t, g, func(o *Options) { test.change(o.Given) }); err != nil {
				t.Fatal(err)
			}
			if got := slices.Sorted(maps.Keys(g.asked)); !slices.Equal(got, test.want) {
				t.Errorf("the gate was asked %v, want %v", got, test.want)
			}
		})
	}
	t.Run("one scenario", func(t *testing.T) {
		g := &standIn{}
		if _, err := against(t, g, func(o *Options) { o.Only = []string{Gateway} }); err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(g.asked)); !slices.Equal(got, []string{"called", "readyz"}) {
			t.Errorf("the gate was asked %v", got)
		}
	})
}

func TestWhatCannotBeMeasuredIsSaid(t *testing.T) {
	r, err := against(t, &standIn{}, func(o *Options) { o.Only = []string{Chat} })
	if r != nil || err == nil || errors.Is(err, ErrFailed) {
		t.Errorf("report %v, error %v", r, err)
	}
}

func TestAGateThatFailsIsReported(t *testing.T) {
	g := &standIn{fails: func(what string) bool { return what == "allowed" || what == "decided" }}
	r, err := against(t, g, func(o *Options) { o.Calls = 50 })
	if !errors.Is(err, ErrFailed) {
		t.Fatalf("it ends with %v", err)
	}
	told := strings.Join(r.Problems, "\n")
	for _, want := range []string{"allowed: ", "decided: ", "500 Internal Server Error", "it is broken"} {
		if !strings.Contains(told, want) {
			t.Errorf("%q is not in\n%s", want, told)
		}
	}
	if strings.Contains(told, "quarantined") || strings.Contains(told, "token-0123456789") {
		t.Errorf("too much is told:\n%s", told)
	}
	for what, figures := range map[string]int{"allowed": 2, "decided": 1} {
		if n := g.asked[what]; n < figures*tooMany || n > figures*(tooMany+3) {
			t.Errorf("%s: the gate was asked %d times after it had failed", what, n)
		}
	}
}

func TestAGateThatIsNotThereIsNotMeasured(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	r, err := Run(t.Context(), Options{Dir: t.TempDir(),
		Given: &Given{URL: server.URL, Agent: "agent-token-0123456789", AllowTool: "read"}})
	if err == nil || r != nil || errors.Is(err, ErrFailed) {
		t.Errorf("report %v, error %v", r, err)
	}
}

func TestWhoStopsItGetsNoReport(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := &standIn{asked: map[string]int{}, fails: func(what string) bool {
		if what == "allowed" {
			cancel()
		}
		return false
	}}
	server := httptest.NewServer(g)
	defer server.Close()
	dir := t.TempDir()
	r, err := Run(ctx, Options{Dir: dir, Round: time.Minute,
		Given: &Given{URL: server.URL, Agent: "agent-token-0123456789", AllowTool: "read"}, Calls: 20,
		Only: []string{Allowed}})
	if r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("report %v, error %v", r, err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%s is left", left[0].Name())
	}
}

func TestAMeasurementEnds(t *testing.T) {
	ok := func(context.Context, int64) (time.Duration, error) { return 0, nil }
	for name, test := range map[string]struct {
		load   load
		do     operation
		counts func(s *series) bool
	}{
		"when all is done": {load{4, 100, time.Minute}, ok, func(s *series) bool { return s.all.Count() == 100 }},
		"in time":          {load{4, 1 << 40, time.Millisecond}, ok, func(s *series) bool { return s.all.Count() > 0 }},
		"when nothing is left": {load{4, 100, time.Minute}, func(_ context.Context, n int64) (time.Duration, error) {
			if n >= 10 {
				return 0, errEnough
			}
			return 0, nil
		}, func(s *series) bool { return s.all.Count() == 10 && s.failed == 0 }},
		"when too much fails": {load{1, 100, time.Minute}, func(context.Context, int64) (time.Duration, error) {
			return 0, io.ErrUnexpectedEOF
		}, func(s *series) bool {
			return s.failed == tooMany && s.first == io.ErrUnexpectedEOF && s.all.Count() == 0
		}},
		"and takes an operation's own word": {load{1, 3, time.Minute}, func(context.Context, int64) (time.Duration, error) {
			return time.Hour, nil
		}, func(s *series) bool { return s.all.Max() == time.Hour }},
	} {
		t.Run(name, func(t *testing.T) {
			var s series
			if err := s.measure(t.Context(), test.load, nil, test.do); err != nil || !test.counts(&s) {
				t.Errorf("%v: %d done, %d failed with %v", err, s.all.Count(), s.failed, s.first)
			}
		})
	}
}

// What goes through a network arrives whole, in order, and late each way.
func TestANetworkIsSlow(t *testing.T) {
	const delay = 20 * time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // says what it hears, until the other side has nothing more to say
		c, err := l.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	n, at, err := newNetwork("postgres://bench@"+l.Addr().String()+"/gate", delay)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(at)
	if err != nil || u.User.Username() != "bench" || u.Path != "/gate" {
		t.Fatalf("%s, %v", at, err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	said := []byte(strings.Repeat("lorem ipsum ", 10_000))
	watch := startStopwatch()
	go func() { _, _ = c.Write(said) }()
	heard := make([]byte, len(said))
	if _, err := io.ReadFull(c, heard); err != nil || !bytes.Equal(heard, said) {
		t.Errorf("%v, or something else was heard", err)
	}
	if took := watch.read(); took < 2*delay {
		t.Errorf("it took %v", took)
	}
	if err := n.close(); err != nil {
		t.Error(err)
	}
}

func TestHistogram(t *testing.T) {
	for d := time.Microsecond; d < 100*time.Hour; d += d/7 + time.Microsecond {
		end := upTo(bucket(d))
		if d >= end || float64(end-d) > float64(d)/16+float64(time.Microsecond) {
			t.Fatalf("%v is counted up to %v", d, end)
		}
	}
	var h, other Histogram
	for n := range 1000 {
		h.Add(time.Duration(n+1) * time.Millisecond)
	}
	other.Merge(&h)
	for p, want := range map[float64]time.Duration{0.5: 500, 0.9: 900, 0.99: 990, 1: 1000} {
		got := other.At(p)
		if want *= time.Millisecond; got < want || got > want+want/16 {
			t.Errorf("at %v: %v, want %v", p, got, want)
		}
	}
	bars := other.Bars()
	var all int64
	for i, b := range bars {
		all += b.Count
		if i > 0 && b.UpTo != 2*bars[i-1].UpTo {
			t.Errorf("bars %v", bars)
		}
	}
	if all != 1000 || bars[0].UpTo != 1024 || bars[len(bars)-1].UpTo != 1<<20 {
		t.Errorf("bars %v", bars)
	}
	var none Histogram
	if none.At(0.5) != 0 || len(none.Bars()) != 0 {
		t.Errorf("an empty one has %v and %v", none.At(0.5), none.Bars())
	}
}

func TestEventsAreReadFromTheMetrics(t *testing.T) {
	got := events([]byte(`# TYPE countersign_events_total counter
countersign_events_total{decision="allow",type="call_allowed"} 12
countersign_events_total{decision="approve",type="hitl_decision"} 3
countersign_events_total{decision="deny",type="hitl_decision"} 1e+06
countersign_limited_total{type="hitl_decision"} 7
`))
	if want := map[string]int64{"call_allowed": 12, "hitl_decision": 1000003}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestWhatIsMissingOnRecordMayStillCome(t *testing.T) {
	made := map[string]int64{"a": 2, "b": 3}
	for _, tt := range []struct {
		recorded map[string]int64
		less, ok bool
	}{
		{map[string]int64{"a": 2, "b": 3, "c": 1}, false, true},
		{map[string]int64{"a": 2, "b": 2}, true, false},
		{map[string]int64{"a": 2}, true, false},
		{map[string]int64{"a": 3, "b": 2}, false, false},
	} {
		if less, err := compareRecords(made, tt.recorded); less != tt.less || (err == nil) != tt.ok {
			t.Errorf("%v: got %t, %v", tt.recorded, less, err)
		}
	}
}

func TestNoSecretIsInAReport(t *testing.T) {
	r, err := against(t, &standIn{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r)
	if err != nil || bytes.Contains(b, []byte("token-0123456789")) {
		t.Errorf("%v: %s", err, b)
	}
	if s := fmt.Sprintf("%+v", Given{Agent: secret.Value("agent-token-0123456789")}); strings.Contains(s, "0123456789") {
		t.Error(s)
	}
}
