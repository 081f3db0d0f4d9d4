package sqlite

import (
	"countersign/internal/store"
	"countersign/internal/store/sqlite/sqlite3"
)

// The statements of the engine's own; those of the rows follow.
const (
	beginRead sqlite3.Query = iota
	beginWrite
	commit
	rollback
	savepoint
	rollbackTo
	release

	loadState
	saveState
	loadNewest

	readNothing

	ofRows
)

var queries = append([]string{
	beginRead:  `BEGIN`,
	beginWrite: `BEGIN IMMEDIATE`,
	commit:     `COMMIT`,
	rollback:   `ROLLBACK`,
	savepoint:  `SAVEPOINT fn`,
	rollbackTo: `ROLLBACK TO fn`,
	release:    `RELEASE fn`,

	loadState: `SELECT ` + stateColumns + ` FROM store_state`,
	saveState: `UPDATE store_state SET (` + stateColumns + `) =
  ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
	// Rows are ahead of the state where they say all that it would (see stateFollows), or another program has written
	// them.
	loadNewest: `SELECT (SELECT max(seq) FROM audit_events), (SELECT at FROM audit_events ORDER BY seq DESC LIMIT 1),
  (SELECT id FROM audit_events ORDER BY seq DESC LIMIT 1),
  (SELECT max(id) FROM approval_requests), (SELECT max(id) FROM approval_notifications)`,

	readNothing: `SELECT one FROM store_state`,
}, store.Queries()...)
