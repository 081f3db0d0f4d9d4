package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
	"countersign/internal/testkit"
)

// web is a server over HTTP that says hello and leaves the rest to its functions.
type web struct {
	*httptest.Server
	era     mcp.Era
	session string
	// post answers what is no hello; nil: the result is {"n":ID}. get answers GET; nil: 405.
	post func(w http.ResponseWriter, r *http.Request, m mcp.Message)
	get  http.HandlerFunc

	mu       sync.Mutex
	requests []*http.Request // as they came
	messages []mcp.Message   // those of the POSTs
}

func newWeb(t testing.TB, w *web) *web {
	w.Server = httptest.NewServer(w)
	t.Cleanup(func() { w.CloseClientConnections(); w.Close() })
	return w
}

func (s *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var m mcp.Message
	if r.Method == http.MethodPost {
		var bad *mcp.Error
		if m, bad = mcp.Parse(body); bad != nil {
			http.Error(w, bad.Message, 400)
			return
		}
	}
	s.mu.Lock()
	s.requests, s.messages = append(s.requests, r.Clone(context.Background())), append(s.messages, m)
	s.mu.Unlock()
	switch {
	case r.Method == http.MethodGet && s.get != nil:
		s.get(w, r)
	case r.Method == http.MethodDelete:
	case r.Method != http.MethodPost:
		http.Error(w, "no", http.StatusMethodNotAllowed)
	case m.Method == "server/discover" && s.era == mcp.Modern:
		reply(w, m, `{"supportedVersions":["2026-07-28"],"capabilities":{}}`)
	case m.Method == "server/discover":
		http.Error(w, "what is this?", http.StatusBadRequest)
	case m.Method == "initialize":
		if s.session != "" {
			w.Header().Set(mcp.HeaderSession, s.session)
		}
		reply(w, m, `{"protocolVersion":"2025-11-25","capabilities":{}}`)
	case s.post != nil && m.Method != "notifications/initialized":
		s.post(w, r, m)
	case m.IsRequest():
		reply(w, m, `{"n":`+string(m.ID)+`}`)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func reply(w http.ResponseWriter, m mcp.Message, result string) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(mcp.Response(m.ID, jsontext.Value(result)).Bytes())
}

func stream(w http.ResponseWriter, format string, args ...any) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, format, args...)
	w.(http.Flusher).Flush()
}

// seen returns what came of a method of MCP.
func (s *web) seen(method string) (n int, last *http.Request, m mcp.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.messages {
		if s.messages[i].Method == method && s.requests[i].Method == http.MethodPost {
			n, last, m = n+1, s.requests[i], s.messages[i]
		}
	}
	return n, last, m
}

func (s *web) saw(httpMethod string) []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r *http.Request) bool { return r.Method != httpMethod })
}

var bothEras = []struct {
	name string
	era  mcp.Era
}{{"legacy", mcp.Legacy}, {"modern", mcp.Modern}}

func TestHTTPAnswersAreTaken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		post func(http.ResponseWriter, *http.Request, mcp.Message)
	}{
		{"JSON", nil},
		{"JSON with a charset", func(w http.ResponseWriter, _ *http.Request, m mcp.Message) {
			w.Header().Set("Content-Type", "Application/JSON; charset=utf-8")
			fmt.Fprintf(w, ` {"jsonrpc":"2.0","id":%s,"result":{"n":%[1]s}} `, m.ID)
		}},
		{"JSON in chunks", func(w http.ResponseWriter, _ *http.Request, m mcp.Message) {
			w.Header().Set("Content-Type", "application/json")
			for _, b := range fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"n":%[1]s}}`, m.ID) {
				w.Write([]byte{b})
				w.(http.Flusher).Flush()
			}
		}},
		{"a stream", func(w http.ResponseWriter, _ *http.Request, m mcp.Message) {
			stream(w, "\xef\xbb\xbf: hello\r\nretry: 5\r\n\r\nid: 1\r\ndata:\r\n\r\nevent: ping\ndata: {}\n\nevent: message\ndata: junk\n\ndata:{\"jsonrpc\":\"2.0\",\ndata: \"id\":%s,\"result\":{\"n\":%[1]s}}\n\n", m.ID)
		}},
		{"a stream that goes on", func(w http.ResponseWriter, r *http.Request, m mcp.Message) {
			stream(w, "data: {\"jsonrpc\":\"2.0\",\"id\":777,\"result\":{}}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"n\":%[1]s}}\n\n", m.ID)
			<-r.Context().Done()
		}},
	} {
		for _, e := range bothEras {
			t.Run(c.name+" "+e.name, func(t *testing.T) {
				t.Parallel()
				conn := mustDial(t, Config{URL: newWeb(t, &web{era: e.era, post: c.post}).URL}, Peer{})
				if got := conn.Hello().Era; got != e.era {
					t.Fatalf("the era is %v, want %v", got, e.era)
				}
				for range 3 {
					try(t, conn)
				}
			})
		}
	}
}

func TestHTTPAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	body := func(status int, kind, format string) func(http.ResponseWriter, *http.Request, mcp.Message) {
		return func(w http.ResponseWriter, _ *http.Request, m mcp.Message) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			io.WriteString(w, strings.ReplaceAll(format, "ID", string(m.ID)))
		}
	}
	const js = "application/json"
	for _, c := range []struct {
		name string
		post func(http.ResponseWriter, *http.Request, mcp.Message)
		sent bool
		says string
	}{
		{"500 after it ran", body(500, "text/plain", "oops secret"), true, "HTTP 500 Internal Server Error"},
		{"502", body(502, "text/html", "<p>"), true, "HTTP 502"},
		{"400", body(400, "text/plain", ""), true, "HTTP 400"},
		{"404 without a session", body(404, "text/plain", ""), true, "HTTP 404"},
		{"422 with a result", body(422, js, `{"jsonrpc":"2.0","id":ID,"result":{}}`), true, "HTTP 422"},
		{"401", body(401, "text/plain", ""), false, "HTTP 401 Unauthorized"},
		{"401 with an error of MCP", body(401, js, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32001,"message":"no token."}}`),
			false, "HTTP 401 Unauthorized: no token"},
		{"403 with an error of MCP for nobody",
			body(403, js, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Forbidden"}}`), false,
			"HTTP 403 Forbidden: Forbidden"},
		{"429", body(429, "text/plain", "slow down"), false, "HTTP 429 Too Many Requests"},
		{"429 with an error of MCP", body(429, js, `{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"slow down"}}`),
			false, "HTTP 429 Too Many Requests: slow down"},
		{"421", body(421, "", ""), false, "HTTP 421"},
		{"425", body(425, "", ""), false, "HTTP 425"},
		{"431", body(431, "", ""), false, "HTTP 431"},
		{"408, perhaps of what stands between", body(408, "", ""), true, "HTTP 408"},
		{"503", body(503, "", ""), true, "HTTP 503"},
		{"403", body(403, js, `{"error":"forbidden"}`), false, "HTTP 403"},
		{"405", body(405, "", ""), false, "HTTP 405"},
		{"413", body(413, "", ""), false, "HTTP 413"},
		{"415", body(415, "", ""), false, "HTTP 415"},
		{"303", body(303, "", ""), true, "HTTP 303"},
		{"202", body(202, "", ""), true, "gave no answer"},
		{"a page", body(200, "text/html", "<p>"), true, "neither JSON nor"},
		{"no JSON", body(200, js, `{`), true, "not valid JSON"},
		{"another id", body(200, js, `{"jsonrpc":"2.0","id":"xID","result":{}}`), true,
			`something else than the request ID: the request "xID"`},
		{"an id with a fraction", body(200, js, `{"jsonrpc":"2.0","id":1.5,"result":{}}`), true, "and is 1.5"},
		{"a result of nobody", body(200, js, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"},"result":{}}`),
			true, "cannot be used"},
		{"a request", body(200, js, `{"jsonrpc":"2.0","id":ID,"method":"x"}`), true, "something else"},
		{"a batch", body(200, js, `[{"jsonrpc":"2.0","id":ID,"result":{}}]`), true, "batches"},
		{"a stream that ends", body(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}\n"), true,
			"broke off"},
		{"a stream whose answer is no JSON", body(200, "text/event-stream",
			"data: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{NaN}}\n\n"), true, "not valid JSON"},
		{"a long answer", func(w http.ResponseWriter, _ *http.Request, m mcp.Message) {
			reply(w, m, `"`+strings.Repeat("x", maxMessage)+`"`)
		}, true, "32 MiB"},
		{"a long event", func(w http.ResponseWriter, _ *http.Request, _ mcp.Message) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: "+strings.Repeat("x", maxMessage))
		}, true, "32 MiB"},
		{"it hangs up", func(http.ResponseWriter, *http.Request, mcp.Message) { panic(http.ErrAbortHandler) }, true, "broke"},
		{"it hangs up in the answer", func(w http.ResponseWriter, _ *http.Request, m mcp.Message) {
			w.Header().Set("Content-Length", "1000")
			reply(w, m, `{}`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, true, "broke off"},
	} {
		for _, e := range bothEras {
			t.Run(c.name+" "+e.name, func(t *testing.T) {
				t.Parallel()
				s := newWeb(t, &web{era: e.era, post: c.post})
				conn := mustDial(t, Config{URL: s.URL}, Peer{})
				m, err := conn.Do(testContext(t), toolCall(conn, "x", `{}`))
				asked := string(jsontext.Value(mcp.Number(int64(conn.(*httpConn).ids.Load()))))
				if err == nil || Sent(err) != c.sent || !strings.Contains(err.Error(), strings.ReplaceAll(c.says, "ID", asked)) ||
					strings.Contains(err.Error(), "secret") {
					t.Errorf("got %s, %v (sent %v), want %q and sent %v", m.Bytes(), err, Sent(err), c.says, c.sent)
				}
				if n, _, _ := s.seen("tools/call"); n != 1 {
					t.Errorf("the server saw the call %d times, want once", n)
				}
				if err := conn.Err(); err != nil {
					t.Errorf("the connection ended: %v", err)
				}
			})
		}
	}
}

func TestAnErrorOfMCPIsTheAnswerWhateverTheStatus(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 400, 404, 500} {
		for _, id := range []string{"ID", "null"} {
			s := newWeb(t, &web{era: mcp.Modern, post: func(w http.ResponseWriter, _ *http.Request, m mcp.Message) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, strings.Replace(id, "ID",
					string(m.ID), 1))
			}})
			conn := mustDial(t, Config{URL: s.URL}, Peer{})
			r := toolCall(conn, "x", `{}`)
			m, err := conn.Do(testContext(t), r)
			if err != nil || mcp.ReadError(m.Err).Code != mcp.CodeMethodNotFound || string(m.ID) != string(r.ID) {
				t.Errorf("with status %d and id %s got %s, %v, want the error", status, id, m.Bytes(), err)
			}
		}
	}
}

func TestServersThatDoNotKnowDiscoverAreLegacy(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"404":     func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
		"405":     func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusMethodNotAllowed) },
		"500":     func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", 500) },
		"a page":  func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
		"202":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) },
		"hang up": func(_ http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
		"error": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"initialize first"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inner := &web{}
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if strings.Contains(string(body), "server/discover") {
					h(w, r)
					return
				}
				if r.Header.Get(mcp.HeaderMethod) != "" || strings.Contains(string(body), `"initialize"`) &&
					r.Header.Get(mcp.HeaderVersion) != "" {
					t.Errorf("%s has headers of the modern era: %v", body, r.Header)
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				inner.ServeHTTP(w, r)
			}))
			defer s.Close()
			defer s.CloseClientConnections()
			conn := mustDial(t, Config{URL: s.URL}, Peer{})
			if h := conn.Hello(); h.Era != mcp.Legacy || h.Version != "2025-11-25" {
				t.Errorf("the server is %+v, want legacy", h)
			}
			try(t, conn)
			conn.Close()
		})
	}
}

func TestModernRequestsCarryTheirHeaders(t *testing.T) {
	t.Parallel()
	s := newWeb(t, &web{era: mcp.Modern, session: "nobody-asked"})
	conn := mustDial(t, Config{URL: s.URL + "/p?q=1", Header: http.Header{"X-Own": {"own"}}}, Peer{})
	r := toolCall(conn, "x", `{}`)
	r.Params = jsontext.Value(`{"name":"é"}`)
	r.Header = http.Header{"Mcp-Param-Zone": {"north"}}
	if _, err := conn.Do(testContext(t), r); err != nil {
		t.Fatal(err)
	}
	if err := conn.Notify(testContext(t), "notifications/x", nil); err != nil {
		t.Fatal(err)
	}
	_, got, _ := s.seen("tools/call")
	for name, want := range map[string]string{
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "=?base64?w6k=?=",
		"Mcp-Param-Zone": "north",
		"X-Own":          "own", "Accept": "application/json, text/event-stream", "Content-Type": "application/json",
		"Accept-Encoding": "", "Mcp-Session-Id": "",
	} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("the header %s is %q, want %q", name, v, want)
		}
	}
	if got.URL.RequestURI() != "/p?q=1" {
		t.Errorf("it went to %s", got.URL)
	}
	r = toolCall(conn, "x", `{}`)
	r.Header = http.Header{mcp.HeaderName: {"known"}}
	if _, err := conn.Do(testContext(t), r); err != nil {
		t.Fatal(err)
	}
	if _, got, _ = s.seen("tools/call"); got.Header.Get(mcp.HeaderName) != "known" {
		t.Errorf("the name that was given became %q", got.Header.Get(mcp.HeaderName))
	}
	_, got, _ = s.seen("server/discover")
	if got.Header.Get("Mcp-Method") != "server/discover" || got.Header.Get("Mcp-Protocol-Version") != "2026-07-28" {
		t.Errorf("server/discover had the headers %v", got.Header)
	}
	_, got, _ = s.seen("notifications/x")
	if got.Header.Get("Mcp-Method") != "notifications/x" {
		t.Errorf("the notification had the headers %v", got.Header)
	}
	conn.Close()
	if n := len(s.saw(http.MethodGet)) + len(s.saw(http.MethodDelete)); n != 0 {
		t.Errorf("there were %d requests by GET and DELETE, which the modern era does not have", n)
	}
}

func TestALegacySessionIsKeptAndEnded(t *testing.T) {
	t.Parallel()
	s := newWeb(t, &web{session: "s-1"})
	conn := mustDial(t, Config{URL: s.URL, Capabilities: jsontext.Value(`{"roots":{}}`)}, Peer{})
	try(t, conn)
	_, first, m := s.seen("initialize")
	if first.Header.Get("Mcp-Session-Id") != "" || !strings.Contains(string(m.Params), `"capabilities":{"roots":{}}`) {
		t.Errorf("initialize was %s with %v", m.Params, first.Header)
	}
	conn.Close()
	conn.Close()
	_, initialized, _ := s.seen("notifications/initialized")
	_, call, _ := s.seen("tools/call")
	deleted := s.saw(http.MethodDelete)
	if len(deleted) != 1 {
		t.Fatalf("the session was ended %d times, want once", len(deleted))
	}
	for _, r := range []*http.Request{initialized, call, deleted[0]} {
		if r.Header.Get("Mcp-Session-Id") != "s-1" || r.Header.Get("Mcp-Protocol-Version") != "2025-11-25" ||
			r.Header.Get("Mcp-Method") != "" {
			t.Errorf("%s had the headers %v", r.Method, r.Header)
		}
	}
}

func TestALostSessionEndsTheConnectionAndNothingRan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
	}{
		{404, "gone"},
		{404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`},
		{400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`},
		{400, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Missing session ID"}}`},
		{400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}`},
		{400, "Invalid or missing session ID"},
	} {
		s := newWeb(t, &web{session: "s", post: func(w http.ResponseWriter, _ *http.Request, _ mcp.Message) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		}})
		conn := mustDial(t, Config{URL: s.URL}, Peer{})
		_, err := conn.Do(testContext(t), toolCall(conn, "x", `{}`))
		if !errors.Is(err, errSessionLost) || Sent(err) {
			t.Errorf("%d %s: got %v (sent %v), want that the session is lost and nothing was sent", c.status, c.body, err,
				Sent(err))
		}
		testkit.Receive(t, "the end of the connection", conn.Done())
		if !errors.Is(conn.Err(), errSessionLost) {
			t.Errorf("%d %s: the connection ended with %v", c.status, c.body, conn.Err())
		}
		conn.Close()
		if n := len(s.saw(http.MethodDelete)); n != 0 {
			t.Errorf("the lost session was ended %d times", n)
		}
	}
}

// What a call itself was answered is its answer, whatever words are in it.
func TestAnAnswerThatSpeaksOfSessionsIsAnAnswer(t *testing.T) {
	t.Parallel()
	s := newWeb(t, &web{session: "s", post: func(w http.ResponseWriter, _ *http.Request, m mcp.Message) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"No such session"}}`, m.ID)
	}})
	conn := mustDial(t, Config{URL: s.URL}, Peer{})
	m, err := conn.Do(testContext(t), toolCall(conn, "x", `{}`))
	if err != nil || m.Err == nil || conn.Err() != nil {
		t.Errorf("got %s, %v, and the connection ended with %v", m.Bytes(), err, conn.Err())
	}
}

func TestRetryAfterIsRead(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "-1": 0, "soon": 0,
		"999999999":                     24 * time.Hour,
		"Sat, 28 Nov 2026 12:00:30 GMT": 30 * time.Second, "Sat, 28 Nov 2026 11:00:00 GMT": 0} {
		s := newWeb(t, &web{era: mcp.Modern, post: func(w http.ResponseWriter, _ *http.Request, _ mcp.Message) {
			w.Header().Set("Retry-After", header)
			w.Header().Set("Date", "Sat, 28 Nov 2026 12:00:00 GMT")
			w.WriteHeader(429)
		}})
		conn := mustDial(t, Config{URL: s.URL}, Peer{})
		_, err := conn.Do(testContext(t), toolCall(conn, "x", `{}`))
		if got, busy := RetryAfter(err); got != want || !busy {
			t.Errorf("%q: got %v, %v, want %v", header, got, busy, want)
		}
	}
}

func TestASessionThatIsRefusedIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newWeb(t, &web{session: "s", post: func(w http.ResponseWriter, _ *http.Request, _ mcp.Message) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request"}}`)
	}})
	conn := mustDial(t, Config{URL: s.URL}, Peer{})
	if err := conn.(*httpConn).probe(testContext(t)); !errors.Is(err, errSessionRefused) {
		t.Errorf("the probe says %v, want that the session is refused", err)
	}
	testkit.Receive(t, "the end of the connection", conn.Done())
	if !errors.Is(conn.Err(), errSessionRefused) {
		t.Errorf("the connection ended with %v", conn.Err())
	}
}

func TestABrokenStreamIsTakenUpFromTheLastWholeEvent(t *testing.T) {
	t.Parallel()
	var s *web
	gets := 0
	s = newWeb(t, &web{session: "s",
		post: func(w http.ResponseWriter, _ *http.Request, _ mcp.Message) {
			stream(w, "retry: 1\nid: e1\ndata:\n\nid: e2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":1}}\n\nid: e3\ndata: {\"jso")
		},
		get: func(w http.ResponseWriter, r *http.Request) {
			last := r.Header.Get("Last-Event-ID")
			if last == "" {
				http.Error(w, "", http.StatusMethodNotAllowed)
				return
			}
			gets++
			switch gets {
			case 1: // it ends politely, with nothing new
				stream(w, "retry: 1\n\n")
			case 2:
				panic(http.ErrAbortHandler)
			case 3:
				http.Error(w, "", http.StatusServiceUnavailable)
			case 4:
				stream(w, "id: e4\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":2}}\n\n")
			default:
				_, _, call := s.seen("tools/call")
				stream(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"n\":%[1]s}}\n\n", call.ID)
			}
		}})
	conn := mustDial(t, Config{URL: s.URL}, Peer{})
	r := toolCall(conn, "x", `{}`)
	on := 0
	r.OnNotification = func(mcp.Message) { on++ }
	m, err := conn.Do(testContext(t), r)
	if err != nil || string(m.Result) != `{"n":`+string(r.ID)+`}` || on != 2 {
		t.Errorf("got %s, %v after %d notifications, want the answer after two", m.Bytes(), err, on)
	}
	var lasts []string
	for _, g := range s.saw(http.MethodGet) {
		if last := g.Header.Get("Last-Event-ID"); last != "" {
			lasts = append(lasts, last)
		}
		if g.Header.Get("Mcp-Session-Id") != "s" || g.Header.Get("Accept") != "text/event-stream" {
			t.Errorf("GET had the headers %v", g.Header)
		}
	}
	if want := []string{"e2", "e2", "e2", "e2", "e4"}; !slices.Equal(lasts, want) {
		t.Errorf("it was taken up from %v, want %v", lasts, want)
	}
	if n, _, _ := s.seen("tools/call"); n != 1 {
		t.Errorf("the server saw the call %d times, want once", n)
	}
}

func TestAStreamThatCannotBeTakenUpMayHaveRun(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 405, 400} {
		s := newWeb(t, &web{session: "s",
			post: func(w http.ResponseWriter, _ *http.Request, _ mcp.Message) { stream(w, "retry: 1\nid: e1\ndata:\n\n") },
			get:  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", status) }})
		conn := mustDial(t, Config{URL: s.URL}, Peer{})
		_, err := conn.Do(testContext(t), toolCall(conn, "x", `{}`))
		if err == nil || !Sent(err) || errors.Is(err, errSessionLost) != (status == 404) {
			t.Errorf("with status %d got %v, want that it was sent", status, err)
		}
	}
}

func TestAModernStreamIsNotTakenUp(t *testing.T) {
	t.Parallel()
	s := newWeb(t, &web{era: mcp.Modern, post: func(w http.ResponseWriter, _ *http.Request, _ mcp.Message) {
		stream(w, "retry: 1\nid: e1\ndata:\n\n")
	}})
	conn := mustDial(t, Config{URL: s.URL}, Peer{})
	_, err := conn.Do(testContext(t), toolCall(conn, "x", `{}`))
	if err == nil || !Sent(err) || len(s.saw(http.MethodGet)) != 0 {
		t.Errorf("got %v and %d GETs, want an error and none", err, len(s.saw(http.MethodGet)))
	}
}

func TestCancellingOverHTTP(t *testing.T) {
	t.Parallel()
	for _, e := range bothEras {
		for _, started := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream started %v", e.name, started), func(t *testing.T) {
				running, closed := make(chan struct{}), make(chan struct{})
				told := make(chan mcp.Message, 1)
				s := newWeb(t, &web{era: e.era, post: func(w http.ResponseWriter, r *http.Request, m mcp.Message) {
					if m.IsNotification() {
						told <- m
						w.WriteHeader(202)
						return
					}
					if started {
						stream(w, "id: 1\ndata:\n\n")
					}
					close(running)
					<-r.Context().Done()
					close(closed)
				}})
				conn := mustDial(t, Config{URL: s.URL}, Peer{})
				ctx, cancel := context.WithCancel(testContext(t))
				go func() { <-running; cancel() }()
				r := toolCall(conn, "x", `{}`)
				_, err := conn.Do(ctx, r)
				if !errors.Is(err, context.Canceled) || !Sent(err) {
					t.Errorf("got %v (sent %v), want that it was cancelled and sent", err, Sent(err))
				}
				testkit.Receive(t, "the request's end", closed)
				if e.era == mcp.Modern {
					conn.Close()
					if len(told) != 0 {
						t.Error("a modern server was told by a message")
					}
					return
				}
				m := testkit.Receive(t, "what the server was told", told)
				o, _ := mcp.ReadObject(m.Params)
				if m.Method != "notifications/cancelled" || string(o.Get("requestId")) != string(r.ID) {
					t.Errorf("the server was told %s, want that %s is cancelled", m.Bytes(), r.ID)
				}
			})
		}
	}
}

func TestWhatNeverLeftWasNotSent(t *testing.T) {
	t.Parallel()
	s := newWeb(t, &web{era: mcp.Modern})
	var blocked atomic.Bool
	dialing := make(chan struct{}, 1)
	test, letGo := testkit.Latch()
	defer letGo()
	transport := NewTransport()
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if blocked.Load() {
			dialing <- struct{}{}
			<-test // a transport dials on when the request is given up
			return nil, errors.New("too late")
		}
		return dial(ctx, network, addr)
	}
	conn := mustDial(t, Config{URL: s.URL, Transport: transport}, Peer{})
	transport.CloseIdleConnections()
	blocked.Store(true)
	ctx, cancel := context.WithCancel(testContext(t))
	go func() { <-dialing; cancel() }()
	if _, err := conn.Do(ctx, toolCall(conn, "x", `{}`)); !errors.Is(err, context.Canceled) || Sent(err) {
		t.Errorf("got %v (sent %v), want one that was not sent", err, Sent(err))
	}
	blocked.Store(false)
	letGo()
	s.CloseClientConnections()
	s.Close()
	if _, err := conn.Do(testContext(t), toolCall(conn, "x", `{}`)); err == nil || Sent(err) {
		t.Errorf("after the server is gone got %v (sent %v), want one that was not sent", err, Sent(err))
	}
	if _, err := Dial(testContext(t), Config{URL: s.URL}, Peer{}); err == nil || !strings.Contains(err.Error(),
		"cannot be reached") {
		t.Errorf("got %v, want that it cannot be reached", err)
	}
}

// closed is a connection that can be found closed when something is written to it.
type closed struct {
	net.Conn
	now *atomic.Bool
}

func (c closed) Write(b []byte) (int, error) {
	if c.now.Load() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func TestARequestMeetingAClosedConnectionGoesOutOnANewOne(t *testing.T) {
	t.Parallel()
	s := newWeb(t, &web{era: mcp.Modern})
	var dead *atomic.Bool
	var refuse bool
	transport := NewTransport()
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if refuse {
			return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
		}
		c, err := dial(ctx, network, addr)
		dead = new(atomic.Bool)
		return closed{c, dead}, err
	}
	conn := mustDial(t, Config{URL: s.URL, Transport: transport}, Peer{})
	dead.Store(true)
	try(t, conn)
	if n, _, _ := s.seen("tools/call"); n != 1 {
		t.Errorf("the server saw the call %d times, want once", n)
	}
	dead.Store(true)
	refuse = true
	if _, err := conn.Do(testContext(t), toolCall(conn, "x", `{}`)); err == nil || Sent(err) {
		t.Errorf("where there is no new one got %v (sent %v), want one that was not sent", err, Sent(err))
	}
}

// A server may close a kept connection just when a request is written to it. The request must then be
// sent once or not at all, and what is said of it must be true.
func TestNoRequestIsSentTwiceOverKeptConnections(t *testing.T) {
	t.Parallel()
	for _, header := range []http.Header{nil, {"Idempotency-Key": {"k"}}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		ran := map[string]int{}
		var serving sync.WaitGroup
		serving.Go(func() {
			for {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				serving.Go(func() {
					defer nc.Close()
					// It answers one request and closes, at once or when the next has come.
					for n := 0; ; n++ {
						m, err := readPost(nc)
						if err != nil {
							return
						}
						mu.Lock()
						ran[string(m.ID)]++
						odd := len(ran)%2 == 1
						mu.Unlock()
						if n > 0 {
							return
						}
						body := mcp.Response(m.ID, jsontext.Value(`{"supportedVersions":["2026-07-28"]}`)).Bytes()
						fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body),
							body)
						if odd {
							return
						}
					}
				})
			}
		})
		conn := mustDial(t, Config{URL: "http://" + l.Addr().String(), Header: header}, Peer{})
		answered, unknown := 0, 0
		for range 200 {
			r := toolCall(conn, "x", `{}`)
			_, err := conn.Do(testContext(t), r)
			mu.Lock()
			n := ran[string(r.ID)]
			mu.Unlock()
			switch {
			case n > 1, err == nil && n != 1, err != nil && !Sent(err) && n != 0:
				t.Fatalf("a request ran %d times, and Do said %v (sent %v)", n, err, Sent(err))
			case err == nil:
				answered++
			case n == 1:
				unknown++
			}
		}
		if answered == 0 || unknown == 0 {
			t.Errorf("%d were answered and %d ran without an answer: the test shows nothing", answered, unknown)
		}
		conn.Close()
		l.Close()
		testkit.Wait(t, "the server's end", serving.Wait)
	}
}

func readPost(nc net.Conn) (mcp.Message, error) {
	var head []byte
	for b := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); head = append(head, b[0]) {
		if _, err := nc.Read(b); err != nil {
			return mcp.Message{}, err
		}
	}
	var length int
	for line := range strings.SplitSeq(string(head), "\r\n") {
		fmt.Sscanf(line, "Content-Length: %d", &length)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(nc, body); err != nil {
		return mcp.Message{}, err
	}
	m, bad := mcp.Parse(body)
	if bad != nil {
		return m, bad
	}
	return m, nil
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 307, 308} {
		reached := false
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
		s := newWeb(t, &web{era: mcp.Modern, post: func(w http.ResponseWriter, r *http.Request, _ mcp.Message) {
			http.Redirect(w, r, other.URL+r.URL.Path+"/?key=hidden", status)
		}})
		conn := mustDial(t, Config{URL: s.URL + "/mcp/0123456789abcdefg"}, Peer{})
		_, err := conn.Do(testContext(t), toolCall(conn, "x", `{}`))
		refused := status > 303 // the others may come after it was done
		if err == nil || Sent(err) == refused || IsRefused(err) != refused || reached ||
			!strings.HasSuffix(err.Error(), ", a redirect to "+other.URL+
				"/mcp/.../, which is not followed; give that address instead") {
			t.Errorf("with status %d got %v (sent %v), and the other server was reached: %v", status, err, Sent(err), reached)
		}
		other.Close()
	}
}

func TestNoErrorHoldsASecret(t *testing.T) {
	t.Parallel()
	s := newWeb(t, &web{era: mcp.Modern})
	withUser := strings.Replace(s.URL, "http://", "http://someone:hidden1@", 1) + "/x?key=hidden2"
	cfg := Config{URL: withUser, Header: http.Header{"X-Key": {"hidden3"}}}
	conn := mustDial(t, cfg, Peer{})
	try(t, conn)
	_, r, _ := s.seen("tools/call")
	if user, password, _ := r.BasicAuth(); user != "someone" || password != "hidden1" ||
		r.Header.Get("X-Key") != "hidden3" || r.URL.Query().Get("key") != "hidden2" {
		t.Errorf("the server got %s and %v, want all that was configured", r.URL, r.Header)
	}
	s.CloseClientConnections()
	s.Close()
	_, after := conn.Do(testContext(t), toolCall(conn, "x", `{}`))
	_, refused := Dial(testContext(t), cfg, Peer{})
	cfg.Header = http.Header{"X-Key": {"hidden3\n"}}
	_, header := Dial(testContext(t), cfg, Peer{})
	_, scheme := Dial(testContext(t), Config{URL: "ftp://someone:hidden1@h/?hidden2"}, Peer{})
	_, unread := Dial(testContext(t), Config{URL: "http://someone:hidden1@h:port/?hidden2"}, Peer{})
	_, wrapped := Dial(testContext(t), Config{URL: withUser, Transport: clientTransport{}}, Peer{})
	for _, err := range []error{after, refused, header, scheme, unread, wrapped} {
		if err == nil || strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "someone") {
			t.Errorf("the error is %v", err)
		}
	}
}

// clientTransport is a transport that goes through a whole client, whose errors repeat the URL.
type clientTransport struct{}

func (clientTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := http.NewRequest(r.Method, r.URL.String(), nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(c)
}

func TestWhatALegacyServerSendsByItself(t *testing.T) {
	t.Parallel()
	answers := make(chan mcp.Message, 4)
	opened := 0
	s := newWeb(t, &web{session: "s",
		post: func(w http.ResponseWriter, _ *http.Request, m mcp.Message) {
			if m.IsResponse() {
				answers <- m
				w.WriteHeader(202)
				return
			}
			stream(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"in call\",\"method\":\"elicitation/create\"}\n\n")
			answers <- <-answers
			stream(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"n\":%[1]s}}\n\n", m.ID)
		},
		get: func(w http.ResponseWriter, r *http.Request) {
			opened++
			if opened == 1 {
				stream(w, "retry: 1\nid: g1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
				return
			}
			stream(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/from/%s\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"roots/list\"}\n\n", r.Header.Get("Last-Event-ID"))
			<-r.Context().Done()
		}})
	got := make(chan string, 10)
	conn := mustDial(t, Config{URL: s.URL}, Peer{
		Notification: func(m mcp.Message) { got <- m.Method },
		Ask: func(_ context.Context, m mcp.Message) mcp.Message {
			return mcp.Response(nil, mcp.Quote("the peer on "+m.Method))
		},
	})
	for _, want := range []string{"notifications/tools/list_changed", "notifications/from/g1"} {
		if m := testkit.Receive(t, "a notification", got); m != want {
			t.Errorf("the peer got %s, want %s", m, want)
		}
	}
	answered := []string{string(testkit.Receive(t, "an answer", answers).Bytes()),
		string(testkit.Receive(t, "an answer", answers).Bytes())}
	slices.Sort(answered)
	want := []string{`{"jsonrpc":"2.0","id":"p","result":{}}`,
		`{"jsonrpc":"2.0","id":"q","result":"the peer on roots/list"}`}
	if !slices.Equal(answered, want) {
		t.Errorf("the server was answered %q, want %q", answered, want)
	}
	for _, c := range []struct {
		ask  func(context.Context, mcp.Message) mcp.Message
		want string
	}{
		{nil, "the peer on elicitation/create"},
		{func(context.Context, mcp.Message) mcp.Message { return mcp.Response(nil, mcp.Quote("the request")) },
			"the request"},
	} {
		r := toolCall(conn, "x", `{}`)
		r.Ask = c.ask
		if _, err := conn.Do(testContext(t), r); err != nil {
			t.Fatal(err)
		}
		if a := testkit.Receive(t, "an answer", answers); string(a.ID) != `"in call"` || mcp.Text(a.Result) != c.want {
			t.Errorf("the server was answered %s, want %q", a.Bytes(), c.want)
		}
		if m := testkit.Receive(t, "a notification", got); m != "notifications/message" {
			t.Errorf("the peer got %s, want notifications/message", m)
		}
	}
}

func TestASubscriptionOverHTTPGoesOnUntilItIsCancelled(t *testing.T) {
	t.Parallel()
	s := newWeb(t, &web{era: mcp.Modern, post: func(w http.ResponseWriter, r *http.Request, _ mcp.Message) {
		for i := range 3 {
			stream(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/n%d\"}\n\n", i)
		}
		<-r.Context().Done()
	}})
	conn := mustDial(t, Config{URL: s.URL}, Peer{})
	ctx, cancel := context.WithCancel(testContext(t))
	var got []string
	_, err := conn.Do(ctx, Request{ID: conn.NewID(), Method: "subscriptions/listen", OnNotification: func(m mcp.Message) {
		if got = append(got, m.Method); len(got) == 3 {
			cancel()
		}
	}})
	if want := []string{"notifications/n0", "notifications/n1", "notifications/n2"}; !errors.Is(err, context.Canceled) ||
		!slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v until it is cancelled", got, err, want)
	}
}

func TestCloseEndsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	for _, e := range bothEras {
		running := make(chan struct{}, 1)
		s := newWeb(t, &web{era: e.era, post: func(_ http.ResponseWriter, r *http.Request, _ mcp.Message) {
			running <- struct{}{}
			<-r.Context().Done()
		}})
		conn := mustDial(t, Config{URL: s.URL}, Peer{})
		go func() { <-running; conn.Close() }()
		_, err := conn.Do(testContext(t), toolCall(conn, "x", `{}`))
		if !errors.Is(err, errClosed) || !Sent(err) {
			t.Errorf("got %v (sent %v), want that the connection is closed, and sent", err, Sent(err))
		}
		if _, err = conn.Do(testContext(t), toolCall(conn, "x", `{}`)); !errors.Is(err, errClosed) || Sent(err) {
			t.Errorf("after Close got %v (sent %v)", err, Sent(err))
		}
	}
}

func TestKeptConnectionsServeAgain(t *testing.T) { // alone: it is about what takes little time
	for _, sse := range []bool{false, true} {
		var mu sync.Mutex
		opened, busy := 0, map[net.Conn]bool{}
		s := &web{era: mcp.Modern, post: func(w http.ResponseWriter, _ *http.Request, m mcp.Message) {
			if sse {
				stream(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"n\":%[1]s}}\n\n", m.ID)
				time.Sleep(2 * time.Millisecond) // real: the end comes after the answer
				return
			}
			reply(w, m, `{"n":`+string(m.ID)+`}`)
		}}
		s.Server = httptest.NewUnstartedServer(s)
		s.Config.ConnState = func(c net.Conn, state http.ConnState) {
			mu.Lock()
			defer mu.Unlock()
			if state == http.StateNew {
				opened++
			}
			if busy[c] = true; state == http.StateIdle || state == http.StateClosed {
				delete(busy, c)
			}
		}
		s.Start()
		conn := mustDial(t, Config{URL: s.URL}, Peer{})
		for range 50 {
			try(t, conn)
			testkit.Eventually(t, "the answer's end", func() bool { mu.Lock(); defer mu.Unlock(); return len(busy) == 0 })
			time.Sleep(5 * time.Millisecond) // real: the client reads that end; half of the time this may be too short
		}
		mu.Lock()
		if opened > 25 {
			t.Errorf("50 calls in turn opened %d connections (stream %v)", opened, sse)
		}
		mu.Unlock()
		conn.Close()
		s.CloseClientConnections()
		s.Close()
	}
}
