package app_test

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/internal/auth/openid/openidtest"
)

// change puts a configuration in force at once.
func (w *world) change(change func(string) string) {
	w.t.Helper()
	text, err := os.ReadFile(w.path)
	if err == nil {
		err = os.WriteFile(w.path, []byte(change(string(text))), 0o600)
	}
	if err == nil {
		err = w.app.Reload(w.ctx)
	}
	if err != nil {
		w.t.Error(err)
	}
}

// without returns a change that removes the line that begins so.
func without(begins string) func(string) string {
	return func(text string) string {
		before, rest, found := strings.Cut(text, begins)
		if !found {
			panic("the configuration does not hold " + begins)
		}
		_, after, _ := strings.Cut(rest, "\n")
		return before + after
	}
}

// Somebody is on their way back from a provider, which vouches for them, while the configuration is replaced. What they
// have shown is not what the person has by now: nobody is signed in, now or when it is theirs again.
func TestRule8_WhatAProviderSaidBeforeAReloadSignsNobodyIn(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(string) string{
		"another subject": replacing("openid: subject-1", "openid: subject-2"),
		"the person":      without("  - {name: mei,"),
		"no provider":     without("sign_in: "),
		"nothing":         func(text string) string { return text },
	} {
		t.Run(what, func(t *testing.T) {
			provider := openidtest.New(t, openidtest.Options{Now: time.Now})
			w := newWorld(t, replacing("channels:\n", "  - {name: mei, openid: subject-1}\nchannels:\n"),
				func(text string) string {
					return text + fmt.Sprintf("sign_in: {openid: {issuer: %q, client_id: %s, client_secret: %q, name: Example}}\n",
						provider.Issuer(), openidtest.ClientID, openidtest.ClientSecret)
				})
			var once sync.Once
			provider.Lie(openidtest.Lies{Handle: func(_ http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/token" {
					once.Do(func() { w.change(change) })
				}
				return false
			}})
			_, port, _ := strings.Cut(w.app.Addr(), ":")
			at := "http://localhost:" + port
			jar, err := cookiejar.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			browser := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
			res, err := browser.PostForm(at+"/signin/openid", url.Values{})
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			to := regexp.MustCompile(`<meta http-equiv="refresh" content="0; url=([^"]*)">`).FindSubmatch(body)
			if err != nil || to == nil {
				t.Fatalf("%v, %s", err, body)
			}
			if res, err = browser.Get(html.UnescapeString(string(to[1]))); err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			in := res.Request.URL.Path == "/" && res.StatusCode == http.StatusOK
			if in != (what == "nothing") {
				t.Errorf("%s changes, and it leads to %s, %s", what, res.Request.URL.Path, res.Status)
			}
			if n := len(w.audit("signed_in")); (n != 0) != (what == "nothing") {
				t.Errorf("%d sessions began", n)
			}
		})
	}
}

// A channel that is taken out of the configuration takes with it what began there, though people have their ids yet.
func TestRule8_WithAChannelsSectionGoesWhatBeganThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(w.chat.LINE.Type(w.ctx, "hana", "sign in", ""))
	byLINE := w.redeem(w.linkIn(string(w.lineCard("/signin/link", 1).JSON)))
	w.ok(w.chat.LINE.Type(w.ctx, "hana", "sign in", ""))
	unused := w.linkIn(string(w.lineCard("/signin/link", 2).JSON))
	w.ok(w.chat.Slack.Type(w.ctx, "ken", "sign in", ""))
	bySlack := w.redeem(w.linkIn(w.slackTold(w.chat.Slack.DM("ken"), "")))
	byToken := w.signIn(w.hana)
	if !w.in(byLINE) || !w.in(bySlack) || !w.in(byToken) {
		t.Fatal("they are not signed in")
	}
	w.change(without("  line: {channel_secret"))
	if w.in(byLINE) || !w.in(bySlack) || !w.in(byToken) {
		t.Errorf("signed in by LINE, Slack, token: %v %v %v", w.in(byLINE), w.in(bySlack), w.in(byToken))
	}
	if got := w.page(unused, "", nil); got.StatusCode != http.StatusGone {
		t.Errorf("the unused link: %s", got.Status)
	}
	if es := w.audit("session_ended"); len(es) != 1 || es[0].Reason != "revoked" {
		t.Errorf("on record: %+v", es)
	}
}
