package mcp

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Member is one member of an object, its value as written.
type Member struct {
	Name  string
	Value jsontext.Value
}

// Object is an object's members in their order. No two have the same name, letter case aside.
type Object []Member

// ObjectError says why an object is not taken.
type ObjectError struct {
	Reason string
	syntax bool // it is not JSON at all
}

func (e *ObjectError) Error() string { return e.Reason }

// decoder is a decoder of what is in its buffer.
type decoder struct {
	jsontext.Decoder
	in bytes.Buffer
}

// decoders are kept for the next message: making one costs as much as reading a small object.
var decoders = sync.Pool{New: func() any { return new(decoder) }}

// newDecoder returns a decoder of v, to be given back with done.
func newDecoder(v []byte) *decoder {
	d := decoders.Get().(*decoder)
	d.in = *bytes.NewBuffer(v)
	d.Reset(&d.in, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return d
}

func (d *decoder) release() {
	d.in = bytes.Buffer{} // it must not keep the message alive
	d.Reset(&d.in)
	decoders.Put(d)
}

// names are those that most messages have: they are not made anew for each.
var names = func() map[string]string {
	m := map[string]string{}
	for _, s := range []string{"jsonrpc", "id", "method", "params", "result", "error", "name", "arguments", "_meta",
		"content", "isError", "structuredContent", "resultType", MetaProgress, MetaVersion, MetaCapabilities, MetaClient} {
		m[s] = s
	}
	return m
}()

// readName reads a member's name.
func (d *decoder) readName() (string, error) {
	v, err := d.ReadValue()
	if err != nil {
		return "", err
	}
	if len(v) >= 2 && v[0] == '"' {
		if s, ok := names[string(v[1:len(v)-1])]; ok {
			return s, nil
		}
	}
	b, err := jsontext.AppendUnquote(nil, v) // replaces what is not UTF-8, and says so
	if err != nil && v.Kind() != '"' {
		return "", err
	}
	return string(b), nil
}

// ReadObject reads v, which must be one JSON object and nothing else, one level deep; the values refer
// to v. A name that occurs twice, or twice but for letter case, is refused.
func ReadObject(v []byte) (Object, *ObjectError) {
	d := newDecoder(v)
	defer d.release()
	syntax := func() (Object, *ObjectError) { return nil, &ObjectError{"it is not valid JSON", true} }
	t, err := d.ReadToken()
	if err != nil {
		return syntax()
	}
	if t.Kind() != '{' {
		return nil, &ObjectError{Reason: "it is not an object"}
	}
	o := make(Object, 0, 4)
	for d.PeekKind() != '}' {
		name, err := d.readName()
		if err != nil {
			return syntax()
		}
		value, err := d.ReadValue()
		if err != nil {
			return syntax()
		}
		// The decoder's own value lives only until it reads on; what it stands for in v stays.
		end := int(d.InputOffset())
		o = append(o, Member{name, v[end-len(value) : end : end]})
	}
	if _, err := d.ReadToken(); err != nil {
		return syntax()
	}
	if rest := v[d.InputOffset():]; len(bytes.TrimLeft(rest, " \t\r\n")) > 0 {
		return syntax()
	}
	if a, b, twice := o.duplicateName(); twice && a == b {
		return nil, &ObjectError{Reason: fmt.Sprintf("the name %q occurs twice", shorten(a))}
	} else if twice {
		return nil, &ObjectError{Reason: fmt.Sprintf("the names %q and %q differ only in letter case", shorten(a),
			shorten(b))}
	}
	return o, nil
}

func shorten(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "…"
	}
	return s
}

// duplicateName returns two names that are equal but for letter case.
func (o Object) duplicateName() (a, b string, found bool) {
	const few = 16
	if len(o) <= few {
		for i := range o {
			for j := range i {
				if strings.EqualFold(o[i].Name, o[j].Name) {
					return o[j].Name, o[i].Name, true
				}
			}
		}
		return "", "", false
	}
	// Names that are equal but for case have equal upper and lower forms once both are applied.
	seen := make(map[string]string, len(o))
	for _, m := range o {
		k := strings.ToLower(strings.ToUpper(strings.ToLower(m.Name)))
		if first, ok := seen[k]; ok {
			return first, m.Name, true
		}
		seen[k] = m.Name
	}
	return "", "", false
}

// Get returns a member's value, nil where there is none.
func (o Object) Get(name string) jsontext.Value {
	for i := range o {
		if o[i].Name == name {
			return o[i].Value
		}
	}
	return nil
}

// Text returns a member that is a string, else "".
func (o Object) Text(name string) string { return Text(o.Get(name)) }

// Object returns a member that is an object; an absent one is empty.
func (o Object) Object(name string) (Object, *ObjectError) {
	v := o.Get(name)
	if v == nil {
		return nil, nil
	}
	in, err := ReadObject(v)
	if err != nil {
		err.Reason = name + ": " + err.Reason
	}
	return in, err
}

// With returns the object with the member set, in its old place or else last. The receiver stays.
func (o Object) With(name string, v jsontext.Value) Object {
	n := slices.Clone(o)
	for i := range n {
		if n[i].Name == name {
			n[i].Value = v
			return n
		}
	}
	return append(n, Member{name, v})
}

// Without returns the object without these members. The receiver stays.
func (o Object) Without(names ...string) Object {
	return slices.DeleteFunc(slices.Clone(o), func(m Member) bool { return slices.Contains(names, m.Name) })
}

// Append appends the object as JSON.
func (o Object) Append(dst []byte) []byte {
	dst = append(dst, '{')
	for i, m := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(appendName(dst, m.Name), ':'), m.Value...)
	}
	return append(dst, '}')
}

// appendName appends a member's name as JSON. Nearly every one is of letters alone.
func appendName(dst []byte, name string) []byte {
	for i := range len(name) {
		if c := name[i] | 0x20; (c < 'a' || c > 'z') && name[i] != '_' {
			return append(dst, Quote(name)...)
		}
	}
	return append(append(append(dst, '"'), name...), '"')
}

// Bytes returns the object as JSON.
func (o Object) Bytes() jsontext.Value {
	n := 2
	for _, m := range o {
		n += len(m.Name) + len(m.Value) + 4
	}
	return o.Append(make([]byte, 0, n))
}

// ReadArray returns the elements of v, which must be one JSON array; the values refer to v.
func ReadArray(v []byte) ([]jsontext.Value, *ObjectError) {
	d := newDecoder(v)
	defer d.release()
	t, err := d.ReadToken()
	if err != nil || t.Kind() != '[' {
		return nil, &ObjectError{Reason: "it is not an array", syntax: err != nil}
	}
	var vs []jsontext.Value
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			return nil, &ObjectError{"it is not valid JSON", true}
		}
		end := int(d.InputOffset())
		vs = append(vs, v[end-len(value):end:end])
	}
	if _, err := d.ReadToken(); err != nil || len(bytes.TrimLeft(v[d.InputOffset():], " \t\r\n")) > 0 {
		return nil, &ObjectError{"it is not valid JSON", true}
	}
	return vs, nil
}
