package locale

import (
	"strconv"
	"time"
)

// Time shows t in a zone, with the zone's name: its abbreviation, or where it has none the offset and
// the name of the place. A nil zone is UTC.
func (l *Language) Time(t time.Time, zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	s := t.In(zone).Format("2006-01-02 15:04 MST")
	if last := s[len(s)-1]; '0' <= last && last <= '9' {
		s += " (" + zone.String() + ")"
	}
	return s
}

// Duration tells how long d is, in one or two units: "28 min", "1 h 5 min", "2 days".
func (l *Language) Duration(d time.Duration) string {
	m := int((d + time.Minute/2) / time.Minute)
	switch {
	case d < time.Minute:
		return l.Count("seconds", int(d/time.Second))
	case m < 60:
		return l.Count("minutes", m)
	case m < 48*60 && m%60 == 0:
		return l.Count("hours", m/60)
	case m < 48*60:
		return l.Say("and_then", "first", l.Count("hours", m/60), "second", l.Count("minutes", m%60))
	}
	return l.Count("days", m/(24*60))
}

func (l *Language) number(n int) string { return strconv.Itoa(n) }
