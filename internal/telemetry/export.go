package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
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

// explain says why an export failed. What a collector says may be long, on one line of the log. The log masks it.
func (t *Telemetry) explain(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	text := err.Error()
	// The exporter does not keep how the path was escaped.
	for _, path := range []string{t.at.EscapedPath(), (&url.URL{Path: t.at.Path}).EscapedPath(), t.at.Path} {
		if path = strings.Trim(path, "/"); path != "" {
			text = strings.ReplaceAll(text, path, "…")
		}
	}
	return legible.Cut(strings.Join(slices.Compact(strings.Split(text, "\n")), "; "), longestReason)
}

var errRedirected = errors.New("the collector sends the gate elsewhere; what it asks for is not sent there: " +
	"configure the address that it names, if that is right")

// straight is the proxy of a request to the collector. One that a redirect has led to is not made: its headers are
// secrets, and what is answered there says nothing of whether the collector has anything.
func straight(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		return nil, errRedirected
	}
	return http.ProxyFromEnvironment(r)
}

// fromLibrary takes what the libraries log of themselves, which they write to standard error otherwise, with the values
// of variables that have secrets. So only what they were at is logged.
type fromLibrary struct {
	t    *Telemetry
	said *sync.Map // traces and metrics say the same
}

// Enabled implements [slog.Handler].
func (fromLibrary) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

// Handle implements [slog.Handler].
func (f fromLibrary) Handle(ctx context.Context, r slog.Record) error {
	f.tell(ctx, r.Message)
	return nil
}

// tell says once what failed.
func (f fromLibrary) tell(ctx context.Context, failed string) {
	if _, again := f.said.LoadOrStore(failed, true); !again {
		f.t.o.Logger.ErrorContext(ctx, "the export to the OpenTelemetry collector is not as it should be; see the variables "+
			"OTEL_…, whose values are not shown here", "failed", failed)
	}
}

// WithAttrs implements [slog.Handler].
func (f fromLibrary) WithAttrs([]slog.Attr) slog.Handler { return f }

// WithGroup implements [slog.Handler].
func (f fromLibrary) WithGroup(string) slog.Handler { return f }

// wentWrong tells of an error that the libraries tell nobody else.
func (f fromLibrary) wentWrong(err error) {
	if errors.Is(err, resource.ErrPartialResource) { // it has what the variable says
		f.tell(context.Background(), "read OTEL_RESOURCE_ATTRIBUTES")
	} else if n, tell := f.t.mistakes.Add(f.t.o.Now()); tell {
		f.t.o.Logger.Error("an error of the export to the OpenTelemetry collector", "count", n, "error", f.t.explain(err))
	}
}
