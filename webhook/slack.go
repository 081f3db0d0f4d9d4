package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"countersign/approval"
	"countersign/channels"
)

// maxSignatureAge is Slack's own rule for how far a request's time may be from ours.
const maxSignatureAge = 5 * time.Minute

// Workspace is where our Slack app is installed.
type Workspace struct {
	Team       string // T…, from auth.test
	Enterprise string // E…, "" outside Enterprise Grid
	App        string // A…, "" where it is not configured: then any
}

// Slack handles POST /webhook/slack: interactions, slash commands and events.
type Slack struct {
	common
	secrets   func() []string
	workspace func() (Workspace, bool)
}

// NewSlack returns the handler. secrets gives the signing secrets in force; workspace says where we are
// installed, false while Slack has not told us: then taps are answered with 503.
func NewSlack(o Options, secrets func() []string, workspace func() (Workspace, bool)) *Slack {
	return &Slack{common: newCommon("slack", o), secrets: secrets, workspace: workspace}
}

// SlackSignature is the X-Slack-Signature of a body sent at a time (seconds since 1970).
func SlackSignature(secret, timestamp string, body []byte) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte("v0:" + timestamp + ":"))
	m.Write(body)
	return "v0=" + hex.EncodeToString(m.Sum(nil))
}

func (h *Slack) signed(header http.Header, body []byte) bool {
	stamp := header.Get("X-Slack-Request-Timestamp")
	sec, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return false
	}
	if age := h.now().Sub(time.Unix(sec, 0)); age > maxSignatureAge || age < -maxSignatureAge {
		return false
	}
	ok := false
	for _, s := range h.secrets() {
		ok = hmac.Equal([]byte(SlackSignature(s, stamp, body)), []byte(header.Get("X-Slack-Signature"))) || ok
	}
	return ok
}

func (h *Slack) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, ok := h.body(w, r)
	if !ok {
		return
	}
	if !h.signed(r.Header, raw) {
		h.refuseUnsigned(w)
		return
	}
	ctx, cancel := deadline(r)
	defer cancel()
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "application/json" {
		h.callback(ctx, w, raw)
		return
	}
	// The form is taken from the signed body alone; the URL's query is not covered by the signature.
	form, err := url.ParseQuery(string(raw))
	switch {
	case err == nil && form.Get("payload") != "":
		finish(w, h.interaction(ctx, []byte(form.Get("payload"))))
	case err == nil && form.Get("command") != "":
		finish(w, h.command(ctx, form))
	default:
		finish(w, h.refuse(ctx, "slack:", "not_understood"))
	}
}

type slackUser struct {
	ID     string `json:"id"`
	TeamID string `json:"team_id"`
}

type slackInteraction struct {
	Type       string `json:"type"`
	APIAppID   string `json:"api_app_id"`
	TriggerID  string `json:"trigger_id"`
	Team       *slackID
	Enterprise *slackID
	User       slackUser `json:"user"`
	Response   string    `json:"response_url"`
	Actions    []struct {
		Type     string `json:"type"`
		ActionID string `json:"action_id"`
		Value    string `json:"value"`
	} `json:"actions"`
}

type slackID struct {
	ID string `json:"id"`
}

func (s *slackID) get() string {
	if s == nil {
		return ""
	}
	return s.ID
}

// from says who acts, and whether the event is from our workspace; known is false while we do not
// know which that is.
func (h *Slack) from(team, enterprise, app string, u slackUser) (by approval.Actor, ours, known bool) {
	by = approval.Actor{Kind: approval.Stranger, Name: "slack:" + orElse(u.TeamID, team) + "/" + u.ID}
	ws, known := h.workspace()
	if !known {
		return by, false, false
	}
	inTeam := team != "" && team == ws.Team
	inEnterprise := ws.Enterprise != "" && enterprise == ws.Enterprise
	if !inTeam && !inEnterprise || ws.App != "" && app != ws.App {
		return by, false, true
	}
	// In a channel shared with other organisations their people can press our buttons; ids are only
	// unique within a team, so only our own are looked up.
	if u.TeamID == "" || u.TeamID == ws.Team || inEnterprise {
		if p, ok := h.people.ByChat("slack", u.ID); ok {
			by = p
		}
	}
	return by, true, true
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// interaction handles a button. false: it could not be stored.
func (h *Slack) interaction(ctx context.Context, payload []byte) bool {
	var p slackInteraction
	if err := json.Unmarshal(payload, &p); err != nil {
		return h.refuse(ctx, "slack:", "not_understood")
	}
	if p.Type != "block_actions" {
		h.log.Debug("a Slack interaction of a kind that is not acted on", "type", p.Type)
		return true
	}
	by, ours, known := h.from(p.Team.get(), p.Enterprise.get(), p.APIAppID, p.User)
	switch {
	case !known:
		return h.notReady()
	case !ours:
		return h.refuse(ctx, by.String(), "wrong_workspace")
	case p.TriggerID == "" || p.User.ID == "":
		return h.refuse(ctx, by.String(), "no_event_id")
	}
	stored := true
	for i, a := range p.Actions {
		b, err := channels.NewButton(a.ActionID, a.Value)
		if err != nil {
			h.log.Debug("a Slack button that decides nothing", "action_id", approval.CutRunes(approval.Visible(a.ActionID), 64))
			continue
		}
		t := approval.Tap{EventID: "slack:" + p.TriggerID + ":" + strconv.Itoa(i), By: by, From: p.User.ID, ReplyTo: p.Response, Intent: b.Intent, RequestID: b.ID}
		stored = h.tap(ctx, t) && stored
	}
	return stored
}

func (h *Slack) notReady() bool {
	h.log.Error("a Slack event came before Slack told us which workspace is ours; it was not acted on")
	return false
}

// command handles a slash command: typed words that name nobody's message.
func (h *Slack) command(ctx context.Context, form url.Values) bool {
	u := slackUser{ID: form.Get("user_id"), TeamID: form.Get("team_id")}
	by, ours, known := h.from(form.Get("team_id"), form.Get("enterprise_id"), form.Get("api_app_id"), u)
	switch {
	case !known:
		return h.notReady()
	case !ours:
		return h.refuse(ctx, by.String(), "wrong_workspace")
	case form.Get("trigger_id") == "" || u.ID == "":
		return h.refuse(ctx, by.String(), "no_event_id")
	}
	t := approval.Tap{EventID: "slack:" + form.Get("trigger_id"), By: by, From: u.ID, ReplyTo: form.Get("response_url")}
	words(&t, form.Get("text"), "")
	return h.tap(ctx, t)
}

type slackCallback struct {
	Type         string  `json:"type"`
	Challenge    string  `json:"challenge"`
	TeamID       string  `json:"team_id"`
	EnterpriseID string  `json:"enterprise_id"`
	APIAppID     string  `json:"api_app_id"`
	EventID      string  `json:"event_id"`
	EventTime    float64 `json:"event_time"`
	Event        struct {
		Type        string `json:"type"`
		Subtype     string `json:"subtype"`
		ChannelType string `json:"channel_type"`
		BotID       string `json:"bot_id"`
		User        string `json:"user"`
		UserTeam    string `json:"user_team"`
		Text        string `json:"text"`
		TS          string `json:"ts"`
		ThreadTS    string `json:"thread_ts"`
	} `json:"event"`
}

// callback handles the Events API.
func (h *Slack) callback(ctx context.Context, w http.ResponseWriter, raw []byte) {
	var c slackCallback
	if err := json.Unmarshal(raw, &c); err != nil {
		finish(w, h.refuse(ctx, "slack:", "not_understood"))
		return
	}
	if c.Type == "url_verification" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Write([]byte(c.Challenge))
		return
	}
	e := c.Event
	if c.Type != "event_callback" || e.Type != "message" || e.ChannelType != "im" || e.Subtype != "" || e.BotID != "" || e.User == "" {
		h.log.Debug("a Slack event of a kind that is not acted on", "type", c.Type, "event", e.Type)
		finish(w, true)
		return
	}
	by, ours, known := h.from(c.TeamID, c.EnterpriseID, c.APIAppID, slackUser{ID: e.User, TeamID: e.UserTeam})
	switch {
	case !known:
		finish(w, h.notReady())
		return
	case !ours:
		finish(w, h.refuse(ctx, by.String(), "wrong_workspace"))
		return
	case c.EventID == "":
		finish(w, h.refuse(ctx, by.String(), "no_event_id"))
		return
	}
	t := approval.Tap{EventID: "slack:" + c.EventID, By: by, From: e.User}
	quoted := ""
	if e.ThreadTS != e.TS {
		quoted = e.ThreadTS
	}
	words(&t, unescape.Replace(e.Text), quoted)
	if t.RequestID == "" && t.QuotedID == "" {
		// Slack delivers late, up to a day: a bare word must not reach a request that came after it.
		t.At = slackTime(e.TS)
	}
	finish(w, h.tap(ctx, t))
}

// slackTime reads a message's ts, the zero time if it is none.
func slackTime(ts string) time.Time {
	sec, _, _ := strings.Cut(ts, ".")
	n, err := strconv.ParseInt(sec, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(n, 0).Add(time.Second - time.Millisecond).UTC() // the end of its second: equal counts
}

// unescape undoes the only escaping that Slack does to what people type.
var unescape = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")
