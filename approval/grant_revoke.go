package approval

import (
	"context"
	"errors"
	"slices"
)

// What people do with grants and standing denials that are there: read them, end them.

const noSuchGrant = "No such grant."

// IsOver reports whether a grant has ended, or is to be ended before anything else is done with it.
func (w GrantWork) IsOver(gr *Grant) (bool, error) {
	if !gr.EndedAt.IsZero() || !w.tx.Now().Before(gr.ExpiresAt) {
		return true, nil
	}
	e, err := w.findFreezeOfGrant(gr)
	return e != nil, err
}

// settledGrant reads a grant with what is over ended.
func (w GrantWork) settledGrant(id string) (Grant, error) {
	gr, err := w.tx.Grant(id)
	if err != nil {
		return gr, err
	}
	_, err = w.endOver(&gr)
	return gr, err
}

// Grant returns one of them, or [CodeNotFound].
func (g *Gate) Grant(ctx context.Context, id string) (Grant, error) {
	gr, err := Look(ctx, g, func(w *Work) (Grant, error) { return w.tx.Grant(id) })
	if err == nil && gr.EndedAt.IsZero() {
		gr, err = update(ctx, g, OfAgent(gr.Agent), func(w *Work) (Grant, error) { return w.Grants().settledGrant(id) })
	}
	if errors.Is(err, ErrNotFound) {
		return Grant{}, Errorf(CodeNotFound, noSuchGrant)
	}
	return gr.ByWall(g.store), err
}

// SettleGrants ends those of some grants that are over, many in one transaction.
func SettleGrants(ctx context.Context, g *Gate, grants []Grant) error {
	for some := range slices.Chunk(grants, stepGrants) {
		err := g.update(ctx, WholeStore(), func(w *Work) error { // they may be several agents'
			for _, gr := range some {
				if _, err := w.Grants().settledGrant(gr.ID); err != nil {
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

// GrantUse returns one call that a grant let through, to the agent that made it, or [CodeNotFound].
func (g *Gate) GrantUse(ctx context.Context, who Actor, id string) (GrantUse, error) {
	u, err := Look(ctx, g, func(w *Work) (GrantUse, error) {
		u, err := w.tx.GrantUse(id)
		if err != nil {
			return u, err
		}
		gr, err := w.tx.Grant(u.GrantID)
		if err == nil && who.Kind != Human && (who.Kind != Agent || who.Name != gr.Agent) {
			err = ErrNotFound
		}
		return u, err
	})
	if errors.Is(err, ErrNotFound) {
		return GrantUse{}, Errorf(CodeNotFound, "No such use of a grant.")
	}
	u.At, u.DispatchedAt = g.store.ToWall(u.At), g.store.ToWall(u.DispatchedAt)
	return u, err
}

// Revoke ends a grant or a standing denial: its maker may, for whom it was made, and an admin. Errors:
// [CodeNotFound], [CodeNotAdmin], [CodeAlreadyResolved].
func (g *Gate) Revoke(ctx context.Context, by Actor, via Via, id string) (Grant, error) {
	return carryOut(ctx, g, OfID(id), func(w *Work) (answered[Grant], error) {
		gr, refusal, err := w.Grants().revoke(by, via, id)
		return answered[Grant]{gr, refusal}, err
	})
}

// Revoke is [Gate.Revoke] in a transaction that was begun; a refusal is on record where that commits.
func (w GrantWork) Revoke(by Actor, via Via, id string) (Grant, error) {
	gr, refusal, err := w.revoke(by, via, id)
	return tell(w.g, answered[Grant]{gr, refusal}, err)
}

func (w GrantWork) revoke(by Actor, via Via, id string) (Grant, *Error, error) {
	by = w.g.ActorNow(by)
	gr, err := w.settledGrant(id)
	var refusal *Error
	switch {
	case errors.Is(err, ErrNotFound):
		refusal = Errorf(CodeNotFound, noSuchGrant)
	case err != nil:
		return Grant{}, nil, err
	default:
		refusal = gr.MayEnd(by)
	}
	if refusal != nil {
		return Grant{}, refusal, w.auditUnlifted("revoke", by, via, gr.event(EventDecisionRefused), refusal)
	}
	return gr, nil, w.endGrant(&gr, by, w.tx.Now(), grantRevoked)
}

// MayEnd is the one rule of whether somebody may end a grant, or a standing denial, that was settled; nil: they may.
func (gr *Grant) MayEnd(by Actor) *Error {
	theirs := by.Kind == Human && (by.Admin || by.Name == gr.By || by.Name == gr.For)
	switch {
	case !theirs:
		return Errorf(CodeNotAdmin, "Only an admin, or the person who made it, can end this.")
	case !gr.EndedAt.IsZero():
		return Errorf(CodeAlreadyResolved, "It has already ended.")
	}
	return nil
}

// auditUnlifted puts on record that somebody may not end what answers in a person's place.
func (w GrantWork) auditUnlifted(what string, by Actor, via Via, e Event, why *Error) error {
	e.Type, e.Actor, e.Decision, e.Reason = EventDecisionRefused, by.String(), what, string(why.Code)
	e.Data = marshal(map[string]any{"via": via})
	return w.audit(e)
}

// Lift forgets a denial that answers the same call again: a standing one by its id, or by that of its request, of
// which it forgets the remembered one too. Whoever denied may, and an admin. Errors: [CodeNotFound], [CodeNotAdmin],
// [CodeAlreadyResolved].
func (g *Gate) Lift(ctx context.Context, by Actor, via Via, id string) error {
	s, err := update(ctx, g, OfID(id), func(w *Work) (answered[Grant], error) {
		refusal, err := w.Grants().lift(by, via, id)
		return answered[Grant]{refusal: refusal}, err
	})
	if err == nil && s.refusal != nil {
		return s.refusal
	}
	return err
}

// Lift is [Gate.Lift] in a transaction that was begun; a refusal is on record where that commits.
func (w GrantWork) Lift(by Actor, via Via, id string) error {
	refusal, err := w.lift(by, via, id)
	if err == nil && refusal != nil {
		return refusal
	}
	return err
}

// lifting is a denial that somebody wants forgotten: the request, and what stands for it.
type lifting struct {
	request  Request
	standing []Grant // live ones
	recent   Recent
	isRecent bool // the request's denial is remembered still
}

func (w GrantWork) lift(by Actor, via Via, id string) (*Error, error) {
	by = w.g.ActorNow(by)
	l, err := w.liftable(id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	var refusal *Error
	r := &l.request
	switch {
	case err != nil:
		refusal = Errorf(CodeNotFound, "No such denial.")
	case !r.MayLift(by):
		refusal = Errorf(CodeNotAdmin, "Only an admin, or the person who denied it, can lift a denial.")
	case len(l.standing) == 0 && !l.isRecent:
		refusal = Errorf(CodeAlreadyResolved, "That denial has already ended.")
	}
	if refusal != nil {
		return refusal, w.auditUnlifted("lift", by, via, requestEvent(*r, EventDecisionRefused), refusal)
	}
	for i := range l.standing {
		if err := w.endGrant(&l.standing[i], by, w.tx.Now(), grantLifted); err != nil {
			return nil, err
		}
	}
	if l.isRecent {
		if err := w.tx.PutRecent(r.Key(), Recent{Use: l.recent.Use}); err != nil {
			return nil, err
		}
	}
	e := requestEvent(*r, EventDenialLifted)
	e.Actor, e.Data = by.String(), w.g.records.decisionData(w.ctx, r, map[string]any{"via": string(via)})
	return nil, w.auditFor(r, e)
}

// deniedFor reports whether the request was denied by somebody who stood in for a person.
func (r *Request) deniedFor(name string) bool {
	for _, v := range r.Votes {
		if !v.Approve && v.For == name {
			return true
		}
	}
	return false
}

// liftable finds the denial that an id means: of a standing one, or of the request. [ErrNotFound]: there is none.
func (w GrantWork) liftable(id string) (l lifting, err error) {
	standing, err := w.tx.Grant(id)
	switch {
	case err == nil && !standing.Deny:
		return l, ErrNotFound
	case err == nil:
		id = standing.RequestID
	case !errors.Is(err, ErrNotFound):
		return l, err
	}
	r, err := w.tx.Request(id)
	if err != nil {
		return l, err
	}
	if r.Status != Denied {
		return l, ErrNotFound
	}
	l.request = r
	live, err := w.tx.GrantsFor(r.Agent, r.Scope, r.Server, r.Tool)
	if err != nil {
		return l, err
	}
	for _, gr := range live {
		if !gr.Deny || gr.RequestID != r.ID {
			continue
		}
		if over, err := w.endOver(&gr); err != nil {
			return l, err
		} else if !over {
			l.standing = append(l.standing, gr)
		}
	}
	l.recent, err = w.tx.Recent(r.Key())
	l.isRecent = l.recent.DeniedID == r.ID && r.EndCode != EndEdited &&
		w.tx.Now().Sub(l.recent.DeniedAt) < w.g.Policy().Terms().RememberDenial
	return l, err
}

// MayLift reports whether somebody may lift the denial of a request: whoever denied it, for whom it was denied, and an
// admin.
func (r *Request) MayLift(by Actor) bool {
	return by.Kind == Human && (by.Admin || by.Name == r.ResolvedBy || r.deniedFor(by.Name))
}
