package rest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
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

// A gate proves that it knows a token to whoever has that, for the port that they are at, and to nobody else.
func TestAGateProvesThatItKnowsAToken(t *testing.T) {
	w := newWorld(t)
	base := ""
	w.rest.base = func() string { return base }
	const nonce = "0123456789012345678901234"
	at, err := url.Parse(w.srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(token, nonce, port string) reply {
		return w.do("", "GET", "/v1/proof?"+url.Values{"token": {token}, "nonce": {nonce}, "port": {port}}.Encode(), "")
	}
	for _, token := range []string{botToken, hanaToken} {
		of, want := derived(token, "name of a token")[:32], derived(token, "proof at port "+at.Port()+" for "+nonce)
		r := ask(of, nonce, at.Port()).is(200)
		if r.str("proof") != want || len(want) != 64 || strings.Contains(string(r.body), token) {
			t.Errorf("%s, want %s", r.body, want)
		}
		if other := ask(of, nonce+"x", at.Port()).is(200).str("proof"); other == want {
			t.Error("another nonce has the same proof")
		}
		ask(of, "short", at.Port()).is(400, "invalid_parameter")
		ask(of, nonce, "1").is(400, "invalid_parameter")
		ask(of, nonce, "").is(400, "invalid_parameter")
	}
	ask(strings.Repeat("0", 32), nonce, at.Port()).is(401, "unauthorized")
	ask("", nonce, at.Port()).is(401, "unauthorized")
	base = "http://localhost:9000" // a container's port that was put behind another
	ask(derived(hanaToken, "name of a token")[:32], nonce, "9000").is(200)
	for of, port := range map[string]string{"http://localhost": "80", "https://gate.example": "443"} {
		base = of
		ask(derived(hanaToken, "name of a token")[:32], nonce, port).is(200)
		ask(derived(hanaToken, "name of a token")[:32], nonce, "81").is(400, "invalid_parameter")
	}
}
