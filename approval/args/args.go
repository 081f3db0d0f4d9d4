// Package args reads a call's arguments: their canonical form, in which two calls are the same or not, and its hash.
// Every number stays as it was written.
package args

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/maphash"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"countersign/approval/legible"

	"github.com/go-json-experiment/json/jsontext"
)

// maxArgsDepth is how many objects and arrays may be open at once in a call's
// arguments. The arguments object itself is level 1. jsontext's own limit of
// 10000 is far past what a person can be shown.
const maxArgsDepth = 64

// Args is one call's arguments in canonical form: RFC 8785, but with every
// number kept as it was written, so that two amounts never become one. The zero
// Args is the empty object. An Args is immutable and safe for concurrent use.
type Args struct{ p *parsedArgs }

type parsedArgs struct {
	canonical []byte
	ambiguous bool
	cased     bool // a key may equal another text when folded

	decode  sync.Once
	decoded map[string]any
}

var emptyArgs = &parsedArgs{canonical: []byte("{}")}

func (a Args) parse() *parsedArgs {
	if a.p == nil {
		return emptyArgs
	}
	return a.p
}

// Error says why arguments were refused.
type Error struct {
	// Reason is one sentence without its full stop. It is safe to show: it
	// quotes no value, and a key only where it is a short plain word.
	Reason string
}

func (e *Error) Error() string { return "invalid args: " + e.Reason }

// Parse reads a call's arguments. Nothing at all stands for the empty
// object. Otherwise raw must be exactly one JSON object in valid UTF-8, without
// duplicate keys or halves of surrogate pairs, nested at most 64 levels deep;
// anything else is an [*Error]. Parse neither keeps nor changes raw. Its
// cost grows with n log n of raw's length, whatever raw holds.
func Parse(raw []byte) (Args, error) {
	if len(raw) == 0 {
		return Args{}, nil
	}
	if first := bytes.TrimLeft(raw, " \t\r\n"); len(first) == 0 || first[0] != '{' {
		return Args{}, &Error{Reason: "the arguments must be a JSON object"}
	}
	deep, mayCollide := survey(raw)
	if deep {
		return Args{}, &Error{Reason: "nested more than " + strconv.Itoa(maxArgsDepth) + " levels deep"}
	}
	// This is Canonicalize with raw integers and raw floats, without the copy
	// that Canonicalize needs because it works in place.
	canonical, err := jsontext.AppendFormat(nil, raw, jsontext.ReorderRawObjects(true))
	if err != nil {
		return Args{}, &Error{Reason: diagnose(raw, err)}
	}
	return Args{&parsedArgs{
		canonical: canonical,
		ambiguous: mayCollide && keysCollide(canonical),
		cased:     mayCollide,
	}}, nil
}

// Canonical returns the whole canonical JSON, which the caller must not modify.
func (a Args) Canonical() []byte { return slices.Clip(a.parse().canonical) }

// Ambiguous reports whether an object at any level has two keys that differ only
// in letter case, by Unicode's simple folding: [encoding/json] reads such keys
// into the same field, so a tool may see another value than the policy did.
func (a Args) Ambiguous() bool { return a.parse().ambiguous }

// LowerKeys reports whether no key, at any level, has anything in it that folding changes: each is of
// lower-case ASCII letters, digits and signs.
func (a Args) LowerKeys() bool { return !a.parse().cased }

// Hash returns the SHA-256, in hex, of the canonical arguments without the
// top-level members named in ignore. Names are compared exactly. From ambiguous
// arguments nothing is dropped: which member the tool will read is not known.
func (a Args) Hash(ignore ...string) string {
	sum := sha256.Sum256(a.Covered(ignore))
	var digits [2 * sha256.Size]byte
	hex.Encode(digits[:], sum[:])
	return string(digits[:])
}

// Covered returns the canonical arguments as [Args.Hash] takes them.
func (a Args) Covered(ignore []string) []byte {
	p := a.parse()
	if len(ignore) == 0 || p.ambiguous {
		return p.canonical
	}
	return without(p.canonical, ignore)
}

// without returns the canonical object text less the members named in ignore. It
// returns text itself if there are none.
func without(text []byte, ignore []string) []byte {
	var kept []byte // nil until something is dropped
	for m := range members(text) {
		drop := slices.ContainsFunc(ignore, m.isNamed)
		switch {
		case drop && kept == nil:
			kept = append(make([]byte, 0, len(text)), text[:m.start]...)
			kept = bytes.TrimSuffix(kept, []byte(","))
		case !drop && kept != nil:
			if len(kept) > 1 {
				kept = append(kept, ',')
			}
			kept = append(kept, text[m.start:m.end]...)
		}
	}
	if kept == nil {
		return text
	}
	return append(kept, '}')
}

// Has reports whether the arguments have the top-level key name, compared exactly.
func (a Args) Has(name string) bool {
	for m := range members(a.parse().canonical) {
		if m.isNamed(name) {
			return true
		}
	}
	return false
}

// Members yields the top-level members in the order of the canonical form: names, and values as canonical JSON that the
// caller must not modify.
func (a Args) Members() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for m := range members(a.parse().canonical) {
			if !yield(m.name(), m.value) {
				return
			}
		}
	}
}

// Lookup returns the value at a dotted path such as "to.0.amount", as canonical
// JSON that the caller must not modify. In an array a step is a decimal index
// without leading zeros. A key may itself contain dots: the longest key that
// matches is tried first, so an exact key wins over a descent. [Args.LookupAll]
// tells whether there was more than one way.
func (a Args) Lookup(path string) (jsontext.Value, bool) {
	for v := range lookup(a.parse().canonical, path) {
		return v, true
	}
	return nil, false
}

// LookupAll returns every value that path can be read as, in Lookup's order of
// preference. There is more than one only where keys contain dots, as in
// {"a.b":1,"a":{"b":2}}: whoever judges a call by one of them should know that
// the tool may read the other.
func (a Args) LookupAll(path string) []jsontext.Value {
	return slices.Collect(lookup(a.parse().canonical, path))
}

func lookup(text []byte, path string) func(yield func(jsontext.Value) bool) {
	return func(yield func(jsontext.Value) bool) { descend(text, path, yield) }
}

// descend yields the values at path below text, an object or array; it returns
// false once the caller has seen enough. Each value is reached on one way only,
// so the work is bounded by path's steps times text's length.
func descend(text []byte, path string, yield func(jsontext.Value) bool) bool {
	switch text[0] {
	case '{':
		// Longer keys first: their members are gathered, then tried in order.
		type way struct {
			value []byte
			rest  string
			done  bool
		}
		var ways []way
		for m := range members(text) {
			name := m.name()
			switch rest, ok := strings.CutPrefix(path, name); {
			case !ok:
			case rest == "":
				ways = append(ways, way{value: m.value, done: true})
			case rest[0] == '.':
				ways = append(ways, way{value: m.value, rest: rest[1:]})
			}
		}
		slices.SortFunc(ways, func(x, y way) int {
			if x.done != y.done {
				if x.done {
					return -1
				}
				return 1
			}
			return cmp.Compare(len(x.rest), len(y.rest))
		})
		for _, w := range ways {
			if w.done {
				if !yield(w.value) {
					return false
				}
			} else if !descend(w.value, w.rest, yield) {
				return false
			}
		}
	case '[':
		step, rest, more := strings.Cut(path, ".")
		value := element(text, step)
		switch {
		case value == nil:
		case !more:
			return yield(value)
		default:
			return descend(value, rest, yield)
		}
	}
	return true
}

// element returns the array's element at a decimal index, nil if there is none.
func element(text []byte, index string) []byte {
	n, err := strconv.ParseUint(index, 10, 31)
	if err != nil || len(index) > 1 && index[0] == '0' {
		return nil
	}
	for i := 1; text[i] != ']'; {
		end := skipValue(text, i)
		if n == 0 {
			return text[i:end:end]
		}
		n--
		if i = end; text[i] == ',' {
			i++
		}
	}
	return nil
}

// Decode returns the arguments as Go values: map[string]any, []any, string, bool,
// nil, and [json.Number] for numbers, which keeps them exact. It is computed at
// the first call and shared by all, so the caller must not modify it. The error
// is there for a form that cannot be decoded; what [Parse] accepted can be.
func (a Args) Decode() (map[string]any, error) {
	p := a.parse()
	p.decode.Do(func() {
		v, _ := decodeValue(string(p.canonical), 0)
		p.decoded, _ = v.(map[string]any)
	})
	if p.decoded == nil {
		return nil, errors.New("args: not a canonical object")
	}
	return p.decoded, nil
}

// decodeValue decodes the canonical value at text[i:] and returns the index after
// it. Strings and numbers share text's memory.
func decodeValue(text string, i int) (any, int) {
	switch text[i] {
	case '{':
		m := make(map[string]any)
		for i++; text[i] != '}'; {
			var name string
			name, i = decodeString(text, i)
			m[name], i = decodeValue(text, i+len(":"))
			if text[i] == ',' {
				i++
			}
		}
		return m, i + 1
	case '[':
		list := []any{}
		for i++; text[i] != ']'; {
			var v any
			v, i = decodeValue(text, i)
			list = append(list, v)
			if text[i] == ',' {
				i++
			}
		}
		return list, i + 1
	case '"':
		return decodeString(text, i)
	case 't':
		return true, i + len("true")
	case 'f':
		return false, i + len("false")
	case 'n':
		return nil, i + len("null")
	default:
		end := skipValue(text, i)
		return json.Number(text[i:end]), end
	}
}

func decodeString(text string, i int) (string, int) {
	end := skipString(text, i)
	return unquote(text[i:end]), end
}

// unquote returns what a canonical JSON string says.
func unquote(quoted string) string {
	if strings.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	b, _ := jsontext.AppendUnquote(nil, quoted)
	return string(b)
}

// member is one member of a canonical object: text[start:end] is all of it.
type member struct {
	start, end int
	key        []byte // as written, in quotes
	value      []byte
}

func (m member) name() string { return unquote(string(m.key)) }

func (m member) isNamed(name string) bool {
	if bytes.IndexByte(m.key, '\\') < 0 {
		return string(m.key[1:len(m.key)-1]) == name
	}
	return m.name() == name
}

// members yields the members of a canonical object, in order.
func members(text []byte) func(yield func(member) bool) {
	return func(yield func(member) bool) {
		for i := 1; text[i] != '}'; {
			colon := skipString(text, i)
			end := skipValue(text, colon+1)
			if !yield(member{i, end, text[i:colon:colon], text[colon+1 : end : end]}) {
				return
			}
			if i = end; text[i] == ',' {
				i++
			}
		}
	}
}

// skipValue returns the index after the canonical value at text[i:].
func skipValue[T string | []byte](text T, i int) int {
	for depth := 0; ; {
		switch text[i] {
		case '"':
			i = skipString(text, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':':
			i++
			continue
		default: // a number or a literal
			for i++; i < len(text) && text[i] != ',' && text[i] != '}' && text[i] != ']'; i++ {
			}
		}
		if depth == 0 {
			return i
		}
	}
}

// skipString returns the index after the canonical string at text[i:].
func skipString[T string | []byte](text T, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// Classes of bytes, for the passes over all of a call's arguments.
const (
	quote    = 1 << iota
	escape   // the byte after it means something else
	foldable // not lower-case ASCII and not without case: may equal another when folded
	colon
	opening
	closing
)

var classes = func() (t [256]uint8) {
	for c := range t {
		if c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			t[c] = foldable
		}
	}
	t['"'], t['\\'], t[':'] = quote, escape|foldable, colon
	t['{'], t['['], t['}'], t[']'] = opening, opening, closing, closing
	return t
}()

// survey reads raw once, before anything is known of it. It reports whether it
// nests deeper than allowed, so that nothing deep is ever sorted, and whether keys
// may collide: those of only lower-case ASCII, the usual ones, cannot. What survey
// takes for strings and brackets is what a JSON reader takes for them up to the
// first error, which is as far as the reader gets.
func survey(raw []byte) (deep, mayCollide bool) {
	depth := 0
	var last, keys uint8 // classes in the string read last, which is a key if a colon follows
	for i := 0; i < len(raw); i++ {
		switch classes[raw[i]] {
		case quote:
			last = 0
			for i++; i < len(raw); i++ {
				c := classes[raw[i]]
				last |= c
				if c&quote != 0 {
					break
				}
				if c&escape != 0 {
					i++
				}
			}
		case colon:
			keys |= last
		case opening:
			if depth++; depth > maxArgsDepth {
				return true, true
			}
		case closing:
			depth--
		}
	}
	return false, keys&foldable != 0
}

// keySeed is not known to any sender, so no set of keys can be made to collide.
var keySeed = maphash.MakeSeed()

// span is a key's place in the canonical text.
type span struct{ start, end int }

// keysCollide reports whether an object in the canonical text has two keys that
// are equal under simple folding. It sorts the hashes of each object's folded keys:
// n log n for any keys.
func keysCollide(text []byte) bool {
	type object struct {
		first   int  // index of its first key; -1 for an array
		suspect bool // a key is more than lower-case ASCII
	}
	var (
		open   [maxArgsDepth]object
		depth  int
		keys   = make([]span, 0, 32) // of all open objects, innermost last
		hashes []uint64
		folded []byte
	)
	for i := 0; i < len(text); {
		switch c := text[i]; classes[c] {
		case opening:
			open[depth] = object{first: -1}
			if c == '{' {
				open[depth].first = len(keys)
			}
			depth++
			i++
		case closing:
			depth--
			i++
			o := open[depth]
			if o.first < 0 {
				continue
			}
			if o.suspect && len(keys)-o.first > 1 {
				hashes = hashes[:0]
				for _, key := range keys[o.first:] {
					folded = appendFolded(folded[:0], text[key.start:key.end])
					hashes = append(hashes, maphash.Bytes(keySeed, folded))
				}
				slices.Sort(hashes)
				for j := 1; j < len(hashes); j++ {
					// Two unequal keys share 64 bits once in an age; even
					// then the call only goes to a person.
					if hashes[j-1] == hashes[j] {
						return true
					}
				}
			}
			keys = keys[:o.first]
		case quote:
			start := i
			var seen uint8
			for i++; text[i] != '"'; i++ {
				c := classes[text[i]]
				seen |= c
				if c&escape != 0 {
					i++
				}
			}
			i++
			// A colon after a string makes it a key, in an object.
			if text[i] == ':' {
				keys = append(keys, span{start, i})
				if seen&foldable != 0 {
					open[depth-1].suspect = true
				}
			}
		default:
			i++
		}
	}
	return false
}

// appendFolded appends the canonical string in the one form that all strings
// share that [bytes.EqualFold] finds equal. Escapes may be folded like text:
// canonical ones are written in one way only, and none becomes another.
func appendFolded(dst, text []byte) []byte {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if 'a' <= c && c <= 'z' {
				c -= 'a' - 'A'
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		dst = utf8.AppendRune(dst, foldRune(r))
		i += n
	}
	return dst
}

// foldRune returns the smallest rune of r's folding orbit.
func foldRune(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}

// diagnose turns jsontext's refusal of raw into a sentence that is safe to show.
// It finds out by looking again, since jsontext exports no value for most causes.
func diagnose(raw []byte, err error) string {
	syntax, _ := errors.AsType[*jsontext.SyntacticError](err)
	where := ""
	if syntax != nil {
		where = inside(syntax.JSONPointer)
	}
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	_, first := d.ReadValue()
	switch {
	case syntax != nil && syntax.Err == jsontext.ErrDuplicateName:
		return "duplicate key" + where
	case !utf8.Valid(raw):
		return "invalid UTF-8" + where
	case first == nil:
		return "something follows the arguments object"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the JSON ends too early"
	case jsontext.Value(raw).IsValid(jsontext.AllowInvalidUTF8(true)):
		return "half of a surrogate pair" + where
	case syntax != nil:
		return "not valid JSON at byte " + strconv.FormatInt(syntax.ByteOffset, 10) + where
	default:
		return "not valid JSON"
	}
}

// inside names the place that a JSON pointer points to, for people. A key that
// is long, or anything but a plain word, is replaced by its length.
func inside(p jsontext.Pointer) string {
	if p == "" {
		return ""
	}
	const most = 8 // steps
	var b strings.Builder
	b.WriteString(" at ")
	n := 0
	for token := range p.Tokens() {
		if n++; n > most {
			b.WriteString("/…")
			break
		}
		b.WriteByte('/')
		if plainKey(token) {
			b.WriteString(token)
		} else {
			b.WriteString("(" + legible.Characters(utf8.RuneCountInString(token)) + ")")
		}
	}
	return b.String()
}

// plainKey reports whether a key may be quoted in an error: up to 40 characters, of words of up to 16 letters with up
// to 3 digits behind them. No credential of a known kind looks so.
func plainKey(key string) bool {
	if len(key) == 0 || len(key) > 40 {
		return false
	}
	letters, digits := 0, 0
	for _, c := range []byte(key) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			if letters++; letters > 16 || digits > 0 {
				return false
			}
		case '0' <= c && c <= '9':
			if digits++; digits > 3 {
				return false
			}
		case c == '_', c == '-', c == '.':
			letters, digits = 0, 0
		default:
			return false
		}
	}
	return true
}
