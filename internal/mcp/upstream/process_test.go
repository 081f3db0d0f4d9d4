//go:build unix

package upstream

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"countersign/internal/testkit"
)

// A number that was given up may lead another group by then, so nothing of ours may signal it.
func TestAGroupIsNotSignalledOnceItsNumberWasGivenUp(t *testing.T) {
	t.Parallel()
	p, err := startProcess(Config{Command: []string{"/bin/sh", "-c", "exec sleep 60"}})
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	count := func(*exec.Cmd) { sent++ }
	p.signal(count)
	if sent != 1 {
		t.Errorf("a process that runs was signalled %d times", sent)
	}
	p.signal(killGroup)
	p.markStdoutDone()
	testkit.Receive(t, "the end of the group", p.groupGone)
	p.signal(count)
	if sent != 1 {
		t.Error("its number was given up, and was signalled")
	}
}

// Where waiting for the leader gives its number up, as on macOS, the guard keeps the group's number taken: what is
// signalled is this group, and nobody else's.
func TestTheGuardKeepsTheNumberOfTheGroupTaken(t *testing.T) {
	t.Parallel()
	leader := testkit.Command(t, "/bin/sh", "-c", "read -r _")
	startInGroup(leader)
	in, err := leader.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	release := guardGroup(leader)
	if release == nil {
		t.Fatal("there is no guard")
	}
	in.Close()
	_ = leader.Wait()
	terminateGroup(leader)
	if err := syscall.Kill(-leader.Process.Pid, 0); err != nil {
		t.Errorf("the group is gone with its leader, or by a signal that asks it to end: %v", err)
	}
	killGroup(leader) // the guard is killed with it, and still has the number
	if err := syscall.Kill(-leader.Process.Pid, 0); err != nil {
		t.Errorf("the number is free before the guard was waited for: %v", err)
	}
	release()
	if err := syscall.Kill(-leader.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("after the release the group is there: %v", err)
	}
}

// Where nothing keeps the number taken, the process alone is ended, and by what knows whether it was waited for.
func TestWithoutAGuardTheProcessAloneIsEnded(t *testing.T) {
	t.Parallel()
	p, err := startProcess(Config{Command: []string{"/bin/sh", "-c", "exec sleep 60"}})
	if err != nil {
		t.Fatal(err)
	}
	p.alone = true
	p.signal(func(*exec.Cmd) { t.Error("the group was signalled") })
	p.markStdoutDone()
	testkit.Receive(t, "the end of the process", p.groupGone)
}
