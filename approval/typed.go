package approval

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// Of ids that people type.
const (
	ShortID         = 6 // how many last characters are shown
	MinTyped        = 4 // how many are taken,
	MinTypedApprove = 6 // and how many for an approval
	// maxMeant is how many an answer names that a short id may mean.
	maxMeant = 5
)

// typedWithin is how old a request may be that a short id means.
const typedWithin = 7 * 24 * time.Hour

// Short returns the last characters of an id, as people are shown it.
func Short(id string) string { return id[max(0, len(id)-ShortID):] }

// ResolveID returns the id that a person means by what they typed: a whole one, or the last four or more characters of
// one of the last seven days. [CodeNotFound]: there is none. [CodeAmbiguousID]: there are several, and the message says
// which. Agents name requests by whole ids.
func (g *Gate) ResolveID(ctx context.Context, who Actor, typed string) (string, error) {
	return g.resolveID(ctx, who, typed, "request", Tx.EndingIn)
}

// ResolveGrant is [Gate.ResolveID] for a grant or a standing denial.
func (g *Gate) ResolveGrant(ctx context.Context, who Actor, typed string) (string, error) {
	return g.resolveID(ctx, who, typed, "grant", func(tx Tx, end, since string, limit int) ([]string, error) {
		return grantsEndingIn(tx, end, since, limit, func(Grant) bool { return true })
	})
}

// ResolveDenial is [Gate.ResolveID] for what [Gate.Lift] takes: a request, or a standing denial.
func (g *Gate) ResolveDenial(ctx context.Context, who Actor, typed string) (string, error) {
	return g.resolveID(ctx, who, typed, "request", func(tx Tx, end, since string, limit int) ([]string, error) {
		ids, err := tx.EndingIn(end, since, limit)
		if err != nil || len(ids) >= limit {
			return ids, err
		}
		standing, err := grantsEndingIn(tx, end, since, limit-len(ids), func(g Grant) bool { return g.Deny })
		return append(ids, standing...), err
	})
}

// resolveID returns the one id that ends as somebody typed. find brings at most limit ids that end so and are not
// smaller than since.
func (g *Gate) resolveID(ctx context.Context, who Actor, typed, what string,
	find func(tx Tx, end, since string, limit int) ([]string, error)) (string, error) {
	typed = strings.ToUpper(strings.TrimSpace(typed))
	if id, ok := ParseID(typed); ok || who.Kind != Human {
		if !ok {
			return "", Errorf(CodeNotFound, "No such %s.", what)
		}
		return id, nil
	}
	if len(typed) < MinTyped || len(typed) > ulid.EncodedSize || strings.Trim(typed, ulid.Encoding) != "" {
		return "", Errorf(CodeNotFound, "No such %s: an id has 26 characters, and its last four are enough.", what)
	}
	since := ulid.ULID{}
	ids, err := View(ctx, g.store, func(tx Tx) ([]string, error) {
		if err := since.SetTime(ulid.Timestamp(tx.Now().Add(-typedWithin))); err != nil {
			return nil, err
		}
		return find(tx, typed, since.String(), maxMeant+1)
	})
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0:
		return "", Errorf(CodeNotFound, "No %s of the last seven days ends in %s.", what, typed)
	case len(ids) == 1:
		return ids[0], nil
	}
	meant := strings.Join(ids[:min(len(ids), maxMeant)], ", ")
	if len(ids) > maxMeant {
		meant += ", …"
	}
	return "", &Error{Code: CodeAmbiguousID, Message: fmt.Sprintf("Several %ss end in %s: %s. Give more of the id.",
		what, typed, meant)}
}

// grantsEndingIn returns the ids of grants that end so and are not smaller than since.
func grantsEndingIn(tx Tx, end, since string, limit int, is func(Grant) bool) ([]string, error) {
	var ids []string
	for q := (GrantQuery{All: true, Limit: 100, Bytes: ListBytes}); ; {
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
