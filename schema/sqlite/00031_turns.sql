-- +goose Up

-- turn_at: of a card over its agent's budget of pushes, when it is its turn; it does not go out before, unless its
-- deadline is near. NULL: it has none to wait for. A CHECK would have SQLite look at every row.
ALTER TABLE approval_notifications ADD COLUMN turn_at TEXT;
