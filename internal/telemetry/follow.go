package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/oklog/ulid/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"countersign/approval"
)

// Request is what is on record of a request, by the store's time.
type Request struct {
	Server, Tool            string
	Risk                    approval.Risk
	RequestedAt, ConsumedAt time.Time
	Replaces                string // the request of which it has other arguments; told where no call made this one
	Traceparent             string // of the call that made it; "": none is on record
}

// told are the events of requests that become spans, with the names of those spans. A decision has a name where
// somebody has pressed, and ends the request's span.
var told = map[approval.EventType]string{
	approval.EventNotificationSent:     "push",
	approval.EventNotificationRetrying: "push",
	approval.EventNotificationFailed:   "push",
	approval.EventVote:                 "press",
	approval.EventDecision:             "press",
	approval.EventDecisionRefused:      "press",
	approval.EventExtended:             "extend",
	approval.EventApprovalCancelled:    "cancel",
	approval.EventApprovalLapsed:       "lapse",
	approval.EventApprovalConsumed:     "use",
	approval.EventApprovalReturned:     "return",
	approval.EventCallOutcome:          "execute_tool",
}

func isTold(t approval.EventType) bool { return told[t] != "" }

// story is what the spans of one request have in common.
type story struct {
	Request
	call trace.SpanContext // that made it
	own  trace.SpanContext // the request's span, from its question to its end
}

// follower makes spans of events.
type follower struct {
	t      *Telemetry
	source Source
	known  map[string]*story
}

// mostKnown is how many requests are kept in memory; any other is read again.
const mostKnown = 4096

func (f *follower) run() {
	for {
		select {
		case e := <-f.t.events:
			f.tell(e)
		case <-f.t.closed:
			for f.t.reading.Err() == nil { // what was committed before
				select {
				case e := <-f.t.events:
					f.tell(e)
					continue
				default:
				}
				return
			}
			return
		}
	}
}

// readWithin is how long a request may take to be read.
const readWithin = 5 * time.Second

// find returns the story of a request; nil: there is no such request.
func (f *follower) find(id string) (*story, error) {
	if s := f.known[id]; s != nil {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(f.t.reading, readWithin)
	defer cancel()
	r, err := f.source.Request(ctx, id)
	if errors.Is(err, approval.ErrNotFound) {
		return nil, nil //nolint:nilnil // it was removed, or is none: a grant's use
	}
	if err != nil {
		return nil, err
	}
	s := &story{Request: r, call: parse(r.Traceparent)}
	if s.own, err = idsOf(id, s.call); err != nil {
		return nil, err
	}
	if first := r.Replaces; first != "" && first != id && !s.call.IsValid() { // by a press, in the same trace
		if old, err := f.find(first); err != nil {
			return nil, err
		} else if old != nil {
			s.call = old.own
			s.own, _ = idsOf(id, s.call)
		}
	}
	if len(f.known) >= mostKnown {
		for old := range maps.Keys(f.known) { // any
			delete(f.known, old)
			break
		}
	}
	f.known[id] = s
	return s, nil
}

// eventData is what is read of an event's data.
type eventData struct {
	Traceparent  string `json:"traceparent"`
	Via          string `json:"via"`
	Was          string `json:"was"` // how the request stood
	Notification string `json:"notification_id"`
	Channel      string `json:"channel"`
	Kind         string `json:"kind"`
	Attempt      int    `json:"attempt"`
}

// tell makes the spans of one event.
func (f *follower) tell(e approval.Event) {
	s, err := f.find(e.ApprovalID)
	if err != nil {
		f.t.drop("their request could not be read")
		return
	}
	if s == nil {
		return
	}
	var data eventData
	_ = json.Unmarshal(e.Data, &data) // what cannot be read is not told
	at := f.source.ToWall(e.At)
	switch e.Type {
	case approval.EventNotificationSent, approval.EventNotificationRetrying, approval.EventNotificationFailed:
		f.push(s, e, data, at)
	case approval.EventVote, approval.EventDecisionRefused:
		f.press(s, e, data, at)
	case approval.EventDecision:
		if e.Decision != "timeout" {
			f.press(s, e, data, at)
		}
		f.end(s, e, data, at)
	case approval.EventApprovalCancelled:
		if data.Was == string(approval.Pending) {
			f.end(s, e, data, at)
		} else { // an approval is taken back
			f.span(s, e, data, at, at)
		}
		delete(f.known, e.ApprovalID)
	case approval.EventApprovalConsumed:
		s.ConsumedAt = e.At
		f.span(s, e, data, at, at)
	case approval.EventCallOutcome:
		f.outcome(s, e, data, at)
	default:
		f.span(s, e, data, at, at)
	}
}

// span makes the span of an event below its request's. Where the event came with another call than the request, it
// is linked with that one.
func (f *follower) span(s *story, e approval.Event, data eventData, from, to time.Time, attrs ...attribute.KeyValue) {
	name := told[e.Type]
	if e.Type == approval.EventCallOutcome {
		name += " " + s.Tool
	}
	span := f.begin(trace.ContextWithRemoteSpanContext(context.Background(), s.own), s, name, e, data, from, attrs)
	if e.Type == approval.EventCallOutcome && e.Reason != string(approval.RunSucceeded) {
		failed(span, e.Reason)
	}
	if e.Type == approval.EventNotificationFailed {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(to))
}

func (f *follower) begin(ctx context.Context, s *story, name string, e approval.Event, data eventData, from time.Time,
	attrs []attribute.KeyValue) trace.Span {
	attrs = append(attrs, requestID(e.ApprovalID), attribute.String("countersign.event", string(e.Type)),
		attribute.String("countersign.risk", string(s.Risk)))
	attrs = append(attrs, toolAttributes(s.Server, s.Tool)...)
	opts := []trace.SpanStartOption{trace.WithTimestamp(from), trace.WithAttributes(attrs...)}
	if by := parse(data.Traceparent); by.IsValid() && !by.Equal(s.call) {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: by}))
	}
	_, span := f.t.tracer.Start(ctx, name, opts...)
	return span
}

// end makes the span of the request itself, from the question to its end.
func (f *follower) end(s *story, e approval.Event, data eventData, at time.Time) {
	ctx := withIDs(context.Background(), s.own)
	if s.call.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, s.call)
	}
	var attrs []attribute.KeyValue
	if e.Decision != "" { // nobody decides what is cancelled
		attrs = append(attrs, attribute.String("countersign.decision", e.Decision))
	}
	span := f.begin(ctx, s, "approval "+s.Tool, e, data, f.source.ToWall(s.RequestedAt), attrs)
	span.End(trace.WithTimestamp(at))
}

// push makes the span of a notification, from when it was queued, which its id says.
func (f *follower) push(s *story, e approval.Event, data eventData, at time.Time) {
	from := at
	if id, err := ulid.ParseStrict(data.Notification); err == nil {
		if queued := f.source.ToWall(id.Timestamp()); queued.Before(at) {
			from = queued
		}
	}
	f.span(s, e, data, from, at, attribute.String("countersign.channel", data.Channel),
		attribute.String("countersign.notification.kind", data.Kind),
		attribute.Int("countersign.notification.attempt", data.Attempt))
}

// press makes the span of what somebody has pressed, said or clicked; not who.
func (f *follower) press(s *story, e approval.Event, data eventData, at time.Time) {
	attrs := []attribute.KeyValue{attribute.String("countersign.decision", e.Decision),
		attribute.String("countersign.via", data.Via)}
	if e.Type == approval.EventDecisionRefused {
		attrs = append(attrs, attribute.String("countersign.refused", e.Reason)) // a code
	}
	f.span(s, e, data, at, at, attrs...)
}

// outcome makes the span of the call that ran, from the use of its approval.
func (f *follower) outcome(s *story, e approval.Event, data eventData, at time.Time) {
	from := at
	if !s.ConsumedAt.IsZero() {
		from = f.source.ToWall(s.ConsumedAt)
	}
	f.span(s, e, data, from, at, attribute.String("gen_ai.operation.name", "execute_tool"))
	if e.Reason != string(approval.RunUnknown) { // of which more may come
		delete(f.known, e.ApprovalID)
	}
}
