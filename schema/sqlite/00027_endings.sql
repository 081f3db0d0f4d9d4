-- +goose Up

-- endings: the resolved_seq given out last; -1: none yet by a count of their own, they were taken from seq.
ALTER TABLE store_state ADD COLUMN endings INTEGER NOT NULL DEFAULT -1;
