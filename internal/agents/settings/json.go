package settings

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// style is how a file is laid out.
type style struct {
	newline string
	unit    string // one level of indentation
	dense   bool   // all on one line
}

func styleOf(root *hujson.Object, text []byte) style {
	st := style{newline: "\n", unit: "  "}
	if bytes.Contains(text, []byte("\r\n")) {
		st.newline = "\r\n"
	}
	if len(root.Members) > 0 {
		before := root.Members[0].Name.BeforeExtra
		if i := bytes.LastIndexByte(before, '\n'); i >= 0 && i+1 < len(before) {
			st.unit = string(before[i+1:])
		} else if i < 0 {
			return style{dense: true}
		}
	}
	return st
}

func (st style) lines(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte("\n"), []byte(st.newline))
}

func (st style) line(depth int) hujson.Extra {
	if st.dense {
		return nil
	}
	return hujson.Extra(st.newline + strings.Repeat(st.unit, depth))
}

func nameOf(m hujson.ObjectMember) string {
	l, ok := m.Name.Value.(hujson.Literal)
	if !ok {
		return ""
	}
	return l.String()
}

// hasComment reports whether there is more than white space: a person's words.
func hasComment(e hujson.Extra) bool { return len(bytes.TrimSpace(e)) > 0 }

// memberOf returns the value of a name, nil where it is absent. Which of two would count is not ours to say.
func memberOf(o *hujson.Object, name string) (*hujson.Value, error) {
	var found *hujson.Value
	for i := range o.Members {
		if nameOf(o.Members[i]) != name {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%q is listed twice; remove one", name)
		}
		found = &o.Members[i].Value
	}
	return found, nil
}

func child(o *hujson.Object, name string) (*hujson.Object, error) {
	v, err := memberOf(o, name)
	if v == nil || err != nil {
		return nil, err
	}
	c, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("%q is not an object", name)
	}
	return c, nil
}

func list(o *hujson.Object, name string) (*hujson.Array, error) {
	v, err := memberOf(o, name)
	if v == nil || err != nil {
		return nil, err
	}
	c, ok := v.Value.(*hujson.Array)
	if !ok {
		return nil, fmt.Errorf("%q is not a list", name)
	}
	return c, nil
}

// appendMember adds a member at the end, at a depth; a comment behind the last one stays with it.
func appendMember(o *hujson.Object, name string, v hujson.Value, st style, depth int) {
	n := hujson.Value{Value: hujson.String(name)}
	if !st.dense {
		v.BeforeExtra = hujson.Extra(" ")
	}
	if len(o.Members) > 0 {
		last := &o.Members[len(o.Members)-1].Value
		v.AfterExtra, last.AfterExtra = after(last.AfterExtra)
	}
	n.BeforeExtra, o.AfterExtra = splitClosing(o.AfterExtra, st, depth, len(o.Members))
	o.Members = append(o.Members, hujson.ObjectMember{Name: n, Value: v})
}

func appendElement(a *hujson.Array, v hujson.Value, st style, depth int) {
	if len(a.Elements) > 0 {
		last := &a.Elements[len(a.Elements)-1]
		v.AfterExtra, last.AfterExtra = after(last.AfterExtra)
	}
	v.BeforeExtra, a.AfterExtra = splitClosing(a.AfterExtra, st, depth, len(a.Elements))
	a.Elements = append(a.Elements, v)
}

// after splits what follows the value that was last: whether there was a comma behind it goes over to the
// new one, and words stay.
func after(was hujson.Extra) (added, last hujson.Extra) {
	if was == nil {
		return nil, nil
	}
	return hujson.Extra{}, was
}

// splitClosing splits what stood before the closing bracket into what comes before a new value and before the
// bracket; a bracket that stood behind a value on its line stays there.
func splitClosing(was hujson.Extra, st style, depth, siblings int) (before, end hujson.Extra) {
	if hasComment(was) {
		before = append(before, bytes.TrimRight(was, " \t\r\n")...)
	} else if siblings > 0 && !bytes.Contains(was, []byte("\n")) {
		return st.line(depth), was
	}
	return append(before, st.line(depth)...), st.line(depth - 1)
}

// removeMember takes a member out; comments before it stay.
func removeMember(o *hujson.Object, i int) {
	gone := o.Members[i]
	o.Members = append(o.Members[:i:i], o.Members[i+1:]...)
	var prev, next *hujson.Value
	if i > 0 {
		prev = &o.Members[i-1].Value
	}
	if i < len(o.Members) {
		next = &o.Members[i].Name
	}
	mend(gone.Name.BeforeExtra, gone.Value.AfterExtra, prev, next, &o.AfterExtra)
}

func removeElement(a *hujson.Array, i int) {
	gone := a.Elements[i]
	a.Elements = append(a.Elements[:i:i], a.Elements[i+1:]...)
	var prev, next *hujson.Value
	if i > 0 {
		prev = &a.Elements[i-1]
	}
	if i < len(a.Elements) {
		next = &a.Elements[i]
	}
	mend(gone.BeforeExtra, gone.AfterExtra, prev, next, &a.AfterExtra)
}

// mend closes up around a value that was taken out.
func mend(before, after hujson.Extra, prev, next *hujson.Value, end *hujson.Extra) {
	kept := hujson.Extra{}
	if hasComment(before) {
		kept = append(kept, bytes.TrimRight(before, " \t\r\n")...)
	}
	if next != nil {
		next.BeforeExtra = append(kept, next.BeforeExtra...)
		return
	}
	if prev != nil && after == nil { // the last one had no comma, and has none
		if hasComment(prev.AfterExtra) {
			kept = append(append(hujson.Extra{}, prev.AfterExtra...), kept...)
		}
		prev.AfterExtra = nil
	} else if prev != nil && prev.AfterExtra == nil {
		prev.AfterExtra = hujson.Extra{} // it had one, and keeps it
	}
	*end = append(kept, *end...)
	if prev == nil && !hasComment(*end) {
		*end = nil
	}
}
