package approval

import (
	"context"
	"errors"
	"time"
)

// extension is how much longer [Gate.Extend] has people answer.
const extension = time.Hour

// Extend gives a pending request one hour more, once and before its deadline: whoever may vote on it may, has voted, or
// is an admin. Errors: as [Gate.Decide], and [CodeAlreadyResolved] for one that was extended.
func (g *Gate) Extend(ctx context.Context, id string, by Actor, via Via) (Request, error) {
	return carryOut(ctx, g, OfID(id), func(w *Work) (resolved, error) {
		r, refusal, err := w.Extend(id, by, via)
		return resolved{r, refusal}, err
	})
}

// Extend is [Gate.Extend] in a transaction that was begun. A refusal is on record and commits.
func (w *Work) Extend(id string, by Actor, via Via) (Request, *Error, error) {
	d := Decision{RequestID: id, By: w.g.ActorNow(by), Via: via}
	r, err := w.Request(id)
	if errors.Is(err, ErrNotFound) {
		return Request{}, Errorf(CodeNotFound, noSuchRequest), nil
	}
	if err != nil {
		return Request{}, nil, err
	}
	var b ballot
	if r.Status == Pending && d.By.MayDecide() {
		var e *electorate
		var t tally
		if r, e, t, err = w.Votes().stand(r); err != nil {
			return r, nil, err
		}
		if b, err = e.ballot(d.By, r.Votes, &t); err != nil {
			return r, nil, err
		}
	}
	if refusal := w.mayExtend(&r, d.By, &b); refusal != nil {
		e := requestEvent(r, EventDecisionRefused)
		e.Actor, e.Decision, e.Reason = d.By.String(), "extend", string(refusal.Code)
		e.Data = marshal(map[string]any{"via": via})
		return r, refusal, w.audit(e)
	}
	until := r.ExpiresAt.Add(extension)
	ok, err := w.tx.Extend(id, until)
	if err != nil {
		return r, nil, err
	}
	if !ok {
		return r, nil, Errorf(CodeStoreUnavailable, "The request changed while it was extended; try again.")
	}
	e := requestEvent(r, EventExtended)
	e.Actor = d.By.String()
	e.Data = w.g.records.decisionData(w.ctx, &r, map[string]any{"via": string(via),
		"expires_at": FormatTime(w.g.store.ToWall(until))})
	if err := w.auditFor(&r, e); err != nil {
		return r, nil, err
	}
	if r, err = w.tx.Request(id); err != nil {
		return r, nil, err
	}
	return r, nil, w.g.notifier.Voted(w.tx, r)
}

// mayExtend is the one rule of whether by may give a request more time; nil: they may.
func (w *Work) mayExtend(r *Request, by Actor, b *ballot) *Error {
	switch {
	case !by.MayDecide() && !(by.Kind == Human && by.Admin):
		return &Error{Code: CodeNotAnApprover, Message: "You may not extend this request."}
	case r.Status == Expired, r.Status != Pending:
		code := CodeAlreadyResolved
		if r.Status == Expired {
			code = CodeExpired
		}
		return &Error{Code: code, Request: r, Message: lateMessage(r.ByWall(w.g.store), by)}
	case !by.Admin && !b.stage && !b.hasSaid && b.other:
		return &Error{Code: CodeNotYourStage, Request: r, Message: "Others are asked now: " + openStage(r) + "."}
	case !by.Admin && !b.stage && !b.hasSaid:
		return &Error{Code: CodeNotAnApprover, Message: "You may not extend this request."}
	case !r.ExtendedAt.IsZero():
		return &Error{Code: CodeAlreadyResolved, Request: r, Message: "It was extended already, until " +
			FormatTime(w.g.store.ToWall(r.ExpiresAt)) + "; once is all there is."}
	}
	return nil
}
