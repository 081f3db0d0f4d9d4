package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

const grantID = "01K9ZQ3V5T8M2N4P6R7S9W1G7A"

// aGrant is one of the stand-in's.
func aGrant(decision string, more map[string]any) map[string]any {
	m := map[string]any{
		"id": grantID, "decision": decision, "agent": "treasury-bot", "scope": "", "server": "bank",
		"tool": "transfer_credits",
		"args": json.RawMessage(`{"amount_cents":12345678901234567890,"memo":"\u001b[2J"}`), "args_hash": strings.Repeat("ab",
			32),
		"vary": map[string]any{}, "any_args": false, "session_id": nil, "request_id": pendingID, "rule": "small transfers",
		"risk_level": "medium",
		"made_by":    "hana", "who": "hana", "via": "cli", "reason": nil, "made_at": "2026-11-21T09:30:00.000Z",
		"expires_at": time.Now().Add(8*time.Hour + time.Minute/2).UTC().Format(time.RFC3339), "uses": nil, "used": 0,
		"spent":        map[string]any{},
		"suspended_at": nil, "ended_at": nil, "ended_by": nil, "end_code": nil,
	}
	for k, v := range more {
		m[k] = v
	}
	return m
}

// longer answers a decision that is to be given for longer.
func longer(w http.ResponseWriter, id, decision string, wish map[string]any) {
	more := map[string]any{"uses": wish["uses"]}
	if wish["session"] == true {
		more["session_id"] = "s1"
	}
	switch id {
	case "REFUSED":
		problem(w, 422, "grant_refused",
			"Rule payments does not allow that an approval is given for longer. Nothing was decided.")
		return
	case "VARIES":
		more["vary"] = map[string]any{"memo": map[string]any{"any": true}, "amount_cents": map[string]any{"at_most": "5000"}}
	case "ANY":
		more["any_args"] = true
	}
	a := map[string]any{"id": pendingID, "status": "approved", "approved_by": "hana", "reason": nil,
		"grant": aGrant(decision, more)}
	if decision == "deny" {
		a["status"], a["denied_by"] = "denied", "hana"
	}
	answer(w, 200, a)
}

// grants answers about grants: a page with one, and then one more, and those that ended where they are asked for.
func grants(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.URL.Path, "/v1/grants/")
	switch q := r.URL.Query(); {
	case r.Method == http.MethodDelete && id == "OTHERS":
		problem(w, 403, "not_admin", "Only who made it and an admin may revoke this.")
	case r.Method == http.MethodDelete:
		answer(w, 200, aGrant("approve", map[string]any{"ended_at": "2026-11-21T09:30:00.000Z", "ended_by": "hana",
			"end_code": "revoked"}))
	case q.Get("agent") == "nobody":
		answer(w, 200, map[string]any{"grants": []any{}, "next": nil})
	case q.Get("all") != "":
		ended := aGrant("approve", map[string]any{"ended_at": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339),
			"ended_by": "system:policy",
			"end_code": "policy_changed", "any_args": true})
		answer(w, 200, map[string]any{"grants": []any{ended, aGrant("approve", map[string]any{"suspended_at": "2026-11-21T09:30:00.000Z"})}, "next": nil})
	case q.Get("after") == "":
		answer(w, 200, map[string]any{"grants": []any{aGrant("approve", map[string]any{"uses": 20, "used": 3, "who": "ken for hana",
			"vary": map[string]any{"memo": map[string]any{"any": true}, "amount_cents": map[string]any{"at_most": "5000",
				"total": "20000"}},
			"spent": map[string]any{"amount_cents": "1500.5"}})}, "next": "more"})
	default:
		answer(w, 200, map[string]any{"grants": []any{aGrant("deny", map[string]any{"session_id": "s1", "used": 2})},
			"next": nil})
	}
}
