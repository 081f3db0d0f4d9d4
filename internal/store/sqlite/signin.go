package sqlite

import (
	"time"

	"countersign/approval"
	"countersign/internal/auth/signin"
	"countersign/internal/store/sqlite/sqlite3"
)

// SignIns is a transaction of d with the links and sessions that it keeps.
func (*DB) SignIns(t approval.Tx) signin.Tx { return t.(*tx) }

func (t *tx) InsertSignInLink(l signin.LinkRow) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(newLinkColumns.bind(t.c.Stmt(insertSignInLink), &l))
	return err
}

func (t *tx) SignInLink(digest string) (signin.LinkRow, error) {
	if err := t.readable(); err != nil {
		return signin.LinkRow{}, err
	}
	return one(t, t.c.Stmt(selectSignInLink).BindText(digest), linkColumns.scan)
}

func (t *tx) SignInLinksOf(person string) ([]signin.LinkRow, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectSignInLinks).BindText(person), 0, linkColumns.scan)
}

func (t *tx) EndSignInLink(digest string, end signin.LinkEnd) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	l := signin.LinkRow{EndedAt: t.at, End: end}
	return t.changed(lateLinkColumns.bind(t.c.Stmt(endSignInLink), &l).BindText(digest))
}

func (t *tx) DeleteSignInLinks(person string) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(t.c.Stmt(deleteSignInLinks).BindText(person))
	return err
}

func (t *tx) InsertSession(s signin.SessionRow) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(sessionColumns.bind(t.c.Stmt(insertSession), &s))
	return err
}

func (t *tx) SessionBySecret(digest string) (signin.SessionRow, error) {
	if err := t.readable(); err != nil {
		return signin.SessionRow{}, err
	}
	return one(t, t.c.Stmt(selectSession).BindText(digest), sessionColumns.scan)
}

func (t *tx) SessionsOf(person string) ([]signin.SessionRow, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectSessions).BindText(person), 0, sessionColumns.scan)
}

func (t *tx) SeeSession(id string) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	return t.changed(t.c.Stmt(seeSession).BindTime(t.at).BindText(id))
}

func (t *tx) DeleteSession(id string) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	return t.changed(t.c.Stmt(deleteSession).BindText(id))
}

func (t *tx) SignInPeople() ([]string, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectSignInPeople), 0, scanText)
}

func (t *tx) PruneSignIns(idle time.Time, limit int) (int, error) {
	if err := t.writable(); err != nil {
		return 0, err
	}
	most := int64(limit)
	gone := 0
	for _, s := range []*sqlite3.Stmt{
		t.c.Stmt(pruneSignInLinks).BindTime(t.at).BindInt(most),
		t.c.Stmt(pruneSessions).BindTime(t.at).BindTime(idle).BindInt(most),
	} {
		n, err := s.Exec()
		if err != nil {
			return 0, t.fail(err)
		}
		gone += int(n)
	}
	t.w.changes = t.w.changes || gone > 0
	return gone, nil
}
