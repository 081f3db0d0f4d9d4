package approval

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"countersign/approval/legible"
)

// MaxDelegation is how long a delegation may last.
const MaxDelegation = 30 * 24 * time.Hour

// maxDelegations is how many one person may have given at a time.
const maxDelegations = 20

// ByWall returns d with its times as the machine's clock has them.
func (d Delegation) ByWall(c Clock) Delegation {
	for _, t := range []*time.Time{&d.From, &d.Until, &d.CreatedAt, &d.EndedAt} {
		*t = c.ToWall(*t)
	}
	return d
}

// Delegate lets d.Delegate vote for d.Delegator from d.From (zero: now) until d.Until. by is the delegator, or an
// admin. Errors: [CodeNotAnApprover], [CodeInvalidParameter].
func (g *Gate) Delegate(ctx context.Context, d Delegation, by Actor, via Via) (Delegation, error) {
	return carryOut(ctx, g, OfPerson(d.Delegator), func(w *Work) (answered[Delegation], error) {
		made, refusal, err := w.Delegations().Delegate(d, by, via)
		return answered[Delegation]{made, refusal}, err
	})
}

// Delegate is [Gate.Delegate] in a transaction that was begun. A refusal is on record and commits.
func (w DelegationWork) Delegate(d Delegation, by Actor, via Via) (Delegation, *Error, error) {
	by = w.g.ActorNow(by)
	now := w.tx.Now()
	d.From, d.Until = w.g.store.FromWall(d.From).Truncate(time.Millisecond), w.g.store.FromWall(d.Until).
		Truncate(time.Millisecond)
	if d.From.IsZero() || d.From.Before(now) {
		d.From = now
	}
	d.ID, d.CreatedAt, d.CreatedBy = w.tx.NewID(), now, by.Name
	d.EndedAt, d.EndedBy = time.Time{}, ""
	d.RuleDigest = w.g.Policy().RuleDigests()[d.Rule]
	refusal, err := w.mayDelegate(&d, by)
	if err != nil {
		return Delegation{}, nil, err
	}
	if refusal != nil {
		return Delegation{}, refusal, w.auditDelegation(EventDecisionRefused, by, &d,
			map[string]any{"via": via, "refused": refusal.Code})
	}
	if err := w.tx.PutDelegation(d); err != nil {
		return Delegation{}, nil, err
	}
	return d, nil, w.auditDelegation(EventDelegated, by, &d, map[string]any{"via": via})
}

// mayDelegate is the one rule of whether a delegation may be made; nil: it may.
func (w DelegationWork) mayDelegate(d *Delegation, by Actor) (*Error, error) {
	person := func(name string) Actor {
		if w.g.dir == nil {
			return Actor{Kind: Human, Name: name, Approver: true}
		}
		return w.g.PersonNow(name)
	}
	switch {
	case by.Kind != Human || by.Name != d.Delegator && !by.Admin:
		return Errorf(CodeNotAdmin, "Only an admin may delegate for somebody else."), nil
	case !person(d.Delegator).MayDecide():
		return Errorf(CodeNotAnApprover, "Only an approver has votes to delegate."), nil
	case !person(d.Delegate).MayDecide():
		return Errorf(CodeInvalidParameter, "Whoever stands in must be a person with the role approver."), nil
	case d.Delegate == d.Delegator:
		return Errorf(CodeInvalidParameter, "Nobody can stand in for themselves."), nil
	case d.Until.IsZero():
		return Errorf(CodeInvalidParameter, "until is missing: a delegation has an end."), nil
	case !d.From.Before(d.Until):
		return Errorf(CodeInvalidParameter, "The delegation would end before it begins."), nil
	case d.Until.Sub(d.From) > MaxDelegation:
		return Errorf(CodeInvalidParameter, "A delegation lasts at most 30 days."), nil
	case len(d.Rule) > maxNamed:
		return Errorf(CodeInvalidParameter, "No rule has so long a name."), nil
	case d.Rule != "" && d.RuleDigest == "":
		return Errorf(CodeInvalidParameter, "No rule is called %s; countersign explain shows what the rules are called.",
			legible.Line(d.Rule)), nil
	}
	all, err := w.tx.Delegations()
	if err != nil {
		return nil, err
	}
	given := slices.DeleteFunc(all, func(o Delegation) bool { return o.Delegator != d.Delegator })
	if len(given) >= maxDelegations {
		return Errorf(CodeInvalidParameter, "There are %d delegations of this person already; end some first.",
			maxDelegations), nil
	}
	return nil, nil
}

// EndDelegation ends a delegation before its time: either of the two may, and any admin. id is whole, or the last four
// or more characters of one. Errors: [CodeNotFound], [CodeAmbiguousID], [CodeAlreadyResolved] for one that is over.
func (g *Gate) EndDelegation(ctx context.Context, id string, by Actor, via Via) (Delegation, error) {
	// Of whose delegation the end of an id is, the delegations of all say.
	return carryOut(ctx, g, WholeStore(), func(w *Work) (answered[Delegation], error) {
		d, refusal, err := w.Delegations().End(id, by, via)
		return answered[Delegation]{d, refusal}, err
	})
}

// End is [Gate.EndDelegation] in a transaction that was begun. A refusal is on record and commits.
func (w DelegationWork) End(id string, by Actor, via Via) (Delegation, *Error, error) {
	by = w.g.ActorNow(by)
	d, refusal, err := w.endable(strings.ToUpper(strings.TrimSpace(id)), by)
	if err != nil {
		return Delegation{}, nil, err
	}
	if refusal != nil {
		return Delegation{}, refusal, w.auditDelegation(EventDecisionRefused, by, &d,
			map[string]any{"via": via, "refused": refusal.Code})
	}
	d.EndedAt, d.EndedBy = w.tx.Now(), by.Name
	if err := w.tx.PutDelegation(d); err != nil {
		return Delegation{}, nil, err
	}
	return d, nil, w.auditDelegation(EventDelegationEnded, by, &d, map[string]any{"via": via})
}

// endable finds a delegation that somebody may end.
func (w DelegationWork) endable(id string, by Actor) (Delegation, *Error, error) {
	const noSuch = "No such delegation."
	theirs := func(d Delegation) bool {
		return by.Kind == Human && (by.Admin || by.Name == d.Delegator || by.Name == d.Delegate)
	}
	if whole, ok := ParseID(id); ok {
		d, err := w.tx.Delegation(whole)
		switch {
		case errors.Is(err, ErrNotFound) || err == nil && !theirs(d):
			return Delegation{}, Errorf(CodeNotFound, noSuch), nil
		case err != nil:
			return Delegation{}, nil, err
		case !d.EndedAt.IsZero() || !w.tx.Now().Before(d.Until):
			return d, Errorf(CodeAlreadyResolved, "That delegation has already ended."), nil
		}
		return d, nil, nil
	}
	all, err := w.tx.Delegations()
	if err != nil {
		return Delegation{}, nil, err
	}
	all = slices.DeleteFunc(all, func(d Delegation) bool {
		return !theirs(d) || len(id) < MinTyped || !strings.HasSuffix(d.ID, id)
	})
	switch len(all) {
	case 0:
		return Delegation{}, Errorf(CodeNotFound, noSuch), nil
	case 1:
		return all[0], nil, nil
	}
	return Delegation{}, Errorf(CodeAmbiguousID, "Several delegations end in %s; give more of the id.", id), nil
}

func (w DelegationWork) auditDelegation(t EventType, by Actor, d *Delegation,
	data map[string]any) error {
	data["delegation_id"] = d.ID
	data["delegator"], data["delegate"] = w.g.records.cutName(d.Delegator), w.g.records.cutName(d.Delegate)
	data["from"], data["until"] = FormatTime(w.g.store.ToWall(d.From)), FormatTime(w.g.store.ToWall(d.Until))
	if d.Rule != "" {
		data["rule"], data["rule_digest"] = w.g.records.cutName(d.Rule), d.RuleDigest
	}
	e := Event{Type: t, Actor: by.String(), Data: marshal(data)}
	if t == EventDecisionRefused {
		e.Decision, e.Reason = "delegate", string(data["refused"].(Code))
	}
	return w.audit(e)
}

// isFor reports whether a delegation is for requests of a rule.
func (d *Delegation) isFor(ruleDigest string) bool {
	return d.Rule == "" || d.RuleDigest != "" && d.RuleDigest == ruleDigest
}

// RuleNow returns what the rule of a delegation is called now; false: it was changed or removed, so that the delegation
// covers nothing. One for all rules has none.
func (d Delegation) RuleNow(p Policy) (name string, holds bool) {
	if d.Rule == "" {
		return "", true
	}
	rules := p.RuleDigests()
	if d.RuleDigest != "" && rules[d.Rule] == d.RuleDigest {
		return d.Rule, true
	}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		if d.isFor(rules[name]) {
			return name, true
		}
	}
	return d.Rule, false
}
