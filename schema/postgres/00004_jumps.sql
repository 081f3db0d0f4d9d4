-- +goose Up

-- What waits for a table's lock has all wait that come after it: it gives up, and is tried again.
SET LOCAL lock_timeout = '2s';

-- held_ms: by how much the store's time is behind the database's clock, which has jumped ahead and is not followed yet;
-- held_since: the store's time when it jumped. The program before follows at once.
ALTER TABLE store_state ADD COLUMN held_ms bigint NOT NULL DEFAULT 0 CHECK (held_ms >= 0);
ALTER TABLE store_state ADD COLUMN held_since timestamptz(3);
