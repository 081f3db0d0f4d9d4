package emulator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SlackPost is a webhook to post. Exactly one of Payload, Form, Event and Body is given; what else is left empty is as
// Slack would have it.
type SlackPost struct {
	Payload     Object     // an interaction, sent as the form field payload
	Form        url.Values // a slash command
	Event       Object     // an Events API envelope, sent as JSON
	Body        []byte     // sent as it is, with ContentType
	ContentType string

	Secret    string    // signs instead of the signing secret
	Timestamp time.Time // signed and sent instead of the present time
	Signature *string   // sent instead of a computed one; empty: no signature headers
	URL       string    // default: the webhook of SetWebhooks
	Header    http.Header
}

// overHTTP reports whether a post says something of how HTTP shall carry it, or is of a kind that no socket carries.
func (p SlackPost) overHTTP() bool {
	return p.Body != nil || p.Secret != "" || !p.Timestamp.IsZero() || p.Signature != nil || p.URL != "" ||
		p.Header != nil || str(p.Event["type"]) == "url_verification"
}

// Post signs and posts a webhook. Events (and only they) are repeated as SetRetries says. The error is about
// getting an answer at all; a refusal is an answer. In Socket Mode, a post that leaves everything about HTTP as Slack
// would have it goes over a socket instead.
func (s *Slack) Post(ctx context.Context, p SlackPost) (Delivery, error) {
	if !p.overHTTP() && s.Sockets.deliver() {
		return s.Sockets.post(ctx, p)
	}
	s.e.mu.Lock()
	target, waits := s.webhook, s.retries
	s.e.mu.Unlock()
	if p.URL != "" {
		target = p.URL
	}
	body, kind, ids := p.encode()
	if p.Event == nil {
		waits = nil
	}
	var earlier []Delivery
	reason := ""
	for try := 0; ; try++ {
		header := s.header(p, kind, body)
		if try > 0 {
			header.Set("X-Slack-Retry-Num", strconv.Itoa(try))
			header.Set("X-Slack-Retry-Reason", reason)
		}
		maps.Copy(header, p.Header)
		d, err := s.e.post(ctx, "slack", target, s.cfg.WebhookTimeout, header, body)
		d.EventIDs, d.Earlier = ids, earlier
		if d.Status == http.StatusOK || try >= len(waits) || ctx.Err() != nil {
			return d, err
		}
		reason = "http_error"
		if err != nil {
			reason = "connection_failed"
			if isTimeout(err) {
				reason = "http_timeout"
			}
		}
		earlier = append(earlier, d)
		s.e.sleep(waits[try])
	}
}

// encode returns the body of a post, its content type, and the ids that the receiver may know it by.
func (p SlackPost) encode() (body []byte, contentType string, ids []string) {
	const form = "application/x-www-form-urlencoded"
	switch {
	case p.Payload != nil:
		body = []byte(url.Values{"payload": {string(mustJSON(p.Payload))}}.Encode())
		return body, form, []string{str(p.Payload["trigger_id"])}
	case p.Form != nil:
		return []byte(p.Form.Encode()), form, []string{p.Form.Get("trigger_id")}
	case p.Event != nil:
		return mustJSON(p.Event), "application/json", []string{str(p.Event["event_id"])}
	}
	return p.Body, p.ContentType, nil
}

// header signs a body, unless the post has a signature of its own.
func (s *Slack) header(p SlackPost, contentType string, body []byte) http.Header {
	at := p.Timestamp
	if at.IsZero() {
		at = s.e.now()
	}
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signature := SignSlack(cmp.Or(p.Secret, s.cfg.SigningSecret), timestamp, body)
	if p.Signature != nil {
		signature = *p.Signature
	}
	header := http.Header{
		"Content-Type": {contentType},
		"User-Agent":   {"Slackbot 1.0 (+https://api.slack.com/robots)"},
	}
	if signature != "" {
		header.Set("X-Slack-Signature", signature)
		header.Set("X-Slack-Request-Timestamp", timestamp)
	}
	return header
}

func (s *Slack) person(key string) (Person, error) {
	p, err := s.e.person(key)
	if err == nil && p.Slack == "" {
		err = fmt.Errorf("emulator: %s is not on Slack", p.Name)
	}
	return p, err
}

// interaction is what all interactive payloads have in common.
func (s *Slack) interaction(kind string, p Person) Object {
	team := Object{"id": s.cfg.TeamID, "domain": "sandbox"}
	o := Object{
		"type": kind, "api_app_id": s.cfg.AppID, "token": "unused", "team": team, "enterprise": nil,
		"is_enterprise_install": false,
		"user": Object{"id": p.Slack, "username": slackName(p), "name": slackName(p),
			"team_id": s.teamOf(p)},
	}
	if s.cfg.EnterpriseID != "" {
		o["team"], o["is_enterprise_install"] = nil, true
		o["enterprise"] = Object{"id": s.cfg.EnterpriseID, "name": s.cfg.TeamName}
	}
	return o
}

// BlockActions builds the payload of pressing a button, whether or not the message still has it: an old client may
// show what was edited away. The button's looks are taken from the message where it has such a button.
func (s *Slack) BlockActions(person, channel, ts, actionID, value string) (Object, error) {
	p, err := s.person(person)
	if err != nil {
		return nil, err
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	ch := s.conversation(channel)
	if ch == nil {
		return nil, fmt.Errorf("emulator: no Slack channel %q", channel)
	}
	m := s.find(ch.ID, ts)
	if m == nil {
		m = &SlackMessage{Channel: ch.ID, TS: ts, FromBot: true, User: s.cfg.BotUserID}
	}
	name := ch.Name
	if ch.im != "" {
		name = "directmessage"
	}
	return s.interaction("block_actions", p).
		With("container", Object{"type": "message", "message_ts": ts, "channel_id": ch.ID,
			"is_ephemeral": m.Ephemeral != ""}).
		With("channel", Object{"id": ch.ID, "name": name}).
		With("trigger_id", s.newTrigger(p, "")).
		With("message", s.messageJSON(m)).
		With("state", Object{"values": Object{}}).
		With("response_url", s.newHook("actions", p, ch, ts)).
		With("actions", []any{s.actionOf(m.shown, actionID, value)}), nil
}

// actionOf describes a button as payloads do, with its looks where blocks have such a button. The caller holds the
// lock.
func (s *Slack) actionOf(blocks []any, actionID, value string) Object {
	action := Object{"type": "button", "action_id": actionID, "block_id": "gone", "value": value,
		"text": Object{"type": "plain_text", "text": actionID, "emoji": true}}
	if block, element := findButton(blocks, actionID, value); element != nil {
		action = Object{}
		names := []string{"type", "action_id", "value", "text", "style", "url"}
		if isMenu(element) {
			names = []string{"type", "action_id", "selected_option"}
		}
		for _, name := range names {
			if v, ok := element[name]; ok {
				action[name] = v
			}
		}
		action["block_id"] = block["block_id"]
	}
	action["action_ts"] = s.stamp()
	return action
}

// findButton finds a button by its action_id, and by its value unless that is empty; or the choice of a menu.
func findButton(blocks []any, actionID, value string) (block, element map[string]any) {
	for _, b := range blocks {
		block, _ := b.(map[string]any)
		for _, e := range slackElements(block) {
			if str(e["action_id"]) != actionID {
				continue
			}
			if isMenu(e) {
				if chosen := choice(e, value); chosen != nil {
					return block, chosen
				}
			}
			if str(e["type"]) == "button" && (value == "" || str(e["value"]) == value) {
				return block, e
			}
		}
	}
	return nil, nil
}

// isMenu reports whether one of an element's options is chosen in place of it being pressed.
func isMenu(element map[string]any) bool {
	return str(element["type"]) == "overflow" || str(element["type"]) == "static_select"
}

// choice is a menu with one of its options chosen: the one of a value, or the first where that is empty. nil:
// there is none.
func choice(menu map[string]any, value string) map[string]any {
	options, _ := menu["options"].([]any)
	for _, o := range options {
		if option, _ := o.(map[string]any); value == "" || str(option["value"]) == value {
			return map[string]any{"type": menu["type"], "action_id": menu["action_id"], "value": option["value"],
				"selected_option": option}
		}
	}
	return nil
}

// Tap presses a button that the person can see now. An empty ts means the newest message in the channel with such
// a button, an empty value any value. A confirmation dialog counts as confirmed.
func (s *Slack) Tap(ctx context.Context, person, channel, ts, actionID, value string) (Delivery, error) {
	p, err := s.person(person)
	if err != nil {
		return Delivery{}, err
	}
	s.e.mu.Lock()
	ch := s.conversation(channel)
	if ch == nil || !slices.Contains(ch.members, p.Slack) {
		s.e.mu.Unlock()
		return Delivery{}, fmt.Errorf("emulator: %s does not see the channel %q", p.Name, channel)
	}
	found := ""
	for _, m := range slices.Backward(s.messages[ch.ID]) {
		if m.Deleted || ts != "" && m.TS != ts || m.Ephemeral != "" && m.Ephemeral != p.Slack {
			continue
		}
		if _, e := findButton(m.shown, actionID, value); e != nil {
			found, value = m.TS, str(e["value"])
			break
		}
	}
	s.e.mu.Unlock()
	if found == "" {
		return Delivery{}, fmt.Errorf("emulator: %w in %s: %q", errNoButton, channel, actionID)
	}
	payload, err := s.BlockActions(p.Name, ch.ID, found, actionID, value)
	if err != nil {
		return Delivery{}, err
	}
	return s.Post(ctx, SlackPost{Payload: payload})
}

// Event wraps an event of the Events API in its envelope.
func (s *Slack) Event(event Object) Object {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	now := s.e.now()
	return Object{
		"type": "event_callback", "token": "unused", "team_id": s.cfg.TeamID, "api_app_id": s.cfg.AppID,
		"event_id": fmt.Sprintf("Ev0SANDBOX%05d", s.e.next()), "event_time": now.Unix(), "event": event,
		"is_ext_shared_channel": false,
		"authorizations": []any{Object{"enterprise_id": nil, "team_id": s.cfg.TeamID, "user_id": s.cfg.BotUserID,
			"is_bot": true, "is_enterprise_install": s.cfg.EnterpriseID != ""}},
	}
}

// hears returns an error when the app lacks the scope without which Slack does not tell it of something.
func (s *Slack) hears(scope string) error {
	if s.hasScope(scope) {
		return nil
	}
	return fmt.Errorf("emulator: the app has no scope %s, so Slack does not tell it", scope)
}

// escapeSlack writes text as events carry it.
var escapeSlack = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Type writes to the bot in the person's direct messages with it, which sends a message.im event. threadTS is the
// message whose thread it belongs to, or empty.
func (s *Slack) Type(ctx context.Context, person, text, threadTS string) (Delivery, error) {
	p, err := s.person(person)
	if err != nil {
		return Delivery{}, err
	}
	s.e.mu.Lock()
	ch := s.conversation(p.Slack)
	m := s.add(ch, SlackMessage{User: p.Slack, Text: escapeSlack.Replace(text), ThreadTS: threadTS, Via: "typed"})
	event := s.messageJSON(m).With("channel", ch.ID).With("channel_type", "im").With("event_ts", m.TS).With("team",
		s.teamOf(p))
	s.e.mu.Unlock()
	if err := s.hears("im:history"); err != nil {
		return Delivery{}, err
	}
	return s.Post(ctx, SlackPost{Event: s.Event(event)})
}

// Mention writes "@bot text" in a channel, which sends an app_mention event.
func (s *Slack) Mention(ctx context.Context, person, channel, text, threadTS string) (Delivery, error) {
	p, err := s.person(person)
	if err != nil {
		return Delivery{}, err
	}
	s.e.mu.Lock()
	ch := s.conversation(channel)
	if ch == nil || !slices.Contains(ch.members, p.Slack) {
		s.e.mu.Unlock()
		return Delivery{}, fmt.Errorf("emulator: %s does not see the channel %q", p.Name, channel)
	}
	m := s.add(ch, SlackMessage{User: p.Slack, Text: "<@" + s.cfg.BotUserID + "> " + escapeSlack.Replace(text),
		ThreadTS: threadTS, Via: "typed"})
	event := s.messageJSON(m).With("type", "app_mention").With("channel", ch.ID).With("event_ts", m.TS).With("team",
		s.teamOf(p))
	s.e.mu.Unlock()
	if err := s.hears("app_mentions:read"); err != nil {
		return Delivery{}, err
	}
	return s.Post(ctx, SlackPost{Event: s.Event(event)})
}

// Command builds the form of a slash command.
func (s *Slack) Command(person, channel, command, text string) (url.Values, error) {
	p, err := s.person(person)
	if err != nil {
		return nil, err
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	ch := s.conversation(channel)
	if ch == nil {
		return nil, fmt.Errorf("emulator: no Slack channel %q", channel)
	}
	form := url.Values{
		"token": {"unused"}, "team_id": {s.cfg.TeamID}, "team_domain": {"sandbox"}, "channel_id": {ch.ID},
		"channel_name": {ch.Name},
		"user_id":      {p.Slack}, "user_name": {slackName(p)}, "command": {command}, "text": {text},
		"api_app_id":            {s.cfg.AppID},
		"is_enterprise_install": {strconv.FormatBool(s.cfg.EnterpriseID != "")},
		"response_url":          {s.newHook("commands", p, ch, "")}, "trigger_id": {s.newTrigger(p, "")},
	}
	if s.cfg.EnterpriseID != "" {
		form.Set("enterprise_id", s.cfg.EnterpriseID)
	}
	return form, nil
}

// Slash types a slash command such as "/countersign" with its text. What the webhook answers is shown to that
// person, as on Slack.
func (s *Slack) Slash(ctx context.Context, person, channel, command, text string) (Delivery, error) {
	if err := s.hears("commands"); err != nil {
		return Delivery{}, err
	}
	form, err := s.Command(person, channel, command, text)
	if err != nil {
		return Delivery{}, err
	}
	d, err := s.Post(ctx, SlackPost{Form: form})
	if err != nil || d.Status != http.StatusOK || len(d.Body) == 0 {
		return d, err
	}
	said := url.Values{"text": {string(d.Body)}}
	if strings.HasPrefix(strings.TrimSpace(string(d.Body)), "{") {
		said, _ = slackArgs(&http.Request{URL: &url.URL{}, Header: http.Header{"Content-Type": {"application/json"}}}, d.Body)
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	h := &hook{user: form.Get("user_id"), channel: form.Get("channel_id")}
	if wrong := s.respond(h, said); wrong != nil {
		s.e.violate(&Call{Platform: "slack", Endpoint: "slash command's answer"}, "schema", wrong.Error())
	}
	return d, nil
}

// VerifyURL sends the url_verification challenge, which the webhook must answer with its value.
func (s *Slack) VerifyURL(ctx context.Context, challenge string) (Delivery, error) {
	return s.Post(ctx, SlackPost{Event: Object{"type": "url_verification", "token": "unused",
		"challenge": challenge}})
}
