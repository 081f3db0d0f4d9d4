//go:build unix

package upstream

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// A process that goes on writing while it starts, as one does that is being downloaded, is given more time; one that is
// silent is not, and neither is one that goes on for ever.
func TestAStartEndsInSilence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		every time.Duration // what it writes; 0: nothing
		until time.Duration
		want  time.Duration
	}{
		{"silent", 0, 0, time.Second},
		{"for a while", 900 * time.Millisecond, 4500 * time.Millisecond, 5500 * time.Millisecond},
		{"too seldom", 1100 * time.Millisecond, time.Minute, time.Second},
		{"for ever", 300 * time.Millisecond, time.Minute, longestStart * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				ctx, wrote, cancel := untilSilent(t.Context(), time.Second)
				defer cancel()
				if c.every > 0 {
					go func() {
						for time.Since(begin) < c.until {
							time.Sleep(c.every)
							wrote()
						}
					}()
				}
				<-ctx.Done()
				if took := time.Since(begin); took != c.want || context.Cause(ctx) != context.DeadlineExceeded {
					t.Errorf("it ended after %s, %v; want %s", took, context.Cause(ctx), c.want)
				}
				time.Sleep(2 * time.Minute)
			})
		})
	}
}

// What a process writes on either output counts, also what is no whole line. One that is late says what it last wrote
// to whoever runs it, and which key gives it more time.
func TestASlowStartIsTold(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"stderr": `printf 'Need to install\nfetching' >&2; cat >/dev/null`,
		"stdout": `printf 'fetching'; cat >/dev/null`,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, late := context.WithCancelCause(t.Context())
			defer late(nil)
			_, err := dial(ctx, Config{Command: []string{"sh", "-c", script}, StartTimeout: time.Hour, StartKey: "start_timeout",
				Client: jsontext.Value(`{}`), wrote: func() { late(context.DeadlineExceeded) }}, Peer{}, &dialHints{legacy: true})
			const want = "the server did not say in time what it is; if it needs more than 1h0m0s to start, raise start_timeout"
			if err == nil || Brief(err) != want || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v, want %s", err, want)
			}
			words := LastWords(err)
			if (name == "stderr") != (words == "Need to install\nfetching") {
				t.Errorf("it last wrote %q", words)
			}
			if name == "stderr" && !strings.HasSuffix(err.Error(), "; it last wrote: "+words) {
				t.Errorf("whoever runs it is told %s", err)
			}
		})
	}
}
