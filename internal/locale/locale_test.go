package locale

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/template/parse"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"

	"countersign/internal/locale/phrases"
	"countersign/internal/testkit"
)

// catalogue reads the sentences of one file, by id.
func catalogue(t *testing.T, tag string) map[string]*i18n.Message {
	t.Helper()
	messages := map[string]*i18n.Message{}
	for _, area := range append([]string{""}, areas()...) {
		b, err := files.ReadFile(path.Join(area, tag+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		all, err := i18n.ParseMessageFileBytes(b, tag+".yaml", map[string]i18n.UnmarshalFunc{"yaml": yaml.Unmarshal})
		if err != nil {
			t.Fatalf("%s/%s: %v", area, tag, err)
		}
		for _, m := range all.Messages {
			if messages[m.ID] != nil || area != "" && !strings.HasPrefix(m.ID, area+"_") {
				t.Errorf("%s/%s: %s is there already, or is of another area", area, tag, m.ID)
			}
			messages[m.ID] = m
		}
	}
	return messages
}

// english is every sentence that there is: of cards, and of the gate.
func english(t *testing.T) map[string]*i18n.Message {
	t.Helper()
	messages := catalogue(t, Default)
	if len(messages) < 40 {
		t.Fatalf("read %d sentences", len(messages))
	}
	for p, s := range phrases.English {
		if messages[string(p)] != nil {
			t.Errorf("%q is both a sentence of the gate and in en.yaml", p)
		}
		messages[string(p)] = &i18n.Message{ID: string(p), Other: braces.Replace(s)}
	}
	return messages
}

// forms are the forms that a sentence has, by their CLDR names.
func forms(m *i18n.Message) map[string]string {
	f := map[string]string{"zero": m.Zero, "one": m.One, "two": m.Two, "few": m.Few, "many": m.Many, "other": m.Other}
	maps.DeleteFunc(f, func(_, s string) bool { return s == "" })
	return f
}

// placeholders returns the names that are filled in. A sentence is text and placeholders, and nothing else that a
// template can have.
func placeholders(t *testing.T, id, s string) []string {
	t.Helper()
	trees, err := parse.Parse(id, s, "", "")
	if err != nil {
		t.Errorf("%s: %v", id, err)
		return nil
	}
	var names []string
	for _, n := range trees[id].Root.Nodes {
		if n.Type() == parse.NodeText {
			continue
		}
		a, ok := n.(*parse.ActionNode)
		if !ok || !regexp.MustCompile(`^\{\{\.[a-z]+\}\}$`).MatchString(a.String()) {
			t.Errorf("%s: %s is no placeholder", id, n)
			continue
		}
		names = append(names, strings.Trim(a.String(), "{.}"))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// uncounted are the English sentences that read alike for every {{.n}}, or that are said of two or more
// only.
var uncounted = []string{
	"told_quotes_many", "told_many_wait", "told_newest_wait", "told_many_sent", "told_newest_sent", "told_which_one",
	"told_status_pending", "told_log",
}

func TestEnglishCounts(t *testing.T) {
	for id, m := range english(t) {
		want := []string{"other"}
		if slices.Contains(placeholders(t, id, m.Other), "n") && !slices.Contains(uncounted, id) {
			want = []string{"one", "other"}
		}
		f := forms(m)
		if got := slices.Sorted(maps.Keys(f)); !slices.Equal(got, want) {
			t.Errorf("%s has the forms %v, want %v", id, got, want)
			continue
		}
		if one := f["one"]; one != "" && !slices.Equal(placeholders(t, id, one), placeholders(t, id, m.Other)) {
			t.Errorf("%s: its forms have not the same placeholders", id)
		}
	}
}

// alike are the sentences that have no words to translate.
var alike = map[string][]string{
	"ja": {"alt_batch", "alt_reply", "and_then", "fact", "list_last", "list_more", "looser_arg", "looser_by", "looser_call",
		"looser_calls", "on_day", "told_left_one", "told_call", "told_of", "when_away", "who_more"},
	"th": {"alt_reply", "and_then", "fact", "list_more", "looser_arg", "looser_call", "looser_calls", "told_left_one",
		"told_call", "told_of", "when_away", "who_more"},
	"zh-TW": {"alt_batch", "alt_reply", "and_then", "fact", "list_last", "list_more", "looser_arg", "looser_by",
		"looser_call", "looser_calls", "on_day", "told_left_one", "told_call", "told_of", "when_away", "who_more"},
}

// scripts are the letters without which a sentence is not in the language.
var scripts = map[string][]*unicode.RangeTable{
	"ja":    {unicode.Hiragana, unicode.Katakana, unicode.Han},
	"th":    {unicode.Thai},
	"zh-TW": {unicode.Han},
}

// verbatim is what every language leaves as it is: what is typed into a shell, and signs.
var verbatim = regexp.MustCompile(`countersign show|<id>|Countersign|LINE|3000|[⚠🔒✍⋯✎]`)

func TestTranslations(t *testing.T) {
	english := english(t)
	for _, tag := range tags[1:] {
		messages := catalogue(t, tag)
		for _, id := range slices.Sorted(maps.Keys(messages)) {
			if english[id] == nil {
				t.Errorf("%s: %s is no sentence in English", tag, id)
			}
		}
		for _, id := range slices.Sorted(maps.Keys(english)) {
			en, m := english[id], messages[id]
			if m == nil {
				t.Errorf("%s lacks %s: %q", tag, id, en.Other)
				continue
			}
			if got := slices.Sorted(maps.Keys(forms(m))); !slices.Equal(got, []string{"other"}) {
				t.Errorf("%s: %s has the forms %v, want other alone", tag, id, got)
			}
			if got, want := placeholders(t, id, m.Other), placeholders(t, id, en.Other); !slices.Equal(got, want) {
				t.Errorf("%s: %s has the placeholders %v, want %v", tag, id, got, want)
			}
			if got, want := signs(m.Other), signs(en.Other); !slices.Equal(got, want) {
				t.Errorf("%s: %s leaves %q as they are, want %q", tag, id, got, want)
			}
			if translated := strings.IndexFunc(m.Other, func(r rune) bool {
				return unicode.In(r, scripts[tag]...)
			}) >= 0; translated == slices.Contains(alike[tag], id) {
				t.Errorf("%s: %s is %q: translated or on the list, and not both", tag, id, m.Other)
			}
			if strings.TrimSpace(m.Other) != m.Other && id != "reason_prefix" && !strings.HasSuffix(id, "_begun") {
				t.Errorf("%s: %s begins or ends with a space", tag, id)
			}
		}
	}
}

func signs(s string) []string {
	found := verbatim.FindAllString(s, -1)
	slices.Sort(found)
	return found
}

// Letters that only simplified Chinese has do not belong into the traditional one.
func TestTraditional(t *testing.T) {
	const simplified = "请这个为时过执决给还没说话无钮标题间内长设输词写节类对应该计划项号续讯户码证据来会发关开问谁么们"
	for id, m := range catalogue(t, "zh-TW") {
		if i := strings.IndexAny(m.Other, simplified); i >= 0 {
			t.Errorf("%s: %c in %q", id, []rune(m.Other[i:])[0], m.Other)
		}
	}
}

// What platforms cut, or refuse, when it is longer.
func TestLabelsAreShort(t *testing.T) {
	limits := map[string]int{
		"approve": 20, "deny": 20, "approve_all": 20, "deny_all": 20, "suggest_later": 20, "suggest_target": 20,
		"suggest_ask": 20,
		"dialog_deny": 24, "dialog_approve": 24, "dialog_deny_all": 24, "dialog_approve_all": 24, "dialog_too_late": 24,
		"dialog_refused": 24,
		"cancel":         24, "close": 24,
	}
	for _, tag := range tags {
		for id, limit := range limits {
			if s := Get(tag).Say(id); s == id || len([]rune(s)) > limit {
				t.Errorf("%s: %s is %q, longer than %d", tag, id, s, limit)
			}
		}
	}
}

func TestGet(t *testing.T) {
	if got := Tags(); !slices.Equal(got, []string{"en", "ja", "th", "zh-TW"}) {
		t.Errorf("the languages are %v", got)
	}
	Tags()[0] = "changed"
	for tag, want := range map[string]string{"en": "Approve", "ja": "承認", "th": "อนุมัติ", "zh-TW": "核准", "": "Approve",
		"de": "Approve", "zh": "Approve", "JA": "Approve", "../ja": "Approve"} {
		if got := Get(tag).Say("approve"); got != want {
			t.Errorf("%q says %q, want %q", tag, got, want)
		}
	}
	var none *Language
	if got := none.Say("approve"); got != "Approve" || none.Tag() != "en" {
		t.Errorf("no language says %q and is %q", got, none.Tag())
	}
	if got := none.Say("nobody knows this"); got != "nobody knows this" {
		t.Errorf("what nobody knows is said %q", got)
	}
	if got := Get("ja").Tag(); got != "ja" {
		t.Errorf("tag %q", got)
	}
}

// A sentence that a language lacks is said in English, in the right number.
func TestFallsBack(t *testing.T) {
	b := bundle("ja")
	if err := b.AddMessages(language.Japanese, &i18n.Message{ID: "days"}); err != nil {
		t.Fatal(err)
	}
	l := &Language{tag: "ja", messages: func() *i18n.Localizer { return i18n.NewLocalizer(b, "ja") }}
	if got := l.Count("days", 1) + ", " + l.Count("days", 2); got != "1 day, 2 days" {
		t.Errorf("said %q", got)
	}
}

func TestNumbers(t *testing.T) {
	for _, tt := range []struct{ tag, id, n, want string }{
		{"en", "days", "0", "0 days"},
		{"en", "days", "1", "1 day"},
		{"en", "days", "2", "2 days"},
		{"en", "days", "21", "21 days"},
		{"en", "days", "-1", "-1 day"},
		{"en", "days", "1.0", "1.0 days"},
		{"en", "days", "many", "many days"},
		{"en", "days", "99999999999999999999", "99999999999999999999 days"},
		{"en", "batch_over", "1", Get("en").Count("batch_over", 1)},
		{"ja", "days", "1", "1日"},
		{"th", "days", "1", "1 วัน"},
		{"zh-TW", "days", "2", "2 天"},
	} {
		if got := Get(tt.tag).Say(tt.id, "n", tt.n); got != tt.want {
			t.Errorf("%s: %s of %s is %q, want %q", tt.tag, tt.id, tt.n, got, tt.want)
		}
	}
	if got := Get("en").Count("days", 1, "n", "7"); got != "1 day" {
		t.Errorf("counted %q", got)
	}
}

// What fills a placeholder is data, whatever it looks like.
func TestWhatIsFilledInIsNotATemplate(t *testing.T) {
	for _, hostile := range []string{"{{.time}}", "{{.n}}", "{time}", "{who}", `{{printf "%s" .time}}`, "{{", "}}", "%s",
		"{{/*", "$who", `<b>&amp;`, "\x00", "\xff", "{{template \"x\"}}"} {
		for _, tag := range tags {
			l := Get(tag)
			plain, got := l.Say("approved_by", "who", "\x01", "time", "now"), l.Say("approved_by", "who", hostile, "time", "now")
			if want := strings.ReplaceAll(plain, "\x01", hostile); got != want {
				t.Errorf("%s: %q became %q", tag, hostile, got)
			}
			plain, got = l.Say("told_denied", "tool", "\x01"), l.Say("told_denied", "tool", hostile, "left over")
			if want := strings.ReplaceAll(plain, "\x01", hostile); got != want {
				t.Errorf("%s: %q became %q", tag, hostile, got)
			}
		}
	}
}

// What is said again is what the catalogue says, whatever it was filled in with before, and under whatever names.
func TestWhatIsSaidAgainIsWhatTheCatalogueSays(t *testing.T) {
	names := regexp.MustCompile(`\{([a-z]+)\}`)
	for _, l := range load() {
		for id, english := range phrases.English {
			var args []string
			for _, m := range names.FindAllStringSubmatch(english, -1) {
				args = append(args, m[1], m[1]+" {{.who}} \x001\x00")
			}
			twice := append(slices.Clone(args), args...)
			fewer := args[:max(0, len(args)-2)]
			others := append([]string{"other", "of no sentence"}, args...)
			for _, args := range [][]string{args, nil, args, fewer, others, twice, args} {
				want, found := l.find(string(id), args)
				if got := l.Say(string(id), args...); got != want || !found {
					t.Errorf("%s: %s of %q is %q, want %q", l.Tag(), id, args, got, want)
				}
			}
		}
	}
}

// Sentences are read by many at once, the first time too.
func TestManyAtOnce(t *testing.T) {
	known := load()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			l := known[tags[i%len(tags)]]
			for id := range phrases.English {
				if got := l.Say(string(id), "n", "2"); got == string(id) {
					t.Errorf("%s: %s is not said", l.Tag(), id)
				}
			}
		})
	}
	testkit.Wait(t, "all readers", wg.Wait)
}

// What docs/languages.md rejects does not come back: each has a better word there.
func TestRejectedWords(t *testing.T) {
	for tag, rejected := range map[string][]string{
		"ja": {"呼び出し", "判断", "再通知", "リマインダー", "リクエスト", "依頼", "そのような申請",
			"通過", "エージェント自身の言葉", "待機中", "専用ページ", "個別ページ", "ハートビート", "行為者", "show <id>"},
		"th": {"ความเสี่ยงวิกฤต", "คำพูดของเอเจนต์", "สายเกินไป", "ระบบไม่รู้จักคุณ", "ให้ผ่านเมื่อ",
			"จบไปก่อน", "ถามคน", "คนอนุมัติ", "จากคน", "งานตามเวลา", "ผู้กระทำ", "ลงชื่อเข้าใช้", "show <id>"},
		"zh-TW": {"呼叫", "決定期限", "逾時", "不認識您", "負責人", "太遲", "原封不動", "自己的說法", "代理程式", "引數",
			"通行金鑰", "紀錄", "日誌", "等待核准", "等待決定", "等待中", "等候決定", "待核准",
			"人員核准", "行為者", "接聽", "未照原申請", "show <id>"},
	} {
		for id, m := range catalogue(t, tag) {
			for _, word := range rejected {
				if strings.Contains(m.Other, word) {
					t.Errorf("%s: %s says %q, see docs/languages.md: %s", tag, id, word, m.Other)
				}
			}
		}
	}
}

// In Japanese and Chinese the marks between words are full-width, also beside what is filled in.
func TestMarksAreFullWidth(t *testing.T) {
	const wide = `\p{Hiragana}\p{Katakana}\p{Han}（）「」、。：；`
	narrow := regexp.MustCompile(`[` + wide + `] ?[,;:!?()]|[,;:!?()] ?[` + wide + `]|\}\}[,;:!?]`)
	for _, tag := range []string{"ja", "zh-TW"} {
		for id, m := range catalogue(t, tag) {
			if mark := narrow.FindString(m.Other); mark != "" {
				t.Errorf("%s: %s has %q in %q", tag, id, mark, m.Other)
			}
		}
	}
}

func TestSentences(t *testing.T) {
	for _, tt := range []struct {
		want  string
		given []string
	}{
		{"", nil},
		{"One. Two.", []string{"One.", "", "Two."}},
		{"一。二：三", []string{"", "一。", "二：", "三"}},
		{"一 二", []string{"一", "二", ""}},
	} {
		if got := Sentences(tt.given...); got != tt.want {
			t.Errorf("%q are told as %q, want %q", tt.given, got, tt.want)
		}
	}
}

func TestLists(t *testing.T) {
	for tag, want := range map[string][3]string{
		"en": {"a", "a, b", "a, b, c"}, "th": {"a", "a และ b", "a, b และ c"}, "ja": {"a", "a、b", "a、b、c"},
		"zh-TW": {"a", "a、b", "a、b、c"},
	} {
		l := Get(tag)
		if got := [3]string{l.List([]string{"a"}), l.List([]string{"a", "b"}), l.List([]string{"a", "b", "c"})}; got != want {
			t.Errorf("%s: %q", tag, got)
		}
		if got := l.List(nil); got != "" {
			t.Errorf("%s: %q of nothing", tag, got)
		}
	}
}
