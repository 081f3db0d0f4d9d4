package app

import (
	"context"
	"encoding/json"
	"errors"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/slack"
	"countersign/locale"
	"countersign/secret"
	"countersign/webhook"
)

// mostHome is how many requests are drawn on a Home tab; as many of them as fit are shown.
const mostHome = 20

var errNoSlack = errors.New("channels.slack is not in the configuration any more")

// dialogs are Slack's dialogs, of the configuration in force.
type dialogs struct{ *App }

// makerFor makes cards for somebody in their language and zone.
func (l *live) makerFor(who approval.Actor) channels.Maker {
	m := l.maker
	m.Reader, m.Words = nil, locale.Get(who.Locale)
	if who.Zone != nil {
		m.Zone = who.Zone
	}
	return m
}

// Open opens the dialog that asks for a reason.
func (d dialogs) Open(ctx context.Context, trigger string, by approval.Actor, q webhook.Question) error {
	l := d.live.Load()
	if l.slack == nil {
		return errNoSlack
	}
	card := l.makerFor(by).Card(approval.Delivery{Notification: approval.Notification{Kind: approval.KindRequest, CreatedAt: d.o.Now()}, Requests: q.Open})
	view, err := slack.ReasonDialog(card, q.Intent, slack.Meta{ID: q.RequestID, Channel: q.Channel, TS: q.TS, ResponseURL: secret.Value(q.ReplyTo)})
	if err != nil {
		return err
	}
	_, err = l.slack.OpenView(ctx, trigger, view)
	return err
}

// Read takes apart what was submitted.
func (d dialogs) Read(view json.RawMessage) (webhook.Submission, error) {
	s, err := slack.ParseSubmission(view)
	if err != nil {
		return webhook.Submission{}, err
	}
	return webhook.Submission{Intent: s.Intent, RequestID: s.Meta.ID, ReplyTo: s.Meta.ResponseURL.Reveal(), Channel: s.Meta.Channel, Reason: s.Reason}, nil
}

// Missing has the dialog say at its field what is wrong with the reason.
func (d dialogs) Missing(by approval.Actor, _ webhook.Submission, code approval.Code) json.RawMessage {
	text := locale.Get(by.Locale).Say(string(channels.TextDialogRequired))
	if code != approval.CodeReasonRequired {
		text = say(by, approval.SayReasonTooLong)
	}
	return d.drawn(slack.SubmissionErrors(text))
}

// Notice has the dialog say why nothing was decided.
func (d dialogs) Notice(by approval.Actor, code approval.Code, text string) json.RawMessage {
	title := channels.TextDialogRefused
	if code == approval.CodeExpired || code == approval.CodeAlreadyResolved {
		title = channels.TextDialogTooLate
	}
	card := d.live.Load().makerFor(by).Card(approval.Delivery{Notification: approval.Notification{Kind: approval.KindReply, Text: text}})
	view, err := slack.NoticeView(card, title)
	if err != nil {
		return d.drawn(nil, err)
	}
	return d.drawn(slack.SubmissionUpdate(view))
}

// drawn is an answer to a submission; without one the dialog closes.
func (d dialogs) drawn(answer json.RawMessage, err error) json.RawMessage {
	if err != nil {
		d.part("webhook").Error("the answer to a dialog could not be drawn, so it closes without a word", "error", err)
		return nil
	}
	return answer
}

// showHome shows somebody on the Home tab of our Slack app what waits.
func (a *App) showHome(ctx context.Context, userID string, by approval.Actor) {
	if err := a.publishHome(ctx, userID, by); err != nil {
		a.part("webhook").Warn("a Home tab in Slack could not be brought up to date", "by", by.String(), "error", err)
	}
}

func (a *App) publishHome(ctx context.Context, userID string, by approval.Actor) error {
	l := a.live.Load()
	if l.slack == nil {
		return errNoSlack
	}
	h := slack.Home{By: by, UserID: userID}
	now := a.o.Now()
	d := approval.Delivery{Notification: approval.Notification{Kind: approval.KindRequest, CreatedAt: now}}
	if by.Kind == approval.Human {
		waiting, err := a.gate.Requests(ctx, approval.RequestQuery{Status: approval.Pending, Limit: mostHome})
		if err != nil {
			return err
		}
		if h.Total, err = a.gate.PendingCount(ctx); err != nil {
			return err
		}
		for _, r := range waiting {
			if r.Due(now) {
				h.Total--
				continue
			}
			d.Requests = append(d.Requests, r)
		}
	}
	h.Card = l.makerFor(by).Card(d)
	view, err := slack.HomeView(h)
	if err != nil {
		return err
	}
	return l.slack.PublishHome(ctx, userID, view)
}
