package app

import (
	"strconv"
	"time"

	"countersign/approval"
	"countersign/chat/phrases"
	"countersign/locale"
)

// say says one of the gate's phrases in somebody's language, with times as people write them, in the zone
// of whoever reads. In English the sentence about a decision that stands already has its time as the API
// has it.
func say(to approval.Actor, p phrases.Phrase, args ...any) string {
	l := locale.Get(to.Locale)
	words := make([]string, 0, len(args))
	for _, v := range args {
		switch v := v.(type) {
		case string:
			words = append(words, v)
		case int:
			words = append(words, strconv.Itoa(v))
		case time.Time:
			words = append(words, l.Time(v, to.Zone))
		}
	}
	return l.Say(string(p), words...)
}
