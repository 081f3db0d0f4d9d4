package policy

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
)

// decimal is a number exactly as its JSON text says: ±0.digits × 10^exp, with neither leading nor
// trailing zeros in digits, and no digits for zero. Two decimals compare without ever being
// expanded, so 1e999999999 costs no more than its eleven characters.
type decimal struct {
	neg    bool
	digits string
	exp    int64
}

var errExponent = errors.New("is a number with too large an exponent")

// parseDecimal reads a JSON number. Only an exponent of more than 18 digits is refused.
func parseDecimal(s string) (decimal, error) {
	var d decimal
	rest, neg := strings.CutPrefix(s, "-")
	mantissa, exponent := rest, ""
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		mantissa, exponent = rest[:i], rest[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	lead := len(digits) - len(strings.TrimLeft(digits, "0"))
	d.digits = strings.Trim(digits, "0")
	if d.digits == "" {
		return decimal{}, nil
	}
	d.neg = neg
	d.exp = int64(len(whole) - lead)
	e, err := parseExponent(exponent)
	if err != nil {
		return decimal{}, err
	}
	d.exp += e
	return d, nil
}

// parseExponent reads what comes after the e of a number; without one it is 0.
func parseExponent(s string) (int64, error) {
	digits := strings.TrimLeft(strings.TrimLeft(s, "+-"), "0")
	switch {
	case digits == "":
		return 0, nil
	case len(digits) > 18:
		return 0, errExponent
	}
	e, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, errExponent
	}
	if s[0] == '-' {
		return -e, nil
	}
	return e, nil
}

// isNumber reports whether s is a number in JSON's grammar.
func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	digits := func() bool {
		n := len(s) - len(strings.TrimLeft(s, "0123456789"))
		s = s[n:]
		return n > 0
	}
	if strings.HasPrefix(s, "0") {
		s = s[1:]
	} else if !digits() {
		return false
	}
	if rest, ok := strings.CutPrefix(s, "."); ok {
		if s = rest; !digits() {
			return false
		}
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		s = s[1:]
		if s != "" && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		if !digits() {
			return false
		}
	}
	return s == ""
}

// compare returns -1, 0 or +1 as d is less than, equal to or greater than other.
func (d decimal) compare(other decimal) int {
	if d.sign() != other.sign() {
		return cmp.Compare(d.sign(), other.sign())
	}
	// Digits have no trailing zeros, so their order as text is their order as fractions.
	c := cmp.Or(cmp.Compare(d.exp, other.exp), strings.Compare(d.digits, other.digits))
	if d.neg {
		return -c
	}
	return c
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.neg:
		return -1
	}
	return 1
}

// isInteger reports whether d is a whole number.
func (d decimal) isInteger() bool { return d.exp >= int64(len(d.digits)) }

// integer returns the text of a whole number of at most 20 digits, "" for any other.
func (d decimal) integer() string {
	if !d.isInteger() || d.exp > 20 {
		return ""
	}
	if d.digits == "" {
		return "0"
	}
	text := d.digits + strings.Repeat("0", int(d.exp)-len(d.digits))
	if d.neg {
		return "-" + text
	}
	return text
}
