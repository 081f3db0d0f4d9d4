package channels

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// amount is how many decimals an amount of money has, where a whole number stands for one.
type amount int

var (
	centsKey = regexp.MustCompile(`(^|[_.\- ])(?i:cents)$|[a-z0-9]Cents$`)
	minorKey = regexp.MustCompile(`[_.\- ](?i:minor)$|[a-z0-9]Minor$`)
)

var currencyKey = regexp.MustCompile(`^(?i:currency([_.\- ]?code)?)$`)

// twoDecimals are currencies of which a minor unit is known to be a hundredth.
var twoDecimals = map[string]bool{
	"AUD": true, "BRL": true, "CAD": true, "CHF": true, "CNY": true, "CZK": true, "DKK": true, "EUR": true, "GBP": true,
	"HKD": true, "INR": true,
	"MXN": true, "NOK": true, "NZD": true, "PLN": true, "SEK": true, "SGD": true, "THB": true, "USD": true, "ZAR": true,
}

// amountOf returns what whole numbers under a key of an object stand for. Cents are hundredths, unless
// the object names a currency of which that is not known: some write yen as cents too. Minor units are so
// only of a currency that it names.
func amountOf(key string, currency func() (code string, named bool)) amount {
	cents := centsKey.MatchString(key)
	if !cents && !minorKey.MatchString(key) {
		return 0
	}
	if code, named := currency(); named && twoDecimals[code] || !named && cents {
		return 2
	}
	return 0
}

// currency returns the currency that an object names, "" where what it names is not clear. It reads the
// whole object, which is asked once and not for each of its keys.
func currency(object []byte) (code string, named bool) {
	d := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowDuplicateNames(true))
	if open, err := d.ReadToken(); err != nil || open.Kind() != '{' {
		return "", false
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return "", named
		}
		wanted := currencyKey.MatchString(name.String())
		v, err := d.ReadValue()
		if err != nil {
			return "", named
		}
		if !wanted || v.Kind() == 'n' {
			continue
		}
		next := ""
		if v.Kind() == '"' {
			next = strings.ToUpper(string(bytes.Trim(v, `"`)))
		}
		if named && next != code {
			return "", true
		}
		code, named = next, true
	}
	return code, named
}

// maxGlossed is the longest number, in digits, that is written out once more: all of it stays on a card.
const maxGlossed = 30

var whole = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// gloss reads a number's token for people: an amount with its decimals, a long whole number in groups
// of three. It works on the digits, so it is exact; of any other number it says nothing.
func gloss(token string, money amount) string {
	digits := strings.TrimPrefix(token, "-")
	if !whole.MatchString(token) || len(digits) > maxGlossed || digits == "0" && token != digits {
		return ""
	}
	sign, decimals := token[:len(token)-len(digits)], ""
	switch {
	case money > 0:
		digits = strings.Repeat("0", max(0, int(money)+1-len(digits))) + digits
		at := len(digits) - int(money)
		digits, decimals = digits[:at], "."+digits[at:]
	case len(digits) < 5:
		return ""
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return "= " + sign + b.String() + decimals
}
