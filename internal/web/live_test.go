package web

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
	"countersign/internal/testkit"
)

// events opens the stream of a page: next is its next event, "" at its end.
func (w *world) events(cookie string) (status int, next func() string, closeIt func()) {
	w.t.Helper()
	return w.eventsAt(cookie, pathLive)
}

// eventsAt opens the stream that a page names.
func (w *world) eventsAt(cookie, at string) (status int, next func() string, closeIt func()) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, testkit.Patience)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.srv.URL+at, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Cookie", cookie)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	lines := bufio.NewScanner(res.Body)
	return res.StatusCode, func() string {
			for lines.Scan() {
				if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
					return event
				}
			}
			return ""
		}, func() {
			cancel()
			res.Body.Close()
		}
}

func TestAPageIsToldThatSomethingChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	status, next, closeIt := w.events("person=hana")
	defer closeIt()
	if got := next(); status != 200 || got != "open" {
		t.Fatalf("%d, %q", status, got)
	}
	w.ask("pay", `{}`)
	if got := next(); got != "changed" {
		t.Errorf("%q", got)
	}
}

func TestAPageOfSomebodyRemovedEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, next, closeIt := w.events("person=mei")
	defer closeIt()
	next()
	w.dir.Replace(agentsOfTests, peopleOfTests[:2])
	w.ask("pay", `{}`)
	if got := next(); got != "ended" {
		t.Errorf("%q", got)
	}
	if got := next(); got != "" {
		t.Errorf("and then %q", got)
	}
}

// The stream and what the script fetches keep nobody signed in, and the stream ends with the session.
func TestAPageLeftOpenKeepsNoSessionAlive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *Options) { o.Sessions = SignedIn(o.SignIn) })
	secret, _, err := w.signIns.Start(w.ctx, "hana", signin.MethodLink, "", signin.Origin{Address: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	_, next, closeIt := w.events("countersign=" + secret)
	defer closeIt()
	next()
	cookie := []string{"Cookie", "countersign=" + secret}
	w.clock.Advance(signin.IdleLasts - time.Minute)
	w.get("", "/", append(cookie, byScript, "1")...).is(200)
	w.ask("pay", `{}`)
	if got := next(); got != "changed" {
		t.Fatalf("%q", got)
	}
	w.clock.Advance(time.Minute)
	w.ask("pay", `{"n":2}`)
	if got := next(); got != "ended" {
		t.Errorf("%q", got)
	}
	w.get("", "/", cookie...).is(http.StatusSeeOther)
}

// revocable is a world in which hana is signed in with a passkey, whose streams say nothing by themselves.
type revocable struct {
	*keyed
	Sessions
	gone                     atomic.Bool // what she signed in with was taken back by the configuration
	passkey, session, secret string
}

func (w *revocable) Still(r *http.Request) (Session, bool, error) {
	s, ok, err := w.Sessions.Still(r)
	return s, ok && !w.gone.Load(), err
}

func newRevocable(t *testing.T) *revocable {
	t.Helper()
	w := new(revocable)
	w.keyed = newKeyed(t, func(o *Options) { w.Sessions = SignedIn(o.SignIn); o.Sessions = w })
	w.pages.live.check, w.pages.live.every = time.Hour, time.Hour
	her := passkey.Browser{Session: "one", Person: "hana", Since: w.clock.Now()}
	options, err := w.pages.Passkeys.BeginAdding(w.ctx, her, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := w.pages.Passkeys.FinishAdding(w.ctx, her, "phone", w.key.Create(w.at, options))
	if err != nil {
		t.Fatal(err)
	}
	secret, s, err := w.signIns.Start(w.ctx, "hana", signin.MethodPasskey, signin.Passkey(k.ID),
		signin.Origin{Address: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	w.passkey, w.session, w.secret = k.ID, s.ID, secret
	return w
}

// A stream ends when its session does, by an event and not by looking now and then: on every page, also just after it
// was told something, whoever ends it, and however.
func TestRule8_APageEndsWithItsSessionAtOnce(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(w *revocable) error{
		"she signs out":         func(w *revocable) error { return w.signIns.SignOut(w.ctx, w.secret) },
		"she ends it elsewhere": func(w *revocable) error { return w.signIns.End(w.ctx, "hana", w.session) },
		"she removes its passkey": func(w *revocable) error {
			_, err := w.pages.Passkeys.Remove(w.ctx, passkey.Browser{Person: "hana"}, w.passkey)
			return err
		},
		"she is taken out": func(w *revocable) error {
			w.dir.Replace(agentsOfTests, peopleOfTests[1:])
			return nil
		},
		"what began it is taken back": func(w *revocable) error {
			w.gone.Store(true)
			w.dir.Replace(agentsOfTests, peopleOfTests)
			return nil
		},
	} {
		for _, at := range []string{pathLive, pathLive + "?of=/history&since=0"} {
			for _, told := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, %v", what, at, told), func(t *testing.T) {
					w := newRevocable(t)
					_, next, closeIt := w.eventsAt("countersign="+w.secret, at)
					defer closeIt()
					next()
					if told {
						w.ask("pay", `{}`)
						if got := next(); got != "changed" {
							t.Fatalf("told %q", got)
						}
					}
					if err := end(w); err != nil {
						t.Fatal(err)
					}
					if got := next(); got != "ended" {
						t.Errorf("told %q", got)
					}
					if got := next(); got != "" {
						t.Errorf("and then %q", got)
					}
				})
			}
		}
	}
}

// What ends another's session ends no page, and tells it nothing.
func TestAPageOutlivesOthersSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *Options) { o.Sessions = SignedIn(o.SignIn) })
	w.pages.live.check = time.Hour
	start := func(person string) string {
		t.Helper()
		secret, _, err := w.signIns.Start(w.ctx, person, signin.MethodLink, "", signin.Origin{Address: "127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	ken := start("ken")
	_, next, closeIt := w.eventsAt("countersign="+start("hana"), pathLive+"?of=/history&since="+
		strconv.FormatInt(w.gate.Broker().Newest(), 10))
	defer closeIt()
	next()
	if err := w.signIns.SignOut(w.ctx, ken); err != nil {
		t.Fatal(err)
	}
	w.dir.Replace(agentsOfTests, peopleOfTests)
	w.ask("pay", `{}`)
	if got := next(); got != "changed" {
		t.Errorf("told %q", got)
	}
}

func TestWhoLooksThemselvesKeepsTheSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *Options) { o.Sessions = SignedIn(o.SignIn) })
	secret, _, err := w.signIns.Start(w.ctx, "hana", signin.MethodLink, "", signin.Origin{Address: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.clock.Advance(signin.IdleLasts - time.Minute)
		w.get("", "/", "Cookie", "countersign="+secret).is(200)
	}
}

func TestAStreamEndsWithTheServer(t *testing.T) {
	t.Parallel()
	stopping, stop := context.WithCancel(t.Context())
	w := newWorld(t, func(o *Options) { o.Stopping = stopping })
	_, next, closeIt := w.events("person=hana")
	defer closeIt()
	next()
	stop()
	if got := next(); got != "" {
		t.Errorf("%q", got)
	}
}

func TestASessionKeepsFewPagesCurrent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range livePerSession {
		status, next, closeIt := w.events("person=hana")
		defer closeIt()
		if next(); status != 200 {
			t.Fatal(status)
		}
	}
	status, _, closeIt := w.events("person=hana")
	closeIt()
	if status != http.StatusTooManyRequests {
		t.Error(status)
	}
	status, _, closeIt = w.events("person=ken")
	closeIt()
	if status != 200 {
		t.Error(status)
	}
}

// Whoever signs in many times has no more of them for it, and gets back what is closed.
func TestAPersonKeepsFewPagesCurrent(t *testing.T) {
	t.Parallel()
	var c liveCount
	joined := 0
	for i := range 2 * livePerPerson {
		if c.join(strconv.Itoa(i), "hana") {
			joined++
		}
	}
	if joined != livePerPerson || !c.join("x", "ken") {
		t.Errorf("%d of hana's", joined)
	}
	c.leave("0", "hana")
	if !c.join("0", "hana") {
		t.Error("a place that was left is not given again")
	}
	for i := range livePerPerson {
		c.leave(strconv.Itoa(i), "hana")
	}
	if c.leave("x", "ken"); len(c.of) != 0 {
		t.Errorf("kept: %v", c.of)
	}
}
