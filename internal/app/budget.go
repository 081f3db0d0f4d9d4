package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"countersign/approval"
	"countersign/client"
	"countersign/internal/agents/hooks"
	"countersign/internal/budget"
)

// overBudget takes note that an agent or a person is over a budget. It is called wherever that is found, inside
// transactions too, and so only leaves word for those who can wait.
func (a *App) overBudget(o budget.Over) {
	a.log.Warn("over a budget; whatever goes beyond it is refused, and cards wait for their turn",
		"who", o.Principal.String(), "budget", string(o.Kind), "limit",
		o.Limit,
		"do", "find out what it is doing, or raise its limits in the configuration")
	select {
	case a.overs <- o:
	default: // it is in the log, and counted
	}
}

// tellOver puts on record who is over a budget, and tells the admins.
func (a *App) tellOver(ctx context.Context) {
	for {
		select {
		case o := <-a.overs:
			who := approval.Actor{Kind: approval.Human, Name: o.Principal.Name}
			if o.Principal.Agent {
				who.Kind = approval.Agent
			}
			if err := a.chat.OverBudget(ctx, who, string(o.Kind), o.Limit); err != nil && ctx.Err() == nil {
				a.log.ErrorContext(ctx, "an overrun budget could not be put on record", "who", o.Principal.String(),
					"budget", string(o.Kind), "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// requeue gives cards that wait over a budget of pushes the turn that they have with the budgets of now.
func (a *App) requeue(ctx context.Context) {
	if err := a.outbox.Requeue(ctx); err != nil {
		a.log.ErrorContext(ctx, "cards that wait over a budget of pushes keep the turn that they had", "error", err)
	}
}

// roomOf is roomFor by principal.
func roomOf(ctx context.Context, who budget.Principal) error {
	kind := approval.Human
	if who.Agent {
		kind = approval.Agent
	}
	return roomFor(ctx, approval.Actor{Kind: kind, Name: who.Name})
}

// occupying counts the calls of an agent that are held.
func (a *App) occupying(agent string) func(context.Context) (release func(), err error) {
	return func(ctx context.Context) (func(), error) { return a.budgets.Agent(agent).Hold(ctx, budget.Waits) }
}

// checkHook refuses a hook's event of so many bytes before it is read.
func (a *App) checkHook(asker client.Asker, bytes int) error {
	g, ok := asker.(hooks.Gate)
	if !ok {
		return nil
	}
	return a.budgets.Agent(g.Agent).Check(budget.Bytes, bytes)
}

// chargeHook takes a hook's event from its agent's budget.
func (a *App) chargeHook(asker client.Asker, bytes int) error {
	g, ok := asker.(hooks.Gate)
	if !ok {
		return nil
	}
	if refuse := a.budgets.Agent(g.Agent).Charge(bytes); refuse != nil {
		return refuse()
	}
	return nil
}

// turn waits for an agent's turn to have something large worked on.
func (a *App) turn(agent string) func(ctx context.Context, bytes int) (release func(), err error) {
	return func(ctx context.Context, bytes int) (func(), error) { return a.budgets.Turn(ctx, agent, bytes) }
}

// turnHook waits for the turn of a hook's agent.
func (a *App) turnHook(ctx context.Context, asker client.Asker, bytes int) (release func(), err error) {
	if g, ok := asker.(hooks.Gate); ok {
		return a.budgets.Turn(ctx, g.Agent, bytes)
	}
	return func() {}, nil
}

// refusals tells how often each principal was refused for being over a budget.
type refusals struct{ a *App }

var limited = prometheus.NewDesc("countersign_limited_total",
	"Times that somebody was refused for being over a budget, by who it was.",
	[]string{"kind", "principal", "budget"}, nil)

// Describe implements [prometheus.Collector].
func (r *refusals) Describe(ch chan<- *prometheus.Desc) { ch <- limited }

// Collect implements [prometheus.Collector].
func (r *refusals) Collect(ch chan<- prometheus.Metric) {
	r.a.budgets.Each(func(p budget.Principal, k budget.Kind, n uint64) {
		kind := "person"
		if p.Agent {
			kind = "agent"
		}
		ch <- prometheus.MustNewConstMetric(limited, prometheus.CounterValue, float64(n), kind, p.Name, string(k))
	})
}
