package rest

import (
	"net/http"
	"slices"

	"countersign/approval"
	"countersign/client"
	"countersign/internal/history/export"
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

	waitParam    = queryParam{"wait", "How long to hold the answer; at most 60 s.", waitText}
	requestParam = queryParam{"approval_id", "The request that an earlier answer to this call named. With wait, the " +
		"call waits for that request again, and makes no other.", idText}
	limitParam = queryParam{"limit", "How many rows at most.", limitText}
	toolParam  = queryParam{"tool", "A tool's name, or server/tool.", anyText}
	agentParam = queryParam{"agent", "An agent's name.", nameText}
	riskParam  = queryParam{"risk_level", "", riskWords}

	clientHeader = queryParam{headerClient, "cli records it as done on the command line.", anyText}
)

const (
	pathGrant  = "/v1/grants/{id}"
	pathDenial = "/v1/approvals/{id}/denial"
)

// table lists every path of the API.
func (s *Server) table() []route { //nolint:funlen // a table
	callErrors := []approval.Code{approval.CodeAgentsOnly, approval.CodeInvalidArgs, approval.CodeInvalidTool,
		approval.CodeTooManyPending, approval.CodeStoreFull}
	decideErrors := []approval.Code{approval.CodeNotFound, approval.CodePeopleOnly, approval.CodeNotAnApprover,
		approval.CodeAlreadyResolved, approval.CodeExpired, approval.CodeReasonRequired, approval.CodeAlreadyVoted,
		approval.CodeNotYourStage, approval.CodeConfirmRequired, approval.CodeChanged, approval.CodeStepUpRequired,
		approval.CodeTooManyPending}
	return []route{
		{
			method: http.MethodGet, path: "/openapi.json", public: true, handle: s.openAPI,
			doc: routeDoc{id: "openapi", tag: "everyone", summary: "This document.",
				answers: []answerDoc{{http.StatusOK, "The OpenAPI document.", object{}, ""}}},
		},
		{
			method: http.MethodGet, path: "/v1/proof", public: true, handle: s.proves,
			doc: routeDoc{id: "proof", tag: "everyone", summary: "Have the gate prove that it knows a token.",
				description: "For clients over plain HTTP on one machine, before they send the token: another program may have " +
					"the gate's port. K is the SHA-256 of the token, and HMAC is that with SHA-256, in hex. The proof is " +
					"HMAC(K, \"proof at ADDRESS for NONCE\").",
				query: []queryParam{
					{"token", "The first 32 digits of HMAC(K, \"name of a token\").", anyText},
					{"nonce", "20 to 100 random characters.", anyText},
					{"address", "The IP address and port that the client is connected to, such as 127.0.0.1:8787 or [::1]:8787.",
						anyText}},
				answers: []answerDoc{{http.StatusOK, "The proof. Compare it with your own.", proof{}, ""}},
				errors:  []approval.Code{codeUnknownToken, approval.CodeInvalidParameter}},
		},
		{
			method: http.MethodPost, path: "/v1/calls", audience: agents, handle: s.call,
			doc: routeDoc{id: "call", tag: "agents", summary: "Ask whether a call may run now.",
				description: "An approved answer has used the approval: run the call, or the approval is lost. With wait the " +
					"answer is held until the request that this call made or joined ends. It never makes another, and a client " +
					"that goes away uses nothing up.",
				query: []queryParam{waitParam, requestParam}, body: callBody{},
				answers: []answerDoc{
					{http.StatusOK, "Decided.", client.Answer{}, ""},
					{http.StatusAccepted, "A person must decide; ask again, wait, or watch the feed.", client.Answer{}, ""},
				}, errors: callErrors},
		},
		{
			method: http.MethodPost, path: "/v1/calls/batch", audience: agents, handle: s.callBatch,
			doc: routeDoc{id: "callBatch", tag: "agents", summary: "Ask about the calls of one turn.",
				description: "Those that need a person are sent to people as one card. If one call is malformed, the batch is " +
					"refused.",
				body: batchBody{}, answers: []answerDoc{{http.StatusOK, "One answer for each call, in order.", batchAnswer{},
					""}}, errors: callErrors},
		},
		{
			method: http.MethodGet, path: "/v1/approvals/resolved", reads: true, audience: agents, handle: s.listResolved,
			doc: routeDoc{id: "resolved", tag: "agents", summary: "What was decided for the agent and not acknowledged yet.",
				description: "Oldest first, at most 200, and fewer if args are large (4 MiB in all). Acknowledge them to get " +
					"the next.",
				query:   []queryParam{{"session_id", "Only what this session asked for.", anyText}, waitParam},
				answers: []answerDoc{{http.StatusOK, "The ended requests; none when the time is up.", feedAnswer{}, ""}},
				errors:  []approval.Code{approval.CodeAgentsOnly}},
		},
		{
			method: http.MethodPost, path: "/v1/approvals/ack", audience: agents, handle: s.ack,
			doc: routeDoc{id: "ack", tag: "agents", summary: "Take ended requests out of the feed.",
				description: "Idempotent. At most 1000 ids at once.",
				body:        ackBody{}, answers: []answerDoc{{http.StatusOK, "What became of each id.", client.Acked{}, ""}},
				errors: []approval.Code{approval.CodeAgentsOnly}},
		},
		{
			method: http.MethodGet, path: "/v1/approvals/{id}", reads: true, byID: true, handle: s.approval,
			doc: routeDoc{id: "approval", tag: "everyone", summary: "One request.",
				description: "An agent sees its own. With wait the answer is held until the request is no longer pending. " +
					"Nothing is used up.",
				query: []queryParam{waitParam}, answers: []answerDoc{{http.StatusOK, "The request.", client.Approval{}, ""}},
				errors: []approval.Code{approval.CodeNotFound}},
		},
		{
			method: http.MethodPost, path: "/v1/approvals/{id}/cancel", byID: true, handle: s.cancel,
			undoes: []approval.ActorKind{approval.Agent, approval.Human},
			doc: routeDoc{id: "cancel", tag: "everyone", summary: "Cancel a request, or an approval that was not used.",
				description: "An agent may cancel its own, an admin any, a person what they approved.",
				header:      []queryParam{clientHeader},
				body:        cancelBody{}, bodyOptional: true,
				answers: []answerDoc{{http.StatusOK, "The cancelled request.", client.Approval{}, ""}},
				errors: []approval.Code{approval.CodeNotFound, approval.CodeNotAdmin, approval.CodeAlreadyResolved,
					approval.CodeExpired}},
		},
		{
			method: http.MethodPost, path: "/v1/approvals/{id}/outcome", byID: true, handle: s.report,
			undoes: []approval.ActorKind{approval.Agent},
			doc: routeDoc{id: "outcome", tag: "agents", summary: "Report the outcome of a call that was sent.",
				description: "For the agent's own calls that were let through with dispatch. The id is the answer's " +
					"approval_id, or its run_id if a grant let the call through. The same report again changes nothing. succeeded " +
					"or failed replaces unknown; nothing replaces them. After unknown, the card of the next identical call says " +
					"that this one may have run.",
				body: outcomeBody{}, answers: []answerDoc{{http.StatusOK, "The request, or the use of the grant.", outcomeAnswer{},
					""}},
				errors: []approval.Code{approval.CodeNotFound, approval.CodeAgentsOnly, approval.CodeAlreadyResolved}},
		},
		{
			method: http.MethodPost, path: "/v1/approvals/{id}/inputs", byID: true, handle: s.input,
			doc: routeDoc{id: "input", tag: "agents", summary: "Record what a call's server is told after the approval.",
				description: "For the agent's own calls, while they run: the answer to what the server asked, which no approver " +
					"saw. Call this before passing the answer on, and pass it on only if this succeeds. Secrets are masked and " +
					"long answers are cut; a call takes at most 16. If a grant let the call through, id is its run_id, and the " +
					"audit log has the answers.",
				body: inputBody{}, answers: []answerDoc{{http.StatusOK, "The request, or the use of the grant.", outcomeAnswer{},
					""}},
				errors: []approval.Code{approval.CodeNotFound, approval.CodeAgentsOnly}},
		},
		{
			method: http.MethodGet, path: "/v1/approvals", reads: true, audience: people, handle: s.approvals,
			doc: routeDoc{id: "approvals", tag: "people", summary: "List requests, newest first.",
				query: []queryParam{
					{"status", "", words(approval.Pending, approval.Approved, approval.Denied, approval.Expired, approval.Cancelled)},
					toolParam, agentParam, riskParam,
					{"after", "The next of the previous page.", idText}, limitParam,
				},
				answers: []answerDoc{{http.StatusOK, "One page; it may be shorter than limit if args are large.", approvalList{},
					""}},
				errors: []approval.Code{approval.CodePeopleOnly}},
		},
		{
			method: http.MethodPost, path: "/v1/approvals/{id}/decide", byID: true, misses: true, handle: s.decide,
			undoes: []approval.ActorKind{approval.Human},
			doc: routeDoc{id: "decide", tag: "people", summary: "Approve or deny a request.",
				description: "Needs the role approver. Only one decision counts, however many arrive at once. A vote that is " +
					"not the last leaves the request pending. With args, these are approved instead of those asked for: the policy " +
					"judges them, the request ends (denied, reason_code edited), and the answer is about the one that replaces it. " +
					"With grant the decision applies for longer, in the same transaction, or nothing is decided (grant_refused). " +
					"The last 4 characters of the id are enough, for an approval the last 6, if the request is at most seven days " +
					"old.",
				header: []queryParam{clientHeader},
				body:   decideBody{}, answers: []answerDoc{{http.StatusOK, "The decision stands.", decisionAnswer{}, ""}},
				errors: slices.Concat(decideErrors, []approval.Code{approval.CodeInvalidArgs, approval.CodePolicyDenied,
					approval.CodeGrantRefused})},
		},
		{
			method: http.MethodPost, path: "/v1/approvals/decide", audience: people, handle: s.decideMany,
			undoes: []approval.ActorKind{approval.Human},
			doc: routeDoc{id: "decideMany", tag: "people", summary: "Approve or deny several requests.",
				description: "At most 100, each decided by itself, in order. Each counts as one call.",
				header:      []queryParam{clientHeader}, body: decideManyBody{},
				answers: []answerDoc{{http.StatusOK, "What became of each, in order.", decideManyAnswer{}, ""}},
				errors:  []approval.Code{approval.CodePeopleOnly}},
		},
		{
			method: http.MethodPost, path: "/v1/approvals/{id}/extend", byID: true, handle: s.extend,
			doc: routeDoc{id: "extend", tag: "people", summary: "Give a pending request one hour more.",
				description: "Once, before its deadline, by anybody who may vote on it and by admins.",
				header:      []queryParam{clientHeader},
				answers:     []answerDoc{{http.StatusOK, "The request, with its new deadline.", client.Approval{}, ""}},
				errors: slices.Concat(decideErrors, []approval.Code{approval.CodeNotAdmin,
					codeTooLarge, codeUnsupportedMediaType, codeInvalidJSON, codeUnknownField})},
		},
		{
			method: http.MethodDelete, path: pathDenial, byID: true, handle: s.lift,
			doc: routeDoc{id: "lift", tag: "people", summary: "Forget a denial, so that the same call asks people again.",
				description: "The id is that of the denied request, or of a standing denial. Whoever denied it may do this, and " +
					"any admin.",
				header:  []queryParam{clientHeader},
				answers: []answerDoc{{http.StatusOK, "It is forgotten: people are asked about the next call.", liftAnswer{}, ""}},
				errors: []approval.Code{approval.CodePeopleOnly, approval.CodeNotFound, approval.CodeNotAdmin,
					approval.CodeAlreadyResolved}},
		},
		{
			method: http.MethodGet, path: "/v1/grants", reads: true, handle: s.grants,
			doc: routeDoc{id: "grants", tag: "everyone", summary: "List grants and standing denials, newest first.",
				description: "Approvers and admins see all; an agent sees its own.",
				query: []queryParam{agentParam, {"all", "true: also ended ones.", words("true", "false")},
					{"after", "The next of the previous page.", idText}, limitParam},
				answers: []answerDoc{{http.StatusOK, "One page; it may be shorter than limit if args are large.", grantList{},
					""}},
				errors: []approval.Code{approval.CodeNotAnApprover}},
		},
		{
			method: http.MethodGet, path: pathGrant, reads: true, byID: true, handle: s.grant,
			doc: routeDoc{id: "grant", tag: "everyone", summary: "One grant or standing denial.",
				answers: []answerDoc{{http.StatusOK, "The grant.", client.Grant{}, ""}},
				errors:  []approval.Code{approval.CodeNotFound, approval.CodeNotAnApprover}},
		},
		{
			method: http.MethodDelete, path: pathGrant, byID: true, handle: s.revoke,
			undoes: []approval.ActorKind{approval.Human},
			doc: routeDoc{id: "revoke", tag: "people", summary: "End a grant, or a standing denial.",
				description: "Whoever made it may do this, and any admin. What it let through stays as it is.",
				header:      []queryParam{clientHeader},
				answers:     []answerDoc{{http.StatusOK, "The grant, ended.", client.Grant{}, ""}},
				errors: []approval.Code{approval.CodePeopleOnly, approval.CodeNotFound, approval.CodeNotAdmin,
					approval.CodeAlreadyResolved}},
		},
		{
			method: http.MethodPost, path: "/v1/freeze", audience: people, handle: s.freeze,
			undoes: []approval.ActorKind{approval.Human},
			doc: routeDoc{id: "freeze", tag: "people", summary: "Freeze an agent, or all.",
				description: "Until an admin lifts it, every call is denied (reason_code frozen). Waiting requests and " +
					"approvals that were not used are cancelled. Approvers and admins may do this.",
				header: []queryParam{clientHeader}, body: freezeBody{},
				answers: []answerDoc{{http.StatusOK, "It is frozen.", client.Freeze{}, ""}},
				errors: []approval.Code{approval.CodePeopleOnly, approval.CodeNotAnApprover, approval.CodeNotFound,
					approval.CodeAlreadyResolved}},
		},
		{
			method: http.MethodDelete, path: "/v1/freeze", audience: people, handle: s.unfreeze,
			doc: routeDoc{id: "unfreeze", tag: "admins", summary: "Lift a freeze.",
				description: "What it ended stays ended. Without agent, the freeze of all agents is lifted; freezes of single " +
					"agents stay.",
				query:   []queryParam{{"agent", "An agent's name; absent: the freeze of all agents.", anyText}},
				header:  []queryParam{clientHeader},
				answers: []answerDoc{{http.StatusOK, "It is lifted.", client.Freeze{}, ""}},
				errors:  []approval.Code{approval.CodePeopleOnly, approval.CodeNotAdmin, approval.CodeNotFound}},
		},
		{
			method: http.MethodGet, path: "/v1/freeze", audience: people, handle: s.listFrozen,
			doc: routeDoc{id: "frozen", tag: "people", summary: "What is frozen now.",
				answers: []answerDoc{{http.StatusOK, "The freezes that nobody has lifted.", freezeList{}, ""}},
				errors:  []approval.Code{approval.CodePeopleOnly}},
		},
		{
			method: http.MethodPost, path: "/v1/clock/accept", audience: people, handle: s.acceptClock,
			doc: routeDoc{id: "acceptClock", tag: "admins", summary: "Say that the machine's clock is right.",
				description: "After it was set, when /readyz names it. A jump ahead is then followed at once; a store whose time " +
					"is ahead of a clock that was set back is no trouble any more. Waiting requests, approvals that were not used " +
					"and grants are cancelled.",
				header:  []queryParam{clientHeader},
				answers: []answerDoc{{http.StatusOK, "It is accepted.", clockAccepted{}, ""}},
				errors:  []approval.Code{approval.CodePeopleOnly, approval.CodeNotAdmin, approval.CodeNotFound}},
		},
		{
			method: http.MethodPost, path: "/v1/erase", audience: people, handle: s.erase,
			doc: routeDoc{id: "erase", tag: "admins", summary: "Remove what requests said, now and for good.",
				description: "Their arguments, and all texts made of them or with them. The hash stays, and who decided what, " +
					"when and why; the audit log keeps what it has. Requests that are live, or of which something is still to " +
					"come, are kept.",
				header: []queryParam{clientHeader}, body: eraseBody{},
				answers: []answerDoc{{http.StatusOK, "What was erased.", erased{}, ""}},
				errors: []approval.Code{approval.CodePeopleOnly, approval.CodeNotAdmin, approval.CodeNotFound,
					approval.CodeAmbiguousID}},
		},
		{
			method: http.MethodPost, path: "/v1/delegations", audience: people, handle: s.delegate,
			doc: routeDoc{id: "delegate", tag: "people", summary: "Let somebody vote in your place for a while.",
				description: "At most 30 days. Only an admin sets one up for others. The person who votes must be an approver, " +
					"and cannot pass the vote on.",
				header: []queryParam{clientHeader}, body: delegationBody{},
				answers: []answerDoc{{http.StatusOK, "The delegation.", client.Delegation{}, ""}},
				errors: []approval.Code{approval.CodePeopleOnly, approval.CodeNotAnApprover, approval.CodeNotAdmin,
					approval.CodeNotFound}},
		},
		{
			method: http.MethodGet, path: "/v1/delegations", audience: people, handle: s.delegations,
			doc: routeDoc{id: "delegations", tag: "people", summary: "Who votes for whom.",
				answers: []answerDoc{{http.StatusOK, "Those that apply now or later.", delegationList{}, ""}},
				errors:  []approval.Code{approval.CodePeopleOnly}},
		},
		{
			method: http.MethodDelete, path: "/v1/delegations/{id}", audience: people, handle: s.endDelegation,
			doc: routeDoc{id: "endDelegation", tag: "people", summary: "End a delegation before its time.",
				description: "Either of the two people may do this, and any admin. The last four characters of its id are enough.",
				header:      []queryParam{clientHeader},
				answers:     []answerDoc{{http.StatusOK, "The delegation, ended.", client.Delegation{}, ""}},
				errors: []approval.Code{approval.CodePeopleOnly, approval.CodeNotAnApprover, approval.CodeNotAdmin,
					approval.CodeNotFound, approval.CodeAlreadyResolved, approval.CodeAmbiguousID}},
		},
		{
			method: http.MethodPost, path: "/v1/sign-in-links", audience: people, handle: s.signInLink,
			doc: routeDoc{id: "signInLink", tag: "people", summary: "Make a link that signs you in to the pages.",
				description: "It works once, within ten minutes, in the browser where you open and confirm it. Only for yourself.",
				header:      []queryParam{clientHeader},
				answers:     []answerDoc{{http.StatusOK, "The link. Whoever has it can sign in with it.", client.SignInLink{}, ""}},
				errors:      []approval.Code{approval.CodePeopleOnly, approval.CodeNotFound}},
		},
		{
			method: http.MethodGet, path: "/v1/stats", steps: true, audience: people, handle: s.stats,
			doc: routeDoc{id: "stats", tag: "people", summary: "How often people were asked, and what they said.",
				description: "By tool, rule, agent and person. For approvers and admins. After about 200 ms the answer has the " +
					"figures of the newest part of that time, and its next says where to go on: the same question with next as " +
					"until and window_since as since, until next is null, counts all of it exactly once. Only times to a decision " +
					"cannot be added up.",
				query: []queryParam{{"since", "At or after this time; by default 30 days before until.", timeText},
					{"until", "Before this time; by default now.", timeText}, agentParam,
					{"whole", "true: all of that time in one answer, which may take a minute if the record is large.",
						words("true", "false")}},
				answers: []answerDoc{{http.StatusOK, "The figures.", client.Stats{}, ""}},
				errors:  []approval.Code{approval.CodePeopleOnly, approval.CodeNotAnApprover}},
		},
		{
			method: http.MethodGet, path: "/v1/policies/{digest}", reads: true, audience: people, handle: s.policy,
			doc: routeDoc{id: "policy", tag: "people", summary: "A policy that was in force, as text.",
				description: "By a request's policy_digest; its first 8 characters are enough. For approvers and admins.",
				answers:     []answerDoc{{http.StatusOK, "The policy.", client.Policy{}, ""}},
				errors: []approval.Code{approval.CodePeopleOnly, approval.CodeNotAnApprover, approval.CodeNotFound,
					approval.CodeAmbiguousID}},
		},
		{
			method: http.MethodGet, path: "/v1/notifications", reads: true, audience: admins, handle: s.notifications,
			doc: routeDoc{id: "notifications", tag: "admins", summary: "The notification log, newest first.",
				query: []queryParam{
					{"status", "", words(approval.Queued, approval.Retrying, approval.Sent, approval.Delivered, approval.Failed,
						approval.Skipped)},
					{"channel", "line, slack, …", nameText},
					{"approval_id", "Cards that show this request; the end of its id is enough.", anyText},
					{"after", "The next of the previous page.", idText}, limitParam,
				},
				answers: []answerDoc{{http.StatusOK, "One page.", notificationList{}, ""}},
				errors:  []approval.Code{approval.CodePeopleOnly, approval.CodeNotAdmin}},
		},
		{
			method: http.MethodPost, path: "/v1/notifications/{id}/retry", byID: true, handle: s.retry,
			doc: routeDoc{id: "retryNotification", tag: "admins", summary: "Send a failed notification again.",
				description: "The same row, with a new retry key and its attempts from 0.",
				answers:     []answerDoc{{http.StatusAccepted, "The notification, queued.", client.Notification{}, ""}},
				errors: []approval.Code{approval.CodeNotFound, approval.CodePeopleOnly, approval.CodeNotAdmin,
					approval.CodeNotFailed,
					codeTooLarge, codeUnsupportedMediaType, codeInvalidJSON, codeUnknownField}},
		},
		{
			method: http.MethodGet, path: "/v1/audit", reads: true, exports: true, audience: admins, handle: s.audit,
			doc: routeDoc{id: "audit", tag: "admins", summary: "The audit log, newest first.",
				description: "As CSV or NDJSON (format, or the Accept header) it is a stream of all that matches; after an " +
					"error it breaks off. A cell that a spreadsheet would take for a formula has a ' in front.",
				query: []queryParam{
					{"event_type", "", words(approval.EventTypes...)}, {"decision", "", words(approval.EventDecisions...)},
					riskParam, toolParam,
					agentParam,
					{"actor", "Who did it: a person's name, agent:NAME, system:…", anyText},
					{"user", "Another word for actor.", anyText},
					{"approval_id", "About this request; the end of its id is enough.", anyText},
					{"correlation_id", "With this correlation id.", anyText},
					{"session_id", "About what this session of an agent asked for.", anyText},
					{"since", "At or after this time.", timeText}, {"until", "Before.", timeText},
					{"after", "The next of the previous page.", anyText}, limitParam,
					{"format", "json is one page; csv and ndjson are all that matches.", words(formatJSON, formatCSV, formatNDJSON)},
				},
				answers: []answerDoc{{http.StatusOK, "One page, or all.", eventList{}, ""},
					{http.StatusOK, "One page, or all.", nil, export.TypeCSV},
					{http.StatusOK, "One page, or all.", nil, export.TypeNDJSON}},
				errors: []approval.Code{approval.CodePeopleOnly, approval.CodeNotAdmin}},
		},
		{
			method: http.MethodGet, path: "/v1/events", stream: true, handle: s.events,
			doc: routeDoc{id: "events", tag: "everyone", summary: "Events as they happen, as server-sent events.",
				description: "approval.requested, approval.voted (a vote that is not the last; agents are not told of it), " +
					"approval.extended (it has a later deadline), approval.resolved (decided, expired, cancelled or lapsed), " +
					"approval.consumed and approval.lifted (its denial is forgotten) carry the request as it now stands; " +
					"grant.made, grant.used and grant.ended, for approvers, admins and the grant's agent, the grant; " +
					"notification.changed, for admins, the notification. " +
					"Agents get what is about their own requests. id is the seq of the audit log; Last-Event-ID takes the stream " +
					"up after it. If that is no longer kept, or not known, there comes a reset, and the stream goes on from now: " +
					"read again what matters. A comment comes every 15 s.",
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
	if rt.shortIDs() || slices.ContainsFunc(rt.doc.query, func(p queryParam) bool { return p.name == "approval_id" }) {
		cs = append(cs, approval.CodeAmbiguousID, approval.CodeNotFound)
	}
	if rt.doc.body != nil {
		cs = append(cs, codeTooLarge, codeUnsupportedMediaType, codeInvalidJSON, codeUnknownField)
	}
	return cs
}
