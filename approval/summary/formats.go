package summary

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"countersign/approval/args/decimal"

	"github.com/go-json-experiment/json/jsontext"
)

// format is how a placeholder shows its value: {args.amount|money:USD/100}. It never rounds, and what it does not
// understand it leaves as it is: a sentence that shows another amount than the call has would be believed.
type format struct {
	name     string
	currency string
	shift    int64 // of money: by how many places the number is divided
	millis   bool
}

// Formats are the names of all.
var Formats = []string{"money", "count", "size", "date"}

// moneyRE is a currency, and how many of what the argument counts make one of it.
var moneyRE = regexp.MustCompile(`^([A-Z]{3})(?:/(10{0,18}))?$`)

// symbols are the currencies that are written with a sign.
var symbols = map[string]string{"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "THB": "฿", "TWD": "NT$"}

// noDecimals are currencies that are not divided.
var noDecimals = map[string]bool{"JPY": true, "KRW": true, "VND": true, "CLP": true, "ISK": true}

// maxFormatted is the longest number, in digits, that is written out.
const maxFormatted = 30

// parseFormat reads what stands behind the bar of a placeholder; wrong says what is wrong with it.
func parseFormat(s string) (f format, wrong string) {
	name, how, has := strings.Cut(s, ":")
	f.name = name
	switch name {
	case "money":
		m := moneyRE.FindStringSubmatch(how)
		if m == nil {
			return f, "money says the currency, and how many of what the argument counts make one: money:USD for " +
				"dollars, money:USD/100 for cents"
		}
		f.currency, f.shift = m[1], int64(max(len(m[2])-1, 0))
		return f, ""
	case "date":
		if f.millis = how == "ms"; has && !f.millis {
			return f, "date takes nothing, or ms for a number of milliseconds: date:ms"
		}
		return f, ""
	case "count", "size":
		if has {
			return f, name + " takes nothing after it"
		}
		return f, ""
	}
	return f, unknownFormat
}

// show shows v, or says that it is nothing that the format is for.
func (f format) show(v jsontext.Value) (string, bool) {
	switch f.name {
	case "money":
		return f.money(v)
	case "count":
		return formatCount(v)
	case "size":
		return formatSize(v)
	case "date":
		return f.date(v)
	}
	return "", false
}

func (f format) money(v jsontext.Value) (string, bool) {
	decimals := 2
	if noDecimals[f.currency] {
		decimals = 0
	}
	n, ok := plainNumber(v, f.shift, decimals)
	if !ok {
		return "", false
	}
	sign := ""
	if rest, negative := strings.CutPrefix(n, "-"); negative {
		sign, n = "-", rest
	}
	if symbol := symbols[f.currency]; symbol != "" {
		return sign + symbol + n, true
	}
	return f.currency + " " + sign + n, true
}

// formatCount shows a number in groups of three, or how many there are in a list or an object.
func formatCount(v jsontext.Value) (string, bool) {
	switch v.Kind() {
	case '0':
		return plainNumber(v, 0, 0)
	case '[', '{':
		return strconv.Itoa(countMembers(v)), true
	}
	return "", false
}

// formatSize shows a number of bytes, or how many a text has. A text that is a number may be either, and is left as it
// is.
func formatSize(v jsontext.Value) (string, bool) {
	token := string(v)
	if v.Kind() == '"' {
		s, err := jsontext.AppendUnquote(nil, v)
		if err != nil || decimal.IsNumber(strings.TrimSpace(string(s))) {
			return "", false
		}
		token = strconv.Itoa(len(s))
	} else if v.Kind() != '0' {
		return "", false
	}
	d, err := decimal.Parse(token)
	if err != nil || d.Sign() < 0 || !d.IsInteger() {
		return "", false
	}
	exact, ok := d.Plain(0, 0, maxFormatted)
	if !ok {
		return "", false
	}
	units := []string{"kB", "MB", "GB", "TB", "PB"}
	thousands := (len(exact) - 1) / 3
	bytes := group(exact) + " B"
	if thousands == 0 || thousands > len(units) {
		return bytes, true
	}
	at := len(exact) - 3*thousands
	about, rest := exact[:at]+"."+exact[at:at+1], strings.Trim(exact[at+1:], "0")
	about = strings.TrimSuffix(about, ".0") + " " + units[thousands-1]
	if rest == "" {
		return about, true
	}
	return about + " (" + bytes + ")", true // cut, not rounded, and what it is exactly
}

// years are between which a number is taken for a time.
var firstTime, lastTime = time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// date shows a time in the zone that it says itself; a number of seconds or milliseconds in UTC.
func (f format) date(v jsontext.Value) (string, bool) {
	if v.Kind() == '0' {
		n, err := strconv.ParseInt(string(v), 10, 64)
		at := time.Unix(n, 0)
		if f.millis {
			at = time.UnixMilli(n)
		}
		if err != nil || at.Before(firstTime) || at.After(lastTime) {
			return "", false
		}
		return at.UTC().Format("2006-01-02 15:04:05 UTC"), true
	}
	if v.Kind() != '"' {
		return "", false
	}
	s, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return "", false
	}
	if _, err := time.Parse(time.DateOnly, string(s)); err == nil {
		return string(s), true
	}
	at, err := time.Parse(time.RFC3339, string(s))
	if err != nil {
		return "", false
	}
	if strings.HasSuffix(string(s), "Z") {
		return at.Format("2006-01-02 15:04:05 UTC"), true
	}
	return at.Format("2006-01-02 15:04:05 -07:00"), true
}

// plainNumber writes a number out in groups of three, divided by ten as often as shift says.
func plainNumber(v jsontext.Value, shift int64, decimals int) (string, bool) {
	if v.Kind() != '0' {
		return "", false
	}
	d, err := decimal.Parse(string(v))
	if err != nil {
		return "", false
	}
	s, ok := d.Plain(shift, decimals, maxFormatted)
	return group(s), ok
}

// group sets commas between thousands.
func group(s string) string {
	sign := ""
	if rest, negative := strings.CutPrefix(s, "-"); negative {
		sign, s = "-", rest
	}
	whole, fraction, has := strings.Cut(s, ".")
	var b strings.Builder
	for i, r := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	if has {
		return sign + b.String() + "." + fraction
	}
	return sign + b.String()
}
