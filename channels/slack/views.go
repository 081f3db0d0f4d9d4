package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/slack-go/slack"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/channels"
	"countersign/internal/chat"
	"countersign/internal/locale/phrases"
	"countersign/internal/secret"
)

// The limits of views, and how much they show: a dialog the beginning of what is on the card, the Home
// tab about a screen of each request. A person who wants more has the card.
const (
	maxViewBlocks = 100
	maxViewBytes  = 240_000 // Slack refuses above 250 kB
	maxViewTitle  = 24      // and the labels of a dialog's own buttons
	maxMetadata   = 3000
	maxTyped      = 3000 // characters of a reason
	maxErrorText  = 300

	dialogRows = 12
	dialogRoom = 2300
	homeRows   = 20
	homeRoom   = 2300
)

// The ids of the one field that a dialog has.
const (
	blockReason  = "reason"
	actionReason = "reason_text"
)

// Meta is what a dialog carries from the tap that opened it to its submission: Slack brings it back
// unchanged, and shows it to no person.
type Meta struct {
	ID          string       // of the request or card that the button named
	Shows       chat.Shows   // what of the card it meant
	Channel     string       // of the message with the button; "" on the Home tab
	TS          string       // of that message
	ResponseURL secret.Value // where the tapper is answered; "" where it did not fit
}

// metadata is a Meta on its way. ID is a button's value.
type metadata struct {
	ID          string `json:"id"`
	Channel     string `json:"channel,omitzero"`
	TS          string `json:"ts,omitzero"`
	ResponseURL string `json:"response_url,omitzero"`
}

func (m Meta) encode() (string, error) {
	wire := metadata{channels.Button{ID: m.ID, Shows: m.Shows}.Value(), m.Channel, m.TS, m.ResponseURL.Reveal()}
	b, err := strict.Marshal(wire)
	if err == nil && measure(string(b)) > maxMetadata {
		wire.ResponseURL = ""
		b, err = strict.Marshal(wire)
	}
	if err != nil || measure(string(b)) > maxMetadata {
		return "", errors.New("slack: what a dialog has to carry does not fit")
	}
	return string(b), nil
}

// ReasonDialog is the dialog that asks why, for a tap on Approve or Deny. c is the card of what the tap
// is about: of its requests the pending ones are decided. Where one of them cannot be decided without a
// reason the dialog does not close without one either; that it was open decides nothing.
func ReasonDialog(c channels.Card, intent chat.Intent, m Meta) (v sdk.ModalViewRequest, err error) {
	b, err := channels.NewButton(string(intent), channels.Button{ID: m.ID, Shows: m.Shows}.Value())
	if err != nil || dialogWords[intent].one == "" {
		return v, channels.ErrButton
	}
	m.ID = b.ID
	carried, err := m.encode()
	if err != nil {
		return v, err
	}
	var open []channels.Item
	required := false
	for _, i := range c.Items {
		if i.Pending() {
			open = append(open, i)
			required = required || i.ReasonNeeded
		}
	}
	if len(open) == 0 {
		return v, errors.New("slack: a dialog about nothing that can be decided")
	}
	words := dialogWords[intent]
	v.CallbackID, v.PrivateMetadata = string(intent), carried
	title, blocks := words.one, []sdk.Block(nil)
	if len(open) == 1 {
		if blocks, err = glance(c, open[0]); err != nil {
			return v, err
		}
	} else {
		title = words.all
		blocks = []sdk.Block{plain(c.Words.Count(string(channels.TextDialogBatch), len(open)), maxObject)}
		blocks = append(blocks, tally(c, open)...)
	}
	told := channels.TextDialogTold
	if required {
		told = channels.TextDialogRequired
	}
	field := sdk.NewPlainTextInputBlockElement(nil, actionReason)
	field.Multiline, field.MaxLength, field.FocusOnLoad = true, maxTyped, intent == chat.IntentDeny
	label := plainText(c.Say(channels.TextDialogReason), maxViewTitle)
	blocks = append(blocks, sdk.NewInputBlock(blockReason, label, plainText(c.Say(told), maxErrorText),
		field).WithOptional(!required))
	v.Submit = plainText(c.Say(words.submit), maxViewTitle)
	return dialog(v, c.Say(title), c.Say(channels.TextCancel), blocks)
}

// dialogWords are the words of a dialog: of one request, of several, and on its button.
var dialogWords = map[chat.Intent]struct{ one, all, submit channels.Text }{
	chat.IntentDeny:    {channels.TextDialogDeny, channels.TextDialogDenyAll, channels.TextDeny},
	chat.IntentApprove: {channels.TextDialogApprove, channels.TextDialogApproveAll, channels.TextApprove},
}

// glance is one request as on its card, with the first of its args, and without its buttons and the
// agent's own words.
func glance(c channels.Card, i channels.Item) ([]sdk.Block, error) {
	all := i.Total
	i.Rationale, i.Preview, i.PreviewRead, i.Diff, i.Change, i.ServerWords = "", "", "", nil, nil, ""
	i.Rows = i.Rows[:min(dialogRows, len(i.Rows))]
	i.Total = 0
	for _, r := range i.Rows {
		if !r.Open {
			i.Total++
		}
	}
	return fit(dialogRoom, func(m measures) drawing {
		return drawing{measures: m, card: c, item: i, glance: true, left: all - i.Total}
	})
}

// tally lists what will happen by several requests.
func tally(c channels.Card, items []channels.Item) []sdk.Block {
	t := new(rich)
	for n, i := range items {
		t.strong(fmt.Sprintf("%d. %s · ", n+1, riskAmong(c, i)))
		t.line(channels.CutEnd(i.Summary, maxSentence, measure))
	}
	return t.finish()
}

// NoticeView is the dialog's last word where its submission decided nothing: c is the answer, a card
// without requests, and title [channels.TextDialogTooLate] or [channels.TextDialogRefused].
func NoticeView(c channels.Card, title channels.Text) (sdk.ModalViewRequest, error) {
	return dialog(sdk.ModalViewRequest{}, c.Say(title), c.Say(channels.TextClose), saying(or(c.Text, "…")))
}

// dialog finishes a dialog.
func dialog(v sdk.ModalViewRequest, title, shut string, blocks []sdk.Block) (sdk.ModalViewRequest, error) {
	v.Type, v.Title, v.Close = sdk.VTModal, plainText(title, maxViewTitle), plainText(shut, maxViewTitle)
	v.Blocks.BlockSet = blocks
	return v, checkView(v, len(blocks))
}

// checkView checks that Slack takes a view of this size.
func checkView(v any, blocks int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if blocks > maxViewBlocks || len(b) > maxViewBytes {
		return fmt.Errorf("slack: a view of %d blocks and %d bytes", blocks, len(b))
	}
	return nil
}

func plainText(s string, limit int) *sdk.TextBlockObject { return words(shorten(s, limit)) }

// SubmissionErrors is the answer to a submission that keeps the dialog open, with what is wrong beside
// its field. text is visible and masked, as a card's is.
func SubmissionErrors(text string) *sdk.ViewSubmissionResponse {
	return sdk.NewErrorsViewSubmissionResponse(map[string]string{blockReason: shorten(or(text, "…"), maxErrorText)})
}

// Submission is what was submitted with a dialog of ours.
type Submission struct {
	Intent chat.Intent // IntentApprove or IntentDeny
	Meta   Meta
	Reason string // as it was typed; "" for none
}

// ErrSubmission is returned for a view that is no dialog of ours.
var ErrSubmission = errors.New("slack: not the submission of one of our dialogs")

// messageTS matches the name of a message in its channel.
var messageTS = regexp.MustCompile(`^[0-9]{1,20}\.[0-9]{1,20}$`)

// ParseSubmission reads the view of a view_submission. Of all that Slack says in it, our callback id,
// the one field that a dialog has and what the dialog carried are looked at; where any of them is not as
// we made it the error is [ErrSubmission].
func ParseSubmission(view json.RawMessage) (Submission, error) {
	var v struct {
		Type       string `json:"type"`
		CallbackID string `json:"callback_id"`
		Carried    string `json:"private_metadata"`
		State      struct {
			Values map[string]map[string]struct {
				Type  string  `json:"type"`
				Value *string `json:"value"`
			} `json:"values"`
		} `json:"state"`
	}
	if channels.Strictly(view, &v) != nil || v.Type != string(sdk.VTModal) || measure(v.Carried) > maxMetadata {
		return Submission{}, ErrSubmission
	}
	var m metadata
	if strict.Unmarshal([]byte(v.Carried), &m, strict.RejectUnknownMembers(true),
		jsontext.AllowDuplicateNames(false)) != nil {
		return Submission{}, ErrSubmission
	}
	b, err := channels.NewButton(v.CallbackID, m.ID)
	typed, ok := v.State.Values[blockReason][actionReason]
	switch {
	case err != nil, dialogWords[b.Intent].one == "", !ok, len(v.State.Values) != 1, len(v.State.Values[blockReason]) != 1,
		typed.Type != string(sdk.METPlainTextInput),
		m.Channel != "" && !channelID.MatchString(m.Channel), m.TS != "" && !messageTS.MatchString(m.TS):
		return Submission{}, ErrSubmission
	}
	s := Submission{Intent: b.Intent, Meta: Meta{b.ID, b.Shows, m.Channel, m.TS, secret.Value(m.ResponseURL)}}
	if typed.Value != nil {
		s.Reason = *typed.Value
	}
	return s, nil
}

// Home is what the app's Home tab tells one person.
type Home struct {
	// Card holds what waits, the newest first, and At says when that was so. It is not a batch.
	Card   channels.Card
	Total  int            // how many requests wait; those that Card lacks are counted
	By     approval.Actor // who reads it
	UserID string         // their id on Slack
}

// HomeView is the Home tab: what waits, with buttons for people who may decide. A person who is not
// configured is told whom to ask, and nothing of any request.
func HomeView(h Home) (sdk.HomeTabViewRequest, error) {
	c := h.Card
	say := func(p phrases.Phrase, args ...string) string { return c.Words.Say(string(p), args...) }
	if h.By.Kind != approval.Human {
		return homeTab([]sdk.Block{
			sdk.NewHeaderBlock(plainText(c.Say(channels.TextHomeUnknown), maxHeader)),
			plain(say(phrases.SayHelpStranger, "address", legible.Line(h.UserID)), maxObject),
		})
	}
	how := channels.TextHomeReads
	if h.By.Approver {
		how = channels.TextHomeHow
	}
	you := say(phrases.SayStatusYou, "who", legible.Line(h.By.Name), "roles", say(chat.RoleOf(h.By)))
	var waiting []channels.Item
	for _, i := range c.Items {
		if i.Pending() {
			waiting = append(waiting, i)
		}
	}
	total, heading := max(h.Total, len(waiting)), c.Say(channels.TextHome)
	if total > 0 {
		heading += fmt.Sprintf(" (%d)", total)
	}
	blocks := []sdk.Block{
		sdk.NewHeaderBlock(plainText(heading, maxHeader)),
		plain(you+"\n"+c.Say(how), maxObject),
	}
	if total == 0 {
		blocks = append(blocks, sdk.NewDividerBlock(), plain(say(phrases.SayNothingWaits), maxObject))
	}
	size, shown := 0, 0
	for n, i := range waiting {
		own, bytes, err := homeItem(c, i, n+1, h.By.Approver)
		if err != nil {
			return sdk.HomeTabViewRequest{}, err
		}
		// The heading, what is left over and the time of it need room yet.
		if size += bytes; size > maxViewBytes*3/4 || len(blocks)+len(own)+4 > maxViewBlocks {
			break
		}
		blocks = append(append(blocks, sdk.NewDividerBlock()), own...)
		shown++
	}
	if total > shown {
		blocks = append(blocks, sdk.NewDividerBlock(), plain(c.Words.Count(string(channels.TextHomeMore), total-shown),
			maxObject))
	}
	var end []string
	if !c.At.IsZero() {
		end = append(end, escape(c.Say(channels.TextHomeAsOf)+" "+c.Made))
	}
	if shown > 0 {
		end = append(end, escape(c.Say(channels.TextReadAll)))
	}
	if len(end) > 0 {
		blocks = append(blocks, remarks(end...))
	}
	return homeTab(blocks)
}

// homeItem is one request on the Home tab, and how many bytes it takes.
func homeItem(c channels.Card, i channels.Item, number int, decides bool) (blocks []sdk.Block, size int, err error) {
	i.Rows = i.Rows[:min(homeRows, len(i.Rows))]
	blocks, err = fit(homeRoom, func(m measures) drawing {
		return drawing{measures: m, card: c, item: i, number: number, glance: !decides}
	})
	if err != nil {
		return nil, 0, err
	}
	b, err := json.Marshal(blocks)
	return blocks, len(b), err
}

func homeTab(blocks []sdk.Block) (sdk.HomeTabViewRequest, error) {
	v := sdk.HomeTabViewRequest{Type: sdk.VTHomeTab, Blocks: sdk.Blocks{BlockSet: blocks}}
	return v, checkView(v, len(blocks))
}
