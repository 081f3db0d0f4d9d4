// Package uptime says for how long the machine has run, which nobody can set as they can a clock.
package uptime

import (
	"os"
	"strings"
)

// BootID tells one start of the machine from another, on Linux; "": it is not known.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
