package web

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/legible"
	"countersign/approval/redact"
	"countersign/internal/auth"
	"countersign/internal/policy"
)

// Rules are a policy that can be read. That of the gate is, where it is one of the package policy.
type Rules interface {
	Rules() []policy.RuleInfo
	Otherwise() policy.RuleInfo
	Guard() *policy.GuardInfo
	Explain(c approval.Call) policy.Explanation
}

// policyPages are the policy in force, and what it, or another, says of calls.
type policyPages struct {
	gate      *approval.Gate
	directory *auth.Directory
	masker    func() *redact.Masker
	record    *record
}

func (p *policyPages) routes() []route {
	return []route{
		{method: http.MethodGet, path: "/policy", audience: approvers, handle: p.show},
		{method: http.MethodPost, path: "/policy/try", audience: approvers, handle: p.tryCall},
		{method: http.MethodPost, path: "/policy/replay", audience: admins, handle: p.replay, stream: true},
	}
}

// maxTypedArgs is how many bytes of args are tried, as many as a call may have.
const maxTypedArgs = 1 << 20

// policyData is what /policy shows.
type policyData struct {
	Digest    string
	Guard     *ruleShown // nil: there is none
	Rules     []ruleShown
	Otherwise ruleShown
	Agents    []string
	Typed     typedCall
	Answer    *answerShown
	Replay    *replayData // nil: not for this viewer
}

type ruleShown struct {
	Title, Action, Class string
	About                string
	Facts                []fact
}

// typedCall is a call as somebody typed it.
type typedCall struct{ Agent, Tool, Args, Problem string }

type answerShown struct {
	Facts   []fact
	Observe bool
	Steps   []stepShown
}

type stepShown struct {
	Rule, Result, Why string
	Decides           bool
}

func (p *policyPages) show(_ context.Context, x *exchange) error {
	return p.showCall(x, http.StatusOK, typedCall{Args: "{}"}, nil)
}

func (p *policyPages) showCall(x *exchange, status int, typed typedCall, answer *answerShown) error {
	return p.showWith(x, status, policyData{Typed: typed, Answer: answer, Replay: p.replayForm(x)})
}

// showWith shows the policy in force with what is there already.
func (p *policyPages) showWith(x *exchange, status int, d policyData) error {
	current := p.gate.Policy()
	rules, ok := current.(Rules)
	if !ok {
		return approval.ErrNotFound
	}
	d.Digest, d.Agents = current.Digest(), agentNames(p.directory)
	if g := rules.Guard(); g != nil {
		d.Guard = guardShown(x, g)
	}
	for _, r := range rules.Rules() {
		d.Rules = append(d.Rules, ruleOf(x, r))
	}
	d.Otherwise = ruleOf(x, rules.Otherwise())
	d.Otherwise.Title = x.lang.Say("policy_otherwise")
	return x.page(status, "policy", x.lang.Say("policy_title"), d)
}

// actionClasses are the colours of what a rule does.
var actionClasses = map[approval.Action]string{approval.Allow: "approved", approval.Quarantine: "pending",
	approval.Deny: "denied"}

func ruleOf(x *exchange, r policy.RuleInfo) ruleShown {
	name := x.lang.Rule(r.Name)
	v := ruleShown{Title: strconv.Itoa(r.Number) + ". " + legible.Line(name),
		Action: x.lang.Say("policy_action_" + string(r.Action)), Class: actionClasses[r.Action]}
	tell := func(id, text string) {
		if text != "" {
			masked, _ := x.masker().Text(text)
			v.Facts = append(v.Facts, fact{x.lang.Say("policy_" + id), legible.Line(masked)})
		}
	}
	if name != r.Name { // by this it is named in the configuration, in a delegation and in the audit log
		tell("name", r.Name)
	}
	tell("tools", x.lang.List(r.Tools))
	tell("methods", x.lang.List(r.Methods))
	tell("agents", x.lang.List(r.Agents))
	tell("conditions", strings.Join(r.Conditions, "; "))
	tell("when", r.When)
	tell("risk", x.lang.Say("risk_"+strings.ToLower(string(r.Risk))))
	if r.Action == approval.Quarantine {
		tell("timeout", r.Timeout)
	}
	tell("preset", r.Preset)
	tell("summary", r.Summary)
	tell("message", r.Message)
	return v
}

// guardShown is the guard of the gate's files. Which files these are is for whoever may read the configuration.
func guardShown(x *exchange, g *policy.GuardInfo) *ruleShown {
	return &ruleShown{Title: x.lang.Say("policy_guard"), Action: x.lang.Say("policy_action_" + string(g.Action)),
		Class: actionClasses[g.Action], About: x.lang.Say("policy_guard_about"),
		Facts: []fact{{x.lang.Say("policy_risk"), x.lang.Say("risk_" + strings.ToLower(string(g.Risk)))},
			{x.lang.Say("policy_timeout"), g.Timeout}}}
}

// guardStep is what the guard said of a call that was tried.
func guardStep(x *exchange, g *policy.GuardStep) stepShown {
	step := stepShown{Rule: x.lang.Say("policy_guard"), Result: x.lang.Say("policy_step_no_match"),
		Why: x.lang.Say("policy_guard_untouched"), Decides: g.Decides}
	if g.Touched != "" {
		step.Result = x.lang.Say("policy_guard_stricter")
		step.Why = x.lang.Say("policy_guard_touched", "arg", word(g.Touched))
	}
	if g.Decides {
		step.Result = x.lang.Say("policy_step_decides")
	}
	return step
}

// tryCall says which rule would decide a call. It asks nobody and stores nothing.
func (p *policyPages) tryCall(_ context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	typed := typedCall{Agent: form.Get("agent"), Tool: strings.TrimSpace(form.Get("tool")), Args: form.Get("args")}
	answer, err := p.explain(x, typed)
	if err != nil {
		typed.Problem = cmp.Or(problemText(err), err.Error())
		typed.Args = legible.CutBytes(typed.Args, maxTypedArgs, 0)
		return p.showCall(x, http.StatusBadRequest, typed, nil)
	}
	return p.showCall(x, http.StatusOK, typed, answer)
}

func (p *policyPages) explain(x *exchange, typed typedCall) (*answerShown, error) {
	rules, ok := p.gate.Policy().(Rules)
	if !ok {
		return nil, approval.ErrNotFound
	}
	if len(typed.Args) > maxTypedArgs {
		return nil, approval.Errorf(approval.CodeInvalidArgs, "The arguments are longer than 1 MiB.")
	}
	parsed, err := args.Parse([]byte(cmp.Or(strings.TrimSpace(typed.Args), "{}")))
	if err != nil {
		return nil, err
	}
	c := approval.Call{Agent: typed.Agent, Tool: typed.Tool, Args: parsed}
	if server, tool, found := strings.Cut(typed.Tool, "/"); found {
		c.Server, c.Tool = server, tool
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return explanationShown(x, rules.Explain(c)), nil
}

func explanationShown(x *exchange, e policy.Explanation) *answerShown {
	a := &answerShown{Observe: e.Mode == policy.Observe}
	a.Facts = []fact{{x.lang.Say("policy_action"), x.lang.Say("policy_action_" + string(e.Action))},
		{x.lang.Say("policy_risk"), x.lang.Say("risk_" + strings.ToLower(string(e.Risk)))},
		{x.lang.Say("policy_by_rule"), legible.Line(cmp.Or(x.lang.Rule(e.Rule), x.lang.Say("policy_no_rule")))}}
	if e.Reason != "" {
		a.Facts = append(a.Facts, fact{x.lang.Say("policy_why"), legible.Line(x.said(e.ReasonSaid, e.Reason))})
	}
	a.Facts = append(a.Facts, fact{x.lang.Say("policy_message"), legible.Line(e.Message)})
	for _, step := range e.Steps {
		name := strconv.Itoa(step.Rule.Number) + ". " + legible.Line(x.lang.Rule(step.Rule.Name))
		if step.Rule.Number == 0 {
			name = x.lang.Say("policy_otherwise")
		}
		a.Steps = append(a.Steps, stepShown{name, x.lang.Say("policy_step_" + string(step.Result)),
			legible.Line(x.said(step.Said, step.Why)), step.Result == policy.StepDecides})
	}
	if e.Guard != nil {
		a.Steps = append(a.Steps, guardStep(x, e.Guard))
	}
	return a
}
