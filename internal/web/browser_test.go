//go:build browser

package web

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/chromedp"

	"countersign/internal/testkit/chromium"
)

func TestMain(m *testing.M) { os.Exit(chromium.Tests{M: m}.Run()) }

// look is one page as it is looked at.
type look struct {
	name, person, path string
	prepare            func(*world)
	status             int // of the answer that is no success; 0: a success
}

var looks []look

// addLooks has a page looked at: at 390 and at 1280 px, in the light and in the dark, by axe-core and, where
// COUNTERSIGN_SHOTS names a folder, by a person. prepare, unless nil, fills the gate before; person "" is nobody; %s in
// the path stands for the newest request's id.
func addLooks(name, person, path string, prepare func(*world)) bool {
	looks = append(looks, look{name: name, person: person, path: path, prepare: prepare})
	return true
}

// addRefusedLook is [addLooks] for a page that comes with an error's status, which the browser names in its console.
func addRefusedLook(name, person, path string, status int, prepare func(*world)) bool {
	looks = append(looks, look{name, person, path, prepare, status})
	return true
}

// world is where the page is looked at.
func (l look) world(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, func(o *Options) { o.Status, o.Describer = statusOfTests, bankOfTests })
	if l.prepare != nil {
		l.prepare(w)
	}
	return w
}

// TestLooks opens every page that is registered, one after the other in one tab that remembers nothing of the one
// before.
func TestLooks(t *testing.T) {
	t.Parallel()
	p := chromium.Open(chromium.Start(t), t, "about:blank", 390, 844)
	for _, l := range looks {
		t.Run(l.name, func(t *testing.T) {
			p.Lend(t)
			w := l.world(t)
			if l.status != 0 {
				p.Expect(strconv.Itoa(l.status))
			}
			for _, width := range []int64{390, 1280} {
				for _, scheme := range []string{"light", "dark"} {
					w.visit(p, l, width, chromium.Prefers(scheme))
					lookedAt(p, fmt.Sprintf("%s-%d-%s", l.name, width, scheme))
				}
			}
		})
	}
}

// visit opens a page that is looked at in a tab that remembers nothing.
func (w *world) visit(p *chromium.Tab, l look, width int64, before ...chromium.Act) {
	p.T.Helper()
	before = append(before, forgetful(w.srv.URL))
	if l.person != "" {
		before = append(before, signedIn(w.srv.URL, l.person))
	}
	p.Visit(w.srv.URL+strings.ReplaceAll(l.path, "%s", w.asked), width, 844, before...)
	p.Until("the page is there", isThere)
}

const isThere = `document.readyState === "complete" && !!document.querySelector("main")`

// forgetful is a browser that forgets what it has of a server.
func forgetful(at string) chromium.Act {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, storage.ClearDataForOrigin, storage.ClearDataForOriginParams{Origin: at,
			StorageTypes: "all"})
		return err
	})
}

// openIn opens a page in a browser in which somebody is signed in.
func (w *world) openIn(browser context.Context, t testing.TB, person, path string, width int64,
	before ...chromium.Act) *chromium.Tab {
	t.Helper()
	if person != "" {
		before = append(before, signedIn(w.srv.URL, person))
	}
	p := chromium.Open(browser, t, w.srv.URL+path, width, 844, before...)
	p.Until("the page is there", isThere)
	return p
}

// signedIn is a browser in which somebody is signed in, as the stand-in for sessions has it.
func signedIn(at, person string) chromium.Act {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.SetCookie, network.SetCookieParams{Name: "person", Value: person, URL: at})
		return err
	})
}

var _ = addLooks("inbox-empty", "hana", "/", nil)

var _ = addLooks("inbox", "hana", "/", func(w *world) {
	w.ask("deploy", `{"service":"api","version":"2.1.0"}`)
	w.ask("pay", `{"invoice":1041,"amount":420}`)
})

func TestAnErrorIsLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.openIn(chromium.Start(t), t, "hana", "/", 390)
	p.Expect(fmt.Sprint(http.StatusNotFound))
	p.Do(chromedp.Navigate(w.srv.URL + "/nowhere"))
	p.Says("h1", "Not found")
	p.Axe("an error")
	p.Fits("an error", "")
}
