package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
)

// fullNeed is a need with everything set.
func fullNeed() *approval.Need {
	return &approval.Need{
		Stages: []approval.Stage{
			{Group: "finance", Count: 2}, {Approvers: []string{"hana", "leads"}, Count: 1},
		},
		SeparateDuties: true,
		Escalate: []approval.Escalation{
			{After: 10 * time.Minute, To: []string{"leads", "ken"}}, {After: 1500 * time.Millisecond, To: []string{"mei"}},
		},
		Confirm: true, StepUp: true,
	}
}

func vote(tx approval.Tx, person string) approval.Vote {
	return approval.Vote{Stage: 1, Person: person, Approve: true, At: tx.Now(), Via: approval.ViaWeb}
}

// needOf returns r as NeedOf has it.
func needOf(r approval.Request) approval.Request {
	return approval.Request{
		ID: r.ID, RequireReason: r.RequireReason, Need: r.Need, Stage: r.Stage, Votes: r.Votes, Who: r.Who,
		EndCode: r.EndCode, ReplacedBy: r.ReplacedBy, Replaces: r.Replaces, Policy: r.Policy, RuleDigest: r.RuleDigest,
		CorrelationID: r.CorrelationID, ExtendedAt: r.ExtendedAt,
	}
}

// checkRead checks that a request reads as r wherever it is read.
func checkRead(t *testing.T, s approval.Store, r approval.Request) {
	t.Helper()
	view(t, s, func(tx approval.Tx) error {
		got, err := tx.Request(r.ID)
		equal(t, "Request", got, r)
		if err != nil {
			return err
		}
		head, err := tx.Head(r.ID)
		equal(t, "Head", head, Head(r))
		if err != nil {
			return err
		}
		need, err := tx.NeedOf(r.ID)
		equal(t, "NeedOf", need, needOf(r))
		return err
	})
}

func setNeed(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	checkRead(t, s, r)
	one := &approval.Need{Stages: []approval.Stage{{Count: 1}}}
	for _, n := range []*approval.Need{fullNeed(), {}, one, nil, {Confirm: true}, {StepUp: true}} {
		r.Need, r.RequireReason, r.Stage, r.Policy = n, !r.RequireReason, r.Stage+1, r.Policy+"p"
		r.RuleDigest += "r"
		update(t, s, func(tx approval.Tx) error {
			other := r
			other.Agent, other.Status, other.Args = "bot2", approval.Denied, []byte(`{"other":1}`)
			other.ExpiresAt = other.ExpiresAt.Add(time.Minute)
			return mustChange(tx.SetNeed(other)) // nothing else of it is stored
		})
		checkRead(t, s, r)
	}
	approve(t, s, r.ID, time.Hour)
	update(t, s, func(tx approval.Tx) error { return mustNotChange(tx.SetNeed(r)) }) // it is pending no more
}

func extend(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	update(t, s, func(tx approval.Tx) error {
		r.ExpiresAt, r.ExtendedAt = r.ExpiresAt.Add(time.Hour), tx.Now()
		return mustChange(tx.Extend(r.ID, r.ExpiresAt))
	})
	checkRead(t, s, r)
	update(t, s, func(tx approval.Tx) error { return mustNotChange(tx.Extend(r.ID, r.ExpiresAt.Add(time.Hour))) }) // once
	checkRead(t, s, r)
	view(t, s, func(tx approval.Tx) error {
		next, err := tx.NextDeadline()
		equal(t, "NextDeadline", next, r.ExpiresAt)
		return err
	})
	over := insert(t, s, "bot", "over", func(r *approval.Request) { r.ExpiresAt = r.RequestedAt })
	decided := insert(t, s, "bot", "decided", nil)
	approve(t, s, decided.ID, time.Hour)
	for _, id := range []string{over.ID, decided.ID} {
		update(t, s, func(tx approval.Tx) error { return mustNotChange(tx.Extend(id, tx.Now().Add(time.Hour))) })
	}
}

func votes(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", func(r *approval.Request) { r.Need = fullNeed() })
	other := insert(t, s, "bot", "other", func(r *approval.Request) { r.Need = fullNeed() })
	var want []approval.Vote
	update(t, s, func(tx approval.Tx) error { // all at one time: their order is that in which they were given
		want = []approval.Vote{
			{Stage: 1, Person: "mei", Approve: true, At: tx.Now(), Via: approval.ViaCLI, StepUp: true, Confirmed: true},
			{Stage: 2, Person: "ken", For: "hana", Approve: true, Reason: "日本 \x00 ok", At: tx.Now(), Via: approval.Via("line")},
			{Stage: 2, Person: "abe", Reason: "no", At: tx.Now(), Via: approval.ViaWeb},
		}
		for _, v := range want {
			if err := tx.PutVote(r.ID, v); err != nil {
				return err
			}
		}
		again := want[0]
		again.Approve, again.Stage, again.For = false, 2, "hana"
		return tx.PutVote(other.ID, again) // one for each person and request
	})
	everyFieldSet(t, want)
	check := func() {
		t.Helper()
		view(t, s, func(tx approval.Tx) error {
			got, err := tx.Votes(r.ID)
			equal(t, "Votes", got, want)
			return err
		})
	}
	check()
	update(t, s, func(tx approval.Tx) error { return tx.MoveVote(r.ID, "mei", 2) })
	want[0].Stage = 2
	check()
	update(t, s, func(tx approval.Tx) error { // the newest word of a person takes the place of the one before
		want = []approval.Vote{want[1], want[2], {Stage: 1, Person: "mei", Reason: "no", At: tx.Now(), Via: approval.ViaAPI}}
		return tx.PutVote(r.ID, want[2])
	})
	check()
	update(t, s, func(tx approval.Tx) error {
		if err := tx.MoveVote(r.ID, "nobody", 2); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("MoveVote of who has not voted: %v", err)
		}
		return nil
	})
	update(t, s, func(tx approval.Tx) error { return mustChange(tx.Resolve(ending(tx, r.ID, approval.Denied))) })
	check() // they stay
	view(t, s, func(tx approval.Tx) error {
		none, err := tx.Votes("none")
		equal(t, "votes on nothing", len(none), 0)
		return err
	})
}

// Votes are read with a request that has a need, or names in Who, whichever way it is read.
func votesAreRead(t *testing.T, s approval.Store) {
	var batch string
	update(t, s, func(tx approval.Tx) error { batch = tx.NewID(); return nil })
	made := func(tool string, need *approval.Need) approval.Request {
		r := insert(t, s, "bot", tool, func(r *approval.Request) {
			r.Need, r.BatchID, r.Task, r.SessionID = need, batch, true, "session"
		})
		update(t, s, func(tx approval.Tx) error {
			v := vote(tx, "hana")
			if need != nil {
				r.Votes = []approval.Vote{v}
			}
			return tx.PutVote(r.ID, v)
		})
		return r
	}
	plain, needy, who := made("plain", nil), made("needy", fullNeed()), made("who", nil)
	update(t, s, func(tx approval.Tx) error {
		d := approvalOf(tx, who.ID, time.Hour)
		d.Who = "hana and ken"
		return mustChange(tx.Resolve(d))
	})
	who = get(t, s, who.ID)
	if len(who.Votes) != 1 {
		t.Errorf("a request with a name in Who was read with the votes %+v", who.Votes)
	}
	rs := []approval.Request{plain, needy, who}
	newest := slices.Clone(rs)
	slices.Reverse(newest)
	check := func(what string, want []approval.Request, read func(tx approval.Tx) ([]approval.Request, error)) {
		t.Helper()
		view(t, s, func(tx approval.Tx) error {
			got, err := read(tx)
			equal(t, what, got, want)
			return err
		})
	}
	check("Live", rs, func(tx approval.Tx) (got []approval.Request, err error) {
		for _, r := range rs {
			live, liveErr := tx.Live(r.Key())
			got, err = append(got, live), errors.Join(err, liveErr)
		}
		return got, err
	})
	check("Batch", rs, func(tx approval.Tx) ([]approval.Request, error) { return tx.Batch(batch) })
	check("Tasks", rs, func(tx approval.Tx) ([]approval.Request, error) { return tx.Tasks("bot") })
	check("Tasks of all", rs, func(tx approval.Tx) ([]approval.Request, error) { return tx.Tasks("") })
	check("Requests", newest, func(tx approval.Tx) ([]approval.Request, error) {
		return tx.Requests(approval.RequestQuery{})
	})
	for _, r := range rs {
		checkRead(t, s, r)
	}
	for _, r := range []approval.Request{plain, needy} {
		update(t, s, func(tx approval.Tx) error { return mustChange(tx.Resolve(ending(tx, r.ID, approval.Denied))) })
	}
	ended := []approval.Request{who, get(t, s, plain.ID), get(t, s, needy.ID)}
	check("Feed", ended, func(tx approval.Tx) ([]approval.Request, error) { return tx.Feed("bot", "", 0, 0) })
	check("Feed of a session", ended, func(tx approval.Tx) ([]approval.Request, error) {
		return tx.Feed("bot", "session", 0, 0)
	})
}

func endingIn(t *testing.T, s approval.Store) {
	names := []string{
		"01ARZ3NDEKTSV4RRFFQ600ABCD", "01ARZ3NDEKTSV4RRFFQ611ABCD",
		"01ARZ3NDEKTSV4RRFFQ622XBCD", "01ARZ3NDEKTSV4RRFFQ633ABCE",
	}
	for i, id := range names {
		r := insert(t, s, "bot", fmt.Sprint("tool", i), func(r *approval.Request) { r.ID = id })
		if i == 0 { // whatever became of it
			update(t, s, func(tx approval.Tx) error { return mustChange(tx.Resolve(ending(tx, r.ID, approval.Denied))) })
		}
	}
	view(t, s, func(tx approval.Tx) error {
		for _, c := range []struct {
			suffix, since string
			limit         int
			want          []string
		}{
			{"ABCD", "", 0, []string{names[1], names[0]}},
			{"abCd", "", 0, []string{names[1], names[0]}}, // as a person types it
			{"BCD", "", 2, []string{names[2], names[1]}},
			{"BCD", names[1], 0, []string{names[2], names[1]}},
			{"ABCD", names[2], 0, []string{}},
			{strings.ToLower(names[3]), "", 0, []string{names[3]}},
			{"X" + names[3], "", 0, []string{}},
			{"____", "", 0, []string{}},
			{"%CD", "", 0, []string{}},
			{"", "", 0, []string{}},
		} {
			got, err := tx.EndingIn(c.suffix, c.since, c.limit)
			if !slices.Equal(got, c.want) || err != nil {
				t.Errorf("EndingIn(%q, %q, %d): got %v, %v, want %v", c.suffix, c.since, c.limit, got, err, c.want)
			}
		}
		return nil
	})
}

// How a request ended is kept: all who said yes, why, and what stands in its place. An end that takes an approval back
// has only its own.
func resolutionKeepsEverything(t *testing.T, s approval.Store) {
	for i, want := range []approval.Resolution{
		{Status: approval.Approved, By: "mei", Via: approval.ViaCLI, Reason: "ok", Who: "hana, ken and mei"},
		{Status: approval.Cancelled, By: "hana", Via: approval.ViaAPI, Reason: "Stop.", Code: approval.EndFrozen},
		{
			Status: approval.Denied, By: "hana", Via: approval.ViaWeb, Code: approval.EndEdited,
			ReplacedBy: "01ARZ3NDEKTSV4RRFFQ633ABCE", Who: "ken for hana",
		},
		{Status: approval.Denied, By: "hana", Via: approval.ViaWeb},
	} {
		r := insert(t, s, "bot", fmt.Sprint("tool", i), func(r *approval.Request) { r.Need = fullNeed() })
		update(t, s, func(tx approval.Tx) error {
			want.ID, want.At = r.ID, tx.Now()
			if want.Status == approval.Approved {
				want.UseBy = tx.Now().Add(time.Hour)
			}
			return mustChange(tx.Resolve(want))
		})
		got := get(t, s, r.ID)
		equal(t, "as resolved", approval.Resolution{
			ID: got.ID, Status: got.Status, At: got.ResolvedAt, By: got.ResolvedBy, Via: got.ResolvedVia,
			Reason: got.ResolveReason, UseBy: got.UseBy, Who: got.Who, Code: got.EndCode, ReplacedBy: got.ReplacedBy,
		}, want)
		checkRead(t, s, got)
		if want.Status != approval.Approved {
			continue
		}
		update(t, s, func(tx approval.Tx) error {
			end := ending(tx, r.ID, approval.Cancelled)
			end.By, end.Code = "ken", approval.EndFrozen
			return mustChange(tx.Resolve(end))
		})
		if got := get(t, s, r.ID); got.Who != "" || got.ResolvedBy != "ken" || got.EndCode != approval.EndFrozen {
			t.Errorf("a cancelled approval: who %q, by %q, code %q", got.Who, got.ResolvedBy, got.EndCode)
		}
	}
}

// However many vote at the same time in one name, one vote of that name is there.
func raceVoters(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", func(r *approval.Request) { r.Need = fullNeed() })
	names := []string{"abe", "hana", "ken", "mei"}
	winners(t, s, func(tx approval.Tx, i int) (bool, error) {
		return true, tx.PutVote(r.ID, vote(tx, names[i%len(names)]))
	})
	var voted []string
	for _, v := range get(t, s, r.ID).Votes {
		voted = append(voted, v.Person)
	}
	if slices.Sort(voted); !slices.Equal(voted, names) {
		t.Errorf("%v have voted", voted)
	}
}

func raceExtenders(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	won := winners(t, s, func(tx approval.Tx, i int) (bool, error) {
		return tx.Extend(r.ID, r.ExpiresAt.Add(time.Duration(i+1)*time.Minute))
	})
	if len(won) != 1 || !get(t, s, r.ID).ExpiresAt.Equal(r.ExpiresAt.Add(time.Duration(won[0]+1)*time.Minute)) {
		t.Errorf("%v extended it, until %v", won, get(t, s, r.ID).ExpiresAt)
	}
}
