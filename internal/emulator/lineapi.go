package emulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

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
		a.e.breach(c, rule, string(ans.body))
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
		a.e.breach(c, "schema", string(ans.body))
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

// knows reports whether a user id is known to this LINE. The caller need not hold the lock: people do not change.
func (a *lineAPI) knows(id string) bool {
	for _, p := range a.e.people {
		if p.LINE != "" && p.LINE == id {
			return true
		}
	}
	return false
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
