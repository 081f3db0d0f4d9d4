package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Message is one JSON-RPC message. Which of its fields are set says what it is: a request has ID and
// Method, a notification Method alone, a response ID and either Result or Err.
type Message struct {
	ID     jsontext.Value // as written: a string or an integer
	Method string
	Params jsontext.Value // an object; nil: none
	Result jsontext.Value
	Err    jsontext.Value // an error object, see [ReadError]
}

// IsRequest reports whether an answer is due.
func (m Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether no answer is due.
func (m Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether it answers a request.
func (m Message) IsResponse() bool { return m.Method == "" }

// Codes of JSON-RPC and of MCP.
const (
	CodeParseError         = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternalError      = -32603
	CodeResourceNotFound   = -32002 // legacy
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
)

// Codes of our own, outside of what JSON-RPC and MCP keep for themselves.
const (
	CodeDenied      = -31001 // by policy or by a person
	CodePending     = -31002 // a person is being asked
	CodeUnavailable = -31003 // the gate or the server cannot be reached; nothing ran
	CodeUnknown     = -31004 // it was sent and no answer came: it may have run
)

// Error is a JSON-RPC error.
type Error struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data,omitempty"`
}

// Error returns the message with the code.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Errorf returns an [Error].
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Parse reads one message; raw must hold nothing else. The message refers to raw. A message that cannot
// be taken returns an [Error] with [CodeParseError] or [CodeInvalidRequest], and as much of the message
// as could be made out, so that an answer can name its id.
func Parse(raw []byte) (Message, *Error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0:
		return Message{}, Errorf(CodeParseError, "Parse error: the message is empty.")
	case raw[0] == '[':
		return Message{}, Errorf(CodeInvalidRequest, "Invalid request: batches are not taken; send each message by itself.")
	}
	o, err := ReadObject(raw)
	if err != nil {
		code := CodeInvalidRequest
		if err.syntax {
			code = CodeParseError
		}
		return Message{}, Errorf(code, "The message is refused: %s.", err.Reason)
	}
	m, version, method := o.message()
	bad := m.validate(version, method)
	return m, bad
}

// ParseAnswer is [Parse] for what a server sends to a client whose ids are whole numbers. What can mean only one thing
// is taken as that: the id of an answer written as text or with a fraction of zero, and null for a result or an error
// beside the other one.
func ParseAnswer(raw []byte) (Message, *Error) {
	m, bad := Parse(raw)
	if bad != nil { //nolint:nestif // one straight way
		o, err := ReadObject(bytes.TrimSpace(raw))
		if err != nil || o.Get("method") != nil || string(o.Get("id")) == "null" && o.Get("error") == nil {
			return m, bad
		}
		was, _, _ := o.message()
		if string(was.Err) == "null" && was.Result != nil {
			o = o.Without("error")
		} else if string(was.Result) == "null" && was.Err != nil {
			o = o.Without("result")
		}
		if id := WholeID(was.ID); id != nil {
			o = o.With("id", id)
		}
		if m, err := Parse(o.Bytes()); err == nil {
			return m, nil
		}
		return m, bad
	}
	if m.IsResponse() {
		if string(m.Err) == "null" {
			return m, Errorf(CodeInvalidRequest, "Invalid request: there is neither a result nor an error but null.")
		}
		if id := WholeID(m.ID); id != nil {
			m.ID = id
		}
	}
	return m, nil
}

// WholeID returns the whole number that an id stands for, nil for everything else.
func WholeID(id jsontext.Value) jsontext.Value {
	if len(id) == 0 || len(id) > 32 {
		return nil
	}
	text := string(id)
	switch id.Kind() {
	case '"':
		text = Text(id)
	case '0':
		whole, fraction, _ := strings.Cut(text, ".")
		if strings.Trim(fraction, "0") == "" {
			text = whole
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || string(Number(n)) != text {
		return nil
	}
	return Number(n)
}

// message takes a message's members as they stand. jsonrpc and method are still to be checked.
func (o Object) message() (m Message, version, method jsontext.Value) {
	for _, f := range o {
		switch f.Name {
		case "jsonrpc":
			version = f.Value
		case "id":
			m.ID = f.Value
		case "method":
			method = f.Value
		case "params":
			m.Params = f.Value
		case "result":
			m.Result = f.Value
		case "error":
			m.Err = f.Value
		}
	}
	return m, version, method
}

// validate says what is wrong with a message, and takes its method.
func (m *Message) validate(version, method jsontext.Value) *Error {
	bad := func(what string) *Error { return Errorf(CodeInvalidRequest, "Invalid request: %s", what) }
	if string(m.ID) == "null" && m.Err == nil || m.ID != nil && !validID(m.ID) && string(m.ID) != "null" {
		was := m.ID
		m.ID = nil
		return bad(fmt.Sprintf("id must be a string or an integer, and is %.40s.", was))
	}
	if version == nil || Text(version) != "2.0" {
		return bad(`jsonrpc must be "2.0".`)
	}
	if method != nil {
		if m.Method = Text(method); m.Method == "" || method.Kind() != '"' {
			return bad("method must be a string.")
		}
		if m.Result != nil || m.Err != nil {
			return bad("a message is a request or an answer, not both.")
		}
	}
	switch {
	case m.Method == "" && (m.Result == nil) == (m.Err == nil):
		return bad("there is neither a method nor one answer.")
	case m.Method == "" && m.ID == nil:
		return bad("an answer needs the id of what it answers.")
	case string(m.Params) == "null":
		m.Params = nil
	case m.Params != nil && m.Params.Kind() != '{':
		return bad("params must be an object.")
	}
	return nil
}

// validID reports whether v can be an id: a string, or a number without a fraction.
func validID(v jsontext.Value) bool {
	switch v.Kind() {
	case '"':
		return len(v) <= 1024
	case '0':
		return len(v) <= 32 && !bytes.ContainsAny(v, ".eE")
	}
	return false
}

// Text returns the string that v is, "" for everything else.
func Text(v jsontext.Value) string {
	if len(v) == 0 || v[0] != '"' {
		return ""
	}
	if in := v[1 : len(v)-1]; bytes.IndexByte(in, '\\') < 0 {
		return string(in)
	}
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return ""
	}
	return string(b)
}

// Quote returns s as a JSON string. What is not UTF-8 is replaced.
func Quote(s string) jsontext.Value {
	b, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		panic("mcp: " + err.Error()) // it is valid UTF-8
	}
	return b
}

// Number returns n as JSON.
func Number(n int64) jsontext.Value { return strconv.AppendInt(nil, n, 10) }

// Marshal encodes what cannot fail to encode: the values that this program makes itself.
func Marshal(v any) jsontext.Value {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("mcp: " + err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}

// Append appends the message as JSON without a line break of its own. Contents stand as they came.
func (m Message) Append(dst []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if m.ID != nil {
		dst = append(append(dst, `,"id":`...), m.ID...)
	}
	if m.Method != "" {
		dst = append(append(dst, `,"method":`...), Quote(m.Method)...)
	}
	if m.Params != nil {
		dst = append(append(dst, `,"params":`...), m.Params...)
	}
	if m.Result != nil {
		dst = append(append(dst, `,"result":`...), m.Result...)
	}
	if m.Err != nil {
		dst = append(append(dst, `,"error":`...), m.Err...)
	}
	return append(dst, '}')
}

// Bytes returns the message as JSON.
func (m Message) Bytes() []byte {
	return m.Append(make([]byte, 0, 64+len(m.Method)+len(m.Params)+len(m.Result)+len(m.Err)))
}

// Request returns a request.
func Request(id jsontext.Value, method string, params jsontext.Value) Message {
	return Message{ID: id, Method: method, Params: params}
}

// Notification returns a notification.
func Notification(method string, params jsontext.Value) Message {
	return Message{Method: method, Params: params}
}

// Response returns the response that carries a result.
func Response(id, result jsontext.Value) Message { return Message{ID: id, Result: result} }

// ErrorResponse returns the response that carries an error. Without an id it says that none could be read.
func ErrorResponse(id jsontext.Value, e *Error) Message {
	if id == nil {
		id = jsontext.Value("null")
	}
	return Message{ID: id, Err: Marshal(e)}
}

// ReadError returns the error of a response. What cannot be read is an error all the same.
func ReadError(v jsontext.Value) *Error {
	e := new(Error)
	if err := json.Unmarshal(v, e); err != nil {
		return Errorf(CodeInternalError, "The server answered with an error that cannot be read.")
	}
	return e
}
