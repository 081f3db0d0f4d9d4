-- +goose Up

-- language: in which an answer is read, where whoever it is for has typed in it and reads another otherwise.
ALTER TABLE approval_notifications ADD COLUMN language TEXT;
