package openid

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Person is how a configured person is known at the provider: by Subject or by Email.
type Person struct {
	Name    string
	Subject string // "sub" in the provider's tokens
	Email   string
}

// Account is what a person signs in with at the provider, as text of our own: it is another for another provider,
// subject or address. "": nothing.
func (c *Config) Account(p Person) string {
	if p.Subject == "" && !c.Trusts(p.Email) {
		return ""
	}
	return c.Issuer + "\n" + p.Subject + "\n" + p.Email
}

// identity is who the provider says that a person is.
type identity struct {
	issuer, subject string
	email           string
	verified        bool // the provider has seen that the address is theirs
}

// hash tells one identity from another and nothing of it.
func (id identity) hash() string {
	sum := sha256.Sum256([]byte(id.issuer + "\n" + id.subject))
	return hex.EncodeToString(sum[:16])
}

// bySubject returns whose subject it is; false: no person's.
func bySubject(people []Person, subject string) (Person, bool) {
	for _, p := range people {
		if p.Subject != "" && p.Subject == subject {
			return p, true
		}
	}
	return Person{}, false
}

// byEmail returns whose address the provider vouches for; false: no person's. A person with a subject is known by that
// alone: their address may be another person's by now.
func (c *Config) byEmail(people []Person, id identity) (Person, bool) {
	address, ok := FoldEmail(id.email)
	if !ok || !id.verified || !c.Trusts(address) {
		return Person{}, false
	}
	for _, p := range people {
		if own, ok := FoldEmail(p.Email); ok && p.Subject == "" && own == address {
			return p, true
		}
	}
	return Person{}, false
}

// ValidSubject reports whether a provider may call a person this.
func ValidSubject(s string) bool {
	return s != "" && len(s) <= maxSubject && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// FoldEmail returns an e-mail address as it is compared: letter case does not count, and only ASCII letters have one,
// so that no other character is taken for one of them. false: it is no address that could be compared.
func FoldEmail(s string) (string, bool) {
	local, at, ok := split(s)
	return local + "@" + at, ok
}

// Bounds of RFC 5321, section 4.5.3.1.
const (
	maxLocal  = 64
	maxDomain = 253
	maxLabel  = 63
)

func split(address string) (local, at string, ok bool) {
	local, at, found := strings.Cut(address, "@")
	at, ok = domain(at)
	if !found || !ok || local == "" || len(local) > maxLocal ||
		strings.ContainsFunc(local, func(r rune) bool { return invisible(r) || strings.ContainsRune(`"(),:;<>[\]`, r) }) {
		return "", "", false
	}
	return lower(local), at, true
}

// domain returns a domain in lower case; false: it is none, or not in ASCII.
func domain(s string) (string, bool) {
	labels := strings.Split(s, ".")
	if len(s) > maxDomain || len(labels) < 2 {
		return "", false
	}
	for _, l := range labels {
		if l == "" || len(l) > maxLabel || l[0] == '-' || l[len(l)-1] == '-' ||
			strings.ContainsFunc(l, func(r rune) bool { return !strings.ContainsRune(labelRunes, r) }) {
			return "", false
		}
	}
	return lower(s), true
}

const labelRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"

// lower folds ASCII letters and no others: strings.ToLower makes a k of the Kelvin sign.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
