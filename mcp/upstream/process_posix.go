//go:build unix && !linux

package upstream

import (
	"os/exec"
	"syscall"
)

func startInGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func awaitExit(cmd *exec.Cmd) { cmd.Wait() }

func reap(*exec.Cmd) {}
