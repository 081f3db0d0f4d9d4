package telemetry

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"github.com/oklog/ulid/v2"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// ids makes the ids of spans: at random, but for the one that all programs must know a request's span by.
type ids struct{}

type chosenKey struct{}

// withIDs returns a context in which the next span has the ids of sc, the trace's too where it has no parent.
func withIDs(ctx context.Context, sc trace.SpanContext) context.Context {
	return context.WithValue(ctx, chosenKey{}, sc)
}

// NewIDs implements [sdktrace.IDGenerator].
func (i ids) NewIDs(ctx context.Context) (of trace.TraceID, span trace.SpanID) {
	if sc, ok := ctx.Value(chosenKey{}).(trace.SpanContext); ok {
		return sc.TraceID(), sc.SpanID()
	}
	for !of.IsValid() {
		binary.BigEndian.PutUint64(of[:8], rand.Uint64())
		binary.BigEndian.PutUint64(of[8:], rand.Uint64())
	}
	return of, i.NewSpanID(ctx, of)
}

// NewSpanID implements [sdktrace.IDGenerator].
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) (span trace.SpanID) {
	if sc, ok := ctx.Value(chosenKey{}).(trace.SpanContext); ok {
		return sc.SpanID()
	}
	for !span.IsValid() {
		binary.BigEndian.PutUint64(span[:], rand.Uint64())
	}
	return span
}

// idsOf are the ids of a request's span: whoever tells of the request finds the same. The trace is that of the call
// that made the request; where that is not known, its id is the request's, a ULID, which has as many bits.
func idsOf(request string, call trace.SpanContext) (trace.SpanContext, error) {
	id, err := ulid.ParseStrict(request)
	if err != nil {
		return trace.SpanContext{}, err
	}
	c := trace.SpanContextConfig{TraceID: trace.TraceID(id), TraceFlags: trace.FlagsSampled, Remote: true}
	copy(c.SpanID[:], id[8:])
	if call.IsValid() {
		c.TraceID, c.TraceFlags = call.TraceID(), call.TraceFlags()
	}
	return trace.NewSpanContext(c), nil
}

const traceparentKey = "traceparent"

// parse reads a traceparent; what is not one is an invalid span.
func parse(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(),
		propagation.MapCarrier{traceparentKey: traceparent}))
}

// format is the traceparent of a span.
func format(sc trace.SpanContext) string {
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), sc), c)
	return c[traceparentKey]
}
