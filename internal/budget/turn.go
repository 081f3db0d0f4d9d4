package budget

import (
	"context"
	"sync"
	"time"

	"countersign/approval"
)

// Large is from how many bytes on something is large: one principal has one such thing worked on at a time, so that
// however much it sends or reads at once, it keeps no more than one processor from the others.
const Large = 16 << 10

// Turn waits until the principal has nothing large in work, and then stands for one such thing until release is
// called. It is held while there is something to compute or to store, not while somebody else is waited for, and not
// twice at once by one request. Once ctx has ended the error is an [approval.Error] with [approval.CodeRateLimited].
func (a *Account) Turn(ctx context.Context) (release func(), err error) {
	if a == nil {
		return func() {}, nil
	}
	select {
	case a.turn <- struct{}{}:
	default:
		select {
		case a.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, &approval.Error{Code: approval.CodeRateLimited, After: time.Second, Err: context.Cause(ctx),
				Message: "Too much that is large was sent or asked for at once, and its turn did not come. Try again."}
		}
	}
	return sync.OnceFunc(func() { <-a.turn }), nil
}

// TurnFor is Turn for so many bytes: what is not large waits for nothing.
func (a *Account) TurnFor(ctx context.Context, bytes int) (release func(), err error) {
	if bytes < Large {
		return func() {}, nil
	}
	return a.Turn(ctx)
}

// Turn is [Account.TurnFor] of an agent's account.
func (r *Registry) Turn(ctx context.Context, agent string, bytes int) (release func(), err error) {
	return r.Agent(agent).TurnFor(ctx, bytes)
}

// refusalPause is how long a refusal is held back.
const refusalPause = 100 * time.Millisecond

// Pause holds back a refusal for a moment, with nothing else held: whoever asks again at once, whatever they are
// answered, must not be a load. It ends early with ctx.
func Pause(ctx context.Context) {
	t := time.NewTimer(refusalPause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// What a principal reads, in lists and streams, has a budget of its own: of as many bytes as what it sends.

// CheckRead returns an [approval.Error] with [approval.CodeRateLimited] while more was read than may be.
func (a *Account) CheckRead() error {
	if a == nil {
		return nil
	}
	r := a.limits.Load().rate(Bytes)
	if wait, ok := a.read.check(r, a.r.now(), 1); !ok {
		return a.refuse(Bytes, r.words(Bytes), r.of(Bytes), wait)
	}
	return nil
}

// Read spends n bytes that were read, of what is to come where there is less left.
func (a *Account) Read(n int) {
	if a != nil {
		a.read.owe(a.limits.Load().rate(Bytes), a.r.now(), int64(n))
	}
}

// AwaitRead waits until CheckRead has no error: a stream is slowed down, and not refused. The error is that of ctx.
func (a *Account) AwaitRead(ctx context.Context) error {
	for a != nil {
		wait, ok := a.read.check(a.limits.Load().rate(Bytes), a.r.now(), pieceRead)
		if ok {
			return nil
		}
		t := time.NewTimer(max(wait, time.Millisecond))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
	return nil
}

// pieceRead is how much a stream that was slowed down may read when it goes on.
const pieceRead = 64 << 10
