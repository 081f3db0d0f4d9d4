package approval

import "context"

// Work is what happens inside one transaction of the store: who asked, the rows, and the gate's rules over them. Its
// methods and those of its nouns ([GrantWork], [FreezeWork] …) begin no transaction and commit none: whoever began it
// does, and an error undoes all of it. It is of one goroutine, and of no use after its transaction.
//
// The context says on whose behalf the work is done, and is looked at where somebody must still be there to take what
// is given out. It ends nothing that is under way.
type Work struct {
	g   *Gate
	ctx context.Context
	tx  Tx
}

// Clock is the store's, whose times are told as the machine's clock has them.
func (g *Gate) Clock() Clock { return g.store }

// In is the gate's work in a transaction that somebody else has begun: what is said in a chat is one transaction with
// what is answered.
func (g *Gate) In(ctx context.Context, tx Tx) *Work { return &Work{g, ctx, tx} }

// Tx is the transaction itself, for those who read what they show.
func (w *Work) Tx() Tx { return w.tx }

// with is the same work on behalf of somebody else.
func (w *Work) with(ctx context.Context) *Work { return &Work{w.g, ctx, w.tx} }

// update does work in a write transaction and returns what it found in the run that was committed. fn may run more than
// once: what it finds it returns, and it keeps nothing of a run elsewhere.
func update[T any](ctx context.Context, g *Gate, about Scope, fn func(w *Work) (T, error)) (T, error) {
	return Update(ctx, g.store, about, func(tx Tx) (T, error) { return fn(g.In(ctx, tx)) })
}

// Look does work that only reads, and returns what it found.
func Look[T any](ctx context.Context, g *Gate, fn func(w *Work) (T, error)) (T, error) {
	return View(ctx, g.store, func(tx Tx) (T, error) { return fn(g.In(ctx, tx)) })
}

func (g *Gate) update(ctx context.Context, about Scope, fn func(w *Work) error) error {
	return g.store.Update(ctx, about, func(tx Tx) error { return fn(g.In(ctx, tx)) })
}

// step is what one transaction of a longer task did.
type step struct {
	n    int
	more bool // there may be more to do
}

// inSteps does work in one write transaction after another, until there is no more to do, and returns how much that
// was.
func inSteps(ctx context.Context, g *Gate, about Scope, fn func(w *Work) (step, error)) (int, error) {
	total := 0
	for {
		did, err := update(ctx, g, about, fn)
		if total += did.n; err != nil || !did.more {
			return total, err
		}
	}
}

// The nouns of a gate's work.
type (
	// GrantWork: grants are made by people who approve, and let calls through that they were made for.
	GrantWork struct{ *Work }
	// FreezeWork: a freeze stops an agent, or all of them.
	FreezeWork struct{ *Work }
	// DelegationWork: a delegation names who stands in for somebody.
	DelegationWork struct{ *Work }
	// VoteWork is what people said on a request, and who may say it.
	VoteWork struct{ *Work }

	callWork struct{ *Work } // what becomes of a call that an agent makes
	editWork struct{ *Work } // args that a person approves in place of others
	pinWork  struct{ *Work } // what tools looked like when they were seen first, or accepted
)

func (w *Work) Grants() GrantWork           { return GrantWork{w} }
func (w *Work) Freezes() FreezeWork         { return FreezeWork{w} }
func (w *Work) Delegations() DelegationWork { return DelegationWork{w} }
func (w *Work) Votes() VoteWork             { return VoteWork{w} }
func (w *Work) calls() callWork             { return callWork{w} }
func (w *Work) edits() editWork             { return editWork{w} }
func (w *Work) toolPins() pinWork           { return pinWork{w} }

// answered is what came of somebody's wish: what it is about, as it stands then, and the refusal, nil for none. A
// refusal is on record and commits.
type answered[T any] struct {
	is      T
	refusal *Error
}

type resolved = answered[Request]

// carryOut carries out somebody's wish in a transaction, and returns what they are told, in times as the machine's
// clock has them.
func carryOut[T interface{ ByWall(c Clock) T }](ctx context.Context, g *Gate, about Scope,
	fn func(w *Work) (answered[T], error)) (T, error) {
	a, err := update(ctx, g, about, fn)
	return tell(g, a, err)
}

func tell[T interface{ ByWall(c Clock) T }](g *Gate, a answered[T], err error) (T, error) {
	switch {
	case err != nil:
		var none T
		return none, err
	case a.refusal != nil:
		return a.is.ByWall(g.store), a.refusal.byWall(g.store)
	}
	return a.is.ByWall(g.store), nil
}
