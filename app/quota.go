package app

import (
	"context"
	"strconv"
	"sync"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/line"
	"countersign/locale"
	"countersign/rest"
)

// quota is how many of the month's messages LINE counts as sent, of how many.
type quota struct {
	limited bool
	limit   int // of a limited one
	used    int
	at      time.Time // when LINE said so
}

// low reports whether four fifths are used.
func (q quota) low() bool { return q.limited && q.used*5 >= q.limit*4 }

// spent reports whether nothing is left.
func (q quota) spent() bool { return q.limited && q.used >= q.limit }

// How often the quota is read: seldom while much is left, more often when it runs out.
const (
	quotaEvery    = time.Hour
	quotaEveryLow = 10 * time.Minute
	quotaRetry    = 5 * time.Minute
)

// quotas keeps what the platforms said last of the month's messages.
type quotas struct {
	mu    sync.Mutex
	line  *quota
	first bool // the 80 % were said
}

// get returns what is known.
func (q *quotas) get() (quota, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.line == nil {
		return quota{}, false
	}
	return *q.line, true
}

// set keeps a new reading; warn says that it is the first to be low.
func (q *quotas) set(n *quota) (warn bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.line = n
	low := n != nil && n.low()
	warn = low && !q.first
	q.first = low
	return warn
}

// count adds a message that was sent since the last reading; warn says that it is the first to be low.
func (q *quotas) count() (now quota, warn bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.line == nil {
		return quota{}, false
	}
	q.line.used++
	warn = q.line.low() && !q.first
	q.first = q.first || warn
	return *q.line, warn
}

// spend notes that the platform refuses more this month.
func (q *quotas) spend() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.line != nil && q.line.limited {
		q.line.used = max(q.line.used, q.line.limit)
	}
}

// watchQuota reads the month's LINE quota from time to time.
func (a *App) watchQuota(ctx context.Context) {
	for {
		wait := a.readQuota(ctx)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-a.requota:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// readQuota asks LINE once and returns when to ask again.
func (a *App) readQuota(ctx context.Context) time.Duration {
	l := a.live.Load()
	if l.line == nil {
		a.quotas.set(nil)
		return quotaEvery
	}
	ctx, cancel := context.WithTimeout(ctx, channels.HTTPTimeout)
	defer cancel()
	limit, limited, used, err := l.line.Quota(ctx)
	if err != nil {
		if ctx.Err() == nil {
			a.log.Warn("LINE did not say how many of the month's messages are used; trying again", "error", err)
		}
		return quotaRetry
	}
	q := &quota{limited: limited, limit: limit, used: used, at: a.o.Now().UTC().Truncate(time.Millisecond)}
	read := *q // the quotas' own from here on
	warn := a.quotas.set(q)
	if a.live.Load().line != l.line { // what came in force meanwhile may be another account
		a.quotas.set(nil)
		return 0
	}
	if warn {
		a.sayLow(read)
	}
	if read.low() {
		return quotaEveryLow
	}
	return quotaEvery
}

func (a *App) sayLow(q quota) {
	a.log.Warn("the month's LINE messages are running out; when they are used up, cards go to the next channel of each person, and nobody who has none is told",
		"used", q.used, "limit", q.limit, "do", "take a larger plan, or give people a second channel")
}

// spent says whether a channel can send nothing for a while: its month is used up, or its token is refused.
func (a *App) spent(channel string) bool {
	if _, paused := a.sender.Paused()[channel]; paused {
		return true
	}
	q, known := a.quotas.get()
	return channel == line.Name && known && q.spent()
}

// status is what the typed word "status" tells beside the gate's own lines.
func (a *App) status(to approval.Actor) []string {
	l := locale.Get(to.Locale)
	var lines []string
	if q, known := a.quotas.get(); known && a.live.Load().line != nil {
		id := "status_quota_none"
		switch {
		case q.spent():
			id = "status_quota_spent"
		case q.low():
			id = "status_quota_low"
		case q.limited:
			id = "status_quota"
		}
		lines = append(lines, l.Say(id, "used", strconv.Itoa(q.used), "limit", strconv.Itoa(q.limit)))
	}
	for name := range a.sender.Paused() {
		lines = append(lines, l.Say("status_paused", "channel", name))
	}
	if to.Admin {
		lines = append(lines, a.beatStatus(to)...)
	}
	return lines
}

// quotaLog is what the notification log tells of the month.
func (a *App) quotaLog() []rest.Quota {
	q, known := a.quotas.get()
	if !known {
		return nil
	}
	out := rest.Quota{Channel: line.Name, Used: q.used, At: approval.FormatTime(q.at)}
	if q.limited {
		out.Limit = &q.limit
	}
	return []rest.Quota{out}
}
