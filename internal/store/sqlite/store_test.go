package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/approval"
	"countersign/internal/store/sqlite/sqlite3"
	"countersign/internal/store/storetest"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

func TestMain(m *testing.M) {
	if crashing() || upgrading() || recordingUntilKilled() || shrinking() {
		return
	}
	goleak.VerifyTestMain(m)
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return open(t, Options{}) })
}

// One store is several, too.
func TestFleet(t *testing.T) {
	storetest.RunFleet(t, func(t *testing.T) []storetest.Store {
		s := open(t, Options{})
		return []storetest.Store{s, s, s}
	})
}

// open opens a store in a folder of its own unless o names a path, and closes it at the end.
func open(t testing.TB, o Options) *DB {
	t.Helper()
	if o.Path == "" {
		o.Path = schematest.NewFile(t)
	}
	d, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func update(t testing.TB, d *DB, fn func(tx approval.Tx) error) {
	t.Helper()
	if err := d.Update(t.Context(), approval.WholeStore(), fn); err != nil {
		t.Fatal(err)
	}
}

func view(t testing.TB, d *DB, fn func(tx approval.Tx) error) {
	t.Helper()
	if err := d.View(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// create stores a request, its notification and its event, and returns the request's id.
func create(tx approval.Tx, agent, tool string) (string, error) {
	now := tx.Now()
	r := approval.Request{
		ID: tx.NewID(), Agent: agent, Tool: tool, Args: []byte(`{}`), ArgsHash: strings.Repeat("a", 64),
		Risk:       approval.RiskHigh,
		ReasonCode: "approval_required", HumanMessage: "Please look.", Status: approval.Pending, RequestedAt: now,
		ExpiresAt: now.Add(time.Hour),
	}
	if err := tx.InsertRequest(r); err != nil {
		return "", err
	}
	n := approval.Notification{
		ID: tx.NewID(), ApprovalID: r.ID, Channel: "line", Recipient: "U1", Kind: approval.KindRequest,
		Status:        approval.Queued,
		NextAttemptAt: now, CreatedAt: now, UpdatedAt: now,
	}
	if err := tx.InsertNotification(n); err != nil {
		return "", err
	}
	_, err := tx.Append(approval.Event{Type: approval.EventApprovalRequested, ApprovalID: r.ID, Agent: agent})
	return r.ID, err
}

// checkWhole checks that every request has its notification and its event and that the file is sound, and
// returns the requests' ids.
func checkWhole(t *testing.T, d *DB) map[string]bool {
	t.Helper()
	stored := map[string]bool{}
	view(t, d, func(tx approval.Tx) error {
		rs, err := tx.Requests(approval.RequestQuery{})
		if err != nil {
			return err
		}
		es, err := tx.Events(approval.EventQuery{Ascending: true})
		if err != nil {
			return err
		}
		told, seqs := map[string]int{}, []int64{}
		for _, e := range es {
			told[e.ApprovalID]++
			seqs = append(seqs, e.Seq)
		}
		for _, r := range rs {
			stored[r.ID] = true
			ns, err := tx.Notifications(approval.NotificationQuery{ApprovalID: r.ID})
			if err != nil {
				return err
			}
			if len(ns) != 1 || told[r.ID] != 1 {
				t.Errorf("request %s has %d notifications and %d events, want one each", r.ID, len(ns), told[r.ID])
			}
		}
		slices.Sort(seqs)
		for i, seq := range seqs {
			if seq != int64(i+1) {
				t.Errorf("seq %d comes after %d others", seq, i)
			}
		}
		if len(es) != len(rs) {
			t.Errorf("%d events for %d requests", len(es), len(rs))
		}
		return nil
	})
	checkSound(t, d)
	return stored
}

// checkSound checks that the file is.
func checkSound(t *testing.T, d *DB) {
	t.Helper()
	update(t, d, func(x approval.Tx) error {
		s := x.(*tx).c.Prepare("PRAGMA integrity_check")
		defer s.Finalize()
		if !s.Step() {
			return s.Err()
		}
		if got := s.ColumnText(); got != "ok" {
			t.Errorf("integrity_check: %s", got)
		}
		return nil
	})
}

// grouped runs fns in one group of the writer, in this order, and returns their errors.
func grouped(t testing.TB, d *DB, fns ...func(tx approval.Tx) error) []error {
	t.Helper()
	errs := make([]error, len(fns))
	began := make(chan struct{})
	goOn, letGo := testkit.Latch()
	defer letGo()
	var wg sync.WaitGroup
	var once sync.Once
	wg.Go(func() { // keeps the writer busy until the others are in its queue
		err := d.Update(t.Context(), approval.WholeStore(), func(approval.Tx) error {
			once.Do(func() {
				close(began)
				<-goOn
			})
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	testkit.Receive(t, "the writer is busy", began)
	for i, fn := range fns {
		wg.Go(func() { errs[i] = d.Update(t.Context(), approval.WholeStore(), fn) })
		testkit.Eventually(t, "it waits", func() bool { return len(d.writer.queue) > i })
	}
	letGo()
	testkit.Wait(t, "all updates", wg.Wait)
	return errs
}

// Who is told before a commit is told of what the commit brings, and sees none of it yet.
func TestWhatIsAboutToBeCommittedIsToldBefore(t *testing.T) {
	var d *DB
	var order []string // by one goroutine
	said := func(when string, c approval.Commit) {
		for _, e := range c.Events {
			found := "not there"
			err := d.View(context.Background(), func(tx approval.Tx) error {
				_, err := tx.Request(e.ApprovalID)
				if errors.Is(err, approval.ErrNotFound) {
					return nil
				}
				found = "there"
				return err
			})
			if err != nil {
				t.Error(err)
			}
			order = append(order, when+": "+found)
		}
	}
	d = open(t, Options{
		BeforeCommit: func(c approval.Commit) { said("before", c) },
		OnCommit:     func(c approval.Commit) { said("after", c) },
	})
	update(t, d, func(tx approval.Tx) error {
		_, err := create(tx, "bot", "pay")
		return err
	})
	if want := []string{"before: not there", "after: there"}; !slices.Equal(order, want) {
		t.Errorf("got %q, want %q", order, want)
	}
	wrong := errors.New("wrong")
	if err := d.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
		_, err := create(tx, "bot", "other")
		return errors.Join(wrong, err)
	}); !errors.Is(err, wrong) || len(order) != 2 {
		t.Errorf("of what comes to nothing it says %q, error %v", order, err)
	}
}

func TestCommitTells(t *testing.T) {
	var mu sync.Mutex
	var told []approval.Commit
	d := open(t, Options{OnCommit: func(c approval.Commit) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, c)
	}})
	last := func() approval.Commit {
		mu.Lock()
		defer mu.Unlock()
		c := told[len(told)-1]
		told = nil
		return c
	}
	var id string
	var n approval.Notification
	var deadline time.Time
	update(t, d, func(tx approval.Tx) (err error) {
		id, err = create(tx, "bot", "pay")
		deadline = tx.Now().Add(time.Hour)
		return err
	})
	c := last() // it was told before Update returned
	if len(c.Events) != 1 || c.Events[0].ApprovalID != id || c.Events[0].Seq != 1 || len(c.Queued) != 1 ||
		!c.Deadline.Equal(deadline) {
		t.Errorf("told of a new request: %+v", c)
	}
	view(t, d, func(tx approval.Tx) (err error) {
		n, err = tx.Notification(c.Queued[0])
		return err
	})

	change := func(status approval.NotificationStatus, next, lease time.Duration) []string {
		t.Helper()
		update(t, d, func(tx approval.Tx) error {
			was, attempt := n.Status, n.Attempt
			n.Status, n.NextAttemptAt, n.LeaseUntil = status, tx.Now().Add(next), time.Time{}
			if lease > 0 {
				n.LeaseUntil = tx.Now().Add(lease)
			}
			_, err := tx.UpdateNotification(n, was, attempt)
			return err
		})
		return last().Queued
	}
	for _, step := range []struct {
		what        string
		status      approval.NotificationStatus
		next, lease time.Duration
		want        bool
	}{
		{"claimed", approval.Queued, 0, time.Minute, false},
		{"to be tried again later", approval.Retrying, time.Minute, 0, false},
		{"made due again", approval.Retrying, 0, 0, true},
		{"failed", approval.Failed, 0, 0, false},
		{"brought back for later", approval.Queued, time.Minute, 0, true},
	} {
		if got := change(step.status, step.next, step.lease); (len(got) == 1) != step.want {
			t.Errorf("%s: queued %v, want it told: %v", step.what, got, step.want)
		}
	}

	update(t, d, func(tx approval.Tx) error {
		deadline = tx.Now().Add(time.Minute)
		_, err := tx.Resolve(approval.Resolution{ID: id, Status: approval.Approved, At: tx.Now(), By: "hana",
			Via: approval.ViaAPI, UseBy: deadline})
		return err
	})
	if c := last(); !c.Deadline.Equal(deadline) || len(c.Events) != 0 {
		t.Errorf("told of an approval: %+v", c)
	}

	// What a function undid is not told, and its seq is given to the next.
	boom := errors.New("boom")
	errs := grouped(t, d,
		func(tx approval.Tx) error { _, err := create(tx, "bot", "1"); return err },
		func(tx approval.Tx) error { return errors.Join(second(create(tx, "bot", "2")), boom) },
		func(tx approval.Tx) error { _, err := create(tx, "bot", "3"); return err })
	if errs[0] != nil || !errors.Is(errs[1], boom) || errs[2] != nil {
		t.Fatal(errs)
	}
	c = last()
	if len(c.Events) != 2 || c.Events[1].Seq != c.Events[0].Seq+1 || len(c.Queued) != 2 {
		t.Errorf("told of a group with one undone: %+v", c)
	}
	update(t, d, func(approval.Tx) error { return nil })
	if len(told) != 0 {
		t.Errorf("told of a commit that changed nothing: %+v", told)
	}
}

func second[T any](_ T, err error) error { return err }

func TestCommitsAreToldInOrder(t *testing.T) {
	var seqs []int64 // OnCommit is called by one goroutine
	d := open(t, Options{BatchMax: 5, OnCommit: func(c approval.Commit) {
		for _, e := range c.Events {
			seqs = append(seqs, e.Seq)
		}
	}})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for k := range 10 {
				if err := d.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
					return second(create(tx, "bot", fmt.Sprint(i, "-", k)))
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	testkit.Wait(t, "all updates", wg.Wait)
	for i, seq := range seqs {
		if seq != int64(i+1) {
			t.Fatalf("told of seq %d in place %d", seq, i+1)
		}
	}
	if len(seqs) != 200 {
		t.Errorf("told of %d events, want 200", len(seqs))
	}
}

// Where the disk is full and room is made on it, what was to be committed is, and its caller hears of nothing.
func TestRoomMadeOnAFullDiskIsUsed(t *testing.T) {
	var d *DB
	asked := 0
	d = open(t, Options{pragmas: []string{"max_page_count = 200"}, OnFull: func() {
		asked++
		d.testPragmas = nil // of the next connection
	}})
	many := func(tx approval.Tx) error {
		for i := range 1000 {
			if _, err := create(tx, "bot", fmt.Sprint("of many ", i)); err != nil {
				return err
			}
		}
		return nil
	}
	one := func(tx approval.Tx) error { return second(create(tx, "bot", "one")) }
	for i, err := range grouped(t, d, one, many) {
		if err != nil {
			t.Errorf("function %d: %v", i, err)
		}
	}
	if n := len(checkWhole(t, d)); n != 1001 || asked != 1 {
		t.Errorf("%d requests stored, and room was asked for %d times", n, asked)
	}
}

// An error that a function does not pass on must not commit half of what it meant to do.
func TestSwallowedErrorUndoes(t *testing.T) {
	d := open(t, Options{pragmas: []string{"max_page_count = 200"}})
	errs := grouped(t, d,
		func(tx approval.Tx) error { return second(create(tx, "bot", "before")) },
		func(tx approval.Tx) error {
			if _, err := create(tx, "bot", "half"); err != nil {
				return err
			}
			r := approval.Request{Args: make([]byte, 1<<20), ID: tx.NewID(), Agent: "bot", Tool: "whole",
				ArgsHash: strings.Repeat("b", 64),
				Risk:     approval.RiskLow, Status: approval.Pending, RequestedAt: tx.Now(), ExpiresAt: tx.Now()}
			_ = tx.InsertRequest(r)
			if _, err := tx.Append(approval.Event{Type: approval.EventCallAllowed}); err == nil {
				t.Error("a function goes on after the disk was full")
			}
			return nil
		},
		func(tx approval.Tx) error { return second(create(tx, "bot", "after")) })
	if errs[0] != nil || approval.CodeOf(errs[1]) != approval.CodeStoreUnavailable || errs[2] != nil {
		t.Errorf("got %v", errs)
	}
	if n := len(checkWhole(t, d)); n != 2 {
		t.Errorf("%d requests stored, want 2", n)
	}
}

// A group that is run again, because one of its functions must be undone, may hold callers that have gone.
func TestGroupIsRunAgainWithoutThoseWhoWent(t *testing.T) {
	d := open(t, Options{})
	boom := errors.New("boom")
	began := make(chan struct{})
	goOn, letGo := testkit.Latch()
	defer letGo()
	var once sync.Once
	var wg sync.WaitGroup
	start := func(ctx context.Context, want error, fn func(tx approval.Tx) error) {
		waiting := len(d.writer.queue)
		wg.Go(func() {
			if err := d.Update(ctx, approval.WholeStore(), fn); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		})
		testkit.Eventually(t, "it waits", func() bool { return len(d.writer.queue) != waiting })
	}
	wg.Go(func() {
		err := d.Update(t.Context(), approval.WholeStore(), func(approval.Tx) error {
			once.Do(func() { close(began); <-goOn })
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	testkit.Receive(t, "the writer is busy", began)
	gone, cancel := context.WithCancel(t.Context())
	start(gone, context.Canceled, func(approval.Tx) error { t.Error("ran"); return nil })
	start(t.Context(), nil, func(tx approval.Tx) error { return second(create(tx, "bot", "a")) })
	start(t.Context(), boom, func(tx approval.Tx) error { return errors.Join(second(create(tx, "bot", "b")), boom) })
	start(t.Context(), nil, func(tx approval.Tx) error { return second(create(tx, "bot", "c")) })
	cancel()
	letGo()
	testkit.Wait(t, "all updates", wg.Wait)
	if n := len(checkWhole(t, d)); n != 2 {
		t.Errorf("%d requests stored, want 2", n)
	}
}

func TestTransactionIsOverWithItsFunction(t *testing.T) {
	d := open(t, Options{})
	var kept approval.Tx
	for what, run := range map[string]func(func(approval.Tx) error){
		"Update": func(fn func(approval.Tx) error) { update(t, d, fn) },
		"View":   func(fn func(approval.Tx) error) { view(t, d, fn) },
	} {
		run(func(tx approval.Tx) error { kept = tx; return nil })
		_, readErr := kept.Request("x")
		if writeErr := kept.PutRecent(approval.Key{}, approval.Recent{}); !errors.Is(readErr, errEnded) ||
			!errors.Is(writeErr, errEnded) && !errors.Is(writeErr, approval.ErrReadOnly) {
			t.Errorf("a transaction of %s used later: %v, %v", what, readErr, writeErr)
		}
	}
}

func TestClosed(t *testing.T) {
	d := open(t, Options{})
	began := make(chan struct{})
	goOn, letGo := testkit.Latch()
	defer letGo()
	results := make(chan error, 2)
	go func() {
		results <- d.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
			close(began)
			<-goOn
			return second(create(tx, "bot", "1"))
		})
	}()
	testkit.Receive(t, "the writer is busy", began)
	go func() {
		results <- d.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
			return second(create(tx, "bot", "2"))
		})
	}()
	testkit.Eventually(t, "the second waits", func() bool { return len(d.writer.queue) > 0 })
	closing := make(chan error, 1)
	go func() { closing <- d.Close() }()
	testkit.Receive(t, "closing has begun", d.closing)
	letGo()
	for range 2 {
		if err := testkit.Receive(t, "the update", results); err != nil {
			t.Errorf("an update that was waiting when the store was closed: %v", err)
		}
	}
	if err := errors.Join(testkit.Receive(t, "the end of the store", closing), d.Close()); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"Update": d.Update(t.Context(), approval.WholeStore(), func(approval.Tx) error { return nil }),
		"View":   d.View(t.Context(), func(approval.Tx) error { return nil }),
	} {
		if approval.CodeOf(err) != approval.CodeStoreUnavailable {
			t.Errorf("%s of a closed store: %v", what, err)
		}
	}
	if n := len(checkWhole(t, open(t, Options{Path: d.path}))); n != 2 {
		t.Errorf("%d requests stored, want 2", n)
	}
}

// The clock that is set back, and a restart, give out nothing twice.
func TestRestartGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	clock := time.Now()
	type out struct {
		now, viewed time.Time
		id          string
		seq         int64
	}
	var outs []out
	for i, back := range []time.Duration{0, 48 * time.Hour, 24 * time.Hour} {
		d := open(t, Options{Path: path, Now: func() time.Time { return clock.Add(-back) }})
		var o out
		update(t, d, func(tx approval.Tx) error {
			id, err := create(tx, "bot", fmt.Sprint(i))
			if err != nil {
				return err
			}
			// The last of the sequence is a resolution, of which no event tells.
			if _, err := tx.Resolve(approval.Resolution{ID: id, Status: approval.Denied, At: tx.Now(), By: "hana",
				Via: approval.ViaAPI}); err != nil {
				return err
			}
			r, err := tx.Request(id)
			o = out{now: tx.Now(), id: tx.NewID(), seq: r.ResolvedSeq}
			return err
		})
		view(t, d, func(tx approval.Tx) error { o.viewed = tx.Now(); return nil })
		outs = append(outs, o)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i, o := range outs {
		if o.viewed.Before(o.now) || i > 0 && o.now.Before(outs[i-1].viewed) {
			t.Errorf("start %d: time %v, then %v, after %v", i, o.now, o.viewed, outs[max(0, i-1)].viewed)
		}
		if i > 0 && (o.id <= outs[i-1].id || o.seq != outs[i-1].seq+1) {
			t.Errorf("start %d: %+v after %+v", i, o, outs[i-1])
		}
	}
}

// An interrupt between two statements is not lost: SQLite forgets it when the next one starts.
func TestViewIsGivenUpBetweenTwoStatements(t *testing.T) {
	d := open(t, Options{Readers: 1})
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		err := d.View(ctx, func(x approval.Tx) error {
			v := x.(*tx)
			endless := v.c.Prepare(endlessRead)
			defer endless.Finalize()
			cancel()
			time.Sleep(time.Millisecond) // real: the first interrupt most often comes before the statement; both are right
			_, err := endless.Exec()
			return v.Fail(err)
		})
		if approval.CodeOf(err) != approval.CodeStoreUnavailable {
			t.Fatalf("an endless read: %v", err)
		}
	}
}

const endlessRead = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0`

func TestViewIsGivenUp(t *testing.T) {
	d := open(t, Options{Readers: 1})
	ctx, cancel := contextWithTimeout(t, 50*time.Millisecond)
	defer cancel()
	err := d.View(ctx, func(x approval.Tx) error {
		v := x.(*tx)
		return v.Fail(v.c.Exec(endlessRead))
	})
	if approval.CodeOf(err) != approval.CodeStoreUnavailable {
		t.Errorf("an endless read: %v", err)
	}
	view(t, d, func(tx approval.Tx) error {
		_, err := tx.Requests(approval.RequestQuery{})
		return err
	}) // the connection still works

	began := make(chan struct{})
	goOn, letGo := testkit.Latch()
	defer letGo()
	go func() {
		_ = d.View(t.Context(), func(approval.Tx) error { close(began); <-goOn; return nil })
	}()
	testkit.Receive(t, "the reader is busy", began)
	ctx, cancel = contextWithTimeout(t, 10*time.Millisecond)
	defer cancel()
	if err := d.View(ctx, func(approval.Tx) error {
		t.Error("ran")
		return nil
	}); approval.CodeOf(err) != approval.CodeStoreUnavailable {
		t.Errorf("no connection is free: %v", err)
	}
	letGo()
}

func TestQueriesNumberTheirParameters(t *testing.T) {
	d := open(t, Options{})
	update(t, d, func(x approval.Tx) error {
		for _, sql := range queries {
			s := x.(*tx).c.Prepare(sql)
			if s.Err() != nil {
				t.Error(s.Err())
				continue
			}
			for i, name := range s.Parameters() {
				if name != fmt.Sprintf("$%d", i+1) {
					t.Errorf("parameter %d is %s, in %s", i+1, name, sql)
				}
			}
			s.Finalize()
		}
		return nil
	})
}

// Only the index on live requests has hashes in it: one over all rows would cost most of the speed of a
// large store. The small recent_endings are kept by their key.
func TestIndexesOnHashes(t *testing.T) {
	d := open(t, Options{})
	var with []string
	update(t, d, func(x approval.Tx) error {
		s := x.(*tx).c.Prepare(
			`SELECT DISTINCT m.name || '.' || i.name, i.origin FROM sqlite_schema m, pragma_index_list(m.name) i, pragma_index_xinfo(i.name) c
  WHERE m.type = 'table' AND c.name = 'args_hash' AND c.key`)
		defer s.Finalize()
		for s.Step() {
			with = append(with, s.ColumnText()+" "+s.ColumnText())
		}
		return s.Err()
	})
	want := []string{"approval_requests.approval_requests_live c", "recent_endings.sqlite_autoindex_recent_endings_1 pk"}
	if !reflect.DeepEqual(with, want) {
		t.Errorf("indexes with args_hash: %q, want %q", with, want)
	}
}

// What the engine itself reads it finds by an index, or in the one row of the state.
func TestPlansOfTheEnginesOwn(t *testing.T) {
	d := open(t, Options{})
	view(t, d, func(x approval.Tx) error {
		for _, q := range []sqlite3.Query{loadState, saveState, loadNewest, readNothing} {
			s := x.(*tx).c.Prepare("EXPLAIN QUERY PLAN " + queries[q])
			p := ""
			for s.Step() {
				s.ColumnInt()
				s.ColumnInt()
				s.ColumnInt()
				p += s.ColumnText() + "; "
			}
			if s.Err() != nil || strings.Contains(p, "TEMP B-TREE") || strings.Contains(p, "SCAN") &&
				!strings.Contains(p, "USING") && !strings.Contains(p, "store_state") {
				t.Errorf("%s %v\nfor %s", p, s.Err(), queries[q])
			}
			s.Finalize()
		}
		return nil
	})
}

// The state's columns are its table's, but for what is of rows that were moved.
func TestTheStateHasTheColumnsOfItsTable(t *testing.T) {
	d := open(t, Options{})
	view(t, d, func(x approval.Tx) error {
		s := x.(*tx).c.Prepare(`SELECT group_concat(name, ', ') FROM (SELECT name FROM pragma_table_info('store_state')
  WHERE name NOT IN ('one', 'moved_to', 'disorder_ms') ORDER BY name)`)
		defer s.Finalize()
		want := strings.Split(stateColumns, ", ")
		slices.Sort(want)
		if s.Step(); s.Err() != nil || s.ColumnText() != strings.Join(want, ", ") {
			t.Errorf("store_state has not the columns %q, %v", want, s.Err())
		}
		return nil
	})
}
