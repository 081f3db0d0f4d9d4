package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
	"countersign/internal/testkit"
)

// try calls the fake's tool and holds the answer to the request.
func try(t *testing.T, c Conn) {
	t.Helper()
	r := toolCall(c, "x", `{}`)
	m, err := c.Do(testContext(t), r)
	if want := `{"n":` + string(r.ID) + `}`; err != nil || string(m.Result) != want {
		t.Errorf("got %s, %v, want the result %s", m.Bytes(), err, want)
	}
}

func TestStdioServersThatAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fake string
		era  mcp.Era
	}{
		{"plain", mcp.Legacy},
		{"junk", mcp.Legacy},
		{"dies of discover", mcp.Legacy},
		{"says no to discover and dies", mcp.Legacy},
		{"silent on discover", mcp.Legacy},
		{"answers discover late", mcp.Legacy},
		{"discovers another version", mcp.Legacy},
		{"modern", mcp.Modern},
		{"modern and slow", mcp.Modern},
		{"answers twice", mcp.Legacy},
	} {
		t.Run(c.fake, func(t *testing.T) {
			t.Parallel()
			conn := mustDial(t, fake(c.fake), Peer{})
			if got := conn.Hello().Era; got != c.era {
				t.Errorf("the era is %v, want %v", got, c.era)
			}
			try(t, conn)
			try(t, conn)
			if err := conn.Err(); err != nil {
				t.Errorf("the connection ended: %v", err)
			}
		})
	}
}

func TestStdioServersThatDoNotStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		cfg  Config
		says []string
	}{
		{"not there", Config{Command: []string{"countersign-no-such-program"}},
			[]string{"does not start: the program countersign-no-such-program is not found"}},
		{"no such file", Config{Command: []string{"/nonexistent/program"}},
			[]string{"does not start: the program /nonexistent/program is not found"}},
		{"no program", Config{Command: []string{"/etc/passwd"}},
			[]string{"does not start: the program /etc/passwd may not be run by this user"}},
		{"no folder", func() Config { c := fake("plain"); c.Dir = "/nonexistent/folder"; return c }(),
			[]string{"does not start: its folder /nonexistent/folder is not found"}},
		{"dies at once", fake("dies at once"), []string{"ended", "exit status 3", "complaint 199"}},
		{"silent", func() Config { c := fake("silent"); c.StartTimeout = 1500 * time.Millisecond; return c }(),
			[]string{"in time"}},
		{"of the future", fake("of the future"), []string{`"2099-01-01"`}},
		{"neither", Config{}, []string{"a command or a URL"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Dial(testContext(t), c.cfg, Peer{})
			if err == nil {
				t.Fatal("it is connected")
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %q, want %q in it", err, want)
				}
			}
			for _, raw := range []string{"fork/exec", "chdir", "context ", "no such file"} {
				if strings.Contains(err.Error(), raw) {
					t.Errorf("the error is %q, want it in plain words", err)
				}
			}
			if len(err.Error()) > maxStderrTail+256 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestErrorsOfContextsAreInPlainWords(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		context.Canceled:         "it was given up before the server answered",
		context.DeadlineExceeded: "the server did not answer in time",
	} {
		if e := notSent(err); e.Error() != want || !errors.Is(e, err) {
			t.Errorf("got %q, want %q", e, want)
		}
	}
}

func TestARequestInFlightWhenTheServerEndsMayHaveRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ fake, says string }{
		{"dies in a call", "exit status 7"},
		{"breaks off", "ended"},
		{"closes its output in a call", "closed its output"},
		{"huge", "32 MiB"},
	} {
		t.Run(c.fake, func(t *testing.T) {
			t.Parallel()
			conn := mustDial(t, fake(c.fake), Peer{})
			_, err := conn.Do(testContext(t), toolCall(conn, "x", `{}`))
			if err == nil || !Sent(err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v (sent %v), want %q and that it was sent", err, Sent(err), c.says)
			}
			testkit.Receive(t, "the end of the connection", conn.Done())
			if conn.Err() == nil {
				t.Error("the connection does not say why it ended")
			}
			if _, err = conn.Do(testContext(t), toolCall(conn, "x", `{}`)); err == nil || Sent(err) {
				t.Errorf("a request after the end got %v, want one that was not sent", err)
			}
			if err = conn.Notify(testContext(t), "notifications/x", nil); err == nil || Sent(err) {
				t.Errorf("a notification after the end got %v, want one that was not sent", err)
			}
		})
	}
}

func TestAnAnswerThatCannotBeReadEndsItsRequestOnly(t *testing.T) {
	t.Parallel()
	conn := mustDial(t, fake("answers what is no JSON"), Peer{})
	for range 2 {
		_, err := conn.Do(testContext(t), toolCall(conn, "x", `{}`))
		if err == nil || !Sent(err) || !strings.Contains(err.Error(), "cannot be used") {
			t.Errorf("got %v, want that the answer is not taken", err)
		}
	}
}

func TestLongAndUnfinishedLinesAreTaken(t *testing.T) {
	t.Parallel()
	conn := mustDial(t, fake("large"), Peer{})
	m, err := conn.Do(testContext(t), toolCall(conn, "x", `{}`))
	if err != nil || len(m.Result) < maxMessage-200 {
		t.Errorf("got %d bytes, %v, want a result of nearly the limit", len(m.Result), err)
	}
	try(t, mustDial(t, fake("forgets the last line break"), Peer{}))
}

func TestTheFirstJunkIsAWarning(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	levels := map[slog.Level]int{}
	cfg := fake("junk")
	cfg.Logger = slog.New(handler(func(r slog.Record) {
		if strings.Contains(r.Message, "no message") {
			mu.Lock()
			levels[r.Level]++
			mu.Unlock()
		}
	}))
	try(t, mustDial(t, cfg, Peer{}))
	mu.Lock()
	defer mu.Unlock()
	if levels[slog.LevelWarn] != 1 || levels[slog.LevelDebug] != 3 {
		t.Errorf("junk was logged %v, want one warning and three at debug", levels)
	}
}

type handler func(slog.Record)

func (h handler) Enabled(context.Context, slog.Level) bool      { return true }
func (h handler) Handle(_ context.Context, r slog.Record) error { h(r); return nil }
func (h handler) WithAttrs([]slog.Attr) slog.Handler            { return h }
func (h handler) WithGroup(string) slog.Handler                 { return h }

func TestNotificationsGoWhereTheyBelongAndNeverAfterTheAnswer(t *testing.T) {
	t.Parallel()
	others := make(chan string, 10)
	conn := mustDial(t, fake("chatters"), Peer{Notification: func(m mcp.Message) { others <- m.Method }})
	var got []string
	r := toolCall(conn, "x", `{}`)
	r.OnNotification = func(m mcp.Message) {
		o, _ := mcp.ReadObject(m.Params)
		got = append(got, string(o.Get("progress")))
	}
	if _, err := conn.Do(testContext(t), r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"notifications/message", "notifications/tools/list_changed"} {
		if other := testkit.Receive(t, "a notification", others); other != want {
			t.Errorf("the peer got %s, want %s", other, want)
		}
	}
	if want := []string{"0", "1", "2"}; !slices.Equal(got, want) {
		t.Errorf("the request got progress %v, want %v", got, want)
	}
}

func TestAStdioServerIsToldOfCancelledAndItsLateAnswerIsDropped(t *testing.T) {
	t.Parallel()
	told := make(chan mcp.Message, 1)
	conn := mustDial(t, fake("tells of cancelled"), Peer{Notification: func(m mcp.Message) { told <- m }})
	ctx, cancel := context.WithCancel(testContext(t))
	r := toolCall(conn, "x", `{}`)
	r.OnNotification = func(mcp.Message) { cancel() }
	m, err := conn.Do(ctx, r)
	if !errors.Is(err, context.Canceled) || !Sent(err) {
		t.Errorf("got %s, %v, want that it is cancelled and was sent", m.Bytes(), err)
	}
	o, _ := mcp.ReadObject(testkit.Receive(t, "what the server was told", told).Params)
	if string(o.Get("requestId")) != string(r.ID) {
		t.Errorf("the server was told that %s is cancelled, want %s", o.Get("requestId"), r.ID)
	}
	if _, err = conn.Do(ctx, toolCall(conn, "x", `{}`)); err == nil || Sent(err) {
		t.Errorf("a request whose context is over got %v, want one that was not sent", err)
	}
}

func TestWhatWaitsForAServerThatDoesNotReadWasNotSent(t *testing.T) {
	t.Parallel()
	conn := mustDial(t, fake("stops reading"), Peer{})
	try(t, conn)
	ctx, cancel := context.WithCancel(testContext(t))
	large := `{"x":"` + strings.Repeat("x", 1<<20) + `"}`
	var wg sync.WaitGroup
	errs := make([]error, 2)
	wg.Go(func() { _, errs[0] = conn.Do(ctx, toolCall(conn, "x", large)) })
	// The first fills the pipe; when it is being written the second can only wait.
	s := conn.(*stdioConn)
	testkit.Eventually(t, "the first is being written", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.inflight) == 1 && s.queue.count == 0
	})
	wg.Go(func() { _, errs[1] = conn.Do(ctx, toolCall(conn, "x", `{}`)) })
	testkit.Eventually(t, "the second waits", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.queue.count == 1 })
	cancel()
	testkit.Wait(t, "both calls", wg.Wait)
	if !Sent(errs[0]) || Sent(errs[1]) {
		t.Errorf("got %v (sent %v) and %v (sent %v), want only the first sent", errs[0], Sent(errs[0]), errs[1],
			Sent(errs[1]))
	}
}

func TestWhatAServerCannotReadAnyMoreWasNotSent(t *testing.T) {
	t.Parallel()
	conn := mustDial(t, fake("closes its input"), Peer{})
	try(t, conn)
	_, err := conn.Do(testContext(t), toolCall(conn, "x", `{}`))
	if err == nil || Sent(err) || !strings.Contains(err.Error(), "no longer reads") {
		t.Errorf("got %v (sent %v), want one that was not sent", err, Sent(err))
	}
}

func TestWhatAServerHasReadAPartOfWasSent(t *testing.T) {
	t.Parallel()
	conn := mustDial(t, fake("stops in the middle"), Peer{})
	try(t, conn)
	_, err := conn.Do(testContext(t), toolCall(conn, "x", `{"x":"`+strings.Repeat("x", 1<<20)+`"}`))
	if err == nil || !Sent(err) {
		t.Errorf("got %v (sent %v), want one that was sent", err, Sent(err))
	}
}

// stuck is a connection to a server that has stopped reading, with a request of from half written to it.
func stuck(t *testing.T, from string) (*stdioConn, *sync.WaitGroup) {
	t.Helper()
	conn := mustDial(t, fake("stops reading"), Peer{})
	try(t, conn)
	s := conn.(*stdioConn)
	wg := inFlight(t, s, from, 1<<20)
	testkit.Eventually(t, "it is being written", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.queue.count == 0
	})
	return s, wg
}

// inFlight has a request of from wait for the server until the test ends; it must not fail before.
func inFlight(t *testing.T, s *stdioConn, from string, size int) *sync.WaitGroup {
	t.Helper()
	s.mu.Lock()
	before := len(s.inflight)
	s.mu.Unlock()
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	r := toolCall(s, "x", `{"x":"`+strings.Repeat("x", size)+`"}`)
	r.Sender = from
	wg.Go(func() {
		if _, err := s.Do(ctx, r); !errors.Is(err, context.Canceled) {
			t.Errorf("a request of %s in flight ended with %v", from, err)
		}
	})
	t.Cleanup(func() { cancel(); testkit.Wait(t, "what is in flight", wg.Wait) })
	testkit.Eventually(t, "it is in flight", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.inflight) != before
	})
	return &wg
}

func TestRule12_ACallThatDoesNotFitIsRefusedAndNoOtherIsLost(t *testing.T) {
	t.Parallel()
	s, _ := stuck(t, "quiet")
	const size = 4 << 20
	call := func(from string) error {
		r := toolCall(s, "x", `{"x":"`+strings.Repeat("x", size)+`"}`)
		r.Sender = from
		room, err := s.Reserve(from, len(r.Params))
		room.Release()
		return err
	}
	n := 0
	for ; call("greedy") == nil; n++ {
		if n > maxQueuedBytes/size {
			t.Fatalf("%d requests of 4 MiB wait", n)
		}
		inFlight(t, s, "greedy", size)
	}
	if n != 8 { // half of 64 MiB
		t.Errorf("one agent has %d requests of 4 MiB waiting, want 8", n)
	}
	r := toolCall(s, "x", `{"x":"`+strings.Repeat("x", size)+`"}`)
	r.Sender = "greedy"
	if _, err := s.Do(testContext(t), r); !errors.Is(err, ErrBusy) || Sent(err) {
		t.Errorf("one more: %v, want that it was not sent", err)
	}
	if err := call("other"); err != nil {
		t.Errorf("there is no room for another agent: %v", err)
	}
	if err := s.Err(); err != nil {
		t.Errorf("the connection ended: %v", err)
	}
}

func TestRule12_ARoomHoldsWhateverComesAfterIt(t *testing.T) {
	t.Parallel()
	s, _ := stuck(t, "quiet")
	room, err := s.Reserve("greedy", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, sender := range []string{"greedy", "other"} {
		for err = nil; err == nil; {
			_, err = s.Reserve(sender, 1<<20)
		}
	}
	ctx, cancel := context.WithCancel(testContext(t))
	r := toolCall(s, "x", `{"x":"`+strings.Repeat("x", 1<<20)+`"}`)
	r.Sender, r.Reservation = "greedy", room
	r.OnNotification = func(mcp.Message) {}
	done := make(chan error)
	go func() {
		_, err := s.Do(ctx, r)
		done <- err
	}()
	testkit.Eventually(t, "it is in flight", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.inflight) != 1 })
	cancel()
	if err := testkit.Receive(t, "the end of the request", done); !errors.Is(err, context.Canceled) || Sent(err) {
		t.Errorf("got %v (sent %v), want that it waited for the server", err, Sent(err))
	}
	room.Release() // it was taken
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue.control != nil {
		t.Error("the server is told that what it never saw is cancelled")
	}
}

func TestRule12_WhatTheGateSaysForItselfIsBoundedToo(t *testing.T) {
	t.Parallel()
	s, _ := stuck(t, "quiet")
	large := jsontext.Value(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)
	for range 20 {
		if err := s.Notify(testContext(t), "notifications/x", large); err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue.controlBytes > maxControlBytes || s.Err() != nil {
		t.Errorf("%d bytes wait, %v", s.queue.controlBytes, s.Err())
	}
}

func TestWhoAnswersWhatAStdioServerAsks(t *testing.T) {
	t.Parallel()
	said := func(who string) func(context.Context, mcp.Message) mcp.Message {
		return func(_ context.Context, _ mcp.Message) mcp.Message {
			return mcp.Response(jsontext.Value(`"forged"`), mcp.Marshal(map[string]string{"who": who}))
		}
	}
	for _, c := range []struct {
		name              string
		peer, call, other bool // who has an Ask; other is a second request in flight
		want              string
	}{
		{"the request", true, true, false, `{"jsonrpc":"2.0","id":1,"result":{"who":"call"}}`},
		{"the peer, where the request has none", true, false, false, `{"jsonrpc":"2.0","id":1,"result":{"who":"peer"}}`},
		{"the peer, where two could", true, true, true, `{"jsonrpc":"2.0","id":1,"result":{"who":"peer"}}`},
		{"nobody", false, false, false, `"code":-32601`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var peer Peer
			if c.peer {
				peer.Ask = said("peer")
			}
			conn := mustDial(t, fake("asks"), peer)
			ctx, cancel := context.WithCancel(testContext(t))
			var wg sync.WaitGroup
			defer testkit.Wait(t, "all calls", wg.Wait)
			defer cancel()
			if c.other {
				s := conn.(*stdioConn)
				wg.Go(func() {
					conn.Do(ctx, Request{ID: conn.NewID(), Method: "hang", Ask: said("other")})
				})
				testkit.Eventually(t, "it is in flight", func() bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					return len(s.inflight) == 1
				})
			}
			r := toolCall(conn, "x", `{}`)
			if c.call {
				r.Ask = said("call")
			}
			m, err := conn.Do(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			answers, _ := mcp.ReadArray(m.Result)
			got := make([]string, len(answers))
			for i := range answers {
				got[i] = mcp.Text(answers[i])
			}
			slices.Sort(got)
			if len(got) != 2 || !strings.Contains(strings.Join(got, "\n"), c.want) || !strings.Contains(strings.Join(got, "\n"),
				`"id":"p","result":{}`) {
				t.Errorf("the server was answered %q, want an answer to its ping and %s", got, c.want)
			}
		})
	}
}

func TestAModernServerThatAsksIsRefused(t *testing.T) {
	t.Parallel()
	yes := func(context.Context, mcp.Message) mcp.Message { return mcp.Response(nil, jsontext.Value(`"yes"`)) }
	conn := mustDial(t, fake("modern and asks"), Peer{Ask: yes})
	r := toolCall(conn, "x", `{}`)
	r.Ask = yes
	m, err := conn.Do(testContext(t), r)
	if err != nil || !strings.Contains(string(m.Result), "-32601") {
		t.Errorf("got %s, %v, want that the server was refused", m.Bytes(), err)
	}
}

func TestWhatAServerTakesBackIsNotAnswered(t *testing.T) {
	t.Parallel()
	over := make(chan error, 1)
	conn := mustDial(t, fake("asks"), Peer{Ask: func(ctx context.Context, _ mcp.Message) mcp.Message {
		<-ctx.Done()
		over <- context.Cause(ctx)
		return mcp.Response(nil, jsontext.Value("{}"))
	}})
	if _, err := conn.Do(testContext(t), Request{ID: conn.NewID(), Method: "take back"}); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "the end of the answering", over); err != errServerCancelled {
		t.Errorf("the answering ended with %v, want %v", err, errServerCancelled)
	}
	r := toolCall(conn, "x", `{}`)
	r.Ask = func(context.Context, mcp.Message) mcp.Message { return mcp.Response(nil, jsontext.Value(`"yes"`)) }
	m, err := conn.Do(testContext(t), r)
	if err != nil || strings.Contains(string(m.Result), `\"b\"`) {
		t.Errorf("got %s, %v, want no answer to b", m.Result, err)
	}
}

func TestASubscriptionOverStdioGetsItsOwn(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got, others []string
	conn := mustDial(t, fake("modern"), Peer{Notification: func(m mcp.Message) {
		mu.Lock()
		others = append(others, m.Method)
		mu.Unlock()
	}})
	ctx, cancel := context.WithCancel(testContext(t))
	_, err := conn.Do(ctx, Request{ID: conn.NewID(), Method: "subscriptions/listen", OnNotification: func(m mcp.Message) {
		if got = append(got, m.Method); len(got) == 3 {
			cancel()
		}
	}})
	want := []string{"notifications/subscriptions/acknowledged", "notifications/tools/list_changed",
		"notifications/prompts/list_changed"}
	mu.Lock()
	defer mu.Unlock()
	if !errors.Is(err, context.Canceled) || !slices.Equal(got, want) || others != nil {
		t.Errorf("got %v, %v, and the peer %v; want %v and nothing", err, got, others, want)
	}
}

// lifelines counts who is alive: each stubborn fake holds a connection.
type lifelines struct {
	net.Listener
	ended chan string // by the last words
}

func newLifelines(t *testing.T) lifelines {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return lifelines{l, make(chan string, 10)}
}

func (l lifelines) await(t *testing.T, n int) {
	for range n {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			last, _ := io.ReadAll(c)
			c.Close()
			l.ended <- string(last)
		}()
	}
}

func (l lifelines) mustEnd(t *testing.T, n int, want string) {
	t.Helper()
	for range n {
		select {
		case last := <-l.ended:
			if last != want {
				t.Errorf("its last words were %q, want %q", last, want)
			}
		case <-testContext(t).Done():
			t.Fatal("a process is still there")
		}
	}
}

func TestCloseLeavesNoProcess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fake  string
		lives int
		call  bool // it ends in a call, rather than by Close
		last  string
	}{
		{"stubborn", 2, false, ""},
		{"leaves a child", 1, true, ""},
		{"leaves a polite child", 1, false, "bye"},
	} {
		t.Run(c.fake, func(t *testing.T) {
			t.Parallel()
			l := newLifelines(t)
			cfg := fake(c.fake)
			cfg.Env = append(cfg.Env, lineVar+"="+l.Addr().String())
			conn := mustDial(t, cfg, Peer{})
			l.await(t, c.lives)
			if c.call {
				if _, err := conn.Do(testContext(t), toolCall(conn, "x", `{}`)); err == nil || !Sent(err) {
					t.Errorf("got %v, want that it may have run", err)
				}
			} else {
				conn.Close()
			}
			l.mustEnd(t, c.lives, c.last)
			conn.Close()
			if state := conn.(*stdioConn).proc.cmd.ProcessState; state == nil {
				t.Error("the process was not reaped")
			}
		})
	}
}

func TestAServerDiesWithAProgramThatIsKilled(t *testing.T) {
	t.Parallel()
	l := newLifelines(t)
	exe, _ := os.Executable()
	parent := testkit.Command(t, exe)
	parent.Env = append(os.Environ(), fakeVar+"=parent", lineVar+"="+l.Addr().String())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	l.await(t, 1)
	bufio.NewReader(out).ReadString('\n')
	parent.Process.Kill()
	parent.Wait()
	l.mustEnd(t, 1, "")
}

func TestStderrComesLineByLine(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 500)
	cfg := fake("dies at once")
	cfg.Stderr = func(l string) { lines <- l }
	if _, err := Dial(testContext(t), cfg, Peer{}); err == nil {
		t.Fatal("it is connected")
	}
	if got := testkit.Receive(t, "a line", lines); got != "complaint 0" {
		t.Errorf("the first line is %q", got)
	}
}
