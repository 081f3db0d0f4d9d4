package app_test

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"countersign/client"
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

// redeem posts the form of a link's page, and returns the cookie.
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
	if got := w.page(w.url("/signout"), hana, url.Values{}); got.StatusCode != http.StatusSeeOther || w.in(hana) {
		t.Errorf("signing out: %s", got.Status)
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
