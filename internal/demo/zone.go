package demo

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// machineZone names the machine's time zone, as the configuration wants it: "Asia/Tokyo". A clock on the page and a
// time on a card are then the same.
func machineZone(now time.Time) string {
	link, _ := os.Readlink("/etc/localtime")
	debian, _ := os.ReadFile("/etc/timezone")
	_, linked, _ := strings.Cut(link, "zoneinfo/")
	return zoneOf(now, strings.TrimPrefix(os.Getenv("TZ"), ":"), now.Location().String(), linked,
		strings.TrimSpace(string(debian)))
}

// zoneOf is the first of some names that tells the same time as now does. Without one it is the zone that is as many
// hours away from UTC as now is, and UTC for the few that are not whole hours away.
func zoneOf(now time.Time, names ...string) string {
	_, want := now.Zone()
	for _, name := range names {
		if name == "" || name == "Local" {
			continue
		}
		if l, err := time.LoadLocation(name); err == nil {
			if _, got := now.In(l).Zone(); got == want {
				return name
			}
		}
	}
	if want%3600 != 0 || want == 0 {
		return "UTC"
	}
	return fmt.Sprintf("Etc/GMT%+d", -want/3600) // the sign is the other way round there
}
