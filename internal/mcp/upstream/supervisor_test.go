package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"countersign/internal/mcp"
	"countersign/internal/testkit"
)

// wire is a modern server without a network, so that time can be a test's own.
type wire struct {
	mu     sync.Mutex
	down   error         // what a request meets
	slow   chan struct{} // what server/discover waits for
	block  chan struct{} // what a call waits for
	tries  []time.Time   // of server/discover
	called int
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, _ := io.ReadAll(r.Body)
	m, _ := mcp.Parse(raw)
	w.mu.Lock()
	down, wait := w.down, w.block
	if m.Method == "server/discover" {
		w.tries = append(w.tries, time.Now())
		wait = w.slow
	} else {
		w.called++
	}
	w.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if down != nil {
		return nil, down
	}
	body := mcp.Response(m.ID, []byte(`{"supportedVersions":["2026-07-28"]}`)).Bytes()
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}, nil
}

func (w *wire) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// run starts a server in a bubble; its stop is part of the test.
func run(t *testing.T, cfg Config, onUp func(Conn)) (*Supervisor, func()) {
	s := New(cfg, Peer{}, time.Now, onUp)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	return s, func() { cancel(); <-done } // bubble: as said
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")}

func TestAServerWaitsForItsFirstStartOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{slow: make(chan struct{})}
		s, stop := run(t, Config{Name: "w", URL: "http://w.test", Transport: w}, nil)
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := s.Conn(ctx); !errors.Is(err, context.DeadlineExceeded) || Sent(err) || !strings.Contains(err.Error(),
			"it is still starting") {
			t.Errorf("while it starts got %v, want the end of the wait", err)
		}
		if h := s.Health(); h.State != Starting || h.Restarts != 0 {
			t.Errorf("it is %+v, want starting", h)
		}
		got := make(chan error)
		go func() { _, err := s.Conn(t.Context()); got <- err }()
		synctest.Wait()
		close(w.slow)
		if err := <-got; err != nil {
			t.Errorf("the one who waited got %v", err)
		}
		if h := s.Health(); h.State != Up || h.Err != nil {
			t.Errorf("it is %+v, want up", h)
		}
	})
}

func TestAServerThatIsDownIsTriedLessAndLessOftenAndFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{down: errRefused}
		ups := 0
		s, stop := run(t, Config{Name: "w", URL: "http://w.test", Transport: w, StartTimeout: time.Second}, func(Conn) {
			ups++
		})
		defer stop()
		synctest.Wait()
		before := time.Now()
		_, err := s.Conn(t.Context())
		if err == nil || Sent(err) || !errors.Is(err, errRefused) || !strings.Contains(err.Error(),
			"it is down; the next try is in ") || time.Since(before) != 0 {
			t.Errorf("got %v after %v, want at once why, and when the next try is", err, time.Since(before))
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if h := s.Health(); h.State != Down || !errors.Is(h.Err, errRefused) || h.Restarts < 8 || !h.Since.Equal(before) {
			t.Errorf("it is %+v, want down since %v", h, before)
		}
		w.mu.Lock()
		want := firstBackoff
		for i := 1; i < len(w.tries); i++ {
			if d := w.tries[i].Sub(w.tries[i-1]); d < want/2 || d > want {
				t.Errorf("try %d came after %v, want %v to %v", i, d, want/2, want)
			}
			want = min(2*want, longestBackoff)
		}
		w.down = nil
		w.mu.Unlock()
		time.Sleep(longestBackoff)
		synctest.Wait()
		if _, err := s.Conn(t.Context()); err != nil || ups != 1 {
			t.Errorf("when it is back got %v, and onUp was called %d times", err, ups)
		}
	})
}

func TestAServerThatGoesAwayIsNoticedAndConnectedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := new(wire)
		var conns []Conn
		s, stop := run(t, Config{Name: "w", URL: "http://w.test", Transport: w}, func(c Conn) { conns = append(conns, c) })
		defer stop()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if h := s.Health(); h.State != Up || h.Restarts != 0 || len(conns) != 1 {
			t.Errorf("after ten good minutes it is %+v", h)
		}
		w.set(func() { w.down = errRefused })
		time.Sleep(probeEvery)
		synctest.Wait()
		if h := s.Health(); h.State != Down {
			t.Errorf("it is %+v, want down", h)
		}
		if err := conns[0].Err(); err == nil || !strings.Contains(err.Error(), "did not answer a health check") {
			t.Errorf("the first connection ended with %v", err)
		}
		w.set(func() { w.down = nil })
		time.Sleep(longestBackoff)
		synctest.Wait()
		if h := s.Health(); h.State != Up || len(conns) != 2 || h.Err != nil {
			t.Errorf("it is %+v after %d connections, want up again", h, len(conns))
		}
	})
}

func TestACallInFlightOutlivesTheProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{block: make(chan struct{})}
		s, stop := run(t, Config{Name: "w", URL: "http://w.test", Transport: w}, nil)
		defer stop()
		conn, err := s.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error)
		go func() { _, err := conn.Do(t.Context(), toolCall(conn, "x", `{}`)); got <- err }()
		synctest.Wait()
		w.set(func() { w.down = errRefused })
		time.Sleep(10 * probeEvery)
		if h := s.Health(); h.State != Up {
			t.Errorf("while the call runs it is %+v, want up", h)
		}
		conn.(*httpConn).stopAccepting(errSessionLost)
		synctest.Wait()
		close(w.block)
		if err := <-got; err != nil {
			t.Errorf("the call got %v, want its answer", err)
		}
	})
}

func TestAStoppedServerSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := new(wire)
		s, stop := run(t, Config{Name: "w", URL: "http://w.test", Transport: w}, nil)
		conn, err := s.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stop()
		if _, err := s.Conn(t.Context()); err == nil || Sent(err) || err.Error() != "it is stopped" {
			t.Errorf("got %v, want that it is stopped", err)
		}
		if !errors.Is(conn.Err(), errClosed) {
			t.Errorf("its connection ended with %v", conn.Err())
		}
	})
}

func TestAProcessThatEndsIsStartedAgain(t *testing.T) {
	t.Parallel()
	ups := make(chan Conn, 10)
	s := New(fake("dies in a call"), Peer{}, time.Now, func(c Conn) { ups <- c })
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	for range 2 {
		conn := testkit.Receive(t, "a connection", ups)
		if _, err := conn.Do(ctx, toolCall(conn, "x", `{}`)); err == nil || !Sent(err) {
			t.Errorf("got %v, want that it may have run", err)
		}
		testkit.Receive(t, "its end", conn.Done())
	}
	testkit.Receive(t, "a connection", ups).Notify(ctx, "notifications/x", nil)
	if h := s.Health(); h.Restarts != 2 || h.State != Up {
		t.Errorf("it is %+v, want two restarts", h)
	}
	cancel()
	testkit.Receive(t, "the end", done)
}

func TestADeathAtDiscoverIsRemembered(t *testing.T) {
	t.Parallel()
	var m dialHints
	for range 2 {
		c, err := dial(testContext(t), fake("dies of discover"), Peer{}, &m)
		if err != nil {
			t.Fatal(err)
		}
		if !m.legacy {
			t.Error("it is not remembered that the server dies of server/discover")
		}
		if got := string(c.NewID()); got != "2" { // initialize had the first
			t.Errorf("the next id is %s: server/discover was tried", got)
		}
		c.Close()
	}
}
