package main

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
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

func TestAHookEndsWhateverKeepsIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	go cancel()
	if got, err := inTime(ctx, func() (string, error) { <-never; return "yes", nil }); got != "" || err == nil {
		t.Errorf("what does not end gave %q, %v; want an error", got, err)
	}
	if _, err := inTime(ctx, func() (string, error) { return "yes", nil }); !errors.Is(err, errGaveUp) {
		t.Errorf("what came after the agent gave up got %v, want %v", err, errGaveUp)
	}
	if _, err := inTime(t.Context(), func() (string, error) { panic("oh") }); err == nil || !strings.Contains(err.Error(), "internal error: oh") {
		t.Errorf("a panic gave %v, want an error", err)
	}
}
