package line

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/internal/locale"
)

// How often the quota is read: rarely while much is left, more often when it runs out.
const (
	quotaEvery    = time.Hour
	quotaEveryLow = 10 * time.Minute
	quotaRetry    = 5 * time.Minute
)

// quotas keeps what LINE said last of the month's messages.
type quotas struct {
	log  *slog.Logger
	now  func() time.Time
	read chan struct{} // the quota is to be read now

	mu    sync.Mutex
	known *channels.Quota
	first bool // the 80 % were said
}

// set keeps a new reading; warn says that it is the first to be low.
func (q *quotas) set(n channels.Quota) (warn bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.known = &n
	warn = n.Low() && !q.first
	q.first = n.Low()
	return warn
}

// count adds a message that was sent since the last reading; warn says that it is the first to be low.
func (q *quotas) count() (now channels.Quota, warn bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.known == nil {
		return channels.Quota{}, false
	}
	q.known.Used++
	warn = q.known.Low() && !q.first
	q.first = q.first || warn
	return *q.known, warn
}

// spend notes that the platform refuses more this month.
func (q *quotas) spend() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.known != nil && q.known.Limited {
		q.known.Used = max(q.known.Used, q.known.Limit)
	}
}

// Quota implements [channels.Metered].
func (ch *Channel) Quota() (channels.Quota, bool) {
	ch.quotas.mu.Lock()
	defer ch.quotas.mu.Unlock()
	if ch.quotas.known == nil {
		return channels.Quota{}, false
	}
	return *ch.quotas.known, true
}

// Observe implements [channels.Metered].
func (ch *Channel) Observe(k approval.NotificationKind, sent bool, reason string) {
	switch {
	case reason == channels.ReasonMonthlyLimit:
		ch.quotas.spend()
	case sent && k != approval.KindReply: // replies cost nothing
		if q, warn := ch.quotas.count(); warn {
			ch.warnLow(q)
		}
	}
}

// Run reads the month's quota from time to time until ctx ends.
func (ch *Channel) Run(ctx context.Context) {
	for {
		timer := time.NewTimer(ch.readQuota(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-ch.quotas.read:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// Reconfigure has the quota read again.
func (ch *Channel) Reconfigure() {
	select {
	case ch.quotas.read <- struct{}{}:
	default:
	}
}

// readQuota asks LINE once and returns when to ask again.
func (ch *Channel) readQuota(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, channels.HTTPTimeout)
	defer cancel()
	limit, limited, used, err := ch.AskQuota(ctx)
	if err != nil {
		if ctx.Err() == nil {
			ch.quotas.log.WarnContext(ctx, "LINE did not say how many of the month's messages are used; trying again", "error",
				err)
		}
		return quotaRetry
	}
	q := channels.Quota{Limited: limited, Limit: limit, Used: used, At: ch.quotas.now().UTC().Truncate(time.Millisecond)}
	if ch.quotas.set(q) {
		ch.warnLow(q)
	}
	if q.Low() {
		return quotaEveryLow
	}
	return quotaEvery
}

func (ch *Channel) warnLow(q channels.Quota) {
	ch.quotas.log.Warn("the month's LINE messages are running out; when they are used up, cards go to the next channel "+
		"of each person, and nobody who has none is told",
		"used", q.Used, "limit", q.Limit, "do", "take a larger plan, or give people a second channel")
}

// Status implements [channels.StatusTeller].
func (ch *Channel) Status(words *locale.Language) []string {
	q, known := ch.Quota()
	if !known {
		return nil
	}
	id := "status_quota_none"
	switch {
	case q.Spent():
		id = "status_quota_spent"
	case q.Low():
		id = "status_quota_low"
	case q.Limited:
		id = "status_quota"
	}
	return []string{words.Say(id, "used", strconv.Itoa(q.Used), "limit", strconv.Itoa(q.Limit))}
}

// Problems implements [channels.Reporter].
func (ch *Channel) Problems() []string {
	ps := ch.doubts.In("channels.line")
	if !ch.IsIdentified() {
		ps = append(ps, "LINE has not said who our bot is, so taps in LINE cannot be taken yet")
	}
	switch q, known := ch.Quota(); {
	case known && q.Spent():
		ps = append(ps, fmt.Sprintf("the month's LINE messages are used up (%d of %d): cards go to the next channel of "+
			"each person", q.Used, q.Limit))
	case known && q.Low():
		ps = append(ps, fmt.Sprintf("the month's LINE messages are running out (%d of %d)", q.Used, q.Limit))
	}
	return ps
}
