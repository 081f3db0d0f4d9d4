-- +goose Up

-- One-time links. digest: SHA-256 of the token, which is nowhere. Rows go when their time has come.
CREATE TABLE signin_links (
  digest     TEXT PRIMARY KEY NOT NULL CHECK (length(digest) = 64),
  id         TEXT NOT NULL UNIQUE CHECK (length(id) = 26),
  person     TEXT NOT NULL CHECK (person <> ''),
  via        TEXT NOT NULL CHECK (via <> ''),
  made_on    TEXT NOT NULL CHECK (made_on <> ''),
  made_at    TEXT NOT NULL CHECK (length(made_at) = 24),
  expires_at TEXT NOT NULL CHECK (length(expires_at) = 24 AND expires_at > made_at),
  ended_at   TEXT CHECK (ended_at IS NULL OR length(ended_at) = 24 AND ended_at < expires_at),
  end_code   TEXT,
  CONSTRAINT end_is_whole CHECK ((ended_at IS NULL) = (end_code IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX signin_links_person ON signin_links (person, id);
CREATE INDEX signin_links_due ON signin_links (expires_at);

-- Browsers that are signed in. digest: SHA-256 of the cookie's secret. A session that has ended has no row.
CREATE TABLE signin_sessions (
  digest     TEXT PRIMARY KEY NOT NULL CHECK (length(digest) = 64),
  id         TEXT NOT NULL UNIQUE CHECK (length(id) = 26),
  person     TEXT NOT NULL CHECK (person <> ''),
  method     TEXT NOT NULL CHECK (method <> ''),
  origin     TEXT NOT NULL,
  user_agent TEXT NOT NULL,
  created_at TEXT NOT NULL CHECK (length(created_at) = 24),
  seen_at    TEXT NOT NULL CHECK (length(seen_at) = 24 AND seen_at >= created_at),
  expires_at TEXT NOT NULL CHECK (length(expires_at) = 24 AND expires_at > created_at)
) STRICT, WITHOUT ROWID;
CREATE INDEX signin_sessions_person ON signin_sessions (person, id);
CREATE INDEX signin_sessions_due ON signin_sessions (expires_at);
CREATE INDEX signin_sessions_idle ON signin_sessions (seen_at);
