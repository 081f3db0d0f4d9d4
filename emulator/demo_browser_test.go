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

	"countersign/demo"
)

// pictures is where TestPictures leaves what docs/screenshot.sh makes the README's pictures of.
var pictures = flag.String("pictures", "", "folder for the README's pictures")

// showDemo runs the demo, the program and all, as `countersign demo` does.
func showDemo(t *testing.T, pace time.Duration) *demo.Demo {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan *demo.Demo, 1), make(chan error, 1)
	go func() {
		done <- demo.Run(ctx, demo.Options{Dir: t.TempDir(), Page: "127.0.0.1:0", Listen: "127.0.0.1:0", Pace: pace, Ready: func(d *demo.Demo) { ready <- d }})
	}()
	select {
	case d := <-ready:
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
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
	d := showDemo(t, 50*time.Millisecond)
	b := openBrowser(t)
	p := open(b, t, d.Chat.URL(), 1280, 900, prefers("light"))
	p.click("#story button", "Got it")
	const agent, requests = "#part-agent .entry", "#tables > :first-child tr"

	t.Run("approve in LINE, by mouse", func(t *testing.T) {
		p.t = t
		p.click(p.newest(lineLog, "Invoice 1041")+" .fx-button", "Approve")
		p.says(agent, "Approved by hana")
		p.says(agent, "moved $20.00 from treasury to acme")
		p.says(requests, "used")
		p.says(approvalsLog+" > *", "hana") // the Slack card says who
	})
	t.Run("approve in Slack, by keyboard", func(t *testing.T) {
		p.t = t
		card := p.newest(approvalsLog, "limits.yaml")
		p.says(card, "daily_limit_cents: 80000")
		p.tabTo(card+" .s-button", "Approve")
		p.keys(kb.Enter)
		p.says(agent, "wrote config/limits.yaml")
	})
	t.Run("deny in Slack, by keyboard, with a reason", func(t *testing.T) {
		p.t = t
		p.tabTo(p.newest(approvalsLog, "run_command")+" .s-button", "Deny")
		p.keys(kb.Enter)
		p.until("a dialog asks why", `document.getElementById("view").open && document.activeElement.closest(".b-input")`)
		p.axe("Slack's dialog")
		p.keys("use the archive's own import")
		p.tabTo("#view button[type=submit]", "")
		p.keys(kb.Enter)
		p.says(agent, "use the archive's own import")
		p.until("the dialog is closed", `!document.getElementById("view").open`)
	})
	t.Run("deny in LINE, by keyboard, with a reason typed", func(t *testing.T) {
		p.t = t
		batch := p.newest(lineLog, "delete_file")
		p.tabTo(batch+" .fx-button", "Deny") // of the first in the carousel, which is the deletion
		p.keys(kb.Enter)
		p.hasFocus("line-text")
		p.until("the reason is begun", `document.getElementById("line-text").value.trim() !== ""`)
		p.keys("keep it for the auditors", kb.Enter)
		p.says(agent, "keep it for the auditors")
		p.says(agent, "moved drafts/old-report.md to archive/old-report.md")
	})
	t.Run("a critical one needs a reason", func(t *testing.T) {
		p.t = t
		p.click(p.newest(approvalsLog, "close_books")+" .s-button", "Approve")
		p.until("a dialog asks why", `document.getElementById("view").open && document.activeElement.closest(".b-input")`)
		p.click("#view button[type=submit]", "")
		p.says("#view .wrong", "Please complete this required field.")
		p.keys("all invoices are in")
		p.click("#view button[type=submit]", "")
		p.says(agent, "closed 2026-11")
	})
	t.Run("the stranger decides nothing", func(t *testing.T) {
		p.t = t
		p.click("#people label", "a stranger")
		p.says("#slack-owner", "a stranger")
		p.click(p.newest(approvalsLog, "transfer_credits")+" .s-button", "Approve")
		p.says("#part-slack .ephemeral, #view", "may not")
	})
	t.Run("typed words", func(t *testing.T) {
		p.t = t
		p.click("#people label", "hana")
		p.says("#line-owner", "hana")
		ask[any](p, `document.getElementById("line-text").focus()`)
		p.keys("help", kb.Enter)
		p.says(lineLog+" .msg:not(.own)", "pending")
		ask[any](p, `document.getElementById("slack-text").focus()`)
		p.keys("/countersign status", kb.Enter)
		p.says(approvalsLog+" .ephemeral", "Only visible to you")
	})
	t.Run("what is seen is accessible", func(t *testing.T) {
		p.t = t
		p.axe("the demo, light")
		p.do(prefers("dark"))
		p.axe("the demo, dark")
	})
	if ask[bool](p, `fetch("/page/state?person=hana").then((r) => r.text()).then((t) => t.includes("demo-token-that-opens-nothing"))`) {
		t.Error("a secret in a command's environment has reached the page")
	}
	if v := d.Chat.Violations(); len(v) != 0 {
		t.Errorf("the platforms' rules were broken: %v", v)
	}
}

// TestPictures takes the README's pictures.
func TestPictures(t *testing.T) {
	folder := *pictures
	if folder == "" {
		folder = t.TempDir()
	}
	d := showDemo(t, time.Second)
	b := openBrowser(t)
	onPhone := func(height int64) *tab {
		q := open(b, t, d.Chat.URL(), 390, height, prefers("light"))
		q.click("#story button", "Got it")
		return q
	}
	small, tall := onPhone(860), onPhone(1040)
	p := open(b, t, d.Chat.URL(), 1400, 900, prefers("light"))
	p.click("#story button", "Got it")

	// The first card, on a phone.
	small.newest(lineLog, "transfer_credits")
	small.picture(filepath.Join(folder, "line.png"), "#part-line")
	first := p.newest(lineLog, "transfer_credits")
	p.click(first+" .fx-button", "Approve")
	p.says("#part-agent", "moved $20.00")

	// A change to a file, as a diff, in Slack.
	tall.click("#to-part-slack", "")
	ask[any](tall, fmt.Sprintf(`document.querySelector(%s).scrollIntoView()`, quoted(tall.newest(approvalsLog, "limits.yaml"))))
	tall.picture(filepath.Join(folder, "slack.png"), "#part-slack")
	p.click(p.newest(approvalsLog, "limits.yaml")+" .s-button", "Approve")
	p.says("#part-agent", "wrote config/limits.yaml")

	// A command with a secret in it: denied, with a reason.
	p.click(p.newest(approvalsLog, "run_command")+" .s-button", "Deny")
	p.until("a dialog asks why", `document.getElementById("view").open`)
	p.keys("Use the archive's own import: its token stays with us.")
	p.picture(filepath.Join(folder, "dialog.png"), ".phone.slack")
	p.click("#view button[type=submit]", "")
	p.says("#part-agent", "its token stays with us")

	// All of it, with the first card still in sight.
	batch := p.newest(approvalsLog, "3 approvals needed")
	p.says("#part-agent", "Three things are left")
	for _, scheme := range []string{"light", "dark"} {
		p.do(prefers(scheme))
		for _, e := range []string{first, batch} {
			ask[any](p, fmt.Sprintf(`document.querySelector(%s).scrollIntoView()`, quoted(e)))
		}
		p.picture(filepath.Join(folder, map[string]string{"light": "demo.png", "dark": "demo-dark.png"}[scheme]), "body")
	}
}

// picture photographs an element.
func (p *tab) picture(file, selector string) {
	p.t.Helper()
	ask[any](p, `document.activeElement.closest("dialog") || document.activeElement.blur()`)
	at := ask[page.Viewport](p, fmt.Sprintf(`(() => { const r = document.querySelector(%s).getBoundingClientRect(); return {x: r.x, y: r.y, width: Math.min(r.width, innerWidth - r.x), height: Math.min(r.height, innerHeight - r.y), scale: 1}; })()`, quoted(selector)))
	shot, err := chromedp.Run(p.ctx, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		r, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{Clip: &at})
		if err != nil {
			return nil, err
		}
		return r.Data, nil
	})
	if err != nil || len(shot) < 10_000 {
		p.t.Fatalf("%s: %d bytes, %v", file, len(shot), err)
	}
	if err := os.WriteFile(file, shot, 0o644); err != nil {
		p.t.Fatal(err)
	}
}
