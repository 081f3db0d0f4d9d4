package slack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	sdk "github.com/slack-go/slack"

	"countersign/approval"
	"countersign/channels"
	"countersign/internal/chat"
	"countersign/internal/locale"
	"countersign/internal/locale/phrases"
	"countersign/internal/secret"
	"countersign/webhook"
)

var errNotConfigured = errors.New("channels.slack is not in the configuration any more")

// A dialog is opened while its tap's delivery is open. What is left of that must do for deciding without
// one.
const (
	openWithin = 1200 * time.Millisecond
	keptBack   = 500 * time.Millisecond
)

// press takes a button. Where a reason is to be asked for, a dialog is opened at once: the trigger is
// good for three seconds, from when Slack sent it. The tap is then done with; what is decided comes with
// the dialog's submission, as an event of its own. Without a dialog the tap is carried out, as an event
// of its own too: so the same delivery, if it comes again, is known and changes nothing. A denial then
// has no reason, and where one is needed the tapper is told how to type it.
func (h *inbound) press(ctx context.Context, t chat.Interaction, p interaction) bool {
	asked, stored := h.Ask(ctx, t)
	if len(asked.Open) > 0 {
		err := h.openDialog(ctx, p.TriggerID, t, Meta{ID: t.RequestID, Shows: t.Shows, Channel: p.Container.ChannelID,
			TS: p.Container.MessageTS, ResponseURL: secret.Value(t.ReplyTo)}, asked.Open)
		if err == nil {
			h.Count(Name, "asked")
			return true
		}
		h.Logger.WarnContext(ctx, "a dialog could not be opened in Slack; the tap is carried out without one", "by",
			t.By.String(), "error", err)
		t.EventID += ":plain"
		_, stored = h.Interact(ctx, t)
	}
	if stored && p.Container.Type == "view" {
		h.showHome(t.From, t.By)
	}
	return stored
}

// openDialog opens the dialog that asks the person who made a tap for the reason, of those requests that are open.
func (h *inbound) openDialog(ctx context.Context, trigger string, t chat.Interaction, m Meta,
	open []approval.Request) error {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-keptBack))
		defer cancel()
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	_, ch := h.get()
	if ch == nil {
		return errNotConfigured
	}
	card := h.makerFor(t.By).Card(channels.Delivery{Notification: approval.Notification{Kind: approval.KindRequest,
		CreatedAt: h.Now()}, Requests: open})
	view, err := ReasonDialog(card, t.Intent, m)
	if err != nil {
		return err
	}
	_, err = ch.OpenView(ctx, trigger, view)
	return err
}

// submission takes a dialog that was filled in. The person whom it is from is authorised again, and the requests
// may be over by now: the dialog then says so. It closes when something was decided, and when the same
// submission was seen before.
func (h *inbound) submission(ctx context.Context, p interaction, by approval.Actor) webhook.Answer {
	var view ref
	if err := channels.Strictly(p.View, &view); err != nil || view.ID == "" {
		return webhook.Answer{Stored: h.Refuse(ctx, by.String(), "no_event_id")}
	}
	s, err := ParseSubmission(p.View)
	if err != nil {
		return webhook.Answer{Stored: h.Refuse(ctx, by.String(), "unknown_dialog")}
	}
	out, stored := h.Interact(ctx, chat.Interaction{EventID: "slack:view:" + view.ID + ":" +
		submissionKey(p.TriggerID, s.Reason), By: by, From: p.User.ID, ReplyTo: s.Meta.ResponseURL.Reveal(),
		Intent: s.Intent, RequestID: s.Meta.ID, Shows: s.Meta.Shows, Reason: s.Reason, Told: true})
	if !stored {
		return webhook.Answer{}
	}
	if s.Meta.Channel == "" {
		h.showHome(p.User.ID, by)
	}
	if out.Code == "" {
		return webhook.Answer{Stored: true}
	}
	body, err := h.refusal(by, out)
	if err != nil {
		h.Logger.ErrorContext(ctx, "the answer to a dialog could not be drawn, so it closes without a word", "error", err)
	}
	return webhook.Answer{Stored: true, Kind: "application/json", Body: body}
}

// submissionKey tells one submission of a dialog from the next: it stays open when its reason did not do.
func submissionKey(trigger, reason string) string {
	sum := sha256.Sum256([]byte(trigger + "\x00" + reason))
	return hex.EncodeToString(sum[:8])
}

// refusal is the answer to a submission by which nothing was decided: what is wrong with the reason stands at its
// field, in a dialog that stays open; else the dialog says why.
func (h *inbound) refusal(by approval.Actor, out chat.InteractionResult) (json.RawMessage, error) {
	words, title := locale.Get(by.Locale), channels.TextDialogRefused
	switch out.Code {
	case approval.CodeReasonRequired:
		return json.Marshal(SubmissionErrors(words.Say(string(channels.TextDialogRequired))))
	case approval.CodeInvalidParameter:
		return json.Marshal(SubmissionErrors(words.Say(string(phrases.SayReasonTooLong))))
	case approval.CodeExpired, approval.CodeAlreadyResolved:
		title = channels.TextDialogTooLate
	}
	card := h.makerFor(by).Card(channels.Delivery{Notification: approval.Notification{Kind: approval.KindReply,
		Text: out.Text}})
	view, err := NoticeView(card, title)
	if err != nil {
		return nil, err
	}
	return json.Marshal(sdk.NewUpdateViewSubmissionResponse(&view))
}

// makerFor makes cards for a person in their language and zone.
func (h *inbound) makerFor(who approval.Actor) channels.Maker {
	m := h.Maker()
	m.Reader, m.Words = nil, locale.Get(who.Locale)
	if who.Zone != nil {
		m.Zone = who.Zone
	}
	return m
}
