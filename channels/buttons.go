package channels

import (
	"errors"
	"strings"

	"countersign/approval"
	"countersign/chat"
)

// Button is what a tap on Approve or Deny says: which of the two, and of which request or batch. It
// comes from old cards on people's phones, so nothing but the id is taken from it, and the id only names.
type Button struct {
	Intent chat.Intent // IntentApprove or IntentDeny
	ID     string      // ULID, upper case
}

// ErrButton is returned for data that no button of ours carries.
var ErrButton = errors.New("channels: not the data of one of our buttons")

// Data is the button as LINE's postback data: action=approve&id=<ULID>.
func (b Button) Data() string { return "action=" + string(b.Intent) + "&id=" + b.ID }

// ParseButton reads postback data: the keys action and id, once each and nothing else, with a known
// action and a valid ULID. Anything else is [ErrButton].
func ParseButton(data string) (Button, error) {
	var action, id string
	for pair := range strings.SplitSeq(data, "&") {
		key, value, _ := strings.Cut(pair, "=")
		switch {
		case value == "":
			return Button{}, ErrButton
		case key == "action" && action == "":
			action = value
		case key == "id" && id == "":
			id = value
		default:
			return Button{}, ErrButton
		}
	}
	return NewButton(action, id)
}

// NewButton makes a button out of an action and an id that came apart, as Slack's action_id and value
// do. An action other than approve and deny, or an id that is not a ULID, is [ErrButton].
func NewButton(action, id string) (Button, error) {
	intent := chat.Intent(action)
	if intent != chat.IntentApprove && intent != chat.IntentDeny {
		return Button{}, ErrButton
	}
	id, ok := approval.ParseID(id)
	if !ok {
		return Button{}, ErrButton
	}
	return Button{intent, id}, nil
}
