package telemetry

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"countersign/approval/legible"
)

// spanExporter exports spans, tells of a failure itself, and gives up when the program ends.
type spanExporter struct {
	sdktrace.SpanExporter
	t *Telemetry
}

// ExportSpans implements [sdktrace.SpanExporter].
func (e spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := e.t.untilHalt(ctx)
	defer cancel()
	e.t.exported(ctx, "traces", e.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

// metricExporter is that of metrics.
type metricExporter struct {
	metric.Exporter
	t *Telemetry
}

// Export implements [metric.Exporter].
func (e metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	ctx, cancel := e.t.untilHalt(ctx)
	defer cancel()
	e.t.exported(ctx, "metrics", e.Exporter.Export(ctx, m))
	return nil
}

// gatherer gathers metrics, and tells of a failure itself.
type gatherer struct {
	prometheus.Gatherer
	t *Telemetry
}

// Gather implements [prometheus.Gatherer].
func (g gatherer) Gather() ([]*dto.MetricFamily, error) {
	all, err := g.Gatherer.Gather()
	if err != nil {
		g.t.fail(context.Background(), "metrics", err)
	}
	return all, nil
}

// untilHalt is ctx that ends with the program too.
func (t *Telemetry) untilHalt(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(t.stopping, cancel)
	return ctx, func() { stop(); cancel() }
}

// exported counts an export, and tells of one that has failed.
func (t *Telemetry) exported(ctx context.Context, signal string, err error) {
	if err == nil {
		t.exports.WithLabelValues(signal, "ok").Inc()
		return
	}
	t.exports.WithLabelValues(signal, "failed").Inc()
	t.fail(ctx, signal, err)
}

func (t *Telemetry) fail(ctx context.Context, signal string, err error) {
	if n, tell := t.failures.Add(t.o.Now()); tell {
		t.o.Logger.WarnContext(ctx, "the OpenTelemetry collector does not take what the gate sends; calls and decisions go "+
			"on without it; see that telemetry.otlp is its address for OTLP over HTTP, and that it runs", "signal", signal,
			"collector", t.place, "count", n, "error", t.explain(err))
	}
}

// longestReason is how much of a collector's own words is logged.
const longestReason = 300

// explain says why an export failed. What a collector says may be long, and is made safe to show.
func (t *Telemetry) explain(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	text := err.Error()
	if path := strings.Trim(t.at.EscapedPath(), "/"); path != "" {
		text = strings.ReplaceAll(text, path, "…")
	}
	return legible.Cut(legible.Line(text), longestReason)
}
