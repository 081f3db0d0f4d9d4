package approval

import "context"

// Budgets bound what agents have people and the store do.
type Budgets interface {
	// Take uses up that many requests and pushes of an agent's, or returns an [Error] with [CodeRateLimited]
	// and uses up nothing.
	Take(agent string, requests, pushes int) error
	// Give takes a use back: the transaction that it was for did not commit.
	Give(agent string, requests, pushes int)
	// Turn waits until work on so many bytes of an agent's may begin, so that one agent's work does not keep the
	// others from theirs, and counts it until release is called.
	Turn(ctx context.Context, agent string, bytes int) (release func(), err error)
}

// turn waits until a call may be worked on.
func (g *Gate) turn(ctx context.Context, calls ...Call) (release func(), err error) {
	if g.budgets == nil {
		return func() {}, nil
	}
	n := 0
	for i := range calls {
		n += len(calls[i].Args.Canonical()) + len(calls[i].Preview)
	}
	return g.budgets.Turn(ctx, calls[0].Agent, n)
}

// bill is what one agent uses up in one transaction, which may run more than once, and may come to nothing.
// The zero bill is free.
type bill struct {
	budgets          Budgets
	agent            string
	requests, pushes int
}

func (b *bill) take(requests, pushes int) error {
	if b.budgets == nil || requests == 0 && pushes == 0 {
		return nil
	}
	if err := b.budgets.Take(b.agent, requests, pushes); err != nil {
		return err
	}
	b.requests, b.pushes = b.requests+requests, b.pushes+pushes
	return nil
}

// request uses up a request, and with the first one a push, so that who has none left is refused before
// anything is stored.
func (b *bill) request() error {
	if b.pushes == 0 {
		return b.take(1, 1)
	}
	return b.take(1, 0)
}

// pushed says how many pushes there were in all.
func (b *bill) pushed(n int) error {
	if n >= b.pushes {
		return b.take(0, n-b.pushes)
	}
	b.budgets.Give(b.agent, 0, b.pushes-n)
	b.pushes = n
	return nil
}

// void takes everything back: the transaction did not commit, or begins anew.
func (b *bill) void() {
	if b.requests > 0 || b.pushes > 0 {
		b.budgets.Give(b.agent, b.requests, b.pushes)
		b.requests, b.pushes = 0, 0
	}
}

// billed runs fn in a write transaction, with a bill that is paid only if it commits.
func billed[T any](ctx context.Context, g *Gate, agent string, fn func(tx Tx, b *bill) (T, error)) (T, error) {
	b := bill{budgets: g.budgets, agent: agent}
	found, err := Update(ctx, g.store, func(tx Tx) (T, error) {
		b.void()
		return fn(tx, &b)
	})
	if err != nil {
		b.void()
	}
	return found, err
}
