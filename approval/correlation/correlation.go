// Package correlation has what is put on record name the call or the press that it comes from, and the span of a trace
// that it was done in.
package correlation

import (
	"bytes"
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

type key struct{}

// cause is what audit events carry.
type cause struct{ id, traceparent string }

func causeOf(ctx context.Context) cause {
	c, _ := ctx.Value(key{}).(cause)
	return c
}

// With returns a context whose audit events carry id. Those of "" have no cause, and so no trace either.
func With(ctx context.Context, id string) context.Context {
	c := cause{id: id}
	if id != "" {
		c.traceparent = causeOf(ctx).traceparent
	}
	return context.WithValue(ctx, key{}, c)
}

// WithTrace returns a context whose audit events carry a traceparent of W3C's Trace Context, which is a valid one.
func WithTrace(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, key{}, cause{causeOf(ctx).id, traceparent})
}

// TraceOf returns the traceparent given to [WithTrace], or "".
func TraceOf(ctx context.Context) string { return causeOf(ctx).traceparent }

// Stamp adds the traceparent to what an audit event holds, a JSON object or nothing.
func Stamp(ctx context.Context, data []byte) []byte {
	traceparent := TraceOf(ctx)
	if traceparent == "" {
		return data
	}
	before, isObject := bytes.CutSuffix(data, []byte("}"))
	stamped := make([]byte, 0, len(data)+len(traceparent)+len(`{"traceparent":""}`))
	switch {
	case !isObject:
		stamped = append(stamped, '{')
	case len(before) == 1: // it was empty
		stamped = append(stamped, before...)
	default:
		stamped = append(append(stamped, before...), ',')
	}
	stamped = append(append(stamped, `"traceparent":"`...), traceparent...)
	return append(stamped, `"}`...)
}

// maxChosen is how long an id may be that somebody else chose.
const maxChosen = 128

// New returns an id for what a caller does at a time, who has chosen none. It is random, and sorts after
// those of earlier milliseconds. So an index of requests by it grows at its end; of ids that are random alone, each
// would have a page of its own written.
func New(at time.Time) string {
	return ulid.MustNew(ulid.Timestamp(at), rand.Reader).String() // which fails after the year 10889
}

// Theirs returns the id that a caller chose for what it does, "" where one is to be made instead:
// it must be short, of printable ASCII, and have no colon. A colon stands in the ids that the gate makes of a
// platform's, "line:01K…", "slack:Ev…", and after every kind of actor: no caller's may be taken for one.
func Theirs(id string) string {
	if len(id) > maxChosen ||
		strings.IndexFunc(id, func(r rune) bool { return r < ' ' || r > '~' || r == ':' }) >= 0 {
		return ""
	}
	return strings.TrimSpace(id)
}

// Of returns the id given to [With], or "".
func Of(ctx context.Context) string {
	return causeOf(ctx).id
}
