package line

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"countersign/approval/legible"
	"countersign/channels"
)

// What LINE says of itself is kept no longer than this, in characters.
const (
	maxEndpoint = 500 // LINE's own limit
	maxName     = 100
)

// languageTag is a BCP 47 tag, in the shapes that a phone's language has.
var languageTag = regexp.MustCompile(`^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}$`)

// AskQuota asks how many messages the account may send this month, and how many count already. limited
// is false where its plan has no limit; limit is then 0. Only pushes count, one for each person reached.
func (ch *Channel) AskQuota(ctx context.Context) (limit int, limited bool, used int, err error) {
	var quota struct {
		Type  string `json:"type"`
		Value *int   `json:"value"`
	}
	if e := ch.ask(ctx, http.MethodGet, "/v2/bot/message/quota", nil, &quota); e != nil {
		return 0, false, 0, e
	}
	switch {
	case quota.Type == "none":
	case quota.Type == "limited" && quota.Value != nil && *quota.Value >= 0:
		limit, limited = *quota.Value, true
	default:
		return 0, false, 0, brokenAnswer("the answer does not say how many messages a month the account has")
	}
	var consumption struct {
		TotalUsage *int `json:"totalUsage"`
	}
	if e := ch.ask(ctx, http.MethodGet, "/v2/bot/message/quota/consumption", nil, &consumption); e != nil {
		return 0, false, 0, e
	}
	if consumption.TotalUsage == nil || *consumption.TotalUsage < 0 {
		return 0, false, 0, brokenAnswer("the answer does not say how many messages of this month are used up")
	}
	return limit, limited, *consumption.TotalUsage, nil
}

// Profile returns how a friend of the bot is called, and the language of their LINE, which is "" where
// they have not agreed to tell it. For a person who is no friend it is an error with the reason
// [channels.ReasonBadRecipient].
func (ch *Channel) Profile(ctx context.Context, userID string) (displayName, language string, err error) {
	if userID == "" || strings.Trim(userID, ".") == "" {
		return "", "", &channels.PushError{Final: true, Reason: channels.ReasonBadRecipient,
			Err: errors.New("this is no LINE user id")}
	}
	var profile struct {
		UserID      string `json:"userId"`
		DisplayName string `json:"displayName"`
		Language    string `json:"language"`
	}
	e := ch.ask(ctx, http.MethodGet, "/v2/bot/profile/"+url.PathEscape(userID), nil, &profile)
	if e != nil && e.HTTPStatus == http.StatusNotFound {
		e.Reason, e.Err = channels.ReasonBadRecipient,
			errors.New("not a friend of the bot: the person must add it as a friend, and must not have blocked it")
	}
	if e != nil {
		return "", "", e
	}
	if profile.UserID != userID {
		return "", "", brokenAnswer("the answer is not the profile that was asked for")
	}
	if languageTag.MatchString(profile.Language) {
		language = profile.Language
	}
	return legible.Cut(legible.Line(profile.DisplayName), maxName), language, nil
}

// Webhook returns the address that LINE sends events to, "" where none is set, and whether it sends any
// there: the switch "Use webhook".
func (ch *Channel) Webhook(ctx context.Context) (endpoint string, active bool, err error) {
	var webhook struct {
		Endpoint string `json:"endpoint"`
		Active   *bool  `json:"active"`
	}
	if e := ch.ask(ctx, http.MethodGet, "/v2/bot/channel/webhook/endpoint", nil, &webhook); e != nil {
		if e.HTTPStatus == http.StatusNotFound {
			return "", false, nil
		}
		return "", false, e
	}
	if webhook.Endpoint == "" || webhook.Active == nil {
		return "", false, brokenAnswer("the answer does not say where events go")
	}
	return legible.Cut(legible.Line(webhook.Endpoint), maxEndpoint), *webhook.Active, nil
}

// TestWebhook has LINE send an empty event to the address that [Channel.Webhook] returns, and tells what
// came of it: the HTTP status that LINE got, zero or less where it got none, and LINE's word for it.
// LINE allows 60 such tests an hour.
func (ch *Channel) TestWebhook(ctx context.Context) (success bool, status int, reason string, err error) {
	var test struct {
		Success    *bool  `json:"success"`
		StatusCode *int   `json:"statusCode"`
		Reason     string `json:"reason"`
		Detail     string `json:"detail"`
	}
	if e := ch.ask(ctx, http.MethodPost, "/v2/bot/channel/webhook/test", struct{}{}, &test); e != nil {
		return false, 0, "", e
	}
	if test.Success == nil || test.StatusCode == nil {
		return false, 0, "", brokenAnswer("the answer does not say how the test went")
	}
	reason = test.Reason
	if test.Detail != "" {
		reason += ": " + test.Detail
	}
	return *test.Success, *test.StatusCode, channels.Said(channels.Redact(reason, ch.token)), nil
}

// ValidatePush asks LINE whether it would take what [Channel.Render] made. Nothing is sent. What LINE
// complains of is an error with the reason [channels.ReasonBadRequest].
func (ch *Channel) ValidatePush(ctx context.Context, body channels.Body) error {
	return asError(ch.ask(ctx, http.MethodPost, "/v2/bot/message/validate/push",
		map[string]json.RawMessage{"messages": json.RawMessage(body)}, nil))
}

// ask makes a call that sends no message, and decodes what LINE says into answer. Where answer is nil
// the answer may be empty. The SDK has these calls too, but takes an answer of {} for one of zeros.
func (ch *Channel) ask(ctx context.Context, method, path string, question, answer any) *channels.PushError {
	var body io.Reader
	if question != nil {
		b, err := json.Marshal(question)
		if err != nil {
			return &channels.PushError{Final: true, Reason: channels.ReasonBadRequest,
				Err: errors.New("what is to be asked is not JSON")}
		}
		body = bytes.NewReader(b)
	}
	ctx, wire := channels.WatchWire(ctx)
	r, err := http.NewRequestWithContext(ctx, method, ch.endpoint+path, body)
	if err != nil {
		return &channels.PushError{Final: true, Reason: channels.ReasonBadRequest,
			Err: errors.New("the address cannot be called: look at api_url")}
	}
	r.Header.Set("Authorization", "Bearer "+ch.token.Reveal())
	r.Header.Set("Content-Type", "application/json")
	res, err := ch.http.Do(r)
	if err == nil {
		err = understood(res, answer)
	}
	e := failure(res, err, wire, ch.token)
	if e != nil {
		e.Unknown = false // there is no message that could have gone out
	}
	return e
}

// understood decodes the answer to a question.
func understood(res *http.Response, answer any) error {
	if res.StatusCode/100 != 2 {
		return errors.New(res.Status)
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if said = bytes.TrimSpace(said); answer == nil {
		if len(said) == 0 {
			return nil
		}
		answer = new(struct{})
	}
	if !bytes.HasPrefix(said, []byte("{")) {
		return errors.New("no JSON object")
	}
	return json.Unmarshal(said, answer)
}

// brokenAnswer is the error of an answer that lacks what it is there for.
func brokenAnswer(what string) *channels.PushError {
	return &channels.PushError{Reason: channels.ReasonBrokenAnswer, HTTPStatus: http.StatusOK, Err: errors.New(what)}
}
