package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign/internal/secret"
)

// The tools of the gate that is started for the run.
const (
	allowedTool = "read"
	quietTool   = "transfer" // people are asked, of whom nobody has a phone
	pushedTool  = "refund"   // and here somebody has
)

// settle is how long a gate has, after it serves, to give back what only starting took.
const settle = time.Second

// own starts the gates, with a store in dir if they have no other, and all that is around them.
func own(ctx context.Context, o Options, dir string) (_ *world, err error) {
	w := &world{person: secret.Value(rand.Text()), askTool: quietTool, allowTool: allowedTool, mcpHolds: lorem}
	for range o.Agents {
		w.agents = append(w.agents, secret.Value(rand.Text()))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.mcpCall, err = toolCall(echoTool, `{"text":"`+lorem+`"}`); err != nil {
		return nil, err
	}
	if err := w.beside(ctx); err != nil {
		return nil, err
	}
	if w.phone, err = newPhone(); err != nil {
		return nil, err
	}
	w.undo = append(w.undo, w.phone.close)
	if w.store = o.Store; o.Delay > 0 {
		n, at, err := newNetwork(o.Store, o.Delay)
		if err != nil {
			return nil, err
		}
		w.undo = append(w.undo, n.close)
		w.store = at
	}
	fleet := rand.Text() + rand.Text()
	for i := range o.Gates {
		listen, store := "127.0.0.1:0", fmt.Sprintf("store: %q\n", "sqlite:"+filepath.Join(dir, "countersign.db"))
		if w.store != "" {
			if listen, err = free(); err != nil {
				return nil, err
			}
			store = fmt.Sprintf("store: %q\nreplicas: {secret: %q, address: %q}\n", w.store, fleet, "http://"+listen)
		}
		path := filepath.Join(dir, fmt.Sprintf("countersign%d.yaml", i))
		if err := os.WriteFile(path, []byte(w.configuration(listen, store)), 0o600); err != nil {
			return nil, err
		}
		gate, err := startProcess(ctx, []string{o.Program, "serve", "--config", path, "--log-format", "json"}, serving)
		if err != nil {
			return nil, err
		}
		w.undo = append(w.undo, gate.stop)
		w.urls, w.pids = append(w.urls, gate.url()), append(w.pids, gate.cmd.Process.Pid)
		w.phone.chat.SetWebhooks(gate.url()+"/webhook/line", "") // the last one's: agents wait at the first
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(settle):
	}
	w.idle = resident(w.pids[0])
	return w, nil
}

// free is an address that nobody listens at.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// serving finds the address in the gate's log.
func serving(line []byte) string {
	var entry struct {
		Message string `json:"msg"`
		Address string `json:"address"`
	}
	if json.Unmarshal(line, &entry) != nil || entry.Message != "serving" {
		return ""
	}
	return entry.Address
}

// configuration is a gate's: no limits, rules that do not match, and a person with a phone beside one without.
func (w *world) configuration(listen, store string) string {
	var b, agents strings.Builder
	for i, token := range w.agents {
		fmt.Fprintf(&agents, "  - {name: bench%d, token: %q, group: call, cards_at_once: 0}\n", i, token.Reveal())
	}
	line := w.phone.chat.Config().LINE
	fmt.Fprintf(&b, `listen: %s
%slimits: none
agents:
%speople:
  - {name: %s, roles: [approver], line: %s}
  - {name: kai, roles: [approver, admin], token: %q}
channels:
  line: {channel_secret: %q, channel_access_token: %q, notify: [%s], api_url: %q}
mcp:
  servers: [{name: up, url: %q, prefix: ""}]
policy:
  rules:
`, listen, store, agents.String(), personName, personLINE, w.person.Reveal(),
		line.ChannelSecret, line.ChannelAccessToken, personName, w.phone.chat.LINE.URL(), w.echo.url()+mcpPath)
	for i := range rules {
		fmt.Fprintf(&b, "    - {tools: ['svc%d.delete_*', 'up/team%d.refund_*'], risk: high}\n", i, i)
	}
	fmt.Fprintf(&b, `    - {tools: [%s, up/%s], risk: low, action: allow}
    - {tools: [%s], risk: high, approvers: [kai]}
    - {tools: [%s], risk: high}
`, allowedTool, echoTool, quietTool, pushedTool)
	return b.String()
}

// Given is a gate that runs already. Of it only what is named is asked.
type Given struct {
	URL    string
	Agent  secret.Value // whose calls they are
	Person secret.Value // who approves; "": nothing is decided

	AskTool   string // one that a person is asked about: each call of it is a request, and a card to people
	AllowTool string // one that is allowed
	MCPTool   string // one that is allowed over MCP
	MCPArgs   string // its arguments, an object; "": {}
}

// newGiven is the world of a gate that runs already.
func newGiven(ctx context.Context, g Given) (_ *world, err error) {
	w := &world{urls: []string{strings.TrimSuffix(g.URL, "/")}, agents: []secret.Value{g.Agent}, person: g.Person,
		askTool: g.AskTool, allowTool: g.AllowTool}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if g.MCPTool != "" {
		args := g.MCPArgs
		if args == "" {
			args = "{}"
		}
		if w.mcpCall, err = toolCall(g.MCPTool, args); err != nil {
			return nil, fmt.Errorf("the arguments of %s: %w", g.MCPTool, err)
		}
	}
	if err := w.beside(ctx); err != nil {
		return nil, err
	}
	c := newCaller(w.urls[:1], "", 1)
	defer c.close()
	if _, err := c.send(ctx, http.MethodGet, "/readyz", "", http.StatusOK); err != nil {
		return nil, err
	}
	return w, nil
}
