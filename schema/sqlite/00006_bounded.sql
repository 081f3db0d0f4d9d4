-- +goose Up

-- What an agent's stream of events tells of, so that it reads no other agent's rows. The many, calls that a rule
-- decided and what became of notifications, are not in it.
CREATE INDEX audit_events_agent ON audit_events (agent)
  WHERE event_type <> 'call_allowed' AND event_type <> 'call_denied'
    AND event_type <> 'notification_sent' AND event_type <> 'notification_retrying' AND event_type <> 'notification_failed';
