package line

import (
	"context"
	"strings"

	"countersign/approval/legible"
	"countersign/channels"
)

// Bot is who the account is to people.
type Bot struct {
	UserID  string // what webhooks name as their destination
	BasicID string // what people find it by, with its @; "" where LINE does not say
	Name    string
}

// FriendURL is where people add the bot as a friend, "" where LINE does not say who it is to them.
func (b Bot) FriendURL() string {
	id, ok := strings.CutPrefix(b.BasicID, "@")
	if !ok || id == "" || strings.Trim(strings.ToLower(id), "abcdefghijklmnopqrstuvwxyz0123456789_-.") != "" {
		return ""
	}
	return "https://line.me/R/ti/p/%40" + id
}

// Bot asks LINE who the bot is, as [Channel.Probe] does, and tells all of it.
func (ch *Channel) Bot(ctx context.Context) (Bot, error) {
	ctx, wire := channels.WatchWire(ctx)
	c, err := ch.client(ctx)
	if err != nil {
		return Bot{}, &channels.PushError{Reason: channels.ReasonBadRequest, Final: true, Err: err}
	}
	res, info, err := c.GetBotInfoWithHttpInfo()
	if e := failure(res, err, wire, ch.token); e != nil {
		e.Unknown = false // there is no message that could have gone out
		return Bot{}, e
	}
	if info.UserId == "" {
		return Bot{}, brokenAnswer("LINE's answer does not say who the bot is")
	}
	ch.bot.Store(&info.UserId)
	ch.identify()
	name := func(s string) string { return legible.Cut(legible.Line(s), maxName) }
	return Bot{UserID: info.UserId, BasicID: name(info.BasicId), Name: name(info.DisplayName)}, nil
}
