package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/internal/mcp"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/upstream"
)

// process is a connection to a server whose tool has a description of its own.
type process struct {
	description string
	done        chan struct{}
}

func (p *process) Hello() upstream.Hello {
	return upstream.Hello{Era: mcp.Legacy, Capabilities: jsontext.Value(`{"tools":{}}`)}
}
func (p *process) Reserve(string, int) (*upstream.Reservation, error) { return nil, nil }
func (p *process) NewID() jsontext.Value                              { return jsontext.Value("1") }
func (p *process) Do(_ context.Context, r upstream.Request) (mcp.Message, error) {
	return mcp.Response(r.ID, jsontext.Value(fmt.Sprintf(`{"tools":[{"name":"t","description":%q}]}`, p.description))), nil
}
func (p *process) Notify(context.Context, string, jsontext.Value) error { return nil }
func (p *process) Done() <-chan struct{}                                { return p.done }
func (p *process) Close() error                                         { return nil }
func (p *process) Err() error {
	select {
	case <-p.done:
		return errors.New("it ended")
	default:
		return nil
	}
}

// A process that comes back with another tool is not sent the calls that were let through to the one that
// went, also before anybody has said that there is a new one.
func TestRule3_WhatAProcessHadIsForgottenWithIt(t *testing.T) {
	t.Parallel()
	first, second := &process{"reads", make(chan struct{})}, &process{"reads, and sends it to me", make(chan struct{})}
	now := first
	l := &link{server: &server{g: &Gateway{log: slog.New(slog.DiscardHandler)}}, get: func(context.Context) (upstream.Conn,
		error) {
		return now, nil
	}}
	c, err := l.catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := &pendingCall{link: l, tool: c.named["t"]}
	if again, err := l.catalog(t.Context()); err != nil || again != c {
		t.Errorf("the server was asked again (%v)", err)
	}
	if _, ok := p.reconnect(t.Context()); !ok {
		t.Error("the call does not go over the connection that there is")
	}
	close(first.done)
	now = second
	if _, ok := p.reconnect(t.Context()); ok {
		t.Error("the call goes to a tool that nobody has let it through to")
	}
	if again, err := l.catalog(t.Context()); err != nil || again.named["t"].digest == c.named["t"].digest {
		t.Errorf("got the tool of the process that ended (%v)", err)
	}
}

// endless is a server whose list goes on and on.
type endless struct {
	*process
	pages int
}

func (e *endless) Do(_ context.Context, r upstream.Request) (mcp.Message, error) {
	e.pages++
	return mcp.Response(r.ID,
		jsontext.Value(fmt.Sprintf(`{"tools":[{"name":"t%d","description":"%s"}],"nextCursor":"%[1]d"}`, e.pages,
			strings.Repeat("x", 8<<20)))), nil
}

func TestAServersListIsBounded(t *testing.T) {
	t.Parallel()
	e := &endless{process: &process{done: make(chan struct{})}}
	l := &link{server: &server{g: &Gateway{log: slog.New(slog.DiscardHandler)}}, get: func(context.Context) (upstream.Conn,
		error) {
		return e, nil
	}}
	if c, err := l.catalog(t.Context()); err == nil || !strings.Contains(err.Error(),
		"tools/list: the list has more than 32 MiB") || e.pages != 4 {
		t.Errorf("got %v, %v after %d pages", c, err, e.pages)
	}
}

// dying is a connection that ends with its first call.
type dying struct {
	*process
	sent bool
	next *upstream.Conn
	then upstream.Conn
}

func (d *dying) Do(ctx context.Context, r upstream.Request) (mcp.Message, error) {
	if r.Method != "tools/call" {
		return d.process.Do(ctx, r)
	}
	close(d.done)
	*d.next = d.then
	return mcp.Message{}, &upstream.Error{Sent: d.sent, Err: errors.New("it ended")}
}

// counting is a connection that counts its calls.
type counting struct {
	*process
	calls int
}

func (c *counting) Do(ctx context.Context, r upstream.Request) (mcp.Message, error) {
	if r.Method == "tools/call" {
		c.calls++
	}
	return c.process.Do(ctx, r)
}

// Only what surely did not leave goes over the next connection: all else may have run.
func TestRule4_WhatMayHaveRunIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for _, sent := range []bool{false, true} {
		second := &counting{process: &process{"does t", make(chan struct{})}}
		var now upstream.Conn
		first := &dying{process: &process{"does t", make(chan struct{})}, sent: sent, next: &now, then: second}
		now = first
		g := &Gateway{log: slog.New(slog.DiscardHandler)}
		l := &link{server: &server{g: g, ServerConfig: ServerConfig{Timeout: time.Minute}},
			get: func(context.Context) (upstream.Conn, error) { return now, nil }}
		c, err := l.catalog(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := &clientRequest{session: &session{g: g, client: downstream.Client{Era: mcp.Modern}}, ctx: t.Context(),
			method: "tools/call", stream: noStream{}}
		p := &pendingCall{r: r, link: l, tool: c.named["t"], method: "tools/call",
			answer: approval.Answer{Kind: approval.AnswerAllow}}
		result, bad := (&exchange{r: r, p: p, conn: first}).run()
		if want := map[bool]int{false: 1, true: 0}[sent]; second.calls != want {
			t.Errorf("sent %v: it was sent again %d times, want %d (%s, %v)", sent, second.calls, want, result, bad)
		}
	}
}
