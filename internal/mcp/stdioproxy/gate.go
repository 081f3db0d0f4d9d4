package stdioproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/correlation"
	"countersign/client"
	"countersign/internal/api"
)

// RemoteGate is a gate in another process, as the gateway asks it.
type RemoteGate struct {
	Client *client.Client
	// Renew makes the gate reachable again where that can be done, as by starting it. nil: it cannot.
	Renew func(ctx context.Context) error

	late lateReports
}

// problem is an error of the API as one of the domain; one that is neither says that nothing was decided.
func problem(err error) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		message := "the gate's answer cannot be read; check that a gate of this version is at that address."
		switch {
		case client.Unreachable(err):
			message = "the gate cannot be reached: " + strings.TrimPrefix(err.Error(), "client: ") + "."
		case errors.Is(err, context.Canceled):
			message = "the call was given up before the gate answered."
		}
		return &approval.Error{Code: approval.CodeStoreUnavailable, Message: message, Err: err}
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
		code, message = approval.CodeUnauthorized,
			"the token belongs to a person, and only an agent may ask; put an agent's token into COUNTERSIGN_TOKEN."
	case e.Status == http.StatusRequestEntityTooLarge:
		code, message = approval.CodeInvalidArgs, "the arguments are longer than the gate takes."
	case e.Code == "unknown_field":
		code, message = approval.CodeStoreUnavailable,
			"the gate does not understand this program; it may be an older version."
	case e.Status >= 500:
		code = approval.CodeStoreUnavailable
	}
	return &approval.Error{Code: code, Message: message, Err: err}
}

// answer is an answer of the API as one of the domain.
func answer(a client.Answer) (approval.Answer, error) {
	o := approval.Answer{Kind: approval.AnswerKind(a.Kind), Message: a.Message, Risk: approval.Risk(a.RiskLevel),
		Rule: a.Rule, ReasonCode: a.ReasonCode, EndCode: a.EndCode, RunID: a.RunID}
	if a.ApprovalID != "" {
		o.Request = &approval.Request{ID: a.ApprovalID, ResolvedBy: a.ResolvedBy, ResolveReason: a.ResolveReason,
			HumanMessage: a.Message,
			Args:         a.Args, ExpiresAt: a.ExpiresAt.Time,
			RequestedAt: time.Now()} // at the latest: the answer does not say since when it waits
	}
	switch o.Kind {
	case approval.AnswerPending:
		if o.Request == nil {
			return approval.Answer{}, unreadable("the gate's answer names no request.")
		}
	case approval.AnswerApproved: // what was approved is what is sent
		stored, err := args.Parse(a.Args)
		if o.Request == nil || len(a.Args) == 0 || err != nil {
			return approval.Answer{}, unreadable("the gate's answer has no stored arguments; it may be an older version. " +
				"The approval may be used up.")
		}
		o.Request.Args, o.Request.Replaces, o.Note = stored.Canonical(), a.Replaces, a.Note
		o.RunID = o.Request.ID
		if a.Replaces != "" || a.Note != "" {
			o.Args = o.Request.Args
		}
	case approval.AnswerAllow, approval.AnswerDenied, approval.AnswerExpired, approval.AnswerCancelled,
		approval.AnswerLapsed:
	default:
		return approval.Answer{}, unreadable(fmt.Sprintf("the gate answered with an unknown decision: %.32q.",
			a.Kind))
	}
	return o, nil
}

// unreadable says what is wrong with an answer of the gate. It is never taken for a yes.
func unreadable(message string) error {
	return &approval.Error{Code: approval.CodeStoreUnavailable, Message: message}
}

// renew makes a gate reachable again that err says is not, where that can be done.
func (g *RemoteGate) renew(ctx context.Context, err error) error {
	if g.Renew == nil || !client.Unreachable(err) || ctx.Err() != nil {
		return nil
	}
	if err := g.Renew(ctx); err != nil {
		return &approval.Error{Code: approval.CodeStoreUnavailable, Message: err.Error(), Err: err}
	}
	return nil
}

// Check asks whether a call may run now.
func (g *RemoteGate) Check(ctx context.Context, c approval.Call) (approval.Answer, error) {
	ctx = withTrace(ctx)
	a, err := g.Client.Call(ctx, api.FromCall(c))
	if client.Unreachable(err) && g.Renew != nil {
		// It may have gone since: nothing was decided, so it is asked once more when it is back.
		if err := g.renew(ctx, err); err != nil {
			return approval.Answer{}, err
		}
		a, err = g.Client.Call(ctx, api.FromCall(c))
	}
	if err != nil {
		return approval.Answer{}, problem(err)
	}
	o, err := answer(a)
	if err != nil || o.Kind != approval.AnswerPending || !c.Task {
		return o, err
	}
	// Whether the call becomes a task depends on who asked first: the answer does not tell.
	r, err := g.Client.Approval(ctx, a.ApprovalID)
	if err != nil {
		return approval.Answer{}, problem(err)
	}
	whole := request(r)
	o.Request = &whole
	return o, nil
}

// patience is between two looks at a gate that does not hold them.
const patience = time.Second

// Wait holds until the request of a pending outcome ends. The gate lets one of those who wait through, and
// none whose connection is gone: that is how w.Still and w.Stop keep an approval unused. A gate that goes
// away meanwhile has the request in its store, so the call goes on waiting for it; one that is not back when
// the time is up leaves it pending.
func (g *RemoteGate) Wait(ctx context.Context, c *approval.Call, first *approval.Answer,
	w approval.WaitOptions) (*approval.Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done, watched := make(chan struct{}), make(chan struct{})
	go func() { defer close(watched); watch(done, w, cancel) }()
	defer func() { close(done); <-watched }() // w.Still is the caller's, and is not asked any more after this
	id, over := first.Request.ID, time.Now().Add(w.For)
	for {
		left := time.Until(over)
		if left <= 0 {
			return first, nil
		}
		begin := time.Now()
		a, err := g.goOn(ctx, *c, id, min(left, client.MaxWait))
		stopped, lost := stopping(context.Cause(ctx))
		switch {
		case err == nil && a.RunID != "" && lost != nil:
			// It was let through before the gate saw that it may not be used any more.
			brief, end := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			_, _ = g.Report(brief, approval.Actor{}, a.RunID, approval.RunFailed) // else it counts as unknown
			end()
			return new(approval.Answer), unreadable(fmt.Sprintf("%s. The approval was used up meanwhile; ask again if the call "+
				"is still needed.", lost))
		case err == nil && a.Kind != approval.AnswerPending:
			return &a, nil
		case stopped:
			return first, nil
		case lost != nil:
			return new(approval.Answer), lost
		case err != nil && (ctx.Err() != nil || !client.Temporary(err)):
			return new(approval.Answer), asOurs(err)
		case err != nil:
			if err := g.renew(ctx, err); err != nil {
				return new(approval.Answer), err
			}
		case a.Request.ID != id: // other args wait for a person in its place
			first, id = &a, a.Request.ID
		}
		if spent := time.Since(begin); spent < patience { // it does not hold requests
			select {
			case <-time.After(min(patience-spent, time.Until(over))):
			case <-ctx.Done():
			}
		}
	}
}

// stopping tells why a wait ended by itself: because the program stops, or because w.Still said no.
func stopping(cause error) (stopped bool, lost error) {
	switch {
	case cause == errStopped:
		return true, nil
	case cause == nil || errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded):
		return false, nil
	}
	return false, cause
}

// goOn holds for a while until the request ends that the call waits for. Its error is the client's, or one of the
// domain.
func (g *RemoteGate) goOn(ctx context.Context, c approval.Call, id string,
	wait time.Duration) (approval.Answer, error) {
	a, err := g.Client.WaitFor(withTrace(ctx), api.FromCall(c), id, wait)
	if err != nil {
		return approval.Answer{}, err
	}
	return answer(a)
}

// withTrace has the gate know in which trace it is asked, where the client has said.
func withTrace(ctx context.Context) context.Context {
	return client.WithTraceparent(ctx, correlation.TraceOf(ctx))
}

// asOurs is err as one of the domain.
func asOurs(err error) error {
	if _, ours := errors.AsType[*approval.Error](err); ours {
		return err
	}
	return problem(err)
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

// self stands for the agent on whose behalf we ask. Who that is the gate knows, and it tells an agent of
// no other client's requests.
const self = "self"

// request is one of the agent's requests.
func request(a client.Approval) approval.Request {
	r := api.ToRequest(a)
	r.Agent = self
	return r
}

// Report records what came of a dispatched call. While the gate is away it is tried again until ctx ends, and
// then in the background: what is not recorded counts as unknown, and people are asked about it. An error says
// that it is not on record yet; [RemoteGate.Finish] ends the trying.
func (g *RemoteGate) Report(ctx context.Context, _ approval.Actor, id string,
	ran approval.RunResult) (approval.Request, error) {
	for wait := firstRetry; ; wait = min(2*wait, patience) {
		a, err := g.Client.Report(ctx, id, client.RunResult(ran))
		if err == nil {
			return request(a), nil
		}
		if ctx.Err() == nil && !client.Temporary(err) {
			return approval.Request{}, problem(err)
		}
		if ctx.Err() != nil || g.renew(ctx, err) != nil {
			g.reportLate(id, ran, wait)
			return approval.Request{}, problem(err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			g.reportLate(id, ran, wait)
			return approval.Request{}, problem(err)
		}
	}
}

// AddInput puts on record what the server of an approved call is about to be told.
func (g *RemoteGate) AddInput(ctx context.Context, _ approval.Actor, id string, in approval.Input) error {
	if _, err := g.Client.AddInput(ctx, id, in.Method, in.Message, json.RawMessage(in.Answer)); err != nil {
		return problem(err)
	}
	return nil
}

// Request returns one of the agent's requests.
func (g *RemoteGate) Request(ctx context.Context, _ approval.Actor, id string) (approval.Request, error) {
	a, err := g.Client.Approval(ctx, id)
	if err != nil {
		return approval.Request{}, problem(err)
	}
	return request(a), nil
}

// Cancel takes one of the agent's requests back.
func (g *RemoteGate) Cancel(ctx context.Context, c approval.Cancellation) (approval.Request, error) {
	a, err := g.Client.Cancel(ctx, c.RequestID, c.Reason)
	if err != nil {
		return approval.Request{}, problem(err)
	}
	return request(a), nil
}

// Resolved returns the agent's endings that it has not acknowledged.
func (g *RemoteGate) Resolved(ctx context.Context, _, session string, wait time.Duration) ([]approval.Request, error) {
	as, err := g.Client.Resolved(ctx, session, wait)
	if err != nil {
		return nil, problem(err)
	}
	return api.Each(as, request), nil
}

// Ack takes endings out of the agent's feed.
func (g *RemoteGate) Ack(ctx context.Context, _ string, ids []string) (approval.Acked, error) {
	a, err := g.Client.Ack(ctx, ids...)
	if err != nil {
		return approval.Acked{}, problem(err)
	}
	return approval.Acked(a), nil
}
