package approval

import (
	"fmt"
	"time"

	"countersign/approval/legible"
)

// TimeFormat is how times are stored, sent and told to models: UTC, always 24 characters.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// FormatTime renders t as [TimeFormat]; the zero time as "".
func FormatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(TimeFormat)
}

// feedArgs is how many characters of the args a feed message quotes.
const feedArgs = 500

// askAgain is the next step after an end that nobody meant as a no.
const askAgain = "Ask again if it is still needed."

const allowedMessage = "Allowed by policy."

func createdMessage(r Request) string {
	return fmt.Sprintf("⏳ Approval requested (id: %s). %s", r.ID, r.HumanMessage)
}

func pendingMessage(r Request) string {
	return fmt.Sprintf("⏳ Approval pending (id: %s). Waiting for human confirmation.", r.ID)
}

func approvedMessage(r Request) string {
	return fmt.Sprintf("Approved by %s at %s. Run it now; this approval is used.", r.WhoEnded(), FormatTime(r.ResolvedAt))
}

func deniedMessage(r Request) string {
	return fmt.Sprintf("Approval denied by %s: %s. The call was not executed; do not repeat it, try a different approach.",
		r.WhoEnded(), orNoReason(r.ResolveReason))
}

func policyDeniedMessage(v Verdict) string {
	return fmt.Sprintf("Policy denied: %s — %s", v.ReasonCode, v.Message)
}

// alreadyUsedMessage answers a caller whose approval let an identical call through, which joined its request.
func alreadyUsedMessage(r Request) string {
	return fmt.Sprintf("Not run: the approval by %s at %s was already used at %s, by an identical call that was let "+
		"through instead of this one. Ask again only if the call is needed once more.",
		r.WhoEnded(), FormatTime(r.ResolvedAt), FormatTime(r.ConsumedAt))
}

// FeedMessage tells a model how the request ended, in the words of the feed; "" while it is pending.
func (r Request) FeedMessage() string {
	call := fmt.Sprintf("%s(%s)", r.Target(), legible.Cut(string(r.Args), feedArgs))
	switch {
	case r.Status == Expired:
		return fmt.Sprintf("[APPROVAL EXPIRED] %s: Timed out after %s with no response. %s", call,
			lasted(r.RequestedAt, r.ExpiresAt), askAgain)
	case !r.LapsedAt.IsZero():
		return fmt.Sprintf("[APPROVAL LAPSED] %s: approved by %s at %s but not used within %s. %s",
			call, r.WhoEnded(), FormatTime(r.ResolvedAt), lasted(r.ResolvedAt, r.UseBy), askAgain)
	case r.Status == Approved:
		return fmt.Sprintf("[APPROVAL APPROVED] %s: approved by %s at %s", call, r.WhoEnded(), FormatTime(r.ResolvedAt))
	case r.Status == Denied && r.EndCode == EndEdited:
		return fmt.Sprintf("[APPROVAL DENIED] %s: denied by %s at %s: not as asked; other arguments were put "+
			"forward instead (request %s). Call again to learn which.", call, r.WhoEnded(), FormatTime(r.ResolvedAt),
			r.ReplacedBy)
	case r.Status == Denied:
		return fmt.Sprintf("[APPROVAL DENIED] %s: denied by %s at %s: %s", call, r.WhoEnded(), FormatTime(r.ResolvedAt),
			orNoReason(r.ResolveReason))
	case r.Status == Cancelled && r.EndCode == EndFrozen:
		return fmt.Sprintf("[APPROVAL CANCELLED] %s: cancelled by %s at %s. Do not retry.", call, r.ResolvedBy,
			FormatTime(r.ResolvedAt))
	case r.Status == Cancelled:
		return fmt.Sprintf("[APPROVAL CANCELLED] %s: cancelled by %s at %s. %s", call, r.ResolvedBy, FormatTime(r.ResolvedAt),
			askAgain)
	}
	return ""
}

func orNoReason(s string) string {
	if s == "" {
		return "no reason given"
	}
	return s
}

// lasted tells how long a time set lasted, as it was set: while a store's time is worked off to meet the
// machine's clock, it lasts a hundredth longer than that by the clock.
func lasted(from, to time.Time) string {
	d := to.Sub(from)
	if set := (d - d/100).Round(time.Minute); d%time.Minute != 0 && set > 0 && (d-d/100-set).Abs() < 10*time.Millisecond {
		d = set
	}
	return duration(d)
}

// duration tells d in whole minutes, or else in seconds.
func duration(d time.Duration) string {
	if m := int64(d / time.Minute); d%time.Minute == 0 && m > 0 {
		return count(m, "minute")
	}
	return count(int64(d.Round(time.Second)/time.Second), "second")
}

func count(n int64, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
