-- +goose Up

-- step_up: the vote was given with a passkey that was used for this very request. A CHECK would have SQLite look at
-- every row.
ALTER TABLE approval_votes ADD COLUMN step_up INTEGER NOT NULL DEFAULT 0;

-- Who passkeys are of, as authenticators know them: handle is 64 random bytes in base64url, and says nothing of the name.
CREATE TABLE passkey_owners (
  person TEXT PRIMARY KEY NOT NULL CHECK (person <> ''),
  handle TEXT NOT NULL UNIQUE CHECK (length(handle) = 86)
) STRICT, WITHOUT ROWID;

-- credential: the id that the authenticator gave it; public_key: COSE. Both in base64url. transports: how browsers may
-- reach it, with a comma between. sign_count: how often it has signed, as the authenticator says; 0: it does not say.
-- backup_eligible, backed_up: whether it may be, and is, on more than one device. blocked_at: since when it is of no use
-- because its count went back, as a copy's does.
CREATE TABLE passkeys (
  id              TEXT PRIMARY KEY NOT NULL CHECK (length(id) = 26),
  credential      TEXT NOT NULL UNIQUE CHECK (credential <> ''),
  person          TEXT NOT NULL REFERENCES passkey_owners (person),
  name            TEXT NOT NULL CHECK (name <> ''),
  public_key      TEXT NOT NULL CHECK (public_key <> ''),
  rp_id           TEXT NOT NULL CHECK (rp_id <> ''),
  aaguid          TEXT NOT NULL,
  transports      TEXT NOT NULL,
  added_at        TEXT NOT NULL CHECK (length(added_at) = 24),
  sign_count      INTEGER NOT NULL CHECK (sign_count >= 0),
  backup_eligible INTEGER NOT NULL CHECK (backup_eligible = 0 OR backup_eligible = 1),
  backed_up       INTEGER NOT NULL CHECK (backed_up = 0 OR backed_up = 1 AND backup_eligible = 1),
  used_at         TEXT CHECK (used_at IS NULL OR length(used_at) = 24),
  blocked_at      TEXT CHECK (blocked_at IS NULL OR length(blocked_at) = 24)
) STRICT, WITHOUT ROWID;
CREATE INDEX passkeys_person ON passkeys (person, id);
