//go:build browser

package web

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"countersign/approval"
	"countersign/internal/testkit/chromium"
)

var _ = addLooks("inbox-full", "hana", "/", func(w *world) {
	run := func(c *approval.Call) { c.SessionID = "night run" }
	for _, tool := range []string{"pay", "wire", "deploy", "open_vault", "close_books"} {
		w.ask(tool, `{"to":"acme","amount":420}`, run)
		w.ask(tool, `{"to":"acme"}`, func(c *approval.Call) { c.Agent = "other" })
	}
	if _, err := w.gate.CheckBatch(w.ctx, []approval.Call{w.call("pay", `{"n":1}`), w.call("pay", `{"n":2}`)}); err != nil {
		w.t.Fatal(err)
	}
})

// asked is a look at the page of a request.
func asked(name, person, tool string, change ...func(*approval.Call)) bool {
	return addLooks("request-"+name, person, "/r/%s", func(w *world) { w.ask(tool, `{"to":"acme","amount":420}`, change...) })
}

var (
	_ = asked("pending", "hana", "pay")
	_ = asked("two", "hana", "wire")
	_ = asked("critical", "hana", "deploy")
	_ = asked("confirm", "hana", "close_books")
	_ = asked("step-up", "hana", "open_vault")
	_ = asked("not-yours", "guest", "pay")
	_ = asked("ja", "yuki", "pay")
	_ = asked("hostile", "hana", "pay", func(c *approval.Call) {
		c.SessionID, c.Rationale, c.Preview = hostile, hostile, "--- a\n+++ b\n@@ -1 +1 @@\n-old "+hostile+"\n+new\n"
	})
	_ = addLooks("request-described", "hana", "/r/%s", func(w *world) {
		w.pages.Describer = said{{"bank", "pay"}: {strings.Repeat("Sends money to an account. ", 40), digestOf(2)}}
		for n := 1; n <= 2; n++ {
			w.ask("pay", fmt.Sprintf(`{"n":%d}`, n), ofServer(n))
		}
	})
	_ = addLooks("request-denied", "hana", "/r/%s", func(w *world) {
		w.on("ken", w.ask("pay", `{}`), "decide", url.Values{"do": {"deny"}, "reason": {"too much"}})
	})
	_ = addLooks("request-expired", "hana", "/r/%s", func(w *world) {
		w.clock.Advance(w.request(w.ask("pay", `{}`)).ExpiresAt.Sub(w.clock.Now()))
	})
)

// What arrives is there without a reload, and what was typed and where one was is kept.
func TestTheInboxIsLive(t *testing.T) {
	w := newWorld(t)
	first := w.ask("pay", `{"n":1}`)
	p := w.openIn(chromium.Start(t), t, "hana", "/", 1280)
	p.Do(chromedp.Focus("#reason"), chromedp.SendKeys("#reason", "my own words"))
	chromium.Ask[bool](p, `window.same = true`)
	second := w.ask("wire", `{"n":2}`)
	p.Until("the new request is there", `!!document.getElementById("r-`+second+`") && !!document.getElementById("r-`+first+`")`)
	p.Until("nothing was lost", `window.same && document.activeElement.id === "reason" && document.activeElement.value === "my own words"`)
	w.post("ken", "/r/"+first+"/decide", url.Values{"do": {"deny"}, "v": {w.version(first)}}).is(303)
	p.Until("what is decided is gone", `!document.getElementById("r-`+first+`")`)

	// The list does not move under a finger that is about to press.
	at := chromium.Ask[struct{ X, Y float64 }](p, `(() => { const r = document.querySelector("#r-`+second+` .deny").getBoundingClientRect();
		return {X: r.x + r.width / 2, Y: r.y + r.height / 2}; })()`)
	const fetched = `performance.getEntriesByType("resource").filter((e) => e.initiatorType === "fetch").length`
	before := chromium.Ask[int](p, fetched)
	p.Do(mouse(input.DispatchMouseEventTypeMousePressed, at.X, at.Y))
	w.ask("pay", `{"n":3}`)
	p.Until("it was fetched", fmt.Sprintf("%s > %d", fetched, before))
	p.Do(mouse(input.DispatchMouseEventTypeMouseReleased, at.X, at.Y))
	p.Says(".note", "Done: wire · Denied")
	w.stands(second, approval.Denied)
}

func TestTheInboxIsDeniedByKeys(t *testing.T) {
	w := newWorld(t)
	older, newer := w.ask("pay", `{"n":1}`), w.ask("pay", `{"n":2}`)
	p := w.openIn(chromium.Start(t), t, "hana", "/", 1280)
	current := func(id string) string { return `document.querySelector(".request.current")?.id === "r-` + id + `"` }
	p.Keys("j")
	p.Until("the first is current", current(newer))
	p.Keys("j")
	p.Until("the second is current", current(older))
	p.Keys("k")
	p.Until("the first is current again", current(newer))
	p.Keys("x")
	p.Until("it is chosen", `document.querySelectorAll("input[name=pick]:checked").length === 1`)
	p.Keys("?")
	p.Until("the keys are told", `document.getElementById("keys").open`)
	p.Axe("the keys")
	p.Click("#keys button", "Close")
	p.Keys("j", "d")
	p.Do(chromedp.WaitVisible(".note:not([hidden])")) // across the form's answer
	w.stands(older, approval.Denied)
	w.stands(newer, approval.Pending)
}

// What somebody types is kept when somebody else decides, and the page says that it has changed.
func TestARequestDecidedMeanwhileIsSaid(t *testing.T) {
	w := newWorld(t)
	id := w.ask("pay", `{"n":1}`)
	p := w.openIn(chromium.Start(t), t, "hana", "/r/"+id, 1280)
	p.Do(chromedp.Focus("#reason"), chromedp.SendKeys("#reason", "my own words"))
	w.post("ken", "/r/"+id+"/decide", url.Values{"do": {"deny"}, "v": {w.version(id)}}).is(303)
	p.Until("it says so", `!document.getElementById("changed").hidden && document.getElementById("standing").innerText.includes("Denied")`)
	p.Until("nothing was lost", `document.getElementById("reason").value === "my own words"`)
}
