package outbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"countersign/approval"
	"countersign/channels"
)

// memory is an outbox and a queue with the rules of outbox.Outbox, in memory.
type memory struct {
	sentOn  []string
	mu      sync.Mutex
	rows    []*approval.Notification
	details map[string]Failure // the last failure of each row
	targets map[string]*approval.Notification
	wake    chan struct{}
	ids     []string
	flood   bool          // the next take says "too many to name"
	ahead   time.Duration // of this machine's clock

	readErr, beginErr, recordErr error
	reads, loads                 int
	slow                         map[string]time.Duration // how long rows take to be loaded
	hangs                        time.Duration            // how long the answer to the next Begin takes
}

func newMemory() *memory {
	return &memory{wake: make(chan struct{}, 1), details: map[string]Failure{},
		targets: map[string]*approval.Notification{}}
}

func (m *memory) Queue() (<-chan struct{}, func() []string, func()) {
	take := func() []string {
		m.mu.Lock()
		defer m.mu.Unlock()
		ids := m.ids
		if m.flood {
			ids = nil
		}
		m.ids, m.flood = nil, false
		return ids
	}
	return m.wake, take, func() {}
}

// put commits rows and wakes the sender.
func (m *memory) put(rows ...approval.Notification) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range rows {
		n.CreatedAt = m.now()
		if n.Status == "" {
			n.Status = approval.Queued
		}
		if n.NextAttemptAt.IsZero() {
			n.NextAttemptAt = n.CreatedAt
		}
		m.rows = append(m.rows, &n)
		m.ids = append(m.ids, n.ID)
	}
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func row(id, channel string, kind approval.NotificationKind) approval.Notification {
	return approval.Notification{ID: id, ApprovalID: "A-" + id, Channel: channel, Recipient: "to-" + id, Kind: kind,
		RetryKey: "key-" + id, Text: "text of " + id}
}

func (m *memory) get(id string) approval.Notification {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *m.find(id)
}

func (m *memory) find(id string) *approval.Notification {
	for _, n := range m.rows {
		if n.ID == id {
			return n
		}
	}
	panic("no row " + id)
}

func open(n *approval.Notification) bool {
	return n.Status == approval.Queued || n.Status == approval.Retrying
}

func dueAt(n *approval.Notification) time.Time {
	if n.LeaseUntil.After(n.NextAttemptAt) {
		return n.LeaseUntil
	}
	return n.NextAttemptAt
}

func (m *memory) Ready(_ context.Context, ids []string, limit int) (ready []approval.Notification, next time.Time,
	err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if m.readErr != nil {
		return nil, next, m.readErr
	}
	rows := slices.Clone(m.rows)
	slices.SortStableFunc(rows, func(a, b *approval.Notification) int { return a.NextAttemptAt.Compare(b.NextAttemptAt) })
	for _, n := range rows {
		if !open(n) {
			continue
		}
		if next.IsZero() || dueAt(n).Before(next) {
			next = dueAt(n)
		}
		if dueAt(n).After(m.now()) || ids != nil && !slices.Contains(ids, n.ID) || len(ready) == limit {
			continue
		}
		narrow := approval.Notification{ID: n.ID, Channel: n.Channel, Kind: n.Kind, NextAttemptAt: n.NextAttemptAt,
			Narrow: true}
		ready = append(ready, narrow)
	}
	return ready, next, nil
}

func (m *memory) Load(_ context.Context, id string) (channels.Delivery, error) {
	time.Sleep(m.slow[id]) // bubble: a slow store
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loads++
	n := *m.find(id)
	return channels.Delivery{Notification: n, Target: m.targets[n.TargetID]}, nil
}

func (m *memory) SendOn(_ context.Context, ids []string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sentOn = append(m.sentOn, ids...)
	return ids, nil
}

func (m *memory) LoadReady(ctx context.Context, id string) (
	ready []approval.Notification, whole *channels.Delivery, next time.Time, err error,
) {
	ready, next, err = m.Ready(ctx, []string{id}, 1)
	if err == nil && len(ready) > 0 && m.slow[id] == 0 {
		d, err := m.Load(ctx, id)
		return ready, &d, next, err
	}
	return ready, nil, next, err
}

func (m *memory) Begin(ctx context.Context, t Attempt) (approval.Notification, bool, error) {
	m.mu.Lock()
	hangs := m.hangs
	m.hangs = 0
	defer func() {
		m.mu.Unlock()
		time.Sleep(hangs) // bubble: a slow store, or a program that stands still
	}()
	if m.beginErr != nil {
		return approval.Notification{}, false, m.beginErr
	}
	if err := ctx.Err(); err != nil {
		return approval.Notification{}, false, err
	}
	n := m.find(t.Notification.ID)
	if !open(n) || dueAt(n).After(m.now()) {
		return *n, false, nil
	}
	n.Attempt++
	n.LeaseUntil = m.now().Add(t.Lease)
	if len(n.Body) == 0 {
		n.Body = t.Body
	}
	if n.FirstTryAt.IsZero() {
		n.FirstTryAt = m.now()
	}
	return *n, true, nil
}

func (m *memory) Sent(ctx context.Context, n approval.Notification, r channels.Receipt) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.recordErr != nil {
		return m.recordErr
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	p := m.find(n.ID)
	p.Status, p.SentAt, p.MessageID, p.Receipt, p.LeaseUntil = approval.Sent, m.now(), r.MessageID, r.Data, time.Time{}
	return nil
}

func (m *memory) NotSent(_ context.Context, n approval.Notification, f Failure) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.recordErr != nil {
		return m.recordErr
	}
	p := m.find(n.ID)
	m.details[n.ID] = f
	p.Status, p.Error, p.LeaseUntil, p.NextAttemptAt = approval.Retrying, f.Reason, time.Time{}, f.RetryAt
	switch {
	case f.Final:
		p.Status = approval.Failed
	case f.Unbegun:
		if p.Attempt--; p.Attempt == 0 {
			p.Status, p.FirstTryAt = approval.Queued, time.Time{}
		}
	}
	return nil
}

// now is the queue's clock, which need not be this machine's.
func (m *memory) now() time.Time { return time.Now().Add(m.ahead) }

func (m *memory) readCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reads
}

func (m *memory) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// phone is a channel whose answers a test decides.
type phone struct {
	name   string
	answer func(m channels.Message) (channels.Receipt, error) // nil: sent
	render func(c channels.Card) (channels.Body, error)
	probe  error

	mu       sync.Mutex
	sends    []channels.Message
	times    []time.Time
	now, top int // sends at once
	probes   []time.Time
}

func (p *phone) Name() string { return p.name }

func (p *phone) Render(c channels.Card) (channels.Body, error) {
	if p.render != nil {
		return p.render(c)
	}
	return channels.Body("body: " + c.Text), nil
}

func (p *phone) Send(_ context.Context, m channels.Message) (channels.Receipt, error) {
	p.mu.Lock()
	p.sends = append(p.sends, m)
	p.times = append(p.times, time.Now())
	p.now++
	p.top = max(p.top, p.now)
	answer := p.answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.now--
		p.mu.Unlock()
	}()
	if answer == nil {
		return channels.Receipt{MessageID: "m-" + m.To, HTTPStatus: 200, Data: []byte(`{}`)}, nil
	}
	return answer(m)
}

func (p *phone) say(answer func(m channels.Message) (channels.Receipt, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

func (p *phone) sent() []channels.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sends)
}

// probed is a phone that can be probed, and edits.
type probed struct{ *phone }

func (p probed) Probe(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probes = append(p.probes, time.Now())
	return p.probe
}

func (p probed) Edit(ctx context.Context, m channels.Message) (channels.Receipt, error) {
	return p.Send(ctx, m)
}

func fail(e channels.PushError) func(channels.Message) (channels.Receipt, error) {
	return func(channels.Message) (channels.Receipt, error) { return channels.Receipt{}, &e }
}

type meter struct {
	mu     sync.Mutex
	counts map[string]int
}

func (m *meter) CountTry(channel string, kind approval.NotificationKind, r Result, reason string, _ time.Duration) {
	m.add(fmt.Sprintf("%s %s %s %s", channel, kind, r, reason))
}

func (m *meter) SetPaused(channel string, paused bool) {
	m.add(fmt.Sprintf("%s paused %t", channel, paused))
}

func (m *meter) add(s string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts == nil {
		m.counts = map[string]int{}
	}
	m.counts[s]++
}

// bench is a running sender.
type bench struct {
	*memory
	s      *Sender
	meter  *meter
	log    *bytes.Buffer
	cancel context.CancelFunc
	done   chan struct{}
}

// run starts a sender in a synctest bubble; it is stopped when the test's function ends.
func run(t *testing.T, m *memory, change func(o *SenderOptions), chs ...channels.Channel) *bench {
	t.Helper()
	b := &bench{memory: m, meter: new(meter), log: new(bytes.Buffer), done: make(chan struct{})}
	o := SenderOptions{
		Outbox: m, Queue: m, Channels: chs, Metrics: b.meter, Now: m.now,
		Retries: Retries{Max: 3, First: 10 * time.Second, Cap: time.Minute},
		Log:     slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&o)
	}
	b.s = NewSender(o)
	ctx, cancel := context.WithCancel(t.Context())
	b.cancel = cancel
	go func() {
		defer close(b.done)
		if err := b.s.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	synctest.Wait()
	return b
}

func (b *bench) stop() {
	b.cancel()
	<-b.done // bubble: as in all tests of the sender
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d) // bubble: as in all tests of the sender
	synctest.Wait()
}

func TestFirstPushLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &phone{name: "line"}
		b := run(t, newMemory(), nil, p)
		defer b.stop()
		time.Sleep(time.Hour)
		reads := b.readCount()
		start := time.Now()
		b.put(row("1", "line", approval.KindRequest))
		synctest.Wait()
		if got := p.sent(); len(got) != 1 || p.times[0] != start {
			t.Fatalf("sent %v at %v, want one at %v", got, p.times, start)
		}
		n := b.get("1")
		if n.Status != approval.Sent || n.Attempt != 1 || n.MessageID != "m-to-1" {
			t.Errorf("row %+v", n)
		}
		if n := b.readCount() - reads; n != 1 {
			t.Errorf("the queue was read %d times for one push, want 1", n)
		}
		// Nothing is polled: a row that nobody spoke of is found by the timer of the last look, and
		// after that nothing is read.
		time.Sleep(time.Minute)
		reads = b.readCount()
		time.Sleep(50 * time.Minute)
		if n := b.readCount() - reads; n > 0 {
			t.Errorf("the queue was read %d times in 50 idle minutes", n)
		}
		if got := b.meter.counts["line request sent "]; got != 1 {
			t.Errorf("metrics %v", b.meter.counts)
		}
	})
}

func TestRetriesCarrySameKeyAndBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		renders := 0
		p := &phone{name: "line", answer: fail(channels.PushError{Reason: channels.ReasonUnavailable, HTTPStatus: 500,
			Unknown: true})}
		p.render = func(_ channels.Card) (channels.Body, error) {
			renders++
			return channels.Body(fmt.Sprint("body ", renders)), nil
		}
		b := run(t, newMemory(), nil, p)
		defer b.stop()
		b.put(row("1", "line", approval.KindRequest))
		time.Sleep(time.Hour)
		synctest.Wait()
		got := p.sent()
		if len(got) != 4 {
			t.Fatalf("%d tries, want 1 and 3 retries", len(got))
		}
		for i, m := range got {
			if m.RetryKey != "key-1" || string(m.Body) != "body 1" || m.Attempt != i+1 {
				t.Errorf("try %d: %+v", i+1, m)
			}
			if i > 0 {
				gap, want := p.times[i].Sub(p.times[i-1]), 10*time.Second<<(i-1)
				if gap < want*8/10 || gap > want*12/10 {
					t.Errorf("try %d came after %v, want about %v", i+1, gap, want)
				}
			}
		}
		if n := b.get("1"); n.Status != approval.Failed || n.Attempt != 4 {
			t.Errorf("row %+v, want failed after 4", n)
		}
		if f := b.details["1"]; !f.Final || f.Reason != channels.ReasonUnavailable || !strings.Contains(f.Detail,
			"given up after 4 tries") {
			t.Errorf("failure %+v", f)
		}
		if renders != 1 {
			t.Errorf("rendered %d times", renders)
		}
		if b.meter.counts["line request retried unavailable"] != 3 || b.meter.counts["line request failed unavailable"] != 1 {
			t.Errorf("metrics %v", b.meter.counts)
		}
	})
}

func TestFinalFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &phone{name: "line", answer: fail(channels.PushError{Reason: channels.ReasonBadRecipient, Final: true,
			HTTPStatus: 400, Err: errors.New("no such user")})}
		b := run(t, newMemory(), nil, p)
		defer b.stop()
		b.put(row("1", "line", approval.KindRequest))
		after(time.Hour)
		if n := b.get("1"); n.Status != approval.Failed || len(p.sent()) != 1 {
			t.Errorf("row %+v after %d sends, want failed after 1", n, len(p.sent()))
		}
		if f := b.details["1"]; f.Detail != "no such user" || f.HTTPStatus != 400 {
			t.Errorf("failure %+v", f)
		}
		if log := b.log.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "check the recipient") {
			t.Errorf("the log does not say what to do:\n%s", log)
		}
	})
}

// A card that waited while its person was taken out of the configuration does not go to them; an edit of one that they
// have still does.
func TestRule8_RemovedPeopleAreSentNoCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &phone{name: "line", answer: fail(channels.PushError{Reason: channels.ReasonUnavailable,
			Err: errors.New("busy")})}
		b := run(t, newMemory(), nil, p)
		defer b.stop()
		b.put(row("1", "line", approval.KindRequest))
		synctest.Wait()
		before := len(p.sent())
		b.s.Reload(channels.Maker{Known: func(string, string) bool { return false }}, p)
		b.put(row("2", "line", approval.KindReminder))
		after(2 * time.Hour)
		for _, id := range []string{"1", "2"} {
			if n := b.get(id); n.Status != approval.Failed || b.details[id].Reason != channels.ReasonBadRecipient {
				t.Errorf("row %s: %+v", id, n)
			}
		}
		if n := len(p.sent()); n != before {
			t.Errorf("%d sends after the removal", n-before)
		}
	})
}

// A platform that wishes to be left alone is, for all messages of the kind, and none pays for it.
func TestRetryAfterHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &phone{name: "slack", answer: fail(channels.PushError{Reason: channels.ReasonRateLimited,
			RetryAfter: 90 * time.Second})}
		b := run(t, newMemory(), nil, probed{p})
		defer b.stop()
		b.put(row("1", "slack", approval.KindRequest))
		synctest.Wait()
		p.say(nil)
		b.put(row("2", "slack", approval.KindRequest), row("3", "slack", approval.KindReply))
		after(89 * time.Second)
		if got := p.sent(); len(got) != 2 || got[1].To != "to-3" {
			t.Fatalf("sent %v while held, want the reply alone", got)
		}
		if n := b.get("2"); n.Attempt != 0 {
			t.Errorf("the held card was tried %d times", n.Attempt)
		}
		after(20 * time.Second)
		for _, id := range []string{"1", "2"} {
			if n := b.get(id); n.Status != approval.Sent {
				t.Errorf("row %s is %s after the wait", id, n.Status)
			}
		}
		if gap := p.times[2].Sub(p.times[0]); gap < 90*time.Second {
			t.Errorf("the next card left after %v, want 90 s", gap)
		}
	})
}

// A backoff longer than the wish is kept for the row that failed; the others need not wait for it.
func TestRetryAfterShorterThanBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &phone{name: "slack", answer: fail(channels.PushError{Reason: channels.ReasonRateLimited,
			RetryAfter: time.Second})}
		b := run(t, newMemory(), nil, p)
		defer b.stop()
		b.put(row("1", "slack", approval.KindRequest))
		synctest.Wait()
		p.say(nil)
		b.put(row("2", "slack", approval.KindRequest))
		after(1500 * time.Millisecond)
		if b.get("2").Status != approval.Sent || b.get("1").Status == approval.Sent {
			t.Errorf("after 1.5 s: 1 is %s, 2 is %s", b.get("1").Status, b.get("2").Status)
		}
		after(15 * time.Second)
		if b.get("1").Status != approval.Sent {
			t.Errorf("after the backoff: 1 is %s", b.get("1").Status)
		}
	})
}

// What a channel lacks is told with what to do: a token and a scope have another remedy each.
func TestAPausedChannelSaysWhatToDo(t *testing.T) {
	for _, tt := range []struct {
		reason, detail string
		want, not      []string
	}{
		{channels.ReasonBadToken, "invalid_auth", []string{"the channel slack is paused", "(bad_token)", "put a valid token"},
			[]string{"scope"}},
		{channels.ReasonMissingScope, "missing_scope, needs chat:write", []string{"the channel slack is paused",
			"needs chat:write", "OAuth & Permissions"}, []string{"token into"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &phone{name: "slack", answer: fail(channels.PushError{Reason: tt.reason, ChannelDown: true,
				Err: errors.New(tt.detail)}), probe: errors.New("still")}
			b := run(t, newMemory(), nil, probed{p})
			defer b.stop()
			if got := b.s.Problems(); len(got) != 0 {
				t.Errorf("%s: problems before: %q", tt.reason, got)
			}
			b.put(row("1", "slack", approval.KindRequest))
			synctest.Wait()
			got := strings.Join(b.s.Problems(), "\n")
			for _, s := range tt.want {
				if !strings.Contains(got, s) {
					t.Errorf("%s: %q does not say %q", tt.reason, got, s)
				}
			}
			for _, s := range tt.not {
				if strings.Contains(got, s) {
					t.Errorf("%s: %q says %q", tt.reason, got, s)
				}
			}
		})
	}
}

// Design §6: a bad token pauses the channel; rows keep their attempts until a successful probe.
func TestBadTokenPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &phone{name: "line", answer: fail(channels.PushError{Reason: channels.ReasonBadToken, HTTPStatus: 401,
			ChannelDown: true}), probe: errors.New("still bad")}
		other := &phone{name: "slack"}
		b := run(t, newMemory(), nil, probed{p}, other)
		defer b.stop()
		start := time.Now()
		b.put(row("1", "line", approval.KindRequest))
		synctest.Wait()
		for i := range 30 {
			b.put(row(fmt.Sprint("x", i), "line", approval.KindRequest))
			synctest.Wait()
		}
		b.put(row("s", "slack", approval.KindRequest))
		after(10 * time.Minute)
		if n := len(p.sent()); n != 1 {
			t.Errorf("%d sends with a bad token, want 1", n)
		}
		if got := b.get("s").Status; got != approval.Sent {
			t.Errorf("the other channel's row is %s", got)
		}
		if n := b.get("1"); n.Attempt != 0 || n.Status != approval.Queued || n.Error != channels.ReasonBadToken {
			t.Errorf("row %+v, want its attempt back", n)
		}
		if got := b.s.Paused(); got["line"] != channels.ReasonBadToken || len(got) != 1 {
			t.Errorf("paused %v", got)
		}
		b.mu.Lock()
		if !slices.Contains(b.sentOn, "1") || slices.Contains(b.sentOn, "s") {
			t.Errorf("of what waits, %q was looked at", b.sentOn)
		}
		b.mu.Unlock()
		var gaps []time.Duration
		at := start
		for _, probe := range p.probes {
			gaps = append(gaps, probe.Sub(at))
			at = probe
		}
		if want := []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute}; !slices.Equal(gaps,
			want) {
			t.Errorf("probed after %v, want %v", gaps, want)
		}
		p.mu.Lock()
		p.probe, p.answer = nil, nil
		p.mu.Unlock()
		after(5 * time.Minute)
		for _, id := range []string{"1", "x0", "x29"} {
			if n := b.get(id); n.Status != approval.Sent || n.Attempt != 1 {
				t.Errorf("row %s after the probe: %s, attempt %d", id, n.Status, n.Attempt)
			}
		}
		if len(b.s.Paused()) != 0 || b.meter.counts["line paused true"] != 1 || b.meter.counts["line paused false"] != 1 {
			t.Errorf("paused %v, metrics %v", b.s.Paused(), b.meter.counts)
		}
	})
}

// A channel whose probes succeed but whose sends do not is not hammered.
func TestFlappingChannelBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &phone{name: "line", answer: fail(channels.PushError{Reason: channels.ReasonBadToken, ChannelDown: true})}
		b := run(t, newMemory(), nil, probed{p})
		defer b.stop()
		b.put(row("1", "line", approval.KindRequest))
		after(time.Hour)
		if n := len(p.sent()); n < 10 || n > 16 {
			t.Errorf("%d sends in an hour", n)
		}
		if n := b.get("1"); n.Attempt != 0 {
			t.Errorf("row %+v", n)
		}
	})
}

func TestReloadEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &phone{name: "line", answer: fail(channels.PushError{Reason: channels.ReasonBadToken, ChannelDown: true}),
			probe: errors.New("bad")}
		b := run(t, newMemory(), nil, probed{p})
		defer b.stop()
		b.put(row("1", "line", approval.KindRequest))
		after(time.Second)
		fresh := &phone{name: "line"}
		b.s.Reload(channels.Maker{}, fresh)
		synctest.Wait()
		if n := b.get("1"); n.Status != approval.Sent || len(fresh.sent()) != 1 {
			t.Errorf("row %+v after a reload", n)
		}
		probes := len(p.probes)
		after(time.Hour)
		if len(p.probes) != probes {
			t.Error("the replaced channel is still probed")
		}
		if len(b.s.Paused()) != 0 {
			t.Errorf("paused %v", b.s.Paused())
		}
	})
}

// A platform that hangs has its own hands full, and nobody else's.
func TestHangingChannelBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		slow := &phone{name: "line", answer: func(channels.Message) (channels.Receipt, error) {
			<-release
			return channels.Receipt{HTTPStatus: 200}, nil
		}}
		quick := &phone{name: "slack"}
		b := run(t, newMemory(), func(o *SenderOptions) { o.Parallel = 4 }, slow, quick)
		defer b.stop()
		for i := range 200 {
			b.put(row(fmt.Sprint("l", i), "line", approval.KindRequest))
		}
		for i := range 20 {
			b.put(row(fmt.Sprint("s", i), "slack", approval.KindRequest))
		}
		synctest.Wait()
		if n := len(quick.sent()); n != 20 {
			t.Errorf("%d of 20 went out beside a hanging channel", n)
		}
		if n := len(slow.sent()); n != 4 {
			t.Errorf("%d sends at once, want 4", n)
		}
		close(release)
		synctest.Wait()
		if n := len(slow.sent()); n != 200 || slow.top != 4 {
			t.Errorf("%d of 200 went out, at most %d at once; want 4", n, slow.top)
		}
	})
}

// More rows than are read at once, most of them of a paused channel, do not hide the others; and what they would
// send is not read while they wait.
func TestRule12_PausedRowsHideNoOthersAndAreNotLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &phone{name: "line", answer: fail(channels.PushError{Reason: channels.ReasonBadToken, ChannelDown: true}),
			probe: errors.New("bad")}
		other := &phone{name: "slack"}
		m := newMemory()
		b := run(t, m, nil, probed{p}, other)
		defer b.stop()
		for i := range 3 * scanLimit {
			m.put(row(fmt.Sprint("l", i), "line", approval.KindRequest))
		}
		synctest.Wait()
		m.set(func() { m.ids, m.loads = nil, 0 })
		m.put(row("s", "slack", approval.KindRequest))
		m.set(func() { m.flood = true }) // too many to name
		synctest.Wait()
		after(time.Minute)
		if got := b.get("s").Status; got != approval.Sent {
			t.Errorf("the other channel's row is %s", got)
		}
		m.set(func() {
			if m.loads != 1 {
				t.Errorf("%d notifications were loaded, want the one that was sent", m.loads)
			}
		})
	})
}

// All rows of a queue longer than any limit go out, once each.
func TestLongQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		for i := range 5000 {
			m.put(row(fmt.Sprintf("%04d", i), "line", approval.KindRequest))
		}
		m.set(func() { m.flood = true })
		p := &phone{name: "line", answer: func(_ channels.Message) (channels.Receipt, error) {
			time.Sleep(time.Millisecond)
			return channels.Receipt{HTTPStatus: 200}, nil
		}}
		b := run(t, m, nil, p)
		defer b.stop()
		after(5 * time.Second)
		seen := map[string]int{}
		for _, s := range p.sent() {
			seen[s.To]++
		}
		if len(seen) != 5000 {
			t.Errorf("%d of 5000 went out", len(seen))
		}
		for to, n := range seen {
			if n != 1 {
				t.Errorf("%s was sent %d times", to, n)
			}
		}
	})
}

// What was in flight at a crash is tried again within 20 s, with the same key and bytes.
func TestLeaseOfTheDead(t *testing.T) {
	if lease > 20*time.Second || lease <= sendTimeout {
		t.Fatalf("a lease of %v with a send time-out of %v", lease, sendTimeout)
	}
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		dead := row("1", "line", approval.KindRequest)
		dead.Attempt, dead.Body, dead.FirstTryAt, dead.LeaseUntil = 1, []byte("stored"), time.Now(), time.Now().Add(lease)
		m.put(dead)
		p := &phone{name: "line"}
		b := run(t, m, nil, p)
		defer b.stop()
		after(lease - time.Millisecond)
		if len(p.sent()) != 0 {
			t.Fatal("sent while another has it")
		}
		after(2 * time.Second)
		got := p.sent()
		if len(got) != 1 || string(got[0].Body) != "stored" || got[0].RetryKey != "key-1" || got[0].Attempt != 2 {
			t.Errorf("sent %+v", got)
		}
	})
}

// Who took a row and stood still then does not send it: another may have it by the time that it is through.
func TestALateSenderSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.hangs = lease - sendTimeout + time.Millisecond
		p := &phone{name: "line"}
		b := run(t, m, nil, p)
		defer b.stop()
		b.put(row("1", "line", approval.KindRequest))
		after(lease - time.Millisecond)
		if n := b.get("1"); len(p.sent()) != 0 || n.Attempt != 1 {
			t.Fatalf("sent %+v in attempt %d", p.sent(), n.Attempt)
		}
		after(2 * time.Second)
		if got := p.sent(); len(got) != 1 || got[0].Attempt != 2 || got[0].RetryKey != "key-1" {
			t.Errorf("sent %+v", got)
		}
	})
}

// Of several senders the one whose program has queued a row sends it, and others take it only where that does not come
// about: so each is taken once, and none stays.
func TestWhatOthersHaveQueuedIsLeftToThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := &phone{name: "line"}
		b := run(t, m, func(o *SenderOptions) { o.Others = time.Second }, p)
		defer b.stop()
		start := time.Now()
		b.put(row("1", "line", approval.KindRequest))
		synctest.Wait()
		if len(p.sent()) != 1 {
			t.Fatalf("its own: sent %+v", p.sent())
		}
		after(100 * time.Millisecond)
		m.set(func() { // nobody is woken here
			n := row("2", "line", approval.KindRequest)
			n.Status, n.NextAttemptAt = approval.Queued, time.Now()
			m.rows = append(m.rows, &n)
		})
		after(950 * time.Millisecond)
		if len(p.sent()) != 1 {
			t.Fatalf("another's, after %v: sent %+v", time.Since(start), p.sent())
		}
		after(1100 * time.Millisecond)
		if len(p.sent()) != 2 {
			t.Errorf("left behind: sent %+v", p.sent())
		}
		reads := m.readCount()
		after(time.Minute)
		if n := m.readCount() - reads; n > 62 {
			t.Errorf("looked %d times in a minute", n)
		}
	})
}

// Nor does it where it stands still right before it would send.
func TestASenderThatStandsStillSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &phone{name: "line"}
		still := lease + time.Second
		b := run(t, newMemory(), func(o *SenderOptions) {
			o.Maker.Known = func(string, string) bool {
				time.Sleep(still) // bubble: it stands still
				still = 0
				return true
			}
		}, p)
		defer b.stop()
		b.put(row("1", "line", approval.KindRequest))
		after(lease + 2*time.Second)
		if got := p.sent(); len(got) > 1 || len(got) == 1 && got[0].Attempt != 2 {
			t.Errorf("sent %+v", got)
		}
	})
}

// What others have queued costs a sender no looks, however much that is.
func TestManyRowsOfOthersAreNotLookedAtAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		b := run(t, m, func(o *SenderOptions) { o.Others = time.Second }, &phone{name: "line"})
		defer b.stop()
		synctest.Wait()
		m.set(func() {
			for i := range 4 * scanLimit {
				n := row(fmt.Sprint("others", i), "line", approval.KindRequest)
				n.Status, n.NextAttemptAt = approval.Queued, time.Now().Add(1050*time.Millisecond)
				m.rows = append(m.rows, &n)
			}
		})
		after(1100 * time.Millisecond) // all are due, and fresh
		reads := m.readCount()
		for i := range 100 {
			b.put(row(fmt.Sprint("own", i), "line", approval.KindRequest))
			after(5 * time.Millisecond)
		}
		if n := m.readCount() - reads; n > 110 {
			t.Errorf("%d looks for 100 of its own", n)
		}
	})
}

func TestGracefulStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &phone{name: "line", answer: func(channels.Message) (channels.Receipt, error) {
			time.Sleep(3 * time.Second)
			return channels.Receipt{MessageID: "late", HTTPStatus: 200}, nil
		}}
		b := run(t, newMemory(), func(o *SenderOptions) { o.Parallel = 1 }, p)
		b.put(row("1", "line", approval.KindRequest), row("2", "line", approval.KindRequest))
		synctest.Wait()
		start := time.Now()
		b.stop()
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("stopped after %v, want when the send was over", took)
		}
		if n := b.get("1"); n.Status != approval.Sent || n.MessageID != "late" {
			t.Errorf("what was in flight: %+v", n)
		}
		if n := b.get("2"); n.Attempt != 0 || n.Status != approval.Queued {
			t.Errorf("what was not begun: %+v", n)
		}
	})
}

func TestStopWhilePausedAndHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &phone{name: "line", answer: fail(channels.PushError{Reason: channels.ReasonBadToken, ChannelDown: true}),
			probe: errors.New("bad")}
		b := run(t, newMemory(), nil, probed{p})
		b.put(row("1", "line", approval.KindRequest))
		after(time.Minute)
		start := time.Now()
		b.stop()
		if time.Since(start) != 0 {
			t.Errorf("stopping took %v", time.Since(start))
		}
	})
}

// A send that went out is recorded even if the store is away for a while, and Run's context is over.
func TestRecordingOutlivesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := &phone{name: "line"}
		b := run(t, m, nil, p)
		m.set(func() { m.recordErr = approval.Errorf(approval.CodeStoreUnavailable, "disk full") })
		m.put(row("1", "line", approval.KindRequest))
		after(5 * time.Second)
		b.cancel()
		after(time.Second)
		m.set(func() { m.recordErr = nil })
		<-b.done
		if n := m.get("1"); n.Status != approval.Sent || len(p.sent()) != 1 {
			t.Errorf("row %+v after %d sends", n, len(p.sent()))
		}
	})
	synctest.Test(t, func(t *testing.T) { // no longer than the lease lives
		m := newMemory()
		p := &phone{name: "line"}
		b := run(t, m, nil, p)
		m.set(func() { m.recordErr = approval.Errorf(approval.CodeStoreUnavailable, "disk full") })
		m.put(row("1", "line", approval.KindRequest))
		synctest.Wait()
		start := time.Now()
		b.stop()
		if took := time.Since(start); took > lease {
			t.Errorf("stopped after %v, longer than the lease", took)
		}
		if !strings.Contains(b.log.String(), "could not be recorded") {
			t.Error("the log does not say that nothing was recorded")
		}
	})
}

func TestStoreTroubleIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := &phone{name: "line"}
		b := run(t, m, nil, p)
		defer b.stop()
		m.set(func() { m.readErr = errors.New("locked") })
		m.put(row("1", "line", approval.KindRequest))
		after(3 * time.Second)
		m.set(func() { m.readErr, m.beginErr = nil, errors.New("locked") })
		after(3 * time.Second)
		if len(p.sent()) != 0 {
			t.Error("sent without taking the row")
		}
		m.set(func() { m.beginErr = nil })
		after(6 * time.Second)
		if n := m.get("1"); n.Status != approval.Sent || n.Attempt != 1 {
			t.Errorf("row %+v", n)
		}
	})
}

// LINE forgets a key after 24 hours: after 23 it is not used again.
func TestOldKeysAreNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		old := row("1", "line", approval.KindRequest)
		old.Attempt, old.FirstTryAt, old.Body = 1, time.Now().Add(-23*time.Hour), []byte("b")
		young := row("2", "line", approval.KindRequest)
		young.Attempt, young.FirstTryAt, young.Body = 1, time.Now().Add(-22*time.Hour), []byte("b")
		m.put(old, young)
		p := &phone{name: "line"}
		b := run(t, m, nil, p)
		defer b.stop()
		synctest.Wait()
		if n := m.get("1"); n.Status != approval.Failed || m.details["1"].Reason != channels.ReasonRetryKeyExpired {
			t.Errorf("row %+v", n)
		}
		if n := m.get("2"); n.Status != approval.Sent || len(p.sent()) != 1 {
			t.Errorf("row %+v", n)
		}
	})
}

// The queue's times are compared with the queue's clock: it may be a day from the machine's.
func TestRule6TheSenderHasTheQueuesClock(t *testing.T) {
	for _, ahead := range []time.Duration{-500 * 24 * time.Hour, -24 * time.Hour, -23 * time.Hour, -time.Second, 0,
		time.Second, 24 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.ahead = ahead
				p := &phone{name: "line", answer: fail(channels.PushError{Reason: channels.ReasonUnavailable})}
				b := run(t, m, nil, p)
				defer b.stop()
				b.put(row("1", "line", approval.KindRequest))
				start := time.Now()
				synctest.Wait()
				if n := b.get("1"); n.Attempt != 1 || n.Status != approval.Retrying {
					t.Fatalf("row %+v", n)
				}
				p.say(nil)
				for b.get("1").Status == approval.Retrying && time.Since(start) < time.Minute {
					after(100 * time.Millisecond)
				}
				if n, took := b.get("1"), time.Since(start); n.Status != approval.Sent || took < 8*time.Second ||
					took > 13*time.Second {
					t.Errorf("after %v: row %+v", took, n)
				}
			})
		})
	}
}

func TestRenderTrouble(t *testing.T) {
	for name, render := range map[string]func(c channels.Card) (channels.Body, error){
		"error": func(_ channels.Card) (channels.Body, error) { return nil, errors.New("too wide") },
		"panic": func(_ channels.Card) (channels.Body, error) { panic("nil map") },
	} {
		for _, words := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " words ", words), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &phone{name: "line"}
					p.render = func(c channels.Card) (channels.Body, error) {
						if words && c.Kind == approval.KindReply && len(c.Items) == 0 {
							return channels.Body("plain: " + c.Text), nil
						}
						return render(c)
					}
					b := run(t, newMemory(), nil, p)
					defer b.stop()
					b.put(row("1", "line", approval.KindRequest))
					after(time.Hour)
					n := b.get("1")
					if words && (n.Status != approval.Sent || !strings.HasPrefix(string(n.Body), "plain: ")) {
						t.Errorf("row %+v, want plain words sent", n)
					}
					if !words && (n.Status != approval.Failed || b.details["1"].Reason != channels.ReasonRenderFailed ||
						len(p.sent()) != 0) {
						t.Errorf("row %+v, want a final render_failed", n)
					}
				})
			})
		}
	}
}

func TestEdits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.targets["card"] = &approval.Notification{ID: "card", Receipt: []byte(`{"ts":"1.2"}`)}
		edit := func(id, channel, target string) approval.Notification {
			n := row(id, channel, approval.KindEdit)
			n.TargetID = target
			return n
		}
		p, rigid := &phone{name: "slack"}, &phone{name: "line"}
		b := run(t, m, nil, probed{p}, rigid)
		defer b.stop()
		m.put(edit("1", "slack", "card"), edit("2", "line", "card"), edit("3", "slack", "gone"))
		after(time.Hour)
		if got := p.sent(); len(got) != 1 || string(got[0].Target) != `{"ts":"1.2"}` || b.get("1").Status != approval.Sent {
			t.Errorf("edits %+v", got)
		}
		if f := m.details["2"]; !f.Final || f.Reason != channels.ReasonCannotEdit || len(rigid.sent()) != 0 {
			t.Errorf("an edit for a channel that cannot: %+v", f)
		}
		if f := m.details["3"]; !f.Final || f.Reason != channels.ReasonNoTarget {
			t.Errorf("an edit of nothing: %+v", f)
		}
	})
}

func TestUnknownChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, newMemory(), nil, &phone{name: "line"})
		defer b.stop()
		b.put(row("1", "pigeon", approval.KindRequest))
		synctest.Wait()
		if f := b.details["1"]; !f.Final || f.Reason != channels.ReasonNoChannel {
			t.Errorf("failure %+v", f)
		}
	})
}

func TestPanickingChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &phone{name: "line", answer: func(channels.Message) (channels.Receipt, error) { panic("boom") }}
		b := run(t, newMemory(), nil, p)
		defer b.stop()
		b.put(row("1", "line", approval.KindRequest))
		after(time.Hour)
		if n := b.get("1"); n.Status != approval.Failed || n.Attempt != 4 {
			t.Errorf("row %+v", n)
		}
	})
}

// Replies overtake cards: somebody is looking at the screen, and the reply token dies soon.
func TestRepliesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &phone{name: "line", answer: func(channels.Message) (channels.Receipt, error) {
			time.Sleep(time.Second)
			return channels.Receipt{}, nil
		}}
		b := run(t, newMemory(), func(o *SenderOptions) { o.Parallel = 1 }, p)
		defer b.stop()
		for i := range 5 {
			b.put(row(fmt.Sprint(i), "line", approval.KindRequest))
			synctest.Wait()
		}
		b.put(row("r", "line", approval.KindReply))
		after(10 * time.Second)
		if got := p.sent(); len(got) != 6 || got[1].To != "to-r" {
			t.Errorf("sent %v, want the reply second", got)
		}
	})
}

func TestFailpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var points []string
		m := newMemory()
		p := &phone{name: "line"}
		b := run(t, m, func(o *SenderOptions) {
			o.Failpoint = func(name string) {
				mu.Lock()
				defer mu.Unlock()
				points = append(points, fmt.Sprint(name, " sends ", len(p.sent()), " ", m.get("1").Status))
			}
		}, p)
		defer b.stop()
		m.put(row("1", "line", approval.KindRequest))
		synctest.Wait()
		if want := []string{"begun sends 0 queued", "sent-not-recorded sends 1 queued"}; !slices.Equal(points, want) {
			t.Errorf("points %q, want %q", points, want)
		}
	})
}

// Neither bodies nor what answers in our name is ever logged.
func TestLogsTellNoSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []func(channels.Message) (channels.Receipt, error){nil,
			fail(channels.PushError{Reason: channels.ReasonUnavailable}),
			fail(channels.PushError{Reason: channels.ReasonBadRequest, Final: true}),
			fail(channels.PushError{Reason: channels.ReasonBadToken, ChannelDown: true})}
		var b *bench
		for _, answer := range answers {
			p := &phone{name: "line", answer: answer, probe: errors.New("bad")}
			b = run(t, newMemory(), nil, probed{p})
			n := row("1", "line", approval.KindReply)
			n.ReplyTo, n.Text = "https://hooks.slack.com/actions/hidden-address", "hidden-words"
			b.put(n)
			after(time.Minute)
			b.stop()
			for _, secret := range []string{"hidden-address", "hidden-words", "body:"} {
				if strings.Contains(b.log.String(), secret) {
					t.Errorf("the log tells %q:\n%s", secret, b.log)
				}
			}
			if got := p.sent(); len(got) == 0 || got[0].ReplyTo.Reveal() != n.ReplyTo {
				t.Error("the reply address did not reach the channel")
			}
			if strings.Contains(fmt.Sprintf("%+v %#v", p.sent(), p.sent()), "hidden-address") {
				t.Error("a message prints its reply address")
			}
		}
	})
}

// A race of many commits, failures and a reload loses nothing and sends nothing twice at once.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		inFlight := map[string]bool{}
		tries := map[string]int{}
		answer := func(m channels.Message) (channels.Receipt, error) {
			mu.Lock()
			if inFlight[m.To] {
				t.Errorf("%s is sent twice at once", m.To)
			}
			inFlight[m.To] = true
			tries[m.To]++
			n := tries[m.To]
			mu.Unlock()
			time.Sleep(time.Duration(len(m.To)*7%50) * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			inFlight[m.To] = false
			if n == 1 && strings.HasSuffix(m.To, "3") {
				return channels.Receipt{}, &channels.PushError{Reason: channels.ReasonUnavailable}
			}
			return channels.Receipt{HTTPStatus: 200}, nil
		}
		m := newMemory()
		b := run(t, m, nil, probed{&phone{name: "line", answer: answer}}, probed{&phone{name: "slack", answer: answer}})
		defer b.stop()
		var wg sync.WaitGroup
		for w := range 20 {
			wg.Go(func() {
				for i := range 25 {
					m.put(row(fmt.Sprintf("%d-%d", w, i), []string{"line", "slack"}[i%2],
						[]approval.NotificationKind{approval.KindRequest, approval.KindReply}[i%3%2]))
					time.Sleep(time.Millisecond)
					if w == 0 && i == 10 {
						b.s.Reload(channels.Maker{}, probed{&phone{name: "line", answer: answer}},
							probed{&phone{name: "slack", answer: answer}})
					}
				}
			})
		}
		wg.Wait()
		after(time.Minute)
		var left []string
		for _, n := range m.rows {
			if n.Status != approval.Sent {
				left = append(left, fmt.Sprintf("%s %s %d", n.ID, n.Status, n.Attempt))
			}
		}
		slices.SortFunc(left, cmp.Compare[string])
		if len(left) > 0 {
			t.Errorf("not sent: %v", left)
		}
	})
}
