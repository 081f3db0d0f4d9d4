package store

import (
	"slices"
	"time"

	"countersign/approval"
	"countersign/approval/summary"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
)

// This file names each column of each table once. The schema says what a column may hold; a test holds that both
// know the same columns.

// keyColumns are those of an [approval.Key], in the order in which bindKey binds them.
const (
	keyColumns = `agent, scope, server, tool_name, args_hash, method`
	isKey      = `(` + keyColumns + `) = ($1, $2, $3, $4, $5, $6)`
)

func bindKey(s stmt, k approval.Key) stmt {
	return s.text(k.Agent).text(k.Scope).text(k.Server).text(k.Tool).text(k.ArgsHash).text(k.Method)
}

// digestOfNumbered is a rule's digest where the rule may be called by its place. It stands behind the arguments in a
// row, which may be long, and for other rules they are not read to get there.
func digestOfNumbered(rule, digest string) string {
	return "CASE WHEN " + rule + " GLOB '*rule [0-9]*' THEN " + digest + " END"
}

// Of requests, the wide columns may be large and stand last: to read one, SQLite goes through every page of a large
// row. An [approval.Head] is without them. No new request has the late ones. Those that say who must say yes, and
// whose yes it was, stand there because they came later; [approval.Tx.NeedOf] reads them alone.
var (
	reasonColumn = columns[approval.Request]{
		boolean("require_reason", func(r *approval.Request) *bool { return &r.RequireReason }),
	}
	headColumns = columns[approval.Request]{
		text("id", func(r *approval.Request) *string { return &r.ID }),
		text("agent", func(r *approval.Request) *string { return &r.Agent }),
		text("scope", func(r *approval.Request) *string { return &r.Scope }),
		text("server", func(r *approval.Request) *string { return &r.Server }),
		text("tool_name", func(r *approval.Request) *string { return &r.Tool }),
		text("args_hash", func(r *approval.Request) *string { return &r.ArgsHash }),
		text("status", func(r *approval.Request) *approval.Status { return &r.Status }),
		text("risk_level", func(r *approval.Request) *approval.Risk { return &r.Risk }),
		timestamp("requested_at", func(r *approval.Request) *time.Time { return &r.RequestedAt }),
		timestamp("expires_at", func(r *approval.Request) *time.Time { return &r.ExpiresAt }),
		timestamp("resolved_at", func(r *approval.Request) *time.Time { return &r.ResolvedAt }),
		optText("resolved_by", func(r *approval.Request) *string { return &r.ResolvedBy }),
		optText("resolved_via", func(r *approval.Request) *approval.Via { return &r.ResolvedVia }),
		optNumber("resolved_seq", func(r *approval.Request) *int64 { return &r.ResolvedSeq }),
		timestamp("use_by", func(r *approval.Request) *time.Time { return &r.UseBy }),
		timestamp("consumed_at", func(r *approval.Request) *time.Time { return &r.ConsumedAt }),
		timestamp("lapsed_at", func(r *approval.Request) *time.Time { return &r.LapsedAt }),
		timestamp("acked_at", func(r *approval.Request) *time.Time { return &r.AckedAt }),
		optText("turn_id", func(r *approval.Request) *string { return &r.TurnID }),
		optText("session_id", func(r *approval.Request) *string { return &r.SessionID }),
		optText("batch_id", func(r *approval.Request) *string { return &r.BatchID }),
		optText("rule", func(r *approval.Request) *string { return &r.Rule }),
		text("policy_reason", func(r *approval.Request) *string { return &r.ReasonCode }),
		reasonColumn[0],
		jsonList("ignored_args", func(r *approval.Request) *[]string { return &r.IgnoredArgs }),
		jsonObject("previous_use", func(r *approval.Request) **approval.Use { return &r.Previous }),
		text("human_message", func(r *approval.Request) *string { return &r.HumanMessage }),
		optText("resolve_reason", func(r *approval.Request) *string { return &r.ResolveReason }),
	}
	// figureColumns are what figures are made of: many requests are read for them.
	figureColumns = columns[approval.Request]{
		text("id", func(r *approval.Request) *string { return &r.ID }),
		text("agent", func(r *approval.Request) *string { return &r.Agent }),
		text("server", func(r *approval.Request) *string { return &r.Server }),
		text("tool_name", func(r *approval.Request) *string { return &r.Tool }),
		text("status", func(r *approval.Request) *approval.Status { return &r.Status }),
		timestamp("requested_at", func(r *approval.Request) *time.Time { return &r.RequestedAt }),
		timestamp("resolved_at", func(r *approval.Request) *time.Time { return &r.ResolvedAt }),
		optText("resolved_by", func(r *approval.Request) *string { return &r.ResolvedBy }),
		optText("resolved_via", func(r *approval.Request) *approval.Via { return &r.ResolvedVia }),
		optText("batch_id", func(r *approval.Request) *string { return &r.BatchID }),
		optText("rule", func(r *approval.Request) *string { return &r.Rule }),
		optText(digestOfNumbered("rule", "rule_digest"), func(r *approval.Request) *string { return &r.RuleDigest }),
	}
	pushColumns = columns[approval.Push]{
		text("n.id", func(p *approval.Push) *string { return &p.ID }),
		timestamp("n.created_at", func(p *approval.Push) *time.Time { return &p.CreatedAt }),
		text("n.channel", func(p *approval.Push) *string { return &p.To.Channel }),
		text("n.recipient", func(p *approval.Push) *string { return &p.To.To }),
		text("r.agent", func(p *approval.Push) *string { return &p.Of.Agent }),
		text("r.server", func(p *approval.Push) *string { return &p.Of.Server }),
		text("r.tool_name", func(p *approval.Push) *string { return &p.Of.Tool }),
		text("r.rule", func(p *approval.Push) *string { return &p.Of.Rule }),
		optText(digestOfNumbered("r.rule", "r.rule_digest"), func(p *approval.Push) *string { return &p.Of.RuleDigest }),
	}
	wideColumns = columns[approval.Request]{
		textBytes("tool_args", func(r *approval.Request) *[]byte { return &r.Args }),
		optText("rationale", func(r *approval.Request) *string { return &r.Rationale }),
		optText("preview", func(r *approval.Request) *string { return &r.Preview }),
		optText("tool_digest", func(r *approval.Request) *string { return &r.ToolDigest }),
		boolean("task", func(r *approval.Request) *bool { return &r.Task }),
		timestamp("dispatched_at", func(r *approval.Request) *time.Time { return &r.DispatchedAt }),
		optText("outcome", func(r *approval.Request) *approval.RunResult { return &r.RunResult }),
		boolean("tool_seen", func(r *approval.Request) *bool { return &r.ToolSeen }),
	}
	newNeedColumns = columns[approval.Request]{
		need("need", func(r *approval.Request) **approval.Need { return &r.Need }),
		number("stage", func(r *approval.Request) *int { return &r.Stage }),
		optText("policy_digest", func(r *approval.Request) *string { return &r.Policy }),
		optText("rule_digest", func(r *approval.Request) *string { return &r.RuleDigest }),
		optText("correlation_id", func(r *approval.Request) *string { return &r.CorrelationID }),
		optText("replaces", func(r *approval.Request) *string { return &r.Replaces }),
	}
	lateNeedColumns = columns[approval.Request]{
		optText("who", func(r *approval.Request) *string { return &r.Who }),
		optText("end_code", func(r *approval.Request) *string { return &r.EndCode }),
		optText("replaced_by", func(r *approval.Request) *string { return &r.ReplacedBy }),
		timestamp("extended_at", func(r *approval.Request) *time.Time { return &r.ExtendedAt }),
	}
	lateColumns = columns[approval.Request]{
		jsonList("inputs", func(r *approval.Request) *[]approval.Input { return &r.Inputs }),
	}
	sentColumns = columns[approval.Request]{
		number("returned", func(r *approval.Request) *int { return &r.Returned }),
	}
	newLastColumns = columns[approval.Request]{
		jsonObject("said_before", func(r *approval.Request) **approval.Said { return &r.Before }),
		jsonObject("annotations", func(r *approval.Request) **approval.Annotations { return &r.Annotations }),
		jsonObject("sentences", func(r *approval.Request) **summary.Sentences { return &r.Sentences }),
		optText("preview_from", func(r *approval.Request) *string { return &r.PreviewFrom }),
		text("method", func(r *approval.Request) *string { return &r.Method }),
		optText("runner", func(r *approval.Request) *string { return &r.Runner }),
	}

	removedColumns = columns[approval.Request]{
		timestamp("args_removed_at", func(r *approval.Request) *time.Time { return &r.ArgsRemovedAt }),
		number("args_bytes", func(r *approval.Request) *int { return &r.ArgsBytes }),
	}

	newRequestColumns = slices.Concat(headColumns, wideColumns, newNeedColumns, newLastColumns)
	requestColumns    = slices.Concat(headColumns, wideColumns, newNeedColumns, lateNeedColumns, lateColumns,
		newLastColumns, sentColumns, removedColumns)
	needColumns    = slices.Concat(headColumns[:1], reasonColumn, newNeedColumns, lateNeedColumns)
	setNeedColumns = slices.Concat(newNeedColumns[:1], reasonColumn, newNeedColumns[1:4])
)

// headList is what scanHead reads.
var headList = headColumns.names() +
	`, octet_length(tool_args) + coalesce(octet_length(rationale), 0) + coalesce(octet_length(preview), 0)`

func scanHead(s Scanner, h *approval.Head) {
	headColumns.scan(s, &h.Request)
	h.Wide = int(s.ColumnInt())
}

// Of notifications, the first ones never change; with the next they say when and where one is to be sent, and all
// of these stand before what is large.
var (
	addressColumns = columns[approval.Notification]{
		text("id", func(r *approval.Notification) *string { return &r.ID }),
		optText("approval_id", func(r *approval.Notification) *string { return &r.ApprovalID }),
		optText("batch_id", func(r *approval.Notification) *string { return &r.BatchID }),
		text("channel", func(r *approval.Notification) *string { return &r.Channel }),
		text("recipient", func(r *approval.Notification) *string { return &r.Recipient }),
		text("kind", func(r *approval.Notification) *approval.NotificationKind { return &r.Kind }),
		timestamp("created_at", func(r *approval.Notification) *time.Time { return &r.CreatedAt }),
	}
	scheduleColumns = columns[approval.Notification]{
		text("status", func(r *approval.Notification) *approval.NotificationStatus { return &r.Status }),
		number("attempt", func(r *approval.Notification) *int { return &r.Attempt }),
		timestamp("next_attempt_at", func(r *approval.Notification) *time.Time { return &r.NextAttemptAt }),
		timestamp("lease_until", func(r *approval.Notification) *time.Time { return &r.LeaseUntil }),
		timestamp("updated_at", func(r *approval.Notification) *time.Time { return &r.UpdatedAt }),
		optText("target_id", func(r *approval.Notification) *string { return &r.TargetID }),
	}
	sendColumns = columns[approval.Notification]{
		timestamp("first_try_at", func(r *approval.Notification) *time.Time { return &r.FirstTryAt }),
		timestamp("sent_at", func(r *approval.Notification) *time.Time { return &r.SentAt }),
		optText("message_id", func(r *approval.Notification) *string { return &r.MessageID }),
		optNumber("http_status", func(r *approval.Notification) *int { return &r.HTTPStatus }),
		optText("retry_key", func(r *approval.Notification) *string { return &r.RetryKey }),
		boolean("revived", func(r *approval.Notification) *bool { return &r.Revived }),
		optText("error", func(r *approval.Notification) *string { return &r.Error }),
		optText("reply_to", func(r *approval.Notification) *string { return &r.ReplyTo }),
		jsonList("cards", func(r *approval.Notification) *[]string { return &r.Cards }),
		optText("text", func(r *approval.Notification) *string { return &r.Text }),
		optText("note", func(r *approval.Notification) *approval.Note { return &r.Note }),
		number("part", func(r *approval.Notification) *int { return &r.Part }),
		boolean("more", func(r *approval.Notification) *bool { return &r.More }),
		number("after_version", func(r *approval.Notification) *int { return &r.After }),
		number("shown", func(r *approval.Notification) *int { return &r.Shown }),
		number("changes", func(r *approval.Notification) *int { return &r.Change }),
		number("drawn", func(r *approval.Notification) *int { return &r.Drawn }),
		boolean("silent", func(r *approval.Notification) *bool { return &r.Silent }),
		optText("language", func(r *approval.Notification) *string { return &r.Language }),
		optText("held_for", func(r *approval.Notification) *string { return &r.HeldFor }),
		timestamp("turn_at", func(r *approval.Notification) *time.Time { return &r.TurnAt }),
		optTextBytes("receipt", func(r *approval.Notification) *[]byte { return &r.Receipt }),
	}
	bodyColumns = columns[approval.Notification]{
		optBlob("body", func(r *approval.Notification) *[]byte { return &r.Body }),
	}

	waitingColumns      = slices.Concat(addressColumns, scheduleColumns)
	narrowColumns       = slices.Concat(waitingColumns, sendColumns)
	notificationColumns = slices.Concat(narrowColumns, bodyColumns)

	changingNarrowColumns = slices.Concat(scheduleColumns, sendColumns)
	changingColumns       = slices.Concat(changingNarrowColumns, bodyColumns)
)

func scanWaiting(s Scanner, n *approval.Notification) {
	waitingColumns.scan(s, n)
	n.Narrow = true
}

func scanNarrow(s Scanner, n *approval.Notification) {
	narrowColumns.scan(s, n)
	n.Narrow = true
}

var (
	eventColumns = columns[approval.Event]{
		number("seq", func(r *approval.Event) *int64 { return &r.Seq }),
		text("id", func(r *approval.Event) *string { return &r.ID }),
		timestamp("at", func(r *approval.Event) *time.Time { return &r.At }),
		text("event_type", func(r *approval.Event) *approval.EventType { return &r.Type }),
		optText("correlation_id", func(r *approval.Event) *string { return &r.CorrelationID }),
		optText("actor", func(r *approval.Event) *string { return &r.Actor }),
		optText("approval_id", func(r *approval.Event) *string { return &r.ApprovalID }),
		optText("agent", func(r *approval.Event) *string { return &r.Agent }),
		optText("tool", func(r *approval.Event) *string { return &r.Tool }),
		optText("risk_level", func(r *approval.Event) *approval.Risk { return &r.Risk }),
		optText("decision", func(r *approval.Event) *string { return &r.Decision }),
		optText("reason", func(r *approval.Event) *string { return &r.Reason }),
		optTextBytes("data", func(r *approval.Event) *[]byte { return &r.Data }),
	}

	// What is kept of a key's past, beside the key and newest, which only pruning looks at.
	recentColumns = columns[approval.Recent]{
		optText("denied_id", func(r *approval.Recent) *string { return &r.DeniedID }),
		timestamp("denied_at", func(r *approval.Recent) *time.Time { return &r.DeniedAt }),
		jsonObject("last_use", func(r *approval.Recent) **approval.Use { return &r.Use }),
	}

	voteColumns = columns[approval.Vote]{
		text("person", func(r *approval.Vote) *string { return &r.Person }),
		number("stage", func(r *approval.Vote) *int { return &r.Stage }),
		optText("voted_for", func(r *approval.Vote) *string { return &r.For }),
		oneOf("decision", "approve", "deny", func(r *approval.Vote) *bool { return &r.Approve }),
		optText("reason", func(r *approval.Vote) *string { return &r.Reason }),
		timestamp("at", func(r *approval.Vote) *time.Time { return &r.At }),
		text("via", func(r *approval.Vote) *approval.Via { return &r.Via }),
		boolean("step_up", func(r *approval.Vote) *bool { return &r.StepUp }),
		boolean("confirmed", func(r *approval.Vote) *bool { return &r.Confirmed }),
	}

	delegationColumns = columns[approval.Delegation]{
		text("id", func(r *approval.Delegation) *string { return &r.ID }),
		text("delegator", func(r *approval.Delegation) *string { return &r.Delegator }),
		text("delegate", func(r *approval.Delegation) *string { return &r.Delegate }),
		timestamp("from_at", func(r *approval.Delegation) *time.Time { return &r.From }),
		timestamp("until_at", func(r *approval.Delegation) *time.Time { return &r.Until }),
		optText("rule", func(r *approval.Delegation) *string { return &r.Rule }),
		optText("rule_digest", func(r *approval.Delegation) *string { return &r.RuleDigest }),
		timestamp("created_at", func(r *approval.Delegation) *time.Time { return &r.CreatedAt }),
		text("created_by", func(r *approval.Delegation) *string { return &r.CreatedBy }),
		timestamp("ended_at", func(r *approval.Delegation) *time.Time { return &r.EndedAt }),
		optText("ended_by", func(r *approval.Delegation) *string { return &r.EndedBy }),
	}

	epochColumns = columns[approval.Epoch]{
		text("agent", func(r *approval.Epoch) *string { return &r.Agent }),
		text("id", func(r *approval.Epoch) *string { return &r.ID }),
		boolean("frozen", func(r *approval.Epoch) *bool { return &r.Frozen }),
		timestamp("frozen_at", func(r *approval.Epoch) *time.Time { return &r.FrozenAt }),
		optText("frozen_by", func(r *approval.Epoch) *string { return &r.FrozenBy }),
		optText("via", func(r *approval.Epoch) *approval.Via { return &r.Via }),
		optText("reason", func(r *approval.Epoch) *string { return &r.Reason }),
	}

	pinKeyColumns = columns[approval.ToolPin]{
		text("agent", func(r *approval.ToolPin) *string { return &r.Agent }),
		text("server", func(r *approval.ToolPin) *string { return &r.Server }),
		text("tool_name", func(r *approval.ToolPin) *string { return &r.Tool }),
	}
	pinnedColumns = columns[approval.ToolPin]{
		text("digest", func(r *approval.ToolPin) *string { return &r.Digest }),
		timestamp("seen_at", func(r *approval.ToolPin) *time.Time { return &r.SeenAt }),
		optText("accepted_by", func(r *approval.ToolPin) *string { return &r.AcceptedBy }),
		optText("earlier", func(r *approval.ToolPin) *string { return &r.Earlier }),
	}
	pinColumns = slices.Concat(pinKeyColumns, pinnedColumns)

	cardColumns = columns[approval.Card]{
		text("id", func(r *approval.Card) *string { return &r.ID }),
		text("agent", func(r *approval.Card) *string { return &r.Agent }),
		text("scope", func(r *approval.Card) *string { return &r.Scope }),
		text("session", func(r *approval.Card) *string { return &r.Session }),
		text("turn", func(r *approval.Card) *string { return &r.Turn }),
		text("grouping", func(r *approval.Card) *approval.Grouping { return &r.Grouping }),
		text("risk_level", func(r *approval.Card) *approval.Risk { return &r.Risk }),
		timestamp("opened_at", func(r *approval.Card) *time.Time { return &r.OpenedAt }),
		timestamp("leaves_at", func(r *approval.Card) *time.Time { return &r.LeavesAt }),
		timestamp("join_by", func(r *approval.Card) *time.Time { return &r.JoinBy }),
		jsonList("items", func(r *approval.Card) *[]approval.CardItem { return &r.Items }),
		number("shown", func(r *approval.Card) *int { return &r.Shown }),
	}

	// Of grants, only the last ones change, and what is large stands behind them.
	newGrantColumns = columns[approval.Grant]{
		text("id", func(r *approval.Grant) *string { return &r.ID }),
		boolean("deny", func(r *approval.Grant) *bool { return &r.Deny }),
		text("agent", func(r *approval.Grant) *string { return &r.Agent }),
		text("scope", func(r *approval.Grant) *string { return &r.Scope }),
		text("server", func(r *approval.Grant) *string { return &r.Server }),
		text("tool_name", func(r *approval.Grant) *string { return &r.Tool }),
		text("args_hash", func(r *approval.Grant) *string { return &r.ArgsHash }),
		jsonList("ignored_args", func(r *approval.Grant) *[]string { return &r.IgnoredArgs }),
		grantTerms("terms", func(r *approval.Grant) *approval.GrantTerms { return &r.Terms }),
		optText("session_id", func(r *approval.Grant) *string { return &r.Session }),
		text("request", func(r *approval.Grant) *string { return &r.RequestID }),
		optText("rule", func(r *approval.Grant) *string { return &r.Rule }),
		optText("rule_digest", func(r *approval.Grant) *string { return &r.RuleDigest }),
		text("risk_level", func(r *approval.Grant) *approval.Risk { return &r.Risk }),
		optText("tool_digest", func(r *approval.Grant) *string { return &r.ToolDigest }),
		boolean("tool_seen", func(r *approval.Grant) *bool { return &r.ToolSeen }),
		text("made_by", func(r *approval.Grant) *string { return &r.By }),
		optText("made_for", func(r *approval.Grant) *string { return &r.For }),
		optText("who", func(r *approval.Grant) *string { return &r.Who }),
		text("via", func(r *approval.Grant) *approval.Via { return &r.Via }),
		optText("reason", func(r *approval.Grant) *string { return &r.Reason }),
		timestamp("made_at", func(r *approval.Grant) *time.Time { return &r.MadeAt }),
		timestamp("expires_at", func(r *approval.Grant) *time.Time { return &r.ExpiresAt }),
		number("uses", func(r *approval.Grant) *int { return &r.Uses }),
		text("method", func(r *approval.Grant) *string { return &r.Method }),
	}
	lateGrantColumns = columns[approval.Grant]{
		number("used", func(r *approval.Grant) *int { return &r.Used }),
		number("unknown", func(r *approval.Grant) *int { return &r.Unknown }),
		timestamp("suspended_at", func(r *approval.Grant) *time.Time { return &r.SuspendedAt }),
		jsonMap("spent", func(r *approval.Grant) *map[string]string { return &r.Spent }),
		timestamp("ended_at", func(r *approval.Grant) *time.Time { return &r.EndedAt }),
		optText("ended_by", func(r *approval.Grant) *string { return &r.EndedBy }),
		optText("end_code", func(r *approval.Grant) *string { return &r.EndCode }),
	}
	wideGrantColumns = columns[approval.Grant]{
		textBytes("args", func(r *approval.Grant) *[]byte { return &r.Args }),
	}
	narrowGrantColumns = slices.Concat(newGrantColumns, lateGrantColumns)
	grantColumns       = slices.Concat(narrowGrantColumns, wideGrantColumns)

	grantUseColumns = columns[approval.GrantUse]{
		text("id", func(r *approval.GrantUse) *string { return &r.ID }),
		text("grant_id", func(r *approval.GrantUse) *string { return &r.GrantID }),
		text("args_hash", func(r *approval.GrantUse) *string { return &r.ArgsHash }),
		optText("session_id", func(r *approval.GrantUse) *string { return &r.Session }),
		optText("correlation_id", func(r *approval.GrantUse) *string { return &r.CorrelationID }),
		timestamp("at", func(r *approval.GrantUse) *time.Time { return &r.At }),
		timestamp("dispatched_at", func(r *approval.GrantUse) *time.Time { return &r.DispatchedAt }),
		optText("outcome", func(r *approval.GrantUse) *approval.RunResult { return &r.RunResult }),
		optText("runner", func(r *approval.GrantUse) *string { return &r.Runner }),
	}

	// What a person said last, beside the tool that it was of.
	saidColumns = columns[approval.Said]{
		text("request", func(r *approval.Said) *string { return &r.RequestID }),
		boolean("approved", func(r *approval.Said) *bool { return &r.Approved }),
		text("said_by", func(r *approval.Said) *string { return &r.By }),
		timestamp("at", func(r *approval.Said) *time.Time { return &r.At }),
		optText("reason", func(r *approval.Said) *string { return &r.Reason }),
	}

	newLinkColumns = columns[signin.LinkRow]{
		text("digest", func(r *signin.LinkRow) *string { return &r.Digest }),
		text("id", func(r *signin.LinkRow) *string { return &r.ID }),
		text("person", func(r *signin.LinkRow) *string { return &r.Person }),
		text("via", func(r *signin.LinkRow) *approval.Via { return &r.Via }),
		text("made_on", func(r *signin.LinkRow) *string { return &r.From }),
		timestamp("made_at", func(r *signin.LinkRow) *time.Time { return &r.MadeAt }),
		timestamp("expires_at", func(r *signin.LinkRow) *time.Time { return &r.ExpiresAt }),
		optText("opener", func(r *signin.LinkRow) *string { return &r.Opener }),
	}
	lateLinkColumns = columns[signin.LinkRow]{
		timestamp("ended_at", func(r *signin.LinkRow) *time.Time { return &r.EndedAt }),
		optText("end_code", func(r *signin.LinkRow) *signin.LinkEnd { return &r.End }),
	}
	linkColumns = slices.Concat(newLinkColumns, lateLinkColumns)

	sessionColumns = columns[signin.SessionRow]{
		text("digest", func(r *signin.SessionRow) *string { return &r.Digest }),
		text("id", func(r *signin.SessionRow) *string { return &r.ID }),
		text("person", func(r *signin.SessionRow) *string { return &r.Person }),
		text("method", func(r *signin.SessionRow) *signin.Method { return &r.Method }),
		text("origin", func(r *signin.SessionRow) *string { return &r.Origin }),
		text("user_agent", func(r *signin.SessionRow) *string { return &r.UserAgent }),
		timestamp("created_at", func(r *signin.SessionRow) *time.Time { return &r.CreatedAt }),
		timestamp("seen_at", func(r *signin.SessionRow) *time.Time { return &r.SeenAt }),
		timestamp("expires_at", func(r *signin.SessionRow) *time.Time { return &r.ExpiresAt }),
		optText("opener", func(r *signin.SessionRow) *string { return &r.Opener }),
	}

	passkeyOwnerColumns = columns[passkey.Owner]{
		text("person", func(r *passkey.Owner) *string { return &r.Person }),
		text("handle", func(r *passkey.Owner) *string { return &r.Handle }),
	}
	newPasskeyColumns = columns[passkey.Row]{
		text("id", func(r *passkey.Row) *string { return &r.ID }),
		text("credential", func(r *passkey.Row) *string { return &r.Credential }),
		text("person", func(r *passkey.Row) *string { return &r.Person }),
		text("name", func(r *passkey.Row) *string { return &r.Name }),
		text("public_key", func(r *passkey.Row) *string { return &r.PublicKey }),
		text("rp_id", func(r *passkey.Row) *string { return &r.RPID }),
		text("aaguid", func(r *passkey.Row) *string { return &r.AAGUID }),
		text("transports", func(r *passkey.Row) *string { return &r.Transports }),
		timestamp("added_at", func(r *passkey.Row) *time.Time { return &r.AddedAt }),
		boolean("backup_eligible", func(r *passkey.Row) *bool { return &r.BackupEligible }),
	}
	latePasskeyColumns = columns[passkey.Row]{
		number("sign_count", func(r *passkey.Row) *int64 { return &r.SignCount }),
		boolean("backed_up", func(r *passkey.Row) *bool { return &r.BackedUp }),
		timestamp("used_at", func(r *passkey.Row) *time.Time { return &r.UsedAt }),
		timestamp("blocked_at", func(r *passkey.Row) *time.Time { return &r.BlockedAt }),
	}
	passkeyColumns = slices.Concat(newPasskeyColumns, latePasskeyColumns)
)
