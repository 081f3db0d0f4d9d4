-- +goose Up

-- What waits is listed by its id, over and over, and by agent: of another agent's no row is read. Ids grow with time, and
-- an entry goes once its request is decided.
CREATE INDEX approval_requests_pending ON approval_requests (id, agent) WHERE status = 'pending';
