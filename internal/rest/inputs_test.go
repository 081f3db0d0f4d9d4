package rest

import (
	"strings"
	"testing"
)

// What a call's server is told after the approval is put on record by the call's own agent, while it is under way.
func TestRule11_InputsAreOnTheRequest(t *testing.T) {
	w := newWorld(t)
	const call = `{"tool":"transfer","args":{"n":1},"dispatch":true}`
	id := w.do(botToken, "POST", "/v1/calls", call).is(202).str("approval_id")
	path := "/v1/approvals/" + id
	const given = `{"method":"elicitation/create","message":"Which account?","answer":{"action":"accept","content":{"iban":"one","password":"hunter2-and-more"}}}`
	w.do(botToken, "POST", path+"/inputs", given).is(400, "invalid_parameter") // it is not under way
	w.do(hanaToken, "POST", path+"/decide", `{"decision":"approve"}`).is(200)
	w.do(botToken, "POST", "/v1/calls", call).is(200)
	if r := w.do(botToken, "GET", path, "").is(200); r.at("inputs") != nil {
		t.Errorf("got %v", r.at("inputs"))
	}
	w.do(botToken, "POST", path+"/inputs", given).is(200)
	w.do(otherToken, "POST", path+"/inputs", given).is(404, "not_found")
	w.do(hanaToken, "POST", path+"/inputs", given).is(403, "agents_only")
	w.do(botToken, "POST", path+"/inputs", `{"method":"x"}`).is(400, "invalid_parameter")
	w.do(botToken, "POST", path+"/inputs", `{"method":"","answer":{}}`).is(400, "invalid_parameter")
	r := w.do(hanaToken, "GET", path, "").is(200)
	list := r.list("inputs")
	if len(list) != 1 || list[0]["method"] != "elicitation/create" || list[0]["message"] != "Which account?" ||
		!strings.Contains(list[0]["answer"].(string), `"iban":"one"`) ||
		strings.Contains(list[0]["answer"].(string), "hunter2") {
		t.Errorf("got %v", list)
	}
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	w.do(botToken, "POST", path+"/inputs", `{"method":"`+secret+`","message":"`+secret+`","answer":{"a":"`+secret+
		`"}}`).is(200)
	if r := w.do(hanaToken, "GET", path, "").is(200); strings.Contains(string(r.body), secret) {
		t.Error("a secret is on the request")
	}
	w.do(botToken, "POST", path+"/outcome", `{"outcome":"succeeded"}`).is(200)
	w.do(botToken, "POST", path+"/inputs", given).is(400, "invalid_parameter") // it is over
	if es := w.do(hanaToken, "GET", "/v1/audit?event_type=call_input", "").is(200).list("events"); len(es) != 2 ||
		es[1]["approval_id"] != id {
		t.Errorf("in the audit log: %v", es)
	}
}
