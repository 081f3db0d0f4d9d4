package lists

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"countersign/approval"
)

// maxMeant is how many an answer names that a short id may mean.
const maxMeant = 5

// typedWithin is how old a request may be that a short id means.
const typedWithin = 7 * 24 * time.Hour

// ResolveID returns the id that a person means by what they typed: a whole one, or the last four or more characters of
// one of the last seven days. [approval.CodeNotFound]: there is none. [approval.CodeAmbiguousID]: there are several,
// and the message says which. Agents name requests by whole ids.
func ResolveID(ctx context.Context, g *approval.Gate, who approval.Actor, typed string) (string, error) {
	return resolveID(ctx, g, who, typed, "request", approval.Tx.EndingIn)
}

// ResolveGrant is [ResolveID] for a grant or a standing denial.
func ResolveGrant(ctx context.Context, g *approval.Gate, who approval.Actor, typed string) (string, error) {
	return resolveID(ctx, g, who, typed, "grant", func(tx approval.Tx, end, since string, limit int) ([]string, error) {
		return grantsEndingIn(tx, end, since, limit, func(approval.Grant) bool { return true })
	})
}

// ResolveDenial is [ResolveID] for what [approval.Gate.Lift] takes: a request, or a standing denial.
func ResolveDenial(ctx context.Context, g *approval.Gate, who approval.Actor, typed string) (string, error) {
	return resolveID(ctx, g, who, typed, "request", func(tx approval.Tx, end, since string, limit int) ([]string, error) {
		ids, err := tx.EndingIn(end, since, limit)
		if err != nil || len(ids) >= limit {
			return ids, err
		}
		standing, err := grantsEndingIn(tx, end, since, limit-len(ids), func(g approval.Grant) bool { return g.Deny })
		return append(ids, standing...), err
	})
}

// resolveID returns the one id that ends as somebody typed. find brings at most limit ids that end so and are not
// smaller than since.
func resolveID(ctx context.Context, g *approval.Gate, who approval.Actor, typed, what string,
	find func(tx approval.Tx, end, since string, limit int) ([]string, error)) (string, error) {
	typed = strings.ToUpper(strings.TrimSpace(typed))
	if id, ok := approval.ParseID(typed); ok || who.Kind != approval.Human {
		if !ok {
			return "", approval.Errorf(approval.CodeNotFound, "No such %s.", what)
		}
		return id, nil
	}
	if len(typed) < approval.MinTyped || len(typed) > ulid.EncodedSize || strings.Trim(typed, ulid.Encoding) != "" {
		return "", approval.Errorf(approval.CodeNotFound,
			"No such %s: an id has 26 characters, and its last four are enough.", what)
	}
	since := ulid.ULID{}
	ids, err := approval.Look(ctx, g, func(w *approval.Work) ([]string, error) {
		tx := w.Tx()
		if err := since.SetTime(ulid.Timestamp(tx.Now().Add(-typedWithin))); err != nil {
			return nil, err
		}
		return find(tx, typed, since.String(), maxMeant+1)
	})
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0:
		return "", approval.Errorf(approval.CodeNotFound, "No %s of the last seven days ends in %s.", what, typed)
	case len(ids) == 1:
		return ids[0], nil
	}
	meant := strings.Join(ids[:min(len(ids), maxMeant)], ", ")
	if len(ids) > maxMeant {
		meant += ", …"
	}
	return "", &approval.Error{Code: approval.CodeAmbiguousID,
		Message: fmt.Sprintf("Several %ss end in %s: %s. Give more of the id.", what, typed, meant)}
}

// grantsEndingIn returns the ids of grants that end so and are not smaller than since.
func grantsEndingIn(tx approval.Tx, end, since string, limit int, is func(approval.Grant) bool) ([]string, error) {
	var ids []string
	for q := (approval.GrantQuery{All: true, Limit: 100, Bytes: approval.ListBytes}); ; {
		page, err := tx.Grants(q)
		if err != nil || len(page) == 0 {
			return ids, err
		}
		for _, g := range page {
			if g.ID < since || len(ids) == limit {
				return ids, nil
			}
			if is(g) && strings.HasSuffix(g.ID, end) {
				ids = append(ids, g.ID)
			}
		}
		q.After = page[len(page)-1].ID
	}
}
