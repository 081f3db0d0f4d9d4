package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"countersign/approval"
	"countersign/client"
	"countersign/internal/agents/hooks"
	"countersign/internal/budget"
	"countersign/internal/chat"
)

// overruns are the agents and people of whom the admins are to be told that they are over a budget.
type overruns struct {
	log   *slog.Logger
	queue chan budget.Over
}

// note takes note that an agent or a person is over a budget. It is called wherever that is found, inside
// transactions too, and so only leaves word for those who can wait.
func (o *overruns) note(over budget.Over) {
	o.log.Warn("over a budget; whatever goes beyond it is refused, and cards wait for their turn",
		"who", over.Principal.String(), "budget", string(over.Kind), "limit", over.Limit,
		"do", "find out what it is doing, or raise its limits in the configuration")
	select {
	case o.queue <- over:
	default: // it is in the log, and counted
	}
}

// tell puts on record who is over a budget, and tells the admins: of several programs on the store one does.
func (o *overruns) tell(ctx context.Context, store database, admins *chat.Service) {
	for {
		select {
		case over := <-o.queue:
			key := "over " + string(over.Kind) + " " + over.Principal.String()
			if mine, err := store.takeOnce(ctx, key, budget.TellAgain-time.Minute); err == nil && !mine {
				continue
			}
			who := approval.Actor{Kind: approval.Human, Name: over.Principal.Name}
			if over.Principal.Agent {
				who.Kind = approval.Agent
			}
			if err := admins.OverBudget(ctx, who, string(over.Kind), over.Limit); err != nil && ctx.Err() == nil {
				o.log.ErrorContext(ctx, "an overrun budget could not be put on record", "who", over.Principal.String(),
					"budget", string(over.Kind), "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// occupy counts the calls of an agent that are held.
func (d *agentDoor) occupy(agent string) func(context.Context) (release func(), err error) {
	return func(ctx context.Context) (func(), error) { return d.budgets.Agent(agent).Hold(ctx, budget.Waits) }
}

// checkHook refuses a hook's event of so many bytes before it is read.
func (d *agentDoor) checkHook(asker client.Asker, bytes int) error {
	g, ok := asker.(hooks.Gate)
	if !ok {
		return nil
	}
	return d.budgets.Agent(g.Agent).Check(budget.Bytes, bytes)
}

// chargeHook takes a hook's event from its agent's budget.
func (d *agentDoor) chargeHook(asker client.Asker, bytes int) error {
	g, ok := asker.(hooks.Gate)
	if !ok {
		return nil
	}
	if refuse := d.budgets.Agent(g.Agent).Charge(bytes); refuse != nil {
		return refuse()
	}
	return nil
}

// waitTurn waits for an agent's turn to have something large worked on.
func (d *agentDoor) waitTurn(agent string) func(ctx context.Context, bytes int) (release func(), err error) {
	return func(ctx context.Context, bytes int) (func(), error) { return d.budgets.Turn(ctx, agent, bytes) }
}

// waitHookTurn waits for the turn of a hook's agent.
func (d *agentDoor) waitHookTurn(ctx context.Context, asker client.Asker, bytes int) (release func(), err error) {
	if g, ok := asker.(hooks.Gate); ok {
		return d.budgets.Turn(ctx, g.Agent, bytes)
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
