package storetest

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
)

// Store keeps links, sessions and passkeys beside the rest.
type Store interface {
	approval.Store
	SignIns(tx approval.Tx) signin.Tx
	Passkeys(tx approval.Tx) passkey.Tx
}

// besides is the contract of what is kept for signing in.
var besides = []struct {
	name string
	f    func(t *testing.T, s Store)
}{
	{"SignIns", signIns},
	{"Passkeys", passkeys},
	{"PasskeySessions", passkeySessions},
	{"RaceRedeemers", raceRedeemers},
}

// signing runs a function on the links and sessions of s.
func signing(s Store, fn func(tx signin.Tx) error) func(approval.Tx) error {
	return func(tx approval.Tx) error { return fn(s.SignIns(tx)) }
}

func newLink(tx approval.Tx, person, token string, lasts time.Duration) signin.LinkRow {
	return signin.LinkRow{
		Link: signin.Link{ID: tx.NewID(), Person: person, Via: "line", From: "room", MadeAt: tx.Now(),
			ExpiresAt: tx.Now().Add(lasts)},
		Digest: hash(token), Opener: "room:1",
	}
}

func newSession(tx approval.Tx, person, secret string) signin.SessionRow {
	return signin.SessionRow{
		Session: signin.Session{ID: tx.NewID(), Person: person, Method: signin.MethodPasskey, Origin: "192.0.2.7",
			UserAgent: "Browser", CreatedAt: tx.Now(), SeenAt: tx.Now(), ExpiresAt: tx.Now().Add(time.Hour)},
		Digest: hash(secret), Opener: signin.Passkey("k"),
	}
}

func signIns(t *testing.T, s Store) {
	links, sessions := map[string]signin.LinkRow{}, map[string]signin.SessionRow{}
	update(t, s, signing(s, func(tx signin.Tx) error {
		for i, token := range []string{"a", "b", "c"} {
			links[token] = newLink(tx, []string{"hana", "hana", "ken"}[i], token, time.Hour)
			sessions[token] = newSession(tx, []string{"hana", "hana", "mei"}[i], token)
			if err := errors.Join(tx.InsertSignInLink(links[token]), tx.InsertSession(sessions[token])); err != nil {
				return err
			}
		}
		return nil
	}))
	everyFieldSet(t, []signin.Link{links["a"].Link})
	everyFieldSet(t, []signin.Session{sessions["a"].Session})
	view(t, s, signing(s, func(tx signin.Tx) error {
		l, err1 := tx.SignInLink(hash("a"))
		equal(t, "SignInLink", l, links["a"])
		of, err2 := tx.SignInLinksOf("hana")
		equal(t, "SignInLinksOf", of, []signin.LinkRow{links["a"], links["b"]})
		sess, err3 := tx.SessionBySecret(hash("c"))
		equal(t, "SessionBySecret", sess, sessions["c"])
		all, err4 := tx.SessionsOf("hana")
		equal(t, "SessionsOf", all, []signin.SessionRow{sessions["a"], sessions["b"]})
		people, err5 := tx.SignInPeople()
		equal(t, "SignInPeople", people, []string{"hana", "ken", "mei"})
		for what, err := range map[string]error{
			"SignInLink":      second(tx.SignInLink(hash("no"))),
			"SessionBySecret": second(tx.SessionBySecret(hash("no"))),
		} {
			if !errors.Is(err, approval.ErrNotFound) {
				t.Errorf("%s of none: %v", what, err)
			}
		}
		return errors.Join(err1, err2, err3, err4, err5)
	}))
	signInsChange(t, s)
}

// signInsChange is of a store with the rows of signIns.
func signInsChange(t *testing.T, s Store) {
	changes := func(what string, want bool, f func(tx signin.Tx) (bool, error)) {
		t.Helper()
		update(t, s, signing(s, func(tx signin.Tx) error {
			ok, err := f(tx)
			if ok != want {
				t.Errorf("%s: %t, want %t", what, ok, want)
			}
			return err
		}))
	}
	end := func(token string) func(tx signin.Tx) (bool, error) {
		return func(tx signin.Tx) (bool, error) { return tx.EndSignInLink(hash(token), signin.LinkUsed) }
	}
	changes("ending a link", true, end("a"))
	changes("ending it again", false, end("a"))
	changes("ending none", false, end("no"))
	update(t, s, signing(s, func(tx signin.Tx) error { // its time has come as soon as time passes
		l := newLink(tx, "hana", "short", time.Millisecond)
		return tx.InsertSignInLink(l)
	}))
	passes(t, s)
	changes("ending what is too old", false, end("short"))
	var id string
	update(t, s, signing(s, func(tx signin.Tx) error {
		sess, err := tx.SessionBySecret(hash("b"))
		id = sess.ID
		return err
	}))
	changes("seeing", true, func(tx signin.Tx) (bool, error) { return tx.SeeSession(id) })
	changes("seeing none", false, func(tx signin.Tx) (bool, error) { return tx.SeeSession("no") })
	changes("deleting none", false, func(tx signin.Tx) (bool, error) { return tx.DeleteSession("no") })
	update(t, s, signing(s, func(tx signin.Tx) error {
		l, err1 := tx.SignInLink(hash("a"))
		if l.End != signin.LinkUsed || l.EndedAt.Before(l.MadeAt) || l.EndedAt.After(tx.Now()) {
			t.Errorf("an ended link: %+v", l)
		}
		// Only "b" was seen since the others were made.
		seen, err2 := tx.SessionBySecret(hash("b"))
		n, err3 := tx.PruneSignIns(seen.SeenAt.Add(-time.Millisecond), 10)
		equal(t, "PruneSignIns", n, 3) // the short link, and two sessions
		of, err4 := tx.SignInLinksOf("hana")
		equal(t, "links left", len(of), 2)
		n, err5 := tx.PruneSignIns(tx.Now(), 10)
		equal(t, "PruneSignIns of the last", n, 1)
		err6 := tx.DeleteSignInLinks("hana")
		people, err7 := tx.SignInPeople()
		equal(t, "SignInPeople at the end", people, []string{"ken"})
		return errors.Join(err1, err2, err3, err4, err5, err6, err7)
	}))
	changes("deleting", true, func(tx signin.Tx) (bool, error) {
		sess := newSession(tx, "hana", "d")
		if err := tx.InsertSession(sess); err != nil {
			return false, err
		}
		return tx.DeleteSession(sess.ID)
	})
}

// passes waits until the store's time is later than it was.
func passes(t *testing.T, s Store) {
	t.Helper()
	for began := s.Now(); s.Now().Sub(began) < 2*time.Millisecond; {
		update(t, s, func(approval.Tx) error { return nil })
	}
}

func raceRedeemers(t *testing.T, s Store) {
	update(t, s, signing(s, func(tx signin.Tx) error { return tx.InsertSignInLink(newLink(tx, "hana", "t", time.Hour)) }))
	won := winners(t, s, func(tx approval.Tx, i int) (ok bool, err error) {
		err = signing(s, func(tx signin.Tx) (err error) {
			if ok, err = tx.EndSignInLink(hash("t"), signin.LinkUsed); err != nil || !ok {
				return err
			}
			return tx.InsertSession(newSession(tx, "hana", strconv.Itoa(i)))
		})(tx)
		return ok, err
	})
	view(t, s, signing(s, func(tx signin.Tx) error {
		all, err := tx.SessionsOf("hana")
		if len(won) != 1 || len(all) != 1 {
			t.Errorf("%d won, %d sessions; want one", len(won), len(all))
		}
		return err
	}))
}

// passkeySessions: with a passkey that is blocked or deleted go the sessions that began with it, and no others.
func passkeySessions(t *testing.T, s Store) {
	for _, blocked := range []bool{true, false} {
		var key passkey.Row
		var began, other signin.SessionRow
		update(t, s, func(tx approval.Tx) error {
			keys, sessions := s.Passkeys(tx), s.SignIns(tx)
			id := tx.NewID()
			owner := passkey.Owner{Person: "p" + id, Handle: strings.Repeat("h", 86-len(id)) + id}
			key = passkey.Row{Passkey: passkey.Passkey{ID: id, Person: owner.Person, Name: "key", AddedAt: tx.Now()},
				Credential: "c" + id, PublicKey: "k", RPID: "localhost"}
			began, other = newSession(tx, key.Person, id), newSession(tx, key.Person, id+"2")
			began.Opener, other.Opener = signin.Passkey(id), "terminal:1"
			return errors.Join(keys.InsertPasskeyOwner(owner), keys.InsertPasskey(key), sessions.InsertSession(began),
				sessions.InsertSession(other))
		})
		update(t, s, func(tx approval.Tx) error {
			if blocked {
				key.BlockedAt = tx.Now()
				return mustChange(s.Passkeys(tx).UpdatePasskey(key))
			}
			return mustChange(s.Passkeys(tx).DeletePasskey(key.Person, key.ID))
		})
		view(t, s, signing(s, func(tx signin.Tx) error {
			left, err := tx.SessionsOf(key.Person)
			equal(t, "the sessions that are left", left, []signin.SessionRow{other})
			return err
		}))
	}
}
