package downstream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"countersign/internal/mcp"
	"countersign/internal/testkit"
)

const (
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`
)

// call is a tools/call of either era.
func call(id int, tool, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":{}%s}}`, id, tool,
		more)
}

// modernHeaders are what goes with a modern tools/call.
func modernHeaders(tool string) http.Header {
	return http.Header{"Mcp-Protocol-Version": {mcp.VersionModern}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {tool}}
}

func (s *site) request(t testing.TB, method string, h http.Header, body io.Reader) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.srv.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer one")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range h {
		r.Header[k] = v
	}
	if host := h.Get("Host"); host != "" {
		r.Host = host
	}
	resp, err := s.srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (s *site) post(t testing.TB, h http.Header, body string) (*http.Response, string) {
	t.Helper()
	resp := s.request(t, http.MethodPost, h, strings.NewReader(body))
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// session opens a legacy session and returns the header that names it.
func (s *site) session(t testing.TB) http.Header {
	t.Helper()
	resp, body := s.post(t, nil, initialize)
	id := resp.Header.Get(mcp.HeaderSession)
	if resp.StatusCode != 200 || len(id) < 26 {
		t.Fatalf("initialize: got %s, session %q, %s", resp.Status, id, body)
	}
	return http.Header{"Mcp-Session-Id": {id}}
}

func with(h http.Header, pairs ...string) http.Header {
	n := h.Clone()
	if n == nil {
		n = http.Header{}
	}
	for i := 0; i < len(pairs); i += 2 {
		n[pairs[i]] = []string{pairs[i+1]}
	}
	return n
}

func without(h http.Header, name string) http.Header {
	n := h.Clone()
	delete(n, name)
	return n
}

func errorOf(body string) (code int, id, data string) {
	var m struct {
		ID    json.RawMessage
		Error struct {
			Code int
			Data json.RawMessage
		}
	}
	if json.Unmarshal([]byte(body), &m) != nil {
		return 0, "", ""
	}
	return m.Error.Code, string(m.ID), string(m.Error.Data)
}

func TestWhatIsRefused(t *testing.T) {
	s := newSite(t, func(o *HTTPOptions) { o.MaxBody = 4096 })
	s.params = []mcp.ParamHeader{{Path: []string{"where"}, Header: "Mcp-Param-Where"}}
	session := s.session(t)
	echo := call(7, "echo", "")
	modernEcho := call(7, "echo", ","+modernMeta)
	where := func(v string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"headers","arguments":{` + v + `},` +
			modernMeta + `}}`
	}
	fault := func(code int) string {
		return fmt.Sprintf(
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"error","arguments":{"code":%d},%s}}`, code,
			modernMeta)
	}
	method := func(name string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"` + name + `","params":{` + modernMeta + `}}`
	}
	big := strings.Repeat(" ", 5000)
	for name, c := range map[string]struct {
		method string
		h      http.Header
		body   string
		status int
		code   int    // 0: no error
		id     string // of the error
	}{
		"no token":         {"POST", http.Header{"Authorization": nil}, echo, 401, -32600, "null"},
		"a wrong token":    {"POST", http.Header{"Authorization": {"Bearer nobody"}}, echo, 401, -32600, "null"},
		"a person's token": {"POST", http.Header{"Authorization": {"Bearer person"}}, echo, 403, -32600, "null"},
		"a foreign host":   {"POST", http.Header{"Host": {"evil.example"}}, echo, 403, -32600, "null"},
		"a foreign origin": {"POST", http.Header{"Origin": {"http://evil.example"}}, echo, 403, -32600, "null"},
		"a rebound page": {"POST", http.Header{"Host": {"evil.example"}, "Origin": {"http://evil.example"}},
			echo, 403, -32600, "null"},
		"PUT":          {"PUT", nil, echo, 405, -32600, "null"},
		"OPTIONS":      {"OPTIONS", nil, "", 405, -32600, "null"},
		"GET alone":    {"GET", nil, "", 405, -32600, "null"},
		"DELETE alone": {"DELETE", nil, "", 405, -32600, "null"},
		"a modern GET": {"GET", with(session, "Mcp-Protocol-Version", mcp.VersionModern), "", 405, -32600,
			"null"},
		"GET, strange":                  {"GET", http.Header{"Mcp-Session-Id": {"unknown"}}, "", 404, 0, ""},
		"DELETE, strange":               {"DELETE", http.Header{"Mcp-Session-Id": {"unknown"}}, "", 404, 0, ""},
		"another's GET":                 {"GET", with(session, "Authorization", "Bearer two"), "", 404, 0, ""},
		"another's DELETE":              {"DELETE", with(session, "Authorization", "Bearer two"), "", 404, 0, ""},
		"GET without Accept of streams": {"GET", with(session, "Accept", "application/json"), "", 406, -32600, "null"},
		"GET in no version": {"GET", with(session, "Mcp-Protocol-Version", "1999-01-01"), "", 400, -32022,
			"null"},

		"text":                  {"POST", http.Header{"Content-Type": {"text/plain"}}, echo, 415, -32600, "null"},
		"no Content-Type":       {"POST", http.Header{"Content-Type": nil}, echo, 415, -32600, "null"},
		"wants pictures":        {"POST", http.Header{"Accept": {"image/png"}}, echo, 406, -32600, "null"},
		"wants no JSON, really": {"POST", http.Header{"Accept": {"application/json;q=0"}}, echo, 406, -32600, "null"},
		"too large":             {"POST", session, echo + big, 413, -32600, "null"},
		"empty":                 {"POST", session, "", 400, -32700, "null"},
		"no JSON":               {"POST", session, "{", 400, -32700, "null"},
		"two messages":          {"POST", session, echo + echo, 400, -32700, "null"},
		"a batch":               {"POST", session, "[" + echo + "]", 400, -32600, "null"},
		"an empty batch":        {"POST", session, "[]", 400, -32600, "null"},
		"a number":              {"POST", session, "7", 400, -32600, "null"},
		"two methods": {"POST", session, `{"jsonrpc":"2.0","id":7,"method":"ping","Method":"tools/call"}`, 400,
			-32600, "null"},
		"two names": {"POST", session,
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","name":"hold"}}`, 400, -32602, "7"},
		"a null id":        {"POST", session, `{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400, -32600, "null"},
		"the old JSON-RPC": {"POST", session, `{"id":7,"method":"ping"}`, 400, -32600, "7"},
		"no session":       {"POST", nil, echo, 400, -32600, "7"},
		"no session, notifying": {"POST", nil, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 400, -32600,
			"null"},
		"no session, responding": {"POST", nil, `{"jsonrpc":"2.0","id":1,"result":{}}`, 400, -32600, "null"},
		"a notified initialize":  {"POST", nil, `{"jsonrpc":"2.0","method":"initialize","params":{}}`, 400, -32600, "null"},
		"an unknown session":     {"POST", http.Header{"Mcp-Session-Id": {"unknown"}}, echo, 404, 0, ""},
		"another's session":      {"POST", with(session, "Authorization", "Bearer two"), echo, 404, 0, ""},
		"initialize again":       {"POST", session, initialize, 400, -32600, "0"},
		"initialize that fails": {"POST", nil,
			`{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"refused"}}`, 200, -32602, "7"},
		"no such version":        {"POST", with(session, "Mcp-Protocol-Version", "1999-01-01"), echo, 400, -32022, "7"},
		"initialize, no version": {"POST", http.Header{"Mcp-Protocol-Version": {"2199-01-01"}}, initialize, 400, -32022, "0"},
		"both eras by header":    {"POST", with(session, "Mcp-Protocol-Version", mcp.VersionModern), echo, 400, -32600, "7"},
		"both eras by _meta":     {"POST", session, modernEcho, 400, -32600, "7"},
		"two session headers": {"POST", http.Header{"Mcp-Session-Id": {session.Get("Mcp-Session-Id"), "b"}}, echo, 400,
			-32020, "null"},
		"a legacy error":  {"POST", session, call(7, "nobody's", ""), 200, -32602, "7"},
		"a legacy method": {"POST", session, `{"jsonrpc":"2.0","id":7,"method":"unknown"}`, 200, -32601, "7"},
		"a panic":         {"POST", session, call(7, "panic", ""), 200, -32603, "7"},
		"no answer":       {"POST", session, call(7, "nothing", ""), 200, -32603, "7"},

		"modern, fine": {"POST", modernHeaders("echo"), modernEcho, 200, 0, ""},
		"modern, no version header": {"POST", without(modernHeaders("echo"), "Mcp-Protocol-Version"), modernEcho, 400,
			-32020, "7"},
		"modern, other version": {"POST", with(modernHeaders("echo"), "Mcp-Protocol-Version", "v999"), modernEcho, 400,
			-32020, "7"},
		"modern, legacy version": {"POST", with(modernHeaders("echo"), "Mcp-Protocol-Version", mcp.VersionLegacy),
			modernEcho, 400, -32020, "7"},
		"modern, unknown version": {"POST", with(modernHeaders("echo"), "Mcp-Protocol-Version", "v999"),
			strings.Replace(modernEcho, mcp.VersionModern, "v999", 1), 400, -32022, "7"},
		"modern, two versions": {"POST", http.Header{"Mcp-Protocol-Version": {mcp.VersionModern, mcp.VersionModern}},
			modernEcho, 400, -32020, "null"},
		"modern, no _meta": {"POST", modernHeaders("echo"), echo, 400, -32602, "7"},
		"modern, no params": {"POST", modernHeaders("echo"), `{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, 400,
			-32602, "7"},
		"modern, _meta a number": {"POST", modernHeaders("echo"), call(7, "echo", `,"_meta":1`), 400, -32602, "7"},
		"modern, no capabilities": {"POST", modernHeaders("echo"), strings.Replace(modernEcho, "clientCapabilities", "c",
			1), 400, -32602, "7"},
		"modern, bad capabilities": {"POST", modernHeaders("echo"), strings.Replace(modernEcho, `Capabilities":{}`,
			`Capabilities":[]`, 1), 400, -32602, "7"},
		"modern, version a number": {"POST", modernHeaders("echo"), strings.Replace(modernEcho, `"2026-07-28"`, `2026`, 1),
			400, -32602, "7"},
		"modern, version twice": {"POST", modernHeaders("echo"), strings.Replace(modernEcho, `"_meta":{`,
			`"_meta":{"io.modelcontextprotocol/protocolversion":"x",`, 1), 400, -32602, "7"},
		"modern, no method header": {"POST", without(modernHeaders("echo"), "Mcp-Method"), modernEcho, 400, -32020, "7"},
		"modern, other method": {"POST", with(modernHeaders("echo"), "Mcp-Method", "tools/list"), modernEcho, 400,
			-32020, "7"},
		"modern, method in capitals": {"POST", with(modernHeaders("echo"), "Mcp-Method", "TOOLS/CALL"), modernEcho, 400,
			-32020, "7"},
		"modern, no name header":   {"POST", without(modernHeaders("echo"), "Mcp-Name"), modernEcho, 400, -32020, "7"},
		"modern, other name":       {"POST", modernHeaders("hold"), modernEcho, 400, -32020, "7"},
		"modern, name with spaces": {"POST", modernHeaders("  echo  "), modernEcho, 200, 0, ""},
		"modern, name encoded":     {"POST", modernHeaders("=?base64?ZWNobw==?="), modernEcho, 200, 0, ""},
		"modern, other encoded":    {"POST", modernHeaders("=?base64?aG9sZA==?="), modernEcho, 400, -32020, "7"},
		"modern, badly encoded":    {"POST", modernHeaders("=?base64?ZWNo!?="), modernEcho, 400, -32020, "7"},
		"modern initialize": {"POST", with(modernHeaders(""), "Mcp-Method", "initialize"), method("initialize"), 404,
			-32601, "7"},
		"modern, unknown method": {"POST", with(modernHeaders(""), "Mcp-Method", "unknown"), method("unknown"), 404,
			-32601, "7"},
		"modern response": {"POST", modernHeaders("echo"), `{"jsonrpc":"2.0","id":1,"result":{}}`, 400, -32600,
			"null"},
		"modern, unknown tool": {"POST", modernHeaders("nobody's"), call(7, "nobody's", ","+modernMeta), 200, -32602,
			"7"},
		"modern, capability missing": {"POST", modernHeaders("error"), fault(-32021), 400, -32021, "7"},
		"modern, other error":        {"POST", modernHeaders("error"), fault(-31001), 200, -31001, "7"},
		"modern, argument header": {"POST", with(modernHeaders("headers"), "Mcp-Param-Where", "here"),
			where(`"where":"here"`), 200, 0, ""},
		"modern, it is encoded": {"POST", with(modernHeaders("headers"), "Mcp-Param-Where", "=?base64?aGVyZQ==?="),
			where(`"where":"here"`), 200, 0, ""},
		"modern, it differs": {"POST", with(modernHeaders("headers"), "Mcp-Param-Where", "there"),
			where(`"where":"here"`), 400, -32020, "7"},
		"modern, it is missing": {"POST", modernHeaders("headers"), where(`"where":"here"`), 400, -32020, "7"},
		"modern, it is of nothing": {"POST", with(modernHeaders("headers"), "Mcp-Param-Where", "here"), where(``), 400,
			-32020, "7"},
		"modern, it is of null": {"POST", with(modernHeaders("headers"), "Mcp-Param-Where", "null"), where(`"where":null`),
			400, -32020, "7"},
		"modern, it is twice": {"POST", http.Header{"Mcp-Protocol-Version": {mcp.VersionModern},
			"Mcp-Method": {"tools/call"}, "Mcp-Name": {"headers"}, "Mcp-Param-Where": {"here", "here"}}, where(`"where":"here"`),
			400, -32020, "7"},
		"modern, it cannot be": {"POST", modernHeaders("headers"), where(`"where":{}`), 200, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			resp := s.request(t, c.method, c.h, strings.NewReader(c.body))
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			code, id, _ := errorOf(string(b))
			if resp.StatusCode != c.status || code != c.code || c.code != 0 && id != c.id {
				t.Errorf("got %d, code %d of %s, want %d, %d of %s\n%s", resp.StatusCode, code, id, c.status, c.code, c.id, b)
			}
			if (resp.StatusCode == 401) != (resp.Header.Get("WWW-Authenticate") == "Bearer") {
				t.Errorf("WWW-Authenticate is %q with %d", resp.Header.Get("WWW-Authenticate"), resp.StatusCode)
			}
			if (resp.StatusCode == 405) != (resp.Header.Get("Allow") != "") {
				t.Errorf("Allow is %q with %d", resp.Header.Get("Allow"), resp.StatusCode)
			}
		})
	}
	if n := len(s.sessions()); n != 1 {
		t.Errorf("%d sessions are open, want the one", n)
	}
}

func TestUnsupportedVersionsSayWhatIsSpoken(t *testing.T) {
	s := newSite(t)
	_, body := s.post(t, http.Header{"Mcp-Protocol-Version": {"2199-01-01"}}, initialize)
	if _, _, data := errorOf(body); data != `{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2199-01-01"}` {
		t.Errorf("got %s", data)
	}
}

func TestBodiesOfUnknownLengthAreBounded(t *testing.T) {
	s := newSite(t, func(o *HTTPOptions) { o.MaxBody = 4096 })
	resp := s.request(t, http.MethodPost, s.session(t), io.MultiReader(strings.NewReader(call(1, "echo", "")),
		strings.NewReader(strings.Repeat(" ", 5000))))
	if resp.StatusCode != 413 {
		t.Errorf("got %s, want 413", resp.Status)
	}
}

func TestASessionLivesFromInitializeToDelete(t *testing.T) {
	s := newSite(t)
	session := s.session(t)
	if resp, body := s.post(t, session,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`); resp.StatusCode != 202 || body != "" {
		t.Errorf("a notification: got %s, %q", resp.Status, body)
	}
	for _, version := range append(mcp.LegacyVersions, "") {
		h := session
		if version != "" {
			h = with(session, "Mcp-Protocol-Version", version)
		}
		resp, body := s.post(t, h, call(1, "echo", ""))
		if want := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"agent-1 {}"}]}}`; resp.StatusCode != 200 || body != want {
			t.Errorf("%s: got %s\n%s, want\n%s", version, resp.Status, body, want)
		}
	}
	if resp, _ := s.post(t, session, `{"jsonrpc":"2.0","id":99,"result":{}}`); resp.StatusCode != 202 {
		t.Errorf("a late response: got %s", resp.Status)
	}
	if resp, _ := s.post(t, session, `{"jsonrpc":"2.0","method":"notifications/panic"}`); resp.StatusCode != 202 {
		t.Errorf("a notification that panics: got %s", resp.Status)
	}
	if got := s.notified; len(got) != 1 || got[0] != "notifications/initialized" {
		t.Errorf("notified %v", got)
	}
	if resp := s.request(t, http.MethodDelete, session, nil); resp.StatusCode != 204 {
		t.Errorf("DELETE: got %s", resp.Status)
	}
	if n := len(s.sessions()); n != 0 {
		t.Errorf("%d sessions after DELETE", n)
	}
	if resp, _ := s.post(t, session, call(2, "echo", "")); resp.StatusCode != 404 {
		t.Errorf("after DELETE: got %s", resp.Status)
	}
}

func TestStillIsOfTheLatestCredential(t *testing.T) {
	s := newSite(t)
	session := s.session(t)
	for _, c := range []struct{ token, want string }{{"one", "nil"}, {"one-again", "rotated"}, {"one", "nil"}} {
		if _, body := s.post(t, with(session, "Authorization", "Bearer "+c.token),
			call(1, "still", "")); !strings.Contains(body, c.want) {
			t.Errorf("%s: got %s, want %s", c.token, body, c.want)
		}
	}
}

func TestAnswersAreJSONUntilSomethingWasSent(t *testing.T) {
	s := newSite(t)
	session := s.session(t)
	const done = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"%s"}]}}`
	event := func(m string) string { return "event: message\ndata: " + m + "\n\n" }
	progress := ""
	for i := range 5 {
		progress += event(
			fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{ "progressToken":"t","progress":%d}}`,
				i+1))
	}
	for name, c := range map[string]struct {
		tool, accept, kind, body string
	}{
		"nothing sent":      {"echo", "", "application/json", fmt.Sprintf(done, "agent-1 {}")},
		"progress":          {"progress", "", "text/event-stream", progress + event(fmt.Sprintf(done, "progressed"))},
		"progress, any":     {"progress", "*/*", "text/event-stream", progress + event(fmt.Sprintf(done, "progressed"))},
		"progress, unheard": {"progress", "application/json", "application/json", fmt.Sprintf(done, "progressed")},
		"asked, unheard": {"ask", "application/json", "application/json",
			fmt.Sprintf(done, "not asked: this client cannot be asked")},
		"only streams": {"echo", "text/event-stream", "text/event-stream", event(fmt.Sprintf(done, "agent-1 {}"))},
		"lines in an answer": {"pretty", "text/event-stream", "text/event-stream",
			event(`{"jsonrpc":"2.0","id":1,"result":{   "content": [  ] }}`)},
		"lines as they came": {"pretty", "", "application/json",
			"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\r\n \"content\": [\n ]\n}}"},
	} {
		t.Run(name, func(t *testing.T) {
			h := session
			if c.accept != "" {
				h = with(session, "Accept", c.accept)
			}
			resp, body := s.post(t, h, call(1, c.tool, `,"_meta":{"progressToken":"t"}`))
			if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || got != c.kind || body != c.body {
				t.Errorf("got %s %s\n%q, want %s\n%q", resp.Status, got, body, c.kind, c.body)
			}
		})
	}
	if resp, body := s.post(t, http.Header{"Accept": {"text/event-stream"}},
		initialize); resp.Header.Get("Mcp-Session-Id") == "" || !strings.HasPrefix(body, "event: message\n") {
		t.Errorf("initialize as a stream: got %v, %s", resp.Header, body)
	}
}

// lineOf reads an open stream up to a line that starts so.
func lineOf(t *testing.T, r *bufio.Reader, start string) string {
	t.Helper()
	for {
		l, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("waiting for %q: %v", start, err)
		}
		if strings.HasPrefix(l, start) {
			return strings.TrimSuffix(l, "\n")
		}
	}
}

func TestAHeldRequestOutlivesTheServersTimeOuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleSite(t)
		session := s.session(t)
		for accept, kind := range map[string]string{"application/json, text/event-stream": "text/event-stream",
			"application/json": "application/json"} {
			s.released = make(chan struct{})
			type result struct {
				kind, body string
			}
			got := make(chan result)
			go func() {
				resp, body := s.post(t, with(session, "Accept", accept), call(1, "hold", ""))
				got <- result{resp.Header.Get("Content-Type"), body}
			}()
			<-s.holding
			testkit.Elapse(3 * max(s.srv.Config.ReadTimeout, s.srv.Config.WriteTimeout))
			close(s.released)
			g := <-got
			if g.kind != kind || !strings.Contains(g.body, "released") {
				t.Errorf("got %s, %q, want %s", g.kind, g.body, kind)
			}
			if n := strings.Count(g.body, ": the request is worked on\n\n"); (n > 1) != (kind == "text/event-stream") {
				t.Errorf("%s: %d signs of life", kind, n)
			}
		}
	})
}

func TestARequestEndsWithItsClient(t *testing.T) {
	s := newSite(t)
	for name, end := range map[string]struct {
		do    func(session http.Header, hangUp func())
		cause error
	}{
		"cancelled": {func(h http.Header, _ func()) {
			s.post(t, h, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
		}, ErrCancelled},
		"disconnect": {func(_ http.Header, hangUp func()) { hangUp() }, context.Canceled},
		"DELETE":     {func(h http.Header, _ func()) { s.request(t, http.MethodDelete, h, nil) }, errSessionEnded},
	} {
		t.Run(name, func(t *testing.T) {
			session := s.session(t)
			ctx, hangUp := context.WithCancel(t.Context())
			r, _ := http.NewRequestWithContext(ctx, "POST", s.srv.URL, strings.NewReader(call(5, "hold", "")))
			r.Header = with(session, "Authorization", "Bearer one", "Content-Type", "application/json")
			done := make(chan struct{})
			go func() {
				defer close(done)
				if resp, err := s.srv.Client().Do(r); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}()
			testkit.Receive(t, "a held call", s.holding)
			for _, other := range []string{"6", `"5"`, "[]"} {
				s.post(t, session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+other+`}}`)
			}
			select {
			case err := <-s.gaveUp:
				t.Fatalf("it ended already: %v", err)
			default:
			}
			if resp, body := s.post(t, session, call(5, "echo", "")); resp.StatusCode != 400 || !strings.Contains(body,
				"not answered yet") {
				t.Errorf("the id again: got %s %s", resp.Status, body)
			}
			end.do(session, hangUp)
			if err := testkit.Receive(t, "a call given up", s.gaveUp); err != end.cause {
				t.Errorf("given up because %v, want %v", err, end.cause)
			}
			hangUp()
			testkit.Receive(t, "the answer", done)
		})
	}
}

func TestAModernClientCancelsByHangingUp(t *testing.T) {
	s := newSite(t)
	ctx, hangUp := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, "POST", s.srv.URL, strings.NewReader(call(5, "hold", ","+modernMeta)))
	r.Header = with(modernHeaders("hold"), "Authorization", "Bearer one", "Content-Type", "application/json")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := s.srv.Client().Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	testkit.Receive(t, "a held call", s.holding)
	hangUp()
	if err := testkit.Receive(t, "a call given up", s.gaveUp); err != ErrCancelled {
		t.Errorf("given up because %v", err)
	}
	testkit.Receive(t, "the answer", done)
}

func TestARequestOfOneSessionIsNotCancelledByAnother(t *testing.T) {
	s := newSite(t)
	a, b := s.session(t), s.session(t)
	got := make(chan string)
	go func() {
		_, body := s.post(t, a, call(5, "hold", ""))
		got <- body
	}()
	testkit.Receive(t, "a held call", s.holding)
	s.post(t, b, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	s.request(t, http.MethodDelete, b, nil)
	close(s.released)
	if body := testkit.Receive(t, "the answer", got); !strings.Contains(body, "released") {
		t.Errorf("got %s", body)
	}
}

// asked starts a call that asks, and returns its stream and the id of what it asks.
func (s *site) asked(t *testing.T, session http.Header, id int, tool string) (*bufio.Reader, string) {
	t.Helper()
	resp := s.request(t, http.MethodPost, session, strings.NewReader(call(id, tool, "")))
	stream := bufio.NewReader(resp.Body)
	var m struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(lineOf(t, stream, "data: "), "data: ")), &m); err != nil {
		t.Fatal(err)
	}
	return stream, string(m.ID)
}

func TestOnlyTheSessionThatWasAskedAnswers(t *testing.T) {
	s := newSite(t)
	a, b := s.session(t), s.session(t)
	streamA, idA := s.asked(t, a, 1, "ask")
	_, idB := s.asked(t, b, 1, "ask")
	if idA != idB {
		t.Logf("ids %s and %s", idA, idB)
	}
	response := func(action string) string {
		return `{"jsonrpc":"2.0","id":` + idA + `,"result":{"action":"` + action + `"}}`
	}
	s.post(t, b, response("accept"))
	if resp, _ := s.post(t, with(a, "Authorization", "Bearer two"), response("accept")); resp.StatusCode != 404 {
		t.Errorf("another agent's response: got %s, want 404", resp.Status)
	}
	s.post(t, a, response("decline"))
	if got := lineOf(t, streamA, "data: "); !strings.Contains(got, "answered: decline") {
		t.Errorf("got %s", got)
	}
	s.post(t, a, response("accept")) // too late
}

func TestAClientThatIsNotWaitedForIsTold(t *testing.T) {
	for _, tool := range []string{"ask", "ask patiently"} {
		s := newSite(t)
		session := s.session(t)
		stream, id := s.asked(t, session, 1, tool)
		s.post(t, session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		if got, want := lineOf(t, stream, "data: "),
			`data: {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := lineOf(t, stream, "data: "); !strings.Contains(got, "not asked: the client cancelled the request") {
			t.Errorf("got %s", got)
		}
	}
}

func TestAQuestionThatNeedsNoAnswerIsTakenBack(t *testing.T) {
	s := newSite(t)
	session := s.session(t)
	stream, id := s.asked(t, session, 1, "ask briefly")
	close(s.released)
	if got, want := lineOf(t, stream, "data: "),
		`data: {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := lineOf(t, stream, "data: "); !strings.Contains(got, "not asked: a person was faster") {
		t.Errorf("got %s", got)
	}
}

func TestASessionThatBeginsWhenAllEndsIsRefused(t *testing.T) {
	for name, end := range map[string]func(h *HTTP){
		"closed":            (*HTTP).Close,
		"the grace is over": func(h *HTTP) { h.cancelAll(errStopping) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			done := make(chan string)
			go func() {
				resp, body := s.post(t, nil, strings.Replace(initialize, mcp.VersionLegacy, "slow", 1))
				done <- resp.Header.Get(mcp.HeaderSession) + body
			}()
			testkit.Receive(t, "a held call", s.holding)
			end(s.h)
			if got := testkit.Receive(t, "the answer", done); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":0,"error"`) {
				t.Errorf("got %s", got)
			}
			testkit.Eventually(t, "its end", func() bool { return len(s.sessions()) == 0 })
		})
	}
}

func TestAClientThatDoesNotReadIsGone(t *testing.T) {
	for name, limit := range map[string]time.Duration{"the server's limit": 50 * time.Millisecond, "our own": 0} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.srv.Close()
			s.srv = httptest.NewUnstartedServer(s.h)
			s.srv.Config.WriteTimeout = limit
			s.srv.Start()
			s.h.writeWait = 50 * time.Millisecond
			defer s.srv.Close()
			body := call(1, "flood", "")
			raw := fmt.Sprintf(
				"POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer one\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s",
				s.session(t).Get(mcp.HeaderSession), len(body), body)
			c, err := net.Dial("tcp", s.srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, raw); err != nil {
				t.Fatal(err)
			}
			if err := testkit.Receive(t, "a call given up", s.gaveUp); err != context.Canceled {
				t.Errorf("given up because %v", err)
			}
		})
	}
}

func TestATooLargeBodyIsNotWaitedFor(t *testing.T) {
	s := newSite(t)
	c, err := net.Dial("tcp", s.srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c,
		"POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer one\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	if l, err := bufio.NewReader(c).ReadString('\n'); !strings.HasPrefix(l, "HTTP/1.1 413") {
		t.Errorf("got %q, %v", l, err)
	}
}

func TestNothingIsSentBeforeASessionHasItsName(t *testing.T) {
	s := newSite(t)
	s.h.keepAliveAfter = time.Nanosecond
	for _, accept := range []string{"*/*", "text/event-stream"} {
		resp, body := s.post(t, http.Header{"Accept": {accept}}, initialize)
		if resp.Header.Get(mcp.HeaderSession) == "" || strings.Contains(body, "notifications") {
			t.Errorf("got %v\n%s", resp.Header, body)
		}
	}
}

func TestWhatComesInAfterTheEndIsGivenUp(t *testing.T) {
	s := newSite(t)
	in, message := io.Pipe()
	done := make(chan string)
	go func() {
		resp := s.request(t, http.MethodPost, modernHeaders("hold"), in)
		b, _ := io.ReadAll(resp.Body)
		done <- string(b)
	}()
	if _, err := io.WriteString(message, " "); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the request has come", func() bool {
		s.h.mu.Lock()
		defer s.h.mu.Unlock()
		return s.h.posts == 1
	})
	s.h.cancelAll(errStopping)
	_, _ = io.WriteString(message, call(1, "hold", ","+modernMeta))
	message.Close()
	if err := testkit.Receive(t, "a call given up", s.gaveUp); err != errStopping {
		t.Errorf("given up because %v", err)
	}
	testkit.Receive(t, "the answer", done)
}

func TestASessionIsUsedUntilItsLastAnswer(t *testing.T) {
	s := newSite(t)
	session := s.session(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.post(t, session, call(1, "hold", ""))
	}()
	testkit.Receive(t, "a held call", s.holding)
	released := time.Now()
	close(s.released)
	testkit.Receive(t, "the answer", done)
	c := s.h.sessions[session.Get(mcp.HeaderSession)]
	// The answer is read before the handler has returned.
	testkit.Eventually(t, "it was used", func() bool {
		s.h.mu.Lock()
		defer s.h.mu.Unlock()
		return !c.used.Before(released)
	})
}

func TestTheStreamOfASession(t *testing.T) {
	s := newSite(t)
	s.h.keepAlive = 20 * time.Millisecond
	session := s.session(t)
	push := s.sessions()[0].Push
	changed := mcp.Notification("notifications/tools/list_changed", nil)
	line := func(n int) mcp.Message {
		return mcp.Notification("notifications/message", []byte(fmt.Sprintf(`{"n":%d}`, n)))
	}
	push(changed)
	push(line(0)) // nobody reads
	push(changed)
	get := s.request(t, http.MethodGet, session, nil)
	if get.StatusCode != 200 || get.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %s %v", get.Status, get.Header)
	}
	stream := bufio.NewReader(get.Body)
	if got := lineOf(t, stream, "data: "); !strings.Contains(got, "tools/list_changed") {
		t.Errorf("got %s", got)
	}
	push(line(1))
	if got := lineOf(t, stream, "data: "); !strings.Contains(got, `{"n":1}`) {
		t.Errorf("got %s, want the next message, the list's change once and what nobody read not at all", got)
	}
	lineOf(t, stream, ": ")
	if resp := s.request(t, http.MethodGet, session, nil); resp.StatusCode != 409 {
		t.Errorf("a second stream: got %s, want 409", resp.Status)
	}
	s.request(t, http.MethodDelete, session, nil)
	if _, err := io.ReadAll(stream); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
}

func TestAStreamCanBeOpenedAgain(t *testing.T) {
	s := newSite(t)
	session := s.session(t)
	get := s.request(t, http.MethodGet, session, nil)
	get.Body.Close()
	testkit.Eventually(t, "it is opened again", func() bool {
		return s.request(t, http.MethodGet, session, nil).StatusCode == 200
	})
}

func TestASlowReaderLosesTheOldest(t *testing.T) {
	b := newNotificationQueue((&testkit.Buffer{}).Logger())
	b.attach()
	changed := mcp.Notification("notifications/tools/list_changed", nil)
	for i := range maxQueuedNotifications + 10 {
		b.push(mcp.Notification(fmt.Sprint(i), nil))
		b.push(changed)
	}
	q := b.take()
	if got, want := q[len(q)-1].Method, fmt.Sprint(maxQueuedNotifications+9); len(q) != maxQueuedNotifications ||
		got != want {
		t.Errorf("kept %d up to %s, want %d up to %s", len(q), got, maxQueuedNotifications, want)
	}
}

func TestSessionsThatNobodyUsesEnd(t *testing.T) {
	const unused = 10 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleSite(t, func(o *HTTPOptions) { o.SessionIdle = unused })
		idle, held, listened := s.session(t), s.session(t), s.session(t)
		got := make(chan string)
		go func() {
			_, body := s.post(t, held, call(1, "hold", ""))
			got <- body
		}()
		<-s.holding
		stream := s.request(t, http.MethodGet, listened, nil)
		go func() { _, _ = io.Copy(io.Discard, stream.Body) }() // a pipe keeps nothing for who does not read
		testkit.Elapse(unused - time.Second)
		if n := len(s.sessions()); n != 3 {
			t.Errorf("%d sessions before their time, want 3", n)
		}
		testkit.Elapse(unused)
		if n := len(s.sessions()); n != 2 {
			t.Errorf("%d sessions, want 2", n)
		}
		if resp, _ := s.post(t, idle, call(1, "echo", "")); resp.StatusCode != 404 {
			t.Errorf("the idle one: got %s, want 404", resp.Status)
		}
		if resp, _ := s.post(t, listened, call(1, "echo", "")); resp.StatusCode != 200 {
			t.Errorf("the one with a stream: got %s, want 200", resp.Status)
		}
		close(s.released)
		if body := <-got; !strings.Contains(body, "released") {
			t.Errorf("the one with a request in hand: got %s", body)
		}
		testkit.Elapse(2 * unused)
		if n := len(s.sessions()); n != 1 {
			t.Errorf("%d sessions, want the one with a stream", n)
		}
	})
}

func TestAnAgentsSessionsAreBounded(t *testing.T) {
	s := newSite(t, func(o *HTTPOptions) { o.MaxSessions = 2 })
	first, second := s.session(t), s.session(t)
	s.post(t, first, call(1, "echo", ""))
	third := s.session(t) // second was not used for longer
	for h, want := range map[*http.Header]int{&first: 200, &second: 404, &third: 200} {
		if resp, _ := s.post(t, *h, call(1, "echo", "")); resp.StatusCode != want {
			t.Errorf("got %s, want %d", resp.Status, want)
		}
	}
	done := make(chan struct{})
	for _, h := range []http.Header{first, third} {
		go func() {
			s.post(t, h, call(1, "hold", ""))
			done <- struct{}{}
		}()
		testkit.Receive(t, "a held call", s.holding)
	}
	if resp, _ := s.post(t, nil, initialize); resp.StatusCode != 429 {
		t.Errorf("with both in hand: got %s, want 429", resp.Status)
	}
	if resp, _ := s.post(t, http.Header{"Authorization": {"Bearer two"}}, initialize); resp.StatusCode != 200 {
		t.Errorf("another agent: got %s, want 200", resp.Status)
	}
	close(s.released)
	testkit.Receive(t, "the answer", done)
	testkit.Receive(t, "the answer", done)
	s.post(t, nil, strings.Replace(initialize, "2025-11-25", "refused", 1))
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	if got := s.h.counts["agent-1"]; got > 2 || got != len(s.h.sessions)-1 {
		t.Errorf("counts %d of %d", got, len(s.h.sessions))
	}
}

func TestStoppingEndsWhatWaits(t *testing.T) {
	stopping, stop := context.WithCancel(t.Context())
	s := newSite(t, func(o *HTTPOptions) { o.Stopping = stopping })
	s.h.grace = 20 * time.Millisecond
	session := s.session(t)
	get := s.request(t, http.MethodGet, session, nil)
	bodies := make(chan string, 2)
	for _, c := range []struct {
		h    http.Header
		more string
	}{{session, ""}, {modernHeaders("hold"), "," + modernMeta}} {
		go func() {
			_, body := s.post(t, c.h, call(1, "hold", c.more))
			bodies <- body
		}()
		testkit.Receive(t, "a held call", s.holding)
	}
	stop()
	if _, err := io.ReadAll(get.Body); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
	for range 2 {
		if err := testkit.Receive(t, "a call given up", s.gaveUp); err != errStopping {
			t.Errorf("given up because %v", err)
		}
		if code, _, _ := errorOf(testkit.Receive(t, "the answer", bodies)); code != mcp.CodeInternalError {
			t.Errorf("got code %d", code)
		}
	}
	if resp, body := s.post(t, session, call(2, "echo", "")); resp.StatusCode != 503 {
		t.Errorf("after it: got %s %s", resp.Status, body)
	}
}

func TestCloseEndsAllAndTakesNothingMore(t *testing.T) {
	s := newSite(t)
	session := s.session(t)
	get := s.request(t, http.MethodGet, session, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.post(t, session, call(1, "hold", ""))
	}()
	testkit.Receive(t, "a held call", s.holding)
	s.h.Close()
	if n := len(s.sessions()); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
	testkit.Receive(t, "the answer", done)
	_, _ = io.ReadAll(get.Body)
	if resp, _ := s.post(t, nil, initialize); resp.StatusCode != 503 {
		t.Errorf("got %s, want 503", resp.Status)
	}
	s.h.Close()
}

func TestPanicsAreLoggedAndNothingElseEnds(t *testing.T) {
	s := newSite(t)
	session := s.session(t)
	s.post(t, session, call(1, "panic", ""))
	if resp, _ := s.post(t, session, call(2, "echo", "")); resp.StatusCode != 200 {
		t.Errorf("the next: got %s", resp.Status)
	}
	if got := s.logs.String(); !strings.Contains(got, "as the test wants") || !strings.Contains(got, "fake_test.go") {
		t.Errorf("logged %s", got)
	}
}

func TestAStreamEndsWithTheAnswer(t *testing.T) {
	s := newSite(t)
	session := s.session(t)
	s.post(t, session, call(1, "later", ""))
	close(s.released)
	testkit.Receive(t, "a held call", s.holding)
}

// A client that sends its request and goes on to hang must not hold up anybody, and one that goes half way
// is gone.
func TestHalfAMessageIsNoMessage(t *testing.T) {
	s := newSite(t)
	for _, raw := range []string{"POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer one\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"jsonrpc\"",
		"POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer one\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"json"} {
		c, err := net.Dial("tcp", s.srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(raw)); err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).CloseWrite()
		b, _ := io.ReadAll(c)
		c.Close()
		if len(b) > 0 && !bytes.HasPrefix(b, []byte("HTTP/1.1 400")) {
			t.Errorf("got %s", b)
		}
	}
	if n := s.calls.Load(); n != 0 {
		t.Errorf("%d requests came through", n)
	}
}
