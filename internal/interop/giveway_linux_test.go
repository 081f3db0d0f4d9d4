//go:build interop

package interop

import (
	"log"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// giveWay has this process run only while nobody else wants the processor. Linux keeps that for each thread by itself,
// and those that are made later have it from the one that makes them.
func giveWay() {
	for pending := true; pending; {
		pending = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			log.Fatal(err)
		}
		for _, t := range threads {
			id, _ := strconv.Atoi(t.Name())
			is, err := unix.SchedGetAttr(id, 0)
			if err != nil || is.Policy == unix.SCHED_IDLE {
				continue // it has ended, or gives way already
			}
			pending = true
			if err := unix.SchedSetAttr(id, &unix.SchedAttr{Policy: unix.SCHED_IDLE}, 0); err != nil {
				log.Fatal(err)
			}
		}
	}
}
