package sqlite

import (
	"context"
	"fmt"
	"testing"
	"time"
)

func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// at is the store on a machine that was started for the nth time.
func at(path string, start int) Options {
	since := time.Now()
	return Options{Path: path, Boot: fmt.Sprint("start ", start), Elapsed: func() time.Duration {
		return time.Since(since)
	}}
}
