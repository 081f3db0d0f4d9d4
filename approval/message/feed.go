package message

import (
	"fmt"
	"time"

	"countersign/approval/legible"
)

// Ending is the end of a request, as an agent finds it in its feed.
type Ending struct {
	Tool string
	Args []byte
	By   string
	At   string
}

// feedArgs is how many characters of the args a feed message quotes.
const feedArgs = 500

func (e Ending) tell(word, format string, about ...any) string {
	return fmt.Sprintf("[APPROVAL %s] %s(%s): ", word, e.Tool, legible.Cut(string(e.Args), feedArgs)) +
		fmt.Sprintf(format, about...)
}

// Expired is of a request that nobody answered in its time.
func (e Ending) Expired(after time.Duration) string {
	return e.tell("EXPIRED", "Timed out after %s with no response. %s", tellFor(after), askAgain)
}

// Lapsed is of an approval that was not used in its time.
func (e Ending) Lapsed(within time.Duration) string {
	return e.tell("LAPSED", "approved by %s at %s but not used within %s. %s", e.By, e.At, tellFor(within), askAgain)
}

// Approved is of an approval.
func (e Ending) Approved() string { return e.tell("APPROVED", "approved by %s at %s", e.By, e.At) }

// Denied is of a denial.
func (e Ending) Denied(reason string) string {
	return e.tell("DENIED", "denied by %s at %s: %s", e.By, e.At, orNoReason(reason))
}

// Edited is of a denial in whose place another request was made.
func (e Ending) Edited(replacedBy string) string {
	return e.tell("DENIED", "denied by %s at %s: not as asked; other arguments were put forward instead (request %s). "+
		"Call again to learn which.", e.By, e.At, replacedBy)
}

// Cancelled is of a request that was taken back.
func (e Ending) Cancelled() string {
	return e.tell("CANCELLED", "cancelled by %s at %s. %s", e.By, e.At, askAgain)
}

// Frozen is of a request that a freeze ended.
func (e Ending) Frozen() string {
	return e.tell("CANCELLED", "cancelled by %s at %s. Do not retry.", e.By, e.At)
}
