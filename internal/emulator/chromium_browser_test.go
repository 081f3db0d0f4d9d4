//go:build browser

package emulator_test

import (
	"context"
	"testing"

	"countersign/internal/testkit/chromium"
)

// conversations are what must not be wider than the screen, beside the page.
const conversations = ".log, .lines, dialog"

// open opens the chat page.
func open(browser context.Context, t *testing.T, url string, width, height int64,
	before ...chromium.Act) *chromium.Tab {
	t.Helper()
	p := chromium.Open(browser, t, url+"/", width, height, before...)
	p.Until("the page has drawn its people", `document.querySelectorAll("#people input").length > 0`)
	return p
}
