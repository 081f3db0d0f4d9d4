package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/internal/mcp"
)

// keyboardQuestion returns the question to the person at the agent's keyboard, if an answer there may decide
// and the client can ask it. It does so once for each request: nobody is asked again who did not decide.
func (r *clientRequest) keyboardQuestion(p *pendingCall) (jsontext.Value, bool) {
	if r.g.local == nil || !r.declared.form || p.answer.Request == nil {
		return nil, false
	}
	req := *p.answer.Request
	_, may := r.g.local.Keyboard(r.client.Agent, req)
	if !may || !r.g.keyboardAsked.use(req.ID, waitLimit(req)+taskRetention) {
		return nil, false
	}
	return elicitation(r.g.keyboardForm(req)), true
}

// elicitation is a question as a modern client is given it.
func elicitation(params mcp.Object) jsontext.Value {
	return mcp.Object{
		{Name: "method", Value: jsontext.Value(`"elicitation/create"`)},
		{Name: "params", Value: params.Bytes()},
	}.Bytes()
}

// pageQuestion returns what leads the person at the client to the request's page, if the client opens pages and people
// can reach them; once for each request, and not where they were asked here. It tells that somebody is being asked, and
// nothing that comes of it decides: who decides is found out there.
func (r *clientRequest) pageQuestion(p *pendingCall) (mcp.Object, bool) {
	if !r.declared.url || r.g.o.Page == nil || p.answer.Request == nil {
		return nil, false
	}
	req := *p.answer.Request
	page := r.g.o.Page(req.ID)
	if page == "" || !r.g.keyboardAsked.use(req.ID, waitLimit(req)+taskRetention) {
		return nil, false
	}
	params := mcp.Object{
		{Name: "mode", Value: jsontext.Value(`"url"`)},
		{Name: "message", Value: mcp.Quote(r.g.keyboardText(req))},
		{Name: "url", Value: mcp.Quote(page)},
	}
	if r.client.Era == mcp.Legacy {
		params = append(params, mcp.Member{Name: "elicitationId", Value: mcp.Quote(req.ID)})
	}
	return params, true
}

// keyboardForm is what the keyboard is asked.
func (g *Gateway) keyboardForm(req approval.Request) mcp.Object {
	reason := map[string]string{"type": "string", "title": "Reason",
		"description": "It is recorded, and the agent reads it."}
	decision := map[string]any{"type": "string", "title": "Decision", "enum": []string{"approve", "deny"}}
	if req.Need != nil && req.Need.StepUp {
		decision["enum"] = []string{"deny"}
		decision["description"] = "You can deny here. To approve, use your passkey on the request's page."
	}
	properties := map[string]any{
		"decision": decision,
		"reason":   reason,
	}
	required := []string{"decision"}
	if req.RequireReason {
		required = append(required, "reason")
	}
	if req.Need != nil && req.Need.Confirm {
		properties["confirmed"] = map[string]any{"type": "boolean", "title": "Yes, approve", "default": false,
			"description": fmt.Sprintf("Approving lets %s run %s once. Confirm that here to approve it.", req.Agent,
				req.Target())}
	}
	return mcp.Object{
		{Name: "mode", Value: jsontext.Value(`"form"`)},
		{Name: "message", Value: mcp.Quote(g.keyboardText(req))},
		{Name: "requestedSchema", Value: mcp.Marshal(map[string]any{
			"type":       "object",
			"properties": properties,
			"required":   required,
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
	_, decides := r.keyboardQuestion(p)
	question, asks := mcp.Object(nil), decides
	if decides {
		question = r.g.keyboardForm(*p.answer.Request)
	} else if question, asks = r.pageQuestion(p); !asks {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		resp, err := r.stream.Ask(ctx, "elicitation/create", question.Bytes())
		if !decides || err != nil || resp.Err != nil {
			return // nobody decided there
		}
		p.sayAtKeyboard(r.decideAtKeyboard(p.answer.Request.ID, resp.Result))
	}()
	return func() { <-done }
}

// applyKeyboardAnswers takes what a modern client brought back from its person.
func (r *clientRequest) applyKeyboardAnswers(p *pendingCall, id string, answers mcp.Object) {
	if v := answers.Get("approve"); v != nil {
		p.sayAtKeyboard(r.decideAtKeyboard(id, v))
	}
}

// parseKeyboardForm reads what a person made of the form. Declining it denies, whatever is filled in; closing it
// (cancel) decides nothing, and neither does an answer that is not whole.
func parseKeyboardForm(result jsontext.Value) (d approval.Decision, ok bool) {
	o, err := mcp.ReadObject(result)
	if err != nil {
		return d, false
	}
	switch o.Text("action") {
	case "decline":
		return d, true
	case "accept":
	default:
		return d, false
	}
	content, err := o.Object("content")
	if err != nil {
		return d, false
	}
	decision := content.Text("decision")
	d.Approve, d.Reason = decision == "approve", content.Text("reason")
	d.Confirmed = string(content.Get("confirmed")) == "true"
	return d, decision == "approve" || decision == "deny"
}

// noDecision is what is said of a form that was sent off without a decision that can be read, "" where it was closed.
func noDecision(result jsontext.Value) string {
	if o, err := mcp.ReadObject(result); err != nil || o.Text("action") != "accept" {
		return ""
	}
	return "The form at the keyboard was sent without a decision in it, which is approve or deny. It decided nothing."
}

// decideAtKeyboard decides as the person at the keyboard answered. An answer that the gate refuses decides nothing,
// and one that others must join does not end the request: the call goes on waiting then, and what is returned says so.
func (r *clientRequest) decideAtKeyboard(id string, result jsontext.Value) string {
	d, ok := parseKeyboardForm(result)
	if !ok {
		return noDecision(result)
	}
	d.RequestID = id
	k, ctx := r.g.local, r.withCorrelation()
	req, err := k.DecideAtKeyboard(ctx, r.client.Agent, d)
	if err != nil {
		r.g.log.Warn("an answer at the keyboard decided nothing", "approval_id", id, "agent", r.client.Agent, "error", err)
		if e, ours := errors.AsType[*approval.Error](err); ours && e.Message != "" {
			return "The answer at the keyboard decided nothing. " + sentence(e.Message)
		}
		return ""
	}
	if req.Status != approval.Pending {
		return ""
	}
	if s, err := k.Standing(ctx, id); err == nil {
		return fmt.Sprintf("The approval given at the keyboard counts: %d of %d.", s.Total, s.Needed)
	}
	return "The approval given at the keyboard counts. Others are asked too."
}

// sayAtKeyboard has a client told what came of an answer at its keyboard that did not end the request: with the
// progress of a call that is held, and with the answer that it is pending.
func (p *pendingCall) sayAtKeyboard(text string) {
	if text == "" {
		return
	}
	p.mu.Lock()
	p.keyboard = text
	p.mu.Unlock()
	select {
	case p.said <- struct{}{}:
	default:
	}
}

// saidAtKeyboard is what it was, "" for nothing.
func (p *pendingCall) saidAtKeyboard() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keyboard
}
