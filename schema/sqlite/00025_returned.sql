-- +goose Up

-- How often the approval was given back, since the call that had used it provably did not run.
ALTER TABLE approval_requests ADD COLUMN returned INTEGER NOT NULL DEFAULT 0 CHECK (returned >= 0);
