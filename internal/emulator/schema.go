package emulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/rivo/uniseg"
)

// Object is a JSON object that a test may change: an event, a payload.
type Object map[string]any

// Absent, given to [Object.With], removes a property.
var Absent = &struct{ absent bool }{true}

// With returns a copy in which the property at a dotted path ("source.userId", "actions.0.value") has another value.
// Objects on the way are made where they are missing. Absent removes the property.
func (o Object) With(path string, value any) Object {
	changed, _ := with(map[string]any(o), strings.Split(path, "."), value).(map[string]any)
	return changed
}

func with(node any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	if list, ok := asList(node); ok {
		list = slices.Clone(list)
		var i int
		if _, err := fmt.Sscanf(path[0], "%d", &i); err == nil && i >= 0 && i < len(list) {
			list[i] = with(list[i], path[1:], value)
		}
		return list
	}
	object, _ := asObject(node)
	object = maps.Clone(object)
	if object == nil {
		object = map[string]any{}
	}
	if len(path) == 1 && value == any(Absent) {
		delete(object, path[0])
		return object
	}
	object[path[0]] = with(object[path[0]], path[1:], value)
	return object
}

func asObject(v any) (map[string]any, bool) {
	switch v := v.(type) {
	case map[string]any:
		return v, true
	case Object:
		return v, true
	}
	return nil, false
}

func asList(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case []Object:
		list := make([]any, len(v))
		for i := range v {
			list[i] = v[i]
		}
		return list, true
	}
	return nil, false
}

// errDuplicate marks a name that occurs twice in one object: which of the two counts is anybody's guess.
var errDuplicate = errors.New("duplicate name")

// parseJSON reads one JSON value: numbers as written, no name twice, nothing after it.
func parseJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := parseValue(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return v, nil
}

func parseValue(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		object := map[string]any{}
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			name, _ := k.(string)
			if _, twice := object[name]; twice {
				return nil, fmt.Errorf("%w %q", errDuplicate, name)
			}
			if object[name], err = parseValue(d); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return object, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	return t, nil
}

func parseObject(data []byte) (map[string]any, error) {
	v, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("not an object")
	}
	return object, nil
}

func mustJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only values of our own come here
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

// utf16Len counts as both platforms do by default: an emoji outside the basic plane counts two.
func utf16Len(s string) int { return len(utf16.Encode([]rune(s))) }

// graphemeLen counts what a reader would call characters, as LINE does for labels.
func graphemeLen(s string) int { return uniseg.GraphemeClusterCount(s) }

// problem is one thing that is wrong with a request, and where.
type problem struct{ at, what string }

// checker walks a request along the rules of a platform and gathers every problem. The words and the way places are
// written are the platform's.
type checker struct {
	say      phrases
	problems []problem

	// What rules of a whole message need to know about its parts.
	quotes   []problem // LINE: the quote tokens used, and where
	blockIDs map[string]bool
	view     bool // Slack: a view and not a message
	inputs   int  // Slack: input blocks
}

// phrases is how a platform words its refusals.
type phrases struct {
	child    func(at, name string) string
	item     func(at string, i int) string
	length   func(low, high, got int) string
	count    func(low, high, got int) string
	kind     func(want string) string
	enum     func(allowed []string) string
	variant  func(got string, allowed []string) string
	number   func(low, high int) string
	unknown  func(at, name string) problem
	missing  func(at, name string) problem
	mismatch string
}

func (c *checker) fail(at, what string) { c.problems = append(c.problems, problem{at, what}) }

// rule checks one value.
type rule func(c *checker, at string, v any)

// shape is an object's properties; those named in required must be there.
type shape struct {
	required string // separated by spaces
	props    map[string]rule
}

func (sh shape) with(more map[string]rule) shape {
	props := map[string]rule{}
	maps.Copy(props, sh.props)
	maps.Copy(props, more)
	return shape{required: sh.required, props: props}
}

// check checks an object, property by property. What the shape does not name is refused.
func (sh shape) check(c *checker, at string, v any) {
	object, ok := v.(map[string]any)
	if !ok {
		c.fail(at, c.say.kind("object"))
		return
	}
	for _, name := range strings.Fields(sh.required) {
		if _, ok := object[name]; !ok {
			p := c.say.missing(at, name)
			c.fail(p.at, p.what)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		rule, known := sh.props[name]
		if !known {
			p := c.say.unknown(at, name)
			c.fail(p.at, p.what)
			continue
		}
		rule(c, c.say.child(at, name), object[name])
	}
}

func anything(*checker, string, any) {}

func text(low, high int, count func(string) int) rule {
	return func(c *checker, at string, v any) {
		s, ok := v.(string)
		if !ok {
			c.fail(at, c.say.kind("string"))
			return
		}
		if n := count(s); n < low || n > high {
			c.fail(at, c.say.length(low, high, n))
		}
	}
}

func matching(re *regexp.Regexp) rule {
	return func(c *checker, at string, v any) {
		if s, ok := v.(string); !ok || !re.MatchString(s) {
			c.fail(at, c.say.mismatch)
		}
	}
}

func oneOf(allowed ...string) rule {
	return func(c *checker, at string, v any) {
		if s, ok := v.(string); !ok || !slices.Contains(allowed, s) {
			c.fail(at, c.say.enum(allowed))
		}
	}
}

func boolean(c *checker, at string, v any) {
	if _, ok := v.(bool); !ok {
		c.fail(at, c.say.kind("boolean"))
	}
}

func integer(low, high int) rule {
	return func(c *checker, at string, v any) {
		n, ok := asInt(v)
		if !ok || n < low || n > high {
			c.fail(at, c.say.number(low, high))
		}
	}
}

func asInt(v any) (int, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return int(i), err == nil
}

func list(low, high int, each rule) rule {
	return func(c *checker, at string, v any) {
		items, ok := v.([]any)
		if !ok {
			c.fail(at, c.say.kind("array"))
			return
		}
		if len(items) < low || len(items) > high {
			c.fail(at, c.say.count(low, high, len(items)))
		}
		for i, item := range items {
			each(c, c.say.item(at, i), item)
		}
	}
}

// byType picks the rule by the object's "type".
func byType(variants map[string]rule) rule {
	return func(c *checker, at string, v any) {
		object, ok := v.(map[string]any)
		if !ok {
			c.fail(at, c.say.kind("object"))
			return
		}
		if _, ok := object["type"]; !ok {
			p := c.say.missing(at, "type")
			c.fail(p.at, p.what)
			return
		}
		r, ok := variants[str(object["type"])]
		if !ok {
			c.fail(c.say.child(at, "type"), c.say.variant(str(object["type"]), slices.Sorted(maps.Keys(variants))))
			return
		}
		r(c, at, v)
	}
}
