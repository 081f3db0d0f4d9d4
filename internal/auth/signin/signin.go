package signin

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"countersign/approval"
	"countersign/internal/secret"
)

const (
	// LinkLasts is how long a link signs in.
	LinkLasts = 10 * time.Minute
	// SessionLasts is how long a session lasts at most, IdleLasts how long after it was last seen.
	SessionLasts = 12 * time.Hour
	IdleLasts    = 2 * time.Hour

	// A person's newest links sign in, and each makes at most so many within [LinkLasts].
	linksAlive, linksMade = 3, 8
	// Of a person's sessions the newest are kept.
	sessionsKept = 20
	// seenEvery is how exact the time is at which a session was last seen; it is never later than the real one.
	seenEvery = time.Minute
	// maxUserAgent is how much is kept of what a browser says of itself.
	maxUserAgent = 200
	// oneSweep is how many rows one transaction ends.
	oneSweep = 500
)

// Method is how a person signed in.
type Method string

const (
	MethodLink    Method = "link"    // a link asked for in a chat
	MethodToken   Method = "token"   // a link made with the person's token, as by `countersign open`
	MethodOpenID  Method = "openid"  // an OpenID provider
	MethodPasskey Method = "passkey" // a passkey
)

// FromTerminal is the [Link.From] of links that are made with a person's token.
const FromTerminal = "terminal"

// Link is a one-time link: who it signs in, and where it was asked for. It has no secret in it.
type Link struct {
	ID                string // ULID
	Person            string
	Via               approval.Via
	From              string // the name of the channel that it was asked for on, or [FromTerminal]
	MadeAt, ExpiresAt time.Time
}

// Session is one browser that is signed in as a person. It has no secret in it.
type Session struct {
	ID                           string // ULID
	Person                       string
	Method                       Method
	Origin                       string // the address that it started from
	UserAgent                    string // what the browser said of itself, made safe to show
	CreatedAt, SeenAt, ExpiresAt time.Time
}

// Origin is where a browser comes from.
type Origin struct {
	Address   string // without a port; what the listener believes, proxies that it trusts included
	UserAgent string
	Machine   bool // it has the pages open under a name of this machine, whose cookies go to every port of it
}

var (
	// ErrRefused is all that a person is told whose link does not sign in: it is unknown, used, replaced by newer ones or
	// too old, or the person that it was for is not configured any more.
	ErrRefused = errors.New("signin: refused")
	// ErrTooMany is what is told after too many attempts from one address, or by one person.
	ErrTooMany = errors.New("signin: too many attempts")
	// ErrNoSession is for a secret that is no session's, or not any more, and for sessions that are not there.
	ErrNoSession = errors.New("signin: no session")
)

// Directory is who is who now; [approval.Directory] is one. It is asked inside transactions and must not block.
type Directory interface {
	Person(name string) (approval.Actor, bool)
}

// Options are what a [Service] needs, all of it.
type Options struct {
	Store     approval.Store
	Rows      func(tx approval.Tx) Tx // a transaction of Store with the links and sessions that it keeps
	Audit     *approval.AuditLog
	Directory Directory
	Logger    *slog.Logger
	// Opener returns the [Opener] of what a person has now to sign in with by one way: [FromTerminal], a channel's name
	// or [WayOpenID]; "": nothing. It is asked inside transactions and must not block. nil: whatever a link or session
	// began with is not looked at.
	Opener func(person, way string) string
	// Keys are what the tokens of links, and the keys of sessions, follow from; default: this process's own.
	Keys secret.Keys
}

// Ways to sign in besides [FromTerminal] and the names of channels. Passkeys are the store's: with one go the sessions
// that began with it, and one starts in the transaction in which the passkey is used.
const (
	WayOpenID  = "openid"
	wayPasskey = "passkey"
)

// Passkey is the opener of sessions that begin with a passkey.
func Passkey(id string) string { return wayPasskey + ":" + id }

// Opener is the opener of what begins with what a person has shown by a way: a token, a chat's user id, an account. It
// tells nothing of that. "": they have shown nothing.
func Opener(way, shown string) string {
	if shown == "" {
		return ""
	}
	return way + ":" + digest(way+"\n"+shown)
}

// Service makes links and sessions and ends them. It is safe for concurrent use.
type Service struct {
	store    approval.Store
	rows     func(tx approval.Tx) Tx
	audit    *approval.AuditLog
	dir      Directory
	log      *slog.Logger
	opener   func(person, way string) string
	attempts *attempts // by address and by person
	told     perMinute // refusals that are put on record
	keys     secret.Keys
}

// New returns the service.
func New(o Options) *Service {
	s := &Service{store: o.Store, rows: o.Rows, audit: o.Audit, dir: o.Directory, log: o.Logger, opener: o.Opener,
		attempts: newAttempts(), keys: o.Keys.OrNew()}
	return s
}

// Attempt counts one attempt that a provider is asked about, from an address. Strangers can begin one and bring a wrong
// answer, so it takes nothing from those who sign in otherwise behind the same address. Errors: [ErrTooMany].
func (s *Service) Attempt(from Origin) error {
	return s.allow(apart("provider", from)...)
}

// AttemptOf counts one attempt that could sign a person in, from an address: for that person too, from whatever
// address. One that cannot counts for no person: who guesses 256 bits gets nowhere, and would use up what others behind
// the same address have. Errors: [ErrTooMany].
func (s *Service) AttemptOf(person string, from Origin) error {
	return s.allow(append(fromAddress(from.Address), ofPerson(person))...)
}

// AttemptInVain counts one that signed no person in and that no other limit counts, from an address: whoever makes more
// of them gets no other answer than that, and takes nothing from what others behind the same address have. Errors:
// [ErrTooMany].
func (s *Service) AttemptInVain(from Origin) error {
	return s.allow(apart("in vain", from)...)
}

// apart are the limits of an address for one kind of attempts.
func apart(kind string, from Origin) []limit {
	limits := fromAddress(from.Address)
	for i := range limits {
		limits[i].name = kind + " " + limits[i].name
	}
	return limits
}

func (s *Service) allow(limits ...limit) error {
	if !s.attempts.allow(s.store.Now(), limits...) {
		return ErrTooMany
	}
	return nil
}

// Now is the time that links and sessions are judged by.
func (s *Service) Now() time.Time { return s.store.Now() }

func (s *Service) update(ctx context.Context, about approval.Scope, fn func(tx Tx) error) error {
	return s.store.Update(ctx, about, func(tx approval.Tx) error { return fn(s.rows(tx)) })
}

func (s *Service) view(ctx context.Context, fn func(tx Tx) error) error {
	return s.store.View(ctx, func(tx approval.Tx) error { return fn(s.rows(tx)) })
}

// stillOpens reports whether what a link or a session of a person began with is theirs yet.
func (s *Service) stillOpens(person, opener string) bool {
	if s.opener == nil {
		return true
	}
	way, _, ok := strings.Cut(opener, ":")
	return ok && (way == wayPasskey || s.opener(person, way) == opener)
}

// isPerson reports whether a name is that of a person of the configuration.
func (s *Service) isPerson(person string) bool {
	who, ok := s.dir.Person(person)
	return ok && who.Kind == approval.Human && who.Name == person
}
