package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"countersign/approval"
	"countersign/approval/correlation"
)

// BeginHTTP begins the span of a call that came in at a route, below the one that traceparent names; the zero one is a
// batch. The context is for all that is done for it; end ends the span with what was answered.
func (t *Telemetry) BeginHTTP(ctx context.Context, route, traceparent string,
	c approval.Call) (_ context.Context, end func(error, approval.Answer)) {
	attrs := []attribute.KeyValue{attribute.String("http.request.method", "POST"), attribute.String("http.route", route)}
	attrs = append(attrs, toolAttributes(c.Server, c.Tool)...)
	span, ended := t.begin("POST "+route, traceparent, attrs)
	return correlation.WithTrace(ctx, format(span.SpanContext())), func(err error, a approval.Answer) {
		if err != nil {
			failed(span, string(approval.CodeOf(err)))
		}
		span.SetAttributes(answerAttributes(a)...)
		ended()
	}
}

// MCPRequest is what is told of a request of an MCP client.
type MCPRequest struct {
	Method, Session     string
	Traceparent, CallID string // of the client's own; "": it says nothing
	Server, Tool        string // Tool "": another method than tools/call
}

// BeginMCP begins the span of an MCP client's request, and returns the traceparent that it is on record with. failure
// is why it could not be answered as asked, "" if it was.
func (t *Telemetry) BeginMCP(r MCPRequest) (traceparent string, end func(a approval.Answer, failure string)) {
	name := r.Method
	attrs := []attribute.KeyValue{attribute.String("mcp.method.name", r.Method)}
	if r.Tool != "" {
		if approval.ValidName(r.Tool) {
			name += " " + r.Tool
		}
		attrs = append(attrs, attribute.String("gen_ai.operation.name", "execute_tool"))
	}
	attrs = append(attrs, toolAttributes(r.Server, r.Tool)...)
	if r.Session != "" {
		attrs = append(attrs, attribute.String("mcp.session.id", r.Session))
	}
	if r.CallID != "" {
		attrs = append(attrs, attribute.String("gen_ai.tool.call.id", t.o.Mask(r.CallID)))
	}
	span, ended := t.begin(name, r.Traceparent, attrs)
	return format(span.SpanContext()), func(a approval.Answer, failure string) {
		if failure != "" {
			failed(span, failure)
		}
		span.SetAttributes(answerAttributes(a)...)
		ended()
	}
}

// begin begins a span that audit events name. It takes as long as it takes, also where the clock is set meanwhile.
func (t *Telemetry) begin(name, traceparent string, attrs []attribute.KeyValue) (span trace.Span, end func()) {
	from := t.o.Now()
	_, span = t.tracer.Start(trace.ContextWithRemoteSpanContext(context.Background(), parse(traceparent)), name,
		trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(from), trace.WithAttributes(attrs...))
	return span, func() { span.End(trace.WithTimestamp(from.Add(max(t.o.Now().Sub(from), 0)))) }
}

func failed(span trace.Span, why string) {
	span.SetStatus(codes.Error, "")
	span.SetAttributes(attribute.String("error.type", why))
}

// toolAttributes name a tool. What is no name is refused: it may be anything that the agent says, and of any length.
func toolAttributes(server, tool string) (attrs []attribute.KeyValue) {
	if approval.ValidName(tool) {
		attrs = append(attrs, attribute.String("gen_ai.tool.name", tool))
	}
	if approval.ValidName(server) {
		attrs = append(attrs, attribute.String("countersign.server", server))
	}
	return attrs
}

func answerAttributes(a approval.Answer) (attrs []attribute.KeyValue) {
	if a.Kind != "" {
		attrs = append(attrs, attribute.String("countersign.answer", string(a.Kind)))
	}
	if a.Risk != "" {
		attrs = append(attrs, attribute.String("countersign.risk", string(a.Risk)))
	}
	if a.Request != nil {
		attrs = append(attrs, requestID(a.Request.ID))
	}
	return attrs
}

func requestID(id string) attribute.KeyValue { return attribute.String("countersign.request.id", id) }
