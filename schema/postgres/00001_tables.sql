-- +goose Up

-- The tables of schema/sqlite as they are now, by the same names. Text has the order of its bytes, as there; a time is a
-- timestamptz(3); a yes or no is 1 or 0. Bytes that no text can hold here are written in another way: see the store.
-- No default supplies a time: the write transaction owns it.

CREATE TABLE approval_requests (
  id             text COLLATE "C" PRIMARY KEY CHECK (length(id) = 26),
  agent          text COLLATE "C" NOT NULL CHECK (agent <> ''),
  scope          text COLLATE "C" NOT NULL DEFAULT '',
  server         text COLLATE "C" NOT NULL DEFAULT '',
  tool_name      text COLLATE "C" NOT NULL CHECK (tool_name <> ''),
  args_hash      text COLLATE "C" NOT NULL CHECK (length(args_hash) = 64),
  status         text COLLATE "C" NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired', 'cancelled')),
  risk_level     text COLLATE "C" NOT NULL CHECK (risk_level IN ('low', 'medium', 'high', 'critical')),
  requested_at   timestamptz(3) NOT NULL,
  expires_at     timestamptz(3) NOT NULL,
  resolved_at    timestamptz(3),
  resolved_by    text COLLATE "C",
  resolved_via   text COLLATE "C" CHECK (resolved_via <> ''),
  resolved_seq   bigint,
  use_by         timestamptz(3),
  consumed_at    timestamptz(3),
  lapsed_at      timestamptz(3),
  acked_at       timestamptz(3),
  turn_id        text COLLATE "C",
  session_id     text COLLATE "C",
  batch_id       text COLLATE "C",
  rule           text COLLATE "C",
  policy_reason  text COLLATE "C" NOT NULL,
  require_reason smallint NOT NULL DEFAULT 0 CHECK (require_reason IN (0, 1)),
  ignored_args   text,
  previous_use   text,
  human_message  text COLLATE "C" NOT NULL,
  resolve_reason text COLLATE "C",
  tool_args      text NOT NULL,
  rationale      text,
  preview        text,
  tool_digest    text COLLATE "C" CHECK (length(tool_digest) = 64),
  task           smallint NOT NULL DEFAULT 0 CHECK (task IN (0, 1)),
  dispatched_at  timestamptz(3),
  outcome        text COLLATE "C" CHECK (outcome IN ('succeeded', 'failed', 'unknown')),
  tool_seen      smallint NOT NULL DEFAULT 0 CHECK (tool_seen IN (0, 1)),
  inputs         text,
  need           text,
  stage          integer NOT NULL DEFAULT 0 CHECK (stage >= 0),
  policy_digest  text COLLATE "C",
  rule_digest    text COLLATE "C",
  correlation_id text COLLATE "C",
  replaces       text COLLATE "C" CHECK (length(replaces) = 26),
  who            text,
  end_code       text COLLATE "C",
  replaced_by    text COLLATE "C" CHECK (length(replaced_by) = 26),
  extended_at    timestamptz(3),
  said_before    text,
  annotations    text,
  sentences      text,
  preview_from   text,
  method         text COLLATE "C" NOT NULL DEFAULT '',
  returned       integer NOT NULL DEFAULT 0 CHECK (returned >= 0),
  runner         text COLLATE "C", -- the program that has sent the call on, or is to run it as a task

  CONSTRAINT pending_has_no_end CHECK (status <> 'pending'
    OR num_nonnulls(resolved_at, resolved_by, resolved_via, resolved_seq, resolve_reason, consumed_at, lapsed_at, acked_at,
      who, end_code) = 0),
  CONSTRAINT end_is_whole CHECK (status = 'pending'
    OR resolved_at IS NOT NULL AND resolved_by IS NOT NULL AND resolved_via IS NOT NULL AND resolved_seq IS NOT NULL),
  CONSTRAINT only_a_denial_is_replaced CHECK (replaced_by IS NULL OR status = 'denied'),
  CONSTRAINT approval_has_use_by CHECK ((status = 'approved') = (use_by IS NOT NULL)),
  CONSTRAINT only_approved_is_used CHECK (consumed_at IS NULL AND lapsed_at IS NULL OR status = 'approved'),
  CONSTRAINT used_or_lapsed CHECK (consumed_at IS NULL OR lapsed_at IS NULL),
  CONSTRAINT used_in_time CHECK (consumed_at < use_by),
  CONSTRAINT dispatched_when_used CHECK (dispatched_at IS NULL OR consumed_at IS NOT NULL AND dispatched_at = consumed_at),
  CONSTRAINT only_dispatched_has_outcome CHECK (outcome IS NULL OR dispatched_at IS NOT NULL)
);

-- One live request for a key, whoever writes beside: it is what holds where a lock does not.
CREATE UNIQUE INDEX approval_requests_live ON approval_requests (agent, scope, server, tool_name, args_hash, method)
  WHERE status = 'pending' OR status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL;
CREATE INDEX approval_requests_expires ON approval_requests (expires_at) WHERE status = 'pending';
CREATE INDEX approval_requests_use_by ON approval_requests (use_by)
  WHERE status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL;
CREATE INDEX approval_requests_feed ON approval_requests (agent, resolved_seq)
  WHERE resolved_seq IS NOT NULL AND acked_at IS NULL;
CREATE INDEX approval_requests_batch ON approval_requests (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX approval_requests_dispatched ON approval_requests (dispatched_at)
  WHERE dispatched_at IS NOT NULL AND outcome IS NULL;
CREATE INDEX approval_requests_correlation ON approval_requests (correlation_id, id) WHERE correlation_id IS NOT NULL;
CREATE INDEX approval_requests_pending ON approval_requests (id, agent) WHERE status = 'pending';
CREATE INDEX approval_requests_ended ON approval_requests (status, id) WHERE status <> 'approved' AND status <> 'pending';

-- The numbers by which an agent's feed is in order. A transaction takes a thousand, of which it gives out what it ends.
CREATE SEQUENCE request_endings INCREMENT BY 1000;

CREATE TABLE request_sessions (
  request     text COLLATE "C" NOT NULL REFERENCES approval_requests (id),
  session_id  text COLLATE "C" NOT NULL CHECK (session_id <> ''),
  first_asked timestamptz(3) NOT NULL,
  PRIMARY KEY (request, session_id)
);

CREATE TABLE approval_votes (
  request   text COLLATE "C" NOT NULL REFERENCES approval_requests (id),
  person    text COLLATE "C" NOT NULL CHECK (person <> ''),
  nth       integer NOT NULL CHECK (nth >= 0),
  stage     integer NOT NULL CHECK (stage >= 0),
  voted_for text COLLATE "C" CHECK (voted_for <> '' AND voted_for <> person),
  decision  text COLLATE "C" NOT NULL CHECK (decision IN ('approve', 'deny')),
  reason    text,
  at        timestamptz(3) NOT NULL,
  via       text COLLATE "C" NOT NULL CHECK (via <> ''),
  step_up   smallint NOT NULL DEFAULT 0,
  confirmed smallint NOT NULL DEFAULT 0,
  PRIMARY KEY (request, person)
);

CREATE TABLE approval_notifications (
  id              text COLLATE "C" PRIMARY KEY CHECK (length(id) = 26),
  approval_id     text COLLATE "C" REFERENCES approval_requests (id), -- NULL: a reply that is about no request
  batch_id        text COLLATE "C",
  channel         text COLLATE "C" NOT NULL CHECK (channel <> ''),
  recipient       text COLLATE "C" NOT NULL,
  kind            text COLLATE "C" NOT NULL CHECK (kind IN ('request', 'reminder', 'outcome', 'reply')),
  status          text COLLATE "C" NOT NULL
    CHECK (status IN ('queued', 'retrying', 'sent', 'delivered', 'failed', 'skipped')),
  attempt         integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
  next_attempt_at timestamptz(3),
  lease_until     timestamptz(3),
  created_at      timestamptz(3) NOT NULL,
  updated_at      timestamptz(3) NOT NULL,
  first_try_at    timestamptz(3),
  sent_at         timestamptz(3),
  message_id      text COLLATE "C",
  http_status     integer,
  target_id       text COLLATE "C",
  retry_key       text COLLATE "C",
  revived         smallint NOT NULL DEFAULT 0 CHECK (revived IN (0, 1)),
  error           text,
  reply_to        text,
  cards           text,
  text            text,
  note            text,
  part            integer NOT NULL DEFAULT 0 CHECK (part >= 0),
  more            smallint NOT NULL DEFAULT 0 CHECK (more IN (0, 1)),
  after_version   integer NOT NULL DEFAULT 0,
  shown           integer NOT NULL DEFAULT 0,
  changes         integer NOT NULL DEFAULT 0,
  drawn           integer NOT NULL DEFAULT 0,
  silent          smallint NOT NULL DEFAULT 0,
  held_for        text COLLATE "C",
  language        text COLLATE "C",
  turn_at         timestamptz(3),
  receipt         text,
  body            bytea,

  CONSTRAINT waiting_has_a_time CHECK (next_attempt_at IS NOT NULL OR status <> 'queued' AND status <> 'retrying'),
  CONSTRAINT only_a_reply_stands_alone CHECK (approval_id IS NOT NULL OR kind = 'reply')
);

CREATE INDEX approval_notifications_sendable ON approval_notifications (next_attempt_at, id)
  WHERE status IN ('queued', 'retrying');
CREATE INDEX approval_notifications_outcomes ON approval_notifications (target_id)
  WHERE kind = 'outcome' AND status IN ('queued', 'retrying');
CREATE INDEX approval_notifications_approval ON approval_notifications (approval_id) WHERE approval_id IS NOT NULL;
CREATE INDEX approval_notifications_batch ON approval_notifications (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX approval_notifications_message ON approval_notifications (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX approval_notifications_several ON approval_notifications (channel, recipient, id)
  WHERE kind = 'reply' OR batch_id IS NOT NULL;
CREATE INDEX approval_notifications_held ON approval_notifications (held_for, id)
  WHERE held_for IS NOT NULL AND status = 'queued';
CREATE INDEX approval_notifications_unsent ON approval_notifications (status, id) WHERE status IN ('failed', 'skipped');

CREATE TABLE reminded (
  request      text COLLATE "C" NOT NULL,
  notification text COLLATE "C" NOT NULL,
  at           timestamptz(3) NOT NULL,
  PRIMARY KEY (request, notification)
);

CREATE TABLE addresses (
  channel   text COLLATE "C" NOT NULL CHECK (channel <> ''),
  recipient text COLLATE "C" NOT NULL CHECK (recipient <> ''),
  dead      smallint NOT NULL CHECK (dead IN (0, 1)),
  since     timestamptz(3) NOT NULL,
  PRIMARY KEY (channel, recipient)
);

CREATE TABLE cards (
  id         text COLLATE "C" PRIMARY KEY CHECK (length(id) = 26),
  agent      text COLLATE "C" NOT NULL CHECK (agent <> ''),
  scope      text COLLATE "C" NOT NULL,
  session    text COLLATE "C" NOT NULL,
  turn       text COLLATE "C" NOT NULL,
  grouping   text COLLATE "C" NOT NULL CHECK (grouping IN ('turn', 'run', 'call')),
  risk_level text COLLATE "C" NOT NULL,
  opened_at  timestamptz(3) NOT NULL,
  leaves_at  timestamptz(3) NOT NULL,
  join_by    timestamptz(3) NOT NULL,
  items      text NOT NULL,
  shown      integer NOT NULL CHECK (shown >= 0)
);
CREATE INDEX cards_newest ON cards (agent, session, turn, scope, grouping, id);

CREATE TABLE delegations (
  id          text COLLATE "C" PRIMARY KEY CHECK (length(id) = 26),
  delegator   text COLLATE "C" NOT NULL CHECK (delegator <> ''),
  delegate    text COLLATE "C" NOT NULL CHECK (delegate <> '' AND delegate <> delegator),
  from_at     timestamptz(3) NOT NULL,
  until_at    timestamptz(3) NOT NULL CHECK (until_at >= from_at),
  rule        text COLLATE "C",
  rule_digest text COLLATE "C",
  created_at  timestamptz(3) NOT NULL,
  created_by  text COLLATE "C" NOT NULL CHECK (created_by <> ''),
  ended_at    timestamptz(3),
  ended_by    text COLLATE "C",
  CONSTRAINT end_is_whole CHECK ((ended_at IS NULL) = (ended_by IS NULL))
);
CREATE INDEX delegations_until ON delegations (until_at) WHERE ended_at IS NULL;

CREATE TABLE epochs (
  agent     text COLLATE "C" PRIMARY KEY,
  id        text COLLATE "C" NOT NULL CHECK (length(id) = 26),
  frozen    smallint NOT NULL CHECK (frozen IN (0, 1)),
  frozen_at timestamptz(3),
  frozen_by text COLLATE "C",
  via       text COLLATE "C",
  reason    text,
  CONSTRAINT freeze_is_whole CHECK (frozen = 0 OR frozen_at IS NOT NULL AND frozen_by IS NOT NULL)
);

CREATE TABLE grants (
  id           text COLLATE "C" PRIMARY KEY CHECK (length(id) = 26),
  deny         smallint NOT NULL CHECK (deny IN (0, 1)),
  agent        text COLLATE "C" NOT NULL CHECK (agent <> ''),
  scope        text COLLATE "C" NOT NULL,
  server       text COLLATE "C" NOT NULL,
  tool_name    text COLLATE "C" NOT NULL CHECK (tool_name <> ''),
  args_hash    text COLLATE "C" NOT NULL CHECK (length(args_hash) = 64),
  ignored_args text,
  terms        text,
  session_id   text COLLATE "C",
  request      text COLLATE "C" NOT NULL,
  rule         text COLLATE "C",
  rule_digest  text COLLATE "C",
  risk_level   text COLLATE "C" NOT NULL,
  tool_digest  text COLLATE "C",
  tool_seen    smallint NOT NULL CHECK (tool_seen IN (0, 1)),
  made_by      text COLLATE "C" NOT NULL CHECK (made_by <> ''),
  made_for     text COLLATE "C",
  who          text,
  via          text COLLATE "C" NOT NULL CHECK (via <> ''),
  reason       text,
  made_at      timestamptz(3) NOT NULL,
  expires_at   timestamptz(3) NOT NULL CHECK (expires_at > made_at),
  uses         integer NOT NULL CHECK (uses >= 0),
  method       text COLLATE "C" NOT NULL DEFAULT '',
  used         integer NOT NULL CHECK (used >= 0),
  unknown      integer NOT NULL CHECK (unknown >= 0),
  suspended_at timestamptz(3),
  spent        text,
  ended_at     timestamptz(3),
  ended_by     text COLLATE "C",
  end_code     text COLLATE "C",
  args         text NOT NULL,
  CONSTRAINT no_more_than_it_has CHECK (uses = 0 OR used <= uses),
  CONSTRAINT end_is_whole CHECK ((ended_at IS NULL) = (end_code IS NULL) AND (ended_at IS NULL) = (ended_by IS NULL))
);
CREATE INDEX grants_of ON grants (agent, scope, server, tool_name, deny, id) WHERE ended_at IS NULL;
CREATE INDEX grants_live ON grants (id) WHERE ended_at IS NULL;
CREATE INDEX grants_due ON grants (expires_at) WHERE ended_at IS NULL;
CREATE INDEX grants_agent ON grants (agent, id);
CREATE INDEX grants_request ON grants (request, id);

CREATE TABLE grant_uses (
  id             text COLLATE "C" PRIMARY KEY CHECK (length(id) = 26),
  grant_id       text COLLATE "C" NOT NULL REFERENCES grants (id),
  args_hash      text COLLATE "C" NOT NULL,
  session_id     text COLLATE "C",
  correlation_id text COLLATE "C",
  at             timestamptz(3) NOT NULL,
  dispatched_at  timestamptz(3),
  outcome        text COLLATE "C" CHECK (outcome IN ('succeeded', 'failed', 'unknown')),
  runner         text COLLATE "C",
  CONSTRAINT only_what_was_sent_has_an_outcome CHECK (outcome IS NULL OR dispatched_at IS NOT NULL)
);
CREATE INDEX grant_uses_running ON grant_uses (dispatched_at) WHERE dispatched_at IS NOT NULL AND outcome IS NULL;

CREATE TABLE said (
  agent     text COLLATE "C" NOT NULL,
  server    text COLLATE "C" NOT NULL,
  tool_name text COLLATE "C" NOT NULL,
  request   text COLLATE "C" NOT NULL,
  approved  smallint NOT NULL CHECK (approved IN (0, 1)),
  said_by   text COLLATE "C" NOT NULL,
  at        timestamptz(3) NOT NULL,
  reason    text,
  PRIMARY KEY (agent, server, tool_name)
);

CREATE TABLE recent_endings (
  agent     text COLLATE "C" NOT NULL,
  scope     text COLLATE "C" NOT NULL,
  server    text COLLATE "C" NOT NULL,
  tool_name text COLLATE "C" NOT NULL,
  args_hash text COLLATE "C" NOT NULL,
  method    text COLLATE "C" NOT NULL,
  denied_id text COLLATE "C",
  denied_at timestamptz(3),
  last_use  text,
  newest    timestamptz(3) NOT NULL,
  PRIMARY KEY (agent, scope, server, tool_name, args_hash, method),
  CONSTRAINT denial_has_a_time CHECK ((denied_id IS NULL) = (denied_at IS NULL))
);
CREATE INDEX recent_endings_newest ON recent_endings (newest);

CREATE TABLE tool_pins (
  agent       text COLLATE "C" NOT NULL,
  server      text COLLATE "C" NOT NULL,
  tool_name   text COLLATE "C" NOT NULL CHECK (tool_name <> ''),
  digest      text COLLATE "C" NOT NULL CHECK (length(digest) = 64),
  seen_at     timestamptz(3) NOT NULL,
  accepted_by text COLLATE "C",
  earlier     text COLLATE "C" CHECK (length(earlier) <= 7 * 65 - 1),
  PRIMARY KEY (agent, server, tool_name)
);

CREATE TABLE policies (
  digest text COLLATE "C" PRIMARY KEY CHECK (digest <> ''),
  source text NOT NULL CHECK (source <> '')
);

CREATE TABLE webhook_events (
  id      text COLLATE "C" PRIMARY KEY,
  seen_at timestamptz(3) NOT NULL
);
CREATE INDEX webhook_events_seen ON webhook_events (seen_at);

CREATE TABLE signin_links (
  digest     text COLLATE "C" PRIMARY KEY CHECK (length(digest) = 64),
  id         text COLLATE "C" NOT NULL UNIQUE CHECK (length(id) = 26),
  person     text COLLATE "C" NOT NULL CHECK (person <> ''),
  via        text COLLATE "C" NOT NULL CHECK (via <> ''),
  made_on    text NOT NULL CHECK (made_on <> ''),
  made_at    timestamptz(3) NOT NULL,
  expires_at timestamptz(3) NOT NULL CHECK (expires_at > made_at),
  opener     text,
  ended_at   timestamptz(3) CHECK (ended_at < expires_at),
  end_code   text COLLATE "C",
  CONSTRAINT end_is_whole CHECK ((ended_at IS NULL) = (end_code IS NULL))
);
CREATE INDEX signin_links_person ON signin_links (person, id);
CREATE INDEX signin_links_due ON signin_links (expires_at);

CREATE TABLE signin_sessions (
  digest     text COLLATE "C" PRIMARY KEY CHECK (length(digest) = 64),
  id         text COLLATE "C" NOT NULL UNIQUE CHECK (length(id) = 26),
  person     text COLLATE "C" NOT NULL CHECK (person <> ''),
  method     text COLLATE "C" NOT NULL CHECK (method <> ''),
  origin     text NOT NULL,
  user_agent text NOT NULL,
  created_at timestamptz(3) NOT NULL,
  seen_at    timestamptz(3) NOT NULL CHECK (seen_at >= created_at),
  expires_at timestamptz(3) NOT NULL CHECK (expires_at > created_at),
  opener     text
);
CREATE INDEX signin_sessions_person ON signin_sessions (person, id);
CREATE INDEX signin_sessions_due ON signin_sessions (expires_at);
CREATE INDEX signin_sessions_idle ON signin_sessions (seen_at);

CREATE TABLE passkey_owners (
  person text COLLATE "C" PRIMARY KEY CHECK (person <> ''),
  handle text COLLATE "C" NOT NULL UNIQUE CHECK (length(handle) = 86)
);

CREATE TABLE passkeys (
  id              text COLLATE "C" PRIMARY KEY CHECK (length(id) = 26),
  credential      text COLLATE "C" NOT NULL UNIQUE CHECK (credential <> ''),
  person          text COLLATE "C" NOT NULL REFERENCES passkey_owners (person),
  name            text NOT NULL CHECK (name <> ''),
  public_key      text NOT NULL CHECK (public_key <> ''),
  rp_id           text NOT NULL CHECK (rp_id <> ''),
  aaguid          text NOT NULL,
  transports      text NOT NULL,
  added_at        timestamptz(3) NOT NULL,
  sign_count      bigint NOT NULL CHECK (sign_count >= 0),
  backup_eligible smallint NOT NULL CHECK (backup_eligible IN (0, 1)),
  backed_up       smallint NOT NULL CHECK (backed_up = 0 OR backed_up = 1 AND backup_eligible = 1),
  used_at         timestamptz(3),
  blocked_at      timestamptz(3)
);
CREATE INDEX passkeys_person ON passkeys (person, id);

-- What was committed and has no number yet. A transaction that took numbers would have to hold them until its commit, and
-- so one at a time; whoever reads events gives them out first, in the order in which they were committed.
CREATE TABLE audit_inbox (
  seq            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id             text COLLATE "C" NOT NULL CHECK (length(id) = 26),
  at             timestamptz(3) NOT NULL,
  event_type     text COLLATE "C" NOT NULL CHECK (event_type <> ''),
  correlation_id text COLLATE "C",
  actor          text COLLATE "C",
  approval_id    text COLLATE "C",
  agent          text COLLATE "C",
  tool           text COLLATE "C",
  risk_level     text COLLATE "C",
  decision       text COLLATE "C",
  reason         text,
  data           text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- seq is the order of commits, without holes.
CREATE TABLE audit_events (
  seq            bigint PRIMARY KEY,
  id             text COLLATE "C" NOT NULL,
  at             timestamptz(3) NOT NULL,
  event_type     text COLLATE "C" NOT NULL,
  correlation_id text COLLATE "C",
  actor          text COLLATE "C",
  approval_id    text COLLATE "C",
  agent          text COLLATE "C",
  tool           text COLLATE "C",
  risk_level     text COLLATE "C",
  decision       text COLLATE "C",
  reason         text,
  data           text
);
CREATE INDEX audit_events_type ON audit_events (event_type, seq)
  WHERE event_type <> 'call_allowed' AND event_type <> 'approval_requested' AND event_type <> 'notification_sent';
CREATE INDEX audit_events_agent ON audit_events (agent, seq)
  WHERE event_type <> 'call_allowed' AND event_type <> 'call_denied'
    AND event_type <> 'notification_sent' AND event_type <> 'notification_retrying' AND event_type <> 'notification_failed';
CREATE INDEX audit_events_decision ON audit_events (decision, seq) WHERE decision <> 'allow' AND decision <> 'approve';

-- The programs on the database: each says every second that it is there. config_gen: its configuration, 0: none yet.
-- address: where others reach it.
CREATE TABLE replicas (
  id         text COLLATE "C" PRIMARY KEY CHECK (length(id) = 26),
  seen_at    timestamptz(3) NOT NULL,
  config_gen bigint NOT NULL DEFAULT 0,
  address    text NOT NULL DEFAULT ''
);

-- The configurations that the programs have had, as they came into force.
CREATE TABLE configs (
  gen    bigint PRIMARY KEY CHECK (gen > 0),
  digest text COLLATE "C" NOT NULL CHECK (digest <> '')
);
CREATE INDEX configs_digest ON configs (digest);

-- What an agent has used of its budgets of requests, of pushes, and of pushes that go out: of each, when all of it is
-- free again, in nanoseconds of the store's time since 1970; and the rates that were in force then.
CREATE TABLE budget_use (
  agent        text COLLATE "C" PRIMARY KEY CHECK (agent <> ''),
  requests     bigint NOT NULL,
  pushes       bigint NOT NULL,
  out          bigint NOT NULL,
  request_rate text NOT NULL,
  push_rate    text NOT NULL
) WITH (fillfactor = 50);

-- Until when a platform wishes to be left alone by all programs, with what is of a kind: card, edit or reply.
CREATE TABLE channel_state (
  channel    text COLLATE "C" CHECK (channel <> ''),
  kind       text COLLATE "C" CHECK (kind <> ''),
  held_until timestamptz(3) NOT NULL,
  PRIMARY KEY (channel, kind)
);

-- The heartbeat's entries. slot: when the last run that was begun was due, so that one program begins it. result: what
-- the last run came to, NULL: none has ended.
CREATE TABLE beats (
  entry  text COLLATE "C" PRIMARY KEY CHECK (entry <> ''),
  slot   timestamptz(3) NOT NULL,
  result text
);

-- What one program does, or a caller has used up, for all of them until then.
CREATE TABLE taken_once (
  key   text COLLATE "C" PRIMARY KEY CHECK (key <> ''),
  until timestamptz(3) NOT NULL
);
CREATE INDEX taken_once_until ON taken_once (until);

-- seq: the number given out last. at: the store's time, written each second, which never goes back. ahead_ms: how far it is
-- ahead of the database's clock, after that was set back. set_back_at: the store's time when that was noticed, set_back_ms:
-- how far it was ahead then. accepted_ms: how far it was when an admin said that the clock is right; 0: none has.
-- lineage: which database of which server it was last, NULL until a program was started on it.
CREATE TABLE store_state (
  one         smallint PRIMARY KEY CHECK (one = 1),
  seq         bigint NOT NULL DEFAULT 0,
  at          timestamptz(3) NOT NULL DEFAULT 'epoch',
  ahead_ms    bigint NOT NULL DEFAULT 0 CHECK (ahead_ms >= 0),
  set_back_at timestamptz(3),
  set_back_ms bigint NOT NULL DEFAULT 0 CHECK (set_back_ms >= 0),
  accepted_ms bigint NOT NULL DEFAULT 0 CHECK (accepted_ms >= 0),
  lineage     text
);
INSERT INTO store_state (one) VALUES (1);
