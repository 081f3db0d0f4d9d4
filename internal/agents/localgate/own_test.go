//go:build unix

package localgate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"countersign/internal/testkit"
)

// TestMain is also what these tests start as a gate: its configuration says how it behaves.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		os.Exit(pretend(os.Args[2:]))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // a gate of a race build would take a second to end
	os.Exit(m.Run())
}

func pretend(args []string) int {
	dir, _ := os.Getwd()
	sid, _ := unix.Getsid(0)
	_, notify := os.LookupEnv("NOTIFY_SOCKET")
	stdin, _ := os.Stdin.Stat()
	fmt.Printf("started in %s, session of its own %t, notify %t, terminal or pipe %t, args %v\n", dir, sid == os.Getpid(),
		notify, stdin.Mode()&os.ModeCharDevice == 0, args)
	socket := args[3]
	how, err := os.ReadFile(args[1])
	if err != nil {
		return 2
	}
	f, err := os.OpenFile(filepath.Join(dir, "starts"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 2
	}
	fmt.Fprintln(f, os.Getpid())
	f.Close()
	switch starts, _ := os.ReadFile(f.Name()); strings.TrimSpace(string(how)) {
	case "misconfigured":
		for i := range 20 {
			fmt.Println("problem", i)
		}
		return 2
	case "no store":
		fmt.Println("in use")
		return 1
	case "no store at first":
		if strings.Count(string(starts), "\n") == 1 {
			return 1
		}
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "another program":
		return answering(socket, "hello")
	}
	return answering(socket, "ok\n")
}

func answering(socket, with string) int {
	_ = os.Remove(socket)
	l, err := net.Listen("unix", socket)
	if err != nil {
		return 1
	}
	signal.Ignore(syscall.SIGHUP)
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, with) }))
	return 0
}

// newGate is a gate that behaves as how says once it is started.
func newGate(t *testing.T, how string) Gate {
	t.Helper()
	dir := t.TempDir()
	g := Gate{Config: filepath.Join(dir, "config", "gate.yaml"), Socket: filepath.Join(dir, "run", "s"),
		Log: filepath.Join(dir, "cache", "serve.log"), Program: os.Args[0]}
	if err := os.Mkdir(filepath.Dir(g.Config), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(g.Config, []byte(how), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range g.starts() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return g
}

// starts are the processes that were started.
func (g Gate) starts() (pids []int) {
	said, _ := os.ReadFile(filepath.Join(filepath.Dir(g.Config), "starts"))
	for line := range strings.Lines(string(said)) {
		var pid int
		if _, err := fmt.Sscan(line, &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestWhereTheGateIs(t *testing.T) {
	t.Setenv("HOME", "/home/hana")
	t.Setenv("XDG_CONFIG_HOME", "/home/hana/c")
	t.Setenv("XDG_CACHE_HOME", "/home/hana/k")
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	config, _ := os.UserConfigDir()
	cache, _ := os.UserCacheDir()
	usual := Gate{Config: config + "/countersign/countersign.yaml", Socket: cache + "/countersign/gate.sock", Log: cache +
		"/countersign/serve.log"}
	with := func(change func(*Gate)) Gate { g := usual; change(&g); return g }
	for _, tt := range []struct {
		env  map[string]string
		want Gate
	}{
		{nil, usual},
		{map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"}, with(func(g *Gate) {
			g.Socket = "/run/user/7/countersign/gate.sock"
		})},
		{map[string]string{"XDG_RUNTIME_DIR": "relative"}, usual},
		{map[string]string{"XDG_RUNTIME_DIR": "/run/user/7", "COUNTERSIGN_SOCKET": "/s"}, with(func(g *Gate) {
			g.Socket = "/s"
		})},
		{map[string]string{"COUNTERSIGN_SOCKET": "s", "COUNTERSIGN_CONFIG": "c.yaml"}, with(func(g *Gate) {
			g.Socket, g.Config = wd+"/s", wd+"/c.yaml"
		})},
	} {
		got, err := Find(func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok })
		if err != nil || got != tt.want {
			t.Errorf("%v: got %+v, %v, want %+v", tt.env, got, err, tt.want)
		}
	}
	if got, want := (Gate{Socket: "/a b/%s"}).Address(), "unix:///a%20b/%25s"; got != want {
		t.Errorf("got the address %s, want %s", got, want)
	}
	t.Setenv("HOME", "")
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	if g, err := Find(func(string) (string, bool) { return "", false }); err == nil {
		t.Errorf("without a home: got %+v", g)
	}
}

func TestOneOfManyStartsTheGate(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/run/systemd/notify")
	g := newGate(t, "")
	var wg sync.WaitGroup
	var mu sync.Mutex
	first := 0
	for range 10 {
		wg.Go(func() {
			started, err := g.Up(t.Context())
			if err != nil {
				t.Error(err)
			}
			if up, err := g.Running(t.Context()); !up {
				t.Errorf("it does not run: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if started {
				first++
			}
		})
	}
	testkit.Wait(t, "all starts", wg.Wait)
	if n := len(g.starts()); n != 1 || first != 1 {
		t.Fatalf("%d starts, told to %d, want one of each", n, first)
	}
	log, err := os.ReadFile(g.Log)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(
		"started in %s, session of its own true, notify false, terminal or pipe false, args [--config %s --socket %s]\n",
		filepath.Dir(g.Config), g.Config, g.Socket)
	if string(log) != want {
		t.Errorf("got\n%swant\n%s", log, want)
	}
	for path, want := range map[string]os.FileMode{g.Log: 0o600, g.Socket + ".lock": 0o600,
		filepath.Dir(g.Log): 0o700 | os.ModeDir, filepath.Dir(g.Socket): 0o700 | os.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: got %v, %v, want %v", path, info.Mode(), err, want)
		}
	}

	// Killed, it is started again by whoever comes next.
	if err := syscall.Kill(g.starts()[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "it is gone", func() bool { up, _ := g.Running(t.Context()); return !up })
	if started, err := g.Up(t.Context()); !started || err != nil {
		t.Errorf("after a kill: got %t, %v", started, err)
	}
	if n := len(g.starts()); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
}

func TestAGateThatCannotBeStartedSaysWhy(t *testing.T) {
	t.Parallel()
	for how, tt := range map[string]struct {
		code, starts int
		says         []string
		not          string
	}{
		"misconfigured": {2, 1, []string{"exit code 2", "problem 8", "problem 19", "serve.log"}, "problem 7\n"},
		"no store":      {1, 2, []string{"exit code 1", "in use"}, "old line"},
		"killed":        {-1, 2, []string{"was killed"}, ""},
	} {
		g := newGate(t, how)
		if err := os.MkdirAll(filepath.Dir(g.Log), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(g.Log, []byte("old line\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		started, err := g.Up(t.Context())
		e, ok := errors.AsType[*StartError](err)
		if started || !ok || e.Code != tt.code {
			t.Fatalf("%s: got %t, %v", how, started, err)
		}
		for _, s := range tt.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: the error does not say %q: %v", how, s, err)
			}
		}
		if tt.not != "" && strings.Contains(err.Error(), tt.not) {
			t.Errorf("%s: the error says %q: %v", how, tt.not, err)
		}
		if n := len(g.starts()); n != tt.starts {
			t.Errorf("%s: %d starts, want %d", how, n, tt.starts)
		}
	}
}

func TestAGateThatIsStoppingIsWaitedFor(t *testing.T) {
	t.Parallel()
	g := newGate(t, "no store at first")
	if started, err := g.Up(t.Context()); !started || err != nil {
		t.Errorf("got %t, %v", started, err)
	}
	if n := len(g.starts()); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
}

func TestWhatIsNotOurGateIsNotTalkedTo(t *testing.T) {
	t.Run("no configuration", func(t *testing.T) {
		g := newGate(t, "")
		if err := os.Remove(g.Config); err != nil {
			t.Fatal(err)
		}
		started, err := g.Up(t.Context())
		if started || !errors.Is(err, ErrNoConfig) || !strings.Contains(err.Error(), "countersign init --own") ||
			!strings.Contains(err.Error(), g.Config) {
			t.Errorf("got %t, %v", started, err)
		}
		if g.IsConfigured() || g.Is(g.Config) {
			t.Error("it is taken for configured")
		}
		if _, err := os.Stat(filepath.Dir(g.Socket)); !os.IsNotExist(err) {
			t.Errorf("something was made: %v", err)
		}
	})
	t.Run("a file", func(t *testing.T) {
		g := newGate(t, "")
		if err := os.Mkdir(filepath.Dir(g.Socket), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(g.Socket, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Up(t.Context()); err == nil || !strings.Contains(err.Error(), "something else") {
			t.Errorf("got %v", err)
		}
		if !g.Is(g.Config) || g.Is(g.Socket) {
			t.Error("the configuration is not told from another file")
		}
	})
	t.Run("another program", func(t *testing.T) {
		g := newGate(t, "another program")
		if _, err := g.Up(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a gate") {
			t.Errorf("got %v", err)
		}
		if n := len(g.starts()); n != 1 {
			t.Errorf("%d starts, want 1", n)
		}
	})
	t.Run("another user's", func(t *testing.T) {
		g := newGate(t, "")
		if _, err := g.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(g.Socket)
		if err != nil {
			t.Fatal(err)
		}
		for uid, want := range map[int]bool{os.Geteuid(): true, 0: true, os.Geteuid() + 1: false} {
			if err := g.fit(owned{info, uid}); (err == nil) != want || err != nil && !strings.Contains(err.Error(),
				"another user's") {
				t.Errorf("uid %d: got %v, want it talked to: %t", uid, err, want)
			}
		}
	})
	t.Run("nobody waits for ever", func(t *testing.T) {
		g := newGate(t, "")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if started, err := g.Up(ctx); started || !errors.Is(err, context.Canceled) {
			t.Errorf("got %t, %v", started, err)
		}
	})
}

// owned is a file of somebody's.
type owned struct {
	os.FileInfo
	uid int
}

func (o owned) Sys() any { return &syscall.Stat_t{Uid: uint32(o.uid)} }

func TestALongLogIsPutAside(t *testing.T) {
	g := newGate(t, "")
	if err := os.MkdirAll(filepath.Dir(g.Log), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(g.Log, make([]byte, maxLog+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	old, err := os.Stat(g.Log + ".1")
	if err != nil || old.Size() != maxLog+1 {
		t.Errorf("the old log: %v", err)
	}
	if now, err := os.Stat(g.Log); err != nil || now.Size() > 1000 {
		t.Errorf("the new log: %v", err)
	}
}
