package channels

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/approval/legible"
)

// How much is said of what was said before: changes of args, and characters of a name, a value and a reason.
const (
	mostChanges   = 3
	changedName   = 40
	changedValue  = 32
	reasonBefore  = 120
	beforeChanged = 10 // characters that a value keeps in front of where it differs
)

// before says what was last decided about the same tool, and what is different now; "" where nothing was. Only what
// the masker shows is compared, so that no difference tells what a secret is.
func (m Maker) before(n approval.Notification, r approval.Request) string {
	b := r.Before
	if b == nil || b.At.IsZero() {
		return ""
	}
	at := n.CreatedAt
	if at.IsZero() { // all of a request, which says the same on each of its pages
		at = r.RequestedAt
	}
	bare, why := TextSaidDenied, TextSaidDeniedWhy
	if b.Approved {
		bare, why = TextSaidApproved, TextSaidApprovedWhy
	}
	names := []string{"ago", m.Words.Duration(at.Sub(b.At)), "who", m.line(b.By)}
	if b.Reason == "" {
		return m.andNow(r, m.say(bare, names...))
	}
	reason, _ := m.masker().Text(b.Reason)
	return m.andNow(r, m.say(why, append(names, "reason", legible.Line(quote(legible.Cut(reason, reasonBefore))))...))
}

// andNow says in which args a request differs from the one before it, of which something is said.
func (m Maker) andNow(r approval.Request, said string) string {
	if r.Before.Args == nil {
		return said
	}
	maskedBefore, _ := m.masker().Args(r.Before.Args)
	maskedNow, _ := m.masker().Args(r.Args)
	ignored := m.ignoredArgs(r)
	changes := differences(topLevel(maskedBefore, ignored), topLevel(maskedNow, ignored))
	switch {
	case len(changes) > 0:
	case len(differences(topLevel(r.Before.Args, ignored), topLevel(r.Args, ignored))) > 0:
		return m.say(TextSaidHidden, "said", said)
	default:
		return m.say(TextSaidSame, "said", said)
	}
	more := ""
	if len(changes) > mostChanges {
		more = " (+" + strconv.Itoa(len(changes)-mostChanges) + ")"
		changes = changes[:mostChanges]
	}
	return m.say(TextSaidNow, "said", said, "changes", m.Words.List(changes)+more)
}

// members are the top-level args of a call: their names in order, and their values as JSON.
type members struct {
	names  []string
	values map[string]string
}

// topLevel reads an object's members, less some.
func topLevel(args []byte, without []string) members {
	m := members{values: map[string]string{}}
	d := jsontext.NewDecoder(bytes.NewReader(args), jsontext.AllowDuplicateNames(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return m
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return m
		}
		name := t.String()
		v, err := d.ReadValue()
		if err != nil {
			return m
		}
		if !slices.Contains(without, name) {
			m.names, m.values[name] = append(m.names, name), string(v)
		}
	}
	return m
}

// differences are the members that are not the same: to acme → acme-2.
func differences(was, now members) (changes []string) {
	for _, name := range union(now, was) {
		if was.values[name] == now.values[name] {
			continue
		}
		before, after := aside(brief(was.values[name]), brief(now.values[name]))
		changes = append(changes, legible.Cut(rowKey(name), changedName)+" "+before+" → "+after)
	}
	return changes
}

// Difference is what is not the same in two calls' args, member by member and whole: as it was, then as it is. Only
// what the masker shows is compared.
func (m Maker) Difference(was, now []byte) (lines []DiffLine) {
	maskedWas, _ := m.masker().Args(was)
	maskedNow, _ := m.masker().Args(now)
	before, after := topLevel(maskedWas, nil), topLevel(maskedNow, nil)
	for _, name := range union(after, before) {
		old, was := before.values[name]
		is, still := after.values[name]
		if was && still && old == is {
			continue
		}
		if was {
			lines = append(lines, DiffLine{DiffRemoved, "- " + rowKey(name) + ": " + legible.Line(old)})
		}
		if still {
			lines = append(lines, DiffLine{DiffAdded, "+ " + rowKey(name) + ": " + legible.Line(is)})
		}
	}
	return lines
}

// union is the names of both: those of a first, then those that b alone has.
func union(a, b members) []string {
	return slices.Concat(a.names, slices.DeleteFunc(slices.Clone(b.names), func(name string) bool {
		_, too := a.values[name]
		return too
	}))
}

// brief is a value in a sentence: in quotes where it could pass for more of the sentence, "–" where there is none.
func brief(value string) string {
	v := jsontext.Value(value)
	if len(v) == 0 {
		return "–"
	}
	if v.Kind() != '"' {
		return legible.Line(value)
	}
	text, err := jsontext.AppendUnquote(nil, v)
	if err != nil || !plainKey.Match(text) || literal.Match(text) {
		return legible.Line(quote(string(text)))
	}
	return string(text)
}

// aside cuts two values so that it is seen where they differ.
func aside(before, after string) (string, string) {
	a, b := []rune(before), []rune(after)
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	from := same - beforeChanged
	if max(len(a), len(b)) <= changedValue || from <= 0 {
		return legible.Cut(before, changedValue), legible.Cut(after, changedValue)
	}
	return legible.Cut("…"+string(a[from:]), changedValue), legible.Cut("…"+string(b[from:]), changedValue)
}
