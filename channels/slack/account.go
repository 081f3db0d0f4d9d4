package slack

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	sdk "github.com/slack-go/slack"

	"countersign/approval/legible"
	"countersign/channels"
	"countersign/internal/secret"
)

// maxName is how much of a name that Slack tells is kept, in characters.
const maxName = 100

// Workspace is where the bot is installed.
type Workspace struct {
	Name string
	URL  string // https://example.slack.com/
}

// Scopes returns what the bot's token may do, who it is and where. granted is nil where Slack does not
// say.
func (ch *Channel) Scopes(ctx context.Context) (granted []string, id Identity, at Workspace, err error) {
	x, e := ch.whoAmI(ctx)
	if e != nil {
		return nil, Identity{}, Workspace{}, e
	}
	var said struct {
		Team string `json:"team"`
		URL  string `json:"url"`
	}
	_ = json.Unmarshal(x.body, &said) // a workspace without a name is one all the same
	return scopesOf(x.header), identityOf(x.answer), Workspace{cleanName(said.Team), cleanName(said.URL)}, nil
}

// scopesOf returns what a token may do, as Slack says with each answer; nil where it does not say.
func scopesOf(h http.Header) (granted []string) {
	for scope := range strings.SplitSeq(strings.Join(h.Values("X-OAuth-Scopes"), ","), ",") {
		if scope = strings.TrimSpace(scope); scope != "" {
			granted = append(granted, cleanName(scope))
		}
	}
	return granted
}

// Room is what a channel is to the bot.
type Room struct {
	Name     string // without the #; "" for a direct message
	Member   bool   // the bot is in it
	Shared   bool   // people of other organisations see it
	Archived bool
	Private  bool
}

// Channel looks up a channel by its id. Where it cannot be seen the error's reason is
// [channels.ReasonBadRecipient]: a private channel is told only to its members.
func (ch *Channel) Channel(ctx context.Context, id string) (Room, error) {
	x, e := ch.conversation(ctx, id)
	if e != nil {
		return Room{}, e
	}
	var said struct {
		Channel struct {
			ID          string `json:"id"`
			Name        string `json:"name"`
			IsMember    bool   `json:"is_member"`
			IsExtShared bool   `json:"is_ext_shared"`
			IsArchived  bool   `json:"is_archived"`
			IsPrivate   bool   `json:"is_private"`
		} `json:"channel"`
	}
	if json.Unmarshal(x.body, &said) != nil || said.Channel.ID == "" {
		return Room{}, x.brokenAnswer("conversations.info names no channel")
	}
	c := said.Channel
	return Room{Name: cleanName(c.Name), Member: c.IsMember, Shared: c.IsExtShared, Archived: c.IsArchived,
		Private: c.IsPrivate}, nil
}

// OpenView opens a dialog for the person who made the tap that trigger came with, and returns its id. Slack
// takes a trigger once and for 3 seconds, so ctx should end with them. An error with Unknown says that
// the dialog may be open all the same.
func (ch *Channel) OpenView(ctx context.Context, trigger string, view sdk.ModalViewRequest) (viewID string, err error) {
	return ch.view(ctx, "views.open", func(ctx context.Context, c *sdk.Client) error {
		_, err := c.OpenViewContext(ctx, trigger, view)
		return err
	}, secret.Value(trigger))
}

// PublishHome replaces what a person sees on the app's Home tab.
func (ch *Channel) PublishHome(ctx context.Context, userID string, view sdk.HomeTabViewRequest) error {
	_, err := ch.view(ctx, "views.publish", func(ctx context.Context, c *sdk.Client) error {
		_, err := c.PublishViewContext(ctx, sdk.PublishViewContextRequest{UserID: userID, View: view})
		return err
	})
	return err
}

// view makes a call that puts a view in place, which only an answer that names the view says of itself.
func (ch *Channel) view(ctx context.Context, method string, do func(ctx context.Context, c *sdk.Client) error,
	secrets ...secret.Value) (id string, err error) {
	x, e := ch.call(ctx, do, secrets...)
	if e != nil {
		return "", e
	}
	var said struct {
		View struct {
			ID string `json:"id"`
		} `json:"view"`
	}
	if json.Unmarshal(x.body, &said) != nil || said.View.ID == "" {
		e := x.brokenAnswer(method + " names no view")
		e.Unknown = true
		return "", e
	}
	return said.View.ID, nil
}

// brokenAnswer is the error of an answer that says ok and not what it is there for.
func (x *exchange) brokenAnswer(what string) *channels.PushError {
	return &channels.PushError{Reason: channels.ReasonBrokenAnswer, HTTPStatus: x.status, Err: errors.New(what)}
}

// cleanName makes a name from outside fit to be shown.
func cleanName(s string) string { return legible.Cut(legible.Line(s), maxName) }
