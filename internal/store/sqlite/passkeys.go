package sqlite

import (
	"countersign/approval"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
)

// Passkeys is a transaction of d with the passkeys that it keeps.
func (*DB) Passkeys(t approval.Tx) passkey.Tx { return t.(*tx) }

func (t *tx) PasskeyOwner(person string) (passkey.Owner, error) {
	if err := t.readable(); err != nil {
		return passkey.Owner{}, err
	}
	return one(t, t.c.Stmt(selectPasskeyOwner).BindText(person), passkeyOwnerColumns.scan)
}

func (t *tx) InsertPasskeyOwner(o passkey.Owner) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(passkeyOwnerColumns.bind(t.c.Stmt(insertPasskeyOwner), &o))
	return err
}

func (t *tx) InsertPasskey(k passkey.Row) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(passkeyColumns.bind(t.c.Stmt(insertPasskey), &k))
	return err
}

func (t *tx) PasskeyByCredential(credential string) (passkey.Row, error) {
	if err := t.readable(); err != nil {
		return passkey.Row{}, err
	}
	return one(t, t.c.Stmt(selectPasskey).BindText(credential), passkeyColumns.scan)
}

func (t *tx) PasskeysOf(person string) ([]passkey.Row, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectPasskeys).BindText(person), 0, passkeyColumns.scan)
}

func (t *tx) UpdatePasskey(k passkey.Row) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	if !k.BlockedAt.IsZero() {
		if err := t.endPasskeySessions(k.Person, k.ID); err != nil {
			return false, err
		}
	}
	return t.changed(latePasskeyColumns.bind(t.c.Stmt(updatePasskey), &k).BindText(k.ID))
}

// endPasskeySessions ends the sessions that began with a passkey.
func (t *tx) endPasskeySessions(person, id string) error {
	_, err := t.changed(t.c.Stmt(endPasskeySessions).BindText(person).BindText(signin.Passkey(id)))
	return err
}

func (t *tx) DeletePasskey(person, id string) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	if err := t.endPasskeySessions(person, id); err != nil {
		return false, err
	}
	return t.changed(t.c.Stmt(deletePasskey).BindText(id))
}

func (t *tx) PasskeyPeople() ([]string, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectPasskeyPeople), 0, scanText)
}

func (t *tx) DeletePasskeyOwner(person string) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(t.c.Stmt(deletePasskeyOwner).BindText(person))
	return err
}
