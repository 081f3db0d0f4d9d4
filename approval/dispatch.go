package approval

import (
	"context"
	"errors"
	"time"
)

// Report takes what came of a call that the agent's side sent on once its approval was used, or once a grant let it
// through; id is then that of the [GrantUse], see [Answer.RunID]. An agent reports of its own requests, each once:
// the same again changes nothing, and a known outcome takes the place of an unknown one. Errors:
// [CodeInvalidParameter], also for a request that was not dispatched, [CodeNotFound], and [CodeAlreadyResolved] with
// the request where another outcome is on record.
func (g *Gate) Report(ctx context.Context, who Actor, id string, ran RunResult) (Request, error) {
	if ran != RunSucceeded && ran != RunFailed && ran != RunUnknown {
		return Request{}, Errorf(CodeInvalidParameter, "outcome must be succeeded, failed or unknown")
	}
	return carryOut(ctx, g, OfID(id), func(w *Work) (resolved, error) { return w.reportAsked(who, id, ran) })
}

func (w *Work) reportAsked(who Actor, id string, ran RunResult) (resolved, error) {
	r, err := w.tx.Request(id)
	if errors.Is(err, ErrNotFound) {
		return w.Grants().reportUse(who, id, ran)
	}
	switch {
	case err == nil && (who.Kind != Agent || who.Name != r.Agent):
		return resolved{refusal: Errorf(CodeNotFound, noSuchRequest)}, nil
	case err != nil:
		return resolved{}, err
	case r.DispatchedAt.IsZero():
		return resolved{r, &Error{Code: CodeInvalidParameter, Request: &r,
			Message: notDispatched}}, nil
	case r.RunResult == ran:
		return resolved{is: r}, nil
	}
	now, ok, err := w.report(r, ran, who)
	if err == nil && !ok {
		return resolved{r, &Error{Code: CodeAlreadyResolved, Message: "Already reported as " + string(r.RunResult) + ".",
			Request: &r}}, nil
	}
	return resolved{is: now}, err
}

const notDispatched = "Only of a call that was let through with dispatch can the outcome be reported; this one was not."

// report puts an outcome on record, also where the next card of the same call looks for it. false: there
// is one already.
func (w *Work) report(r Request, ran RunResult, who Actor) (Request, bool, error) {
	ok, err := w.tx.Report(r.ID, ran)
	if err != nil || !ok {
		return r, false, err
	}
	w.tx.Ahead(func() {
		_ = w.Grants().runSuspends(&r, ran)
		_, _ = w.tx.Recent(r.Key())
	})
	if err := w.Grants().runSuspends(&r, ran); err != nil {
		return r, false, err
	}
	r.RunResult = ran
	recent, err := w.tx.Recent(r.Key())
	if err != nil {
		return r, false, err
	}
	if recent.Use != nil && recent.Use.RequestID == r.ID {
		use := *recent.Use
		use.RunResult = ran
		recent.Use = &use
		if err := w.tx.PutRecent(r.Key(), recent); err != nil {
			return r, false, err
		}
	}
	e := requestEvent(r, EventCallOutcome)
	e.Actor, e.Reason = who.String(), string(ran)
	return r, true, w.audit(e)
}

// LongestCall is longer than any call may take that is sent on, with the report of what came of it.
const LongestCall = time.Hour + 5*time.Minute

// Orphaned marks every call that a runner has sent on and of which nobody said what came of it as [RunUnknown], and
// returns how many that were. It is for a runner that is gone, see [Call.Runner]; and with "", for whoever it was, for
// the start of a program that has the store for itself, before any call is let through: whoever sent them may have gone
// with the last one.
func (g *Gate) Orphaned(ctx context.Context, runner string) (int, error) {
	return newUpkeep(ctx, g).unknown(runner, 0, Actor{Kind: System, Name: "restart"})
}

// Overdue does the same for what was sent on [LongestCall] ago or before: whoever sent it has gone. A report
// that comes all the same takes its place.
func (g *Gate) Overdue(ctx context.Context) (int, error) {
	return newUpkeep(ctx, g).unknown("", LongestCall, Actor{Kind: System, Name: "timeout"})
}

func (w upkeep) unknown(runner string, age time.Duration, who Actor) (int, error) {
	uses, err := w.unknownUses(runner, age, who)
	if err != nil {
		return uses, err
	}
	requests, err := w.unknownRequests(runner, age, who)
	return uses + requests, err
}

func (w upkeep) unknownRequests(runner string, age time.Duration, who Actor) (int, error) {
	return inSteps(w.ctx, w.Gate, WholeStore(), func(w *Work) (step, error) { // of all agents
		hs, err := w.tx.UnderWay(runner, stepRequests)
		if err != nil {
			return step{}, err
		}
		wide := 0
		for n, h := range hs { // oldest first
			if w.tx.Now().Sub(h.DispatchedAt) < age {
				return step{n: n}, nil
			}
			if wide >= stepBytes {
				return step{n, true}, nil
			}
			wide += h.Wide
			if _, _, err := w.report(h.Request, RunUnknown, who); err != nil {
				return step{}, err
			}
		}
		return step{len(hs), len(hs) == stepRequests}, nil
	})
}

// Tasks returns the agent's live requests whose calls the gate's side runs once they are approved, oldest
// first; every agent's for "". After a restart it says what to take up again.
func (g *Gate) Tasks(ctx context.Context, agent string) ([]Request, error) {
	rs, err := LookSettled(ctx, g, func(w *Work) ([]Request, error) { return w.tx.Tasks(agent) })
	return allByWall(rs, g.store), err
}
