-- +goose Up

-- What waits for a table's lock has all wait that come after it: it gives up, and is tried again.
SET LOCAL lock_timeout = '2s';

-- program: its version, as an operator knows it.
ALTER TABLE replicas ADD COLUMN program text NOT NULL DEFAULT '';

-- min_program: the oldest program that can work on these tables, by the newest of these files that it knows. A file that
-- takes away what the program before needs raises it; all others leave the tables such that both can work on them.
-- moved_to: the file that the rows were taken to; no program works on them here any more.
ALTER TABLE store_state ADD COLUMN min_program integer NOT NULL DEFAULT 1 CHECK (min_program > 0);
ALTER TABLE store_state ADD COLUMN moved_to text CHECK (moved_to <> '');
