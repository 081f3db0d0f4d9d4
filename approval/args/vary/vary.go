// Package vary says whether the arguments of a call are those that somebody agreed to, or others only where they were
// told that they may be.
package vary

import (
	"bytes"
	"maps"

	"countersign/approval/args"
	"countersign/approval/args/decimal"
)

// Terms say what may differ: nothing, for the zero Terms.
type Terms struct {
	// Vary are the args, by name, that need not be as they were approved.
	Vary    map[string]Arg `json:"vary,omitempty"`
	AnyArgs bool           `json:"any_args,omitempty"` // all of them
}

// Arg says how one arg may differ from the approved one.
type Arg struct {
	Any bool `json:"any,omitempty"`
	// AtMost bounds a number from 0, Total the sum over the uses of a grant: decimal numbers, "" for no bound.
	AtMost string `json:"at_most,omitempty"`
	Total  string `json:"total,omitempty"`
}

// IsZero reports whether nothing may differ.
func (t Terms) IsZero() bool { return len(t.Vary) == 0 && !t.AnyArgs }

// Covers reports whether a call's arguments are what was approved, as far as they may not differ, and within bounds
// where they may. spent has the sums so far of what has a total; those with this call are returned. Arguments are never
// covered that a tool may read otherwise than the gate, see [args.Args.Ambiguous].
func (t Terms) Covers(approved, now args.Args, spent map[string]string) (map[string]string, bool) {
	if approved.Ambiguous() || now.Ambiguous() {
		return nil, false
	}
	if t.AnyArgs {
		return spent, true
	}
	left := map[string][]byte{} // what was approved and not met yet
	for name, value := range approved.Members() {
		left[name] = value
	}
	sums := maps.Clone(spent)
	for name, value := range now.Members() {
		was, ok := left[name]
		if !ok {
			return nil, false
		}
		delete(left, name)
		arg, may := t.Vary[name]
		if !may || arg == (Arg{}) {
			if !bytes.Equal(was, value) {
				return nil, false
			}
			continue
		}
		sum, ok := arg.isWithin(string(value), spent[name])
		if !ok {
			return nil, false
		}
		if arg.Total != "" {
			if sums == nil {
				sums = map[string]string{}
			}
			sums[name] = sum
		}
	}
	return sums, len(left) == 0
}

// isWithin reports whether a value is one that the arg may have, and returns the sum with it where there is a total.
func (a Arg) isWithin(value, spent string) (sum string, ok bool) {
	if a.AtMost == "" && a.Total == "" {
		return "", a.Any
	}
	n, ok := number(value)
	if !ok {
		return "", false
	}
	if a.AtMost != "" {
		if most, ok := number(a.AtMost); !ok || n.Compare(most) > 0 {
			return "", false
		}
	}
	if a.Total == "" {
		return "", true
	}
	total, ok := number(a.Total)
	if !ok {
		return "", false
	}
	so, ok := decimal.Decimal{}, true
	if spent != "" {
		so, ok = number(spent)
	}
	if !ok {
		return "", false
	}
	with, ok := so.Add(n)
	return with.String(), ok && with.Compare(total) <= 0
}

// number reads a JSON number from 0.
func number(text string) (decimal.Decimal, bool) {
	if !decimal.IsNumber(text) {
		return decimal.Decimal{}, false
	}
	d, err := decimal.Parse(text)
	return d, err == nil && d.Sign() >= 0
}
