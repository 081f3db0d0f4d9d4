package downstream

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"countersign/internal/mcp"
	"countersign/internal/testkit"
)

// wire is a client of [Stdio] that writes and reads lines.
type wire struct {
	*fake
	t    *testing.T
	in   *io.PipeWriter
	out  *bufio.Reader
	from *io.PipeReader
	logs *testkit.Buffer
	err  chan error
	done chan struct{}
	stop context.CancelFunc
}

func newWire(t *testing.T) *wire {
	t.Helper()
	in, toUs := io.Pipe()
	fromUs, out := io.Pipe()
	w := &wire{fake: newFake(), t: t, in: toUs, out: bufio.NewReader(fromUs), from: fromUs, logs: &testkit.Buffer{},
		err: make(chan error, 1), done: make(chan struct{})}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(t.Context())
	go func() {
		defer close(w.done)
		w.err <- Stdio(ctx, in, out, StdioOptions{Sessions: w.fake, Agent: "agent-1", Logger: w.logs.Logger()})
		in.Close()
		out.Close()
	}()
	t.Cleanup(func() {
		w.stop()
		w.in.Close()
		w.from.Close()
		testkit.Receive(t, "the end", w.done)
		w.check(t, w.logs)
	})
	return w
}

func (w *wire) say(lines ...string) {
	w.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(w.in, l+"\n"); err != nil {
			w.t.Fatal(err)
		}
	}
}

// hear reads one line, which must be a message.
func (w *wire) hear() string {
	w.t.Helper()
	l, err := w.out.ReadString('\n')
	if err != nil {
		w.t.Fatal(err)
	}
	if !json.Valid([]byte(l)) {
		w.t.Fatalf("not a message: %q", l)
	}
	return strings.TrimSuffix(l, "\n")
}

func (w *wire) end() error {
	w.in.Close()
	_, _ = io.Copy(io.Discard, w.out)
	return testkit.Receive(w.t, "the end", w.err)
}

func TestStdioRefuses(t *testing.T) {
	w := newWire(t)
	ping := func(more string) string { return `{"jsonrpc":"2.0","id":7,"method":"ping"` + more + `}` }
	for _, c := range []struct {
		name, line string
		code       int
		id         string
	}{
		{"no JSON", "{", -32700, "null"},
		{"text", "hello", -32700, "null"},
		{"a batch", "[" + ping("") + "]", -32600, "null"},
		{"two ids", ping(`,"id":8`), -32600, "null"},
		{"too long", `{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"` + strings.Repeat("x", maxLine) + `"}}`, -32600,
			"null"},
		{"neither era", ping(""), -32602, "7"},
		{"params twice", ping(`,"params":{"a":1,"a":2}`), -32602, "7"},
		{"_meta in capitals too", ping(`,"params":{"_META":{},` + modernMeta + `}`), -32602, "7"},
		{"no capabilities", ping(`,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`), -32602,
			"7"},
		{"another version", ping(`,"params":{` + strings.Replace(modernMeta, "2026", "2199", 1) + `}`), -32022, "7"},
		{"initialize, modern", strings.Replace(call(7, "echo", ","+modernMeta), "tools/call", "initialize", 1), -32601, "7"},
		{"initialize that fails", `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"refused"}}`,
			-32602, "7"},
		{"neither era still", ping(""), -32602, "7"},
		{"modern, no such method", strings.Replace(call(7, "echo", ","+modernMeta), "tools/call", "unknown", 1), -32601, "7"},
		{"modern, no answer", call(7, "nothing", ","+modernMeta), -32603, "7"},
		{"modern, a panic", call(7, "panic", ","+modernMeta), -32603, "7"},
		{"initialize", initialize, 0, "0"},
		{"initialize again", initialize, -32600, "0"},
		{"legacy", ping(""), 0, "7"},
		{"modern beside it", call(7, "echo", ","+modernMeta), 0, "7"},
	} {
		w.say("", " \r", c.line+"\r")
		got := w.hear()
		if code, id, _ := errorOf(got); code != c.code || id != c.id {
			t.Errorf("%s: got %d of %s, want %d of %s\n%s", c.name, code, id, c.code, c.id, got)
		}
	}
	w.say(`{"jsonrpc":"2.0","id":99,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/panic"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}`)
	w.say(ping(""))
	w.hear()
	if err := w.end(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestStdioTriesModernAndFallsBack(t *testing.T) {
	w := newWire(t)
	w.say(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + modernMeta + `}}`)
	w.hear()
	w.say(initialize)
	w.hear()
	w.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, call(2, "push", ""))
	var got []string
	for range 3 {
		got = append(got, w.hear())
	}
	if all := strings.Join(got, "\n"); !strings.Contains(all, "notifications/tools/list_changed") || !strings.Contains(all,
		`"level"`) || !strings.Contains(all, "pushed") {
		t.Errorf("got %s", all)
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	if got := w.notified; len(got) != 1 {
		t.Errorf("notified %v", got)
	}
	for i, want := range []mcp.Era{mcp.Modern, mcp.Legacy} {
		if c := w.opened[i]; c.Era != want || !c.Local || c.Agent != "agent-1" {
			t.Errorf("session %d is %+v", i, c)
		}
	}
}

func TestStdioRunsRequestsSideBySide(t *testing.T) {
	w := newWire(t)
	const n = maxInflight
	for i := range n {
		w.say(call(i, "hold", ","+modernMeta))
		testkit.Receive(t, "a held call", w.holding)
	}
	w.say(call(5, "echo", ","+modernMeta), call(n, "echo", ","+modernMeta))
	refused := w.hear() + w.hear()
	for _, want := range []string{`"id":5,"error":{"code":-32600,`, fmt.Sprintf(`"id":%d,"error":{"code":-31003,`, n)} {
		if !strings.Contains(refused, want) {
			t.Errorf("got %s, want %s", refused, want)
		}
	}
	close(w.released)
	seen := map[string]bool{}
	for range n {
		var m struct{ ID json.RawMessage }
		if err := json.Unmarshal([]byte(w.hear()), &m); err != nil {
			t.Fatal(err)
		}
		seen[string(m.ID)] = true
	}
	if len(seen) != n {
		t.Errorf("%d answers, want %d", len(seen), n)
	}
}

func TestStdioDropsWhatWasGivenUp(t *testing.T) {
	w := newWire(t)
	w.say(call(5, "hold", ","+modernMeta), call(6, "hold", ","+modernMeta))
	testkit.Receive(t, "a held call", w.holding)
	testkit.Receive(t, "a held call", w.holding)
	w.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	if err := testkit.Receive(t, "a call given up", w.gaveUp); err != ErrCancelled {
		t.Errorf("given up because %v", err)
	}
	w.say(call(7, "echo", ","+modernMeta))
	if got := w.hear(); !strings.Contains(got, `"id":7,`) {
		t.Errorf("got %s", got)
	}
	close(w.released)
	if got := w.hear(); !strings.Contains(got, `"id":6,`) {
		t.Errorf("got %s", got)
	}
}

func TestStdioAsks(t *testing.T) {
	w := newWire(t)
	w.say(initialize)
	w.hear()
	ask := func(id int) string {
		w.say(call(id, "ask", ""))
		var m struct{ ID json.RawMessage }
		if err := json.Unmarshal([]byte(w.hear()), &m); err != nil {
			t.Fatal(err)
		}
		return string(m.ID)
	}
	id := ask(1)
	w.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"accept"}}`)
	if got := w.hear(); !strings.Contains(got, "answered: accept") {
		t.Errorf("got %s", got)
	}
	id = ask(2)
	w.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	if got, want := w.hear(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+
		`}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	w.say(call(3, "ask", ","+modernMeta))
	if got := w.hear(); !strings.Contains(got, errCannotAsk.Error()) {
		t.Errorf("modern: got %s", got)
	}
}

func TestStdioWritesLines(t *testing.T) {
	w := newWire(t)
	w.say(call(1, "pretty", ","+modernMeta))
	if got, want := w.hear(), `{"jsonrpc":"2.0","id":1,"result":{   "content": [  ] }}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	const n = 16
	for i := range n {
		w.say(call(i, "large", ","+modernMeta))
	}
	for range n {
		if got := w.hear(); len(got) < 1<<20 {
			t.Errorf("got %d bytes", len(got))
		}
	}
}

// A client that reads nothing blocks the pipe; its other end must not block with it.
func TestStdioCancelsForAClientThatDoesNotRead(t *testing.T) {
	w := newWire(t)
	w.say(initialize)
	w.hear()
	for i := range 200 { // far more than fits between us
		w.say(call(i, "as large as a buffer", ""), "garbage")
	}
	w.say(call(1000, "hold", ""))
	testkit.Receive(t, "a held call", w.holding)
	for range maxQueuedNotifications {
		w.sessions()[0].Push(mcp.Notification("notifications/message", nil))
	}
	w.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1000}}`)
	testkit.Receive(t, "a call given up", w.gaveUp)
	w.in.Close()
	w.from.Close()
	if err := testkit.Receive(t, "the end", w.err); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("it ended with %v", err)
	}
}

func TestStdioEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(w *wire)
		want error
	}{
		"with its client": {func(w *wire) { w.in.Close() }, nil},
		"with a fault":    {func(w *wire) { w.in.CloseWithError(io.ErrUnexpectedEOF) }, io.ErrUnexpectedEOF},
		"when told to":    {func(w *wire) { w.stop() }, context.Canceled},
		"with its reader": {func(w *wire) { w.from.Close(); w.say("garbage") }, io.ErrClosedPipe},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			w.say(call(1, "hold", ","+modernMeta), initialize)
			w.hear()
			testkit.Receive(t, "a held call", w.holding)
			c.end(w)
			testkit.Receive(t, "a call given up", w.gaveUp)
			go func() { _, _ = io.Copy(io.Discard, w.from) }()
			if err := testkit.Receive(t, "the end", w.err); !errors.Is(err, c.want) {
				t.Errorf("ended with %v, want %v", err, c.want)
			}
			w.check(t, w.logs)
		})
	}
}

func TestStdioTakesALastLineWithoutItsEnd(t *testing.T) {
	w := newWire(t)
	go func() {
		_, _ = io.WriteString(w.in, call(1, "echo", ","+modernMeta))
		w.in.Close()
	}()
	if got := w.hear(); !strings.Contains(got, "agent-1") {
		t.Errorf("got %s", got)
	}
}

func TestAllThatWasSaidIsWritten(t *testing.T) {
	for range 50 {
		p := &stdioConn{out: make(chan []byte, 64), finished: make(chan struct{}), written: make(chan struct{})}
		want := ""
		for i := range 64 {
			l := fmt.Sprintf("%d\n", i)
			p.out <- []byte(l)
			want += l
		}
		close(p.finished)
		var got strings.Builder
		p.write(&got)
		if got.String() != want {
			t.Fatalf("got %q", got.String())
		}
	}
}
