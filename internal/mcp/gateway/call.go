package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/legible"
	"countersign/internal/budget"
	"countersign/internal/mcp"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/upstream"
)

// call answers tools/call.
func (r *clientRequest) call() (jsontext.Value, *mcp.Error) {
	name, bad := r.textParam("name")
	if bad != nil {
		return nil, bad
	}
	arguments := r.params.Get("arguments")
	if arguments == nil || string(arguments) == "null" { // some clients write null for none
		arguments = jsontext.Value("{}")
	}
	for i := range r.g.tools {
		if own := &r.g.tools[i]; own.Name == name {
			return r.callOwnTool(own, arguments)
		}
	}
	r.rememberHello()
	t, err := r.findTool(r.ctx, name, (*link).currentTool)
	if err != nil {
		return r.failure(fmt.Sprintf("%s. The call was not run, and nobody was asked.", capital(r.g.errorText(err))),
			mcp.CodeUnavailable)
	}
	if t == nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: %s", legible.Line(legible.Cut(name, 128)))
	}
	return r.gate(t.link, mcp.Object{{Name: "name", Value: mcp.Quote(t.name)}, {Name: "arguments", Value: arguments}}, t)
}

// textParam returns a member of the params that must be a string.
func (r *clientRequest) textParam(name string) (string, *mcp.Error) {
	if v := r.params.Get(name); len(v) == 0 || v.Kind() != '"' {
		return "", mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %s must be a string.", name)
	}
	return r.params.Text(name), nil
}

// pendingCall is a request on its way through the gate to a server.
type pendingCall struct {
	r      *clientRequest // who asks
	link   *link
	tool   *tool // nil for other methods
	method string
	params mcp.Object // as they are sent, less what is added to each try
	call   approval.Call
	answer approval.Answer

	// What continues a call that a modern server had answered with input_required.
	responses, state jsontext.Value
	continued        bool // after it was approved, and sent

	notHeld error // why it is not held although a person is being asked

	keyboard keyboard

	reservation *upstream.Reservation // kept for it at the server, before an approval is used
	begun       bool                  // the server has answered, and wanted more before its result
}

// reserve takes room for the call at its server, in place of what it had. There must be some before an approval is
// used: what does not fit is not sent.
func (p *pendingCall) reserve(conn upstream.Conn, agent string) (err error) {
	p.reservation.Release()
	size := 0
	for _, m := range p.params {
		size += len(m.Name) + len(m.Value)
	}
	p.reservation, err = conn.Reserve(agent, size+len(p.responses)+len(p.state))
	return err
}

// gate asks the gate for a request to a server, and forwards it or answers in the server's place.
func (r *clientRequest) gate(l *link, params mcp.Object, t *tool) (jsontext.Value, *mcp.Error) {
	begin := r.g.clock.age()
	p := &pendingCall{r: r, link: l, tool: t, method: r.method, params: params, keyboard: keyboard{r: r}}
	if r.client.Era == mcp.Modern { // unasked they go along with what policy allows, never with what a person approved
		p.responses = r.params.Get("inputResponses")
	}
	result, err := p.askAndForward()
	word := string(p.answer.Kind)
	if word == "" {
		word = "failed"
	}
	r.g.o.Called(l.server.Name, r.method, word, r.g.clock.age()-begin)
	return result, err
}

// askAndForward asks the gate about a call, and forwards it or answers it. Thousands may be held in it at once: what is
// on the stack meanwhile counts, and so the steps before and after are functions of their own.
func (p *pendingCall) askAndForward() (jsontext.Value, *mcp.Error) {
	conn, next, result, bad := p.askGate()
	if next == stepWait {
		if err := p.hold(conn); err != nil {
			p.reservation.Release()
			return p.gateFailure(err)
		}
		next = stepProceed
	}
	if next == stepProceed {
		return p.applyAnswer(conn)
	}
	return result, bad
}

// gateStep is what follows once the gate was asked.
type gateStep int

const (
	stepAnswered gateStep = iota // it is answered
	stepWait                     // a person is being asked
	stepProceed                  // the gate has said what is to be done
)

// askGate asks the gate, or takes up what was interrupted.
//
//nolint:funlen // one straight way
func (p *pendingCall) askGate() (conn upstream.Conn, next gateStep, result jsontext.Value,
	bad *mcp.Error) {
	answer := func(result jsontext.Value, bad *mcp.Error) (upstream.Conn, gateStep, jsontext.Value, *mcp.Error) {
		return conn, stepAnswered, result, bad
	}
	if bad := p.buildCall(); bad != nil {
		return answer(nil, bad)
	}
	answers, bad := readAnswers(p.responses) // before a state is used up
	if bad != nil {
		return answer(nil, bad)
	}
	conn, err := p.link.get(p.r.ctx)
	if err != nil {
		return answer(p.r.failure(fmt.Sprintf("The MCP server %s cannot be reached: %s. The call was not run, and "+
			"nobody was asked.", p.link.server.Name, p.r.g.errorText(err)), mcp.CodeUnavailable))
	}
	askKeyboard := true
	if v := p.r.params.Get("requestState"); v != nil {
		s, bad := p.openState(v)
		if bad != nil {
			return answer(nil, bad)
		}
		switch {
		case s.Inflight != "":
			return answer(p.resumeInflight(s, answers))
		case s.Keyboard != "", s.Page != "":
			askKeyboard = false
			if s.Keyboard != "" { // who was sent to a page decides there, whatever the client brings back
				if v := answers.Get("approve"); v != nil {
					p.keyboard.say(p.keyboard.decide(s.Keyboard, v))
				}
			}
			p.responses = nil
			// Whatever came of the request that was asked about is the answer, not another request.
			if req, err := p.r.g.o.Asker.Request(p.r.ctx, p.r.agent(), cmp.Or(s.Keyboard, s.Page)); err != nil {
				return answer(p.gateFailure(err))
			} else if req.Status != approval.Pending {
				p.answer = approval.Answer{Kind: approval.AnswerPending, Request: &req}
				return conn, stepWait, nil, nil
			}
		case s.Approval != "": // it was let through already
			return answer(p.resumeApproved(conn, s))
		case s.GrantUse != "":
			return answer(p.resumeGranted(conn, s))
		default:
			p.state = s.State
		}
	}
	if err := p.reserve(conn, p.r.client.Agent); err != nil {
		return answer(p.r.failure(fmt.Sprintf("%s The call was not run, and nobody was asked.", p.busyText(err)),
			mcp.CodeUnavailable))
	}
	gate := p.r.g.o.Asker
	if p.answer, err = gate.Check(p.r.withCorrelation(), p.call); err != nil {
		p.reservation.Release()
		return answer(p.gateFailure(err))
	}
	if p.answer.Kind != approval.AnswerPending {
		return conn, stepProceed, nil, nil
	}
	p.reservation.Release()
	if p.call.Task && p.answer.Request.Task { // an ordinary request stays one, also after a restart
		return answer(p.startTask())
	}
	if askKeyboard && p.r.client.Era == mcp.Modern {
		if form, ok := p.keyboard.form(p.answer.Request); ok {
			return answer(p.inputRequired(requestState{Keyboard: p.answer.Request.ID},
				mcp.Object{{Name: "approve", Value: elicitation(form)}}))
		}
		if page, ok := p.keyboard.page(p.answer.Request); ok {
			return answer(p.inputRequired(requestState{Page: p.answer.Request.ID},
				mcp.Object{{Name: "open", Value: elicitation(page)}}))
		}
	}
	return conn, stepWait, nil, nil
}

// buildCall makes the call that the gate is asked for.
func (p *pendingCall) buildCall() *mcp.Error {
	c := p.r.callOf(p.link)
	raw := jsontext.Value(nil)
	if p.tool != nil {
		c.Tool, c.ToolDigest, c.ToolSeen, raw = p.tool.name, p.tool.digest, p.tool.seenByAll(), p.params.Get("arguments")
		c.ListedDigest, c.Annotations = p.tool.listedDigest, p.tool.annotations
		c.AcceptsEdits = true // what is sent is what was approved
		if !p.r.g.o.Wrapper { // whose gate is elsewhere, and cannot ask for it
			c.Differ = differ{p}
		}
		// a task waits, too
		c.Task = p.r.client.Era == mcp.Modern && p.r.declared.tasks && p.r.account().Free(budget.Waits)
	} else {
		c.Method, c.Tool, raw = p.method, approval.MethodTool(p.method), p.params.Bytes()
	}
	c.Waits = p.r.g.o.Hold > 0 && !c.Task // whose client goes on with something else
	release, err := p.r.account().TurnFor(p.r.ctx, len(raw))
	if err != nil {
		return mcp.Errorf(mcp.CodeUnavailable, "%s The call was not run.", budgetText(err))
	}
	c.Args, err = args.Parse(raw)
	release()
	if err != nil {
		why := err.Error()
		if e, ok := errors.AsType[*args.Error](err); ok {
			why = e.Reason
		}
		return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: the arguments are refused: %s. The call was not run.",
			why)
	}
	p.call = c
	return nil
}

// callOf is what every call to a server has. Clients do not say which calls belong to one turn; where they have no
// session either, the agent and its scope stand for one.
func (r *clientRequest) callOf(l *link) approval.Call {
	return approval.Call{Agent: r.client.Agent, Scope: r.g.o.Scope, Server: l.server.Name, SessionID: r.session.id,
		Grouped: true, Dispatch: true}
}

// withCorrelation is the request's context with what finds its audit events again: the client's own id of the
// call where it sends one, which has no authority.
func (r *clientRequest) withCorrelation() context.Context {
	id := ""
	for _, name := range []string{"claudecode/toolUseId", "callId"} {
		if id = approval.TheirCorrelation(r.meta.Text(name)); id != "" {
			break
		}
	}
	if id == "" {
		id = approval.NewCorrelation(r.g.clock.now())
	}
	return approval.WithCorrelation(r.ctx, id)
}

// applyAnswer does what the gate said.
func (p *pendingCall) applyAnswer(conn upstream.Conn) (jsontext.Value, *mcp.Error) {
	switch p.answer.Kind {
	case approval.AnswerAllow:
		if p.runID() != "" && !p.continued { // a grant is for the arguments, and for nothing else
			p.responses, p.state = nil, nil
		}
	case approval.AnswerApproved: // what was approved is what is sent, and nothing else
		if !p.continued {
			p.responses, p.state = nil, nil
		}
		stored := approvedArgs(&p.answer)
		if p.tool == nil {
			o, err := mcp.ReadObject(stored)
			if err != nil {
				p.reservation.Release()
				return p.r.failure("The stored call cannot be read. The call was not run.", mcp.CodeInternalError)
			}
			p.params = o
		} else {
			p.params = p.params.With("arguments", stored)
		}
	default:
		p.reservation.Release()
		return p.answerForServer()
	}
	if p.runID() != "" || p.r.client.Era == mcp.Modern && conn.Hello().Era == mcp.Legacy && p.r.canBeAsked() {
		return p.forward(conn)
	}
	return (&exchange{r: p.r, p: p, conn: conn, ask: p.r.ask}).run()
}

// runID is what is reported of the call under: the approval that it used, or the use of a grant. "": it was let through
// by policy alone, and nobody wants to know what came of it.
func (p *pendingCall) runID() string {
	switch {
	case p.answer.RunID != "":
		return p.answer.RunID
	case p.answer.Kind == approval.AnswerApproved && p.answer.Request != nil:
		return p.answer.Request.ID
	}
	return ""
}

// approvedArgs are the stored bytes that an approval is for: where a person put others in place of those that were
// asked for, these.
func approvedArgs(a *approval.Answer) jsontext.Value {
	if a.Args != nil {
		return a.Args
	}
	return a.Request.Args
}

// canBeAsked reports whether the client can be asked for anything.
func (r *clientRequest) canBeAsked() bool {
	return r.declared.form || r.declared.url || r.declared.sampling || r.declared.roots
}

// nextSteps is what a model is told to do after it was told how a call ended, "" where that says it.
func nextSteps(o approval.Answer) string {
	if o.Frozen() { // which says that nothing is to be tried again
		if o.Kind == approval.AnswerDenied {
			return ""
		}
		return "The call was not run."
	}
	switch o.Kind {
	case approval.AnswerPending:
		return "The call has not run. Go on with other work. Once it is approved, call it again with exactly the same " +
			"arguments: that runs it once. " + feedName + " tells you what was decided."
	case approval.AnswerExpired:
		return "The call was not run. Nobody refused it. Call it again if it is still needed: people are asked again."
	case approval.AnswerCancelled, approval.AnswerLapsed:
		return "The call was not run. Call it again if it is still needed: people are asked again."
	case approval.AnswerDenied:
		if o.Request == nil { // by policy, which the same call meets again
			return "The call was not run. Do not repeat it; try a different approach."
		}
	}
	return ""
}

// answerForServer answers in the server's place.
func (p *pendingCall) answerForServer() (jsontext.Value, *mcp.Error) {
	o := p.answer
	meta := mcp.Object{{Name: "countersign/decision", Value: mcp.Quote(string(o.Kind))}}
	if o.Request != nil {
		meta = append(meta, mcp.Member{Name: "countersign/approval_id", Value: mcp.Quote(o.Request.ID)})
	}
	pending := o.Kind == approval.AnswerPending
	if p.tool == nil {
		code := mcp.CodeDenied
		if pending {
			code = mcp.CodePending
		}
		return nil, &mcp.Error{Code: code, Message: o.Message, Data: meta.Bytes()}
	}
	texts := []string{o.Message}
	if s := nextSteps(o); s != "" {
		texts = append(texts, s)
	}
	if pending && p.notHeld != nil {
		texts = append(texts, "The call was not held for an answer: "+budgetText(p.notHeld))
	}
	if said := p.keyboard.lastSaid(); pending && said != "" {
		texts = append(texts, said)
	}
	// Clients hold results to the schema that a tool declares, unless they are errors.
	output := p.tool.output
	if p.r.client.Era == mcp.Legacy {
		output = p.tool.legacyOutput
	}
	return p.r.toolResult(!pending || output, meta, texts...), nil
}

// toolResult is the result of a tool that the gateway answers for.
func (r *clientRequest) toolResult(failed bool, meta mcp.Object, texts ...string) jsontext.Value {
	content := jsontext.Value("[")
	for i, text := range texts {
		if i > 0 {
			content = append(content, ',')
		}
		content = mcp.Object{{Name: "type", Value: jsontext.Value(`"text"`)},
			{Name: "text", Value: mcp.Quote(text)}}.Append(content)
	}
	var o mcp.Object
	if r.client.Era == mcp.Modern {
		o = append(o, mcp.Member{Name: "resultType", Value: mcp.Quote(mcp.ResultComplete)})
	}
	o = append(o, mcp.Member{Name: "content", Value: append(content, ']')},
		mcp.Member{Name: "isError", Value: strconv.AppendBool(nil, failed)})
	if len(meta) > 0 {
		o = append(o, mcp.Member{Name: "_meta", Value: meta.Bytes()})
	}
	return o.Bytes()
}

// failure tells a model that a call came to nothing: as a tool's error, which it sees, or for other
// methods as an error of the protocol.
func (r *clientRequest) failure(text string, code int) (jsontext.Value, *mcp.Error) {
	if r.method != "tools/call" {
		return nil, mcp.Errorf(code, "%s", text)
	}
	return r.toolResult(true, nil, text), nil
}

// gateFailure answers where the gate gave no decision: nothing runs then.
func (p *pendingCall) gateFailure(err error) (jsontext.Value, *mcp.Error) {
	if p.r.ctx.Err() != nil { // who asked is gone, or is nobody that the gate knows any more
		if e, ours := errors.AsType[*approval.Error](context.Cause(p.r.ctx)); ours {
			return nil, mcp.Errorf(mcp.CodeUnavailable, "%s The call was not run.", sentence(e.Message))
		}
		return nil, mcp.Errorf(mcp.CodeUnavailable, "The request was given up before it was decided. The call was not run.")
	}
	if errors.Is(err, upstream.ErrBusy) {
		return p.r.failure(p.busyText(err)+" The call was not run, and no approval was used.", mcp.CodeUnavailable)
	}
	if e, ok := errors.AsType[*upstream.Error](err); ok {
		return p.r.failure(fmt.Sprintf("The MCP server %s cannot be reached: %s. The call was not run, "+
			"and no approval was used.", p.link.server.Name, p.r.g.errorText(e)), mcp.CodeUnavailable)
	}
	if e, ok := errors.AsType[*changedError](err); ok {
		return p.r.failure(capital(e.Error())+
			". The call was not run. Call it again if it is still needed: people are asked about the tool as it is now.",
			mcp.CodeUnavailable)
	}
	message := "The gate could not decide."
	if e, ours := errors.AsType[*approval.Error](err); ours && e.Message != "" {
		message = sentence(e.Message)
	}
	switch approval.CodeOf(err) {
	case approval.CodeInvalidArgs, approval.CodeInvalidTool, approval.CodeInvalidParameter:
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %s", message)
	case approval.CodeUnauthorized:
		return p.r.failure(message+" The call was not run, and no approval was used.", mcp.CodeUnavailable)
	case approval.CodeTooManyPending, approval.CodeRateLimited:
		return p.r.failure(message+" The call was not run, and nobody was asked.", mcp.CodeUnavailable)
	}
	p.r.g.log.Error("the gate could not decide a call, so it was not run",
		"server", p.call.Server, "tool", p.call.Tool, "agent", p.call.Agent, "error", err)
	if message != "The gate could not decide." {
		message = "The gate could not decide: " + message
	}
	return p.r.failure(message+" The call was not run; try again later.", mcp.CodeUnavailable)
}

// busyText says that a server has no room for a call.
func (p *pendingCall) busyText(err error) string {
	return fmt.Sprintf("The MCP server %s cannot take the call: %s.", p.link.server.Name, p.r.g.errorText(err))
}

// sentence gives a message of the gate its full stop, where it has none.
func sentence(s string) string {
	if strings.HasSuffix(s, ".") {
		return capital(s)
	}
	return capital(s) + "."
}

// waitingEvery is how often a client that asked for progress is told that its call is held.
const waitingEvery = 5 * time.Second

// hold waits for a person, for as long as calls are held.
func (p *pendingCall) hold(conn upstream.Conn) error {
	if p.r.g.o.Hold <= 0 && p.answer.Request.Status == approval.Pending {
		return nil
	}
	if p.answer.Request.Status == approval.Pending {
		release, over := p.r.account().Hold(p.r.ctx, budget.Waits)
		if over != nil {
			p.notHeld = over
			return nil
		}
		defer release()
	}
	ctx, cancel := context.WithCancel(p.r.withCorrelation())
	defer cancel()
	stopped := p.reportWaiting(ctx)
	closed := p.keyboard.ask(ctx, p.answer.Request)
	gate, o := p.r.g.o.Asker, approval.WaitOptions{For: max(p.r.g.o.Hold, time.Millisecond), Stop: p.r.g.stopping,
		Still: func() error { return p.checkUsable(conn) }}
	out, err := gate.Wait(ctx, p.call, p.answer, o)
	cancel()
	stopped()
	closed()
	p.answer = out // reportWaiting and the keyboard have read the one before
	return err
}

// checkUsable reports whether an approval can be used: not for a client that may not call any more, nor on a
// server that is gone, nor for a tool that is another by now.
func (p *pendingCall) checkUsable(conn upstream.Conn) error {
	if p.r.client.StillValid != nil {
		if err := p.r.client.StillValid(); err != nil {
			return err
		}
	}
	if conn.Err() != nil {
		return &upstream.Error{Err: errors.New("the connection is lost")}
	}
	if err := p.checkUnchanged(p.r.ctx); err != nil {
		return err
	}
	return p.reserve(conn, p.r.client.Agent)
}

// changedError says that a tool is not the one that the gate was asked for.
type changedError struct{ target string }

func (e *changedError) Error() string {
	return fmt.Sprintf("the tool %s was changed by its server while the call waited", e.target)
}

// checkUnchanged returns an error unless the server still has the tool as the gate was asked for it.
func (p *pendingCall) checkUnchanged(ctx context.Context) error {
	if p.tool == nil {
		return nil
	}
	c, err := p.link.catalog(ctx)
	if err != nil {
		return &upstream.Error{Err: err}
	}
	if now := c.named[p.tool.name]; now == nil || now.digest != p.tool.digest {
		return &changedError{p.call.Target()}
	}
	return nil
}

// reportWaiting reports progress while a call is held; the function it returns waits until that has ended.
func (p *pendingCall) reportWaiting(ctx context.Context) (stopped func()) {
	if p.r.progressToken == nil {
		return func() {}
	}
	done := make(chan struct{})
	p.keyboard.said = make(chan struct{}, 1)
	go func() {
		defer close(done)
		tick := time.NewTicker(waitingEvery)
		defer tick.Stop()
		begin := p.r.g.clock.age()
		text := fmt.Sprintf("Waiting for a person to approve %s (id: %s)", p.call.Target(), p.answer.Request.ID)
		for {
			message := text
			if said := p.keyboard.lastSaid(); said != "" {
				message = said + " " + text
			}
			waited := (p.r.g.clock.age() - begin).Seconds() + 1
			p.r.mu.Lock()
			p.r.progressOffset = waited + 1 // the server may begin at 0
			p.r.mu.Unlock()
			_ = p.r.stream.Send(mcp.Notification(progressMethod, mcp.Object{
				{Name: "progressToken", Value: p.r.progressToken}, {Name: "progress", Value: formatFloat(waited)},
				{Name: "message", Value: mcp.Quote(message)},
			}.Bytes())) // a client that is gone ends ctx
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			case <-p.keyboard.said:
			}
		}
	}()
	return func() { <-done }
}

func formatFloat(f float64) jsontext.Value { return strconv.AppendFloat(nil, f, 'f', -1, 64) }

// onNotification passes on what a server sends while it works on the request.
func (x *exchange) onNotification(id jsontext.Value) func(mcp.Message) {
	l := x.p.link
	return func(m mcp.Message) {
		switch m.Method {
		case progressMethod:
			if x.r.progressToken == nil {
				return
			}
			p, err := mcp.ReadObject(m.Params)
			if err != nil || string(p.Get("progressToken")) != string(id) {
				return
			}
			p = p.With("progressToken", x.r.progressToken)
			if said := p.Get("message"); said != nil && l.server.MaskResults {
				k := masking{m: x.r.g.o.Masker()}
				if p = p.With("message", k.text(said)); k.bad != nil {
					p = p.Without("message")
				}
			}
			if x.r.progressOffset > 0 { // progress only ever grows, and holding was progress too
				for _, name := range []string{"progress", "total"} {
					if f, err := strconv.ParseFloat(string(p.Get(name)), 64); err == nil {
						p = p.With(name, formatFloat(f+x.r.progressOffset))
					}
				}
			}
			m.Params = p.Bytes()
		case logMessage:
			if l.server.MaskResults {
				var ok bool
				if m.Params, ok = maskNotification(x.r.g.o.Masker(), m.Params); !ok {
					return
				}
			}
			if l.owner == nil && x.r.client.Era == mcp.Legacy && !x.r.wantsLog(m.Params) {
				return
			}
		case toolsChanged, promptsChanged, resourcesChanged, resourceUpdated:
			l.onNotification(m)
			return
		default:
			return
		}
		_ = x.r.stream.Send(m)
	}
}

// traceFields is the metadata that is passed on as it is: where a trace goes on. Nothing else is, since neither
// policy nor a person has seen it.
var traceFields = []string{"traceparent", "tracestate", "baggage"}

// serverMeta is the metadata of the request as the server gets it. What the client's era gave a meaning is
// said in the server's.
func (x *exchange) serverMeta(id jsontext.Value) mcp.Object {
	var meta mcp.Object
	for _, name := range traceFields {
		if v := x.r.meta.Get(name); len(v) > 0 && v.Kind() == '"' {
			meta = append(meta, mcp.Member{Name: name, Value: v})
		}
	}
	if x.r.progressToken != nil {
		meta = append(meta, mcp.Member{Name: mcp.MetaProgress, Value: id})
	}
	if x.conn.Hello().Era == mcp.Legacy {
		return meta
	}
	caps, info := x.r.declared.capabilities, x.r.declared.info
	if x.ask == nil || caps == nil {
		caps = jsontext.Value("{}")
	}
	if info == nil {
		info = x.r.g.implementation()
	}
	meta = append(meta, mcp.Member{Name: mcp.MetaVersion, Value: mcp.Quote(mcp.VersionModern)},
		mcp.Member{Name: mcp.MetaCapabilities, Value: caps}, mcp.Member{Name: mcp.MetaClient, Value: info})
	level := x.r.meta.Get(mcp.MetaLogLevel)
	if severity(mcp.Text(level)) < 0 {
		level = nil
	}
	if x.r.client.Era == mcp.Legacy {
		x.r.session.mu.Lock()
		if x.r.level != "" {
			level = mcp.Quote(x.r.level)
		}
		x.r.session.mu.Unlock()
	}
	if level != nil {
		meta = append(meta, mcp.Member{Name: mcp.MetaLogLevel, Value: level})
	}
	return meta
}

// exchange is a call that was let through at its server: what is sent, what the server asks meanwhile, and what its
// result is for the client.
type exchange struct {
	r    *clientRequest // for whom, and for how long: longer than the client's own request, where the call outlives it
	p    *pendingCall
	conn upstream.Conn // the next one, where the call provably did not leave over the first
	ask  askFunc       // nil: nobody can be asked
}

// askFunc answers what a legacy server asks while it works on a request, or a modern one as input_required.
type askFunc func(ctx context.Context, l *link, method string, params jsontext.Value) (jsontext.Value, *mcp.Error)

// maxRounds is how often a modern server may require input for one call of a legacy client.
const maxRounds = 10

// run sends the request, and returns what the client is answered. What came of an approved call is on record then.
func (x *exchange) run() (jsontext.Value, *mcp.Error) {
	result, err := x.converse()
	return withNote(result, x.p.answer.Note), err
}

// withNote puts a text before the content of a tool's result, the only addition that is made to one: other arguments
// ran than the model sent. What is no complete result of a tool stays as it is.
func withNote(result jsontext.Value, note string) jsontext.Value {
	if note == "" || result == nil {
		return result
	}
	o, err := mcp.ReadObject(result)
	if err != nil || o.Text("resultType") == mcp.ResultInputRequired {
		return result
	}
	blocks := []jsontext.Value(nil)
	if content := o.Get("content"); content != nil {
		if blocks, err = mcp.ReadArray(content); err != nil {
			return result
		}
	}
	noted := append(jsontext.Value("["), mcp.Object{{Name: "type", Value: jsontext.Value(`"text"`)},
		{Name: "text", Value: mcp.Quote(note)}}.Bytes()...)
	for _, b := range blocks {
		noted = append(append(noted, ','), b...)
	}
	return o.With("content", append(noted, ']')).Bytes()
}

// converse is run without what is said of the arguments.
func (x *exchange) converse() (jsontext.Value, *mcp.Error) {
	bounded, cancel := context.WithTimeout(x.r.ctx, x.p.link.server.Timeout)
	defer cancel()
	defer x.p.reservation.Release()
	x.ask = x.recordingAsk(x.ask)
	reconnected := false
	for round := 0; ; round++ {
		resp, err := x.conn.Do(bounded, x.serverRequest())
		if err != nil && !upstream.Sent(err) && x.conn.Err() != nil && !reconnected {
			// The connection had ended before: as nothing was sent, it goes over the next one.
			if next, ok := x.sendAgain(bounded); ok {
				x.conn, reconnected = next, true
				continue
			}
		}
		if err != nil {
			return x.noAnswer(err)
		}
		if resp.Err != nil {
			x.p.report(x.r.ctx, approval.RunFailed)
			if x.p.link.server.MaskResults {
				return nil, maskError(x.r.g.o.Masker(), mcp.ReadError(resp.Err))
			}
			return nil, mcp.ReadError(resp.Err)
		}
		era := x.conn.Hello().Era
		if era == mcp.Legacy && x.p.runID() == "" &&
			(x.r.client.Era == mcp.Legacy || !mayHaveResultType(resp.Result)) {
			return x.passResult(resp.Result) // nothing in it concerns us
		}
		result, bad := mcp.ReadObject(resp.Result)
		if bad != nil {
			return x.refuseResult("The call ran, but the answer of the MCP server %s was refused: %s.",
				x.p.link.server.Name, bad)
		}
		kind := result.Text("resultType")
		switch {
		case era == mcp.Modern && kind == mcp.ResultInputRequired:
		case kind != "" && kind != mcp.ResultComplete && (era == mcp.Modern || x.r.client.Era == mcp.Modern):
			// who is of the other era gives it no meaning
			return x.refuseResult("The MCP server %s answered with a result of the kind %q, which was not asked for."+
				mayHaveRun, x.p.link.server.Name, legible.Cut(legible.Line(kind), 64))
		default:
			x.p.report(x.r.ctx, runResult(result))
			return x.passResult(resp.Result)
		}
		x.p.begun = true
		if x.r.client.Era == mcp.Modern && !x.r.forTask { // a task's client is asked by way of the task
			return x.passInputRequired(result)
		}
		if round >= maxRounds || x.ask == nil {
			return x.refuseResult("The MCP server %s needs more input than this client can give."+mayHaveRun,
				x.p.link.server.Name)
		}
		if x.p.responses, bad = x.collectResponses(bounded, result); bad != nil {
			return x.refuseResult("The answer of the MCP server %s was refused: %s."+mayHaveRun, x.p.link.server.Name, bad)
		}
		x.p.state = result.Get("requestState")
	}
}

// serverRequest is the request as it is sent over a connection.
func (x *exchange) serverRequest() upstream.Request {
	id, era := x.conn.NewID(), x.conn.Hello().Era
	params := x.p.params
	if x.p.responses != nil && era == mcp.Modern {
		params = params.With("inputResponses", x.p.responses)
	}
	if x.p.state != nil {
		params = params.With("requestState", x.p.state)
	}
	if meta := x.serverMeta(id); len(meta) > 0 {
		params = params.With("_meta", meta.Bytes())
	}
	u := upstream.Request{ID: id, Method: x.p.method, Params: params.Bytes(), OnNotification: x.onNotification(id),
		Sender: x.r.client.Agent, Reservation: x.p.reservation}
	if x.p.tool != nil && era == mcp.Modern {
		u.Header = paramHeaders(x.p.tool, x.p.params.Get("arguments"))
		u.Header.Set(mcp.HeaderName, mcp.EncodeHeader(x.p.tool.name)) // so that it is not read from the params again
	}
	if x.ask != nil {
		u.Ask = func(ctx context.Context, m mcp.Message) mcp.Message {
			result, err := x.ask(ctx, x.p.link, m.Method, m.Params)
			if err != nil {
				return mcp.ErrorResponse(m.ID, err)
			}
			return mcp.Response(m.ID, result)
		}
	}
	return u
}

// mayHaveRun ends what is said of a call that was sent and whose end is not known.
const mayHaveRun = " The call may have run; find out before you call it again."

// refuseResult answers for a server whose result is not passed on: what came of the call is not known then.
func (x *exchange) refuseResult(format string,
	values ...any) (jsontext.Value, *mcp.Error) {
	x.p.report(x.r.ctx, approval.RunUnknown)
	return x.r.failure(fmt.Sprintf(format, values...), mcp.CodeInternalError)
}

// runResult is what a complete result says came of its call.
func runResult(result mcp.Object) approval.RunResult {
	if string(result.Get("isError")) == "true" {
		return approval.RunFailed
	}
	return approval.RunSucceeded
}

// mayHaveResultType reports whether a result may say of which kind it is: clients of the modern era go by that.
func mayHaveResultType(result jsontext.Value) bool {
	return bytes.Contains(result, []byte("resultType")) || bytes.Contains(result, []byte(`\u`))
}

// passResult is what a client is given of a complete result. One whose secrets are to be masked and cannot be is held
// back.
func (x *exchange) passResult(result jsontext.Value) (jsontext.Value, *mcp.Error) {
	if x.p.link.server.MaskResults {
		masked, bad := mask(x.r.g.o.Masker(), result)
		if bad != nil {
			return x.r.failure(fmt.Sprintf("The call ran, but the result of the MCP server %s is held back: it cannot be "+
				"read to mask the secrets in it (%s). Do not repeat the call; tell a person.", x.p.link.server.Name, bad),
				mcp.CodeInternalError)
		}
		result = masked
	}
	return x.adaptResult(result), nil
}

// adaptResult makes a result of one era one of the client's where that takes more.
func (x *exchange) adaptResult(result jsontext.Value) jsontext.Value {
	switch era := x.conn.Hello().Era; {
	case era == x.r.client.Era:
		return result
	case era == mcp.Modern:
		return objectInside(result)
	}
	o, err := mcp.ReadObject(result)
	if err != nil || o.Get("resultType") != nil {
		return result
	}
	more := `{"resultType":"complete"`
	if x.r.method == "resources/read" && o.Get("ttlMs") == nil && o.Get("cacheScope") == nil {
		more += `,"ttlMs":0,"cacheScope":"private"`
	}
	if len(o) > 0 {
		more += ","
	}
	return append(jsontext.Value(more), bytes.TrimLeft(result, " \t\r\n")[1:]...)
}

// objectInside is a tool's result as legacy clients read it: what it returned in a structure is an object there. Other
// values are put into one, as servers that speak both eras do it, and into a text where there is none.
func objectInside(result jsontext.Value) jsontext.Value {
	o, err := mcp.ReadObject(result)
	value := o.Get("structuredContent")
	if err != nil || value == nil || value.Kind() == '{' {
		return result
	}
	o = o.With("structuredContent", mcp.Object{{Name: "result", Value: value}}.Bytes())
	if blocks, err := mcp.ReadArray(o.Get("content")); err == nil && len(blocks) > 0 {
		return o.Bytes()
	}
	return withNote(o.With("content", jsontext.Value("[]")).Bytes(), string(value))
}

// recordWithin bounds how long what happened is tried to be put on record.
const recordWithin = 10 * time.Second

// report records what came of a call that a person approved, or let through by a grant.
func (p *pendingCall) report(ctx context.Context, ran approval.RunResult) {
	id := p.runID()
	if id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	if _, err := p.r.g.o.Asker.Report(ctx, p.r.agent(), id, ran); err != nil {
		p.r.g.log.ErrorContext(ctx, "the outcome of a call could not be recorded; until it is, it counts as unknown",
			"run_id", id, "outcome", ran, "error", err)
	}
}

// noAnswer answers for a request that the server did not answer.
func (x *exchange) noAnswer(err error) (jsontext.Value, *mcp.Error) {
	name := x.p.link.server.Name
	x.r.g.log.WarnContext(x.r.ctx, "an MCP server did not answer", "server", name, "method", x.p.method,
		"tool", x.p.call.Tool, "sent", upstream.Sent(err), "error", err)
	if !upstream.Sent(err) {
		return x.p.notRun(x.r.ctx, err)
	}
	x.p.report(x.r.ctx, approval.RunUnknown)
	why := x.r.g.errorText(err)
	if errors.Is(err, context.DeadlineExceeded) {
		why = fmt.Sprintf("it did not answer within %s", x.p.link.server.Timeout)
	}
	return x.r.failure(fmt.Sprintf("The outcome is unknown: the call was sent to the MCP server %s and no answer came "+
		"(%s). It may have run; find out before you call it again.", name, why), mcp.CodeUnknown)
}

// cancelled reports whether the client itself gave the request up, rather than being cut off.
func cancelled(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), downstream.ErrCancelled)
}
