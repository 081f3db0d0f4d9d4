package sqlite

import (
	"context"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/testkit"
)

// stalled gives the writer a function that returns when release is called, and then what fns queue behind it.
func stalled(t *testing.T, d *DB, fns ...func(approval.Tx) error) (release func(), done *sync.WaitGroup) {
	t.Helper()
	began, gate := make(chan struct{}), make(chan struct{})
	release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release) // or the store would wait for it to be closed
	done = &sync.WaitGroup{}
	run := func(fn func(approval.Tx) error) {
		done.Go(func() {
			if err := d.Update(context.WithoutCancel(t.Context()), approval.WholeStore(), fn); err != nil {
				t.Error(err)
			}
		})
	}
	run(func(approval.Tx) error {
		close(began)
		<-gate
		return nil
	})
	testkit.Receive(t, "the function that stalls", began)
	for i, fn := range fns {
		run(fn)
		testkit.Eventually(t, "a function is in the queue", func() bool { return len(d.writer.queue) > i })
	}
	return release, done
}

func appended(tx approval.Tx) error {
	_, err := tx.Append(approval.Event{Type: approval.EventCallAllowed})
	return err
}

func TestRule12_AGroupThatTookLongLeavesTheRestToTheNext(t *testing.T) {
	for _, c := range []struct {
		name    string
		longest time.Duration
		want    int // commits that changed something
	}{{"at once", time.Hour, 1}, {"each by itself", time.Nanosecond, 5}} {
		t.Run(c.name, func(t *testing.T) {
			var commits [][]approval.Event
			d := open(t, Options{GroupTime: c.longest, OnCommit: func(c approval.Commit) {
				commits = append(commits, c.Events)
			}})
			release, done := stalled(t, d, appended, appended, appended, appended, appended)
			release()
			testkit.Wait(t, "all updates", done.Wait)
			if len(commits) != c.want {
				t.Errorf("%d commits, want %d", len(commits), c.want)
			}
			seq := int64(0)
			for _, es := range commits {
				for _, e := range es {
					if seq++; e.Seq != seq {
						t.Errorf("seq %d, want %d", e.Seq, seq)
					}
				}
			}
		})
	}
}

func TestRule12_WhetherTheStoreAnswersDoesNotWaitForTheQueue(t *testing.T) {
	d := open(t, Options{GroupTime: time.Nanosecond})
	stuck, block := make(chan struct{}), make(chan struct{})
	unblock := sync.OnceFunc(func() { close(block) })
	t.Cleanup(unblock)
	release, done := stalled(t, d, appended, func(approval.Tx) error {
		close(stuck)
		<-block
		return nil
	})
	answered := make(chan error, 1)
	before := d.writer.committed.Load()
	go func() { answered <- d.Ping(t.Context()) }()
	testkit.Eventually(t, "it has asked", func() bool { return len(d.writer.queue) >= 3 })
	if before != d.writer.committed.Load() {
		t.Fatal("a group was committed before")
	}
	release()
	if err := testkit.Receive(t, "an answer", answered); err != nil { // by the group before the one that is stuck
		t.Error(err)
	}
	testkit.Receive(t, "the function that is stuck", stuck)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { answered <- d.Ping(ctx) }()
	cancel()
	if err := testkit.Receive(t, "an answer", answered); err == nil {
		t.Error("a writer that is stuck is said to answer")
	}
	unblock()
	testkit.Wait(t, "all updates", done.Wait)
	if err := d.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Ping(t.Context()); err == nil {
		t.Error("a closed store is said to answer")
	}
}
