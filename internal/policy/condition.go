package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"countersign/approval/args"
	"countersign/approval/args/decimal"

	"github.com/go-json-experiment/json/jsontext"
)

// condition is a compiled [Condition]: its tests hold for the value of a param, all of them.
type condition struct {
	params []param
	every  bool // with several params: those that are there must all pass, not one of them
	tests  []test
}

// param is one name of an argument.
type param struct {
	path string
	name int32 // its number among the policy's names, -1 for a dotted path
}

// test is one operator with its operand.
type test interface {
	// holds judges a value. The error says what is wrong with the value, to follow its name; it quotes
	// nothing of it.
	holds(v value) (outcome, error)
	// phrase reads after the name of the param: `is under /etc`; not is its negation.
	phrase() (is, not string)
}

// outcome is how a test went. A path that cannot be placed holds, but nothing may be allowed on it.
type outcome int

const (
	fails outcome = iota
	holds
	holdsUnplaced
)

// value is one argument in canonical JSON.
type value struct {
	raw  jsontext.Value
	kind jsontext.Kind // with KindTrue also for false
	text []byte        // what a string says
}

const kindBool = jsontext.Kind('t')

func newValue(raw jsontext.Value) value {
	v := value{raw: raw, kind: raw.Kind()}
	switch v.kind {
	case 'f':
		v.kind = kindBool
	case '"':
		if bytes.IndexByte(raw, '\\') < 0 {
			v.text = raw[1 : len(raw)-1]
		} else {
			v.text, _ = jsontext.AppendUnquote(nil, raw)
		}
	}
	return v
}

// kindName names a JSON type for people.
func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	case '"':
		return "text"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "a list"
	}
	return "something else"
}

func wrongType(v value, want string) error {
	return fmt.Errorf("is %s where the rule needs %s", kindName(v.kind), want)
}

// String tells the condition as a person would: `path is under /etc, /sys`.
func (c *condition) String() string {
	var names, parts []string
	for _, p := range c.params {
		names = append(names, p.path)
	}
	for _, t := range c.tests {
		is, _ := t.phrase()
		parts = append(parts, is)
	}
	who := strings.Join(names, " or ")
	if c.every && len(names) > 1 {
		who = "each of " + strings.Join(names, ", ")
	}
	return who + " " + strings.Join(parts, " and ")
}

// judged is how a condition went: for which param, and the test that did not hold. found is false where
// none of its params is there.
type judged struct {
	out    outcome
	found  bool
	param  string
	failed test
}

// judge looks the params up and runs the tests.
func (c *condition) judge(e *evaluation) (judged, error) {
	if len(c.params) == 1 {
		return c.judgeOne(e, &c.params[0])
	}
	var all judged
	for i := range c.params {
		j, err := c.judgeOne(e, &c.params[i])
		switch {
		case err != nil:
			return j, err
		case !j.found:
		case !all.found, c.every && (j.out == fails || all.out == holds), !c.every && all.out == fails:
			all = j
		}
		if c.every && all.found && all.out == fails {
			return all, nil
		}
	}
	return all, nil
}

func (c *condition) judgeOne(e *evaluation, p *param) (judged, error) {
	var one [1]value
	values := e.lookup(p, &one)
	j := judged{param: p.path}
	switch len(values) {
	case 0:
		return j, nil
	case 1:
	default:
		return j, fmt.Errorf("%q can be read in more than one way", p.path)
	}
	j.out, j.found = holds, true
	for _, t := range c.tests {
		o, err := holdsIn(t, values[0], e.call.Scope)
		switch {
		case err != nil:
			return j, fmt.Errorf("%q %w", p.path, err)
		case o == fails:
			j.out, j.failed = fails, t
			return j, nil
		case o == holdsUnplaced:
			j.out = o
		}
	}
	return j, nil
}

func holdsIf(b bool) outcome { //nolint:revive // flag-parameter: it is the value that is converted
	if b {
		return holds
	}
	return fails
}

type matchesTest struct{ re *regexp.Regexp }

func (t matchesTest) holds(v value) (outcome, error) {
	if v.kind != '"' {
		return fails, wrongType(v, "text")
	}
	return holdsIf(t.re.Match(v.text)), nil
}

func (t matchesTest) phrase() (string, string) {
	return "matches " + strconv.Quote(t.re.String()), "does not match " + strconv.Quote(t.re.String())
}

// equalsTest is equals, with one choice, and in, with any number.
type equalsTest struct {
	choices []value
	numbers []decimal.Decimal // of those choices that are numbers, at the same place
	kinds   string            // the JSON types among the choices, for messages
	list    bool              // written as in
}

func newEqualsTest(choices []jsontext.Value, list bool) (equalsTest, error) {
	t := equalsTest{list: list}
	var kinds []string
	seen := map[jsontext.Kind]bool{}
	for _, raw := range choices {
		canonical, err := canonicalValue(raw)
		if err != nil {
			return t, err
		}
		v := newValue(canonical)
		var d decimal.Decimal
		if v.kind == '0' {
			if d, err = decimal.Parse(string(v.raw)); err != nil {
				return t, err
			}
		}
		t.choices = append(t.choices, v)
		t.numbers = append(t.numbers, d)
		if !seen[v.kind] {
			seen[v.kind] = true
			kinds = append(kinds, kindName(v.kind))
		}
	}
	t.kinds = strings.Join(kinds, " or ")
	return t, nil
}

// canonicalValue brings one JSON value into the form that arguments have.
func canonicalValue(raw jsontext.Value) (jsontext.Value, error) {
	object := append(append([]byte(`{"v":`), raw...), '}')
	a, err := args.Parse(object)
	if err != nil {
		return nil, errors.New("is not a JSON value")
	}
	v, ok := a.Lookup("v")
	if !ok {
		return nil, errors.New("is not a JSON value")
	}
	return v, nil
}

func (t equalsTest) holds(v value) (outcome, error) {
	sameType := false
	for i, c := range t.choices {
		// Asking whether a value is null is a question that fits every type.
		if c.kind == 'n' && len(t.choices) == 1 {
			return holdsIf(v.kind == 'n'), nil
		}
		if c.kind != v.kind {
			continue
		}
		sameType = true
		switch v.kind {
		case '0':
			d, err := decimal.Parse(string(v.raw))
			if err != nil {
				return fails, err
			}
			if d.Compare(t.numbers[i]) == 0 {
				return holds, nil
			}
		case '{', '[':
			same, err := equalJSON(v.raw, c.raw)
			if err != nil {
				return fails, err
			}
			if same {
				return holds, nil
			}
		default: // strings have one canonical form only
			if bytes.Equal(v.raw, c.raw) {
				return holds, nil
			}
		}
	}
	if !sameType {
		return fails, wrongType(v, t.kinds)
	}
	return fails, nil
}

// equalJSON compares two canonical values; numbers as decimals.
func equalJSON(a, b jsontext.Value) (bool, error) {
	if bytes.Equal(a, b) {
		return true, nil
	}
	x, err := decodeJSON(a)
	if err != nil {
		return false, err
	}
	y, err := decodeJSON(b)
	if err != nil {
		return false, err
	}
	return deepEqual(x, y)
}

// decodeJSON decodes one value, with numbers as json.Number.
func decodeJSON(raw jsontext.Value) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, errors.New("is not a JSON value")
	}
	return v, nil
}

func deepEqual(a, b any) (bool, error) {
	switch x := a.(type) {
	case json.Number:
		y, ok := b.(json.Number)
		if !ok {
			return false, nil
		}
		dx, err := decimal.Parse(string(x))
		if err != nil {
			return false, err
		}
		dy, err := decimal.Parse(string(y))
		if err != nil {
			return false, err
		}
		return dx.Compare(dy) == 0, nil
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false, nil
		}
		for i := range x {
			if same, err := deepEqual(x[i], y[i]); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false, nil
		}
		for k, xv := range x {
			yv, ok := y[k]
			if !ok {
				return false, nil
			}
			if same, err := deepEqual(xv, yv); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	return a == b, nil
}

func (t equalsTest) phrase() (string, string) {
	var texts []string
	for _, c := range t.choices {
		texts = append(texts, shorten(string(c.raw)))
	}
	if t.list {
		list := strings.Join(texts, ", ")
		return "is one of " + list, "is not one of " + list
	}
	return "equals " + texts[0], "does not equal " + texts[0]
}

type compareTest struct {
	op    string // >, >=, <, <=
	token string
	bound decimal.Decimal
}

func (t compareTest) holds(v value) (outcome, error) {
	if v.kind != '0' {
		return fails, wrongType(v, "a number")
	}
	d, err := decimal.Parse(string(v.raw))
	if err != nil {
		return fails, err
	}
	c := d.Compare(t.bound)
	switch t.op {
	case ">":
		return holdsIf(c > 0), nil
	case ">=":
		return holdsIf(c >= 0), nil
	case "<":
		return holdsIf(c < 0), nil
	default:
		return holdsIf(c <= 0), nil
	}
}

func (t compareTest) phrase() (string, string) {
	return "is " + t.op + " " + t.token, "is not " + t.op + " " + t.token
}

type underTest struct {
	bases []string
	scope bool // or under the folder that the call runs in
}

func (t underTest) holds(v value) (outcome, error) {
	if v.kind != '"' {
		return fails, wrongType(v, "text")
	}
	p, ok := placePath(string(v.text))
	if !ok {
		return holdsUnplaced, nil
	}
	known := literalFolder(p)
	out := fails
	// A letter written as in a URL is a letter to some tools, and three characters to others.
	other := known
	if strings.IndexByte(p, '%') >= 0 {
		other = literalFolder(path.Clean(unescape(p)))
	}
	for _, base := range t.bases {
		switch {
		case isUnder(known, base):
			return holds, nil
		case known != p && isUnder(base, known), other != known && isUnder(other, base): // what the rest stands for may be it
			out = holdsUnplaced
		}
	}
	return out, nil
}

// isUnder reports whether a cleaned path is a folder or lies in it.
func isUnder(p, folder string) bool {
	return folder == "/" || p == folder || len(p) > len(folder) && p[len(folder)] == '/' && p[:len(folder)] == folder
}

func (t underTest) phrase() (string, string) {
	list := strings.Join(t.bases, ", ")
	if t.scope {
		list = strings.Join(append([]string{"the folder of the call"}, t.bases...), ", ")
	}
	return "is under " + list, "is not under " + list
}

// cleanPath cleans an absolute path. It refuses what is relative (so is "", and ~, which only a shell
// expands, and a URL), climbs with "..", or holds a NUL, at which some tools stop reading, or a backslash,
// which some take for a slash.
func cleanPath(p string) (string, bool) {
	if p == "" || p[0] != '/' || strings.ContainsAny(p, "\x00\\") {
		return "", false
	}
	for name, rest := "", p; rest != ""; {
		if name, rest, _ = strings.Cut(rest, "/"); name == ".." {
			return "", false
		}
	}
	return path.Clean(p), true
}

// placePath cleans a path and reports whether the text alone says where it lies. Beside what [cleanPath]
// refuses it cannot say so of what an open file or a process stands for, of names with characters that some
// systems and tools drop, and of dots, slashes and the like that are written as in a URL.
func placePath(p string) (string, bool) {
	p, ok := cleanPath(p)
	if !ok || hasURLEscape(p) {
		return "", false
	}
	before, name := "", ""
	for rest := p[1:]; rest != ""; {
		name, rest, _ = strings.Cut(rest, "/")
		if mayBeTrimmed(name) {
			return "", false
		}
		if strings.EqualFold(before, "proc") && isProcess(name) {
			return "", false
		}
		before = name
	}
	for _, folder := range elusive {
		if len(p) >= len(folder) && strings.EqualFold(p[:len(folder)], folder) &&
			(len(p) == len(folder) || p[len(folder)] == '/') {
			return "", false
		}
	}
	return p, true
}

// mayBeTrimmed reports whether a name ends in a dot or in space, or holds what is not seen: some systems and tools
// take it for the name without.
func mayBeTrimmed(name string) bool {
	if strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") {
		return true
	}
	if !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return false
	}
	last, _ := utf8.DecodeLastRuneInString(name)
	return unicode.IsSpace(last) ||
		strings.ContainsFunc(name, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf) })
}

// elusive are the folders in which a name can stand for any other path: those of processes, of what a
// process has open, and of files by their number. A proc that is mounted elsewhere is known by its processes.
var elusive = []string{"/proc", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/.vol", "/System/Volumes"}

// isProcess reports whether a name under proc stands for a process.
func isProcess(name string) bool {
	return strings.EqualFold(name, "self") || strings.EqualFold(name, "thread-self") ||
		strings.Trim(name, "0123456789") == ""
}

// hasURLEscape reports whether a text holds a dot, a slash, a backslash, a percent sign or a NUL as URLs write them.
func hasURLEscape(s string) bool {
	for i := strings.IndexByte(s, '%'); i >= 0 && i+3 <= len(s); {
		for _, code := range [...]string{"2e", "2f", "5c", "25", "00"} {
			if strings.EqualFold(s[i+1:i+3], code) {
				return true
			}
		}
		next := strings.IndexByte(s[i+1:], '%')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return false
}

// literalFolder returns the part of a cleaned path before the first name with a wildcard or a variable in
// it, which some tools expand.
func literalFolder(p string) string {
	i := strings.IndexAny(p, "*?[{$`")
	if i < 0 {
		return p
	}
	return path.Clean(p[:strings.LastIndexByte(p[:i], '/')+1])
}
