package approval

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"countersign/approval/legible"
)

// askedFor is how long the next text is taken for the reason that was asked for.
const askedFor = 10 * time.Minute

// clocksDiffer is how far the platform's clock may be behind ours. A text that is older than the question
// by more was not its answer: platforms deliver late, and in any order.
const clocksDiffer = 5 * time.Second

// giveReason takes a text for the reason of a decision: of the one that the tapper was just asked about,
// or of the one whose card the text quotes. done is false where the text is no such thing.
func (g *Gate) giveReason(ctx context.Context, tx Tx, t Interaction) (out InteractionResult, done bool, err error) {
	asked, err := g.askedLast(tx, t)
	if err != nil || asked == nil || !t.At.IsZero() && t.At.Before(asked.CreatedAt.Add(-clocksDiffer)) {
		return InteractionResult{}, false, err
	}
	reason := strings.TrimSpace(t.Text)
	if t.Intent == IntentReason {
		reason = strings.TrimSpace(t.Reason)
	}
	rs, err := g.askedAbout(tx, t, *asked)
	if err != nil || len(rs) == 0 {
		return InteractionResult{}, false, err
	}
	if blank(reason) { // "reason:", as the keyboard began it: the question stays
		out.Text = asked.Text
		return out, true, g.reply(tx, t, Notification{ApprovalID: asked.ApprovalID, BatchID: asked.BatchID, Text: out.Text, Note: asked.Note}, nil)
	}
	switch asked.Note {
	case NoteApprove:
		// Only the word itself approves: what somebody says next may be said of something else, or against it.
		if rs[0].Status != Pending {
			return InteractionResult{}, false, nil
		}
		out = InteractionResult{Code: CodeReasonRequired, Text: g.say(t.By, SayReasonNeeded, "word", string(IntentApprove), "id", rs[0].ID)}
		return out, true, g.reply(tx, t, Notification{ApprovalID: asked.ApprovalID, BatchID: asked.BatchID, Text: out.Text, Note: NoteApprove}, nil)
	case NoteDeny:
		t.Intent, t.Reason, t.QuotedID = IntentDeny, reason, ""
		t.RequestID = rs[0].ID
		if asked.BatchID != "" && len(rs) > 1 {
			t.RequestID = asked.BatchID
		}
		out, err = g.decideTap(ctx, tx, t)
		return out, true, err
	}
	if len(reason) > MaxReason {
		out = InteractionResult{Code: CodeInvalidParameter, Text: g.say(t.By, SayReasonTooLong)}
		return out, true, g.reply(tx, t, Notification{ApprovalID: asked.ApprovalID, BatchID: asked.BatchID, Text: out.Text, Note: asked.Note}, nil)
	}
	var lines []string
	for _, r := range rs {
		ok, err := g.explain(ctx, tx, t, r, reason)
		if err != nil {
			return InteractionResult{}, false, err
		}
		if !ok {
			lines = append(lines, g.say(t.By, SayReasonKeptOld, "tool", r.Target()))
			continue
		}
		out.Explained = append(out.Explained, r)
		lines = append(lines, g.say(t.By, SayReasonKept, "tool", r.Target()))
	}
	out.Text = strings.Join(lines, "\n")
	return out, true, g.reply(tx, t, Notification{ApprovalID: rs[0].ID, Text: out.Text}, nil)
}

// explain gives a denial its reason.
func (g *Gate) explain(ctx context.Context, tx Tx, t Interaction, r Request, reason string) (bool, error) {
	ok, err := tx.AddReason(r.ID, t.By.Name, reason)
	if err != nil || !ok {
		return false, err
	}
	e := requestEvent(r, EventReasonAdded)
	e.Actor, e.Decision, e.Reason = t.By.String(), string(IntentDeny), reason
	e.Data = marshal(map[string]any{"via": t.Channel})
	if err := g.audit(ctx, tx, e); err != nil {
		return false, err
	}
	err = g.ended(ctx, tx, r) // cards that can be edited say why
	return true, err
}

// askedLast returns the reply that asked the tapper for a reason, if it is the last thing that they
// were told on this channel and not long ago; or the one about the request whose card they quote.
func (g *Gate) askedLast(tx Tx, t Interaction) (*Notification, error) {
	q := NotificationQuery{Channel: t.Channel, Recipient: t.From, Kind: KindReply, Since: tx.Now().Add(-askedFor), Limit: 1, Narrow: true}
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
	ns = slices.DeleteFunc(ns, func(n Notification) bool { return n.Part > 1 })
	if t.QuotedID == "" {
		ns = ns[:min(1, len(ns))]
	}
	var quoted map[string]bool
	if t.QuotedID != "" {
		row, err := g.quotedRow(tx, t)
		if err != nil || row.ID == "" {
			return nil, err
		}
		rs, err := shownHeads(tx, row)
		if err != nil {
			return nil, err
		}
		quoted = map[string]bool{row.ID: true}
		for _, r := range rs {
			quoted[r.ID] = true
		}
	}
	for _, n := range ns {
		asks := n.Note == NoteReason || n.Note == NoteDeny || n.Note == NoteApprove
		if asks && (quoted == nil || quoted[n.ID] || quoted[n.ApprovalID]) {
			return &n, nil
		}
	}
	return nil, nil
}

// askedAbout returns the requests that a question is still about.
func (g *Gate) askedAbout(tx Tx, t Interaction, asked Notification) ([]Request, error) {
	rs, err := shown(tx, asked)
	if err != nil {
		return nil, err
	}
	var still []Request
	for _, r := range rs {
		switch {
		case !t.At.IsZero() && t.At.Before(r.RequestedAt):
		case asked.Note != NoteReason && r.Status == Pending,
			asked.Note == NoteReason && r.Status == Denied && r.ResolvedBy == t.By.Name:
			still = append(still, r)
		}
	}
	if asked.Note != NoteReason && len(still) == 0 {
		return rs[:min(1, len(rs))], nil // over meanwhile: deciding it says how
	}
	return still, nil
}

// command answers a typed word that decides nothing.
func (g *Gate) command(ctx context.Context, tx Tx, t Interaction) (InteractionResult, error) {
	if t.By.Kind != Human {
		if t.Intent == IntentHelp {
			out := InteractionResult{Text: g.say(t.By, SayHelpStranger, "address", t.From)}
			return out, g.reply(tx, t, Notification{Text: out.Text}, nil)
		}
		_, out, err := g.refuseTap(ctx, tx, t)
		return out, err
	}
	answer := func(text string, cards []Head) (InteractionResult, error) {
		return InteractionResult{Text: text}, g.reply(tx, t, Notification{Text: text}, cards)
	}
	switch t.Intent {
	case IntentHelp:
		return answer(g.say(t.By, SayHelp), nil)
	case IntentPending:
		newest, total, err := g.waiting(ctx, tx)
		if err != nil {
			return InteractionResult{}, err
		}
		return answer(g.waitingLine(t, newest, total), newest)
	case IntentShow:
		return g.showAll(ctx, tx, t)
	case IntentStatus:
		text, err := g.statusText(ctx, tx, t)
		if err != nil {
			return InteractionResult{}, err
		}
		return answer(text, nil)
	case IntentLog:
		if !t.By.Admin {
			out := InteractionResult{Code: CodeNotAdmin, Text: g.say(t.By, SayNotAdmin)}
			return out, g.reply(tx, t, Notification{Text: out.Text}, nil)
		}
		text, err := g.logText(tx, t)
		if err != nil {
			return InteractionResult{}, err
		}
		return answer(text, nil)
	}
	if !t.By.Approver {
		_, out, err := g.refuseTap(ctx, tx, t)
		return out, err
	}
	if t.Intent == IntentUnclear {
		return g.unclear(ctx, tx, t)
	}
	return answer(g.say(t.By, SayNotUnderstood), nil)
}

// showAll answers with all of a request, in as many messages as it takes.
func (g *Gate) showAll(ctx context.Context, tx Tx, t Interaction) (InteractionResult, error) {
	id := t.RequestID
	if id == "" && t.QuotedID != "" {
		ids, err := g.quoted(tx, t)
		if err != nil {
			return InteractionResult{}, err
		}
		switch {
		case len(ids) == 1:
			id = ids[0]
		case len(ids) > 1:
			out := InteractionResult{Text: g.say(t.By, SayQuotesMany, "n", len(ids), "word", string(IntentShow))}
			return out, g.reply(tx, t, Notification{Text: out.Text}, nil)
		}
	}
	if batch, err := tx.BatchHeads(id); err != nil || len(batch) > 0 && id != "" {
		out := InteractionResult{Text: g.say(t.By, SayQuotesMany, "n", len(batch), "word", string(IntentShow))}
		return out, errors.Join(err, g.reply(tx, t, Notification{Text: out.Text}, nil))
	}
	r, err := g.settled(ctx, tx, id)
	if errors.Is(err, ErrNotFound) {
		out := InteractionResult{Code: CodeNotFound, Text: g.say(t.By, SayNoRequest)}
		return out, g.reply(tx, t, Notification{Text: out.Text}, nil)
	}
	if err != nil {
		return InteractionResult{}, err
	}
	n := Notification{ApprovalID: r.ID, Channel: t.Channel, Recipient: t.From, Kind: KindReply, ReplyTo: t.ReplyTo, Cards: []string{r.ID}, Part: 1}
	return InteractionResult{}, g.queue(tx, n)
}

func (g *Gate) statusText(ctx context.Context, tx Tx, t Interaction) (string, error) {
	_, total, err := g.waiting(ctx, tx)
	if err != nil {
		return "", err
	}
	var roles []string
	if t.By.Approver {
		roles = append(roles, g.say(t.By, SayRoleApprover))
	}
	if t.By.Admin {
		roles = append(roles, g.say(t.By, SayRoleAdmin))
	}
	if roles == nil {
		roles = append(roles, g.say(t.By, SayRoleNone))
	}
	lines := []string{
		g.say(t.By, SayStatusYou, "who", t.By.Name, "roles", strings.Join(roles, ", ")),
		g.say(t.By, SayStatusPending, "n", total),
	}
	return strings.Join(append(lines, g.status(t.By)...), "\n"), nil
}

// logLines is how many notifications the typed word "log" brings, out of the newest logAmong.
const (
	logLines = 10
	logAmong = 100
)

// logText tells what became of the newest cards and edits. Answers to what was typed would crowd them
// out, so only those of them are told that did not arrive.
func (g *Gate) logText(tx Tx, t Interaction) (string, error) {
	ns, err := tx.Notifications(NotificationQuery{Limit: logAmong, Narrow: true})
	if err != nil {
		return "", err
	}
	ns = slices.DeleteFunc(ns, func(n Notification) bool { return n.Kind == KindReply && n.Status != Failed && n.Status != Retrying })
	ns = ns[:min(logLines, len(ns))]
	if len(ns) == 0 {
		return g.say(t.By, SayLogEmpty), nil
	}
	lines := []string{g.say(t.By, SayLog, "n", len(ns))}
	for _, n := range ns {
		recipient := n.Recipient
		if name := g.nameOf(n.address()); name != "" {
			recipient = name
		}
		line := g.say(t.By, SayLogLine, "time", n.CreatedAt, "channel", n.Channel, "recipient", recipient, "kind", g.say(t.By, n.Kind.phrase()), "status", g.say(t.By, n.Status.phrase()), "attempt", n.Attempt)
		if n.Error != "" {
			line += "\n  " + legible.Cut(n.Error, 120)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), nil
}
