package gateway

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/internal/mcp"
	"countersign/internal/mcp/upstream"
)

// A call that was let through and provably did not run is sent once more over a new connection, where the old one had
// ended, and else its approval is given back. What is in doubt is neither.

// reconnect returns a new connection for what could not be sent over the old one, if the server is
// there, and its tool still the one that the call was let through for.
func (p *pendingCall) reconnect(ctx context.Context) (upstream.Conn, bool) {
	conn, err := p.link.get(ctx)
	if err != nil || p.state != nil {
		return nil, false
	}
	return conn, p.checkUnchanged(ctx) == nil
}

// sendAgain is reconnect for a client that may still call.
func (x *exchange) sendAgain(ctx context.Context) (upstream.Conn, bool) {
	conn, ok := x.p.reconnect(ctx)
	if !ok || x.r.client.StillValid != nil && x.r.client.StillValid() != nil {
		return nil, false
	}
	frozen, err := x.r.frozenText(ctx)
	return conn, err == nil && frozen == ""
}

// notRun answers for a call that certainly did not run.
func (p *pendingCall) notRun(ctx context.Context, err error) (jsontext.Value, *mcp.Error) {
	name, why := p.link.server.Name, p.r.g.errorText(err)
	text := fmt.Sprintf("The call did not reach the MCP server %s and was not run: %s.", name, why)
	if upstream.IsRefused(err) {
		text = fmt.Sprintf("The MCP server %s refused the call before running it: %s. The call was not run.", name, why)
	}
	switch after, busy := upstream.RetryAfter(err); {
	case after > 0:
		text += fmt.Sprintf(" It asks to be called again in %s, not before.", seconds(after))
	case busy:
		text += " It is called too often now; try again later."
	}
	switch useBy, ok := p.giveBack(ctx, err); {
	case ok:
		text += fmt.Sprintf(" Its approval is not used up: call it again with exactly the same arguments before %s.",
			approval.FormatTime(useBy))
	case p.answer.Kind == approval.AnswerApproved:
		p.report(ctx, approval.RunFailed)
		text += " Its approval is used up. Call it again, and people are asked again."
	default:
		p.report(ctx, approval.RunFailed)
	}
	return p.r.failure(text, mcp.CodeUnavailable)
}

func seconds(d time.Duration) string {
	if n := int(math.Ceil(d.Seconds())); n != 1 {
		return fmt.Sprintf("%d seconds", n)
	}
	return "1 second"
}

// giveBack takes the use of an approval back, and returns until when it can be used. A gate elsewhere does not take
// that from whoever it let through.
func (p *pendingCall) giveBack(ctx context.Context, why error) (useBy time.Time, ok bool) {
	if p.r.g.local == nil || p.continued || p.begun {
		return time.Time{}, false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	req, ok, err := p.r.g.local.GiveBack(ctx, p.answer, upstream.RefusedFor(why))
	if err != nil {
		p.r.g.log.ErrorContext(ctx, "the approval of a call that was not run could not be given back; it stays used",
			"run_id", p.runID(), "error", err)
		return time.Time{}, false
	}
	return req.UseBy, ok
}
