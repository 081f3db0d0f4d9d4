package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"countersign/approval/args"
	"countersign/approval/legible"
	"countersign/approval/redact"
)

// AnswerKind is what an agent is told of a call.
type AnswerKind string

const (
	AnswerAllow     AnswerKind = "allow"    // by policy: run it
	AnswerApproved  AnswerKind = "approved" // by a person: run it, once
	AnswerDenied    AnswerKind = "denied"
	AnswerPending   AnswerKind = "pending"
	AnswerExpired   AnswerKind = "expired"
	AnswerCancelled AnswerKind = "cancelled"
	AnswerLapsed    AnswerKind = "lapsed"
)

// Answer is the answer to a call. Only [AnswerAllow] and [AnswerApproved] mean that it may run.
type Answer struct {
	Kind       AnswerKind
	Message    string // for the model, word for word
	Risk       Risk
	Rule       string
	ReasonCode string
	Request    *Request // nil where the policy alone decided
	Created    bool     // this call made the request
	// Args are those to run in place of the call's own, for a caller who accepts edits; nil: the call's.
	Args []byte
	// Note tells a model, beside the call's result, that other args ran than its own, and why; "": nothing is to be told.
	Note string
	// Grant let the call through, or denied it, nil: none did. Of one that lets it through RunID is the use's id.
	Grant *Grant
	// RunID is what [Gate.Report] takes of a call that its asker sends on: the id of the request, or of the grant's use.
	RunID string

	used consumption // the use of an approval that let it through, if the gate's side sends it on
}

// Options are what a [Gate] is made of. Store, Broker and Policy are required.
type Options struct {
	Store  Store
	Broker *Broker // fed by Store after each commit
	Policy Policy
	// Directory says who is who. nil: actors are taken as given, every name is an agent's, and nobody sits at a keyboard.
	Directory Directory
	// Notifier is told of requests, for people. nil: nobody is told.
	Notifier Notifier
	// Audit is what audit events are written with; nil: one of the gate's own.
	Audit *AuditLog
	// Budgets bound the requests and pushes of each agent. nil: nothing does.
	Budgets Budgets
	// Schemas are asked about args that a person approves in place of others. nil: nothing is known of any tool.
	Schemas Schemas
	// Page returns the address of a request's page, "" where there is none; nil: there is none.
	Page func(id string) string
	// Prover is whose proofs the gate takes. nil: it takes none, and nothing is approved that needs one.
	Prover *Prover
	Masker *redact.Masker
	Logger *slog.Logger
	Now    func() time.Time // the clock of those who wait; default the store's, with whose times they compare it
}

// Gate holds every rule about who may run what. It is safe for concurrent use.
type Gate struct {
	store    Store
	broker   *Broker
	policy   atomic.Pointer[Policy]
	dir      Directory // nil: none
	notifier Notifier
	budgets  Budgets
	schemas  Schemas                       // nil: of no tool is known what it takes
	prover   *Prover                       // nil: no proof is taken
	page     func(id string) string        // nil: no request has a page
	masker   atomic.Pointer[redact.Masker] // of the messages of rules, which people decide by
	records  *AuditLog
	log      *slog.Logger
	clock    func() time.Time // of the store's time, but for the tests

	pins        pins
	freezes     freezes
	standIns    standIns
	turns       turns
	comparisons comparisons
}

// NewGate returns a gate over o.Store. Call [Gate.Run] to have deadlines kept to the moment.
func NewGate(o Options) *Gate {
	g := &Gate{store: o.Store, broker: o.Broker, dir: o.Directory, notifier: o.Notifier, records: o.Audit,
		budgets: o.Budgets, schemas: o.Schemas, prover: o.Prover, page: o.Page, log: o.Logger, clock: o.Now}
	if g.notifier == nil {
		g.notifier = silent{}
	}
	if g.records == nil {
		g.records = NewAuditLog(o.Masker)
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.clock == nil {
		g.clock = func() time.Time { return g.store.Now() }
	}
	g.policy.Store(&o.Policy)
	g.SetMasker(o.Masker)
	g.notifier.Serve(g)
	return g
}

// Broker returns the broker that wakes on what the gate commits.
func (g *Gate) Broker() *Broker { return g.broker }

// SetMasker says anew what is masked in audit events and in the messages of rules.
func (g *Gate) SetMasker(m *redact.Masker) {
	g.masker.Store(m)
	g.records.setMasker(m)
}

// Policy returns the policy in force.
func (g *Gate) Policy() Policy { return *g.policy.Load() }

// SetPolicy puts p in force, keeps its text and audits it, with the sentences that say which rules it loosened. If
// that cannot be committed the old policy stays.
func (g *Gate) SetPolicy(ctx context.Context, p Policy, loosened []string) error {
	data := marshal(map[string]any{"loosened": loosened})
	err := g.update(ctx, OfNothing(), func(w *Work) error {
		if err := w.keepPolicy(p); err != nil {
			return err
		}
		return w.audit(Event{Type: EventPolicyReloaded, Actor: "system:policy", Data: data})
	})
	if err == nil {
		g.policy.Store(&p)
	}
	return err
}

// PolicyReloadFailed audits a reload that kept the running config.
func (g *Gate) PolicyReloadFailed(ctx context.Context, why string) error {
	return g.update(ctx, OfNothing(), func(w *Work) error {
		return w.audit(Event{Type: EventPolicyReloadFailed, Actor: "system:policy", Reason: why})
	})
}

// MaxBatch is how many calls [Gate.CheckBatch] takes.
const MaxBatch = 20

// Check answers a call: whether it may run now, and if not, why and what to do. It never waits for a
// person. An approved outcome has used the approval: the caller must run the call or lose it. An allowed call is on
// record by then: without a transaction of its own, where the store takes that ([EventRecorder]) and it is safe, and
// else it is committed first. That is so for a rule with a strict audit, a tool that is not known yet or has changed,
// and an agent that is frozen.
func (g *Gate) Check(ctx context.Context, c Call) (Answer, error) {
	if err := c.Validate(); err != nil {
		return Answer{}, err
	}
	release, err := takeTurn(ctx, g.budgets, c)
	if err != nil {
		return Answer{}, err
	}
	in := g.policy.Load()
	j := g.judge(ctx, *in, c)
	if out, ok, err := newRecorder(ctx, g).atOnce(in, &j); err != nil || ok {
		release()
		return out, err
	}
	outs, err := g.enterJudged(ctx, in, []judged{j}, release)
	if err != nil {
		return Answer{}, err
	}
	return outs[0], nil
}

// CheckBatch answers the calls of one turn, in order and in one transaction. Those that need a person
// come to people as one card. One call that is not well formed refuses the whole batch.
func (g *Gate) CheckBatch(ctx context.Context, calls []Call) ([]Answer, error) {
	if len(calls) == 0 || len(calls) > MaxBatch {
		return nil, Errorf(CodeInvalidParameter, "a batch takes 1 to %d calls, not %d", MaxBatch, len(calls))
	}
	for i, c := range calls {
		if err := c.Validate(); err != nil {
			if e, ok := errors.AsType[*Error](err); ok && len(calls) > 1 {
				return nil, Errorf(e.Code, "calls[%d]: %s", i, e.Message)
			}
			return nil, err
		}
	}
	release, err := takeTurn(ctx, g.budgets, calls...)
	if err != nil {
		return nil, err
	}
	in := g.policy.Load()
	js := make([]judged, len(calls))
	for i, c := range calls {
		if len(calls) > 1 {
			c.Differ = nil
		}
		js[i] = g.judge(ctx, *in, c)
	}
	return g.enterJudged(ctx, in, js, release)
}

// judged is a call with all that can be worked out before the write transaction.
type judged struct {
	call    Call
	verdict Verdict
	digest  string // of the policy whose verdict it is
	key     Key
	data    []byte  // of an allowed or denied call's audit event
	start   string  // of the masked args, for a request's audit event
	pin     ToolPin // what is on record of its tool, the zero ToolPin if nobody asked
	pinAge  uint64  // of the pins when that was read; 0: it is not to be remembered
	unseen  bool    // nothing is on record yet, and pin is what is to be
	renewed bool    // it is on record by the old form of its digest, and pin is what is to be
	changed bool    // the tool is not the one on record
	grants  []Grant // that may let it through
}

var errPolicyChanged = errors.New("approval: the policy changed meanwhile")

// enterJudged answers calls that the policy in has judged, in one transaction. release ends the turn that they have.
func (g *Gate) enterJudged(ctx context.Context, in *Policy, js []judged, release func()) ([]Answer, error) {
	defer func() { release() }()
	var compared comparison
	defer g.comparisons.end(&compared)
	for {
		done, err := billed(ctx, g, js[0].call.Agent, func(w *Work, b *bill) (entered, error) {
			if g.policy.Load() != in {
				return entered{}, errPolicyChanged
			}
			return w.calls().enterAll(js, (*in).Terms(), b)
		})
		if errors.Is(err, errUncompared) { // what was looked for starts over, and takes turns of its own
			release()
			js[0].call = compared.compare(ctx, g, &js[0])
			if release, err = takeTurn(ctx, g.budgets, js[0].call); err != nil {
				release = func() {}
				return nil, err
			}
			err = errPolicyChanged
		}
		if errors.Is(err, errPolicyChanged) || errors.Is(err, ErrLiveExists) { // so does a lost race
			in = g.policy.Load()
			for i := range js {
				js[i] = g.judge(ctx, *in, js[i].call)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, p := range done.pins {
			g.pins.keep(p)
		}
		if done.log != nil {
			done.log(ctx)
		}
		for i := range done.answers {
			done.answers[i] = done.answers[i].byWall(g.store)
		}
		return done.answers, nil
	}
}

func (g *Gate) judge(ctx context.Context, p Policy, c Call) judged {
	v := p.Evaluate(ctx, c)
	v.Message = fillIn(g.masker.Load(), v.Message, c, v.IgnoreArgs, filling{most: maxFilledMessage})
	v.Sentences = fillSentences(g.masker.Load(), v.Sentences, c, v.IgnoreArgs)
	j := judged{call: c, verdict: v, digest: p.Digest()}
	j.key = Key{c.Agent, c.Scope, c.Server, c.Tool, c.Args.Hash(v.IgnoreArgs...), c.Method}
	if v.Observe || v.Action != Quarantine {
		j.data = g.records.callData(j)
	} else {
		j.start = g.records.auditArgs(c.Args.Canonical())
	}
	return j
}

// maxAuditArgs is how much of an allowed or denied call's args its audit event keeps, in bytes.
const maxAuditArgs = 1024

// callData is what the record of a call holds: JSON, drawn up by hand since every call has it.
func (l *AuditLog) callData(j judged) []byte {
	m := l.masker.Load()
	masked := m.ArgsLimited(j.call.Args.Canonical(), maxAuditArgs)
	b := append(make([]byte, 0, 256+len(masked)+len(masked)/8), `{"args":`...)
	b = append(appendQuoted(b, masked), `,"args_hash":`...)
	b = append(appendQuoted(b, j.key.ArgsHash), `,"rule":`...)
	b = append(appendQuoted(b, j.verdict.Rule), `,"reason_code":`...)
	b = appendQuoted(b, j.verdict.ReasonCode)
	var observed Action
	if j.verdict.Observe {
		observed = j.verdict.Action
	}
	for _, f := range [...]struct{ name, value string }{
		{`,"method":`, j.call.Method}, {`,"scope":`, m.Line(j.call.Scope)}, {`,"read_for":`, j.call.ReadFor},
		{`,"session_id":`, m.Line(j.call.SessionID)},
		{`,"turn_id":`, m.Line(j.call.TurnID)}, {`,"observed":`, string(observed)},
	} {
		if f.value != "" {
			b = appendQuoted(append(b, f.name...), f.value)
		}
	}
	return append(b, '}')
}

// appendQuoted appends s as [json.Marshal] writes it.
func appendQuoted(b []byte, s string) []byte {
	before := len(b)
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(append(b, s[from:i]...), '\\')
			from = i
		case c < ' ' || c >= 0x7f || c == '<' || c == '>' || c == '&':
			return append(b[:before], marshal(s)...)
		}
	}
	return append(append(b, s[from:]...), '"')
}

// EventData is the data of an audit event.
func EventData(fields map[string]any) []byte { return marshal(fields) }

// marshal encodes what cannot fail to encode: strings, times and maps of them.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("approval: " + err.Error())
	}
	return b
}

// entered is what became of the calls of one turn.
type entered struct {
	answers []Answer
	pins    []pinRead             // to be remembered after the commit
	log     func(context.Context) // to be said after it; nil: nothing
}

func (w callWork) enterAll(js []judged, terms Terms, b *bill) (entered, error) {
	out := entered{answers: make([]Answer, len(js)), pins: make([]pinRead, len(js))}
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
		a, pin, err := w.enter(js[i], terms, p, b)
		if err != nil {
			return entered{}, err
		}
		out.answers[i], out.pins[i] = a, pin
	}
	told, err := p.announce()
	out.log = told.Log
	return out, err
}

// enter takes one call through its steps: the policy, the live request of its key, the remembered
// denial, and only then a new request. What it read of the tool is to be kept after the commit.
func (w callWork) enter(j judged, terms Terms, p *placer,
	b *bill) (Answer, pinRead, error) {
	j, changed, err := w.toolPins().pinned(j)
	if err != nil {
		return Answer{}, pinRead{}, err
	}
	out, err := w.enterPinned(&j, changed, terms, p, b)
	if err == nil && out.Kind != AnswerDenied {
		err = w.toolPins().pinFirst(&j)
	}
	return out, pinRead{j.pin, j.pinAge}, err
}

func (w callWork) enterPinned(j *judged, changed bool, terms Terms, p *placer,
	b *bill) (Answer, error) {
	if out, ok, err := w.Freezes().frozen(j); err != nil || ok {
		return out, err
	}
	v := j.verdict
	out := Answer{Risk: v.Risk, Rule: v.Rule, ReasonCode: v.ReasonCode}
	if j.call.ReadFor != "" && (v.Action != Allow || v.Observe) {
		out.Kind, out.Message = AnswerDenied, policyDeniedMessage(v)
		return out, nil
	}
	if v.Action == Allow && !v.Observe && j.call.ReadFor == "" && j.pin.justAccepted(w.tx.Now(), terms) {
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
		out.Kind, out.Message = AnswerAllow, allowedMessage
		return out, w.audit(j.event(EventCallAllowed, string(Allow), v.ReasonCode))
	case v.Action != Quarantine:
		out.Kind, out.Message = AnswerDenied, policyDeniedMessage(v)
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
		out.Kind, out.Message, out.Request = AnswerPending, pendingMessage(*live), live
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
	out.Kind, out.Message, out.Request = AnswerApproved, approvedMessage(used.ByWall(w.g.store)), used
	if used.Replaces != "" && !bytes.Equal(used.Args, j.call.Args.Canonical()) {
		out.Args, out.Note = used.Args, editedNote(used)
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
		done, err := w.remembered(j, recent, terms, out)
		if err != nil || done.Kind != "" {
			return done, err
		}
	}
	if used, err := w.Grants().granted(j, out); err != nil || used.Kind != "" {
		return used, err
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
	out.Kind, out.Message, out.Request, out.Created = AnswerPending, createdMessage(r), &r, true
	return out, nil
}

// rememberEdit is for how long a call whose args were edited is answered with the edit, as long as that can be used.
const rememberEdit = rememberUse

// remembered answers a call that was denied before. Without a kind, the denial answers it no more.
func (w callWork) remembered(j *judged, recent Recent, terms Terms,
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
	out.Kind, out.Message, out.Request = AnswerDenied, deniedMessage(r), &r
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
		Need: v.Need, Policy: j.digest, CorrelationID: Correlation(w.ctx), Annotations: c.Annotations,
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
	if recent.Use != nil { // this request takes its place
		if err := leaveUsed(w.tx, recent.Use.RequestID); err != nil {
			return Request{}, err
		}
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

// settle ends what is over: a pending request whose deadline has come expires, an approval past its use_by lapses, and
// what was made before its agent was frozen is cancelled, each with its audit event. Every operation does it first,
// inside its own transaction, so that what comes after may trust the row as it stands.
func (w *Work) settle(r Request) (Request, error) {
	if did, err := w.end(r); err != nil || !did {
		return r, err
	}
	return w.tx.Request(r.ID)
}

// end ends a request that is over, of which it looks at the narrow part alone: its deadline has come, or its agent was
// frozen since.
func (w *Work) end(r Request) (bool, error) {
	e, err := w.outlived(&r)
	switch {
	case err != nil:
		return false, err
	case e != nil:
		return true, w.Freezes().endFrozen(r, e)
	case r.Due(w.tx.Now()):
		return true, w.timedOut(r)
	}
	return false, nil
}

// settleHead is settle for a request's narrow part.
func (w *Work) settleHead(h Head) (Head, error) {
	if did, err := w.end(h.Request); err != nil || !did {
		return h, err
	}
	return w.tx.Head(h.ID)
}

// timedOut ends a request that is due, of which it looks at the narrow part alone.
func (w *Work) timedOut(r Request) error {
	who := Actor{Kind: System, Name: "timeout"}.String()
	e, fields := requestEvent(r, EventApprovalLapsed), map[string]any{"via": string(ViaSystem)}
	end := func() (bool, error) { return w.tx.Lapse(r.ID) }
	if r.Status == Pending {
		e = requestEvent(r, EventDecision)
		e.Decision, fields["timeout_seconds"] = "timeout", int64(r.ExpiresAt.Sub(r.RequestedAt)/time.Second)
		end = func() (bool, error) {
			return w.tx.Resolve(Resolution{ID: r.ID, Status: Expired, At: r.ExpiresAt, By: who, Via: ViaSystem})
		}
	}
	e.Actor = who
	ok, err := end()
	if err == nil && ok {
		err = w.with(WithCorrelation(w.ctx, "")).auditEnd(e, fields) // time is the cause, not who met it
	}
	if err != nil {
		return err
	}
	return w.g.notifier.Ended(w.tx, r)
}

// settledLive returns the live request of k after what was due has ended, nil when there is none.
func (w *Work) settledLive(k Key) (*Request, error) {
	found, err := w.tx.Live(k)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := w.settle(found)
	if err != nil || !r.Live() {
		return nil, err
	}
	return &r, nil
}

// Request reads a request with what was due ended.
func (w *Work) Request(id string) (Request, error) {
	r, err := w.tx.Request(id)
	if err != nil {
		return Request{}, err
	}
	return w.settle(r)
}

// Head is [Work.Request] for the narrow part.
func (w *Work) Head(id string) (Head, error) {
	h, err := w.tx.Head(id)
	if err != nil {
		return Head{}, err
	}
	return w.settleHead(h)
}

// consume lets the approved call through. The conditional statement decides; whoever finds it spent is
// not let through.
func (w *Work) consume(r Request, c *Call) (Request, error) {
	if err := w.ctx.Err(); err != nil { // nobody is there any more to run it
		return r, Errorf(CodeStoreUnavailable, "The caller went away; the approval was not used.")
	}
	if err := w.doubted(r.UseBy); err != nil {
		return r, err
	}
	ok, err := w.tx.Consume(r.ID, c.Dispatch)
	if err != nil {
		return r, err
	}
	if !ok {
		return r, Errorf(CodeStoreUnavailable, "The approval could not be used; ask again.")
	}
	r.ConsumedAt = w.tx.Now()
	r.AckedAt = r.ConsumedAt
	if c.Dispatch {
		r.DispatchedAt = r.ConsumedAt
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

// Decision approves or denies a request.
type Decision struct {
	RequestID string
	Approve   bool
	By        Actor
	Via       Via
	Reason    string
	// Confirmed: whoever approves was told what will happen, and said yes to it.
	Confirmed bool
	// Args are approved in place of those that were asked for; nil: these.
	Args *args.Args
	// Grant, where it is not nil, has the decision answer the same call again for a while.
	Grant *GrantWish
	// Versions, where it is not nil, are the versions of the requests as whoever decides has seen them, by id
	// ([Request.Version]): what has changed since, or is not among them, is not decided ([CodeChanged]).
	Versions map[string]string
	// Proof shows that whoever approves has just used their passkey for it; nil: they have not.
	Proof *Proof

	proven bool // the proof was checked, and is one for this request
	// standsFor is for whom it is that other args are approved, where that is not by.
	standsFor string
}

// MaxReason is how long a reason may be, in bytes: any 3000 characters fit, which is what Slack's dialog takes.
const MaxReason = 12_000

// Decide takes one person's decision. Of any number of deciders one wins; the others get an [Error]
// that carries the request as it stands: [CodeNotFound], [CodeNotAnApprover], [CodeAlreadyResolved],
// [CodeExpired], [CodeReasonRequired] or [CodeInvalidParameter], judged in that order, and each is audited.
//
// A vote that is not the last leaves the request pending: it is returned as it stands then, with its votes. Further
// errors: [CodeAlreadyVoted], [CodeNotYourStage], [CodeStepUpRequired], [CodeConfirmRequired], [CodeChanged]; and for
// other args [CodeInvalidArgs] and [CodePolicyDenied]. Of an edit the request of the new args is returned.
func (g *Gate) Decide(ctx context.Context, d Decision) (Request, error) {
	if d.Args != nil && d.Approve {
		return approveEdited(ctx, g, d)
	}
	return carryOut(ctx, g, OfID(d.RequestID), func(w *Work) (resolved, error) { return w.decide(d) })
}

func (w *Work) decide(d Decision) (resolved, error) {
	d.tidy(w.g)
	r, err := w.Request(d.RequestID)
	if errors.Is(err, ErrNotFound) {
		refusal := Errorf(CodeNotFound, noSuchRequest)
		return resolved{refusal: refusal}, w.refused(Request{}, d, refusal)
	}
	if err != nil {
		return resolved{}, err
	}
	return w.decideOn(r, d)
}

// tidy leaves a reason that says nothing out, and gives the decider the roles of now.
func (d *Decision) tidy(g *Gate) {
	if d.Reason, d.By = strings.TrimSpace(d.Reason), g.ActorNow(d.By); Blank(d.Reason) {
		d.Reason = ""
	}
}

// decideOn takes a decision on a request that was settled.
func (w *Work) decideOn(r Request, d Decision) (resolved, error) {
	var b ballot
	var e *electorate
	changed := d.changed(&r)
	d.proven = d.proven || w.g.prover.proves(&d, &r, r.Args, w.tx.Now())
	if r.Status == Pending && d.By.MayDecide() {
		var t tally
		var err error
		if r, e, t, err = w.Votes().stand(r); err != nil {
			return resolved{}, err
		}
		if b, err = e.ballot(d.By, r.Votes, &t); err != nil {
			return resolved{}, err
		}
	}
	b.changed = changed
	refusal := w.refusalOf(r, d, &b)
	if refusal == nil {
		var err error
		if refusal, err = w.Grants().refuseGrant(&r, &d); err != nil {
			return resolved{}, err
		}
	}
	if refusal != nil {
		return resolved{r, refusal}, w.refused(r, d, refusal)
	}
	if err := w.Votes().vote(r, d, e, &b); err != nil {
		return resolved{}, err
	}
	r, err := w.tx.Request(r.ID)
	return resolved{is: r}, err
}

// resolve ends a request as the last vote says. who is all of them, where it is not one person alone.
func (w *Work) resolve(r Request, d Decision, who string) error {
	now := w.tx.Now()
	res := Resolution{ID: r.ID, Status: Denied, At: now, By: d.By.String(), Via: d.Via, Reason: d.Reason, Who: who}
	word := "deny"
	if d.Approve {
		word = "approve"
		res.Status, res.UseBy = Approved, now.Add(w.g.Policy().Terms().UseWithin).Truncate(time.Millisecond)
	}
	ok, err := w.tx.Resolve(res)
	if err != nil {
		return err
	}
	if !ok {
		return Errorf(CodeStoreUnavailable, "The request changed while it was decided; try again.")
	}
	if !d.Approve {
		if err := rememberDenial(w.tx, r, now); err != nil {
			return err
		}
	}
	if err := said(w.tx, &r, &d, d.Approve, who); err != nil {
		return err
	}
	e := requestEvent(r, EventDecision)
	e.Actor, e.Decision, e.Reason = d.By.String(), word, d.Reason
	with, credential := d.steppedUp()
	e.Data = w.g.records.decisionData(w.ctx, &r, map[string]any{"via": string(d.Via), "who": who, "step_up": with,
		"passkey": credential})
	if err := w.auditFor(&r, e); err != nil {
		return err
	}
	if d.Approve {
		if err := w.toolPins().acceptTool(r, d.By); err != nil {
			return err
		}
	}
	return w.g.notifier.Ended(w.tx, r)
}

func rememberDenial(tx Tx, r Request, now time.Time) error {
	recent, err := tx.Recent(r.Key())
	if err != nil {
		return err
	}
	recent.DeniedID, recent.DeniedAt = r.ID, now
	return tx.PutRecent(r.Key(), recent)
}

// ActorNow returns a person with the roles and groups they have now, none if they are not configured any more.
func (g *Gate) ActorNow(who Actor) Actor {
	if who.Kind != Human || g.dir == nil {
		return who
	}
	now, ok := g.dir.Person(who.Name)
	who.Approver, who.Admin, who.Groups = ok && now.Approver, ok && now.Admin, now.Groups
	return who
}

// refusalOf says why d may not be carried out on r as it stands, nil if it may.
func (w *Work) refusalOf(r Request, d Decision, b *ballot) *Error {
	code := mayDecide(&r, d, b, w.tx.Now())
	e := &Error{Code: code, Request: &r}
	switch code {
	case "":
		return nil
	case CodeNotAnApprover: // it may not be theirs to see
		return &Error{Code: code, Message: "You may not decide this request."}
	case CodeExpired, CodeAlreadyResolved:
		e.Message = lateMessage(r.ByWall(w.g.store), d.By)
	case CodeReasonRequired:
		e.Message = "This request needs a reason with the decision."
	case CodeAlreadyVoted:
		e.Message = votedMessage(r.ByWall(w.g.store), d.By)
	case CodeNotYourStage:
		e.Message = "Others are asked now: " + openStage(&r) + ". You may not decide this yet, or not any more."
	case CodeStepUpRequired:
		e.Message = w.stepUpMessage(r.ID)
	case CodeConfirmRequired:
		e.Message = fmt.Sprintf("Approving lets %s run %s once. Approve it once more to confirm.", r.Agent, r.Target())
	case CodeChanged:
		e.Message = "The request has changed since you saw it. Nothing was decided: look at it again."
	default:
		e.Message = "The reason is too long: use at most 3000 characters."
	}
	return e
}

func (w *Work) refused(r Request, d Decision, why *Error) error {
	e := requestEvent(r, EventDecisionRefused)
	e.Actor, e.Decision, e.Reason = d.By.String(), "deny", string(why.Code)
	if d.Approve {
		e.Decision = "approve"
	}
	data := map[string]any{"via": d.Via}
	if r.ID == "" {
		data["approval_id"] = legible.Cut(legible.Line(d.RequestID), 64)
	}
	e.Data = marshal(data)
	return w.audit(e)
}

// Cancellation takes a request back.
type Cancellation struct {
	RequestID string
	By        Actor
	Via       Via
	Reason    string
}

// Cancel ends a pending request or takes back an approval that was not used yet. An agent may cancel
// its own, an admin any, a person what they approved. Errors: [CodeNotFound], [CodeNotAdmin],
// [CodeAlreadyResolved], [CodeExpired].
func (g *Gate) Cancel(ctx context.Context, c Cancellation) (Request, error) {
	return carryOut(ctx, g, OfID(c.RequestID), func(w *Work) (resolved, error) { return w.cancelAsked(c) })
}

func (w *Work) cancelAsked(c Cancellation) (resolved, error) {
	by := w.g.ActorNow(c.By)
	r, err := w.Request(c.RequestID)
	code := CodeNotFound
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return resolved{}, err
	default:
		code = mayCancel(&r, by)
	}
	refusal := &Error{Code: code, Request: &r}
	switch code {
	case "":
		r, err = w.cancel(r, by, c.Via, strings.TrimSpace(c.Reason))
		return resolved{is: r}, err
	case CodeNotFound:
		return resolved{refusal: Errorf(code, noSuchRequest)}, nil
	case CodeNotAdmin:
		refusal = &Error{Code: code, Message: "Only an admin, or the person who approved it, can cancel this request."}
	default:
		refusal.Message = lateMessage(r.ByWall(w.g.store), by)
		// Whoever would have taken it back is told that it is used, and so it stays, whatever becomes of its call.
		if err := leaveUsed(w.tx, r.ID); err != nil {
			return resolved{}, err
		}
	}
	e := requestEvent(r, EventDecisionRefused)
	e.Actor, e.Decision, e.Reason = by.String(), "cancel", string(refusal.Code)
	return resolved{r, refusal}, w.audit(e)
}

func (w *Work) cancel(r Request, by Actor, via Via, reason string) (Request, error) {
	if err := w.takeBack(r, by, via, reason); err != nil {
		return r, err
	}
	return w.tx.Request(r.ID)
}

// takeBack is cancel for a live request of which it looks at the narrow part alone.
func (w *Work) takeBack(r Request, by Actor, via Via, reason string) error {
	ok, err := w.tx.Resolve(Resolution{ID: r.ID, Status: Cancelled, At: w.tx.Now(), By: by.String(), Via: via,
		Reason: reason})
	if err != nil {
		return err
	}
	if !ok {
		return Errorf(CodeStoreUnavailable, "The request changed while it was cancelled; try again.")
	}
	e := requestEvent(r, EventApprovalCancelled)
	e.Actor, e.Reason = by.String(), reason
	if err := w.auditEnd(e, map[string]any{"via": string(via), "was": r.Status}); err != nil {
		return err
	}
	return w.g.notifier.Ended(w.tx, r)
}
