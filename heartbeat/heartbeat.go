// Package heartbeat runs the gate's regular work on a cron table: it ends what is overdue, says of
// calls that nobody reported back on that their outcome is unknown, reminds people of what they have not
// answered, and gives failed notifications another try. And it removes what has been kept long enough.
//
// It is a net, not the engine: deadlines are kept to the moment by the gate itself and cards leave
// right after the commit that made them. What slipped through a crash, a sleeping machine or a platform's bad
// hour is found here. An entry is skipped while its last run is still going, a panic in one is logged
// and costs that run only, and Stop waits for the run in progress.
package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
)

// The tasks by name.
const (
	CheckPendingApprovals = "check_pending_approvals" // expire, give outcomes up, remind, retry, prune
	Prune                 = "prune"                   // remove what has been kept long enough
	Backup                = "backup"                  // copy the store, where that is due
)

// Tasks are the names of all.
func Tasks() []string { return []string{CheckPendingApprovals, Prune, Backup} }

// Entry is one line of the cron table.
type Entry struct {
	Name     string
	Schedule string // five fields, or a descriptor such as @every 5m
	Enabled  bool
	Params   Params
}

// Params are the settings of [CheckPendingApprovals].
type Params struct {
	RemindAfter  time.Duration // how long a request waits unanswered before people are reminded; 0: never
	MaxReminders int           // rounds of reminders for one request; 0: none
}

// DefaultEntries is the table in force when the configuration has none.
func DefaultEntries() []Entry {
	return []Entry{{
		Name: CheckPendingApprovals, Schedule: "*/5 * * * *", Enabled: true,
		Params: Params{RemindAfter: 15 * time.Minute, MaxReminders: 3},
	}}
}

// DefaultPrune is the entry for [Prune] of a table that has none, where the configuration says for how long
// things are kept.
func DefaultPrune() Entry { return Entry{Name: Prune, Schedule: "17 * * * *", Enabled: true} }

// DefaultBackup is the entry for [Backup] of a table that has none, where the configuration says where copies are kept.
// It looks often whether one is due: one that failed, or was due while nothing ran, is made up for.
func DefaultBackup() Entry { return Entry{Name: Backup, Schedule: "*/5 * * * *", Enabled: true} }

// Validate says what is wrong with the entry, nil if nothing is.
func (e Entry) Validate() error {
	if !slices.Contains(Tasks(), e.Name) {
		return fmt.Errorf("there is no task %q; there are %s", e.Name, strings.Join(Tasks(), ", "))
	}
	if _, err := cron.ParseStandard(e.Schedule); err != nil {
		return fmt.Errorf("schedule %q: %s", e.Schedule, strings.TrimPrefix(err.Error(), "failed to parse "))
	}
	if e.Params.RemindAfter < 0 || e.Params.MaxReminders < 0 {
		return fmt.Errorf("remind_after and max_reminders cannot be negative")
	}
	return nil
}

// Gate is the work that the heartbeat starts.
type Gate interface {
	Expire(ctx context.Context) (int, error)
	Overdue(ctx context.Context) (int, error)
	Remind(ctx context.Context, after time.Duration, limit int) (int, error)
	RetryFailed(ctx context.Context) (int, error)
	Forget(ctx context.Context) (int, error)
	PendingCount(ctx context.Context) (int, error)
	Prune(ctx context.Context) (int, error)
	Backup(ctx context.Context) error
}

// Counts says what one run moved.
type Counts struct {
	Pending, Expired, Unknown, Reminded, Retried, Pruned int // Unknown: calls of which nobody said what came of them

	Removed int // rows that are gone, or have lost what they said
}

// LogValue gives the counts as one group.
func (c Counts) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("pending", c.Pending), slog.Int("expired", c.Expired), slog.Int("unknown", c.Unknown),
		slog.Int("reminded", c.Reminded),
		slog.Int("retried", c.Retried), slog.Int("pruned", c.Pruned), slog.Int("removed", c.Removed))
}

// String is the line that the log and the admins get.
func (c Counts) String() string {
	return fmt.Sprintf("Approvals: %d pending, %d expired, %d re-notified", c.Pending, c.Expired, c.Reminded)
}

// summarize is the line that the log gets.
func (e Entry) summarize(c Counts) string {
	switch e.Name {
	case Prune:
		return fmt.Sprintf("Retention: %d rows removed or emptied", c.Removed)
	case Backup:
		return "Backup: one is there"
	}
	return c.String()
}

// hasMoved reports whether the run changed anything worth a line in the log.
func (c Counts) hasMoved() bool {
	return c.Expired+c.Unknown+c.Reminded+c.Retried+c.Removed > 0
}

// Options are what a [Heartbeat] is made of.
type Options struct {
	Gate    Gate
	Entries []Entry
	Logger  *slog.Logger
	Now     func() time.Time // nil: time.Now
	// Observe is told of each run of this program. nil: nobody is.
	Observe func(Run)
	Record  Record // default: in memory, of this program alone
}

// Record is where it is kept which runs there were, of all programs that share a store.
type Record interface {
	// Claim reports whether the caller is to run an entry that is due at slot: true for one caller, and for none once a
	// later slot was claimed.
	Claim(ctx context.Context, entry string, slot time.Time) (bool, error)
	// Put keeps what came of a run that was claimed.
	Put(ctx context.Context, r Run) error
	// Last returns the last run of an entry that is known to have been kept, without waiting; false: none is.
	Last(entry string) (Run, bool)
}

// Run is one run of an entry.
type Run struct {
	Entry  string
	At     time.Time // when it began
	Took   time.Duration
	Counts Counts
	Err    error
}

// Heartbeat is a running cron table.
type Heartbeat struct {
	o      Options
	cron   *cron.Cron
	ctx    context.Context
	cancel context.CancelFunc
	stop   sync.Once
	// deferring ends as Stop begins: what is removed or copied can wait for the next start.
	deferring    context.Context
	endDeferring context.CancelFunc
}

// New returns a heartbeat over the enabled entries. It does nothing before Start.
func New(o Options) (*Heartbeat, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Record == nil {
		o.Record = &memory{last: map[string]Run{}}
	}
	o.Entries = slices.Clone(o.Entries)
	h := &Heartbeat{o: o}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.deferring, h.endDeferring = context.WithCancel(h.ctx)
	logger := cronLogger{o.Logger}
	h.cron = cron.New(cron.WithLocation(time.UTC), cron.WithLogger(logger),
		cron.WithChain(cron.SkipIfStillRunning(logger)))
	for _, e := range o.Entries {
		if err := e.Validate(); err != nil {
			h.cancel()
			return nil, fmt.Errorf("heartbeat entry %s: %w", e.Name, err)
		}
		if !e.Enabled {
			continue
		}
		if _, err := h.cron.AddFunc(e.Schedule, func() { h.tick(e) }); err != nil {
			h.cancel()
			return nil, fmt.Errorf("heartbeat entry %s: %w", e.Name, err)
		}
	}
	return h, nil
}

// Start starts the table.
func (h *Heartbeat) Start() { h.cron.Start() }

// Stop starts no further run, cancels the one in progress when ctx ends, or at once if it removes what is old or copies
// the store, and waits for it.
func (h *Heartbeat) Stop(ctx context.Context) error {
	var err error
	h.stop.Do(func() {
		h.endDeferring()
		done := h.cron.Stop().Done()
		select {
		case <-done:
		case <-ctx.Done():
			err = ctx.Err()
			h.cancel()
			<-done
		}
		h.cancel()
	})
	return err
}

// Enabled are the names of the entries that run, in the order of the table.
func (h *Heartbeat) Enabled() []string {
	var names []string
	for _, e := range h.o.Entries {
		if e.Enabled {
			names = append(names, e.Name)
		}
	}
	return names
}

// Last returns the last run of the entry: by whichever program on the store, or since the start of one that has it for
// itself.
func (h *Heartbeat) Last(entry string) (Run, bool) { return h.o.Record.Last(entry) }

// slot is when an entry is due that begins now: the same for all programs, whose clocks are not quite the same.
func (e Entry) slot(now time.Time) time.Time {
	schedule, err := cron.ParseStandard(e.Schedule)
	if every, ok := schedule.(cron.ConstantDelaySchedule); ok && err == nil { // each program counts from its own start
		return now.Truncate(time.Second).Truncate(every.Delay)
	}
	return now.Round(time.Minute)
}

func (h *Heartbeat) tick(e Entry) {
	r := Run{Entry: e.Name, At: h.o.Now()}
	switch mine, err := h.o.Record.Claim(h.ctx, e.Name, e.slot(r.At)); {
	case err != nil:
		h.o.Logger.Error("a heartbeat entry could not begin; its next run tries again", "entry", e.Name, "error", err)
		return
	case !mine:
		h.o.Logger.Debug("a heartbeat entry was run by another program", "entry", e.Name)
		return
	}
	start := time.Now() // the difference is the monotonic clock's
	r.Counts, r.Err = h.runRecovered(e)
	r.Took = time.Since(start)
	if err := h.o.Record.Put(context.WithoutCancel(h.ctx), r); err != nil {
		h.o.Logger.Warn("what a heartbeat entry did could not be kept; the last run before it is shown", "entry", e.Name,
			"error", err)
	}
	if h.o.Observe != nil {
		h.o.Observe(r)
	}
	switch {
	case r.Err != nil:
		h.o.Logger.Error("a heartbeat entry failed; its next run tries again", "entry", e.Name, "took", r.Took, "counts",
			r.Counts, "error", r.Err)
	case r.Counts.hasMoved():
		h.o.Logger.Info(e.summarize(r.Counts), //nolint:sloglint // operators read this line as it is
			"entry", e.Name, "took", r.Took, "counts", r.Counts)
	default:
		h.o.Logger.Debug(e.summarize(r.Counts), //nolint:sloglint // as above
			"entry", e.Name, "took", r.Took, "counts", r.Counts)
	}
}

// memory is the record of a program that has a store for itself.
type memory struct {
	mu   sync.Mutex
	last map[string]Run // by the entry's name
}

func (*memory) Claim(context.Context, string, time.Time) (bool, error) { return true, nil }

func (m *memory) Put(_ context.Context, r Run) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last[r.Entry] = r
	return nil
}

func (m *memory) Last(entry string) (Run, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.last[entry]
	return r, ok
}

func (h *Heartbeat) runRecovered(e Entry) (c Counts, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	switch e.Name {
	case Prune:
		c.Removed, err = h.o.Gate.Prune(h.deferring)
	case Backup:
		err = h.o.Gate.Backup(h.deferring)
	default:
		return RunOnce(h.ctx, h.o.Gate, e.Params)
	}
	if h.deferring.Err() != nil {
		err = nil // the next run goes on
	}
	return c, err
}

// RunOnce does the work of [CheckPendingApprovals]. Each step is tried even when one before it failed.
func RunOnce(ctx context.Context, g Gate, p Params) (Counts, error) {
	var c Counts
	var errs []error
	step := func(name string, into *int, fn func() (int, error)) {
		n, err := fn()
		*into = n
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	step("expire", &c.Expired, func() (int, error) { return g.Expire(ctx) })
	step("outcomes", &c.Unknown, func() (int, error) { return g.Overdue(ctx) })
	if p.RemindAfter > 0 && p.MaxReminders > 0 {
		step("remind", &c.Reminded, func() (int, error) { return g.Remind(ctx, p.RemindAfter, p.MaxReminders) })
	}
	step("retry", &c.Retried, func() (int, error) { return g.RetryFailed(ctx) })
	step("prune", &c.Pruned, func() (int, error) { return g.Forget(ctx) })
	step("count", &c.Pending, func() (int, error) { return g.PendingCount(ctx) })
	return c, errors.Join(errs...)
}
