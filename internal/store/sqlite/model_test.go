package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/internal/store/storetest"
)

// The life of requests, step by step and in any order, is the same in the store and in a few lines of Go.
func TestLifeIsAsInTheModel(t *testing.T) {
	dir, n := t.TempDir(), 0
	fresh := open(t, Options{})
	if err := fresh.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(fresh.path)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprintf("%d.db", n))
		if err := os.WriteFile(path, file, 0o600); err != nil {
			rt.Fatal(err)
		}
		clock := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		d, err := Open(t.Context(), Options{Path: path, Now: func() time.Time {
			return clock
		}, pragmas: []string{"synchronous = OFF"}})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { d.Close() }()
		model := map[string]*approval.Request{}
		var order []string
		do := func(fn func(tx approval.Tx) error) {
			if err := d.Update(t.Context(), approval.WholeStore(), fn); err != nil {
				rt.Fatal(err)
			}
		}
		pick := func(rt *rapid.T) *approval.Request {
			if len(order) == 0 {
				rt.Skip("no request yet")
			}
			return model[rapid.SampledFrom(order).Draw(rt, "id")]
		}
		same := func(what string, got, want any) {
			if !reflect.DeepEqual(got, want) {
				rt.Fatalf("%s: got %+v, want %+v", what, got, want)
			}
		}
		seq := int64(0)
		liveOf := func(tool string) (live *approval.Request) {
			for _, r := range model {
				if r.Tool == tool && r.Live() {
					live = r
				}
			}
			return live
		}
		rt.Repeat(map[string]func(*rapid.T){
			"time passes": func(rt *rapid.T) { // or is set back, which the store does not follow
				clock = clock.Add(time.Duration(rapid.IntRange(-300, 900).Draw(rt, "ms")) * time.Millisecond)
			},
			"create": func(rt *rapid.T) {
				tool := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "tool")
				in := time.Duration(rapid.IntRange(0, 2000).Draw(rt, "ms")) * time.Millisecond
				do(func(tx approval.Tx) error {
					r := approval.Request{
						ID: tx.NewID(), Agent: "bot", Tool: tool, Args: []byte(`{}`), ArgsHash: strings.Repeat("a", 64),
						Risk: approval.RiskHigh, ReasonCode: "r",
						HumanMessage: "m", Status: approval.Pending, RequestedAt: tx.Now(), ExpiresAt: tx.Now().Add(in),
					}
					err := tx.InsertRequest(r)
					if live := liveOf(tool); (live != nil) != errors.Is(err, approval.ErrLiveExists) || live == nil && err != nil {
						rt.Fatalf("InsertRequest: %v beside %+v", err, live)
					}
					if err == nil {
						model[r.ID] = &r
						order = append(order, r.ID)
					}
					return nil
				})
			},
			"resolve": func(rt *rapid.T) {
				r := pick(rt)
				status := rapid.SampledFrom([]approval.Status{approval.Approved, approval.Denied, approval.Expired,
					approval.Cancelled}).Draw(rt, "status")
				use := time.Duration(rapid.IntRange(0, 1000).Draw(rt, "ms")) * time.Millisecond
				do(func(tx approval.Tx) error {
					res := approval.Resolution{ID: r.ID, Status: status, At: tx.Now(), By: "hana", Via: approval.ViaCLI, Reason: "r"}
					may := r.Status == approval.Pending && tx.Now().Before(r.ExpiresAt)
					switch status {
					case approval.Approved:
						res.UseBy = tx.Now().Add(use)
					case approval.Expired:
						may = r.Status == approval.Pending && !tx.Now().Before(r.ExpiresAt)
					case approval.Cancelled:
						may = r.Live()
					}
					ok, err := tx.Resolve(res)
					same("Resolve", ok, may)
					if ok {
						seq++
						r.Status, r.ResolvedAt, r.ResolvedBy, r.ResolvedVia, r.ResolveReason, r.UseBy, r.ResolvedSeq, r.AckedAt = status,
							res.At, res.By, res.Via, res.Reason, res.UseBy, seq, time.Time{}
					}
					return err
				})
			},
			"extend": func(rt *rapid.T) {
				r := pick(rt)
				by := time.Duration(rapid.IntRange(1, 2000).Draw(rt, "ms")) * time.Millisecond
				do(func(tx approval.Tx) error {
					until := r.ExpiresAt.Add(by)
					ok, err := tx.Extend(r.ID, until)
					same("Extend", ok, r.Status == approval.Pending && tx.Now().Before(r.ExpiresAt) && r.ExtendedAt.IsZero())
					if ok {
						r.ExpiresAt, r.ExtendedAt = until, tx.Now()
					}
					return err
				})
			},
			"raise the need": func(rt *rapid.T) {
				r, stage := pick(rt), rapid.IntRange(0, 2).Draw(rt, "stage")
				do(func(tx approval.Tx) error {
					next := *r
					next.Need = &approval.Need{Stages: []approval.Stage{{Group: "g", Count: stage + 1}}}
					next.Stage, next.Policy = stage, fmt.Sprint("p", stage)
					ok, err := tx.SetNeed(next)
					same("SetNeed", ok, r.Status == approval.Pending)
					if ok {
						r.Need, r.Stage, r.Policy = next.Need, next.Stage, next.Policy
						r.Votes, err = tx.Votes(r.ID) // they are read from now on
					}
					return err
				})
			},
			"vote": func(rt *rapid.T) {
				r, stage := pick(rt), rapid.IntRange(1, 3).Draw(rt, "stage")
				person := rapid.SampledFrom([]string{"abe", "hana", "ken"}).Draw(rt, "person")
				do(func(tx approval.Tx) error {
					v := approval.Vote{Stage: stage, Person: person, Approve: stage > 1, At: tx.Now(), Via: approval.ViaCLI}
					if r.Need != nil {
						r.Votes = append(slices.DeleteFunc(slices.Clone(r.Votes), func(v approval.Vote) bool {
							return v.Person == person
						}), v)
					}
					return tx.PutVote(r.ID, v)
				})
			},
			"consume": func(rt *rapid.T) {
				r, dispatched := pick(rt), rapid.Bool().Draw(rt, "dispatched")
				do(func(tx approval.Tx) error {
					ok, err := tx.Consume(r.ID, dispatched, "")
					same("Consume", ok, r.Status == approval.Approved && r.Live() && tx.Now().Before(r.UseBy))
					if ok {
						r.ConsumedAt, r.AckedAt = tx.Now(), tx.Now()
						if dispatched {
							r.DispatchedAt = tx.Now()
						}
					}
					return err
				})
			},
			"report": func(rt *rapid.T) {
				r := pick(rt)
				ran := rapid.SampledFrom([]approval.RunResult{approval.RunSucceeded, approval.RunFailed, approval.RunUnknown}).Draw(
					rt, "ran")
				do(func(tx approval.Tx) error {
					ok, err := tx.Report(r.ID, ran)
					same("Report", ok, !r.DispatchedAt.IsZero() && (r.RunResult == "" || r.RunResult == approval.RunUnknown &&
						ran != approval.RunUnknown))
					if ok {
						r.RunResult = ran
					}
					return err
				})
			},
			"lapse": func(rt *rapid.T) {
				r := pick(rt)
				do(func(tx approval.Tx) error {
					ok, err := tx.Lapse(r.ID)
					same("Lapse", ok, r.Status == approval.Approved && r.Live() && !tx.Now().Before(r.UseBy))
					if ok {
						seq++
						r.LapsedAt, r.ResolvedSeq, r.AckedAt = r.UseBy, seq, time.Time{}
					}
					return err
				})
			},
			"ack": func(rt *rapid.T) {
				r := pick(rt)
				do(func(tx approval.Tx) error {
					ok, err := tx.Ack("bot", r.ID)
					same("Ack", ok, r.Status != approval.Pending && r.AckedAt.IsZero())
					if ok {
						r.AckedAt = tx.Now()
					}
					return err
				})
			},
			"start again": func(rt *rapid.T) {
				if err := d.Close(); err != nil {
					rt.Fatal(err)
				}
				next, err := Open(t.Context(), Options{Path: d.path, Now: func() time.Time {
					return clock
				}, pragmas: []string{"synchronous = OFF"}})
				if err != nil {
					rt.Fatal(err)
				}
				d = next
			},
			"": func(rt *rapid.T) { // the invariant after each step
				err := d.View(t.Context(), func(tx approval.Tx) error {
					rs, err := tx.Requests(approval.RequestQuery{})
					if err != nil {
						return err
					}
					slices.Reverse(rs)
					var want, feed []approval.Request
					var due []approval.Head
					var next time.Time
					pending := 0
					for _, id := range order {
						r := *model[id]
						want = append(want, r)
						if r.Status != approval.Pending && r.AckedAt.IsZero() {
							feed = append(feed, r)
						}
						if r.Due(tx.Now()) {
							due = append(due, storetest.Head(r))
						}
						if r.Status == approval.Pending {
							pending++
						}
						if at := r.Deadline(); !at.IsZero() && (next.IsZero() || at.Before(next)) {
							next = at
						}
					}
					same("Requests", rs, want)
					slices.SortFunc(feed, func(a, b approval.Request) int { return int(a.ResolvedSeq - b.ResolvedSeq) })
					got, err := tx.Feed("bot", "", 0, 0)
					same("Feed", got, feed)
					if err != nil {
						return err
					}
					heads, err := tx.Due(0)
					byID := func(a, b approval.Head) int { return strings.Compare(a.ID, b.ID) }
					if !slices.IsSortedFunc(heads, func(a, b approval.Head) int { return a.Deadline().Compare(b.Deadline()) }) {
						rt.Fatalf("Due is not sorted: %+v", heads)
					}
					slices.SortFunc(heads, byID)
					same("Due", heads, due)
					if err != nil {
						return err
					}
					deadline, err := tx.NextDeadline()
					same("NextDeadline", deadline, next)
					if err != nil {
						return err
					}
					n, err := tx.CountPending("bot")
					same("CountPending", n, pending)
					return err
				})
				if err != nil {
					rt.Fatal(err)
				}
			},
		})
	})
}
