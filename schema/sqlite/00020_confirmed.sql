-- +goose Up

-- confirmed: whoever gave the vote was told once more what it lets run, and said yes. A CHECK would have SQLite look at
-- every row.
ALTER TABLE approval_votes ADD COLUMN confirmed INTEGER NOT NULL DEFAULT 0;

-- Of a live request whose need asks for that, its votes were given so.
UPDATE approval_votes SET confirmed = 1
WHERE decision = 'approve' AND request IN (
  SELECT id FROM approval_requests
  WHERE (status = 'pending' OR status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL)
    AND need LIKE '%"confirm":true%');
