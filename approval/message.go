package approval

import (
	"time"

	"countersign/approval/message"
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

// FeedMessage tells a model how the request ended, in the words of the feed; "" while it is pending.
func (r Request) FeedMessage() string {
	e := message.Ending{Tool: r.Target(), Args: r.Args, By: r.WhoEnded(), At: FormatTime(r.ResolvedAt)}
	if !r.ArgsRemovedAt.IsZero() {
		e.Args = []byte("…")
	}
	switch {
	case r.Status == Expired:
		return e.Expired(r.ExpiresAt.Sub(r.RequestedAt))
	case !r.LapsedAt.IsZero():
		return e.Lapsed(r.UseBy.Sub(r.ResolvedAt))
	case r.Status == Approved:
		return e.Approved()
	case r.Status == Denied && r.EndCode == EndEdited:
		return e.Edited(r.ReplacedBy)
	case r.Status == Denied:
		return e.Denied(r.ResolveReason)
	case r.Status != Cancelled:
		return ""
	}
	if e.By = r.ResolvedBy; r.EndCode == EndFrozen {
		return e.Frozen()
	}
	return e.Cancelled()
}
