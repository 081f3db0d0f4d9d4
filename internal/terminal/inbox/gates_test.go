package inbox_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"countersign/client"
	"countersign/internal/terminal/inbox"
)

// away is a gate whose first stream breaks when told to.
type away struct {
	inbox.Gate
	lost chan struct{}
	once sync.Once
}

func (g *away) Stream(ctx context.Context, last string) iter.Seq2[client.Event, error] {
	first := false
	g.once.Do(func() { first = true })
	if !first {
		return g.Gate.Stream(ctx, last)
	}
	return func(yield func(client.Event, error) bool) {
		broken, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-g.lost:
			case <-broken.Done():
			}
			cancel()
		}()
		for e, err := range g.Gate.Stream(broken, last) {
			if err != nil && ctx.Err() == nil {
				err = errors.New("the connection broke")
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// mute is a gate whose stream says nothing.
type mute struct{ inbox.Gate }

func (mute) Stream(ctx context.Context, _ string) iter.Seq2[client.Event, error] {
	return func(yield func(client.Event, error) bool) {
		<-ctx.Done()
		yield(client.Event{}, ctx.Err())
	}
}

// meanwhile is a gate that has something happen after the list was read, and before the reader has it.
type meanwhile struct {
	inbox.Gate
	happens func()
}

func (g *meanwhile) Approvals(ctx context.Context, q client.ApprovalQuery) (client.Page[client.Approval], error) {
	page, err := g.Gate.Approvals(ctx, q)
	if f := g.happens; f != nil {
		g.happens = nil
		f()
	}
	return page, err
}

// elsewhere is a gate whose clock is another than ours.
type elsewhere struct {
	inbox.Gate
	ahead time.Duration
}

func (g elsewhere) ClockAhead() time.Duration { return g.ahead }
