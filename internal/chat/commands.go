package chat

import (
	"context"
	"errors"
	"slices"
	"strings"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/locale/phrases"
)

// command answers a typed word that decides nothing.
func (s *Service) command(ctx context.Context, tx approval.Tx, t Interaction) (InteractionResult, error) {
	if t.By.Kind != approval.Human {
		if t.Intent == IntentHelp {
			out := InteractionResult{Text: s.say(t.By, phrases.SayHelpStranger, "address", t.From)}
			return out, s.reply(tx, t, approval.Notification{Text: out.Text}, nil)
		}
		_, out, err := s.refuse(ctx, tx, t)
		return out, err
	}
	answer := func(text string, cards []approval.Head) (InteractionResult, error) {
		return InteractionResult{Text: text}, s.reply(tx, t, approval.Notification{Text: text}, cards)
	}
	switch t.Intent {
	case IntentHelp:
		return answer(s.say(t.By, phrases.SayHelp), nil)
	case IntentPending:
		list, err := s.waiting(ctx, tx, t.By)
		if err != nil {
			return InteractionResult{}, err
		}
		return answer(s.waitingLine(t, list), list.newest)
	case IntentShow:
		return s.showAll(ctx, tx, t)
	case IntentGrants:
		return s.grants(ctx, tx, t)
	case IntentStatus:
		text, err := s.statusText(ctx, tx, t)
		if err != nil {
			return InteractionResult{}, err
		}
		return answer(text, nil)
	case IntentSignIn:
		if s.signIn != nil {
			return s.signInLink(ctx, tx, t)
		}
	case IntentLog:
		if !t.By.Admin {
			out := InteractionResult{Code: approval.CodeNotAdmin, Text: s.say(t.By, phrases.SayNotAdmin)}
			return out, s.reply(tx, t, approval.Notification{Text: out.Text}, nil)
		}
		text, err := s.logText(tx, t)
		if err != nil {
			return InteractionResult{}, err
		}
		return answer(text, nil)
	}
	if !t.By.Approver && t.Intent != IntentOther {
		_, out, err := s.refuse(ctx, tx, t)
		return out, err
	}
	if t.Intent == IntentUnclear {
		return s.unclear(ctx, tx, t)
	}
	return answer(s.say(t.By, phrases.SayNotUnderstood), nil)
}

// showAll answers with all of a request, in as many messages as it takes.
func (s *Service) showAll(ctx context.Context, tx approval.Tx, t Interaction) (InteractionResult, error) {
	id := t.RequestID
	if id == "" && t.QuotedID != "" {
		ids, err := s.quoted(tx, t)
		if err != nil {
			return InteractionResult{}, err
		}
		switch {
		case len(ids) == 1:
			id = ids[0]
		case len(ids) > 1:
			out := InteractionResult{Text: s.say(t.By, phrases.SayQuotesMany, "n", len(ids), "word", s.word(t.By, IntentShow))}
			return out, s.reply(tx, t, approval.Notification{Text: out.Text}, nil)
		}
	}
	if batch, err := tx.BatchHeads(id); err != nil || len(batch) > 0 && id != "" {
		out := InteractionResult{Text: s.say(t.By, phrases.SayQuotesMany, "n", len(batch), "word", s.word(t.By, IntentShow))}
		return out, errors.Join(err, s.reply(tx, t, approval.Notification{Text: out.Text}, nil))
	}
	r, err := s.gate.In(ctx, tx).Request(id)
	if errors.Is(err, approval.ErrNotFound) {
		out := InteractionResult{Code: approval.CodeNotFound, Text: s.say(t.By, phrases.SayNoRequest)}
		return out, s.reply(tx, t, approval.Notification{Text: out.Text}, nil)
	}
	if err != nil {
		return InteractionResult{}, err
	}
	n := approval.Notification{ApprovalID: r.ID, Channel: t.Channel, Recipient: t.From, Kind: approval.KindReply,
		ReplyTo: t.ReplyTo, Cards: []string{r.ID}, Part: 1, Language: t.language}
	if t.AsksWhy && r.Status == approval.Pending && (t.By.Approver || t.By.Admin) {
		n.Note = approval.NoteMore
	}
	if err := s.outbox.Queue(tx, n); err != nil || t.AnswerAt == "" {
		return InteractionResult{}, err
	}
	// It is long and holds all that was asked for, so it is in direct messages; here they are told where to look.
	out := InteractionResult{Text: s.say(t.By, phrases.SayShowSent, "tool", r.Target())}
	return out, s.outbox.Queue(tx, approval.Notification{Channel: t.Channel, Recipient: t.AnswerAt, Text: out.Text,
		Kind: approval.KindReply, Note: t.linkNote(), Language: t.language})
}

// RoleOf says what somebody may do.
func RoleOf(by approval.Actor) phrases.Phrase {
	switch {
	case by.Admin && by.Approver:
		return phrases.SayRoleBoth
	case by.Admin:
		return phrases.SayRoleAdmin
	case by.Approver:
		return phrases.SayRoleApprover
	}
	return phrases.SayRoleNone
}

func (s *Service) statusText(ctx context.Context, tx approval.Tx, t Interaction) (string, error) {
	list, err := s.waiting(ctx, tx, t.By)
	if err != nil {
		return "", err
	}
	lines := []string{
		s.say(t.By, phrases.SayStatusYou, "who", t.By.Name, "roles", s.say(t.By, RoleOf(t.By))),
		s.say(t.By, phrases.SayStatusPending, "n", list.total+list.others),
	}
	return strings.Join(append(lines, s.readers.Status(t.By)...), "\n"), nil
}

// logLines is how many notifications the typed word "log" brings, out of the newest logAmong.
const (
	logLines = 10
	logAmong = 100
)

// logText tells what became of the newest cards and edits. Answers to what was typed would crowd them
// out, so only those of them are told that did not arrive.
func (s *Service) logText(tx approval.Notifications, t Interaction) (string, error) {
	ns, err := tx.Notifications(approval.NotificationQuery{Limit: logAmong, Narrow: true})
	if err != nil {
		return "", err
	}
	ns = slices.DeleteFunc(ns, func(n approval.Notification) bool {
		return n.Kind == approval.KindReply && n.Status != approval.Failed && n.Status != approval.Retrying
	})
	ns = ns[:min(logLines, len(ns))]
	if len(ns) == 0 {
		return s.say(t.By, phrases.SayLogEmpty), nil
	}
	lines := []string{s.say(t.By, phrases.SayLog, "n", len(ns))}
	for _, n := range ns {
		recipient := n.Recipient
		if name := s.readers.NameOf(n.Address()); name != "" {
			recipient = name
		}
		line := s.say(t.By, phrases.SayLogLine, "time", n.CreatedAt, "channel", n.Channel, "recipient", recipient, "kind",
			s.say(t.By, phrases.OfKind(n.Kind)), "status", s.say(t.By, phrases.OfStatus(n.Status)), "attempt", n.Attempt)
		if n.Error != "" {
			line += "\n  " + legible.Cut(n.Error, 120)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), nil
}
