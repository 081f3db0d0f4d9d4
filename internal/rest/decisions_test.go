package rest

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/budget"
	"countersign/internal/history/export"
)

const wireCall = `{"tool":"wire","args":{"cents":2000,"to":"abc"},"session_id":"s1"}`

// like fails unless got is the JSON that want is.
func like(t *testing.T, what string, got any, want string) {
	t.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(got)
	var g any
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("%s: got %s\nwant %s", what, b, want)
	}
}

const wireNeeds = `[{"group":"finance","count":2},{"approvers":["mei"],"count":1}]`

func TestAVoteThatIsNotTheLastLeavesTheRequestPending(t *testing.T) {
	w := newWorld(t)
	id := w.ask(wireCall)
	at := `"2026-11-21T10:00:00.000Z"`
	hanas := `{"stage":1,"person":"hana","for":null,"decision":"approve","reason":"ok","at":` + at +
		`,"via":"api","step_up":null}`
	kens := `{"stage":1,"person":"ken","for":null,"decision":"approve","reason":null,"at":` + at +
		`,"via":"api","step_up":null}`
	first := w.decide(hanaToken, id, "approve", "ok").is(200)
	like(t, "the first vote", first.object(), `{"id":"`+id+`","status":"pending","votes":[`+hanas+`],"needs":`+wireNeeds+
		`}`)
	w.decide(hanaToken, id, "approve", "").is(409, "already_voted")
	w.decide(meiToken, id, "approve", "").is(403, "not_your_stage")
	w.decide(rootToken, id, "approve", "").is(403, "not_an_approver")

	// An agent sees that it pends, and how far it is.
	r := w.do(botToken, "GET", "/v1/approvals/"+id, "").is(200)
	like(t, "an agent is told of votes at the end", r.at("votes"), `[]`)
	r = w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200)
	like(t, "votes", r.at("votes"), `[`+hanas+`]`)
	like(t, "needs", r.at("needs"), wireNeeds)
	w.do(botToken, "POST", "/v1/calls", wireCall).is(202)

	second := w.decide(kenToken, id, "approve", "").is(200)
	like(t, "the second vote", second.at("votes"), `[`+hanas+`,`+kens+`]`)
	last := w.decide(meiToken, id, "approve", "paid").is(200)
	like(t, "the last vote", last.object(), `{"id":"`+id+
		`","status":"approved","approved_by":"hana, ken and mei","approved_at":`+at+`,"reason":"paid"}`)
	r = w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200)
	if vs := r.list("votes"); len(vs) != 3 || vs[2]["person"] != "mei" || vs[2]["stage"] != json.Number("2") {
		t.Errorf("votes are %v", vs)
	}
	if got := w.do(botToken, "POST", "/v1/calls", wireCall).is(200).str("message"); !strings.HasPrefix(got,
		"Approved by hana, ken and mei at ") {
		t.Errorf("the agent is told %q", got)
	}
}

func TestAVoteOfWhoIsNoApproverAnyMoreIsNotCounted(t *testing.T) {
	w := newWorld(t)
	id := w.ask(wireCall)
	w.decide(hanaToken, id, "approve", "").is(200)
	people := slices.Clone(peopleConfigured)
	people[0].Groups = nil
	w.dir.Replace(agentsConfigured, people)
	r := w.decide(kenToken, id, "approve", "").is(200)
	if vs := r.list("votes"); len(vs) != 1 || vs[0]["person"] != "ken" {
		t.Errorf("the votes that count are %v", vs)
	}
}

func TestTheDecisionOfOnePersonIsTheOneVote(t *testing.T) {
	w := newWorld(t)
	pending, approved, denied := w.ask(asked(1)), w.ask(asked(2)), w.ask(asked(3))
	cancelled := w.ask(asked(4))
	w.decide(kenToken, approved, "approve", "").is(200)
	w.decide(kenToken, denied, "deny", "no").is(200)
	w.do(botToken, "POST", "/v1/approvals/"+cancelled+"/cancel", "").is(200)
	for id, want := range map[string]string{
		pending: `[]`, cancelled: `[]`,
		approved: `[{"stage":1,"person":"ken","for":null,"decision":"approve","reason":null,"at":"2026-11-21T10:00:00.000Z","via":"api","step_up":null}]`,
		denied:   `[{"stage":1,"person":"ken","for":null,"decision":"deny","reason":"no","at":"2026-11-21T10:00:00.000Z","via":"api","step_up":null}]`,
	} {
		r := w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200)
		like(t, r.str("status"), r.at("votes"), want)
		like(t, r.str("status"), r.at("needs"), `[{"count":1}]`)
	}
}

func TestWhatIsToBeConfirmedIsNotApprovedWithout(t *testing.T) {
	w := newWorld(t)
	const call = `{"tool":"close_books"}`
	id := w.ask(call)
	w.decide(kenToken, id, "approve", "").is(422, "confirm_required")
	w.do(kenToken, "POST", "/v1/approvals/"+id+"/decide", `{"decision":"approve","confirmed":null}`).is(422,
		"confirm_required")
	if got := w.do(kenToken, "GET", "/v1/approvals/"+id, "").str("status"); got != "pending" {
		t.Errorf("it is %s", got)
	}
	w.do(kenToken, "POST", "/v1/approvals/"+id+"/decide", `{"decision":"approve","confirmed":true}`).is(200)
	id = w.ask(`{"tool":"close_books","args":{"n":1}}`)
	w.decide(kenToken, id, "deny", "").is(200) // a denial needs none
}

func TestWhatTakesAPasskeyIsNotApprovedHere(t *testing.T) {
	w := newWorld(t)
	id := w.ask(`{"tool":"wipe"}`)
	path := "/v1/approvals/" + id
	if got := w.do(kenToken, "GET", path, "").is(200).str("step_up"); got != "passkey" {
		t.Errorf("step_up is %q", got)
	}
	for _, body := range []string{
		`{"decision":"approve"}`, `{"decision":"approve","confirmed":true,"reason":"checked"}`,
		`{"decision":"approve","args":{"n":1}}`,
		`{"decision":"approve","grant":{"for":"1h"}}`,
	} {
		w.do(kenToken, "POST", path+"/decide", body).is(403, "step_up_required")
	}
	for _, field := range []string{"proof", "step_up", "passkey", "proven"} {
		w.do(kenToken, "POST", path+"/decide", `{"decision":"approve","`+field+`":{}}`).is(400, "unknown_field")
	}
	many := w.do(kenToken, "POST", "/v1/approvals/decide", `{"ids":["`+id+`"],"decision":"approve","confirmed":true}`).is(
		200)
	if !strings.Contains(string(many.body), `"step_up_required"`) {
		t.Errorf("several at once: %s", many.body)
	}
	if got := w.do(kenToken, "GET", path, "").str("status"); got != "pending" {
		t.Errorf("it is %s", got)
	}
	w.decide(kenToken, id, "deny", "").is(200)
}

func TestOtherArgsCanBeApproved(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	path := "/v1/approvals/" + id + "/decide"
	for body, code := range map[string]approval.Code{
		`{"decision":"deny","args":{}}`:               "invalid_parameter",
		`{"decision":"approve","args":null}`:          "invalid_args",
		`{"decision":"approve","args":[]}`:            "invalid_args",
		`{"decision":"approve","args":{"a":1,"a":2}}`: "invalid_args",
	} {
		w.do(kenToken, "POST", path, body).is(400, code)
	}
	r := w.do(kenToken, "POST", path, `{"decision":"approve","args":{"cents":1000,"to":"abc"},"reason":"half"}`).is(200)
	next := r.str("id")
	if r.str("status") != "approved" || r.str("replaces") != id || next == id || r.str("approved_by") != "ken" {
		t.Errorf("the answer is %s", r.body)
	}
	was := w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200)
	if was.str("status") != "denied" || was.str("reason_code") != "edited" || was.str("replaced_by") != next ||
		len(was.list("votes")) != 0 {
		t.Errorf("what was asked for is %s", was.body)
	}
	if r := w.do(hanaToken, "GET", "/v1/approvals/"+next, ""); r.str("replaces") != id || r.str("status") != "approved" {
		t.Errorf("what took its place is %s", r.body)
	}
	// Who does not run other args is told which to ask for; who does gets them.
	denied := w.do(botToken, "POST", "/v1/calls", transfer).is(200)
	if denied.str("decision") != "denied" || denied.str("reason_code") != "edited" ||
		denied.str("message") != `Not as asked. ken approved these arguments instead: {"cents":1000,"to":"abc"}. Call again with exactly them.` {
		t.Errorf("got %s", denied.body)
	}
	run := w.do(botToken, "POST", "/v1/calls", strings.Replace(transfer, `{`, `{"accepts_edits":true,`, 1)).is(200)
	if run.str("decision") != "approved" || run.str("approval_id") != next || run.str("replaces") != id {
		t.Errorf("got %s", run.body)
	}
	like(t, "args", run.at("args"), `{"cents":1000,"to":"abc"}`)
}

func TestSeveralAreDecidedAtOnceEachByItself(t *testing.T) {
	w := newWorld(t)
	a, b, two, books, gone := w.ask(asked(1)), w.ask(asked(2)), w.ask(wireCall), w.ask(`{"tool":"close_books"}`),
		w.ask(asked(5))
	w.decide(kenToken, gone, "deny", "").is(200)
	ids, _ := json.Marshal([]string{a, unknownID, two, books, gone, strings.ToLower(b[20:]), a, "ZZZ", b[22:]})
	r := w.do(hanaToken, "POST", "/v1/approvals/decide", `{"ids":`+string(ids)+
		`,"decision":"approve","reason":"fine"}`).is(200)
	var got []string
	for _, each := range r.list("results") {
		if e, ok := each["error"].(map[string]any); ok {
			if e["type"] != "urn:countersign:problem:"+e["code"].(string) || e["detail"] == "" {
				t.Errorf("the problem is %v", e)
			}
			got = append(got, fmt.Sprint(each["id"], " ", e["status"], " ", e["code"]))
			continue
		}
		got = append(got, fmt.Sprint(each["id"], " ", each["status"]))
	}
	want := []string{a + " approved", unknownID + " 404 not_found", two + " pending", books + " 422 confirm_required",
		gone + " 409 already_resolved",
		b + " approved", a + " approved", "ZZZ 400 invalid_parameter", b[22:] + " 400 invalid_parameter"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for body, code := range map[string]approval.Code{
		`{"decision":"approve"}`: "invalid_parameter", `{"ids":[],"decision":"approve"}`: "invalid_parameter",
		`{"ids":["a"],"decision":"maybe"}`:             "invalid_parameter",
		`{"ids":["a"],"decision":"approve","args":{}}`: "unknown_field", `{"ids":[1],"decision":"deny"}`: "invalid_parameter",
		`{"ids":["` + strings.Repeat(`a","`, 100) + `"],"decision":"deny"}`: "invalid_parameter",
	} {
		w.do(hanaToken, "POST", "/v1/approvals/decide", body).is(400, code)
	}
	if r := w.do(guestToken, "POST", "/v1/approvals/decide", `{"ids":["`+two+
		`"],"decision":"deny"}`).is(200); r.list("results")[0]["error"] == nil {
		t.Errorf("who may not decide did: %s", r.body)
	}
}

func TestPeopleNameARequestByItsEnd(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	four, six := id[22:], strings.ToLower(id[20:])
	w.do(hanaToken, "GET", "/v1/approvals/"+four, "").is(200)
	w.do(hanaToken, "GET", "/v1/approvals/"+strings.ToLower(id), "").is(200)
	w.do(hanaToken, "GET", "/v1/approvals/"+four[1:], "").is(404, "not_found")
	w.do(botToken, "GET", "/v1/approvals/"+four, "").is(404, "not_found") // agents name requests whole
	w.do(hanaToken, "GET", "/v1/audit?approval_id="+four, "").is(200)
	w.do(hanaToken, "GET", "/v1/notifications?approval_id="+four, "").is(200)
	// An approval takes six.
	r := w.decide(kenToken, four, "approve", "").is(400, "invalid_parameter")
	if !strings.Contains(r.str("detail"), "last 6 characters") {
		t.Errorf("the detail is %q", r.str("detail"))
	}
	w.decide(guestToken, four, "approve", "").is(403, "not_an_approver")
	w.decide(kenToken, "ZZZZZZ", "approve", "").is(404, "not_found")
	if got := w.decide(kenToken, six, "approve", "").is(200).str("id"); got != id {
		t.Errorf("decided %s", got)
	}
	// One that was refused because it names nothing is on record.
	refused := w.do(hanaToken, "GET", "/v1/audit?event_type=decision_refused", "").list("events")
	if d, _ := refused[0]["data"].(map[string]any); len(refused) != 2 || d["approval_id"] != "ZZZZZZ" {
		t.Errorf("on record is %v", refused)
	}
}

func TestWhatSeveralIDsEndInDecidesNothing(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	end := id[20:]
	if err := w.store.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
		r, err := tx.Request(id)
		if err != nil {
			return err
		}
		r.ID, r.ArgsHash = id[:12]+"00000000"+end, strings.Repeat("0", 64)
		return tx.InsertRequest(r)
	}); err != nil {
		t.Fatal(err)
	}
	for _, decision := range []string{"approve", "deny"} {
		if r := w.decide(kenToken, end, decision, "").is(409, "ambiguous_id"); !strings.Contains(r.str("detail"), id) {
			t.Errorf("the detail is %q", r.str("detail"))
		}
	}
	w.do(kenToken, "GET", "/v1/approvals/"+end, "").is(409, "ambiguous_id")
	w.do(kenToken, "POST", "/v1/approvals/"+end+"/cancel", "").is(409, "ambiguous_id")
	r := w.do(kenToken, "POST", "/v1/approvals/decide", `{"ids":["`+end+`"],"decision":"deny"}`).is(200).list("results")
	if e, _ := r[0]["error"].(map[string]any); e["code"] != "ambiguous_id" {
		t.Errorf("got %v", r)
	}
	w.decide(kenToken, id, "approve", "").is(200) // a whole one is not looked up
}

func TestARequestGetsOneHourMoreOnce(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	events := w.stream(t, botToken, "")
	w.do(guestToken, "POST", "/v1/approvals/"+id+"/extend", "").is(403, "not_an_approver")
	w.do(botToken, "POST", "/v1/approvals/"+id+"/extend", "").is(403, "people_only")
	w.do(otherToken, "POST", "/v1/approvals/"+id+"/extend", "").is(404, "not_found")
	w.do(kenToken, "POST", "/v1/approvals/"+unknownID+"/extend", "").is(404, "not_found")
	w.do(kenToken, "POST", "/v1/approvals/"+id+"/extend", `{"by":"2h"}`).is(400, "unknown_field")
	if got := w.do(kenToken, "POST", "/v1/approvals/"+id[20:]+"/extend",
		"").is(200).str("expires_at"); got != "2026-11-21T12:00:00.000Z" {
		t.Errorf("it expires %s", got)
	}
	if ev := events.expect("approval.extended " + id); ev.data["expires_at"] != "2026-11-21T12:00:00.000Z" {
		t.Errorf("the data is %v", ev.data)
	}
	w.do(kenToken, "POST", "/v1/approvals/"+id+"/extend", "").is(409, "already_resolved")
	w.clock.Advance(2 * time.Hour)
	w.do(kenToken, "POST", "/v1/approvals/"+id+"/extend", "").is(410, "expired")
}

func TestPeopleAreToldOfVotesAndAgentsOfTheEnd(t *testing.T) {
	w := newWorld(t)
	people, agent := w.stream(t, kenToken, ""), w.stream(t, botToken, "")
	id := w.ask(wireCall)
	people.expect("approval.requested " + id)
	w.decide(hanaToken, id, "approve", "").is(200)
	if ev := people.expect("approval.voted " + id); ev.data["status"] != "pending" {
		t.Errorf("the data is %v", ev.data)
	}
	w.decide(kenToken, id, "deny", "").is(200)
	people.expect("approval.resolved " + id)
	agent.expect("approval.requested "+id, "approval.resolved "+id)
}

func TestRule6_AnAdminAcceptsTheClock(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	w.do(rootToken, "POST", "/v1/clock/accept", "").is(404, "not_found")
	w.clock.Advance(-time.Hour)
	w.do(botToken, "POST", "/v1/clock/accept", "").is(403, "people_only")
	w.do(kenToken, "POST", "/v1/clock/accept", "").is(403, "not_admin")
	like(t, "the answer", w.do(rootToken, "POST", "/v1/clock/accept", "").is(200).object(), `{"off_ms":-3600000}`)
	if r := w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200); r.str("status") != "cancelled" ||
		r.str("reason_code") != "clock_accepted" {
		t.Errorf("what waited is %s", r.body)
	}
}

func TestAnAdminErasesWhatRequestsSaid(t *testing.T) {
	w := newWorld(t)
	waits, over := w.ask(transfer), w.ask(wireCall)
	w.decide(kenToken, over, "deny", "").is(200)
	erase := func(token, body string) reply { return w.do(token, "POST", "/v1/erase", body) }
	one := `{"request":"` + over + `"}`
	erase(botToken, one).is(403, "people_only")
	erase(kenToken, one).is(403, "not_admin")
	erase(rootToken, `{}`).is(400, "invalid_parameter")
	erase(rootToken, `{"request":"`+over+`","agent":"bot"}`).is(400, "invalid_parameter")
	erase(rootToken, `{"request":"abc"}`).is(400, "invalid_parameter")
	erase(rootToken, `{"agent":"no body"}`).is(400, "invalid_parameter")
	erase(rootToken, `{"agent":"nobody"}`).is(404, "not_found")
	erase(rootToken, `{"request":"`+unknownID+`"}`).is(404, "not_found")
	erase(rootToken, `{"agent":"bot","after":"x"}`).is(400, "invalid_parameter")
	erase(rootToken, `{"request":"`+over+`","after":"`+over+`"}`).is(400, "invalid_parameter")
	like(t, "what is older", erase(rootToken, `{"agent":"bot","after":"`+waits+`"}`).is(200).object(),
		`{"requests":0,"kept":0}`)
	before := w.do(hanaToken, "GET", "/v1/approvals/"+over, "").is(200).object()
	like(t, "the answer", erase(rootToken, `{"request":"`+over[20:]+`"}`).is(200).object(), `{"requests":1,"kept":0}`)
	r := w.do(hanaToken, "GET", "/v1/approvals/"+over, "").is(200)
	for _, key := range []string{"args_hash", "status", "tool", "agent", "resolved_by", "resolved_at"} {
		if r.object()[key] != before[key] {
			t.Errorf("%s is %v, and was %v", key, r.object()[key], before[key])
		}
	}
	if r.str("human_message") != "" || r.object()["args"] != nil || r.str("args_removed_at") == "" ||
		strings.Contains(string(r.body), "amount") {
		t.Errorf("left is %s", r.body)
	}
	like(t, "all of the agent's", erase(rootToken, `{"agent":"bot"}`).is(200).object(), `{"requests":0,"kept":2}`)
	if got := w.do(hanaToken, "GET", "/v1/approvals/"+waits, "").is(200); got.object()["args"] == nil {
		t.Errorf("what waits has lost what it said: %s", got.body)
	}
	for kind, want := range map[string]int{"request_erased": 1, "decision_refused": 1} {
		events := w.do(rootToken, "GET", "/v1/audit?event_type="+kind, "").is(200)
		if n := strings.Count(string(events.body), `"`+kind+`"`); n != want {
			t.Errorf("on record are %d times %s: %s", n, kind, events.body)
		}
	}
}

func TestAFreezeDeniesEverythingUntilAnAdminLiftsIt(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	w.do(guestToken, "POST", "/v1/freeze", `{"reason":"r"}`).is(403, "not_an_approver")
	w.do(kenToken, "POST", "/v1/freeze", `{"agent":"nobody","reason":"r"}`).is(404, "not_found")
	r := w.do(kenToken, "POST", "/v1/freeze", `{"agent":"bot","reason":"a leak"}`).is(200)
	const frozen = `{"agent":"bot","frozen":true,"frozen_at":"2026-11-21T10:00:00.000Z","frozen_by":"ken","via":"api","reason":"a leak"}`
	like(t, "the freeze", r.object(), frozen)
	like(t, "what is frozen", w.do(guestToken, "GET", "/v1/freeze", "").is(200).object(), `{"frozen":[`+frozen+`]}`)
	call := w.do(botToken, "POST", "/v1/calls", `{"tool":"read_file"}`).is(200)
	if call.str("decision") != "denied" || call.str("reason_code") != "frozen" || call.str("end_code") != "frozen" ||
		call.str("message") != "Frozen by ken: a leak. Nothing runs until a person lifts it; do not retry." {
		t.Errorf("a call of a frozen agent: %s", call.body)
	}
	w.do(otherToken, "POST", "/v1/calls", `{"tool":"read_file"}`).is(200)
	if r := w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200); r.str("status") != "cancelled" ||
		r.str("reason_code") != "frozen" || r.str("end_code") != "frozen" || r.str("resolved_by") != "ken" {
		t.Errorf("what waited is %s", r.body)
	}
	w.do(kenToken, "DELETE", "/v1/freeze?agent=bot", "").is(403, "not_admin")
	w.do(rootToken, "DELETE", "/v1/freeze", "").is(404, "not_found")
	w.do(rootToken, "DELETE", "/v1/freeze?agent=a/b", "").is(400, "invalid_parameter")
	if r := w.do(rootToken, "DELETE", "/v1/freeze?agent=bot", "").is(200); r.at("frozen") != false {
		t.Errorf("lifted: %s", r.body)
	}
	w.do(kenToken, "POST", "/v1/freeze", `{}`).is(200) // all of them
	if got := w.do(otherToken, "POST", "/v1/calls", `{"tool":"read_file"}`).str("reason_code"); got != "frozen" {
		t.Errorf("got %s", got)
	}
	w.do(rootToken, "DELETE", "/v1/freeze?agent=", "").is(200)
}

func TestRule12_AFreezeIsNotRefusedUnlessItIsThere(t *testing.T) {
	w := newBudgetWorld(t)
	w.rest.budgets.Replace(map[budget.Principal]budget.Limits{{Name: "ken"}: {Calls: perMinute(1)}})
	id := w.ask(transfer)
	w.do(kenToken, "GET", "/v1/freeze", "").is(200)
	w.do(kenToken, "GET", "/v1/freeze", "").is(429, "rate_limited")
	w.do(kenToken, "POST", "/v1/freeze", `{"agent":"other","reason":"r"}`).is(200)
	w.do(kenToken, "POST", "/v1/freeze", `{"agent":"other","reason":"r"}`).is(429, "rate_limited")
	w.do(kenToken, "POST", "/v1/freeze", `{"agent":"nobody","reason":"r"}`).is(429, "rate_limited")
	one := `{"ids":["` + id + `"],"decision":`
	w.do(kenToken, "POST", "/v1/approvals/decide", one+`"approve"}`).is(429, "rate_limited")
	w.do(kenToken, "POST", "/v1/approvals/decide", one+`"deny"}`).is(200)
	w.do(kenToken, "POST", "/v1/approvals/decide", one+`"deny"}`).is(429, "rate_limited")
}

func TestOnePersonVotesForAnother(t *testing.T) {
	w := newWorld(t)
	w.do(hanaToken, "POST", "/v1/delegations", `{"to":"mei","until":"2026-11-21"}`).is(400, "invalid_parameter")
	w.do(hanaToken, "POST", "/v1/delegations", `{"to":"mei"}`).is(400, "invalid_parameter")
	w.do(hanaToken, "POST", "/v1/delegations", `{"until":"2026-11-22T00:00:00Z"}`).is(400, "invalid_parameter")
	w.do(kenToken, "POST", "/v1/delegations", `{"to":"mei","until":"2026-11-22T00:00:00Z","for":"hana"}`).is(403,
		"not_admin")
	r := w.do(rootToken, "POST", "/v1/delegations",
		`{"to":"mei","until":"2026-11-22T09:00:00+09:00","rule":"asks","for":"hana"}`).is(200)
	id := r.str("id")
	want := `{"id":"` + id +
		`","for":"hana","to":"mei","from":"2026-11-21T10:00:00.000Z","until":"2026-11-22T00:00:00.000Z","rule":"asks","rule_gone":false,
		"created_at":"2026-11-21T10:00:00.000Z","created_by":"root","ended_at":null,"ended_by":null}`
	like(t, "the delegation", r.object(), want)
	like(t, "all of them", w.do(guestToken, "GET", "/v1/delegations", "").is(200).object(), `{"delegations":[`+want+`]}`)
	wired := w.ask(wireCall)
	vote := w.decide(meiToken, wired, "approve", "").is(200).list("votes")[0]
	if vote["person"] != "mei" || vote["for"] != "hana" {
		t.Errorf("the vote is %v", vote)
	}
	if r := w.decide(kenToken, wired, "deny", "").is(200); r.str("denied_by") != "ken" {
		t.Errorf("denied by %s", r.body)
	}
	wired = w.ask(`{"tool":"wire","args":{"cents":1}}`)
	if r := w.decide(meiToken, wired, "deny", "no").is(200); r.str("denied_by") != "mei for hana" {
		t.Errorf("denied by %s", r.body)
	}
	said := w.do(botToken, "POST", "/v1/calls", `{"tool":"wire","args":{"cents":1}}`).is(200)
	if !strings.HasPrefix(said.str("message"), "Approval denied by mei for hana: no.") ||
		said.str("resolved_by") != "mei" {
		t.Errorf("the agent is told %s", said.body)
	}
	w.do(kenToken, "DELETE", "/v1/delegations/"+id, "").is(404, "not_found")
	if r := w.do(meiToken, "DELETE", "/v1/delegations/"+strings.ToLower(id[20:]), "").is(200); r.str("ended_by") != "mei" {
		t.Errorf("ended: %s", r.body)
	}
	w.do(hanaToken, "DELETE", "/v1/delegations/"+id, "").is(409, "already_resolved")
}

func TestTheAuditLogIsNarrowed(t *testing.T) {
	w := newWorld(t)
	one, two := w.ask(transfer), w.ask(asked(7))
	w.do(kenToken, "POST", "/v1/approvals/"+one+"/decide", `{"decision":"deny"}`, "X-Correlation-Id", "my-own").is(200)
	w.do(botToken, "POST", "/v1/calls", `{"tool":"read_file","session_id":"s2"}`).is(200)
	for query, want := range map[string]string{
		"actor=ken":                         "hitl_decision",
		"actor=agent:bot&session_id=s2":     "call_allowed",
		"approval_id=" + two:                "approval_requested",
		"session_id=s1":                     "hitl_decision approval_requested",
		"actor=nobody":                      "",
		"event_type=frozen&actor=ken":       "",
		"correlation_id=my-own&actor=ken":   "",
		"approval_id=" + one + "&actor=ken": "hitl_decision",
	} {
		var got []string
		for _, e := range w.do(rootToken, "GET", "/v1/audit?"+query, "").is(200).list("events") {
			if typ := e["event_type"].(string); !strings.HasPrefix(typ, "notification") {
				got = append(got, typ)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", query, got, want)
		}
	}
	for _, query := range []string{"actor=", "approval_id=abc", "session_id=" + strings.Repeat("x", 257), "format=xml",
		"format=csv&limit=3"} {
		w.do(rootToken, "GET", "/v1/audit?"+query, "").is(400, "invalid_parameter")
	}
}

// export reads an export whole.
func (w *world) export(query string, header ...string) reply {
	w.t.Helper()
	return w.do(rootToken, "GET", "/v1/audit?"+query, "", header...).is(200)
}

func TestAllThatMatchesIsExported(t *testing.T) {
	w := newWorld(t)
	const n = 2*exportPage + 7
	for i := range n {
		w.do(botToken, "POST", "/v1/calls", fmt.Sprintf(`{"tool":"read_file","args":{"n":%d}}`, i)).is(200)
	}
	w.ask(transfer)
	r := w.export("event_type=call_allowed&format=ndjson")
	if got := r.header.Get("Content-Type"); got != "application/x-ndjson" {
		t.Errorf("Content-Type is %q", got)
	}
	lines := strings.Split(strings.TrimSuffix(string(r.body), "\n"), "\n")
	var last map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || len(lines) != n {
		t.Fatalf("%d lines, want %d; the last is %v, %v", len(lines), n, last, err)
	}
	if d, _ := last["data"].(map[string]any); d["args"] != `{"n":0}` {
		t.Errorf("the oldest is %v", last)
	}
	r = w.export("event_type=call_allowed&format=csv")
	rows, err := csv.NewReader(strings.NewReader(string(r.body))).ReadAll()
	if err != nil || len(rows) != n+1 || !slices.Equal(rows[0], export.Head(export.Events)) {
		t.Fatalf("%d rows, want %d: %v", len(rows), n+1, err)
	}
	if rows[1][2] != "2026-11-21T10:00:00.000Z" || rows[1][5] != "agent:bot" {
		t.Errorf("a row is %q", rows[1])
	}
	if got := w.export("event_type=frozen&format=csv"); string(got.body) != strings.Join(export.Head(export.Events), ",")+
		"\n" {
		t.Errorf("nothing is exported as %q", got.body)
	}
	w.do(kenToken, "GET", "/v1/audit?format=csv", "").is(403, "not_admin")
}

func TestTheFormOfAnExportIsWhatTheClientTakesBest(t *testing.T) {
	for accept, want := range map[string]string{
		"": formatJSON, "*/*": formatJSON, "text/html": formatJSON, "text/csv": formatCSV,
		"application/x-ndjson":       formatNDJSON,
		"application/json, text/csv": formatJSON, "text/csv;q=0.5, application/json": formatJSON,
		"text/csv, */*;q=0.1": formatCSV,
		"text/csv;q=0":        formatJSON, "text/csv;q=x": formatJSON,
		"application/ndjson;q=0.9, text/csv;q=0.8": formatNDJSON,
	} {
		if got := chooseFormat([]string{accept}); got != want {
			t.Errorf("%q: got %s, want %s", accept, got, want)
		}
	}
	w := newWorld(t)
	w.ask(transfer)
	if got := w.export("", "Accept",
		"text/csv").header.Get("Content-Disposition"); got != `attachment; filename="audit.csv"` {
		t.Errorf("Content-Disposition is %q", got)
	}
	w.export("limit=1&format=json", "Accept", "text/csv").list("events")
}

func TestNoCellIsAFormula(t *testing.T) {
	w := newWorld(t)
	id := w.ask(transfer)
	w.decide(kenToken, id, "deny", `=HYPERLINK("http://x")`).is(200)
	rows, _ := csv.NewReader(strings.NewReader(string(w.export("event_type=hitl_decision&format=csv").body))).ReadAll()
	if got := rows[1][11]; got != `'=HYPERLINK("http://x")` {
		t.Errorf("the reason is %q", got)
	}
}

func TestAnExportThatCannotBeReadToItsEndBreaksOff(t *testing.T) {
	w := newWorld(t)
	for i := range exportPage + 1 {
		w.do(botToken, "POST", "/v1/calls", fmt.Sprintf(`{"tool":"read_file","args":{"n":%d}}`, i)).is(200)
	}
	views := 0
	failing := func(context.Context) error {
		if views++; views > 1 { // the first page is there
			return errors.New("disk I/O error")
		}
		return nil
	}
	w.store.view.Store(&failing)
	req, _ := http.NewRequestWithContext(t.Context(), "GET", w.srv.URL+"/v1/audit?format=ndjson", nil)
	req.Header.Set("Authorization", "Bearer "+rootToken)
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil || resp.StatusCode != 200 || strings.Count(string(b), "\n") != exportPage {
		t.Errorf("got %d with %d lines, and %v", resp.StatusCode, strings.Count(string(b), "\n"), err)
	}
	w.idle()
}

func TestAnExportEndsWhenTheServerStops(t *testing.T) {
	w := newWorld(t)
	w.ask(transfer)
	w.stop()
	w.do(rootToken, "GET", "/v1/audit?format=csv", "").is(503, "store_unavailable")
}

func TestAnExportEndsWithItsClient(t *testing.T) {
	w := newWorld(t)
	for i := range exportPage + 1 {
		w.do(botToken, "POST", "/v1/calls", fmt.Sprintf(`{"tool":"read_file","args":{"n":%d}}`, i)).is(200)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.rest.patience = time.Hour
	views := 0
	slow := func(ctx context.Context) error {
		if views++; views > 1 { // the second page takes its time
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	w.store.view.Store(&slow)
	req, _ := http.NewRequestWithContext(ctx, "GET", w.srv.URL+"/v1/audit?format=ndjson", nil)
	req.Header.Set("Authorization", "Bearer "+rootToken)
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	resp.Body.Close()
	w.idle()
}

func TestWhatARefusedFreezeOrDelegationNamesIsShortOnRecord(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("x", 5000)
	w.do(kenToken, "POST", "/v1/freeze", `{"agent":"`+long+`","reason":"r"}`).is(404, "not_found")
	for _, body := range []string{`{"to":"` + long, `{"to":"nobody","rule":"` + long, `{"for":"` + long + `","to":"ken`} {
		if r := w.do(kenToken, "POST", "/v1/delegations", body+`","until":"2026-11-22T00:00:00Z"}`); r.status < 400 {
			t.Errorf("taken: %s", r.body)
		}
	}
	w.do(kenToken, "POST", "/v1/delegations", `{"to":"mei","rule":"`+long+`","until":"2026-11-22T00:00:00Z"}`).is(400,
		"invalid_parameter")
	if r := w.do(rootToken, "GET", "/v1/audit", ""); strings.Contains(string(r.body), long) {
		t.Error("it is all on record")
	}
}

func TestRule12_WhoMayNotDecideDeniesWithinTheirBudget(t *testing.T) {
	w := newBudgetWorld(t)
	w.rest.budgets.Replace(map[budget.Principal]budget.Limits{{Name: "guest"}: {Calls: perMinute(1)}})
	id := w.ask(transfer)
	w.do(guestToken, "GET", "/v1/freeze", "").is(200)
	many := `{"ids":["` + id + `","` + strings.Join(slices.Repeat([]string{unknownID}, 50), `","`) +
		`"],"decision":"deny"}`
	w.do(guestToken, "POST", "/v1/approvals/decide", many).is(429, "rate_limited")
	w.decide(guestToken, id, "deny", "").is(429, "rate_limited")
}
