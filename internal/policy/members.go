package policy

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// members are the top-level arguments of one call that the policy's rules can ask for by a plain
// name. They are found in one pass over the canonical text, however many rules ask.
type members struct {
	scanned bool
	found   []member
}

type member struct {
	name int32 // its number among the names of the policy
	raw  jsontext.Value
}

// get returns the argument with that number. names numbers all of them.
func (m *members) get(number int32, names map[string]int32, canonical []byte) (jsontext.Value, bool) {
	if !m.scanned {
		m.scan(names, canonical)
	}
	for i := range m.found {
		if m.found[i].name == number {
			return m.found[i].raw, true
		}
	}
	return nil, false
}

func (m *members) scan(names map[string]int32, text []byte) {
	m.scanned = true
	for i := 1; i < len(text) && text[i] == '"'; {
		colon := stringEnd(text, i)
		end := valueEnd(text, colon+1)
		key := text[i+1 : colon-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			key, _ = jsontext.AppendUnquote(nil, text[i:colon])
		}
		if number, ok := names[string(key)]; ok {
			m.found = append(m.found, member{number, text[colon+1 : end : end]})
		}
		i = end + 1 // over the comma
	}
}

// valueEnd returns the index after the canonical value that begins at text[i].
func valueEnd(text []byte, i int) int {
	switch text[i] {
	case '"':
		return stringEnd(text, i)
	case '{', '[':
	default: // a number or a literal
		for text[i] != ',' && text[i] != '}' && text[i] != ']' {
			i++
		}
		return i
	}
	for depth := 0; ; {
		switch text[i] {
		case '"':
			i = stringEnd(text, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
}

// stringEnd returns the index after the canonical string that begins at text[i].
func stringEnd(text []byte, i int) int {
	for {
		i++
		i += bytes.IndexByte(text[i:], '"')
		n := 0
		for text[i-1-n] == '\\' {
			n++
		}
		if n%2 == 0 {
			return i + 1
		}
	}
}
