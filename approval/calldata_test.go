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
