package auth

import (
	"testing"
	"time"
)

func TestQuietHours(t *testing.T) {
	const form = "2006-01-02 15:04:05 -0700"
	for _, c := range []struct {
		name, hours, zone, now, until string // until "": it is not quiet
	}{
		{"before they begin", "22:00-07:00", "Asia/Tokyo", "2026-03-01 21:59:59 +0900", ""},
		{"as they begin", "22:00-07:00", "Asia/Tokyo", "2026-03-01 22:00:00 +0900", "2026-03-02 07:00:00 +0900"},
		{"after midnight", "22:00-07:00", "Asia/Tokyo", "2026-03-02 00:00:00 +0900", "2026-03-02 07:00:00 +0900"},
		{"just before they end", "22:00-07:00", "Asia/Tokyo", "2026-03-02 06:59:59 +0900", "2026-03-02 07:00:00 +0900"},
		{"as they end", "22:00-07:00", "Asia/Tokyo", "2026-03-02 07:00:00 +0900", ""},
		{"told in another zone", "22:00-07:00", "Asia/Tokyo", "2026-03-01 13:30:00 +0000", "2026-03-02 07:00:00 +0900"},
		{"within one day", "12:00-13:30", "Asia/Tokyo", "2026-03-01 13:29:00 +0900", "2026-03-01 13:30:00 +0900"},
		{"within one day, at night", "12:00-13:30", "Asia/Tokyo", "2026-03-01 03:00:00 +0900", ""},
		{"until midnight", "22:00-00:00", "Asia/Tokyo", "2026-12-31 23:00:00 +0900", "2027-01-01 00:00:00 +0900"},
		{"from midnight", "00:00-06:00", "Asia/Tokyo", "2027-01-01 00:00:00 +0900", "2027-01-01 06:00:00 +0900"},
		{"all but a minute", "07:01-07:00", "Asia/Tokyo", "2027-01-01 07:00:30 +0900", ""},

		// Berlin: on 2026-03-29 clocks go from 02:00 to 03:00, on 2026-10-25 from 03:00 to 02:00.
		{"a short night", "22:00-07:00", "Europe/Berlin", "2026-03-28 23:00:00 +0100", "2026-03-29 07:00:00 +0200"},
		{"a long night", "22:00-07:00", "Europe/Berlin", "2026-10-24 23:00:00 +0200", "2026-10-25 07:00:00 +0100"},
		{"an end that is skipped", "22:00-02:30", "Europe/Berlin", "2026-03-29 01:59:00 +0100", "2026-03-29 03:00:00 +0200"},
		{"after an end that is skipped", "22:00-02:30", "Europe/Berlin", "2026-03-29 03:00:00 +0200", ""},
		{"a beginning that is skipped", "02:30-07:00", "Europe/Berlin", "2026-03-29 03:00:00 +0200",
			"2026-03-29 07:00:00 +0200"},
		{"before a beginning that is skipped", "02:30-07:00", "Europe/Berlin", "2026-03-29 01:59:59 +0100", ""},
		{"hours that are skipped", "02:10-02:50", "Europe/Berlin", "2026-03-29 03:00:00 +0200", ""},
		{"an end that comes twice, before", "22:00-02:30", "Europe/Berlin", "2026-10-25 02:29:00 +0200",
			"2026-10-25 02:30:00 +0200"},
		{"an end that comes twice, between", "22:00-02:30", "Europe/Berlin", "2026-10-25 02:45:00 +0200", ""},
		{"an end that comes twice, again", "22:00-02:30", "Europe/Berlin", "2026-10-25 02:10:00 +0100", ""},
		{"a beginning that comes twice", "02:30-07:00", "Europe/Berlin", "2026-10-25 02:10:00 +0100",
			"2026-10-25 07:00:00 +0100"},
		{"hours that come twice, again", "02:10-02:50", "Europe/Berlin", "2026-10-25 02:20:00 +0100", ""},

		// Beirut: 2026-03-29 begins at 01:00. Lord Howe: clocks go forward by half an hour.
		{"midnight that is skipped", "22:00-00:00", "Asia/Beirut", "2026-03-28 23:59:00 +0200", "2026-03-29 01:00:00 +0300"},
		{"from midnight that is skipped", "00:00-06:00", "Asia/Beirut", "2026-03-29 01:00:00 +0300",
			"2026-03-29 06:00:00 +0300"},
		{"half an hour", "22:00-02:15", "Australia/Lord_Howe", "2026-10-04 01:59:00 +1030", "2026-10-04 02:30:00 +1100"},
	} {
		q, err := ParseQuietHours(c.hours)
		if err != nil {
			t.Fatal(err)
		}
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(form, c.now)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if until := q.Until(now, zone); !until.IsZero() {
			got = until.In(zone).Format(form)
		}
		if got != c.until {
			t.Errorf("%s: %s in %s at %s: quiet until %q; want %q", c.name, c.hours, c.zone, c.now, got, c.until)
		}
	}
}

func TestNoQuietHours(t *testing.T) {
	if until := (QuietHours{}).Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), nil); !until.IsZero() {
		t.Errorf("who has none is quiet until %s", until)
	}
	for _, s := range []string{"", "22:00", "22-7", "7:00-8:00", "24:00-07:00", "22:60-07:00", "22:00 - 07:00",
		"22:00-22:00",
		"22:00-07:00\n", "-", "22:00-07:00-08:00"} {
		if q, err := ParseQuietHours(s); err == nil {
			t.Errorf("%q is taken for %v", s, q)
		}
	}
}
