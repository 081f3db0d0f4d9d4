package setup

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"countersign/channels/line"
	"countersign/channels/slack"
)

// room is a chat platform, as somebody who knows its secret could speak for it. Whoever acts there is
// made up: no attempt is ever signed as a person of the configuration.
type room interface {
	channel() string
	// attempts are what must not decide the request id while it is pending.
	attempts(id string, now time.Time) []attempt
	// afterwards are what must not change it once it is decided.
	afterwards(id string, now time.Time) []attempt
}

// poster posts to one of the gate's webhooks.
type poster func(ctx context.Context, channel string, header http.Header, body []byte) (status int, err error)

// What a person reads of the attempts.
const (
	forged    = "a tap with a forged signature"
	stale     = "a tap that is too old"
	stranger  = "a stranger's tap"
	doubled   = "the same tap once more"
	misplaced = "a tap meant for another bot or workspace"
	late      = "a stranger's tap after the decision"
)

// Audit events that attempts leave behind.
const (
	refusedTap   = "decision_refused"
	refusedEvent = "webhook_refused"
)

// lineRoom is LINE.
type lineRoom struct {
	secret   string
	bot      string
	stranger string // a made-up user id
	post     poster
}

func newLineRoom(ctx context.Context, c line.Config, post poster) (*lineRoom, error) {
	ch, err := line.New(c)
	if err != nil {
		return nil, err
	}
	defer ch.Close()
	bot, err := ch.Bot(ctx)
	if err != nil {
		return nil, err
	}
	return &lineRoom{secret: c.ChannelSecret[0].Reveal(), bot: bot.UserID, stranger: "U" + randomHex(16), post: post}, nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}

func (*lineRoom) channel() string { return line.Name }

// tap is a delivery with one tap on Approve, and the event's id. It has no reply token, since LINE gave
// out none.
func (r *lineRoom) tap(id, destination string, at time.Time) (body []byte, event string) {
	event = "VERIFY" + rand.Text()[:20]
	return object(map[string]any{"destination": destination, "events": []any{map[string]any{
		"type": "postback", "mode": "active", "timestamp": at.UnixMilli(), "webhookEventId": event,
		"deliveryContext": map[string]any{"isRedelivery": false},
		"source":          map[string]any{"type": "user", "userId": r.stranger},
		"postback":        map[string]any{"data": "action=approve&id=" + id},
	}}}), event
}

func (r *lineRoom) send(body []byte, secret string) func(context.Context) (int, error) {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(body)
	header := http.Header{"Content-Type": {"application/json; charset=utf-8"},
		"X-Line-Signature": {base64.StdEncoding.EncodeToString(m.Sum(nil))}}
	return func(ctx context.Context) (int, error) { return r.post(ctx, line.Name, header, body) }
}

func (r *lineRoom) attempts(id string, now time.Time) []attempt {
	body, event := r.tap(id, r.bot, now)
	old, _ := r.tap(id, r.bot, now.Add(-25*time.Hour))
	elsewhere, _ := r.tap(id, "U"+randomHex(16), now)
	who := "line:" + r.stranger
	return []attempt{
		{forged, r.send(body, randomHex(16)), http.StatusUnauthorized, trace{}},
		{stale, r.send(old, r.secret), http.StatusOK, trace{event: refusedEvent, reason: "too_old", actor: who}},
		{misplaced, r.send(elsewhere, r.secret), http.StatusOK, trace{event: refusedEvent, reason: "wrong_destination"}},
		{stranger, r.send(body, r.secret), http.StatusOK, trace{event: refusedTap, actor: who, correlation: "line:" + event}},
		{doubled, r.send(body, r.secret), http.StatusOK, trace{event: refusedEvent, reason: "duplicate_event", actor: who}},
	}
}

func (r *lineRoom) afterwards(id string, now time.Time) []attempt {
	body, event := r.tap(id, r.bot, now)
	return []attempt{{late, r.send(body, r.secret), http.StatusOK,
		trace{event: refusedTap, actor: "line:" + r.stranger, correlation: "line:" + event}}}
}

// slackRoom is Slack.
type slackRoom struct {
	secret   string // "": what is posted to the webhook is refused, whatever it is
	app      string
	at       slack.Identity
	home     string
	stranger string // a made-up user id
	post     poster
}

func newSlackRoom(ctx context.Context, c slack.Config, post poster) (*slackRoom, error) {
	ch, err := slack.New(c)
	if err != nil {
		return nil, err
	}
	defer ch.Close()
	_, id, _, err := ch.Scopes(ctx)
	if err != nil {
		return nil, err
	}
	r := &slackRoom{app: c.AppID, at: id, home: c.Channel, stranger: "UVERIFY" + rand.Text()[:12], post: post}
	if len(c.SigningSecret) > 0 {
		r.secret = c.SigningSecret[0].Reveal()
	}
	return r, nil
}

func (*slackRoom) channel() string { return slack.Name }

// tap is a delivery with one tap on Approve, and its trigger. It has no response_url, since Slack gave
// out none.
func (r *slackRoom) tap(id string, at slack.Identity) (body []byte, trigger string) {
	named := func(id string) any {
		if id == "" {
			return nil
		}
		return map[string]any{"id": id}
	}
	trigger = "verify." + rand.Text()
	payload := object(map[string]any{
		"type": "block_actions", "api_app_id": r.app, "team": named(at.TeamID), "enterprise": named(at.EnterpriseID),
		"user":       map[string]any{"id": r.stranger, "team_id": at.TeamID},
		"container":  map[string]any{"type": "message", "channel_id": r.home, "message_ts": "0.000000"},
		"trigger_id": trigger,
		"actions":    []any{map[string]any{"type": "button", "action_id": "approve", "block_id": "verify", "value": id}},
	})
	return []byte(url.Values{"payload": {string(payload)}}.Encode()), trigger
}

func (r *slackRoom) send(body []byte, secret string, at time.Time) func(context.Context) (int, error) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte("v0:" + stamp + ":"))
	m.Write(body)
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "X-Slack-Request-Timestamp": {stamp},
		"X-Slack-Signature": {"v0=" + hex.EncodeToString(m.Sum(nil))}}
	return func(ctx context.Context) (int, error) { return r.post(ctx, slack.Name, header, body) }
}

func (r *slackRoom) attempts(id string, now time.Time) []attempt {
	body, trigger := r.tap(id, r.at)
	first := attempt{forged, r.send(body, randomHex(16), now), http.StatusUnauthorized, trace{}}
	if r.secret == "" {
		return []attempt{first}
	}
	const foreign = "TELSEWHERE"
	elsewhere, _ := r.tap(id, slack.Identity{TeamID: foreign})
	who := r.actor(r.at.TeamID)
	return []attempt{
		first,
		{stale, r.send(body, r.secret, now.Add(-6*time.Minute)), http.StatusUnauthorized, trace{}},
		{misplaced, r.send(elsewhere, r.secret, now), http.StatusOK,
			trace{event: refusedEvent, reason: "wrong_workspace", actor: r.actor(foreign)}},
		{stranger, r.send(body, r.secret, now), http.StatusOK, trace{event: refusedTap, actor: who, correlation: "slack:" +
			trigger + ":0"}},
		{doubled, r.send(body, r.secret, now), http.StatusOK, trace{event: refusedEvent, reason: "duplicate_event",
			actor: who}},
	}
}

func (r *slackRoom) afterwards(id string, now time.Time) []attempt {
	if r.secret == "" {
		return nil
	}
	body, trigger := r.tap(id, r.at)
	return []attempt{{late, r.send(body, r.secret, now), http.StatusOK,
		trace{event: refusedTap, actor: r.actor(r.at.TeamID), correlation: "slack:" + trigger + ":0"}}}
}

// actor is how the gate names the stranger of a team.
func (r *slackRoom) actor(team string) string { return "slack:" + team + "/" + r.stranger }

// object is a value as JSON.
func object(v map[string]any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("setup: " + err.Error()) // maps of strings and numbers
	}
	return b
}
