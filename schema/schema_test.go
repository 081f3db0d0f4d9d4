package schema

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func empty(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "x.db")+"?_pragma=foreign_keys(1)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	return db
}

func exec(t *testing.T, db *sql.DB, stmts ...string) {
	t.Helper()
	for _, s := range stmts {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%v, in %s", err, s)
		}
	}
}

func dump(t *testing.T, db *sql.DB) string {
	t.Helper()
	rows, err := db.Query(`SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out strings.Builder
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out.WriteString(s + "\n")
	}
	return out.String()
}

func TestMigrate(t *testing.T) {
	db := empty(t)
	for range 2 { // the second time there is nothing to do
		if err := Migrate(t.Context(), db); err != nil {
			t.Fatal(err)
		}
	}
	have, err := Have(t.Context(), db)
	if err != nil || have != Version() || have < 1 {
		t.Errorf("version %d, %v; want %d", have, err, Version())
	}
	for _, table := range []string{"approval_requests", "request_sessions", "approval_notifications", "audit_events",
		"webhook_events", "recent_endings", "tool_pins", "approval_votes", "delegations", "epochs", "policies",
		"signin_links", "signin_sessions", "passkey_owners", "passkeys"} {
		if !strings.Contains(dump(t, db), "table "+table+" ") {
			t.Errorf("no table %s", table)
		}
	}
}

// A database of an earlier version keeps its rows, which say nothing of what came later.
func TestMigrateKeepsRows(t *testing.T) {
	db := empty(t)
	files, err := fs.Sub(migrations, "sqlite")
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	const at, by = `'2026-11-21T12:00:00.000Z'`, `'2026-11-21T14:00:00.000Z'`
	row := func(i int, columns, values string) string {
		return fmt.Sprintf(
			`INSERT INTO approval_requests (id, agent, tool_name, args_hash, risk_level, requested_at, expires_at, policy_reason, human_message, tool_args, %s)
  VALUES ('01ARZ3NDEKTSV4RRFFQ69G5FA%d', 'bot', 'pay', '%064d', 'high', %s, %s, 'r', '', '{}', %s)`, columns, i, i, at, by, values)
	}
	const end = `status, resolved_at, resolved_by, resolved_via, resolved_seq`
	exec(t, db, row(0, `status`, `'pending'`), row(1, end, `'denied', `+at+`, 'hana', 'line', 1`),
		row(2, end+`, use_by`, `'approved', `+at+`, 'hana', 'line', 2, `+by), row(3, end+`, use_by, consumed_at`,
			`'approved', `+at+`, 'hana', 'line', 3, `+by+`, `+at),
		`INSERT INTO recent_endings VALUES ('bot', '', '', 'pay', '`+strings.Repeat("0", 64)+
			`', NULL, NULL, '{"request_id":"r"}', `+at+`)`)
	before := content(t, db,
		`SELECT id, status, coalesce(use_by, ''), coalesce(consumed_at, ''), tool_args FROM approval_requests`)
	if err := Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if after := content(t, db,
		`SELECT id, status, coalesce(use_by, ''), coalesce(consumed_at, ''), tool_args FROM approval_requests`); after != before || strings.Count(after, "\n") != 4 {
		t.Errorf("after:\n%s\nbefore:\n%s", after, before)
	}
	want := strings.Repeat("|0||\n", 4)
	if got := content(t, db,
		`SELECT coalesce(tool_digest, ''), task, coalesce(dispatched_at, ''), coalesce(outcome, '') FROM approval_requests`); got != want {
		t.Errorf("the new columns: got\n%s, want\n%s", got, want)
	}
	if got := content(t, db, `SELECT last_use FROM recent_endings`); got != `{"request_id":"r"}`+"\n" {
		t.Errorf("recent_endings: got %q", got)
	}
}

// content returns the rows of a query of texts and numbers, a line each.
func content(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for rows.Next() {
		values, to := make([]string, len(columns)), make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		out.WriteString(strings.Join(values, "|") + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestMigrateRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		stmts []string
		check func(error) bool
	}{
		"a newer database": {
			[]string{`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)`},
			func(err error) bool {
				e, ok := errors.AsType[*NewerError](err)
				return ok && e.Have == 99 && e.Want == Version()
			},
		},
		"a database of another program": {
			[]string{`DROP TABLE goose_db_version`},
			func(err error) bool { return errors.Is(err, ErrForeign) },
		},
		"a database of another program that uses goose": {
			[]string{`DELETE FROM goose_db_version WHERE version_id > 0`},
			func(err error) bool { return errors.Is(err, ErrForeign) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := empty(t)
			if err := Migrate(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			exec(t, db, c.stmts...)
			before := dump(t, db)
			if err := Migrate(t.Context(), db); !c.check(err) {
				t.Errorf("got %v", err)
			}
			if after := dump(t, db); after != before {
				t.Errorf("the database was changed:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

// The database itself refuses what can never be: states that exclude each other, words and times that
// are none, a second live request of a key.
func TestConstraints(t *testing.T) {
	db := empty(t)
	if err := Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	const (
		id1   = "01ARZ3NDEKTSV4RRFFQ69G5FA0"
		id2   = "01ARZ3NDEKTSV4RRFFQ69G5FA1"
		early = "2026-11-21T12:00:00.000Z"
		at    = "2026-11-21T13:00:00.000Z"
		late  = "2026-11-21T14:00:00.000Z"
	)
	hash := strings.Repeat("a", 64)
	exec(t, db, `INSERT INTO approval_requests (id, agent, tool_name, args_hash, status, risk_level, requested_at, expires_at, policy_reason, human_message, tool_args)
  VALUES ('`+id1+`', 'bot', 'pay', '`+hash+`', 'pending', 'high', '`+early+`', '`+late+`', 'approval_required', '', '{}')`)
	const approved = `status = 'approved', resolved_at = '` + at +
		`', resolved_by = 'hana', resolved_via = 'line', resolved_seq = 1, use_by = '` + late + `'`
	const denied = `status = 'denied', resolved_at = '` + at +
		`', resolved_by = 'hana', resolved_via = 'line', resolved_seq = 1`
	for set, want := range map[string]string{
		approved: "",
		approved + `, consumed_at = '` + at + `', acked_at = '` + at + `'`: "",
		approved + `, lapsed_at = '` + late + `'`:                          "",
		denied:                                 "",
		denied + `, acked_at = '` + late + `'`: "",
		`status = 'expired', resolved_at = '` + late +
			`', resolved_by = 'system:timeout', resolved_via = 'system', resolved_seq = 1`: "",

		`status = 'done'`:                                   "CHECK",
		`risk_level = 'safe'`:                               "CHECK",
		`agent = ''`:                                        "CHECK",
		`args_hash = 'abc'`:                                 "CHECK",
		`expires_at = '2026-11-21 14:00:00'`:                "CHECK",
		`requested_at = NULL`:                               "NOT NULL",
		`tool_args = x'00'`:                                 "cannot store BLOB",
		`status = 'denied'`:                                 "end_is_whole",
		`resolved_at = '` + at + `'`:                        "pending_has_no_end",
		strings.Replace(denied, `'hana'`, `NULL`, 1):        "end_is_whole",
		strings.Replace(denied, `'line'`, `NULL`, 1):        "end_is_whole",
		strings.Replace(denied, `'line'`, `'post'`, 1):      "", // which channels there are, the program knows
		strings.Replace(denied, `'line'`, `''`, 1):          "CHECK",
		strings.Replace(denied, `seq = 1`, `seq = NULL`, 1): "end_is_whole",
		approved + `, consumed_at = '` + at + `', dispatched_at = '` + at + `'`:                      "",
		approved + `, consumed_at = '` + at + `', dispatched_at = '` + at + `', outcome = 'unknown'`: "",
		`tool_digest = '` + hash + `', task = 1`:                                                     "",
		`tool_digest = 'abc'`:                                                                        "CHECK",
		`task = 2`:                                                                                   "CHECK",
		`task = NULL`:                                                                                "NOT NULL",
		approved + `, dispatched_at = '` + at + `'`:                                                  "dispatched_when_used",
		approved + `, consumed_at = '` + at + `', dispatched_at = '` + early + `'`:                   "dispatched_when_used",
		approved + `, consumed_at = '` + at +
			`', outcome = 'failed'`: "only_dispatched_has_outcome",
		approved + `, consumed_at = '` + at + `', dispatched_at = '` + at + `', outcome = 'lost'`: "CHECK",
		denied + `, use_by = '` + late + `'`:                                                      "approval_has_use_by",
		strings.Replace(approved, `use_by = '`+late+`'`, `use_by = NULL`, 1):                      "approval_has_use_by",
		denied + `, consumed_at = '` + at + `'`:                                                   "only_approved_is_used",
		denied + `, lapsed_at = '` + at + `'`:                                                     "only_approved_is_used",
		approved + `, consumed_at = '` + at + `', lapsed_at = '` + late + `'`:                     "used_or_lapsed",
		approved + `, consumed_at = '` + late + `'`:                                               "used_in_time",
		`acked_at = '` + at + `'`:                                                                 "pending_has_no_end",
		`need = '{}', stage = 1, expires_at = '` + at + `', extended_at = '` + at + `'`:           "",
		`stage = -1`:                                        "CHECK",
		`extended_at = ''`:                                  "CHECK",
		`who = 'hana'`:                                      "only_an_end_has_who_and_code",
		`end_code = 'edited'`:                               "only_an_end_has_who_and_code",
		approved + `, who = 'hana and ken'`:                 "",
		approved + `, replaced_by = '` + id2 + `'`:          "only_a_denial_is_replaced",
		denied + `, end_code = 'edited', replaced_by = 'x'`: "CHECK",
		denied + `, who = 'ken for hana', end_code = 'edited', replaced_by = '` + id2 + `'`: "",
		`replaces = '` + id2 + `'`: "",
		`replaces = 'x'`:           "CHECK",
	} {
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		_, err = tx.Exec(`UPDATE approval_requests SET ` + set)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("SET %s: got %v, want %q", set, err, want)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
	copyOf := `INSERT INTO approval_requests (id, agent, tool_name, args_hash, status, risk_level, requested_at, expires_at, policy_reason, human_message, tool_args)
  SELECT '` + id2 + `', agent, tool_name, args_hash, 'pending', risk_level, requested_at, expires_at, policy_reason, human_message, tool_args FROM approval_requests WHERE id = '` + id1 + `'`
	for _, state := range []string{`status = 'pending'`, approved} {
		exec(t, db, `UPDATE approval_requests SET `+state)
		if _, err := db.Exec(copyOf); err == nil || !strings.Contains(err.Error(), "UNIQUE") {
			t.Errorf("a second live request beside one with %s: %v", state, err)
		}
	}
	exec(t, db, `UPDATE approval_requests SET lapsed_at = use_by`, copyOf)

	notification := func(columns, values string) string {
		return `INSERT INTO approval_notifications (id, channel, recipient, created_at, updated_at, ` + columns +
			`) VALUES ('` + id1 + `', 'line', 'U1', '` + at + `', '` + at + `', ` + values + `)`
	}
	for stmt, want := range map[string]string{
		notification(`kind, status, next_attempt_at`, `'request', 'queued', '`+at+
			`'`): "only_a_reply_stands_alone",
		notification(`kind, status`,
			`'reply', 'queued'`): "waiting_has_a_time",
		notification(`kind, status`,
			`'letter', 'sent'`): "CHECK",
		notification(`kind, status`,
			`'reply', 'lost'`): "CHECK",
		notification(`kind, status, attempt`,
			`'reply', 'sent', -1`): "CHECK",
		notification(`kind, status, approval_id`,
			`'request', 'sent', 'none'`): "FOREIGN KEY",
		`INSERT INTO tool_pins VALUES ('', '', 't', 'short', '` + at +
			`', NULL, NULL)`: "CHECK",
		`INSERT INTO tool_pins VALUES ('', '', '', '` + hash + `', '` + at +
			`', NULL, NULL)`: "CHECK",
		`INSERT INTO request_sessions (request, session_id, first_asked) VALUES ('none', 's', '` + at +
			`')`: "FOREIGN KEY",
		`INSERT INTO approval_votes VALUES ('none', 'hana', 0, 1, NULL, 'approve', NULL, '` + at +
			`', 'web', 0, 0)`: "FOREIGN KEY",
		`INSERT INTO approval_votes VALUES ('` + id1 + `', 'hana', 0, -1, NULL, 'approve', NULL, '` + at +
			`', 'web', 0, 0)`: "CHECK",
		`INSERT INTO approval_votes VALUES ('` + id1 + `', 'hana', 0, 1, NULL, 'maybe', NULL, '` + at +
			`', 'web', 0, 0)`: "CHECK",
		`INSERT INTO approval_votes VALUES ('` + id1 + `', 'hana', 0, 1, 'hana', 'approve', NULL, '` + at +
			`', 'web', 0, 0)`: "CHECK",
		`INSERT INTO delegations VALUES ('` + id1 + `', 'a', 'a', '` + at + `', '` + late + `', NULL, '` + at +
			`', 'a', NULL, NULL, NULL)`: "CHECK",
		`INSERT INTO delegations VALUES ('` + id1 + `', 'a', 'b', '` + late + `', '` + at + `', NULL, '` + at +
			`', 'a', NULL, NULL, NULL)`: "CHECK",
		`INSERT INTO delegations VALUES ('` + id1 + `', 'a', 'b', '` + at + `', '` + late + `', NULL, '` + at + `', 'a', '` +
			at + `', NULL, NULL)`: "end_is_whole",
		`INSERT INTO signin_links VALUES ('abc', '` + id1 + `', 'hana', 'line', 'line', '` + at + `', '` + late +
			`', NULL, NULL, NULL)`: "CHECK",
		`INSERT INTO signin_links VALUES ('` + hash + `', '` + id1 + `', '', 'line', 'line', '` + at + `', '` + late +
			`', NULL, NULL, NULL)`: "CHECK",
		`INSERT INTO signin_links VALUES ('` + hash + `', '` + id1 + `', 'hana', 'line', 'line', '` + at + `', '` + at +
			`', NULL, NULL, NULL)`: "CHECK",
		`INSERT INTO signin_links VALUES ('` + hash + `', '` + id1 + `', 'hana', 'line', 'line', '` + at + `', '` + late +
			`', '` + at + `', NULL, NULL)`: "end_is_whole",
		`INSERT INTO signin_links VALUES ('` + hash + `', '` + id1 + `', 'hana', 'line', 'line', '` + at + `', '` + late +
			`', '` + late + `', 'used', NULL)`: "CHECK",
		`INSERT INTO signin_sessions VALUES ('abc', '` + id1 + `', 'hana', 'link', '', '', '` + at + `', '` + at + `', '` +
			late + `', NULL)`: "CHECK",
		`INSERT INTO signin_sessions VALUES ('` + hash + `', '` + id1 + `', '', 'link', '', '', '` + at + `', '` + at +
			`', '` + late + `', NULL)`: "CHECK",
		`INSERT INTO signin_sessions VALUES ('` + hash + `', '` + id1 + `', 'hana', 'link', '', '', '` + at + `', '` + early +
			`', '` + late + `', NULL)`: "CHECK",
		`INSERT INTO epochs (agent, id, frozen) VALUES ('bot', '` + id1 +
			`', 1)`: "freeze_is_whole",
		`INSERT INTO recent_endings VALUES ('a', '', '', 't', 'h', '', 'd', NULL, NULL, '` + at +
			`')`: "denial_has_a_time",
		`INSERT INTO store_state (one, seq, at, last_id) VALUES (2, 0, '` + at + `', '00000000000000000000000000')`: "CHECK",
	} {
		if _, err := db.Exec(stmt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", stmt, err, want)
		}
	}
	exec(t, db, notification(`kind, status, next_attempt_at`, `'reply', 'queued', '`+at+`'`))
	var reason, created string
	if err := db.QueryRow(`SELECT reason_code, created_at FROM approval_requests WHERE id = '`+id1+`'`).Scan(&reason,
		&created); err != nil || reason != "approval_required" || created != early {
		t.Errorf("reason_code %q, created_at %q, %v", reason, created, err)
	}
}

// A pin of before does not tell who saw the tool: it holds for everybody. A task that waits is the gateway's.
func TestMigratingPinsAndTasks(t *testing.T) {
	db := empty(t)
	files, err := fs.Sub(migrations, "sqlite")
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	const at = `'2026-11-21T12:00:00.000Z'`
	digest := strings.Repeat("a", 64)
	row := func(i int, scope, digest, task string) string {
		return fmt.Sprintf(
			`INSERT INTO approval_requests (id, agent, scope, tool_name, args_hash, status, risk_level, requested_at, expires_at, policy_reason, human_message, tool_args, tool_digest, task)
  VALUES ('01ARZ3NDEKTSV4RRFFQ69G5FA%d', 'bot', '%s', 'pay', '%064d', 'pending', 'high', %s, %s, 'r', '', '{}', %s, %s)`, i, scope, i, at, at, digest, task)
	}
	exec(t, db, row(0, "", `'`+digest+`'`, "1"), row(1, "/home (command 0a)", `'`+digest+`'`, "1"),
		row(2, "", "NULL", "1"), row(3, "", `'`+digest+`'`, "0"),
		`INSERT INTO tool_pins VALUES ('files', 'read', '`+digest+`', `+at+`, 'hana')`)
	if err := Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if got, want := content(t, db, `SELECT tool_seen, coalesce(inputs, '-') FROM approval_requests ORDER BY id`),
		"1|-\n0|-\n0|-\n0|-\n"; got != want {
		t.Errorf("requests: got\n%s, want\n%s", got, want)
	}
	if got, want := content(t, db, `SELECT agent, server, tool_name, digest, seen_at, accepted_by FROM tool_pins`),
		"|files|read|"+digest+"|2026-11-21T12:00:00.000Z|hana\n"; got != want {
		t.Errorf("pins: got %q, want %q", got, want)
	}
}

// Dropping the list of channels from the table's text leaves every row, index and other rule as it was.
func TestMigratingTheChannels(t *testing.T) {
	db := empty(t)
	files, err := fs.Sub(migrations, "sqlite")
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	const at, by = `'2026-11-21T12:00:00.000Z'`, `'2026-11-21T14:00:00.000Z'`
	digest := `'` + strings.Repeat("a", 64) + `'`
	made := 0
	insert := func(columns, values string) {
		id := fmt.Sprintf("'01ARZ3NDEKTSV4RRFFQ69G5F%02d'", made)
		exec(t, db, fmt.Sprintf(`INSERT INTO approval_requests (id, agent, scope, server, tool_name, args_hash, risk_level, requested_at, expires_at,
  turn_id, session_id, batch_id, rule, policy_reason, ignored_args, previous_use, human_message, tool_args, rationale, preview, tool_digest, tool_seen, inputs, task, %s)
  VALUES (%s, 'bot', '/srv', 'files', 'pay', '%064d', 'high', %s, %s, 't', 's', 'b', 'r', 'approval_required', '["x"]', '{"a":1}', 'Look.', '{"n":1.0}', 'why', '+', %s, 1, '[]', %s)`,
			columns, id, made, at, by, digest, values),
			`INSERT INTO request_sessions VALUES (`+id+`, 's', `+at+`)`,
			`INSERT INTO approval_notifications (id, approval_id, channel, recipient, kind, status, next_attempt_at, created_at, updated_at, body)
  VALUES (`+id+`, `+id+`, 'line', 'U1', 'request', 'queued', `+at+`, `+at+`, `+at+`, x'00ff')`)
		made++
	}
	insert(`status`, `0, 'pending'`)
	for _, via := range []string{"line", "slack", "web", "api", "cli", "terminal", "system"} {
		end := fmt.Sprintf("%s, 'hana', '%s', 'because', 1", at, via)
		const ended = `resolved_at, resolved_by, resolved_via, resolve_reason, resolved_seq`
		for _, status := range []string{"denied", "expired", "cancelled"} {
			insert(`status, acked_at, `+ended, `0, '`+status+`', `+at+`, `+end)
		}
		for _, state := range [][2]string{{`lapsed_at`, by}, {`consumed_at`, at}, {`acked_at`, `NULL`}} {
			insert(`status, use_by, `+state[0]+`, `+ended, `0, 'approved', `+by+`, `+state[1]+`, `+end)
		}
		insert(`status, use_by, consumed_at, dispatched_at, outcome, `+ended, `1, 'approved', `+by+`, `+at+`, `+at+
			`, 'unknown', `+end)
	}
	everything := func() string {
		var all strings.Builder
		for table := range strings.FieldsSeq(content(t, db,
			`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'goose_db_version' ORDER BY name`)) {
			columns := strings.ReplaceAll(strings.TrimSpace(content(t, db, `SELECT name FROM pragma_table_xinfo('`+table+`')`)),
				"\n", "), quote(")
			all.WriteString(table + "\n" + content(t, db, `SELECT quote(`+columns+`) FROM `+table+` ORDER BY 1`))
		}
		return all.String()
	}
	rows, tables := everything(), dump(t, db)
	if strings.Count(rows, "'files'") != 1+7*7 {
		t.Fatalf("too few rows to prove anything:\n%s", rows)
	}
	if _, err := p.UpTo(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if got := everything(); got != rows {
		t.Errorf("rows: got\n%s\nbefore\n%s", got, rows)
	}
	before, rest, _ := strings.Cut(tables, `CHECK (resolved_via IS NULL OR `)
	_, after, _ := strings.Cut(rest, `'system')`)
	if got, want := dump(t, db), before+`CHECK (resolved_via IS NULL OR resolved_via <> '')`+after; got != want {
		t.Errorf("tables: got\n%s\nwant\n%s", got, want)
	}
	for query, want := range map[string]string{`PRAGMA integrity_check`: "ok\n", `PRAGMA foreign_key_check`: "",
		`PRAGMA writable_schema`: "0\n"} {
		if got := content(t, db, query); got != want {
			t.Errorf("%s: %q", query, got)
		}
	}
	// The connection that has migrated sees the table as it is now, and so does a later migration.
	exec(t, db, `UPDATE approval_requests SET resolved_via = 'pager' WHERE resolved_via = 'line'`,
		`ALTER TABLE approval_requests ADD COLUMN later TEXT CHECK (later IS NULL OR later <> '')`,
		`UPDATE approval_requests SET later = 'x'`)
	if _, err := db.Exec(`UPDATE approval_requests SET resolved_via = NULL WHERE status = 'denied'`); err == nil ||
		!strings.Contains(err.Error(), "end_is_whole") {
		t.Errorf("a denial without a channel: %v", err)
	}
	if got := content(t, db, `PRAGMA integrity_check`); got != "ok\n" {
		t.Errorf("after a later column: %s", got)
	}
}

// The columns of who must say yes come with the table's text: the rows that are there have their defaults, and so the
// table is as if it had always had them. A text that is another one stops the migration.
func TestMigratingToVotes(t *testing.T) {
	files, err := fs.Sub(migrations, "sqlite")
	if err != nil {
		t.Fatal(err)
	}
	before := func(t *testing.T) *sql.DB {
		db := empty(t)
		p, err := goose.NewProvider(goose.DialectSQLite3, db, files)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.UpTo(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		exec(t, db, `INSERT INTO approval_requests (id, agent, tool_name, args_hash, status, risk_level, requested_at, expires_at, policy_reason, human_message, tool_args, inputs)
  VALUES ('01ARZ3NDEKTSV4RRFFQ69G5FA0', 'bot', 'pay', '`+strings.Repeat("a", 64)+`', 'pending', 'high', '2026-11-21T12:00:00.000Z', '2026-11-21T14:00:00.000Z', 'r', '', '{}', '[1]')`)
		return db
	}
	db := before(t)
	if err := Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		`SELECT stage, inputs, coalesce(need, policy_digest, correlation_id, replaces, who, end_code, replaced_by, extended_at, '-') FROM approval_requests`: "0|[1]|-\n",
		`PRAGMA integrity_check`:   "ok\n",
		`PRAGMA foreign_key_check`: "",
		`PRAGMA writable_schema`:   "0\n",
	} {
		if got := content(t, db, query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	exec(t, db, `ALTER TABLE approval_requests ADD COLUMN later TEXT`,
		`UPDATE approval_requests SET need = '{}', stage = 1, later = 'x'`)
	if got := content(t, db,
		`SELECT need, stage, extended_at IS NULL, later FROM approval_requests`); got != "{}|1|1|x\n" {
		t.Errorf("with a later column: %q", got)
	}

	other := before(t)
	exec(t, other, `PRAGMA writable_schema = ON`,
		`UPDATE sqlite_schema SET sql = replace(sql, ', inputs TEXT', ', inputs  TEXT') WHERE name = 'approval_requests'`,
		`PRAGMA writable_schema = RESET`)
	was := dump(t, other)
	if err := Migrate(t.Context(), other); err == nil || !strings.Contains(err.Error(), "CHECK") {
		t.Errorf("a table with another text: %v", err)
	}
	if is := dump(t, other); is != was {
		t.Errorf("it was changed:\n%s", is)
	}
}

// A migration of tables that programs work on gives way to what they do, and takes nothing from the program before
// without saying so.
func TestPostgresMigrationsLeaveRoomForTheProgramBefore(t *testing.T) {
	files, err := fs.Glob(migrations, "postgres/*.sql")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, name := range files[1:] {
		text, err := fs.ReadFile(migrations, name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "SET LOCAL lock_timeout = '2s'") {
			t.Errorf("%s has no SET LOCAL lock_timeout", name)
		}
		takes := regexp.MustCompile(`(?i)\b(DROP|RENAME|ALTER COLUMN|SET NOT NULL|ADD CONSTRAINT)\b`).FindString(string(text))
		if takes != "" && !strings.Contains(string(text), "SET min_program = ") {
			t.Errorf("%s has %s, and does not raise min_program", name, takes)
		}
	}
}
