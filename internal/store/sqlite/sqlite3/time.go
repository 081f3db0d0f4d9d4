package sqlite3

import "time"

// TimeFormat is how times are stored: as text whose order is that of the times.
const TimeFormat = "2006-01-02T15:04:05.000Z"

const timeLen = len(TimeFormat)

// putTime writes t to b, which has timeLen bytes, truncated to milliseconds. It reports false for a
// year that does not have four digits.
func putTime(b []byte, t time.Time) bool {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return false
	}
	hour, minute, sec := t.Clock()
	ms := t.Nanosecond() / 1e6
	_ = b[timeLen-1]
	put2(b[0:], year/100)
	put2(b[2:], year%100)
	b[4] = '-'
	put2(b[5:], int(month))
	b[7] = '-'
	put2(b[8:], day)
	b[10] = 'T'
	put2(b[11:], hour)
	b[13] = ':'
	put2(b[14:], minute)
	b[16] = ':'
	put2(b[17:], sec)
	b[19] = '.'
	b[20] = byte('0' + ms/100)
	put2(b[21:], ms%100)
	b[23] = 'Z'
	return true
}

func put2(b []byte, v int) { b[0], b[1] = byte('0'+v/10), byte('0'+v%10) }

// parseTime reads what putTime has written.
func parseTime(b []byte) (time.Time, bool) {
	if len(b) != timeLen || b[4] != '-' || b[7] != '-' || b[10] != 'T' || b[13] != ':' || b[16] != ':' || b[19] != '.' ||
		b[23] != 'Z' {
		return time.Time{}, false
	}
	ok := true
	num := func(from, to int) int {
		v := 0
		for _, d := range b[from:to] {
			if d < '0' || d > '9' {
				ok = false
			}
			v = v*10 + int(d-'0')
		}
		return v
	}
	year, month, day := num(0, 4), num(5, 7), num(8, 10)
	t := time.Date(year, time.Month(month), day, num(11, 13), num(14, 16), num(17, 19), num(20, 23)*1e6, time.UTC)
	return t, ok && t.Year() == year && int(t.Month()) == month && t.Day() == day
}
