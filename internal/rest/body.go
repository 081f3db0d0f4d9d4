package rest

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"countersign/approval"
	"countersign/internal/bodies"
	"countersign/internal/budget"
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

var errEmpty = approval.Errorf(codeInvalidJSON, "The body is empty; it must be a JSON object.")

// read decodes the request's body into body; there must be one.
func (x *exchange) read(body any) error {
	return x.readBody(errEmpty, func(raw []byte) error { return decode(raw, body) })
}

// readOptional is read for a body that may be left out.
func (x *exchange) readOptional(body any) error {
	return x.readBody(nil, func(raw []byte) error { return decode(raw, body) })
}

// readBody hands the request's body to use, which must not keep it. Of an empty one the error is empty, and use is
// not called; nil says that it may be left out.
func (x *exchange) readBody(empty error, use func(body []byte) error) error {
	r := x.r
	optional := empty == nil
	if optional && r.ContentLength == 0 {
		return nil
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return approval.Errorf(codeUnsupportedMediaType, "The body must not be compressed.")
	}
	isJSON := isJSON(r.Header.Get("Content-Type"))
	if !isJSON && r.ContentLength != 0 && !(optional && r.ContentLength < 0) {
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
		if err := x.account.Check(budget.Bytes, int(r.ContentLength)); err != nil {
			return err
		}
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer release(buf)
	// Read to its end, or the server will not notice a client that goes away.
	raw, err := readInto(buf, http.MaxBytesReader(x.ResponseWriter, r.Body, maxBody), r.ContentLength)
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return errTooLarge
		}
		if _, ok := errors.AsType[bodies.Crowded](err); ok {
			return &approval.Error{Code: approval.CodeRateLimited,
				Message: "Too many requests are being sent at once. Try again.", Err: err}
		}
		return &approval.Error{Code: codeInvalidJSON, Message: "The body could not be read in full.", Err: err}
	}
	spared = spared && len(raw) <= maxSpared
	switch refuse := x.account.Spend(budget.Bytes, len(raw)); {
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
	case len(raw) > 0 && !isJSON:
		return errNotJSONType
	case len(raw) == 0:
		return empty
	}
	turn, err := x.account.TurnFor(x.ctx, len(raw))
	if err != nil {
		return err
	}
	defer turn()
	return use(raw)
}

// readInto reads a body that is said to have length bytes: into buf, from where it is used again, if it is small.
func readInto(buf *bytes.Buffer, r io.Reader, length int64) ([]byte, error) {
	if length < 0 || length > maxKept {
		return bodies.ReadAll(r)
	}
	buf.Grow(int(length) + bytes.MinRead)
	_, err := buf.ReadFrom(r)
	return buf.Bytes(), err
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

// answer writes v as the JSON of a successful answer.
func (x *exchange) answer(status int, v any) error {
	x.Header()["Content-Type"] = jsonType
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
	_, _ = x.Write(buf.Bytes()) // there is no caller left to be told that no one reads
	return nil
}
