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

// Time shows t in a zone, with the zone's name: its abbreviation, or where it has none the offset and
// the name of the place. A nil zone is UTC.
func (l *Language) Time(t time.Time, zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	t = t.In(zone)
	tag := l.Tag()
	name, ok := atHome[tag][zone.String()]
	if !ok {
		name = zoneName(t)
	}
	switch tag {
	case "ja", "zh-TW":
		return t.Format("2006年1月2日 15:04 ") + name
	case "th":
		return strconv.Itoa(t.Day()) + " " + thaiMonths[t.Month()-1] + " " + strconv.Itoa(t.Year()+buddhistEra) +
			t.Format(" 15:04 น. ") + name
	}
	return t.Format("2006-01-02 15:04 ") + name
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
