-- +goose Up

-- Up to which event of the event log, the file beside the database, the events are in audit_events.
ALTER TABLE store_state ADD COLUMN logged INTEGER NOT NULL DEFAULT 0;
