package rest

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"countersign/approval"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/auth"
	"countersign/internal/store/sqlite"
)

// BenchmarkCallsHTTP is what 64 callers get over real connections: quarantined calls, each a new row;
// allowed ones, each an audit row; polls of an empty feed; and, as the yardstick of the same run, an echo
// of the same JSON.
func BenchmarkCallsHTTP(b *testing.B) {
	broker := approval.NewBroker()
	db, err := sqlite.Open(b.Context(), sqlite.Options{Path: b.TempDir() + "/gate.db", OnCommit: broker.Publish})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	gate := approval.NewGate(approval.Options{Store: db, Broker: broker, Policy: rules{byName, terms},
		Notifier: outbox.New(outbox.Options{Store: db, Audit: approval.NewAuditLog(nil), Routing: outboxtest.To("line",
			"U1")})})
	mux := http.NewServeMux()
	mux.Handle("/v1/", New(Options{Gate: gate, Directory: auth.NewDirectory(agentsConfigured, nil),
		Logger: slog.New(slog.DiscardHandler)}))
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c, err := readCall(body, "bot")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = w.Write(c.Args.Canonical())
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	defer transport.CloseIdleConnections()
	hc := &http.Client{Transport: transport}
	var n atomic.Int64
	for _, tt := range []struct {
		name, method, path, tool string
		want                     int
	}{
		{"quarantined", "POST", "/v1/calls", "transfer", 202}, {"allowed", "POST", "/v1/calls", "read_file", 200},
		{"feed", "GET", "/v1/approvals/resolved", "", 200}, {"echo", "POST", "/echo", "transfer", 200},
	} {
		b.Run(tt.name, func(b *testing.B) {
			pad := strings.Repeat("x", 500)
			b.SetParallelism(32) // of 2 cores: 64 callers
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					body := fmt.Appendf(nil, `{"tool":%q,"args":{"n":%d,"text":%q},"session_id":"s"}`, tt.tool, n.Add(1), pad)
					req, _ := http.NewRequest(tt.method, srv.URL+tt.path, bytes.NewReader(body))
					req.Header.Set("Authorization", "Bearer "+botToken)
					req.Header.Set("Content-Type", "application/json")
					resp, err := hc.Do(req)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if resp.StatusCode != tt.want {
						b.Errorf("got %d", resp.StatusCode)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

// BenchmarkReadCall is reading one call of about 1 KiB.
func BenchmarkReadCall(b *testing.B) {
	body := fmt.Appendf(nil, `{"tool":"transfer","args":{"n":1,"text":%q},"session_id":"s","rationale":"because"}`,
		strings.Repeat("x ", 450))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readCall(body, "bot"); err != nil {
			b.Fatal(err)
		}
	}
}
