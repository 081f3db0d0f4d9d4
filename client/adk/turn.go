package adk

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"

	"countersign/client"
)

const (
	// maxBatch is how many calls the gate takes at once.
	maxBatch = 20
	// maxRationale is how many bytes of the model's own words go with a call.
	maxRationale = 4 << 10
	// feedTimeout bounds how long a model call is held up by a gate that is slow to say what ended.
	feedTimeout = 3 * time.Second
)

// heading stands before the endings that the model is told.
const heading = "How earlier approval requests of this conversation ended. An approved call has not run yet: " +
	"to run it, make the identical call again, once."

// BeforeModel adds to the request how earlier requests of this session ended, for as long as the
// invocation lasts or until the approval is used, and which calls ran with args that a person changed, and
// why. Without an answer from the gate nothing is added; what is not told stays in the feed. It returns an
// error, which stops the run, if a streaming tool is offered to the model, because the ADK would run it
// without asking.
func (g *Gate) BeforeModel(ctx agent.Context, req *model.LLMRequest) (*model.LLMResponse, error) {
	offered := make(map[string]bool, len(req.Tools))
	for name, t := range req.Tools {
		if _, ok := t.(streaming); ok {
			return nil, fmt.Errorf("adk: the tool %s streams its result: the ADK runs such tools without asking, so the gate "+
				"does not let them be offered", name)
		}
		offered[name] = true
	}
	// A feed that cannot be read now is read before the next model call.
	news, _ := g.news(ctx)
	endings, lines := g.runs.step(ctx, offered, news, g.now())
	if len(endings) > 0 {
		lines = append(lines, heading)
		for _, a := range endings {
			lines = append(lines, a.Message)
		}
	}
	if len(lines) > 0 {
		req.Contents = append(slices.Clip(req.Contents), genai.NewContentFromText(strings.Join(lines, "\n"), genai.RoleUser))
	}
	return nil, nil
}

// streaming is what the ADK recognises a streaming tool by.
type streaming interface {
	RunStream(ctx agent.Context, args any) iter.Seq2[string, error]
}

// news returns the endings of this session that are not acknowledged. Sessions of two users can have one
// id, so those of another scope are left alone.
func (g *Gate) news(ctx agent.Context) ([]client.Approval, error) {
	within, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	as, err := g.client.Resolved(within, ctx.SessionID(), 0)
	scope := g.scope(ctx)
	return slices.DeleteFunc(as, func(a client.Approval) bool { return a.Scope != scope || a.Server != g.server }), err
}

// AfterModel acknowledges the endings that the model was told, and asks about several calls of its
// response in one batch. Each answer is kept for that very call: it is used once, with the same args,
// within a minute, and dropped when the model is called again or the run ends. An approval that such an
// answer used is then lost: it is never used twice. It changes no response.
func (g *Gate) AfterModel(ctx agent.Context, resp *model.LLMResponse, respErr error) (*model.LLMResponse, error) {
	if respErr != nil || resp == nil || resp.Partial || resp.ErrorCode != "" {
		return nil, nil
	}
	if ids := g.runs.listUnacknowledged(ctx); len(ids) > 0 {
		if _, err := g.client.Ack(ctx, ids...); err == nil {
			g.runs.markAcknowledged(ctx, ids)
		}
	}
	calls, ids := g.readCalls(ctx, resp)
	if len(calls) < 2 {
		return nil, nil // BeforeTool asks about it, and can wait while it does
	}
	for len(calls) > 0 {
		n := min(len(calls), maxBatch)
		answers, err := g.client.CallBatch(ctx, calls[:n])
		if err == nil && len(answers) == n {
			g.runs.prepare(ctx, ids[:n], calls[:n], answers, g.now())
		} // else BeforeTool asks about each by itself
		calls, ids = calls[n:], ids[n:]
	}
	return nil, nil
}

// readCalls returns the calls of a response that will come to BeforeTool, and their ids, and keeps the words
// that the model said with them. A tool that was not offered is not asked about: people would get a card
// for what cannot run.
func (g *Gate) readCalls(ctx agent.Context, resp *model.LLMResponse) (calls []client.Call, ids []string) {
	if resp.Content == nil {
		return nil, nil
	}
	var words []string
	for _, p := range resp.Content.Parts {
		if p != nil && p.Text != "" && !p.Thought {
			words = append(words, p.Text)
		}
	}
	rationale := shorten(strings.TrimSpace(strings.Join(words, "\n")), maxRationale)
	offered := g.runs.keepWords(ctx, rationale, g.now())
	for _, p := range resp.Content.Parts {
		if p == nil || p.FunctionCall == nil || p.FunctionCall.ID == "" || offered != nil && !offered[p.FunctionCall.Name] {
			continue
		}
		call, err := g.call(ctx, p.FunctionCall.Name, p.FunctionCall.Args)
		if err != nil {
			continue // BeforeTool says so
		}
		call.Rationale = rationale
		calls, ids = append(calls, call), append(ids, p.FunctionCall.ID)
	}
	return calls, ids
}

// shorten cuts s to at most n bytes, between characters.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = "…"
	n -= len(mark)
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}

// same reports whether two calls are one call: to the gate, and to the tool.
func same(a, b client.Call) bool {
	return a.Tool == b.Tool && a.Server == b.Server && a.Scope == b.Scope && a.SessionID == b.SessionID &&
		bytes.Equal(a.Args, b.Args)
}
