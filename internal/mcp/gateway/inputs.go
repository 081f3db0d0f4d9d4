package gateway

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/internal/mcp"
)

// recordingAsk is ask for a call that a person let through: what the client answers was seen by no approver, and is
// put on record before the server gets it. What cannot be is not given.
func (x *exchange) recordingAsk(ask askFunc) askFunc {
	if ask == nil || x.p.runID() == "" {
		return ask
	}
	return func(ctx context.Context, l *link, method string, params jsontext.Value) (jsontext.Value, *mcp.Error) {
		result, err := ask(ctx, l, method, params)
		if err != nil || !givesInput(result) {
			return result, err
		}
		message := ""
		if q, bad := mcp.ReadObject(objectOrEmpty(params)); bad == nil {
			message = q.Text("message")
		}
		if !x.p.recordInput(ctx, method, message, result) {
			return decline(method)
		}
		return result, nil
	}
}

// givesInput reports whether an answer gives the server anything: to decline gives nothing.
func givesInput(result jsontext.Value) bool {
	o, err := mcp.ReadObject(objectOrEmpty(result))
	if err != nil {
		return true
	}
	action := o.Text("action")
	return action != "decline" && action != "cancel" || o.Get("content") != nil
}

// recordInput puts one answer on record, and reports whether it is.
func (p *pendingCall) recordInput(ctx context.Context, method, message string, answer jsontext.Value) bool {
	err := p.r.g.o.Asker.AddInput(ctx, p.r.agent(), p.runID(),
		approval.Input{Method: method, Message: message, Answer: string(answer)})
	if err != nil {
		p.r.g.log.WarnContext(ctx, "a client's answer could not be put on record, so the server of the approved call does "+
			"not get it",
			"run_id", p.runID(), "method", method, "error", err)
	}
	return err == nil
}

// recordResponses does the same for what a modern client brings for such a call that a modern server answered
// with input_required.
func (p *pendingCall) recordResponses() (jsontext.Value, *mcp.Error, bool) {
	answers, bad := readAnswers(p.responses)
	if bad != nil {
		return nil, bad, false
	}
	for _, a := range answers {
		if givesInput(a.Value) && !p.recordInput(p.r.ctx, mcp.ResultInputRequired, a.Name, a.Value) {
			p.report(p.r.ctx, approval.RunUnknown)
			result, err := p.r.failure(fmt.Sprintf("What you answered to the MCP server %s was not passed on, because the gate "+
				"could not put it on record. The call may have run in part; find out before you call it again.",
				p.link.server.Name), mcp.CodeUnknown)
			return result, err, false
		}
	}
	return nil, nil, true
}
