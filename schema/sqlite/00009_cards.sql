-- +goose Up

-- What the calls of a turn, or of a run, come to people as. id: the batch_id of its requests. scope: '' unless the agent
-- and its scope stand for a session. items: JSON, its requests in the order in which they came, each with the version of
-- the card that it came with. shown: the newest version whose sending was begun, 0 for none.
CREATE TABLE cards (
  id         TEXT PRIMARY KEY NOT NULL CHECK (length(id) = 26),
  agent      TEXT NOT NULL CHECK (agent <> ''),
  scope      TEXT NOT NULL,
  session    TEXT NOT NULL,
  turn       TEXT NOT NULL,
  grouping   TEXT NOT NULL CHECK (grouping = 'turn' OR grouping = 'run' OR grouping = 'call'),
  risk_level TEXT NOT NULL,
  opened_at  TEXT NOT NULL CHECK (length(opened_at) = 24),
  leaves_at  TEXT NOT NULL CHECK (length(leaves_at) = 24),
  join_by    TEXT NOT NULL CHECK (length(join_by) = 24),
  items      TEXT NOT NULL,
  shown      INTEGER NOT NULL CHECK (shown >= 0)
) STRICT, WITHOUT ROWID;
CREATE INDEX cards_newest ON cards (agent, session, turn, scope, grouping, id);

-- after_version: of a card the items that came later are shown. shown: the version whose sending was begun. changes: how
-- often what it shows has changed while it was not sent; drawn: what that was when it was drawn. held_for: the agent whose earlier cards it waits behind.
-- A CHECK would have SQLite look at every row.
ALTER TABLE approval_notifications ADD COLUMN after_version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE approval_notifications ADD COLUMN shown INTEGER NOT NULL DEFAULT 0;
ALTER TABLE approval_notifications ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE approval_notifications ADD COLUMN drawn INTEGER NOT NULL DEFAULT 0;
ALTER TABLE approval_notifications ADD COLUMN silent INTEGER NOT NULL DEFAULT 0;
ALTER TABLE approval_notifications ADD COLUMN held_for TEXT;
CREATE INDEX approval_notifications_held ON approval_notifications (held_for, id)
  WHERE held_for IS NOT NULL AND status = 'queued';

-- Which requests a reminder is of.
CREATE TABLE reminded (
  request      TEXT NOT NULL,
  notification TEXT NOT NULL,
  at           TEXT NOT NULL CHECK (length(at) = 24),
  PRIMARY KEY (request, notification)
) STRICT, WITHOUT ROWID;
