package yamlpos

import (
	"encoding"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Decoder fills Go values from nodes, by their yaml tags. A tag also:"otherName" is another spelling of a field's key,
// which no path and no list of keys names. It goes on after a mistake, and remembers where each
// value stands, so that what is checked later can say so. Values are named by their paths: $.agents[0].token.
type Decoder struct {
	Report func(Position, string)
	Places map[string]Position
	Said   map[string]bool // paths with a value, if only an empty one
	Bad    map[string]bool // paths that were reported, so that nothing is said twice
}

// NewDecoder returns a decoder that reports what is wrong.
func NewDecoder(report func(Position, string)) *Decoder {
	return &Decoder{Report: report, Places: map[string]Position{}, Said: map[string]bool{}, Bad: map[string]bool{}}
}

// Defaulter is what has defaults to be set before its part of the file is read.
type Defaulter interface{ SetDefaults() }

// TextSetter is what may be written as a word rather than as a mapping, or instead of one. SetText is given ""
// for what is neither; its error says what must stand there.
type TextSetter interface{ SetText(s string) error }

// OneOrMore is a list whose one entry may be written without the list.
type OneOrMore interface{ OneOrMore() }

var (
	nodeType      = reflect.TypeFor[*Node]()
	durationType  = reflect.TypeFor[time.Duration]()
	oneOrMoreType = reflect.TypeFor[OneOrMore]()
)

// Decode stores the value at path in what into points to. A nil node, and a null, leave it as it is.
func (d *Decoder) Decode(path string, n *Node, into any) {
	if n == nil {
		n = &Node{}
	}
	d.decode(path, n, reflect.ValueOf(into).Elem())
}

func (d *Decoder) fail(path string, at Position, format string, args ...any) {
	d.Bad[path] = true
	d.Report(at, fmt.Sprintf(format, args...))
}

// decode stores n in v. A null leaves v as it is: nothing was said.
func (d *Decoder) decode(path string, n *Node, v reflect.Value) {
	d.Places[path] = n.Position
	if v.Type() == nodeType {
		v.Set(reflect.ValueOf(n))
		return
	}
	if n.Kind == Null {
		return
	}
	d.Said[path] = true
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if v.CanAddr() && d.itself(path, n, v) {
		return
	}
	switch {
	case v.Kind() == reflect.Struct:
		d.mapping(path, n, v)
	case v.Kind() == reflect.Map:
		d.names(path, n, v)
	case v.Kind() == reflect.Slice && v.Type().Implements(oneOrMoreType) && n.Kind != List:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		d.decode(path, n, v.Index(0))
	case v.Kind() == reflect.Slice:
		d.sequence(path, n, v)
	default:
		d.scalar(path, n, v)
	}
}

// itself lets v prepare itself, and reports whether it took the value itself too.
func (d *Decoder) itself(path string, n *Node, v reflect.Value) bool {
	p := v.Addr().Interface()
	if dv, ok := p.(Defaulter); ok {
		dv.SetDefaults()
	}
	s, scalar := n.Scalar()
	switch w := p.(type) {
	case TextSetter:
		if !scalar && n.Kind == Mapping && v.Kind() == reflect.Struct {
			return false
		}
		if err := w.SetText(s); err != nil {
			d.fail(path, n.Position, "%s %s", LastKey(path), err)
		}
	case encoding.TextUnmarshaler:
		if !scalar || w.UnmarshalText([]byte(s)) != nil {
			d.fail(path, n.Position, "%s must be text", LastKey(path))
		}
	default:
		return false
	}
	return true
}

func (d *Decoder) scalar(path string, n *Node, v reflect.Value) {
	must := ""
	switch {
	case v.Type() == durationType:
		must = "a duration such as 30s, 15m or 1h30m, or a number of seconds"
		if t, ok := duration(n); ok {
			v.SetInt(int64(t))
			return
		}
	case v.Kind() == reflect.String:
		must = "text"
		if s, ok := n.Scalar(); ok {
			v.SetString(s)
			return
		}
	case v.Kind() == reflect.Bool:
		must = "true or false"
		if n.Kind == Bool {
			v.SetBool(n.True)
			return
		}
	case v.CanInt():
		must = "a whole number"
		if i, ok := n.Whole(); ok && !v.OverflowInt(i) {
			v.SetInt(i)
			return
		}
	default:
		panic(fmt.Sprintf("yamlpos: %s has a type that is not decoded: %s", path, v.Type()))
	}
	d.fail(path, n.Position, "%s must be %s", LastKey(path), must)
}

func (d *Decoder) mapping(path string, n *Node, v reflect.Value) {
	if n.Kind != Mapping {
		d.fail(path, n.Position, "%s must be a mapping of keys to values", LastKey(path))
		return
	}
	fields, spellings := fieldsOf(v), spellingsOf(v.Type())
	spelled := map[string]string{} // how each key is written
	for _, e := range n.Entries {
		name := e.Key
		if usual, ok := spellings[name]; ok {
			name = usual
		}
		p := path + "." + name
		f, ok := fields[name]
		if !ok {
			d.fail(p, e.KeyPosition, "%s", unknown(e.Key, path, fields))
			continue
		}
		if first, twice := spelled[name]; twice {
			d.fail(p, e.KeyPosition, "%s and %s say the same thing; keep one of them", first, e.Key)
			continue
		}
		spelled[name] = e.Key
		d.decode(p, e.Value, f)
		d.Places[p] = e.Place()
	}
}

// names fills a map, whose keys are the file's own.
func (d *Decoder) names(path string, n *Node, v reflect.Value) {
	if n.Kind != Mapping {
		d.fail(path, n.Position, "%s must be a mapping of names to values", LastKey(path))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range n.Entries {
		p := path + "." + e.Key
		value := reflect.New(v.Type().Elem()).Elem()
		d.decode(p, e.Value, value)
		if e.Value.Kind == Null {
			d.fail(p, e.KeyPosition, "%s has a name without a value", LastKey(path))
		}
		v.SetMapIndex(reflect.ValueOf(e.Key), value)
	}
}

// MayRepeat reports whether a text may be repeated in a report: a short name may. Anything longer could be a
// secret in the wrong place. (As a regular expression this takes 400 KB for as long as the program runs.)
func MayRepeat(s string) bool {
	n := utf8.RuneCountInString(s)
	return 1 <= n && n <= 20 && strings.IndexFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune("_.-", r)
	}) < 0
}

func (d *Decoder) sequence(path string, n *Node, v reflect.Value) {
	if n.Kind != List {
		example := ""
		if s, scalar := n.Scalar(); scalar && v.Type().Elem().Kind() == reflect.String && MayRepeat(s) {
			example = ": [" + s + "]"
		}
		d.fail(path, n.Position, "%s must be a list%s", LastKey(path), example)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items)))
	for i, item := range n.Items {
		p := fmt.Sprintf("%s[%d]", path, i)
		d.decode(p, item, v.Index(i))
		if item.Kind == Null {
			d.fail(p, item.Position, "%s has an empty entry", LastKey(path))
		}
	}
}

func duration(n *Node) (time.Duration, bool) {
	if i, ok := n.Whole(); ok && math.Abs(float64(i)) <= math.MaxInt64/float64(time.Second) {
		return time.Duration(i) * time.Second, true
	}
	if n.Kind != Text {
		return 0, false
	}
	if i, err := strconv.ParseInt(n.Source, 10, 32); err == nil { // a variable's value
		return time.Duration(i) * time.Second, true
	}
	t, err := time.ParseDuration(n.Source)
	return t, err == nil
}

// fieldsOf returns the fields of a struct by the keys that stand for them.
func fieldsOf(v reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			maps.Copy(fields, fieldsOf(v.Field(i)))
		case name != "" && name != "-":
			fields[name] = v.Field(i)
		}
	}
	return fields
}

// spellingsOf returns the keys that are other spellings of a struct's, with the usual ones.
func spellingsOf(t reflect.Type) map[string]string {
	var spellings map[string]string
	for i := range t.NumField() {
		if other, ok := t.Field(i).Tag.Lookup("also"); ok {
			if spellings == nil {
				spellings = map[string]string{}
			}
			spellings[other], _, _ = strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		}
	}
	return spellings
}

// LastKey names a path's last key as a reader of the file knows it.
func LastKey(path string) string {
	path = path[strings.LastIndexByte(path, '.')+1:]
	name, index, _ := strings.Cut(path, "[")
	switch {
	case name == "$":
		return "the file"
	case index != "":
		return "an entry of " + name
	}
	return name
}

func unknown(name, path string, fields map[string]reflect.Value) string {
	where := ""
	if path != "$" {
		where = " in " + LastKey(path)
	}
	const longest = 40 // a longer one may be a secret that was put in the wrong place
	if len(name) > longest {
		return fmt.Sprintf("unknown key%s: it is too long to be one, and is not repeated, as it may be a secret", where)
	}
	known := slices.Sorted(maps.Keys(fields))
	if hint := DidYouMean(name, known); hint != "" {
		return fmt.Sprintf("unknown key %q%s%s", name, where, hint)
	}
	return fmt.Sprintf("unknown key %q%s; the keys here are %s", name, where, strings.Join(known, ", "))
}
