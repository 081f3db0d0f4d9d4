package hooks

import (
	"cmp"
	"context"
	"errors"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/client"
)

// Gate is a [client.Asker] that asks a gate in the same process, for one agent.
type Gate struct {
	Gate  *approval.Gate
	Agent string
	// Still is asked right before an approval is used, for whether the agent's token still holds. nil:
	// nothing to ask.
	Still func() error
	// Hold returns a context that ends, with its cause, once Still is found not to hold while a call waits. nil: it
	// is only asked when an approval is used.
	Hold func(ctx context.Context, still func() error) (context.Context, func())
	// Occupy counts a call that is held until release is called; an error refuses it. nil: any number is held.
	Occupy func(ctx context.Context) (release func(), err error)
	// Stop, once closed, ends waits as if their time were up. nil: nothing does.
	Stop <-chan struct{}
	// Turn waits until work on so many bytes of the agent's may begin, and counts it until release is called. nil:
	// nothing waits.
	Turn func(ctx context.Context, bytes int) (release func(), err error)
}

// Ask asks the gate.
func (g Gate) Ask(ctx context.Context, c client.Call, wait time.Duration) (client.Answer, error) {
	arguments, err := g.read(ctx, c.Args)
	if err != nil {
		return client.Answer{}, err
	}
	if wait > 0 && g.Occupy != nil {
		release, err := g.Occupy(ctx)
		if err != nil {
			return client.Answer{}, err
		}
		defer release()
	}
	if g.Still != nil { // the event may have taken its time
		if err := g.Still(); err != nil {
			return client.Answer{}, err
		}
		if g.Hold != nil && wait > 0 {
			var done func()
			ctx, done = g.Hold(ctx, g.Still)
			defer done()
		}
	}
	out, err := g.Gate.CheckWait(ctx, approval.Call{
		Agent: g.Agent, Scope: c.Scope, Server: c.Server, Tool: c.Tool, Args: arguments,
		TurnID: c.TurnID, SessionID: c.SessionID, Rationale: c.Rationale, Preview: c.Preview, AcceptsEdits: c.AcceptsEdits,
		Grouped: true, Waits: wait > 0,
	}, approval.WaitOptions{For: wait, Still: g.Still, Stop: g.Stop})
	if e, ours := errors.AsType[*approval.Error](context.Cause(ctx)); err != nil && ours {
		err = e
	}
	if err != nil {
		return client.Answer{}, err
	}
	a := client.Answer{Kind: client.AnswerKind(out.Kind), Message: out.Message, ReasonCode: out.ReasonCode, Note: out.Note}
	if out.Kind == approval.AnswerApproved {
		a.Args = out.Request.Args
		if out.Args != nil {
			a.Args, a.Replaces = out.Args, out.Request.Replaces
		}
	}
	return a, nil
}

func (g Gate) read(ctx context.Context, raw []byte) (args.Args, error) {
	if g.Turn != nil {
		release, err := g.Turn(ctx, len(raw))
		if err != nil {
			return args.Args{}, err
		}
		defer release()
	}
	return args.Parse(raw)
}

// Resolved returns the agent's endings.
func (g Gate) Resolved(ctx context.Context, session string, wait time.Duration) ([]client.Approval, error) {
	rs, err := g.Gate.Resolved(ctx, g.Agent, session, wait)
	if err != nil {
		return nil, err
	}
	endings := make([]client.Approval, len(rs))
	for i, r := range rs {
		endings[i] = client.Approval{
			ID: r.ID, Status: string(r.Status), ReasonCode: cmp.Or(r.EndCode, r.ReasonCode), Agent: r.Agent,
			Scope: r.Scope, Server: r.Server, Tool: r.Tool, Args: r.Args,
			LapsedAt: client.Time{Time: r.LapsedAt}, ConsumedAt: client.Time{Time: r.ConsumedAt}, Message: r.FeedMessage(),
		}
	}
	return endings, nil
}

// Ack acknowledges endings.
func (g Gate) Ack(ctx context.Context, ids ...string) (client.Acked, error) {
	a, err := g.Gate.Ack(ctx, g.Agent, ids)
	return client.Acked{Acked: a.Acked, NotResolved: a.NotResolved, NotFound: a.NotFound}, err
}
