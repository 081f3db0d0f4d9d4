package policy

import (
	"math/bits"
	"slices"
	"strings"
)

// pattern is a glob over names: * is any run of characters, everything else is itself.
type pattern string

func (p pattern) literal() bool { return strings.IndexByte(string(p), '*') < 0 }

// prefix returns what stands before the first star.
func (p pattern) prefix() string {
	before, _, _ := strings.Cut(string(p), "*")
	return before
}

func (p pattern) match(s string) bool {
	pi, si := 0, 0
	star, from := -1, 0 // the last star, and where in s its run ends so far
	for si < len(s) {
		switch {
		case pi < len(p) && p[pi] == '*':
			star, from = pi, si
			pi++
		case pi < len(p) && p[pi] == s[si]:
			pi++
			si++
		case star >= 0:
			from++
			pi, si = star+1, from
		default:
			return false
		}
	}
	for pi < len(p) && p[pi] == '*' {
		pi++
	}
	return pi == len(p)
}

// covers reports whether p matches whatever q matches. A star of q is taken for a character that
// no name has, which only a star of p can match; so yes is always right, no may be too cautious.
func (p pattern) covers(q pattern) bool {
	return p.match(strings.ReplaceAll(string(q), "*", "\x00"))
}

// meets reports whether a name can match both patterns.
func (p pattern) meets(q pattern) bool {
	const long = 256 // no name is
	if len(p) > long || len(q) > long {
		return true
	}
	// row[j] says whether what is left of p and q[j:] meet.
	row := make([]bool, len(q)+1)
	for i := len(p); i >= 0; i-- {
		below := slices.Clone(row)
		for j := len(q); j >= 0; j-- {
			pStar, qStar := i < len(p) && p[i] == '*', j < len(q) && q[j] == '*'
			switch {
			case i == len(p) && j == len(q):
				row[j] = true
			case pStar && (below[j] || j < len(q) && row[j+1]), qStar && (row[j+1] || i < len(p) && below[j]):
				row[j] = true
			default:
				row[j] = i < len(p) && j < len(q) && p[i] == q[j] && below[j+1]
			}
		}
	}
	return row[0]
}

// target is a pattern for a tool: of any server, or of the servers that a pattern matches.
type target struct {
	qualified bool
	server    pattern
	tool      pattern
}

func parseTarget(s string) target {
	if server, tool, ok := strings.Cut(s, "/"); ok {
		return target{qualified: true, server: pattern(server), tool: pattern(tool)}
	}
	return target{tool: pattern(s)}
}

func (t target) match(server, tool string) bool {
	return (!t.qualified || t.server.match(server)) && t.tool.match(tool)
}

func (t target) covers(u target) bool {
	if !t.tool.covers(u.tool) {
		return false
	}
	switch {
	case !t.qualified:
		return true
	case !u.qualified:
		return t.server.covers("*")
	}
	return t.server.covers(u.server)
}

func (t target) String() string {
	if t.qualified && t.server != "" {
		return string(t.server) + "/" + string(t.tool)
	}
	return string(t.tool)
}

// index finds the rules that a tool's name can concern without looking at the others: by the exact
// name, or by the literal text before the first star.
type index struct {
	exact     map[string][]int32
	qualified map[[2]string][]int32 // server, tool
	wild      map[string][]entry    // by the literal prefix of the tool's pattern
	lengths   []int                 // of those prefixes, distinct
	servers   map[string][]entry    // an exact server, a pattern of tools
	rest      []entry               // a pattern of servers
}

type entry struct {
	rule   int32
	target target
}

// newIndex makes an index of the rules that are meant.
func newIndex(rules []rule, meant func(*rule) bool) *index {
	x := &index{
		exact: map[string][]int32{}, qualified: map[[2]string][]int32{},
		wild: map[string][]entry{}, servers: map[string][]entry{},
	}
	seen := map[int]bool{}
	for i := range rules {
		n := int32(i)
		if !meant(&rules[i]) {
			continue
		}
		for _, t := range rules[i].targets {
			switch {
			case t.qualified && t.server.literal() && t.tool.literal():
				k := [2]string{string(t.server), string(t.tool)}
				x.qualified[k] = append(x.qualified[k], n)
			case t.qualified && t.server.literal():
				x.servers[string(t.server)] = append(x.servers[string(t.server)], entry{n, t})
			case t.qualified:
				x.rest = append(x.rest, entry{n, t})
			case t.tool.literal():
				x.exact[string(t.tool)] = append(x.exact[string(t.tool)], n)
			default:
				p := t.tool.prefix()
				x.wild[p] = append(x.wild[p], entry{n, t})
				if !seen[len(p)] {
					seen[len(p)] = true
					x.lengths = append(x.lengths, len(p))
				}
			}
		}
	}
	return x
}

// ruleSet is a set of rules by their place in the list.
type ruleSet []uint64

func (s ruleSet) add(rule int32) { s[rule/64] |= 1 << (rule % 64) }

func (s ruleSet) drop(rule int32) { s[rule/64] &^= 1 << (rule % 64) }

// next returns the first rule of the set at or after from, -1 if there is none.
func (s ruleSet) next(from int) int {
	for w := from / 64; w < len(s); w++ {
		word := s[w]
		if w == from/64 {
			word &= ^uint64(0) << (from % 64)
		}
		if word != 0 {
			return w*64 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// collect adds to set the rules that have a pattern for the tool.
func (x *index) collect(set ruleSet, server, tool string) {
	for _, n := range x.exact[tool] {
		set.add(n)
	}
	for _, l := range x.lengths {
		if l <= len(tool) {
			x.try(set, x.wild[tool[:l]], server, tool)
		}
	}
	if len(x.qualified) > 0 {
		for _, n := range x.qualified[[2]string{server, tool}] {
			set.add(n)
		}
	}
	x.try(set, x.servers[server], server, tool)
	x.try(set, x.rest, server, tool)
}

func (x *index) try(set ruleSet, entries []entry, server, tool string) {
	for _, e := range entries {
		if e.target.match(server, tool) {
			set.add(e.rule)
		}
	}
}
