package channels

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"countersign/approval"
	"countersign/internal/chat"
)

// Button is what a tap says: what is wanted, and of which request or card; of [chat.IntentConfirm] and
// [chat.IntentBack], of which question. It comes from old cards on people's phones, so nothing but names and numbers is
// taken from it, and they only name.
type Button struct {
	Intent chat.Intent
	ID     string // ULID, upper case; a way back needs none
	// Shows is what a button for all of a card means by it.
	Shows chat.Shows
	// For is how long an approval is to answer the same call again, of [chat.IntentGrant].
	For chat.Period
}

// ErrButton is returned for data that no button of ours carries.
var ErrButton = errors.New("channels: not the data of one of our buttons")

// With is the button with another intent.
func (b Button) With(i chat.Intent) Button {
	b.Intent = i
	return b
}

// The keys of a button's data.
const (
	keyAction  = "action"
	keyID      = "id"
	keyVersion = "v"
	keyAfter   = "after"
	keyFor     = "for"
)

// Data is the button as LINE's postback data: action=approve&id=<ULID>, for all of a card with &v=<newest version that
// it shows>, and where it shows only what came after an older one with &after=<that>.
func (b Button) Data() string {
	return keyAction + "=" + string(b.Intent) + "&" + keyID + "=" + b.Value()
}

// Value is the same without the action, as Slack keeps the two apart: <ULID>, or <ULID>&v=<version>.
func (b Button) Value() string {
	s := b.ID
	if b.Shows.Version > 0 {
		s += "&" + keyVersion + "=" + strconv.Itoa(b.Shows.Version)
	}
	if b.Shows.After > 0 {
		s += "&" + keyAfter + "=" + strconv.Itoa(b.Shows.After)
	}
	if b.For != "" {
		s += "&" + keyFor + "=" + string(b.For)
	}
	return s
}

// ParseButton reads postback data: the keys that [Button.Data] writes, once each and nothing else, with a known action
// and a valid ULID. Anything else is [ErrButton].
func ParseButton(data string) (Button, error) {
	said := map[string]string{}
	for pair := range strings.SplitSeq(data, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if _, twice := said[key]; twice || value == "" {
			return Button{}, ErrButton
		}
		said[key] = value
	}
	b := Button{Intent: chat.Intent(said[keyAction]), For: chat.Period(said[keyFor])}
	ok := slices.Contains(onButtons, b.Intent)
	for key, value := range said {
		switch key {
		case keyAction, keyFor:
		case keyID:
			id, valid := approval.ParseID(value)
			b.ID, ok = id, ok && valid
		case keyVersion:
			n, valid := chat.ParseVersion(value)
			b.Shows.Version, ok = n, ok && valid
		case keyAfter:
			n, valid := chat.ParseVersion(value)
			b.Shows.After, ok = n, ok && valid
		default:
			ok = false
		}
	}
	if !ok || !b.whole() {
		return Button{}, ErrButton
	}
	return b, nil
}

// whole reports whether the button says all that its intent takes, and nothing else.
func (b Button) whole() bool {
	decides := b.Intent == chat.IntentApprove || b.Intent == chat.IntentDeny
	switch {
	case b.ID == "":
		return b == Button{Intent: chat.IntentBack}
	case b.Shows != chat.Shows{} && !(decides && b.Shows.After < b.Shows.Version):
		return false
	case b.Intent == chat.IntentGrant:
		_, known := b.For.Wish()
		return known
	}
	return b.For == ""
}

// onButtons is what buttons can say.
var onButtons = []chat.Intent{chat.IntentApprove, chat.IntentDeny, chat.IntentConfirm, chat.IntentBack,
	chat.IntentExtend, chat.IntentFreeze, chat.IntentGrant}

// NewButton makes a button out of an action and a [Button.Value] that came apart, as Slack's action_id and value
// do. An action that no button has, or a value that is not one of ours, is [ErrButton].
func NewButton(action, value string) (Button, error) {
	if chat.Intent(action) == chat.IntentBack && value == "" {
		return Button{Intent: chat.IntentBack}, nil
	}
	if strings.Contains(action, "&") {
		return Button{}, ErrButton
	}
	return ParseButton(keyAction + "=" + action + "&" + keyID + "=" + value)
}

// NewChoice makes a button out of a menu's choice: the action and the value, with a colon between them.
func NewChoice(value string) (Button, error) {
	action, id, _ := strings.Cut(value, ":")
	return NewButton(action, id)
}
