package phrases

import (
	"slices"

	"countersign/approval"
)

// Sayer says a phrase to one reader, as [Phrase.Say] does in English.
type Sayer func(p Phrase, args ...any) string

// Voter names who voted: ken, or "ken for hana".
func (say Sayer) Voter(v approval.Vote) string {
	if v.For == "" {
		return v.Person
	}
	return say(WhoFor, "person", v.Person, "other", v.For)
}

// Ended names who ended a request: all who approved, or the one who denied.
func (say Sayer) Ended(r approval.Request) string {
	if r.Who == "" {
		return r.WhoEnded()
	}
	var names []string
	for _, v := range r.Votes {
		if v.Approve == (r.Status == approval.Approved) {
			names = append(names, say.Voter(v))
		}
	}
	if len(names) == 0 || r.Status == approval.Cancelled {
		return r.WhoEnded()
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return say(WhoTwo, "first", say.All(names[:last]), "last", names[last])
}

// All names one or more, in a row: "hana, ken, mei".
func (say Sayer) All(names []string) string {
	row := names[0]
	for _, name := range names[1:] {
		row = say(WhoMore, "first", row, "next", name)
	}
	return row
}

// Waits names whom a pending request waits for, from its open stage on: "1 of finance, then 1 of security".
func (say Sayer) Waits(r approval.Request) string {
	stages := r.Need.InStages()
	open := min(max(r.Stage, 0), len(stages)-1)
	var waits string
	for n, s := range stages[open:] {
		if n == 0 {
			s.Count = max(1, s.Count-Given(r))
		}
		if one := say.stage(s); n == 0 {
			waits = one
		} else {
			waits = say(WhoThen, "first", waits, "next", one)
		}
	}
	return waits
}

// Given counts the approvals of a pending request's open stage.
func Given(r approval.Request) int {
	n := 0
	for _, v := range r.Votes {
		if v.Approve && v.Stage == r.Stage+1 {
			n++
		}
	}
	return n
}

func (say Sayer) stage(s approval.Stage) string {
	names := slices.Clone(s.Approvers)
	if s.Group != "" {
		names = []string{s.Group}
	}
	switch {
	case len(names) > 0:
		return say(WhoStage, "count", s.Count, "names", say.All(names))
	case s.Count == 1:
		return say(WhoAny)
	}
	return say(WhoAnyMany, "count", s.Count)
}
