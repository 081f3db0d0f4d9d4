package signin

import (
	"time"

	"countersign/approval"
)

// Tx is a transaction of a store that keeps links and sessions beside the rest. Single rows that are not there are
// [approval.ErrNotFound].
type Tx interface {
	approval.Tx

	InsertSignInLink(l LinkRow) error
	SignInLink(digest string) (LinkRow, error)
	// SignInLinksOf returns a person's links, the ended ones too, oldest first.
	SignInLinksOf(person string) ([]LinkRow, error)
	// EndSignInLink ends a link at Now, if it has not ended and its ExpiresAt is after Now.
	EndSignInLink(digest string, end LinkEnd) (bool, error)

	InsertSession(s SessionRow) error
	SessionBySecret(digest string) (SessionRow, error)
	// SessionsOf returns a person's sessions, oldest first.
	SessionsOf(person string) ([]SessionRow, error)
	// SeeSession sets the session's SeenAt to Now.
	SeeSession(id string) (bool, error)
	DeleteSession(id string) (bool, error)

	// SignInPeople returns the people who have a link or a session.
	SignInPeople() ([]string, error)
	// DeleteSignInLinks deletes a person's links.
	DeleteSignInLinks(person string) error
	// PruneSignIns deletes links whose ExpiresAt is at or before Now, and sessions of which that is true or that were
	// last seen at or before idle, at most limit of each; it returns how many rows went.
	PruneSignIns(idle time.Time, limit int) (int, error)
}

// LinkEnd is why a link does not sign in any more, though its time has not come.
type LinkEnd string

const (
	LinkUsed     LinkEnd = "used"
	LinkReplaced LinkEnd = "replaced" // by newer ones of the same person
	LinkRevoked  LinkEnd = "revoked"  // what it was asked for with was taken back
)

// LinkRow is a link as it is stored.
type LinkRow struct {
	Link
	Digest  string // SHA-256 of the token, in hex
	Opener  string // what it was asked for with, as [Options.Opener] has it
	EndedAt time.Time
	End     LinkEnd
}

// SessionRow is a session as it is stored.
type SessionRow struct {
	Session
	Digest string // SHA-256 of the secret, in hex
	Opener string // what it began with, as [Options.Opener] has it, or [Passkey] has
}
