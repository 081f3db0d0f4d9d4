package gateway

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/mcp"
)

// keyboardQuestion returns the question to the person at the agent's keyboard, if an answer there may decide
// and the client can ask it. It does so once for each request: nobody is asked again who did not decide.
func (r *clientRequest) keyboardQuestion(p *pendingCall) (jsontext.Value, bool) {
	k, ok := r.g.o.Asker.(KeyboardDecider)
	if !ok || !r.declared.form || p.answer.Request == nil {
		return nil, false
	}
	req := *p.answer.Request
	if _, may := k.Keyboard(r.client.Agent, req); !may || !r.g.keyboardAsked.use(req.ID, waitLimit(req)+taskRetention) {
		return nil, false
	}
	return mcp.Object{
		{Name: "method", Value: jsontext.Value(`"elicitation/create"`)},
		{Name: "params", Value: r.g.keyboardForm(req).Bytes()},
	}.Bytes(), true
}

// keyboardForm is what the keyboard is asked.
func (g *Gateway) keyboardForm(req approval.Request) mcp.Object {
	reason := map[string]string{"type": "string", "title": "Reason", "description": "Goes on record, and to the agent."}
	required := []string{"decision"}
	if req.RequireReason {
		required = append(required, "reason")
	}
	return mcp.Object{
		{Name: "mode", Value: jsontext.Value(`"form"`)},
		{Name: "message", Value: mcp.Quote(g.keyboardText(req))},
		{Name: "requestedSchema", Value: mcp.Marshal(map[string]any{
			"type": "object",
			"properties": map[string]any{
				"decision": map[string]any{"type": "string", "title": "Decision", "enum": []string{"approve", "deny"}},
				"reason":   reason,
			},
			"required": required,
		})},
	}
}

func (g *Gateway) keyboardText(req approval.Request) string {
	if g.o.Show != nil {
		return g.o.Show(req)
	}
	return req.HumanMessage
}

// askKeyboard has a legacy client ask its person while the call is held. The function it returns waits
// until that is over: whichever answer comes first closes the others.
func (r *clientRequest) askKeyboard(ctx context.Context, p *pendingCall) (closed func()) {
	if r.client.Era != mcp.Legacy {
		return func() {}
	}
	if _, may := r.keyboardQuestion(p); !may {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		resp, err := r.stream.Ask(ctx, "elicitation/create", r.g.keyboardForm(*p.answer.Request).Bytes())
		if err != nil || resp.Err != nil {
			return // nobody decided there
		}
		r.decideAtKeyboard(p.answer.Request.ID, resp.Result)
	}()
	return func() { <-done }
}

// applyKeyboardAnswers takes what a modern client brought back from its person.
func (r *clientRequest) applyKeyboardAnswers(id string, answers mcp.Object) {
	if v := answers.Get("approve"); v != nil {
		r.decideAtKeyboard(id, v)
	}
}

// parseKeyboardForm reads what a person made of the form. Declining it denies, whatever is filled in; closing it
// (cancel) decides nothing, and neither does an answer that is not whole.
func parseKeyboardForm(result jsontext.Value) (approve bool, reason string, ok bool) {
	o, err := mcp.ReadObject(result)
	if err != nil {
		return false, "", false
	}
	switch o.Text("action") {
	case "decline":
		return false, "", true
	case "accept":
	default:
		return false, "", false
	}
	content, err := o.Object("content")
	if err != nil {
		return false, "", false
	}
	decision := content.Text("decision")
	return decision == "approve", content.Text("reason"), decision == "approve" || decision == "deny"
}

// decideAtKeyboard decides as the person at the keyboard answered. An answer that the gate refuses decides
// nothing, and the call goes on waiting.
func (r *clientRequest) decideAtKeyboard(id string, result jsontext.Value) {
	approve, reason, ok := parseKeyboardForm(result)
	if !ok {
		return
	}
	k := r.g.o.Asker.(KeyboardDecider)
	if _, err := k.DecideAtKeyboard(r.withCorrelation(), r.client.Agent, id, approve, reason); err != nil {
		r.g.log.Warn("an answer at the keyboard decided nothing", "approval_id", id, "agent", r.client.Agent, "error", err)
	}
}
