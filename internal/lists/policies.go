package lists

import (
	"context"
	"errors"
	"strings"

	"countersign/approval"
)

// minDigest is how much of a policy's digest names it.
const minDigest = 8

// FindPolicy returns the text of a policy that was in force, and its whole digest, of which the first 8 characters will
// do. Errors: [approval.CodeNotFound], [approval.CodeAmbiguousID], [approval.CodeInvalidParameter].
func FindPolicy(ctx context.Context, g *approval.Gate, digest string) (whole, text string, err error) {
	digest = strings.ToLower(digest)
	if len(digest) < minDigest || strings.Trim(digest, "0123456789abcdef") != "" {
		return "", "", approval.Errorf(approval.CodeInvalidParameter,
			"A policy's digest is 64 characters out of 0-9 a-f; the first %d are enough.", minDigest)
	}
	type policy struct{ digest, text string }
	p, err := approval.Look(ctx, g, func(w *approval.Work) (p policy, err error) {
		found, err := w.Tx().PolicyDigests(digest, 2)
		switch {
		case err != nil:
			return p, err
		case len(found) == 0:
			return p, approval.Errorf(approval.CodeNotFound, "No policy with this digest is on record.")
		case len(found) > 1:
			return p, approval.Errorf(approval.CodeAmbiguousID,
				"Several policies begin with %s; give more of the digest.", digest)
		}
		p.digest = found[0]
		p.text, err = w.Tx().PolicyText(p.digest)
		if errors.Is(err, approval.ErrNotFound) {
			err = approval.Errorf(approval.CodeNotFound, "No policy with this digest is on record.")
		}
		return p, err
	})
	return p.digest, p.text, err
}
