package locale

import (
	"strconv"
	"time"
)

// thaiMonths are the months as a date in figures abbreviates them.
var thaiMonths = [12]string{"ม.ค.", "ก.พ.", "มี.ค.", "เม.ย.", "พ.ค.", "มิ.ย.", "ก.ค.", "ส.ค.", "ก.ย.", "ต.ค.", "พ.ย.",
	"ธ.ค."}

// buddhistEra is how many years the Thai calendar is ahead.
const buddhistEra = 543

// atHome is what people call the time of their own country, where its zone has no name in letters or
// one that several countries use.
var atHome = map[string]map[string]string{
	"th":    {"Asia/Bangkok": "(เวลาไทย)"},
	"zh-TW": {"Asia/Taipei": "台北時間"},
}

// Reader is whom a time is told to.
type Reader struct {
	Now  time.Time      // when they read it; the zero time: not known, so that no day is called today
	Zone *time.Location // where they are; nil: not known, so that it is UTC, and said to be
	// Abroad: several read it, and some may be in another zone, so that the zone is named.
	Abroad bool
	// Stays: what they read stays as it is, and may be read on a later day, so that no day but today is called by a word:
	// "tomorrow" would be a day late then.
	Stays bool
}

// zone is in which times are told, and whether that has to be said.
func (r Reader) zone() (zone *time.Location, named bool) {
	if r.Zone == nil {
		return time.UTC, true
	}
	return r.Zone, r.Abroad
}

// When tells a time as people do, by a clock of 24 hours: "today 18:46", "tomorrow 09:10", "yesterday 22:05", and else
// with the date, which has its year where that is not this one.
//
// Where nobody has said in which zone the reader is, the time names its own.
func (l *Language) When(t time.Time, r Reader) string {
	zone, named := r.zone()
	t, now := t.In(zone), r.Now.In(zone)
	clock, thisYear := t.Format("15:04"), 0
	if !r.Now.IsZero() {
		thisYear = now.Year()
	}
	said, away := "", day(t)-day(now)
	if word, ok := nearby[away]; ok && !r.Now.IsZero() && (away == 0 || !r.Stays) {
		said = l.Say(word, "clock", clock)
	} else {
		said = l.Say("on_day", "day", l.day(t, thisYear), "clock", clock)
	}
	if !named && !isRepeated(t) {
		return said
	}
	name, ok := atHome[l.Tag()][zone.String()]
	if !ok {
		name = zoneName(t)
	}
	return said + " " + name
}

// WhenAway is When, and how far away that is: "today 18:46 (in 28 min)".
func (l *Language) WhenAway(t time.Time, r Reader) string {
	if r.Now.IsZero() {
		return l.When(t, r)
	}
	return l.And(l.When(t, r), l.Away(t.Sub(r.Now)))
}

// And adds to a time how far away it is, in words.
func (l *Language) And(when, away string) string {
	return l.Say("when_away", "when", when, "away", away)
}

// Away tells how far ahead something is, or how long ago it was: "in 28 min", "28 min ago", "just now".
func (l *Language) Away(d time.Duration) string {
	switch {
	case d > 0:
		return l.In(d)
	case d > -time.Minute:
		return l.Say("just_now")
	}
	return l.Say("ago", "duration", l.Duration(-d))
}

// nearby are the days that have a name, by how far they are from this one.
var nearby = map[int]string{-1: "yesterday", 0: "today", 1: "tomorrow"}

// day counts the days of the calendar.
func day(t time.Time) int {
	year, month, d := t.Date()
	return int(time.Date(year, month, d, 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60))
}

// day is the date of t, for whoever reads it in that year; 0: it is not known in which.
func (l *Language) day(t time.Time, year int) string {
	short := t.Year() == year
	switch l.Tag() {
	case "ja", "zh-TW":
		if short {
			return t.Format("1月2日")
		}
		return t.Format("2006年1月2日")
	case "th":
		d := strconv.Itoa(t.Day()) + " " + thaiMonths[t.Month()-1]
		if short {
			return d
		}
		return d + " " + strconv.Itoa(t.Year()+buddhistEra)
	}
	if short {
		return t.Format("2 Jan")
	}
	return t.Format("2 Jan 2006")
}

// isRepeated reports whether the clock shows t's time twice, where it is set back: then the zone tells which it is.
func isRepeated(t time.Time) bool {
	start, end := t.ZoneBounds()
	_, offset := t.Zone()
	if !end.IsZero() {
		_, next := end.Zone()
		if back := time.Duration(offset-next) * time.Second; back > 0 && !t.Before(end.Add(-back)) {
			return true
		}
	}
	if start.IsZero() {
		return false
	}
	_, before := start.Add(-1).Zone()
	return t.Before(start.Add(time.Duration(before-offset) * time.Second))
}

// Clock is the time of day to the second, which begins a line of what is followed as it happens.
func Clock(t time.Time, zone *time.Location) string { return t.In(zone).Format("15:04:05") }

// ZoneName names the zone that somebody is in, as it is at t.
func ZoneName(t time.Time, zone *time.Location) string {
	switch {
	case zone == nil:
		return "UTC"
	case zone == time.Local:
		return zoneName(t.In(zone))
	}
	return zone.String()
}

// zoneName names the zone of t: "JST", "+0545 (Asia/Kathmandu)".
func zoneName(t time.Time) string {
	name, place := t.Format("MST"), t.Location().String()
	if last := name[len(name)-1]; last < '0' || last > '9' {
		return name
	}
	if place == "" || place == "Local" || place == name {
		return name
	}
	return name + " (" + place + ")"
}

// Duration tells how long d is, in one or two units: "28 min", "1 h 5 min", "2 days". It is exact to
// the second below a minute, to the minute below two days, and to the hour above.
func (l *Language) Duration(d time.Duration) string {
	const day = 24 * time.Hour
	minutes := d.Round(time.Minute)
	switch {
	case d < time.Minute:
		return l.Count("seconds", int(max(d, 0)/time.Second))
	case minutes < time.Hour:
		return l.Count("minutes", int(minutes/time.Minute))
	case minutes < 2*day:
		return l.both("hours", int(minutes/time.Hour), "minutes", int(minutes%time.Hour/time.Minute))
	}
	hours := d.Round(time.Hour)
	return l.both("days", int(hours/day), "hours", int(hours%day/time.Hour))
}

// both tells a number of one unit and, where there is a rest, of the next.
func (l *Language) both(unit string, n int, next string, rest int) string {
	if rest == 0 {
		return l.Count(unit, n)
	}
	return l.Say("and_then", "first", l.Count(unit, n), "second", l.Count(next, rest))
}

// In tells when something is that is d away: "in 28 min". What is not ahead is over: "time is up".
func (l *Language) In(d time.Duration) string {
	if d <= 0 {
		return l.Say("time_up")
	}
	return l.Say("in_time", "duration", l.Duration(d))
}
