-- +goose Up

-- said_before: JSON, what was last said of the tool to the agent before it was asked. annotations: JSON, what the tool's
-- server says of it. The text of the table is edited, as in 00008.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '
  CONSTRAINT only_an_end_has_who_and_code', '
  said_before    TEXT,
  annotations    TEXT,
  CONSTRAINT only_an_end_has_who_and_code')
  WHERE type = 'table' AND name = 'approval_requests';
PRAGMA writable_schema = RESET; -- the connection reads the schema again

-- Fails, and with it the migration, unless the text was the one expected.
CREATE TABLE edited (one INTEGER NOT NULL CHECK (one = 1)) STRICT;
INSERT INTO edited (one) SELECT count(*) FROM pragma_table_info('approval_requests') WHERE name = 'annotations';
DROP TABLE edited;

-- What answers calls in a person's place. deny: it denies them. terms: JSON, which args may differ; NULL: none. spent:
-- JSON, sums of args. session_id: it holds for this one alone. made_for: for whom its maker stood in. uses: how many it
-- has, 0 for any number. unknown: of how many of its uses it is not known what came of them. end_code: why it ended.
CREATE TABLE grants (
  id           TEXT PRIMARY KEY NOT NULL CHECK (length(id) = 26),
  deny         INTEGER NOT NULL CHECK (deny = 0 OR deny = 1),
  agent        TEXT NOT NULL CHECK (agent <> ''),
  scope        TEXT NOT NULL,
  server       TEXT NOT NULL,
  tool_name    TEXT NOT NULL CHECK (tool_name <> ''),
  args_hash    TEXT NOT NULL CHECK (length(args_hash) = 64),
  ignored_args TEXT,
  terms        TEXT,
  session_id   TEXT,
  request      TEXT NOT NULL,
  rule         TEXT,
  rule_digest  TEXT,
  risk_level   TEXT NOT NULL,
  tool_digest  TEXT,
  tool_seen    INTEGER NOT NULL CHECK (tool_seen = 0 OR tool_seen = 1),
  made_by      TEXT NOT NULL CHECK (made_by <> ''),
  made_for     TEXT,
  who          TEXT,
  via          TEXT NOT NULL CHECK (via <> ''),
  reason       TEXT,
  made_at      TEXT NOT NULL CHECK (length(made_at) = 24),
  expires_at   TEXT NOT NULL CHECK (length(expires_at) = 24 AND expires_at > made_at),
  uses         INTEGER NOT NULL CHECK (uses >= 0),
  used         INTEGER NOT NULL CHECK (used >= 0),
  unknown      INTEGER NOT NULL CHECK (unknown >= 0),
  suspended_at TEXT CHECK (suspended_at IS NULL OR length(suspended_at) = 24),
  spent        TEXT,
  ended_at     TEXT CHECK (ended_at IS NULL OR length(ended_at) = 24),
  ended_by     TEXT,
  end_code     TEXT,
  args         TEXT NOT NULL,
  CONSTRAINT no_more_than_it_has CHECK (uses = 0 OR used <= uses),
  CONSTRAINT end_is_whole CHECK ((ended_at IS NULL) = (end_code IS NULL) AND (ended_at IS NULL) = (ended_by IS NULL))
) STRICT;
CREATE INDEX grants_of ON grants (agent, scope, server, tool_name, deny, id) WHERE ended_at IS NULL;
CREATE INDEX grants_live ON grants (id) WHERE ended_at IS NULL;
CREATE INDEX grants_due ON grants (expires_at) WHERE ended_at IS NULL;
CREATE INDEX grants_agent ON grants (agent, id);
CREATE INDEX grants_request ON grants (request, id);

-- Each call that a grant let through.
CREATE TABLE grant_uses (
  id             TEXT PRIMARY KEY NOT NULL CHECK (length(id) = 26),
  grant_id       TEXT NOT NULL REFERENCES grants (id),
  args_hash      TEXT NOT NULL,
  session_id     TEXT,
  correlation_id TEXT,
  at             TEXT NOT NULL CHECK (length(at) = 24),
  dispatched_at  TEXT CHECK (dispatched_at IS NULL OR length(dispatched_at) = 24),
  outcome        TEXT CHECK (outcome IS NULL OR outcome = 'succeeded' OR outcome = 'failed' OR outcome = 'unknown'),
  CONSTRAINT only_what_was_sent_has_an_outcome CHECK (outcome IS NULL OR dispatched_at IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX grant_uses_running ON grant_uses (dispatched_at) WHERE dispatched_at IS NOT NULL AND outcome IS NULL;

-- A person's last word about a tool of an agent.
CREATE TABLE said (
  agent     TEXT NOT NULL,
  server    TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  request   TEXT NOT NULL,
  approved  INTEGER NOT NULL CHECK (approved = 0 OR approved = 1),
  said_by   TEXT NOT NULL,
  at        TEXT NOT NULL CHECK (length(at) = 24),
  reason    TEXT,
  PRIMARY KEY (agent, server, tool_name)
) STRICT, WITHOUT ROWID;
