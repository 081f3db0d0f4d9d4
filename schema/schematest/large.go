package schematest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The few rows of a large store that are like no others: each of these is what [Rare] of the oldest requests have.
const (
	Rare      = 5
	RareTool  = "rare_tool"
	RareAgent = "rare-agent"
	RareName  = "rare-person" // who decided them
)

// LargeDays is how long ago the oldest request of a large store was made.
const LargeDays = 30

// WriteLarge writes the file of a store in which so many requests have ended, a few still wait, and all are on record:
// one in 14 was denied, one in 12 expired, the others were approved and used. Each has a card and its edit, its vote,
// and four or five audit events, one of a call that was allowed. A million take minutes and 4.6 GB.
//
// The rows are made by SQL, as the store itself writes them one after another: all that depends on the order of ids,
// times and numbers holds.
func WriteLarge(t testing.TB, path string, requests int, now time.Time) {
	t.Helper()
	WriteFile(t, path)
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path)}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for _, statement := range large(requests, now.Unix()) {
		if _, err = db.ExecContext(context.Background(), statement); err != nil {
			err = fmt.Errorf("%w\nin %s", err, statement)
			break
		}
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// ulid is an id of a time in seconds, with a number as its random part.
func ulid(seconds, number string) string {
	var parts []string
	for shift := 45; shift >= 0; shift -= 5 {
		parts = append(parts, fmt.Sprintf("substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((%s * 1000 >> %d) & 31) + 1, 1)",
			seconds, shift))
	}
	return strings.Join(parts, " || ") + " || printf('%016d', " + number + ")"
}

// stamp is a time in seconds as it is stored.
func stamp(seconds string) string {
	return "strftime('%Y-%m-%dT%H:%M:%S.000Z', " + seconds + ", 'unixepoch')"
}

// large are the statements that fill an empty store.
func large(requests int, now int64) []string {
	begin, apart := now-LargeDays*24*3600, fmt.Sprintf("%f", LargeDays*24*3600/float64(requests+1))
	return []string{
		`PRAGMA journal_mode = OFF`, `PRAGMA synchronous = OFF`, `PRAGMA cache_size = -65536`, `BEGIN`,
		// What differs from one request to the next: i counts them, h has no order.
		fmt.Sprintf(`CREATE TEMP TABLE made AS
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %[1]d - 1),
  h AS (SELECT i, i * 2654435761 %% 4294967296 AS h, %[2]d + CAST(i * %[3]s AS INTEGER) AS at FROM n)
SELECT i, h, at, `+ulid("at", "i * 8")+` AS id,
  iif(i < %[4]d, '`+RareAgent+`', printf('agent-%%d', h %% 23)) AS agent,
  iif(i < %[4]d, '`+RareTool+`', printf('tool_%%d', h / 23 %% 41)) AS tool,
  iif(h %% 3 = 0, 'bank', '') AS server, printf('rule-%%d', h / 23 %% 41) AS rule,
  CASE h %% 7 WHEN 0 THEN 'critical' WHEN 1 THEN 'low' WHEN 2 THEN 'medium' ELSE 'high' END AS risk,
  CASE WHEN i >= %[1]d - 20 THEN 'pending' WHEN i < %[4]d THEN 'cancelled'
    WHEN h / 11 %% 14 = 0 THEN 'denied' WHEN h / 11 %% 12 = 1 THEN 'expired' ELSE 'approved' END AS status,
  CASE WHEN i < %[4]d THEN '`+RareName+`' WHEN h / 11 %% 14 <> 0 AND h / 11 %% 12 = 1 THEN 'system:timeout'
    ELSE printf('person-%%d', h / 7 %% 9) END AS who
FROM h`, requests, begin, apart, Rare),
		`INSERT INTO approval_requests (id, agent, scope, server, tool_name, args_hash, status, risk_level, requested_at,
  expires_at, resolved_at, resolved_by, resolved_via, resolved_seq, use_by, consumed_at, acked_at, session_id, rule,
  policy_reason, human_message, tool_args, correlation_id)
SELECT id, agent, '', server, tool, printf('%016x%048x', h, i), status, risk, ` + stamp("at") + `,
  ` + stamp("at + 3600") + `,
  iif(status = 'pending', NULL, ` + stamp("at + 1") + `), iif(status = 'pending', NULL, who),
  CASE status WHEN 'pending' THEN NULL WHEN 'expired' THEN 'system' ELSE 'line' END,
  iif(status = 'pending', NULL, i + 1),
  iif(status = 'approved', ` + stamp("at + 900") + `, NULL), iif(status = 'approved', ` + stamp("at + 2") + `, NULL),
  iif(status = 'pending', NULL, ` + stamp("at + 2") + `), printf('run-%d', i / 50), rule, 'approval_required',
  'The payment is above the limit.', printf('{"body":"%s","invoice":%d}', substr(hex(zeroblob(250)), 1, 480), i),
  printf('correlation-%014d', i)
FROM made ORDER BY i`,
		`INSERT INTO approval_votes (request, person, nth, stage, decision, at, via)
SELECT id, who, 0, 1, iif(status = 'denied', 'deny', 'approve'), ` + stamp("at + 1") + `, 'line' FROM made
WHERE status IN ('approved', 'denied') ORDER BY i`,
		// The card, and its edit once the request has ended; one in 500 cards reached nobody.
		`INSERT INTO approval_notifications (id, approval_id, channel, recipient, kind, status, attempt, created_at,
  updated_at, sent_at, message_id, http_status, retry_key, body)
SELECT ` + ulid("at", "i * 8 + k") + `, id, iif(h % 5 = 0, 'slack', 'line'), printf('U%031d', h / 7 % 9),
  iif(k = 1, 'request', 'outcome'), CASE WHEN h % 500 = 0 THEN 'failed' WHEN k = 1 THEN 'delivered' ELSE 'sent' END, 1,
  ` + stamp("at") + `, ` + stamp("at + 1") + `, iif(h % 500 = 0, NULL, ` + stamp("at + 1") + `),
  printf('m%d', i * 8 + k),
  iif(h % 500 = 0, 400, 200), printf('123e4567-e89b-12d3-a456-%012d', i * 8 + k),
  CAST(iif(k = 1, hex(zeroblob(400)), NULL) AS BLOB)
FROM made, (SELECT 1 AS k UNION ALL SELECT 2) WHERE k = 1 OR status <> 'pending' ORDER BY i, k`,
		`CREATE TEMP TABLE kind (k INTEGER PRIMARY KEY, type TEXT, pending INTEGER)`,
		`INSERT INTO kind VALUES (0, 'call_allowed', 1), (1, 'approval_requested', 1), (2, 'notification_sent', 1),
  (3, 'hitl_decision', 0), (4, 'approval_consumed', 0)`,
		`INSERT INTO audit_events (seq, id, at, event_type, correlation_id, actor, approval_id, agent, tool, risk_level,
  decision, reason, data)
SELECT i * 5 + k + 1, ` + ulid("at", "i * 8 + 3 + k") + `, ` + stamp("at") + `, type, printf('correlation-%014d', i),
  iif(type = 'hitl_decision', who, 'agent:' || agent), iif(k = 0, NULL, id), agent,
  iif(server = '', tool, server || '/' || tool), risk,
  CASE WHEN k = 0 THEN 'allow' WHEN k <> 3 THEN NULL WHEN status = 'denied' THEN 'deny'
    WHEN status = 'approved' THEN 'approve' ELSE 'timeout' END,
  'approval_required', printf('{"args_hash":"%064x","rule":"%s","expires_at":"2026-11-21T14:07:49.907Z"}', h, rule)
FROM made, kind WHERE (status <> 'pending' OR pending) AND (k <> 4 OR status = 'approved') ORDER BY i, k`,
		`COMMIT`,
	}
}
