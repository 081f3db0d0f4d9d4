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

	"countersign/agents/hooks"
	"countersign/approval"
	"countersign/approval/legible"
	"countersign/budget"
	"countersign/client"
	"countersign/config"
	"countersign/internal/bearer"
	"countersign/mcp/downstream"
	"countersign/mcp/gateway"
	"countersign/mcp/upstream"
)

// newGateway builds the MCP gateway that the configuration describes.
func (a *App) newGateway(cfg *config.Config) (err error) {
	o := gateway.Options{
		Asker: a.gate, Hold: cfg.MCP.Hold, Version: a.o.Version, Logger: a.part("gateway"), Stopping: a.stopping,
		Budgets: a.budgets,
		Called:  a.metrics.called, Show: a.showAtKeyboard, Tools: []gateway.Tool{a.permissionTool()},
	}
	for _, s := range cfg.MCP.Servers {
		o.Servers = append(o.Servers, gateway.ServerConfig{
			Config: upstream.Config{
				Name: s.Name, Command: s.Argv(), Dir: s.Dir, Env: s.Environ(os.Environ()), URL: s.URL.Reveal(), Header: headers(s),
				StartTimeout: s.StartTimeout, Logger: a.part("upstream"),
			},
			Prefix: strings.TrimSuffix(s.ToolPrefix(), "__"), Tools: s.Tools, Timeout: s.Timeout,
		})
	}
	if a.gateway, err = gateway.New(o); err != nil {
		return err
	}
	a.onStop("MCP servers", a.gateway.Stop)
	return nil
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
	h := downstream.NewHTTP(downstream.HTTPOptions{Sessions: a.gateway, Authenticate: a.caller,
		Budget: budget.Messages{Registry: a.budgets},
		Guard:  guard, Logger: a.part("mcp"), Stopping: a.stopping})
	a.rechecks = append(a.rechecks, h.Recheck)
	a.onStop("MCP clients", func(context.Context) error { h.Close(); return nil })
	return h
}

var (
	errNoToken  = errors.New("an agent's token is needed: Authorization: Bearer <token>")
	errBadToken = errors.New("the token is not known; it must be one of an agent in the gate's configuration")
	errPerson   = downstream.ErrForbidden("The token is a person's. Only agents call tools; people's tokens decide, and " +
		"must stay out of an agent's reach.")
)

// caller says which agent a request comes from.
func (a *App) caller(r *http.Request) (downstream.Caller, error) {
	hs := r.Header["Authorization"]
	if len(hs) == 0 {
		name, ok := a.anonymous().Admit(r)
		if !ok {
			return downstream.Caller{}, errNoToken
		}
		known(r)
		return downstream.Caller{Agent: name, StillValid: func() error {
			if now, ok := a.anonymous().Admit(r); !ok || now != name {
				return errNoToken
			}
			return nil
		}}, nil
	}
	token := bearer.Token(r)
	if token == "" {
		return downstream.Caller{}, errNoToken
	}
	who, ok := a.directory.ByToken(token)
	if ok {
		known(r)
	}
	switch {
	case !ok:
		return downstream.Caller{}, errBadToken
	case who.Kind != approval.Agent:
		return downstream.Caller{}, errPerson
	}
	return downstream.Caller{Agent: who.Name, StillValid: func() error {
		if now, ok := a.directory.ByToken(token); !ok || now.Kind != approval.Agent || now.Name != who.Name {
			return approval.Errorf(approval.CodeUnauthorized, "The token is not valid any more.")
		}
		return nil
	}}, nil
}

// permissionTool is what Claude Code's --permission-prompt-tool asks.
func (a *App) permissionTool() gateway.Tool {
	return gateway.Tool{
		Name:        "countersign__permission_prompt",
		Description: "For Claude Code's --permission-prompt-tool: whether a tool call may run. Not to be called by a model.",
		Schema:      jsontext.Value(`{"type":"object","properties":{"tool_name":{"type":"string"},"input":{"type":"object"},"tool_use_id":{"type":"string"}},"required":["tool_name","input"]}`), //nolint:lll // one literal
		ReadOnly:    true,
		Call: func(ctx context.Context, agent string, still func() error, args jsontext.Value) (string, bool) {
			answer, err := a.permission(ctx, agent, still, args)
			if err != nil {
				answer, err = hooks.DenyPermissionPrompt(strings.TrimSuffix(err.Error(), "."))
			}
			if err != nil {
				return "the answer could not be written", true
			}
			return string(answer), false
		},
	}
}

func (a *App) permission(ctx context.Context, agent string, still func() error, args jsontext.Value) ([]byte, error) {
	e, err := hooks.ParsePermissionPrompt(args)
	if err != nil {
		return nil, err
	}
	c, err := e.Call(nil)
	if err != nil {
		return nil, err
	}
	answer, err := hooks.Gate{Gate: a.gate, Agent: agent, Still: still, Occupy: a.occupying(agent),
		Stop: a.stopping.Done()}.Ask(ctx, c, a.live.Load().cfg.MCP.Hold)
	if err != nil {
		level := slog.LevelWarn
		if approval.CodeOf(err) == approval.CodeRateLimited {
			level = slog.LevelDebug // it is counted, and admins are told once
		}
		a.log.Log(ctx, level, "a permission prompt could not be answered", "agent", agent, "error", err)
		if e, ours := errors.AsType[*approval.Error](err); ours {
			return nil, errors.New(e.Message) // the rest is for the log
		}
		return nil, errors.New("an internal error")
	}
	return hooks.AnswerPermissionPrompt(answer, c)
}

// asker is the gate for the agent whose hook is asked for.
func (a *App) asker(r *http.Request) (client.Asker, error) {
	c, err := a.caller(r)
	if err != nil {
		return nil, err
	}
	return hooks.Gate{Gate: a.gate, Agent: c.Agent, Still: c.StillValid, Hold: a.directory.Hold,
		Occupy: a.occupying(c.Agent), Stop: a.stopping.Done(), Turn: a.turn(c.Agent)}, nil
}

// showAtKeyboard is what the person at an agent's keyboard is told of a request: what a card says.
func (a *App) showAtKeyboard(r approval.Request) string {
	m := a.masker()
	args := m.ArgsLimited(r.Args, 4000)
	why, _ := m.Text(r.HumanMessage)
	return fmt.Sprintf("%s\n\n%s, risk %s\n%s", legible.Line(why), r.Target(), r.Risk, legible.Line(args))
}

// serverProblems names the MCP servers that cannot be used, and tools that cannot be offered.
func (a *App) serverProblems() []string {
	var ps []string
	for _, h := range a.gateway.Health() {
		switch h.State {
		case upstream.Down:
			why := "its connection ended"
			if h.Err != nil {
				why = legible.Lines(upstream.Brief(h.Err))
			}
			ps = append(ps, fmt.Sprintf("the MCP server %s is down since %s (%s): its tools are not offered", h.Server,
				approval.FormatTime(h.Since), why))
		case upstream.Starting:
			ps = append(ps, fmt.Sprintf("the MCP server %s is starting", h.Server))
		}
		for _, p := range h.Problems {
			ps = append(ps, fmt.Sprintf("the MCP server %s: %s", h.Server, p))
		}
	}
	return ps
}

func (m *metrics) called(server, method, result string, took time.Duration) {
	m.mcp.WithLabelValues(server, method, result).Inc()
	m.mcpTook.WithLabelValues(server).Observe(took.Seconds())
}
