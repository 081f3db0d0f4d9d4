// Package secret keeps what must not be shown out of everything that is printed.
//
// A [Value] is a string to those who ask with Reveal, and "<secret>" to fmt, encoding/json, YAML and log/slog. A
// struct that holds secrets in exported fields of these types can be printed and logged whole.
package secret

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Value is a string that does not print: not with fmt, in JSON, in YAML or in a log.
type Value string

// Hidden is what is shown in place of a secret.
const Hidden = "<secret>"

// Reveal returns what the secret hides.
func (s Value) Reveal() string { return string(s) }

// String hides the secret.
func (s Value) String() string { return Hidden }

// Format hides the secret from every verb of fmt; %d and the like would print it otherwise.
func (s Value) Format(f fmt.State, _ rune) { io.WriteString(f, Hidden) }

// MarshalJSON hides the secret.
func (s Value) MarshalJSON() ([]byte, error) { return []byte(`"` + Hidden + `"`), nil }

// MarshalText is for YAML too.
func (s Value) MarshalText() ([]byte, error) { return []byte(Hidden), nil }

// MarshalYAML hides the secret.
func (s Value) MarshalYAML() (any, error) { return Hidden, nil }

// LogValue hides the secret.
func (s Value) LogValue() slog.Value { return slog.StringValue(Hidden) }

// List are the secrets that hold at the same time, the newest first: while one is being replaced
// there are two.
type List []Value

// Reveal returns what the secrets hide.
func (s List) Reveal() []string {
	out := make([]string, len(s))
	for i, one := range s {
		out[i] = one.Reveal()
	}
	return out
}

// OneOrMore says that a file may hold one secret where it can hold a list of them.
func (s List) OneOrMore() {}

// FindSlip says what was copied with a secret and is no part of it, "" where nothing shows: no platform's secret, and
// none that people make, begins or ends so. It quotes nothing of the secret.
func FindSlip(s Value) string {
	v := string(s)
	first, _ := utf8.DecodeRuneInString(v)
	last, _ := utf8.DecodeLastRuneInString(v)
	switch {
	case v == "":
		return ""
	case first == '\ufeff':
		return "begins with a byte order mark: save the file that it comes from as UTF-8 without one"
	case last == '\r', last == '\n':
		return "ends with a line end: take it away (a file with Windows line ends leaves one behind each value)"
	case unicode.IsSpace(first), unicode.IsSpace(last):
		return "begins or ends with a space: take it away"
	case len(v) > 1 && first == last && strings.ContainsRune("\"'`", first):
		return "stands in quotation marks, which count as part of it: take them away (docker's --env-file keeps those " +
			"that a file has around a value)"
	}
	return ""
}
