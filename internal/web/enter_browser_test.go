//go:build browser

package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"countersign/internal/testkit"
	"countersign/internal/testkit/chromium"
)

// posts are the paths of the forms that were sent, in their order.
type posts struct {
	mu    sync.Mutex
	paths []string
}

func (p *posts) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.paths)
}

// notePosts has the world's server remember which forms are sent.
func (w *world) notePosts() *posts {
	var sent posts
	w.srv.Close()
	w.srv = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			sent.mu.Lock()
			sent.paths = append(sent.paths, r.URL.Path)
			sent.mu.Unlock()
		}
		w.pages.ServeHTTP(rw, r)
	}))
	return &sent
}

// Enter in a field, or on a tick box, sends what decides nothing, on every page, whether scripts run or not. What tells
// that nothing else was sent is that the browser's next form came.
func TestRule3_EnterNeverDecides(t *testing.T) {
	t.Parallel()
	fields := 0
	for _, are := range []scripting{withScripts, withoutScripts} {
		p := chromium.Open(chromium.Start(t), t, "about:blank", 390, 844, scripts(are))
		for _, l := range looks {
			if l.status != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s, scripts %t", l.name, are), func(t *testing.T) {
				p.Lend(t)
				w := l.world(t)
				sent := w.notePosts()
				w.visit(p, l, 390)
				fields += w.pressEnter(p, sent)
			})
		}
	}
	if fields < 40 {
		t.Errorf("only %d fields were tried", fields)
	}
}

// pressEnter presses Enter in every field of a page, those first that send no form by it, and returns how many there
// are.
func (w *world) pressEnter(p *chromium.Tab, sent *posts) int {
	p.T.Helper()
	count := chromium.Ask[int](p, `(() => { for (const e of document.querySelectorAll("main details")) e.open = true;
		for (const e of document.querySelectorAll("[name=pick]")) e.checked = true;
		window.fields = [...document.querySelectorAll("form[method=post]:not([action^='/policy/'])")].flatMap((f) => [...f.elements])
			.filter((e) => e.checkVisibility() && (e.matches("textarea, select") || e.matches("input:not([type=hidden])")))
			.sort((a, b) => a.matches("input") - b.matches("input")); return window.fields.length; })()`)
	want := 0
	for i := range count {
		kind := chromium.Ask[string](p,
			fmt.Sprintf(`(() => { const e = window.fields[%d]; e.focus(); if (e.type === "text") e.value = "x";
			return e.localName === "input" ? e.type : ""; })()`, i))
		p.Keys(kb.Enter)
		if kind == "" {
			p.Keys(kb.Escape) // a menu that it may have opened
			continue
		}
		want++
		testkit.Eventually(p.T, "a form is sent by Enter in "+kind, func() bool { return len(sent.all()) >= want })
	}
	for _, path := range sent.all() {
		if path != "/stay" {
			p.T.Errorf("Enter sent %s", path)
		}
	}
	return count
}
