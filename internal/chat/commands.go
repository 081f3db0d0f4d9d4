package chat

import (
	"errors"
	"slices"
	"strings"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/locale/phrases"
)

// command answers a typed word that decides nothing.
func (w work) command() (InteractionResult, error) {
	if w.By.Kind != approval.Human {
		if w.Intent == IntentHelp {
			out := InteractionResult{Text: w.say(phrases.SayHelpStranger, "address", w.From)}
			return out, w.reply(approval.Notification{Text: out.Text}, nil)
		}
		_, out, err := w.refuse()
		return out, err
	}
	answer := func(text string, cards []approval.Head) (InteractionResult, error) {
		return InteractionResult{Text: text}, w.reply(approval.Notification{Text: text}, cards)
	}
	switch w.Intent {
	case IntentHelp:
		return answer(w.say(phrases.SayHelp), nil)
	case IntentPending:
		list, err := w.waiting()
		if err != nil {
			return InteractionResult{}, err
		}
		return answer(w.waitingLine(list), list.newest)
	case IntentShow:
		return w.showAll()
	case IntentGrants:
		return w.grants()
	case IntentStatus:
		text, err := w.statusText()
		if err != nil {
			return InteractionResult{}, err
		}
		return answer(text, nil)
	case IntentSignIn:
		if w.signIn != nil {
			return w.signInLink()
		}
	case IntentLog:
		if !w.By.Admin {
			out := InteractionResult{Code: approval.CodeNotAdmin, Text: w.say(phrases.SayNotAdmin)}
			return out, w.reply(approval.Notification{Text: out.Text}, nil)
		}
		text, err := w.logText()
		if err != nil {
			return InteractionResult{}, err
		}
		return answer(text, nil)
	}
	if !w.By.Approver && w.Intent != IntentOther {
		_, out, err := w.refuse()
		return out, err
	}
	if w.Intent == IntentUnclear {
		return w.unclear()
	}
	return answer(w.say(phrases.SayNotUnderstood), nil)
}

// showAll answers with all of a request, in as many messages as it takes.
func (w work) showAll() (InteractionResult, error) {
	id := w.RequestID
	if id == "" && w.QuotedID != "" {
		ids, err := w.findQuoted()
		if err != nil {
			return InteractionResult{}, err
		}
		switch {
		case len(ids) == 1:
			id = ids[0]
		case len(ids) > 1:
			out := InteractionResult{Text: w.say(phrases.SayQuotesMany, "n", len(ids), "word", w.word(IntentShow))}
			return out, w.reply(approval.Notification{Text: out.Text}, nil)
		}
	}
	if batch, err := w.tx.BatchHeads(id); err != nil || len(batch) > 0 && id != "" {
		out := InteractionResult{Text: w.say(phrases.SayQuotesMany, "n", len(batch), "word", w.word(IntentShow))}
		return out, errors.Join(err, w.reply(approval.Notification{Text: out.Text}, nil))
	}
	r, err := w.in.Request(id)
	if errors.Is(err, approval.ErrNotFound) {
		out := InteractionResult{Code: approval.CodeNotFound, Text: w.say(phrases.SayNoRequest)}
		return out, w.reply(approval.Notification{Text: out.Text}, nil)
	}
	if err != nil {
		return InteractionResult{}, err
	}
	n := approval.Notification{ApprovalID: r.ID, Channel: w.Channel, Recipient: w.From, Kind: approval.KindReply,
		ReplyTo: w.ReplyTo, Cards: []string{r.ID}, Part: 1, Language: w.language}
	if w.AsksWhy && r.Status == approval.Pending && (w.By.Approver || w.By.Admin) {
		n.Note = approval.NoteMore
	}
	if err := w.outbox.Queue(w.tx, n); err != nil || w.AnswerAt == "" {
		return InteractionResult{}, err
	}
	// It is long and holds all that was asked for, so it is in direct messages; here they are told where to look.
	out := InteractionResult{Text: w.say(phrases.SayShowSent, "tool", r.Target())}
	return out, w.outbox.Queue(w.tx, approval.Notification{Channel: w.Channel, Recipient: w.AnswerAt, Text: out.Text,
		Kind: approval.KindReply, Note: w.linkNote(), Language: w.language})
}

// RoleOf says what a person may do.
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

func (w work) statusText() (string, error) {
	list, err := w.waiting()
	if err != nil {
		return "", err
	}
	lines := []string{
		w.say(phrases.SayStatusYou, "who", w.By.Name, "roles", w.say(RoleOf(w.By))),
		w.say(phrases.SayStatusPending, "n", list.total+list.others),
	}
	return strings.Join(append(lines, w.readers.Status(w.By)...), "\n"), nil
}

// logLines is how many notifications the typed word "log" brings, out of the newest logAmong.
const (
	logLines = 10
	logAmong = 100
)

// logText tells what became of the newest cards and edits. Answers to what was typed would crowd them
// out, so only those of them are told that did not arrive.
func (w work) logText() (string, error) {
	ns, err := w.tx.Notifications(approval.NotificationQuery{Limit: logAmong, Narrow: true})
	if err != nil {
		return "", err
	}
	ns = slices.DeleteFunc(ns, func(n approval.Notification) bool {
		return n.Kind == approval.KindReply && n.Status != approval.Failed && n.Status != approval.Retrying
	})
	ns = ns[:min(logLines, len(ns))]
	if len(ns) == 0 {
		return w.say(phrases.SayLogEmpty), nil
	}
	lines := []string{w.say(phrases.SayLog, "n", len(ns))}
	for _, n := range ns {
		recipient := n.Recipient
		if name := w.readers.NameOf(n.Address()); name != "" {
			recipient = name
		}
		line := w.say(phrases.SayLogLine, "time", n.CreatedAt, "channel", n.Channel, "recipient", recipient, "kind",
			w.say(phrases.OfKind(n.Kind)), "status", w.say(phrases.OfStatus(n.Status)), "attempt", n.Attempt)
		if n.Error != "" {
			line += "\n  " + legible.Cut(n.Error, 120)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), nil
}
