// Package decimal reads numbers exactly as their JSON text says. It compares and adds them without ever writing out
// what an exponent stands for, so that 1e999999999 costs no more than its eleven characters.
package decimal

import (
	"cmp"
	"errors"
	"math/big"
	"strconv"
	"strings"
)

// Decimal is ±0.digits × 10^exp, with neither leading nor trailing zeros in digits, and no digits for zero.
type Decimal struct {
	neg    bool
	digits string
	exp    int64
}

// ErrExponent is what [Parse] says of the one kind of number that it does not read.
var ErrExponent = errors.New("is a number with too large an exponent")

// Parse reads a number in JSON's grammar. Only an exponent of more than 18 digits is refused.
func Parse(s string) (Decimal, error) {
	var d Decimal
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
		return Decimal{}, nil
	}
	d.neg = neg
	d.exp = int64(len(whole) - lead)
	e, err := parseExponent(exponent)
	if err != nil {
		return Decimal{}, err
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
		return 0, ErrExponent
	}
	e, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, ErrExponent
	}
	if s[0] == '-' {
		return -e, nil
	}
	return e, nil
}

// IsNumber reports whether s is a number in JSON's grammar.
func IsNumber(s string) bool {
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

// Compare returns -1, 0 or +1 as d is less than, equal to or greater than other.
func (d Decimal) Compare(other Decimal) int {
	if d.Sign() != other.Sign() {
		return cmp.Compare(d.Sign(), other.Sign())
	}
	// Digits have no trailing zeros, so their order as text is their order as fractions.
	c := cmp.Or(cmp.Compare(d.exp, other.exp), strings.Compare(d.digits, other.digits))
	if d.neg {
		return -c
	}
	return c
}

// Sign returns -1, 0 or +1 as d is less than, equal to or greater than zero.
func (d Decimal) Sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.neg:
		return -1
	}
	return 1
}

// IsInteger reports whether d is a whole number.
func (d Decimal) IsInteger() bool { return d.exp >= int64(len(d.digits)) }

// Integer returns the text of a whole number of at most 20 digits, "" for any other.
func (d Decimal) Integer() string {
	if !d.IsInteger() || d.exp > 20 {
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

// Places returns how many places before the decimal point the first digit stands and how many behind it the last one:
// together, how many digits there are. Either may be less than none.
func (d Decimal) Places() (before, behind int64) { return d.exp, -d.last() }

// maxSum is how many digits [Decimal.Add] writes out at most.
const maxSum = 1000

// Add returns the exact sum. false: it is not worked out, since between the first digit of either and the last lie more
// than a thousand places.
func (d Decimal) Add(other Decimal) (Decimal, bool) {
	switch {
	case d.digits == "":
		return other, len(other.digits) <= maxSum
	case other.digits == "":
		return d, len(d.digits) <= maxSum
	}
	low := min(d.last(), other.last())
	if max(d.exp, other.exp)-low > maxSum {
		return Decimal{}, false
	}
	sum := new(big.Int).Add(d.scale(low), other.scale(low))
	text, neg := strings.CutPrefix(sum.String(), "-")
	digits := strings.TrimRight(text, "0")
	if digits == "" {
		return Decimal{}, true
	}
	return Decimal{neg: neg, digits: digits, exp: low + int64(len(text))}, true
}

// last is the power of ten of the last digit.
func (d Decimal) last() int64 { return d.exp - int64(len(d.digits)) }

// scale returns d in units of 10^low, which d is a multiple of and not far from.
func (d Decimal) scale(low int64) *big.Int {
	n, _ := new(big.Int).SetString(d.digits+strings.Repeat("0", int(d.last()-low)), 10)
	if d.neg {
		n.Neg(n)
	}
	return n
}

// plain is up to how many zeros a number is written without an exponent.
const plain = 20

// String returns d as a JSON number.
func (d Decimal) String() string {
	sign, n := "", int64(len(d.digits))
	if d.neg {
		sign = "-"
	}
	switch {
	case n == 0:
		return "0"
	case d.exp >= n && d.exp <= n+plain:
		return sign + d.digits + strings.Repeat("0", int(d.exp-n))
	case d.exp > 0 && d.exp < n:
		return sign + d.digits[:d.exp] + "." + d.digits[d.exp:]
	case d.exp <= 0 && d.exp > -plain:
		return sign + "0." + strings.Repeat("0", int(-d.exp)) + d.digits
	}
	return sign + d.digits + "e" + strconv.FormatInt(d.last(), 10)
}

// Plain writes d out in full, divided by ten as many times as shift says, with at least so many decimals. false: it
// would have more than most digits.
func (d Decimal) Plain(shift int64, decimals, most int) (string, bool) {
	exp := d.exp - shift
	if d.digits == "" {
		exp = 0
	}
	before, behind := max(exp, 1), max(int64(len(d.digits))-exp, int64(decimals), 0)
	if exp > int64(most) || exp < -int64(most) || before+behind > int64(most) {
		return "", false
	}
	digits := strings.Repeat("0", int(max(1-exp, 0))) + d.digits
	digits += strings.Repeat("0", int(max(before+behind-int64(len(digits)), 0)))
	text := digits[:before]
	if behind > 0 {
		text += "." + digits[before:]
	}
	if d.neg {
		text = "-" + text
	}
	return text, true
}
