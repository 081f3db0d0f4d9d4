package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
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

	mu       sync.Mutex
	keyboard string        // what came of an answer at the keyboard that did not end the request
	said     chan struct{} // takes one where that is new; nil: nobody reports it

	reservation *upstream.Reservation // kept for it at the server, before an approval is used
	begun       bool                  // the server has answered, and wanted more before its result
	differ      differ
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
	begin := time.Now()
	p := &pendingCall{link: l, tool: t, method: r.method, params: params}
	if r.client.Era == mcp.Modern { // unasked they go along with what policy allows, never with what a person approved
		p.responses = r.params.Get("inputResponses")
	}
	result, err := r.askAndForward(p)
	word := string(p.answer.Kind)
	if word == "" {
		word = "failed"
	}
	r.g.o.Called(l.server.Name, r.method, word, time.Since(begin))
	return result, err
}

// askAndForward asks the gate about a call, and forwards it or answers it. Thousands may be held in it at once: what is
// on the stack meanwhile counts, and so the steps before and after are functions of their own.
func (r *clientRequest) askAndForward(p *pendingCall) (jsontext.Value, *mcp.Error) {
	conn, next, result, bad := r.askGate(p)
	if next == stepWait {
		if err := r.hold(p, conn); err != nil {
			p.reservation.Release()
			return r.gateFailure(p, err)
		}
		next = stepProceed
	}
	if next == stepProceed {
		return r.applyAnswer(conn, p)
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
func (r *clientRequest) askGate(p *pendingCall) (conn upstream.Conn, next gateStep, result jsontext.Value,
	bad *mcp.Error) {
	answer := func(result jsontext.Value, bad *mcp.Error) (upstream.Conn, gateStep, jsontext.Value, *mcp.Error) {
		return conn, stepAnswered, result, bad
	}
	if bad := r.buildCall(p); bad != nil {
		return answer(nil, bad)
	}
	answers, bad := readAnswers(p.responses) // before a state is used up
	if bad != nil {
		return answer(nil, bad)
	}
	conn, err := p.link.get(r.ctx)
	if err != nil {
		return answer(r.failure(fmt.Sprintf("The MCP server %s cannot be reached: %s. The call was not run, and "+
			"nobody was asked.", p.link.server.Name, r.g.errorText(err)), mcp.CodeUnavailable))
	}
	askKeyboard := true
	if v := r.params.Get("requestState"); v != nil {
		s, bad := r.openState(v, p)
		if bad != nil {
			return answer(nil, bad)
		}
		switch {
		case s.Inflight != "":
			return answer(r.resumeInflight(p, s, answers))
		case s.Keyboard != "", s.Page != "":
			askKeyboard = false
			if s.Keyboard != "" { // who was sent to a page decides there, whatever the client brings back
				r.applyKeyboardAnswers(p, s.Keyboard, answers)
			}
			p.responses = nil
			// Whatever came of the request that was asked about is the answer, not another request.
			if req, err := r.g.o.Asker.Request(r.ctx, r.agent(), cmp.Or(s.Keyboard, s.Page)); err != nil {
				return answer(r.gateFailure(p, err))
			} else if req.Status != approval.Pending {
				p.answer = approval.Answer{Kind: approval.AnswerPending, Request: &req}
				return conn, stepWait, nil, nil
			}
		case s.Approval != "": // it was let through already
			return answer(r.resumeApproved(conn, p, s))
		case s.GrantUse != "":
			return answer(r.resumeGranted(conn, p, s))
		default:
			p.state = s.State
		}
	}
	if err := p.reserve(conn, r.client.Agent); err != nil {
		return answer(r.failure(fmt.Sprintf("%s The call was not run, and nobody was asked.", r.busyText(p, err)),
			mcp.CodeUnavailable))
	}
	gate := r.g.o.Asker
	if p.answer, err = gate.Check(r.withCorrelation(), p.call); err != nil {
		p.reservation.Release()
		return answer(r.gateFailure(p, err))
	}
	if p.answer.Kind != approval.AnswerPending {
		return conn, stepProceed, nil, nil
	}
	p.reservation.Release()
	if p.call.Task && p.answer.Request.Task { // an ordinary request stays one, also after a restart
		return answer(r.startTask(p))
	}
	if askKeyboard && r.client.Era == mcp.Modern {
		if form, ok := r.keyboardQuestion(p); ok {
			return answer(r.inputRequired(p, requestState{Keyboard: p.answer.Request.ID},
				mcp.Object{{Name: "approve", Value: form}}))
		}
		if page, ok := r.pageQuestion(p); ok {
			return answer(r.inputRequired(p, requestState{Page: p.answer.Request.ID},
				mcp.Object{{Name: "open", Value: elicitation(page)}}))
		}
	}
	return conn, stepWait, nil, nil
}

// buildCall makes the call that the gate is asked for.
func (r *clientRequest) buildCall(p *pendingCall) *mcp.Error {
	c := r.callOf(p.link)
	raw := jsontext.Value(nil)
	if p.tool != nil {
		c.Tool, c.ToolDigest, c.ToolSeen, raw = p.tool.name, p.tool.digest, p.tool.seenByAll(), p.params.Get("arguments")
		c.ListedDigest, c.Annotations = p.tool.listedDigest, p.tool.annotations
		c.AcceptsEdits = true // what is sent is what was approved
		if !r.g.o.Wrapper {   // whose gate is elsewhere, and cannot ask for it
			p.differ = differ{r, p}
			c.Differ = &p.differ
		}
		// a task waits, too
		c.Task = r.client.Era == mcp.Modern && r.declared.tasks && r.account().Free(budget.Waits)
	} else {
		c.Method, c.Tool, raw = p.method, approval.MethodTool(p.method), p.params.Bytes()
	}
	c.Waits = r.g.o.Hold > 0 && !c.Task // whose client goes on with something else
	release, err := r.account().TurnFor(r.ctx, len(raw))
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
		if id = correlation.Theirs(r.meta.Text(name)); id != "" {
			break
		}
	}
	if id == "" {
		id = correlation.New(time.Now())
	}
	return correlation.With(r.ctx, id)
}

// applyAnswer does what the gate said.
func (r *clientRequest) applyAnswer(conn upstream.Conn, p *pendingCall) (jsontext.Value, *mcp.Error) {
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
				return r.failure("The stored call cannot be read. The call was not run.", mcp.CodeInternalError)
			}
			p.params = o
		} else {
			p.params = p.params.With("arguments", stored)
		}
	default:
		p.reservation.Release()
		return r.answerForServer(p)
	}
	if p.runID() != "" || r.client.Era == mcp.Modern && conn.Hello().Era == mcp.Legacy && r.canBeAsked() {
		return r.forward(conn, p)
	}
	return r.callServer(r.ctx, conn, p, r.ask)
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
func (r *clientRequest) answerForServer(p *pendingCall) (jsontext.Value, *mcp.Error) {
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
	if said := p.saidAtKeyboard(); pending && said != "" {
		texts = append(texts, said)
	}
	// Clients hold results to the schema that a tool declares, unless they are errors.
	output := p.tool.output
	if r.client.Era == mcp.Legacy {
		output = p.tool.legacyOutput
	}
	return r.toolResult(!pending || output, meta, texts...), nil
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
func (r *clientRequest) gateFailure(p *pendingCall, err error) (jsontext.Value, *mcp.Error) {
	if r.ctx.Err() != nil { // who asked is gone, or is nobody that the gate knows any more
		if e, ours := errors.AsType[*approval.Error](context.Cause(r.ctx)); ours {
			return nil, mcp.Errorf(mcp.CodeUnavailable, "%s The call was not run.", sentence(e.Message))
		}
		return nil, mcp.Errorf(mcp.CodeUnavailable, "The request was given up before it was decided. The call was not run.")
	}
	if errors.Is(err, upstream.ErrBusy) {
		return r.failure(r.busyText(p, err)+" The call was not run, and no approval was used.", mcp.CodeUnavailable)
	}
	if e, ok := errors.AsType[*upstream.Error](err); ok {
		return r.failure(fmt.Sprintf("The MCP server %s cannot be reached: %s. The call was not run, "+
			"and no approval was used.", p.link.server.Name, r.g.errorText(e)), mcp.CodeUnavailable)
	}
	if e, ok := errors.AsType[*changedError](err); ok {
		return r.failure(capital(e.Error())+
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
		return r.failure(message+" The call was not run, and no approval was used.", mcp.CodeUnavailable)
	case approval.CodeTooManyPending, approval.CodeRateLimited:
		return r.failure(message+" The call was not run, and nobody was asked.", mcp.CodeUnavailable)
	}
	r.g.log.Error("the gate could not decide a call, so it was not run",
		"server", p.call.Server, "tool", p.call.Tool, "agent", p.call.Agent, "error",
		err)
	if message != "The gate could not decide." {
		message = "The gate could not decide: " + message
	}
	return r.failure(message+" The call was not run; try again later.", mcp.CodeUnavailable)
}

// busyText says that a server has no room for a call.
func (r *clientRequest) busyText(p *pendingCall, err error) string {
	return fmt.Sprintf("The MCP server %s cannot take the call: %s.", p.link.server.Name, r.g.errorText(err))
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
func (r *clientRequest) hold(p *pendingCall, conn upstream.Conn) error {
	if r.g.o.Hold <= 0 && p.answer.Request.Status == approval.Pending {
		return nil
	}
	if p.answer.Request.Status == approval.Pending {
		release, over := r.account().Hold(r.ctx, budget.Waits)
		if over != nil {
			p.notHeld = over
			return nil
		}
		defer release()
	}
	ctx, cancel := context.WithCancel(r.withCorrelation())
	defer cancel()
	stopped := r.reportWaiting(ctx, p)
	closed := r.askKeyboard(ctx, p)
	gate, o := r.g.o.Asker, approval.WaitOptions{For: max(r.g.o.Hold, time.Millisecond), Stop: r.g.stopping,
		Still: func() error { return r.checkUsable(conn, p) }}
	out, err := gate.Wait(ctx, p.call, p.answer, o)
	cancel()
	stopped()
	closed()
	p.answer = out // reportWaiting and askKeyboard have read the one before
	return err
}

// checkUsable reports whether an approval can be used: not for a client that may not call any more, nor on a
// server that is gone, nor for a tool that is another by now.
func (r *clientRequest) checkUsable(conn upstream.Conn, p *pendingCall) error {
	if r.client.StillValid != nil {
		if err := r.client.StillValid(); err != nil {
			return err
		}
	}
	if conn.Err() != nil {
		return &upstream.Error{Err: errors.New("the connection is lost")}
	}
	if err := p.checkUnchanged(r.ctx); err != nil {
		return err
	}
	return p.reserve(conn, r.client.Agent)
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
func (r *clientRequest) reportWaiting(ctx context.Context, p *pendingCall) (stopped func()) {
	if r.progressToken == nil {
		return func() {}
	}
	done := make(chan struct{})
	p.said = make(chan struct{}, 1)
	go func() {
		defer close(done)
		tick := time.NewTicker(waitingEvery)
		defer tick.Stop()
		begin := time.Now()
		text := fmt.Sprintf("Waiting for a person to approve %s (id: %s)", p.call.Target(), p.answer.Request.ID)
		for {
			message := text
			if said := p.saidAtKeyboard(); said != "" {
				message = said + " " + text
			}
			waited := time.Since(begin).Seconds() + 1
			r.mu.Lock()
			r.progressOffset = waited + 1 // the server may begin at 0
			r.mu.Unlock()
			_ = r.stream.Send(mcp.Notification(progressMethod, mcp.Object{
				{Name: "progressToken", Value: r.progressToken}, {Name: "progress", Value: formatFloat(waited)},
				{Name: "message", Value: mcp.Quote(message)},
			}.Bytes())) // a client that is gone ends ctx
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			case <-p.said:
			}
		}
	}()
	return func() { <-done }
}

func formatFloat(f float64) jsontext.Value { return strconv.AppendFloat(nil, f, 'f', -1, 64) }

// onNotification passes on what a server sends while it works on the request.
func (r *clientRequest) onNotification(id jsontext.Value, l *link) func(mcp.Message) {
	return func(m mcp.Message) {
		switch m.Method {
		case progressMethod:
			if r.progressToken == nil {
				return
			}
			p, err := mcp.ReadObject(m.Params)
			if err != nil || string(p.Get("progressToken")) != string(id) {
				return
			}
			p = p.With("progressToken", r.progressToken)
			if said := p.Get("message"); said != nil && l.server.MaskResults {
				k := masking{m: r.g.o.Masker()}
				if p = p.With("message", k.text(said)); k.bad != nil {
					p = p.Without("message")
				}
			}
			if r.progressOffset > 0 { // progress only ever grows, and holding was progress too
				for _, name := range []string{"progress", "total"} {
					if f, err := strconv.ParseFloat(string(p.Get(name)), 64); err == nil {
						p = p.With(name, formatFloat(f+r.progressOffset))
					}
				}
			}
			m.Params = p.Bytes()
		case logMessage:
			if l.server.MaskResults {
				var ok bool
				if m.Params, ok = maskNotification(r.g.o.Masker(), m.Params); !ok {
					return
				}
			}
			if l.owner == nil && r.client.Era == mcp.Legacy && !r.wantsLog(m.Params) {
				return
			}
		case toolsChanged, promptsChanged, resourcesChanged, resourceUpdated:
			l.onNotification(m)
			return
		default:
			return
		}
		_ = r.stream.Send(m)
	}
}

// traceFields is the metadata that is passed on as it is: where a trace goes on. Nothing else is, since neither
// policy nor a person has seen it.
var traceFields = []string{"traceparent", "tracestate", "baggage"}

// serverMeta is the metadata of the request as the server gets it. What the client's era gave a meaning is
// said in the server's.
func (r *clientRequest) serverMeta(conn upstream.Conn, id jsontext.Value, ask askFunc) mcp.Object {
	var meta mcp.Object
	for _, name := range traceFields {
		if v := r.meta.Get(name); len(v) > 0 && v.Kind() == '"' {
			meta = append(meta, mcp.Member{Name: name, Value: v})
		}
	}
	if r.progressToken != nil {
		meta = append(meta, mcp.Member{Name: mcp.MetaProgress, Value: id})
	}
	if conn.Hello().Era == mcp.Legacy {
		return meta
	}
	caps, info := r.declared.capabilities, r.declared.info
	if ask == nil || caps == nil {
		caps = jsontext.Value("{}")
	}
	if info == nil {
		info = r.g.implementation()
	}
	meta = append(meta, mcp.Member{Name: mcp.MetaVersion, Value: mcp.Quote(mcp.VersionModern)},
		mcp.Member{Name: mcp.MetaCapabilities, Value: caps}, mcp.Member{Name: mcp.MetaClient, Value: info})
	level := r.meta.Get(mcp.MetaLogLevel)
	if severity(mcp.Text(level)) < 0 {
		level = nil
	}
	if r.client.Era == mcp.Legacy {
		r.session.mu.Lock()
		if r.level != "" {
			level = mcp.Quote(r.level)
		}
		r.session.mu.Unlock()
	}
	if level != nil {
		meta = append(meta, mcp.Member{Name: mcp.MetaLogLevel, Value: level})
	}
	return meta
}

// askFunc answers what a legacy server asks while it works on a request, or a modern one as input_required.
type askFunc func(ctx context.Context, l *link, method string, params jsontext.Value) (jsontext.Value, *mcp.Error)

// maxRounds is how often a modern server may require input for one call of a legacy client.
const maxRounds = 10

// callServer sends a request that was let through, and returns what the client is answered. What came of
// an approved call is on record then.
func (r *clientRequest) callServer(ctx context.Context, conn upstream.Conn, p *pendingCall,
	ask askFunc) (jsontext.Value, *mcp.Error) {
	result, err := r.exchange(ctx, conn, p, ask)
	return withNote(result, p.answer.Note), err
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

// exchange is callServer without what is said of the arguments.
func (r *clientRequest) exchange(ctx context.Context, conn upstream.Conn, p *pendingCall,
	ask askFunc) (jsontext.Value, *mcp.Error) {
	bounded, cancel := context.WithTimeout(ctx, p.link.server.Timeout)
	defer cancel()
	defer p.reservation.Release()
	ask = r.recordingAsk(p, ask)
	reconnected := false
	for round := 0; ; round++ {
		resp, err := conn.Do(bounded, r.serverRequest(conn, p, ask))
		if err != nil && !upstream.Sent(err) && conn.Err() != nil && !reconnected {
			// The connection had ended before: as nothing was sent, it goes over the next one.
			if next, ok := r.sendAgain(bounded, p); ok {
				conn, reconnected = next, true
				continue
			}
		}
		if err != nil {
			return r.noAnswer(ctx, p, err)
		}
		if resp.Err != nil {
			r.report(ctx, p, approval.RunFailed)
			if p.link.server.MaskResults {
				return nil, maskError(r.g.o.Masker(), mcp.ReadError(resp.Err))
			}
			return nil, mcp.ReadError(resp.Err)
		}
		era := conn.Hello().Era
		if era == mcp.Legacy && p.runID() == "" &&
			(r.client.Era == mcp.Legacy || !mayHaveResultType(resp.Result)) {
			return r.passResult(conn, p, resp.Result) // nothing in it concerns us
		}
		result, bad := mcp.ReadObject(resp.Result)
		if bad != nil {
			return r.refuseResult(ctx, p, "The call ran, but the answer of the MCP server %s was refused: %s.",
				p.link.server.Name, bad)
		}
		kind := result.Text("resultType")
		switch {
		case era == mcp.Modern && kind == mcp.ResultInputRequired:
		case kind != "" && kind != mcp.ResultComplete && (era == mcp.Modern || r.client.Era == mcp.Modern):
			// who is of the other era gives it no meaning
			return r.refuseResult(ctx, p, "The MCP server %s answered with a result of the kind %q, which was not asked for."+
				mayHaveRun, p.link.server.Name, legible.Cut(legible.Line(kind), 64))
		default:
			r.report(ctx, p, runResult(result))
			return r.passResult(conn, p, resp.Result)
		}
		p.begun = true
		if r.client.Era == mcp.Modern && !r.forTask { // a task's client is asked by way of the task
			return r.passInputRequired(p, result)
		}
		if round >= maxRounds || ask == nil {
			return r.refuseResult(ctx, p, "The MCP server %s needs more input than this client can give."+mayHaveRun,
				p.link.server.Name)
		}
		if p.responses, bad = r.collectResponses(bounded, p, ask, result); bad != nil {
			return r.refuseResult(ctx, p, "The answer of the MCP server %s was refused: %s."+mayHaveRun, p.link.server.Name, bad)
		}
		p.state = result.Get("requestState")
	}
}

// serverRequest is the request as it is sent over a connection.
func (r *clientRequest) serverRequest(conn upstream.Conn, p *pendingCall, ask askFunc) upstream.Request {
	id, era := conn.NewID(), conn.Hello().Era
	params := p.params
	if p.responses != nil && era == mcp.Modern {
		params = params.With("inputResponses", p.responses)
	}
	if p.state != nil {
		params = params.With("requestState", p.state)
	}
	if meta := r.serverMeta(conn, id, ask); len(meta) > 0 {
		params = params.With("_meta", meta.Bytes())
	}
	u := upstream.Request{ID: id, Method: p.method, Params: params.Bytes(), OnNotification: r.onNotification(id, p.link),
		Sender: r.client.Agent, Reservation: p.reservation}
	if p.tool != nil && era == mcp.Modern {
		u.Header = paramHeaders(p.tool, p.params.Get("arguments"))
		u.Header.Set(mcp.HeaderName, mcp.EncodeHeader(p.tool.name)) // so that it is not read from the params again
	}
	if ask != nil {
		u.Ask = func(ctx context.Context, m mcp.Message) mcp.Message {
			result, err := ask(ctx, p.link, m.Method, m.Params)
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
func (r *clientRequest) refuseResult(ctx context.Context, p *pendingCall, format string,
	values ...any) (jsontext.Value, *mcp.Error) {
	r.report(ctx, p, approval.RunUnknown)
	return r.failure(fmt.Sprintf(format, values...), mcp.CodeInternalError)
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
func (r *clientRequest) passResult(conn upstream.Conn, p *pendingCall,
	result jsontext.Value) (jsontext.Value, *mcp.Error) {
	if p.link.server.MaskResults {
		masked, bad := mask(r.g.o.Masker(), result)
		if bad != nil {
			return r.failure(fmt.Sprintf("The call ran, but the result of the MCP server %s is held back: it cannot be "+
				"read to mask the secrets in it (%s). Do not repeat the call; tell a person.", p.link.server.Name, bad),
				mcp.CodeInternalError)
		}
		result = masked
	}
	return r.adaptResult(conn, result), nil
}

// adaptResult makes a result of one era one of the client's where that takes more.
func (r *clientRequest) adaptResult(conn upstream.Conn, result jsontext.Value) jsontext.Value {
	switch era := conn.Hello().Era; {
	case era == r.client.Era:
		return result
	case era == mcp.Modern:
		return objectInside(result)
	}
	o, err := mcp.ReadObject(result)
	if err != nil || o.Get("resultType") != nil {
		return result
	}
	more := `{"resultType":"complete"`
	if r.method == "resources/read" && o.Get("ttlMs") == nil && o.Get("cacheScope") == nil {
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
func (r *clientRequest) report(ctx context.Context, p *pendingCall, ran approval.RunResult) {
	id := p.runID()
	if id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	if _, err := r.g.o.Asker.Report(ctx, r.agent(), id, ran); err != nil {
		r.g.log.ErrorContext(ctx, "the outcome of a call could not be recorded; until it is, it counts as unknown", "run_id",
			id, "outcome", ran, "error", err)
	}
}

// noAnswer answers for a request that the server did not answer.
func (r *clientRequest) noAnswer(ctx context.Context, p *pendingCall, err error) (jsontext.Value, *mcp.Error) {
	name := p.link.server.Name
	r.g.log.WarnContext(ctx, "an MCP server did not answer", "server", name, "method", p.method, "tool", p.call.Tool,
		"sent",
		upstream.Sent(err), "error", err)
	if !upstream.Sent(err) {
		return r.notRun(ctx, p, err)
	}
	r.report(ctx, p, approval.RunUnknown)
	why := r.g.errorText(err)
	if errors.Is(err, context.DeadlineExceeded) {
		why = fmt.Sprintf("it did not answer within %s", p.link.server.Timeout)
	}
	return r.failure(fmt.Sprintf("The outcome is unknown: the call was sent to the MCP server %s and no answer came "+
		"(%s). It may have run; find out before you call it again.", name, why), mcp.CodeUnknown)
}

// cancelled reports whether the client itself gave the request up, rather than being cut off.
func cancelled(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), downstream.ErrCancelled)
}
