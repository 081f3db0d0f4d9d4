package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"countersign/approval"
)

// newGrant returns a grant that has not ended, of the tool that its hash is of.
func newGrant(tx approval.Tx, agent, tool string) approval.Grant {
	return approval.Grant{ID: tx.NewID(), Agent: agent, Tool: tool, Args: []byte(`{}`), ArgsHash: hash(tool),
		RequestID: tx.NewID(), Risk: approval.RiskLow, By: "hana", Via: approval.ViaCLI, MadeAt: tx.Now(),
		ExpiresAt: tx.Now().Add(time.Hour)}
}

func putGrant(t testing.TB, s approval.Store, agent, tool string, change func(*approval.Grant)) (g approval.Grant) {
	t.Helper()
	update(t, s, func(tx approval.Tx) error {
		g = newGrant(tx, agent, tool)
		if change != nil {
			change(&g)
		}
		return tx.PutGrant(g)
	})
	return g
}

func grantsKeepEverything(t *testing.T, s approval.Store) {
	var full approval.Grant
	update(t, s, func(tx approval.Tx) error {
		full = approval.Grant{
			ID: tx.NewID(), Deny: true, Agent: "bot", Scope: "/srv", Server: "bank", Tool: "pay", Method: "pay/now",
			Args: []byte(`{"a":1.0,"b":"日本 \u0000"}`), ArgsHash: hash("args"), IgnoredArgs: []string{"note", "a\nb"},
			Terms: approval.GrantTerms{
				Vary: map[string]approval.Vary{
					"amount": {AtMost: "5000", Total: "1e4"}, "memo": {Any: true}, "": {},
				}, AnyArgs: true,
			},
			Session: "session", RequestID: tx.NewID(), Rule: "r1", RuleDigest: hash("rule"), Risk: approval.RiskHigh,
			ToolDigest: hash("tool"), ToolSeen: true, By: "ken", For: "hana", Who: "ken for hana", Via: approval.Via("line"),
			Reason: "ok", MadeAt: tx.Now(), ExpiresAt: tx.Now().Add(time.Hour + 7*time.Millisecond), Uses: 20,
		}
		return tx.PutGrant(full)
	})
	check := func() {
		t.Helper()
		view(t, s, func(tx approval.Tx) error {
			got, err := tx.Grant(full.ID)
			equal(t, "Grant", got, full)
			return err
		})
	}
	check()
	changed := full
	changed.Used, changed.Unknown, changed.SuspendedAt = 7, 2, full.MadeAt.Add(time.Minute)
	changed.Spent = map[string]string{"amount": "12.50"}
	changed.EndedAt, changed.EndedBy, changed.EndCode = full.MadeAt.Add(time.Hour), "system:timeout", "expired"
	everyFieldSet(t, []approval.Grant{changed})
	other := changed // of what never changes, nothing is stored again
	other.Args, other.Agent, other.Reason, other.Uses, other.ExpiresAt = nil, "bot2", "", 30, full.ExpiresAt.Add(time.Hour)
	update(t, s, func(tx approval.Tx) error { return tx.PutGrant(other) })
	full = changed
	check()
	view(t, s, func(tx approval.Tx) error {
		if _, err := tx.Grant("none"); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("a grant that is not there: %v", err)
		}
		return nil
	})
}

func grantsFor(t *testing.T, s approval.Store) {
	varies := func(g *approval.Grant) { g.Terms.Vary = map[string]approval.Vary{"a": {Any: true}} }
	first := putGrant(t, s, "bot", "pay", varies)
	denial := putGrant(t, s, "bot", "pay", func(g *approval.Grant) { g.Deny = true })
	newest := putGrant(t, s, "bot", "pay", nil)
	old := putGrant(t, s, "bot", "pay", func(g *approval.Grant) { g.ExpiresAt = g.MadeAt.Add(time.Millisecond) })
	for i, change := range []func(*approval.Grant){
		func(g *approval.Grant) { g.Agent = "bot2" },
		func(g *approval.Grant) { g.Scope = "/srv" },
		func(g *approval.Grant) { g.Server = "bank" },
		func(g *approval.Grant) { g.Tool = "pay2" },
		func(g *approval.Grant) { g.EndedAt, g.EndedBy, g.EndCode = g.MadeAt, "hana", "revoked" },
	} {
		putGrant(t, s, "bot", "pay", func(g *approval.Grant) { g.Reason = fmt.Sprint(i); change(g) })
	}
	denial.Args, newest.Args, old.Args = nil, nil, nil // only of that of which some may differ
	view(t, s, func(tx approval.Tx) error {
		got, err := tx.GrantsFor("bot", "", "", "pay")
		for i := range got {
			if len(got[i].Args) == 0 {
				got[i].Args = nil
			}
		}
		equal(t, "GrantsFor", got, []approval.Grant{denial, old, newest, first})
		return err
	})
}

func grants(t *testing.T, s approval.Store) {
	var all []approval.Grant
	for i := range 12 {
		all = append(all, putGrant(t, s, fmt.Sprint("bot", i%2), "pay", func(g *approval.Grant) {
			if i%3 == 0 {
				g.EndedAt, g.EndedBy, g.EndCode = g.MadeAt, "hana", "revoked"
			}
			g.Args = make([]byte, 100)
			for j := range g.Args {
				g.Args[j] = 'x'
			}
		}))
	}
	slices.Reverse(all)
	pick := func(keep func(approval.Grant) bool) []approval.Grant {
		return slices.DeleteFunc(slices.Clone(all), func(g approval.Grant) bool { return !keep(g) })
	}
	view(t, s, func(tx approval.Tx) error {
		for _, c := range []struct {
			name string
			q    approval.GrantQuery
			want []approval.Grant
		}{
			{"live", approval.GrantQuery{}, pick(func(g approval.Grant) bool { return g.EndedAt.IsZero() })},
			{"all", approval.GrantQuery{All: true}, all},
			{"of an agent", approval.GrantQuery{All: true, Agent: "bot1"},
				pick(func(g approval.Grant) bool { return g.Agent == "bot1" })},
			{"of a request", approval.GrantQuery{All: true, RequestID: all[3].RequestID}, all[3:4]},
			{"after", approval.GrantQuery{All: true, After: all[4].ID}, all[5:]},
			{"limit", approval.GrantQuery{All: true, Limit: 3}, all[:3]},
			{"bytes", approval.GrantQuery{All: true, Bytes: all[0].Size() + 1}, all[:2]},
		} {
			got, err := tx.Grants(c.q)
			equal(t, c.name, got, c.want)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func dueGrants(t *testing.T, s approval.Store) {
	var want []string
	for i := range 6 {
		g := putGrant(t, s, "bot", "pay", func(g *approval.Grant) {
			g.MadeAt = g.MadeAt.Add(-3 * time.Hour)
			g.ExpiresAt = g.MadeAt.Add(time.Duration(6-i)*time.Minute + time.Hour)
			switch i {
			case 2:
				g.ExpiresAt = g.MadeAt.Add(9 * time.Hour)
			case 4:
				g.EndedAt, g.EndedBy, g.EndCode = g.MadeAt, "hana", "revoked"
			}
		})
		if i != 2 && i != 4 {
			want = append(want, g.ID)
		}
	}
	slices.Reverse(want) // longest due first
	view(t, s, func(tx approval.Tx) error {
		for _, limit := range []int{0, 2} {
			due, err := tx.DueGrants(limit)
			if err != nil {
				return err
			}
			n := len(want)
			if limit > 0 {
				n = limit
			}
			equal(t, "DueGrants", ids(due), want[:n])
		}
		return nil
	})
}

func grantUses(t *testing.T, s approval.Store) {
	g := putGrant(t, s, "bot", "pay", nil)
	var uses []approval.GrantUse
	for i := range 4 {
		update(t, s, func(tx approval.Tx) error {
			u := approval.GrantUse{ID: tx.NewID(), GrantID: g.ID, ArgsHash: hash("args"), Session: "s", CorrelationID: "c",
				At: tx.Now()}
			if i > 0 {
				u.DispatchedAt, u.Runner = tx.Now().Add(-time.Duration(i)*time.Minute), fmt.Sprint("runner ", i)
			}
			uses = append(uses, u)
			return tx.PutGrantUse(u)
		})
	}
	uses[2].RunResult = approval.RunUnknown
	everyFieldSet(t, uses)
	update(t, s, func(tx approval.Tx) error {
		other := uses[2]
		other.Session, other.GrantID = "other", g.ID
		return tx.PutGrantUse(other)
	})
	view(t, s, func(tx approval.Tx) error {
		for _, u := range uses {
			got, err := tx.GrantUse(u.ID)
			equal(t, "GrantUse", got, u)
			if err != nil {
				return err
			}
		}
		running, err := tx.RunningGrantUses("", 0)
		equal(t, "RunningGrantUses", running, []approval.GrantUse{uses[3], uses[1]})
		if err != nil {
			return err
		}
		running, err = tx.RunningGrantUses("", 1)
		equal(t, "the first of them", running, []approval.GrantUse{uses[3]})
		if err != nil {
			return err
		}
		running, err = tx.RunningGrantUses("runner 1", 0)
		equal(t, "those of a runner", running, []approval.GrantUse{uses[1]})
		if _, err := tx.GrantUse("none"); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("a use that is not there: %v", err)
		}
		return err
	})
}

func lastSaid(t *testing.T, s approval.Store) {
	read := func() (said approval.Said) {
		view(t, s, func(tx approval.Tx) (err error) {
			said, err = tx.LastSaid("bot", "bank", "pay")
			return err
		})
		return said
	}
	equal(t, "nothing", read(), approval.Said{})
	for i, change := range []func(*approval.Said){
		func(*approval.Said) {},
		func(s *approval.Said) { s.Approved, s.Reason = true, "" },
	} {
		var want approval.Said
		update(t, s, func(tx approval.Tx) error {
			want = approval.Said{RequestID: tx.NewID(), By: "ken for hana", At: tx.Now(), Reason: "wrong account"}
			change(&want)
			for _, other := range [][3]string{{"bot2", "bank", "pay"}, {"bot", "", "pay"}, {"bot", "bank", "read"}} {
				said := approval.Said{RequestID: "x", By: "x", At: tx.Now()}
				if err := tx.PutSaid(other[0], other[1], other[2], said); err != nil {
					return err
				}
			}
			return tx.PutSaid("bot", "bank", "pay", want)
		})
		equal(t, fmt.Sprint("said ", i), read(), want)
	}
}

// However many use a grant at the same time, each of them is counted.
func raceGrantUses(t *testing.T, s approval.Store) {
	g := putGrant(t, s, "bot", "pay", func(g *approval.Grant) { g.Uses = 3 })
	won := winners(t, s, func(tx approval.Tx, _ int) (bool, error) {
		g, err := tx.Grant(g.ID)
		if err != nil || g.Used == g.Uses {
			return false, err
		}
		g.Used++
		u := approval.GrantUse{ID: tx.NewID(), GrantID: g.ID, ArgsHash: hash("pay"), At: tx.Now()}
		return true, errors.Join(tx.PutGrantUse(u), tx.PutGrant(g))
	})
	if len(won) != 3 {
		t.Errorf("%d of 3 uses", len(won))
	}
}
