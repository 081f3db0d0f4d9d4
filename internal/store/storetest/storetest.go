// Package storetest is the contract that every [approval.Store] passes: what each method of a
// transaction promises, what a function's failure leaves behind, and the races that must have one winner.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/summary"
)

// contract is what [Run] runs.
var contract = []struct {
	name string
	f    func(t *testing.T, s approval.Store)
}{
	{"RequestKeepsEverything", requestKeepsEverything},
	{"OneLiveRequestForAKey", oneLiveRequestForAKey},
	{"LiveEnds", liveEnds},
	{"Requests", requests},
	{"Batch", batch},
	{"Due", due},
	{"CountPending", countPending},
	{"Resolve", resolve},
	{"Consume", consume},
	{"Dispatch", dispatch},
	{"Return", giveBack},
	{"UnderWay", underWay},
	{"Tasks", tasks},
	{"Pins", pins},
	{"RecordsAllowed", recordsAllowed},
	{"SetNeed", setNeed},
	{"Extend", extend},
	{"Votes", votes},
	{"VotesAreRead", votesAreRead},
	{"EndingIn", endingIn},
	{"ResolutionKeepsEverything", resolutionKeepsEverything},
	{"Delegations", delegations},
	{"Epochs", epochs},
	{"LiveBefore", liveBefore},
	{"GrantsKeepEverything", grantsKeepEverything},
	{"GrantsFor", grantsFor},
	{"Grants", grants},
	{"DueGrants", dueGrants},
	{"GrantUses", grantUses},
	{"LastSaid", lastSaid},
	{"Policies", policies},
	{"Lapse", lapse},
	{"Feed", feed},
	{"Recent", recent},
	{"NotificationKeepsEverything", notificationKeepsEverything},
	{"Notifications", notifications},
	{"Sendable", sendable},
	{"SendableOutcomes", sendableOutcomes},
	{"UpdateNotification", updateNotification},
	{"AddReason", addReason},
	{"Dead", dead},
	{"Events", events},
	{"EventsOfOne", eventsOfOne},
	{"SearchRequests", searchRequests},
	{"SearchNotifications", searchNotifications},
	{"Reach", reach},
	{"FromReachToReach", reaches},
	{"Figures", figures},
	{"FirstSight", firstSight},
	{"Prune", prune},
	{"WhatIsOld", whatIsOld},
	{"RemoveArgs", removesArgs},
	{"EraseTexts", erasesTexts},
	{"RemoveRequest", removesRequests},
	{"RemoveNotifications", removesNotifications},
	{"EditedStays", editedStays},
	{"WhatWaitsKeepsItsMessages", whatWaitsKeepsItsMessages},
	{"RemoveEvents", removesEvents},
	{"NotFound", notFound},
	{"ViewIsReadOnly", viewIsReadOnly},
	{"ViewIsOneMoment", viewIsOneMoment},
	{"NowIDsAndSeqNeverGoBack", neverGoBack},
	{"ScopesGrow", scopesGrow},
	{"ErrorUndoesItsOwn", errorUndoesItsOwn},
	{"PanicUndoesItsOwn", panicUndoesItsOwn},
	{"GoexitUndoesItsOwn", goexitUndoesItsOwn},
	{"CancelDecidesOnlyTheStart", cancelDecidesOnlyTheStart},
	{"RaceEqualCalls", raceEqualCalls},
	{"RaceDeciders", raceDeciders},
	{"RaceConsumers", raceConsumers},
	{"RaceConsumeAndCancel", raceConsumeAndCancel},
	{"RaceReturns", raceReturns},
	{"RaceReporters", raceReporters},
	{"RaceVoters", raceVoters},
	{"RaceExtenders", raceExtenders},
	{"RaceGrantUses", raceGrantUses},
	{"RaceClaims", raceClaims},
	{"RaceSights", raceSights},
	{"RaceNeighbours", raceNeighbours},
}

// Run tests the stores that open makes: each an empty one, closed by t.Cleanup. Their time must go by itself.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) { c.f(t, open(t)) })
	}
	for _, c := range besides {
		t.Run(c.name, func(t *testing.T) { c.f(t, open(t)) })
	}
}

// Racers is how many goroutines take part in each race.
const Racers = 64

func update(t testing.TB, s approval.Store, fn func(tx approval.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), approval.WholeStore(), fn); err != nil {
		t.Fatalf("Update: %v", err)
	}
}

func view(t testing.TB, s approval.Store, fn func(tx approval.Tx) error) {
	t.Helper()
	if err := s.View(t.Context(), fn); err != nil {
		t.Fatalf("View: %v", err)
	}
}

func hash(s string) string { return fmt.Sprintf("%064x", []byte(s)) }

// newRequest returns a pending request whose hash is that of its tool.
func newRequest(tx approval.Tx, agent, tool string) approval.Request {
	now := tx.Now()
	return approval.Request{
		ID: tx.NewID(), Agent: agent, Tool: tool, Args: []byte(`{}`), ArgsHash: hash(tool), Risk: approval.RiskHigh,
		ReasonCode: "approval_required", HumanMessage: "Please look.", Status: approval.Pending, RequestedAt: now,
		ExpiresAt: now.Add(time.Hour),
	}
}

// insert stores a pending request, changed by change.
func insert(t testing.TB, s approval.Store, agent, tool string, change func(*approval.Request)) approval.Request {
	t.Helper()
	var r approval.Request
	update(t, s, func(tx approval.Tx) error {
		r = newRequest(tx, agent, tool)
		if change != nil {
			change(&r)
		}
		return tx.InsertRequest(r)
	})
	return r
}

func get(t testing.TB, s approval.Store, id string) (r approval.Request) {
	t.Helper()
	view(t, s, func(tx approval.Tx) (err error) {
		r, err = tx.Request(id)
		return err
	})
	return r
}

// approve approves a request, to be used within a time.
func approve(t testing.TB, s approval.Store, id string, within time.Duration) {
	t.Helper()
	update(t, s, func(tx approval.Tx) error {
		return mustChange(tx.Resolve(approvalOf(tx, id, within)))
	})
}

func approvalOf(tx approval.Tx, id string, within time.Duration) approval.Resolution {
	return approval.Resolution{ID: id, Status: approval.Approved, At: tx.Now(), By: "hana", Via: approval.Via("line"),
		Reason: "fine", UseBy: tx.Now().Add(within)}
}

func ending(tx approval.Tx, id string, status approval.Status) approval.Resolution {
	return approval.Resolution{ID: id, Status: status, At: tx.Now(), By: "hana", Via: approval.Via("slack")}
}

// mustChange turns a conditional statement that changed nothing into an error.
func mustChange(ok bool, err error) error { //nolint:revive // flag-parameter: it is what a method returned
	if err == nil && !ok {
		return errors.New("the conditional statement changed nothing")
	}
	return err
}

// mustNotChange turns one that did into an error.
func mustNotChange(ok bool, err error) error { //nolint:revive // flag-parameter: it is what a method returned
	if err == nil && ok {
		return errors.New("the conditional statement changed a row that it must not")
	}
	return err
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got\n %+v, want\n %+v", what, got, want)
	}
}

// everyFieldSet fails unless each field of T, but for those named, is set in at least one of the samples: a field that
// a store loses would not be noticed else.
func everyFieldSet[T any](t testing.TB, samples []T, except ...string) {
	t.Helper()
	row := reflect.TypeFor[T]()
	for i := range row.NumField() {
		set := slices.ContainsFunc(samples, func(v T) bool { return !reflect.ValueOf(v).Field(i).IsZero() })
		if name := row.Field(i).Name; !set && !slices.Contains(except, name) {
			t.Errorf("no sample has %v.%s: add it, so that it is seen to be kept", row, name)
		}
	}
}

// Head is what [approval.Tx] returns as r's narrow part.
func Head(r approval.Request) approval.Head {
	h := approval.Head{Request: r, Wide: len(r.Args) + len(r.Rationale) + len(r.Preview)}
	h.Args, h.Rationale, h.Preview, h.ToolDigest, h.ToolSeen = nil, "", "", "", false
	h.Task, h.DispatchedAt, h.Runner, h.RunResult = false, time.Time{}, "", ""
	h.Need, h.Stage, h.Votes, h.Who, h.EndCode, h.ReplacedBy, h.Replaces, h.Policy = nil, 0, nil, "", "", "", "", ""
	h.CorrelationID, h.PreviewFrom, h.Method, h.RuleDigest = "", "", "", ""
	h.ExtendedAt, h.Returned, h.ArgsRemovedAt, h.ArgsBytes = time.Time{}, 0, time.Time{}, 0
	return h
}

func ids[T any](rows []T) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = reflect.ValueOf(r).FieldByName("ID").String()
	}
	return out
}

func requestKeepsEverything(t *testing.T, s approval.Store) {
	var full, ended approval.Request
	update(t, s, func(tx approval.Tx) error {
		now := tx.Now()
		full = approval.Request{
			ID: tx.NewID(), Agent: "bot", Scope: "/srv/\x00\"é日本\u202e", Server: "files", Tool: "write_file",
			Method: "write/file", RuleDigest: "d1",
			Args: []byte(`{"a":1.0,"b":"` + strings.Repeat("x", 100_000) + `"}`), ArgsHash: hash("full"),
			IgnoredArgs: []string{"description", "a\nb"},
			Risk:        approval.RiskCritical, Rule: "r1", ReasonCode: "over_threshold", HumanMessage: "Too much.",
			RequireReason: true,
			TurnID:        "turn", SessionID: "session", Rationale: "because", Preview: strings.Repeat("+ line\n", 30_000),
			Status: approval.Pending, RequestedAt: now, ExpiresAt: now.Add(time.Hour + 7*time.Millisecond), BatchID: tx.NewID(),
			Previous: &approval.Use{RequestID: tx.NewID(), ApprovedBy: "ken", ApprovedAt: now.Add(-time.Hour),
				ConsumedAt:   now.Add(-time.Minute),
				DispatchedAt: now.Add(-time.Minute), RunResult: approval.RunUnknown},
			ToolDigest: hash("tool"), ToolSeen: true, Task: true,
			Need: fullNeed(), Stage: 1, Policy: hash("policy"), CorrelationID: "c", Replaces: tx.NewID(),
			Before:      &approval.Said{RequestID: tx.NewID(), By: "ken", At: now.Add(-time.Hour), Reason: "no"},
			Annotations: &approval.Annotations{ReadOnly: new(bool)}, PreviewFrom: "read_text_file",
			Sentences: &summary.Sentences{Summary: summary.Wording{"": "Pay", "ja": "送金"},
				Message: summary.Wording{"": "Too much.", "th": "มากเกินไป"}},
		}
		ended = newRequest(tx, "bot", "old")
		ended.Status, ended.ResolvedAt, ended.ResolvedBy, ended.ResolvedVia, ended.ResolveReason = approval.Approved, now,
			"hana", approval.ViaWeb, "ok"
		ended.ResolvedSeq, ended.UseBy, ended.ConsumedAt, ended.AckedAt = 1, now.Add(time.Minute), now, now
		ended.DispatchedAt, ended.RunResult = now, approval.RunFailed
		if err := tx.InsertRequest(full); err != nil {
			return err
		}
		return tx.InsertRequest(ended)
	})
	// Consume, Lapse, Return, SetInputs, PutVote, Resolve, Extend and RemoveArgs have these.
	everyFieldSet(t, []approval.Request{full, ended},
		"Runner", "LapsedAt", "Returned", "Inputs", "Votes", "Who", "EndCode", "ReplacedBy", "ExtendedAt", "ArgsRemovedAt",
		"ArgsBytes")
	equal(t, "the full request", get(t, s, full.ID), full)
	equal(t, "the ended request", get(t, s, ended.ID), ended)
	view(t, s, func(tx approval.Tx) error {
		r, err := tx.Live(full.Key())
		equal(t, "Live", r, full)
		return err
	})
}

func oneLiveRequestForAKey(t *testing.T, s approval.Store) {
	first := insert(t, s, "bot", "pay", nil)
	update(t, s, func(tx approval.Tx) error {
		again := newRequest(tx, "bot", "pay")
		if err := tx.InsertRequest(again); !errors.Is(err, approval.ErrLiveExists) {
			return fmt.Errorf("a second live request: got %v, want ErrLiveExists", err)
		}
		for _, change := range []func(*approval.Request){ // each part of the key makes another call of it
			func(r *approval.Request) { r.Agent = "bot2" },
			func(r *approval.Request) { r.Scope = "/other" },
			func(r *approval.Request) { r.Server = "bank" },
			func(r *approval.Request) { r.Tool = "pay2" },
			func(r *approval.Request) { r.ArgsHash = hash("other") },
			func(r *approval.Request) { r.Method = "pay" },
		} {
			r := newRequest(tx, "bot", "pay")
			change(&r)
			if err := tx.InsertRequest(r); err != nil {
				return fmt.Errorf("after ErrLiveExists, %+v: %w", r.Key(), err)
			}
		}
		return nil
	})
	approve(t, s, first.ID, time.Hour)
	err := s.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
		return tx.InsertRequest(newRequest(tx, "bot", "pay"))
	})
	if !errors.Is(err, approval.ErrLiveExists) {
		t.Errorf("beside an unused approval: got %v, want ErrLiveExists", err)
	}
	view(t, s, func(tx approval.Tx) error {
		rs, err := tx.Requests(approval.RequestQuery{Agent: "bot", Tool: "pay"})
		equal(t, "requests of the tool", len(rs), 5)
		return err
	})
}

func liveEnds(t *testing.T, s approval.Store) {
	for _, c := range []struct {
		name string
		end  func(tx approval.Tx, id string) error
	}{
		{"denied", func(tx approval.Tx, id string) error { return mustChange(tx.Resolve(ending(tx, id, approval.Denied))) }},
		{"cancelled", func(tx approval.Tx, id string) error {
			return mustChange(tx.Resolve(ending(tx, id, approval.Cancelled)))
		}},
		{"expired", func(tx approval.Tx, id string) error {
			r, err := tx.Request(id)
			if err != nil {
				return err
			}
			e := ending(tx, id, approval.Expired)
			e.At = r.ExpiresAt
			return mustChange(tx.Resolve(e))
		}},
		{"consumed", func(tx approval.Tx, id string) error {
			return errors.Join(mustChange(tx.Resolve(approvalOf(tx, id, time.Hour))), mustChange(tx.Consume(id, false, "")))
		}},
		{"lapsed", func(tx approval.Tx, id string) error {
			return errors.Join(mustChange(tx.Resolve(approvalOf(tx, id, 0))), mustChange(tx.Lapse(id)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := insert(t, s, "bot", "tool-"+c.name, nil)
			update(t, s, func(tx approval.Tx) error { return c.end(tx, old.ID) })
			if r := get(t, s, old.ID); r.Live() {
				t.Fatalf("still live: %+v", r)
			}
			view(t, s, func(tx approval.Tx) error {
				if r, err := tx.Live(old.Key()); !errors.Is(err, approval.ErrNotFound) {
					t.Errorf("Live: got %v %v, want ErrNotFound", r.ID, err)
				}
				return nil
			})
			insert(t, s, "bot", "tool-"+c.name, nil) // the key is free again
		})
	}
}

// manyRequests stores requests of all kinds, and returns them newest first.
func manyRequests(t *testing.T, s approval.Store) []approval.Request {
	t.Helper()
	var all []approval.Request
	for i := range 20 {
		all = append(all, insert(t, s, fmt.Sprintf("bot%d", i%2), fmt.Sprintf("tool%d", i%3), func(r *approval.Request) {
			r.ArgsHash = hash(fmt.Sprint(i))
			if i%4 == 0 {
				r.Server = "files"
			}
			if i%5 == 0 {
				r.Risk = approval.RiskLow
			}
		}))
	}
	for i, r := range all {
		if i%6 == 0 {
			update(t, s, func(tx approval.Tx) error { return mustChange(tx.Resolve(ending(tx, r.ID, approval.Denied))) })
		}
	}
	slices.Reverse(all)
	return all
}

func requests(t *testing.T, s approval.Store) {
	all := manyRequests(t, s)
	pick := func(keep func(approval.Request) bool) []string {
		var out []string
		for _, r := range all {
			if keep(r) {
				out = append(out, r.ID)
			}
		}
		return out
	}
	after := all[4].ID
	for _, c := range []struct {
		name string
		q    approval.RequestQuery
		want []string
	}{
		{"everything, newest first", approval.RequestQuery{}, ids(all)},
		{"status", approval.RequestQuery{Status: approval.Denied},
			pick(func(r approval.Request) bool { return get(t, s, r.ID).Status == approval.Denied })},
		{"pending", approval.RequestQuery{Status: approval.Pending},
			pick(func(r approval.Request) bool { return get(t, s, r.ID).Status == approval.Pending })},
		{"no such status", approval.RequestQuery{Status: approval.Expired}, nil},
		{"agent", approval.RequestQuery{Agent: "bot1"}, pick(func(r approval.Request) bool { return r.Agent == "bot1" })},
		{"tool", approval.RequestQuery{Tool: "tool2"}, pick(func(r approval.Request) bool { return r.Tool == "tool2" })},
		{"server/tool", approval.RequestQuery{Tool: "files/tool2"},
			pick(func(r approval.Request) bool { return r.Server == "files" && r.Tool == "tool2" })},
		{"risk", approval.RequestQuery{Risk: approval.RiskLow},
			pick(func(r approval.Request) bool { return r.Risk == approval.RiskLow })},
		{"after", approval.RequestQuery{After: after}, pick(func(r approval.Request) bool { return r.ID < after })},
		{"limit", approval.RequestQuery{Limit: 3}, ids(all[:3])},
		{"all together", approval.RequestQuery{Status: approval.Pending, Agent: "bot0", Tool: "tool1",
			Risk: approval.RiskHigh, After: all[0].ID, Limit: 2}, pick(func(r approval.Request) bool {
			return get(t, s, r.ID).Status == approval.Pending && r.Agent == "bot0" && r.Tool == "tool1" &&
				r.Risk == approval.RiskHigh && r.ID < all[0].ID
		})[:2]},
	} {
		checkRequests(t, s, c.name, c.q, c.want)
	}
	equal(t, "page by page", requestPages(t, s, 7), ids(all))
}

// checkRequests sees that a query finds the requests wanted, whole and as heads.
func checkRequests(t *testing.T, s approval.Store, name string, q approval.RequestQuery, want []string) {
	t.Helper()
	view(t, s, func(tx approval.Tx) error {
		rs, err := tx.Requests(q)
		if !slices.Equal(ids(rs), want) {
			t.Errorf("%s: got %v, want %v", name, ids(rs), want)
		}
		var narrow []approval.Head
		for _, r := range rs {
			narrow = append(narrow, Head(r))
			h, err := tx.Head(r.ID)
			equal(t, name+": Head", h, Head(r))
			if err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		hs, err := tx.Heads(q)
		equal(t, name+": Heads", hs, narrow)
		return err
	})
}

// requestPages reads all requests page by page.
func requestPages(t *testing.T, s approval.Store, size int) []string {
	t.Helper()
	var paged []string
	for after := ""; ; {
		var page []approval.Request
		view(t, s, func(tx approval.Tx) (err error) {
			page, err = tx.Requests(approval.RequestQuery{After: after, Limit: size})
			return err
		})
		if len(page) == 0 {
			break
		}
		paged = append(paged, ids(page)...)
		after = page[len(page)-1].ID
	}
	return paged
}

func batch(t *testing.T, s approval.Store) {
	var want []string
	for i := range 3 {
		r := insert(t, s, "bot", fmt.Sprint("tool", i), func(r *approval.Request) { r.BatchID = "batch" })
		want = append(want, r.ID)
	}
	insert(t, s, "bot", "alone", nil)
	view(t, s, func(tx approval.Tx) error {
		rs, err := tx.Batch("batch")
		if err != nil {
			return err
		}
		equal(t, "Batch", ids(rs), want)
		hs, err := tx.BatchHeads("batch")
		equal(t, "BatchHeads", ids(hs), want)
		if err != nil {
			return err
		}
		if none, err := tx.Batch("none"); err != nil || len(none) != 0 {
			t.Errorf("a batch that is not there: got %v, %v", none, err)
		}
		return err
	})
}

func due(t *testing.T, s approval.Store) {
	view(t, s, func(tx approval.Tx) error {
		next, err := tx.NextDeadline()
		if !next.IsZero() {
			t.Errorf("NextDeadline of an empty store: %v", next)
		}
		return err
	})
	var late, later, unused, far approval.Request
	update(t, s, func(tx approval.Tx) error {
		now := tx.Now()
		for _, r := range []struct {
			r  *approval.Request
			in time.Duration
		}{{&later, 0}, {&late, -2 * time.Second}, {&unused, time.Hour}, {&far, 2 * time.Hour}} {
			*r.r = newRequest(tx, "bot", fmt.Sprint("in ", r.in))
			r.r.Tool = "tool"
			r.r.ExpiresAt = now.Add(r.in)
			if err := tx.InsertRequest(*r.r); err != nil {
				return err
			}
		}
		return mustChange(tx.Resolve(approvalOf(tx, unused.ID, -time.Second)))
	})
	view(t, s, func(tx approval.Tx) error {
		rs, err := tx.Due(0)
		equal(t, "Due, oldest deadline first", ids(rs), []string{late.ID, unused.ID, later.ID}) // at the deadline is due
		if err != nil {
			return err
		}
		rs, err = tx.Due(2)
		equal(t, "Due(2)", ids(rs), []string{late.ID, unused.ID})
		if err != nil {
			return err
		}
		next, err := tx.NextDeadline()
		equal(t, "NextDeadline", next, late.ExpiresAt)
		return err
	})
	update(t, s, func(tx approval.Tx) error {
		expiry := func(r approval.Request) approval.Resolution {
			return approval.Resolution{ID: r.ID, Status: approval.Expired, At: r.ExpiresAt, By: "system:timeout",
				Via: approval.ViaSystem}
		}
		return errors.Join(mustChange(tx.Resolve(expiry(late))), mustChange(tx.Resolve(expiry(later))))
	})
	view(t, s, func(tx approval.Tx) error {
		next, err := tx.NextDeadline()
		equal(t, "NextDeadline is a use_by", next, get(t, s, unused.ID).UseBy)
		return err
	})
	update(t, s, func(tx approval.Tx) error { return mustChange(tx.Lapse(unused.ID)) })
	view(t, s, func(tx approval.Tx) error {
		rs, err := tx.Due(0)
		equal(t, "Due when all have ended", len(rs), 0)
		if err != nil {
			return err
		}
		next, err := tx.NextDeadline()
		equal(t, "NextDeadline of the one left", next, far.ExpiresAt)
		return err
	})
}

func countPending(t *testing.T, s approval.Store) {
	a := insert(t, s, "a", "1", nil)
	insert(t, s, "a", "2", nil)
	insert(t, s, "b", "1", nil)
	approve(t, s, a.ID, time.Hour) // live, but not pending
	view(t, s, func(tx approval.Tx) error {
		for agent, want := range map[string]int{"a": 1, "b": 1, "c": 0, "": 2} {
			n, err := tx.CountPending(agent)
			if err != nil || n != want {
				t.Errorf("CountPending(%q): got %d, %v, want %d", agent, n, err, want)
			}
		}
		return nil
	})
}

func resolve(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	update(t, s, func(tx approval.Tx) error {
		tooLate := approvalOf(tx, r.ID, time.Hour)
		tooLate.At = r.ExpiresAt // at the deadline is after it
		tooEarly := ending(tx, r.ID, approval.Expired)
		tooEarly.At = r.ExpiresAt.Add(-time.Millisecond)
		return errors.Join(
			mustNotChange(tx.Resolve(tooLate)), mustNotChange(tx.Resolve(tooEarly)),
			mustNotChange(tx.Consume(r.ID, false, "")), mustNotChange(tx.Lapse(r.ID)), mustNotChange(tx.Ack("bot", r.ID)))
	})
	equal(t, "after what must change nothing", get(t, s, r.ID), r)

	var at time.Time
	update(t, s, func(tx approval.Tx) error {
		at = tx.Now()
		inTime := approvalOf(tx, r.ID, time.Minute)
		inTime.At = r.ExpiresAt.Add(-time.Millisecond)
		return errors.Join(mustChange(tx.Resolve(inTime)), mustNotChange(tx.Resolve(ending(tx, r.ID, approval.Denied))),
			mustNotChange(tx.Resolve(inTime)))
	})
	got := get(t, s, r.ID)
	want1 := r
	want1.Status, want1.ResolvedAt, want1.ResolvedBy, want1.ResolvedVia, want1.ResolveReason = approval.Approved,
		r.ExpiresAt.Add(-time.Millisecond), "hana", approval.Via("line"), "fine"
	want1.UseBy, want1.ResolvedSeq = at.Add(time.Minute), got.ResolvedSeq
	equal(t, "approved", got, want1)

	// Taking an approval back brings it into the feed again, though it was acknowledged.
	update(t, s, func(tx approval.Tx) error { return mustChange(tx.Ack("bot", r.ID)) })
	update(t, s, func(tx approval.Tx) error {
		return errors.Join(mustChange(tx.Resolve(ending(tx, r.ID, approval.Cancelled))),
			mustNotChange(tx.Consume(r.ID, false, "")), mustNotChange(tx.Resolve(ending(tx, r.ID, approval.Cancelled))))
	})
	back := get(t, s, r.ID)
	if back.Status != approval.Cancelled || back.Live() || !back.AckedAt.IsZero() || back.ResolvedSeq <= got.ResolvedSeq ||
		back.ResolveReason != "" {
		t.Errorf("an approval taken back: %+v", back)
	}
}

func consume(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	approve(t, s, r.ID, time.Hour)
	var at time.Time
	update(t, s, func(tx approval.Tx) error {
		at = tx.Now()
		return errors.Join(mustChange(tx.Consume(r.ID, false, "")), mustNotChange(tx.Consume(r.ID, false, "")),
			mustNotChange(tx.Lapse(r.ID)), mustNotChange(tx.Resolve(ending(tx, r.ID, approval.Cancelled))))
	})
	got := get(t, s, r.ID)
	if !got.ConsumedAt.Equal(at) || !got.AckedAt.Equal(at) || got.Status != approval.Approved || !got.LapsedAt.IsZero() {
		t.Errorf("consumed: %+v", got)
	}
	late := insert(t, s, "bot", "late", nil)
	update(t, s, func(tx approval.Tx) error {
		// at use_by is too late
		return errors.Join(mustChange(tx.Resolve(approvalOf(tx, late.ID, 0))), mustNotChange(tx.Consume(late.ID, false, "")))
	})
}

// insertUsed stores a request whose approval was used.
func insertUsed(t testing.TB, s approval.Store, tool string, dispatched bool) approval.Request {
	t.Helper()
	r := insert(t, s, "bot", tool, nil)
	approve(t, s, r.ID, time.Hour)
	update(t, s, func(tx approval.Tx) error { return mustChange(tx.Consume(r.ID, dispatched, "who sends "+tool)) })
	return get(t, s, r.ID)
}

// The use of what was sent on is taken back once, if nothing is known of it and nothing else came in its place.
func giveBack(t *testing.T, s approval.Store) {
	mine, kept := insertUsed(t, s, "mine", false), insertUsed(t, s, "kept", true)
	update(t, s, func(tx approval.Tx) error {
		other := kept
		other.DispatchedAt = kept.DispatchedAt.Add(time.Millisecond)
		counted := kept
		counted.Returned = 1
		return errors.Join(mustNotChange(tx.Return(mine)), mustNotChange(tx.Return(other)), mustNotChange(tx.Return(counted)))
	})
	equal(t, "after what must change nothing", get(t, s, kept.ID), kept)
	update(t, s, func(tx approval.Tx) error {
		return errors.Join(mustChange(tx.Return(kept)), mustNotChange(tx.Return(kept)))
	})
	got, back := get(t, s, kept.ID), kept
	back.ConsumedAt, back.DispatchedAt, back.AckedAt = time.Time{}, time.Time{}, time.Time{}
	back.Runner, back.Returned, back.ResolvedSeq = "", 1, got.ResolvedSeq
	if equal(t, "given back", got, back); got.ResolvedSeq <= kept.ResolvedSeq {
		t.Errorf("it is not the last in the feed: %d after %d", got.ResolvedSeq, kept.ResolvedSeq)
	}
	update(t, s, func(tx approval.Tx) error { return mustChange(tx.Consume(kept.ID, true, "")) })
	again := get(t, s, kept.ID)
	update(t, s, func(tx approval.Tx) error {
		return errors.Join(mustNotChange(tx.Return(kept)), mustChange(tx.Report(kept.ID, approval.RunUnknown)),
			mustNotChange(tx.Return(again)))
	})
	first := insertUsed(t, s, "asked anew", true)
	insert(t, s, "bot", "asked anew", nil)
	update(t, s, func(tx approval.Tx) error { return mustNotChange(tx.Return(first)) })
	tools := insertUsed(t, s, "asked as a method", true)
	insert(t, s, "bot", "asked as a method", func(r *approval.Request) { r.Method = "resources/read" })
	update(t, s, func(tx approval.Tx) error { return mustChange(tx.Return(tools)) }) // that is another key
}

// An outcome is kept once, of what was dispatched; a known one takes the place of an unknown one.
func dispatch(t *testing.T, s approval.Store) {
	kept, sent := insertUsed(t, s, "kept", false), insertUsed(t, s, "sent", true)
	if !kept.DispatchedAt.IsZero() || kept.Runner != "" || sent.Runner == "" ||
		!sent.DispatchedAt.Equal(sent.ConsumedAt) || sent.RunResult != "" {
		t.Errorf("used %+v, dispatched %+v", kept, sent)
	}
	told := insertUsed(t, s, "told", true)
	given := []approval.Input{{At: sent.ConsumedAt, Method: "elicitation/create", Message: "Which?", Answer: `{"a":1}`},
		{At: sent.ConsumedAt, Method: "roots/list", Answer: "{}"}}
	update(t, s, func(tx approval.Tx) error { return tx.SetInputs(told.ID, given) })
	equal(t, "what the server was told", get(t, s, told.ID).Inputs, given)
	equal(t, "how much another's was told", len(get(t, s, kept.ID).Inputs), 0)
	waits := insert(t, s, "bot", "waits", nil)
	update(t, s, func(tx approval.Tx) error {
		return errors.Join(mustNotChange(tx.Report(kept.ID, approval.RunSucceeded)),
			mustNotChange(tx.Report(waits.ID, approval.RunUnknown)))
	})
	for _, step := range []struct {
		ran approval.RunResult
		ok  bool
		is  approval.RunResult
	}{
		{approval.RunUnknown, true, approval.RunUnknown},
		{approval.RunUnknown, false, approval.RunUnknown},
		{approval.RunFailed, true, approval.RunFailed},
		{approval.RunFailed, false, approval.RunFailed},
		{approval.RunSucceeded, false, approval.RunFailed},
		{approval.RunUnknown, false, approval.RunFailed},
	} {
		update(t, s, func(tx approval.Tx) error {
			ok, err := tx.Report(sent.ID, step.ran)
			equal(t, fmt.Sprintf("Report %s", step.ran), ok, step.ok)
			return err
		})
		sent.RunResult = step.is
		equal(t, fmt.Sprintf("after %s", step.ran), get(t, s, sent.ID), sent)
	}
}

func underWay(t *testing.T, s approval.Store) {
	var sent []string
	for i := range 4 {
		sent = append(sent, insertUsed(t, s, fmt.Sprint("tool", i), true).ID)
		time.Sleep(2 * time.Millisecond) // they are told apart by their time
	}
	insertUsed(t, s, "kept", false)
	insert(t, s, "bot", "waits", nil)
	look := func(runner string, limit int, want []string) {
		t.Helper()
		view(t, s, func(tx approval.Tx) error {
			rs, err := tx.UnderWay(runner, limit)
			for _, h := range rs {
				full, err := tx.Request(h.ID)
				narrow := Head(full)
				narrow.DispatchedAt = full.DispatchedAt
				if equal(t, "narrow", h, narrow); err != nil {
					return err
				}
				at, ran, err := tx.Dispatched(h.ID)
				equal(t, "sent on", at, full.DispatchedAt)
				if equal(t, "came of it", ran, full.RunResult); err != nil {
					return err
				}
			}
			equal(t, "under way", ids(rs), want)
			return err
		})
	}
	look("", 0, sent)
	look("", 2, sent[:2])
	look("who sends tool2", 0, sent[2:3])
	look("who sends nothing", 0, []string{})
	update(t, s, func(tx approval.Tx) error {
		return errors.Join(mustChange(tx.Report(sent[0], approval.RunUnknown)),
			mustChange(tx.Report(sent[2], approval.RunSucceeded)))
	})
	look("", 0, []string{sent[1], sent[3]})
	look("who sends tool2", 0, []string{})
	view(t, s, func(tx approval.Tx) error {
		at, ran, err := tx.Dispatched(sent[2])
		if equal(t, "outcome", ran, approval.RunSucceeded); at.IsZero() {
			t.Error("it was not sent on")
		}
		if _, _, err := tx.Dispatched("01KAFHZX3T9W8Y7B6A5D4C3E2F"); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("of no request: %v", err)
		}
		return err
	})
}

func tasks(t *testing.T, s approval.Store) {
	task := func(agent, tool string) string {
		return insert(t, s, agent, tool, func(r *approval.Request) { r.Task = true }).ID
	}
	pending, approved, other := task("bot", "pay"), task("bot", "ship"), task("other", "pay")
	over, done := task("bot", "print"), task("bot", "mail")
	insert(t, s, "bot", "no task", nil)
	approve(t, s, approved, time.Hour)
	approve(t, s, done, time.Hour)
	update(t, s, func(tx approval.Tx) error {
		return errors.Join(mustChange(tx.Consume(done, true, "")), mustChange(tx.Resolve(ending(tx, over, approval.Denied))))
	})
	for agent, want := range map[string][]string{"bot": {pending, approved}, "other": {other},
		"": {pending, approved, other}, "none": {}} {
		view(t, s, func(tx approval.Tx) error {
			rs, err := tx.Tasks(agent)
			equal(t, "tasks of "+agent, ids(rs), want)
			return err
		})
	}
	view(t, s, func(tx approval.Tx) error {
		agents, err := tx.LiveAgents()
		slices.Sort(agents)
		equal(t, "agents with live requests", agents, []string{"bot", "other"})
		rs, wrong := tx.LiveOf("bot", 10)
		slices.SortFunc(rs, func(a, b approval.Head) int { return strings.Compare(a.ID, b.ID) })
		equal(t, "how many are the bot's", len(rs), 3)
		equal(t, "the bot's live requests", []string{rs[0].ID, rs[1].ID}, []string{pending, approved})
		few, bad := tx.LiveOf("bot", 2)
		equal(t, "how many at most", len(few), 2)
		return errors.Join(err, wrong, bad)
	})
}

func pins(t *testing.T, s approval.Store) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 7e6, time.UTC)
	first := approval.ToolPin{Server: "files", Tool: "read", Digest: hash("a"), SeenAt: at}
	other := approval.ToolPin{Tool: "read", Digest: hash("b"), SeenAt: at, AcceptedBy: "hana"}
	accepted := approval.ToolPin{Server: "files", Tool: "read", Digest: hash("c"), SeenAt: at.Add(time.Hour),
		AcceptedBy: "hana", Earlier: hash("a") + " " + hash("b")}
	said := approval.ToolPin{Agent: "bot", Server: "files", Tool: "read", Digest: hash("d"), SeenAt: at}
	pins := []approval.ToolPin{first, other, said, accepted, first}
	everyFieldSet(t, pins)
	for _, p := range pins {
		update(t, s, func(tx approval.Tx) error { return tx.PutPin(p) })
		view(t, s, func(tx approval.Tx) error {
			got, err := tx.Pin(p.Agent, p.Server, p.Tool)
			equal(t, "Pin", got, p)
			if _, err := tx.Pin(p.Agent, p.Server, "write"); !errors.Is(err, approval.ErrNotFound) {
				t.Errorf("a tool that was not seen: got %v, want ErrNotFound", err)
			}
			return err
		})
	}
	view(t, s, func(tx approval.Tx) error {
		got, err := tx.Pin("", "", "read")
		equal(t, "the other server's tool", got, other)
		mine, wrong := tx.Pin("bot", "files", "read")
		equal(t, "what an agent said", mine, said)
		if _, err := tx.Pin("other", "files", "read"); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("what another agent said: got %v, want ErrNotFound", err)
		}
		return errors.Join(err, wrong)
	})
}

func lapse(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	approve(t, s, r.ID, time.Hour)
	update(t, s, func(tx approval.Tx) error { return mustNotChange(tx.Lapse(r.ID)) })
	late := insert(t, s, "bot", "late", nil)
	update(t, s, func(tx approval.Tx) error {
		return errors.Join(mustChange(tx.Resolve(approvalOf(tx, late.ID, 0))), mustChange(tx.Ack("bot", late.ID)))
	})
	before := get(t, s, late.ID)
	update(t, s, func(tx approval.Tx) error {
		return errors.Join(mustChange(tx.Lapse(late.ID)), mustNotChange(tx.Lapse(late.ID)),
			mustNotChange(tx.Consume(late.ID, false, "")))
	})
	got := get(t, s, late.ID)
	if !got.LapsedAt.Equal(before.UseBy) || !got.AckedAt.IsZero() || got.Status != approval.Approved ||
		got.ResolvedSeq <= before.ResolvedSeq {
		t.Errorf("lapsed: %+v, before %+v", got, before)
	}
}

// A reason can be given once, by the person who denied without one, and brings the denial back into the feed.
func addReason(t *testing.T, s approval.Store) {
	denied, approved, pending := insert(t, s, "bot", "pay", nil), insert(t, s, "bot", "ship", nil),
		insert(t, s, "bot", "print", nil)
	update(t, s, func(tx approval.Tx) error {
		no := ending(tx, denied.ID, approval.Denied)
		no.By = "hana"
		return errors.Join(mustChange(tx.Resolve(no)), mustChange(tx.Resolve(approvalOf(tx, approved.ID, time.Hour))),
			mustChange(tx.Ack("bot", denied.ID)))
	})
	update(t, s, func(tx approval.Tx) error {
		return errors.Join(
			mustNotChange(tx.AddReason(denied.ID, "ken", "not his")),
			mustNotChange(tx.AddReason(approved.ID, "hana", "no denial")),
			mustNotChange(tx.AddReason(pending.ID, "hana", "not yet")),
			mustNotChange(tx.AddReason("01ARZ3NDEKTSV4RRFFQ69G5FAV", "hana", "nothing")),
			mustChange(tx.AddReason(denied.ID, "hana", "wrong account")),
			mustNotChange(tx.AddReason(denied.ID, "hana", "another")))
	})
	view(t, s, func(tx approval.Tx) error {
		r, err := tx.Request(denied.ID)
		if err != nil {
			return err
		}
		if r.ResolveReason != "wrong account" || !r.AckedAt.IsZero() {
			t.Errorf("after the reason: %+v", r)
		}
		rs, err := tx.Feed("bot", "", 10, 0)
		if len(rs) != 2 || rs[1].ID != denied.ID || r.ResolvedSeq <= rs[0].ResolvedSeq {
			t.Errorf("the feed has %v", ids(rs))
		}
		return err
	})
}

func dead(t *testing.T, s approval.Store) {
	a := approval.Address{Channel: "line", To: "U1"}
	is := func(tx approval.Tx, a approval.Address, want bool) error {
		got, err := tx.Dead(a)
		if got != want {
			t.Errorf("%v is dead: %t, want %t", a, got, want)
		}
		return err
	}
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	update(t, s, func(tx approval.Tx) error {
		return errors.Join(is(tx, a, false), mustNotChange(tx.SetDead(a, false, at)),
			mustChange(tx.SetDead(a, true, at.Add(2*time.Second))), is(tx, a, true),
			mustNotChange(tx.SetDead(a, true, at.Add(3*time.Second))), mustNotChange(tx.SetDead(a, false, at.Add(time.Second))),
			is(tx, a, true))
	})
	view(t, s, func(tx approval.Tx) error {
		return errors.Join(is(tx, a, true), is(tx, approval.Address{Channel: "slack", To: "U1"}, false),
			is(tx, approval.Address{Channel: "line", To: "U2"}, false))
	})
	update(t, s, func(tx approval.Tx) error {
		return errors.Join(mustChange(tx.SetDead(a, false, at.Add(9*time.Second))), is(tx, a, false),
			mustNotChange(tx.SetDead(a, true, at.Add(8*time.Second))), is(tx, a, false),
			mustChange(tx.SetDead(a, true, at.Add(9*time.Second))), is(tx, a, true))
	})
}

func feed(t *testing.T, s approval.Store) {
	var rs []approval.Request
	for i := range 4 {
		rs = append(rs, insert(t, s, "bot", fmt.Sprint("tool", i), func(r *approval.Request) { r.SessionID = "s0" }))
	}
	other := insert(t, s, "other", "tool", nil)
	feedOf := func(session string, limit int) (out []string) {
		view(t, s, func(tx approval.Tx) error {
			f, err := tx.Feed("bot", session, limit, 0)
			out = ids(f)
			return err
		})
		return out
	}
	equal(t, "nothing has ended", feedOf("", 0), []string{})
	update(t, s, func(tx approval.Tx) error {
		return errors.Join( // in this order they end
			mustChange(tx.Resolve(ending(tx, rs[2].ID, approval.Denied))), mustChange(tx.Resolve(approvalOf(tx, rs[0].ID, 0))),
			mustChange(tx.Resolve(ending(tx, rs[1].ID, approval.Cancelled))),
			mustChange(tx.Resolve(ending(tx, other.ID, approval.Denied))))
	})
	equal(t, "in the order of endings", feedOf("", 0), []string{rs[2].ID, rs[0].ID, rs[1].ID})
	equal(t, "limited", feedOf("", 2), []string{rs[2].ID, rs[0].ID})
	equal(t, "of its session", feedOf("s0", 0), []string{rs[2].ID, rs[0].ID, rs[1].ID})
	equal(t, "of another session", feedOf("s1", 0), []string{})
	update(t, s, func(tx approval.Tx) error {
		return errors.Join(tx.AddSession(rs[1].ID, "s1"), tx.AddSession(rs[1].ID, "s1"), tx.AddSession(rs[1].ID, "s0"))
	})
	equal(t, "of a session that joined", feedOf("s1", 0), []string{rs[1].ID})
	update(t, s, func(tx approval.Tx) error {
		return errors.Join(
			mustNotChange(tx.Ack("other", rs[2].ID)), // not its own
			mustChange(tx.Ack("bot", rs[2].ID)), mustNotChange(tx.Ack("bot", rs[2].ID)),
			mustChange(tx.Ack("bot", rs[0].ID)), mustNotChange(tx.Ack("bot", rs[3].ID)))
	})
	equal(t, "acknowledged ones are gone", feedOf("", 0), []string{rs[1].ID})
	update(t, s, func(tx approval.Tx) error { return mustChange(tx.Lapse(rs[0].ID)) })
	equal(t, "a lapse comes back, last", feedOf("", 0), []string{rs[1].ID, rs[0].ID})
	approve(t, s, rs[3].ID, time.Hour)
	update(t, s, func(tx approval.Tx) error { return mustChange(tx.Consume(rs[3].ID, false, "")) })
	equal(t, "consuming acknowledges", feedOf("", 0), []string{rs[1].ID, rs[0].ID})
}

func recent(t *testing.T, s approval.Store) {
	k := approval.Key{Agent: "bot", Scope: "/", Server: "bank", Tool: "pay", Method: "pay/now", ArgsHash: hash("k")}
	read := func() (r approval.Recent) {
		view(t, s, func(tx approval.Tx) (err error) {
			r, err = tx.Recent(k)
			return err
		})
		return r
	}
	equal(t, "nothing is kept", read(), approval.Recent{})
	now := s.Now().Truncate(time.Millisecond)
	use := &approval.Use{RequestID: "r", ApprovedBy: "hana", ApprovedAt: now, ConsumedAt: now.Add(time.Second)}
	sent := *use
	sent.DispatchedAt, sent.RunResult = use.ConsumedAt, approval.RunUnknown
	pasts := []approval.Recent{
		{Use: use}, {Use: &sent}, {DeniedID: "d", DeniedAt: now, Use: use}, {DeniedID: "d2", DeniedAt: now}, {},
	}
	everyFieldSet(t, pasts)
	for _, r := range pasts {
		update(t, s, func(tx approval.Tx) error { return tx.PutRecent(k, r) })
		equal(t, "Recent", read(), r)
	}
}

// newNotification returns a queued one that is due.
func newNotification(tx approval.Tx, approvalID string, kind approval.NotificationKind) approval.Notification {
	now := tx.Now()
	return approval.Notification{
		ID: tx.NewID(), ApprovalID: approvalID, Channel: "line", Recipient: "U1", Kind: kind, Status: approval.Queued,
		NextAttemptAt: now, CreatedAt: now, UpdatedAt: now,
	}
}

func insertNotification(t testing.TB, s approval.Store, approvalID string,
	change func(*approval.Notification)) approval.Notification {
	t.Helper()
	var n approval.Notification
	update(t, s, func(tx approval.Tx) error {
		n = newNotification(tx, approvalID, approval.KindRequest)
		if change != nil {
			change(&n)
		}
		return tx.InsertNotification(n)
	})
	return n
}

func notificationKeepsEverything(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	var full, bare approval.Notification
	update(t, s, func(tx approval.Tx) error {
		now := tx.Now()
		full = approval.Notification{
			ID: tx.NewID(), ApprovalID: r.ID, BatchID: "batch", Channel: "slack", Recipient: "C1", Kind: approval.KindEdit,
			Status:  approval.Retrying,
			Attempt: 3, MessageID: "m", HTTPStatus: 429, Error: "rate_limited: slow down", NextAttemptAt: now.Add(time.Second),
			LeaseUntil: now.Add(2 * time.Second),
			FirstTryAt: now.Add(-time.Hour), SentAt: now.Add(-time.Minute), CreatedAt: now, UpdatedAt: now.Add(time.Millisecond),
			Body: []byte{0, 1, 0xff}, Receipt: []byte(`{"ts":"1.2"}`), TargetID: tx.NewID(), RetryKey: "key", Revived: true,
			ReplyTo: "token", Text: "Approved.", Cards: []string{r.ID, "x"}, Part: 2, More: true, Note: approval.NoteReason,
			Language: "th",
			After:    1, Shown: 3, Change: 2, Drawn: 1, Silent: true, HeldFor: "bot",
			TurnAt: now.Add(time.Minute),
		}
		bare = newNotification(tx, "", approval.KindReply)
		return errors.Join(tx.InsertNotification(full), tx.InsertNotification(bare))
	})
	everyFieldSet(t, []approval.Notification{full}, "Narrow") // which is not stored
	view(t, s, func(tx approval.Tx) error {
		for _, n := range []approval.Notification{full, bare} {
			got, err := tx.Notification(n.ID)
			if err != nil {
				return err
			}
			equal(t, "Notification", got, n)
		}
		return nil
	})
}

// manyNotifications stores notifications of all kinds, about the two requests, and returns them newest first.
func manyNotifications(t *testing.T, s approval.Store, a, b approval.Request) []approval.Notification {
	t.Helper()
	var all []approval.Notification
	for i := range 12 {
		all = append(all, insertNotification(t, s, []string{a.ID, b.ID}[i%2], func(n *approval.Notification) {
			n.Channel = []string{"line", "slack", "slack"}[i%3]
			n.Recipient = fmt.Sprint("U", i%4)
			n.MessageID = fmt.Sprint("m", i/2)
			if i >= 8 {
				n.BatchID = "batch"
			}
			if i%5 == 0 {
				n.Kind, n.Status = approval.KindReminder, approval.Sent
			}
			if i%5 == 1 {
				n.Kind = approval.KindReply
			}
			n.CreatedAt = n.CreatedAt.Add(time.Duration(i-20) * time.Hour)
		}))
	}
	slices.Reverse(all)
	return all
}

//nolint:funlen // one straight story
func notifications(t *testing.T, s approval.Store) {
	a, b := insert(t, s, "bot", "a", nil), insert(t, s, "bot", "b", nil)
	all := manyNotifications(t, s, a, b)
	for _, c := range []struct {
		name string
		q    approval.NotificationQuery
		keep func(n approval.Notification) bool
	}{
		{"everything", approval.NotificationQuery{}, func(approval.Notification) bool { return true }},
		{"status", approval.NotificationQuery{Status: approval.Sent},
			func(n approval.Notification) bool { return n.Status == approval.Sent }},
		{"channel", approval.NotificationQuery{Channel: "slack"},
			func(n approval.Notification) bool { return n.Channel == "slack" }},
		{"approval", approval.NotificationQuery{ApprovalID: a.ID},
			func(n approval.Notification) bool { return n.ApprovalID == a.ID }},
		{"batch", approval.NotificationQuery{BatchID: "batch"},
			func(n approval.Notification) bool { return n.BatchID == "batch" }},
		{"approval or batch", approval.NotificationQuery{ApprovalID: a.ID, BatchID: "batch"},
			func(n approval.Notification) bool { return n.ApprovalID == a.ID || n.BatchID == "batch" }},
		{"approval or batch, and more", approval.NotificationQuery{ApprovalID: a.ID, BatchID: "batch", Channel: "line"},
			func(n approval.Notification) bool {
				return (n.ApprovalID == a.ID || n.BatchID == "batch") && n.Channel == "line"
			}},
		{"recipient", approval.NotificationQuery{Recipient: "U1"},
			func(n approval.Notification) bool { return n.Recipient == "U1" }},
		{"message", approval.NotificationQuery{MessageID: "m3"},
			func(n approval.Notification) bool { return n.MessageID == "m3" }},
		{"kind", approval.NotificationQuery{Kind: approval.KindReminder},
			func(n approval.Notification) bool { return n.Kind == approval.KindReminder }},
		{"several", approval.NotificationQuery{Several: true},
			func(n approval.Notification) bool { return n.Kind == approval.KindReply || n.BatchID != "" }},
		{"replies", approval.NotificationQuery{Kind: approval.KindReply, Recipient: "U1"},
			func(n approval.Notification) bool { return n.Kind == approval.KindReply && n.Recipient == "U1" }},
		{"after", approval.NotificationQuery{After: all[3].ID},
			func(n approval.Notification) bool { return n.ID < all[3].ID }},
		{"since", approval.NotificationQuery{Since: all[5].CreatedAt},
			func(n approval.Notification) bool { return !n.CreatedAt.Before(all[5].CreatedAt) }},
	} {
		var want []string
		for _, n := range all {
			if c.keep(n) {
				want = append(want, n.ID)
			}
		}
		view(t, s, func(tx approval.Tx) error {
			for _, limit := range []int{0, 2} {
				c.q.Limit = limit
				want := want
				if limit > 0 {
					want = want[:min(limit, len(want))]
				}
				ns, err := tx.Notifications(c.q)
				if err != nil {
					return err
				}
				if !slices.Equal(ids(ns), want) {
					t.Errorf("%s, limit %d: got %v, want %v", c.name, limit, ids(ns), want)
				}
			}
			return nil
		})
	}
}

// dueSoon looks for a notification that is later than now, by where it goes and until when.
func dueSoon(t *testing.T, s approval.Store, later approval.Notification) {
	t.Helper()
	view(t, s, func(tx approval.Tx) error {
		to := later.Address()
		for until, want := range map[time.Time][]string{
			later.NextAttemptAt: {later.ID}, later.NextAttemptAt.Add(-time.Millisecond): {},
		} {
			ns, err := tx.DueSoon(to, until)
			if equal(t, "DueSoon", ids(ns), want); err != nil {
				return err
			}
		}
		ns, err := tx.DueSoon(approval.Address{Channel: to.Channel, To: "somebody else"}, later.NextAttemptAt)
		equal(t, "DueSoon elsewhere", len(ns), 0)
		return err
	})
}

func sendable(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	put := func(due, lease time.Duration, status approval.NotificationStatus) approval.Notification {
		return insertNotification(t, s, r.ID, func(n *approval.Notification) {
			n.Status = status
			now := n.CreatedAt
			n.NextAttemptAt = now.Add(due)
			if lease != 0 {
				n.LeaseUntil = now.Add(lease)
			}
		})
	}
	view(t, s, func(tx approval.Tx) error {
		next, err := tx.NextSendable()
		if !next.IsZero() {
			t.Errorf("NextSendable of an empty store: %v", next)
		}
		return err
	})
	second := put(0, 0, approval.Queued)
	first := put(-time.Minute, 0, approval.Retrying)
	freed := put(-2*time.Second, -time.Second, approval.Queued) // its sender is gone
	held := put(-time.Hour, time.Hour, approval.Queued)
	later := put(time.Hour, 0, approval.Retrying)
	for _, done := range []approval.NotificationStatus{approval.Sent, approval.Delivered, approval.Failed,
		approval.Skipped} {
		put(-time.Hour, 0, done)
	}
	view(t, s, func(tx approval.Tx) error {
		ns, err := tx.Sendable(0)
		equal(t, "Sendable", ids(ns), []string{first.ID, freed.ID, second.ID})
		if err != nil {
			return err
		}
		ns, err = tx.Sendable(2)
		equal(t, "Sendable(2)", ids(ns), []string{first.ID, freed.ID})
		if err != nil {
			return err
		}
		next, err := tx.NextSendable()
		equal(t, "NextSendable is in the past", next, first.NextAttemptAt)
		return err
	})
	dueSoon(t, s, later)
	for _, n := range []approval.Notification{first, freed, second} {
		n.LeaseUntil, n.Attempt = held.LeaseUntil.Add(time.Hour), 1
		update(t, s, func(tx approval.Tx) error { return mustChange(tx.UpdateNotification(n, n.Status, 0)) })
	}
	view(t, s, func(tx approval.Tx) error {
		ns, err := tx.Sendable(0)
		equal(t, "all are held", len(ns), 0)
		if err != nil {
			return err
		}
		next, err := tx.NextSendable()
		equal(t, "NextSendable is the earlier of a lease's end and a time", next,
			slices.MinFunc([]time.Time{held.LeaseUntil, later.NextAttemptAt}, time.Time.Compare))
		return err
	})
}

func sendableOutcomes(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	card := insertNotification(t, s, r.ID, func(n *approval.Notification) { n.Status = approval.Sent })
	other := insertNotification(t, s, r.ID, func(n *approval.Notification) { n.Status = approval.Sent })
	outcome := func(target string, ago time.Duration) approval.Notification {
		return insertNotification(t, s, r.ID, func(n *approval.Notification) {
			n.Kind, n.TargetID, n.NextAttemptAt = approval.KindEdit, target, n.CreatedAt.Add(-ago)
		})
	}
	first, second, elsewhere := outcome(card.ID, 3*time.Second), outcome(card.ID, 2*time.Second),
		outcome(other.ID, time.Second)
	list := func() (out []string) {
		view(t, s, func(tx approval.Tx) error {
			ns, err := tx.Sendable(0)
			out = ids(ns)
			return err
		})
		return out
	}
	equal(t, "one of each target", list(), []string{first.ID, elsewhere.ID})
	first.LeaseUntil, first.Attempt = s.Now().Add(time.Hour).Truncate(time.Millisecond), 1
	update(t, s, func(tx approval.Tx) error { return mustChange(tx.UpdateNotification(first, approval.Queued, 0)) })
	equal(t, "none of a target that has one held", list(), []string{elsewhere.ID})
	first.Status, first.LeaseUntil = approval.Sent, time.Time{}
	update(t, s, func(tx approval.Tx) error { return mustChange(tx.UpdateNotification(first, approval.Queued, 1)) })
	equal(t, "the next when that is sent", list(), []string{second.ID, elsewhere.ID})
}

func updateNotification(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	n := insertNotification(t, s, r.ID, nil)
	changed := n
	now := n.CreatedAt
	changed.Status, changed.Attempt, changed.MessageID, changed.HTTPStatus, changed.Error = approval.Retrying, 2, "m", 500,
		"server_error"
	changed.NextAttemptAt, changed.LeaseUntil, changed.FirstTryAt, changed.SentAt,
		changed.UpdatedAt = now.Add(1*time.Second), now.Add(2*time.Second), now.Add(3*time.Second), now.Add(4*time.Second),
		now.Add(5*time.Second)
	changed.Body, changed.Receipt, changed.TargetID, changed.RetryKey, changed.Revived = []byte("b"), []byte(`{}`), "t",
		"k", true
	changed.ReplyTo, changed.Text, changed.Cards = "to", "text", []string{"c"}
	changed.Part, changed.More, changed.Note = 3, true, approval.NoteUnreached
	identity := changed // none of these is stored
	identity.ApprovalID, identity.BatchID, identity.Channel, identity.Recipient, identity.Kind, identity.CreatedAt = "x",
		"x", "x", "x", approval.KindReply, now.Add(-time.Hour)
	update(t, s, func(tx approval.Tx) error {
		return errors.Join(
			mustNotChange(tx.UpdateNotification(identity, approval.Sent, 0)),
			mustNotChange(tx.UpdateNotification(identity, approval.Queued, 1)),
			mustChange(tx.UpdateNotification(identity, approval.Queued, 0)),
			mustNotChange(tx.UpdateNotification(identity, approval.Queued, 0)))
	})
	view(t, s, func(tx approval.Tx) error {
		got, err := tx.Notification(n.ID)
		equal(t, "after the update", got, changed)
		return err
	})
}

// manyEvents appends events of all kinds and returns them as they were stored.
func manyEvents(t *testing.T, s approval.Store) []approval.Event {
	t.Helper()
	var all []approval.Event
	r := insert(t, s, "bot", "pay", nil)
	for i := range 12 {
		e := approval.Event{
			Type: []approval.EventType{approval.EventCallAllowed, approval.EventDecision,
				approval.EventNotificationSent}[i%3],
			CorrelationID: "c", Actor: "agent:bot",
			ApprovalID: r.ID, Agent: fmt.Sprint("bot", i%2), Tool: fmt.Sprint("files/t", i%4),
			Risk:     []approval.Risk{approval.RiskLow, approval.RiskHigh}[i%2],
			Decision: []string{"allow", "deny"}[i%2], Reason: "why", Data: []byte(`{"a":1}`),
		}
		if i == 5 {
			e = approval.Event{Type: approval.EventPolicyReloaded}
			// takes no seq
			update(t, s, func(tx approval.Tx) error { return mustChange(tx.Resolve(approvalOf(tx, r.ID, time.Hour))) })
		}
		var stored approval.Event
		update(t, s, func(tx approval.Tx) (err error) {
			stored, err = tx.Append(e)
			if !stored.At.Equal(tx.Now()) || stored.ID == "" {
				t.Errorf("Append: %+v at %v", stored, tx.Now())
			}
			return err
		})
		all = append(all, stored)
		time.Sleep(3 * time.Millisecond) // so that each has a time of its own
	}
	readSeqs(t, s, all)
	for i, e := range all[1:] {
		if was := all[i]; e.Seq <= was.Seq || e.ID <= was.ID || e.At.Before(was.At) {
			t.Errorf("an event goes back: %+v after %+v", e, was)
		}
	}
	if n := all[len(all)-1].Seq - all[0].Seq; n != int64(len(all)-1) {
		t.Errorf("%d events are %d seqs apart, one of which an ending took", len(all), n)
	}
	return all
}

// readSeqs gives events the seq that they have in the audit log: a store may number them after their commit. One that
// it has told already stays.
func readSeqs(t *testing.T, s approval.Store, es []approval.Event) {
	t.Helper()
	seqs := map[string]int64{}
	view(t, s, func(tx approval.Tx) error {
		stored, err := tx.Events(approval.EventQuery{})
		for _, e := range stored {
			seqs[e.ID] = e.Seq
		}
		return err
	})
	for i, e := range es {
		if es[i].Seq = seqs[e.ID]; es[i].Seq == 0 || e.Seq != 0 && e.Seq != es[i].Seq {
			t.Errorf("%+v has the seq %d in the audit log", e, es[i].Seq)
		}
	}
}

func events(t *testing.T, s approval.Store) {
	view(t, s, func(tx approval.Tx) error {
		oldest, newest, err := tx.SeqRange()
		if oldest != 0 || newest != 0 {
			t.Errorf("SeqRange of an empty log: %d, %d", oldest, newest)
		}
		if es, err := tx.Events(approval.EventQuery{Since: time.Unix(0, 0), Until: s.Now()}); len(es) != 0 || err != nil {
			t.Errorf("Events of an empty log: %v, %v", es, err)
		}
		return err
	})
	all := manyEvents(t, s)
	everyFieldSet(t, all)
	mid := all[6]
	for _, c := range []struct {
		name string
		q    approval.EventQuery
		keep func(e approval.Event) bool
	}{
		{"everything", approval.EventQuery{}, func(approval.Event) bool { return true }},
		{"type", approval.EventQuery{Type: approval.EventDecision},
			func(e approval.Event) bool { return e.Type == approval.EventDecision }},
		{"frequent type", approval.EventQuery{Type: approval.EventCallAllowed},
			func(e approval.Event) bool { return e.Type == approval.EventCallAllowed }},
		{"decision", approval.EventQuery{Decision: "deny"}, func(e approval.Event) bool { return e.Decision == "deny" }},
		{"risk", approval.EventQuery{Risk: approval.RiskLow},
			func(e approval.Event) bool { return e.Risk == approval.RiskLow }},
		{"tool", approval.EventQuery{Tool: "files/t1"}, func(e approval.Event) bool { return e.Tool == "files/t1" }},
		{"agent", approval.EventQuery{Agent: "bot1"}, func(e approval.Event) bool { return e.Agent == "bot1" }},
		{"since", approval.EventQuery{Since: mid.At}, func(e approval.Event) bool { return !e.At.Before(mid.At) }},
		{"since, between milliseconds", approval.EventQuery{Since: mid.At.Add(time.Microsecond)},
			func(e approval.Event) bool { return e.At.After(mid.At) }},
		{"until", approval.EventQuery{Until: mid.At}, func(e approval.Event) bool { return e.At.Before(mid.At) }},
		{"since and until", approval.EventQuery{Since: all[2].At, Until: all[9].At},
			func(e approval.Event) bool { return !e.At.Before(all[2].At) && e.At.Before(all[9].At) }},
		{"since the future", approval.EventQuery{Since: s.Now().Add(time.Hour)},
			func(approval.Event) bool { return false }},
		{"until the past", approval.EventQuery{Until: all[0].At}, func(approval.Event) bool { return false }},
		{"before", approval.EventQuery{Before: mid.Seq}, func(e approval.Event) bool { return e.Seq < mid.Seq }},
		{"after", approval.EventQuery{AfterSeq: mid.Seq}, func(e approval.Event) bool { return e.Seq > mid.Seq }},
		{"all together", approval.EventQuery{Type: approval.EventDecision, Decision: "deny", Risk: approval.RiskHigh,
			Agent: "bot1", Since: all[0].At, Before: all[11].Seq},
			func(e approval.Event) bool {
				return e.Type == approval.EventDecision && e.Decision == "deny" && e.Agent == "bot1" && e.Seq < all[11].Seq
			}},
	} {
		var want []approval.Event
		for _, e := range all {
			if c.keep(e) {
				want = append(want, e)
			}
		}
		checkEvents(t, s, c.name, c.q, want)
	}
	view(t, s, func(tx approval.Tx) error {
		oldest, newest, err := tx.SeqRange()
		equal(t, "SeqRange", []int64{oldest, newest}, []int64{all[0].Seq, all[11].Seq})
		return err
	})
}

// checkEvents sees that a query finds the events wanted, up, down and as far as its limit.
func checkEvents(t *testing.T, s approval.Store, name string, q approval.EventQuery, want []approval.Event) {
	t.Helper()
	view(t, s, func(tx approval.Tx) error {
		q.Ascending = true
		up, err := tx.Events(q)
		if err != nil {
			return err
		}
		q.Ascending = false
		down, err := tx.Events(q)
		if err != nil {
			return err
		}
		q.Limit = 2
		some, err := tx.Events(q)
		if err != nil {
			return err
		}
		if len(want) > 0 && !reflect.DeepEqual(up, want) || len(up) != len(want) {
			t.Errorf("%s: got\n %+v, want\n %+v", name, up, want)
		}
		slices.Reverse(down)
		if !reflect.DeepEqual(down, up) {
			t.Errorf("%s: descending is not the reverse of ascending", name)
		}
		slices.Reverse(down)
		if !slices.Equal(ids(some), ids(down[:min(2, len(down))])) {
			t.Errorf("%s: limit 2 gives %v of %v", name, ids(some), ids(down))
		}
		return nil
	})
}

func firstSight(t *testing.T, s approval.Store) {
	for i, want := range []bool{true, false, false} {
		update(t, s, func(tx approval.Tx) error {
			ok, err := tx.FirstSight("event")
			if ok != want {
				t.Errorf("sight %d: got %v, want %v", i+1, ok, want)
			}
			return err
		})
	}
	err := s.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
		return errors.Join(mustChange(tx.FirstSight("other")), errors.New("not stored"))
	})
	if err == nil {
		t.Error("no error")
	}
	// what was rolled back was not seen
	update(t, s, func(tx approval.Tx) error { return mustChange(tx.FirstSight("other")) })
}

func prune(t *testing.T, s approval.Store) {
	key := func(tool string) approval.Key { return approval.Key{Agent: "bot", Tool: tool, ArgsHash: hash(tool)} }
	var now time.Time
	update(t, s, func(tx approval.Tx) error {
		now = tx.Now()
		old, young := now.Add(-time.Hour), now.Add(-time.Minute)
		return errors.Join(
			mustChange(tx.FirstSight("a")), mustChange(tx.FirstSight("b")),
			tx.PutRecent(key("old denial"), approval.Recent{DeniedID: "d", DeniedAt: old}),
			tx.PutRecent(key("old use"), approval.Recent{Use: &approval.Use{ConsumedAt: old}}),
			tx.PutRecent(key("young use"), approval.Recent{DeniedID: "d", DeniedAt: old, Use: &approval.Use{ConsumedAt: young}}),
			tx.PutRecent(key("young denial"), approval.Recent{DeniedID: "d", DeniedAt: young,
				Use: &approval.Use{ConsumedAt: old}}),
			tx.PutRecent(key("at the time"), approval.Recent{DeniedID: "d", DeniedAt: now.Add(-30 * time.Minute)}),
		)
	})
	update(t, s, func(tx approval.Tx) error {
		n, err := tx.Prune(now, now.Add(-30*time.Minute), 100) // the events were seen at now, not before
		equal(t, "rows pruned", n, 2)
		return err
	})
	update(t, s, func(tx approval.Tx) error {
		kept := map[string]bool{}
		for _, tool := range []string{"old denial", "old use", "young use", "young denial", "at the time"} {
			r, err := tx.Recent(key(tool))
			if err != nil {
				return err
			}
			if r != (approval.Recent{}) {
				kept[tool] = true
			}
		}
		equal(t, "kept", kept, map[string]bool{"young use": true, "young denial": true, "at the time": true})
		return errors.Join(mustNotChange(tx.FirstSight("a")))
	})
	update(t, s, func(tx approval.Tx) error {
		n, err := tx.Prune(tx.Now().Add(time.Millisecond), time.Time{}.Add(time.Hour), 100)
		equal(t, "events pruned", n, 2)
		return errors.Join(err, mustChange(tx.FirstSight("a")))
	})
}

func notFound(t *testing.T, s approval.Store) {
	update(t, s, func(tx approval.Tx) error {
		for what, f := range map[string]func() error{
			"Pin":          func() error { _, err := tx.Pin("none", "none", "none"); return err },
			"NeedOf":       func() error { return second(tx.NeedOf("none")) },
			"MoveVote":     func() error { return tx.MoveVote("none", "hana", 1) },
			"Delegation":   func() error { return second(tx.Delegation("none")) },
			"Request":      func() error { _, err := tx.Request("none"); return err },
			"Live":         func() error { _, err := tx.Live(approval.Key{Agent: "none"}); return err },
			"Notification": func() error { _, err := tx.Notification("none"); return err },
		} {
			if err := f(); !errors.Is(err, approval.ErrNotFound) {
				t.Errorf("%s: got %v, want ErrNotFound", what, err)
			}
		}
		for what, f := range map[string]func() (bool, error){
			"Resolve": func() (bool, error) { return tx.Resolve(ending(tx, "none", approval.Denied)) },
			"Consume": func() (bool, error) { return tx.Consume("none", false, "") },
			"Lapse":   func() (bool, error) { return tx.Lapse("none") },
			"Return":  func() (bool, error) { return tx.Return(approval.Request{ID: "none", DispatchedAt: tx.Now()}) },
			"Report":  func() (bool, error) { return tx.Report("none", approval.RunFailed) },
			"Ack":     func() (bool, error) { return tx.Ack("none", "none") },
			"SetNeed": func() (bool, error) { return tx.SetNeed(newRequest(tx, "bot", "none")) },
			"Extend":  func() (bool, error) { return tx.Extend("none", tx.Now().Add(time.Hour)) },
			"UpdateNotification": func() (bool, error) {
				return tx.UpdateNotification(newNotification(tx, "", approval.KindReply), approval.Queued, 0)
			},
		} {
			if err := mustNotChange(f()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		return tx.InsertRequest(newRequest(tx, "bot", "pay")) // the transaction is still usable
	})
	for what, f := range map[string]func(tx approval.Tx) error{ // where a store sees at the end that something is missing
		"PutVote":    func(tx approval.Tx) error { return tx.PutVote("none", vote(tx, "hana")) },
		"AddSession": func(tx approval.Tx) error { return tx.AddSession("none", "s") },
		"InsertNotification": func(tx approval.Tx) error {
			return tx.InsertNotification(newNotification(tx, strings.Repeat("0", 26), approval.KindRequest))
		},
	} {
		if err := s.Update(t.Context(), approval.WholeStore(), f); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", what, err)
		}
	}
}

// writes are the errors of all that writes, but Append.
func writes(tx approval.Tx, r *approval.Request) map[string]error {
	return map[string]error{
		"InsertRequest":      tx.InsertRequest(approval.Request{ID: "x"}),
		"Resolve":            second(tx.Resolve(approval.Resolution{ID: r.ID, Status: approval.Denied})),
		"Consume":            second(tx.Consume(r.ID, false, "")),
		"Lapse":              second(tx.Lapse(r.ID)),
		"Return":             second(tx.Return(*r)),
		"Report":             second(tx.Report(r.ID, approval.RunFailed)),
		"PutPin":             tx.PutPin(approval.ToolPin{Tool: "t", Digest: hash("t"), SeenAt: tx.Now()}),
		"AddSession":         tx.AddSession(r.ID, "s"),
		"Ack":                second(tx.Ack("bot", r.ID)),
		"SetNeed":            second(tx.SetNeed(*r)),
		"Extend":             second(tx.Extend(r.ID, tx.Now().Add(2*time.Hour))),
		"PutVote":            tx.PutVote(r.ID, vote(tx, "hana")),
		"MoveVote":           tx.MoveVote(r.ID, "hana", 1),
		"PutDelegation":      tx.PutDelegation(approval.Delegation{ID: r.ID}),
		"PutEpoch":           tx.PutEpoch(approval.Epoch{ID: r.ID}),
		"PutGrant":           tx.PutGrant(approval.Grant{ID: r.ID}),
		"PutGrantUse":        tx.PutGrantUse(approval.GrantUse{ID: r.ID}),
		"PutSaid":            tx.PutSaid("bot", "", "pay", approval.Said{RequestID: r.ID}),
		"PutRecent":          tx.PutRecent(r.Key(), approval.Recent{DeniedID: "d"}),
		"InsertNotification": tx.InsertNotification(approval.Notification{ID: "x"}),
		"UpdateNotification": second(tx.UpdateNotification(approval.Notification{ID: "x"}, approval.Queued, 0)),
		"FirstSight":         second(tx.FirstSight("x")),
		"Prune":              second(tx.Prune(tx.Now(), tx.Now(), 1)),
		"EraseTexts":         second(tx.EraseTexts(r.ID)),
		"RemoveArgs":         second(tx.RemoveArgs(r.ID)),
		"RemoveText":         second(tx.RemoveText("x")),
		"RemoveNotification": second(tx.RemoveNotification("x")),
		"RemoveRequest":      second(tx.RemoveRequest(r.ID)),
		"RemoveEvents":       second(tx.RemoveEvents(1)),
	}
}

func viewIsReadOnly(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	view(t, s, func(tx approval.Tx) error {
		all := writes(tx, &r)
		all["Append"] = second(tx.Append(approval.Event{Type: approval.EventCallAllowed}))
		for what, err := range all {
			if !errors.Is(err, approval.ErrReadOnly) {
				t.Errorf("%s in a View: got %v, want ErrReadOnly", what, err)
			}
		}
		got, err := tx.Request(r.ID)
		equal(t, "the request", got, r)
		return err
	})
	boom := errors.New("boom")
	if err := s.View(t.Context(), func(approval.Tx) error { return boom }); err != boom {
		t.Errorf("an error of a View: got %v, want boom", err)
	}
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("a panic of a View: got %v, want boom", v)
			}
		}()
		_ = s.View(t.Context(), func(approval.Tx) error { panic("boom") })
	}()
	if got := get(t, s, r.ID); got.ID != r.ID {
		t.Error("the store does not read after a panic")
	}
}

func second[T any](_ T, err error) error { return err }

func viewIsOneMoment(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	view(t, s, func(tx approval.Tx) error {
		if _, err := tx.Request(r.ID); err != nil {
			return err
		}
		insert(t, s, "bot", "later", nil)
		approve(t, s, r.ID, time.Hour)
		rs, err := tx.Requests(approval.RequestQuery{})
		if len(rs) != 1 || rs[0].Status != approval.Pending {
			t.Errorf("a View sees what was committed after it began: %+v", rs)
		}
		if now := tx.Now(); tx.Now() != now || now.Before(r.RequestedAt) {
			t.Errorf("Now of a View: %v, then %v", now, tx.Now())
		}
		return err
	})
	view(t, s, func(tx approval.Tx) error {
		rs, err := tx.Requests(approval.RequestQuery{})
		if len(rs) != 2 {
			t.Errorf("a later View: %d requests, want 2", len(rs))
		}
		return err
	})
	view(t, s, func(tx approval.Tx) error { // the time is settled first, then the state is of that time
		now := tx.Now()
		late := insert(t, s, "bot", "after now", nil)
		if late.RequestedAt.Before(now) {
			t.Errorf("an update after a View's Now %v has %v", now, late.RequestedAt)
		}
		if _, err := tx.Request(late.ID); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("a View sees a request made after its Now: %v", err)
		}
		return nil
	})
}

// stamp is what one function was given.
type stamp struct {
	now   time.Time
	id    string
	event approval.Event
}

func neverGoBack(t *testing.T, s approval.Store) {
	var mu sync.Mutex
	var stamps []stamp
	race(t, func(i int) {
		for k := range 10 {
			var st stamp
			fail := k%5 == 4 // its seq is given again, its time and id are not
			err := s.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) (err error) {
				st = stamp{now: tx.Now(), id: tx.NewID()}
				if next := tx.NewID(); next <= st.id {
					t.Errorf("id %s after %s", next, st.id)
				}
				st.event, err = tx.Append(approval.Event{Type: approval.EventCallAllowed, Agent: fmt.Sprint(i)})
				if tx.Now() != st.now {
					t.Error("Now changed within a function")
				}
				if st.now.Location() != time.UTC || st.now.Truncate(time.Millisecond) != st.now {
					t.Errorf("Now is %v", st.now)
				}
				if fail {
					return errors.New("undone")
				}
				return err
			})
			if (err != nil) != fail {
				t.Errorf("Update: %v", err)
			}
			if !fail {
				mu.Lock()
				stamps = append(stamps, st)
				mu.Unlock()
			}
		}
	})
	appended := make([]approval.Event, len(stamps))
	for i, st := range stamps {
		appended[i] = st.event
	}
	readSeqs(t, s, appended)
	for i, e := range appended {
		stamps[i].event.Seq = e.Seq
	}
	slices.SortFunc(stamps, func(a, b stamp) int { return int(a.event.Seq - b.event.Seq) })
	for i, st := range stamps {
		if st.event.Seq != int64(i+1) {
			t.Fatalf("seq %d in place %d: an undone function's seq must be given again", st.event.Seq, i+1)
		}
		if i > 0 && (st.now.Before(stamps[i-1].now) || st.id <= stamps[i-1].event.ID) {
			t.Fatalf("goes back: %+v after %+v", st, stamps[i-1])
		}
	}
	view(t, s, func(tx approval.Tx) error {
		es, err := tx.Events(approval.EventQuery{Ascending: true})
		equal(t, "events stored", len(es), len(stamps))
		for i := range es {
			if !reflect.DeepEqual(es[i], stamps[i].event) {
				t.Fatalf("stored %+v, returned %+v", es[i], stamps[i].event)
			}
		}
		return err
	})
}

// race runs f in Racers goroutines that start together.
func race(t *testing.T, f func(i int)) {
	t.Helper()
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range Racers {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// beside runs bad among neighbours that each store a request, and checks that they are all stored and
// that nothing of bad is.
func beside(t *testing.T, s approval.Store, bad func(i int, fn func(tx approval.Tx) error)) {
	var stored [Racers]string
	race(t, func(i int) {
		if i%4 == 0 {
			bad(i, func(tx approval.Tx) error {
				r := newRequest(tx, "bad", fmt.Sprint("tool", i))
				if err := tx.InsertRequest(r); err != nil {
					return err
				}
				if _, err := tx.Append(approval.Event{Type: approval.EventCallDenied, Agent: "bad"}); err != nil {
					return err
				}
				return tx.InsertNotification(newNotification(tx, r.ID, approval.KindRequest))
			})
			return
		}
		var r approval.Request
		err := s.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
			r = newRequest(tx, "good", fmt.Sprint("tool", i))
			if err := tx.InsertRequest(r); err != nil {
				return err
			}
			_, err := tx.Append(approval.Event{Type: approval.EventCallAllowed, Agent: "good", ApprovalID: r.ID})
			return err
		})
		if err != nil {
			t.Errorf("neighbour %d: %v", i, err)
		}
		stored[i] = r.ID
	})
	view(t, s, func(tx approval.Tx) error {
		es, err := tx.Events(approval.EventQuery{Ascending: true})
		if err != nil {
			return err
		}
		equal(t, "events", len(es), Racers*3/4)
		for i, e := range es {
			if e.Seq != int64(i+1) || e.Agent != "good" {
				t.Fatalf("event %d: %+v", i, e)
			}
		}
		for i, id := range stored {
			if id == "" {
				continue
			}
			if _, err := tx.Request(id); err != nil {
				t.Errorf("neighbour %d is not stored: %v", i, err)
			}
		}
		bad, err := tx.Requests(approval.RequestQuery{Agent: "bad"})
		if len(bad) != 0 {
			t.Errorf("%d requests of undone functions are stored", len(bad))
		}
		if err != nil {
			return err
		}
		ns, err := tx.Notifications(approval.NotificationQuery{})
		equal(t, "notifications of undone functions", len(ns), 0)
		return err
	})
}

// scopesGrow: a function that is about more than its scope runs about the whole store, once for good.
func scopesGrow(t *testing.T, s approval.Store) {
	var id string
	err := s.Update(t.Context(), approval.OfAgent("bot"), func(tx approval.Tx) error {
		if fresh, err := tx.FirstSight("narrow"); err != nil || !fresh {
			return errors.Join(err, errors.New("what it did before was not undone"))
		}
		if err := approval.NeedWholeStore(tx); err != nil {
			return err
		}
		r := newRequest(tx, "other", "pay")
		id = r.ID
		return tx.InsertRequest(r)
	})
	if err != nil {
		t.Fatal(err)
	}
	update(t, s, func(tx approval.Tx) error {
		if fresh, err := tx.FirstSight("narrow"); err != nil || fresh {
			t.Errorf("what it did is not there: %v", err)
		}
		h, err := tx.Glance().Head(id)
		if h.Agent != "other" {
			t.Errorf("the request is %+v", h)
		}
		return err
	})
	view(t, s, func(tx approval.Tx) error {
		if about := tx.Scope(); !about.IsWhole() {
			t.Errorf("a View is %s", about)
		}
		return approval.NeedWholeStore(tx)
	})
}

func errorUndoesItsOwn(t *testing.T, s approval.Store) {
	boom := errors.New("boom")
	beside(t, s, func(_ int, fn func(tx approval.Tx) error) {
		err := s.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
			if err := fn(tx); err != nil {
				t.Error(err)
			}
			return boom
		})
		if err != boom {
			t.Errorf("got %v, want the function's own error", err)
		}
	})
}

func panicUndoesItsOwn(t *testing.T, s approval.Store) {
	boom := errors.New("boom")
	beside(t, s, func(_ int, fn func(tx approval.Tx) error) {
		defer func() {
			v := recover()
			if err, ok := v.(error); !ok || !errors.Is(err, boom) {
				t.Errorf("recovered %v, want boom in the caller's goroutine", v)
			}
		}()
		err := s.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
			if err := fn(tx); err != nil {
				t.Error(err)
			}
			panic(boom)
		})
		t.Errorf("Update returned %v", err)
	})
}

// A function that ends its goroutine, as t.FailNow does in a test, must not end the store.
func goexitUndoesItsOwn(t *testing.T, s approval.Store) {
	beside(t, s, func(_ int, fn func(tx approval.Tx) error) {
		done := make(chan bool)
		go func() {
			returned := false
			defer func() { done <- returned }()
			_ = s.Update(context.Background(), approval.WholeStore(), func(tx approval.Tx) error {
				if err := fn(tx); err != nil {
					t.Error(err)
				}
				runtime.Goexit()
				return nil
			})
			returned = true
		}()
		if <-done {
			t.Error("Update returned, though its function had ended the goroutine")
		}
	})
}

func cancelDecidesOnlyTheStart(t *testing.T, s approval.Store) {
	// A context that has ended starts nothing.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	update := func(ctx context.Context, fn func(approval.Tx) error) error {
		return s.Update(ctx, approval.WholeStore(), fn)
	}
	for what, f := range map[string]func(context.Context, func(approval.Tx) error) error{"Update": update,
		"View": s.View} {
		err := f(ctx, func(approval.Tx) error { t.Errorf("%s: the function ran", what); return nil })
		if !errors.Is(err, context.Canceled) || approval.CodeOf(err) != approval.CodeStoreUnavailable {
			t.Errorf("%s with a context that has ended: %v", what, err)
		}
	}
	// One that ends while the function runs changes nothing.
	ctx, cancel = context.WithCancel(t.Context())
	var r approval.Request
	err := s.Update(ctx, approval.WholeStore(), func(tx approval.Tx) error {
		cancel()
		time.Sleep(10 * time.Millisecond)
		r = newRequest(tx, "bot", "pay")
		return tx.InsertRequest(r)
	})
	if err != nil {
		t.Errorf("the context ended while the function ran: %v", err)
	}
	if got := get(t, s, r.ID); got.ID != r.ID {
		t.Error("not stored")
	}
	// One that ends while the function waits gives it up at once, whatever the store is at.
	began, goOn := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	var once sync.Once
	go func() {
		first <- s.Update(context.Background(), approval.WholeStore(), func(tx approval.Tx) error {
			once.Do(func() { close(began) })
			<-goOn
			return tx.InsertRequest(newRequest(tx, "bot", "first"))
		})
	}()
	<-began
	ctx, cancel = context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		second <- s.Update(ctx, approval.WholeStore(), func(approval.Tx) error {
			t.Error("a function that was given up ran")
			return nil
		})
	}()
	time.Sleep(10 * time.Millisecond)
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) || approval.CodeOf(err) != approval.CodeStoreUnavailable {
		t.Errorf("given up while waiting: %v", err)
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Errorf("its neighbour: %v", err)
	}
}

func raceEqualCalls(t *testing.T, s approval.Store) {
	var made, joined atomic.Int32
	race(t, func(int) {
		err := s.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
			r := newRequest(tx, "bot", "pay")
			if err := tx.InsertRequest(r); err != nil {
				return err
			}
			return tx.InsertNotification(newNotification(tx, r.ID, approval.KindRequest))
		})
		switch {
		case err == nil:
			made.Add(1)
		case errors.Is(err, approval.ErrLiveExists):
			joined.Add(1)
		default:
			t.Error(err)
		}
	})
	if made.Load() != 1 || joined.Load() != Racers-1 {
		t.Errorf("%d made, %d found one; want 1 and %d", made.Load(), joined.Load(), Racers-1)
	}
	view(t, s, func(tx approval.Tx) error {
		rs, err := tx.Requests(approval.RequestQuery{})
		if err != nil {
			return err
		}
		ns, err := tx.Notifications(approval.NotificationQuery{})
		if len(rs) != 1 || len(ns) != 1 {
			t.Errorf("%d requests and %d notifications, want one each", len(rs), len(ns))
		}
		return err
	})
}

// winners runs a conditional statement in a race and returns who changed the row.
func winners(t *testing.T, s approval.Store, f func(tx approval.Tx, i int) (bool, error)) []int {
	var mu sync.Mutex
	var won []int
	race(t, func(i int) {
		var ok bool
		err := s.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) (err error) {
			ok, err = f(tx, i)
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if ok {
			mu.Lock()
			won = append(won, i)
			mu.Unlock()
		}
	})
	return won
}

func raceDeciders(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	won := winners(t, s, func(tx approval.Tx, i int) (bool, error) {
		d := approvalOf(tx, r.ID, time.Hour)
		d.By = fmt.Sprint(i)
		if i%2 == 0 {
			d.Status = approval.Denied
		}
		return tx.Resolve(d)
	})
	if len(won) != 1 {
		t.Fatalf("%d deciders won, want one", len(won))
	}
	if got := get(t, s, r.ID); got.ResolvedBy != fmt.Sprint(won[0]) {
		t.Errorf("stored as decided by %s, the winner is %d", got.ResolvedBy, won[0])
	}
}

func raceConsumers(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	approve(t, s, r.ID, time.Hour)
	won := winners(t, s, func(tx approval.Tx, _ int) (bool, error) { return tx.Consume(r.ID, false, "") })
	if len(won) != 1 {
		t.Errorf("%d were let through, want one", len(won))
	}
}

func raceReporters(t *testing.T, s approval.Store) {
	r := insertUsed(t, s, "pay", true)
	ran := func(i int) approval.RunResult {
		return []approval.RunResult{approval.RunSucceeded, approval.RunFailed}[i%2]
	}
	won := winners(t, s, func(tx approval.Tx, i int) (bool, error) { return tx.Report(r.ID, ran(i)) })
	if got := get(t, s, r.ID); len(won) != 1 || got.RunResult != ran(won[0]) {
		t.Errorf("reporters %v won, stored %+v", won, got)
	}
}

func raceConsumeAndCancel(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	approve(t, s, r.ID, time.Hour)
	won := winners(t, s, func(tx approval.Tx, i int) (bool, error) {
		if i%2 == 0 {
			return tx.Consume(r.ID, false, "")
		}
		return tx.Resolve(ending(tx, r.ID, approval.Cancelled))
	})
	got := get(t, s, r.ID)
	if len(won) != 1 || (won[0]%2 == 0) != (got.Status == approval.Approved) ||
		(won[0]%2 == 0) == got.ConsumedAt.IsZero() {
		t.Errorf("winners %v, stored %+v", won, got)
	}
}

func raceReturns(t *testing.T, s approval.Store) {
	r := insertUsed(t, s, "pay", true)
	won := winners(t, s, func(tx approval.Tx, i int) (bool, error) {
		if i%4 == 0 {
			return tx.Report(r.ID, approval.RunUnknown)
		}
		return tx.Return(r)
	})
	got := get(t, s, r.ID)
	if len(won) != 1 || (won[0]%4 == 0) != (got.RunResult == approval.RunUnknown) || (won[0]%4 == 0) == got.Live() {
		t.Errorf("winners %v, stored %+v", won, got)
	}
}

func raceClaims(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	n := insertNotification(t, s, r.ID, nil)
	won := winners(t, s, func(tx approval.Tx, _ int) (bool, error) {
		c := n
		c.Attempt, c.LeaseUntil = 1, tx.Now().Add(time.Minute)
		return tx.UpdateNotification(c, approval.Queued, 0)
	})
	if len(won) != 1 {
		t.Errorf("%d senders have it, want one", len(won))
	}
}

func raceSights(t *testing.T, s approval.Store) {
	won := winners(t, s, func(tx approval.Tx, _ int) (bool, error) { return tx.FirstSight("event") })
	if len(won) != 1 {
		t.Errorf("%d were the first to see it, want one", len(won))
	}
}

// Readers see whole functions or nothing of them while everything else goes on.
func raceNeighbours(t *testing.T, s approval.Store) {
	race(t, func(i int) {
		if i%2 == 0 {
			for k := range 4 {
				body := bytes.Repeat([]byte{byte(i)}, 1+i)
				err := s.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
					r := newRequest(tx, "bot", fmt.Sprintf("tool-%d-%d", i, k))
					if err := tx.InsertRequest(r); err != nil {
						return err
					}
					n := newNotification(tx, r.ID, approval.KindRequest)
					n.Body = body
					return tx.InsertNotification(n)
				})
				if err != nil {
					t.Error(err)
				}
			}
			return
		}
		for range 4 {
			err := s.View(t.Context(), func(tx approval.Tx) error {
				rs, err := tx.Requests(approval.RequestQuery{Limit: 10})
				if err != nil {
					return err
				}
				for _, r := range rs {
					ns, err := tx.Notifications(approval.NotificationQuery{ApprovalID: r.ID})
					if err != nil {
						return err
					}
					if len(ns) != 1 {
						return fmt.Errorf("a request with %d notifications", len(ns))
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}
