package policy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/approval/summary"
	"countersign/internal/locale/phrases"
)

// Reason codes that the package gives by itself.
const (
	codeApprovalRequired = "approval_required" // a rule quarantines and names no code
	codeForbidden        = "forbidden"         // a rule denies and names no code
	codeAllowed          = "allowed"           // a rule allows and names no code
	codeUnknownTool      = approval.ReasonUnknownTool
	codeMethodDefault    = "method_default" // no rule concerns a call of a method that is known
	codeUnknownMethod    = "unknown_method"
	codePolicyError      = "policy_error"
	codeAmbiguousArgs    = "ambiguous_args"
	codeAmbiguousPath    = "ambiguous_path"
)

// Policy is a compiled policy; [Compile] makes it. It implements [approval.Policy]: immutable, safe
// for concurrent use, without I/O, and whatever it cannot evaluate it denies.
type Policy struct {
	rules     []rule
	guard     *guard // nil: none
	index     *index
	methods   *index           // of the rules for other methods than tools/call
	names     map[string]int32 // numbers the top-level arguments that rules ask for
	spellings spellings        // of all keys that rules read
	observe   bool
	terms     approval.Terms
	digest    string
	digests   map[string]string // of the rules, by name
	source    string
	otherwise rule // what holds when no rule matches a tool call,
	method    rule // a call of another method that is known,
	unknown   rule // and a call of one that is not
}

var _ approval.Policy = (*Policy)(nil)

// rule is a compiled [Rule], with every silence filled in.
type rule struct {
	number      int // from 1
	name        string
	named       bool // the name was given
	preset      string
	digest      string
	methods     []pattern
	targets     []target
	agents      []pattern
	annotations *approval.Annotations // nil: whatever the server says
	conditions  []condition
	when        *program
	looks       []look // the keys of arguments that it reads

	action        approval.Action
	risk          approval.Risk
	timeout       time.Duration
	requireReason bool
	reasonCode    string
	message       string // "" for the default
	sentences     *summary.Sentences
	ignoreArgs    []string
	strict        bool
	need          *approval.Need // nil: one person, any approver
	group         approval.Grouping
	grants        *approval.GrantTerms // nil: an approval is for its own call alone
	diff          *approval.DiffTerms  // nil: people are shown no other than the caller's

	// tight is what holds instead when the rule may not allow: the risk is at least high, and nothing less is
	// asked than the rule asks.
	tight tightened

	origin Origin
}

type tightened struct {
	risk          approval.Risk
	timeout       time.Duration
	requireReason bool
	need          *approval.Need
}

// evaluation is what is known of one call while its verdict is found.
type evaluation struct {
	ctx      context.Context
	call     *approval.Call
	names    map[string]int32
	members  members
	args     *object
	looked   []looked
	unplaced string // the param of a condition that held only because its path cannot be placed

	searched bool // whether a key could be taken for one that rules read was found out,
	suspect  bool // and one could
}

// looked is what a dotted path was found to lead to.
type looked struct {
	param  string
	values []value
}

// lookup returns the values that a condition's param can be read as: one, or none, and more than one
// only for keys with dots. The result is valid until the next call.
func (e *evaluation) lookup(p *param, one *[1]value) []value {
	if p.name >= 0 {
		raw, ok := e.members.get(p.name, e.names, e.call.Args.Canonical())
		if !ok {
			return nil
		}
		one[0] = newValue(raw)
		return one[:]
	}
	for i := range e.looked {
		if e.looked[i].param == p.path {
			return e.looked[i].values
		}
	}
	var values []value
	for _, raw := range e.call.Args.LookupAll(p.path) {
		values = append(values, newValue(raw))
	}
	e.looked = append(e.looked, looked{p.path, values})
	return values
}

// Evaluate returns the verdict of the first rule that matches c. It never fails: what cannot be
// evaluated is denied. ctx carries values only; its end does not change a verdict. The guard, where there is
// one, comes after the rules.
func (p *Policy) Evaluate(ctx context.Context, c approval.Call) approval.Verdict {
	e := evaluation{ctx: ctx, call: &c, names: p.names}
	v, _ := p.applyGuard(p.judge(&e), &e)
	return v
}

// judge returns the verdict of the rules.
func (p *Policy) judge(e *evaluation) approval.Verdict {
	var few [8]uint64
	set := ruleSet(few[:])
	if n := (len(p.rules) + 63) / 64; n <= len(few) {
		set = set[:n]
	} else {
		set = make(ruleSet, n)
	}
	method := methodOf(e.call)
	p.candidates(set, method, e.call.Server, toolOf(e.call))
	if e.call.Args.Ambiguous() {
		v, _ := p.evaluateSlowly(e, set, method)
		return v
	}
	for i := set.next(0); i >= 0; i = set.next(i + 1) {
		r := &p.rules[i]
		if !r.concerns(e.call.Agent) || !r.matchesAnnotations(e.call.Annotations) {
			continue
		}
		if len(r.looks) > 0 && p.suspects(e) {
			v, _ := p.evaluateSlowly(e, set, method)
			return v
		}
		matched, err := r.match(e)
		if err != nil {
			return p.errorVerdict(r, err)
		}
		if matched && e.unplaced != "" && r.action != approval.Deny {
			v, _ := p.evaluateSlowly(e, set, method)
			return v
		}
		if matched {
			return p.verdict(r, e)
		}
	}
	e.unplaced = ""
	return p.verdict(p.fallback(method), e)
}

// Digest names the policy.
func (p *Policy) Digest() string { return p.digest }

// RuleDigests are the digests of the rules by what they are called: a name, or the place of a rule without one.
func (p *Policy) RuleDigests() map[string]string { return p.digests }

// Source is the policy as text, in JSON: as it is written, with variables by their names and never their values, and
// what each rule comes to.
func (p *Policy) Source() string { return p.source }

// Terms returns the durations that hold for all requests of the policy.
func (p *Policy) Terms() approval.Terms { return p.terms }

func (r *rule) concerns(agent string) bool {
	if len(r.agents) == 0 {
		return true
	}
	for _, a := range r.agents {
		if a.match(agent) {
			return true
		}
	}
	return false
}

// match asks the conditions and then the expression, in order; the first that does not hold ends it,
// so each may rely on those before it.
func (r *rule) match(e *evaluation) (bool, error) {
	e.unplaced = ""
	for i := range r.conditions {
		c := &r.conditions[i]
		j, err := c.judge(e)
		switch {
		case err != nil:
			return false, fmt.Errorf("condition %d: %w", i+1, err)
		case j.out == fails:
			return false, nil
		case j.out == holdsUnplaced:
			e.unplaced = j.param
		}
	}
	if r.when != nil {
		ok, err := r.when.holds(e)
		if err != nil {
			return false, fmt.Errorf("when: %w", err)
		}
		return ok, nil
	}
	return true, nil
}

// verdict is what a rule that matched says of a call whose arguments can be read in one way only.
func (p *Policy) verdict(r *rule, e *evaluation) approval.Verdict {
	v := approval.Verdict{
		Action:        r.action,
		Risk:          r.risk,
		Rule:          r.name,
		ReasonCode:    r.reasonCode,
		Message:       r.message,
		Sentences:     r.sentences,
		Timeout:       r.timeout,
		RequireReason: r.requireReason,
		IgnoreArgs:    r.ignoreArgs,
		Observe:       p.observe,
		Need:          r.need,
		Strict:        r.strict,
		Group:         r.group,
		Grants:        r.grants,
		Diff:          r.diff,
		RuleDigest:    r.digest,
	}
	if v.Action == approval.Allow && e.unplaced != "" {
		v.Action, v.Need, v.Grants = approval.Quarantine, r.tight.need, nil
		v.Risk, v.Timeout, v.RequireReason = r.tight.risk, r.tight.timeout, r.tight.requireReason
		v.ReasonCode = codeAmbiguousPath
		v.Message = fmt.Sprintf("It is not certain where the path in %q lies, so a person must approve %s.", e.unplaced,
			e.call.Target())
		v.Sentences = v.Sentences.WithoutMessage()
	}
	if v.Message == "" {
		v.Message = defaultMessage(v, e.call)
	}
	return v
}

func defaultMessage(v approval.Verdict, c *approval.Call) string {
	switch {
	case v.ReasonCode == codeUnknownMethod:
		return fmt.Sprintf("The method %s is not one that calls may have.", legible.Line(legible.Cut(c.Method, 64)))
	case v.Rule == "" && v.Action == approval.Quarantine:
		return phrases.SayNoRule.Say("tool", c.Target())
	case v.Action == approval.Allow:
		return "Allowed by policy."
	case v.Action == approval.Deny:
		return c.Target() + " is forbidden by policy."
	}
	return phrases.SayNeedsApproval.Say("tool", c.Target())
}

// errorVerdict is the verdict when a rule cannot be evaluated.
func (p *Policy) errorVerdict(r *rule, err error) approval.Verdict {
	who := r.nameInWords()
	return approval.Verdict{
		Action:        approval.Deny,
		Risk:          r.risk,
		Rule:          r.name,
		ReasonCode:    codePolicyError,
		Message:       fmt.Sprintf("%s%s cannot be evaluated for this call: %v.", strings.ToUpper(who[:1]), who[1:], err),
		Timeout:       r.timeout,
		RequireReason: r.requireReason,
		Observe:       p.observe,
		RuleDigest:    r.digest,
	}
}
