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
	"countersign/mcp"
	"countersign/mcp/upstream"
)

// flight is a request on its way to a server that does not end with the client's request: an approved
// call, whose outcome is wanted even if the client is gone, or a call to a legacy server on which a
// modern client is asked in between.
type flight struct {
	id     string
	agent  string
	done   chan struct{} // closed when result and err are set
	result jsontext.Value
	err    *mcp.Error
	asks   chan question
	cancel context.CancelFunc
	rider  *rider
}

// question is what a legacy server wants to know of a modern client.
type question struct {
	method string
	params jsontext.Value
	answer chan jsontext.Value // the client's result; closed where there is none
}

// parkedFor is how long a server's question waits for a modern client to come back with the answer.
const parkedFor = 10 * time.Minute

// fly sends a request on and waits for its answer, for as long as the client does.
func (r *request) fly(conn upstream.Conn, p *passage) (jsontext.Value, *mcp.Error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	f := &flight{id: rand.Text(), agent: r.client.Agent, done: make(chan struct{}), asks: make(chan question), cancel: cancel}
	// What goes to the client goes by whichever of its requests rides along.
	f.rider = &rider{out: r.out}
	detached := &request{session: r.session, ctx: ctx, id: r.id, method: r.method, params: r.params, meta: r.meta, from: r.from, out: f.rider, token: r.token, offset: r.offset}
	ask := detached.ask
	if r.client.Era == mcp.Modern {
		ask = func(ctx context.Context, l *link, method string, params jsontext.Value) (jsontext.Value, *mcp.Error) {
			if !detached.can(method, params) {
				return decline(method)
			}
			if why := detached.allowed(ctx, l, method, params); why != nil {
				return nil, why
			}
			return f.ask(ctx, method, params)
		}
	}
	r.g.running.Go(func() {
		defer cancel()
		stop := context.AfterFunc(r.g.work, cancel)
		defer stop()
		defer close(f.done)
		f.err = mcp.Errorf(mcp.CodeUnknown, "Internal error. The call may have run; find out before you call it again.")
		f.result, f.err = detached.exchange(ctx, conn, p, ask)
	})
	return r.ride(f, p)
}

// ride waits for the end of a flight, or for a question that the client must answer.
func (r *request) ride(f *flight, p *passage) (jsontext.Value, *mcp.Error) {
	select {
	case <-f.done:
		f.rider.leave()
		return f.result, f.err
	case q := <-f.asks:
		f.rider.leave()
		return r.park(f, p, q)
	case <-r.ctx.Done():
		f.rider.leave()
		if cancelled(r.ctx) {
			f.cancel() // it is told to the server, and what came of it is unknown
		}
		return nil, mcp.Errorf(mcp.CodeUnknown, "The request was given up after the call was sent; it may have run.")
	}
}

// ask has the modern client that waits for the flight asked.
func (f *flight) ask(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, *mcp.Error) {
	q := question{method: method, params: params, answer: make(chan jsontext.Value, 1)}
	over := time.NewTimer(parkedFor)
	defer over.Stop()
	select {
	case f.asks <- q:
	case <-ctx.Done():
		return decline(method)
	case <-over.C:
		return decline(method)
	}
	select {
	case v, ok := <-q.answer:
		if ok {
			return v, nil
		}
	case <-ctx.Done():
	case <-over.C:
	}
	return decline(method)
}

// decline answers a server whose question nobody answers.
func decline(method string) (jsontext.Value, *mcp.Error) {
	switch method {
	case "elicitation/create":
		return jsontext.Value(`{"action":"cancel"}`), nil
	case "sampling/createMessage":
		return nil, mcp.Errorf(-1, "The client did not answer the sampling request.")
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found: %s.", method)
}

// park answers a modern client with a server's question; the flight waits for its return.
func (r *request) park(f *flight, p *passage, q question) (jsontext.Value, *mcp.Error) {
	r.g.mu.Lock()
	r.g.flights[f.id] = f
	r.g.mu.Unlock()
	key := rand.Text()
	timer := time.AfterFunc(parkedFor, func() { r.g.unpark(f.id, f.agent) })
	f.rider.parked(q, key, timer)
	return r.inputRequired(p, sealed{Flight: f.id, Question: key},
		mcp.Object{{Name: "input", Value: mcp.Object{{Name: "method", Value: mcp.Quote(q.method)}, {Name: "params", Value: orEmpty(q.params)}}.Bytes()}})
}

func orEmpty(v jsontext.Value) jsontext.Value {
	if v == nil {
		return jsontext.Value("{}")
	}
	return v
}

// unpark takes a flight out of those that wait for their client.
func (g *Gateway) unpark(id, agent string) *flight {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.flights[id]
	if f == nil || f.agent != agent {
		return nil
	}
	delete(g.flights, id)
	return f
}

// board continues a flight with the answers that its client brought.
func (r *request) board(p *passage, s sealed, answers mcp.Object) (jsontext.Value, *mcp.Error) {
	f := r.g.unpark(s.Flight, r.client.Agent)
	if f == nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: this requestState is not waited for any more; call again without it.")
	}
	q, ok := f.rider.board(r.out, s.Question)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: this requestState was used before; call again without it.")
	}
	if v := answers.Get("input"); v != nil {
		q.answer <- v
	} else {
		close(q.answer)
	}
	p.out = approval.Answer{Kind: approval.AnswerAllow}
	return r.ride(f, p)
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
func (r *request) ask(ctx context.Context, l *link, method string, params jsontext.Value) (jsontext.Value, *mcp.Error) {
	if r.client.Era == mcp.Modern || !r.can(method, params) {
		return decline(method)
	}
	if why := r.allowed(ctx, l, method, params); why != nil {
		return nil, why
	}
	resp, err := r.out.Ask(ctx, method, params)
	if err != nil {
		r.g.log.Debug("a client did not answer what a server asked", "server", l.up.Name, "method", method, "error", err)
		return decline(method)
	}
	if resp.Err != nil {
		return nil, mcp.ReadError(resp.Err)
	}
	return resp.Result, nil
}

// can reports whether the client declared that it answers such a request.
func (r *request) can(method string, params jsontext.Value) bool {
	switch method {
	case "elicitation/create":
		p, err := mcp.ReadObject(params)
		if err != nil {
			return false
		}
		if p.Text("mode") == "url" {
			return r.from.url
		}
		return r.from.form
	case "sampling/createMessage":
		return r.from.sampling
	case "roots/list":
		return r.from.roots
	}
	return false
}

// allowed has the gate decide about a method beside a client's own requests: what a server asks the client,
// or a client listens to. There is nobody to wait for: what policy does not allow is declined.
func (r *request) allowed(ctx context.Context, l *link, method string, params jsontext.Value) *mcp.Error {
	args, err := args.Parse(params)
	if err != nil {
		return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %s.", err)
	}
	out, err := r.g.o.Gate.CheckAhead(ctx, approval.Call{Agent: r.client.Agent, Scope: r.g.o.Scope, Server: l.up.Name, SessionID: r.session.id,
		Method: method, Tool: approval.MethodTool(method), Args: args, Dispatch: true})
	if err == nil && out.Committed != nil {
		err = out.Committed(ctx)
	}
	switch {
	case err != nil:
		return mcp.Errorf(mcp.CodeUnavailable, "The gate could not decide about %s.", method)
	case out.Kind == approval.AnswerApproved:
		r.report(ctx, &passage{out: out}, approval.RunSucceeded)
		return nil
	case out.Kind != approval.AnswerAllow:
		return mcp.Errorf(mcp.CodeDenied, "%s", out.Message)
	}
	return nil
}

// supply asks a legacy client for what a modern server requires, and returns the inputResponses.
func (r *request) supply(ctx context.Context, p *passage, ask asker, result mcp.Object) (jsontext.Value, *mcp.ObjectError) {
	wanted, bad := result.Object("inputRequests")
	if bad != nil {
		return nil, bad
	}
	var responses mcp.Object
	for _, w := range wanted {
		q, bad := mcp.ReadObject(w.Value)
		if bad != nil {
			return nil, bad
		}
		answer, err := ask(ctx, p.link, q.Text("method"), orEmpty(q.Get("params")))
		if err != nil {
			if answer, err = decline(q.Text("method")); err != nil {
				continue // it is not in the answers: the server learns that nobody gave it
			}
		}
		responses = append(responses, mcp.Member{Name: w.Name, Value: answer})
	}
	if responses == nil {
		return nil, nil
	}
	return responses.Bytes(), nil
}

// passInputRequired answers a modern client with what a modern server requires. The state that continues
// the call is ours: it is bound to the call that was let through.
func (r *request) passInputRequired(p *passage, result mcp.Object) (jsontext.Value, *mcp.Error) {
	wanted, bad := result.Object("inputRequests")
	for _, w := range wanted {
		q, wrong := mcp.ReadObject(w.Value)
		if bad = wrong; bad != nil {
			break
		}
		if !r.can(q.Text("method"), orEmpty(q.Get("params"))) { // it asks for more than the client declared
			r.report(r.ctx, p, approval.RunUnknown)
			return r.failed(fmt.Sprintf("The MCP server %s needs more input than this client can give.", p.link.up.Name), mcp.CodeInternalError)
		}
		if why := r.allowed(r.ctx, p.link, q.Text("method"), orEmpty(q.Get("params"))); why != nil {
			r.report(r.ctx, p, approval.RunUnknown)
			return r.failed(fmt.Sprintf("The MCP server %s needs input for this call, and may not ask for it: %s", p.link.up.Name, why.Message), why.Code)
		}
	}
	if bad != nil {
		r.report(r.ctx, p, approval.RunUnknown)
		return r.failed(fmt.Sprintf("The answer of the MCP server %s is refused: %s.", p.link.up.Name, bad), mcp.CodeInternalError)
	}
	s := sealed{State: result.Get("requestState")}
	if p.out.Kind == approval.AnswerApproved {
		s.Approval = p.out.Request.ID
	}
	state, err := r.sealFor(p, s)
	if err != nil {
		return nil, err
	}
	return result.With("requestState", state).Bytes(), nil
}

// resume continues an approved call that a modern server had answered with input_required.
func (r *request) resume(conn upstream.Conn, p *passage, s sealed) (jsontext.Value, *mcp.Error) {
	req, err := r.g.o.Gate.Request(r.ctx, r.agent(), s.Approval)
	if err == nil && (req.ConsumedAt.IsZero() || req.RunResult == approval.RunSucceeded || req.RunResult == approval.RunFailed) {
		err = errors.New("the call is over")
	}
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: this requestState continues nothing (%s); call again without it.", err)
	}
	p.out = approval.Answer{Kind: approval.AnswerApproved, Request: &req, Message: fmt.Sprintf("Approved by %s.", req.ResolvedBy)}
	p.state, p.continued = s.State, true
	if result, bad, ok := r.recordResponses(p); !ok {
		return result, bad
	}
	return r.decided(conn, p)
}

// inputRequired answers a modern client with a question of our own making or of a legacy server.
func (r *request) inputRequired(p *passage, s sealed, requests mcp.Object) (jsontext.Value, *mcp.Error) {
	state, err := r.sealFor(p, s)
	if err != nil {
		return nil, err
	}
	return mcp.Object{
		{Name: "resultType", Value: mcp.Quote(mcp.ResultInputRequired)},
		{Name: "inputRequests", Value: requests.Bytes()},
		{Name: "requestState", Value: state},
	}.Bytes(), nil
}
