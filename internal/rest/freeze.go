package rest

import (
	"context"
	"net/http"
	"strings"
	"time"

	"countersign/approval"
	"countersign/internal/api"
	"countersign/internal/lists"
)

func (s *Server) freeze(ctx context.Context, x *exchange) error {
	var body freezeBody
	if err := x.read(&body); err != nil {
		return err
	}
	agent := body.Agent
	if x.over != nil { // a freeze is never refused; that of what is frozen, or by whom may not, does nothing
		if s.gate.MayFreeze(agent, x.who.Actor) != nil || len(body.Reason) > approval.MaxReason {
			return x.over()
		}
		frozen, err := lists.ListFrozen(ctx, s.gate)
		if err != nil {
			return err
		}
		for _, e := range frozen {
			if e.Agent == agent {
				return x.over()
			}
		}
	}
	e, err := s.gate.Freeze(ctx, agent, x.who.Actor, x.via(), body.Reason)
	if err != nil {
		return err
	}
	if s.freezes != nil {
		s.untold(ctx, s.freezes.Froze(ctx, e))
	}
	return x.answer(http.StatusOK, wireFreeze(e))
}

func (s *Server) unfreeze(ctx context.Context, x *exchange) error {
	f := fields{query: x.query}
	agent := f.matching("agent", "an agent's name", func(v string) bool { return v == "" || approval.ValidName(v) })
	if f.err != nil {
		return f.err
	}
	e, err := s.gate.Unfreeze(ctx, agent, x.who.Actor, x.via())
	if err != nil {
		return err
	}
	if s.freezes != nil {
		s.untold(ctx, s.freezes.Lifted(ctx, e, x.who.Actor))
	}
	return x.answer(http.StatusOK, wireFreeze(e))
}

func (s *Server) acceptClock(ctx context.Context, x *exchange) error {
	off, err := s.gate.AcceptClock(ctx, x.who.Actor, x.via())
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, clockAccepted{OffMS: off.Milliseconds()})
}

// untold says that admins could not be told of what holds all the same.
func (s *Server) untold(ctx context.Context, err error) {
	if err != nil {
		s.log.ErrorContext(ctx, "admins could not be told of a freeze, of its end, or of a grant", "error", err)
	}
}

func (s *Server) listFrozen(ctx context.Context, x *exchange) error {
	es, err := lists.ListFrozen(ctx, s.gate)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, freezeList{Frozen: api.Each(es, wireFreeze)})
}

// bodyTime reads a time of a body; "" is the zero time.
func bodyTime(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, approval.Errorf(approval.CodeInvalidParameter,
			"%s must be a time such as 2006-01-02T15:04:05Z.", name)
	}
	return t, nil
}

func (s *Server) delegate(ctx context.Context, x *exchange) error {
	var body delegationBody
	if err := x.read(&body); err != nil {
		return err
	}
	d := approval.Delegation{Delegator: body.For, Delegate: body.To, Rule: body.Rule}
	if d.Delegator == "" {
		d.Delegator = x.who.Name
	}
	var err error
	if d.From, err = bodyTime("from", body.From); err != nil {
		return err
	}
	if d.Until, err = bodyTime("until", body.Until); err != nil {
		return err
	}
	switch {
	case d.Delegate == "":
		return approval.Errorf(approval.CodeInvalidParameter, "to is missing.")
	case d.Until.IsZero():
		return approval.Errorf(approval.CodeInvalidParameter, "until is missing.")
	}
	if d, err = s.gate.Delegate(ctx, d, x.who.Actor, x.via()); err != nil {
		return err
	}
	return x.answer(http.StatusOK, s.wireDelegation(d))
}

func (s *Server) delegations(ctx context.Context, x *exchange) error {
	ds, err := lists.ListDelegations(ctx, s.gate)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, delegationList{Delegations: api.Each(ds, s.wireDelegation)})
}

func (s *Server) endDelegation(ctx context.Context, x *exchange) error {
	d, err := s.gate.EndDelegation(ctx, strings.ToUpper(x.r.PathValue("id")), x.who.Actor, x.via())
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, s.wireDelegation(d))
}
