package downstream

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"countersign/internal/mcp"
	"countersign/internal/testkit"
)

// ear is a server that remembers what it was asked, and says something before it answers.
type ear struct {
	mu    sync.Mutex
	heard []mcp.Message
	eras  []mcp.Era
}

type earSession struct {
	*ear
	c Client
}

func (e *ear) Open(c Client) Session { return earSession{e, c} }
func (e earSession) Request(_ context.Context, m mcp.Message, s Stream) mcp.Message {
	e.mu.Lock()
	e.heard, e.eras = append(e.heard, m), append(e.eras, e.c.Era)
	e.mu.Unlock()
	if len(m.Params)%2 == 0 {
		_ = s.Send(mcp.Notification("notifications/message", m.Params))
	}
	return mcp.Response(m.ID, mcp.Quote(m.Method))
}
func (earSession) Notify(context.Context, mcp.Message) {}
func (earSession) ParamHeaders(_ string) []mcp.ParamHeader {
	return []mcp.ParamHeader{{Path: []string{"a"}, Header: "Mcp-Param-A"}}
}
func (earSession) Close() {}

// isMessage reports whether b is one JSON-RPC message.
func isMessage(b []byte) bool {
	var m struct {
		JSONRPC string
		ID      json.RawMessage
		Method  string
	}
	return json.Unmarshal(b, &m) == nil && m.JSONRPC == "2.0" && (m.ID != nil || m.Method != "")
}

func FuzzPost(f *testing.F) {
	for _, body := range []string{initialize, call(1, "echo", ""), call(1, "echo", ","+modernMeta),
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`, "[]", "",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"b","arguments":{"a":"é"},` + modernMeta + `}}`} {
		f.Add("POST", true, mcp.VersionModern, "tools/call", "echo", "=?base64?w6k=?=", "application/json, text/event-stream",
			body)
		f.Add("POST", false, "", "", "", "", "*/*", body)
	}
	f.Add("DELETE", true, "", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, method string, named bool, version, methodHeader, name, param, accept, body string) {
		if method == http.MethodGet {
			method = "" // it would stay open
		}
		e, l := &ear{}, &testkit.Buffer{}
		h := NewHTTP(HTTPOptions{Sessions: e, Authenticate: func(*http.Request) (Caller, error) {
			return Caller{Agent: "a"}, nil
		}, Logger: l.Logger(), MaxBody: 1 << 16})
		defer h.Close()
		serve := func(method string, header http.Header, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequest("POST", "/", strings.NewReader(body))
			r.Method, r.Header = method, header
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
		session := serve("POST", header, initialize).Header().Get(mcp.HeaderSession)
		e.heard, e.eras = nil, nil
		for k, v := range map[string]string{mcp.HeaderVersion: version, mcp.HeaderMethod: methodHeader, mcp.HeaderName: name,
			"Mcp-Param-A": param, "Accept": accept} {
			if v != "" {
				header.Set(k, v)
			}
		}
		if named {
			header.Set(mcp.HeaderSession, session)
		}
		w := serve(method, header, body)

		switch w.Header().Get("Content-Type") {
		case "application/json":
			if !isMessage(w.Body.Bytes()) {
				t.Errorf("%d with %q", w.Code, w.Body)
			}
		case "text/event-stream":
			for _, event := range strings.SplitAfter(w.Body.String(), "\n\n") {
				if data, ok := strings.CutPrefix(event, "event: message\ndata: "); event != "" &&
					(!ok || strings.Count(data, "\n") != 2 || strings.Contains(data, "\r")) {
					t.Errorf("an event is %q", event)
				}
			}
		case "":
			if w.Body.Len() > 0 || w.Code < 200 || w.Code > 204 {
				t.Errorf("%d with %q", w.Code, w.Body)
			}
		default:
			if w.Code != 404 {
				t.Errorf("%d, %v", w.Code, w.Header())
			}
		}
		for i, m := range e.heard {
			if e.eras[i] == mcp.Legacy {
				if !named && m.Method != "initialize" || version == mcp.VersionModern {
					t.Errorf("served as legacy: %s", m.Bytes())
				}
				continue
			}
			var p struct {
				Name, URI, TaskID string
				Meta              map[string]json.RawMessage `json:"_meta"`
			}
			_ = json.Unmarshal(m.Params, &p)
			want := map[string]string{"tools/call": p.Name, "prompts/get": p.Name, "resources/read": p.URI}[m.Method]
			if got, ok := mcp.DecodeHeader(header.Get(mcp.HeaderName)); want != "" && got != want &&
				header.Get(mcp.HeaderName) != want || want != "" && !ok && header.Get(mcp.HeaderName) != want {
				t.Errorf("served %q under the name %q", want, name)
			}
			if named || version != mcp.VersionModern || methodHeader != m.Method || string(p.Meta[mcp.MetaVersion]) == "" ||
				m.Method == "initialize" {
				t.Errorf("served as modern: %s, under %v", m.Bytes(), header)
			}
		}
		if strings.Contains(l.String(), "panic") {
			t.Error(l)
		}
	})
}

func FuzzStdio(f *testing.F) {
	f.Add([]byte(initialize + "\n" + call(1, "echo", "") + "\n" + call(1, "echo", ","+modernMeta)))
	f.Add([]byte("{\n[]\n\r\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` +
		"\n\x00"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a\n","method":"a","params":{` + "\r" + modernMeta + `}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		e, l := &ear{}, &testkit.Buffer{}
		var out bytes.Buffer
		if err := Stdio(context.Background(), bytes.NewReader(in), &out, StdioOptions{Sessions: e,
			Logger: l.Logger()}); err != nil {
			t.Error(err)
		}
		lines := bytes.SplitAfter(out.Bytes(), []byte("\n"))
		for _, line := range lines[:len(lines)-1] {
			if !isMessage(line) {
				t.Errorf("wrote %q", line)
			}
		}
		if rest := lines[len(lines)-1]; len(rest) > 0 {
			t.Errorf("the last line is %q", rest)
		}
		if strings.Contains(l.String(), "panic") || strings.Contains(l.String(), "level=WARN") {
			t.Error(l)
		}
	})
}

func FuzzGuard(f *testing.F) {
	f.Add("localhost:80", "http://localhost:80")
	f.Add("gate.example", "https://gate.example")
	f.Add("[::1", "null")
	f.Fuzz(func(t *testing.T, host, origin string) {
		r := &http.Request{Host: host, Header: http.Header{"Origin": {origin}}}
		if (Guard{Loopback: true}).Check(r) == nil && (!isLoopback(host) || !strings.Contains(strings.ToLower(origin),
			"://")) {
			t.Errorf("host %q and origin %q were let in", host, origin)
		}
		_ = (Guard{Allowed: []string{host, origin}}).Check(r)
	})
}
