package approval

import (
	"context"
)

// KeepPolicy has the store keep the text of the policy in force: to be called as the gate comes into use. Of each later
// one [Gate.SetPolicy] sees to it.
func (g *Gate) KeepPolicy(ctx context.Context) error {
	p := g.Policy()
	return g.update(ctx, OfNothing(), func(w *Work) error { return w.keepPolicy(p) })
}

func (w *Work) keepPolicy(p Policy) error {
	digest, text := p.Digest(), p.Source()
	if digest == "" || text == "" {
		return nil
	}
	return w.tx.PutPolicy(digest, text)
}
