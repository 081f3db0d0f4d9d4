package signin

import (
	"cmp"
	"context"
	"errors"

	"countersign/approval"
)

// NewLink makes a link that signs a person in once, who asked for it that way, with shown: their token, or the user id
// that they wrote from. What was taken back since it was looked up makes no link. The token is what the link's address
// holds, and is not kept. Errors: [ErrRefused] for that and for a name that is no person's, [ErrTooMany].
func (s *Service) NewLink(ctx context.Context, person string, via approval.Via, shown string) (token string, l Link,
	err error) {
	err = s.update(ctx, approval.OfPerson(person), func(tx Tx) (err error) {
		token, l, err = s.newLink(ctx, tx, person, via, shown)
		return err
	})
	return token, l, err
}

// NewLinkIn is [Service.NewLink] in a transaction that is under way, whose function returns the error.
func (s *Service) NewLinkIn(
	ctx context.Context, tx approval.Tx, person string, via approval.Via, shown string,
) (token string, l Link, err error) {
	return s.newLink(ctx, s.rows(tx), person, via, shown)
}

func (s *Service) newLink(ctx context.Context, tx Tx, person string, via approval.Via, shown string) (string, Link,
	error) {
	opener := Opener(madeOn(via), shown)
	if !s.isPerson(person) || !s.stillOpens(person, opener) {
		return "", Link{}, ErrRefused
	}
	before, err := tx.SignInLinksOf(person)
	if err != nil {
		return "", Link{}, err
	}
	var alive []LinkRow
	made, now := 0, tx.Now()
	for _, l := range before {
		if now.Sub(l.MadeAt) >= LinkLasts {
			continue
		}
		made++
		if l.End == "" {
			alive = append(alive, l)
		}
	}
	if made >= linksMade {
		return "", Link{}, ErrTooMany
	}
	for _, l := range alive[:max(0, len(alive)-linksAlive+1)] {
		if _, err := tx.EndSignInLink(l.Digest, LinkReplaced); err != nil {
			return "", Link{}, err
		}
	}
	l := Link{ID: tx.NewID(), Person: person, Via: via, From: madeOn(via), MadeAt: now, ExpiresAt: now.Add(LinkLasts)}
	token := s.Token(l.ID)
	row := LinkRow{Link: l, Digest: digest(token), Opener: opener}
	if err := tx.InsertSignInLink(row); err != nil {
		return "", Link{}, err
	}
	err = s.record(ctx, tx, approval.Event{Type: approval.EventSignInLink, Actor: person, CorrelationID: l.ID},
		eventData{Link: l.ID, Via: string(via), From: l.From})
	return token, s.linkByWall(l), err
}

// Link returns what a link says, and spends nothing: what opened it may be a program, or a picture on
// another site's page. So it counts as no attempt. Errors: [ErrRefused].
func (s *Service) Link(ctx context.Context, token string, from Origin) (Link, error) {
	l, why, err := s.look(ctx, token)
	if err != nil {
		return Link{}, err
	}
	if why != "" {
		return Link{}, s.refuseLink(ctx, why, l, from)
	}
	return s.linkByWall(l.Link), nil
}

// Redeem spends a link and starts a session with it, in one transaction. Errors: [ErrRefused], [ErrTooMany].
func (s *Service) Redeem(ctx context.Context, token string, from Origin) (secret string, _ Session, err error) {
	l, why, err := s.look(ctx, token)
	if err != nil {
		return "", Session{}, err
	}
	if why != "" {
		return "", Session{}, s.refuseLink(ctx, why, l, from)
	}
	if err := s.AttemptOf(l.Person, from); err != nil {
		return "", Session{}, err
	}
	secret = newSecret(from)
	var sess Session
	err = s.update(ctx, approval.OfPerson(l.Person), func(tx Tx) (err error) {
		sess, err = s.redeem(ctx, tx, l, secret, from)
		return err
	})
	if errors.Is(err, ErrRefused) { // another browser was faster, or its time has come
		if _, why, _ = s.look(ctx, token); why == "" {
			why = refusedUsed
		}
		return "", Session{}, s.refuseLink(ctx, why, l, from)
	}
	if err != nil {
		return "", Session{}, err
	}
	return secret, s.sessionByWall(sess), nil
}

func (s *Service) redeem(ctx context.Context, tx Tx, l LinkRow, secret string, from Origin) (Session, error) {
	if !s.isPerson(l.Person) || !s.stillOpens(l.Person, l.Opener) {
		return Session{}, ErrRefused
	}
	if ok, err := tx.EndSignInLink(l.Digest, LinkUsed); err != nil || !ok {
		return Session{}, cmp.Or(err, ErrRefused)
	}
	m := MethodLink
	if l.From == FromTerminal {
		m = MethodToken
	}
	return s.start(ctx, tx, newSession{l.Person, m, secret, from, l.ID, l.Opener})
}

// Why a link does not sign in. Only the audit log says it.
const (
	refusedUnknown  = "unknown"
	refusedUsed     = string(LinkUsed)
	refusedExpired  = "expired"
	refusedNoPerson = "no_such_person"
	refusedRevoked  = string(LinkRevoked)
)

// look finds a link, and why it does not sign in, "" if it does.
func (s *Service) look(ctx context.Context, token string) (l LinkRow, why string, err error) {
	sum := digest(token)
	err = s.view(ctx, func(tx Tx) (err error) {
		l, err = tx.SignInLink(sum)
		if errors.Is(err, approval.ErrNotFound) || err == nil && len(token) != secretLen {
			l, why = LinkRow{}, refusedUnknown
			return nil
		}
		switch {
		case err != nil:
		case l.End != "":
			why = string(l.End)
		case !tx.Now().Before(l.ExpiresAt):
			why = refusedExpired
		case !s.isPerson(l.Person):
			why = refusedNoPerson
		case !s.stillOpens(l.Person, l.Opener):
			why = refusedRevoked
		}
		return err
	})
	return l, why, err
}

// madeOn is where a person who came that way asked for a link.
func madeOn(via approval.Via) string {
	switch via {
	case approval.ViaAPI, approval.ViaCLI, approval.ViaTerminal:
		return FromTerminal
	}
	return string(via)
}

func (s *Service) linkByWall(l Link) Link {
	l.MadeAt, l.ExpiresAt = s.store.ToWall(l.MadeAt), s.store.ToWall(l.ExpiresAt)
	return l
}
