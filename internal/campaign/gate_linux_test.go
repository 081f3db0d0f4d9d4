package campaign_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"countersign/internal/app"
	"countersign/internal/config"
	"countersign/internal/disk"
	"countersign/internal/testkit"
	"countersign/internal/testkit/powercut"
	"countersign/internal/uptime"
)

// gate is one run of the program, in a process of its own or in this one.
type gate interface {
	// addresses of the API and of the webhooks
	addresses() (api, webhooks string)
	// tell has the program do something that only its machine or its operator can: see [obey].
	tell(what string) error
	// kill ends it, as roughly as that can be done.
	kill()
	// send sends it a signal: to stop where it stands, or to go on.
	send(s unix.Signal)
}

// program is one of those that are the gate.
type program struct {
	n             int
	off           time.Duration // of its machine's clock
	api, webhooks string        // under the world's mu
	fault         sync.Mutex    // held while something is done to it
	gate          gate
}

// The environment of a gate in a process of its own: its configuration's file, how far its clock is off, and
// the file that it keeps on a disk whose power may go.
const (
	gateEnv  = "COUNTERSIGN_CAMPAIGN_GATE"
	clockEnv = "COUNTERSIGN_CAMPAIGN_CLOCK"
	diskEnv  = "COUNTERSIGN_CAMPAIGN_DISK"
)

// machine is what the program runs on, as the campaign moves it.
type machine struct {
	off   atomic.Int64 // of its clock
	die   atomic.Value // the fail point at which the process ends itself, or at which it is slow
	app   *app.App
	limit unix.Rlimit
	disk  *powercut.Disk       // nil: the real one
	count func() time.Duration // what it measures time by; nil: as it does
}

func (m *machine) now() time.Time { return time.Now().Add(time.Duration(m.off.Load())) }

func roomy(string) (disk.Space, error) { return disk.Space{Free: 50 << 30, All: 100 << 30}, nil }

// failpoint kills the process at the point that was told, or has it stand still there for a moment.
func (m *machine) failpoint(name string) {
	point, _ := m.die.Load().(string)
	if slow, is := strings.CutPrefix(point, "slow "); is && name == slow {
		time.Sleep(20 * time.Millisecond) // real: a disk that is slow
	}
	if die, is := strings.CutPrefix(point, "die "); is && name == die {
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		select {} // real: the process is over
	}
}

func (m *machine) start(ctx context.Context, path string, env func(string) (string, bool), log *slog.Logger) error {
	cfg, _, err := config.Load(path, env)
	if err != nil {
		return err
	}
	m.app, err = app.New(ctx, app.Options{Config: cfg, Env: env, Version: "test", Now: m.now, Disk: roomy,
		Failpoint: m.failpoint, Logger: log, Elapsed: m.count})
	if err != nil {
		return err
	}
	return m.app.Start()
}

// obey does what a line says: "clock 3h", "reload", "die before-commit", "slow before-commit", "steady", "full" and
// "room", "power 0", "sync fails", "sync stalls" and "sync works", of which those from "full" on are of a process of
// its own.
func (m *machine) obey(ctx context.Context, line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "clock":
		d, err := time.ParseDuration(rest)
		m.off.Store(int64(d))
		return err
	case "reload":
		return m.app.Reload(ctx)
	case "die", "slow", "steady":
		m.die.Store(line)
		return nil
	case "full":
		if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &m.limit); err != nil {
			return err
		}
		return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: m.limit.Max})
	case "power":
		more, err := strconv.Atoi(rest)
		if err != nil {
			return err
		}
		path := os.Getenv(diskEnv)
		return m.disk.Cut(path, path+leftSuffix, more, func() { _ = unix.Kill(os.Getpid(), unix.SIGKILL); select {} })
	case "sync":
		m.disk.Fail(rest == "fails")
		m.disk.Stall(map[bool]time.Duration{true: 100 * time.Millisecond}[rest == "stalls"])
		return nil
	case "room":
		return unix.Setrlimit(unix.RLIMIT_FSIZE, &m.limit)
	}
	return fmt.Errorf("the machine does not know %q", line)
}

// leftSuffix is what the names of a store's files end in that hold what a loss of power has left of it.
const leftSuffix = ".left"

// ownDisk has the machine have a disk whose power may go. Such a machine is another after each start: the count of time
// has no name then that it shares with the one before.
func (m *machine) ownDisk() (err error) {
	m.disk, _, err = powercut.Watch()
	m.count = func() time.Duration { since, _ := uptime.SinceBoot(); return since }
	return err
}

// childMain is a gate in a process of its own, which is told what to do over its standard input.
func childMain() {
	signal.Ignore(unix.SIGXFSZ)
	m := &machine{}
	off, err := time.ParseDuration(os.Getenv(clockEnv))
	if err == nil && os.Getenv(diskEnv) != "" {
		err = m.ownDisk()
	}
	if err == nil {
		m.off.Store(int64(off))
		err = m.start(context.Background(), os.Getenv(gateEnv), os.LookupEnv,
			slog.New(slog.NewTextHandler(os.Stderr, nil)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the gate does not start:", err)
		os.Exit(1)
	}
	fmt.Println(m.app.Addr(), m.app.WebhookAddr())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(cmp.Or(errorText(m.obey(context.Background(), lines.Text())), "done"))
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

// process is the gate in a process of its own.
type process struct {
	cmd           *exec.Cmd
	api, webhooks string
	mu            sync.Mutex // of what is told
	in            interface{ Write([]byte) (int, error) }
	said          chan string
	over          chan struct{}
}

func startProcess(t testing.TB, path string, env []string, log *testkit.Buffer) (*process, error) {
	cmd := testkit.Command(t, os.Args[0])
	cmd.Env = append(append(os.Environ(), gateEnv+"="+path), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, in: in, said: make(chan string), over: make(chan struct{})}
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			p.said <- lines.Text()
		}
		_ = cmd.Wait()
		close(p.over)
	}()
	select {
	case line := <-p.said:
		p.api, p.webhooks, _ = strings.Cut(line, " ")
		return p, nil
	case <-p.over:
		return nil, fmt.Errorf("the gate did not start:\n%s", log)
	}
}

func (p *process) addresses() (api, webhooks string) { return p.api, p.webhooks }

func (p *process) tell(what string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := fmt.Fprintln(p.in, what); err != nil {
		return err
	}
	select {
	case line := <-p.said:
		if line != "done" {
			return fmt.Errorf("%s: %s", what, line)
		}
		return nil
	case <-p.over:
		return fmt.Errorf("%s: the gate is gone", what)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	for {
		select {
		case <-p.said: // what it still said
		case <-p.over:
			return
		}
	}
}

func (p *process) send(s unix.Signal) { _ = p.cmd.Process.Signal(s) }

// inside is the gate in this process. It cannot be killed: what ends it is an ordinary stop.
type inside struct {
	t testing.TB
	m *machine
}

func startInside(t testing.TB, path string, env []string, log *testkit.Buffer) (*inside, error) {
	m := &machine{}
	lookup := map[string]string{}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		lookup[name] = value
	}
	off, err := time.ParseDuration(lookup[clockEnv])
	if err != nil {
		return nil, err
	}
	m.off.Store(int64(off))
	return &inside{t, m}, m.start(context.Background(), path,
		func(name string) (string, bool) { s, ok := lookup[name]; return s, ok }, log.Logger())
}

func (g *inside) addresses() (api, webhooks string) { return g.m.app.Addr(), g.m.app.WebhookAddr() }
func (g *inside) tell(what string) error            { return g.m.obey(context.Background(), what) }
func (g *inside) send(unix.Signal)                  {}
func (g *inside) kill() {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	if err := g.m.app.Stop(ctx); err != nil {
		g.t.Errorf("the gate does not stop: %v", err)
	}
}
