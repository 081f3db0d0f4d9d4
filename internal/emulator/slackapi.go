package emulator

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// slackAPI is what slack.com and hooks.slack.com answer the app.
type slackAPI struct {
	e       *Emulator
	slack   *Slack
	methods map[Endpoint]slackMethod
}

type slackMethod struct {
	args  string // known arguments beside token, separated by spaces
	scope string // what the token needs; "read" and "history" depend on the kind of the channel; empty: nothing
	act   func(c *Call, args url.Values) answer
}

func newSlackAPI(s *Slack) *slackAPI {
	a := &slackAPI{e: s.e, slack: s}
	a.methods = map[Endpoint]slackMethod{
		SlackPostMessage: {"channel text blocks attachments thread_ts reply_broadcast unfurl_links unfurl_media metadata " +
			"parse link_names mrkdwn client_msg_id as_user username icon_emoji icon_url markdown_text",
			"chat:write", a.post},
		SlackUpdate: {"channel ts text blocks attachments metadata parse link_names as_user reply_broadcast file_ids " +
			"markdown_text unfurl_links unfurl_media",
			"chat:write", a.update},
		SlackPostEphemeral: {"channel user text blocks attachments thread_ts parse link_names as_user username icon_emoji " +
			"icon_url markdown_text unfurl_links unfurl_media",
			"chat:write", a.postEphemeral},
		SlackViewsOpen:    {"trigger_id interactivity_pointer view", "", s.Views.open},
		SlackViewsPush:    {"trigger_id interactivity_pointer view", "", s.Views.push},
		SlackViewsUpdate:  {"view_id external_id hash view", "", s.Views.update},
		SlackViewsPublish: {"user_id hash view", "", s.Views.publish},
		SlackOpen:         {"users channel return_im prevent_creation", "im:write", a.open},
		SlackChannelInfo:  {"channel include_locale include_num_members", "read", a.channelInfo},
		SlackHistory: {"channel latest oldest inclusive limit cursor include_all_metadata", "history",
			a.history},
		SlackAuthTest:       {"", "", a.authTest},
		SlackUserInfo:       {"user include_locale", "users:read", a.userInfo},
		SlackConnectionOpen: {"", "connections:write", s.Sockets.newLink},
	}
	return a
}

// serve is https://slack.com/api/.
func (a *slackAPI) serve(w http.ResponseWriter, r *http.Request) {
	endpoint := Endpoint(r.PathValue("method"))
	cfg := a.slack.cfg
	token := cfg.BotToken
	if endpoint == SlackConnectionOpen {
		token = cfg.AppToken
	}
	a.e.serve(api{
		platform: "slack", endpoint: endpoint, bodyLimit: slackMaxBody, tokens: []string{cfg.BotToken, cfg.AppToken},
		authorized: func(r *http.Request, body []byte) bool { return same(slackToken(r, body), token) },
		tooLarge:   func() answer { return slackFail("request_too_large") },
		act:        a.call,
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

func (a *slackAPI) call(c *Call, r *http.Request, body []byte) answer {
	method, ok := a.methods[c.Endpoint]
	if !ok {
		return slackFail("unknown_method")
	}
	args, code := slackArgs(r, body)
	token, socketMethod := slackToken(r, body), c.Endpoint == SlackConnectionOpen
	switch {
	case code != "":
		a.e.breach(c, "schema", code)
		return slackFail(code)
	case token == "":
		return slackFail("not_authed")
	case !c.Authorized && (same(token, a.slack.cfg.BotToken) || same(token, a.slack.cfg.AppToken)):
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
			a.e.breach(c, "unknown_argument", name) // Slack ignores it, which hides a typo
		}
	}
	granted := a.slack.cfg.Scopes
	if socketMethod {
		granted = a.slack.cfg.AppScopes
	}
	needed := a.scopeFor(method.scope, args.Get("channel"))
	var ans answer
	if needed == "" || slices.Contains(granted, needed) {
		ans = method.act(c, args)
	} else {
		ans = slackFail("missing_scope", map[string]any{"needed": needed, "provided": strings.Join(granted, ",")})
	}
	var verdict struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(ans.body, &verdict) == nil && slices.Contains(slackOurFault, verdict.Error) {
		a.e.breach(c, "schema", string(ans.body))
	}
	ans.header = withHeader(ans.header, "X-OAuth-Scopes", strings.Join(granted, ","))
	if needed != "" {
		ans.header = withHeader(ans.header, "X-Accepted-OAuth-Scopes", needed)
	}
	return ans
}

// scopeFor is the scope that a call needs: reading asks for another one by the kind of the channel.
func (a *slackAPI) scopeFor(scope, channel string) string {
	if scope != "read" && scope != "history" {
		return scope
	}
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	kind := "channels:"
	if ch := a.slack.channel(channel); ch != nil && ch.im != "" {
		kind = "im:"
	} else if ch != nil && ch.IsPrivate {
		kind = "groups:"
	}
	return kind + scope
}

// slackOurFault are the refusals that a client which checks its own messages never gets.
var slackOurFault = []string{
	"invalid_blocks", "invalid_blocks_format", "msg_too_long", "msg_blocks_too_long", "no_text", "invalid_arguments",
	"invalid_metadata_format", "metadata_too_large", "too_many_attachments", "view_too_large", "invalid_trigger_id",
	"duplicate_external_id", "push_limit_reached", "invalid_limit", "invalid_cursor",
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

func explain(messages []string) map[string]any {
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
			return m, "invalid_arguments", explain([]string{"[ERROR] attachments must be an array"})
		case len(list) > 100:
			return m, "too_many_attachments", nil
		case len(list) > 0:
			// Attachments are legacy and unchecked here; a stand-in that lets them through would approve what it did not read.
			return m, "invalid_arguments", explain([]string{"[ERROR] attachments are not accepted here, use blocks"})
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
			return m, "invalid_blocks", explain(blockMessages(check.problems))
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
func (a *slackAPI) reachAnyone(id string) (*channel, string) {
	if a.slack.channel(id) == nil {
		for _, c := range a.slack.channels {
			if c.im != "" && c.im == id {
				return a.reach(c.ID)
			}
		}
	}
	return a.reach(id)
}

// reach finds the channel a message is for, and whether the bot may write there.
func (a *slackAPI) reach(id string) (*channel, string) {
	ch := a.slack.channel(id)
	switch {
	case ch == nil || ch.isHidden():
		return nil, "channel_not_found"
	case ch.IsArchived:
		return nil, "is_archived"
	case ch.BotAbsent && !a.slack.hasScope("chat:write.public"):
		return nil, "not_in_channel"
	}
	return ch, ""
}

func (a *slackAPI) post(c *Call, args url.Values) answer {
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	ch, code := a.reachAnyone(args.Get("channel"))
	if code != "" {
		return slackFail(code)
	}
	m, code, more := slackContent(args)
	if code != "" {
		return slackFail(code, more)
	}
	if id := args.Get("client_msg_id"); id != "" && a.slack.dedup {
		for _, old := range a.slack.messages[ch.ID] {
			if old.ClientMsgID == id {
				return slackOK(map[string]any{"channel": ch.ID, "ts": old.TS, "message": a.slack.messageJSON(old),
					"is_duplicate": true})
			}
		}
	}
	if thread := args.Get("thread_ts"); thread != "" && a.slack.find(ch.ID, thread) == nil {
		return slackFail("thread_not_found")
	}
	msg := a.slack.add(ch, SlackMessage{
		ThreadTS: args.Get("thread_ts"), FromBot: true, Text: cutUTF16(m.text, slackMaxText), Blocks: m.blocks,
		Metadata:    m.metadata,
		ClientMsgID: args.Get("client_msg_id"), Via: string(c.Endpoint),
	})
	return slackOK(map[string]any{"channel": ch.ID, "ts": msg.TS, "message": a.slack.messageJSON(msg)})
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

func (a *slackAPI) update(c *Call, args url.Values) answer {
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	ch, code := a.reach(args.Get("channel"))
	if code != "" {
		return slackFail(code)
	}
	m := a.slack.find(ch.ID, args.Get("ts"))
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
	a.slack.change(m, edited, string(c.Endpoint))
	return slackOK(map[string]any{"channel": ch.ID, "ts": m.TS, "text": m.Text, "message": a.slack.messageJSON(m)})
}

func (a *slackAPI) postEphemeral(c *Call, args url.Values) answer {
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	ch, code := a.reach(args.Get("channel"))
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
	msg := a.slack.add(ch, SlackMessage{
		ThreadTS: args.Get("thread_ts"), FromBot: true, Ephemeral: user, Text: cutUTF16(m.text, slackMaxText),
		Blocks: m.blocks, Via: string(c.Endpoint),
	})
	return slackOK(map[string]any{"message_ts": msg.TS})
}

func (a *slackAPI) open(_ *Call, args url.Values) answer {
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	users := strings.Split(args.Get("users"), ",")
	if id := args.Get("channel"); id != "" {
		if ch := a.slack.channel(id); ch == nil || ch.im == "" {
			return slackFail("channel_not_found")
		}
		return slackOK(map[string]any{"channel": map[string]any{"id": id}})
	}
	if len(users) != 1 { // group conversations are none of this stand-in's
		return slackFail("invalid_arguments", explain([]string{"[ERROR] exactly one user is expected here"}))
	}
	ch, code := a.reachAnyone(users[0])
	if code != "" || ch.im != users[0] {
		return slackFail("user_not_found")
	}
	return slackOK(map[string]any{"channel": map[string]any{"id": ch.ID}})
}

func (a *slackAPI) channelInfo(_ *Call, args url.Values) answer {
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	ch := a.slack.channel(args.Get("channel"))
	if ch == nil || ch.isHidden() {
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

// history is conversations.history: newest first, without replies in threads and without what only one person
// sees.
func (a *slackAPI) history(_ *Call, args url.Values) answer {
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	ch := a.slack.channel(args.Get("channel"))
	switch {
	case ch == nil || ch.isHidden():
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
	for _, m := range slices.Backward(a.slack.messages[ch.ID]) {
		edge := m.TS == latest || m.TS == oldest
		if m.Deleted || m.Ephemeral != "" || m.ThreadTS != "" && m.ThreadTS != m.TS ||
			latest != "" && m.TS > latest || oldest != "" && m.TS < oldest || edge && !inclusive {
			continue
		}
		if more = len(found) == limit; more {
			break
		}
		o := a.slack.messageJSON(m)
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

func (a *slackAPI) authTest(*Call, url.Values) answer {
	cfg := a.slack.cfg
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

func (a *slackAPI) userInfo(_ *Call, args url.Values) answer {
	id := args.Get("user")
	p, err := a.e.person(id)
	if id == a.slack.cfg.BotUserID {
		p, err = Person{Name: a.slack.cfg.BotName, Slack: id}, nil
	}
	if err != nil || p.Slack != id {
		return slackFail("user_not_found")
	}
	return slackOK(map[string]any{"user": map[string]any{
		"id": id, "team_id": a.slack.teamOf(p), "name": slackName(p), "real_name": p.Name, "deleted": false,
		"is_bot":      id == a.slack.cfg.BotUserID,
		"is_stranger": p.SlackTeam != "", "tz": "Etc/UTC", "profile": map[string]any{"real_name": p.Name,
			"display_name": p.Name},
	}})
}

// serveHook is https://hooks.slack.com/: the address itself is the secret.
func (a *slackAPI) serveHook(w http.ResponseWriter, r *http.Request) {
	a.e.serve(api{
		platform: "slack", endpoint: SlackResponseURL, bodyLimit: slackMaxBody,
		tooLarge: func() answer { return hookRefusal(http.StatusBadRequest, "invalid_payload") },
		act:      a.takeResponse,
	}, w, r)
}

func hookRefusal(status int, text string) answer {
	return answer{status, map[string]string{"Content-Type": "text/plain; charset=utf-8"}, []byte(text)}
}

func (a *slackAPI) takeResponse(c *Call, r *http.Request, body []byte) answer {
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	h := a.slack.hooks[r.URL.Path]
	if h == nil || r.Method != http.MethodPost {
		return hookRefusal(http.StatusNotFound, "no_service")
	}
	note := func(ans answer) answer {
		a.slack.responses = append(a.slack.responses, SlackResponse{
			At: a.e.now(), User: h.user, Channel: h.channel, TS: h.ts, Body: bytes.Clone(body), Status: ans.status,
		})
		a.e.bump()
		return ans
	}
	if h.uses >= hookUses {
		return note(hookRefusal(http.StatusNotFound, "used_url"))
	}
	if a.e.now().Sub(h.at) > hookLife {
		return note(hookRefusal(http.StatusNotFound, "expired_url"))
	}
	args, code := slackArgs(r, body)
	if code == "" && !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		code = "invalid_payload"
	}
	if code != "" {
		a.e.violate(c, "schema", code)
		return note(hookRefusal(http.StatusBadRequest, code))
	}
	if err := a.slack.respond(h, args); err != nil {
		a.e.violate(c, "schema", err.Error())
		return note(hookRefusal(http.StatusBadRequest, err.Error()))
	}
	h.uses++
	return note(answer{http.StatusOK, map[string]string{"Content-Type": "text/plain; charset=utf-8"}, []byte("ok")})
}
