//go:build interop && !linux

package interop

import "syscall"

// giveWay has this process run when hardly anybody else wants the processor.
func giveWay() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19) }
