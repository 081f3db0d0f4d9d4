package rest

import (
	"context"
	"net/http"

	"countersign/approval"
	"countersign/internal/lists"
)

// erasures is after how many transactions a caller hears how far it is.
const erasures = 16

func (s *Server) erase(ctx context.Context, x *exchange) error {
	var body eraseBody
	if err := x.read(&body); err != nil {
		return err
	}
	e := approval.Erasure{Agent: body.Agent, After: body.After, By: x.who.Actor, Via: x.via()}
	switch {
	case (body.Request == "") == (body.Agent == ""):
		return approval.Errorf(approval.CodeInvalidParameter, "Give request or agent, and not both.")
	case body.Agent != "" && !approval.ValidName(body.Agent):
		return approval.Errorf(approval.CodeInvalidParameter, "agent must be an agent's name.")
	case body.After != "" && (body.Agent == "" || !validID(body.After)):
		return approval.Errorf(approval.CodeInvalidParameter,
			"after goes with agent, and must be the next of the answer before.")
	case body.Request != "":
		if len(body.Request) < approval.MinTyped {
			return approval.Errorf(approval.CodeInvalidParameter, "request must be an id, or its last %d characters or more.",
				approval.MinTyped)
		}
		id, err := x.wholeID(ctx, body.Request, lists.ResolveID)
		if err != nil {
			return err
		}
		e.RequestID = id
	}
	var all erased
	for range erasures {
		out, err := s.gate.Erase(ctx, e)
		if err != nil {
			return err
		}
		all.Requests += out.Requests
		all.Kept += out.Kept
		all.Next, e.After = out.Next, out.Next
		if all.Next == "" {
			break
		}
	}
	return x.answer(http.StatusOK, all)
}
