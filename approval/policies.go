package approval

import (
	"context"
	"errors"
	"strings"
)

// minDigest is how much of a policy's digest names it.
const minDigest = 8

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

// PolicyText returns the text of a policy that was in force, and its whole digest, of which the first 8 characters will
// do. Errors: [CodeNotFound], [CodeAmbiguousID], [CodeInvalidParameter].
func (g *Gate) PolicyText(ctx context.Context, digest string) (whole, text string, err error) {
	digest = strings.ToLower(digest)
	if len(digest) < minDigest || strings.Trim(digest, "0123456789abcdef") != "" {
		return "", "", Errorf(CodeInvalidParameter,
			"A policy's digest is 64 characters out of 0-9 a-f; the first %d are enough.", minDigest)
	}
	err = g.look(ctx, func(w *Work) error {
		found, err := w.tx.PolicyDigests(digest, 2)
		switch {
		case err != nil:
			return err
		case len(found) == 0:
			return Errorf(CodeNotFound, "No policy with this digest is on record.")
		case len(found) > 1:
			return Errorf(CodeAmbiguousID, "Several policies begin with %s; give more of the digest.", digest)
		}
		whole = found[0]
		text, err = w.tx.PolicyText(whole)
		if errors.Is(err, ErrNotFound) {
			err = Errorf(CodeNotFound, "No policy with this digest is on record.")
		}
		return err
	})
	return whole, text, err
}
