package slack

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"countersign/approval"
	"countersign/channels"
)

// mostHome is how many requests are drawn on a Home tab; as many of them as fit are shown.
const mostHome = 20

// showHome shows a person their Home tab as it is now. It is done after Slack was answered, and best effort.
func (h *inbound) showHome(userID string, by approval.Actor) {
	show := func(ctx context.Context) {
		defer func() {
			if p := recover(); p != nil {
				h.Logger.ErrorContext(ctx, "a Home tab could not be drawn: this is a bug in Countersign; please report it",
					"by", by.String(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
		}()
		if err := h.publishHome(ctx, userID, by); err != nil {
			h.Logger.WarnContext(ctx, "a Home tab in Slack could not be brought up to date", "by", by.String(), "error", err)
		}
	}
	if !h.after.Run(userID, show) {
		h.Logger.Debug("a Home tab was not brought up to date: too many at once", "by", by.String())
	}
}

// isListed reports whether a pending request is on a person's Home tab: of an approver what they may decide now, of
// others all of it.
func (h *inbound) isListed(ctx context.Context, r approval.Request, by approval.Actor, now time.Time) (bool, error) {
	if r.Due(now) || !by.Approver {
		return !r.Due(now), nil
	}
	return h.Requests.MayVote(ctx, r.ID, by)
}

func (h *inbound) publishHome(ctx context.Context, userID string, by approval.Actor) error {
	_, ch := h.get()
	if ch == nil {
		return errNotConfigured
	}
	home := Home{By: by, UserID: userID}
	now := h.Now()
	cards := channels.Delivery{Notification: approval.Notification{Kind: approval.KindRequest, CreatedAt: now}}
	if by.Kind == approval.Human {
		waiting, err := h.Requests.Requests(ctx, approval.RequestQuery{Status: approval.Pending, Limit: mostHome})
		if err != nil {
			return err
		}
		if home.Total, err = h.Requests.PendingCount(ctx); err != nil {
			return err
		}
		for _, r := range waiting {
			listed, err := h.isListed(ctx, r, by, now)
			if err != nil {
				return err
			}
			if !listed {
				home.Total--
				continue
			}
			cards.Requests = append(cards.Requests, r)
		}
	}
	home.Card = h.makerFor(by).Card(cards)
	view, err := HomeView(home)
	if err != nil {
		return err
	}
	return ch.PublishHome(ctx, userID, view)
}
