package upstream

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// startInGroup has the process lead a group, and die with us even where nothing of ours can run any more.
func startInGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// waitFreesTheNumber is whether the number of the process may be another's once awaitExit returned.
const waitFreesTheNumber = false

// awaitExit waits for the end and leaves the number of the process taken.
func awaitExit(cmd *exec.Cmd) {
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}

func reap(cmd *exec.Cmd) { cmd.Wait() }
