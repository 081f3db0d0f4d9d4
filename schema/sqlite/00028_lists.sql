-- +goose Up

-- Lists are read along these, newest first: what ended without a yes or was not sent is found without the many rows
-- that were. These have no entry, so that what is asked, approved and used costs nothing more.
-- A condition with IN and three words would: SQLite makes a table of them for each statement.
CREATE INDEX approval_requests_ended ON approval_requests (status, id) WHERE status <> 'approved' AND status <> 'pending';
CREATE INDEX approval_notifications_unsent ON approval_notifications (status, id) WHERE status IN ('failed', 'skipped');
CREATE INDEX audit_events_decision ON audit_events (decision) WHERE decision <> 'allow' AND decision <> 'approve';
