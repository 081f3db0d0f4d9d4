package yamlpos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/internal/testkit"
)

// reports collects what is reported, as line:column: message.
type reports []string

func (r *reports) add(at Position, message string) {
	*r = append(*r, fmt.Sprintf("%d:%d: %s", at.Line, at.Column, message))
}

func testEnv(name string) (string, bool) {
	switch name {
	case "NAME":
		return "hana", true
	case "MAPPING":
		return "{a: 1}\nb: 2", true
	case "AGAIN":
		return "${NAME}", true
	case "EMPTY":
		return "", true
	}
	return "", false
}

// Each file in testdata/problems makes one mistake; the comment at its end says what is reported, and where.
func TestProblems(t *testing.T) {
	files, err := filepath.Glob("testdata/problems/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			src, _, _ := strings.Cut(string(content), "#! ")
			var got reports
			Parse([]byte(src), testEnv, got.add)
			if len(got) == 0 {
				t.Error("nothing is reported")
			}
			testkit.Golden(t, file, []byte(src+"#! "+strings.Join(got, "\n#! ")+"\n"))
		})
	}
}

type section struct {
	Name    string            `yaml:"name"`
	Wait    time.Duration     `yaml:"wait"`
	Count   int               `yaml:"count"`
	On      bool              `yaml:"on"`
	Words   []string          `yaml:"words"`
	Few     few               `yaml:"few"`
	Named   map[string]string `yaml:"named"`
	Inner   *section          `yaml:"inner"`
	Level   level             `yaml:"level"`
	Raw     *Node             `yaml:"raw"`
	Ignored string            `yaml:"-"`
}

func (s *section) SetDefaults() { s.Count = 7 }

type few []string

func (few) OneOrMore() {}

type level int

func (l *level) SetText(s string) error {
	if s != "high" {
		return fmt.Errorf("must be high")
	}
	*l = 9
	return nil
}

func decode(t testing.TB, text string) (section, *Decoder, reports) {
	t.Helper()
	var got reports
	root, ok := Parse([]byte(text), testEnv, got.add)
	d := NewDecoder(got.add)
	var s section
	if ok {
		d.Decode("$", root, &s)
	}
	return s, d, got
}

func TestDecode(t *testing.T) {
	s, d, got := decode(t, `name: &n ${NAME}
wait: 90
words: [a, 1, *n]
few: alone
named: {k: v}
inner:
  wait: 1h30m
  count: 3
level: high
raw: [x]
on: true
`)
	if len(got) > 0 {
		t.Fatalf("reported: %q", got)
	}
	if s.Name != "hana" || s.Wait != 90*time.Second || s.Count != 7 || !s.On || s.Level != 9 || s.Named["k"] != "v" {
		t.Errorf("got %+v", s)
	}
	if !slices.Equal(s.Words, []string{"a", "1", "hana"}) || !slices.Equal(s.Few, few{"alone"}) {
		t.Errorf("got %q, %q", s.Words, s.Few)
	}
	if s.Inner.Wait != 90*time.Minute || s.Inner.Count != 3 || s.Raw.Kind != List {
		t.Errorf("got %+v, %+v", s.Inner, s.Raw)
	}
	if at := d.Places["$.inner.count"]; at != (Position{8, 10}) || !d.Said["$.inner.count"] || d.Said["$.inner.name"] {
		t.Errorf("inner.count is at %v", at)
	}
}

func TestDecodeIsStrict(t *testing.T) {
	for text, want := range map[string]string{
		"nmae: x":                           `1:1: unknown key "nmae"; did you mean "name"?`,
		"zzz: x":                            `1:1: unknown key "zzz"; the keys here are count, few, inner, level, name, named, on, raw, wait, words`,
		"inner: {on: no}":                   `1:13: on must be true or false`,
		"inner: x":                          `1:8: inner must be a mapping of keys to values`,
		"words: x":                          `1:8: words must be a list: [x]`,
		"words: [a, ]":                      ``,
		"words: [a, ~]":                     `1:12: words has an empty entry`,
		"words: [[a]]":                      `1:9: an entry of words must be text`,
		"few: {a: b}":                       `1:6: few must be text`,
		"named: {a: }":                      `1:9: named has a name without a value`,
		"wait: soon":                        `1:7: wait must be a duration such as 30s, 15m or 1h30m, or a number of seconds`,
		"count: 1.5":                        `1:8: count must be a whole number`,
		"level: low":                        `1:8: level must be high`,
		"[a]":                               `1:1: the file must be a mapping of keys to values`,
		"words: " + strings.Repeat("s", 30): `1:8: words must be a list`,
	} {
		if _, _, got := decode(t, text); strings.Join(got, "\n") != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestVariables(t *testing.T) {
	for text, want := range map[string]string{
		"${NAME}": "hana", "a-${NAME}-${NAME}": "a-hana-hana", "$${NAME}": "${NAME}", "${AGAIN}": "${NAME}",
		"${MAPPING}": "{a: 1}\nb: 2", `"${NAME}\x21"`: "hana!", "!!str 012": "012",
	} {
		if s, _, got := decode(t, "name: "+text); s.Name != want || len(got) > 0 {
			t.Errorf("%s: %q, %q", text, s.Name, got)
		}
	}
	for text, want := range map[string]string{
		"${NOT_SET}": "1:7: the environment variable NOT_SET is not set",
		"${EMPTY}":   "1:7: the environment variable EMPTY is empty",
		"${a b}":     "1:7: a ${ does not begin a variable such as ${NAME}, of letters, digits and _; write $${ for a literal ${",
	} {
		if _, _, got := decode(t, "name: "+text); strings.Join(got, "\n") != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	root, _ := Parse([]byte("name: ${NAME}"), nil, func(at Position, m string) { t.Error(at, m) })
	if got := root.Entries[0].Value.Source; got != "${NAME}" {
		t.Errorf("without an environment: %q", got)
	}
}

func TestTextStart(t *testing.T) {
	for text, want := range map[string]Position{
		"a: plain":               {1, 4},
		"a: 'quoted'":            {1, 5},
		"a: |\n  line\n  more\n": {2, 3},
		"a: >\n  folded\n":       {},
		`a: "an\tescape"`:        {},
		"a: ${NAME}":             {},
		"a: over\n  two lines":   {},
	} {
		root, _ := Parse([]byte(text), testEnv, func(at Position, m string) { t.Error(at, m) })
		if got := root.Entries[0].Value.TextStart; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestMergedEntriesComeAfterItsOwn(t *testing.T) {
	root, _ := Parse([]byte("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3, z: 4}"), nil, func(at Position, m string) {
		t.Error(at, m)
	})
	var got []string
	for _, e := range root.Entries[1].Value.Entries {
		got = append(got, fmt.Sprintf("%s=%s@%d", e.Key, e.Value.Source, e.KeyPosition.Line))
	}
	if want := []string{"x=3@2", "z=4@2", "y=2@1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"rules", "default_timeout", "name", "transfer_credits"}
	for name, want := range map[string]string{
		"rule": "rules", "Rules": "rules", "default-timeout": "default_timeout", "defaultTimeout": "default_timeout",
		"nmae": "name", "transfer_credit": "transfer_credits", "": "", "x": "", "something": "",
		strings.Repeat("rules", 1000): "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("Nearest(%.20q) = %q, want %q", name, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abd", 1}, {"abc", "acb", 1}, {"abc", "bca", 2},
		{"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// FuzzParse: whoever wrote the file, it is read in bounds or refused, and what is reported has a place.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/problems/*.yaml")
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{
		"name: ${NAME}\nwait: 1h\ninner: {few: [a, b], level: high}", "a: &a [*a]", "<<: {a: b}\n? [x]\n: y", "- - - - -",
		"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nraw: *c", "%YAML 1.2\n---\na: !!str\n...", "raw: |\n  a\n  b",
		"{a: ${NAME}}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		report := func(at Position, message string) {
			if message == "" || at.Line < 0 || at.Column < 0 {
				t.Errorf("%v: %q", at, message)
			}
		}
		root, ok := Parse(data, testEnv, report)
		if !ok || root == nil {
			return
		}
		if n := count(t, root, 0); n > maxNodes {
			t.Errorf("%d values", n)
		}
		NewDecoder(report).Decode("$", root, &section{})
	})
}

// count counts the values in n, and checks each.
func count(t *testing.T, n *Node, depth int) int {
	if depth > 2*maxDepth {
		t.Fatal("too deep")
	}
	total := 1
	keys := map[string]bool{}
	for _, item := range n.Items {
		total += count(t, item, depth+1)
	}
	for _, e := range n.Entries {
		if keys[e.Key] {
			t.Errorf("%q is there twice", e.Key)
		}
		keys[e.Key] = true
		total += count(t, e.Value, depth+1)
	}
	return total
}

func TestOnlyAShortNameMayBeRepeated(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "a": true, "risk_level-2.x": true, "ชื่อ": false, "名前": true, "Ⅷ½": true, "a b": false, "a\n": false,
		"sk:live": false, "aaaaaaaaaaaaaaaaaaaa": true, "aaaaaaaaaaaaaaaaaaaaa": false, "éééééééééééééééééééé": true,
		"\xff": false, "a\xff": false, "\uFFFD": false,
	} {
		if got := MayRepeat(text); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}
