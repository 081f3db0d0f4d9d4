package chat

import (
	"context"
	"fmt"
	"strings"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/locale/phrases"
)

// What admins are told without having asked, each at the first of their addresses that is alive.

// tellAdmins tells each admin something, in their language; those for whom text is "" are not told.
func (s *Service) tellAdmins(tx approval.Tx, text func(to approval.Actor) string) error {
	return s.outbox.ToAdmins(tx, func(to approval.Address) approval.Notification {
		said := text(s.at(to))
		if said == "" {
			return approval.Notification{}
		}
		return approval.Notification{Kind: approval.KindReply, Text: said}
	})
}

// OverBudget puts on record that an agent or a person is over a budget, and tells the admins: each at the first
// of their addresses that is alive.
func (s *Service) OverBudget(ctx context.Context, who approval.Actor, budget, limit string) error {
	return s.store.Update(ctx, approval.OfNothing(), func(tx approval.Tx) error {
		e := approval.Event{Type: approval.EventRateLimited, Actor: who.String(), Reason: budget,
			Data: approval.EventData(map[string]any{"budget": budget, "limit": limit})}
		if who.Kind == approval.Agent {
			e.Agent = who.Name
		}
		if err := s.audit.Append(ctx, tx, e); err != nil {
			return err
		}
		return s.tellAdmins(tx, func(to approval.Actor) string {
			return s.sayTo(to, phrases.SayOverBudget, "who", who.String(), "budget", budget, "limit", limit)
		})
	})
}

// DiskLow tells the admins how many bytes are left on the disk of the store, and how much of it that is.
func (s *Service) DiskLow(ctx context.Context, free int64, percent int) error {
	return s.tellOfDisk(ctx, phrases.SayDiskLow, free, percent)
}

// DiskFull tells them that it is so little that nothing new can be asked.
func (s *Service) DiskFull(ctx context.Context, free int64, percent int) error {
	return s.tellOfDisk(ctx, phrases.SayDiskFull, free, percent)
}

func (s *Service) tellOfDisk(ctx context.Context, what phrases.Phrase, free int64, percent int) error {
	return s.store.Update(ctx, approval.OfNothing(), func(tx approval.Tx) error {
		return s.tellAdmins(tx, func(to approval.Actor) string {
			return s.sayTo(to, what, "free", free>>20, "percent", percent)
		})
	})
}

// BackupFailed tells the admins that no backup of the store could be made, and why.
func (s *Service) BackupFailed(ctx context.Context, why string) error {
	return s.tellWhy(ctx, phrases.SayBackupFailed, why)
}

// ReloadFailed tells the admins that a changed configuration cannot be used, and why.
func (s *Service) ReloadFailed(ctx context.Context, why string) error {
	return s.tellWhy(ctx, phrases.SayReloadFailed, why)
}

func (s *Service) tellWhy(ctx context.Context, what phrases.Phrase, why string) error {
	return s.store.Update(ctx, approval.OfNothing(), func(tx approval.Tx) error {
		return s.tellAdmins(tx, func(to approval.Actor) string {
			return s.sayTo(to, what, "why", legible.Cut(legible.Line(why), maxWhy))
		})
	})
}

// FailedOver tells the admins, in a transaction that was begun, that another server has taken over for the store's, and
// what was ended for it.
func (s *Service) FailedOver(tx approval.Tx) error {
	return s.tellAdmins(tx, func(to approval.Actor) string { return s.sayTo(to, phrases.SayFailedOver) })
}

// RulesLoosened tells the admins what new rules let through more easily than those before.
func (s *Service) RulesLoosened(ctx context.Context, what []phrases.Said) error {
	return s.store.Update(ctx, approval.OfNothing(), func(tx approval.Tx) error {
		return s.tellAdmins(tx, func(to approval.Actor) string {
			entries := make([]string, len(what))
			for i, said := range what {
				entries[i] = said.In(s.sayer(to))
			}
			return s.sayTo(to, phrases.SayRulesLoosened, "what", writeList(entries))
		})
	})
}

// PasskeysInDoubt tells the admins of passkeys that may have been added by a stranger who had a way to sign in that was
// taken back.
func (s *Service) PasskeysInDoubt(ctx context.Context, what []string) error {
	return s.store.Update(ctx, approval.OfNothing(), func(tx approval.Tx) error {
		return s.tellAdmins(tx, func(to approval.Actor) string {
			return s.sayTo(to, phrases.SayPasskeysInDoubt, "what", writeList(what))
		})
	})
}

// Of lists in messages to admins: how many entries they have, and how long one is, in characters.
const (
	maxListed = 8
	maxWhy    = 500
)

// writeList writes a list with a line for each entry.
func writeList(entries []string) string {
	var b strings.Builder
	for i, e := range entries {
		if i == maxListed {
			fmt.Fprintf(&b, "\n… (+%d)", len(entries)-i)
			break
		}
		b.WriteString("\n· " + legible.Cut(legible.Line(e), maxWhy))
	}
	return b.String()
}
