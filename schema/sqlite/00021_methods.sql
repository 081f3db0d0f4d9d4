-- +goose Up

-- method: the MCP method of a call that is none of a tool, '' for a tool's. It is part of what makes two calls the same.
-- Of what is there already nothing says whether its caller named a tool so; it stays as a tool's call, by whose rules
-- nothing runs unasked: a method's call that waited is asked about anew, and a grant for one covers it no more. (A standing
-- denial denies either.)
ALTER TABLE approval_requests ADD COLUMN method TEXT NOT NULL DEFAULT '';
ALTER TABLE grants ADD COLUMN method TEXT NOT NULL DEFAULT '';

DROP INDEX approval_requests_live;
CREATE UNIQUE INDEX approval_requests_live ON approval_requests (agent, scope, server, tool_name, args_hash, method)
  WHERE status = 'pending' OR status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL;

CREATE TABLE endings_by_method (
  agent     TEXT NOT NULL,
  scope     TEXT NOT NULL,
  server    TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  args_hash TEXT NOT NULL,
  method    TEXT NOT NULL,
  denied_id TEXT,
  denied_at TEXT CHECK (denied_at IS NULL OR length(denied_at) = 24),
  last_use  TEXT,
  newest    TEXT NOT NULL CHECK (length(newest) = 24),
  PRIMARY KEY (agent, scope, server, tool_name, args_hash, method),
  CONSTRAINT denial_has_a_time CHECK ((denied_id IS NULL) = (denied_at IS NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO endings_by_method (agent, scope, server, tool_name, args_hash, method, denied_id, denied_at, last_use, newest)
  SELECT agent, scope, server, tool_name, args_hash, '', denied_id, denied_at, last_use, newest FROM recent_endings;
DROP TABLE recent_endings;
ALTER TABLE endings_by_method RENAME TO recent_endings;
CREATE INDEX recent_endings_newest ON recent_endings (newest);
