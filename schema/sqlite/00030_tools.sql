-- +goose Up

-- Digests of the tool that were on record before and hold too, the latest first, with spaces between them.
ALTER TABLE tool_pins ADD COLUMN earlier TEXT CHECK (length(earlier) <= 7 * 65 - 1);
