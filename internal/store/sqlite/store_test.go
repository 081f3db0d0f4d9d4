package sqlite

import (
	"cmp"
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
	if crashing() || upgrading() || recordingUntilKilled() {
		return
	}
	goleak.VerifyTestMain(m)
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return open(t, Options{}) })
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
		ID: tx.NewID(), Agent: agent, Tool: tool, Args: []byte(`{}`), ArgsHash: strings.Repeat("a", 64), Risk: approval.RiskHigh,
		ReasonCode: "approval_required", HumanMessage: "Please look.", Status: approval.Pending, RequestedAt: now, ExpiresAt: now.Add(time.Hour),
	}
	if err := tx.InsertRequest(r); err != nil {
		return "", err
	}
	n := approval.Notification{
		ID: tx.NewID(), ApprovalID: r.ID, Channel: "line", Recipient: "U1", Kind: approval.KindRequest, Status: approval.Queued,
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
	return stored
}

// grouped runs fns in one group of the writer, in this order, and returns their errors.
func grouped(t testing.TB, d *DB, fns ...func(tx approval.Tx) error) []error {
	t.Helper()
	errs := make([]error, len(fns))
	began, goOn := make(chan struct{}), make(chan struct{})
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
	<-began
	for i, fn := range fns {
		wg.Go(func() { errs[i] = d.Update(t.Context(), approval.WholeStore(), fn) })
		testkit.Eventually(t, "it waits", func() bool { return len(d.writer.queue) > i })
	}
	close(goOn)
	wg.Wait()
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
	if len(c.Events) != 1 || c.Events[0].ApprovalID != id || c.Events[0].Seq != 1 || len(c.Queued) != 1 || !c.Deadline.Equal(deadline) {
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
		_, err := tx.Resolve(approval.Resolution{ID: id, Status: approval.Approved, At: tx.Now(), By: "hana", Via: approval.ViaAPI, UseBy: deadline})
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
				if err := d.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error { return second(create(tx, "bot", fmt.Sprint(i, "-", k))) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i, seq := range seqs {
		if seq != int64(i+1) {
			t.Fatalf("told of seq %d in place %d", seq, i+1)
		}
	}
	if len(seqs) != 200 {
		t.Errorf("told of %d events, want 200", len(seqs))
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
			r := approval.Request{Args: make([]byte, 1<<20), ID: tx.NewID(), Agent: "bot", Tool: "whole", ArgsHash: strings.Repeat("b", 64),
				Risk: approval.RiskLow, Status: approval.Pending, RequestedAt: tx.Now(), ExpiresAt: tx.Now()}
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
	began, goOn := make(chan struct{}), make(chan struct{})
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
	<-began
	gone, cancel := context.WithCancel(t.Context())
	start(gone, context.Canceled, func(approval.Tx) error { t.Error("ran"); return nil })
	start(t.Context(), nil, func(tx approval.Tx) error { return second(create(tx, "bot", "a")) })
	start(t.Context(), boom, func(tx approval.Tx) error { return errors.Join(second(create(tx, "bot", "b")), boom) })
	start(t.Context(), nil, func(tx approval.Tx) error { return second(create(tx, "bot", "c")) })
	cancel()
	close(goOn)
	wg.Wait()
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
		if writeErr := kept.PutRecent(approval.Key{}, approval.Recent{}); !errors.Is(readErr, errEnded) || !errors.Is(writeErr, errEnded) && !errors.Is(writeErr, approval.ErrReadOnly) {
			t.Errorf("a transaction of %s used later: %v, %v", what, readErr, writeErr)
		}
	}
}

func TestClosed(t *testing.T) {
	d := open(t, Options{})
	began, goOn := make(chan struct{}), make(chan struct{})
	results := make(chan error, 2)
	go func() {
		results <- d.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
			close(began)
			<-goOn
			return second(create(tx, "bot", "1"))
		})
	}()
	<-began
	go func() {
		results <- d.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error { return second(create(tx, "bot", "2")) })
	}()
	testkit.Eventually(t, "the second waits", func() bool { return len(d.writer.queue) > 0 })
	closing := make(chan error, 1)
	go func() { closing <- d.Close() }()
	testkit.Receive(t, "closing has begun", d.closing)
	close(goOn)
	for range 2 {
		if err := <-results; err != nil {
			t.Errorf("an update that was waiting when the store was closed: %v", err)
		}
	}
	if err := errors.Join(<-closing, d.Close()); err != nil {
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
			if _, err := tx.Resolve(approval.Resolution{ID: id, Status: approval.Denied, At: tx.Now(), By: "hana", Via: approval.ViaAPI}); err != nil {
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
			return v.fail(err)
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
		return v.fail(v.c.Exec(endlessRead))
	})
	if approval.CodeOf(err) != approval.CodeStoreUnavailable {
		t.Errorf("an endless read: %v", err)
	}
	view(t, d, func(tx approval.Tx) error { _, err := tx.Requests(approval.RequestQuery{}); return err }) // the connection still works

	began, goOn := make(chan struct{}), make(chan struct{})
	go func() {
		_ = d.View(t.Context(), func(approval.Tx) error { close(began); <-goOn; return nil })
	}()
	<-began
	ctx, cancel = contextWithTimeout(t, 10*time.Millisecond)
	defer cancel()
	if err := d.View(ctx, func(approval.Tx) error { t.Error("ran"); return nil }); approval.CodeOf(err) != approval.CodeStoreUnavailable {
		t.Errorf("no connection is free: %v", err)
	}
	close(goOn)
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
		s := x.(*tx).c.Prepare(`SELECT DISTINCT m.name || '.' || i.name, i.origin FROM sqlite_schema m, pragma_index_list(m.name) i, pragma_index_xinfo(i.name) c
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

// What is read often finds its rows by an index, and in the order it needs.
func TestPlans(t *testing.T) {
	d := open(t, Options{})
	view(t, d, func(x approval.Tx) error {
		v := x.(*tx)
		// a few rows, by id
		sorted := map[sqlite3.Query]bool{selectBatch: true, selectBatchHeads: true, selectSendable: true, selectDueSoon: true, selectVotes: true, selectDelegations: true, selectPendingCards: true}
		whole := map[string]bool{"SCAN epochs": true, "SCAN passkey_owners": true} // a few rows, read whole and by their key
		for i, sql := range queries {
			p := planOf(t, v.c, sql)
			if strings.Contains(p, "SCAN") && !strings.Contains(p, "USING") && !strings.Contains(p, "store_state") && !whole[p] && !strings.Contains(p, "CONSTANT ROW") ||
				strings.Contains(p, "TEMP B-TREE") && !sorted[sqlite3.Query(i)] {
				t.Errorf("%s\nfor %s", p, sql)
			}
		}
		// An agent may have opened any number of cards where its scope stands for a session.
		if p := planOf(t, v.c, queries[newestCard]); !strings.Contains(p, "(agent=? AND session=? AND turn=? AND scope=? AND grouping=?)") {
			t.Errorf("%s\nfor %s", p, queries[newestCard])
		}
		return nil
	})
}

// planOf is how SQLite answers a query.
func planOf(t *testing.T, c *sqlite3.Conn, sql string) string {
	t.Helper()
	s := c.Prepare("EXPLAIN QUERY PLAN " + sql)
	defer s.Finalize()
	var steps []string
	for s.Step() {
		s.ColumnInt()
		s.ColumnInt()
		s.ColumnInt()
		steps = append(steps, s.ColumnText())
	}
	if s.Err() != nil {
		t.Errorf("%v\nin %s", s.Err(), sql)
	}
	return strings.Join(steps, "; ")
}

// narrowing is a way to narrow a list: the fields of its query that it sets, and how.
type narrowing[Q any] struct {
	fields string
	set    func(q *Q)
}

// someOf calls f with each query that some of the ways narrow, at most most of them, and the names of what they set. A
// field that none of them sets, and that is not among the others, fails: it has to be found along some index too.
func someOf[Q any](t *testing.T, ways []narrowing[Q], most int, others string, f func(q Q, by []string)) {
	t.Helper()
	known := strings.Fields(others)
	for _, w := range ways {
		known = append(known, strings.Fields(w.fields)...)
	}
	for field := range reflect.TypeFor[Q]().Fields() {
		if !slices.Contains(known, field.Name) {
			t.Errorf("%s of %T is in no list that is looked at here", field.Name, *new(Q))
		}
	}
	var add func(q Q, by []string, from int)
	add = func(q Q, by []string, from int) {
		f(q, by)
		for i := from; i < len(ways) && len(by) < most; i++ {
			narrowed := q
			ways[i].set(&narrowed)
			add(narrowed, append(by[:len(by):len(by)], ways[i].fields), i+1)
		}
	}
	add(*new(Q), nil, 0)
}

// listPlan checks that a list is read along an index of its table, or else its key, from one row on that the query
// names: none is read whole, and none is sorted but where few are.
func listPlan(t *testing.T, c *sqlite3.Conn, l *list, a along, few bool) {
	t.Helper()
	sql := l.sql.String()
	for _, bound := range []string{"id < ", "id >= ", "seq < ", "seq >= "} { // SQLite begins where the first of several says
		if strings.Count(sql, " "+bound) > 1 {
			t.Errorf("more than one %sin %s", bound, sql)
		}
	}
	p := planOf(t, c, sql)
	main, _, _ := strings.Cut(p, ";")
	switch {
	case few && !strings.Contains(p, "SCAN"):
		return // by what they are about
	case a.index == "approval_notifications_sendable" && strings.Contains(main, "INDEX "+a.index):
		return // what waits to be sent, put into order
	case strings.Contains(p, "TEMP B-TREE"), strings.Contains(p, "SCAN"):
	case a.index == byKey && strings.Contains(main, "PRIMARY KEY (rowid>?"), strings.Contains(main, "INDEX "+a.index+" ("):
		return
	}
	t.Errorf("%s\nfor %s", p, sql)
}

// Every list is read along an index and in its order, whatever it is narrowed to; what no index finds is looked for
// from a reach on.
func TestListsAreReadAlongAnIndex(t *testing.T) {
	d := open(t, Options{})
	view(t, d, func(x approval.Tx) error {
		c := x.(*tx).c
		type rq = approval.RequestQuery
		status := func(s approval.Status) narrowing[rq] {
			return narrowing[rq]{"Status", func(q *rq) { q.Status = s }}
		}
		someOf(t, []narrowing[rq]{status(approval.Pending), status(approval.Approved), status(approval.Denied),
			status(approval.Expired), status(approval.Cancelled),
			{"Tool", func(q *rq) { q.Tool = "pay" }}, {"Tool", func(q *rq) { q.Tool = "bank/pay" }},
			{"Agent", func(q *rq) { q.Agent = "bot" }}, {"Risk", func(q *rq) { q.Risk = approval.RiskHigh }},
			{"Person", func(q *rq) { q.Person = "hana" }}, {"Text", func(q *rq) { q.Text = "pay" }},
			{"CorrelationID", func(q *rq) { q.CorrelationID = "c" }},
			{"Since Until", func(q *rq) { q.Since, q.Until = time.Now(), time.Now() }},
			{"After", func(q *rq) { q.After = "x" }}}, 4, "From Limit Bytes Figures", func(q rq, _ []string) {
			q.From = "y"
			listPlan(t, c, requestList(headList, q), requestsAlong(&q), false)
			q.After = cmp.Or(q.After, "z")
			listPlan(t, c, requestReach(q), requestsAlong(&q), false)
		})
		return nil
	})
}

func TestNotificationsAreReadAlongAnIndex(t *testing.T) {
	d := open(t, Options{})
	view(t, d, func(x approval.Tx) error {
		c := x.(*tx).c
		type nq = approval.NotificationQuery
		status := func(s approval.NotificationStatus) narrowing[nq] {
			return narrowing[nq]{"Status", func(q *nq) { q.Status = s }}
		}
		someOf(t, []narrowing[nq]{status(approval.Queued), status(approval.Retrying), status(approval.Sent),
			status(approval.Delivered), status(approval.Failed), status(approval.Skipped),
			{"ApprovalID", func(q *nq) { q.ApprovalID = "x" }}, {"BatchID", func(q *nq) { q.BatchID = "x" }},
			{"MessageID", func(q *nq) { q.MessageID = "x" }}, {"Channel", func(q *nq) { q.Channel = "c" }},
			{"Recipient", func(q *nq) { q.Recipient = "U1" }}, {"Channel Recipient", func(q *nq) { q.Channel, q.Recipient = "c", "U1" }},
			{"Addresses", func(q *nq) { q.Addresses = []approval.Address{{Channel: "c", To: "U1"}, {Channel: "c", To: "U2"}} }},
			{"Kind", func(q *nq) { q.Kind = approval.KindReply }}, {"Kind", func(q *nq) { q.Kind = approval.KindEdit }},
			{"Several", func(q *nq) { q.Several = true }},
			{"Since Until", func(q *nq) { q.Since, q.Until = time.Now(), time.Now() }},
			{"After", func(q *nq) { q.After = "x" }}}, 4, "From Narrow Limit Bytes", func(q nq, _ []string) {
			q.From = "y"
			l := notificationList("id, body", q)
			l.add(" ORDER BY " + notificationOrder(&q) + " DESC")
			listPlan(t, c, l, notificationsAlong(&q), ofFew(&q))
			if q.After = cmp.Or(q.After, "z"); !ofFew(&q) {
				listPlan(t, c, notificationReach(q), notificationsAlong(&q), false)
			}
		})
		return nil
	})
}

func TestEventsAreReadAlongAnIndex(t *testing.T) {
	d := open(t, Options{})
	view(t, d, func(x approval.Tx) error {
		c := x.(*tx).c
		type eq = approval.EventQuery
		of := func(e approval.EventType) narrowing[eq] { return narrowing[eq]{"Type", func(q *eq) { q.Type = e }} }
		someOf(t, []narrowing[eq]{of(approval.EventCallAllowed), of(approval.EventApprovalRequested),
			of(approval.EventNotificationSent), of(approval.EventDecision),
			{"Decision", func(q *eq) { q.Decision = "allow" }}, {"Decision", func(q *eq) { q.Decision = "deny" }},
			{"Risk", func(q *eq) { q.Risk = approval.RiskHigh }}, {"Tool", func(q *eq) { q.Tool = "pay" }},
			{"Agent", func(q *eq) { q.Agent = "bot" }}, {"Actor", func(q *eq) { q.Actor = "hana" }},
			{"ApprovalID", func(q *eq) { q.ApprovalID = "x" }}, {"CorrelationID", func(q *eq) { q.CorrelationID = "x" }},
			{"SessionID", func(q *eq) { q.SessionID = "x" }}, {"Told", func(q *eq) { q.Told = true }},
			{"Ascending", func(q *eq) { q.Ascending = true }}}, 4, "Since Until Before AfterSeq Limit Bytes", func(q eq, _ []string) {
			for _, to := range []int64{0, 9} {
				listPlan(t, c, eventList(eventColumns.names(), q, 3, to), eventsAlong(&q), false)
				if a := eventsAlong(&q); a.index != byKey {
					listPlan(t, c, eventReach(q, 3, to), a, false)
				}
			}
		})
		return nil
	})
}

// What matches little and has an index of its own is found along it.
func TestWhatMatchesLittleHasAnIndex(t *testing.T) {
	for want, got := range map[string]along{
		"approval_requests_pending":       requestsAlong(&approval.RequestQuery{Status: approval.Pending, Agent: "bot"}),
		"approval_requests_ended":         requestsAlong(&approval.RequestQuery{Status: approval.Denied, Tool: "pay"}),
		"approval_requests_correlation":   requestsAlong(&approval.RequestQuery{Status: approval.Denied, CorrelationID: "c"}),
		"approval_notifications_unsent":   notificationsAlong(&approval.NotificationQuery{Status: approval.Failed, Channel: "c"}),
		"approval_notifications_sendable": notificationsAlong(&approval.NotificationQuery{Channel: "c", Recipient: "U", Status: approval.Queued}),
		"approval_notifications_several": notificationsAlong(&approval.NotificationQuery{Channel: "c", Recipient: "U",
			Kind: approval.KindReply, Status: approval.Queued}),
		"audit_events_decision": eventsAlong(&approval.EventQuery{Type: approval.EventDecision, Decision: "timeout"}),
		"audit_events_type":     eventsAlong(&approval.EventQuery{Type: approval.EventDecision, Decision: "approve"}),
		"audit_events_agent":    eventsAlong(&approval.EventQuery{Told: true, Agent: "bot"}),
		byKey:                   eventsAlong(&approval.EventQuery{Type: approval.EventCallAllowed, Decision: "allow", Agent: "bot"}),
	} {
		if got.index != want {
			t.Errorf("along %q, want %q", got.index, want)
		}
	}
}

// Each table's description and the table itself have the same columns. What a query names beside is no row's.
func TestColumnsAreTheTables(t *testing.T) {
	d := open(t, Options{})
	described := map[string]string{
		"approval_requests":      requestColumns.names(),
		"approval_notifications": notificationColumns.names(),
		"audit_events":           eventColumns.names(),
		"recent_endings":         keyColumns + ", " + recentColumns.names() + ", newest",
		"tool_pins":              pinColumns.names(),
		"approval_votes":         "request, nth, " + voteColumns.names(),
		"delegations":            delegationColumns.names(),
		"epochs":                 epochColumns.names(),
		"policies":               "digest, source",
		"grants":                 grantColumns.names(),
		"grant_uses":             grantUseColumns.names(),
		"said":                   "agent, server, tool_name, " + saidColumns.names(),
		"signin_links":           linkColumns.names(),
		"signin_sessions":        sessionColumns.names(),
		"passkey_owners":         passkeyOwnerColumns.names(),
		"passkeys":               passkeyColumns.names(),
		"store_state":            "one, " + stateColumns.names(),
	}
	view(t, d, func(x approval.Tx) error {
		for table, names := range described {
			s := x.(*tx).c.Cached(`SELECT name FROM pragma_table_info($1)`).BindText(table)
			var have []string
			for s.Step() {
				have = append(have, s.ColumnText())
			}
			if _, err := s.Finish(); err != nil {
				return err
			}
			want := strings.Split(names, ", ")
			slices.Sort(have)
			slices.Sort(want)
			if !slices.Equal(have, want) {
				t.Errorf("%s has %v, its description %v", table, have, want)
			}
		}
		return nil
	})
}

// Every field of a row has a column of its own: one that was forgotten, or stood twice, would be lost.
func TestEveryFieldHasAColumn(t *testing.T) {
	everyFieldHasAColumn(t, requestColumns, "Votes")       // rows of their own
	everyFieldHasAColumn(t, notificationColumns, "Narrow") // which says what was read
	everyFieldHasAColumn(t, eventColumns)
	everyFieldHasAColumn(t, recentColumns)
	everyFieldHasAColumn(t, pinColumns)
	everyFieldHasAColumn(t, voteColumns)
	everyFieldHasAColumn(t, delegationColumns)
	everyFieldHasAColumn(t, epochColumns)
	everyFieldHasAColumn(t, grantColumns)
	everyFieldHasAColumn(t, grantUseColumns)
	everyFieldHasAColumn(t, linkColumns)
	everyFieldHasAColumn(t, sessionColumns)
	everyFieldHasAColumn(t, saidColumns, "Args") // of its request
}

// fieldsOf are the fields of a row, those of what it embeds instead of that.
func fieldsOf[R any]() []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[R]()), func(f reflect.StructField) bool { return f.Anonymous })
}

// everyFieldHasAColumn lets each column write into an empty row, and sees which field it was.
func everyFieldHasAColumn[R any](t *testing.T, cs columns[R], except ...string) {
	t.Helper()
	d := open(t, Options{})
	seen := map[string]string{}
	view(t, d, func(x approval.Tx) error {
		for _, c := range cs {
			for _, sample := range []string{`'2026-11-21T12:00:00.000Z'`, `1`, `'approve'`, `'["x"]'`, `'[{"key":"k"}]'`, `'{}'`, `'{"any_args":true}'`} {
				var r R
				s := x.(*tx).c.Cached(`SELECT ` + sample)
				s.Step()
				c.scan(s, &r)
				if _, err := s.Finish(); err != nil {
					continue // of another kind
				}
				for _, f := range fieldsOf[R]() {
					if !reflect.ValueOf(r).FieldByIndex(f.Index).IsZero() {
						if was, ok := seen[f.Name]; ok && was != c.name {
							t.Errorf("%s is stored in %s and in %s", f.Name, was, c.name)
						}
						seen[f.Name] = c.name
					}
				}
			}
		}
		return nil
	})
	for _, f := range fieldsOf[R]() {
		if name := f.Name; seen[name] == "" && !slices.Contains(except, name) {
			t.Errorf("%v.%s has no column", reflect.TypeFor[R](), name)
		}
	}
	if len(seen) != len(cs) {
		t.Errorf("%d columns for %d fields of %v", len(cs), len(seen), reflect.TypeFor[R]())
	}
}
