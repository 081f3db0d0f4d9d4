package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"

	"countersign/approval/redact"
	"countersign/internal/mcp/gateway"
)

// tokenOf is the token under which a request wants progress.
func tokenOf(x *turn) string {
	var meta map[string]json.RawMessage
	_ = json.Unmarshal([]byte(x.member("_meta")), &meta)
	return string(meta["progressToken"])
}

// What a server with mask_results returns reaches agents without its secrets, whatever the way: texts, structures,
// resources, prompts, errors, progress. Bytes stay as they are, and so does every result without a secret.
func TestSecretsInResultsAreMasked(t *testing.T) {
	t.Parallel()
	const secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		s.set(func() {
			s.caps = `{"tools":{},"prompts":{},"resources":{}}`
			s.lists["prompts/list"] = []string{`{"name":"p"}`}
			s.lists["resources/list"] = []string{`{"uri":"a:b","name":"n"}`}
		})
		cfg := s.server("up", "")
		cfg.MaskResults = true
		w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{cfg}, Masker: func() gateway.Masker {
			return redact.New()
		}})
		for _, client := range []bool{modern, !modern} {
			c := w.client(client)
			for _, said := range []string{
				`{"content":[{"type":"text","text":"it is S"},{"type":"image","mimeType":"image/png","data":"KEEP"}]}`,
				`{"content":[{"type":"resource","resource":{"uri":"a:KEEP","text":"export GITHUB=S"}}]}`,
				`{"content":[{"type":"resource_link","uri":"a:KEEP","name":"n","description":"S"}]}`,
				`{"content":[], "structuredContent": {"deep":[{"a":"S"},{"api_key":"x1y2z3","b":"KEEP"}]}}`,
				`{"isError":true,"content":[{"type":"text","text":"KEEP: Authorization: Bearer S"}]}`,
			} {
				s.when("tools/call", func(x *turn) {
					x.notify("notifications/progress", `{"progressToken":`+tokenOf(x)+`,"progress":1,"message":"`+secret+`"}`)
					x.result(strings.ReplaceAll(said, `S"`, secret+`"`))
				})
				a := c.send("tools/call", `{"_meta":{"progressToken":"mine"},"name":"t","arguments":{}}`)
				all := a.raw
				for _, n := range a.notes {
					all += n.raw
				}
				if len(a.notes) == 0 || strings.Contains(all, secret) || strings.Contains(all, "x1y2z3") || !strings.Contains(a.raw,
					"••••") {
					t.Errorf("%s: the agent reads %s", said, a.raw)
				}
				if strings.Contains(said, "KEEP") && !strings.Contains(a.raw, "KEEP") {
					t.Errorf("%s: lost in %s", said, a.raw)
				}
			}
			s.when("resources/read", func(x *turn) {
				x.result(`{"contents":[{"uri":"a:b","text":"` + secret + `"},{"uri":"a:b","blob":"KEEP"}]}`)
			})
			s.when("prompts/get", func(x *turn) {
				x.result(`{"description":"` + secret + `","messages":[{"role":"user","content":{"type":"text","text":"` + secret +
					` KEEP"}}]}`)
			})
			for method, params := range map[string]string{"resources/read": `{"uri":"a:b"}`, "prompts/get": `{"name":"p"}`} {
				if a := c.send(method, params); strings.Contains(a.raw, secret) || !strings.Contains(a.raw, "••••") ||
					!strings.Contains(a.raw, "KEEP") {
					t.Errorf("%s: the agent reads %s", method, a.raw)
				}
			}
			s.when("tools/call", func(x *turn) { x.fail(-32000, "no access with "+secret) })
			if a := c.call("t", `{}`); strings.Contains(a.raw, secret) || !strings.Contains(a.raw, "no access with ••••") {
				t.Errorf("an error: the agent reads %s", a.raw)
			}
		}
		c := w.client(modern)
		const plain = `{ "content": [ {"type":"text","text":"nothing\u0020here"} ], "structuredContent": {"n":1.0} }`
		s.when("tools/call", func(x *turn) { x.result(plain) })
		if a := c.call("t", `{}`); string(a.Result) != plain {
			t.Errorf("a result without a secret is %s", a.Result)
		}
		// What cannot be read to be masked is held back.
		for _, odd := range []string{`{"content":[{"type":"text","text":"a","text":"` + secret + `"}]}`, `{"content":"` +
			secret + `","content":[]}`,
			`{"content":[7,"` + secret + `"]}`} {
			s.when("tools/call", func(x *turn) { x.result(odd) })
			if a := c.call("t", `{}`); strings.Contains(a.raw, secret) || !a.isError() {
				t.Errorf("%s: the agent reads %s", odd, a.raw)
			}
		}
	})
}
