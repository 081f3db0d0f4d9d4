package rest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// derived is what the document says follows from a token.
func derived(token, what string) string {
	k := sha256.Sum256([]byte(token))
	h := hmac.New(sha256.New, k[:])
	h.Write([]byte(what))
	return hex.EncodeToString(h.Sum(nil))
}

// A gate proves that it knows a token to whoever has that, for the address that they are at, and to nobody else.
func TestAGateProvesThatItKnowsAToken(t *testing.T) {
	w := newWorld(t)
	const nonce = "0123456789012345678901234"
	at := strings.TrimPrefix(w.srv.URL, "http://")
	_, port, _ := strings.Cut(at, ":")
	ask := func(token, nonce, address string) reply {
		return w.do("", "GET", "/v1/proof?"+url.Values{"token": {token}, "nonce": {nonce}, "address": {address}}.Encode(), "")
	}
	for _, token := range []string{botToken, hanaToken} {
		of, want := derived(token, "name of a token")[:32], derived(token, "proof at "+at+" for "+nonce)
		r := ask(of, nonce, at).is(200)
		if r.str("proof") != want || len(want) != 64 || strings.Contains(string(r.body), token) {
			t.Errorf("%s, want %s", r.body, want)
		}
		if other := ask(of, nonce+"x", at).is(200).str("proof"); other == want {
			t.Error("another nonce has the same proof")
		}
		ask(of, "short", at).is(400, "invalid_parameter")
		for _, elsewhere := range []string{"127.0.0.1:1", "[::1]:" + port, "[::ffff:127.0.0.1]:" + port, "127.0.0.1:0" + port,
			"localhost:" + port, "0.0.0.0:" + port, port, "127.0.0.1", at + " ", ""} {
			ask(of, nonce, elsewhere).is(400, "invalid_parameter")
		}
	}
	ask(strings.Repeat("0", 32), nonce, at).is(401, "unknown_token")
	ask("", nonce, at).is(401, "unknown_token")
	w.rest.published = func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort("[::1]:9000")} }
	hana := derived(hanaToken, "name of a token")[:32]
	if got := ask(hana, nonce, "[::1]:9000").is(200).str("proof"); got != derived(hanaToken, "proof at [::1]:9000 for "+
		nonce) {
		t.Errorf("at a port that is published: %s", got)
	}
	ask(hana, nonce, at).is(200)
	ask(hana, nonce, "127.0.0.1:9000").is(400, "invalid_parameter")
}
