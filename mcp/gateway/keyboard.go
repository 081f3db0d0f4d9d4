package gateway

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/mcp"
)

// keyboardForm returns the question to the person at the agent's keyboard, if an answer there may decide
// and the client can ask it. It does so once for each request: nobody is asked again who did not decide.
func (r *request) keyboardForm(p *passage) (jsontext.Value, bool) {
	k, ok := r.g.o.Gate.(Keyboard)
	if !ok || !r.from.form || p.out.Request == nil {
		return nil, false
	}
	req := *p.out.Request
	if _, may := k.Keyboard(r.client.Agent, req); !may || !r.g.asked.use(req.ID, waits(req)+keepTask) {
		return nil, false
	}
	return mcp.Object{
		{Name: "method", Value: jsontext.Value(`"elicitation/create"`)},
		{Name: "params", Value: r.g.form(req).Bytes()},
	}.Bytes(), true
}

// form is what the keyboard is asked.
func (g *Gateway) form(req approval.Request) mcp.Object {
	reason := map[string]string{"type": "string", "title": "Reason", "description": "Goes on record, and to the agent."}
	required := []string{"decision"}
	if req.RequireReason {
		required = append(required, "reason")
	}
	return mcp.Object{
		{Name: "mode", Value: jsontext.Value(`"form"`)},
		{Name: "message", Value: mcp.Quote(g.show(req))},
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

func (g *Gateway) show(req approval.Request) string {
	if g.o.Show != nil {
		return g.o.Show(req)
	}
	return req.HumanMessage
}

// askKeyboard has a legacy client ask its person while the call is held. The function it returns waits
// until that is over: whichever answer comes first closes the others.
func (r *request) askKeyboard(ctx context.Context, p *passage) (closed func()) {
	if r.client.Era != mcp.Legacy {
		return func() {}
	}
	if _, may := r.keyboardForm(p); !may {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		resp, err := r.out.Ask(ctx, "elicitation/create", r.g.form(*p.out.Request).Bytes())
		if err != nil || resp.Err != nil {
			return // nobody decided there
		}
		r.decideAtKeyboard(p.out.Request.ID, resp.Result)
	}()
	return func() { <-done }
}

// keyboardSaid takes what a modern client brought back from its person.
func (r *request) keyboardSaid(id string, answers mcp.Object) {
	if v := answers.Get("approve"); v != nil {
		r.decideAtKeyboard(id, v)
	}
}

// readForm reads what a person made of the form. Declining it denies, whatever is filled in; closing it
// (cancel) decides nothing, and neither does an answer that is not whole.
func readForm(result jsontext.Value) (approve bool, reason string, ok bool) {
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
func (r *request) decideAtKeyboard(id string, result jsontext.Value) {
	approve, reason, ok := readForm(result)
	if !ok {
		return
	}
	k := r.g.o.Gate.(Keyboard)
	if _, err := k.DecideAtKeyboard(r.audited(), r.client.Agent, id, approve, reason); err != nil {
		r.g.log.Warn("an answer at the keyboard decided nothing", "approval_id", id, "agent", r.client.Agent, "error", err)
	}
}
