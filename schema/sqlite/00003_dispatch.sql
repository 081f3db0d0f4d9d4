-- +goose Up

-- What the gate's own side does with a call. task: it runs the call once it is approved. dispatched_at:
-- it sent the call on in the moment that the approval was used. outcome: what came of that, NULL while
-- nobody has said.
ALTER TABLE approval_requests ADD COLUMN tool_digest TEXT CHECK (tool_digest IS NULL OR length(tool_digest) = 64);
ALTER TABLE approval_requests ADD COLUMN task INTEGER NOT NULL DEFAULT 0 CHECK (task = 0 OR task = 1);
ALTER TABLE approval_requests ADD COLUMN dispatched_at TEXT CHECK (dispatched_at IS NULL OR length(dispatched_at) = 24)
  CONSTRAINT dispatched_when_used CHECK (dispatched_at IS NULL OR consumed_at IS NOT NULL AND dispatched_at = consumed_at);
ALTER TABLE approval_requests ADD COLUMN outcome TEXT CHECK (outcome IS NULL OR outcome = 'succeeded' OR outcome = 'failed' OR outcome = 'unknown')
  CONSTRAINT only_dispatched_has_outcome CHECK (outcome IS NULL OR dispatched_at IS NOT NULL);

-- Few are under way at a time, and rows leave it when their outcome is known.
CREATE INDEX approval_requests_dispatched ON approval_requests (dispatched_at) WHERE dispatched_at IS NOT NULL AND outcome IS NULL;

-- What a tool of a server looked like when it was first seen, or accepted after a change.
CREATE TABLE tool_pins (
  server      TEXT NOT NULL,
  tool_name   TEXT NOT NULL CHECK (tool_name <> ''),
  digest      TEXT NOT NULL CHECK (length(digest) = 64),
  seen_at     TEXT NOT NULL CHECK (length(seen_at) = 24),
  accepted_by TEXT,
  PRIMARY KEY (server, tool_name)
) STRICT, WITHOUT ROWID;
