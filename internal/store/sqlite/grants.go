package sqlite

import (
	"errors"

	"countersign/approval"
	"countersign/internal/store/sqlite/sqlite3"
)

func (t *tx) PutGrant(g approval.Grant) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(grantColumns.bind(t.c.Stmt(putGrant), &g))
	return err
}

func (t *tx) Grant(id string) (approval.Grant, error) {
	if err := t.readable(); err != nil {
		return approval.Grant{}, err
	}
	return one(t, t.c.Stmt(selectGrant).BindText(id), grantColumns.scan)
}

func (t *tx) GrantsFor(agent, scope, server, tool string) ([]approval.Grant, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	s := t.c.Stmt(selectGrantsFor).BindText(agent).BindText(scope).BindText(server).BindText(tool)
	return all(t, s, 0, grantColumns.scan)
}

func (t *tx) Grants(q approval.GrantQuery) ([]approval.Grant, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	l := newList(`SELECT ` + grantColumns.names() + ` FROM grants`)
	if !q.All {
		l.where(`ended_at IS NULL`)
	}
	l.equal(`agent`, q.Agent)
	l.equal(`request`, q.RequestID)
	if q.After != "" {
		l.where(`id < ?`, q.After)
	}
	l.add(` ORDER BY id DESC`)
	return page(t, l.bind(t.c), q.Limit, q.Bytes, grantColumns.scan)
}

func (t *tx) DueGrants(limit int) ([]approval.Grant, error) {
	now := t.Now()
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectDueGrants).BindTime(now), limit, grantColumns.scan)
}

func (t *tx) PutGrantUse(u approval.GrantUse) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(grantUseColumns.bind(t.c.Stmt(putGrantUse), &u))
	return err
}

func (t *tx) GrantUse(id string) (approval.GrantUse, error) {
	if err := t.readable(); err != nil {
		return approval.GrantUse{}, err
	}
	return one(t, t.c.Stmt(selectGrantUse).BindText(id), grantUseColumns.scan)
}

func (t *tx) RunningGrantUses(limit int) ([]approval.GrantUse, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectRunningUses), limit, grantUseColumns.scan)
}

func (t *tx) LastSaid(agent, server, tool string) (approval.Said, error) {
	if err := t.readable(); err != nil {
		return approval.Said{}, err
	}
	s, err := one(t, t.c.Stmt(selectSaid).BindText(agent).BindText(server).BindText(tool), saidColumns.scan)
	if errors.Is(err, approval.ErrNotFound) {
		return approval.Said{}, nil
	}
	return s, err
}

func (t *tx) PutSaid(agent, server, tool string, s approval.Said) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(saidColumns.bind(t.c.Stmt(putSaid).BindText(agent).BindText(server).BindText(tool), &s))
	return err
}

// storedTerms are [approval.GrantTerms] as they are stored: what the JSON of the API is called may change, this may
// not.
type storedTerms struct {
	Vary    map[string]storedVary `json:"vary,omitempty"`
	AnyArgs bool                  `json:"any_args,omitempty"`
}

type storedVary struct {
	Any    bool   `json:"any,omitempty"`
	AtMost string `json:"at_most,omitempty"`
	Total  string `json:"total,omitempty"`
}

// grantTerms is NULL where nothing varies.
func grantTerms[R any](name string, at func(*R) *approval.GrantTerms) column[R] {
	return column[R]{name,
		func(s *sqlite3.Stmt, r *R) { bindTerms(s, *at(r)) },
		func(s *sqlite3.Stmt, r *R) { scanTerms(s, at(r)) }}
}

func bindTerms(s *sqlite3.Stmt, t approval.GrantTerms) {
	stored := storedTerms{AnyArgs: t.AnyArgs}
	if len(t.Vary) > 0 {
		stored.Vary = make(map[string]storedVary, len(t.Vary))
	}
	for name, v := range t.Vary {
		stored.Vary[name] = storedVary(v)
	}
	bindJSON(s, stored, t.AnyArgs || len(t.Vary) > 0)
}

func scanTerms(s *sqlite3.Stmt, to *approval.GrantTerms) {
	var stored storedTerms
	scanJSON(s, &stored)
	to.AnyArgs = stored.AnyArgs
	if len(stored.Vary) > 0 {
		to.Vary = make(map[string]approval.Vary, len(stored.Vary))
	}
	for name, v := range stored.Vary {
		to.Vary[name] = approval.Vary(v)
	}
}
