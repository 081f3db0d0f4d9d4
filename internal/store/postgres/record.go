package postgres

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

	"countersign/approval"
)

// Allowed calls are put on record several at a time, by one statement that looks itself at what must hold of each. It
// stands behind the lock that a freeze takes alone, so that none is recorded once a freeze is committed. The commit
// does not wait for the disk: what a crash of the database may take is what was recorded in its last moment, and of
// that nobody was told a seq, since the commit that numbers it does wait.

const (
	// recordsAtOnce is how many calls are recorded by one statement at most.
	recordsAtOnce = 128
	// recordsWaiting is how many may wait for that; a call beyond has a transaction of its own.
	recordsWaiting = 1024
	// recordWithin is for how long a caller waits before it goes on with a transaction.
	recordWithin = 2 * time.Second
)

// recordLimits are those of a record: it does not wait for what is about the whole store, but has a transaction do
// that.
const recordLimits = `SELECT set_config('jit', 'off', true), set_config('statement_timeout', '2s', true),
  set_config('lock_timeout', '50ms', true), set_config('synchronous_commit', 'off', true)`

// recordEvents returns the ids of those that it has recorded. A tool's digest holds as [approval.ToolPin.Holds] says.
const recordEvents = `INSERT INTO audit_inbox (id, at, event_type, correlation_id, actor, approval_id, agent, tool,
  risk_level, decision, reason, data)
SELECT c.id, now.at, c.event_type, c.correlation_id, c.actor, c.approval_id, c.agent, c.tool, c.risk_level, c.decision,
  c.reason, c.data
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::bigint[])
  AS c (id, event_type, correlation_id, actor, approval_id, agent, tool, risk_level, decision, reason, data,
    caller, owner, server, tool_name, digest, use_within_ms),
  (SELECT NOW_SQL AS at FROM store_state WHERE lineage = LINEAGE_SQL AND IS_OPEN) AS now
WHERE NOT EXISTS (SELECT 1 FROM epochs AS e WHERE e.frozen = 1 AND e.agent IN ('', c.caller))
  AND (c.digest = '' OR EXISTS (SELECT 1 FROM tool_pins AS p
    WHERE p.agent = c.owner AND p.server = c.server AND p.tool_name = c.tool_name
      AND (p.digest = c.digest OR c.digest = ANY (string_to_array(p.earlier, ' ')))
      AND (p.accepted_by IS NULL OR now.at - p.seen_at > c.use_within_ms * interval '1 millisecond')))
RETURNING id`

// recording is an allowed call on its way.
type recording struct {
	call  approval.AllowedCall
	event approval.Event
	taken atomic.Bool // to be recorded, or given up
	done  chan bool   // has room for one
}

// RecordAllowed implements [approval.EventRecorder], but that it waits for the database. Where the connection is lost
// in the moment of the commit it reports false, and the call may be on record once more.
func (d *DB) RecordAllowed(c approval.AllowedCall, e approval.Event) bool {
	ctx, cancel := context.WithTimeout(context.Background(), recordWithin)
	defer cancel()
	if d.begin(ctx) != nil {
		return false
	}
	defer d.end()
	r := &recording{call: c, event: e, done: make(chan bool, 1)}
	select {
	case d.records <- r:
	default:
		return false
	}
	select {
	case recorded := <-r.done:
		return recorded
	case <-ctx.Done():
	}
	return !r.taken.CompareAndSwap(false, true) && <-r.done // what has begun has an end
}

// recordLoop records what waits for it, all that there is at once.
func (d *DB) recordLoop() {
	for r := range d.records {
		var group []*recording
		for ok := true; ok; {
			if r.taken.CompareAndSwap(false, true) {
				group = append(group, r)
			}
			if ok = len(group) < recordsAtOnce; ok {
				select {
				case r, ok = <-d.records:
				default:
					ok = false
				}
			}
		}
		if len(group) > 0 {
			d.recordGroup(group)
		}
	}
}

func (d *DB) recordGroup(group []*recording) {
	ctx, cancel := context.WithTimeout(context.Background(), recordWithin)
	defer cancel()
	recorded, err := d.recordAll(ctx, group)
	if err != nil {
		recorded = nil
	}
	var told approval.Commit
	for _, r := range group {
		if recorded[r.event.ID] {
			told.Events = append(told.Events, r.event)
		}
	}
	if len(told.Events) > 0 {
		d.committed(&told)
	}
	for _, r := range group {
		r.done <- recorded[r.event.ID]
	}
}

// recordAll returns the ids of the events that it has recorded.
func (d *DB) recordAll(ctx context.Context, group []*recording) (map[string]bool, error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	var b pgx.Batch
	b.Queue("BEGIN")
	b.Queue(recordLimits)
	b.Queue(`SELECT pg_advisory_xact_lock_shared($1)`, everything)
	recorded := map[string]bool{}
	sql := strings.NewReplacer("NOW_SQL", d.clock.nowSQL(), "LINEAGE_SQL", d.lineage, "IS_OPEN", isOpen).
		Replace(recordEvents)
	b.Queue(sql, d.recordArgs(group)...).Query(func(rows pgx.Rows) error {
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, id := range ids {
			recorded[id] = true
		}
		return err
	})
	b.Queue("COMMIT")
	return recorded, conn.SendBatch(ctx, &b).Close()
}

// recordArgs are the values of the statement, column by column. Events get their ids and, as it is known here, their
// time.
func (d *DB) recordArgs(group []*recording) []any {
	texts := make([][]*string, 16)
	within := make([]int64, len(group))
	now := d.Now()
	for i, r := range group {
		e, c := &r.event, &r.call
		e.ID, e.Seq, e.At = d.giveID(ulid.ULID{}, now), 0, now
		for column, v := range []string{e.ID, string(e.Type), e.CorrelationID, e.Actor, e.ApprovalID, e.Agent, e.Tool,
			string(e.Risk), e.Decision, e.Reason, string(e.Data)} {
			texts[column] = append(texts[column], nullText(v))
		}
		for column, v := range []string{c.Agent, c.Owner, c.Server, c.Tool, c.Digest} {
			v = encode(v)
			texts[11+column] = append(texts[11+column], &v)
		}
		within[i] = c.UseWithin.Milliseconds()
	}
	args := make([]any, 0, len(texts)+1)
	for _, column := range texts {
		args = append(args, column)
	}
	return append(args, within)
}

// nullText is a text as it is written, NULL for "".
func nullText(v string) *string {
	if v == "" {
		return nil
	}
	v = encode(v)
	return &v
}
