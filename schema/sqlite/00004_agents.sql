-- +goose Up

-- tool_seen: the gate's own MCP gateway saw the tool that tool_digest is of, and sends the call itself; 0: its
-- agent said so. Only the gateway's rows have both an empty scope and a task: those that wait go on.
ALTER TABLE approval_requests ADD COLUMN tool_seen INTEGER NOT NULL DEFAULT 0 CHECK (tool_seen = 0 OR tool_seen = 1);
UPDATE approval_requests SET tool_seen = 1 WHERE task = 1 AND scope = '' AND tool_digest IS NOT NULL;

-- inputs: what was given to the call's server after the approval, and no approver saw: a JSON array, with
-- secrets masked, NULL for nothing.
ALTER TABLE approval_requests ADD COLUMN inputs TEXT;

-- What an agent said of a tool is its own; agent '' is what the gate's own gateway saw. Pins that are there
-- already do not tell who saw the tool. They stay in force for everybody, as the gateway's: at worst one more
-- question is asked of a person, where forgetting them would take a changed tool without a word.
CREATE TABLE pins_by_agent (
  agent       TEXT NOT NULL,
  server      TEXT NOT NULL,
  tool_name   TEXT NOT NULL CHECK (tool_name <> ''),
  digest      TEXT NOT NULL CHECK (length(digest) = 64),
  seen_at     TEXT NOT NULL CHECK (length(seen_at) = 24),
  accepted_by TEXT,
  PRIMARY KEY (agent, server, tool_name)
) STRICT, WITHOUT ROWID;
INSERT INTO pins_by_agent (agent, server, tool_name, digest, seen_at, accepted_by)
  SELECT '', server, tool_name, digest, seen_at, accepted_by FROM tool_pins;
DROP TABLE tool_pins;
ALTER TABLE pins_by_agent RENAME TO tool_pins;
