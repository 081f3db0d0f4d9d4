package rest

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/swaggest/jsonschema-go"

	"countersign/approval"
	"countersign/approval/args"
)

// The types of this file are the JSON of /v1, and its OpenAPI document is made from them. They stand
// beside the domain's types so that both can move apart.

// optional is a text that is null where there is none.
type optional string

// MarshalJSONTo writes the text or null.
func (o optional) MarshalJSONTo(e *jsontext.Encoder) error {
	if o == "" {
		return e.WriteToken(jsontext.Null)
	}
	return e.WriteToken(jsontext.String(string(o)))
}

// PrepareJSONSchema says that it may be null.
func (optional) PrepareJSONSchema(s *jsonschema.Schema) error {
	s.AddType(jsonschema.Null)
	return nil
}

// InlineJSONSchema keeps it from becoming a schema of its own.
func (optional) InlineJSONSchema() {}

// number is a number that is null where it is 0.
type number int

// MarshalJSONTo writes the number or null.
func (n number) MarshalJSONTo(e *jsontext.Encoder) error {
	if n == 0 {
		return e.WriteToken(jsontext.Null)
	}
	return e.WriteToken(jsontext.Int(int64(n)))
}

// PrepareJSONSchema says that it may be null.
func (number) PrepareJSONSchema(s *jsonschema.Schema) error {
	s.AddType(jsonschema.Null)
	return nil
}

// InlineJSONSchema keeps it from becoming a schema of its own.
func (number) InlineJSONSchema() {}

// object is a JSON object that is passed on as it is; nil is null.
type object jsontext.Value

// MarshalJSONTo writes it.
func (o object) MarshalJSONTo(e *jsontext.Encoder) error {
	if o == nil {
		return e.WriteToken(jsontext.Null)
	}
	return e.WriteValue(jsontext.Value(o))
}

// UnmarshalJSONFrom keeps what is there as it was sent.
func (o *object) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	at := place(d.StackPointer())
	v, err := d.ReadValue()
	if err != nil { // it is JSON, or that is told first
		return approval.Errorf(codeInvalidJSON, "%s has a name twice, or a text that is not valid UTF-8.", at)
	}
	*o = object(v.Clone())
	return nil
}

// JSONSchema says that it may be anything an object may be.
func (object) JSONSchema() (jsonschema.Schema, error) {
	var s jsonschema.Schema
	s.AddType(jsonschema.Object)
	return s, nil
}

// InlineJSONSchema keeps it from becoming a schema of its own.
func (object) InlineJSONSchema() {}

// request is a stored approval request; the document calls it Approval.
type request struct {
	ID            string   `json:"id" description:"ULID." pattern:"^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	Status        string   `json:"status" enum:"pending,approved,denied,expired,cancelled"`
	Agent         string   `json:"agent"`
	Scope         string   `json:"scope" description:"A working directory, tenant or the like; part of what makes two calls the same."`
	Server        string   `json:"server" description:"The MCP server that has the tool; empty for an agent's own."`
	Tool          string   `json:"tool"`
	Args          object   `json:"args" nullable:"false" description:"The canonical args, whole and unmasked: what was hashed and what will run."`
	ArgsHash      string   `json:"args_hash" description:"SHA-256, in hex, of the canonical args less those that the rule ignores." pattern:"^[0-9a-f]{64}$"`
	RiskLevel     string   `json:"risk_level" enum:"low,medium,high,critical"`
	Rule          string   `json:"rule" description:"The rule that decided; empty when none matched."`
	ReasonCode    string   `json:"reason_code"`
	HumanMessage  string   `json:"human_message"`
	Rationale     string   `json:"rationale" description:"The agent's own words, unchecked."`
	Preview       string   `json:"preview" description:"The agent's own picture of the effect, unchecked."`
	TurnID        string   `json:"turn_id"`
	SessionID     string   `json:"session_id"`
	RequestedAt   string   `json:"requested_at" format:"date-time"`
	ExpiresAt     string   `json:"expires_at" format:"date-time"`
	ResolvedAt    optional `json:"resolved_at" format:"date-time"`
	ResolvedBy    optional `json:"resolved_by" description:"A person's name, agent:NAME, system:timeout, system:policy, or a chat user."`
	ResolvedVia   optional `json:"resolved_via" enum:"[\"line\",\"slack\",\"web\",\"api\",\"cli\",\"terminal\",\"system\",null]"`
	ResolveReason optional `json:"resolve_reason"`
	UseBy         optional `json:"use_by" format:"date-time" description:"When an unused approval lapses."`
	ConsumedAt    optional `json:"consumed_at" format:"date-time" description:"When the approved call was let through."`
	LapsedAt      optional `json:"lapsed_at" format:"date-time"`
	Task          bool     `json:"task" description:"The gate's side runs the call by itself once it is approved."`
	DispatchedAt  optional `json:"dispatched_at" format:"date-time" description:"When the call was let through to whoever sends it on and reports its outcome."`
	RunResult     optional `json:"outcome" enum:"[\"succeeded\",\"failed\",\"unknown\",null]" description:"What came of the dispatched call; unknown: it may have run."`
	Inputs        []input  `json:"inputs,omitempty" description:"What its server was told, at the agent's side, after the approval; absent for nothing. No approver saw it."`
	Previous      *use     `json:"previous" description:"The last use of an approval of the same call, within the 24 hours before this request."`
	Message       optional `json:"message" description:"How it ended, as the agent's model is told; null while pending."`
	_             struct{} `additionalProperties:"false" description:"A stored approval request. null means: there is none, or not yet."`
}

func wireRequest(r approval.Request) request {
	return request{
		ID: r.ID, Status: string(r.Status), Agent: r.Agent, Scope: r.Scope, Server: r.Server, Tool: r.Tool,
		Args: r.Args, ArgsHash: r.ArgsHash, RiskLevel: string(r.Risk), Rule: r.Rule, ReasonCode: r.ReasonCode,
		HumanMessage: r.HumanMessage,
		Rationale:    r.Rationale, Preview: r.Preview, TurnID: r.TurnID, SessionID: r.SessionID,
		RequestedAt: approval.FormatTime(r.RequestedAt), ExpiresAt: approval.FormatTime(r.ExpiresAt),
		ResolvedAt: optional(approval.FormatTime(r.ResolvedAt)), ResolvedBy: optional(r.ResolvedBy),
		ResolvedVia:   optional(r.ResolvedVia),
		ResolveReason: optional(r.ResolveReason), UseBy: optional(approval.FormatTime(r.UseBy)),
		ConsumedAt: optional(approval.FormatTime(r.ConsumedAt)), LapsedAt: optional(approval.FormatTime(r.LapsedAt)),
		Task: r.Task, DispatchedAt: optional(approval.FormatTime(r.DispatchedAt)), RunResult: optional(r.RunResult),
		Inputs: wire(r.Inputs, wireInput), Previous: wireUse(r.Previous),
		Message: optional(r.FeedMessage()),
	}
}

// input is an answer that a call's server was given; the document calls it Input.
type input struct {
	At      string   `json:"at" format:"date-time"`
	Method  string   `json:"method" description:"What the server asked for."`
	Message string   `json:"message" description:"The server's own words; empty where it had none."`
	Answer  string   `json:"answer" description:"JSON; secrets are masked, and what is long is cut."`
	_       struct{} `additionalProperties:"false" description:"An answer that was given after the approval."`
}

func wireInput(in approval.Input) input {
	return input{At: approval.FormatTime(in.At), Method: in.Method, Message: in.Message, Answer: in.Answer}
}

// use is an earlier use of an approval; the document calls it Use.
type use struct {
	ApprovalID   string   `json:"approval_id"`
	ApprovedBy   string   `json:"approved_by"`
	ApprovedAt   string   `json:"approved_at" format:"date-time"`
	ConsumedAt   string   `json:"consumed_at" format:"date-time"`
	DispatchedAt optional `json:"dispatched_at" format:"date-time"`
	RunResult    optional `json:"outcome" enum:"[\"succeeded\",\"failed\",\"unknown\",null]"`
	_            struct{} `additionalProperties:"false" description:"An approval that was let through."`
}

// PrepareJSONSchema says that it may be null.
func (use) PrepareJSONSchema(s *jsonschema.Schema) error {
	s.AddType(jsonschema.Null)
	return nil
}

func wireUse(u *approval.Use) *use {
	if u == nil {
		return nil
	}
	return &use{
		ApprovalID: u.RequestID, ApprovedBy: u.ApprovedBy, ApprovedAt: approval.FormatTime(u.ApprovedAt),
		ConsumedAt:   approval.FormatTime(u.ConsumedAt),
		DispatchedAt: optional(approval.FormatTime(u.DispatchedAt)), RunResult: optional(u.RunResult),
	}
}

// wire turns rows into their JSON form; the result is never nil.
func wire[T, J any](rows []T, f func(T) J) []J {
	js := make([]J, len(rows))
	for i, r := range rows {
		js[i] = f(r)
	}
	return js
}

type notification struct {
	ID            string   `json:"id"`
	ApprovalID    optional `json:"approval_id" description:"null for an answer that is about no request; the first of a batch."`
	Channel       string   `json:"channel"`
	Recipient     string   `json:"recipient"`
	Kind          string   `json:"kind" enum:"request,reminder,outcome,reply"`
	Status        string   `json:"status" enum:"queued,retrying,sent,delivered,failed,skipped"`
	Attempt       int      `json:"attempt" minimum:"0" description:"Sends begun."`
	MessageID     optional `json:"message_id"`
	HTTPStatus    number   `json:"http_status"`
	Error         optional `json:"error" description:"A stable reason, then what the platform said."`
	NextAttemptAt optional `json:"next_attempt_at" format:"date-time"`
	SentAt        optional `json:"sent_at" format:"date-time"`
	CreatedAt     string   `json:"created_at" format:"date-time"`
	UpdatedAt     string   `json:"updated_at" format:"date-time"`
	_             struct{} `additionalProperties:"false" description:"One push of a card to one recipient on one channel."`
}

func wireNotification(n approval.Notification) notification {
	w := notification{
		ID: n.ID, ApprovalID: optional(n.ApprovalID), Channel: n.Channel, Recipient: n.Recipient, Kind: string(n.Kind),
		Status:  string(n.Status),
		Attempt: n.Attempt, MessageID: optional(n.MessageID), HTTPStatus: number(n.HTTPStatus), Error: optional(n.Error),
		SentAt:    optional(approval.FormatTime(n.SentAt)),
		CreatedAt: approval.FormatTime(n.CreatedAt), UpdatedAt: approval.FormatTime(n.UpdatedAt),
	}
	if n.Status == approval.Queued || n.Status == approval.Retrying {
		w.NextAttemptAt = optional(approval.FormatTime(n.NextAttemptAt))
	}
	return w
}

type auditEvent struct {
	ID            string   `json:"id"`
	Seq           int64    `json:"seq" minimum:"1" description:"Given out in commit order."`
	At            string   `json:"at" format:"date-time"`
	EventType     string   `json:"event_type"`
	CorrelationID optional `json:"correlation_id"`
	Actor         optional `json:"actor"`
	ApprovalID    optional `json:"approval_id"`
	Agent         optional `json:"agent"`
	Tool          optional `json:"tool" description:"server/tool where there is a server."`
	RiskLevel     optional `json:"risk_level"`
	Decision      optional `json:"decision"`
	Reason        optional `json:"reason"`
	Data          object   `json:"data" nullable:"true"`
	_             struct{} `additionalProperties:"false" description:"One line of the audit log."`
}

func wireEvent(e approval.Event) auditEvent {
	return auditEvent{
		ID: e.ID, Seq: e.Seq, At: approval.FormatTime(e.At), EventType: string(e.Type),
		CorrelationID: optional(e.CorrelationID),
		Actor:         optional(e.Actor), ApprovalID: optional(e.ApprovalID), Agent: optional(e.Agent),
		Tool:      optional(e.Tool),
		RiskLevel: optional(e.Risk),
		Decision:  optional(e.Decision), Reason: optional(e.Reason), Data: e.Data,
	}
}

type callAnswer struct {
	Decision      string   `json:"decision" enum:"allow,approved,denied,pending,expired,cancelled,lapsed" description:"Only allow and approved mean that the call may run, now and once."`
	ApprovalID    string   `json:"approval_id,omitempty" description:"Where there is a request."`
	ExpiresAt     string   `json:"expires_at,omitempty" format:"date-time" description:"Of a pending one."`
	Message       string   `json:"message" description:"For the model, word for word."`
	RiskLevel     string   `json:"risk_level" enum:"low,medium,high,critical"`
	Rule          string   `json:"rule"`
	ReasonCode    string   `json:"reason_code"`
	ResolvedBy    string   `json:"resolved_by,omitempty"`
	ResolveReason string   `json:"resolve_reason,omitempty"`
	Args          object   `json:"args,omitzero" description:"Of an approved call: the stored arguments, which people were shown and which are what is to run. They differ from those of this call only in what the rule ignores."`
	_             struct{} `additionalProperties:"false" description:"The answer to a call."`
}

func wireAnswer(o approval.Answer) callAnswer {
	a := callAnswer{Decision: string(o.Kind), Message: o.Message, RiskLevel: string(o.Risk), Rule: o.Rule,
		ReasonCode: o.ReasonCode}
	if r := o.Request; r != nil {
		a.ApprovalID, a.ResolvedBy, a.ResolveReason = r.ID, r.ResolvedBy, r.ResolveReason
		if o.Kind == approval.AnswerPending {
			a.ExpiresAt = approval.FormatTime(r.ExpiresAt)
		}
		if o.Kind == approval.AnswerApproved {
			a.Args = r.Args
		}
	}
	return a
}

type batchAnswer struct {
	Results []callAnswer `json:"results" nullable:"false" description:"In the order of the calls."`
	_       struct{}     `additionalProperties:"false"`
}

type feedAnswer struct {
	Approvals []request `json:"approvals" nullable:"false" description:"Oldest first."`
	_         struct{}  `additionalProperties:"false"`
}

type ackAnswer struct {
	Acked       []string `json:"acked" nullable:"false"`
	NotResolved []string `json:"not_resolved" nullable:"false" description:"Still pending."`
	NotFound    []string `json:"not_found" nullable:"false"`
	_           struct{} `additionalProperties:"false"`
}

type decideAnswer struct {
	ID         string   `json:"id"`
	Status     string   `json:"status" enum:"approved,denied"`
	ApprovedBy string   `json:"approved_by,omitempty"`
	ApprovedAt string   `json:"approved_at,omitempty" format:"date-time"`
	DeniedBy   string   `json:"denied_by,omitempty"`
	DeniedAt   string   `json:"denied_at,omitempty" format:"date-time"`
	Reason     optional `json:"reason"`
	_          struct{} `additionalProperties:"false"`
}

type approvalList struct {
	Approvals []request `json:"approvals" nullable:"false" description:"Newest first."`
	Next      optional  `json:"next" description:"The after of the next page; null at the end."`
	_         struct{}  `additionalProperties:"false"`
}

type notificationList struct {
	Notifications []notification `json:"notifications" nullable:"false" description:"Newest first."`
	Next          optional       `json:"next" description:"The after of the next page; null at the end."`
	Quotas        []Quota        `json:"quotas,omitempty" description:"What channels with a monthly limit have sent this month, as far as the platform has said."`
	Heartbeat     []Beat         `json:"heartbeat,omitempty" description:"What each entry of the heartbeat that is switched on did last."`
	_             struct{}       `additionalProperties:"false"`
}

// Quota is how many messages a channel has sent this month, of how many.
type Quota struct {
	Channel string   `json:"channel"`
	Used    int      `json:"used"`
	Limit   *int     `json:"limit" description:"null: there is none."`
	At      string   `json:"at" format:"date-time" description:"When the platform said so."`
	_       struct{} `additionalProperties:"false"`
}

// Beat is the last run of one of the heartbeat's entries.
type Beat struct {
	Entry  string     `json:"entry"`
	At     *string    `json:"at" format:"date-time" description:"When it began; null: it has not run since the program's start."`
	Result string     `json:"result,omitempty" enum:"ok,failed" description:"failed: a step of it did, and the log says why; the counts are of the others."`
	Counts *BeatCount `json:"counts,omitempty"`
	_      struct{}   `additionalProperties:"false"`
}

// BeatCount is what a run moved, and how many requests waited after it.
type BeatCount struct {
	Pending    int      `json:"pending" description:"Requests that waited for a person after the run."`
	Expired    int      `json:"expired"`
	ReNotified int      `json:"re_notified" description:"Requests that people were reminded of."`
	Retried    int      `json:"retried" description:"Failed notifications that got one more try."`
	Unknown    int      `json:"unknown" description:"Calls that nobody reported back on, whose outcome is now unknown."`
	_          struct{} `additionalProperties:"false"`
}

type eventList struct {
	Events []auditEvent `json:"events" nullable:"false" description:"Newest first."`
	Next   optional     `json:"next" description:"The after of the next page; null at the end."`
	_      struct{}     `additionalProperties:"false"`
}

type problem struct {
	Type     string        `json:"type" description:"urn:countersign:problem: and the code."`
	Title    string        `json:"title"`
	Status   int           `json:"status"`
	Detail   string        `json:"detail" description:"A sentence for people."`
	Code     approval.Code `json:"code" description:"To branch on."`
	Approval *request      `json:"approval,omitempty" description:"The request it is about, where there is one and the asker may see it."`
	_        struct{}      `additionalProperties:"false" description:"RFC 9457."`
}

// What comes in, as [decode] reads it. null is as good as absent, but for args and lists.

type callBody struct {
	Tool      string    `json:"tool" required:"true" pattern:"^[A-Za-z0-9_.:-]{1,128}$"`
	Args      arguments `json:"args" nullable:"false" description:"Absent is {}. At most 64 levels deep, without repeated keys."`
	Server    optional  `json:"server" pattern:"^[A-Za-z0-9_.:-]{1,128}$"`
	Scope     optional  `json:"scope" description:"At most 1024 bytes."`
	TurnID    optional  `json:"turn_id" description:"At most 256 bytes."`
	SessionID optional  `json:"session_id" description:"At most 256 bytes."`
	Rationale optional  `json:"rationale" description:"At most 16 KiB."`
	Preview   optional  `json:"preview" description:"At most 256 KiB."`
	Method    optional  `json:"method" pattern:"^[a-z][A-Za-z/_]{0,63}$" description:"The MCP method where it is not tools/call, such as resources/read; tool is then the method with colons for slashes."`
	Digest    optional  `json:"tool_digest" pattern:"^[0-9a-f]{64}$" description:"SHA-256, in hex, of the tool as its server describes it; a change quarantines the call. It is the asking agent's word, and binds no other."`
	Dispatch  bool      `json:"dispatch" nullable:"true" description:"The asker sends the call on and reports its outcome."`
	Task      bool      `json:"task" nullable:"true" description:"The asker runs the call by itself once it is approved."`
	_         struct{}  `additionalProperties:"false" description:"One tool call that an agent wants to make."`
}

// toolsCall is the method of a call that has no other.
const toolsCall = "tools/call"

// call returns the call that agent wants to make.
func (b *callBody) call(agent string) approval.Call {
	c := approval.Call{
		Agent: agent, Tool: b.Tool, Args: b.Args.Args, Server: string(b.Server), Scope: string(b.Scope),
		TurnID: string(b.TurnID), SessionID: string(b.SessionID), Rationale: string(b.Rationale), Preview: string(b.Preview),
		Method: string(b.Method), ToolDigest: string(b.Digest), Dispatch: b.Dispatch, Task: b.Task,
	}
	if c.Method == toolsCall {
		c.Method = ""
	}
	return c
}

// arguments are a call's, read by their own rules.
type arguments struct{ args.Args }

// UnmarshalJSONFrom reads them. What is wrong with them is told by [args.Parse], also where the decoder is as strict.
func (a *arguments) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	if err != nil {
		rest := bytes.TrimLeft(d.UnreadBuffer(), ": \t\r\n")
		if v, err = jsontext.NewDecoder(bytes.NewBuffer(rest), loose...).ReadValue(); err != nil {
			return err
		}
	}
	a.Args, err = args.Parse(v)
	return err
}

// JSONSchema is an object's.
func (arguments) JSONSchema() (jsonschema.Schema, error) { return object{}.JSONSchema() }

// InlineJSONSchema keeps it from becoming a schema of its own.
func (arguments) InlineJSONSchema() {}

type batchBody struct {
	Calls batchCalls `json:"calls" required:"true" nullable:"false" minItems:"1" maxItems:"20"`
	_     struct{}   `additionalProperties:"false"`
}

// batchCalls are the calls of a batch; what is too many is refused before it is read.
type batchCalls []callBody

// UnmarshalJSONFrom reads them.
func (b *batchCalls) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*b = batchCalls{}
	return readArray(d, func(i int) error {
		if i >= approval.MaxBatch {
			return approval.Errorf(approval.CodeInvalidParameter, "A batch takes at most %d calls.", approval.MaxBatch)
		}
		if d.PeekKind() != jsontext.KindBeginObject {
			return notObject("calls[" + strconv.Itoa(i) + "]")
		}
		*b = append(*b, callBody{})
		return json.UnmarshalDecode(d, &(*b)[i])
	})
}

// InlineJSONSchema keeps it from becoming a schema of its own.
func (batchCalls) InlineJSONSchema() {}

type ackBody struct {
	IDs ackIDs   `json:"ids" required:"true" nullable:"false" maxItems:"1000"`
	_   struct{} `additionalProperties:"false"`
}

// ackIDs are ids, each once; what is too many is refused before it is read.
type ackIDs []string

// UnmarshalJSONFrom reads them.
func (a *ackIDs) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	seen := map[string]bool{}
	*a = ackIDs{}
	return readArray(d, func(i int) error {
		if i >= approval.MaxAck {
			return approval.Errorf(approval.CodeInvalidParameter, "At most %d ids are taken at once.", approval.MaxAck)
		}
		if k := d.PeekKind(); k != jsontext.KindString && k != jsontext.KindInvalid {
			return approval.Errorf(approval.CodeInvalidParameter, "ids[%d] must be a string.", i)
		}
		var id string
		if err := json.UnmarshalDecode(d, &id); err != nil {
			return err
		}
		if !seen[id] {
			seen[id] = true
			*a = append(*a, id)
		}
		return nil
	})
}

// InlineJSONSchema keeps it from becoming a schema of its own.
func (ackIDs) InlineJSONSchema() {}

type decideBody struct {
	Decision string   `json:"decision" required:"true" enum:"approve,deny"`
	Reason   optional `json:"reason" description:"At most 12000 bytes."`
	_        struct{} `additionalProperties:"false"`
}

type outcomeBody struct {
	Outcome string   `json:"outcome" required:"true" enum:"succeeded,failed,unknown" description:"unknown: it was sent and no answer came, so it may have run."`
	_       struct{} `additionalProperties:"false"`
}

type inputBody struct {
	Method  string   `json:"method" required:"true" description:"What the server asked for, such as elicitation/create."`
	Message string   `json:"message,omitempty" description:"The server's own words."`
	Answer  object   `json:"answer" required:"true" description:"What it is about to be told."`
	_       struct{} `additionalProperties:"false"`
}

type cancelBody struct {
	Reason optional `json:"reason" description:"At most 12000 bytes."`
	_      struct{} `additionalProperties:"false"`
}
