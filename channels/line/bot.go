package line

import (
	"context"
	"net/http"
	"strings"

	"countersign/approval/legible"
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
	var info struct {
		UserID      string `json:"userId"`
		BasicID     string `json:"basicId"`
		DisplayName string `json:"displayName"`
	}
	if e := ch.ask(ctx, http.MethodGet, "/v2/bot/info", nil, &info); e != nil {
		return Bot{}, e
	}
	if info.UserID == "" {
		return Bot{}, broken("the answer does not say who the bot is")
	}
	ch.bot.Store(&info.UserID)
	name := func(s string) string { return legible.Cut(legible.Line(s), maxName) }
	return Bot{UserID: info.UserID, BasicID: name(info.BasicID), Name: name(info.DisplayName)}, nil
}
