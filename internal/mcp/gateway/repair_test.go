package gateway_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

// shape is what a server may say of a tool, and what clients are told of it, "" for nothing.
type shape struct {
	Name   string
	Server string // its era; "": legacy
	Said   string
	Want   string // by clients of either era
	Modern string // by modern ones; "": the same
}

// shapes are those that the interop tests have the official clients read too.
func shapes(t *testing.T) (all []shape) {
	t.Helper()
	b, err := os.ReadFile("testdata/shapes.json")
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A tool whose form can mean only one thing is offered in that form; one whose cannot is left out and named, alone.
func TestAMalformedToolTakesNoOtherAway(t *testing.T) {
	t.Parallel()
	for _, c := range shapes(t) {
		for _, modern := range []bool{false, true} { // the client
			want := c.Want
			if modern && c.Modern != "" {
				want = c.Modern
			}
			t.Run(fmt.Sprintf("%s, modern client %t", c.Name, modern), func(t *testing.T) {
				s := newScripted(t, c.Server == "modern", "first", "last")
				s.set(func() {
					l := s.lists["tools/list"]
					s.lists["tools/list"] = []string{l[0], `{"name":"odd",` + c.Said + `}`, l[1]}
				})
				w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{s.server("up", "")}})
				a := w.client(modern).send("tools/list", `{}`)
				var got struct{ Tools []json.RawMessage }
				if err := json.Unmarshal(a.Result, &got); err != nil {
					t.Fatal(err, a.raw)
				}
				all := ""
				for _, raw := range got.Tools {
					all += string(raw) + "\n"
				}
				if !strings.Contains(all, `"name":"first"`) || !strings.Contains(all, `"name":"last"`) {
					t.Errorf("the others are not offered: %s", all)
				}
				if whole := `{"name":"odd",` + want + `}` + "\n"; want != "" && !strings.Contains(all, whole) || want == "" &&
					strings.Contains(all, `"odd"`) {
					t.Errorf("offered %s\nwant %s", all, whole)
				}
				if want == "" {
					testkit.Eventually(t, "it is named", func() bool {
						return slices.ContainsFunc(w.gw.Health()[0].Problems, func(p string) bool {
							return strings.HasPrefix(p, `"odd": its `)
						})
					})
				} else if ps := w.gw.Health()[0].Problems; len(ps) > 0 {
					t.Errorf("the problems are %q", ps)
				}
			})
		}
	}
}

// What is left out of a list, and a list that failed, is named.
func TestWhatIsLeftOutOfAListIsNamed(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, "t")
	s.set(func() {
		s.caps = `{"tools":{},"prompts":{},"resources":{},"logging":null}`
		s.lists["tools/list"] = append(s.lists["tools/list"], `7`, `{"name":"a","Name":"b"}`)
		s.lists["prompts/list"] = []string{`{"name":"p","description":null,"arguments":[{"name":"x","required":null}]}`,
			`{"name":"q","arguments":[{}]}`}
		s.lists["resources/list"] = []string{`{"uri":"a:b","name":"n","mimeType":null}`, `{"uri":"a:c"}`}
	})
	s.when("resources/templates/list", func(x *turn) { x.fail(-32603, "boom") })
	w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{s.server("up", "")}})
	c := w.client(false)
	if a := c.send("prompts/list", `{}`); !strings.Contains(a.raw, `"prompts":[{"name":"p","arguments":[{"name":"x"}]}]`) {
		t.Errorf("offered %s", a.raw)
	}
	if a := c.send("resources/list", `{}`); !strings.Contains(a.raw, `"resources":[{"uri":"a:b","name":"n"}]`) {
		t.Errorf("offered %s", a.raw)
	}
	for _, want := range []string{"tools/list: element 2: it is not an object",
		`tools/list: element 3: the names "name" and "Name" differ only in letter case`,
		`prompts/list: "q": one of its arguments has no name`, `resources/list: "a:c": its name is no text`,
		"resources/templates/list: boom"} {
		testkit.Eventually(t, want, func() bool {
			return strings.Contains(strings.Join(w.gw.Health()[0].Problems, "\n"), want)
		})
	}
}

// A server that says nothing of what it can do is asked for its tools.
func TestAServerWithoutCapabilitiesIsAskedForItsTools(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		s.set(func() { s.caps = "null" })
		w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{s.server("up", "")}})
		wantText(t, w.client(modern).call("t", `{}`), "done")
	})
}

// What a modern tool returns beside an object reaches a legacy client in an object, which alone it reads.
func TestALegacyClientIsGivenAnObject(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ said, want string }{
		{`{"content":[{"type":"text","text":"[1.0]"}],"structuredContent":[1.0]}`,
			`{"content":[{"type":"text","text":"[1.0]"}],"structuredContent":{"result":[1.0]}}`},
		{`{"content":[],"structuredContent":"a"}`,
			`{"content":[{"type":"text","text":"\"a\""}],"structuredContent":{"result":"a"}}`},
		{`{"content":[],"structuredContent":null}`,
			`{"content":[{"type":"text","text":"null"}],"structuredContent":{"result":null}}`},
		{`{"content":[], "structuredContent": {"a":1.0}}`, `{"content":[], "structuredContent": {"a":1.0}}`},
		{`{"content":[]}`, `{"content":[]}`},
	} {
		s := newScripted(t, true, "t")
		s.when("tools/call", func(x *turn) { x.result(c.said) })
		w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{s.server("up", "")}})
		if a := w.client(false).call("t", `{}`); string(a.Result) != c.want {
			t.Errorf("a legacy client is given %s\nwant %s", a.Result, c.want)
		}
		if a := w.client(true).call("t", `{}`); string(a.Result) != c.said {
			t.Errorf("a modern client is given %s\nwant %s", a.Result, c.said)
		}
	}
}

// A server whose list of tools failed, in whatever way, is named for whoever runs the gate, until it lists them.
func TestAFailedListOfToolsIsNamed(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*turn){
		"an error":         func(x *turn) { x.fail(-32603, "boom") },
		"no list":          func(x *turn) { x.result(`{"tools":"none"}`) },
		"no object":        func(x *turn) { x.result(`[]`) },
		"a broken answer":  func(x *turn) { x.breakOff() },
		"an endless list":  func(x *turn) { x.result(`{"tools":[],"nextCursor":"again"}`) },
		"many odd members": func(x *turn) { x.result(`{"tools":[` + strings.Repeat(`1,`, 200) + `1]}`) },
	} {
		t.Run(name, func(t *testing.T) {
			eachEra(t, func(t *testing.T, modern bool) {
				s := newScripted(t, modern, "t")
				s.when("tools/list", fail)
				other := newScripted(t, modern, "u")
				w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{s.server("up", ""),
					other.server("other", "o")}})
				c := w.client(modern)
				if a := c.send("tools/list", `{}`); !strings.Contains(a.raw, `"name":"o__u"`) {
					t.Errorf("the other server's tools are gone: %s", a.raw)
				}
				named := func() bool {
					return slices.ContainsFunc(w.gw.Health()[0].Problems, func(p string) bool {
						return strings.HasPrefix(p, "its tools are not offered: tools/list: ")
					})
				}
				testkit.Eventually(t, "it is named", named)
				s.when("tools/list", (*turn).list)
				testkit.Eventually(t, "it is named no more", func() bool { c.send("tools/list", `{}`); return !named() })
			})
		})
	}
}

// A list of prompts or resources that failed takes no tools away.
func TestAFailedListOfPromptsLeavesTheTools(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, "t")
	s.set(func() { s.caps = `{"tools":{},"prompts":{},"resources":{}}` })
	s.when("prompts/list", (*turn).breakOff)
	s.when("resources/list", (*turn).breakOff)
	w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{s.server("up", "")}})
	if a := w.client(false).send("tools/list", `{}`); !strings.Contains(a.raw, `"name":"t"`) {
		t.Errorf("offered %s", a.raw)
	}
	for _, want := range []string{"prompts/list: ", "resources/list: "} {
		testkit.Eventually(t, want, func() bool {
			return strings.Contains(strings.Join(w.gw.Health()[0].Problems, "\n"), want)
		})
	}
}
