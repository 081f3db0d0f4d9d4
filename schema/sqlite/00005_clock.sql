-- +goose Up

-- Where the store's time is against the machine's clock. ahead_ms: by how much it was ahead when the row was
-- written. set_back_at: the store's time from which it was slower than a clock that was set back, set_back_ms: how
-- far it was ahead then, jumped_at: the store's time right after the last jump ahead that was seen before. boot_ms: how long the machine had
-- run when the row was written, since the start that boot_id names, NULL where that is not known.
ALTER TABLE store_state ADD COLUMN ahead_ms INTEGER NOT NULL DEFAULT 0 CHECK (ahead_ms >= 0);
ALTER TABLE store_state ADD COLUMN set_back_at TEXT CHECK (set_back_at IS NULL OR length(set_back_at) = 24);
ALTER TABLE store_state ADD COLUMN set_back_ms INTEGER NOT NULL DEFAULT 0 CHECK (set_back_ms >= 0);
ALTER TABLE store_state ADD COLUMN jumped_at TEXT CHECK (jumped_at IS NULL OR length(jumped_at) = 24);
ALTER TABLE store_state ADD COLUMN boot_id TEXT;
ALTER TABLE store_state ADD COLUMN boot_ms INTEGER NOT NULL DEFAULT 0 CHECK (boot_ms >= 0);
