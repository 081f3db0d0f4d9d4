package rest

import (
	"net/http"

	"countersign/approval"
)

// routeDoc is what the OpenAPI document says of a route. Its query is also what the route takes.
type routeDoc struct {
	id           string // operationId
	summary      string
	description  string
	tag          string
	query        []queryParam
	header       []queryParam
	body         any
	bodyOptional bool
	answers      []answerDoc
	errors       []approval.Code // beside those that every route of its kind has
}

type queryParam struct {
	name, description string
	schema            map[string]any
}

type answerDoc struct {
	status      int
	description string
	body        any    // of JSON
	mediaType   string // default application/json
}

func words[T ~string](ws ...T) map[string]any {
	return map[string]any{"type": "string", "enum": ws}
}

var (
	anyText   = map[string]any{"type": "string"}
	nameText  = map[string]any{"type": "string", "pattern": `^[A-Za-z0-9_.:-]{1,128}$`}
	idText    = map[string]any{"type": "string", "pattern": `^[0-7][0-9A-HJKMNP-TV-Z]{25}$`}
	timeText  = map[string]any{"type": "string", "format": "date-time"}
	waitText  = map[string]any{"type": "string", "examples": []string{"30s", "30"}}
	limitText = map[string]any{"type": "integer", "minimum": 1, "maximum": maxLimit, "default": defaultLimit}
	riskWords = words(approval.RiskLow, approval.RiskMedium, approval.RiskHigh, approval.RiskCritical)

	waitParam  = queryParam{"wait", "How long to hold the answer; at most 60 s.", waitText}
	limitParam = queryParam{"limit", "How many rows at most.", limitText}
	toolParam  = queryParam{"tool", "A tool's name, or server/tool.", anyText}
	agentParam = queryParam{"agent", "An agent's name.", nameText}
	riskParam  = queryParam{"risk_level", "", riskWords}

	clientHeader = queryParam{headerClient, "cli has it recorded as done on the command line.", anyText}
)

// table lists every path of the API.
func (s *Server) table() []route { //nolint:funlen // a table
	callErrors := []approval.Code{approval.CodeAgentsOnly, approval.CodeInvalidArgs, approval.CodeInvalidTool,
		approval.CodeTooManyPending}
	return []route{
		{
			method: http.MethodGet, path: "/openapi.json", public: true, handle: s.openAPI,
			doc: routeDoc{id: "openapi", tag: "everyone", summary: "This document.",
				answers: []answerDoc{{http.StatusOK, "The OpenAPI document.", object{}, ""}}},
		},
		{
			method: http.MethodPost, path: "/v1/calls", audience: agents, handle: s.call,
			doc: routeDoc{id: "call", tag: "agents", summary: "Ask whether a call may run now.",
				description: "An approved answer has used the approval: run the call or lose it. With wait the answer is held " +
					"until the request that " +
					"this call made or joined ends; it never makes another, and a client that goes away uses nothing up.",
				query: []queryParam{waitParam}, body: callBody{},
				answers: []answerDoc{
					{http.StatusOK, "Decided.", callAnswer{}, ""},
					{http.StatusAccepted, "A person must decide; ask again, wait, or watch the feed.", callAnswer{}, ""},
				}, errors: callErrors},
		},
		{
			method: http.MethodPost, path: "/v1/calls/batch", audience: agents, handle: s.callBatch,
			doc: routeDoc{id: "callBatch", tag: "agents", summary: "Ask about the calls of one turn.",
				description: "Those that need a person come to people as one card. One call that is not well formed refuses the " +
					"batch.",
				body: batchBody{}, answers: []answerDoc{{http.StatusOK, "One answer for each call, in order.", batchAnswer{},
					""}}, errors: callErrors},
		},
		{
			method: http.MethodGet, path: "/v1/approvals/resolved", reads: true, audience: agents, handle: s.resolved,
			doc: routeDoc{id: "resolved", tag: "agents", summary: "The agent's endings that it has not acknowledged.",
				description: "Oldest first, at most 200, and fewer where args are large (4 MiB in all); acknowledging them " +
					"brings the next.",
				query:   []queryParam{{"session_id", "Only what this session asked for.", anyText}, waitParam},
				answers: []answerDoc{{http.StatusOK, "The endings; none when the time is up.", feedAnswer{}, ""}},
				errors:  []approval.Code{approval.CodeAgentsOnly}},
		},
		{
			method: http.MethodPost, path: "/v1/approvals/ack", audience: agents, handle: s.ack,
			doc: routeDoc{id: "ack", tag: "agents", summary: "Take endings out of the feed.",
				description: "Idempotent. At most 1000 ids at once.",
				body:        ackBody{}, answers: []answerDoc{{http.StatusOK, "What was done with each id.", ackAnswer{}, ""}},
				errors: []approval.Code{approval.CodeAgentsOnly}},
		},
		{
			method: http.MethodGet, path: "/v1/approvals/{id}", reads: true, byID: true, handle: s.approval,
			doc: routeDoc{id: "approval", tag: "everyone", summary: "One request.",
				description: "An agent sees its own. With wait the answer is held until the request is no longer pending. " +
					"Nothing is used up.",
				query: []queryParam{waitParam}, answers: []answerDoc{{http.StatusOK, "The request.", request{}, ""}},
				errors: []approval.Code{approval.CodeNotFound}},
		},
		{
			method: http.MethodPost, path: "/v1/approvals/{id}/cancel", byID: true, handle: s.cancel,
			undoes: []approval.ActorKind{approval.Agent, approval.Human},
			doc: routeDoc{id: "cancel", tag: "everyone", summary: "Take a request, or an unused approval, back.",
				description: "An agent may cancel its own, an admin any, a person what they approved.",
				header:      []queryParam{clientHeader},
				body:        cancelBody{}, bodyOptional: true,
				answers: []answerDoc{{http.StatusOK, "The cancelled request.", request{}, ""}},
				errors: []approval.Code{approval.CodeNotFound, approval.CodeNotAdmin, approval.CodeAlreadyResolved,
					approval.CodeExpired}},
		},
		{
			method: http.MethodPost, path: "/v1/approvals/{id}/outcome", byID: true, handle: s.report,
			undoes: []approval.ActorKind{approval.Agent},
			doc: routeDoc{id: "outcome", tag: "agents", summary: "Report what came of a call that was sent on.",
				description: "Of the agent's own, once it was let through with dispatch. The same again changes nothing; " +
					"succeeded and failed take the " +
					"place of unknown, nothing takes theirs. After unknown the card of the next same call says that this one may " +
					"have run.",
				body: outcomeBody{}, answers: []answerDoc{{http.StatusOK, "The request.", request{}, ""}},
				errors: []approval.Code{approval.CodeNotFound, approval.CodeAgentsOnly, approval.CodeAlreadyResolved}},
		},
		{
			method: http.MethodPost, path: "/v1/approvals/{id}/inputs", byID: true, handle: s.input,
			doc: routeDoc{id: "input", tag: "agents", summary: "Put on record what a call's server is told after the approval.",
				description: "Of the agent's own, while the call is under way: the answer to what the server asked, which no " +
					"approver saw. To be called before the " +
					"answer is passed on, and it is passed on only if this succeeds. Secrets are masked and what is long is cut; a " +
					"call takes at most 16.",
				body: inputBody{}, answers: []answerDoc{{http.StatusOK, "The request.", request{}, ""}},
				errors: []approval.Code{approval.CodeNotFound, approval.CodeAgentsOnly}},
		},
		{
			method: http.MethodGet, path: "/v1/approvals", reads: true, audience: people, handle: s.approvals,
			doc: routeDoc{id: "approvals", tag: "people", summary: "List requests, newest first.",
				query: []queryParam{
					{"status", "", words(approval.Pending, approval.Approved, approval.Denied, approval.Expired, approval.Cancelled)},
					toolParam, agentParam, riskParam,
					{"after", "The next of the page before.", idText}, limitParam,
				},
				answers: []answerDoc{{http.StatusOK, "One page; it may be shorter than limit where args are large.", approvalList{},
					""}},
				errors: []approval.Code{approval.CodePeopleOnly}},
		},
		{
			method: http.MethodPost, path: "/v1/approvals/{id}/decide", byID: true, handle: s.decide,
			undoes: []approval.ActorKind{approval.Human},
			doc: routeDoc{id: "decide", tag: "people", summary: "Approve or deny a request.",
				description: "Needs the role approver. Of any number of deciders one wins.",
				header:      []queryParam{clientHeader},
				body:        decideBody{}, answers: []answerDoc{{http.StatusOK, "The decision stands.", decideAnswer{}, ""}},
				errors: []approval.Code{approval.CodeNotFound, approval.CodePeopleOnly, approval.CodeNotAnApprover,
					approval.CodeAlreadyResolved,
					approval.CodeExpired, approval.CodeReasonRequired}},
		},
		{
			method: http.MethodGet, path: "/v1/notifications", reads: true, audience: admins, handle: s.notifications,
			doc: routeDoc{id: "notifications", tag: "admins", summary: "The notification log, newest first.",
				query: []queryParam{
					{"status", "", words(approval.Queued, approval.Retrying, approval.Sent, approval.Delivered, approval.Failed,
						approval.Skipped)},
					{"channel", "line, slack, …", nameText}, {"approval_id", "Cards that show this request.", idText},
					{"after", "The next of the page before.", idText}, limitParam,
				},
				answers: []answerDoc{{http.StatusOK, "One page.", notificationList{}, ""}},
				errors:  []approval.Code{approval.CodePeopleOnly, approval.CodeNotAdmin}},
		},
		{
			method: http.MethodPost, path: "/v1/notifications/{id}/retry", byID: true, handle: s.retry,
			doc: routeDoc{id: "retryNotification", tag: "admins", summary: "Send a failed notification again.",
				description: "The same row, with a new retry key and its attempts from 0.",
				answers:     []answerDoc{{http.StatusAccepted, "The notification, queued.", notification{}, ""}},
				errors: []approval.Code{approval.CodeNotFound, approval.CodePeopleOnly, approval.CodeNotAdmin,
					approval.CodeNotFailed,
					codeTooLarge, codeUnsupportedMediaType, codeInvalidJSON, codeUnknownField}},
		},
		{
			method: http.MethodGet, path: "/v1/audit", reads: true, audience: admins, handle: s.audit,
			doc: routeDoc{id: "audit", tag: "admins", summary: "The audit log, newest first.",
				query: []queryParam{
					{"event_type", "", words(eventTypes...)}, {"decision", "", words(decisionWords...)}, riskParam, toolParam,
					agentParam,
					{"since", "At or after.", timeText}, {"until", "Before.", timeText},
					{"after", "The next of the page before.", anyText}, limitParam,
				},
				answers: []answerDoc{{http.StatusOK, "One page.", eventList{}, ""}},
				errors:  []approval.Code{approval.CodePeopleOnly, approval.CodeNotAdmin}},
		},
		{
			method: http.MethodGet, path: "/v1/events", stream: true, handle: s.events,
			doc: routeDoc{id: "events", tag: "everyone", summary: "What happens, as server-sent events.",
				description: "approval.requested, approval.resolved (decided, expired, cancelled or lapsed) and " +
					"approval.consumed carry the request as it " +
					"now stands; notification.changed, for admins, the notification. Agents get what is about their own requests. " +
					"id is the seq of the " +
					"audit log; Last-Event-ID takes the stream up after it. If that is no longer kept, or not known, there comes a " +
					"reset, and the " +
					"stream goes on from now: read again what matters. A comment comes every 15 s.",
				header:  []queryParam{{"Last-Event-ID", "The id of the last event that was seen.", anyText}},
				answers: []answerDoc{{http.StatusOK, "The stream.", nil, "text/event-stream"}}},
		},
	}
}

// codes returns every code that the route can answer with, in no order.
func (rt *route) codes() []approval.Code {
	cs := append([]approval.Code{approval.CodeInvalidParameter, approval.CodeInternal}, rt.doc.errors...)
	if !rt.public {
		cs = append(cs, approval.CodeUnauthorized, approval.CodeStoreUnavailable, approval.CodeRateLimited)
	}
	if rt.doc.body != nil {
		cs = append(cs, codeTooLarge, codeUnsupportedMediaType, codeInvalidJSON, codeUnknownField)
	}
	return cs
}
