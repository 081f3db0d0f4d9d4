package slack

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/kind"
	"countersign/internal/ratelimitedlog"
	"countersign/webhook"
)

// maxSignatureAge is Slack's own rule for how far a request's time may be from ours.
const maxSignatureAge = 5 * time.Minute

// answerWithin is how long a delivery of Slack's may take in all: after three seconds the person who
// pressed a button is shown an error.
const answerWithin = 2500 * time.Millisecond

// inbound takes what comes from Slack: interactions, slash commands and events, posted to /webhook/slack, or over a
// [socket] where there is an app-level token. What comes over a socket takes the same way, but for the signature.
type inbound struct {
	webhook.Inbound
	current
	after     *webhook.AfterResponse
	outsiders *ratelimitedlog.Counter
	socket    *socket
}

var (
	_ kind.Runner           = (*inbound)(nil)
	_ kind.Closer           = (*inbound)(nil)
	_ channels.Reporter     = (*inbound)(nil)
	_ channels.Reconfigurer = (*inbound)(nil)
)

func newInbound(o webhook.Options, now kind.Current) *inbound {
	h := &inbound{Inbound: webhook.NewInbound(Name, o), current: current{now}, after: webhook.NewAfterResponse(),
		outsiders: &ratelimitedlog.Counter{Every: time.Hour}}
	h.socket = newSocket(h)
	return h
}

// Run keeps a socket to Slack open while there is an app-level token.
func (h *inbound) Run(ctx context.Context) { h.socket.run(ctx) }

// Reconfigure has the socket look at its token again.
func (h *inbound) Reconfigure() { h.socket.reconfigure() }

// Problems implements [channels.Reporter].
func (h *inbound) Problems() []string {
	if connected, trouble := h.socket.state(); h.appToken() != "" && !connected {
		return []string{"Slack's Socket Mode is not connected, so taps in Slack do not arrive: " +
			cmp.Or(trouble, "connecting")}
	}
	return nil
}

// Close ends what is still done after Slack was answered, and waits for it.
func (h *inbound) Close() { h.after.Close() }

// signature is the X-Slack-Signature of a body sent at a time (seconds since 1970).
func signature(secret, timestamp string, body []byte) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte("v0:" + timestamp + ":"))
	m.Write(body)
	return "v0=" + hex.EncodeToString(m.Sum(nil))
}

const (
	headerSignature = "X-Slack-Signature"
	headerStamp     = "X-Slack-Request-Timestamp"
)

// isWellFormed reports whether there is one signature, which could be one, and one time, which is not too far
// from ours.
func (h *inbound) isWellFormed(header http.Header) bool {
	values := header[headerSignature]
	if len(values) != 1 || len(header[headerStamp]) != 1 {
		return false
	}
	digits, ok := strings.CutPrefix(values[0], "v0=")
	if sum, err := hex.DecodeString(digits); !ok || err != nil || len(sum) != sha256.Size {
		return false
	}
	return h.fresh(header.Get(headerStamp))
}

// fresh reports whether a time (seconds since 1970) is not too far from ours.
func (h *inbound) fresh(stamp string) bool {
	sec, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return false
	}
	age := h.Now().Sub(time.Unix(sec, 0))
	return age <= maxSignatureAge && age >= -maxSignatureAge
}

// isSigned looks at the time once more: the body may have taken some.
func (h *inbound) isSigned(header http.Header, body []byte) bool {
	stamp := header.Get(headerStamp)
	if !h.fresh(stamp) {
		return false
	}
	ok := false
	for _, s := range h.secrets() {
		ok = hmac.Equal([]byte(signature(s, stamp, body)), []byte(header.Get(headerSignature))) || ok
	}
	return ok
}

func (h *inbound) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && isSSLCheck(r.URL.Query()) {
		h.Count(Name, "ignored")
		return
	}
	if h.mayBeSSLCheck(r) {
		h.sslCheck(w, r)
		return
	}
	raw, ok := h.Verify(w, r, h.isWellFormed, h.isSigned, "application/x-www-form-urlencoded", "application/json")
	if !ok {
		return
	}
	ctx, cancel := webhook.Bound(r.Context(), answerWithin)
	defer cancel()
	h.delivery(ctx, r.Header.Get("Content-Type"), raw).Write(w)
}

// maxSSLCheck is how long the body of a look at our certificate may be: some fifty bytes come.
const maxSSLCheck = 512

// isSSLCheck reports whether Slack only looks at our certificate. That is answered with 200, and nothing is done. By
// GET, and by POST as a rule, it is not signed.
func isSSLCheck(form url.Values) bool {
	return form.Get("ssl_check") == "1" && !form.Has("payload") && !form.Has("command")
}

// mayBeSSLCheck reports whether the headers could be those of a look at our certificate by POST: no word of a
// signature, and a form whose length is told and small, so that a stranger's body is not read beyond that.
func (h *inbound) mayBeSSLCheck(r *http.Request) bool {
	form, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return r.Method == http.MethodPost && err == nil && form == "application/x-www-form-urlencoded" &&
		len(r.Header[headerSignature]) == 0 && len(r.Header[headerStamp]) == 0 &&
		r.ContentLength > 0 && r.ContentLength <= maxSSLCheck
}

// sslCheck answers a look at our certificate by POST. Whatever else comes so is not signed, and is refused.
func (h *inbound) sslCheck(w http.ResponseWriter, r *http.Request) {
	raw, ok := h.Body(w, r, func(http.Header) bool { return true }, "application/x-www-form-urlencoded")
	if !ok {
		return
	}
	if form, ok := parseForm(raw); !ok || !isSSLCheck(form) {
		h.RefuseUnsigned(w, r)
		return
	}
	h.Count(Name, "ignored")
}

// delivery tells the kinds apart that Slack posts to one address.
func (h *inbound) delivery(ctx context.Context, contentType string, raw []byte) webhook.Answer {
	if media, _, _ := mime.ParseMediaType(contentType); media == "application/json" {
		return h.event(ctx, raw)
	}
	// The form is taken from the signed body alone; the URL's query is not covered by the signature.
	form, ok := parseForm(raw)
	switch {
	case ok && isSSLCheck(form):
		return webhook.Answer{Stored: true}
	case ok && form.Get("payload") != "" && !form.Has("command"):
		return h.interaction(ctx, []byte(form.Get("payload")))
	case ok && form.Get("command") != "" && !form.Has("payload"):
		return h.command(ctx, command{
			Text: form.Get("text"), UserID: form.Get("user_id"), TeamID: form.Get("team_id"),
			EnterpriseID: form.Get("enterprise_id"),
			APIAppID:     form.Get("api_app_id"), TriggerID: form.Get("trigger_id"), ResponseURL: form.Get("response_url"),
		})
	}
	return h.NotUnderstood(ctx)
}

// fields are the fields of a form that are looked at.
var fields = []string{"payload", "command", "text", "user_id", "team_id", "enterprise_id", "api_app_id",
	"trigger_id", "response_url"}

// parseForm reads a form as [channels.Strictly] reads JSON.
func parseForm(raw []byte) (url.Values, bool) {
	form, err := url.ParseQuery(string(raw))
	for name, values := range form {
		almost := func(field string) bool { return field != name && strings.EqualFold(field, name) }
		if len(values) != 1 || !utf8.ValidString(values[0]) || slices.ContainsFunc(fields, almost) {
			return nil, false
		}
	}
	return form, err == nil
}

// origin is where an event says that it comes from.
type origin struct {
	team, enterprise, app string
	user                  string
	userTeams             []string // of the user, each "" or a team's id
}

// from says who acts. Where that is not to be acted on, refused is true and a the answer.
func (h *inbound) from(ctx context.Context, o origin) (by approval.Actor, a webhook.Answer, refused bool) {
	waiting, done := webhook.KeepTime(ctx, webhook.CommitWithin) // as after a restart
	id, app, known := h.identify(waiting)
	done()
	inEnterprise := known && id.EnterpriseID != "" && o.enterprise == id.EnterpriseID
	home, outside := cmp.Or(append(o.userTeams, o.team)...), false
	for _, team := range o.userTeams {
		if team != "" && team != id.TeamID && !inEnterprise {
			home, outside = team, true
		}
	}
	by = approval.Actor{Kind: approval.Stranger, Name: "slack:" + home + "/" + o.user}
	switch inTeam := o.team != "" && o.team == id.TeamID; {
	case !known:
		h.Logger.ErrorContext(ctx, "a Slack event came before Slack told us which workspace is ours; it was not acted on")
		return by, webhook.Answer{}, true
	case !inTeam && !inEnterprise || app != "" && o.app != app:
		return by, webhook.Answer{Stored: h.Refuse(ctx, by.String(), "wrong_workspace")}, true
	case outside:
		// In a channel shared with other organisations their people can press our buttons; ids are only
		// unique within a team, so only our own are looked up.
		if n, tell := h.outsiders.Add(h.Now()); tell {
			h.Logger.WarnContext(ctx, "people of another organisation pressed our buttons in Slack, which decided nothing; a "+
				"channel is shared with them, so they may see its cards: use a channel of your own (channels.slack.channel), or "+
				"remove allow_shared",
				"by", by.String(), "count", n)
		}
	default:
		if p, ok := h.People.ByChat(Name, o.user); ok {
			by = p
		}
	}
	return by, webhook.Answer{}, false
}
