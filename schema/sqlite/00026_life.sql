-- +goose Up

-- life: which store it is, a random text that it gets when it is made and anew when it was restored; '': none yet.
ALTER TABLE store_state ADD COLUMN life TEXT NOT NULL DEFAULT '';
