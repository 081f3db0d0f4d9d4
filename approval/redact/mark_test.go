package redact

import (
	"strconv"
	"strings"
	"testing"
)

// thai and japanese are marks in other languages.
func thai(n int, sum string) string {
	return "•••• (" + strconv.Itoa(n) + " ตัวอักษร, sha256 " + sum + ")"
}

func japanese(n int, sum string) string {
	return "••••（" + strconv.Itoa(n) + "文字、sha256 " + sum + "）"
}

func TestMarksInTheReadersLanguage(t *testing.T) {
	const in = `{"pin_code_password":1234,"password":"hunter2hunter2","run":"curl --token abcdefghijklmnop x"}`
	for _, c := range []struct {
		mark Mark
		want string
	}{
		{thai, "•••• (14 ตัวอักษร, sha256 76880d60)"},
		{japanese, "••••（14文字、sha256 76880d60）"},
		{EnglishMark, "•••• (14 characters, sha256 76880d60)"},
	} {
		for name, m := range map[string]*Masker{
			"nil": (*Masker)(nil).In(c.mark), "keeping": New("x").In(c.mark).Keeping("y"), "new": New().In(c.mark),
		} {
			got, n := m.Args([]byte(in))
			if n != 3 || !strings.Contains(string(got), `"password":"`+c.want+`"`) {
				t.Errorf("%s: %d masked in %s", name, n, got)
			}
			if strings.Count(string(got), "sha256") != 3 {
				t.Errorf("%s: marks in %s", name, got)
			}
			again, n := m.Args(got)
			if n != 0 || string(again) != string(got) {
				t.Errorf("%s: masked twice: %s", name, again)
			}
			if log, _ := m.ForLogs().Args([]byte(in)); strings.Count(string(log), " characters, sha256 ") != 3 {
				t.Errorf("%s: not in English for logs: %s", name, log)
			}
		}
	}
}

// What was masked for a reader may be masked once more for a log, as a text and under a name.
func TestAMarkInAnyLanguageIsNotMaskedAgain(t *testing.T) {
	for _, mark := range []Mark{thai, japanese, EnglishMark} {
		m := mark(14, "76880d60")
		for _, in := range []string{m, "password=" + m, "password: " + m + " and more", "Authorization: Bearer " + m} {
			for _, masker := range []*Masker{New(), New().ForLogs(), New().In(thai)} {
				if got, n := masker.Text(in); n != 0 || got != in {
					t.Errorf("%q became %q", in, got)
				}
			}
		}
		in := `{"password":"` + m + `","cookie":["` + m + `"]}`
		if got, n := New().ForLogs().Args([]byte(in)); n != 0 || string(got) != in {
			t.Errorf("%s became %s", in, got)
		}
	}
	for _, secret := range []string{"••••hunter2", "•••• (hunter2)", "•••• (hunter2, sha256 hunter2)", "••••（秘密）"} {
		if got, n := New().ForLogs().Args([]byte(`{"password":"` + secret + `"}`)); n != 1 {
			t.Errorf("%q passes for a mark: %s", secret, got)
		}
	}
}
