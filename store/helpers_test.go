package store

import (
	"context"
	"testing"
	"time"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// params returns the names of a statement's parameters.
func (s *stmt) params() []string {
	names := make([]string, sqlite3.Xsqlite3_bind_parameter_count(s.c.tls, s.p))
	for i := range names {
		names[i] = libc.GoString(sqlite3.Xsqlite3_bind_parameter_name(s.c.tls, s.p, int32(i+1)))
	}
	return names
}

func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}
