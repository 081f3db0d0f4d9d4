-- +goose Up

-- Who must say yes, and who has said what. need: JSON, NULL for one person of those who may approve at all. stage: the
-- one that is open, from 0. who: all whose yes it was, where that is not resolved_by alone. end_code: why it ended, where
-- status does not say it. replaced_by and replaces: the request of the args that were approved instead, and the one that
-- had others. policy_digest: of the policy that asked. correlation_id: of the call that asked.
-- ADD COLUMN has SQLite look at every row of a table with checks, once for each column. The text is edited instead, as
-- in 00007: a row without a value for a column has its default.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, ', inputs TEXT,', ', inputs TEXT,
  need           TEXT,
  stage          INTEGER NOT NULL DEFAULT 0 CHECK (stage >= 0),
  policy_digest  TEXT,
  correlation_id TEXT,
  replaces       TEXT CHECK (replaces IS NULL OR length(replaces) = 26),
  who            TEXT,
  end_code       TEXT,
  replaced_by    TEXT CHECK (replaced_by IS NULL OR length(replaced_by) = 26),
  extended_at    TEXT CHECK (extended_at IS NULL OR length(extended_at) = 24),
  CONSTRAINT only_an_end_has_who_and_code CHECK (status <> ''pending'' OR coalesce(who, end_code) IS NULL),
  CONSTRAINT only_a_denial_is_replaced CHECK (replaced_by IS NULL OR status = ''denied''),')
  WHERE type = 'table' AND name = 'approval_requests';
PRAGMA writable_schema = RESET; -- the connection reads the schema again

-- Fails, and with it the migration, unless the text was the one expected.
CREATE TABLE edited (one INTEGER NOT NULL CHECK (one = 1)) STRICT;
INSERT INTO edited (one) SELECT count(*) FROM pragma_table_info('approval_requests') WHERE name = 'extended_at';
DROP TABLE edited;

-- One vote for each person and request. voted_for: for whom the person stood in. nth: its place in the order in which
-- they were given. stage counts from 1; 0: for none, since the need was raised.
CREATE TABLE approval_votes (
  request   TEXT NOT NULL REFERENCES approval_requests (id),
  person    TEXT NOT NULL CHECK (person <> ''),
  nth       INTEGER NOT NULL CHECK (nth >= 0),
  stage     INTEGER NOT NULL CHECK (stage >= 0),
  voted_for TEXT CHECK (voted_for IS NULL OR voted_for <> '' AND voted_for <> person),
  decision  TEXT NOT NULL CHECK (decision = 'approve' OR decision = 'deny'),
  reason    TEXT,
  at        TEXT NOT NULL CHECK (length(at) = 24),
  via       TEXT NOT NULL CHECK (via <> ''),
  PRIMARY KEY (request, person)
) STRICT, WITHOUT ROWID;

-- Whoever approved what was not used yet has given the one vote that it took. The system approves nothing.
INSERT INTO approval_votes (request, person, nth, stage, decision, reason, at, via)
  SELECT id, resolved_by, 0, 1, 'approve', resolve_reason, resolved_at, resolved_via FROM approval_requests
  WHERE status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL
    AND resolved_via <> 'system' AND resolved_by <> '';

-- Who votes for whom, from from_at until before until_at.
CREATE TABLE delegations (
  id         TEXT PRIMARY KEY NOT NULL CHECK (length(id) = 26),
  delegator  TEXT NOT NULL CHECK (delegator <> ''),
  delegate   TEXT NOT NULL CHECK (delegate <> '' AND delegate <> delegator),
  from_at    TEXT NOT NULL CHECK (length(from_at) = 24),
  until_at   TEXT NOT NULL CHECK (length(until_at) = 24 AND until_at >= from_at),
  rule       TEXT,
  created_at TEXT NOT NULL CHECK (length(created_at) = 24),
  created_by TEXT NOT NULL CHECK (created_by <> ''),
  ended_at   TEXT CHECK (ended_at IS NULL OR length(ended_at) = 24),
  ended_by   TEXT,
  CONSTRAINT end_is_whole CHECK ((ended_at IS NULL) = (ended_by IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX delegations_until ON delegations (until_at) WHERE ended_at IS NULL;

-- What the newest freeze of an agent left behind, or for '' that of all: a live request with a smaller id than this was
-- made before it and counts as ended.
CREATE TABLE epochs (
  agent     TEXT PRIMARY KEY NOT NULL,
  id        TEXT NOT NULL CHECK (length(id) = 26),
  frozen    INTEGER NOT NULL CHECK (frozen = 0 OR frozen = 1),
  frozen_at TEXT CHECK (frozen_at IS NULL OR length(frozen_at) = 24),
  frozen_by TEXT,
  via       TEXT,
  reason    TEXT,
  CONSTRAINT freeze_is_whole CHECK (frozen = 0 OR frozen_at IS NOT NULL AND frozen_by IS NOT NULL)
) STRICT, WITHOUT ROWID;
