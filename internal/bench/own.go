package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
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

// own starts a gate with a store in dir, and all that is around it.
func own(ctx context.Context, program, dir string) (_ *world, err error) {
	w := &world{agent: secret.Value(rand.Text()), person: secret.Value(rand.Text()), askTool: quietTool,
		allowTool: allowedTool, mcpHolds: lorem}
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
	path := filepath.Join(dir, "countersign.yaml")
	if err := os.WriteFile(path, []byte(w.configuration(dir)), 0o600); err != nil {
		return nil, err
	}
	gate, err := startProcess(ctx, []string{program, "serve", "--config", path, "--log-format", "json"}, serving)
	if err != nil {
		return nil, err
	}
	w.undo = append(w.undo, gate.stop)
	w.url, w.pid = gate.url(), gate.cmd.Process.Pid
	w.phone.chat.SetWebhooks(w.url+"/webhook/line", "")
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(settle):
	}
	w.idle = resident(w.pid)
	return w, nil
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

// configuration is the gate's: no limits, rules that do not match, and a person with a phone beside one without.
func (w *world) configuration(dir string) string {
	var b strings.Builder
	line := w.phone.chat.Config().LINE
	fmt.Fprintf(&b, `listen: 127.0.0.1:0
store: %q
limits: none
agents: [{name: bench, token: %q, group: call, cards_at_once: 0}]
people:
  - {name: %s, roles: [approver], line: %s}
  - {name: kai, roles: [approver, admin], token: %q}
channels:
  line: {channel_secret: %q, channel_access_token: %q, notify: [%s], api_url: %q}
mcp:
  servers: [{name: up, url: %q, prefix: ""}]
policy:
  rules:
`, "sqlite:"+filepath.Join(dir, "countersign.db"), w.agent.Reveal(), personName, personLINE, w.person.Reveal(),
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
	w := &world{url: strings.TrimSuffix(g.URL, "/"), agent: g.Agent, person: g.Person, askTool: g.AskTool,
		allowTool: g.AllowTool}
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
	c := newCaller(w.url, "", 1)
	defer c.close()
	if _, err := c.send(ctx, http.MethodGet, "/readyz", "", http.StatusOK); err != nil {
		return nil, err
	}
	return w, nil
}
