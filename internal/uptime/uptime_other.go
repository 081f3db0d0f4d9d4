//go:build !linux

package uptime

import "time"

// SinceBoot is not known here.
func SinceBoot() (time.Duration, bool) { return 0, false }
