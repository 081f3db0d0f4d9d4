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
	if _, err := w.gate.CheckBatch(w.ctx, []approval.Call{w.call("pay", `{"n":1}`),
		w.call("pay", `{"n":2}`)}); err != nil {
		w.t.Fatal(err)
	}
})

// bankOfTests says at length what one of its tools does.
var bankOfTests = said{{"bank", "pay"}: {strings.Repeat("Sends money to an account. ", 40), digestOf(2)}}

// asked is a look at the page of a request.
func asked(name, person, tool string, change ...func(*approval.Call)) bool {
	return addLooks("request-"+name, person, "/r/%s", func(w *world) {
		w.ask(tool, `{"to":"acme","amount":420}`, change...)
	})
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
	t.Parallel()
	w := newWorld(t)
	first := w.ask("pay", `{"n":1}`)
	p := w.openIn(chromium.Start(t), t, "hana", "/", 1280)
	p.Click("#r-"+first+" .pick", "")
	p.Do(chromedp.Focus("#reason"), chromedp.SendKeys("#reason", "my own words"))
	chromium.Ask[bool](p, `window.same = true`)
	second := w.ask("wire", `{"n":2}`)
	p.Until("the new request is there", `!!document.getElementById("r-`+second+`") && !!document.getElementById("r-`+first+
		`")`)
	p.Until("nothing was lost",
		`window.same && document.activeElement.id === "reason" && document.activeElement.value === "my own words"`)
	w.post("ken", "/r/"+first+"/decide", url.Values{"do": {"deny"}, "v": {w.version(first)}}).is(303)
	p.Until("what is decided is gone", `!document.getElementById("r-`+first+`")`)

	p.Until("it can be pressed", `(() => { const e = document.querySelector("#r-`+second+
		` .deny"), r = e.getBoundingClientRect();
		return e.contains(document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2)); })()`)
	// The list does not move under a finger that is about to press.
	at := chromium.Ask[struct{ X, Y float64 }](p, `(() => { const r = document.querySelector("#r-`+second+
		` .deny").getBoundingClientRect();
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
	t.Parallel()
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
	p.Keys("j", "j")
	rest(p)
	p.Keys("d")
	p.Do(chromedp.WaitVisible(".note:not([hidden])")) // across the form's answer
	w.stands(older, approval.Denied)
	w.stands(newer, approval.Pending)
}

// rest has the page's clock stand still, a second later: what was pressed or moved has rested, and what is pressed from
// now on has not.
func rest(p *chromium.Tab) {
	chromium.Ask[float64](p,
		`new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown))).then(() => {
		const at = performance.now() + 1000; performance.now = () => at; return at; })`)
}

const (
	toldText = `document.getElementById("told").innerText`
	approves = `document.querySelector("#r-%s .approve")`
)

// A key decides what is wholly in sight, and only once it has rested under hand.
func TestRule3_KeysDecideWhatIsWhollyInSightAndHasRested(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	last := w.ask("pay", `{"n":1}`)
	long := w.ask("pay", `{"text":"`+strings.Repeat("many words ", 25)+`"}`)
	var ids []string
	for n := range 8 {
		ids = append(ids, w.ask("pay", fmt.Sprintf(`{"n":%d}`, n+2)))
	}
	newest := ids[7]
	p := w.openIn(chromium.Start(t), t, "hana", "/", 1280)
	says := func(text string) {
		t.Helper()
		p.Until(text, toldText+`.includes("`+text+`")`)
		for _, id := range append(ids, last, long) {
			w.stands(id, approval.Pending)
		}
	}
	rest(p)
	for _, key := range []string{"a", "d"} {
		p.Keys("j", key)
		says("something moved or was pressed just before")
		p.Keys("k", "k")
		rest(p)
		chromium.Ask[bool](p, `(scrollTo(0, document.body.scrollHeight), true)`)
		p.Until("it is out of sight", `document.getElementById("r-`+newest+`").getBoundingClientRect().bottom < 0`)
		rest(p)
		p.Keys(key)
		says("not all of it was in view")
		p.Until("it is in sight",
			`(({top, bottom}) => top >= document.getElementById("told").getBoundingClientRect().bottom && bottom <= innerHeight)(
			document.getElementById("r-`+newest+`").getBoundingClientRect())`)
	}
	p.Do(chromedp.EmulateViewport(600, 240))
	for range 8 {
		p.Keys("j")
	}
	p.Until("the long one is current", `document.querySelector(".request.current")?.id === "r-`+long+`"`)
	rest(p)
	for _, key := range []string{"a", "d", "x"} {
		p.Keys(key)
		says("it is longer than the window")
	}

	// The bar comes with a selection, and what is current is never beneath it.
	p.Do(chromedp.EmulateViewport(1280, 720))
	p.Until("there is no bar", `!document.getElementById("together").checkVisibility()`)
	p.Keys("k", "x")
	p.Until("there is a bar", `document.getElementById("together").checkVisibility()`)
	for range 3 {
		p.Keys("j")
		p.Until("all of it is to be seen",
			`document.querySelector(".request.current").getBoundingClientRect().bottom <= document.getElementById("together").getBoundingClientRect().top`)
	}
	p.Until("the last is current", `document.querySelector(".request.current")?.id === "r-`+last+`"`)
	rest(p)
	p.Keys("a")
	p.Says(".note", "Done: pay · Approved")
	w.stands(last, approval.Approved)
}

// The bar that comes with a selection lies over no part of the card that was selected.
func TestRule3_TheBarCoversNothingOfWhatWasJustSelected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range 8 {
		w.ask("pay", fmt.Sprintf(`{"to":"acme","amount":%d}`, n))
	}
	p := w.openIn(chromium.Start(t), t, "hana", "/", 390)
	for _, nth := range []int{3, 7} { // in the middle, and the last
		card := fmt.Sprintf(`document.querySelectorAll(".request")[%d]`, nth)
		chromium.Ask[bool](p, `(document.querySelectorAll("input[name=pick]:checked").forEach((e) => e.click()), `+card+
			`.scrollIntoView({block: "end"}), true)`)
		p.Until("there is no bar, and the card is at the bottom",
			`!document.getElementById("together").checkVisibility() && `+card+
				`.getBoundingClientRect().bottom > innerHeight - 100`)
		chromium.Ask[bool](p, `(`+card+`.querySelector("input[name=pick]").click(), true)`)
		p.Until("the bar is below it", `document.getElementById("together").checkVisibility() && `+card+
			`.getBoundingClientRect().bottom <= document.getElementById("together").getBoundingClientRect().top`)
	}
}

// Single keys can be switched off, and stay so.
func TestSingleKeysAreSwitchedOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ask("pay", `{"n":1}`)
	p := w.openIn(chromium.Start(t), t, "hana", "/", 1280)
	const none, some = `!document.querySelector(".request.current")`, `!!document.querySelector(".request.current")`
	set := func() {
		t.Helper()
		p.Click("#keys-open", "")
		p.Click("#keys label", "Single keys act")
		p.Click("#keys button", "Close")
	}
	set()
	p.Do(chromedp.Reload())
	p.Until("the page is there", `document.readyState === "complete" && !document.getElementById("keys-open").hidden`)
	p.Do(press("j", "KeyJ"))
	p.Until("nothing became current", none)
	set()
	p.Do(press("j", "KeyJ"))
	p.Until("it is current", some)
}

// What comes joins at the end, under a heading; what was there stays where it is, and can be pressed at once.
func TestRule3_WhatComesJoinsAtItsPlaceAndMovesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.ask("pay", `{"n":1}`, func(c *approval.Call) { c.SessionID = "night run" })
	p := w.openIn(chromium.Start(t), t, "hana", "/", 1280)
	button := fmt.Sprintf(approves, first)
	p.Until("it can be pressed", pressable(button))
	was := chromium.Ask[float64](p, button+`.getBoundingClientRect().top`)
	for n := range 3 {
		second := w.ask("wire", fmt.Sprintf(`{"n":%d}`, n))
		p.Until("it has come", fmt.Sprintf(`document.querySelector("#arrived .group:last-child #r-%s")`, second))
		if !chromium.Ask[bool](p, pressable(button)) || chromium.Ask[float64](p, button+
			`.getBoundingClientRect().top`) != was {
			t.Error("what was there has moved, or cannot be pressed")
		}
	}
	p.Says("#arrived h2", "New since this page was opened")
	p.Axe("what has come")
	p.Click("#r-"+first+" .approve", "Approve")
	p.Says(".note", "Done: pay · Approved")
}

// pressable holds where a press in the middle of an element would meet it.
func pressable(e string) string {
	return `(() => { const e = ` + e +
		`, r = e.getBoundingClientRect(); return e.contains(document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2)); })()`
}

// A card that moves up under a resting pointer takes no click for a while, nor does what has only just come to the
// page: the click, or the second one of a double click, was meant for another.
func TestRule3_WhatMovesUnderThePointerIsNotPressed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	second, first := w.ask("pay", `{"n":1}`), w.ask("pay", `{"n":2}`)
	p := w.openIn(chromium.Start(t), t, "hana", "/", 1280)
	button := fmt.Sprintf(approves, second)
	p.Until("it can be pressed", pressable(button))
	chromium.Ask[bool](p, `(() => { window.seen = []; new MutationObserver(() => window.seen.push(`+pressable(button)+`))
		.observe(document.querySelector("#r-`+second+` form"), {attributeFilter: ["data-moving"]}); return true; })()`)
	w.post("ken", "/r/"+first+"/decide", url.Values{"do": {"deny"}, "v": {w.version(first)}}).is(303)
	p.Until("it could not be pressed, and then it could", `window.seen.length === 2 && !window.seen[0] && window.seen[1]`)

	if got := chromium.Ask[string](p, `(() => { const f = document.querySelector("#r-`+second+
		` form"); f.replaceWith(f.cloneNode(true));
		const at = () => `+pressable(button)+`, is = at();
		for (const a of `+button+`.getAnimations()) a.finish(); return is + " " + at(); })()`); got != "false true" {
		t.Errorf("what has just come can be pressed, and then: %s", got)
	}
}

// What somebody types is kept when somebody else decides, and the page says that it has changed.
func TestARequestDecidedMeanwhileIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.ask("pay", `{"n":1}`)
	p := w.openIn(chromium.Start(t), t, "hana", "/r/"+id, 1280)
	p.Do(chromedp.Focus("#reason"), chromedp.SendKeys("#reason", "my own words"))
	w.post("ken", "/r/"+id+"/decide", url.Values{"do": {"deny"}, "v": {w.version(id)}}).is(303)
	p.Until("it says so",
		`!document.getElementById("changed").hidden && document.getElementById("standing").innerText.includes("Denied")`)
	p.Until("nothing was lost", `document.getElementById("reason").value === "my own words"`)
}

// Spaces count: what an agent wrote is drawn with all of them, wherever it stands.
func TestRule3_SpacesAreDrawn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	two := `/srv/a  b   c`
	id := w.ask("pay", `{"path":"`+two+`","nested":{"deep":["`+two+`"]}}`, func(c *approval.Call) {
		c.SessionID, c.Rationale, c.Preview = two, two, two
	})
	w.ask("wire", `{"path":"`+two+`"}`, func(c *approval.Call) { c.Scope = two })
	p := w.openIn(chromium.Start(t), t, "hana", "/", 1280)
	for _, path := range []string{"/", "/r/" + id, "/history"} {
		p.Do(chromedp.Navigate(w.srv.URL + path))
		p.Until("all spaces are drawn",
			`(() => { const walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT), found = [];
			for (let n; n = walk.nextNode();)
				if (/\S {2,}\S/.test(n.data) && !n.parentElement.closest(".hidden"))
					found.push(getComputedStyle(n.parentElement).whiteSpaceCollapse);
			return found.length > 0 && found.every((is) => is === "preserve"); })()`)
	}
}
