package policy

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/approval/summary"
	"countersign/internal/locale/phrases"
)

// RuleInfo is a compiled rule as data: everything that a person needs to see what it does.
type RuleInfo struct {
	Number      int                   `json:"number"` // from 1; 0 for what holds when no rule matches
	Name        string                `json:"name"`
	Preset      string                `json:"preset,omitempty"`  // that it comes from
	Methods     []string              `json:"methods,omitempty"` // none: tools/call
	Tools       []string              `json:"tools"`
	Agents      []string              `json:"agents,omitempty"`      // none: every agent
	Annotations *approval.Annotations `json:"annotations,omitempty"` // that the tool's server must give
	Conditions  []string              `json:"conditions,omitempty"`
	When        string                `json:"when,omitempty"`

	Action        approval.Action `json:"action"`
	Risk          approval.Risk   `json:"risk_level"`
	Timeout       string          `json:"timeout"`
	RequireReason bool            `json:"require_reason"`
	ReasonCode    string          `json:"reason_code"`
	Message       string          `json:"message,omitempty"` // none: a default that names the tool
	// MessageIn and SummaryIn are by language, where they are written in several.
	MessageIn  summary.Wording     `json:"message_in,omitempty"`
	Summary    string              `json:"summary,omitempty"` // none: it is made of the call
	SummaryIn  summary.Wording     `json:"summary_in,omitempty"`
	IgnoreArgs []string            `json:"ignore_args,omitempty"`
	Audit      Audit               `json:"audit,omitempty"` // none: normal
	Diff       *approval.DiffTerms `json:"diff,omitempty"`  // none: as the caller shows it
	NeedInfo
	AsksInfo

	Path   string `json:"path,omitempty"` // where the rule comes from
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// Rules returns the compiled rules in the order in which a call meets them.
func (p *Policy) Rules() []RuleInfo {
	infos := make([]RuleInfo, len(p.rules))
	for i := range p.rules {
		infos[i] = p.rules[i].info()
	}
	return infos
}

// Otherwise returns what holds for a tool call that no rule matches. Its Number is 0.
func (p *Policy) Otherwise() RuleInfo { return p.otherwise.info() }

func (r *rule) info() RuleInfo {
	info := RuleInfo{
		Number: r.number, Name: r.name, Preset: r.preset, Tools: []string{},
		Action: r.action, Risk: r.risk, Timeout: spell(r.timeout), RequireReason: r.requireReason,
		ReasonCode: r.reasonCode, Message: r.message, IgnoreArgs: r.ignoreArgs,
		NeedInfo: needInfo(r.need), AsksInfo: asksInfo(r.group, r.grants), Annotations: r.annotations,
		Diff: r.diff,
		Path: r.origin.Path, Line: r.origin.Line, Column: r.origin.Column,
	}
	if s := r.sentences; s != nil {
		info.MessageIn, info.SummaryIn, info.Summary = inLanguages(s.Message), inLanguages(s.Summary), s.Summary[""]
	}
	if r.strict {
		info.Audit = AuditStrict
	}
	if !slices.Equal(r.methods, silent) {
		for _, m := range r.methods {
			info.Methods = append(info.Methods, string(m))
		}
	}
	for _, t := range r.targets {
		info.Tools = append(info.Tools, t.String())
	}
	for _, a := range r.agents {
		info.Agents = append(info.Agents, string(a))
	}
	for i := range r.conditions {
		c := &r.conditions[i]
		info.Conditions = append(info.Conditions, c.String())
	}
	if r.when != nil {
		info.When = strings.TrimSpace(r.when.source)
	}
	return info
}

// spell writes a duration without its zero parts: 1h, 30m, 1m30s.
func spell(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// StepResult is how one rule answered a call.
type StepResult string

const (
	StepDecides StepResult = "decides" // it matched, and its word stands
	// it matches if a path that cannot be placed lies in its folders: it counts, and the next rule is asked
	StepMayMatch   StepResult = "may_match"
	StepNoMatch    StepResult = "no_match"    // the next rule is asked
	StepError      StepResult = "error"       // it cannot be evaluated, so the call is denied
	StepNotReached StepResult = "not_reached" // an earlier rule decided
)

// Step is one rule's answer to a call.
type Step struct {
	Rule   RuleInfo   `json:"rule"`
	Result StepResult `json:"result"`
	Why    string     `json:"why"` // a phrase; it may quote arguments
	// Said is the same for whoever reads another language; none of an error, which is told as it is.
	Said phrases.Said `json:"-"`
}

// Explanation tells why a call gets its verdict. It quotes arguments, so it is for people who may see them.
type Explanation struct {
	Method string     `json:"method,omitempty"` // none: tools/call
	Tool   string     `json:"tool"`             // with its server, as rules write it
	Agent  string     `json:"agent,omitempty"`
	Steps  []Step     `json:"steps"`           // every rule in order, then what holds otherwise
	Guard  *GuardStep `json:"guard,omitempty"` // none: there is no guard
	Mode   Mode       `json:"mode"`            // in observe the call is allowed whatever the action
	Reason string     `json:"reason"`          // why the action is not the rule's own, "" if it is
	// ReasonSaid is the same for whoever reads another language, where it is the guard.
	ReasonSaid phrases.Said `json:"-"`

	Action        approval.Action     `json:"action"`
	Risk          approval.Risk       `json:"risk_level"`
	Rule          string              `json:"rule"` // "" when no rule matched
	ReasonCode    string              `json:"reason_code"`
	Message       string              `json:"message"`
	Summary       string              `json:"summary,omitempty"` // as it is written, before anything is filled in
	Timeout       string              `json:"timeout"`
	RequireReason bool                `json:"require_reason"`
	IgnoreArgs    []string            `json:"ignore_args,omitempty"`
	Audit         Audit               `json:"audit,omitempty"` // none: normal
	Diff          *approval.DiffTerms `json:"diff,omitempty"`  // none: as the caller shows it
	NeedInfo
	AsksInfo
}

// Explain asks every rule in order about c, and says of each how it answered. The outcome is that of
// Evaluate.
func (p *Policy) Explain(c approval.Call) Explanation {
	e := &evaluation{ctx: context.Background(), call: &c, names: p.names}
	x := Explanation{Method: c.Method, Tool: c.Target(), Agent: c.Agent, Mode: Enforce, Steps: []Step{}}
	if p.observe {
		x.Mode = Observe
	}
	var v approval.Verdict
	decided, held := false, false
	for i := range p.rules {
		r := &p.rules[i]
		step := Step{Rule: r.info(), Result: StepNotReached, Said: said(phrases.StepEarlier)}
		if !decided {
			var err error
			step.Result, step.Said, err = r.explain(e)
			switch step.Result {
			case StepMayMatch:
				held = true
			case StepDecides:
				v, decided = p.verdict(r, e), true
			case StepError:
				v, decided, step.Why = p.errorVerdict(r, err), true, err.Error()
			}
		}
		if step.Result != StepError {
			step.Why = step.Said.String()
		}
		x.Steps = append(x.Steps, step)
	}
	otherwise := p.fallback(methodOf(&c))
	last := Step{Rule: otherwise.info(), Result: StepNotReached, Said: said(phrases.StepDecided)}
	if !decided {
		e.unplaced = ""
		v = p.verdict(otherwise, e)
		last.Result, last.Said = StepDecides, said(phrases.StepNone)
	}
	last.Why = last.Said.String()
	x.Steps = append(x.Steps, last)
	if c.Args.Ambiguous() || p.suspects(e) || held {
		set := make(ruleSet, (len(p.rules)+63)/64)
		p.candidates(set, methodOf(&c), c.Server, toolOf(&c))
		v, x.Reason = p.evaluateSlowly(e, set, methodOf(&c))
	}
	if info := p.Guard(); info != nil {
		strict, where := p.applyGuard(v, e)
		x.Guard = &GuardStep{GuardInfo: *info, Touched: where, Decides: !reflect.DeepEqual(strict, v)}
		if x.Guard.Decides {
			v, x.ReasonSaid = strict, said(phrases.StepGuard, "arg", legible.Line(where))
			x.Reason = x.ReasonSaid.String()
		}
	}
	x.Action, x.Risk, x.Rule, x.ReasonCode, x.Message = v.Action, v.Risk, v.Rule, v.ReasonCode, v.Message
	x.Summary = v.Sentences.SummaryIn("")
	if v.Strict {
		x.Audit = AuditStrict
	}
	x.NeedInfo, x.AsksInfo, x.Diff = needInfo(v.Need), asksInfo(v.Group, v.Grants), v.Diff
	x.Timeout, x.RequireReason, x.IgnoreArgs = spell(v.Timeout), v.RequireReason, v.IgnoreArgs
	return x
}

// said is a phrase, to be said in any language.
func said(p phrases.Phrase, args ...any) phrases.Said { return phrases.Said{Phrase: p, Args: args} }

// explain is concerns and match with their reasons.
func (r *rule) explain(e *evaluation) (StepResult, phrases.Said, error) {
	if method := methodOf(e.call); !r.judges(method) {
		return StepNoMatch, said(phrases.StepMethod, "method", method, "methods", join(r.methods)), nil
	}
	tool := false
	for _, t := range r.targets {
		tool = tool || t.match(e.call.Server, toolOf(e.call))
	}
	if !tool {
		if r.preset != "" && r.action == approval.Allow && e.call.Server != "" {
			return StepNoMatch, said(phrases.StepPresetTool, "tool", e.call.Target()), nil
		}
		return StepNoMatch, said(phrases.StepTool, "tool", e.call.Target(), "tools", join(r.targets)), nil
	}
	if !r.concerns(e.call.Agent) {
		return StepNoMatch, said(phrases.StepAgent, "agent", strconv.Quote(e.call.Agent), "agents", join(r.agents)), nil
	}
	if !r.matchesAnnotations(e.call.Annotations) {
		return StepNoMatch, said(phrases.StepAnnotations, "want", annotationsSaid(r.annotations),
			"have", annotationsSaid(e.call.Annotations)), nil
	}
	matched, err := r.match(e)
	switch {
	case err != nil:
		return StepError, phrases.Said{}, err
	case matched && e.unplaced != "":
		result := StepDecides
		if r.action != approval.Deny {
			result = StepMayMatch
		}
		return result, said(phrases.StepUnplaced, "param", e.unplaced, "value", e.quote(e.unplaced)), nil
	case matched:
		return StepDecides, said(phrases.StepMatched), nil
	}
	for i := range r.conditions {
		c := &r.conditions[i]
		j, err := c.judge(e)
		switch {
		case err != nil || j.out != fails:
			continue
		case !j.found:
			var names any = c.params[0].path
			for _, p := range c.params[1:] {
				names = said(phrases.StepOr, "first", names, "next", p.path)
			}
			return StepNoMatch, said(phrases.StepNoParam, "nth", i+1, "param", names), nil
		}
		_, not := j.failed.phrase()
		return StepNoMatch, said(phrases.StepCondition, "nth", i+1, "param", j.param, "value", e.quote(j.param),
			"not", not), nil
	}
	return StepNoMatch, said(phrases.StepWhen, "when", strings.TrimSpace(r.when.source)), nil
}

// quote shows the value of a param as JSON, shortened, with nothing in it invisible.
func (e *evaluation) quote(param string) string {
	raw, ok := e.call.Args.Lookup(param)
	if !ok {
		return ""
	}
	return shorten(string(raw))
}

// shorten makes JSON fit into a sentence.
func shorten(s string) string { return legible.Line(legible.Cut(s, 80)) }

func join[T any](list []T) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = fmt.Sprint(x)
	}
	return strings.Join(texts, ", ")
}
