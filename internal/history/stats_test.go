package history_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/history"
	"countersign/internal/store/sqlite"
	"countersign/schema/schematest"
)

func stats(t *testing.T, r history.Reader, q history.Query) history.Report {
	t.Helper()
	if q.NameOf == nil {
		q.NameOf = func(a approval.Address) string { return map[string]string{"U1": "hana"}[a.To] }
	}
	report, err := history.Stats(t.Context(), r, q)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got\n%+v, want\n%+v", what, got, want)
	}
}

func TestStatsCountWhatBecameOfWhatWasAsked(t *testing.T) {
	r := newRecord(t)
	paid := r.ask(nil)
	denied := r.ask(func(q *approval.Request) { q.Tool, q.Server, q.Rule = "merge", "github", "" })
	expired := r.ask(func(q *approval.Request) { q.Agent = "other" })
	r.ask(nil) // it waits
	cancelled := r.ask(nil)
	r.clock.Advance(10 * time.Second)
	r.ends(approval.Approved, "hana", paid)
	r.clock.Advance(80 * time.Second)
	r.ends(approval.Denied, "ken", denied)
	r.ends(approval.Cancelled, "agent:bot", cancelled)
	r.ends(approval.Denied, "system:timeout", r.ask(nil)) // no person's word
	r.clock.Advance(time.Hour)
	r.ends(approval.Expired, "system:timeout", expired)

	got := stats(t, r, history.Query{})
	want := history.Figures{Asked: 6, Approved: 1, Denied: 2, Expired: 1, Cancelled: 1, Pending: 1, Decisions: 2,
		P50: 10 * time.Second, P90: 90 * time.Second}
	equal(t, "total", got.Total, want)
	equal(t, "tools", got.ByTool, []history.Named{
		{Name: "pay", Figures: history.Figures{Asked: 5, Approved: 1, Denied: 1, Expired: 1, Cancelled: 1, Pending: 1,
			Decisions: 1,
			P50:       10 * time.Second, P90: 10 * time.Second}},
		{Name: "github/merge", Figures: history.Figures{Asked: 1, Denied: 1, Decisions: 1, P50: 90 * time.Second,
			P90: 90 * time.Second}},
	})
	var names []string
	for _, list := range [][]history.Named{got.ByRule, got.ByAgent, got.ByPerson} {
		for _, n := range list {
			names = append(names, fmt.Sprint(n.Name, " ", n.Asked))
		}
	}
	equal(t, "rules, agents and people", names, []string{"paying 5", " 1", "bot 5", "other 1", "hana 1", "ken 1"})
	equal(t, "one agent", stats(t, r, history.Query{Agent: "other"}).Total, history.Figures{Asked: 1, Expired: 1})
}

// A press that decides all of a card is one decision, and so is each vote.
func TestStatsCountPresses(t *testing.T) {
	r := newRecord(t)
	var card []approval.Request
	for i := range 5 {
		card = append(card, r.ask(func(q *approval.Request) {
			q.BatchID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
			if i == 4 {
				q.Tool = "merge"
			}
		}))
	}
	r.ends(approval.Approved, "hana", card[:3]...)
	r.clock.Advance(time.Second)
	r.ends(approval.Approved, "hana", card[3:]...)
	voted := r.ask(nil)
	r.update(func(tx approval.Tx) error {
		_, err := tx.Append(approval.Event{Type: approval.EventVote, ApprovalID: voted.ID, Agent: "bot", Tool: "pay",
			Actor: "ken"})
		return err
	})
	r.clock.Advance(time.Second)
	r.ends(approval.Approved, "hana", voted)
	got := stats(t, r, history.Query{})
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"in all", got.Total.Decisions, 4}, {"pay", got.ByTool[0].Decisions, 4}, {"merge", got.ByTool[1].Decisions, 1},
		{"hana", got.ByPerson[0].Decisions, 3}, {"ken", got.ByPerson[1].Decisions, 1},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d decisions, want %d", c.what, c.got, c.want)
		}
	}
	if got := got.Total.Per100(got.Total.Decisions); got != 66.6 {
		t.Errorf("%v decisions per 100, want 66.6", got)
	}
}

// A push is a card or a reminder that went out. What a grant let through was not asked, and needed a person's word.
func TestStatsCountPushesAndGrants(t *testing.T) {
	r := newRecord(t)
	a := r.ask(nil)
	r.push(a, approval.KindRequest, "U1")
	r.push(a, approval.KindRequest, "U2")
	r.push(a, approval.KindReminder, "U1")
	r.push(a, approval.KindEdit, "U1")
	r.push(a, approval.KindReply, "U1")
	r.update(func(tx approval.Tx) error {
		return tx.InsertNotification(approval.Notification{ID: tx.NewID(), ApprovalID: a.ID, Channel: "line", Recipient: "U1",
			Kind: approval.KindRequest, Status: approval.Skipped, CreatedAt: tx.Now(), UpdatedAt: tx.Now()})
	})
	r.update(func(tx approval.Tx) error {
		for _, decision := range []string{"allow", "allow", "deny"} {
			e := approval.Event{Type: approval.EventGrantUsed, ApprovalID: a.ID, Agent: "bot", Tool: "pay", Decision: decision}
			if _, err := tx.Append(e); err != nil {
				return err
			}
		}
		return nil
	})
	got := stats(t, r, history.Query{})
	equal(t, "total", got.Total, history.Figures{Asked: 1, Pending: 1, Granted: 2, Pushes: 3})
	if q, p := got.Total.Quarantined(), got.Total.Per100(got.Total.Pushes); q != 3 || p != 100 {
		t.Errorf("%d quarantined, %v pushes per 100; want 3 and 100", q, p)
	}
	equal(t, "people", got.ByPerson, []history.Named{{Name: "hana", Figures: history.Figures{Pushes: 2}}})
	equal(t, "the rule", got.ByRule, []history.Named{{Name: "paying", Figures: got.Total}})
	if history.Figures.Per100(history.Figures{}, 7) != 0 {
		t.Error("of no calls there are pushes")
	}
}

func TestStatsAreOfTheirTime(t *testing.T) {
	r := newRecord(t)
	for range 4 {
		q := r.ask(nil)
		r.push(q, approval.KindRequest, "U1")
		r.ends(approval.Approved, "hana", q)
		r.clock.Advance(time.Hour)
	}
	for _, c := range []struct {
		since, until time.Time
		want         int
	}{
		{time.Time{}, time.Time{}, 4}, {begin, begin.Add(time.Hour), 1}, {begin.Add(time.Millisecond), time.Time{}, 3},
		{time.Time{}, begin.Add(time.Hour + time.Millisecond), 2}, {begin.Add(5 * time.Hour), time.Time{}, 0},
	} {
		got := stats(t, r, history.Query{Since: c.since, Until: c.until}).Total
		if got.Asked != c.want || got.Pushes != c.want || got.Decisions != c.want {
			t.Errorf("from %v until %v: %+v, want %d of each", c.since, c.until, got, c.want)
		}
	}
}

// A time is kept to three digits, and what lies between is below or at it.
func TestTimeToDecide(t *testing.T) {
	r := newRecord(t)
	for i := range 100 {
		q := r.ask(nil)
		r.clock.Advance(time.Duration(i+1) * 1234 * time.Millisecond)
		r.ends(approval.Approved, "hana", q)
	}
	got := stats(t, r, history.Query{}).Total
	if got.P50 != 61700*time.Millisecond || got.P90 != 111*time.Second {
		t.Errorf("p50 %v, p90 %v; want 1m1.7s and 1m51s", got.P50, got.P90)
	}
}

// However many tools there are, a report has room for some.
func TestStatsHaveRoomForSomeNames(t *testing.T) {
	r := newRecord(t)
	r.update(func(tx approval.Tx) error {
		for i := range 1100 {
			if _, err := request(tx, func(q *approval.Request) { q.Tool = fmt.Sprintf("tool%d", i) }); err != nil {
				return err
			}
		}
		return nil
	})
	got := stats(t, r, history.Query{}).ByTool
	sum := 0
	for _, n := range got {
		sum += n.Asked
	}
	if last := got[len(got)-1]; len(got) != 200 || last.Name != history.Others || sum != 1100 {
		t.Errorf("%d names, the last %+v, %d asked in all", len(got), last, sum)
	}
}

// A rule without a name is called by its place in the policy, where another may have stood at another time: such rules
// are told apart by what they said.
func TestStatsTellRulesWithoutANameApart(t *testing.T) {
	r := newRecord(t)
	for _, of := range []struct{ rule, digest string }{
		{"rule 3", "9f2c1a77"}, {"rule 3", "9f2c1a77"}, {"rule 3", "07ab"}, {"rule 3", ""},
		{"preset/files: rule 3", "9f2c1a77"}, {"preset/files: paths", "9f2c1a77"}, {"paying", "9f2c1a77"},
		{"paying", "07abcdef"}, {"rule 3 of 4", "9f2c1a77"}, {"my rule 3", "9f2c1a77"}, {"", ""},
	} {
		q := r.ask(func(q *approval.Request) { q.Rule, q.RuleDigest = of.rule, of.digest })
		r.push(q, approval.KindRequest, "U1")
		r.update(func(tx approval.Tx) error {
			_, err := tx.Append(approval.Event{Type: approval.EventGrantUsed, ApprovalID: q.ID, Agent: "bot", Decision: "allow"})
			return err
		})
	}
	got := map[string]int{}
	for _, n := range stats(t, r, history.Query{}).ByRule {
		if got[n.Name] = n.Asked; n.Granted != n.Asked || n.Pushes != n.Asked {
			t.Errorf("%+v, want as many uses of grants and pushes as were asked", n)
		}
	}
	equal(t, "rules", got, map[string]int{"rule 3 (9f2c1a)": 2, "rule 3 (07ab)": 1, "rule 3": 1,
		"preset/files: rule 3 (9f2c1a)": 1, "preset/files: paths": 1, "paying": 2, "rule 3 of 4": 1, "my rule 3": 1, "": 1})
}

// Each step is a transaction of its own, so that a large store holds nobody up, and an error ends it.
func TestStatsReadInSteps(t *testing.T) {
	r := newRecord(t)
	r.update(func(tx approval.Tx) error {
		for range 2500 {
			q, err := request(tx, nil)
			if err != nil {
				return err
			}
			if err := push(tx, q, approval.KindRequest, "U1"); err != nil {
				return err
			}
		}
		return nil
	})
	steps := 0
	q := history.Query{Step: func(ctx context.Context, do history.Do) error { steps++; return do(ctx) }}
	if got := stats(t, r, q).Total; got.Asked != 2500 || got.Pushes != 2500 || steps != 8 {
		t.Errorf("%+v in %d steps, want 8", got, steps)
	}
	broken := errors.New("broken")
	q.Step = func(context.Context, history.Do) error { return broken }
	if _, err := history.Stats(t.Context(), r, q); !errors.Is(err, broken) {
		t.Errorf("a step that fails: %v", err)
	}
}

// BenchmarkStats is of a store of 500,000 rows: half of them requests, half pushes.
func BenchmarkStats(b *testing.B) {
	r := newRecord(b)
	for range 250 {
		r.clock.Advance(time.Minute)
		r.update(func(tx approval.Tx) error {
			for i := range 1000 {
				q, err := request(tx, func(q *approval.Request) { q.Tool = fmt.Sprintf("tool%d", i%50) })
				if err == nil {
					err = push(tx, q, approval.KindRequest, "U1")
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	for b.Loop() {
		if _, err := history.Stats(b.Context(), r, history.Query{}); err != nil {
			b.Fatal(err)
		}
	}
}

var benchLarge = flag.String("large", "",
	"benchmarks: the file for BenchmarkStatsOfMany, which BenchmarkLists of store makes; \"\" leaves it out")

// BenchmarkStatsOfMany is target T14: the figures of a month with a million requests, of its last day, and of as
// much as one answer has.
func BenchmarkStatsOfMany(b *testing.B) {
	if *benchLarge == "" {
		b.Skip("-large says which file")
	}
	db, err := sqlite.Open(b.Context(), sqlite.Options{Path: *benchLarge})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	for _, of := range []struct {
		what string
		days int
		most time.Duration // a piece ends after it
	}{{"month", schematest.LargeDays + 1, 0}, {"day", 1, 0}, {"piece", schematest.LargeDays + 1, 200 * time.Millisecond}} {
		b.Run(of.what, func(b *testing.B) {
			for b.Loop() {
				began := time.Now()
				q := history.Query{Since: began.AddDate(0, 0, -of.days), Until: began}
				if of.most > 0 {
					q.Enough = func() bool { return time.Since(began) >= of.most }
				}
				r, err := history.Stats(b.Context(), db, q)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(r.Total.Asked), "asked")
			}
		})
	}
}

// remove removes a request that is over, as retention does.
func (r *record) remove(q approval.Request) {
	r.t.Helper()
	r.update(func(tx approval.Tx) error {
		if _, err := tx.Ack(q.Agent, q.ID); err != nil {
			return err
		}
		if ok, err := tx.RemoveRequest(q.ID); err != nil || !ok {
			return fmt.Errorf("%s was removed %v, %w", q.ID, ok, err)
		}
		return nil
	})
}

func (r *record) append(e approval.Event) {
	r.t.Helper()
	r.update(func(tx approval.Tx) error {
		_, err := tx.Append(e)
		return err
	})
}

// The audit log has votes on requests that were removed since, and uses of grants that were made with them: the others
// are counted all the same.
func TestStatsPassOverWhatIsOfRequestsThatWereRemoved(t *testing.T) {
	r := newRecord(t)
	for _, gone := range []bool{true, false} {
		voted, granted := r.ask(nil), r.ask(nil)
		r.append(approval.Event{Type: approval.EventVote, ApprovalID: voted.ID, Agent: "bot", Tool: "pay", Actor: "ken"})
		r.clock.Advance(time.Second)
		r.ends(approval.Denied, "hana", voted)
		r.ends(approval.Denied, "hana", granted)
		r.append(approval.Event{Type: approval.EventGrantUsed, ApprovalID: granted.ID, Agent: "bot", Tool: "pay",
			Decision: "allow"})
		if gone {
			r.remove(voted)
			r.remove(granted)
		}
	}
	got := stats(t, r, history.Query{})
	equal(t, "total", got.Total, history.Figures{Asked: 2, Denied: 2, Granted: 1, Decisions: 3, P50: time.Second,
		P90: time.Second})
}

// One press decides a request of the time that is counted and votes on one that was made later, which is gone: nothing
// but the first has it.
func TestStatsCountAPressWhoseOtherRequestWasRemoved(t *testing.T) {
	const card = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	onCard := func(q *approval.Request) { q.BatchID = card }
	r := newRecord(t)
	first := r.ask(onCard)
	r.clock.Advance(time.Second)
	until := r.clock.Now()
	r.clock.Advance(time.Second)
	later := r.ask(onCard)
	r.clock.Advance(time.Second)
	r.update(func(tx approval.Tx) error {
		_, err := tx.Append(approval.Event{Type: approval.EventVote, ApprovalID: later.ID, Agent: "bot", Tool: "pay",
			Actor: "hana"})
		if err != nil {
			return err
		}
		_, err = tx.Resolve(approval.Resolution{ID: first.ID, Status: approval.Denied, At: tx.Now(), By: "hana",
			Via: approval.ViaWeb})
		return err
	})
	r.clock.Advance(time.Second)
	r.ends(approval.Denied, "ken", later)
	r.remove(later)
	equal(t, "decisions", stats(t, r, history.Query{Until: until}).Total.Decisions, 1)
}
