package webhook

import (
	"sync"
	"time"
)

// Strangers are told what this is whatever they write, but not without end: an answer is a row, and platforms limit how
// much a bot says.
const (
	talkWithin = 10 * time.Minute
	talkEach   = 3   // answers to one stranger
	talkAll    = 100 // and to all of them together
)

// smallTalk counts the answers to strangers' small talk.
type smallTalk struct {
	mu    sync.Mutex
	since time.Time
	all   int
	each  map[string]int
}

// answers reports whether somebody is answered now, and counts it.
func (s *smallTalk) answers(who string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := now.Sub(s.since); s.each == nil || age >= talkWithin || age < 0 {
		s.since, s.all, s.each = now, 0, map[string]int{}
	}
	if s.all >= talkAll || s.each[who] >= talkEach {
		return false
	}
	s.all++
	s.each[who]++
	return true
}
