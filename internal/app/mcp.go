package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/client"
	"countersign/internal/agents/hooks"
	"countersign/internal/auth"
	"countersign/internal/budget"
	"countersign/internal/config"
	"countersign/internal/locale/phrases"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/gateway"
	"countersign/internal/mcp/upstream"
	"countersign/internal/telemetry"
)

// newGateway builds the MCP gateway that the configuration describes.
func (a *App) newGateway(cfg *config.Config) (err error) {
	o := gateway.Options{
		Asker: a.gate, Fleet: a.fleet(), Hold: cfg.MCP.Hold, Version: a.o.Version,
		Logger: a.logger("gateway"), Stopping: a.stopping,
		Budgets: a.budgets, Called: a.metrics.countCall, Show: a.live.showAtKeyboard, Page: a.live.pageOf,
		Tools:  []gateway.Tool{a.agents.permissionTool()},
		Masker: func() gateway.Masker { return a.live.masker().ForLogs() },
	}
	for _, s := range cfg.MCP.Servers {
		o.Servers = append(o.Servers, gateway.ServerConfig{
			Config: upstream.Config{
				Name: s.Name, Command: s.Argv(), Dir: s.Dir, Env: s.Environ(os.Environ()), URL: s.URL.Reveal(), Header: headers(s),
				Private: secretsOf(s), StartTimeout: s.StartTimeout, StartKey: "start_timeout", Logger: a.logger("upstream"),
			},
			Prefix: strings.TrimSuffix(s.ToolPrefix(), "__"), Tools: s.Tools, Timeout: s.Timeout,
			MaskResults: s.MaskResults,
		})
	}
	if a.telemetry != nil {
		o.Trace = func(r gateway.TracedRequest) (string, func(approval.Answer, string)) {
			return a.telemetry.BeginMCP(telemetry.MCPRequest(r))
		}
	}
	if a.gateway, err = gateway.New(o); err != nil {
		return err
	}
	a.onStop("MCP servers", a.gateway.Stop)
	return nil
}

// fleet is what the gateway has together with those of other programs on the store; nil: there are none.
func (a *App) fleet() *gateway.Fleet {
	if a.store.Replica() == "" {
		return nil
	}
	return &gateway.Fleet{Runner: a.store.Replica(), Keys: a.store.keys("requestState"), Now: a.store.Now,
		TakeOnce: a.store.takeOnce, AddressOf: a.store.AddressOf, TakeTasks: a.takeTasks}
}

// takeTasks takes up the tasks of programs that are gone, unless others have a newer configuration.
func (a *App) takeTasks(ctx context.Context, servers []string) (bool, error) {
	if behind, err := a.store.isBehind(ctx); behind || err != nil {
		return false, err
	}
	return a.store.TakeTasks(ctx, servers)
}

// passingOn is to whom clients' requests are passed on that another program has begun; nil: there is no other.
func (a *App) passingOn() *downstream.Fleet {
	if a.store.Replica() == "" {
		return nil
	}
	return &downstream.Fleet{ID: a.store.Replica(), AddressOf: a.store.AddressOf, Owner: a.gateway.Owner}
}

// secretsOf is what a server's program is given, and is shown nowhere.
func secretsOf(s config.Server) []string {
	var values []string
	for _, v := range s.Env {
		values = append(values, v.Reveal())
	}
	return values
}

func headers(s config.Server) http.Header {
	h := http.Header{}
	for name, value := range s.Headers {
		h.Set(name, value.Reveal())
	}
	return h
}

// mcp is the handler of /mcp.
func (a *App) mcp(cfg *config.Config, l net.Listener) http.Handler {
	guard := downstream.Guard{}
	if at, ok := l.Addr().(*net.TCPAddr); ok && at.IP.IsLoopback() {
		guard.Loopback = true
	}
	if cfg.PublicURL != "" {
		guard.Allowed = []string{cfg.PublicURL}
		if _, host, ok := strings.Cut(cfg.PublicURL, "://"); ok {
			host, _, _ = strings.Cut(host, "/")
			guard.Allowed = append(guard.Allowed, host)
		}
	}
	h := downstream.NewHTTP(downstream.HTTPOptions{Sessions: a.gateway, Authenticate: a.agents.caller,
		Budget: budget.Messages{Registry: a.budgets},
		Guard:  guard, Logger: a.logger("mcp"), Stopping: a.stopping, Fleet: a.passingOn()})
	a.reloader.rechecks = append(a.reloader.rechecks, h.Recheck)
	a.onStop("MCP clients", func(context.Context) error { h.Close(); return nil })
	return h
}

var (
	errNoToken  = errors.New("an agent's token is needed: Authorization: Bearer <token>")
	errBadToken = errors.New("the token is not known; it must be one of an agent in the gate's configuration")
	errPerson   = downstream.ErrForbidden("The token is a person's. Only agents call tools; people's tokens decide, and " +
		"must stay out of an agent's reach.")
)

// agentDoor is where agents come in: with their tools' calls over MCP, and with the events of their hooks.
type agentDoor struct {
	gate     *approval.Gate
	live     *inForce
	callers  auth.Callers
	budgets  *budget.Registry
	stopping context.Context // ends when Stop begins
	log      *slog.Logger
	trace    traceHTTP
}

// caller says which agent a request comes from.
func (d *agentDoor) caller(r *http.Request) (downstream.Caller, error) {
	who, err := d.callers.Caller(r)
	switch {
	case errors.Is(err, auth.ErrNoToken):
		return downstream.Caller{}, errNoToken
	case err != nil:
		return downstream.Caller{}, errBadToken
	}
	markKnown(r, who.Actor)
	if who.Kind != approval.Agent {
		return downstream.Caller{}, errPerson
	}
	return downstream.Caller{Agent: who.Name, StillValid: func() error {
		_, ok := d.callers.Now(who)
		switch {
		case ok:
			return nil
		case who.HasToken():
			return approval.Errorf(approval.CodeUnauthorized, "The token is not valid any more.")
		}
		return errNoToken
	}}, nil
}

// permissionTool is what Claude Code's --permission-prompt-tool asks.
func (d *agentDoor) permissionTool() gateway.Tool {
	return gateway.Tool{
		Name:        hooks.PermissionPromptTool,
		Description: hooks.PermissionPromptDescription,
		Schema:      jsontext.Value(hooks.PermissionPromptSchema),
		ReadOnly:    true,
		Call: func(ctx context.Context, agent string, still func() error, args jsontext.Value) (string, bool) {
			gate := hooks.Gate{Gate: d.gate, Agent: agent, Still: still, Occupy: d.occupy(agent), Stop: d.stopping.Done()}
			answer, err := gate.PermissionPrompt(ctx, args, d.live.Load().cfg.MCP.Hold, d.log)
			if err != nil {
				return "the answer could not be written", true
			}
			return string(answer), false
		},
	}
}

// asker is the gate for the agent whose hook is asked for.
func (d *agentDoor) asker(r *http.Request) (client.Asker, error) {
	c, err := d.caller(r)
	if err != nil {
		return nil, err
	}
	g := hooks.Gate{Gate: d.gate, Agent: c.Agent, Still: c.StillValid, Hold: d.callers.Directory.Hold,
		Occupy: d.occupy(c.Agent), Stop: d.stopping.Done(), Turn: d.waitTurn(c.Agent)}
	if d.trace != nil {
		g.Trace = func(ctx context.Context, c approval.Call) (context.Context, func(error, approval.Answer)) {
			return d.trace(ctx, r.URL.Path, r.Header.Get("traceparent"), c)
		}
	}
	return g, nil
}

// showAtKeyboard is what the person at an agent's keyboard is told of a request: what a card says, or where its rule
// says nothing of it the question alone. Both have the arguments once.
func (f *inForce) showAtKeyboard(r approval.Request) string {
	m := f.masker()
	args := legible.Line(m.ArgsLimited(r.Args, 4000))
	why, _ := m.Text(r.HumanMessage)
	if r.Sentences.SummaryIn("") == "" && phrases.Unworded(r.HumanMessage, r.Target()) {
		return fmt.Sprintf("Run '%s' with arguments %s?\n%s\n\n%s, risk %s", r.Target(), args, legible.Line(why), r.Target(),
			r.Risk)
	}
	return fmt.Sprintf("%s\n%s\n\n%s, risk %s\n%s", f.summary(r), legible.Line(why), r.Target(), r.Risk, args)
}

// schemas knows what the tools take that the gateway offers.
type schemas struct{ a *App }

func (s schemas) CheckArgs(ctx context.Context, server, tool string, canonical []byte) string {
	return s.a.gateway.CheckArgs(ctx, server, tool, canonical)
}

func (m *metrics) countCall(server, method, result string, took time.Duration) {
	c := m.calls.get(mcpCall{server, method, result}, func() mcpMeters {
		return mcpMeters{m.mcp.WithLabelValues(server, method, result), m.mcpTook.WithLabelValues(server)}
	})
	c.count.Inc()
	c.took.Observe(took.Seconds())
}
