//go:build browser

package web

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"countersign/approval"
	"countersign/internal/auth/signin"
	"countersign/internal/testkit/chromium"
)

var (
	_ = addLooks("step-up-nowhere", "hana", "/r/%s/passkey", func(w *world) { w.ask("open_vault", `{"door":1}`) })
	_ = addLooks("step-up-elsewhere", "hana", "/r/%s/passkey", func(w *world) {
		w.pages.Base = func() string { return "https://gate.example.com" }
		w.ask("open_vault", `{"door":1}`)
	})
	_ = addLooks("step-up-over", "hana", "/r/%s/passkey", func(w *world) {
		w.on("ken", w.ask("open_vault", `{"door":1}`), "decide", url.Values{"do": {"deny"}})
	})
)

// opened is a tab in which hana is signed in, with a passkey that it has just added.
func (k *keyed) opened(t *testing.T) *chromium.Tab {
	t.Helper()
	secret, _, err := k.signIns.Start(k.ctx, "hana", signin.MethodLink, "", signin.Origin{Address: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	p := chromium.Open(chromium.Start(t), t, k.at+"/passkeys", 390, 844, withKey(), cookie(k.at, secret))
	p.Do(chromedp.SetValue("#name", "Laptop"))
	p.Click("form[data-passkey] button", "Add a passkey")
	p.Do(chromedp.WaitVisible("main article h2")) // across the form's answer
	return p
}

func newOpened(t *testing.T) (*keyed, *chromium.Tab) {
	k := newKeyed(t, func(o *Options) { o.Sessions = SignedIn(o.SignIn) })
	return k, k.opened(t)
}

// lookAt looks at a state at both widths, in the light and in the dark.
func lookAt(p *chromium.Tab, name string) {
	for _, width := range []int64{390, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			p.Do(chromedp.EmulateViewport(width, 844), chromium.Prefers(scheme))
			state := fmt.Sprintf("%s-%d-%s", name, width, scheme)
			p.Fits(state, "")
			p.Axe(state)
			if folder := os.Getenv("COUNTERSIGN_SHOTS"); folder != "" {
				p.Picture(filepath.Join(folder, state+".png"))
			}
		}
	}
	p.Do(chromedp.EmulateViewport(390, 844), chromium.Prefers("light"))
}

// What takes a passkey is approved on its page, which the page of the request leads to.
func TestABrowsersPasskeyApproves(t *testing.T) {
	t.Parallel()
	k, p := newOpened(t)
	id := k.ask("open_vault", `{"door":1}`)
	p.Do(chromedp.Navigate(k.at + "/r/" + id))
	p.Click("a#approve", "Approve with a passkey")
	p.Says("#shown", `{"door":1}`)
	lookAt(p, "step-up")
	p.Do(chromedp.SetValue("#reason", "my own words"))
	p.Click("#approve button", "Approve with a passkey")
	p.Do(chromedp.WaitVisible("#standing")) // across the form's answer
	p.Says(".note", "Approved with your passkey: open_vault.")
	if r := k.request(id); r.Status != approval.Approved || !r.Votes[0].StepUp || r.Votes[0].Reason != "my own words" {
		t.Errorf("it is %s, %+v", r.Status, r.Votes)
	}
}

// Other args are typed on the page of the request, seen on that of the passkey, and approved.
func TestABrowsersPasskeyApprovesAnEdit(t *testing.T) {
	t.Parallel()
	k, p := newOpened(t)
	id := k.ask("open_vault", `{"door":1,"note":"`+strings.Repeat("long ", 60)+`","tray":"left"}`)
	p.Do(chromedp.Navigate(k.at + "/r/" + id))
	p.Click("#actions details summary", "Edit…")
	p.Do(chromedp.SetValue("#args", "{\n  \"door\": 7,\n  \"tray\": \"left\"\n}"), chromedp.SetValue("#edit-reason",
		"my own words"))
	p.Click("#edit button", "Continue with your passkey")
	p.Do(chromedp.WaitVisible("#shown"))
	p.Says("#shown", `{"door":7,"tray":"left"}`)
	p.Says(".diff-added", "+ door: 7")
	lookAt(p, "step-up-edited")
	p.Click("#approve button", "Approve with a passkey")
	p.Until("it asks for a yes",
		`document.querySelector("#approve [name=confirmed]").matches(":invalid") && location.pathname.endsWith("/passkey/edit")`)
	k.stands(id, approval.Pending)
	p.Do(chromedp.Click("#approve [name=confirmed]"))
	p.Click("#approve button", "Approve with a passkey")
	p.Do(chromedp.WaitVisible("#standing")) // across the form's answer
	old := k.request(id)
	next := k.request(old.ReplacedBy)
	if old.Status != approval.Denied || next.Status != approval.Approved ||
		string(next.Args) != `{"door":7,"tray":"left"}` || next.Votes[0].Reason != "my own words" {
		t.Errorf("the one is %s, in its place is %s %s %+v", old.Status, next.Status, next.Args, next.Votes)
	}
	p.Until("it is shown", `location.pathname === "/r/`+next.ID+
		`" && document.getElementById("standing").innerText.includes("Approved")`)
}

// Who decides what was decided meanwhile is told so, and what they typed is kept where something is left to decide.
func TestAPressThatComesTooLateIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	browser := chromium.Start(t)
	late := func(id, by string, do url.Values) *chromium.Tab {
		p := w.openIn(browser, t, "hana", "/r/"+id, 390)
		p.Do(chromedp.Focus("#reason"), chromedp.SendKeys("#reason", "my own words"))
		do.Set("v", w.version(id))
		w.post(by, "/r/"+id+"/decide", do).is(http.StatusSeeOther)
		p.Until("it says so", `!document.getElementById("changed").hidden`)
		p.Expect(fmt.Sprint(http.StatusConflict))
		p.Click("#approve", "Approve")
		p.Until("the answer is there",
			`document.readyState === "complete" && !!document.querySelector("main > .note.bad[role=alert]")`)
		p.Axe("too late")
		p.Fits("too late", "")
		return p
	}
	id := w.ask("pay", `{}`)
	p := late(id, "ken", url.Values{"do": {"deny"}})
	p.Says("main > .note.bad[role=alert]", "Already decided: Denied by ken")
	w.stands(id, approval.Denied)

	id = w.ask("wire", `{}`)
	p = late(id, "ken", url.Values{"do": {"approve"}})
	p.Says("main > .note.bad[role=alert]", "It has changed since you saw it")
	p.Until("what was typed is kept", `document.getElementById("reason").value === "my own words"`)
	if r := w.request(id); r.Status != approval.Pending || len(r.Votes) != 1 {
		t.Fatalf("it is %s, %+v", r.Status, r.Votes)
	}
	// The page that was answered stays current too.
	w.on("hana", id, "decide", url.Values{"do": {"approve"}}).is(http.StatusSeeOther)
	p.Until("it is current",
		`document.getElementById("standing").innerText.includes("Approved") && document.getElementById("stale").hidden`)
}
