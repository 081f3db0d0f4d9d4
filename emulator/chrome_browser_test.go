//go:build browser

package emulator_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// browserPath finds Chromium. Without one these tests fail: a test that does not run shows nothing.
func browserPath(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium found: install one (Debian: apt-get install chromium fonts-noto-color-emoji), or name it in CHROMIUM")
	return ""
}

// openBrowser starts a headless browser that lives as long as the test.
func openBrowser(t *testing.T) context.Context {
	t.Helper()
	alloc, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(browserPath(t)), chromedp.UserDataDir(t.TempDir()), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true), chromedp.Flag("lang", "en-GB"),
		chromedp.WSURLReadTimeout(time.Minute))
	ctx, end := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // asks the browser to leave, and waits for it
		end()
		stop()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("Chromium does not start: %v", err)
	}
	return ctx
}

// act is something a tab does that gives nothing back.
type act = chromedp.Action[chromedp.Void]

// tab is one page in a profile of its own.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string
}

// open opens the chat page. What goes wrong in its scripts, and what its policy blocks, fails the test.
func open(browser context.Context, t *testing.T, url string, width, height int64, before ...act) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	p := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			p.wrong((&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError && !strings.Contains(e.Entry.Text, "net::ERR") {
				p.wrong(e.Entry.Text)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, e := range p.errors {
			t.Errorf("the page's own error: %s", e)
		}
	})
	p.do(before...)
	p.do(chromedp.EmulateViewport(width, height), chromedp.Navigate(url+"/"))
	p.until("the page has drawn its people", `document.querySelectorAll("#people input").length > 0`)
	return p
}

func (p *tab) wrong(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors = append(p.errors, text)
}

func (p *tab) do(actions ...act) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, time.Minute)
	defer stop()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// ask evaluates an expression, and waits for it where it is a promise. It goes through the DevTools protocol: the
// page's policy lets no script in.
func ask[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, time.Minute)
	defer stop()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, func(e *runtime.EvaluateParams) { wait := true; e.AwaitPromise = &wait }))
	if err != nil {
		p.t.Fatalf("%s: %v", expression[:min(len(expression), 300)], err)
	}
	return v
}

// until waits for an expression to hold.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, 20*time.Second)
	defer stop()
	if _, err := chromedp.Run(ctx, chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingInterval(30*time.Millisecond))); err != nil {
		p.t.Fatalf("never: %s (%s): %v; the focus is on %q\n%s", what, expression, err, p.focused(), ask[string](p, `document.body.innerText.slice(0, 3000)`))
	}
}

// says waits until an element shows a text.
func (p *tab) says(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("%s says %q", selector, text), fmt.Sprintf(`[...document.querySelectorAll(%s)].some((e) => e.checkVisibility() && e.innerText.includes(%s))`, quoted(selector), quoted(text)))
}

func quoted(s string) string { return string(encodeJSON(s)) }

func encodeJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings
	}
	return b
}

// find finds the last visible element that a selector matches and, unless it is "", that has this text or name.
const find = `((selector, text) => [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility() && (!text || e.innerText.trim() === text || e.getAttribute("aria-label") === text)).at(-1))`

// click presses the newest control with this text or name by mouse, where a person would: the middle of what is to be seen of it.
func (p *tab) click(selector, text string) {
	p.t.Helper()
	target := fmt.Sprintf("%s(%s, %s)", find, quoted(selector), quoted(text))
	p.until("there is "+text, "!!"+target)
	at := ask[struct{ X, Y float64 }](p, `(() => { const e = `+target+`; e.scrollIntoView({block: "center"}); const r = e.getBoundingClientRect(); return {X: r.x + r.width / 2, Y: r.y + r.height / 2}; })()`)
	if !ask[bool](p, fmt.Sprintf(`(() => { const e = %s; return e.contains(document.elementFromPoint(%f, %f)); })()`, target, at.X, at.Y)) {
		p.t.Fatalf("%q is covered by something else", text)
	}
	p.do(chromedp.MouseClickXY(at.X, at.Y))
}

// newest names the newest message of a conversation that shows a text.
func (p *tab) newest(list, text string) string {
	p.t.Helper()
	p.says(list+" > *", text)
	n := ask[int](p, fmt.Sprintf(`1 + [...document.querySelector(%s).children].findLastIndex((e) => e.innerText.includes(%s))`,
		quoted(list), quoted(text)))
	return fmt.Sprintf("%s > :nth-child(%d)", list, n)
}

// keys types keys to whatever has the focus.
func (p *tab) keys(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.do(chromedp.KeyEvent(k))
	}
}

// tabTo presses Tab until the control with this text or name has the focus, as somebody without a mouse would.
func (p *tab) tabTo(selector, text string) {
	p.t.Helper()
	p.until("there is "+text, "!!"+fmt.Sprintf("%s(%s, %s)", find, quoted(selector), quoted(text)))
	for range 400 {
		p.keys(kb.Tab)
		if ask[bool](p, fmt.Sprintf(`(() => { const e = document.activeElement; return e.matches(%s) && (!%[2]s || e.innerText.trim() === %[2]s || e.getAttribute("aria-label") === %[2]s); })()`, quoted(selector), quoted(text))) {
			return
		}
	}
	p.t.Fatalf("Tab never came to %q", text)
}

// focused says what has the focus.
func (p *tab) focused() string {
	p.t.Helper()
	return ask[string](p, `(() => { const e = document.activeElement; return e.id || e.getAttribute("aria-label") || e.innerText.trim() || e.localName; })()`)
}

func (p *tab) hasFocus(id string) {
	p.t.Helper()
	p.until(id+" has the focus", fmt.Sprintf(`document.activeElement.id === %s`, quoted(id)))
}

// prefers makes the system prefer a colour scheme, and no motion.
func prefers(scheme string) act {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
		return err
	})
}

var axeSource = sync.OnceValues(func() (string, error) {
	f, err := os.Open("testdata/axe/axe.min.js.gz")
	if err != nil {
		return "", err
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(unpacked)
	return string(b), err
})

// axe lets axe-core look at the page as it is now; any violation fails the test.
func (p *tab) axe(state string) {
	p.t.Helper()
	source, err := axeSource()
	if err != nil {
		p.t.Fatal(err)
	}
	if !ask[bool](p, `!!window.axe`) {
		ask[int](p, source+";0")
	}
	type violation struct {
		ID    string `json:"id"`
		Help  string `json:"help"`
		Nodes []struct {
			HTML    string `json:"html"`
			Summary string `json:"failureSummary"`
		} `json:"nodes"`
	}
	violations := ask[[]violation](p, `axe.run(document, {runOnly: {type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
		rules: {"target-size": {enabled: true}}, resultTypes: ["violations"]}).then((r) => r.violations.map((v) => ({id: v.id, help: v.help, nodes: v.nodes.map((n) => ({html: n.html, failureSummary: n.failureSummary}))})))`)
	for _, v := range violations {
		for i, n := range v.Nodes {
			if i == 4 {
				p.t.Errorf("%s: %s: %d more", state, v.ID, len(v.Nodes)-i)
				break
			}
			p.t.Errorf("%s: %s: %s\n%s\n%s", state, v.ID, v.Help, strings.TrimSpace(n.HTML[:min(len(n.HTML), 300)]), n.Summary)
		}
	}
}

// fits fails the test when the page, or a conversation in it, has to be scrolled sideways.
func (p *tab) fits(state string) {
	p.t.Helper()
	wide := ask[[]string](p, `(() => { const d = document.documentElement; return d.scrollWidth <= d.clientWidth ? [] :
		[...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > d.clientWidth + 1).slice(0, 5).map((e) => e.outerHTML.slice(0, 120)); })()`)
	wide = append(wide, ask[[]string](p, `[...document.querySelectorAll(".log, .lines, dialog")].filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1).map((e) => e.outerHTML.slice(0, 120))`)...)
	for _, e := range wide {
		p.t.Errorf("%s: wider than the screen: %s", state, e)
	}
}
