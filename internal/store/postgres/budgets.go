package postgres

import (
	"countersign/approval"
	"countersign/internal/budget"
)

// What an agent has used of its budgets of requests and pushes is a row of its own, which is read with the agent's lock
// and written with what the budgets were used for.

const (
	selectUsed = `SELECT requests, pushes, out, request_rate, push_rate FROM budget_use WHERE agent = $1`
	putUsed    = `INSERT INTO budget_use (agent, requests, pushes, out, request_rate, push_rate)
  VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (agent) DO UPDATE SET (requests, pushes, out, request_rate, push_rate) =
    (excluded.requests, excluded.pushes, excluded.out, excluded.request_rate, excluded.push_rate)`
)

// Budgets is a transaction of d with what agents have used.
func (*DB) Budgets(t approval.Tx) budget.Rows { return t.(*tx) }

var _ budget.Rows = (*tx)(nil)

// Used implements [budget.Rows].
func (t *tx) Used(agent string) (u budget.Used) {
	if u, ok := t.used[agent]; ok { // what is written here is not asked for again
		return u
	}
	if t.MayRead() != nil {
		return u
	}
	c := &cursor{t: t, sql: selectUsed}
	c.BindText(agent)
	if c.Step() {
		u = budget.Used{Requests: c.ColumnInt(), Pushes: c.ColumnInt(), Out: c.ColumnInt(),
			RequestRate: c.ColumnText(), PushRate: c.ColumnText()}
	}
	_, err := c.Finish()
	_ = t.Fail(err) // makes the function fail
	return u
}

// PutUsed implements [budget.Rows].
func (t *tx) PutUsed(agent string, u budget.Used) {
	if err := t.MayWrite(); err != nil {
		_ = t.Fail(err) // makes the function fail
		return
	}
	c := &cursor{t: t, sql: putUsed}
	c.BindText(agent)
	for _, n := range []int64{u.Requests, u.Pushes, u.Out} {
		c.BindInt(n)
	}
	c.BindText(u.RequestRate)
	c.BindText(u.PushRate)
	if t.Put(c) == nil {
		if t.used == nil {
			t.used = map[string]budget.Used{}
		}
		t.used[agent] = u
	}
}
