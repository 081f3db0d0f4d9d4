package rest

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/budget"
)

// maxBody is how large a request's body may be.
const maxBody = 1 << 20

// maxSpared is how large the body of what no budget refuses may be: any reason fits, however it is written.
const maxSpared = 128 << 10

// maxKept is how large a buffer is kept for the next request.
const maxKept = 64 << 10

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func release(b *bytes.Buffer) {
	if b.Cap() <= maxKept {
		b.Reset()
		buffers.Put(b)
	}
}

// readBody hands the request's body to use, which must not keep it. An empty body is refused unless
// optional; then use is not called.
func (x *exchange) readBody(optional bool, use func(body []byte) error) error {
	r := x.r
	if optional && r.ContentLength == 0 {
		return nil
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return approval.Errorf(codeUnsupportedMediaType, "The body must not be compressed.")
	}
	jsonType := isJSON(r.Header.Get("Content-Type"))
	if !jsonType && r.ContentLength != 0 && !(optional && r.ContentLength < 0) {
		return errNotJSONType
	}
	if r.ContentLength > maxBody {
		return errTooLarge
	}
	spared := x.spared && r.ContentLength <= maxSpared
	switch {
	case x.over != nil && !spared:
		return x.over()
	case !spared && r.ContentLength > 0:
		if err := x.account.Look(budget.Bytes, int(r.ContentLength)); err != nil {
			return err
		}
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer release(buf)
	if n := r.ContentLength; n > 0 { // the rest of a large one when it comes: it is only promised
		buf.Grow(int(min(n, maxKept)) + bytes.MinRead)
	}
	// Read to its end, or the server will not notice a client that goes away.
	if _, err := buf.ReadFrom(http.MaxBytesReader(x.ResponseWriter, r.Body, maxBody)); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return errTooLarge
		}
		if _, ok := errors.AsType[crowded](err); ok {
			return &approval.Error{Code: approval.CodeRateLimited, Message: "Too many bodies are on their way at once. Try again.", Err: err}
		}
		return &approval.Error{Code: codeInvalidJSON, Message: "The body could not be read to its end.", Err: err}
	}
	spared = spared && buf.Len() <= maxSpared
	switch refuse := x.account.Spend(budget.Bytes, buf.Len()); {
	case spared:
	case x.over != nil:
		return x.over()
	case refuse != nil:
		return refuse()
	}
	if err := x.again(); err != nil { // a body may take its time, and its sender be removed meanwhile
		return err
	}
	switch {
	case buf.Len() > 0 && !jsonType:
		return errNotJSONType
	case buf.Len() == 0 && optional:
		return nil
	case buf.Len() == 0:
		return approval.Errorf(codeInvalidJSON, "The body is empty; it must be a JSON object.")
	}
	turn, err := x.account.TurnFor(x.ctx, buf.Len())
	if err != nil {
		return err
	}
	defer turn()
	return use(buf.Bytes())
}

// crowded is the error of reading a body that had to give way to others.
type crowded interface {
	error
	RetryAfter() time.Duration
}

var (
	errNotJSONType = approval.Errorf(codeUnsupportedMediaType, "The body must be application/json.")
	errTooLarge    = approval.Errorf(codeTooLarge, "The body is larger than 1 MiB.")
)

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	t, params, err := mime.ParseMediaType(contentType)
	charset, ok := params["charset"]
	return err == nil && t == "application/json" && (!ok || strings.EqualFold(charset, "utf-8"))
}

// loose has the decoder take what is judged here instead: repeated names by [readObject], invalid
// UTF-8 by [text], and both inside args by [args.Parse].
var loose = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// readObject reads raw, which must be one JSON object and nothing else, and puts the value of each
// member into values at the index of its name in names. The values are parts of raw. at is raw's own
// place, for errors: "" or "calls[3]".
//
// What is not JSON is refused before anything is said of names, and names before values are looked at.
func readObject(raw []byte, at string, names []string, values []jsontext.Value) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), loose...)
	if d.PeekKind() != jsontext.KindBeginObject {
		if _, err := d.ReadValue(); err != nil {
			return notJSON(raw, err)
		}
		return approval.Errorf(codeInvalidJSON, "%s must be a JSON object.", place(at, "", "The body"))
	}
	if _, err := d.ReadToken(); err != nil {
		return notJSON(raw, err)
	}
	var wrong error // the first thing that is wrong with a name
	var unknown string
	for d.PeekKind() != jsontext.KindEndObject {
		v, err := d.ReadValue()
		if err != nil {
			return notJSON(raw, err)
		}
		name, nameErr := unquote(v)
		v, err = d.ReadValue()
		if err != nil {
			return notJSON(raw, err)
		}
		end := int(d.InputOffset())
		i := slices.Index(names, name)
		switch {
		case wrong != nil:
		case nameErr != nil:
			wrong = approval.Errorf(codeInvalidJSON, "%s has a name that is not valid UTF-8.", place(at, "", "The body"))
		case i < 0:
			if unknown == "" {
				unknown = name
				if name == "" {
					unknown = `""`
				}
			}
		case values[i] != nil:
			wrong = approval.Errorf(codeInvalidJSON, "%s is there twice.", place(at, names[i], ""))
		default:
			values[i] = raw[end-len(v) : end : end]
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return notJSON(raw, err)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		if err == nil {
			return approval.Errorf(codeInvalidJSON, "Something follows the JSON object.")
		}
		return notJSON(raw, err)
	}
	if wrong != nil || unknown == "" {
		return wrong
	}
	for i, n := range names {
		if values[i] != nil && strings.EqualFold(n, unknown) {
			return approval.Errorf(codeInvalidJSON, "%s is there twice, in different letter case.", place(at, n, ""))
		}
	}
	return approval.Errorf(codeUnknownField, "%s is not a known field.", place(at, legible.Cut(legible.Line(unknown), 64), ""))
}

// readArray calls each with the elements of raw, a valid JSON value.
func readArray(raw []byte, what string, each func(i int, v jsontext.Value) error) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), loose...)
	if d.PeekKind() != jsontext.KindBeginArray {
		return approval.Errorf(approval.CodeInvalidParameter, "%s must be an array.", what)
	}
	if _, err := d.ReadToken(); err != nil {
		return notJSON(raw, err)
	}
	for i := 0; d.PeekKind() != jsontext.KindEndArray; i++ {
		v, err := d.ReadValue()
		if err != nil {
			return notJSON(raw, err)
		}
		end := int(d.InputOffset())
		if err := each(i, raw[end-len(v):end:end]); err != nil {
			return err
		}
	}
	return nil
}

// place names a member for people: tool, calls[3].tool, or whole when at and name are "".
func place(at, name, whole string) string {
	switch {
	case at == "" && name == "":
		return whole
	case at == "":
		return name
	case name == "":
		return at
	}
	return at + "." + name
}

// maxDepth is jsontext's own limit on nesting, far above that on args.
const maxDepth = 10_000

// notJSON tells where raw stops being JSON, without quoting it.
func notJSON(raw []byte, err error) error {
	if nested(raw) > maxDepth { // only args can be meant to nest
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

// nested returns how many objects and arrays are open at once in raw, as far as it is JSON.
func nested(raw []byte) int {
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

var errNotUTF8 = errors.New("rest: not UTF-8")

// unquote returns what the JSON string v says; halves of surrogate pairs are no better than bytes that
// are not UTF-8.
func unquote(v jsontext.Value) (string, error) {
	plain := true
	for _, c := range v[1 : len(v)-1] {
		if c == '\\' || c >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain {
		return string(v[1 : len(v)-1]), nil
	}
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return "", errNotUTF8
	}
	return string(b), nil
}

// text reads an optional text; null is as good as absent.
func text(v jsontext.Value, name string) (string, error) {
	if v == nil {
		return "", nil
	}
	switch v.Kind() {
	case jsontext.KindNull:
		return "", nil
	case jsontext.KindString:
		s, err := unquote(v)
		if err != nil {
			return "", approval.Errorf(codeInvalidJSON, "%s is not valid UTF-8.", name)
		}
		return s, nil
	}
	return "", approval.Errorf(approval.CodeInvalidParameter, "%s must be a string.", name)
}

// boolean reads an optional true or false; null is as good as absent.
func boolean(v jsontext.Value, name string) (bool, error) {
	if v == nil {
		return false, nil
	}
	switch v.Kind() {
	case jsontext.KindNull, jsontext.KindFalse:
		return false, nil
	case jsontext.KindTrue:
		return true, nil
	}
	return false, approval.Errorf(approval.CodeInvalidParameter, "%s must be true or false.", name)
}

// encoding has text that is not UTF-8, as a platform may have sent, shown as far as it is.
var encoding = json.JoinOptions(jsontext.AllowInvalidUTF8(true), json.Deterministic(true))

// answer writes v as the JSON of a successful answer.
func (x *exchange) answer(status int, v any) error {
	x.Header().Set("Content-Type", "application/json")
	return writeBody(x, status, v)
}

// writeBody encodes v whole before anything is written.
func writeBody(x *exchange, status int, v any) error {
	buf := buffers.Get().(*bytes.Buffer)
	defer release(buf)
	if err := json.MarshalWrite(buf, v, encoding); err != nil {
		return err
	}
	if x.turn != nil {
		x.account.Read(buf.Len())
	}
	x.endTurn()
	x.Header().Set("Content-Length", strconv.Itoa(buf.Len()))
	x.WriteHeader(status)
	_, _ = x.Write(buf.Bytes()) // nobody is left to be told that nobody reads
	return nil
}
