package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/internal/mcp"
	"countersign/internal/mcp/upstream"
)

// inflight is a forwarded request that does not end with the client's request: an approved
// call, whose outcome is wanted even if the client is gone, or a call to a legacy server on which a
// modern client is asked in between.
type inflight struct {
	id        string
	agent     string
	done      chan struct{} // closed when result and err are set
	result    jsontext.Value
	err       *mcp.Error
	questions chan question
	cancel    context.CancelFunc
	stream    *attachedStream
}

// question is what a legacy server wants to know of a modern client.
type question struct {
	method string
	params jsontext.Value
	answer chan jsontext.Value // the client's result; closed where there is none
}

// questionTimeout is how long a server's question waits for a modern client to come back with the answer.
const questionTimeout = 10 * time.Minute

// forward sends a request on and waits for its answer, for as long as the client does.
func (p *pendingCall) forward(conn upstream.Conn) (jsontext.Value, *mcp.Error) {
	r := p.r
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	f := &inflight{id: rand.Text(), agent: r.client.Agent, done: make(chan struct{}), questions: make(chan question),
		cancel: cancel}
	// What goes to the client goes over whichever of its requests is attached.
	f.stream = &attachedStream{to: r.stream}
	detached := &clientRequest{session: r.session, ctx: ctx, id: r.id, method: r.method, params: r.params, meta: r.meta,
		declared: r.declared, stream: f.stream, progressToken: r.progressToken, progressOffset: r.progressOffset}
	x := &exchange{r: detached, p: p, conn: conn, ask: detached.ask}
	if r.client.Era == mcp.Modern {
		x.ask = detached.checkAsk(f.askClient)
	}
	r.g.background.Go(func() {
		defer cancel()
		stop := context.AfterFunc(r.g.work, cancel)
		defer stop()
		defer close(f.done)
		f.err = mcp.Errorf(mcp.CodeUnknown, "Internal error."+mayHaveRun)
		f.result, f.err = x.run()
	})
	return p.await(f)
}

// await waits for the result of a forwarded call, or for a question that the client must answer.
func (p *pendingCall) await(f *inflight) (jsontext.Value, *mcp.Error) {
	select {
	case <-f.done:
		f.stream.detach()
		return f.result, f.err
	case q := <-f.questions:
		f.stream.detach()
		return p.suspend(f, q)
	case <-p.r.ctx.Done():
		f.stream.detach()
		if isCancelled(p.r.ctx) {
			f.cancel() // it is told to the server, and what came of it is unknown
		}
		return nil, mcp.Errorf(mcp.CodeUnknown, "The request was given up after the call was sent; it may have run.")
	}
}

// askClient has the modern client that waits for the call asked.
func (f *inflight) askClient(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, *mcp.Error) {
	q := question{method: method, params: params, answer: make(chan jsontext.Value, 1)}
	over := time.NewTimer(questionTimeout)
	defer over.Stop()
	select {
	case f.questions <- q:
	case <-ctx.Done():
		return decline(method)
	case <-over.C:
		return decline(method)
	}
	return q.wait(ctx, over.C)
}

// wait returns the client's answer to the question; one that is not answered in time is declined.
func (q question) wait(ctx context.Context, over <-chan time.Time) (jsontext.Value, *mcp.Error) {
	select {
	case v, ok := <-q.answer:
		if ok {
			return v, nil
		}
	case <-ctx.Done():
	case <-over:
	}
	return decline(q.method)
}

// decline answers a server whose question is not answered.
func decline(method string) (jsontext.Value, *mcp.Error) {
	switch method {
	case "elicitation/create":
		return jsontext.Value(`{"action":"cancel"}`), nil
	case "sampling/createMessage":
		return nil, mcp.Errorf(-1, "The client did not answer the sampling request.")
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found: %s.", method)
}

// suspend answers a modern client with a server's question; the forwarded call waits for its return.
func (p *pendingCall) suspend(f *inflight, q question) (jsontext.Value, *mcp.Error) {
	p.r.g.mu.Lock()
	p.r.g.suspended[f.id] = f
	p.r.g.mu.Unlock()
	key := rand.Text()
	timer := time.AfterFunc(questionTimeout, func() { p.r.g.takeSuspended(f.id, f.agent) })
	f.stream.setQuestion(q, key, timer)
	return p.inputRequired(requestState{Inflight: f.id, Question: key, Runner: p.r.g.runner()},
		mcp.Object{{Name: "input", Value: mcp.Object{{Name: "method", Value: mcp.Quote(q.method)},
			{Name: "params", Value: objectOrEmpty(q.params)}}.Bytes()}})
}

func objectOrEmpty(v jsontext.Value) jsontext.Value {
	if v == nil {
		return jsontext.Value("{}")
	}
	return v
}

// takeSuspended takes a forwarded call out of those that wait for their client.
func (g *Gateway) takeSuspended(id, agent string) *inflight {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.suspended[id]
	if f == nil || f.agent != agent {
		return nil
	}
	delete(g.suspended, id)
	return f
}

// resumeInflight continues a forwarded call with the answers that its client brought.
func (p *pendingCall) resumeInflight(s requestState, answers mcp.Object) (jsontext.Value, *mcp.Error) {
	f := p.r.g.takeSuspended(s.Inflight, p.r.client.Agent)
	if f == nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams,
			"Invalid params: nothing waits for this requestState any more; call again without it.")
	}
	q, ok := f.stream.attach(p.r.stream, s.Question)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams,
			"Invalid params: this requestState was used before; call again without it.")
	}
	if v := answers.Get("input"); v != nil {
		q.answer <- v
	} else {
		close(q.answer)
	}
	p.answer = approval.Answer{Kind: approval.AnswerAllow}
	return p.await(f)
}

func readAnswers(responses jsontext.Value) (mcp.Object, *mcp.Error) {
	if responses == nil {
		return nil, nil
	}
	o, err := mcp.ReadObject(responses)
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: inputResponses: %s.", err)
	}
	return o, nil
}

// ask carries what a server asks while it works on a request to the client, if policy and the client's
// abilities allow it, and declines it otherwise.
func (r *clientRequest) ask(ctx context.Context, l *link, method string,
	params jsontext.Value) (jsontext.Value, *mcp.Error) {
	if r.client.Era == mcp.Modern || !r.declares(method, params) {
		return decline(method)
	}
	if why := r.checkMethod(ctx, l, method, params); why != nil {
		return nil, why
	}
	resp, err := r.stream.Ask(ctx, method, params)
	if err != nil {
		r.g.log.DebugContext(ctx, "a client did not answer what a server asked", "server", l.server.Name, "method", method,
			"error", err)
		return decline(method)
	}
	if resp.Err != nil {
		return nil, mcp.ReadError(resp.Err)
	}
	return resp.Result, nil
}

// checkAsk asks by way of ask, if policy and the client's abilities allow it, and declines otherwise.
func (r *clientRequest) checkAsk(ask func(ctx context.Context, method string,
	params jsontext.Value) (jsontext.Value, *mcp.Error)) askFunc {
	return func(ctx context.Context, l *link, method string, params jsontext.Value) (jsontext.Value, *mcp.Error) {
		if !r.declares(method, params) {
			return decline(method)
		}
		if why := r.checkMethod(ctx, l, method, params); why != nil {
			return nil, why
		}
		return ask(ctx, method, params)
	}
}

// declares reports whether the client declared that it answers such a request.
func (r *clientRequest) declares(method string, params jsontext.Value) bool {
	switch method {
	case "elicitation/create":
		p, err := mcp.ReadObject(params)
		if err != nil {
			return false
		}
		if p.Text("mode") == "url" {
			return r.declared.url
		}
		return r.declared.form
	case "sampling/createMessage":
		return r.declared.sampling
	case "roots/list":
		return r.declared.roots
	}
	return false
}

// checkMethod has the gate decide about a method beside a client's own requests: what a server asks the client,
// or a client listens to. There is no client to wait for: what policy does not allow is declined.
func (r *clientRequest) checkMethod(ctx context.Context, l *link, method string, params jsontext.Value) *mcp.Error {
	parsed, err := args.Parse(params)
	if err != nil {
		return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %s.", err)
	}
	c := r.callOf(l)
	c.Method, c.Tool, c.Args = method, approval.MethodTool(method), parsed
	out, err := r.g.o.Asker.Check(ctx, c)
	switch {
	case err != nil:
		return mcp.Errorf(mcp.CodeUnavailable, "The gate could not decide about %s.", method)
	case !mayRun(out.Kind):
		return mcp.Errorf(mcp.CodeDenied, "%s", out.Message)
	}
	(&pendingCall{r: r, answer: out}).report(ctx, approval.RunSucceeded)
	return nil
}

// resumeApproved continues an approved call that a modern server had answered with input_required.
func (p *pendingCall) resumeApproved(conn upstream.Conn, s requestState) (jsontext.Value, *mcp.Error) {
	req, err := p.r.g.o.Asker.Request(p.r.ctx, p.r.agent(), s.Approval)
	if err == nil && (req.ConsumedAt.IsZero() || req.RunResult == approval.RunSucceeded ||
		req.RunResult == approval.RunFailed) {
		err = errors.New("the call has ended")
	}
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams,
			"Invalid params: there is nothing to continue with this requestState (%s); call again without it.", err)
	}
	p.answer = approval.Answer{Kind: approval.AnswerApproved, Request: &req,
		Message: fmt.Sprintf("Approved by %s.", req.WhoEnded()), Note: s.Note}
	if result, bad, denied := p.deniedByFreeze(); denied {
		return result, bad
	}
	p.state, p.continued = s.State, true
	if result, bad, ok := p.recordResponses(); !ok {
		return result, bad
	}
	return p.applyAnswer(conn)
}

// resumeGranted does the same for a call that a grant let through. It goes on with the arguments that it was asked
// with, to which its state is bound.
func (p *pendingCall) resumeGranted(conn upstream.Conn, s requestState) (jsontext.Value, *mcp.Error) {
	p.answer = approval.Answer{Kind: approval.AnswerAllow, RunID: s.GrantUse}
	if result, bad, denied := p.deniedByFreeze(); denied {
		return result, bad
	}
	p.state, p.continued = s.State, true
	if result, bad, ok := p.recordResponses(); !ok {
		return result, bad
	}
	return p.applyAnswer(conn)
}

// frozenText is what a frozen agent is told, "" while it is not. A gate elsewhere refuses what the client brings.
func (r *clientRequest) frozenText(ctx context.Context) (string, error) {
	if r.g.local == nil {
		return "", nil
	}
	return r.g.local.DeniedByFreeze(ctx, r.client.Agent)
}

// deniedByFreeze ends a call that was let through and waits for its client, once the agent is frozen.
func (p *pendingCall) deniedByFreeze() (jsontext.Value, *mcp.Error, bool) {
	text, err := p.r.frozenText(p.r.ctx)
	if err != nil {
		result, bad := p.gateFailure(err)
		return result, bad, true
	}
	if text == "" {
		return nil, nil, false
	}
	p.report(p.r.ctx, approval.RunUnknown)
	result, bad := p.r.failure(text, mcp.CodeDenied)
	return result, bad, true
}

// inputRequired answers a modern client with a question of our own making or of a legacy server.
func (p *pendingCall) inputRequired(s requestState, requests mcp.Object) (jsontext.Value, *mcp.Error) {
	state, err := p.sealState(s)
	if err != nil {
		return nil, err
	}
	return mcp.Object{
		{Name: "resultType", Value: mcp.Quote(mcp.ResultInputRequired)},
		{Name: "inputRequests", Value: requests.Bytes()},
		{Name: "requestState", Value: state},
	}.Bytes(), nil
}
