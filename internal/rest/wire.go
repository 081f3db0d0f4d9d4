package rest

import (
	"bytes"
	"cmp"
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
	Method        string   `json:"method,omitempty" description:"If present, the call is not a tool's but one of this MCP method."`
	Args          object   `json:"args" nullable:"false" description:"The canonical args, whole and unmasked: what was hashed and what will run."`
	ArgsHash      string   `json:"args_hash" description:"SHA-256, in hex, of the canonical args less those that the rule ignores." pattern:"^[0-9a-f]{64}$"`
	RiskLevel     string   `json:"risk_level" enum:"low,medium,high,critical"`
	Rule          string   `json:"rule" description:"The rule that decided; empty when none matched."`
	ReasonCode    string   `json:"reason_code"`
	Summary       string   `json:"summary" description:"What will happen, in one sentence: the rule's, or else one made from the tool and its args, with secrets masked."`
	HumanMessage  string   `json:"human_message" description:"Why a person is asked."`
	Rationale     string   `json:"rationale" description:"Written by the agent, not verified."`
	Preview       string   `json:"preview" description:"The effect as the agent describes it, not verified."`
	PreviewFrom   string   `json:"preview_from,omitempty" description:"If present, the gate made the preview, from what this tool of the call's server returned just before people were asked."`
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
	DispatchedAt  optional `json:"dispatched_at" format:"date-time" description:"When the call was let through to whoever sends it and reports its outcome."`
	RunResult     optional `json:"outcome" enum:"[\"succeeded\",\"failed\",\"unknown\",null]" description:"What came of the dispatched call; unknown: it may have run."`
	Inputs        []input  `json:"inputs,omitempty" description:"What the agent's side told the call's server after the approval; no approver saw it. Absent: nothing."`
	Previous      *use     `json:"previous" description:"The last use of an approval of the same call, within the 24 hours before this request."`
	Votes         []vote   `json:"votes" nullable:"false" description:"People's votes, in order; an agent sees them once the request has ended. If one person decided alone, that decision."`
	Needs         []stage  `json:"needs" nullable:"false" description:"Who must say yes: the stages, met in order."`
	StepUp        optional `json:"step_up" enum:"[\"passkey\",null]" description:"passkey: it is approved only on its page, with a passkey."`
	Replaces      optional `json:"replaces" description:"The request whose args a person replaced with these."`
	ReplacedBy    optional `json:"replaced_by" description:"If it ended as edited: the request with the args that a person approved instead."`
	PolicyDigest  optional `json:"policy_digest" description:"The digest of the policy that judged it last; /v1/policies/{digest} has its text."`
	BatchID       optional `json:"batch_id" description:"Shared by the requests that people get on one card."`
	Before        *said    `json:"before" description:"What a person last said of this tool to this agent, within the 24 hours before this request."`
	Message       optional `json:"message" description:"How it ended, as the agent's model is told; null while pending."`
	Version       string   `json:"version" description:"The version of the request as it stands; a decision can name the version that was seen."`
	_             struct{} `additionalProperties:"false" description:"A stored approval request. null means: there is none, or not yet."`
}

func (s *Server) wireRequest(r approval.Request) request {
	return request{
		ID: r.ID, Status: string(r.Status), Agent: r.Agent, Scope: r.Scope, Server: r.Server, Tool: r.Tool,
		Method: r.Method, Args: r.Args, ArgsHash: r.ArgsHash, RiskLevel: string(r.Risk), Rule: r.Rule,
		ReasonCode:   cmp.Or(r.EndCode, r.ReasonCode),
		Summary:      s.summary(r),
		HumanMessage: r.HumanMessage,
		Rationale:    r.Rationale, Preview: r.Preview, PreviewFrom: r.PreviewFrom, TurnID: r.TurnID,
		SessionID:   r.SessionID,
		RequestedAt: approval.FormatTime(r.RequestedAt), ExpiresAt: approval.FormatTime(r.ExpiresAt),
		ResolvedAt: optional(approval.FormatTime(r.ResolvedAt)), ResolvedBy: optional(r.ResolvedBy),
		ResolvedVia:   optional(r.ResolvedVia),
		ResolveReason: optional(r.ResolveReason), UseBy: optional(approval.FormatTime(r.UseBy)),
		ConsumedAt: optional(approval.FormatTime(r.ConsumedAt)), LapsedAt: optional(approval.FormatTime(r.LapsedAt)),
		Task: r.Task, DispatchedAt: optional(approval.FormatTime(r.DispatchedAt)), RunResult: optional(r.RunResult),
		Inputs: wire(r.Inputs, wireInput), Previous: wireUse(r.Previous),
		Votes: wireVotes(r), Needs: wire(r.Need.InStages(), wireStage),
		StepUp: optional(r.Need.StepUpWord()), Replaces: optional(r.Replaces), ReplacedBy: optional(r.ReplacedBy),
		PolicyDigest: optional(r.Policy), BatchID: optional(r.BatchID), Before: wireSaid(r.Before),
		Message: optional(r.FeedMessage()), Version: r.Version(),
	}
}

// said is a person's last word about a tool; the document calls it Said.
type said struct {
	RequestID string   `json:"request_id"`
	Approved  bool     `json:"approved"`
	By        string   `json:"by"`
	At        string   `json:"at" format:"date-time"`
	Reason    optional `json:"reason"`
	_         struct{} `additionalProperties:"false" description:"What a person said of an earlier request."`
}

// PrepareJSONSchema says that it may be null.
func (said) PrepareJSONSchema(s *jsonschema.Schema) error {
	s.AddType(jsonschema.Null)
	return nil
}

func wireSaid(s *approval.Said) *said {
	if s == nil {
		return nil
	}
	return &said{RequestID: s.RequestID, Approved: s.Approved, By: s.By, At: approval.FormatTime(s.At),
		Reason: optional(s.Reason)}
}

// vote is what one person said of a request; the document calls it Vote.
type vote struct {
	Stage    int      `json:"stage" minimum:"1" description:"Which of the needs it is for, from 1."`
	Person   string   `json:"person"`
	For      optional `json:"for" description:"The person for whom they stand in."`
	Decision string   `json:"decision" enum:"approve,deny"`
	Reason   optional `json:"reason"`
	At       string   `json:"at" format:"date-time"`
	Via      string   `json:"via"`
	StepUp   optional `json:"step_up" enum:"[\"passkey\",null]" description:"passkey: it was given with one, used for this very request."`
	_        struct{} `additionalProperties:"false" description:"One person's vote."`
}

func wireVote(v approval.Vote) vote {
	return vote{Stage: v.Stage, Person: v.Person, For: optional(v.For), Decision: verdict(v),
		Reason: optional(v.Reason), At: approval.FormatTime(v.At), Via: string(v.Via),
		StepUp: optional(v.StepUpWord())}
}

// verdict is the word for a yes or a no.
func verdict(v approval.Vote) string {
	if v.Approve {
		return "approve"
	}
	return "deny"
}

// wireVotes are a request's votes. Where one person simply decided, that decision is the one vote.
func wireVotes(r approval.Request) []vote {
	simply := r.Status == approval.Approved || r.Status == approval.Denied
	if len(r.Votes) > 0 || !simply || r.EndCode != "" || r.ResolvedVia == approval.ViaSystem {
		return wire(r.Votes, wireVote)
	}
	return []vote{wireVote(approval.Vote{Stage: 1, Person: r.ResolvedBy, Approve: r.Status == approval.Approved,
		Reason: r.ResolveReason, At: r.ResolvedAt, Via: r.ResolvedVia})}
}

// stage is one step of who must say yes; the document calls it Stage.
type stage struct {
	Group     string   `json:"group,omitempty" description:"People of this group."`
	Approvers []string `json:"approvers,omitempty" description:"In place of group: people and groups by name. Neither: any approver."`
	Count     int      `json:"count" minimum:"1" description:"How many different people."`
	_         struct{} `additionalProperties:"false" description:"So many different people out of these."`
}

func wireStage(s approval.Stage) stage {
	return stage{Group: s.Group, Approvers: s.Approvers, Count: s.Count}
}

// input is an answer that a call's server was given; the document calls it Input.
type input struct {
	At      string   `json:"at" format:"date-time"`
	Method  string   `json:"method" description:"What the server asked for."`
	Message string   `json:"message" description:"The server's message; empty if it sent none."`
	Answer  string   `json:"answer" description:"JSON; secrets are masked, and what is long is cut."`
	_       struct{} `additionalProperties:"false" description:"An answer that was given after the approval."`
}

func wireInput(in approval.Input) input {
	return input{At: approval.FormatTime(in.At), Method: in.Method, Message: in.Message, Answer: in.Answer}
}

// use is an earlier use of an approval; the document calls it Use.
type use struct {
	ApprovalID   string   `json:"approval_id" description:"If a grant let the call through: its run_id instead of a request's id."`
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
	ApprovalID    string   `json:"approval_id,omitempty" description:"If there is a request."`
	GrantID       string   `json:"grant_id,omitempty" description:"The grant that let the call through (reason_code granted), or the standing denial that denied it."`
	RunID         string   `json:"run_id,omitempty" description:"If a grant let a call with dispatch through: the id to report its outcome under, instead of a request's id."`
	ExpiresAt     string   `json:"expires_at,omitempty" format:"date-time" description:"If pending: the deadline."`
	Message       string   `json:"message" description:"For the model, word for word."`
	RiskLevel     string   `json:"risk_level" enum:"low,medium,high,critical"`
	Rule          string   `json:"rule"`
	ReasonCode    string   `json:"reason_code"`
	ResolvedBy    string   `json:"resolved_by,omitempty"`
	ResolveReason string   `json:"resolve_reason,omitempty"`
	Args          object   `json:"args,omitzero" description:"If approved: the arguments that people were shown. Run these. They differ from this call's only in what the rule ignores or, if the call accepts edits, in what a person changed; then replaces is set."`
	Replaces      string   `json:"replaces,omitempty" description:"If a person changed the arguments and approved them: the request with the arguments that were asked for."`
	Note          string   `json:"note,omitempty" description:"If a person changed the arguments and approved them: what to tell the model beside the result."`
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
			a.Args, a.Note = r.Args, o.Note
			if o.Args != nil {
				a.Args, a.Replaces = o.Args, r.Replaces
			}
		}
	}
	if g := o.Grant; g != nil {
		a.GrantID = g.ID
		if a.ResolvedBy == "" {
			a.ResolvedBy, a.ResolveReason = g.By, g.Reason
		}
		if o.Kind == approval.AnswerAllow {
			a.RunID = o.RunID
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
	ApprovedBy string   `json:"approved_by,omitempty" description:"All whose votes counted, and for whom: hana and ken for mei."`
	ApprovedAt string   `json:"approved_at,omitempty" format:"date-time"`
	DeniedBy   string   `json:"denied_by,omitempty"`
	DeniedAt   string   `json:"denied_at,omitempty" format:"date-time"`
	Reason     optional `json:"reason"`
	Replaces   string   `json:"replaces,omitempty" description:"If other args were approved: the request with the args that were asked for; id is the new request's."`
	Grant      *grant   `json:"grant,omitempty" description:"What answers the same call from now on, if the decision asked for that."`
	_          struct{} `additionalProperties:"false" description:"The request has ended."`
}

// voteAnswer is the answer to a vote that is not the last.
type voteAnswer struct {
	ID       string   `json:"id"`
	Status   string   `json:"status" const:"pending"`
	Votes    []vote   `json:"votes" nullable:"false" description:"Those that count now."`
	Needs    []stage  `json:"needs" nullable:"false"`
	Replaces string   `json:"replaces,omitempty" description:"If other args were approved: the request with the args that were asked for; id is the new request's."`
	_        struct{} `additionalProperties:"false" description:"A vote that is not the last: the request is still pending."`
}

// wireVoted is the answer to a vote that left the request pending, with the votes that count.
func wireVoted(r approval.Request, votes []approval.Vote) decideResult {
	return decideResult{voteAnswer{ID: r.ID, Status: string(r.Status), Votes: wire(votes, wireVote),
		Needs: wire(r.Need.InStages(), wireStage), Replaces: r.Replaces}}
}

// wireDecided is the answer to a decision that ended the request.
func wireDecided(r approval.Request, g *grant) decideResult {
	a := decideAnswer{ID: r.ID, Status: string(r.Status), Reason: optional(r.ResolveReason), Replaces: r.Replaces,
		Grant: g}
	at := approval.FormatTime(r.ResolvedAt)
	if r.Status == approval.Approved {
		a.ApprovedBy, a.ApprovedAt = r.WhoEnded(), at
	} else {
		a.DeniedBy, a.DeniedAt = r.WhoEnded(), at
	}
	return decideResult{a}
}

// refusedAnswer is what one of several decisions came to that was refused.
type refusedAnswer struct {
	ID    string   `json:"id" description:"As it was sent."`
	Error problem  `json:"error" description:"What decide would have answered, without the request."`
	_     struct{} `additionalProperties:"false"`
}

type decideManyAnswer struct {
	Results []decideResult `json:"results" nullable:"false" description:"In the order of the ids."`
	_       struct{}       `additionalProperties:"false"`
}

// decideResult is a decideAnswer, a voteAnswer or a refusedAnswer.
type decideResult struct{ is any }

// MarshalJSONTo writes the one that it is.
func (d decideResult) MarshalJSONTo(e *jsontext.Encoder) error { return json.MarshalEncode(e, d.is) }

// JSONSchemaOneOf says what it may be.
func (decideResult) JSONSchemaOneOf() []any {
	return []any{decideAnswer{}, voteAnswer{}, refusedAnswer{}}
}

// InlineJSONSchema keeps it from becoming a schema of its own.
func (decideResult) InlineJSONSchema() {}

// decisionAnswer is a decideAnswer or a voteAnswer.
type decisionAnswer struct{ decideResult }

// JSONSchemaOneOf says what it may be.
func (decisionAnswer) JSONSchemaOneOf() []any { return []any{decideAnswer{}, voteAnswer{}} }

// freeze is what is frozen; the document calls it Freeze.
type freeze struct {
	Agent    optional `json:"agent" description:"null: all agents."`
	Frozen   bool     `json:"frozen" description:"Calls are denied until somebody lifts it."`
	FrozenAt string   `json:"frozen_at" format:"date-time"`
	FrozenBy string   `json:"frozen_by"`
	Via      string   `json:"via"`
	Reason   string   `json:"reason"`
	_        struct{} `additionalProperties:"false" description:"A freeze: one agent, or all, may run nothing."`
}

func wireFreeze(e approval.Epoch) freeze {
	return freeze{Agent: optional(e.Agent), Frozen: e.Frozen, FrozenAt: approval.FormatTime(e.FrozenAt),
		FrozenBy: e.FrozenBy, Via: string(e.Via), Reason: e.Reason}
}

type freezeList struct {
	Frozen []freeze `json:"frozen" nullable:"false"`
	_      struct{} `additionalProperties:"false"`
}

// clockAccepted is how far the clock was off; the document calls it ClockAccepted.
type clockAccepted struct {
	OffMS int64    `json:"off_ms" required:"true" description:"How far it had jumped ahead of the store's time; below 0: how far it is behind."`
	_     struct{} `additionalProperties:"false"`
}

// delegation is one person voting for another; the document calls it Delegation.
type delegation struct {
	ID        string   `json:"id"`
	For       string   `json:"for" description:"Who is away."`
	To        string   `json:"to" description:"Who votes for them."`
	From      string   `json:"from" format:"date-time"`
	Until     string   `json:"until" format:"date-time" description:"When it ends; exclusive."`
	Rule      optional `json:"rule" description:"Only requests of this rule, as it is called now; null: all."`
	RuleGone  bool     `json:"rule_gone,omitempty" description:"That rule was changed or removed since: the delegation covers nothing."`
	CreatedAt string   `json:"created_at" format:"date-time"`
	CreatedBy string   `json:"created_by"`
	EndedAt   optional `json:"ended_at" format:"date-time" description:"When it was ended before its time."`
	EndedBy   optional `json:"ended_by"`
	_         struct{} `additionalProperties:"false" description:"One person votes for another, for a while."`
}

func (s *Server) wireDelegation(d approval.Delegation) delegation {
	rule, holds := s.gate.RuleOf(d)
	return delegation{ID: d.ID, For: d.Delegator, To: d.Delegate, From: approval.FormatTime(d.From),
		Until: approval.FormatTime(d.Until), Rule: optional(rule), RuleGone: !holds,
		CreatedAt: approval.FormatTime(d.CreatedAt),
		CreatedBy: d.CreatedBy, EndedAt: optional(approval.FormatTime(d.EndedAt)), EndedBy: optional(d.EndedBy)}
}

type delegationList struct {
	Delegations []delegation `json:"delegations" nullable:"false" description:"Those that apply now or later."`
	_           struct{}     `additionalProperties:"false"`
}

type approvalList struct {
	Approvals []request `json:"approvals" nullable:"false" description:"Newest first."`
	Next      optional  `json:"next" description:"The after of the next page, also where this one is not full, or empty; null at the end."`
	_         struct{}  `additionalProperties:"false"`
}

type notificationList struct {
	Notifications []notification `json:"notifications" nullable:"false" description:"Newest first."`
	Next          optional       `json:"next" description:"The after of the next page, also where this one is not full, or empty; null at the end."`
	Quotas        []Quota        `json:"quotas,omitempty" description:"What channels with a monthly limit have sent this month, as far as the platform has said."`
	Heartbeat     []Beat         `json:"heartbeat,omitempty" description:"The last run of each heartbeat entry that is switched on."`
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
	Result string     `json:"result,omitempty" enum:"ok,failed" description:"failed: a step failed, and the log says why; the counts are those of the other steps."`
	Counts *BeatCount `json:"counts,omitempty"`
	_      struct{}   `additionalProperties:"false"`
}

// BeatCount is what a run moved, and how many requests waited after it.
type BeatCount struct {
	Pending    int      `json:"pending" description:"Requests that waited for a person after the run."`
	Expired    int      `json:"expired"`
	ReNotified int      `json:"re_notified" description:"Requests that people were reminded of."`
	Retried    int      `json:"retried" description:"Failed notifications that got one more try."`
	Unknown    int      `json:"unknown" description:"Calls whose outcome nobody reported; it is now unknown."`
	_          struct{} `additionalProperties:"false"`
}

type eventList struct {
	Events []auditEvent `json:"events" nullable:"false" description:"Newest first."`
	Next   optional     `json:"next" description:"The after of the next page, also where this one is not full, or empty; null at the end."`
	_      struct{}     `additionalProperties:"false"`
}

type problem struct {
	Type     string        `json:"type" description:"urn:countersign:problem: and the code."`
	Title    string        `json:"title"`
	Status   int           `json:"status"`
	Detail   string        `json:"detail" description:"A sentence for people."`
	Code     approval.Code `json:"code" description:"A fixed word for programs to branch on."`
	Approval *request      `json:"approval,omitempty" description:"The request it is about, if there is one and the caller may see it."`
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
	Digest    optional  `json:"tool_digest" pattern:"^[0-9a-f]{64}$" description:"SHA-256, in hex, of the tool as its server describes it; after a change people are asked about the call. It is the calling agent's claim, and binds no other agent."`
	Listed    optional  `json:"tool_digest_listed" pattern:"^[0-9a-f]{64}$" description:"The same of the tool with its schema's lists in the order in which the server wrote them, where that is another. Tools that were remembered by it are known by it."`
	Dispatch  bool      `json:"dispatch" nullable:"true" description:"The caller sends the call and reports its outcome."`
	Task      bool      `json:"task" nullable:"true" description:"The caller runs the call by itself once it is approved."`
	Edits     bool      `json:"accepts_edits" nullable:"true" description:"The caller runs the arguments that a person approved instead of these."`
	Waits     bool      `json:"waits" nullable:"true" description:"The agent waits for the answer before it goes on. People are then told at once of a call that joins a card they already have."`
	Hints     *hints    `json:"annotations" description:"What the tool's MCP server says about it: a claim, not a proof."`
	_         struct{}  `additionalProperties:"false" description:"One tool call that an agent wants to make."`
}

// hints are an MCP server's of a tool; the document calls them Annotations.
type hints struct {
	ReadOnly    *bool    `json:"readOnly"`
	Destructive *bool    `json:"destructive"`
	Idempotent  *bool    `json:"idempotent"`
	OpenWorld   *bool    `json:"openWorld"`
	_           struct{} `additionalProperties:"false" description:"An MCP server's hints about a tool; an absent hint was not given."`
}

// PrepareJSONSchema says that it may be null.
func (hints) PrepareJSONSchema(s *jsonschema.Schema) error {
	s.AddType(jsonschema.Null)
	return nil
}

// toolsCall is the method of a call that has no other.
const toolsCall = "tools/call"

// call returns the call that agent wants to make.
func (b *callBody) call(agent string) approval.Call {
	c := approval.Call{
		Agent: agent, Tool: b.Tool, Args: b.Args.Args, Server: string(b.Server), Scope: string(b.Scope),
		TurnID: string(b.TurnID), SessionID: string(b.SessionID), Rationale: string(b.Rationale), Preview: string(b.Preview),
		Method: string(b.Method), ToolDigest: string(b.Digest), ListedDigest: string(b.Listed),
		Dispatch: b.Dispatch, Task: b.Task, AcceptsEdits: b.Edits,
		Waits: b.Waits,
	}
	if h := b.Hints; h != nil {
		c.Annotations = &approval.Annotations{ReadOnly: h.ReadOnly, Destructive: h.Destructive, Idempotent: h.Idempotent,
			OpenWorld: h.OpenWorld}
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
	return readIDs(d, approval.MaxAck, func(id string) {
		if !seen[id] {
			seen[id] = true
			*a = append(*a, id)
		}
	})
}

// readIDs reads an array of at most so many ids.
func readIDs(d *jsontext.Decoder, most int, keep func(id string)) error {
	return readArray(d, func(i int) error {
		if i >= most {
			return approval.Errorf(approval.CodeInvalidParameter, "At most %d ids are taken at once.", most)
		}
		if k := d.PeekKind(); k != jsontext.KindString && k != jsontext.KindInvalid {
			return approval.Errorf(approval.CodeInvalidParameter, "ids[%d] must be a string.", i)
		}
		var id string
		if err := json.UnmarshalDecode(d, &id); err != nil {
			return err
		}
		keep(id)
		return nil
	})
}

// InlineJSONSchema keeps it from becoming a schema of its own.
func (ackIDs) InlineJSONSchema() {}

type decideBody struct {
	Decision  string     `json:"decision" required:"true" enum:"approve,deny"`
	Reason    optional   `json:"reason" description:"At most 12000 bytes."`
	Confirmed bool       `json:"confirmed" nullable:"true" description:"The approver was told what will happen and said yes again; some rules need it."`
	Args      editedArgs `json:"args" nullable:"false" description:"Args to approve instead of those asked for; only with approve."`
	Grant     *grantBody `json:"grant" description:"Makes the decision apply for longer: the same call is then let through, or denied, without asking."`
	Version   optional   `json:"version" description:"The version of the request that was seen: a request that has changed since is not decided."`
	_         struct{}   `additionalProperties:"false"`
}

// editedArgs are arguments that may be absent, which are not then {}.
type editedArgs struct {
	arguments
	given bool
}

// UnmarshalJSONFrom reads them.
func (a *editedArgs) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	a.given = true
	return a.arguments.UnmarshalJSONFrom(d)
}

type decideManyBody struct {
	IDs       decideIDs  `json:"ids" required:"true" nullable:"false" minItems:"1" maxItems:"100"`
	Decision  string     `json:"decision" required:"true" enum:"approve,deny"`
	Reason    optional   `json:"reason" description:"At most 12000 bytes; of each."`
	Confirmed bool       `json:"confirmed" nullable:"true" description:"As with one."`
	Grant     *grantBody `json:"grant" description:"As with one; each gets its own."`
	_         struct{}   `additionalProperties:"false"`
}

// decideIDs are ids, in order; what is too many is refused before it is read.
type decideIDs []string

// UnmarshalJSONFrom reads them.
func (a *decideIDs) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*a = decideIDs{}
	return readIDs(d, approval.MaxDecideMany, func(id string) { *a = append(*a, id) })
}

// InlineJSONSchema keeps it from becoming a schema of its own.
func (decideIDs) InlineJSONSchema() {}

type freezeBody struct {
	Agent  optional `json:"agent" description:"Absent: all agents."`
	Reason optional `json:"reason" description:"At most 12000 bytes; agents and people are told."`
	_      struct{} `additionalProperties:"false"`
}

type delegationBody struct {
	To    string   `json:"to" required:"true" description:"Who votes: a person with the role approver."`
	Until string   `json:"until" required:"true" format:"date-time" description:"When it ends; exclusive, and at most 30 days after it begins."`
	From  optional `json:"from" format:"date-time" description:"Absent: now."`
	Rule  optional `json:"rule" description:"Only requests of this rule; absent: all."`
	For   optional `json:"for" description:"Whose votes; only an admin sets it up for others. Absent: the caller's."`
	_     struct{} `additionalProperties:"false"`
}

type outcomeBody struct {
	Outcome string   `json:"outcome" required:"true" enum:"succeeded,failed,unknown" description:"unknown: it was sent and no answer came, so it may have run."`
	_       struct{} `additionalProperties:"false"`
}

type inputBody struct {
	Method  string   `json:"method" required:"true" description:"What the server asked for, such as elicitation/create."`
	Message string   `json:"message,omitempty" description:"The server's message."`
	Answer  object   `json:"answer" required:"true" description:"What the server is about to be told."`
	_       struct{} `additionalProperties:"false"`
}

type cancelBody struct {
	Reason optional `json:"reason" description:"At most 12000 bytes."`
	_      struct{} `additionalProperties:"false"`
}
