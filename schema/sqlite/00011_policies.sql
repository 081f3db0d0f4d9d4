-- +goose Up

-- The text of each policy that was in force, by its digest, which is the policy_digest of what it judged. Secrets are
-- not in it.
CREATE TABLE policies (
  digest TEXT PRIMARY KEY NOT NULL CHECK (digest <> ''),
  source TEXT NOT NULL CHECK (source <> '')
) STRICT, WITHOUT ROWID;
