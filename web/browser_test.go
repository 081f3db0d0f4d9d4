//go:build browser

package web

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"countersign/internal/testkit/chromium"
)

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

// TestLooks opens every page that is registered.
func TestLooks(t *testing.T) {
	browser := chromium.Start(t)
	for _, l := range looks {
		t.Run(l.name, func(t *testing.T) {
			w := newWorld(t)
			if l.prepare != nil {
				l.prepare(w)
			}
			path := l.path
			if strings.Contains(path, "%s") {
				path = fmt.Sprintf(path, w.asked)
			}
			for _, width := range []int64{390, 1280} {
				for _, scheme := range []string{"light", "dark"} {
					p := w.openIn(browser, t, l.person, path, width, chromium.Prefers(scheme))
					if l.status != 0 {
						p.Expect(strconv.Itoa(l.status))
					}
					state := fmt.Sprintf("%s-%d-%s", l.name, width, scheme)
					p.Fits(state, "")
					p.Axe(state)
					if folder := os.Getenv("COUNTERSIGN_SHOTS"); folder != "" {
						p.Picture(filepath.Join(folder, strings.ReplaceAll(state, "/", "_")+".png"))
					}
					p.Close()
				}
			}
		})
	}
}

// openIn opens a page in a browser in which somebody is signed in.
func (w *world) openIn(browser context.Context, t testing.TB, person, path string, width int64, before ...chromium.Act) *chromium.Tab {
	t.Helper()
	if person != "" {
		before = append(before, signedIn(w.srv.URL, person))
	}
	p := chromium.Open(browser, t, w.srv.URL+path, width, 844, before...)
	p.Until("the page is there", `document.readyState === "complete" && !!document.querySelector("main")`)
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
	w := newWorld(t)
	p := w.openIn(chromium.Start(t), t, "hana", "/", 390)
	p.Expect(fmt.Sprint(http.StatusNotFound))
	p.Do(chromedp.Navigate(w.srv.URL + "/nowhere"))
	p.Says("h1", "Not found")
	p.Axe("an error")
	p.Fits("an error", "")
}
