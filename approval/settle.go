package approval

import (
	"context"
	"errors"
	"slices"
	"time"

	"countersign/approval/correlation"
)

// settle ends what is over: a pending request whose deadline has come expires, an approval past its use_by lapses, and
// what was made before its agent was frozen is cancelled, each with its audit event. Every operation does it first,
// inside its own transaction, so that what comes after may trust the row as it stands.
func (w *Work) settle(r Request) (Request, error) {
	if did, err := w.end(r); err != nil || !did {
		return r, err
	}
	return w.tx.Request(r.ID)
}

// end ends a request that is over, of which it looks at the narrow part alone: its deadline has come, or its agent was
// frozen since.
func (w *Work) end(r Request) (bool, error) {
	e, err := w.findEndingFreeze(&r)
	switch {
	case err != nil:
		return false, err
	case e != nil:
		return true, w.Freezes().endFrozen(r, e)
	case r.Due(w.tx.Now()):
		return true, w.timedOut(r)
	}
	return false, nil
}

// settleHead is settle for a request's narrow part.
func (w *Work) settleHead(h Head) (Head, error) {
	if did, err := w.end(h.Request); err != nil || !did {
		return h, err
	}
	return w.tx.Head(h.ID)
}

// timedOut ends a request that is due, of which it looks at the narrow part alone.
func (w *Work) timedOut(r Request) error {
	who := Actor{Kind: System, Name: "timeout"}.String()
	e, fields := requestEvent(r, EventApprovalLapsed), map[string]any{"via": string(ViaSystem)}
	end := func() (bool, error) { return w.tx.Lapse(r.ID) }
	if r.Status == Pending {
		e = requestEvent(r, EventDecision)
		e.Decision, fields["timeout_seconds"] = "timeout", int64(r.ExpiresAt.Sub(r.RequestedAt)/time.Second)
		end = func() (bool, error) {
			return w.tx.Resolve(Resolution{ID: r.ID, Status: Expired, At: r.ExpiresAt, By: who, Via: ViaSystem})
		}
	}
	e.Actor = who
	ok, err := end()
	if err == nil && ok {
		err = w.with(correlation.With(w.ctx, "")).auditEnd(e, fields) // time is the cause, not who met it
	}
	if err != nil {
		return err
	}
	return w.g.notifier.Ended(w.tx, r)
}

// settledLive returns the live request of k after what was due has ended, nil when there is none.
func (w *Work) settledLive(k Key) (*Request, error) {
	found, err := w.tx.Live(k)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := w.settle(found)
	if err != nil || !r.Live() {
		return nil, err
	}
	return &r, nil
}

// Request reads a request with what was due ended.
func (w *Work) Request(id string) (Request, error) {
	r, err := w.tx.Request(id)
	if err != nil {
		return Request{}, err
	}
	return w.settle(r)
}

// Head is [Work.Request] for the narrow part.
func (w *Work) Head(id string) (Head, error) {
	h, err := w.tx.Head(id)
	if err != nil {
		return Head{}, err
	}
	return w.settleHead(h)
}

// Expire ends requests that are due, as many as one transaction should.
func (w *Work) Expire() error {
	_, err := w.endSome()
	return err
}

// Settle ends those of the requests that are due.
func (g *Gate) Settle(ctx context.Context, ids []string) error {
	for some := range slices.Chunk(ids, stepRequests) {
		err := g.update(ctx, WholeStore(), func(w *Work) error { // a list is of any agent's
			for _, id := range some {
				if _, err := w.Head(id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Expire ends every request that is due and returns how many that were.
func (g *Gate) Expire(ctx context.Context) (int, error) {
	// What is due is anybody's, the longest due first; a step is short.
	return inSteps(ctx, g, WholeStore(), func(w *Work) (step, error) { return w.endSome() })
}

// endSome ends requests that are due, the longest due first and as many as one transaction should.
func (w *Work) endSome() (step, error) {
	hs, err := w.tx.Due(stepRequests)
	if err != nil {
		return step{}, err
	}
	wide := 0
	for n, h := range hs {
		if wide >= stepBytes {
			return step{n, true}, nil
		}
		wide += h.Wide
		if _, err := w.end(h.Request); err != nil {
			return step{}, err
		}
	}
	return step{len(hs), len(hs) == stepRequests}, nil
}
