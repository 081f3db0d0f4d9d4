package chat

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign/approval"
	"countersign/internal/locale/phrases"
)

// delegation answers typed words about who votes for whom.
func (s *Service) delegation(ctx context.Context, tx approval.Tx, t Interaction) (InteractionResult, error) {
	if t.By.Kind != approval.Human {
		_, out, err := s.refuse(ctx, tx, t)
		return out, err
	}
	switch t.Intent {
	case IntentDelegate:
		return s.delegate(ctx, tx, t)
	case IntentEndVotes:
		return s.endDelegation(ctx, tx, t)
	}
	ds, err := tx.Delegations()
	if err != nil {
		return InteractionResult{}, err
	}
	if len(ds) == 0 {
		return s.answer(tx, t, s.say(t.By, phrases.SayDelegationsNone))
	}
	lines := []string{s.say(t.By, phrases.SayDelegations)}
	for _, d := range ds {
		line := s.say(t.By, phrases.SayDelegationLine, "id", shortID(d.ID), "delegate", d.Delegate, "delegator", d.Delegator,
			"from", d.From, "until", d.Until)
		switch rule, holds := d.RuleNow(s.gate.Policy()); {
		case !holds:
			line += " (" + s.say(t.By, phrases.SayDelegationRuleGone, "rule", rule) + ")"
		case rule != "":
			line += " (" + rule + ")"
		}
		lines = append(lines, line)
	}
	return s.answer(tx, t, strings.Join(lines, "\n"))
}

// delegate lets somebody vote for whoever types it.
func (s *Service) delegate(ctx context.Context, tx approval.Tx, t Interaction) (InteractionResult, error) {
	until, ok := lastsUntil(t.Reason, s.store.ToWall(tx.Now()), t.By.Zone)
	if t.Name == "" || !ok {
		return s.answer(tx, t, s.say(t.By, phrases.SayDelegateHow))
	}
	d, refusal, err := s.gate.In(ctx, tx).Delegations().Delegate(approval.Delegation{Delegator: t.By.Name, Delegate: t.Name,
		Until: until}, t.By, approval.Via(t.Channel))
	switch {
	case err != nil:
		return InteractionResult{}, err
	case refusal != nil && refusal.Code == approval.CodeInvalidParameter:
		text := s.say(t.By, phrases.SayDelegateHow)
		if other := s.gate.PersonNow(t.Name); !other.MayDecide() || other.Name == t.By.Name {
			text = s.say(t.By, phrases.SayDelegateNot)
		}
		return s.refused(tx, t, refusal.Code, text)
	case refusal != nil && refusal.Code == approval.CodeNotAnApprover:
		return s.refused(tx, t, refusal.Code, s.say(t.By, phrases.SayDelegateNot))
	case refusal != nil:
		return s.refused(tx, t, refusal.Code, refusal.Message)
	}
	return s.answer(tx, t, s.say(t.By, phrases.SayDelegated, "delegate", d.Delegate, "until", d.Until,
		"id", shortID(d.ID)))
}

// endDelegation ends the one delegation that is meant.
func (s *Service) endDelegation(ctx context.Context, tx approval.Tx, t Interaction) (InteractionResult, error) {
	d, refusal, err := s.gate.In(ctx, tx).Delegations().End(t.RequestID+t.Typed, t.By, approval.Via(t.Channel))
	switch {
	case err != nil:
		return InteractionResult{}, err
	case refusal != nil:
		return s.refused(tx, t, refusal.Code, s.say(t.By, phrases.SayDelegationWhich))
	}
	return s.answer(tx, t, s.say(t.By, phrases.SayDelegationEnded, "delegate", d.Delegate, "delegator", d.Delegator))
}

// units are what a number stands for that somebody types, as a word for it begins.
var units = []struct {
	unit  time.Duration
	words []string
}{
	{7 * 24 * time.Hour, []string{"w", "week", "weeks", "週間", "週", "สัปดาห์"}},
	{24 * time.Hour, []string{"d", "day", "days", "日", "日間", "天", "วัน"}},
	{time.Hour, []string{"h", "hour", "hours", "時間", "小時", "ชั่วโมง"}},
}

// dates are the ways in which a time is typed. A day begins at midnight.
var dates = []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"}

// lasts reports whether a text says how long something lasts.
func lasts(said string) bool {
	_, ok := lastsUntil(said, time.Time{}, nil)
	return ok
}

// lastsUntil reads how long something lasts from now on: "3d", "2 weeks", "until 2026-12-01 18:00" in a zone.
func lastsUntil(said string, now time.Time, zone *time.Location) (until time.Time, ok bool) {
	said = plain(strings.Trim(strings.TrimSpace(said), ".!。"))
	if n := strings.IndexFunc(said, func(r rune) bool { return r < '0' || r > '9' }); n > 0 {
		count, err := strconv.Atoi(said[:n])
		word := strings.TrimSpace(said[n:])
		for _, u := range units {
			is := func(w string) bool { return plain(w) == word }
			if err == nil && count > 0 && count < 1000 && slices.ContainsFunc(u.words, is) {
				return now.Add(time.Duration(count) * u.unit), true
			}
		}
	}
	for _, l := range lexicons {
		for _, w := range l.until {
			said = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(said, plain(w)), plain(w)))
		}
	}
	if zone == nil {
		zone = time.UTC
	}
	for _, layout := range dates {
		if at, err := time.ParseInLocation(layout, strings.ToUpper(said), zone); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
