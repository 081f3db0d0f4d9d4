package emulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// LINEPost is a webhook to post. What is left empty is as LINE would have it.
type LINEPost struct {
	Events      []Object
	Destination string  // default: the bot's user id
	Body        []byte  // posted as it is, instead of Events and Destination
	Secret      string  // signs instead of the channel secret
	Signature   *string // sent instead of a computed one; empty: no signature header
	URL         string  // default: the webhook of SetWebhooks
	// NoRedelivery posts once, whatever [LINE.SetRedelivery] says.
	NoRedelivery bool
}

func lineHookBody(destination string, events []Object) []byte {
	if events == nil {
		events = []Object{}
	}
	return mustJSON(map[string]any{"destination": destination, "events": events})
}

// event is what all events have in common, with a reply token that works.
func (l *LINE) event(kind string, p Person) Object {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	now := l.e.now()
	token := randomHex(16)
	l.replies[token] = &replyToken{user: p.LINE, issued: now, delivered: now}
	return Object{
		"type": kind, "mode": "active", "timestamp": now.UnixMilli(), "webhookEventId": eventID(now),
		"deliveryContext": Object{"isRedelivery": false},
		"source":          Object{"type": "user", "userId": p.LINE},
		"replyToken":      token,
	}
}

func (l *LINE) person(key string) (Person, error) {
	p, err := l.e.person(key)
	if err == nil && p.LINE == "" {
		err = fmt.Errorf("emulator: %s is not on LINE", p.Name)
	}
	return p, err
}

// PostbackEvent builds the event of a tap on a button with this data, whether or not such a button exists.
func (l *LINE) PostbackEvent(person, data string) (Object, error) {
	p, err := l.person(person)
	if err != nil {
		return nil, err
	}
	return l.event("postback", p).With("postback", Object{"data": data}), nil
}

// TextEvent builds the event of a typed text. quoted is the id of the message it quotes, or empty.
func (l *LINE) TextEvent(person, text, quoted string) (Object, error) {
	p, err := l.person(person)
	if err != nil {
		return nil, err
	}
	event := l.event("message", p)
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	id := l.messageID()
	message := Object{"type": "text", "id": id, "quoteToken": l.newQuote(p.LINE, id), "text": text}
	if quoted != "" {
		message["quotedMessageId"] = quoted
	}
	return event.With("message", message), nil
}

// FollowEvent builds the event of adding the bot as a friend, or of unblocking it.
func (l *LINE) FollowEvent(person string) (Object, error) {
	p, err := l.person(person)
	if err != nil {
		return nil, err
	}
	l.e.mu.Lock()
	unblocked := l.blocked[p.LINE]
	l.e.mu.Unlock()
	return l.event("follow", p).With("follow", Object{"isUnblocked": unblocked}), nil
}

// UnfollowEvent builds the event of blocking the bot. It has no reply token.
func (l *LINE) UnfollowEvent(person string) (Object, error) {
	p, err := l.person(person)
	if err != nil {
		return nil, err
	}
	return l.event("unfollow", p).With("replyToken", Absent), nil
}

// Post signs and posts a webhook, and posts it again when redelivery is on and the answer was not a 2xx. The error
// is about getting an answer at all; a refusal is an answer.
func (l *LINE) Post(ctx context.Context, p LINEPost) (Delivery, error) {
	l.e.mu.Lock()
	target, again, wait, off := l.webhook, l.redeliver, l.redeliverIn, l.inactive
	l.e.mu.Unlock()
	if p.URL != "" {
		target = p.URL
	} else if off {
		return Delivery{Platform: "line"}, errors.New("emulator: the LINE account does not use its webhook")
	}
	if p.NoRedelivery || p.Body != nil {
		again = 0
	}
	var ids []string
	for _, e := range p.Events {
		ids = append(ids, str(e["webhookEventId"]))
	}
	var earlier []Delivery
	for try := 0; ; try++ {
		body := p.Body
		if body == nil {
			destination := p.Destination
			if destination == "" {
				destination = l.cfg.BotUserID
			}
			body = lineHookBody(destination, p.Events)
		}
		header := http.Header{"Content-Type": {"application/json; charset=utf-8"}, "User-Agent": {"LineBotWebhook/2.0"}}
		secret := p.Secret
		if secret == "" {
			secret = l.cfg.ChannelSecret
		}
		signature := SignLINE(secret, body)
		if p.Signature != nil {
			signature = *p.Signature
		}
		if signature != "" {
			header.Set("X-Line-Signature", signature)
		}
		d, err := l.e.post(ctx, "line", target, l.cfg.WebhookTimeout, header, body)
		d.EventIDs, d.Earlier = ids, earlier
		if d.OK() || try >= again || ctx.Err() != nil {
			return d, err
		}
		earlier = append(earlier, d)
		l.e.sleep(wait)
		p.Events = l.markRedelivered(p.Events)
	}
}

// markRedelivered marks events as sent again, which also gives their reply tokens another minute.
func (l *LINE) markRedelivered(events []Object) []Object {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	marked := make([]Object, len(events))
	for i, e := range events {
		marked[i] = e.With("deliveryContext.isRedelivery", true)
		if t := l.replies[str(e["replyToken"])]; t != nil {
			t.delivered = l.e.now()
		}
	}
	return marked
}

var errNoButton = errors.New("no such button")

// Tap presses a button of a message in the person's chat: the one with this label or this postback data. message is
// its id; empty means the newest message that has such a button. Buttons of a card stay for ever; quick replies are
// gone once one was tapped or anything follows them. A button that opens the keyboard leaves what it fills in there: it
// is in the Delivery's FillIn, and [LINE.Complete] types on.
func (l *LINE) Tap(ctx context.Context, person, message, labelOrData string) (Delivery, error) {
	p, err := l.person(person)
	if err != nil {
		return Delivery{}, err
	}
	chat := l.Chat(p.Name)
	for i := len(chat) - 1; i >= 0; i-- {
		m := chat[i]
		if !m.FromBot || message != "" && m.ID != message {
			continue
		}
		content, _ := parseJSON(m.JSON)
		object, _ := asObject(content)
		delete(object, "quickReply")
		actions := lineActions(object)
		for _, quick := range m.QuickReplies {
			action, _ := parseObject(quick.Action)
			actions = append(actions, action)
		}
		for n, action := range actions {
			if labelOrData == str(action["label"]) || labelOrData == str(action["data"]) {
				if n >= len(actions)-len(m.QuickReplies) {
					l.usedQuickReply(p)
				}
				return l.act(ctx, p, action)
			}
		}
	}
	return Delivery{}, fmt.Errorf("emulator: %w in %s's LINE chat: %q", errNoButton, p.Name, labelOrData)
}

// tapAt presses the button whose action stands at a path of the message's JSON, as the page names it.
func (l *LINE) tapAt(ctx context.Context, person, message string, path []any) (Delivery, error) {
	p, err := l.person(person)
	if err != nil {
		return Delivery{}, err
	}
	chat := l.Chat(p.Name)
	for _, m := range chat {
		if m.ID != message || !m.FromBot {
			continue
		}
		quick := len(path) > 0 && path[0] == "quickReply"
		if quick && m.QuickReplies == nil {
			break
		}
		node, _ := parseJSON(m.JSON)
		for _, step := range path {
			switch step := step.(type) {
			case string:
				object, _ := asObject(node)
				node = object[step]
			case json.Number:
				items, _ := node.([]any)
				n, ok := asInt(step)
				if !ok || n < 0 || n >= len(items) {
					return Delivery{}, fmt.Errorf("emulator: %w", errNoButton)
				}
				node = items[n]
			}
		}
		if action, ok := asObject(node); ok {
			if quick {
				l.usedQuickReply(p)
			}
			return l.act(ctx, p, action)
		}
	}
	return Delivery{}, fmt.Errorf("emulator: %w", errNoButton)
}

// lineActions gathers the actions of a message in reading order.
func lineActions(v any) (found []map[string]any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			found = append(found, lineActions(item)...)
		}
	case map[string]any:
		if action, ok := v["action"].(map[string]any); ok {
			found = append(found, action)
		}
		if actions, ok := v["actions"].([]any); ok { // a template's
			for _, a := range actions {
				if action, ok := a.(map[string]any); ok {
					found = append(found, action)
				}
			}
		}
		for _, name := range []string{"contents", "header", "hero", "body", "footer", "template"} {
			found = append(found, lineActions(v[name])...)
		}
	}
	return found
}

// usedQuickReply takes a person's quick replies away: they go once one was tapped.
func (l *LINE) usedQuickReply(p Person) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.dropQuickReplies(p.LINE)
}

// act does what an action says.
func (l *LINE) act(ctx context.Context, p Person, action map[string]any) (Delivery, error) {
	switch str(action["type"]) {
	case "postback":
		event, err := l.PostbackEvent(p.Name, str(action["data"]))
		if err != nil {
			return Delivery{}, err
		}
		if said := str(action["displayText"]); said != "" {
			l.postSaid(p, LINEMessage{Text: said, Via: "postback", JSON: mustJSON(Object{"type": "text", "text": said})})
		}
		fill := ""
		if str(action["inputOption"]) == "openKeyboard" {
			fill = str(action["fillInText"])
			l.e.mu.Lock()
			l.drafts[p.LINE] = fill
			l.e.bump()
			l.e.mu.Unlock()
		}
		d, err := l.Post(ctx, LINEPost{Events: []Object{event}})
		d.FillIn = fill
		if typed := str(action["text"]); typed != "" && err == nil { // deprecated, and a second event
			return l.Type(ctx, p.Name, typed, "")
		}
		return d, err
	case "message":
		return l.Type(ctx, p.Name, str(action["text"]), "")
	}
	return Delivery{}, fmt.Errorf("emulator: an action of type %q sends no event", str(action["type"]))
}

// Draft returns what stands in a person's field, not yet sent, because a button filled it in.
func (l *LINE) Draft(person string) string {
	p, err := l.person(person)
	if err != nil {
		return ""
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	return l.drafts[p.LINE]
}

// Complete types on where the last button left the keyboard, and sends it all: what was filled in, then more.
func (l *LINE) Complete(ctx context.Context, person, more string) (Delivery, error) {
	return l.Type(ctx, person, l.Draft(person)+more, "")
}

// postSaid puts a person's own line into the chat.
func (l *LINE) postSaid(p Person, m LINEMessage) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	if m.ID == "" {
		m.ID = l.messageID()
	}
	m.At = l.e.now()
	l.add(p.LINE, &m)
}

// Type sends a text to the bot. quoted is the id of the message it answers, or empty.
func (l *LINE) Type(ctx context.Context, person, text, quoted string) (Delivery, error) {
	event, err := l.TextEvent(person, text, quoted)
	if err != nil {
		return Delivery{}, err
	}
	p, err := l.person(person)
	if err != nil {
		return Delivery{}, err
	}
	message, _ := asObject(event["message"])
	l.e.mu.Lock()
	delete(l.drafts, p.LINE)
	l.e.mu.Unlock()
	l.postSaid(p, LINEMessage{
		ID: str(message["id"]), QuoteToken: str(message["quoteToken"]), Text: text, Quoted: quoted, Via: "message",
		JSON: mustJSON(message),
	})
	return l.Post(ctx, LINEPost{Events: []Object{event}})
}

// Follow makes the person a friend of the bot again and sends the event.
func (l *LINE) Follow(ctx context.Context, person string) (Delivery, error) {
	event, err := l.FollowEvent(person)
	if err != nil {
		return Delivery{}, err
	}
	if err := l.SetBlocked(person, false); err != nil {
		return Delivery{}, err
	}
	return l.Post(ctx, LINEPost{Events: []Object{event}})
}

// Unfollow lets the person block the bot and sends the event.
func (l *LINE) Unfollow(ctx context.Context, person string) (Delivery, error) {
	event, err := l.UnfollowEvent(person)
	if err != nil {
		return Delivery{}, err
	}
	if err := l.SetBlocked(person, true); err != nil {
		return Delivery{}, err
	}
	return l.Post(ctx, LINEPost{Events: []Object{event}})
}

// LINETime is the timestamp of an event, for tests that age one with [Object.With].
func LINETime(at time.Time) int64 { return at.UnixMilli() }
