package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

// mostSessions is how many connections the sessions of one agent have to one server.
const mostSessions = 16

func TestRule12_AnAgentsConnectionsToALegacyServerAreCapped(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, "t")
	block := make(chan struct{})
	s.when("tools/call", func(x *turn) {
		if strings.Contains(x.member("arguments"), "hold") {
			select {
			case <-block:
			case <-x.r.Context().Done():
			}
		}
		x.result(`{"content":[{"type":"text","text":"done"}]}`)
	})
	w := one(t, allowAll, 0, s, around{})
	var clients []*wire
	for range mostSessions + 4 {
		c := w.client(false)
		wantText(t, c.call("t", `{}`), "done")
		clients = append(clients, c)
	}
	alive := func() (n int) {
		s.set(func() { n = len(s.known) })
		return n
	}
	testkit.Eventually(t, "the oldest sessions are closed", func() bool {
		return alive() <= mostSessions+1
	}) // and the shared one
	wantText(t, clients[0].call("t", `{}`), "done") // closed meanwhile, and opened again

	var wg sync.WaitGroup
	for _, c := range clients[4:] {
		wg.Go(func() {
			if a := c.call("t", `{"hold":true}`); a.isError() || a.text() != "done" {
				t.Errorf("a call in flight came to %s", a.raw)
			}
		})
	}
	s.await("tools/call", len(clients)+1+mostSessions)
	if a := clients[0].call("t", `{}`); !a.isError() && a.Error == nil || !strings.Contains(string(a.raw),
		"as many as are allowed") {
		t.Errorf("one session too many came to %s", a.raw)
	}
	wantText(t, w.clientAs(false, otherToken, `{}`).call("t", `{}`), "done")
	close(block)
	testkit.Wait(t, "the calls that were held", wg.Wait)
}

// sluggish is a server over stdio that stops reading at the first call.
func sluggish(t *testing.T) (server gateway.ServerConfig, hung <-chan struct{}) {
	stop, stuck := make(chan struct{}), make(chan struct{})
	cfg := serveStdio(t, func(c net.Conn) {
		_ = c.(*net.TCPConn).SetReadBuffer(64 << 10)
		in := bufio.NewReader(c)
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			var m said
			_ = json.Unmarshal(line, &m)
			switch m.Method {
			case "initialize":
				fmt.Fprintf(c, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sluggish","version":"1"}}}`+"\n", m.ID)
			case "tools/list":
				fmt.Fprintf(c, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s,%s]}}`+"\n", m.ID, tool("put"), tool("pay"))
			case "tools/call":
				close(stuck)
				<-stop
				return
			default:
				if m.ID != nil {
					fmt.Fprintf(c, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", m.ID)
				}
			}
		}
	})
	t.Cleanup(func() { close(stop) })
	cfg.Name = "up"
	return gateway.ServerConfig{Config: cfg}, stuck
}

func TestRule12_AnApprovalIsNotUsedForACallThatDoesNotFit(t *testing.T) {
	t.Parallel()
	up, stuck := sluggish(t)
	const rules = `{policy: {rules: [{tools: [put], risk: low, action: allow}, {tools: [pay], risk: medium, action: quarantine}]}}`
	w := newWorld(t, rules, gateway.Options{Servers: []gateway.ServerConfig{up}})
	c := w.client(false)
	large := strings.Repeat("x", 900<<10)
	args := `{"note":"` + large + `"}`
	c.call("pay", args)
	asked := w.pending(1)[0]
	w.answer(asked.ID, true, "")

	// Calls pile up until one does not fit, which is when half of the queue is this agent's.
	refused := make(chan answer, 100)
	var mu sync.Mutex
	var lost []answer
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer testkit.Wait(t, "all calls", wg.Wait)
	defer cancel()
	wrote := make(chan struct{}, 100)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
		wrote <- struct{}{}
	}})
	for i := 0; i < 60 && len(refused) == 0; i++ { // each is a MiB that all have to read
		wg.Go(func() {
			a := c.sendCtx(ctx, "tools/call", `{"name":"put","arguments":`+args+`}`)
			if ctx.Err() != nil {
				return // the test is over
			}
			if strings.Contains(string(a.raw), "too many calls wait for it") {
				refused <- a
				return
			}
			mu.Lock()
			defer mu.Unlock()
			lost = append(lost, a)
		})
		testkit.Receive(t, "a call that is sent", wrote)
		if i == 0 {
			testkit.Receive(t, "the server does not read on", stuck)
		}
	}
	select {
	case a := <-refused:
		if !a.isError() || !strings.Contains(a.text(), "was not run") {
			t.Errorf("the call that does not fit came to %s", a.raw)
		}
	case <-time.After(5 * testkit.Patience): // these are 54 MiB
		t.Fatal("60 calls of 900 KiB wait for a server that does not read")
	}
	a := c.call("pay", args)
	if !a.isError() || !strings.Contains(a.text(), "too many calls wait for it") {
		t.Errorf("the approved call that does not fit came to %.300s", a.raw)
	}
	if now := w.request(asked.ID); !now.Live() {
		t.Errorf("its approval was used: %+v", now.ConsumedAt)
	}
	mu.Lock()
	if len(lost) != 0 {
		t.Errorf("%d calls that were in the queue came to an end: %.300s", len(lost), lost[0].raw)
	}
	mu.Unlock()
}

func TestRule12_AFloodOfIDsToTheFeedIsRefused(t *testing.T) {
	t.Parallel()
	s := newScripted(t, true, "t")
	w := one(t, askAll, 0, s, around{})
	c := w.client(true)
	c.call("t", `{}`)
	id := w.pending(1)[0].ID
	w.answer(id, false, "")
	flood := func(n int) answer {
		return c.call("countersign__resolved", `{"ack":[`+strings.TrimSuffix(strings.Repeat(`"`+id+`",`, n), ",")+`]}`)
	}
	if a := flood(34_000); !a.isError() || !strings.Contains(a.text(), "at most 1000 ids") {
		t.Errorf("34,000 copies of one id came to %.300s", a.raw)
	}
	wantText(t, flood(1000), "Nothing new has been decided.")
	if got := w.audited(approval.EventApprovalAcked); len(got) != 1 {
		t.Errorf("1000 copies of one id were acknowledged %d times", len(got))
	}
}
