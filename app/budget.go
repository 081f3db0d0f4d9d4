package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"countersign/budget"
)

// overBudget says that an agent or a person is over a budget.
func (a *App) overBudget(o budget.Over) {
	a.log.Warn("over a budget: what is more is refused", "who", o.Principal.String(), "budget", string(o.Kind), "limit", o.Limit,
		"do", "find out what it is doing, or raise its limits in the configuration")
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
