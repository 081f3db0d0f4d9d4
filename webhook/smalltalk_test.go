package webhook

import (
	"strconv"
	"testing"
	"time"
)

func TestStrangersAreAnsweredWithinBounds(t *testing.T) {
	var s smallTalk
	now := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	count := func(who string, times int) (n int) {
		for range times {
			if s.answers(who, now) {
				n++
			}
		}
		return n
	}
	if got := count("one", 50); got != talkEach {
		t.Errorf("one stranger was answered %d times", got)
	}
	others := 0
	for i := range 500 {
		others += count(strconv.Itoa(i), 1)
	}
	if others != talkAll-talkEach || len(s.each) != 1+others {
		t.Errorf("others were answered %d times, and %d are remembered", others, len(s.each))
	}
	if now = now.Add(talkWithin); count("one", 50) != talkEach {
		t.Errorf("later nobody is answered")
	}
}
