package gateway

import (
	"context"

	"countersign/approval"
	"countersign/internal/mcp"
	"countersign/internal/mcp/downstream"
)

// Owner returns the runner of the fleet that alone can go on with what an agent's request is about: a task, or a call
// that waits for its client. "": any can answer it.
func (g *Gateway) Owner(ctx context.Context, agent, method string, params mcp.Object) string {
	if g.o.Fleet == nil {
		return ""
	}
	switch method {
	case "tasks/get", "tasks/update", "tasks/cancel":
		return g.ownerOfTask(ctx, agent, params.Text("taskId"))
	case "subscriptions/listen": // of several tasks, that of the first: who runs the others tells nothing of them
		want, _ := params.Object("notifications")
		if ids, err := mcp.ReadArray(want.Get("taskIds")); err == nil && len(ids) > 0 {
			return g.ownerOfTask(ctx, agent, mcp.Text(ids[0]))
		}
	}
	if v := params.Get("requestState"); v != nil {
		if s, err := g.states.read(v); err == nil && s.Agent == agent {
			return s.Runner
		}
	}
	return ""
}

// ownerOfTask returns who runs a task. Where that cannot be found out, whoever was asked says why.
func (g *Gateway) ownerOfTask(ctx context.Context, agent, id string) string {
	if g.tasks.get(agent, id) != nil {
		return ""
	}
	who := approval.Actor{Kind: approval.Agent, Name: agent}
	if downstream.OverBudget(ctx) != nil { // large rows are not for it, but where it cancels what waits or runs
		h, err := g.local.RequestHead(ctx, who, id)
		if running := !h.DispatchedAt.IsZero() && h.RunResult == ""; err != nil || !h.Live() && !running {
			return ""
		}
	}
	req, err := g.o.Asker.Request(ctx, who, id)
	if err != nil || !g.ownsTask(req) {
		return ""
	}
	if req, err = g.lastAsked(ctx, who, req); err != nil {
		return ""
	}
	return req.Runner
}
