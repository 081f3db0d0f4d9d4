package gateway

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/mcp"
)

// recorded is ask for an approved call: what the client answers was seen by no approver, and is put on record before
// the server gets it. What cannot be is not given.
func (r *request) recorded(p *passage, ask asker) asker {
	if ask == nil || p.out.Kind != approval.AnswerApproved {
		return ask
	}
	return func(ctx context.Context, l *link, method string, params jsontext.Value) (jsontext.Value, *mcp.Error) {
		result, err := ask(ctx, l, method, params)
		if err != nil || !given(result) {
			return result, err
		}
		message := ""
		if q, bad := mcp.ReadObject(orEmpty(params)); bad == nil {
			message = q.Text("message")
		}
		if !r.record(ctx, p, method, message, result) {
			return decline(method)
		}
		return result, nil
	}
}

// given reports whether an answer gives the server anything: to decline gives nothing.
func given(result jsontext.Value) bool {
	o, err := mcp.ReadObject(orEmpty(result))
	if err != nil {
		return true
	}
	action := o.Text("action")
	return action != "decline" && action != "cancel" || o.Get("content") != nil
}

// record puts one answer on record, and reports whether it is.
func (r *request) record(ctx context.Context, p *passage, method, message string, answer jsontext.Value) bool {
	err := r.g.o.Gate.AddInput(ctx, r.agent(), p.out.Request.ID, approval.Input{Method: method, Message: message, Answer: string(answer)})
	if err != nil {
		r.g.log.Warn("what a client answered to the server of an approved call is not passed on, as it is not on record", "approval_id", p.out.Request.ID, "method", method, "error", err)
	}
	return err == nil
}

// recordResponses does the same for what a modern client brings for an approved call that a modern server answered
// with input_required.
func (r *request) recordResponses(p *passage) (jsontext.Value, *mcp.Error, bool) {
	answers, bad := readAnswers(p.responses)
	if bad != nil {
		return nil, bad, false
	}
	for _, a := range answers {
		if given(a.Value) && !r.record(r.ctx, p, mcp.ResultInputRequired, a.Name, a.Value) {
			r.report(r.ctx, p, approval.RunUnknown)
			result, err := r.failed(fmt.Sprintf("What you answered to the MCP server %s was not passed on, because the gate could not put it on record. The call may have run in part; find out before you call it again.", p.link.up.Name), mcp.CodeUnknown)
			return result, err, false
		}
	}
	return nil, nil, true
}
