package app_test

import (
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

var requestsFlag = flag.Int("requests", 0, "how many requests the large store has; 0: 2000, or nightly a million")

const (
	// many is how many requests a store has whose figures are bounds; below it a round is too short to compare.
	many = 1_000_000
	// dearer is how much more a path may take in the large store.
	dearer = 1.15
	// waiting is how many requests wait in each store.
	waiting = 20
)

// aside is a program whose store had so many requests before.
type aside struct {
	*world
	cookie string
	lives  int
	took   map[string][]time.Duration // by path, in this round
}

func newAside(t *testing.T, requests int) *aside {
	t.Helper()
	w := newWorld(t)
	w.stop()
	w.ctx = t.Context() // a million rows take longer than other tests do
	// Without its mark it is taken for a restored backup: what waits in it is cancelled, so that as many wait in each.
	for _, beside := range []string{"", "-wal", "-shm", ".mark"} {
		if err := os.Remove(w.env["STORE"] + beside); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	schematest.WriteLarge(t, w.env["STORE"], requests, time.Now())
	w.start()
	for i := range waiting {
		w.expect(transfer(1_000_000+i), client.AnswerPending)
	}
	return &aside{world: w, cookie: w.signIn(w.hana), took: map[string][]time.Duration{}}
}

// live has a request go through its life, and what people look at meanwhile be read; each of that is timed.
func (a *aside) live() {
	a.t.Helper()
	timed := func(path string, do func() error) {
		a.t.Helper()
		begin := time.Now()
		if err := do(); err != nil {
			a.t.Fatalf("%s: %v", path, err)
		}
		a.took[path] = append(a.took[path], time.Since(begin))
	}
	a.lives++
	call := transfer(2_000_000 + a.lives)
	answered := func(c client.Call, want client.AnswerKind, id *string) func() error {
		return func() error {
			got, err := a.bot.Call(a.ctx, c)
			if err == nil && got.Kind != want {
				err = fmt.Errorf("answered %s (%s), want %s", got.Kind, got.Message, want)
			}
			if id != nil {
				*id = got.ApprovalID
			}
			return err
		}
	}
	shown := func(path string) func() error {
		return func() error { a.browse(a.url(path), a.cookie, nil); return nil }
	}
	var id string
	read := client.Call{Tool: "read_file", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, a.lives))}
	timed("an allowed call", answered(read, client.AnswerAllow, nil))
	timed("a call that is asked about", answered(call, client.AnswerPending, &id))
	timed("its agent looks", func() error { _, err := a.bot.Approval(a.ctx, id); return err })
	timed("the inbox", shown("/"))
	timed("its page", shown("/r/"+id))
	timed("the same call once more", answered(call, client.AnswerPending, nil))
	timed("a decision", func() error { _, err := a.hana.Decide(a.ctx, id, client.Approve, ""); return err })
	timed("the feed", func() error {
		rs, err := a.bot.Resolved(a.ctx, "", 0)
		if err == nil && !slices.ContainsFunc(rs, func(r client.Approval) bool { return r.ID == id }) {
			err = fmt.Errorf("%s is not among %d", id, len(rs))
		}
		return err
	})
	timed("the use", answered(call, client.AnswerApproved, nil))
	timed("the audit log", func() error { _, err := a.hana.Audit(a.ctx, client.AuditQuery{Limit: 50}); return err })
	timed("the history", shown("/history"))
}

// median is what a path took at the middle, in the round.
func (a *aside) median(path string) time.Duration {
	took := slices.Sorted(slices.Values(a.took[path]))
	return took[len(took)/2]
}

// compare has both go on in turn, a few rounds at most until none of the paths is dearer in the large store, and
// returns those that are in each of them.
func compare(t *testing.T, large, empty *aside, lives int) (stillDearer []string) {
	t.Helper()
	least := map[string]float64{}
	for range 5 {
		for _, a := range []*aside{large, empty} {
			clear(a.took)
		}
		for i := range lives {
			for _, a := range [2][]*aside{{large, empty}, {empty, large}}[i%2] {
				a.live()
			}
		}
		stillDearer = nil
		for path := range large.took {
			ratio := float64(large.median(path)) / float64(empty.median(path))
			t.Logf("%-28s %6.2f ms, %6.2f ms in the empty one: %.2f", path, large.median(path).Seconds()*1000,
				empty.median(path).Seconds()*1000, ratio)
			if least[path] == 0 || ratio < least[path] {
				least[path] = ratio
			}
			if least[path] > dearer {
				stillDearer = append(stillDearer, path)
			}
		}
		if len(stillDearer) == 0 {
			break
		}
	}
	return stillDearer
}

// rows counts what the store has, once nobody writes to it, and looks whether the file is whole.
func (a *aside) rows() (requests, notifications, events int) {
	a.t.Helper()
	db, err := sql.Open("sqlite", "file:"+a.env["STORE"]+"?mode=ro")
	if err != nil {
		a.t.Fatal(err)
	}
	defer db.Close()
	var found string
	if err := db.QueryRowContext(a.ctx, `PRAGMA integrity_check(1)`).Scan(&found); err != nil || found != "ok" {
		a.t.Errorf("the file is damaged: %s, %v", found, err)
	}
	if err := db.QueryRowContext(a.ctx, `SELECT (SELECT count(*) FROM approval_requests),
(SELECT count(*) FROM approval_notifications), (SELECT count(*) FROM audit_events)`).Scan(&requests, &notifications,
		&events); err != nil {
		a.t.Fatal(err)
	}
	return requests, notifications, events
}

// size is that of the store's file, once nobody writes to it.
func (a *aside) size() int64 {
	a.t.Helper()
	info, err := os.Stat(a.env["STORE"])
	if err != nil {
		a.t.Fatal(err)
	}
	return info.Size()
}

// A store of many requests is as quick as one without any on each path that calls and people take all day. Then nine
// tenths of it are removed, while calls are made, decided and used, and the file is smaller.
func TestALargeStoreIsAsQuickAsAnEmptyOneAndShrinks(t *testing.T) {
	requests, lives := *requestsFlag, 3
	if requests == 0 {
		requests = 2000
		if testkit.Nightly() && !testkit.Race {
			requests = many
		}
	}
	patience := testkit.Patience
	if requests >= many {
		lives, patience = 200, 2*time.Hour
	} else {
		t.Parallel()
	}
	empty, large := newAside(t, 0), newAside(t, requests)
	dear := compare(t, large, empty, lives)
	if requests >= many && len(dear) > 0 {
		t.Errorf("in a store of %d requests these take more than %.2f times as long: %q", requests, dearer, dear)
	}
	large.stop()
	whole := large.size()

	w := large
	w.change(replacing("policy:\n", fmt.Sprintf(`retention: {requests: %[1]dd, audit: %[1]dd}
heartbeat:
  - {name: prune, schedule: "@every 1s"}
policy:
`, schematest.LargeDays/10)))
	w.start()
	clear(w.took)
	begin, between := time.Now(), time.NewTicker(100*time.Millisecond)
	defer between.Stop()
	for isDone := false; !isDone; isDone = w.lives%20 == 0 && strings.Contains(w.log.String(), "Retention: ") {
		if time.Since(begin) > patience {
			t.Fatalf("retention has not ended in %s", patience)
		}
		w.live()
		<-between.C // real: a life every now and then, as long as the removing takes
	}
	_, said, _ := strings.Cut(w.log.String(), "Retention: ")
	said, _, _ = strings.Cut(said, `"`)
	t.Logf("%s in %s, beside %d lives", said, time.Since(begin).Round(time.Second), w.lives)
	for path, took := range w.took {
		slices.Sort(took)
		t.Logf("%-28s %6.2f ms meanwhile, %6.2f ms at p99", path, took[len(took)/2].Seconds()*1000,
			took[len(took)*99/100].Seconds()*1000)
	}
	lived := w.lives + waiting
	w.stop()
	left, notifications, events := w.rows()
	t.Logf("left: %d requests, %d notifications, %d events; the file had %d bytes, and has %d", left, notifications,
		events, whole, w.size())
	if tenth := requests/10 + lived; left > tenth || left < tenth*9/10 {
		t.Errorf("%d requests are left, want %d", left, tenth)
	}
	if most := requests*2/10 + 6*lived; notifications > most {
		t.Errorf("%d notifications are left, want %d at most", notifications, most)
	}
	if most := requests*5*4/30 + 12*lived; events > most { // whole days, the one that is not over too
		t.Errorf("%d events are left, want %d at most", events, most)
	}
	// Some room is kept for what comes next, and there is what came meanwhile.
	if most := whole/4 + 6<<20 + int64(lived)*16<<10; w.size() > most {
		t.Errorf("the file had %d bytes, and has %d, want %d at most", whole, w.size(), most)
	}
}

// change changes the configuration's file.
func (a *aside) change(how func(string) string) {
	a.t.Helper()
	text, err := os.ReadFile(a.path)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(a.path, []byte(how(string(text))), 0o600); err != nil {
		a.t.Fatal(err)
	}
}
