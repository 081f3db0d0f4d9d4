package web

import (
	"regexp"
	"strings"
	"testing"
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
