package slack

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/internal/locale"
	"countersign/internal/locale/phrases"
	"countersign/internal/secret"
)

// mostHome is how many requests are drawn on a Home tab; as many of them as fit are shown.
const mostHome = 20

var errNotConfigured = errors.New("channels.slack is not in the configuration any more")

// dialogs are Slack's dialogs and Home tabs, of the configuration in force.
type dialogs struct {
	current
	log *slog.Logger
	now func() time.Time
}

// makerFor makes cards for somebody in their language and zone.
func (d *dialogs) makerFor(who approval.Actor) channels.Maker {
	m := d.Maker()
	m.Reader, m.Words = nil, locale.Get(who.Locale)
	if who.Zone != nil {
		m.Zone = who.Zone
	}
	return m
}

// Open opens the dialog that asks for a reason.
func (d *dialogs) Open(ctx context.Context, trigger string, by approval.Actor, q question) error {
	_, ch := d.get()
	if ch == nil {
		return errNotConfigured
	}
	card := d.makerFor(by).Card(approval.Delivery{Notification: approval.Notification{Kind: approval.KindRequest,
		CreatedAt: d.now()}, Requests: q.Open})
	view, err := ReasonDialog(card, q.Intent, Meta{ID: q.RequestID, Shows: q.Shows, Channel: q.Channel, TS: q.TS,
		ResponseURL: secret.Value(q.ReplyTo)})
	if err != nil {
		return err
	}
	_, err = ch.OpenView(ctx, trigger, view)
	return err
}

// Read takes apart what was submitted.
func (d *dialogs) Read(view json.RawMessage) (filled, error) {
	s, err := ParseSubmission(view)
	if err != nil {
		return filled{}, err
	}
	return filled{Intent: s.Intent, RequestID: s.Meta.ID, Shows: s.Meta.Shows,
		ReplyTo: s.Meta.ResponseURL.Reveal(), Channel: s.Meta.Channel, Reason: s.Reason}, nil
}

// Missing has the dialog say at its field what is wrong with the reason.
func (d *dialogs) Missing(by approval.Actor, _ filled, code approval.Code) json.RawMessage {
	text := locale.Get(by.Locale).Say(string(channels.TextDialogRequired))
	if code != approval.CodeReasonRequired {
		text = locale.Get(by.Locale).Say(string(phrases.SayReasonTooLong))
	}
	return d.drawn(SubmissionErrors(text))
}

// Notice has the dialog say why nothing was decided.
func (d *dialogs) Notice(by approval.Actor, code approval.Code, text string) json.RawMessage {
	title := channels.TextDialogRefused
	if code == approval.CodeExpired || code == approval.CodeAlreadyResolved {
		title = channels.TextDialogTooLate
	}
	card := d.makerFor(by).Card(approval.Delivery{Notification: approval.Notification{Kind: approval.KindReply,
		Text: text}})
	view, err := NoticeView(card, title)
	if err != nil {
		return d.drawn(nil, err)
	}
	return d.drawn(SubmissionUpdate(view))
}

// drawn is an answer to a submission; without one the dialog closes.
func (d *dialogs) drawn(answer json.RawMessage, err error) json.RawMessage {
	if err != nil {
		d.log.Error("the answer to a dialog could not be drawn, so it closes without a word", "error", err)
		return nil
	}
	return answer
}

// showHome shows somebody on the Home tab of our Slack app what waits.
func (d *dialogs) showHome(ctx context.Context, userID string, by approval.Actor) {
	if err := d.publishHome(ctx, userID, by); err != nil {
		d.log.WarnContext(ctx, "a Home tab in Slack could not be brought up to date", "by", by.String(), "error", err)
	}
}

// listed reports whether a pending request is on somebody's Home tab: of an approver what they may decide now, of
// others all of it.
func (d *dialogs) listed(ctx context.Context, r approval.Request, by approval.Actor, now time.Time) (bool, error) {
	if r.Due(now) || !by.Approver {
		return !r.Due(now), nil
	}
	return d.Requests.MayVote(ctx, r.ID, by)
}

func (d *dialogs) publishHome(ctx context.Context, userID string, by approval.Actor) error {
	_, ch := d.get()
	if ch == nil {
		return errNotConfigured
	}
	h := Home{By: by, UserID: userID}
	now := d.now()
	cards := approval.Delivery{Notification: approval.Notification{Kind: approval.KindRequest, CreatedAt: now}}
	if by.Kind == approval.Human {
		waiting, err := d.Requests.Requests(ctx, approval.RequestQuery{Status: approval.Pending, Limit: mostHome})
		if err != nil {
			return err
		}
		if h.Total, err = d.Requests.PendingCount(ctx); err != nil {
			return err
		}
		for _, r := range waiting {
			listed, err := d.listed(ctx, r, by, now)
			if err != nil {
				return err
			}
			if !listed {
				h.Total--
				continue
			}
			cards.Requests = append(cards.Requests, r)
		}
	}
	h.Card = d.makerFor(by).Card(cards)
	view, err := HomeView(h)
	if err != nil {
		return err
	}
	return ch.PublishHome(ctx, userID, view)
}
