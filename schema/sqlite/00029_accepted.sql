-- +goose Up

-- accepted_ms: how far the store's time was ahead of the machine's clock when an admin said that the clock is right; 0: none has.
ALTER TABLE store_state ADD COLUMN accepted_ms INTEGER NOT NULL DEFAULT 0;
