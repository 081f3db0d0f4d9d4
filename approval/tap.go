package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"

	"countersign/approval/legible"
)

// Intent is what a person means by a tap or a typed word.
type Intent string

const (
	IntentApprove Intent = "approve"
	IntentDeny    Intent = "deny"
	IntentOther   Intent = "other"   // words that mean none of these
	IntentUnclear Intent = "unclear" // a word for yes, with more that may change it

	IntentReason  Intent = "reason"  // why, of what was denied before
	IntentPending Intent = "pending" // what waits for a decision, with buttons
	IntentShow    Intent = "show"    // all of one request
	IntentLog     Intent = "log"     // the notification log
	IntentStatus  Intent = "status"  // how things stand
	IntentHelp    Intent = "help"

	IntentFollow   Intent = "follow"   // somebody added us, or is back
	IntentUnfollow Intent = "unfollow" // somebody blocked us: nothing reaches them there any more
)

// Interaction is one signed event from a chat platform: a button, or words typed to the bot. Who did it comes
// from the platform's own user id, never from anything else in the event.
type Interaction struct {
	EventID string // the platform's id of the event, with its channel: "line:01K…"
	Channel string
	By      Actor  // a Human, or a Stranger under the platform's id
	From    string // the tapper's own address on the channel, for the answer
	ReplyTo string // LINE reply token or Slack response_url
	Intent  Intent
	// RequestID is the request, or the batch, that a button or a typed id names.
	RequestID string
	// QuotedID is the platform's id of the message that typed words quote.
	QuotedID string
	Reason   string
	Text     string // all that was typed, "" for a button
	// At is when the platform says it happened; the zero time when it does not say.
	At time.Time
	// OneReply says that the channel answers several cards in one message.
	OneReply bool
	// AsksWhy says that the channel has no dialog: after a denial without a reason the next text gives it.
	AsksWhy bool
	// Told says that the platform shows the tapper a refusal by itself, as in a dialog that stays open: a
	// refusal then needs no answer of its own.
	Told bool
}

// InteractionResult is what became of a tap.
type InteractionResult struct {
	Duplicate bool   // seen before: nothing was done
	Ignored   bool   // older than the request it names: nothing was done and nobody answered
	Code      Code   // why nothing was decided, "" if something was or nothing was asked
	Text      string // the answer
	Decided   []Request
	Explained []Request // denied before, and given their reason now

	unreached []moved // cards that nobody has any more, or only admins
	rerouted  string  // the request up to which cards were sent on; "": all were
}

// maxReplyCards is how many cards one answer brings.
const maxReplyCards = 5

// Tap carries out a tap: its event id, the decision it carries and the answer to the tapper are one
// transaction. A tap that was seen before, came too late, or comes from somebody who may not decide
// changes nothing but the audit log. The error is only ever about the store: then nothing was kept,
// and the platform may deliver again.
func (g *Gate) Tap(ctx context.Context, t Interaction) (InteractionResult, error) {
	var out InteractionResult
	t.At = g.store.FromWall(t.At)
	err := g.store.Update(ctx, func(tx Tx) (err error) {
		out, err = g.firstSight(ctx, tx, &t)
		if err != nil || out.Duplicate {
			return err
		}
		out, err = g.tap(ctx, tx, t)
		return err
	})
	if err == nil {
		out.unreached = append(out.unreached, g.leaveRest(ctx, t, out.rerouted)...)
		for _, m := range out.unreached {
			g.sayWhere(ctx, m.fate, m.request, "last_channel", t.Channel, "last_reason", "blocked")
		}
	}
	return out, err
}

// firstSight marks the event as seen, and the tapper as who they are now.
func (g *Gate) firstSight(ctx context.Context, tx Tx, t *Interaction) (InteractionResult, error) {
	fresh, err := tx.FirstSight(t.EventID)
	if err != nil {
		return InteractionResult{}, err
	}
	if !fresh {
		return InteractionResult{Duplicate: true}, g.ignoreTap(ctx, tx, *t, "duplicate_event")
	}
	t.By = g.asNow(t.By)
	if dead, err := tx.Dead(Address{t.Channel, t.From}); err != nil || !dead || t.Intent == IntentUnfollow {
		return InteractionResult{}, err
	}
	return InteractionResult{}, g.alive(ctx, tx, *t)
}

// Asked is what became of a button whose reason is still to come.
type Asked struct {
	InteractionResult
	Open []Request // what a dialog may now ask about; empty: Tapped tells the rest
}

// Ask takes a tap that a dialog may ask the reason for: any denial, and an approval of what needs a
// reason. Where the tapper may decide, its event is marked as seen and all that the dialog is about is
// returned: it stays as it is, and the dialog's submission is a tap of its own. Where there is nothing
// to ask, it is as [Gate.Tap].
func (g *Gate) Ask(ctx context.Context, t Interaction) (Asked, error) {
	var out Asked
	t.At = g.store.FromWall(t.At)
	err := g.store.Update(ctx, func(tx Tx) (err error) {
		out = Asked{}
		if out.InteractionResult, err = g.firstSight(ctx, tx, &t); err != nil || out.Duplicate {
			return err
		}
		if t.By.Kind != Human || !t.By.Approver {
			out.InteractionResult, err = g.tap(ctx, tx, t)
			return err
		}
		ids, answer, err := g.aim(ctx, tx, t)
		if err != nil || ids == nil {
			out.InteractionResult = answer
			return err
		}
		var open []Request
		asks := t.Intent == IntentDeny
		for _, id := range ids {
			r, err := g.settled(ctx, tx, id)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			if err == nil && r.Status == Pending {
				open = append(open, r)
				asks = asks || r.RequireReason
			}
		}
		if asks && len(open) > 0 {
			out.Open = g.toldAll(open)
			return nil
		}
		out.InteractionResult, err = g.decideEach(ctx, tx, t, ids)
		return err
	})
	return out, err
}

func (g *Gate) ignoreTap(ctx context.Context, tx Tx, t Interaction, reason string) error {
	e := Event{Type: EventWebhookRefused, Actor: t.By.String(), Reason: reason, Decision: decisionWord(t.Intent)}
	e.Data = marshal(map[string]any{"channel": t.Channel, "event_id": legible.Cut(legible.Line(t.EventID), 128)})
	return g.audit(ctx, tx, e)
}

// decisionWord is what the audit log says was wanted: nothing, unless it is a decision.
func decisionWord(i Intent) string {
	if i == IntentApprove || i == IntentDeny {
		return string(i)
	}
	return ""
}

func (g *Gate) tap(ctx context.Context, tx Tx, t Interaction) (InteractionResult, error) {
	switch t.Intent {
	case IntentApprove, IntentDeny:
		return g.decideTap(ctx, tx, t)
	case IntentFollow:
		return g.came(ctx, tx, t)
	case IntentUnfollow:
		return g.left(ctx, tx, t)
	case IntentOther, IntentReason:
		if t.By.Kind == Human && t.By.Approver {
			if out, done, err := g.giveReason(ctx, tx, t); err != nil || done {
				return out, err
			}
		}
	}
	return g.command(ctx, tx, t)
}

func (g *Gate) decideTap(ctx context.Context, tx Tx, t Interaction) (InteractionResult, error) {
	targets, answer, err := g.aim(ctx, tx, t)
	if err != nil || targets == nil {
		return answer, err
	}
	clear, err := g.clear(ctx, tx, t, targets)
	switch {
	case err != nil:
		return InteractionResult{}, err
	case !clear:
		return g.unclear(ctx, tx, t)
	}
	return g.decideEach(ctx, tx, t, targets)
}

// clear reports whether typed words say one thing of their targets: an approval is the word, and the id or
// the quote, and nothing else, but for a reason where one is required; and what quotes one card names no
// other request. Whoever may not decide is told so first, and of what is over how it ended.
func (g *Gate) clear(ctx context.Context, tx Tx, t Interaction, targets []string) (bool, error) {
	if t.Text == "" || t.By.Kind != Human || !t.By.Approver {
		return true, nil
	}
	if t.RequestID != "" && t.QuotedID != "" {
		ids, err := g.quoted(tx, t)
		if err != nil || len(ids) > 0 && !slices.ContainsFunc(targets, func(id string) bool { return slices.Contains(ids, id) }) {
			return false, err
		}
	}
	if t.Intent != IntentApprove || blank(t.Reason) {
		return true, nil
	}
	over := true
	for _, id := range targets {
		r, err := g.settled(ctx, tx, id)
		switch {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return false, err
		case r.Status == Pending && r.RequireReason:
			return true, nil
		case r.Status == Pending:
			over = false
		}
	}
	return over, nil
}

// unclear answers words that decide nothing with the cards of the requests that they name, or else with
// what waits.
func (g *Gate) unclear(ctx context.Context, tx Tx, t Interaction) (InteractionResult, error) {
	ids, err := g.named(tx, t)
	if err != nil {
		return InteractionResult{}, err
	}
	e := Event{Type: EventDecisionRefused, Actor: t.By.String(), Decision: string(IntentApprove), Reason: "unclear", Data: marshal(map[string]any{"via": t.Channel})}
	var text string
	var open []Head
	if len(ids) == 0 {
		var total int
		if open, total, err = g.waiting(ctx, tx); err != nil {
			return InteractionResult{}, err
		}
		if text = g.say(t.By, SayUnclear); total == 0 {
			text = g.say(t.By, SayNothingWaits)
		}
	} else {
		var over []string
		for _, id := range ids {
			r, err := g.settledHead(ctx, tx, id)
			switch {
			case errors.Is(err, ErrNotFound):
				over = append(over, g.say(t.By, SayNoRequest))
			case err != nil:
				return InteractionResult{}, err
			case r.Status == Pending:
				e.ApprovalID, e.Agent, e.Tool, e.Risk = r.ID, r.Agent, r.Target(), r.Risk
				open = append(open, r)
			default:
				over = append(over, g.late(t, r.Request))
			}
		}
		if text = strings.Join(over, "\n"); len(open) > 0 {
			text = g.say(t.By, SayUnclear)
		}
		open = open[:min(len(open), maxReplyCards)]
	}
	if err := g.audit(ctx, tx, e); err != nil {
		return InteractionResult{}, err
	}
	return InteractionResult{Text: text}, g.reply(tx, t, Notification{Text: text}, open)
}

// named returns the requests that words name or quote, none where they do neither.
func (g *Gate) named(tx Tx, t Interaction) ([]string, error) {
	if t.RequestID == "" {
		if t.QuotedID == "" {
			return nil, nil
		}
		return g.quoted(tx, t)
	}
	batch, err := tx.Batch(t.RequestID)
	if err != nil || len(batch) == 0 {
		return []string{t.RequestID}, err
	}
	var ids []string
	for _, r := range batch {
		ids = append(ids, r.ID)
	}
	return ids, nil
}

// decideEach carries out a tap on the requests that it is about, and answers the tapper.
func (g *Gate) decideEach(ctx context.Context, tx Tx, t Interaction, targets []string) (InteractionResult, error) {
	if out, done, err := g.askTogether(ctx, tx, t, targets); err != nil || done {
		return out, err
	}
	var out InteractionResult
	var lines []string
	about, note := Notification{}, Note("")
	for _, id := range targets {
		if r, err := tx.Request(id); err == nil {
			about.ApprovalID = r.ID
			if t.RequestID != "" && t.RequestID == r.BatchID {
				about.BatchID = r.BatchID
			}
			if !t.At.IsZero() && t.At.Before(r.RequestedAt) {
				return InteractionResult{Ignored: true}, g.ignoreTap(ctx, tx, t, "older_than_request")
			}
			if t.givesReason(r) {
				ok, err := g.explain(ctx, tx, t, r, strings.TrimSpace(t.Reason))
				if err != nil {
					return InteractionResult{}, err
				}
				if ok {
					out.Explained = append(out.Explained, r)
					lines = append(lines, g.say(t.By, SayReasonKept, "tool", r.Target()))
					continue
				}
			}
		} else if !errors.Is(err, ErrNotFound) {
			return InteractionResult{}, err
		}
		r, refusal, err := g.decide(ctx, tx, Decision{RequestID: id, Approve: t.Intent == IntentApprove, By: t.By, Via: Via(t.Channel), Reason: t.Reason})
		if err != nil {
			return InteractionResult{}, err
		}
		if refusal != nil {
			if out.Code == "" {
				out.Code = refusal.Code
			}
			lines = append(lines, g.refusal(t, refusal, id))
			if refusal.Code == CodeReasonRequired {
				note = Note(t.Intent)
			}
			if refusal.Code == CodeNotAnApprover {
				break // so it is for the rest of a batch, and is said once
			}
			continue
		}
		out.Decided = append(out.Decided, r)
		lines = append(lines, g.decidedLine(t, r))
		if r.Status == Denied && r.ResolveReason == "" && note == "" {
			note = NoteReason
		}
		if err := g.delivered(tx, t, r); err != nil {
			return InteractionResult{}, err
		}
	}
	refused := len(out.Decided) == 0 && len(out.Explained) == 0
	if !refused {
		out.Code = ""
	}
	out.Text = strings.Join(lines, "\n")
	if refused && t.Told {
		return out, nil
	}
	if about.Text = out.Text; t.AsksWhy {
		about.Note = note
	}
	return out, g.reply(tx, t, about, nil)
}

// askTogether holds back a decision on several requests of which one needs a reason, where there is none:
// what is decided together is decided with one reason, or not at all. done is false where nothing is
// held back.
func (g *Gate) askTogether(ctx context.Context, tx Tx, t Interaction, targets []string) (out InteractionResult, done bool, err error) {
	if len(targets) < 2 || !blank(t.Reason) || t.By.Kind != Human || !t.By.Approver {
		return out, false, nil
	}
	about := Notification{}
	for _, id := range targets {
		r, err := g.settled(ctx, tx, id)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return out, false, err
		}
		if !t.At.IsZero() && t.At.Before(r.RequestedAt) {
			return out, false, nil
		}
		if r.Status != Pending || !r.RequireReason {
			continue
		}
		_, refusal, err := g.decide(ctx, tx, Decision{RequestID: id, Approve: t.Intent == IntentApprove, By: t.By, Via: Via(t.Channel)})
		if err != nil {
			return out, false, err
		}
		switch {
		case refusal == nil:
			return out, false, Errorf(CodeInternal, "a request that needs a reason was decided without one")
		case refusal.Code != CodeReasonRequired: // the tapper's role was taken away just now: they are refused as any other
			return out, false, nil
		}
		if about.ApprovalID == "" {
			out.Code, out.Text = refusal.Code, g.refusal(t, refusal, orID(t.RequestID, id))
			about.ApprovalID, about.BatchID = r.ID, r.BatchID
		}
	}
	if about.ApprovalID == "" {
		return out, false, nil
	}
	if t.Told {
		return out, true, nil
	}
	if about.Text = out.Text; t.AsksWhy {
		about.Note = Note(t.Intent)
	}
	return out, true, g.reply(tx, t, about, nil)
}

func orID(id, otherwise string) string {
	if id == "" {
		return otherwise
	}
	return id
}

// blank reports whether a reason says nothing that can be seen.
func blank(reason string) bool {
	for _, r := range reason {
		if s := string(r); !unicode.IsSpace(r) && legible.Line(s) == s && r != '\u2800' {
			return false
		}
	}
	return true
}

// givesReason says that a denial comes once more from whoever denied r without a reason, and now has one.
func (t Interaction) givesReason(r Request) bool {
	reason := strings.TrimSpace(t.Reason)
	return t.Intent == IntentDeny && t.By.Kind == Human && t.By.Approver && !blank(reason) && len(reason) <= MaxReason &&
		r.Status == Denied && r.ResolvedBy == t.By.Name && r.ResolveReason == ""
}

func (g *Gate) decidedLine(t Interaction, r Request) string {
	if r.Status == Approved {
		return g.say(t.By, SayApproved, "tool", r.Target())
	}
	return g.say(t.By, SayDenied, "tool", r.Target())
}

// refusal tells a tapper why nothing was decided, and how to do it where there is a way.
func (g *Gate) refusal(t Interaction, e *Error, id string) string {
	switch e.Code {
	case CodeNotFound:
		return g.say(t.By, SayNoRequest)
	case CodeNotAnApprover:
		return g.say(t.By, SayNotYours)
	case CodeExpired, CodeAlreadyResolved:
		return g.late(t, *e.Request)
	case CodeReasonRequired:
		if t.AsksWhy && t.Intent == IntentDeny {
			return g.say(t.By, SayReasonNext, "id", id)
		}
		return g.say(t.By, SayReasonNeeded, "word", string(t.Intent), "id", id)
	case CodeInvalidParameter:
		return g.say(t.By, SayReasonTooLong)
	}
	return e.Message
}

// late tells a tapper how a request ended before they came.
func (g *Gate) late(t Interaction, r Request) string {
	return Late(r, t.By, func(p Phrase, args ...any) string { return g.say(t.By, p, args...) })
}

// aim finds the requests that a tap is about. With none, answer is what the tapper was told instead.
func (g *Gate) aim(ctx context.Context, tx Tx, t Interaction) (targets []string, answer InteractionResult, err error) {
	switch {
	case t.RequestID != "":
		batch, err := tx.BatchHeads(t.RequestID)
		if err != nil {
			return nil, InteractionResult{}, err
		}
		if len(batch) == 0 {
			return []string{t.RequestID}, InteractionResult{}, nil
		}
		for _, r := range batch {
			if r.Status == Pending && !r.Due(tx.Now()) {
				targets = append(targets, r.ID)
			}
		}
		if targets == nil { // all over: the answer says how each one ended
			for _, r := range batch {
				targets = append(targets, r.ID)
			}
		}
		return targets, InteractionResult{}, nil
	case t.QuotedID != "":
		ids, err := g.quoted(tx, t)
		if err != nil {
			return nil, InteractionResult{}, err
		}
		if len(ids) == 1 {
			return ids, InteractionResult{}, nil
		}
		if len(ids) > 1 {
			if !t.By.Approver {
				return g.refuseTap(ctx, tx, t)
			}
			answer.Text = g.say(t.By, SayQuotesMany, "n", len(ids), "word", string(t.Intent))
			return nil, answer, g.reply(tx, t, Notification{Text: answer.Text}, nil)
		}
		if t.By.Approver && t.Intent == IntentDeny { // what was meant is not known, and is not guessed
			answer.Text = g.say(t.By, SayQuotesUnknown)
			return nil, answer, g.reply(tx, t, Notification{Text: answer.Text}, nil)
		}
	}
	if !t.By.Approver || t.By.Kind != Human {
		return g.refuseTap(ctx, tx, t)
	}
	return g.bareWord(ctx, tx, t)
}

// refuseTap answers and audits words of somebody who may not decide and named no request.
func (g *Gate) refuseTap(ctx context.Context, tx Tx, t Interaction) (targets []string, answer InteractionResult, err error) {
	e := Event{Type: EventDecisionRefused, Actor: t.By.String(), Decision: decisionWord(t.Intent), Reason: string(CodeNotAnApprover)}
	e.Data = marshal(map[string]any{"via": t.Channel})
	if err := g.audit(ctx, tx, e); err != nil {
		return nil, InteractionResult{}, err
	}
	answer = InteractionResult{Code: CodeNotAnApprover, Text: g.say(t.By, SayNotYours)}
	return nil, answer, g.reply(tx, t, Notification{Text: answer.Text}, nil)
}

// quoted finds the requests shown by the message that the words quote.
func (g *Gate) quoted(tx Tx, t Interaction) ([]string, error) {
	n, err := g.quotedRow(tx, t)
	if err != nil || !n.showsCard() {
		return nil, err
	}
	rs, err := shownHeads(tx, n)
	var ids []string
	for _, r := range rs {
		ids = append(ids, r.ID)
	}
	return ids, err
}

// quotedRow finds the notification whose message the words quote, the zero Notification for none.
func (g *Gate) quotedRow(tx Tx, t Interaction) (Notification, error) {
	ns, err := tx.Notifications(NotificationQuery{Channel: t.Channel, MessageID: t.QuotedID, Limit: 1, Narrow: true})
	if err == nil && len(ns) == 0 {
		ns, err = g.quotedAmong(tx, t)
	}
	if err != nil || len(ns) == 0 {
		return Notification{}, err
	}
	return ns[0], nil
}

// How far back, and among how many messages to the same person, a quoted one is looked for that is not
// the first of its notification.
const (
	quotedSince = 7 * 24 * time.Hour
	quotedAmong = 200
)

// quotedAmong finds a quoted message that is not the first of its notification: a notification can be
// several messages, and all their ids are in its receipt.
func (g *Gate) quotedAmong(tx Tx, t Interaction) ([]Notification, error) {
	id, err := json.Marshal(t.QuotedID)
	if err != nil {
		return nil, err
	}
	ns, err := tx.Notifications(NotificationQuery{Channel: t.Channel, Recipient: t.From, Several: true, Since: tx.Now().Add(-quotedSince), Limit: quotedAmong, Narrow: true})
	for _, n := range ns {
		if bytes.Contains(n.Receipt, id) {
			return []Notification{n}, err
		}
	}
	return nil, err
}

// bareWord takes a yes or no that names no request. A bare yes never approves: it brings up the cards.
// A bare no denies only where there is exactly one request that it can mean.
func (g *Gate) bareWord(ctx context.Context, tx Tx, t Interaction) (targets []string, answer InteractionResult, err error) {
	pending, total, err := g.waiting(ctx, tx)
	if err != nil {
		return nil, answer, err
	}
	switch {
	case total == 0:
		answer.Text = g.say(t.By, SayNothingWaits)
	case t.Intent == IntentDeny && total == 1 && !t.At.IsZero() && t.At.Before(pending[0].RequestedAt):
		answer.Text = g.say(t.By, SayNewerThanNo)
	case t.Intent == IntentDeny && total == 1:
		return []string{pending[0].ID}, answer, nil
	case t.Intent == IntentDeny:
		answer.Text = g.say(t.By, SayWhichOne, "n", total)
	default:
		answer.Text = g.waitingLine(t, pending, total)
	}
	return nil, answer, g.reply(tx, t, Notification{Text: answer.Text}, pending)
}

// waiting returns the newest pending requests, as many as one answer brings, and how many there are.
func (g *Gate) waiting(ctx context.Context, tx Tx) (newest []Head, total int, err error) {
	if _, _, err := g.endSome(ctx, tx); err != nil {
		return nil, 0, err
	}
	if total, err = tx.CountPending(""); err != nil {
		return nil, 0, err
	}
	newest, err = tx.Heads(RequestQuery{Status: Pending, Limit: maxReplyCards})
	return newest, total, err
}

func (g *Gate) waitingLine(t Interaction, newest []Head, total int) string {
	switch {
	case total == 0:
		return g.say(t.By, SayNothingWaits)
	case total == 1:
		return g.say(t.By, SayOneWaits)
	case total > len(newest):
		return g.say(t.By, SayNewestWait, "n", total, "shown", len(newest))
	}
	return g.say(t.By, SayManyWait, "n", total)
}

// reply queues the answer to a tapper, with the cards of some requests. Where a channel cannot put
// several cards into one message each goes as its own, so that each can be edited later. Of n the text,
// what it is about and its note are taken.
func (g *Gate) reply(tx Tx, t Interaction, n Notification, cards []Head) error {
	n.Channel, n.Recipient, n.Kind, n.ReplyTo = t.Channel, t.From, KindReply, t.ReplyTo
	if t.By.Kind == Stranger {
		n.Note = NoteStranger
	}
	if t.OneReply {
		for _, r := range cards {
			n.Cards = append(n.Cards, r.ID)
		}
		if len(cards) == 1 {
			n.ApprovalID = cards[0].ID
		}
		return g.queue(tx, n)
	}
	if err := g.queue(tx, n); err != nil {
		return err
	}
	for _, r := range cards {
		c := Notification{ApprovalID: r.ID, Channel: t.Channel, Recipient: t.From, Kind: KindReply, Cards: []string{r.ID}}
		if err := g.queue(tx, c); err != nil {
			return err
		}
	}
	return nil
}

// delivered marks the cards over which the person acted. A press can come before the platform's answer to
// the push is recorded: what is under way then is marked too, and so is a card that we do not know to have
// gone out, where there is no other that the press can have come from.
func (g *Gate) delivered(tx Tx, t Interaction, r Request) error {
	ns, err := tx.Notifications(NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Channel: t.Channel, Narrow: true})
	if err != nil {
		return err
	}
	ns = slices.DeleteFunc(ns, func(n Notification) bool {
		return !n.showsCard() || n.Recipient != t.From && !g.editable(n.Channel)
	})
	arrived := slices.ContainsFunc(ns, func(n Notification) bool { return n.Status == Sent || n.Status == Delivered })
	for _, n := range ns {
		was, now := n.Status, tx.Now()
		tried := n.Attempt > 0 && (was == Queued || was == Retrying || was == Skipped)
		if was != Sent && !(tried && (n.LeaseUntil.After(now) || !arrived)) {
			continue
		}
		n.Status, n.UpdatedAt = Delivered, now
		if _, err := tx.UpdateNotification(n, was, n.Attempt); err != nil {
			return err
		}
	}
	return nil
}
