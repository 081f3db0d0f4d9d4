package line

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	linewebhook "github.com/line/line-bot-sdk-go/v8/linebot/webhook"

	"countersign/approval"
	"countersign/channels"
	"countersign/internal/chat"
	"countersign/webhook"
)

// maxEventAge is how old a LINE event may be. Its signature holds no time, so a captured request
// would else be good for ever.
const maxEventAge = 24 * time.Hour

// forCommit is how much of [webhook.CommitWithin] is left for the commit when an event has waited for LINE to say who
// our bot is, as after a restart.
const forCommit = time.Second

// inbound handles POST /webhook/line.
type inbound struct {
	webhook.Inbound
	secrets func() []string              // the channel secrets in force, several while one is being replaced
	bot     func(context.Context) string // the bot's own user id; "" where it is not known by the time the context ends
}

// delivery is what we read of a delivery.
type delivery struct {
	Destination string            `json:"destination"`
	Events      []json.RawMessage `json:"events"`
}

type event struct {
	Type           string `json:"type"`
	Mode           string `json:"mode"`
	Timestamp      int64  `json:"timestamp"`
	WebhookEventID string `json:"webhookEventId"`
	ReplyToken     string `json:"replyToken"`
	Source         *struct {
		Type   string `json:"type"`
		UserID string `json:"userId"`
	} `json:"source"`
	Postback *struct {
		Data string `json:"data"`
	} `json:"postback"`
	Message *struct {
		Type            string `json:"type"`
		Text            string `json:"text"`
		QuotedMessageID string `json:"quotedMessageId"`
	} `json:"message"`
}

func (h *inbound) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, ok := h.Verify(w, r, isWellFormed, h.isSigned, "application/json")
	if !ok {
		return
	}
	ctx, cancel := webhook.Bound(r.Context(), webhook.CommitWithin)
	defer cancel()
	var body delivery
	if err := channels.Strictly(raw, &body); err != nil {
		h.Logger.WarnContext(ctx, "a signed LINE delivery was not understood", "bytes", len(raw))
		h.NotUnderstood(ctx).Write(w)
		return
	}
	if len(body.Events) == 0 { // the console's Verify button
		webhook.Answer{Stored: true}.Write(w)
		return
	}
	waiting, done := webhook.KeepTime(ctx, forCommit)
	bot := h.bot(waiting)
	done()
	switch {
	case bot == "":
		h.Logger.ErrorContext(ctx, "a LINE event came before LINE told us who our bot is; LINE is asked to deliver it again")
		webhook.Answer{}.Write(w)
		return
	case body.Destination != bot:
		webhook.Answer{Stored: h.Refuse(ctx, "line:", "wrong_destination")}.Write(w)
		return
	}
	all := webhook.Answer{Stored: true}
	for _, raw := range body.Events {
		var e event
		if err := channels.Strictly(raw, &e); err != nil {
			h.Logger.WarnContext(ctx, "an event in a signed LINE delivery was not understood")
			a := h.NotUnderstood(ctx)
			all.Stored, all.Bad = all.Stored && a.Stored, true
			continue
		}
		all.Stored = h.take(ctx, e) && all.Stored
	}
	all.Write(w)
}

const headerSignature = "X-Line-Signature"

// isWellFormed reports whether there is one signature, and it could be one: a SHA-256 in base64.
func isWellFormed(h http.Header) bool {
	values := h[headerSignature]
	if len(values) != 1 {
		return false
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(values[0])
	return err == nil && len(sum) == sha256.Size
}

func (h *inbound) isSigned(header http.Header, body []byte) bool {
	signature := header.Get(headerSignature)
	ok := false
	for _, s := range h.secrets() {
		ok = linewebhook.ValidateSignature(s, signature, body) || ok
	}
	return ok && signature != ""
}

// take handles one event; false means that it could not be stored.
func (h *inbound) take(ctx context.Context, e event) bool {
	isWords := e.Type == "message" && e.Message != nil && e.Message.Type == "text"
	isTap := e.Type == "postback" && e.Postback != nil
	if !isWords && !isTap && e.Type != "follow" && e.Type != "unfollow" {
		h.Logger.DebugContext(ctx, "a LINE event of a kind that is not acted on", "type", e.Type)
		return true
	}
	if e.Source == nil || e.Source.Type != "user" || e.Source.UserID == "" {
		if isWords { // what is said in a group the bot is in is not said to us
			h.Count(Name, "ignored")
			return true
		}
		return h.Refuse(ctx, "line:", "not_one_to_one")
	}
	by, known := h.People.ByChat(Name, e.Source.UserID)
	if !known {
		by = approval.Actor{Kind: approval.Stranger, Name: "line:" + e.Source.UserID}
	}
	at := time.UnixMilli(e.Timestamp).UTC()
	switch {
	case e.Mode != "active":
		return h.Refuse(ctx, by.String(), "not_active")
	case e.WebhookEventID == "":
		return h.Refuse(ctx, by.String(), "no_event_id")
	case h.Now().Sub(at) > maxEventAge:
		return h.Refuse(ctx, by.String(), "too_old")
	}
	t := chat.Interaction{EventID: "line:" + e.WebhookEventID, By: by, From: e.Source.UserID, ReplyTo: e.ReplyToken,
		At: at, OneReply: true, AsksWhy: true}
	switch {
	case isWords:
		t.ReadWords(e.Message.Text, e.Message.QuotedMessageID)
	case isTap:
		b, err := channels.ParseButton(e.Postback.Data)
		if err != nil {
			return h.Refuse(ctx, by.String(), "unknown_button")
		}
		t.Intent, t.RequestID, t.Shows, t.For = b.Intent, b.ID, b.Shows, b.For
	case e.Type == "follow":
		t.Intent = chat.IntentFollow
	default: // there is no caller left to answer
		t.Intent, t.ReplyTo = chat.IntentUnfollow, ""
	}
	_, stored := h.Interact(ctx, t)
	return stored
}
