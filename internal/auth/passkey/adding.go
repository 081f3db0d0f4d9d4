package passkey

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"countersign/approval"
)

// BeginAdding returns what a browser needs to make a passkey (the argument of navigator.credentials.create, as JSON).
// Where the session is older than [Young], shown is the browser's answer to [Service.BeginShowing]; else it is nil.
// Errors: [ErrUseOne], [ErrSignInAgain], [ErrTooMany], [ErrRefused], [ErrBackup], [ErrUnavailable].
func (s *Service) BeginAdding(ctx context.Context, b Browser, shown []byte) (json.RawMessage, error) {
	p, err := s.party()
	if err != nil {
		return nil, err
	}
	if shown != nil {
		if _, err := s.takeAnswer(ctx, p, b, forOwner, shown); err != nil {
			return nil, err
		}
	}
	words, err := s.seal(challenge{Purpose: forAdding, Session: b.Session})
	if err != nil {
		return nil, err
	}
	var options *protocol.CredentialCreation
	err = s.update(ctx, approval.OfPerson(b.Person), func(tx Tx) error {
		if !s.isPerson(b.Person) {
			return refusedNobody
		}
		o, made, err := s.ownerIn(tx, b.Person, p.Config.RPID)
		if err != nil {
			return err
		}
		switch {
		case len(o.rows) >= MaxPasskeys:
			return ErrTooMany
		case shown == nil && !s.isYoung(b) && len(o.WebAuthnCredentials()) > 0:
			return ErrUseOne
		case shown == nil && !s.isYoung(b):
			return ErrSignInAgain
		case !made:
			if err := tx.InsertPasskeyOwner(o.Owner); err != nil {
				return err
			}
		}
		var have []protocol.CredentialDescriptor
		for _, c := range o.WebAuthnCredentials() {
			have = append(have, c.Descriptor())
		}
		options, _, err = p.BeginRegistration(o, webauthn.WithExclusions(have),
			webauthn.WithCredentialParameters(accepted()),
			func(of *protocol.PublicKeyCredentialCreationOptions) error {
				of.Challenge = words
				return nil
			})
		return err
	})
	if err != nil {
		return nil, s.settle(ctx, err, eventData{Person: b.Person, For: string(forAdding), Session: b.Session})
	}
	return json.Marshal(options.Response)
}

// accepted are the kinds of keys that a passkey may have.
func accepted() []protocol.CredentialParameter { return webauthn.CredentialParametersRecommendedL3() }

// isYoung reports whether a session is young enough to add a passkey by itself.
func (s *Service) isYoung(b Browser) bool {
	age := s.o.Store.Now().Sub(s.o.Store.FromWall(b.Since))
	return age >= 0 && age < Young
}

// FinishAdding takes the browser's answer to [Service.BeginAdding] and stores the passkey, under a name. Its owner is
// told in their chat. Errors: [ErrRefused], [ErrTooMany], [ErrUnavailable].
func (s *Service) FinishAdding(ctx context.Context, b Browser, name string, answer []byte) (Passkey, error) {
	p, err := s.party()
	if err != nil {
		return Passkey{}, err
	}
	about := eventData{Person: b.Person, For: string(forAdding), Session: b.Session}
	made, err := s.readCreation(ctx, p, b, answer)
	if err != nil {
		return Passkey{}, s.settle(ctx, err, about)
	}
	added, err := approval.Update(ctx, s.o.Store, approval.OfPerson(b.Person), func(tx approval.Tx) (Passkey, error) {
		return s.add(ctx, s.o.Rows(tx), p, b, name, made)
	})
	return s.byWall(added), s.settle(ctx, err, about)
}

// readCreation reads an answer, whose challenge is used up, wherever the answer was given.
func (s *Service) readCreation(ctx context.Context, p party, b Browser, answer []byte) (
	*protocol.ParsedCredentialCreationData, error,
) {
	if len(answer) > maxAnswer {
		return nil, refusedUnread
	}
	made, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return nil, refusedUnread
	}
	data := made.Response.CollectedClientData
	if _, err := s.takeChallenge(ctx, data.Challenge, b.Session, forAdding); err != nil {
		return nil, err
	}
	if !sameOrigin(p, data) {
		return nil, refusedOrigin
	}
	return made, nil
}

// sameOrigin holds that the browser was on our page, to the letter, and in no other's frame.
func sameOrigin(p party, c protocol.CollectedClientData) bool {
	return c.Origin == p.origin && !c.CrossOrigin && c.TopOrigin == ""
}

// add checks what a browser has made and stores it.
func (s *Service) add(ctx context.Context, tx Tx, p party, b Browser, name string,
	made *protocol.ParsedCredentialCreationData) (Passkey, error) {
	if !s.isPerson(b.Person) {
		return Passkey{}, refusedNobody
	}
	o, _, err := s.ownerIn(tx, b.Person, p.Config.RPID)
	if err != nil {
		return Passkey{}, err
	}
	if len(o.rows) >= MaxPasskeys {
		return Passkey{}, ErrTooMany
	}
	cred, err := p.CreateCredential(o, o.sessionData(p, made.Response.CollectedClientData.Challenge), made)
	if err != nil {
		return Passkey{}, refusedInvalid
	}
	_, err = s.o.Rows(tx.Glance()).PasskeyByCredential(encode(cred.ID)) // it is one person's alone in any case
	switch {
	case err == nil:
		return Passkey{}, refusedDouble
	case !errors.Is(err, approval.ErrNotFound):
		return Passkey{}, err
	}
	row := Row{
		Passkey: Passkey{ID: tx.NewID(), Person: b.Person, Name: nameOf(name, "Passkey "+strconv.Itoa(len(o.rows)+1)),
			BackedUp: cred.Flags.BackupState, AddedAt: tx.Now()},
		Credential: encode(cred.ID), PublicKey: encode(cred.PublicKey), RPID: p.Config.RPID,
		AAGUID: hex.EncodeToString(cred.Authenticator.AAGUID), Transports: transports(cred.Transport),
		SignCount: int64(cred.Authenticator.SignCount), BackupEligible: cred.Flags.BackupEligible,
	}
	if err := tx.InsertPasskey(row); err != nil {
		return Passkey{}, err
	}
	if err := s.o.Teller.PasskeyAdded(tx, b.Person, row.Name); err != nil {
		return Passkey{}, err
	}
	return row.Passkey, s.record(ctx, tx, approval.Event{Type: approval.EventPasskeyAdded, Actor: b.Person},
		eventData{Passkey: row.ID, Name: row.Name, Session: b.Session})
}

// transports keeps those that there are.
func transports(all []protocol.AuthenticatorTransport) string {
	var kept []string
	for _, t := range all {
		switch t {
		case protocol.USB, protocol.NFC, protocol.BLE, protocol.SmartCard, protocol.Hybrid, protocol.Internal:
			if !slices.Contains(kept, string(t)) {
				kept = append(kept, string(t))
			}
		}
	}
	return strings.Join(kept, ",")
}

func fields(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// Of returns a person's passkeys, oldest first.
func (s *Service) Of(ctx context.Context, person string) ([]Passkey, error) {
	var all []Passkey
	err := s.view(ctx, func(tx Tx) error {
		rows, err := tx.PasskeysOf(person)
		all = make([]Passkey, 0, len(rows))
		for _, r := range rows {
			all = append(all, s.byWall(r.Passkey))
		}
		return err
	})
	return all, err
}

func (s *Service) byWall(k Passkey) Passkey {
	wall := s.o.Store.ToWall
	k.AddedAt, k.UsedAt, k.BlockedAt = wall(k.AddedAt), wall(k.UsedAt), wall(k.BlockedAt)
	return k
}

// Why a passkey was removed.
const (
	removedByOwner  = "by_owner"
	removedNoPerson = "no_such_person"
)

// Remove deletes one of a person's passkeys. They are told in their chat. Errors: [ErrNone] for one that is not theirs.
func (s *Service) Remove(ctx context.Context, b Browser, id string) (Passkey, error) {
	return approval.Update(ctx, s.o.Store, approval.OfPerson(b.Person), func(atx approval.Tx) (Passkey, error) {
		tx := s.o.Rows(atx)
		rows, err := tx.PasskeysOf(b.Person)
		if err != nil {
			return Passkey{}, err
		}
		i := slices.IndexFunc(rows, func(r Row) bool { return r.ID == id })
		if i < 0 {
			return Passkey{}, ErrNone
		}
		if err := s.remove(ctx, tx, rows[i], removedByOwner, b.Session); err != nil {
			return Passkey{}, err
		}
		return rows[i].Passkey, s.o.Teller.PasskeyRemoved(tx, b.Person, rows[i].Name)
	})
}

func (s *Service) remove(ctx context.Context, tx Tx, r Row, why, session string) error {
	if _, err := tx.DeletePasskey(r.Person, r.ID); err != nil {
		return err
	}
	by := r.Person
	if why == removedNoPerson {
		by = (approval.Actor{Kind: approval.System, Name: "signin"}).String()
	}
	return s.record(ctx, tx, approval.Event{Type: approval.EventPasskeyRemoved, Actor: by, Reason: why},
		eventData{Passkey: r.ID, Name: r.Name, Person: r.Person, Session: session})
}

// Recheck deletes the passkeys of those who are not configured any more, and says how many. It is called after the
// configuration was loaded; until then they are of no use either. A person who is configured by that name later on has
// none.
func (s *Service) Recheck(ctx context.Context) (int, error) {
	return approval.Update(ctx, s.o.Store, approval.WholeStore(), func(atx approval.Tx) (gone int, err error) {
		tx := s.o.Rows(atx)
		people, err := tx.PasskeyPeople()
		if err != nil {
			return 0, err
		}
		for _, person := range people {
			if s.isPerson(person) {
				continue
			}
			n, err := s.removeAll(ctx, tx, person)
			if err != nil {
				return 0, err
			}
			gone += n
		}
		return gone, nil
	})
}

func (s *Service) removeAll(ctx context.Context, tx Tx, person string) (int, error) {
	rows, err := tx.PasskeysOf(person)
	if err != nil {
		return 0, err
	}
	for _, r := range rows {
		if err := s.remove(ctx, tx, r, removedNoPerson, ""); err != nil {
			return 0, err
		}
	}
	return len(rows), tx.DeletePasskeyOwner(person)
}
