package approval

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestTextsOfARecordAreWrittenAsJSONIs(t *testing.T) {
	same := func(t rapid.TB, s string) {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendQuoted([]byte("before"), s)); got != "before"+string(want) {
			t.Errorf("%q is written as %s, want before%s", s, got, want)
		}
	}
	for c := range 256 {
		same(t, string([]byte{byte(c)}))
		same(t, `a"`+string([]byte{byte(c)})+`\b`)
	}
	rapid.Check(t, func(t *rapid.T) { same(t, rapid.String().Draw(t, "text")) })
}

func TestWhatARequestsRecordHoldsIsWrittenAsJSONIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string { return rapid.String().Draw(t, name) }
		r := Request{ArgsHash: text("hash"), Rule: text("rule")}
		args, expires := text("args"), text("expires")
		want := marshal(map[string]any{"args": args, "args_hash": r.ArgsHash, "rule": r.Rule, "expires_at": expires})
		if got := requestedData(&r, args, expires); string(got) != string(want) {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
