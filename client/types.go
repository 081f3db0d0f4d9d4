package client

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// Call is one tool call that an agent wants to make.
type Call struct {
	Tool      string          `json:"tool"`           // "" with a Method: made from that
	Args      json.RawMessage `json:"args,omitempty"` // a JSON object; nil is {}
	Server    string          `json:"server,omitempty"`
	Scope     string          `json:"scope,omitempty"`
	TurnID    string          `json:"turn_id,omitempty"`
	SessionID string          `json:"session_id,omitempty"`
	Rationale string          `json:"rationale,omitempty"`
	Preview   string          `json:"preview,omitempty"`

	Method     string `json:"method,omitempty"`      // the MCP method where it is not tools/call
	ToolDigest string `json:"tool_digest,omitempty"` // SHA-256, in hex, of the tool as its server describes it
	// the caller sends the call on, and says what came of it with [Client.Report]
	Dispatch bool `json:"dispatch,omitempty"`
	Task     bool `json:"task,omitempty"` // the caller runs the call by itself once it is approved
}

// whole fills in the tool of a call of another method.
func (c Call) whole() Call {
	if c.Tool == "" && c.Method != "" {
		c.Tool = strings.ReplaceAll(c.Method, "/", ":")
	}
	return c
}

// RunResult is what came of a call that was sent on.
type RunResult string

const (
	RunSucceeded RunResult = "succeeded"
	RunFailed    RunResult = "failed"
	RunUnknown   RunResult = "unknown" // it was sent and no answer came: it may have run
)

// AnswerKind is what an agent is told of a call.
type AnswerKind string

const (
	AnswerAllow     AnswerKind = "allow"    // by policy: run it
	AnswerApproved  AnswerKind = "approved" // by a person: run it, once
	AnswerDenied    AnswerKind = "denied"
	AnswerPending   AnswerKind = "pending"
	AnswerExpired   AnswerKind = "expired"
	AnswerCancelled AnswerKind = "cancelled"
	AnswerLapsed    AnswerKind = "lapsed"
)

// Answer is what the server says of a call.
type Answer struct {
	Kind          AnswerKind `json:"decision"`
	Message       string     `json:"message"` // for the model, word for word
	RiskLevel     string     `json:"risk_level"`
	Rule          string     `json:"rule"`
	ReasonCode    string     `json:"reason_code"`
	ApprovalID    string     `json:"approval_id,omitempty"`
	ExpiresAt     Time       `json:"expires_at,omitzero"` // of a pending one
	ResolvedBy    string     `json:"resolved_by,omitempty"`
	ResolveReason string     `json:"resolve_reason,omitempty"`
	// Args of an approved call are the stored arguments, which people were shown: what is to run. They differ from
	// those that were asked with only in what the rule's ignore_args names.
	Args json.RawMessage `json:"args,omitempty"`

	JSON json.RawMessage `json:"-"` // as the server sent it; marshalling writes this
}

// MayRun reports whether the call may be run, now and once.
func (a Answer) MayRun() bool { return a.Kind == AnswerAllow || a.Kind == AnswerApproved }

// Approval is a stored approval request. What has not happened is the zero value.
type Approval struct {
	ID            string          `json:"id"`
	Status        string          `json:"status"` // pending, approved, denied, expired, cancelled
	Agent         string          `json:"agent"`
	Scope         string          `json:"scope"`
	Server        string          `json:"server"`
	Tool          string          `json:"tool"`
	Args          json.RawMessage `json:"args"`
	ArgsHash      string          `json:"args_hash"`
	RiskLevel     string          `json:"risk_level"`
	Rule          string          `json:"rule"`
	ReasonCode    string          `json:"reason_code"`
	HumanMessage  string          `json:"human_message"`
	Rationale     string          `json:"rationale"`
	Preview       string          `json:"preview"`
	TurnID        string          `json:"turn_id"`
	SessionID     string          `json:"session_id"`
	RequestedAt   Time            `json:"requested_at"`
	ExpiresAt     Time            `json:"expires_at"`
	ResolvedAt    Time            `json:"resolved_at"`
	ResolvedBy    string          `json:"resolved_by"`
	ResolvedVia   string          `json:"resolved_via"`
	ResolveReason string          `json:"resolve_reason"`
	UseBy         Time            `json:"use_by"`
	ConsumedAt    Time            `json:"consumed_at"`
	LapsedAt      Time            `json:"lapsed_at"`
	Task          bool            `json:"task"`          // the asker runs the call by itself once it is approved
	DispatchedAt  Time            `json:"dispatched_at"` // when it was let through to whoever sends it on
	RunResult     RunResult       `json:"outcome"`       // what came of it, "" while nobody has said
	Inputs        []Input         `json:"inputs"`        // what its server was told after the approval
	Previous      *Use            `json:"previous"`      // the last use of the same call within 24 hours before
	Message       string          `json:"message"`       // how it ended, for the model; "" while pending

	JSON json.RawMessage `json:"-"` // as the server sent it; marshalling writes this
}

// Input is an answer that a call's server was given at the agent's side after the call was approved. No approver saw
// it. Secrets are masked, and what is long is cut.
type Input struct {
	At      Time   `json:"at"`
	Method  string `json:"method"`  // of what the server asked
	Message string `json:"message"` // the server's own words
	Answer  string `json:"answer"`  // JSON
}

// Use is an earlier approval of the same call that was let through.
type Use struct {
	ApprovalID   string    `json:"approval_id"`
	ApprovedBy   string    `json:"approved_by"`
	ApprovedAt   Time      `json:"approved_at"`
	ConsumedAt   Time      `json:"consumed_at"`
	DispatchedAt Time      `json:"dispatched_at"`
	RunResult    RunResult `json:"outcome"`
}

// Target names the tool as people write it: tool, or server/tool.
func (a Approval) Target() string {
	if a.Server == "" {
		return a.Tool
	}
	return a.Server + "/" + a.Tool
}

// Notification is one push of a card to one recipient.
type Notification struct {
	ID            string `json:"id"`
	ApprovalID    string `json:"approval_id"` // "" for an answer that is about no request
	Channel       string `json:"channel"`
	Recipient     string `json:"recipient"`
	Kind          string `json:"kind"`   // request, reminder, outcome, reply
	Status        string `json:"status"` // queued, retrying, sent, delivered, failed, skipped
	Attempt       int    `json:"attempt"`
	MessageID     string `json:"message_id"`
	HTTPStatus    int    `json:"http_status"` // 0: no answer yet
	Error         string `json:"error"`
	NextAttemptAt Time   `json:"next_attempt_at"`
	SentAt        Time   `json:"sent_at"`
	CreatedAt     Time   `json:"created_at"`
	UpdatedAt     Time   `json:"updated_at"`

	JSON json.RawMessage `json:"-"` // as the server sent it; marshalling writes this
}

// AuditEvent is one line of the audit log.
type AuditEvent struct {
	ID            string          `json:"id"`
	Seq           int64           `json:"seq"`
	At            Time            `json:"at"`
	EventType     string          `json:"event_type"`
	CorrelationID string          `json:"correlation_id"`
	Actor         string          `json:"actor"`
	ApprovalID    string          `json:"approval_id"`
	Agent         string          `json:"agent"`
	Tool          string          `json:"tool"`
	RiskLevel     string          `json:"risk_level"`
	Decision      string          `json:"decision"`
	Reason        string          `json:"reason"`
	Data          json.RawMessage `json:"data"`

	JSON json.RawMessage `json:"-"` // as the server sent it; marshalling writes this
}

// Decided is what a decision came to.
type Decided struct {
	ID         string `json:"id"`
	Status     string `json:"status"` // approved or denied
	ApprovedBy string `json:"approved_by,omitempty"`
	ApprovedAt Time   `json:"approved_at,omitzero"`
	DeniedBy   string `json:"denied_by,omitempty"`
	DeniedAt   Time   `json:"denied_at,omitzero"`
	Reason     string `json:"reason"`

	JSON json.RawMessage `json:"-"` // as the server sent it; marshalling writes this
}

// Acked tells what [Client.Ack] did with each id.
type Acked struct {
	Acked       []string `json:"acked"`
	NotResolved []string `json:"not_resolved"`
	NotFound    []string `json:"not_found"`
}

// Time is a point in time that is null in JSON when it has not come.
type Time struct{ time.Time }

const timeFormat = "2006-01-02T15:04:05.000Z"

// MarshalJSON writes the 24 characters that the server writes, or null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(t.UTC().Format(`"` + timeFormat + `"`)), nil
}

// UnmarshalJSON reads an RFC 3339 time; null is the zero time.
func (t *Time) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		t.Time = time.Time{}
		return nil
	}
	return t.Time.UnmarshalJSON(b)
}

// The types of answers keep what the server sent, so that a program that prints them as JSON loses
// nothing that a newer server says.

// keep decodes b into plain and remembers it.
func keep(b []byte, plain any, raw *json.RawMessage) error {
	if err := json.Unmarshal(b, plain); err != nil {
		return err
	}
	*raw = bytes.Clone(b)
	return nil
}

// kept encodes what was remembered, or else plain.
func kept(raw json.RawMessage, plain any) ([]byte, error) {
	if raw != nil {
		return raw, nil
	}
	return json.Marshal(plain)
}

type (
	plainAnswer       Answer
	plainApproval     Approval
	plainNotification Notification
	plainAuditEvent   AuditEvent
	plainDecided      Decided
)

// UnmarshalJSON decodes and keeps b.
func (a *Answer) UnmarshalJSON(b []byte) error { return keep(b, (*plainAnswer)(a), &a.JSON) }

// MarshalJSON writes what the server sent.
func (a Answer) MarshalJSON() ([]byte, error) { return kept(a.JSON, plainAnswer(a)) }

// UnmarshalJSON decodes and keeps b.
func (a *Approval) UnmarshalJSON(b []byte) error { return keep(b, (*plainApproval)(a), &a.JSON) }

// MarshalJSON writes what the server sent.
func (a Approval) MarshalJSON() ([]byte, error) { return kept(a.JSON, plainApproval(a)) }

// UnmarshalJSON decodes and keeps b.
func (n *Notification) UnmarshalJSON(b []byte) error {
	return keep(b, (*plainNotification)(n), &n.JSON)
}

// MarshalJSON writes what the server sent.
func (n Notification) MarshalJSON() ([]byte, error) { return kept(n.JSON, plainNotification(n)) }

// UnmarshalJSON decodes and keeps b.
func (e *AuditEvent) UnmarshalJSON(b []byte) error { return keep(b, (*plainAuditEvent)(e), &e.JSON) }

// MarshalJSON writes what the server sent.
func (e AuditEvent) MarshalJSON() ([]byte, error) { return kept(e.JSON, plainAuditEvent(e)) }

// UnmarshalJSON decodes and keeps b.
func (d *Decided) UnmarshalJSON(b []byte) error { return keep(b, (*plainDecided)(d), &d.JSON) }

// MarshalJSON writes what the server sent.
func (d Decided) MarshalJSON() ([]byte, error) { return kept(d.JSON, plainDecided(d)) }

// Quota is how many messages a channel has sent this month, of how many.
type Quota struct {
	Channel string    `json:"channel"`
	Used    int       `json:"used"`
	Limit   *int      `json:"limit"` // nil: there is none
	At      time.Time `json:"at"`    // when the platform said so
}

// Beat is the last run of one of the heartbeat's entries.
type Beat struct {
	Entry  string      `json:"entry"`
	At     *time.Time  `json:"at"`               // nil: it has not run since the program's start
	Result string      `json:"result,omitempty"` // ok, or failed: the log says why
	Counts *BeatCounts `json:"counts,omitempty"`
}

// BeatCounts are what a run moved, and how many requests waited after it.
type BeatCounts struct {
	Pending    int `json:"pending"`
	Expired    int `json:"expired"`
	ReNotified int `json:"re_notified"` // requests that people were reminded of
	Retried    int `json:"retried"`     // failed notifications that got one more try
	Unknown    int `json:"unknown"`     // calls that nobody reported back on
}
