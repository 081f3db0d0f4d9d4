package config

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"countersign/heartbeat"
	"countersign/internal/retention"
)

// Retention says for how long things are kept, from when they were made: a number of days (90d) or years (2y), or
// "forever", which holds where nothing is said.
type Retention struct {
	Args          string `yaml:"args,omitempty" json:"args,omitempty"`
	Notifications string `yaml:"notifications,omitempty" json:"notifications,omitempty"`
	Requests      string `yaml:"requests,omitempty" json:"requests,omitempty"`
	Audit         string `yaml:"audit,omitempty" json:"audit,omitempty"`
	Export        string `yaml:"export,omitempty" json:"export,omitempty"` // a folder
}

const forever = "forever"

// span is a number of days or years, of which a long one cannot be meant.
var span = regexp.MustCompile(`^([1-9][0-9]{0,4})([dy])$`)

// mostDays is the longest time that can be said: a hundred years.
const mostDays = 36_500

// retention reads for how long things are kept.
func (c *checker) retention() {
	r := c.cfg.File.Retention
	for _, one := range []struct {
		key, value string
		into       *time.Duration
	}{
		{"args", r.Args, &c.cfg.Keep.Args},
		{"notifications", r.Notifications, &c.cfg.Keep.Notifications},
		{"requests", r.Requests, &c.cfg.Keep.Requests},
		{"audit", r.Audit, &c.cfg.Keep.Audit},
	} {
		path := "$.retention." + one.key
		if !c.Said[path] && one.value == "" || one.value == forever || c.Bad[path] {
			continue
		}
		m := span.FindStringSubmatch(one.value)
		if m == nil {
			c.errorf(path, `%s is a number of days or years, such as 90d or 2y, or "forever"`, one.key)
			continue
		}
		days, _ := strconv.Atoi(m[1]) // five digits
		if m[2] == "y" {
			days *= 365
		}
		if days > mostDays {
			c.errorf(path, `%s is at most 100y; write "forever" to keep all`, one.key)
			continue
		}
		*one.into = time.Duration(days) * 24 * time.Hour
	}
	checkAuditRetention(c)
	if c.cfg.Keep == (retention.Keep{}) {
		if size := sizeOf(c.cfg.StorePath); size >= muchToKeep && !c.Said["$.retention"] {
			c.warnf("$.store", "the store has grown to %.1f GiB, and nothing is ever removed from it: retention says what is, "+
				"such as retention: {args: 90d, notifications: 90d, requests: 400d, audit: 7y}; \"forever\" for each keeps all",
				float64(size)/(1<<30))
		}
		warnOfIdle(c, heartbeat.Prune, "retention says for how long things are kept, and is not there")
	}
}

// warnOfIdle warns of a job in the heartbeat's table that has nothing to do.
func warnOfIdle(c *checker, job, why string) {
	for i, j := range c.cfg.File.Heartbeat {
		if j.Name == job && j.Enabled {
			c.warnf(fmt.Sprintf("$.heartbeat[%d]", i), "%s has nothing to do: %s", job, why)
		}
	}
}

// checkAuditRetention reads what becomes of the audit log.
func checkAuditRetention(c *checker) {
	k, r := &c.cfg.Keep, c.cfg.File.Retention
	if k.Audit > 0 && (k.Requests == 0 || k.Audit < k.Requests) {
		c.errorf("$.retention.audit", "audit must not be shorter than requests (%s), of which it says what happened to them",
			cmp.Or(r.Requests, forever))
	}
	switch {
	case c.Said["$.retention.export"] && r.Export == "":
		c.errorf("$.retention.export", "export is a folder, to which audit events are written before they are removed")
	case r.Export != "" && k.Audit == 0:
		c.warnf("$.retention.export", "export has nothing to do: audit says after what time events are removed")
	case k.Audit > 0:
		k.Export = r.Export
	}
}

// muchToKeep is how large a store's file is, in bytes, of which nothing is ever removed without anybody having said so.
const muchToKeep = 1 << 30

// sizeOf is the size of a file in bytes, 0 where there is none.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
