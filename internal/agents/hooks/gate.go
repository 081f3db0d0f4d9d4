package hooks

import (
	"context"
	"errors"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/client"
	"countersign/internal/api"
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
	// Trace begins the span of a call, in whose context it is asked about, and is told at the end how. nil: there are no
	// spans.
	Trace func(ctx context.Context, c approval.Call) (context.Context, func(error, approval.Answer))
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
	call := api.ToCall(c, g.Agent, arguments)
	call.Grouped, call.Waits = true, wait > 0
	traced := func(error, approval.Answer) {}
	if g.Trace != nil {
		ctx, traced = g.Trace(ctx, call)
	}
	out, err := g.Gate.CheckWait(ctx, call, approval.WaitOptions{For: wait, Still: g.Still, Stop: g.Stop})
	traced(err, out)
	if e, ours := errors.AsType[*approval.Error](context.Cause(ctx)); err != nil && ours {
		err = e
	}
	if err != nil {
		return client.Answer{}, err
	}
	return api.FromAnswer(out), nil
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
	return api.Each(rs, func(r approval.Request) client.Approval { return api.FromRequest(r, "") }), nil
}

// Ack acknowledges endings.
func (g Gate) Ack(ctx context.Context, ids ...string) (client.Acked, error) {
	a, err := g.Gate.Ack(ctx, g.Agent, ids)
	return client.Acked(a), err
}
