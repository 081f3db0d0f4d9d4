// Package otlp tests what the gate sends against the OpenTelemetry Collector's own receiver. It is a module of its own:
// the collector is none of the product's.
package otlp

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"countersign/client"
	"countersign/internal/app"
	"countersign/internal/config"
)

const patience = 30 * time.Second

// receiver is the collector's receiver, and what it passes on.
type receiver struct {
	url     string
	traces  consumertest.TracesSink
	metrics consumertest.MetricsSink
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	r := &receiver{url: "http://" + address}
	factory := otlpreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig()
	said := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": map[string]any{
		"endpoint": address}}})
	if err := said.Unmarshal(cfg); err != nil {
		t.Fatal(err)
	}
	set := receivertest.NewNopSettings(factory.Type())
	traces, err := factory.CreateTraces(t.Context(), set, cfg, &r.traces)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := factory.CreateMetrics(t.Context(), set, cfg, &r.metrics)
	if err != nil {
		t.Fatal(err)
	}
	if err := traces.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	if err := metrics.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := traces.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := metrics.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// startGate starts the whole program, which sends to the receiver.
func startGate(t *testing.T, to string) (agent, person *client.Client, stop func()) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "countersign.yaml")
	text := fmt.Sprintf(`listen: 127.0.0.1:0
store: sqlite:%s
telemetry: {otlp: %q}
agents:
  - {name: bot, token: test-agent-token-bot}
people:
  - {name: hana, roles: [approver, admin], token: test-person-token-hana}
`, filepath.Join(dir, "gate.db"), to)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := config.Load(path, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), app.Options{Config: cfg, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	dial := func(token string) *client.Client {
		c, err := client.New("http://"+a.Addr(), token)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	return dial("test-agent-token-bot"), dial("test-person-token-hana"), stop
}

const (
	agentTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	agentSpan  = "00f067aa0ba902b7"
)

// What a call's life is made of arrives at the collector as one trace, with the metrics.
func TestTheCollectorTakesALife(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // the file says where, and not the environment
	r := startReceiver(t)
	agent, person, stop := startGate(t, r.url)
	ctx, cancel := context.WithTimeout(client.WithTraceparent(t.Context(), "00-"+agentTrace+"-"+agentSpan+"-01"), patience)
	defer cancel()
	call := client.Call{Tool: "transfer_credits", Args: json.RawMessage(`{"amount_cents":2000}`)}
	asked, err := agent.Call(ctx, call)
	if err != nil || asked.Kind != client.AnswerPending {
		t.Fatalf("%s, %v", asked.Kind, err)
	}
	if _, err := person.Decide(ctx, asked.ApprovalID, client.Approve, ""); err != nil {
		t.Fatal(err)
	}
	if used, err := agent.Call(ctx, call); err != nil || used.Kind != client.AnswerApproved {
		t.Fatalf("%s, %v", used.Kind, err)
	}
	stop()
	checkTraces(t, r.traces.AllTraces())
	names := map[string]bool{}
	for _, m := range r.metrics.AllMetrics() {
		for _, resource := range m.ResourceMetrics().All() {
			for _, scope := range resource.ScopeMetrics().All() {
				for _, metric := range scope.Metrics().All() {
					names[metric.Name()] = true
				}
			}
		}
	}
	for _, name := range []string{"countersign_events_total", "countersign_requests_pending", "countersign_build_info",
		"process_resident_memory_bytes"} {
		if !names[name] {
			t.Errorf("no metric is called %s", name)
		}
	}
}

func checkTraces(t *testing.T, all []ptrace.Traces) {
	t.Helper()
	parents := map[string]string{} // of spans, by their names
	ids := map[string]string{}
	for _, traces := range all {
		for _, resource := range traces.ResourceSpans().All() {
			if service, _ := resource.Resource().Attributes().Get("service.name"); service.Str() != "countersign" {
				t.Errorf("the service is called %q", service.Str())
			}
			for _, scope := range resource.ScopeSpans().All() {
				for _, span := range scope.Spans().All() {
					of, own, parent := span.TraceID(), span.SpanID(), span.ParentSpanID()
					if hex.EncodeToString(of[:]) != agentTrace {
						t.Errorf("%s is in another trace", span.Name())
					}
					ids[hex.EncodeToString(own[:])] = span.Name()
					parents[span.Name()] = hex.EncodeToString(parent[:])
				}
			}
		}
	}
	for name, want := range map[string]string{"approval transfer_credits": "POST /v1/calls",
		"press": "approval transfer_credits", "use": "approval transfer_credits"} {
		if got := ids[parents[name]]; got != want {
			t.Errorf("%q is below %q, want %q; there are %v", name, got, want, strings.Join(keys(parents), ", "))
		}
	}
	if parents["POST /v1/calls"] != agentSpan {
		t.Error("the calls are not below the agent's span")
	}
}

func keys(of map[string]string) (all []string) {
	for name := range of {
		all = append(all, name)
	}
	return all
}
