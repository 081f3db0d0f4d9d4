-- +goose Up

-- What waits for a table's lock has all wait that come after it: it gives up, and is tried again.
SET LOCAL lock_timeout = '2s';

-- args_removed_at: when the arguments of a request that is over were removed, with the texts made of them; tool_args is
-- null then, and args_bytes says how large they were.
ALTER TABLE approval_requests ADD COLUMN args_removed_at timestamptz(3);
ALTER TABLE approval_requests ADD COLUMN args_bytes integer NOT NULL DEFAULT 0 CHECK (args_bytes >= 0);

-- The uses of a grant go with it.
CREATE INDEX grant_uses_grant ON grant_uses (grant_id);
