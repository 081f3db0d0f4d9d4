package approval

import (
	"strconv"
	"strings"
	"time"
)

// NotificationKind says what a notification is for.
type NotificationKind string

const (
	KindRequest  NotificationKind = "request"  // the card of a new request, or of a batch of them
	KindReminder NotificationKind = "reminder" // the same card again
	KindEdit     NotificationKind = "outcome"  // an edit of a card that was sent
	KindReply    NotificationKind = "reply"    // the answer to a tap or a typed word
)

// NotificationStatus is how far a notification has come.
type NotificationStatus string

const (
	Queued    NotificationStatus = "queued"
	Retrying  NotificationStatus = "retrying"
	Sent      NotificationStatus = "sent"
	Delivered NotificationStatus = "delivered" // a person acted on it
	Failed    NotificationStatus = "failed"    // final, until an admin or the heartbeat tries again
	Skipped   NotificationStatus = "skipped"   // the request ended first
)

// Address is where a notification goes: a LINE user id, a Slack channel id.
type Address struct {
	Channel string // "line", "slack"
	To      string
}

// Push is a notification as figures count it.
type Push struct {
	ID        string
	CreatedAt time.Time
	To        Address
	// Of is the request that it asked about or reminded of, its Agent, Server, Tool and Rule alone, and the RuleDigest of
	// a rule that may be called by its place; the zero Request where it did neither, or was not sent.
	Of Request
}

// Route is the ways to one recipient, a person or a channel, in the order in which they are tried: a
// card goes to the first that is alive, and to the next where that fails for good.
type Route []Address

// Note is what a notification is about beside its card.
type Note string

const (
	// NoteReason: a reply that asks why something was denied. The next text tells the agent.
	NoteReason Note = "reason"
	// NoteDeny and NoteApprove: a reply that asks for the reason without which nothing is decided.
	NoteDeny    Note = "deny"
	NoteApprove Note = "approve"
	// NoteOvertaken: a NoteApprove after which another card left for the same place, which the next text may be meant for.
	// It approves nothing.
	NoteOvertaken Note = "overtaken"
	// NoteStranger: an answer to somebody we do not know, who gets it as a reply or not at all.
	NoteStranger Note = "stranger"
	// NoteMore: a reply with what else can be done about its request: an hour more, a freeze.
	NoteMore Note = "more"
	// NoteConfirm: a reply that asks once more before its request is approved. What follows it in the note is the reason
	// that the approval was given with.
	NoteConfirm Note = "confirm"
	// NoteFreeze: a reply that asks once more before the agent of its request is frozen.
	NoteFreeze Note = "freeze"
	// NoteAnswered: one that asked so, and was answered.
	NoteAnswered Note = "answered"
	// NoteQueued: a reply that says how many cards wait for their turn.
	NoteQueued Note = "queued"
	// NoteUnreached: a card that comes to an admin because nobody else could be reached.
	NoteUnreached Note = "unreached"
)

// noteWaiting: a reminder of several requests. What follows it is how many wait in all.
const noteWaiting = "waiting:"

// WaitingNote is the note of a reminder of several requests, of which it may show some.
func WaitingNote(n int) Note { return Note(noteWaiting + strconv.Itoa(n)) }

// Waiting returns of how many requests a reminder is.
func (n Note) Waiting() (int, bool) {
	s, ok := strings.CutPrefix(string(n), noteWaiting)
	if !ok {
		return 0, false
	}
	all, err := strconv.Atoi(s)
	return all, err == nil
}

// noteSignIn: a reply with a link that signs its reader in. What follows it is the link's id.
const noteSignIn = "sign_in:"

// SignInNote is the note of a reply with a one-time link. The link itself is put in when the reply is sent, and is not
// kept with it.
func SignInNote(linkID string) Note { return Note(noteSignIn + linkID) }

// SignIn returns the id of the link that a reply brings.
func (n Note) SignIn() (linkID string, ok bool) { return strings.CutPrefix(string(n), noteSignIn) }

// noteLink: a reply with an address that is to be opened, which follows it.
const noteLink = "link:"

// LinkNote is the note of a reply with an address.
func LinkNote(address string) Note { return Note(noteLink + address) }

// Link returns the address that a reply brings.
func (n Note) Link() (address string, ok bool) { return strings.CutPrefix(string(n), noteLink) }

// ConfirmNote is the [NoteConfirm] of an approval that is given with a reason.
func ConfirmNote(reason string) Note { return NoteConfirm + Note(reason) }

// Confirms reports whether a note is a [NoteConfirm], and with which reason the approval was given.
func (n Note) Confirms() (reason string, ok bool) {
	return strings.CutPrefix(string(n), string(NoteConfirm))
}

// AsksReason reports whether the reply asks for a reason, which its reader may be typing.
func (n Note) AsksReason() bool { return n == NoteReason || n == NoteDeny || n == NoteApprove }

// AsksOnce reports whether the reply asks for a yes that is given once.
func (n Note) AsksOnce() bool {
	_, confirms := n.Confirms()
	return confirms || n == NoteFreeze
}

// Notification is one push of a card to one recipient on one channel.
type Notification struct {
	ID         string // ULID
	ApprovalID string // "" for a reply that is about no request; the first of a batch
	BatchID    string // set when it shows the items of a Card
	Channel    string
	Recipient  string
	Kind       NotificationKind
	Status     NotificationStatus

	Attempt       int // sends begun
	MessageID     string
	HTTPStatus    int
	Error         string // stable reason, then what the platform said: "rate_limited: …"
	NextAttemptAt time.Time
	LeaseUntil    time.Time // a sender has it until then
	FirstTryAt    time.Time // of RetryKey: platforms forget a key after a while
	SentAt        time.Time
	CreatedAt     time.Time
	UpdatedAt     time.Time

	Body     []byte // the platform's own bytes, rendered once before the first try
	Narrow   bool   // Body was not read, and storing the notification leaves it as it is
	Receipt  []byte // JSON: what the platform returned
	TargetID string // the notification whose message an outcome edits
	RetryKey string // UUID
	Revived  bool   // the heartbeat has given it its one further try

	// A reply's content, from which Body is rendered.
	ReplyTo string   // LINE reply token or Slack response_url; never shown
	Text    string   // the sentence
	Cards   []string // ids of requests whose cards come with it
	// Part is set when the reply shows all of its one card, in as many messages as it takes: 1 for the
	// first of them. More says that another one follows.
	Part int
	More bool

	Note Note
	// Language is the one in which it is read, where that is not its reader's own: they have typed in it. "": their own.
	Language string

	// After narrows what is shown of a [Card] to the items that came after a version; 0: all.
	After int
	// Shown is the version of the Card of which the sending was begun last.
	Shown int
	// Change counts how often what it shows has changed while it was not sent, and Drawn is what that was when it was
	// drawn as it is sent.
	Change, Drawn int
	Silent        bool // no sound is made where it arrives
	// HeldFor is the agent whose earlier cards this one waits behind: it becomes due as one of them ends, or else at
	// NextAttemptAt. "": it waits for none.
	HeldFor string
	// TurnAt is when it is the card's turn, which is over its agent's budget of pushes: as an earlier one ends it does
	// not come up before. The zero time: it has none to wait for.
	TurnAt time.Time
}

// Size is about how many bytes the notification takes in a list.
func (n Notification) Size() int {
	return len(n.Body) + len(n.Receipt) + len(n.Text) + len(n.Error) + smallRow
}

// NotificationQuery selects notifications, newest first. Empty fields do not select.
type NotificationQuery struct {
	Status     NotificationStatus
	Channel    string
	ApprovalID string
	BatchID    string // with ApprovalID: rows of either
	Recipient  string
	Addresses  []Address // to any of these
	MessageID  string
	Kind       NotificationKind
	Several    bool      // replies, and cards of a batch: what can be several messages
	After      string    // notifications with a smaller id
	From       string    // notifications with this id or a greater one
	Since      time.Time // created at or after
	Until      time.Time // created before
	Narrow     bool      // without Body
	Limit      int       // 0: no limit
	Bytes      int       // stop after the row with which their sizes are this much; 0: no limit
}

// Address is where the notification goes.
func (n Notification) Address() Address { return Address{n.Channel, n.Recipient} }

// ShowsCard reports whether the notification is a card with buttons.
func (n Notification) ShowsCard() bool {
	return n.Kind == KindRequest || n.Kind == KindReminder || n.Kind == KindReply && len(n.Cards) > 0 && n.Part == 0
}
