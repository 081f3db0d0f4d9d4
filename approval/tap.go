package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Intent is what a person means by a tap or a typed word.
type Intent string

const (
	IntentApprove Intent = "approve"
	IntentDeny    Intent = "deny"
	IntentOther   Intent = "other" // words that mean neither
)

// Tap is one signed event from a chat platform: a button, or words typed to the bot. Who did it comes
// from the platform's own user id, never from anything else in the event.
type Tap struct {
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
	// At is when the platform says it happened; the zero time when it does not say.
	At time.Time
	// OneReply says that the channel answers several cards in one message.
	OneReply bool
}

// Tapped is what became of a tap.
type Tapped struct {
	Duplicate bool   // seen before: nothing was done
	Ignored   bool   // older than the request it names: nothing was done and nobody answered
	Code      Code   // why nothing was decided, "" if something was or nothing was asked
	Text      string // the answer
	Decided   []Request
}

// maxReplyCards is how many cards one answer brings.
const maxReplyCards = 5

// Tap carries out a tap: its event id, the decision it carries and the answer to the tapper are one
// transaction. A tap that was seen before, came too late, or comes from somebody who may not decide
// changes nothing but the audit log. The error is only ever about the store: then nothing was kept,
// and the platform may deliver again.
func (g *Gate) Tap(ctx context.Context, t Tap) (Tapped, error) {
	var out Tapped
	err := g.store.Update(ctx, func(tx Tx) (err error) {
		out = Tapped{}
		fresh, err := tx.FirstSight(t.EventID)
		if err != nil {
			return err
		}
		if !fresh {
			out.Duplicate = true
			return g.ignoreTap(ctx, tx, t, "duplicate_event")
		}
		t.By = g.asNow(t.By)
		out, err = g.tap(ctx, tx, t)
		return err
	})
	return out, err
}

func (g *Gate) ignoreTap(ctx context.Context, tx Tx, t Tap, reason string) error {
	e := Event{Type: EventWebhookRefused, Actor: t.By.String(), Reason: reason, Decision: decisionWord(t.Intent)}
	e.Data = marshal(map[string]any{"channel": t.Channel, "event_id": CutRunes(Visible(t.EventID), 128)})
	return g.audit(ctx, tx, e)
}

func decisionWord(i Intent) string {
	if i == IntentOther {
		return ""
	}
	return string(i)
}

func (g *Gate) tap(ctx context.Context, tx Tx, t Tap) (Tapped, error) {
	if t.Intent == IntentOther {
		return g.helpTap(ctx, tx, t)
	}
	targets, answer, err := g.aim(ctx, tx, t)
	if err != nil {
		return Tapped{}, err
	}
	if targets == nil {
		return answer, nil
	}
	var out Tapped
	var lines []string
	about := ""
	for _, id := range targets {
		if r, err := tx.Request(id); err == nil {
			about = r.ID
			if !t.At.IsZero() && t.At.Before(r.RequestedAt) {
				return Tapped{Ignored: true}, g.ignoreTap(ctx, tx, t, "older_than_request")
			}
		} else if !errors.Is(err, ErrNotFound) {
			return Tapped{}, err
		}
		r, refusal, err := g.decide(ctx, tx, Decision{RequestID: id, Approve: t.Intent == IntentApprove, By: t.By, Via: Via(t.Channel), Reason: t.Reason})
		if err != nil {
			return Tapped{}, err
		}
		if refusal != nil {
			if out.Code == "" {
				out.Code = refusal.Code
			}
			lines = append(lines, tapRefusal(refusal, t.Intent, id))
			if refusal.Code == CodeNotAnApprover {
				break // so it is for the rest of a batch, and is said once
			}
			continue
		}
		out.Decided = append(out.Decided, r)
		lines = append(lines, tappedMessage(r))
		if err := g.delivered(tx, t, r); err != nil {
			return Tapped{}, err
		}
	}
	if len(out.Decided) > 0 {
		out.Code = ""
	}
	out.Text = strings.Join(lines, "\n")
	return out, g.reply(tx, t, about, out.Text, nil)
}

// tapRefusal tells a tapper why nothing was decided, and how to do it where there is a way.
func tapRefusal(e *Error, i Intent, id string) string {
	if e.Code == CodeReasonRequired {
		return fmt.Sprintf("This request needs a reason. Type: %s %s followed by your reason.", i, id)
	}
	return e.Message
}

// aim finds the requests that a tap is about. With none, answer is what the tapper was told instead.
func (g *Gate) aim(ctx context.Context, tx Tx, t Tap) (targets []string, answer Tapped, err error) {
	switch {
	case t.RequestID != "":
		batch, err := tx.Batch(t.RequestID)
		if err != nil {
			return nil, Tapped{}, err
		}
		if len(batch) == 0 {
			return []string{t.RequestID}, Tapped{}, nil
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
		return targets, Tapped{}, nil
	case t.QuotedID != "":
		ids, err := g.quoted(tx, t)
		if err != nil {
			return nil, Tapped{}, err
		}
		if len(ids) == 1 {
			return ids, Tapped{}, nil
		}
		if len(ids) > 1 {
			if !t.By.Approver {
				return nil, Tapped{Code: CodeNotAnApprover, Text: notYoursMessage}, g.refuseTap(ctx, tx, t)
			}
			answer.Text = fmt.Sprintf("That message shows %d requests. Use its buttons, or type: %s <id>", len(ids), t.Intent)
			return nil, answer, g.reply(tx, t, "", answer.Text, nil)
		}
		if t.By.Approver && t.Intent == IntentDeny { // what was meant is not known, and is not guessed
			answer.Text = "That message shows no request that I know, so nothing was denied. Type: deny <id> <reason>"
			return nil, answer, g.reply(tx, t, "", answer.Text, nil)
		}
	}
	if !t.By.Approver || t.By.Kind != Human {
		return nil, Tapped{Code: CodeNotAnApprover, Text: notYoursMessage}, g.refuseTap(ctx, tx, t)
	}
	return g.bareWord(ctx, tx, t)
}

// refuseTap answers and audits words of somebody who may not decide and named no request.
func (g *Gate) refuseTap(ctx context.Context, tx Tx, t Tap) error {
	e := Event{Type: EventDecisionRefused, Actor: t.By.String(), Decision: decisionWord(t.Intent), Reason: string(CodeNotAnApprover)}
	e.Data = marshal(map[string]any{"via": t.Channel})
	if err := g.audit(ctx, tx, e); err != nil {
		return err
	}
	return g.reply(tx, t, "", notYoursMessage, nil)
}

// quoted finds the requests shown by the message that the words quote.
func (g *Gate) quoted(tx Tx, t Tap) ([]string, error) {
	ns, err := tx.Notifications(NotificationQuery{Channel: t.Channel, MessageID: t.QuotedID, Limit: 1})
	if err == nil && len(ns) == 0 {
		ns, err = g.quotedAmong(tx, t)
	}
	if err != nil || len(ns) == 0 || !ns[0].showsCard() {
		return nil, err
	}
	rs, err := shown(tx, ns[0])
	var ids []string
	for _, r := range rs {
		ids = append(ids, r.ID)
	}
	return ids, err
}

// How far back, and among how many messages to the same person, a quoted one is looked for that is not
// the first of its notification.
const (
	quotedSince = 7 * 24 * time.Hour
	quotedAmong = 200
)

// quotedAmong finds a quoted message that is not the first of its notification: a notification can be
// several messages, and all their ids are in its receipt.
func (g *Gate) quotedAmong(tx Tx, t Tap) ([]Notification, error) {
	id, err := json.Marshal(t.QuotedID)
	if err != nil {
		return nil, err
	}
	ns, err := tx.Notifications(NotificationQuery{Channel: t.Channel, Recipient: t.From, Since: tx.Now().Add(-quotedSince), Limit: quotedAmong})
	for _, n := range ns {
		if bytes.Contains(n.Receipt, id) {
			return []Notification{n}, err
		}
	}
	return nil, err
}

// bareWord takes a yes or no that names no request. A bare yes never approves: it brings up the cards.
// A bare no denies only where there is exactly one request that it can mean.
func (g *Gate) bareWord(ctx context.Context, tx Tx, t Tap) (targets []string, answer Tapped, err error) {
	if rs, err := tx.Due(expireBatch); err != nil {
		return nil, answer, err
	} else {
		for _, r := range rs {
			if _, err := g.settle(ctx, tx, r); err != nil {
				return nil, answer, err
			}
		}
	}
	total, err := tx.CountPending("")
	if err != nil {
		return nil, answer, err
	}
	pending, err := tx.Requests(RequestQuery{Status: Pending, Limit: maxReplyCards})
	if err != nil {
		return nil, answer, err
	}
	switch {
	case total == 0:
		answer.Text = "Nothing is waiting for a decision."
	case t.Intent == IntentDeny && total == 1 && !t.At.IsZero() && t.At.Before(pending[0].RequestedAt):
		answer.Text = "The request that is pending now is newer than your message, so nothing was denied. Use its buttons, or type: deny <id> <reason>"
	case t.Intent == IntentDeny && total == 1:
		return []string{pending[0].ID}, answer, nil
	case t.Intent == IntentDeny:
		answer.Text = fmt.Sprintf("%d requests are pending, so nothing was denied. Use a card's buttons, or type: deny <id> <reason>", total)
	case total == 1:
		answer.Text = "This request is waiting. Use its buttons to decide."
	case total > len(pending):
		answer.Text = fmt.Sprintf("%d requests are waiting; these are the newest %d. Use their buttons to decide.", total, len(pending))
	default:
		answer.Text = fmt.Sprintf("%d requests are waiting. Use their buttons to decide.", total)
	}
	return nil, answer, g.reply(tx, t, "", answer.Text, pending)
}

func (g *Gate) helpTap(ctx context.Context, tx Tx, t Tap) (Tapped, error) {
	if t.By.Kind != Human || !t.By.Approver {
		return Tapped{Code: CodeNotAnApprover, Text: notYoursMessage}, g.refuseTap(ctx, tx, t)
	}
	out := Tapped{Text: "I did not understand that. Type \"yes\" to see what is waiting, \"approve <id>\" or \"deny <id> <reason>\" to decide."}
	return out, g.reply(tx, t, "", out.Text, nil)
}

// reply queues the answer to a tapper, with the cards of some requests. Where a channel cannot put
// several cards into one message each goes as its own, so that each can be edited later.
func (g *Gate) reply(tx Tx, t Tap, about, text string, cards []Request) error {
	n := Notification{ApprovalID: about, Channel: t.Channel, Recipient: t.From, Kind: KindReply, ReplyTo: t.ReplyTo, Text: text}
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

// delivered marks the cards over which the person acted.
func (g *Gate) delivered(tx Tx, t Tap, r Request) error {
	ns, err := tx.Notifications(NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Status: Sent, Channel: t.Channel})
	if err != nil {
		return err
	}
	for _, n := range ns {
		if !n.showsCard() || n.Recipient != t.From && !g.editable(n.Channel) {
			continue
		}
		n.Status, n.UpdatedAt = Delivered, tx.Now()
		if _, err := tx.UpdateNotification(n, Sent, n.Attempt); err != nil {
			return err
		}
	}
	return nil
}
