package rest

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/swaggest/jsonschema-go"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/client"
	"countersign/internal/api"
)

// The types of [client] and of this package are the JSON of /v1, and its OpenAPI document is made from them. They stand
// beside the domain's types so that both can move apart. What is nullable is null where it is zero.

// object is a JSON object that is kept as it was sent.
type object jsontext.Value

// UnmarshalJSONFrom keeps it.
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

// request is a request as people who may see it are shown it.
func (s *Server) request(r approval.Request) client.Approval { return api.FromRequest(r, s.summary(r)) }

func wireNotification(n approval.Notification) client.Notification {
	w := client.Notification{
		ID: n.ID, ApprovalID: n.ApprovalID, Channel: n.Channel, Recipient: n.Recipient, Kind: string(n.Kind),
		Status: string(n.Status), Attempt: n.Attempt, MessageID: n.MessageID, HTTPStatus: n.HTTPStatus, Error: n.Error,
		SentAt: api.At(n.SentAt), CreatedAt: api.At(n.CreatedAt), UpdatedAt: api.At(n.UpdatedAt),
	}
	if n.Status == approval.Queued || n.Status == approval.Retrying {
		w.NextAttemptAt = api.At(n.NextAttemptAt)
	}
	return w
}

func wireEvent(e approval.Event) client.AuditEvent {
	return client.AuditEvent{
		ID: e.ID, Seq: e.Seq, At: api.At(e.At), EventType: string(e.Type), CorrelationID: e.CorrelationID, Actor: e.Actor,
		ApprovalID: e.ApprovalID, Agent: e.Agent, Tool: e.Tool, RiskLevel: string(e.Risk), Decision: e.Decision,
		Reason: e.Reason, Data: e.Data,
	}
}

type batchAnswer struct {
	Results []client.Answer `json:"results" nullable:"false" description:"In the order of the calls."`
	_       struct{}        `additionalProperties:"false"`
}

type feedAnswer struct {
	Approvals []client.Approval `json:"approvals" nullable:"false" description:"Oldest first."`
	_         struct{}          `additionalProperties:"false"`
}

type decideAnswer struct {
	ID         string        `json:"id"`
	Status     string        `json:"status" enum:"approved,denied"`
	ApprovedBy string        `json:"approved_by,omitempty" description:"All whose votes counted, and for whom: hana and ken for mei."`
	ApprovedAt string        `json:"approved_at,omitempty" format:"date-time"`
	DeniedBy   string        `json:"denied_by,omitempty"`
	DeniedAt   string        `json:"denied_at,omitempty" format:"date-time"`
	Reason     string        `json:"reason" nullable:"true"`
	Replaces   string        `json:"replaces,omitempty" description:"If other args were approved: the request with the args that were asked for; id is the new request's."`
	Grant      *client.Grant `json:"grant,omitempty" description:"What answers the same call from now on, if the decision asked for that."`
	_          struct{}      `additionalProperties:"false" description:"The request has ended."`
}

// voteAnswer is the answer to a vote that is not the last.
type voteAnswer struct {
	ID       string         `json:"id"`
	Status   string         `json:"status" const:"pending"`
	Votes    []client.Vote  `json:"votes" nullable:"false" description:"Those that count now."`
	Needs    []client.Stage `json:"needs" nullable:"false"`
	Replaces string         `json:"replaces,omitempty" description:"If other args were approved: the request with the args that were asked for; id is the new request's."`
	_        struct{}       `additionalProperties:"false" description:"A vote that is not the last: the request is still pending."`
}

// wireVoted is the answer to a vote that left the request pending, with the votes that count.
func wireVoted(r approval.Request, votes []approval.Vote) decideResult {
	return decideResult{voteAnswer{ID: r.ID, Status: string(r.Status), Votes: api.Each(votes, api.FromVote),
		Needs: api.FromNeed(r.Need), Replaces: r.Replaces}}
}

// wireDecided is the answer to a decision that ended the request.
func wireDecided(r approval.Request, g *client.Grant) decideResult {
	a := decideAnswer{ID: r.ID, Status: string(r.Status), Reason: r.ResolveReason, Replaces: r.Replaces,
		Grant: g}
	ended := approval.FormatTime(r.ResolvedAt)
	if r.Status == approval.Approved {
		a.ApprovedBy, a.ApprovedAt = r.WhoEnded(), ended
	} else {
		a.DeniedBy, a.DeniedAt = r.WhoEnded(), ended
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

func wireFreeze(e approval.Epoch) client.Freeze {
	return client.Freeze{Agent: e.Agent, Frozen: e.Frozen, FrozenAt: api.At(e.FrozenAt),
		FrozenBy: e.FrozenBy, Via: string(e.Via), Reason: e.Reason}
}

type freezeList struct {
	Frozen []client.Freeze `json:"frozen" nullable:"false"`
	_      struct{}        `additionalProperties:"false"`
}

// clockAccepted is how far the clock was off; the document calls it ClockAccepted.
type clockAccepted struct {
	OffMS int64    `json:"off_ms" required:"true" description:"How far it had jumped ahead of the store's time; below 0: how far it is behind."`
	_     struct{} `additionalProperties:"false"`
}

func (s *Server) wireDelegation(d approval.Delegation) client.Delegation {
	rule, holds := d.RuleNow(s.gate.Policy())
	return client.Delegation{ID: d.ID, For: d.Delegator, To: d.Delegate, From: api.At(d.From), Until: api.At(d.Until),
		Rule: rule, RuleGone: !holds, CreatedAt: api.At(d.CreatedAt), CreatedBy: d.CreatedBy, EndedAt: api.At(d.EndedAt),
		EndedBy: d.EndedBy}
}

type delegationList struct {
	Delegations []client.Delegation `json:"delegations" nullable:"false" description:"Those that apply now or later."`
	_           struct{}            `additionalProperties:"false"`
}

type approvalList struct {
	Approvals []client.Approval `json:"approvals" nullable:"false" description:"Newest first."`
	Next      string            `json:"next" nullable:"true" description:"The after of the next page, also where this one is not full, or empty; null at the end."`
	_         struct{}          `additionalProperties:"false"`
}

type notificationList struct {
	Notifications []client.Notification `json:"notifications" nullable:"false" description:"Newest first."`
	Next          string                `json:"next" nullable:"true" description:"The after of the next page, also where this one is not full, or empty; null at the end."`
	Quotas        []client.Quota        `json:"quotas,omitempty" description:"What channels with a monthly limit have sent this month, as far as the platform has said."`
	Heartbeat     []client.Beat         `json:"heartbeat,omitempty" description:"The last run of each heartbeat entry that is switched on."`
	_             struct{}              `additionalProperties:"false"`
}

type eventList struct {
	Events []client.AuditEvent `json:"events" nullable:"false" description:"Newest first."`
	Next   string              `json:"next" nullable:"true" description:"The after of the next page, also where this one is not full, or empty; null at the end."`
	_      struct{}            `additionalProperties:"false"`
}

type problem struct {
	Type     string           `json:"type" description:"urn:countersign:problem: and the code."`
	Title    string           `json:"title"`
	Status   int              `json:"status"`
	Detail   string           `json:"detail" description:"A sentence for people."`
	Code     approval.Code    `json:"code" description:"A fixed word for programs to branch on."`
	Approval *client.Approval `json:"approval,omitempty" description:"The request it is about, if there is one and the caller may see it."`
	_        struct{}         `additionalProperties:"false" description:"RFC 9457."`
}

// What comes in, as [decode] reads it. null is as good as absent, but for args and lists.

// callBody is a call whose args are read by their own rules.
type callBody struct {
	Args arguments `json:"args"`
	client.Call
	_ struct{} `additionalProperties:"false" description:"One tool call that an agent wants to make."`
}

// call returns the call that agent wants to make.
func (b *callBody) call(agent string) approval.Call { return api.ToCall(b.Call, agent, b.Args.Args) }

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
	Reason    string     `json:"reason" nullable:"true" description:"At most 12000 bytes."`
	Confirmed bool       `json:"confirmed" nullable:"true" description:"The approver was told what will happen and said yes again; some rules need it."`
	Args      editedArgs `json:"args" nullable:"false" description:"Args to approve instead of those asked for; only with approve."`
	Grant     *grantBody `json:"grant" description:"Makes the decision apply for longer: the same call is then let through, or denied, without asking."`
	Version   string     `json:"version" nullable:"true" description:"The version of the request that was seen: a request that has changed since is not decided."`
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
	Reason    string     `json:"reason" nullable:"true" description:"At most 12000 bytes; of each."`
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
	Agent  string   `json:"agent" nullable:"true" description:"Absent: all agents."`
	Reason string   `json:"reason" nullable:"true" description:"At most 12000 bytes; agents and people are told."`
	_      struct{} `additionalProperties:"false"`
}

type eraseBody struct {
	Request string   `json:"request" nullable:"true" description:"One request; the end of its id is enough. Either this or agent."`
	Agent   string   `json:"agent" nullable:"true" description:"All requests of this agent, also of one that is not configured any more."`
	After   string   `json:"after" nullable:"true" description:"With agent: the next of the answer before."`
	_       struct{} `additionalProperties:"false"`
}

// erased is what was erased; the document calls it Erased.
type erased struct {
	Requests int    `json:"requests" required:"true" description:"Of how many requests arguments and texts were removed."`
	Kept     int    `json:"kept" required:"true" description:"How many are as they were: live, or nothing is left of them, or something is still to come of them."`
	Next     string `json:"next,omitempty" description:"With agent, and if there may be more: the after to go on with."`
}

type delegationBody struct {
	To    string   `json:"to" required:"true" description:"Who votes: a person with the role approver."`
	Until string   `json:"until" required:"true" format:"date-time" description:"When it ends; exclusive, and at most 30 days after it begins."`
	From  string   `json:"from" nullable:"true" format:"date-time" description:"Absent: now."`
	Rule  string   `json:"rule" nullable:"true" description:"Only requests of this rule; absent: all."`
	For   string   `json:"for" nullable:"true" description:"Whose votes; only an admin sets it up for others. Absent: the caller's."`
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
	Reason string   `json:"reason" nullable:"true" description:"At most 12000 bytes."`
	_      struct{} `additionalProperties:"false"`
}
