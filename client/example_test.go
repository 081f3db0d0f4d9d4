package client_test

import (
	"context"
	"encoding/json"
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
	srv := answering(200, map[string]string{"POST /v1/calls": `{"decision":"approved","message":"Approved by hana at 2026-11-21T10:00:00.000Z. Run it now; this approval is used.",
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

// A person decides; whoever comes second is told who was first.
func ExampleClient_Decide() {
	srv := answering(409, map[string]string{"POST /v1/approvals/01KAJ3Z0000000000000000000/decide": `{"type":"urn:countersign:problem:already_resolved",
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
