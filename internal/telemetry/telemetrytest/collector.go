// Package telemetrytest is an OpenTelemetry collector for tests, which keeps what it is sent, and can refuse and hang.
package telemetrytest

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is one that was sent.
type Span struct {
	Name, Trace, ID, Parent string // Parent "": it has none
	Server, Failed          bool   // of its kind and status
	Start, End              time.Time
	Attributes              map[string]string
	Links                   []string // the ids of spans
}

// Collector is one collector. Its fields are set before it is asked.
type Collector struct {
	URL string
	// Refuse is the status of each answer; 0: it takes what comes.
	Refuse int

	t      testing.TB
	hold   chan struct{} // closed: it hangs no more
	asked  atomic.Int64
	mu     sync.Mutex
	raw    [][]byte
	header []http.Header
	spans  []Span
	names  map[string]bool
}

// New starts a collector.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{t: t, hold: make(chan struct{}), names: map[string]bool{}}
	close(c.hold)
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

// NewHanging starts one that answers nothing until the test is over, or its clients are gone.
func NewHanging(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{t: t, hold: make(chan struct{}), names: map[string]bool{}}
	s := httptest.NewServer(c)
	t.Cleanup(func() { close(c.hold); s.Close() })
	c.URL = s.URL
	return c
}

// ServeHTTP implements [http.Handler].
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it was given up
	}
	c.asked.Add(1)
	select {
	case <-c.hold:
	case <-r.Context().Done():
		return
	}
	if c.Refuse != 0 {
		w.WriteHeader(c.Refuse)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, body)
	c.header = append(c.header, r.Header.Clone())
	switch at := r.URL.Path; {
	case strings.HasSuffix(at, "/v1/traces"):
		c.readTraces(body)
	case strings.HasSuffix(at, "/v1/metrics"):
		c.readMetrics(body)
	default:
		c.t.Errorf("the collector is asked for %s", r.URL.Path)
	}
}

func (c *Collector) readTraces(body []byte) {
	var request tracepb.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		c.t.Errorf("traces: %v", err)
		return
	}
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, read(s))
			}
		}
	}
}

func read(s *spanpb.Span) Span {
	out := Span{Name: s.GetName(), Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
		Parent: hex.EncodeToString(s.GetParentSpanId()), Server: s.GetKind() == spanpb.Span_SPAN_KIND_SERVER,
		Failed:     s.GetStatus().GetCode() == spanpb.Status_STATUS_CODE_ERROR,
		Start:      time.Unix(0, int64(s.GetStartTimeUnixNano())), //nolint:gosec // a time
		End:        time.Unix(0, int64(s.GetEndTimeUnixNano())),   //nolint:gosec // a time
		Attributes: map[string]string{}}
	for _, a := range s.GetAttributes() {
		out.Attributes[a.GetKey()] = text(a.GetValue())
	}
	for _, l := range s.GetLinks() {
		out.Links = append(out.Links, hex.EncodeToString(l.GetSpanId()))
	}
	return out
}

func text(v *commonpb.AnyValue) string {
	if s, ok := v.GetValue().(*commonpb.AnyValue_StringValue); ok {
		return s.StringValue
	}
	return v.String()
}

func (c *Collector) readMetrics(body []byte) {
	var request metricspb.ExportMetricsServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		c.t.Errorf("metrics: %v", err)
		return
	}
	for _, resource := range request.GetResourceMetrics() {
		for _, scope := range resource.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				c.names[m.GetName()] = true
			}
		}
	}
}

// Asked is how often it was asked, also where it has not answered.
func (c *Collector) Asked() int { return int(c.asked.Load()) }

// Spans returns the spans that came, in the order of their beginnings.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := slices.Clone(c.spans)
	slices.SortStableFunc(spans, func(a, b Span) int { return a.Start.Compare(b.Start) })
	return spans
}

// Named returns the spans of a name.
func (c *Collector) Named(name string) []Span {
	return slices.DeleteFunc(c.Spans(), func(s Span) bool { return s.Name != name })
}

// Only returns the one span of a name.
func (c *Collector) Only(name string) Span {
	c.t.Helper()
	named := c.Named(name)
	if len(named) != 1 {
		c.t.Fatalf("%d spans are called %q, want 1; all are %+v", len(named), name, c.Spans())
	}
	return named[0]
}

// Metrics are the names of the metrics that came.
func (c *Collector) Metrics() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := map[string]bool{}
	for name := range c.names {
		names[name] = true
	}
	return names
}

// Holds reports whether anything that came holds a text.
func (c *Collector) Holds(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.raw, func(b []byte) bool { return bytes.Contains(b, []byte(text)) })
}

// Headers are those of what came.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.header)
}
