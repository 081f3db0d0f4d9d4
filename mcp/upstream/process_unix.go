//go:build unix

package upstream

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// Until reap the process keeps its number, so the group's number is nobody else's.

func terminateGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
func killGroup(cmd *exec.Cmd)      { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// guardGroup has the group killed when this program is gone without having ended it, as after a kill: a
// process of its own waits for the end of a pipe that only we hold. release takes the guard away; the number
// of the group must still be taken then. Where there is no shell there is no guard.
func guardGroup(cmd *exec.Cmd) (release func()) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return func() {}
	}
	guard := exec.Command("/bin/sh", "-c", `read -r _; kill -s KILL -- "-$1"`, "sh", strconv.Itoa(cmd.Process.Pid))
	guard.Stdin, guard.Env, guard.Dir = theirs, []string{}, "/"
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what a terminal sends to us is not for it
	err = guard.Start()
	theirs.Close()
	if err != nil {
		ours.Close()
		return func() {}
	}
	return func() {
		_ = guard.Process.Kill()
		_ = guard.Wait()
		ours.Close()
	}
}
