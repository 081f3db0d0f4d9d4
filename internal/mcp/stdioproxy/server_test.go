package stdioproxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/internal/testkit"
)

// TestMain is also the MCP server that these tests wrap: its arguments say how it behaves.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "mcp-server" {
		serve(os.Args[2], os.Args[3:])
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // a server of a race build would take a second to end
	testkit.AtOnce(8)
	goleak.VerifyTestMain(m)
}

const (
	theTools = `{"name":"echo","description":"Says <it> & more","inputSchema":{"type":"object","properties":{"n":{"maximum":12345678901234567890}}},"annotations":{"readOnlyHint":true},"x-odd":1.10},` +
		`{"name":"die","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}},{"name":"ask","inputSchema":{"type":"object"}},` +
		`{"name":"sample","inputSchema":{"type":"object"}},{"name":"roots","inputSchema":{"type":"object"}},{"name":"change","inputSchema":{"type":"object"}},{"name":"pid","inputSchema":{"type":"object"}}`
	theInfo = `{"name":"fake-server","title":"A fake","version":"3.1"}`
	theHint = "Be kind to this server."
)

// server is an MCP server written from the documents, with the habits that its arguments name.
type server struct {
	mu     sync.Mutex
	log    string
	habits []string
	asked  map[string]chan json.RawMessage
	caps   string // what the client declared
	roots  chan string
}

func (s *server) has(habit string) bool { return slices.Contains(s.habits, habit) }

// note writes a line into the file by which the test sees what happens.
func (s *server) note(format string, args ...any) {
	f, err := os.OpenFile(s.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintf(f, format+"\n", args...)
		f.Close()
	}
}

func (s *server) write(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Println(line)
}

// request sends the client a request and returns its result, or its error.
func (s *server) request(id, method, params string) string {
	ch := make(chan json.RawMessage, 1)
	s.mu.Lock()
	s.asked[id] = ch
	s.mu.Unlock()
	s.write(`{"jsonrpc":"2.0","id":"` + id + `","method":"` + method + `","params":` + params + `}`)
	return string(<-ch) // real: its process ends with its input
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name         string          `json:"name"`
		Arguments    json.RawMessage `json:"arguments"`
		Capabilities json.RawMessage `json:"capabilities"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func serve(log string, habits []string) {
	s := &server{log: log, habits: habits, asked: map[string]chan json.RawMessage{}, roots: make(chan string, 1)}
	s.note("start %d", os.Getpid())
	s.note("environ COUNTERSIGN_TOKEN=%s SERVERS_OWN=%s", os.Getenv("COUNTERSIGN_TOKEN"), os.Getenv("SERVERS_OWN"))
	for _, h := range habits {
		if ms, ok := strings.CutPrefix(h, "slow="); ok {
			d, _ := time.ParseDuration(ms)
			time.Sleep(d) // real: a server that is slow to start, however slow the machine
		}
	}
	switch {
	case s.has("exits"):
		fmt.Fprintln(os.Stderr, "cannot find my database")
		os.Exit(3)
	case s.has("junk"):
		fmt.Println("Welcome to the server!\n\n{not json\n\x00\xff")
	case s.has("loud"):
		line := strings.Repeat("complaint ", 100)
		for range 5000 {
			fmt.Fprintln(os.Stderr, line)
		}
	}
	if s.has("child") { // which outlives whoever does not end it
		c := exec.Command(os.Args[0], "mcp-server", log, "deaf", "silent") // real: a server leaves it behind
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := c.Start(); err == nil {
			defer c.Wait()
		}
	}
	if s.has("deaf") {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		defer func() { select {} }()
	}
	if s.has("silent") {
		time.Sleep(time.Hour) // real: until it is killed
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			s.note("end %d", os.Getpid())
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		go s.take(m)
	}
}

func (s *server) take(m message) {
	modern := s.has("modern")
	more := ""
	if modern {
		more = `"resultType":"complete","ttlMs":0,"cacheScope":"private",`
	}
	answer := func(result string) { s.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`) }
	say := func(text string) {
		b, _ := json.Marshal(text)
		answer(`{` + more + `"content":[{"type":"text","text":` + string(b) + `}],"structuredContent":{"n":1.10}}`)
	}
	switch {
	case m.Method == "" && m.ID != nil:
		var id string
		_ = json.Unmarshal(m.ID, &id)
		s.mu.Lock()
		ch := s.asked[id]
		delete(s.asked, id)
		s.mu.Unlock()
		if ch != nil && m.Error != nil {
			ch <- m.Error
		} else if ch != nil {
			ch <- m.Result
		}
	case m.Method == "notifications/initialized":
		if strings.Contains(s.caps, "roots") { // as server-filesystem does
			s.roots <- s.request("roots-0", "roots/list", "{}")
		}
	case m.Method == "initialize" && !modern:
		s.caps = string(m.Params.Capabilities)
		s.note("initialize %s", s.caps)
		answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":` +
			theInfo + `,"instructions":"` + theHint + `"}`)
	case m.Method == "server/discover" && modern:
		answer(`{` + more + `"_meta":{"io.modelcontextprotocol/serverInfo":` + theInfo +
			`},"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"instructions":"` + theHint +
			`"}`)
	case m.Method == "tools/list":
		answer(`{` + more + `"tools":[` + theTools + `]}`)
	case m.Method == "logging/setLevel":
		s.note("level")
		answer("{}")
	case m.Method == "notifications/cancelled":
		s.note("cancelled")
	case m.Method == "tools/call":
		s.note("call %s %s", m.Params.Name, m.Params.Arguments)
		switch m.Params.Name {
		case "echo":
			say(string(m.Params.Arguments))
		case "pid":
			say(fmt.Sprint(os.Getpid()))
		case "die":
			os.Exit(7)
		case "hang":
			time.Sleep(time.Hour) // real: until it is killed
		case "change":
			s.write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			say("changed")
		case "ask":
			say(s.request("ask-1", "elicitation/create",
				`{"mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{"which":{"type":"string"}}}}`))
		case "sample":
			say(s.request("sample-1", "sampling/createMessage",
				`{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5}`))
		case "roots":
			say(<-s.roots) // real: its process ends with its input
		}
	case m.ID != nil && !strings.HasPrefix(m.Method, "notifications/"):
		s.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32601,"message":"Method not found"}}`)
	}
}
