package approval

import "countersign/approval/message"

// consume lets the approved call through. The conditional statement decides; whoever finds it spent is
// not let through.
func (w *Work) consume(r Request, c *Call) (Request, error) {
	if err := w.ctx.Err(); err != nil { // nobody is there any more to run it
		return r, Errorf(CodeStoreUnavailable, "The caller went away; the approval was not used.")
	}
	if err := w.refuseInDoubt(r.UseBy); err != nil {
		return r, err
	}
	ok, err := w.tx.Consume(r.ID, c.Dispatch, c.Runner)
	if err != nil {
		return r, err
	}
	if !ok {
		return r, Errorf(CodeStoreUnavailable, "The approval could not be used; ask again.")
	}
	r.ConsumedAt = w.tx.Now()
	r.AckedAt = r.ConsumedAt
	if c.Dispatch {
		r.DispatchedAt, r.Runner = r.ConsumedAt, c.Runner
	}
	use := Use{RequestID: r.ID, ApprovedBy: r.WhoEnded(), ApprovedAt: r.ResolvedAt, ConsumedAt: r.ConsumedAt,
		DispatchedAt: r.DispatchedAt}
	if err := w.tx.PutRecent(r.Key(), Recent{Use: &use}); err != nil {
		return r, err
	}
	e := requestEvent(r, EventApprovalConsumed)
	e.Actor = Actor{Kind: Agent, Name: r.Agent}.String()
	return r, w.audit(e)
}

// useOnce uses the approval for the call as it was judged, if it may be.
func (w *Work) useOnce(j judged, id string) (Answer, error) {
	out, r, err := w.tryUse(j, id)
	if err == nil && out.Kind == "" {
		return Ended(r.ByWall(w.g.store)), nil
	}
	return out, err
}

// tryUse is useOnce that has no answer, and changes nothing, where r is not approved, or was used or ended since.
func (w *Work) tryUse(j judged, id string) (out Answer, r Request, err error) {
	if r, err = w.Request(id); err != nil {
		return out, r, err
	}
	if r.Live() {
		if err := checkAgent(w.g.dir, j.call.Agent); err != nil {
			return out, r, err
		}
	}
	j, changed, err := w.toolPins().compareTool(j)
	if err != nil {
		return out, r, err
	}
	why, err := w.calls().mayUseNow(&r, &j, changed)
	if err != nil {
		return out, r, err
	}
	switch why {
	case usable:
	case unusable:
		return out, r, nil
	case otherArgs:
		v := j.verdict
		out, err = w.edits().notAsApproved(&j, &r, &r, Answer{Risk: v.Risk, Rule: v.Rule})
		return out.byWall(w.g.store), r, err
	case deniedNow:
		v := j.verdict
		j.data = w.g.records.callData(j)
		return Answer{Kind: AnswerDenied, Message: message.PolicyDenied(v.ReasonCode, v.Message), Risk: v.Risk, Rule: v.Rule,
				ReasonCode: v.ReasonCode}, r,
			w.audit(j.event(EventCallDenied, string(Deny), v.ReasonCode))
	default:
		r, err = w.cancel(r, Actor{Kind: System, Name: "policy"}, ViaSystem, string(why))
		out = Ended(r.ByWall(w.g.store))
		out.ReasonCode = string(why)
		return out, r, err
	}
	if r, err = w.consume(r, &j.call); err != nil {
		return out, r, err
	}
	if err := w.toolPins().pinFirst(&j); err != nil {
		return out, r, err
	}
	out = w.calls().letThrough(&j, &r, Answer{Risk: r.Risk, Rule: r.Rule, ReasonCode: r.ReasonCode})
	return out.byWall(w.g.store), r, nil
}
