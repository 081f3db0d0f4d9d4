package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
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

type slackState struct {
	webhook   string
	channels  []*channel
	messages  map[string][]*SlackMessage // by channel id
	views     []*SlackView
	homes     map[string]*SlackView // by Slack user id
	triggers  map[string]*trigger
	hooks     map[string]*hook // by path
	responses []SlackResponse
	dedup     bool
	retries   []time.Duration

	mode      socketMode
	sockets   []*socket // open, oldest first
	greeting  int       // connections that are being greeted
	turn      int       // whose turn it is
	tickets   map[string]time.Time
	envelopes map[string]*envelope
}

type channel struct {
	Channel
	members []string // Slack ids
	im      string   // the other side of direct messages
}

// hidden reports whether the bot cannot know of it: a private channel that it was not invited to.
func (c *channel) hidden() bool { return c.IsPrivate && c.BotAbsent }

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

func (st *slackState) init(cfg SlackConfig, people []Person) error {
	for _, c := range cfg.Channels {
		ch := &channel{Channel: c}
		for _, p := range people {
			if p.Slack != "" && (len(c.Members) == 0 || slices.Contains(c.Members, p.Name) ||
				slices.Contains(c.Members, p.Slack)) {
				ch.members = append(ch.members, p.Slack)
			}
		}
		if st.channel(c.ID) != nil || c.ID == "" {
			return fmt.Errorf("emulator: channel %q: its id is empty or taken", c.Name)
		}
		st.channels = append(st.channels, ch)
	}
	for i, p := range people {
		if p.Slack != "" {
			st.channels = append(st.channels, &channel{
				Channel: Channel{ID: fmt.Sprintf("D0SANDBOX%02d", i+1), Name: p.Name}, members: []string{p.Slack}, im: p.Slack,
			})
		}
	}
	st.triggers = map[string]*trigger{}
	st.hooks = map[string]*hook{}
	st.tickets = map[string]time.Time{}
	st.envelopes = map[string]*envelope{}
	if cfg.SocketMode {
		st.mode = socketModeOn
	}
	st.forget()
	return nil
}

func (st *slackState) forget() {
	st.messages = map[string][]*SlackMessage{}
	st.views, st.responses, st.homes = nil, nil, map[string]*SlackView{}
}

func (st *slackState) channel(id string) *channel {
	for _, c := range st.channels {
		if c.ID == id && id != "" {
			return c
		}
	}
	return nil
}

func (st *slackState) find(channel, ts string) *SlackMessage {
	for _, m := range st.messages[channel] {
		if m.TS == ts {
			return m
		}
	}
	return nil
}

// conversation finds a channel by id or name, and a person's direct messages by the person.
func (s *Emulator) conversation(key string) *channel {
	for _, c := range s.slack.channels {
		if key != "" && (c.ID == key || c.im == "" && c.Name == strings.TrimPrefix(key, "#")) {
			return c
		}
	}
	if p, err := s.person(key); err == nil {
		for _, c := range s.slack.channels {
			if c.im != "" && c.im == p.Slack {
				return c
			}
		}
	}
	return nil
}

// DM returns the id of a person's direct messages with the bot.
func (s *Emulator) DM(person string) string {
	p, err := s.person(person)
	if err != nil {
		return ""
	}
	if c := s.conversation(p.Slack); c != nil {
		return c.ID
	}
	return ""
}

// SlackMessages returns what was said in a channel (by id or name) or in a person's direct messages (by person), oldest
// first, ephemeral messages and deleted ones included.
func (s *Emulator) SlackMessages(channel string) []SlackMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conversation(channel)
	if c == nil {
		return nil
	}
	var all []SlackMessage
	for _, m := range s.slack.messages[c.ID] {
		copied := *m
		copied.Edits = slices.Clone(m.Edits)
		all = append(all, copied)
	}
	return all
}

// WaitSlack waits until the app has at least n messages in a channel, and returns the app's messages.
func (s *Emulator) WaitSlack(ctx context.Context, channel string, n int) ([]SlackMessage, error) {
	var sent []SlackMessage
	err := s.WaitFor(ctx, func() bool {
		sent = sent[:0:0]
		for _, m := range s.SlackMessages(channel) {
			if m.FromBot {
				sent = append(sent, m)
			}
		}
		return len(sent) >= n
	})
	return sent, err
}

// SlackMessage returns one message.
func (s *Emulator) SlackMessage(channel, ts string) (SlackMessage, bool) {
	for _, m := range s.SlackMessages(channel) {
		if m.TS == ts {
			return m, true
		}
	}
	return SlackMessage{}, false
}

// ChangeSlackChannel changes a channel from now on: the bot is invited, the channel is archived or shared. Its id and
// its members stay what they are.
func (s *Emulator) ChangeSlackChannel(channel string, change func(*Channel)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.conversation(channel)
	if ch == nil || ch.im != "" {
		return fmt.Errorf("emulator: no Slack channel %q", channel)
	}
	changed := ch.Channel
	change(&changed)
	changed.ID, changed.Members = ch.ID, ch.Members
	ch.Channel = changed
	s.bump()
	return nil
}

// Responses returns what was posted to response URLs.
func (s *Emulator) Responses() []SlackResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.slack.responses)
}

// SetSlackDedup makes chat.postMessage recognise a client_msg_id it has seen in the channel and answer with that
// message. The documents promise nothing of the kind, so it is off by default: posting twice gives two messages.
func (s *Emulator) SetSlackDedup(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slack.dedup = on
}

// SetSlackRetries says how long to wait before each repetition of an event that was not answered with 200. Slack's own
// are
// 0, a minute and five minutes. None, the default, switches repetition off.
func (s *Emulator) SetSlackRetries(waits ...time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slack.retries = waits
}

type slackMethod struct {
	args  string // known arguments beside token, separated by spaces
	scope string // what the token needs; "read" and "history" depend on the kind of the channel; empty: nothing
	act   func(s *Emulator, c *Call, args url.Values) answer
}

var slackMethods = map[Endpoint]slackMethod{
	SlackPostMessage: {"channel text blocks attachments thread_ts reply_broadcast unfurl_links unfurl_media metadata " +
		"parse link_names mrkdwn client_msg_id as_user username icon_emoji icon_url markdown_text",
		"chat:write", (*Emulator).slackPost},
	SlackUpdate: {"channel ts text blocks attachments metadata parse link_names as_user reply_broadcast file_ids " +
		"markdown_text unfurl_links unfurl_media",
		"chat:write", (*Emulator).slackUpdate},
	SlackPostEphemeral: {"channel user text blocks attachments thread_ts parse link_names as_user username icon_emoji " +
		"icon_url markdown_text unfurl_links unfurl_media",
		"chat:write", (*Emulator).slackEphemeral},
	SlackViewsOpen:    {"trigger_id interactivity_pointer view", "", (*Emulator).slackViewsOpen},
	SlackViewsPush:    {"trigger_id interactivity_pointer view", "", (*Emulator).slackViewsPush},
	SlackViewsUpdate:  {"view_id external_id hash view", "", (*Emulator).slackViewsUpdate},
	SlackViewsPublish: {"user_id hash view", "", (*Emulator).slackViewsPublish},
	SlackOpen:         {"users channel return_im prevent_creation", "im:write", (*Emulator).slackOpen},
	SlackChannelInfo:  {"channel include_locale include_num_members", "read", (*Emulator).slackChannelInfo},
	SlackHistory: {"channel latest oldest inclusive limit cursor include_all_metadata", "history",
		(*Emulator).slackHistory},
	SlackAuthTest:       {"", "", (*Emulator).slackAuthTest},
	SlackUserInfo:       {"user include_locale", "users:read", (*Emulator).slackUserInfo},
	SlackConnectionOpen: {"", "connections:write", (*Emulator).slackConnectionsOpen},
}

// serveSlack is https://slack.com/api/.
func (s *Emulator) serveSlack(w http.ResponseWriter, r *http.Request) {
	endpoint := Endpoint(r.PathValue("method"))
	cfg := s.cfg.Slack
	token := cfg.BotToken
	if endpoint == SlackConnectionOpen {
		token = cfg.AppToken
	}
	s.serve(api{
		platform: "slack", endpoint: endpoint, bodyLimit: slackMaxBody, tokens: []string{cfg.BotToken, cfg.AppToken},
		authorized: func(r *http.Request, body []byte) bool { return same(slackToken(r, body), token) },
		tooLarge:   func() answer { return slackFail("request_too_large") },
		act:        s.slackCall,
	}, w, r)
}

func slackToken(r *http.Request, body []byte) string {
	if token := bearer(r); token != "" {
		return token
	}
	if isForm(r.Header.Get("Content-Type")) {
		if form, err := url.ParseQuery(string(body)); err == nil && form.Get("token") != "" {
			return form.Get("token")
		}
	}
	return r.URL.Query().Get("token")
}

func (s *Emulator) slackCall(c *Call, r *http.Request, body []byte) answer {
	method, ok := slackMethods[c.Endpoint]
	if !ok {
		return slackFail("unknown_method")
	}
	args, code := slackArgs(r, body)
	token, socketMethod := slackToken(r, body), c.Endpoint == SlackConnectionOpen
	switch {
	case code != "":
		s.breach(c, "schema", code)
		return slackFail(code)
	case token == "":
		return slackFail("not_authed")
	case !c.Authorized && (same(token, s.cfg.Slack.BotToken) || same(token, s.cfg.Slack.AppToken)):
		return slackFail("not_allowed_token_type") // the app-level token opens sockets, the bot's does the rest
	case !c.Authorized:
		return slackFail("invalid_auth")
	case socketMethod && r.Method != http.MethodPost:
		return slackFail("insecure_request")
	case socketMethod && bearer(r) == "":
		return slackFail("missing_args") // this one method takes its token in the header only
	}
	known := append(strings.Fields(method.args), "token")
	for name := range args {
		if !slices.Contains(known, name) {
			s.breach(c, "unknown_argument", name) // Slack ignores it, which hides a typo
		}
	}
	granted := s.cfg.Slack.Scopes
	if socketMethod {
		granted = s.cfg.Slack.AppScopes
	}
	needed := s.scopeFor(method.scope, args.Get("channel"))
	var ans answer
	if needed == "" || slices.Contains(granted, needed) {
		ans = method.act(s, c, args)
	} else {
		ans = slackFail("missing_scope", map[string]any{"needed": needed, "provided": strings.Join(granted, ",")})
	}
	var verdict struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(ans.body, &verdict) == nil && slices.Contains(slackOurFault, verdict.Error) {
		s.breach(c, "schema", string(ans.body))
	}
	ans.header = withHeader(ans.header, "X-OAuth-Scopes", strings.Join(granted, ","))
	if needed != "" {
		ans.header = withHeader(ans.header, "X-Accepted-OAuth-Scopes", needed)
	}
	return ans
}

// scopeFor is the scope that a call needs: reading asks for another one by the kind of the channel.
func (s *Emulator) scopeFor(scope, channel string) string {
	if scope != "read" && scope != "history" {
		return scope
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := "channels:"
	if ch := s.slack.channel(channel); ch != nil && ch.im != "" {
		kind = "im:"
	} else if ch != nil && ch.IsPrivate {
		kind = "groups:"
	}
	return kind + scope
}

// granted reports whether the app has a scope.
func (s *Emulator) granted(scope string) bool { return slices.Contains(s.cfg.Slack.Scopes, scope) }

// slackOurFault are the refusals that a client which checks its own messages never gets.
var slackOurFault = []string{
	"invalid_blocks", "invalid_blocks_format", "msg_too_long", "msg_blocks_too_long", "no_text", "invalid_arguments",
	"invalid_metadata_format", "metadata_too_large", "too_many_attachments", "view_too_large", "invalid_trigger_id",
	"duplicate_external_id", "push_limit_reached", "invalid_limit", "invalid_cursor",
}

func (s *Emulator) breach(c *Call, rule, detail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violate(c, rule, detail)
}

// slackArgs reads the arguments of a form or a JSON body. Values that are JSON stay JSON text, as in a form.
func slackArgs(r *http.Request, body []byte) (url.Values, string) {
	args := r.URL.Query()
	if len(body) == 0 {
		return args, ""
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err != nil:
		return nil, "invalid_post_type"
	case media == "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, "invalid_form_data"
		}
		for k, v := range form {
			args[k] = v
		}
	case media == "application/json":
		if _, err := parseObject(body); err != nil {
			return nil, "invalid_json"
		}
		var raw map[string]json.RawMessage
		if json.Unmarshal(body, &raw) != nil {
			return nil, "invalid_json"
		}
		for k, v := range raw {
			var text string
			switch {
			case json.Unmarshal(v, &text) == nil && !bytes.Equal(v, []byte("null")):
				args.Set(k, text)
			case !bytes.Equal(v, []byte("null")):
				args.Set(k, string(v))
			}
		}
	default:
		return nil, "invalid_post_type"
	}
	return args, ""
}

func slackFail(code string, more ...map[string]any) answer {
	body := map[string]any{"ok": false, "error": code}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	return slackJSON(body)
}

func slackOK(body map[string]any) answer {
	body["ok"] = true
	return slackJSON(body)
}

func slackJSON(body map[string]any) answer {
	return answer{http.StatusOK, map[string]string{"Content-Type": "application/json; charset=utf-8"}, mustJSON(body)}
}

func explained(messages []string) map[string]any {
	return map[string]any{"response_metadata": map[string]any{"messages": messages}}
}

// content is the part of a message that post, update and response_url share.
type content struct {
	text     string
	blocks   json.RawMessage // nil: not given; [] is given
	metadata json.RawMessage
}

// slackContent reads and checks it. code is empty when all is well.
func slackContent(args url.Values) (m content, code string, more map[string]any) {
	m.text = args.Get("text")
	if attachments := args.Get("attachments"); attachments != "" {
		parsed, err := parseJSON([]byte(attachments))
		list, ok := parsed.([]any)
		switch {
		case err != nil || !ok:
			return m, "invalid_arguments", explained([]string{"[ERROR] attachments must be an array"})
		case len(list) > 100:
			return m, "too_many_attachments", nil
		case len(list) > 0:
			// Attachments are legacy and unchecked here; a stand-in that lets them through would approve what it did not read.
			return m, "invalid_arguments", explained([]string{"[ERROR] attachments are not accepted here, use blocks"})
		}
	}
	if args.Has("blocks") && args.Get("blocks") != "" {
		raw := []byte(args.Get("blocks"))
		parsed, err := parseJSON(raw)
		if _, ok := parsed.([]any); err != nil || !ok {
			return m, "invalid_blocks_format", nil
		}
		check := checkBlocks(parsed)
		if len(check.problems) > 0 {
			return m, "invalid_blocks", explained(blockMessages(check.problems))
		}
		if slackLength(parsed) >= slackMaxBlocksChars {
			return m, "msg_blocks_too_long", nil
		}
		m.blocks = raw
	}
	if raw := args.Get("metadata"); raw != "" {
		object, err := parseObject([]byte(raw))
		_, isObject := object["event_payload"].(map[string]any)
		switch {
		case err != nil || len(object) > 0 && (str(object["event_type"]) == "" || !isObject):
			return m, "invalid_metadata_format", nil
		case len(raw) > slackMaxMetadata:
			return m, "metadata_too_large", nil
		case len(object) > 0:
			m.metadata = json.RawMessage(raw)
		}
	}
	if m.text == "" && (len(m.blocks) == 0 || string(m.blocks) == "[]") {
		return m, "no_text", nil
	}
	return m, "", nil
}

// reachAnyone is reach for calls that also take a user's id, for the conversation with that user.
func (s *Emulator) reachAnyone(id string) (*channel, string) {
	if s.slack.channel(id) == nil {
		for _, c := range s.slack.channels {
			if c.im != "" && c.im == id {
				return s.reach(c.ID)
			}
		}
	}
	return s.reach(id)
}

// reach finds the channel a message is for, and whether the bot may write there.
func (s *Emulator) reach(id string) (*channel, string) {
	ch := s.slack.channel(id)
	switch {
	case ch == nil || ch.hidden():
		return nil, "channel_not_found"
	case ch.IsArchived:
		return nil, "is_archived"
	case ch.BotAbsent && !s.granted("chat:write.public"):
		return nil, "not_in_channel"
	}
	return ch, ""
}

func (s *Emulator) slackPost(c *Call, args url.Values) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, code := s.reachAnyone(args.Get("channel"))
	if code != "" {
		return slackFail(code)
	}
	m, code, more := slackContent(args)
	if code != "" {
		return slackFail(code, more)
	}
	if id := args.Get("client_msg_id"); id != "" && s.slack.dedup {
		for _, old := range s.slack.messages[ch.ID] {
			if old.ClientMsgID == id {
				return slackOK(map[string]any{"channel": ch.ID, "ts": old.TS, "message": s.messageJSON(old), "is_duplicate": true})
			}
		}
	}
	if thread := args.Get("thread_ts"); thread != "" && s.slack.find(ch.ID, thread) == nil {
		return slackFail("thread_not_found")
	}
	msg := s.slackAdd(ch, SlackMessage{
		ThreadTS: args.Get("thread_ts"), FromBot: true, Text: cutUTF16(m.text, slackMaxText), Blocks: m.blocks,
		Metadata:    m.metadata,
		ClientMsgID: args.Get("client_msg_id"), Via: string(c.Endpoint),
	})
	return slackOK(map[string]any{"channel": ch.ID, "ts": msg.TS, "message": s.messageJSON(msg)})
}

// slackAdd stores a message and gives it its ts. The caller holds s.mu.
func (s *Emulator) slackAdd(ch *channel, m SlackMessage) *SlackMessage {
	m.Channel, m.TS, m.At = ch.ID, s.stamp(), s.now()
	if m.FromBot {
		m.User = s.cfg.Slack.BotUserID
	}
	m.shown = s.dressBlocks(m.Blocks)
	s.slack.messages[ch.ID] = append(s.slack.messages[ch.ID], &m)
	s.bump()
	return &m
}

// slackChange edits a message. The caller holds s.mu.
func (s *Emulator) slackChange(m *SlackMessage, to content, via string) {
	m.Edits = append(m.Edits, SlackEdit{Until: s.now(), Text: m.Text, Blocks: m.Blocks, Via: via})
	m.Text, m.Blocks = to.text, to.blocks
	m.shown = s.dressBlocks(to.blocks)
	if to.metadata != nil {
		m.Metadata = to.metadata
	}
	s.bump()
}

// messageJSON is a message as Slack describes it.
func (s *Emulator) messageJSON(m *SlackMessage) Object {
	o := Object{"type": "message", "user": m.User, "ts": m.TS, "text": m.Text, "team": s.cfg.Slack.TeamID}
	if m.FromBot {
		o["bot_id"], o["app_id"] = s.cfg.Slack.BotID, s.cfg.Slack.AppID
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

func cutUTF16(text string, limit int) string {
	if utf16Len(text) <= limit {
		return text
	}
	n := 0
	for i, r := range text {
		if r > 0xFFFF {
			n++
		}
		if n++; n > limit {
			return text[:i]
		}
	}
	return text
}

func (s *Emulator) slackUpdate(c *Call, args url.Values) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, code := s.reach(args.Get("channel"))
	if code != "" {
		return slackFail(code)
	}
	m := s.slack.find(ch.ID, args.Get("ts"))
	switch {
	case m == nil || m.Deleted:
		return slackFail("message_not_found")
	case !m.FromBot || m.Ephemeral != "":
		return slackFail("cant_update_message")
	}
	edited, code, more := slackContent(args)
	if code != "" {
		return slackFail(code, more)
	}
	if utf16Len(edited.text) > slackMaxUpdateText {
		return slackFail("msg_too_long")
	}
	s.slackChange(m, edited, string(c.Endpoint))
	return slackOK(map[string]any{"channel": ch.ID, "ts": m.TS, "text": m.Text, "message": s.messageJSON(m)})
}

func (s *Emulator) slackEphemeral(c *Call, args url.Values) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, code := s.reach(args.Get("channel"))
	if code != "" {
		return slackFail(code)
	}
	user := args.Get("user")
	if !slices.Contains(ch.members, user) {
		return slackFail("user_not_in_channel")
	}
	m, code, more := slackContent(args)
	if code != "" {
		return slackFail(code, more)
	}
	msg := s.slackAdd(ch, SlackMessage{
		ThreadTS: args.Get("thread_ts"), FromBot: true, Ephemeral: user, Text: cutUTF16(m.text, slackMaxText),
		Blocks: m.blocks, Via: string(c.Endpoint),
	})
	return slackOK(map[string]any{"message_ts": msg.TS})
}

func (s *Emulator) slackOpen(_ *Call, args url.Values) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	users := strings.Split(args.Get("users"), ",")
	if id := args.Get("channel"); id != "" {
		if ch := s.slack.channel(id); ch == nil || ch.im == "" {
			return slackFail("channel_not_found")
		}
		return slackOK(map[string]any{"channel": map[string]any{"id": id}})
	}
	if len(users) != 1 { // group conversations are none of this stand-in's
		return slackFail("invalid_arguments", explained([]string{"[ERROR] exactly one user is expected here"}))
	}
	ch, code := s.reachAnyone(users[0])
	if code != "" || ch.im != users[0] {
		return slackFail("user_not_found")
	}
	return slackOK(map[string]any{"channel": map[string]any{"id": ch.ID}})
}

func (s *Emulator) slackChannelInfo(_ *Call, args url.Values) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.slack.channel(args.Get("channel"))
	if ch == nil || ch.hidden() {
		return slackFail("channel_not_found")
	}
	info := map[string]any{"id": ch.ID, "is_archived": ch.IsArchived, "is_ext_shared": ch.IsExtShared,
		"is_shared": ch.IsExtShared, "is_im": ch.im != ""}
	if ch.im != "" {
		info["user"] = ch.im
	} else {
		info["name"], info["name_normalized"] = ch.Name, ch.Name
		info["is_channel"], info["is_group"], info["is_private"], info["is_member"] = true, false, ch.IsPrivate, !ch.BotAbsent
		info["is_org_shared"], info["is_pending_ext_shared"] = false, false
	}
	return slackOK(map[string]any{"channel": info})
}

// slackHistory is conversations.history: newest first, without replies in threads and without what only one person
// sees.
func (s *Emulator) slackHistory(_ *Call, args url.Values) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.slack.channel(args.Get("channel"))
	switch {
	case ch == nil || ch.hidden():
		return slackFail("channel_not_found")
	case ch.BotAbsent:
		return slackFail("not_in_channel")
	}
	limit := 100
	if given := args.Get("limit"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > 999 {
			return slackFail("invalid_limit")
		}
		limit = n
	}
	latest, oldest := args.Get("latest"), args.Get("oldest")
	inclusive, _ := strconv.ParseBool(args.Get("inclusive"))
	metadata, _ := strconv.ParseBool(args.Get("include_all_metadata"))
	if cursor := args.Get("cursor"); cursor != "" {
		ts, ok := strings.CutPrefix(cursor, historyCursor)
		if !ok {
			return slackFail("invalid_cursor")
		}
		latest = ts
	}
	found, more := []any{}, false
	for _, m := range slices.Backward(s.slack.messages[ch.ID]) {
		edge := m.TS == latest || m.TS == oldest
		if m.Deleted || m.Ephemeral != "" || m.ThreadTS != "" && m.ThreadTS != m.TS ||
			latest != "" && m.TS > latest || oldest != "" && m.TS < oldest || edge && !inclusive {
			continue
		}
		if more = len(found) == limit; more {
			break
		}
		o := s.messageJSON(m)
		if !metadata {
			delete(o, "metadata")
		}
		found = append(found, o)
	}
	body := map[string]any{"messages": found, "has_more": more, "pin_count": 0}
	if more {
		last, _ := found[len(found)-1].(Object)
		body["response_metadata"] = map[string]any{"next_cursor": historyCursor + str(last["ts"])}
	}
	return slackOK(body)
}

// historyCursor begins the cursors given out, which name the last message shown.
const historyCursor = "after:"

func (s *Emulator) slackAuthTest(*Call, url.Values) answer {
	cfg := s.cfg.Slack
	body := map[string]any{
		"url": "https://sandbox.slack.com/", "team": cfg.TeamName, "team_id": cfg.TeamID, "user": cfg.BotName,
		"user_id": cfg.BotUserID, "bot_id": cfg.BotID,
		"is_enterprise_install": cfg.EnterpriseID != "",
	}
	if cfg.EnterpriseID != "" {
		body["enterprise_id"] = cfg.EnterpriseID
	}
	return slackOK(body)
}

func (s *Emulator) slackUserInfo(_ *Call, args url.Values) answer {
	id := args.Get("user")
	p, err := s.person(id)
	if id == s.cfg.Slack.BotUserID {
		p, err = Person{Name: s.cfg.Slack.BotName, Slack: id}, nil
	}
	if err != nil || p.Slack != id {
		return slackFail("user_not_found")
	}
	return slackOK(map[string]any{"user": map[string]any{
		"id": id, "team_id": s.teamOf(p), "name": slackName(p), "real_name": p.Name, "deleted": false,
		"is_bot":      id == s.cfg.Slack.BotUserID,
		"is_stranger": p.SlackTeam != "", "tz": "Etc/UTC", "profile": map[string]any{"real_name": p.Name,
			"display_name": p.Name},
	}})
}

func (s *Emulator) teamOf(p Person) string {
	if p.SlackTeam != "" {
		return p.SlackTeam
	}
	return s.cfg.Slack.TeamID
}

func slackName(p Person) string { return strings.ReplaceAll(strings.ToLower(p.Name), " ", ".") }

// newHook makes a response_url for what a person did. The caller holds s.mu.
func (s *Emulator) newHook(kind string, p Person, ch *channel, ts string) string {
	path := fmt.Sprintf("/slack/hooks/%s/%s/%d/%s", kind, s.cfg.Slack.TeamID, s.next(), randomHex(12))
	h := &hook{user: p.Slack, ts: ts, at: s.now()}
	if ch != nil {
		h.channel = ch.ID
	}
	s.slack.hooks[path] = h
	return s.baseURL + path
}

// newTrigger makes a trigger_id; view is the id of the view acted in, if any. The caller holds s.mu.
func (s *Emulator) newTrigger(p Person, view string) string {
	id := fmt.Sprintf("%d.%d.%s", 8_123_456_789_012+s.next(), 1_234_567_890, randomHex(16))
	s.slack.triggers[id] = &trigger{user: p.Slack, view: view, at: s.now()}
	return id
}

// serveSlackHook is https://hooks.slack.com/: the address itself is the secret.
func (s *Emulator) serveSlackHook(w http.ResponseWriter, r *http.Request) {
	s.serve(api{
		platform: "slack", endpoint: SlackResponseURL, bodyLimit: slackMaxBody,
		tooLarge: func() answer { return hookRefusal(http.StatusBadRequest, "invalid_payload") },
		act:      s.slackRespond,
	}, w, r)
}

func hookRefusal(status int, text string) answer {
	return answer{status, map[string]string{"Content-Type": "text/plain; charset=utf-8"}, []byte(text)}
}

func (s *Emulator) slackRespond(c *Call, r *http.Request, body []byte) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.slack.hooks[r.URL.Path]
	if h == nil || r.Method != http.MethodPost {
		return hookRefusal(http.StatusNotFound, "no_service")
	}
	note := func(a answer) answer {
		s.slack.responses = append(s.slack.responses, SlackResponse{
			At: s.now(), User: h.user, Channel: h.channel, TS: h.ts, Body: bytes.Clone(body), Status: a.status,
		})
		s.bump()
		return a
	}
	if h.uses >= hookUses {
		return note(hookRefusal(http.StatusNotFound, "used_url"))
	}
	if s.now().Sub(h.at) > hookLife {
		return note(hookRefusal(http.StatusNotFound, "expired_url"))
	}
	args, code := slackArgs(r, body)
	if code == "" && !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		code = "invalid_payload"
	}
	if code != "" {
		s.violate(c, "schema", code)
		return note(hookRefusal(http.StatusBadRequest, code))
	}
	if err := s.respond(h, args); err != nil {
		s.violate(c, "schema", err.Error())
		return note(hookRefusal(http.StatusBadRequest, err.Error()))
	}
	h.uses++
	return note(answer{http.StatusOK, map[string]string{"Content-Type": "text/plain; charset=utf-8"}, []byte("ok")})
}

// respond does what a post to a response_url says. The caller holds s.mu.
func (s *Emulator) respond(h *hook, args url.Values) error {
	flag := func(name string) bool { on, _ := strconv.ParseBool(args.Get(name)); return on }
	original := s.slack.find(h.channel, h.ts)
	if flag("delete_original") && original != nil {
		original.Deleted = true
		s.bump()
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
		s.slackChange(original, m, string(SlackResponseURL))
		return nil
	}
	ch := s.slack.channel(h.channel)
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
	s.slackAdd(ch, msg)
	return nil
}
