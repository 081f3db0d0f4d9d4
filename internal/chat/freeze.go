package chat

import (
	"context"
	"slices"

	"countersign/approval"
	"countersign/internal/locale/phrases"
)

// freeze takes a freeze. A press is asked once more, since it stands beside buttons that do much less; typed words say
// what they want.
func (w work) freeze() (InteractionResult, error) {
	if w.By.Kind != approval.Human {
		_, out, err := w.refuse()
		return out, err
	}
	if w.Text == "" {
		return w.askFreeze()
	}
	agent, ok := w.agentNamed(w.Name)
	if !ok {
		if w.By.MayDecide() { // it may be the answer to a question
			w := w
			w.Intent, w.Reason = IntentOther, ""
			if out, done, err := w.giveReason(); err != nil || done {
				return out, err
			}
		}
		return w.answer(w.say(phrases.SayFreezeWhich, "agents", w.readers.Agents()))
	}
	return w.freezeNow(agent, w.Reason)
}

// agentNamed returns the agent that a person typed, "" for all of them.
func (s *Service) agentNamed(name string) (agent string, ok bool) {
	for _, l := range lexicons {
		if slices.Contains(l.everyone, plain(name)) {
			return "", true
		}
	}
	return name, slices.Contains(s.readers.Agents(), name)
}

// askFreeze asks once more before the agent of a request is frozen.
func (w work) askFreeze() (InteractionResult, error) {
	if !w.By.Approver && !w.By.Admin {
		return w.refuseWith(approval.CodeNotAnApprover, w.say(phrases.SayMayNotFreeze))
	}
	r, err := w.tx.Head(w.RequestID)
	if err != nil {
		if approval.CodeOf(err) == approval.CodeNotFound {
			return w.refuseWith(approval.CodeNotFound, w.say(phrases.SayNoRequest))
		}
		return InteractionResult{}, err
	}
	text := w.say(phrases.SayFreezeAsk, "agent", r.Agent)
	return InteractionResult{Text: text}, w.reply(approval.Notification{ApprovalID: r.ID, Text: text,
		Note: approval.NoteFreeze}, nil)
}

func (w work) freezeNow(agent, reason string) (InteractionResult, error) {
	e, refusal, err := w.in.Freezes().Freeze(agent, w.By, approval.Via(w.Channel), reason)
	switch {
	case err != nil:
		return InteractionResult{}, err
	case refusal != nil && (refusal.Code == approval.CodeNotAnApprover || refusal.Code == approval.CodeNotAdmin):
		return w.refuseWith(refusal.Code, w.say(phrases.SayMayNotFreeze))
	case refusal != nil && refusal.Code == approval.CodeInvalidParameter:
		return w.refuseWith(refusal.Code, w.say(phrases.SayReasonTooLong))
	case refusal != nil:
		return w.refuseWith(refusal.Code, refusal.Message)
	}
	if err := w.tellFrozen(w.tx, e); err != nil {
		return InteractionResult{}, err
	}
	if agent == "" {
		return w.answer(w.say(phrases.SayFrozenAll))
	}
	return w.answer(w.say(phrases.SayFrozen, "agent", agent))
}

// unfreeze lifts a freeze: of one agent, or for no name that of all.
func (w work) unfreeze() (InteractionResult, error) {
	switch {
	case w.By.Kind != approval.Human:
		_, out, err := w.refuse()
		return out, err
	case !w.By.Admin:
		return w.refuseWith(approval.CodeNotAdmin, w.say(phrases.SayMayNotUnfreeze))
	}
	frozen, err := frozenNow(w.tx)
	if err != nil {
		return InteractionResult{}, err
	}
	agent, _ := w.agentNamed(w.Name)
	if name := agent; !slices.ContainsFunc(frozen, func(e approval.Epoch) bool { return e.Agent == name }) {
		if len(frozen) == 0 {
			return w.answer(w.say(phrases.SayNothingFrozen))
		}
		var names []string
		for _, e := range frozen {
			names = append(names, w.agents(w.By, e.Agent))
		}
		return w.answer(w.say(phrases.SayUnfreezeWhich, "agents", names))
	}
	e, refusal, err := w.in.Freezes().Unfreeze(agent, w.By, approval.Via(w.Channel))
	switch {
	case err != nil:
		return InteractionResult{}, err
	case refusal != nil:
		return w.refuseWith(refusal.Code, refusal.Message)
	}
	if err := w.tellLifted(w.tx, e, w.By); err != nil {
		return InteractionResult{}, err
	}
	if agent == "" {
		return w.answer(w.say(phrases.SayUnfrozenAll))
	}
	return w.answer(w.say(phrases.SayUnfrozen, "agent", agent))
}

// frozenNow returns what is frozen.
func frozenNow(tx approval.Epochs) ([]approval.Epoch, error) {
	es, err := tx.Epochs()
	return slices.DeleteFunc(es, func(e approval.Epoch) bool { return !e.Frozen }), err
}

// agents names an agent, or all of them.
func (s *Service) agents(to approval.Actor, agent string) string {
	if agent == "" {
		return s.sayTo(to, phrases.SayAllAgents)
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

// NeedUnmet tells the admins of a pending request whose open stage no approver is left for.
func (s *Service) NeedUnmet(ctx context.Context, r approval.Request) error {
	return s.store.Update(ctx, approval.OfNothing(), func(tx approval.Tx) error {
		return s.tellAdmins(tx, func(to approval.Actor) string {
			return s.sayTo(to, phrases.SayNeedUnmet, "tool", r.Target(), "agent", r.Agent, "id", shortID(r.ID),
				"stages", s.sayer(to).Waits(r), "when", r.ExpiresAt)
		})
	})
}

func (s *Service) tellFrozen(tx approval.Tx, e approval.Epoch) error {
	return s.tellAdmins(tx, func(to approval.Actor) string {
		if to.Name == e.FrozenBy { // who did it knows
			return ""
		}
		return s.sayTo(to, phrases.SayAdminsFrozen, "who", e.FrozenBy, "agent", s.agents(to, e.Agent), "reason", e.Reason)
	})
}

func (s *Service) tellLifted(tx approval.Tx, e approval.Epoch, by approval.Actor) error {
	return s.tellAdmins(tx, func(to approval.Actor) string {
		if to.Name == by.Name {
			return ""
		}
		return s.sayTo(to, phrases.SayAdminsLifted, "who", by.String(), "agent", s.agents(to, e.Agent))
	})
}

// shortID is the end of an id, by which people type it.
func shortID(id string) string { return id[max(0, len(id)-approval.ShortID):] }
