//go:build unix

package upstream

import (
	"os/exec"
	"testing"

	"countersign/internal/testkit"
)

// A number that was given up may lead another group by then, so nothing of ours may signal it.
func TestAGroupIsNotSignalledOnceItsNumberWasGivenUp(t *testing.T) {
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
