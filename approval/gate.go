package approval

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

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
	// Committed, where it is not nil, returns once the record of an allowed call is durable: the call may
	// be sent at once, and is not answered before. An error says that there is no such record.
	Committed func(context.Context) error
}

// Options are what a [Gate] is made of. Store, Broker and Policy are required.
type Options struct {
	Store  Store
	Broker *Broker // fed by Store after each commit
	Policy Policy
	// Routes says where the card of a new request goes: one card along each route. nil: nowhere.
	Routes func(Request) []Route
	// Admins are the routes of a request that reached nobody else. nil: none.
	Admins func() []Route
	// Spent says whether a channel can send nothing for a while, as when a month's messages are used up or
	// its token is refused: another channel of the same route is then taken first. nil: none is.
	Spent func(channel string) bool
	// Say says a phrase to somebody in their language; nil: [Phrase.Say], English.
	Say func(to Actor, p Phrase, args ...any) string
	// NameOf says whose address it is, "" where it is nobody's. nil: nobody's is known.
	NameOf func(Address) string
	// Status adds lines to the answer to the typed word "status". nil: none.
	Status func(to Actor) []string
	// Editable says whether a sent card of the channel can be edited. nil: none can.
	Editable func(channel string) bool
	// Keyboard says who sits at an agent's keyboard, as it is configured now. nil: nobody is known to.
	Keyboard func(agent string) (Actor, bool)
	// People returns a person as they are configured now. It is asked inside the transaction of what they
	// decide, so that somebody who was removed meanwhile decides nothing. nil: actors are taken as given.
	People func(name string) (Actor, bool)
	// Configured reports whether there is an agent of this name, as it is configured now. It is asked inside the
	// transaction that lets a call through, so that for one that was removed meanwhile nothing runs. nil: every
	// name is an agent's.
	Configured func(agent string) bool
	// Budgets bound the requests and pushes of each agent. nil: nothing does.
	Budgets Budgets
	Masker  *redact.Masker
	Logger  *slog.Logger
	Now     func() time.Time // the clock of those who wait; default the store's, with whose times they compare it
}

// Gate holds every rule about who may run what. It is safe for concurrent use.
type Gate struct {
	store    Store
	broker   *Broker
	policy   atomic.Pointer[Policy]
	routes   func(Request) []Route
	admins   func() []Route
	spent    func(string) bool
	say      func(Actor, Phrase, ...any) string
	status   func(Actor) []string
	nameOf   func(Address) string
	editable func(string) bool
	people   func(string) (Actor, bool)
	keyboard func(string) (Actor, bool)
	budgets  Budgets
	agents   func(string) bool
	masker   atomic.Pointer[redact.Masker] // of the messages of rules, which people decide by
	records  atomic.Pointer[redact.Masker] // of audit events
	log      *slog.Logger
	wall     func() time.Time // of the store's time, but for the tests

	pins  pins
	ahead ahead
	turns turns
}

// NewGate returns a gate over o.Store. Call [Gate.Run] to have deadlines kept to the moment.
func NewGate(o Options) *Gate {
	g := &Gate{broker: o.Broker, routes: o.Routes, admins: o.Admins, spent: o.Spent, say: o.Say, status: o.Status, nameOf: o.NameOf,
		editable: o.Editable, people: o.People, keyboard: o.Keyboard, agents: o.Configured, budgets: o.Budgets, log: o.Logger, wall: o.Now}
	if g.routes == nil {
		g.routes = func(Request) []Route { return nil }
	}
	if g.admins == nil {
		g.admins = func() []Route { return nil }
	}
	if g.spent == nil {
		g.spent = func(string) bool { return false }
	}
	say := g.say
	if say == nil {
		say = func(_ Actor, p Phrase, args ...any) string { return p.Say(args...) }
	}
	g.say = func(to Actor, p Phrase, args ...any) string { // in times as the machine's clock has them
		for i, v := range args {
			if t, ok := v.(time.Time); ok {
				args[i] = g.store.ToWall(t)
			}
		}
		return say(to, p, args...)
	}
	if g.nameOf == nil {
		g.nameOf = func(Address) string { return "" }
	}
	if g.status == nil {
		g.status = func(Actor) []string { return nil }
	}
	if g.keyboard == nil {
		g.keyboard = func(string) (Actor, bool) { return Actor{}, false }
	}
	if g.agents == nil {
		g.agents = func(string) bool { return true }
	}
	if g.editable == nil {
		g.editable = func(string) bool { return false }
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.wall == nil {
		g.wall = func() time.Time { return g.store.Now() }
	}
	g.store = noted{o.Store, g.ahead.fail}
	g.policy.Store(&o.Policy)
	g.SetMasker(o.Masker)
	return g
}

// SetMasker says anew what is masked in audit events and in the messages of rules.
func (g *Gate) SetMasker(m *redact.Masker) {
	g.masker.Store(m)
	g.records.Store(m.ForLogs())
}

// Policy returns the policy in force.
func (g *Gate) Policy() Policy { return *g.policy.Load() }

// SetPolicy puts p in force and audits it, with the sentences that say which rules it loosened. If
// the audit event cannot be committed the old policy stays.
func (g *Gate) SetPolicy(ctx context.Context, p Policy, loosened []string) error {
	data := marshal(map[string]any{"loosened": loosened})
	err := g.store.Update(ctx, func(tx Tx) error {
		return g.audit(ctx, tx, Event{Type: EventPolicyReloaded, Actor: "system:policy", Data: data})
	})
	if err == nil {
		g.policy.Store(&p)
	}
	return err
}

// PolicyReloadFailed audits a reload that kept the running config.
func (g *Gate) PolicyReloadFailed(ctx context.Context, why string) error {
	return g.store.Update(ctx, func(tx Tx) error {
		return g.audit(ctx, tx, Event{Type: EventPolicyReloadFailed, Actor: "system:policy", Reason: why})
	})
}

// MaxBatch is how many calls [Gate.CheckBatch] takes.
const MaxBatch = 20

// Check answers a call: whether it may run now, and if not, why and what to do. It never waits for a
// person. An approved outcome has used the approval: the caller must run the call or lose it.
func (g *Gate) Check(ctx context.Context, c Call) (Answer, error) {
	outs, err := g.check(ctx, []Call{c})
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
	return g.check(ctx, calls)
}

// judged is a call with all that can be worked out before the write transaction.
type judged struct {
	call    Call
	verdict Verdict
	key     Key
	data    []byte  // of an allowed or denied call's audit event
	pin     ToolPin // what is on record of its tool, the zero ToolPin if nobody asked
	pinAge  uint64  // of the pins when that was read; 0: it is not to be remembered
	unseen  bool    // nothing is on record yet, and pin is what is to be
}

var errPolicyChanged = errors.New("approval: the policy changed meanwhile")

func (g *Gate) check(ctx context.Context, calls []Call) ([]Answer, error) {
	for i, c := range calls {
		if err := c.Validate(); err != nil {
			if e, ok := errors.AsType[*Error](err); ok && len(calls) > 1 {
				return nil, Errorf(e.Code, "calls[%d]: %s", i, e.Message)
			}
			return nil, err
		}
	}
	release, err := g.turn(ctx, calls...)
	if err != nil {
		return nil, err
	}
	defer release()
	for {
		in := g.policy.Load()
		js := make([]judged, len(calls))
		for i, c := range calls {
			js[i] = g.judge(ctx, *in, c)
		}
		var outs []Answer
		var fate onward
		b := bill{budgets: g.budgets, agent: calls[0].Agent}
		err := g.store.Update(ctx, func(tx Tx) error {
			b.void()
			if g.policy.Load() != in {
				return errPolicyChanged
			}
			var err error
			outs, fate, err = g.enterAll(ctx, tx, js, (*in).Terms(), &b)
			return err
		})
		if err != nil {
			b.void()
		}
		if errors.Is(err, errPolicyChanged) || errors.Is(err, ErrLiveExists) {
			continue // a lost race starts over
		}
		if err == nil {
			for i := range js {
				g.pins.keep(js[i].pin, js[i].pinAge)
			}
		}
		if err == nil && fate != held {
			for _, o := range outs {
				if o.Created {
					g.sayWhere(ctx, fate, *o.Request, "last_reason", "nobody of the route is reached any more")
				}
			}
		}
		for i := range outs {
			outs[i] = g.toldOutcome(outs[i])
		}
		return outs, err
	}
}

func (g *Gate) judge(ctx context.Context, p Policy, c Call) judged {
	v := p.Evaluate(ctx, c)
	v.Message = g.fillIn(v.Message, c, v.IgnoreArgs)
	j := judged{call: c, verdict: v}
	j.key = Key{c.Agent, c.Scope, c.Server, c.Tool, c.Args.Hash(v.IgnoreArgs...)}
	if v.Observe || v.Action != Quarantine {
		j.data = g.callData(j)
	}
	return j
}

// maxAuditArgs is how much of an allowed or denied call's args its audit event keeps, in bytes.
const maxAuditArgs = 1024

func (g *Gate) callData(j judged) []byte {
	m := g.records.Load()
	d := struct {
		Args       string `json:"args"`
		ArgsHash   string `json:"args_hash"`
		Rule       string `json:"rule"`
		ReasonCode string `json:"reason_code"`
		Scope      string `json:"scope,omitempty"`
		SessionID  string `json:"session_id,omitempty"`
		TurnID     string `json:"turn_id,omitempty"`
		Observed   Action `json:"observed,omitempty"`
	}{
		m.ArgsLimited(j.call.Args.Canonical(), maxAuditArgs), j.key.ArgsHash, j.verdict.Rule, j.verdict.ReasonCode,
		m.Line(j.call.Scope), m.Line(j.call.SessionID), m.Line(j.call.TurnID), "",
	}
	if j.verdict.Observe {
		d.Observed = j.verdict.Action
	}
	return marshal(d)
}

// marshal encodes what cannot fail to encode: strings, times and maps of them.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("approval: " + err.Error())
	}
	return b
}

func (g *Gate) enterAll(ctx context.Context, tx Tx, js []judged, terms Terms, b *bill) ([]Answer, onward, error) {
	outs := make([]Answer, len(js))
	for _, j := range js {
		if err := g.known(j.call.Agent); err != nil {
			return nil, held, err
		}
	}
	batchID := ""
	if len(js) > 1 {
		batchID = tx.NewID()
	}
	var made []Request
	for i := range js {
		o, err := g.enter(ctx, tx, &js[i], terms, batchID, b)
		if err != nil {
			return nil, held, err
		}
		if o.Created {
			made = append(made, *o.Request)
		}
		outs[i] = o
	}
	fate, err := g.announce(tx, made, b)
	return outs, fate, err
}

// enter takes one call through its steps: the policy, the live request of its key, the remembered
// denial, and only then a new request.
func (g *Gate) enter(ctx context.Context, tx Tx, j *judged, terms Terms, batchID string, b *bill) (Answer, error) {
	now, changed, err := g.pinned(tx, *j)
	if err != nil {
		return Answer{}, err
	}
	out, err := g.enterPinned(ctx, tx, &now, changed, terms, batchID, b)
	if err == nil && out.Kind != AnswerDenied {
		err = g.pinFirst(ctx, tx, &now)
	}
	j.pin, j.pinAge = now.pin, now.pinAge // to be kept after the commit
	return out, err
}

func (g *Gate) enterPinned(ctx context.Context, tx Tx, j *judged, changed bool, terms Terms, batchID string, b *bill) (Answer, error) {
	v := j.verdict
	out := Answer{Risk: v.Risk, Rule: v.Rule, ReasonCode: v.ReasonCode}
	if v.Action == Allow && !v.Observe && j.pin.justAccepted(tx.Now(), terms) {
		used, err := g.useAcceptance(ctx, tx, j)
		if err != nil {
			return Answer{}, err
		}
		if used != nil {
			out.Kind, out.Message, out.Request = AnswerApproved, approvedMessage(g.told(*used)), used
			return out, nil
		}
	}
	switch {
	case v.Observe || v.Action == Allow:
		out.Kind, out.Message = AnswerAllow, allowedMessage
		return out, g.audit(ctx, tx, j.event(EventCallAllowed, string(Allow), v.ReasonCode))
	case v.Action != Quarantine:
		out.Kind, out.Message = AnswerDenied, policyDeniedMessage(v)
		return out, g.audit(ctx, tx, j.event(EventCallDenied, string(Deny), v.ReasonCode))
	}
	live, err := g.settledLive(ctx, tx, j.key)
	if err != nil {
		return Answer{}, err
	}
	if live != nil {
		if s := j.call.SessionID; s != "" && s != live.SessionID {
			if err := tx.AddSession(live.ID, s); err != nil {
				return Answer{}, err
			}
		}
		if live.Status == Pending {
			out.Kind, out.Message, out.Request = AnswerPending, pendingMessage(*live), live
			return out, nil
		}
		why := mayUse(live, j, changed, tx.Now())
		if why == usable {
			used, err := g.consume(ctx, tx, *live, j.call.Dispatch)
			if err != nil {
				return Answer{}, err
			}
			out.Kind, out.Message, out.Request = AnswerApproved, approvedMessage(g.told(used)), &used
			return out, nil
		}
		if _, err := g.cancel(ctx, tx, *live, Actor{Kind: System, Name: "policy"}, ViaSystem, string(why)); err != nil {
			return Answer{}, err
		}
	}
	recent, err := tx.Recent(j.key)
	if err != nil {
		return Answer{}, err
	}
	now := tx.Now()
	if recent.DeniedID != "" && now.Sub(recent.DeniedAt) < terms.RememberDenial {
		r, err := tx.Request(recent.DeniedID)
		if err != nil {
			return Answer{}, err
		}
		out.Kind, out.Message, out.Request = AnswerDenied, deniedMessage(r), &r
		e := j.event(EventCallDenied, string(Deny), "denied_by_person")
		e.ApprovalID = r.ID
		return out, g.audit(ctx, tx, e)
	}
	if err := b.request(); err != nil {
		return Answer{}, err
	}
	r, err := g.create(ctx, tx, j, recent, terms, batchID)
	if err != nil {
		return Answer{}, err
	}
	out.Kind, out.Message, out.Request, out.Created = AnswerPending, createdMessage(r), &r, true
	return out, nil
}

func (j *judged) event(t EventType, decision, reason string) Event {
	return Event{Type: t, Actor: Actor{Kind: Agent, Name: j.call.Agent}.String(), Agent: j.call.Agent, Tool: j.call.Target(),
		Risk: j.verdict.Risk, Decision: decision, Reason: reason, Data: j.data}
}

// rememberUse is for how long a key's last use is told on its next card.
const rememberUse = 24 * time.Hour

func (g *Gate) create(ctx context.Context, tx Tx, j *judged, recent Recent, terms Terms, batchID string) (Request, error) {
	c, v, now := j.call, j.verdict, tx.Now()
	if terms.MaxPending > 0 {
		n, err := tx.CountPending(c.Agent)
		if err != nil {
			return Request{}, err
		}
		if n >= terms.MaxPending {
			return Request{}, Errorf(CodeTooManyPending, "%d requests of this agent are pending, as many as are allowed; wait for answers or cancel some", n)
		}
	}
	r := Request{
		ID: tx.NewID(), Agent: c.Agent, Scope: c.Scope, Server: c.Server, Tool: c.Tool,
		Args: c.Args.Canonical(), ArgsHash: j.key.ArgsHash,
		Risk: v.Risk, Rule: v.Rule, ReasonCode: v.ReasonCode, HumanMessage: v.Message, RequireReason: v.RequireReason,
		TurnID: c.TurnID, SessionID: c.SessionID, Rationale: c.Rationale, Preview: c.Preview,
		ToolDigest: c.ToolDigest, ToolSeen: c.ToolSeen && c.ToolDigest != "", Task: c.Task,
		Status: Pending, RequestedAt: now, ExpiresAt: now.Add(v.Timeout).Truncate(time.Millisecond), BatchID: batchID,
	}
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
	if err := tx.InsertRequest(r); err != nil {
		return Request{}, err
	}
	if recent.DeniedID != "" { // this request is newer than that denial
		if err := tx.PutRecent(r.Key(), Recent{Use: recent.Use}); err != nil {
			return Request{}, err
		}
	}
	e := requestEvent(r, EventApprovalRequested)
	e.Actor, e.Reason = Actor{Kind: Agent, Name: r.Agent}.String(), r.ReasonCode
	e.Data = marshal(map[string]any{"args_hash": r.ArgsHash, "rule": r.Rule, "expires_at": FormatTime(g.store.ToWall(r.ExpiresAt))})
	return r, g.audit(ctx, tx, e)
}

func requestEvent(r Request, t EventType) Event {
	return Event{Type: t, ApprovalID: r.ID, Agent: r.Agent, Tool: r.Target(), Risk: r.Risk}
}

func (g *Gate) queue(tx Tx, n Notification) error {
	now := tx.Now()
	n.ID, n.Status, n.RetryKey = tx.NewID(), Queued, newUUID()
	n.CreatedAt, n.UpdatedAt = now, now
	if n.NextAttemptAt.IsZero() {
		n.NextAttemptAt = now
	}
	return tx.InsertNotification(n)
}

func (g *Gate) audit(ctx context.Context, tx Tx, e Event) error {
	if e.CorrelationID = Correlation(ctx); e.CorrelationID == "" {
		e.CorrelationID = e.ApprovalID // time and the outbox act for the request itself
	} else if !isMadeID(e.CorrelationID) { // whoever calls has chosen it
		e.CorrelationID = g.records.Load().Line(e.CorrelationID)
	}
	if e.Reason != "" {
		e.Reason, _ = g.records.Load().Text(e.Reason) // a person's or an agent's own words
		e.Reason = legible.Lines(e.Reason)
	}
	_, err := tx.Append(e)
	return err
}

// isMadeID reports whether id reads as one of the gate's own: a ULID or [rand.Text], which are no secrets though
// one in some hundred thousand looks like a cloud's key.
func isMadeID(id string) bool {
	for i := range len(id) {
		if c := id[i]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(id) == 26
}

// settle ends what is due: a pending request whose deadline has come expires, an approval past its
// use_by lapses, each with its audit event. Every operation does it first, inside its own transaction,
// so that what comes after may trust the row as it stands.
func (g *Gate) settle(ctx context.Context, tx Tx, r Request) (Request, error) {
	if !r.Due(tx.Now()) {
		return r, nil
	}
	if err := g.timedOut(ctx, tx, r); err != nil {
		return r, err
	}
	return tx.Request(r.ID)
}

// settleHead is settle for a request's narrow part.
func (g *Gate) settleHead(ctx context.Context, tx Tx, h Head) (Head, error) {
	if !h.Due(tx.Now()) {
		return h, nil
	}
	if err := g.timedOut(ctx, tx, h.Request); err != nil {
		return h, err
	}
	return tx.Head(h.ID)
}

// timedOut ends a request that is due, of which it looks at the narrow part alone.
func (g *Gate) timedOut(ctx context.Context, tx Tx, r Request) error {
	who := Actor{Kind: System, Name: "timeout"}
	if r.Status == Pending {
		ok, err := tx.Resolve(Resolution{ID: r.ID, Status: Expired, At: r.ExpiresAt, By: who.String(), Via: ViaSystem})
		if err != nil {
			return err
		}
		if ok {
			e := requestEvent(r, EventDecision)
			e.Actor, e.Decision = who.String(), "timeout"
			e.Data = marshal(map[string]any{"timeout_seconds": int64(r.ExpiresAt.Sub(r.RequestedAt) / time.Second)})
			if err := g.audit(ctx, tx, e); err != nil {
				return err
			}
		}
	} else {
		ok, err := tx.Lapse(r.ID)
		if err != nil {
			return err
		}
		if ok {
			e := requestEvent(r, EventApprovalLapsed)
			e.Actor = who.String()
			if err := g.audit(ctx, tx, e); err != nil {
				return err
			}
		}
	}
	return g.ended(ctx, tx, r)
}

// settledLive returns the live request of k after what was due has ended, nil when there is none.
func (g *Gate) settledLive(ctx context.Context, tx Tx, k Key) (*Request, error) {
	r, err := tx.Live(k)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if r, err = g.settle(ctx, tx, r); err != nil || !r.Live() {
		return nil, err
	}
	return &r, nil
}

// settled reads one request with what was due ended.
func (g *Gate) settled(ctx context.Context, tx Tx, id string) (Request, error) {
	r, err := tx.Request(id)
	if err != nil {
		return Request{}, err
	}
	return g.settle(ctx, tx, r)
}

// settledHead is settled for the narrow part.
func (g *Gate) settledHead(ctx context.Context, tx Tx, id string) (Head, error) {
	h, err := tx.Head(id)
	if err != nil {
		return Head{}, err
	}
	return g.settleHead(ctx, tx, h)
}

// consume lets the approved call through. The conditional statement decides; whoever finds it spent is
// not let through.
func (g *Gate) consume(ctx context.Context, tx Tx, r Request, dispatched bool) (Request, error) {
	if err := ctx.Err(); err != nil { // nobody is there any more to run it
		return r, Errorf(CodeStoreUnavailable, "The caller went away; the approval was not used.")
	}
	ok, err := tx.Consume(r.ID, dispatched)
	if err != nil {
		return r, err
	}
	if !ok {
		return r, Errorf(CodeStoreUnavailable, "The approval could not be used; ask again.")
	}
	r.ConsumedAt = tx.Now()
	r.AckedAt = r.ConsumedAt
	if dispatched {
		r.DispatchedAt = r.ConsumedAt
	}
	use := Use{RequestID: r.ID, ApprovedBy: r.ResolvedBy, ApprovedAt: r.ResolvedAt, ConsumedAt: r.ConsumedAt, DispatchedAt: r.DispatchedAt}
	if err := tx.PutRecent(r.Key(), Recent{Use: &use}); err != nil {
		return r, err
	}
	e := requestEvent(r, EventApprovalConsumed)
	e.Actor = Actor{Kind: Agent, Name: r.Agent}.String()
	return r, g.audit(ctx, tx, e)
}

// ended does what every end of a request brings with it: cards that were not sent are dropped, sent
// ones that can be edited are. Of r it takes the ids alone.
func (g *Gate) ended(ctx context.Context, tx Tx, r Request) error {
	ns, err := tx.Notifications(NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Narrow: true})
	if err != nil {
		return err
	}
	for _, n := range ns {
		if !n.showsCard() {
			continue
		}
		switch n.Status {
		case Queued, Retrying:
			if n.LeaseUntil.After(tx.Now()) {
				continue // on its way: recording its receipt queues the edit
			}
			if n.Kind == KindReply { // a reply is the answer to somebody's word and goes out all the same
				continue
			}
			over, err := g.allEnded(tx, n)
			if err != nil {
				return err
			}
			if over {
				if err := g.skip(tx, n); err != nil {
					return err
				}
			}
		case Sent, Delivered:
			if err := g.queueEdit(tx, n, ns); err != nil {
				return err
			}
		}
	}
	return nil
}

// showsCard reports whether the notification is a card with buttons.
func (n Notification) showsCard() bool {
	return n.Kind == KindRequest || n.Kind == KindReminder || n.Kind == KindReply && len(n.Cards) > 0 && n.Part == 0
}

// shown returns the requests whose card a notification is.
func shown(tx Tx, n Notification) ([]Request, error) {
	switch {
	case n.BatchID != "":
		return tx.Batch(n.BatchID)
	case len(n.Cards) > 0:
		rs := make([]Request, 0, len(n.Cards))
		for _, id := range n.Cards {
			r, err := tx.Request(id)
			if err != nil {
				return nil, err
			}
			rs = append(rs, r)
		}
		return rs, nil
	case n.ApprovalID != "":
		r, err := tx.Request(n.ApprovalID)
		return []Request{r}, err
	}
	return nil, nil
}

// shownHeads returns the narrow parts of the same.
func shownHeads(tx Tx, n Notification) ([]Head, error) {
	if n.BatchID != "" {
		return tx.BatchHeads(n.BatchID)
	}
	ids := n.Cards
	if len(ids) == 0 && n.ApprovalID != "" {
		ids = []string{n.ApprovalID}
	}
	hs := make([]Head, 0, len(ids))
	for _, id := range ids {
		h, err := tx.Head(id)
		if err != nil {
			return nil, err
		}
		hs = append(hs, h)
	}
	return hs, nil
}

func (g *Gate) allEnded(tx Tx, n Notification) (bool, error) {
	hs, err := shownHeads(tx, n)
	return !slices.ContainsFunc(hs, func(h Head) bool { return h.Status == Pending }), err
}

func (g *Gate) skip(tx Tx, n Notification) error {
	was, attempt := n.Status, n.Attempt
	n.Status, n.UpdatedAt, n.LeaseUntil = Skipped, tx.Now(), time.Time{}
	_, err := tx.UpdateNotification(n, was, attempt)
	return err
}

// queueEdit queues the edit of a sent card. One that has not begun yet will show the newest state
// anyway; behind one that has begun, the next waits, so that edits of one card cannot overtake.
func (g *Gate) queueEdit(tx Tx, card Notification, siblings []Notification) error {
	if !g.editable(card.Channel) || len(card.Receipt) == 0 {
		return nil
	}
	next := tx.Now()
	for _, n := range siblings {
		if n.Kind != KindEdit || n.TargetID != card.ID || n.Status != Queued && n.Status != Retrying {
			continue
		}
		if n.Attempt == 0 {
			return nil
		}
		next = latest(next, n.LeaseUntil, n.NextAttemptAt.Add(time.Second))
	}
	return g.queue(tx, Notification{ApprovalID: card.ApprovalID, BatchID: card.BatchID, Channel: card.Channel, Recipient: card.Recipient,
		Kind: KindEdit, TargetID: card.ID, Cards: card.Cards, NextAttemptAt: next})
}

func latest(ts ...time.Time) time.Time {
	return slices.MaxFunc(ts, time.Time.Compare)
}

// Decision approves or denies a request.
type Decision struct {
	RequestID string
	Approve   bool
	By        Actor
	Via       Via
	Reason    string
}

// MaxReason is how long a reason may be, in bytes: any 3000 characters fit, which is what Slack's dialog takes.
const MaxReason = 12_000

// Decide takes one person's decision. Of any number of deciders one wins; the others get an [Error]
// that carries the request as it stands: [CodeNotFound], [CodeNotAnApprover], [CodeAlreadyResolved],
// [CodeExpired], [CodeReasonRequired] or [CodeInvalidParameter], judged in that order, and each is audited.
func (g *Gate) Decide(ctx context.Context, d Decision) (Request, error) {
	var r Request
	var refusal *Error
	err := g.store.Update(ctx, func(tx Tx) (err error) {
		r, refusal, err = g.decide(ctx, tx, d)
		return err
	})
	switch {
	case err != nil:
		return Request{}, err
	case refusal != nil:
		return g.told(r), g.toldError(refusal)
	}
	return g.told(r), nil
}

// decide returns a refusal apart from an error: a refusal is on record and commits, an error does not.
func (g *Gate) decide(ctx context.Context, tx Tx, d Decision) (Request, *Error, error) {
	if d.Reason, d.By = strings.TrimSpace(d.Reason), g.asNow(d.By); blank(d.Reason) {
		d.Reason = ""
	}
	r, err := g.settled(ctx, tx, d.RequestID)
	if errors.Is(err, ErrNotFound) {
		refusal := Errorf(CodeNotFound, "%s", SayNoRequest.Say())
		return Request{}, refusal, g.refused(ctx, tx, Request{}, d, refusal)
	}
	if err != nil {
		return Request{}, nil, err
	}
	if refusal := g.refusalOf(r, d, tx.Now()); refusal != nil {
		return r, refusal, g.refused(ctx, tx, r, d, refusal)
	}
	now := tx.Now()
	res := Resolution{ID: r.ID, Status: Denied, At: now, By: d.By.String(), Via: d.Via, Reason: d.Reason}
	word := "deny"
	if d.Approve {
		word = "approve"
		res.Status, res.UseBy = Approved, now.Add(g.Policy().Terms().UseWithin).Truncate(time.Millisecond)
	}
	ok, err := tx.Resolve(res)
	if err != nil {
		return r, nil, err
	}
	if !ok {
		return r, nil, Errorf(CodeStoreUnavailable, "The request changed while it was decided; try again.")
	}
	if !d.Approve {
		recent, err := tx.Recent(r.Key())
		if err != nil {
			return r, nil, err
		}
		recent.DeniedID, recent.DeniedAt = r.ID, now
		if err := tx.PutRecent(r.Key(), recent); err != nil {
			return r, nil, err
		}
	}
	e := requestEvent(r, EventDecision)
	e.Actor, e.Decision, e.Reason = d.By.String(), word, d.Reason
	e.Data = marshal(map[string]any{"via": d.Via, "args_hash": r.ArgsHash})
	if err := g.audit(ctx, tx, e); err != nil {
		return r, nil, err
	}
	if d.Approve {
		if err := g.acceptTool(ctx, tx, r, d.By); err != nil {
			return r, nil, err
		}
	}
	if err := g.ended(ctx, tx, r); err != nil {
		return r, nil, err
	}
	r, err = tx.Request(r.ID)
	return r, nil, err
}

// asNow returns a person with the roles they have now, none if they are not configured any more.
func (g *Gate) asNow(who Actor) Actor {
	if who.Kind != Human || g.people == nil {
		return who
	}
	now, ok := g.people(who.Name)
	who.Approver, who.Admin = ok && now.Approver, ok && now.Admin
	return who
}

// refusalOf says why d may not be carried out on r as it stands, nil if it may.
func (g *Gate) refusalOf(r Request, d Decision, now time.Time) *Error {
	code := mayDecide(&r, d, now)
	e := &Error{Code: code, Request: &r}
	switch code {
	case "":
		return nil
	case CodeNotAnApprover: // it may not be theirs to see
		return &Error{Code: code, Message: SayNotYours.Say()}
	case CodeExpired, CodeAlreadyResolved:
		e.Message = lateMessage(g.told(r), d.By)
	case CodeReasonRequired:
		e.Message = "This request needs a reason with the decision."
	default:
		e.Message = SayReasonTooLong.Say()
	}
	return e
}

func (g *Gate) refused(ctx context.Context, tx Tx, r Request, d Decision, why *Error) error {
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
	return g.audit(ctx, tx, e)
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
	var r Request
	var refusal *Error
	err := g.store.Update(ctx, func(tx Tx) (err error) {
		refusal = nil
		c.By = g.asNow(c.By)
		r, err = g.settled(ctx, tx, c.RequestID)
		code := CodeNotFound
		switch {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return err
		default:
			code = mayCancel(&r, c.By)
		}
		switch code {
		case "":
			r, err = g.cancel(ctx, tx, r, c.By, c.Via, strings.TrimSpace(c.Reason))
			return err
		case CodeNotFound:
			refusal = Errorf(code, "%s", SayNoRequest.Say())
			return nil
		case CodeNotAdmin:
			refusal = &Error{Code: code, Message: "Only an admin, or whoever approved it, may cancel this request."}
		default:
			refusal = &Error{Code: code, Message: lateMessage(g.told(r), c.By), Request: &r}
		}
		e := requestEvent(r, EventDecisionRefused)
		e.Actor, e.Decision, e.Reason = c.By.String(), "cancel", string(refusal.Code)
		return g.audit(ctx, tx, e)
	})
	switch {
	case err != nil:
		return Request{}, err
	case refusal != nil:
		return g.told(r), g.toldError(refusal)
	}
	return g.told(r), nil
}

func (g *Gate) cancel(ctx context.Context, tx Tx, r Request, by Actor, via Via, reason string) (Request, error) {
	if err := g.takeBack(ctx, tx, r, by, via, reason); err != nil {
		return r, err
	}
	return tx.Request(r.ID)
}

// takeBack is cancel for a live request of which it looks at the narrow part alone.
func (g *Gate) takeBack(ctx context.Context, tx Tx, r Request, by Actor, via Via, reason string) error {
	ok, err := tx.Resolve(Resolution{ID: r.ID, Status: Cancelled, At: tx.Now(), By: by.String(), Via: via, Reason: reason})
	if err != nil {
		return err
	}
	if !ok {
		return Errorf(CodeStoreUnavailable, "The request changed while it was cancelled; try again.")
	}
	e := requestEvent(r, EventApprovalCancelled)
	e.Actor, e.Reason = by.String(), reason
	e.Data = marshal(map[string]any{"via": via, "was": r.Status})
	if err := g.audit(ctx, tx, e); err != nil {
		return err
	}
	return g.ended(ctx, tx, r)
}
