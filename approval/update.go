package approval

import "context"

// Update runs fn in a write transaction of s and returns what fn found in the run that was committed. fn may run
// more than once: what it finds it returns, and it keeps nothing of a run elsewhere.
func Update[T any](ctx context.Context, s Store, about Scope, fn func(tx Tx) (T, error)) (T, error) {
	return run(func(fn func(Tx) error) error { return s.Update(ctx, about, fn) }, fn)
}

// View is [Update] for a transaction that only reads.
func View[T any](ctx context.Context, s Store, fn func(tx Tx) (T, error)) (T, error) {
	return run(func(fn func(Tx) error) error { return s.View(ctx, fn) }, fn)
}

func run[T any](transact func(func(Tx) error) error, fn func(tx Tx) (T, error)) (T, error) {
	var found T
	err := transact(func(tx Tx) (err error) {
		found, err = fn(tx)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return found, nil
}
