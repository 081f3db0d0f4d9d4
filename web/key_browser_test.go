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
	"countersign/internal/testkit/chromium"
)

// A browser that signed in decides. A server on another port, to which it is led, gets its cookie and nothing else: it
// decides nothing, and neither does a page of it.
func TestRule8_AServerOnAnotherPortHasTheCookieAndDecidesNothing(t *testing.T) {
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
	p.Until("the key is kept and not shown", `location.hash === "" && localStorage.getItem("countersign-key") && document.getElementById("keyless").hidden`)
	p.Do(chromedp.Navigate(w.srv.URL + "/r/" + first))
	version := chromium.Ask[string](p, `document.querySelector("#decide input[name=v]").value`)

	p.Do(chromedp.Navigate(elsewhere.URL))
	p.Says("h1", "elsewhere")
	cookie := <-got
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

// Without JavaScript there is no key, and the page says so.
func TestWithoutScriptsPagesOfThisMachineAreForLooking(t *testing.T) {
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
