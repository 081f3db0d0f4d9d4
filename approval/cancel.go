package approval

import (
	"context"
	"errors"
	"strings"
)

// Cancellation takes a request back.
type Cancellation struct {
	RequestID string
	By        Actor
	Via       Via
	Reason    string
}

// Cancel ends a pending request or takes back an approval that was not used yet. An agent may cancel
// its own, an admin any, a person what they approved. Errors: [CodeNotFound], [CodeNotAdmin],
// [CodeAlreadyResolved], [CodeExpired].
func (g *Gate) Cancel(ctx context.Context, c Cancellation) (Request, error) {
	return carryOut(ctx, g, OfID(c.RequestID), func(w *Work) (resolved, error) { return w.cancelAsked(c) })
}

func (w *Work) cancelAsked(c Cancellation) (resolved, error) {
	by := w.g.ActorNow(c.By)
	r, err := w.Request(c.RequestID)
	code := CodeNotFound
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return resolved{}, err
	default:
		code = mayCancel(&r, by)
	}
	refusal := &Error{Code: code, Request: &r}
	switch code {
	case "":
		r, err = w.cancel(r, by, c.Via, strings.TrimSpace(c.Reason))
		return resolved{is: r}, err
	case CodeNotFound:
		return resolved{refusal: Errorf(code, noSuchRequest)}, nil
	case CodeNotAdmin:
		refusal = &Error{Code: code, Message: "Only an admin, or the person who approved it, can cancel this request."}
	default:
		refusal.Message = lateMessage(r.ByWall(w.g.store), by)
		// Whoever would have taken it back is told that it is used, and so it stays, whatever becomes of its call.
		use := Use{RequestID: r.ID, DispatchedAt: r.DispatchedAt, RunResult: r.RunResult}
		if err := leaveUsed(w.tx, &use); err != nil {
			return resolved{}, err
		}
	}
	e := requestEvent(r, EventDecisionRefused)
	e.Actor, e.Decision, e.Reason = by.String(), "cancel", string(refusal.Code)
	return resolved{r, refusal}, w.audit(e)
}

func (w *Work) cancel(r Request, by Actor, via Via, reason string) (Request, error) {
	if err := w.takeBack(r, by, via, reason); err != nil {
		return r, err
	}
	return w.tx.Request(r.ID)
}

// takeBack is cancel for a live request of which it looks at the narrow part alone.
func (w *Work) takeBack(r Request, by Actor, via Via, reason string) error {
	ok, err := w.tx.Resolve(Resolution{ID: r.ID, Status: Cancelled, At: w.tx.Now(), By: by.String(), Via: via,
		Reason: reason})
	if err != nil {
		return err
	}
	if !ok {
		return Errorf(CodeStoreUnavailable, "The request changed while it was cancelled; try again.")
	}
	e := requestEvent(r, EventApprovalCancelled)
	e.Actor, e.Reason = by.String(), reason
	if err := w.auditEnd(e, map[string]any{"via": string(via), "was": r.Status}); err != nil {
		return err
	}
	return w.g.notifier.Ended(w.tx, r)
}
