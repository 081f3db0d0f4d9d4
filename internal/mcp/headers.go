package mcp

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Headers of HTTP requests.
const (
	HeaderVersion   = "Mcp-Protocol-Version"
	HeaderSession   = "Mcp-Session-Id"
	HeaderMethod    = "Mcp-Method"
	HeaderName      = "Mcp-Name"
	HeaderParam     = "Mcp-Param-" // what follows is the tool's choice
	HeaderLastEvent = "Last-Event-Id"
)

const (
	encodedStart = "=?base64?"
	encodedEnd   = "?="
)

// EncodeHeader returns s as the value of a header that mirrors part of a message: as it is where that is
// safe, else in base64 with marks around it. What is empty is encoded too, since an empty header and a
// missing one look the same to many readers.
func EncodeHeader(s string) string {
	if plainHeader(s) {
		return s
	}
	return encodedStart + base64.StdEncoding.EncodeToString([]byte(s)) + encodedEnd
}

func plainHeader(s string) bool {
	if s == "" || s[0] == ' ' || s[len(s)-1] == ' ' || strings.HasPrefix(s, encodedStart) &&
		strings.HasSuffix(s, encodedEnd) {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// DecodeHeader returns what [EncodeHeader] was given. It reports false for marks with anything but base64
// between them.
func DecodeHeader(v string) (string, bool) {
	in, ok := strings.CutPrefix(v, encodedStart)
	if !ok {
		return v, true
	}
	if in, ok = strings.CutSuffix(in, encodedEnd); !ok {
		return v, true
	}
	b, err := base64.StdEncoding.Strict().DecodeString(in)
	// The decoder passes over line breaks, which a header cannot hold.
	if err != nil || strings.ContainsAny(in, "\r\n") {
		return "", false
	}
	return string(b), true
}

// NameOf returns what the header Mcp-Name repeats of a request, "" where it wants none.
func NameOf(method string, params jsontext.Value) string {
	member := NameMember(method)
	if member == "" {
		return ""
	}
	o, err := ReadObject(params)
	if err != nil {
		return ""
	}
	return o.Text(member)
}

// NameMember returns which member of a request's params the header Mcp-Name repeats, "" for none.
func NameMember(method string) string {
	switch method {
	case "tools/call", "prompts/get":
		return "name"
	case "resources/read":
		return "uri"
	case "tasks/get", "tasks/update", "tasks/cancel":
		return "taskId"
	}
	return ""
}

// ParamHeader is a parameter of a tool that is mirrored in a header of modern HTTP requests, as the
// tool's input schema asks with x-mcp-header.
type ParamHeader struct {
	Path   []string // of the argument
	Header string   // the full name: Mcp-Param-…
}

// maxSchemaDepth bounds how deep properties are looked for.
const maxSchemaDepth = 32

// ParamHeaders returns the headers that a tool's input schema asks for, ordered by header. What is no
// header name is passed over, and so is every name that is asked for twice, letter case aside.
func ParamHeaders(inputSchema jsontext.Value) []ParamHeader {
	if !strings.Contains(string(inputSchema), "mcp-header") && !strings.Contains(string(inputSchema), `\u`) {
		return nil // as nearly every schema
	}
	found := paramHeaders(nil, inputSchema, nil)
	slices.SortStableFunc(found, func(a, b ParamHeader) int {
		return strings.Compare(strings.ToLower(a.Header), strings.ToLower(b.Header))
	})
	var hs []ParamHeader
	for i := 0; i < len(found); {
		j := i + 1
		for j < len(found) && strings.EqualFold(found[j].Header, found[i].Header) {
			j++
		}
		if j == i+1 {
			hs = append(hs, found[i])
		}
		i = j
	}
	return hs
}

func paramHeaders(hs []ParamHeader, schema jsontext.Value, path []string) []ParamHeader {
	if len(path) > maxSchemaDepth || schema.Kind() != '{' {
		return hs
	}
	o, err := ReadObject(schema)
	if err != nil {
		return hs
	}
	properties, err := o.Object("properties")
	if err != nil {
		return hs
	}
	for _, p := range properties {
		if p.Value.Kind() != '{' {
			continue
		}
		in := append(slices.Clip(path), p.Name)
		if s, err := ReadObject(p.Value); err == nil {
			if name := s.Text("x-mcp-header"); isHeaderToken(name) {
				hs = append(hs, ParamHeader{in, HeaderParam + name})
			}
		}
		hs = paramHeaders(hs, p.Value, in)
	}
	return hs
}

// isHeaderToken reports whether s can be part of a header's name.
func isHeaderToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// Value returns the header's value for these arguments, encoded as it is sent. It reports false where
// the header has to be left out: the argument is absent, null, or no string, boolean or integer that
// every reader of JSON can hold.
func (h ParamHeader) Value(arguments jsontext.Value) (string, bool) {
	v := arguments
	for _, name := range h.Path {
		if len(v) == 0 || v.Kind() != '{' {
			return "", false
		}
		o, err := ReadObject(v)
		if err != nil {
			return "", false
		}
		v = o.Get(name)
	}
	switch v.Kind() {
	case '"':
		return EncodeHeader(Text(v)), true
	case 't', 'f':
		return string(v), true
	case '0':
		return formatInteger(string(v))
	}
	return "", false
}

// formatInteger writes a JSON number without fraction and exponent. It reports false for what is no integer,
// or beyond ±(2^53-1). It counts digits and never rounds.
func formatInteger(s string) (string, bool) {
	s, negative := strings.CutPrefix(s, "-")
	point := 0 // where it stands, from the start of the digits
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		if err != nil || e > 1<<20 || e < -(1<<20) {
			return "", false
		}
		s, point = s[:i], e
	}
	whole, fraction, _ := strings.Cut(s, ".")
	point += len(whole)
	digits := strings.TrimRight(whole+fraction, "0")
	kept := strings.TrimLeft(digits, "0")
	point -= len(digits) - len(kept)
	if kept == "" {
		return "0", true
	}
	if len(kept) > point || point > len("9007199254740991") {
		return "", false
	}
	n, err := strconv.ParseInt(kept+strings.Repeat("0", point-len(kept)), 10, 64)
	if err != nil || n > 1<<53-1 {
		return "", false
	}
	if negative {
		n = -n
	}
	return strconv.FormatInt(n, 10), true
}
