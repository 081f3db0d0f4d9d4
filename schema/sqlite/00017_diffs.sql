-- +goose Up

-- preview_from: the tool of the call's server that the gate has read with to make the preview; NULL: the agent wrote it.
ALTER TABLE approval_requests ADD COLUMN preview_from TEXT;
