package legible

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"countersign/internal/testkit"

	"pgregory.net/rapid"
)

func TestRule3_HiddenCharactersAreMadeVisible(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"text stays", "rm -rf /tmp 'x' \"y\" \\ ~", "rm -rf /tmp 'x' \"y\" \\ ~"},
		{"languages stay", "承認します。 อนุมัติแล้ว 核准　שלום مرحبا नमस्ते 한국어 Ünïcödé",
			"承認します。 อนุมัติแล้ว 核准　שלום مرحبا नमस्ते 한국어 Ünïcödé"},
		{"control", "a\x00b\x1bc\x7fd\u0085e", "a⟨U+0000⟩b⟨U+001B⟩c⟨U+007F⟩d⟨U+0085⟩e"},
		{"line breaks and tabs", "a\r\n\tb", "a⟨U+000D⟩⟨U+000A⟩⟨U+0009⟩b"},
		{"bidirectional", "\u202eabc\u2066d\u200f\u061c", "⟨U+202E⟩abc⟨U+2066⟩d⟨U+200F⟩⟨U+061C⟩"},
		{"zero width", "pass\u200bword\u200c\u200d\u2060\ufeff", "pass⟨U+200B⟩word⟨U+200C⟩⟨U+200D⟩⟨U+2060⟩⟨U+FEFF⟩"},
		{"separators", "a\u2028b\u2029c", "a⟨U+2028⟩b⟨U+2029⟩c"},
		{"soft hyphen", "a\u00adb", "a⟨U+00AD⟩b"},
		{"tags", "a\U000e0041\U000e007f", "a⟨U+E0041⟩⟨U+E007F⟩"},
		{"private use", "\ue000\U000f0000\U0010fffd", "⟨U+E000⟩⟨U+F0000⟩⟨U+10FFFD⟩"},
		{"noncharacters", "\ufffe\U0001ffff\ufdd0", "⟨U+FFFE⟩⟨U+1FFFF⟩⟨U+FDD0⟩"},
		{"blank letters", "a\u115f\u1160\u3164\uffa0\u2800\U0001d159\u034f\u17b4b",
			"a⟨U+115F⟩⟨U+1160⟩⟨U+3164⟩⟨U+FFA0⟩⟨U+2800⟩⟨U+1D159⟩⟨U+034F⟩⟨U+17B4⟩b"},
		{"odd spaces", "a\u00a0b\u2003c\u202fd\u1680e", "a⟨U+00A0⟩b⟨U+2003⟩c⟨U+202F⟩d⟨U+1680⟩e"},
		{"the wide space stays", "承認　済", "承認　済"},
		{"interlinear and object characters", "\ufff9\ufffc", "⟨U+FFF9⟩⟨U+FFFC⟩"},
		{"invalid UTF-8", "a\xffb\xe2\x82c\xed\xa0\x80", "a⟨0xFF⟩b⟨0xE2⟩⟨0x82⟩c⟨0xED⟩⟨0xA0⟩⟨0x80⟩"},
		{"the replacement character itself stays", "a\ufffd", "a\ufffd"},
		{"an escape that was typed", "⟨U+202E⟩ ⟨0xFF⟩ ⟨x", "⟨U+27E8⟩U+202E⟩ ⟨U+27E8⟩0xFF⟩ ⟨U+27E8⟩x"},

		{"emoji stay whole", "❤️ 👩‍💻 👍🏽 1️⃣ 🇯🇵 👩🏽‍🚀 ☎︎ 🏳️‍🌈", "❤️ 👩‍💻 👍🏽 1️⃣ 🇯🇵 👩🏽‍🚀 ☎︎ 🏳️‍🌈"},
		{"one selector each", "❤\ufe0f\ufe0f", "❤️⟨U+FE0F⟩"},
		{"selectors on letters", "a\ufe0fb\ufe00漢\U000e0100", "a⟨U+FE0F⟩b⟨U+FE00⟩漢⟨U+E0100⟩"},
		{"joiners among letters", "a\u200db👩\u200dx👩\u200d", "a⟨U+200D⟩b👩⟨U+200D⟩x👩⟨U+200D⟩"},
		{"a joiner after a mark", "👩\u0301\u200d👩", "👩\u0301⟨U+200D⟩👩"},
		{"joiners in a row", "👩\u200d\u200d💻", "👩⟨U+200D⟩⟨U+200D⟩💻"},
		{"a flag of tags", "🏴\U000e0067\U000e007f", "🏴⟨U+E0067⟩⟨U+E007F⟩"},

		{"marks on a letter", "e\u0301 ก็้", "e\u0301 ก็้"},
		{"a mark on nothing", "\u0301x", "⟨U+0301⟩x"},
		{"a mark on an escape", "\u200b\u0301x", "⟨U+200B⟩⟨U+0301⟩x"},
		{"a stack of marks", "a" + strings.Repeat("\u0300", 8), "a" + strings.Repeat("\u0300", 6) + "⟨U+0300⟩⟨U+0300⟩"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Line(c.in); got != c.want {
				t.Errorf("%q:\ngot  %q\nwant %q", c.in, got, c.want)
			}
		})
	}
}

func TestVisibleLinesKeepsLines(t *testing.T) {
	if got, want := Lines("a\n\tb\r\n\x00\u0301"), "a\n\tb⟨U+000D⟩\n⟨U+0000⟩⟨U+0301⟩"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Lines("a\n\u0301"), "a\n⟨U+0301⟩"; got != want {
		t.Errorf("a mark on a line break: got %q, want %q", got, want)
	}
}

// invisible undoes Line.
func invisible(t interface {
	Helper()
	Fatalf(string, ...any)
}, s string) string {
	t.Helper()
	var b strings.Builder
	for s != "" {
		before, rest, found := strings.Cut(s, "⟨")
		b.WriteString(before)
		if !found {
			break
		}
		code, after, found := strings.Cut(rest, "⟩")
		if !found {
			t.Fatalf("open escape in %q", s)
		}
		if digits, ok := strings.CutPrefix(code, "U+"); ok {
			r, err := strconv.ParseUint(digits, 16, 32)
			if err != nil {
				t.Fatalf("bad escape %q", code)
			}
			b.WriteRune(rune(r))
		} else {
			c, err := strconv.ParseUint(strings.TrimPrefix(code, "0x"), 16, 8)
			if err != nil {
				t.Fatalf("bad escape %q", code)
			}
			b.WriteByte(byte(c))
		}
		s = after
	}
	return b.String()
}

// checkVisible holds what is true of all visible text.
func checkVisible(t interface {
	Helper()
	Fatalf(string, ...any)
}, in, out string, lines bool) {
	t.Helper()
	if back := invisible(t, out); back != in {
		t.Fatalf("%q became %q, which reads back as %q", in, out, back)
	}
	before := rune(0)
	for _, r := range out {
		switch {
		case lines && (r == '\n' || r == '\t'):
		case unicode.IsControl(r), unicode.In(r, unicode.Co, unicode.Zl, unicode.Zp):
			t.Fatalf("%q kept %U in %q", in, r, out)
		case unicode.Is(unicode.Cf, r) && (r != '\u200d' || before < 0x2190 && before != '\ufe0f'):
			t.Fatalf("%q kept %U after %U in %q", in, r, before, out)
		}
		before = r
	}
	if !utf8.ValidString(out) {
		t.Fatalf("%q became invalid: %q", in, out)
	}
}

// anyText draws text rich in what Line looks at.
func anyText() *rapid.Generator[string] {
	odd := rapid.SampledFrom([]string{
		"⟨", "⟩", "U+202E", "⟨U+202E⟩", "\u202e", "\u200b", "\u200d", "\ufe0f", "\u0301", "e", "👩", "💻", "🏽", "🇯", "🇵", "1",
		"❤", "\n", "\t", "\r", "\xff", "\xe2\x82", "漢", "\u115f", "\u1100", " ",
	})
	piece := rapid.OneOf(odd, odd, rapid.String())
	return rapid.Map(rapid.SliceOfN(piece, 0, 30), func(pieces []string) string { return strings.Join(pieces, "") })
}

func TestRule3_VisibleTextIsTellable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyText().Draw(t, "text")
		checkVisible(t, s, Line(s), false)
		checkVisible(t, s, Lines(s), true)
	})
}

func TestRule3_EveryCharacterIsShownOrNamed(t *testing.T) {
	var b strings.Builder
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if 0xd800 <= r && r <= 0xdfff || 0x40000 < r && r < 0xe0000 && r&0xff != 0xfe {
			continue // halves of pairs, and most of what is not assigned
		}
		b.Reset()
		b.WriteByte('a')
		b.WriteRune(r)
		b.WriteByte('b')
		in := b.String()
		out := Line(in)
		if out != in {
			if want := fmt.Sprintf("a⟨U+%04X⟩b", r); out != want {
				t.Fatalf("%U became %q", r, out)
			}
			continue
		}
		picture := 0x1f000 <= r && r <= 0x1faff || 0x20000 <= r && r <= 0x3fffd
		if !unicode.IsGraphic(r) && !picture || r != ' ' && r != '\u3000' && unicode.IsSpace(r) {
			t.Errorf("%U is kept", r)
		}
	}
}

func TestCutRunes(t *testing.T) {
	for _, c := range []struct {
		in   string
		max  int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abc", 4, "abc"}, {"abc", 2, "ab… (+1)"}, {"abc", 0, "… (+3)"},
		{"abc", -1, "… (+3)"},
		{"éééé", 4, "éééé"}, {"éééé", 3, "ééé… (+1)"}, {"a\xffb", 2, "a\xff… (+1)"}, {"", -1, ""},
	} {
		if got := Cut(c.in, c.max); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.in, c.max, got, c.want)
		}
	}
	long := strings.Repeat("承", 10000)
	if got, want := Cut(long, 500), strings.Repeat("承", 500)+"… (+9500)"; got != want {
		t.Errorf("got %.60q…", got)
	}
}

func byteLen(s string) int { return len(s) }

func TestShortenMiddle(t *testing.T) {
	for _, c := range []struct {
		name, in string
		max      int
		unit     func(string) int
		want     string
	}{
		{"fits", "abcdef", 6, byteLen, "abcdef"},
		{"says how much", strings.Repeat("a", 50) + strings.Repeat("z", 50), 40, utf8.RuneCountInString,
			"aaaaaaaaa … (+83 characters) … zzzzzzzz"},
		{"wide characters", strings.Repeat("承", 50), 60, byteLen, "承承承承承 … (+39 characters) … 承承承承承承"},
		{"in UTF-16 units", strings.Repeat("😀", 50), 40, UTF16Len, "😀😀😀😀 … (+41 characters) … 😀😀😀😀😀"},
		{"keeps a family together", strings.Repeat("x", 7) + "👩‍👩‍👧" + strings.Repeat("y", 50), 40, utf8.RuneCountInString,
			"xxxxxxx … (+44 characters) … yyyyyyyyyyy"},
		{"keeps marks on their letter", strings.Repeat("e\u0301", 50), 40, utf8.RuneCountInString, strings.Repeat("e\u0301",
			4) + " … (+84 characters) … " + strings.Repeat("e\u0301", 4)},
		{"keeps flags", strings.Repeat("🇯🇵", 50), 40, utf8.RuneCountInString, strings.Repeat("🇯🇵", 4) +
			" … (+84 characters) … " + strings.Repeat("🇯🇵", 4)},
		{"keeps escapes", strings.Repeat("⟨U+202E⟩", 20), 40, utf8.RuneCountInString,
			"⟨U+202E⟩ … (+144 characters) … ⟨U+202E⟩"},
		{"no room for words", strings.Repeat("a", 50), 10, byteLen, "… (+50)"},
		{"no room for a number", strings.Repeat("a", 50), 5, byteLen, "…"},
		{"no room", strings.Repeat("a", 50), 2, byteLen, ""},
		{"nothing in nothing", "", 0, byteLen, ""},
		{"less than nothing", "", -1, byteLen, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ShortenMiddle(c.in, c.max, c.unit)
			if got != c.want || c.unit(got) > max(c.max, 0) {
				t.Errorf("got  %q (%d)\nwant %q", got, c.unit(got), c.want)
			}
		})
	}
}

// units are the ones that platforms count in, and one that is not additive.
var units = map[string]func(string) int{
	"bytes": byteLen, "runes": utf8.RuneCountInString, "UTF-16": UTF16Len, "quoted": func(s string) int {
		return len(strconv.Quote(s))
	},
}

// checkShortened holds what is true of all shortened text.
func checkShortened(t interface {
	Helper()
	Fatalf(string, ...any)
}, in, out string, limit int, unit func(string) int) {
	t.Helper()
	if out != "" && unit(out) > limit {
		t.Fatalf("%q in %d became %q, which measures %d", in, limit, out, unit(out))
	}
	if unit(in) <= limit {
		if out != in {
			t.Fatalf("%q fits in %d but became %q", in, limit, out)
		}
		return
	}
	for n := range utf8.RuneCountInString(in) + 1 {
		head, tail, found := strings.Cut(out, gap(n))
		if found && strings.HasPrefix(in, head) && strings.HasSuffix(in, tail) &&
			utf8.RuneCountInString(in[len(head):len(in)-len(tail)]) == n {
			return
		}
	}
	if out != "" && out != "…" && out != missing(utf8.RuneCountInString(in)) {
		t.Fatalf("%q in %d became %q, which does not add up", in, limit, out)
	}
}

func TestShortenedTextAddsUp(t *testing.T) {
	for name, unit := range units {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := strings.Repeat(anyText().Draw(t, "text"), rapid.IntRange(1, 20).Draw(t, "times"))
				limit := rapid.IntRange(-1, 200).Draw(t, "limit")
				checkShortened(t, s, ShortenMiddle(s, limit, unit), limit, unit)
				cut := Cut(s, limit)
				if kept, ok := strings.CutSuffix(cut, missing(utf8.RuneCountInString(s)-max(limit, 0))); cut != s &&
					(!ok || !strings.HasPrefix(s, kept) || utf8.RuneCountInString(kept) != max(limit, 0)) {
					t.Fatalf("Cut(%q, %d) = %q", s, limit, cut)
				}
			})
		})
	}
}

// What a text measures is told where it is not too much, and else that it is.
func TestMeasuredIsNoMoreThanMustBe(t *testing.T) {
	for name, unit := range units {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := strings.Repeat(anyText().Draw(t, "text"), rapid.IntRange(1, 200).Draw(t, "times"))
				enough := rapid.IntRange(-1, 3000).Draw(t, "enough")
				if got, all := MeasureUpTo(s, enough, unit), unit(s); got != all && (all <= enough || got <= enough) {
					t.Fatalf("%q measures %d; %d of %d", s, all, got, enough)
				}
			})
		})
	}
	seen := 0
	MeasureUpTo(strings.Repeat("x", 1<<20), 1000, func(s string) int { seen += len(s); return len(s) })
	if seen > 4000 {
		t.Errorf("%d bytes were measured to know that there are more than 1000", seen)
	}
}

func TestShorteningMuchTextTakesLinearTime(t *testing.T) {
	size := 1 << 17
	if testkit.Race { // where a quadratic reading takes minutes all the same
		size /= 2
	}
	for _, piece := range []string{"a", "\u0301", "⟨", "\u200d", "🇯", "👩\u200d", "\xff", "⟨U+202E⟩"} {
		long := strings.Repeat(piece, size/len(piece))
		for name, unit := range units {
			start := time.Now()
			for _, limit := range []int{30, 5000, len(long) / 3} {
				if out := ShortenMiddle(long, limit, unit); unit(out) > limit {
					t.Errorf("%q, %s: %d of %d", piece, name, unit(out), limit)
				}
			}
			Lines(long)
			if took := time.Since(start); took > testkit.Patience {
				t.Errorf("%q, %s: %v", piece, name, took)
			}
		}
	}
}

func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"", "abc", "⟨U+202E⟩\u202e", "👩‍💻❤️🇯🇵1️⃣", "a\u0301\u0301\u0301\u0301\u0301\u0301\u0301",
		"\xff\xe2\x82", "\r\n\t", "\U000e0041\ue000\ufffe", "e\u0301" + strings.Repeat("x", 80)} {
		f.Add(seed, 40)
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		checkVisible(t, s, Line(s), false)
		checkVisible(t, s, Lines(s), true)
		limit %= 1000
		for _, unit := range units {
			checkShortened(t, s, ShortenMiddle(s, limit, unit), limit, unit)
			shown := Line(s)
			if len(shown) < 2000 {
				short := ShortenMiddle(shown, limit, unit)
				checkShortened(t, shown, short, limit, unit)
				invisible(t, short) // no escape is cut
			}
		}
		Cut(s, limit)
	})
}

func BenchmarkVisible(b *testing.B) {
	for name, s := range map[string]string{
		"ascii": strings.Repeat("rm -rf /tmp/x ", 75), "japanese": strings.Repeat("承認します。", 57),
		"hostile": strings.Repeat("a\u202e\u200b", 150),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			b.ReportAllocs()
			for b.Loop() {
				Line(s)
			}
		})
	}
}
