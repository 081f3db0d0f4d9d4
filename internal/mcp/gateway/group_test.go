package gateway

import (
	"log/slog"
	"sync"
	"testing"

	"countersign/internal/testkit"
)

func TestACrewTakesMoreWhileItIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := &group{log: slog.New(slog.DiscardHandler)}
	testkit.Wait(t, "nobody", c.Wait)
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for range 2000 {
				c.Go(func() {})
			}
		})
		done.Go(func() {
			for range 2000 {
				c.Wait()
			}
		})
	}
	testkit.Wait(t, "all of them", done.Wait)
	goOn, over := make(chan struct{}), false
	c.Go(func() { <-goOn; over = true; panic("of one") })
	close(goOn)
	if testkit.Wait(t, "the last", c.Wait); !over {
		t.Error("it is not waited for")
	}
}
