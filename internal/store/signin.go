package store

import (
	"time"

	"countersign/internal/auth/signin"
)

func (t signIns) InsertSignInLink(l signin.LinkRow) error {
	return newLinkColumns.bind(t.write(insertSignInLink), &l).put()
}

func (t signIns) SignInLink(digest string) (signin.LinkRow, error) {
	return one(t.read(selectSignInLink).text(digest), linkColumns.scan)
}

func (t signIns) SignInLinksOf(person string) ([]signin.LinkRow, error) {
	return all(t.read(selectSignInLinks).text(person), 0, linkColumns.scan)
}

func (t signIns) EndSignInLink(digest string, end signin.LinkEnd) (bool, error) {
	l := signin.LinkRow{EndedAt: t.Now(), End: end}
	return lateLinkColumns.bind(t.write(endSignInLink), &l).text(digest).change()
}

func (t signIns) DeleteSignInLinks(person string) error {
	return t.write(deleteSignInLinks).text(person).put()
}

func (t signIns) InsertSession(s signin.SessionRow) error {
	return sessionColumns.bind(t.write(insertSession), &s).put()
}

func (t signIns) SessionBySecret(digest string) (signin.SessionRow, error) {
	return one(t.read(selectSession).text(digest), sessionColumns.scan)
}

func (t signIns) SessionsOf(person string) ([]signin.SessionRow, error) {
	return all(t.read(selectSessions).text(person), 0, sessionColumns.scan)
}

func (t signIns) SeeSession(id string) (bool, error) {
	return t.write(seeSession).time(t.Now()).text(id).change()
}

func (t signIns) DeleteSession(id string) (bool, error) {
	return t.write(deleteSession).text(id).change()
}

func (t signIns) SignInPeople() ([]string, error) {
	return all(t.read(selectSignInPeople), 0, scanText)
}

func (t signIns) PruneSignIns(idle time.Time, limit int) (int, error) {
	links, err := t.write(pruneSignInLinks).time(t.Now()).number(int64(limit)).exec()
	if err != nil {
		return 0, err
	}
	sessions, err := t.write(pruneSessions).time(t.Now()).time(idle).number(int64(limit)).exec()
	if err != nil {
		return 0, err
	}
	return links + sessions, nil
}
