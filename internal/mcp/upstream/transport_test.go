package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/testkit"
)

// rawServer answers what comes over each of its connections with what answer says, n counting the requests of a
// connection.
type rawServer struct {
	url   string
	opens atomic.Int32
}

func newRawServer(t *testing.T, answer func(c net.Conn, r *http.Request, n int) (more bool)) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{url: "http://" + l.Addr().String() + "/mcp"}
	var serving sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.opens.Add(1)
			serving.Go(func() {
				defer c.Close()
				defer context.AfterFunc(ctx, func() { c.Close() })()
				in := bufio.NewReader(c)
				for n := 0; ; n++ {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					if _, err := io.Copy(io.Discard, r.Body); err != nil || !answer(c, r, n) {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); cancel(); testkit.Wait(t, "the server's end", serving.Wait) })
	return s
}

func says(text string) func(net.Conn, *http.Request, int) bool {
	return func(c net.Conn, _ *http.Request, _ int) bool {
		_, err := io.WriteString(c, text)
		return err == nil
	}
}

// newTestTransport returns a transport that asks no proxy, whatever the machine's environment says, and keeps idle
// connections however slow the machine is.
func newTestTransport(t *testing.T) *Transport {
	tr := NewTransport()
	tr.Proxy, tr.IdleConnTimeout = nil, time.Hour
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func post(ctx context.Context, t *testing.T, tr *Transport, address, body string) (int, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := tr.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

func TestADirectConnectionIsUsedAgainOnlyWhereItsAnswerEndsCleanly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		opens  int32
	}{
		"a length": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 1},
		"chunks":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 1},
		"interim answers before it": {strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", maxInterim) +
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 1},
		"the server closes":            {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", 3},
		"an old protocol":              {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 3},
		"more than the answer has":     {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok HTTP/1.1 200 OK\r\n\r\n", 3},
		"nothing in it":                {"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 1},
		"nothing, and then too much":   {"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\nok", 3},
		"nothing, and then the end":    {"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 3},
		"a status that has no content": {"HTTP/1.1 204 No Content\r\n\r\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, tr := newRawServer(t, says(c.answer)), newTestTransport(t)
			for range 3 {
				status, body, err := post(testContext(t), t, tr, s.url, "{}")
				if err != nil || status/100 != 2 || body != "ok" && !strings.Contains(name, "noth") && !strings.Contains(name,
					"no content") {
					t.Fatalf("got %d %q, %v", status, body, err)
				}
			}
			if n := s.opens.Load(); n != c.opens {
				t.Errorf("the server saw %d connections, want %d", n, c.opens)
			}
		})
	}
}

func TestADirectConnectionRefusesAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"no HTTP":                "nonsense\r\n\r\n",
		"only interim answers":   strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100),
		"another protocol":       "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
		"a header without end":   "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 300),
		"a body that breaks off": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
		"a chunk that is none":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s, tr := newRawServer(t, func(c net.Conn, _ *http.Request, _ int) bool {
				_, _ = io.WriteString(c, answer)
				return false
			}), newTestTransport(t)
			if status, body, err := post(testContext(t), t, tr, s.url, "{}"); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("got %d %q, %v, want an error that is no plain end", status, body, err)
			}
		})
	}
}

func TestADirectConnectionThatItsServerLeftIsNotUsed(t *testing.T) {
	t.Parallel()
	left := make(chan struct{}, 1)
	s := newRawServer(t, func(c net.Conn, _ *http.Request, _ int) bool {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		c.Close()
		left <- struct{}{}
		return false
	})
	tr := newTestTransport(t)
	for range 3 { // each on a connection of its own, though no answer said that it would be the last
		if status, body, err := post(testContext(t), t, tr, s.url, "{}"); err != nil || status != 200 || body != "ok" {
			t.Fatalf("got %d %q, %v", status, body, err)
		}
		testkit.Receive(t, "the server to close the connection", left)
		p := tr.pools[strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/mcp")]
		testkit.Eventually(t, "the end of the connection to be seen", func() bool {
			_, err := peek(p.idle[0].raw, make([]byte, 1))
			return err != nil
		})
	}
}

func TestGivingUpEndsADirectConnection(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"before the answer": "",
		"within its header": "HTTP/1.1 200 OK\r\n",
		"within its body":   "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			answered, gone := make(chan struct{}, 1), make(chan struct{})
			s := newRawServer(t, func(c net.Conn, _ *http.Request, _ int) bool {
				defer close(gone)
				_, _ = io.WriteString(c, answer)
				answered <- struct{}{}
				_, _ = c.Read(make([]byte, 1))
				return false
			})
			ctx, cancel := context.WithCancel(testContext(t))
			go func() { <-answered; cancel() }()
			if _, _, err := post(ctx, t, newTestTransport(t), s.url, "{}"); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want that it was given up", err)
			}
			testkit.Receive(t, "the server to see the end", gone)
		})
	}
}

func TestAnAnswerThatIsNotReadToItsEndEndsItsConnection(t *testing.T) {
	t.Parallel()
	s, tr := newRawServer(t, says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")), newTestTransport(t)
	for range 2 {
		r, err := http.NewRequestWithContext(testContext(t), http.MethodPost, s.url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = res.Body.Read(make([]byte, 1))
		res.Body.Close()
		if n, err := res.Body.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("a closed body gave %d bytes, %v", n, err)
		}
	}
	if n := s.opens.Load(); n != 2 {
		t.Errorf("the server saw %d connections, want 2", n)
	}
}

func TestIdleDirectConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 1)
	s := newRawServer(t, func(c net.Conn, _ *http.Request, _ int) bool {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		_, _ = c.Read(make([]byte, 1))
		gone <- struct{}{}
		return false
	})
	tr := newTestTransport(t)
	tr.IdleConnTimeout = 20 * time.Millisecond
	if _, _, err := post(testContext(t), t, tr, s.url, "{}"); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "the idle connection to be closed", gone)
	tr = newTestTransport(t)
	if _, _, err := post(testContext(t), t, tr, s.url, "{}"); err != nil {
		t.Fatal(err)
	}
	tr.CloseIdleConnections()
	testkit.Receive(t, "the connection to be closed when all are", gone)
}

func TestWhatIsNoSmallPostOverPlainHTTPDoesNotGoDirectly(t *testing.T) {
	t.Parallel()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%s %d %s", r.Method, n, r.URL)
	}))
	defer h.Close()
	direct := func(tr *Transport) bool {
		for _, p := range tr.pools {
			if p != nil && len(p.idle) > 0 {
				return true
			}
		}
		return false
	}

	tr := newTestTransport(t)
	if _, body, err := post(testContext(t), t, tr, h.URL, strings.Repeat("x", maxDirect+1)); err != nil ||
		body != fmt.Sprintf("POST %d /", maxDirect+1) {
		t.Errorf("a large body: %q, %v", body, err)
	}
	r, err := http.NewRequestWithContext(testContext(t), http.MethodGet, h.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := tr.RoundTrip(r); err != nil || res.Body.Close() != nil {
		t.Errorf("a GET: %v", err)
	}
	for _, bad := range []http.Header{{"A B": {"x"}}, {"A": {"x\r\nB: y"}}, {"": {"x"}}} {
		r := r.Clone(testContext(t))
		r.Method, r.Header, r.Body, r.ContentLength = http.MethodPost, bad, io.NopCloser(strings.NewReader("{}")), 2
		if res, err := tr.RoundTrip(r); err == nil {
			res.Body.Close()
			t.Errorf("the header %q was sent", bad)
		}
	}
	proxy, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	tr.Proxy = http.ProxyURL(proxy)
	if _, body, err := post(testContext(t), t, tr, "http://elsewhere.example/mcp", "{}"); err != nil ||
		body != "POST 2 http://elsewhere.example/mcp" {
		t.Errorf("by way of a proxy: %q, %v", body, err)
	}
	if direct(tr) {
		t.Error("one of them went directly")
	}
	tr.Proxy = nil
	if _, body, err := post(testContext(t), t, tr, h.URL, "{}"); err != nil || body != "POST 2 /" || !direct(tr) {
		t.Errorf("a small POST: %q, %v, directly %t", body, err, direct(tr))
	}
}

// leaveAfter makes a request, reads so many bytes of the answer and leaves its end to the transport.
func leaveAfter(t *testing.T, tr *Transport, address string, size int) (left bool) {
	t.Helper()
	r, err := http.NewRequestWithContext(testContext(t), http.MethodPost, address, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	return res.Body.(*directBody).leave()
}

func TestTheEndOfAnAnswerIsReadWhenItsConnectionIsUsedAgain(t *testing.T) {
	t.Parallel()
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok"
	for name, c := range map[string]struct {
		answer, later string
		opens         int32
		left          bool
	}{
		"it has come":               {chunked + "\r\n0\r\n\r\n", "", 1, true},
		"it comes later":            {chunked, "\r\n0\r\n\r\n", 1, true},
		"it comes in two pieces":    {chunked + "\r\n0", "\r\n\r\n", 1, true},
		"it does not come":          {chunked, "", 2, true},
		"it does not come whole":    {chunked + "\r\n", "0\r\n", 2, true},
		"there is more in it":       {chunked, "\r\n3\r\nyes\r\n0\r\n\r\n", 2, true},
		"something comes behind it": {chunked, "\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", 2, true},
		"fields come with it":       {chunked, "\r\n0\r\nX: y\r\n\r\n", 2, true},
		"it has a length":           {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", "!", 2, false},
		"it has a length and came":  {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok!", "", 1, true},
		"the server closes": {strings.Replace(chunked, "\r\n", "\r\nConnection: close\r\n", 1) + "\r\n0\r\n\r\n", "",
			2, true},
	} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan struct{}, 2)
			later, letGo := testkit.Latch()
			defer letGo()
			var first atomic.Bool
			s := newRawServer(t, func(conn net.Conn, _ *http.Request, _ int) bool {
				_, _ = io.WriteString(conn, c.answer)
				if !first.Swap(true) && c.later != "" {
					<-later
					_, _ = io.WriteString(conn, c.later)
				}
				sent <- struct{}{}
				return true
			})
			tr := newTestTransport(t)
			if left := leaveAfter(t, tr, s.url, 2); left != c.left {
				t.Fatalf("left %t, want %t", left, c.left)
			}
			letGo()
			testkit.Receive(t, "the server to have sent all", sent)
			leaveAfter(t, tr, s.url, 2)
			if n := s.opens.Load(); n != c.opens {
				t.Errorf("the server saw %d connections, want %d", n, c.opens)
			}
		})
	}
}

func TestADirectConnectionIsUsedByOneAtATime(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"nothing in it": "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
		"a length":      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"chunks":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s, tr := newRawServer(t, says(answer)), newTestTransport(t)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range 30 {
						if status, _, err := post(testContext(t), t, tr, s.url, "{}"); err != nil || status/100 != 2 {
							t.Errorf("got %d, %v", status, err)
						}
					}
				})
			}
			testkit.Wait(t, "all requests", all.Wait)
			if n := s.opens.Load(); n > 8 {
				t.Errorf("the server saw %d connections, want at most one for each that calls", n)
			}
		})
	}
}

// A request says on the wire what net/http would say of it.
func TestADirectRequestIsWrittenAsAnyOther(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"http://up.example:8080/mcp?x=a%20b", "http://[::1]:80/", "http://up.example"} {
		made := func() *http.Request {
			r, err := http.NewRequest(http.MethodPost, target, strings.NewReader(`{"a":1}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"User-Agent": {"countersign"}, "Accept": {"application/json", "text/event-stream"},
				"Mcp-Session-Id": {"é"}, "Content-Length": {"9"}, "Transfer-Encoding": {"chunked"}, "Host": {"other"}}
			return r
		}
		read := func(write func(*bufio.Writer) error) *http.Request {
			var b bytes.Buffer
			out := bufio.NewWriter(&b)
			if err := errors.Join(write(out), out.Flush()); err != nil {
				t.Fatal(err)
			}
			r, err := http.ReadRequest(bufio.NewReader(&b))
			if err != nil {
				t.Fatalf("%v of %q", err, b.String())
			}
			body, err := io.ReadAll(r.Body)
			if err != nil || string(body) != `{"a":1}` || b.Len() != 0 {
				t.Errorf("the body is %q, %v, and %d bytes follow", body, err, b.Len())
			}
			return r
		}
		got := read(func(out *bufio.Writer) error { return writeRequest(out, made()) })
		want := read(func(out *bufio.Writer) error { return made().Write(out) })
		if got.RequestURI != want.RequestURI || got.Host != want.Host || got.Proto != want.Proto ||
			got.Method != want.Method ||
			!reflect.DeepEqual(got.Header, want.Header) || got.ContentLength != want.ContentLength {
			t.Errorf("%s: got %s %s %s %v, want %s %s %s %v", target, got.Method, got.RequestURI, got.Host, got.Header,
				want.Method,
				want.RequestURI, want.Host, want.Header)
		}
	}
	r, err := http.NewRequest(http.MethodPost, "http://x/", strings.NewReader("abc"))
	if err != nil {
		t.Fatal(err)
	}
	if r.ContentLength = 4; writeRequest(bufio.NewWriter(io.Discard), r) == nil {
		t.Error("a body that is not as long as it says is sent")
	}
}
