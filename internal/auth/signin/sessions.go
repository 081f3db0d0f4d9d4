package signin

import (
	"context"
	"errors"
	"slices"
	"time"

	"countersign/approval"
	"countersign/approval/legible"
)

// Start starts a session for a person who has shown who they are by other means than a link. opener is what they have
// shown, as [Options.Opener] has it, from when it was checked: what was taken back since starts nothing. Errors:
// [ErrRefused] for that and for a name that is no person's, [ErrTooMany].
func (s *Service) Start(ctx context.Context, person string, m Method, opener string, from Origin) (string, Session,
	error) {
	if err := s.allow(ofPerson(person)); err != nil {
		return "", Session{}, err
	}
	var secret string
	var sess Session
	err := s.store.Update(ctx, approval.OfPerson(person), func(tx approval.Tx) (err error) {
		secret, sess, err = s.StartIn(ctx, tx, person, m, opener, from)
		return err
	})
	if errors.Is(err, ErrRefused) {
		why := refusedNoPerson
		if s.isPerson(person) {
			why = refusedRevoked
		}
		return "", Session{}, s.refuseLink(ctx, why, LinkRow{Link: Link{Person: person}}, from)
	}
	if err != nil {
		return "", Session{}, err
	}
	return secret, sess, nil
}

// StartIn is [Service.Start] in a transaction that is under way, whose function returns the error. The attempt has been
// counted ([Service.AttemptOf]).
func (s *Service) StartIn(ctx context.Context, tx approval.Tx, person string, m Method, opener string, from Origin) (
	secret string, sess Session, err error) {
	if !s.isPerson(person) || !s.stillOpens(person, opener) {
		return "", Session{}, ErrRefused
	}
	secret = newSecret(from)
	sess, err = s.start(ctx, s.rows(tx), newSession{person, m, secret, from, "", opener})
	return secret, s.sessionByWall(sess), err
}

// newSession is what a session starts with.
type newSession struct {
	person string
	method Method
	secret string
	from   Origin
	link   string // the id of the link that it started with, or ""
	opener string
}

func (s *Service) start(ctx context.Context, tx Tx, n newSession) (Session, error) {
	before, err := tx.SessionsOf(n.person)
	if err != nil {
		return Session{}, err
	}
	for _, old := range before[:max(0, len(before)-sessionsKept+1)] {
		if err := s.end(ctx, tx, old.Session, endedReplaced); err != nil {
			return Session{}, err
		}
	}
	now := tx.Now()
	sess := Session{ID: tx.NewID(), Person: n.person, Method: n.method, Origin: Shown(n.from.Address),
		UserAgent: Shown(n.from.UserAgent), CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(SessionLasts)}
	if err := tx.InsertSession(SessionRow{Session: sess, Digest: digest(n.secret), Opener: n.opener}); err != nil {
		return Session{}, err
	}
	e := approval.Event{Type: approval.EventSignedIn, Actor: n.person, CorrelationID: n.link}
	return sess, s.record(ctx, tx, e, eventData{Session: sess.ID, Link: n.link, Method: string(n.method),
		Address: sess.Origin, UserAgent: sess.UserAgent})
}

// Shown is what a browser says of itself, or an address, safe to show and no longer than is kept.
func Shown(s string) string { return legible.Line(legible.Cut(s, maxUserAgent)) }

// Session returns whose secret it is, and counts as that they are there. Errors: [ErrNoSession].
func (s *Service) Session(ctx context.Context, secret string) (Session, error) {
	sess, err := s.Look(ctx, secret)
	if err != nil || s.store.Now().Sub(s.store.FromWall(sess.SeenAt)) < seenEvery {
		return sess, err
	}
	err = s.update(ctx, approval.OfPerson(sess.Person), func(tx Tx) error {
		_, err := tx.SeeSession(sess.ID)
		return err
	})
	return sess, err
}

// Look is [Service.Session] that does not count as that they are there: what a page does by itself keeps no session
// alive.
func (s *Service) Look(ctx context.Context, secret string) (Session, error) {
	if !isSecret(secret) {
		return Session{}, ErrNoSession
	}
	var found SessionRow
	err := s.view(ctx, func(tx Tx) (err error) {
		if found, err = tx.SessionBySecret(digest(secret)); err != nil {
			return err
		}
		if !s.lives(found, tx.Now()) {
			return ErrNoSession
		}
		return nil
	})
	if errors.Is(err, approval.ErrNotFound) {
		err = ErrNoSession
	}
	if err != nil {
		return Session{}, err
	}
	return s.sessionByWall(found.Session), nil
}

// lives reports whether a session that is stored is one, at a time.
func (s *Service) lives(sess SessionRow, now time.Time) bool {
	return now.Before(sess.ExpiresAt) && now.Before(sess.SeenAt.Add(IdleLasts)) && s.isPerson(sess.Person) &&
		s.stillOpens(sess.Person, sess.Opener)
}

// Sessions returns a person's sessions, the one seen last first.
func (s *Service) Sessions(ctx context.Context, person string) ([]Session, error) {
	var found []Session
	err := s.view(ctx, func(tx Tx) error {
		rows, err := tx.SessionsOf(person)
		found = make([]Session, 0, len(rows))
		for _, r := range rows {
			if s.lives(r, tx.Now()) {
				found = append(found, s.sessionByWall(r.Session))
			}
		}
		return err
	})
	slices.SortStableFunc(found, func(a, b Session) int { return b.SeenAt.Compare(a.SeenAt) })
	return found, err
}

// Why a session ended before its time.
const (
	endedSignedOut = "signed_out"
	endedByOwner   = "ended_by_owner" // from another browser
	endedReplaced  = "replaced"       // the person has too many
	endedNoPerson  = "no_such_person"
	endedRestored  = "backup_restored"
	endedRevoked   = "revoked" // what it began with was taken back
)

// End ends one of a person's sessions. Errors: [ErrNoSession] for an id that is none of theirs.
func (s *Service) End(ctx context.Context, person, id string) error {
	return s.update(ctx, approval.OfPerson(person), func(tx Tx) error {
		rows, err := tx.SessionsOf(person)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r.ID == id {
				return s.end(ctx, tx, r.Session, endedByOwner)
			}
		}
		return ErrNoSession
	})
}

// EndOthers ends all of a person's sessions but one, and their links, and says how many sessions ended.
func (s *Service) EndOthers(ctx context.Context, person, but string) (int, error) {
	var ended int
	err := s.update(ctx, approval.OfPerson(person), func(tx Tx) (err error) {
		ended, err = s.endAll(ctx, tx, person, but, endedByOwner)
		return err
	})
	return ended, err
}

// SignOut ends the session of a secret. That there is none is no error: who wants to be signed out is.
func (s *Service) SignOut(ctx context.Context, secret string) error {
	if !isSecret(secret) {
		return nil
	}
	var r SessionRow
	err := s.view(ctx, func(tx Tx) (err error) {
		r, err = tx.SessionBySecret(digest(secret))
		return err
	})
	if errors.Is(err, approval.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.update(ctx, approval.OfPerson(r.Person), func(tx Tx) error {
		return s.end(ctx, tx, r.Session, endedSignedOut)
	})
}

// end deletes a session and puts on record why.
func (s *Service) end(ctx context.Context, tx Tx, sess Session, why string) error {
	if ok, err := tx.DeleteSession(sess.ID); err != nil || !ok {
		return err
	}
	e := approval.Event{Type: approval.EventSessionEnded, Actor: sess.Person, Reason: why}
	switch why {
	case endedSignedOut:
		e.Type = approval.EventSignedOut
	case endedNoPerson, endedRestored, endedRevoked:
		e.Actor = (approval.Actor{Kind: approval.System, Name: "signin"}).String()
	}
	return s.record(ctx, tx, e, eventData{Session: sess.ID, Method: string(sess.Method), Person: sess.Person})
}

// endAll ends a person's sessions but one, and their links.
func (s *Service) endAll(ctx context.Context, tx Tx, person, but, why string) (ended int, err error) {
	rows, err := tx.SessionsOf(person)
	if err != nil {
		return 0, err
	}
	for _, r := range rows {
		if r.ID == but {
			continue
		}
		if err := s.end(ctx, tx, r.Session, why); err != nil {
			return 0, err
		}
		ended++
	}
	return ended, tx.DeleteSignInLinks(person)
}

func (s *Service) sessionByWall(sess Session) Session {
	for _, t := range []*time.Time{&sess.CreatedAt, &sess.SeenAt, &sess.ExpiresAt} {
		*t = s.store.ToWall(*t)
	}
	return sess
}
