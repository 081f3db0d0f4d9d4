//go:build postgres

package app_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/client"
	"countersign/internal/store/postgres/postgrestest"
)

// replica is a program on the database in a process of its own, to be killed and stood still.
type replica struct {
	cmd  *exec.Cmd
	net  *postgrestest.Proxy // between it and the database
	bot  *client.Client
	hana *client.Client
}

// fleet are programs that share a database: one in this process, which stays, and others that do not.
type fleet struct {
	*world
	mu     sync.Mutex
	others []*replica
	next   atomic.Int64
	failed atomic.Int64 // answers that did not come
}

func (f *fleet) startReplica() *replica {
	f.t.Helper()
	between := postgrestest.NewProxy(f.t, f.env["DATABASE"])
	cmd, url := f.childAt("never", "DATABASE="+between.URL)
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &replica{cmd, between, f.clientOf(url, "AGENT_TOKEN"), f.clientOf(url, "HANA_TOKEN")}
}

// any returns the clients of one program after the other.
func (f *fleet) any() (bot, hana *client.Client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := int(f.next.Add(1)) % (len(f.others) + 1)
	if i == len(f.others) {
		return f.bot, f.hana
	}
	return f.others[i].bot, f.others[i].hana
}

// restart kills a program and starts another in its place.
func (f *fleet) restart(i int) {
	f.mu.Lock()
	old := f.others[i]
	f.mu.Unlock()
	_ = old.cmd.Process.Kill()
	_ = old.cmd.Wait()
	fresh := f.startReplica()
	f.mu.Lock()
	f.others[i] = fresh
	f.mu.Unlock()
}

// standStill stops a program for a while, which goes on then as if nothing had been.
func (f *fleet) standStill(i int, d time.Duration) {
	f.mu.Lock()
	p := f.others[i].cmd.Process
	f.mu.Unlock()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		f.t.Error(err)
	}
	time.Sleep(d) // real: other programs go on meanwhile
	if err := p.Signal(syscall.SIGCONT); err != nil {
		f.t.Error(err)
	}
}

// partition has nothing come through between a program and the database for a while. What was on its way is lost.
func (f *fleet) partition(i int, d time.Duration) {
	f.mu.Lock()
	between := f.others[i].net
	f.mu.Unlock()
	between.Set(true, true, true)
	time.Sleep(d) // real: other programs go on meanwhile
	between.Cut()
	between.Set(false, false, false)
}

// cutOff ends every connection to the database, in whatever it is doing.
func (f *fleet) cutOff() {
	f.sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid()`)
}

// transfer asks for a call at whichever program answers, has it approved at another, and calls until it is let through.
// It returns how often it was.
func (f *fleet) transfer(cents int) (through int) {
	for try := 0; through == 0; try++ {
		if try == 200 {
			f.t.Errorf("transfer %d was never let through", cents)
			return 0
		}
		bot, _ := f.any()
		a, err := bot.Call(f.ctx, transfer(cents))
		switch {
		case err != nil: // perhaps it was let through, and nobody will know: then it is asked for anew
			f.failed.Add(1)
			time.Sleep(50 * time.Millisecond) // real: the program is gone, or waits for its database
		case a.MayRun():
			through++
		case a.Kind == client.AnswerPending:
			_, hana := f.any()
			_, _ = hana.Decide(f.ctx, a.ApprovalID, client.Approve, "") // or it is asked for again
		}
	}
	for range 2 { // nothing is let through twice
		if bot, _ := f.any(); bot != nil {
			if a, err := bot.Call(f.ctx, transfer(cents)); err == nil && a.MayRun() {
				through++
			}
		}
	}
	return through
}

// Three programs on one database under load, while they are killed, stood still and parted from it, and all connections
// are cut off: no approval is used twice or lost, nobody gets a card twice, and all show one audit log without holes.
func testReplicasUnderFire(t *testing.T) {
	w := newWorld(t)
	w.ctx = t.Context() // every wait below ends by itself
	f := &fleet{world: w}
	f.others = []*replica{f.startReplica(), f.startReplica()}
	transfers, every := 96, 8
	if os.Getenv("COUNTERSIGN_NIGHTLY") != "" {
		transfers *= 20
	}
	var done atomic.Int64
	due := make(chan struct{}, transfers)
	var callers sync.WaitGroup
	through := make([]int, transfers)
	jobs := make(chan int, transfers)
	for i := range transfers {
		jobs <- i
	}
	close(jobs)
	for range 6 {
		callers.Go(func() {
			for i := range jobs {
				through[i] = f.transfer(10_000 + i)
				if done.Add(1)%int64(every) == 0 {
					due <- struct{}{}
				}
			}
		})
	}
	go func() {
		callers.Wait() // real: each of them ends by its tries
		close(due)
	}()
	for n := 0; ; n++ {
		if _, more := <-due; !more { // real: it is closed when the callers have ended
			break
		}
		switch n % 6 {
		case 0, 3:
			f.restart(n / 3 % 2)
		case 1:
			f.cutOff()
		case 2, 5:
			f.partition(n/3%2, 3*time.Second)
		case 4:
			f.standStill(n/6%2, 3*time.Second)
		}
	}
	t.Logf("%d transfers, %d answers did not come", transfers, f.failed.Load())
	f.checkUses(through)
	f.checkCards()
	f.checkLogs()
}

// checkUses looks at what was let through: as often as it was used, or less where nobody could be told.
func (f *fleet) checkUses(through []int) {
	f.t.Helper()
	used := map[string]int{}
	f.query(func(row pgx.CollectableRow) error {
		var args string
		var n int
		err := row.Scan(&args, &n)
		used[args] = n
		return err
	}, `SELECT tool_args, count(consumed_at) FROM approval_requests GROUP BY tool_args`)
	for i, n := range through {
		args := fmt.Sprintf(`{"amount_cents":%d,"to":"0xAbC"}`, 10_000+i)
		if n > used[args] || n > 1 {
			f.t.Errorf("%s was let through %d times, by %d approvals", args, n, used[args])
		}
	}
	f.query(func(row pgx.CollectableRow) error {
		var id, event string
		var n int
		err := row.Scan(&id, &event, &n)
		f.t.Errorf("%s has %d events %s", id, n, event)
		return err
	}, `SELECT approval_id, event_type, count(*) FROM audit_events
  WHERE event_type IN ('approval_requested', 'hitl_decision', 'approval_consumed') GROUP BY 1, 2 HAVING count(*) > 1`)
}

// checkCards looks at what hana got: each card once, whoever sent it.
func (f *fleet) checkCards() {
	f.t.Helper()
	f.eventually("all is sent", func() bool {
		return len(f.notifications(client.NotificationQuery{Status: "queued"})) == 0
	})
	cards := map[string]int{}
	for _, m := range f.chat.LINE.Chat("hana") {
		if _, rest, ok := strings.Cut(string(m.JSON), "action=approve&id="); ok && m.FromBot {
			cards[rest[:26]]++
		}
	}
	for id, n := range cards {
		if n > 1 {
			f.t.Errorf("hana got the card of %s %d times", id, n)
		}
	}
}

// checkLogs compares the audit logs that the programs show, up to the newest event that the first one shows: reminders
// and messages go on meanwhile.
func (f *fleet) checkLogs() {
	f.t.Helper()
	var first string
	var newest int64
	for i, hana := range []*client.Client{f.hana, f.others[0].hana, f.others[1].hana} {
		var log strings.Builder
		last := int64(0)
		for q := (client.AuditQuery{Limit: 200}); ; {
			page, err := hana.Audit(f.ctx, q)
			if err != nil {
				f.t.Fatal(err)
			}
			for _, e := range page.Items {
				if newest = cmp.Or(newest, e.Seq); e.Seq > newest {
					continue
				}
				fmt.Fprintln(&log, e.Seq, e.ID)
				if last > 0 && e.Seq != last-1 {
					f.t.Errorf("after %d comes %d", last, e.Seq)
				}
				last = e.Seq
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if i == 0 {
			first = log.String()
		} else if log.String() != first {
			f.t.Errorf("program %d shows another audit log", i)
		}
	}
}

// query reads rows of the programs' database.
func (f *fleet) query(take func(pgx.CollectableRow) error, sql string) {
	f.t.Helper()
	c, err := pgx.Connect(f.ctx, f.database())
	if err != nil {
		f.t.Fatal(err)
	}
	rows, err := c.Query(f.ctx, sql)
	if err == nil {
		_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, take(row) })
	}
	if err != nil {
		f.t.Error(err)
	}
	if err := c.Close(f.ctx); err != nil {
		f.t.Error(err)
	}
}
