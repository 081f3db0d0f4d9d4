package rest

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/legible"
)

// loose has the decoder take repeated names and texts that are not UTF-8, to find out what else there is.
var loose = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// decode reads raw, which must be one JSON object and nothing else, into body, a pointer to a struct whose fields
// are all that may be there. It keeps nothing of raw.
func decode(raw []byte, body any) error {
	if !bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{")) {
		if err := syntax(raw); err != nil {
			return err
		}
		return notObject("")
	}
	if err := json.Unmarshal(raw, body, json.RejectUnknownMembers(true)); err != nil {
		return refusal(raw, body, err)
	}
	return nil
}

// readArray has each read the elements of the array that d is about to read.
func readArray(d *jsontext.Decoder, each func(i int) error) error {
	if d.PeekKind() != jsontext.KindBeginArray {
		return approval.Errorf(approval.CodeInvalidParameter, "%s must be an array.", place(d.StackPointer()))
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for i := 0; d.PeekKind() != jsontext.KindEndArray; i++ {
		if err := each(i); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// refusal tells why raw could not be decoded into body, without quoting a value. What is not JSON is refused before
// anything is said of names and values.
func refusal(raw []byte, body any, err error) error {
	if bad := syntax(raw); bad != nil {
		return bad
	}
	if ours, ok := errors.AsType[*approval.Error](err); ok {
		return ours
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return notStrict(raw, e)
	}
	e, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return err
	}
	if bad, ok := errors.AsType[*args.Error](e.Err); ok {
		return approval.Errorf(approval.CodeInvalidArgs, "%s: %s.", place(e.JSONPointer), bad.Reason)
	}
	if e.Err == json.ErrUnknownName {
		return unknown(raw, body, e)
	}
	wanted := "a string"
	if e.GoType != nil {
		switch e.GoType.Kind() {
		case reflect.Bool:
			wanted = "true or false"
		case reflect.Int:
			wanted = "a whole number"
		case reflect.Struct:
			wanted = "an object"
		}
	}
	return approval.Errorf(approval.CodeInvalidParameter, "%s must be %s.", place(e.JSONPointer), wanted)
}

// notStrict tells what of raw, which is JSON, is not strict JSON: a name is there twice, or something is not UTF-8.
func notStrict(raw []byte, e *jsontext.SyntacticError) error {
	switch at := place(e.JSONPointer); {
	case e.Err == jsontext.ErrDuplicateName:
		return approval.Errorf(codeInvalidJSON, "%s is there twice.", at)
	case isName(raw, e.ByteOffset):
		return approval.Errorf(codeInvalidJSON, "%s has a name that is not valid UTF-8.", cmp.Or(at, "The body"))
	default:
		return approval.Errorf(codeInvalidJSON, "%s is not valid UTF-8.", at)
	}
}

// isName reports whether what stands at offset in raw, which is JSON, is a member's name.
func isName(raw []byte, offset int64) bool {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), loose...)
	for d.InputOffset() <= offset {
		if _, err := d.ReadToken(); err != nil {
			return false
		}
	}
	kind, n := d.StackIndex(d.StackDepth())
	return kind == jsontext.KindBeginObject && n%2 == 1
}

// unknown tells of an unknown name. One that differs only in letter case from a field's that is there too counts as
// there twice: which of them another reader takes is not known.
func unknown(raw []byte, body any, e *json.SemanticError) error {
	name, at := e.JSONPointer.LastToken(), e.JSONPointer.Parent()
	if field := fieldLike(e.GoType, name); field != "" {
		other := reflect.New(reflect.TypeOf(body).Elem()).Interface()
		err := json.Unmarshal(raw, other, json.RejectUnknownMembers(true), json.MatchCaseInsensitiveNames(true))
		twice, ok := errors.AsType[*jsontext.SyntacticError](err)
		if ok && twice.Err == jsontext.ErrDuplicateName && twice.JSONPointer.Parent() == at &&
			strings.EqualFold(twice.JSONPointer.LastToken(), name) {
			return approval.Errorf(codeInvalidJSON, "%s is there twice, in different letter case.", place(at.AppendToken(field)))
		}
	}
	name = cmp.Or(legible.Cut(legible.Line(name), 64), `""`)
	if parent := place(at); parent != "" {
		name = parent + "." + name
	}
	return approval.Errorf(codeUnknownField, "%s is not a known field.", name)
}

// fieldLike returns the field of the struct t whose name is like name but for letter case, "" if there is none.
func fieldLike(t reflect.Type, name string) string {
	for _, f := range reflect.VisibleFields(t) {
		field, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if strings.EqualFold(field, name) {
			return field
		}
	}
	return ""
}

// place names what a pointer points to for people: tool, or calls[3].tool; "" is the body.
func place(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.Atoi(token); err == nil && b.Len() > 0 {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
	}
	return legible.Cut(legible.Line(b.String()), 128)
}

func notObject(at string) error {
	return approval.Errorf(codeInvalidJSON, "%s must be a JSON object.", cmp.Or(at, "The body"))
}

// maxDepth is jsontext's own limit on nesting, far above that on args.
const maxDepth = 10_000

// syntax tells where raw stops being one JSON value, without quoting it; nil where it is one.
func syntax(raw []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), loose...)
	_, err := d.ReadToken()
	for err == nil && d.StackDepth() > 0 {
		if k := d.PeekKind(); k == jsontext.KindEndObject || k == jsontext.KindEndArray {
			_, err = d.ReadToken()
		} else {
			_, err = d.ReadValue()
		}
	}
	if err == nil {
		if _, err = d.ReadToken(); err == io.EOF {
			return nil
		}
		if err == nil {
			return approval.Errorf(codeInvalidJSON, "Something follows the JSON object.")
		}
	}
	if nestingDepth(raw) > maxDepth { // only args can be meant to nest
		return approval.Errorf(approval.CodeInvalidArgs, "The args are nested more than 64 levels deep.")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		return approval.Errorf(codeInvalidJSON, "The body is not valid JSON: it ends too early.")
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return approval.Errorf(codeInvalidJSON, "The body is not valid JSON at byte %d.", e.ByteOffset)
	}
	return approval.Errorf(codeInvalidJSON, "The body is not valid JSON.")
}

// nestingDepth returns how many objects and arrays are open at once in raw, as far as it is JSON.
func nestingDepth(raw []byte) int {
	deepest, depth := 0, 0
	inString := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
