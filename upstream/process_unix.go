//go:build unix

package upstream

import (
	"os/exec"
	"syscall"
)

// Until reap the process keeps its number, so the group's number is nobody else's.

func terminateGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
func killGroup(cmd *exec.Cmd)      { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
