package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/approval"
	"countersign/internal/testkit"
)

func allowedCall(tool string) approval.Event {
	return approval.Event{Type: approval.EventCallAllowed, Actor: "agent:bot", Agent: "bot", Tool: tool,
		Data: []byte(`{"a":1}`)}
}

func logged(t *testing.T, d *DB, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if !d.RecordAllowed(approval.AllowedCall{}, allowedCall(tool)) {
			t.Fatalf("%s was not put on record", tool)
		}
	}
}

// recordOne commits the record of one allowed call as a group that takes in the event log does.
func recordOne(t *testing.T, d *DB, tool string) {
	t.Helper()
	err := d.writer.update(t.Context(), func(tx approval.Tx) error {
		_, err := tx.Append(approval.Event{Type: approval.EventCallAllowed, Agent: "bot", Tool: tool})
		return err
	}, recorded)
	if err != nil {
		t.Fatal(err)
	}
}

func wantTools(t *testing.T, d *DB, want string) {
	t.Helper()
	if got, _ := toolsIn(t, d); got != want {
		t.Errorf("on record are %q, want %q", got, want)
	}
}

// toolsIn are the tools of the events, which are checked to have seqs, ids and times that grow.
func toolsIn(t *testing.T, d *DB) (tools string, es []approval.Event) {
	t.Helper()
	view(t, d, func(tx approval.Tx) (err error) {
		es, err = tx.Events(approval.EventQuery{Ascending: true})
		return err
	})
	for i, e := range es {
		if e.Type != approval.EventAuditGap {
			tools += " " + e.Tool
		}
		if i > 0 && (e.Seq <= es[i-1].Seq || e.ID <= es[i-1].ID || e.At.Before(es[i-1].At)) {
			t.Errorf("%d %s %s comes after %d %s %s", e.Seq, e.ID, e.At, es[i-1].Seq, es[i-1].ID, es[i-1].At)
		}
	}
	return strings.TrimSpace(tools), es
}

// dies returns the store as the death of the process leaves it.
func dies(t *testing.T, d *DB) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "store.db")
	for _, suffix := range []string{"", "-wal", eventLogSuffix} {
		b, err := os.ReadFile(d.path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// holdsOff has nothing taken in until it is asked for.
func holdsOff(d *DB) {
	d.events.mu.Lock()
	defer d.events.mu.Unlock()
	d.events.takeIn(time.Hour)
	d.events.timer.Stop()
}

func TestRule11_AnEventIsOnRecordForAllThatReadsIt(t *testing.T) {
	d := open(t, Options{})
	logged(t, d, "a")
	wantTools(t, d, "a")
	logged(t, d, "b", "c")
	update(t, d, func(tx approval.Tx) error { // and for a transaction
		_, newest, err := tx.SeqRange()
		if err != nil || newest != 3 {
			t.Errorf("the newest is %d, %v", newest, err)
		}
		_, err = tx.Append(approval.Event{Type: approval.EventDecision, Tool: "d"})
		return err
	})
	logged(t, d, "e")
	recordOne(t, d, "f")
	wantTools(t, d, "a b c d e f")
	_, es := toolsIn(t, d)
	got, want := es[0], allowedCall("a")
	want.ID, want.Seq, want.At = got.ID, 1, got.At
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEventsAreTakenInSoonAndToldOf(t *testing.T) {
	told := make(chan approval.Commit, 10)
	d := open(t, Options{OnCommit: func(c approval.Commit) { told <- c }})
	logged(t, d, "a", "b")
	if c := testkit.Receive(t, "a commit", told); len(c.Events) != 2 || c.Events[1].Tool != "b" || c.Events[1].Seq != 2 {
		t.Errorf("told of %+v", c)
	}
	if n := d.events.count.Load(); n != 0 {
		t.Errorf("%d still wait", n)
	}
}

// Whenever the process dies, each event is on record once.
func TestRule11_ADeathOfTheProcessLosesNoEventAndDoublesNone(t *testing.T) {
	m := newMachine()
	d := open(t, Options{Now: m.now, Elapsed: m.count})
	var want []string
	for i := range testkit.Rounds(16, 40) { // what is done repeats after eight
		name := fmt.Sprint("t", i)
		want = append(want, name)
		logged(t, d, name)
		switch i % 4 {
		case 1:
			recordOne(t, d, name+"r") // takes in what waits, into which half ever it was written
			want = append(want, name+"r")
		case 3:
			if i%8 == 3 {
				holdsOff(d)
			}
		}
		after := open(t, Options{Path: dies(t, d)})
		wantTools(t, after, strings.Join(want, " "))
		if gaps := gapsIn(t, after); len(gaps) > 0 || len(after.Problems()) > 0 { // what is of an earlier use is no damage
			t.Errorf("after a death of the process it is told %q, %q", gaps, after.Problems())
		}
		logged(t, after, "next")
		wantTools(t, after, strings.Join(want, " ")+" next")
		again := open(t, Options{Path: dies(t, after)})
		wantTools(t, again, strings.Join(want, " ")+" next")
	}
}

// It is so, too, where the process is really killed, between any two steps of a group.
func TestRule11_KilledWithEventsInTheLog(t *testing.T) {
	for _, point := range []string{"before-begin", "before-commit", "after-commit"} {
		path := filepath.Join(t.TempDir(), "store.db")
		cmd := testkit.Command(t, os.Args[0])
		cmd.Env = append(os.Environ(), "COUNTERSIGN_CRASH_EVENTS="+path, "COUNTERSIGN_CRASH_POINT="+point)
		out, err := cmd.Output()
		if err == nil {
			t.Fatalf("%s: the child was not killed: %s", point, out)
		}
		answered := strings.Fields(string(out))
		if len(answered) < 100 {
			t.Fatalf("%s: the child says %q", point, out)
		}
		got, _ := toolsIn(t, open(t, Options{Path: path}))
		tools := strings.Fields(got)
		if len(tools) < len(answered) || !slices.Equal(tools[:len(answered)], answered) || len(tools) > len(answered)+1 {
			t.Errorf("%s: %d were answered and %d are on record: %q", point, len(answered), len(tools), got)
		}
	}
}

// recordingUntilKilled makes this process the child of the test above, if it was started as that.
func recordingUntilKilled() bool {
	path := os.Getenv("COUNTERSIGN_CRASH_EVENTS")
	if path == "" {
		return false
	}
	point, passed := os.Getenv("COUNTERSIGN_CRASH_POINT"), 0
	d, err := Open(context.Background(), Options{Path: path, Failpoint: func(name string) {
		if name == point {
			if passed++; passed == 5 {
				kill()
			}
		}
	}})
	if err != nil {
		fmt.Println("open:", err)
		return true
	}
	for i := range 100_000 {
		tool := fmt.Sprint("t", i)
		testkit.Eventually(log.Default(), "the event is taken", func() bool {
			return d.RecordAllowed(approval.AllowedCall{}, allowedCall(tool))
		})
		os.Stdout.WriteString(tool + "\n")
	}
	return true
}

// A function of a group that fails does not take along what the group has taken in.
func TestEventsOutliveAFunctionThatFails(t *testing.T) {
	boom := errors.New("boom")
	for _, beside := range []int{0, 1} {
		d := open(t, Options{})
		logged(t, d, "a", "b")
		fails := func(tx approval.Tx) error { return errors.Join(second(create(tx, "bot", "pay")), boom) }
		fine := func(tx approval.Tx) error { return second(create(tx, "bot", fmt.Sprint("beside", beside))) }
		errs := grouped(t, d, append([]func(approval.Tx) error{fails},
			slices.Repeat([]func(approval.Tx) error{fine}, beside)...)...)
		if !errors.Is(errs[0], boom) || errors.Join(errs[1:]...) != nil {
			t.Errorf("got %v", errs)
		}
		wantTools(t, d, "a b")
		view(t, d, func(tx approval.Tx) error {
			rs, err := tx.Requests(approval.RequestQuery{})
			if len(rs) != beside {
				t.Errorf("%d requests, want %d", len(rs), beside)
			}
			return err
		})
		wantTools(t, open(t, Options{Path: dies(t, d)}), "a b")
	}
}

// bigCall is an allowed call whose record takes several pages.
func bigCall(tool string) approval.Event {
	e := allowedCall(tool)
	e.Data = []byte(`{"a":"` + strings.Repeat("x", 10_000) + `"}`)
	return e
}

// Once the store could not commit no event is taken; what was is not lost.
func TestRule3_AStoreThatCannotCommitTakesNoEvent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	d, err := Open(t.Context(), Options{Path: path, pragmas: []string{"max_page_count = 200"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; d.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
		return second(create(tx, "bot", fmt.Sprint(i)))
	}) == nil; i++ {
	}
	d.events.stalled.Store(false) // as before the failure
	const taken = 10
	record := sync.OnceFunc(func() { // nobody takes them in meanwhile
		for i := range taken {
			if !d.RecordAllowed(approval.AllowedCall{}, bigCall(fmt.Sprint("t", i))) {
				t.Errorf("t%d was not taken", i)
			}
		}
	})
	err = d.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
		record()
		return second(create(tx, "bot", "pay"))
	})
	if approval.CodeOf(err) != approval.CodeStoreUnavailable {
		t.Fatal(err)
	}
	if d.RecordAllowed(approval.AllowedCall{}, allowedCall("t")) {
		t.Error("an event was taken after the failure")
	}
	err = d.View(t.Context(), func(tx approval.Tx) error { return second(tx.Events(approval.EventQuery{Limit: 1})) })
	if approval.CodeOf(err) != approval.CodeStoreUnavailable {
		t.Errorf("a reader: %v", err)
	}
	if err := d.Close(); err == nil || !strings.Contains(err.Error(), eventLogSuffix) {
		t.Errorf("closed with %v", err)
	}
	d = open(t, Options{Path: path})
	view(t, d, func(tx approval.Tx) error {
		es, err := tx.Events(approval.EventQuery{Type: approval.EventCallAllowed, Ascending: true})
		for i, e := range es {
			if want := fmt.Sprint("t", i); e.Tool != want {
				t.Errorf("%s is on record in the place of %s", e.Tool, want)
			}
		}
		if len(es) != taken {
			t.Errorf("%d are on record of %d", len(es), taken)
		}
		return err
	})
	logged(t, d, "again")
}

// Whatever failed, only a commit that has written something shows that the store can commit again.
func TestRule3_NoEventIsTakenAfterAFailureUntilACommit(t *testing.T) {
	for name, fail := range map[string]func(*DB) error{
		"a function that met the failure": func(d *DB) error {
			return d.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error { return big(tx, "too big") })
		},
		"a lost transaction": func(d *DB) error {
			return d.Update(t.Context(), approval.WholeStore(), func(x approval.Tx) error {
				return errors.Join(second(create(x, "bot", "lost")), x.(*tx).rollbackForTest())
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, Options{pragmas: []string{"max_page_count = 200"}})
			if err := fail(d); approval.CodeOf(err) != approval.CodeStoreUnavailable {
				t.Fatal(err)
			}
			wantNone := func(when string) {
				t.Helper()
				if d.RecordAllowed(approval.AllowedCall{}, allowedCall("b")) {
					t.Errorf("an event was taken %s", when)
				}
			}
			wantNone("after the failure")
			update(t, d, func(tx approval.Tx) error { return second(tx.Requests(approval.RequestQuery{})) })
			wantNone("after a commit that wrote nothing")
			update(t, d, func(tx approval.Tx) error { return second(create(tx, "bot", "pay")) })
			logged(t, d, "c")
		})
	}
}

// held has the writer held up until it is let go, which says what became of it.
func held(t *testing.T, d *DB) (letGo func() error) {
	t.Helper()
	began, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	let := sync.OnceFunc(func() { close(release) })
	t.Cleanup(let) // or the store would wait for it to be closed
	go func() {
		done <- d.Update(t.Context(), approval.WholeStore(), func(approval.Tx) error { close(began); <-release; return nil })
	}()
	testkit.Receive(t, "the function that holds up the writer", began)
	return func() error { let(); return testkit.Receive(t, "its end", done) }
}

// What holds up the writer holds up what is put on record: it would be longer and longer before it is on the disk.
func TestRule11_NothingIsPutBehindEventsThatAreStuck(t *testing.T) {
	m := newMachine()
	d := open(t, Options{Now: m.now, Elapsed: m.count})
	letGo := held(t, d)
	logged(t, d, "a")
	m.pass(stuckAfter)
	logged(t, d, "b")
	m.pass(time.Millisecond)
	if d.RecordAllowed(approval.AllowedCall{}, allowedCall("c")) {
		t.Error("one more was taken")
	}
	if err := letGo(); err != nil {
		t.Fatal(err)
	}
	wantTools(t, d, "a b")
	m.pass(time.Hour)
	logged(t, d, "d")
	wantTools(t, d, "a b d")
}

// The log holds what it has room for, and is there for more once that is taken in.
func TestTheEventLogIsBounded(t *testing.T) {
	m := newMachine()
	d := open(t, Options{Now: m.now, Elapsed: m.count})
	letGo := held(t, d)
	n := 0
	for ; d.RecordAllowed(approval.AllowedCall{}, bigCall("big")); n++ {
	}
	if n < 50 || n > 2*halfBytes/10_000 {
		t.Errorf("it took %d", n)
	}
	if err := letGo(); err != nil {
		t.Fatal(err)
	}
	_, es := toolsIn(t, d)
	if len(es) != n {
		t.Errorf("%d are on record, want %d", len(es), n)
	}
	logged(t, d, "small")
}

// What cannot be written is refused, and said once.
func TestAnEventLogThatCannotBeWritten(t *testing.T) {
	said := &testkit.Buffer{}
	d := open(t, Options{Logger: slog.New(slog.NewTextHandler(said, nil))})
	logged(t, d, "a")
	file := d.events.file
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	d.events.file = closed
	for range 3 {
		if d.RecordAllowed(approval.AllowedCall{}, allowedCall("b")) {
			t.Error("it was taken")
		}
	}
	d.events.file = file
	logged(t, d, "c")
	wantTools(t, d, "a c")
	if n := strings.Count(said.String(), "event log"); n != 1 {
		t.Errorf("said %d times: %s", n, said)
	}
}

func TestAClosedStoreLeavesNoEventLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	d := open(t, Options{Path: path})
	logged(t, d, "a", "b")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d.RecordAllowed(approval.AllowedCall{}, allowedCall("c")) {
		t.Error("a closed store took an event")
	}
	if _, err := os.Stat(path + eventLogSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the log is left: %v", err)
	}
	wantTools(t, open(t, Options{Path: path}), "a b")
}

// An older database than the log is of: what it does not have comes into it, once.
func TestALogThatIsNewerThanTheDatabase(t *testing.T) {
	d := open(t, Options{})
	logged(t, d, "a")
	wantTools(t, d, "a")
	old := dies(t, d)
	logged(t, d, "b")
	wantTools(t, d, "a b")
	logged(t, d, "c")
	newer := dies(t, d)
	if err := os.Rename(newer+eventLogSuffix, old+eventLogSuffix); err != nil {
		t.Fatal(err)
	}
	after := open(t, Options{Path: old})
	wantTools(t, after, "a b c")
	logged(t, after, "d")
	wantTools(t, open(t, Options{Path: dies(t, after)}), "a b c d")
}

// Every field of an event comes back, but for those that the store gives.
func TestAFrameHasAllOfAnEvent(t *testing.T) {
	var e approval.Event
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		switch name := v.Type().Field(i).Name; name {
		case "ID", "Seq": // the store's
		case "At":
			e.At = time.UnixMilli(1_790_000_000_123).UTC()
		case "Data":
			e.Data = []byte(`{"x":"\u0000"}`)
		default:
			v.Field(i).SetString(name + "\x00\xff é")
		}
	}
	for _, want := range []loggedEvent{{7, e}, {8, approval.Event{At: e.At}}} {
		got, err := readEvent(appendFrame(nil, want.position, &want.event)[frameHead:])
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

func BenchmarkRecordEvent(b *testing.B) {
	d := open(b, Options{})
	e := allowedCall("up/echo")
	e.Data = []byte(`{"args":"` + strings.Repeat("lorem ipsum ", 48) + `"}`)
	b.ReportAllocs()
	for b.Loop() {
		if !d.RecordAllowed(approval.AllowedCall{}, e) {
			testkit.Eventually(b, "the event is taken", func() bool { return d.RecordAllowed(approval.AllowedCall{}, e) })
		}
	}
}

// What came into the log while the group of a freeze ran is taken in before the freeze, once, whatever becomes of that.
func TestRule11_AFreezeComesAfterWhatIsInTheLog(t *testing.T) {
	boom := errors.New("boom")
	freeze := func(d *DB, err error) func(approval.Tx) error {
		return func(tx approval.Tx) error {
			logged(t, d, "a")
			_, failed := tx.Append(approval.Event{Type: approval.EventFrozen, Tool: "frozen"})
			logged(t, d, "b")
			return errors.Join(failed, err)
		}
	}
	for _, beside := range []int{0, 1} {
		d := open(t, Options{})
		fine := slices.Repeat([]func(approval.Tx) error{
			func(tx approval.Tx) error { return second(create(tx, "bot", "pay")) }}, beside)
		_ = grouped(t, d, append(fine, freeze(d, boom))...)
		got, _ := toolsIn(t, d)
		if err := d.Update(t.Context(), approval.WholeStore(), freeze(d, nil)); err != nil {
			t.Fatal(err)
		}
		wantTools(t, d, got+" a frozen b")
		wantTools(t, open(t, Options{Path: dies(t, d)}), got+" a frozen b")
	}
}
