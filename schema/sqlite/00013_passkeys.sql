-- +goose Up

-- step_up: the vote was given with a passkey that was used for this very request. A CHECK would have SQLite look at
-- every row.
ALTER TABLE approval_votes ADD COLUMN step_up INTEGER NOT NULL DEFAULT 0;
