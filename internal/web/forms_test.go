package web

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/internal/testkit"
)

// Enter presses the first button of a form. Where a form does something and has a field, that button does nothing:
// TestRule3_EnterNeverDecides presses it, on every page.
func TestRule3_NoFormIsSentByEnter(t *testing.T) {
	t.Parallel()
	field := regexp.MustCompile(`<(input|select|textarea) `)
	forms := 0
	for name, form := range postForms(t) {
		if asksOnly(form) {
			continue
		}
		forms++
		shown := regexp.MustCompile(`<input type="hidden"[^>]*>`).ReplaceAllString(form, "")
		first, _, _ := strings.Cut(form, "<button")
		begins := strings.Contains(first, `{{template "stay"}}`) || strings.Contains(first, `{{template "hidden" .}}`)
		if field.MatchString(shown) && !begins {
			t.Errorf("%s: Enter in a field would press a button of\n%s", name, form)
		}
	}
	if forms < 15 {
		t.Errorf("only %d forms were found", forms)
	}
}

// asksOnly reports whether a form changes nothing: it asks what the policy would say.
func asksOnly(form string) bool { return strings.Contains(form, `action="/policy/`) }

// postForms are the forms of all pages, as their templates have them.
func postForms(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := templateFiles.ReadDir("templates")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := templateFiles.ReadFile("templates/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range regexp.MustCompile(`(?s)<form [^>]*method="post".*?</form>`).FindAllString(string(text), -1) {
			first, _, _ := strings.Cut(form, "\n")
			all[e.Name()+" "+first] = form
		}
	}
	return all
}

// A form says for whom its page was made. Where somebody else is signed in by then it does nothing, whatever it is for.
func TestRule8_AFormCountsForWhomItsPageWasMade(t *testing.T) {
	t.Parallel()
	for name, form := range postForms(t) {
		if !strings.Contains(form, `{{template "viewer" $}}`) {
			t.Errorf("%s does not say for whom it was made:\n%s", name, form)
		}
	}
	w := newWorld(t)
	id := w.ask("pay", `{}`)
	tried := 0
	for _, rt := range w.pages.table() {
		if rt.method != http.MethodPost {
			continue
		}
		tried++
		for _, other := range []string{"ken", "", "Hana"} {
			form := url.Values{"viewer": {other}, "v": {w.version(id)}, "do": {"approve"}, "pick": {w.pick(id)}}
			w.post("hana", strings.ReplaceAll(rt.path, "{id}", id), form).is(http.StatusConflict).
				has("Nothing was done: somebody else is signed in now")
		}
	}
	if tried < 20 {
		t.Errorf("only %d kinds of forms were tried", tried)
	}
	w.stands(id, approval.Pending)
	w.get("hana", "/r/"+id).is(http.StatusOK).has(`name="viewer" value="hana"`)
	w.post("hana", "/r/"+id+"/decide", url.Values{"viewer": {"hana"}, "v": {w.version(id)}, "do": {"approve"}}).is(
		http.StatusSeeOther)
}

// late is a form whose sender waits, once the server has begun to read it, until something is done.
type late struct {
	form io.Reader
	do   func()
}

func (l *late) Read(p []byte) (int, error) {
	if l.do != nil {
		l.do()
		l.do = nil
	}
	return l.form.Read(p)
}

// A form takes its time, and its session is ended meanwhile: nothing is done.
func TestRule8_AFormOfASessionThatEndedMeanwhileDoesNothing(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		end  func(w *revocable)
		want int
	}{
		"nothing ends it": {func(*revocable) {}, http.StatusSeeOther},
		"she ends it elsewhere": {func(w *revocable) { _, _ = w.signIns.EndOthers(w.ctx, "hana", "") },
			http.StatusUnauthorized},
		"what began it is taken back": {func(w *revocable) { w.gone.Store(true) }, http.StatusUnauthorized},
	} {
		t.Run(what, func(t *testing.T) {
			w := newRevocable(t)
			id := w.ask("pay", `{}`)
			form := w.form(id, "do", "approve", "viewer", "hana").Encode()
			r, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.srv.URL+"/r/"+id+"/decide",
				&late{strings.NewReader(form), func() { c.end(w) }})
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = int64(len(form))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			r.Header.Set("Cookie", "countersign="+w.secret)
			r.Header.Set("Expect", "100-continue") // the body is sent once the server asks for it, who sent it is known then
			transport := &http.Transport{ExpectContinueTimeout: testkit.Patience, DisableKeepAlives: true}
			res, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if approved := w.status(id) == approval.Approved; res.StatusCode != c.want ||
				approved != (c.want == http.StatusSeeOther) {
				t.Errorf("%s; approved: %v", res.Status, approved)
			}
		})
	}
}
