package chat

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/chat/phrases"
)

// askedFor is how long the next text is taken for the reason that was asked for.
const askedFor = 10 * time.Minute

// clocksDiffer is how far the platform's clock may be behind ours. A text that is older than the question
// by more was not its answer: platforms deliver late, and in any order.
const clocksDiffer = 5 * time.Second

// giveReason takes a text for the reason of a decision: of the one that the tapper was just asked about,
// or of the one whose card the text quotes. done is false where the text is no such thing.
func (s *Service) giveReason(ctx context.Context, tx approval.Tx,
	t Interaction) (out InteractionResult, done bool, err error) {
	asked, err := s.askedLast(tx, t)
	if err != nil || asked == nil || !t.At.IsZero() && t.At.Before(asked.CreatedAt.Add(-clocksDiffer)) {
		return InteractionResult{}, false, err
	}
	reason := strings.TrimSpace(t.Text)
	if t.Intent == IntentReason {
		reason = strings.TrimSpace(t.Reason)
	}
	rs, err := s.askedAbout(tx, t, *asked)
	if err != nil || len(rs) == 0 {
		return InteractionResult{}, false, err
	}
	if approval.Blank(reason) { // "reason:", as the keyboard began it: the question stays
		out.Text = asked.Text
		return out, true, s.reply(tx, t, askedAgain(*asked, out.Text, asked.Note), nil)
	}
	switch asked.Note {
	case approval.NoteApprove:
		// Only the word itself approves: what somebody says next may be said of something else, or against it.
		if rs[0].Status != approval.Pending {
			return InteractionResult{}, false, nil
		}
		short := rs[0].ID[len(rs[0].ID)-approval.ShortID:]
		out = InteractionResult{Code: approval.CodeReasonRequired,
			Text: s.say(t.By, phrases.SayReasonNeeded, "word", s.word(t.By, IntentApprove), "id", short)}
		return out, true, s.reply(tx, t, askedAgain(*asked, out.Text, approval.NoteApprove), nil)
	case approval.NoteDeny:
		t.Intent, t.Reason, t.QuotedID = IntentDeny, reason, ""
		t.RequestID = rs[0].ID
		if asked.BatchID != "" && len(rs) > 1 {
			t.RequestID, t.Shows = asked.BatchID, Shows{Version: asked.Shown, After: asked.After}
		}
		out, err = s.decide(ctx, tx, t)
		return out, true, err
	}
	if len(reason) > approval.MaxReason {
		out = InteractionResult{Code: approval.CodeInvalidParameter, Text: s.say(t.By, phrases.SayReasonTooLong)}
		return out, true, s.reply(tx, t, askedAgain(*asked, out.Text, asked.Note), nil)
	}
	var lines []string
	for _, r := range rs {
		ok, err := s.gate.ExplainIn(ctx, tx, r, t.By, approval.Via(t.Channel), reason)
		if err != nil {
			return InteractionResult{}, false, err
		}
		if !ok {
			lines = append(lines, s.say(t.By, phrases.SayReasonKeptOld, "tool", r.Target()))
			continue
		}
		out.Explained = append(out.Explained, r)
		lines = append(lines, s.say(t.By, phrases.SayReasonKept, "tool", r.Target()))
	}
	out.Text = strings.Join(lines, "\n")
	return out, true, s.reply(tx, t, approval.Notification{ApprovalID: rs[0].ID, Text: out.Text}, nil)
}

// askedAgain is the same question once more.
func askedAgain(asked approval.Notification, text string, note approval.Note) approval.Notification {
	return approval.Notification{ApprovalID: asked.ApprovalID, BatchID: asked.BatchID, After: asked.After,
		Shown: asked.Shown, Text: text, Note: note}
}

// askedLast returns the reply that asked the tapper for a reason, if it is the last thing that they
// were told on this channel and not long ago; or the one about the request whose card they quote.
func (s *Service) askedLast(tx approval.Tx, t Interaction) (*approval.Notification, error) {
	q := approval.NotificationQuery{Channel: t.Channel, Recipient: t.From, Kind: approval.KindReply,
		Since: tx.Now().Add(-askedFor), Limit: 1, Narrow: true}
	if t.QuotedID != "" {
		q.Limit = quotedAmong
	}
	ns, err := tx.Notifications(q)
	if err == nil && len(ns) == 1 && ns[0].Part > 1 { // it came by itself, after the word that asked for it
		q.Limit = quotedAmong
		ns, err = tx.Notifications(q)
	}
	if err != nil {
		return nil, err
	}
	ns = slices.DeleteFunc(ns, func(n approval.Notification) bool { return n.Part > 1 })
	if t.QuotedID == "" {
		ns = ns[:min(1, len(ns))]
	}
	var quoted map[string]bool
	if t.QuotedID != "" {
		row, err := s.quotedRow(tx, t)
		if err != nil || row.ID == "" {
			return nil, err
		}
		rs, err := approval.ShownHeads(tx, row)
		if err != nil {
			return nil, err
		}
		quoted = map[string]bool{row.ID: true}
		for _, r := range rs {
			quoted[r.ID] = true
		}
	}
	for _, n := range ns {
		if n.Note.AsksReason() && (quoted == nil || quoted[n.ID] || quoted[n.ApprovalID]) {
			return &n, nil
		}
	}
	return nil, nil
}

// askedAbout returns the requests that a question is still about.
func (s *Service) askedAbout(tx approval.Tx, t Interaction, asked approval.Notification) ([]approval.Request, error) {
	about := asked
	about.Cards = nil // what comes with the question is not what it is about
	rs, err := approval.Shown(tx, about)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, r := range rs {
		all = append(all, r.ID)
	}
	meant, err := narrowed(tx, about, all)
	if err != nil {
		return nil, err
	}
	rs = slices.DeleteFunc(rs, func(r approval.Request) bool { return !slices.Contains(meant, r.ID) })
	var still []approval.Request
	for _, r := range rs {
		switch {
		case !t.At.IsZero() && t.At.Before(r.RequestedAt):
		case asked.Note != approval.NoteReason && r.Status == approval.Pending,
			asked.Note == approval.NoteReason && r.Status == approval.Denied && r.ResolvedBy == t.By.Name:
			still = append(still, r)
		}
	}
	if asked.Note != approval.NoteReason && len(still) == 0 {
		return rs[:min(1, len(rs))], nil // over meanwhile: deciding it says how
	}
	return still, nil
}

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
		return s.grants(tx, t)
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
	r, err := s.gate.RequestIn(ctx, tx, id)
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
func (s *Service) logText(tx approval.Tx, t Interaction) (string, error) {
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
