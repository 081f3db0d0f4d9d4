package chat

import (
	"context"
	"slices"

	"countersign/approval"
	"countersign/internal/locale/phrases"
)

// freeze takes a freeze. A press is asked once more, since it stands beside buttons that do much less; typed words say
// what they want.
func (s *Service) freeze(ctx context.Context, tx approval.Tx, t Interaction) (InteractionResult, error) {
	if t.By.Kind != approval.Human {
		_, out, err := s.refuse(ctx, tx, t)
		return out, err
	}
	if t.Text == "" {
		return s.askFreeze(tx, t)
	}
	agent, ok := s.agentNamed(t.Name)
	if !ok {
		if t.By.MayDecide() { // it may be the answer to a question
			t := t
			t.Intent, t.Reason = IntentOther, ""
			if out, done, err := s.giveReason(ctx, tx, t); err != nil || done {
				return out, err
			}
		}
		return s.answer(tx, t, s.say(t.By, phrases.SayFreezeWhich, "agents", s.readers.Agents()))
	}
	return s.freezeNow(ctx, tx, t, agent, t.Reason)
}

// agentNamed returns the agent that somebody typed, "" for all of them.
func (s *Service) agentNamed(name string) (agent string, ok bool) {
	for _, l := range lexicons {
		if slices.Contains(l.everyone, plain(name)) {
			return "", true
		}
	}
	return name, slices.Contains(s.readers.Agents(), name)
}

// askFreeze asks once more before the agent of a request is frozen.
func (s *Service) askFreeze(tx approval.Tx, t Interaction) (InteractionResult, error) {
	if !t.By.Approver && !t.By.Admin {
		return s.refused(tx, t, approval.CodeNotAnApprover, s.say(t.By, phrases.SayMayNotFreeze))
	}
	r, err := tx.Head(t.RequestID)
	if err != nil {
		if approval.CodeOf(err) == approval.CodeNotFound {
			return s.refused(tx, t, approval.CodeNotFound, s.say(t.By, phrases.SayNoRequest))
		}
		return InteractionResult{}, err
	}
	text := s.say(t.By, phrases.SayFreezeAsk, "agent", r.Agent)
	return InteractionResult{Text: text}, s.reply(tx, t, approval.Notification{ApprovalID: r.ID, Text: text,
		Note: approval.NoteFreeze}, nil)
}

func (s *Service) freezeNow(ctx context.Context, tx approval.Tx, t Interaction, agent,
	reason string) (InteractionResult, error) {
	e, refusal, err := s.gate.In(ctx, tx).Freezes().Freeze(agent, t.By, approval.Via(t.Channel), reason)
	switch {
	case err != nil:
		return InteractionResult{}, err
	case refusal != nil && (refusal.Code == approval.CodeNotAnApprover || refusal.Code == approval.CodeNotAdmin):
		return s.refused(tx, t, refusal.Code, s.say(t.By, phrases.SayMayNotFreeze))
	case refusal != nil && refusal.Code == approval.CodeInvalidParameter:
		return s.refused(tx, t, refusal.Code, s.say(t.By, phrases.SayReasonTooLong))
	case refusal != nil:
		return s.refused(tx, t, refusal.Code, refusal.Message)
	}
	if err := s.tellFrozen(tx, e); err != nil {
		return InteractionResult{}, err
	}
	if agent == "" {
		return s.answer(tx, t, s.say(t.By, phrases.SayFrozenAll))
	}
	return s.answer(tx, t, s.say(t.By, phrases.SayFrozen, "agent", agent))
}

// unfreeze lifts a freeze: of one agent, or for no name that of all.
func (s *Service) unfreeze(ctx context.Context, tx approval.Tx, t Interaction) (InteractionResult, error) {
	switch {
	case t.By.Kind != approval.Human:
		_, out, err := s.refuse(ctx, tx, t)
		return out, err
	case !t.By.Admin:
		return s.refused(tx, t, approval.CodeNotAdmin, s.say(t.By, phrases.SayMayNotUnfreeze))
	}
	frozen, err := frozenNow(tx)
	if err != nil {
		return InteractionResult{}, err
	}
	agent, _ := s.agentNamed(t.Name)
	if name := agent; !slices.ContainsFunc(frozen, func(e approval.Epoch) bool { return e.Agent == name }) {
		if len(frozen) == 0 {
			return s.answer(tx, t, s.say(t.By, phrases.SayNothingFrozen))
		}
		var names []string
		for _, e := range frozen {
			names = append(names, s.agents(t.By, e.Agent))
		}
		return s.answer(tx, t, s.say(t.By, phrases.SayUnfreezeWhich, "agents", names))
	}
	e, refusal, err := s.gate.In(ctx, tx).Freezes().Unfreeze(agent, t.By, approval.Via(t.Channel))
	switch {
	case err != nil:
		return InteractionResult{}, err
	case refusal != nil:
		return s.refused(tx, t, refusal.Code, refusal.Message)
	}
	if err := s.tellLifted(tx, e, t.By); err != nil {
		return InteractionResult{}, err
	}
	if agent == "" {
		return s.answer(tx, t, s.say(t.By, phrases.SayUnfrozenAll))
	}
	return s.answer(tx, t, s.say(t.By, phrases.SayUnfrozen, "agent", agent))
}

// frozenNow returns what is frozen.
func frozenNow(tx approval.Epochs) ([]approval.Epoch, error) {
	es, err := tx.Epochs()
	return slices.DeleteFunc(es, func(e approval.Epoch) bool { return !e.Frozen }), err
}

// agents names an agent, or all of them.
func (s *Service) agents(to approval.Actor, agent string) string {
	if agent == "" {
		return s.say(to, phrases.SayAllAgents)
	}
	return agent
}

// Froze tells the admins of a freeze that came another way than over a chat.
func (s *Service) Froze(ctx context.Context, e approval.Epoch) error {
	return s.store.Update(ctx, approval.OfNothing(), func(tx approval.Tx) error { return s.tellFrozen(tx, e) })
}

// Lifted tells the admins who lifted a freeze another way than over a chat.
func (s *Service) Lifted(ctx context.Context, e approval.Epoch, by approval.Actor) error {
	return s.store.Update(ctx, approval.OfNothing(), func(tx approval.Tx) error { return s.tellLifted(tx, e, by) })
}

// NeedUnmet tells the admins of a pending request whose open stage nobody is left for.
func (s *Service) NeedUnmet(ctx context.Context, r approval.Request) error {
	return s.store.Update(ctx, approval.OfNothing(), func(tx approval.Tx) error {
		return s.tellAdmins(tx, func(to approval.Actor) string {
			return s.say(to, phrases.SayNeedUnmet, "tool", r.Target(), "agent", r.Agent, "id", shortID(r.ID),
				"stages", s.sayer(to).Waits(r), "when", r.ExpiresAt)
		})
	})
}

func (s *Service) tellFrozen(tx approval.Tx, e approval.Epoch) error {
	return s.tellAdmins(tx, func(to approval.Actor) string {
		if to.Name == e.FrozenBy { // who did it knows
			return ""
		}
		return s.say(to, phrases.SayAdminsFrozen, "who", e.FrozenBy, "agent", s.agents(to, e.Agent), "reason", e.Reason)
	})
}

func (s *Service) tellLifted(tx approval.Tx, e approval.Epoch, by approval.Actor) error {
	return s.tellAdmins(tx, func(to approval.Actor) string {
		if to.Name == by.Name {
			return ""
		}
		return s.say(to, phrases.SayAdminsLifted, "who", by.String(), "agent", s.agents(to, e.Agent))
	})
}

// shortID is the end of an id, by which people type it.
func shortID(id string) string { return id[max(0, len(id)-approval.ShortID):] }
