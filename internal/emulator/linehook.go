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
	// NoRedelivery posts once, whatever SetLINERedelivery says.
	NoRedelivery bool
}

// LINEBody is the body of a webhook with these events, for the bot.
func (s *Emulator) LINEBody(events ...Object) []byte {
	return lineHookBody(s.cfg.LINE.BotUserID, events)
}

func lineHookBody(destination string, events []Object) []byte {
	if events == nil {
		events = []Object{}
	}
	return mustJSON(map[string]any{"destination": destination, "events": events})
}

// lineEvent is what all events have in common, with a reply token that works.
func (s *Emulator) lineEvent(kind string, p Person) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	token := randomHex(16)
	s.line.replies[token] = &replyToken{user: p.LINE, issued: now, delivered: now}
	return Object{
		"type": kind, "mode": "active", "timestamp": now.UnixMilli(), "webhookEventId": eventID(now),
		"deliveryContext": Object{"isRedelivery": false},
		"source":          Object{"type": "user", "userId": p.LINE},
		"replyToken":      token,
	}
}

func (s *Emulator) linePerson(key string) (Person, error) {
	p, err := s.person(key)
	if err == nil && p.LINE == "" {
		err = fmt.Errorf("emulator: %s is not on LINE", p.Name)
	}
	return p, err
}

// LINEPostback builds the event of a tap on a button with this data, whether or not such a button exists.
func (s *Emulator) LINEPostback(person, data string) (Object, error) {
	p, err := s.linePerson(person)
	if err != nil {
		return nil, err
	}
	return s.lineEvent("postback", p).With("postback", Object{"data": data}), nil
}

// LINEText builds the event of a typed text. quoted is the id of the message it quotes, or empty.
func (s *Emulator) LINEText(person, text, quoted string) (Object, error) {
	p, err := s.linePerson(person)
	if err != nil {
		return nil, err
	}
	event := s.lineEvent("message", p)
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.lineMessageID()
	message := Object{"type": "text", "id": id, "quoteToken": s.newQuote(p.LINE, id), "text": text}
	if quoted != "" {
		message["quotedMessageId"] = quoted
	}
	return event.With("message", message), nil
}

// LINEFollow builds the event of adding the bot as a friend, or of unblocking it.
func (s *Emulator) LINEFollow(person string) (Object, error) {
	p, err := s.linePerson(person)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	unblocked := s.line.blocked[p.LINE]
	s.mu.Unlock()
	return s.lineEvent("follow", p).With("follow", Object{"isUnblocked": unblocked}), nil
}

// LINEUnfollow builds the event of blocking the bot. It has no reply token.
func (s *Emulator) LINEUnfollow(person string) (Object, error) {
	p, err := s.linePerson(person)
	if err != nil {
		return nil, err
	}
	return s.lineEvent("unfollow", p).With("replyToken", Absent), nil
}

// PostLINE signs and posts a webhook, and posts it again when redelivery is on and the answer was not a 2xx. The error
// is about getting an answer at all; a refusal is an answer.
func (s *Emulator) PostLINE(ctx context.Context, p LINEPost) (Delivery, error) {
	s.mu.Lock()
	target, again, wait, off := s.line.webhook, s.line.redeliver, s.line.redeliverIn, s.line.inactive
	s.mu.Unlock()
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
				destination = s.cfg.LINE.BotUserID
			}
			body = lineHookBody(destination, p.Events)
		}
		header := http.Header{"Content-Type": {"application/json; charset=utf-8"}, "User-Agent": {"LineBotWebhook/2.0"}}
		secret := p.Secret
		if secret == "" {
			secret = s.cfg.LINE.ChannelSecret
		}
		signature := SignLINE(secret, body)
		if p.Signature != nil {
			signature = *p.Signature
		}
		if signature != "" {
			header.Set("X-Line-Signature", signature)
		}
		d, err := s.post(ctx, "line", target, s.cfg.LINE.WebhookTimeout, header, body)
		d.EventIDs, d.Earlier = ids, earlier
		if d.OK() || try >= again || ctx.Err() != nil {
			return d, err
		}
		earlier = append(earlier, d)
		s.sleep(wait)
		p.Events = s.redelivered(p.Events)
	}
}

// redelivered marks events as sent again, which also gives their reply tokens another minute.
func (s *Emulator) redelivered(events []Object) []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	marked := make([]Object, len(events))
	for i, e := range events {
		marked[i] = e.With("deliveryContext.isRedelivery", true)
		if t := s.line.replies[str(e["replyToken"])]; t != nil {
			t.delivered = s.now()
		}
	}
	return marked
}

var errNoButton = errors.New("no such button")

// TapLINE presses a button of a message in the person's chat: the one with this label or this postback data. message is
// its id; empty means the newest message that has such a button. Buttons of a card stay for ever; quick replies are
// gone once one was tapped or anything follows them. A button that opens the keyboard leaves what it fills in there: it
// is in the Delivery's FillIn, and [Emulator.CompleteLINE] types on.
func (s *Emulator) TapLINE(ctx context.Context, person, message, labelOrData string) (Delivery, error) {
	p, err := s.linePerson(person)
	if err != nil {
		return Delivery{}, err
	}
	chat := s.LINEChat(p.Name)
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
					s.usedQuickReply(p)
				}
				return s.act(ctx, p, action)
			}
		}
	}
	return Delivery{}, fmt.Errorf("emulator: %w in %s's LINE chat: %q", errNoButton, p.Name, labelOrData)
}

// tapLINEAt presses the button whose action stands at a path of the message's JSON, as the page names it.
func (s *Emulator) tapLINEAt(ctx context.Context, person, message string, path []any) (Delivery, error) {
	p, err := s.linePerson(person)
	if err != nil {
		return Delivery{}, err
	}
	chat := s.LINEChat(p.Name)
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
				s.usedQuickReply(p)
			}
			return s.act(ctx, p, action)
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
func (s *Emulator) usedQuickReply(p Person) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropQuickReplies(p.LINE)
}

// act does what an action says.
func (s *Emulator) act(ctx context.Context, p Person, action map[string]any) (Delivery, error) {
	switch str(action["type"]) {
	case "postback":
		event, err := s.LINEPostback(p.Name, str(action["data"]))
		if err != nil {
			return Delivery{}, err
		}
		if said := str(action["displayText"]); said != "" {
			s.lineSaid(p, LINEMessage{Text: said, Via: "postback", JSON: mustJSON(Object{"type": "text", "text": said})})
		}
		fill := ""
		if str(action["inputOption"]) == "openKeyboard" {
			fill = str(action["fillInText"])
			s.mu.Lock()
			s.line.drafts[p.LINE] = fill
			s.bump()
			s.mu.Unlock()
		}
		d, err := s.PostLINE(ctx, LINEPost{Events: []Object{event}})
		d.FillIn = fill
		if typed := str(action["text"]); typed != "" && err == nil { // deprecated, and a second event
			return s.TypeLINE(ctx, p.Name, typed, "")
		}
		return d, err
	case "message":
		return s.TypeLINE(ctx, p.Name, str(action["text"]), "")
	}
	return Delivery{}, fmt.Errorf("emulator: an action of type %q sends no event", str(action["type"]))
}

// LINEDraft returns what stands in a person's field, not yet sent, because a button filled it in.
func (s *Emulator) LINEDraft(person string) string {
	p, err := s.linePerson(person)
	if err != nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.line.drafts[p.LINE]
}

// CompleteLINE types on where the last button left the keyboard, and sends it all: what was filled in, then more.
func (s *Emulator) CompleteLINE(ctx context.Context, person, more string) (Delivery, error) {
	return s.TypeLINE(ctx, person, s.LINEDraft(person)+more, "")
}

// lineSaid puts a person's own line into the chat.
func (s *Emulator) lineSaid(p Person, m LINEMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.ID == "" {
		m.ID = s.lineMessageID()
	}
	m.At = s.now()
	s.lineAdd(p.LINE, &m)
}

// TypeLINE sends a text to the bot. quoted is the id of the message it answers, or empty.
func (s *Emulator) TypeLINE(ctx context.Context, person, text, quoted string) (Delivery, error) {
	event, err := s.LINEText(person, text, quoted)
	if err != nil {
		return Delivery{}, err
	}
	p, err := s.linePerson(person)
	if err != nil {
		return Delivery{}, err
	}
	message, _ := asObject(event["message"])
	s.mu.Lock()
	delete(s.line.drafts, p.LINE)
	s.mu.Unlock()
	s.lineSaid(p, LINEMessage{
		ID: str(message["id"]), QuoteToken: str(message["quoteToken"]), Text: text, Quoted: quoted, Via: "message",
		JSON: mustJSON(message),
	})
	return s.PostLINE(ctx, LINEPost{Events: []Object{event}})
}

// Follow makes the person a friend of the bot again and sends the event.
func (s *Emulator) Follow(ctx context.Context, person string) (Delivery, error) {
	event, err := s.LINEFollow(person)
	if err != nil {
		return Delivery{}, err
	}
	if err := s.SetBlocked(person, false); err != nil {
		return Delivery{}, err
	}
	return s.PostLINE(ctx, LINEPost{Events: []Object{event}})
}

// Unfollow lets the person block the bot and sends the event.
func (s *Emulator) Unfollow(ctx context.Context, person string) (Delivery, error) {
	event, err := s.LINEUnfollow(person)
	if err != nil {
		return Delivery{}, err
	}
	if err := s.SetBlocked(person, true); err != nil {
		return Delivery{}, err
	}
	return s.PostLINE(ctx, LINEPost{Events: []Object{event}})
}

// LINETime is the timestamp of an event, for tests that age one with [Object.With].
func LINETime(at time.Time) int64 { return at.UnixMilli() }
