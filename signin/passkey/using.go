package passkey

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"countersign/approval"
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
	return s.ask(ctx, b, challenge{purpose: forOwner})
}

// BeginStepUp returns what a browser needs to approve a request with one of its owner's passkeys (the argument of
// navigator.credentials.get, as JSON). Errors: [ErrNone], [ErrRefused], [ErrUnavailable].
func (s *Service) BeginStepUp(ctx context.Context, b Browser, w Wanted) (json.RawMessage, error) {
	return s.ask(ctx, b, challenge{purpose: forStepUp, wanted: w})
}

// ask makes a challenge for the passkeys of whoever is signed in.
func (s *Service) ask(ctx context.Context, b Browser, c challenge) (json.RawMessage, error) {
	p, err := s.party()
	if err != nil {
		return nil, err
	}
	var o *owner
	err = s.view(ctx, func(tx Tx) (err error) {
		if !s.known(b.Person) {
			return refusedNobody
		}
		o, _, err = s.ownerIn(tx, b.Person, p.Config.RPID)
		return err
	})
	if err != nil {
		return nil, s.settle(ctx, err, eventData{Person: b.Person, For: string(c.purpose), Session: b.Session})
	}
	if len(o.WebAuthnCredentials()) == 0 {
		return nil, ErrNone
	}
	options, session, err := p.BeginLogin(o)
	if err != nil {
		return nil, err
	}
	c.browser, c.session = b, *session
	s.keep(c)
	return json.Marshal(options.Response)
}

// FinishStepUp takes the browser's answer to [Service.BeginStepUp] and returns the proof of it, for
// [approval.Decision]. w is what is to be approved now: an answer that was given for something else proves nothing.
// Errors: [ErrRefused], [ErrUnavailable].
func (s *Service) FinishStepUp(ctx context.Context, b Browser, w Wanted, answer []byte) (*approval.Proof, error) {
	p, err := s.party()
	if err != nil {
		return nil, err
	}
	u, err := s.answered(ctx, p, b, forStepUp, answer)
	if err != nil {
		return nil, err
	}
	if u.wanted != w {
		return nil, s.refused(ctx, refusedChallenge, eventData{Person: b.Person, For: string(forStepUp), Session: b.Session,
			Request: w.RequestID})
	}
	return s.o.Prover.Prove(approval.Proven{Person: u.row.Person, RequestID: w.RequestID, Version: w.Version,
		Args: []byte(w.Args), Credential: u.row.ID, At: u.row.UsedAt}), nil
}

// use is a passkey that was used, and what for.
type use struct {
	row    Row
	wanted Wanted
}

// answered takes an answer of a browser that is signed in.
func (s *Service) answered(ctx context.Context, p party, b Browser, of purpose, answer []byte) (use, error) {
	about := eventData{Person: b.Person, For: string(of), Session: b.Session}
	parsed, c, err := s.signed(p, b.Session, of, answer)
	if err != nil {
		return use{}, s.settle(ctx, err, about)
	}
	about.Request = c.wanted.RequestID
	row, err := s.checked(ctx, about, func(tx Tx) (*owner, error) {
		o, _, err := s.ownerIn(tx, b.Person, p.Config.RPID)
		return o, err
	}, func(o *owner) (*webauthn.Credential, error) { return p.ValidateLogin(o, c.session, parsed) })
	return use{row, c.wanted}, err
}

// BeginSignIn returns what a browser needs to sign in whoever has a passkey for these pages, whoever that is, and the
// ticket to be kept in its cookie. Errors: [ErrUnavailable].
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

// FinishSignIn takes the browser's answer to [Service.BeginSignIn] and returns whose passkey it is. Errors:
// [ErrRefused], [ErrUnavailable].
func (s *Service) FinishSignIn(ctx context.Context, ticket string, answer []byte) (Passkey, error) {
	p, err := s.party()
	if err != nil {
		return Passkey{}, err
	}
	about := eventData{For: string(forSignIn)}
	parsed, err := read(p, answer)
	if err != nil {
		return Passkey{}, s.settle(ctx, err, about)
	}
	words := parsed.Response.CollectedClientData.Challenge
	if !s.tickets.take(ticket, words, p.Config.RPID, s.o.Store.Now()) {
		return Passkey{}, s.settle(ctx, refusedChallenge, about)
	}
	row, err := s.checked(ctx, about, func(tx Tx) (*owner, error) {
		r, err := tx.PasskeyByCredential(encoded(parsed.RawID))
		if err != nil {
			return nil, err
		}
		o, _, err := s.ownerIn(tx, r.Person, p.Config.RPID)
		return o, err
	}, func(o *owner) (*webauthn.Credential, error) {
		_, cred, err := p.ValidatePasskeyLogin(func(_, _ []byte) (webauthn.User, error) { return o, nil },
			webauthn.SessionData{Challenge: words, RelyingPartyID: p.Config.RPID,
				UserVerification: protocol.VerificationRequired}, parsed)
		return cred, err
	})
	if err != nil {
		s.tickets.giveBack(words)
	}
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

// signed reads an answer and finds its challenge, which is used up, wherever the answer was given.
func (s *Service) signed(p party, session string, of purpose, answer []byte) (*protocol.ParsedCredentialAssertionData,
	challenge, error) {
	parsed, err := read(p, answer)
	if parsed == nil {
		return nil, challenge{}, err
	}
	c, ok := s.waiting.take(parsed.Response.CollectedClientData.Challenge, session, of, s.o.Store.Now())
	if !ok {
		return nil, challenge{}, refusedChallenge
	}
	return parsed, c, err
}

// checked has an answer checked against whose passkeys it should be of, and stores what it says of the one that was
// used. A count that went back blocks the passkey, in the same transaction.
func (s *Service) checked(ctx context.Context, about eventData, whose func(tx Tx) (*owner, error),
	check func(o *owner) (*webauthn.Credential, error)) (Row, error) {
	type result struct {
		row     Row
		refused refusal
	}
	got, err := approval.Update(ctx, s.o.Store, func(atx approval.Tx) (out result, err error) {
		err = with(atx, func(tx Tx) error {
			o, err := whose(tx)
			switch {
			case errors.Is(err, approval.ErrNotFound):
				out.refused = refusedUnknown
				return nil
			case err != nil:
				return err
			case !s.known(o.Person):
				out.refused = refusedNobody
				return nil
			}
			cred, err := check(o)
			if err != nil {
				out.refused = refusedInvalid
				return nil
			}
			out.row = o.rowOf(cred)
			out.refused, err = s.used(ctx, tx, &out.row, cred)
			return err
		})
		return out, err
	})
	if err != nil {
		return Row{}, err
	}
	if got.refused != "" {
		about.Passkey = got.row.ID
		return Row{}, s.refused(ctx, got.refused, about)
	}
	return got.row, nil
}

// rowOf is the row of a credential that was found among the owner's.
func (o *owner) rowOf(cred *webauthn.Credential) Row {
	for _, r := range o.rows {
		if r.Credential == encoded(cred.ID) {
			return r
		}
	}
	return Row{}
}

// used stores that a passkey was used, or that it is of no use any more.
func (s *Service) used(ctx context.Context, tx Tx, r *Row, cred *webauthn.Credential) (refusal, error) {
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
