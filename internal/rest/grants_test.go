package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/budget"
)

const pay = `{"tool":"pay","args":{"cents":2000,"to":"abc"},"session_id":"s1"}`

// longer decides a request and gives the decision for longer.
func (w *world) longer(token, id, decision, wish string) reply {
	w.t.Helper()
	return w.do(token, "POST", "/v1/approvals/"+id+"/decide", `{"decision":"`+decision+`","reason":"ok","grant":`+wish+`}`)
}

// granted has bot's call approved for longer, uses the approval, and returns the id of the grant.
func (w *world) granted(call, wish string) string {
	w.t.Helper()
	r := w.longer(hanaToken, w.ask(call), "approve", wish).is(200)
	if got := w.do(botToken, "POST", "/v1/calls", call).is(200); got.str("decision") != "approved" ||
		got.at("grant_id") != nil {
		w.t.Fatalf("the approved call itself: %s", got.body)
	}
	return r.str("grant", "id")
}

const grantMembers = `"agent":"bot","scope":"","server":"","tool":"pay","args":{"cents":2000,"to":"abc"},"vary":{},"any_args":false,"spent":{},
	"rule":"asks","risk_level":"medium","made_by":"hana","who":"hana","via":"api","reason":"ok","made_at":"2026-11-21T10:00:00.000Z"`

func TestAnApprovalIsGivenForLonger(t *testing.T) {
	w := newWorld(t)
	request := w.ask(pay)
	r := w.longer(hanaToken, request, "approve", `{"for":"8h","uses":2,"session":true}`).is(200)
	id, hash := r.str("grant", "id"), r.str("grant", "args_hash")
	want := `{"id":"` + id + `","decision":"approve",` + grantMembers + `,"args_hash":"` + hash +
		`","session_id":"s1","request_id":"` + request + `",
		"expires_at":"2026-11-21T18:00:00.000Z","uses":2,"used":0,"suspended_at":null,"ended_at":null,"ended_by":null,"end_code":null}`
	like(t, "the grant", r.at("grant"), want)
	like(t, "the same by its id", w.do(kenToken, "GET", "/v1/grants/"+id, "").is(200).object(), want)
	like(t, "the same by the end of its id", w.do(kenToken, "GET", "/v1/grants/"+strings.ToLower(approval.Short(id)),
		"").is(200).object(), want)
	if got := w.do(botToken, "POST", "/v1/calls", pay).is(200); got.str("decision") != "approved" {
		t.Errorf("the approved call itself: %s", got.body)
	}

	got := w.do(botToken, "POST", "/v1/calls", pay).is(200)
	like(t, "a call that it covers", got.object(), `{"decision":"allow","grant_id":"`+id+
		`","message":"Allowed: hana approved this for this session (1 use left).",
		"risk_level":"medium","rule":"asks","reason_code":"granted","resolved_by":"hana","resolve_reason":"ok"}`)
	other := strings.Replace(pay, "s1", "s2", 1)
	w.do(botToken, "POST", "/v1/calls", other).is(202)
	if got := w.do(botToken, "POST", "/v1/calls", pay).is(200); got.str("grant_id") != id {
		t.Errorf("the last use: %s", got.body)
	}
	w.do(botToken, "POST", "/v1/calls", strings.Replace(pay, "2000", "2001", 1)).is(202)
	if got := w.do(kenToken, "GET", "/v1/grants/"+id, "").is(200); got.str("end_code") != "used_up" ||
		got.at("used") != json.Number("2") {
		t.Errorf("afterwards: %s", got.body)
	}
}

func TestWhatMayVaryIsToldOfAGrant(t *testing.T) {
	w := newWorld(t)
	tip := func(cents int) string { return fmt.Sprintf(`{"tool":"tip","args":{"cents":%d,"to":"abc"}}`, cents) }
	id := w.granted(tip(100), `{"for":"30m"}`)
	if got := w.do(botToken, "POST", "/v1/calls",
		tip(450)).is(200); got.str("message") != "Allowed: hana approved this for 30 minutes." {
		t.Errorf("got %s", got.body)
	}
	w.do(botToken, "POST", "/v1/calls", tip(501)).is(202)
	g := w.do(botToken, "GET", "/v1/grants/"+id, "").is(200)
	like(t, "vary", g.at("vary"), `{"cents":{"at_most":"500","total":"1000"},"memo":{"any":true}}`)
	like(t, "spent", g.at("spent"), `{"cents":"450"}`)
	like(t, "uses", g.at("uses"), `null`)
}

func TestAGrantThatMayNotBeLeavesAllUndecided(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		call, decision, wish string
		status               int
		code                 approval.Code
	}{
		{transfer, "approve", `{"for":"8h"}`, 422, "grant_refused"},
		{`{"tool":"deploy"}`, "approve", `{"for":"8h"}`, 422, "grant_refused"},
		{`{"tool":"wire"}`, "approve", `{"for":"8h"}`, 422, "grant_refused"},
		{pay, "approve", `{"for":"25h"}`, 422, "grant_refused"},
		{pay, "deny", `{"for":"25h"}`, 422, "grant_refused"},
		{`{"tool":"pay"}`, "approve", `{"session":true}`, 422, "grant_refused"},
		{pay, "approve", `{}`, 400, "invalid_parameter"},
		{pay, "approve", `{"session":false}`, 400, "invalid_parameter"},
		{pay, "approve", `{"for":null,"uses":null,"session":null}`, 400, "invalid_parameter"},
		{pay, "approve", `{"for":"8"}`, 400, "invalid_parameter"},
		{pay, "approve", `{"for":8}`, 400, "invalid_parameter"},
		{pay, "approve", `{"for":"0s"}`, 400, "invalid_parameter"},
		{pay, "approve", `{"for":"-1h"}`, 400, "invalid_parameter"},
		{pay, "approve", `{"uses":0}`, 400, "invalid_parameter"},
		{pay, "approve", `{"uses":-1}`, 400, "invalid_parameter"},
		{pay, "approve", `{"uses":1.5}`, 400, "invalid_parameter"},
		{pay, "approve", `{"uses":"2"}`, 400, "invalid_parameter"},
		{pay, "approve", `{"uses":10001}`, 400, "invalid_parameter"},
		{pay, "approve", `{"uses":99999999999999999999}`, 400, "invalid_parameter"},
		{pay, "approve", `{"session":"yes"}`, 400, "invalid_parameter"},
		{pay, "approve", `"8h"`, 400, "invalid_parameter"},
		{pay, "approve", `["8h"]`, 400, "invalid_parameter"},
		{pay, "approve", `{"For":"8h"}`, 400, "unknown_field"},
		{pay, "approve", `{"for":"8h","for":"1h"}`, 400, "invalid_json"},
		{pay, "approve", `{"until":"8h"}`, 400, "unknown_field"},
	} {
		id := w.ask(tt.call)
		r := w.longer(hanaToken, id, tt.decision, tt.wish).is(tt.status, tt.code)
		if got := w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200); got.str("status") != "pending" {
			t.Errorf("%s of %s: the request is %s", tt.wish, tt.call, got.str("status"))
		}
		if tt.code == "grant_refused" && !strings.HasPrefix(r.str("detail"), "Nothing was decided. ") {
			t.Errorf("%s of %s: the detail is %s", tt.wish, tt.call, r.str("detail"))
		}
		w.do(botToken, "POST", "/v1/approvals/"+id+"/cancel", "").is(200)
	}
	if got := w.do(hanaToken, "GET", "/v1/grants?all=true", "").is(200); len(got.list("grants")) != 0 {
		t.Errorf("there are grants: %s", got.body)
	}
	// null is as good as absent.
	if r := w.longer(hanaToken, w.ask(pay), "approve", "null").is(200); r.at("grant") != nil {
		t.Errorf("got %s", r.body)
	}
}

func TestOfSeveralDecisionsEachIsGivenForLongerOrRefused(t *testing.T) {
	w := newWorld(t)
	one, two := w.ask(pay), w.ask(transfer)
	r := w.do(hanaToken, "POST", "/v1/approvals/decide", `{"ids":["`+one+`","`+two+
		`"],"decision":"approve","grant":{"for":"1h"}}`).is(200)
	results := r.list("results")
	if g, _ := results[0]["grant"].(map[string]any); g["request_id"] != one {
		t.Errorf("the first: %v", results[0])
	}
	if e, _ := results[1]["error"].(map[string]any); e["code"] != "grant_refused" {
		t.Errorf("the second: %v", results[1])
	}
	w.do(hanaToken, "POST", "/v1/approvals/decide", `{"ids":["`+two+`"],"decision":"approve","grant":{}}`).is(400,
		"invalid_parameter")
}

func TestAStandingDenialIsMadeToldAndLifted(t *testing.T) {
	w := newWorld(t)
	request := w.ask(transfer) // whose rule allows no grant
	r := w.longer(kenToken, request, "deny", `{"for":"8h"}`).is(200)
	id := r.str("grant", "id")
	if r.str("grant", "decision") != "deny" || r.str("denied_by") != "ken" {
		t.Errorf("got %s", r.body)
	}
	w.clock.Advance(time.Hour) // longer than a denial is remembered
	got := w.do(botToken, "POST", "/v1/calls", transfer).is(200)
	if got.str("decision") != "denied" || got.str("grant_id") != id || got.str("approval_id") != request ||
		got.str("resolved_by") != "ken" || got.at("run_id") != nil {
		t.Errorf("got %s", got.body)
	}
	w.do(meiToken, "DELETE", "/v1/approvals/"+request+"/denial", "").is(403, "not_admin")
	w.do(otherToken, "DELETE", "/v1/approvals/"+request+"/denial", "").is(404, "not_found")
	like(t, "lifted by the end of its id", w.do(kenToken, "DELETE", "/v1/approvals/"+approval.Short(id)+"/denial",
		"").is(200).object(),
		`{"id":"`+id+`","lifted":true}`)
	w.do(hanaToken, "DELETE", "/v1/approvals/"+id+"/denial", "").is(409, "already_resolved")
	w.do(botToken, "POST", "/v1/calls", transfer).is(202)
	if got := w.do(botToken, "GET", "/v1/grants/"+id, "").is(200); got.str("end_code") != "lifted" ||
		got.str("ended_by") != "ken" {
		t.Errorf("afterwards: %s", got.body)
	}
}

func TestARememberedDenialIsLifted(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	w.do(kenToken, "DELETE", "/v1/approvals/"+id+"/denial", "").is(404, "not_found") // it is not denied
	w.decide(kenToken, id, "deny", "no").is(200)
	if got := w.do(botToken, "POST", "/v1/calls", transfer).is(200); got.str("decision") != "denied" ||
		got.at("grant_id") != nil {
		t.Errorf("got %s", got.body)
	}
	like(t, "lifted", w.do(kenToken, "DELETE", "/v1/approvals/"+approval.Short(id)+"/denial", "").is(200).object(),
		`{"id":"`+id+`","lifted":true}`)
	next := w.ask(transfer)
	before := w.do(hanaToken, "GET", "/v1/approvals/"+next, "").is(200).at("before")
	like(t, "what was said before", before, `{"request_id":"`+id+
		`","approved":false,"by":"ken","at":"2026-11-21T10:00:00.000Z","reason":"no"}`)
}

func TestGrantsAreListedForWhoMaySeeThem(t *testing.T) {
	w := newWorld(t)
	one := w.granted(pay, `{"for":"1h"}`)
	w.clock.Advance(time.Millisecond)
	two := w.granted(strings.Replace(pay, "abc", "def", 1), `{"uses":1}`)
	ids := func(token, query string) string {
		var got []string
		for _, g := range w.do(token, "GET", "/v1/grants"+query, "").is(200).list("grants") {
			got = append(got, g["id"].(string))
		}
		return strings.Join(got, " ")
	}
	for _, tt := range []struct{ token, query, want string }{
		{hanaToken, "", two + " " + one}, {kenToken, "?agent=bot", two + " " + one}, {rootToken, "", two + " " + one},
		{hanaToken, "?agent=other", ""}, {botToken, "", two + " " + one}, {botToken, "?agent=bot", two + " " + one},
		{otherToken, "", ""}, {otherToken, "?agent=bot", ""}, {hanaToken, "?after=" + two, one},
	} {
		if got := ids(tt.token, tt.query); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.query, got, tt.want)
		}
	}
	first := w.do(hanaToken, "GET", "/v1/grants?limit=1", "").is(200)
	if first.str("next") != two || len(first.list("grants")) != 1 {
		t.Errorf("the first page: %s", first.body)
	}
	if next := w.do(hanaToken, "GET", "/v1/grants?limit=1&after="+two, "").is(200); next.at("next") != nil ||
		next.list("grants")[0]["id"] != one {
		t.Errorf("the next page: %s", next.body)
	}
	w.do(otherToken, "GET", "/v1/grants/"+one, "").is(404, "not_found")
	w.do(guestToken, "GET", "/v1/grants/"+one, "").is(403, "not_an_approver")
	w.do(botToken, "GET", "/v1/grants/"+approval.Short(one), "").is(404, "not_found") // agents name it in whole
	w.do(kenToken, "GET", "/v1/grants/"+one+"?bogus=1", "").is(400, "invalid_parameter")

	w.clock.Advance(time.Hour)
	if got := ids(hanaToken, ""); got != two {
		t.Errorf("an hour later: %s", got)
	}
	if got := ids(hanaToken, "?all=true"); got != two+" "+one {
		t.Errorf("ended ones too: %s", got)
	}
}

func TestAGrantIsRevoked(t *testing.T) {
	w := newWorld(t)
	id := w.granted(pay, `{"for":"1h"}`)
	w.do(kenToken, "DELETE", "/v1/grants/"+id, "").is(403, "not_admin")
	w.do(botToken, "DELETE", "/v1/grants/"+id, "").is(403, "people_only")
	w.do(otherToken, "DELETE", "/v1/grants/"+id, "").is(404, "not_found")
	r := w.do(rootToken, "DELETE", "/v1/grants/"+approval.Short(id), "").is(200)
	if r.str("id") != id || r.str("ended_by") != "root" || r.str("end_code") != "revoked" || r.str("ended_at") == "" {
		t.Errorf("got %s", r.body)
	}
	w.do(hanaToken, "DELETE", "/v1/grants/"+id, "").is(409, "already_resolved")
	w.do(botToken, "POST", "/v1/calls", pay).is(202)
}

func TestWhatAGrantLetThroughIsReportedUnderItsRun(t *testing.T) {
	w := newWorld(t)
	dispatched := strings.Replace(pay, `{"tool"`, `{"dispatch":true,"tool"`, 1)
	id := w.granted(pay, `{"for":"1h"}`)
	run := w.do(botToken, "POST", "/v1/calls", dispatched).is(200).str("run_id")
	report := func(token, run, ran string) reply {
		t.Helper()
		return w.do(token, "POST", "/v1/approvals/"+run+"/outcome", `{"outcome":"`+ran+`"}`)
	}
	report(otherToken, run, "failed").is(404, "not_found")
	report(hanaToken, run, "failed").is(403, "agents_only")
	report(botToken, run, "perhaps").is(400, "invalid_parameter")
	w.do(botToken, "POST", "/v1/approvals/"+run+"/outcome", "{").is(400, "invalid_json")
	w.do(otherToken, "POST", "/v1/approvals/"+run+"/outcome", "{").is(404, "not_found")
	w.do(botToken, "POST", "/v1/approvals/"+run+"/inputs", "{").is(400, "invalid_json")
	w.do(otherToken, "POST", "/v1/approvals/"+run+"/inputs", "{").is(404, "not_found")
	r := report(botToken, run, "unknown").is(200)
	like(t, "the use", r.object(), `{"id":"`+run+`","grant_id":"`+id+`","args_hash":"`+r.str("args_hash")+
		`","session_id":"s1",
		"at":"2026-11-21T10:00:00.000Z","dispatched_at":"2026-11-21T10:00:00.000Z","outcome":"unknown"}`)
	if g := w.do(hanaToken, "GET", "/v1/grants/"+id, "").is(200); g.str("suspended_at") == "" {
		t.Errorf("of the last use nobody knows what came: %s", g.body)
	}
	report(botToken, run, "succeeded").is(200)
	if g := w.do(hanaToken, "GET", "/v1/grants/"+id, "").is(200); g.at("suspended_at") != nil {
		t.Errorf("it is known: %s", g.body)
	}
	report(botToken, run, "failed").is(409, "already_resolved")
	report(botToken, id, "failed").is(404, "not_found") // the grant is no run
	if got := w.do(botToken, "POST", "/v1/calls", pay).is(200); got.str("grant_id") != id || got.at("run_id") != nil {
		t.Errorf("without dispatch: %s", got.body)
	}
}

func TestRevokingAndReportingAreNotRefusedForTheBudget(t *testing.T) {
	w := newBudgetWorld(t)
	id := w.granted(pay, `{"for":"1h"}`)
	kens := w.granted(strings.Replace(pay, "abc", "def", 1), `{"for":"1h"}`)
	run := w.do(botToken, "POST", "/v1/calls", strings.Replace(pay, `{"tool"`, `{"dispatch":true,"tool"`,
		1)).is(200).str("run_id")
	denial := w.longer(hanaToken, w.ask(asked(1)), "deny", `{"for":"1h"}`).is(200).str("grant", "id")
	w.limit(budget.Limits{Calls: perMinute(1)}, budget.Limits{Calls: perMinute(1)})
	w.do(botToken, "GET", "/v1/grants", "").is(200)
	w.do(botToken, "GET", "/v1/grants", "").is(429, "rate_limited")
	w.do(botToken, "POST", "/v1/approvals/"+run+"/outcome", `{"outcome":"succeeded"}`).is(200)
	w.do(botToken, "POST", "/v1/approvals/"+run+"/outcome", `{"outcome":"succeeded"}`).is(429, "rate_limited")
	w.do(botToken, "POST", "/v1/approvals/"+id+"/outcome", `{"outcome":"succeeded"}`).is(429, "rate_limited")
	w.do(hanaToken, "GET", "/v1/grants", "").is(200)
	w.do(hanaToken, "DELETE", "/v1/grants/"+id, "").is(200)
	w.do(hanaToken, "DELETE", "/v1/grants/"+id, "").is(429, "rate_limited")
	w.do(hanaToken, "DELETE", "/v1/grants/"+denial, "").is(429, "rate_limited") // which would let a call be asked about
	w.do(hanaToken, "DELETE", "/v1/approvals/"+denial+"/denial", "").is(429, "rate_limited")
	w.do(kenToken, "GET", "/v1/grants", "").is(200)
	w.do(kenToken, "DELETE", "/v1/grants/"+kens, "").is(429, "rate_limited") // hana's
}

func TestGrantsAreToldOfAsItHappens(t *testing.T) {
	w := newWorld(t)
	request := w.ask(pay)
	people, agent, guest, other := w.stream(t, kenToken, ""), w.stream(t, botToken, ""), w.stream(t, guestToken, ""),
		w.stream(t, otherToken, "")
	id := w.longer(hanaToken, request, "approve", `{"for":"1h"}`).is(200).str("grant", "id")
	w.do(botToken, "POST", "/v1/calls", pay).is(200)
	w.do(botToken, "POST", "/v1/calls", pay).is(200)
	w.do(hanaToken, "DELETE", "/v1/grants/"+id, "").is(200)
	denied := w.ask(asked(1))
	w.decide(kenToken, denied, "deny", "").is(200)
	w.do(kenToken, "DELETE", "/v1/approvals/"+denied+"/denial", "").is(200)
	for _, s := range []*events{people, agent} {
		s.expect("approval.resolved "+request, "grant.made "+id, "approval.consumed "+request)
		if ev := s.expect("grant.used " + id); ev.data["tool"] != "pay" {
			t.Errorf("the data is %v", ev.data)
		}
		s.expect("grant.ended "+id, "approval.requested "+denied, "approval.resolved "+denied, "approval.lifted "+denied)
	}
	guest.expect("approval.resolved "+request, "approval.consumed "+request, "approval.requested "+denied)
	others := w.do(otherToken, "POST", "/v1/calls", transfer).is(202).str("approval_id")
	other.expect("approval.requested " + others)
}

func TestWhatIsSaidOfTheToolAndTheAgentReachesThePolicy(t *testing.T) {
	w := newWorld(t)
	var got approval.Call
	seen := func(c approval.Call) approval.Verdict { got = c; return byName(c) }
	if err := w.gate.SetPolicy(context.Background(), rules{seen, terms}, nil); err != nil {
		t.Fatal(err)
	}
	w.do(botToken, "POST", "/v1/calls",
		`{"tool":"read_file","waits":true,"annotations":{"readOnly":true,"destructive":false,"openWorld":null}}`).is(200)
	a := got.Annotations
	if !got.Waits || got.Grouped || a == nil || a.ReadOnly == nil || !*a.ReadOnly || a.Destructive == nil ||
		*a.Destructive || a.Idempotent != nil || a.OpenWorld != nil {
		t.Errorf("got %+v, %+v", got, a)
	}
	w.do(botToken, "POST", "/v1/calls", `{"tool":"read_file","annotations":null}`).is(200)
	if got.Waits || got.Annotations != nil {
		t.Errorf("got %+v", got)
	}
	for body, code := range map[string]approval.Code{
		`{"waits":"yes"}`: "invalid_parameter", `{"annotations":true}`: "invalid_parameter",
		`{"annotations":{"readOnly":1}}`:                     "invalid_parameter",
		`{"annotations":{"read_only":true}}`:                 "unknown_field",
		`{"annotations":{"readOnly":true,"readOnly":false}}`: "invalid_json",
		`{"grouped":true}`:                                   "unknown_field",
	} {
		w.do(botToken, "POST", "/v1/calls", `{"tool":"read_file",`+body[1:]).is(400, code)
	}
}

// noted keeps what it is told of grants.
type noted struct {
	told []string
	err  error
}

func (n *noted) TellGranted(_ context.Context, g approval.Grant) error {
	n.told = append(n.told, g.ID)
	return n.err
}

func TestAdminsAreToldOfGrantsThatAreMadeHere(t *testing.T) {
	n := &noted{}
	w := newWorld(t, func(s *Server) { s.made = n })
	one := w.longer(hanaToken, w.ask(pay), "approve", `{"for":"8h"}`).is(200).str("grant", "id")
	n.err = errors.New("no chat") // and it holds all the same
	two := w.longer(hanaToken, w.ask(strings.Replace(pay, "abc", "def", 1)), "approve",
		`{"for":"8h"}`).is(200).str("grant", "id")
	w.longer(hanaToken, w.ask(transfer), "approve", `{"for":"8h"}`).is(422)
	if got := strings.Join(n.told, " "); got != one+" "+two {
		t.Errorf("told of %s, want %s and %s", got, one, two)
	}
}
