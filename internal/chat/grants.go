package chat

import (
	"context"
	"errors"
	"strings"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
	"countersign/internal/locale/phrases"
)

// How many grants one answer lists, and among how many of the newest they are looked for.
const (
	grantLines  = 10
	grantsAmong = 500
)

// grant has an approval answer the same call again for a while.
func (w work) grant() (InteractionResult, error) {
	wish, ok := w.For.Wish()
	if !ok || w.By.Kind != approval.Human {
		_, out, err := w.refuse()
		return out, err
	}
	g, err := w.in.Grants().Make(w.By, approval.Via(w.Channel), w.RequestID, wish)
	if refusal, ok := refusalIn(err); ok {
		return w.refuseWith(refusal.Code, w.notGranted(refusal))
	}
	if err != nil {
		return InteractionResult{}, err
	}
	g = w.byStore(g)
	if err := w.tellGranted(w.tx, g); err != nil {
		return InteractionResult{}, err
	}
	return w.answer(w.say(grantedPhrase(g), "agent", g.Agent, "tool", grantTarget(g), "period",
		w.period(w.By, g), "id", shortID(g.ID)))
}

// refusalIn returns the refusal that an error of the gate is; false where it is about the store.
func refusalIn(err error) (*approval.Error, bool) {
	refusal, ok := errors.AsType[*approval.Error](err)
	if !ok {
		return nil, false
	}
	switch refusal.Code {
	case approval.CodeNotFound, approval.CodeNotAnApprover, approval.CodeNotAdmin, approval.CodeGrantRefused,
		approval.CodeAlreadyResolved, approval.CodeInvalidParameter:
		return refusal, true
	}
	return nil, false
}

// notGranted tells why an approval does not answer the same call again.
func (w wording) notGranted(refusal *approval.Error) string {
	switch refusal.Code {
	case approval.CodeNotFound:
		return w.say(phrases.SayNoRequest)
	case approval.CodeNotAnApprover:
		return w.say(phrases.SayMayNotGrant)
	}
	return w.say(phrases.SayNotGranted, "why", refusal.Message)
}

// grantTarget names the tool of a grant as people write it.
func grantTarget(g approval.Grant) string {
	return approval.Request{Server: g.Server, Tool: g.Tool}.Target()
}

// maker names who made a grant, and for whom.
func (s *Service) maker(to approval.Actor, g approval.Grant) string {
	return s.sayer(to).Voter(approval.Vote{Person: g.By, For: g.For})
}

// byStore is a grant as a method of the gate returned it, with the store's times.
func (s *Service) byStore(g approval.Grant) approval.Grant {
	g.MadeAt, g.ExpiresAt = s.store.FromWall(g.MadeAt), s.store.FromWall(g.ExpiresAt)
	return g
}

// grantedPhrase says what a grant lets through.
func grantedPhrase(g approval.Grant) phrases.Phrase {
	if g.Terms.AnyArgs || len(g.Terms.Vary) > 0 {
		return phrases.SayGrantedLike
	}
	return phrases.SayGranted
}

// period says for how long a grant holds.
func (s *Service) period(to approval.Actor, g approval.Grant) string {
	switch {
	case g.Uses > 0 && g.Session != "":
		return s.sayTo(to, phrases.SayForUsesHere, "left", g.Left(), "when", g.ExpiresAt)
	case g.Uses > 0:
		return s.sayTo(to, phrases.SayForUses, "left", g.Left(), "when", g.ExpiresAt)
	case g.Session != "":
		return s.sayTo(to, phrases.SayForSession, "when", g.ExpiresAt)
	}
	return s.sayTo(to, phrases.SayForUntil, "when", g.ExpiresAt)
}

// grants lists what holds without asking: to admins all of it, to others what they made.
func (w work) grants() (InteractionResult, error) {
	lines := []string{w.say(phrases.SayGrants)}
	live, err := lists.LiveGrants(w.in, approval.GrantQuery{Limit: grantsAmong, Bytes: approval.ListBytes})
	if err != nil {
		return InteractionResult{}, err
	}
	for _, g := range live {
		switch {
		case !w.By.Admin && w.By.Name != g.By && w.By.Name != g.For:
		case len(lines) > grantLines:
			return w.answer(strings.Join(append(lines, w.say(phrases.SayGrantsMore)), "\n"))
		default:
			lines = append(lines, w.grantLine(w.By, g))
		}
	}
	if len(lines) == 1 {
		return w.answer(w.say(phrases.SayGrantsNone))
	}
	return w.answer(strings.Join(lines, "\n"))
}

func (s *Service) grantLine(to approval.Actor, g approval.Grant) string {
	line := phrases.SayGrantLine
	if g.Deny {
		line = phrases.SayDenialLine
	}
	said := s.sayTo(to, line, "id", shortID(g.ID), "agent", g.Agent, "tool", grantTarget(g), "who", s.maker(to, g),
		"period", s.period(to, g))
	if !g.SuspendedAt.IsZero() {
		said += " · " + s.sayTo(to, phrases.SayGrantSuspended)
	}
	return said
}

// endGrant ends a grant or a standing denial, or forgets a denial.
func (w work) endGrant() (InteractionResult, error) {
	if w.By.Kind != approval.Human {
		_, out, err := w.refuse()
		return out, err
	}
	if w.Intent == IntentLift {
		err := w.in.Grants().Lift(w.By, approval.Via(w.Channel), w.RequestID)
		if refusal, ok := refusalIn(err); ok {
			return w.refuseWith(refusal.Code, w.notEnded(refusal, phrases.SayLiftWhich))
		}
		if err != nil {
			return InteractionResult{}, err
		}
		return w.answer(w.say(phrases.SayForgotten))
	}
	g, err := w.in.Grants().Revoke(w.By, approval.Via(w.Channel), w.RequestID)
	if refusal, ok := refusalIn(err); ok {
		return w.refuseWith(refusal.Code, w.notEnded(refusal, phrases.SayRevokeWhich))
	}
	if err != nil {
		return InteractionResult{}, err
	}
	return w.answer(w.say(phrases.SayRevoked, "agent", g.Agent, "tool", grantTarget(g)))
}

// notEnded tells why a grant or a denial holds on.
func (w wording) notEnded(refusal *approval.Error, which phrases.Phrase) string {
	switch refusal.Code {
	case approval.CodeNotFound:
		return w.say(which)
	case approval.CodeNotAdmin, approval.CodeNotAnApprover:
		return w.say(phrases.SayMayNotRevoke)
	case approval.CodeAlreadyResolved:
		return w.say(phrases.SayGrantOver)
	}
	return refusal.Message
}

// toldAfter is how long a grant may be that admins are not told of.
const toldAfter = time.Hour

// Granted tells the admins of a grant that was made another way than over a chat.
func (s *Service) Granted(ctx context.Context, g approval.Grant) error {
	return s.store.Update(ctx, approval.OfNothing(), func(tx approval.Tx) error { return s.tellGranted(tx, s.byStore(g)) })
}

// tellGranted tells the admins of a grant of more than an hour.
func (s *Service) tellGranted(tx approval.Tx, g approval.Grant) error {
	if g.Deny || g.ExpiresAt.Sub(g.MadeAt).Round(time.Minute) <= toldAfter {
		return nil
	}
	return s.tellAdmins(tx, func(to approval.Actor) string {
		if to.Name == g.By { // who made it knows
			return ""
		}
		return s.sayTo(to, phrases.SayAdminsGranted, "who", s.maker(to, g), "agent", g.Agent, "tool",
			grantTarget(g), "period", s.period(to, g), "id", shortID(g.ID))
	})
}
