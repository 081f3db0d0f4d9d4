//go:build browser

package emulator_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"countersign/internal/demo"
	"countersign/internal/testkit"
	"countersign/internal/testkit/chromium"
)

// pictures is where TestPictures leaves what docs/screenshot.sh makes the README's pictures of.
var pictures = flag.String("pictures", "", "folder for the README's pictures")

// showDemo runs the demo, the program and all, as `countersign demo` does.
func showDemo(t *testing.T, pace time.Duration) *demo.Demo {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan *demo.Demo, 1), make(chan error, 1)
	go func() {
		done <- demo.Run(ctx, demo.Options{Dir: t.TempDir(), Page: "127.0.0.1:0", Listen: "127.0.0.1:0", Pace: pace,
			Ready: func(d *demo.Demo) { ready <- d }})
	}()
	select {
	case d := <-ready:
		t.Cleanup(func() {
			stop()
			if err := testkit.Receive(t, "the end of the demo", done); err != nil {
				t.Error(err)
			}
		})
		return d
	case err := <-done:
		stop()
		t.Fatal(err)
		return nil
	}
}

// TestDemoInABrowser is a newcomer's round, with the cards that are really sent.
func TestDemoInABrowser(t *testing.T) {
	t.Parallel()
	d := showDemo(t, 50*time.Millisecond)
	b := chromium.Start(t)
	p := open(b, t, d.Chat.URL(), 1280, 900, chromium.Prefers("light"))
	p.Click("#story button", "Got it")
	const agent, requests = "#part-agent .entry", "#tables > :first-child tr"

	t.Run("approve in LINE, by mouse", func(t *testing.T) {
		p.T = t
		p.Click(p.Newest(lineLog, "Invoice 1041")+" .fx-button", "Approve")
		p.Says(agent, "Approved by hana")
		p.Says(agent, "moved $20.00 from treasury to acme")
		p.Says(requests, "used")
		p.Says(approvalsLog+" > *", "hana") // the Slack card says who
	})
	t.Run("approve in Slack, by keyboard", func(t *testing.T) {
		p.T = t
		card := p.Newest(approvalsLog, "limits.yaml")
		p.Says(card, "daily_limit_cents: 80000")
		p.TabTo(card+" .s-button", "Approve")
		p.Keys(kb.Enter)
		p.Says(agent, "wrote config/limits.yaml")
	})
	t.Run("deny in Slack, by keyboard, with a reason", func(t *testing.T) {
		p.T = t
		p.TabTo(p.Newest(approvalsLog, "run_command")+" .s-button", "Deny")
		p.Keys(kb.Enter)
		p.Until("a dialog asks why", `document.getElementById("view").open && document.activeElement.closest(".b-input")`)
		p.Axe("Slack's dialog")
		p.Keys("use the archive's own import")
		p.TabTo("#view button[type=submit]", "")
		p.Keys(kb.Enter)
		p.Says(agent, "use the archive's own import")
		p.Until("the dialog is closed", `!document.getElementById("view").open`)
	})
	t.Run("deny in LINE, by keyboard, with a reason typed", func(t *testing.T) {
		p.T = t
		batch := p.Newest(lineLog, "delete_file")
		p.TabTo(batch+" .fx-button", "Deny") // of the first in the carousel, which is the deletion
		p.Keys(kb.Enter)
		p.HasFocus("line-text")
		p.Until("the reason is begun", `document.getElementById("line-text").value.trim() !== ""`)
		p.Keys("keep it for the auditors", kb.Enter)
		p.Says(agent, "keep it for the auditors")
		p.Says(agent, "moved drafts/old-report.md to archive/old-report.md")
	})
	t.Run("a critical one needs a reason", func(t *testing.T) {
		p.T = t
		p.Click(p.Newest(approvalsLog, "close_books")+" .s-button", "Approve")
		p.Until("a dialog asks why", `document.getElementById("view").open && document.activeElement.closest(".b-input")`)
		p.Click("#view button[type=submit]", "")
		p.Says("#view .wrong", "Please complete this required field.")
		p.Keys("all invoices are in")
		p.Click("#view button[type=submit]", "")
		p.Says(agent, "closed 2026-11")
	})
	t.Run("the stranger decides nothing", func(t *testing.T) {
		p.T = t
		p.Click("#people label", "a stranger")
		p.Says("#slack-owner", "a stranger")
		p.Click(p.Newest(approvalsLog, "transfer_credits")+" .s-button", "Approve")
		p.Says("#part-slack .ephemeral, #view", "not an approver here")
		p.Says("#table-2-tab .badge", "1") // whoever looks at the requests sees that there was one
		p.Click("#table-2-tab", "")
		p.Until("the log says whose tap was refused", `[...document.querySelectorAll("#tables tbody tr")].some((e) =>
			e.checkVisibility() && e.innerText.includes("refused") && e.innerText.includes("a stranger"))`)
		p.Axe("the audit log")
		p.Click("#table-tabs button", "Approval requests")
	})
	t.Run("typed words", func(t *testing.T) {
		p.T = t
		p.Click("#people label", "hana")
		p.Says("#line-owner", "hana")
		chromium.Ask[any](p, `document.getElementById("line-text").focus()`)
		p.Keys("help", kb.Enter)
		p.Says(lineLog+" .msg:not(.own)", "pending")
		chromium.Ask[any](p, `document.getElementById("slack-text").focus()`)
		p.Keys("/countersign status", kb.Enter)
		p.Says(approvalsLog+" .ephemeral", "Only visible to you")
	})
	t.Run("what is seen is accessible", func(t *testing.T) {
		p.T = t
		p.Axe("the demo, light")
		p.Do(chromium.Prefers("dark"))
		p.Axe("the demo, dark")
	})
	if chromium.Ask[bool](p,
		`fetch("/page/state?person=hana").then((r) => r.text()).then((t) => t.includes("demo-token-that-opens-nothing"))`) {
		t.Error("a secret in a command's environment has reached the page")
	}
	if v := d.Chat.Violations(); len(v) != 0 {
		t.Errorf("the platforms' rules were broken: %v", v)
	}
}

// seen returns where a text of an element stands, and what covers it: an element counts as seen when its corners and
// its middle are in the window, and it is what is there.
const seen = `((selector, text) => {
	const all = [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility() && e.innerText?.includes(text));
	const e = all.at(-1);
	if (!e) return text + " is not there";
	const r = e.getBoundingClientRect();
	for (const [x, y] of [[r.left + 3, r.top + 3], [r.right - 3, r.top + 3], [r.left + r.width / 2, r.top + r.height / 2],
		[r.left + 3, r.bottom - 3], [r.right - 3, r.bottom - 3]]) {
		if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) return text + " is outside of the window, at " + [x, y];
		const top = document.elementFromPoint(x, y);
		if (!e.contains(top) && !top?.contains(e)) return text + " is covered by " + top?.outerHTML.slice(0, 120);
	}
	return "";
})`

// firstCard is what a newcomer must see of the first card.
var firstCard = []string{"HIGH risk", "Pay $20.00 from treasury to acme", "Approve", "Deny"}

// seesFirstCard waits until the first card of a conversation can be seen without scrolling, and not covered.
func seesFirstCard(t *testing.T, p *chromium.Tab, state, log string) {
	t.Helper()
	for _, text := range firstCard {
		why := ""
		for end := time.Now().Add(testkit.Patience); ; {
			why = chromium.Ask[string](p, fmt.Sprintf("%s(%s, %s)", seen, chromium.Quoted(log+" article *"),
				chromium.Quoted(text)))
			if why == "" || time.Now().After(end) {
				break
			}
		}
		if why != "" {
			t.Errorf("%s, %s: %s", state, log, why)
		}
	}
}

// TestTheFirstView looks at the page as it opens for somebody who has never seen it, and scrolls nothing: before the
// first card comes and after, and with the story told and put away.
func TestTheFirstView(t *testing.T) {
	t.Parallel()
	d := showDemo(t, 2*time.Second)
	b := chromium.Start(t)
	for _, size := range [][2]int64{{1280, 720}, {1366, 768}, {1440, 900}, {1920, 1080}, {390, 844}} {
		for _, scheme := range []string{"light", "dark"} {
			t.Run(fmt.Sprintf("%dx%d %s", size[0], size[1], scheme), func(t *testing.T) {
				p := open(b, t, d.Chat.URL(), size[0], size[1], chromium.Prefers(scheme))
				p.Says(lineLog, "Pay $20.00")
				look := func(state string) {
					t.Helper()
					logs := []string{lineLog, approvalsLog}
					if size[0] < 761 {
						logs = logs[:1]
					}
					for _, log := range logs {
						seesFirstCard(t, p, state, log)
					}
					p.Fits(state, conversations)
				}
				p.Says("#story", "The agent asks.")
				look("with the story")
				if size[0] == 1280 || size[0] == 390 {
					p.Axe("with the story")
				}
				p.Click("#story button", "Got it")
				look("without the story")
				if size[0] < 761 {
					p.Click("#to-part-slack", "")
					seesFirstCard(t, p, "Slack's tab", approvalsLog)
				}
			})
		}
	}
}

// TestTablesKeepTheirColumns looks at every cell of every table, with what the demo stores in it.
func TestTablesKeepTheirColumns(t *testing.T) {
	t.Parallel()
	d := showDemo(t, 50*time.Millisecond)
	b := chromium.Start(t)
	for _, size := range [][2]int64{{1280, 720}, {390, 844}, {320, 640}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			p := open(b, t, d.Chat.URL(), size[0], size[1], chromium.Prefers("light"))
			p.Says(lineLog, "Pay $20.00")
			p.Click("#story button", "Got it")
			if size[0] < 761 {
				p.Click("#to-part-rows", "")
			}
			for _, table := range []string{"Approval requests", "Notifications", "Audit log"} {
				p.Click("#table-tabs button", table)
				p.Says("#tables .word", map[string]string{"Approval requests": "pending", "Notifications": "sent",
					"Audit log": "asked"}[table])
				if lost := chromium.Ask[[]string](p, `(() => {
					const scroll = [...document.querySelectorAll("#tables .scroll")].find((e) => e.checkVisibility());
					const box = scroll.getBoundingClientRect();
					return [...scroll.querySelectorAll("tbody :is(th, td):not(:empty)")].filter((e) => {
						const r = e.getBoundingClientRect();
						return r.width < 4 || r.left < box.left - 1 || r.right > box.right + 1 || e.scrollWidth > e.clientWidth + 1;
					}).map((e) => e.innerText);
				})()`); len(lost) > 0 {
					t.Errorf("%s: cut off: %q", table, lost)
				}
				p.Fits(table, "#tables .scroll")
				p.Axe(table)
			}
		})
	}
}

// TestTheLanguageOnThePage switches, by keyboard, what the program sends, and the page's own words.
func TestTheLanguageOnThePage(t *testing.T) {
	t.Parallel()
	d := showDemo(t, 50*time.Millisecond)
	p := open(chromium.Start(t), t, d.Chat.URL(), 1280, 720, chromium.Prefers("light"))
	p.Click("#story button", "Got it")
	first := p.Newest(lineLog, "Pay $20.00")
	p.TabTo("#language-pick", "")
	p.Keys(kb.ArrowDown)
	p.Says("#news", "日本語")
	p.HasFocus("language-pick")
	p.Says("#line-owner", "hana のスマートフォン")
	p.Says("#part-rows", "ゲートの保存内容")
	p.Says(lineLog, "中身を見る")
	p.Axe("what has just happened")
	p.Click("#news button", "このメッセージを閉じる")
	p.Click(first+" .fx-button", "Approve")
	p.Says(lineLog, "config/limits.yaml を変更")
	p.Says(approvalsLog, "config/limits.yaml を変更")
}

// TestPictures takes the README's pictures.
func TestPictures(t *testing.T) {
	t.Parallel()
	folder, pace := *pictures, time.Second
	if folder == "" {
		folder, pace = t.TempDir(), 50*time.Millisecond // nobody looks at how far apart the clock has them
	}
	d := showDemo(t, pace)
	b := chromium.Start(t)
	onPhone := func(height int64) *chromium.Tab {
		q := open(b, t, d.Chat.URL(), 390, height, chromium.Prefers("light"))
		q.Click("#story button", "Got it")
		return q
	}
	small, tall := onPhone(920), onPhone(1080)
	p := open(b, t, d.Chat.URL(), 1400, 900, chromium.Prefers("light"))
	p.Click("#story button", "Got it")

	// The first card, on a phone.
	small.Newest(lineLog, "transfer_credits")
	picture(small, filepath.Join(folder, "line.png"), "#part-line")
	first := p.Newest(lineLog, "transfer_credits")
	p.Click(first+" .fx-button", "Approve")
	p.Says("#part-agent", "moved $20.00")

	// A change to a file, as a diff, in Slack.
	tall.Click("#to-part-slack", "")
	chromium.Ask[any](tall, fmt.Sprintf(`document.querySelector(%s).scrollIntoView()`,
		chromium.Quoted(tall.Newest(approvalsLog, "limits.yaml"))))
	picture(tall, filepath.Join(folder, "slack.png"), "#part-slack")
	p.Click(p.Newest(approvalsLog, "limits.yaml")+" .s-button", "Approve")
	p.Says("#part-agent", "wrote config/limits.yaml")

	// A command with a secret in it: denied, with a reason.
	p.Click(p.Newest(approvalsLog, "run_command")+" .s-button", "Deny")
	p.Until("a dialog asks why", `document.getElementById("view").open`)
	p.Keys("Use the archive's own import: its token stays with us.")
	picture(p, filepath.Join(folder, "dialog.png"), ".phone.slack")
	p.Click("#view button[type=submit]", "")
	p.Says("#part-agent", "its token stays with us")

	// All of it, with the first card still in sight.
	batch := p.Newest(approvalsLog, "3 approvals required")
	p.Says("#part-agent", "Three things are left")
	for _, scheme := range []string{"light", "dark"} {
		p.Do(chromium.Prefers(scheme))
		for _, e := range []string{first, batch} {
			chromium.Ask[any](p, fmt.Sprintf(`document.querySelector(%s).scrollIntoView()`, chromium.Quoted(e)))
		}
		picture(p, filepath.Join(folder, map[string]string{"light": "demo.png", "dark": "demo-dark.png"}[scheme]), "body")
	}

	// The same requests on the gate's own page.
	inbox := chromium.Open(b, t, d.Chat.URL()+"/page/inbox?person=hana", 1100, 860, chromium.Prefers("light"))
	inbox.Click("button.yes", "")
	inbox.Says("main", "delete_file")
	picture(inbox, filepath.Join(folder, "inbox.png"), "body")
}

// picture photographs an element.
func picture(p *chromium.Tab, file, selector string) {
	p.T.Helper()
	chromium.Ask[any](p, `document.activeElement.closest("dialog") || document.activeElement.blur()`)
	at := chromium.Ask[page.Viewport](p,
		fmt.Sprintf(`(() => { const r = document.querySelector(%s).getBoundingClientRect(); return {x: r.x, y: r.y, width: Math.min(r.width, innerWidth - r.x), height: Math.min(r.height, innerHeight - r.y), scale: 1}; })()`, chromium.Quoted(selector)))
	shot, err := chromium.Run(p, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		r, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{Clip: &at})
		if err != nil {
			return nil, err
		}
		return r.Data, nil
	})
	if err != nil || len(shot) < 10_000 {
		p.T.Fatalf("%s: %d bytes, %v", file, len(shot), err)
	}
	if err := os.WriteFile(file, shot, 0o644); err != nil {
		p.T.Fatal(err)
	}
}
