package chat

import (
	"slices"
	"strings"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
	"countersign/internal/locale/phrases"
)

// askedFor is how long the next text is taken for the reason of a denial, and approvesFor for that of an approval,
// which it carries out.
const (
	askedFor    = 10 * time.Minute
	approvesFor = time.Minute
)

// clocksDiffer is how far the platform's clock may be behind ours. A text that is older than the question
// by more was not its answer: platforms deliver late, and in any order.
const clocksDiffer = 5 * time.Second

// giveReason takes a text for the reason of a decision: of the one that the tapper was just asked about,
// or of the one whose card the text quotes. done is false where the text is no such thing.
func (w work) giveReason() (out InteractionResult, done bool, err error) {
	asked, err := w.askedLast()
	if err != nil || asked == nil || !w.At.IsZero() && w.At.Before(asked.CreatedAt.Add(-clocksDiffer)) {
		return InteractionResult{}, false, err
	}
	reason := strings.TrimSpace(w.Text)
	if w.Intent == IntentReason {
		reason = strings.TrimSpace(w.Reason)
	}
	rs, err := w.askedAbout(*asked)
	if err != nil || len(rs) == 0 {
		return InteractionResult{}, false, err
	}
	if asked.Note == approval.NoteApprove || asked.Note == approval.NoteOvertaken {
		if ok, err := w.answers(*asked); err != nil {
			return InteractionResult{}, false, err
		} else if !ok {
			out, err = w.notTheReason(*asked, rs[0])
			return out, true, err
		}
	}
	w.open = nil                // this answers it
	if approval.Blank(reason) { // "reason:", as the keyboard began it: the question stays
		out.Text = asked.Text
		return out, true, w.reply(askedAgain(*asked, out.Text, asked.Note), nil)
	}
	switch asked.Note {
	case approval.NoteApprove:
		// As a dialog's reason is, it is no typed word beside the approval.
		w.Intent, w.Reason, w.Text, w.QuotedID, w.RequestID = IntentApprove, reason, "", "", asked.ApprovalID
		if asked.BatchID != "" { // what is left of it is no more than what was pressed
			w.RequestID, w.Shows = asked.BatchID, Shows{Version: asked.Shown, After: asked.After}
		}
		out, err = w.decide()
		return out, true, err
	case approval.NoteDeny:
		w.Intent, w.Reason, w.QuotedID = IntentDeny, reason, ""
		w.RequestID = rs[0].ID
		if asked.BatchID != "" && len(rs) > 1 {
			w.RequestID, w.Shows = asked.BatchID, Shows{Version: asked.Shown, After: asked.After}
		}
		out, err = w.decide()
		return out, true, err
	}
	if len(reason) > approval.MaxReason {
		out = InteractionResult{Code: approval.CodeInvalidParameter, Text: w.say(phrases.SayReasonTooLong)}
		return out, true, w.reply(askedAgain(*asked, out.Text, asked.Note), nil)
	}
	var lines []string
	for _, r := range rs {
		ok, err := w.in.Explain(r, w.By, approval.Via(w.Channel), reason)
		if err != nil {
			return InteractionResult{}, false, err
		}
		if !ok {
			lines = append(lines, w.say(phrases.SayReasonKeptOld, "tool", r.Target()))
			continue
		}
		out.Explained = append(out.Explained, r)
		lines = append(lines, w.say(phrases.SayReasonKept, "tool", r.Target()))
	}
	out.Text = strings.Join(lines, "\n")
	return out, true, w.reply(approval.Notification{ApprovalID: rs[0].ID, Text: out.Text}, nil)
}

// answers reports whether a text may be the reason of the approval that a question is about, and so carry it out: it
// was written in the same chat after the question came there, within [approvesFor], it is no order and no question, and
// it quotes nothing else. That nothing was answered in between, [work.askedLast] says; that no card came, the
// question's note.
func (w work) answers(asked approval.Notification) (bool, error) {
	if asked.Note != approval.NoteApprove || w.Elsewhere || asked.SentAt.IsZero() || w.At.Before(asked.SentAt) ||
		w.Intent != IntentOther || beginsAsOrder(w.Text) || asks(w.Text) {
		return false, nil
	}
	if end := asked.SentAt.Add(approvesFor); w.At.After(end) || w.tx.Now().After(end) {
		return false, nil
	}
	if w.QuotedID == "" {
		return true, nil
	}
	row, err := w.quotedRow()
	return row.ID == asked.ID, err
}

// notTheReason answers a text that may be no reason for an approval. That closes the question.
func (w work) notTheReason(asked approval.Notification, r approval.Request) (InteractionResult, error) {
	w.open = nil // the answer says it
	id := r.ID[len(r.ID)-approval.ShortID:]
	if asked.BatchID != "" {
		id = Shows{Version: asked.Shown, After: asked.After}.TypedID(asked.BatchID)
	}
	out := InteractionResult{Code: approval.CodeReasonRequired,
		Text: w.say(phrases.SayNotTheReason, "tool", r.Target(), "id", id)}
	if r.Status != approval.Pending {
		out.Text = w.late(r)
	}
	return out, w.reply(approval.Notification{ApprovalID: r.ID, Text: out.Text}, nil)
}

// openQuestion returns the question that the person who presses or types leaves open, nil for none: nothing is decided
// until it has its reason. Whatever they are told next closes it.
func (w work) openQuestion() (*approval.Notification, error) {
	if !w.By.MayDecide() {
		return nil, nil
	}
	w.QuotedID = ""
	asked, err := w.askedLast()
	if err != nil || asked == nil || asked.Note == approval.NoteReason ||
		asked.Note != approval.NoteDeny && !asked.SentAt.IsZero() && w.tx.Now().Sub(asked.SentAt) > approvesFor {
		return nil, err
	}
	return asked, nil
}

// closes says that an answer closes a question that is open, "" where it does not, or where there is nothing to say.
func (w work) closes(n approval.Notification) (string, error) {
	elsewhere := w.AnswerAt != "" && n.Note == ""
	if w.open == nil || elsewhere || n.Note == w.open.Note && n.ApprovalID == w.open.ApprovalID {
		return "", nil
	}
	r, err := w.tx.Glance().Head(w.open.ApprovalID)
	if err != nil || r.Status != approval.Pending {
		return "", err
	}
	return w.say(phrases.SayReasonClosed, "tool", r.Target()), nil
}

// takeBack closes a question that is open: typed, as Back is pressed.
func (w work) takeBack() (InteractionResult, error) {
	if w.By.Kind != approval.Human {
		_, out, err := w.refuse()
		return out, err
	}
	w.open = nil
	return w.answer(w.say(phrases.SayBack))
}

// askedAgain is the same question once more.
func askedAgain(asked approval.Notification, text string, note approval.Note) approval.Notification {
	return approval.Notification{ApprovalID: asked.ApprovalID, BatchID: asked.BatchID, After: asked.After,
		Shown: asked.Shown, Text: text, Note: note}
}

// askedLast returns the reply that asked the tapper for a reason, if it is the last thing that they
// were told on this channel and not long ago; or the one about the request whose card they quote.
func (w work) askedLast() (*approval.Notification, error) {
	q := approval.NotificationQuery{Channel: w.Channel, Recipient: w.From, Kind: approval.KindReply,
		Since: w.tx.Now().Add(-askedFor), Limit: 1, Narrow: true}
	if w.QuotedID != "" {
		q.Limit = quotedAmong
	}
	// Only words answer a question, and they are about the whole store; a button is told which one it leaves open.
	w.tx = w.tx.Glance()
	ns, err := w.tx.Notifications(q)
	// These came by themselves, after the word that asked for them or for what agents did: they close no question.
	byItself := func(n approval.Notification) bool { return n.Part > 1 || n.Note == approval.NoteQueued }
	if err == nil && len(ns) == 1 && byItself(ns[0]) {
		q.Limit = quotedAmong
		ns, err = w.tx.Notifications(q)
	}
	if err != nil {
		return nil, err
	}
	ns = slices.DeleteFunc(ns, byItself)
	if w.QuotedID == "" {
		ns = ns[:min(1, len(ns))]
	}
	var quoted map[string]bool
	if w.QuotedID != "" {
		row, err := w.quotedRow()
		if err != nil || row.ID == "" {
			return nil, err
		}
		rs, err := lists.ShownHeads(w.tx, row)
		if err != nil {
			return nil, err
		}
		quoted = map[string]bool{row.ID: true}
		for _, r := range rs {
			quoted[r.ID] = true
		}
	}
	for i, n := range ns {
		approves := n.Note == approval.NoteApprove || n.Note == approval.NoteOvertaken
		if i > 0 && approves {
			continue // closed by what came after it
		}
		if (approves || n.Note.AsksReason()) && (quoted == nil || quoted[n.ID] || quoted[n.ApprovalID]) {
			return &n, nil
		}
	}
	return nil, nil
}

// askedAbout returns the requests that a question is still about.
func (w work) askedAbout(asked approval.Notification) ([]approval.Request, error) {
	about := asked
	about.Cards = nil // what comes with the question is not what it is about
	rs, err := lists.Shown(w.tx, about)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, r := range rs {
		all = append(all, r.ID)
	}
	meant, err := narrow(w.tx, about, all)
	if err != nil {
		return nil, err
	}
	rs = slices.DeleteFunc(rs, func(r approval.Request) bool { return !slices.Contains(meant, r.ID) })
	var still []approval.Request
	for _, r := range rs {
		switch {
		case !w.At.IsZero() && w.At.Before(r.RequestedAt):
		case asked.Note != approval.NoteReason && r.Status == approval.Pending,
			asked.Note == approval.NoteReason && r.Status == approval.Denied && r.ResolvedBy == w.By.Name:
			still = append(still, r)
		}
	}
	if asked.Note != approval.NoteReason && len(still) == 0 {
		return rs[:min(1, len(rs))], nil // over meanwhile: deciding it says how
	}
	return still, nil
}
