package chat

import (
	"context"

	"countersign/approval"
	"countersign/internal/locale/phrases"
)

// work is one interaction as it is carried out, in its one transaction. It is handed on by value: what a step makes of
// the interaction, such as words that are taken for a reason, holds for the steps that it calls, and for no other.
type work struct {
	wording
	ctx context.Context
	tx  approval.Tx
	in  *approval.Work // the gate's, in the same transaction
}

// wording is what the person who made an interaction is told.
type wording struct {
	*Service
	Interaction
}

// say says a phrase to the person who made the interaction.
func (w wording) say(p phrases.Phrase, args ...any) string { return w.sayTo(w.By, p, args...) }
