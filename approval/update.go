package approval

import "context"

// Update runs fn in a write transaction of s and returns what fn found in the run that was committed. fn may run
// more than once: what it finds it returns, and it keeps nothing of a run elsewhere.
func Update[T any](ctx context.Context, s Store, fn func(tx Tx) (T, error)) (T, error) {
	return run(ctx, s.Update, fn)
}

// View is [Update] for a transaction that only reads.
func View[T any](ctx context.Context, s Store, fn func(tx Tx) (T, error)) (T, error) {
	return run(ctx, s.View, fn)
}

func run[T any](ctx context.Context, transact func(context.Context, func(Tx) error) error,
	fn func(tx Tx) (T, error)) (T, error) {
	var found T
	err := transact(ctx, func(tx Tx) (err error) {
		found, err = fn(tx)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return found, nil
}

// step is what one transaction of a longer task did.
type step struct {
	n    int
	more bool // there may be more to do
}

// inSteps runs fn in one write transaction after another, until there is no more to do, and returns how much that was.
func inSteps(ctx context.Context, s Store, fn func(tx Tx) (step, error)) (int, error) {
	total := 0
	for {
		did, err := Update(ctx, s, fn)
		if total += did.n; err != nil || !did.more {
			return total, err
		}
	}
}
