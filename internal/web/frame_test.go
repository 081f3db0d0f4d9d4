package web

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// What a page says of times is of one moment: none is past in one line and to come in another.
func TestTheTimeIsTakenOnceForEachRequest(t *testing.T) {
	t.Parallel()
	var taken atomic.Int32
	w := newWorld(t, func(o *Options) {
		now := o.Now
		o.Now = func() time.Time { taken.Add(1); return now() }
	})
	pages := []string{"/", "/r/" + w.ask("pay", `{}`), "/grants", "/people", "/policy", "/history", "/nowhere"}
	for _, path := range pages {
		before := taken.Load()
		if w.get("hana", path); taken.Load() != before+1 {
			t.Errorf("%s: it was taken %d times", path, taken.Load()-before)
		}
	}
	before := taken.Load()
	if w.post("hana", "/people/freeze", url.Values{"agent": {"bot"}}); taken.Load() != before+1 {
		t.Errorf("a form: it was taken %d times", taken.Load()-before)
	}
}

func TestWhoIsNotSignedInIsTakenToWhereTheyCan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.get("", "/?risk=high").is(http.StatusSeeOther)
	if got := r.header.Get("Location"); got != "/signin?next="+url.QueryEscape("/?risk=high") {
		t.Errorf("to %q", got)
	}
	w.get("stranger", "/").is(http.StatusSeeOther)
}

func TestAnAgentsTokenOpensNoPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, token := range []string{"token-of-bot-0123456789", "token-of-hana-0123456789"} {
		w.get("", "/", "Authorization", "Bearer "+token).is(http.StatusSeeOther)
	}
}

// Every answer, whatever it is, can be kept by nobody, be framed by nobody and run nobody else's script.
func TestEveryAnswerSaysWhatBrowsersMustNotDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/", "/nowhere", "/assets/app.css", "/assets/none.css"} {
		for _, who := range []string{"hana", ""} {
			h := w.get(who, path).header
			for name, want := range map[string]string{"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
				"Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin",
				"Cross-Origin-Resource-Policy": "same-origin"} {
				if got := h.Get(name); got != want {
					t.Errorf("%s: %s is %q", path, name, got)
				}
			}
			csp := h.Get("Content-Security-Policy")
			for _, s := range []string{"default-src 'none'", "script-src 'self';", "frame-ancestors 'none'", "base-uri 'none'",
				"form-action 'self'"} {
				if !strings.Contains(csp, s) {
					t.Errorf("%s: no %q in %q", path, s, csp)
				}
			}
		}
	}
}

func TestPagesUnderAnotherNameAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *Options) { o.Base = func() string { return "https://gate.example.com" } })
	for host, want := range map[string]int{"gate.example.com": 200, "GATE.example.com": 200, "localhost:8787": 200,
		"127.0.0.1": 200, "[::1]:1": 200,
		"evil.example": 421, "gate.example.com.evil.example": 421, "gate.example.com:444": 421, "": 200} {
		if host == "" {
			continue
		}
		if r := w.get("hana", "/", "Host", host); r.status != want {
			t.Errorf("%s: %d, want %d", host, r.status, want)
		}
	}
}

func TestFormsFromElsewhereAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
		{"Origin", "https://evil.example"}, {"Origin", "null"}} {
		w.send("hana", http.MethodPost, "/", url.Values{"a": {"b"}}, header...).is(http.StatusForbidden)
	}
}

func TestWhereAPageMayLead(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{"/": "/", "/r/1?x=1#y": "/r/1?x=1#y", "": "/", "//evil.example": "/",
		"/\\evil.example":      "/",
		"https://evil.example": "/", "javascript:alert(1)": "/", "/\tevil": "/", "/\n/evil.example": "/", "\\/evil": "/",
		"/%2f/evil.example": "/",
		" /":                "/", "/a b": "/", "/ü": "/", strings.Repeat("/", 3000): "/"} {
		if got := localPath(to); got != want {
			t.Errorf("%q leads to %q", to, got)
		}
	}
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.get("yuki", "/").is(200).has(`<html lang="ja">`, "受信箱")
	w.get("som", "/").is(200).has(`<html lang="th">`)
	w.get("mei", "/").is(200).has(`<html lang="zh-TW">`)
	w.get("hana", "/", "Accept-Language", "ja").is(200).has(`<html lang="en">`) // their own comes first
}
