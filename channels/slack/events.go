package slack

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"countersign/approval/legible"
	"countersign/channels"
	"countersign/internal/chat"
	"countersign/webhook"
)

type interaction struct {
	Type       string `json:"type"`
	APIAppID   string `json:"api_app_id"`
	TriggerID  string `json:"trigger_id"`
	Team       *ref   `json:"team"`
	Enterprise *ref   `json:"enterprise"`
	User       struct {
		ID     string `json:"id"`
		TeamID string `json:"team_id"`
	} `json:"user"`
	Container struct {
		Type      string `json:"type"` // message, or view for the Home tab
		ChannelID string `json:"channel_id"`
		MessageTS string `json:"message_ts"`
	} `json:"container"`
	Response string          `json:"response_url"`
	View     json.RawMessage `json:"view"`
	Actions  []struct {
		Type     string `json:"type"`
		ActionID string `json:"action_id"`
		Value    string `json:"value"`
		Selected struct {
			Value string `json:"value"`
		} `json:"selected_option"` // of a menu
	} `json:"actions"`
}

type ref struct {
	ID string `json:"id"`
}

func (s *ref) get() string {
	if s == nil {
		return ""
	}
	return s.ID
}

// interaction handles a button, and a dialog that was filled in.
func (h *inbound) interaction(ctx context.Context, payload []byte) webhook.Answer {
	var p interaction
	if err := channels.Strictly(payload, &p); err != nil {
		return h.NotUnderstood(ctx)
	}
	if p.Type != "block_actions" && p.Type != "view_submission" {
		h.Logger.DebugContext(ctx, "a Slack interaction of a kind that is not acted on", "type", p.Type)
		return webhook.Answer{Stored: true}
	}
	by, a, refused := h.from(ctx, origin{p.Team.get(), p.Enterprise.get(), p.APIAppID, p.User.ID, []string{p.User.TeamID}})
	switch {
	case refused:
		return a
	case p.User.ID == "" || p.Type == "block_actions" && p.TriggerID == "":
		return webhook.Answer{Stored: h.Refuse(ctx, by.String(), "no_event_id")}
	case p.Type == "view_submission":
		return h.submission(ctx, p, by)
	}
	stored := true
	for i, a := range p.Actions {
		b, err := channels.NewButton(a.ActionID, a.Value)
		if a.Type == "overflow" || a.Type == "static_select" {
			b, err = channels.NewChoice(a.Selected.Value)
		}
		if err != nil {
			h.Logger.DebugContext(ctx, "a Slack button that decides nothing", "action_id",
				legible.Cut(legible.Line(a.ActionID), 64))
			continue
		}
		t := chat.Interaction{EventID: "slack:" + p.TriggerID + ":" + strconv.Itoa(i), By: by, From: p.User.ID,
			ReplyTo: p.Response, Intent: b.Intent, RequestID: b.ID, Shows: b.Shows, For: b.For}
		stored = h.press(ctx, t, p) && stored
	}
	return webhook.Answer{Stored: stored}
}

// command is a slash command, which is a form over HTTP and an object over a socket.
type command struct {
	Text         string `json:"text"`
	UserID       string `json:"user_id"`
	TeamID       string `json:"team_id"`
	EnterpriseID string `json:"enterprise_id"`
	APIAppID     string `json:"api_app_id"`
	TriggerID    string `json:"trigger_id"`
	ResponseURL  string `json:"response_url"`
}

// messagesURL is where a person opens their direct messages with the app
// (https://docs.slack.dev/interactivity/deep-linking); "" where Slack did not say which app it is.
func messagesURL(app, team string) string {
	if app == "" || team == "" {
		return ""
	}
	return "https://slack.com/app_redirect?" + url.Values{"app": {app}, "team": {team}}.Encode()
}

// command handles a slash command: typed words that quote no message.
func (h *inbound) command(ctx context.Context, c command) webhook.Answer {
	by, a, refused := h.from(ctx, origin{c.TeamID, c.EnterpriseID, c.APIAppID, c.UserID, []string{c.TeamID}})
	switch {
	case refused:
		return a
	case c.TriggerID == "" || c.UserID == "":
		return webhook.Answer{Stored: h.Refuse(ctx, by.String(), "no_event_id")}
	}
	t := chat.Interaction{EventID: "slack:" + c.TriggerID, By: by, From: c.UserID, ReplyTo: c.ResponseURL,
		Elsewhere: true, Messages: messagesURL(c.APIAppID, c.TeamID)}
	h.readWords(&t, c.Text, "")
	_, stored := h.Interact(ctx, t)
	return webhook.Answer{Stored: stored}
}

// readWords makes a tap of what was typed at our name: nothing but the name asks for help.
func (h *inbound) readWords(t *chat.Interaction, text, quoted string) {
	if t.ReadWords(text, quoted); strings.TrimSpace(text) == "" {
		t.Intent = chat.IntentHelp
	}
}

type event struct {
	Type         string `json:"type"`
	Challenge    string `json:"challenge"`
	TeamID       string `json:"team_id"`
	EnterpriseID string `json:"enterprise_id"`
	APIAppID     string `json:"api_app_id"`
	EventID      string `json:"event_id"`
	Event        struct {
		Type        string          `json:"type"`
		Subtype     string          `json:"subtype"`
		ChannelType string          `json:"channel_type"`
		BotID       string          `json:"bot_id"`
		User        string          `json:"user"`
		Team        string          `json:"team"`
		UserTeam    string          `json:"user_team"`
		SourceTeam  string          `json:"source_team"`
		Text        string          `json:"text"`
		TS          string          `json:"ts"`
		ThreadTS    string          `json:"thread_ts"`
		Channel     string          `json:"channel"`
		Edited      json.RawMessage `json:"edited"`
		Tab         string          `json:"tab"`
	} `json:"event"`
}

// event handles the Events API: what people write to the bot or at its name, and its Home tab.
func (h *inbound) event(ctx context.Context, raw []byte) webhook.Answer {
	var c event
	if err := channels.Strictly(raw, &c); err != nil {
		return h.NotUnderstood(ctx)
	}
	if c.Type == "url_verification" {
		return webhook.Answer{Stored: true, Kind: "text/plain; charset=utf-8", Body: []byte(c.Challenge)}
	}
	e := c.Event
	isMention := e.Type == "app_mention"
	isWords := isMention || e.Type == "message" && e.ChannelType == "im"
	isHome := e.Type == "app_home_opened" && e.Tab == "home"
	if c.Type != "event_callback" || !isWords && !isHome || e.Subtype != "" || e.BotID != "" || e.Edited != nil ||
		e.User == "" {
		h.Logger.DebugContext(ctx, "a Slack event of a kind that is not acted on", "type", c.Type, "event", e.Type)
		return webhook.Answer{Stored: true}
	}
	by, a, refused := h.from(ctx, origin{c.TeamID, c.EnterpriseID, c.APIAppID, e.User,
		[]string{e.UserTeam, e.SourceTeam, e.Team}})
	switch {
	case refused:
		return a
	case isHome:
		h.showHome(e.User, by)
		return webhook.Answer{Stored: true}
	case c.EventID == "":
		return webhook.Answer{Stored: h.Refuse(ctx, by.String(), "no_event_id")}
	}
	t := chat.Interaction{EventID: "slack:" + c.EventID, By: by, From: e.User}
	if isMention && e.Channel != "" {
		t.AnswerAt, t.Elsewhere = Ephemeral(e.Channel, e.User), true
		t.Messages = messagesURL(c.APIAppID, c.TeamID)
	}
	quoted := ""
	if e.ThreadTS != e.TS {
		quoted = e.ThreadTS
	}
	if text := unescape.Replace(h.withoutName(ctx, e.Text)); isMention {
		h.readWords(&t, text, quoted)
	} else {
		t.ReadWords(text, quoted)
	}
	answers := t.Intent == chat.IntentOther || t.Intent == chat.IntentReason
	if t.RequestID == "" && (t.QuotedID == "" || answers) {
		// Slack delivers late, up to a day: a bare word must not reach a request, or a question, that came after it.
		t.At = timeOf(e.TS)
	}
	_, stored := h.Interact(ctx, t)
	return webhook.Answer{Stored: stored}
}

// withoutName takes our own name off the front of what a person wrote: "<@U0BOT> deny …".
func (h *inbound) withoutName(ctx context.Context, text string) string {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "<@")
	name, rest, closed := strings.Cut(rest, ">")
	id, _, _ := strings.Cut(name, "|")
	if we, _, _ := h.identify(ctx); !ok || !closed || we.UserID != "" && id != we.UserID {
		return text
	}
	return strings.TrimLeft(rest, " \t\n\u00a0:,")
}

// timeOf reads a message's ts, the zero time if it is none.
func timeOf(ts string) time.Time {
	sec, _, _ := strings.Cut(ts, ".")
	n, err := strconv.ParseInt(sec, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(n, 0).Add(time.Second - time.Millisecond).UTC() // the end of its second: equal counts
}

// unescape undoes the only escaping that Slack does to what people type.
var unescape = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")
