package locale

import (
	"strings"
)

// sentence is one that was said before, taken apart: to go through the catalogue takes a hundred times as long.
type sentence struct {
	names  []string // of what is filled in, in the order of those that were given
	texts  []string // what stands before each placeholder, and behind the last
	filled []int    // which of the names is filled in there
}

// numbered is the name of what a sentence may depend on for its form.
const numbered = "n"

// mark stands at a place that is filled in. It stands in no catalogue.
const mark = "\x00"

// keep takes apart the sentence with this id, to be filled in with args of the same names.
func (l *Language) keep(id string, args []string) {
	s := &sentence{}
	var marked []string
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == numbered {
			return
		}
		s.names = append(s.names, args[i])
		marked = append(marked, args[i], mark+string(rune('0'+i/2))+mark)
	}
	text, _ := l.find(id, marked)
	parts := strings.Split(text, mark)
	for n, part := range parts {
		if n%2 == 0 {
			s.texts = append(s.texts, part)
			continue
		}
		s.filled = append(s.filled, int(part[0]-'0'))
	}
	l.said.Store(id, s)
}

// say is the sentence with args filled in, unless they have other names than it was kept for.
func (s *sentence) say(args []string) (said string, ok bool) {
	if len(args)/2 != len(s.names) {
		return "", false
	}
	for i, name := range s.names {
		if args[2*i] != name {
			return "", false
		}
	}
	if len(s.filled) == 0 {
		return s.texts[0], true
	}
	var b strings.Builder
	for i, h := range s.filled {
		b.WriteString(s.texts[i])
		b.WriteString(args[2*h+1])
	}
	b.WriteString(s.texts[len(s.filled)])
	return b.String(), true
}
