package gateway

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/internal/budget"
	"countersign/internal/mcp"
	"countersign/internal/mcp/upstream"
)

// waitingEvery is how often a client that asked for progress is told that its call is held.
const waitingEvery = 5 * time.Second

// hold waits for a person, for as long as calls are held.
func (p *pendingCall) hold(conn upstream.Conn) error {
	if p.r.g.o.Hold <= 0 && p.answer.Request.Status == approval.Pending {
		return nil
	}
	if p.answer.Request.Status == approval.Pending {
		release, over := p.r.account().Hold(p.r.ctx, budget.Waits)
		if over != nil {
			p.notHeld = over
			return nil
		}
		defer release()
	}
	ctx, cancel := context.WithCancel(p.withCause())
	defer cancel()
	stopped := p.reportWaiting(ctx)
	closed := p.keyboard.ask(ctx, p.answer.Request)
	gate, o := p.r.g.o.Asker, approval.WaitOptions{For: max(p.r.g.o.Hold, time.Millisecond), Stop: p.r.g.stopping,
		Still: func() error { return p.checkUsable(conn) }}
	out, err := gate.Wait(ctx, &p.call, &p.answer, o)
	cancel()
	stopped()
	closed()
	p.answer = *out // reportWaiting and the keyboard have read the one before
	return err
}

// checkUsable reports whether an approval can be used: not for a client that may not call any more, nor on a
// server that is gone, nor for a tool that is another by now.
func (p *pendingCall) checkUsable(conn upstream.Conn) error {
	if p.r.client.StillValid != nil {
		if err := p.r.client.StillValid(); err != nil {
			return err
		}
	}
	if conn.Err() != nil {
		return &upstream.Error{Err: errors.New("the connection is lost")}
	}
	if err := p.checkUnchanged(p.r.ctx); err != nil {
		return err
	}
	return p.reserve(conn)
}

// changedError says that a tool is not the one that the gate was asked for.
type changedError struct{ target string }

func (e *changedError) Error() string {
	return fmt.Sprintf("the tool %s was changed by its server while the call waited", e.target)
}

// checkUnchanged returns an error unless the server still has the tool as the gate was asked for it.
func (p *pendingCall) checkUnchanged(ctx context.Context) error {
	if p.tool == nil {
		return nil
	}
	c, err := p.link.catalog(ctx)
	if err != nil {
		return &upstream.Error{Err: err}
	}
	if now := c.named[p.tool.name]; now == nil || now.digest != p.tool.digest {
		return &changedError{p.call.Target()}
	}
	return nil
}

// reportWaiting reports progress while a call is held; the function it returns waits until that has ended.
func (p *pendingCall) reportWaiting(ctx context.Context) (stopped func()) {
	if p.r.progressToken == nil {
		return func() {}
	}
	done := make(chan struct{})
	p.keyboard.said = make(chan struct{}, 1)
	go func() {
		defer close(done)
		tick := time.NewTicker(waitingEvery)
		defer tick.Stop()
		begin := p.r.g.clock.age()
		text := fmt.Sprintf("Waiting for a person to approve %s (id: %s)", p.call.Target(), p.answer.Request.ID)
		for {
			message := text
			if said := p.keyboard.lastSaid(); said != "" {
				message = said + " " + text
			}
			waited := (p.r.g.clock.age() - begin).Seconds() + 1
			p.r.mu.Lock()
			p.r.progressOffset = waited + 1 // the server may begin at 0
			p.r.mu.Unlock()
			_ = p.r.stream.Send(mcp.Notification(progressMethod, mcp.Object{
				{Name: "progressToken", Value: p.r.progressToken}, {Name: "progress", Value: formatFloat(waited)},
				{Name: "message", Value: mcp.Quote(message)},
			}.Bytes())) // a client that is gone ends ctx
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			case <-p.keyboard.said:
			}
		}
	}()
	return func() { <-done }
}

func formatFloat(f float64) jsontext.Value { return strconv.AppendFloat(nil, f, 'f', -1, 64) }
