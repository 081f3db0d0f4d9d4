package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"countersign/approval"
	"countersign/internal/store/sqlite/sqlite3"
	"countersign/schema"
)

// Loss is what the store has that a copy has not, which takes its place.
type Loss struct {
	Since     time.Time `json:"since"` // the copy's own time
	Requests  int       `json:"requests"`
	Decisions int       `json:"decisions"` // by people
	Uses      int       `json:"uses"`      // of approvals and grants: calls that ran, or may have
	Events    int       `json:"events"`    // of the audit log, all in all
	// Frozen are the freezes in force that the copy has not; Unfrozen are agents that are frozen in the copy alone.
	Frozen   []Freeze `json:"frozen"`
	Unfrozen []Freeze `json:"unfrozen"`
	// Erased are requests whose arguments and texts were erased since, and are in the copy.
	Erased []string `json:"erased"`
	// Passkeys and Delegations are how many were removed or ended since, and are in force in the copy.
	Passkeys    int `json:"passkeys"`
	Delegations int `json:"delegations"`
}

// Freeze is a freeze in force: of an agent, or of all where Agent is "".
type Freeze struct {
	Agent  string `json:"agent"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// FindLoss finds out what is lost with the store whose place the copy takes, nil where there is none. It fails where
// the store cannot be read.
func (r *Restoration) FindLoss(ctx context.Context) (_ *Loss, err error) {
	if r.fresh {
		return nil, nil
	}
	if err := r.claim.checkLog(); err != nil { // SQLite would mix it with a file that it is not of
		return nil, err
	}
	old, err := openBeside(r.path, "query_only(1)")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	fresh, err := openBeside(r.part.Name(), "query_only(1)")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fresh.Close()) }()
	switch have, err := schema.Have(ctx, old); {
	case err != nil:
		return nil, fault(sqlite3.FromDriver(err))
	case have != schema.Version():
		return nil, fmt.Errorf("it is of another version of the program (schema %d; this one reads %d)", have,
			schema.Version())
	}
	l := &Loss{Since: r.Copy.At, Erased: []string{}}
	if err := l.count(ctx, old, r.Copy); err != nil {
		return nil, fault(sqlite3.FromDriver(err))
	}
	had, err := readFreezes(ctx, old)
	if err != nil {
		return nil, fault(sqlite3.FromDriver(err))
	}
	has, err := readFreezes(ctx, fresh)
	if err != nil {
		return nil, fault(sqlite3.FromDriver(err))
	}
	l.Frozen, l.Unfrozen = without(had, has), without(has, had)
	return l, nil
}

// count counts the events of the store that are later than the copy: by their numbers, unless one of the two was
// restored since and counts anew.
func (l *Loss) count(ctx context.Context, old *sql.DB, copied Contents) error {
	var life string
	if err := old.QueryRowContext(ctx, `SELECT life FROM store_state`).Scan(&life); err != nil {
		return err
	}
	after, than := "seq", any(copied.newest)
	if life != copied.life {
		after, than = "at", copied.At.UTC().Format(sqlite3.TimeFormat)
	}
	rows, err := old.QueryContext(ctx, `SELECT event_type, coalesce(decision, ''), coalesce(approval_id, '')
  FROM audit_events WHERE `+after+` > $1 ORDER BY seq`, than)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var kind approval.EventType
		var decision, request string
		if err := rows.Scan(&kind, &decision, &request); err != nil {
			return err
		}
		l.Events++
		switch kind {
		case approval.EventApprovalRequested:
			l.Requests++
		case approval.EventDecision:
			if decision == "approve" || decision == "deny" {
				l.Decisions++
			}
		case approval.EventApprovalConsumed, approval.EventGrantUsed:
			l.Uses++
		case approval.EventErased:
			l.Erased = append(l.Erased, request)
		case approval.EventPasskeyRemoved:
			l.Passkeys++
		case approval.EventDelegationEnded:
			l.Delegations++
		}
	}
	return rows.Err()
}

func readFreezes(ctx context.Context, db *sql.DB) (all []Freeze, err error) {
	rows, err := db.QueryContext(ctx, `SELECT agent, coalesce(frozen_by, ''), coalesce(reason, '') FROM epochs
  WHERE frozen = 1 ORDER BY agent`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var f Freeze
		if err := rows.Scan(&f.Agent, &f.By, &f.Reason); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, rows.Err()
}

// without are the freezes of agents that others freeze none of.
func without(all, others []Freeze) []Freeze {
	rest, has := []Freeze{}, map[string]bool{}
	for _, f := range others {
		has[f.Agent] = true
	}
	for _, f := range all {
		if !has[f.Agent] {
			rest = append(rest, f)
		}
	}
	return rest
}
