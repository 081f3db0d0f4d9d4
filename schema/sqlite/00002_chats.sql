-- +goose Up

-- note: what a notification is about beside its card. part and more: a reply that shows all of a
-- request, in as many messages as it takes.
ALTER TABLE approval_notifications ADD COLUMN note TEXT;
ALTER TABLE approval_notifications ADD COLUMN part INTEGER NOT NULL DEFAULT 0 CHECK (part >= 0);
ALTER TABLE approval_notifications ADD COLUMN more INTEGER NOT NULL DEFAULT 0 CHECK (more = 0 OR more = 1);

-- What somebody was told last is asked for with every text that they type. What they quote may be any
-- message of a reply or of a batch, which can be several.
CREATE INDEX approval_notifications_several ON approval_notifications (channel, recipient, id) WHERE kind = 'reply' OR batch_id IS NOT NULL;

-- Whether anything reaches an address, as far as we were told: who blocked us or left is dead. Since is
-- when it became so; events come late and in any order, and only a later one counts.
CREATE TABLE addresses (
  channel   TEXT NOT NULL CHECK (channel <> ''),
  recipient TEXT NOT NULL CHECK (recipient <> ''),
  dead      INTEGER NOT NULL CHECK (dead = 0 OR dead = 1),
  since     TEXT NOT NULL CHECK (length(since) = 24),
  PRIMARY KEY (channel, recipient)
) STRICT, WITHOUT ROWID;
