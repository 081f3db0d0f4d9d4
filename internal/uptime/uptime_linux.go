package uptime

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot is how long the machine has run, its sleep included, which Go's own monotonic clock leaves out here.
func SinceBoot() (time.Duration, bool) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano()), err == nil
}
