package postgres

import (
	"regexp"
	"strings"
	"sync"

	"countersign/internal/store"
)

// queries are the statements of the rows, as PostgreSQL spells them.
var queries = func() []string {
	all := store.Queries()
	for i, sql := range all {
		all[i] = respell(sql)
	}
	return all
}()

// spellings are what SQLite and PostgreSQL spell differently: the texts of package store are SQLite's.
var spellings = []string{
	`+id`, `(id || '')`, // either keeps to the index of the other condition
	`GLOB '*rule [0-9]*'`, `~ 'rule [0-9]'`,
	`substr(id, -length($2))`, `right(id, length($2))`,
	` NOT INDEXED`, ``,
	`data ->> '$.session_id'`, `replace(regexp_replace(data, '(?<!\\)((\\\\)*)\\u000([01])', '\1\\u00010\3', 'g'), ` +
		`chr(1), '\u0001')::json ->> 'session_id'`, // a value with its bytes as encode writes them
	// An event waits for its seq.
	`INSERT INTO audit_events (`, `INSERT INTO audit_inbox (`,
}

var (
	replacer  = strings.NewReplacer(spellings...)
	indexedBy = regexp.MustCompile(` INDEXED BY \w+`)
	like      = regexp.MustCompile(` LIKE (\$\d+)`)
	deadline  = regexp.MustCompile(`\b(use_by|expires_at) ([<>]=? \$\d+)`)
	reminded  = regexp.MustCompile(` IN \((SELECT notification FROM reminded [^()]+)\)`)
	exists    = regexp.MustCompile(`(EXISTS \(SELECT 1 FROM \w+ (?:AS )?\w+ WHERE [^()]+)\)`)
)

func respell(sql string) string {
	sql = replacer.Replace(sql)
	sql = indexedBy.ReplaceAllString(sql, "")
	sql = like.ReplaceAllString(sql, " ILIKE $1")
	// Looked up for each row that is read, of which a limit leaves few. The planner would read the whole table first.
	sql = exists.ReplaceAllString(sql, "$1 OFFSET 0)")
	sql = reminded.ReplaceAllString(sql, " = ANY (ARRAY($1))") // so that each side of an OR goes by its index
	switch {
	case strings.HasPrefix(sql, "INSERT INTO audit_inbox "): // its seq comes later, and the inbox has a count of its own
		return strings.Replace(sql, ") VALUES (", ") OVERRIDING USER VALUE VALUES (", 1)
	case strings.HasPrefix(sql, "UPDATE approval_requests "):
		return byID(sql)
	}
	return sql
}

// byID keeps what changes one request to the index of ids. Where the planner knows little of a table it takes an index
// of what is pending, or not used, or not acknowledged, for smaller, and walks through all of that.
func byID(sql string) string {
	sql, live, also := strings.Cut(sql, "NOT EXISTS")
	sql = strings.ReplaceAll(sql, "status = '", "status || '' = '")
	sql = strings.ReplaceAll(sql, "resolved_seq IS NOT NULL", "resolved_seq + 0 IS NOT NULL")
	sql = deadline.ReplaceAllString(sql, "$1 + interval '0' $2")
	if also {
		sql += "NOT EXISTS" + live
	}
	return sql
}

// spelled has the texts that were put together so far: there are few, since values are parameters.
var spelled sync.Map

func spell(sql string) string {
	if s, ok := spelled.Load(sql); ok {
		return s.(string)
	}
	s := respell(sql)
	spelled.Store(sql, s)
	return s
}
