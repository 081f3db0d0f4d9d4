-- +goose Up

-- runner: which of several programs on one store has sent the call on. A file has one, and this is NULL.
ALTER TABLE approval_requests ADD COLUMN runner TEXT;
ALTER TABLE grant_uses ADD COLUMN runner TEXT;
