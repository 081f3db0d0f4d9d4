package approval

import (
	"bytes"
	"context"
	"errors"
	"time"

	"countersign/approval/message"
)

// Schemas says whether arguments are what a tool takes. It is asked outside of transactions.
type Schemas interface {
	// CheckArgs returns a sentence about what is wrong, "" where nothing is or where the tool's schema is not known.
	CheckArgs(ctx context.Context, server, tool string, canonical []byte) string
}

// approveEdited approves other args in place of those that were asked for. One transaction ends the request, as denied
// and replaced, and makes the request of the new args with the editor's vote.
func approveEdited(ctx context.Context, g *Gate, d Decision) (Request, error) {
	asked, err := Look(ctx, g, func(w *Work) (Request, error) {
		r, err := w.tx.Request(d.RequestID)
		if errors.Is(err, ErrNotFound) {
			return Request{}, nil
		}
		return r, err
	})
	if err != nil {
		return Request{}, err
	}
	if !asked.ArgsRemovedAt.IsZero() { // it is over
		asked.Args = d.Args.Canonical()
	}
	c, err := asked.call()
	if err != nil {
		return Request{}, err
	}
	c.Args = *d.Args
	wrong := ""
	if g.schemas != nil && asked.ID != "" {
		wrong = g.schemas.CheckArgs(ctx, c.Server, c.Tool, c.Args.Canonical())
	}
	for {
		in := g.policy.Load()
		j := g.judge(ctx, *in, c)
		res, err := update(ctx, g, OfID(d.RequestID), func(w *Work) (resolved, error) {
			if g.policy.Load() != in {
				return resolved{}, errPolicyChanged
			}
			return w.edits().editIn(d, &j, wrong)
		})
		if !errors.Is(err, errPolicyChanged) {
			return tell(g, res, err)
		}
	}
}

// editIn is the transaction of an edit. wrong says what the tool's schema has against the new args.
func (w editWork) editIn(d Decision, j *judged, wrong string) (resolved, error) {
	r, err := w.Request(d.RequestID)
	switch {
	case errors.Is(err, ErrNotFound):
		return w.decide(d)
	case err != nil:
		return resolved{}, err
	case bytes.Equal(r.Args, j.call.Args.Canonical()): // nothing is another
		d.Args = nil
		return w.decide(d)
	}
	d.proven = d.isProven(w.g.prover, &r, j.call.Args.Canonical(), w.tx.Now())
	b, r, err := w.ballotOf(r, &d)
	if err != nil {
		return resolved{}, err
	}
	refusal := w.refusalOf(r, d, &b)
	v := &j.verdict
	switch {
	case refusal != nil:
	case wrong != "":
		refusal = &Error{Code: CodeInvalidArgs, Message: wrong, Request: &r}
	case v.Action == Deny && !v.Observe:
		refusal = &Error{Code: CodePolicyDenied, Message: message.PolicyDenied(v.ReasonCode, v.Message), Request: &r}
	case d.Grant != nil:
		refusal = editedGrant(&r)
	case v.Action == Quarantine && v.Need != nil && v.Need.StepUp && !d.proven:
		refusal = &Error{Code: CodeStepUpRequired, Request: &r, Message: w.stepUpMessage(r.ID)}
	case v.Action == Quarantine && v.RequireReason && d.Reason == "":
		refusal = &Error{Code: CodeReasonRequired, Request: &r, Message: "An approval of these args needs a reason."}
	case v.Action == Quarantine && v.Need != nil && v.Need.Confirm && !d.Confirmed:
		refusal = &Error{Code: CodeConfirmRequired, Request: &r,
			Message: "These args need a second yes: approve them once more to confirm."}
	}
	var next *Request
	if refusal == nil {
		if next, refusal, err = w.livesAs(&r, j); err != nil {
			return resolved{}, err
		}
	}
	if refusal != nil {
		return resolved{r, refusal}, w.auditRefusal(r, d, refusal)
	}
	d.standsFor = b.For
	return w.replace(r, d, j, next)
}

// livesAs returns the live request of just the new args, which an edit of r joins; nil for none. One that differs in
// what the rule ignores has their key, and is not what the editor saw: nothing comes of the edit while it lives.
func (w editWork) livesAs(r *Request, j *judged) (*Request, *Error, error) {
	live, err := w.settledLive(j.key)
	switch {
	case err != nil || live == nil || live.ID == r.ID:
		return nil, nil, err
	case !bytes.Equal(live.Args, j.call.Args.Canonical()):
		return nil, Errorf(CodeInvalidArgs, "Nothing was decided. Request %s is live and differs from these arguments only "+
			"in what the rule ignores; decide or cancel that one first.", Short(live.ID)), nil
	}
	return live, nil, nil
}

// ballotOf brings a request to where it stands now and finds out what the decider may do about it; d.By takes the roles
// of now.
func (w editWork) ballotOf(r Request, d *Decision) (ballot, Request, error) {
	d.tidy(w.g)
	changed := d.isOutdated(&r)
	if r.Status != Pending || !d.By.MayDecide() {
		return ballot{changed: changed}, r, nil
	}
	r, e, t, err := w.Votes().stand(r)
	if err != nil {
		return ballot{}, r, err
	}
	b, err := e.ballot(d.By, r.Votes, &t)
	b.changed = changed
	return b, r, err
}

// replace ends a request and has the one of the new args take its place, with the editor's vote: next, if there is one.
// Both may have one key, where only what the rule ignores was changed, so the first ends before the other is made.
func (w editWork) replace(r Request, d Decision, j *judged, next *Request) (resolved, error) {
	made := next == nil
	if made {
		n := w.editedRequest(&r, j)
		next = &n
	}
	if err := w.endEdited(r, d, next); err != nil {
		return resolved{}, err
	}
	if made {
		if err := w.createEdited(&r, d, next); err != nil {
			return resolved{}, err
		}
	}
	if next.Status == Pending {
		own := d
		own.RequestID, own.Args, own.Versions = next.ID, nil, nil // what was seen is the request that this one replaces
		// Where the new args need others, theirs are asked; the editor's vote counts where they may give it.
		if _, err := w.decideOn(*next, own); err != nil {
			return resolved{}, err
		}
	}
	n, err := w.tx.Request(next.ID)
	if err != nil {
		return resolved{}, err
	}
	// Where the editor's vote has met a stage, the people of the next one have the card already, from that vote.
	if made && n.Status == Pending && n.Stage == next.Stage {
		made := []Request{n}
		to, err := w.Votes().audiences(made)
		if err != nil {
			return resolved{}, err
		}
		if _, err := w.g.notifier.Requested(w.tx, made, to, Placing{}); err != nil {
			return resolved{}, err
		}
	}
	return resolved{is: n}, nil
}

// editedRequest is the request of the new args.
func (w editWork) editedRequest(r *Request, j *judged) Request {
	v, now := &j.verdict, w.tx.Now()
	timeout := v.Timeout
	if timeout <= 0 {
		timeout = max(r.ExpiresAt.Sub(now), time.Minute)
	}
	n := Request{
		ID: w.tx.NewID(), Agent: r.Agent, Scope: r.Scope, Server: r.Server, Tool: r.Tool, Method: r.Method,
		Args: j.call.Args.Canonical(), ArgsHash: j.key.ArgsHash,
		Risk: v.Risk, Rule: v.Rule, RuleDigest: v.RuleDigest, ReasonCode: v.ReasonCode, HumanMessage: v.Message,
		Sentences:     v.Sentences,
		RequireReason: v.RequireReason && v.Action == Quarantine, TurnID: r.TurnID, SessionID: r.SessionID,
		Annotations: r.Annotations,
		ToolDigest:  r.ToolDigest, ToolSeen: r.ToolSeen, Task: r.Task, Runner: r.Runner, Status: Pending, RequestedAt: now,
		ExpiresAt: now.Add(timeout).Truncate(time.Millisecond), Policy: j.digest, Replaces: r.ID,
		CorrelationID: r.CorrelationID,
	}
	if v.Action == Quarantine {
		n.Need = v.Need
	}
	if r.ReasonCode == reasonToolChanged { // it still accepts the tool
		n.ReasonCode, n.HumanMessage, n.Sentences = r.ReasonCode, r.HumanMessage, n.Sentences.WithoutMessage()
		if r.Risk.Rank() > n.Risk.Rank() {
			n.Risk = r.Risk
		}
	}
	if !j.call.Args.Ambiguous() {
		for _, name := range v.IgnoreArgs {
			if j.call.Args.Has(name) {
				n.IgnoredArgs = append(n.IgnoredArgs, name)
			}
		}
	}
	return n
}

// createEdited stores the request of the new args.
func (w editWork) createEdited(r *Request, d Decision, n *Request) error {
	recent, err := w.tx.Recent(n.Key())
	if err != nil {
		return err
	}
	if recent.Use != nil && n.RequestedAt.Sub(recent.Use.ConsumedAt) < rememberUse {
		n.Previous = recent.Use
	}
	if err := w.tx.InsertRequest(*n); err != nil {
		return err
	}
	if err := leaveUsed(w.tx, recent.Use); err != nil {
		return err
	}
	if recent.DeniedID != "" { // this request is newer than that denial
		if err := w.tx.PutRecent(n.Key(), Recent{Use: recent.Use}); err != nil {
			return err
		}
	}
	e := requestEvent(*n, EventApprovalRequested)
	e.Actor, e.Reason = d.By.String(), n.ReasonCode
	e.Data = w.g.records.decisionData(w.ctx, n, map[string]any{"rule": n.Rule, "replaces": r.ID,
		"expires_at": FormatTime(w.g.store.ToWall(n.ExpiresAt))})
	return w.auditFor(n, e)
}

// endEdited ends the request whose args were not approved.
func (w editWork) endEdited(r Request, d Decision, next *Request) error {
	now, who := w.tx.Now(), ""
	if d.standsFor != "" {
		who = Vote{Person: d.By.Name, For: d.standsFor}.Voter()
	}
	ok, err := w.tx.Resolve(Resolution{ID: r.ID, Status: Denied, At: now, By: d.By.String(), Via: d.Via, Reason: d.Reason,
		Code: EndEdited, ReplacedBy: next.ID, Who: who})
	if err != nil {
		return err
	}
	if !ok {
		return Errorf(CodeStoreUnavailable, "The request changed while it was decided; try again.")
	}
	if err := rememberDenial(w.tx, r, now); err != nil {
		return err
	}
	if err := putSaid(w.tx, &r, &d, false, who); err != nil {
		return err
	}
	e := requestEvent(r, EventDecision)
	e.Actor, e.Decision, e.Reason = d.By.String(), "deny", d.Reason
	e.Data = w.g.records.decisionData(w.ctx, &r, map[string]any{"via": string(d.Via), "who": who, "reason_code": EndEdited,
		"replaced_by": next.ID, "new_args_hash": next.ArgsHash})
	if err := w.auditFor(&r, e); err != nil {
		return err
	}
	return w.g.notifier.Ended(w.tx, r)
}

// afterEdit answers a call in whose place other args were approved. Who accepts edits is answered as if they had asked
// for the new args. The answer is without a kind where nothing of the edit is left to say: it is asked anew.
func (w editWork) afterEdit(j *judged, edited *Request, out Answer) (Answer, error) {
	next, err := w.Request(edited.ReplacedBy)
	for err == nil && next.EndCode == EndEdited { // which was edited itself
		next, err = w.Request(next.ReplacedBy)
	}
	if err != nil || !next.Live() {
		return Answer{}, err
	}
	if !j.runs(&next) {
		return w.notAsApproved(j, edited, &next, out)
	}
	if next.Status == Pending {
		out.Kind, out.Message, out.Request = AnswerPending, message.Pending(next.ID), &next
		return out, nil
	}
	c, err := next.call()
	if err != nil {
		return Answer{}, err
	}
	c.Dispatch, c.ToolDigest, c.ListedDigest, c.ToolSeen = j.call.Dispatch, j.call.ToolDigest, j.call.ListedDigest,
		j.call.ToolSeen
	jn, changed, err := w.toolPins().compareTool(w.g.judge(w.ctx, w.g.Policy(), c))
	if err != nil {
		return Answer{}, err
	}
	why, err := w.calls().mayUseNow(&next, &jn, changed)
	if err != nil {
		return Answer{}, err
	}
	switch why {
	case usable:
	case deniedNow:
		jn.data = w.g.records.callData(jn)
		code := jn.verdict.ReasonCode
		out.Kind, out.Message, out.ReasonCode = AnswerDenied, message.PolicyDenied(code, jn.verdict.Message), code
		return out, w.audit(jn.event(EventCallDenied, string(Deny), code))
	default:
		_, err := w.cancel(next, Actor{Kind: System, Name: "policy"}, ViaSystem, string(why))
		return Answer{}, err
	}
	used, err := w.consume(next, &c)
	if err != nil {
		return Answer{}, err
	}
	if err := w.toolPins().pinFirst(&jn); err != nil {
		return Answer{}, err
	}
	return w.calls().letThrough(j, &used, out), nil
}

// notAsApproved answers a call that asked for other args than were approved, or wait for it, and would run its own: it
// is denied, and told for which to ask. asked is what it stands under.
func (w editWork) notAsApproved(j *judged, asked, approved *Request, out Answer) (Answer, error) {
	out.Kind, out.ReasonCode, out.EndCode, out.Request = AnswerDenied, EndEdited, EndEdited, asked
	if out.Message = message.Edited(approved.WhoEnded(), approved.Args); approved.Status == Pending {
		out.Message = message.Proposed(asked.WhoEnded(), approved.Args)
	}
	e := j.event(EventCallDenied, string(Deny), EndEdited)
	e.ApprovalID, e.Data = asked.ID, w.g.records.callData(*j)
	return out, w.audit(e)
}
