// Package telemetry sends traces and metrics to an OpenTelemetry collector, over OTLP.
//
// A call of an agent is a span at the door that it came in by, below the agent's own where it sends a traceparent. The
// gate puts the door's span on record with the audit events of the call ([correlation.WithTrace]). What happens to a
// request hours later, in another process or after a restart, is told from committed audit events alone: a goroutine of
// its own takes them, finds the span of the call that made the request, and makes the spans below it. So all of a
// request's life is one trace, each event is told once, by the program that has committed it, and nothing that
// decides waits for any of it.
//
// Nothing that people or agents say is sent: no arguments, no reasons. Spans name neither people nor agents.
//
// What cannot be sent is dropped. Queues have a bound, an export ends with the program, and a line in the log says once
// a minute that exports fail.
package telemetry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"countersign/approval"
	"countersign/internal/ratelimitedlog"
)

// Options are what a [Telemetry] is made of; all are required.
type Options struct {
	// Endpoint is the collector's address, to which /v1/traces and /v1/metrics are added.
	Endpoint string
	Version  string // of the program
	Logger   *slog.Logger
	Now      func() time.Time
	// Mask takes the secrets out of an id that a caller chose.
	Mask func(string) string
}

// Source is what the spans of a request and the metrics are read from.
type Source struct {
	// Request returns what is on record of a request; [approval.ErrNotFound] if there is none.
	Request func(ctx context.Context, id string) (Request, error)
	// ToWall returns what the machine's clock said at a time of the store.
	ToWall  func(time.Time) time.Time
	Metrics prometheus.Gatherer
}

// Telemetry exports. It is safe for concurrent use. A nil one does nothing.
type Telemetry struct {
	o Options
	// at is the collector's address, place the part of it that is logged: a path may be a secret.
	at     *url.URL
	place  string
	tracer trace.Tracer
	spans  *sdktrace.TracerProvider
	events chan approval.Event // that wait to become spans

	metricExporter metric.Exporter
	resource       *resource.Resource
	metrics        *metric.MeterProvider // from Start on

	reading  context.Context // ends when the follower must, stopping when exports in hand must
	endReads context.CancelFunc
	stopping context.Context
	halt     context.CancelFunc
	working  sync.WaitGroup
	started  atomic.Bool
	closing  sync.Once
	closed   chan struct{} // no event is taken any more

	failures, drops, mistakes ratelimitedlog.Counter

	exports *prometheus.CounterVec
	dropped prometheus.Counter
}

// queueSize is how many events wait to become spans, at most.
const queueSize = 4096

// New returns what exports to a collector. It connects to nothing: [Telemetry.Start] begins.
func New(o Options) (*Telemetry, error) {
	at, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, errors.New("telemetry: the collector's address is not a URL")
	}
	t := &Telemetry{o: o, at: at, place: at.Scheme + "://" + at.Host,
		events: make(chan approval.Event, queueSize), closed: make(chan struct{}),
		exports: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "countersign_telemetry_exports_total",
			Help: "Exports to the OpenTelemetry collector, by signal and result."}, []string{"signal", "result"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "countersign_telemetry_events_dropped_total",
			Help: "Audit events that did not become spans, because too many waited or their request could not be read."}),
	}
	t.reading, t.endReads = context.WithCancel(context.Background())
	t.stopping, t.halt = context.WithCancel(context.Background())
	library := fromLibrary{t, new(sync.Map)}
	otel.SetLogger(logr.FromSlogHandler(library))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(library.wentWrong))
	ctx := context.Background()
	toTraces := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(at.JoinPath("v1", "traces").String()),
		otlptracehttp.WithProxy(straight)}
	toMetrics := []otlpmetrichttp.Option{otlpmetrichttp.WithEndpointURL(at.JoinPath("v1", "metrics").String()),
		otlpmetrichttp.WithProxy(straight)}
	if at.Scheme == "http" { // a certificate in the environment is for others: the exporters would not start with it
		toTraces = append(toTraces, otlptracehttp.WithTLSClientConfig(nil))
		toMetrics = append(toMetrics, otlpmetrichttp.WithTLSClientConfig(nil))
	}
	spans, err := otlptracehttp.New(ctx, toTraces...)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	metrics, err := otlpmetrichttp.New(ctx, toMetrics...)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	t.metricExporter = metricExporter{metrics, t}
	// What the environment says of the service holds: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES. The id tells apart the
	// metrics of programs on one database.
	t.resource, err = resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "countersign"),
			attribute.String("service.version", o.Version), attribute.String("service.instance.id", rand.Text())),
		resource.WithFromEnv())
	if errors.Is(err, resource.ErrPartialResource) {
		library.wentWrong(err) // the gate does not stay down for it
	} else if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	t.spans = sdktrace.NewTracerProvider(sdktrace.WithBatcher(spanExporter{spans, t}), sdktrace.WithIDGenerator(ids{}),
		sdktrace.WithResource(t.resource), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))
	t.tracer = t.spans.Tracer("countersign", trace.WithInstrumentationVersion(o.Version))
	return t, nil
}

// Start begins to read from s and to export. Events that came before are kept until then.
func (t *Telemetry) Start(s Source) {
	if t == nil || !t.started.CompareAndSwap(false, true) {
		return
	}
	t.metrics = metric.NewMeterProvider(metric.WithResource(t.resource), metric.WithReader(
		metric.NewPeriodicReader(t.metricExporter, metric.WithProducer(
			bridge.NewMetricProducer(bridge.WithGatherer(gatherer{s.Metrics, t}))))))
	f := &follower{t: t, source: s, known: map[string]*story{}}
	t.working.Go(f.run)
}

// patience is how long the last events may take to be read at the end, and then the last exports.
const patience = time.Second

// Close exports what waits, for at most two seconds, and ends. What could not be sent is dropped.
func (t *Telemetry) Close(ctx context.Context) {
	if t == nil {
		return
	}
	t.closing.Do(func() {
		close(t.closed)
		reading, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		defer context.AfterFunc(reading, t.endReads)()
		t.working.Wait()
		// A provider that is told of the end too late ends nothing: it has its time, whatever is left of ctx.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		defer context.AfterFunc(ctx, t.halt)()
		var ending sync.WaitGroup
		var traces, metrics error
		ending.Go(func() { traces = t.spans.Shutdown(ctx) })
		if t.metrics != nil {
			ending.Go(func() { metrics = t.metrics.Shutdown(ctx) })
		}
		ending.Wait()
		t.halt()
		t.endReads()
		if err := errors.Join(traces, metrics); err != nil {
			t.o.Logger.WarnContext(ctx, "the last traces and metrics could not be sent to the OpenTelemetry collector", "error",
				t.explain(err))
		}
	})
}

// Follow makes spans of committed events, later and elsewhere: it keeps nobody. What does not fit is dropped.
func (t *Telemetry) Follow(c approval.Commit) {
	if t == nil {
		return
	}
	for i := range c.Events {
		if e := &c.Events[i]; e.ApprovalID != "" && isTold(e.Type) {
			select {
			case t.events <- *e:
			default:
				t.drop("too many wait")
			}
		}
	}
}

// drop counts an event that does not become a span.
func (t *Telemetry) drop(why string) {
	t.dropped.Inc()
	if n, tell := t.drops.Add(t.o.Now()); tell {
		t.o.Logger.Warn("audit events are missing in the traces of the OpenTelemetry collector; the audit log has them",
			"count", n, "reason", why)
	}
}

// Describe implements [prometheus.Collector].
func (t *Telemetry) Describe(ch chan<- *prometheus.Desc) {
	t.exports.Describe(ch)
	t.dropped.Describe(ch)
}

// Collect implements [prometheus.Collector].
func (t *Telemetry) Collect(ch chan<- prometheus.Metric) {
	t.exports.Collect(ch)
	t.dropped.Collect(ch)
}
