-- +goose Up

-- Times are text of 24 characters, 2006-01-02T15:04:05.000Z, so that their order is that of the text.
-- No default supplies one: the write transaction owns the time. An optional value is NULL until there
-- is one. Wide columns stand last, so that reading the others touches no overflow page. A constraint
-- names its words one by one, because SQLite makes a table for each IN list whenever it checks it.

CREATE TABLE approval_requests (
  id             TEXT PRIMARY KEY NOT NULL CHECK (length(id) = 26),
  agent          TEXT NOT NULL CHECK (agent <> ''),
  scope          TEXT NOT NULL DEFAULT '',
  server         TEXT NOT NULL DEFAULT '',
  tool_name      TEXT NOT NULL CHECK (tool_name <> ''),
  args_hash      TEXT NOT NULL CHECK (length(args_hash) = 64),
  status         TEXT NOT NULL CHECK (status = 'pending' OR status = 'approved' OR status = 'denied' OR status = 'expired' OR status = 'cancelled'),
  risk_level     TEXT NOT NULL CHECK (risk_level = 'low' OR risk_level = 'medium' OR risk_level = 'high' OR risk_level = 'critical'),
  requested_at   TEXT NOT NULL CHECK (length(requested_at) = 24),
  expires_at     TEXT NOT NULL CHECK (length(expires_at) = 24),
  resolved_at    TEXT CHECK (resolved_at IS NULL OR length(resolved_at) = 24),
  resolved_by    TEXT,
  resolved_via   TEXT CHECK (resolved_via IS NULL OR resolved_via = 'line' OR resolved_via = 'slack' OR resolved_via = 'web' OR resolved_via = 'api' OR resolved_via = 'cli' OR resolved_via = 'terminal' OR resolved_via = 'system'),
  resolved_seq   INTEGER,
  use_by         TEXT CHECK (use_by IS NULL OR length(use_by) = 24),
  consumed_at    TEXT CHECK (consumed_at IS NULL OR length(consumed_at) = 24),
  lapsed_at      TEXT CHECK (lapsed_at IS NULL OR length(lapsed_at) = 24),
  acked_at       TEXT CHECK (acked_at IS NULL OR length(acked_at) = 24),
  turn_id        TEXT,
  session_id     TEXT,
  batch_id       TEXT,
  rule           TEXT,
  policy_reason  TEXT NOT NULL,
  require_reason INTEGER NOT NULL DEFAULT 0 CHECK (require_reason = 0 OR require_reason = 1),
  ignored_args   TEXT,
  previous_use   TEXT,
  human_message  TEXT NOT NULL,
  resolve_reason TEXT,
  tool_args      TEXT NOT NULL,
  rationale      TEXT,
  preview        TEXT,
  reason_code    TEXT GENERATED ALWAYS AS (policy_reason) VIRTUAL,
  created_at     TEXT GENERATED ALWAYS AS (requested_at) VIRTUAL,

  CONSTRAINT pending_has_no_end CHECK (status <> 'pending' OR resolved_seq IS NULL
    AND coalesce(resolved_at, resolved_by, resolved_via, resolve_reason, consumed_at, lapsed_at, acked_at) IS NULL),
  CONSTRAINT end_is_whole CHECK (status = 'pending'
    OR resolved_at IS NOT NULL AND resolved_by IS NOT NULL AND resolved_via IS NOT NULL AND resolved_seq IS NOT NULL),
  CONSTRAINT approval_has_use_by CHECK ((status = 'approved') = (use_by IS NOT NULL)),
  CONSTRAINT only_approved_is_used CHECK (consumed_at IS NULL AND lapsed_at IS NULL OR status = 'approved'),
  CONSTRAINT used_or_lapsed CHECK (consumed_at IS NULL OR lapsed_at IS NULL),
  CONSTRAINT used_in_time CHECK (consumed_at IS NULL OR consumed_at < use_by)
) STRICT;

-- One live request for a key. It is the only index on hashes, and rows leave it when they are over.
CREATE UNIQUE INDEX approval_requests_live ON approval_requests (agent, scope, server, tool_name, args_hash)
  WHERE status = 'pending' OR status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL;
CREATE INDEX approval_requests_expires ON approval_requests (expires_at) WHERE status = 'pending';
CREATE INDEX approval_requests_use_by ON approval_requests (use_by)
  WHERE status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL;
CREATE INDEX approval_requests_feed ON approval_requests (agent, resolved_seq)
  WHERE resolved_seq IS NOT NULL AND acked_at IS NULL;
CREATE INDEX approval_requests_batch ON approval_requests (batch_id) WHERE batch_id IS NOT NULL;

CREATE TABLE request_sessions (
  request     TEXT NOT NULL REFERENCES approval_requests (id),
  session_id  TEXT NOT NULL CHECK (session_id <> ''),
  first_asked TEXT NOT NULL CHECK (length(first_asked) = 24),
  PRIMARY KEY (request, session_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE approval_notifications (
  id              TEXT PRIMARY KEY NOT NULL CHECK (length(id) = 26),
  approval_id     TEXT REFERENCES approval_requests (id), -- NULL: a reply that is about no request
  batch_id        TEXT,
  channel         TEXT NOT NULL CHECK (channel <> ''),
  recipient       TEXT NOT NULL,
  kind            TEXT NOT NULL CHECK (kind = 'request' OR kind = 'reminder' OR kind = 'outcome' OR kind = 'reply'),
  status          TEXT NOT NULL CHECK (status = 'queued' OR status = 'retrying' OR status = 'sent' OR status = 'delivered' OR status = 'failed' OR status = 'skipped'),
  attempt         INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
  next_attempt_at TEXT CHECK (next_attempt_at IS NULL OR length(next_attempt_at) = 24),
  lease_until     TEXT CHECK (lease_until IS NULL OR length(lease_until) = 24),
  created_at      TEXT NOT NULL CHECK (length(created_at) = 24),
  updated_at      TEXT NOT NULL CHECK (length(updated_at) = 24),
  first_try_at    TEXT CHECK (first_try_at IS NULL OR length(first_try_at) = 24),
  sent_at         TEXT CHECK (sent_at IS NULL OR length(sent_at) = 24),
  message_id      TEXT,
  http_status     INTEGER,
  target_id       TEXT,
  retry_key       TEXT,
  revived         INTEGER NOT NULL DEFAULT 0 CHECK (revived = 0 OR revived = 1),
  error           TEXT,
  reply_to        TEXT,
  cards           TEXT,
  text            TEXT,
  receipt         TEXT,
  body            BLOB,

  CONSTRAINT waiting_has_a_time CHECK (next_attempt_at IS NOT NULL OR status <> 'queued' AND status <> 'retrying'),
  CONSTRAINT only_a_reply_stands_alone CHECK (approval_id IS NOT NULL OR kind = 'reply')
) STRICT;

CREATE INDEX approval_notifications_sendable ON approval_notifications (next_attempt_at, lease_until)
  WHERE status IN ('queued', 'retrying');
CREATE INDEX approval_notifications_outcomes ON approval_notifications (target_id)
  WHERE kind = 'outcome' AND status IN ('queued', 'retrying');
CREATE INDEX approval_notifications_approval ON approval_notifications (approval_id) WHERE approval_id IS NOT NULL;
CREATE INDEX approval_notifications_batch ON approval_notifications (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX approval_notifications_message ON approval_notifications (message_id) WHERE message_id IS NOT NULL;

-- seq is the order of commits, and at never falls as seq grows: a time is found by bisection.
CREATE TABLE audit_events (
  seq            INTEGER PRIMARY KEY NOT NULL,
  id             TEXT NOT NULL CHECK (length(id) = 26),
  at             TEXT NOT NULL CHECK (length(at) = 24),
  event_type     TEXT NOT NULL CHECK (event_type <> ''),
  correlation_id TEXT,
  actor          TEXT,
  approval_id    TEXT,
  agent          TEXT,
  tool           TEXT,
  risk_level     TEXT,
  decision       TEXT,
  reason         TEXT,
  data           TEXT
) STRICT;

-- The many are calls and their requests; everything else is found by its type.
CREATE INDEX audit_events_type ON audit_events (event_type)
  WHERE event_type <> 'call_allowed' AND event_type <> 'approval_requested' AND event_type <> 'notification_sent';

CREATE TABLE webhook_events (
  id      TEXT PRIMARY KEY NOT NULL,
  seen_at TEXT NOT NULL CHECK (length(seen_at) = 24)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_events_seen ON webhook_events (seen_at);

-- What is kept of a key's past for a day. newest is the later of its two times, by which it is pruned.
CREATE TABLE recent_endings (
  agent     TEXT NOT NULL,
  scope     TEXT NOT NULL,
  server    TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  args_hash TEXT NOT NULL,
  denied_id TEXT,
  denied_at TEXT CHECK (denied_at IS NULL OR length(denied_at) = 24),
  last_use  TEXT,
  newest    TEXT NOT NULL CHECK (length(newest) = 24),
  PRIMARY KEY (agent, scope, server, tool_name, args_hash),
  CONSTRAINT denial_has_a_time CHECK ((denied_id IS NULL) = (denied_at IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX recent_endings_newest ON recent_endings (newest);

-- The last sequence number, time and id given out by a committed transaction: none goes back, even
-- when the rows that bore them are gone or the clock was set back.
CREATE TABLE store_state (
  one     INTEGER PRIMARY KEY NOT NULL CHECK (one = 1),
  seq     INTEGER NOT NULL,
  at      TEXT NOT NULL CHECK (length(at) = 24),
  last_id TEXT NOT NULL CHECK (length(last_id) = 26)
) STRICT;
INSERT INTO store_state (one, seq, at, last_id) VALUES (1, 0, '1970-01-01T00:00:00.000Z', '00000000000000000000000000');
