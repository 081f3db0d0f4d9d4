package main

import (
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// waiting waits until a request is pending, as of a hook that runs in the background: waiting [TOOL].
func waiting(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) > 0 {
		args = []string{"--tool", args[0]}
	}
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := ts.Exec("countersign", append([]string{"pending", ts.Getenv("HANA")}, args...)...)
		if err == nil && ts.ReadFile("stdout") != "Nothing waits for a decision.\n" {
			return
		}
		if time.Since(begun) > 20*time.Second {
			ts.Fatalf("nothing came to wait: %v", err)
		}
	}
}

// terminate ends the hooks that run in the background, as an agent does that gives up.
func terminate(ts *testscript.TestScript, neg bool, args []string) {
	for _, c := range ts.BackgroundCmds() {
		if len(c.Args) > 1 && c.Args[1] == "hook" && c.ProcessState == nil {
			ts.Check(c.Process.Signal(syscall.SIGTERM))
		}
	}
}
