package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"countersign/internal/testkit"
)

// TestOwnGate runs the command line in a home of its own, where no gate is named.
func TestOwnGate(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/own",
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("CONFIG", filepath.Join(home, "config", "countersign"))
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
			e.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
			e.Setenv("XDG_RUNTIME_DIR", filepath.Join(e.WorkDir, "run"))
			e.Setenv("AppData", filepath.Join(home, "config"))
			e.Setenv("LocalAppData", filepath.Join(home, "cache"))
			e.Setenv("SOCKET", filepath.Join(e.WorkDir, "run", "countersign", "gate.sock"))
			e.Setenv("LOG", filepath.Join(home, "cache", "countersign", "serve.log"))
			e.Setenv("PORT", freePort(t))
			e.Setenv("AGENT_TOKEN", "agent-token-0123456789")
			e.Setenv("PERSON_TOKEN", "hana-token-0123456789")
			quickly(e)
			e.Defer(func() { // what was started outlives its starter
				if p, err := owner(filepath.Join(home, "config", "countersign")); err == nil {
					_ = p.Kill()
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode":   exitCode,
			"eventually": eventually,
			"await":      await,
			"save-id":    saveID,
			"end-gate":   endGate,
			"starts":     starts,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// owner is the process that has the store in the folder.
func owner(dir string) (*os.Process, error) {
	locks, err := filepath.Glob(filepath.Join(dir, "*.lock"))
	if err != nil || len(locks) != 1 {
		return nil, fmt.Errorf("%d stores, %v", len(locks), err)
	}
	said, err := os.ReadFile(locks[0])
	if err != nil {
		return nil, err
	}
	m := regexp.MustCompile(`^process (\d+) on `).FindSubmatch(said)
	if m == nil {
		return nil, fmt.Errorf("the lock says %q", said)
	}
	pid, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return nil, err
	}
	return os.FindProcess(pid)
}

// endGate kills the gate that was started, or with TERM asks it to stop, and waits until it has ended.
func endGate(ts *testscript.TestScript, _ bool, args []string) {
	p, err := owner(ts.Getenv("CONFIG"))
	ts.Check(err)
	how := syscall.SIGKILL
	if len(args) == 1 && args[0] == "TERM" {
		how = syscall.SIGTERM
	}
	ts.Check(p.Signal(how))
	testkit.Eventually(ts, fmt.Sprintf("process %d ends", p.Pid), func() bool {
		// Nobody but init is left to bury it, and not every container has an init that does.
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
		_, after, _ := strings.Cut(string(state), ") ")
		return p.Signal(syscall.Signal(0)) != nil || err == nil && strings.HasPrefix(after, "Z")
	})
}

// starts checks how often the log says that a gate serves: starts N.
func starts(ts *testscript.TestScript, _ bool, args []string) {
	log, _ := os.ReadFile(ts.Getenv("LOG"))
	if got := strings.Count(string(log), "msg=serving"); len(args) != 1 || fmt.Sprint(got) != args[0] {
		ts.Fatalf("%d starts, want %s:\n%s", got, args, log)
	}
}
