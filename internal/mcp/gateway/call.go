package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/correlation"
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

	traceparent string // of the call's span; "": there is none

	reservation *upstream.Reservation // kept for it at the server, before an approval is used
	begun       bool                  // the server has answered, and wanted more before its result
}

// reserve takes room for the call at its server, in place of what it had. There must be some before an approval is
// used: what does not fit is not sent.
func (p *pendingCall) reserve(conn upstream.Conn) (err error) {
	p.reservation.Release()
	size := 0
	for _, m := range p.params {
		size += len(m.Name) + len(m.Value)
	}
	p.reservation, err = conn.Reserve(p.r.client.Agent, size+len(p.responses)+len(p.state))
	return err
}

// gate asks the gate for a request to a server, and forwards it or answers in the server's place.
func (r *clientRequest) gate(l *link, params mcp.Object, t *tool) (jsontext.Value, *mcp.Error) {
	begin := r.g.clock.age()
	p := &pendingCall{r: r, link: l, tool: t, method: r.method, params: params, keyboard: keyboard{r: r}}
	if r.client.Era == mcp.Modern { // unasked they go along with what policy allows, never with what a person approved
		p.responses = r.params.Get("inputResponses")
	}
	traced := p.beginTrace()
	result, err := p.askAndForward()
	if traced != nil {
		traced(p.answer, p.failureOf(result, err))
	}
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
func (p *pendingCall) askGate() (conn upstream.Conn, next gateStep, result jsontext.Value, bad *mcp.Error) {
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
				p.keyboard.takeAnswers(s.Keyboard, answers)
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
	if err := p.reserve(conn); err != nil {
		return answer(p.r.failure(fmt.Sprintf("%s The call was not run, and nobody was asked.", p.busyText(err)),
			mcp.CodeUnavailable))
	}
	gate := p.r.g.o.Asker
	if p.call.Task {
		p.r.g.beginning.RLock()
		defer p.r.g.beginning.RUnlock()
	}
	if p.answer, err = gate.Check(p.withCause(), p.call); err != nil {
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
		c.Tool, c.ToolDigest, c.ToolSeen, raw = p.tool.name, p.tool.digest, p.tool.isSeenByAll(), p.params.Get("arguments")
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
		Grouped: true, Dispatch: true, Runner: r.g.runner()}
}

// withCorrelation is the request's context with what finds its audit events again: the client's own id of the
// call where it sends one, which has no authority.
func (r *clientRequest) withCorrelation() context.Context {
	id := r.callID()
	if id == "" {
		id = correlation.New(r.g.clock.now())
	}
	return correlation.With(r.ctx, id)
}

// callID is the client's own id of the call, "" where it sends none.
func (r *clientRequest) callID() string {
	for _, name := range []string{"claudecode/toolUseId", "callId"} {
		if id := correlation.Theirs(r.meta.Text(name)); id != "" {
			return id
		}
	}
	return ""
}

// withCause is withCorrelation of a call that may have a span.
func (p *pendingCall) withCause() context.Context {
	ctx := p.r.withCorrelation()
	if p.traceparent != "" {
		ctx = correlation.WithTrace(ctx, p.traceparent)
	}
	return ctx
}

// beginTrace begins the call's span; nil: there are none.
func (p *pendingCall) beginTrace() (end func(approval.Answer, string)) {
	r := p.r
	if r.g.o.Trace == nil {
		return nil
	}
	of := TracedRequest{Method: p.method, Session: r.session.id, Traceparent: r.meta.Text("traceparent"),
		CallID: r.callID(), Server: p.link.server.Name}
	if p.tool != nil {
		of.Tool = p.tool.name
	}
	p.traceparent, end = r.g.o.Trace(of)
	return end
}

// failureOf is why a request was not answered as it asked, in a word; "": it was, or people decide.
func (p *pendingCall) failureOf(result jsontext.Value, err *mcp.Error) string {
	if err != nil {
		return strconv.Itoa(err.Code)
	}
	switch p.answer.Kind {
	case "":
		return "gate_error"
	case approval.AnswerAllow, approval.AnswerApproved:
		if o, bad := mcp.ReadObject(result); bad == nil && runResult(o) == approval.RunFailed {
			return "tool_error"
		}
	}
	return ""
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
// by policy alone, and what came of it is not reported.
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

// isCancelled reports whether the client itself gave the request up, rather than being cut off.
func isCancelled(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), downstream.ErrCancelled)
}
