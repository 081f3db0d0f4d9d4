//go:build unix

package upstream

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// The number of the group is no other's as long as one process has it as its own or as its group's, which
// waiting for that one ends.

func terminateGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
func killGroup(cmd *exec.Cmd)      { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// guardGroup adds a process to the group that keeps its number taken until release, also after its leader was
// waited for, and has the group killed when this program is gone without having ended it, as after a kill: it
// waits for the end of a pipe that only we hold. What asks the group to end does not end it. Where there is no
// shell there is no guard, and release is nil.
func guardGroup(cmd *exec.Cmd) (release func()) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil
	}
	group := strconv.Itoa(cmd.Process.Pid)
	guard := exec.Command("/bin/sh", "-c", `trap "" HUP INT TERM; read -r _; kill -s KILL -- "-$1"`, "sh", group)
	guard.Stdin, guard.Env, guard.Dir = theirs, []string{}, "/"
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: cmd.Process.Pid}
	err = guard.Start()
	theirs.Close()
	if err != nil {
		ours.Close()
		return nil
	}
	return func() {
		_ = guard.Process.Kill()
		_ = guard.Wait()
		ours.Close()
	}
}
