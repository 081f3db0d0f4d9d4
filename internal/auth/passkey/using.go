package passkey

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"countersign/approval"
	"countersign/approval/proof"
)

// Wanted is what a step-up is to approve, as its page shows it.
type Wanted struct {
	RequestID string
	Version   string // of the request, as it is shown ([approval.Request.Version])
	Args      string // what is approved, in canonical form: the request's, or those in place of them
}

// BeginShowing returns what a browser needs to show one of its owner's passkeys, for [Service.BeginAdding]. Errors:
// [ErrNone], [ErrRefused], [ErrUnavailable].
func (s *Service) BeginShowing(ctx context.Context, b Browser) (json.RawMessage, error) {
	return s.ask(ctx, b, challenge{Purpose: forOwner})
}

// BeginStepUp returns what a browser needs to approve a request with one of its owner's passkeys (the argument of
// navigator.credentials.get, as JSON). Errors: [ErrNone], [ErrRefused], [ErrUnavailable].
func (s *Service) BeginStepUp(ctx context.Context, b Browser, w Wanted) (json.RawMessage, error) {
	return s.ask(ctx, b, challenge{Purpose: forStepUp, Request: w.RequestID, Wanted: w.digest()})
}

// ask makes a challenge for the passkeys of the person who is signed in.
func (s *Service) ask(ctx context.Context, b Browser, c challenge) (json.RawMessage, error) {
	p, err := s.party()
	if err != nil {
		return nil, err
	}
	var o *owner
	err = s.view(ctx, func(tx Tx) (err error) {
		if !s.isPerson(b.Person) {
			return refusedNobody
		}
		o, _, err = s.ownerIn(tx, b.Person, p.Config.RPID)
		return err
	})
	if err != nil {
		return nil, s.settle(ctx, err, eventData{Person: b.Person, For: string(c.Purpose), Session: b.Session})
	}
	if len(o.WebAuthnCredentials()) == 0 {
		return nil, ErrNone
	}
	c.Session = b.Session
	words, err := s.seal(c)
	if err != nil {
		return nil, err
	}
	options, _, err := p.BeginLogin(o, webauthn.WithChallenge(words))
	if err != nil {
		return nil, err
	}
	return json.Marshal(options.Response)
}

// FinishStepUp takes the browser's answer to [Service.BeginStepUp] and returns the proof of it, for
// [approval.Decision]. w is what is to be approved now: an answer that was given for something else proves nothing.
// Errors: [ErrRefused], [ErrBackup], [ErrUnavailable].
func (s *Service) FinishStepUp(ctx context.Context, b Browser, w Wanted, answer []byte) (*proof.Proof, error) {
	p, err := s.party()
	if err != nil {
		return nil, err
	}
	u, err := s.takeAnswer(ctx, p, b, forStepUp, answer)
	if err != nil {
		return nil, err
	}
	if u.wanted != w.digest() {
		return nil, s.recordRefusal(ctx, refusedChallenge, eventData{Person: b.Person, For: string(forStepUp),
			Session: b.Session, Request: w.RequestID})
	}
	return s.o.Prover.Prove(proof.Proven{Person: u.row.Person, RequestID: w.RequestID, Version: w.Version,
		Args: []byte(w.Args), Credential: u.row.ID, At: u.row.UsedAt}), nil
}

// use is a passkey that was used, and what for.
type use struct {
	row    Row
	wanted string
}

// takeAnswer takes an answer of a browser that is signed in.
func (s *Service) takeAnswer(ctx context.Context, p party, b Browser, of purpose, answer []byte) (use, error) {
	about := eventData{Person: b.Person, For: string(of), Session: b.Session}
	parsed, c, err := s.readAssertion(ctx, p, b.Session, of, answer)
	if err != nil {
		return use{}, s.settle(ctx, err, about)
	}
	about.Request = c.Request
	row, err := s.checkAssertion(ctx, assertion{about: about, eligible: eligible(parsed),
		whose: func(tx Tx) (*owner, error) {
			o, _, err := s.ownerIn(tx, b.Person, p.Config.RPID)
			return o, err
		},
		check: func(o *owner) (*webauthn.Credential, error) {
			return p.ValidateLogin(o, o.sessionData(p, parsed.Response.CollectedClientData.Challenge), parsed)
		},
	}, Door{})
	return use{row, c.Wanted}, err
}

// BeginSignIn returns what a browser needs to sign in a person who has a passkey for these pages, whichever that is,
// and the ticket to be kept in its cookie. Errors: [ErrUnavailable].
func (s *Service) BeginSignIn() (options json.RawMessage, ticket string, err error) {
	p, err := s.party()
	if err != nil {
		return nil, "", err
	}
	asked, session, err := p.BeginDiscoverableLogin()
	if err != nil {
		return nil, "", err
	}
	ticket = s.tickets.issue(session.Challenge, p.Config.RPID, s.o.Store.Now())
	options, err = json.Marshal(asked.Response)
	return options, ticket, err
}

// Door is what stands between a passkey and the pages. What is nil is not asked.
type Door struct {
	// InVain counts an answer that lets nobody in, Right one that lets a passkey's owner in, before anything is written.
	// Where there were too many, their error is what is told.
	InVain func() error
	Right  func(k Passkey) error
	// Open lets its owner in, in the transaction in which the passkey is used.
	Open func(ctx context.Context, tx approval.Tx, k Passkey) error
}

// FinishSignIn takes the browser's answer to [Service.BeginSignIn] and lets in whose passkey it is. What lets nobody in
// is read and not written: strangers have no part of the store's writer. Errors: [ErrRefused], [ErrBackup],
// [ErrUnavailable], those of the door.
func (s *Service) FinishSignIn(ctx context.Context, ticket string, answer []byte, d Door) (Passkey, error) {
	p, err := s.party()
	if err != nil {
		return Passkey{}, err
	}
	about := eventData{For: string(forSignIn)}
	parsed, err := read(p, answer)
	if err == nil && !s.tickets.holds(ticket, parsed.Response.CollectedClientData.Challenge, p.Config.RPID,
		s.o.Store.Now()) {
		err = refusedChallenge
	}
	if err != nil {
		return Passkey{}, s.turnAway(ctx, err, about, d)
	}
	words := parsed.Response.CollectedClientData.Challenge
	row, err := s.checkAssertion(ctx, assertion{about: about, eligible: eligible(parsed),
		whose: func(tx Tx) (*owner, error) {
			r, err := tx.PasskeyByCredential(encode(parsed.RawID))
			if err != nil {
				return nil, err
			}
			o, _, err := s.ownerIn(tx, r.Person, p.Config.RPID)
			return o, err
		},
		check: func(o *owner) (*webauthn.Credential, error) {
			_, cred, err := p.ValidatePasskeyLogin(func(_, _ []byte) (webauthn.User, error) { return o, nil },
				webauthn.SessionData{Challenge: words, RelyingPartyID: p.Config.RPID,
					UserVerification: protocol.VerificationRequired}, parsed)
			return cred, err
		},
		spend: func(tx Tx) (bool, error) { return spend(tx, words) },
	}, d)
	return row.Passkey, err
}

// read reads an answer that was given on our page.
func read(p party, answer []byte) (*protocol.ParsedCredentialAssertionData, error) {
	if len(answer) > maxAnswer {
		return nil, refusedUnread
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return nil, refusedUnread
	}
	if !sameOrigin(p, parsed.Response.CollectedClientData) {
		return parsed, refusedOrigin
	}
	return parsed, nil
}

// readAssertion reads an answer and finds its challenge, which is used up, wherever the answer was given.
func (s *Service) readAssertion(ctx context.Context, p party, session string, of purpose, answer []byte) (
	*protocol.ParsedCredentialAssertionData, challenge, error,
) {
	parsed, unread := read(p, answer)
	if parsed == nil {
		return nil, challenge{}, unread
	}
	c, err := s.takeChallenge(ctx, parsed.Response.CollectedClientData.Challenge, session, of)
	if err != nil {
		return nil, challenge{}, err
	}
	return parsed, c, unread
}

// assertion is an answer that is to be checked.
type assertion struct {
	about    eventData
	eligible bool                                         // what it says of copies on other devices
	whose    func(tx Tx) (*owner, error)                  // finds whose passkeys it should be of
	check    func(o *owner) (*webauthn.Credential, error) // checks it against those
	spend    func(tx Tx) (bool, error)                    // spends its challenge; false: it was. nil: that was done
}

func eligible(parsed *protocol.ParsedCredentialAssertionData) bool {
	return parsed.Response.AuthenticatorData.Flags.HasBackupEligible()
}

// judge finds the passkey that an answer is of, by the rows of a transaction, and why it proves nothing, "" if it does.
func (s *Service) judge(tx Tx, a assertion) (r Row, cred *webauthn.Credential, why refusal, err error) {
	o, err := a.whose(tx)
	switch {
	case errors.Is(err, approval.ErrNotFound):
		return Row{}, nil, refusedUnknown, nil
	case err != nil:
		return Row{}, nil, "", err
	case !s.isPerson(o.Person):
		return Row{}, nil, refusedNobody, nil
	}
	if cred, err = a.check(o); err == nil {
		return o.rowOf(cred), cred, "", nil
	}
	if r, ok := a.rightButForBackup(o); ok {
		return r, nil, refusedBackup, nil
	}
	return Row{}, nil, refusedInvalid, nil
}

// rightButForBackup finds the passkey of an answer that would be right if the passkey had said, when it was added, what
// it says now of being kept on several devices: that tells it from a forgery.
func (a assertion) rightButForBackup(o *owner) (Row, bool) {
	other := *o
	other.rows = slices.Clone(o.rows)
	for i := range other.rows {
		other.rows[i].BackupEligible = a.eligible
	}
	cred, err := a.check(&other)
	if err != nil {
		return Row{}, false
	}
	return o.rowOf(cred), true
}

// checkAssertion has an answer checked, and stores what it says of the passkey that was used. It is looked at before
// anything is written, and again with what is written.
func (s *Service) checkAssertion(ctx context.Context, a assertion, d Door) (Row, error) {
	r, why, err := s.look(ctx, a, d)
	if err == nil && why == "" {
		r, why, err = s.take(ctx, a, d, r.Person)
	}
	switch {
	case err != nil:
		return Row{}, err
	case why != "":
		if r.ID != "" { // whoever it is has the passkey
			a.about.Passkey, a.about.Person = r.ID, r.Person
		}
		return Row{}, s.turnAway(ctx, why, a.about, d)
	}
	return r, nil
}

// look judges an answer without writing anything.
func (s *Service) look(ctx context.Context, a assertion, d Door) (r Row, why refusal, err error) {
	err = s.view(ctx, func(tx Tx) (err error) {
		r, _, why, err = s.judge(tx, a)
		return err
	})
	if err != nil || why != "" {
		return r, why, err
	}
	if d.Right != nil {
		if err := d.Right(r.Passkey); err != nil {
			return r, "", err
		}
	}
	return r, "", nil
}

// take judges an answer by the rows of now, spends its challenge, stores that its passkey was used and lets its owner
// in. A count that went back blocks the passkey, in the same transaction.
func (s *Service) take(ctx context.Context, a assertion, d Door, person string) (r Row, why refusal, err error) {
	err = s.update(ctx, approval.OfPerson(person), func(tx Tx) error {
		var cred *webauthn.Credential
		if r, cred, why, err = s.judge(tx, a); err != nil || why != "" {
			return err
		}
		if a.spend != nil {
			if fresh, err := a.spend(tx); err != nil || !fresh {
				why = refusedChallenge
				return err
			}
		}
		if why, err = s.storeUse(ctx, tx, &r, cred); err != nil || why != "" || d.Open == nil {
			return err
		}
		return d.Open(ctx, tx, r.Passkey)
	})
	return r, why, err
}

// turnAway is [Service.settle] of an answer that lets no person in, where not too many came before.
func (s *Service) turnAway(ctx context.Context, err error, about eventData, d Door) error {
	if d.InVain != nil {
		if err := d.InVain(); err != nil {
			return err
		}
	}
	return s.settle(ctx, err, about)
}

// rowOf is the row of a credential that was found among the owner's.
func (o *owner) rowOf(cred *webauthn.Credential) Row {
	for _, r := range o.rows {
		if r.Credential == encode(cred.ID) {
			return r
		}
	}
	return Row{}
}

// storeUse stores that a passkey was used, or that it is of no use any more.
func (s *Service) storeUse(ctx context.Context, tx Tx, r *Row, cred *webauthn.Credential) (refusal, error) {
	if cred.Authenticator.CloneWarning {
		r.BlockedAt = tx.Now()
		if _, err := tx.UpdatePasskey(*r); err != nil {
			return "", err
		}
		if err := s.o.Teller.PasskeyBlocked(tx, r.Person, r.Name); err != nil {
			return "", err
		}
		return refusedCount, s.record(ctx, tx, approval.Event{Type: approval.EventPasskeyBlocked, Actor: r.Person},
			eventData{Passkey: r.ID, Name: r.Name})
	}
	r.SignCount, r.BackedUp, r.UsedAt = int64(cred.Authenticator.SignCount), cred.Flags.BackupState, tx.Now()
	_, err := tx.UpdatePasskey(*r)
	return "", err
}
