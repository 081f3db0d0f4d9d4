package export

import (
	"time"

	"countersign/approval"
)

// Events are the columns of the audit log: the members of an event over the API.
var Events = []Column[approval.Event]{
	text("id", func(e approval.Event) string { return e.ID }),
	number("seq", func(e approval.Event) int64 { return e.Seq }),
	at("at", func(e approval.Event) time.Time { return e.At }),
	text("event_type", func(e approval.Event) approval.EventType { return e.Type }),
	text("correlation_id", func(e approval.Event) string { return e.CorrelationID }),
	text("actor", func(e approval.Event) string { return e.Actor }),
	text("approval_id", func(e approval.Event) string { return e.ApprovalID }),
	text("agent", func(e approval.Event) string { return e.Agent }),
	text("tool", func(e approval.Event) string { return e.Tool }),
	text("risk_level", func(e approval.Event) approval.Risk { return e.Risk }),
	text("decision", func(e approval.Event) string { return e.Decision }),
	text("reason", func(e approval.Event) string { return e.Reason }),
	object("data", func(e approval.Event) []byte { return e.Data }),
}

// Requests are the columns of the history: what a request is, and no arguments, which may hold secrets.
var Requests = []Column[approval.Head]{
	text("id", func(h approval.Head) string { return h.ID }),
	text("status", func(h approval.Head) approval.Status { return h.Status }),
	text("agent", func(h approval.Head) string { return h.Agent }),
	text("scope", func(h approval.Head) string { return h.Scope }),
	text("server", func(h approval.Head) string { return h.Server }),
	text("tool", func(h approval.Head) string { return h.Tool }),
	text("args_hash", func(h approval.Head) string { return h.ArgsHash }),
	text("risk_level", func(h approval.Head) approval.Risk { return h.Risk }),
	text("rule", func(h approval.Head) string { return h.Rule }),
	text("reason_code", func(h approval.Head) string { return h.ReasonCode }),
	text("human_message", func(h approval.Head) string { return h.HumanMessage }),
	text("turn_id", func(h approval.Head) string { return h.TurnID }),
	text("session_id", func(h approval.Head) string { return h.SessionID }),
	at("requested_at", func(h approval.Head) time.Time { return h.RequestedAt }),
	at("expires_at", func(h approval.Head) time.Time { return h.ExpiresAt }),
	at("resolved_at", func(h approval.Head) time.Time { return h.ResolvedAt }),
	text("resolved_by", func(h approval.Head) string { return h.ResolvedBy }),
	text("resolved_via", func(h approval.Head) approval.Via { return h.ResolvedVia }),
	text("resolve_reason", func(h approval.Head) string { return h.ResolveReason }),
	at("use_by", func(h approval.Head) time.Time { return h.UseBy }),
	at("consumed_at", func(h approval.Head) time.Time { return h.ConsumedAt }),
	at("lapsed_at", func(h approval.Head) time.Time { return h.LapsedAt }),
	text("batch_id", func(h approval.Head) string { return h.BatchID }),
}

// Notifications are the columns of the notification log: the members of a notification over the API.
var Notifications = []Column[approval.Notification]{
	text("id", func(n approval.Notification) string { return n.ID }),
	text("approval_id", func(n approval.Notification) string { return n.ApprovalID }),
	text("channel", func(n approval.Notification) string { return n.Channel }),
	text("recipient", func(n approval.Notification) string { return n.Recipient }),
	text("kind", func(n approval.Notification) approval.NotificationKind { return n.Kind }),
	text("status", func(n approval.Notification) approval.NotificationStatus { return n.Status }),
	number("attempt", func(n approval.Notification) int { return n.Attempt }),
	text("message_id", func(n approval.Notification) string { return n.MessageID }),
	optNumber("http_status", func(n approval.Notification) int { return n.HTTPStatus }),
	text("error", func(n approval.Notification) string { return n.Error }),
	at("next_attempt_at", nextAttempt),
	at("sent_at", func(n approval.Notification) time.Time { return n.SentAt }),
	at("created_at", func(n approval.Notification) time.Time { return n.CreatedAt }),
	at("updated_at", func(n approval.Notification) time.Time { return n.UpdatedAt }),
}

// nextAttempt is when a notification that waits is sent next.
func nextAttempt(n approval.Notification) time.Time {
	if n.Status == approval.Queued || n.Status == approval.Retrying {
		return n.NextAttemptAt
	}
	return time.Time{}
}
