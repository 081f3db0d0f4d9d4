package emulator

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Endpoint names one call of one API: a path on LINE, a method on Slack.
type Endpoint string

// The endpoints that can be failed, held and looked up. A Slack method is named as in Slack's documents.
const (
	LINEPush            Endpoint = "/v2/bot/message/push"
	LINEReply           Endpoint = "/v2/bot/message/reply"
	LINEValidatePush    Endpoint = "/v2/bot/message/validate/push"
	LINEValidateReply   Endpoint = "/v2/bot/message/validate/reply"
	LINEInfo            Endpoint = "/v2/bot/info"
	LINEProfile         Endpoint = "/v2/bot/profile"
	LINEQuota           Endpoint = "/v2/bot/message/quota"
	LINEConsumption     Endpoint = "/v2/bot/message/quota/consumption"
	LINELoading         Endpoint = "/v2/bot/chat/loading/start"
	LINEWebhook         Endpoint = "/v2/bot/channel/webhook/endpoint"
	LINEWebhookTest     Endpoint = "/v2/bot/channel/webhook/test"
	SlackPostMessage    Endpoint = "chat.postMessage"
	SlackUpdate         Endpoint = "chat.update"
	SlackPostEphemeral  Endpoint = "chat.postEphemeral"
	SlackViewsOpen      Endpoint = "views.open"
	SlackViewsPush      Endpoint = "views.push"
	SlackViewsUpdate    Endpoint = "views.update"
	SlackViewsPublish   Endpoint = "views.publish"
	SlackOpen           Endpoint = "conversations.open"
	SlackChannelInfo    Endpoint = "conversations.info"
	SlackHistory        Endpoint = "conversations.history"
	SlackAuthTest       Endpoint = "auth.test"
	SlackUserInfo       Endpoint = "users.info"
	SlackConnectionOpen Endpoint = "apps.connections.open"
	SlackResponseURL    Endpoint = "response_url" // posts to any response_url
	SlackSocketLink     Endpoint = "link"         // the opening of a Socket Mode connection
	Webhook             Endpoint = "webhook"      // deliveries to any person's own webhook

	AnyLINE  Endpoint = "line/*"  // every LINE endpoint
	AnySlack Endpoint = "slack/*" // every Slack endpoint, response_url included
)

func (e Endpoint) matches(platform string, called Endpoint) bool {
	return e == called || e == Endpoint(platform+"/*")
}

// Call is one request to an API, and what it was answered.
type Call struct {
	Seq      int // 1, 2, 3 … in order of arrival
	At       time.Time
	Platform string // "line", "slack" or "webhook"
	Endpoint Endpoint
	Method   string
	Path     string
	Header   http.Header // without Authorization and cookies
	Body     []byte      // as received, but for the value of a form's token field
	// Authorized tells whether the token was the right one.
	Authorized bool

	Done         bool // the answer below is final
	Status       int  // 0 when the connection was cut
	Answer       []byte
	AnswerHeader http.Header
	Processed    bool   // the platform acted on it, whether or not the answer arrived
	Fault        string // the failure that was switched on for it, if any
}

// Violation is something that a real platform would have refused or that breaks its rules without being refused.
type Violation struct {
	At       time.Time
	Platform string
	Endpoint Endpoint
	Call     int    // the Call's Seq; 0 for a webhook's answer
	Rule     string // stable and short: "schema", "retry_key_reused", "unknown_argument" …
	Detail   string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s %s: %s: %s", v.Platform, v.Endpoint, v.Rule, v.Detail)
}

// Calls returns the calls to the given endpoints, or all, in order of arrival.
func (e *Emulator) Calls(endpoints ...Endpoint) []Call {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []Call
	for _, c := range e.calls {
		match := len(endpoints) == 0
		for _, endpoint := range endpoints {
			match = match || endpoint.matches(c.Platform, c.Endpoint)
		}
		if match {
			found = append(found, *c)
		}
	}
	return found
}

// WaitCalls waits until the endpoint was called, and answered or cut, at least n times.
func (e *Emulator) WaitCalls(ctx context.Context, endpoint Endpoint, n int) ([]Call, error) {
	var found []Call
	err := e.WaitFor(ctx, func() bool {
		found = found[:0:0]
		for _, c := range e.Calls(endpoint) {
			if c.Done {
				found = append(found, c)
			}
		}
		return len(found) >= n
	})
	return found, err
}

// Violations returns everything that broke a rule so far. A test of a well-behaved client expects none.
func (e *Emulator) Violations() []Violation {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Violation(nil), e.breaches...)
}

// violate notes a broken rule. The caller holds the lock.
func (e *Emulator) violate(c *Call, rule, detail string) {
	e.breaches = append(e.breaches, Violation{
		At: e.now(), Platform: c.Platform, Endpoint: c.Endpoint, Call: c.Seq, Rule: rule, Detail: detail,
	})
	e.bump()
}

// breach is violate for who does not hold the lock.
func (e *Emulator) breach(c *Call, rule, detail string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.violate(c, rule, detail)
}

// Reset forgets calls, violations, failures, webhooks and chats; people, channels, settings, sockets and retry keys
// stay.
func (e *Emulator) Reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls, e.breaches, e.failures, e.Webhooks.received = nil, nil, nil, nil
	e.LINE.forget()
	e.Slack.forget()
	e.bump()
}
