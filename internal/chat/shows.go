package chat

import (
	"regexp"
	"strconv"
	"time"

	"countersign/approval"
)

// Shows is what of an [approval.Card] a person has before them: what came after one of its versions and up to another.
// The zero Shows is the first version, which is what buttons mean that say nothing of it.
type Shows struct{ Version, After int }

// MaxVersion is the highest version of a card that a button says.
const MaxVersion = 9999

// ParseVersion reads the version of a card: a decimal number from 1 to [MaxVersion], without a sign or leading zeros.
func ParseVersion(s string) (n int, ok bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && 1 <= n && n <= MaxVersion && strconv.Itoa(n) == s
}

// TypedID is how a person types a card's id for all that it shows: the id, then v and the version where it is not the
// first, then a and the version after which it begins.
func (s Shows) TypedID(id string) string {
	if s.After == 0 && s.Version <= 1 {
		return id
	}
	id += "v" + strconv.Itoa(max(s.Version, 1))
	if s.After > 0 {
		id += "a" + strconv.Itoa(s.After)
	}
	return id
}

// typedCard matches what [Shows.TypedID] writes of a version.
var typedCard = regexp.MustCompile(`(?i)\b([0-7][0-9A-HJKMNP-TV-Z]{25})v([1-9][0-9]{0,3})(?:a([1-9][0-9]{0,3}))?\b`)

// withoutVersions leaves the versions out of a text, and returns those of the ids that it names.
func withoutVersions(text string) (bare string, of map[string]Shows) {
	bare = typedCard.ReplaceAllStringFunc(text, func(token string) string {
		part := typedCard.FindStringSubmatch(token)
		id, ok := approval.ParseID(part[1])
		var s Shows
		s.Version, _ = ParseVersion(part[2])
		s.After, _ = ParseVersion(part[3])
		if _, twice := of[id]; !ok || twice || s.After >= s.Version {
			return token
		}
		if of == nil {
			of = map[string]Shows{}
		}
		of[id] = s
		return part[1]
	})
	return bare, of
}

// Period is how long an approval is to answer the same call again, as buttons say it.
type Period string

// Periods are those that there are buttons for.
const (
	ForSession Period = "session"
	ForHour    Period = "1h"
	ForDay     Period = "8h" // a working day
	ForTen     Period = "10" // so many uses
)

// Wish is what is asked for; false for a period that no button has.
func (p Period) Wish() (w approval.GrantWish, ok bool) {
	switch p {
	case ForSession:
		return approval.GrantWish{Session: true}, true
	case ForHour:
		return approval.GrantWish{For: time.Hour}, true
	case ForDay:
		return approval.GrantWish{For: 8 * time.Hour}, true
	case ForTen:
		return approval.GrantWish{Uses: 10}, true
	}
	return w, false
}
