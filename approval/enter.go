package approval

import (
	"bytes"
	"context"
	"time"

	"countersign/approval/correlation"
	"countersign/approval/message"
)

// entered is what became of the calls of one turn.
type entered struct {
	answers []Answer
	log     func(context.Context) // to be said after the commit; nil: nothing
}

func (w callWork) enterAll(js []judged, terms Terms, b *bill) (entered, error) {
	out := entered{answers: make([]Answer, len(js))}
	for i := range js {
		if err := checkAgent(w.g.dir, js[i].call.Agent); err != nil {
			return entered{}, err
		}
	}
	p := &placer{Work: w.Work, terms: terms, bill: b}
	if len(js) > 1 {
		p.batch = w.tx.NewID()
	}
	for i := range js {
		a, err := w.enter(js[i], terms, p, b)
		if err != nil {
			return entered{}, err
		}
		out.answers[i] = a
	}
	told, err := p.announce()
	out.log = told.Log
	return out, err
}

// enter takes one call through its steps: the policy, the live request of its key, the remembered
// denial, and only then a new request.
func (w callWork) enter(j judged, terms Terms, p *placer, b *bill) (Answer, error) {
	j, changed, err := w.toolPins().compareTool(j)
	if err != nil {
		return Answer{}, err
	}
	out, err := w.enterPinned(&j, changed, terms, p, b)
	if err == nil && out.Kind != AnswerDenied {
		err = w.toolPins().pinFirst(&j)
	}
	return out, err
}

func (w callWork) enterPinned(j *judged, changed bool, terms Terms, p *placer,
	b *bill) (Answer, error) {
	if out, ok, err := w.Freezes().denyFrozen(j); err != nil || ok {
		return out, err
	}
	v := j.verdict
	out := Answer{Risk: v.Risk, Rule: v.Rule, ReasonCode: v.ReasonCode}
	if j.call.ReadFor != "" && (v.Action != Allow || v.Observe) {
		out.Kind, out.Message = AnswerDenied, message.PolicyDenied(v.ReasonCode, v.Message)
		return out, nil
	}
	if v.Action == Allow && !v.Observe && j.call.ReadFor == "" && j.pin.justAccepted(w.tx.Now(), terms.UseWithin) {
		used, err := w.toolPins().useAcceptance(j)
		if err != nil {
			return Answer{}, err
		}
		if used != nil {
			return w.calls().letThrough(j, used, out), nil
		}
	}
	switch {
	case v.Observe || v.Action == Allow:
		out.Kind, out.Message = AnswerAllow, message.Allowed
		return out, w.audit(j.event(EventCallAllowed, string(Allow), v.ReasonCode))
	case v.Action != Quarantine:
		out.Kind, out.Message = AnswerDenied, message.PolicyDenied(v.ReasonCode, v.Message)
		return out, w.audit(j.event(EventCallDenied, string(Deny), v.ReasonCode))
	}
	a, err := w.Grants().answersTo(j)
	if err != nil {
		return Answer{}, err
	}
	if a.denial != nil {
		return w.Grants().deny(j, a.denial, out)
	}
	j.grants, j.changed = a.live, changed
	live, err := w.settledLive(j.key)
	if err != nil {
		return Answer{}, err
	}
	if live != nil {
		joined, err := w.join(j, live, changed, out)
		if err != nil || joined.Kind != "" {
			return joined, err
		}
	}
	return w.ask(j, terms, p, b, out)
}

// join answers a call from the live request of its key: it is pending still, or its approval is used. An approval
// that may not be used ends, and the answer is without a kind.
func (w callWork) join(j *judged, live *Request, changed bool, out Answer) (Answer, error) {
	if s := j.call.SessionID; s != "" && s != live.SessionID {
		if err := w.tx.AddSession(live.ID, s); err != nil {
			return Answer{}, err
		}
	}
	if live.Status == Pending {
		if used, err := w.Grants().grantInstead(j, live, out); err != nil || used.Kind != "" {
			return used, err
		}
		out.Kind, out.Message, out.Request = AnswerPending, message.Pending(live.ID), live
		return out, nil
	}
	why, err := w.mayUseNow(live, j, changed)
	if err != nil {
		return Answer{}, err
	}
	switch why {
	case usable:
	case otherArgs:
		return w.edits().notAsApproved(j, live, live, out)
	default:
		_, err := w.cancel(*live, Actor{Kind: System, Name: "policy"}, ViaSystem, string(why))
		return Answer{}, err
	}
	used, err := w.consume(*live, &j.call)
	if err != nil {
		return Answer{}, err
	}
	return w.calls().letThrough(j, &used, out), nil
}

// letThrough is the answer to a call that has used an approval. Where a person has changed the args it says so.
func (w callWork) letThrough(j *judged, used *Request, out Answer) Answer {
	out.Kind, out.Request = AnswerApproved, used
	out.Message = message.Approved(used.WhoEnded(), FormatTime(w.g.store.ToWall(used.ResolvedAt)))
	if used.Replaces != "" && !bytes.Equal(used.Args, j.call.Args.Canonical()) {
		out.Args, out.Note = used.Args, message.EditedNote(used.WhoEnded(), used.Args, used.ResolveReason)
		out.Message += " " + out.Note
	}
	return out
}

// mayUseNow is [mayUse] with the votes as they count in tx.
func (w callWork) mayUseNow(r *Request, j *judged, changed bool) (usability, error) {
	enough, err := w.Votes().enough(r, &j.verdict)
	return mayUse(r, j, changed, enough, w.tx.Now()), err
}

// ask answers a call that has no live request: with the denial that is remembered, by a grant, or with a new request.
func (w callWork) ask(j *judged, terms Terms, p *placer, b *bill,
	out Answer) (Answer, error) {
	recent, err := w.tx.Recent(j.key)
	if err != nil {
		return Answer{}, err
	}
	if recent.DeniedID != "" && w.tx.Now().Sub(recent.DeniedAt) < max(terms.RememberDenial, rememberEdit) {
		done, err := w.answerRemembered(j, recent, terms, out)
		if err != nil || done.Kind != "" {
			return done, err
		}
	}
	if used, err := w.Grants().answerByGrant(j, out); err != nil || used.Kind != "" {
		return used, err
	}
	if err := w.g.space(len(j.call.Args.Canonical()) + len(j.call.Preview) + len(j.call.Rationale)); err != nil {
		return Answer{}, err
	}
	if err := b.request(); err != nil {
		return Answer{}, err
	}
	at, err := p.of(j)
	if err != nil {
		return Answer{}, err
	}
	r, err := w.create(j, recent, terms, at.cardID())
	if err != nil {
		return Answer{}, err
	}
	at.add(r, j.call.Waits)
	out.Kind, out.Message, out.Request, out.Created = AnswerPending, message.Created(r.ID, r.HumanMessage), &r, true
	return out, nil
}

// rememberEdit is for how long a call whose args were edited is answered with the edit, as long as that can be used.
const rememberEdit = rememberUse

// answerRemembered answers a call that was denied before. Without a kind, the denial answers it no more.
func (w callWork) answerRemembered(j *judged, recent Recent, terms Terms,
	out Answer) (Answer, error) {
	r, err := w.tx.Request(recent.DeniedID)
	if err != nil {
		return Answer{}, err
	}
	if r.EndCode == EndEdited {
		return w.edits().afterEdit(j, &r, out)
	}
	if w.tx.Now().Sub(recent.DeniedAt) >= terms.RememberDenial {
		return Answer{}, nil
	}
	out.Kind, out.Message, out.Request = AnswerDenied, message.Denied(r.WhoEnded(), r.ResolveReason), &r
	e := j.event(EventCallDenied, string(Deny), "denied_by_person")
	e.ApprovalID = r.ID
	return out, w.audit(e)
}

func (j *judged) event(t EventType, decision, reason string) Event {
	return Event{Type: t, Actor: Actor{Kind: Agent, Name: j.call.Agent}.String(), Agent: j.call.Agent,
		Tool: j.call.Target(),
		Risk: j.verdict.Risk, Decision: decision, Reason: reason, Data: j.data}
}

// rememberUse is for how long a key's last use is told on its next card.
const rememberUse = 24 * time.Hour

func (w callWork) create(j *judged, recent Recent, terms Terms,
	batchID string) (Request, error) {
	c, v, now := j.call, j.verdict, w.tx.Now()
	if terms.MaxPending > 0 {
		n, err := w.tx.CountPending(c.Agent)
		if err != nil {
			return Request{}, err
		}
		if n >= terms.MaxPending {
			return Request{}, Errorf(CodeTooManyPending,
				"%d requests of this agent are pending, as many as are allowed; wait for answers or cancel some", n)
		}
	}
	r := Request{
		ID: w.tx.NewID(), Agent: c.Agent, Scope: c.Scope, Server: c.Server, Tool: c.Tool, Method: c.Method,
		Args: c.Args.Canonical(), ArgsHash: j.key.ArgsHash,
		Risk: v.Risk, Rule: v.Rule, RuleDigest: v.RuleDigest, ReasonCode: v.ReasonCode,
		HumanMessage: v.Message, RequireReason: v.RequireReason,
		Sentences: v.Sentences,
		TurnID:    c.TurnID, SessionID: c.SessionID, Rationale: c.Rationale, Preview: c.Preview, PreviewFrom: c.PreviewFrom,
		ToolDigest: c.ToolDigest, ToolSeen: c.ToolSeen && c.ToolDigest != "", Task: c.Task,
		Status: Pending, RequestedAt: now, ExpiresAt: now.Add(v.Timeout).Truncate(time.Millisecond), BatchID: batchID,
		Need: v.Need, Policy: j.digest, CorrelationID: correlation.Of(w.ctx), Annotations: c.Annotations,
	}
	if c.Task {
		r.Runner = c.Runner
	}
	before, err := saidBefore(w.tx, &c)
	if err != nil {
		return Request{}, err
	}
	r.Before = before
	if !c.Args.Ambiguous() {
		for _, name := range v.IgnoreArgs {
			if c.Args.Has(name) {
				r.IgnoredArgs = append(r.IgnoredArgs, name)
			}
		}
	}
	if recent.Use != nil && now.Sub(recent.Use.ConsumedAt) < rememberUse {
		r.Previous = recent.Use
	}
	if j.isUncompared() {
		return Request{}, errUncompared
	}
	if err := w.tx.InsertRequest(r); err != nil {
		return Request{}, err
	}
	if err := leaveUsed(w.tx, recent.Use); err != nil { // this request takes its place
		return Request{}, err
	}
	if recent.DeniedID != "" { // this request is newer than that denial
		if err := w.tx.PutRecent(r.Key(), Recent{Use: recent.Use}); err != nil {
			return Request{}, err
		}
	}
	e := requestEvent(r, EventApprovalRequested)
	e.Actor, e.Reason = Actor{Kind: Agent, Name: r.Agent}.String(), r.ReasonCode
	if j.start == "" {
		j.start = w.g.records.auditArgs(c.Args.Canonical())
	}
	e.Data = requestedData(&r, j.start, FormatTime(w.g.store.ToWall(r.ExpiresAt)))
	return r, w.auditFor(&r, e)
}

// requestedData is what the record of a new request holds, whose masked args begin so: JSON, drawn up by hand as that
// of a call is.
func requestedData(r *Request, masked, expires string) []byte {
	b := append(make([]byte, 0, 256+len(masked)+len(masked)/8), `{"args":`...)
	b = append(appendQuoted(b, masked), `,"args_hash":`...)
	b = append(appendQuoted(b, r.ArgsHash), `,"expires_at":`...)
	b = append(appendQuoted(b, expires), `,"rule":`...)
	return append(appendQuoted(b, r.Rule), '}')
}

func requestEvent(r Request, t EventType) Event {
	return Event{Type: t, ApprovalID: r.ID, Agent: r.Agent, Tool: r.Target(), Risk: r.Risk}
}
