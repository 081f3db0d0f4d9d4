package approval_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
	"countersign/internal/testkit"
)

// sent is transfer by a caller who sends it on itself.
var sent = func() approval.Call { c := transfer; c.Dispatch = true; return c }()

// dispatch has a call approved and let through.
func (w *world) dispatch(c approval.Call) string {
	w.t.Helper()
	id := w.expect(c, approval.AnswerPending).Request.ID
	w.mustDecide(id, true, hana, "")
	w.expect(c, approval.AnswerApproved)
	return id
}

func (w *world) report(id string, ran approval.RunResult) error {
	_, err := w.gate.Report(w.ctx, bot, id, ran)
	return err
}

func TestDispatchIsOnRecordWithTheUse(t *testing.T) {
	w := newWorld(t)
	id := w.expect(sent, approval.AnswerPending).Request.ID
	w.mustDecide(id, true, hana, "")
	w.clock.advance(time.Minute)
	out := w.expect(sent, approval.AnswerApproved).Request
	r := w.request(id)
	if at := start.Add(time.Minute); !r.ConsumedAt.Equal(at) || !r.DispatchedAt.Equal(at) || r.RunResult != "" {
		t.Errorf("stored %+v", r)
	}
	if !reflect.DeepEqual(*out, r) {
		t.Errorf("told %+v, stored %+v", *out, r)
	}
	other := call(`{"amount_cents":1}`)
	if r := w.request(w.dispatch(other)); !r.DispatchedAt.IsZero() || r.ConsumedAt.IsZero() {
		t.Errorf("one that its agent runs itself: %+v", r)
	}
}

func TestDispatchByAWaiterIsOnRecord(t *testing.T) {
	w := newWorld(t)
	first := w.expect(sent, approval.AnswerPending)
	w.mustDecide(first.Request.ID, true, hana, "")
	out, err := w.holdOn(sent, first, time.Minute)
	if err != nil || out.Kind != approval.AnswerApproved {
		t.Fatalf("got %+v, %v", out, err)
	}
	if r := w.request(first.Request.ID); !r.DispatchedAt.Equal(start) {
		t.Errorf("stored %+v", r)
	}
}

// Waiting for what waits for nobody gives the first answer back.
func TestWaitOnlyForWhatIsPending(t *testing.T) {
	w := newWorld(t)
	for _, first := range []approval.Answer{{Kind: approval.AnswerAllow, Message: "m"}, {Kind: approval.AnswerDenied,
		Request: &approval.Request{ID: "x"}}, {Kind: approval.AnswerPending}} {
		out, err := w.holdOn(sent, first, time.Hour)
		if err != nil || out.Kind != first.Kind || out.Message != first.Message {
			t.Errorf("got %+v, %v, want %+v", out, err, first)
		}
	}
	if n := len(w.trail()); n != 0 {
		t.Errorf("%d events", n)
	}
}

func TestReport(t *testing.T) {
	w := newWorld(t)
	id := w.dispatch(sent)
	kept := w.dispatch(call(`{"amount_cents":1}`))
	for _, c := range []struct {
		name string
		who  approval.Actor
		id   string
		ran  approval.RunResult
		code approval.Code
		is   approval.RunResult
	}{
		{"no such outcome", bot, id, "maybe", approval.CodeInvalidParameter, ""},
		{"no outcome", bot, id, "", approval.CodeInvalidParameter, ""},
		{"no such request", bot, "01ARZ3NDEKTSV4RRFFQ69G5FAV", approval.RunFailed, approval.CodeNotFound, ""},
		{"another's", approval.Actor{Kind: approval.Agent, Name: "other"}, id, approval.RunFailed, approval.CodeNotFound, ""},
		{"a person", hana, id, approval.RunFailed, approval.CodeNotFound, ""},
		{"a person of the agent's name", approval.Actor{Kind: approval.Human, Name: "bot"}, id, approval.RunFailed,
			approval.CodeNotFound, ""},
		{"the agent ran it itself", bot, kept, approval.RunFailed, approval.CodeInvalidParameter, ""},
		{"nothing came back", bot, id, approval.RunUnknown, "", approval.RunUnknown},
		{"still", bot, id, approval.RunUnknown, "", approval.RunUnknown},
		{"it did, after all", bot, id, approval.RunSucceeded, "", approval.RunSucceeded},
		{"again", bot, id, approval.RunSucceeded, "", approval.RunSucceeded},
		{"otherwise", bot, id, approval.RunFailed, approval.CodeAlreadyResolved, approval.RunSucceeded},
		{"unknown again", bot, id, approval.RunUnknown, approval.CodeAlreadyResolved, approval.RunSucceeded},
	} {
		r, err := w.gate.Report(w.ctx, c.who, c.id, c.ran)
		if got := approval.CodeOf(err); got != c.code {
			t.Errorf("%s: got %q (%v), want %q", c.name, got, err, c.code)
		}
		if c.code == approval.CodeNotFound && r.ID != "" {
			t.Errorf("%s: told of %+v", c.name, r)
		}
		if c.code == "" && !reflect.DeepEqual(r, w.request(id)) {
			t.Errorf("%s: told %+v, stored %+v", c.name, r, w.request(id))
		}
		if got := w.request(id).RunResult; got != c.is {
			t.Errorf("%s: stored as %q, want %q", c.name, got, c.is)
		}
	}
	es, err := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Type: approval.EventCallOutcome, Ascending: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range es {
		got = append(got, fmt.Sprint(e.Actor, " ", e.ApprovalID == id, " ", e.Agent, " ", e.Tool, " ", e.Reason))
	}
	if want := []string{"agent:bot true bot transfer_credits unknown",
		"agent:bot true bot transfer_credits succeeded"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReportersRace(t *testing.T) {
	w := newWorld(t)
	id := w.dispatch(sent)
	words := []approval.RunResult{approval.RunSucceeded, approval.RunFailed}
	var wg sync.WaitGroup
	var mu sync.Mutex
	told := map[approval.RunResult]bool{}
	for i := range 32 {
		wg.Go(func() {
			ran := words[i%2]
			err := w.report(id, ran)
			if err != nil && approval.CodeOf(err) != approval.CodeAlreadyResolved {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				told[ran] = true
			}
		})
	}
	testkit.Wait(t, "all who report", wg.Wait)
	if ran := w.request(id).RunResult; len(told) != 1 || !told[ran] || w.count("call_outcome") != 1 {
		t.Errorf("told %v, stored %q, %d events", told, ran, w.count("call_outcome"))
	}
}

// The next call of the same key says what came of the last one, also while a denial is remembered with it.
func TestTheNextRequestSaysWhatCameOfTheLast(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *world, id string) error
		want approval.RunResult
	}{
		{"nobody said", func(*world, string) error { return nil }, ""},
		{"nothing came back", func(w *world, id string) error { return w.report(id, approval.RunUnknown) },
			approval.RunUnknown},
		{"failed", func(w *world, id string) error { return w.report(id, approval.RunFailed) }, approval.RunFailed},
		{"the gate restarted", func(w *world, _ string) error { _, err := w.gate.Orphaned(w.ctx, ""); return err },
			approval.RunUnknown},
		{"it restarted, and then its wrapper said", func(w *world, id string) error {
			_, err := w.gate.Orphaned(w.ctx, "")
			if err != nil {
				return err
			}
			return w.report(id, approval.RunSucceeded)
		}, approval.RunSucceeded},
		{"denied since", func(w *world, id string) error {
			w.mustDecide(w.expect(sent, approval.AnswerPending).Request.ID, false, hana, "not now")
			defer w.clock.advance(10 * time.Minute)
			err := w.report(id, approval.RunFailed)
			w.expect(sent, approval.AnswerDenied) // the denial is remembered still
			return err
		}, approval.RunFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			id := w.dispatch(sent)
			if err := c.do(w, id); err != nil {
				t.Fatal(err)
			}
			want := &approval.Use{RequestID: id, ApprovedBy: "hana", ApprovedAt: start, ConsumedAt: start, DispatchedAt: start,
				RunResult: c.want}
			next := w.expect(sent, approval.AnswerPending).Request
			if got := w.request(next.ID).Previous; !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// An outcome that comes late is not taken for that of a later use.
func TestAnOldReportLeavesTheLastUseAlone(t *testing.T) {
	w := newWorld(t)
	old := w.dispatch(sent)
	newer := w.dispatch(sent)
	if err := w.report(old, approval.RunSucceeded); err != nil {
		t.Fatal(err)
	}
	if got := w.expect(sent, approval.AnswerPending).Request.Previous; got.RequestID != newer || got.RunResult != "" {
		t.Errorf("got %+v", got)
	}
}

func TestOrphaned(t *testing.T) {
	w := newWorld(t)
	w.policy(func(approval.Call) approval.Verdict { return quarantine(approval.RiskHigh) })
	var ids []string
	for i := range 70 { // more than one transaction's
		c := call(fmt.Sprintf(`{"amount_cents":%d}`, i))
		c.Dispatch = true
		ids = append(ids, w.dispatch(c))
	}
	if err := w.report(ids[0], approval.RunFailed); err != nil {
		t.Fatal(err)
	}
	kept, waits := w.dispatch(call(`{"amount_cents":1000}`)), w.expect(sent, approval.AnswerPending).Request.ID
	for i, want := range []int{69, 0} { // the second time there is nothing to do
		if n, err := w.gate.Orphaned(w.ctx, ""); err != nil || n != want {
			t.Errorf("start %d: got %d, %v, want %d", i, n, err, want)
		}
		if n := w.count("call_outcome::unknown"); n != 69 {
			t.Errorf("start %d: %d events, want 69", i, n)
		}
	}
	for i, id := range ids {
		want := approval.RunUnknown
		if i == 0 {
			want = approval.RunFailed
		}
		if got := w.request(id).RunResult; got != want {
			t.Errorf("request %d is %q, want %q", i, got, want)
		}
	}
	for _, id := range []string{kept, waits} {
		if got := w.request(id).RunResult; got != "" {
			t.Errorf("what was not sent is %q", got)
		}
	}
}

// Where one of several programs is gone, what it has sent on is of unknown outcome, and nothing else: not what another
// program has sent on, nor what an agent sends itself, which may be there still.
func TestWhatAProgramThatIsGoneHasSentOnIsOfUnknownOutcome(t *testing.T) {
	w := newWorld(t)
	w.policy(func(approval.Call) approval.Verdict { return quarantine(approval.RiskHigh) })
	runners := []string{"gone", "there", ""}
	sentBy := map[string]string{}
	for i := range 3 * 70 { // more than one transaction's of each
		c := call(fmt.Sprintf(`{"amount_cents":%d}`, i))
		c.Dispatch, c.Runner = true, runners[i%3]
		sentBy[w.dispatch(c)] = c.Runner
	}
	for again, want := range []int{70, 0} {
		if n, err := w.gate.Orphaned(w.ctx, "gone"); err != nil || n != want {
			t.Errorf("look %d: got %d, %v, want %d", again, n, err, want)
		}
	}
	for id, runner := range sentBy {
		want := approval.RunResult("")
		if runner == "gone" {
			want = approval.RunUnknown
		}
		if r := w.request(id); r.RunResult != want || r.Runner != runner {
			t.Fatalf("what %q has sent on is %q by %q", runner, r.RunResult, r.Runner)
		}
	}
}

// Whoever sent a call may go without a word, as a wrapper that is killed does, while the gate lives on.
func TestACallThatNobodyCanBeWaitingForAnyMoreIsOfUnknownOutcome(t *testing.T) {
	w := newWorld(t)
	w.policy(func(approval.Call) approval.Verdict { return quarantine(approval.RiskHigh) })
	numbered := func(i int) approval.Call {
		c := call(fmt.Sprintf(`{"amount_cents":%d}`, i))
		c.Dispatch = true
		return c
	}
	var old []string
	for i := range 70 { // more than one transaction's
		old = append(old, w.dispatch(numbered(i)))
	}
	if err := w.report(old[1], approval.RunFailed); err != nil {
		t.Fatal(err)
	}
	kept := w.dispatch(call(`{"amount_cents":1000}`))
	w.clock.advance(time.Millisecond)
	young := w.dispatch(numbered(100))
	w.clock.advance(approval.LongestCall - 2*time.Millisecond)
	for _, step := range []struct {
		name string
		wait time.Duration
		want int
	}{{"a moment before", 0, 0}, {"at the time", time.Millisecond, 69}, {"again", 0, 0}} {
		w.clock.advance(step.wait)
		if n, err := w.gate.Overdue(w.ctx); err != nil || n != step.want {
			t.Errorf("%s: got %d, %v, want %d", step.name, n, err, step.want)
		}
	}
	for id, want := range map[string]approval.RunResult{old[0]: approval.RunUnknown, old[1]: approval.RunFailed,
		old[69]: approval.RunUnknown, young: "", kept: ""} {
		if got := w.request(id).RunResult; got != want {
			t.Errorf("request %s is %q, want %q", id, got, want)
		}
	}
	if n := w.count("call_outcome::unknown"); n != 69 {
		t.Errorf("%d events, want 69", n)
	}
	es, err := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Type: approval.EventCallOutcome})
	if err != nil || es[0].Actor != "system:timeout" {
		t.Errorf("got %+v, %v", es, err)
	}
	if u := w.expect(numbered(0), approval.AnswerPending).Request.Previous; u == nil ||
		u.RunResult != approval.RunUnknown {
		t.Errorf("the next card's last use: %+v", u)
	}
	if err := w.report(old[0], approval.RunSucceeded); err != nil { // after all
		t.Error(err)
	}
	if got := w.request(old[0]).RunResult; got != approval.RunSucceeded {
		t.Errorf("after a late report: %q", got)
	}
}

// A restart, at whatever point, loses neither that a call was sent nor what came of it.
func TestDispatchSurvivesARestart(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "again.db")
	w.open(path, rules{asks, terms})
	first := w.db
	id := w.dispatch(sent)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	w.open(path, rules{asks, terms})
	if r := w.request(id); !r.DispatchedAt.Equal(start) || r.RunResult != "" {
		t.Errorf("after the restart: %+v", r)
	}
	if n, err := w.gate.Orphaned(w.ctx, ""); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if out := w.expect(sent, approval.AnswerPending); out.Request.ID == id { // never let through again
		t.Errorf("got %+v", out)
	}
}

func TestTasksAreTakenUpAgain(t *testing.T) {
	w := newWorld(t)
	task := func(args string) approval.Call { c := call(args); c.Task = true; return c }
	pending := w.expect(task(`{"n":1}`), approval.AnswerPending).Request.ID
	approved := w.expect(task(`{"n":2}`), approval.AnswerPending).Request.ID
	w.mustDecide(approved, true, hana, "")
	w.mustDecide(w.expect(task(`{"n":3}`), approval.AnswerPending).Request.ID, false, hana, "")
	w.dispatch(task(`{"n":4}`))
	w.expect(call(`{"n":5}`), approval.AnswerPending)
	for agent, want := range map[string][]string{"bot": {pending, approved}, "": {pending, approved}, "other": nil} {
		rs, err := w.gate.Tasks(w.ctx, agent)
		var got []string
		for _, r := range rs {
			got = append(got, r.ID)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("agent %q: got %q, %v, want %q", agent, got, err, want)
		}
	}
	w.clock.advance(15 * time.Minute) // the approval has lapsed
	if rs, err := w.gate.Tasks(w.ctx, ""); err != nil || len(rs) != 1 || rs[0].ID != pending {
		t.Errorf("got %+v, %v", rs, err)
	}
}

func TestValidateMethodAndDigest(t *testing.T) {
	hex := fmt.Sprintf("%064x", 7)
	for _, c := range []struct {
		method, tool, digest string
		code                 approval.Code
	}{
		{"", "resources:read", "", ""},
		{"", "pay", hex, ""},
		{"resources/read", "resources:read", "", ""},
		{"completion/complete_all", "completion:complete_all", hex, ""},
		{"resources/read", "resources/read", "", approval.CodeInvalidTool},
		{"resources/read", "pay", "", approval.CodeInvalidTool},
		{"Resources/read", "Resources:read", "", approval.CodeInvalidParameter},
		{"resources read", "resources read", "", approval.CodeInvalidTool},
		{"resources\n", "resources", "", approval.CodeInvalidParameter},
		{"a2", "a2", "", approval.CodeInvalidParameter},
		{"", "pay", hex[1:], approval.CodeInvalidParameter},
		{"", "pay", hex[1:] + "G", approval.CodeInvalidParameter},
		{"", "pay", hex + "\n", approval.CodeInvalidParameter},
	} {
		err := approval.Call{Agent: "bot", Method: c.method, Tool: c.tool, ToolDigest: c.digest}.Validate()
		if got := approval.CodeOf(err); got != c.code {
			t.Errorf("%q %q %q: got %q (%v), want %q", c.method, c.tool, c.digest, got, err, c.code)
		}
	}
}
