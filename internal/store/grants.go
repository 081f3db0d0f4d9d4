package store

import (
	"errors"

	"countersign/approval"
)

func (t grants) PutGrant(g approval.Grant) error {
	return grantColumns.bind(t.write(putGrant), &g).put()
}

func (t grants) Grant(id string) (approval.Grant, error) {
	return one(t.read(selectGrant).text(id), grantColumns.scan)
}

func (t grants) GrantsFor(agent, scope, server, tool string) ([]approval.Grant, error) {
	s := t.read(selectGrantsFor).text(agent).text(scope).text(server).text(tool)
	return all(s, 0, grantColumns.scan)
}

func (t grants) Grants(q approval.GrantQuery) ([]approval.Grant, error) {
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
	return page(t.list(l), q.Limit, q.Bytes, grantColumns.scan)
}

func (t grants) DueGrants(limit int) ([]approval.Grant, error) {
	now := t.Now()
	return all(t.read(selectDueGrants).time(now), limit, grantColumns.scan)
}

func (t grants) PutGrantUse(u approval.GrantUse) error {
	return grantUseColumns.bind(t.write(putGrantUse), &u).put()
}

func (t grants) GrantUse(id string) (approval.GrantUse, error) {
	return one(t.read(selectGrantUse).text(id), grantUseColumns.scan)
}

func (t grants) RunningGrantUses(runner string, limit int) ([]approval.GrantUse, error) {
	return all(t.read(selectRunningUses).text(runner), limit, grantUseColumns.scan)
}

func (t grants) LastSaid(agent, server, tool string) (approval.Said, error) {
	s, err := one(t.read(selectSaid).text(agent).text(server).text(tool), saidColumns.scan)
	if errors.Is(err, approval.ErrNotFound) {
		return approval.Said{}, nil
	}
	return s, err
}

func (t grants) PutSaid(agent, server, tool string, s approval.Said) error {
	return saidColumns.bind(t.write(putSaid).text(agent).text(server).text(tool), &s).put()
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
		func(s Binder, r *R) { bindTerms(s, *at(r)) },
		func(s Scanner, r *R) { scanTerms(s, at(r)) }}
}

func bindTerms(s Binder, t approval.GrantTerms) {
	stored := storedTerms{AnyArgs: t.AnyArgs}
	if len(t.Vary) > 0 {
		stored.Vary = make(map[string]storedVary, len(t.Vary))
	}
	for name, v := range t.Vary {
		stored.Vary[name] = storedVary(v)
	}
	bindJSON(s, stored, t.AnyArgs || len(t.Vary) > 0)
}

func scanTerms(s Scanner, to *approval.GrantTerms) {
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
