package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/internal/budget"
	"countersign/internal/mcp"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/upstream"
	"countersign/internal/secret"
)

// Asker decides calls: an [*approval.Gate], or in another process the API of one. It is more than client.Asker, in the
// domain's types: an allowed call may be sent while its record is written, who waits may be gone when it is let
// through, and what came of it is reported.
type Asker interface {
	// Check answers a call without waiting for a person, as approval.Gate.Check does.
	Check(ctx context.Context, c approval.Call) (approval.Answer, error)
	// Wait holds until the request of a pending outcome ends, as approval.Gate.Wait does.
	Wait(ctx context.Context, c *approval.Call, first *approval.Answer,
		w approval.WaitOptions) (*approval.Answer, error)
	// Report records what came of a dispatched call.
	Report(ctx context.Context, who approval.Actor, id string, ran approval.RunResult) (approval.Request, error)
	// AddInput puts on record what the server of an approved call is about to be told that no approver saw.
	AddInput(ctx context.Context, who approval.Actor, id string, in approval.Input) error
	Request(ctx context.Context, who approval.Actor, id string) (approval.Request, error)
	Cancel(ctx context.Context, c approval.Cancellation) (approval.Request, error)
	Resolved(ctx context.Context, agent, session string, wait time.Duration) ([]approval.Request, error)
	Ack(ctx context.Context, agent string, ids []string) (approval.Acked, error)
}

// localGate is what an [*approval.Gate] does beside, in the gateway's own process. Over the API there is none of it: no
// word of a client that the gate let through gives an approval back, or decides, and the gate itself refuses what is
// frozen.
type localGate interface {
	Asker
	// Keyboard says who sits at an agent's keyboard, and may decide there; DecideAtKeyboard takes their decision.
	Keyboard(agent string, r approval.Request) (approval.Actor, bool)
	DecideAtKeyboard(ctx context.Context, agent string, d approval.Decision) (approval.Request, error)
	// Standing says how far the votes on a request have come.
	Standing(ctx context.Context, id string) (approval.Standing, error)
	DeniedByFreeze(ctx context.Context, agent string) (string, error)
	GiveBack(ctx context.Context, a approval.Answer, why string) (approval.Request, bool, error)
	Tasks(ctx context.Context, agent string) ([]approval.Request, error)
	RequestHead(ctx context.Context, who approval.Actor, id string) (approval.Head, error)
}

var _ localGate = (*approval.Gate)(nil)

// ServerConfig is one MCP server and how it is offered.
type ServerConfig struct {
	upstream.Config
	Prefix  string        // of its names, before two underscores; "": names unchanged
	Tools   []string      // the tools that are offered; nil: all
	Timeout time.Duration // how long its answer is waited for; default 5 min
	// MaskResults masks the secrets in what it returns before agents read it; [Options].Masker is required then.
	MaskResults bool
}

// Tool is a tool that the program itself offers beside the servers'.
type Tool struct {
	Name        string
	Description string
	Schema      jsontext.Value // of its arguments
	ReadOnly    bool
	// Call returns the text for the model, and whether it is an error. still says, with an error, that the
	// client may not call any more; nil: it always may.
	Call func(ctx context.Context, agent string, still func() error, args jsontext.Value) (text string, failed bool)
}

// Options are what a [Gateway] is made of. Gate is required.
type Options struct {
	Asker   Asker
	Servers []ServerConfig
	// Hold is how long a quarantined call may wait for its answer before it is answered as pending.
	Hold time.Duration
	// Wrapper says that the gateway stands around one server for one client: the server is started when
	// the client has said what it can do, and speaks of itself through us.
	Wrapper bool
	Scope   string // of every call
	Tools   []Tool
	// Show is what the person at an agent's keyboard is told of a request, secrets masked; nil: its message.
	Show func(approval.Request) string
	// Page is where people can open a request's page, "" for nowhere. nil: nowhere.
	Page func(id string) string
	// Masker masks what servers with MaskResults return, as it is configured now.
	Masker  func() Masker
	Version string
	Logger  *slog.Logger
	// Stopping is done when the program is about to stop: calls that are held are answered then.
	Stopping context.Context
	// Budgets are those of agents: of what they hold. nil: there are none.
	Budgets *budget.Registry
	// Called is told of each gated request that was answered, and how. nil: no one is.
	Called func(server, method, result string, took time.Duration)
	// Trace begins the span of a gated request. What it returns is the traceparent that the gate is asked under, "" for
	// none, and what ends the span, nil for nothing. nil: there are no spans.
	Trace func(r TracedRequest) (traceparent string, end func(a approval.Answer, failure string))
	Fleet *Fleet // nil: the gateway is alone
}

// TracedRequest is what is told of a gated request before it is decided.
type TracedRequest struct {
	Method, Session     string
	Traceparent, CallID string // as the client's metadata has them; "": it has none
	Server, Tool        string // Tool "": another method than tools/call
}

// Fleet is what gateways have together that agents reach by one address: a client may come back to another one.
type Fleet struct {
	Runner string      // of every call: see [approval.Call]
	Keys   secret.Keys // of what clients bring back
	Now    func() time.Time
	// TakeOnce takes a key for so long, and reports whether no gateway had it.
	TakeOnce func(ctx context.Context, key string, hold time.Duration) (bool, error)
	// TakeTasks makes Runner the one to run the tasks of those that are gone, of some servers, and reports whether there
	// were any. It is called every few seconds.
	TakeTasks func(ctx context.Context, servers []string) (bool, error)
	// AddressOf returns where a runner is reached, "" if it is gone.
	AddressOf func(ctx context.Context, runner string) (string, error)
}

// runner is who sends on what the gateway lets through.
func (g *Gateway) runner() string {
	if g.o.Fleet == nil {
		return ""
	}
	return g.o.Fleet.Runner
}

// stateTime is the time that says until when a state is good: that of all gateways which know it.
func (g *Gateway) stateTime() time.Duration {
	if g.o.Fleet == nil {
		return g.clock.age()
	}
	return time.Duration(g.o.Fleet.Now().UnixNano())
}

// useOnce uses a key of what is used once, here and in the fleet.
func (g *Gateway) useOnce(ctx context.Context, of *usedOnce, key string, good time.Duration) bool {
	switch {
	case !of.use(g.clock.age(), key, good):
		return false
	case g.o.Fleet == nil:
		return true
	}
	fresh, err := g.o.Fleet.TakeOnce(ctx, key, good+time.Minute) // their time may differ for a moment
	if err != nil {
		g.log.WarnContext(ctx, "it cannot be found out whether something was used before, and so it is not used", "error",
			err)
	}
	return err == nil && fresh
}

// Gateway serves clients. It implements [downstream.SessionOpener] and is safe for concurrent use.
type Gateway struct {
	o             Options
	local         localGate // the Asker, where it is in this process; else nil
	log           *slog.Logger
	servers       []*server
	tools         []Tool
	clock         clock
	states        states
	keyboardAsked usedOnce // requests that a keyboard was asked about
	tasks         tasks
	resuming      sync.Map // the ids of requests whose tasks are being taken up
	// beginning is held for reading from when a task's request may be stored until the task is there, which knows what its
	// client can answer, and whose credential it has.
	beginning sync.RWMutex
	stopping  <-chan struct{}
	closeIdle []func() // closes connections that are not in use

	work       context.Context // ends when the gateway stops
	cancelWork context.CancelFunc
	background group

	mu        sync.Mutex
	sessions  map[*session]bool
	listeners map[*listener]bool
	suspended map[string]*inflight
}

// server is one server with the connection that all agents share.
type server struct {
	ServerConfig
	g           *Gateway
	shared      *link
	supervisor  *upstream.Supervisor // nil in a wrapper
	wrapperLink *link                // a wrapper's; of the gateway's mutex

	mu           sync.Mutex
	sessionLinks map[*link]bool // of sessions, each with a connection of its own
}

// New returns a gateway. Call [Gateway.Start] to have it connect, and [Gateway.Stop] to have it end.
func New(o Options) (*Gateway, error) {
	g := &Gateway{o: o, log: o.Logger, clock: newClock(), sessions: map[*session]bool{}, listeners: map[*listener]bool{},
		suspended: map[string]*inflight{}}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	g.background.log = g.log
	g.local, _ = o.Asker.(localGate)
	if o.Stopping != nil {
		g.stopping = o.Stopping.Done()
	}
	if g.o.Called == nil {
		g.o.Called = func(string, string, string, time.Duration) {}
	}
	if o.Fleet == nil {
		g.states.keys = secret.NewKeys()
	} else {
		g.states.keys = o.Fleet.Keys.OrNew()
	}
	g.work, g.cancelWork = context.WithCancel(context.Background())
	g.tools = append([]Tool{g.newFeedTool()}, o.Tools...)
	for _, s := range o.Servers {
		if s.Timeout <= 0 {
			s.Timeout = 5 * time.Minute
		}
		s.Client = g.implementation()
		if s.URL != "" && s.Transport == nil { // sessions with connections of their own share what is idle
			t := upstream.NewTransport()
			s.Transport, g.closeIdle = t, append(g.closeIdle, t.CloseIdleConnections)
		}
		u := &server{ServerConfig: s, g: g}
		if !o.Wrapper {
			s.Capabilities = allCapabilities
			u.shared = &link{server: u, listed: make(chan struct{}, 1)}
			u.supervisor = upstream.New(s.Config, u.shared.peer(), g.clock.now, u.shared.onConnected)
			u.shared.get = u.supervisor.Conn
		}
		g.servers = append(g.servers, u)
	}
	return g, nil
}

// allCapabilities is what a shared legacy connection is told that clients can do: one that cannot declines.
var allCapabilities = jsontext.Value(`{"elicitation":{"form":{},"url":{}},"sampling":{}}`)

func (g *Gateway) implementation() jsontext.Value {
	return mcp.Marshal(map[string]string{"name": "countersign", "title": "Countersign",
		"version": cmp.Or(g.o.Version, "devel")})
}

// Start connects to the servers and takes up tasks that a restart interrupted.
func (g *Gateway) Start() {
	for _, u := range g.servers {
		if u.supervisor != nil {
			g.background.Go(func() { u.supervisor.Run(g.work) })
		}
	}
	switch {
	case g.local == nil || g.o.Wrapper:
	case g.o.Fleet != nil:
		g.background.Go(g.takeTasks)
	default:
		g.background.Go(func() {
			if err := g.resumeTasks(); err != nil && g.work.Err() == nil {
				g.log.Error("tasks that a restart interrupted cannot be listed; each continues when its client asks for it",
					"error", err)
			}
		})
	}
}

// Stop ends everything; it returns once nothing of the gateway runs any more, or ctx ends.
func (g *Gateway) Stop(ctx context.Context) error {
	g.cancelWork()
	g.mu.Lock()
	sessions := make([]*session, 0, len(g.sessions))
	for s := range g.sessions {
		sessions = append(sessions, s)
	}
	g.mu.Unlock()
	for _, s := range sessions {
		s.Close()
	}
	done := make(chan struct{})
	go func() {
		g.background.Wait()
		for _, end := range g.closeIdle {
			end()
		}
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("gateway: %w", ctx.Err())
	}
}

// ServerHealth is how a server is doing.
type ServerHealth struct {
	Server string
	upstream.Health
	Problems []string // tools that cannot be offered, and why
}

// Health returns how each server is doing, in the order of the configuration.
func (g *Gateway) Health() []ServerHealth {
	var hs []ServerHealth
	for _, u := range g.servers {
		if u.supervisor != nil {
			hs = append(hs, ServerHealth{Server: u.Name, Health: u.supervisor.Health(), Problems: u.problems()})
		}
	}
	return hs
}

// Open begins a session for a client.
func (g *Gateway) Open(c downstream.Client) downstream.Session {
	s := &session{g: g, client: c, initialized: make(chan struct{})}
	if c.Era == mcp.Legacy || c.Local {
		s.id = rand.Text()
		g.mu.Lock()
		g.sessions[s] = true
		g.mu.Unlock()
	}
	return s
}

// offeredName is the name under which clients see a server's tool or prompt.
func (u *server) offeredName(name string) string {
	if u.Prefix == "" {
		return name
	}
	return u.Prefix + "__" + name
}
