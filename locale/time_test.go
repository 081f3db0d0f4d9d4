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

func TestTime(t *testing.T) {
	at := time.Date(2026, 11, 21, 1, 40, 59, 999, time.UTC)
	for _, tt := range []struct {
		tag  string
		t    time.Time
		zone *time.Location
		want string
	}{
		{"en", at, nil, "2026-11-21 01:40 UTC"},
		{"en", at, zone(t, "Asia/Tokyo"), "2026-11-21 10:40 JST"},
		{"ja", at, zone(t, "Asia/Tokyo"), "2026年11月21日 10:40 JST"},
		{"th", at, zone(t, "Asia/Bangkok"), "21 พ.ย. 2569 08:40 น. (เวลาไทย)"},
		{"zh-TW", at, zone(t, "Asia/Taipei"), "2026年11月21日 09:40 台北時間"},
		{"ja", at, nil, "2026年11月21日 01:40 UTC"},
		{"th", at, nil, "21 พ.ย. 2569 01:40 น. UTC"},
		{"zh-TW", at, nil, "2026年11月21日 01:40 UTC"},
		{"", at, nil, "2026-11-21 01:40 UTC"},

		// Zones without an abbreviation, and with hardly a name.
		{"en", at, zone(t, "Asia/Kathmandu"), "2026-11-21 07:25 +0545 (Asia/Kathmandu)"},
		{"en", at, zone(t, "Asia/Bangkok"), "2026-11-21 08:40 +07 (Asia/Bangkok)"},
		{"ja", at, zone(t, "Asia/Bangkok"), "2026年11月21日 08:40 +07 (Asia/Bangkok)"},
		{"th", at, zone(t, "Asia/Kathmandu"), "21 พ.ย. 2569 07:25 น. +0545 (Asia/Kathmandu)"},
		{"th", at, zone(t, "Asia/Tokyo"), "21 พ.ย. 2569 10:40 น. JST"},
		{"zh-TW", at, zone(t, "America/Chicago"), "2026年11月20日 19:40 CST"},
		{"en", at, time.FixedZone("UTC+8", 8*3600), "2026-11-21 09:40 UTC+8"},
		{"en", at, time.FixedZone("", -(9*3600 + 1800)), "2026-11-20 16:10 -0930"},

		// The same hour twice, when summer time ends; an hour that is left out, when it begins.
		{"en", time.Date(2026, 11, 1, 5, 30, 0, 0, time.UTC), zone(t, "America/New_York"), "2026-11-01 01:30 EDT"},
		{"en", time.Date(2026, 11, 1, 6, 30, 0, 0, time.UTC), zone(t, "America/New_York"), "2026-11-01 01:30 EST"},
		{"ja", time.Date(2026, 3, 29, 0, 59, 0, 0, time.UTC), zone(t, "Europe/Berlin"), "2026年3月29日 01:59 CET"},
		{"ja", time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), zone(t, "Europe/Berlin"), "2026年3月29日 03:00 CEST"},

		// Months and days are written without a leading zero where people do; a year begins at home first.
		{"ja", time.Date(2027, 1, 2, 0, 5, 0, 0, time.UTC), nil, "2027年1月2日 00:05 UTC"},
		{"th", time.Date(2026, 12, 31, 17, 0, 0, 0, time.UTC), zone(t, "Asia/Bangkok"), "1 ม.ค. 2570 00:00 น. (เวลาไทย)"},
		{"th", time.Date(2028, 2, 29, 12, 0, 0, 0, time.UTC), nil, "29 ก.พ. 2571 12:00 น. UTC"},
		{"en", time.Date(2026, 2, 3, 4, 5, 0, 0, time.UTC), nil, "2026-02-03 04:05 UTC"},
	} {
		if got := Get(tt.tag).Time(tt.t, tt.zone); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.tag, got, tt.want)
		}
	}
	for month, want := range thaiMonths {
		at := time.Date(2026, time.Month(month+1), 15, 0, 0, 0, 0, time.UTC)
		if got := Get("th").Time(at, nil); got != "15 "+want+" 2569 00:00 น. UTC" {
			t.Errorf("month %d: %q", month+1, got)
		}
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
