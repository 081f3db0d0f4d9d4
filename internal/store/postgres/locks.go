package postgres

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

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
	ownerOfID = `SELECT agent FROM approval_requests WHERE id = $1
  UNION ALL SELECT agent FROM cards WHERE id = $1
  UNION ALL SELECT agent FROM grants WHERE id = $1
  UNION ALL SELECT g.agent FROM grant_uses AS u JOIN grants AS g ON g.id = u.grant_id WHERE u.id = $1
  UNION ALL (SELECT agent FROM approval_requests WHERE batch_id = $1 LIMIT 1)
  LIMIT 1`
	ownerOfNotification = `SELECT r.agent
  FROM approval_notifications AS n JOIN approval_requests AS r ON r.id = n.approval_id WHERE n.id = $1`
)

// owners are the agents whose an id is, as far as that was asked for: it is so for ever.
type owners struct {
	mu    sync.Mutex
	known map[string]string
}

// mostOwners is of how many ids that is kept; beyond, it is asked for anew.
const mostOwners = 10_000

func (o *owners) of(id string) (agent string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	agent, ok = o.known[id]
	return agent, ok
}

func (o *owners) learn(agent string, ids ...string) {
	if agent == "" || len(ids) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil || len(o.known)+len(ids) > mostOwners {
		o.known = map[string]string{}
	}
	for _, id := range ids {
		o.known[id] = agent
	}
}

// resolve returns the scope of the agent whose what has an id is: its functions wait for each other whatever they name.
// An id that nobody's row has is of nothing.
func (d *DB) resolve(ctx context.Context, about approval.Scope) (approval.Scope, error) {
	kind, id := about.Of()
	sql := ownerOfID
	switch kind {
	case approval.ScopeID:
	case approval.ScopeNotification:
		sql = ownerOfNotification
	case approval.ScopeAgent: // whichever call it is about
		return approval.OfAgent(id), nil
	default:
		return about, nil
	}
	if agent, ok := d.owners.of(id); ok {
		return approval.OfAgent(agent), nil
	}
	for try := 1; ; try++ {
		agent, err := d.askOwner(ctx, sql, id)
		switch {
		case err == nil:
			d.owners.learn(agent, id)
			return approval.OfAgent(agent), nil
		case errors.Is(err, pgx.ErrNoRows):
			return approval.OfNothing(), nil
		case ctx.Err() != nil:
			return about, notStarted(ctx)
		case try == tries || !isLost(err):
			return about, fault(err)
		}
		d.replace(err)
	}
}

func (d *DB) askOwner(ctx context.Context, sql, id string) (agent string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	err = conn.QueryRow(ctx, sql, encode(id)).Scan(&agent)
	return decode(agent), lostOn(conn.Conn(), err)
}

// locks are the statements that take the locks of a scope that was resolved, in the order in which all take them.
func locks(about approval.Scope) []queued {
	if about.IsWhole() {
		return []queued{{sql: `SELECT pg_advisory_xact_lock($1)`, args: []any{everything}}}
	}
	shared := queued{sql: `SELECT pg_advisory_xact_lock_shared($1)`, args: []any{everything}}
	kind, name := about.Of()
	of, ok := map[approval.ScopeKind]int64{approval.ScopeAgent: ofAgents, approval.ScopePerson: ofPeople}[kind]
	if !ok {
		return []queued{shared}
	}
	return []queued{shared, {sql: `SELECT pg_advisory_xact_lock(hashtextextended($1, $2))`,
		args: []any{encode(name), of}}}
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
