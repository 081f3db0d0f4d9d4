package history_test

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/internal/history"
)

// What is read in pieces, each from where the one before it ended, is what is read at once: nothing is counted twice,
// and nothing is left out. Many rows are of one instant, ids run ahead of what they are of, and presses decide calls of
// two pieces.
func TestPiecesOfStatsAddUp(t *testing.T) {
	const ms = time.Millisecond
	rapid.Check(t, func(d *rapid.T) {
		r := newRecord(t)
		r.fill(d)
		q := history.Query{Since: begin, Until: r.clock.Now().Add(time.Millisecond)}
		if rapid.Bool().Draw(d, "of a part") {
			q.Since = begin.Add(rapid.SampledFrom([]time.Duration{0, 1, ms, 5 * ms}).Draw(d, "since"))
			q.Until = q.Until.Add(-rapid.SampledFrom([]time.Duration{1, ms, 4 * ms}).Draw(d, "until"))
		}
		q.Agent = rapid.SampledFrom([]string{"", "", "bot", "other"}).Draw(d, "agent")
		behind := rapid.SampledFrom([]time.Duration{0, 300 * time.Microsecond, 1700 * time.Microsecond, time.Hour})
		clock := elsewhere{r, behind.Draw(d, "clock behind")}
		q.Since, q.Until = q.Since.Add(-clock.behind), q.Until.Add(-clock.behind)
		whole, n := stats(t, clock, q), 0
		if !whole.Next.IsZero() || !whole.Since.Equal(whole.From) || whole.Since.Sub(q.Since) >= time.Millisecond {
			t.Fatalf("all of it is from %v, and goes on at %v", whole.Since, whole.Next)
		}
		rows := rapid.IntRange(1, 5).Draw(d, "rows of a step")
		var sum history.Report
		for part := q; ; n++ {
			part.Enough = func() bool { return true }
			got := stats(t, clock, history.InStepsOf(part, rows))
			same := stats(t, clock, history.Query{Since: got.Since, Until: got.Until, Agent: q.Agent})
			same.Next, same.From = got.Next, got.From
			equal(t, "a piece, and the same time read at once", got, same)
			sum = added(sum, got)
			if got.Next.IsZero() {
				break
			}
			if !got.Next.Equal(got.Since) || !got.Next.Before(got.Until) || n > 1000 {
				t.Fatalf("piece %d is from %v until %v, and goes on at %v", n, got.Since, got.Until, got.Next)
			}
			part.Since, part.Until = got.From, got.Next
		}
		if want := added(history.Report{}, whole); !reflect.DeepEqual(sum, want) {
			t.Errorf("%d pieces of %d rows a step:\n%+v, want\n%+v", n+1, rows, sum, want)
		}
	})
}

// A piece ends when it is told to, of whatever there is much: four steps have read of each kind once.
func TestAPieceEndsWhenItIsEnough(t *testing.T) {
	for _, much := range []string{"request", "push", "vote", "grant"} {
		r := newRecord(t)
		of := r.ask(nil)
		for range 100 {
			r.clock.Advance(time.Millisecond)
			r.update(func(tx approval.Tx) (err error) {
				switch much {
				case "request":
					_, err = request(tx, nil)
				case "push":
					err = push(tx, of, approval.KindRequest, "U1")
				case "vote":
					_, err = tx.Append(approval.Event{Type: approval.EventVote, ApprovalID: of.ID, Agent: "bot", Actor: "ken"})
				case "grant":
					e := approval.Event{Type: approval.EventGrantUsed, ApprovalID: of.ID, Agent: "bot", Decision: "allow"}
					_, err = tx.Append(e)
				}
				return err
			})
		}
		steps, enough := 0, 4
		q := history.Query{Until: r.clock.Now().Add(time.Second), Enough: func() bool { return steps >= enough },
			Step: func(ctx context.Context, do history.Do) error { steps++; return do(ctx) }}
		got := stats(t, r, history.InStepsOf(q, 10))
		n := got.Total.Asked + got.Total.Pushes + got.Total.Decisions + got.Total.Granted
		if steps != 4 || n != 9 || got.Next.IsZero() {
			t.Errorf("%s: %d counted in %d steps, and on from %v; want 9 in 4", much, n, steps, got.Next)
		}
		steps, enough = 0, 1000
		if got = stats(t, r, history.InStepsOf(q, 10)); !got.Next.IsZero() || got.Total.Asked == 0 {
			t.Errorf("%s: in a time that is enough for all, %+v and on from %v", much, got.Total, got.Next)
		}
	}
}

// elsewhere is a record whose time is ahead of the machine's clock.
type elsewhere struct {
	*record
	behind time.Duration
}

func (e elsewhere) ToWall(t time.Time) time.Time   { return t.Add(-e.behind) }
func (e elsewhere) FromWall(t time.Time) time.Time { return t.Add(e.behind) }

// added are the figures of two reports that can be added up: how long people took cannot.
func added(a, b history.Report) history.Report {
	add := func(x *history.Figures, y history.Figures) {
		*x = history.Figures{Asked: x.Asked + y.Asked, Approved: x.Approved + y.Approved, Denied: x.Denied + y.Denied,
			Expired: x.Expired + y.Expired, Cancelled: x.Cancelled + y.Cancelled, Pending: x.Pending + y.Pending,
			Granted: x.Granted + y.Granted, Pushes: x.Pushes + y.Pushes, Decisions: x.Decisions + y.Decisions}
	}
	addAll := func(x, y []history.Named) []history.Named {
		x = slices.Clone(x)
		for _, n := range y {
			i, found := slices.BinarySearchFunc(x, n.Name, func(x history.Named, name string) int {
				return cmp.Compare(x.Name, name)
			})
			if !found {
				x = slices.Insert(x, i, history.Named{Name: n.Name})
			}
			add(&x[i].Figures, n.Figures)
		}
		return slices.DeleteFunc(x, func(n history.Named) bool { return n.Figures == history.Figures{} })
	}
	add(&a.Total, b.Total)
	a.ByTool, a.ByRule = addAll(a.ByTool, b.ByTool), addAll(a.ByRule, b.ByRule)
	a.ByAgent, a.ByPerson = addAll(a.ByAgent, b.ByAgent), addAll(a.ByPerson, b.ByPerson)
	return a
}

// fill has some things happen, many of them at once.
func (r *record) fill(d *rapid.T) {
	cards := []string{"", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW"}
	pick := func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(d, what) }
	var all, open []approval.Request
	happen := map[string]func(tx approval.Tx) error{
		"ask": func(tx approval.Tx) error {
			for range 1 + pick("asked", 6) {
				card := pick("card", 3)
				q, err := request(tx, func(q *approval.Request) {
					q.Agent, q.Tool = []string{"bot", "bot", "other"}[card], []string{"pay", "wire"}[pick("tool", 2)]
					q.Rule, q.BatchID = []string{"", "paying", "rule 1"}[pick("rule", 3)], cards[card]
					q.RuleDigest = []string{"aaaaaaa", "bbbbbbb"}[pick("digest", 2)]
					q.ID = ahead(q.ID, pick("ahead", 4)/3)
				})
				if err != nil {
					return err
				}
				all, open = append(all, q), append(open, q)
			}
			return nil
		},
		"push": func(tx approval.Tx) error {
			for range 1 + pick("pushes", 6) {
				of := all[pick("of", len(all))]
				n := approval.Notification{ID: ahead(tx.NewID(), pick("ahead", 4)/3), ApprovalID: of.ID, BatchID: of.BatchID,
					Channel: "line", Recipient: "U1", Kind: approval.KindRequest, Status: approval.Sent, CreatedAt: tx.Now(),
					UpdatedAt: tx.Now(), SentAt: tx.Now()}
				if err := tx.InsertNotification(n); err != nil {
					return err
				}
			}
			return nil
		},
		"grant": func(tx approval.Tx) error {
			for range 1 + pick("uses", 6) {
				of := all[pick("of", len(all))]
				e := approval.Event{Type: approval.EventGrantUsed, ApprovalID: of.ID, Agent: of.Agent, Decision: "allow"}
				if _, err := tx.Append(e); err != nil {
					return err
				}
			}
			return nil
		},
		"press": func(tx approval.Tx) error { // it decides some of a card, and is a vote on others
			card, by := cards[pick("which", 3)], []string{"hana", "ken"}[pick("by", 2)]
			var left []approval.Request
			for _, q := range open {
				switch what := pick("said", 3); {
				case q.BatchID != card || what == 0:
					left = append(left, q)
				case what == 1:
					left = append(left, q)
					e := approval.Event{Type: approval.EventVote, ApprovalID: q.ID, Agent: q.Agent, Actor: by}
					if _, err := tx.Append(e); err != nil {
						return err
					}
				default:
					e := approval.Resolution{ID: q.ID, Status: approval.Denied, At: tx.Now(), By: by, Via: approval.ViaWeb}
					if _, err := tx.Resolve(e); err != nil {
						return err
					}
				}
			}
			open = left
			return nil
		},
	}
	r.update(happen["ask"])
	for range pick("happened", 20) {
		r.clock.Advance(time.Duration(pick("later", 3)) * time.Millisecond)
		r.update(happen[rapid.SampledFrom([]string{"ask", "ask", "grant", "press", "press", "push"}).Draw(d, "what")])
	}
}

// ahead is an id of some milliseconds later, as where many were made in one.
func ahead(id string, ms int) string {
	u := ulid.MustParse(id)
	_ = u.SetTime(u.Time() + uint64(ms))
	return u.String()
}
