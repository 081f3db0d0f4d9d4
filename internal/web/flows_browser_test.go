//go:build browser

package web

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"countersign/approval"
	"countersign/internal/lists"
	"countersign/internal/testkit/chromium"
)

// lookedAt holds that a page fits its screen and that axe-core finds nothing, and keeps its picture where
// COUNTERSIGN_SHOTS names a folder.
func lookedAt(p *chromium.Tab, state string) {
	p.T.Helper()
	p.Fits(state, "")
	p.Axe(state)
	if folder := os.Getenv("COUNTERSIGN_SHOTS"); folder != "" {
		p.Picture(filepath.Join(folder, strings.ReplaceAll(state, "/", "_")+".png"))
	}
}

// press is a key whose character is typed unless the page takes the key: with Tab.Keys it comes as an event of its own.
func press(key, code string) chromium.Act {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.DispatchKeyEvent,
			input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Code: code, Text: key})
		return err
	})
}

// mouse is one half of a click.
func mouse(half input.DispatchMouseEventType, x, y float64) chromium.Act {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: half, X: x, Y: y,
			Button: input.MouseButtonLeft, ClickCount: 1})
		return err
	})
}

func TestTheKeysOfTheInbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.ask("pay", `{"n":1}`)
	critical := w.ask("deploy", `{"n":2}`)
	second := w.ask("pay", `{"n":3}`)
	p := w.openIn(chromium.Start(t), t, "hana", "/", 1280)
	current := func(id string) string { return `document.querySelector(".request.current")?.id === "r-` + id + `"` }
	chromium.Ask[bool](p, `window.same = true`)

	p.Keys("a", "d", "v", "x")
	p.Until("nothing is done while none is chosen", `window.same && !document.querySelector("input[name=pick]:checked")`)
	p.Keys("j")
	p.Until("the newest is current", current(second))
	for _, m := range []chromedp.Modifier{chromedp.ModifierCtrl, chromedp.ModifierMeta, chromedp.ModifierAlt} {
		for _, key := range []string{"a", "d", "x", "j", "/"} {
			p.Do(chromedp.KeyEvent(key, chromedp.KeyModifiers(m)))
		}
	}
	p.Until("keys of the browser's own are none of the page's",
		`window.same && !document.querySelector("input[name=pick]:checked") &&
		document.activeElement.id !== "q" && `+current(second))
	p.Keys("x")
	for _, field := range []string{"#reason", "#r-" + second + " [name=pick]"} {
		rest(p)
		p.Do(chromedp.Focus(field))
		p.Keys("j", "a", "x", "d", "v", "/", "?")
		p.Until("in a field they are no keys",
			`window.same && !document.querySelector("dialog[open]") && document.activeElement.matches("input") &&
			document.getElementById("reason").value === "jaxdv/?" && document.querySelectorAll("input[name=pick]:checked").length === 1 && `+current(second))
		w.stands(second, approval.Pending)
	}

	p.Do(chromedp.Focus("#r-" + second))
	chromium.Ask[bool](p,
		`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "่", code: "KeyJ", bubbles: true}))`)
	p.Until("a Thai keyboard has the same keys", current(critical))
	p.Keys("a")
	p.Until("what is not approved from a list is opened", `location.pathname === "/r/`+critical+
		`" && document.readyState === "complete"`)
	w.stands(critical, approval.Pending)
	p.Do(chromedp.Navigate(w.srv.URL))
	p.Keys("j")
	rest(p)
	p.Keys("a")
	p.Says(".note", "Done: pay · Approved")
	w.stands(second, approval.Approved)
	w.stands(first, approval.Pending)

	p.Until("the page takes keys again", isThere)
	p.Keys("j", "j", "v")
	p.Until("everything of it is there", `location.pathname === "/r/`+first+`" && document.readyState === "complete"`)
	p.Do(chromedp.Navigate(w.srv.URL))
	p.Do(press("/", "Slash"))
	p.HasFocus("q")
	p.Keys("deploy", kb.Enter)
	p.Until("it is filtered",
		`new URLSearchParams(location.search).get("q") === "deploy" && document.querySelectorAll(".request").length === 1`)
}

type scripting bool

const withScripts, withoutScripts scripting = true, false

// scripts lets a page run scripts, or none.
func scripts(are scripting) chromium.Act {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: are == withoutScripts})
		return err
	})
}

// Without scripts everything can be found and decided; and of what is decided together each says what came of it.
func TestPagesWithoutScripts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	soon := w.ask("wire", `{"n":1}`)
	w.clock.Advance(20 * time.Minute)
	long := w.ask("pay", `{"text":"`+strings.Repeat("much ", 500)+`"}`)
	late, taken, mine := w.ask("pay", `{"n":2}`), w.ask("pay", `{"n":3}`), w.ask("pay", `{"n":4}`)
	p := w.openIn(chromium.Start(t), t, "hana", "/", 390, scripts(withoutScripts))
	p.Until("no script runs", `document.getElementById("keys-open").hidden`)
	for _, id := range []string{soon, long, taken, mine} {
		p.Click("#r-"+id+" .pick", "")
	}
	w.on("ken", taken, "decide", map[string][]string{"do": {"deny"}, "reason": {"not this one"}}).is(303)
	w.clock.Advance(15 * time.Minute)
	p.Do(chromedp.SendKeys("#reason", "all of these"))
	p.Click("#together button", "Approve selected")
	p.Says("h1", "Results")
	for _, says := range []string{"Too late: Nobody answered by today 10:30", "Already decided: Denied by ken",
		"not this one", "Not all of it fits here"} {
		p.Says("main li", says)
	}
	w.stands(soon, approval.Expired)
	w.stands(taken, approval.Denied)
	w.stands(mine, approval.Approved)
	w.stands(long, approval.Pending)
	p.Do(scripts(withScripts))
	lookedAt(p, "decided-mixed")
	p.Do(scripts(withoutScripts))

	p.Click("main a.button", "To the inbox")
	p.Click("#r-"+late+" button", "Deny")
	p.Says(".note", "Done: pay · Denied")
	w.stands(late, approval.Denied)
	p.Click("summary", "Filter")
	p.Do(chromedp.SendKeys("#q", "nothing like it"))
	p.Click("form.filters button", "Show")
	p.Says(".empty", "No waiting request fits the filter.")
	p.Click("form.filters a", "Clear")
	p.Click("#r-"+long+" a.button", "View")
	p.Says("h1", "pay")
	p.Do(chromedp.SendKeys("#reason", "seen whole"))
	p.Click("#decide button", "Approve")
	p.Says(".note", "Done: pay · Approved")
	w.stands(long, approval.Approved)
}

// Everything about a request can be done on a telephone, and its page says what came of it.
func TestARequestOnATelephone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.openIn(chromium.Start(t), t, "hana", "/", 390)
	n := 0
	open := func(tool string) string {
		n++
		id := w.ask(tool, fmt.Sprintf(`{"n":%d}`, n))
		p.Do(chromedp.Navigate(w.srv.URL + "/r/" + id))
		p.Says("h1", tool)
		return id
	}
	says := func(what string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			p.Says("main", text)
		}
		lookedAt(p, "request-"+what)
	}
	id := open("pay")
	p.Click("#decide button", "Approve")
	says("is-approved", "Done: pay · Approved", "Approved by hana", "This has ended")
	w.stands(id, approval.Approved)

	id = open("pay")
	p.Do(chromedp.SendKeys("#reason", "too much"))
	p.Click("#decide button", "Deny")
	says("is-denied", "Done: pay · Denied", "Denied by hana", "too much")
	w.stands(id, approval.Denied)

	id = open("pay")
	until := w.request(id).ExpiresAt
	p.Click("#actions button", "+1 hour")
	says("is-extended", "There is one more hour to decide.")
	if got := w.request(id).ExpiresAt; !got.Equal(until.Add(time.Hour)) {
		t.Errorf("it ends %s, and did %s", got, until)
	}
	p.Click("summary", "Cancel…")
	p.Do(chromedp.SendKeys("#cancel-reason", "no more"))
	p.Click("#actions button", "Cancel the request")
	says("is-cancelled", "The request is cancelled.", "no more")
	w.stands(id, approval.Cancelled)

	id = open("close_books")
	p.Click("#decide button", "Approve")
	p.Expect("422")
	p.Until("it is refused", `document.querySelector("main .note.bad[role=alert]")`)
	says("asks-once-more", "Yes, run it exactly as shown above.")
	w.stands(id, approval.Pending)
	p.Until("it is the request's page", `location.pathname === "/r/`+id+`" && document.getElementById("stale").hidden`)
	p.Click("#confirmed", "")
	p.Click("#decide button", "Approve")
	says("is-confirmed", "Done: close_books · Approved")
	w.stands(id, approval.Approved)

	open("pay")
	p.Do(chromedp.SetValue("#for", "1h"))
	p.Click("#decide button", "Approve")
	says("is-granted", "Done: pay · Approved", "Applied to later calls too")
	if grants, err := lists.ListGrants(w.ctx, w.gate, approval.GrantQuery{All: true, Limit: 9}); err != nil ||
		len(grants) != 1 {
		t.Errorf("the grants %v, %v", grants, err)
	}

	id = open("wire")
	p.Click("summary", "Freeze this agent…")
	p.Do(chromedp.SendKeys("#freeze-reason", "it loops"))
	p.Click("#actions button", "Freeze")
	says("is-frozen", "The agent is frozen.", "Cancelled")
	w.stands(id, approval.Cancelled)
}
