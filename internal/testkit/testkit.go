// Package testkit is what the tests of all packages share: goldens behind one flag, waits that end, a
// clock that moves when told to, and a sink for logs. A test fails with what it waited for, or with the
// difference; nothing here waits without a bound.
package testkit

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the goldens anew, instead of comparing with them")

// Golden compares what a test got with a file below testdata, to the byte. With -update it writes the file.
func Golden(t testing.TB, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got), go test -update accepts it:\n%s", file, diff)
	}
}

// Patience is how long anything may take before the test that waits for it fails. It bounds waits for
// what comes at once on an idle machine, and is no measure of how long something should take.
const Patience = time.Minute

// Fataler is a testing.TB, a rapid.TB or a testscript.TestScript.
type Fataler interface {
	Fatalf(format string, args ...any)
}

// Eventually waits until ok returns true, and fails the test when that does not come about. It is for what
// nothing announces: where there is a channel, Receive is better, and in a synctest bubble synctest.Wait.
func Eventually(t Fataler, what string, ok func() bool) {
	if t, ok := t.(interface{ Helper() }); ok {
		t.Helper()
	}
	for end := time.Now().Add(Patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", Patience, what)
		}
	}
}

// Receive returns the next value of a channel, or its zero value once it is closed.
func Receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case v := <-ch:
		return v
	case <-late.C:
		t.Fatalf("not within %s: %s", Patience, what)
		panic("unreachable")
	}
}

// Wait waits until wait returns, as that of a sync.WaitGroup does once all goroutines are done.
func Wait(t testing.TB, what string, wait func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); wait() }()
	Receive(t, what, done)
}

// Latch returns a channel that a fake waits on until it is let go. A test defers letGo before anything of it can fail,
// or its end would wait for the fake.
func Latch() (held <-chan struct{}, letGo func()) {
	ch := make(chan struct{})
	return ch, sync.OnceFunc(func() { close(ch) })
}

// Command is a program that a test runs, which is killed where it outlives all patience, and when the test ends: so
// neither its end nor what it writes is waited for without a bound.
func Command(t testing.TB, program string, args ...string) *exec.Cmd {
	return command(t, 5*Patience, program, args...)
}

func command(t testing.TB, within time.Duration, program string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), within)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("killed, as it had not ended within %s: %s", within, cmd)
		}
		return cmd.Process.Kill()
	}
	return cmd
}

// Clock is a clock that moves only when told to, beside a count of the time that passes. The count never
// goes back, as a monotonic clock's does not.
type Clock struct {
	mu      sync.Mutex
	now     time.Time
	elapsed time.Duration
}

// NewClock returns a clock that stands at a time.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Elapsed returns how much time has passed.
func (c *Clock) Elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.elapsed
}

// Advance lets time pass, or, below zero, sets the clock back.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.elapsed += max(0, d)
}

// Adjust moves what the clock shows while no time passes, as an operator or NTP does.
func (c *Clock) Adjust(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

// Buffer keeps what is written to it: a log, or what a program says. Several goroutines may write it while
// another reads.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Logger returns a logger that writes everything, from debug upwards, to the buffer.
func (b *Buffer) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// InOwnProcess runs the calling test in a process of its own, and returns true there and false where that passed.
// It is for what a test does to its whole process, such as a limit on its files: the go command has a file of
// its own open in the process that it starts.
func InOwnProcess(t testing.TB) bool {
	t.Helper()
	const inChild = "COUNTERSIGN_TEST_OWN_PROCESS"
	if os.Getenv(inChild) == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), inChild+"="+t.Name())
	if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte("no tests to run")) {
		t.Fatalf("in a process of its own: %v\n%s", err, out)
	}
	return false
}

// Nightly reports whether there is a night for it: COUNTERSIGN_NIGHTLY is set, as by make nightly.
func Nightly() bool { return os.Getenv("COUNTERSIGN_NIGHTLY") != "" }

// Rounds is how often something is tried that can turn out differently each time.
func Rounds(each, nightly int) int {
	if Nightly() {
		return nightly
	}
	return each
}

// DrawLess has a package's rapid properties drawn 20 times instead of 100 under the race detector, but for
// nightly. It is called by an init function of tests whose draws are large; -rapid.checks has the last word.
func DrawLess() {
	if checks := flag.Lookup("rapid.checks"); checks != nil && Race && !Nightly() {
		_ = checks.Value.Set("20")
	}
}

// AtOnce has n of a package's parallel tests run at once, and not as many as there are processors, where they spend
// their time waiting. It is called by TestMain; -parallel has the last word.
func AtOnce(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if parallel := flag.Lookup("test.parallel"); parallel != nil && !given {
		_ = parallel.Value.Set(strconv.Itoa(n))
	}
}

// Elapse lets time pass in a synctest bubble until what has to do by then is done and waits. Outside one it
// panics: there a test waits for what comes, with Eventually or Receive, and sleeps for nothing.
func Elapse(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}
