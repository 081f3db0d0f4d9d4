package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/mcp"
)

// describe is the tool as an element of tools/list.
func (t *Tool) describe() jsontext.Value {
	return mcp.Object{
		{Name: "name", Value: mcp.Quote(t.Name)},
		{Name: "description", Value: mcp.Quote(t.Description)},
		{Name: "inputSchema", Value: t.Schema},
		{Name: "annotations", Value: mcp.Marshal(map[string]bool{"readOnlyHint": t.ReadOnly, "destructiveHint": false,
			"openWorldHint": false})},
	}.Bytes()
}

// callOwnTool answers a call of one of the program's own tools, which the gate is not asked for.
func (r *clientRequest) callOwnTool(t *Tool, args jsontext.Value) (jsontext.Value, *mcp.Error) {
	if _, err := mcp.ReadObject(args); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: arguments: %s.", err)
	}
	text, failed := t.Call(r.ctx, r.client.Agent, r.client.StillValid, args)
	return r.toolResult(failed, nil, text), nil
}

// feedName is the tool that gives the feed.
const feedName = ownPrefix + "resolved"

const resolvedSchema = `{"type":"object","properties":{"ack":{"type":"array","items":{"type":"string"},"description":"Ids of the decisions that you have read; you are not told of them again."}},"additionalProperties":false}` //nolint:lll // one literal

// newFeedTool returns the agent's feed as a tool.
func (g *Gateway) newFeedTool() Tool {
	return Tool{
		Name: feedName,
		Description: "What people decided about your calls that needed approval: approved, denied, expired, cancelled or " +
			"lapsed, each with its id. Tools are named server/tool there. " +
			"An approved call runs when you call it again with exactly the same arguments. Once you have read a decision, " +
			"give its id in ack.",
		Schema: jsontext.Value(resolvedSchema),
		Call:   g.callFeed,
	}
}

func (g *Gateway) callFeed(ctx context.Context, agent string, _ func() error, args jsontext.Value) (string, bool) {
	var in struct {
		Ack []string `json:"ack"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return "ack must be a list of ids.", true
	}
	var b strings.Builder
	if len(in.Ack) > 0 {
		acked, err := g.o.Asker.Ack(ctx, agent, in.Ack)
		if approval.CodeOf(err) == approval.CodeInvalidParameter {
			return fmt.Sprintf("ack takes at most %d ids at once; none of these was taken.", approval.MaxAck), true
		}
		if err != nil {
			return "The gate could not record ack; try again later.", true
		}
		for _, left := range []struct {
			ids  []string
			what string
		}{{acked.NotResolved, "Not decided yet"}, {acked.NotFound, "Not the id of a request of yours"}} {
			for _, id := range left.ids {
				fmt.Fprintf(&b, "%s: %s\n", left.what, legible.Line(legible.Cut(id, 64)))
			}
		}
	}
	rs, err := g.o.Asker.Resolved(ctx, agent, "", 0)
	if err != nil {
		return "The gate cannot answer now; try again later.", true
	}
	if len(rs) == 0 {
		b.WriteString("Nothing new has been decided.")
	}
	for _, r := range rs {
		b.WriteString(r.FeedMessage() + " (id: " + r.ID + ")\n")
	}
	return strings.TrimSuffix(b.String(), "\n"), false
}
