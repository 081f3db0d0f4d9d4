package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/slack-go/slack"

	"countersign/channels"
	"countersign/internal/secret"
)

// exchange is the HTTP side of one call. It keeps what the platform answered, and passes on to the SDK
// no more of it than what cannot fail to decode.
type exchange struct {
	http   *http.Client
	status int
	header http.Header
	answer answer
	body   []byte
	said   bool // answer was read from a JSON object
	ok     bool // the text "ok", which a response_url answers
	err    error
}

// answer is what matters of Slack's answers, of any method.
type answer struct {
	OK               bool   `json:"ok"`
	Error            string `json:"error,omitempty"`
	Needed           string `json:"needed,omitempty"`
	Channel          object `json:"channel,omitzero"`
	TS               string `json:"ts,omitempty"`
	MessageTS        string `json:"message_ts,omitempty"`
	TeamID           string `json:"team_id,omitempty"`
	EnterpriseID     string `json:"enterprise_id,omitempty"`
	UserID           string `json:"user_id,omitempty"`
	BotID            string `json:"bot_id,omitempty"`
	ResponseMetadata struct {
		Messages []string `json:"messages,omitempty"`
	} `json:"response_metadata,omitzero"`
}

// object is a channel, which some methods answer as an id and some as an object.
type object struct {
	ID          string `json:"id"`
	IsExtShared bool   `json:"is_ext_shared"`
}

func (o *object) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &o.ID)
	}
	type plain object
	return json.Unmarshal(b, (*plain)(o))
}

// Do is the SDK's view of an HTTP client.
func (x *exchange) Do(r *http.Request) (*http.Response, error) {
	if r.ContentLength > 0 && r.Header.Get("Content-Type") == "application/json" {
		r.Header.Set("Content-Type", "application/json; charset=utf-8") // Slack warns where that is not said
	}
	res, err := x.http.Do(r)
	if err != nil {
		x.err = err
		return nil, err
	}
	defer res.Body.Close()
	x.status, x.header = res.StatusCode, res.Header
	body, err := io.ReadAll(res.Body)
	if err != nil {
		x.err = err
		return nil, err
	}
	x.body, x.ok = body, strings.TrimSpace(string(body)) == "ok"
	x.said = json.Unmarshal(body, &x.answer) == nil && bytes.HasPrefix(bytes.TrimSpace(body), []byte("{"))
	// What is passed on is judged here, not by the SDK: an empty failure keeps it from decoding the rest.
	seen := *res
	seen.Header = http.Header{"Content-Type": {"application/json"}}
	if seen.StatusCode == http.StatusTooManyRequests {
		seen.StatusCode = http.StatusServiceUnavailable // else it parses Retry-After, and not well
	}
	seen.Body = io.NopCloser(strings.NewReader(`{"ok":true}`))
	return &seen, nil
}

// call makes one call with an SDK client of its own, and judges what Slack answers. secrets must not show in an error.
func (ch *Channel) call(ctx context.Context, do func(ctx context.Context, c *sdk.Client) error,
	secrets ...secret.Value) (*exchange, *channels.PushError) {
	ctx, wire := channels.WatchWire(ctx)
	x := &exchange{http: ch.http}
	err := do(ctx, sdk.New(ch.token.Reveal(), sdk.OptionAPIURL(ch.base), sdk.OptionHTTPClient(x)))
	if granted := scopesOf(x.header); granted != nil {
		ch.mute.Store(!slices.Contains(granted, "chat:write"))
	}
	secrets = append(secrets, ch.token)
	switch {
	case x.err != nil:
		e := channels.TransportError(x.err, wire)
		e.HTTPStatus = x.status
		return x, e
	case x.status == 0: // there was nothing to send
		return x, &channels.PushError{Final: true, Reason: channels.ReasonBadRequest,
			Err: errors.New(channels.Said(channels.Redact(err.Error(), secrets...)))}
	case x.status == http.StatusTooManyRequests:
		return x, &channels.PushError{Reason: channels.ReasonRateLimited, HTTPStatus: x.status,
			RetryAfter: max(channels.RetryAfter(x.header), ch.leastWait(x.header)), Err: channels.StatusError(x.status)}
	case x.status/100 == 5:
		return x, &channels.PushError{Reason: channels.ReasonUnavailable, HTTPStatus: x.status, Unknown: true,
			Err: channels.StatusError(x.status)}
	case x.said && !x.answer.OK && x.answer.Error != "":
		e := classify(x.answer)
		e.HTTPStatus = x.status
		e.Err = errors.New(channels.Said(channels.Redact(x.answer.words(), secrets...)))
		return x, e
	case x.status/100 == 4:
		return x, &channels.PushError{Final: true, Reason: channels.ReasonBadRequest, HTTPStatus: x.status,
			Err: channels.StatusError(x.status)}
	case x.status != http.StatusOK:
		return x, &channels.PushError{Reason: channels.ReasonUnavailable, HTTPStatus: x.status,
			Err: channels.StatusError(x.status)}
	case !x.said && !x.ok, x.said && !x.answer.OK:
		return x, &channels.PushError{Reason: channels.ReasonBrokenAnswer, HTTPStatus: x.status, Unknown: true,
			Err: errors.New("the answer does not say whether it is ok")}
	}
	return x, nil
}

// unknownMethod reports whether the other side has no such method.
func (x *exchange) unknownMethod() bool {
	return x.status == http.StatusNotFound || x.said && x.answer.Error == "unknown_method"
}

// words are what Slack says of a failure.
func (a answer) words() string {
	s := a.Error
	if a.Needed != "" {
		s += ", needs " + a.Needed
	}
	if m := a.ResponseMetadata.Messages; len(m) > 0 {
		s += ": " + strings.Join(m[:min(3, len(m))], "; ")
	}
	return s
}
