package heartbeat

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fakeGate struct {
	mu     sync.Mutex
	calls  []string
	after  time.Duration
	limit  int
	expire func(ctx context.Context) (int, error)
	remove func(ctx context.Context) (int, error)
}

func (g *fakeGate) note(s string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, s)
}

func (g *fakeGate) took() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := strings.Join(g.calls, " ")
	g.calls = nil
	return s
}

func (g *fakeGate) Expire(ctx context.Context) (int, error) {
	g.note("expire")
	if g.expire != nil {
		return g.expire(ctx)
	}
	return 2, nil
}

func (g *fakeGate) Remind(_ context.Context, after time.Duration, limit int) (int, error) {
	g.note("remind")
	g.after, g.limit = after, limit
	return 1, nil
}

func (g *fakeGate) Overdue(context.Context) (int, error)     { g.note("overdue"); return 6, nil }
func (g *fakeGate) RetryFailed(context.Context) (int, error) { g.note("retry"); return 3, nil }
func (g *fakeGate) Forget(context.Context) (int, error)      { g.note("prune"); return 4, nil }
func (g *fakeGate) Prune(ctx context.Context) (int, error) {
	g.note("remove")
	if g.remove != nil {
		return g.remove(ctx)
	}
	return 7, nil
}
func (g *fakeGate) Backup(ctx context.Context) error {
	g.note("copy")
	if g.remove != nil {
		_, err := g.remove(ctx)
		return err
	}
	return nil
}
func (g *fakeGate) PendingCount(context.Context) (int, error) { g.note("count"); return 5, nil }

func TestRunOnceDoesEveryStepAndCounts(t *testing.T) {
	g := &fakeGate{}
	c, err := RunOnce(t.Context(), g, Params{RemindAfter: 15 * time.Minute, MaxReminders: 3})
	if want := (Counts{Pending: 5, Expired: 2, Unknown: 6, Reminded: 1, Retried: 3, Pruned: 4}); err != nil || c != want {
		t.Errorf("got %+v, %v; want %+v", c, err, want)
	}
	if got := g.took(); got != "expire overdue remind retry prune count" {
		t.Errorf("steps: %s", got)
	}
	if g.after != 15*time.Minute || g.limit != 3 {
		t.Errorf("remind after %v, at most %d", g.after, g.limit)
	}
}

func TestRunOnceGoesOnAfterAFailedStep(t *testing.T) {
	broken := errors.New("disk full")
	g := &fakeGate{expire: func(context.Context) (int, error) { return 0, broken }}
	c, err := RunOnce(t.Context(), g, Params{})
	if !errors.Is(err, broken) || c.Retried != 3 {
		t.Errorf("got %+v, %v; want the error and the other steps done", c, err)
	}
	if got := g.took(); got != "expire overdue retry prune count" {
		t.Errorf("steps: %s; reminding was off", got)
	}
}

func TestEntriesRunOnTheirSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &fakeGate{}
		off := DefaultEntries()[0]
		off.Enabled = false
		h, err := New(Options{Gate: g, Entries: append(DefaultEntries(), off)})
		if err != nil {
			t.Fatal(err)
		}
		h.Start()
		time.Sleep(5*time.Minute - time.Second) // the bubble's clock starts on a full hour
		if got := g.took(); got != "" {
			t.Errorf("ran too early: %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := g.took(); strings.Count(got, "expire") != 1 {
			t.Errorf("after five minutes: %q, want one run", got)
		}
		if err := h.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if got := g.took(); got != "" {
			t.Errorf("ran after Stop: %s", got)
		}
	})
}

func TestWhatIsOldIsRemovedEachHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &fakeGate{}
		var log bytes.Buffer
		h, err := New(Options{Gate: g, Entries: []Entry{DefaultPrune()}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		h.Start()
		time.Sleep(3 * time.Hour)
		if err := h.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if got := g.took(); got != "remove remove remove" {
			t.Errorf("in three hours: %q", got)
		}
		if r, ok := h.Last(Prune); !ok || r.Counts != (Counts{Removed: 7}) {
			t.Errorf("the last run: %+v", r)
		}
		if n := strings.Count(log.String(), "Retention: 7 rows removed or emptied"); n != 3 {
			t.Errorf("%d lines in\n%s", n, &log)
		}
	})
}

func TestCopiesAreLookedAfterEveryFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &fakeGate{}
		h, err := New(Options{Gate: g, Entries: []Entry{DefaultBackup()}})
		if err != nil {
			t.Fatal(err)
		}
		h.Start()
		time.Sleep(10 * time.Minute)
		if err := h.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if got := g.took(); got != "copy copy" {
			t.Errorf("in ten minutes: %q", got)
		}
		if r, ok := h.Last(Backup); !ok || r.Err != nil || r.Counts != (Counts{}) {
			t.Errorf("the last run: %+v", r)
		}
	})
}

// There may be much to remove or to copy, and nobody waits for that to end.
func TestStopDoesNotWaitForWhatIsRemovedOrCopied(t *testing.T) {
	for name, entry := range map[string]Entry{Prune: DefaultPrune(), Backup: DefaultBackup()} {
		synctest.Test(t, func(t *testing.T) {
			g := &fakeGate{remove: func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 3, ctx.Err()
			}}
			h, err := New(Options{Gate: g, Entries: []Entry{entry}})
			if err != nil {
				t.Fatal(err)
			}
			h.Start()
			time.Sleep(time.Hour)
			begun := time.Now()
			if err := h.Stop(context.Background()); err != nil || time.Since(begun) != 0 {
				t.Errorf("%s: stopping took %v, %v", name, time.Since(begun), err)
			}
			if r, ok := h.Last(name); !ok || r.Err != nil || r.Counts.Removed != 3 && name == Prune {
				t.Errorf("%s: the run: %+v", name, r)
			}
		})
	}
}

func TestARunIsSkippedWhileOneIsGoingAndStopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &fakeGate{expire: func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}}
		h, err := New(Options{Gate: g, Entries: []Entry{{Name: CheckPendingApprovals, Schedule: "@every 1m", Enabled: true}}})
		if err != nil {
			t.Fatal(err)
		}
		h.Start()
		time.Sleep(10*time.Minute + time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := h.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Stop: %v", err)
		}
		if got := strings.Count(g.took(), "expire"); got != 1 {
			t.Errorf("%d runs began, want 1", got)
		}
	})
}

func TestAPanicCostsOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		n := 0
		g := &fakeGate{expire: func(context.Context) (int, error) {
			if n++; n == 1 {
				panic("no such row")
			}
			return 1, nil
		}}
		var failures []error
		h, err := New(Options{Gate: g, Entries: []Entry{{Name: CheckPendingApprovals, Schedule: "@every 1m", Enabled: true}},
			Logger:  slog.New(slog.NewTextHandler(&log, nil)),
			Observe: func(r Run) { failures = append(failures, r.Err) }})
		if err != nil {
			t.Fatal(err)
		}
		h.Start()
		time.Sleep(2*time.Minute + time.Second)
		h.Stop(context.Background())
		if len(failures) != 2 || failures[0] == nil || failures[1] != nil {
			t.Errorf("runs: %v", failures)
		}
		if !strings.Contains(log.String(), "no such row") || !strings.Contains(log.String(), "counts.expired=1") {
			t.Errorf("log:\n%s", log.String())
		}
	})
}

// What moved something is one line in the seed's words; what moved nothing, or was not there yet, is none.
func TestARunThatMovedSomethingIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type line struct {
			level slog.Level
			msg   string
		}
		var mu sync.Mutex // of lines
		var lines []line
		moved := []Counts{{Pending: 4, Pruned: 9}, {Pending: 3, Expired: 1}, {Pending: 3, Reminded: 2},
			{Pending: 3, Retried: 1}, {Pending: 3, Unknown: 1}}
		var run atomic.Int64
		g := &countedGate{next: func() Counts { return moved[run.Load()] }}
		h, err := New(Options{Gate: g, Now: func() time.Time { return time.Unix(1e9, 0) },
			Entries: []Entry{{Name: CheckPendingApprovals, Schedule: "@every 1m",
				Enabled: true, Params: Params{RemindAfter: time.Minute, MaxReminders: 1}}},
			Logger: slog.New(recorder(func(r slog.Record) {
				if strings.HasPrefix(r.Message, "Approvals") {
					mu.Lock()
					defer mu.Unlock()
					lines = append(lines, line{r.Level, r.Message})
				}
			}))})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := h.Last(CheckPendingApprovals); ok || !slices.Equal(h.Enabled(), []string{CheckPendingApprovals}) {
			t.Errorf("a run before the start; entries %v", h.Enabled())
		}
		h.Start()
		time.Sleep(time.Second)
		for i := range moved {
			run.Store(int64(i))
			time.Sleep(time.Minute)
			synctest.Wait()
			r, ok := h.Last(CheckPendingApprovals)
			if !ok || r.Counts != moved[i] || r.Err != nil || !r.At.Equal(time.Unix(1e9, 0)) {
				t.Errorf("run %d is remembered as %+v", i, r)
			}
		}
		h.Stop(context.Background())
		want := []line{{slog.LevelDebug, "Approvals: 4 pending, 0 expired, 0 re-notified"},
			{slog.LevelInfo, "Approvals: 3 pending, 1 expired, 0 re-notified"},
			{slog.LevelInfo, "Approvals: 3 pending, 0 expired, 2 re-notified"},
			{slog.LevelInfo, "Approvals: 3 pending, 0 expired, 0 re-notified"},
			{slog.LevelInfo, "Approvals: 3 pending, 0 expired, 0 re-notified"}}
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(lines, want) {
			t.Errorf("lines %v\nwant %v", lines, want)
		}
	})
}

// countedGate moves what it is told to.
type countedGate struct{ next func() Counts }

func (g *countedGate) Expire(context.Context) (int, error)  { return g.next().Expired, nil }
func (g *countedGate) Overdue(context.Context) (int, error) { return g.next().Unknown, nil }
func (g *countedGate) Remind(context.Context, time.Duration, int) (int, error) {
	return g.next().Reminded, nil
}
func (g *countedGate) RetryFailed(context.Context) (int, error)  { return g.next().Retried, nil }
func (g *countedGate) Forget(context.Context) (int, error)       { return g.next().Pruned, nil }
func (*countedGate) Backup(context.Context) error                { return nil }
func (g *countedGate) Prune(context.Context) (int, error)        { return g.next().Removed, nil }
func (g *countedGate) PendingCount(context.Context) (int, error) { return g.next().Pending, nil }

type recorder func(slog.Record)

func (recorder) Enabled(context.Context, slog.Level) bool        { return true }
func (f recorder) Handle(_ context.Context, r slog.Record) error { f(r); return nil }
func (f recorder) WithAttrs([]slog.Attr) slog.Handler            { return f }
func (f recorder) WithGroup(string) slog.Handler                 { return f }

// shared is the record of several programs on one store.
type shared struct {
	memory
	slots map[string]time.Time
	fail  error
}

func (s *shared) Claim(_ context.Context, entry string, slot time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil || !s.slots[entry].Before(slot) {
		return false, s.fail
	}
	s.slots[entry] = slot
	return true, nil
}

// Each time that an entry is due one of several programs runs it: whatever their clocks show within some seconds, and,
// where each counts from its own start, wherever in the interval that was. All tell of the same last run.
func TestOneOfSeveralProgramsRunsAnEntry(t *testing.T) {
	for schedule, apart := range map[string][]time.Duration{
		"*/5 * * * *": {0, 2 * time.Second, 11 * time.Second},
		"@every 5m":   {0, time.Minute, 149 * time.Second, 299 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			record := &shared{memory{last: map[string]Run{}}, map[string]time.Time{}, nil}
			g, began := &fakeGate{}, time.Now()
			var programs []*Heartbeat
			for _, late := range apart {
				time.Sleep(time.Until(began.Add(late)))
				behind := time.Duration(0)
				if schedule[0] == '*' { // this program's clock is so far behind
					behind = late
				}
				h, err := New(Options{Gate: g, Record: record, Now: func() time.Time { return time.Now().Add(-behind) },
					Entries: []Entry{{Name: CheckPendingApprovals, Schedule: schedule, Enabled: true}}})
				if err != nil {
					t.Fatal(err)
				}
				h.Start()
				programs = append(programs, h)
			}
			time.Sleep(time.Until(began.Add(time.Hour + 4*time.Minute)))
			if n := strings.Count(g.took(), "expire"); n != 12 {
				t.Errorf("%s: %d runs in an hour, want 12", schedule, n)
			}
			var last []Run
			for _, h := range programs {
				r, ok := h.Last(CheckPendingApprovals)
				if err := h.Stop(context.Background()); err != nil || !ok {
					t.Errorf("%s: %v, %v", schedule, ok, err)
				}
				last = append(last, r)
			}
			if len(slices.Compact(last)) != 1 {
				t.Errorf("%s: they tell of %+v", schedule, last)
			}
		})
	}
}

// Where the record is away nothing is run twice, and the next time it is due it runs.
func TestAnEntryThatCannotBeClaimedIsNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record := &shared{memory{last: map[string]Run{}}, map[string]time.Time{}, errors.New("away")}
		g := &fakeGate{}
		var log bytes.Buffer
		h, err := New(Options{Gate: g, Record: record, Entries: DefaultEntries(),
			Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		h.Start()
		time.Sleep(5*time.Minute + time.Second)
		synctest.Wait()
		if got := g.took(); got != "" || !strings.Contains(log.String(), "error=away") {
			t.Errorf("%q was done; log:\n%s", got, log.String())
		}
		record.mu.Lock()
		record.fail = nil
		record.mu.Unlock()
		time.Sleep(5 * time.Minute)
		if got := g.took(); strings.Count(got, "expire") != 1 {
			t.Errorf("then %q was done", got)
		}
		if err := h.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestBadEntriesAreRefused(t *testing.T) {
	for _, tt := range []struct {
		entry Entry
		want  string
	}{
		{Entry{Name: "tidy_up", Schedule: "@hourly"}, "there is no task"},
		{Entry{Name: CheckPendingApprovals, Schedule: "every so often"}, "schedule"},
		{Entry{Name: CheckPendingApprovals, Schedule: "* * * *"}, "schedule"},
		{Entry{Name: CheckPendingApprovals, Schedule: "@hourly", Params: Params{MaxReminders: -1}}, "negative"},
	} {
		if _, err := New(Options{Entries: []Entry{tt.entry}}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.entry, err, tt.want)
		}
	}
}
