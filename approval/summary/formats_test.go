package summary_test

import (
	"strings"
	"testing"

	"countersign/approval/legible"
	"countersign/approval/summary"
)

// summarize fills a summary in.
func summarize(text, args string) summary.Wording {
	return call(args).Sentences(&summary.Sentences{Summary: summary.Wording{"": text, "ja": text}}).Summary
}

// A format shows a value exactly, or leaves it as it is: never another amount, size or time.
func TestFormatsOfASummaryAreExactOrLeaveTheValue(t *testing.T) {
	for _, tt := range []struct{ summary, args, want string }{
		{"Pay {args.c|money:USD/100} from {args.from} to {args.to}", `{"c":2000,"from":"treasury","to":"acme"}`,
			"Pay $20.00 from treasury to acme"},
		{"{args.c|money:USD/100}", `{"c":-5}`, "-$0.05"},
		{"{args.c|money:USD/100}", `{"c":0}`, "$0.00"},
		{"{args.c|money:USD/100}", `{"c":1234567.125}`, "$12,345.67125"},
		{"{args.c|money:USD}", `{"c":0.1}`, "$0.10"},
		{"{args.c|money:JPY}", `{"c":2000}`, "¥2,000"},
		{"{args.c|money:CHF/1000}", `{"c":1e3}`, "CHF 1.00"},
		{"{args.c|money:USD/100}", `{"c":9007199254740993}`, "$90,071,992,547,409.93"},
		{"{args.c|money:USD/100}", `{"c":1e999999999}`, "1e999999999"},
		{"{args.c|money:USD/100}", `{"c":"2000"}`, "“2000”"},
		{"{args.c|money:USD/100}", `{"c":true}`, "true"},
		{"{args.c|money:USD/100}", `{"c":[1]}`, "[1]"},
		{"{args.c|money:USD/100}", `{}`, "(none)"},
		{"{args.c|money:USD/100}", `{"c":100,"C":900}`, "$1.00 / “C”: $9.00"},
		{"{args.n|count}", `{"n":12345}`, "12,345"},
		{"{args.n|count}", `{"n":["a","b"]}`, "2"},
		{"{args.n|count}", `{"n":{"a":1,"b":[2,3],"c":null}}`, "3"},
		{"{args|count}", `{"a":1}`, "1"},
		{"{args.n|count}", `{"n":"7"}`, "“7”"},
		{"{args.n|size}", `{"n":999}`, "999 B"},
		{"{args.n|size}", `{"n":1000}`, "1 kB"},
		{"{args.n|size}", `{"n":1999}`, "1.9 kB (1,999 B)"},
		{"{args.n|size}", `{"n":-1}`, "-1"},
		{"{args.n|size}", `{"n":1.5}`, "1.5"},
		{"{args.n|size}", `{"n":"é"}`, "2 B"},
		{"{args.n|size}", `{"n":"2048"}`, "“2048”"},
		{"{args.t|date}", `{"t":1795233600}`, "2026-11-21 04:00:00 UTC"},
		{"{args.t|date:ms}", `{"t":1795233600000}`, "2026-11-21 04:00:00 UTC"},
		{"{args.t|date}", `{"t":1795233600001}`, "1795233600001"},
		{"{args.t|date}", `{"t":"2026-11-21T13:00:00+09:00"}`, "2026-11-21 13:00:00 +09:00"},
		{"{args.t|date}", `{"t":"2026-11-21"}`, "2026-11-21"},
		{"{args.t|date}", `{"t":"tomorrow"}`, "tomorrow"},
		{"{args.password|size}", `{"password":"hunter2hunter2"}`, "“•••• (14 characters, sha256 "},
	} {
		got := summarize(tt.summary, tt.args)[""]
		if got != tt.want && !(strings.HasSuffix(tt.want, "sha256 ") && strings.HasPrefix(got, tt.want)) {
			t.Errorf("%q with %s is %q, want %q", tt.summary, tt.args, got, tt.want)
		}
	}
}

// No value passes for words of the rule: what is not a plain word stands in quotes that it cannot close.
func TestAValueIsNoPartOfTheRulesSentence(t *testing.T) {
	for args, want := range map[string]string{
		`{"to":"acme"}`:           "Pay acme",
		`{"to":"a@b.example"}`:    "Pay a@b.example",
		`{"to":"/etc/gate.conf"}`: "Pay /etc/gate.conf",
		`{"to":"a-1"}`:            "Pay a-1",
		`{"to":"0xAbC"}`:          "Pay 0xAbC",
		`{"to":"true"}`:           "Pay “true”",
		`{"to":"20"}`:             "Pay “20”",
		`{"to":"1e5"}`:            "Pay “1e5”",
		`{"to":""}`:               "Pay “”",
		`{"to":"Bob” approved by security “"}`: `Pay “Bob\u201d approved by security \u201c”`,
		`{"to":"a\nb\u202ec"}`:                 "Pay “a\nb\u202ec”", // made visible where it is shown
		`{"to":"` + strings.Repeat("x", 200) + `"}`: "Pay “" + legible.ShortenMiddle(strings.Repeat("x", 200), 120,
			legible.UTF16Len) + "”",
	} {
		if got := summarize("Pay {args.to}", args)[""]; got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	if got := summarize(strings.Repeat("{args} ", 40), `{"x":"`+strings.Repeat("y", 5000)+
		`"}`)[""]; legible.UTF16Len(got) > 620 {
		t.Errorf("%d characters", len(got))
	}
	if got := summarize("{args.no}", `{"q":1}`); got["ja"] != "（なし）" || got[""] != "(none)" {
		t.Errorf("nothing is %q", got)
	}
}
