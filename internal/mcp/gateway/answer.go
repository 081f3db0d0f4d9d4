package gateway

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/internal/mcp"
	"countersign/internal/mcp/upstream"
)

// nextSteps is what a model is told to do after it was told how a call ended, "" where that says it.
func nextSteps(o approval.Answer) string {
	if o.Frozen() { // which says that nothing is to be tried again
		if o.Kind == approval.AnswerDenied {
			return ""
		}
		return "The call was not run."
	}
	switch o.Kind {
	case approval.AnswerPending:
		return "The call has not run. Go on with other work. Once it is approved, call it again with exactly the same " +
			"arguments: that runs it once. " + feedName + " tells you what was decided."
	case approval.AnswerExpired:
		return "The call was not run. Nobody refused it. Call it again if it is still needed: people are asked again."
	case approval.AnswerCancelled, approval.AnswerLapsed:
		return "The call was not run. Call it again if it is still needed: people are asked again."
	case approval.AnswerDenied:
		if o.Request == nil { // by policy, which the same call meets again
			return "The call was not run. Do not repeat it; try a different approach."
		}
	}
	return ""
}

// answerForServer answers in the server's place.
func (p *pendingCall) answerForServer() (jsontext.Value, *mcp.Error) {
	o := p.answer
	meta := mcp.Object{{Name: "countersign/decision", Value: mcp.Quote(string(o.Kind))}}
	if o.Request != nil {
		meta = append(meta, mcp.Member{Name: "countersign/approval_id", Value: mcp.Quote(o.Request.ID)})
	}
	pending := o.Kind == approval.AnswerPending
	if p.tool == nil {
		code := mcp.CodeDenied
		if pending {
			code = mcp.CodePending
		}
		return nil, &mcp.Error{Code: code, Message: o.Message, Data: meta.Bytes()}
	}
	texts := []string{o.Message}
	if s := nextSteps(o); s != "" {
		texts = append(texts, s)
	}
	if pending && p.notHeld != nil {
		texts = append(texts, "The call was not held for an answer: "+budgetText(p.notHeld))
	}
	if said := p.keyboard.lastSaid(); pending && said != "" {
		texts = append(texts, said)
	}
	// Clients hold results to the schema that a tool declares, unless they are errors.
	output := p.tool.output
	if p.r.client.Era == mcp.Legacy {
		output = p.tool.legacyOutput
	}
	return p.r.toolResult(!pending || output, meta, texts...), nil
}

// toolResult is the result of a tool that the gateway answers for.
func (r *clientRequest) toolResult(failed bool, meta mcp.Object, texts ...string) jsontext.Value {
	content := jsontext.Value("[")
	for i, text := range texts {
		if i > 0 {
			content = append(content, ',')
		}
		content = mcp.Object{{Name: "type", Value: jsontext.Value(`"text"`)},
			{Name: "text", Value: mcp.Quote(text)}}.Append(content)
	}
	var o mcp.Object
	if r.client.Era == mcp.Modern {
		o = append(o, mcp.Member{Name: "resultType", Value: mcp.Quote(mcp.ResultComplete)})
	}
	o = append(o, mcp.Member{Name: "content", Value: append(content, ']')},
		mcp.Member{Name: "isError", Value: strconv.AppendBool(nil, failed)})
	if len(meta) > 0 {
		o = append(o, mcp.Member{Name: "_meta", Value: meta.Bytes()})
	}
	return o.Bytes()
}

// failure tells a model that a call came to nothing: as a tool's error, which it sees, or for other
// methods as an error of the protocol.
func (r *clientRequest) failure(text string, code int) (jsontext.Value, *mcp.Error) {
	if r.method != "tools/call" {
		return nil, mcp.Errorf(code, "%s", text)
	}
	return r.toolResult(true, nil, text), nil
}

// gateFailure answers where the gate gave no decision: nothing runs then.
func (p *pendingCall) gateFailure(err error) (jsontext.Value, *mcp.Error) {
	if p.r.ctx.Err() != nil { // the caller is gone, or is no agent that the gate knows any more
		if e, ours := errors.AsType[*approval.Error](context.Cause(p.r.ctx)); ours {
			return nil, mcp.Errorf(mcp.CodeUnavailable, "%s The call was not run.", sentence(e.Message))
		}
		return nil, mcp.Errorf(mcp.CodeUnavailable, "The request was given up before it was decided. The call was not run.")
	}
	if errors.Is(err, upstream.ErrBusy) {
		return p.r.failure(p.busyText(err)+" The call was not run, and no approval was used.", mcp.CodeUnavailable)
	}
	if e, ok := errors.AsType[*upstream.Error](err); ok {
		return p.r.failure(fmt.Sprintf("The MCP server %s cannot be reached: %s. The call was not run, "+
			"and no approval was used.", p.link.server.Name, p.r.g.errorText(e)), mcp.CodeUnavailable)
	}
	if e, ok := errors.AsType[*changedError](err); ok {
		return p.r.failure(capital(e.Error())+
			". The call was not run. Call it again if it is still needed: people are asked about the tool as it is now.",
			mcp.CodeUnavailable)
	}
	message := "The gate could not decide."
	if e, ours := errors.AsType[*approval.Error](err); ours && e.Message != "" {
		message = sentence(e.Message)
	}
	switch approval.CodeOf(err) {
	case approval.CodeInvalidArgs, approval.CodeInvalidTool, approval.CodeInvalidParameter:
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %s", message)
	case approval.CodeUnauthorized:
		return p.r.failure(message+" The call was not run, and no approval was used.", mcp.CodeUnavailable)
	case approval.CodeTooManyPending, approval.CodeRateLimited, approval.CodeStoreFull:
		return p.r.failure(message+" The call was not run, and nobody was asked.", mcp.CodeUnavailable)
	}
	p.r.g.log.Error("the gate could not decide a call, so it was not run",
		"server", p.call.Server, "tool", p.call.Tool, "agent", p.call.Agent, "error", err)
	if message != "The gate could not decide." {
		message = "The gate could not decide: " + message
	}
	return p.r.failure(message+" The call was not run; try again later.", mcp.CodeUnavailable)
}

// busyText says that a server has no room for a call.
func (p *pendingCall) busyText(err error) string {
	return fmt.Sprintf("The MCP server %s cannot take the call: %s.", p.link.server.Name, p.r.g.errorText(err))
}

// sentence gives a message of the gate its full stop, where it has none.
func sentence(s string) string {
	if strings.HasSuffix(s, ".") {
		return capital(s)
	}
	return capital(s) + "."
}
