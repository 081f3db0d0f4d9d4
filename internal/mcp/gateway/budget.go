package gateway

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/internal/budget"
	"countersign/internal/mcp"
)

// account is what the client's agent has used.
func (s *session) account() *budget.Account { return s.g.o.Budgets.Agent(s.client.Agent) }

// overBudget answers a request of an agent that is over a budget.
func (r *clientRequest) overBudget(refuse func() error) (jsontext.Value, *mcp.Error) {
	budget.Pause(r.ctx)
	return r.failure(budgetText(refuse())+" The call was not run, and nobody was asked.", mcp.CodeUnavailable)
}

// budgetText is what a model is told of a budget.
func budgetText(over error) string {
	if e, ok := errors.AsType[*approval.Error](over); ok {
		return sentence(e.Message)
	}
	return sentence(over.Error())
}

// bringsDecision reports whether the request brings what the person at the agent's keyboard has decided, which
// no budget refuses. Each such answer is good once.
func (r *clientRequest) bringsDecision() bool {
	v := r.params.Get("requestState")
	if r.method != "tools/call" || v == nil {
		return false
	}
	s, err := r.g.states.read(v)
	return err == nil && s.Keyboard != "" && s.Agent == r.client.Agent && r.g.stateTime().Milliseconds() < s.Until &&
		!r.g.states.used.contains(s.Once)
}
