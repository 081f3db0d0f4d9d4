package channels

import (
	"countersign/internal/secret"
	"encoding/json"
	"fmt"
)

// Address is where a person is reached on a channel. Where it may hold a secret it does not print.
type Address struct {
	text   string
	hidden bool
}

// NewAddress returns an address that prints, unless it is to be hidden.
func NewAddress(text string, hidden bool) Address { return Address{text, hidden} }

// Reveal returns the address itself.
func (a Address) Reveal() string { return a.text }

// Equal reports whether two addresses are the same.
func (a Address) Equal(b Address) bool { return a == b }

func (a Address) String() string {
	if a.hidden {
		return secret.Hidden
	}
	return a.text
}

// Format hides a secret from every verb of fmt.
func (a Address) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), a.String())
}

func (a Address) MarshalJSON() ([]byte, error) { return json.Marshal(a.String()) }

// MarshalText is for YAML too.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }
