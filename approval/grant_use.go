package approval

import (
	"bytes"
	"strings"
	"time"

	"countersign/approval/args"
	"countersign/approval/correlation"
	"countersign/approval/message"
)

// What a grant, or a standing denial, answers: a call that the policy asks about, after it was judged and before
// anybody is asked.

// ReasonGranted is the reason code of a call that a grant lets through, and why a request ends that a grant covers
// now.
const ReasonGranted = "granted"

// Why a grant ended that ended by itself, beside [EndFrozen], [EndRestored] and [EndClock].
const (
	grantExpired       = "expired"
	grantUsedUp        = "used_up"
	grantRevoked       = "revoked"
	grantLifted        = "lifted"
	grantReplaced      = "replaced" // its maker gave the same decision for another while
	grantPolicyChanged = reasonPolicyChanged
	grantToolChanged   = reasonToolChanged
	grantMakerChanged  = "maker_changed" // whoever made it could not approve the call any more
)

// answers are the grants that may answer a call.
type answers struct {
	denial *Grant  // the standing denial that does
	live   []Grant // the others that have not ended, newest first
}

// answersTo reads what may answer a call, with what is over ended.
func (w GrantWork) answersTo(j *judged) (a answers, err error) {
	c := &j.call
	all, err := w.tx.GrantsFor(c.Agent, c.Scope, c.Server, c.Tool)
	if err != nil || len(all) == 0 {
		return a, err
	}
	for _, gr := range all {
		if over, err := w.endOver(&gr); err != nil || over {
			if err != nil {
				return a, err
			}
			continue
		}
		switch {
		case !gr.Deny && gr.Method != c.Method: // what a caller named as that method, or the other way about
		case !gr.Deny:
			a.live = append(a.live, gr)
		case a.denial == nil && gr.denies(j):
			a.denial = &gr
		}
	}
	return a, nil
}

// denies reports whether a standing denial is of a call: of the very args, whatever the rule ignores by now.
func (gr *Grant) denies(j *judged) bool {
	if gr.Session != "" && gr.Session != j.call.SessionID {
		return false
	}
	return gr.ArgsHash == j.key.ArgsHash || gr.ArgsHash == j.call.Args.Hash(gr.IgnoredArgs...)
}

// deny answers a call with a standing denial, in the words of the denial that it was made with.
func (w GrantWork) deny(j *judged, gr *Grant, out Answer) (Answer, error) {
	r, err := w.tx.Request(gr.RequestID)
	if err != nil {
		return Answer{}, err
	}
	gr.Used++
	if err := w.tx.PutGrant(*gr); err != nil {
		return Answer{}, err
	}
	out.Kind, out.Message, out.Request, out.Grant = AnswerDenied, message.Denied(r.WhoEnded(), r.ResolveReason), &r, gr
	e := j.event(EventCallDenied, string(Deny), "denied_by_person")
	e.ApprovalID = r.ID
	e.Data = marshal(map[string]any{"grant_id": gr.ID, "args": w.g.records.auditArgs(j.call.Args.Canonical()),
		"args_hash": j.key.ArgsHash})
	if err := w.audit(e); err != nil {
		return Answer{}, err
	}
	return out, w.endUsedUp(gr)
}

// fit is what a grant says of a call.
type fit struct {
	covers bool
	spent  map[string]string // with this call, where it covers it
	ends   string            // why the grant ends instead, "" for not
}

// fits is the one rule of whether a grant that is not over answers a call as it was judged. A call that the grant
// does not cover says nothing against it.
func (w GrantWork) fits(gr *Grant, j *judged) (fit, error) {
	c, v := &j.call, &j.verdict
	if gr.Session != "" && gr.Session != c.SessionID {
		return fit{}, nil
	}
	spent, ok, err := gr.coversArgs(w.tx, j)
	if err != nil || !ok {
		return fit{}, err
	}
	switch {
	case j.changed || c.ToolDigest != "" && gr.ToolDigest != "" && !j.sameTool(gr.ToolDigest, gr.MadeAt):
		return fit{ends: grantToolChanged}, nil
	case !j.sameTool(gr.ToolDigest, gr.MadeAt) || gr.ToolSeen && !c.ToolSeen: // nobody says that it is the same tool
		return fit{}, nil
	case !gr.holdsUnder(v) || gr.Terms.IsZero() && gr.ArgsHash != j.key.ArgsHash:
		return w.underOthers(gr, j)
	}
	ok, err = w.couldMake(gr, v.Need)
	if err != nil || !ok {
		return fit{ends: grantMakerChanged}, err
	}
	return fit{covers: true, spent: spent}, nil
}

// coversArgs reports whether a call's args are those of the grant, as far as they may not differ, and returns what is
// spent with them. What the rule ignores counts: the grant's maker was shown that too. That the rule ignores other args
// by now makes no other call of it: it ends the grant.
func (gr *Grant) coversArgs(tx Tx, j *judged) (spent map[string]string, ok bool, err error) {
	if j.call.Args.Ambiguous() {
		return nil, false, nil
	}
	if gr.Terms.IsZero() {
		ok, err := gr.isOfArgs(tx, j)
		return gr.Spent, ok, err
	}
	approved, err := args.Parse(gr.Args)
	if err != nil {
		return nil, false, nil
	}
	spent, ok = gr.Terms.Covers(approved, j.call.Args, gr.Spent)
	return spent, ok, nil
}

// isOfArgs reports whether a call's args are those that the grant was made for, to the byte: only those are read that
// the hash leaves something out of.
func (gr *Grant) isOfArgs(tx Tx, j *judged) (bool, error) {
	if gr.ArgsHash != j.call.Args.Hash(gr.IgnoredArgs...) {
		return false, nil
	}
	if len(gr.IgnoredArgs) == 0 {
		return true, nil
	}
	whole, err := tx.Grant(gr.ID)
	return err == nil && bytes.Equal(whole.Args, j.call.Args.Canonical()), err
}

// holdsUnder reports whether the rule that a call was judged by is the one that the grant was made under, and still
// has it be given for longer.
func (gr *Grant) holdsUnder(v *Verdict) bool {
	return v.Action == Quarantine && !v.Observe && v.Grants != nil &&
		v.RuleDigest != "" && v.RuleDigest == gr.RuleDigest &&
		v.Risk.Rank() <= gr.Risk.Rank() && v.Risk != RiskCritical && v.Need.OnePerson()
}

// underOthers says what becomes of a grant that covers a call which is not judged as the grant's own was. Where the
// grant's own still is, this call only falls under another rule, and is asked about.
func (w GrantWork) underOthers(gr *Grant, j *judged) (fit, error) {
	if gr.Terms.IsZero() {
		return fit{ends: grantPolicyChanged}, nil
	}
	own, err := args.Parse(gr.Args)
	if err != nil {
		return fit{}, err
	}
	c := j.call
	c.Args = own
	if v := w.g.Policy().Evaluate(w.ctx, c); !gr.holdsUnder(&v) {
		return fit{ends: grantPolicyChanged}, nil
	}
	return fit{}, nil
}

// couldMake reports whether whoever made a grant could approve its request now.
func (w GrantWork) couldMake(gr *Grant, need *Need) (bool, error) {
	if w.g.dir == nil {
		return true, nil
	}
	r := Request{ID: gr.RequestID, Agent: gr.Agent, Rule: gr.Rule, RuleDigest: gr.RuleDigest,
		RequestedAt: gr.MadeAt}
	if need != nil && len(need.Escalate) > 0 { // they may have come in that way
		h, err := w.tx.Head(gr.RequestID)
		if err != nil {
			return false, err
		}
		r.RequestedAt = h.RequestedAt
	}
	e := w.Votes().electorate(&r, need)
	return e.counts(Vote{Stage: 1, Person: gr.By, For: gr.For, Approve: true})
}

// answerByGrant answers a call by a grant. The answer is without a kind where none covers it: those that it shows to be
// over end. A grant of whose last use it is not known what came of it covers nothing, and neither does one that was
// made before that.
func (w GrantWork) answerByGrant(j *judged, out Answer) (Answer, error) {
	var use *Grant
	var suspended time.Time
	for i := range j.grants {
		gr := &j.grants[i]
		f, err := w.fits(gr, j)
		if err != nil {
			return Answer{}, err
		}
		switch {
		case f.ends != "":
			if err := w.endGrant(gr, Actor{Kind: System, Name: "policy"}, w.tx.Now(), f.ends); err != nil {
				return Answer{}, err
			}
		case !f.covers:
		case !gr.SuspendedAt.IsZero():
			if gr.SuspendedAt.After(suspended) {
				suspended = gr.SuspendedAt
			}
		case use == nil:
			gr.Spent = f.spent
			use = gr
		}
	}
	if use == nil || !use.MadeAt.After(suspended) {
		return Answer{}, nil
	}
	return w.useGrant(j, use, out)
}

// useGrant lets a call through by a grant, once.
func (w GrantWork) useGrant(j *judged, gr *Grant, out Answer) (Answer, error) {
	if err := w.ctx.Err(); err != nil { // nobody is there any more to run it
		return Answer{}, Errorf(CodeStoreUnavailable, "The caller went away; the grant was not used.")
	}
	if err := w.refuseInDoubt(gr.ExpiresAt); err != nil {
		return Answer{}, err
	}
	u := GrantUse{ID: w.tx.NewID(), GrantID: gr.ID, ArgsHash: j.key.ArgsHash, Session: j.call.SessionID,
		CorrelationID: correlation.Of(w.ctx), At: w.tx.Now()}
	if j.call.Dispatch {
		u.DispatchedAt, u.Runner = u.At, j.call.Runner
	}
	gr.Used++
	if err := w.tx.PutGrant(*gr); err != nil {
		return Answer{}, err
	}
	if err := w.tx.PutGrantUse(u); err != nil {
		return Answer{}, err
	}
	recent, err := w.tx.Recent(j.key)
	if err != nil {
		return Answer{}, err
	}
	recent.Use = &Use{RequestID: u.ID, ApprovedBy: gr.Maker(), ApprovedAt: gr.MadeAt, ConsumedAt: u.At,
		DispatchedAt: u.DispatchedAt}
	if err := w.tx.PutRecent(j.key, recent); err != nil {
		return Answer{}, err
	}
	out.Kind, out.Message, out.ReasonCode, out.Grant = AnswerAllow, gr.message(), ReasonGranted, gr
	if j.call.Dispatch {
		out.RunID = u.ID
	}
	if err := w.audit(w.g.records.useEvent(j, gr, &u)); err != nil {
		return Answer{}, err
	}
	return out, w.endUsedUp(gr)
}

func (l *AuditLog) useEvent(j *judged, gr *Grant, u *GrantUse) Event {
	e := j.event(EventGrantUsed, string(Allow), ReasonGranted)
	e.ApprovalID = gr.RequestID
	m := l.masker.Load()
	data := map[string]any{"grant_id": gr.ID, "use_id": u.ID, "args": l.auditArgs(j.call.Args.Canonical()),
		"args_hash": u.ArgsHash, "rule": j.verdict.Rule}
	if gr.Uses > 0 {
		data["uses_left"] = gr.Left()
	}
	for name, value := range map[string]string{"scope": j.call.Scope, "session_id": j.call.SessionID,
		"turn_id": j.call.TurnID, "method": j.call.Method} {
		if value != "" {
			data[name] = m.Line(value)
		}
	}
	e.Data = marshal(data)
	return e
}

// Left is how many uses a grant that has a number of them has left.
func (gr *Grant) Left() int { return max(0, gr.Uses-gr.Used) }

// Maker names who made the grant, and for whom: ken, or "ken for hana".
func (gr *Grant) Maker() string { return Vote{Person: gr.By, For: gr.For}.Voter() }

// message is what the model is told whose call a grant lets through.
func (gr *Grant) message() string {
	lasts, left := gr.ExpiresAt.Sub(gr.MadeAt), -1
	if gr.Session != "" {
		lasts = 0
	}
	if gr.Uses > 0 {
		left = gr.Left()
	}
	return message.Granted(gr.Maker(), lasts, left)
}

// endUsedUp ends a grant that has no uses left.
func (w GrantWork) endUsedUp(gr *Grant) error {
	if gr.Uses == 0 || gr.Used < gr.Uses {
		return nil
	}
	return w.endGrant(gr, Actor{Kind: System, Name: "policy"}, w.tx.Now(), grantUsedUp)
}

// endOver ends a grant that is over: its time has come, or its agent was frozen since. A standing denial outlives a
// freeze.
func (w GrantWork) endOver(gr *Grant) (bool, error) {
	if !gr.EndedAt.IsZero() {
		return true, nil
	}
	e, err := w.findFreezeOfGrant(gr)
	switch {
	case err != nil:
		return false, err
	case e != nil:
		return true, w.endGrant(gr, frozeIt(e), e.FrozenAt, frozenCode(e))
	case !w.tx.Now().Before(gr.ExpiresAt):
		return true, w.endGrant(gr, Actor{Kind: System, Name: "timeout"}, gr.ExpiresAt, grantExpired)
	}
	return false, nil
}

// findFreezeOfGrant returns the freeze that ended a grant, nil for none: one that came before its time had.
func (w GrantWork) findFreezeOfGrant(gr *Grant) (*Epoch, error) {
	if gr.Deny {
		return nil, nil
	}
	es, err := w.Freezes().epochsOf(gr.Agent)
	for i, e := range es {
		if gr.ID < e.ID && e.FrozenAt.Before(gr.ExpiresAt) {
			return &es[i], err
		}
	}
	return nil, err
}

// frozeIt is who froze, as an actor.
func frozeIt(e *Epoch) Actor {
	if name, ok := strings.CutPrefix(e.FrozenBy, "system:"); ok {
		return Actor{Kind: System, Name: name}
	}
	return Actor{Kind: Human, Name: e.FrozenBy}
}

// frozenCode is why what a freeze ended is over.
func frozenCode(e *Epoch) string {
	if e.Via == ViaSystem {
		return e.Reason
	}
	return EndFrozen
}

// endGrant ends a grant, or a standing denial.
func (w GrantWork) endGrant(gr *Grant, by Actor, at time.Time, code string) error {
	if at.IsZero() || at.Before(gr.MadeAt) {
		at = w.tx.Now()
	}
	gr.EndedAt, gr.EndedBy, gr.EndCode = at, by.String(), code
	if err := w.tx.PutGrant(*gr); err != nil {
		return err
	}
	e := gr.event(EventGrantEnded)
	e.Actor, e.Reason = by.String(), code
	e.Data = marshal(map[string]any{"grant_id": gr.ID, "used": gr.Used})
	return w.audit(e)
}

// event tells of what happens to a grant.
func (gr *Grant) event(t EventType) Event {
	e := Event{Type: t, ApprovalID: gr.RequestID, Agent: gr.Agent, Tool: target(gr.Server, gr.Tool), Risk: gr.Risk,
		Decision: "approve"}
	if gr.Deny {
		e.Decision = "deny"
	}
	return e
}

// grantInstead answers a call whose request waits for a person by a grant that covers it now, and ends the request, if
// that is of the same args: it goes on waiting where it differs in what the rule ignores. The answer is without a kind
// where no grant covers the call.
func (w GrantWork) grantInstead(j *judged, r *Request, out Answer) (Answer, error) {
	used, err := w.answerByGrant(j, out)
	if err != nil || used.Kind == "" || !bytes.Equal(r.Args, j.call.Args.Canonical()) {
		return used, err
	}
	_, err = w.cancel(*r, Actor{Kind: System, Name: "policy"}, ViaSystem, ReasonGranted)
	return used, err
}

// isOfGrant reports whether a request ended because a grant covered the same call.
func (r *Request) isOfGrant() bool {
	return r.Status == Cancelled && r.ResolvedVia == ViaSystem && r.ResolveReason == ReasonGranted
}

// waitedGranted answers a caller who waited for a request that a grant took the place of: by the grant, if it covers
// their call too.
func (w waiter) waitedGranted(c *Call, r *Request, still func() error) (Answer, error) {
	out, err := w.asJudged(*c, "", still, func(w *Work, j judged) (Answer, error) {
		if err := checkAgent(w.g.dir, j.call.Agent); err != nil {
			return Answer{}, err
		}
		j, changed, err := w.toolPins().compareTool(j)
		if err != nil {
			return Answer{}, err
		}
		if out, ok, err := w.Freezes().denyFrozen(&j); err != nil || ok {
			return out, err
		}
		if j.verdict.Action != Quarantine || j.verdict.Observe {
			return Answer{}, nil
		}
		out := Answer{Risk: j.verdict.Risk, Rule: j.verdict.Rule, ReasonCode: j.verdict.ReasonCode}
		a, err := w.Grants().answersTo(&j)
		switch {
		case err != nil:
			return Answer{}, err
		case a.denial != nil:
			return w.Grants().deny(&j, a.denial, out)
		}
		recent, err := w.tx.Recent(j.key)
		if err != nil || recent.DeniedID != "" {
			return Answer{}, err
		}
		j.grants, j.changed = a.live, changed
		return w.Grants().answerByGrant(&j, out)
	})
	if err == nil && out.Kind == "" {
		return Ended(r.ByWall(w.store)), nil
	}
	return out.byWall(w.store), err
}

// stepGrants is how many grants one transaction ends at most.
const stepGrants = stepRequests

// endDueGrants ends the grants whose time has come, in steps.
func (w upkeep) endDueGrants() (int, error) {
	some, err := Look(w.ctx, w.Gate, func(w *Work) ([]Grant, error) { return w.tx.DueGrants(1) })
	if err != nil || len(some) == 0 {
		return 0, err
	}
	return inSteps(w.ctx, w.Gate, WholeStore(), func(w *Work) (step, error) { // what is due is anybody's
		due, err := w.tx.DueGrants(stepGrants)
		if err != nil {
			return step{}, err
		}
		for i := range due {
			if _, err := w.Grants().endOver(&due[i]); err != nil {
				return step{}, err
			}
		}
		return step{len(due), len(due) == stepGrants}, nil
	})
}

// endGrantsBefore ends as many of the grants that a freeze has ended as one transaction should, those with a smaller
// id than after.
func (w GrantWork) endGrantsBefore(e Epoch, after string) (next string, n int, err error) {
	grants, err := w.tx.Grants(GrantQuery{Agent: e.Agent, After: after, Limit: stepGrants, Bytes: stepBytes})
	if err != nil || len(grants) == 0 {
		return "", 0, err
	}
	for i := range grants {
		over, err := w.endOver(&grants[i])
		if err != nil {
			return "", n, err
		}
		if over {
			n++
		}
	}
	return grants[len(grants)-1].ID, n, nil
}

// recheckGrants ends the grants that would not be made any more by the policy and the people of now. Without it they
// end as the next call meets them.
func (w upkeep) recheckGrants() error {
	for after := ""; ; {
		next, err := update(w.ctx, w.Gate, WholeStore(), func(w *Work) (string, error) {
			return w.Grants().recheckSomeGrants(after)
		})
		if after = next; err != nil || after == "" {
			return err
		}
	}
}

// recheckSomeGrants looks at as many grants as one transaction should, those with a smaller id than after, and
// returns the one at which it stopped; "": it was the last step.
func (w GrantWork) recheckSomeGrants(after string) (string, error) {
	grants, err := w.tx.Grants(GrantQuery{After: after, Limit: stepGrants, Bytes: stepBytes})
	if err != nil || len(grants) == 0 {
		return "", err
	}
	for i := range grants {
		gr := &grants[i]
		over, err := w.endOver(gr)
		if err != nil {
			return "", err
		}
		if over || gr.Deny {
			continue
		}
		code, err := w.whyOutdated(gr)
		if err != nil {
			return "", err
		}
		if code == "" {
			continue
		}
		if err := w.endGrant(gr, Actor{Kind: System, Name: "policy"}, w.tx.Now(), code); err != nil {
			return "", err
		}
	}
	return grants[len(grants)-1].ID, nil
}

// whyOutdated says why a grant would not be made any more for the call that it was made for, "" where it would.
func (w GrantWork) whyOutdated(gr *Grant) (string, error) {
	r, err := w.tx.Request(gr.RequestID)
	if err != nil {
		return "", err
	}
	v, err := w.verdictNow(&r)
	if err != nil {
		return "", err
	}
	if !gr.holdsUnder(&v) || !isAgent(w.g.dir, gr.Agent) {
		return grantPolicyChanged, nil
	}
	could, err := w.couldMake(gr, v.Need)
	if err == nil && !could {
		return grantMakerChanged, nil
	}
	return "", err
}

// endFrozenGrants ends the rows of the grants that a freeze has ended.
func (w upkeep) endFrozenGrants(e Epoch) (total int, err error) {
	type did struct {
		next string
		n    int
	}
	for after := e.ID; after != ""; {
		d, err := update(w.ctx, w.Gate, OfAgent(e.Agent), func(w *Work) (did, error) {
			next, n, err := w.Grants().endGrantsBefore(e, after)
			return did{next, n}, err
		})
		if total += d.n; err != nil {
			return total, err
		}
		after = d.next
	}
	return total, nil
}
