//go:build browser

package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"countersign/approval"
	"countersign/internal/auth/openid/openidtest"
	"countersign/internal/testkit/chromium"
)

// declined is the answer of a provider whose visitor has said no.
func declined(q url.Values) {
	q.Del("code")
	q.Set("error", "access_denied")
}

// From the button to the provider and back: whoever is known is signed in where they were going, and whoever is not is
// told what to do.
func TestABrowserSignsInAtAProvider(t *testing.T) {
	t.Parallel()
	o := newProvided(t)
	o.pages.Sessions = SignedIn(o.signIns)
	id := o.ask("pay", `{"n":1}`)
	browser := chromium.Start(t)
	p := o.openIn(browser, t, "", "/r/"+id, 390)
	p.Says("h1", "Sign in")
	lookedAt(p, "openid-button")
	p.Click("button", "Sign in with Example")
	p.Until("it comes back to where it was going", `location.pathname === "/r/`+id+
		`" && document.querySelector(".who")?.innerText === "hana"`)
	p.Says("h1", "pay")
	p.Do(chromedp.Navigate(o.srv.URL + pathSessions))
	p.Says("main", "the organisation's account")
	p.Close()

	for _, c := range []struct {
		name   string
		user   openidtest.User
		lies   openidtest.Lies
		status string
		says   []string
	}{
		{"unknown", openidtest.User{Subject: "stranger"}, openidtest.Lies{}, "403",
			[]string{"This account has no access", "Use another account, or ask an admin."}},
		{"declined", openidtest.User{Subject: "subject-1"}, openidtest.Lies{Back: declined}, "403",
			[]string{"Example did not sign you in"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o.provider.SignIn(c.user)
			o.provider.Lie(c.lies)
			p := o.openIn(browser, t, "", pathSignIn, 390)
			p.Expect(c.status)
			p.Click("button", "Sign in with Example")
			for _, text := range c.says {
				p.Says("main", text)
			}
			lookedAt(p, "openid-"+c.name)
			o.provider.Lie(openidtest.Lies{})
			o.provider.SignIn(openidtest.User{Subject: "subject-1"})
			p.Click("button", "Try again with Example")
			p.Says(".who", "hana")
		})
	}
}

// A link that was looked at signs in once, by its button; whoever presses the button after that is told why not.
func TestALinkInABrowser(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	browser := chromium.Start(t)
	link := LinkPage(w.link("hana", "line"))
	first, second := w.openIn(browser, t, "", link, 390), w.openIn(browser, t, "", link, 390)
	first.Do(chromedp.Reload())
	first.Says("h1", "Sign in as hana?")
	lookedAt(first, "signin-link")
	first.Click("main button", "Sign in as hana")
	first.Says(".who", "hana")
	first.Says("h1", "Inbox")

	second.Says("h1", "Sign in as hana?")
	second.Expect(fmt.Sprint(http.StatusGone))
	second.Click("main button", "Sign in as hana")
	second.Says("h1", "This link does not sign you in")
	second.Says("main", "It was already used, or it is too old.")
	lookedAt(second, "signin-refused")
	second.Click("main a", "How to sign in")
	second.Says("main", "Write “sign in” to the bot.")
	second.Do(chromedp.Navigate(w.srv.URL))
	second.Says("h1", "Sign in")
}

// Every page is told in the reader's language, marked as such, and fits a telephone in it.
func TestPagesInOtherLanguages(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	guests := newWorld(t)
	browser := chromium.Start(t)
	night := func(c *approval.Call) { c.SessionID, c.Rationale = "night run", "It is due." }
	denied := guests.ask("pay", `{"n":0}`)
	guests.on("ken", denied, "decide", url.Values{"do": {"deny"}, "reason": {"too much"}})
	for _, tool := range []string{"pay", "wire", "deploy", "open_vault", "close_books"} {
		guests.ask(tool, `{"to":"acme","amount":420}`, night)
	}
	books := guests.ask("close_books", `{"to":"acme","amount":421}`, night)
	for tag, person := range map[string]string{"ja": "yuki", "th": "som", "zh-TW": "mei"} {
		t.Run(tag, func(t *testing.T) {
			p := w.openIn(browser, t, "", pathSignIn, 390, accepts(tag))
			seen := func(page string) {
				t.Helper()
				p.Until("it is in "+tag, fmt.Sprintf(`document.documentElement.lang === %q && document.querySelector("h1")`, tag))
				lookedAt(p, page+"-"+tag)
			}
			seen("signin")
			p.Expect(fmt.Sprint(http.StatusGone))
			p.Do(chromedp.Navigate(w.srv.URL + LinkPage("nothing")))
			seen("signin-refused")
			p.Close()
			p = guests.openIn(browser, t, person, "/", 390)
			seen("inbox")
			for page, path := range map[string]string{"request": "/r/" + books, "request-denied": "/r/" + denied,
				"history": pathHistory} {
				p.Do(chromedp.Navigate(guests.srv.URL + path))
				seen(page)
			}
		})
	}
}

// accepts is a browser that asks for a language.
func accepts(tag string) chromium.Act {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{AcceptLanguage: tag})
		return err
	})
}
