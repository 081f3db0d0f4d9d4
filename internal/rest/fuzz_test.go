package rest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/approval/args"
)

// FuzzReadCall holds the reader of calls against a plain JSON reader: what is taken is one JSON object
// of known, exact, unrepeated names, with the very args that were sent; and what is refused is refused
// with one of the codes for a bad request, in a detail that is fit to show.
func FuzzReadCall(f *testing.F) {
	for _, s := range []string{
		transfer, `{}`, `{"tool":"x","args":{"a":1,"a":2}}`, `{"tool":"x","Tool":"y"}`, `{"tool":"x","t\u006fol":"y"}`,
		`[{}]`, `{"tool":"\ud800"}`,
		`{"tool":"x","args":null}`, `{"tool":"x","args":{"n":1E400,"big":12345678901234567890}}`,
		"{\"tool\":\"x\",\"\xff\":1}", `{"tool":"x"}{}`,
		`{"tool":"x","args":` + strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70) + `}`, `{"tool":"x","args":"{}"}`,
		` {"tool" : "x" , "args" : { } } `,
		`{"tool":"resources:read","method":"resources/read","tool_digest":"00","dispatch":true,"task":false}`,
		`{"tool":"x","method":"tools/call","dispatch":1,"task":null}`, `{"tool":"x","dispatch":true,"Dispatch":false}`,
		`{"tool":"x","scope":null,"server":"","turn_id":"t","session_id":"s","rationale":"r","preview":"p"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		c, err := readCall(body, "bot")
		if !bytes.Equal(body, before) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			code := approval.CodeOf(err)
			switch code {
			case codeInvalidJSON, codeUnknownField, approval.CodeInvalidParameter, approval.CodeInvalidArgs:
			default:
				t.Fatalf("refused with %s", code)
			}
			msg := err.(*approval.Error).Message
			if !utf8.ValidString(msg) || len(msg) > 600 || strings.ContainsAny(msg, "\n\r") {
				t.Fatalf("the detail is %q", msg)
			}
			return
		}
		if !jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true)) {
			t.Fatal("taken, but not JSON")
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(body, &members); err != nil {
			t.Fatalf("taken, but %v", err)
		}
		for name := range members {
			if !slices.Contains(documented(callBody{}), name) {
				t.Fatalf("taken with %q", name)
			}
		}
		var tool string
		if err := json.Unmarshal(or(members["tool"], `""`), &tool); err != nil || tool != c.Tool {
			t.Fatalf("the tool is %q, %v; want %q", c.Tool, err, tool)
		}
		args, err := args.Parse(or(members["args"], "{}"))
		if err != nil || !bytes.Equal(args.Canonical(), c.Args.Canonical()) {
			t.Fatalf("the args are %s, %v; want %s", c.Args.Canonical(), err, args.Canonical())
		}
	})
}

// FuzzReadDecision holds that a decision has args exactly where they were sent, and those; and that what is refused is
// refused as a bad request.
func FuzzReadDecision(f *testing.F) {
	for _, s := range []string{
		`{"decision":"approve"}`, `{"decision":"deny","reason":"no"}`, `{"decision":"approve","args":{}}`,
		`{"decision":"approve","args":null}`,
		`{"decision":"approve","args":{"a":1,"a":2}}`, `{"decision":"approve","confirmed":true,"Confirmed":false}`,
		`{"ids":["a","a"],"decision":"deny"}`,
		`{"decision":"approve","args":{"n":1E400}}`, `{"decision":"approve","args":{"n":1},"reason":null,"confirmed":null}`,
		`{"ids":null,"decision":""}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var one decideBody
		var many decideManyBody
		for _, err := range []error{decode(body, &one), decode(body, &many)} {
			switch code := approval.CodeOf(err); code {
			case "", codeInvalidJSON, codeUnknownField, approval.CodeInvalidParameter, approval.CodeInvalidArgs:
			default:
				t.Fatalf("refused with %s", code)
			}
		}
		if len(many.IDs) > approval.MaxDecideMany {
			t.Fatalf("%d ids are taken", len(many.IDs))
		}
		if decode(body, new(decideBody)) != nil {
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(body, &members); err != nil {
			t.Fatalf("taken, but %v", err)
		}
		sent, there := members["args"]
		if there != one.Args.given {
			t.Fatalf("args are sent: %t, and taken: %t", there, one.Args.given)
		}
		if want, err := args.Parse(sent); there && (err != nil || !bytes.Equal(want.Canonical(), one.Args.Canonical())) {
			t.Fatalf("the args are %s, %v; want %s", one.Args.Canonical(), err, want.Canonical())
		}
	})
}

func or(v json.RawMessage, otherwise string) []byte {
	if v == nil || string(v) == "null" {
		return []byte(otherwise)
	}
	return v
}

// FuzzParseWait holds that a wait is never negative, nor longer than it may be.
func FuzzParseWait(f *testing.F) {
	for _, s := range []string{"30", "30s", "-1", "1h", "9e9h", "", "0x10", "1_0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := parseWait(s); err == nil && (d < 0 || d > maxWait) {
			t.Errorf("%q is %v", s, d)
		}
	})
}
