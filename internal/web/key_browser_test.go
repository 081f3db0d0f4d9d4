//go:build browser

package web

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"countersign/approval"
	"countersign/internal/testkit"
	"countersign/internal/testkit/chromium"
)

// A browser that signed in decides. A server on another port, to which it is led, gets its cookie and nothing else: it
// decides nothing, and neither does a page of it.
func TestRule8_AServerOnAnotherPortHasTheCookieAndDecidesNothing(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	first, second := w.ask("pay", `{"amount":1}`), w.ask("pay", `{"amount":2}`)
	got := make(chan string, 8)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(res http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			got <- r.Header.Get("Cookie")
		}
		res.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(res, `<!DOCTYPE html><link rel="icon" href="data:,"><main><h1>elsewhere</h1></main>`)
	}))
	t.Cleanup(elsewhere.Close)

	p := w.openIn(chromium.Start(t), t, "", LinkPage(w.link("hana", "line")), 390)
	p.Click("main button", "Sign in as hana")
	p.Says(".who", "hana")
	p.Until("the key is kept and not shown",
		`location.hash === "" && localStorage.getItem("countersign-key") && document.getElementById("keyless").hidden`)
	p.Do(chromedp.Navigate(w.srv.URL + "/r/" + first))
	version := chromium.Ask[string](p, `document.querySelector("#decide input[name=v]").value`)

	p.Do(chromedp.Navigate(elsewhere.URL))
	p.Says("h1", "elsewhere")
	cookie := testkit.Receive(t, "what the other server was sent", got)
	if !strings.Contains(cookie, "countersign=") {
		t.Fatalf("the browser gave the other port no cookie: %q", cookie)
	}
	if chromium.Ask[int](p, `localStorage.length`) != 0 {
		t.Error("the other port's page reads what ours keeps")
	}
	form := url.Values{"v": {version}, "do": {"approve"}, "for": {""}}
	w.post("", "/r/"+first+"/decide", form, "Cookie", cookie).is(http.StatusForbidden)
	w.stands(first, approval.Pending)

	p.Do(chromedp.Navigate(w.srv.URL + "/r/" + first))
	p.Click("#approve", "Approve")
	p.Says(".note[role=status]:not([hidden])", "pay")
	w.stands(first, approval.Approved)

	// Without the key, as after a restart of the gate, the page says what to do before anything is pressed.
	p.Do(chromedp.Navigate(w.srv.URL + "/r/" + second + "#key=of.somebody"))
	p.Until("a key that is none is not taken", `location.hash === ""`)
	chromium.Ask[bool](p, `localStorage.clear() === undefined`)
	p.Do(chromedp.Reload())
	p.Says("#keyless:not([hidden])", "countersign open")
	lookedAt(p, "keyless")
	p.Expect(fmt.Sprint(http.StatusForbidden))
	p.Click("#approve", "Approve")
	p.Says("h1", "Sign in again to decide")
	lookedAt(p, "key-required")
	w.stands(second, approval.Pending)
	p.Do(chromedp.Navigate(w.srv.URL + LinkPage(w.link("hana", "line"))))
	p.Click("main button", "Sign in as hana")
	p.Says("h1", "Inbox")
	p.Do(chromedp.Navigate(w.srv.URL + "/r/" + second))
	p.Click("#approve", "Approve")
	p.Says(".note[role=status]:not([hidden])", "pay")
	w.stands(second, approval.Approved)
}

// Any page can lead the browser here with a key that is none. It takes no key's place; the session's own takes its.
func TestRule8_AKeyThatIsNoneTakesNoKeysPlace(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	id := w.ask("pay", `{"amount":1}`)
	p := w.openIn(chromium.Start(t), t, "", LinkPage(w.link("hana", "line")), 390)
	p.Click("main button", "Sign in as hana")
	p.Says(".who", "hana")
	p.Until("the key is kept", `location.hash === "" && !!localStorage.getItem("countersign-key")`)
	kept := chromium.Ask[string](p, `localStorage.getItem("countersign-key")`)
	name, _, _ := strings.Cut(kept, ".")
	p.Expect(fmt.Sprint(http.StatusForbidden)) // what the gate says of the key that is none
	p.Do(chromedp.Navigate(w.srv.URL + "/r/" + id + "#key=" + name + ".junk"))
	p.Until("it is not shown", `location.hash === ""`)
	p.Click("#approve", "Approve")
	p.Says(".note[role=status]:not([hidden])", "pay")
	w.stands(id, approval.Approved)
	if now := chromium.Ask[string](p, `localStorage.getItem("countersign-key")`); now != kept {
		t.Errorf("in place of %s it keeps %s", kept, now)
	}

	// Where none that works is kept, the session's own is taken whenever it comes.
	chromium.Ask[bool](p, `localStorage.setItem("countersign-key", "`+name+`.junk") === undefined`)
	p.Do(chromedp.Navigate(w.srv.URL + "/people#key=" + kept))
	p.Until("the key is kept again", `localStorage.getItem("countersign-key") === "`+kept+`"`)
}

// Whoever has the session's key has nothing to sign in for. Whoever has not, as after a restart of the gate, finds all
// ways to sign in, with passkeys among them.
func TestWithoutTheKeyOneCanSignInAgain(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	p := w.openIn(chromium.Start(t), t, "", LinkPage(w.link("hana", "line")), 390)
	p.Click("main button", "Sign in as hana")
	p.Says("h1", "Inbox")
	p.Do(chromedp.Navigate(w.srv.URL + pathSignIn + "?next=/people"))
	p.Until("on to where it was going", `location.pathname === "/people"`)
	chromium.Ask[bool](p, `localStorage.clear() === undefined`)
	p.Do(chromedp.Reload())
	p.Click("#keyless a", "How to sign in")
	p.Until("the ways to sign in", `location.pathname === "/signin"`)
	p.Says("pre", "countersign open")
	lookedAt(p, "signin-keyless")
	name := chromium.Ask[string](p, `document.body.dataset.key`)
	chromium.Ask[bool](p, `localStorage.setItem("countersign-key", "`+name+`.junk") === undefined`)
	p.Expect(fmt.Sprint(http.StatusForbidden))
	p.Do(chromedp.Reload())
	p.Says("pre", "countersign open")

	// What is pressed without it ends no session; the browser forgets its own.
	chromium.Ask[bool](p, `localStorage.clear() === undefined`)
	p.Do(chromedp.Navigate(w.srv.URL + pathSessions))
	p.Click("main form[action='/signout'] button", "Sign out")
	p.Says(".note", "has forgotten the session")
	if all, err := w.signIns.Sessions(w.ctx, "hana"); err != nil || len(all) != 1 {
		t.Errorf("sessions: %v, %v", all, err)
	}
	p.Do(chromedp.Navigate(w.srv.URL + LinkPage(w.link("hana", "line"))))
	p.Click("main button", "Sign in as hana")
	p.Says("h1", "People") // where it was going, a while ago
	p.Do(chromedp.Navigate(w.srv.URL + pathSessions))
	p.Click("main form[action='/signout'] button", "Sign out")
	p.Says(".note", "You are signed out.")
}

// Without JavaScript there is no key, and the page says so.
func TestWithoutScriptsPagesOfThisMachineAreForLooking(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	id := w.ask("pay", `{"amount":1}`)
	p := w.openIn(chromium.Start(t), t, "", LinkPage(w.link("hana", "line")), 390, scripts(withoutScripts))
	p.Click("main button", "Sign in as hana")
	p.Says("noscript", "Without JavaScript")
	p.Do(chromedp.Navigate(w.srv.URL + "/r/" + id))
	p.Expect(fmt.Sprint(http.StatusForbidden))
	p.Click("#approve", "Approve")
	p.Says("h1", "Sign in again to decide")
	w.stands(id, approval.Pending)
}
