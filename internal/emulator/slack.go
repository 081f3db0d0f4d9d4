package emulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SlackMessage is one message in a channel, or in somebody's direct messages with the bot.
type SlackMessage struct {
	Channel     string // its id
	TS          string
	ThreadTS    string
	At          time.Time
	User        string          // Slack id of who wrote it
	FromBot     bool            // the app's own
	Ephemeral   string          // the only person who sees it, by Slack id; empty: everybody
	Text        string          // as sent
	Blocks      json.RawMessage // as sent; nil: none
	Metadata    json.RawMessage
	ClientMsgID string
	Via         string      // the method, "response_url", or "typed"
	Edits       []SlackEdit // what it was before, oldest first
	Deleted     bool

	shown []any // Blocks with the ids that Slack adds
}

// SlackEdit is what a message said until it was changed.
type SlackEdit struct {
	Until  time.Time
	Text   string
	Blocks json.RawMessage
	Via    string // what changed it
}

// SlackResponse is one post to a response_url.
type SlackResponse struct {
	At      time.Time
	User    string // whose action the URL belonged to
	Channel string
	TS      string // the message that was acted on; empty for a slash command
	Body    json.RawMessage
	Status  int // what it was answered
}

// Slack is the workspace, the app that is installed in it and those who talk to it.
type Slack struct {
	Views   *SlackViews
	Sockets *SlackSockets

	e   *Emulator
	cfg SlackConfig
	api *slackAPI

	// Guarded by the Emulator's lock.
	webhook   string
	channels  []*channel
	messages  map[string][]*SlackMessage // by channel id
	triggers  map[string]*trigger
	hooks     map[string]*hook // by path
	responses []SlackResponse
	dedup     bool
	retries   []time.Duration
	lastStamp int64 // the last ts, in microseconds
}

type channel struct {
	Channel
	members []string // Slack ids
	im      string   // the other side of direct messages
}

// isHidden reports whether the bot cannot know of it: a private channel that it was not invited to.
func (c *channel) isHidden() bool { return c.IsPrivate && c.BotAbsent }

type trigger struct {
	user string
	view string // the view that was acted in; empty: a message or a command
	at   time.Time
	used bool
}

type hook struct {
	user, channel string
	ts            string // the message acted on
	at            time.Time
	uses          int
}

const (
	triggerLife = 3 * time.Second
	hookLife    = 30 * time.Minute
	hookUses    = 5
)

func newSlack(e *Emulator) (*Slack, error) {
	s := &Slack{e: e, cfg: e.cfg.Slack, triggers: map[string]*trigger{}, hooks: map[string]*hook{}}
	for _, c := range s.cfg.Channels {
		ch := &channel{Channel: c}
		for _, p := range e.people {
			if p.Slack != "" && (len(c.Members) == 0 || slices.Contains(c.Members, p.Name) ||
				slices.Contains(c.Members, p.Slack)) {
				ch.members = append(ch.members, p.Slack)
			}
		}
		if s.channel(c.ID) != nil || c.ID == "" {
			return nil, fmt.Errorf("emulator: channel %q: its id is empty or taken", c.Name)
		}
		s.channels = append(s.channels, ch)
	}
	for i, p := range e.people {
		if p.Slack != "" {
			s.channels = append(s.channels, &channel{
				Channel: Channel{ID: fmt.Sprintf("D0SANDBOX%02d", i+1), Name: p.Name}, members: []string{p.Slack}, im: p.Slack,
			})
		}
	}
	s.Views, s.Sockets = &SlackViews{e: e, slack: s}, newSlackSockets(s)
	s.api = newSlackAPI(s)
	s.forget()
	return s, nil
}

func (s *Slack) forget() {
	s.messages, s.responses = map[string][]*SlackMessage{}, nil
	s.Views.views, s.Views.homes = nil, map[string]*SlackView{}
}

// URL is the stand-in for https://slack.com/api/; it ends in a slash.
func (s *Slack) URL() string { return s.e.URL() + "/slack/api/" }

func (s *Slack) channel(id string) *channel {
	for _, c := range s.channels {
		if c.ID == id && id != "" {
			return c
		}
	}
	return nil
}

func (s *Slack) find(channel, ts string) *SlackMessage {
	for _, m := range s.messages[channel] {
		if m.TS == ts {
			return m
		}
	}
	return nil
}

// conversation finds a channel by id or name, and a person's direct messages by the person.
func (s *Slack) conversation(key string) *channel {
	for _, c := range s.channels {
		if key != "" && (c.ID == key || c.im == "" && c.Name == strings.TrimPrefix(key, "#")) {
			return c
		}
	}
	if p, err := s.e.person(key); err == nil {
		for _, c := range s.channels {
			if c.im != "" && c.im == p.Slack {
				return c
			}
		}
	}
	return nil
}

// DM returns the id of a person's direct messages with the bot.
func (s *Slack) DM(person string) string {
	p, err := s.e.person(person)
	if err != nil {
		return ""
	}
	if c := s.conversation(p.Slack); c != nil {
		return c.ID
	}
	return ""
}

// Messages returns what was said in a channel (by id or name) or in a person's direct messages (by person), oldest
// first, ephemeral messages and deleted ones included.
func (s *Slack) Messages(channel string) []SlackMessage {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	c := s.conversation(channel)
	if c == nil {
		return nil
	}
	var all []SlackMessage
	for _, m := range s.messages[c.ID] {
		copied := *m
		copied.Edits = slices.Clone(m.Edits)
		all = append(all, copied)
	}
	return all
}

// Message returns one message.
func (s *Slack) Message(channel, ts string) (SlackMessage, bool) {
	for _, m := range s.Messages(channel) {
		if m.TS == ts {
			return m, true
		}
	}
	return SlackMessage{}, false
}

// ChangeChannel changes a channel from now on: the bot is invited, the channel is archived or shared. Its id and
// its members stay what they are.
func (s *Slack) ChangeChannel(channel string, change func(*Channel)) error {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	ch := s.conversation(channel)
	if ch == nil || ch.im != "" {
		return fmt.Errorf("emulator: no Slack channel %q", channel)
	}
	changed := ch.Channel
	change(&changed)
	changed.ID, changed.Members = ch.ID, ch.Members
	ch.Channel = changed
	s.e.bump()
	return nil
}

// Responses returns what was posted to response URLs.
func (s *Slack) Responses() []SlackResponse {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	return slices.Clone(s.responses)
}

// SetDedup makes chat.postMessage recognise a client_msg_id it has seen in the channel and answer with that
// message. The documents promise nothing of the kind, so it is off by default: posting twice gives two messages.
func (s *Slack) SetDedup(on bool) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	s.dedup = on
}

// SetRetries says how long to wait before each repetition of an event that was not answered with 200. Slack's own are
// 0, a minute and five minutes. None, the default, switches repetition off.
func (s *Slack) SetRetries(waits ...time.Duration) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	s.retries = waits
}

// hasScope reports whether the app has a scope.
func (s *Slack) hasScope(scope string) bool { return slices.Contains(s.cfg.Scopes, scope) }

// add stores a message and gives it its ts. The caller holds the lock.
func (s *Slack) add(ch *channel, m SlackMessage) *SlackMessage {
	m.Channel, m.TS, m.At = ch.ID, s.stamp(), s.e.now()
	if m.FromBot {
		m.User = s.cfg.BotUserID
	}
	m.shown = s.dressBlocks(m.Blocks)
	s.messages[ch.ID] = append(s.messages[ch.ID], &m)
	s.e.bump()
	return &m
}

// stamp returns a new Slack ts: seconds and microseconds, never twice and never going back. The caller holds the lock.
func (s *Slack) stamp() string {
	s.lastStamp = max(s.e.now().UnixMicro(), s.lastStamp+1)
	return fmt.Sprintf("%d.%06d", s.lastStamp/1e6, s.lastStamp%1e6)
}

// change edits a message. The caller holds the lock.
func (s *Slack) change(m *SlackMessage, to content, via string) {
	m.Edits = append(m.Edits, SlackEdit{Until: s.e.now(), Text: m.Text, Blocks: m.Blocks, Via: via})
	m.Text, m.Blocks = to.text, to.blocks
	m.shown = s.dressBlocks(to.blocks)
	if to.metadata != nil {
		m.Metadata = to.metadata
	}
	s.e.bump()
}

// dressBlocks adds what Slack adds to blocks it stores: ids where none were given.
func (s *Slack) dressBlocks(raw json.RawMessage) []any {
	parsed, err := parseJSON(raw)
	blocks, ok := parsed.([]any)
	if err != nil || !ok {
		return nil
	}
	for _, b := range blocks {
		block, _ := b.(map[string]any)
		if block == nil {
			continue
		}
		if str(block["block_id"]) == "" {
			block["block_id"] = fmt.Sprintf("b%05d", s.e.next())
		}
		for _, e := range slackElements(block) {
			if slices.Contains(slackInteractive, str(e["type"])) && str(e["action_id"]) == "" {
				e["action_id"] = fmt.Sprintf("a%05d", s.e.next())
			}
		}
	}
	return blocks
}

// messageJSON is a message as Slack describes it.
func (s *Slack) messageJSON(m *SlackMessage) Object {
	o := Object{"type": "message", "user": m.User, "ts": m.TS, "text": m.Text, "team": s.cfg.TeamID}
	if m.FromBot {
		o["bot_id"], o["app_id"] = s.cfg.BotID, s.cfg.AppID
	}
	if len(m.shown) > 0 {
		o["blocks"] = m.shown
	}
	if m.ThreadTS != "" {
		o["thread_ts"] = m.ThreadTS
	}
	if m.Metadata != nil {
		o["metadata"] = m.Metadata
	}
	return o
}

func (s *Slack) teamOf(p Person) string {
	if p.SlackTeam != "" {
		return p.SlackTeam
	}
	return s.cfg.TeamID
}

func slackName(p Person) string { return strings.ReplaceAll(strings.ToLower(p.Name), " ", ".") }

// newHook makes a response_url for what a person did. The caller holds the lock.
func (s *Slack) newHook(kind string, p Person, ch *channel, ts string) string {
	path := fmt.Sprintf("/slack/hooks/%s/%s/%d/%s", kind, s.cfg.TeamID, s.e.next(), randomHex(12))
	h := &hook{user: p.Slack, ts: ts, at: s.e.now()}
	if ch != nil {
		h.channel = ch.ID
	}
	s.hooks[path] = h
	return s.e.baseURL + path
}

// newTrigger makes a trigger_id; view is the id of the view acted in, if any. The caller holds the lock.
func (s *Slack) newTrigger(p Person, view string) string {
	id := fmt.Sprintf("%d.%d.%s", 8_123_456_789_012+s.e.next(), 1_234_567_890, randomHex(16))
	s.triggers[id] = &trigger{user: p.Slack, view: view, at: s.e.now()}
	return id
}

// exchange looks at the trigger that a modal is asked for with. code is empty when it is good. The caller holds the
// lock.
func (s *Slack) exchange(id string) (t *trigger, code string) {
	t = s.triggers[id]
	switch {
	case t == nil:
		return nil, "invalid_trigger_id"
	case t.used:
		return nil, "exchanged_trigger_id"
	case s.e.now().Sub(t.at) > triggerLife:
		return nil, "expired_trigger_id"
	}
	return t, ""
}

// respond does what a post to a response_url says. The caller holds the lock.
func (s *Slack) respond(h *hook, args url.Values) error {
	flag := func(name string) bool { on, _ := strconv.ParseBool(args.Get(name)); return on }
	original := s.find(h.channel, h.ts)
	if flag("delete_original") && original != nil {
		original.Deleted = true
		s.e.bump()
		return nil
	}
	if object, err := parseObject([]byte(args.Get("metadata"))); err == nil && str(object["event_type"]) == "" {
		args.Del("metadata") // empty metadata, as some clients always send, is none
	}
	m, code, more := slackContent(args)
	if code != "" {
		return errors.New(strings.TrimSuffix(code+" "+string(mustJSON(more)), " null"))
	}
	if flag("replace_original") && original != nil {
		s.change(original, m, string(SlackResponseURL))
		return nil
	}
	ch := s.channel(h.channel)
	if ch == nil {
		return errors.New("channel_not_found")
	}
	msg := SlackMessage{ThreadTS: args.Get("thread_ts"), FromBot: true, Text: m.text, Blocks: m.blocks,
		Via: string(SlackResponseURL)}
	switch kind := args.Get("response_type"); kind {
	case "", "ephemeral":
		msg.Ephemeral = h.user
	case "in_channel":
	default:
		return fmt.Errorf("invalid response_type %q", kind)
	}
	s.add(ch, msg)
	return nil
}
