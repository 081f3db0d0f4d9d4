package chat

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign/approval"
	"countersign/internal/locale/phrases"
)

// delegation answers typed words about who votes for whom.
func (w work) delegation() (InteractionResult, error) {
	if w.By.Kind != approval.Human {
		_, out, err := w.refuse()
		return out, err
	}
	switch w.Intent {
	case IntentDelegate:
		return w.delegate()
	case IntentEndVotes:
		return w.endDelegation()
	}
	ds, err := w.tx.Delegations()
	if err != nil {
		return InteractionResult{}, err
	}
	if len(ds) == 0 {
		return w.answer(w.say(phrases.SayDelegationsNone))
	}
	lines := []string{w.say(phrases.SayDelegations)}
	for _, d := range ds {
		line := w.say(phrases.SayDelegationLine, "id", shortID(d.ID), "delegate", d.Delegate, "delegator", d.Delegator,
			"from", d.From, "until", d.Until)
		switch rule, holds := d.RuleNow(w.gate.Policy()); {
		case !holds:
			line += " (" + w.say(phrases.SayDelegationRuleGone, "rule", rule) + ")"
		case rule != "":
			line += " (" + rule + ")"
		}
		lines = append(lines, line)
	}
	return w.answer(strings.Join(lines, "\n"))
}

// delegate lets another person vote for the one who types it.
func (w work) delegate() (InteractionResult, error) {
	until, ok := lastsUntil(w.Reason, w.store.ToWall(w.tx.Now()), w.By.Zone)
	if w.Name == "" || !ok {
		return w.answer(w.say(phrases.SayDelegateHow))
	}
	d, refusal, err := w.in.Delegations().Delegate(approval.Delegation{Delegator: w.By.Name, Delegate: w.Name,
		Until: until}, w.By, approval.Via(w.Channel))
	switch {
	case err != nil:
		return InteractionResult{}, err
	case refusal != nil && refusal.Code == approval.CodeInvalidParameter:
		text := w.say(phrases.SayDelegateHow)
		if other := w.gate.PersonNow(w.Name); !other.MayDecide() || other.Name == w.By.Name {
			text = w.say(phrases.SayDelegateNot)
		}
		return w.refuseWith(refusal.Code, text)
	case refusal != nil && refusal.Code == approval.CodeNotAnApprover:
		return w.refuseWith(refusal.Code, w.say(phrases.SayDelegateNot))
	case refusal != nil:
		return w.refuseWith(refusal.Code, refusal.Message)
	}
	return w.answer(w.say(phrases.SayDelegated, "delegate", d.Delegate, "until", d.Until,
		"id", shortID(d.ID)))
}

// endDelegation ends the one delegation that is meant.
func (w work) endDelegation() (InteractionResult, error) {
	d, refusal, err := w.in.Delegations().End(w.RequestID+w.Typed, w.By, approval.Via(w.Channel))
	switch {
	case err != nil:
		return InteractionResult{}, err
	case refusal != nil:
		return w.refuseWith(refusal.Code, w.say(phrases.SayDelegationWhich))
	}
	return w.answer(w.say(phrases.SayDelegationEnded, "delegate", d.Delegate, "delegator", d.Delegator))
}

// units are what a number stands for that a person types, as a word for it begins.
var units = []struct {
	unit  time.Duration
	words []string
}{
	{7 * 24 * time.Hour, []string{"w", "week", "weeks", "週間", "週", "星期", "สัปดาห์"}},
	{24 * time.Hour, []string{"d", "day", "days", "日", "日間", "天", "วัน"}},
	{time.Hour, []string{"h", "hour", "hours", "時間", "小時", "ชั่วโมง"}},
}

// dates are the ways in which a time is typed. A day begins at midnight.
var dates = []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02",
	"2006年1月2日 15:04", "2006年1月2日"}

// lasts reports whether a text says how long something lasts.
func lasts(said string) bool {
	_, ok := lastsUntil(said, time.Time{}, nil)
	return ok
}

// lastsUntil reads how long something lasts from now on: "3d", "2 weeks", "until 2026-12-01 18:00" in a zone, or
// as Japanese and Chinese write them.
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
