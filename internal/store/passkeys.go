package store

import (
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
)

func (t passkeys) PasskeyOwner(person string) (passkey.Owner, error) {
	return one(t.read(selectPasskeyOwner).text(person), passkeyOwnerColumns.scan)
}

func (t passkeys) InsertPasskeyOwner(o passkey.Owner) error {
	return passkeyOwnerColumns.bind(t.write(insertPasskeyOwner), &o).put()
}

func (t passkeys) InsertPasskey(k passkey.Row) error {
	return passkeyColumns.bind(t.write(insertPasskey), &k).put()
}

func (t passkeys) PasskeyByCredential(credential string) (passkey.Row, error) {
	return one(t.read(selectPasskey).text(credential), passkeyColumns.scan)
}

func (t passkeys) PasskeysOf(person string) ([]passkey.Row, error) {
	return all(t.read(selectPasskeys).text(person), 0, passkeyColumns.scan)
}

func (t passkeys) UpdatePasskey(k passkey.Row) (bool, error) {
	if !k.BlockedAt.IsZero() {
		if err := t.endPasskeySessions(k.Person, k.ID); err != nil {
			return false, err
		}
	}
	return latePasskeyColumns.bind(t.write(updatePasskey), &k).text(k.ID).change()
}

// endPasskeySessions ends the sessions that began with a passkey.
func (t passkeys) endPasskeySessions(person, id string) error {
	return t.write(endPasskeySessions).text(person).text(signin.Passkey(id)).put()
}

func (t passkeys) DeletePasskey(person, id string) (bool, error) {
	if err := t.endPasskeySessions(person, id); err != nil {
		return false, err
	}
	return t.write(deletePasskey).text(id).change()
}

func (t passkeys) PasskeyPeople() ([]string, error) {
	return all(t.read(selectPasskeyPeople), 0, scanText)
}

func (t passkeys) DeletePasskeyOwner(person string) error {
	return t.write(deletePasskeyOwner).text(person).put()
}
