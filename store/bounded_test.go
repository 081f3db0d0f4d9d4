package store

import (
	"context"
	"sync"
	"testing"
	"time"

	"countersign/approval"
)

// stalled gives the writer a function that returns when release is called, and then what fns queue behind it.
func stalled(t *testing.T, d *DB, fns ...func(approval.Tx) error) (release func(), done *sync.WaitGroup) {
	t.Helper()
	began, gate := make(chan struct{}), make(chan struct{})
	done = &sync.WaitGroup{}
	run := func(fn func(approval.Tx) error) {
		done.Go(func() {
			if err := d.Update(context.WithoutCancel(t.Context()), fn); err != nil {
				t.Error(err)
			}
		})
	}
	run(func(approval.Tx) error {
		close(began)
		<-gate
		return nil
	})
	<-began
	for i, fn := range fns {
		run(fn)
		for len(d.writer.queue) <= i {
			time.Sleep(time.Millisecond)
		}
	}
	return sync.OnceFunc(func() { close(gate) }), done
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
			d := open(t, Options{GroupTime: c.longest, OnCommit: func(c approval.Commit) { commits = append(commits, c.Events) }})
			release, done := stalled(t, d, appended, appended, appended, appended, appended)
			release()
			done.Wait()
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
	release, done := stalled(t, d, appended, func(approval.Tx) error {
		close(stuck)
		<-block
		return nil
	})
	answered := make(chan error, 1)
	before := d.writer.committed.Load()
	go func() { answered <- d.Ping(t.Context()) }()
	for len(d.writer.queue) < 3 { // it has asked
		time.Sleep(time.Millisecond)
	}
	if before != d.writer.committed.Load() {
		t.Fatal("a group was committed before")
	}
	release()
	if err := <-answered; err != nil { // by the group before the one that is stuck
		t.Error(err)
	}
	<-stuck
	ctx, cancel := context.WithCancel(t.Context())
	go func() { answered <- d.Ping(ctx) }()
	cancel()
	if err := <-answered; err == nil {
		t.Error("a writer that is stuck is said to answer")
	}
	close(block)
	done.Wait()
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
