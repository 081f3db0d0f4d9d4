package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"countersign/client"
)

// bank is an MCP server with one tool, which takes whole cents.
func bank(t *testing.T) string {
	t.Helper()
	return serverThatLists(t, `"result":{"tools":[{"name":"pay","inputSchema":{"type":"object",`+
		`"properties":{"cents":{"type":"integer"}},"required":["cents"]}}]}`)
}

// serverThatLists is an MCP server that answers so when it is asked for its tools.
func serverThatLists(t *testing.T, tools string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "initialize":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},`+
				`"serverInfo":{"name":"bank","version":"1"}}}`, m.ID)
		case "tools/list":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, tools)
		case "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// What a person approves in place of a call's arguments must be what the tool takes, where its server is ours to ask.
func TestAnEditIsHeldToTheSchemaOfAToolBehindTheGateway(t *testing.T) {
	t.Parallel()
	url := bank(t)
	w := newWorld(t, func(text string) string {
		return text + "\nmcp:\n  servers:\n    - {name: bank, url: \"" + url + "\"}\n"
	})
	var a client.Answer
	cents := 500
	w.eventually("what the tool does not take is refused", func() bool { // once the server is there
		cents++
		a = w.call(client.Call{Server: "bank", Tool: "pay", Args: fmt.Appendf(nil, `{"cents":%d}`, cents)})
		_, err := w.hana.Decide(w.ctx, a.ApprovalID, client.Approve, "",
			client.WithArgs(json.RawMessage(`{"cents":"secret"}`)))
		return client.CodeOf(err) == "invalid_args" &&
			err.Error() == "invalid_args: The tool does not take these args: args.cents must be of type integer."
	})
	if _, err := w.hana.Decide(w.ctx, a.ApprovalID, client.Approve, "",
		client.WithArgs(json.RawMessage(`{"cents":5}`))); err != nil {
		t.Fatal(err)
	}
	if r := w.status(a.ApprovalID); r.Status != "denied" || r.ReasonCode != "edited" {
		t.Errorf("%s, %s", r.Status, r.ReasonCode)
	}
}

// What an MCP server has and agents are not offered is named where whoever runs the gate looks.
func TestReadinessNamesWhatIsNotOffered(t *testing.T) {
	t.Parallel()
	broken := serverThatLists(t, `"error":{"code":-32603,"message":"boom"}`)
	odd := serverThatLists(t, `"result":{"tools":[{"name":"fine"},{"name":"odd","inputSchema":"none"}]}`)
	w := newWorld(t, func(text string) string {
		return text + "\nmcp:\n  servers:\n    - {name: broken, url: \"" + broken + "\"}\n    - {name: odd, url: \"" + odd +
			"\"}\n"
	})
	for _, want := range []string{"the MCP server broken: its tools are not offered: tools/list: boom",
		`the MCP server odd: \"odd\": its inputSchema `} {
		w.eventually(want, func() bool { return strings.Contains(w.get("/readyz"), want) })
	}
	if got := w.get("/readyz"); !strings.Contains(got, `"status":"ready"`) {
		t.Errorf("the gate itself is %s", got)
	}
}
