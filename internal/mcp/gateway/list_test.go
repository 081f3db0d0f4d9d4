package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/config"
	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

// names lists what a list method offers, page by page, and how long the pages were.
func (c *wire) names(method string) (names []string, pages []int) {
	c.t.Helper()
	cursor := ""
	for {
		params := `{}`
		if cursor != "" {
			params = fmt.Sprintf(`{"cursor":%q}`, cursor)
		}
		a := c.send(method, params)
		var r map[string]json.RawMessage
		if err := json.Unmarshal(a.Result, &r); err != nil {
			c.t.Fatalf("%s: %s", method, a.raw)
		}
		member := strings.TrimSuffix(method, "/list")
		if member == "resources/templates" {
			member = "resourceTemplates"
		}
		var all []struct{ Name, URI, URITemplate string }
		if err := json.Unmarshal(r[member], &all); err != nil {
			c.t.Fatalf("%s: %s", method, a.raw)
		}
		for _, e := range all {
			names = append(names, e.Name+e.URI+e.URITemplate)
		}
		pages = append(pages, len(all))
		cursor = ""
		_ = json.Unmarshal(r["nextCursor"], &cursor)
		if cursor == "" {
			return names, pages
		}
	}
}

func behind(t *testing.T, rules string, hold time.Duration, servers ...gateway.ServerConfig) *world {
	return newWorld(t, rules, gateway.Options{Hold: hold, Servers: servers})
}

const feedTool = "countersign__resolved"

func TestListsArePagedOnBothSides(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		var want []string
		a, b := newScripted(t, modern), newScripted(t, !modern)
		a.set(func() {
			a.page = 7
			for i := range 700 {
				a.lists["tools/list"] = append(a.lists["tools/list"], tool(fmt.Sprint("t", i)))
				want = append(want, fmt.Sprint("a__t", i))
			}
		})
		b.set(func() {
			b.page = 300
			for i := range 600 {
				b.lists["tools/list"] = append(b.lists["tools/list"], tool(fmt.Sprint("t", i)))
				want = append(want, fmt.Sprint("t", i))
			}
		})
		w := behind(t, allowAll, 0, a.server("a", "a"), b.server("b", ""))
		c := w.client(modern)
		got, pages := c.names("tools/list")
		if want = append(want, feedTool); !slices.Equal(got, want) || !slices.Equal(pages, []int{500, 500, 301}) {
			t.Errorf("%d tools in pages of %v, want %d in the order of the configuration", len(got), pages, len(want))
		}
		wantText(t, c.call("a__t699", `{"last":1}`), "done")
		if got := a.calls("tools/call"); len(got) != 1 || got[0].member("name") != `"t699"` ||
			got[0].member("arguments") != `{"last":1}` {
			t.Errorf("the server was sent %+v", got)
		}
		for _, cursor := range []string{`"at-99999"`, `"at--1"`, `"p7"`, `"at-5x"`, `7`, `{}`} {
			if a := c.send("tools/list", `{"cursor":`+cursor+`}`); a.Error == nil || a.Error.Code != -32602 {
				t.Errorf("cursor %s: %.200s", cursor, a.raw)
			}
		}
	})
}

func TestAToolIsOfferedAsItsServerDescribesIt(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern)
		s.set(func() {
			s.lists["tools/list"] = []string{
				`{"name":"t","title":"T","inputSchema":{"type":"object","maximum":9007199254740993,"d":1.10,"\u0061":[ 1 ]},"x":1}`}
		})
		w := behind(t, allowAll, 0, s.server("s", "s"))
		a := w.client(modern).send("tools/list", `{}`)
		if want := `{"name":"s__t","title":"T","inputSchema":{"type":"object","maximum":9007199254740993,"d":1.10,"\u0061":[ 1 ]},"x":1}`; !strings.Contains(string(a.Result), want) {
			t.Errorf("got %s\nwant %s", a.Result, want)
		}
	})
}

// What a server says of a tool is known by the server's name and its own name of the tool, with the digest that calls
// of it come with, and no server is asked for it.
func TestTheGatewayKnowsWhatServersSayOfTheirTools(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern)
		says := func(words string) {
			s.lists["tools/list"] = []string{`{"name":"t","inputSchema":{"type":"object"},"description":` + words + `}`}
		}
		s.set(func() { says(`"Sends \u202emoney"`) })
		w := behind(t, askAll, 0, s.server("up", "p"))
		c := w.client(modern)
		describes := func(want string) (digest string) {
			testkit.Eventually(t, "it says "+want, func() bool {
				c.send("tools/list", `{}`)
				words, d, ok := w.gw.Describe("up", "t")
				digest = d
				return ok && words == want
			})
			return digest
		}
		was := describes("Sends \u202emoney")
		c.call("p__t", `{}`)
		if r := w.pending(1)[0]; r.ToolDigest != was || r.Server != "up" || r.Tool != "t" {
			t.Errorf("the call is of %s/%s, %s, want %s", r.Server, r.Tool, r.ToolDigest, was)
		}
		for _, none := range [][2]string{{"up", "p__t"}, {"up", ""}, {"p", "t"}, {"", "t"}} {
			if words, _, ok := w.gw.Describe(none[0], none[1]); ok || words != "" {
				t.Errorf("%q is known: %q", none, words)
			}
		}
		s.set(func() { says(`null`) })
		s.restart()
		if describes("") == was {
			t.Error("the digest is still the same")
		}
	})
}

func TestWhatIsNotOfferedCannotBeCalled(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		free := newScripted(t, modern, "fine", "ab__claimed", "countersign__resolved", "countersign__new", "no spaces",
			"fine", "", "Fine")
		some := newScripted(t, modern, "shown", "hidden")
		u := some.server("some", "ab")
		u.Tools = []string{"shown", "missing"}
		w := behind(t, allowAll, 0, free.server("free", ""), u)
		c := w.client(modern)
		got, _ := c.names("tools/list")
		if want := []string{"fine", "Fine", "ab__shown", feedTool}; !slices.Equal(got, want) {
			t.Errorf("offered %q, want %q", got, want)
		}
		for _, name := range []string{"ab__claimed", "countersign__new", "no spaces", "ab__hidden", "hidden", "shown",
			"ab__missing", "free__fine", "", "ab__", "AB__shown", "up/fine"} {
			a := c.call(name, `{}`)
			if a.Error == nil || a.Error.Code != -32602 || a.Error.Message != "Unknown tool: "+name {
				t.Errorf("%q: %s", name, a.raw)
			}
		}
		wantCalls(t, free, 0)
		wantCalls(t, some, 0)
		var problems []string
		for _, h := range w.gw.Health() {
			problems = append(problems, h.Problems...)
		}
		for _, want := range []string{`"ab__claimed" begins like another server's tools`,
			`"countersign__resolved" begins like the gate's own tools`,
			`the name "no spaces" is not 1 to 128 characters`, `the server lists "fine" twice`,
			`names the tool "missing", which the server does not have`} {
			if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, want) }) {
				t.Errorf("no problem says %q: %q", want, problems)
			}
		}
	})
}

func TestNamesThatAreTooLongAreRefusedNotCut(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, strings.Repeat("n", 61), strings.Repeat("m", 62))
	w := behind(t, allowAll, 0, s.server("s", "p"))
	testkit.Eventually(w.t, "it is known without anybody having asked", func() bool {
		return len(w.gw.Health()[0].Problems) == 1
	})
	got, _ := w.client(false).names("tools/list")
	if want := []string{"p__" + strings.Repeat("n", 61), feedTool}; !slices.Equal(got, want) {
		t.Errorf("offered %q, want %q", got, want)
	}
	if got := w.gw.Health()[0].Problems; len(got) != 1 || !strings.Contains(got[0],
		"is 65 characters long, and clients take at most 64; give the server a shorter prefix") {
		t.Errorf("problems %q", got)
	}
}

func TestAListThatCannotBeReadLeavesTheToolsAlone(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		for method, does := range map[string]func(*turn){
			"prompts/list":             func(x *turn) { x.fail(-32603, "boom") },
			"resources/list":           func(x *turn) { x.result(`{"resources":7}`) },
			"resources/templates/list": func(x *turn) { x.result(`{}`) },
		} {
			s := withThings(newScripted(t, modern, "t"), "a")
			s.when(method, does)
			w := behind(t, allowAll, 0, s.server("s", ""))
			c := w.client(modern)
			wantText(t, c.call("t", `{}`), "done")
			if got, _ := c.names(method); len(got) != 0 {
				t.Errorf("%s: %q", method, got)
			}
			testkit.Eventually(w.t, "somebody is told", func() bool {
				ps := w.gw.Health()[0].Problems
				return len(ps) == 1 && strings.HasPrefix(ps[0], method+": ")
			})
		}
	})
}

func TestServersWithTheSameNamesAreToldApart(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		a, b := newScripted(t, modern, "run"), newScripted(t, modern, "run")
		b.when("tools/call", func(x *turn) { x.result(`{"content":[{"type":"text","text":"by b"}]}`) })
		w := behind(t, `{policy: {rules: [{tools: ["b/run"], risk: low, action: allow}, {tools: ["*"], risk: high, action: deny}]}}`, 0, a.server("a", "x"), b.server("b", "y"))
		c := w.client(modern)
		wantText(t, c.call("y__run", `{}`), "by b")
		if got := c.call("x__run", `{}`); !got.isError() || !strings.HasPrefix(got.text(), "Policy denied") {
			t.Errorf("got %s", got.raw)
		}
		wantCalls(t, a, 0)
		wantCalls(t, b, 1)
	})
}

func TestChangesOfListsArePassedOn(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} { // the server; the client is one that has a GET stream
		s := newScripted(t, modern, "old", "kept")
		w := behind(t, allowAll, 0, s.server("s", ""))
		c := w.client(false)
		heard := c.hear()
		if got, _ := c.names("tools/list"); !slices.Equal(got, []string{"old", "kept", feedTool}) {
			t.Errorf("offered %q", got)
		}
		wantText(t, c.call("kept", `{}`), "done")
		s.listening(1)
		s.set(func() { s.lists["tools/list"] = []string{tool("new"), tool("kept", `"title":"other"`)} })
		for _, method := range []string{"notifications/tools/list_changed", "notifications/prompts/list_changed",
			"notifications/resources/list_changed"} {
			s.push(method, `{"_meta":{"io.modelcontextprotocol/subscriptionId":1,"x":1}}`)
			if m := nextSteps(t, heard, method); strings.Contains(m.raw, "_meta") {
				t.Errorf("the client was sent the server's metadata: %s", m.raw)
			}
		}
		if a := c.call("kept", `{}`); a.id() == "" ||
			w.request(a.id()).ReasonCode != "tool_changed" { // without having listed
			t.Errorf("got %s", a.raw)
		}
		wantText(t, c.call("new", `{}`), "done")
		if a := c.call("old", `{}`); a.Error == nil || a.Error.Message != "Unknown tool: old" {
			t.Errorf("got %s", a.raw)
		}
	}
}

func TestAServerThatIsDownAtFirstIsOfferedOnceItIsUp(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		there, late := newScripted(t, modern, "t"), newScripted(t, modern, "t")
		late.set(func() { late.deaf = true })
		w := behind(t, askAll, brief, there.server("there", "there"), late.server("late", "late"))
		c := w.client(false)
		heard := c.hear()
		testkit.Eventually(w.t, "the late server is known to be down", func() bool {
			return w.gw.Health()[1].State == "down"
		})
		if got, _ := c.names("tools/list"); !slices.Equal(got, []string{"there__t", feedTool}) {
			t.Errorf("offered %q", got)
		}
		a := c.call("late__t", `{}`)
		if !a.isError() || !strings.Contains(a.text(), "erver late ") || !strings.HasSuffix(a.text(),
			"The call was not run, and nobody was asked.") || len(w.all()) != 0 {
			t.Errorf("got %s, %d requests", a.raw, len(w.all()))
		}
		late.set(func() { late.deaf = false })
		nextSteps(t, heard, "notifications/tools/list_changed")
		if got, _ := c.names("tools/list"); !slices.Equal(got, []string{"there__t", "late__t", feedTool}) {
			t.Errorf("offered %q", got)
		}
		if a := c.call("late__t", `{}`); !strings.HasPrefix(a.text(), "⏳ Approval requested") {
			t.Errorf("got %s", a.raw)
		}
	}
}

func TestAServerThatDiesAndReturnsIsCalledAgain(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		w := behind(t, allowAll, 0, s.server("s", "s"))
		c := w.client(modern)
		wantText(t, c.call("s__t", `{}`), "done")
		s.set(func() { s.lists["tools/list"] = []string{tool("t"), tool("u")} })
		s.restart()
		testkit.Eventually(w.t, "it is called again", func() bool { return c.call("s__u", `{}`).text() == "done" })
	})
}

// The connection that clients share knows who listens to what; a server that was started anew is told.
func TestAProcessThatReturnsIsToldWhatIsWanted(t *testing.T) {
	t.Parallel()
	p, sent := process(t, "p", "p")
	w := behind(t, allowAll, 0, p)
	c := w.client(false)
	heard := c.hear()
	for _, m := range [][2]string{{"resources/subscribe", `{"uri":"proc:///a"}`},
		{"logging/setLevel", `{"level":"warning"}`}} {
		if a := c.send(m[0], m[1]); string(a.Result) != `{}` {
			t.Fatalf("%s: %s", m[0], a.raw)
		}
	}
	c.call("p__die", `{}`)
	nextSteps(t, heard, "notifications/tools/list_changed")
	testkit.Eventually(w.t, "it is subscribed to again", func() bool {
		return len(sent("resources/subscribe")) == 2 && len(sent("logging/setLevel")) == 2
	})
	if got := sent("logging/setLevel")[1].member("level"); got != `"warning"` {
		t.Errorf("the level is %s", got)
	}
	c.call("p__say", `{"line":{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"proc:///a"}}}`)
	if m := nextSteps(t, heard, "notifications/resources/updated"); m.member("uri") != `"proc:///a"` {
		t.Errorf("heard %s", m.raw)
	}
}

// So is a server over HTTP, with which each legacy client has a session of its own.
func TestASessionThatIsOpenedAnewIsToldWhatIsWanted(t *testing.T) {
	t.Parallel()
	s := withThings(newScripted(t, false, "t"), "a")
	w := behind(t, allowAll, 0, s.server("s", ""))
	c := w.client(false)
	heard := c.hear()
	for _, m := range [][2]string{{"resources/subscribe", `{"uri":"file:///a"}`}, {"resources/subscribe",
		`{"uri":"file:///b"}`}, {"resources/unsubscribe", `{"uri":"file:///b"}`}, {"logging/setLevel", `{"level":"error"}`}} {
		if a := c.send(m[0], m[1]); string(a.Result) != `{}` {
			t.Fatalf("%s: %s", m[0], a.raw)
		}
	}
	s.restart()
	wantText(t, c.call("t", `{}`), "done")
	if got := s.await("logging/setLevel", 2)[1].member("level"); got != `"error"` {
		t.Errorf("the level is %s", got)
	}
	if got := s.await("resources/subscribe", 3); len(got) != 3 || got[2].member("uri") != `"file:///a"` {
		t.Errorf("subscribed to %s", got[2].raw)
	}
	nextSteps(t, heard, "notifications/tools/list_changed")
}

func TestUpdatesOfResourcesGoToThoseWhoSubscribed(t *testing.T) {
	t.Parallel()
	p, sent := process(t, "p", "p")
	w := behind(t, allowAll, 0, p)
	one, two, none := w.client(false), w.client(false), w.client(false)
	ears := map[*wire]<-chan said{one: one.hear(), two: two.hear(), none: none.hear()}
	ok := func(c *wire, method string) {
		t.Helper()
		if a := c.send(method, `{"uri":"proc:///a"}`); string(a.Result) != `{}` {
			t.Fatalf("%s: %s", method, a.raw)
		}
	}
	update := func(mark int, to ...*wire) { // whoever is not among to hears nothing before the mark
		t.Helper()
		none.call("p__say",
			fmt.Sprintf(`{"line":{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"proc:///a","n":%d}}}`, mark))
		for _, c := range to {
			if m := nextSteps(t, ears[c], "notifications/resources/updated"); m.member("n") != fmt.Sprint(mark) {
				t.Errorf("heard %s, want number %d", m.raw, mark)
			}
		}
	}
	ok(one, "resources/subscribe")
	ok(one, "resources/subscribe")
	update(1, one)
	ok(two, "resources/subscribe")
	update(2, one, two)
	ok(one, "resources/unsubscribe")
	update(3, two)
	if s, u := len(sent("resources/subscribe")), len(sent("resources/unsubscribe")); s != 2 ||
		u != 0 { // each is decided by policy; an end only for the last
		t.Errorf("the server was sent %d subscribe, %d unsubscribe; want 2 and 0", s, u)
	}
	r, _ := http.NewRequest("DELETE", two.url, nil) // the last one who listens goes
	r.Header.Set("Mcp-Session-Id", two.session)
	res, err := two.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	testkit.Eventually(w.t, "the server is told", func() bool { return len(sent("resources/unsubscribe")) == 1 })
	select {
	case m := <-ears[none]:
		t.Errorf("who did not subscribe heard %s", m.raw)
	default:
	}
}

func TestLogMessagesGoToThoseWhoWantTheirLevel(t *testing.T) {
	t.Parallel()
	p, sent := process(t, "p", "p")
	w := behind(t, allowAll, 0, p)
	debug, grave, none := w.client(false), w.client(false), w.client(false)
	ears := []<-chan said{debug.hear(), grave.hear(), none.hear()}
	level := func(c *wire, l string) answer { return c.send("logging/setLevel", `{"level":"`+l+`"}`) }
	level(grave, "error")
	level(debug, "debug")
	level(grave, "critical")
	var got []string
	for _, m := range sent("logging/setLevel") {
		got = append(got, m.member("level"))
	}
	if want := []string{`"error"`, `"debug"`, `"debug"`}; !slices.Equal(got, want) {
		t.Errorf("the server was told %q, want the level of who wants most: %q", got, want)
	}
	for _, l := range []string{"info", "error", "alert"} {
		none.call("p__say", `{"line":{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"`+l+`","data":1}}}`)
	}
	for i, want := range [][]string{{"info", "error", "alert"}, {"alert"}} {
		for _, l := range want {
			if m := nextSteps(t, ears[i], "notifications/message"); m.member("level") != `"`+l+`"` {
				t.Errorf("client %d heard %s, want %s", i, m.raw, l)
			}
		}
	}
	select {
	case m := <-ears[2]:
		t.Errorf("who set no level heard %s", m.raw)
	default:
	}
	if a := level(none, "loud"); a.Error == nil || a.Error.Code != -32602 {
		t.Errorf("got %s", a.raw)
	}
}

// A level that policy does not let through is not told to a server by another way either.
func TestALevelThatIsDeniedReachesNoServer(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := withThings(newScripted(t, modern, "t"), "a")
		w := behind(t, `{policy: {rules: [{method: logging/setLevel, risk: high, action: deny}, {tools: ["*"], risk: low, action: allow}]}}`, 0, s.server("s", ""))
		c := w.client(false)
		if a := c.send("logging/setLevel", `{"level":"debug"}`); a.Error == nil || a.Error.Code != -31001 {
			t.Errorf("got %s, want it denied", a.raw)
		}
		if !modern {
			s.restart()
			testkit.Eventually(w.t, "the server is called again", func() bool { return c.call("t", `{}`).text() == "done" })
		}
		wantText(t, c.call("t", `{}`), "done")
		for _, m := range append(s.calls("tools/call"), s.calls("logging/setLevel")...) {
			if strings.Contains(m.raw, "debug") {
				t.Errorf("the server was told: %s", m.raw)
			}
		}
	})
}

// Only a level is passed on as one.
func TestWhatIsNoLevelIsNotPassedOn(t *testing.T) {
	t.Parallel()
	s := newScripted(t, true, "t")
	w := one(t, allowAll, brief, s, around{})
	c := w.client(true)
	for _, level := range []string{`"debug"`, `"loud"`, `{"smuggled":1}`} {
		wantText(t, c.send("tools/call", `{"_meta":{"io.modelcontextprotocol/logLevel":`+level+
			`},"name":"t","arguments":{}}`), "done")
	}
	for i, m := range wantCalls(t, s, 3) {
		if got := strings.Contains(m.raw, "logLevel"); got != (i == 0) {
			t.Errorf("a level is passed on: %v in %s", got, m.raw)
		}
	}
}

func TestASessionListensToSoManyResources(t *testing.T) {
	t.Parallel()
	p, sent := process(t, "p", "p")
	w := behind(t, allowAll, 0, p)
	c := w.client(false)
	subscribe := func(i int) answer {
		return c.send("resources/subscribe", fmt.Sprintf(`{"uri":"proc:///%d"}`, i))
	}
	for i := range 256 {
		if a := subscribe(i); a.Error != nil {
			t.Fatalf("%d: %s", i, a.raw)
		}
	}
	if a := subscribe(256); a.Error == nil || a.Error.Code != -32602 {
		t.Errorf("got %s, want it refused", a.raw)
	}
	if a := subscribe(0); a.Error != nil {
		t.Errorf("got %s for one that it listens to", a.raw)
	}
	if n := len(sent("resources/subscribe")); n != 256 {
		t.Errorf("the server was told %d times, want 256", n)
	}
}

// withThings gives a server a prompt, a resource and a template.
func withThings(s *scripted, name string) *scripted {
	s.set(func() {
		s.caps = `{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{}}`
		s.lists["prompts/list"] = []string{`{"name":"ask","description":"of ` + name + `"}`}
		s.lists["resources/list"] = []string{`{"uri":"file:///` + name + `","name":"f"}`}
		s.lists["resources/templates/list"] = []string{`{"uriTemplate":"` + name + `://{id}/x","name":"t"}`}
		for _, method := range []string{"prompts/get", "resources/read", "completion/complete"} {
			s.on[method] = func(x *turn) { x.result(`{"by":"` + name + `","n":1.10}`) }
		}
	})
	return s
}

func TestRequestsFindTheServerTheyAreFor(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		a, b := withThings(newScripted(t, modern), "a"), withThings(newScripted(t, modern), "b")
		w := behind(t, allowAll, 0, a.server("a", "a"), b.server("b", ""))
		c := w.client(modern)
		for method, want := range map[string][]string{"prompts/list": {"a__ask", "ask"}, "resources/list": {"ffile:///a",
			"ffile:///b"}, "resources/templates/list": {"ta://{id}/x", "tb://{id}/x"}} {
			if got, _ := c.names(method); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", method, got, want)
			}
		}
		for _, x := range []struct{ method, params, by, sent string }{
			{"prompts/get", `{"name":"a__ask","arguments":{"x":"\u0061"}}`, "a", `"ask"`},
			{"prompts/get", `{"name":"ask"}`, "b", `"ask"`},
			{"resources/read", `{"uri":"file:///b"}`, "b", `"file:///b"`},
			{"resources/read", `{"uri":"a://1/x"}`, "a", `"a://1/x"`},
			{"completion/complete",
				`{"ref":{"type":"ref/prompt","name":"a__ask"},"argument":{"name":"x","value":"v"},"context":{}}`, "a", ""},
			{"completion/complete", `{"ref":{"type":"ref/resource","uri":"b://{id}/x"},"argument":{"name":"id","value":""}}`,
				"b", ""},
		} {
			before := len(a.calls(x.method)) + len(b.calls(x.method))
			got := c.send(x.method, x.params)
			if !strings.Contains(string(got.Result), `"by":"`+x.by+`","n":1.10`) {
				t.Errorf("%s %s: %s", x.method, x.params, got.raw)
			}
			s := map[string]*scripted{"a": a, "b": b}[x.by]
			all := s.calls(x.method)
			m := all[len(all)-1]
			if n := len(a.calls(x.method)) + len(b.calls(x.method)); n != before+1 {
				t.Errorf("%s %s: sent %d times", x.method, x.params, n-before)
			}
			if x.sent != "" && m.member("name")+m.member("uri") != x.sent {
				t.Errorf("%s: the server was sent %s", x.method, m.raw)
			}
			if x.method == "completion/complete" && strings.Contains(m.raw, "a__ask") {
				t.Errorf("the server was sent our name of its prompt: %s", m.raw)
			}
		}
		notFound := map[bool]int{false: -32002, true: -32602}[modern]
		for _, x := range []struct {
			method, params string
			code           int
		}{
			{"prompts/get", `{"name":"b__ask"}`, -32602},
			{"prompts/get", `{}`, -32602},
			{"resources/read", `{"uri":"file:///c"}`, notFound},
			{"resources/read", `{"uri":7}`, -32602},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"x"}}`, -32602},
			{"completion/complete", `{"ref":{"type":"ref/other","name":"ask"}}`, -32602},
			{"completion/complete", `{"ref":[]}`, -32602},
			{"completion/complete", `{}`, -32602},
		} {
			if got := c.send(x.method, x.params); got.Error == nil || got.Error.Code != x.code {
				t.Errorf("%s %s: %s, want code %d", x.method, x.params, got.raw, x.code)
			}
		}
	})
}

func TestOtherMethodsAreDecidedByPolicyToo(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		for _, hold := range []time.Duration{long, brief} {
			s := withThings(newScripted(t, modern), "a")
			w := behind(t, `{policy: {rules: [{name: no, method: prompts/get, risk: high, action: deny, message: "No prompts."},
				{name: ask, method: resources/read, risk: medium, action: quarantine, message: "A read."}]}}`, hold, s.server("s", ""))
			c := w.client(modern)
			if a := c.send("prompts/get", `{"name":"ask"}`); a.Error == nil || a.Error.Code != -31001 ||
				!strings.HasPrefix(a.Error.Message, "Policy denied: ") || !strings.HasSuffix(a.Error.Message, " — No prompts.") {
				t.Errorf("got %s", a.raw)
			}
			const read = `{ "uri" : "file:///\u0061" }`
			_, done := c.start(t.Context(), "resources/read", read)
			if hold == brief {
				a := finish(t, done)
				if a.Error == nil || a.Error.Code != -31002 || a.Error.Message != "⏳ Approval requested (id: "+a.id()+"). A read." {
					t.Errorf("got %s", a.raw)
				}
				if again := c.send("resources/read", `{"uri":"file:///a"}`); again.id() != a.id() {
					t.Errorf("got %s, want it to join %s", again.raw, a.id())
				}
			}
			r := w.pending(1)[0]
			if r.Tool != "resources:read" || string(r.Args) != `{"uri":"file:///a"}` {
				t.Errorf("people are asked about %s %s", r.Tool, r.Args)
			}
			w.answer(r.ID, true, "")
			if hold == brief {
				_, done = c.start(t.Context(), "resources/read", read)
			}
			if a := finish(t, done); !strings.Contains(string(a.Result), `"by":"a"`) {
				t.Errorf("got %s", a.raw)
			}
			if got := w.ran(r.ID); got != approval.RunSucceeded {
				t.Errorf("the outcome is %s", got)
			}
			if n := len(s.calls("resources/read")); n != 1 || len(s.calls("prompts/get")) != 0 {
				t.Errorf("read %d times, prompts %d times", n, len(s.calls("prompts/get")))
			}
		}
	})
}

// require_approval: ["*"] is for tools; require_methods has the rest asked about, and what was approved runs once, as
// it was stored.
func TestRule2_RequireMethodsHasResourcesAskedAbout(t *testing.T) {
	t.Parallel()
	cfg, _, err := config.Parse("gate.yaml", []byte(`agents: [{name: bot, token: bot-token-0123456789}]
mcp: {servers: [{name: s, command: [x], require_approval: ["*"], require_methods: [resources/read]}]}
policy: {rules: [{name: all, tools: ["*"], risk: low, action: allow}]}
`), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	eachEra(t, func(t *testing.T, modern bool) {
		s := withThings(newScripted(t, modern), "a")
		w := behind(t, allowAll, brief, s.server("s", ""))
		if err := w.gate.SetPolicy(t.Context(), cfg.Policy, nil); err != nil {
			t.Fatal(err)
		}
		c := w.client(modern)
		if a := c.send("prompts/get", `{"name":"ask"}`); a.Error != nil {
			t.Errorf("what is not named is asked about: %s", a.raw)
		}
		const read = `{ "uri" : "file:///\u0061", "more": 1 }`
		a := c.send("resources/read", read)
		if a.Error == nil || a.Error.Code != -31002 || len(s.calls("resources/read")) != 0 {
			t.Fatalf("unasked: %s", a.raw)
		}
		r := w.pending(1)[0]
		if r.Tool != "resources:read" || string(r.Args) != `{"uri":"file:///a"}` ||
			r.Rule != "mcp.servers.s.require_methods" {
			t.Errorf("people are asked about %s %s by %s", r.Tool, r.Args, r.Rule)
		}
		w.answer(r.ID, true, "")
		if a := c.send("resources/read", read); a.Error != nil || !strings.Contains(string(a.Result), `"by":"a"`) {
			t.Errorf("approved, and yet %s", a.raw)
		}
		if got := s.calls("resources/read"); len(got) != 1 || got[0].member("uri") != `"file:///a"` ||
			got[0].member("more") != "" {
			t.Errorf("the server got %+v", got)
		}
		if a := c.send("resources/read", read); a.Error == nil || a.id() == r.ID || len(s.calls("resources/read")) != 1 {
			t.Errorf("an approval was used twice: %s", a.raw)
		}
	})
}

func TestUnknownMethodsAreRefusedAndNeverForwarded(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := withThings(newScripted(t, modern, "t"), "a")
		w := behind(t, allowAll, 0, s.server("s", ""))
		c := w.client(modern)
		c.names("tools/list")
		methods := []string{"tools/Call", "tools/delete", "sampling/createMessage", "elicitation/create", "roots/list",
			"tasks/list", "tasks/result", "x", "notifications/progress", "../tools/call"}
		if modern {
			methods = append(methods, "ping", "logging/setLevel", "resources/subscribe", "initialize")
		} else {
			methods = append(methods, "server/discover", "subscriptions/listen", "tasks/get", "tasks/cancel")
		}
		for _, method := range methods {
			a := c.send(method, `{"name":"t","uri":"file:///a"}`)
			if a.Error == nil || a.Error.Code != -32601 {
				t.Errorf("%s: %d %s", method, a.status, a.raw)
			}
			if modern && a.status != http.StatusNotFound {
				t.Errorf("%s: HTTP %d, want 404", method, a.status)
			}
			if n := len(s.calls(method)); n != 0 && method != "server/discover" && method != "initialize" &&
				method != "subscriptions/listen" {
				t.Errorf("%s was forwarded", method)
			}
		}
		wantCalls(t, s, 0)
	})
}

// A legacy server over HTTP has a session for each client's. For its calls it is asked once in each what it has.
func TestEachConnectionListsOnce(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, "t")
	w := behind(t, allowAll, 0, s.server("s", ""))
	s.await("tools/list", 1) // over the connection that all share
	for n := range 2 {
		c := w.client(false)
		for range 3 {
			wantText(t, c.call("t", `{}`), "done")
		}
		if got := len(s.calls("tools/list")); got != n+2 {
			t.Errorf("client %d: the server was asked %d times, want %d", n+1, got, n+2)
		}
	}
}
