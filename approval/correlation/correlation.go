// Package correlation has what is put on record name the call or the press that it comes from.
package correlation

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

type key struct{}

// With returns a context whose audit events carry id.
func With(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, key{}, id)
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
	id, _ := ctx.Value(key{}).(string)
	return id
}
