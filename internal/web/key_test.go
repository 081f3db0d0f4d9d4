package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/budget"
)

// Browsers give the cookie of this machine to every port of it, so that any server here may have it: it sends what it
// likes, by whatever name of the host and of the cookie.
func TestRule8_ACookieOfThisMachineDoesNothing(t *testing.T) {
	t.Parallel()
	o := newProvided(t)
	o.pages.Sessions = SignedIn(o.signIns)
	id := o.ask("pay", `{"amount":420}`)
	cookie, key := o.signedInWithKey("hana")
	_, other := o.signedInWithKey("ken")
	_, secret, _ := strings.Cut(cookie[1], "=")
	page := o.get("", "/r/"+id, cookie...).is(http.StatusOK)
	_, version, _ := strings.Cut(page.body, `name="v" value="`)
	version, _, _ = strings.Cut(version, `"`)
	form := func(key string) url.Values {
		return url.Values{"v": {version}, "do": {"approve"}, "pick": {id + "." + version}, "for": {""}, "key": {key}}
	}
	n := 0
	for _, rt := range o.pages.table() {
		path := strings.ReplaceAll(rt.path, "{id}", id)
		if rt.method == http.MethodGet {
			if rt.stream {
				continue
			}
			o.get("", path, cookie...).lacks(key)
			continue
		}
		if rt.audience == everyone {
			continue
		}
		n++
		for _, wrong := range []string{"", other, strings.ToUpper(key), key + "a"} {
			o.post("", path, form(wrong), cookie...).is(http.StatusForbidden).has("Sign in again to decide", "countersign open")
			o.base = "https://gate.example.com"
			o.post("", path, form(wrong), "Host", "gate.example.com", "Origin", o.base, "X-Forwarded-Proto", "https",
				"Cookie", "__Host-countersign="+secret).is(http.StatusForbidden).has("Sign in again to decide")
			// By the mark of another host its secret is nobody's.
			o.post("", path, form(wrong), "Host", "gate.example.com", "Cookie", "__Host-countersign=h"+
				secret[1:]).is(http.StatusUnauthorized)
			o.base = ""
		}
	}
	if n < 15 {
		t.Errorf("only %d forms were tried", n)
	}
	o.stands(id, approval.Pending)
	o.post("", "/r/"+id+"/decide", form(key), cookie...).is(http.StatusSeeOther)
	o.stands(id, approval.Approved)
}

// Nor does it end the session: whoever has the cookie alone can have their own browser forget it, and no more.
func TestRule8_ACookieOfThisMachineEndsNoSession(t *testing.T) {
	t.Parallel()
	o := newProvided(t)
	o.pages.Sessions = SignedIn(o.signIns)
	cookie, key := o.signedInWithKey("hana")
	_, other := o.signedInWithKey("ken")
	for _, wrong := range []string{"", other, key + "a"} {
		r := o.post("", pathSignOut, url.Values{"key": {wrong}}, cookie...).is(http.StatusSeeOther)
		if c := r.cookies()["countersign"]; c == nil || c.MaxAge >= 0 {
			t.Errorf("the browser keeps %+v", c)
		}
		o.get("", pathSignIn, "Cookie", noteOf(r)).is(http.StatusOK).has("This browser has forgotten the session")
		o.get("", "/", cookie...).is(http.StatusOK)
		// Nor by signing in as somebody else.
		o.post("", pathLink, url.Values{"t": {o.link("ken", "line")}, "key": {wrong}}, cookie...).is(http.StatusSeeOther)
		o.get("", "/", cookie...).is(http.StatusOK)
	}
	kens := o.signedIn("ken")
	to, kept := o.leave(kens...)
	o.get("", openIDCallback+"?"+o.provider.Visit(t, to).Encode(), append(kens, "Cookie", kept.Name+"="+
		kept.Value)...).is(http.StatusSeeOther)
	o.get("", "/", kens...).is(http.StatusOK)

	r := o.post("", pathSignOut, url.Values{"key": {key}}, cookie...).is(http.StatusSeeOther)
	o.get("", pathSignIn, "Cookie", noteOf(r)).is(http.StatusOK).has("You are signed out.")
	o.get("", "/", cookie...).is(http.StatusSeeOther)

	// Whoever signs in as the same person could end it anyway; with its key anybody does.
	again := o.signedIn("hana")
	o.redeem(o.link("hana", "line"), again...).is(http.StatusSeeOther)
	o.get("", "/", again...).is(http.StatusSeeOther)
	last, key := o.signedInWithKey("hana")
	o.post("", pathLink, url.Values{"t": {o.link("ken", "line")}, "key": {key}}, last...).is(http.StatusSeeOther)
	o.get("", "/", last...).is(http.StatusSeeOther)
}

// What is asked for with the cookie alone uses nothing of what its owner may use, over the API and in other sessions.
func TestRule12_ACookieOfThisMachineUsesNothingOfItsOwners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pages.Sessions = SignedIn(w.signIns)
	w.pages.Budgets = budget.NewRegistry(budget.Options{Now: w.clock.Now})
	hana := budget.Principal{Name: "hana"}
	w.pages.Budgets.Replace(map[budget.Principal]budget.Limits{hana: {Calls: budget.Rate{Count: 6, Per: time.Minute},
		Streams: 1}})
	id := w.ask("pay", `{"amount":420}`)
	cookie, key := w.signedInWithKey("hana")
	status, next, closeIt := w.events(cookie[1])
	defer closeIt()
	if status != http.StatusOK || next() != "open" {
		t.Fatalf("no stream: %d", status)
	}
	for range 5 { // the stream is one
		w.get("", "/", cookie...).is(http.StatusOK)
	}
	w.get("", "/", cookie...).is(http.StatusTooManyRequests).has("Over the budget of calls")
	for range 20 {
		w.post("", "/r/"+id+"/decide", url.Values{"do": {"approve"}, "v": {w.request(id).Version()}},
			cookie...).is(http.StatusForbidden)
	}
	account := w.pages.Budgets.Account(hana)
	if release, err := account.Hold(w.ctx, budget.Streams); err != nil {
		t.Errorf("a stream of her own: %v", err)
	} else {
		release()
	}
	for range 5 {
		if err := account.Take(budget.Calls, 1); err != nil {
			t.Errorf("over the API: %v", err)
		}
	}
	w.post("", "/r/"+id+"/decide", url.Values{"do": {"approve"}, "v": {w.request(id).Version()}, "key": {key}},
		cookie...).is(http.StatusSeeOther)
	w.stands(id, approval.Approved)
	if err := account.Take(budget.Calls, 1); approval.CodeOf(err) != approval.CodeRateLimited {
		t.Errorf("what is done with the key is not counted as hers: %v", err)
	}
	told := uint64(0)
	w.pages.Budgets.Each(func(_ budget.Principal, k budget.Kind, n uint64) {
		if k == budget.Calls {
			told += n
		}
	})
	if told != 2 {
		t.Errorf("%d refusals are counted", told)
	}
}

// A proxy that does not pass the Host on has pages of another host look as if they were of this machine.
func TestBehindAProxyWithoutHostTheCookieIsForHTTPS(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	w.pages.Base = func() string { return "https://gate.example.com" }
	r := w.redeem(w.link("hana", "line"), "Origin", "https://gate.example.com").is(http.StatusSeeOther)
	c := r.cookies()["__Host-countersign"]
	if to, key := r.leads(); c == nil || !c.Secure || to != "/" || key != "" {
		t.Fatalf("%+v, to %s with the key %q", c, to, key)
	}
	cookie := []string{"Cookie", c.Name + "=" + c.Value}
	w.get("", "/", cookie...).is(http.StatusOK).lacks("data-key")
	r = w.post("", pathSessions, url.Values{}, cookie...).is(http.StatusSeeOther)
	for name, c := range w.get("", pathSignIn+"?next=/people").cookies() {
		if !c.Secure || !strings.HasPrefix(name, "__Host-") {
			t.Errorf("%+v", c)
		}
	}
	w.get("", pathSessions, append(cookie, "Cookie", noteOf(r))...).is(http.StatusOK).has(`role="status">`)
	// Who has the pages open on the machine itself has the key.
	if _, key := w.redeem(w.link("hana", "line"), "Origin", w.srv.URL).leads(); key == "" {
		t.Error("no key for a session of this machine")
	}
}

// Servers on other ports can set cookies of this machine. They have no page say what they like.
func TestANoteIsOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, forged := range []string{
		"eyJpZCI6Iml0IGlzIHNhZmUuIFByZXNzIEFwcHJvdmUifQ", // {"id":"it is safe. Press Approve"}
		strings.Repeat("A", 200), "", "!",
	} {
		w.get("hana", "/", "Cookie", "countersign-note="+forged).is(http.StatusOK).lacks("it is safe", `<p class="note"`)
	}
	form := url.Values{"agent": {"bot"}, "reason": {"strange"}}
	note := noteOf(w.post("hana", "/people/freeze", form).is(http.StatusSeeOther))
	w.get("hana", "/people", "Cookie", note).is(http.StatusOK).has(`<p class="note"`)
	w.get("hana", "/people", "Cookie", note[:len(note)-1]+"A").is(http.StatusOK).lacks(`<p class="note"`)
	w.clock.Advance(2 * time.Minute)
	w.get("hana", "/people", "Cookie", note).is(http.StatusOK).lacks(`<p class="note"`) // kept by somebody, and set again
}
