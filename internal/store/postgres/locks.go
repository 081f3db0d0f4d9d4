package postgres

import (
	"context"
	"sync"

	"countersign/approval"
)

// The keys of the locks that a transaction holds until its end. everything is held by all that write: shared, and alone
// by those that are about the whole store.
const (
	everything int64 = 0x636f756e74657201
	numbers    int64 = 0x636f756e74657202
	ofAgents   int64 = 0x636f756e74657203
	ofPeople   int64 = 0x636f756e74657204
)

// Whose an id is, and a notification: see [approval.OfID] and [approval.OfNotification].
const (
	ownerOfID = `SELECT pg_advisory_xact_lock(hashtextextended(agent, $2)) FROM (
  SELECT agent FROM approval_requests WHERE id = $1
  UNION ALL SELECT agent FROM cards WHERE id = $1
  UNION ALL SELECT agent FROM grants WHERE id = $1
  UNION ALL SELECT g.agent FROM grant_uses AS u JOIN grants AS g ON g.id = u.grant_id WHERE u.id = $1
  UNION ALL (SELECT agent FROM approval_requests WHERE batch_id = $1 LIMIT 1)
  LIMIT 1) AS owner`
	ownerOfNotification = `SELECT pg_advisory_xact_lock(hashtextextended(r.agent, $2))
  FROM approval_notifications AS n JOIN approval_requests AS r ON r.id = n.approval_id WHERE n.id = $1`
	named = `SELECT pg_advisory_xact_lock(hashtextextended($1, $2))`
)

// locks are the statements that take the locks of a scope, in the order in which all take them.
func locks(about approval.Scope) []queued {
	if about.IsWhole() {
		return []queued{{sql: `SELECT pg_advisory_xact_lock($1)`, args: []any{everything}}}
	}
	shared := queued{sql: `SELECT pg_advisory_xact_lock_shared($1)`, args: []any{everything}}
	kind, name := about.Of()
	switch name = encode(name); kind {
	case approval.ScopeAgent:
		return []queued{shared, {sql: named, args: []any{name, ofAgents}}}
	case approval.ScopeID:
		return []queued{shared, {sql: ownerOfID, args: []any{name, ofAgents}}}
	case approval.ScopeNotification:
		return []queued{shared, {sql: ownerOfNotification, args: []any{name, ofAgents}}}
	case approval.ScopePerson:
		return []queued{shared, {sql: named, args: []any{name, ofPeople}}}
	}
	return []queued{shared}
}

// turns have the functions of one scope wait for each other before they take a connection: one agent's burst leaves the
// others theirs.
type turns struct {
	mu   sync.Mutex
	held map[approval.Scope]*turn
}

// turn is one scope's: it holds one token.
type turn struct {
	token chan struct{}
	users int
}

// take waits for the turn of a scope.
func (s *turns) take(ctx context.Context, about approval.Scope) (release func(), err error) {
	if about == approval.OfNothing() {
		return func() {}, nil
	}
	s.mu.Lock()
	if s.held == nil {
		s.held = map[approval.Scope]*turn{}
	}
	t := s.held[about]
	if t == nil {
		t = &turn{token: make(chan struct{}, 1)}
		s.held[about] = t
	}
	t.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(s.held, about)
		}
	}
	select {
	case t.token <- struct{}{}:
		return func() { <-t.token; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, notStarted(ctx)
	}
}
