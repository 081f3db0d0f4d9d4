package approval

import (
	"context"
	"time"
)

// MaxReturns is how often an approval is given back.
const MaxReturns = 3

// consumption is one use of an approval by a call that the gate's own side sends on. An approval that is given back has
// another one next time.
type consumption struct {
	approval string // the request's id; "": none
	at       int64  // dispatched_at in milliseconds, in the store's time
	returned int    // how often it had been given back before
}

func (r *Request) consumption() consumption {
	if r.DispatchedAt.IsZero() {
		return consumption{}
	}
	return consumption{r.ID, r.DispatchedAt.UnixMilli(), r.Returned}
}

// GiveBack takes the use of an approval back, until its use_by: the call that a let through provably did not run, for
// why. It is for who sent the call itself, with the very answer that let it through; no agent's word does it. false:
// the approval stays used, since a was no use of an approval by this gate, what came of the call is on record, time is
// up, the agent was frozen, it was given back [MaxReturns] times, or the same call was asked for or decided since.
func (g *Gate) GiveBack(ctx context.Context, a Answer, why string) (Request, bool, error) {
	if a.used == (consumption{}) {
		return Request{}, false, nil
	}
	type given struct {
		r  Request
		ok bool
	}
	got, err := update(ctx, g, OfID(a.used.approval), func(w *Work) (got given, err error) {
		if got.r, err = w.tx.Request(a.used.approval); err != nil {
			return got, err
		}
		if got.ok, err = w.giveBack(&got.r, a.used, why); err == nil && got.ok {
			got.r, err = w.tx.Request(got.r.ID)
		}
		return got, err
	})
	return got.r.ByWall(g.store), got.ok, err
}

func (w *Work) giveBack(r *Request, used consumption, why string) (bool, error) {
	if r.consumption() != used || r.RunResult != "" || r.Returned >= MaxReturns || len(r.Inputs) > 0 {
		return false, nil
	}
	recent, err := w.tx.Recent(r.Key())
	if err != nil || recent.DeniedID != "" || recent.Use == nil || recent.Use.RequestID != r.ID {
		return false, err
	}
	live := *r
	live.ConsumedAt = time.Time{}
	if over, err := w.Over(&live); err != nil || over {
		return false, err
	}
	if ok, err := w.tx.Return(*r); err != nil || !ok {
		return false, err
	}
	if err := w.tx.PutRecent(r.Key(), Recent{Use: r.Previous}); err != nil { // as before it was used
		return false, err
	}
	e := requestEvent(*r, EventApprovalReturned)
	e.Actor, e.Reason = Actor{Kind: System, Name: "gateway"}.String(), why
	e.Data = marshal(map[string]any{"dispatched_at": FormatTime(w.g.store.ToWall(r.DispatchedAt)),
		"returned": r.Returned + 1})
	return true, w.auditFor(r, e)
}

// leaveUsed has an approval whose call is under way never be given back: what comes of the call is unknown until it is
// reported. u is nil where there was none.
func leaveUsed(tx Tx, u *Use) error {
	if u == nil || u.DispatchedAt.IsZero() || u.RunResult != "" {
		return nil
	}
	_, err := tx.Report(u.RequestID, RunUnknown)
	return err
}
