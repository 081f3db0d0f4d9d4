package passkey

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"

	"countersign/approval"
	"countersign/internal/secret"
)

// Lasts is how long a challenge can be answered.
const Lasts = 5 * time.Minute

// maxSkew is by how much the store's time of two programs may differ, for a moment.
const maxSkew = time.Second

// purpose is what a challenge is for. An answer to one counts for no other.
type purpose string

const (
	forAdding purpose = "add"
	forOwner  purpose = "owner" // to show that the person has a passkey already, before one more is added
	forSignIn purpose = "sign_in"
	forStepUp purpose = "step_up"
)

// challenge is what a browser that is signed in is asked to sign for. It is sealed, and that is what is signed: until
// it is answered nothing of it is kept here, and so nothing can run full, or be of another program.
type challenge struct {
	Purpose purpose `json:"p"`
	Session string  `json:"s"`
	Made    int64   `json:"t"`           // in milliseconds, of the store's time
	Request string  `json:"r,omitempty"` // of a step-up
	Wanted  string  `json:"w,omitempty"` // what that is to approve: its digest
}

// seal makes the words of a challenge, which is made now.
func (s *Service) seal(c challenge) ([]byte, error) {
	c.Made = s.o.Store.Now().UnixMilli()
	text, err := json.Marshal(c)
	return s.keys.Seal(text), err
}

// takeChallenge returns the challenge of these words, once, if it is of this session and for this purpose. A browser
// that brings an answer for another purpose, or another browser, has used it up too: it was signed, and has been seen.
func (s *Service) takeChallenge(ctx context.Context, words, session string, p purpose) (c challenge, err error) {
	sealed, err := base64.RawURLEncoding.DecodeString(words)
	if err != nil {
		return challenge{}, refusedChallenge
	}
	text, err := s.keys.Open(sealed)
	if err != nil || json.Unmarshal(text, &c) != nil {
		return challenge{}, refusedChallenge
	}
	fresh, err := approval.Update(ctx, s.o.Store, approval.OfNothing(), func(tx approval.Tx) (bool, error) {
		return spend(tx, encode(sealed))
	})
	if err != nil {
		return challenge{}, err
	}
	age := s.o.Store.Now().Sub(time.UnixMilli(c.Made))
	if !fresh || c.Session != session || c.Purpose != p || age < -maxSkew || age >= Lasts {
		return challenge{}, refusedChallenge
	}
	return c, nil
}

// spend spends the words of a challenge; false: they were.
func spend(tx approval.Tx, words string) (bool, error) {
	return tx.FirstSight("passkey challenge " + hashOf(words))
}

func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// digest tells what is to be approved from everything else.
func (w Wanted) digest() string { return hashOf(join(w.RequestID, w.Version, w.Args)) }

// join is one text of several, and of no others.
func join(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(strconv.Itoa(len(part)) + ":" + part)
	}
	return b.String()
}

// sessionData is what the library knows of a challenge again.
func (o *owner) sessionData(p party, words string) webauthn.SessionData {
	d := webauthn.SessionData{Challenge: words, RelyingPartyID: p.Config.RPID, UserID: o.WebAuthnID(),
		UserVerification: p.Config.AuthenticatorSelection.UserVerification, CredParams: accepted()}
	for _, c := range o.WebAuthnCredentials() {
		d.AllowedCredentialIDs = append(d.AllowedCredentialIDs, c.ID)
	}
	return d
}

// tickets stand for the challenges of those who are not signed in, of which none is kept: strangers, however many they
// are, have nothing here that could run full. A ticket says when a challenge was made, and is signed. What is kept, in
// the store, is which challenges were answered: only who has a passkey answers one.
type tickets struct{ keys secret.Keys }

// issue makes the ticket of a challenge for a host.
func (t tickets) issue(words, host string, now time.Time) string {
	made := strconv.FormatInt(now.UnixMilli(), 10)
	return made + "." + base64.RawURLEncoding.EncodeToString(t.keys.Sign(join(words, host, made)))
}

// holds reports whether a ticket is of these words and still good. It spends nothing.
func (t tickets) holds(ticket, words, host string, now time.Time) bool {
	made, signature, _ := strings.Cut(ticket, ".")
	at, err := strconv.ParseInt(made, 10, 64)
	got, err2 := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || err2 != nil || !t.keys.Holds(got, join(words, host, made)) {
		return false
	}
	age := now.Sub(time.UnixMilli(at))
	return age >= -maxSkew && age < Lasts
}
