package listener

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a listener in memory, whose clients have the addresses they say.
type memory struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemory() *memory { return &memory{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error   { m.once.Do(func() { close(m.closed) }); return nil }
func (m *memory) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

// remote is the server's end of a connection.
type remote struct {
	net.Conn
	from net.Addr
}

func (r remote) RemoteAddr() net.Addr { return r.from }

// dial connects from an address.
func (m *memory) dial(from string) net.Conn {
	client, server := net.Pipe()
	m.conns <- remote{server, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 4711))}
	return client
}

// isClosed reports whether the other side has closed c, when nothing more happens.
func isClosed(c net.Conn) bool {
	synctest.Wait()
	c.SetReadDeadline(time.Now())
	_, err := c.Read(make([]byte, 1))
	return !errors.Is(err, context.DeadlineExceeded) && err != nil && !isTimeout(err)
}

func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// world is a server on a listener in memory.
type world struct {
	t      *testing.T
	memory *memory
	l      *Listener
	server *http.Server
}

// newWorld serves h within a synctest bubble.
func newWorld(t *testing.T, o Options, h http.HandlerFunc) *world {
	w := &world{t: t, memory: newMemory()}
	w.l = New(w.memory, o)
	w.server = &http.Server{Handler: w.l.Handler(h), ConnContext: w.l.Context, ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:  30 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute}
	served := make(chan error, 1)
	go func() { served <- w.server.Serve(w.l) }()
	t.Cleanup(func() {
		w.server.Close()
		time.Sleep(time.Minute)                                     // bubble: what lingers ends
		if err := <-served; !errors.Is(err, http.ErrServerClosed) { // bubble: as all worlds
			t.Error(err)
		}
		if n := w.l.Stats().Open; n != 0 {
			t.Errorf("%d connections are counted that are no more", n)
		}
	})
	return w
}

// client is one connection of a client's.
type client struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func (w *world) dial(from string) *client {
	c := w.memory.dial(from)
	w.t.Cleanup(func() { c.Close() })
	synctest.Wait()
	return &client{w.t, c, bufio.NewReader(c)}
}

func (c *client) send(s string) {
	c.t.Helper()
	c.SetWriteDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatalf("sending: %v", err)
	}
	synctest.Wait()
}

// status reads an answer, which comes within a time.
func (c *client) status(within time.Duration) int {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(within))
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode
}

const hello = "GET / HTTP/1.1\r\nHost: gate\r\n\r\n"

func post(length int, sent string) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: gate\r\nContent-Length: %d\r\n\r\n%s", length, sent)
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// Rule 2.12: whoever holds all the connections does not keep anybody else out.
func TestRule12_IdleConnectionsMakeRoomForNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Connections: 8}, ok)
		var idle []*client
		for i := range 100 {
			c := w.dial("203.0.113.7")
			if i%2 == 0 {
				c.send("GET / HT") // never to be finished
			}
			idle = append(idle, c)
		}
		if n := w.l.Stats().Open; n != 8 {
			t.Errorf("%d connections are open, want 8", n)
		}
		c := w.dial("198.51.100.1")
		c.send(hello)
		if got := c.status(time.Second); got != http.StatusNoContent {
			t.Errorf("got %d", got)
		}
		if s := w.l.Stats(); s.Evicted != 93 || s.Refused != 0 {
			t.Errorf("%+v", s)
		}
		if !isClosed(idle[0]) || isClosed(idle[99]) {
			t.Error("it was not the oldest connection that was closed")
		}
	})
}

// Rule 2.12: there may be thousands of connections for those who wait, and no more that cost without a token.
func TestRule12_StrangersAreFewBesideThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newWorld(t, Options{Connections: 16, Strangers: 4}, func(_ http.ResponseWriter, r *http.Request) {
			Known(r.Context(), Agents)
			<-release
		})
		strangers := func(want int) {
			t.Helper()
			for range 20 {
				w.dial("203.0.113.7")
			}
			if n := w.l.Stats().Open; n != want {
				t.Errorf("%d connections are open, want %d", n, want)
			}
		}
		strangers(4)
		var held []*client
		for range 12 {
			c := w.dial("198.51.100.1")
			c.send(hello)
			held = append(held, c)
		}
		strangers(16)
		close(release)
		synctest.Wait()
		for _, c := range held {
			if got := c.status(time.Second); got != http.StatusOK {
				t.Errorf("somebody who waited got %d", got)
			}
		}
		strangers(4) // whoever waited and asks for nothing more is spared, too
	})
}

// The order in which connections can be spared.
func TestRule12_WhoHasMostLosesTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newWorld(t, Options{Connections: 5}, func(_ http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Token") != "" {
				Known(r.Context(), People)
			}
			if r.Header.Get("Hold") != "" {
				<-release
			}
		})
		with := func(header string) string { return strings.Replace(hello, "\r\n\r\n", "\r\n"+header+"\r\n\r\n", 1) }
		busy := w.dial("192.0.2.1")
		busy.send(with("Token: t\r\nHold: y")) // somebody known is being answered
		quiet := w.dial("192.0.2.2")
		quiet.send(with("Token: t"))
		quiet.status(time.Second) // somebody known was
		slow := w.dial("192.0.2.3")
		slow.send(with("Hold: y")) // a stranger is being answered
		first := w.dial("203.0.113.1")
		second := w.dial("203.0.113.1")
		last := []*client{}
		for i, tt := range []struct {
			name string
			who  *client
		}{
			{"the first of the address with two", first}, {"the next, though it is alone by now", second},
			{"the stranger that took its place", nil}, {"the third stranger", nil},
		} {
			last = append(last, w.dial(fmt.Sprintf("198.51.100.%d", i)))
			if tt.who == nil {
				tt.who = last[i-2]
			}
			if !isClosed(tt.who) {
				t.Errorf("%s is not closed", tt.name)
			}
		}
		// All that is left are those that are answered, and two that wait: they go first, then the stranger's.
		last[2].send(with("Token: t\r\nHold: y"))
		last[3].send(with("Token: t\r\nHold: y"))
		for _, tt := range []struct {
			name string
			who  *client
		}{{"the stranger who is being answered", slow}, {"the connection that somebody known has left open", quiet}} {
			c := w.dial("198.51.100.77")
			if !isClosed(tt.who) {
				t.Errorf("%s is not closed", tt.name)
			}
			c.send(with("Token: t\r\nHold: y"))
		}
		if c := w.dial("198.51.100.78"); !isClosed(c) || w.l.Stats().Refused != 1 {
			t.Error("a connection came in though all are in use")
		}
		close(release)
		if got := busy.status(time.Second); got != http.StatusOK {
			t.Errorf("whoever was being answered got %d", got)
		}
	})
}

func TestRule12_AnAddressHasItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proxy := netip.MustParseAddr("10.0.0.1")
		w := newWorld(t, Options{Connections: 20, PerAddress: 3, Shared: func(a netip.Addr) bool { return a == proxy }}, ok)
		for _, tt := range []struct {
			from []string
			open int // of 6 that are opened
		}{
			{[]string{"203.0.113.1"}, 3},
			{[]string{"2001:db8::1", "2001:db8::2", "2001:db8::3:4"}, 3}, // one network
			{[]string{"::ffff:203.0.113.9", "203.0.113.9"}, 3},
			{[]string{"2001:db8:1::1", "2001:db8:2::1"}, 6},
			{[]string{"10.0.0.1"}, 6},
			{[]string{"127.0.0.1"}, 6},
		} {
			var cs []*client
			for i := range 6 {
				cs = append(cs, w.dial(tt.from[i%len(tt.from)]))
			}
			open := 0
			for _, c := range cs {
				if !isClosed(c) {
					open++
				}
			}
			if open != tt.open {
				t.Errorf("%v: %d connections stay open, want %d", tt.from, open, tt.open)
			}
			for _, c := range cs {
				c.Close()
			}
			synctest.Wait()
		}
	})
}

// A body that never comes does not keep its sender from being refused.
func TestRule12_ARefusalDoesNotWaitForTheBody(t *testing.T) {
	for _, head := range []string{post(10, ""), post(1<<20, "x"),
		"POST / HTTP/1.1\r\nHost: gate\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: gate\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Options{Connections: 8}, func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "no", http.StatusUnauthorized)
			})
			c := w.dial("203.0.113.1")
			c.send(head)
			start := time.Now()
			if got := c.status(time.Minute); got != http.StatusUnauthorized || time.Since(start) > 0 {
				t.Errorf("%q: got %d after %s", head, got, time.Since(start))
			}
			c.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := c.r.ReadByte(); err != io.EOF {
				t.Errorf("%q: the connection is still open: %v", head, err)
			}
			if d := time.Since(start); d > 2*linger {
				t.Errorf("%q: it was open for %s", head, d)
			}
		})
	}
}

// What has been read can be followed by another request.
func TestAConnectionIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Connections: 8, Bodies: func(*http.Request) (*Bodies, string) { return nil, "" }},
			func(w http.ResponseWriter, r *http.Request) {
				io.CopyN(io.Discard, r.Body, 5) // without coming to its end
				w.Write([]byte("yes"))
				http.NewResponseController(w).Flush()
			})
		c := w.dial("203.0.113.1")
		for range 3 {
			c.send(post(5, "hello"))
			if got := c.status(time.Second); got != http.StatusOK {
				t.Fatalf("got %d", got)
			}
		}
	})
}

// reading answers 200 to a body that came, and 503 to one that gave way.
func reading(w http.ResponseWriter, r *http.Request) {
	_, err := io.ReadAll(r.Body)
	switch busy, ok := errors.AsType[interface {
		error
		RetryAfter() time.Duration
	}](err); {
	case ok:
		w.Header().Set("Retry-After", fmt.Sprint(int(busy.RetryAfter().Seconds())))
		w.WriteHeader(http.StatusServiceUnavailable)
	case isTimeout(err):
		w.WriteHeader(http.StatusRequestTimeout)
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	}
}

// bySender has limits hold for who the header From names.
func bySender(b *Bodies) func(*http.Request) (*Bodies, string) {
	return func(r *http.Request) (*Bodies, string) { return b, r.Header.Get("From") }
}

func postFrom(sender string, length int, sent string) string {
	return strings.Replace(post(length, sent), "Host:", "From: "+sender+"\r\nHost:", 1)
}

func TestRule12_HalfSentBodiesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, limit = 16 << 10, 64 << 10
		b := NewBodies(BodyLimits{Count: 16, Bytes: limit, Within: 5 * time.Second})
		w := newWorld(t, Options{Connections: 500, Bodies: bySender(b)}, reading)
		var half []*client
		for i := range 400 {
			c := w.dial(fmt.Sprintf("203.0.113.%d", i%250))
			c.send(postFrom(fmt.Sprint(i%250), size, strings.Repeat("x", size/2)))
			half = append(half, c)
			if s := b.Stats(); s.Count > 16 || s.Bytes > limit {
				t.Fatalf("after %d: %+v", i+1, s)
			}
		}
		if s := b.Stats(); s.Bytes != limit || s.Count != 8 || s.Busy != 392 {
			t.Errorf("%+v", s)
		}
		c := w.dial("198.51.100.1")
		c.send(postFrom("line", 5, "hello"))
		if got := c.status(time.Second); got != http.StatusOK {
			t.Errorf("a body that came whole: got %d", got)
		}
		if got := half[0].status(time.Second); got != http.StatusServiceUnavailable {
			t.Errorf("the first: got %d", got)
		}
		if got := half[399].status(time.Minute); got != http.StatusRequestTimeout {
			t.Errorf("the last: got %d", got)
		}
		synctest.Wait()
		if s := b.Stats(); s.Count != 0 || s.Bytes != 0 {
			t.Errorf("in the end: %+v", s)
		}
	})
}

func TestRule12_ASenderHasItsShareOfBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBodies(BodyLimits{Count: 6, PerSender: 3, Bytes: 1 << 20})
		w := newWorld(t, Options{Connections: 100, Bodies: bySender(b)}, reading)
		start := func(sender string) *client {
			c := w.dial("203.0.113.1")
			c.send(postFrom(sender, 10, "x"))
			return c
		}
		quiet := start("quiet")
		var noisy []*client
		for range 10 {
			noisy = append(noisy, start("noisy"))
		}
		for i, c := range noisy[:7] {
			if got := c.status(time.Second); got != http.StatusServiceUnavailable {
				t.Errorf("%d of the noisy: got %d", i, got)
			}
		}
		start("a") // six by now
		start("b")
		start("c")
		if got := noisy[7].status(time.Second); got != http.StatusServiceUnavailable {
			t.Errorf("the oldest of who has most: got %d", got)
		}
		quiet.send("123456789")
		if got := quiet.status(time.Second); got != http.StatusOK {
			t.Errorf("the quiet: got %d", got)
		}
	})
}

func TestASlowBodyIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBodies(BodyLimits{Count: 6, Bytes: 1 << 20, Within: 5 * time.Second})
		w := newWorld(t, Options{Connections: 100, Bodies: bySender(b)}, reading)
		c := w.dial("203.0.113.1")
		c.send(post(1000, "x"))
		start := time.Now()
		var done sync.WaitGroup
		done.Go(func() { // a byte a second
			for range 10 {
				time.Sleep(time.Second)
				if _, err := c.Write([]byte("x")); err != nil {
					return
				}
			}
		})
		if got := c.status(time.Minute); got != http.StatusRequestTimeout || time.Since(start) != 5*time.Second {
			t.Errorf("got %d after %s", got, time.Since(start))
		}
		c.Close()
		done.Wait()
	})
}

func TestBytesCountUntilTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBodies(BodyLimits{Count: 6, Bytes: 100, UntilAnswered: true})
		release := make(chan struct{})
		w := newWorld(t, Options{Connections: 100, Bodies: bySender(b)}, func(w http.ResponseWriter, r *http.Request) {
			reading(w, r)
			if r.Header.Get("From") == "a" {
				<-release
			}
		})
		first := w.dial("203.0.113.1")
		first.send(postFrom("a", 60, strings.Repeat("x", 60)))
		second := w.dial("203.0.113.1")
		second.send(postFrom("b", 60, strings.Repeat("x", 60)))
		if got := second.status(time.Second); got != http.StatusServiceUnavailable {
			t.Errorf("got %d while there is no room", got)
		}
		close(release)
		first.status(time.Second)
		third := w.dial("203.0.113.1")
		third.send(postFrom("b", 60, strings.Repeat("x", 60)))
		if got := third.status(time.Second); got != http.StatusOK {
			t.Errorf("got %d when there is room", got)
		}
	})
}

func TestShares(t *testing.T) {
	for _, tt := range []struct {
		total int
		wants []int
		want  []int
	}{
		{-1, []int{2048, 256}, []int{2048, 256}},
		{5000, []int{2048, 256}, []int{2048, 256}},
		{1152, []int{2048, 256}, []int{1024, 128}},
		{0, []int{2048, 256}, []int{1, 1}},
		{10, nil, []int{}},
	} {
		if got := Share(tt.total, tt.wants...); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("Share(%d, %v) = %v, want %v", tt.total, tt.wants, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(0, 1<<20).Draw(t, "total")
		wants := rapid.SliceOfN(rapid.IntRange(1, 1<<16), 1, 5).Draw(t, "wants")
		sum := 0
		for i, s := range Share(total, wants...) {
			if s < 1 || s > wants[i] {
				t.Fatalf("share %d of %d", s, wants[i])
			}
			sum += s
		}
		if sum > total+len(wants) {
			t.Fatalf("%d are given out of %d", sum, total)
		}
	})
}

// Rule 2.12: agents that wait leave connections to other agents, all agents to people, and people's streams to
// decisions.
func TestRule12_AgentsThatWaitLeaveConnectionsForPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var refusals []Refusal
		w := newWorld(t, Options{Connections: 16, Refused: func(what Refusal) { refusals = append(refusals, what) }},
			func(w http.ResponseWriter, r *http.Request) {
				who := Agents
				if r.Header.Get("Who") == "person" {
					who = People
				}
				Known(r.Context(), who)
				if r.Header.Get("What") == "wait" && Wait(r.Context(), who) != nil {
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				<-release
			})
		send := func(who, what string) *client {
			c := w.dial("192.0.2.1")
			c.send("GET / HTTP/1.1\r\nHost: gate\r\nWho: " + who + "\r\nWhat: " + what + "\r\n\r\n")
			return c
		}
		refused := func(who string) {
			t.Helper()
			c := send(who, "wait")
			if got := c.status(time.Second); got != http.StatusTooManyRequests {
				t.Errorf("one wait more of %s: got %d", who, got)
			}
			c.Close()
			synctest.Wait()
		}
		held := map[string][]*client{}
		keep := func(name, who, what string, n int) {
			for range n {
				held[name] = append(held[name], send(who, what))
			}
		}
		keep("waits", "agent", "wait", 12)
		refused("agent")
		keep("calls", "agent", "call", 2)
		spare := send("agent", "call") // beyond what agents are sure of
		keep("streams", "person", "wait", 1)
		refused("person")
		keep("decisions", "person", "decide", 1)
		if !isClosed(spare) {
			t.Error("an agent's connection is in a person's way")
		}
		close(release)
		synctest.Wait()
		for name, all := range held {
			for _, c := range all {
				if got := c.status(time.Second); got != http.StatusOK {
					t.Errorf("%s: got %d", name, got)
				}
			}
		}
		if want := []Refusal{RefusedWait, RefusedWait}; !slices.Equal(refusals, want) || w.l.Stats().Waits != 2 {
			t.Errorf("refused: %v, %+v", refusals, w.l.Stats())
		}
		if n := w.l.known.Load(); n != 0 {
			t.Errorf("%d connections count as in use after all", n)
		}
	})
}
