-- +goose Up

-- What a call has made is looked for by the call's own id; it stands behind the large columns.
CREATE INDEX approval_requests_correlation ON approval_requests (correlation_id, id)
  WHERE correlation_id IS NOT NULL;
