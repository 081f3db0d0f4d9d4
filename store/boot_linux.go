package store

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is how long the machine has run, its sleep included, which Go's own monotonic clock leaves out here.
func sinceBoot() (time.Duration, bool) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano()), err == nil
}
