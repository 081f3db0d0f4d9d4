package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
)

func delegations(t *testing.T, s approval.Store) {
	var all []approval.Delegation
	update(t, s, func(tx approval.Tx) error {
		all = nil
		now := tx.Now()
		made := func(from, until time.Duration, change func(d *approval.Delegation)) {
			d := approval.Delegation{
				ID: tx.NewID(), Delegator: "hana", Delegate: "ken", From: now.Add(from), Until: now.Add(until),
				CreatedAt: now, CreatedBy: "hana",
			}
			if change != nil {
				change(&d)
			}
			all = append(all, d)
		}
		made(0, time.Hour, nil)
		made(time.Hour, 2*time.Hour, func(d *approval.Delegation) { // later
			d.Rule, d.RuleDigest, d.CreatedBy = "payments", "d1", "mei"
		})
		made(-2*time.Hour, -time.Hour, nil)                                                    // over
		made(-2*time.Hour, 0, nil)                                                             // at its end
		made(0, time.Hour, func(d *approval.Delegation) { d.EndedAt, d.EndedBy = now, "ken" }) // ended
		made(-time.Hour, time.Hour, func(d *approval.Delegation) { d.Delegator = "mei" })
		for _, d := range slices.Backward(all) {
			if err := tx.PutDelegation(d); err != nil {
				return err
			}
		}
		return nil
	})
	everyFieldSet(t, all)
	view(t, s, func(tx approval.Tx) error {
		for _, d := range all {
			got, err := tx.Delegation(d.ID)
			equal(t, "Delegation", got, d)
			if err != nil {
				return err
			}
		}
		got, err := tx.Delegations()
		equal(t, "Delegations", got, []approval.Delegation{all[0], all[1], all[5]})
		return err
	})
	update(t, s, func(tx approval.Tx) error {
		all[0].EndedAt, all[0].EndedBy = tx.Now(), "mei"
		return tx.PutDelegation(all[0])
	})
	view(t, s, func(tx approval.Tx) error {
		got, err := tx.Delegation(all[0].ID)
		equal(t, "one that was ended", got, all[0])
		if err != nil {
			return err
		}
		rest, err := tx.Delegations()
		equal(t, "the others", ids(rest), []string{all[1].ID, all[5].ID})
		return err
	})
}

func epochs(t *testing.T, s approval.Store) {
	view(t, s, func(tx approval.Tx) error {
		for _, agent := range []string{"", "bot"} {
			e, err := tx.Epoch(agent)
			equal(t, "what was never frozen", e, approval.Epoch{})
			if err != nil {
				return err
			}
		}
		es, err := tx.Epochs()
		equal(t, "epochs", len(es), 0)
		return err
	})
	var all []approval.Epoch
	for i := range 2 { // the second one takes the place of the first
		update(t, s, func(tx approval.Tx) error {
			all = []approval.Epoch{
				{
					ID: tx.NewID(), Frozen: true, FrozenAt: tx.Now(), FrozenBy: "hana", Via: approval.ViaWeb,
					Reason: fmt.Sprint("all of it ", i),
				},
				{Agent: "bot", ID: tx.NewID(), FrozenAt: tx.Now(), FrozenBy: "ken", Via: approval.ViaCLI, Reason: "lifted"},
				{Agent: "other", ID: tx.NewID()},
			}
			for _, e := range all {
				if err := tx.PutEpoch(e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	everyFieldSet(t, all)
	view(t, s, func(tx approval.Tx) error {
		for _, e := range all {
			got, err := tx.Epoch(e.Agent)
			equal(t, "Epoch", got, e)
			if err != nil {
				return err
			}
		}
		got, err := tx.Epochs()
		equal(t, "Epochs", got, all)
		return err
	})
}

func liveBefore(t *testing.T, s approval.Store) {
	var rs []approval.Request
	for i := range 12 {
		r := insert(t, s, fmt.Sprintf("bot%d", i%2), fmt.Sprint("tool", i), func(r *approval.Request) { r.Need = fullNeed() })
		rs = append(rs, r)
		switch i % 6 {
		case 2:
			update(t, s, func(tx approval.Tx) error { return mustChange(tx.Resolve(ending(tx, r.ID, approval.Denied))) })
		case 3:
			approve(t, s, r.ID, time.Hour)
		case 4:
			approve(t, s, r.ID, time.Hour)
			update(t, s, func(tx approval.Tx) error { return mustChange(tx.Consume(r.ID, false, "")) })
		}
	}
	view(t, s, func(tx approval.Tx) error {
		for _, agent := range []string{"", "bot0", "bot1", "none"} {
			for i, before := range append(slices.Clone(rs), approval.Request{ID: strings.Repeat("Z", 26)}) {
				var want []string
				for _, r := range rs[:i] {
					if r = get(t, s, r.ID); r.Live() && (agent == "" || agent == r.Agent) {
						want = append(want, r.ID)
					}
				}
				hs, err := tx.LiveBefore(agent, before.ID, 0)
				if err != nil {
					return err
				}
				got := ids(hs)
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("of %q, before the request %d: got %v, want %v", agent, i, got, want)
				}
				for _, h := range hs {
					equal(t, "what is read", h, Head(get(t, s, h.ID)))
				}
				some, err := tx.LiveBefore(agent, before.ID, 2)
				equal(t, "at most two", len(some), min(2, len(want)))
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}
