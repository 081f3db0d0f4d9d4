package signin_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/internal/auth/signin"
	"countersign/internal/testkit"
)

func TestALinkSignsInOnce(t *testing.T) {
	w := newWorld(t)
	token, made, err := w.NewLink(t.Context(), "hana", "line", "")
	if err != nil || made.Person != "hana" || made.From != "line" || made.ExpiresAt.Sub(made.MadeAt) != 10*time.Minute {
		t.Fatalf("%+v, %v", made, err)
	}
	for range 5 { // previews, prefetchers, scanners
		l, err := w.Link(t.Context(), token, here)
		if err != nil || l != made {
			t.Fatalf("looking: %+v, %v", l, err)
		}
	}
	secret, sess, err := w.Redeem(t.Context(), token, here)
	if err != nil || sess.Person != "hana" || sess.Method != signin.MethodLink || sess.Origin != "192.0.2.7" {
		t.Fatalf("%+v, %v", sess, err)
	}
	if who := w.signedInAs(secret); who != "hana" {
		t.Errorf("signed in as %q", who)
	}
	_, _, err = w.Redeem(t.Context(), token, here)
	is(t, "a second time", err, signin.ErrRefused)
	_, err = w.Link(t.Context(), token, here)
	is(t, "looking afterwards", err, signin.ErrRefused)
	if got := w.told(approval.EventSignInRefused); len(got) != 2 || !strings.Contains(got[0], " used ") ||
		!strings.Contains(got[0], `"person":"hana"`) {
		t.Errorf("on record: %q", got)
	}
}

func TestALinkOfTheTerminalSaysSo(t *testing.T) {
	w := newWorld(t)
	token, l, err := w.NewLink(t.Context(), "hana", approval.ViaCLI, "")
	if err != nil || l.From != signin.FromTerminal {
		t.Fatalf("%+v, %v", l, err)
	}
	if _, sess, err := w.Redeem(t.Context(), token, here); err != nil || sess.Method != signin.MethodToken {
		t.Errorf("%+v, %v", sess, err)
	}
}

func TestALinkEndsAtItsMillisecond(t *testing.T) {
	w := newWorld(t)
	in, late := w.link("hana"), w.link("hana")
	w.clock.Advance(signin.LinkLasts - time.Millisecond)
	if _, _, err := w.Redeem(t.Context(), in, here); err != nil {
		t.Errorf("in its last millisecond: %v", err)
	}
	w.clock.Advance(time.Millisecond)
	_, _, err := w.Redeem(t.Context(), late, here)
	is(t, "at its end", err, signin.ErrRefused)
}

func TestOfTwentyWhoPostALinkOneWins(t *testing.T) {
	w := newWorld(t)
	token := w.link("hana")
	secrets := make([]string, 20)
	var all sync.WaitGroup
	for i := range secrets {
		all.Go(func() {
			secret, _, err := w.Redeem(t.Context(), token, here)
			if err != nil && !errors.Is(err, signin.ErrRefused) {
				t.Error(err)
			}
			secrets[i] = secret
		})
	}
	testkit.Wait(t, "all who post it", all.Wait)
	won := 0
	for _, s := range secrets {
		if s != "" {
			won++
			if w.signedInAs(s) != "hana" {
				t.Error("who won is not signed in")
			}
		}
	}
	if sessions, err := w.Sessions(t.Context(), "hana"); won != 1 || len(sessions) != 1 || err != nil {
		t.Errorf("%d won, sessions %+v, %v", won, sessions, err)
	}
}

func TestOnlyAPersonsNewestLinksSignIn(t *testing.T) {
	w := newWorld(t)
	var tokens []string
	for range 8 {
		tokens = append(tokens, w.link("hana"))
	}
	_, _, err := w.NewLink(t.Context(), "hana", "line", "")
	is(t, "a ninth within ten minutes", err, signin.ErrTooMany)
	w.link("ken") // is another one
	for i, token := range tokens {
		if _, err := w.Link(t.Context(), token, here); (err == nil) != (i >= 5) {
			t.Errorf("link %d of 8: %v", i, err)
		}
	}
	w.clock.Advance(signin.LinkLasts)
	w.link("hana")
}

func TestLinksAndSessionsAreForPeopleAlone(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"", "nobody", "bot", "agent:bot", "HANA"} {
		_, _, err := w.NewLink(t.Context(), name, "line", "")
		is(t, "a link for "+name, err, signin.ErrRefused)
		_, _, err = w.Start(t.Context(), name, signin.MethodOpenID, "", here)
		is(t, "a session for "+name, err, signin.ErrRefused)
	}
}

func TestASessionIsOverWhenItsTimeHasCome(t *testing.T) {
	w := newWorld(t)
	idle, _ := w.signIn("hana")
	busy, _ := w.signIn("hana")
	w.clock.Advance(signin.IdleLasts - time.Millisecond)
	if w.signedInAs(busy) != "hana" {
		t.Error("in the last millisecond of idleness")
	}
	w.clock.Advance(time.Millisecond)
	if who := w.signedInAs(idle); who != "" {
		t.Errorf("idle for two hours: %s", who)
	}
	for range 19 {
		w.clock.Advance(30 * time.Minute)
		if w.signedInAs(busy) != "hana" {
			t.Fatalf("at %v", w.clock.Now())
		}
	}
	w.clock.Advance(30*time.Minute - time.Millisecond)
	if w.signedInAs(busy) != "hana" {
		t.Error("in the last millisecond")
	}
	w.clock.Advance(time.Millisecond)
	if who := w.signedInAs(busy); who != "" {
		t.Errorf("after twelve hours: %s", who)
	}
}

func TestLookingKeepsNoSessionAlive(t *testing.T) {
	w := newWorld(t)
	secret, _ := w.signIn("hana")
	for range 8 {
		w.clock.Advance(15*time.Minute - time.Millisecond)
		if _, err := w.Look(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	w.clock.Advance(8 * time.Millisecond)
	_, err := w.Look(t.Context(), secret)
	is(t, "a page that only looked for two hours", err, signin.ErrNoSession)
}

func TestWhoeverIsRemovedIsSignedOutAtOnce(t *testing.T) {
	w := newWorld(t)
	secret, _ := w.signIn("hana")
	token := w.link("hana")
	other, _ := w.signIn("ken")
	w.dir.set("ken")
	if who := w.signedInAs(secret); who != "" {
		t.Errorf("still %s", who)
	}
	_, _, err := w.Redeem(t.Context(), token, here)
	is(t, "a link from before", err, signin.ErrRefused)
	if gone, revoked, err := w.Recheck(t.Context()); len(gone) != 1 || len(revoked) != 0 || err != nil {
		t.Errorf("Recheck: %v, %v, %v", gone, revoked, err)
	}
	w.dir.set("hana", "ken") // the name is somebody's again, and perhaps somebody else's
	if who := w.signedInAs(secret); who != "" {
		t.Errorf("%s is signed in by a session of who was removed", who)
	}
	_, err = w.Link(t.Context(), token, here)
	is(t, "and by a link", err, signin.ErrRefused)
	if w.signedInAs(other) != "ken" {
		t.Error("ken was signed out too")
	}
	if got := w.told(approval.EventSessionEnded); len(got) != 1 || !strings.HasPrefix(got[0],
		"system:signin no_such_person") {
		t.Errorf("on record: %q", got)
	}
}

func TestSessionsAreEndedByTheirOwner(t *testing.T) {
	w := newWorld(t)
	one, first := w.signIn("hana")
	two, second := w.signIn("hana")
	three, _ := w.signIn("hana")
	is(t, "ken ends hana's", w.End(t.Context(), "ken", first.ID), signin.ErrNoSession)
	is(t, "one that is not there", w.End(t.Context(), "hana", "no"), signin.ErrNoSession)
	if err := w.End(t.Context(), "hana", first.ID); err != nil {
		t.Fatal(err)
	}
	spare := w.link("hana")
	if n, err := w.EndOthers(t.Context(), "hana", second.ID); n != 1 || err != nil {
		t.Errorf("EndOthers: %d, %v", n, err)
	}
	if w.signedInAs(one) != "" || w.signedInAs(two) != "hana" || w.signedInAs(three) != "" {
		t.Error("the wrong ones ended")
	}
	_, err := w.Link(t.Context(), spare, here)
	is(t, "a link from before", err, signin.ErrRefused)
	for range 2 { // whoever signs out twice is signed out
		if err := w.SignOut(t.Context(), two); err != nil {
			t.Error(err)
		}
	}
	if w.signedInAs(two) != "" {
		t.Error("still signed in")
	}
	if got := w.told(approval.EventSignedOut); len(got) != 1 || !strings.HasPrefix(got[0], "hana ") {
		t.Errorf("on record: %q", got)
	}
}

func TestAPersonHasOnlySoManySessions(t *testing.T) {
	w := newWorld(t)
	var secrets []string
	for range 21 {
		secret, _, err := w.Start(t.Context(), "hana", signin.MethodPasskey, "", here)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, secret)
	}
	if w.signedInAs(secrets[0]) != "" || w.signedInAs(secrets[1]) != "hana" || w.signedInAs(secrets[20]) != "hana" {
		t.Error("not the oldest one ended")
	}
}

// An older store in the place of this one has sessions that were ended since.
func TestNothingIsSignedInAfterABackupWasRestored(t *testing.T) {
	w := newWorld(t)
	secret, _ := w.signIn("hana")
	token := w.link("hana")
	if err := w.EndAfterRestore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.signedInAs(secret) != "" {
		t.Error("still signed in")
	}
	_, err := w.Link(t.Context(), token, here)
	is(t, "a link", err, signin.ErrRefused)
}

func TestForgetLeavesWhatIsOfUse(t *testing.T) {
	w := newWorld(t)
	w.link("hana")
	idle, _ := w.signIn("hana")
	busy, _ := w.signIn("ken")
	if n, err := w.Forget(t.Context()); n != 0 || err != nil {
		t.Errorf("Forget: %d, %v", n, err)
	}
	w.clock.Advance(time.Hour)
	w.signedInAs(busy)
	token := w.link("ken")
	w.clock.Advance(time.Hour - 55*time.Minute)
	if n, err := w.Forget(t.Context()); n != 3 || err != nil { // three links
		t.Errorf("Forget: %d, %v", n, err)
	}
	w.clock.Advance(55 * time.Minute)
	if n, err := w.Forget(t.Context()); n != 2 || err != nil { // the session that was not seen, and the last link
		t.Errorf("Forget: %d, %v", n, err)
	}
	if w.signedInAs(busy) != "ken" || w.signedInAs(idle) != "" || token == "" {
		t.Error("the wrong ones went")
	}
}

func TestAnAccountThatIsNobodysLeavesAHash(t *testing.T) {
	w := newWorld(t)
	is(t, "refused", w.RefuseAccount(t.Context(), "https://accounts.example.com", "0123456789abcdef", here),
		signin.ErrRefused)
	got := w.told(approval.EventSignInRefused)
	if len(got) != 1 || !strings.Contains(got[0], " unknown ") || !strings.Contains(got[0],
		`"account":"0123456789abcdef"`) ||
		!strings.Contains(got[0], `"issuer":"https://accounts.example.com"`) || !strings.Contains(got[0],
		`"method":"openid"`) ||
		!strings.Contains(got[0], here.Address) {
		t.Errorf("on record: %q", got)
	}
	for range 200 {
		is(t, "refused", w.RefuseAccount(t.Context(), "https://accounts.example.com", "0123456789abcdef", here),
			signin.ErrRefused)
	}
	if got := w.told(approval.EventSignInRefused); len(got) > 60 {
		t.Errorf("strangers put %d lines on record in a minute", len(got))
	}
}

// halfwayTx fails between the end of a link and the start of its session.
type halfwayTx struct{ signin.Tx }

var errHalfway = errors.New("halfway")

func (halfwayTx) InsertSession(signin.SessionRow) error { return errHalfway }

func TestALinkIsSpentWithItsSessionOrNotAtAll(t *testing.T) {
	w := newWorld(t)
	token := w.link("hana")
	broken := signin.New(signin.Options{Store: w.db, Rows: func(tx approval.Tx) signin.Tx {
		return halfwayTx{w.db.SignIns(tx)}
	}, Audit: approval.NewAuditLog(redact.New()), Directory: w.dir, Logger: w.log.Logger()})
	_, _, err := broken.Redeem(t.Context(), token, here)
	is(t, "halfway", err, errHalfway)
	if got := w.told(approval.EventSignedIn, approval.EventSignInRefused); len(got) != 0 {
		t.Errorf("on record: %q", got)
	}
	if _, _, err := w.Redeem(t.Context(), token, here); err != nil {
		t.Errorf("the link is lost: %v", err)
	}
}

func TestTheProcessEndsBetween(t *testing.T) {
	w := newWorld(t)
	token := w.link("hana")
	w.db.Close()
	w.open() // another process, with another key: the links of before are still links
	if _, _, err := w.Redeem(t.Context(), token, here); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if _, l, err := w.NewLink(t.Context(), "hana", "line", ""); err != nil || w.Token(l.ID) == token {
		t.Errorf("%+v, %v", l, err)
	}
}

// A crowd at many addresses keeps nobody else from trying, and takes no more memory than one of them.
func TestManyAddressesKeepNobodyElseOut(t *testing.T) {
	w := newWorld(t)
	from := func(i int) signin.Origin {
		return signin.Origin{Address: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String()}
	}
	for i := range 5000 {
		for range 31 {
			_ = w.Attempt(from(i))
		}
	}
	out := 0
	for i := range 200 {
		if w.Attempt(from(1<<20+i)) != nil {
			out++
		}
	}
	if out > 2 { // which happens by chance once in a hundred million times
		t.Errorf("%d of 200 who come later", out)
	}
	is(t, "one of the crowd", w.Attempt(from(1)), signin.ErrTooMany)
	w.clock.Advance(time.Minute)
	is(t, "a minute later", w.Attempt(from(1)), nil)
}

// Whoever has a site of IPv6 has 65,536 networks, and is one all the same.
func TestOneSiteIsLimited(t *testing.T) {
	w := newWorld(t)
	from := func(site, network int) signin.Origin {
		return signin.Origin{Address: fmt.Sprintf("2001:db8:%x:%x::1", site, network)}
	}
	for i := range 120 {
		is(t, "in time", w.Attempt(from(1, i)), nil)
	}
	is(t, "one more network of the site", w.Attempt(from(1, 120)), signin.ErrTooMany)
	is(t, "another site", w.Attempt(from(2, 1)), nil)
}

// Links of one person are tried so often in a minute, from however many addresses. What could not sign them in anyway
// does not count: no old link in anybody's hands keeps them out.
func TestAttemptsOfOnePersonAreLimited(t *testing.T) {
	w := newWorld(t)
	n := 0
	elsewhere := func() signin.Origin {
		n++
		return signin.Origin{Address: netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}).String()}
	}
	old, token := w.link("hana"), w.link("hana")
	if _, _, err := w.Redeem(t.Context(), old, elsewhere()); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		_, err := w.Link(t.Context(), old, elsewhere())
		is(t, "an old link", err, signin.ErrRefused)
	}
	for range 100 {
		_, err := w.Link(t.Context(), token, elsewhere())
		is(t, "opened", err, nil)
	}
	for range 29 {
		_, _, err := w.Start(t.Context(), "hana", signin.MethodPasskey, "", elsewhere())
		is(t, "in time", err, nil)
	}
	_, _, err := w.Start(t.Context(), "hana", signin.MethodPasskey, "", elsewhere())
	is(t, "once more", err, signin.ErrTooMany)
	_, _, err = w.Redeem(t.Context(), token, elsewhere())
	is(t, "by a link", err, signin.ErrTooMany)
	_, _, err = w.Redeem(t.Context(), w.link("ken"), elsewhere())
	is(t, "somebody else", err, nil)
	w.clock.Advance(time.Minute)
	_, _, err = w.Redeem(t.Context(), token, elsewhere())
	is(t, "a minute later", err, nil)
}

func TestOneNetworkIsOneAddress(t *testing.T) {
	w := newWorld(t)
	addresses := []string{"2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::3", "2001:db8::1%eth0"}
	for i := range 30 {
		is(t, "in time", w.Attempt(signin.Origin{Address: addresses[i%len(addresses)]}), nil)
	}
	is(t, "one more", w.Attempt(signin.Origin{Address: "2001:db8::9"}), signin.ErrTooMany)
	is(t, "another network", w.Attempt(signin.Origin{Address: "2001:db8:0:1::9"}), nil)
	for range 30 {
		is(t, "in time", w.Attempt(signin.Origin{Address: "::ffff:192.0.2.1"}), nil)
	}
	is(t, "the same, written otherwise", w.Attempt(signin.Origin{Address: "192.0.2.1"}), signin.ErrTooMany)
}

func TestRefusalsFillNoLog(t *testing.T) {
	w := newWorld(t)
	for i := range 100 {
		_, err := w.Link(t.Context(), strings.Repeat("a", 52),
			signin.Origin{Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}).String()})
		is(t, "a guess", err, signin.ErrRefused)
	}
	if got := w.told(approval.EventSignInRefused); len(got) != 60 {
		t.Errorf("%d on record", len(got))
	}
}

func TestWhatABrowserSaysOfItselfIsKeptSafe(t *testing.T) {
	w := newWorld(t)
	_, sess, err := w.Start(t.Context(), "hana", signin.MethodOpenID, "", signin.Origin{Address: "192.0.2.1",
		UserAgent: "x\x1b[2J\u202e" + strings.Repeat("y", 5000)})
	if err != nil || strings.ContainsAny(sess.UserAgent, "\x1b\u202e") || len(sess.UserAgent) > 300 {
		t.Errorf("%q, %v", sess.UserAgent, err)
	}
}
