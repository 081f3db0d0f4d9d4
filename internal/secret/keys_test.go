package secret

import (
	"fmt"
	"strings"
	"testing"
)

// What was signed and sealed with a secret holds for the same use, whoever holds the secret: alone, or beside a newer
// one. It holds for no other use, no other secret, and no other text.
func TestKeysHoldForTheSameUseAlone(t *testing.T) {
	old, next := Value(strings.Repeat("o", 32)), Value(strings.Repeat("n", 32))
	made := DeriveKeys(List{old}, "links")
	signature, sealed := made.Sign("text"), made.Seal([]byte("text"))
	for name, c := range map[string]struct {
		keys Keys
		want bool
	}{
		"the same":             {DeriveKeys(List{old}, "links"), true},
		"while it is replaced": {DeriveKeys(List{next, old}, "links"), true},
		"once it is replaced":  {DeriveKeys(List{next}, "links"), false},
		"for another use":      {DeriveKeys(List{old}, "tickets"), false},
		"of this program":      {NewKeys(), false},
	} {
		if got := c.keys.Holds(signature, "text"); got != c.want || c.keys.Holds(signature, "other") {
			t.Errorf("%s: the signature holds: %t, want %t", name, got, c.want)
		}
		if text, err := c.keys.Open(sealed); (err == nil) != c.want || c.want && string(text) != "text" {
			t.Errorf("%s: %q was sealed, %v", name, text, err)
		}
	}
	if string(made.Seal([]byte("text"))) == string(sealed) {
		t.Error("a text is sealed the same twice")
	}
	for i := range sealed {
		changed := append([]byte(nil), sealed...)
		changed[i]++
		if _, err := made.Open(changed); err == nil {
			t.Errorf("changed at %d it opens", i)
		}
	}
	if one, other := NewKeys(), NewKeys(); other.Holds(one.Sign("text"), "text") {
		t.Error("two programs have the same key")
	}
}

// Keys do not change with the program: what one version has signed another must know. The value was reckoned apart from
// this code, as RFC 5869 says.
func TestKeysStayTheSame(t *testing.T) {
	k := DeriveKeys(List{Value(strings.Repeat("s", 32))}, "links")
	if got, want := fmt.Sprintf("%x", k.Sign("text"))[:16], "df2438fd751b5027"; got != want {
		t.Errorf("signed as %s, want %s", got, want)
	}
}

func TestKeysDoNotPrint(t *testing.T) {
	k := NewKeys()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		if got := fmt.Sprintf(verb, k); got != Hidden {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}
