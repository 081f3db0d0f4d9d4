package export

import (
	"bytes"
	"encoding/csv"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
)

// Format is a form of an export, as it is asked for.
type Format string

const (
	CSV    Format = "csv"
	NDJSON Format = "ndjson"
)

// The content types of the forms.
const (
	TypeCSV    = "text/csv"
	TypeNDJSON = "application/x-ndjson"
)

// Column is one column of a list of R.
type Column[R any] struct {
	Name  string
	value func(R) value
}

// value is what stands in one cell: text as CSV has it, and the same as JSON.
type value struct {
	text string
	json jsontext.Value // nil: the text, or null where that is ""
}

func text[R any, T ~string](name string, of func(R) T) Column[R] {
	return Column[R]{name, func(r R) value { return value{text: string(of(r))} }}
}

func at[R any](name string, of func(R) time.Time) Column[R] {
	return Column[R]{name, func(r R) value { return value{text: approval.FormatTime(of(r))} }}
}

func number[R any, T ~int | ~int64](name string, of func(R) T) Column[R] {
	return Column[R]{name, func(r R) value {
		s := strconv.FormatInt(int64(of(r)), 10)
		return value{s, jsontext.Value(s)}
	}}
}

// optNumber is a number that is left out where it is 0.
func optNumber[R any](name string, of func(R) int) Column[R] {
	return Column[R]{name, func(r R) value {
		if of(r) == 0 {
			return value{}
		}
		s := strconv.Itoa(of(r))
		return value{s, jsontext.Value(s)}
	}}
}

// object is JSON that is there already, or none.
func object[R any](name string, of func(R) []byte) Column[R] {
	return Column[R]{name, func(r R) value { return value{string(of(r)), of(r)} }}
}

// Head returns the columns' names.
func Head[R any](columns []Column[R]) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return names
}

// writeTime is how long a client may take to read what is there for it.
const writeTime = 30 * time.Second

// maxKept is how large a buffer is kept for the next rows.
const maxKept = 64 << 10

// Writer hands rows to one client. Its first [Writer.Flush] sends the header: until then another answer can be given.
type Writer[R any] struct {
	w       http.ResponseWriter
	control *http.ResponseController
	format  Format
	name    string
	columns []Column[R]
	buf     bytes.Buffer
	begun   bool
}

// New returns a writer of a file with this name, to which the form's ending is added.
func New[R any](w http.ResponseWriter, format Format, name string, columns []Column[R]) *Writer[R] {
	return &Writer[R]{w: w, control: http.NewResponseController(w), format: format, name: name, columns: columns}
}

// Rows takes rows that the next [Writer.Flush] sends, and returns how many bytes they are.
func (e *Writer[R]) Rows(rows []R) (n int, err error) {
	before := e.buf.Len()
	if e.format == CSV {
		err = e.csv(rows)
	} else {
		err = WriteLines(&e.buf, e.columns, rows)
	}
	return e.buf.Len() - before, err
}

func (e *Writer[R]) csv(rows []R) error {
	w := csv.NewWriter(&e.buf)
	cells := make([]string, len(e.columns))
	for _, r := range rows {
		for i, c := range e.columns {
			cells[i] = cell(c.value(r).text)
		}
		if err := w.Write(cells); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// cell is a value that no spreadsheet takes for a formula: what could be one gets a ' in front. That is so for what
// stands behind a semicolon, a tab or a line's end too, where a spreadsheet of another country begins its next cell.
func cell(v string) string {
	var b strings.Builder
	if v != "" && strings.IndexByte("\t\r\n", v[0]) >= 0 {
		b.WriteByte('\'')
	}
	for v != "" {
		if isFormula(v) {
			b.WriteByte('\'')
		}
		i := strings.IndexAny(v, ";\t\r\n") + 1
		if i == 0 {
			i = len(v)
		}
		b.WriteString(v[:i])
		v = v[i:]
	}
	return b.String()
}

// isFormula reports whether a text could be a formula, behind blanks, quotes and what cannot be seen.
func isFormula(v string) bool {
	v = strings.TrimLeftFunc(v, func(r rune) bool {
		return r == '"' || r == ' ' || !unicode.IsPrint(r) && r != '\t' && r != '\r' && r != '\n' && r != utf8.RuneError
	})
	first, _ := utf8.DecodeRuneInString(v)
	return strings.ContainsRune("=+-@＝＋－＠", first)
}

// WriteLines writes rows as NDJSON, to any writer.
func WriteLines[R any](w io.Writer, columns []Column[R], rows []R) error {
	// Text that is not UTF-8, as a platform may have sent, is shown as far as it is.
	enc := jsontext.NewEncoder(w, jsontext.AllowInvalidUTF8(true))
	for _, r := range rows {
		if err := writeLine(enc, columns, r); err != nil {
			return err
		}
	}
	return nil
}

// writeLine writes a row as one line.
func writeLine[R any](enc *jsontext.Encoder, columns []Column[R], r R) error {
	if err := enc.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, c := range columns {
		if err := enc.WriteToken(jsontext.String(c.Name)); err != nil {
			return err
		}
		if err := c.value(r).write(enc); err != nil {
			return err
		}
	}
	return enc.WriteToken(jsontext.EndObject)
}

func (v value) write(enc *jsontext.Encoder) error {
	switch {
	case v.json != nil:
		return enc.WriteValue(v.json)
	case v.text == "":
		return enc.WriteToken(jsontext.Null)
	}
	return enc.WriteToken(jsontext.String(v.text))
}

// Begun reports whether the header was sent.
func (e *Writer[R]) Begun() bool { return e.begun }

// Begin sends the header, and of a CSV the columns' names; for a HEAD that is all.
func (e *Writer[R]) Begin(method string) {
	if e.begun {
		return
	}
	e.begun = true
	kind := TypeNDJSON
	if e.format == CSV {
		kind = TypeCSV + "; charset=utf-8; header=present"
	}
	h := e.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", `attachment; filename="`+e.name+"."+string(e.format)+`"`)
	h.Set("X-Accel-Buffering", "no")
	h.Set("Connection", "close") // it has deadlines of its own
	e.w.WriteHeader(http.StatusOK)
	if e.format == CSV && method != http.MethodHead {
		w := csv.NewWriter(e.w)
		_ = w.Write(Head(e.columns)) // who has gone is noticed with the next rows
		w.Flush()
	}
}

// Flush sends what is there, with a deadline of its own: a client that reads is waited for, however long all of it
// takes.
func (e *Writer[R]) Flush() error {
	_ = e.control.SetWriteDeadline(time.Now().Add(writeTime))
	e.Begin(http.MethodGet)
	if _, err := e.w.Write(e.buf.Bytes()); err != nil {
		return err
	}
	e.buf.Reset()
	if e.buf.Cap() > maxKept {
		e.buf = bytes.Buffer{}
	}
	return e.control.Flush()
}
