package openid

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"time"

	"golang.org/x/oauth2"

	"countersign/internal/secret"
)

// Lifetime is how long a sign-in may take at the provider.
const Lifetime = 10 * time.Minute

// attempt is a sign-in that was begun: what the browser keeps of it until it comes back.
type attempt struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	Redirect string `json:"r"`
	// Issuer and Client are whom it was begun with: the configuration may be another by the end.
	Issuer string `json:"i"`
	Client string `json:"c"`
	Begun  int64  `json:"t"` // in seconds
}

func newAttempt(c *Config, redirect string, now time.Time) attempt {
	return attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Redirect: redirect,
		Issuer: c.Issuer, Client: c.ClientID, Begun: now.Unix()}
}

// holds reports whether an attempt may be finished under c, at a time.
func (a attempt) holds(c *Config, now time.Time) bool {
	age := now.Sub(time.Unix(a.Begun, 0))
	return age > -time.Minute && age < Lifetime && a.Issuer == c.Issuer && a.Client == c.ClientID
}

// seal keeps attempts from being read, changed or made by the browser that holds the cookie.
type seal struct{ keys secret.Keys }

func (s seal) close(a attempt) (string, error) {
	plain, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.keys.Seal(plain)), nil
}

func (s seal) open(cookie string) (a attempt, ok bool) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(cookie)
	if err != nil {
		return attempt{}, false
	}
	plain, err := s.keys.Open(sealed)
	if err != nil || json.Unmarshal(plain, &a) != nil {
		return attempt{}, false
	}
	return a, true
}
