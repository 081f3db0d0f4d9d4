package approval

import (
	"context"
	"unicode"

	"countersign/approval/legible"
)

// What somebody says in a chat is one transaction with what they are answered. These are the gate's steps inside a
// transaction that chat has begun; the rules are those of [Gate.Decide] and its like.

// ActorNow returns a person with the roles they have now, none if they are not configured any more.
func (g *Gate) ActorNow(who Actor) Actor { return g.asNow(who) }

// RequestIn reads a request with what was due ended, HeadIn its narrow part.
func (g *Gate) RequestIn(ctx context.Context, tx Tx, id string) (Request, error) {
	return g.settled(ctx, tx, id)
}

// HeadIn is [Gate.RequestIn] for the narrow part.
func (g *Gate) HeadIn(ctx context.Context, tx Tx, id string) (Head, error) {
	return g.settledHead(ctx, tx, id)
}

// ExpireIn ends requests that are due, as many as one transaction should.
func (g *Gate) ExpireIn(ctx context.Context, tx Tx) error {
	_, err := g.endSome(ctx, tx)
	return err
}

// DecideIn takes a decision. A refusal is on record and commits, an error does not; the request is as it stands then,
// with the store's times.
func (g *Gate) DecideIn(ctx context.Context, tx Tx, d Decision) (Request, *Error, error) {
	res, err := g.decide(ctx, tx, d)
	return res.request, res.refusal, err
}

// ExplainIn gives a denial of by's that has none its reason. false: it is not theirs, or has one.
func (g *Gate) ExplainIn(ctx context.Context, tx Tx, r Request, by Actor, via Via, reason string) (bool, error) {
	ok, err := tx.AddReason(r.ID, by.Name, reason)
	if err != nil || !ok {
		return false, err
	}
	e := requestEvent(r, EventReasonAdded)
	e.Actor, e.Decision, e.Reason = by.String(), "deny", reason
	e.Data = marshal(map[string]any{"via": via})
	if err := g.audit(ctx, tx, e); err != nil {
		return false, err
	}
	return true, g.notifier.Ended(tx, r) // cards that can be edited say why
}

// Blank reports whether a reason says nothing that can be seen.
func Blank(reason string) bool {
	for _, r := range reason {
		if s := string(r); !unicode.IsSpace(r) && legible.Line(s) == s && r != '\u2800' {
			return false
		}
	}
	return true
}
