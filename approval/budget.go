package approval

import (
	"context"
	"time"
)

// Budgets bound what agents have people and the store do. What is used up in a transaction may be kept in it; if it
// does not commit, it is taken back all the same.
type Budgets interface {
	// Take uses up that many requests and pushes of an agent's, or returns an [Error] with [CodeRateLimited]
	// and uses up nothing.
	Take(tx Tx, agent string, requests, pushes int) error
	// Push uses up pushes, over the budget too, and returns how long they have to wait for their turn.
	Push(tx Tx, agent string, n Pushes) (wait time.Duration)
	// Give takes a use back. tx is nil where the transaction that it was for did not commit.
	Give(tx Tx, agent string, requests int, pushes Pushes)
	// Fit forgets what was used in advance: no more is owed than may be used at once.
	Fit(tx Tx, agent string)
	// Turn waits until work on so many bytes of an agent's may begin, so that one agent's work does not keep the
	// others from theirs, and counts it until release is called.
	Turn(ctx context.Context, agent string, bytes int) (release func(), err error)
}

// Pushes are pushes that an agent asks for, and pushes that go out. Both are bounded, each by the whole budget: a card
// that waits for earlier ones is asked for now and goes out as it comes up, and what an agent has waiting for hours
// must not come up all at once, on top of what its budget has for new cards by then.
type Pushes struct{ Asked, Out int }

// takeTurn waits until a call may be worked on.
func takeTurn(ctx context.Context, budgets Budgets, calls ...Call) (release func(), err error) {
	if budgets == nil {
		return func() {}, nil
	}
	n := 0
	for i := range calls {
		n += len(calls[i].Args.Canonical()) + len(calls[i].Preview)
	}
	return budgets.Turn(ctx, calls[0].Agent, n)
}

// bill is what one agent uses up in one transaction, which may run more than once, and may come to nothing.
// The zero bill is free.
type bill struct {
	budgets  Budgets
	tx       Tx
	agent    string
	requests int
	pushes   Pushes
}

// request uses up a request.
func (b *bill) request() error {
	if b.budgets == nil {
		return nil
	}
	if err := b.budgets.Take(b.tx, b.agent, 1, 0); err != nil {
		return err
	}
	b.requests++
	return nil
}

// push uses up pushes and returns how long the card has to wait: over the budget of pushes a request is made all the
// same.
func (b *bill) push(n Pushes) (wait time.Duration) {
	if b.budgets == nil {
		return 0
	}
	b.pushes.Asked, b.pushes.Out = b.pushes.Asked+n.Asked, b.pushes.Out+n.Out
	if n.Asked <= 0 {
		b.budgets.Give(b.tx, b.agent, 0, Pushes{-n.Asked, -n.Out})
		return 0
	}
	return b.budgets.Push(b.tx, b.agent, n)
}

// void takes everything back: the transaction did not commit, or begins anew.
func (b *bill) void() {
	if b.requests > 0 || b.pushes.Asked > 0 {
		b.budgets.Give(nil, b.agent, b.requests, b.pushes)
		b.requests, b.pushes = 0, Pushes{}
	}
}

// updateBilled runs fn in a write transaction, with a bill that is paid only if it commits.
func updateBilled[T any](ctx context.Context, g *Gate, k Key, fn func(w *Work, b *bill) (T, error)) (T, error) {
	b := bill{budgets: g.budgets, agent: k.Agent}
	found, err := update(ctx, g, OfCall(k), func(w *Work) (T, error) {
		b.void()
		b.tx = w.tx
		return fn(w, &b)
	})
	if err != nil {
		b.void()
	}
	return found, err
}
