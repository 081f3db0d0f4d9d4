package store

import (
	"strings"
	"time"
)

// What goes along when the rows of a store are taken to a database of another kind.

// MovedTables are the tables of all kinds of databases, each after those that its rows refer to. What else a database
// has is of its engine, or of the programs that work on it.
func MovedTables() []string {
	return []string{"policies", "approval_requests", "request_sessions", "approval_votes", "approval_notifications",
		"reminded", "addresses", "cards", "delegations", "epochs", "grants", "grant_uses", "said", "recent_endings",
		"tool_pins", "webhook_events", "signin_links", "signin_sessions", "passkey_owners", "passkeys", EventTable}
}

// EventTable is the audit log, whose rows are in the order of seq when they are read.
const EventTable = "audit_events"

// MovedRows is the query that reads these columns of all rows of a table.
func MovedRows(table string, columns []MovedColumn) string {
	query := "SELECT " + strings.Join(MovedNames(columns), ", ") + " FROM " + table
	if table == EventTable {
		query += " ORDER BY seq"
	}
	return query
}

// MovedNames are the names of columns.
func MovedNames(columns []MovedColumn) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return names
}

// MovedColumn is a column of one of these tables. A value of it is nil, or an int64, a string, a []byte or a time.Time.
type MovedColumn struct {
	Name string
	Kind Kind
}

// Kind is of which type the values of a column are.
type Kind int

// The kinds of columns.
const (
	Text Kind = iota
	Int
	Bytes
	Time
)

// MovedState is what a store goes on from elsewhere.
type MovedState struct {
	Seq     int64     // of the newest event
	At      time.Time // no time before it is given out
	LastID  string    // no id before it is given out, "" if there is none yet
	Endings int64     // the resolved_seq that was given out last
	// Disorder is by how much the time of an event may be before that of one with a smaller seq.
	Disorder time.Duration
}
