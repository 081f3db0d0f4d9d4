package testkit_test

import (
	"context"
	"flag"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"countersign/internal/testkit"
)

// failing is a test that notes that it failed, and goes no further, as testing.T does.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Errorf(string, ...any) { f.failed = true }
func (f *failing) Fatalf(string, ...any) { f.failed = true; panic(f) }

func fails(t *testing.T, test func(t testing.TB)) {
	t.Helper()
	f := &failing{TB: t}
	defer func() {
		if r := recover(); r != nil && r != any(f) {
			panic(r)
		}
		if !f.failed {
			t.Error("it passed")
		}
	}()
	test(f)
}

func TestGoldenFailsOnADifferenceAndOnAMissingFile(t *testing.T) {
	testkit.Golden(t, "testdata/golden.txt", []byte("as it was\n"))
	fails(t, func(t testing.TB) { testkit.Golden(t, "testdata/golden.txt", []byte("as it was")) })
	fails(t, func(t testing.TB) { testkit.Golden(t, "testdata/missing.txt", nil) })
}

func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		fails(t, func(t testing.TB) { testkit.Eventually(t, "never", func() bool { return false }) })
		fails(t, func(t testing.TB) { testkit.Receive(t, "never", make(chan int)) })
		held, letGo := testkit.Latch()
		fails(t, func(t testing.TB) { testkit.Wait(t, "never", func() { <-held }) })
		if waited := time.Since(begin); waited > 3*testkit.Patience+time.Second {
			t.Errorf("three waits took %s", waited)
		}
		letGo()
		letGo()
		testkit.Wait(t, "what is let go", func() { <-held })
		tries := 0
		testkit.Eventually(t, "the third try", func() bool { tries++; return tries == 3 })
		ch := make(chan int, 1)
		ch <- 7
		if got := testkit.Receive(t, "a value", ch); got != 7 {
			t.Errorf("received %d", got)
		}
		close(ch)
		if got := testkit.Receive(t, "the end", ch); got != 0 {
			t.Errorf("received %d of a closed channel", got)
		}
	})
}

func TestAProgramThatDoesNotEndIsKilled(t *testing.T) {
	for within, started := 10*time.Millisecond, false; !started; within *= 10 { // a busy machine starts it too late
		f := &overseen{TB: t}
		cmd := testkit.CommandWithin(f, within, "sleep", "3600")
		if started = cmd.Start() == nil; !started {
			continue
		}
		if err := cmd.Wait(); err == nil || !f.failed.Load() {
			t.Errorf("it ended with %v, and the test failed: %v", err, f.failed.Load())
		}
	}
	if err := testkit.Command(t, "true").Run(); err != nil {
		t.Error(err)
	}
}

// overseen is a test that notes that another goroutine failed it.
type overseen struct {
	testing.TB
	failed atomic.Bool
}

func (o *overseen) Errorf(string, ...any) { o.failed.Store(true) }

func TestTheClockMovesOnlyWhenTold(t *testing.T) {
	start := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	c := testkit.NewClock(start)
	c.Advance(time.Hour)
	c.Adjust(-30 * time.Minute)
	c.Advance(-time.Minute)
	if want := start.Add(29 * time.Minute); !c.Now().Equal(want) || c.Elapsed() != time.Hour {
		t.Errorf("%s and %s passed, want %s and an hour", c.Now(), c.Elapsed(), want)
	}
}

func TestTheBufferIsWrittenByMany(t *testing.T) {
	var b testkit.Buffer
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { b.Logger().Debug("x") })
	}
	testkit.Wait(t, "all writers", wg.Wait)
	if got := len(b.String()); got == 0 || got%10 != 0 {
		t.Errorf("%d bytes of ten equal lines", got)
	}
}

func TestWhatRunsInAProcessOfItsOwnFailsTheTest(t *testing.T) {
	if os.Getenv("COUNTERSIGN_TEST_FAILS_ALONE") != "" {
		if testkit.InOwnProcess(t) {
			t.Error("in the child")
		}
		return
	}
	t.Setenv("COUNTERSIGN_TEST_FAILS_ALONE", "1")
	pid := os.Getpid()
	fails(t, func(tb testing.TB) {
		if testkit.InOwnProcess(alone{tb, t}) {
			t.Errorf("%d is no child", pid)
		}
	})
}

// alone is a failing test with the name and context of a real one.
type alone struct {
	testing.TB
	real *testing.T
}

func (a alone) Name() string             { return a.real.Name() }
func (a alone) Context() context.Context { return a.real.Context() }

func TestElapseIsForBubbles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, n := time.Now(), 0
		go func() {
			for range 3 {
				time.Sleep(time.Second)
				n++
			}
		}()
		testkit.Elapse(3 * time.Second)
		if n != 3 || time.Since(start) != 3*time.Second {
			t.Errorf("after %s: %d", time.Since(start), n)
		}
	})
	defer func() {
		if recover() == nil {
			t.Error("it slept outside a bubble")
		}
	}()
	testkit.Elapse(time.Hour)
}

func TestAtOnceLeavesTheLastWordToTheFlag(t *testing.T) {
	parallel := flag.Lookup("test.parallel").Value
	was, want := parallel.String(), "7"
	t.Cleanup(func() { _ = parallel.Set(was) })
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "test.parallel" {
			want = was
		}
	})
	testkit.AtOnce(7)
	if got := parallel.String(); got != want {
		t.Errorf("%s run at once, want %s", got, want)
	}
}
