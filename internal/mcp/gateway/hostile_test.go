package gateway_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/internal/mcp"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

// Messages that two readers could read in two ways, or that break readers, reach no server.
func TestRule1_AmbiguousMessagesAreRefusedWhole(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := withThings(newScripted(t, modern, "t", "u"), "a")
		w := one(t, allowAll, brief, s, around{})
		c := w.client(modern)
		c.names("tools/list")
		params := func(p string) string { return c.params(p) }
		call := params(`{"name":"t","arguments":{}}`)
		meta := `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
		if !modern {
			meta = `"x":1`
		}
		for name, body := range map[string]string{
			"method twice": `{"jsonrpc":"2.0","id":9,"method":"tools/list","method":"tools/call","params":` + call +
				`}`,
			"method in two cases": `{"jsonrpc":"2.0","id":9,"method":"tools/call","Method":"tools/list","params":` + call +
				`}`,
			"method twice, escaped": `{"jsonrpc":"2.0","id":9,"method":"tools/call","\u006dethod":"tools/list","params":` +
				call + `}`,
			"params twice": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":` + call + `,"params":` + call +
				`}`,
			"params in two cases": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":` + call + `,"PARAMS":{}}`,
			"id twice":            `{"jsonrpc":"2.0","id":9,"id":10,"method":"tools/call","params":` + call + `}`,
			"version twice":       `{"jsonrpc":"2.0","jsonrpc":"2.0","id":9,"method":"tools/call","params":` + call + `}`,
			"name twice": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":` +
				params(`{"name":"t","name":"u","arguments":{}}`) + `}`,
			"name in two cases": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":` +
				params(`{"name":"t","NAME":"u","arguments":{}}`) + `}`,
			"arguments twice": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":` +
				params(`{"name":"t","arguments":{},"arguments":{"a":1}}`) + `}`,
			"arguments in two cases": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":` +
				params(`{"name":"t","arguments":{},"Arguments":{"a":1}}`) + `}`,
			"arguments with a long s": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":` +
				params(`{"name":"t","arguments":{},"argumentſ":{"a":1}}`) + `}`,
			"_meta twice": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"_meta":{` + meta +
				`},"_meta":{` + meta + `},"name":"t","arguments":{}}}`,
			"_meta in two cases": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"_meta":{` + meta +
				`},"_Meta":{},"name":"t","arguments":{}}}`,
			"a name within _meta twice": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"_meta":{` + meta +
				`,"progressToken":1,"progressToken":2},"name":"t","arguments":{}}}`,
			"_meta no object": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"_meta":[],"name":"t","arguments":{}}}`,
			"deep": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":` +
				params(`{"name":"t","arguments":{},"x":`+strings.Repeat("[", 100000)+strings.Repeat("]", 100000)+`}`) + `}`,
			"deep arguments": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":` +
				params(`{"name":"t","arguments":`+strings.Repeat(`{"a":`, 100)+"1"+strings.Repeat("}", 101)) + `}`,
			"batch": `[{"jsonrpc":"2.0","id":9,"method":"tools/call","params":` + call + `}]`,
			"two messages": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":` + call +
				`}{"jsonrpc":"2.0","id":10,"method":"tools/call","params":` + call + `}`,
			"params an array": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":["t",{}]}`,
			"no version":      `{"id":9,"method":"tools/call","params":` + call + `}`,
			"version 1.0":     `{"jsonrpc":"1.0","id":9,"method":"tools/call","params":` + call + `}`,
			"id null":         `{"jsonrpc":"2.0","id":null,"method":"tools/call","params":` + call + `}`,
			"id a fraction":   `{"jsonrpc":"2.0","id":9.5,"method":"tools/call","params":` + call + `}`,
			"id an exponent":  `{"jsonrpc":"2.0","id":9e0,"method":"tools/call","params":` + call + `}`,
			"id true":         `{"jsonrpc":"2.0","id":true,"method":"tools/call","params":` + call + `}`,
			"id an object":    `{"jsonrpc":"2.0","id":{"a":1},"method":"tools/call","params":` + call + `}`,
			"id an array":     `{"jsonrpc":"2.0","id":[9],"method":"tools/call","params":` + call + `}`,
			"id huge": `{"jsonrpc":"2.0","id":` + strings.Repeat("9", 5000) +
				`,"method":"tools/call","params":` + call + `}`,
			"a request and a result": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":` + call + `,"result":{}}`,
			"broken UTF-8 in arguments": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":` +
				params(`{"name":"t","arguments":{"a":"`+"\xff"+`"}}`) + `}`,
			"a byte order mark": "\ufeff" + `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":` + call + `}`,
			"cut short": `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":` + strings.TrimSuffix(call,
				"}"),
			"a call as a notification": `{"jsonrpc":"2.0","method":"tools/call","params":` + call + `}`,
			"a call as a response":     `{"jsonrpc":"2.0","id":1,"result":` + call + `}`,
		} {
			a := c.raw(t.Context(), body, nil)
			if a.err != nil || a.Error == nil && len(a.Result) != 0 || a.Error == nil && strings.Contains(name, "twice") {
				t.Errorf("%s: %v %d %.300s", name, a.err, a.status, a.raw)
			}
			if n := len(s.calls("tools/call")); n != 0 {
				t.Fatalf("%s: it was forwarded: %s", name, s.calls("tools/call")[0].raw)
			}
		}
		wantText(t, c.call("t", `{}`), "done") // it still works
	})
}

// The client's own id comes back as it was written, and the server sees none of it.
func TestIdsOfAllKindsComeBack(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		w := one(t, allowAll, brief, s, around{})
		c := w.client(modern)
		for _, id := range []string{`0`, `-1`, `9007199254740993`, `""`, `"a\u0062\n"`, `"` + strings.Repeat("x", 500) + `"`,
			`"1"`} {
			a := c.raw(t.Context(), `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":`+
				c.params(`{"name":"t","arguments":{}}`)+`}`, nil)
			if string(a.ID) != id || a.text() != "done" {
				t.Errorf("the id %s: %s", id, a.raw)
			}
		}
		seen := map[string]bool{}
		for _, m := range wantCalls(t, s, 7) {
			if seen[string(m.ID)] || len(m.ID) > 20 {
				t.Errorf("the server was sent the id %s", m.ID)
			}
			seen[string(m.ID)] = true
		}
	})
}

// serversOwn is the state a modern server gives with its request for input. It is too long to occur by chance
// in what is sealed.
const serversOwn = "the server's own"

// asks has a modern server require input, and answer once it is there.
func asks(s *scripted) {
	s.when("tools/call", func(x *turn) {
		if x.member("requestState") == "" {
			x.result(`{"resultType":"input_required","inputRequests":{"sure":{"method":"elicitation/create","params":{"mode":"form","message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"` + serversOwn + `"}`)
			return
		}
		x.result(`{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
	})
}

func stateOf(t *testing.T, a answer) string {
	t.Helper()
	var r struct{ ResultType, RequestState string }
	if err := json.Unmarshal(a.Result, &r); err != nil || r.ResultType != "input_required" || r.RequestState == "" {
		t.Fatalf("got %s, want input_required", a.raw)
	}
	sealed, err := base64.RawURLEncoding.DecodeString(r.RequestState)
	if err != nil {
		t.Fatalf("the state %s: %v", r.RequestState, err)
	}
	// Unsealed it would be JSON, in which the server's state stands in base64, with its quotes.
	inJSON := base64.StdEncoding.EncodeToString([]byte(strconv.Quote(serversOwn)))
	if json.Valid(sealed) || bytes.Contains(sealed, []byte(serversOwn)) || bytes.Contains(sealed, []byte(inJSON)) {
		t.Errorf("the server's state is there to read: %s", sealed)
	}
	return r.RequestState
}

const canAnswer = `{"elicitation":{"form":{}}}`

func TestAStateContinuesItsOwnCallOnce(t *testing.T) {
	t.Parallel()
	s := newScripted(t, true, "t", "u")
	asks(s)
	other := newScripted(t, true, "t")
	asks(other)
	w := newWorld(t, allowAll, gateway.Options{Hold: brief, Servers: []gateway.ServerConfig{s.server("up", ""),
		other.server("other", "o")}})
	c := w.clientAs(true, agentToken, canAnswer)
	continued := func(c *wire, name, args, state string) answer {
		return c.send("tools/call",
			fmt.Sprintf(`{"name":%q,"arguments":%s,"requestState":%s,"inputResponses":{"sure":{"action":"accept","content":{}}}}`, name, args, state))
	}
	state := stateOf(t, c.call("t", `{"n":1}`))
	quoted := fmt.Sprintf("%q", state)
	before := len(s.calls("tools/call"))
	flipped := []byte(state)
	flipped[len(flipped)/2] ^= 1
	for name, a := range map[string]answer{
		"of another agent":                continued(w.clientAs(true, otherToken, canAnswer), "t", `{"n":1}`, quoted),
		"with other arguments":            continued(c, "t", `{"n":2}`, quoted),
		"with a number written otherwise": continued(c, "t", `{"n":1.0}`, quoted),
		"of another tool":                 continued(c, "u", `{"n":1}`, quoted),
		"of another server":               continued(c, "o__t", `{"n":1}`, quoted),
		"changed":                         continued(c, "t", `{"n":1}`, fmt.Sprintf("%q", flipped)),
		"cut":                             continued(c, "t", `{"n":1}`, fmt.Sprintf("%q", state[:len(state)-4])),
		"garbage":                         continued(c, "t", `{"n":1}`, `"garbage"`),
		"the server's own":                continued(c, "t", `{"n":1}`, `"the server's own"`),
		"empty":                           continued(c, "t", `{"n":1}`, `""`),
		"a number":                        continued(c, "t", `{"n":1}`, `7`),
		"null":                            continued(c, "t", `{"n":1}`, `null`),
		"an object":                       continued(c, "t", `{"n":1}`, `{"a":1}`),
		"huge":                            continued(c, "t", `{"n":1}`, `"`+strings.Repeat("A", 1<<20)+`"`),
		"of a legacy client":              continued(w.clientAs(false, agentToken, canAnswer), "t", `{"n":1}`, quoted),
		"with answers no object": c.send("tools/call", `{"name":"t","arguments":{"n":1},"requestState":`+quoted+
			`,"inputResponses":[1]}`),
		"with answers twice": c.send("tools/call", `{"name":"t","arguments":{"n":1},"requestState":`+quoted+
			`,"inputResponses":{"sure":{},"Sure":{}}}`),
	} {
		if a.Error == nil || a.Error.Code != -32602 {
			t.Errorf("%s: %.300s", name, a.raw)
		}
	}
	if n := len(s.calls("tools/call")); n != before {
		t.Errorf("the server was called %d times by states that are not good", n-before)
	}
	wantCalls(t, other, 0)
	var wg sync.WaitGroup
	var mu sync.Mutex
	good := 0
	for range 8 { // all at once: one of them continues
		wg.Go(func() {
			if a := continued(c, "t", `{"n":1}`, quoted); a.Error == nil && a.text() == "done" {
				mu.Lock()
				good++
				mu.Unlock()
			}
		})
	}
	testkit.Wait(t, "all who continue", wg.Wait)
	if got := s.calls("tools/call"); good != 1 || len(got) != before+1 ||
		got[before].member("requestState") != `"the server's own"` {
		t.Errorf("%d continued, the server was called %d times", good, len(got)-before)
	}
}

// An approved call that needs input is approved once, and goes on without a second approval; nothing else
// does on its account.
func TestRule4_AStateOfAnApprovedCallRunsNothingElse(t *testing.T) {
	t.Parallel()
	s := newScripted(t, true, "t")
	asks(s)
	w := one(t, askAll, brief, s, around{})
	c := w.clientAs(true, agentToken, canAnswer)
	with := func(args, state string) answer {
		return c.send("tools/call",
			fmt.Sprintf(`{"name":"t","arguments":%s,"requestState":%q,"inputResponses":{"sure":{"action":"accept"}}}`, args,
				state))
	}
	id := c.call("t", `{"n":1}`).id()
	w.answer(id, true, "")
	state := stateOf(t, c.call("t", `{"n":1}`))
	wantCalls(t, s, 1)
	if a := with(`{"n":2}`, state); a.Error == nil || a.Error.Code != -32602 {
		t.Errorf("other arguments: %s", a.raw)
	}
	wantText(t, with(`{"n":1}`, state), "done")
	if got := w.ran(id); got != approval.RunSucceeded {
		t.Errorf("the outcome is %s", got)
	}
	if a := with(`{"n":1}`, state); a.Error == nil || a.Error.Code != -32602 {
		t.Errorf("again: %s", a.raw)
	}
	if a := c.call("t", `{"n":1}`); !strings.HasPrefix(a.text(), "⏳ Approval requested") {
		t.Errorf("without the state it is a call of its own: %s", a.raw)
	}
	wantCalls(t, s, 2)
}

// A denial that comes between does not stop a call that was let through, but policy is asked again for
// one that was only allowed.
func TestRule4_PolicyIsAskedAgainForACallThatComesBack(t *testing.T) {
	t.Parallel()
	s := newScripted(t, true, "t")
	asks(s)
	w := one(t, allowAll, brief, s, around{})
	c := w.clientAs(true, agentToken, canAnswer)
	state := stateOf(t, c.call("t", `{}`))
	w.policy(denyAll)
	wantErrorText(t, c.send("tools/call", fmt.Sprintf(`{"name":"t","arguments":{},"requestState":%q,"inputResponses":{"sure":{"action":"accept"}}}`, state)),
		"Policy denied: frozen — Nothing runs today.")
	wantCalls(t, s, 1)
}

func TestASessionIsOfOneAgent(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, "t")
	w := one(t, allowAll, brief, s, around{})
	c := w.client(false)
	for name, thief := range map[string]*wire{"another agent's token": {token: otherToken, session: c.session},
		"a session that is none": {token: agentToken, session: "x"}} {
		thief.t, thief.url, thief.http = t, w.url, c.http
		if a := thief.call("t", `{}`); a.status != 404 {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
	for _, token := range []string{"wrong", agentToken + "x"} {
		thief := &wire{t: t, url: w.url, http: c.http, token: token, session: c.session}
		if a := thief.call("t", `{}`); a.status != 401 {
			t.Errorf("%q: %d %s", token, a.status, a.raw)
		}
	}
	wantCalls(t, s, 0)
	// Requests and their endings are each agent's own.
	w.policy(askAll)
	id := c.call("t", `{}`).id()
	if got := w.clientAs(false, otherToken, `{}`).call("t", `{}`).id(); got == id || got == "" {
		t.Errorf("another agent joined %s", got)
	}
}

// deafStream is a client that can be told and asked nothing.
type deafStream struct{}

func (deafStream) Send(mcp.Message) error { return nil }
func (deafStream) Ask(context.Context, string, jsontext.Value) (mcp.Message, error) {
	return mcp.Message{}, errors.New("nobody is there")
}

// FuzzRequest sends requests of any kind. Whatever they are, each gets one answer that bears its id, and
// a server is sent nothing but what policy allows.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][2]string{
		{"tools/call", `{"name":"ok","arguments":{"safe":true}}`},
		{"tools/call", `{"name":"ok","arguments":{"safe":true,"Safe":false}}`},
		{"tools/call", `{"name":"ok","arguments":{"safe":false}}`},
		{"tools/call", `{"name":"no","arguments":{"safe":true}}`},
		{"tools/call", `{"name":"ok","arguments":{"safe":true},"requestState":"AAAA","inputResponses":{"a":{}}}`},
		{"tools/call", `{"_meta":{"progressToken":"x","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}},"name":"ok","arguments":{"safe":true,"n":1e400}}`},
		{"tools/call", `{"name":"countersign__resolved","arguments":{"ack":["x"]}}`},
		{"tools/list", `{"cursor":"at-1"}`},
		{"resources/read", `{"uri":"file:///a"}`},
		{"resources/subscribe", `{"uri":"file:///a"}`},
		{"prompts/get", `{"name":"ask","arguments":{"a":1}}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"ask"},"argument":{}}`},
		{"subscriptions/listen",
			`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"],"taskIds":["x"]}}`},
		{"tasks/get", `{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}},"taskId":"x"}`},
		{"logging/setLevel", `{"level":"debug"}`},
		{"initialize", `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}}`},
		{"server/discover", `{}`},
		{"ping", ``},
	} {
		f.Add(false, seed[0], seed[1])
		f.Add(true, seed[0], seed[1])
	}
	const rules = `{policy: {rules: [
		{tools: [ok], when: "has(args.safe) && args.safe == true", risk: low, action: allow},
		{method: "resources/*", risk: high, action: deny}, {method: prompts/get, risk: high, action: deny},
		{tools: ["*"], risk: high, action: deny}]}}`
	var eras [2]*scripted
	var worlds [2]*world
	for i := range eras {
		eras[i] = withThings(newScripted(f, i == 1, "ok", "no"), "a")
		worlds[i] = newWorld(f, rules, gateway.Options{Servers: []gateway.ServerConfig{eras[i].server("up", "")}})
		worlds[i].client(false).names("tools/list")
	}
	harmless := []string{"initialize", "server/discover", "subscriptions/listen", "tools/list", "prompts/list",
		"resources/list", "resources/templates/list",
		"completion/complete", "logging/setLevel", "notifications/initialized", "notifications/cancelled"}
	f.Fuzz(func(t *testing.T, modern bool, method, params string) {
		body := `{"jsonrpc":"2.0","id":"mine","method":` + string(mcp.Quote(method))
		if params != "" {
			body += `,"params":` + params
		}
		m, bad := mcp.Parse([]byte(body + "}"))
		if bad != nil || m.Method == "" || string(m.ID) != `"mine"` {
			return // it does not get here
		}
		for i, w := range worlds {
			s := eras[i]
			s.set(func() { s.got = nil })
			c := downstream.Client{Agent: "bot"}
			if modern {
				c.Era = mcp.Modern
			}
			session := w.gw.Open(c)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			if !modern {
				session.Request(ctx, mcp.Request(jsontext.Value("0"), "initialize",
					jsontext.Value(`{"protocolVersion":"2025-11-25","capabilities":{}}`)), deafStream{})
			}
			a := session.Request(ctx, m, deafStream{})
			cancel()
			session.Close()
			if string(a.ID) != `"mine"` || (a.Result == nil) == (a.Err == nil) ||
				!(a.Result == nil || a.Result.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))) ||
				!(a.Err == nil || json.Valid(a.Err)) {
				t.Errorf("%s was answered %s", body, a.Bytes())
			}
			s.mu.Lock()
			got := slices.Clone(s.got)
			s.mu.Unlock()
			for _, m := range got {
				if m.Method == "tools/call" {
					var args map[string]json.RawMessage
					if err := json.Unmarshal([]byte(m.member("arguments")), &args); err == nil && m.member("name") == `"ok"` &&
						string(args["safe"]) == "true" {
						continue
					}
				} else if slices.Contains(harmless, m.Method) {
					continue
				}
				t.Errorf("%s had the server sent %s", body, m.raw)
			}
		}
	})
}
