package history

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"countersign/approval"
	"countersign/approval/args"
)

// Now is what another policy would have done.
type Now string

// It would have let the call through, asked a person, or denied it; or the record keeps too little to say.
const (
	NowAllow   Now = "allow"
	NowAsk     Now = "ask"
	NowDeny    Now = "deny"
	NowUnknown Now = "unknown"
)

// Case is a call, and which rule would have let it through.
type Case struct {
	Record
	NowRule string
}

// Count is how many calls of a tool had one end, and would have another.
type Count struct {
	Tool  string
	Was   Was
	Now   Now
	Rule  string // that would have decided
	Calls int
	IDs   []string // a few of them
}

// Replayed is what [Replay] found.
type Replayed struct {
	Calls int
	// Denied are the calls that people denied and that it would have let through, as they came.
	Denied []Case
	// Refused are those that a rule denied then.
	Refused []Case
	// Changes are all that it would have judged otherwise, Unknown those that cannot be judged: the most calls first.
	Changes, Unknown []Count
	// Table counts all, by what became of them and what would have.
	Table map[Was]map[Now]int
}

const (
	maxCases  = 1000
	maxCounts = 10000
	maxIDs    = 3
)

// Replay judges what is on record by a policy. hints are what the server of a tool may have said of it, which is not on
// record: where the policy's answer hangs on that, it is unknown; see [Hints].
func Replay(ctx context.Context, p approval.Policy, hints []*approval.Annotations,
	records iter.Seq2[Record, error]) (Replayed, error) {
	out := Replayed{Table: map[Was]map[Now]int{}}
	counts := map[countKey]*Count{}
	for r, err := range records {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return Replayed{}, err
		}
		now, rule := judgeCall(ctx, p, hints, r)
		out.Calls++
		if out.Table[r.Was] == nil {
			out.Table[r.Was] = map[Now]int{}
		}
		out.Table[r.Was][now]++
		if now == NowAllow && r.Was == WasDenied {
			out.Denied = append(out.Denied, lean(r, rule))
		}
		if now == NowAllow && r.Was == WasRefused && len(out.Refused) < maxCases {
			out.Refused = append(out.Refused, lean(r, rule))
		}
		if now != r.Was.action() {
			count(counts, r, now, rule)
		}
	}
	for _, c := range counts {
		if c.Now == NowUnknown {
			out.Unknown = append(out.Unknown, *c)
		} else {
			out.Changes = append(out.Changes, *c)
		}
	}
	slices.SortFunc(out.Changes, moreCalls)
	slices.SortFunc(out.Unknown, moreCalls)
	return out, nil
}

// maxCaseArgs is how much of a case's args is kept, in bytes: enough to be known by.
const maxCaseArgs = 512

func lean(r Record, rule string) Case {
	r.Args = slices.Clone(r.Args[:min(len(r.Args), maxCaseArgs)])
	return Case{r, rule}
}

type countKey struct {
	tool string
	was  Was
	now  Now
	rule string
}

func count(counts map[countKey]*Count, r Record, now Now, rule string) {
	k := countKey{r.Target(), r.Was, now, rule}
	if counts[k] == nil && len(counts) >= maxCounts {
		k.tool, k.rule = Others, ""
	}
	c := counts[k]
	if c == nil {
		c = &Count{Tool: k.tool, Was: r.Was, Now: now, Rule: k.rule}
		counts[k] = c
	}
	if c.Calls++; len(c.IDs) < maxIDs {
		c.IDs = append(c.IDs, r.ID)
	}
}

func moreCalls(a, b Count) int {
	return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Was, b.Was),
		cmp.Compare(a.Now, b.Now), cmp.Compare(a.Rule, b.Rule))
}

// judgeCall returns what the policy says of a call. It is known only where each call that the record may stand for is
// judged alike.
func judgeCall(ctx context.Context, p approval.Policy, hints []*approval.Annotations, r Record) (now Now, rule string) {
	a, err := args.Parse(r.Args)
	if r.Args == nil || err != nil {
		return NowUnknown, ""
	}
	if len(hints) == 0 {
		hints = []*approval.Annotations{nil}
	}
	for _, said := range hints {
		c := approval.Call{Agent: r.Agent, Scope: r.Scope, Server: r.Server, Tool: r.Tool, Args: a, Method: r.Method,
			SessionID: r.Session, Annotations: said}
		v := p.Evaluate(ctx, c)
		switch is := would(v); {
		case now == "":
			now, rule = is, v.Rule
		case is != now:
			return NowUnknown, ""
		}
	}
	return now, rule
}

func would(v approval.Verdict) Now {
	switch {
	case v.Observe || v.Action == approval.Allow:
		return NowAllow
	case v.Action == approval.Quarantine:
		return NowAsk
	}
	return NowDeny
}

// Hints returns all that the server of a tool may have said of it, as far as rules look at that: used is what each of
// them asks for.
func Hints(used ...*approval.Annotations) []*approval.Annotations {
	all := []*approval.Annotations{nil}
	yes, no := true, false
	for _, field := range []func(a *approval.Annotations) **bool{
		func(a *approval.Annotations) **bool { return &a.ReadOnly },
		func(a *approval.Annotations) **bool { return &a.Destructive },
		func(a *approval.Annotations) **bool { return &a.Idempotent },
		func(a *approval.Annotations) **bool { return &a.OpenWorld },
	} {
		if !slices.ContainsFunc(used, func(a *approval.Annotations) bool { return a != nil && *field(a) != nil }) {
			continue
		}
		for _, so := range slices.Clone(all) {
			for _, value := range []*bool{&yes, &no} {
				a := approval.Annotations{}
				if so != nil {
					a = *so
				}
				*field(&a) = value
				all = append(all, &a)
			}
		}
	}
	return all
}
