//go:build unix && !linux

package upstream

import (
	"os/exec"
	"syscall"
)

func startInGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// waitFreesTheNumber: there is no waiting without it here that Go offers (golang.org/issue/19314).
const waitFreesTheNumber = true

func awaitExit(cmd *exec.Cmd) { cmd.Wait() }

func reap(*exec.Cmd) {}
