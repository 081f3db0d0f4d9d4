package locale

import (
	"testing"
	"time"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestWhen(t *testing.T) {
	tokyo, at := zone(t, "Asia/Tokyo"), func(s string) time.Time {
		t.Helper()
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, tt := range []struct {
		name, t, now   string
		zone           *time.Location
		en, ja, th, zh string
	}{
		{"today", "2026-11-22T09:46:59Z", "2026-11-22T09:18:00Z", tokyo, "today 18:46", "今日 18:46", "วันนี้ 18:46 น.",
			"今天 18:46"},
		{"the same moment", "2026-11-22T09:46:00Z", "2026-11-22T09:46:00Z", tokyo, "today 18:46", "今日 18:46",
			"วันนี้ 18:46 น.", "今天 18:46"},
		{"the first minute of the day", "2026-11-21T15:00:00Z", "2026-11-22T14:59:59Z", tokyo, "today 00:00", "今日 00:00",
			"วันนี้ 00:00 น.", "今天 00:00"},
		{"the last minute of the day before", "2026-11-21T14:59:59Z", "2026-11-21T15:00:00Z", tokyo, "yesterday 23:59",
			"昨日 23:59", "เมื่อวาน 23:59 น.", "昨天 23:59"},
		{"a second on, past midnight", "2026-11-21T15:00:00Z", "2026-11-21T14:59:59Z", tokyo, "tomorrow 00:00", "明日 00:00",
			"พรุ่งนี้ 00:00 น.", "明天 00:00"},
		{"yesterday", "2026-11-21T13:05:00Z", "2026-11-22T14:59:00Z", tokyo, "yesterday 22:05", "昨日 22:05",
			"เมื่อวาน 22:05 น.", "昨天 22:05"},
		{"47 hours on, and still tomorrow", "2026-11-23T14:59:00Z", "2026-11-21T15:00:00Z", tokyo, "tomorrow 23:59",
			"明日 23:59", "พรุ่งนี้ 23:59 น.", "明天 23:59"},
		{"two days on", "2026-11-24T00:10:00Z", "2026-11-22T09:18:00Z", tokyo, "24 Nov 09:10", "11月24日 09:10",
			"24 พ.ย. 09:10 น.", "11月24日 09:10"},
		{"two days ago", "2026-11-20T00:10:00Z", "2026-11-22T09:18:00Z", tokyo, "20 Nov 09:10", "11月20日 09:10",
			"20 พ.ย. 09:10 น.", "11月20日 09:10"},
		{"last year", "2025-02-03T00:10:00Z", "2026-02-03T09:18:00Z", tokyo, "3 Feb 2025 09:10", "2025年2月3日 09:10",
			"3 ก.พ. 2568 09:10 น.", "2025年2月3日 09:10"},
		{"last year, and yesterday", "2025-12-31T13:05:00Z", "2025-12-31T16:00:00Z", tokyo, "yesterday 22:05", "昨日 22:05",
			"เมื่อวาน 22:05 น.", "昨天 22:05"},
		{"next year", "2027-01-02T00:05:00Z", "2026-12-30T00:00:00Z", tokyo, "2 Jan 2027 09:05", "2027年1月2日 09:05",
			"2 ม.ค. 2570 09:05 น.", "2027年1月2日 09:05"},
		{"a leap day", "2028-02-29T12:00:00Z", "2028-03-04T12:00:00Z", tokyo, "29 Feb 21:00", "2月29日 21:00",
			"29 ก.พ. 21:00 น.", "2月29日 21:00"},

		// The gate may be far away: the days are those of whoever reads.
		{"far east of the gate", "2026-11-22T10:30:00Z", "2026-11-22T09:59:00Z", zone(t, "Pacific/Kiritimati"),
			"tomorrow 00:30", "明日 00:30", "พรุ่งนี้ 00:30 น.", "明天 00:30"},
		{"far west of the gate", "2026-11-22T10:30:00Z", "2026-11-22T11:00:00Z", zone(t, "Pacific/Pago_Pago"),
			"yesterday 23:30", "昨日 23:30", "เมื่อวาน 23:30 น.", "昨天 23:30"},
		{"a zone of half hours", "2026-11-22T10:30:00Z", "2026-11-22T11:00:00Z", zone(t, "Asia/Kathmandu"), "today 16:15",
			"今日 16:15", "วันนี้ 16:15 น.", "今天 16:15"},

		// A zone that nobody knows is UTC, and says so.
		{"no zone", "2026-11-22T10:30:00Z", "2026-11-22T11:00:00Z", nil, "today 10:30 UTC", "今日 10:30 UTC",
			"วันนี้ 10:30 น. UTC", "今天 10:30 UTC"},

		// Summer time: a day of 23 hours and one of 25, an hour that is left out, one that comes twice and is told apart,
		// and a midnight that there is not.
		{"before the hour that is left out", "2026-03-29T00:59:00Z", "2026-03-29T00:00:00Z", zone(t, "Europe/Berlin"),
			"today 01:59", "今日 01:59", "วันนี้ 01:59 น.", "今天 01:59"},
		{"after it", "2026-03-29T01:00:00Z", "2026-03-29T00:00:00Z", zone(t, "Europe/Berlin"), "today 03:00", "今日 03:00",
			"วันนี้ 03:00 น.", "今天 03:00"},
		{"the short day's end", "2026-03-29T22:00:00Z", "2026-03-28T23:00:00Z", zone(t, "Europe/Berlin"), "tomorrow 00:00",
			"明日 00:00", "พรุ่งนี้ 00:00 น.", "明天 00:00"},
		{"the long day's end", "2026-10-25T22:59:00Z", "2026-10-24T22:00:00Z", zone(t, "Europe/Berlin"), "today 23:59",
			"今日 23:59", "วันนี้ 23:59 น.", "今天 23:59"},
		{"before the hour that comes twice", "2026-11-01T04:59:00Z", "2026-11-01T04:00:00Z", zone(t, "America/New_York"),
			"today 00:59", "今日 00:59", "วันนี้ 00:59 น.", "今天 00:59"},
		{"the first time", "2026-11-01T05:30:00Z", "2026-11-01T04:00:00Z", zone(t, "America/New_York"), "today 01:30 EDT",
			"今日 01:30 EDT", "วันนี้ 01:30 น. EDT", "今天 01:30 EDT"},
		{"the second time", "2026-11-01T06:30:00Z", "2026-11-01T04:00:00Z", zone(t, "America/New_York"), "today 01:30 EST",
			"今日 01:30 EST", "วันนี้ 01:30 น. EST", "今天 01:30 EST"},
		{"after the hour that comes twice", "2026-11-01T07:00:00Z", "2026-11-01T04:00:00Z", zone(t, "America/New_York"),
			"today 02:00", "今日 02:00", "วันนี้ 02:00 น.", "今天 02:00"},
		{"a day that begins at one", "2018-11-04T03:00:00Z", "2018-11-04T02:59:00Z", zone(t, "America/Sao_Paulo"),
			"tomorrow 01:00", "明日 01:00", "พรุ่งนี้ 01:00 น.", "明天 01:00"},
	} {
		r := Reader{Now: at(tt.now), Zone: tt.zone}
		for tag, want := range map[string]string{"": tt.en, "en": tt.en, "ja": tt.ja, "th": tt.th, "zh-TW": tt.zh} {
			if got := Get(tag).When(at(tt.t), r); got != want {
				t.Errorf("%s, %s: %q, want %q", tt.name, tag, got, want)
			}
		}
	}
	for month, want := range thaiMonths {
		day := time.Date(2026, time.Month(month+1), 15, 0, 0, 0, 0, time.UTC)
		if got := Get("th").When(day, Reader{}); got != "15 "+want+" 2569 00:00 น. UTC" {
			t.Errorf("month %d: %q", month+1, got)
		}
	}
}

func TestWhereTheReaderMayBeElsewhereTheZoneIsNamed(t *testing.T) {
	at := time.Date(2026, 11, 21, 1, 40, 59, 999, time.UTC)
	for _, tt := range []struct {
		tag  string
		zone *time.Location
		want string
	}{
		{"en", nil, "today 01:40 UTC"},
		{"en", zone(t, "Asia/Tokyo"), "today 10:40 JST"},
		{"ja", zone(t, "Asia/Tokyo"), "今日 10:40 JST"},
		{"th", zone(t, "Asia/Bangkok"), "วันนี้ 08:40 น. (เวลาไทย)"},
		{"zh-TW", zone(t, "Asia/Taipei"), "今天 09:40 台北時間"},
		{"zh-TW", zone(t, "America/Chicago"), "昨天 19:40 CST"},
		// Zones without an abbreviation, and with hardly a name.
		{"en", zone(t, "Asia/Kathmandu"), "today 07:25 +0545 (Asia/Kathmandu)"},
		{"ja", zone(t, "Asia/Bangkok"), "今日 08:40 +07 (Asia/Bangkok)"},
		{"en", time.FixedZone("UTC+8", 8*3600), "today 09:40 UTC+8"},
		{"en", time.FixedZone("", -(9*3600 + 1800)), "yesterday 16:10 -0930"},
	} {
		now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		if got := Get(tt.tag).When(at, Reader{Now: now, Zone: tt.zone, Abroad: true}); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.tag, got, tt.want)
		}
	}
	if got := Get("en").When(at, Reader{Zone: zone(t, "Asia/Tokyo")}); got != "21 Nov 2026 10:40" {
		t.Errorf("where nobody knows when it is read: %q", got)
	}
	if got := Get("en").WhenAway(at, Reader{}); got != "21 Nov 2026 01:40 UTC" {
		t.Errorf("where nobody knows when it is read: %q", got)
	}
}

// What stays as it is may be read on another day: only today is called by a word in it.
func TestWhatStaysCallsNoOtherDayByAWord(t *testing.T) {
	now := time.Date(2026, 11, 22, 14, 50, 0, 0, time.UTC) // 23:50 in Tokyo
	for _, tt := range []struct {
		in             time.Duration
		en, ja, th, zh string
	}{
		{5 * time.Minute, "today 23:55", "今日 23:55", "วันนี้ 23:55 น.", "今天 23:55"},
		{40 * time.Minute, "23 Nov 00:30", "11月23日 00:30", "23 พ.ย. 00:30 น.", "11月23日 00:30"},
		{-24 * time.Hour, "21 Nov 23:50", "11月21日 23:50", "21 พ.ย. 23:50 น.", "11月21日 23:50"},
	} {
		for tag, want := range map[string]string{"en": tt.en, "ja": tt.ja, "th": tt.th, "zh-TW": tt.zh} {
			if got := Get(tag).When(now.Add(tt.in), Reader{Now: now, Zone: zone(t, "Asia/Tokyo"), Stays: true}); got != want {
				t.Errorf("%s: %q, want %q", tag, got, want)
			}
		}
	}
}

func TestHowFarAway(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 18, 0, 0, time.UTC)
	for _, tt := range []struct {
		away           time.Duration
		en, ja, th, zh string
	}{
		{28 * time.Minute, "today 18:46 (in 28 min)", "今日 18:46（あと28分）", "วันนี้ 18:46 น. (อีก 28 นาที)",
			"今天 18:46（剩 28 分鐘）"},
		{59 * time.Second, "today 18:18 (in 59 s)", "今日 18:18（あと59秒）", "วันนี้ 18:18 น. (อีก 59 วินาที)", "今天 18:18（剩 59 秒）"},
		{time.Millisecond, "today 18:18 (in 0 s)", "今日 18:18（あと0秒）", "วันนี้ 18:18 น. (อีก 0 วินาที)", "今天 18:18（剩 0 秒）"},
		{0, "today 18:18 (just now)", "今日 18:18（たった今）", "วันนี้ 18:18 น. (เมื่อสักครู่)", "今天 18:18（剛剛）"},
		{-59 * time.Second, "today 18:17 (just now)", "今日 18:17（たった今）", "วันนี้ 18:17 น. (เมื่อสักครู่)", "今天 18:17（剛剛）"},
		{-time.Minute, "today 18:17 (1 min ago)", "今日 18:17（1分前）", "วันนี้ 18:17 น. (1 นาทีที่แล้ว)", "今天 18:17（1 分鐘前）"},
		{-65 * time.Minute, "today 17:13 (1 h 5 min ago)", "今日 17:13（1時間5分前）", "วันนี้ 17:13 น. (1 ชั่วโมง 5 นาทีที่แล้ว)",
			"今天 17:13（1 小時 5 分鐘前）"},
		{30 * time.Hour, "24 Nov 00:18 (in 30 h)", "11月24日 00:18（あと30時間）", "24 พ.ย. 00:18 น. (อีก 30 ชั่วโมง)",
			"11月24日 00:18（剩 30 小時）"},
		{48 * time.Hour, "24 Nov 18:18 (in 2 days)", "11月24日 18:18（あと2日）", "24 พ.ย. 18:18 น. (อีก 2 วัน)",
			"11月24日 18:18（剩 2 天）"},
		{-400 * 24 * time.Hour, "18 Oct 2025 18:18 (400 days ago)", "2025年10月18日 18:18（400日前）",
			"18 ต.ค. 2568 18:18 น. (400 วันที่แล้ว)", "2025年10月18日 18:18（400 天前）"},
	} {
		r := Reader{Now: now, Zone: zone(t, "Asia/Tokyo")}
		for tag, want := range map[string]string{"en": tt.en, "ja": tt.ja, "th": tt.th, "zh-TW": tt.zh} {
			if got := Get(tag).WhenAway(now.Add(tt.away), r); got != want {
				t.Errorf("%s: %v away is %q, want %q", tag, tt.away, got, want)
			}
		}
	}
}

func TestClockAndZoneName(t *testing.T) {
	at, tokyo := time.Date(2026, 11, 21, 15, 4, 5, 0, time.UTC), zone(t, "Asia/Tokyo")
	if got := Clock(at, tokyo); got != "00:04:05" {
		t.Errorf("the time of day is %q", got)
	}
	if got := ZoneName(at, tokyo) + " " + ZoneName(at, nil); got != "Asia/Tokyo UTC" {
		t.Errorf("the zones are called %q", got)
	}
	if got := ZoneName(at, time.Local); got == "Local" || got == "" {
		t.Errorf("the machine's zone is called %q", got)
	}
}

func TestDuration(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		d              time.Duration
		en, ja, th, zh string
	}{
		{-time.Hour, "0 s", "0秒", "0 วินาที", "0 秒"},
		{0, "0 s", "0秒", "0 วินาที", "0 秒"},
		{time.Second, "1 s", "1秒", "1 วินาที", "1 秒"},
		{2 * time.Second, "2 s", "2秒", "2 วินาที", "2 秒"},
		{59*time.Second + 999*time.Millisecond, "59 s", "59秒", "59 วินาที", "59 秒"},
		{60 * time.Second, "1 min", "1分", "1 นาที", "1 分鐘"},
		{89 * time.Second, "1 min", "1分", "1 นาที", "1 分鐘"},
		{90 * time.Second, "2 min", "2分", "2 นาที", "2 分鐘"},
		{28 * time.Minute, "28 min", "28分", "28 นาที", "28 分鐘"},
		{59*time.Minute + 29*time.Second, "59 min", "59分", "59 นาที", "59 分鐘"},
		{59*time.Minute + 59*time.Second, "1 h", "1時間", "1 ชั่วโมง", "1 小時"},
		{time.Hour, "1 h", "1時間", "1 ชั่วโมง", "1 小時"},
		{time.Hour + 5*time.Minute, "1 h 5 min", "1時間5分", "1 ชั่วโมง 5 นาที", "1 小時 5 分鐘"},
		{2 * time.Hour, "2 h", "2時間", "2 ชั่วโมง", "2 小時"},
		{day, "24 h", "24時間", "24 ชั่วโมง", "24 小時"},
		{2*day - time.Minute, "47 h 59 min", "47時間59分", "47 ชั่วโมง 59 นาที", "47 小時 59 分鐘"},
		{2*day - time.Second, "2 days", "2日", "2 วัน", "2 天"},
		{2 * day, "2 days", "2日", "2 วัน", "2 天"},
		{2*day + 29*time.Minute, "2 days", "2日", "2 วัน", "2 天"},
		{2*day + 30*time.Minute, "2 days 1 h", "2日1時間", "2 วัน 1 ชั่วโมง", "2 天 1 小時"},
		{3*day - time.Second, "3 days", "3日", "3 วัน", "3 天"},
		{365 * day, "365 days", "365日", "365 วัน", "365 天"},
		{1<<63 - 1, "106751 days 23 h", "106751日23時間", "106751 วัน 23 ชั่วโมง", "106751 天 23 小時"},
	} {
		for tag, want := range map[string]string{"en": tt.en, "ja": tt.ja, "th": tt.th, "zh-TW": tt.zh} {
			if got := Get(tag).Duration(tt.d); got != want {
				t.Errorf("%s: %v is %q, want %q", tag, tt.d, got, want)
			}
		}
	}
}

func TestIn(t *testing.T) {
	for tag, want := range map[string][3]string{
		"en":    {"in 28 min", "in 0 s", "time is up"},
		"ja":    {"あと28分", "あと0秒", "時間切れ"},
		"th":    {"อีก 28 นาที", "อีก 0 วินาที", "หมดเวลาแล้ว"},
		"zh-TW": {"剩 28 分鐘", "剩 0 秒", "時間已到"},
	} {
		l := Get(tag)
		if got := [3]string{l.In(28 * time.Minute), l.In(time.Millisecond), l.In(0)}; got != want {
			t.Errorf("%s: %q, want %q", tag, got, want)
		}
		if got := l.In(-time.Hour); got != want[2] {
			t.Errorf("%s: what is over is %q", tag, got)
		}
	}
}
