package webhook

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
)

// maxEventAge is how old a LINE event may be. Its signature holds no time, so a captured request
// would else be good for ever.
const maxEventAge = 24 * time.Hour

// lineLeaves is how much of commitWithin is left for the commit when an event has waited for LINE to say who our bot
// is, as after a restart.
const lineLeaves = time.Second

// LINE handles POST /webhook/line.
type LINE struct {
	common
	secrets func() []string
	bot     func(context.Context) string
}

// NewLINE returns the handler. secrets gives the channel secrets in force, several while one is being
// replaced; bot gives the bot's own user id, for which it may wait until its context ends, and "" where it is not known
// by then: events are answered with 503.
func NewLINE(o Options, secrets func() []string, bot func(context.Context) string) *LINE {
	return &LINE{common: newCommon("line", o), secrets: secrets, bot: bot}
}

// lineBody is what we read of a delivery. We decode it ourselves: the SDK's parser refuses the whole
// delivery for one event it does not know, and takes names in any case and twice.
type lineBody struct {
	Destination string            `json:"destination"`
	Events      []json.RawMessage `json:"events"`
}

type lineEvent struct {
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

func (h *LINE) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, ok := h.body(w, r, lineFormed, "application/json")
	if !ok {
		return
	}
	if !h.signed(raw, r.Header.Get(headerLINE)) {
		h.refuseUnsigned(w, r)
		return
	}
	h.known(r)
	ctx, cancel := within(r.Context(), commitWithin)
	defer cancel()
	var body lineBody
	if err := channels.Strictly(raw, &body); err != nil {
		h.log.WarnContext(ctx, "a signed LINE delivery was not understood", "bytes", len(raw))
		h.notUnderstood(ctx).write(w)
		return
	}
	if len(body.Events) == 0 { // the console's Verify button
		answer{stored: true}.write(w)
		return
	}
	waiting, done := leaving(ctx, lineLeaves)
	bot := h.bot(waiting)
	done()
	switch {
	case bot == "":
		h.log.ErrorContext(ctx, "a LINE event came before LINE told us who our bot is; LINE is asked to deliver it again")
		answer{}.write(w)
		return
	case body.Destination != bot:
		answer{stored: h.refuse(ctx, "line:", "wrong_destination")}.write(w)
		return
	}
	all := answer{stored: true}
	for _, raw := range body.Events {
		var e lineEvent
		if err := channels.Strictly(raw, &e); err != nil {
			h.log.WarnContext(ctx, "an event in a signed LINE delivery was not understood")
			a := h.notUnderstood(ctx)
			all.stored, all.bad = all.stored && a.stored, true
			continue
		}
		all.stored = h.event(ctx, e) && all.stored
	}
	all.write(w)
}

const headerLINE = "X-Line-Signature"

// lineFormed reports whether there is one signature, and it could be one: a SHA-256 in base64.
func lineFormed(h http.Header) bool {
	values := h[headerLINE]
	if len(values) != 1 {
		return false
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(values[0])
	return err == nil && len(sum) == sha256.Size
}

func (h *LINE) signed(body []byte, signature string) bool {
	ok := false
	for _, s := range h.secrets() {
		ok = linewebhook.ValidateSignature(s, signature, body) || ok
	}
	return ok && signature != ""
}

// event handles one event; false means that it could not be stored.
func (h *LINE) event(ctx context.Context, e lineEvent) bool {
	isWords := e.Type == "message" && e.Message != nil && e.Message.Type == "text"
	isTap := e.Type == "postback" && e.Postback != nil
	if !isWords && !isTap && e.Type != "follow" && e.Type != "unfollow" {
		h.log.DebugContext(ctx, "a LINE event of a kind that is not acted on", "type", e.Type)
		return true
	}
	if e.Source == nil || e.Source.Type != "user" || e.Source.UserID == "" {
		if isWords { // what is said in a group the bot is in is not said to us
			h.count(h.channel, "ignored")
			return true
		}
		return h.refuse(ctx, "line:", "not_one_to_one")
	}
	by, known := h.people.ByChat("line", e.Source.UserID)
	if !known {
		by = approval.Actor{Kind: approval.Stranger, Name: "line:" + e.Source.UserID}
	}
	at := time.UnixMilli(e.Timestamp).UTC()
	switch {
	case e.Mode != "active":
		return h.refuse(ctx, by.String(), "not_active")
	case e.WebhookEventID == "":
		return h.refuse(ctx, by.String(), "no_event_id")
	case h.now().Sub(at) > maxEventAge:
		return h.refuse(ctx, by.String(), "too_old")
	}
	t := chat.Interaction{EventID: "line:" + e.WebhookEventID, By: by, From: e.Source.UserID, ReplyTo: e.ReplyToken,
		At: at, OneReply: true, AsksWhy: true}
	switch {
	case isWords:
		words(&t, e.Message.Text, e.Message.QuotedMessageID)
	case isTap:
		b, err := channels.ParseButton(e.Postback.Data)
		if err != nil {
			return h.refuse(ctx, by.String(), "unknown_button")
		}
		t.Intent, t.RequestID, t.Shows, t.For = b.Intent, b.ID, b.Shows, b.For
	case e.Type == "follow":
		t.Intent = chat.IntentFollow
	default: // there is nobody left to answer
		t.Intent, t.ReplyTo = chat.IntentUnfollow, ""
	}
	_, stored := h.interact(ctx, t)
	return stored
}

// words makes a tap of what somebody typed.
func words(t *chat.Interaction, text, quoted string) {
	w := chat.ParseWords(text, quoted != "")
	t.Intent, t.RequestID, t.Reason, t.Text, t.QuotedID = w.Intent, w.ID, w.Reason, text, quoted
	t.Typed, t.Name, t.Shows = w.Typed, w.Name, w.Shows
}
