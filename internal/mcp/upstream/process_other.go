//go:build !unix

package upstream

import "os/exec"

// Where there are no groups, the process alone is ended.

func startInGroup(*exec.Cmd) {}

const waitFreesTheNumber = true

func awaitExit(cmd *exec.Cmd) { cmd.Wait() }

func reap(*exec.Cmd) {}

func guardGroup(*exec.Cmd) (release func()) { return nil }

func terminateGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) { cmd.Process.Kill() }
