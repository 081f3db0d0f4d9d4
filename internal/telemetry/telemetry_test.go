package telemetry

import (
	"context"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"countersign/approval"
	"countersign/internal/telemetry/telemetrytest"
	"countersign/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const request = "01KAFHZX3T9W8Y7B6A5D4C3E2F"

func open(t *testing.T, c *telemetrytest.Collector, log *testkit.Buffer) *Telemetry {
	t.Helper()
	at := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	x, err := New(Options{Endpoint: c.URL + "/hidden-part", Version: "test",
		Logger: slog.New(slog.NewTextHandler(log, nil)), Now: func() time.Time { return at },
		Mask: func(s string) string { return strings.ReplaceAll(s, "secret", "•") }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close(context.Background()) })
	return x
}

func source(find func(ctx context.Context, id string) (Request, error)) Source {
	return Source{Request: find, ToWall: func(at time.Time) time.Time { return at }, Metrics: prometheus.NewRegistry()}
}

func committed(types ...approval.EventType) (c approval.Commit) {
	for _, is := range types {
		c.Events = append(c.Events, approval.Event{Type: is, ApprovalID: request})
	}
	return c
}

// Off, it costs a comparison.
func TestWithoutTelemetryNothingIsAllocated(t *testing.T) {
	var off *Telemetry
	c := committed(approval.EventVote, approval.EventApprovalConsumed)
	if n := testing.AllocsPerRun(100, func() { off.Follow(c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	off.Start(Source{})
	off.Close(t.Context())
}

// Whoever commits is not kept by what reads behind them: what does not fit is counted, and told once.
func TestEventsThatDoNotFitAreDropped(t *testing.T) {
	t.Parallel()
	var log testkit.Buffer
	x := open(t, telemetrytest.New(t), &log) // it has not started, and takes nothing from the queue
	for range queueSize + 100 {
		x.Follow(committed(approval.EventVote))
	}
	if got := dropped(t, x); got != 100 {
		t.Errorf("%v were dropped, want 100", got)
	}
	if n := strings.Count(log.String(), "audit events are missing"); n != 1 {
		t.Errorf("%d lines", n)
	}
}

// A store that does not answer keeps neither those who commit nor the end.
func TestAStoreThatHangsKeepsNobody(t *testing.T) {
	t.Parallel()
	var log testkit.Buffer
	x := open(t, telemetrytest.New(t), &log)
	reads := make(chan struct{}, 1)
	x.Start(source(func(ctx context.Context, _ string) (Request, error) {
		reads <- struct{}{}
		<-ctx.Done()
		return Request{}, ctx.Err()
	}))
	x.Follow(committed(approval.EventVote))
	testkit.Receive(t, "a read", reads)
	x.Close(t.Context())
	if got := dropped(t, x); got != 1 {
		t.Errorf("%v were dropped, want 1", got)
	}
}

// What was removed, or is no request, has no span; what cannot be read is counted.
func TestEventsOfNoRequestHaveNoSpan(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want float64
	}{{approval.ErrNotFound, 0}, {errors.New("the disk is gone"), 1}} {
		var log testkit.Buffer
		c := telemetrytest.New(t)
		x := open(t, c, &log)
		x.Start(source(func(context.Context, string) (Request, error) { return Request{}, tt.err }))
		x.Follow(committed(approval.EventVote, approval.EventCallAllowed))
		x.Close(t.Context())
		if got := dropped(t, x); got != tt.want || len(c.Spans()) != 0 {
			t.Errorf("%v: %v were dropped, want %v; %v", tt.err, got, tt.want, c.Spans())
		}
	}
}

func dropped(t *testing.T, x *Telemetry) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(x)
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.GetName() == "countersign_telemetry_events_dropped_total" {
			return m.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// Ids that a caller chose are masked, and the collector's path, which may be one, is not logged.
func TestSecretsAreNotSentOrLogged(t *testing.T) {
	t.Parallel()
	var log testkit.Buffer
	c := telemetrytest.New(t)
	c.Refuse = 401
	x := open(t, c, &log)
	x.Start(source(nil))
	_, end := x.BeginMCP(MCPRequest{Method: "tools/call", Tool: "x", CallID: "a-secret"})
	end(approval.Answer{Kind: approval.AnswerAllow}, "")
	x.Close(t.Context())
	if !strings.Contains(log.String(), "401") || strings.Contains(log.String(), "hidden-part") ||
		!strings.Contains(log.String(), c.URL) || strings.Count(log.String(), "does not take") != 1 {
		t.Errorf("the log: %s", &log)
	}
}

// What an agent calls a tool that is refused for its name is none: it may be anything, and of any length.
func TestWhatIsNoNameIsNotSent(t *testing.T) {
	t.Parallel()
	var log testkit.Buffer
	c := telemetrytest.New(t)
	x := open(t, c, &log)
	x.Start(source(nil))
	const said = "words of an agent"
	_, end := x.BeginHTTP(t.Context(), "/v1/calls", "", approval.Call{Server: said, Tool: said})
	end(approval.Errorf(approval.CodeInvalidTool, "no"), approval.Answer{})
	_, ended := x.BeginMCP(MCPRequest{Method: "tools/call", Server: "desk", Tool: strings.Repeat("x", 1<<20)})
	ended(approval.Answer{}, "")
	x.Close(t.Context())
	if c.Holds(said) || c.Holds("xxx") {
		t.Error("it was sent")
	}
	if got := c.Only("POST /v1/calls").Attributes["error.type"]; got != "invalid_tool" {
		t.Errorf("error.type is %q", got)
	}
	if got := c.Only("tools/call").Attributes["countersign.server"]; got != "desk" {
		t.Errorf("the server is %q", got)
	}
}

// sendOne has the span of one call exported.
func sendOne(t *testing.T, x *Telemetry) {
	t.Helper()
	x.Start(source(nil))
	_, end := x.BeginHTTP(t.Context(), "/v1/calls", "", approval.Call{Tool: "x"})
	end(nil, approval.Answer{Kind: approval.AnswerAllow})
	x.Close(t.Context())
}

// Whoever the collector sends the gate to gets nothing of it, least of all its headers; and the log says so.
func TestNobodyElseIsSentAnything(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=test-key")
	other := telemetrytest.New(t)
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		var log testkit.Buffer
		c := httptest.NewServer(http.RedirectHandler(other.URL, status))
		x := open(t, &telemetrytest.Collector{URL: c.URL}, &log)
		sendOne(t, x)
		c.Close()
		if other.Asked() != 0 {
			t.Errorf("after a %d another was asked", status)
		}
		if !strings.Contains(log.String(), "sends the gate elsewhere") {
			t.Errorf("the log: %s", &log)
		}
	}
}

// The libraries would write variables that they cannot read to standard error, tokens and all.
func TestABadVariableIsLoggedWithoutItsValue(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Bearer hidden-word,Authorization=%ZZhidden-word,hidden word=x")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "hidden-word") // and the gate starts
	var log testkit.Buffer
	open(t, telemetrytest.New(t), &log)
	if got := log.String(); strings.Contains(got, "hidden") || strings.Count(got, "parse headers") != 1 ||
		strings.Count(got, "escape header value") != 1 || !strings.Contains(got, "read OTEL_RESOURCE_ATTRIBUTES") {
		t.Errorf("the log: %s", got)
	}
}

// A clock that is set back during a call makes no span that ends before it begins.
func TestASpanEndsAfterItBegan(t *testing.T) {
	t.Parallel()
	var log testkit.Buffer
	c := telemetrytest.New(t)
	x := open(t, c, &log)
	x.Start(source(nil))
	at := x.o.Now()
	x.o.Now = func() time.Time { at = at.Add(-time.Hour); return at }
	_, end := x.BeginHTTP(t.Context(), "/v1/calls", "", approval.Call{Tool: "x"})
	end(nil, approval.Answer{Kind: approval.AnswerAllow})
	x.o.Now = time.Now
	x.Close(t.Context())
	if s := c.Only("POST /v1/calls"); s.End.Before(s.Start) {
		t.Errorf("it ends %v before it begins", s.Start.Sub(s.End))
	}
}

// A certificate in the environment is for collectors that are asked over TLS: this one is not, and the gate starts.
func TestACertificateIsNotInTheWayOfPlainHTTP(t *testing.T) {
	secure := httptest.NewTLSServer(nil)
	defer secure.Close()
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", path)
	var log testkit.Buffer
	c := telemetrytest.New(t)
	x := open(t, c, &log)
	sendOne(t, x)
	c.Only("POST /v1/calls")
}

// What several exports say is on one line, and nothing is made safe twice.
func TestAReasonIsOneLine(t *testing.T) {
	t.Parallel()
	var log testkit.Buffer
	x := open(t, &telemetrytest.Collector{URL: "http://c/a%2Fb"}, &log)
	for _, tt := range []struct{ said, want string }{
		{"http://c/a/b/hidden-part/v1/traces: 404", "http://c/…/v1/traces: 404"},
		{"late\nlate", "late"},
		{"no\nnever", "no; never"},
		{"http://c/a%2Fb/hidden-part/v1/traces: 404", "http://c/…/v1/traces: 404"},
	} {
		if got := x.explain(errors.New(tt.said)); got != tt.want {
			t.Errorf("%q became %q, want %q", tt.said, got, tt.want)
		}
	}
}

// Everyone finds the same ids of a request.
func TestARequestsSpanIsKnownByItsID(t *testing.T) {
	none, err := idsOf(request, trace.SpanContext{})
	if err != nil {
		t.Fatal(err)
	}
	call := parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")
	below, err := idsOf(request, call)
	if err != nil {
		t.Fatal(err)
	}
	if !none.IsValid() || !none.IsSampled() || below.SpanID() != none.SpanID() || below.TraceID() != call.TraceID() ||
		below.IsSampled() {
		t.Errorf("%v, %v", none, below)
	}
	if _, err := idsOf("x", call); err == nil {
		t.Error("what is no id has ids")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Add("")
	f.Add("00-00000000000000000000000000000000-0000000000000000-00")
	f.Fuzz(func(t *testing.T, s string) {
		sc := parse(s)
		if !sc.IsValid() {
			return
		}
		// What is on record is what the gate has written, whatever it was sent.
		if again := format(sc); len(again) != 55 || !parse(again).Equal(sc.WithTraceState(trace.TraceState{})) {
			t.Errorf("%q became %q", s, again)
		}
	})
}

// What a collector asks for comes from the environment, as with every exporter; where it is does not.
func TestHeadersComeFromTheEnvironment(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20test-token")
	for _, name := range []string{"", "_TRACES", "_METRICS"} {
		t.Setenv("OTEL_EXPORTER_OTLP"+name+"_ENDPOINT", "http://127.0.0.1:1")
	}
	var log testkit.Buffer
	c := telemetrytest.New(t)
	x := open(t, c, &log)
	sendOne(t, x)
	if len(c.Headers()) == 0 || len(c.Spans()) != 1 {
		t.Fatalf("it was not sent to where the configuration says; the log: %s", &log)
	}
	for _, h := range c.Headers() {
		if got := h.Get("Authorization"); got != "Bearer test-token" {
			t.Errorf("it was sent with %q", got)
		}
	}
}
