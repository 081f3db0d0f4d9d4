package line

import (
	"encoding/json"

	api "github.com/line/line-bot-sdk-go/v8/linebot/messaging_api"

	"countersign/channels"
)

// storedMessage is one message of a stored body. The SDK sends it as it stands: what was rendered is not read into its
// structs and written again, so that every try, also one after an upgrade, is of the same bytes.
type storedMessage struct {
	json.RawMessage
	head struct {
		Type string `json:"type"`
	}
}

// GetType returns LINE's name of the message's type.
func (m storedMessage) GetType() string { return m.head.Type }

// storedBody is what was stored of a card, taken apart.
type storedBody struct {
	messages []api.MessageInterface
	card     int // the index of the first card among them, 0 where there is none
}

// readBody fails where b is not 1 to 5 messages.
func readBody(b channels.Body) (storedBody, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil || len(raw) == 0 || len(raw) > maxMessages {
		return storedBody{}, errNoMessages
	}
	var read storedBody
	found := false
	for i, b := range raw {
		m := storedMessage{RawMessage: b}
		if json.Unmarshal(b, &m.head) != nil || m.GetType() == "" {
			return storedBody{}, errNoMessages
		}
		if m.GetType() == cardType && !found {
			read.card, found = i, true
		}
		read.messages = append(read.messages, m)
	}
	return read, nil
}

// cardType is LINE's name of the type of a card.
const cardType = "flex"

// sentMessages are those that LINE says it sent.
func sentMessages(sent []api.SentMessage) (ms []sentMessage) {
	for _, s := range sent {
		ms = append(ms, sentMessage{s.Id, s.QuoteToken})
	}
	return ms
}
