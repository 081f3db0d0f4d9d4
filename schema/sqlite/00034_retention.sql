-- +goose Up

-- args_removed_at: when the arguments of a request that is over were removed, with the texts made of them; tool_args is
-- null then, and args_bytes says how large they were.
ALTER TABLE approval_requests ADD COLUMN args_removed_at TEXT;
ALTER TABLE approval_requests ADD COLUMN args_bytes INTEGER NOT NULL DEFAULT 0 CHECK (args_bytes >= 0);

-- The uses of a grant go with it.
CREATE INDEX grant_uses_grant ON grant_uses (grant_id);
