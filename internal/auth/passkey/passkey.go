package passkey

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"net/url"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"countersign/approval"
	"countersign/approval/correlation"
	"countersign/approval/legible"
	"countersign/approval/proof"
	"countersign/internal/secret"
)

const (
	// MaxPasskeys is how many a person has at most, MaxName how long a name is, in characters.
	MaxPasskeys = 20
	MaxName     = 60
	// Young is how long after signing in a person may add a passkey without using one that they have.
	Young = 10 * time.Minute
	// maxAnswer is how much of what a browser answers is read, in bytes.
	maxAnswer = 64 << 10
)

var (
	// ErrRefused is all that a person is told whose passkey proves nothing here, whatever the reason.
	ErrRefused = errors.New("passkey: refused")
	// ErrBackup is for a passkey that is right but for one thing: it says otherwise than when it was added whether it can
	// be kept on several devices, which never changes. It is not accepted; its owner can remove it and add it again.
	ErrBackup = errors.New("passkey: what it says of copies has changed")
	// ErrTooMany is for one passkey more than [MaxPasskeys].
	ErrTooMany = errors.New("passkey: too many")
	// ErrSignInAgain is for a person who wants to add a passkey, signed in a while ago and has none to show.
	ErrSignInAgain = errors.New("passkey: signed in too long ago")
	// ErrUseOne is for a person who wants to add a passkey, signed in a while ago and can use one of theirs first.
	ErrUseOne = errors.New("passkey: use one first")
	// ErrNone is for a passkey that is not there, and for a person who has none to use.
	ErrNone = errors.New("passkey: none")
	// ErrUnavailable is told where the pages' address is none that passkeys work at ([Service.Unavailable]).
	ErrUnavailable = errors.New("passkey: not at this address")
)

// Directory is who is who now; [approval.Directory] is one. It is asked inside transactions and must not block.
type Directory interface {
	Person(name string) (approval.Actor, bool)
}

// Teller tells people in their chats of what happened to their passkeys, in the transaction in which it does.
type Teller interface {
	PasskeyAdded(tx approval.Tx, person, name string) error
	PasskeyRemoved(tx approval.Tx, person, name string) error
	PasskeyBlocked(tx approval.Tx, person, name string) error
}

// Options are what a [Service] needs, all of it but Keys.
type Options struct {
	Store     approval.Store
	Rows      func(tx approval.Tx) Tx // a transaction of Store with the passkeys that it keeps
	Audit     *approval.AuditLog
	Directory Directory
	Teller    Teller
	// Prover makes the proofs that the gate takes; no other package is to have it.
	Prover *proof.Prover
	// Base is where people reach the pages now, such as https://gate.example.com.
	Base   func() string
	Logger *slog.Logger
	// Keys seal challenges, and sign the tickets of those who are not signed in yet; default: this process's own.
	Keys secret.Keys
}

// Service adds passkeys and checks what is proven by them. It is safe for concurrent use.
type Service struct {
	o         Options
	keys      secret.Keys
	tickets   tickets
	strangers perMinute // of refused sign-ins: strangers can cause those
}

// New returns the service.
func New(o Options) *Service {
	keys := o.Keys.OrNew()
	return &Service{o: o, keys: keys, tickets: tickets{keys}}
}

// Browser is a browser that is signed in: what its session's cookie says, and nothing that it sends.
type Browser struct {
	Session string // the session's id
	Person  string
	Since   time.Time // when it signed in, by the machine's clock
}

// Unavailable says why no passkey works at an address of the pages, "" where they do. A browser has them for https and
// for localhost, and for names alone.
func Unavailable(base string) string {
	_, err := relyingParty(base)
	if err != nil {
		return err.Error()
	}
	return ""
}

// party is whom passkeys are made for: the pages at one address.
type party struct {
	*webauthn.WebAuthn
	origin string
}

func relyingParty(base string) (party, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return party{}, errors.New("the pages have no address")
	}
	host := u.Hostname()
	if _, err := netip.ParseAddr(host); err == nil {
		return party{}, errors.New("a passkey belongs to a name such as localhost, not to an address such as " + host)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || host != "localhost") {
		return party{}, errors.New("browsers have passkeys over https alone, but for localhost")
	}
	origin := u.Scheme + "://" + u.Host
	w, err := webauthn.New(&webauthn.Config{
		RPID: host, RPDisplayName: "Countersign", RPOrigins: []string{origin},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, RequireResidentKey: protocol.ResidentKeyRequired(),
			UserVerification: protocol.VerificationRequired,
		},
		Timeouts: webauthn.TimeoutsConfig{
			Login:        webauthn.TimeoutConfig{Timeout: Lasts, TimeoutUVD: Lasts},
			Registration: webauthn.TimeoutConfig{Timeout: Lasts, TimeoutUVD: Lasts},
		},
		ExtensionsUnsolicitedOutputPolicy: protocol.UnsolicitedOutputPolicyIgnore,
	})
	return party{w, origin}, err
}

// party is that of now.
func (s *Service) party() (party, error) {
	p, err := relyingParty(s.o.Base())
	if err != nil {
		return party{}, ErrUnavailable
	}
	return p, nil
}

// owner is a person with their passkeys, as the library asks for them.
type owner struct {
	Owner
	rows []Row
	rpID string
}

func (o *owner) WebAuthnID() []byte          { return decode(o.Handle) }
func (o *owner) WebAuthnName() string        { return o.Person }
func (o *owner) WebAuthnDisplayName() string { return o.Person }

// WebAuthnCredentials are those that are of use: of this host, and not blocked.
func (o *owner) WebAuthnCredentials() []webauthn.Credential {
	var all []webauthn.Credential
	for i := range o.rows {
		if o.rows[i].usable(o.rpID) {
			all = append(all, o.rows[i].credential())
		}
	}
	return all
}

func (r *Row) usable(rpID string) bool { return r.BlockedAt.IsZero() && r.RPID == rpID }

// credential is the row as the library has it.
func (r *Row) credential() webauthn.Credential {
	c := webauthn.Credential{ID: decode(r.Credential), PublicKey: decode(r.PublicKey)}
	c.Flags.BackupEligible, c.Flags.BackupState, c.Flags.UserVerified = r.BackupEligible, r.BackedUp, true
	c.Authenticator.SignCount = uint32(r.SignCount) //nolint:gosec // it was one
	for _, t := range fields(r.Transports) {
		c.Transport = append(c.Transport, protocol.AuthenticatorTransport(t))
	}
	return c
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// decode returns what was encoded here.
func decode(s string) []byte {
	b, _ := base64.RawURLEncoding.DecodeString(s)
	return b
}

// newHandle makes a handle, of which the specification wants 64 random bytes.
func newHandle() string {
	b := make([]byte, 64)
	_, _ = rand.Read(b) // it does not fail
	return encode(b)
}

func (s *Service) update(ctx context.Context, about approval.Scope, fn func(tx Tx) error) error {
	return s.o.Store.Update(ctx, about, func(tx approval.Tx) error { return fn(s.o.Rows(tx)) })
}

func (s *Service) view(ctx context.Context, fn func(tx Tx) error) error {
	return s.o.Store.View(ctx, func(tx approval.Tx) error { return fn(s.o.Rows(tx)) })
}

// isPerson reports whether a name is that of a person of the configuration.
func (s *Service) isPerson(person string) bool {
	who, ok := s.o.Directory.Person(person)
	return ok && who.Kind == approval.Human && who.Name == person
}

// ownerIn reads a person with their passkeys. made says that they have a handle.
func (s *Service) ownerIn(tx Tx, person, rpID string) (o *owner, made bool, err error) {
	o = &owner{rpID: rpID}
	o.Owner, err = tx.PasskeyOwner(person)
	switch {
	case errors.Is(err, approval.ErrNotFound):
		o.Owner = Owner{Person: person, Handle: newHandle()}
		return o, false, nil
	case err != nil:
		return nil, false, err
	}
	o.rows, err = tx.PasskeysOf(person)
	return o, true, err
}

// eventData is what the audit events of this package hold beside who and when. None of it is a secret.
type eventData struct {
	Passkey string `json:"passkey_id,omitempty"`
	Name    string `json:"name,omitempty"`
	Person  string `json:"person,omitempty"`
	For     string `json:"for,omitempty"`
	Session string `json:"session_id,omitempty"`
	Request string `json:"approval_id,omitempty"`
}

func (s *Service) record(ctx context.Context, tx Tx, e approval.Event, d eventData) error {
	e.CorrelationID = cmp.Or(correlation.Of(ctx), e.CorrelationID, d.Session)
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	e.Data = data
	return s.o.Audit.Append(ctx, tx, e)
}

// refusal is why something proves nothing. It goes on record, and nowhere else.
type refusal string

const (
	refusedUnread    refusal = "not_understood"
	refusedChallenge refusal = "no_such_challenge" // unknown, used, too old, of another browser or for something else
	refusedOrigin    refusal = "other_origin"
	refusedUnknown   refusal = "no_such_passkey"
	refusedNobody    refusal = "no_such_person"
	refusedInvalid   refusal = "not_valid"
	refusedCount     refusal = "count_went_back"
	refusedDouble    refusal = "already_registered"
	refusedBackup    refusal = "backup_eligibility_changed"
)

func (r refusal) Error() string { return "passkey: " + string(r) }

// publicError returns what the person who brings it is told: the reason only where they have shown that the passkey is
// theirs, and can do something about it.
func (r refusal) publicError() error {
	if r == refusedBackup {
		return ErrBackup
	}
	return ErrRefused
}

// recordRefusal puts on record why something was refused, and returns what is told of it. A store that fails changes
// nothing of that.
func (s *Service) recordRefusal(ctx context.Context, why refusal, d eventData) error {
	if why == refusedBackup {
		s.o.Logger.WarnContext(ctx, "a passkey was refused: it says otherwise than when it was added whether it can be kept "+
			"on several devices; its owner must remove it and add it again", "person", d.Person, "passkey", d.Passkey)
	}
	if d.For == string(forSignIn) && d.Passkey == "" && !s.strangers.allow(s.o.Store.Now()) {
		return ErrRefused
	}
	err := s.update(ctx, approval.OfNothing(), func(tx Tx) error {
		return s.record(ctx, tx, approval.Event{Type: approval.EventPasskeyRefused, Actor: d.Person, Reason: string(why)}, d)
	})
	if err != nil {
		s.o.Logger.WarnContext(ctx, "a refused passkey could not be put on record", "error", err)
	}
	return why.publicError()
}

// settle turns a refusal into what is told, once it is on record.
func (s *Service) settle(ctx context.Context, err error, d eventData) error {
	if why, ok := errors.AsType[refusal](err); ok {
		return s.recordRefusal(ctx, why, d)
	}
	return err
}

// nameOf makes a name fit to be kept and shown.
func nameOf(name, otherwise string) string {
	if name = legible.Cut(legible.Line(name), MaxName); approval.Blank(name) {
		return otherwise
	}
	return name
}
