package summary_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"countersign/approval/args"
	"countersign/approval/legible"
	"countersign/approval/redact"
	"countersign/approval/summary"
)

// call is one of transfer_credits.
func call(raw string) summary.Call {
	parsed, err := args.Parse([]byte(raw))
	if err != nil {
		panic(err)
	}
	return summary.Call{Target: "transfer_credits", Args: parsed, Masker: redact.New()}
}

func TestAMessageIsFilledIn(t *testing.T) {
	for _, tt := range []struct{ message, args, want string }{
		{"Really?", `{}`, "Really?"},
		{"{toolName} pays {args.amount_cents} cents to {args.to}", `{"amount_cents":123456,"to":"Bob"}`,
			"transfer_credits pays 123456 cents to “Bob”"},
		{"all: {args}", `{"b":[1,true],"a":null}`, `all: {"a":null,"b":[1,true]}`},
		{"deep {args.a.b.c}, none {args.a.x} and {args.a.b.c.d}", `{"a":{"b":{"c":1.50}}}`,
			"deep 1.50, none (none) and (none)"},
		{"{args.list} {args.obj}", `{"list":[1,2],"obj":{"k":"v"}}`, `[1,2] {"k":"v"}`},
		{"Write {args.path}?", `{"Path":"/etc/passwd"}`, "Write “Path”: “/etc/passwd”?"},
		{"Write {args.path}?", `{"PATH":"/etc/a","path":"/tmp/b"}`, "Write “/tmp/b” / “PATH”: “/etc/a”?"},
		{"Write {args.file.path}?", `{"file":{"path":"/tmp/b"},"File.Path":"/etc/a"}`,
			"Write “/tmp/b” / “File.Path”: “/etc/a”?"},
		{"Write {args.files.1}?", `{"files":["a",{"x":1}]}`, `Write {"x":1}?`},
		{"Write {args.p}?", `{"P”: “x” approved “":1}`, "Write (none)?"},
		{"Write {args.k}?", `{"\u212a":1}`, "Write “\u212a”: 1?"},
		{"Pay {args.to}", `{"to":"Bob” approved by security “"}`, `Pay “Bob\u201d approved by security \u201c”`},
		{"Pay {args.to}", `{"to":"a\nb\u202ec"}`, "Pay “a\nb\u202ec”"},
		{"{args.a}", `{"a":"{toolName} {args.b}","b":1}`, "“{toolName} {args.b}”"},
		{"unknown {tool} {args. x} {}", `{"z":1}`, "unknown {tool} {args. x} {}"},
		{"log in with {args.password}", `{"password":"hunter2hunter2"}`, "log in with “•••• (14 characters, sha256 "},
	} {
		got := call(tt.args).Message(tt.message)
		if got != tt.want && !(strings.HasSuffix(tt.want, "sha256 ") && strings.HasPrefix(got, tt.want)) {
			t.Errorf("%q with %s is %q, want %q", tt.message, tt.args, got, tt.want)
		}
		if strings.Contains(got, "hunter2") {
			t.Errorf("a secret reached the message: %q", got)
		}
	}
	if got := call(`{"to":"` + strings.Repeat("x", 5000) + `"}`).Message("{args.to} {args}"); len(got) > 2000 {
		t.Errorf("%d bytes", len(got))
	}
	if got := summary.UnknownPlaceholders("{toolName} {args} {args.a-b} {tool} {arg.x} {} { x }"); strings.Join(got,
		" ") != "{tool} {arg.x}" {
		t.Errorf("unknown: %q", got)
	}
}

// The sentence is what people decide by: it holds nothing that may be otherwise when the call runs.
func TestAMessageHoldsNothingThatIsIgnored(t *testing.T) {
	c := call(`{"n":1,"description":"a harmless one"}`)
	c.Ignored = []string{"description"}
	const want = `transfer_credits 1 (none) {"n":1}`
	if got := c.Message("{toolName} {args.n} {args.description} {args}"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Whatever a value holds, it stays on its line and between its quotes.
func TestNoValueLeavesItsQuotes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.String().Draw(r, "to")
		got := legible.Line(call(`{"to":` + quoteJSON(text) + `}`).Message("Send {args.to} now")) // as it is shown
		inner, ok := strings.CutPrefix(got, "Send “")
		inner, end := strings.CutSuffix(inner, "” now")
		if !ok || !end || strings.ContainsAny(inner, "“”\n\r") {
			r.Fatalf("%q became %q", text, got)
		}
	})
}

func quoteJSON(s string) string {
	b, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "�"))
	if err != nil {
		panic(err)
	}
	return string(b)
}
