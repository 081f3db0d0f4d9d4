package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"countersign/client"
)

// answering is a server that gives the same answers every time; a real one is `countersign serve`.
func answering(status int, answers map[string]string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if status >= 400 {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.WriteHeader(status)
		fmt.Fprint(w, answers[r.Method+" "+r.URL.Path])
	}))
}

// An agent asks before it acts, waits a little for a person, and runs the call only if told to.
func ExampleClient_CallWait() {
	srv := answering(200,
		map[string]string{
			"POST /v1/calls": `{"decision":"approved","message":"Approved by hana at 2026-11-21T10:00:00.000Z. Run it now; this approval is used.",
		"risk_level":"high","rule":"","reason_code":"over_threshold","approval_id":"01KAJ3Z0000000000000000000","resolved_by":"hana"}`})
	defer srv.Close()
	c, err := client.New(srv.URL, "the-agents-own-token")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	args, _ := json.Marshal(map[string]any{"amount_cents": 2000, "to": "0xabc"})
	answer, err := c.CallWait(context.Background(), client.Call{Tool: "transfer_credits", Args: args}, 30*time.Second)
	switch {
	case err != nil:
		fmt.Println("not run:", err) // an error is never a yes
	case answer.MayRun():
		fmt.Println("run it:", answer.Message)
	default:
		fmt.Println("not run:", answer.Message)
	}
	// Output: run it: Approved by hana at 2026-11-21T10:00:00.000Z. Run it now; this approval is used.
}

// A turn with several calls asks about them at once, so that people get one card. What may run runs;
// every call gets its own answer, in order.
func ExampleClient_CallBatch() {
	srv := answering(200, map[string]string{"POST /v1/calls/batch": `{"results":[
		{"decision":"allow","message":"Allowed by policy.","risk_level":"low","rule":"reading","reason_code":"allowed"},
		{"decision":"pending","message":"⏳ Approval requested (id: 01KAJ3Z0000000000000000000). Money leaves the house.","risk_level":"high","rule":"",
			"reason_code":"approval_required","approval_id":"01KAJ3Z0000000000000000000","expires_at":"2026-11-21T10:30:00.000Z"}]}`})
	defer srv.Close()
	c, err := client.New(srv.URL, "the-agents-own-token")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	calls := []client.Call{
		{Tool: "read_file", Args: json.RawMessage(`{"path":"ledger.csv"}`), SessionID: "s1", TurnID: "t7"},
		{Tool: "transfer_credits", Args: json.RawMessage(`{"amount_cents":2000,"to":"0xabc"}`), SessionID: "s1",
			TurnID: "t7"},
	}
	answers, err := c.CallBatch(context.Background(), calls)
	if err != nil {
		log.Fatal(err) // none of them may run
	}
	for i, a := range answers {
		if a.MayRun() {
			fmt.Println("run", calls[i].Tool)
		} else {
			fmt.Println("not run:", a.Message)
		}
	}
	// Output:
	// run read_file
	// not run: ⏳ Approval requested (id: 01KAJ3Z0000000000000000000). Money leaves the house.
}

// What went wrong can be told apart: the server refused, with a code and a sentence, or it gave no
// answer. The call runs in neither case.
func ExampleError() {
	srv := answering(429,
		map[string]string{
			"POST /v1/calls": `{"type":"urn:countersign:problem:too_many_pending","title":"Too many pending","status":429,
		"detail":"20 requests of this agent are pending, as many as are allowed; wait for answers","code":"too_many_pending"}`})
	ask := func() {
		c, err := client.New(srv.URL, "the-agents-own-token")
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		_, err = c.Call(context.Background(), client.Call{Tool: "transfer_credits"})
		if e, ok := errors.AsType[*client.Error](err); ok {
			fmt.Println(e.Status, e.Code, "-", e.Detail)
		}
		fmt.Println("too many:", errors.Is(err, &client.Error{Code: "too_many_pending"}), "away:", client.Unreachable(err))
	}
	ask()
	srv.Close()
	ask()
	// Output:
	// 429 too_many_pending - 20 requests of this agent are pending, as many as are allowed; wait for answers
	// too many: true away: false
	// too many: false away: true
}

// A program beside the agent's loop hears of every ending as it comes. Each is acknowledged when the
// loop goes on to the next; one that the loop breaks at comes again.
func ExampleClient_Feed() {
	left := []string{"[APPROVAL APPROVED] deploy({}): approved by hana at 2026-11-21T10:00:00.000Z",
		"[APPROVAL EXPIRED] erase({}): Timed out after 60 minutes with no response."}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			left = left[1:]
			fmt.Fprint(w, `{}`)
		default:
			fmt.Fprintf(w, `{"approvals":[{"id":"%d","message":%q}]}`, len(left), left[0])
		}
	}))
	defer srv.Close()
	c, err := client.New(srv.URL, "the-agents-own-token")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	for a, err := range c.Feed(context.Background(), "s1") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(a.Message)
		if a.ID == "1" {
			break
		}
	}
	fmt.Println(len(left), "comes again")
	// Output:
	// [APPROVAL APPROVED] deploy({}): approved by hana at 2026-11-21T10:00:00.000Z
	// [APPROVAL EXPIRED] erase({}): Timed out after 60 minutes with no response.
	// 1 comes again
}

// A person decides; whoever comes second is told who was first.
func ExampleClient_Decide() {
	srv := answering(409,
		map[string]string{
			"POST /v1/approvals/01KAJ3Z0000000000000000000/decide": `{"type":"urn:countersign:problem:already_resolved",
		"title":"Already resolved","status":409,"detail":"Already denied by ken at 2026-11-21T10:00:00.000Z.","code":"already_resolved"}`})
	defer srv.Close()
	c, err := client.New(srv.URL, "the-persons-own-token")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	_, err = c.Decide(context.Background(), "01KAJ3Z0000000000000000000", client.Approve, "The rent is due.")
	if client.CodeOf(err) == "already_resolved" {
		fmt.Println(err)
	}
	// Output: already_resolved: Already denied by ken at 2026-11-21T10:00:00.000Z.
}

// An agent's loop tells its model at each turn how earlier requests ended.
func ExampleClient_Resolved() {
	srv := answering(200, map[string]string{
		"GET /v1/approvals/resolved": `{"approvals":[{"id":"01KAJ3Z0000000000000000000","status":"denied","message":
			"[APPROVAL DENIED] write_file({\"path\":\"/etc/hosts\"}): denied by hana at 2026-11-21T10:00:00.000Z: not there"}]}`,
		"POST /v1/approvals/ack": `{"acked":["01KAJ3Z0000000000000000000"],"not_resolved":[],"not_found":[]}`,
	})
	defer srv.Close()
	c, err := client.New(srv.URL, "the-agents-own-token")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ended, err := c.Resolved(context.Background(), "", 0)
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range ended {
		fmt.Println(a.Message)
		if _, err := c.Ack(context.Background(), a.ID); err != nil {
			log.Fatal(err)
		}
	}
	// Output: [APPROVAL DENIED] write_file({"path":"/etc/hosts"}): denied by hana at 2026-11-21T10:00:00.000Z: not there
}

// Events can be ranged over; a stream that breaks is taken up again.
func ExampleClient_Events() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: 7\nevent: approval.requested\ndata: {\"id\":\"01KAJ3Z0000000000000000000\",\"tool\":\"transfer_credits\",\"status\":\"pending\"}\n\n")
	}))
	defer srv.Close()
	c, err := client.New(srv.URL, "the-persons-own-token")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	for e, err := range c.Events(context.Background(), "") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.ID, e.Type, e.Approval.Tool)
		break
	}
	// Output: 7 approval.requested transfer_credits
}
