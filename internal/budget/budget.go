package budget

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"countersign/approval"
)

// Kind is what a budget is of.
type Kind string

// The budgets: rates first, then what is held.
const (
	Calls    Kind = "calls"    // requests of a client: over HTTP, MCP and hooks; each call of a batch
	Bytes    Kind = "bytes"    // of their bodies
	Requests Kind = "requests" // approval requests that were made, cancelled ones too
	Pushes   Kind = "pushes"   // cards and reminders, each to one recipient
	Streams  Kind = "streams"  // of events, open
	Waits    Kind = "waits"    // answers that are held until somebody decides
	Sessions Kind = "sessions" // of MCP, of the era that has them
)

// Kinds are all budgets.
var Kinds = []Kind{Calls, Bytes, Requests, Pushes, Streams, Waits, Sessions}

// Limits are a principal's budgets; 0 is no limit.
type Limits struct {
	Calls, Bytes, Requests, Pushes Rate
	Streams, Waits, Sessions       int
}

// DefaultAgent and DefaultPerson are what holds where a configuration says nothing.
var (
	DefaultAgent = Limits{
		Calls: Rate{30_000, time.Minute}, Bytes: Rate{256 << 20, time.Minute}, Requests: Rate{120, time.Minute},
		Pushes:  Rate{120, time.Hour},
		Streams: 16, Waits: 256, Sessions: 64,
	}
	DefaultPerson = Limits{Calls: Rate{1200, time.Minute}, Streams: 16}
)

// count is n of them in words.
func (k Kind) count(n int64) string {
	word := string(k)
	if n == 1 {
		word = strings.TrimSuffix(word, "s")
		if k == Pushes {
			word = "push"
		}
	}
	return strconv.FormatInt(n, 10) + " " + word
}

func (l *Limits) rate(k Kind) allowance {
	switch k {
	case Calls:
		return allowance{Rate: l.Calls, once: callsAtOnce}
	case Bytes:
		return allowance{Rate: l.Bytes, once: bytesAtOnce}
	case Requests:
		return allowance{Rate: l.Requests}
	case Pushes:
		return allowance{Rate: l.Pushes, once: pushesAtOnce, long: true}
	}
	panic("budget: " + string(k) + " is no rate")
}

func (l *Limits) most(k Kind) int {
	switch k {
	case Streams:
		return l.Streams
	case Waits:
		return l.Waits
	case Sessions:
		return l.Sessions
	}
	panic("budget: " + string(k) + " is not held")
}

// Principal is whose budget it is: an agent or a person.
type Principal struct {
	Agent bool
	Name  string
}

// Of is the principal of an actor.
func Of(who approval.Actor) Principal {
	return Principal{Agent: who.Kind == approval.Agent, Name: who.Name}
}

// String is the principal as audit events name it.
func (p Principal) String() string {
	if p.Agent {
		return "agent:" + p.Name
	}
	return p.Name
}

// Over is told when a principal is over a budget.
type Over struct {
	Principal Principal
	Kind      Kind
	Limit     string // as it is configured: 30000/m, 256MiB/m, 16
}

// Options are what a [Registry] is made of.
type Options struct {
	Now func() time.Time // default time.Now
	// Room refuses what a principal wants to hold for long, with the context of its request, where there is no room
	// for it whatever its budget says; nil: there is. The error should be an [approval.Error].
	Room func(ctx context.Context, who Principal) error
	// Rows are where it is kept, in a transaction, what agents have used of requests and pushes: in all programs on its
	// store. nil: what they have used in this one is kept here.
	Rows RowsOf
	// Over is told that a principal is over a budget, once an hour for each; it must not block. nil: nobody is.
	Over func(Over)
}

// Registry knows the accounts of all principals. It is safe for concurrent use.
type Registry struct {
	o        Options
	began    time.Time
	accounts atomic.Pointer[map[Principal]*Account]
	replace  sync.Mutex
}

// NewRegistry returns a registry that knows nobody.
func NewRegistry(o Options) *Registry {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Over == nil {
		o.Over = func(Over) {}
	}
	if o.Room == nil {
		o.Room = func(context.Context, Principal) error { return nil }
	}
	r := &Registry{o: o, began: o.Now()}
	r.accounts.Store(&map[Principal]*Account{})
	return r
}

// now is the time since the registry began: by the monotonic clock, where there is one.
func (r *Registry) now() time.Duration { return r.o.Now().Sub(r.began) }

// Replace has the registry know these principals and nobody else. What those it knew already have used stays.
func (r *Registry) Replace(limits map[Principal]Limits) {
	r.replace.Lock()
	defer r.replace.Unlock()
	old, next, now := *r.accounts.Load(), make(map[Principal]*Account, len(limits)), r.now()
	for p, l := range limits {
		a := old[p]
		if a == nil {
			a = r.newAccount(p)
			a.apart = r.newAccount(p)
		}
		a.set(l, now)
		a.apart.set(l, now)
		next[p] = a
	}
	r.accounts.Store(&next)
}

// Account returns a principal's account, nil for one that is not known: whoever looked at the credential
// refuses those.
func (r *Registry) Account(p Principal) *Account {
	if r == nil {
		return nil
	}
	return (*r.accounts.Load())[p]
}

// Agent returns an agent's account.
func (r *Registry) Agent(name string) *Account { return r.Account(Principal{Agent: true, Name: name}) }

// Each calls fn with how often each principal was refused for each budget, where it was.
func (r *Registry) Each(fn func(p Principal, k Kind, refused uint64)) {
	for p, a := range *r.accounts.Load() {
		for i, k := range Kinds {
			if n := a.refused[i].Load() + a.apart.refused[i].Load(); n > 0 {
				fn(p, k, n)
			}
		}
	}
}

const (
	rates  = 4 // of Kinds
	kinds  = 7
	gauges = kinds - rates
)

func index(k Kind) int {
	for i := range Kinds {
		if Kinds[i] == k {
			return i
		}
	}
	panic("budget: there is no budget of " + string(k))
}

// Account is what one principal has used. The nil Account has no limits. It is safe for concurrent use.
type Account struct {
	r       *Registry
	who     Principal
	limits  atomic.Pointer[Limits]
	buckets [rates]bucket
	out     bucket        // of pushes that go out; those that are asked for are among the buckets
	read    bucket        // of bytes that it reads
	turn    chan struct{} // has room for one large thing at a time
	held    [gauges]atomic.Int64
	refused [kinds]atomic.Uint64
	told    [kinds]atomic.Int64 // when, in the registry's time; 0: never
	apart   *Account            // nil: it is that itself
}

func (r *Registry) newAccount(who Principal) *Account {
	return &Account{r: r, who: who, turn: make(chan struct{}, 1)}
}

// set has the account be held to these limits from now on.
func (a *Account) set(l Limits, now time.Duration) {
	a.limits.Store(&l)
	for i := range a.buckets {
		a.buckets[i].fit(l.rate(Kinds[i]), now)
	}
	a.out.fit(l.rate(Pushes), now)
	a.read.fit(l.rate(Bytes), now)
}

// Apart is the account of what is asked for in the principal's name by whoever can, and may be somebody else's. It has
// the same limits, and uses nothing of the principal's own.
func (a *Account) Apart() *Account {
	if a == nil || a.apart == nil {
		return a
	}
	return a.apart
}

// Take uses n of a rate. If that is too much it uses nothing and returns an [approval.Error] with
// [approval.CodeRateLimited].
func (a *Account) Take(k Kind, n int) error {
	if a == nil {
		return nil
	}
	i, r, now := index(k), a.limits.Load().rate(k), a.r.now()
	if wait, ok := a.buckets[i].take(r, now, int64(n)); !ok {
		return a.refuse(k, r.words(k), r.of(k), wait)
	}
	return nil
}

// Check is Take without using anything: n may still be too much a moment later.
func (a *Account) Check(k Kind, n int) error {
	if a == nil {
		return nil
	}
	i, r := index(k), a.limits.Load().rate(k)
	if wait, ok := a.buckets[i].check(r, a.r.now(), int64(n)); !ok {
		return a.refuse(k, r.words(k), r.of(k), wait)
	}
	return nil
}

// Spend uses n of a rate, or what is left of it, for what is not refused although it may be too much. In that
// case it returns what refuses it after all; else nil.
func (a *Account) Spend(k Kind, n int) (refuse func() error) {
	if a == nil {
		return nil
	}
	i, r := index(k), a.limits.Load().rate(k)
	wait, ok := a.buckets[i].take(r, a.r.now(), int64(n))
	if ok {
		return nil
	}
	a.buckets[i].spend(r, a.r.now(), int64(n))
	return func() error { return a.refuse(k, r.words(k), r.of(k), wait) }
}

// Charge spends one call with a body of so many bytes.
func (a *Account) Charge(bytes int) (refuse func() error) {
	call, size := a.Spend(Calls, 1), a.Spend(Bytes, bytes)
	if call != nil {
		return call
	}
	return size
}

// Give takes back a use of n: what it was for did not happen.
func (a *Account) Give(k Kind, n int) {
	if a != nil {
		a.buckets[index(k)].give(a.limits.Load().rate(k), int64(n))
	}
}

// Hold takes one of what is held, until release is called, once. If there are too many, or [Options].Room refuses it,
// it returns an [approval.Error] with [approval.CodeRateLimited].
func (a *Account) Hold(ctx context.Context, k Kind) (release func(), err error) {
	if a == nil {
		return func() {}, nil
	}
	if err := a.r.o.Room(ctx, a.who); err != nil {
		return nil, err
	}
	held, most := &a.held[index(k)-rates], a.limits.Load().most(k)
	for {
		n := held.Load()
		if most > 0 && n >= int64(most) {
			return nil, a.refuse(k, k.count(int64(most))+" at a time", strconv.Itoa(most), holdAgain)
		}
		if held.CompareAndSwap(n, n+1) {
			return sync.OnceFunc(func() { held.Add(-1) }), nil
		}
	}
}

// Force is Hold that is not refused.
func (a *Account) Force(k Kind) (release func()) {
	if a == nil {
		return func() {}
	}
	held := &a.held[index(k)-rates]
	held.Add(1)
	return sync.OnceFunc(func() { held.Add(-1) })
}

// Free reports whether Hold would give one more now.
func (a *Account) Free(k Kind) bool {
	return a == nil || a.held[index(k)-rates].Load() < int64(a.Most(k))
}

// Most is how many of what is held the principal may have; [math.MaxInt] where there is no limit.
func (a *Account) Most(k Kind) int {
	if a == nil {
		return math.MaxInt
	}
	if n := a.limits.Load().most(k); n > 0 {
		return n
	}
	return math.MaxInt
}

// holdAgain is after which time it is worth trying again to hold one more.
const holdAgain = 5 * time.Second

// TellAgain is how often it is told that a principal is over the same budget.
const TellAgain = time.Hour

// Refused counts a refusal that somebody else has made for the account, and returns its error.
func (a *Account) Refused(k Kind) error {
	if a == nil { // who was taken out of the configuration meanwhile
		return approval.Errorf(approval.CodeUnauthorized, "This agent is not in the gate's configuration any more.")
	}
	most := a.limits.Load().most(k)
	return a.refuse(k, k.count(int64(most))+" at a time", strconv.Itoa(most), holdAgain)
}

func (a *Account) refuse(k Kind, words, limit string, wait time.Duration) error {
	i := index(k)
	a.refused[i].Add(1)
	now := int64(a.r.now()) + 1
	if told := a.told[i].Load(); (told == 0 || now-told >= int64(TellAgain)) && a.told[i].CompareAndSwap(told, now) {
		a.r.o.Over(Over{a.who, k, limit})
	}
	where := "limits.person." + string(k)
	if a.who.Agent { // its own entry may say something else
		where = "limits.agent." + string(k) + ", or the agent's own limits"
	}
	wait = max((wait + time.Second - 1).Truncate(time.Second), time.Second) // whole seconds, and not too early
	return &approval.Error{Code: approval.CodeRateLimited, After: wait, Message: fmt.Sprintf(
		"Over the budget of %s: %s may have %s. Try again in %s; whoever runs Countersign can raise %s.",
		k, a.who, words, wait, where)}
}
