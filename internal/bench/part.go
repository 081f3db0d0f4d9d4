package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// The servers that a gate is measured beside, each a process of its own.
const (
	partCommand = "part" // what makes this program into one of them

	PartEcho  = "echo"  // an MCP server whose tool answers with its argument, and a server of plain JSON
	PartFloor = "floor" // what any gateway before it has to do: decode, canonicalise, hash, look at 100 rules, forward
)

// Part is one of those servers. It says its address on a line of its own on out, and runs until ctx ends. upstream is
// the MCP server that the floor forwards to.
func Part(ctx context.Context, name, upstream string, out io.Writer) error {
	mux := http.NewServeMux()
	switch name {
	case PartEcho:
		mux.HandleFunc("POST "+mcpPath, echoMCP)
		mux.HandleFunc("POST "+jsonPath, echoJSON)
		mux.HandleFunc("GET "+barePath, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	case PartFloor:
		mux.Handle("POST "+mcpPath, newFloor(upstream))
	default:
		return fmt.Errorf("bench: there is no part %q", name)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

const (
	jsonPath = "/json"
	barePath = "/bare"
)

// most is how long a body may be.
const most = 1 << 20

// rpc is as much of a message as these servers read.
type rpc struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Version   string          `json:"protocolVersion"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"params"`
}

// echoMCP is an MCP server without sessions.
func echoMCP(w http.ResponseWriter, r *http.Request) {
	var m rpc
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, most)).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer := map[string]any{"jsonrpc": "2.0", "id": m.ID}
	switch m.Method {
	case "initialize":
		answer["result"] = map[string]any{"protocolVersion": m.Params.Version,
			"capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo":   map[string]string{"name": "echo", "version": "1"}}
	case "tools/list":
		answer["result"] = map[string]any{"tools": []any{map[string]any{"name": echoTool, "description": "Echo.",
			"inputSchema": map[string]any{"type": "object",
				"properties": map[string]any{"text": map[string]string{"type": "string"}}}}}}
	case "tools/call":
		var args struct {
			Text string `json:"text"`
		}
		_ = json.Unmarshal(m.Params.Arguments, &args)
		answer["result"] = map[string]any{"content": []any{map[string]string{"type": "text", "text": args.Text}}}
	case "ping":
		answer["result"] = struct{}{}
	default:
		answer["error"] = map[string]any{"code": -32601, "message": "Method not found"}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// echoTool is the only tool.
const echoTool = "echo"

// echoJSON decodes a call and encodes it: what an API of JSON costs that does nothing.
func echoJSON(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Tool    string         `json:"tool"`
		Session string         `json:"session_id"`
		Args    map[string]any `json:"args"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, most)).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(call)
}

// floor is a gateway that does what none can leave out, and records nothing.
type floor struct {
	upstream string
	out      *http.Transport
	rules    []*regexp.Regexp
}

func newFloor(upstream string) *floor {
	f := &floor{upstream: upstream, out: &http.Transport{Proxy: nil, MaxIdleConns: 256, MaxIdleConnsPerHost: 256,
		DisableCompression: true}}
	for i := range rules {
		f.rules = append(f.rules, regexp.MustCompile(fmt.Sprintf(`^(svc%d|team%d)\.(delete|drop|refund)_[a-z_]+$`, i, i)))
	}
	return f
}

// rules is how many rules that do not match the floor and the gate look at.
const rules = 100

// ServeHTTP forwards a message.
func (f *floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	if denied, err := f.judge(body); err != nil || denied {
		http.Error(w, "denied", http.StatusForbidden)
		return
	}
	q, err := http.NewRequestWithContext(r.Context(), r.Method, f.upstream, bytes.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	q.Header = r.Header.Clone()
	res, err := f.out.RoundTrip(q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer res.Body.Close()
	for k, v := range res.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(w, res.Body)
}

// judge reports whether a message is a call that a rule matches.
func (f *floor) judge(body []byte) (denied bool, err error) {
	var m rpc
	if err := json.Unmarshal(body, &m); err != nil {
		return false, err
	}
	if m.Method != "tools/call" {
		return false, nil
	}
	args := jsontext.Value(bytes.Clone(m.Params.Arguments))
	if err := args.Canonicalize(); err != nil {
		return false, err
	}
	_ = sha256.Sum256(args)
	for _, rule := range f.rules {
		if rule.MatchString(m.Params.Name) {
			return true, nil
		}
	}
	return false, nil
}
