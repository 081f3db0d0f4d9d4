package rest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/auth"
	"countersign/internal/testkit"
)

// Every path that is there, with its parts as a test needs them.
type target struct{ method, path, body string }

var unknownID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

// targets returns one well-formed request for every route; those with an id are about id and nid.
func targets(id, nid string) []target {
	return []target{
		{"POST", "/v1/calls", transfer},
		{"POST", "/v1/calls/batch", `{"calls":[` + transfer + `]}`},
		{"GET", "/v1/approvals/resolved", ""},
		{"POST", "/v1/approvals/ack", `{"ids":["` + id + `"]}`},
		{"GET", "/v1/approvals/" + id, ""},
		{"POST", "/v1/approvals/" + id + "/cancel", `{"reason":"r"}`},
		{"POST", "/v1/approvals/" + id + "/outcome", `{"outcome":"failed"}`},
		{"POST", "/v1/approvals/" + id + "/inputs", `{"method":"roots/list","answer":{}}`},
		{"GET", "/v1/approvals", ""},
		{"POST", "/v1/approvals/" + id + "/decide", `{"decision":"approve"}`},
		{"POST", "/v1/approvals/decide", `{"ids":["` + id + `"],"decision":"approve"}`},
		{"POST", "/v1/approvals/" + id + "/extend", ""},
		{"POST", "/v1/freeze", `{"agent":"bot","reason":"r"}`},
		{"GET", "/v1/freeze", ""},
		{"DELETE", "/v1/freeze?agent=bot", ""},
		{"POST", "/v1/clock/accept", ""},
		{"POST", "/v1/erase", `{"agent":"bot"}`},
		{"POST", "/v1/delegations", `{"to":"ken","until":"2026-11-22T10:00:00Z"}`},
		{"GET", "/v1/delegations", ""},
		{"DELETE", "/v1/delegations/" + unknownID, ""},
		{"POST", "/v1/sign-in-links", ""},
		{"DELETE", "/v1/approvals/" + id + "/denial", ""},
		{"GET", "/v1/grants", ""},
		{"GET", "/v1/grants/" + unknownID, ""},
		{"DELETE", "/v1/grants/" + unknownID, ""},
		{"GET", "/v1/policies/0123abcd", ""},
		{"GET", "/v1/stats", ""},
		{"GET", "/v1/notifications", ""},
		{"POST", "/v1/notifications/" + nid + "/retry", ""},
		{"GET", "/v1/audit", ""},
		{"GET", "/v1/events", ""},
	}
}

// Two routes need no token: the document, and the proof.
func TestTheTargetsAreAllRoutes(t *testing.T) {
	if got, want := len(targets("", "")), len(bare().routes)-2; got != want {
		t.Errorf("%d targets for %d routes", got, want)
	}
}

func TestWithoutAValidTokenNothingIsSaid(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	nid := w.failNotification(id)
	all := append(targets(id, nid), targets(unknownID, unknownID)...)
	all = append(all, target{"GET", "/v1/nothing", ""}, target{"DELETE", "/v1/calls", ""}, target{"POST", "/v1/calls",
		"{"}, target{"GET", "/v1/audit?bogus=1", ""})
	for _, tt := range all {
		for name, header := range map[string][]string{
			"none": {"Authorization", ""}, "unknown": {"Authorization", "Bearer nobodys-token-000000"},
			"empty": {"Authorization", "Bearer "},
			"basic": {"Authorization", "Basic " + botToken}, "bare": {"Authorization", botToken}, "prefix": {"Authorization",
				"Bearer " + botToken[:20]},
		} {
			r := w.do("", tt.method, tt.path, tt.body, header...).is(401, "unauthorized")
			if !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s %s: %s token: WWW-Authenticate is %q", tt.method, tt.path, name, r.header.Get("WWW-Authenticate"))
			}
		}
	}
	for _, ok := range []string{"bearer " + botToken, "BEARER  " + botToken} {
		w.do("", "POST", "/v1/calls", transfer, "Authorization", ok).is(202)
	}
}

func TestTwoTokensAreNoToken(t *testing.T) {
	w := newWorld(t)
	req, _ := http.NewRequestWithContext(t.Context(), "GET", w.srv.URL+"/v1/audit", nil)
	req.Header["Authorization"] = []string{"Bearer " + botToken, "Bearer " + hanaToken}
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 401 {
		t.Errorf("got %d", resp.StatusCode)
	}
}

func TestWhoMayDoWhat(t *testing.T) {
	w := newWorld(t)
	for i, tt := range []struct {
		who, method, path, body string // {own}: a pending request of bot; {failed}: its notification
		status                  int
		code                    approval.Code
	}{
		// Only agents ask.
		{hanaToken, "POST", "/v1/calls", transfer, 403, "agents_only"},
		{hanaToken, "POST", "/v1/calls", "{", 403, "agents_only"},
		{hanaToken, "POST", "/v1/calls/batch", `{"calls":[]}`, 403, "agents_only"},
		{hanaToken, "GET", "/v1/approvals/resolved", "", 403, "agents_only"},
		{hanaToken, "POST", "/v1/approvals/ack", `{"ids":[]}`, 403, "agents_only"},
		{hanaToken, "POST", "/v1/approvals/{own}/outcome", `{"outcome":"failed"}`, 403, "agents_only"},
		{hanaToken, "POST", "/v1/approvals/{own}/outcome", "{", 403, "agents_only"},
		{hanaToken, "POST", "/v1/approvals/" + unknownID + "/outcome", "{", 404, "not_found"},
		{otherToken, "POST", "/v1/approvals/{own}/outcome", `{"outcome":"failed"}`, 404, "not_found"},
		{otherToken, "POST", "/v1/approvals/{own}/outcome", "{", 404, "not_found"},
		{botToken, "POST", "/v1/approvals/{own}/outcome?bogus=1", `{"outcome":"failed"}`, 400, "invalid_parameter"},
		// Only people see what all agents asked.
		{botToken, "GET", "/v1/approvals", "", 403, "people_only"},
		{botToken, "GET", "/v1/approvals?bogus=1", "", 403, "people_only"},
		{botToken, "GET", "/v1/notifications", "", 403, "people_only"},
		{botToken, "GET", "/v1/audit", "", 403, "people_only"},
		{guestToken, "GET", "/v1/approvals", "", 200, ""},
		{guestToken, "GET", "/v1/approvals/{own}", "", 200, ""},
		// An agent sees its own.
		{botToken, "GET", "/v1/approvals/{own}", "", 200, ""},
		{otherToken, "GET", "/v1/approvals/{own}", "", 404, "not_found"},
		{otherToken, "GET", "/v1/approvals/{own}?wait=junk", "", 404, "not_found"},
		{otherToken, "POST", "/v1/approvals/{own}/cancel", "", 404, "not_found"},
		{botToken, "GET", "/v1/approvals/" + unknownID, "", 404, "not_found"},
		{hanaToken, "GET", "/v1/approvals/" + unknownID, "", 404, "not_found"},
		{hanaToken, "GET", "/v1/approvals/junk", "", 404, "not_found"},
		// An agent never decides, not even on its own.
		{botToken, "POST", "/v1/approvals/{own}/decide", `{"decision":"approve"}`, 403, "people_only"},
		{botToken, "POST", "/v1/approvals/{own}/decide", `{"decision":"deny"}`, 403, "people_only"},
		{botToken, "POST", "/v1/approvals/{own}/decide", "{", 403, "people_only"},
		{otherToken, "POST", "/v1/approvals/{own}/decide", `{"decision":"approve"}`, 404, "not_found"},
		{botToken, "POST", "/v1/approvals/" + unknownID + "/decide", `{"decision":"approve"}`, 404, "not_found"},
		// Admin alone does not do; what is not there comes first.
		{rootToken, "POST", "/v1/approvals/{own}/decide", `{"decision":"approve"}`, 403, "not_an_approver"},
		{guestToken, "POST", "/v1/approvals/{own}/decide", `{"decision":"approve"}`, 403, "not_an_approver"},
		{guestToken, "POST", "/v1/approvals/{own}/decide", `{`, 403, "not_an_approver"},
		{guestToken, "POST", "/v1/approvals/" + unknownID + "/decide", `{"decision":"approve"}`, 404, "not_found"},
		{guestToken, "POST", "/v1/approvals/" + unknownID + "/decide", `{`, 404, "not_found"},
		{hanaToken, "POST", "/v1/approvals/" + unknownID + "/decide", `{`, 404, "not_found"},
		{hanaToken, "POST", "/v1/approvals/{own}/decide", `{`, 400, "invalid_json"},
		// Cancelling is for the agent, an admin, or who approved it.
		{kenToken, "POST", "/v1/approvals/{own}/cancel", "", 403, "not_admin"},
		{kenToken, "POST", "/v1/approvals/" + unknownID + "/cancel", "", 404, "not_found"},
		{rootToken, "POST", "/v1/approvals/{own}/cancel", "", 200, ""},
		{botToken, "POST", "/v1/approvals/{own}/cancel", "", 200, ""},
		// Grants are for those who decide or administrate, and an agent sees its own.
		{guestToken, "GET", "/v1/grants", "", 403, "not_an_approver"},
		{guestToken, "GET", "/v1/grants?bogus=1", "", 400, "invalid_parameter"},
		{kenToken, "GET", "/v1/grants", "", 200, ""},
		{rootToken, "GET", "/v1/grants?all=true&agent=bot&limit=1", "", 200, ""},
		{rootToken, "GET", "/v1/grants?all=yes", "", 400, "invalid_parameter"},
		{botToken, "GET", "/v1/grants", "", 200, ""},
		{guestToken, "GET", "/v1/grants/" + unknownID, "", 404, "not_found"},
		{botToken, "GET", "/v1/grants/" + unknownID, "", 404, "not_found"},
		{botToken, "GET", "/v1/grants/ABCDEF", "", 404, "not_found"},
		{kenToken, "GET", "/v1/grants/ABCDEF", "", 404, "not_found"},
		{botToken, "DELETE", "/v1/grants/" + unknownID, "", 404, "not_found"},
		{kenToken, "DELETE", "/v1/grants/" + unknownID, "", 404, "not_found"},
		{botToken, "DELETE", "/v1/approvals/{own}/denial", "", 403, "people_only"},
		{otherToken, "DELETE", "/v1/approvals/{own}/denial", "", 404, "not_found"},
		{kenToken, "DELETE", "/v1/approvals/{own}/denial?bogus=1", "", 400, "invalid_parameter"},
		{kenToken, "DELETE", "/v1/approvals/" + unknownID + "/denial", "", 404, "not_found"},
		{kenToken, "DELETE", "/v1/approvals/ABCDEF/denial", "", 404, "not_found"},
		// The logs are for admins.
		{kenToken, "GET", "/v1/notifications", "", 403, "not_admin"},
		{kenToken, "GET", "/v1/audit", "", 403, "not_admin"},
		{kenToken, "GET", "/v1/audit?bogus=1", "", 403, "not_admin"},
		{rootToken, "GET", "/v1/notifications", "", 200, ""},
		{rootToken, "GET", "/v1/audit", "", 200, ""},
		{kenToken, "POST", "/v1/notifications/{failed}/retry", "", 403, "not_admin"},
		{kenToken, "POST", "/v1/notifications/" + unknownID + "/retry", "", 404, "not_found"},
		{botToken, "POST", "/v1/notifications/{failed}/retry", "", 403, "people_only"},
		{otherToken, "POST", "/v1/notifications/{failed}/retry", "", 404, "not_found"},
		{rootToken, "POST", "/v1/notifications/{failed}/retry", "", 202, ""},
		{rootToken, "POST", "/v1/notifications/{failed}/retry", "{}", 202, ""},
		{rootToken, "POST", "/v1/notifications/{failed}/retry", `{"x":1}`, 400, "unknown_field"},
	} {
		t.Run(tt.method+" "+tt.path+" "+strings.Split(tt.who, "-")[2], func(t *testing.T) {
			w.t = t
			id := w.ask(asked(i))
			nid := w.failNotification(id)
			path := strings.NewReplacer("{own}", id, "{failed}", nid).Replace(tt.path)
			r := w.do(tt.who, tt.method, path, tt.body)
			if tt.code != "" {
				r.is(tt.status, tt.code)
			} else {
				r.is(tt.status)
			}
			if tt.status >= 400 {
				if got := w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200); got.str("status") != "pending" {
					t.Errorf("a refused request changed the status to %s", got.str("status"))
				}
			}
		})
	}
}

func TestARefusedDecisionIsOnRecord(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	w.decide(botToken, id, "approve", "").is(403, "people_only")
	w.decide(guestToken, id, "approve", "").is(403, "not_an_approver")
	w.decide(guestToken, unknownID, "deny", "").is(404, "not_found")
	var got []string
	for _, e := range w.do(hanaToken, "GET", "/v1/audit?event_type=decision_refused", "").is(200).list("events") {
		got = append(got, e["actor"].(string)+" "+e["decision"].(string)+" "+e["reason"].(string))
	}
	if want := "guest deny not_found, guest approve not_an_approver, agent:bot approve not_an_approver"; strings.Join(got,
		", ") != want {
		t.Errorf("got %v", got)
	}
}

func TestADecisionStandsAndTheNextOneIsToldOfIt(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	r := w.decide(hanaToken, id, "approve", "rent").is(200)
	if got, want := string(r.body), `{"id":"`+id+
		`","status":"approved","approved_by":"hana","approved_at":"2026-11-21T10:00:00.000Z","reason":"rent"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, decision := range []string{"approve", "deny"} {
		r = w.decide(kenToken, id, decision, "").is(409, "already_resolved")
		if r.str("detail") != "Already approved by hana (2026-11-21T10:00:00.000Z)." || r.str("approval", "id") != id ||
			r.str("approval", "resolved_by") != "hana" {
			t.Errorf("%s", r.body)
		}
	}
	denied := w.ask(asked(1))
	r = w.decide(kenToken, denied, "deny", "").is(200)
	if got, want := string(r.body), `{"id":"`+denied+
		`","status":"denied","denied_by":"ken","denied_at":"2026-11-21T10:00:00.000Z","reason":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestADecisionAfterTheDeadlineIsGone(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	w.clock.Advance(time.Hour) // at the deadline it is expired
	r := w.decide(hanaToken, id, "approve", "").is(410, "expired")
	if r.str("detail") != "This approval request has expired. Ask again if it is still needed." ||
		r.str("approval", "status") != "expired" {
		t.Errorf("%s", r.body)
	}
	w.do(hanaToken, "POST", "/v1/approvals/"+id+"/cancel", "").is(410, "expired")
}

func TestADecisionWithoutTheReasonThatIsNeededIsRefused(t *testing.T) {
	w := newWorld(t)
	id := w.ask(`{"tool":"deploy"}`)
	for _, decision := range []string{"approve", "deny"} {
		if r := w.decide(hanaToken, id, decision, "  ").is(422, "reason_required"); r.str("approval", "id") != id {
			t.Errorf("%s", r.body)
		}
	}
	w.decide(rootToken, id, "approve", "").is(403, "not_an_approver") // 403 before 422
	w.decide(hanaToken, id, "approve", strings.Repeat("x", approval.MaxReason+1)).is(400, "invalid_parameter")
	w.decide(hanaToken, id, "approve", "release 7").is(200)
	w.decide(hanaToken, id, "approve", "").is(409, "already_resolved") // 409 before 422
}

func TestCancellingTakesBackWhatWasNotUsed(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	w.decide(kenToken, id, "approve", "").is(200)
	r := w.do(kenToken, "POST", "/v1/approvals/"+id+"/cancel", `{"reason":"changed my mind"}`, "X-Countersign-Client",
		"cli").is(200)
	if r.str("status") != "cancelled" || r.str("resolved_by") != "ken" || r.str("resolved_via") != "cli" ||
		r.str("resolve_reason") != "changed my mind" {
		t.Errorf("%s", r.body)
	}
	w.do(rootToken, "POST", "/v1/approvals/"+id+"/cancel", "").is(409, "already_resolved")
	used := w.ask(transfer)
	w.decide(kenToken, used, "approve", "").is(200)
	w.do(botToken, "POST", "/v1/calls", transfer).is(200)
	if r := w.do(botToken, "POST", "/v1/approvals/"+used+"/cancel", "").is(409, "already_resolved"); r.str("approval",
		"id") != used {
		t.Errorf("%s", r.body)
	}
}

func TestADecisionSaysOverWhichWayItCame(t *testing.T) {
	w := newWorld(t)
	for i, tt := range []struct{ client, via string }{{"", "api"}, {"cli", "cli"}, {"line", "api"}, {"terminal", "api"}} {
		id := w.ask(asked(i))
		w.do(hanaToken, "POST", "/v1/approvals/"+id+"/decide", `{"decision":"approve"}`, "X-Countersign-Client",
			tt.client).is(200)
		if r := w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200); r.str("resolved_via") != tt.via {
			t.Errorf("%q: got %s, want %s", tt.client, r.str("resolved_via"), tt.via)
		}
	}
}

func TestOnlyAFailedNotificationIsSentAgain(t *testing.T) {
	w := newWorld(t)
	nid := w.failNotification(w.ask(transfer))
	n := w.do(hanaToken, "GET", "/v1/notifications?status=failed", "").is(200).list("notifications")
	if len(n) != 1 || n[0]["id"] != nid || n[0]["error"] != "bad_recipient: no such user" ||
		n[0]["next_attempt_at"] != nil {
		t.Fatalf("%v", n)
	}
	want := strings.Fields(
		"approval_id attempt channel created_at error http_status id kind message_id next_attempt_at recipient sent_at status updated_at")
	if got := names(n[0]); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("a notification has %v", got)
	}
	r := w.do(hanaToken, "POST", "/v1/notifications/"+nid+"/retry", "").is(202)
	if r.str("id") != nid || r.str("status") != "queued" ||
		r.at("attempt").(interface{ String() string }).String() != "0" {
		t.Errorf("%s", r.body)
	}
	w.do(hanaToken, "POST", "/v1/notifications/"+nid+"/retry", "").is(409, "not_failed")
	w.do(kenToken, "POST", "/v1/notifications/"+nid+"/retry", "").is(403, "not_admin") // 403 before 409
}

func TestWhatIsNotThereAndWhatIsNotTaken(t *testing.T) {
	w := newWorld(t)
	w.do(hanaToken, "GET", "/v1/nothing", "").is(404, "not_found")
	w.do("", "GET", "/nothing", "").is(404, "not_found")
	w.do(hanaToken, "GET", "/v1/approvals/x/y/z", "").is(404, "not_found")
	for _, p := range []string{"/v1//calls", "/v1/calls/", "/v1/./calls", "/v1/x/../calls", "/v1/approvals//decide"} {
		w.do(botToken, "POST", p, transfer).is(404, "not_found")
	}
	for _, tt := range []struct{ method, path, allow string }{
		{"GET", "/v1/calls", "POST"}, {"PUT", "/v1/calls", "POST"}, {"POST", "/v1/approvals", "GET, HEAD"},
		{"DELETE", "/v1/approvals/" + unknownID, "GET, HEAD"},
		{"POST", "/v1/audit", "GET, HEAD"}, {"GET", "/v1/approvals/x/decide", "POST"}, {"PATCH", "/v1/events", "GET, HEAD"},
		{"POST", "/openapi.json", "GET, HEAD"},
	} {
		r := w.do(hanaToken, tt.method, tt.path, "").is(405, "method_not_allowed")
		if got := r.header.Get("Allow"); got != tt.allow {
			t.Errorf("%s %s: Allow is %q, want %q", tt.method, tt.path, got, tt.allow)
		}
	}
}

func TestWrongParametersAreNamed(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	for _, tt := range []struct{ token, method, path, body, detail string }{
		{botToken, "POST", "/v1/calls?bogus=1", transfer, "bogus"},
		{botToken, "POST", "/v1/calls?wait=soon", transfer, "wait"},
		{botToken, "POST", "/v1/calls?wait=", transfer, "wait"},
		{botToken, "POST", "/v1/calls?wait=-1", transfer, "wait"},
		{botToken, "POST", "/v1/calls?wait=1&wait=2", transfer, "more than once"},
		{botToken, "POST", "/v1/calls?wait=%zz", transfer, "query"},
		{botToken, "POST", "/v1/calls?approval_id=" + id, transfer, "wait"},
		{botToken, "POST", "/v1/calls?wait=1&approval_id=1", transfer, "approval_id"},
		{botToken, "POST", "/v1/calls?wait=1&approval_id=" + id, `{"tool":"transfer","args":{"other":1}}`, "another call"},
		{botToken, "POST", "/v1/calls/batch?wait=1", `{"calls":[` + transfer + `]}`, "wait"},
		{botToken, "GET", "/v1/approvals/resolved?wait=1h1", "", "wait"},
		{botToken, "GET", "/v1/approvals/resolved?session_id=" + strings.Repeat("x", 257), "", "session_id"},
		{botToken, "POST", "/v1/approvals/ack?x=1", `{"ids":[]}`, "x"},
		{botToken, "GET", "/v1/approvals/" + id + "?wait=x", "", "wait"},
		{botToken, "POST", "/v1/approvals/" + id + "/cancel?x", "", "x"},
		{hanaToken, "POST", "/v1/approvals/" + id + "/decide?x", `{"decision":"deny"}`, "x"},
		{hanaToken, "GET", "/v1/approvals?status=lapsed", "", "status"},
		{hanaToken, "GET", "/v1/approvals?status=", "", "status"},
		{hanaToken, "GET", "/v1/approvals?risk_level=huge", "", "risk_level"},
		{hanaToken, "GET", "/v1/approvals?limit=0", "", "limit"},
		{hanaToken, "GET", "/v1/approvals?limit=201", "", "limit"},
		{hanaToken, "GET", "/v1/approvals?limit=x", "", "limit"},
		{hanaToken, "GET", "/v1/approvals?after=junk", "", "after"},
		{hanaToken, "GET", "/v1/approvals?tool=a%20b", "", "tool"},
		{hanaToken, "GET", "/v1/approvals?tool=a/b/c", "", "tool"},
		{hanaToken, "GET", "/v1/approvals?agent=", "", "agent"},
		{hanaToken, "GET", "/v1/notifications?status=done", "", "status"},
		{hanaToken, "GET", "/v1/notifications?channel=a%00b", "", "channel"},
		{hanaToken, "GET", "/v1/notifications?approval_id=1", "", "approval_id"},
		{hanaToken, "GET", "/v1/notifications?after=1", "", "after"},
		{hanaToken, "POST", "/v1/notifications/" + w.failNotification(id) + "/retry?x", "", "x"},
		{hanaToken, "GET", "/v1/audit?event_type=nothing", "", "event_type"},
		{hanaToken, "GET", "/v1/audit?decision=maybe", "", "decision"},
		{hanaToken, "GET", "/v1/audit?since=yesterday", "", "since"},
		{hanaToken, "GET", "/v1/audit?until=2026-01-01T00:00:00+09:00", "", "until"}, // + is a space
		{hanaToken, "GET", "/v1/audit?after=x", "", "after"},
		{hanaToken, "GET", "/v1/audit?limit=-1", "", "limit"},
		{hanaToken, "GET", "/v1/events?wait=1", "", "wait"},
	} {
		r := w.do(tt.token, tt.method, tt.path, tt.body).is(400, "invalid_parameter")
		if !strings.Contains(r.str("detail"), tt.detail) {
			t.Errorf("%s: the detail is %q", tt.path, r.str("detail"))
		}
	}
	if r := w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200); r.str("status") != "pending" {
		t.Error("a refused decision was carried out")
	}
}

func TestAWaitIsCappedAtAMinute(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "30": 30 * time.Second, "0": 0, "1h": time.Minute, "61": time.Minute,
		"1.5s": 1500 * time.Millisecond, "2147483647": time.Minute,
	} {
		if got, err := parseWait(s); got != want || err != nil {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"-1s", "-1", "1.5", "s", "99999999999999999999", "1e3", "30 s"} {
		if got, err := parseWait(s); err == nil {
			t.Errorf("%s: %v", s, got)
		}
	}
}

func TestABodyIsReadStrictly(t *testing.T) {
	w := newWorld(t)
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for name, tt := range map[string]struct {
		body string
		code approval.Code
	}{
		"nothing":                       {" ", "invalid_json"},
		"not JSON":                      {`{"tool":`, "invalid_json"},
		"an array":                      {`[` + transfer + `]`, "invalid_json"},
		"a string":                      {`"transfer"`, "invalid_json"},
		"null":                          {`null`, "invalid_json"},
		"two objects":                   {transfer + transfer, "invalid_json"},
		"junk behind":                   {transfer + "x", "invalid_json"},
		"a comma behind":                {`{"tool":"transfer",}`, "invalid_json"},
		"a byte order mark":             {"\ufeff" + transfer, "invalid_json"},
		"not UTF-8":                     {"{\"tool\":\"transfer\",\"rationale\":\"\xff\"}", "invalid_json"},
		"half a surrogate pair":         {`{"tool":"transfer","rationale":"\ud800"}`, "invalid_json"},
		"a name that is not UTF-8":      {"{\"tool\":\"transfer\",\"\xff\":1}", "invalid_json"},
		"a name twice":                  {`{"tool":"read_file","tool":"transfer"}`, "invalid_json"},
		"a name twice, once escaped":    {`{"tool":"read_file","t\u006fol":"transfer"}`, "invalid_json"},
		"args twice":                    {`{"tool":"transfer","args":{},"args":{}}`, "invalid_json"},
		"a name in two cases":           {`{"tool":"read_file","Tool":"transfer"}`, "invalid_json"},
		"a name in two cases, reversed": {`{"TOOL":"transfer","tool":"read_file"}`, "invalid_json"},
		"an unknown name":               {`{"tool":"transfer","agent":"other"}`, "unknown_field"},
		"a name in the wrong case":      {`{"Tool":"transfer"}`, "unknown_field"},
		"an empty name":                 {`{"tool":"transfer","":1}`, "unknown_field"},
		"no tool":                       {`{}`, "invalid_tool"},
		"a tool of null":                {`{"tool":null}`, "invalid_tool"},
		"a tool with a space":           {`{"tool":"a b"}`, "invalid_tool"},
		"a tool with a line break":      {`{"tool":"transfer\n"}`, "invalid_tool"},
		"a long tool":                   {`{"tool":"` + strings.Repeat("x", 129) + `"}`, "invalid_tool"},
		"a strange server":              {`{"tool":"x","server":"a/b"}`, "invalid_tool"},
		"a tool that is a number":       {`{"tool":1}`, "invalid_parameter"},
		"a scope that is an object":     {`{"tool":"x","scope":{}}`, "invalid_parameter"},
		"a long scope":                  {`{"tool":"x","scope":"` + strings.Repeat("x", 1025) + `"}`, "invalid_parameter"},
		"a long rationale": {`{"tool":"x","rationale":"` + strings.Repeat("x", 16<<10+1) + `"}`,
			"invalid_parameter"},
		"a method that is none":        {`{"tool":"a b","method":"a b"}`, "invalid_tool"},
		"a strange method":             {`{"tool":"Prompts:get","method":"Prompts/get"}`, "invalid_parameter"},
		"a method under another tool":  {`{"tool":"transfer","method":"resources/read"}`, "invalid_tool"},
		"a method without its tool":    {`{"method":"resources/read"}`, "invalid_tool"},
		"a digest that is none":        {`{"tool":"x","tool_digest":"0123"}`, "invalid_parameter"},
		"a dispatch that is a number":  {`{"tool":"x","dispatch":1}`, "invalid_parameter"},
		"a task that is a text":        {`{"tool":"x","task":"true"}`, "invalid_parameter"},
		"args of null":                 {`{"tool":"x","args":null}`, "invalid_args"},
		"args that are an array":       {`{"tool":"x","args":[]}`, "invalid_args"},
		"args that are a string":       {`{"tool":"x","args":"{}"}`, "invalid_args"},
		"a key twice in args":          {`{"tool":"x","args":{"a":{"b":1,"b":2}}}`, "invalid_args"},
		"a key twice in args, escaped": {`{"tool":"x","args":{"a":1,"\u0061":2}}`, "invalid_args"},
		"args that are not UTF-8":      {"{\"tool\":\"x\",\"args\":{\"a\":\"\xff\"}}", "invalid_args"},
		"half a pair in args":          {`{"tool":"x","args":{"a":"\udc00"}}`, "invalid_args"},
		"args 65 levels deep":          {`{"tool":"x","args":` + deep(65) + `}`, "invalid_args"},
		"args 20,000 levels deep":      {`{"tool":"x","args":` + deep(20_000) + `}`, "invalid_args"},
		"args that are not JSON":       {`{"tool":"x","args":{a:1}}`, "invalid_json"},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.do(botToken, "POST", "/v1/calls", tt.body).is(400, tt.code)
			if d := r.str("detail"); d == "" || strings.Contains(d, "\xff") {
				t.Errorf("the detail is %q", d)
			}
		})
	}
	w.do(botToken, "POST", "/v1/calls", `{"tool":"x","args":`+deep(64)+`}`).is(202)
	w.do(botToken, "POST", "/v1/calls", " \r\n"+transfer+"\t\n").is(202)
	w.do(botToken, "POST", "/v1/calls", `{"tool":"transfer","session_id":null,"args":{"A":1,"a":2}}`).is(202)
	if n := len(w.do(hanaToken, "GET", "/v1/approvals", "").is(200).list("approvals")); n != 3 {
		t.Errorf("%d requests were made", n)
	}
}

func TestOtherBodiesAreReadStrictlyToo(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	decide, cancel, outcome := "/v1/approvals/"+id+"/decide", "/v1/approvals/"+id+"/cancel", "/v1/approvals/"+id+"/outcome"
	for _, tt := range []struct {
		token, path, body string
		code              approval.Code
	}{
		{hanaToken, decide, "", "invalid_json"},
		{hanaToken, decide, `{}`, "invalid_parameter"},
		{hanaToken, decide, `{"decision":"approved"}`, "invalid_parameter"},
		{hanaToken, decide, `{"decision":"Approve"}`, "invalid_parameter"},
		{hanaToken, decide, `{"decision":true}`, "invalid_parameter"},
		{hanaToken, decide, `{"decision":"approve","reason":1}`, "invalid_parameter"},
		{hanaToken, decide, `{"decision":"deny","decision":"approve"}`, "invalid_json"},
		{hanaToken, decide, `{"decision":"deny","Decision":"approve"}`, "invalid_json"},
		{hanaToken, decide, `{"decision":"approve","by":"hana"}`, "unknown_field"},
		{hanaToken, decide, `{"decision":"approve"}{}`, "invalid_json"},
		{botToken, outcome, "", "invalid_json"},
		{botToken, outcome, `{}`, "invalid_parameter"},
		{botToken, outcome, `{"outcome":"Failed"}`, "invalid_parameter"},
		{botToken, outcome, `{"outcome":true}`, "invalid_parameter"},
		{botToken, outcome, `{"outcome":"failed","outcome":"succeeded"}`, "invalid_json"},
		{botToken, outcome, `{"outcome":"failed","by":"hana"}`, "unknown_field"},
		{botToken, outcome, `{"outcome":"failed"}`, "invalid_parameter"}, // it was not dispatched
		{hanaToken, cancel, `{"why":1}`, "unknown_field"},
		{hanaToken, cancel, `[]`, "invalid_json"},
		{hanaToken, cancel, `{"reason":"` + strings.Repeat("x", approval.MaxReason+1) + `"}`, "invalid_parameter"},
		{botToken, "/v1/approvals/ack", `{}`, "invalid_parameter"},
		{botToken, "/v1/approvals/ack", `{"ids":"x"}`, "invalid_parameter"},
		{botToken, "/v1/approvals/ack", `{"ids":[1]}`, "invalid_parameter"},
		{botToken, "/v1/approvals/ack", `{"ids":[null]}`, "invalid_parameter"},
		{botToken, "/v1/approvals/ack", `{"ids":["a"],"all":true}`, "unknown_field"},
		{botToken, "/v1/approvals/ack", `{"ids":[` + strings.Repeat(`"x",`, 1000) + `"x"]}`, "invalid_parameter"},
		{botToken, "/v1/calls/batch", `{}`, "invalid_parameter"},
		{botToken, "/v1/calls/batch", `{"calls":{}}`, "invalid_parameter"},
		{botToken, "/v1/calls/batch", `[]`, "invalid_json"},
	} {
		w.do(tt.token, "POST", tt.path, tt.body).is(400, tt.code)
	}
	if r := w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200); r.str("status") != "pending" {
		t.Error("a refused body was acted on")
	}
}

func TestAnUnknownFieldIsNamedSafely(t *testing.T) {
	w := newWorld(t)
	for field, want := range map[string]string{"bogus": "bogus is not a known field.",
		"a\u202eb": "a⟨U+202E⟩b is not a known field."} {
		if r := w.do(botToken, "POST", "/v1/calls", `{"tool":"x","`+field+`":"s3cr3t"}`).is(400,
			"unknown_field"); r.str("detail") != want {
			t.Errorf("%s", r.body)
		}
	}
	r := w.do(botToken, "POST", "/v1/calls", `{"tool":"x","`+strings.Repeat("y", 5000)+`":1}`).is(400, "unknown_field")
	if len(r.str("detail")) > 200 {
		t.Errorf("the detail has %d bytes", len(r.str("detail")))
	}
}

func TestABodyIsJSONOfAtMostOneMebibyte(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	body := func(n int) string {
		b := `{"tool":"transfer","args":{"a":""}}`
		return strings.Replace(b, `""`, `"`+strings.Repeat("x", n-len(b))+`"`, 1)
	}
	w.do(botToken, "POST", "/v1/calls", body(1<<20)).is(202)
	w.do(botToken, "POST", "/v1/calls", body(1<<20+1)).is(413, "too_large")
	for _, path := range []string{"/v1/calls/batch", "/v1/approvals/ack", "/v1/approvals/" + id + "/cancel"} {
		w.do(botToken, "POST", path, body(1<<20+1)).is(413, "too_large")
	}
	w.do(hanaToken, "POST", "/v1/approvals/"+id+"/decide", body(1<<20+1)).is(413, "too_large")

	// Without a length it is found out while reading.
	req, _ := http.NewRequestWithContext(t.Context(), "POST", w.srv.URL+"/v1/calls",
		struct{ *bytes.Reader }{bytes.NewReader([]byte(body(1<<20 + 1)))})
	req.ContentLength = -1
	req.Header.Set("Authorization", "Bearer "+botToken)
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("a chunked body: got %d", resp.StatusCode)
	}

	for _, ct := range []string{"text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1",
		"application/problem+json", "junk;;", "", "text/json"} {
		w.do(botToken, "POST", "/v1/calls", transfer, "Content-Type", ct).is(415, "unsupported_media_type")
		w.do(hanaToken, "POST", "/v1/approvals/"+id+"/decide", `{"decision":"approve"}`, "Content-Type", ct).is(415,
			"unsupported_media_type")
		w.do(botToken, "POST", "/v1/approvals/"+id+"/cancel", `{}`, "Content-Type", ct).is(415, "unsupported_media_type")
	}
	for _, ct := range []string{"application/json; charset=utf-8", "application/json;charset=UTF-8", "Application/JSON"} {
		w.do(botToken, "POST", "/v1/calls", transfer, "Content-Type", ct).is(202)
	}
	w.do(botToken, "POST", "/v1/calls", transfer, "Content-Encoding", "gzip").is(415, "unsupported_media_type")
	w.do(botToken, "POST", "/v1/approvals/"+id+"/cancel", "", "Content-Type", "text/plain").is(200) // no body, no type
}

func TestWhenTheStoreFailsTheAnswerIs503AndNothingIsSaidOfWhy(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	nid := w.failNotification(id)
	failures := map[string]func(){
		"unavailable": func() {
			err := error(&approval.Error{Code: approval.CodeStoreUnavailable, Message: "The store cannot be written.",
				Err: errors.New("disk I/O error at /secret/path")})
			w.store.err.Store(&err)
		},
		"slow": func() { // nothing starts in time, however long or short that is
			w.store.err.Store(nil)
			w.store.slow.Store(true)
			w.rest.patience = time.Millisecond
		},
	}
	for name, fail := range failures {
		fail()
		for _, tt := range targets(id, nid) {
			token := hanaToken
			if strings.HasPrefix(tt.path, "/v1/calls") || strings.HasSuffix(tt.path, "resolved") || strings.HasSuffix(tt.path,
				"ack") {
				token = botToken
			}
			r := w.do(token, tt.method, tt.path, tt.body).is(503, "store_unavailable")
			if r.header.Get("Retry-After") == "" || bytes.Contains(r.body, []byte("secret")) {
				t.Errorf("%s: %s: %v %s", name, tt.path, r.header, r.body)
			}
		}
		w.store.slow.Store(false)
		w.rest.patience = testkit.Patience
	}
	if !strings.Contains(w.log.String(), "disk I/O error") {
		t.Error("the cause is not in the log")
	}
}

func TestAnInternalErrorIsLoggedOnceAndNotTold(t *testing.T) {
	w := newWorld(t)
	err := os.ErrPermission
	w.store.err.Store(&err)
	r := w.do(botToken, "POST", "/v1/calls", transfer, "X-Correlation-Id", "find-me").is(500, "internal")
	if strings.Contains(string(r.body), err.Error()) || !strings.Contains(r.str("detail"), "find-me") {
		t.Errorf("%s", r.body)
	}
	if n := strings.Count(w.log.String(), err.Error()); n != 1 || !strings.Contains(w.log.String(),
		"correlation_id=find-me") {
		t.Errorf("it is in the log %d times:\n%s", n, w.log)
	}
}

type panickingPolicy struct{ rules }

func (panickingPolicy) Evaluate(context.Context, approval.Call) approval.Verdict { panic("boom") }

func TestAPanicIsAnInternalErrorAndNotAYes(t *testing.T) {
	w := newWorld(t)
	if err := w.gate.SetPolicy(t.Context(), panickingPolicy{rules{byName, terms}}, nil); err != nil {
		t.Fatal(err)
	}
	w.do(botToken, "POST", "/v1/calls", transfer).is(500, "internal")
	if !strings.Contains(w.log.String(), "boom") {
		t.Error("it is not in the log")
	}
	w.do(hanaToken, "GET", "/v1/approvals", "").is(200)
}

// Nothing that is secret gets into an answer's details or the log.
func TestSecretsStayOutOfTheLogAndOfProblems(t *testing.T) {
	w := newWorld(t)
	const secret = "hunter2-hunter2-hunter2"
	for _, body := range []string{
		`{"tool":"transfer","args":{"password":"` + secret + `"}}`,
		`{"tool":"transfer","args":{"password":"` + secret + `","password":"` + secret + `"}}`,
		`{"tool":"transfer","args":{"password":"` + secret + `"`,
		`{"tool":"transfer","args":"` + secret + `"}`,
		`{"tool":"transfer","bogus":"` + secret + `"}`,
		`{"tool":"` + secret + `!"}`,
	} {
		if r := w.do(botToken, "POST", "/v1/calls", body); r.status >= 400 && bytes.Contains(r.body, []byte(secret)) {
			t.Errorf("%s", r.body)
		}
	}
	w.do(botToken, "GET", "/v1/approvals/resolved?session_id="+secret, "").is(200)
	w.do("wrong-"+secret, "POST", "/v1/calls", transfer).is(401)
	for _, s := range []string{secret, botToken} {
		if strings.Contains(w.log.String(), s) {
			t.Errorf("%s is in the log", s)
		}
	}
	if !strings.Contains(w.log.String(), "path=/v1/approvals/resolved") {
		t.Error("requests are not logged")
	}
}

func TestAnAgentSeesNoOtherRequestInAProblem(t *testing.T) {
	x := func(who approval.Actor, of string) bool {
		rec := recorder{header: http.Header{"X-Correlation-Id": {"c"}}}
		req, _ := http.NewRequest("GET", "/", nil)
		New(Options{}).writeProblem(&exchange{ResponseWriter: &rec, r: req, who: auth.Caller{Actor: who}},
			&approval.Error{Code: approval.CodeExpired, Message: "m", Request: &approval.Request{ID: "x", Agent: of,
				Args: []byte("{}")}})
		return bytes.Contains(rec.Bytes(), []byte(`"approval"`))
	}
	bot := approval.Actor{Kind: approval.Agent, Name: "bot"}
	if !x(bot, "bot") || x(bot, "other") || !x(approval.Actor{Kind: approval.Human, Name: "bot"}, "other") ||
		x(approval.Actor{}, "") {
		t.Error("a request was shown to the wrong one")
	}
}

type recorder struct {
	bytes.Buffer
	header http.Header
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(int)     {}

func TestABodyThatBreaksOffIsNotActedOn(t *testing.T) {
	w := newWorld(t)
	conn, err := net.Dial("tcp", w.srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, "POST /v1/calls HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+botToken+
		"\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"+transfer)
	w.eventually("it is read", func() bool { return w.active.Load() == 1 })
	conn.Close()
	w.idle()
	if n := len(w.do(hanaToken, "GET", "/v1/approvals", "").is(200).list("approvals")); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

// An answer that has begun and cannot be finished must not look whole.
func TestAPanicInMidAnswerBreaksTheConnection(t *testing.T) {
	s := bare()
	srv := httptest.NewServer(s.handler(&route{public: true, handle: func(_ context.Context, x *exchange) error {
		x.WriteHeader(200)
		io.WriteString(x, "half")
		panic("boom")
	}}))
	defer srv.Close()
	resp, err := srv.Client().Get(srv.URL)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if err == nil {
		t.Error("the answer looks whole")
	}
}

// A body that ends before its length, from a client that closed its half and reads on, must not be
// answered with the 200 that an answer left out would be.
func TestRule1_ABodyCutShortIsNoYes(t *testing.T) {
	w := newWorld(t)
	c, err := net.Dial("tcp", strings.TrimPrefix(w.srv.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/calls HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"tool\":\"read_file\"}", botToken)
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 400 || res.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("answered %s %s", res.Status, res.Header.Get("Content-Type"))
	}
}

// Somebody who is removed while the body of their decision is still on its way decides nothing.
func TestRule5_ARemovedPersonsSlowDecisionDoesNotCount(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	pr, pw := io.Pipe()
	req, err := http.NewRequest("POST", w.srv.URL+"/v1/approvals/"+id+"/decide", pr)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+kenToken)
	req.Header.Set("Content-Type", "application/json")
	done := make(chan int, 1)
	go func() {
		res, err := w.srv.Client().Do(req)
		if err != nil {
			t.Error(err)
			done <- 0
			return
		}
		res.Body.Close()
		done <- res.StatusCode
	}()
	pw.Write([]byte(`{"decision":`))
	w.eventually("the request is being read", func() bool { return w.active.Load() == 1 })
	w.dir.Replace(agentsConfigured, peopleConfigured[:1]) // ken is gone from the configuration
	pw.Write([]byte(`"approve"}`))
	pw.Close()
	if status := testkit.Receive(t, "the answer", done); status != 401 {
		t.Errorf("answered %d", status)
	}
	if r, err := w.gate.Request(t.Context(), approval.Actor{Kind: approval.Human}, id); err != nil ||
		r.Status != approval.Pending {
		t.Errorf("%s, %v", r.Status, err)
	}
}
