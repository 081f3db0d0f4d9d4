package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/internal/mcp"
)

// keyboard is the person at a client, as far as they are asked about a call.
type keyboard struct {
	r *clientRequest

	mu   sync.Mutex
	text string        // what came of an answer that did not end the request
	said chan struct{} // takes one where that is new; nil: it is not reported
}

// form returns the question to the person at the agent's keyboard, if an answer there may decide and the client can
// ask it. It does so once for each request: a person who did not decide is not asked again.
func (k *keyboard) form(req *approval.Request) (mcp.Object, bool) {
	if k.r.g.local == nil || !k.r.declared.form || req == nil {
		return nil, false
	}
	_, may := k.r.g.local.Keyboard(k.r.client.Agent, *req)
	if !may || !k.askOnce(req) {
		return nil, false
	}
	return k.r.g.keyboardForm(*req), true
}

// askOnce reports whether the person was not asked about a request yet, and remembers that they are.
func (k *keyboard) askOnce(req *approval.Request) bool {
	return k.r.g.useOnce(k.r.ctx, &k.r.g.keyboardAsked, "keyboard "+req.ID, waitLimit(*req)+taskRetention)
}

// elicitation is a question as a modern client is given it.
func elicitation(params mcp.Object) jsontext.Value {
	return mcp.Object{
		{Name: "method", Value: jsontext.Value(`"elicitation/create"`)},
		{Name: "params", Value: params.Bytes()},
	}.Bytes()
}

// page returns what leads the person at the client to the request's page, if the client opens pages and people
// can reach them; once for each request, and not where they were asked here. It tells that a person is being asked, and
// nothing that comes of it decides: who decides is found out there.
func (k *keyboard) page(req *approval.Request) (mcp.Object, bool) {
	if !k.r.declared.url || k.r.g.o.Page == nil || req == nil {
		return nil, false
	}
	page := k.r.g.o.Page(req.ID)
	if page == "" || !k.askOnce(req) {
		return nil, false
	}
	params := mcp.Object{
		{Name: "mode", Value: jsontext.Value(`"url"`)},
		{Name: "message", Value: mcp.Quote(k.r.g.keyboardText(*req))},
		{Name: "url", Value: mcp.Quote(page)},
	}
	if k.r.client.Era == mcp.Legacy {
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

// ask has a legacy client ask its person while the call is held. The function it returns waits until that is over:
// whichever answer comes first closes the others.
func (k *keyboard) ask(ctx context.Context, req *approval.Request) (closed func()) {
	if k.r.client.Era != mcp.Legacy {
		return func() {}
	}
	question, decides := k.form(req)
	if asks := decides; !decides {
		if question, asks = k.page(req); !asks {
			return func() {}
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		resp, err := k.r.stream.Ask(ctx, "elicitation/create", question.Bytes())
		if !decides || err != nil || resp.Err != nil {
			return // no person decided there
		}
		k.say(k.decide(req.ID, resp.Result))
	}()
	return func() { <-done }
}

// takeAnswers takes what a modern client brought back from its person.
func (k *keyboard) takeAnswers(id string, answers mcp.Object) {
	if v := answers.Get("approve"); v != nil {
		k.say(k.decide(id, v))
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

// decide decides as the person at the keyboard answered. An answer that the gate refuses decides nothing,
// and one that others must join does not end the request: the call goes on waiting then, and what is returned says so.
func (k *keyboard) decide(id string, result jsontext.Value) string {
	d, ok := parseKeyboardForm(result)
	if !ok {
		return noDecision(result)
	}
	d.RequestID = id
	r := k.r
	gate, ctx := r.g.local, r.withCorrelation()
	req, err := gate.DecideAtKeyboard(ctx, r.client.Agent, d)
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
	if s, err := gate.Standing(ctx, id); err == nil {
		return fmt.Sprintf("The approval given at the keyboard counts: %d of %d.", s.Total, s.Needed)
	}
	return "The approval given at the keyboard counts. Others are asked too."
}

// say has a client told what came of an answer at its keyboard that did not end the request: with the progress of a
// call that is held, and with the answer that it is pending.
func (k *keyboard) say(text string) {
	if text == "" {
		return
	}
	k.mu.Lock()
	k.text = text
	k.mu.Unlock()
	select {
	case k.said <- struct{}{}:
	default:
	}
}

// lastSaid is what it was, "" for nothing.
func (k *keyboard) lastSaid() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text
}
