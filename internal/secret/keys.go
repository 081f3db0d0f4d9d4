package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Keys are what one use signs and seals with: the first signs and seals, and what any of them has signed or sealed
// holds. They do not print. The zero Keys are none: see [Keys.OrNew].
type Keys struct{ each []key }

type key struct {
	signing [32]byte
	sealing cipher.AEAD
}

// NewKeys makes a key that only its holder has, and is gone with it.
func NewKeys() Keys {
	var of [32]byte
	_, _ = rand.Read(of[:]) // it does not fail: crypto/rand ends the program instead
	return Keys{[]key{newKey(string(of[:]), "")}}
}

// OrNew returns the keys, or new ones where there are none.
func (ks Keys) OrNew() Keys {
	if len(ks.each) == 0 {
		return NewKeys()
	}
	return ks
}

// DeriveKeys makes the keys that all have for a use who hold the same secrets: those of one use hold for no other (RFC
// 5869, HKDF with SHA-256). A secret that is derived from should have 256 bits that nobody can guess.
func DeriveKeys(secrets List, use string) Keys {
	var ks Keys
	for _, s := range secrets {
		ks.each = append(ks.each, newKey(s.Reveal(), use))
	}
	return ks
}

func newKey(from, use string) (k key) {
	derive := func(what string) []byte {
		out, err := hkdf.Key(sha256.New, []byte(from), nil, "countersign "+what+" "+use, len(k.signing))
		if err != nil {
			panic(err) // of a key that is too long
		}
		return out
	}
	copy(k.signing[:], derive("signing"))
	block, err := aes.NewCipher(derive("sealing"))
	if err != nil {
		panic(err) // of a key of another length
	}
	if k.sealing, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		panic(err)
	}
	return k
}

// Sign returns what is made of a text by who has the keys (HMAC with SHA-256).
func (ks Keys) Sign(text string) []byte { return ks.each[0].sign(text) }

func (k key) sign(text string) []byte {
	sum := hmac.New(sha256.New, k.signing[:])
	sum.Write([]byte(text))
	return sum.Sum(nil)
}

// Holds reports whether a signature is of a text.
func (ks Keys) Holds(signature []byte, text string) bool {
	for _, k := range ks.each {
		if hmac.Equal(signature, k.sign(text)) {
			return true
		}
	}
	return false
}

// Seal keeps a text from being read or changed (AES-256-GCM).
func (ks Keys) Seal(text []byte) []byte { return ks.each[0].sealing.Seal(nil, nil, text, nil) }

var errSeal = errors.New("secret: not what was sealed")

// Open returns what was sealed.
func (ks Keys) Open(sealed []byte) ([]byte, error) {
	for _, k := range ks.each {
		if text, err := k.sealing.Open(nil, nil, sealed, nil); err == nil {
			return text, nil
		}
	}
	return nil, errSeal
}

// Format hides the keys from every verb of fmt.
func (Keys) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Hidden)) }
