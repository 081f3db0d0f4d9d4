//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/internal/testkit"
)

// bearer adds the agent's token.
type bearer struct{}

func (bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+agentToken)
	return http.DefaultTransport.RoundTrip(r)
}

// texts are the words of a result.
func texts(res *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range res.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			b.WriteString(text.Text + "\n")
		}
	}
	return b.String()
}

// TestServersThatAsk is a scripted client, with and without what a server asks of it. A call of a tool that asks
// ends well either way, and who said that they cannot be asked is not.
func TestServersThatAsk(t *testing.T) {
	t.Parallel()
	g := serve(t, `policy:
  rules: [{tools: ["*"], risk: low, action: allow}]
mcp:
  servers:
    - {name: all, command: `+flow(everything(t))+`}
    - {name: ref, url: "`+reference(t, false)+`", prefix: ""}
`)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		for _, tt := range []struct {
			name, tool    string
			args          map[string]any
			with, without string
		}{
			{"elicitation by stdio", "all__trigger-elicitation-request", map[string]any{}, "Name: Ada", "User cancelled"},
			{"sampling by stdio", "all__trigger-sampling-request", map[string]any{"prompt": "a word", "maxTokens": 5},
				"a sampled word", "did not answer"},
			{"elicitation by HTTP", "test_elicitation", map[string]any{"message": "Who?"}, "Ada", "not support|action=cancel"},
			{"sampling by HTTP", "test_sampling", map[string]any{"prompt": "a word"}, "a sampled word", "did not answer"},
		} {
			t.Run(version+"/"+tt.name, func(t *testing.T) {
				var asked atomic.Int32
				able := &mcp.ClientOptions{
					ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
						asked.Add(1)
						return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada", "username": "Ada",
							"email": "ada@example.com"}}, nil
					},
					CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
						asked.Add(1)
						return &mcp.CreateMessageResult{Model: "scripted", Role: "assistant",
							Content: &mcp.TextContent{Text: "a sampled word"}}, nil
					},
				}
				for _, side := range []struct {
					opts  *mcp.ClientOptions
					want  string
					asked int32
				}{{able, tt.with, 1}, {nil, tt.without, 0}} {
					asked.Store(0)
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					s, err := mcp.NewClient(&mcp.Implementation{Name: "scripted", Version: "1"}, side.opts).Connect(ctx,
						&mcp.StreamableClientTransport{Endpoint: g.url + "/mcp", HTTPClient: &http.Client{Transport: bearer{}}},
						&mcp.ClientSessionOptions{ProtocolVersion: version})
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close()
					got := ""
					res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tt.tool, Arguments: tt.args})
					if err != nil {
						got = err.Error()
					} else {
						got = texts(res)
					}
					if !regexp.MustCompile(side.want).MatchString(got) || asked.Load() != side.asked {
						t.Errorf("able %t: got %q after %d questions, want %q after %d", side.opts != nil, got, asked.Load(), side.want,
							side.asked)
					}
				}
			})
		}
	}
}

// raw is a client that sends the bytes that it is given.
type raw func(t *testing.T, args string) (answer string)

// overHTTP is one of a gateway's, of the legacy or the modern era.
func overHTTP(url, era string) raw {
	modern := era == "modern"
	session := ""
	post := func(t *testing.T, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Authorization": {"Bearer " + agentToken}}
		if modern {
			r.Header.Set("MCP-Protocol-Version", "2026-07-28")
			r.Header.Set("Mcp-Method", "tools/call")
			r.Header.Set("Mcp-Name", "record")
		} else if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if id := res.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return func(t *testing.T, args string) string {
		t.Helper()
		if modern {
			return post(t, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"record","arguments":`+args+
				`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
		}
		if session == "" {
			post(t, hello)
			post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		}
		return post(t, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"record","arguments":`+args+`}}`)
	}
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`

// overStdio is one of a wrapper, which asks at the gate.
func overStdio(t *testing.T, g *gate, command, env []string) raw {
	cmd := testkit.Command(t, program, append([]string{"mcp", "--name", "up", "--hold", "0", "--"}, command...)...)
	cmd.Env = append(append(g.env, "COUNTERSIGN_SERVER="+g.url, "COUNTERSIGN_TOKEN="+agentToken), env...)
	var errout bytes.Buffer
	cmd.Stderr = &errout
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("the wrapper ended with %v: %s", err, &errout)
		}
	})
	lines := bufio.NewReader(out)
	say := func(t *testing.T, line string) string {
		t.Helper()
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
		for {
			got, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(got, `"id":`) {
				return got
			}
		}
	}
	say(t, hello)
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, args string) string {
		t.Helper()
		return say(t, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"record","arguments":`+args+`}}`)
	}
}

// TestRawArguments shows that arguments reach a server with the bytes that the client sent, or not at all.
func TestRawArguments(t *testing.T) {
	t.Parallel()
	const config = `policy:
  rules:
    - {tools: ["up/record"], when: 'has(args.ask)', risk: high}
    - {tools: ["up/record"], risk: low, action: allow}
`
	for _, way := range []string{"HTTP legacy", "HTTP modern", "stdio"} {
		t.Run(way, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "record")
			command, env := fake("recorder")
			var g *gate
			var call raw
			if way == "stdio" {
				g = serve(t, config)
				call = overStdio(t, g, command, []string{strings.Replace(env, ": ", "=", 1), recordEnv + "=" + file})
			} else {
				g = serve(t, config+`mcp:
  hold: 0
  servers: [{name: up, command: `+flow(command)+`, env: {`+env+`, `+recordEnv+`: `+file+`}, prefix: ""}]
`)
				call = overHTTP(g.url+"/mcp", strings.TrimPrefix(way, "HTTP "))
			}
			recorded := func() (lines []string) {
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				return strings.SplitAfter(string(b), "\n")[:strings.Count(string(b), "\n")]
			}

			for i, args := range []string{
				`{"n":9007199254740993}`,
				`{"n":12345678901234567890123,"f":1.10,"e":1E2,"z":-0.0}`,
				`{"s":"\u0041\/\u00e9é","deep":{"a":[1.0,{"b":18446744073709551615}]}}`,
				`{ "b" : 1 ,	"a":  [ ] }`,
			} {
				got := call(t, args)
				if !strings.Contains(got, `"structuredContent":{"big":9007199254740993,"small":1.10}`) {
					t.Errorf("%s: got %s, want the server's result, byte for byte", args, got)
				}
				if lines := recorded(); len(lines) != i+1 || !strings.Contains(lines[i], `"arguments":`+args) {
					t.Errorf("the server got %q, want %s unchanged", lines, args)
				}
			}
			before := len(recorded())
			for _, args := range []string{
				`{"n":1,"n":2}`,
				`{"a":{"n":1,"\u006e":2}}`,
				"{\"s\":\"\xff\"}",
				`[1]`,
			} {
				got := call(t, args)
				if lines := recorded(); len(lines) != before {
					t.Errorf("%q reached the server: %q", args, lines[before:])
					before = len(lines)
				}
				if strings.Contains(got, "recorded") || !strings.Contains(got, `"error"`) {
					t.Errorf("%q: got %s, want an error", args, got)
				}
			}

			// What was approved is what is sent: members in order, strings in their shortest form, and each number as
			// it was written.
			const args, canonical = `{"ask":9007199254740993 ,	"f":1.10,"e":1E2,"s":"\u0041\/"}`,
				`{"ask":9007199254740993,"e":1E2,"f":1.10,"s":"A/"}`
			id := pendingID(t, ended{out: call(t, args)})
			if lines := recorded(); len(lines) != before {
				t.Fatalf("a pending call reached the server: %q", lines[before:])
			}
			if shown := g.hana(t, "show", id, "--json"); !strings.Contains(shown, "9007199254740993") || !strings.Contains(shown,
				"1.10") {
				t.Errorf("hana is shown %s, want the numbers as they were sent", shown)
			}
			g.hana(t, "approve", id)
			if got := call(t, args); !strings.Contains(got, "recorded") {
				t.Errorf("approved: got %s", got)
			}
			lines := recorded()
			if len(lines) != before+1 || !strings.Contains(lines[before], `"arguments":`+canonical) {
				t.Errorf("the server got %q, want %s once", lines[before:], canonical)
			}
		})
	}
}

// TestOneMalformedToolAndTheOfficialClients has the official TypeScript clients, which refuse a whole list for one tool
// that is not as they have it, list tools through a gate whose server offers each of the malformed shapes in turn.
func TestOneMalformedToolAndTheOfficialClients(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../mcp/gateway/testdata/shapes.json")
	if err != nil {
		t.Fatal(err)
	}
	type shape struct {
		Name   string `json:"name"`
		Server string `json:"server"`
		Said   string `json:"said"`
		Want   string `json:"want"`
	}
	var all []shape
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("testdata/list.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era+" server", func(t *testing.T) {
			dir, offered := t.TempDir(), map[string]bool{}
			list := filepath.Join(dir, "list")
			var some []shape
			for _, s := range all {
				if s.Server == era || s.Server == "" && (era == "legacy" || !strings.Contains(s.Said, "outputSchema")) {
					some, offered[s.Name] = append(some, s), s.Want != ""
				}
			}
			b, err := json.Marshal(some)
			if err != nil {
				t.Fatal(err)
			}
			for name, content := range map[string][]byte{"shapes.json": b, "list": nil} {
				if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			command, env := fake("lister")
			if env += `, ` + listEnv + `: "` + list + `"`; era == "modern" {
				env += `, ` + modernEnv + `: "1"`
			}
			g := serve(t, `policy: {rules: [{tools: ["*"], risk: low, action: allow}]}
mcp:
  servers: [{name: up, command: `+flow(command)+`, env: {`+env+`}, prefix: ""}]
`)
			// Where its packages are found is where node is run.
			e := run(t, tools(t), environ(t), node(t), "--input-type=module", "--eval", string(program), "--", g.url+"/mcp",
				agentToken,
				filepath.Join(dir, "shapes.json"), list)
			var said []struct {
				Client, Shape, Error string
				Tools                []string
			}
			if err := json.Unmarshal([]byte(e.out), &said); err != nil || len(said) != 3*len(some) || len(some) < 20 {
				t.Fatalf("%d answers of 3 clients to %d shapes: %v, %s", len(said), len(some), err, e)
			}
			for _, s := range said {
				want := []string{"first", "last"}
				if offered[s.Shape] {
					want = []string{"first", "odd", "last"}
				}
				if got := slices.DeleteFunc(s.Tools, func(n string) bool {
					return strings.HasPrefix(n, "countersign__")
				}); s.Error != "" || !slices.Equal(got, want) {
					t.Errorf("%s, %s: listed %q, want %q; %s", s.Client, s.Shape, got, want, s.Error)
				}
			}
		})
	}
}
