-- +goose Up

-- moved_to: the database that the rows were taken to; no gate starts on the file any more.
ALTER TABLE store_state ADD COLUMN moved_to TEXT;
