package channels

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is a string that does not print: not with fmt, in JSON, in YAML or in a log.
type Secret string

const hidden = "<secret>"

// Reveal returns what the secret hides.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string { return hidden }

// Format hides the secret from every verb of fmt; %d and the like would print it otherwise.
func (s Secret) Format(f fmt.State, verb rune) { io.WriteString(f, hidden) }

func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// MarshalText is for YAML too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

func (s Secret) MarshalYAML() (any, error) { return hidden, nil }

func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// Secrets are the secrets that hold at the same time, the newest first: while one is being replaced
// there are two.
type Secrets []Secret

// Reveal returns what the secrets hide.
func (s Secrets) Reveal() []string {
	out := make([]string, len(s))
	for i, one := range s {
		out[i] = one.Reveal()
	}
	return out
}
