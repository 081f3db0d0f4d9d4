package ratelimitedlog

import (
	"testing"
	"time"
)

func TestOneLineInAWhileCountsAllThatWas(t *testing.T) {
	start := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		every time.Duration
		at    time.Duration
		count int
		log   bool
	}{
		"within a minute":    {0, 59 * time.Second, 0, false},
		"after a minute":     {0, time.Minute, 2, true},
		"within an hour":     {time.Hour, 59 * time.Minute, 0, false},
		"an hour later":      {time.Hour, time.Hour, 2, true},
		"the clock set back": {0, -time.Hour, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := Counter{Every: tt.every}
			if count, log := c.Add(start); count != 1 || !log {
				t.Errorf("the first: %d, %v", count, log)
			}
			if count, log := c.Add(start); count != 0 || log {
				t.Errorf("the second: %d, %v", count, log)
			}
			if count, log := c.Add(start.Add(tt.at)); count != tt.count || log != tt.log {
				t.Errorf("got %d, %v, want %d, %v", count, log, tt.count, tt.log)
			}
		})
	}
}
