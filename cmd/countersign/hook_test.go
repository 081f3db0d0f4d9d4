package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"countersign/internal/testkit"
)

// waiting waits until a request is pending, as of a hook that runs in the background: waiting [TOOL].
func waiting(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) > 0 {
		args = []string{"--tool", args[0]}
	}
	testkit.Eventually(ts, "a request waits for a decision", func() bool {
		var out strings.Builder // in this process: programs started over and over would take the processor from the hook
		code := run(context.Background(), append([]string{"pending", ts.Getenv("HANA")}, args...), strings.NewReader(""),
			&out, io.Discard, environ(ts))
		return code == exitDone && out.String() != "Nothing waits for a decision.\n"
	})
}

// terminate ends the hooks that run in the background, as an agent does that gives up.
func terminate(ts *testscript.TestScript, _ bool, _ []string) {
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
	if _, err := inTime(t.Context(), func() (string, error) { panic("oh") }); err == nil || !strings.Contains(err.Error(),
		"internal error: oh") {
		t.Errorf("a panic gave %v, want an error", err)
	}
}

func TestWhatTheModelReadsOfAFaultIsInPlainWords(t *testing.T) {
	refused := &url.Error{Op: "Post", URL: "http://h/v1/calls", Err: &net.OpError{Op: "dial", Net: "tcp",
		Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}
	late := &url.Error{Op: "Post", URL: "http://h/v1/calls", Err: context.DeadlineExceeded}
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("no gate"), "no gate"},
		{fmt.Errorf("no answer: %w", context.DeadlineExceeded), "no answer: it took too long"},
		{fmt.Errorf("no answer: %w", late), "no answer: it took too long"},
		{fmt.Errorf("no answer: %w", refused), "no answer: nothing listens there"},
		{fmt.Errorf("%w: no answer: %w", errors.New("slow"), refused), "slow: no answer: nothing listens there"},
		{fmt.Errorf("not started: %w", &fs.PathError{Op: "fork/exec", Path: "/opt/c", Err: syscall.EACCES}),
			"not started: /opt/c may not be used by this user"},
		{fmt.Errorf("not started: %w", &fs.PathError{Op: "fork/exec", Path: "/opt/c", Err: syscall.ENOEXEC}),
			"not started: /opt/c could not be used"},
		{fmt.Errorf("not started: %w", &exec.Error{Name: "c", Err: exec.ErrNotFound}), "not started: c is not there"},
		{fmt.Errorf("dial: %w", &net.DNSError{Err: "no such host", Name: "h", IsNotFound: true}),
			"dial: the name of the host is not known"},
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), "read: the connection broke"},
		{fmt.Errorf("odd: %w", json.Unmarshal([]byte("<"), new(any))), "odd: it is not JSON"},
	} {
		if got := plainly(c.err, c.err.Error()); got != c.want {
			t.Errorf("%v became %q, want %q", c.err, got, c.want)
		}
	}
}
