package app_test

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/emulator"
)

// page gets a page, or posts a form to it, as a browser with this cookie.
func (w *world) page(address, cookie string, form url.Values) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.ctx, http.MethodGet, address, nil)
	if form != nil {
		r, err = http.NewRequestWithContext(w.ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	res.Body.Close()
	return res
}

// signIn redeems a link that a person's token makes, and returns the cookie.
func (w *world) signIn(c *client.Client) string {
	w.t.Helper()
	l, err := c.SignInLink(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.redeem(l.URL)
}

// redeem posts the form of a link's page, and returns the cookie; the key that forms take is in w.key.
func (w *world) redeem(link string) string {
	w.t.Helper()
	if got := w.page(link, "", nil); got.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %s", link, got.Status)
	}
	at, err := url.Parse(link)
	if err != nil {
		w.t.Fatal(err)
	}
	got := w.page(link, "", url.Values{"t": at.Query()["t"]})
	for _, c := range got.Cookies() {
		if c.Name == "countersign" {
			_, key, _ := strings.Cut(got.Header.Get("Location"), "#key=")
			_, w.key, _ = strings.Cut(key, ".")
			return c.Name + "=" + c.Value
		}
	}
	w.t.Fatalf("signing in: %s", got.Status)
	return ""
}

// in reports whether the inbox opens.
func (w *world) in(cookie string) bool {
	w.t.Helper()
	switch got := w.page(w.url("/"), cookie, nil); got.StatusCode {
	case http.StatusOK:
		return true
	case http.StatusSeeOther:
	default:
		w.t.Errorf("the inbox: %s", got.Status)
	}
	return false
}

func TestRule2_WhoeverIsTakenOutOfTheConfigurationIsSignedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hana, ken := w.signIn(w.hana), w.signIn(w.client("KEN_TOKEN"))
	if !w.in(hana) || !w.in(ken) || w.in("") || w.in("countersign="+strings.Repeat("a", 52)) {
		t.Error("the wrong ones are signed in")
	}
	if _, err := w.bot.SignInLink(w.ctx); client.CodeOf(err) != "people_only" {
		t.Errorf("an agent's link: %v", err)
	}
	kens := `  - {name: ken, roles: [approver], slack: U03KEN, token: "${KEN_TOKEN}"}` + "\n"
	w.reload(replacing(kens, ""))
	if !w.in(hana) || w.in(ken) {
		t.Error("ken can still look")
	}
	w.reload(func(text string) string { return strings.Replace(text, "channels:\n", kens+"channels:\n", 1) })
	if w.in(ken) {
		t.Error("ken is back by a session from before")
	}
	if es := w.audit("session_ended"); len(es) != 1 {
		t.Errorf("on record: %+v", es)
	}
}

// A backup holds sessions that were ended after it was made.
func TestARestoredBackupSignsNobodyIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hana := w.signIn(w.hana)
	w.stop()
	backup, err := os.ReadFile(w.env["STORE"])
	if err != nil {
		t.Fatal(err)
	}
	w.start()
	if !w.in(hana) {
		t.Error("a restart signs people out")
	}
	again := w.signIn(w.hana) // with a key, of which the restart has taken the first
	if got := w.page(w.url("/sessions"), again, url.Values{"viewer": {"hana"},
		"key": {w.key}}); got.StatusCode != http.StatusSeeOther || w.in(hana) {
		t.Errorf("ending the other sessions: %s", got.Status)
	}
	w.stop()
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(w.env["STORE"] + suffix); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(w.env["STORE"], backup, 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	if w.in(hana) {
		t.Error("hana is signed in again, by a session that was ended")
	}
}

// linkIn finds the address of a link in what a platform was sent.
func (w *world) linkIn(text string) string {
	w.t.Helper()
	found := regexp.MustCompile(`http://localhost:[0-9]+/signin/link\?t=[a-z2-7]{52}`).FindString(text)
	if found == "" {
		w.t.Fatalf("no link in %s", text)
	}
	return found
}

// slackTold waits for a message of the bot with a button that leads to a link.
func (w *world) slackTold(channel, only string) string {
	w.t.Helper()
	var found string
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	if err := w.chat.WaitFor(ctx, func() bool {
		for _, m := range w.chat.Slack.Messages(channel) {
			if m.FromBot && m.Ephemeral == only && strings.Contains(string(m.Blocks), "/signin/link") {
				found = string(m.Blocks)
			}
		}
		return found != ""
	}); err != nil {
		w.t.Fatal("Slack was told nothing of the kind")
	}
	return found
}

func TestWhoeverTypesSignInGetsALinkAndNobodyElseSeesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(w.chat.LINE.Type(w.ctx, "hana", "サインイン", ""))
	link := w.linkIn(string(w.lineCard("/signin/link", 1).JSON))
	if !w.in(w.redeem(link)) {
		t.Error("hana is not signed in")
	}
	if got := w.page(link, "", nil); got.StatusCode != http.StatusGone {
		t.Errorf("the link once more: %s", got.Status)
	}
	w.ok(w.chat.Slack.Slash(w.ctx, "ken", "C0APPROVALS", "/countersign", "inbox"))
	if !w.in(w.redeem(w.linkIn(w.slackTold("C0APPROVALS", "U03KEN")))) {
		t.Error("ken is not signed in by /countersign inbox")
	}
	w.ok(w.chat.Slack.Type(w.ctx, "ken", "sign in", ""))
	if !w.in(w.redeem(w.linkIn(w.slackTold(w.chat.Slack.DM("ken"), "")))) {
		t.Error("ken is not signed in by words")
	}
	w.ok(w.chat.Slack.Mention(w.ctx, "hana", "C0APPROVALS", "sign in", ""))
	if !w.in(w.redeem(w.linkIn(w.slackTold(w.chat.Slack.DM("hana"), "")))) {
		t.Error("hana is not signed in by words at the bot's name")
	}
	for _, m := range w.chat.Slack.Messages("C0APPROVALS") {
		if m.Ephemeral == "" && strings.Contains(string(m.Blocks)+m.Text, "/signin/link") {
			t.Errorf("everybody sees %s", m.Blocks)
		}
	}
	if es := w.audit("sign_in_link_made"); len(es) != 4 {
		t.Errorf("links on record: %+v", es)
	}
	// Nothing that is stored opens anything.
	w.stop()
	stored, err := os.ReadFile(w.env["STORE"])
	if err != nil {
		t.Fatal(err)
	}
	if at, err := url.Parse(link); err != nil || bytes.Contains(stored, []byte(at.Query().Get("t"))) {
		t.Errorf("the token is in the store, %v", err)
	}
	w.start()
}

func TestStrangersGetNoLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(w.chat.LINE.Type(w.ctx, emulator.StrangerName, "sign in", ""))
	w.ok(w.chat.Slack.Slash(w.ctx, emulator.StrangerName, "C0APPROVALS", "/countersign", "inbox"))
	w.eventually("both are refused", func() bool { return len(w.audit("decision_refused")) == 2 })
	if es := w.audit("sign_in_link_made"); len(es) != 0 {
		t.Errorf("links: %+v", es)
	}
}

func TestTooManyLinksAreRefusedInWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 9 {
		w.ok(w.chat.LINE.Type(w.ctx, "hana", "sign in", ""))
	}
	w.told("Wait ten minutes")
	if es := w.audit("sign_in_link_made"); len(es) != 8 {
		t.Errorf("%d links", len(es))
	}
}
