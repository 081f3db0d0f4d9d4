package signin

import (
	"cmp"
	"context"
	"encoding/json"

	"countersign/approval"
	"countersign/approval/correlation"
)

// Recheck ends the sessions and links of those who are not configured any more, and those that began with what is not
// theirs any more: a token, a chat's user id, a provider's account. It returns the sessions that ended, and is called
// after the configuration was loaded; until then they are of no use either.
func (s *Service) Recheck(ctx context.Context) (gone, revoked []Session, err error) {
	err = s.update(ctx, approval.WholeStore(), func(tx Tx) error { // of all people
		gone, revoked = nil, nil
		people, err := tx.SignInPeople()
		if err != nil {
			return err
		}
		for _, person := range people {
			rows, err := tx.SessionsOf(person)
			if err != nil {
				return err
			}
			if !s.isPerson(person) {
				for _, r := range rows {
					gone = append(gone, s.sessionByWall(r.Session))
				}
				if _, err := s.endAll(ctx, tx, person, "", endedNoPerson); err != nil {
					return err
				}
				continue
			}
			for _, r := range rows {
				if s.stillOpens(person, r.Opener) {
					continue
				}
				if err := s.end(ctx, tx, r.Session, endedRevoked); err != nil {
					return err
				}
				revoked = append(revoked, s.sessionByWall(r.Session))
			}
			if err := s.revokeLinks(tx, person); err != nil {
				return err
			}
		}
		return nil
	})
	return gone, revoked, err
}

// revokeLinks ends a person's links that were asked for with what is not theirs any more.
func (s *Service) revokeLinks(tx Tx, person string) error {
	links, err := tx.SignInLinksOf(person)
	if err != nil {
		return err
	}
	for _, l := range links {
		if l.End != "" || s.stillOpens(person, l.Opener) {
			continue
		}
		if _, err := tx.EndSignInLink(l.Digest, LinkRevoked); err != nil {
			return err
		}
	}
	return nil
}

// EndAfterRestore ends all sessions and links, after an older store was put in this one's place: those that had ended
// since are in it.
func (s *Service) EndAfterRestore(ctx context.Context) error {
	_, err := s.endWhere(ctx, endedRestored, func(string) bool { return true })
	return err
}

// EndAfterFailover is EndAfterRestore in a transaction that was begun, about the whole store.
func (s *Service) EndAfterFailover(ctx context.Context, tx approval.Tx) error {
	_, err := s.endWhereIn(ctx, s.rows(tx), endedRestored, func(string) bool { return true })
	return err
}

func (s *Service) endWhere(ctx context.Context, why string, ends func(person string) bool) (int, error) {
	var ended int
	err := s.update(ctx, approval.WholeStore(), func(tx Tx) (err error) { // of all people
		ended, err = s.endWhereIn(ctx, tx, why, ends)
		return err
	})
	return ended, err
}

func (s *Service) endWhereIn(
	ctx context.Context, tx Tx, why string, ends func(person string) bool,
) (ended int, err error) {
	people, err := tx.SignInPeople()
	if err != nil {
		return 0, err
	}
	for _, person := range people {
		if !ends(person) {
			continue
		}
		n, err := s.endAll(ctx, tx, person, "", why)
		if err != nil {
			return 0, err
		}
		ended += n
	}
	return ended, nil
}

// Forget deletes what has come to its time, and says how many rows went. They were of no use already.
func (s *Service) Forget(ctx context.Context) (int, error) {
	var all int
	for {
		var n int
		err := s.update(ctx, approval.OfNothing(), func(tx Tx) (err error) {
			n, err = tx.PruneSignIns(tx.Now().Add(-IdleLasts), oneSweep)
			return err
		})
		all += n
		if err != nil || n < oneSweep {
			return all, err
		}
	}
}

// eventData is what the audit events of this package hold beside who and when. None of it is a secret.
type eventData struct {
	Session   string `json:"session_id,omitempty"`
	Link      string `json:"link_id,omitempty"`
	Person    string `json:"person,omitempty"`
	Method    string `json:"method,omitempty"`
	Via       string `json:"via,omitempty"`
	From      string `json:"from,omitempty"`
	Address   string `json:"address,omitempty"`
	UserAgent string `json:"user_agent,omitempty"`
	Issuer    string `json:"issuer,omitempty"`
	Account   string `json:"account,omitempty"` // a hash
}

// record puts an event on record, correlated with what ctx says where that says something.
func (s *Service) record(ctx context.Context, tx Tx, e approval.Event, d eventData) error {
	e.CorrelationID = cmp.Or(correlation.Of(ctx), e.CorrelationID, d.Session)
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	e.Data = data
	return s.audit.Append(ctx, tx, e)
}

// refuseLink puts on record that a person was not signed in, and returns what they are told. Strangers can cause it:
// not more than so many a minute are recorded, and a store that fails changes nothing of what they are told.
func (s *Service) refuseLink(ctx context.Context, why string, l LinkRow, from Origin) error {
	return s.refuse(ctx, why, eventData{Link: l.ID, Person: l.Person}, from)
}

// RefuseAccount puts on record that a provider vouched for a person who is not configured here, and returns what they
// are told. account is the same each time for the same one and tells nothing else of it.
func (s *Service) RefuseAccount(ctx context.Context, issuer, account string, from Origin) error {
	return s.refuse(ctx, refusedUnknown, eventData{Method: string(MethodOpenID), Issuer: issuer, Account: account}, from)
}

func (s *Service) refuse(ctx context.Context, why string, d eventData, from Origin) error {
	d.Address, d.UserAgent = Shown(from.Address), Shown(from.UserAgent)
	if !s.told.allow(s.store.Now()) {
		return ErrRefused
	}
	err := s.update(ctx, approval.OfNothing(), func(tx Tx) error {
		return s.record(ctx, tx, approval.Event{Type: approval.EventSignInRefused, Reason: why, CorrelationID: d.Link}, d)
	})
	if err != nil {
		s.log.WarnContext(ctx, "a refused sign-in could not be put on record", "error", err)
	}
	return ErrRefused
}
