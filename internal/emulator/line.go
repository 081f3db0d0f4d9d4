package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// LINEMessage is one message in a one-to-one chat with the bot.
type LINEMessage struct {
	ID         string
	QuoteToken string
	At         time.Time
	FromBot    bool
	JSON       json.RawMessage // as really sent by the bot; for a person, the message of the webhook event
	Text       string          // the text, or a card's altText
	Quoted     string          // the id of the message that this one quotes
	Via        string          // "push", "reply", "message", or "postback" for a tap's displayText
	RetryKey   string          // of the push
	RequestID  string          // X-Line-Request-Id of the push or reply

	// QuickReplies are the suggestions shown under it. They are gone once one was tapped or anything follows.
	QuickReplies []LINEQuickReply
}

// LINEQuickReply is one suggestion under a message.
type LINEQuickReply struct {
	Label  string
	Image  string // the address of its icon; empty: none
	Action json.RawMessage
}

// LINEQuotaNone switches the monthly quota off.
const LINEQuotaNone = -1

// LINE is the official account and the phones of those who talk to it.
type LINE struct {
	e   *Emulator
	cfg LINEConfig
	api *lineAPI

	// Guarded by the Emulator's lock.
	webhook     string
	chats       map[string][]*LINEMessage // by LINE user id
	quotes      map[string]quoteRef       // by quote token
	replies     map[string]*replyToken
	blocked     map[string]bool
	loading     map[string]time.Time // dots are shown until then
	drafts      map[string]string    // what stands in the open keyboard's field
	inactive    bool                 // "Use webhook" is switched off
	quota       int
	used        map[string]int // by month
	redeliver   int
	redeliverIn time.Duration
}

type quoteRef struct{ user, message string }

type replyToken struct {
	user      string
	issued    time.Time
	delivered time.Time // last, counting redeliveries
	used      bool
}

// retryKey is what LINE remembers of a key, and what it does not but a test wants to know.
type retryKey struct {
	first    time.Time
	body     []byte
	accepted bool
	request  string // X-Line-Request-Id of the accepted request
	sent     json.RawMessage
}

const (
	retryKeyLife   = 24 * time.Hour
	replyTokenLife = time.Minute
	replyTokenMax  = 20 * time.Minute
	lineBadToken   = "Authentication failed due to the following reason: invalid token. Confirm that the access token " +
		"in the authorization header is valid."
)

var uuidShape = regexp.MustCompile(`^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$`)

// lineAPI is what api.line.me answers the bot.
type lineAPI struct {
	e    *Emulator
	line *LINE
	keys map[string]*retryKey // guarded by the Emulator's lock
}

func newLINE(e *Emulator) *LINE {
	l := &LINE{e: e, cfg: e.cfg.LINE, blocked: map[string]bool{}, used: map[string]int{}, quota: LINEQuotaNone}
	l.api = &lineAPI{e: e, line: l, keys: map[string]*retryKey{}}
	l.forget()
	return l
}

func (l *LINE) forget() {
	l.chats = map[string][]*LINEMessage{}
	l.quotes = map[string]quoteRef{}
	l.replies = map[string]*replyToken{}
	l.loading = map[string]time.Time{}
	l.drafts = map[string]string{}
}

// Chat returns a person's chat with the bot, oldest first. The person is named by name or LINE id.
func (l *LINE) Chat(person string) []LINEMessage {
	p, err := l.e.person(person)
	if err != nil {
		return nil
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	var chat []LINEMessage
	for _, m := range l.chats[p.LINE] {
		chat = append(chat, *m)
	}
	return chat
}

// Wait waits until the bot has sent a person at least n messages, and returns what the bot sent.
func (l *LINE) Wait(ctx context.Context, person string, n int) ([]LINEMessage, error) {
	var sent []LINEMessage
	err := l.e.WaitFor(ctx, func() bool {
		sent = sent[:0:0]
		for _, m := range l.Chat(person) {
			if m.FromBot {
				sent = append(sent, m)
			}
		}
		return len(sent) >= n
	})
	return sent, err
}

// SetQuota sets the month's quota of pushes; [LINEQuotaNone] is no limit.
func (l *LINE) SetQuota(limit int) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.quota = limit
}

// SetUsage sets how many pushes the present month has seen.
func (l *LINE) SetUsage(used int) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.used[l.month()] = used
}

// SetWebhookActive switches the account's "Use webhook" on or off. While it is off no event is sent; the endpoint's
// test is.
func (l *LINE) SetWebhookActive(active bool) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.inactive = !active
	l.e.bump()
}

// SetBlocked says whether a person has blocked the bot, without an event; see also [LINE.Unfollow].
func (l *LINE) SetBlocked(person string, blocked bool) error {
	p, err := l.e.person(person)
	if err != nil {
		return err
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.blocked[p.LINE] = blocked
	l.e.bump()
	return nil
}

// SetRedelivery switches webhook redelivery on: an event that was not answered with 2xx is sent again up to times
// times, after the given wait each. 0 switches it off, which is LINE's default.
func (l *LINE) SetRedelivery(times int, wait time.Duration) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.redeliver, l.redeliverIn = times, wait
}

// serve is api.line.me.
func (a *lineAPI) serve(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/line")
	endpoint, act := Endpoint(path), (func(*Call, *http.Request, []byte) answer)(nil)
	if rest, ok := strings.CutPrefix(path, string(LINEProfile)+"/"); ok && !strings.Contains(rest, "/") {
		endpoint = LINEProfile
	}
	switch {
	case endpoint == LINEPush && r.Method == http.MethodPost:
		act = a.push
	case endpoint == LINEReply && r.Method == http.MethodPost:
		act = a.reply
	case (endpoint == LINEValidatePush || endpoint == LINEValidateReply) && r.Method == http.MethodPost:
		act = a.validate
	case endpoint == LINEInfo && r.Method == http.MethodGet:
		act = a.info
	case endpoint == LINEProfile && r.Method == http.MethodGet:
		act = a.profile
	case endpoint == LINEQuota && r.Method == http.MethodGet:
		act = a.quota
	case endpoint == LINEConsumption && r.Method == http.MethodGet:
		act = a.consumption
	case endpoint == LINELoading && r.Method == http.MethodPost:
		act = a.loading
	case endpoint == LINEWebhook && (r.Method == http.MethodGet || r.Method == http.MethodPut):
		act = a.webhook
	case endpoint == LINEWebhookTest && r.Method == http.MethodPost:
		act = a.webhookTest
	default:
		act = func(*Call, *http.Request, []byte) answer { return lineError(http.StatusNotFound, "Not found") }
	}
	token := a.line.cfg.ChannelAccessToken
	a.e.serve(api{
		platform: "line", endpoint: endpoint, bodyLimit: lineMaxBody, tokens: []string{token},
		authorized: func(r *http.Request, _ []byte) bool { return same(bearer(r), token) },
		arrive:     a.noteRetryKey,
		tooLarge: func() answer {
			return withRequestID(lineError(http.StatusRequestEntityTooLarge, "Request Entity Too Large"), "")
		},
		act: func(c *Call, r *http.Request, body []byte) answer {
			return a.gate(c, r, body, act)
		},
	}, w, r)
}

// gate is what LINE asks of every request before it looks at the endpoint.
func (a *lineAPI) gate(c *Call, r *http.Request, body []byte,
	act func(*Call, *http.Request, []byte) answer) answer {
	id := requestID()
	r.Header.Set("X-Line-Request-Id", id) // for act, which stores it with the messages
	refuse := func(rule string, ans answer) answer {
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		a.e.violate(c, rule, string(ans.body))
		return withRequestID(ans, id)
	}
	if !c.Authorized {
		return withRequestID(lineError(http.StatusUnauthorized, lineBadToken), id)
	}
	if r.Method != http.MethodGet {
		media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || media != "application/json" {
			return refuse("content_type", lineError(http.StatusBadRequest, "The content type, "+r.Header.Get("Content-Type")+
				", is not supported"))
		}
	}
	if key, given := r.Header["X-Line-Retry-Key"]; given {
		if c.Endpoint != LINEPush {
			return refuse("retry_key", lineError(http.StatusBadRequest, "The retry key is not supported by this endpoint"))
		}
		if len(key) != 1 || !uuidShape.MatchString(key[0]) {
			return refuse("retry_key", lineError(http.StatusBadRequest,
				"The value of the X-Line-Retry-Key header is invalid: it must be a UUID"))
		}
	}
	return withRequestID(act(c, r, body), id)
}

func withRequestID(a answer, id string) answer {
	if id == "" {
		id = requestID()
	}
	a.header = withHeader(a.header, "X-Line-Request-Id", id)
	return a
}

func lineError(status int, message string, details ...problem) answer {
	body := map[string]any{"message": message}
	if len(details) > 0 {
		var list []map[string]string
		for _, d := range details {
			list = append(list, map[string]string{"message": d.what, "property": d.at})
		}
		body["details"] = list
	}
	return answer{status: status, body: mustJSON(body)}
}

func lineOK(v any) answer { return answer{status: http.StatusOK, body: mustJSON(v)} }

// noteRetryKey watches what the platform only warns of: one key, two bodies. It sees failed tries too.
func (a *lineAPI) noteRetryKey(c *Call, r *http.Request, body []byte) {
	key := strings.ToLower(r.Header.Get("X-Line-Retry-Key"))
	if key == "" || c.Endpoint != LINEPush || !c.Authorized {
		return
	}
	known := a.keys[key]
	if known == nil || a.e.now().Sub(known.first) >= retryKeyLife {
		if known != nil {
			a.e.violate(c, "retry_key_expired", "the key is older than 24 hours: this is a second message")
		}
		a.keys[key] = &retryKey{first: a.e.now(), body: bytes.Clone(body)}
		return
	}
	if !bytes.Equal(known.body, body) {
		a.e.violate(c, "retry_key_reused", "the same key came with another body")
	}
}

// read parses a request and checks it. The answer is nil when all is well.
func (a *lineAPI) read(c *Call, body []byte, sh shape) (map[string]any, *answer) {
	refuse := func(ans answer) (map[string]any, *answer) {
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		a.e.violate(c, "schema", string(ans.body))
		return nil, &ans
	}
	request, err := parseObject(body)
	if err != nil {
		return refuse(lineError(http.StatusBadRequest, "The request body could not be parsed as JSON: "+err.Error()))
	}
	check := &checker{say: linePhrases}
	sh.check(check, "", request)
	lineSizes(check, body)
	if problems := append(check.problems, a.quoteProblems(check, request)...); len(problems) > 0 {
		return refuse(lineError(http.StatusBadRequest, fmt.Sprintf("The request body has %d error(s)", len(problems)),
			problems...))
	}
	return request, nil
}

// quoteProblems finds quote tokens that are none, or not of this chat.
func (a *lineAPI) quoteProblems(check *checker, request map[string]any) (wrong []problem) {
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	user := str(request["to"])
	if t := a.line.replies[str(request["replyToken"])]; t != nil {
		user = t.user
	}
	for _, q := range check.quotes {
		if ref, ok := a.line.quotes[q.what]; !ok || (user != "" && ref.user != user) {
			wrong = append(wrong, problem{q.at, "Invalid quote token"})
		}
	}
	return wrong
}

func lineMessages() rule { return list(1, 5, lineMessage) }

func nullOr(r rule) rule {
	return func(c *checker, at string, v any) {
		if v != nil {
			r(c, at, v)
		}
	}
}

func (a *lineAPI) push(c *Call, r *http.Request, body []byte) answer {
	request, bad := a.read(c, body, shape{"to messages", map[string]rule{
		"to": text(1, 100, utf16Len), "messages": lineMessages(), "notificationDisabled": boolean,
		// The official Go SDK always writes null here, and LINE takes it.
		"customAggregationUnits": nullOr(list(0, 1, text(1, 30, utf16Len))),
	}})
	if bad != nil {
		return *bad
	}
	to := str(request["to"])
	key := strings.ToLower(r.Header.Get("X-Line-Retry-Key"))

	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	known := a.keys[key]
	if known != nil && known.accepted {
		return answer{
			status: http.StatusConflict, header: map[string]string{"X-Line-Accepted-Request-Id": known.request},
			body: mustJSON(map[string]any{"message": "The retry key is already accepted", "sentMessages": known.sent}),
		}
	}
	if !a.knows(to) {
		a.e.violate(c, "recipient", "nobody has the id "+to)
		return lineError(http.StatusBadRequest, "Failed to send messages", problem{"to", "Unknown recipient"})
	}
	month := a.line.month()
	if a.line.quota >= 0 && a.line.used[month] >= a.line.quota {
		return lineError(http.StatusTooManyRequests, "You have reached your monthly limit.")
	}
	id := r.Header.Get("X-Line-Request-Id")
	sent := a.line.deliver(to, body, "push", id, key)
	if !a.line.blocked[to] {
		a.line.used[month]++
	}
	if known != nil {
		known.accepted, known.request, known.sent = true, id, mustJSON(sent)
	}
	return lineOK(map[string]any{"sentMessages": sent})
}

func (a *lineAPI) reply(c *Call, r *http.Request, body []byte) answer {
	request, bad := a.read(c, body, shape{"replyToken messages", map[string]rule{
		"replyToken": text(1, 1000, utf16Len), "messages": lineMessages(), "notificationDisabled": boolean,
	}})
	if bad != nil {
		return *bad
	}
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	now := a.e.now()
	t := a.line.replies[str(request["replyToken"])]
	if t == nil || t.used || now.Sub(t.delivered) > replyTokenLife || now.Sub(t.issued) > replyTokenMax {
		return lineError(http.StatusBadRequest, "Invalid reply token")
	}
	t.used = true
	return lineOK(map[string]any{"sentMessages": a.line.deliver(t.user, body, "reply", r.Header.Get("X-Line-Request-Id"),
		"")})
}

// deliver puts the messages of a request into a chat and returns the answer's sentMessages. Somebody who blocked
// the bot gets nothing, and the bot is not told. The caller holds the lock.
func (l *LINE) deliver(user string, body []byte, via, requestID, retryKey string) []map[string]string {
	var request struct {
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		panic(err) // checked before
	}
	var sent []map[string]string
	for _, raw := range request.Messages {
		var m struct {
			Type, Text, AltText, QuoteToken string
		}
		_ = json.Unmarshal(raw, &m) // checked before
		msg := &LINEMessage{
			ID: l.messageID(), At: l.e.now(), FromBot: true, JSON: bytes.Clone(raw), Text: m.Text + m.AltText,
			Via: via, RetryKey: retryKey, RequestID: requestID, Quoted: l.quotes[m.QuoteToken].message,
		}
		entry := map[string]string{"id": msg.ID}
		msg.QuoteToken = l.newQuote(user, msg.ID)
		entry["quoteToken"] = msg.QuoteToken
		sent = append(sent, entry)
		msg.QuickReplies = quickReplies(raw)
		if !l.blocked[user] {
			l.add(user, msg)
		}
	}
	delete(l.loading, user)
	l.e.bump()
	return sent
}

// add puts a message into a chat, which takes the suggestions under the one before away. The caller holds the lock.
func (l *LINE) add(user string, m *LINEMessage) {
	l.dropQuickReplies(user)
	l.chats[user] = append(l.chats[user], m)
	l.e.bump()
}

// dropQuickReplies takes away what is suggested in a chat. The caller holds the lock.
func (l *LINE) dropQuickReplies(user string) {
	if chat := l.chats[user]; len(chat) > 0 {
		chat[len(chat)-1].QuickReplies = nil
		l.e.bump()
	}
}

func quickReplies(message []byte) (found []LINEQuickReply) {
	var m struct {
		QuickReply struct {
			Items []struct {
				ImageURL string          `json:"imageUrl"`
				Action   json.RawMessage `json:"action"`
			} `json:"items"`
		} `json:"quickReply"`
	}
	_ = json.Unmarshal(message, &m) // checked before
	for _, item := range m.QuickReply.Items {
		action, _ := parseObject(item.Action)
		found = append(found, LINEQuickReply{Label: str(action["label"]), Image: item.ImageURL, Action: item.Action})
	}
	return found
}

func (l *LINE) messageID() string { return fmt.Sprintf("59%016d", l.e.next()) }

func (l *LINE) newQuote(user, message string) string {
	token := "q" + randomHex(12)
	l.quotes[token] = quoteRef{user, message}
	return token
}

// knows reports whether a user id is known to this LINE. The caller need not hold the lock: people do not change.
func (a *lineAPI) knows(id string) bool {
	for _, p := range a.e.people {
		if p.LINE != "" && p.LINE == id {
			return true
		}
	}
	return false
}

// month is the quota's: LINE counts calendar months, in Japanese time.
func (l *LINE) month() string {
	return l.e.now().In(time.FixedZone("JST", 9*60*60)).Format("2006-01")
}

func (a *lineAPI) validate(c *Call, _ *http.Request, body []byte) answer {
	if _, bad := a.read(c, body, shape{"messages", map[string]rule{"messages": lineMessages()}}); bad != nil {
		return *bad
	}
	return lineOK(struct{}{})
}

func (a *lineAPI) info(*Call, *http.Request, []byte) answer {
	cfg := a.line.cfg
	read := "auto"
	if cfg.ChatMode == "chat" {
		read = "manual"
	}
	return lineOK(map[string]any{
		"userId": cfg.BotUserID, "basicId": cfg.BasicID, "displayName": cfg.BotName, "chatMode": cfg.ChatMode,
		"markAsReadMode": read,
	})
}

func (a *lineAPI) profile(_ *Call, r *http.Request, _ []byte) answer {
	id := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	p, err := a.e.person(id)
	if err != nil || p.LINE != id || a.line.blocked[id] {
		return lineError(http.StatusNotFound, "Not found")
	}
	return lineOK(map[string]any{"userId": id, "displayName": p.Name, "language": "en"})
}

func (a *lineAPI) quota(*Call, *http.Request, []byte) answer {
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	if a.line.quota < 0 {
		return lineOK(map[string]any{"type": "none"})
	}
	return lineOK(map[string]any{"type": "limited", "value": a.line.quota})
}

func (a *lineAPI) consumption(*Call, *http.Request, []byte) answer {
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	return lineOK(map[string]any{"totalUsage": a.line.used[a.line.month()]})
}

func (a *lineAPI) loading(c *Call, _ *http.Request, body []byte) answer {
	request, bad := a.read(c, body, shape{"chatId", map[string]rule{
		"chatId": func(c *checker, at string, v any) {
			if !lineUserID.MatchString(str(v)) {
				c.fail(at, "Must be a user id: loading is shown in one-to-one chats only")
			}
		},
		"loadingSeconds": func(c *checker, at string, v any) {
			if n, ok := asInt(v); !ok || n < 5 || n > 60 || n%5 != 0 {
				c.fail(at, "Must be a multiple of 5 between 5 and 60")
			}
		},
	}})
	if bad != nil {
		return *bad
	}
	seconds := 20
	if n, ok := asInt(request["loadingSeconds"]); ok {
		seconds = n
	}
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	a.line.loading[str(request["chatId"])] = a.e.now().Add(time.Duration(seconds) * time.Second)
	a.e.bump()
	return answer{status: http.StatusAccepted, body: []byte("{}")}
}

// lineEndpoint checks a webhook address. LINE insists on HTTPS; here plain HTTP will do for a loopback address.
func lineEndpoint(c *checker, at string, v any) {
	text(1, 500, utf16Len)(c, at, v)
	u, err := url.Parse(str(v))
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		c.fail(at, "Invalid webhook endpoint URL")
	}
}

func (a *lineAPI) webhook(c *Call, r *http.Request, body []byte) answer {
	if r.Method == http.MethodGet {
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		if a.line.webhook == "" {
			return lineError(http.StatusNotFound, "Not found")
		}
		return lineOK(map[string]any{"endpoint": a.line.webhook, "active": !a.line.inactive})
	}
	request, bad := a.read(c, body, shape{"endpoint", map[string]rule{"endpoint": lineEndpoint}})
	if bad != nil {
		return *bad
	}
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	a.line.webhook = str(request["endpoint"])
	a.e.bump()
	return lineOK(struct{}{})
}

func (a *lineAPI) webhookTest(c *Call, r *http.Request, body []byte) answer {
	request, bad := a.read(c, body, shape{"", map[string]rule{"endpoint": lineEndpoint}})
	if bad != nil {
		return *bad
	}
	target := str(request["endpoint"])
	if target == "" {
		a.e.mu.Lock()
		target = a.line.webhook
		a.e.mu.Unlock()
	}
	if target == "" {
		return lineError(http.StatusNotFound, "Not found")
	}
	d, err := a.line.Post(r.Context(), LINEPost{URL: target, NoRedelivery: true})
	result := map[string]any{
		"success": d.OK(), "timestamp": a.e.now().UTC().Format("2006-01-02T15:04:05.000Z"), "statusCode": d.Status,
		"reason": "OK", "detail": fmt.Sprint(d.Status),
	}
	switch {
	case err != nil && isTimeout(err):
		result["reason"], result["detail"] = "REQUEST_TIMEOUT", "Request timeout"
	case err != nil:
		result["reason"], result["detail"] = "COULD_NOT_CONNECT", "Could not connect"
	case !d.OK():
		result["reason"] = "ERROR_STATUS_CODE"
	}
	return lineOK(result)
}
