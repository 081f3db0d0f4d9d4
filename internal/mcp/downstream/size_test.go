package downstream

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"countersign/internal/mcp"
)

// long is a message that has size bytes once %s in it is filled up.
func long(format string, size int) string {
	return fmt.Sprintf(format, strings.Repeat("x", size-len(format)+len("%s")))
}

const (
	longCall   = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"}}}`
	longModern = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"},` +
		modernMeta + `}}`
	longNote      = `{"jsonrpc":"2.0","method":"notifications/initialized","params":{"text":"%s"}}`
	longAnswer    = `{"jsonrpc":"2.0","id":99,"result":{"text":"%s"}}`
	longState     = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{},"requestState":"%s",` + modernMeta + `}}`
	longResponses = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{},"inputResponses":{"image":{"data":"%s"}},` + modernMeta + `}}`
)

func TestARequestHasAtMostOneMebibyteAndAnAnswerMore(t *testing.T) {
	s := newSite(t)
	session := s.session(t)
	for _, c := range []struct {
		name, format string
		size, status int
		id           string // of the error
	}{
		{"a request", longCall, 1<<20 + 1, 413, "7"},
		{"just short enough", longCall, 1 << 20, 200, ""},
		{"a modern one", longModern, 1<<20 + 1, 413, "7"},
		{"a notification", longNote, 1<<20 + 1, 413, "null"},
		{"an answer", longAnswer, 3 << 20, 202, ""},
		{"answers that come with the request", longResponses, 3 << 20, 200, ""},
		{"a server's state that comes back", longState, 3 << 20, 200, ""},
		{"an answer that is too long too", longAnswer, 4<<20 + 1, 413, "null"},
	} {
		h := session
		if strings.Contains(c.format, "_meta") {
			h = http.Header{"Mcp-Protocol-Version": {mcp.VersionModern}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"echo"}}
		}
		resp, body := s.post(t, h, long(c.format, c.size))
		code, id, _ := errorOf(body)
		if resp.StatusCode != c.status || id != c.id && c.id != "" || (code == 0) != (c.id == "") {
			t.Errorf("%s: got %s, error %d of %s; want %d of %s", c.name, resp.Status, code, id, c.status, c.id)
		}
		if c.status == 413 && !strings.Contains(body, "bytes") {
			t.Errorf("%s: it does not say why: %s", c.name, body)
		}
	}
}

func TestStdioRefusesALongRequestByItsID(t *testing.T) {
	w := newWire(t)
	w.say(initialize)
	w.hear()
	for _, c := range []struct {
		name, line string
		code       int
	}{
		{"a request", long(longCall, 1<<20+1), -32600},
		{"just short enough", long(longCall, 1<<20), 0},
		{"a modern one", long(longModern, 1<<20+1), -32600},
		{"answers that come with the request", long(longResponses, 3<<20), 0},
	} {
		w.say(c.line)
		got := w.hear()
		code, id, _ := errorOf(got)
		if code != c.code || code != 0 &&
			(id != "7" || !strings.Contains(got, "1048577 bytes, and at most 1048576 are taken. Nothing was run")) {
			t.Errorf("%s: got %.300s, want code %d", c.name, got, c.code)
		}
	}
	w.say(long(longAnswer, 3<<20)) // to nothing: only its size matters
	w.say(call(8, "echo", ""))
	if code, _, _ := errorOf(w.hear()); code != 0 {
		t.Errorf("after a long answer: code %d", code)
	}
	if err := w.end(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
