package webhook

import (
	"context"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"countersign/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWorkAfterTheResponseIsBoundedAndEnds(t *testing.T) {
	a := NewAfterResponse()
	begun := make(chan string, 100)
	wait := func(name string) func(context.Context) {
		return func(ctx context.Context) { begun <- name; <-ctx.Done() }
	}
	for i := range 2 * maxAfterResponse {
		if took := a.Run(strconv.Itoa(i), wait("x")); took != (i < maxAfterResponse) {
			t.Errorf("work %d is taken: %v", i, took)
		}
	}
	a.Close()
	if len(begun) != maxAfterResponse || a.Run("late", wait("late")) {
		t.Errorf("%d begun", len(begun))
	}
}

func TestOneThingIsDoneOnceAtATime(t *testing.T) {
	e := NewAfterResponse()
	defer e.Close()
	begun, release := make(chan int, 10), make(chan struct{})
	n := 0                                                       // by one at a time, which the race detector holds
	work := func(context.Context) { n++; begun <- n; <-release } // real: until the test lets it go
	e.Run("hana", work)
	testkit.Receive(t, "work begins", begun)
	for range 5 {
		e.Run("hana", work)
	}
	testkit.Wait(t, "the work is let go", func() { release <- struct{}{} })
	if got := testkit.Receive(t, "work begins again", begun); got != 2 {
		t.Errorf("workn %d times", got)
	}
	testkit.Wait(t, "the work is let go", func() { release <- struct{}{} })
	e.Close()
	if n != 2 {
		t.Errorf("workn %d times in all", n)
	}
}
