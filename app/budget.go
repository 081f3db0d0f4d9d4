package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"countersign/budget"
	"countersign/hooks"
)

// overBudget says that an agent or a person is over a budget.
func (a *App) overBudget(o budget.Over) {
	a.log.Warn("over a budget: what is more is refused", "who", o.Principal.String(), "budget", string(o.Kind), "limit", o.Limit,
		"do", "find out what it is doing, or raise its limits in the configuration")
}

// occupying counts the calls of an agent that are held.
func (a *App) occupying(agent string) func() (release func(), err error) {
	return func() (func(), error) { return a.budgets.Agent(agent).Hold(budget.Waits) }
}

// chargeHook takes a hook's event from its agent's budget.
func (a *App) chargeHook(asker hooks.Asker, bytes int) error {
	g, ok := asker.(hooks.Gate)
	if !ok {
		return nil
	}
	if refuse := a.budgets.Agent(g.Agent).Charge(bytes); refuse != nil {
		return refuse()
	}
	return nil
}

// refusals tells how often each principal was refused for being over a budget.
type refusals struct{ a *App }

var limited = prometheus.NewDesc("countersign_limited_total", "Times that somebody was refused for being over a budget, by who it was.",
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
