package downstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"countersign/internal/mcp"
	"countersign/internal/testkit"
)

// quick answers at once, with next to nothing of its own.
type quick struct{ result []byte }

func (q quick) Open(Client) Session { return q }
func (q quick) Request(_ context.Context, m mcp.Message, _ Stream) mcp.Message {
	return mcp.Response(m.ID, q.result)
}
func (quick) Notify(context.Context, mcp.Message)   {}
func (quick) ParamHeaders(string) []mcp.ParamHeader { return nil }
func (quick) Close()                                {}

// sink is a ResponseWriter that keeps nothing.
type sink struct{ h http.Header }

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}

func quickHTTP(b *testing.B) *HTTP {
	h := NewHTTP(HTTPOptions{Sessions: quick{[]byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 200) +
		`"}]}`)},
		Authenticate: func(*http.Request) (Caller, error) { return Caller{Agent: "a"}, nil }})
	b.Cleanup(h.Close)
	return h
}

// The handler alone: what it costs on top of net/http.
func BenchmarkPost(b *testing.B) {
	for _, era := range []string{"legacy", "modern"} {
		b.Run(era, func(b *testing.B) {
			h := quickHTTP(b)
			header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			body := call(1, "echo", "")
			if era == "modern" {
				for k, v := range modernHeaders("echo") {
					header[k] = v
				}
				body = call(1, "echo", ","+modernMeta)
			} else {
				w := httptest.NewRecorder()
				r := httptest.NewRequest("POST", "/", strings.NewReader(initialize))
				r.Header = header
				h.ServeHTTP(w, r)
				header = with(header, "Mcp-Session-Id", w.Header().Get("Mcp-Session-Id"))
			}
			r := httptest.NewRequest("POST", "/", nil)
			r.Header, r.ContentLength = header, int64(len(body))
			w := &sink{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				r.Body = io.NopCloser(strings.NewReader(body))
				h.ServeHTTP(w, r)
			}
		})
	}
}

// The handler behind a listener, one connection, beside a handler that only reads and writes.
func BenchmarkPostOverTCP(b *testing.B) {
	h := quickHTTP(b)
	body := call(1, "echo", ","+modernMeta)
	raw := fmt.Sprintf(
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for name, handler := range map[string]http.Handler{"downstream": h,
		"bare": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			_, _ = w.Write(b)
		})} {
		b.Run(name, func(b *testing.B) {
			srv := httptest.NewServer(handler)
			defer srv.Close()
			c, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			in := bufio.NewReader(c)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := io.WriteString(c, raw); err != nil {
					b.Fatal(err)
				}
				resp, err := http.ReadResponse(in, nil)
				if err != nil || resp.StatusCode != 200 {
					b.Fatal(resp, err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
			}
		})
	}
}

func BenchmarkStdio(b *testing.B) {
	in, toUs := io.Pipe()
	fromUs, out := io.Pipe()
	done := make(chan error)
	go func() { done <- Stdio(context.Background(), in, out, StdioOptions{Sessions: quick{[]byte(`{}`)}}) }()
	r := bufio.NewReader(fromUs)
	line := []byte(call(1, "echo", ","+modernMeta) + "\n")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := toUs.Write(line); err != nil {
			b.Fatal(err)
		}
		if _, err := r.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
	}
	toUs.Close()
	if err := testkit.Receive(b, "the end of Stdio", done); err != nil {
		b.Fatal(err)
	}
}

// What a request costs in memory that is held: as it comes, and once its client is shown signs of life.
// The clients' ends of the connections are in it, which are small.
func BenchmarkHeld(b *testing.B) {
	const held = 2000
	for name, signs := range map[string]bool{"silent": false, "shown": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f := newFake()
				h := NewHTTP(HTTPOptions{Sessions: f, Authenticate: func(*http.Request) (Caller, error) {
					return Caller{Agent: "a"}, nil
				}})
				srv := httptest.NewServer(h)
				if signs {
					h.keepAliveAfter = 1
				}
				body := call(1, "hold", ","+modernMeta)
				raw := fmt.Sprintf(
					"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: hold\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				before := inUse()
				conns := make([]net.Conn, held)
				for i := range conns {
					c, err := net.Dial("tcp", srv.Listener.Addr().String())
					if err != nil {
						b.Fatal(err)
					}
					conns[i] = c
					if _, err := io.WriteString(c, raw); err != nil {
						b.Fatal(err)
					}
				}
				for range held {
					testkit.Receive(b, "a call is held", f.holding)
				}
				if signs {
					one := make([]byte, 1)
					for _, c := range conns {
						if _, err := c.Read(one); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(inUse()-before)/held, "B/held")
				close(f.released)
				for _, c := range conns {
					c.Close()
				}
				h.Close()
				srv.Close()
			}
		})
	}
}

// inUse returns how much memory Go has in use, stacks included.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
