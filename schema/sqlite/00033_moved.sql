-- +goose Up

-- moved_to: the database that the rows were taken to; no gate starts on the file any more. disorder_ms: by how much the
-- time of an event may be before that of one with a smaller seq, where the rows came from a database in which it may.
ALTER TABLE store_state ADD COLUMN moved_to TEXT;
ALTER TABLE store_state ADD COLUMN disorder_ms INTEGER NOT NULL DEFAULT 0 CHECK (disorder_ms >= 0);
