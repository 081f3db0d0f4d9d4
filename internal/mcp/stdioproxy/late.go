package stdioproxy

import (
	"context"
	"sync"
	"time"

	"countersign/approval"
	"countersign/client"
)

const (
	firstRetry = 100 * time.Millisecond // the first pause between two tries of a report
	latePause  = 30 * time.Second       // the longest one, once no caller waits for it any more
	lateWithin = 10 * time.Minute       // how long such a report is tried
	lastTry    = 2 * time.Second        // how long its last try may take when the wrapper ends
)

// lateReports are the reports that the gate could not be told in time. Each is tried on, though its call has been
// answered: what came of it is known here and nowhere else.
type lateReports struct {
	mu      sync.Mutex
	end     context.CancelFunc
	ctx     context.Context // ends with the wrapper
	running sync.WaitGroup
}

// begin is the context of all late reports. The caller holds l.mu.
func (l *lateReports) begin() context.Context {
	if l.ctx == nil {
		l.ctx, l.end = context.WithCancel(context.Background())
	}
	return l.ctx
}

// reportLate tries a report in the background until the gate has taken or refused it, [lateWithin] is over,
// or the wrapper ends.
func (g *RemoteGate) reportLate(id string, ran approval.RunResult, wait time.Duration) {
	g.late.mu.Lock()
	defer g.late.mu.Unlock()
	all := g.late.begin()
	if all.Err() != nil {
		return
	}
	g.late.running.Go(func() {
		ctx, cancel := context.WithTimeout(all, lateWithin)
		defer cancel()
		for ; all.Err() == nil; wait = min(2*wait, latePause) {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
			switch {
			case all.Err() != nil:
				continue
			case ctx.Err() != nil:
				return
			}
			_, err := g.Client.Report(ctx, id, client.RunResult(ran))
			if err == nil || ctx.Err() == nil && !client.Temporary(err) {
				return
			}
			_ = g.renew(ctx, err) // if it cannot be had now, the next try may find it
		}
		last, done := context.WithTimeout(context.Background(), lastTry)
		defer done()
		_, _ = g.Client.Report(last, id, client.RunResult(ran)) // else the gate counts it as unknown
	})
}

// Finish ends what is tried in the background: every report that is still open gets one last short try.
func (g *RemoteGate) Finish() {
	g.late.mu.Lock()
	g.late.begin()
	g.late.end()
	g.late.mu.Unlock()
	g.late.running.Wait()
}
