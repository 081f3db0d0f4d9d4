package approval

import (
	"errors"
	"slices"
	"time"
)

// How a decision is given for longer: with it, in its own transaction, or a little later by whoever made it.

// Bounds of a [GrantWish].
const (
	MaxGrantUses = 10_000
	// grantAfter is for how long after a decision it may be given for longer.
	grantAfter = 15 * time.Minute
	// maxGrants is how many hold at a time for one tool of an agent.
	maxGrants = 100
)

// problem says what is wrong with a wish, "" for nothing.
func (w *GrantWish) problem() string {
	switch {
	case *w == GrantWish{}:
		return "A grant needs a time, a number of uses, or the session."
	case w.For < 0 || w.For > 0 && w.For < time.Second:
		return "A grant lasts at least one second."
	case w.Uses < 0 || w.Uses > MaxGrantUses:
		return "A grant has 1 to 10000 uses."
	}
	return ""
}

// mayGrant is the one rule of whether a decision on r, as it is known now, may be given for longer, whoever makes it;
// nil: it may. Of a denial nothing but the wish can be wrong.
func (w GrantWork) mayGrant(r *Request, d *Decision) (*Error, error) {
	if problem := d.Grant.problem(); problem != "" {
		return &Error{Code: CodeInvalidParameter, Message: problem, Request: r}, nil
	}
	refuse := func(why string) (*Error, error) {
		return &Error{Code: CodeGrantRefused, Message: why, Request: r}, nil
	}
	switch {
	case d.Grant.For > MaxGrant:
		return refuse("A grant lasts at most 24 hours.")
	case d.Grant.Session && r.SessionID == "":
		return refuse("This request has no session; give a time or a number of uses.")
	}
	if d.Approve {
		v, err := w.verdictNow(r)
		if err != nil {
			return nil, err
		}
		es, err := w.Freezes().epochsOf(r.Agent)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(es, func(e Epoch) bool { return r.ID < e.ID }) {
			return refuse("Its agent was frozen since then. Let the next decision last longer instead.")
		}
		if why := notForLonger(r, &v); why != "" {
			return refuse(why)
		}
	}
	all, err := w.tx.GrantsFor(r.Agent, r.Scope, r.Server, r.Tool)
	if err != nil {
		return nil, err
	}
	if len(all) >= maxGrants {
		return refuse("This tool has as many grants as are allowed; revoke some first.")
	}
	return nil, nil
}

// notForLonger says why an approval of r cannot be given for longer as the policy judges its call now, "" where it
// can.
func notForLonger(r *Request, v *Verdict) string {
	switch {
	case r.Risk == RiskCritical || v.Risk == RiskCritical:
		return "A critical call is approved for one use only."
	case r.Replaces != "":
		return editedForOnce
	case !r.Need.Stricter(v.Need).OnePerson():
		return "A call that needs several people, a second yes or a passkey is approved for one use only."
	case v.Action != Quarantine || v.Observe || v.Grants == nil || v.RuleDigest == "":
		return "The policy does not let an approval of this call last longer."
	}
	return ""
}

// verdictNow judges the call of a request by the policy in force.
func (w GrantWork) verdictNow(r *Request) (Verdict, error) {
	c, err := r.call()
	if err != nil {
		return Verdict{}, err
	}
	return w.g.Policy().Evaluate(w.ctx, c), nil
}

// refuseGrant says why a decision that may be carried out may not be given for longer as it asks for; nil: it may, or
// does not ask.
func (w GrantWork) refuseGrant(r *Request, d *Decision) (*Error, error) {
	if d.Grant == nil {
		return nil, nil
	}
	refusal, err := w.mayGrant(r, d)
	if refusal != nil {
		refusal.Message = "Nothing was decided. " + refusal.Message
	}
	return refusal, err
}

const editedForOnce = "An approval of edited arguments is for one use only."

// editedGrant refuses to give an approval of other args for longer.
func editedGrant(r *Request) *Error {
	return &Error{Code: CodeGrantRefused, Request: r, Message: "Nothing was decided. " + editedForOnce}
}

// grantWith stores what gives a decision for longer that was just made, if it asks for that.
func (w GrantWork) grantWith(r *Request, d *Decision, forWhom string) error {
	if d.Grant == nil {
		return nil
	}
	_, err := w.makeGrant(r, d, forWhom)
	return err
}

// makeGrant stores what gives a decision for longer. forWhom is whom its maker stood in for.
func (w GrantWork) makeGrant(r *Request, d *Decision, forWhom string) (Grant, error) {
	now, wish := w.tx.Now(), d.Grant
	gr := Grant{
		ID: w.tx.NewID(), Deny: !d.Approve, Agent: r.Agent, Scope: r.Scope, Server: r.Server, Tool: r.Tool,
		Method: r.Method, Args: r.Args, ArgsHash: r.ArgsHash, IgnoredArgs: r.IgnoredArgs, RequestID: r.ID,
		Rule: r.Rule, Risk: r.Risk,
		ToolDigest: r.ToolDigest, ToolSeen: r.ToolSeen, By: d.By.Name, For: forWhom, Via: d.Via, Reason: d.Reason,
		MadeAt: now, ExpiresAt: now.Add(lastsFor(wish)), Uses: wish.Uses,
	}
	if forWhom != "" {
		gr.Who = gr.Maker()
	}
	if wish.Session {
		gr.Session = r.SessionID
	}
	if d.Approve {
		v, err := w.verdictNow(r)
		if err != nil {
			return Grant{}, err
		}
		if notForLonger(r, &v) != "" {
			return Grant{}, Errorf(CodeGrantRefused, "The policy changed meanwhile; nothing was decided.")
		}
		gr.Rule, gr.RuleDigest, gr.Terms = v.Rule, v.RuleDigest, *v.Grants
		if v.Risk.Rank() > gr.Risk.Rank() {
			gr.Risk = v.Risk
		}
	}
	if err := w.tx.PutGrant(gr); err != nil {
		return Grant{}, err
	}
	return gr, w.auditGranted(r, &gr)
}

// lastsFor is how long a wished-for grant lasts, in whole milliseconds.
func lastsFor(w *GrantWish) time.Duration {
	if w.For == 0 {
		return MaxGrant
	}
	return w.For.Truncate(time.Millisecond)
}

func (w GrantWork) auditGranted(r *Request, gr *Grant) error {
	e := gr.event(EventGranted)
	e.Actor, e.Reason = gr.By, gr.Reason
	fields := map[string]any{"grant_id": gr.ID, "via": string(gr.Via), "for": gr.For,
		"for_seconds": int64(gr.ExpiresAt.Sub(gr.MadeAt) / time.Second),
		"expires_at":  FormatTime(w.g.store.ToWall(gr.ExpiresAt)),
		"session_id":  w.g.records.masker.Load().Line(gr.Session)}
	if gr.Uses > 0 {
		fields["uses"] = gr.Uses
	}
	if !gr.Terms.IsZero() {
		fields["terms"] = gr.Terms
	}
	e.Data = w.g.records.decisionData(w.ctx, r, fields)
	return w.auditFor(r, e)
}

// May reports whether an approval of the request, which is pending or was just approved, could be given for
// longer as the policy stands, and by a person. For one that was just denied it says so of the denial.
func (w GrantWork) May(r Request, by Actor) (bool, error) {
	d := Decision{RequestID: r.ID, Approve: r.Status != Denied, By: w.g.ActorNow(by), Grant: &GrantWish{For: MaxGrant}}
	if r.Status == Pending {
		if may, err := w.Votes().MayVote(r, by); err != nil || !may {
			return false, err
		}
		refusal, err := w.mayGrant(&r, &d)
		return refusal == nil && err == nil, err
	}
	refusal, _, err := w.mayGrantAfter(&r, &d)
	return refusal == nil && err == nil, err
}

// mayGrantAfter is the one rule of whether a decision that was made may be given for longer; nil: it may, and for
// whom its maker stood in.
func (w GrantWork) mayGrantAfter(r *Request, d *Decision) (refusal *Error, forWhom string,
	err error) {
	refuse := func(code Code, why string) (*Error, string, error) {
		return &Error{Code: code, Message: why, Request: r}, "", nil
	}
	decided := (r.Status == Approved || r.Status == Denied && r.EndCode == "") && r.ResolvedVia != ViaSystem
	switch {
	case !d.By.MayDecide(), r.Status != Pending && r.ResolvedBy != d.By.Name:
		return refuse(CodeNotAnApprover, "Only the person who decided it can let the decision last longer.")
	case !decided:
		return refuse(CodeGrantRefused, "This request was not simply approved or denied.")
	case !r.ArgsRemovedAt.IsZero():
		return refuse(CodeGrantRefused, "The arguments of this request were removed. Let the next decision last longer.")
	case w.tx.Now().Sub(r.ResolvedAt) >= grantAfter:
		return refuse(CodeGrantRefused, "It was decided too long ago. Let the next decision last longer instead.")
	}
	if refusal, err = w.mayGrant(r, d); err != nil || refusal != nil {
		return refusal, "", err
	}
	votes, err := w.tx.Votes(r.ID)
	if err != nil {
		return nil, "", err
	}
	for _, v := range votes {
		if v.Person == d.By.Name {
			forWhom = v.For
		}
	}
	if !d.Approve {
		return nil, forWhom, nil
	}
	v, err := w.verdictNow(r)
	if err != nil {
		return nil, "", err
	}
	if v.RequireReason && r.ResolveReason == "" {
		return refuse(CodeGrantRefused, "The policy asks for a reason by now, and this approval has none.")
	}
	ok, err := w.couldMake(&Grant{Agent: r.Agent, Rule: v.Rule, RuleDigest: v.RuleDigest, RequestID: r.ID,
		By: d.By.Name, For: forWhom, MadeAt: w.tx.Now()}, v.Need)
	if err == nil && !ok {
		return refuse(CodeNotAnApprover, "You can no longer approve this request.")
	}
	return nil, forWhom, err
}

// Make gives a decision for longer after it was made, as from the menu of a decided card: whoever made it may,
// while the request's grant would still be made. One that was made with it before ends. Errors, which are on record
// where tx commits all the same: [CodeNotFound], [CodeNotAnApprover], [CodeInvalidParameter], [CodeGrantRefused].
func (w GrantWork) Make(by Actor, via Via, id string, wish GrantWish) (Grant, error) {
	r, err := w.Request(id)
	if errors.Is(err, ErrNotFound) {
		return Grant{}, Errorf(CodeNotFound, noSuchRequest)
	}
	if err != nil {
		return Grant{}, err
	}
	d := Decision{RequestID: id, Approve: r.Status == Approved, By: w.g.ActorNow(by), Via: via, Reason: r.ResolveReason,
		Grant: &wish}
	refusal, forWhom, err := w.mayGrantAfter(&r, &d)
	if err != nil {
		return Grant{}, err
	}
	if refusal != nil {
		e := requestEvent(r, EventDecisionRefused)
		e.Actor, e.Decision, e.Reason = d.By.String(), "grant", string(refusal.Code)
		e.Data = marshal(map[string]any{"via": via})
		if err := w.audit(e); err != nil {
			return Grant{}, err
		}
		return Grant{}, refusal.byWall(w.g.store)
	}
	live, err := w.tx.GrantsFor(r.Agent, r.Scope, r.Server, r.Tool)
	if err != nil {
		return Grant{}, err
	}
	for i := range live {
		if live[i].RequestID != r.ID {
			continue
		}
		if err := w.endGrant(&live[i], d.By, w.tx.Now(), grantReplaced); err != nil {
			return Grant{}, err
		}
	}
	gr, err := w.makeGrant(&r, &d, forWhom)
	return gr.ByWall(w.g.store), err
}
