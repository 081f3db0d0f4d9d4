package passkey

import (
	"time"

	"countersign/approval"
)

// Tx is a transaction of a store that keeps passkeys beside the rest. Single rows that are not there are
// [approval.ErrNotFound].
type Tx interface {
	approval.Tx

	// PasskeyOwner returns the handle by which authenticators know a person.
	PasskeyOwner(person string) (Owner, error)
	InsertPasskeyOwner(o Owner) error

	InsertPasskey(k Row) error
	// PasskeyByCredential finds a passkey by the id that its authenticator gave it.
	PasskeyByCredential(credential string) (Row, error)
	// PasskeysOf returns a person's passkeys, oldest first.
	PasskeysOf(person string) ([]Row, error)
	// UpdatePasskey stores what changes of a passkey: its count, whether it is backed up, when it was used and blocked.
	// With one that is blocked go the sessions that began with it.
	UpdatePasskey(k Row) (bool, error)
	// DeletePasskey deletes one of a person's, and with it the sessions that began with it.
	DeletePasskey(person, id string) (bool, error)
	// PasskeyPeople returns the people who have a handle.
	PasskeyPeople() ([]string, error)
	// DeletePasskeyOwner deletes a person's handle; their passkeys must have gone before.
	DeletePasskeyOwner(person string) error
}

// Owner is a person as authenticators know them.
type Owner struct {
	Person string
	Handle string // 64 random bytes, in base64url
}

// Passkey is one of a person's passkeys. It has no secret in it.
type Passkey struct {
	ID     string // ULID
	Person string
	Name   string // that they gave it
	// BackedUp says that it is on more than one device, as its authenticator says.
	BackedUp        bool
	AddedAt, UsedAt time.Time
	// BlockedAt is since when it is of no use: its count went back, as that of a copy does. It can only be removed.
	BlockedAt time.Time
}

// Row is a passkey as it is stored.
type Row struct {
	Passkey
	Credential string // the id that the authenticator gave it, in base64url
	PublicKey  string // COSE, in base64url
	RPID       string // the host that it was made for
	AAGUID     string // of the authenticator's model, in hex
	Transports string // how browsers may reach it, with a comma between
	// SignCount is how often it has signed, as the authenticator says; 0: it does not say.
	SignCount      int64
	BackupEligible bool
}
