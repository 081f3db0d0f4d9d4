package upstream

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
)

// BenchmarkDo is a call with an argument of 600 bytes that comes back, to a server in this process; plain
// is the same exchange with net/http alone.
func BenchmarkDo(b *testing.B) {
	arguments := `{"text":"` + strings.Repeat("x", 600) + `"}`
	for _, sse := range []bool{false, true} {
		s := newWeb(b, &web{era: mcp.Modern})
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			m, _ := mcp.Parse(body)
			if sse {
				stream(w, "event: message\ndata: %s\n\n", mcp.Response(m.ID, m.Params).Bytes())
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Write(mcp.Response(m.ID, m.Params).Bytes())
		})
		direct := httptest.NewServer(handler)
		kind := map[bool]string{false: "JSON", true: "SSE"}[sse]
		b.Run(kind, func(b *testing.B) {
			conn, err := Dial(b.Context(), Config{URL: s.URL}, Peer{})
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			s.post = func(_ http.ResponseWriter, _ *http.Request, _ mcp.Message) {}
			s.Config.Handler = handler
			b.ReportAllocs()
			for b.Loop() {
				id := conn.NewID()
				m, err := conn.Do(b.Context(), Request{ID: id, Method: "tools/call", Params: params(conn, id, "echo", arguments)})
				if err != nil || m.Result == nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(kind+"/plain", func(b *testing.B) {
			client := &http.Client{Transport: NewTransport()}
			defer client.CloseIdleConnections()
			b.ReportAllocs()
			for b.Loop() {
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}`, arguments)
				res, err := client.Post(direct.URL, "application/json", strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		})
		direct.CloseClientConnections()
		direct.Close()
	}
	b.Run("stdio", func(b *testing.B) {
		conn, err := Dial(b.Context(), fake("plain"), Peer{})
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		b.ReportAllocs()
		for b.Loop() {
			id := conn.NewID()
			if _, err := conn.Do(b.Context(), Request{ID: id, Method: "tools/call",
				Params: jsontext.Value(arguments)}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
