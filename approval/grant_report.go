package approval

import (
	"errors"
	"time"
)

// reportUse takes what came of a call that a grant let through. The request that it returns is the one that the grant
// was made with, with what is known of this use.
func (w GrantWork) reportUse(who Actor, id string, ran RunResult) (resolved, error) {
	u, err := w.tx.GrantUse(id)
	if errors.Is(err, ErrNotFound) {
		return resolved{refusal: Errorf(CodeNotFound, noSuchRequest)}, nil
	}
	if err != nil {
		return resolved{}, err
	}
	gr, err := w.tx.Grant(u.GrantID)
	if err != nil {
		return resolved{}, err
	}
	if who.Kind != Agent || who.Name != gr.Agent {
		return resolved{refusal: Errorf(CodeNotFound, noSuchRequest)}, nil
	}
	r, err := w.tx.Request(gr.RequestID)
	if err != nil {
		return resolved{}, err
	}
	r.ConsumedAt, r.DispatchedAt, r.RunResult = u.At, u.DispatchedAt, u.RunResult
	switch {
	case u.DispatchedAt.IsZero():
		return resolved{r, &Error{Code: CodeInvalidParameter, Request: &r, Message: notDispatched}}, nil
	case u.RunResult == ran:
		return resolved{is: r}, nil
	case u.RunResult != "" && u.RunResult != RunUnknown:
		return resolved{r, &Error{Code: CodeAlreadyResolved, Message: "Already reported as " + string(u.RunResult) + ".",
			Request: &r}}, nil
	}
	r.RunResult = ran
	return resolved{is: r}, w.useRan(&gr, &u, ran, who)
}

// useRan puts on record what came of a use that nobody has said it of, or of which it was not known. A grant of which
// it is not known is suspended until it is.
func (w GrantWork) useRan(gr *Grant, u *GrantUse, ran RunResult, who Actor) error {
	was := u.RunResult
	u.RunResult = ran
	if err := w.tx.PutGrantUse(*u); err != nil {
		return err
	}
	if err := gr.ran(w.tx, was, ran); err != nil {
		return err
	}
	key := Key{gr.Agent, gr.Scope, gr.Server, gr.Tool, u.ArgsHash, gr.Method}
	recent, err := w.tx.Recent(key)
	if err != nil {
		return err
	}
	if recent.Use != nil && recent.Use.RequestID == u.ID {
		use := *recent.Use
		use.RunResult = ran
		recent.Use = &use
		if err := w.tx.PutRecent(key, recent); err != nil {
			return err
		}
	}
	e := gr.event(EventCallOutcome)
	e.Actor, e.Reason, e.Decision, e.CorrelationID = who.String(), string(ran), "", u.CorrelationID
	e.Data = marshal(map[string]any{"grant_id": gr.ID, "use_id": u.ID})
	return w.audit(e)
}

// ran suspends a grant while of a run of its call it is not known what came of it.
func (gr *Grant) ran(tx Tx, was, now RunResult) error {
	switch {
	case now == RunUnknown:
		if gr.Unknown++; gr.SuspendedAt.IsZero() {
			gr.SuspendedAt = tx.Now()
		}
	case was == RunUnknown:
		if gr.Unknown = max(0, gr.Unknown-1); gr.Unknown == 0 {
			gr.SuspendedAt = time.Time{}
		}
	default:
		return nil
	}
	return tx.PutGrant(*gr)
}

// runSuspends has the grant that was made with a request learn what came of the approved call itself.
func (w GrantWork) runSuspends(r *Request, ran RunResult) error {
	grants, err := w.tx.Grants(GrantQuery{RequestID: r.ID, Limit: 1})
	if err != nil || len(grants) == 0 || grants[0].Deny {
		return err
	}
	return grants[0].ran(w.tx, r.RunResult, ran)
}

// unknownUses is unknown for what grants let through.
func (w upkeep) unknownUses(runner string, age time.Duration, who Actor) (int, error) {
	return inSteps(w.ctx, w.Gate, WholeStore(), func(w *Work) (step, error) { // of all agents
		uses, err := w.tx.RunningGrantUses(runner, stepGrants)
		if err != nil {
			return step{}, err
		}
		for n, u := range uses { // oldest first
			if w.tx.Now().Sub(u.DispatchedAt) < age {
				return step{n: n}, nil
			}
			gr, err := w.tx.Grant(u.GrantID)
			if err != nil {
				return step{}, err
			}
			if err := w.Grants().useRan(&gr, &u, RunUnknown, who); err != nil {
				return step{}, err
			}
		}
		return step{len(uses), len(uses) == stepGrants}, nil
	})
}
