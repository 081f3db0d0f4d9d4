package config

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"countersign/secret"
)

// decoder fills Go values from a plain tree, by their yaml tags. It goes on after a mistake, and
// remembers where each value stands, so that what is checked later can say so.
type decoder struct {
	report func(position, string)
	at     map[string]position // by path: $.agents[0].token
	said   map[string]bool     // paths with a value, if only an empty one
	badly  map[string]bool     // paths that were reported, so that nothing is said twice
}

// defaulted is what has defaults to be set before its part of the file is read.
type defaulted interface{ setDefaults() }

// worded is what may be written as a word rather than as a mapping, or instead of one. setText is given ""
// for what is neither; its error says what must stand there.
type worded interface{ setText(s string) error }

var (
	nodeType     = reflect.TypeFor[ast.Node]()
	durationType = reflect.TypeFor[time.Duration]()
	secretsType  = reflect.TypeFor[secret.List]()
)

func (d *decoder) fail(path string, at position, format string, args ...any) {
	d.badly[path] = true
	d.report(at, fmt.Sprintf(format, args...))
}

// decode stores n in v. A null leaves v as it is: nothing was said.
func (d *decoder) decode(path string, n ast.Node, v reflect.Value) {
	d.at[path] = start(n)
	if v.Type() == nodeType {
		v.Set(reflect.ValueOf(&n).Elem())
		return
	}
	if n == nil || n.Type() == ast.NullType {
		return
	}
	d.said[path] = true
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if v.CanAddr() {
		if dv, ok := v.Addr().Interface().(defaulted); ok {
			dv.setDefaults()
		}
	}
	if v.CanAddr() {
		if w, ok := v.Addr().Interface().(worded); ok {
			if s, scalar := text(n); scalar || n.Type() != ast.MappingType || v.Kind() != reflect.Struct {
				if err := w.setText(s); err != nil {
					d.fail(path, start(n), "%s %s", last(path), err)
				}
				return
			}
		}
	}
	switch {
	case v.Type() == durationType:
		d.duration(path, n, v)
	case v.Kind() == reflect.Struct:
		d.mapping(path, n, v)
	case v.Kind() == reflect.Map:
		d.names(path, n, v)
	case v.Type() == secretsType && n.Type() != ast.SequenceType:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1)) // a list of one may be written as it is
		d.decode(path, n, v.Index(0))
	case v.Kind() == reflect.Slice:
		d.sequence(path, n, v)
	case v.Kind() == reflect.String:
		if s, ok := text(n); ok {
			v.SetString(s)
		} else {
			d.fail(path, start(n), "%s must be text", last(path))
		}
	case v.Kind() == reflect.Bool:
		if b, ok := n.(*ast.BoolNode); ok {
			v.SetBool(b.Value)
		} else {
			d.fail(path, start(n), "%s must be true or false", last(path))
		}
	case v.CanInt():
		if i, ok := whole(n); ok && !v.OverflowInt(i) {
			v.SetInt(i)
		} else {
			d.fail(path, start(n), "%s must be a whole number", last(path))
		}
	default:
		panic(fmt.Sprintf("config: %s has a type that is not decoded: %s", path, v.Type()))
	}
}

func (d *decoder) mapping(path string, n ast.Node, v reflect.Value) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		d.fail(path, start(n), "%s must be a mapping of keys to values", last(path))
		return
	}
	fields := fieldsOf(v)
	for _, e := range m.Values {
		name, _ := keyName(e.Key)
		f, ok := fields[name]
		if !ok {
			d.fail(path+"."+name, at(e.Key.GetToken()), "%s", unknown(name, path, fields))
			continue
		}
		d.decode(path+"."+name, e.Value, f)
		if e.Value == nil || e.Value.Type() == ast.NullType {
			d.at[path+"."+name] = at(e.Key.GetToken())
		}
	}
}

// names fills a map, whose keys are the file's own.
func (d *decoder) names(path string, n ast.Node, v reflect.Value) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		d.fail(path, start(n), "%s must be a mapping of names to values", last(path))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range m.Values {
		name, _ := keyName(e.Key)
		p := path + "." + name
		value := reflect.New(v.Type().Elem()).Elem()
		d.decode(p, e.Value, value)
		if e.Value == nil || e.Value.Type() == ast.NullType {
			d.fail(p, at(e.Key.GetToken()), "%s has a name without a value", last(path))
		}
		v.SetMapIndex(reflect.ValueOf(name), value)
	}
}

// word matches what may be repeated in a report: a name. Anything longer could be a secret in the wrong
// place.
var word = regexp.MustCompile(`^[\p{L}\p{N}_.-]{1,20}$`)

func (d *decoder) sequence(path string, n ast.Node, v reflect.Value) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		if t, scalar := text(n); scalar && v.Type().Elem().Kind() == reflect.String && word.MatchString(t) {
			d.fail(path, start(n), "%s must be a list: [%s]", last(path), t)
		} else {
			d.fail(path, start(n), "%s must be a list", last(path))
		}
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(s.Values), len(s.Values)))
	for i, e := range s.Values {
		p := fmt.Sprintf("%s[%d]", path, i)
		d.decode(p, e, v.Index(i))
		if e == nil || e.Type() == ast.NullType {
			d.fail(p, start(e), "%s has an empty entry", last(path))
		}
	}
}

func (d *decoder) duration(path string, n ast.Node, v reflect.Value) {
	if i, ok := whole(n); ok && math.Abs(float64(i)) <= math.MaxInt64/float64(time.Second) {
		v.SetInt(i * int64(time.Second))
		return
	}
	if s, ok := n.(*ast.StringNode); ok {
		if i, err := strconv.ParseInt(s.Value, 10, 32); err == nil { // a variable's value
			v.SetInt(i * int64(time.Second))
			return
		}
		if t, err := time.ParseDuration(s.Value); err == nil {
			v.SetInt(int64(t))
			return
		}
	}
	d.fail(path, start(n), "%s must be a duration such as 30s, 15m or 1h30m, or a number of seconds", last(path))
}

// fieldsOf returns the fields of a struct by the keys that stand for them.
func fieldsOf(v reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			for k, f := range fieldsOf(v.Field(i)) {
				fields[k] = f
			}
		case name != "" && name != "-":
			fields[name] = v.Field(i)
		}
	}
	return fields
}

// text returns a scalar as it was written, whatever YAML takes it for.
func text(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func whole(n ast.Node) (int64, bool) {
	if n, ok := n.(*ast.IntegerNode); ok {
		switch i := n.Value.(type) {
		case int64:
			return i, true
		case uint64:
			return int64(i), i <= math.MaxInt64
		}
	}
	return 0, false
}

// last names a path's last key as a reader of the file knows it.
func last(path string) string {
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
		where = " in " + last(path)
	}
	known := make([]string, 0, len(fields))
	for k := range fields {
		known = append(known, k)
	}
	slices.Sort(known)
	if k := nearest(name, known); k != "" {
		return fmt.Sprintf("unknown key %q%s; did you mean %q?", name, where, k)
	}
	return fmt.Sprintf("unknown key %q%s; there are %s", name, where, strings.Join(known, ", "))
}

// nearest returns the one of known that name was probably meant to be, "" if none comes near.
func nearest(name string, known []string) string {
	plain := strings.NewReplacer("-", "", "_", "", " ", "")
	best, least := "", 3
	for _, k := range known {
		if d := distance(strings.ToLower(plain.Replace(name)), plain.Replace(k)); d < least && d*2 < len(k) {
			best, least = k, d
		}
	}
	return best
}

// distance is how many letters must be put in, left out or changed to get from a to b.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
