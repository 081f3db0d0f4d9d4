//go:build browser

package chromium

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed" // axe-core
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
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
func browserPath(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium found: install one (Debian: apt-get install chromium fonts-noto-color-emoji), " +
		"or name it in CHROMIUM")
	return ""
}

// Start starts a headless browser, once for all of a package's tests: each has profiles of its own in it, and starting
// one takes longer than most of them. The package's TestMain runs them by [Tests], which ends it.
func Start(t testing.TB) context.Context {
	t.Helper()
	if !running {
		t.Fatal("TestMain has to run the tests by chromium.Tests, which ends the browser")
	}
	path := browserPath(t)
	started.Do(func() { browser, startErr = start(path) })
	if startErr != nil {
		t.Fatalf("Chromium does not start: %v", startErr)
	}
	return browser
}

var (
	started  sync.Once
	browser  context.Context
	startErr error
)

func start(path string) (context.Context, error) {
	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		return nil, err
	}
	alloc, release := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.Headless, chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("lang", "en-GB"),
		chromedp.WSURLReadTimeout(time.Minute))
	ctx, end := chromedp.NewContext(alloc)
	stop = func() {
		_ = chromedp.Cancel(ctx) // asks the browser to leave, and waits for it
		end()
		release()
		_ = os.RemoveAll(profile)
	}
	return ctx, chromedp.Do(ctx)
}

// Act is something a tab does that gives nothing back.
type Act = chromedp.Action[chromedp.Void]

// Tab is one page in a profile of its own.
type Tab struct {
	// T is the test that fails; a subtest puts itself here.
	T   testing.TB
	ctx context.Context
	end func()

	mu       sync.Mutex
	expected []string
	errors   []string
}

// Open opens a page in a profile of its own. What goes wrong in its scripts, and what its policy blocks, fails the
// test.
func Open(browser context.Context, t testing.TB, url string, width, height int64, before ...Act) *Tab {
	t.Helper()
	ctx, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	p := &Tab{T: t, ctx: ctx, end: sync.OnceFunc(end)}
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			p.wrong((&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError && !strings.Contains(e.Entry.Text, "net::ERR") {
				p.wrong(e.Entry.Text + " " + e.Entry.URL)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.end()
		p.judge(t)
	})
	p.Visit(url, width, height, before...)
	return p
}

// Visit opens another page in the tab, which takes a third of the time that another tab does.
func (p *Tab) Visit(url string, width, height int64, before ...Act) {
	p.T.Helper()
	p.Do(before...)
	p.Do(chromedp.EmulateViewport(width, height), chromedp.Navigate(url))
}

// Lend has a subtest use the tab: the errors of the page until it ends are that test's, and so is what it expects.
func (p *Tab) Lend(t testing.TB) {
	was := p.T
	p.T = t
	t.Cleanup(func() {
		_, _ = Run(p, chromedp.Evaluate[int]("0")) // what the page has said comes before its answer
		p.judge(t)
		p.T = was
	})
}

// judge fails a test by the errors of the page that nobody expected, and forgets them.
func (p *Tab) judge(t testing.TB) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.errors {
		if !slices.ContainsFunc(p.expected, func(text string) bool { return strings.Contains(e, text) }) {
			t.Errorf("the page's own error: %s", e)
		}
	}
	p.errors, p.expected = nil, nil
}

// Run runs a chromedp action that gives something back.
func Run[V any](p *Tab, action chromedp.Action[V]) (V, error) {
	ctx, stop := context.WithTimeout(p.ctx, time.Minute)
	defer stop()
	return chromedp.Run(ctx, action)
}

// Close closes the page, before its test ends.
func (p *Tab) Close() { p.end() }

func (p *Tab) wrong(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors = append(p.errors, text)
}

// Expect has the console say a text without the test failing: the browser names there every answer that is an error.
func (p *Tab) Expect(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, text)
}

// Do does things in the page, one after the other.
func (p *Tab) Do(actions ...Act) {
	p.T.Helper()
	ctx, stop := context.WithTimeout(p.ctx, time.Minute)
	defer stop()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.T.Fatal(err)
	}
}

// Ask evaluates an expression, and waits for it where it is a promise. It goes through the DevTools protocol: the
// page's policy lets no script in.
func Ask[T any](p *Tab, expression string) T {
	p.T.Helper()
	ctx, stop := context.WithTimeout(p.ctx, time.Minute)
	defer stop()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, func(e *runtime.EvaluateParams) {
		wait := true
		e.AwaitPromise = &wait
	}))
	if err != nil {
		p.T.Fatalf("%s: %v", expression[:min(len(expression), 300)], err)
	}
	return v
}

// Until waits for an expression to hold.
func (p *Tab) Until(what, expression string) {
	p.T.Helper()
	ctx, stop := context.WithTimeout(p.ctx, time.Minute)
	defer stop()
	var err error
	for held := false; !held; {
		// Asked anew each time, and an error is asked again: a page that is being left takes its questions with it.
		held, err = chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		select {
		case <-ctx.Done():
			p.T.Fatalf("never: %s (%s): %v; the focus is on %q, which holds %q\n%s", what, expression, err, p.Focused(),
				Ask[string](p, `String(document.activeElement?.value ?? "")`),
				Ask[string](p, `document.body.innerText.slice(0, 30000)`))
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// Says waits until an element shows a text.
func (p *Tab) Says(selector, text string) {
	p.T.Helper()
	p.Until(fmt.Sprintf("%s says %q", selector, text), fmt.Sprintf(`[...document.querySelectorAll(%s)].some((e) =>
		e.checkVisibility() && e.innerText.includes(%s))`, Quoted(selector), Quoted(text)))
}

// Quoted is a text as JavaScript writes it.
func Quoted(s string) string { return string(encodeJSON(s)) }

func encodeJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings
	}
	return b
}

// find finds the last visible element that a selector matches and, unless it is "", that has this text or name.
const find = `((selector, text) => [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility() &&
	(!text || e.innerText.trim() === text || e.getAttribute("aria-label") === text)).at(-1))`

// Click presses the newest control with this text or name by mouse, where a person would: the middle of what is to be
// seen of it.
func (p *Tab) Click(selector, text string) {
	p.T.Helper()
	target := fmt.Sprintf("%s(%s, %s)", find, Quoted(selector), Quoted(text))
	p.Until("there is "+text, "!!"+target)
	const middle = `e.scrollIntoView({block: "center"});
		const r = e.getBoundingClientRect(), X = r.x + r.width / 2, Y = r.y + r.height / 2;`
	p.Until(fmt.Sprintf("%q can be pressed, and nothing covers it", text), `(() => {
		const e = `+target+`; if (!e) return false;
		`+middle+` return e.contains(document.elementFromPoint(X, Y)); })()`)
	at := Ask[struct{ X, Y float64 }](p, `(() => { const e = `+target+`; `+middle+` return {X, Y}; })()`)
	p.Do(chromedp.MouseClickXY(at.X, at.Y))
}

// Newest names the newest message of a conversation that shows a text.
func (p *Tab) Newest(list, text string) string {
	p.T.Helper()
	p.Says(list+" > *", text)
	n := Ask[int](p, fmt.Sprintf(`1 + [...document.querySelector(%s).children].findLastIndex((e) =>
		e.innerText.includes(%s))`,
		Quoted(list), Quoted(text)))
	return fmt.Sprintf("%s > :nth-child(%d)", list, n)
}

// Keys types keys to whatever has the focus.
func (p *Tab) Keys(keys ...string) {
	p.T.Helper()
	for _, k := range keys {
		p.Do(chromedp.KeyEvent(k))
	}
}

// TabTo presses Tab until the control with this text or name has the focus, as somebody without a mouse would.
func (p *Tab) TabTo(selector, text string) {
	p.T.Helper()
	p.Until("there is "+text, "!!"+fmt.Sprintf("%s(%s, %s)", find, Quoted(selector), Quoted(text)))
	for range 400 {
		p.Keys(kb.Tab)
		if Ask[bool](p, fmt.Sprintf(`(() => { const e = document.activeElement; return e.matches(%s) &&
			(!%[2]s || e.innerText.trim() === %[2]s || e.getAttribute("aria-label") === %[2]s); })()`,
			Quoted(selector), Quoted(text))) {
			return
		}
	}
	p.T.Fatalf("Tab never came to %q", text)
}

// Focused says what has the focus.
func (p *Tab) Focused() string {
	p.T.Helper()
	return Ask[string](p, `(() => { const e = document.activeElement;
		return e.id || e.getAttribute("aria-label") || e.innerText.trim() || e.localName; })()`)
}

// HasFocus waits until an element has the focus.
func (p *Tab) HasFocus(id string) {
	p.T.Helper()
	p.Until(id+" has the focus", fmt.Sprintf(`document.activeElement.id === %s`, Quoted(id)))
}

// Prefers makes the system prefer a colour scheme, and no motion.
func Prefers(scheme string) Act {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
				{Name: "prefers-reduced-motion", Value: "reduce"}}})
		return err
	})
}

//go:embed axe/axe.min.js.gz
var axePacked []byte

var axeSource = sync.OnceValues(func() (string, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(axePacked))
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(unpacked)
	return string(b), err
})

// Axe lets axe-core look at the page as it is now; any violation fails the test.
func (p *Tab) Axe(state string) {
	p.T.Helper()
	source, err := axeSource()
	if err != nil {
		p.T.Fatal(err)
	}
	if !Ask[bool](p, `!!window.axe`) {
		Ask[int](p, source+";0")
	}
	type violation struct {
		ID    string `json:"id"`
		Help  string `json:"help"`
		Nodes []struct {
			HTML    string `json:"html"`
			Summary string `json:"failureSummary"`
		} `json:"nodes"`
	}
	violations := Ask[[]violation](p, `axe.run(document, {runOnly: {type: "tag",
		values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
		rules: {"target-size": {enabled: true}}, resultTypes: ["violations"]}).then((r) => r.violations.map((v) =>
		({id: v.id, help: v.help, nodes: v.nodes.map((n) => ({html: n.html, failureSummary: n.failureSummary}))})))`)
	for _, v := range violations {
		for i, n := range v.Nodes {
			if i == 4 {
				p.T.Errorf("%s: %s: %d more", state, v.ID, len(v.Nodes)-i)
				break
			}
			p.T.Errorf("%s: %s: %s\n%s\n%s", state, v.ID, v.Help, strings.TrimSpace(n.HTML[:min(len(n.HTML), 300)]), n.Summary)
		}
	}
}

// Fits fails the test when the page, or one of the elements that also names, has to be scrolled sideways.
func (p *Tab) Fits(state, also string) {
	p.T.Helper()
	wide := Ask[[]string](p, `(() => { const d = document.documentElement; return d.scrollWidth <= d.clientWidth ? [] :
		[...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() &&
			e.getBoundingClientRect().right > d.clientWidth + 1).slice(0, 5).map((e) => e.outerHTML.slice(0, 120)); })()`)
	if also != "" {
		wide = append(wide, Ask[[]string](p, `[...document.querySelectorAll(`+Quoted(also)+`)].filter((e) =>
			e.checkVisibility() && e.scrollWidth > e.clientWidth + 1).map((e) => e.outerHTML.slice(0, 120))`)...)
	}
	for _, e := range wide {
		p.T.Errorf("%s: wider than the screen: %s", state, e)
	}
}

// Picture writes what the whole page looks like as a PNG.
func (p *Tab) Picture(file string) {
	p.T.Helper()
	png, err := Run(p, chromedp.FullScreenshot(100))
	if err != nil {
		p.T.Fatal(err)
	}
	if err := os.WriteFile(file, png, 0o600); err != nil {
		p.T.Fatal(err)
	}
}
