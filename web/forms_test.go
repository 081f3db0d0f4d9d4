package web

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"countersign/approval"
)

// Enter presses the first button of a form. Where a form does something and has a field, that button does nothing:
// TestRule3_EnterNeverDecides presses it, on every page.
func TestRule3_NoFormIsSentByEnter(t *testing.T) {
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
	w.post("hana", "/r/"+id+"/decide", url.Values{"viewer": {"hana"}, "v": {w.version(id)}, "do": {"approve"}}).is(http.StatusSeeOther)
}
