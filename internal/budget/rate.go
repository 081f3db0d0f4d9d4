package budget

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Rate is how much of something there may be in a time. The zero Rate is no limit.
type Rate struct {
	Count int64
	Per   time.Duration
}

// atOnce is the longest time whose worth of a rate may be used at once: nobody wants an hour's worth of
// messages in a minute.
const atOnce = 15 * time.Minute

// window is the time whose worth of r may be used at once.
func (r Rate) window() time.Duration { return min(r.Per, atOnce) }

// What may be used at once of calls and bytes: so many, or two seconds' worth where that is more. A whole minute's
// worth would be a minute's work that others have to wait beside.
const (
	callsAtOnce = 1000
	bytesAtOnce = 16 << 20
	// pushesAtOnce are cards: half an hour's worth of the default.
	pushesAtOnce = 60
	shortest     = 2 * time.Second
)

// allowance is a rate with how much of it may be used at once; 0: a window's worth.
type allowance struct {
	Rate
	once int64
	long bool // what is used at once may be more than [atOnce] is worth
}

// window is the time whose worth may be used at once.
func (a allowance) window() time.Duration {
	if a.once == 0 || a.Count == 0 {
		return a.Rate.window()
	}
	most := a.Rate.window()
	if a.long {
		most = a.Per
	}
	return min(most, max(a.cost(a.once), shortest))
}

// cost is how long it takes until n more are free.
func (r Rate) cost(n int64) time.Duration {
	return time.Duration(min(float64(n)/float64(r.Count)*float64(r.Per), float64(maxOwed)))
}

// maxOwed bounds what a bucket can hold, so that no number overflows it.
const maxOwed = 1000 * time.Hour

var periods = []struct {
	letter string
	per    time.Duration
	word   string
}{{"s", time.Second, "second"}, {"m", time.Minute, "minute"}, {"h", time.Hour, "hour"}}

// unit is what a count may be written in.
type unit struct {
	name string
	size int64
}

var byteUnits = []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

var errRate = errors.New("not a rate")

// ParseRate reads a rate such as 30000/m; "0" and "none" are no limit.
func ParseRate(s string) (Rate, error) { return parseRate(s, nil) }

// ParseByteRate is ParseRate for bytes, of which there may be 256MiB/m.
func ParseByteRate(s string) (Rate, error) { return parseRate(s, byteUnits) }

func parseRate(s string, units []unit) (Rate, error) {
	if s == "0" || s == "none" {
		return Rate{}, nil
	}
	number, letter, _ := strings.Cut(s, "/")
	r, size := Rate{}, int64(1)
	for _, p := range periods {
		if p.letter == letter {
			r.Per = p.per
		}
	}
	for _, u := range units {
		if n, ok := strings.CutSuffix(number, u.name); ok {
			number, size = n, u.size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || r.Per == 0 || n < 0 || n > maxCount/size || strings.HasPrefix(number, "+") {
		return Rate{}, errRate
	}
	if n == 0 {
		return Rate{}, nil
	}
	r.Count = n * size
	return r, nil
}

// maxCount is the highest count that a rate may have: enough to be none in practice.
const maxCount = 1 << 40

// String is the rate as ParseRate reads it; "none" for no limit.
func (r Rate) String() string { return r.text(nil) }

// Bytes is String for a rate of bytes, as ParseByteRate reads it.
func (r Rate) Bytes() string { return r.text(byteUnits) }

// of is the rate of a kind as its parser reads it.
func (r Rate) of(k Kind) string {
	if k == Bytes {
		return r.Bytes()
	}
	return r.String()
}

func (r Rate) text(units []unit) string {
	if r.Count == 0 {
		return "none"
	}
	for _, p := range periods {
		if p.per == r.Per {
			return r.count(units) + "/" + p.letter
		}
	}
	return r.count(units) + "/" + r.Per.String()
}

func (r Rate) count(units []unit) string {
	for _, u := range units {
		if r.Count%u.size == 0 {
			return strconv.FormatInt(r.Count/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(r.Count, 10)
}

// words is the rate in a sentence: 30000 calls per minute.
func (r Rate) words(of Kind) string {
	per := r.Per.String()
	for _, p := range periods {
		if p.per == r.Per {
			per = p.word
		}
	}
	if of == Bytes && r.count(byteUnits) != r.count(nil) {
		return fmt.Sprintf("%s per %s", r.count(byteUnits), per)
	}
	return of.count(r.Count) + " per " + per
}

// bucket is what was used of a rate: the time, since the registry's beginning, at which all of it is free
// again. It is safe for concurrent use.
type bucket struct{ free atomic.Int64 }

// take uses n at a time. If that is too much it uses nothing, and returns how long to wait.
func (b *bucket) take(r allowance, now time.Duration, n int64) (wait time.Duration, ok bool) {
	if r.Count == 0 || n <= 0 {
		return 0, true
	}
	cost, window := r.cost(n), r.window()
	for {
		was := b.free.Load()
		owed := max(time.Duration(was)-now, 0)
		if over := owed + cost - window; over > 0 && owed > 0 {
			return min(over, owed), false
		}
		if b.free.CompareAndSwap(was, int64(now+owed+cost)) {
			return 0, true
		}
	}
}

// check is take without using anything.
func (b *bucket) check(r allowance, now time.Duration, n int64) (wait time.Duration, ok bool) {
	if r.Count == 0 || n <= 0 {
		return 0, true
	}
	owed := max(time.Duration(b.free.Load())-now, 0)
	if over := owed + r.cost(n) - r.window(); over > 0 && owed > 0 {
		return min(over, owed), false
	}
	return 0, true
}

// spend uses n, or what is left: it is for what is never refused.
func (b *bucket) spend(r allowance, now time.Duration, n int64) {
	if r.Count == 0 || n <= 0 {
		return
	}
	for {
		was := b.free.Load()
		owed := max(time.Duration(was)-now, 0)
		then := max(owed, min(owed+r.cost(n), r.window()))
		if b.free.CompareAndSwap(was, int64(now+then)) {
			return
		}
	}
}

// mostOwed is how much longer than a window may be owed of what was used in advance.
const mostOwed = time.Minute

// owe uses n, whatever is left.
func (b *bucket) owe(r allowance, now time.Duration, n int64) {
	if r.Count == 0 || n <= 0 {
		return
	}
	for {
		was := b.free.Load()
		owed := max(time.Duration(was)-now, 0)
		then := max(owed, min(owed+r.cost(n), r.window()+mostOwed))
		if b.free.CompareAndSwap(was, int64(now+then)) {
			return
		}
	}
}

// mostQueued is how long at most what is used in advance waits.
const mostQueued = time.Hour

// queue uses n, whatever is left, and returns how long it has to wait for its turn.
func (b *bucket) queue(r allowance, now time.Duration, n int64) (wait time.Duration) {
	if r.Count == 0 || n <= 0 {
		return 0
	}
	cost, window := r.cost(n), r.window()
	for {
		was := b.free.Load()
		owed := max(time.Duration(was)-now, 0)
		if b.free.CompareAndSwap(was, int64(now+max(owed, min(owed+cost, window+mostQueued)))) {
			return min(max(min(owed, owed+cost-window), 0), mostQueued)
		}
	}
}

// give takes back a use of n.
func (b *bucket) give(r allowance, n int64) {
	if r.Count > 0 && n > 0 {
		b.free.Add(-int64(r.cost(n)))
	}
}

// fit has the bucket owe no more than what the rate allows at once: another rate is in force.
func (b *bucket) fit(r allowance, now time.Duration) {
	for {
		was := b.free.Load()
		if limit := int64(now + r.window()); was <= limit || b.free.CompareAndSwap(was, limit) {
			return
		}
	}
}
