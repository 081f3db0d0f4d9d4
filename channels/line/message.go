package line

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	api "github.com/line/line-bot-sdk-go/v8/linebot/messaging_api"

	"countersign/secret"
)

// cardAmong looks through a stored body once. It returns how many messages it has, and the index of the first card
// among them, 0 where there is none. An error says that it is no list of messages.
func cardAmong(body []byte) (card, count int, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
		return 0, 0, errNoMessages
	}
	found := false
	for ; d.PeekKind() == '{'; count++ {
		isCard, err := readMessage(d)
		if err != nil {
			return 0, 0, err
		}
		if isCard && !found {
			card, found = count, true
		}
	}
	if t, err := d.ReadToken(); err != nil || t.Kind() != ']' || len(bytes.TrimSpace(body[d.InputOffset():])) > 0 {
		return 0, 0, errNoMessages
	}
	return card, count, nil
}

// readMessage reads one message, and reports whether it is a card.
func readMessage(d *jsontext.Decoder) (isCard bool, err error) {
	if _, err := d.ReadToken(); err != nil {
		return false, err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadValue()
		if err != nil {
			return false, err
		}
		if string(name) != `"type"` {
			if err := d.SkipValue(); err != nil {
				return false, err
			}
			continue
		}
		value, err := d.ReadValue()
		if err != nil {
			return false, err
		}
		isCard = string(value) == `"flex"`
	}
	_, err = d.ReadToken()
	return isCard, err
}

// What is sent is put together here and not by the SDK, which would read and write the stored messages several times
// over. A test holds it against what the SDK writes.

func pushBody(to string, messages []byte, silent bool) []byte {
	b := appendQuoted(append(make([]byte, 0, len(messages)+256), `{"to":`...), to)
	b = strconv.AppendBool(append(b, `,"notificationDisabled":`...), silent)
	return ending(append(b, `,"customAggregationUnits":null`...), messages)
}

func replyBody(token secret.Value, messages []byte) []byte {
	b := appendQuoted(append(make([]byte, 0, len(messages)+256), `{"replyToken":`...), token.Reveal())
	return ending(append(b, `,"notificationDisabled":false`...), messages)
}

// ending appends what is sent.
func ending(b, messages []byte) []byte {
	return append(append(append(b, `,"messages":`...), messages...), "}\n"...)
}

const (
	pushPath  = "/v2/bot/message/push"
	replyPath = "/v2/bot/message/reply"
)

// post sends messages. Without an error LINE has said which it sent; the answer's body is read then.
func post(ctx context.Context, c *api.MessagingApiAPI, path, retryKey string, body []byte) (
	res *http.Response, sent []sentMessage, err error,
) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Url(path), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json; charset=UTF-8")
	if retryKey != "" {
		req.Header.Set("X-Line-Retry-Key", retryKey)
	}
	if res, err = c.Do(req); err != nil {
		return res, nil, err
	}
	if res.StatusCode/100 != 2 {
		return res, nil, fmt.Errorf("line: status %d", res.StatusCode)
	}
	defer res.Body.Close()
	var answer api.PushMessageResponse // that to a reply is the same
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return res, nil, err
	}
	for _, s := range answer.SentMessages {
		sent = append(sent, sentMessage{s.Id, s.QuoteToken})
	}
	return res, sent, nil
}
