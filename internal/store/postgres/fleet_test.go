//go:build postgres

package postgres

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/testkit"
)

// raced is how many of racing callers, on all programs, are told true.
func raced(t *testing.T, ds []*DB, do func(d *DB) (bool, error)) int64 {
	t.Helper()
	var all sync.WaitGroup
	var won atomic.Int64
	begin := make(chan struct{})
	for i := range 16 {
		all.Go(func() {
			<-begin
			ok, err := do(ds[i%len(ds)])
			if err != nil {
				t.Error(err)
			}
			if ok {
				won.Add(1)
			}
		})
	}
	close(begin)
	testkit.Wait(t, "all of them", all.Wait)
	return won.Load()
}

// A key is taken by one of all callers, and again when its time is over; what is over is not kept.
func TestOfAllProgramsOneTakesAKey(t *testing.T) {
	url := database(t)
	setClock(t, url, 0)
	a, b := withClock(t, url), withClock(t, url)
	take := func(d *DB) (bool, error) { return d.TakeOnce(t.Context(), "over calls agent:\x00bot", time.Hour) }
	if n := raced(t, []*DB{a, b}, take); n != 1 {
		t.Errorf("%d took it", n)
	}
	pass(t, url, time.Hour-time.Minute, 0, a, b)
	if n := raced(t, []*DB{a, b}, take); n != 0 {
		t.Errorf("%d took it before its time was over", n)
	}
	pass(t, url, time.Hour+time.Minute, 0, a, b)
	if n := raced(t, []*DB{a, b}, take); n != 1 {
		t.Errorf("%d took it after that", n)
	}
}

// What a platform asks of one program all know, until its time is over; and the longest of what it has asked.
func TestAllProgramsKnowWhatAPlatformAsks(t *testing.T) {
	url := emptied(t)
	a, b := open(t, Options{URL: url}), open(t, Options{URL: url})
	now := b.Now()
	for kind, until := range map[string]time.Time{"card": now.Add(time.Hour), "edit": now.Add(-time.Hour)} {
		for _, at := range []time.Time{until, until.Add(-time.Minute)} {
			if err := a.PutHold(t.Context(), "slack", kind, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	n := 0
	if err := b.ReadHolds(t.Context(), func(channel, kind string, until time.Time) {
		if n++; channel != "slack" || kind != "card" || !until.Equal(now.Add(time.Hour)) {
			t.Errorf("%s, %s until %v", channel, kind, until)
		}
	}); err != nil || n != 1 {
		t.Errorf("%d are known, %v", n, err)
	}
}

// Of all programs one runs an entry each time that it is due, none for a time before that, and all know what came of
// it.
func TestOfAllProgramsOneRunsAnEntry(t *testing.T) {
	url := emptied(t)
	ds := []*DB{open(t, Options{URL: url}), open(t, Options{URL: url})}
	for i := range 3 {
		slot := time.Date(2026, 11, 29, 12, 5*i, 0, 0, time.UTC)
		claim := func(slot time.Time) func(d *DB) (bool, error) {
			return func(d *DB) (bool, error) { return d.ClaimBeat(t.Context(), "check", slot) }
		}
		if n := raced(t, ds, claim(slot)); n != 1 {
			t.Errorf("%d run it at %v", n, slot)
		}
		if n := raced(t, ds, claim(slot.Add(-time.Minute))); n != 0 {
			t.Errorf("%d run it at a time before %v", n, slot)
		}
	}
	if got, err := ds[1].ReadBeats(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("while it runs %v, %v are known", got, err)
	}
	if err := ds[0].PutBeat(t.Context(), "check", "failed: \x00"); err != nil {
		t.Fatal(err)
	}
	if got, err := ds[1].ReadBeats(t.Context()); err != nil || !maps.Equal(got, map[string]string{"check": "failed: \x00"}) {
		t.Errorf("%v, %v are known", got, err)
	}
}

// send has an approved call used that a program sends on.
func send(t *testing.T, m *member, runner string, c approval.Call) (id string) {
	t.Helper()
	c.Dispatch, c.Runner = true, runner
	id = m.approve(t, c)
	m.check(t, c, approval.AnswerApproved)
	return id
}

// A program that is gone is known by what it has sent on, at the second look: one that has stopped at once, one that
// ended without a word when it has not been there for half a minute. One that is there, and what an agent sends itself,
// is never among them.
func TestAProgramIsGoneThatHasNotBeenThereForHalfAMinute(t *testing.T) {
	url := emptied(t)
	a, b := join(t, Options{URL: url}), join(t, Options{URL: url})
	hurry(b)
	stopped, err := Open(t.Context(), Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := stopped.Close(); err != nil {
		t.Fatal(err)
	}
	const killed = "01KAFHZX3T9W8Y7B6A5D4C3E2F"
	for i, runner := range []string{"", a.Replica(), b.Replica(), stopped.Replica(), killed} {
		send(t, a, runner, callOf(t, "bot", "send", fmt.Sprintf(`{"a":%d}`, i)))
	}
	seen := func(ago string) {
		t.Helper()
		execute(t, url, `INSERT INTO replicas (id, seen_at) SELECT '`+killed+`', at - interval '`+ago+`' FROM store_state
  ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`)
	}
	look := func(want ...string) {
		t.Helper()
		got, err := b.FindGone(t.Context())
		slices.Sort(got)
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	seen("1 second")
	look()
	look(stopped.Replica())
	seen("31 seconds")
	look(stopped.Replica())
	look(stopped.Replica(), killed)
	seen("1 second") // it stood still
	look(stopped.Replica())
	if n, err := b.gate.Orphaned(t.Context(), stopped.Replica()); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	look()
}

// An operator sees which programs are there, and of which version.
func TestProgramsThatAreThere(t *testing.T) {
	at := emptied(t)
	a, b := open(t, Options{URL: at, Program: "v1.3.0"}), open(t, Options{URL: at, Program: "v1.2.0"})
	execute(t, at, `INSERT INTO replicas (id, seen_at)
  SELECT '01KAFHZX3T9W8Y7B6A5D4C3E2F', at - interval '16 seconds' FROM store_state`)
	if err := b.AppearAt(t.Context(), "http://10.0.0.6:8787"); err != nil {
		t.Fatal(err)
	}
	got, err := a.Programs(t.Context())
	if want := []Program{{"v1.3.0", ""}, {"v1.2.0", "http://10.0.0.6:8787"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Programs(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("with one stopped: %v, %v", got, err)
	}
}

// hurry has programs take for gone at once who seems to be.
func hurry(ms ...*member) {
	for _, m := range ms {
		m.replicas.mu.Lock()
		m.replicas.goneFor = 0
		m.replicas.mu.Unlock()
	}
}

// A task that waits is its program's to run, and another's once that is gone: of several one takes it, if it has the
// server, and none that an agent runs itself. Who was away for a moment is not gone, and while nobody could say that
// they are there, only who has stopped is.
func TestATaskIsTakenOnceItsProgramIsGone(t *testing.T) {
	url := emptied(t)
	a, b, c := join(t, Options{URL: url}), join(t, Options{URL: url}), join(t, Options{URL: url})
	const away = "01KAFHZX3T9W8Y7B6A5D4C3E2F"
	task := func(runner string, seen bool) string {
		c := callOf(t, "bot", "send", fmt.Sprintf(`{"runner":%q,"seen":%t}`, runner, seen))
		c.Task, c.Dispatch, c.Runner, c.ToolDigest, c.ToolSeen = true, true, runner, strings.Repeat("a", 64), seen
		c.Server = "up"
		return a.check(t, c, approval.AnswerPending).ID
	}
	gone, mine, agents := task(away, true), task(a.Replica(), true), task("", false)
	seen := func(ago string) {
		t.Helper()
		execute(t, url, `INSERT INTO replicas (id, address, seen_at)
  SELECT '`+away+`', 'http://away', at - interval '`+ago+`' FROM store_state
  ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`)
	}
	take := func(servers ...string) int64 {
		t.Helper()
		return raced(t, []*DB{b.DB, c.DB}, func(d *DB) (bool, error) { return d.TakeTasks(t.Context(), servers) })
	}
	at := func(want string, fails bool) {
		t.Helper()
		if got, err := b.AddressOf(t.Context(), away); (err != nil) != fails || got != want {
			t.Errorf("it is at %q, %v, want %q", got, err, want)
		}
	}
	hurry(b, c)
	seen("5 seconds")
	at("http://away", false)
	if n := take("up"); n != 0 {
		t.Errorf("%d took it while it was away for a moment", n)
	}
	seen("25 seconds")
	for _, m := range []*member{b, c} {
		m.replicas.mu.Lock()
		m.replicas.goneFor = time.Hour
		m.replicas.mu.Unlock()
	}
	at("", true)
	if n := take("up"); n != 0 {
		t.Errorf("%d took it before it could say that it is there", n)
	}
	hurry(b, c)
	at("", false)
	if n := take("down", "other"); n != 0 {
		t.Errorf("%d took it that do not have its server", n)
	}
	if n := take("other", "up"); n != 1 {
		t.Errorf("%d took it, want one", n)
	}
	for id, want := range map[string][]string{gone: {b.Replica(), c.Replica()}, mine: {a.Replica()}, agents: {""}} {
		r, err := a.gate.Request(t.Context(), approval.Actor{Kind: approval.Agent, Name: "bot"}, id)
		if err != nil || !slices.Contains(want, r.Runner) {
			t.Errorf("it is for %q, %v, want one of %q", r.Runner, err, want)
		}
	}
	if at, err := b.AddressOf(t.Context(), "\x00 \xff"); at != "" || err != nil {
		t.Errorf("what is no program's is at %q, %v", at, err)
	}
}

// A task that ends while it is taken stays as it is.
func TestATaskThatHasEndedIsNotTaken(t *testing.T) {
	url := emptied(t)
	a, b := join(t, Options{URL: url}), join(t, Options{URL: url})
	hurry(b)
	const away = "01KAFHZX3T9W8Y7B6A5D4C3E2F"
	c := callOf(t, "bot", "send", `{}`)
	c.Task, c.Dispatch, c.Runner, c.ToolDigest, c.ToolSeen = true, true, away, strings.Repeat("a", 64), true
	c.Server = "up"
	id := a.check(t, c, approval.AnswerPending).ID
	blocks := connect(t, url)
	if _, err := blocks.Exec(t.Context(), `BEGIN; UPDATE approval_requests SET status = 'cancelled', resolved_at = requested_at,
  resolved_by = 'somebody', resolved_via = 'api', resolved_seq = 1 WHERE id = '`+id+`'`); err != nil {
		t.Fatal(err)
	}
	took := make(chan bool, 1)
	go func() {
		taken, err := b.TakeTasks(t.Context(), []string{"up"})
		if err != nil {
			t.Error(err)
		}
		took <- taken
	}()
	testkit.Eventually(t, "it waits for the row", func() bool {
		var waits bool
		err := blocks.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)`).Scan(&waits)
		return err == nil && waits
	})
	if _, err := blocks.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if testkit.Receive(t, "the answer", took) {
		t.Error("it was taken")
	}
}
