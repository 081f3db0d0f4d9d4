package slack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/internal/chat"
	"countersign/webhook"
)

// asker opens a dialog with a field for a reason, and know what comes back out of it.
type asker interface {
	// Open opens the dialog for whoever made the tap that trigger came with. It must answer within ctx;
	// after an error the tap is carried out without a dialog.
	Open(ctx context.Context, trigger string, by approval.Actor, q question) error
	// Read takes apart the view of a submission. Anything but a dialog of ours is an error.
	Read(view json.RawMessage) (filled, error)
	// Missing is the answer to a submission whose reason does not do, by the code of the refusal: the
	// dialog stays open and says so at the field.
	Missing(by approval.Actor, s filled, code approval.Code) json.RawMessage
	// Notice is the answer to a submission by which nothing could be decided: the dialog says why.
	Notice(by approval.Actor, code approval.Code, text string) json.RawMessage
}

// question is what a dialog asks the reason of.
type question struct {
	Intent    chat.Intent        // IntentApprove or IntentDeny
	RequestID string             // the request or card that the button names
	Shows     chat.Shows         // what of the card it means
	Open      []approval.Request // what of it is asked about
	ReplyTo   string             // where the answer may go; "" for a direct message
	Channel   string             // of the message with the button; "" on the Home tab
	TS        string             // of that message
}

// filled is a dialog that was filled in: what of its question comes back, and the reason.
type filled struct {
	Intent    chat.Intent
	RequestID string
	Shows     chat.Shows
	ReplyTo   string
	Channel   string // "" where the dialog was opened from the Home tab
	Reason    string
}

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
func (h *handler) press(ctx context.Context, t chat.Interaction, p interaction) bool {
	asked, stored := h.ask(ctx, t)
	if len(asked.Open) > 0 {
		q := question{Intent: t.Intent, RequestID: t.RequestID, Shows: t.Shows, Open: asked.Open, ReplyTo: t.ReplyTo,
			Channel: p.Container.ChannelID, TS: p.Container.MessageTS}
		err := h.open(ctx, p.TriggerID, t.By, q)
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

// ask hands a button to the gate, and returns what a dialog is to ask about. false: it could not be
// stored.
func (h *handler) ask(ctx context.Context, t chat.Interaction) (chat.Asked, bool) {
	if h.dialogs == nil {
		out, stored := h.Interact(ctx, t)
		return chat.Asked{InteractionResult: out}, stored
	}
	return h.Ask(ctx, t)
}

func (h *handler) open(ctx context.Context, trigger string, by approval.Actor, q question) error {
	until := time.Now().Add(openWithin)
	if end, ok := ctx.Deadline(); ok && end.Add(-keptBack).Before(until) {
		until = end.Add(-keptBack)
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return h.dialogs.Open(ctx, trigger, by, q)
}

// submission takes a dialog that was filled in. Whoever it is from is authorised again, and the requests
// may be over by now: the dialog then says so. It closes when something was decided, and when the same
// submission was seen before.
func (h *handler) submission(ctx context.Context, p interaction, by approval.Actor) webhook.Answer {
	var view ref
	if err := channels.Strictly(p.View, &view); err != nil || view.ID == "" {
		return webhook.Answer{Stored: h.Refuse(ctx, by.String(), "no_event_id")}
	}
	if h.dialogs == nil {
		h.Logger.DebugContext(ctx, "a Slack dialog was filled in that we did not open")
		return webhook.Answer{Stored: true}
	}
	s, err := h.dialogs.Read(p.View)
	if err != nil {
		return webhook.Answer{Stored: h.Refuse(ctx, by.String(), "unknown_dialog")}
	}
	b, err := channels.NewButton(string(s.Intent), channels.Button{ID: s.RequestID, Shows: s.Shows}.Value())
	if err != nil || b.Intent != chat.IntentApprove && b.Intent != chat.IntentDeny {
		return webhook.Answer{Stored: h.Refuse(ctx, by.String(), "unknown_dialog")}
	}
	out, stored := h.Interact(ctx, chat.Interaction{EventID: "slack:view:" + view.ID + ":" +
		submissionKey(p.TriggerID, s.Reason), By: by, From: p.User.ID, ReplyTo: s.ReplyTo,
		Intent: b.Intent, RequestID: b.ID, Shows: b.Shows, Reason: s.Reason, Told: true})
	if !stored {
		return webhook.Answer{}
	}
	if s.Channel == "" {
		h.showHome(p.User.ID, by)
	}
	a := webhook.Answer{Stored: true, Kind: "application/json"}
	switch out.Code {
	case "":
	case approval.CodeReasonRequired, approval.CodeInvalidParameter:
		a.Body = h.dialogs.Missing(by, s, out.Code)
	default:
		a.Body = h.dialogs.Notice(by, out.Code, out.Text)
	}
	return a
}

// submissionKey tells one submission of a dialog from the next: it stays open when its reason did not do.
func submissionKey(trigger, reason string) string {
	sum := sha256.Sum256([]byte(trigger + "\x00" + reason))
	return hex.EncodeToString(sum[:8])
}

// showHome shows somebody their Home tab as it is now.
func (h *handler) showHome(userID string, by approval.Actor) {
	if h.home == nil {
		return
	}
	show := func(ctx context.Context) {
		defer func() {
			if p := recover(); p != nil {
				h.Logger.ErrorContext(ctx, "a Home tab could not be drawn: this is a bug in Countersign; please report it",
					"by", by.String(),
					"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
		}()
		h.home(ctx, userID, by)
	}
	if !h.after.Run(userID, show) {
		h.Logger.Debug("a Home tab was not brought up to date: too many at once", "by", by.String())
	}
}
