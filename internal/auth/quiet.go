package auth

import (
	"errors"
	"regexp"
	"strconv"
	"time"
)

// QuietHours are the hours of each day in which a person is not to be disturbed, from one time of the clock until
// before another one, which may be the next day's. The zero value is none.
type QuietHours struct{ From, To Clock }

// Clock is a time of day in minutes since midnight, as a clock on the wall shows it.
type Clock int

var (
	quietRE  = regexp.MustCompile(`^([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])$`)
	errQuiet = errors.New("quiet_hours are written like 22:00-07:00")
	errNever = errors.New("quiet_hours end when they begin; leave them out, or write two different times")
)

// ParseQuietHours reads what is written like 22:00-07:00.
func ParseQuietHours(s string) (QuietHours, error) {
	m := quietRE.FindStringSubmatch(s)
	if m == nil {
		return QuietHours{}, errQuiet
	}
	clock := func(hour, minute string) Clock {
		h, _ := strconv.Atoi(hour) // digits, says the expression
		n, _ := strconv.Atoi(minute)
		return Clock(60*h + n)
	}
	q := QuietHours{clock(m[1], m[2]), clock(m[3], m[4])}
	if q.From == q.To {
		return QuietHours{}, errNever
	}
	return q, nil
}

// Until returns when the hours end in which now is, by the clocks of a zone (nil: UTC); the zero time where it is in
// none. They begin and end when the clock first shows their times, or first goes past them where it is put forward.
func (q QuietHours) Until(now time.Time, zone *time.Location) time.Time {
	if q.From == q.To {
		return time.Time{}
	}
	if zone == nil {
		zone = time.UTC
	}
	year, month, day := now.In(zone).Date()
	for _, before := range []int{1, 0} {
		d := day - before
		from, to := q.From.on(year, month, d, zone), q.To.on(year, month, d, zone)
		if q.To < q.From {
			to = q.To.on(year, month, d+1, zone)
		}
		if !now.Before(from) && now.Before(to) {
			return to
		}
	}
	return time.Time{}
}

// on returns the first time at which the clocks of a zone show c on that day, or more than that.
func (c Clock) on(year int, month time.Month, day int, zone *time.Location) time.Time {
	shown := func(t time.Time) time.Time { // what the clock shows at t, as a time of UTC
		_, offset := t.In(zone).Zone()
		return t.Add(time.Duration(offset) * time.Second).UTC()
	}
	t := time.Date(year, month, day, 0, int(c), 0, 0, zone)
	want := time.Date(year, month, day, 0, int(c), 0, 0, time.UTC)
	began, ends := t.ZoneBounds()
	switch is := shown(t); {
	case is.After(want): // it was put forward over c
		return began
	case is.Before(want):
		return ends
	case began.IsZero():
		return t
	}
	// It may have been put back, and have shown c before that.
	_, offset := t.Zone()
	_, earlier := began.Add(-1).Zone()
	if first := t.Add(time.Duration(offset-earlier) * time.Second); first.Before(began) && shown(first).Equal(want) {
		return first
	}
	return t
}
