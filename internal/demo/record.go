package demo

import (
	"encoding/json"
	"strconv"
	"strings"

	"countersign/client"
)

// happenings are the audit log's events in a word or two; others are shown by their own name.
var happenings = map[string]string{
	"call_allowed": "allowed", "call_denied": "denied by policy", "approval_requested": "asked",
	"decision_refused": "refused", "webhook_refused": "refused", "hitl_vote": "voted", "approval_consumed": "used",
	"approval_acked": "read by the agent", "notification_sent": "sent", "notification_retrying": "retrying",
	"notification_failed": "failed", "policy_reloaded": "policy read", "policy_reload_failed": "policy refused",
	"decision_reason_added": "reason added", "channel_dead": "blocked", "channel_alive": "unblocked",
	"sign_in_link_made": "link made", "grant_made": "granted", "grant_used": "grant used",
}

// lineOf is a row of the audit log as the page shows it.
func (d *Demo) lineOf(e client.AuditEvent) []string {
	word := happenings[e.EventType]
	if e.EventType == "hitl_decision" {
		word = map[string]string{"approve": "approved", "deny": "denied", "timeout": "expired"}[e.Decision]
	}
	if word == "" {
		word = strings.ReplaceAll(e.EventType, "_", " ")
	}
	what := e.Tool
	if e.ApprovalID != "" {
		what = strings.TrimSpace(what + " " + short(e.ApprovalID))
	}
	var push struct{ Channel, Recipient, Kind string }
	if json.Unmarshal(e.Data, &push) == nil && push.Kind != "" {
		what = strings.TrimSpace(push.Kind + " to " + d.who(push.Recipient) + " in " + push.Channel + " " + what)
	}
	return []string{strconv.FormatInt(e.Seq, 10), word, d.actor(e.Actor), what, plain(e.Reason), hour(e.At)}
}

// plain is a reason as people read it: what people and rules say stays, and a code is written as words.
func plain(reason string) string {
	if strings.ContainsFunc(reason, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
		return reason
	}
	return strings.ReplaceAll(reason, "_", " ")
}

// actor names who did something: a person by name, a stranger by what the page calls them.
func (d *Demo) actor(actor string) string {
	_, name, _ := strings.Cut(actor, ":")
	for _, p := range d.Chat.People() {
		for _, address := range []string{p.LINE, p.Slack} {
			if address != "" && strings.HasSuffix(actor, address) {
				return p.Name
			}
		}
	}
	if name == "" {
		return actor
	}
	return name
}
