package auth

import (
	"context"
	"sync"
)

// holdings are those who wait or stream, each with how it is seen whether they are still who they were.
type holdings struct {
	mu  sync.Mutex
	all map[*holding]struct{}
}

type holding struct {
	still func() error
	end   context.CancelCauseFunc
}

// Hold returns a context that ends, with still's error as its cause, when still is found not to hold after a
// change of who is who. The caller calls done.
func (d *Directory) Hold(ctx context.Context, still func() error) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	one := &holding{still, cancel}
	d.held.mu.Lock()
	if d.held.all == nil {
		d.held.all = map[*holding]struct{}{}
	}
	d.held.all[one] = struct{}{}
	d.held.mu.Unlock()
	if err := still(); err != nil { // the change came before this one was known
		cancel(err)
	}
	return ctx, func() {
		d.held.mu.Lock()
		delete(d.held.all, one)
		d.held.mu.Unlock()
		cancel(nil)
	}
}

// Recheck ends the contexts of those who are not who they were any more. It is called after a change that
// [Directory.Replace] does not make, such as of who callers without a token are; Replace does it by itself.
func (d *Directory) Recheck() {
	d.held.mu.Lock()
	defer d.held.mu.Unlock()
	for one := range d.held.all {
		if err := one.still(); err != nil {
			one.end(err)
		}
	}
}
