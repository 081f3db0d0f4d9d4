package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// TokenProof returns the proof that the token of a name is known here, for a nonce that its owner made and the address
// at which they are. The name follows from the token, so that only who has that can ask. Neither tells anything of it.
func (d *Directory) TokenProof(name, nonce, address string) (proof string, ok bool) {
	n := d.now.Load()
	if n == nil {
		return "", false
	}
	digest, ok := n.proofs[name]
	if !ok {
		return "", false
	}
	return derive(digest, "proof at "+address+" for "+nonce), true
}

// nameOf tells a token from others and is none.
func nameOf(digest [sha256.Size]byte) string { return derive(digest, "name of a token")[:32] }

func derive(digest [sha256.Size]byte, what string) string {
	h := hmac.New(sha256.New, digest[:])
	h.Write([]byte(what))
	return hex.EncodeToString(h.Sum(nil))
}
