package store

import "countersign/store/sqlite3"

// The statements that are prepared once in each connection that runs them.
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
	insertRequest
	selectRequest
	selectLive
	selectHead
	selectBatch
	selectBatchHeads
	selectExpired
	selectUnused
	nextExpiry
	nextUseBy
	countPending
	countPendingOf
	resolve
	expire
	cancel
	consume
	consumeDispatched
	lapse
	ack
	addSession
	selectFeed
	selectSessionFeed
	addReason
	selectRecent
	putRecent
	deleteRecent
	appendEvent
	seqRange
	firstSight
	pruneSeen
	pruneEnded

	report
	setInputs
	selectUnderWay
	selectDispatched
	selectTasks
	selectTasksOf
	liveAgents
	selectLiveOf
	selectPin
	putPin

	insertNotification
	selectNotification
	updateNotification
	updateNarrow
	selectQueued
	selectSendable
	selectWaiting
	putAddress
	selectDead

	eventTime
)

var queries = []string{
	beginRead:  `BEGIN`,
	beginWrite: `BEGIN IMMEDIATE`,
	commit:     `COMMIT`,
	rollback:   `ROLLBACK`,
	savepoint:  `SAVEPOINT fn`,
	rollbackTo: `ROLLBACK TO fn`,
	release:    `RELEASE fn`,

	loadState: `SELECT seq, at, last_id, ahead_ms, set_back_at, set_back_ms, jumped_at, boot_id, boot_ms FROM store_state`,
	saveState: `UPDATE store_state SET seq = $1, at = $2, last_id = $3, ahead_ms = $4, set_back_at = $5, set_back_ms = $6, jumped_at = $7, boot_id = $8, boot_ms = $9`,
	// A row can be ahead of the state only if somebody else has written it.
	loadNewest: `SELECT (SELECT max(seq) FROM audit_events), (SELECT at FROM audit_events ORDER BY seq DESC LIMIT 1),
  (SELECT max(id) FROM approval_requests), (SELECT max(id) FROM approval_notifications)`,

	readNothing: `SELECT one FROM store_state`,
	insertRequest: `INSERT INTO approval_requests (` + requestColumns + `)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36)
  ON CONFLICT (agent, scope, server, tool_name, args_hash)
    WHERE status = 'pending' OR status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL DO NOTHING`,
	selectRequest: `SELECT ` + selectColumns + ` FROM approval_requests WHERE id = $1`,
	selectLive: `SELECT ` + selectColumns + ` FROM approval_requests
  WHERE agent = $1 AND scope = $2 AND server = $3 AND tool_name = $4 AND args_hash = $5 AND ` + isLive,
	selectHead:       `SELECT ` + headColumns + ` FROM approval_requests WHERE id = $1`,
	selectBatch:      `SELECT ` + selectColumns + ` FROM approval_requests WHERE batch_id = $1 ORDER BY id`,
	selectBatchHeads: `SELECT ` + headColumns + ` FROM approval_requests WHERE batch_id = $1 ORDER BY id`,
	selectExpired: `SELECT ` + headColumns + ` FROM approval_requests
  WHERE status = 'pending' AND expires_at <= $1 ORDER BY expires_at`,
	selectUnused: `SELECT ` + headColumns + ` FROM approval_requests
  WHERE status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL AND use_by <= $1 ORDER BY use_by`,
	nextExpiry: `SELECT min(expires_at) FROM approval_requests WHERE status = 'pending'`,
	nextUseBy: `SELECT min(use_by) FROM approval_requests
  WHERE status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL`,
	countPending:   `SELECT count(*) FROM approval_requests WHERE status = 'pending'`,
	countPendingOf: `SELECT count(*) FROM approval_requests WHERE agent = $1 AND ` + isLive + ` AND status = 'pending'`,
	resolve: `UPDATE approval_requests
  SET status = $1, resolved_at = $2, resolved_by = $3, resolved_via = $4, resolve_reason = $5, resolved_seq = $6, use_by = $7, acked_at = NULL
  WHERE id = $8 AND status = 'pending' AND expires_at > $2`,
	expire: `UPDATE approval_requests
  SET status = $1, resolved_at = $2, resolved_by = $3, resolved_via = $4, resolve_reason = $5, resolved_seq = $6, use_by = $7, acked_at = NULL
  WHERE id = $8 AND status = 'pending' AND expires_at <= $2`,
	cancel: `UPDATE approval_requests
  SET status = $1, resolved_at = $2, resolved_by = $3, resolved_via = $4, resolve_reason = $5, resolved_seq = $6, use_by = $7, acked_at = NULL
  WHERE id = $8 AND ` + isLive,
	consume: `UPDATE approval_requests SET consumed_at = $1, acked_at = $1
  WHERE id = $2 AND status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL AND use_by > $1`,
	consumeDispatched: `UPDATE approval_requests SET consumed_at = $1, acked_at = $1, dispatched_at = $1
  WHERE id = $2 AND status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL AND use_by > $1`,
	lapse: `UPDATE approval_requests SET lapsed_at = use_by, resolved_seq = $1, acked_at = NULL
  WHERE id = $2 AND status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL AND use_by <= $3`,
	ack: `UPDATE approval_requests SET acked_at = $1
  WHERE id = $2 AND agent = $3 AND resolved_seq IS NOT NULL AND acked_at IS NULL`,
	addSession: `INSERT INTO request_sessions (request, session_id, first_asked) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
	selectFeed: `SELECT ` + selectColumns + ` FROM approval_requests
  WHERE agent = $1 AND resolved_seq IS NOT NULL AND acked_at IS NULL ORDER BY resolved_seq`,
	selectSessionFeed: `SELECT ` + selectColumns + ` FROM approval_requests
  WHERE agent = $1 AND resolved_seq IS NOT NULL AND acked_at IS NULL
    AND EXISTS (SELECT 1 FROM request_sessions s WHERE s.request = approval_requests.id AND s.session_id = $2)
  ORDER BY resolved_seq`,
	addReason: `UPDATE approval_requests SET resolve_reason = $1, resolved_seq = $2, acked_at = NULL
  WHERE id = $3 AND status = 'denied' AND resolved_by = $4 AND resolve_reason IS NULL`,
	selectRecent: `SELECT denied_id, denied_at, last_use FROM recent_endings
  WHERE agent = $1 AND scope = $2 AND server = $3 AND tool_name = $4 AND args_hash = $5`,
	putRecent: `INSERT INTO recent_endings (agent, scope, server, tool_name, args_hash, denied_id, denied_at, last_use, newest)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
  ON CONFLICT (agent, scope, server, tool_name, args_hash) DO UPDATE
    SET denied_id = excluded.denied_id, denied_at = excluded.denied_at, last_use = excluded.last_use, newest = excluded.newest`,
	deleteRecent: `DELETE FROM recent_endings WHERE agent = $1 AND scope = $2 AND server = $3 AND tool_name = $4 AND args_hash = $5`,
	appendEvent: `INSERT INTO audit_events (` + eventColumns + `)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
	seqRange:   `SELECT (SELECT min(seq) FROM audit_events), (SELECT max(seq) FROM audit_events)`,
	firstSight: `INSERT INTO webhook_events (id, seen_at) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
	pruneSeen:  `DELETE FROM webhook_events WHERE id IN (SELECT id FROM webhook_events WHERE seen_at < $1 LIMIT $2)`,
	pruneEnded: `DELETE FROM recent_endings WHERE (agent, scope, server, tool_name, args_hash) IN
  (SELECT agent, scope, server, tool_name, args_hash FROM recent_endings WHERE newest < $1 LIMIT $2)`,

	report: `UPDATE approval_requests SET outcome = $1
  WHERE id = $2 AND dispatched_at IS NOT NULL AND (outcome IS NULL OR outcome = 'unknown' AND $1 <> 'unknown')`,
	setInputs: `UPDATE approval_requests SET inputs = $1 WHERE id = $2`,
	selectUnderWay: `SELECT ` + headColumns + `, dispatched_at FROM approval_requests
  WHERE dispatched_at IS NOT NULL AND outcome IS NULL ORDER BY dispatched_at`,
	selectDispatched: `SELECT dispatched_at, outcome FROM approval_requests WHERE id = $1`,
	selectTasks:      `SELECT ` + selectColumns + ` FROM approval_requests WHERE ` + isLive + ` AND task = 1`,
	selectTasksOf:    `SELECT ` + selectColumns + ` FROM approval_requests WHERE agent = $1 AND ` + isLive + ` AND task = 1`,
	liveAgents:       `SELECT DISTINCT agent FROM approval_requests WHERE ` + isLive,
	selectLiveOf:     `SELECT ` + headColumns + ` FROM approval_requests WHERE agent = $1 AND ` + isLive,
	selectPin: `SELECT agent, server, tool_name, digest, seen_at, accepted_by FROM tool_pins
  WHERE agent = $1 AND server = $2 AND tool_name = $3`,
	putPin: `INSERT INTO tool_pins (agent, server, tool_name, digest, seen_at, accepted_by) VALUES ($1, $2, $3, $4, $5, $6)
  ON CONFLICT (agent, server, tool_name) DO UPDATE SET digest = excluded.digest, seen_at = excluded.seen_at, accepted_by = excluded.accepted_by`,

	insertNotification: `INSERT INTO approval_notifications (` + notificationColumns + `)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28)`,
	selectNotification: `SELECT ` + notificationColumns + ` FROM approval_notifications WHERE id = $1`,
	updateNotification: `UPDATE approval_notifications SET status = $1, attempt = $2,
  next_attempt_at = $3, lease_until = $4, updated_at = $5, first_try_at = $6, sent_at = $7, message_id = $8, http_status = $9, target_id = $10,
  retry_key = $11, revived = $12, error = $13, reply_to = $14, cards = $15, text = $16, note = $17, part = $18, more = $19, receipt = $20, body = $21
  WHERE id = $22 AND status = $23 AND attempt = $24`,
	updateNarrow: `UPDATE approval_notifications SET status = $1, attempt = $2,
  next_attempt_at = $3, lease_until = $4, updated_at = $5, first_try_at = $6, sent_at = $7, message_id = $8, http_status = $9, target_id = $10,
  retry_key = $11, revived = $12, error = $13, reply_to = $14, cards = $15, text = $16, note = $17, part = $18, more = $19, receipt = $20
  WHERE id = $21 AND status = $22 AND attempt = $23`,
	selectQueued: `SELECT ` + waitingColumns + ` FROM approval_notifications WHERE id = $1`,
	selectSendable: `SELECT ` + waitingColumns + ` FROM approval_notifications AS n
  WHERE status IN ('queued', 'retrying') AND next_attempt_at <= $1 AND (lease_until IS NULL OR lease_until <= $1)
    AND (kind <> 'outcome' OR target_id IS NULL OR NOT EXISTS (
      SELECT 1 FROM approval_notifications AS other
      WHERE other.target_id = n.target_id AND other.kind = 'outcome' AND other.status IN ('queued', 'retrying') AND other.lease_until > $1))
  ORDER BY next_attempt_at, id`,
	selectWaiting: `SELECT next_attempt_at, lease_until FROM approval_notifications
  WHERE status IN ('queued', 'retrying') ORDER BY next_attempt_at`,
	putAddress: `INSERT INTO addresses (channel, recipient, dead, since) VALUES ($1, $2, $3, $4)
  ON CONFLICT (channel, recipient) DO UPDATE SET dead = excluded.dead, since = excluded.since WHERE addresses.since <= excluded.since`,
	selectDead: `SELECT 1 FROM addresses WHERE channel = $1 AND recipient = $2 AND dead = 1`,

	eventTime: `SELECT seq, at FROM audit_events WHERE seq >= $1 ORDER BY seq LIMIT 1`,
}
