package web

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/internal/testkit"
	"countersign/signin"
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

func TestWhoLooksThemselvesKeepsTheSession(t *testing.T) {
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
