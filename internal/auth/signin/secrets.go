package signin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"strings"
)

// inText has no letter at which a chat could take an address to end.
var inText = base32.StdEncoding.WithPadding(base32.NoPadding)

// secretLen is how long 256 bits are as text.
const secretLen = 52

// A session's secret begins with where the browser has its cookie: what is stored of it covers that, so that no cookie
// of this machine is one of another host, whatever a request says of itself.
const (
	ofHost    = "h"
	ofMachine = "m"
)

// newSecret returns the secret of a session that starts from there: 256 random bits as text.
func newSecret(from Origin) string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: the program ends if there is no randomness
	if from.Machine {
		return ofMachine + asText(b[:])
	}
	return ofHost + asText(b[:])
}

// isSecret reports whether a text could be a session's secret.
func isSecret(s string) bool {
	return len(s) == len(ofHost)+secretLen && (s[:1] == ofHost || s[:1] == ofMachine)
}

// NeedsKey reports whether what is done in a session with this secret takes its key too: the cookie goes to every
// port of this machine, and so proves nothing but that it was there.
func NeedsKey(secret string) bool { return strings.HasPrefix(secret, ofMachine) }

// Key is what a session whose secret [NeedsKey] proves itself with, and which. Only the answer to signing in holds it.
// It follows from the session's id and [Options].Keys: without them, as after a restart, one signs in anew.
func (s *Service) Key(session string) (which, key string) {
	return s.derive("which key " + session)[:16], s.derive("key " + session)
}

// IsKey reports whether a text is a session's key.
func (s *Service) IsKey(session, text string) bool {
	signature, err := inText.DecodeString(strings.ToUpper(text))
	return err == nil && asText(signature) == text && s.keys.Holds(signature, "key "+session)
}

// Token returns what the address of a link holds, again: it follows from the link's id and [Options].Keys. It is drawn
// where it is shown, and so does not stand in a queue before that. Where there are other keys by then it opens nothing.
func (s *Service) Token(linkID string) string { return s.derive(linkID) }

// derive is a secret that follows from a name and the keys.
func (s *Service) derive(name string) string { return asText(s.keys.Sign(name)) }

func asText(b []byte) string { return strings.ToLower(inText.EncodeToString(b)) }

// digest is what is stored of a secret.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
