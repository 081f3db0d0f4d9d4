package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"countersign/approval/args/decimal"
	"countersign/approval/summary"
	"countersign/internal/yamlpos"

	"github.com/go-json-experiment/json/jsontext"
)

// reader reads the values of a policy, and notes where each stands.
type reader struct {
	at       map[string]yamlpos.Position
	problems []Problem
}

// pair is one entry of a mapping. pos is where its value is, or its key if there is no value.
type pair struct {
	key    string
	keyPos yamlpos.Position
	value  *yamlpos.Node
	pos    yamlpos.Position
	path   string
}

func (r *reader) failAt(p yamlpos.Position, path, format string, args ...any) {
	r.problems = append(r.problems, Problem{Path: path, Line: p.Line, Column: p.Column,
		Message: fmt.Sprintf(format, args...)})
}

func (r *reader) fail(n *yamlpos.Node, path, format string, args ...any) {
	p := n.Position
	if known, ok := r.at[path]; ok && n.Kind == yamlpos.Null {
		p = known
	}
	r.failAt(p, path, format, args...)
}

// entries lists a mapping's pairs, and notes where they are.
func (r *reader) entries(m *yamlpos.Node, path string) []pair {
	out := make([]pair, len(m.Entries))
	for i, e := range m.Entries {
		out[i] = pair{key: e.Key, keyPos: e.KeyPosition, value: e.Value, pos: e.Place(), path: path + "." + e.Key}
		r.at[out[i].path] = out[i].pos
	}
	return out
}

// item notes where an item of a list is, and returns its path.
func (r *reader) item(list string, i int, n *yamlpos.Node) string {
	path := fmt.Sprintf("%s[%d]", list, i)
	r.at[path] = n.Position
	return path
}

// otherKeys are keys as other programs write them, which are read as ours wherever there is ours.
var otherKeys = map[string]string{"toolNames": "tools", "requireApproval": "require_approval"}

// mapping reads a mapping strictly: each key by its own function.
func (r *reader) mapping(n *yamlpos.Node, path string, keys map[string]func(pair), synonyms map[string]string) {
	if n.Kind != yamlpos.Mapping {
		r.fail(n, path, "a mapping of names to values is needed here, not %s", describe(n))
		return
	}
	spelled := map[string]string{} // how each key is written
	for _, e := range r.entries(n, path) {
		name := e.key
		if usual := otherKeys[name]; keys[usual] != nil {
			name, e.path = usual, path+"."+usual
			r.at[e.path] = e.pos
		}
		if read, ok := keys[name]; ok {
			if first, twice := spelled[name]; twice {
				r.failAt(e.keyPos, e.path, "%s and %s say the same thing; keep one of them", first, e.key)
				continue
			}
			spelled[name] = e.key
			read(e)
			continue
		}
		known := slices.Sorted(maps.Keys(keys))
		r.failAt(e.keyPos, e.path, "unknown key %q%s", e.key, didYouMean(e.key, known, synonyms))
	}
}

// describe names what a node is, for people.
func describe(n *yamlpos.Node) string {
	switch n.Kind {
	case yamlpos.Mapping:
		return "a mapping"
	case yamlpos.List:
		return "a list"
	case yamlpos.Null:
		return "nothing"
	case yamlpos.Bool:
		return "true or false"
	case yamlpos.Int, yamlpos.Float, yamlpos.NotFinite:
		return "a number"
	}
	return "a text"
}

func (r *reader) text(e pair) (string, bool) { return r.textNode(e.value, e.path) }

func (r *reader) textNode(n *yamlpos.Node, path string) (string, bool) {
	hint := ""
	switch n.Kind {
	case yamlpos.Text:
		if n.Source == "" {
			r.fail(n, path, "an empty text has no meaning here")
		}
		return n.Source, n.Source != ""
	case yamlpos.Bool, yamlpos.Int, yamlpos.Float:
		hint = "; put it in quotes if it is one"
	}
	r.fail(n, path, "a text is needed here, not %s%s", describe(n), hint)
	return "", false
}

// texts reads a list of strings; one alone stands for a list of one.
func (r *reader) texts(e pair) []string {
	switch e.value.Kind {
	case yamlpos.List:
	case yamlpos.Null:
		r.failAt(e.pos, e.path, "a list is needed here")
		return nil
	case yamlpos.Mapping:
		r.failAt(e.pos, e.path, "a list is needed here, not a mapping")
		return nil
	default:
		s, ok := r.text(e)
		if !ok {
			return nil
		}
		r.at[e.path+"[0]"] = e.pos
		return []string{s}
	}
	if len(e.value.Items) == 0 {
		r.failAt(e.pos, e.path, "an empty list has no meaning here; leave %s out", e.key)
	}
	out := []string{}
	for i, item := range e.value.Items {
		if s, ok := r.textNode(item, r.item(e.path, i, item)); ok {
			out = append(out, s)
		}
	}
	return out
}

func (r *reader) boolean(e pair) *bool {
	switch n := e.value; {
	case n.Kind == yamlpos.Bool:
		v := n.True
		return &v
	case n.Kind == yamlpos.Text && (n.Source == "true" || n.Source == "false"):
		v := n.Source == "true"
		return &v
	}
	r.failAt(e.pos, e.path, "%s must be true or false", e.key)
	return nil
}

func (r *reader) count(e pair) int {
	if i, ok := e.value.Whole(); ok && i >= 0 && i <= 1<<31 {
		return int(i)
	}
	r.failAt(e.pos, e.path, "%s must be a whole number; 0 is no limit", e.key)
	return 0
}

// digits returns a number as it is written, also one that YAML takes for a text because of its size.
func digits(n *yamlpos.Node) string {
	switch n.Kind {
	case yamlpos.Int, yamlpos.Float, yamlpos.Text:
		return n.Source
	}
	return ""
}

// duration reads 30m, 1h30m, or plain seconds.
func (r *reader) duration(e pair) (time.Duration, bool) {
	text := digits(e.value)
	if strings.HasPrefix(text, ".") {
		text = "0" + text
	}
	var d time.Duration
	if decimal.IsNumber(text) {
		var ok bool
		if d, ok = seconds(text); !ok {
			r.failAt(e.pos, e.path, "%s is too long or too exact a duration; write one such as 30m or 90", text)
			return 0, false
		}
	} else {
		var err error
		if d, err = time.ParseDuration(text); err != nil {
			r.failAt(e.pos, e.path, "a duration must be written like 30m or 1h30m, or in seconds like 90")
			return 0, false
		}
	}
	if d < 0 || d > maxDuration || d > 0 && d < minDuration {
		r.failAt(e.pos, e.path, "a duration must be between 1ms and a year")
		return 0, false
	}
	return d, true
}

// seconds reads a decimal number of seconds.
func seconds(text string) (time.Duration, bool) {
	// Only a few digits can be a duration, so the power of ten stays small.
	exact, err := decimal.Parse(text)
	if before, behind := exact.Places(); err != nil || before > 12 || before < -12 || before+behind > 30 {
		return 0, false
	}
	s, _ := new(big.Rat).SetString(text)
	nanos := new(big.Rat).Mul(s, big.NewRat(int64(time.Second), 1))
	whole := new(big.Int).Quo(nanos.Num(), nanos.Denom())
	return time.Duration(whole.Int64()), whole.IsInt64()
}

// timeout reads a duration that is not zero.
func (r *reader) timeout(e pair, into *time.Duration) {
	d, ok := r.duration(e)
	if ok && d == 0 {
		r.failAt(e.pos, e.path, "%s must be longer than zero", e.key)
	}
	*into = d
}

// number reads a number exactly as written.
func (r *reader) number(e pair) json.Number {
	text := digits(e.value)
	if !decimal.IsNumber(text) {
		r.failAt(e.pos, e.path, "%s needs a number in plain decimal, such as 1000 or 0.5", e.key)
		return ""
	}
	return json.Number(text)
}

// sentence reads a text for people; line breaks of a folded one become spaces.
func (r *reader) sentence(e pair) string {
	s, _ := r.text(e)
	return strings.Join(strings.Fields(s), " ")
}

// sayKeys adds the keys of what a rule says to people.
func (r *reader) sayKeys(rule *Rule, keys map[string]func(pair)) {
	keys["message"] = func(e pair) {
		w := r.wording(e)
		if rule.Message = w[""]; len(w) > 1 {
			rule.MessageIn = w
		}
	}
	keys["summary"] = func(e pair) { rule.Summary = r.wording(e) }
}

// wording reads a text for people, or one for each language. The English one, else the first, is what all others read.
func (r *reader) wording(e pair) summary.Wording {
	if e.value.Kind != yamlpos.Mapping {
		if s := r.sentence(e); s != "" {
			return summary.Wording{"": s}
		}
		return nil
	}
	w, first := summary.Wording{}, ""
	for _, one := range r.entries(e.value, e.path) {
		s := r.sentence(one)
		if s == "" { // and said to be wrong
			continue
		}
		w[one.key] = s
		if first == "" || one.key == "en" {
			first = one.key
		}
	}
	if first == "" && len(e.value.Entries) > 0 {
		return nil
	}
	if first == "" {
		r.failAt(e.pos, e.path, "a text is needed here, or one for each language: {en: …, ja: …}")
		return nil
	}
	w[""] = w[first]
	return w
}

// maxValueDepth is how deeply a value of a condition may nest: as deeply as arguments may.
const maxValueDepth = 64

// json turns any value into JSON, numbers kept as written. It is nil where that cannot be.
func (r *reader) json(n *yamlpos.Node, path string) jsontext.Value { return r.jsonValue(n, path, 0) }

func (r *reader) jsonValue(n *yamlpos.Node, path string, depth int) jsontext.Value {
	if depth > maxValueDepth {
		r.fail(n, path, "nested too deeply")
		return nil
	}
	switch n.Kind {
	case yamlpos.Null:
		return jsontext.Value("null")
	case yamlpos.Bool:
		if n.True {
			return jsontext.Value("true")
		}
		return jsontext.Value("false")
	case yamlpos.Int, yamlpos.Float:
		if decimal.IsNumber(n.Source) {
			return jsontext.Value(n.Source)
		}
		r.fail(n, path, "write the number in plain decimal, such as 1000 or 0.5, or in quotes if it is a text")
		return nil
	case yamlpos.NotFinite:
		r.fail(n, path, "no argument can have this value")
		return nil
	case yamlpos.List:
		return r.jsonArray(n, path, depth)
	case yamlpos.Mapping:
		return r.jsonObject(n, path, depth)
	}
	// YAML takes 1e3 and numbers of more than 64 bits for text; without quotes they are numbers here.
	if !n.Quoted && decimal.IsNumber(n.Source) {
		return jsontext.Value(n.Source)
	}
	out, err := jsontext.AppendQuote(nil, n.Source)
	if err != nil {
		r.fail(n, path, "the text is not UTF-8")
		return nil
	}
	return out
}

func (r *reader) jsonArray(n *yamlpos.Node, path string, depth int) jsontext.Value {
	out := jsontext.Value("[")
	for i, item := range n.Items {
		if i > 0 {
			out = append(out, ',')
		}
		v := r.jsonValue(item, fmt.Sprintf("%s[%d]", path, i), depth+1)
		if v == nil {
			return nil
		}
		out = append(out, v...)
	}
	return append(out, ']')
}

func (r *reader) jsonObject(n *yamlpos.Node, path string, depth int) jsontext.Value {
	out := jsontext.Value("{")
	for i, e := range r.entries(n, path) {
		if i > 0 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, e.key)
		v := r.jsonValue(e.value, e.path, depth+1)
		if v == nil {
			return nil
		}
		out = append(append(out, ':'), v...)
	}
	return append(out, '}')
}
