package signin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"strings"
)

// inText has no letter at which a chat could take an address to end.
var inText = base32.StdEncoding.WithPadding(base32.NoPadding)

// secretLen is how long a secret is as text.
const secretLen = 52

// newSecret returns 256 random bits as text.
func newSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: the program ends if there is no randomness
	return asText(b[:])
}

// Token returns what the address of a link holds, again: it follows from the link's id and a key that only this process
// has. It is drawn where it is shown, and so does not stand in a queue before that. After a restart it opens nothing.
func (s *Service) Token(linkID string) string {
	sum := hmac.New(sha256.New, s.key[:])
	sum.Write([]byte(linkID))
	return asText(sum.Sum(nil))
}

func asText(b []byte) string { return strings.ToLower(inText.EncodeToString(b)) }

// digest is what is stored of a secret.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
