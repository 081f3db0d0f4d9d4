package line

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	api "github.com/line/line-bot-sdk-go/v8/linebot/messaging_api"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/channels"
	"countersign/channels/kind"
	"countersign/internal/secret"
)

// Name is what notifications call this channel.
const Name = "line"

// Channel sends to LINE. It is safe for concurrent use.
type Channel struct {
	token      secret.Value
	endpoint   string
	http       *http.Client
	bot        atomic.Pointer[string]
	identified chan struct{} // closed by identify once bot is there
	identify   func()
	quotas     quotas
	doubts     channels.Problems
}

var (
	_ channels.Channel      = (*Channel)(nil)
	_ channels.Identifier   = (*Channel)(nil)
	_ channels.Metered      = (*Channel)(nil)
	_ channels.Reporter     = (*Channel)(nil)
	_ channels.StatusTeller = (*Channel)(nil)
	_ channels.Reconfigurer = (*Channel)(nil)
	_ kind.Runner           = (*Channel)(nil)
)

// New returns the channel that c describes. It makes no call.
func New(c Config) (*Channel, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	identified := make(chan struct{})
	ch := &Channel{
		identified: identified, identify: sync.OnceFunc(func() { close(identified) }),
		token: c.ChannelAccessToken, endpoint: c.base(), doubts: c.doubts(),
		http:   channels.NewHTTPClient(channels.HTTPTimeout),
		quotas: quotas{log: slog.New(slog.DiscardHandler), now: time.Now, read: make(chan struct{}, 1)},
	}
	if _, err := ch.client(context.Background()); err != nil {
		return nil, fmt.Errorf("line: %w", err)
	}
	return ch, nil
}

// Format shows the channel without its token, whatever the verb.
func (ch *Channel) Format(f fmt.State, _ rune) { io.WriteString(f, Name) }

// Name returns "line".
func (ch *Channel) Name() string { return Name }

// Close lets go of idle connections. The channel must not be used any more.
func (ch *Channel) Close() { ch.http.CloseIdleConnections() }

// client returns an SDK client for one call: it carries the call's context.
func (ch *Channel) client(ctx context.Context) (*api.MessagingApiAPI, error) {
	c, err := api.NewMessagingApiAPI(ch.token.Reveal(), api.WithEndpoint(ch.endpoint), api.WithHTTPClient(ch.http))
	if err != nil {
		return nil, err
	}
	return c.WithContext(ctx), nil
}

// Probe asks LINE who the bot is. An error with ChannelDown means that the token is refused.
func (ch *Channel) Probe(ctx context.Context) error {
	_, err := ch.Bot(ctx)
	return err
}

// IsIdentified reports whether LINE has said who the bot is.
func (ch *Channel) IsIdentified() bool { return ch.bot.Load() != nil }

// BotUserID returns the bot's own user id, which webhooks name as their destination; "" before the
// first successful [Channel.Probe].
func (ch *Channel) BotUserID() string {
	if id := ch.bot.Load(); id != nil {
		return *id
	}
	return ""
}

// AwaitBotUserID is BotUserID which waits for it until ctx ends.
func (ch *Channel) AwaitBotUserID(ctx context.Context) string {
	select {
	case <-ch.identified:
	case <-ctx.Done():
	}
	return ch.BotUserID()
}

// receipt is the Data of a receipt.
type receipt struct {
	RequestID         string        `json:"request_id,omitempty"`
	AcceptedRequestID string        `json:"accepted_request_id,omitempty"` // of the try that LINE had taken before
	Reply             bool          `json:"reply,omitempty"`
	Unknown           bool          `json:"unknown,omitempty"` // a reply of which it is not known whether it was shown
	Messages          []sentMessage `json:"messages,omitempty"`
}

type sentMessage struct {
	ID         string `json:"id"`
	QuoteToken string `json:"quote_token,omitempty"`
}

// Send pushes a message, or answers with it where m.ReplyTo holds a reply token. Its error is always a
// *[channels.PushError].
func (ch *Channel) Send(ctx context.Context, m channels.Message) (channels.Receipt, error) {
	if m.Kind == approval.KindEdit {
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonCannotEdit,
			Err: errors.New("LINE messages cannot be edited")}
	}
	body, err := readBody(m.Body)
	if err != nil {
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonBadRequest, Err: err}
	}
	if m.Kind == approval.KindReply && m.ReplyTo != "" {
		r, err := ch.reply(ctx, m, body)
		// Only a clear refusal of the very first try shows that nothing was shown.
		if err == nil || err.HTTPStatus != http.StatusBadRequest || m.Attempt > 1 || ctx.Err() != nil || m.ReplyOnly {
			return r, asError(err)
		}
	}
	if m.ReplyOnly { // LINE's guidelines forbid pushing to ids that no person gave us
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonBadRecipient,
			Err: errors.New("somebody we do not know is answered with a reply or not at all")}
	}
	r, failed := ch.push(ctx, m, body)
	if failed != nil && m.Kind == approval.KindReply {
		failed.ReplySpent = true
	}
	return r, asError(failed)
}

var errNoMessages = errors.New("the stored body is not 1 to 5 messages")

// asError keeps a nil *PushError from becoming an error that is not nil.
func asError(e *channels.PushError) error {
	if e == nil {
		return nil
	}
	return e
}

func (ch *Channel) push(ctx context.Context, m channels.Message, body storedBody) (
	channels.Receipt, *channels.PushError,
) {
	if m.RetryKey == "" {
		// Without a key in its first request a push can never be repeated safely.
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonBadRequest,
			Err: errors.New("a push without a retry key")}
	}
	ctx, wire := channels.WatchWire(ctx)
	c, err := ch.client(ctx)
	if err != nil {
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonBadRequest, Err: err}
	}
	res, sent, err := c.PushMessageWithHttpInfo(&api.PushMessageRequest{To: m.To, Messages: body.messages,
		NotificationDisabled: m.Silent}, m.RetryKey)
	if res != nil && res.StatusCode == http.StatusConflict {
		return readConflict(res, body.card)
	}
	if e := failure(res, err, wire, ch.token); e != nil {
		return channels.Receipt{}, e
	}
	r := receipt{RequestID: requestID(res), Messages: sentMessages(sent.SentMessages)}
	return r.receipt(res.StatusCode, body.card), nil
}

// readConflict reads a 409: LINE has had this key before and sent nothing now. Its answer repeats the first
// one's.
func readConflict(res *http.Response, card int) (channels.Receipt, *channels.PushError) {
	defer res.Body.Close()
	accepted := res.Header.Get("X-Line-Accepted-Request-Id")
	if accepted == "" {
		return channels.Receipt{}, &channels.PushError{Reason: channels.ReasonConflict, HTTPStatus: res.StatusCode,
			Unknown: true,
			Err:     errors.New("409 without x-line-accepted-request-id")}
	}
	var answer struct {
		SentMessages []struct {
			ID         string `json:"id"`
			QuoteToken string `json:"quoteToken"`
		} `json:"sentMessages"`
	}
	r := receipt{RequestID: requestID(res), AcceptedRequestID: accepted}
	// The message is there whatever the body says: without ids it cannot be quoted, that is all.
	if json.NewDecoder(res.Body).Decode(&answer) == nil {
		for _, s := range answer.SentMessages {
			r.Messages = append(r.Messages, sentMessage{s.ID, s.QuoteToken})
		}
	}
	return r.receipt(res.StatusCode, card), nil
}

func (ch *Channel) reply(ctx context.Context, m channels.Message, body storedBody) (
	channels.Receipt, *channels.PushError,
) {
	ctx, wire := channels.WatchWire(ctx)
	c, err := ch.client(ctx)
	if err != nil {
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonBadRequest, Err: err}
	}
	res, sent, err := c.ReplyMessageWithHttpInfo(&api.ReplyMessageRequest{ReplyToken: m.ReplyTo.Reveal(),
		Messages: body.messages})
	e := failure(res, err, wire, ch.token, m.ReplyTo)
	switch {
	case e == nil:
		r := receipt{RequestID: requestID(res), Reply: true, Messages: sentMessages(sent.SentMessages)}
		return r.receipt(res.StatusCode, body.card), nil
	case e.Unknown, e.HTTPStatus == http.StatusBadRequest && m.Attempt > 1:
		// It may have been shown, now or by an earlier try that a crash kept from being recorded.
		r := receipt{Reply: true, Unknown: true}
		if res != nil {
			r.RequestID = requestID(res)
		}
		return r.receipt(e.HTTPStatus, body.card), nil
	}
	return channels.Receipt{}, e
}

// receipt makes a receipt whose message id is that of the card, which is what people quote.
func (r receipt) receipt(status, card int) channels.Receipt {
	out := channels.Receipt{HTTPStatus: status}
	if card < len(r.Messages) {
		out.MessageID = r.Messages[card].ID
	} else if len(r.Messages) > 0 {
		out.MessageID = r.Messages[0].ID
	}
	out.Data, _ = json.Marshal(r) // strings and bools: it cannot fail
	return out
}

func requestID(res *http.Response) string {
	return legible.Cut(legible.Line(res.Header.Get("X-Line-Request-Id")), 128)
}

// failure classifies what a call came to; nil for success. The SDK's own errors quote bodies and
// addresses, so only their kind is used.
func failure(res *http.Response, err error, wire *channels.Wire, secrets ...secret.Value) *channels.PushError {
	if err == nil {
		return nil
	}
	if res == nil {
		return channels.TransportError(err, wire)
	}
	defer res.Body.Close()
	e := &channels.PushError{HTTPStatus: res.StatusCode, RetryAfter: channels.RetryAfter(res.Header)}
	if res.StatusCode/100 == 2 {
		e.Reason, e.Unknown, e.Err = channels.ReasonBrokenAnswer, true,
			errors.New("the answer is not the JSON that it should be")
		return e
	}
	var said errorBody
	if b, err := io.ReadAll(res.Body); err == nil {
		_ = json.Unmarshal(b, &said) // an answer from some proxy: the status says enough
	}
	e.Err = said.err(res.StatusCode, secrets)
	switch s := res.StatusCode; {
	case s == http.StatusTooManyRequests && said.has("monthly limit"):
		e.Reason, e.Final, e.RetryAfter = channels.ReasonMonthlyLimit, true, 0
	case s == http.StatusTooManyRequests:
		e.Reason = channels.ReasonRateLimited
	case s == http.StatusUnauthorized:
		e.Reason, e.ChannelDown = channels.ReasonBadToken, true
	case s == http.StatusForbidden:
		e.Reason, e.Final = channels.ReasonForbidden, true
	case s == http.StatusBadRequest && (said.has("failed to send messages") || said.about("to")):
		e.Reason, e.Final = channels.ReasonBadRecipient, true
	case s/100 == 4:
		e.Reason, e.Final = channels.ReasonBadRequest, true
		if s == http.StatusRequestTimeout {
			e.Reason, e.Final, e.Unknown = channels.ReasonTimeout, false, true
		}
	case s/100 == 5:
		e.Reason, e.Unknown = channels.ReasonUnavailable, true
	default: // a redirect, say, from something that is not LINE
		e.Reason = channels.ReasonUnavailable
	}
	return e
}

// errorBody is LINE's ErrorResponse.
type errorBody struct {
	Message string `json:"message"`
	Details []struct {
		Message  string `json:"message"`
		Property string `json:"property"`
	} `json:"details"`
}

func (b errorBody) has(words string) bool { return strings.Contains(strings.ToLower(b.Message), words) }

func (b errorBody) about(property string) bool {
	for _, d := range b.Details {
		if d.Property == property {
			return true
		}
	}
	return false
}

// err tells what LINE complained of. It names properties of our message, never their content.
func (b errorBody) err(status int, secrets []secret.Value) error {
	if b.Message == "" {
		return channels.StatusError(status)
	}
	s := b.Message
	for i, d := range b.Details {
		if i == 3 {
			s += "; …"
			break
		}
		s += "; " + d.Property + ": " + d.Message
	}
	return errors.New(channels.Said(channels.Redact(s, secrets...)))
}
