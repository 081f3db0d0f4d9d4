package signin_test

import (
	"strings"
	"testing"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/internal/auth/signin"
	"countersign/internal/secret"
)

// What one of several programs shows in a chat opens at any of them, and so does the key of a session that it began.
func TestProgramsThatShareASecretKnowEachOthersLinksAndKeys(t *testing.T) {
	w := newWorld(t)
	program := func(of secret.Keys) *signin.Service {
		return signin.New(signin.Options{Store: w.scoped, Rows: w.scoped.SignIns, Keys: of,
			Audit: approval.NewAuditLog(redact.New()), Directory: w.dir, Logger: w.log.Logger()})
	}
	keys := func() secret.Keys { return secret.DeriveKeys(secret.List{"of all"}, "signin") }
	one, other, apart := program(keys()), program(keys()), w.Service
	token, l, err := one.NewLink(t.Context(), "hana", "line", "")
	if err != nil || other.Token(l.ID) != token || apart.Token(l.ID) == token {
		t.Errorf("%v; the other shows another link, or one shows it that is apart", err)
	}
	_, sess, err := other.Redeem(t.Context(), other.Token(l.ID), here)
	if err != nil {
		t.Fatal(err)
	}
	_, key := other.Key(sess.ID)
	for text, want := range map[string]bool{key: true, strings.ToUpper(key): false, key[1:]: false, key + "a": false,
		other.Token(l.ID): false, "": false} {
		if got := one.IsKey(sess.ID, text); got != want {
			t.Errorf("%q is the session's key: %t", text, got)
		}
	}
	if apart.IsKey(sess.ID, key) || one.IsKey("another", key) {
		t.Error("a key holds where it was not made for")
	}
}
