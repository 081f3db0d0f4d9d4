package storetest

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/internal/auth/passkey"
)

// keeping runs a function on the passkeys of s.
func keeping(s Store, fn func(tx passkey.Tx) error) func(approval.Tx) error {
	return func(tx approval.Tx) error { return fn(s.Passkeys(tx)) }
}

// passkeys: they are found by their owner and by what their authenticator calls them, in the order in which they came.
func passkeys(t *testing.T, s Store) {
	hana := passkey.Owner{Person: "hana", Handle: strings.Repeat("h", 86)}
	ken := passkey.Owner{Person: "ken", Handle: strings.Repeat("k", 86)}
	var rows []passkey.Row
	update(t, s, keeping(s, func(tx passkey.Tx) error {
		rows = nil
		for i, person := range []string{"hana", "ken", "hana"} {
			rows = append(rows, passkey.Row{
				Passkey: passkey.Passkey{ID: tx.NewID(), Person: person, Name: "phone 日本", BackedUp: true, AddedAt: tx.Now(),
					UsedAt: tx.Now(), BlockedAt: tx.Now()},
				Credential: "credential-" + strconv.Itoa(i), PublicKey: "key", RPID: "gate.example.com", AAGUID: "00ff",
				Transports: "usb,nfc", SignCount: 1<<32 - 1, BackupEligible: true,
			})
		}
		return errors.Join(tx.InsertPasskeyOwner(hana), tx.InsertPasskeyOwner(ken), tx.InsertPasskey(rows[0]),
			tx.InsertPasskey(rows[1]), tx.InsertPasskey(rows[2]))
	}))
	everyFieldSet(t, []passkey.Owner{hana})
	everyFieldSet(t, []passkey.Row{rows[0]})
	view(t, s, keeping(s, func(tx passkey.Tx) error {
		o, err1 := tx.PasskeyOwner("hana")
		equal(t, "PasskeyOwner", o, hana)
		of, err2 := tx.PasskeysOf("hana")
		equal(t, "PasskeysOf", of, []passkey.Row{rows[0], rows[2]})
		k, err3 := tx.PasskeyByCredential("credential-1")
		equal(t, "PasskeyByCredential", k, rows[1])
		people, err4 := tx.PasskeyPeople()
		equal(t, "PasskeyPeople", people, []string{"hana", "ken"})
		for what, err := range map[string]error{
			"PasskeyOwner": second(tx.PasskeyOwner("mei")), "PasskeyByCredential": second(tx.PasskeyByCredential("no")),
		} {
			if !errors.Is(err, approval.ErrNotFound) {
				t.Errorf("%s of none: %v", what, err)
			}
		}
		return errors.Join(err1, err2, err3, err4)
	}))
	passkeysChange(t, s, rows)
}

// passkeysChange is of a store with the rows of passkeys.
func passkeysChange(t *testing.T, s Store, rows []passkey.Row) {
	plain := rows[0]
	plain.SignCount, plain.BackedUp = 0, false
	plain.UsedAt, plain.BlockedAt = rows[0].AddedAt.Add(1e9), plain.BlockedAt.Add(2e9)
	update(t, s, keeping(s, func(tx passkey.Tx) error {
		changed := plain
		changed.Name, changed.PublicKey, changed.Person = "other", "other", "ken" // nothing else of it is stored
		return mustChange(tx.UpdatePasskey(changed))
	}))
	update(t, s, keeping(s, func(tx passkey.Tx) error { return mustChange(tx.DeletePasskey(rows[2].Person, rows[2].ID)) }))
	update(t, s, keeping(s, func(tx passkey.Tx) error {
		return mustNotChange(tx.DeletePasskey(rows[2].Person, rows[2].ID))
	}))
	update(t, s, keeping(s, func(tx passkey.Tx) error { return mustNotChange(tx.UpdatePasskey(rows[2])) }))
	view(t, s, keeping(s, func(tx passkey.Tx) error {
		of, err := tx.PasskeysOf("hana")
		equal(t, "PasskeysOf", of, []passkey.Row{plain})
		return err
	}))
	update(t, s, keeping(s, func(tx passkey.Tx) error {
		return errors.Join(mustChange(tx.DeletePasskey(rows[1].Person, rows[1].ID)), tx.DeletePasskeyOwner("ken"))
	}))
	view(t, s, keeping(s, func(tx passkey.Tx) error {
		people, err := tx.PasskeyPeople()
		equal(t, "PasskeyPeople", people, []string{"hana"})
		return err
	}))
}
