package signin

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	attemptsPerMinute = 30  // of one address, or of one person
	attemptsOfSite    = 120 // of all networks of an IPv6 site together, of which it may have 65,536
	refusalsOnRecord  = 60  // in a minute, of all together

	attemptsWindow = time.Minute
)

// attempts counts what a caller does in a minute, each by themselves, in memory that does not grow: everybody's count
// is in a place of each of several rows, which others may share, and is the smallest of them. To count for somebody
// else, a crowd has to fill their place in every row, and does not know which those are: 10,000 addresses that try all
// they may keep out one of 2,000 others, for that minute.
type attempts struct {
	seed maphash.Seed

	mu    sync.Mutex
	began time.Time // of this minute
	rows  *[attemptRows][1 << attemptBits]uint8
}

const attemptRows, attemptBits = 4, 16

func newAttempts() *attempts { return &attempts{seed: maphash.MakeSeed()} }

// limit is how often something may be done in a minute by a caller who goes by a name.
type limit struct {
	name string
	most uint8
}

// allow counts one attempt of a caller who goes by all these names, and reports whether there was room for it under
// each. One that is refused counts under none.
func (a *attempts) allow(now time.Time, limits ...limit) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.rows == nil:
		a.rows, a.began = new([attemptRows][1 << attemptBits]uint8), now
	case now.Sub(a.began) >= attemptsWindow:
		a.began = now
		clear(a.rows[:])
	}
	for _, l := range limits {
		if a.count(l.name) >= l.most {
			return false
		}
	}
	for _, l := range limits {
		a.add(l.name)
	}
	return true
}

// places are where the counts of a name are, one in each row.
func (a *attempts) places(name string) (at [attemptRows]*uint8) {
	sum := maphash.String(a.seed, name)
	for i := range at {
		at[i] = &a.rows[i][sum>>(i*attemptBits)&(1<<attemptBits-1)]
	}
	return at
}

func (a *attempts) count(name string) uint8 {
	least := ^uint8(0)
	for _, n := range a.places(name) {
		least = min(least, *n)
	}
	return least
}

// add counts one where the count is the smallest: what is more is another caller's.
func (a *attempts) add(name string) {
	least := a.count(name)
	for _, n := range a.places(name) {
		if *n == least {
			*n++
		}
	}
}

// fromAddress are the limits of an address: of IPv6 that of the network that a customer gets, and that of a site.
func fromAddress(address string) []limit {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return []limit{{"?", attemptsPerMinute}}
	}
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return []limit{{a.String(), attemptsPerMinute}}
	}
	return []limit{{network(a, 64), attemptsPerMinute}, {network(a, 48), attemptsOfSite}}
}

func ofPerson(name string) limit { return limit{"person " + name, attemptsPerMinute} }

func network(a netip.Addr, bits int) string {
	p, err := a.Prefix(bits)
	if err != nil {
		return "?"
	}
	return p.String()
}

// perMinute counts what strangers have put on record, so that they cannot fill the audit log.
type perMinute struct {
	mu    sync.Mutex
	began time.Time // of this minute
	count int
}

// allow counts one more, and reports whether it is among the first [refusalsOnRecord] of its minute.
func (p *perMinute) allow(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.began) >= attemptsWindow {
		p.began, p.count = now, 0
	}
	p.count++
	return p.count <= refusalsOnRecord
}
