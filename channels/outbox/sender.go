package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/channels"
	"countersign/internal/secret"
)

// Deliveries are what a [Sender] works off: an [Outbox].
type Deliveries interface {
	// Ready returns what can be sent now, of ids or with nil ids of all, and when more will be due: of each what it is,
	// not what it says. Load brings one whole.
	Ready(ctx context.Context, ids []string, limit int) (ready []approval.Notification, next time.Time, err error)
	Load(ctx context.Context, id string) (channels.Delivery, error)
	// LoadReady is Ready of one, and Load of it in the same look where that is quick; else whole is nil.
	LoadReady(ctx context.Context, id string) (
		ready []approval.Notification, whole *channels.Delivery, next time.Time, err error)
	// Begin takes a notification for a while and counts the attempt; it reports false where it did not get it.
	Begin(ctx context.Context, t Attempt) (approval.Notification, bool, error)
	Sent(ctx context.Context, n approval.Notification, r channels.Receipt) error
	NotSent(ctx context.Context, n approval.Notification, f Failure) error
	// SendOn has cards go to other approvers, in time, that wait for a channel which sends nothing now. It returns those
	// with which it is done.
	SendOn(ctx context.Context, ids []string) (done []string, err error)
}

// Queue wakes when notifications were committed: approval.Broker.
type Queue interface {
	// Queue: take returns the ids since the last take; nil after a wake means too many to name.
	Queue() (wake <-chan struct{}, take func() []string, cancel func())
}

var (
	_ Deliveries = (*Outbox)(nil)
	_ Queue      = (*approval.Broker)(nil)
)

// Result is what one try came to.
type Result string

const (
	ResultSent    Result = "sent"
	ResultRetried Result = "retried" // to be tried again
	ResultFailed  Result = "failed"  // final
	ResultPaused  Result = "paused"  // the channel is down; the try does not count
)

// Metrics is told what a [Sender] does. Its methods must not block.
type Metrics interface {
	// CountTry reports one try; reason is "" for ResultSent, and took is 0 where nothing was sent.
	CountTry(channel string, kind approval.NotificationKind, result Result, reason string, took time.Duration)
	// SetPaused reports that a channel was paused, or is no longer.
	SetPaused(channel string, paused bool)
}

// Points at which a [Sender] calls its Failpoint, for tests that kill it there.
const (
	FailBegun           = "begun"             // taken from the queue, nothing sent
	FailSentNotRecorded = "sent-not-recorded" // the platform has answered, the row does not say so
)

// SenderOptions are what a [Sender] works with. Outbox and Queue must be set.
type SenderOptions struct {
	Outbox   Deliveries
	Queue    Queue
	Maker    channels.Maker
	Channels []channels.Channel
	Retries  Retries // the zero value: DefaultRetries
	Parallel int     // sends at once per channel; 0: 16
	Metrics  Metrics
	Log      *slog.Logger
	// Now is the clock of the outbox, with whose times the sender's are compared; default time.Now.
	Now       func() time.Time
	Failpoint func(name string)
	// Others is for how long what is due is left to other senders of the same queue, each of which is woken for what its
	// own program has queued; and how often it is looked for what they have left. 0: there are none.
	Others time.Duration
	Holds  Holds // what platforms have asked of these others; nil: nothing
}

// Holds are until when platforms wish to be left alone by all senders of one queue. A pause of a channel is
// not among them: it is of one sender, whose credentials may be other ones.
type Holds interface {
	PutHold(ctx context.Context, h Hold) error
	ReadHolds(ctx context.Context) ([]Hold, error)
}

// Hold is until when nothing of a kind is sent to a channel.
type Hold struct {
	Channel, Kind string // Kind: "card", "edit" or "reply"
	Until         time.Time
}

// A send must be over, and recorded, before another sender may take the row for abandoned; and what was
// in flight at a crash is tried again within 20 s.
const (
	sendTimeout = channels.HTTPTimeout + time.Second
	lease       = sendTimeout + 3*time.Second
)

const (
	scanLimit    = 256
	scanMost     = 16 << 10
	backlogMost  = 128
	scanAgain    = 5 * time.Second // when rows are due that cannot be taken now
	lookAgain    = 100 * time.Millisecond
	storeRetry   = time.Second
	drawAgain    = 100 * time.Millisecond
	firstProbe   = 30 * time.Second
	slowestProbe = 5 * time.Minute
)

// Sender takes notifications to their channels. It is woken by commits and by the time at which a row
// is due again, and polls nothing. Each channel has its own bound on sends at once, so that one that
// hangs does not hold up another.
//
// A channel whose token is refused is paused: its rows keep their attempts until a probe succeeds or
// the channel is replaced by [Sender.Reload].
type Sender struct {
	outbox    Deliveries
	queue     Queue
	retries   Retries
	others    time.Duration
	holds     Holds
	parallel  int
	metrics   Metrics
	log       *slog.Logger
	now       func() time.Time
	failpoint func(string)

	poke    chan struct{} // something changed that Run must know of
	workers sync.WaitGroup

	mu      sync.Mutex
	maker   channels.Maker
	lanes   map[string]*lane
	busy    map[string]bool // notifications in a backlog or being sent
	sentOn  map[string]bool // those that wait for a channel, and went to other approvers meanwhile
	looking bool            // at what waits for a channel
	behind  bool            // the queue has more than was taken
	wanted  bool            // Run is to look at the whole queue
	next    time.Time       // when to look again; zero: not before a wake
	running context.Context // of Run; nil while it does not run
}

// lane is one channel's part of the sender. Sender.mu guards it.
type lane struct {
	name    string
	channel channels.Channel // nil: rows of a channel that is not configured
	sending int
	backlog []approval.Notification
	held    map[class]time.Time // the platform wished to be left alone until then
	paused  string              // why; "" for not
	why     string              // the same for people, with what to do
	trips   int                 // how often it was paused since its last success
	stop    context.CancelFunc  // of its probes
}

// class is what a platform limits together: new messages, edits, replies.
type class string

const (
	cards   class = "card"
	edits   class = "edit"
	replies class = "reply"
)

func classOf(k approval.NotificationKind) class {
	switch k {
	case approval.KindEdit:
		return edits
	case approval.KindReply:
		return replies
	}
	return cards
}

// NewSender returns a sender that does nothing until [Sender.Run].
func NewSender(o SenderOptions) *Sender {
	s := &Sender{
		outbox: o.Outbox, queue: o.Queue, retries: o.Retries, others: o.Others, holds: o.Holds, parallel: o.Parallel,
		metrics: o.Metrics, log: o.Log, now: o.Now, failpoint: o.Failpoint,
		poke: make(chan struct{}, 1), busy: map[string]bool{}, sentOn: map[string]bool{},
	}
	if s.retries == (Retries{}) {
		s.retries = DefaultRetries()
	}
	if s.parallel <= 0 {
		s.parallel = 16
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.Reload(o.Maker, o.Channels...)
	return s
}

// Reload replaces how cards are made and all channels, and ends every pause. What is being sent goes on
// with the channels of before, which may be closed once it is over.
func (s *Sender) Reload(m channels.Maker, chs ...channels.Channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		for _, n := range l.backlog {
			delete(s.busy, n.ID)
		}
		l.backlog = nil
		s.resume(l)
	}
	s.maker, s.lanes = m, map[string]*lane{}
	for _, ch := range chs {
		s.lanes[ch.Name()] = &lane{name: ch.Name(), channel: ch, held: map[class]time.Time{}}
	}
	s.look()
}

// Paused returns the channels that are paused, each with the reason.
func (s *Sender) Paused() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	paused := map[string]string{}
	for _, l := range s.lanes {
		if l.paused != "" {
			paused[l.name] = l.paused
		}
	}
	return paused
}

// Problems says of each paused channel why it is, and what to do.
func (s *Sender) Problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ps []string
	for _, name := range slices.Sorted(maps.Keys(s.lanes)) {
		if l := s.lanes[name]; l.paused != "" {
			ps = append(ps, "the channel "+name+" is paused ("+l.why)
		}
	}
	return ps
}

// look makes Run look at the whole queue.
func (s *Sender) look() {
	s.wanted = true
	s.wakeRun()
}

// wakeRun makes Run take note of a new s.next.
func (s *Sender) wakeRun() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// takeWanted takes back what look asked for.
func (s *Sender) takeWanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := s.wanted
	s.wanted = false
	return wanted
}

// Run sends until ctx is done. Then it begins nothing more, waits for what is in flight, at most until
// the leases end, and records it. It may be run once.
func (s *Sender) Run(ctx context.Context) error {
	wake, take, cancel := s.queue.Queue()
	defer cancel()
	s.mu.Lock()
	s.running = ctx
	s.mu.Unlock()
	defer s.workers.Wait()
	s.scan(ctx)
	for {
		due, stop := s.setAlarm()
		select {
		case <-ctx.Done():
			stop()
			return nil
		case <-wake:
			if ids := take(); len(ids) > 0 {
				s.takeNamed(ctx, ids)
			} else {
				s.scan(ctx)
			}
		case <-due:
			s.scan(ctx)
		case <-s.poke:
			if s.takeWanted() {
				s.scan(ctx)
			}
		}
		stop()
	}
}

// setAlarm returns a channel that delivers when it is time to look again; nil where nothing is due.
func (s *Sender) setAlarm() (due <-chan time.Time, stop func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next.IsZero() {
		return nil, func() bool { return false }
	}
	t := time.NewTimer(s.next.Sub(s.now()))
	return t.C, t.Stop
}

// lookAt makes Run look again at t, or before.
func (s *Sender) lookAt(t time.Time) {
	if s.next.IsZero() || t.Before(s.next) {
		s.next = t
	}
}

// takeNamed takes up notifications by id, right after their commit.
func (s *Sender) takeNamed(ctx context.Context, ids []string) {
	if len(ids) == 1 {
		asked := s.now()
		ready, whole, next, err := s.outbox.LoadReady(ctx, ids[0])
		s.mu.Lock()
		defer s.mu.Unlock()
		s.takeFound(ready, whole, next, asked, err)
		return
	}
	for len(ids) > 0 {
		n := min(len(ids), scanLimit)
		asked := s.now()
		ready, next, err := s.outbox.Ready(ctx, ids[:n], n)
		ids = ids[n:]
		s.mu.Lock()
		s.takeFound(ready, nil, next, asked, err)
		s.mu.Unlock()
	}
}

// scan takes up whatever is due.
func (s *Sender) scan(ctx context.Context) {
	s.mu.Lock()
	s.next, s.behind = time.Time{}, false
	s.mu.Unlock()
	s.readHolds(ctx)
	// Rows that cannot be taken now, as those of a paused channel, must not hide the others: where all
	// that was read is such, more is read.
	for limit := scanLimit; limit <= scanMost; limit *= 4 {
		asked := s.now()
		ready, next, err := s.outbox.Ready(ctx, nil, limit)
		s.mu.Lock()
		more := len(ready) == limit && !s.isOthers(ready[limit-1]) // what comes after is newer still
		took := s.takeFound(s.leaveToOthers(ready), nil, next, asked, err)
		s.behind = s.behind || more
		s.mu.Unlock()
		if took || !more {
			return
		}
	}
}

// leaveToOthers leaves out what other senders may be about to begin, and has it looked at again.
func (s *Sender) leaveToOthers(ready []approval.Notification) []approval.Notification {
	if s.others == 0 {
		return ready
	}
	s.lookAt(s.now().Add(s.others))
	return slices.DeleteFunc(ready, s.isOthers)
}

// isOthers reports whether another sender may be about to begin what is due.
func (s *Sender) isOthers(n approval.Notification) bool {
	return s.others > 0 && !s.busy[n.ID] && n.NextAttemptAt.After(s.now().Add(-s.others))
}

// takeFound takes up what a look at the queue found, which began when it was asked, and reports whether there was
// anything to take. whole is the one that was found, where it was read whole. What became due during the look is looked
// at again at once.
func (s *Sender) takeFound(ready []approval.Notification, whole *channels.Delivery, next, asked time.Time,
	err error) bool {
	now := s.now()
	if err != nil {
		if s.running.Err() == nil {
			s.log.Warn("the queue of notifications cannot be read; trying again", "error", err)
		}
		s.lookAt(now.Add(storeRetry))
		return false
	}
	took := false
	var stuck []string
	for _, n := range ready {
		took = s.accept(n, whole, now) || took
		if l := s.lanes[n.Channel]; l != nil && (l.paused != "" || now.Before(l.held[classOf(n.Kind)])) {
			stuck = append(stuck, n.ID)
		}
	}
	s.sendOn(stuck)
	switch {
	case next.IsZero():
	case next.After(asked):
		s.lookAt(next)
	case len(ready) < scanLimit && slices.ContainsFunc(ready, func(n approval.Notification) bool { return s.busy[n.ID] }):
		s.lookAt(now.Add(lookAgain)) // until its sending has begun, next hides what is due after it
	default:
		s.lookAt(now.Add(scanAgain))
	}
	return took
}

// sendOn has go to other approvers, in time, what waits for a channel that is paused or wishes to be left alone.
func (s *Sender) sendOn(stuck []string) {
	stuck = slices.DeleteFunc(stuck, func(id string) bool { return s.sentOn[id] })
	if s.looking || len(stuck) == 0 || s.running.Err() != nil {
		return
	}
	s.looking = true
	ctx := s.running
	s.workers.Go(func() {
		for ids := range slices.Chunk(stuck, scanLimit) {
			done, err := s.outbox.SendOn(ctx, ids)
			if err != nil {
				break // it is looked at again
			}
			s.mu.Lock()
			if len(s.sentOn) > scanMost {
				clear(s.sentOn)
			}
			for _, id := range done {
				s.sentOn[id] = true
			}
			s.mu.Unlock()
		}
		s.mu.Lock()
		s.looking = false
		s.mu.Unlock()
	})
}

// accept sends n, now or when its channel has a hand free, and reports whether it did.
func (s *Sender) accept(n approval.Notification, whole *channels.Delivery, now time.Time) bool {
	if s.busy[n.ID] || s.running.Err() != nil {
		return false
	}
	l := s.lanes[n.Channel]
	if l == nil {
		l = &lane{name: n.Channel, held: map[class]time.Time{}}
		s.lanes[n.Channel] = l
	}
	if l.paused != "" {
		return false
	}
	if until := l.held[classOf(n.Kind)]; now.Before(until) {
		s.lookAt(until)
		return false
	}
	switch {
	case l.sending < s.parallel:
		s.busy[n.ID] = true
		s.start(l, n, whole)
	case len(l.backlog) >= backlogMost:
		s.behind = true
		return false
	case n.Kind == approval.KindReply:
		// A person waits for the answer, and its reply token dies soon.
		s.busy[n.ID] = true
		l.backlog = append([]approval.Notification{n}, l.backlog...)
	default:
		s.busy[n.ID] = true
		l.backlog = append(l.backlog, n)
	}
	return true
}

// start sends n, which is read whole first where it was not.
func (s *Sender) start(l *lane, n approval.Notification, whole *channels.Delivery) {
	l.sending++
	maker, ctx := s.maker, s.running
	s.workers.Go(func() {
		r := s.attempt(ctx, l.channel, maker, n, whole)
		s.mu.Lock()
		defer s.mu.Unlock()
		l.sending--
		delete(s.busy, n.ID)
		s.finish(l, n, r)
	})
}

// outcome is what a try tells the sender, beside what is recorded.
type outcome struct {
	err     *channels.PushError // nil: sent, or not taken
	sent    bool
	retryAt time.Time
}

// finish takes note of a try's outcome and starts what waits behind it.
func (s *Sender) finish(l *lane, n approval.Notification, r outcome) {
	now, current := s.now(), s.lanes[l.name] == l
	if r.sent {
		l.trips = 0
	}
	if e := r.err; e != nil && current {
		if e.ChannelDown {
			s.pause(l, e)
		}
		if e.RetryAfter > 0 && !e.Alone {
			// It goes for all of its kind: to try the others now would only cost them attempts.
			s.hold(l, classOf(n.Kind), now.Add(e.RetryAfter))
		}
	}
	if !r.retryAt.IsZero() {
		s.lookAt(r.retryAt)
		s.wakeRun()
	}
	for len(l.backlog) > 0 && l.sending < s.parallel {
		next := l.backlog[0]
		l.backlog = l.backlog[1:]
		until := l.held[classOf(next.Kind)]
		switch {
		case s.running.Err() != nil, l.paused != "":
			delete(s.busy, next.ID) // it stays in the queue
		case now.Before(until):
			delete(s.busy, next.ID)
			s.lookAt(until)
			s.wakeRun()
		default:
			s.start(l, next, nil)
		}
	}
	if s.behind && len(l.backlog) < s.parallel {
		s.look()
	}
}

// hold sends nothing of a class until then, and has the other senders send nothing.
func (s *Sender) hold(l *lane, c class, until time.Time) {
	if l.held[c].Before(until) {
		l.held[c] = until
	}
	if s.holds == nil {
		return
	}
	ctx := s.running
	s.workers.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, sendTimeout)
		defer cancel()
		if err := s.holds.PutHold(ctx, Hold{l.name, string(c), until}); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "other programs were not told that a platform wishes to be left alone; it will tell them",
				"channel", l.name, "until", until, "error", err)
		}
	})
}

// readHolds has the lanes be held for as long as platforms have asked of other senders.
func (s *Sender) readHolds(ctx context.Context) {
	if s.holds == nil {
		return
	}
	held, err := s.holds.ReadHolds(ctx)
	if err != nil {
		return // as is the queue, which says so
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range held {
		if l := s.lanes[h.Channel]; l != nil && l.held[class(h.Kind)].Before(h.Until) {
			l.held[class(h.Kind)] = h.Until
		}
	}
}

// pause stops a channel's sends until a probe succeeds.
func (s *Sender) pause(l *lane, e *channels.PushError) {
	if l.paused != "" {
		return
	}
	l.paused, l.why = e.Reason, e.Reason
	if e.Reason == channels.ReasonMissingScope {
		l.why = e.Detail() // which names the scope
	}
	l.why += "): " + advice(e.Reason)
	l.trips++
	s.log.Error("a channel is paused: the platform refuses our credentials; nothing is lost, but nobody gets cards there",
		"channel", l.name, "reason", e.Reason, "status", e.HTTPStatus, "detail", e.Detail(), "do", advice(e.Reason))
	if s.metrics != nil {
		s.metrics.SetPaused(l.name, true)
	}
	ctx, cancel := context.WithCancel(s.running)
	l.stop = cancel
	delay := min(firstProbe<<min(l.trips-1, 10), slowestProbe)
	s.workers.Go(func() { s.probe(ctx, l, delay) })
}

// resume ends a pause, if there is one.
func (s *Sender) resume(l *lane) {
	if l.paused == "" {
		return
	}
	l.paused = ""
	l.stop()
	if s.metrics != nil {
		s.metrics.SetPaused(l.name, false)
	}
}

// probe asks from time to time whether the channel's credentials are good again.
func (s *Sender) probe(ctx context.Context, l *lane, delay time.Duration) {
	for ; ; delay = min(delay*2, slowestProbe) {
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if err := s.probeOnce(ctx, l.channel); err != nil {
			s.log.WarnContext(ctx, "a paused channel is still down", "channel", l.name, "error", err)
			continue
		}
		s.mu.Lock()
		if ctx.Err() == nil { // else it was resumed meanwhile, or Run is over
			s.resume(l)
			s.look()
			s.log.InfoContext(ctx, "a paused channel is up again", "channel", l.name)
		}
		s.mu.Unlock()
		return
	}
}

func (s *Sender) probeOnce(ctx context.Context, ch channels.Channel) error {
	p, ok := ch.(channels.Prober)
	if !ok {
		return nil // the next send will tell
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return p.Probe(ctx)
}

// attempt takes one notification through one attempt. ctx is Run's: once it is done nothing is begun, but what
// was begun is finished and recorded.
func (s *Sender) attempt(ctx context.Context, ch channels.Channel, maker channels.Maker,
	n approval.Notification, whole *channels.Delivery) outcome {
	if ctx.Err() != nil {
		return outcome{}
	}
	if whole == nil {
		d, err := s.outbox.Load(ctx, n.ID)
		if err != nil {
			if ctx.Err() == nil {
				s.log.WarnContext(ctx, "a notification could not be read; trying again", "notification_id", n.ID, "error", err)
			}
			return outcome{retryAt: s.now().Add(storeRetry)}
		}
		whole = &d
	}
	d := *whole
	n = d.Notification
	body, more, rendered := channels.Body(n.Body), n.More, error(nil)
	if len(body) == 0 && ch != nil {
		body, more, rendered = s.render(ch, maker, d)
	}
	leased, end := context.WithTimeout(context.WithoutCancel(ctx), lease) // in it the attempt is recorded, or not at all
	defer end()
	taken, begun, err := s.outbox.Begin(ctx,
		Attempt{Notification: n, Body: body, More: more, Seen: d.Seen(), Lease: lease})
	if err != nil {
		if ctx.Err() == nil {
			s.log.WarnContext(ctx, "a notification could not be taken from the queue; trying again", "notification_id", n.ID,
				"error", err)
		}
		return outcome{retryAt: s.now().Add(storeRetry)}
	}
	if !begun {
		if n.Kind == approval.KindEdit || n.ShowsCard() { // it may have changed again since it was drawn
			return outcome{retryAt: s.now().Add(drawAgain)}
		}
		return outcome{} // another sender has it
	}
	n = taken
	s.point(FailBegun)

	ctx = context.WithoutCancel(ctx)
	if e := s.explainUnsendable(ch, maker, n, rendered); e != nil {
		return s.recordFailure(leased, n, e, 0)
	}
	start := time.Now()
	if until, _ := leased.Deadline(); until.Sub(start) < sendTimeout { // another may have it before this one is through
		s.log.WarnContext(ctx, "a notification is not sent, because too much time has passed since it was taken from the "+
			"queue; it is tried again", attrs(n)...)
		return outcome{retryAt: n.LeaseUntil}
	}
	receipt, e := s.send(leased, ch, d, n)
	took := time.Since(start)
	s.point(FailSentNotRecorded)
	if e != nil {
		return s.recordFailure(leased, n, e, took)
	}
	s.record(leased, n, func(ctx context.Context) error { return s.outbox.Sent(ctx, n, receipt) })
	s.log.DebugContext(ctx, "notification sent", attrs(n, "status", receipt.HTTPStatus, "took", took)...)
	s.countTry(n, ResultSent, "", took)
	return outcome{sent: true}
}

// explainUnsendable says why n is not even given to its channel; nil where it can be. rendered is what went wrong with
// drawing it.
func (s *Sender) explainUnsendable(
	ch channels.Channel, maker channels.Maker, n approval.Notification, rendered error,
) *channels.PushError {
	card := n.Kind == approval.KindRequest || n.Kind == approval.KindReminder
	switch {
	case ch == nil:
		return &channels.PushError{
			Final: true, Reason: channels.ReasonNoChannel, Err: errors.New("this channel is not configured"),
		}
	case maker.Known != nil && card && !maker.Known(n.Channel, n.Recipient):
		return &channels.PushError{
			Final: true, Reason: channels.ReasonBadRecipient,
			Err: errors.New("nobody in the configuration has this address any more"),
		}
	case rendered != nil:
		return &channels.PushError{Final: true, Reason: channels.ReasonRenderFailed, Err: rendered}
	case !n.FirstTryAt.IsZero() && s.now().Sub(n.FirstTryAt) >= keyLife:
		return &channels.PushError{
			Final: true, Reason: channels.ReasonRetryKeyExpired,
			Err: errors.New("first tried 23 hours ago or longer: the platform may have forgotten it and show it twice"),
		}
	}
	return nil
}

// recordFailure records that n did not go out. took is 0 where nothing was sent.
func (s *Sender) recordFailure(ctx context.Context, n approval.Notification, e *channels.PushError,
	took time.Duration) outcome {
	f, result := s.judge(n, e)
	o := outcome{err: e}
	if !f.Final && !f.Unbegun { // of what is not begun the end of the pause says when
		o.retryAt = f.RetryAt
	}
	s.record(ctx, n, func(ctx context.Context) error { return s.outbox.NotSent(ctx, n, f) })
	said := []any{"reason", f.Reason, "status", f.HTTPStatus, "detail", f.Detail}
	switch result {
	case ResultFailed:
		s.log.ErrorContext(ctx, "a notification failed for good", attrs(n, append(said, "do", advice(f.Reason))...)...)
	case ResultRetried:
		s.log.WarnContext(ctx, "a notification will be tried again",
			attrs(n, append(said, "unknown", e.Unknown, "at", f.RetryAt)...)...)
	}
	s.countTry(n, result, f.Reason, took)
	return o
}

// render draws the card, or where that fails a few plain words in its place. more says that another part
// follows.
func (s *Sender) render(ch channels.Channel, maker channels.Maker,
	d channels.Delivery) (body channels.Body, more bool, err error) {
	draw := func(card func(channels.Delivery) channels.Card) (body channels.Body, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		return ch.Render(card(d))
	}
	card := maker.Card
	if d.Notification.Part > 0 {
		limit, unit := plainPage, legible.UTF16Len
		if p, ok := ch.(channels.Paged); ok {
			limit, unit = p.Page()
		}
		card = func(d channels.Delivery) (c channels.Card) {
			c, more = maker.Part(d, limit, unit)
			return c
		}
	}
	if body, err = draw(card); err == nil {
		return body, more, nil
	}
	n := d.Notification
	if _, edits := ch.(channels.Editor); n.Kind == approval.KindEdit && !edits {
		return nil, false, err
	}
	s.log.Error("a card could not be drawn; plain text is sent instead", attrs(n, "error", err)...)
	body, second := draw(maker.Fallback)
	if second != nil {
		return nil, false, errors.Join(err, second)
	}
	return body, false, nil
}

// plainPage is how much of a request that is shown whole one message of a channel without limits holds.
const plainPage = 3000

func (s *Sender) send(ctx context.Context, ch channels.Channel, d channels.Delivery,
	n approval.Notification) (r channels.Receipt, e *channels.PushError) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			s.log.ErrorContext(ctx, "a channel panicked", attrs(n, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))...)
			e = &channels.PushError{Reason: channels.ReasonUnavailable, Unknown: true, Err: errors.New("the channel panicked")}
		}
	}()
	m := channels.Message{Kind: n.Kind, To: n.Recipient, Body: n.Body, RetryKey: n.RetryKey,
		ReplyTo: secret.Value(n.ReplyTo), Attempt: n.Attempt, ReplyOnly: n.Note == approval.NoteStranger,
		Silent: n.Silent}
	send := ch.Send
	if n.Kind == approval.KindEdit {
		editor, ok := ch.(channels.Editor)
		switch {
		case !ok:
			return r, &channels.PushError{Final: true, Reason: channels.ReasonCannotEdit,
				Err: errors.New("this channel cannot change what it sent")}
		case d.Target == nil || len(d.Target.Receipt) == 0:
			return r, &channels.PushError{Final: true, Reason: channels.ReasonNoTarget,
				Err: errors.New("there is no message to change")}
		}
		m.Target, send = d.Target.Receipt, editor.Edit
	}
	r, err := send(ctx, m)
	if err != nil {
		return r, channels.AsPushError(err)
	}
	return r, nil
}

// judge decides what becomes of a notification that did not go out.
func (s *Sender) judge(n approval.Notification, e *channels.PushError) (Failure, Result) {
	now := s.now()
	f := Failure{Reason: e.Reason, Detail: e.Detail(), HTTPStatus: e.HTTPStatus, ReplySpent: e.ReplySpent}
	switch {
	case e.ChannelDown:
		f.Unbegun, f.RetryAt = true, now
		return f, ResultPaused
	case e.Final:
		f.Final = true
		return f, ResultFailed
	case n.Attempt > s.retries.Max:
		f.Final = true
		f.Detail = strings.TrimSuffix(fmt.Sprintf("given up after %d tries: %s", n.Attempt, f.Detail), ": ")
		return f, ResultFailed
	}
	f.RetryAt = now.Add(max(s.retries.Delay(n.Attempt, rand.Float64()), e.RetryAfter))
	return f, ResultRetried
}

// record writes down what a try came to. If the store cannot commit it is tried for as long as the
// lease lives, which ctx ends with: after that another sender may take the row.
func (s *Sender) record(ctx context.Context, n approval.Notification, write func(ctx context.Context) error) {
	end, _ := ctx.Deadline()
	for delay := 50 * time.Millisecond; ; delay = min(delay*2, storeRetry) {
		err := write(ctx)
		switch {
		case err == nil:
			return
		case approval.CodeOf(err) != approval.CodeStoreUnavailable && !errors.Is(err, context.DeadlineExceeded),
			time.Until(end) < delay:
			s.log.ErrorContext(ctx,
				"the outcome of a notification could not be recorded; it is tried again, with the same key",
				attrs(n, "error", err)...)
			return
		}
		time.Sleep(delay)
	}
}

func (s *Sender) countTry(n approval.Notification, r Result, reason string, took time.Duration) {
	if s.metrics != nil {
		s.metrics.CountTry(n.Channel, n.Kind, r, reason, took)
	}
}

func (s *Sender) point(name string) {
	if s.failpoint != nil {
		s.failpoint(name)
	}
}

// attrs are what a log line says of a notification: nothing by which anybody could answer in our name.
func attrs(n approval.Notification, more ...any) []any {
	return append([]any{"notification_id", n.ID, "approval_id", n.ApprovalID, "channel", n.Channel, "kind", string(n.Kind),
		"recipient", n.Recipient, "attempt", n.Attempt}, more...)
}

// advice says what an operator can do about a reason.
func advice(reason string) string {
	switch reason {
	case channels.ReasonBadToken:
		return "put a valid token into the configuration and reload it"
	case channels.ReasonMissingScope:
		return "give the app the scope that is named as needed, under OAuth & Permissions, Bot Token Scopes, install it " +
			"anew and reload the configuration"
	case channels.ReasonMonthlyLimit:
		return "the account's messages of this month are used up: take a larger plan, or use another channel"
	case channels.ReasonForbidden:
		return "look at the account's plan and status in the platform's console"
	case channels.ReasonBadRecipient:
		return "check the recipient's id; on Slack invite the bot to the channel, " +
			"on LINE have the person add the bot as a friend"
	case channels.ReasonChannelShared:
		return "use a channel that only your organisation sees, or set allow_shared: true"
	case channels.ReasonNoChannel:
		return "configure the channel, or cancel the requests that wait for it"
	case channels.ReasonBadRequest, channels.ReasonRenderFailed:
		return "this is a bug of ours: decide the request with `countersign approve` or `deny`, and report the detail"
	case channels.ReasonMessageGone, channels.ReasonNoTarget, channels.ReasonCannotEdit:
		return "nothing: the card is no longer there to be changed"
	case channels.ReasonRetryKeyExpired:
		return "`countersign retry` sends it anew"
	}
	return "look at the platform's status and at our way to it; `countersign retry` sends it anew"
}
