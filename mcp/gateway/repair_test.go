package gateway_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"countersign/internal/testkit"
	"countersign/mcp/gateway"
)

// A tool whose form can mean only one thing is offered in that form; one whose cannot is left out and named, alone.
func TestAMalformedToolTakesNoOtherAway(t *testing.T) {
	const whatever = `{"type":"object"}`
	for _, c := range []struct{ name, said, want string }{ // want: what is offered, "" for nothing
		{"no schema", `"description":"d"`, `"description":"d","inputSchema":` + whatever},
		{"schema null", `"inputSchema":null`, `"inputSchema":` + whatever},
		{"schema true", `"inputSchema":true`, `"inputSchema":` + whatever},
		{"schema empty", `"inputSchema":{}`, `"inputSchema":` + whatever},
		{"schema without a type", `"inputSchema":{"properties":{"a":{}}}`, `"inputSchema":{"properties":{"a":{}},"type":"object"}`},
		{"schema of several types", `"inputSchema":{"type":["object","null"]}`, `"inputSchema":` + whatever},
		{"properties null", `"inputSchema":{"type":"object","properties":null,"required":null}`, `"inputSchema":` + whatever},
		{"properties []", `"inputSchema":{"type":"object","properties":[]}`, `"inputSchema":` + whatever},
		{"property true", `"inputSchema":{"type":"object","properties":{"a":true,"b":false}}`, `"inputSchema":{"type":"object","properties":{"a":{},"b":{"not":{}}}}`},
		{"description null", `"description":null,"title":null,"inputSchema":` + whatever, `"inputSchema":` + whatever},
		{"annotations null", `"annotations":null,"_meta":null,"icons":null,"execution":null,"inputSchema":` + whatever, `"inputSchema":` + whatever},
		{"hint null", `"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":null,"title":"t"}`, `"inputSchema":{"type":"object"},"annotations":{"title":"t"}`},
		{"output null", `"inputSchema":{"type":"object"},"outputSchema":null`, `"inputSchema":` + whatever},
		{"output empty", `"inputSchema":{"type":"object"},"outputSchema":{}`, `"inputSchema":` + whatever},
		{"icon without a source", `"inputSchema":{"type":"object"},"icons":[{}]`, `"inputSchema":` + whatever},
		{"all as it should be", `"x":1.0,"inputSchema":{"type": "object"},"icons":[{"src":"s"}],"annotations":{"readOnlyHint":true}`,
			`"x":1.0,"inputSchema":{"type": "object"},"icons":[{"src":"s"}],"annotations":{"readOnlyHint":true}`},
		{"schema of a text", `"inputSchema":{"type":"string"}`, ""},
		{"schema false", `"inputSchema":false`, ""},
		{"schema a text", `"inputSchema":"object"`, ""},
		{"schema with a name twice", `"inputSchema":{"type":"object","type":"string"}`, ""},
		{"property null", `"inputSchema":{"type":"object","properties":{"a":null}}`, ""},
		{"property a text", `"inputSchema":{"type":"object","properties":{"a":"string"}}`, ""},
		{"required true", `"inputSchema":{"type":"object","required":true}`, ""},
		{"description a number", `"description":1,"inputSchema":` + whatever, ""},
		{"annotations a text", `"annotations":"safe","inputSchema":` + whatever, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScripted(t, false, "first", "last")
			s.set(func() {
				l := s.lists["tools/list"]
				s.lists["tools/list"] = []string{l[0], `{"name":"odd",` + c.said + `}`, l[1]}
			})
			w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{s.server("up", "")}})
			a := w.client(false).send("tools/list", `{}`)
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
			if want := `{"name":"odd",` + c.want + `}` + "\n"; c.want != "" && !strings.Contains(all, want) || c.want == "" && strings.Contains(all, `"odd"`) {
				t.Errorf("offered %s\nwant %s", all, want)
			}
			if c.want == "" {
				testkit.Eventually(t, "it is named", func() bool {
					return slices.ContainsFunc(w.gw.Health()[0].Problems, func(p string) bool { return strings.HasPrefix(p, `"odd": its `) })
				})
			} else if ps := w.gw.Health()[0].Problems; len(ps) > 0 {
				t.Errorf("the problems are %q", ps)
			}
		})
	}
}

// What is left out of a list, and a list that failed, is named.
func TestWhatIsLeftOutOfAListIsNamed(t *testing.T) {
	s := newScripted(t, false, "t")
	s.set(func() {
		s.caps = `{"tools":{},"prompts":{},"resources":{},"logging":null}`
		s.lists["tools/list"] = append(s.lists["tools/list"], `7`, `{"name":"a","Name":"b"}`)
		s.lists["prompts/list"] = []string{`{"name":"p","description":null,"arguments":[{"name":"x","required":null}]}`, `{"name":"q","arguments":[{}]}`}
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
	for _, want := range []string{"tools/list: element 2: it is not an object", `tools/list: element 3: the names "name" and "Name" differ only in letter case`,
		`prompts/list: "q": one of its arguments has no name`, `resources/list: "a:c": its name is no text`, "resources/templates/list: boom"} {
		testkit.Eventually(t, want, func() bool { return strings.Contains(strings.Join(w.gw.Health()[0].Problems, "\n"), want) })
	}
}

// A server that says nothing of what it can do is asked for its tools.
func TestAServerWithoutCapabilitiesIsAskedForItsTools(t *testing.T) {
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		s.set(func() { s.caps = "null" })
		w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{s.server("up", "")}})
		wantText(t, w.client(modern).call("t", `{}`), "done")
	})
}
