package channels

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/locale"
	"countersign/internal/secret"
)

// Channel is one platform. It is safe for concurrent use.
type Channel interface {
	// Name is the word that notifications call it by: "line", "slack".
	Name() string
	// Render turns a card into the platform's own bytes, inside its limits whatever the card holds. It
	// does no I/O, and the same card gives the same bytes.
	Render(c Card) (Body, error)
	// Send sends one message. Its error is always a *[PushError].
	Send(ctx context.Context, m Message) (Receipt, error)
}

// Prober is a channel that can find out whether the platform takes its token.
type Prober interface {
	Probe(ctx context.Context) error
}

// Editor is a channel that can change what it has sent. Outcomes go to such channels only.
type Editor interface {
	// Edit replaces the message that m.Target is the receipt of. Repeating it changes nothing more. Its
	// error is always a *[PushError].
	Edit(ctx context.Context, m Message) (Receipt, error)
}

// Paged is a channel with a limit on how long a message's text is. What is longer is sent as several.
type Paged interface {
	// Page returns the limit, and the unit that it is in.
	Page() (limit int, unit func(string) int)
}

// Identifier is a channel whose platform says who we are to it. What comes in counts only once it has.
type Identifier interface {
	Prober
	IsIdentified() bool
}

// Metered is a channel that can send so many messages a month and no more.
type Metered interface {
	// Quota returns what the platform said last; false while that is not known.
	Quota() (Quota, bool)
	// Observe is told what became of each attempt to send: reason is why it did not succeed.
	Observe(kind approval.NotificationKind, sent bool, reason string)
}

// Quota is how many of the month's messages a platform counts as sent, of how many.
type Quota struct {
	Limited bool
	Limit   int // of a limited one
	Used    int
	At      time.Time // when the platform said so
}

// Low reports whether four fifths are used.
func (q Quota) Low() bool { return q.Limited && q.Used*5 >= q.Limit*4 }

// Spent reports whether nothing is left.
func (q Quota) Spent() bool { return q.Limited && q.Used >= q.Limit }

// Reporter names what keeps people from being reached, now.
type Reporter interface{ Problems() []string }

// StatusTeller adds lines to the answer to the typed word "status".
type StatusTeller interface {
	Status(words *locale.Language) []string
}

// Reconfigurer is told after each reload of the configuration.
type Reconfigurer interface{ Reconfigure() }

// Body is a rendered card, in the form that its own channel understands.
type Body []byte

// Message is one send of one notification.
type Message struct {
	Kind     approval.NotificationKind
	To       string
	Body     Body
	RetryKey string       // a UUID, the same on every try
	ReplyTo  secret.Value // a LINE reply token or a Slack response_url: any program that has it can answer in our name
	Attempt  int          // 1 for the first try
	// ReplyOnly says that the recipient is unknown to us: platforms do not want messages pushed to such.
	ReplyOnly bool
	Target    []byte // Data of the receipt of the message that an outcome edits
	Silent    bool   // it makes no sound where it arrives, as far as the platform can do that
}

// Receipt is what a platform returned for a message.
type Receipt struct {
	MessageID  string
	HTTPStatus int
	Data       []byte // JSON
}

// PushError says why a message did not go out, and whether another try can help. Its text holds no
// token, no body and no address that answers in our name.
type PushError struct {
	Final       bool          // no further try can help
	RetryAfter  time.Duration // the platform's own wish; 0: the caller's backoff
	Alone       bool          // the wish is this recipient's: messages to others need not wait for it
	Reason      string        // stable and short: "rate_limited", "bad_token"
	HTTPStatus  int           // 0: there was no answer
	Unknown     bool          // the message may have gone out all the same
	ChannelDown bool          // it is the channel that fails, not this message: every other would fail too
	ReplySpent  bool          // the reply token was refused, so a push was tried: later tries push too
	Err         error
}

// Reasons for which a message does not go out. A platform adds its own words beside these.
const (
	ReasonRateLimited     = "rate_limited"
	ReasonMonthlyLimit    = "monthly_limit"
	ReasonBadToken        = "bad_token"
	ReasonMissingScope    = "missing_scope"
	ReasonForbidden       = "forbidden"
	ReasonBadRecipient    = "bad_recipient"
	ReasonBadRequest      = "bad_request"
	ReasonChannelShared   = "channel_shared"
	ReasonMessageGone     = "message_gone"
	ReasonNoTarget        = "no_target"
	ReasonCannotEdit      = "cannot_edit"
	ReasonTimeout         = "timeout"
	ReasonUnavailable     = "unavailable"
	ReasonBrokenAnswer    = "broken_answer"
	ReasonConflict        = "conflict"
	ReasonNoChannel       = "no_channel"
	ReasonRenderFailed    = "render_failed"
	ReasonRetryKeyExpired = "retry_key_expired"
)

func (e *PushError) Error() string {
	var b strings.Builder
	b.WriteString(e.Reason)
	if e.HTTPStatus != 0 {
		b.WriteString(" (HTTP " + strconv.Itoa(e.HTTPStatus) + ")")
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

func (e *PushError) Unwrap() error { return e.Err }

// Detail is what the platform said, for the notification's row: one line, short.
func (e *PushError) Detail() string {
	if e.Err == nil {
		return ""
	}
	return Said(e.Err.Error())
}

// AsPushError returns err as the PushError that it is or wraps. An error that is none is taken for a
// passing failure with an unknown outcome.
func AsPushError(err error) *PushError {
	if e, ok := errors.AsType[*PushError](err); ok {
		return e
	}
	return &PushError{Reason: ReasonUnavailable, Unknown: true, Err: err}
}

// maxSaid is how many characters of a platform's words are kept.
const maxSaid = 300

// Said makes a platform's words fit to be kept and logged: visible, on one line, short.
func Said(s string) string {
	return legible.Cut(legible.Line(strings.TrimSpace(s)), maxSaid)
}

// StatusError is the Err of a PushError where an HTTP status says all there is to say.
func StatusError(status int) error {
	return fmt.Errorf("the platform answered %d %s", status, http.StatusText(status))
}
