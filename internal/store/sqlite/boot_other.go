//go:build !linux

package sqlite

import "time"

// sinceBoot leaves it to Go's own monotonic clock.
func sinceBoot() (time.Duration, bool) { return 0, false }

func bootID() string { return "" }
