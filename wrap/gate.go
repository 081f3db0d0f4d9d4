package wrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"countersign/approval"
	"countersign/client"
)

// Gate is a gate in another process, as the gateway asks it.
type Gate struct {
	Client *client.Client
	// Renew makes the gate reachable again where that can be done, as by starting it. nil: it cannot.
	Renew func(ctx context.Context) error
}

// problem is an error of the API as one of the domain; one that is neither says that nothing was decided.
func problem(err error) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return &approval.Error{Code: approval.CodeStoreUnavailable, Message: "the gate cannot be reached.", Err: err}
	}
	message := e.Detail
	if message == "" {
		message = e.Error()
	}
	code := approval.Code(e.Code)
	switch {
	case e.Status == http.StatusUnauthorized:
		message = "the gate does not know this agent's token (COUNTERSIGN_TOKEN, or --token)."
	case e.Code == string(approval.CodeAgentsOnly):
		message = "the token is a person's, and only an agent's may ask; put an agent's token into COUNTERSIGN_TOKEN."
	case e.Status >= 500:
		code = approval.CodeStoreUnavailable
	}
	return &approval.Error{Code: code, Message: message, Err: err}
}

func wireCall(c approval.Call) client.Call {
	return client.Call{Tool: c.Tool, Args: json.RawMessage(c.Args.Canonical()), Server: c.Server, Scope: c.Scope, TurnID: c.TurnID, SessionID: c.SessionID,
		Rationale: c.Rationale, Preview: c.Preview, Method: c.Method, ToolDigest: c.ToolDigest, Dispatch: c.Dispatch, Task: c.Task}
}

// outcome is an answer of the API as one of the domain.
func outcome(a client.Answer) (approval.Outcome, error) {
	o := approval.Outcome{Word: approval.Word(a.Decision), Message: a.Message, Risk: approval.Risk(a.RiskLevel), Rule: a.Rule, ReasonCode: a.ReasonCode}
	if a.ApprovalID != "" {
		o.Request = &approval.Request{ID: a.ApprovalID, ResolvedBy: a.ResolvedBy, ResolveReason: a.ResolveReason, HumanMessage: a.Message,
			Args: a.Args, ExpiresAt: a.ExpiresAt.Time, RequestedAt: time.Now()}
	}
	switch o.Word {
	case approval.WordPending:
		if o.Request == nil {
			return o, errors.New("the gate's answer names no request")
		}
	case approval.WordApproved: // what was approved is what is sent
		args, err := approval.ParseArgs(a.Args)
		if o.Request == nil || len(a.Args) == 0 || err != nil {
			return o, errors.New("the gate's answer holds no stored arguments; it may be of an older version")
		}
		o.Request.Args = args.Canonical() // JSON has more than one way to write a text
	case approval.WordAllow, approval.WordDenied, approval.WordExpired, approval.WordCancelled, approval.WordLapsed:
	default:
		return o, fmt.Errorf("the gate answered with a decision that is not known: %.32q", a.Decision)
	}
	return o, nil
}

// CheckAhead asks whether a call may run now. What the gate allows is on its record by then.
func (g *Gate) CheckAhead(ctx context.Context, c approval.Call) (approval.Outcome, error) {
	a, err := g.Client.Call(ctx, wireCall(c))
	if err != nil && client.Unreachable(err) && g.Renew != nil && ctx.Err() == nil {
		// It may have gone since: nothing was decided, so it is asked once more when it is back.
		if err := g.Renew(ctx); err != nil {
			return approval.Outcome{}, &approval.Error{Code: approval.CodeStoreUnavailable, Message: err.Error() + ".", Err: err}
		}
		a, err = g.Client.Call(ctx, wireCall(c))
	}
	if err != nil {
		return approval.Outcome{}, problem(err)
	}
	return outcome(a)
}

// patience is between two looks at a gate that does not hold them.
const patience = time.Second

// Wait holds until the request of a pending outcome ends. The gate lets one of those who wait through, and
// none whose connection is gone: that is how w.Still and w.Stop keep an approval unused.
func (g *Gate) Wait(ctx context.Context, c approval.Call, first approval.Outcome, w approval.WaitOptions) (approval.Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go watch(done, w, cancel)
	id, over := first.Request.ID, time.Now().Add(w.For)
	for {
		left := time.Until(over)
		if left <= 0 {
			return first, nil
		}
		begin := time.Now()
		o, err := g.look(ctx, c, id, min(left, client.MaxWait))
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, errStopped):
			return first, nil
		case err != nil && cause != nil && !errors.Is(cause, context.Canceled):
			return approval.Outcome{}, cause
		case err != nil || o.Word != approval.WordPending:
			return o, err
		}
		id = o.Request.ID
		if spent := time.Since(begin); spent < patience { // it does not hold requests
			select {
			case <-time.After(min(patience-spent, time.Until(over))):
			case <-ctx.Done():
			}
		}
	}
}

// look holds for a while until a request ends. It looks at the request before it asks, so that a call
// whose request has ended does not make another.
func (g *Gate) look(ctx context.Context, c approval.Call, id string, wait time.Duration) (approval.Outcome, error) {
	r, err := g.Client.Approval(ctx, id)
	if err != nil {
		return approval.Outcome{}, problem(err)
	}
	if o := approval.Ended(request(r)); r.Status != string(approval.Pending) && o.Word != approval.WordPending {
		return o, nil
	}
	a, err := g.Client.CallWait(ctx, wireCall(c), wait)
	if err != nil {
		return approval.Outcome{}, problem(err)
	}
	return outcome(a)
}

var errStopped = errors.New("the gateway stops")

// watch ends a wait when it must end by itself.
func watch(done <-chan struct{}, w approval.WaitOptions, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(patience / 4)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-w.Stop:
			cancel(errStopped)
			return
		case <-tick.C:
			if w.Still == nil {
				continue
			}
			if err := w.Still(); err != nil {
				cancel(err)
				return
			}
		}
	}
}

// request is a request of the API as one of the domain, as far as it is known there.
func request(a client.Approval) approval.Request {
	return approval.Request{
		ID: a.ID, Agent: a.Agent, Scope: a.Scope, Server: a.Server, Tool: a.Tool, Args: a.Args, ArgsHash: a.ArgsHash,
		Risk: approval.Risk(a.RiskLevel), Rule: a.Rule, ReasonCode: a.ReasonCode, HumanMessage: a.HumanMessage, Rationale: a.Rationale, Preview: a.Preview,
		TurnID: a.TurnID, SessionID: a.SessionID, Status: approval.Status(a.Status), RequestedAt: a.RequestedAt.Time, ExpiresAt: a.ExpiresAt.Time,
		ResolvedAt: a.ResolvedAt.Time, ResolvedBy: a.ResolvedBy, ResolvedVia: approval.Via(a.ResolvedVia), ResolveReason: a.ResolveReason,
		UseBy: a.UseBy.Time, ConsumedAt: a.ConsumedAt.Time, LapsedAt: a.LapsedAt.Time, Task: a.Task, DispatchedAt: a.DispatchedAt.Time, Ran: approval.Ran(a.Outcome),
	}
}

// Report records what came of a dispatched call.
func (g *Gate) Report(ctx context.Context, _ approval.Actor, id string, ran approval.Ran) (approval.Request, error) {
	a, err := g.Client.Report(ctx, id, client.Ran(ran))
	if err != nil {
		return approval.Request{}, problem(err)
	}
	return request(a), nil
}

// Request returns one of the agent's requests.
func (g *Gate) Request(ctx context.Context, _ approval.Actor, id string) (approval.Request, error) {
	a, err := g.Client.Approval(ctx, id)
	if err != nil {
		return approval.Request{}, problem(err)
	}
	return request(a), nil
}

// Cancel takes one of the agent's requests back.
func (g *Gate) Cancel(ctx context.Context, c approval.Cancellation) (approval.Request, error) {
	a, err := g.Client.Cancel(ctx, c.RequestID, c.Reason)
	if err != nil {
		return approval.Request{}, problem(err)
	}
	return request(a), nil
}

// Resolved returns the agent's endings that it has not acknowledged.
func (g *Gate) Resolved(ctx context.Context, _, session string, wait time.Duration) ([]approval.Request, error) {
	as, err := g.Client.Resolved(ctx, session, wait)
	if err != nil {
		return nil, problem(err)
	}
	rs := make([]approval.Request, len(as))
	for i, a := range as {
		rs[i] = request(a)
	}
	return rs, nil
}

// Ack takes endings out of the agent's feed.
func (g *Gate) Ack(ctx context.Context, _ string, ids []string) (approval.Acked, error) {
	a, err := g.Client.Ack(ctx, ids...)
	if err != nil {
		return approval.Acked{}, problem(err)
	}
	return approval.Acked{Acked: a.Acked, NotResolved: a.NotResolved, NotFound: a.NotFound}, nil
}
