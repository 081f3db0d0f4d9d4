//go:build browser

package web

import (
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"

	"countersign/internal/testkit/chromium"
)

const saysNews = `document.getElementById("newer").innerText.includes("There is something new.")`

// What is decided is said on the history, and shown where one is when somebody asks for it.
func TestTheHistorySaysThatThereIsNews(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	for range 8 {
		w.approves("pay", `{"to":"ACME"}`)
	}
	id := w.ask("wire", `{"n":1}`)
	p := w.openIn(chromium.Start(t), t, "hana", "/history?agent=bot", 390)
	p.Do(chromedp.SendKeys("#f-tool", "my own words"))
	chromium.Ask[int](p, `window.same = true, scrollTo(0, document.body.scrollHeight), window.was = scrollY`)
	w.post("ken", "/r/"+id+"/decide", url.Values{"do": {"deny"}, "v": {w.version(id)}}).is(303)
	p.Until("it says so", saysNews)
	p.Until("nothing has moved", `document.getElementById("row-`+id+
		`").innerText.toLowerCase().includes("waiting") && scrollY === was`)
	p.Axe("news")
	p.Fits("news", "")
	p.Do(chromedp.Focus("#newer a"))
	p.Keys("\r")
	p.Until("it is shown", `!document.querySelector("#newer a") && document.getElementById("row-`+id+
		`").innerText.toLowerCase().includes("denied")`)
	p.Until("nothing was lost",
		`window.same && document.getElementById("f-tool").value === "my own words" && location.search === "?agent=bot" && scrollY > 0`)
	p.HasFocus("main")
	w.ask("wire", `{"n":2}`)
	p.Until("it says what comes after, too", saysNews)
}

// What is typed on a page stays while it is told of news, and when that is shown.
func TestNewsLosesNothingThatIsTyped(t *testing.T) {
	t.Parallel()
	browser := chromium.Start(t)
	for _, tt := range []struct{ path, field, open string }{
		{"/policy", "args", ""},
		{"/policy", "policy", ""},
		{"/people", "reason-0", "details:has(#reason-0)"},
		{"/people", "rule", "details:has(#rule)"},
	} {
		t.Run(tt.path+" "+tt.field, func(t *testing.T) {
			w := adminWorld(t)
			w.pages.record.history = w.store
			p := w.openIn(browser, t, "hana", tt.path, 1280)
			if tt.open != "" {
				chromium.Ask[bool](p, `document.querySelector("`+tt.open+`").open = true`)
			}
			chromium.Ask[bool](p, `document.getElementById("`+tt.field+`").value = "", window.same = true`)
			p.Do(chromedp.SendKeys("#"+tt.field, "my own words"))
			w.records("policy_reloaded")
			p.Until("it says so", saysNews)
			chromium.Ask[bool](p,
				`window.asked = false, (() => { const f = fetch; window.fetch = async (...a) => { const r = await f(...a); setTimeout(() => { asked = true; }, 100); return r; }; return true; })()`)
			p.Click("#newer a", "Show it")
			p.Until("it was fetched", `asked`)
			p.Until("nothing was lost", `window.same && document.getElementById("`+tt.field+`").value === "my own words"`)
		})
	}
}

// Whoever signs out hears no more, and sees no more.
func TestAPageWithNewsEndsWithTheSession(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	p := w.openIn(chromium.Start(t), t, "ken", "/history", 390)
	w.dir.Replace(agentsOfTests, peopleOfTests[:1])
	w.ask("pay", `{}`)
	p.Until("one has to sign in", `location.pathname === "/signin"`)
}
