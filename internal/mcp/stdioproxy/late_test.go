package stdioproxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"countersign/approval"
	"countersign/client"
	"countersign/internal/testkit"
)

// briefly is a caller that waits no longer for a report than d.
func briefly(t *testing.T, g *RemoteGate, id string, ran approval.RunResult, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	if _, err := g.Report(ctx, approval.Actor{}, id, ran); approval.CodeOf(err) != approval.CodeStoreUnavailable {
		t.Fatalf("got %v, want an error that says it is not on record yet", err)
	}
}

func TestAnOutcomeIsReportedWhenTheGateIsBackAfterTheCallWasAnswered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		away func(http.ResponseWriter, *http.Request) bool
	}{{"gone", gone}, {"no store", faults["no store"].with}} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, quarantines)
			g := w.remote()
			id := w.letThrough(g, `{"n":1}`)
			w.interfere(tt.away)
			briefly(t, g, id, approval.RunSucceeded, 50*time.Millisecond)
			if n, err := w.gate.Orphaned(t.Context(), ""); n != 1 || err != nil { // as at the gate's start-up
				t.Fatalf("got %d, %v", n, err)
			}
			w.interfere(nil)
			testkit.Eventually(t, "the report", func() bool { return w.request(id).RunResult == approval.RunSucceeded })
		})
	}
}

func TestTheEndOfTheWrapperIsTheLastTryOfAReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quarantines)
	g := w.remote()
	id := w.letThrough(g, `{"n":1}`)
	w.interfere(gone)
	briefly(t, g, id, approval.RunFailed, 2*time.Second) // the next try is a second away
	w.interfere(nil)
	g.Finish()
	if got := w.request(id).RunResult; got != approval.RunFailed {
		t.Errorf("got %q, want %q", got, approval.RunFailed)
	}
	// After it none is kept open.
	w.interfere(gone)
	briefly(t, g, id, approval.RunFailed, 50*time.Millisecond)
	w.asked.Store(0)
	g.Finish()
	if n := w.asked.Load(); n != 0 {
		t.Errorf("%d requests after the end", n)
	}
}

type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestALateReportIsTriedEverMoreSeldomAndNotForEver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		status   int
		from, to int64 // tries
	}{
		{"no store", 503, 20, 40},
		{"refused", 409, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int64
				var status atomic.Int64
				status.Store(503)
				c, err := client.New("http://gate.example", agentToken,
					client.WithTransport(answers(func(*http.Request) (*http.Response, error) {
						tries.Add(1)
						return &http.Response{StatusCode: int(status.Load()), Header: http.Header{},
							Body: io.NopCloser(strings.NewReader(`{}`))}, nil
					})))
				if err != nil {
					t.Fatal(err)
				}
				g := &RemoteGate{Client: c}
				begin := time.Now()
				briefly(t, g, "01K00000000000000000000000", approval.RunSucceeded, 10*time.Second)
				if held := time.Since(begin); held != 10*time.Second {
					t.Errorf("the caller was held for %s", held)
				}
				status.Store(int64(tt.status))
				time.Sleep(2 * time.Second) // the first late one is past
				tries.Store(0)
				time.Sleep(lateWithin + time.Minute)
				if n := tries.Load(); n < tt.from || n > tt.to {
					t.Errorf("%d tries, want %d to %d", n, tt.from, tt.to)
				}
				tries.Store(0)
				time.Sleep(time.Hour)
				g.Finish()
				if n := tries.Load(); n != 0 {
					t.Errorf("%d tries after %s", n, lateWithin)
				}
			})
		})
	}
}

func TestAHungGateHoldsTheEndOfTheWrapperOnlyBriefly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, err := client.New("http://gate.example", agentToken,
			client.WithTransport(answers(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			})))
		if err != nil {
			t.Fatal(err)
		}
		g := &RemoteGate{Client: c}
		for range 3 {
			briefly(t, g, "01K00000000000000000000000", approval.RunSucceeded, 10*time.Second)
		}
		begin := time.Now()
		g.Finish()
		if took := time.Since(begin); took > lastTry {
			t.Errorf("it took %s", took)
		}
	})
}
