//go:build postgres

package postgres

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/approval"
)

// fill makes the tables large: 40,000 requests, of which 400 wait and 4,000 are approved and not used, and what belongs
// to them.
var fill = []string{
	`INSERT INTO approval_requests (id, agent, tool_name, args_hash, status, risk_level, requested_at, expires_at,
    resolved_at, resolved_by, resolved_via, resolved_seq, use_by, consumed_at, acked_at, policy_reason, human_message,
    tool_args, session_id, batch_id, correlation_id)
  SELECT lpad(n::text, 26, '0'), 'bot' || n % 40, 'tool' || n % 7, lpad(n::text, 64, '0'),
    CASE WHEN n % 100 = 0 THEN 'pending' WHEN n % 3 = 0 THEN 'denied' ELSE 'approved' END, 'high',
    now() - (40000 - n) * interval '1 minute', now() + n * interval '1 minute',
    CASE WHEN n % 100 <> 0 THEN now() END, CASE WHEN n % 100 <> 0 THEN 'hana' END, CASE WHEN n % 100 <> 0 THEN 'line' END,
    CASE WHEN n % 100 <> 0 THEN n END,
    CASE WHEN n % 100 <> 0 AND n % 3 <> 0 THEN now() + n * interval '1 minute' END,
    CASE WHEN n % 100 <> 0 AND n % 3 <> 0 AND n % 10 <> 1 THEN now() END,
    CASE WHEN n % 100 <> 0 AND n % 20 <> 1 THEN now() END,
    'approval_required', 'Look.', '{"a":1}', 's' || n % 1000,
    CASE WHEN n % 5 = 0 THEN lpad((n / 10 * 10)::text, 26, '0') END, 'c' || n
  FROM generate_series(1, 40000) AS n`,
	`INSERT INTO request_sessions (request, session_id, first_asked)
  SELECT id, session_id, requested_at FROM approval_requests`,
	`INSERT INTO approval_votes (request, person, nth, stage, decision, at, via)
  SELECT id, 'hana', 0, 1, 'approve', requested_at, 'line' FROM approval_requests`,
	`INSERT INTO approval_notifications (id, approval_id, batch_id, channel, recipient, kind, status, next_attempt_at,
    created_at, updated_at, sent_at, message_id, target_id)
  SELECT id, id, batch_id, 'line', 'U' || ascii(right(id, 1)),
    CASE WHEN right(id, 1) = '3' THEN 'outcome' ELSE 'request' END,
    CASE WHEN right(id, 2) = '42' THEN 'queued' WHEN right(id, 2) = '43' THEN 'failed' ELSE 'sent' END, requested_at,
    requested_at, requested_at, requested_at, 'm' || id, 'm' || id FROM approval_requests`,
	`INSERT INTO reminded (request, notification, at) SELECT id, id, requested_at FROM approval_requests`,
	`INSERT INTO audit_events (seq, id, at, event_type, agent, decision, approval_id, actor, data)
  SELECT n, lpad(n::text, 26, '0'), now() - (80000 - n) * interval '1 second',
    CASE n % 40 WHEN 0 THEN 'hitl_decision' WHEN 1 THEN 'approval_requested' ELSE 'call_allowed' END, 'bot' || n % 40,
    CASE WHEN n % 400 = 0 THEN 'deny' ELSE 'allow' END, lpad((n / 2)::text, 26, '0'), 'hana', '{}'
  FROM generate_series(1, 80000) AS n`,
	`INSERT INTO recent_endings (agent, scope, server, tool_name, args_hash, method, newest)
  SELECT agent, '', '', tool_name, args_hash, '', requested_at FROM approval_requests`,
	`INSERT INTO cards (id, agent, scope, session, turn, grouping, risk_level, opened_at, leaves_at, join_by, items, shown)
  SELECT id, agent, '', session_id, id, 'turn', 'high', requested_at, requested_at, requested_at, '[]', 1
  FROM approval_requests`,
	`INSERT INTO grants (id, deny, agent, scope, server, tool_name, args_hash, request, risk_level, tool_seen, made_by, via,
    made_at, expires_at, uses, used, unknown, ended_at, ended_by, end_code, args)
  SELECT id, 0, agent, '', '', tool_name, args_hash, id, 'high', 0, 'hana', 'line', requested_at,
    requested_at + interval '1 day', 0, 0, 0, CASE WHEN right(id, 2) <> '42' THEN now() END,
    CASE WHEN right(id, 2) <> '42' THEN 'hana' END, CASE WHEN right(id, 2) <> '42' THEN 'expired' END, '{}'
  FROM approval_requests`,
	`INSERT INTO grant_uses (id, grant_id, args_hash, at) SELECT id, id, args_hash, made_at FROM grants`,
	`INSERT INTO said (agent, server, tool_name, request, approved, said_by, at)
  SELECT agent, '', id, id, 1, 'hana', requested_at FROM approval_requests`,
	`INSERT INTO tool_pins (agent, server, tool_name, digest, seen_at)
  SELECT agent, '', id, args_hash, requested_at FROM approval_requests`,
	`INSERT INTO webhook_events (id, seen_at) SELECT id, requested_at FROM approval_requests`,
	`INSERT INTO policies (digest, source) SELECT args_hash, id FROM approval_requests`,
	`INSERT INTO delegations (id, delegator, delegate, from_at, until_at, created_at, created_by, ended_at, ended_by)
  SELECT id, 'hana', 'ken', requested_at, requested_at, requested_at, 'hana', requested_at, 'hana' FROM approval_requests`,
	`INSERT INTO signin_links (digest, id, person, via, made_on, made_at, expires_at)
  SELECT args_hash, id, agent, 'line', 'room', requested_at, requested_at + interval '1 hour' FROM approval_requests`,
	`INSERT INTO signin_sessions (digest, id, person, method, origin, user_agent, created_at, seen_at, expires_at)
  SELECT args_hash, id, agent, 'link', '', '', requested_at, requested_at, requested_at + interval '1 hour'
  FROM approval_requests`,
	`INSERT INTO passkey_owners (person, handle) SELECT id, lpad(id, 86, '0') FROM approval_requests`,
	`INSERT INTO passkeys (id, credential, person, name, public_key, rp_id, aaguid, transports, added_at, sign_count,
    backup_eligible, backed_up)
  SELECT id, id, id, 'phone', 'k', 'gate', '', '', requested_at, 0, 0, 0 FROM approval_requests`,
	`ANALYZE`,
}

// planOf is how PostgreSQL answers a statement whatever its values are.
func planOf(t *testing.T, c *pgx.Conn, sql string) string {
	t.Helper()
	params := 0
	for _, m := range regexp.MustCompile(`\$(\d+)`).FindAllStringSubmatch(sql, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		params = max(params, n)
	}
	explain := "EXPLAIN EXECUTE one"
	if params > 0 {
		explain += "(" + strings.TrimSuffix(strings.Repeat("NULL, ", params), ", ") + ")"
	}
	results, err := c.PgConn().Exec(t.Context(), "PREPARE one AS "+sql+"; "+explain+"; DEALLOCATE one").ReadAll()
	if err != nil {
		t.Fatalf("%v\nof %s", err, sql)
	}
	var plan []string
	for _, row := range results[1].Rows {
		plan = append(plan, string(row[0]))
	}
	return strings.Join(plan, "\n")
}

// planFor is how PostgreSQL answers a statement with these values.
func planFor(t *testing.T, c *pgx.Conn, sql string, args []any) string {
	t.Helper()
	rows, err := c.Query(t.Context(), "EXPLAIN "+sql, args...)
	if err != nil {
		t.Fatalf("%v\nof %s", err, sql)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%v\nof %s", err, sql)
	}
	return strings.Join(plan, "\n")
}

// filled returns a connection to a database whose tables are large.
func filled(t *testing.T) (c *pgx.Conn, url string) {
	t.Helper()
	url = database(t)
	c = connect(t, url)
	for _, sql := range fill {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%v\nin %s", err, sql)
		}
	}
	return c, url
}

func set(t *testing.T, c *pgx.Conn, settings ...string) {
	t.Helper()
	for _, s := range settings {
		if _, err := c.Exec(t.Context(), "SET "+s); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	// whole matches the tables that may be read whole: those of people, of whom there are few, and of freezes; and what is
	// pruned, some of it each time.
	whole = regexp.MustCompile(`Seq Scan on (epochs|addresses|signin_\w+|store_state|passkey_owners` +
		`|webhook_events|recent_endings)`)
	ofID  = regexp.MustCompile(`Index Cond: .*\b(id = \$|dispatched_at = \$)`) // few are under way at a time
	large = regexp.MustCompile(`Sort +\(.* rows=\d{4,} `)
)

// Each statement finds its rows by an index, whatever it is asked; and what changes a row by its id finds it by that,
// also where nothing is known of the table yet.
func TestPlans(t *testing.T) {
	full, _ := filled(t)
	fresh := connect(t, database(t))
	for _, c := range []*pgx.Conn{full, fresh} {
		set(t, c, "jit = off", "plan_cache_mode = force_generic_plan")
	}
	for _, sql := range queries {
		if p := planOf(t, full, sql); strings.Contains(whole.ReplaceAllString(p, ""), "Seq Scan") {
			t.Errorf("%s\nfor %s", p, sql)
		}
		if !strings.HasPrefix(sql, "UPDATE ") || !strings.Contains(sql, "WHERE id = ") {
			continue
		}
		for _, c := range []*pgx.Conn{full, fresh} {
			for _, sql := range []string{sql, orFail(sql)} {
				if p := planOf(t, c, sql); !ofID.MatchString(p) {
					t.Errorf("%s\nfor %s", p, sql)
				}
			}
		}
	}
}

// sent keeps the statements that a store has sent which read.
type sent struct {
	pgx.QueryTracer
	mu    sync.Mutex
	lists map[string][]any
}

func (s *sent) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range data.Batch.QueuedQueries {
		sql := strings.TrimPrefix(q.SQL, "DECLARE portions NO SCROLL CURSOR FOR ")
		if strings.HasPrefix(sql, "SELECT ") && strings.Contains(sql, " FROM ") && !strings.Contains(sql, "store_state") {
			s.lists[sql] = q.Arguments
		}
	}
	return ctx
}

func (*sent) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*sent) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func (*sent) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (*sent) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// What is listed, however it is narrowed, is read along an index and in its order.
func TestListsAreReadAlongAnIndex(t *testing.T) {
	c, url := filled(t)
	seen := &sent{lists: map[string][]any{}}
	d := open(t, Options{URL: url, tracer: seen})
	now, id := d.Now(), strings.Repeat("0", 21)+"20000"
	if err := d.View(t.Context(), func(tx approval.Tx) error {
		var errs []error
		note := func(_ any, err error) { errs = append(errs, err) }
		for _, q := range []approval.RequestQuery{{}, {Status: approval.Pending}, {Status: approval.Denied},
			{Status: approval.Approved}, {Agent: "bot7"}, {Tool: "tool3"}, {Tool: "bank/pay"}, {Risk: approval.RiskHigh},
			{Person: "hana"}, {Text: "look"}, {CorrelationID: "c7"}, {Status: approval.Pending, Agent: "bot20"},
			{Since: now.Add(-time.Hour), Until: now}} {
			q.Limit, q.After, q.From = 50, id, strings.Repeat("0", 26)
			note(tx.Requests(q))
			q.Figures = true
			note(tx.Heads(q))
			note(tx.RequestReach(q, 100))
			q.Bytes = 1 << 20
			note(tx.Requests(q))
		}
		for _, q := range []approval.NotificationQuery{{}, {ApprovalID: id}, {BatchID: id}, {MessageID: "m7"},
			{Status: approval.Queued}, {Status: approval.Failed}, {Channel: "line"}, {Channel: "line", Recipient: "U55"},
			{Channel: "line", Recipient: "U55", Several: true}, {Kind: approval.KindRequest}} {
			q.Limit, q.After = 50, id
			note(tx.Notifications(q))
			note(tx.NotificationReach(q, 100))
		}
		for _, q := range []approval.EventQuery{{}, {Type: approval.EventDecision}, {Decision: "deny"}, {Agent: "bot7"},
			{Told: true, Agent: "bot7"}, {Actor: "hana"}, {ApprovalID: id}, {SessionID: "s7"}, {Ascending: true}} {
			q.Limit, q.AfterSeq, q.Before = 50, 20_000, 70_000
			note(tx.Events(q))
			note(tx.EventReach(q, 100))
		}
		note(tx.Grants(approval.GrantQuery{All: true, Limit: 50, After: id}))
		note(tx.Grants(approval.GrantQuery{Agent: "bot7", Limit: 50, After: id}))
		note(tx.Sendable(50))
		note(tx.NextSendable())
		note(tx.Feed("bot7", "", 50, 1<<20))
		note(tx.Feed("bot7", "s7", 50, 1<<20))
		note(tx.Pushes(now.Add(-time.Hour), "", 50))
		note(tx.EndingIn("77", id, 5))
		return errors.Join(errs...)
	}); err != nil {
		t.Fatal(err)
	}
	set(t, c, "jit = off")
	for sql, args := range seen.lists {
		p := planFor(t, c, sql, args)
		if strings.Contains(whole.ReplaceAllString(p, ""), "Seq Scan") || large.MatchString(p) {
			t.Errorf("%s\nfor %s", p, sql)
		}
	}
	if len(seen.lists) < 60 {
		t.Errorf("%d lists were looked at", len(seen.lists))
	}
}
