// Package jsongen draws JSON for property tests: values, and one of the many ways to write each.
package jsongen

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// number is a JSON number as written.
type Number string

// leaf draws any JSON value that is no container.
func Leaf() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.Custom(func(t *rapid.T) any {
			return Number(rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,4})?([eE][+-]?[0-9]{1,3})?`).Draw(t, "number"))
		}),
		rapid.Custom(func(t *rapid.T) any { return rapid.String().Draw(t, "string") }),
		rapid.Custom(func(t *rapid.T) any {
			return rapid.SampledFrom([]any{true, false, nil, "", "true", "1"}).Draw(t, "fixed")
		}),
	)
}

func Key() *rapid.Generator[string] {
	return rapid.OneOf(rapid.StringMatching(`[a-c.]{0,3}`), rapid.String(),
		rapid.SampledFrom([]string{"path", "Path", "token", "😀", "\ufb33"}))
}

func Value(depth int) *rapid.Generator[any] {
	if depth == 0 {
		return Leaf()
	}
	return rapid.OneOf(Leaf(), Leaf(),
		rapid.Map(rapid.Deferred(func() *rapid.Generator[map[string]any] { return Object(depth - 1) }),
			func(m map[string]any) any { return m }),
		rapid.Map(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return Value(depth - 1) }), 0, 4),
			func(l []any) any { return l }),
	)
}

func Object(depth int) *rapid.Generator[map[string]any] {
	return rapid.MapOfN(Key(), Value(depth), 0, 5)
}

// spell writes v as JSON in one of its many ways: members in any order, white
// space anywhere, characters escaped or not.
func Spell(t *rapid.T, v any) string {
	seed := rapid.Uint64().Draw(t, "spelling")
	s := &speller{r: rand.New(rand.NewPCG(seed, seed))}
	s.value(v)
	s.space()
	return s.b.String()
}

type speller struct {
	r *rand.Rand
	b strings.Builder
}

func (s *speller) space() {
	for s.r.IntN(4) == 0 {
		s.b.WriteByte(" \t\n\r"[s.r.IntN(4)])
	}
}

func (s *speller) str(text string) {
	s.b.WriteByte('"')
	for _, r := range text {
		escape := s.r.IntN(3) == 0 || r < ' ' || r == '"' || r == '\\'
		short := strings.IndexRune("\"\\/\b\f\n\r\t", r)
		switch {
		case !escape:
			s.b.WriteRune(r)
		case short >= 0 && s.r.IntN(2) == 0:
			s.b.WriteString(`\` + string(`"\/bfnrt`[short]))
		case r > 0xffff:
			format := []string{`\u%04x\u%04x`, `\u%04X\u%04X`}[s.r.IntN(2)]
			r -= 0x10000
			fmt.Fprintf(&s.b, format, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&s.b, []string{`\u%04x`, `\u%04X`}[s.r.IntN(2)], r)
		}
	}
	s.b.WriteByte('"')
}

func (s *speller) value(v any) {
	s.space()
	defer s.space()
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		s.r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		s.b.WriteByte('{')
		for i, k := range keys {
			if i > 0 {
				s.b.WriteByte(',')
			}
			s.space()
			s.str(k)
			s.space()
			s.b.WriteByte(':')
			s.value(v[k])
		}
		s.space()
		s.b.WriteByte('}')
	case []any:
		s.b.WriteByte('[')
		for i, inner := range v {
			if i > 0 {
				s.b.WriteByte(',')
			}
			s.value(inner)
		}
		s.space()
		s.b.WriteByte(']')
	case string:
		s.str(v)
	case Number:
		s.b.WriteString(string(v))
	default:
		fmt.Fprint(&s.b, map[any]string{true: "true", false: "false", nil: "null"}[v])
	}
}
